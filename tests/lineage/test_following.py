"""Whatever is recorded comes into the graph once, with what names and policies were then, whatever fails."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest
import pytest_asyncio
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them
from pyspark.sql.connect import plan as plans

from gateway.audit.ledger import FileLedger
from gateway.audit.lineage_queue import LineageQueue
from gateway.audit.search import Found
from gateway.database.migrate import migrate
from gateway.lineage.following import Follower, FollowerLimits
from gateway.lineage.gathering import Gatherer
from gateway.lineage.importing import Importer, MadeTables
from gateway.lineage.recorded import LineageInput
from gateway.lineage.rows import SeenStatement
from gateway.lineage.sinks import LineageSink
from gateway.lineage.store import KnownIds, NotOurTurn, store_lineage
from gateway.lineage.workers import LineageWorkers
from gateway.model.audit import AuditEvent
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.lineage import Operation
from gateway.reader.pool import ReaderPool
from tests.audit.ledgers import ask, running, shipped
from tests.audit.samples import completed, fresh_id, until
from tests.lineage.recorded import cleared, decided, scan, table
from tests.plan import frames
from tests.speed import patience

pytestmark = pytest.mark.asyncio(loop_scope="session")

RAW, OUT = table("raw", "id ssn"), table("out", "id who")
HURRIED = FollowerLimits(
    retry_s=0.0, first_pause_s=0.001, longest_pause_s=0.002, poll_s=0.01, attempts=2, left_s=0.0
)
INSERT = "INSERT INTO out SELECT id, ssn FROM raw"
EDGES = """
SELECT sd.name || '.' || sc.name || ' -> ' || td.name || '.' || tc.name AS edge, e.masking, e.finished,
  e.statements, e.subtype
FROM sluice.lineage_edge e
JOIN sluice.lineage_column sc ON sc.id = e.source JOIN sluice.lineage_dataset sd ON sd.id = sc.dataset
JOIN sluice.lineage_column tc ON tc.id = e.target JOIN sluice.lineage_dataset td ON td.id = tc.dataset
ORDER BY 1"""


class Sink:
    """Remembers what it was given; fails the first `failures` times."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls = 0
        self.seen: list[SeenStatement] = []

    async def put(self, seen: Sequence[SeenStatement]) -> None:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the sink is away")
        self.seen += seen


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def workers() -> AsyncIterator[LineageWorkers]:
    async with LineageWorkers(1, deadline_s=patience()) as found:
        yield found


class World:
    """A ledger, the graph that it feeds, and a follower between them."""

    def __init__(
        self, ledger: FileLedger, dsn: str, connection: Any, reader: ReaderPool, workers: LineageWorkers
    ) -> None:
        self.ledger = ledger
        self.dsn = dsn
        self.connection = connection
        self.reader = reader
        self.workers = workers
        self.follower = self.follow()

    def follow(self, *sinks: LineageSink, gateway: str = "g", **more: Any) -> Follower:
        async def nothing(names: Sequence[TableName]) -> CatalogSnapshot:
            raise AssertionError("the record says what names stood for")

        self.follower = Follower(
            connect=lambda: asyncpg.connect(self.dsn),
            queue=more.pop("queue", LineageQueue(gateway)),
            gatherer=Gatherer(reader=self.reader, look_up=nothing, catalogs=frozenset({"spark_catalog"})),
            workers=self.workers,
            sinks=sinks,
            limits=HURRIED,
            **more,
        )
        return self.follower

    async def ran(self, event: AuditEvent, outcome: Any = "finished", **more: Any) -> UUID:
        await self.ledger.record_decided(event)
        await self.ledger.record(completed(event, outcome, **more))
        return UUID(event.statement_id)

    async def followed(self) -> None:
        """Let the follower make all that is recorded."""
        await shipped(self.ledger)
        while await self.follower.step(self.connection):
            pass

    async def edges(self) -> list[str]:
        """Edges in words: `source -> target`, with what is said of it."""
        return [
            row["edge"].replace("spark_catalog.lab.", "")
            + (" masked" if row["masking"] else "")
            + ("" if row["finished"] else " unfinished")
            + (f" x{row['statements']}" if row["statements"] > 1 else "")
            + (" TABLE" if row["subtype"] == "TABLE" else "")
            for row in await ask(self.dsn, EDGES)
        ]

    async def queued(self) -> int:
        return int((await ask(self.dsn, "SELECT count(*) AS n FROM sluice.lineage_queue"))[0]["n"])


