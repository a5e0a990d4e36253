"""Row filters whose barriers let conditions through, or are left out: what is read, and that nothing else
changes by it.

Statements are judged here and given to Spark as they would be forwarded, with and without the copies of
conditions, with and without barriers. About two minutes of CPU. `make minors` runs it on every minor; what
lists and semi-joins of entitlements and masks cost is in test_entitlements.py and test_masks_in_plans.py, and
limits and metadata of sources in lake/.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyhive.exc import OperationalError
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.spark_minors import minor_of
from gateway.model.statement import Cleared, PlanRequest
from gateway.pipeline import Rules
from gateway.reader.java_runtime import find_spark_home, spark_version
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.e2e.filtered_tables import (
    BARRED,
    BLIND,
    COUNTED_FILTER,
    DATABASE,
    FILTERS,
    HIDDEN_S,
    ODD,
    ODD_ROWS,
    ORACLES,
    TOLD,
    TOLD_ROWS,
    VIEWS,
    answer,
    filtered_world,
    forwarded,
    plan_of,
    rows,
    tables,
)
from tests.e2e.running import Spark, connect, takes_plans
from tests.effort import EFFORT, tries
from tests.judge_world import World
from tests.plan.frames import Frame, message, table
from tests.readers import is_older
from tests.shares import todays

pytestmark = pytest.mark.asyncio(loop_scope="session")

PIPES = "4.0"
"""Since this minor texts may have `|>`."""
ANSI = "SET spark.sql.ansi.enabled=true"
"""Without it nothing fails, and Spark 3.5 is without it by itself."""


@pytest.fixture(scope="module")
def world() -> World:
    return filtered_world()


def _of_copies(found: re.Match[str]) -> str:
    clause, table, view = found.groups()
    return f"{clause} {DATABASE}.{table}{view or ''}{'' if table == 'plain' else '_copy'}"


@pytest.fixture(scope="module")
def cursor(spark: Spark) -> Iterator[Any]:
    spark.query(
        # Spark 3.5 writes no days of before 1900 unless it is told by which calendar.
        *(f"SET spark.sql.parquet.{one}RebaseModeInWrite=CORRECTED" for one in ("datetime", "int96")),
        *tables(),
        *(
            f"CREATE TABLE {DATABASE}.{table} ({', '.join(f'{n} {k}' for n, k in ODD.items())}) USING parquet"
            for table in ("odd", "odd_copy")
        ),
        f"INSERT INTO {DATABASE}.odd VALUES {ODD_ROWS}",
        f"CREATE TABLE {DATABASE}.told ({', '.join(f'`{n}` {k}' for n, k in TOLD.items())}) USING parquet",
        # In one file, which no statistics of it leave out.
        f"INSERT INTO {DATABASE}.told SELECT /*+ COALESCE(1) */ * FROM VALUES {TOLD_ROWS}",
        f"CREATE TABLE {DATABASE}.told_copy USING parquet AS "
        f"SELECT * FROM {DATABASE}.told WHERE {FILTERS['told']}",
        f"INSERT INTO {DATABASE}.odd_copy SELECT * FROM {DATABASE}.odd WHERE {FILTERS['odd']}",
        *(
            f"CREATE VIEW {DATABASE}.{name}_copy AS "
            + re.sub(r"(FROM|JOIN) (fact|dim|plain)(_\w+)?\b", _of_copies, text)
            for name, text in VIEWS.items()
        ),
    )
    connection = connect(spark.host, spark.port, "direct")
    cursor = connection.cursor()
    cursor.execute(f"USE {DATABASE}")
    cursor.execute("SET spark.sql.shuffle.partitions=1")
    cursor.execute(ANSI)
    yield cursor
    connection.close()


PRUNED = {
    "partition": (
        "SELECT count(*), sum(amount) FROM fact WHERE day = '2024-01-03'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "range of partitions": (
        "SELECT count(*) FROM fact f WHERE f.day BETWEEN DATE'2024-01-03' AND '2024-01-04'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ >= 2024-01-03\), \(day#\d+ <= 2024-01-04\)\]",
    ),
    "statistics": (
        "SELECT * FROM fact WHERE id > 470 AND s LIKE 's1%'",
        r"PushedFilters: \[.*GreaterThan\(id,470\), StringStartsWith\(s,s1\)",
    ),
    "within": (
        "SELECT * FROM (SELECT day AS d, sum(amount) AS a FROM fact GROUP BY day) WHERE d = '2024-01-03'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "of the other side": (
        "SELECT f.id FROM fact f JOIN dim d ON f.k = d.k WHERE d.k = 2",
        r"PushedFilters: \[.*IsNotNull\(k\).*EqualTo\(k,2\)",
    ),
    "of a view": (
        "SELECT count(*), sum(amount) FROM fact_plain f WHERE f.day = '2024-01-03'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "of a view in a view": (
        "SELECT * FROM plain JOIN fact_deep d USING (k) WHERE d.day = '2024-01-03' AND d.one = 1",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "by a view's own name": (
        "SELECT count(*) FROM (SELECT * FROM fact_named) WHERE day = '2024-01-03'",
        r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]",
    ),
    "a date or time literal": (
        "SELECT name FROM dim WHERE at >= TIMESTAMP'2024-01-04 00:00:00'",
        r"PushedFilters: \[.*GreaterThanOrEqual\(at,2024-01-04T00:00:00Z\)",
    ),
}


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(("text", "found"), PRUNED.values(), ids=PRUNED)
async def test_the_source_is_asked_for_what_the_user_asks_for(
    world: World, reader: ReaderPool, cursor: Any, text: str, found: str
) -> None:
    """The plan says which partitions and files are read; with a barrier and without copies, none of these."""
    cursor.execute("SET TIME ZONE 'UTC'")
    for rules in (BARRED, Rules()):
        assert re.search(found, plan_of(cursor, await forwarded(world, reader, text, rules)))
    assert not re.search(found, plan_of(cursor, await forwarded(world, reader, text, BLIND)))


OPEN = {
    "partitions by a join": (
        "SELECT sum(amount) FROM fact f JOIN days d ON f.day = d.day WHERE d.number = 3",
        r"PartitionFilters: \[.*dynamicpruning",
    ),
    "partitions by a subquery": (
        "SELECT count(*) FROM fact WHERE day IN (SELECT day FROM days WHERE number = 3)",
        r"PartitionFilters: \[.*dynamicpruning",
    ),
    "partitions by a function": (
        "SELECT count(*) FROM fact WHERE dayofmonth(day) = 3",
        r"PartitionFilters: \[.*\(dayofmonth\(day#\d+\) = 3\)",
    ),
    "partitions by a list of names": (
        "WITH c (d) AS (SELECT day FROM fact) SELECT count(*) FROM c WHERE dayofmonth(d) = 3",
        r"PartitionFilters: \[.*\(dayofmonth\(day#\d+\) = 3\)",
    ),
    "of several columns": (
        "SELECT count(*) FROM fact WHERE k < id",
        r"PushedFilters: \[.*IsNotNull\(k\)",
    ),
}


@pytest.mark.in_turn(2)
@pytest.mark.parametrize(("text", "found"), OPEN.values(), ids=OPEN)
async def test_without_a_barrier_joins_and_functions_choose_what_is_read(
    world: World, reader: ReaderPool, cursor: Any, text: str, found: str
) -> None:
    plan = plan_of(cursor, await forwarded(world, reader, text, Rules()))
    assert re.search(found, plan)
    assert not re.search("typeof|raise_error", plan)
    assert not re.search(found, plan_of(cursor, await forwarded(world, reader, text)))


TAKEN = {
    "aggregates": (
        "SELECT max(n), min(n), count(*) FROM derby.app.fact",
        r"PushedAggregates: \[MAX\(n\), MIN\(n\), COUNT\(\*\)\]",
    ),
    "groups": (
        "SELECT k, sum(n) FROM derby.app.fact WHERE n > 3 GROUP BY k",
        r"PushedGroupByExpressions: \[k\]",
    ),
}


def derby_driver() -> str:
    """Return the class as the Derby of this Spark has it."""
    minor = minor_of(spark_version(find_spark_home()))
    return f"org.apache.derby.{'' if minor < minor_of(PIPES) else 'iapi.'}jdbc.AutoloadedDriver"


@pytest.fixture(scope="module")
def derby(cursor: Any) -> Any:
    """A database, the one of Spark's own jars, as a catalog."""
    for text in (
        "SET spark.sql.catalog.derby=org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "SET spark.sql.catalog.derby.url=`jdbc:derby:memory:push_down;create=true`",
        f"SET spark.sql.catalog.derby.driver={derby_driver()}",
        *(f"SET spark.sql.catalog.derby.pushDown{one}=true" for one in ("Aggregate", "Limit", "TableSample")),
        "CREATE NAMESPACE IF NOT EXISTS derby.app",
        "CREATE TABLE derby.app.fact (k INT, n INT)",
        "INSERT INTO derby.app.fact SELECT CAST(id % 7 AS INT), CAST(id AS INT) FROM range(70)",
    ):
        cursor.execute(text)
    return cursor


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(("text", "found"), TAKEN.values(), ids=TAKEN)
async def test_a_database_is_given_aggregates_and_limits(
    world: World, reader: ReaderPool, derby: Any, text: str, found: str
) -> None:
    opened = await forwarded(world, reader, text, Rules())
    plan = plan_of(derby, opened)
    assert re.search(found, plan)
    assert "raise_error" not in plan
    barred = await forwarded(world, reader, text)
    assert not re.search(found, plan_of(derby, barred))
    assert len(rows(derby, opened)) == len(rows(derby, barred))


