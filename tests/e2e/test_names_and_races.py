"""On real Spark: no answer tells what one may not know of, and what appears is touched by nobody else."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyhive import hive
from pyhive.exc import Error
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.session.redact import NOT_SELECTABLE
from tests.e2e.lab import CANARY, PASSWORD
from tests.e2e.running import RunningGateway, Spark

USER = "mallory"


pytestmark = pytest.mark.in_turn(2)


@pytest.fixture(scope="module")
def thrift(lab_gateway: RunningGateway) -> Iterator[Any]:
    connection = hive.connect(
        host=lab_gateway.host, port=lab_gateway.port, username=USER, auth="CUSTOM", password=PASSWORD
    )
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def connect(lab_gateway: RunningGateway) -> Iterator[Any]:
    with lab_gateway.session(USER, PASSWORD) as session:
        yield session


def over_thrift(connection: Any, text: str) -> str:
    """Return the error that a statement ends with, empty without one."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
        shown = (cursor.description, cursor.fetchall() if cursor.description else None)
        assert CANARY not in repr(shown).upper()
    except Error as error:
        status = error.args[0].status
        return f"{status.sqlState} {status.errorMessage}"
    return ""


def over_connect(work: Callable[..., Any], *arguments: Any) -> str:
    try:
        assert CANARY not in repr(work(*arguments)).upper()
    except PySparkException as error:
        return f"{error.getCondition()} {error.getSqlState()} {error.getMessageParameters()} {error}"
    return ""


def rows_of(session: Any, text: str) -> Any:
    return session.sql(text).collect()


_SUGGESTED = re.compile(r"\[(`[^\]]*`)\]|'proposal': '([^']*)'")
_EVENT = re.compile(r"[0-9a-f-]{36}|[0-9a-f]{32}")
_ID = re.compile(r"(?<=#)\d+|(?<=line )\d+|(?<=pos )\d+")


def normal(told: str, name: str) -> str:
    """Return an error without the name; what Spark suggests comes in the order of likeness to it."""
    told = _SUGGESTED.sub(lambda m: str(sorted((m[1] or m[2]).split(", "))), told)
    return _ID.sub("0", _EVENT.sub("EVENT", told)).replace(name, "{c}")


NAMES = [("masked", "salary", "salarx"), ("ledger", f"{CANARY.lower()}_due", f"{CANARY.lower()}_dux")]
TEXTS = [
    "SELECT {c} FROM lab.{t}",
    "SELECT lab.{t}.{c} FROM lab.{t}",
    "SELECT {c}.x FROM lab.{t}",
    "SELECT id FROM lab.{t} WHERE {c} = 'x'",
    "SELECT id FROM lab.{t} ORDER BY {c}",
    "SELECT id FROM (SELECT id FROM lab.{t}) ORDER BY {c}",
    "TABLE lab.{t} ORDER BY {c}",
    "FROM lab.{t} |> SELECT id |> ORDER BY {c}",
    "SELECT id FROM lab.{t} AS m(id) WHERE {c} = 1",
    "SELECT count(*) FROM lab.{t} GROUP BY {c}",
    "SELECT x.id FROM lab.{t} x JOIN lab.{t} y USING ({c})",
    "SELECT a FROM lab.ok WHERE EXISTS (SELECT 1 FROM lab.{t} WHERE {c} = a)",
    "SELECT * EXCEPT ({c}) FROM lab.{t}",
    "CREATE TEMP VIEW leak AS SELECT {c} FROM lab.{t}",
    "DESCRIBE lab.{t} {c}",
    "DESCRIBE EXTENDED lab.{t} {c}",
    "INSERT INTO lab.ledger (id, {c}) VALUES (1, 'x')",
    "ANALYZE TABLE lab.{t} COMPUTE STATISTICS FOR COLUMNS {c}",
    "ALTER TABLE lab.vault ALTER COLUMN {c} COMMENT 'x'",
]


@pytest.mark.parametrize(("table", "hidden", "nobodys"), NAMES)
@pytest.mark.parametrize("text", TEXTS)
def test_a_hidden_column_is_not_told_from_none(
    thrift: Any, connect: Any, text: str, table: str, hidden: str, nobodys: str
) -> None:
    told: list[list[str]] = [[], []]
    for name in (hidden, nobodys):
        statement = text.format(c=name, t=table)
        answers = (over_thrift(thrift, statement), over_connect(rows_of, connect, statement))
        for kept, answer in zip(told, answers, strict=True):
            assert answer, statement
            kept.append(normal(answer, name))
    for first, second in told:
        assert first == second
        assert CANARY not in first.upper()


