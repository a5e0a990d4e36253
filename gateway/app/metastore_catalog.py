"""The catalog of one Spark, for who changes tables of its metastore: others forget what they know of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gateway.catalog.live import LiveCatalog
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.session.ports import Catalog


class MetastoreCatalog:
    """Looks names up on one Spark, and has them forgotten on all with the same metastore."""

    def __init__(self, catalog: LiveCatalog, all_of_metastore: Callable[[], Iterable[Catalog]]) -> None:
        self._catalog = catalog
        self._all = all_of_metastore

    @property
    def snapshot(self) -> CatalogSnapshot:
        return self._catalog.snapshot

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        return await self._catalog.look_up(tables)

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        return await self._catalog.describe_anew(tables)

    @property
    def changed_names(self) -> ChangedNames:
        return self._catalog.changed_names

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        """Forget names on each Spark of the metastore."""
        for one in self._all():  # RULE (files-of-a-metastore)
            one.invalidate(tables, databases, by=by, stays=stays)

    def forget_all(self) -> None:
        for one in self._all():
            one.forget_all()

    async def databases(self, catalog: str) -> Sequence[str]:
        return await self._catalog.databases(catalog)

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        return await self._catalog.list_tables(catalog, database)

    def changes(self, catalog: str, database: str) -> int:
        return self._catalog.changes(catalog, database)
