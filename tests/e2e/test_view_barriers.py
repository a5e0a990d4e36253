"""Views that hide rows by their own texts: nobody learns of these by conditions that fail on them.

Each view hides a row whose pay is 7000 from `ray`, who may select the views and nothing that they read. Every
question has a condition that fails for that value: it has to be answered as Spark answers it over tables with
what the views show. Most of a minute of CPU.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException

from gateway.model.statement import Cleared
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, Ask, sessions, write_settings
from tests.e2e.running import RunningGateway, Spark, connect, takes_plans
from tests.judge_world import World

pytestmark = pytest.mark.in_turn(2)

GROUPS = {"hal": ["hr"], "ann": [], "ray": []}
PACK = """
service: spark
policies:
  - name: views
    on: {catalog: spark_catalog, database: vb, table: "v_*", column: "*"}
    allow: [{users: [ann, hal, ray], access: [select, create, drop, alter]}]
  - name: the tables, and a view
    on: {catalog: spark_catalog, database: vb, table: [pay, open, closed, inner], column: "*"}
    allow: [{users: [hal], access: [select, create]}]
  - name: numbers
    on: {catalog: spark_catalog, database: vb, table: numbers, column: "*"}
    allow: [{users: [ann, hal, ray], access: [select]}]
"""
ROWS = "id, dept, pay, day"
HIDDEN = "(9, 'x', 7000, DATE'2024-01-03')"
MADE = (
    "CREATE DATABASE {db}",
    "CREATE TABLE {db}.pay (id INT, dept STRING, pay INT, day DATE) USING parquet PARTITIONED BY (day)",
    "INSERT INTO {db}.pay SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 5000, DATE'2024-01-01'), "
    "(2, 'a', 6000, DATE'2024-01-02'), (3, 'b', 6500, DATE'2024-01-02')",
    "CREATE TABLE {db}.open USING parquet AS SELECT * FROM VALUES ('a'), ('b') AS t(dept)",
    "CREATE TABLE {db}.closed USING parquet AS SELECT * FROM VALUES ('x'), ('y') AS t(dept)",
    "CREATE TABLE {db}.numbers USING parquet AS SELECT CAST(id AS INT) AS n FROM range(3)",
    "CREATE VIEW {db}.v_elsewhere AS SELECT * FROM {db}.pay WHERE dept IN (SELECT dept FROM {db}.open)",
)
_IN = f"SELECT {ROWS} FROM {{db}}.pay WHERE dept IN (SELECT dept FROM {{db}}.open"
VIEWS = {
    "inner": f"{_IN})",
    "v_in": f"{_IN})",
    "v_join": "SELECT p.id, p.dept, p.pay, p.day FROM {db}.pay p JOIN {db}.open o ON p.dept = o.dept",
    "v_exists": f"SELECT {ROWS} FROM {{db}}.pay p "
    "WHERE EXISTS (SELECT 1 FROM {db}.open o WHERE o.dept = p.dept)",
    "v_not_exists": f"SELECT {ROWS} FROM {{db}}.pay p "
    "WHERE NOT EXISTS (SELECT 1 FROM {db}.closed c WHERE c.dept = p.dept)",
    "v_not_in": f"SELECT {ROWS} FROM {{db}}.pay WHERE dept NOT IN (SELECT dept FROM {{db}}.closed)",
    "v_where": f"SELECT {ROWS} FROM {{db}}.pay WHERE pay < 7000",
    "v_outer": "SELECT p.id, p.dept, p.pay, p.day FROM {db}.pay p LEFT JOIN {db}.closed c "
    "ON p.dept = c.dept WHERE c.dept IS NULL",
    "v_distinct": _IN.replace("SELECT", "SELECT DISTINCT", 1) + ")",
    "v_limit": f"SELECT {ROWS} FROM {{db}}.pay ORDER BY id LIMIT 3",
    "v_window": f"SELECT {ROWS} FROM "
    "(SELECT *, row_number() OVER (ORDER BY id) AS r FROM {db}.pay) WHERE r < 4",
    "v_groups": "SELECT max(id) AS id, dept, max(pay) AS pay, max(day) AS day FROM {db}.pay GROUP BY dept "
    "HAVING max(id) < 9",
    "v_union": f"{_IN} WHERE dept = 'a') UNION ALL {_IN} WHERE dept = 'b')",
    "v_except": f"SELECT {ROWS} FROM {{db}}.pay EXCEPT SELECT {ROWS} FROM {{db}}.pay WHERE id = 9",
    "v_intersect": f"SELECT {ROWS} FROM {{db}}.pay INTERSECT {_IN})",
    "v_offset": f"SELECT {ROWS} FROM {{db}}.pay ORDER BY pay DESC OFFSET 1",
    "v_scalar": f"SELECT {ROWS} FROM {{db}}.pay WHERE pay < (SELECT max(pay) FROM {{db}}.pay)",
    "v_generated": f"SELECT {ROWS} FROM {{db}}.pay "
    "LATERAL VIEW explode(IF(pay < 7000, array(1), array())) e AS one",
    "v_with": f"WITH o AS (SELECT dept FROM {{db}}.open) SELECT {ROWS} FROM {{db}}.pay "
    "WHERE dept IN (SELECT dept FROM o)",
    "v_over": f"SELECT {ROWS} FROM {{db}}.inner",
    "v_around": f"SELECT {ROWS} FROM {{db}}.v_in WHERE id > 0",
}
"""All by hal, who may select everything; `inner` is his alone."""
OF_ANN = f"SELECT {ROWS} FROM {{db}}.v_in"
"""By somebody who may select `v_in`, and not what it reads."""
ALL_VIEWS = (*(name for name in VIEWS if name != "inner"), "v_of_ann", "v_elsewhere")
FAILS = "1 / (pay - 7000) < 0"
QUESTIONS = (
    f"SELECT count(*) FROM {{v}} WHERE {FAILS}",
    "SELECT count(*) FROM {v} WHERE CAST(CASE WHEN dept = 'x' THEN 'x' ELSE '1' END AS INT) = 1",
    f"SELECT count(*) FROM {{v}} WHERE day >= '2024-01-01' AND {FAILS}",
    f"SELECT count(*) FROM {{v}} WHERE dept = 'x' AND {FAILS}",
    "SELECT count(*) FROM {v} WHERE pay = id OR element_at(array(1), IF(pay > 6999, 0, 1)) = 1",
    "SELECT count(*) FROM {v} v JOIN {db}.numbers n ON n.n < 1 AND 1 / (v.pay - 7000) < n.n",
    "SELECT count(*) FROM {db}.numbers n WHERE n.n = 0 AND EXISTS "
    "(SELECT 1 FROM {v} v WHERE 1 / (v.pay - 7000) < n.n)",
    "SELECT count(*) FROM (SELECT id, 1 / (pay - 7000) AS x FROM {v}) WHERE x < 0 AND id > 0",
)
THOROUGHLY = ("v_not_exists", "v_over")
"""Views of which everything is asked; of the others the first two."""
FRAMES: dict[str, Callable[[Any], Any]] = {
    "filter": lambda frame: frame.filter(FAILS),
    "columns": lambda frame: frame.filter((frame.pay > 0) & (1 / (frame.pay - 7000) < 0)),
    "groups": lambda frame: frame.filter(FAILS).groupBy("dept").count(),
}


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    own = [text.format(db="vb") for text in MADE]
    spark.query(*own, f"INSERT INTO vb.pay VALUES {HIDDEN}", user="loader")
    running = RunningGateway(write_settings(open_directory / "barriers", spark, PACK, GROUPS)).start()
    with sessions(running) as ask:
        hal = ask("thrift", "hal")
        for name, text in VIEWS.items():
            hal(f"CREATE VIEW vb.{name} AS {text.format(db='vb')}")
        ask("thrift", "ann")(f"CREATE VIEW vb.v_of_ann AS {OF_ANN.format(db='vb')}")
    # What the views show, in tables that hold nothing else.
    copied = ("v_in", "v_groups", "numbers")
    copies = (f"CREATE TABLE vb_copy.{name} USING parquet AS SELECT * FROM vb.{name}" for name in copied)
    spark.query("CREATE DATABASE vb_copy", *copies, user="loader")
    yield running
    assert running.stop() == 0
    spark.query("DROP DATABASE vb CASCADE", "DROP DATABASE vb_copy CASCADE", user="loader")


@pytest.fixture
def ask(gateway: RunningGateway) -> Iterator[Callable[[str, str], Ask]]:
    with sessions(gateway) as asked:
        yield asked


def of(question: str, database: str, view: str) -> str:
    return question.format(db=database, v=f"{database}.{view}")


def copy_of(view: str) -> str:
    """Return the table with what a view shows: all but one show the same."""
    return view if view == "v_groups" else "v_in"


def told(cursor: Any, text: str) -> Any:
    """Return the one value that a statement answers."""
    cursor.execute(text)
    return cursor.fetchall()[0][0]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_nothing_fails_on_rows_that_a_view_hides(ask: Any, spark: Spark, endpoint: str) -> None:
    asked = [(question, view) for view in ALL_VIEWS for question in QUESTIONS[:2]]
    asked += [(question, view) for view in THOROUGHLY for question in QUESTIONS[2:]]
    if endpoint == "connect":
        asked = asked[::4]
    ray = ask(endpoint, "ray")
    connection = connect(spark.host, spark.port, "direct")
    try:
        cursor = connection.cursor()
        expected = [told(cursor, of(question, "vb_copy", copy_of(view))) for question, view in asked]
    finally:
        connection.close()
    found = [ray(of(question, "vb", view))[0][0] for question, view in asked]
    assert dict(zip(asked, found, strict=True)) == dict(zip(asked, expected, strict=True))


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_is_shown_is_made_of_no_row_that_a_view_hides(ask: Any, endpoint: str) -> None:
    ray = ask(endpoint, "ray")
    for view in ALL_VIEWS if endpoint == "thrift" else ("v_offset", "v_limit"):
        for shown in (FAILS, f"DISTINCT {FAILS}"):
            assert {one for (one,) in ray(f"SELECT {shown} FROM vb.{view}")} == {True}, view


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_nor_in_what_is_made_of_views(ask: Any, endpoint: str) -> None:
    """Temporary views, what Spark caches, views of one's own, and what others read of these."""
    ray, ann = ask(endpoint, "ray"), ask(endpoint, "ann")
    view = "vb.v_not_exists"
    for text in (
        f"CREATE OR REPLACE TEMPORARY VIEW kept AS SELECT * FROM {view}",
        f"CREATE OR REPLACE TEMPORARY VIEW filtered AS SELECT * FROM {view} WHERE {FAILS}",
        f"CREATE OR REPLACE VIEW vb.v_mine AS SELECT * FROM {view} WHERE {FAILS} OR id = 1",
        f"CACHE TABLE cached AS SELECT id, pay FROM vb.v_join WHERE {FAILS}",
    ):
        ray(text)
    for source in (
        "kept",
        "filtered",
        "vb.v_mine",
        "cached",
        f"(SELECT * FROM {view} UNION ALL SELECT * FROM vb.v_in)",
        f"(SELECT DISTINCT id, pay FROM {view} TABLESAMPLE (100 PERCENT))",
        f"(SELECT n AS id, pay FROM vb.numbers, LATERAL (SELECT max(pay) AS pay FROM {view} WHERE {FAILS}))",
        f"(SELECT v.id, w.pay FROM {view} v JOIN {view} w ON v.pay = w.pay AND 1 / (w.pay - 7000) < v.id)",
    ):
        assert ray(f"SELECT count(*) > 0 FROM {source} WHERE {FAILS}") == [(True,)], source
    assert ann(f"SELECT count(*) FROM vb.v_mine WHERE {FAILS}") == [(3,)]
    ray("DROP VIEW vb.v_mine")
    ray("UNCACHE TABLE cached")


