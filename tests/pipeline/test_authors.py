"""A mask or filter counts for no more than who wrote it may select now: else it closes what it is for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.catalog.describe import function_from_rows
from gateway.model.catalog import FUNCTION, Column, Table, TableKind, TableName, ViewBody
from gateway.model.statement import Cleared, Verdict
from gateway.reader.pool import ReaderPool
from gateway.sql.metric_views import metric_view
from tests.judge_world import CASES, World
from tests.pipeline.test_plans import execute
from tests.plan.frames import sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

READ = "SELECT id FROM sales.fit"
CLOSED = "a policy for spark_catalog.sales.fit is closed, because its author lacks select on something"
BEYOND = "a policy for spark_catalog.sales.fit calls spark_catalog.hr."
"""What nobody can tell of a function closes, whoever wrote the policy."""
DEPARTMENT = "fit.id IN (SELECT d.id FROM spark_catalog.hr.department d WHERE d.name = 'x')"
NAME = "    - name: a filter with a subquery that fits\n".removeprefix("  ")


def world(author: str, text: str = DEPARTMENT, more: str = "", id_: str = "") -> World:
    data: dict[str, Any] = yaml.safe_load((Path(CASES) / "world.yaml").read_text())
    pack = data["pack"]
    assert pack.count(NAME) == 1
    assert DEPARTMENT in pack
    who = f"    author: {author}\n" + (f"    author_id: {id_}\n" if id_ else "")
    data["pack"] = pack.replace(NAME, f"{NAME}{who}").replace(DEPARTMENT, text) + more
    return World(data)


def why(verdict: Verdict) -> str:
    return "" if isinstance(verdict, Cleared) else f"{verdict.code}: {verdict.message}"


@pytest.mark.parametrize(
    ("author", "text", "is_open"),
    [
        ("ann", DEPARTMENT, True),
        ("bob", DEPARTMENT, True),
        ("eve", DEPARTMENT, False),
        ("nobody", DEPARTMENT, False),
        ("eve", "id > 5 AND upper(CAST(id AS STRING)) = '6'", True),
        ("bob", "id IN (SELECT id FROM spark_catalog.hr.employee)", False),
        ("ann", "id IN (SELECT id FROM spark_catalog.hr.employee)", True),
        ("bob", "id IN (SELECT id FROM spark_catalog.hr.directory)", False),
        ("ann", "id IN (SELECT id FROM spark_catalog.hr.directory)", True),
        ("bob", "EXISTS (SELECT 1 FROM spark_catalog.hr.units)", True),
        ("bob", "id IN (SELECT id FROM spark_catalog.sales.fit)", False),
        ("bob", "spark_catalog.hr.peek(id) = 1", False),
        ("bob", "exists(array(1), x -> id = x + fit.id)", True),
        ("bob", "id IN (WITH d AS (SELECT id FROM spark_catalog.hr.ledger) SELECT id FROM d)", False),
    ],
)
async def test_what_its_author_may_not_select_closes(
    reader: ReaderPool, author: str, text: str, is_open: bool
) -> None:
    made = world(author, text)
    told = [
        why(await made.judge(READ, reader, user="bob")),
        why(await made.judge_plan(execute(table("sales.fit")), reader, user="bob")),
        why(await made.judge_plan(execute(sql(READ)), reader, user="bob")),
    ]
    for each in told:
        assert (CLOSED not in each) if is_open else (CLOSED in each or BEYOND in each), each
        assert "department" not in each
    assert why(await made.judge(READ, reader, user="ann")) == "", "it is not for ann"


async def test_it_is_asked_anew_when_the_author_changes(reader: ReaderPool) -> None:
    made = world("bob")
    verdict = await made.judge(READ, reader, user="bob")
    assert isinstance(verdict, Cleared)
    assert [one.user for one in verdict.definers] == ["bob"]
    made.principals["bob"] = replace(made.principals["bob"], groups=frozenset())
    assert CLOSED in why(await made.judge(READ, reader, user="bob"))


async def test_who_has_the_name_of_an_author_by_now_is_not_he(reader: ReaderPool) -> None:
    """Somebody was removed and added again: what the first one wrote is not in force for that."""
    first, second = "5d1f0c9ab3e2", "77aa00bb11cc"
    for id_, now, is_open in (
        ("", "", True),
        ("", second, False),
        (first, "", False),
        (first, first, True),
        (first, second, False),
    ):
        made = world("bob", id_=id_)
        made.principals["bob"] = replace(made.principals["bob"], id=now)
        told = why(await made.judge(READ, reader, user="bob"))
        assert (CLOSED not in told) if is_open else (CLOSED in told), (id_, now)


async def test_a_verdict_does_not_outlive_who_wrote_what_it_rests_on(reader: ReaderPool) -> None:
    made = world("bob", id_="5d1f0c9ab3e2")
    made.principals["bob"] = replace(made.principals["bob"], id="5d1f0c9ab3e2")
    verdict = await made.judge(READ, reader, user="bob")
    assert isinstance(verdict, Cleared)
    made.principals["bob"] = replace(made.principals["bob"], id="77aa00bb11cc")
    assert not set(verdict.definers) & set(made.principals.values())


@pytest.mark.parametrize(
    "text", ["exists(array(1), x -> crad = x)", "exists(array(1), x -> exists(array(x), y -> crad.id = y))"]
)
async def test_a_misspelt_column_in_a_lambda_function_closes(reader: ReaderPool, text: str) -> None:
    """Spark would look for it around the guard, where the user may have a column of that name."""
    asked = "SELECT (SELECT max(id) FROM sales.fit) FROM VALUES (1) AS o(crad)"
    assert "does not match its columns" in why(await world("ann", text).judge(asked, reader, user="bob"))


def is_closed(verdict: Verdict) -> bool:
    return CLOSED in why(verdict) or BEYOND in why(verdict)


CALLING = """
  - name: they call functions
    on: {catalog: spark_catalog, database: hr, udf: "*"}
    allow: [{users: [ann, bob, eve], access: [execute]}]
  - name: and read a view that does
    on: {catalog: spark_catalog, database: hr, table: calling, column: "*"}
    allow: [{users: [bob], access: [select]}]