@pytest_asyncio.fixture(loop_scope="session")
async def world(
    tmp_path: Path, database: str, reader: ReaderPool, workers: LineageWorkers
) -> AsyncIterator[World]:
    async with opened(tmp_path, database, reader, workers) as found:
        yield found


@asynccontextmanager
async def opened(
    tmp_path: Path, database: str, reader: ReaderPool, workers: LineageWorkers
) -> AsyncIterator[World]:
    async with running(tmp_path / "ledger", database) as ledger:
        connection = await asyncpg.connect(database)
        await migrate(connection)
        try:
            yield World(ledger, database, connection, reader, workers)
        finally:
            await connection.close()


def insert(**more: Any) -> AuditEvent:
    return decided(cleared(INSERT, RAW, OUT, scans=(scan("raw"),)), **more)


async def test_a_write_comes_into_the_graph_once(world: World) -> None:
    sink = Sink()
    world.follow(sink)
    event = insert()
    await world.ran(event)
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who"]
    assert await world.queued() == 0
    (seen,) = sink.seen
    assert (str(seen.statement_id), seen.user, seen.text) == (event.statement_id, "bob", INSERT)
    assert seen.ended is not None
    assert seen.ended >= seen.time
    assert world.follower.metrics.made == 1


async def test_a_statement_that_still_runs_waits_for_its_end(world: World) -> None:
    event = insert()
    await world.ledger.record_decided(event)
    await world.followed()
    assert await world.edges() == []
    assert await world.queued() == 1
    await world.ledger.record(completed(event))
    await world.followed()
    assert len(await world.edges()) == 2


async def test_masks_are_those_of_the_record(world: World) -> None:
    await world.ran(decided(cleared(INSERT, RAW, OUT, scans=(scan("raw", "ssn"),))))
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who masked"]


async def test_what_failed_is_there_and_did_not_finish(world: World) -> None:
    sink = Sink()
    world.follow(sink)
    await world.ran(insert(), "failed", error="[DIVIDE_BY_ZERO] no", sqlstate="22012")
    await world.ran(insert(), "not_forwarded")
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id unfinished", "raw.ssn -> out.who unfinished"]
    assert [(seen.outcome, seen.error) for seen in sink.seen] == [("failed", "[DIVIDE_BY_ZERO] no")]
    assert world.follower.metrics.without == 1


async def test_a_query_that_came_as_a_command_is_not_counted(world: World) -> None:
    for text, kept in (("SELECT id FROM raw", False), (INSERT, True)):
        event = decided(cleared(text, RAW, OUT))
        lineage = {**event.body["lineage"], "command": True}
        await world.ran(replace(event, body={**event.body, "lineage": lineage}))
        await world.followed()
        assert bool(await world.edges()) is kept


async def test_views_are_those_of_the_record(world: World) -> None:
    view = table("people", "name", view="SELECT ssn AS name FROM raw")
    await world.ran(decided(cleared("INSERT INTO out SELECT 1, name FROM people", RAW, OUT, view)))
    await world.followed()
    assert await world.edges() == ["raw.ssn -> out.who", "raw.ssn -> people.name"]


async def test_lineage_travels_through_temporary_views(world: World) -> None:
    made = decided(
        cleared(
            "CREATE TEMPORARY VIEW v AS SELECT ssn AS s FROM raw", RAW, scans=(scan("raw", "ssn"),), makes="v"
        )
    )
    nested = decided(
        cleared("CREATE TEMPORARY VIEW w AS SELECT s AS t FROM v", makes="w", temp_views_read=frozenset("v")),
        views={"v": made.statement_id},
    )
    read = cleared("INSERT INTO out SELECT 1, t FROM w", OUT, temp_views_read=frozenset("w"))
    # Their own ends come later than that of what reads them.
    await world.ledger.record_decided(made)
    await world.ledger.record_decided(nested)
    await world.ran(decided(read, views={"w": nested.statement_id}))
    await world.followed()
    assert [e for e in await world.edges() if e.startswith("raw")] == ["raw.ssn -> out.who masked"]


def frame(name: str, *columns: Any) -> Any:
    found = frames.table(name)
    return found.select(*columns) if columns else found


def saved(source: Any) -> bytes:
    """The plan of `source.write.insertInto("out")`."""
    write = plans.WriteOperation(source._plan)
    write.table_name, write.table_save_method, write.mode = "out", "insert_into", "append"
    return bytes(frames.command(write).SerializeToString())


