"""On real Spark: a view is replaced while others read it; no answer is of a text that was not judged."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyhive.exc import Error
from pyspark.errors import PySparkException

from gateway.database.name_holds import LISTENER
from gateway.database.postgres import EmbeddedPostgres
from gateway.wire.tcli import TOperationState
from tests.e2e.one_pack import PASSWORD, Thrift, session, write_settings
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.wire_client import StatusError, WireClient
from tests.speed import patience

PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: race, table: "*", column: "*"}
    allow: [{users: [ann, maker], access: [select, create, drop, alter, insert, delete]}]
  - name: functions
    on:
      - {catalog: spark_catalog, database: race, udf: "*"}
      - {catalog: system, database: session, udf: "*"}
    allow: [{users: [ann], access: [create, execute]}]
  - name: elsewhere
    on: {catalog: spark_catalog, database: race_elsewhere}
    allow: [{users: [ann], access: [use]}]
  - name: rows by a function that names no database
    on: {catalog: spark_catalog, database: race, table: by_bare}
    filter: [{users: [ann], where: "id <= spark_catalog.race.bare()"}]
  - name: rows by one that names no catalog
    on: {catalog: spark_catalog, database: race, table: by_short}
    filter: [{users: [ann], where: "id <= spark_catalog.race.short()"}]
  - name: rows by one that names all
    on: {catalog: spark_catalog, database: race, table: by_whole}
    filter: [{users: [ann], where: "id <= spark_catalog.race.whole()"}]
  - name: rows that ann may see
    on: {catalog: spark_catalog, database: race, table: guarded}
    filter: [{users: [ann], where: "note <> 'RAW'"}]
  - name: a column that ann sees masked
    on: {catalog: spark_catalog, database: race, table: ["outside_*", "swapped*"], column: email}
    mask: [{users: [ann], type: MASK_NULL}]
  - name: a column that ann does not see
    on: {catalog: spark_catalog, database: race, table: "outside_*", column: pin}
    deny: [{users: [ann], access: [select]}]
"""
MADE = (
    "CREATE DATABASE race",
    "CREATE TABLE race.free USING parquet AS SELECT * FROM VALUES (1, 'open') AS t(id, note)",
    "CREATE TABLE race.guarded USING parquet AS SELECT * FROM VALUES (1, 'RAW'), (2, 'seen') AS t(id, note)",
    "CREATE VIEW race.v AS SELECT id, note FROM race.free",
)
"""Made by the operator, past the gateway."""
TEXTS = {"seen": "guarded", "open": "free"}
"""What one reads of the view, and the table that it is over."""
ROUNDS = 12


def replacing(shown: str) -> str:
    return f"CREATE OR REPLACE VIEW race.v AS SELECT id, note FROM race.{TEXTS[shown]}"


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(*MADE, user="loader")
    file = write_settings(open_directory / "race", spark, PACK, {"ann": (), "maker": ()})
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def database(gateway: RunningGateway) -> str:
    """The DSN of the gateway's PostgreSQL."""
    return EmbeddedPostgres(gateway.config.parent / "postgres").dsn


