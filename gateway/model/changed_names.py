"""Names of the catalog that were changed, by generations: what has known a table since one of them is told
whether it knows it as it is.

One table for everybody, of bounded size: who asks keeps a number for each name.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gateway.model.catalog import TableName, namespaces_of

MAX_CHANGED_NAMES = 20_000
"""Names of which the last change is remembered; what is older counts as changed for all other names."""

NOBODY = 0
"""Who made a change that is no session's own."""

_Key = tuple[str, ...]
"""A database by catalog and name, or a table by these and its own; folded."""


class _Change(NamedTuple):
    """Generations of a name's last changes; 0: there was none."""

    last: int
    by: int
    """The session that made the last one."""
    others: int
    """The last one that this session did not make."""
    replaced: int
    """The last one after which the name may mean something else."""


_NONE = _Change(0, NOBODY, 0, 0)


class ChangedNames:
    """The last change of each name, and of all that was forgotten the latest."""

    def __init__(self, *, most: int = MAX_CHANGED_NAMES) -> None:
        self.generation = 0
        """Rises with every change."""
        self._changes: OrderedDict[_Key, _Change] = OrderedDict()
        self._most = most
        self._forgotten = 0
        """The latest generation of what is not remembered by name."""

    def note(
        self,
        tables: Iterable[TableName],
        databases: Iterable[tuple[str, str]] = (),
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        """Note a change of names, and of all that is in databases. `by` is the session whose Spark has made
        it, and so knows of it; with `stays` the names mean what they did, and rows, files or statistics are
        others."""
        self.generation += 1
        keys: list[_Key] = [_key(name) for name in tables]
        keys += [(catalog.lower(), database.lower()) for catalog, database in databases]
        for key in keys:
            was = self._changes.pop(key, _NONE)
            before = was.others if was.by == by else was.last  # RULE (own-changes-apart)
            self._changes[key] = _Change(
                last=self.generation,
                by=by,
                others=self.generation if by == NOBODY else before,
                replaced=was.replaced if stays else self.generation,
            )
        while len(self._changes) > self._most:
            _, change = self._changes.popitem(last=False)
            self._forgotten = max(self._forgotten, change.last)  # RULE (forgotten-is-changed)

    def note_all(self) -> None:
        """Note that any name may have changed, by nobody here."""
        self.generation += 1
        self._changes.clear()
        self._forgotten = self.generation

    def since(self, name: TableName, generation: int, *, by: int = NOBODY) -> bool:
        """Whether somebody else than the session `by` has changed the name after that generation."""
        return generation != self.generation and (
            self._forgotten > generation
            or any((one.others if one.by == by else one.last) > generation for one in self._of(name))
        )

    def was_replaced_since(self, name: TableName, generation: int) -> bool:
        """Whether the name may have come to mean something else after that generation, whoever did that."""
        return generation != self.generation and (
            self._forgotten > generation or any(one.replaced > generation for one in self._of(name))
        )

    def _of(self, name: TableName) -> Iterator[_Change]:
        key = _key(name)
        for one in (key, *((key[0], above) for above in namespaces_of(key[1]))):
            if one in self._changes:
                yield self._changes[one]


def _key(name: TableName) -> tuple[str, str, str]:
    return name.catalog.lower(), name.database.lower(), name.table.lower()