"""


@pytest.mark.parametrize(
    ("author", "call", "body", "is_open"),
    [
        ("bob", "f", "(SELECT max(id) FROM spark_catalog.hr.department)", True),
        ("bob", "f", "SELECT max(id) FROM spark_catalog.hr.department", True),
        ("eve", "f", "SELECT max(id) FROM spark_catalog.hr.department", False),
        ("bob", "f", "(SELECT max(id) FROM department)", False),  # of any database
        ("bob", "f", "(SELECT max(id) FROM spark_catalog.hr.employee)", False),
        ("ann", "f", "(SELECT max(id) FROM spark_catalog.hr.employee)", True),
        ("bob", "f", "x * 2", True),
        ("bob", "f", "", True),  # code
        ("bob", "f", None, False),  # nobody knows
        ("bob", "g", "(SELECT max(id) FROM spark_catalog.hr.employee)", False),
        ("ann", "g", "(SELECT max(id) FROM spark_catalog.hr.employee)", True),
        ("bob", "g", "hr.g(x)", True),
        ("bob", "f", "hr.nowhere(x)", False),
        ("bob", "f", "(SELECT max(id) FROM spark_catalog.hr.nowhere)", False),
        ("bob", "f", "input_file_name()", False),
        ("bob", "v", "(SELECT max(id) FROM spark_catalog.hr.employee)", False),
        ("ann", "v", "(SELECT max(id) FROM spark_catalog.hr.employee)", True),
        ("bob", "v", "(SELECT max(id) FROM spark_catalog.hr.department)", True),
    ],
)
async def test_bodies_of_functions_count(
    reader: ReaderPool, author: str, call: str, body: str | None, is_open: bool
) -> None:
    """`g` calls `f`, and so does the view `calling`."""
    text = f"spark_catalog.hr.{call}(id) = 1"
    by_view = "id IN (SELECT v FROM spark_catalog.hr.calling)"
    made = world(author, by_view if call == "v" else text, CALLING)
    view = TableName("spark_catalog", "hr", "calling")
    called = "SELECT spark_catalog.hr.f(1) AS v"
    body_of = ViewBody(text=called, catalog="spark_catalog", database="hr", output=("v",), definer="ann")
    columns = (Column(name="v", type="int"),)
    made.tables[view] = Table(name=view, kind=TableKind.VIEW, columns=columns, view=body_of)
    bodies = {"g": "1 + hr.f(x)"} | ({} if body is None else {"f": body})
    for name, written in bodies.items():
        made.tables[replace(view, table=name, version=FUNCTION)] = function(name, written)
    for verdict in (
        await made.judge(READ, reader, user="bob"),
        await made.judge_plan(execute(table("sales.fit")), reader, user="bob"),
    ):
        assert (why(verdict) == "") if is_open else is_closed(verdict), why(verdict)
        if isinstance(verdict, Cleared) and call != "v":
            assert TableName("spark_catalog", "hr", call, FUNCTION) in verdict.names


@pytest.mark.parametrize(
    ("author", "default", "is_open"),
    [
        ("bob", "hr.g()", False),
        ("ann", "hr.g()", True),
        ("bob", "1", True),
        ("bob", "1 'by DEFAULT of hr.g()'", False),  # nobody knows
    ],
)
async def test_defaults_of_parameters_count(
    reader: ReaderPool, author: str, default: str, is_open: bool
) -> None:
    """Spark takes no subquery for a default, and functions that have one in their body."""
    made = world(author, "spark_catalog.hr.f() = 1", CALLING)
    name = TableName("spark_catalog", "hr", "f", FUNCTION)
    made.tables[name] = function("f", "x", f"Input:  x INT DEFAULT {default}")
    made.tables[replace(name, table="g")] = function("g", "(SELECT max(id) FROM spark_catalog.hr.employee)")
    told = why(await made.judge(READ, reader, user="bob"))
    assert (told == "") if is_open else (CLOSED in told or BEYOND in told), told


METRICS = """
version: 0.1
source: {source}
dimensions:
  - name: id
    expr: id