@pytest.fixture(scope="module")
def other(
    spark: Spark, gateway: RunningGateway, database: str, open_directory: Path
) -> Iterator[RunningGateway]:
    """Another gateway before the same Spark, with the same database."""
    dsn = open_directory / "other.dsn"
    dsn.touch(mode=0o600)
    dsn.write_text(database)
    ledger = {"directory": "ledger", "dsn": {"file": str(dsn)}}
    directory = open_directory / "race_elsewhere"
    file = write_settings(directory, spark, PACK, {}, ledger=ledger)
    # The same people: who has a name in another user file is somebody else.
    shutil.copy(gateway.config.parent / "users.yaml", directory)
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_a_read_waits_for_a_change_that_nobody_asks_about(gateway: RunningGateway, endpoint: str) -> None:
    with (
        contextlib.closing(Thrift(gateway, "maker")) as maker,
        session(gateway, endpoint, "ann") as ann,
    ):
        maker(replacing("open"))
        for shown in ("seen", "open", "seen", "open", "seen"):
            ann("SELECT note FROM race.v")  # what the gateway knows of the view is fresh, and about to be old
            maker.begin(replacing(shown))
            assert ann("SELECT note FROM race.v") == [(shown,)]


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
@pytest.mark.parametrize("column", ["email", "pin"])
def test_a_column_that_came_outside_is_not_shown_by_a_name_that_nobody_judged(
    spark: Spark, gateway: RunningGateway, endpoint: str, column: str
) -> None:
    """The gateway still knows the table as it was; nothing of it was masked or hidden then."""
    table, over = f"race.outside_{endpoint}_{column}", f"race.over_{endpoint}_{column}"
    made = f"CREATE TABLE {table} USING parquet AS SELECT 1 AS id, 'RAW' AS "
    spark.query(
        made + "note",
        f"CREATE VIEW {over} AS SELECT to_json(struct(*)) AS row FROM {table}",
        f"CREATE VIEW {over}_evolves WITH SCHEMA EVOLUTION AS SELECT * FROM {table}",
        f"CREATE VIEW {over}_twice AS SELECT row FROM {over}",
        user="loader",
    )
    views = (over, f"{over}_evolves", f"{over}_twice")
    with session(gateway, endpoint, "ann") as ann:
        assert ann(f"SELECT * FROM {table}") == [(1, "RAW")]
        for view in views:
            assert "RAW" in str(ann(f"SELECT * FROM {view}"))
    spark.query(f"DROP TABLE {table}", made + column, user="loader")
    # Spark keeps the files of a table for a session that has read it.
    with session(gateway, endpoint, "ann") as ann:
        for text in (
            f"SELECT * FROM {table}",
            f"SELECT {column} FROM {table}",
            f"SELECT t.{column} FROM {table} t",
            f"SELECT count(*) FROM {table} WHERE {column} = 'RAW'",
            f"SELECT id FROM {table} ORDER BY {column}",
            *(f"SELECT * FROM {view}" for view in views),
        ):
            with pytest.raises((Error, PySparkException), match="UNRESOLVED_COLUMN") as refused:
                ann(text)
            assert "RAW" not in str(refused.value).replace("= 'RAW'", "")
    if endpoint == "connect":
        with gateway.session("ann", PASSWORD) as frames:
            for frame in (frames.table(table).select(column), *map(frames.table, (table, *views))):
                with pytest.raises(PySparkException, match="UNRESOLVED_COLUMN"):
                    frame.collect()


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_values_of_partitions_that_came_outside_are_not_told(
    spark: Spark, gateway: RunningGateway, endpoint: str
) -> None:
    """What a column that came outside is called and has in it stands in the paths of the files."""
    table = f"race.outside_parts_{endpoint}"
    made = f"CREATE TABLE {table} USING parquet PARTITIONED BY ({{}}) AS SELECT 1 AS id, 'x' AS note, {{}}"
    spark.query(made.format("day", "2 AS day"), user="loader")
    with session(gateway, endpoint, "ann") as ann:
        assert ann(f"SELECT id, note FROM {table}") == [(1, "x")]
    spark.query(f"DROP TABLE {table}", made.format("day, email", "2 AS day, 'RAW' AS email"), user="loader")
    # Whoever is refused has had the table described again: what comes first counts.
    if endpoint == "connect":
        with gateway.session("ann", PASSWORD) as frames:
            frame = frames.table(table).select("id", "note")
            with pytest.raises(PySparkException, match="SLUICE_ACCESS_DENIED"):
                frame.inputFiles()
            plans = frame._explain_string(extended=True)
            assert plans.count("Sample 0.0, 1.0") == 4, "no condition from around reaches the table"
            assert "RAW" not in plans
    with session(gateway, endpoint, "ann") as ann:
        ((plans,),) = ann(f"EXPLAIN EXTENDED SELECT id, note FROM {table} WHERE day = 2")
        assert plans.count("Sample 0.0, 1.0") == 4
        assert "RAW" not in plans
        with pytest.raises((Error, PySparkException), match="SLUICE_ACCESS_DENIED") as refused:
            ann(f"SHOW PARTITIONS {table}")
        assert "RAW" not in str(refused.value)


