"""Functions whose bodies read tables: judged when they are made, and again whenever they are called."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.catalog.describe import function_from_rows
from gateway.catalog.types import NotUnderstood
from gateway.model.catalog import FUNCTION, TableName
from gateway.model.definers import definer_mark
from gateway.model.reading import Proof
from gateway.model.statement import Cleared, Refused, SessionContext, Statement, Verdict
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_plans import execute
from tests.plan.frames import sql
from tests.readers import is_older

pytestmark = pytest.mark.asyncio(loop_scope="session")

DATA = {
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
    allow: [{users: [ann], access: [create]}]
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
        ("Returns:       INT",),
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
    assert isinstance(verdict, Cleared), verdict
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
    assert isinstance(await lab.world.judge_statement(view, reader4), Refused)
    words = Statement(
        text=make.format("INT", "max(id)", "free"),
        principal=lab.world.principal("ann"),
        context=SessionContext(namespace=("lab",), variables=frozenset({"id"})),
    )
    said = await lab.world.judge_statement(words, reader4)
    assert isinstance(said, Refused)
    assert "a variable of the session" in said.message


async def test_a_temporary_function_reads_no_table(reader4: ReaderPool) -> None:
    lab = Lab(reader4)
    text = "CREATE TEMPORARY FUNCTION own(x INT) RETURNS INT RETURN SELECT max(id) FROM free"
    assert "a temporary function reads no table" in (await refused(lab, text)).message


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


# -- called --------------------------------------------------------------------------------------------------

FREE = "SELECT max(id) FROM `spark_catalog`.`lab`.`free` WHERE id < p"


@pytest.mark.parametrize(
    ("body", "by", "user", "passes"),
    [
        (FREE, "ann", "ann", True),
        (FREE, "ann", "bob", True),
        (FREE.replace("free", "filtered"), "ann", "ann", True),
        # Spark would run it past the filter.
        (FREE.replace("free", "filtered"), "ann", "bob", False),
        (FREE.replace("free", "over_filtered"), "ann", "bob", False),
        # Whoever made it may not any more.
        (FREE.replace("free", "closed"), "ann", "ann", False),
        (FREE.replace("free", "filtered"), "cat", "ann", False),
        (FREE, "gone", "ann", False),
        (FREE.replace("free", "half").replace("id", "note"), "ann", "bob", True),
        # It would name columns that are hidden.
        (FREE.replace("free", "half"), "bob", "bob", False),
        (
            "(SELECT max(id) FROM `spark_catalog`.`lab`.`filtered` WHERE EXISTS (SELECT 1)) + p",
            "ann",
            "bob",
            False,
        ),
        # Nobody but an operator vouches for it.
        (FREE.replace("free", "filtered"), None, "bob", True),
    ],
)
async def test_a_body_is_judged_for_who_calls(
    reader4: ReaderPool, body: str, by: str | None, user: str, passes: bool
) -> None:
    lab = Lab(reader4, described(body, by))
    for text in ("SELECT total(1)", "SELECT spark_catalog.lab.total(id) FROM free"):
        verdict = await lab.judged(text, user)
        assert isinstance(verdict, Cleared if passes else Refused), verdict
        if isinstance(verdict, Cleared) and by is not None:
            tables = {scan.table.table for scan in verdict.scans}
            assert tables & {"free", "filtered", "half"}
    for plan in (
        execute(sql("SELECT spark_catalog.lab.total(1)")),
        execute(sql("SELECT 1 AS a").select(F.call_function("spark_catalog.lab.total", F.lit(1)))),
    ):
        verdict = await lab.world.judge_plan(plan, reader4, user=user)
        assert isinstance(verdict, Cleared if passes else Refused), verdict


@pytest.mark.parametrize(
    ("body", "user", "passes"),
    [
        ("SELECT id, region FROM `spark_catalog`.`lab`.`free` WHERE id < p", "bob", True),
        ("SELECT id, region FROM `spark_catalog`.`lab`.`filtered`", "ann", True),
        ("SELECT id, region FROM `spark_catalog`.`lab`.`filtered`", "bob", False),
        ("SELECT id, region FROM `spark_catalog`.`lab`.`half`", "bob", False),
        ("SELECT id, note FROM `spark_catalog`.`lab`.`half`", "bob", False),
        ("SELECT * FROM `spark_catalog`.`lab`.`half`", "bob", False),
    ],
)
async def test_so_is_that_of_a_table_function(
    reader4: ReaderPool, body: str, user: str, passes: bool
) -> None:
    lab = Lab(reader4, described(body, kind="TABLE"))
    for text in ("SELECT * FROM total(1)", "SELECT f.* FROM free, LATERAL lab.total(id) AS f"):
        verdict = await lab.judged(text, user)
        assert isinstance(verdict, Cleared if passes else Refused), verdict


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
