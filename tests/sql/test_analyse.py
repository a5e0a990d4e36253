"""Column analysis's answers, statement by statement, and its silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.algebra.usage import LITERAL_FUNCTIONS
from gateway.model.catalog import Column, TableName
from gateway.model.reading import Reading, RelationRole
from gateway.reader.pool import ReaderPool
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.sql.second_opinion import NamesRead

pytestmark = pytest.mark.asyncio(loop_scope="session")

COLUMNS = {
    "a": "i x y z ssn arr s",
    "b": "i k x p q",
    "c": "i w",
}

STRUCT = "struct<f:int,g:struct<h:int>,k:int>"
"""What columns called `s` are."""


def table(name: str) -> TableName:
    return TableName("spark_catalog", "hr", name)


async def answer(reader: ReaderPool, sql: str, columns: dict[str, str] | None = None) -> Usage | Silent:
    """Return what is said of a statement; of a relation without columns nothing is known."""
    reading = await reader.read(sql)
    assert isinstance(reading, Reading), reading
    known = COLUMNS if columns is None else columns
    scans = []
    for relation in reading.relations:
        if relation.role is RelationRole.SCAN:
            name = relation.parts[-1].lower()
            its = tuple(
                Column(name=c, type=STRUCT if c == "s" else "int") for c in known.get(name, "").split()
            )
            scans.append(
                ScannedTable(
                    parts=relation.parts,
                    name=table(name) if its else None,
                    columns=its,
                    span=relation.span,
                )
            )
    return analyse(sql, reading, scans)


async def usage(reader: ReaderPool, sql: str, columns: dict[str, str] | None = None) -> Usage:
    found = await answer(reader, sql, columns)
    assert isinstance(found, Usage), found
    return found


async def reason(reader: ReaderPool, sql: str) -> str:
    found = await answer(reader, sql)
    assert isinstance(found, Silent), found
    return found.reason


def columns(found: Usage) -> dict[str, str]:
    return {name.table: " ".join(sorted(used)) for name, used in found.columns.items()}


def computed(found: Usage) -> dict[str, str]:
    return {name.table: " ".join(sorted(used)) for name, used in found.computed.items() if used}


CASES = yaml.safe_load(
    (Path(__file__).parents[1] / "cases" / "column_analysis.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=[case["sql"] for case in CASES])
async def test_columns(reader: ReaderPool, case: dict[str, Any]) -> None:
    if isinstance(await reader.read(case["sql"]), Reading):  # an older Spark lacks some of them
        found = await usage(reader, case["sql"])
        assert columns(found) == case["uses"]
        assert computed(found) == case.get("computes", {})


@pytest.mark.parametrize(
    ("sql", "compared"),
    [
        ("SELECT x FROM a WHERE i > 3 AND upper(ssn) = 'B'", "i ssn"),
        ("SELECT i + 1, count(*) FROM a GROUP BY i ORDER BY i", ""),
        ("SELECT i FROM a GROUP BY i HAVING i > 3", ""),
        ("SELECT * FROM a JOIN b ON a.x = b.x AND a.i = 7", "i x"),
        ("SELECT * FROM (SELECT i AS j, x FROM a) WHERE j = 1", "i"),
        ("WITH c AS (SELECT * FROM a) SELECT x FROM c WHERE i BETWEEN 1 AND 2", "i"),
        ("SELECT * FROM a WHERE i IN (SELECT k FROM b GROUP BY k)", "i"),
        ("SELECT * FROM b WHERE k IN (SELECT i FROM a GROUP BY i, x)", ""),
        ("SELECT * FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.i = b.i)", "i"),
        ("SELECT CASE WHEN i > 3 THEN 1 END FROM a", ""),
        ("SELECT i FROM a UNION SELECT i FROM b", ""),
    ],
)
async def test_columns_of_conditions_are_told_from_others_that_are_computed_with(
    reader: ReaderPool, sql: str, compared: str
) -> None:
    found = await usage(reader, sql)
    assert " ".join(sorted(found.conditions[table("a")])) == compared


async def test_a_star_uses_every_column_but_names_none(reader: ReaderPool) -> None:
    found = await usage(reader, "SELECT * FROM a JOIN b ON a.i = b.i")
    assert found.stars == {table("a"), table("b")}
    assert found.columns[table("b")] == {"i", "k", "x", "p", "q"}
    assert found.named[table("b")] == {"i"}
    assert (await usage(reader, "SELECT b.* FROM a JOIN b ON a.i = b.i")).stars == {table("b")}


async def test_a_star_over_a_subquery_shows_only_what_the_subquery_has(reader: ReaderPool) -> None:
    found = await usage(reader, "SELECT * FROM (SELECT x FROM a)")
    assert found.stars == frozenset()
    assert found.columns[table("a")] == {"x"}


async def test_what_an_outer_query_names_of_an_inner_star_is_named(reader: ReaderPool) -> None:
    found = await usage(reader, "SELECT ssn FROM (SELECT * FROM a)")
    assert found.named[table("a")] == {"ssn"}
    assert found.stars == {table("a")}


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT nothing FROM a", "is not in any relation"),
        ("SHOW TABLES", "does not support COMMAND"),
        ("FROM a |> SELECT x |> UNION ALL TABLE b", "cannot be matched"),
        ("SELECT n FROM (SELECT x AS n, 1 FROM a UNION ALL SELECT * FROM range(3))", "cannot be matched"),
        ("SELECT n FROM a t(n)", "1 names for 7 columns"),
        ("SELECT `x.*` FROM a", "is not in any relation"),
        ("MERGE INTO d USING a ON d.i = a.i WHEN MATCHED THEN DELETE", "does not support MERGE"),
        ("SELECT x FROM a VERSION AS OF 1, tf(TABLE(b))", "readers disagree: only sqlglot sees `b`"),
    ],
)
async def test_it_keeps_silent_where_it_is_not_sure(reader: ReaderPool, sql: str, why: str) -> None:
    assert why in await reason(reader, sql)


@pytest.mark.parametrize("word", sorted(LITERAL_FUNCTIONS))
async def test_a_column_comes_before_a_function_of_its_name(reader: ReaderPool, word: str) -> None:
    for text in (
        f"SELECT {word} FROM (SELECT x AS {word}, y FROM a)",
        f"WITH c AS (SELECT x AS {word} FROM a) SELECT {word} FROM c",
    ):
        found = await usage(reader, text)
        assert columns(found) == {"a": "x y" if ", y" in text else "x"}
        assert computed(found) == {}, "it is only passed on"
    reading = await reader.read(f"SELECT {word}")
    assert isinstance(reading, Reading)
    is_column = bool(reading.columns)  # some are functions in Spark's grammar
    counted = await usage(reader, f"SELECT upper({word}) FROM (SELECT x AS {word}, y FROM a)")
    assert computed(counted) == ({"a": "x"} if is_column else {})
    assert columns(await usage(reader, f"SELECT y, {word} FROM a")) == {"a": "y"}
    found = await usage(reader, f"SELECT {word} FROM t WHERE {word} > 1", {"t": f"{word} z"})
    assert columns(found) == {"t": word if is_column else ""}


async def test_a_temporary_view_is_a_relation_of_unknown_columns(reader: ReaderPool) -> None:
    found = await usage(reader, "SELECT q, v.r, a.x FROM v JOIN a ON v.i = a.i")
    assert columns(found) == {"a": "i x"}


async def test_what_sqlglot_alone_sees_silences_it(
    reader: ReaderPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    saw = NamesRead(columns=frozenset({("ssn",)}))
    monkeypatch.setattr("gateway.sql.analyse.names_in_text", lambda *_: saw)
    assert await reason(reader, "SELECT x FROM a") == "readers disagree: only sqlglot sees `ssn`"
    found = await answer(reader, "SELECT ssn FROM a")
    assert isinstance(found, Usage)