measures:
  - name: top
    expr: max(id)
"""
MEASURED = """
  - name: they read a metric view, and tables of its names elsewhere
    on: {catalog: spark_catalog, database: [hr, raw], table: [mv, events, department], column: "*"}
    allow: [{users: [bob, eve], access: [select]}]
"""


def measured(author: str, text: str, source: str) -> World:
    made = world(author, text, CALLING + MEASURED)
    name = TableName("spark_catalog", "hr", "mv")
    columns = (Column(name="id", type="int"), Column(name="top", type="int"))
    body = replace(metric_view(METRICS.format(source=source), ["id", "top"], {}), definer="ann")
    made.tables[name] = Table(name=name, kind=TableKind.VIEW, columns=columns, view=body)
    events = TableName("spark_catalog", "raw", "events")
    made.tables[events] = Table(name=events, kind=TableKind.TABLE, columns=columns[:1])
    text = "(SELECT measure(top) FROM spark_catalog.hr.mv)"
    made.tables[replace(name, table="f", version=FUNCTION)] = function("f", text)
    return made


@pytest.mark.parametrize(
    ("source", "is_open"),
    [
        ("spark_catalog.raw.events", True),
        ("SELECT id FROM spark_catalog.raw.events", True),
        ("raw.events", False),
        ("SELECT id FROM spark_catalog.raw.events WHERE id IN (TABLE raw.events)", False),
        ("SELECT hr.peek(id) AS id FROM spark_catalog.raw.events", False),
    ],
)
async def test_a_metric_view_in_a_text_means_the_same_in_each_session(
    reader: ReaderPool, source: str, is_open: bool
) -> None:
    """Spark keeps no database with one: after USE lake, `raw.events` is lake's."""
    text = "id IN (SELECT measure(top) FROM spark_catalog.hr.mv)"
    for author in ("", "bob"):
        made = measured(author or "ann", text, source)
        told = [
            why(await made.judge(READ, reader, user="bob")),
            why(await made.judge_plan(execute(table("sales.fit")), reader, user="bob")),
        ]
        for each in told:
            assert (each == "") if is_open else "without a catalog" in each or CLOSED in each, each
    if not is_open:
        assert "without a catalog" in why(await measured("ann", text, source).judge(READ, reader, user="bob"))


@pytest.mark.parametrize(
    ("author", "source", "is_open"),
    [
        ("bob", "spark_catalog.raw.events", True),
        ("bob", "raw.events", False),
        ("ann", "raw.events", True),
        ("bob", "spark_catalog.hr.employee", False),
    ],
)
async def test_what_a_function_reads_by_a_metric_view_may_be_of_any_catalog(
    reader: ReaderPool, author: str, source: str, is_open: bool
) -> None:
    made = measured(author, "spark_catalog.hr.f() = 1", source)
    told = why(await made.judge(READ, reader, user="bob"))
    assert (told == "") if is_open else (CLOSED in told), told


def function(name: str, body: str, *more: str) -> Table:
    rows = [
        (line,)
        for line in (f"Function: {name}", *more, "Comment: Body: x", f"Body:  {body}" if body else "Class: X")
    ]
    return function_from_rows(rows, TableName("spark_catalog", "hr", name, FUNCTION))


MASK = """
  - name: a mask of a delegate
    author: {author}
    on: {{catalog: spark_catalog, database: sales, table: fit, column: id}}
    mask: [{{users: [lea], type: CUSTOM, show: "(SELECT max(id) FROM spark_catalog.hr.{table})"}}]
  - name: lea reads
    on: {{catalog: spark_catalog, database: sales, table: fit, column: "*"}}
    allow: [{{users: [lea], access: [select]}}]
"""


@pytest.mark.parametrize(
    ("author", "table", "is_open"), [("bob", "department", True), ("bob", "chest", False)]
)
async def test_a_mask_closes_likewise(reader: ReaderPool, author: str, table: str, is_open: bool) -> None:
    made = world("ann", more=MASK.format(author=author, table=table))
    assert TableName("spark_catalog", "sales", "fit") in made.tables
    told = why(await made.judge(READ, reader, user="lea"))
    assert (told == "") if is_open else (CLOSED in told)