BEHIND_PIPES = [
    "FROM lab.{t} |> EXTEND concat(id, 'x') AS {c}, concat({c}, 'y') AS q |> SELECT q",
    "FROM lab.{t} |> SELECT id AS {c}, concat({c}, 'y') AS q",
    "FROM lab.{t} |> AGGREGATE count(*) AS n GROUP BY concat(id, 'x') AS {c}, concat({c}, 'y') AS q "
    "|> SELECT n",
    "FROM lab.ok |> SELECT a AS {c} |> WHERE EXISTS (FROM lab.{t} |> WHERE {c} = id) |> SELECT 1 AS one",
    "WITH w AS (FROM lab.{t} |> SELECT id AS {c}, concat({c}, 'y') AS q) FROM w |> SELECT q",
]
NOT_REFUSED = [
    "FROM lab.{t} |> SELECT id |> ORDER BY id |> LIMIT 2",
    "FROM lab.{t} |> SELECT id AS {c} |> WHERE {c} IS NOT NULL "
    "|> AGGREGATE count(*) AS n GROUP BY {c} |> SELECT n",
    "FROM lab.ok |> EXTEND a AS n, concat(n, 'x') AS m |> WHERE m IS NOT NULL",
]


@pytest.mark.parametrize(("table", "hidden", "nobodys"), NAMES)
def test_behind_a_pipe_nothing_is_taken_for_a_hidden_column(
    thrift: Any, connect: Any, table: str, hidden: str, nobodys: str
) -> None:
    for name in (hidden, nobodys):
        for text in BEHIND_PIPES:
            statement = text.format(c=name, t=table)
            for told in (over_thrift(thrift, statement), over_connect(rows_of, connect, statement)):
                assert f"`{name}` could be resolved to a column" in told, statement
        for text in NOT_REFUSED:
            statement = text.format(c=name, t=table)
            assert over_thrift(thrift, statement) == over_connect(rows_of, connect, statement) == ""
        frame = connect.table(f"lab.{table}").withColumns(
            {name: F.concat("id", F.lit("x")), "q": F.concat(F.col(name), F.lit("y"))}
        )
        assert f"`{name}` could be resolved to a column" in over_connect(frame.select("q").collect)


FRAMES: list[Callable[[Any, str], Any]] = [
    lambda frame, c: frame.select(c),
    lambda frame, c: frame.select(frame[c]),
    lambda frame, c: frame.filter(F.col(c) == "x"),
    lambda frame, c: frame.select("id").orderBy(c),
    lambda frame, c: frame.select("id").filter(frame[c] == "x"),
    lambda frame, c: frame.groupBy(c).count(),
    lambda frame, c: frame.dropDuplicates([c]),
    lambda frame, c: frame.join(frame.alias("y"), c),
]


@pytest.mark.parametrize(("table", "hidden", "nobodys"), NAMES)
@pytest.mark.parametrize("make", FRAMES, ids=range(len(FRAMES)))
@pytest.mark.parametrize("asked", ["rows", "schema"])
def test_in_dataframes(
    connect: Any, make: Callable[[Any, str], Any], asked: str, table: str, hidden: str, nobodys: str
) -> None:
    told = []
    for name in (hidden, nobodys):

        def work(name: str = name) -> Any:
            frame = make(connect.table(f"lab.{table}"), name)
            return frame.schema if asked == "schema" else frame.select("*").collect()

        told.append(normal(over_connect(work), name))
    assert told[0] == told[1]
    assert told[0]
    assert CANARY not in told[0].upper()


def test_who_lacks_the_privilege_learns_what_to_ask_for(thrift: Any, connect: Any) -> None:
    for name in ("salary", "salarx"):
        text = f"SELECT id, {name} FROM lab.masked"
        for told in (over_thrift(thrift, text), over_connect(rows_of, connect, text)):
            assert f"with name `{name}` cannot be resolved." in told
            assert NOT_SELECTABLE in told
            assert "42703" in told
    assert NOT_SELECTABLE not in over_thrift(thrift, "SELECT nope FROM lab.ok")


def test_writing_by_name_tells_no_name(connect: Any) -> None:
    for name in (f"{CANARY.lower()}_due", "nope"):
        frame = connect.sql(f"SELECT 1 AS id, 'x' AS {name}")
        assert "by position" in over_connect(frame.writeTo("lab.ledger").append)
    short = connect.sql("SELECT 1 AS id")
    told = over_connect(short.write.insertInto, "lab.ledger")
    assert told
    assert CANARY not in told.upper()


