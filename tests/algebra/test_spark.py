"""Spark's parse of a text as relations and expressions."""

from __future__ import annotations

import pytest

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Aliases,
    Expression,
    Filter,
    Generate,
    InlineTable,
    Join,
    JoinKind,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Projection,
    QueryKind,
    RelationNode,
    Star,
    Subquery,
    SubqueryAlias,
    TableFunction,
    WindowCall,
)
from gateway.algebra.spark import lower_relation
from gateway.algebra.walking import nodes_of, words_in_lambdas
from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def relation_of(reader: ReaderPool, text: str) -> RelationNode:
    reading = await reader.read(text)
    assert isinstance(reading, Reading)
    assert reading.tree is not None
    return lower_relation(reading.tree)


async def item_of(reader: ReaderPool, item: str) -> Expression:
    found = await relation_of(reader, f"SELECT {item} FROM a")
    assert isinstance(found, Projection)
    return found.items[0]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("JOIN", JoinKind.INNER),
        ("LEFT JOIN", JoinKind.LEFT_OUTER),
        ("RIGHT JOIN", JoinKind.RIGHT_OUTER),
        ("FULL JOIN", JoinKind.FULL_OUTER),
    ],
)
async def test_joins(reader: ReaderPool, written: str, kind: JoinKind) -> None:
    async def joined(text: str) -> tuple[JoinKind, tuple[str, ...], bool, int]:
        found = await relation_of(reader, f"SELECT * FROM {text}")
        assert isinstance(found, Projection)
        assert isinstance(found.input, Join)
        return found.input.kind, found.input.using, found.input.natural, len(found.input.conditions)

    assert await joined(f"a {written} b USING (i, X)") == (kind, ("i", "X"), False, 0)
    assert await joined(f"a NATURAL {written} b") == (kind, (), True, 0)
    assert await joined(f"a {written} b ON a.x = b.y AND a.z > 1") == (kind, (), False, 2)


async def test_a_generator_has_its_name_and_those_of_its_columns(reader: ReaderPool) -> None:
    found = await relation_of(reader, "SELECT * FROM a LATERAL VIEW explode(arr) T AS c")
    assert isinstance(found, Projection)
    assert isinstance(found.input, Generate)
    assert isinstance(found.input.generator, NamedCall)
    assert found.input.generator.parts == ("explode",)
    assert (found.input.alias, found.input.names) == ("t", ("c",))


async def test_a_place_in_the_list_is_a_number(reader: ReaderPool) -> None:
    found = await relation_of(reader, "SELECT x, count(*) FROM a GROUP BY 1 ORDER BY 2")
    assert isinstance(found, Pass)
    assert found.expressions == (Literal("int", "2"),)
    assert isinstance(found.input, Aggregate)
    assert found.input.keys == (Literal("int", "1"),)


@pytest.mark.parametrize(
    ("item", "name", "operands"),
    [
        ("any_value(x) FILTER (WHERE y)", "any_value", 2),
        ("first(x) IGNORE NULLS", "first", 1),
        ("x IS NULL", "isnull", 1),
        ("isnull(x)", "isnull", 1),
        ("trim(BOTH 'a' FROM x)", "trim", 2),
        ("coalesce(x, y)", "coalesce", 2),
    ],
)
async def test_syntax_with_a_function_is_that_function(
    reader: ReaderPool, item: str, name: str, operands: int
) -> None:
    found = await item_of(reader, item)
    assert isinstance(found, NamedCall)
    assert (found.parts[-1].lower(), len(found.operands)) == (name, operands)


async def test_windows(reader: ReaderPool) -> None:
    over = "PARTITION BY y ORDER BY z DESC ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"
    found = await item_of(reader, f"sum(x) OVER ({over})")
    assert isinstance(found, WindowCall)
    assert isinstance(found.function, NamedCall)
    assert (len(found.keys), len(found.bounds)) == (2, 1)
    named = await relation_of(reader, "SELECT sum(x) OVER W FROM a WINDOW w AS (ORDER BY x)")
    assert named == await relation_of(reader, "SELECT sum(x) OVER (ORDER BY x) FROM a")


