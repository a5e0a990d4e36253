"""A Spark without Spark: answers the catalog's own statements over a catalog in memory, and refuses as Spark.

A statement that is none of the templates fails the test: who changes a template says here what Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import DatabaseEntry, TableEntry
from gateway.errors import SluiceError
from gateway.model.catalog import Column, TableKind

Rows = Sequence[Sequence[Any]]
_NAME = r"`((?:[^`]|``)*)`"
_TEXT = r"'((?:[^'\\]|\\.)*)'"
_PAIRS = r"\(((?:[^']|'(?:[^'\\]|\\.)*')*)\)"


class SparkRefuses(Exception):
    """As the gateway's backends raise it."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.message = message


def text_of(written: str) -> str:
    return re.sub(r"\\(.)", r"\1", written)


def pairs_of(written: str) -> dict[str, str | None]:
    return {text_of(key): text_of(value) for key, value in re.findall(f"{_TEXT} = {_TEXT}", written)}


class FakeSpark:
    """Has one catalog, `lake`; `query` is what SparkSqlCatalog and LiveCatalog ask."""

    def __init__(self) -> None:
        self.memory = MemoryCatalog()
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
            (
                f"CREATE DATABASE( IF NOT EXISTS)? {d}(?: COMMENT {_TEXT})?(?: WITH DBPROPERTIES {_PAIRS})?",
                self._create_database,
            ),
            (f"ALTER DATABASE {d} SET DBPROPERTIES {_PAIRS}", self._set_database),
            (f"ALTER DATABASE {d} UNSET DBPROPERTIES {_PAIRS}", self._unset_database),
            (f"DROP DATABASE( IF EXISTS)? {d} (RESTRICT|CASCADE)", self._drop_database),
            (
                rf"CREATE TABLE( IF NOT EXISTS)? {t} \((.*?)\)(?: USING (\w+))?"
                rf"(?: PARTITIONED BY \((.*?)\))?(?: COMMENT {_TEXT})?(?: TBLPROPERTIES {_PAIRS})?",
                self._create_table,
            ),
            (f"ALTER (TABLE|VIEW) {t} SET TBLPROPERTIES {_PAIRS}", self._set),
            (f"ALTER (TABLE|VIEW) {t} UNSET TBLPROPERTIES IF EXISTS {_PAIRS}", self._unset),
            (f"ALTER (TABLE|VIEW) {t} RENAME TO {_NAME}.{_NAME}", self._rename),
            (f"DROP (TABLE|VIEW)( IF EXISTS)? {t}", self._drop),
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

    async def _create_database(self, there: str, name: str, comment: str, pairs: str) -> Rows:
        told = {key: str(value) for key, value in pairs_of(pairs or "").items()}
        made = DatabaseEntry(name=name, comment=text_of(comment) if comment else None, properties=told)
        await self.memory.create_database(made, ignore_if_exists=bool(there))
        return ()

    async def _set_database(self, name: str, pairs: str) -> Rows:
        await self.memory.alter_database(name, pairs_of(pairs))
        return ()

    async def _unset_database(self, name: str, keys: str) -> Rows:
        await self.memory.alter_database(name, {text_of(key): None for key in re.findall(_TEXT, keys)})
        return ()

    async def _drop_database(self, there: str, name: str, how: str) -> Rows:
        await self.memory.drop_database(name, ignore_if_not_exists=bool(there), cascade=how == "CASCADE")
        return ()

    async def _create_table(self, there: str, *told: str) -> Rows:
        database, name, columns, provider, parts, comment, pairs = told
        listed = re.findall(rf"{_NAME} ([a-z<>(),0-9]+?)(?: COMMENT {_TEXT})?(?:, |$)", columns)
        made = TableEntry(
            database=database,
            name=name,
            columns=tuple(
                Column(name=column, type=kind, comment=text_of(said) or None) for column, kind, said in listed
            ),
            partitioning=tuple(part.replace("`", "") for part in (parts or "").split(", ") if part),
            provider=provider,
            comment=text_of(comment) if comment else None,
            properties={key: str(value) for key, value in pairs_of(pairs or "").items()},
        )
        await self.memory.create_table(made, ignore_if_exists=bool(there))
        return ()

    async def _set(self, kind: str, database: str, name: str, pairs: str) -> Rows:
        await self._is(kind, database, name)
        await self.memory.alter_table(database, name, pairs_of(pairs))
        return ()

    async def _unset(self, kind: str, database: str, name: str, keys: str) -> Rows:
        await self._is(kind, database, name)
        gone = {text_of(key): None for key in re.findall(_TEXT, keys)}
        await self.memory.alter_table(database, name, gone)
        return ()

    async def _rename(self, kind: str, database: str, name: str, into: str, to: str) -> Rows:
        assert into == database
        await self._is(kind, database, name)
        await self.memory.rename_table(database, name, to)
        return ()

    async def _drop(self, kind: str, there: str, database: str, name: str) -> Rows:
        if not there:
            await self._is(kind, database, name)
        await self.memory.drop_table(database, name, ignore_if_not_exists=bool(there))
        return ()

    async def _is(self, kind: str, database: str, name: str) -> None:
        found = await self.memory.table(database, name)
        if (found.kind is TableKind.VIEW) != (kind == "VIEW"):
            raise SparkRefuses("42809", "[EXPECT_TABLE_NOT_VIEW] no")
