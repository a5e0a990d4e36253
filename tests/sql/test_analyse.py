"""Column analysis's answers, statement by statement, and its silence."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.model.catalog import Column, TableName
from gateway.model.reading import ColumnRef
from gateway.sql.analyse import ScannedTable, Silent, Usage, analyse
from gateway.sql.analyse_scope import LITERAL_FUNCTIONS

COLUMNS = {
    "a": "i x y z ssn arr s",
    "b": "i k x p q",
    "c": "i w",
}


def table(name: str) -> TableName:
    return TableName("spark_catalog", "hr", name)


def scanned(*written: str) -> list[ScannedTable]:
    return [
        ScannedTable(
            parts=tuple(name.split(".")),
            name=table(name.split(".")[-1].lower()),
            columns=tuple(Column(name=c, type="int") for c in COLUMNS[name.split(".")[-1].lower()].split()),
        )
        for name in written
    ]


def usage(sql: str, *written: str, references: Collection[ColumnRef] | None = None) -> Usage:
    answer = analyse(sql, scanned(*written), references)
    assert isinstance(answer, Usage), answer
    return answer


def columns(found: Usage) -> dict[str, str]:
    return {name.table: " ".join(sorted(used)) for name, used in found.columns.items()}


def computed(found: Usage) -> dict[str, str]:
    return {name.table: " ".join(sorted(used)) for name, used in found.computed.items() if used}


def reason(sql: str, *written: str, references: Collection[ColumnRef] | None = None) -> str:
    answer = analyse(sql, scanned(*written), references)
    assert isinstance(answer, Silent), answer
    return answer.reason


CASES = yaml.safe_load(
    (Path(__file__).parents[1] / "cases" / "column_analysis.yaml").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", CASES, ids=[case["sql"] for case in CASES])
def test_columns(case: dict[str, Any]) -> None:
    found = usage(case["sql"], *case["scans"])
    assert columns(found) == case["uses"]
    assert computed(found) == case.get("computes", {})


def test_a_star_uses_every_column_but_names_none() -> None:
    found = usage("SELECT * FROM a JOIN b ON a.i = b.i", "a", "b")
    assert found.stars == {table("a"), table("b")}
    assert found.columns[table("b")] == {"i", "k", "x", "p", "q"}
    assert found.named[table("b")] == {"i"}
    assert usage("SELECT b.* FROM a JOIN b ON a.i = b.i", "a", "b").stars == {table("b")}


def test_a_star_over_a_subquery_shows_only_what_the_subquery_has() -> None:
    found = usage("SELECT * FROM (SELECT x FROM a)", "a")
    assert found.stars == frozenset()
    assert found.columns[table("a")] == {"x"}


def test_what_an_outer_query_names_of_an_inner_star_is_named() -> None:
    found = usage("SELECT ssn FROM (SELECT * FROM a)", "a")
    assert found.named[table("a")] == {"ssn"}
    assert found.stars == {table("a")}


def test_outputs_say_what_they_pass_on() -> None:
    found = usage("SELECT x AS n, y + 1, t.ssn FROM (SELECT * FROM a) t", "a")
    assert [(c.name, sorted(name for _, name in c.origins)) for c in found.outputs] == [
        ("n", ["x"]),
        (None, []),
        ("ssn", ["ssn"]),
    ]


@pytest.mark.parametrize(
    ("sql", "written", "why"),
    [
        ("SELECT x FROM a |> WHERE y > 1", "a", "is not in any relation"),
        ("FROM a |> WINDOW w AS (ORDER BY x) |> SELECT y", "a", "the pipe operator WINDOW"),
        ("FROM a |> SELECT x |> WHERE a.y > 1", "a", "is not in any relation"),
        ("FROM a |> LATERAL VIEW explode(arr) q AS e |> SELECT e", "a", "the pipe operator LATERAL"),
        ("FROM a |> SELECT x |> UNION ALL TABLE b", "a b", "cannot be matched"),
        ("SHOW TABLES", "", "does not support"),
        ("SELECT FROM WHERE", "a", "cannot parse"),
        ("SELECT 1; SELECT 2", "", "2 statements"),
        ("SELECT nothing FROM a", "a", "is not in any relation"),
        ("SELECT x FROM a JOIN b ON a.i = b.i", "a b", "in 2 relations"),
        ("SELECT x FROM a", "a b", "readers disagree: only Spark sees `b`"),
        ("SELECT x FROM a, b", "a", "readers disagree: only column analysis sees `b`"),
        ("WITH b AS (SELECT 1) SELECT * FROM b, a", "a b", "readers disagree: only Spark sees `b`"),
        (
            "SELECT n FROM (SELECT x AS n, 1 FROM a UNION ALL SELECT * FROM range(3))",
            "a",
            "cannot be matched",
        ),
        ("SELECT n FROM a t(n)", "a", "7 columns, not 1"),
        ("SELECT (SELECT z FROM range(3)) FROM a", "a", "may belong to a relation of unknown columns"),
        ("MERGE INTO d USING a ON d.i = a.i WHEN MATCHED THEN DELETE", "a", "does not support"),
    ],
)
def test_it_keeps_silent_where_it_is_not_sure(sql: str, written: str, why: str) -> None:
    assert why in reason(sql, *written.split())


def ref(*parts: str, star: bool = False) -> ColumnRef:
    return ColumnRef(parts=parts, span=None, star=star)


def test_a_reference_that_only_spark_sees_silences_it() -> None:
    assert "only Spark sees the columns `ssn`" in reason(
        "SELECT x FROM a", "a", references=[ref("x"), ref("SSN")]
    )
    assert "only Spark sees the stars `*`" in reason("SELECT x FROM a", "a", references=[ref(star=True)])
    assert usage("SELECT A.x, * FROM a", "a", references=[ref("a", "X"), ref(star=True)])


@pytest.mark.parametrize("word", sorted(LITERAL_FUNCTIONS))
def test_a_column_comes_before_a_function_of_its_name(word: str) -> None:
    for text in (
        f"SELECT x AS {word} FROM a |> SELECT {word}",
        f"SELECT {word} FROM (SELECT x AS {word}, y FROM a)",
        f"WITH c AS (SELECT x AS {word} FROM a) SELECT {word} FROM c",
    ):
        found = columns(usage(text, "a", references=[ref("x"), ref(word)]))
        assert found == {"a": "x y" if ", y" in text else "x"}
        assert computed(usage(text, "a", references=[ref("x"), ref(word)])) == {}, "it is only passed on"
    counted = usage(f"SELECT upper({word}) FROM (SELECT x AS {word}, y FROM a)", "a", references=[ref(word)])
    assert computed(counted) == {"a": "x"}
    assert columns(usage(f"SELECT y, {word} FROM a", "a", references=[ref("y"), ref(word)])) == {"a": "y"}
    its = (Column(name=word, type="string"), Column(name="z", type="string"))
    scan = ScannedTable(parts=("t",), name=table("t"), columns=its)
    answer = analyse(f"SELECT {word} FROM t WHERE {word} > 1", [scan], references=[ref(word)])
    assert isinstance(answer, Usage), answer
    assert columns(answer) == {"t": word}


def test_functions_without_brackets_are_references_to_spark() -> None:
    assert usage("SELECT current_date, x FROM a", "a", references=[ref("current_date"), ref("x")])


def test_a_temporary_view_is_a_relation_of_unknown_columns() -> None:
    view = ScannedTable(parts=("v",), name=None)
    answer = analyse("SELECT q, v.r, a.x FROM v JOIN a ON v.i = a.i", [view, *scanned("a")])
    assert isinstance(answer, Usage), answer
    assert columns(answer) == {"a": "i x"}


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
def test_no_statement_harms_it(sql: str) -> None:
    assert isinstance(analyse(sql, []), (Usage, Silent))