TOP_TWO = "SELECT k, n FROM {fact} ORDER BY n LIMIT 2"


async def test_a_database_is_given_an_order_and_a_limit(world: World, reader: ReaderPool, derby: Any) -> None:
    """For Derby, Spark forgets to write the limit, and believes that it has been kept: without us, too.
    Databases whose dialect has a LIMIT are in lake/test_catalog_servers.py."""
    found = r"PushedTopN: ORDER BY \[n ASC NULLS FIRST\] LIMIT 2"
    text = TOP_TWO.format(fact="derby.app.fact")
    opened, barred = await forwarded(world, reader, text, Rules()), await forwarded(world, reader, text)
    assert re.search(found, plan_of(derby, opened))
    assert not re.search(found, plan_of(derby, barred))
    filtered = TOP_TWO.format(fact="(SELECT * FROM derby.app.fact WHERE k <> 3)")
    assert rows(derby, opened) == rows(derby, filtered)
    assert len(rows(derby, barred)) == 2


@pytest.fixture
def counted(cursor: Any) -> Iterator[Any]:
    """Tables of which Spark knows how many rows and values they have, and that it is to think of."""
    padded = "concat('a name that takes its place ', id)"
    for text in (
        f"CREATE TABLE counted USING parquet AS SELECT CAST(id AS INT) AS id, CAST(id % 50 AS INT) AS a, "
        f"CAST(id % 40 AS INT) AS b, IF(id % 4 = 3, '{HIDDEN_S}', concat('s', id % 4)) AS s FROM range(2000)",
        f"CREATE TABLE of_a USING parquet AS SELECT CAST(id AS INT) AS a, {padded} AS name FROM range(500)",
        "CREATE TABLE of_b USING parquet AS SELECT CAST(id AS INT) AS b, CAST(id % 100 AS INT) AS kind "
        "FROM range(400)",
        *(f"ANALYZE TABLE {one} COMPUTE STATISTICS FOR ALL COLUMNS" for one in ("counted", "of_a", "of_b")),
        *(f"SET {key}={value}" for key, value in BY_COST.items()),
    ):
        cursor.execute(text)
    yield cursor
    for key in BY_COST:
        cursor.execute(f"RESET {key}")


