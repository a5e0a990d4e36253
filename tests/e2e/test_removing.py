"""Nobody destroys what masks and filters hide from him, whatever statement or frame he tries."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.one_pack import Ask, sessions, write_settings
from tests.e2e.running import RunningGateway, Spark

pytestmark = pytest.mark.in_turn(2)

PASSWORD = "correct horse battery"
PACK = """
service: spark
policies:
  - name: everything
    on:
      - {catalog: spark_catalog, database: "rm*"}
      - {catalog: spark_catalog, database: "rm*", table: "*", column: "*"}
    allow: [{groups: [half, whole], access: [all]}]
  - name: the rest may be destroyed
    on: {catalog: spark_catalog, database: "rm*", table: "*", column: "*"}
    allow: [{users: [lea], access: [drop]}]
  - name: writers see nothing
    on: {catalog: spark_catalog, database: rm, table: "*", column: "*"}
    allow: [{users: [wim], access: [insert, delete]}]
  - name: half of the rows
    on: {catalog: spark_catalog, database: rm, table: rows}
    filter: [{groups: [half], where: "id > 1"}]
  - name: half of a column
    on: {catalog: spark_catalog, database: rm, table: values, column: pin}
    mask: [{groups: [half], type: MASK_NULL}]
  - name: not that one
    on: {catalog: spark_catalog, database: rm, table: columns, column: pin}
    deny: [{groups: [half], access: [select]}]
