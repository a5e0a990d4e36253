"""No expression of a user is tried on a row that a filter hides: answers, and errors, are those of a copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from pyhive.exc import OperationalError

from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.decision import PolicyRef, RowFilter
from gateway.sql.guard import write_guarded_query
from tests.e2e.connect import world
from tests.e2e.running import RunningGateway, Spark, connect, query
from tests.shares import in_turn

pytestmark = pytest.mark.in_turn(2)

DATABASE = "filter_first"
FILTERS = {
    "plain": "ok",
    "of values": "(c <> 1 OR a > 1) AND p < 9",
    "subquery": f"a IN (SELECT a FROM spark_catalog.{DATABASE}.t WHERE ok)",
}
"""Each hides the row whose `a` is 1, and the partition 9, and nothing else."""
FAILS = "1 / (a - 1)"
"""On a hidden row only, which stands among others: a file without visible rows is not read."""
TEXTS = {
    "where": "SELECT count(*) FROM {t} WHERE {fails} > -9",
    "inferred from equal columns": "SELECT count(*) FROM {t} WHERE a = b AND {fails} > -9",
    "inferred with a cast": "SELECT count(*) FROM {t} WHERE CAST(s AS BIGINT) = a AND 1 / (a - 1) + c > -9",
    "common, and without code of its own": "SELECT count(*) FROM {t} WHERE ({fails} > 5 OR {fails} > -9) "
    "AND zip_with(array(a), array(a), (x, y) -> x + y)[0] >= 0",
    "partition column": "SELECT count(*) FROM {t} WHERE 1 / (p - 9) > -9 AND {fails} > -9",
    "cast": "SELECT count(*) FROM {t} WHERE CAST(CASE WHEN a = 1 THEN 'x' ELSE s END AS INT) >= 0",
    "join": "SELECT count(*) FROM {t} AS t JOIN {r} ON t.a = r.id AND {fails} > -9",
    "join of two": "SELECT count(*) FROM {t} AS t JOIN {t} AS u USING (a) WHERE 1 / (t.b - 1) + u.c > -9",
    "outer join": "SELECT count(*) FROM {r} LEFT JOIN {t} AS t ON t.a = r.id AND {fails} > -9",
    "semi join": "SELECT count(*) FROM {t} AS t LEFT SEMI JOIN {r} ON t.a = r.id AND {fails} > -9",
    "anti join": "SELECT count(*) FROM {r} LEFT ANTI JOIN {t} AS t ON t.a = r.id AND {fails} > -9",
    "join key": "SELECT count(*) FROM {t} AS t JOIN {r} ON 60 / (t.a - 1) = r.id",
    "exists": "SELECT count(*) FROM {r} WHERE EXISTS (SELECT 1 FROM {t} WHERE a = r.id AND {fails} > 0)",
    "in": "SELECT count(*) FROM {r} WHERE r.id IN (SELECT a FROM {t} WHERE {fails} > -9)",
    "not in": "SELECT count(*) FROM {r} WHERE r.id NOT IN (SELECT a FROM {t} WHERE {fails} > -9)",
    "correlated scalar": "SELECT round(sum((SELECT max({fails}) FROM {t} AS t WHERE t.a = r.id)), 9) "
    "FROM {r}",
    "lateral": "SELECT count(x) FROM {r}, LATERAL (SELECT {fails} AS x FROM {t} AS t WHERE t.a = r.id)",
    "scalars that are merged": "SELECT (SELECT count(*) FROM {t} WHERE {fails} > -9 AND c > 1), "
    "(SELECT sum(c) FROM {t} WHERE {fails} > -9 AND c < 1)",
    "having": "SELECT c, count(*) FROM {t} GROUP BY c, a HAVING {fails} > -9 ORDER BY ALL",
    "aggregate filter": "SELECT count(*) FILTER (WHERE {fails} > -9), round(sum({fails}), 9) FROM {t}",
    "window": "SELECT round(sum({fails}) OVER (PARTITION BY c ORDER BY a), 9) AS x FROM {t} ORDER BY x",
    "rank": "SELECT * FROM (SELECT a, rank() OVER (ORDER BY {fails}) AS n FROM {t}) WHERE n < 3 ORDER BY n",
    "generator": "SELECT count(*) FROM {t} LATERAL VIEW explode(array({fails}, 1)) AS e WHERE e > -9",
    "raise_error": "SELECT count(*) FROM {t} WHERE a = b AND IF(a = 1, raise_error('x'), true)",
    "assert_true": "SELECT count(*) FROM {t} WHERE a = b AND assert_true(a <> 1) IS NULL",
    "element": "SELECT count(*) FROM {t} WHERE a = b AND array(1, 2)[IF(a = 1, 7, 0)] = 1",
    "top": "SELECT a FROM {t} ORDER BY {fails}, a LIMIT 3",
    "union": "SELECT count(*) FROM (SELECT a, b FROM {t} UNION ALL SELECT a, b FROM {t}) "
    "WHERE a = b AND {fails} > -9",
    "except": "SELECT a FROM {t} EXCEPT SELECT a FROM {t} WHERE {fails} > 0 ORDER BY a",
    "distinct": "SELECT DISTINCT c FROM {t} WHERE a = b AND {fails} > -9 ORDER BY c",
    "pivot": "SELECT * FROM (SELECT c, {fails} AS x FROM {t} WHERE a = b) PIVOT (count(x) FOR c IN (0, 4))",
    "recursive": "WITH RECURSIVE r AS (SELECT a, {fails} AS x FROM {t} WHERE a = 5 UNION ALL "
    "SELECT t.a, 1 / (t.a - 1) FROM r JOIN {t} AS t ON t.a = r.a + 5) SELECT count(*) FROM r",
    "sampled": "SELECT count(*) FROM {t} TABLESAMPLE (100 PERCENT) AS t WHERE a = b AND {fails} > -9",
    "limited": "SELECT count(*) FROM (SELECT * FROM {t} WHERE a = b LIMIT 100) WHERE {fails} > -9",
    "every row": "SELECT * FROM {t} ORDER BY a",
}
ORACLES = (
    "inferred from equal columns",
    "inferred with a cast",
    "common, and without code of its own",
    "partition column",
)
"""Those that tell of the hidden row when nothing keeps the filter first."""
NAIVE = f"(SELECT a, b, c, s, p FROM {DATABASE}.t WHERE ok)"


@pytest.fixture(scope="module")
def asked(spark: Spark) -> Iterator[Callable[[str], list[Any]]]:
    columns = "id AS a, id AS b, id % 5 AS c, CAST(id AS STRING) AS s, id NOT IN (1, 30) AS ok"
    made = "USING parquet PARTITIONED BY (p) AS SELECT /*+ COALESCE(1) */"
    spark.query(
        f"CREATE DATABASE {DATABASE}",
        f"CREATE TABLE {DATABASE}.t {made} {columns}, IF(id = 30, 9, id % 3) AS p FROM range(31)",
        f"CREATE TABLE {DATABASE}.copy {made} a, b, c, s, p FROM {DATABASE}.t WHERE ok",
    )
    connection = connect(spark.host, spark.port, "direct")
    cursor = connection.cursor()

    @cache
    def ask(text: str) -> list[Any]:
        """Run a query; the copy is asked for what each of the filters leaves."""
        cursor.execute(text)
        return list(cursor.fetchall())

    yield ask
    connection.close()


def written(name: str, table: str) -> str:
    return TEXTS[name].format(t=table, r="range(2, 40) AS r", fails=FAILS)


def guarded(condition: str) -> str:
    kinds = {"a": "bigint", "b": "bigint", "c": "bigint", "s": "string", "ok": "boolean", "p": "bigint"}
    table = Table(
        name=TableName("spark_catalog", DATABASE, "t"),
        kind=TableKind.TABLE,
        columns=tuple(Column(name=name, type=kind) for name, kind in kinds.items()),
    )
    query = write_guarded_query(
        table,
        visible=("a", "b", "c", "s", "p"),
        masks={},
        row_filter=RowFilter(expression=condition, policy=PolicyRef()),
        source=f"spark_catalog.{DATABASE}.t AS `t`",
    )
    return f"({query})"


@pytest.mark.parametrize("name", ORACLES)
def test_spark_itself_tries_them_on_hidden_rows(asked: Any, name: str) -> None:
    assert asked(written(name, f"{DATABASE}.copy"))
    with pytest.raises(OperationalError, match="DIVIDE_BY_ZERO"):
        asked(written(name, NAIVE))


@pytest.mark.parametrize("condition", FILTERS.values(), ids=FILTERS)
@pytest.mark.parametrize("name", in_turn(TEXTS, 4, always=ORACLES))
def test_the_answer_is_that_of_a_copy(asked: Any, name: str, condition: str) -> None:
    assert asked(written(name, guarded(condition))) == asked(written(name, f"{DATABASE}.copy"))


@pytest.fixture(scope="module")
def session(connect_gateway: RunningGateway) -> Iterator[Any]:
    with connect_gateway.session(world.ATTACKER, world.PASSWORD) as session:
        session.sql(f"USE {world.DATABASE}")
        yield session


TELLS = f"value = seq AND 1 / (CASE WHEN value < 99 AND kind LIKE '{world.CANARY}%' THEN 0 ELSE 1 END) > 0"
TWICE = "1 / (seq - 1) + 1 / (seq - 1) > -9 AND zip_with(array(seq), array(seq), (x, y) -> x + y)[0] > -9"


@pytest.mark.parametrize("condition", [TELLS, TWICE])
def test_nobody_reads_hidden_rows_by_errors(
    session: Any, connect_gateway: RunningGateway, condition: str
) -> None:
    visible = session.table("events").filter(condition.split(" AND ")[0] if condition is TELLS else "true")
    rows = visible.count()
    assert session.table("events").filter(condition).count() == rows
    assert session.sql(f"SELECT * FROM events WHERE {condition}").count() == rows
    session.table("events").createOrReplaceTempView("mine")
    assert session.table("mine").where(condition).count() == rows
    where = connect_gateway.host, connect_gateway.port
    text = f"SELECT count(*) FROM cw.events WHERE {condition}"
    assert query(*where, world.ATTACKER, text, password=world.PASSWORD) == [(rows,)]


def test_nobody_reads_hidden_rows_by_errors_of_a_stream(session: Any) -> None:
    stream = session.readStream.table("events").where(TELLS).writeStream.format("memory").queryName("told")
    started = stream.trigger(availableNow=True).start()
    assert started.awaitTermination(120)
    assert started.exception() is None
    assert session.table("told").count() == 0
