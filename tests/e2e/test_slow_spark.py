"""What is true of a Spark that answers at once is true of one that takes its time, wherever it takes it.

A catalog and a listener of the metastore wait at gates (`java/slow/Slow.java`): a file closes one for as long
as it is there, or until it is as many milliseconds old as it says.
"""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyspark.errors import PySparkException

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from gateway.wire.connect import pb
from gateway.wire.tcli import TOperationState, TStatusCode
from tests.e2e import standing
from tests.e2e.jars import compile_into
from tests.e2e.lab import PASSWORD, TESTER
from tests.e2e.one_pack import write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark, answers, until
from tests.e2e.wire_client import WireClient
from tests.e2e.wire_comparison import Conversation, Side, first_paragraph, neutral, whole
from tests.speed import patience

PLACES = ("analysis", "planning", "first_row")
POLL_MS = 6_000
"""Longer than Spark's long poll of 5 s."""
LONG_MS = 130_000
"""Longer than every deadline of a call, and than a stream of Spark Connect lasts."""
HOW_LONG = [POLL_MS, pytest.param(LONG_MS, marks=pytest.mark.night)]

PACK = """
service: spark
policies:
  - name: tess tests everything
    on:
      - {catalog: "*"}
      - {catalog: "*", database: "*"}
      - {catalog: "*", database: "*", table: "*", column: "*"}
      - {setting: "*"}
    allow: [{users: [tess], access: [all]}]
"""


class Gates:
    """Where Spark waits."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        directory.chmod(0o711)

    def close(self, *names: str, for_ms: int | None = None) -> None:
        for name in names:
            made = self.directory / f"{name}.new"
            made.write_text("" if for_ms is None else str(for_ms))
            made.chmod(0o644)
            made.rename(self.directory / name)

    def open(self, *names: str) -> None:
        for name in names:
            (self.directory / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def closed(self, *names: str, for_ms: int | None = None) -> Iterator[None]:
        self.close(*names, for_ms=for_ms)
        try:
            yield
        finally:
            self.open(*names)


@pytest.fixture(scope="module")
def gates(open_directory: Path) -> Gates:
    return Gates(open_directory / "gates")


@pytest.fixture(scope="module")
def slow_spark(session_loop: LoopThread, open_directory: Path, gates: Gates) -> Iterator[Spark]:
    process = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=open_directory / "slow-spark",
            java=find_java(),
            spark_home=find_spark_home(),
            java_options=(*jdk_openings(), f"-Dslow.gates={gates.directory}"),
            start_timeout_s=patience(240),
            heap=standing.HEAP,
            cores=16,  # who waits for a first row has a task to himself
            conf={
                "spark.sql.catalog.slow": "slow.Slow$Catalog",
                "spark.hadoop.hive.metastore.pre.event.listeners": "slow.Slow$Metastore",
                "spark.sql.shuffle.partitions": "1",
            },
        ),
        answers,
    )
    # Spark looks for catalogs among the classes that it was started with, and not in `spark.jars`.
    compile_into(process.directory / "conf", "slow/Slow.java")
    session_loop.run(process.start())
    try:
        spark = Spark.of(process)
        spark.query("CREATE TABLE default.kept USING parquet AS SELECT 1 AS a, 'x' AS b", user="loader")
        assert spark.query("SELECT max(id) FROM slow.places.analysis") == [(3,)]
        yield spark
    finally:
        session_loop.run(process.stop())


@pytest.fixture(scope="module")
def gateway(slow_spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    catalogs = {"spark_catalog": "spark", "slow": "spark"}
    file = write_settings(
        open_directory / "slow", slow_spark, PACK, {TESTER: ()}, policies={"catalogs": catalogs}
    )
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@contextlib.contextmanager
def thrift(spark: Spark, gateway: RunningGateway | None) -> Iterator[Side]:
    """A session straight at Spark, or through the gateway."""
    where = (spark.host, spark.port, TESTER)
    if gateway is not None:
        where = (gateway.host, gateway.port, TESTER, PASSWORD)  # type: ignore[assignment]
    with WireClient(*where, quiet_s=3600) as client:
        yield Side(client, client.open_session())


Told = Callable[[str], Conversation]
"""Makes the conversation of a side, which has tables, and so gates, of its own: it is in their names."""


class Both:
    """Spark and the gateway, each with sessions as they are asked for."""

    def __init__(self, spark: Spark, gateway: RunningGateway) -> None:
        self.spark = spark
        self.gateway = gateway

    def hold(self, made: Told) -> tuple[list[Any], list[Any]]:
        """Hold a conversation with both at the same time; return Spark's replies and the gateway's."""

        def one(word: str, gateway: RunningGateway | None) -> list[Any]:
            with thrift(self.spark, gateway) as side:
                return made(word)(side)

        with ThreadPoolExecutor(2) as pool:
            direct = pool.submit(one, "direct", None)
            through = pool.submit(one, "through", self.gateway)
            return direct.result(), through.result()

    def waited(self, gate: str) -> int:
        """How often somebody has come to a gate that was closed."""
        log = self.spark.directory / "tmp" / "waited"
        return log.read_text().splitlines().count(gate) if log.exists() else 0

    def frames(self, word: str) -> contextlib.AbstractContextManager[Any]:
        """A session of PySpark's, `direct` or `through` the gateway."""
        if word == "direct":
            return self.spark.session(TESTER)
        return self.gateway.session(TESTER, PASSWORD)

    def say_the_same(self, made: Told) -> list[Any]:
        """Hold it, compare every reply, and return Spark's."""
        theirs, ours = self.hold(made)
        assert neutral_of(ours, "through") == neutral_of(theirs, "direct")
        return theirs