"""
TABLES = ("rows", "values", "columns")
ROWS = [(1, "p1", 0), (2, "p2", 1)]
SQL = (
    "DROP TABLE rm.{0}",
    "TRUNCATE TABLE rm.{0}",
    "INSERT OVERWRITE rm.{0} SELECT 7, 'x', 0",
    "INSERT OVERWRITE rm.{0} PARTITION (day = 0) SELECT 7, 'x'",
    "INSERT OVERWRITE rm.{0} SELECT id, 'x', 0 FROM rm.{0}",
    "CREATE OR REPLACE TABLE rm.{0} AS SELECT 1 AS id",
    "REPLACE TABLE rm.{0} (id INT) USING parquet",
    "ALTER TABLE rm.{0} DROP PARTITION (day = 0)",
    "ALTER TABLE rm.{0} DROP COLUMN pin",
    "ALTER TABLE rm.{0} RENAME TO rm.other",
    "DELETE FROM rm.{0} WHERE id = 1",
    "DROP DATABASE rm CASCADE",
)
FRAMES: dict[str, Callable[[Any, str], Any]] = {
    "saveAsTable": lambda s, t: s.range(1).write.mode("overwrite").saveAsTable(t),
    "saveAsTable of itself": lambda s, t: s.table(t).select("id").write.mode("overwrite").saveAsTable(t),
    "insertInto": lambda s, t: _rows(s).write.mode("overwrite").insertInto(t),
    "createOrReplace": lambda s, t: s.range(1).writeTo(t).createOrReplace(),
    "replace": lambda s, t: s.range(1).writeTo(t).replace(),
    "overwritePartitions": lambda s, t: _rows(s).writeTo(t).overwritePartitions(),
    "overwrite": lambda s, t: _rows(s).writeTo(t).overwrite(s.sql("SELECT true AS x")["x"]),
    "truncate": lambda s, t: s.sql(f"TRUNCATE TABLE {t}"),
    # Spark reads the files that a stream has written, and none that were there before.
    "stream": lambda s, t: _stream(s, t).awaitTermination(),
    "stream with a format": lambda s, t: _stream(s, t, format="parquet").awaitTermination(),
}


def _rows(session: Any) -> Any:
    return session.sql("SELECT 7 AS id, 'x' AS pin, 0 AS day")


def _stream(session: Any, table: str, **more: str) -> Any:
    rows = session.readStream.table("rm.source").select("id", "pin", "day")
    to = f"file:/tmp/sluice-removing-{uuid.uuid4().hex}"
    writer = rows.writeStream.option("checkpointLocation", to).trigger(availableNow=True)
    return writer.toTable(table, outputMode="append", **more)


@pytest.fixture(scope="module")
def place(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    users = {"hob": ["half"], "lea": ["half"], "ada": ["whole"], "wim": ["writers"]}
    checkpoints = {"checkpoints": f"file:{open_directory}/removing_checkpoints"}
    file = write_settings(open_directory / "removing", spark, PACK, users, sessions=checkpoints)
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def tables(spark: Spark) -> Iterator[None]:
    make(spark)
    yield
    spark.query("DROP DATABASE IF EXISTS rm CASCADE", user="loader")


def make(spark: Spark, *names: str) -> None:
    values = ", ".join(map(str, ROWS))
    spark.query(
        "CREATE DATABASE IF NOT EXISTS rm",
        "CREATE TABLE IF NOT EXISTS rm.source USING parquet AS SELECT 9 AS id, 'x' AS pin, 0 AS day",
        *(
            statement
            for name in names or TABLES
            for statement in (
                f"DROP TABLE IF EXISTS rm.{name}",
                f"CREATE TABLE rm.{name} (id INT, pin STRING, day INT) USING parquet PARTITIONED BY (day)",
                f"INSERT INTO rm.{name} VALUES {values}",
            )
        ),
        user="loader",
    )


def stored(spark: Spark, name: str) -> list[Any]:
    return sorted(spark.query(f"SELECT * FROM rm.{name}", user="loader"))


def refusal(ask: Any, argument: str) -> str:
    """Return what asking raises; empty when nothing is."""
    try:
        ask(argument)
    except Exception as refused:  # noqa: BLE001 - PyHive's or PySpark's
        return str(refused)
    return ""


@pytest.fixture
def ask(place: RunningGateway) -> Iterator[Callable[[str, str], Ask]]:
    with sessions(place) as asked:
        yield asked


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_what_is_hidden_outlives_every_statement(ask: Any, spark: Spark, endpoint: str) -> None:
    hob = ask(endpoint, "hob")
    for name in TABLES:
        for text in SQL:
            told = refusal(hob, text.format(name))
            assert "SLUICE_ACCESS_DENIED" in told, (text, name, told)
            if text.startswith(("DROP TABLE", "CREATE OR", "REPLACE")):
                assert "drop by name" in told, text
    assert [stored(spark, name) for name in TABLES] == [ROWS] * 3


@pytest.mark.usefixtures("tables")
def test_what_is_hidden_outlives_every_frame(place: RunningGateway, spark: Spark) -> None:
    with place.session("hob", PASSWORD) as session:
        for name in TABLES:
            for what, write in FRAMES.items():
                told = refusal(lambda table, write=write: write(session, table), f"rm.{name}")
                assert "SLUICE_ACCESS_DENIED" in told, (what, name, told)
    assert [stored(spark, name) for name in TABLES] == [ROWS] * 3


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_whoever_may_drop_by_name_or_sees_all_does_it(ask: Any, spark: Spark, endpoint: str) -> None:
    ada, lea = ask(endpoint, "ada"), ask(endpoint, "lea")
    for name in TABLES:
        assert "a row filter, column mask or hidden column of" in refusal(lea, f"TRUNCATE TABLE rm.{name}")
        ada(f"INSERT OVERWRITE rm.{name} SELECT 7, 'x', 0")
        assert stored(spark, name) == [(7, "x", 0)]
        ada(f"TRUNCATE TABLE rm.{name}")
        assert stored(spark, name) == []
        lea(f"DROP TABLE rm.{name}")
        make(spark, name)
    wim = ask(endpoint, "wim")
    wim("INSERT OVERWRITE rm.rows SELECT 7, 'x', 0")
    assert stored(spark, "rows") == [(7, "x", 0)], "who sees nothing, and may delete by name"