STATED = """CREATE TABLE spark_catalog.lab.late_stated (
  id INT COMMENT 'it\\'s a number',
  `a b` STRUCT<x: INT, y: MAP<INT, DECIMAL(10,2)>>,
  day DATE COMMENT 'of it')
USING parquet
PARTITIONED BY (day)
COMMENT 'all of them'
TBLPROPERTIES (
  'parquet.compression' = 'zstd')
"""


def test_the_statement_of_a_guarded_table_makes_what_may_be_seen(
    thrift: Any, connect: Any, spark: Spark
) -> None:
    own = f"TBLPROPERTIES (\n  'a' = '{CANARY}',\n  "
    made = STATED.replace("TBLPROPERTIES (\n  ", own).replace(
        "DECIMAL(10,2)>>", "DECIMAL(10,2)>> DEFAULT NULL"
    )
    spark.query(made, user="loader")
    text = "SHOW CREATE TABLE lab.late_stated"
    ((whole,),) = spark.query(text)
    assert CANARY in whole
    cursor = thrift.cursor()
    cursor.execute(text)
    assert cursor.fetchall() == [(STATED,)]
    assert [tuple(row) for row in rows_of(connect, text)] == [(STATED,)]
    assert connect.catalog.getCreateTableString("lab.late_stated") == STATED
    assert dict(connect.catalog.getTableProperties("lab.late_stated")) == {"parquet.compression": "zstd"}
    spark.query(STATED.replace("late_stated", "late_again"), user="loader")  # Spark reads it
    ((again,),) = spark.query("SHOW CREATE TABLE lab.late_again")
    assert again.startswith(STATED.replace("late_stated", "late_again").partition("TBLPROPERTIES")[0])
    ((hidden,),) = rows_of(connect, "SHOW CREATE TABLE lab.ledger")
    assert hidden.partition("\nUSING")[0] == "CREATE TABLE spark_catalog.lab.ledger (\n  id INT)"
    for refused in ("lab.vault", "lab.masked AS SERDE"):
        assert "SLUICE_ACCESS_DENIED" in over_thrift(thrift, f"SHOW CREATE TABLE {refused}")


LATE = [
    "TRUNCATE TABLE {t}",
    "INSERT OVERWRITE {t} SELECT 9",
    "ALTER TABLE {t} RENAME TO late_gone",
    "ALTER TABLE {t} ADD COLUMN x INT",
    "ANALYZE TABLE {t} COMPUTE STATISTICS FOR ALL COLUMNS",
    "SHOW CREATE TABLE {t}",
    "DESCRIBE EXTENDED {t} id",
    "CREATE TEMP VIEW late_view AS SELECT * FROM {t}",
    "CACHE TABLE late_cache AS SELECT * FROM {t}",
]


@pytest.mark.parametrize("door", ["thrift", "connect"])
@pytest.mark.parametrize("text", LATE)
def test_a_table_that_appeared_meanwhile_is_not_reached(
    thrift: Any, connect: Any, spark: Spark, text: str, door: str
) -> None:
    """The gateway has just learnt that it is not there; its rows are filtered for who asks."""
    name = f"lab.late_{LATE.index(text)}_{door}"
    assert "TABLE_OR_VIEW_NOT_FOUND" in over_thrift(thrift, f"SELECT * FROM {name}")
    spark.query(f"CREATE TABLE {name} USING parquet AS SELECT 1 AS id", user="loader")
    statement = text.format(t=name)
    told = over_thrift(thrift, statement) if door == "thrift" else over_connect(rows_of, connect, statement)
    # Had the machine been so slow that what was learnt is too old, policies refuse it, or guard it.
    if told or not re.search("AS SELECT|SHOW CREATE", text):
        assert "TABLE_OR_VIEW_NOT_FOUND" in told or "a row filter, column mask or hidden column of" in told, (
            told
        )
    else:
        kept = f"SELECT * FROM {statement.split(' AS ')[0].split()[-1]}"
        assert (over_thrift(thrift, kept) if door == "thrift" else over_connect(rows_of, connect, kept)) == ""
    assert spark.query(f"SELECT * FROM {name}", user="loader") == [(1,)]


def test_a_table_that_appeared_meanwhile_does_not_show_its_columns(thrift: Any, spark: Spark) -> None:
    assert "TABLE_OR_VIEW_NOT_FOUND" in over_thrift(thrift, "SELECT * FROM lab.late_shown")
    spark.query(f"CREATE TABLE lab.late_shown USING parquet AS SELECT 1 AS {CANARY.lower()}", user="loader")
    for text in ("SELECT * FROM lab.late_shown", "DESCRIBE QUERY SELECT * FROM lab.late_shown"):
        over_thrift(thrift, text)  # asserts that no canary shows