BY_COST = {
    "spark.sql.cbo.enabled": "true",
    "spark.sql.cbo.joinReorder.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "3000",
    "spark.sql.adaptive.enabled": "false",
}


def joins_of(cursor: Any, text: str) -> list[str]:
    """Return the joins and scans of a plan, from the last join down to the first."""
    cursor.execute(f"EXPLAIN {text}")
    plan = "\n".join(row[0] for row in cursor.fetchall())
    return re.findall(r"\w+Join(?= \[)|Build\w+|FileScan parquet [\w.]+", plan)


async def test_joins_are_ordered_and_broadcast_by_what_the_conditions_leave(
    world: World, reader: ReaderPool, counted: Any
) -> None:
    """As over the filter without a gateway; what a barrier leaves, Spark cannot estimate."""
    text = (
        "SELECT count(*) FROM {fact} f JOIN of_a ON f.a = of_a.a JOIN of_b ON f.b = of_b.b "
        "WHERE of_b.kind = 3 AND f.id >= 0 AND f.s = 's1'"
    )
    physical = joins_of(counted, text.format(fact=f"(SELECT * FROM counted WHERE {COUNTED_FILTER})"))
    assert physical.count("BroadcastHashJoin") == 2
    governed = text.format(fact="counted")
    assert joins_of(counted, await forwarded(world, reader, governed, Rules())) == physical
    barred = joins_of(counted, await forwarded(world, reader, governed))
    assert barred != physical
    assert "SortMergeJoin" in barred


PRUNED_FRAMES = {
    "a table": (lambda: table("fact").where("day = '2024-01-03'"), True),
    "a view": (lambda: table("fact_plain").where("day = '2024-01-03'").select("id"), True),
    "a view by its DataFrame": (lambda: (f := table("fact_plain")).where(f.day == "2024-01-03"), True),
    "a view in a view": (
        lambda: table("plain").join(table("fact_deep"), "k").where("day = '2024-01-03' AND one = 1"),
        True,
    ),
    "grouped": (lambda: table("fact_plain").groupBy("day").count().where("day = '2024-01-03'"), True),
    "what a view makes": (lambda: table("fact_other").where("day = '2024-01-03'"), False),
    "the first rows of a view": (lambda: table("fact_first").where("day = '2024-01-03'"), False),
}


