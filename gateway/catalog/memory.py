"""A catalog in the gateway's memory: for tests, and what the contract of all catalogs is written by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gateway.catalog.readable import (
    DatabaseAlreadyExists,
    DatabaseEntry,
    DatabaseNotEmpty,
    NoSuchDatabase,
    NoSuchTable,
    TableAlreadyExists,
    TableEntry,
    WithoutFunctions,
)
from gateway.model.catalog import TableKind
from gateway.model.closing import Closing


class MemoryCatalog(WithoutFunctions, Closing):
    """See WritableCatalog. Names are compared without regard to case, as Spark does."""

    def __init__(self, default_database: str = "default") -> None:
        self._databases: dict[str, DatabaseEntry] = {}
        self._tables: dict[str, dict[str, TableEntry]] = {}
        self._add(DatabaseEntry(name=default_database))

    async def databases(self) -> Sequence[str]:
        return sorted(database.name for database in self._databases.values())

    async def database(self, name: str) -> DatabaseEntry:
        found = self._databases.get(name.lower())
        if found is None:
            raise NoSuchDatabase(f"database `{name}` does not exist")
        return found

    async def tables(self, database: str) -> Sequence[str]:
        return self._list_names(database, TableKind.TABLE)

    async def views(self, database: str) -> Sequence[str]:
        return self._list_names(database, TableKind.VIEW)

    async def table(self, database: str, name: str) -> TableEntry:
        found = self._tables.get(database.lower(), {}).get(name.lower())
        if found is None:
            raise NoSuchTable(f"table `{database}.{name}` does not exist")
        return found

    async def create_database(self, database: DatabaseEntry, *, ignore_if_exists: bool = False) -> None:
        if database.name.lower() not in self._databases:
            self._add(database)
        elif not ignore_if_exists:
            raise DatabaseAlreadyExists(f"database `{database.name}` already exists")

    async def alter_database(
        self, name: str, changed: Mapping[str, str | None], *, ignore_if_not_exists: bool = False
    ) -> None:
        if name.lower() not in self._databases and ignore_if_not_exists:
            return
        database = await self.database(name)
        self._databases[name.lower()] = replace(
            database, properties=_merge_properties(database.properties, changed)
        )

    async def drop_database(
        self, name: str, *, ignore_if_not_exists: bool = False, cascade: bool = False
    ) -> None:
        if name.lower() not in self._databases:
            if ignore_if_not_exists:
                return
            raise NoSuchDatabase(f"database `{name}` does not exist")
        if self._tables[name.lower()] and not cascade:
            raise DatabaseNotEmpty(f"the database `{name}` has tables")
        del self._databases[name.lower()], self._tables[name.lower()]

    async def create_table(self, table: TableEntry, *, ignore_if_exists: bool = False) -> None:
        tables = await self._of(table.database)
        if table.name.lower() not in tables:
            tables[table.name.lower()] = table
        elif not ignore_if_exists:
            raise TableAlreadyExists(f"table `{table.database}.{table.name}` already exists")

    async def alter_table(
        self,
        database: str,
        name: str,
        changed: Mapping[str, str | None],
        *,
        ignore_if_not_exists: bool = False,
    ) -> None:
        if not await self._is_there(database, name, ignore_if_not_exists):
            return
        table = await self.table(database, name)
        properties = _merge_properties(table.properties, changed)
        self._tables[database.lower()][name.lower()] = replace(table, properties=properties)

    async def rename_table(
        self, database: str, name: str, to: str, *, ignore_if_not_exists: bool = False
    ) -> None:
        if not await self._is_there(database, name, ignore_if_not_exists):
            return
        tables = self._tables[database.lower()]
        if to.lower() in tables:
            raise TableAlreadyExists(f"table `{database}.{to}` already exists")
        tables[to.lower()] = replace(tables.pop(name.lower()), name=to)

    async def drop_table(self, database: str, name: str, *, ignore_if_not_exists: bool = False) -> None:
        if await self._is_there(database, name, ignore_if_not_exists):
            del self._tables[database.lower()][name.lower()]

    def _add(self, database: DatabaseEntry) -> None:
        self._databases[database.name.lower()] = database
        self._tables[database.name.lower()] = {}

    async def _of(self, database: str) -> dict[str, TableEntry]:
        await self.database(database)
        return self._tables[database.lower()]

    async def _is_there(self, database: str, name: str, ignored: bool) -> bool:
        there = name.lower() in self._tables.get(database.lower(), {})
        if not there and not ignored:
            raise NoSuchTable(f"table `{database}.{name}` does not exist")
        return there

    def _list_names(self, database: str, kind: TableKind) -> Sequence[str]:
        tables = self._tables.get(database.lower())
        if tables is None:
            raise NoSuchDatabase(f"database `{database}` does not exist")
        return sorted(table.name for table in tables.values() if table.kind is kind)


def _merge_properties(properties: Mapping[str, str], changed: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in {**properties, **changed}.items() if value is not None}
