"""Promotion before a Spark that is played and a PostgreSQL that is not: races, limits, forgetting."""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable, LedgerUnavailable
from gateway.files import store
from gateway.files.links import DEEPEST, LeadsOut, require_no_links
from gateway.files.looking import UnfitFiles
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.session.ports import BackendError
from tests.files.played import ALICE, EVENTS, LAKE, RIGHTS, FileRights, PlayedSpark, decide, kept, promoter


async def test_a_promotion_is_on_record_before_spark_is_asked(database: str) -> None:
    spark = PlayedSpark()
    await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    assert spark.recorded == [("alice", str(EVENTS), "s3a://b/raw/events", 0)]


async def test_what_cannot_be_recorded_is_not_promoted(database: str) -> None:
    spark = PlayedSpark()
    mine = promoter(spark, database)

    async def full(*_: object) -> None:
        raise LedgerUnavailable("no space")

    mine._record = full
    with pytest.raises(LedgerUnavailable):
        await mine.promote(EVENTS, ALICE, RIGHTS)
    assert spark.asked == []


async def test_a_source_that_makes_no_tables_by_itself_is_asked_to(database: str) -> None:
    spark = PlayedSpark()
    mine = promoter(spark, database, replace(LAKE, auto_promote=False))
    refused = await mine.promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert "ALTER TABLE … PROMOTE METADATA" in refused.message
    assert (spark.asked, spark.recorded) == ([], [])
    assert await mine.maintain_dataset("promote", EVENTS, ALICE) is not None
    assert await mine.promote(EVENTS, ALICE, RIGHTS, asked=True) is None
    assert await mine.maintain_dataset("promote", EVENTS, ALICE) is None
    assert spark.made == 1


@pytest.fixture
def local() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory)


async def test_local_files_that_lie_elsewhere_than_by_their_path_are_not_read(local: Path) -> None:
    """The root of the source was another one when the table was made: nobody looks there for links."""
    mine = promoter(PlayedSpark(), "", replace(LAKE, root=f"file:{local}"))
    (local / "raw" / "events").mkdir(parents=True)
    assert mine.looks_through(EVENTS)
    assert not promoter(PlayedSpark(), "").looks_through(EVENTS)
    for location in (None, f"file:{local}/raw/events", f"file://{local}/raw/events/"):
        assert await mine.trouble(EVENTS, location) is None
    for location in ("file:/elsewhere/raw/events", f"file:{local}/raw", "s3a://b/raw/events"):
        told = await mine.trouble(EVENTS, location)
        assert "the files of another directory" in str(told)
    assert await promoter(PlayedSpark(), "").trouble(EVENTS, "s3a://other/raw/events") is None


async def test_two_gateways_at_once_make_one_table(database: str) -> None:
    spark = PlayedSpark()
    gateways = [promoter(spark, database) for _ in range(4)]
    ended = await asyncio.gather(*(one.promote(EVENTS, ALICE, RIGHTS) for one in gateways))
    assert ended == [None] * 4
    assert spark.made == 1
    assert await kept(database) == [("lake", "raw/events", "alice")]