@pytest.mark.skipif(not takes_plans(), reason="plans are given to Spark 4 only")
def test_dataframes_fail_on_none_either(gateway: RunningGateway) -> None:
    with gateway.session("ray", PASSWORD) as session:
        for view in ("v_join", "v_groups", "v_of_ann"):
            for make in FRAMES.values():
                assert len(make(session.table(f"vb.{view}")).collect()) > 0


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_who_may_select_what_a_view_reads_has_no_barrier(ask: Any, endpoint: str) -> None:
    """He may ask the tables for it."""
    with pytest.raises((hive.OperationalError, PySparkException), match="DIVIDE_BY_ZERO"):
        ask(endpoint, "hal")(of(QUESTIONS[0], "vb", "v_not_exists"))


PAY = {"id": "int", "dept": "string", "pay": "int", "day": "date"}


@pytest.fixture(scope="module")
def world() -> World:
    """What the gateway judges by."""
    columns = {"pay": PAY, "open": {"dept": "string"}, "closed": {"dept": "string"}, "numbers": {"n": "int"}}
    views = {**VIEWS, "v_of_ann": OF_ANN}
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {f"spark_catalog.vb.{name}": one for name, one in columns.items()},
            "views": {
                f"spark_catalog.vb.{name}": {
                    "text": text.format(db="vb"),
                    "database": "vb",
                    "output": list(PAY),
                    "columns": PAY,
                    "definer": "ann" if name == "v_of_ann" else "hal",
                }
                for name, text in views.items()
            },
            "people": {user: {"groups": []} for user in GROUPS},
            "pack": PACK,
        }
    )


