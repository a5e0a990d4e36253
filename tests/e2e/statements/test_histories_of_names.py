"""Variables, functions and dynamic text over time: policies change, names are taken by others, sessions of
two people and of both endpoints stand beside each other."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException

from tests.e2e.one_pack import ENDPOINTS, Ask, session, write_settings
from tests.e2e.running import RunningGateway, Spark, until

SETUP = (
    "DROP DATABASE IF EXISTS named CASCADE",
    "CREATE DATABASE named",
    "CREATE TABLE named.pay USING parquet AS SELECT * FROM VALUES (1, 'EMEA', 10), (2, 'AMER', 20) "
    "AS t(id, region, amount)",
    "CREATE TABLE named.plain USING parquet AS SELECT 7 AS id",
    "CREATE VIEW named.over AS SELECT id, amount FROM named.pay WHERE region = 'EMEA'",
)
ANN_READS = """
  - name: ann reads and calls
    on:
      - {catalog: spark_catalog, database: named, table: "*", column: "*"}"""
GRANTS = """
service: spark
policies:
  - name: everything in the database
    on:
      - {catalog: spark_catalog}
      - {catalog: spark_catalog, database: named}
      - {catalog: spark_catalog, database: named, table: "*", column: "*"}
      - {catalog: spark_catalog, database: named, udf: "*"}
      - {catalog: system, database: session, udf: "*"}
    allow: [{users: [owen], access: [all]}]
  - name: ann reads and calls
    on:
      - {catalog: spark_catalog, database: named, table: "*", column: "*"}
      - {catalog: spark_catalog, database: named}
      - {catalog: spark_catalog, database: named, udf: "*"}
      - {catalog: system, database: session, udf: "*"}
    allow: [{users: [ann], access: [use, select, execute, create]}]
"""
FILTER = """
  - name: one region
    on: {catalog: spark_catalog, database: named, table: pay}
    filter: [{users: [ann], where: "region = 'EMEA'"}]