def neutral_of(replies: Sequence[Any], word: str) -> Any:
    return _without(f"_{word}", [neutral(reply) for reply in replies])


def _without(word: str, value: Any) -> Any:
    """Take a side's own word out of a neutral reply, wherever a table is named."""
    match value:
        case str():
            return value.replace(word, "")
        case bytes():
            return value.replace(word.encode(), b"")
        case list():
            return [_without(word, item) for item in value]
        case dict():
            return {key: _without(word, item) for key, item in value.items()}
    return value


@pytest.fixture(scope="module")
def both(slow_spark: Spark, gateway: RunningGateway) -> Both:
    return Both(slow_spark, gateway)


def select(table: str) -> str:
    return f"SELECT id AS x, name, price * 2 AS twice FROM slow.places.{table} WHERE id < 3"


def largest(table: str) -> str:
    """An aggregate, which Spark computes before it says that it has finished."""
    return f"SELECT max(id) AS largest FROM slow.places.{table}"


def begin(side: Side, text: str) -> Any:
    """Have a statement run, and return the reply."""
    started = side.execute(text, runAsync=True)
    assert started.operationHandle is not None, started.status
    return started


# -- a statement that takes longer than a poll ---------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.in_turn(2, place=0)
def test_it_runs_until_it_has_finished(both: Both, gates: Gates, place: str) -> None:
    def made(word: str) -> Conversation:
        table = f"{place}_{word}"

        def conversation(side: Side) -> list[Any]:
            with gates.closed(table):
                started = side.execute(select(table), runAsync=True)
                operation = started.operationHandle
                replies = [started, side.ask("GetOperationStatus", operationHandle=operation)]
                if place != "first_row":
                    replies.append(side.fetch(operation))
            replies.append(side.client.ended(operation))
            replies.append(side.ask("GetResultSetMetadata", operationHandle=operation))
            replies += [side.fetch(operation), side.fetch(operation)]
            replies.append(side.ask("CloseOperation", operationHandle=operation))
            return replies

        return conversation

    theirs = both.say_the_same(made)
    assert theirs[1].operationState in (TOperationState.RUNNING, TOperationState.FINISHED)
    names = [column.columnName for column in theirs[-4].schema.columns]
    assert names == ["x", "name", "twice"]