def viewed(source: Any, name: str) -> bytes:
    """The plan of `source.createOrReplaceTempView(name)`."""
    view = plans.CreateView(source._plan, name, is_global=False, replace=True)
    return bytes(frames.command(view).SerializeToString())


class Cached(plans.CachedRemoteRelation):
    """Tells nobody that it is gone."""

    def __del__(self) -> None: ...


def cached(relation_id: str) -> Any:
    return frames.made(Cached(relation_id, frames.SESSION))


def from_raw(edges: list[str]) -> list[str]:
    return [edge for edge in edges if edge.startswith("raw") and "-> out" in edge]


async def test_what_a_data_frame_writes_comes_into_the_graph(world: World) -> None:
    sink = Sink()
    world.follow(sink)
    plan = saved(frame("raw", F.col("id"), F.upper("ssn").alias("s")))
    event = decided(cleared("df.write…", RAW, OUT, plan=plan, scans=(scan("raw", "ssn"),)))
    await world.ran(event)
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who masked"]
    (seen,) = sink.seen
    assert (seen.text, seen.is_sql, seen.lineage.operation) == ("df.write…", False, Operation.INSERT)
    await world.ran(decided(cleared("df.write…", RAW, OUT, plan=saved(frame("raw", "ssn", "id")))), "failed")
    await world.followed()
    assert from_raw(await world.edges())[1:3] == [
        "raw.id -> out.who unfinished",
        "raw.ssn -> out.id unfinished",
    ]


async def test_queries_of_data_frames_are_there_too(world: World) -> None:
    plan = bytes(frames.message(frame("raw", "id")).SerializeToString())
    await world.ran(decided(cleared("spark.table", RAW, plan=plan, read_only=True)))
    await world.followed()
    (edge,) = await world.edges()
    assert edge.startswith("raw.id -> result:")


async def test_temporary_views_are_read_through_from_sql_to_frames_and_back(world: World) -> None:
    first = decided(
        cleared(
            "df.createTempView",
            RAW,
            plan=viewed(frame("raw", F.col("ssn").alias("s")), "v"),
            scans=(scan("raw", "ssn"),),
            makes="v",
        )
    )
    second = decided(
        cleared("CREATE TEMPORARY VIEW w AS SELECT s AS t FROM v", makes="w", temp_views_read=frozenset("v")),
        views={"v": first.statement_id},
    )
    third = decided(
        cleared(
            "df.createTempView",
            plan=viewed(frame("w", F.upper("t").alias("u")), "x"),
            makes="x",
            temp_views_read=frozenset("w"),
        ),
        views={"w": second.statement_id},
    )
    for made in (first, second, third):
        await world.ledger.record_decided(made)
    reads = {"x": third.statement_id}
    await world.ran(
        decided(
            cleared("INSERT INTO out SELECT 1, u FROM x", OUT, temp_views_read=frozenset("x")), views=reads
        )
    )
    await world.followed()
    assert from_raw(await world.edges()) == ["raw.ssn -> out.who masked"]


async def test_a_view_that_replaces_the_one_that_it_reads(world: World) -> None:
    first = decided(cleared("1", RAW, plan=viewed(frame("raw", F.col("ssn").alias("s")), "v"), makes="v"))
    second = decided(
        cleared(
            "2",
            plan=viewed(frame("v", F.upper("s").alias("s")), "v"),
            makes="v",
            temp_views_read=frozenset("v"),
        ),
        views={"v": first.statement_id},
    )
    await world.ledger.record_decided(first)
    await world.ledger.record_decided(second)
    plan = saved(frame("v", F.lit(1).alias("i"), "s"))
    read = cleared("3", OUT, plan=plan, temp_views_read=frozenset("v"))
    await world.ran(decided(read, views={"v": second.statement_id}))
    await world.followed()
    assert from_raw(await world.edges()) == ["raw.ssn -> out.who"]


async def test_cached_relations_are_read_through(world: World) -> None:
    plan = bytes(
        frames.command(
            plans.Checkpoint(frame("raw", "ssn")._plan, local=True, eager=True)
        ).SerializeToString()
    )
    made = decided(
        cleared(
            "df.checkpoint()", RAW, plan=plan, plan_class="CheckpointCommand", scans=(scan("raw", "ssn"),)
        ),
        input_=LineageInput(queries=False),
    )
    await world.ran(made)
    written = cleared("df.write…", OUT, plan=saved(cached("7a1e").select(F.lit(1).alias("i"), "ssn")))
    await world.ran(decided(written, relations={"7a1e": made.statement_id}))
    await world.followed()
    assert await world.edges() == ["raw.ssn -> out.who masked"]
    assert world.follower.metrics.without == 1


