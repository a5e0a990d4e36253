"""What Spark keeps answers nobody else, and no other time: histories of two users, through both endpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException

from tests.e2e.one_pack import ENDPOINTS, PASSWORD, Ask, sessions, write_settings
from tests.e2e.running import RunningGateway, Spark, until

pytestmark = pytest.mark.in_turn(3)

GONE = "FAILED_READ_FILE.FILE_NOT_EXIST"
FRESH_S = 5.0
"""How long a session may go by what Spark knew of a mapping table."""
PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: kept, table: "*", column: "*"}
    allow: [{users: [ann, bob, raw], access: [select, refresh, create, drop, insert]}]
  - name: functions of the session
    on: {catalog: system, database: session, udf: tf}
    allow: [{users: [ann], access: [create, execute]}]
  - name: how rows come
    on: {setting: spark.sql.thriftServer.incrementalCollect}
    allow: [{users: [ann], access: [set]}]
  - name: own rows
    on: {catalog: spark_catalog, database: kept, table: owned}
    filter: [{users: [ann, bob], where: "own = current_user()"}]
  - name: rows in time
    on: {catalog: spark_catalog, database: kept, table: timed}
    filter: [{users: [ann, bob], where: "until > current_timestamp()"}]
  - name: rows that nobody blocked
    on: {catalog: spark_catalog, database: kept, table: [mapped, mapped_again]}
    filter:
      - users: [ann, bob]
        where: "id NOT IN (SELECT bid FROM spark_catalog.kept.blocked)"
  - name: rows of the region
    on: {catalog: spark_catalog, database: kept, table: regions}
    filter: [{users: [ann, bob], where: "get_json_object(doc, '$.r') = 'EMEA' AND CAST(id AS STRING) <> 'X'"}]
"""
MADE = (
    "CREATE DATABASE kept",
    "CREATE TABLE kept.owned USING parquet AS SELECT * FROM VALUES (1, 'ann'), (2, 'bob') AS t(id, own)",
    "CREATE TABLE kept.free USING parquet AS SELECT * FROM VALUES (1, 'ann'), (2, 'bob') AS t(id, own)",
    "CREATE TABLE kept.mapped USING parquet AS SELECT * FROM VALUES (1), (2), (3) AS t(id)",
    "CREATE TABLE kept.mapped_again USING parquet AS SELECT * FROM VALUES (1), (2), (3) AS t(id)",
    "CREATE TABLE kept.blocked (bid INT) USING parquet",
    "CREATE TABLE kept.regions USING parquet AS SELECT * FROM VALUES "
    """(1, '{"r":"EMEA"}', 'a'), (2, '{"r":"emea"}', 'b') AS t(id, doc, name)""",
    "CREATE VIEW kept.mine AS SELECT id FROM kept.free WHERE own = current_user()",
    "CREATE VIEW kept.over_mapped AS SELECT id FROM kept.mapped",
    "CREATE VIEW kept.others AS SELECT id FROM kept.free WHERE own <> current_user()",
)
"""Made by the operator, past the gateway."""


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(*MADE, user="loader")
    running = RunningGateway(
        write_settings(
            open_directory / "kept",
            spark,
            PACK,
            {"ann": (), "bob": (), "raw": ()},
            sessions={"policy_tables_s": FRESH_S},
        )
    ).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def ask(gateway: RunningGateway) -> Iterator[Callable[[str, str], Ask]]:
    """Open sessions: `ask(endpoint, user)(text)`."""
    with sessions(gateway) as asked:
        yield asked


def perhaps(ask: Ask, text: str) -> None:
    """Run what may be refused."""
    with contextlib.suppress(hive.OperationalError, PySparkException):
        ask(text)


@pytest.mark.parametrize("second", ENDPOINTS)
@pytest.mark.parametrize("first", ENDPOINTS)
def test_rows_that_one_user_caches_are_not_anothers(ask: Any, first: str, second: str) -> None:
    ann = ask(first, "ann")
    for text in (
        "CACHE TABLE c1 AS SELECT * FROM kept.owned",
        "CACHE TABLE c2 AS SELECT id, own FROM kept.owned",
        "CACHE TABLE c3 AS SELECT * FROM kept.mine",
        "CACHE LAZY TABLE c4 AS TABLE kept.others",
        "CACHE TABLE c5 AS SELECT current_user() AS u",
        "CACHE TABLE c6 AS SELECT id FROM kept.free WHERE own = current_user()",
    ):
        ann(text)
    for name in ("mine", "others"):
        perhaps(ann, f"CACHE TABLE kept.{name}")
    assert ann("SELECT * FROM c1") == [(1, "ann")]
    assert ann("SELECT * FROM c3") == [(1,)]
    bob = ask(second, "bob")
    assert bob("SELECT * FROM kept.owned") == [(2, "bob")]
    assert bob("SELECT id, own FROM kept.owned") == [(2, "bob")]
    assert bob("SELECT * FROM kept.mine") == bob("TABLE kept.mine") == [(2,)]
    assert bob("SELECT * FROM kept.others") == [(1,)]
    assert bob("SELECT current_user() AS u") == [("bob",)]
    assert bob("SELECT id FROM kept.free WHERE own = current_user()") == [(2,)]
    ann("UNCACHE TABLE c1")
    assert bob("SELECT * FROM kept.owned") == [(2, "bob")]
    assert ann("SELECT * FROM kept.owned") == [(1, "ann")]