STATEMENTS = {
    "query": "SELECT * FROM slow.places.{analysis}",
    "every place": "SELECT a.id, b.name FROM slow.places.{analysis} a "
    "JOIN slow.places.{planning} b USING (id) JOIN slow.places.{first_row} c USING (id) ORDER BY id",
    "with": "WITH w AS (SELECT max(price) AS m FROM slow.places.{planning}) SELECT m, 'a' AS `b c` FROM w",
    "first row": "SELECT array(id) AS ids, name FROM slow.places.{first_row} ORDER BY name DESC",
    "explain": "EXPLAIN SELECT id FROM slow.places.{analysis}",
    "describe query": "DESCRIBE QUERY SELECT id, price FROM slow.places.{analysis}",
    "describe": "DESCRIBE TABLE slow.places.{analysis}",
    "tables": "SHOW TABLES IN slow.places",
    "columns": "SHOW COLUMNS IN slow.places.{analysis}",
    "temporary view": "CREATE TEMPORARY VIEW v AS SELECT id, name FROM slow.places.{analysis}",
    "no such column": "SELECT nope FROM slow.places.{analysis}",
    "fails at a row": "SELECT raise_error('at ' || name) FROM slow.places.{first_row}",
    "no such table": "SELECT * FROM slow.places.missing, slow.places.{analysis}",
}


@pytest.mark.parametrize("for_ms", HOW_LONG)
def test_whatever_is_slow_says_what_it_says(both: Both, gates: Gates, for_ms: int) -> None:
    """Every statement both ways and at the same time; then again with gates open, which must be the same."""

    def made(name: str, run_async: bool) -> Told:
        def of(word: str) -> Conversation:
            mark = f"{name.replace(' ', '')}{'async' if run_async else ''}_{word}"
            tables = {place: f"{place}_{mark}" for place in PLACES}
            text = STATEMENTS[name].format(**tables)

            def conversation(side: Side) -> list[Any]:
                with gates.closed(*tables.values(), for_ms=for_ms):
                    replies = whole(text, run_async=run_async)(side)
                if name == "temporary view":
                    replies += whole("SELECT * FROM v")(side)
                return replies

            return conversation

        return of

    cases = [(name, run_async) for name in STATEMENTS for run_async in (False, True)]
    with gates.closed("listing", for_ms=for_ms), ThreadPoolExecutor(len(cases)) as pool:
        held = list(pool.map(lambda case: both.hold(made(*case)), cases))
    wrong = []
    for case, (theirs, ours) in zip(cases, held, strict=True):
        pairs = zip_longest(neutral_of(theirs, "direct"), neutral_of(ours, "through"))
        wrong += [(*case, *pair) for pair in pairs if pair[0] != pair[1]][:1]
    assert not wrong, "\n".join(map(repr, wrong))


def test_columns_that_are_asked_for_too_early_are_those_of_the_end(both: Both, gates: Gates) -> None:
    """On purpose: Spark tells of one column `Result` then, for good. The gateway answers when it knows."""

    def made(word: str) -> Conversation:
        table = f"analysis_early_{word}"

        def conversation(side: Side) -> list[Any]:
            with gates.closed(table, for_ms=POLL_MS):
                operation = begin(side, select(table)).operationHandle
                early = side.ask("GetResultSetMetadata", operationHandle=operation)
            side.client.ended(operation)
            late = side.ask("GetResultSetMetadata", operationHandle=operation)
            rows = side.fetch(operation)
            side.ask("CloseOperation", operationHandle=operation)
            return [early, late, rows]

        return conversation

    theirs, ours = both.hold(made)
    assert [c.columnName for c in theirs[1].schema.columns] == ["Result"]
    for told in ours[:2]:
        assert [c.columnName for c in told.schema.columns] == ["x", "name", "twice"]
    assert neutral(ours[2]) == neutral(theirs[2])


