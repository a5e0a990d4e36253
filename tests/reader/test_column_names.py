"""What the parser calls columns without an alias; `make minors` runs this with each minor. Against a running
Spark of the newest: tests/e2e/test_lineage_spark.py."""

from __future__ import annotations

import pytest

from gateway.model.reading import ExtractedValue, UnnamedColumn
from gateway.model.spark_minors import Minor, minor_of
from gateway.reader.pool import ReaderPool

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def named(reader: ReaderPool, text: str, *, expression: bool = False) -> list[UnnamedColumn]:
    found = await reader.column_names(text, expression=expression)
    assert isinstance(found, tuple)
    return list(found)


def shown(column: UnnamedColumn) -> str:
    """Return a name with its references as they are written."""
    found = ""
    for piece in column.pieces:
        match piece:
            case str():
                found += piece
            case ExtractedValue():
                found += f"⟨{'.'.join(piece.parts)}⟩⟨{piece.key}⟩"
            case _:
                found += f"⟨{'.'.join(piece)}⟩"
    return found


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("max(p.ssn)", "max(⟨p.ssn⟩)"),
        ("concat(e.ssn, '-', `n a`)", "concat(⟨e.ssn⟩, -, ⟨n a⟩)"),
        ("COUNT(*)", "count(1)"),
        ("count(DISTINCT a, b)", "count(DISTINCT ⟨a⟩, ⟨b⟩)"),
        ("a || 'x'", "concat(⟨a⟩, x)"),
        ("cast(a AS date)", "CAST(⟨a⟩ AS DATE)"),
        ("cast(a * 2 AS date)", "CAST((⟨a⟩ * 2) AS DATE)"),
        ("mean(a)", "mean(⟨a⟩)"),
        ("a <> 'x' AND NOT b", "((NOT (⟨a⟩ = x)) AND (NOT ⟨b⟩))"),
        ("sum(a) FILTER (WHERE b > 1)", "sum(⟨a⟩) FILTER (WHERE (⟨b⟩ > 1))"),
        ("lag(a) OVER (ORDER BY b)", "lag(⟨a⟩, 1, NULL) OVER (ORDER BY ⟨b⟩ ASC NULLS FIRST ROWS BETWEEN -1 "
         "FOLLOWING AND -1 FOLLOWING)"),
        ("transform(a, x -> x * b)", "transform(⟨a⟩, lambdafunction((namedlambdavariable() * ⟨b⟩), "
         "namedlambdavariable()))"),
        ("named_struct('k', a).k", "named_struct(k, ⟨a⟩).k"),
        ("a[0]", "⟨a⟩[0]"),
        ("a['K']", "⟨a⟩⟨K⟩"),
        ("lower(p.a['k'])", "lower(⟨p.a⟩⟨k⟩)"),
        ("DATE '2020-01-01'", "DATE '2020-01-01'"),
        ("((a * 2))", "(⟨a⟩ * 2)"),
    ],
)  # fmt: skip
async def test_an_item_has_sparks_name(reader: ReaderPool, item: str, name: str) -> None:
    text = f"SELECT b AS c, {item}, d FROM t"
    (column,) = await named(reader, text)
    assert shown(column) == name
    assert column.span.of(text) == item
    assert not column.plain
    (alone,) = await named(reader, item, expression=True)
    assert shown(alone) == name


async def test_a_name_is_this_sparks(reader: ReaderPool) -> None:
    (column,) = await named(reader, "SELECT a BETWEEN 1 AND 2 FROM t")
    newer = minor_of(reader.spark_version) >= Minor(4, 0)
    assert shown(column) == ("between(⟨a⟩, 1, 2)" if newer else "((⟨a⟩ >= 1) AND (⟨a⟩ <= 2))")


@pytest.mark.parametrize("item", ["a + 1", "1 - a", "max(a) + b", "transform(a, x -> x + 1)"])
async def test_a_sum_has_its_name_with_numbers_only(reader: ReaderPool, item: str) -> None:
    (column,) = await named(reader, f"SELECT {item} FROM t")
    assert column.plain


@pytest.mark.parametrize("item", ["count(*) + 1", "length(a) - 1", "year(a) - year(b)", "1 + 1"])
async def test_a_sum_of_what_are_numbers_anyway_has_its_name(reader: ReaderPool, item: str) -> None:
    (column,) = await named(reader, f"SELECT {item} FROM t")
    assert not column.plain


@pytest.mark.parametrize(
    "item",
    [
        "a",
        "t.a",
        "*",
        "t.*",
        "a AS b",
        "explode(a)",
        "stack(2, 1, 2)",
        "nobody(a)",
        "db.f(a)",
        "(SELECT 1 AS one)",
        "a IN (SELECT b FROM u)",
        "array(a)[0]['k']",
        "transform(a, x -> x.k)",
        "window(a, '1 day')",
        "reflect('java.lang.Math', 'abs', 1)",
        "upper(reflect('java.lang.Math', 'abs', 1))",
        "from_json(a, repeat('a', 2000000000))",
        "concat(a, space(2000000000))",
        "sum(a) OVER nowhere",
    ],
)
async def test_what_has_no_name_here(reader: ReaderPool, item: str) -> None:
    assert await named(reader, f"SELECT {item} FROM t") == []


async def test_every_list_of_a_text_is_named_where_it_stands(reader: ReaderPool) -> None:
    text = (
        "WITH c AS (SELECT 'ß😀' AS k, upper(a) FROM t) SELECT sum(x) OVER w, (SELECT lower(b) FROM u) FROM c"
        " WINDOW w AS (PARTITION BY y) UNION ALL SELECT 1, (a * 2) FROM v"
    )
    found = {column.span.of(text): shown(column) for column in await named(reader, text)}
    assert found == {
        "upper(a)": "upper(⟨a⟩)",
        "sum(x) OVER w": "sum(⟨x⟩) OVER (PARTITION BY ⟨y⟩ ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED"
        " FOLLOWING)",
        "lower(b)": "lower(⟨b⟩)",
        "1": "1",
        "(a * 2)": "(⟨a⟩ * 2)",
    }


async def test_a_text_with_our_own_signs_has_no_names(reader: ReaderPool) -> None:
    assert await named(reader, "SELECT upper('\ue0000\ue001'), max(a) FROM t") == []


async def test_a_very_long_list_is_named_as_far_as_time_goes(reader: ReaderPool) -> None:
    items = ", ".join(f"concat(a{i}, '-', b{i})" for i in range(3000))
    found = await named(reader, f"SELECT {items} FROM t")
    assert 0 < len(found) <= 1000
    assert shown(found[0]) == "concat(⟨a0⟩, -, ⟨b0⟩)"
