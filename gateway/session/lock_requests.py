"""The names that a statement holds while it runs, and how gateways tell each other of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.model.catalog import TableName, namespaces_of
from gateway.model.decision import Decision
from gateway.model.statement import CatalogChanged, Cleared

_REWRITING = ("delete", "update")
"""What it takes to replace or delete files of a table."""

LockKey = tuple[str, ...]
"""A database by catalog and name, or a table by these and its own; folded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """The names that a statement needs to keep their meaning, and those whose meaning it changes."""

    shared: frozenset[LockKey] = frozenset()
    """Tables, and the databases of all tables here with the namespaces that these lie in: who drops one drops
    its tables."""
    exclusive: frozenset[LockKey] = frozenset()
    changes: tuple[CatalogChanged, ...] = ()
    rewritten: tuple[TableName, ...] = ()
    """Tables of which it may replace or delete files: who knows these files reads what is not there."""
    read_only: bool = False

    @classmethod
    def of(cls, cleared: Cleared, names: Iterable[TableName]) -> LockRequest:
        """Return what a statement locks that was judged by `names`."""
        changes = tuple(effect for effect in cleared.effects if isinstance(effect, CatalogChanged))
        changing = [effect for effect in changes if effect.meaning != "stays"]
        tables = {_key(name) for effect in changing for name in effect.tables}
        databases = {(c.lower(), d.lower()) for effect in changing for c, d in effect.databases}
        read = {_key(name) for name in names}
        # Who drops a namespace may drop those in it.
        inside = (*(key[:2] for key in tables | read), *databases)
        within: set[LockKey] = {(c, above) for c, database in inside for above in namespaces_of(database)}
        exclusive = frozenset[LockKey](tables | databases)
        return cls(
            shared=frozenset(read | within) - exclusive,
            exclusive=exclusive,
            changes=changes,
            rewritten=() if cleared.read_only else tuple(_rewrite(cleared.decisions)),
            read_only=cleared.read_only and not changes,
        )

    def covers(self, other: LockRequest) -> bool:
        """Whether who holds this may do what would ask for the other."""
        return (
            other.exclusive <= self.exclusive
            and other.shared <= self.shared | self.exclusive
            and (other.read_only or not self.read_only)
        )

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> LockRequest:
        """Return what is held here for a change that another gateway tells of. Raises KeyError, TypeError or
        ValueError."""
        exclusive = frozenset(tuple(str(part) for part in key) for key in told["exclusive"])
        return cls(exclusive=exclusive, changes=read_changes(told))

    def write_names(self, metastore: str) -> dict[str, Any]:
        """Write what others need to know of a change before it is made."""
        return {
            "metastore": metastore,
            "exclusive": sorted(list(key) for key in self.exclusive),
            "shared": sorted(list(key) for key in self.shared),
            "changes": self.write_changes(),
        }

    def write_changes(self) -> list[dict[str, Any]]:
        """Write what is changed."""
        written = [
            {
                "tables": [_parts(name) for name in change.tables],
                "databases": [list(database) for database in change.databases],
                "stays": change.meaning == "stays",
            }
            for change in self.changes
        ]
        if self.rewritten:
            tables = [_parts(name) for name in self.rewritten]
            written.append({"tables": tables, "databases": [], "stays": True})
        return written


def read_changes(told: Mapping[str, Any]) -> tuple[CatalogChanged, ...]:
    """Read what another gateway changes. Raises KeyError, TypeError or ValueError."""
    return tuple(
        CatalogChanged(
            tables=tuple(TableName(*parts) for parts in one["tables"]),
            databases=tuple((catalog, database) for catalog, database in one["databases"]),
            meaning="stays" if one["stays"] else "changes",
        )
        for one in told["changes"]
    )


def _rewrite(decisions: Iterable[Decision]) -> Iterator[TableName]:
    for request in (decision.request for decision in decisions):
        if request.access in _REWRITING and request.resource.kind == "table":
            parts = [value for _, value in request.resource.elements]
            yield TableName(*parts)


def _key(name: TableName) -> LockKey:
    return name.catalog.lower(), name.database.lower(), name.table.lower()


def _parts(name: TableName) -> list[str]:
    return [name.catalog, name.database, name.table]