@pytest.mark.parametrize("for_ms", HOW_LONG)
def test_names_may_be_looked_up_for_as_long(both: Both, gates: Gates, for_ms: int) -> None:
    def made(word: str) -> Conversation:
        return whole(select(f"planning_{for_ms}_{word}"))

    with gates.closed("lookup", for_ms=for_ms):
        both.say_the_same(made)


# -- a statement that is stopped -----------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.in_turn(2, place=0)
def test_it_is_cancelled(both: Both, gates: Gates, place: str) -> None:
    def made(word: str) -> Conversation:
        table = f"{place}_cancelled_{word}"

        def conversation(side: Side) -> list[Any]:
            with gates.closed(table):
                operation = begin(side, largest(table)).operationHandle
                until(lambda: both.waited(table) > 0, "Spark is there")
                replies = [
                    side.ask("CancelOperation", operationHandle=operation),
                    # Not the whole reply: the gateway says why there are no rows.
                    side.ask("GetOperationStatus", operationHandle=operation).operationState,
                    side.ask("CloseOperation", operationHandle=operation),
                    side.ask("GetOperationStatus", operationHandle=operation),
                    *whole("SELECT 1 AS one")(side),
                ]
            return [*replies, *whole(select(table))(side)]

        return conversation

    assert both.say_the_same(made)[1] == TOperationState.CANCELED


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.in_turn(2, place=1)
def test_it_is_closed_at_once(both: Both, gates: Gates, place: str) -> None:
    def made(word: str) -> Conversation:
        table = f"{place}_closed_{word}"

        def conversation(side: Side) -> list[Any]:
            with gates.closed(table):
                operation = begin(side, largest(table)).operationHandle
                until(lambda: both.waited(table) > 0, "Spark is there")
                return [
                    side.ask("CloseOperation", operationHandle=operation),
                    side.ask("GetOperationStatus", operationHandle=operation),
                    *whole("SELECT 1 AS one")(side),
                ]

        return conversation

    both.say_the_same(made)


def test_what_a_client_leaves_behind_is_cancelled(both: Both, gates: Gates) -> None:
    tables = [f"{place}_left" for place in PLACES]
    with gates.closed(*tables):
        for table in tables:
            with thrift(both.spark, both.gateway) as side:
                begin(side, largest(table))
                until(lambda table=table: both.waited(table) > 0, "Spark is there")  # type: ignore[misc]

        def outcomes() -> list[str]:
            found = both.gateway.sluice("audit", "search", "--user", TESTER, "--since", "1h", "--json")
            left = [one for one in json.loads(found.stdout) if "_left" in json.dumps(one["event"])]
            return [one["end"]["outcome"] for one in left if one["end"]]

        until(lambda: outcomes() == ["canceled"] * len(tables), "each has its end")


def test_who_waits_for_columns_is_told_when_another_connection_cancels(both: Both, gates: Gates) -> None:
    """On purpose: Spark would tell of one column `Result` at once."""
    table = "analysis_waiting"
    spark, gateway = both.spark, both.gateway
    with gates.closed(table), thrift(spark, gateway) as side, thrift(spark, gateway) as other:
        operation = begin(side, select(table)).operationHandle
        until(lambda: both.waited(table) > 0, "Spark is there")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(side.ask, "GetResultSetMetadata", operationHandle=operation)
            assert other.ask("CancelOperation", operationHandle=operation).status.statusCode == 0
            waiting.result(patience())
        status = side.ask("GetOperationStatus", operationHandle=operation)
        assert status.operationState == TOperationState.CANCELED


# -- the metastore -------------------------------------------------------------------------------------------

METADATA: dict[str, dict[str, Any]] = {
    "GetTables": {"schemaName": "default", "tableName": "%"},
    "GetColumns": {"schemaName": "default", "tableName": "%", "columnName": "%"},
    "GetSchemas": {"schemaName": "%"},
}