@pytest.mark.in_turn(6)
@pytest.mark.parametrize(("frame", "pruned"), PRUNED_FRAMES.values(), ids=PRUNED_FRAMES)
async def test_plans_of_spark_connect_ask_through_views_for_what_they_ask_for(
    world: World, reader: ReaderPool, cursor: Any, spark: Spark, frame: Callable[[], Frame], pruned: bool
) -> None:
    if not takes_plans():
        return
    request = PlanRequest(kind="execute", message=message(frame()).SerializeToString(deterministic=True))
    found = []
    with spark.session() as session:
        for rules in (BARRED, Rules(), BLIND):
            verdict = await world.judge_plan(request, reader, user="bob", rules=rules, namespace=(DATABASE,))
            assert isinstance(verdict, Cleared), verdict
            asked = session.client._analyze_plan_request_with_metadata()
            asked.explain.plan.CopyFrom(pb.Plan.FromString(verdict.forwarded_plan))
            asked.explain.explain_mode = pb.AnalyzePlanRequest.Explain.EXPLAIN_MODE_FORMATTED
            answer = session.client._stub.AnalyzePlan(asked, metadata=session.client._builder.metadata())
            one_day = r"PartitionFilters: \[isnotnull\(day#\d+\), \(day#\d+ = 2024-01-03\)\]"
            found.append(bool(re.search(one_day, answer.explain.explain_string)))
    assert found == [pruned, pruned, False]


def _a_null_of_a_type(name: str) -> Any:
    """Return what no method of PySpark's makes: a NULL that is a literal of INT."""
    plan = message(
        table(name).where((F.coalesce(F.lit(None), F.col("b")) == F.col("b")) & (F.col("b") == F.col("c")))
    )
    equal = plan.root.filter.condition.unresolved_function.arguments[0].unresolved_function
    literal = equal.arguments[0].unresolved_function.arguments[0].literal
    literal.null.CopyFrom(pb.DataType(integer=pb.DataType.Integer()))
    return plan


_SEEMING: dict[str, Callable[[str], Any]] = {
    # `user` is not who asks, but a number behind what hides it, by its DataFrame.
    "a word": lambda name: message(
        (t := table(name)).select("b", "c").where((t["user"] == F.col("b")) & (F.col("b") == F.col("c")))
    ),
    # Comes as of ten digits.
    "a decimal": lambda name: message(
        table(name).where((F.col("w") == F.col("x")) & (F.col("w") * F.lit(Decimal("1" + "0" * 25)) > 0))
    ),
    "a NULL": _a_null_of_a_type,
    # The number is called `a`, as the text is that it is made of.
    "a cast": lambda name: message(
        (d := table(name).select(F.col("a").try_cast("int"), "b", "c"))
        .crossJoin(table(name).select("a"))
        .where((d["a"] == F.col("b")) & (F.col("b") == F.col("c")))
        .select("b")
    ),
}


@pytest.mark.in_turn(2)
@pytest.mark.parametrize("frame", _SEEMING.values(), ids=_SEEMING)
async def test_plans_of_other_types_than_they_seem_tell_nothing(
    world: World, reader: ReaderPool, cursor: Any, spark: Spark, frame: Callable[[str], Any]
) -> None:
    """Each casts a text, or multiplies, beyond what a hidden row has room for."""
    if not takes_plans():
        return
    request = PlanRequest(kind="execute", message=frame("told").SerializeToString(deterministic=True))
    verdict = await world.judge_plan(request, reader, user="bob", rules=Rules(), namespace=(DATABASE,))
    assert isinstance(verdict, Cleared), verdict
    found = []
    with spark.session() as session:
        session.sql(f"USE {DATABASE}").collect()
        for plan in (pb.Plan.FromString(verdict.forwarded_plan), frame("told_copy")):
            asked = session.client._execute_plan_request_with_metadata()
            asked.plan.CopyFrom(plan)
            found.append(session.client._execute_and_fetch(asked, [])[0].to_pydict())
    assert found[0] == found[1]
    assert set(found[1]["b"]) == {"1", "2"}


