"""Whether a row filter has its barrier: by the statement, the filter, the masks and the session."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.catalog import FUNCTION, TableName
from gateway.model.handles import PERSISTED, SparkHandle
from gateway.model.statement import (
    Cleared,
    PersistFrame,
    PlanRequest,
    SessionContext,
    Statement,
)
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.judge_world import World, with_function
from tests.plan.frames import Frame, message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = {
    "id": "int",
    "day": "date",
    "s": "varchar(5)",
    "n": "bigint",
    "tags": "array<int>",
    "user": "int",
    "more": "struct<n: string>",
}
FILTER = "id > 5"
MASK = "type: MASK_HASH"

CHOSEN = TableName("spark_catalog", "db", "chosen", FUNCTION)


def world(row_filter: str = FILTER, mask: str = MASK) -> World:
    made = World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {
                "spark_catalog.db.t": COLUMNS,
                "spark_catalog.db.u": COLUMNS,
                "spark_catalog.other.u": {"o": "int"},
            },
            "views": {
                "spark_catalog.db.v": {
                    "text": "SELECT id, day FROM spark_catalog.db.t",
                    "database": "db",
                    "output": ["id", "day"],
                    "columns": {"id": "int", "day": "date"},
                },
                "spark_catalog.db.w": {
                    "text": "SELECT id + 1 AS next, id FROM spark_catalog.db.v",
                    "database": "db",
                    "output": ["next", "id"],
                    "columns": {"next": "int", "id": "int"},
                },
            },
            "people": {"bob": {"groups": []}},
            "pack": f"""
service: spark
policies:
  - name: all
    on: {{catalog: "*", database: "*", table: "*", column: "*"}}
    allow: [{{groups: [public], access: [all]}}]
  - name: rows
    on: {{catalog: spark_catalog, database: db, table: t}}
    filter: [{{groups: [public], where: "{row_filter}"}}]
  - name: s
    on: {{catalog: spark_catalog, database: db, table: t, column: s}}
    mask: [{{groups: [public], {mask}}}]