def test_a_slow_metastore(both: Both, gates: Gates) -> None:
    """What the gateway lists and looks up itself is what it is when the metastore is quick."""

    def conversation(side: Side) -> list[Any]:
        replies: list[Any] = []
        for method, patterns in METADATA.items():
            started = side.ask(method, sessionHandle=side.session, **patterns)
            replies.append(sorted(side.client.rows(started.operationHandle)))
        replies += whole("SELECT * FROM default.kept")(side)
        replies += whole("SELECT * FROM default.missing")(side)
        return replies

    def ours() -> list[Any]:
        with thrift(both.spark, both.gateway) as side:
            return conversation(side)

    quick = ours()
    with gates.closed("metastore", for_ms=POLL_MS):
        slow = ours()
    assert [neutral(r) for r in slow[3:]] == [neutral(r) for r in quick[3:]]
    assert slow[:3] == quick[:3]
    assert slow[3].status.statusCode == TStatusCode.SUCCESS


# -- Spark Connect -------------------------------------------------------------------------------------------

Frames = Any
"""A session of PySpark."""
State = pb.GetStatusResponse.OperationStatus


def table_of(session: Frames, tables: dict[str, str], place: str) -> Any:
    return session.table(f"slow.places.{tables[place]}")


def made_view(session: Frames, tables: dict[str, str]) -> Any:
    table_of(session, tables, "analysis").select("id").createOrReplaceTempView("v")
    return session.table("v").collect()


PLANS: dict[str, Callable[[Frames, dict[str, str]], Any]] = {
    "rows": lambda s, t: s.sql(f"SELECT * FROM slow.places.{t['analysis']}").collect(),
    "every place": lambda s, t: (
        table_of(s, t, "analysis")
        .join(table_of(s, t, "planning"), "id")
        .join(table_of(s, t, "first_row"), "id")
        .orderBy("id")
        .collect()
    ),
    "schema": lambda s, t: table_of(s, t, "analysis").selectExpr("price * 2 AS p", "name").schema.json(),
    "planned": lambda s, t: table_of(s, t, "planning").where("id < 3").collect(),
    "one by one": lambda s, t: list(table_of(s, t, "first_row").toLocalIterator()),
    "explained": lambda s, t: s.sql(f"EXPLAIN SELECT id FROM slow.places.{t['analysis']}").collect(),
    "described": lambda s, t: s.sql(f"DESCRIBE slow.places.{t['analysis']}").collect(),
    "listed": lambda s, t: s.sql("SHOW TABLES IN slow.places").collect(),
    "temporary view": made_view,
    "no such column": lambda s, t: table_of(s, t, "analysis").select("nope").collect(),
    "no such table": lambda s, t: s.sql(
        f"SELECT * FROM slow.places.x, slow.places.{t['analysis']}"
    ).collect(),
    "fails at a row": lambda s, t: table_of(s, t, "first_row").selectExpr("raise_error(name)").collect(),
}


def answered(work: Callable[[], Any]) -> Any:
    """Return what a client gets: rows, or what its exception says."""
    try:
        return work()
    except PySparkException as error:
        return type(error).__name__, error.getCondition(), error.getSqlState(), first_paragraph(str(error))


@pytest.mark.parametrize("for_ms", HOW_LONG)
@pytest.mark.in_turn(2, place=1)
def test_plans_say_what_they_say(both: Both, gates: Gates, for_ms: int) -> None:
    def one(name: str, word: str) -> Any:
        tables = {place: f"{place}_{name.replace(' ', '')}_{word}" for place in PLACES}
        with both.frames(word) as session, gates.closed(*tables.values(), for_ms=for_ms):
            told = repr(answered(lambda: PLANS[name](session, tables)))
            return re.sub(r"#\d+", "#", told.replace(f"_{word}", ""))

    cases = [(name, word) for name in PLANS for word in ("direct", "through")]
    with gates.closed("listing", for_ms=for_ms), ThreadPoolExecutor(len(cases)) as pool:
        told = dict(zip(cases, pool.map(lambda case: one(*case), cases), strict=True))
    wrong = {
        name: (told[name, "direct"], told[name, "through"])
        for name in PLANS
        if told[name, "direct"] != told[name, "through"]
    }
    assert not wrong