async def test_columns_of_another_type_than_was_judged_fail_on_every_row(
    world: World, reader: ReaderPool, cursor: Any
) -> None:
    """`k = 5` on text that is no number would tell of hidden rows."""
    made = f"CREATE TABLE {DATABASE}.changing USING parquet AS SELECT {{}} AS k, 's' AS s FROM range(2)"
    text = await forwarded(world, reader, "SELECT * FROM changing WHERE k = 5", Rules())
    cursor.execute(made.format("CAST(id + 4 AS INT)"))
    assert rows(cursor, text) == ["(5, 's')"]
    cursor.execute(f"DROP TABLE {DATABASE}.changing")
    cursor.execute(made.format("'a'"))
    with pytest.raises(OperationalError, match="the table was changed"):
        rows(cursor, text)
    cursor.execute(f"DROP TABLE {DATABASE}.changing")


async def test_columns_beside_of_another_type_than_was_judged_tell_nothing(
    world: World, reader: ReaderPool, cursor: Any
) -> None:
    """What is known of a table may be half a minute old. `s = k` casts the texts of `s` if `k` is a number
    by now, and Spark tries that on the names of hidden partitions."""
    asked = "SELECT s FROM {} AS t JOIN beside ON t.s = beside.k WHERE beside.k = '1'"
    text = await forwarded(world, reader, asked.format("parted"), Rules())
    assert "TABLESAMPLE" not in text
    for made in (
        "parted USING parquet PARTITIONED BY (s) AS SELECT * FROM VALUES (1, '1'), (3, 'tells') t (id, s)",
        "beside USING parquet AS SELECT id AS k FROM range(3)",
    ):
        cursor.execute(f"CREATE TABLE {DATABASE}.{made}")
    with pytest.raises(OperationalError, match=r"tells.* cannot be cast"):
        rows(cursor, asked.format(f"(SELECT * FROM {DATABASE}.parted WHERE id <> 3)"))
    assert rows(cursor, text) == ["('1',)"]
    cursor.execute(f"DROP TABLE {DATABASE}.beside")
    cursor.execute(f"CREATE TABLE {DATABASE}.beside USING parquet AS SELECT '1' AS k")
    assert "cast(k" not in plan_of(cursor, text)
    for name in ("beside", "parted"):
        cursor.execute(f"DROP TABLE {DATABASE}.{name}")


FAILING = "1 / (CASE WHEN {alias}s = 'tells' THEN 0 ELSE 1 END) > 0"
ATOMS = {
    "f": [
        "{a}day = '2024-01-03'",
        "{a}day >= DATE'2024-01-05'",
        "{a}day IN ('2024-01-02', '2024-01-09')",
        "{a}day <> '2024-01-03'",
        "{a}id < 100",
        "200 <= {a}id",
        "{a}k = 2",
        "{a}k IN (1, 2, 3)",
        "{a}k IS NULL",
        "{a}k <=> 3",
        "{a}s = 'tells'",
        "{a}s LIKE 's%'",
        "{a}s IS NOT NULL",
        "{a}amount > 5",
        "{a}amount BETWEEN 1.5 AND 8",
        "{a}ok",
        "NOT {a}ok",
        FAILING.replace("alias", "a"),
        "round({a}amount) > 5",
        "round({a}amount, -1) = 10",
        "TRY_CAST({a}amount - {a}amount % 10 AS DECIMAL(2,1)) = 0",
        "left({a}s, 1) = 's'",
    ],
    "d": [
        "{a}k = 2",
        "{a}k > 1",
        "{a}name = 'n1'",
        "{a}name IS NULL",
        "{a}at > DATE'2024-01-03'",
        "{a}k IS NULL",
    ],
}


def conditions(table: str, alias: str) -> st.SearchStrategy[str]:
    atom = st.sampled_from([one.format(a=alias) for one in ATOMS[table]])
    either = st.builds("({} OR {})".format, atom, atom)
    return st.lists(st.one_of(atom, atom, either, atom.map("NOT ({})".format)), min_size=1, max_size=3).map(
        " AND ".join
    )


JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
STATEMENTS = st.one_of(
    st.builds("SELECT * FROM {{fact}} f WHERE {}".format, conditions("f", "f.")),
    st.builds("SELECT count(*), sum(id) FROM {{fact}} WHERE {}".format, conditions("f", "")),
    st.builds(
        "SELECT * FROM {{fact}} f {} {{dim}} d ON f.k = d.k AND {} AND {} WHERE {}".format,
        st.sampled_from(JOINS),
        conditions("d", "d."),
        conditions("f", "f."),
        conditions("f", "f."),
    ),
    st.builds(
        "SELECT f.id, d.name, p.v FROM {{fact}} f {} {{dim}} d ON f.k = d.k {} plain p ON p.k = d.k "
        "WHERE {} AND {}".format,
        st.sampled_from(JOINS[:4]),
        st.sampled_from(JOINS[:4]),
        conditions("d", "d."),
        conditions("f", "f."),
    ),
    st.builds(
        "SELECT k, name, id FROM {{fact}} {} {{dim}} USING (k) WHERE {}".format,
        st.sampled_from(JOINS[:4]),
        st.sampled_from(["k = 2", "k > 3", "k IS NULL", "name = 'n1' AND k = 1", "ok AND k < 4"]),
    ),
    st.builds(
        "WITH c AS (SELECT *, amount * 2 AS twice FROM {{fact}} WHERE {}) SELECT * FROM c WHERE {}".format,
        conditions("f", ""),
        conditions("f", "c."),
    ),
    st.builds(
        "SELECT * FROM (SELECT k, day, count(*) AS n, max(s) AS s FROM {{fact}} GROUP BY k, day) "
        "WHERE {} AND n > 1".format,
        st.sampled_from(
            ["day = '2024-01-03'", "k = 2", "k IS NULL", "s = 's1'", "day > '2024-01-04' AND k = 1"]
        ),
    ),
    st.builds(
        "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY id) AS n FROM {{fact}}) f "
        "WHERE n = 1 AND {}".format,
        conditions("f", "f."),
    ),
    st.builds(
        "SELECT * FROM plain p WHERE {} (SELECT 1 FROM {{fact}} f WHERE f.k = p.k AND {})".format,
        st.sampled_from(["EXISTS", "NOT EXISTS"]),
        conditions("f", "f."),
    ),
    st.builds(
        "SELECT k, name, x FROM {{fact}} {} {{dim}} USING (k) {} (SELECT k, v AS x FROM plain) p USING (k) "
        "WHERE {}".format,
        st.sampled_from(JOINS[:4]),
        st.sampled_from(JOINS[:4]),
        st.sampled_from(["k = 2", "k IN (1, 3)", "k IS NULL", "name = 'n1' AND k >= 1", "NOT ok"]),
    ),
    st.builds(
        "SELECT * FROM (SELECT f.k, f.s, f.day, count(*) AS n "
        "FROM {{fact}} f {} {{dim}} d ON f.k = d.k AND {} GROUP BY f.k, f.s, f.day "
        "HAVING count(*) > 0) q {} plain p ON p.k = q.k WHERE {}".format,
        st.sampled_from(JOINS),
        conditions("d", "d."),
        st.sampled_from(JOINS),
        st.sampled_from(["q.k = 2", "q.s = 's1'", "q.k > 1 AND q.s IS NULL", "q.day = '2024-01-03'"]),
    ),
    st.builds(
        "SELECT * FROM {{fact}} f LATERAL VIEW {} explode(array(k, id)) e AS x WHERE {} AND x < 100".format,
        st.sampled_from(["", "OUTER"]),
        conditions("f", "f."),
    ),
    st.builds(
        "WITH a AS (SELECT k, s, day, id FROM {{fact}} WHERE {}), b AS (SELECT * FROM a {} "
        "(SELECT k AS j, name FROM {{dim}} WHERE {}) d ON a.k = d.j) SELECT * FROM b WHERE {}".format,
        conditions("f", ""),
        st.sampled_from(JOINS[:4]),
        conditions("d", ""),
        st.sampled_from(["k = 2", "j = 2 OR j IS NULL", "s LIKE 's%' AND name = 'n1'", "k = j AND j < 4"]),
    ),
    st.builds(
        "FROM {{fact}} |> WHERE {} |> AGGREGATE count(*) AS n, max(id) AS id GROUP BY {} |> WHERE {}".format,
        conditions("f", ""),
        st.sampled_from(["k", "k, s", "k, day"]),
        st.sampled_from(["k = 2", "id > 100 AND k > 1", "n > 2 OR k IS NULL", "id < 300"]),
    ),
    st.builds(
        "WITH c (a, b, s, n) AS (SELECT k, day, s, count(*) FROM {{fact}} GROUP BY k, day, s) "
        "SELECT * FROM c {} {{dim}} AS d (k, name, t) ON c.a = d.k WHERE {} AND {}".format,
        st.sampled_from(JOINS[:4]),
        st.sampled_from(["b = '2024-01-03'", "n > 1 AND a = 2", "s = 's1' OR a IS NULL"]),
        st.sampled_from(["d.k > 1", "name = 'n1'", "d.k IS NULL"]),
    ),
    st.builds(
        "SELECT f.id FROM {{fact}} f, {{dim}} d, plain p WHERE f.k = d.k AND d.k = p.k AND {} AND {} "
        "AND (p.k {} OR d.k = 5)".format,
        conditions("f", "f."),
        conditions("d", "d."),
        st.sampled_from(["= 2", "> 3", "IN (1, 2)", "IS NULL"]),
    ),
    st.builds(
        "SELECT * FROM (SELECT DISTINCT k, s FROM {{fact}} WHERE {} {} "
        "SELECT k, name FROM {{dim}} WHERE {}) u WHERE u.k = 2".format,
        conditions("f", ""),
        st.sampled_from(["UNION", "EXCEPT", "INTERSECT", "UNION ALL"]),
        conditions("d", ""),
    ),
    st.builds(
        "SELECT v, (SELECT max(id) FROM {{fact}} f WHERE f.k = p.k AND {}) AS m FROM plain p "
        "WHERE k NOT IN (SELECT k FROM {{dim}} d WHERE k IS NOT NULL AND {})".format,
        conditions("f", "f."),
        conditions("d", "d."),
    ),
)


