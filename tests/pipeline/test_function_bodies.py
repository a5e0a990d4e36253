"""Functions whose bodies read tables: judged when they are made, and again whenever they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.catalog.describe import function_from_rows
from gateway.catalog.types import NotUnderstood
from gateway.model.catalog import FUNCTION, TableName, ViewBody
from gateway.model.definers import definer_mark
from gateway.model.handles import SparkHandle, mark_reading_function
from gateway.model.reading import Proof, Span
from gateway.model.statement import (
    Cleared,
    PlanRequest,
    Refused,
    RegisterCode,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.reader.pool import ReaderPool
from gateway.sql.call_texts import MAX_CHARS, FoundCall, GuardedFunction, write_calls
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb
from tests.judge_world import World
from tests.pipeline.test_explained import explained
from tests.pipeline.test_plans import execute
from tests.plan.frames import message, sql
from tests.readers import is_older

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        f"spark_catalog.lab.{name}": {"id": "int", "region": "string", "note": "string"}
        for name in ("free", "filtered", "closed", "half")
    },
    "views": {
        "spark_catalog.lab.over_filtered": {
            "columns": {"id": "int"},
            "text": "SELECT id FROM filtered",
            "database": "lab",
            "output": ["id"],
        }
    },
    "people": {"ann": {"groups": ["staff"]}, "bob": {"groups": ["guests"]}, "cat": {"groups": []}},
    "pack": """
service: spark
policies:
  - name: staff read all
    on: {catalog: spark_catalog, database: lab, table: [free, filtered, half, over_filtered], column: "*"}
    allow: [{groups: [staff], access: [select]}]
  - name: guests read what is free, and half
    on:
      - {catalog: spark_catalog, database: lab, table: [free, filtered], column: "*"}
      - {catalog: spark_catalog, database: lab, table: half, column: [id, region]}
    allow: [{groups: [guests], access: [select]}]
  - name: own functions
    on: {catalog: system, database: session, udf: "*"}
    allow: [{users: [ann, bob], access: [create, execute]}]
  - name: all may make and call functions
    on: {catalog: spark_catalog, database: lab, udf: "*"}
    allow: [{groups: [staff, guests], access: [create, drop, execute]}]
  - name: a region
    on: {catalog: spark_catalog, database: lab, table: filtered}
    filter: [{groups: [guests], where: "region = 'EMEA'"}]
  - name: no notes
    on: {catalog: spark_catalog, database: lab, table: half, column: note}
    mask: [{users: [cat], type: MASK_NULL}]
""",
}
FREE_IS_WRITTEN = """
  - name: guests change what is free
    on: {catalog: spark_catalog, database: lab, table: free, column: "*"}
    allow: [{groups: [guests], access: [update]}]