async def test_importing_the_record_reads_through_as_following_does(world: World) -> None:
    checkpoint = plans.Checkpoint(frame("raw", "ssn", "id")._plan, local=True, eager=True)
    kept = decided(
        cleared(
            "df.checkpoint()",
            RAW,
            plan=bytes(frames.command(checkpoint).SerializeToString()),
            plan_class="CheckpointCommand",
            scans=(scan("raw", "ssn"),),
        )
    )
    view = decided(
        cleared(
            "df.createTempView", plan=viewed(cached("7a1e").withColumnRenamed("ssn", "s"), "v"), makes="v"
        ),
        relations={"7a1e": kept.statement_id},
    )
    text = decided(
        cleared("INSERT INTO out SELECT 1, s FROM v", OUT, temp_views_read=frozenset("v")),
        views={"v": view.statement_id},
    )
    plan = decided(
        cleared("df.write…", OUT, plan=saved(frame("v", F.col("id"), "s")), temp_views_read=frozenset("v")),
        views={"v": view.statement_id},
    )
    gatherer = world.follower.gatherer
    nothing: Any = None
    importer = Importer(gatherer, world.workers, MadeTables(nothing), world.connection)
    await importer.import_recorded([Found(e, completed(e)) for e in (kept, view, text, plan)], lambda _: None)
    assert importer.report.unread == importer.report.table_level == []
    assert importer.report.new == 4
    found = await world.edges()
    assert from_raw(found) == ["raw.id -> out.id", "raw.ssn -> out.who masked x2"]
    for event in (kept, view, text, plan):
        await world.ran(event)
    await world.followed()
    assert await world.edges() == found


async def test_a_cached_relation_that_the_record_does_not_have_is_said_to_be(world: World) -> None:
    sink = Sink()
    world.follow(sink)
    written = cleared("df.write…", OUT, plan=saved(cached("7a1e")))
    await world.ran(decided(written, relations={"7a1e": fresh_id()}))
    await world.followed()
    assert "not known" in sink.seen[0].lineage.table_level


async def test_only_tables_are_known_of_what_was_too_large(world: World) -> None:
    small = LineageInput(tables_bytes=1)
    plan = saved(frame("raw"))
    await world.ran(decided(cleared("df.write…", RAW, OUT, plan=plan, scans=(scan("raw"),)), input_=small))
    await world.followed()
    (edge,) = await world.edges()
    assert edge.startswith("raw.* -> ")
    assert edge.endswith(" TABLE")
    assert world.follower.metrics.table_level == 1


async def test_a_temporary_view_that_the_record_does_not_have_stands_for_itself(world: World) -> None:
    read = cleared("INSERT INTO out SELECT 1, t FROM w", OUT, temp_views_read=frozenset("w"))
    await world.ran(decided(read, views={"w": fresh_id()}))
    await world.followed()
    assert await world.edges() == ["session:bob/s-1.w.t -> out.who"]


async def test_what_was_too_much_for_the_record_is_known_by_tables(world: World) -> None:
    event = insert(input_=LineageInput(tables_bytes=1))
    await world.ran(event)
    await world.followed()
    assert await world.edges() == ["raw.* -> out.* TABLE"]
    assert world.follower.metrics.table_level == 1


async def test_a_gateway_killed_between_graph_and_queue_counts_it_once(world: World) -> None:
    class Killed(Exception):
        pass

    class Dying(LineageQueue):
        async def dequeue(self, connection: Any, statements: Any) -> None:
            raise Killed

    sink = Sink()
    world.follow(sink, queue=Dying("g"))
    await world.ran(insert())
    with pytest.raises(Killed):
        await world.followed()
    assert await world.queued() == 1
    world.follow(sink)
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who"]
    assert await world.queued() == 0
    assert len({seen.statement_id for seen in sink.seen}) == 1


async def test_a_gateway_killed_before_the_end_has_it_after_the_restart(
    tmp_path: Path, database: str, reader: ReaderPool, workers: LineageWorkers
) -> None:
    event = insert()
    async with opened(tmp_path, database, reader, workers) as first:
        await first.ledger.record_decided(event)
        await first.followed()
        assert await first.queued() == 1
    async with opened(tmp_path, database, reader, workers) as second:
        sink = Sink()
        second.follow(sink)
        await second.followed()
        assert await second.edges() == ["raw.id -> out.id unfinished", "raw.ssn -> out.who unfinished"]
        assert [(seen.outcome, seen.ended) for seen in sink.seen] == [("unknown", None)]
    async with opened(tmp_path, database, reader, workers) as third:
        await third.followed()
        assert len(await third.edges()) == 2


