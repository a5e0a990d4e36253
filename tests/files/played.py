"""A Spark that is played, and a promoter before it and a PostgreSQL that is not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import asyncpg

from gateway.database.migrate import migrate
from gateway.files.promotion import Promoter
from gateway.files.store import datasets
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.model.decision import Decision
from gateway.model.files import FileSource
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.session.ports import BackendError

LAKE = FileSource(
    name="lake", root="s3a://b", database="lake", formats=("parquet", "csv"), depth=3, leaf_columns=2, files=9
)
EVENTS = TableName("spark_catalog", "lake", "raw__events")
ALICE = Principal(user="alice")


_SHOW_OWN = re.compile(r"SHOW TABLE EXTENDED IN `spark_catalog`\.`lake` LIKE '(\w+)'")
_CREATE_TABLE = re.compile(r"\.`(\w+)` (?:LIKE \w+ )?USING .* LOCATION '(.*)'")


def decide(resource: Resource, access: str, *, allowed: bool = True) -> Decision:
    request = AccessRequest(principal=ALICE, resource=resource, access=access)
    return Decision(request=request, allowed=allowed, reason="test")


def not_escaped(new: Resource, old: Resource, *, beginning: bool = False) -> bool:
    return False


class FileRights:
    """Rights of a user, of two functions."""

    def __init__(self, decide: Callable[..., Decision] = decide, escaped: Callable[..., bool] = not_escaped):
        self.decide, self.guards_escaped = decide, escaped


RIGHTS = FileRights()


@dataclass
class PlayedSpark:
    """Answers the promoter's questions, and is the catalog of what it was told to make."""

    kinds: Sequence[tuple[Any, ...]] = (("parquet", 3, 300, "AB", "s3a://b/raw/events/a.parquet"),)
    head: bytes = b"PAR1"
    heads: Mapping[str, bytes] = field(default_factory=dict)
    """Path → its first lines, of files that begin otherwise."""
    lines: tuple[Any, ...] = (None, None, False, None, False, None)
    """What all lines of texts tell."""
    marks: tuple[str, ...] = ()
    """Directories of marks that there are."""
    columns: int = 2
    type: str = "int"
    merged: str = "false"
    """Whether schemas of Parquet files are merged."""
    refuses: str = ""
    """A statement that fails; `LIKE`: those that make a table like a view."""

    def __post_init__(self) -> None:
        self.tables: dict[TableName, Table] = {}
        self.others: dict[TableName, Table] = {}
        self.asked: list[str] = []
        self.changed = 0
        self.changed_names = ChangedNames()
        self.catalog: Mapping[str, Sequence[tuple[Any, ...]]] = {}
        """Statement → rows, of what else is in the catalog."""
        self.recorded: list[tuple[str, str, str, int]] = []
        """Who, the table, the URL, and what was asked of Spark until then."""

    async def query(self, sql: str, before: str = "", after: str = "") -> Sequence[tuple[Any, ...]]:
        self.asked.append(sql)
        if sql == self.refuses or (self.refuses == "LIKE" and f" {self.refuses} sluice_look_" in sql):
            raise BackendError("no", "XX000")
        await asyncio.sleep(0)
        if sql.startswith("SELECT DISTINCT"):
            found = [mark for mark in self.marks if mark.removeprefix("s3a://b/") + "/" in before]
            if found:
                return [(mark,) for mark in found]
            raise BackendError("there is no such path", "42K03")
        if sql == "SET spark.sql.parquet.mergeSchema":
            return [(sql.split()[1], self.merged)]
        own = _SHOW_OWN.fullmatch(sql)
        if own is not None and sql not in self.catalog:
            return [
                ("lake", name.table, False, f"Type: EXTERNAL\nLocation: {table.location}")
                for name, table in self.tables.items()
                if name.table == own[1]
            ]
        if sql.startswith(("SHOW", "DESCRIBE NAMESPACE", "SET")):
            return self.catalog.get(sql, [])
        if "USING binaryFile" in before:
            return [
                (*kind[:5], kind[4].rpartition("/")[0], *(kind[5:] or [kind[4]] * 4)) for kind in self.kinds
            ]
        if sql.startswith("DESCRIBE TABLE"):
            return [(f"c{n}", self.type, None) for n in range(self.columns)]
        if "USING text" in before and "input_file_name" in sql:
            return [self.lines]
        if "USING text" in before:
            file = before.partition("path '")[2].partition("'")[0]
            return [(line.hex(),) for line in self.heads.get(file, self.head).splitlines()]
        if sql.startswith("CREATE TABLE"):
            if TableName("spark_catalog", "lake", _CREATE_TABLE.findall(sql)[0][0]) in self.tables:
                raise BackendError("it is there already", "42P07")
            columns = tuple(Column(name=f"c{n}", type=self.type) for n in range(self.columns))
            table, location = _CREATE_TABLE.findall(sql)[0]
            name = TableName("spark_catalog", "lake", table)
            self.tables[name] = Table(name=name, kind=TableKind.TABLE, columns=columns, location=location)
        if sql.startswith("DROP TABLE"):
            self.tables = {n: t for n, t in self.tables.items() if f"`{n.table}`" not in sql}
        return []

    @property
    def made(self) -> int:
        return sum(sql.startswith("CREATE TABLE") for sql in self.asked)

    @property
    def snapshot(self) -> CatalogSnapshot:
        return CatalogSnapshot(
            version=1, catalogs=frozenset({"spark_catalog"}), tables=self.tables | self.others
        )

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        return self.snapshot

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        return self.snapshot

    def forget_all(self) -> None: ...

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        pass

    def changes(self, catalog: str, database: str) -> int:
        return self.changed

    async def databases(self, catalog: str) -> Sequence[str]:
        return ()

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        return ()


def promoter(
    spark: PlayedSpark,
    dsn: str,
    source: FileSource = LAKE,
    reserved: Sequence[str] = (),
    elsewhere: Callable[[str], Awaitable[str | None]] | None = None,
) -> Promoter:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            await migrate(connection)
            yield connection
        finally:
            await connection.close()

    async def record(principal: Principal, table: TableName, url: str, decisions: Sequence[Decision]) -> None:
        spark.recorded.append((principal.user, str(table), url, len(spark.asked)))

    return Promoter(
        [source],
        spark.query,
        refusal=BackendError,
        catalog=spark,
        connect=connect,
        record=record,
        reserved=lambda: reserved,
        elsewhere=elsewhere,
    )


async def kept(dsn: str) -> list[tuple[str, str, str]]:
    connection = await asyncpg.connect(dsn)
    await migrate(connection)
    found = [(row["source"], row["path"], row["promoted_by"]) for row in await datasets(connection)]
    await connection.close()
    return found
