"""Lineage goes through the bodies of SQL functions: from what they read and are given to what they give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from gateway.catalog.describe import function_from_rows
from gateway.lineage.following import gather
from gateway.lineage.gathering import GatheredLineage, Gatherer
from gateway.lineage.recorded import RecordedStatement, pack, pack_facts, read_dependencies
from gateway.model.catalog import FUNCTION, CatalogSnapshot, Table, TableName
from gateway.model.definers import definer_mark
from gateway.model.lineage import EdgeType, StatementLineage
from gateway.model.statement import SessionContext
from gateway.reader.pool import ReaderPool
from tests.lineage_world import tables

pytestmark = pytest.mark.asyncio(loop_scope="session")


def function(name: str, body: str, *, inputs: str = "p INT", rows: bool = False) -> Table:
    told = [
        (f"Function:      spark_catalog.ln.{name}",),
        (f"Type:          {'TABLE' if rows else 'SCALAR'}",),
        (f"Input:         {inputs}",),
        ("Returns:       a INT" if rows else "Returns:       INT",),
        (f"Comment:       {definer_mark(body, 'ann')}",),
        (f"Body:          {body}",),
    ]
    return function_from_rows(told, TableName("spark_catalog", "ln", name, FUNCTION))


FUNCTIONS = (
    function("oldest", "SELECT max(age) FROM `spark_catalog`.`ln`.`e1` WHERE id > p"),
    function("plus", "p + 1"),
    function("older", "`ln`.`oldest`(p) + `ln`.`plus`(p)"),
    function("rows", "SELECT age FROM `spark_catalog`.`ln`.`e1` WHERE boss = p", rows=True),
    function("again", "`ln`.`again`(p)"),
)


RECORDED = {"tables": pack(FUNCTIONS, {}), "facts": pack_facts(FUNCTIONS)}


async def lineage(reader: ReaderPool, text: str) -> StatementLineage:
    # As the record of a statement has them.
    functions = read_dependencies(RECORDED)
    assert list(functions.values()) == list(FUNCTIONS)
    known = {**{name.fold(): table for name, table in tables().items()}, **functions}

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        missing = frozenset(name.fold() for name in names) - known.keys()
        return CatalogSnapshot(
            version=1, catalogs=frozenset({"spark_catalog"}), tables=known, missing=missing
        )

    gatherer = Gatherer(reader=reader, look_up=look_up, catalogs=frozenset({"spark_catalog"}))
    found = await gatherer.gather(text, SessionContext(namespace=("ln",)), {}, {})
    assert isinstance(found, GatheredLineage)
    told = found.lineage()
    assert told is not None
    assert not told.table_level
    return told


def told(found: StatementLineage, kind: EdgeType) -> set[tuple[str, str]]:
    return {
        (source.column.column.lower(), target.column.lower())
        for edge in found.edges
        for source in edge.sources
        for target in edge.targets
        if edge.type is kind
    }


@pytest.mark.parametrize(
    ("text", "projected", "compared"),
    [
        ("SELECT plus(id) AS x FROM e1", {("id", "x")}, set()),
        ("SELECT oldest(boss) AS x FROM e1", {("age", "x")}, {("id", "x"), ("boss", "x")}),
        (
            "SELECT older(boss) AS x, dept AS d FROM e1",
            {("age", "x"), ("boss", "x"), ("dept", "d")},
            {("id", "x"), ("boss", "x")},
        ),
        ("SELECT t.a FROM ln.rows(3) AS t", {("age", "a")}, {("boss", "a")}),
        ("SELECT t.b FROM rows(3) AS t(b)", {("age", "b")}, {("boss", "b")}),
        ("SELECT b FROM (SELECT spark_catalog.ln.plus(id) AS b FROM e1)", {("id", "b")}, set()),
    ],
)
async def test_what_a_call_gives_comes_of_its_body(
    reader: ReaderPool, text: str, projected: set[tuple[str, str]], compared: set[tuple[str, str]]
) -> None:
    found = await lineage(reader, text)
    assert told(found, EdgeType.PROJECTION) == projected
    assert told(found, EdgeType.PREDICATE) >= compared
    assert {source.parts[-1] for source in found.inputs} == {"e1"}


async def test_a_column_that_is_a_call_is_called_as_spark_calls_it(reader: ReaderPool) -> None:
    found = await lineage(reader, "SELECT plus(id) FROM e1")
    assert told(found, EdgeType.PROJECTION) == {("id", "spark_catalog.ln.plus(id)")}


@pytest.mark.parametrize("call", ["again(id)", "nowhere(id)", "plus(id, id)", "plus(DISTINCT id)"])
async def test_what_cannot_be_written_out_is_as_it_was(reader: ReaderPool, call: str) -> None:
    found = await lineage(reader, f"SELECT {call} AS x FROM e1")
    assert ("id", "x") in told(found, EdgeType.PROJECTION)


@pytest.mark.parametrize(
    ("made", "text", "projected", "compared"),
    [
        (
            "CREATE TEMPORARY FUNCTION own(n INT) RETURNS INT RETURN SELECT max(age) FROM e1 WHERE id > n",
            "SELECT Own(k) AS x FROM b",
            {("age", "x")},
            {("id", "x"), ("k", "x")},
        ),
        (
            "CREATE OR REPLACE TEMP FUNCTION own(n INT) RETURNS TABLE (a INT) RETURN SELECT age FROM e1",
            "SELECT t.b FROM own(3) AS t(b)",
            {("age", "b")},
            set(),
        ),
        (
            "CREATE TEMPORARY FUNCTION own() RETURNS INT RETURN SELECT max(age) FROM e1",
            "SELECT own()",
            {("age", "own()")},
            set(),
        ),
        # A function of a database of the name is not meant.
        (
            "CREATE TEMPORARY FUNCTION plus(n INT) RETURNS INT RETURN SELECT max(age) FROM e1",
            "SELECT plus(k) AS x FROM b",
            {("age", "x")},
            set(),
        ),
    ],
)
async def test_lineage_goes_through_functions_of_the_session(
    reader: ReaderPool, made: str, text: str, projected: set[tuple[str, str]], compared: set[tuple[str, str]]
) -> None:
    """The record names the statement that made the function; names in its body are those of there."""
    known = {**{name.fold(): table for name, table in tables().items()}, **read_dependencies(RECORDED)}

    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        raise AssertionError("the record says what names stood for")

    def recorded(text: str, namespace: str, names: Iterable[str]) -> RecordedStatement:
        return RecordedStatement(
            statement_id=uuid4(),
            time=datetime.now(UTC),
            user="ann",
            text=text,
            session_id="",
            outcome="finished",
            context=SessionContext(namespace=(namespace,)),
            tables={name: table for name, table in known.items() if name.table in names},
        )

    maker = recorded(made, "ln", {"e1"})
    asked = recorded(text.replace("FROM b", "FROM ln.b"), "elsewhere", {"b", "plus"})
    name = "plus" if "plus" in made else "own"
    gatherer = Gatherer(reader=reader, look_up=look_up, catalogs=frozenset({"spark_catalog"}))
    found = await gather(gatherer, asked, {}, {}, {name: maker})
    assert isinstance(found, GatheredLineage)
    lineage = found.lineage()
    assert lineage is not None
    assert told(lineage, EdgeType.PROJECTION) == projected
    assert told(lineage, EdgeType.PREDICATE) >= compared
