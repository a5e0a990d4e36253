"""A catalog in the gateway's memory: databases without tables, which only this process knows."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.catalog.readable import (
    DatabaseAlreadyExists,
    DatabaseEntry,
    NoSuchDatabase,
    NoSuchTable,
    TableEntry,
    WithoutFunctions,
)
from gateway.model.closing import Closing


class MemoryCatalog(WithoutFunctions, Closing):
    """See WritableCatalog. Names are compared without regard to case, as Spark does."""

    def __init__(self, default_database: str = "default") -> None:
        self._databases = {default_database.lower(): DatabaseEntry(name=default_database)}

    async def databases(self) -> Sequence[str]:
        return sorted(database.name for database in self._databases.values())

    async def database(self, name: str) -> DatabaseEntry:
        found = self._databases.get(name.lower())
        if found is None:
            raise NoSuchDatabase(f"database `{name}` does not exist")
        return found

    async def tables(self, database: str) -> Sequence[str]:
        await self.database(database)
        return ()

    async def views(self, database: str) -> Sequence[str]:
        return await self.tables(database)

    async def table(self, database: str, name: str) -> TableEntry:
        raise NoSuchTable(f"table `{database}.{name}` does not exist")

    async def create_database(self, name: str) -> None:
        if name.lower() in self._databases:
            raise DatabaseAlreadyExists(f"database `{name}` already exists")
        self._databases[name.lower()] = DatabaseEntry(name=name)

    async def drop_database(self, name: str) -> None:
        await self.database(name)
        del self._databases[name.lower()]