def plan_of(spark: Spark, text: str) -> str:
    """Return the plan, without numbers that differ from one to the next."""
    plan = "\n".join(str(row[0]) for row in spark.query("SET spark.sql.ansi.enabled=true", f"EXPLAIN {text}"))
    return re.sub(r"#\d+L?|plan_id=\d+", "#", plan)


async def forwarded(world: World, reader: ReaderPool, text: str) -> str:
    verdict = await world.judge(text, reader, user="ray", use="vb", rules=Rules())
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("view", ["v_in", "v_not_exists", "v_groups", "v_over", "v_of_ann"])
async def test_where_nothing_can_fail_the_plan_is_the_one_without_us(
    world: World, reader: ReaderPool, spark: Spark, view: str
) -> None:
    for text in (
        f"SELECT count(*), max(pay) FROM vb.{view} WHERE day = '2024-01-02' AND pay > 3",
        f"SELECT * FROM vb.{view} v JOIN vb.numbers n ON v.id = n.n WHERE n.n > 1",
    ):
        assert plan_of(spark, await forwarded(world, reader, text)) == plan_of(spark, text)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.usefixtures("gateway")
@pytest.mark.parametrize("view", ["v_in", "v_not_exists", "v_over", "v_of_ann"])
async def test_partitions_are_chosen_by_what_cannot_fail(
    world: World, reader: ReaderPool, spark: Spark, view: str
) -> None:
    plan = plan_of(
        spark, await forwarded(world, reader, f"SELECT * FROM vb.{view} WHERE day = '2024-01-02' AND {FAILS}")
    )
    assert re.search(r"PartitionFilters: \[.*\(day# = 2024-01-02\)", plan)
    assert "Sample" in plan
