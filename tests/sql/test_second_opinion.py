"""What sqlglot reads in a statement, beside what Spark's parser reads."""

from __future__ import annotations

import contextlib

import pytest

from gateway.algebra.usage import LITERAL_FUNCTIONS, Unclear
from gateway.sql.second_opinion import NamesRead, names_in_text


def read(text: str) -> tuple[str, str, str, str]:
    found = names_in_text(text, LITERAL_FUNCTIONS)
    names = found.relations, found.columns, found.computed, found.stars
    return tuple(" ".join(sorted(map(".".join, one))) for one in names)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("text", "relations", "columns", "computed", "stars"),
    [
        ("SELECT a.x AS n, (y), upper(z), s.f.g FROM h.a", "h.a", "a.x s.f.g y z", "z", ""),
        ("SELECT x FROM a WHERE x = (SELECT max(y) FROM b)", "a b", "x y", "x y", ""),
        ("WITH q AS (SELECT x FROM a) SELECT * FROM q", "a", "x", "", ""),
        ("SELECT t.*, count(*) FROM a t", "a", "", "", "t"),
        ("SELECT transform(arr, v -> v + w) FROM a", "a", "arr w", "arr w", ""),
        ("SELECT current_user FROM a", "a", "current_user", "", ""),
        ("FROM a |> SET x = y |> EXTEND z + 1 AS n |> AS t |> DROP x", "a", "y z", "z", ""),
        ("FROM a |> AGGREGATE max(x) AS m GROUP BY y |> SELECT m", "a", "m x y", "x y", ""),
        ("FROM a |> UNION ALL TABLE b |> WHERE x > 1 |> ORDER BY y", "a b", "x y", "x y", ""),
        ("INSERT INTO d SELECT x FROM a", "a", "x", "", ""),
        ("SELECT x FROM a PIVOT (max(z) FOR y IN (1, 2))", "a", "x y z", "y z", ""),
    ],
)
def test_names(text: str, relations: str, columns: str, computed: str, stars: str) -> None:
    assert read(text) == (relations, columns, computed, stars)


def test_a_second_opinion_is_missing_where_it_has_more() -> None:
    tree = NamesRead(
        frozenset({("t",)}), frozenset({("x",), ("y",)}), frozenset({("y",)}), frozenset({("t",)})
    )
    assert tree.explain_missing(tree) == ""
    assert NamesRead().explain_missing(tree) == ""
    assert NamesRead(relations=frozenset({("h", "b")})).explain_missing(tree) == "`h.b`"
    assert NamesRead(computed=frozenset({("x",)})).explain_missing(tree) == "`x`"
    assert NamesRead(stars=frozenset({()})).explain_missing(tree) == "`*`"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
        "SELECT * FROM " + "(SELECT * FROM " * 4_000 + "a" + ")" * 4_000,
        "SELECT " + "- " * 30_000 + "1",
        "SELECT " + "NOT " * 16_000 + "x FROM a",
        "SELECT 1" + " + 1" * 16_000,
        "SELECT x FROM a WHERE x = 1" + " OR x = 1" * 6_000,
        "SELECT 1" + " UNION ALL SELECT 1" * 3_000,
        "SELECT CAST(x AS " + "ARRAY<" * 8_000 + " FROM a",
        "SELECT " + "DATE(" * 40 + "x" + ")" * 40 + " FROM a",
        "SELECT " + "STRUCT(" * 40 + "x" + " AS f)" * 40 + " FROM a",
        "SELECT " + "INT[" * 40 + "]" * 40,
        "SELECT " + "x -> " * 10_000 + "1",
        "x" * 70_000,
        "\x00\ud800 '",
        "",
    ],
    ids=lambda sql: sql[:12],
)
@pytest.mark.timeout(120)
def test_no_statement_harms_the_second_opinion(sql: str) -> None:
    with contextlib.suppress(Unclear, RecursionError):
        assert names_in_text(sql, LITERAL_FUNCTIONS)