def states(session: Frames) -> list[int]:
    """How every operation of a session stands."""
    client = session.client
    request = pb.GetStatusRequest(session_id=client._session_id)
    request.user_context.user_id = client._user_id or ""
    request.operation_status.SetInParent()
    answer = client._stub.GetStatus(request, metadata=client._builder.metadata())
    return [status.state for status in answer.operation_statuses]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.in_turn(2, place=0)
def test_a_plan_is_interrupted(both: Both, gates: Gates, place: str) -> None:
    def one(word: str) -> list[Any]:
        table = f"{place}_interrupted_{word}"
        with both.frames(word) as session, ThreadPoolExecutor(1) as pool:
            session.range(1).collect()
            with gates.closed(table):
                waiting = pool.submit(answered, lambda: session.table(f"slow.places.{table}").collect())
                until(lambda: both.waited(table) > 0, "Spark is there")
                running = states(session).count(State.OPERATION_STATE_RUNNING)
                interrupted = len(session.interruptAll())
            return [running, interrupted, waiting.result(patience()), session.range(3).count()]

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(one, ("direct", "through"))
    assert ours == theirs
    assert theirs[2][1] == "OPERATION_CANCELED"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.in_turn(2, place=0)
def test_a_client_comes_back_to_a_plan(both: Both, gates: Gates, place: str) -> None:
    def one(word: str) -> list[Any]:
        table = f"{place}_again_{word}"
        with both.frames(word) as session:
            client = session.client
            metadata = client._builder.metadata()
            request = client._execute_plan_request_with_metadata()
            request.operation_id = str(uuid.uuid4())
            request.request_options.add().reattach_options.reattachable = True
            request.plan.root.sql.query = f"SELECT id, name FROM slow.places.{table}"
            with gates.closed(table):
                first = client._stub.ExecutePlan(request, metadata=metadata)
                until(lambda: both.waited(table) > 0, "Spark is there")
                first.cancel()
                again = pb.ReattachExecuteRequest(
                    session_id=request.session_id, operation_id=request.operation_id
                )
                again.user_context.CopyFrom(request.user_context)
                second = client._stub.ReattachExecute(again, metadata=metadata)
                running = states(session).count(State.OPERATION_STATE_RUNNING)
            told = [response.WhichOneof("response_type") for response in second]
            return [running, [case for case in told if case not in (None, "execution_progress", "metrics")]]

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(one, ("direct", "through"))
    assert ours == theirs
    assert theirs[1][-1] == "result_complete"


@pytest.mark.parametrize("how", ["all", "tag", "id"])
@pytest.mark.in_turn(2, place=1)
def test_a_plan_is_interrupted_while_its_names_are_looked_up(both: Both, gates: Gates, how: str) -> None:
    """Spark has not heard of it yet; to its client it runs."""
    table = f"analysis_lookup_{how}"
    with both.frames("through") as session, ThreadPoolExecutor(1) as pool:
        session.range(1).collect()
        client = session.client
        request = client._execute_plan_request_with_metadata()
        request.operation_id = str(uuid.uuid4())
        request.tags.append("slow")
        request.plan.root.sql.query = f"SELECT id FROM slow.places.{table}"
        with gates.closed("lookup"):
            before = both.waited("lookup")
            stream = client._stub.ExecutePlan(request, metadata=client._builder.metadata())
            waiting = pool.submit(answered_raw, stream)
            until(lambda: both.waited("lookup") > before, "its names are looked up")
            match how:
                case "all":
                    interrupted = session.interruptAll()
                case "tag":
                    interrupted = session.interruptTag("slow")
                case _:
                    interrupted = session.interruptOperation(request.operation_id)
            assert interrupted == [request.operation_id]
            assert "OPERATION_CANCELED" in waiting.result(patience())
        assert session.range(3).count() == 3


def answered_raw(stream: Any) -> str:
    try:
        return repr(list(stream))
    except grpc.RpcError as error:
        return str(error.details())