async def test_queries_within(reader: ReaderPool) -> None:
    where = "x NOT IN (SELECT y FROM b) AND EXISTS (SELECT 1) AND y > (SELECT max(z) FROM b)"
    found = await relation_of(reader, f"SELECT * FROM a WHERE {where}")
    assert isinstance(found, Projection)
    assert isinstance(found.input, Filter)
    kinds = [one.kind for one in nodes_of(found) if isinstance(one, Subquery)]
    assert sorted(kinds, key=str) == [QueryKind.EXISTS, QueryKind.IN, QueryKind.SCALAR]
    assert len(found.input.conditions) == 3
    assert isinstance(found.input.conditions[0], Operator)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT TRANSFORM(x) USING 'cat' FROM a",
        "INSERT INTO a SELECT * FROM b",
    ],
)
async def test_relations_that_are_not_known(reader: ReaderPool, text: str) -> None:
    assert any(isinstance(node, OpaqueRelation) for node in nodes_of(await relation_of(reader, text)))


@pytest.mark.parametrize("item", ["x < :y", "x IS UNKNOWN"])
async def test_expressions_that_are_not_known(reader: ReaderPool, item: str) -> None:
    found = await relation_of(reader, f"SELECT {item} FROM a")
    assert any(isinstance(node, OpaqueExpression) for node in nodes_of(found))


async def test_what_is_read_beside_tables(reader: ReaderPool) -> None:
    async def read(text: str) -> RelationNode:
        found = await relation_of(reader, f"SELECT * FROM {text}")
        assert isinstance(found, Projection)
        return found.input

    values = await read("VALUES (1, x) AS v(k, l)")
    assert isinstance(values, SubqueryAlias)
    assert isinstance(values.input, InlineTable)
    assert values.input.names == ("k", "l")
    called = await read("range(5)")
    assert isinstance(called, TableFunction)
    assert called.parts == ("range",)
    version = await read("a VERSION AS OF 3")
    assert isinstance(version, Pass)
    assert version.why is Passing.VERSION
    joined = await read("a LEFT JOIN LATERAL (SELECT x) t ON t.x = y")
    assert isinstance(joined, Join)
    assert (joined.lateral, joined.kind, len(joined.conditions)) == (True, JoinKind.LEFT_OUTER, 1)


async def test_functions_of_variables_and_names_of_generators(reader: ReaderPool) -> None:
    found = await item_of(reader, "transform(arr, (v, i) -> v + x)")
    assert isinstance(found, NamedCall)
    assert isinstance(found.operands[1], Lambda)
    assert found.operands[1].variables == ("v", "i")
    assert await item_of(reader, "explode(arr) AS (k, v)") == Aliases(
        ("k", "v"), NamedCall(("explode",), (NamedColumn(("arr",)),))
    )


async def test_stars(reader: ReaderPool) -> None:
    assert await item_of(reader, "t.*") == Star(("t",))
    star = await item_of(reader, "* EXCEPT (X, t.y)")
    assert star == Star((), (("x",), ("t", "y")))
    assert isinstance(star, Star)
    assert not star.implied
    made = await relation_of(reader, "FROM a |> EXTEND x + 1 AS n")
    assert isinstance(made, Projection)
    assert isinstance(made.items[0], Star)
    assert made.items[0].implied
    put = await relation_of(reader, "FROM a |> SET x = y")
    assert isinstance(put, Projection)
    assert put.items[0] == Star((), (("x",),), (Alias("x", NamedColumn(("y",))),), implied=True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT transform(arr, v -> v + x), y FROM a", "x"),
        ("SELECT transform(arr, V -> filter(v.f, w -> w > v.g + z AND x.w > 1)) FROM a", "x z"),
        ("SELECT transform(arr, v -> v), transform(b, w -> v) FROM a", "v"),
        ("SELECT (SELECT max(transform(arr, v -> q)) FROM b) FROM a WHERE exists(c, e -> e = p)", "p q"),
        ("UPDATE a SET x = transform(arr, v -> v + y) WHERE exists(arr, e -> e = z)", "y z"),
        ("MERGE INTO a USING b ON a.i = b.i WHEN MATCHED THEN UPDATE SET x = filter(b.c, v -> v = w)", "w"),
        ("DELETE FROM a WHERE exists(arr, e -> e = z)", "z"),
    ],
)
async def test_words_within_lambda_functions(reader: ReaderPool, text: str, words: str) -> None:
    assert " ".join(sorted(words_in_lambdas(await relation_of(reader, text)))) == words