"""
NAME = TableName("spark_catalog", "lab", "total", FUNCTION)


def described(
    body: str, by: str | None = "ann", kind: str = "SCALAR", inputs: Sequence[str] = ("p INT",)
) -> list[tuple[str]]:
    mark = [] if by is None else [(f"Comment:       what it is {definer_mark(body, by)}",)]
    given = [(f"Input:         {inputs[0]}",), *((f"               {one}",) for one in inputs[1:])]
    return [
        ("Function:      spark_catalog.lab.total",),
        (f"Type:          {kind}",),
        *given,
        ("Returns:       a INT  'its number'" if kind == "TABLE" else "Returns:       INT",),
        *mark,
        ("Deterministic: true",),
        (f"Body:          {body}",),
    ]


class Lab:
    def __init__(self, reader: ReaderPool, rows: Sequence[tuple[str]] | None = None) -> None:
        self.world, self.reader = World(DATA), reader
        if rows is not None:
            self.world.tables[NAME] = function_from_rows(rows, NAME)

    async def judged(self, text: str, user: str = "ann") -> Verdict:
        statement = Statement(
            text=text, principal=self.world.principal(user), context=SessionContext(namespace=("lab",))
        )
        return await self.world.judge_statement(statement, self.reader)


async def cleared(lab: Lab, text: str, user: str = "ann") -> Cleared:
    verdict = await lab.judged(text, user)
    assert isinstance(verdict, Cleared), verdict.message
    return verdict


async def refused(lab: Lab, text: str, user: str = "ann") -> Refused:
    verdict = await lab.judged(text, user)
    assert isinstance(verdict, Refused), verdict.forwarded
    return verdict


@pytest.fixture
def reader4(reader: ReaderPool) -> ReaderPool:
    if is_older(reader, "4.2"):
        pytest.skip("governed with Spark 4.2 and later")
    return reader


# -- made ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "CREATE FUNCTION total(p INT) RETURNS INT RETURN SELECT max(id) FROM free WHERE id < p",
            "SELECT max(id) FROM `spark_catalog`.`lab`.`free` WHERE id < p",
        ),
        (
            "CREATE OR REPLACE FUNCTION total(p INT DEFAULT 1, q STRING) RETURNS INT COMMENT 'it\\'s' RETURN "
            "(SELECT max(f.id) FROM free AS f WHERE total.q = region) + p -- RETURN\n",
            "(SELECT max(f.id) FROM `spark_catalog`.`lab`.`free` AS f WHERE total.q = region) + p",
        ),
        (
            "CREATE FUNCTION total() RETURNS TABLE (a INT COMMENT 'a', b STRING) RETURN SELECT id, region "
            "FROM lab.free",
            "SELECT id, region FROM `spark_catalog`.`lab`.`free`",
        ),
        (
            "CREATE FUNCTION total(p INT) RETURNS INT RETURN SELECT max(id) FROM spark_catalog.lab.filtered",
            "SELECT max(id) FROM spark_catalog.lab.filtered",
        ),
    ],
)
async def test_a_body_is_kept_with_whole_names_and_its_definer(
    reader4: ReaderPool, text: str, kept: str
) -> None:
    found = await cleared(Lab(reader4), text)
    mark = definer_mark(kept, "ann")
    assert kept in found.forwarded
    assert mark in found.forwarded
    assert "region = 'EMEA'" not in found.forwarded
    assert {"free", "filtered"} & {name.table for name in found.names}
    if "COMMENT 'it" in text:
        assert f"COMMENT 'it\\'s {mark}' RETURN" in found.forwarded


async def test_who_makes_it_reads_it_by_his_own_access(reader4: ReaderPool) -> None:
    lab = Lab(reader4)
    make = "CREATE FUNCTION total(p INT) RETURNS {} RETURN SELECT {} FROM {}"
    for what, column, table, user in (
        ("INT", "max(id)", "closed", "ann"),
        ("STRING", "max(note)", "half", "bob"),
        ("TABLE (a STRING)", "note", "half", "bob"),
        ("INT", "max(id)", "over_filtered", "bob"),
    ):
        await refused(lab, make.format(what, column, table), user)
    kept = await cleared(lab, make.format("INT", "max(id)", "filtered"), "bob")
    assert "EMEA" not in kept.forwarded
    assert all(not scan.obligations for scan in kept.scans)
    await refused(lab, make.format("INT", "max(id)", "nowhere"))
    view = Statement(
        text=make.format("INT", "max(id)", "tv"),
        principal=lab.world.principal("ann"),
        context=SessionContext(namespace=("lab",), temp_views=frozenset({"tv"})),
    )
    said = await lab.world.judge_statement(view, reader4)
    assert isinstance(said, Refused)
    assert said.message.startswith("[INVALID_TEMP_OBJ_REFERENCE] ")
    calls = Statement(
        text="CREATE FUNCTION total(p INT) RETURNS INT RETURN own(p)",
        principal=lab.world.principal("ann"),
        context=SessionContext(namespace=("lab",), handles=frozenset({SparkHandle("function", "own")})),
    )
    said = await lab.world.judge_statement(calls, reader4)
    assert isinstance(said, Refused)
    assert "`lab`.`total` of the type FUNCTION because it references to the temporary" in said.message
    words = Statement(
        text=make.format("INT", "max(id)", "free"),
        principal=lab.world.principal("ann"),
        context=SessionContext(namespace=("lab",), variables=frozenset({"id"})),
    )
    said = await lab.world.judge_statement(words, reader4)
    assert isinstance(said, Refused)
    assert "a variable of the session" in said.message


async def test_a_temporary_function_keeps_what_its_maker_may_read(reader4: ReaderPool) -> None:
    lab = Lab(reader4)
    make = "CREATE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN SELECT max(id) FROM {} WHERE id < x"
    free = await cleared(lab, make.format("free"))
    assert free.effects == (RegisterCode(SparkHandle("function", "own"), reads=True),)
    assert "`spark_catalog`.`lab`.`free`" in free.forwarded
    filtered = await cleared(lab, make.format("filtered"), "bob")
    assert "EMEA" in filtered.forwarded
    assert filtered.obligations
    await refused(lab, make.format("closed"))
    named = SessionContext(
        namespace=("lab",), handles=frozenset({SparkHandle("function", "own"), mark_reading_function("own")})
    )
    for text, why in (
        ("EXPLAIN SELECT own(1)", "would show"),
        ("DESCRIBE FUNCTION EXTENDED own", "would show"),
        ("CACHE TABLE kept AS SELECT own(1) AS a", "calls the temporary function `own`"),
    ):
        shown = Statement(text=text, principal=lab.world.principal("ann"), context=named)
        said = await lab.world.judge_statement(shown, reader4)
        assert isinstance(said, Refused)
        assert why in said.message
    frame = sql("SELECT own(1) AS z")
    kept = pb.AnalyzePlanRequest()
    kept.persist.relation.CopyFrom(message(frame).root)
    persists = PlanRequest(kind="analyze", message=kept.SerializeToString(deterministic=True))
    for asked in (explained(frame, "extended"), persists, execute(frame)):
        told: dict[str, Any] = {"namespace": ("lab",), "handles": named.handles}
        verdict = await lab.world.judge_plan(asked, reader4, user="ann", **told)
        if asked.kind == "execute":
            assert isinstance(verdict, Cleared), verdict
            continue
        assert isinstance(verdict, Refused), verdict
        assert "temporary function" in verdict.message


async def test_a_body_calls_no_function_of_the_session(reader4: ReaderPool) -> None:
    lab = Lab(reader4, described(FREE))
    context = SessionContext(namespace=("lab",), handles=frozenset({SparkHandle("function", "total")}))
    for kind, name, why in (
        ("FUNCTION", "outer", "the temporary object `total` of the type FUNCTION"),
        ("TEMPORARY FUNCTION", "own", "`total` is neither"),
    ):
        text = f"CREATE {kind} {name}(p INT) RETURNS INT RETURN total(p)"
        made = Statement(text=text, principal=lab.world.principal("ann"), context=context)
        verdict = await lab.world.judge_statement(made, reader4)
        assert isinstance(verdict, Refused), verdict
        assert why in verdict.message


async def test_a_temporary_function_calls_no_function_of_a_database(reader4: ReaderPool) -> None:
    lab = Lab(reader4, described(FREE))
    said = await refused(lab, "CREATE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN lab.total(x)")
    assert "Spark's own functions alone" in said.message


async def test_a_comment_of_the_users_names_no_definer(reader4: ReaderPool) -> None:
    body = "SELECT max(id) FROM `spark_catalog`.`lab`.`free`"
    forged = definer_mark(body, "root")
    text = f"CREATE FUNCTION total(p INT) RETURNS INT COMMENT '{forged}' RETURN {body}"
    found = await cleared(Lab(reader4), text)
    told = re.search(r"COMMENT '(.*)' RETURN", found.forwarded)
    assert told is not None
    assert told[1] == f"{forged} {definer_mark(body, 'ann')}"
    view = function_from_rows([("Function: f",), (f"Comment: {told[1]}",), (f"Body: {body}",)], NAME).view
    assert view is not None
    assert view.definer == "ann"


async def test_a_body_calls_functions_of_databases_by_their_databases(reader4: ReaderPool) -> None:
    lab = Lab(reader4, described(FREE))
    text = "CREATE FUNCTION outer(p INT) RETURNS INT RETURN total(p) + {}(1) + abs(p)"
    for name in ("total", "`spark_catalog`.`lab`.`total`"):
        made = await cleared(lab, text.format(name))
        assert "RETURN `lab`.`total`(p) + `lab`.`total`(1) + abs(p)" in made.forwarded
        assert definer_mark("`lab`.`total`(p) + `lab`.`total`(1) + abs(p)", "ann") in made.forwarded
        assert NAME in made.names
    rows = text.replace("INT RETURN", "TABLE (a INT) RETURN SELECT").format("abs")
    assert "RETURN SELECT `lab`.`total`(p)" in (await cleared(lab, rows)).forwarded
    await refused(lab, text.format("nowhere"))
    await refused(lab, text.format("total"), "cat")  # who may not execute it


async def test_a_name_in_a_body_is_not_found_where_it_is_called(reader4: ReaderPool) -> None:
    said = await refused(Lab(reader4, described("SELECT max(id) FROM free WHERE id < p")), "SELECT total(1)")
    assert "not a database" in said.message


OUTER = TableName("spark_catalog", "lab", "outer", FUNCTION)


async def test_what_a_body_calls_is_judged_with_it(reader4: ReaderPool) -> None:
    lab = Lab(reader4, described("SELECT max(id) FROM `spark_catalog`.`lab`.`filtered` WHERE id < p"))
    lab.world.tables[OUTER] = function_from_rows(described("`lab`.`total`(p) + 1"), OUTER)
    plain = await cleared(lab, "SELECT outer(id) AS o FROM free")
    assert "`spark_catalog`.`lab`.`outer`(id)" in plain.forwarded
    assert {NAME, OUTER} <= plain.names
    written = await cleared(lab, "SELECT outer(id) AS o FROM free", "bob")
    assert "EMEA" in written.forwarded
    assert "`outer`(id)" not in written.forwarded
    assert "`total`(" not in written.forwarded.replace("AS `total`(", "")
    again = function_from_rows(described("`lab`.`outer`(p) + 1"), OUTER)
    lab.world.tables[OUTER] = again  # it calls itself
    assert "too deep" in (await refused(lab, "SELECT outer(id) AS o FROM free")).message


# -- called --------------------------------------------------------------------------------------------------

FREE = "SELECT max(id) FROM `spark_catalog`.`lab`.`free` WHERE id < p"


FILTERED = FREE.replace("free", "filtered")


@pytest.mark.parametrize(
    ("body", "by", "user", "found"),
    [
        (FREE, "ann", "ann", "as it is"),
        (FREE, "ann", "bob", "as it is"),
        (FILTERED, "ann", "ann", "as it is"),
        # Spark would run it past the filter.
        (FILTERED, "ann", "bob", "region = 'EMEA'"),
        (FREE.replace("free", "over_filtered"), "ann", "bob", "region = 'EMEA'"),
        # Whoever made it may not any more.
        (FREE.replace("free", "closed"), "ann", "ann", "refused"),
        (FILTERED, "cat", "ann", "refused"),
        (FREE, "gone", "ann", "refused"),
        # Conditions on it would be tried on what it gives for others.
        (FREE.replace("free", "half").replace("id", "note"), "ann", "bob", "any_value(`its value`)"),
        # It would name columns that are hidden.
        (FREE.replace("free", "half"), "bob", "bob", "SELECT `id`, `region` FROM"),
        (
            "(SELECT max(id) FROM `spark_catalog`.`lab`.`filtered` WHERE EXISTS (SELECT 1)) + p",
            "ann",
            "bob",
            "region = 'EMEA'",
        ),
        # Nobody but an operator vouches for it.
        (FILTERED, None, "bob", "as it is"),
    ],
)
async def test_a_body_is_judged_for_who_calls(
    reader4: ReaderPool, body: str, by: str | None, user: str, found: str
) -> None:
    lab = Lab(reader4, described(body, by))
    for text in ("SELECT total(1)", "SELECT spark_catalog.lab.total(id) FROM free"):
        verdict = await lab.judged(text, user)
        assert isinstance(verdict, Refused if found == "refused" else Cleared), verdict
        if isinstance(verdict, Cleared):
            called = "`spark_catalog`.`lab`.`total`(1)", "spark_catalog.lab.total(id) FROM `spark"
            assert any(one in verdict.forwarded for one in called) is (found == "as it is")
            assert found == "as it is" or found in verdict.forwarded
            assert verdict.shows_errors is (found == "as it is")
            tables = {scan.table.table for scan in verdict.scans}
            assert by is None or tables & {"free", "filtered", "half"}
    call = F.call_function("spark_catalog.lab.total", F.lit(1))
    for plan, refusing in (
        (sql("SELECT spark_catalog.lab.total(1)"), {"refused"}),
        # In an expression of a DataFrame nothing is written out.
        (sql("SELECT 1 AS a").select(call), {"refused", found} - {"as it is"}),
        (sql("SELECT 1 AS a").select(F.expr("lab.total(1)")), {"refused", found} - {"as it is"}),
    ):
        verdict = await lab.world.judge_plan(execute(plan), reader4, user=user)
        assert isinstance(verdict, Refused if found in refusing else Cleared), verdict


@pytest.mark.parametrize(
    ("body", "user", "found"),
    [
        ("SELECT id FROM `spark_catalog`.`lab`.`free` WHERE id < p", "bob", "as it is"),
        ("SELECT id FROM `spark_catalog`.`lab`.`filtered`", "ann", "as it is"),
        ("SELECT id FROM `spark_catalog`.`lab`.`filtered`", "bob", "region = 'EMEA'"),
        ("SELECT id FROM `spark_catalog`.`lab`.`half`", "bob", "refused"),
        ("SELECT note FROM `spark_catalog`.`lab`.`half`", "bob", "refused"),
        ("SELECT * FROM `spark_catalog`.`lab`.`half`", "bob", "refused"),
    ],
)
async def test_so_is_that_of_a_table_function(reader4: ReaderPool, body: str, user: str, found: str) -> None:
    lab = Lab(reader4, described(body, kind="TABLE"))
    lateral = "SELECT f.* FROM free, LATERAL lab.total(id) AS f"
    for text in ("SELECT * FROM total(1)", "SELECT total.a FROM total(p => 1)", lateral):
        verdict = await lab.judged(text, user)
        # Below a sample, which keeps conditions off, no column of another table may be.
        refused = found == "refused" and text == lateral
        assert isinstance(verdict, Refused if refused else Cleared), verdict
        if isinstance(verdict, Cleared):
            assert ("`lab`.`total`(" in verdict.forwarded) is (found == "as it is")
            assert found in ("as it is", "refused") or found in verdict.forwarded
            assert found != "refused" or "TABLESAMPLE (100 PERCENT)" in verdict.forwarded


@pytest.mark.parametrize(
    ("text", "written"),
    [
        # Arguments stay where they are, with what stands for what they read.
        (
            "SELECT total((id)) AS z FROM filtered",
            "(SELECT CAST(id AS INT) AS `sluice argument 0 0`, CAST('d'",
        ),
        ("SELECT lab.total(q => 'x', p => 1)", "AS `total`(`q`, `p`)) AS `spark_catalog.lab.total(1, x)`"),
        ("SELECT total(1)", "CAST('d' AS STRING) AS `sluice argument 0 q`) AS `total`(`p`, `q`)"),
        ("SELECT total(total(2)) + 1 AS z", "SELECT CAST((SELECT CAST("),
        ("SELECT (total(id) + 1), 1 FROM free", " + 1) AS `(spark_catalog.lab.total(id) + 1)`, 1"),
        (
            "SELECT total(total(1)) > -1",
            " > -1 AS `(spark_catalog.lab.total(spark_catalog.lab.total(1)) > -1)`",
        ),
        ("SELECT id FROM free WHERE total(id) > 2 GROUP BY id, total(id)", "GROUP BY id, (SELECT"),
        ("SELECT total((SELECT max(id) FROM filtered)) AS z", ""),
        ("CREATE TEMPORARY VIEW tv AS SELECT total(id) + 1 AS z FROM free", ""),
        ("SELECT a FROM (SELECT total(id) AS a FROM free)", ""),
        ("SELECT /* f( */ total( -- )\n id /* ) */ ) AS z FROM free", ""),
    ],
)
async def test_a_body_is_written_out_where_it_is_called(reader4: ReaderPool, text: str, written: str) -> None:
    rows = described(FILTERED, inputs=("p INT", "q STRING DEFAULT 'd'"))
    found = await cleared(Lab(reader4, rows), text, "bob")
    assert "region = 'EMEA'" in found.forwarded
    assert written in found.forwarded
    assert "`lab`.`total`(" not in found.forwarded


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT total(id) + id FROM free", "give the column an alias"),
        ("SELECT total(id + 1) FROM free", "give the column an alias"),
        ("SELECT total(1) IN (SELECT 1)", "give the column an alias"),
        ("SELECT total()", "[WRONG_NUM_ARGS.WITHOUT_SUGGESTION]"),
        ("SELECT total(1, 2)", "requires 1 parameters but the actual number is 2"),
        ("SELECT total(q => 1)", "[UNRECOGNIZED_PARAMETER_NAME]"),
        ("SELECT total(p => 1, 2)", "[UNEXPECTED_POSITIONAL_ARGUMENT]"),
        ("SELECT total(1, p => 2)", "BOTH_POSITIONAL_AND_NAMED]"),
        ("SELECT total(p => 1, P => 2)", "DOUBLE_NAMED_ARGUMENT_REFERENCE]"),
        ("SELECT total(*) AS z FROM free", "with such an argument"),
        ("SELECT total(`sluice argument 0 0`) AS z FROM free", "in this text"),
        ("SELECT total(DISTINCT 1) AS z", "could not prove"),
        ("SELECT total(1) FILTER (WHERE true) AS z", "with such an argument"),
        ("SELECT a FROM free LATERAL VIEW total(1) v AS a", "in this place"),
        ("EXPLAIN SELECT total(1) AS z", "a plan that is shown"),
        ("UPDATE free SET id = 1 WHERE total(id) > 1", "where rows are changed"),
    ],
)
async def test_what_cannot_be_written_out_is_refused(reader4: ReaderPool, text: str, why: str) -> None:
    lab = Lab(reader4, described(FILTERED))
    lab.world = World({**DATA, "pack": DATA["pack"] + FREE_IS_WRITTEN})
    lab.world.tables[NAME] = function_from_rows(described(FILTERED), NAME)
    assert why in (await refused(lab, text, "bob")).message


async def test_nor_under_settings_or_beside_variables_of_the_session(reader4: ReaderPool) -> None:
    lab = Lab(reader4, described(FILTERED))
    for context, why in (
        (SessionContext(namespace=("lab",), settings=frozenset({"spark.sql.ansi.enabled"})), "the settings"),
        (SessionContext(namespace=("lab",), variables=frozenset({"id"})), "a variable of this session"),
    ):
        statement = Statement(text="SELECT total(1)", principal=lab.world.principal("bob"), context=context)
        verdict = await lab.world.judge_statement(statement, reader4)
        assert isinstance(verdict, Refused)
        assert why in verdict.message


@pytest.mark.parametrize("mode", ["simple", "extended", "cost"])
async def test_no_plan_shows_what_is_written_out(reader4: ReaderPool, mode: str) -> None:
    lab = Lab(reader4, described(FILTERED))
    asked = explained(sql("SELECT spark_catalog.lab.total(1) AS z"), mode)
    assert isinstance(await lab.world.judge_plan(asked, reader4, user="ann"), Cleared)
    assert isinstance(await lab.world.judge_plan(asked, reader4, user="bob"), Refused)


@pytest.mark.parametrize("written", ["total", "lab.total", "`Lab`.`Total`"])
async def test_a_dataframe_calls_one_by_a_short_name(reader4: ReaderPool, written: str) -> None:
    frame = sql("SELECT 1 AS a").select(F.call_function(written, F.col("a")))
    lab = Lab(reader4, described(FREE))
    context: dict[str, Any] = {"namespace": ("lab",)}
    found = await lab.world.judge_plan(execute(frame), reader4, user="bob", **context)
    assert isinstance(found, Cleared), found
    assert b"`spark_catalog`.`lab`.`total`" in found.forwarded_plan.lower()
    assert NAME in found.names
    assert {"free"} <= {scan.table.table for scan in found.scans}
    # Who may not call it is told that there is none, and so is everybody where there is none.
    for other, user in ((lab, "cat"), (Lab(reader4), "bob")):
        said = await other.world.judge_plan(execute(frame), reader4, user=user, **context)
        assert isinstance(said, Refused), said
        assert said.message.startswith("[UNRESOLVED_ROUTINE] "), said.message
    # What reads past policies for who calls is no DataFrame's.
    guarded = Lab(reader4, described(FILTERED))
    said = await guarded.world.judge_plan(execute(frame), reader4, user="bob", **context)
    assert isinstance(said, Refused), said
    assert "runs its body as it is stored" in said.message
    if written == "total":
        own = frozenset({SparkHandle("function", "total")})
        called = await lab.world.judge_plan(execute(frame), reader4, user="ann", handles=own, **context)
        assert isinstance(called, Cleared), called
        assert b"`spark_catalog`" not in called.forwarded_plan
        far = await lab.world.judge_plan(execute(frame), reader4, user="bob", namespace=("other",))
        assert isinstance(far, Refused)


ASKS = "concat(current_user(), '!')"


async def test_who_calls_is_who_a_body_asks_for(reader4: ReaderPool) -> None:
    make = f"CREATE {{}} total(p INT) RETURNS STRING RETURN {ASKS}"
    assert definer_mark(ASKS, "ann") in (await cleared(Lab(reader4), make.format("FUNCTION"))).forwarded
    own = await cleared(Lab(reader4), make.format("TEMPORARY FUNCTION"))
    assert own.effects == (RegisterCode(SparkHandle("function", "total"), reads=True),)
    lab = Lab(reader4, described(ASKS))
    # Over Thrift Spark knows the user; only what it keeps does not ask.
    assert "`total`(1)" in (await cleared(lab, "SELECT total(1)", "bob")).forwarded
    assert "`total`(1)" in (await cleared(lab, "EXPLAIN SELECT total(1)", "bob")).forwarded
    kept = (await cleared(lab, "CREATE TEMPORARY VIEW kept AS SELECT total(1) AS z", "bob")).forwarded
    assert "concat('bob', '!')" in kept
    assert "`total`(1)" not in kept
    await refused(lab, "CACHE TABLE kept AS SELECT total(1) AS z", "bob")
    over = await lab.world.judge_plan(execute(sql("SELECT lab.total(1) AS z")), reader4, user="bob")
    assert isinstance(over, Cleared)
    assert b"concat('bob', '!')" in over.forwarded_plan
    call = F.call_function("spark_catalog.lab.total", F.lit(1))
    alone = await lab.world.judge_plan(execute(sql("SELECT 1 AS a").select(call)), reader4, user="bob")
    assert isinstance(alone, Refused)
    assert "asks who you are" in alone.message


async def test_a_view_that_calls_one_is_written_out(reader4: ReaderPool) -> None:
    text = "SELECT spark_catalog.lab.total(id) AS z FROM spark_catalog.lab.free"
    view = {"columns": {"z": "int"}, "text": text, "database": "lab", "output": ["z"]}
    lab = Lab(reader4)
    lab.world = World(
        {
            **DATA,
            "views": {**DATA["views"], "spark_catalog.lab.calling": view},
            "pack": DATA["pack"].replace("[free, filtered], column", "[free, filtered, calling], column"),
        }
    )
    lab.world.tables[NAME] = function_from_rows(described(FILTERED), NAME)
    found = await cleared(lab, "SELECT z FROM calling WHERE z > 1", "bob")
    assert "region = 'EMEA'" in found.forwarded
    assert "`calling`" not in found.forwarded.replace("AS `calling`", "")
    await refused(lab, "EXPLAIN SELECT z FROM calling", "bob")
    await refused(lab, "SHOW CREATE TABLE calling", "bob")


async def test_whose_parameters_are_of_another_form_is_none(reader4: ReaderPool) -> None:
    for given in ("p-q INT", "/* INT", "p INT) AS x", "p"):
        with pytest.raises(NotUnderstood):
            function_from_rows(described(FREE, inputs=[given]), NAME)
    view = function_from_rows(
        described(
            FREE, inputs=["p INT", "s STRUCT<a: INT, b: ARRAY<STRING>> DEFAULT NULL", "d DECIMAL(3,1) 'x'"]
        ),
        NAME,
    ).view
    assert view is not None
    assert view.parameters == (
        ("p", "INT"),
        ("s", "STRUCT<a: INT, b: ARRAY<STRING>>"),
        ("d", "DECIMAL(3,1)"),
    )


async def test_a_body_whose_names_are_not_proved_is_not_kept(reader4: ReaderPool) -> None:
    class Unproving:
        """Proves the body as it is read, and not as it is kept."""

        asked = 0

        def __getattr__(self, name: str) -> object:
            return getattr(reader4, name)

        async def prove(self, *_: object, **__: object) -> Proof:
            self.asked += 1
            return Proof(holds=self.asked != 2)

    lab = Lab(Unproving())  # type: ignore[arg-type]
    said = await refused(lab, "CREATE FUNCTION total(p INT) RETURNS INT RETURN SELECT max(id) FROM free")
    assert "full names" in said.message


async def test_bodies_are_not_written_out_without_end() -> None:
    view = ViewBody(text="", catalog="", database="", output=(), body="1", returns=(("x", "INT"),))
    body = "1" * (MAX_CHARS // 2)
    function = GuardedFunction(name=TableName("spark_catalog", "lab", "f"), view=view, body=body, lends=False)
    calls = [
        FoundCall(function=function, span=Span(at, at + 3), arguments=(), item=None, alias="")
        for at in range(0, 30, 3)
    ]
    assert not isinstance(write_calls(calls[:2], {}, bare=True), Unsupported)
    refused = write_calls(calls, {}, bare=True)
    assert isinstance(refused, Unsupported)
    assert "more than" in refused.why