# -- through another gateway ---------------------------------------------------------------------------------


def cut_off(database: str) -> None:
    """Have no gateway hear of the others: notifications of now are lost."""

    async def cut() -> None:
        connection = await asyncpg.connect(database)
        await connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE $1",
            LISTENER + "%",
        )
        await connection.close()

    asyncio.run(cut())


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_what_another_gateway_changes_is_known_at_once(
    gateway: RunningGateway, other: RunningGateway, database: str, endpoint: str
) -> None:
    def made(maker: Callable[[str], Any], columns: str, rows: str) -> None:
        for text in (
            "DROP TABLE IF EXISTS race.swapped",
            f"CREATE TABLE race.swapped ({columns}) USING csv",
            f"INSERT INTO race.swapped VALUES {rows}",
        ):
            retry(maker, text)

    whole, renamed = "SELECT * FROM race.swapped", "race.swapped_elsewhere"
    with (
        session(other, endpoint, "maker") as maker,
        session(gateway, endpoint, "ann") as ann,
    ):
        made(maker, "id STRING, email STRING", "('1', 'RAW')")
        assert ann(whole) == [("1", None)], "email is masked"
        for lost in (False, True):
            if lost:
                cut_off(database)
            made(maker, "email STRING, id STRING", "('RAW', '2')")
            assert ann(whole) == [(None, "2")]
            made(maker, "id STRING, email STRING", "('3', 'RAW')")
            assert ann(whole) == [("3", None)]
        retry(maker, f"CREATE TABLE {renamed} USING csv AS SELECT 'RAW' AS email, '4' AS id")
        retry(maker, "DROP TABLE race.swapped")
        retry(maker, f"ALTER TABLE {renamed} RENAME TO race.swapped")
        assert ann(whole) == [(None, "4")]
        retry(maker, "INSERT OVERWRITE race.swapped VALUES ('RAW', '5')")
        assert ann(whole) == [(None, "5")]
        retry(maker, "DROP TABLE race.swapped")
        with pytest.raises((Error, PySparkException)):
            ann(whole)
        for shown in ("seen", "open"):
            retry(maker, replacing(shown))
            assert ann("SELECT note FROM race.v") == [(shown,)]


def retry(ask: Callable[[str], Any], text: str) -> None:
    """Run what is refused while PostgreSQL cannot be asked."""
    until = time.monotonic() + patience(60)
    while True:
        try:
            ask(text)
        except (Error, PySparkException) as error:
            if "cannot be told" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return


def test_a_gateway_that_stood_still_goes_by_nothing_that_it_knew(
    gateway: RunningGateway, other: RunningGateway
) -> None:
    """It is not waited for for ever; what it knew before it went on does not count."""
    with session(gateway, "thrift", "maker") as maker, session(other, "thrift", "ann") as ann:
        maker(replacing("open"))
        assert ann("SELECT note FROM race.v") == [("open",)]
        os.kill(other.pid, signal.SIGSTOP)
        try:
            maker(replacing("seen"))
        finally:
            os.kill(other.pid, signal.SIGCONT)
        assert ann("SELECT note FROM race.v") == [("seen",)]


