"""Metric views under masks and filters answer as over tables that have them physically, on both endpoints.

`mallory` sees of `paid` other numbers and no rows of `us`. What he is shown is compared with what Spark says
of a metric view with the same definition, over a table that was made of what he may see. Where Spark itself
cannot compute a statement, or does something else than was written, it is refused by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectException
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from tests.e2e.lab import CANARY, PASSWORD
from tests.e2e.one_pack import ENDPOINTS, Ask
from tests.e2e.running import RunningGateway, Spark, connect, query

pytestmark = pytest.mark.in_turn(2)

SHOWN = "id, region, dept, pay, concat('x', right(ssn, 1)) AS ssn"
MADE = (
    "CREATE TABLE lab.paid USING parquet AS SELECT * FROM VALUES (1, 'eu', 'a', 10, '11'), "
    f"(2, 'eu', 'b', 20, '12'), (3, 'as', 'a', 5, '13'), (4, 'us', 'a', 7000, '{CANARY}4'), "
    "(5, 'as', 'b', NULL, NULL) AS t(id, region, dept, pay, ssn)",
    f"CREATE TABLE lab.paidcopy USING parquet AS SELECT {SHOWN} FROM lab.paid WHERE region <> 'us'",
    f"CREATE TABLE lab.paid_closed USING parquet AS SELECT 1 AS id, '{CANARY}' AS pin",
    "CREATE TABLE lab.paidfree USING parquet AS SELECT id, region, dept, coalesce(pay, 1) AS pay, "
    f"'{CANARY}-' || id AS person FROM lab.paid",
    "CREATE TABLE lab.paidfreecopy USING parquet AS SELECT id, left(upper(region), 1) AS region, dept, pay "
    "FROM lab.paidfree WHERE dept = 'a'",
)
VIEW = """CREATE VIEW {name} WITH METRICS LANGUAGE YAML TBLPROPERTIES ('meta.of' = 'pay') AS $$
version: 0.1
source: {source}
filter: id > 0 -- all
dimensions:
  - name: region
    expr: upper(region)
  - name: The Dept
    expr: dept
  - name: ssn
    expr: ssn
measures:
  - name: total
    expr: sum(pay)
  - name: Share
    expr: round(sum(pay) / count(*), 2)
  - name: last_ssn
    expr: max(ssn)
  - name: high
    expr: sum(pay) FILTER (WHERE pay > 7)
  - name: regions
    expr: count(DISTINCT region)