@pytest.mark.parametrize("lacking", ["promote", "read"])
async def test_nothing_is_asked_for_who_may_not(lacking: str) -> None:
    spark = PlayedSpark()
    refused = await promoter(spark, "").promote(
        EVENTS,
        ALICE,
        FileRights(lambda resource, access: decide(resource, access, allowed=access != lacking)),
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
        (PlayedSpark(head=b"hello"), "none of these formats: parquet, csv"),
        (PlayedSpark(marks=("s3a://b/raw/events/_delta_log",)), "it is a table of format Delta"),
        (PlayedSpark(marks=("s3a://b/raw/_delta_log",)), "is inside a table of format Delta"),
        (PlayedSpark(marks=("s3a://b/metadata",)), "is inside a table of format Iceberg"),
        (PlayedSpark(marks=("s3a://b/.hoodie",)), "is inside a table of format Hudi"),
        (
            PlayedSpark(marks=("s3a://b/raw/snapshot", "s3a://b/raw/schema")),
            "is inside a table of format Paimon",
        ),
        (PlayedSpark(kinds=(("parquet", 1, 1, "", "s3a://b/raw/events/`x`"),)), "safely"),
        (PlayedSpark(kinds=tuple((str(n), 1, 1, "", "") for n in range(17))), "different kinds"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_refused_leaves_nothing(spark: PlayedSpark, why: str, database: str) -> None:
    refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert why in refused.message
    assert not spark.tables
    assert await kept(database) == []


async def test_a_directory_of_snapshots_is_no_table_of_paimon(database: str) -> None:
    spark = PlayedSpark(marks=("s3a://b/raw/snapshot",))
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None
    assert spark.made == 1


async def test_guards_of_other_names_of_the_files_are_not_escaped() -> None:
    spark = PlayedSpark()
    asked: list[tuple[str, str, bool]] = []

    def escaped(new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        asked.append((str(new), str(old), beginning))
        return beginning

    refused = await promoter(spark, "").promote(EVENTS, ALICE, FileRights(escaped=escaped))
    assert refused is not None
    assert refused.code == "ACCESS_DENIED"
    assert (spark.asked, spark.recorded) == ([], [])
    own = "spark_catalog.lake.raw__events"
    assert asked == [(own, "spark_catalog.lake.raw", False), (own, f"{own}__", True)]


def in_catalog(
    *tables: tuple[str, str], database: str = "file:/wh/hr.db"
) -> dict[str, Sequence[tuple[Any, ...]]]:
    """Play a database `hr` that lies there, with tables, each a name and what Spark tells of it."""
    return {
        "SHOW DATABASES IN `spark_catalog`": [("`h``r`",)],
        "DESCRIBE NAMESPACE EXTENDED `spark_catalog`.`h``r`": [("Comment", "x"), ("Location", database)],
        "SHOW TABLES IN `spark_catalog`.`h``r`": [("h`r", name, False) for name, _ in tables],
        "SHOW TABLE EXTENDED IN `spark_catalog`.`h``r` LIKE '*'": [
            ("h`r", name, False, told) for name, told in tables if told
        ],
        "SET spark.sql.warehouse.dir": [("spark.sql.warehouse.dir", "file:/wh")],
    }


@pytest.mark.parametrize(
    ("location", "is_taken"),
    [
        ("s3a://b/raw/events", True),
        ("s3://b/raw/events/", True),
        ("s3n://b//raw/./events/day=1/part-0.parquet", True),
        ("s3a://b/raw", True),
        ("s3a://b", True),
        ("s3a://b/r%61w", True),
        ("s3a://b/raw/event", False),
        ("s3a://b/raw/events2", False),
        ("s3a://other/raw/events", False),
        ("hdfs://nn/raw/events", False),
        ("/raw/events", True),
    ],
)
async def test_files_of_a_table_are_no_other_table(location: str, is_taken: bool, database: str) -> None:
    spark = PlayedSpark()
    spark.catalog = in_catalog(("salary", f"Comment: x\nLocation: s3a://else/x\nLocation: {location}\nz: 1"))
    refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    assert (refused is not None) is is_taken
    assert spark.made == (not is_taken)
    if refused is not None:
        assert "shares files with the table `spark_catalog.h`r.salary`" in refused.message


async def test_who_may_not_read_a_table_is_not_told_of_it(database: str) -> None:
    spark = PlayedSpark()
    spark.catalog = in_catalog(("salary", "Location: s3a://b/raw/events"))

    def own_alone(resource: Resource, access: str) -> Decision:
        return decide(resource, access, allowed="salary" not in str(resource))

    refused = await promoter(spark, database).promote(EVENTS, ALICE, FileRights(own_alone))
    assert refused is not None
    assert "another table or database" in refused.message
    assert "salary" not in refused.message


def slow_to_create(spark: PlayedSpark) -> tuple[asyncio.Event, asyncio.Event]:
    """Have tables made slowly; return what tells that one is, and what it waits for."""
    creating, go = asyncio.Event(), asyncio.Event()
    answer = spark.query

    async def slow(sql: str, before: str = "", after: str = "") -> Sequence[tuple[Any, ...]]:
        if sql.startswith("CREATE TABLE"):
            creating.set()
            await go.wait()
        return await answer(sql, before, after)

    spark.query = slow  # type: ignore[method-assign]
    return creating, go


async def test_what_another_promotes_meanwhile_is_not_forgotten(database: str) -> None:
    """Whose a table is, is looked at by whoever holds it: what he waited for may be another's."""
    spark, bob = PlayedSpark(), Principal(user="bob")
    creating, go = slow_to_create(spark)
    mine, others = promoter(spark, database), promoter(spark, database)
    promoting = asyncio.create_task(mine.promote(EVENTS, ALICE, RIGHTS))
    await creating.wait()
    changing = [
        asyncio.create_task(others.maintain_dataset(action, EVENTS, bob)) for action in ("forget", "refresh")
    ]
    connection = await asyncpg.connect(database)
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    while await connection.fetchval(waiting) < len(changing):  # noqa: ASYNC110  # PostgreSQL tells nobody
        await asyncio.sleep(0.01)
    await connection.close()
    go.set()
    assert await promoting is None
    for told in await asyncio.gather(*changing):
        assert "is closed" in (told or "")
    assert await kept(database) == [("lake", "raw/events", "alice")]
    assert list(spark.tables) == [EVENTS]


async def test_databases_warehouses_and_reserved_places_are_taken(database: str) -> None:
    spark = PlayedSpark()
    for taken in (
        in_catalog(database="s3a://b/raw"),
        {"SET spark.sql.warehouse.dir": [("spark.sql.warehouse.dir", "s3a://b/raw/events/wh")]},
    ):
        spark.catalog = taken
        refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
        assert refused is not None
        assert "shares files" in refused.message
    spark.catalog = {}
    mine = promoter(spark, database, reserved=("s3://b/raw/events/checkpoints",))
    refused = await mine.promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert spark.made == 0


async def test_files_of_another_metastores_tables_become_none() -> None:
    async def elsewhere(url: str) -> str | None:
        return f"{url} has files of a table of another Spark"

    mine = promoter(PlayedSpark(), "", elsewhere=elsewhere)
    with pytest.raises(UnfitFiles, match="of another Spark"):
        await mine._refuse_taken(LAKE, "s3a://b/raw/events", EVENTS, RIGHTS)


async def test_tables_that_the_listing_leaves_out_are_looked_up(database: str) -> None:
    spark = PlayedSpark()
    spark.catalog = in_catalog(("v", "Type: VIEW\nView Text: x"), ("ice", ""))
    ice = TableName("spark_catalog", "h`r", "ice")
    spark.others[ice] = Table(
        name=ice,
        kind=TableKind.TABLE,
        columns=(Column(name="a", type="int"),),
        location="s3a://b/raw/events/x",
    )
    refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert "ice" in refused.message


async def test_nothing_is_made_while_places_are_unknown(database: str) -> None:
    spark = PlayedSpark()
    spark.catalog = in_catalog(("odd", "Location: relative/place"))
    refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert "are unknown" in refused.message
    for statement in in_catalog():
        if statement.startswith(("SHOW", "DESCRIBE")):
            spark = PlayedSpark(refuses=statement)
            spark.catalog = in_catalog()
            refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
            assert refused is not None, statement
            assert spark.made == 0


async def test_a_slow_table_lets_others_be_made(database: str) -> None:
    spark, began, go_on = PlayedSpark(), asyncio.Event(), asyncio.Event()
    query = spark.query

    async def slow(sql: str, before: str = "", after: str = "") -> Sequence[tuple[Any, ...]]:
        if sql.startswith("CREATE TABLE") and "raw__events`" in sql:
            began.set()
            await go_on.wait()
        return await query(sql, before, after)

    spark.query = slow  # type: ignore[method-assign]
    first = asyncio.create_task(promoter(spark, database).promote(EVENTS, ALICE, RIGHTS))
    await began.wait()
    mine = promoter(spark, database)
    assert await mine.promote(replace(EVENTS, table="others"), ALICE, RIGHTS) is None
    # What overlaps it is refused before it is there.
    refused = await mine.promote(replace(EVENTS, table="raw"), ALICE, RIGHTS)
    assert refused is not None
    assert "shares files with the table `spark_catalog.lake.raw__events`" in refused.message
    go_on.set()
    assert await first is None
    assert len(await kept(database)) == 2


async def test_whoever_waits_for_the_same_table_here_has_no_connection_yet(database: str) -> None:
    spark, connections = PlayedSpark(), list[int]()
    began, go_on = slow_to_create(spark)
    mine = promoter(spark, database)
    connect = mine._connect

    def counted() -> Any:
        connections.append(1)
        return connect()

    mine._connect = counted
    recorded, all_recorded = mine._record, asyncio.Event()

    async def record(*arguments: Any) -> None:
        await recorded(*arguments)
        if len(spark.recorded) == 5:
            all_recorded.set()

    mine._record = record
    asked = [asyncio.create_task(mine.promote(EVENTS, ALICE, RIGHTS)) for _ in range(5)]
    await began.wait()
    await all_recorded.wait()
    assert len(connections) == 1
    go_on.set()
    assert await asyncio.gather(*asked) == [None] * 5
    assert spark.made == 1


async def test_a_table_that_no_promotion_made_is_made_anew_where_that_is_asked_for(database: str) -> None:
    spark = PlayedSpark()
    await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    connection = await asyncpg.connect(database)
    await connection.execute("TRUNCATE sluice.dataset")
    await connection.close()
    mine = promoter(spark, database)
    assert not await mine.is_unfinished(EVENTS)
    assert await mine.promote(EVENTS, ALICE, RIGHTS) is None
    assert await kept(database) == [], "nobody asked for it"
    assert "was not created from files" in str(await mine.maintain_dataset("promote", EVENTS, ALICE))
    assert await mine.promote(EVENTS, ALICE, RIGHTS, asked=True) is None
    assert await kept(database) == [("lake", "raw/events", "alice")]
    assert (spark.made, await mine.maintain_dataset("promote", EVENTS, ALICE)) == (2, None)


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ("Type: EXTERNAL\nComment: x\nLocation: s3a://b/else", "it is a table at `s3a://b/else`"),
        (
            "Type: MANAGED\nComment: x\nType: EXTERNAL\nLocation: s3a://b/raw/events",
            "Spark deletes its files",
        ),
        ("Type: VIEW\nView Text: SELECT 1", "it is a view"),
    ],
)
async def test_somebody_elses_table_is_neither_dropped_nor_trusted(
    told: str, why: str, database: str
) -> None:
    spark = PlayedSpark()
    columns = (Column(name="a", type="int"),)
    spark.others[EVENTS] = Table(name=EVENTS, kind=TableKind.TABLE, columns=columns)
    asked = "SHOW TABLE EXTENDED IN `spark_catalog`.`lake` LIKE 'raw__events'"
    spark.catalog = {asked: [("lake", "raw__events", False, told)]}
    mine = promoter(spark, database)
    refused = await mine.promote(EVENTS, ALICE, RIGHTS, asked=True)
    assert refused is not None
    assert why in refused.message
    assert not any(sql.startswith(("DROP", "CREATE")) for sql in spark.asked)
    assert not await mine.is_unfinished(EVENTS)


async def test_a_source_may_get_another_name(database: str) -> None:
    spark = PlayedSpark()
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None
    spark.tables.clear()
    pond = replace(LAKE, name="pond")
    assert await promoter(spark, database, pond).promote(EVENTS, ALICE, RIGHTS) is None
    assert await kept(database) == [("pond", "raw/events", "alice")]


async def test_a_postgresql_that_is_away_is_told_as_such() -> None:
    mine = promoter(PlayedSpark(), "postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(BackendUnavailable, match="PostgreSQL"):
        await mine.promote(EVENTS, ALICE, RIGHTS)
    for action in ("refresh", "forget"):
        with pytest.raises(BackendUnavailable, match="PostgreSQL"):
            await mine.maintain_dataset(action, EVENTS, ALICE)
    assert not await mine.is_unfinished(EVENTS)


MANY = tuple(f"s3a://b/raw/events/{n}.csv" for n in "abcde")


async def test_several_files_of_an_ending_are_looked_into(database: str) -> None:
    kinds = ((".csv", 9, 1, "AB", *MANY),)
    for other in MANY:
        spark = PlayedSpark(kinds=kinds, head=b"id,name\n1,x", heads={other: b"PAR1"})
        refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
        assert refused is not None
        assert f"`{other[-5:]}` is parquet" in refused.message
        assert not spark.tables
    spark = PlayedSpark(kinds=kinds, head=b"id,name\n1,x")
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None


@pytest.mark.parametrize(("ending", "looked_at"), [(".snappy.parquet", 1), ("", 5)])
async def test_files_that_are_called_what_they_are_need_no_second_look(
    ending: str, looked_at: int, database: str
) -> None:
    spark = PlayedSpark(kinds=((ending, 9, 1, "AB", *MANY),))
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None
    assert sum(sql.startswith("SELECT hex(substr(") for sql in spark.asked) == looked_at


async def test_a_promotion_that_was_cut_gives_way_to_somebody_elses_table(database: str) -> None:
    spark = PlayedSpark()
    mine = promoter(spark, database)
    connection = await asyncpg.connect(database)
    await migrate(connection)
    shown = "SHOW TABLE EXTENDED IN `spark_catalog`.`lake` LIKE 'raw__events'"
    spark.catalog = {shown: [("lake", "raw__events", False, "Type: MANAGED\nLocation: s3a://b/raw/events")]}
    spark.others[EVENTS] = Table(name=EVENTS, kind=TableKind.TABLE, columns=())
    for one in (
        mine.promote(EVENTS, ALICE, RIGHTS),
        mine.maintain_dataset("forget", EVENTS, ALICE),
    ):
        await store.begin(connection, "lake", "raw/events", EVENTS, "s3a://b/raw/events", "bob")
        assert "Spark deletes its files" in str(await one)
        assert await store.list_unfinished_promotions(connection) == []
    assert not any(sql.startswith("DROP TABLE") for sql in spark.asked)
    await connection.close()


async def test_lines_are_looked_through_before_a_table_is_made_of_them(database: str) -> None:
    kinds = ((".csv", 1, 1, "AB", MANY[0]),)
    broken = (None, None, True, "s3a://b/raw/events/b%20c.csv", False, None)
    spark = PlayedSpark(kinds=kinds, head=b"id,name\n1,x", lines=broken)
    refused = await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert "`b c.csv` has a field with an opening quote" in refused.message
    spark.lines = (None, None, True, None, False, None)
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None
    (made,) = (sql for sql in spark.asked if sql.startswith("CREATE TABLE"))
    assert "'multiLine' 'true'" in made


async def test_a_dataset_keeps_its_place_while_its_table_is_dropped(database: str) -> None:
    spark = PlayedSpark()
    one = promoter(spark, database)
    await one.promote(EVENTS, ALICE, RIGHTS)
    spark.tables.clear()
    for table in ("raw", "raw__events__day_z3dz1"):
        name = replace(EVENTS, table=table)
        refused = await one.promote(name, ALICE, RIGHTS)
        assert refused is not None
        assert "shares files with the table `spark_catalog.lake.raw__events`" in refused.message
    assert await one.promote(replace(EVENTS, table="raw__event"), ALICE, RIGHTS) is None


async def test_of_overlapping_directories_at_once_one_becomes_a_table(database: str) -> None:
    spark = PlayedSpark()
    names = [replace(EVENTS, table=table) for table in ("raw", "raw__events", "raw__events__x")]
    ended = await asyncio.gather(*(promoter(spark, database).promote(name, ALICE, RIGHTS) for name in names))
    assert sum(one is None for one in ended) == 1
    assert spark.made == 1


async def test_a_table_that_was_dropped_is_made_anew_and_kept_once(database: str) -> None:
    spark = PlayedSpark()
    one = promoter(spark, database)
    await one.promote(EVENTS, ALICE, RIGHTS)
    spark.tables.clear()
    await one.promote(EVENTS, replace(ALICE, user="bob"), RIGHTS)
    assert spark.made == 2
    assert await kept(database) == [("lake", "raw/events", "bob")]


def test_links_lead_out_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").write_text("x")
    require_no_links(str(tmp_path), ("a",), 1)
    with pytest.raises(LeadsOut, match="more files"):
        require_no_links(str(tmp_path), ("a",), 0)
    (tmp_path / "a" / "b" / "link").symlink_to("/etc/passwd")
    (tmp_path / "way").symlink_to(tmp_path / "a" / "b")
    for path in (("a",), ("a", "b"), ("way",), ("way", "file")):
        with pytest.raises(LeadsOut, match="link"):
            require_no_links(str(tmp_path), path, 9)
    with pytest.raises(LeadsOut, match="does not exist"):
        require_no_links(str(tmp_path), ("absent",), 9)


def test_files_that_do_not_count_are_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    for n in range(9):
        (tmp_path / "a" / f"{n}.parquet").write_text("x")
        (tmp_path / "a" / f".{n}.parquet.crc").write_text("x")
    (tmp_path / "a" / "_SUCCESS").write_text("")
    require_no_links(str(tmp_path), ("a",), 9)
    require_no_links(str(tmp_path), ("a",), 1, counts=lambda name: name.startswith("1"))
    with pytest.raises(LeadsOut, match="more files"):
        require_no_links(str(tmp_path), ("a",), 8)
    monkeypatch.setattr("gateway.files.links._BESIDE_FEW", 0)
    monkeypatch.setattr("gateway.files.links._BESIDE", 1)
    with pytest.raises(LeadsOut, match="too many directories and hidden files"):
        require_no_links(str(tmp_path), ("a",), 9)


def test_a_deep_tree_is_told_and_keeps_nothing_open(tmp_path: Path) -> None:
    deepest = tmp_path
    for _ in range(DEEPEST):
        deepest /= "d"
    deepest.mkdir(parents=True)
    (deepest / "file").write_text("x")
    opened = len(list(Path("/proc/self/fd").iterdir()))
    require_no_links(str(tmp_path), ("d",), 1)
    below = os.open(deepest, os.O_RDONLY)
    try:
        for _ in range(1_000):
            os.mkdir("d", dir_fd=below)
            next_ = os.open("d", os.O_RDONLY, dir_fd=below)
            os.close(below)
            below = next_
    finally:
        os.close(below)
    with pytest.raises(LeadsOut, match=f"nested more than {DEEPEST} directories"):
        require_no_links(str(tmp_path), ("d",), 1)
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    subprocess.run(["rm", "-rf", str(tmp_path / "d")], check=True)


def test_a_file_system_that_does_not_tell_cases_apart_has_one_name_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "raw" / "events").mkdir(parents=True)
    opened = os.open

    def open_any_case(name: str, flags: int, **more: Any) -> int:
        return opened(name.lower() if "dir_fd" in more else name, flags, **more)

    monkeypatch.setattr("gateway.files.links.os.open", open_any_case)
    require_no_links(str(tmp_path), ("raw", "events"), 9)
    for path in (("Raw", "events"), ("raw", "Events")):
        with pytest.raises(LeadsOut, match="does not exist"):
            require_no_links(str(tmp_path), path, 9)


async def test_a_hundred_thousand_files_are_a_row_and_one_more_is_too_many(database: str) -> None:
    many = replace(LAKE, files=100_000)
    spark = PlayedSpark(kinds=(("parquet", 100_001, 1, "AB", "s3a://b/raw/events/a.parquet"),))
    mine = promoter(spark, database, many)
    refused = await mine.promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert "more than 100000 files" in refused.message
    spark.kinds = (("parquet", 100_000, 1, "AB", "s3a://b/raw/events/a.parquet"),)
    assert await mine.promote(EVENTS, ALICE, RIGHTS) is None


@pytest.mark.parametrize(
    ("played", "once"),
    [
        (PlayedSpark(), True),
        (PlayedSpark(merged="true"), False),
        (PlayedSpark(refuses="LIKE"), False),
        (PlayedSpark(head=b"a,b"), False),
        (PlayedSpark(kinds=(("parquet", 2, 300, "AB", "s3a://b/raw/events/day=1/a.parquet"),)), False),
    ],
)
async def test_files_are_listed_once_where_one_has_the_columns_of_all(
    played: PlayedSpark, once: bool, database: str
) -> None:
    assert await promoter(played, database).promote(EVENTS, ALICE, RIGHTS) is None
    made = [sql for sql in played.asked if sql.startswith("CREATE TABLE")][-1]
    assert (" LIKE sluice_look_" in made) is once
    assert EVENTS in played.tables


@pytest.mark.parametrize(
    ("step", "why"),
    [("USING binaryFile", "cannot list its files"), ("USING text", "is gone"), ("CREATE TABLE", "columns")],
)
async def test_files_that_vanish_meanwhile_leave_nothing(step: str, why: str, database: str) -> None:
    spark = PlayedSpark()
    asked = spark.query

    async def query(sql: str, before: str = "", after: str = "") -> Sequence[tuple[Any, ...]]:
        if step in before + sql and not sql.startswith("SELECT DISTINCT"):
            raise BackendError("a file does not exist", "XX000")
        return await asked(sql, before, after)

    spark.query = query  # type: ignore[method-assign]
    mine = promoter(spark, database)
    refused = await mine.promote(EVENTS, ALICE, RIGHTS)
    assert refused is not None
    assert why in refused.message
    assert not spark.tables
    assert await kept(database) == []
    spark.query = asked  # type: ignore[method-assign]
    assert await promoter(spark, database).promote(EVENTS, ALICE, RIGHTS) is None
