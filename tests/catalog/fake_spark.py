"""A Spark without Spark: answers the catalog's own statements over a catalog in memory, and refuses as Spark.

A statement that is none of the templates fails the test: who changes a template says here what Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import DatabaseNotEmpty, TableEntry
from gateway.errors import SluiceError
from gateway.model.catalog import TableKind

Rows = Sequence[Sequence[Any]]
_NAME = r"`((?:[^`]|``)*)`"


class SparkRefuses(Exception):
    """As the gateway's backends raise it."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message


class FilledCatalog(MemoryCatalog):
    """A catalog in memory that has tables."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[TableEntry] = []

    async def tables(self, database: str) -> Sequence[str]:
        return await self._named(database, TableKind.TABLE)

    async def views(self, database: str) -> Sequence[str]:
        return await self._named(database, TableKind.VIEW)

    async def table(self, database: str, name: str) -> TableEntry:
        for one in self.entries:
            if (one.database, one.name) == (database, name):
                return one
        return await super().table(database, name)

    async def drop_database(self, name: str) -> None:
        if any(one.database == name for one in self.entries):
            raise DatabaseNotEmpty(f"the database `{name}` has tables")
        await super().drop_database(name)

    async def _named(self, database: str, kind: TableKind) -> Sequence[str]:
        await self.database(database)
        return sorted(one.name for one in self.entries if (one.database, one.kind) == (database, kind))


class FakeSpark:
    """Has one catalog, `lake`; `query` is what SparkSqlCatalog and LiveCatalog ask."""

    def __init__(self) -> None:
        self.memory = FilledCatalog()
        self.texts: list[str] = []
        self.functions: tuple[str, ...] = ()
        d, t = f"`lake`.{_NAME}", f"`lake`.{_NAME}.{_NAME}"
        self._templates: list[tuple[str, Callable[..., Awaitable[Rows]]]] = [
            ("SHOW DATABASES IN `lake`", self._databases),
            (f"DESCRIBE DATABASE EXTENDED {d}", self._describe_database),
            (f"SHOW NAMESPACES IN {d}", self._nested),
            (f"SHOW TABLES IN {d}", self._tables),
            (f"SHOW VIEWS IN {d}", self._views),
            (f"SHOW USER FUNCTIONS IN {d}", self._functions),
            (f"DESCRIBE TABLE EXTENDED {t} AS JSON", self._describe_json),
            (f"DESCRIBE TABLE EXTENDED {t}", self._describe),
            (f"SHOW TBLPROPERTIES {t}", self._properties),
            (f"REFRESH TABLE {t}", self._nothing),
            (f"DESCRIBE NAMESPACE {t}", self._nested),
            (f"CREATE DATABASE {d}", self._create_database),
            (f"DROP DATABASE {d} RESTRICT", self._drop_database),
        ]

    async def query(self, sql: str) -> Rows:
        self.texts.append(sql)
        for template, answer in self._templates:
            found = re.fullmatch(template, sql, re.DOTALL)
            if found is not None:
                try:
                    return await answer(*found.groups())
                except SluiceError as error:
                    sqlstate = {"SCHEMA_NOT_FOUND": "42704"}.get(error.code, error.sqlstate)
                    raise SparkRefuses(sqlstate, f"[{error.code}] {error.message}\n== SQL ==") from None
        raise AssertionError(f"no template: {sql}")

    async def _databases(self) -> Rows:
        return [(name,) for name in await self.memory.databases()]

    async def _describe_database(self, name: str) -> Rows:
        found = await self.memory.database(name)
        told = ", ".join(f"({key},{value})" for key, value in found.properties.items())
        return [
            ("Catalog Name", "lake"),
            ("Namespace Name", name),
            ("Comment", found.comment or ""),
            ("Owner", "sluice"),
            ("Properties", f"({told})" if told else ""),
        ]

    async def _tables(self, database: str) -> Rows:
        return [(database, name, False) for name in await self.memory.tables(database)]

    async def _views(self, database: str) -> Rows:
        return [(database, name, False) for name in await self.memory.views(database)]

    async def _functions(self, database: str) -> Rows:
        await self.memory.database(database)
        if not self.functions:
            raise SparkRefuses("0A000", "[MISSING_CATALOG_ABILITY.FUNCTIONS] no")
        return [(name,) for name in self.functions]

    async def _describe_json(self, database: str, name: str) -> Rows:
        await self.memory.table(database, name)
        raise SparkRefuses("0A000", "[NOT_SUPPORTED_COMMAND_FOR_V2_TABLE] no")

    async def _describe(self, database: str, name: str) -> Rows:
        found = await self.memory.table(database, name)
        rows: list[Sequence[Any]] = [(one.name, one.type, one.comment) for one in found.columns]
        if found.partitioning:
            rows += [("# Partitioning", "", "")]
            rows += [(f"Part {at}", part, "") for at, part in enumerate(found.partitioning)]
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [("Name", f"lake.{database}.{name}", ""), ("Type", "MANAGED", "")]
        rows += [("Comment", found.comment, "")] if found.comment else []
        rows += [("Provider", "iceberg", ""), ("Statistics", "77 bytes, 12 rows", "")]
        return rows

    async def _nothing(self, *_: str) -> Rows:
        return ()

    async def _nested(self, *_: str) -> Rows:
        raise SparkRefuses("42704", "[SCHEMA_NOT_FOUND] no")

    async def _properties(self, database: str, name: str) -> Rows:
        return list((await self.memory.table(database, name)).properties.items())

    async def _create_database(self, name: str) -> Rows:
        await self.memory.create_database(name)
        return ()

    async def _drop_database(self, name: str) -> Rows:
        await self.memory.drop_database(name)
        return ()