""",
        }
    )
    return with_function(made, CHOSEN)


async def forwarded(
    world: World, reader: ReaderPool, text: str, *, rules: Rules | None = None, **context: Any
) -> str:
    session = SessionContext(namespace=("db",), **context)
    statement = Statement(text=text, principal=world.principal("bob"), context=session)
    verdict = await world.judge_statement(statement, reader, rules or Rules())
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


async def test_what_is_written_without_a_barrier(reader: ReaderPool) -> None:
    """What it rests on that nothing can fail is said to Spark: columns of another type fail on every row."""
    found = await forwarded(world(), reader, "SELECT n, s FROM t WHERE day = '2024-03-01' AND 5 > 4")
    assert "TABLESAMPLE" not in found
    assert "system.builtin.sha2(" in found
    types = (
        "system.builtin.typeof(`id`) = 'int' AND system.builtin.typeof(`day`) = 'date' "
        "AND system.builtin.typeof(`s`) IN ('string', 'varchar(5)')"
    )
    assert f"WHERE (id > 5) AND CASE WHEN {types} THEN TRUE ELSE" in found


async def test_tables_beside_one_without_a_barrier_have_their_types(reader: ReaderPool) -> None:
    asked = "SELECT u.tags, t.id FROM t JOIN u ON t.id = u.id AND u.s = 'x'"
    found = await forwarded(world(), reader, asked)
    beside = (
        "(SELECT CAST(`id` AS int) AS `id`, `day`, CAST(`s` AS string) AS `s`, `n`, `tags`, `user`, `more` "
        "FROM `spark_catalog`.`db`.`u` AS `u`) AS `u`"
    )
    assert beside in found
    found = await forwarded(world(), reader, f"{asked} WHERE 1 / t.n > 0")
    assert "JOIN `spark_catalog`.`db`.`u` ON" in found


@pytest.mark.parametrize(
    ("text", "barriers"),
    [
        ("SELECT * FROM t", 0),
        ("SELECT 1 / n FROM t WHERE id = 7", 0),
        ("SELECT * FROM t JOIN u USING (id) WHERE u.day = DATE'2024-03-01'", 0),
        ("SELECT u.id FROM t JOIN u USING (id)", 0),
        ("SELECT db.u.id FROM t JOIN u ON t.id = u.id", 0),
        # Told apart by their databases, which tables that are cast are not.
        ("SELECT u.o FROM t JOIN u ON t.id = db.u.id JOIN other.u ON u.o = t.id", 1),
        ("SELECT t.id FROM t JOIN db.u ON t.id = db.u.id WHERE t.id IN (SELECT u.o FROM other.u)", 1),
        ("SELECT * FROM t WHERE 1 / n > 0", 1),
        ("SELECT * FROM t JOIN u USING (id) WHERE 1 / u.n > 0", 1),
        ("SELECT * FROM t a JOIN t b USING (id) WHERE 1 / a.n > 0", 2),
        # A mask is no condition on what is stored; this one is a text.
        ("SELECT * FROM t WHERE s = 'x'", 0),
        # What Spark keeps is read by statements that are not known yet, and a view is.
        ("CREATE TEMPORARY VIEW x AS SELECT * FROM t", 1),
        ("CACHE TABLE x AS SELECT * FROM t", 1),
        ("SELECT * FROM v", 1),
        ("SELECT * FROM v, t WHERE t.id = 5", 1),
        ("INSERT INTO u SELECT * FROM t", 1),
        ("CREATE TABLE w AS SELECT * FROM t", 1),
    ],
)
async def test_statements(text: str, barriers: int, reader: ReaderPool) -> None:
    found = await forwarded(world(), reader, text)
    assert found.count("TABLESAMPLE") == barriers


@pytest.mark.parametrize(
    ("row_filter", "mask", "barrier"),
    [
        ("length(current_user()) > 2 AND day > DATE'2020-01-01'", MASK, False),
        ("100 / n > 3", MASK, True),
        ("s = 5", MASK, True),
        ("rand(7) < 0.1", MASK, True),
        ("id IN (SELECT max(id) FROM spark_catalog.db.u)", MASK, True),
        ("spark_catalog.db.chosen(id)", MASK, True),
        (FILTER, "type: CUSTOM, show: 'lower({col})'", False),
        (FILTER, "type: CUSTOM, show: 'CAST(100 / n AS STRING)'", True),
        (FILTER, "type: MASK_NULL", False),
    ],
)
async def test_filters_and_masks(row_filter: str, mask: str, barrier: bool, reader: ReaderPool) -> None:
    found = await forwarded(world(row_filter, mask), reader, "SELECT id FROM t")
    assert ("TABLESAMPLE" in found) == barrier


@pytest.mark.parametrize(
    ("context", "barrier"),
    [
        ({"settings": frozenset({"spark.sql.ansi.enabled", "spark.sql.session.timeZone"})}, False),
        ({"temp_views": frozenset({"x"})}, False),
        ({"handles": frozenset({SparkHandle("function", "lower_case")})}, False),
    ],
)
async def test_sessions(context: dict[str, Any], barrier: bool, reader: ReaderPool) -> None:
    found = await forwarded(world(), reader, "SELECT id FROM t WHERE id = 5", **context)
    assert ("TABLESAMPLE" in found) == barrier


async def test_it_can_be_switched_off(reader: ReaderPool) -> None:
    text = "SELECT id FROM t WHERE id = 7"
    found = await forwarded(world(), reader, text, rules=Rules(barriers="always"))
    assert "TABLESAMPLE" in found
    assert "TRY_CAST(`id` AS INT) = (7)" in found


def joined() -> Frame:
    t, u = table("t"), table("u")
    return t.join(u, t.day == u.day).where(u.id == 5).select(t.id)


PLANS: dict[str, tuple[Callable[[], Frame], int, list[str]]] = {
    "a table": (lambda: table("t"), 0, []),
    "a filter": (lambda: table("t").where(F.col("day") == "2024-03-01").select("id"), 0, []),
    "an expression": (lambda: table("t").where("day = '2024-03-01' AND id IN (6, 7)"), 0, []),
    "by its DataFrame": (lambda: (t := table("t")).where(t.id > 7), 0, []),
    "a join by columns of one name": (joined, 0, []),
    "using": (lambda: table("t").join(table("u"), "id", "left").groupBy("id").count(), 0, []),
    "grouped": (
        lambda: table("t").groupBy("day").agg(F.max("n").alias("m")).where("m > 5").orderBy("day").limit(5),
        0,
        [],
    ),
    "what is shown may fail": (lambda: table("t").where("id = 7").select(1 / F.col("n")), 0, []),
    "what is within may not": (
        lambda: table("t").select((1 / F.col("n")).alias("x"), "id").where("id = 7"),
        1,
        ["id"],
    ),
    "a failing filter": (lambda: table("t").where((1 / F.col("n") > 0) & (F.col("id") == 7)), 1, ["id"]),
    "a failing filter by its DataFrame": (
        lambda: (t := table("t")).where((1 / t.n > 0) & (t.id == 7)),
        1,
        ["id"],
    ),
    # `id` is in both, so which one is meant is not followed; the barrier stays, since `/` can fail.
    "of two tables": (
        lambda: (t := table("t")).join(u := table("u"), t.day == u.day).where((t.id == 7) & (1 / t.n > 0)),
        1,
        [],
    ),
    "another type by that name": (
        lambda: (t := table("t")).select(F.col("s").alias("id")).where(t.id == 7),
        1,
        [],
    ),
    "a masked column by its DataFrame": (lambda: (t := table("t")).where(t.s == "x"), 1, []),
    "a column written over": (lambda: table("t").withColumn("id", F.col("n") + 1).where("id = 7"), 1, []),
    "a column more": (lambda: table("t").withColumn("x", F.upper("s")).where("x = 'X' AND id = 7"), 0, []),
    "a text": (lambda: sql("SELECT id FROM t WHERE id = 7"), 0, []),
    "a text within": (lambda: sql("SELECT id FROM t WHERE id = 7").where("id > 5"), 1, ["id"]),
    "a view": (lambda: table("v").where("id = 7"), 1, ["id"]),
    "a view by its DataFrame": (lambda: (v := table("v")).where(v.day == "2024-03-01"), 1, ["day"]),
    "a view within": (
        lambda: table("v").alias("x").where("x.id > 6").groupBy("day").count().where("day = '2024-03-01'"),
        1,
        ["id", "day"],
    ),
    "a view twice": (lambda: table("v").where("id = 7").union(table("v")), 2, ["id"]),
    "one of two views": (lambda: table("v").where("id = 7").join(table("v"), "day"), 2, ["id"]),
    "a view beside a table": (
        lambda: (t := table("t")).join(table("v"), "day").where((t.n == 7) & (1 / t.n > 0)),
        2,
        ["n"],
    ),
    # `id` is in both, so which one is meant is not followed.
    "of a view or a table": (
        lambda: (v := table("v")).join(t := table("t"), v.day == t.day).where(v.id == 7),
        2,
        [],
    ),
    "what a view makes": (lambda: table("w").where("next = 7 AND id = 5"), 1, ["id"]),
    "a sample": (lambda: table("t").sample(0.5, seed=1).where("id = 7"), 1, []),
    "a generator": (lambda: table("t").select(F.explode("tags"), "id").where("id = 7"), 1, []),
    "a set": (lambda: table("t").union(table("t")), 0, []),
    # By its name it would be who asks.
    "a column that is called as a word is": (lambda: (t := table("t")).where(t.user == t.id), 1, []),
    "it, behind what hides it": (
        lambda: (t := table("t")).select("s").where(t["user"] == F.col("s")),
        1,
        [],
    ),
    "of the name that Spark gives to a cast": (
        lambda: (d := table("t").select(F.col("n").try_cast("int"))).crossJoin(table("u")).where(d["n"] == 5),
        1,
        [],
    ),
    "of the name that Spark gives to a text": (
        lambda: (d := table("t").select(F.lit("n"), "day")).join(table("u"), "day").where(d["n"] == 5),
        1,
        [],
    ),
    "of the name of a field": (
        lambda: (
            (d := table("t").select("more.n", "day")).select("day").join(table("u"), "day").where(d["n"] == 5)
        ),
        1,
        [],
    ),
    "that Spark pads": (
        lambda: (
            table("t")
            .select(F.col("s").alias("x", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(9)"}))
            .where("x = 'a'")
        ),
        1,
        [],
    ),
    "a decimal": (lambda: table("t").where(F.col("n") * F.lit(Decimal("1.25")) > 5), 0, []),
    "a decimal of more digits than it says": (
        lambda: table("t").where(F.col("n") * F.lit(Decimal("1e25").quantize(Decimal(1))) > 5),
        1,
        [],
    ),
    "a cast that fails": (lambda: table("t").where(F.col("n").cast("int") == 5), 1, []),
    "a cast that does not": (lambda: table("t").where(F.col("id").cast("bigint") == F.col("n")), 0, []),
}


async def judged(frame: Frame, reader: ReaderPool, **context: Any) -> str:
    plan = PlanRequest(kind="execute", message=message(frame).SerializeToString(deterministic=True))
    verdict = await world().judge_plan(plan, reader, user="bob", rules=Rules(), namespace=("db",), **context)
    assert isinstance(verdict, Cleared), verdict
    return verdict.forwarded


@pytest.mark.parametrize(("frame", "barriers", "copies"), PLANS.values(), ids=PLANS)
async def test_plans(
    frame: Callable[[], Frame], barriers: int, copies: list[str], reader: ReaderPool
) -> None:
    found = await judged(frame(), reader)
    assert found.count("TABLESAMPLE") == barriers
    assert [*dict.fromkeys(re.findall(r"TRY_CAST\(`(\w+)`", found))] == copies


async def test_a_null_of_a_type_is_not_any(reader: ReaderPool) -> None:
    """`coalesce(CAST(NULL AS INT), s)` casts `s`."""
    barriers = []
    for kind in (pb.DataType(null=pb.DataType.NULL()), pb.DataType(integer=pb.DataType.Integer())):
        plan = message(table("t").where(F.coalesce(F.lit(None), F.col("s")) == "x"))
        coalesce = plan.root.filter.condition.unresolved_function.arguments[0].unresolved_function
        coalesce.arguments[0].literal.null.CopyFrom(kind)
        request = PlanRequest(kind="execute", message=plan.SerializeToString(deterministic=True))
        found = await world().judge_plan(request, reader, user="bob", rules=Rules(), namespace=("db",))
        assert isinstance(found, Cleared)
        barriers.append("TABLESAMPLE" in found.forwarded)
    assert barriers == [False, True]


async def test_a_session_that_persisted_a_frame_has_one_guard_for_all_plans(reader: ReaderPool) -> None:
    """Spark finds the rows that it keeps by the plan that they were made with."""
    persist = pb.AnalyzePlanRequest()
    persist.persist.relation.CopyFrom(message(table("t")).root)
    request = PlanRequest(kind="analyze", message=persist.SerializeToString(deterministic=True))
    kept = await world().judge_plan(request, reader, user="bob", rules=Rules(), namespace=("db",))
    assert isinstance(kept, Cleared)
    assert kept.effects == (PersistFrame(),)
    after = {"handles": frozenset({PERSISTED})}
    guards = set()
    for frame in (table("t"), table("t").where("id = 7"), sql("SELECT * FROM t")):
        found = await judged(frame, reader, **after)
        guards |= set(re.findall(r"WHERE \(id > 5\).*?`t`", found))
        assert "TABLESAMPLE" in found
    assert len(guards) == 1
