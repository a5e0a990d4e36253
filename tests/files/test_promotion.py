"""Promotion before a Spark that is played and a PostgreSQL that is not: races, limits, forgetting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.errors import Faults, LedgerUnavailable
from gateway.files.links import LeadsOut, require_no_links
from gateway.files.promotion import Promoter, forget
from gateway.files.store import datasets
from gateway.model.catalog import CatalogSnapshot, Column, Table, TableKind, TableName
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


def decide(resource: Resource, access: str, *, allowed: bool = True) -> Decision:
    request = AccessRequest(principal=ALICE, resource=resource, access=access)
    return Decision(request=request, allowed=allowed, reason="test")


@dataclass
class PlayedSpark:
    """Answers the promoter's questions, and is the catalog of what it was told to make."""

    kinds: Sequence[tuple[Any, ...]] = (("parquet", 3, 300, "AB", "s3a://b/raw/events/a.parquet"),)
    head: bytes = b"PAR1"
    marks: tuple[str, ...] = ()
    columns: int = 2

    def __post_init__(self) -> None:
        self.tables: dict[TableName, Table] = {}
        self.asked: list[str] = []
        self.recorded: list[tuple[str, str, str, int]] = []
        """Who, the table, the URL, and what was asked of Spark until then."""

    async def query(self, sql: str, before: str = "", after: str = "") -> Sequence[tuple[Any, ...]]:
        self.asked.append(sql)
        await asyncio.sleep(0)
        if sql.startswith("SELECT length"):
            if any(mark in before for mark in self.marks):
                return [(1,)]
            raise BackendError("there is no such path", "42K03")
        if "USING binaryFile" in before:
            return self.kinds
        if "USING text" in before:
            return [(self.head.hex(),)]
        if sql.startswith("CREATE TABLE"):
            columns = tuple(Column(name=f"c{n}", type="int") for n in range(self.columns))
            self.tables[EVENTS] = Table(
                name=EVENTS, kind=TableKind.TABLE, columns=columns, location="s3a://b/raw/events"
            )
        if sql.startswith("DROP TABLE"):
            self.tables.clear()
        return []

    @property
    def made(self) -> int:
        return sum(sql.startswith("CREATE TABLE") for sql in self.asked)

    @property
    def snapshot(self) -> CatalogSnapshot:
        return CatalogSnapshot(version=1, catalogs=frozenset({"spark_catalog"}), tables=dict(self.tables))

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        return self.snapshot

    def invalidate(self, tables: Sequence[TableName], databases: Sequence[tuple[str, str]]) -> None:
        pass

    async def databases(self, catalog: str) -> Sequence[str]:
        return ()

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        return ()


def promoter(spark: PlayedSpark, dsn: str, source: FileSource = LAKE) -> Promoter:
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
        [source], spark.query, refusal=BackendError, catalog=spark, connect=connect, record=record
    )


async def kept(dsn: str) -> list[tuple[str, str, str]]:
    connection = await asyncpg.connect(dsn)
    await migrate(connection)
    found = [(row["source"], row["path"], row["promoted_by"]) for row in await datasets(connection)]
    await connection.close()
    return found


async def test_a_promotion_is_on_record_before_spark_is_asked(database: str) -> None:
    spark = PlayedSpark()
    await promoter(spark, database).promote(EVENTS, ALICE, decide)
    assert spark.recorded == [("alice", str(EVENTS), "s3a://b/raw/events", 0)]


async def test_what_cannot_be_recorded_is_not_promoted(database: str) -> None:
    spark = PlayedSpark()
    mine = promoter(spark, database)

    async def full(*_: object) -> None:
        raise LedgerUnavailable("no space")

    mine._record = full
    with pytest.raises(LedgerUnavailable):
        await mine.promote(EVENTS, ALICE, decide)
    assert spark.asked == []


async def test_two_gateways_at_once_make_one_table(database: str) -> None:
    spark = PlayedSpark()
    gateways = [promoter(spark, database) for _ in range(4)]
    ended = await asyncio.gather(*(one.promote(EVENTS, ALICE, decide) for one in gateways))
    assert ended == [None] * 4
    assert spark.made == 1
    assert await kept(database) == [("lake", "raw/events", "alice")]


@pytest.mark.parametrize("lacking", ["promote", "read"])
async def test_nothing_is_asked_for_who_may_not(lacking: str) -> None:
    spark = PlayedSpark()
    refused = await promoter(spark, "").promote(
        EVENTS, ALICE, lambda resource, access: decide(resource, access, allowed=access != lacking)
    )
    assert refused is not None
    assert refused.code == "ACCESS_DENIED"
    assert not spark.asked


@pytest.mark.parametrize(
    ("spark", "why"),
    [
        (PlayedSpark(columns=3), "3 columns"),
        (PlayedSpark(kinds=(("parquet", 10, 1, "", "s3a://b/raw/events/a"),)), "9 files"),
        (PlayedSpark(kinds=()), "no files"),
        (PlayedSpark(head=b"hello"), "none of parquet, csv"),
        (PlayedSpark(marks=("_delta_log",)), "table of Delta"),
        (PlayedSpark(marks=("metadata/",)), "table of Iceberg"),
        (PlayedSpark(kinds=(("parquet", 1, 1, "", "s3a://b/raw/events/`x`"),)), "safely"),
        (PlayedSpark(kinds=tuple((str(n), 1, 1, "", "") for n in range(17))), "many kinds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_refused_leaves_nothing(spark: PlayedSpark, why: str, database: str) -> None:
    refused = await promoter(spark, database).promote(EVENTS, ALICE, decide)
    assert refused is not None
    assert why in refused.message
    assert not spark.tables
    assert await kept(database) == []


async def test_a_table_that_was_dropped_is_made_anew_and_kept_once(database: str) -> None:
    spark = PlayedSpark()
    one = promoter(spark, database)
    await one.promote(EVENTS, ALICE, decide)
    spark.tables.clear()
    await one.promote(EVENTS, replace(ALICE, user="bob"), decide)
    assert spark.made == 2
    assert await kept(database) == [("lake", "raw/events", "bob")]


async def test_forgetting_drops_the_table_unless_it_is_another_by_now(database: str) -> None:
    spark = PlayedSpark()
    await promoter(spark, database).promote(EVENTS, ALICE, decide)
    connection = await asyncpg.connect(database)
    ours = spark.tables[EVENTS]
    spark.tables[EVENTS] = replace(ours, location="s3a://b/warehouse/own")
    with pytest.raises(Faults, match="other files"):
        await forget(connection, spark.query, spark, EVENTS, "s3a://b/raw/events")
    assert spark.tables
    spark.tables[EVENTS] = ours
    await forget(connection, spark.query, spark, EVENTS, "s3a://b/raw/events")
    await connection.close()
    assert not spark.tables
    assert await kept(database) == []


def test_links_lead_out_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    require_no_links(str(tmp_path), ("a",), 2)
    with pytest.raises(LeadsOut, match="more files"):
        require_no_links(str(tmp_path), ("a",), 1)
    (tmp_path / "a" / "b" / "link").symlink_to("/etc/passwd")
    (tmp_path / "way").symlink_to(tmp_path / "a" / "b")
    for path in (("a",), ("a", "b"), ("way",), ("way", "file")):
        with pytest.raises(LeadsOut, match="link"):
            require_no_links(str(tmp_path), path, 9)
    with pytest.raises(LeadsOut, match="nothing"):
        require_no_links(str(tmp_path), ("absent",), 9)