async def test_one_bad_statement_keeps_nobody_waiting(world: World) -> None:
    broken = insert()
    broken = replace(broken, body={**broken.body, "lineage": {"tables": "nonsense"}})
    await world.ran(broken)
    await world.ran(decided(cleared("THIS IS NO SQL", RAW)))
    await world.ran(insert())
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who"]
    assert world.follower.metrics.lost == 2
    assert await world.queued() == 0


async def test_what_the_database_refuses_keeps_nobody_waiting(world: World) -> None:
    await world.ran(insert(), "odd\0")
    await world.ran(insert())
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who"]
    assert world.follower.metrics.lost == 1


async def test_what_takes_the_database_too_long_keeps_nobody_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = await world.ran(insert())
    await world.ran(insert())

    async def brought(connection: Any, seen: Sequence[SeenStatement], known: KnownIds) -> int:
        if slow in {one.statement_id for one in seen}:
            raise TimeoutError
        return await store_lineage(connection, seen, known)

    monkeypatch.setattr("gateway.lineage.following.store_lineage", brought)
    await world.followed()
    assert await world.edges() == ["raw.id -> out.id", "raw.ssn -> out.who"]
    assert world.follower.metrics.lost == 1


async def test_who_waits_for_another_gateway_gives_nothing_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.ran(insert())

    async def busy(connection: Any, seen: Sequence[SeenStatement], known: KnownIds) -> int:
        raise NotOurTurn

    with monkeypatch.context() as patched:
        patched.setattr("gateway.lineage.following.store_lineage", busy)
        for _ in range(HURRIED.attempts + 1):
            with pytest.raises(NotOurTurn):
                await world.followed()
    await world.followed()
    assert len(await world.edges()) == 2


async def test_a_sink_is_tried_again_and_then_left_behind(world: World) -> None:
    flaky, gone, well = Sink(failures=2), Sink(failures=1000), Sink()
    world.follow(flaky, gone, well)
    await world.ran(insert())
    await world.followed()
    assert [len(sink.seen) for sink in (flaky, gone, well)] == [1, 0, 1]
    assert (gone.calls, world.follower.metrics.not_sunk) == (3, 1)
    await world.ran(insert())
    await world.followed()
    assert (gone.calls, world.follower.metrics.not_sunk) == (4, 2)
    assert await world.edges() == ["raw.id -> out.id x2", "raw.ssn -> out.who x2"]


async def test_what_another_gateway_left_is_taken_when_it_is_old(world: World) -> None:
    await world.ran(insert(gateway="gone"))
    await world.followed()
    assert await world.edges() == []
    await world.connection.execute("UPDATE sluice.lineage_queue SET ready_at = now() - interval '16 min'")
    await world.followed()
    assert len(await world.edges()) == 2


async def test_a_record_that_is_gone_is_told(world: World) -> None:
    await world.ran(insert())
    await shipped(world.ledger)
    await world.connection.execute("UPDATE sluice.lineage_queue SET decided_at = now() + interval '1 day'")
    await world.followed()
    assert world.follower.metrics.lost == 1
    assert await world.queued() == 0


async def test_a_database_that_goes_away_is_found_again(world: World) -> None:
    await world.ran(insert())
    await shipped(world.ledger)
    refused = [ConnectionRefusedError("away"), ConnectionRefusedError("away")]

    async def connect() -> Any:
        if refused:
            raise refused.pop()
        return await asyncpg.connect(world.dsn)

    follower = world.follow()
    follower.connect = connect
    task = asyncio.create_task(follower.run())
    try:
        async with asyncio.timeout(patience()):
            while await world.queued():  # noqa: ASYNC110 - the database announces nothing
                await asyncio.sleep(0.01)
            while follower.metrics.waiting or follower.metrics.error:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert len(await world.edges()) == 2


async def test_a_record_that_is_sent_again_does_not_come_back(world: World, tmp_path: Path) -> None:
    """After a crash between the database and the checkpoint, the spool sends what it has sent before."""
    await world.ran(insert())
    await world.followed()
    again = tmp_path / "again"
    unsent = shutil.ignore_patterns("checkpoint.json", "lock")
    shutil.copytree(tmp_path / "ledger", again, ignore=unsent)
    async with running(again, world.dsn) as ledger:
        await until(lambda: ledger.metrics().shipped_events >= 2)
    assert await world.queued() == 0