def test_handles_of_another_gateway_are_its_principals_alone(
    gateway: RunningGateway, other: RunningGateway
) -> None:
    with (
        WireClient("127.0.0.1", gateway.port, "ann", PASSWORD) as ann,
        WireClient("127.0.0.1", other.port, "ann", PASSWORD) as elsewhere,
        WireClient("127.0.0.1", other.port, "maker", PASSWORD) as stranger,
    ):
        opened = ann.open_session()
        slow = "SELECT count(*) FROM range(40000000000) a WHERE a.id % 7 = 8"
        operation = ann.execute(opened, slow, run_async=True)
        with pytest.raises(StatusError, match="Invalid OperationHandle"):
            stranger.cancel(operation)
        with pytest.raises(StatusError, match="opened through the gateway"):
            elsewhere.rows(operation)
        elsewhere.cancel(operation)
        assert elsewhere.status(operation).operationState == TOperationState.CANCELED
        assert ann.status(operation).operationState == TOperationState.CANCELED
        with pytest.raises(StatusError, match="Invalid SessionHandle"):
            stranger.close_session(opened)
        elsewhere.close_session(opened)
        with pytest.raises(StatusError, match="Invalid SessionHandle"):
            ann.execute(opened, "SELECT 1")


def read(gateway: RunningGateway, endpoint: str, over: threading.Event) -> list[Any]:
    """Read the view again and again; return the answers."""
    answers = []
    with session(gateway, endpoint, "ann") as ann:
        while not over.is_set():
            with overtaken():
                answers.append(ann("SELECT note FROM race.v"))
    return answers


@contextlib.contextmanager
def overtaken() -> Iterator[None]:
    """Who reads may be asked to try again."""
    try:
        yield
    except (Error, PySparkException) as error:
        if not any(told in str(error) for told in ("SLUICE_CATALOG_", "change too fast")):
            raise


def read_frames(gateway: RunningGateway, over: threading.Event) -> list[Any]:
    answers = []
    with gateway.session("ann", PASSWORD) as frames:
        while not over.is_set():
            with overtaken():
                rows = frames.table("race.v").select("note").collect()
                answers.append([tuple(row) for row in rows])
    return answers


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_whoever_replaces_a_view_others_see_no_raw_row(gateway: RunningGateway, endpoint: str) -> None:
    over = threading.Event()
    with session(gateway, endpoint, "maker") as maker, ThreadPoolExecutor() as pool:
        reading = [pool.submit(read, gateway, one, over) for one in ("thrift", "connect")]
        reading.append(pool.submit(read_frames, gateway, over))
        try:
            for turn in range(ROUNDS):
                maker(replacing(("seen", "open")[turn % 2]))
        finally:
            over.set()
        answers = [one.result(patience()) for one in reading]
    assert all(answer in ([("seen",)], [("open",)]) for given in answers for answer in given)
    assert all(answers), "readers are not held up for as long as it goes on"


@pytest.fixture
def table(gateway: RunningGateway) -> Iterator[Callable[..., None]]:
    """Return what makes `race.swapped` anew, by way of an endpoint, as a table of CSV whose columns stand in
    the order that is given."""

    def made(endpoint: str, columns: str, rows: str) -> None:
        with session(gateway, endpoint, "maker") as maker:
            for text in (
                "DROP TABLE IF EXISTS race.swapped",
                f"CREATE TABLE race.swapped ({columns}) USING csv",
                f"INSERT INTO race.swapped VALUES {rows}",
            ):
                maker(text)

    yield made
    with session(gateway, "thrift", "maker") as maker:
        maker("DROP TABLE IF EXISTS race.swapped")


