"""The catalog as one user's statement sees it: tables of catalogs that restrict are known once these have
said what they restrict for the user.

INVARIANT (what a catalog restricts is not dropped): a table that was described and whose catalog was not
asked for this user is no more known than one that nobody has looked up, so that nothing over it is cleared.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, Protocol

from gateway.model.catalog import FUNCTION, CatalogSnapshot, Table, TableKind, TableName
from gateway.model.files import SESSION_CATALOG
from gateway.model.restrictions import SALT_BYTES, SALT_MARK, TableRestrictions
from gateway.model.statement import CatalogChanged, Cleared, Verdict
from gateway.model.table_formats import ICEBERG
from gateway.session.ports import Catalog

_KEEPING = ("Cache", "Checkpoint", "Stream")
"""In the names of plans by which Spark keeps rows, or computes more of them later."""


class RestrictionReader(NamedTuple):
    """Whom restrictions are asked for."""

    user: str
    groups: frozenset[str] = frozenset()


class RestrictionSource(Protocol):
    """Catalogs that restrict what a user may read of their tables."""

    @property
    def catalogs(self) -> frozenset[str]:
        """Names of the catalogs that are asked, lower case."""
        ...

    async def ask(
        self, reader: RestrictionReader, name: TableName, table: Table | None = None, *, anew: bool = False
    ) -> TableRestrictions:
        """Return what the table's catalog restricts for a user, in the name of ASKER: an answer of a moment
        ago, or one of now. No answer is a fault of the restrictions, and is never an error. `table`: as it
        was described, where that was not in another version alone."""
        ...


class RestrictedCatalog:
    """What is known while one statement is judged."""

    def __init__(self, source: RestrictionSource, catalog: Catalog, reader: RestrictionReader) -> None:
        self._source = source
        self._catalog = catalog
        self._reader = reader
        self._names = source.catalogs
        self._asked: dict[TableName, TableRestrictions] = {}
        self._salt = ""

    @property
    def salted(self) -> bool:
        """Whether something of the statement is another in each one: its clearance serves no other."""
        return bool(self._salt)

    def restrict(self, snapshot: CatalogSnapshot) -> CatalogSnapshot:
        """Return a snapshot whose tables have what restricts them; those that were not asked about are not in
        it. A table whose own properties close it stays closed, whatever is said of it."""
        if not self._names:
            return snapshot
        concerned = [name for name, table in snapshot.tables.items() if self._concerns(name, table)]
        if not concerned:
            return snapshot
        tables = dict(snapshot.tables)
        for name in concerned:
            own, told = tables[name].restrictions, self._asked.get(name.current)
            if told is None:  # RULE (restrictions-unasked)
                del tables[name]
            elif own is None or not own.fault:  # RULE (restrictions-own-fault)
                tables[name] = replace(tables[name], restrictions=told)
        return replace(snapshot, tables=tables)

    async def ask(self, names: Iterable[TableName], snapshot: CatalogSnapshot) -> CatalogSnapshot:
        """Ask about tables that a snapshot knows, and return it, or a newer one, with what restricts them."""
        source = self._source
        if not self._names:
            return snapshot
        folded = [name.fold() for name in names]
        found = {
            name.current for name in folded
            if (table := snapshot.tables.get(name)) is not None and self._concerns(name, table)
        } - self._asked.keys()  # fmt: skip
        if not found:
            return self.restrict(snapshot)
        answers = await asyncio.gather(
            *(source.ask(self._reader, name, snapshot.tables.get(name)) for name in sorted(found, key=str))
        )
        changed: list[TableName] = []
        for name, told in zip(sorted(found, key=str), answers, strict=True):
            self._asked[name] = self._with_salt(told)
            described = snapshot.tables.get(name)
            if described is not None and not _has_current_columns(described, told):
                changed.append(name)
        if changed:
            # One of the two is older than a change of the columns.
            await self._catalog.describe_anew(changed)
            snapshot = await self._catalog.look_up(folded)
            for name in changed:  # RULE (restricted-columns-of-now)
                table = snapshot.tables.get(name)
                self._asked[name] = self._with_salt(await source.ask(self._reader, name, table, anew=True))
        return self.restrict(snapshot)

    async def still_holds(self, tables: Iterable[Table]) -> bool:
        """Whether tables that something was judged by are restricted as they were then."""
        source = self._source
        concerned: list[Table] = []
        for table in tables:
            if self._concerns(table.name.fold(), table):
                concerned.append(table)
            elif table.restrictions is not None and table.restrictions.by_names:
                return False  # its metalake has no policies any more
        now_known = {table.name.fold(): table for table in concerned}
        told = await asyncio.gather(
            *(
                source.ask(self._reader, one, now_known.get(one))
                for one in (t.name.current.fold() for t in concerned)
            )
        )
        return all(table.restrictions == now for table, now in zip(concerned, told, strict=True))

    def _concerns(self, name: TableName, table: Table) -> bool:
        if name.catalog not in self._names:
            return False
        if table.kind is TableKind.VIEW or name.version == FUNCTION:
            return False
        # Spark's own catalog has tables of other formats as well, which no catalog of Iceberg's has.
        own = name.catalog == SESSION_CATALOG
        return not own or (table.provider or "").lower() == ICEBERG.name

    def _with_salt(self, told: TableRestrictions) -> TableRestrictions:
        if not told.is_query_local:
            return told
        # One for the whole statement: a value hashes alike wherever it is read in it.
        self._salt = self._salt or SALT_MARK + secrets.token_hex(SALT_BYTES).upper()
        return replace(told, salt=self._salt)


def explain_carried_salt(verdict: Verdict) -> str:
    """Say why something may not be kept that was made with the salt of one statement; empty: nothing is."""
    if not isinstance(verdict, Cleared):
        return ""
    carries = any(not isinstance(effect, CatalogChanged) for effect in verdict.effects)
    # RULE (salt-carried-over)
    if carries or any(word in verdict.plan_class for word in _KEEPING):
        return (
            "a catalog has a column hashed anew for each query (`sha-256-query-local`), so nothing that "
            "reads it can be kept for later ones: no temporary view, cache, variable, checkpoint or stream"
        )
    return ""


def _has_current_columns(table: Table, told: TableRestrictions) -> bool:
    if not told.schemas:
        return True
    names = [column.name for column in table.columns]
    return any(one.id == told.current_schema and one.names == names for one in told.schemas)