"""
pytestmark = pytest.mark.in_turn(2)
Put = Callable[[str], None]


@pytest.fixture(scope="module")
def named(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(*SETUP, user="loader")
    users: dict[str, list[str]] = {"owen": [], "ann": []}
    settings = write_settings(
        open_directory / "named", spark, GRANTS, users, policies={"paths": ["pack.yaml"], "reload_s": 0.2}
    )
    gateway = RunningGateway(settings).start()
    yield gateway
    assert gateway.stop() == 0
    spark.query("DROP DATABASE IF EXISTS named CASCADE", user="loader")


@pytest.fixture
def put(named: RunningGateway) -> Put:
    """Put another pack in force, and wait until a new statement is judged by it."""

    def version() -> float:
        _, metrics = named.admin("/metrics")
        (line,) = (line for line in metrics.splitlines() if line.startswith("sluice_policy_version "))
        return float(line.split()[1])

    def change(pack: str) -> None:
        file = named.config.parent / "pack.yaml"
        if file.read_text() == pack:
            return
        before = version()
        new = file.with_suffix(".new")
        new.write_text(pack)
        new.replace(file)
        until(lambda: version() > before, "the policies are in force")

    change(GRANTS + FILTER)
    return change


def said(ask: Ask, text: str) -> str:
    """Return what a statement is refused with, or fails with."""
    try:
        rows: Any = ask(text)
    except (hive.OperationalError, PySparkException) as error:
        return str(error)
    raise AssertionError(f"answered {rows}")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_value_ends_with_the_access_that_it_came_of(named: RunningGateway, put: Put, endpoint: str) -> None:
    put(GRANTS)
    with session(named, endpoint, "ann") as ann:
        ann("DECLARE v BIGINT")
        ann("DECLARE w BIGINT")
        ann("DECLARE own INT DEFAULT 3")
        ann("SET VAR v = (SELECT sum(amount) FROM named.pay)")
        ann("SET VAR w = v + 1")
        assert ann("SELECT v, w, own") == [(30, 31, 3)]
        put(GRANTS + FILTER)
        # What it came of would be other rows now, and so would what came of it.
        assert "UNRESOLVED_COLUMN" in said(ann, "SELECT v")
        assert "UNRESOLVED_COLUMN" in said(ann, "SELECT w")
        assert ann("SELECT own") == [(3,)]
        ann("DECLARE v BIGINT")
        ann("SET VAR v = (SELECT sum(amount) FROM named.pay)")
        assert ann("SELECT v") == [(10,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_value_ends_wherever_it_went(named: RunningGateway, put: Put, endpoint: str) -> None:
    put(GRANTS)
    with session(named, endpoint, "ann") as ann:
        for declared in ("v BIGINT", "x BIGINT", "q STRING DEFAULT 'SELECT 1'"):
            ann(f"DECLARE {declared}")
        ann("EXECUTE IMMEDIATE 'SELECT sum(amount) FROM named.pay' INTO v")
        ann("EXECUTE IMMEDIATE 'SELECT concat(''SELECT '', sum(amount)) FROM named.pay' INTO q")
        ann("DECLARE w BIGINT DEFAULT v + 3")
        ann("BEGIN DECLARE y BIGINT; SET y = v; SET x = y; END")
        ann("CREATE TEMPORARY VIEW told AS SELECT v + 1 AS t")
        ann("CREATE TEMPORARY VIEW kept AS SELECT v + 2 AS t")
        ann("CACHE TABLE kept")
        ann("CREATE TEMPORARY FUNCTION tell() RETURNS BIGINT RETURN v")
        assert ann("SELECT v, w, x, told.t, kept.t, tell() FROM told, kept") == [(30, 33, 30, 31, 32, 30)]
        assert "not known before it runs" in said(ann, "EXECUTE IMMEDIATE q")
        put(GRANTS + FILTER)
        for text in ("v", "w", "x", "q", "tell()"):
            assert "UNRESOLVED_COLUMN" in said(ann, f"SELECT {text}")
        assert "UNRESOLVED_VARIABLE" in said(ann, "SET VAR w = DEFAULT")
        ann("DECLARE v BIGINT DEFAULT 9")
        for view in ("told", "kept"):
            assert f"the temporary view `{view}` ended" in said(ann, f"SELECT t FROM {view}")
        assert ann("SELECT tell()") == [(9,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_variable_is_not_what_a_policy_or_a_view_names(
    named: RunningGateway, put: Put, endpoint: str, spark: Spark
) -> None:
    with session(named, endpoint, "ann") as ann:
        ann("DECLARE region STRING DEFAULT 'EMEA'")
        assert "DROP TEMPORARY VARIABLE region" in said(ann, "SELECT id FROM named.pay")
        assert "DROP TEMPORARY VARIABLE region" in said(ann, "SELECT id FROM named.over")
        assert ann("SELECT id FROM named.plain") == [(7,)]
        ann("DROP TEMPORARY VARIABLE region")
        ann("DECLARE me STRING DEFAULT upper(current_user())")
        ann("SET VAR me = DEFAULT")
        assert ann("SELECT me") == [("ANN",)]
        ann("DROP TEMPORARY VARIABLE me")
        assert ann("SELECT id FROM named.pay") == [(1,)]
        assert ann("SELECT id FROM named.over") == [(1,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_text_that_is_run_is_judged_and_takes_effect(named: RunningGateway, put: Put, endpoint: str) -> None:
    with session(named, endpoint, "ann") as ann:
        assert ann("EXECUTE IMMEDIATE 'SELECT id FROM named.pay'") == [(1,)]
        assert "ACCESS_DENIED" in said(ann, "EXECUTE IMMEDIATE 'DROP TABLE named.plain'")
        ann("DECLARE q STRING DEFAULT 'SELECT sum(amount) FROM named.pay'")
        assert ann("EXECUTE IMMEDIATE q") == [(10,)]
        ann("SET VAR q = upper('select 1')")
        assert "not known before it runs" in said(ann, "EXECUTE IMMEDIATE q")
        ann("EXECUTE IMMEDIATE 'USE named'")
        assert ann("SELECT id FROM pay") == [(1,)]
        ann("EXECUTE IMMEDIATE 'CREATE TEMPORARY VIEW mine AS SELECT id FROM pay'")
        assert ann("SELECT * FROM mine") == [(1,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_argument_is_the_name_that_is_judged(named: RunningGateway, put: Put, endpoint: str) -> None:
    text = "EXECUTE IMMEDIATE 'SELECT id FROM IDENTIFIER(:t)' USING t AS t"
    with session(named, endpoint, "ann") as ann, session(named, endpoint, "owen") as owen:
        for ask in (ann, owen):
            ask("DECLARE t STRING DEFAULT 'named.pay'")
        assert (ann(text), owen(text)) == ([(1,)], [(1,), (2,)])
        owen("SET VAR t = 'named.plain'")
        assert (ann(text), owen(text)) == ([(1,)], [(7,)])
        ann("SET VAR t = lower('NAMED.PLAIN')")
        assert "IDENTIFIER" in said(ann, text)
        dropped = "EXECUTE IMMEDIATE 'DROP TABLE IDENTIFIER(:t \\'ain\\')' USING 'named.pl' AS t"
        assert "ACCESS_DENIED" in said(ann, dropped)
        two = "EXECUTE IMMEDIATE 'SELECT 1 FROM IDENTIFIER(?)' USING 'named.plain); DROP TABLE plain --'"
        assert "PARSE" in said(ann, two)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_text_of_a_script_is_not_another_ones(named: RunningGateway, put: Put, endpoint: str) -> None:
    """Names of variables are taken again: within the script, by its loops, and by the session."""
    with session(named, endpoint, "ann") as ann:
        ann("DECLARE q STRING DEFAULT 'SELECT id FROM named.plain'")
        for text in (
            "DECLARE q STRING DEFAULT 'SELECT amount FROM named.pay'; EXECUTE IMMEDIATE q;",
            "SET q = 'SELECT amount FROM named.pay'; EXECUTE IMMEDIATE q;",
            "DECLARE n STRING; EXECUTE IMMEDIATE 'SELECT ''TABLE named.pay''' INTO n; EXECUTE IMMEDIATE n;",
            "FOR r AS SELECT 'TABLE named.pay' AS q DO EXECUTE IMMEDIATE q; END FOR;",
            "FOR r AS SELECT 'named.pay' AS t DO SELECT * FROM IDENTIFIER(t); END FOR;",
            "DECLARE t STRING DEFAULT 'named.plain'; BEGIN DECLARE t STRING DEFAULT 'named.pay'; "
            "SELECT * FROM IDENTIFIER(t); END;",
        ):
            assert "not known before it runs" in said(ann, f"BEGIN {text} END")
        assert ann("EXECUTE IMMEDIATE q") == [(7,)]
        caught = "DECLARE EXIT HANDLER FOR SQLEXCEPTION EXECUTE IMMEDIATE 'SELECT amount FROM named.pay';"
        assert ann(f"BEGIN {caught} SELECT raise_error('x'); END") == [(10,)]
        assert "by themselves" in said(ann, "EXECUTE IMMEDIATE 'BEGIN SELECT amount FROM named.pay; END'")
        ann("EXECUTE IMMEDIATE 'SET VAR q = ''SELECT amount FROM named.pay'''")
        assert ann("EXECUTE IMMEDIATE q") == [(10,)]
        assert "USER_RAISED_EXCEPTION" in said(ann, "SET VAR q = CAST(raise_error('no') AS STRING)")
        assert "not known before it runs" in said(ann, "EXECUTE IMMEDIATE q")
        ann("EXECUTE IMMEDIATE 'DECLARE region STRING DEFAULT ''AMER'''")
        assert "DROP TEMPORARY VARIABLE region" in said(ann, "SELECT id FROM named.pay")


def test_functions_of_a_database_are_everybodys_who_may(named: RunningGateway, put: Put) -> None:
    with session(named, "thrift", "owen") as owen, session(named, "connect", "ann") as ann:
        owen("USE named")
        owen("CREATE FUNCTION raised(x INT) RETURNS INT RETURN x + 1")
        assert owen("SELECT raised(1)") == [(2,)]
        ann("USE named")
        assert ann("SELECT raised(id) FROM pay") == [(2,)]
        owen("CREATE OR REPLACE FUNCTION raised(x INT) RETURNS INT RETURN x + 10")
        with session(named, "thrift", "ann") as later:  # Spark's sessions keep what they have called
            assert later("SELECT named.raised(id) FROM named.pay") == [(11,)]
        assert "ACCESS_DENIED" in said(ann, "DROP FUNCTION raised")
        owen("DROP FUNCTION raised")
        assert "UNRESOLVED_ROUTINE" in said(ann, "SELECT raised(1)")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_temporary_function_that_goes_is_no_others(named: RunningGateway, put: Put, endpoint: str) -> None:
    with session(named, "thrift", "owen") as owen, session(named, endpoint, "ann") as ann:
        owen("CREATE FUNCTION named.both(x INT) RETURNS STRING RETURN 'of the database'")
        ann("USE named")
        ann("CREATE TEMPORARY FUNCTION both(x INT) RETURNS STRING RETURN 'of the session'")
        assert ann("SELECT both(1)") == [("of the session",)]
        ann("CREATE TEMPORARY VIEW calling AS SELECT both(id) AS b FROM pay")
        assert "VIEW_IN_USE" in said(ann, "DROP TEMPORARY FUNCTION both")
        ann("DROP VIEW calling")
        ann("DROP TEMPORARY FUNCTION both")
        assert ann("SELECT both(1)") == [("of the database",)]
        owen("DROP FUNCTION named.both")


# -- scripts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_script_shows_what_its_statements_would_show(
    named: RunningGateway, put: Put, endpoint: str
) -> None:
    with session(named, endpoint, "ann") as ann:
        value = "SET n = (SELECT sum(amount) FROM named.pay); SELECT n;"
        assert ann(f"BEGIN DECLARE n BIGINT; {value} END") == [(10,)]
        loop = "FOR r AS SELECT id FROM named.{} DO SET s = s || r.id; END FOR; SELECT s;"
        assert ann(f"BEGIN DECLARE s STRING DEFAULT ''; {loop.format('pay')} END") == [("1",)]
        assert ann(f"BEGIN DECLARE s STRING DEFAULT ''; {loop.format('over')} END") == [("1",)]
        assert ann("BEGIN EXECUTE IMMEDIATE 'SELECT id FROM named.pay'; END") == [(1,)]
        more = "IF (SELECT count(*) FROM named.pay) > 1 THEN SELECT 2; ELSE SELECT 1; END IF;"
        assert ann(f"BEGIN {more} END") == [(1,)]
        # A condition that fails on a hidden row alone is tried on none.
        caught = "DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'caught';"
        fails = "SELECT id FROM named.pay WHERE 1 / (amount - {}) < 9;"
        assert ann(f"BEGIN {caught} {fails.format(20)} END") == [(1,)]
        assert ann(f"BEGIN {caught} {fails.format(10)} END") == [("caught",)]
        # Nor is the value of a row told by an error.
        told = said(ann, "BEGIN SELECT 1; SELECT CAST(concat('x', amount) AS INT) FROM named.pay; END")
        assert "x10" not in told
        assert "ACCESS_DENIED" in said(ann, "BEGIN SELECT 1; INSERT INTO named.plain VALUES (8); END")
        assert ann("SELECT id FROM named.plain") == [(7,)]
        assert "line 2" in said(ann, "BEGIN\nUSE named; END")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_variables_of_a_script_are_no_columns(named: RunningGateway, put: Put, endpoint: str) -> None:
    with session(named, endpoint, "ann") as ann:
        text = "BEGIN DECLARE region STRING DEFAULT 'EMEA'; SELECT id FROM named.pay; END"
        assert "has the word `region`" in said(ann, text)
        assert ann("BEGIN DECLARE amount INT DEFAULT 5; SELECT amount FROM named.pay; END") == [(10,)]
        ann("DECLARE kept BIGINT")
        ann("BEGIN SET kept = (SELECT sum(amount) FROM named.pay); END")
        assert ann("SELECT kept") == [(10,)]
        put(GRANTS)
        # What it came of would be other rows now.
        assert "UNRESOLVED_COLUMN" in said(ann, "SELECT kept")
        put(GRANTS + FILTER)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_names_of_a_script_are_held_until_it_ends(
    named: RunningGateway, put: Put, endpoint: str, spark: Spark
) -> None:
    """Spark looks up the last statement when those before it have ended."""
    with session(named, endpoint, "owen") as runs, session(named, "thrift", "owen") as owen:
        for text in ("later USING parquet AS SELECT 1 AS id", "begun (id INT) USING parquet"):
            owen(f"CREATE TABLE named.{text}")
        loop = "WHILE i < 30 DO SET i = i + (SELECT count(*) FROM named.plain); END WHILE;"
        text = f"INSERT INTO named.begun VALUES (1); {loop} SELECT id FROM named.later;"
        ran: list[Any] = []
        thread = threading.Thread(target=lambda: ran.append(runs(f"BEGIN DECLARE i INT = 0; {text} END")))
        thread.start()
        until(lambda: spark.query("SELECT count(*) FROM named.begun") == [(1,)], "the script runs")
        with contextlib.suppress(hive.OperationalError):  # it waits, or is told that others use the table
            owen("DROP TABLE named.later")
        thread.join()
        assert ran == [[(1,)]]
        for table in ("later", "begun"):
            owen(f"DROP TABLE IF EXISTS named.{table}")


# -- functions -----------------------------------------------------------------------------------------------


def test_a_body_is_read_by_who_made_it_and_as_who_calls(named: RunningGateway, put: Put) -> None:
    put(GRANTS)
    with session(named, "thrift", "owen") as owen, session(named, "connect", "ann") as ann:
        make = "CREATE {} RETURN SELECT {} FROM {}pay WHERE {}"
        paid = make.format(
            "FUNCTION named.paid(r STRING) RETURNS BIGINT", "sum(amount)", "named.", "region = r"
        )
        owen(paid)
        owen("USE named")
        owen(make.format("FUNCTION those(n INT) RETURNS TABLE (id INT)", "id", "", "amount >= n"))
        owen("CREATE FUNCTION twice(r STRING) RETURNS BIGINT RETURN paid(r) * abs(-2)")
        assert ann("SELECT named.paid('AMER'), named.twice('AMER')") == [(20, 40)]
        assert ann("SELECT id FROM named.those(15)") == [(2,)]
        ann("CREATE TEMPORARY VIEW calling AS SELECT named.paid('AMER') AS p")
        assert ann("SELECT p FROM calling") == [(20,)]
        put(GRANTS + FILTER)
        assert ann("SELECT named.paid('AMER')") == [(None,)]
        assert ann("SELECT named.paid(region) AS p, named.paid(r => upper('emea')) AS q FROM named.pay") == [
            (10, 10)
        ]
        assert ann("SELECT id FROM named.pay WHERE named.paid(region) > 5") == [(1,)]
        assert ann("SELECT sum(named.paid(region)) AS p FROM named.pay GROUP BY id, named.paid(region)") == [
            (10,)
        ]
        assert ann("SELECT id FROM named.those(5)") == [(1,)]
        assert ann("SELECT id FROM named.those(15)") == []
        assert ann("SELECT named.twice('AMER') AS p, named.twice('EMEA') AS q") == [(None, 20)]
        assert ann("SELECT t.k FROM named.those(5) AS t(k)") == [(1,)]
        assert ann("DESCRIBE QUERY SELECT named.paid('AMER') AS p") == [("p", "bigint", None)]
        for call, why in (("twice()", "WRONG_NUM_ARGS"), ("paid(x => 1)", "UNRECOGNIZED_PARAMETER_NAME")):
            assert why in said(ann, f"SELECT named.{call} AS p")
        assert ann("SELECT t.id FROM named.plain p, LATERAL named.those(p.id - 2) AS t") == [(1,)]
        assert "a plan that is shown" in said(ann, "EXPLAIN SELECT named.paid('AMER')")
        assert "x10" not in said(ann, "SELECT CAST(concat('x', named.paid('EMEA')) AS INT) AS n")
        assert ann("SELECT p FROM calling") == [(None,)]
        owen("CREATE VIEW named.shown AS SELECT id, named.paid(region) AS p FROM named.pay")
        assert ann("SELECT id, p FROM named.shown") == [(1, 10)]
        assert owen("SELECT named.paid('AMER')") == [(20,)]
        assert owen("SELECT id, p FROM named.shown ORDER BY id") == [(1, 10), (2, 20)]
        owen("DROP VIEW named.shown")
        put(GRANTS.replace(ANN_READS, ANN_READS.replace('table: "*"', "table: plain")))
        # It shows its rows by its definer's access, and a condition is tried on no others.
        called = "SELECT count(*) FROM (VALUES ('EMEA')) AS t(r) WHERE 1 / (named.paid(r) - {}) < 9"
        assert ann(called.format(20)) == [(1,)]
        assert "DIVIDE_BY_ZERO" in said(ann, called.format(10))
        assert ann("SELECT id FROM named.those(20) WHERE 1 / (id - 1) > 0") == [(2,)]
        assert "call it with constants" in said(
            ann, "SELECT t.id FROM named.plain p, LATERAL named.those(p.id) AS t"
        )
        put(GRANTS.replace('named, table: "*", column', "named, table: plain, column", 1))
        # Its definer lacks what it reads.
        assert "ACCESS_DENIED" in said(ann, "SELECT named.paid('AMER')")
        put(GRANTS + FILTER)
        for name in ("twice", "paid", "those"):
            owen(f"DROP FUNCTION named.{name}")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_body_asks_for_who_calls(named: RunningGateway, put: Put, endpoint: str) -> None:
    put(GRANTS)
    with session(named, endpoint, "owen") as owen, session(named, endpoint, "ann") as ann:
        owen("CREATE FUNCTION named.who(p STRING) RETURNS STRING RETURN concat(p, current_user())")
        owen("CREATE FUNCTION named.whose() RETURNS STRING RETURN named.who('its ')")
        owen(
            "CREATE FUNCTION named.mine() RETURNS TABLE (id INT) RETURN SELECT id FROM named.pay "
            "WHERE CASE WHEN user() = 'ann' THEN 1 ELSE 2 END = id"
        )
        owen("CREATE VIEW named.asking AS SELECT named.whose() AS w, id FROM named.mine()")
        for user, who, row in ((owen, "owen", 2), (ann, "ann", 1), (owen, "owen", 2)):
            assert user("SELECT named.who('a ') AS w") == [(f"a {who}",)]
            assert user("SELECT id, named.whose() AS w FROM named.mine()") == [(row, f"its {who}")]
            assert user("SELECT w, id FROM named.asking") == [(f"its {who}", row)]
            user("CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT named.who('a ') AS w")
            assert user("SELECT w FROM kept") == [(f"a {who}",)]
            user("CREATE OR REPLACE TEMPORARY FUNCTION own() RETURNS STRING RETURN concat('own ', user)")
            assert user("SELECT own()") == [(f"own {who}",)]
        put(GRANTS + FILTER.replace("EMEA", "AMER"))
        assert ann("SELECT id FROM named.mine()") == []
        assert owen("SELECT id FROM named.mine()") == [(2,)]
        # The name of who calls is nobody's to choose.
        refused = said(ann, "SELECT named.who(p => 'a', current_user => 'owen')")
        assert "UNRECOGNIZED_PARAMETER_NAME" in refused or "WRONG_NUM_ARGS" in refused
        for call in ("named.who('a ')", "own()"):
            ((told,),) = ann(f"SELECT {call} AS w FROM VALUES ('owen', 'owen') AS t(user, current_user)")
            assert told.endswith(" ann")
        put(GRANTS)
        owen("DROP VIEW named.asking")
        for name in ("mine", "whose", "who"):
            owen(f"DROP FUNCTION named.{name}")


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_temporary_function_ends_with_the_access_that_it_came_of(
    named: RunningGateway, put: Put, endpoint: str
) -> None:
    put(GRANTS)
    make = "CREATE TEMPORARY FUNCTION own(n INT) RETURNS BIGINT RETURN SELECT sum(amount) FROM named.pay {}"
    with session(named, endpoint, "ann") as ann:
        ann(make.format("WHERE amount >= n"))
        ann("CREATE TEMPORARY FUNCTION mine() RETURNS INT RETURN 3")
        ann("CREATE TEMPORARY VIEW calling AS SELECT own(5) AS p")
        ann("DECLARE v BIGINT")
        ann("SET VAR v = own(5)")
        assert ann("SELECT own(5), own(15), p, v FROM calling") == [(30, 20, 30, 30)]
        put(GRANTS + FILTER)
        assert "UNRESOLVED_ROUTINE" in said(ann, "SELECT own(5)")
        assert "UNRESOLVED_COLUMN" in said(ann, "SELECT v")
        assert "the temporary view `calling` ended" in said(ann, "SELECT p FROM calling")
        assert ann("SELECT mine()") == [(3,)]
        ann(make.format("WHERE amount >= n"))
        ann("CREATE TEMPORARY FUNCTION those() RETURNS TABLE (i INT) RETURN SELECT id FROM named.pay")
        assert ann("SELECT own(5), own(15), i FROM those() AS t(i)") == [(10, None, 1)]
        for text in ("EXPLAIN EXTENDED SELECT own(5)", "DESCRIBE FUNCTION EXTENDED own"):
            assert "would show" in said(ann, text)
        assert "region" not in said(ann, "SELECT CAST(concat('x', own(5)) AS INT)")
        ann("DROP TEMPORARY FUNCTION own")
        assert "UNRESOLVED_ROUTINE" in said(ann, "SELECT own(5)")
        put(GRANTS.replace(ANN_READS, ANN_READS.replace('table: "*"', "table: plain")))
        assert "UNRESOLVABLE_TABLE_VALUED_FUNCTION" in said(ann, "SELECT i FROM those()")
        put(GRANTS + FILTER)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_no_session_runs_the_body_that_a_function_had(named: RunningGateway, put: Put, endpoint: str) -> None:
    """Spark's session keeps a function as it was when it was first called, also past DROP and CREATE."""
    put(GRANTS)
    with session(named, "thrift", "owen") as owen, session(named, endpoint, "ann") as ann:
        owen("CREATE FUNCTION named.moved() RETURNS BIGINT RETURN SELECT sum(amount) FROM named.pay")
        assert ann("SELECT named.moved()") == [(30,)]
        ann("CREATE TEMPORARY VIEW moving AS SELECT named.moved() AS m")
        put(GRANTS + FILTER)
        again = "CREATE OR REPLACE FUNCTION named.moved() RETURNS BIGINT RETURN "
        owen(f"{again} SELECT sum(id) FROM named.plain")
        assert owen("SELECT named.moved()") == [(7,)]
        assert "was replaced since this session" in said(ann, "SELECT named.moved()")
        assert "the temporary view `moving` end" in said(ann, "SELECT m FROM moving")
        owen("DROP FUNCTION named.moved")
        owen("CREATE FUNCTION named.moved() RETURNS BIGINT RETURN 5")
        assert "was replaced since this session" in said(ann, "SELECT named.moved()")
        with session(named, endpoint, "ann") as later:
            assert later("SELECT named.moved()") == [(5,)]
        owen("DROP FUNCTION named.moved")