def test_frames_that_one_user_caches_are_not_anothers(ask: Any, gateway: RunningGateway) -> None:
    with gateway.session("ann", PASSWORD) as ann, gateway.session("bob", PASSWORD) as bob:
        for name in ("owned", "mine", "others"):
            ann.table(f"kept.{name}").cache().count()
        assert [row.own for row in bob.table("kept.owned").collect()] == ["bob"]
        assert [row.id for row in bob.table("kept.mine").collect()] == [2]
        assert [row.id for row in bob.table("kept.others").collect()] == [1]
    assert ask("thrift", "bob")("SELECT own FROM kept.owned") == [("bob",)]


def ask_now(spark: Spark) -> list[Any]:
    """Past the gateway, and past anything that is kept."""
    return spark.query(
        "SELECT u FROM (SELECT until + INTERVAL 0 SECONDS AS u FROM kept.timed) WHERE u > now()"
    )


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_rows_that_expire_are_not_kept(ask: Any, spark: Spark, endpoint: str) -> None:
    spark.query(
        "DROP TABLE IF EXISTS kept.timed",
        "CREATE TABLE kept.timed USING parquet AS SELECT 1 AS id, now() + INTERVAL 20 SECONDS AS until",
        user="loader",
    )
    ann = ask(endpoint, "ann")
    ann("REFRESH TABLE kept.timed")
    assert ann("SELECT id FROM kept.timed") == [(1,)]
    ann("CREATE TEMPORARY VIEW tv AS SELECT id FROM kept.timed")
    for text in ("CACHE TABLE tc AS SELECT id FROM kept.timed", "CACHE TABLE tv"):
        perhaps(ann, text)
    perhaps(
        ask(endpoint, "raw"),
        "CACHE TABLE forged AS SELECT * FROM kept.timed AS `timed` WHERE (until > current_timestamp())",
    )
    until(lambda: ask_now(spark) == [], "the row expires", 90)
    for session in (ann, ask(endpoint, "ann"), ask(endpoint, "bob")):
        assert session("SELECT id FROM kept.timed") == []
    assert ann("SELECT id FROM tv") == []


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_a_mapping_table_takes_away_is_gone(
    ask: Any, gateway: RunningGateway, spark: Spark, endpoint: str
) -> None:
    """In sessions that have read it, in what they made of it, and whatever anybody has cached."""
    spark.query("TRUNCATE TABLE kept.blocked", user="loader")
    ann, raw = ask(endpoint, "ann"), ask("thrift", "raw")
    ann("CREATE TEMPORARY VIEW tv AS SELECT id FROM kept.mapped")
    make = "CREATE TEMPORARY FUNCTION tf() RETURNS TABLE (id INT) RETURN SELECT id FROM kept.mapped"
    ann(make)
    ann("CREATE TEMPORARY VIEW calling AS SELECT id FROM tf() WHERE id > 0")
    raw("CACHE TABLE cached_mapping AS TABLE kept.blocked")
    for cached in (
        "SELECT * FROM kept.mapped WHERE id NOT IN (SELECT bid FROM kept.blocked)",
        "TABLE kept.mapped",
    ):
        perhaps(raw, f"CACHE TABLE forged AS {cached}")
        perhaps(ann, f"CACHE TABLE kept_rows AS {cached}")
    with gateway.session("ann", PASSWORD) as session:
        open_frame = session.table("kept.mapped")
        open_frame.createOrReplaceTempView("fv")
        session.sql(make).collect()
        called = session.sql("SELECT id FROM tf()")
        reads: list[Callable[[], list[int]]] = [
            lambda: [row[0] for row in ann("SELECT id FROM kept.mapped")],
            lambda: [row[0] for row in ann("SELECT id FROM tv")],
            lambda: [row[0] for row in ann("SELECT id FROM kept.over_mapped")],
            lambda: sorted(row.id for row in open_frame.collect()),
            lambda: sorted(row.id for row in session.table("fv").collect()),
            # It is there all the time.
            lambda: [row[0] for row in ann("SELECT id FROM tf()")],
            lambda: [row[0] for row in ann("SELECT id FROM calling")],
            lambda: sorted(row.id for row in called.collect()),
        ]
        for blocks, left in ((0, [1, 2, 3]), (2, [1, 3]), (1, [3])):
            spark.query(f"INSERT INTO kept.blocked VALUES ({blocks})", user="loader")
            for number, read in enumerate(reads):
                until(partial(_are, read, left), f"read {number} after {blocks} was blocked", 90)
    assert ask(endpoint, "bob")("SELECT id FROM kept.mapped") == [(3,)]