@pytest.mark.parametrize("by", ["thrift", "connect"])
@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_open_sessions_read_what_another_dropped_and_made_again(
    gateway: RunningGateway, table: Callable[..., None], endpoint: str, by: str
) -> None:
    """Spark's session keeps a table's columns and files from when it first read it: CSV is read by place, so
    that with the old columns a masked value would be shown under another's name."""
    table(by, "id STRING, email STRING", "('1', 'RAW')")
    whole, count = "SELECT * FROM race.swapped", "SELECT count(*) FROM race.swapped_v"
    with (
        session(gateway, endpoint, "maker") as maker,
        session(gateway, endpoint, "ann") as ann,
    ):
        maker("CREATE OR REPLACE VIEW race.swapped_v AS SELECT id FROM race.swapped")
        ann("CREATE TEMPORARY VIEW kept AS SELECT id FROM race.swapped")
        for one in (ann, maker):
            assert one(count) == [(1,)]
        assert ann(whole) == [("1", None)], "email is masked"
        table(by, "email STRING, id STRING", "('RAW', '2'), ('RAW', '3')")
        assert ann(whole) == [(None, "2"), (None, "3")]
        assert ann("SELECT id FROM kept") == [("2",), ("3",)]
        for one in (ann, maker):
            assert one(count) == [(2,)]
        table(by, "id INT", "(4)")
        assert ann(whole) == [(4,)]
        assert ann("SELECT id FROM kept") == [(4,)]
        assert maker(whole) == [(4,)]


@pytest.mark.parametrize("by", ["thrift", "connect"])
def test_frames_and_views_of_frames_read_what_another_made_again(
    gateway: RunningGateway, table: Callable[..., None], by: str
) -> None:
    table(by, "id STRING, email STRING", "('1', 'RAW')")
    with gateway.session("ann", PASSWORD) as frames:
        frame = frames.table("race.swapped")
        # What Spark analyses at once keeps what it found.
        distinct = frame.select("id").dropDuplicates(["id"]).withColumnRenamed("id", "n")
        assert (frame.columns, distinct.columns) == (["id", "email"], ["n"])
        assert [tuple(row) for row in distinct.collect()] == [("1",)]
        frame.createOrReplaceTempView("of_frame")
        frames.sql("SELECT email, id FROM of_frame").createOrReplaceTempView("of_view")
        table(by, "email STRING, id STRING", "('RAW', '2')")
        assert [tuple(row) for row in distinct.collect()] == [("2",)]
        assert [tuple(row) for row in frame.select("email", "id").collect()] == [(None, "2")]
        for view in ("of_frame", "of_view"):
            rows = frames.sql(f"SELECT id, email FROM {view}").collect()
            assert [tuple(row) for row in rows] == [("2", None)]
            assert frames.table(view).count() == 1


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_other_changes_reach_open_sessions(
    gateway: RunningGateway, table: Callable[..., None], endpoint: str
) -> None:
    """Columns that came, rows that are gone, a name that another table took, a database that was dropped."""
    table("thrift", "id STRING, email STRING", "('1', 'RAW')")
    whole = "SELECT * FROM race.swapped"
    with session(gateway, endpoint, "ann") as ann, session(gateway, "thrift", "maker") as maker:
        assert ann(whole) == [("1", None)]
        maker("ALTER TABLE race.swapped ADD COLUMNS (more INT)")
        assert ann(whole) == [("1", None, None)]
        maker("TRUNCATE TABLE race.swapped")
        assert ann(whole) == []
        for n in "78":
            maker(f"INSERT OVERWRITE race.swapped VALUES ('{n}', 'RAW', 9)")
            assert ann(whole) == [(n, None, 9)]
            with gateway.session("maker", PASSWORD) as frames:
                frame = frames.createDataFrame([("9", "RAW", int(n))], "id STRING, email STRING, more INT")
                frame.write.insertInto("race.swapped", overwrite=True)
            assert ann(whole) == [("9", None, int(n))]
        maker("CREATE TABLE race.swapped_to USING csv AS SELECT '5' AS email, '6' AS id")
        maker("DROP TABLE race.swapped")
        maker("ALTER TABLE race.swapped_to RENAME TO race.swapped")
        assert ann(whole) == [(None, "6")]
        with gateway.session("maker", PASSWORD) as frames:
            for columns in (["id", "email"], ["email", "id"]):
                frame = frames.createDataFrame([(columns[0], "RAW")], "id STRING, email STRING")
                frame.select(*columns).write.mode("overwrite").format("csv").saveAsTable("race.swapped")
                assert ann("SELECT id, email FROM race.swapped") == [(columns[0], None)]


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_a_table_that_a_function_has_read_is_read_as_it_is_now(
    spark: Spark, gateway: RunningGateway, table: Callable[..., None], endpoint: str
) -> None:
    """No statement of the session has named it, and Spark keeps it for the session all the same."""
    table("thrift", "id STRING, email STRING", "('1', 'RAW')")
    spark.query(
        "CREATE OR REPLACE FUNCTION race.rows() RETURNS BIGINT RETURN (SELECT count(*) FROM race.swapped)",
        user="loader",
    )
    with session(gateway, endpoint, "ann") as ann:
        assert ann("SELECT spark_catalog.race.rows()") == [(1,)]
        table("thrift", "email STRING, id STRING", "('RAW', '2'), ('RAW', '3')")
        assert ann("SELECT * FROM race.swapped") == [(None, "2"), (None, "3")]
        assert ann("SELECT spark_catalog.race.rows()") == [(2,)]


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_what_functions_read_is_read_as_it_is_now(
    spark: Spark, gateway: RunningGateway, table: Callable[..., None], endpoint: str
) -> None:
    """Nobody names the table: a function does, another that calls it, and views that call these."""
    table("thrift", "id STRING, email STRING", "('1', 'RAW')")
    spark.query(
        "CREATE OR REPLACE FUNCTION race.read() RETURNS BIGINT RETURN (SELECT count(id) FROM race.swapped)",
        "CREATE OR REPLACE FUNCTION race.again() RETURNS BIGINT RETURN race.read() + 0",
        "CREATE OR REPLACE VIEW race.of_read AS SELECT spark_catalog.race.read() AS n",
        user="loader",
    )
    asked = {
        "SELECT spark_catalog.race.read()": [(1,)],
        "SELECT spark_catalog.race.again()": [(1,)],
        "SELECT n FROM race.of_read": [(1,)],
        "SELECT n FROM of_again": [(1,)],
    }
    with session(gateway, endpoint, "ann") as ann:
        ann("CREATE TEMPORARY VIEW of_again AS SELECT spark_catalog.race.again() AS n")
        assert {text: ann(text) for text in asked} == asked
        for text in asked:
            for columns, rows, count in (
                ("email STRING, id STRING", "('RAW', '2'), ('RAW', '3')", 2),
                ("id STRING", "('4')", 1),
            ):
                table("thrift", columns, rows)
                assert ann(text) == [(count,)], text