@pytest.mark.in_turn(6, place=2)
@settings(
    max_examples=tries(30 if EFFORT <= 1 else 75),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(
    template=STATEMENTS,
    rules=st.sampled_from([BARRED, Rules()]),
    fact=st.sampled_from(["fact", "fact", *(name for name in VIEWS if name.startswith("fact"))]),
    dim=st.sampled_from(["dim", "dim_plain", "dim_outer"]),
)
async def test_answers_and_errors_are_those_of_filtered_copies(
    world: World, reader: ReaderPool, cursor: Any, template: str, rules: Rules, fact: str, dim: str
) -> None:
    """Rows, and whether a condition fails, as over tables that were filtered beforehand."""
    if "|>" in template and is_older(reader, PIPES):
        return
    governed = await forwarded(world, reader, template.format(fact=fact, dim=dim), rules)
    expected = answer(cursor, template.format(fact=f"{fact}_copy", dim=f"{dim}_copy"))
    assert answer(cursor, governed) == expected


_MODES = {
    "compiled": (),
    "interpreted": (
        "SET spark.sql.codegen.wholeStage=false",
        "SET spark.sql.codegen.factoryMode=NO_CODEGEN",
        "SET spark.sql.adaptive.enabled=false",
    ),
}


@pytest.mark.in_turn(4)
@pytest.mark.parametrize("mode", _MODES)
async def test_what_is_shown_may_fail_and_tells_nothing(
    world: World, reader: ReaderPool, cursor: Any, mode: str
) -> None:
    """Each fails on every hidden row and on no other, where a statement shows, sorts and groups. By day each
    is tried in one of the modes, the next day in the other."""
    made, texts = _MODES[mode], todays(ORACLES, len(_MODES), ahead=list(_MODES).index(mode))
    for text in made:
        cursor.execute(text)
    open_ones = 0
    try:
        for text in texts:
            governed = await forwarded(world, reader, text.format(fact="fact", dim="dim"), Rules())
            open_ones += "TABLESAMPLE" not in governed
            expected = answer(cursor, text.format(fact="fact_copy", dim="dim_copy"))
            assert isinstance(expected, list), (expected, text)
            assert answer(cursor, governed) == expected, text
    finally:
        for text in made:
            cursor.execute(f"RESET {text.removeprefix('SET ').partition('=')[0]}")
    assert open_ones >= len(texts) // 3


_NEARLY = [
    "SELECT n FROM {odd} WHERE fine IN (5)",
    "SELECT n FROM {odd} WHERE fine = 5 OR fine IN (6, -5)",
    "SELECT n FROM {odd} WHERE fine <= 5",
    "SELECT n FROM {odd} WHERE t IN ('2024-11-03 01:30:00')",
    "SELECT n FROM {odd} WHERE NOT t IN ('2024-03-10 02:30:00')",
    "SELECT n FROM {odd} WHERE t = '2024-11-03 01:30:00' OR t = TIMESTAMP'2024-03-10 02:30:00'",
    "SELECT n FROM {odd} WHERE t > '2024-11-03 01:30:00' OR t < DATE'1600-01-01'",
    "SELECT n FROM {odd} WHERE d IN ('1500-01-01', '9999-12-31') OR d < '1582-10-15'",
    "SELECT n FROM {odd} WHERE c = 'ab'",
    "SELECT n FROM {odd} WHERE v = 'ab' OR v LIKE 'ab  '",
    "SELECT n FROM {odd} WHERE s = 'ab' OR s IN ('', 'EF')",
    "SELECT n, m FROM (SELECT n, c FROM {odd}) JOIN (SELECT n AS m, s AS c FROM {odd}) USING (c) "
    "WHERE c = 'ab'",
    "SELECT n, m FROM (SELECT n, s AS c FROM {odd}) RIGHT JOIN (SELECT n AS m, c FROM {odd}) USING (c) "
    "WHERE c = 'ab'",
    "SELECT l.n, r.n FROM {odd} l JOIN {odd} r ON l.v = r.s WHERE l.v = 'ab' AND r.s LIKE 'ab%'",
    "SELECT l.n, r.n FROM (SELECT n, concat(written, '') AS w FROM {odd} WHERE n < 4) l "
    "LEFT JOIN {odd} r ON l.w = r.d WHERE l.w < '2024-01-05'",
    "SELECT l.n, m FROM (SELECT n, d FROM {odd} WHERE n < 4) l "
    "JOIN (SELECT n AS m, written AS d FROM {odd} WHERE n < 5) r USING (d) "
    "WHERE d < '2024-07-01' AND d = '2024-06-01'",
    "SELECT n FROM (SELECT * FROM {odd} WHERE monotonically_increasing_id() < 100) WHERE n = 2",
    "SELECT n, i FROM (SELECT n, monotonically_increasing_id() AS i FROM {odd} GROUP BY n) "
    "WHERE n = 6 AND i > 100",
    "SELECT n, s FROM (SELECT n, s, count(*) OVER () AS all FROM {odd}) WHERE s = 'ab'",
    "SELECT * FROM (SELECT count(*) AS n FROM {odd}) WHERE n = 5",
    "SELECT * FROM (SELECT n AS s, s AS n FROM {odd}) WHERE n = 'EF' AND s = 6",
    "SELECT x, n FROM {odd} LATERAL VIEW OUTER explode(IF(n > 4, array(n, 2), array())) e AS x "
    "WHERE n IN (2, 5) AND s IS NULL",
    "SELECT n FROM {odd} WHERE n NOT IN (SELECT n FROM {odd} WHERE v = 'ab') AND s IS NOT NULL",
    "SELECT * FROM (SELECT n, v FROM {odd}) PIVOT (max(v) FOR n IN (1, 2, 6)) WHERE `2` = 'ab  '",
    "SELECT * FROM {odd} UNPIVOT (x FOR y IN (v, s)) WHERE n = 2",
    "FROM {odd} |> EXTEND n + 1 AS m |> WHERE n = 2 |> SELECT m AS n, v |> WHERE n = 3",
    "FROM {odd} |> AGGREGATE count(*) AS n, max(v) AS v GROUP BY s |> WHERE s = 'ab' AND n = 1",
    "WITH a AS (SELECT * FROM {odd} WHERE n < 5), "
    "b AS (WITH a AS (SELECT n, s FROM a) SELECT * FROM a WHERE s = 'ab') "
    "SELECT a.n, b.n FROM a LEFT JOIN b ON a.n = b.n WHERE a.n = 1",
    "SELECT s AS z, count(*) FROM {odd} GROUP BY z HAVING z = 'ab'",
    "SELECT v, count(*) FROM (SELECT v, n FROM {odd}) GROUP BY 1 HAVING v <=> NULL",
    "SELECT o.n, (SELECT count(*) FROM {odd} i WHERE i.n = o.n AND s = 'ab') FROM {odd} o WHERE o.v >= 'ab'",
    "SELECT l.n, r.n FROM {odd} l FULL JOIN {odd} r ON l.n = r.n AND r.s = 'ab' WHERE l.n = 2 OR r.n = 1",
    "SELECT * FROM {odd} l NATURAL JOIN (SELECT n, s FROM {odd} WHERE s = 'ab') r WHERE n = 1",
]
_SETTINGS = {
    "as it is": (),
    "where an hour comes twice": ("SET TIME ZONE 'America/New_York'",),
    "where texts are compared": ("SET TIME ZONE 'America/New_York'", "SET spark.sql.ansi.enabled=false"),
}


@pytest.mark.in_turn(6)
@pytest.mark.parametrize("setting", _SETTINGS)
async def test_what_is_nearly_the_same_is_told_apart(
    world: World, reader: ReaderPool, cursor: Any, setting: str
) -> None:
    """Rows of an unfiltered copy, over types and settings in which equal values are not the same. By day each
    is tried under one of the settings, the next day under another."""
    made = _SETTINGS[setting]
    for text in made:
        cursor.execute(text)
    try:
        for text in todays(_NEARLY, len(_SETTINGS), ahead=list(_SETTINGS).index(setting)):
            if "|>" in text and is_older(reader, PIPES):
                continue
            expected = answer(cursor, text.format(odd="odd_copy"))
            opened = await forwarded(world, reader, text.format(odd="odd"), Rules())
            for governed in {await forwarded(world, reader, text.format(odd="odd")), opened}:
                assert answer(cursor, governed) == expected, text
    finally:
        cursor.execute(ANSI)
        cursor.execute("RESET spark.sql.session.timeZone")