def _are(read: Callable[[], list[int]], expected: list[int]) -> bool:
    return read() == expected


@pytest.mark.parametrize("endpoint", [*ENDPOINTS, "thrift, as it is fetched"])
def test_a_mapping_table_that_is_written_anew_fails_no_statement(
    ask: Any, spark: Spark, endpoint: str
) -> None:
    """Its files are gone for the session, which has looked at it in this period: it looks again by itself."""
    ann = ask(endpoint.partition(",")[0], "ann")
    failures = spark.log.read_text().count(GONE)
    if endpoint not in ENDPOINTS:
        ann("SET spark.sql.thriftServer.incrementalCollect=true")
    for blocked in (1, 2, 3) * 20:  # a look that is older than a period is no failure: then once more
        spark.query(f"INSERT OVERWRITE kept.blocked VALUES ({blocked})", user="loader")
        left = [(one,) for one in (1, 2, 3) if one != blocked]
        found = ann("SELECT id FROM kept.mapped_again ORDER BY id")
        # What was read before is listed in the session, and gone; at first that may have been no file.
        assert found == left or (blocked == 1 and found == [(1,), (2,), (3,)])
        if blocked == 3 and spark.log.read_text().count(GONE) > failures:
            break
    assert spark.log.read_text().count(GONE) > failures, "it did not fail before it was run again"
    spark.query("TRUNCATE TABLE kept.blocked", user="loader")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_no_collation_reaches_a_filter(ask: Any, endpoint: str) -> None:
    ann = ask(endpoint, "ann")
    assert ann("SELECT name FROM kept.regions") == [("a",)]
    for text in (
        "CREATE TEMPORARY VIEW cv DEFAULT COLLATION UTF8_LCASE AS SELECT name FROM kept.regions",
        "CREATE TABLE kept.c USING parquet DEFAULT COLLATION UTF8_LCASE AS SELECT name FROM kept.regions",
    ):
        with pytest.raises((hive.OperationalError, PySparkException), match="DEFAULT COLLATION"):
            ann(text)
    ann("CREATE TEMPORARY VIEW inner_v AS SELECT name FROM kept.regions")
    ann("CREATE TEMPORARY VIEW outer_v DEFAULT COLLATION UTF8_LCASE AS SELECT name FROM inner_v")
    assert ann("SELECT name FROM outer_v") == [("a",)], "a view's text stands for itself"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_view_answers_for_who_reads_it(ask: Any, endpoint: str) -> None:
    for user, own in (("ann", 1), ("bob", 2)):
        session = ask(endpoint, user)
        assert session("SELECT id FROM kept.mine") == [(own,)]
        assert session("SELECT id FROM kept.others") == [(3 - own,)]
    ann = ask(endpoint, "ann")
    ann("CREATE OR REPLACE VIEW kept.made AS SELECT id FROM kept.free WHERE own = current_user()")
    assert ann("SELECT id FROM kept.made") == [(1,)]
    assert ask("thrift", "bob")("SELECT id FROM kept.made") == [(2,)]
    assert ask("connect", "bob")("SELECT id FROM kept.made") == [(2,)]


def test_words_that_are_no_columns_are_the_user(gateway: RunningGateway, spark: Spark) -> None:
    from pyspark.sql.connect import functions as fn

    with gateway.session("ann", PASSWORD) as ann, spark.session() as direct:
        makes: list[Callable[[Any], Any]] = [
            lambda t: t.select("user", fn.col("current_user"), fn.col("session_user").alias("s")),
            lambda t: t.selectExpr("user", "upper(current_user) AS u"),
            lambda t: t.groupBy("user").count(),
            lambda t: t.withColumn("me", fn.col("user")).orderBy("id"),
            lambda t: t.select(fn.col("own").alias("user")).filter("user = 'ann'"),
            lambda t: t.withColumn("user", fn.lit("x")).groupBy("user").count().orderBy("user"),
        ]
        for make in makes:
            told, plain = make(ann.table("kept.free")), make(direct.table("kept.free"))
            assert told.columns == plain.columns
            account = direct.sql("SELECT current_user()").head()[0]
            names = {account: "ann", account.upper(): "ANN"}
            expected = [tuple(names.get(value, value) for value in row) for row in plain.collect()]
            assert [tuple(row) for row in told.collect()] == expected
        assert ann.table("kept.free").filter("own = current_user").count() == 1
        ann.table("kept.free").filter(fn.col("own") == fn.col("user")).createOrReplaceTempView("w")
        assert [row.id for row in ann.table("w").collect()] == [1]