BODIES = {"bare": "most", "short": "race.most", "whole": "spark_catalog.race.most"}
"""Functions, by what their bodies read."""


def make_functions(spark: Spark) -> None:
    made = [
        "CREATE TABLE IF NOT EXISTS race.most USING parquet AS SELECT 1 AS n",
        "CREATE DATABASE IF NOT EXISTS race_elsewhere",
        "CREATE TABLE IF NOT EXISTS race_elsewhere.most USING parquet AS SELECT 9 AS n",
        "USE race",
    ]
    for name, body in BODIES.items():
        made += [
            f"CREATE TABLE IF NOT EXISTS race.by_{name} USING parquet AS VALUES (1), (2) AS t(id)",
            f"CREATE OR REPLACE FUNCTION race.{name}() RETURNS INT RETURN (SELECT max(n) FROM {body})",
        ]
    spark.query(*made, user="loader")


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_a_policys_function_reads_no_table_of_whoever_asks(
    spark: Spark, gateway: RunningGateway, endpoint: str
) -> None:
    """Spark finds what the body of a function names in the session that calls it."""
    make_functions(spark)
    with session(gateway, endpoint, "ann") as ann:
        ann("USE race_elsewhere")
        assert ann("SELECT id FROM race.by_whole") == [(1,)]
        for name in ("bare", "short"):
            with pytest.raises((Error, PySparkException), match="without a catalog"):
                ann(f"SELECT id FROM race.by_{name}")


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_a_views_function_reads_no_table_of_whoever_asks(
    spark: Spark, gateway: RunningGateway, endpoint: str
) -> None:
    """A view that is written out is read where its reader is; by its own name, where it was made."""
    make_functions(spark)
    made = ["USE race"]
    for name in BODIES:
        for table in ("guarded", "free"):
            made += [
                f"CREATE OR REPLACE VIEW race.{table}_calls_{name} AS "
                f"SELECT id, spark_catalog.race.{name}() AS n FROM {table}",
                f"CREATE OR REPLACE VIEW race.{table}_again_{name} AS SELECT * FROM {table}_calls_{name}",
            ]
    short = {"short": "race.whole() AS n FROM guarded", "bare": "whole() AS n FROM guarded"}
    short |= {"rows": "n FROM guarded, race.listed()", "free": "whole() AS n FROM free"}
    made += [f"CREATE OR REPLACE VIEW race.guarded_{way}_whole AS SELECT id, {q}" for way, q in short.items()]
    listed = "RETURNS TABLE (n INT) RETURN SELECT max(n) FROM spark_catalog.race.most"
    spark.query(f"CREATE OR REPLACE FUNCTION race.listed() {listed}", *made, user="loader")
    with session(gateway, endpoint, "ann") as ann, gateway.session("ann", PASSWORD) as frames:
        ann("USE race_elsewhere")
        frames.sql("USE race_elsewhere").collect()
        # What the session has of its own under the name is not what the view calls.
        ann("CREATE TEMPORARY FUNCTION whole() RETURNS INT RETURN 99")
        for how in short:
            [(_, n)] = ann(f"SELECT id, n FROM race.guarded_{how}_whole")
            assert n == 1, how
        for name, how in itertools.product(BODIES, ("calls", "again")):
            text = f"SELECT id, n FROM race.free_{how}_{name}"
            assert ann(text) == spark.query("USE race_elsewhere", text) == [(1, 1)]
            view = f"race.guarded_{how}_{name}"
            asked: tuple[Callable[[], Any], ...] = (
                partial(ann, f"SELECT id, n FROM {view}"),
                frames.table(view).collect,
            )
            for ask in asked:
                if name == "whole":
                    assert [tuple(row) for row in ask()] == [(2, 1)], view
                    continue
                with pytest.raises((Error, PySparkException), match=r"without (its|a) catalog"):
                    ask()


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_partitions_that_come_and_go_reach_open_sessions(gateway: RunningGateway, endpoint: str) -> None:
    name = f"race.parted_{endpoint}"
    whole = f"SELECT id, day FROM {name}"
    with session(gateway, endpoint, "ann") as ann, session(gateway, "thrift", "maker") as maker:
        maker(f"CREATE TABLE {name} (id INT, day INT) USING csv PARTITIONED BY (day)")
        maker(f"INSERT INTO {name} VALUES (1, 1), (2, 2)")
        ann(f"CREATE TEMPORARY VIEW parted AS {whole}")
        for text, rows in (
            ("", [(1, 1), (2, 2)]),
            (f"ALTER TABLE {name} DROP PARTITION (day = 1)", [(2, 2)]),
            (f"INSERT OVERWRITE {name} PARTITION (day = 2) VALUES (3)", [(3, 2)]),
            (f"INSERT INTO {name} PARTITION (day = 4) VALUES (4)", [(3, 2), (4, 4)]),
            (f"ALTER TABLE {name} PARTITION (day = 4) RENAME TO PARTITION (day = 5)", [(3, 2), (4, 5)]),
            (f"TRUNCATE TABLE {name} PARTITION (day = 2)", [(4, 5)]),
        ):
            if text:
                maker(text)
            assert ann(whole) == rows
            assert ann("SELECT * FROM parted") == rows
        maker(f"DROP TABLE {name}")