$$"""
SEEN = """CREATE VIEW {name} WITH METRICS LANGUAGE YAML AS $$
version: 0.1
source: {source}
dimensions:
  - name: region
    expr: {region}
  - name: dept
    expr: dept
{more}measures:
  - name: total
    expr: sum(pay)
{measures}$$"""
PERSON = "  - name: person\n    expr: person\n"
MEASURES = "  - name: hidden\n    expr: max(person)\n  - name: masked\n    expr: max(pay)\n"
METRICS, COPY = "lab.paid_metrics", "lab.paidcopy_metrics"
VIEWS = (
    VIEW.format(name=METRICS, source="lab.paid"),
    VIEW.format(name=COPY, source="lab.paidcopy"),
    VIEW.format(name="lab.paid_sql", source="SELECT * FROM lab.paid -- of all"),
    VIEW.format(name="lab.paidcopy_sql", source="SELECT * FROM lab.paidcopy"),
    SEEN.format(
        name="lab.paid_seen", source="lab.paidfree", region="upper(region)", more=PERSON, measures=MEASURES
    ),
    SEEN.format(name="lab.paidcopy_seen", source="lab.paidfreecopy", region="region", more="", measures=""),
    SEEN.format(name="lab.paid_free", source="lab.paidfree", region="region", more="", measures=""),
    SEEN.format(name="lab.paid_bare", source="paidfree", region="region", more="", measures=""),
    *(
        f"CREATE VIEW lab.{name}_over AS SELECT region, measure(total) AS total FROM lab.{name}_metrics "
        "GROUP BY region"
        for name in ("paid", "paidcopy")
    ),
)
READS = (
    "SELECT region, measure(total) FROM {v} GROUP BY region",
    "SELECT measure(total), measure(last_ssn) FROM {v}",
    "SELECT `the dept`, MEASURE(`share`), measure(Regions) AS r FROM {v} m GROUP BY `The Dept` ORDER BY r, 1",
    "SELECT m.ssn, measure(m.high) FROM {v} AS m WHERE m.region = 'EU' AND m.ssn LIKE 'x%' GROUP BY ALL",
    "SELECT region r, measure(total) + 1 AS t, round(measure(share)) AS s FROM {v} GROUP BY 1 HAVING t > 6",
    "SELECT count(*), max(region), count(DISTINCT ssn) FROM {v}",
    "SELECT region FROM {v} GROUP BY region",
    "WITH m AS (SELECT ssn, measure(total) AS t FROM {v} GROUP BY ssn) SELECT * FROM m ORDER BY t",
    "SELECT d.id, m.t FROM lab.paidfree d JOIN (SELECT measure(total) AS t FROM {v}) m ON m.t > d.pay",
    "SELECT (SELECT measure(total) FROM {v}) AS t, 1 AS one",
    "SELECT x.region FROM lab.paidfree x WHERE x.pay < (SELECT measure(regions) FROM {v})",
)
FRAMES: dict[str, Callable[[Any, str], Any]] = {
    "text": lambda s, v: s.table(v).groupBy("region").agg(F.expr("measure(total)")),
    "named text": lambda s, v: (
        s.table(v).groupBy("region").agg(F.expr("measure(total) + measure(high) AS t"))
    ),
    "call": lambda s, v: s.table(v).groupBy("region").agg(F.call_function("measure", F.col("share"))),
    "alias": lambda s, v: s.table(v).agg(F.call_function("measure", F.col("last_ssn")).alias("l")),
    "filter": lambda s, v: (
        s.table(v)
        .alias("m")
        .filter("m.region = 'EU'")
        .filter(F.col("ssn").like("x%"))
        .groupBy("The Dept")
        .agg(F.expr("measure(m.total) AS t"), F.count("*").alias("n"))
    ),
    "count": lambda s, v: s.table(v).groupBy("region").agg(F.count("*").alias("n")),
    "counts": lambda s, v: s.table(v).groupBy("region").count(),
    "select": lambda s, v: s.table(v).select(F.expr("measure(regions)")),
    "selectExpr": lambda s, v: s.table(v).selectExpr("measure(total) AS t", "max(region) AS r"),
    "joined": lambda s, v: (
        s.table(v)
        .groupBy("region")
        .agg(F.expr("measure(total) AS t"))
        .join(s.table(v).groupBy("region").agg(F.expr("measure(high) AS h")), "region")
        .select("region", "t", "h")
    ),
    "sql": lambda s, v: s.sql(f"SELECT region, measure(total) FROM {v} GROUP BY region"),
}
REFUSED = {
    "SELECT * FROM {v}": "list its columns",
    "SELECT region FROM {v}": "is a metric view: read",
    "SELECT DISTINCT region FROM {v}": "is a metric view: read",
    "SELECT sum(total) FROM {v}": "is a metric view: read",
    "SELECT measure(total) FILTER (WHERE region = 'EU') FROM {v}": "without DISTINCT or FILTER",
    "SELECT region, measure(total) FROM {v} GROUP BY CUBE (region)": "grouping sets",
    "SELECT measure(total) FROM {v} a JOIN lab.paidfree b ON true": "with masks, filters or hidden columns",
    "SELECT measure(total) + 1 FROM {v}": "an alias with AS",
    "SELECT `#__0` FROM {v} GROUP BY 1": "reserved for the gateway",
    "SELECT measure(total) FROM {v} GROUP BY transform(array(1), x -> `#__0`)": "reserved for the gateway",
    "SELECT measure(total) FROM {v} WHERE exists(array(1), x -> `#__0` > 7)": "reserved for the gateway",
    "SELECT measure(total) OVER () AS w FROM {v}": "cannot have a window",
}


@pytest.fixture(scope="module")
def views(spark: Spark, lab_gateway: RunningGateway) -> Iterator[None]:
    """Made past the gateway; it has made the database."""
    spark.query("USE lab", *MADE, *VIEWS, user="loader")
    yield
    for text in reversed((*MADE, *VIEWS)):
        kind, name = text.split()[1:3]
        spark.query(f"DROP {kind} {name}", user="loader")


@contextlib.contextmanager
def asking(through: RunningGateway, endpoint: str, user: str) -> Iterator[Ask]:
    if endpoint == "thrift":
        with contextlib.closing(connect(through.host, through.port, user, PASSWORD)) as connection:
            yield lambda text: rows_of(connection.cursor(), text)
        return
    with through.session(user, PASSWORD) as session:
        yield lambda text: [tuple(row) for row in session.sql(text).collect()]


def rows_of(cursor: Any, text: str) -> list[Any]:
    cursor.execute(text)
    return list(cursor.fetchall()) if cursor.description else []


def by_name(rows: list[Any]) -> list[Any]:
    return sorted(map(tuple, rows), key=repr)


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_answers_are_those_over_what_may_be_seen(
    spark: Spark, lab_gateway: RunningGateway, endpoint: str
) -> None:
    assert CANARY in repr(spark.query("SELECT measure(last_ssn) FROM lab.paid_metrics WHERE region = 'US'"))
    with asking(lab_gateway, endpoint, "mallory") as ask:
        for name in ("metrics", "sql"):
            for text in READS:
                told = by_name(ask(text.format(v=f"lab.paid_{name}")))
                assert told == by_name(spark.query(text.format(v=f"lab.paidcopy_{name}"))), text
        over = "SELECT * FROM lab.{}_over WHERE region <> 'x'"
        assert by_name(ask(over.format("paid"))) == by_name(spark.query(over.format("paidcopy")))


@pytest.mark.usefixtures("views")
def test_frames_answer_as_over_what_may_be_seen(spark: Spark, lab_gateway: RunningGateway) -> None:
    with lab_gateway.session("mallory", PASSWORD) as session, spark.session() as direct:
        for name, make in FRAMES.items():
            told, wanted = make(session, METRICS), make(direct, COPY)
            assert told.columns == wanted.columns, name
            assert by_name(told.collect()) == by_name(wanted.collect()), name
            assert told.schema.simpleString() == wanted.schema.simpleString(), name


SHAPES = (
    "SELECT * FROM {v} LIMIT 0",
    "SELECT * FROM (SELECT * FROM {v}) AS t WHERE 1 = 0",
    "DESCRIBE QUERY SELECT * FROM {v}",
    "WITH m AS (SELECT * FROM {v}) SELECT * FROM m LIMIT 0",
    "SHOW COLUMNS IN {v}",
    "DESCRIBE {v}",
)
LOOKS: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda s, v: s.table(v),
    "filter": lambda s, v: s.table(v).filter("total > 1").select("region", F.col("total").alias("t")),
    "sql": lambda s, v: s.sql(f"SELECT region, total FROM {v} WHERE region > ''"),
    "star": lambda s, v: s.sql(f"SELECT * FROM {v}"),
    "with": lambda s, v: s.sql(f"WITH m AS (SELECT * FROM {v}) SELECT * FROM m"),
}


@pytest.mark.usefixtures("views")
def test_who_looks_at_columns_alone_gets_them(spark: Spark, lab_gateway: RunningGateway) -> None:
    with (
        contextlib.closing(connect(lab_gateway.host, lab_gateway.port, "mallory", PASSWORD)) as ours,
        contextlib.closing(connect(spark.host, spark.port, "direct", "")) as theirs,
    ):
        for text in SHAPES:
            told, wanted = ours.cursor(), theirs.cursor()
            told.execute(text.format(v=METRICS))
            wanted.execute(text.format(v=COPY))
            assert told.description == wanted.description, text
            assert told.fetchall() == wanted.fetchall(), text
    with lab_gateway.session("mallory", PASSWORD) as session, spark.session() as direct:
        for name, make in LOOKS.items():
            seen, copied = make(session, METRICS), make(direct, COPY)
            assert seen.dtypes == copied.dtypes, name
            assert seen.limit(0).collect() == []
            with pytest.raises(SparkConnectException, match="SLUICE_NOT_GOVERNABLE") as refused:
                seen.collect()
            assert CANARY not in str(refused.value)
        assert session.table("lab.paid_seen").columns == ["region", "dept", "total", "masked"]


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_spark_cannot_compute_is_refused_by_name(lab_gateway: RunningGateway, endpoint: str) -> None:
    with asking(lab_gateway, endpoint, "mallory") as ask:
        for text, why in REFUSED.items():
            with pytest.raises(Exception, match=f"SLUICE_NOT_GOVERNABLE.*{why}") as refused:
                ask(text.format(v=METRICS))
            assert CANARY not in str(refused.value)
        for text in ("SELECT measure(pay) FROM {v}", "SELECT pay, measure(total) FROM {v} GROUP BY pay"):
            with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
                ask(text.format(v=METRICS))


@pytest.mark.usefixtures("views")
def test_frames_that_cannot_be_followed_are_refused(lab_gateway: RunningGateway) -> None:
    with lab_gateway.session("mallory", PASSWORD) as session:
        view = session.table(METRICS)
        for frame in (
            view,
            view.select("region").distinct(),
            view.select("*"),
            view.select(view.colRegex("`.*`")),
            view.groupBy("region").agg(F.sum("total")),
            view.rollup("region").agg(F.expr("measure(total) AS t")),
            view.drop("ssn").groupBy("region").agg(F.expr("measure(total) AS t")),
            view.agg(F.call_function("measure", F.col("total")) + 1),
            view.filter(F.expr("measure(total) > 1")).groupBy().count(),
            view.agg(F.max("#__0")),
            view.agg(F.expr("measure(total) AS t"), F.expr("max(IDENTIFIER('`\\u0023__0`')) AS x")),
            view.filter("exists(array(1), x -> `#__0` > 7)").agg(F.expr("measure(total) AS t")),
            view.agg(F.expr("measure(total) AS t"), F.countDistinct("*").alias("n")),
        ):
            with pytest.raises(SparkConnectException, match="SLUICE_NOT_GOVERNABLE") as refused:
                frame.collect()
            assert CANARY not in str(refused.value)


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_masks_and_filters_of_the_view_itself(
    spark: Spark, lab_gateway: RunningGateway, endpoint: str
) -> None:
    with asking(lab_gateway, endpoint, "mallory") as ask:
        for text in (
            "SELECT region, measure(total) FROM lab.{}_seen GROUP BY region",
            "SELECT measure(total) FROM lab.{}_seen WHERE region = 'A'",
            "SELECT dept, count(*) AS n FROM lab.{}_seen GROUP BY dept",
        ):
            assert by_name(ask(text.format("paid"))) == by_name(spark.query(text.format("paidcopy")))
        for text in (
            "SELECT person FROM lab.paid_seen GROUP BY person",
            "SELECT measure(hidden) FROM lab.paid_seen",
        ):
            with pytest.raises(Exception, match="UNRESOLVED_COLUMN") as hidden:
                ask(text)
            assert CANARY not in str(hidden.value)
        with pytest.raises(Exception, match=r"SLUICE_NOT_GOVERNABLE.*`masked`.*has a mask"):
            ask("SELECT measure(masked) FROM lab.paid_seen")


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_without_obligations_spark_gets_the_statement(
    spark: Spark, lab_gateway: RunningGateway, endpoint: str
) -> None:
    cubed = "SELECT region, measure(total) FILTER (WHERE dept = 'a') AS t FROM lab.paid_free GROUP BY region"
    with asking(lab_gateway, endpoint, "tess") as ask:
        assert by_name(ask(cubed)) == by_name(spark.query(cubed))
        assert by_name(ask(READS[0].format(v=METRICS))) == by_name(spark.query(READS[0].format(v=METRICS)))
    with asking(lab_gateway, endpoint, "mallory") as ask:
        assert by_name(ask(cubed)) == by_name(spark.query(cubed))


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_source_that_each_session_finds_by_itself_is_refused(
    lab_gateway: RunningGateway, endpoint: str
) -> None:
    with asking(lab_gateway, endpoint, "tess") as ask:
        ask("USE lab")
        with pytest.raises(Exception, match=r"SLUICE_NOT_GOVERNABLE.*`paidfree` without a database"):
            ask("SELECT measure(total) FROM lab.paid_bare")


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_who_makes_one_is_its_definer(spark: Spark, lab_gateway: RunningGateway, endpoint: str) -> None:
    made = VIEW.format(name="lab.paid_made", source="lab.paid")
    with asking(lab_gateway, endpoint, "mallory") as ask:
        ask(made)
        try:
            told = by_name(ask(READS[0].format(v="lab.paid_made")))
            assert told == by_name(spark.query(READS[0].format(v=COPY)))
            with pytest.raises(Exception, match=r"SLUICE_NOT_GOVERNABLE.*ALTER VIEW"):
                ask("ALTER VIEW lab.paid_made AS SELECT 1 AS a")
            kept = query(
                lab_gateway.host,
                lab_gateway.port,
                "tess",
                READS[0].format(v="lab.paid_made"),
                password=PASSWORD,
            )
            assert by_name(kept) == by_name(spark.query(READS[0].format(v=METRICS)))
        finally:
            ask("DROP VIEW lab.paid_made")
        for text, why in (
            (VIEW.format(name="lab.paid_made", source="lab.paid_closed"), "SLUICE_"),
            (VIEW.format(name="lab.paid_made", source="SELECT * FROM lab.paid_closed"), "SLUICE_"),
            (VIEW.format(name="lab.paid_made", source="paid"), "select on table spark_catalog.default.paid"),
            (made.replace("measures:", "joins: []\nmeasures:"), "unknown key"),
            (made.replace("filter:", "source: lab.paid_closed\nfilter:"), "twice"),
            (made.replace("sum(pay)", "(SELECT max(pin) FROM lab.paid_closed)", 1), "SLUICE_"),
        ):
            with pytest.raises(Exception, match=why) as refused:
                ask(text)
            assert CANARY not in str(refused.value)


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_its_definition_is_not_told_where_something_in_it_is_hidden(
    lab_gateway: RunningGateway, endpoint: str
) -> None:
    with asking(lab_gateway, endpoint, "mallory") as ask:
        for name in ("metrics", "seen"):
            told = repr(ask(f"DESCRIBE TABLE EXTENDED lab.paid_{name}"))
            assert "total" in told
            assert "sum(pay)" not in told
            assert "metric_view" not in told
            assert "hidden" not in told
            assert ask(f"SHOW TBLPROPERTIES lab.paid_{name}") == []
            for text in ("SHOW CREATE TABLE {}", "EXPLAIN SELECT measure(total) FROM {}", "CACHE TABLE {}"):
                with pytest.raises(Exception, match="SLUICE_"):
                    ask(text.format(f"lab.paid_{name}"))
            as_json = repr(ask(f"DESCRIBE TABLE EXTENDED lab.paid_{name} AS JSON"))
            assert "total" in as_json
            assert "sum(pay)" not in as_json
            assert "metric_view" not in as_json
            assert "hidden" not in as_json
