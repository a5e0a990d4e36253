"""Spark's parser, asked through the pool, says what each statement mentions and where it is written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.model.reading import (
    ColumnRef,
    FunctionRef,
    NotParsed,
    Reading,
    Relation,
    RelationForm,
    RelationRole,
    Span,
)
from gateway.reader.pool import ReaderPool
from tests.readers import is_older, lacks, require

pytestmark = pytest.mark.asyncio(loop_scope="session")

CASES = Path(__file__).resolve().parent.parent / "cases" / "reader"


def cases(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = yaml.safe_load((CASES / name).read_text(encoding="utf-8"))
    return loaded


async def reading(reader: ReaderPool, text: str) -> Reading:
    answer = await reader.read(text)
    assert isinstance(answer, Reading), answer
    return answer


def told(relation: Relation) -> str:
    words = [relation.role.value, ".".join(relation.parts)]
    if relation.holder:
        words.append(f"@{relation.holder}")
    if relation.span is None:
        words.append("unwritten")
    return " ".join(words)


@pytest.mark.parametrize("case", cases("relations.yaml"), ids=lambda case: case["text"])
async def test_relations(reader: ReaderPool, case: dict[str, Any]) -> None:
    if await lacks(reader, case["text"], case.get("since"), case.get("older")):
        return
    text = case["text"]
    answer = await reading(reader, text)
    if "relations" in case:
        assert sorted(map(told, answer.relations)) == sorted(case["relations"])
    assert set(case.get("nodes", ())) <= answer.nodes
    for relation in answer.relations:
        if relation.span is not None:
            written = relation.span.of(answer.written or text).replace("`", "").replace(" ", "")
            assert written == ".".join(relation.parts)
        assert (relation.whole is not None) <= (relation.role is not RelationRole.TARGET)


@pytest.mark.parametrize("case", cases("forms.yaml"), ids=lambda case: case["text"])
async def test_forms(reader: ReaderPool, case: dict[str, Any]) -> None:
    if await lacks(reader, case["text"], case.get("since"), case.get("older")):
        return
    answer = await reading(reader, case["text"])
    scans = [one for one in answer.relations if one.role is RelationRole.SCAN and one.span]
    scans.sort(key=lambda one: one.span.start if one.span else 0)
    assert [one.form.value for one in scans] == case["forms"].split()


async def test_spans_of_a_scan_with_every_clause(reader: ReaderPool) -> None:
    text = "SELECT 1 FROM db.t VERSION AS OF 1 WITH (a = 1) TABLESAMPLE (1 PERCENT) REPEATABLE (2) AS x(c), u"
    await require(reader, text, "4.0")
    relation = (await reading(reader, text)).relations[0]
    assert relation.form is RelationForm.ALIASED
    parts = (relation.span, relation.suffix, relation.sample, relation.alias, relation.whole)
    assert [one.of(text) for one in parts if one] == [
        "db.t",
        "VERSION AS OF 1 WITH (a = 1)",
        "TABLESAMPLE (1 PERCENT) REPEATABLE (2)",
        "x(c)",
        text[14:-3],
    ]


async def test_whole_of_the_table_keyword_starts_at_the_keyword(reader: ReaderPool) -> None:
    text = "SELECT * FROM u WHERE a IN (TABLE db.t)"
    scans = {one.parts[-1]: one for one in (await reading(reader, text)).relations}
    assert scans["t"].whole is not None
    assert scans["t"].whole.of(text) == "TABLE db.t"
    assert scans["u"].whole == scans["u"].span


async def test_spans_count_code_points_beyond_the_basic_plane(reader: ReaderPool) -> None:
    text = "SELECT '😀𝒳', `😀`.x, y FROM `😀` JOIN /* 𝒳 */ db.`t😀` ON true"
    answer = await reading(reader, text)
    assert [one.span.of(text) for one in answer.relations if one.span] == ["`😀`", "db.`t😀`"]
    assert [one.span.of(text) for one in answer.columns if one.span] == ["`😀`.x", "y"]


async def test_columns_and_stars(reader: ReaderPool) -> None:
    text = "SELECT *, t.*, db.t . `a b`, (c).d, count(*), e:f, xs[i].y, u.* EXCEPT (g) FROM t WHERE t.z = 1"
    await require(reader, text, "4.1")
    answer = await reading(reader, text)
    found = {(one.parts, one.span.of(text) if one.span else None, one.star) for one in answer.columns}
    assert found == {
        ((), "*", True),
        (("t",), "t.*", True),
        (("db", "t", "a b"), "db.t . `a b`", False),
        (("c", "d"), None, False),
        (("e",), "e", False),
        (("xs",), "xs", False),
        (("i",), "i", False),
        (("u",), "u.*", True),
        (("t", "z"), "t.z", False),
    } | {one for one in found if one[0] == ("g",)}


async def test_columns_in_places_that_are_no_expressions(reader: ReaderPool) -> None:
    answer = await reading(reader, "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET t.b = u.b")
    assert {one.parts for one in answer.columns} == {("t", "a"), ("u", "a"), ("t", "b"), ("u", "b")}


async def test_functions(reader: ReaderPool) -> None:
    answer = await reading(
        reader,
        "SELECT Upper(a), my.f(b), nosuch(c), sum(d) FILTER (WHERE g(e)) FROM range(3), h(TABLE(t))"
        " LATERAL VIEW explode(f) x AS y",
    )
    assert set(answer.functions) == {
        FunctionRef(parts=("Upper",), table_valued=False, builtin=True),
        FunctionRef(parts=("my", "f"), table_valued=False, builtin=False),
        FunctionRef(parts=("nosuch",), table_valued=False, builtin=False),
        FunctionRef(parts=("sum",), table_valued=False, builtin=True),
        FunctionRef(parts=("g",), table_valued=False, builtin=False),
        FunctionRef(parts=("range",), table_valued=True, builtin=True),
        FunctionRef(parts=("h",), table_valued=True, builtin=False),
        FunctionRef(parts=("explode",), table_valued=False, builtin=True),
    }


async def test_functions_in_values_are_seen(reader: ReaderPool) -> None:
    """Spark would compute constant VALUES in the parser; ours keeps what is called."""
    answer = await reading(reader, "VALUES (java_method('java.lang.System', 'exit', 1))")
    assert [one.parts for one in answer.functions] == [("java_method",)]


async def test_subquery_aliases(reader: ReaderPool) -> None:
    answer = await reading(
        reader,
        "WITH Cte AS (SELECT 1) SELECT * FROM t AS X JOIN (SELECT 1) Y LATERAL VIEW explode(a) Z AS b, cte",
    )
    assert answer.subquery_aliases == {"cte", "x", "y", "z"}


async def test_every_node_is_listed(reader: ReaderPool) -> None:
    answer = await reading(
        reader,
        "SELECT CASE WHEN a IN (SELECT b FROM u) THEN 1 END FROM t TIMESTAMP AS OF '2020-01-01' LIMIT 3",
    )
    assert answer.root == "GlobalLimit"
    assert answer.nodes == {
        "GlobalLimit", "LocalLimit", "Project", "RelationTimeTravel", "UnresolvedRelation",
    }  # fmt: skip
    assert answer.expressions >= {"CaseWhen", "InSubquery", "ListQuery", "UnresolvedAttribute", "Literal"}


async def test_read_expression(reader: ReaderPool) -> None:
    text = "region = current_user() AND id IN (SELECT s.id FROM db.staff s)"
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    assert answer.root == "And"
    assert answer.columns == (
        ColumnRef(parts=("region",), span=Span(0, 6)),
        ColumnRef(parts=("id",), span=Span(28, 30)),
        ColumnRef(parts=("s", "id"), span=Span(42, 46)),
    )
    assert [one.parts for one in answer.relations] == [("db", "staff")]
    assert [one.parts for one in answer.functions] == [("current_user",)]


@pytest.mark.parametrize("text", ["a, b", "SELECT 1 FROM t", "a = 1; b", "", "a) OR (b"])
async def test_not_an_expression(reader: ReaderPool, text: str) -> None:
    assert isinstance(await reader.read_expression(text), NotParsed)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-- only a comment",
        "SELECT 1; SELECT 2",
        "; SELECT 1",
        "SELEC 1",
        "SELECT * FROM \"secret\"",
        "SELECT * FROM f(TABLE t)",
        "{# x #} SELECT 1",
        "SELECT {{ x }}",
        "SELECT 1 # x",
        "SELECT $$x$$",
        "SELECT\u200b1",
        "\ufeffSELECT 1",
        "SELECT\u180e1",
        "SELECT\x851",
        "SELECT\x1c1",
        "SELECT 'a",
        "SELECT `a",
        "SELECT * FROM a-b",
    ],
)  # fmt: skip
async def test_not_parsed(reader: ReaderPool, text: str) -> None:
    answer = await reader.read(text)
    assert isinstance(answer, NotParsed), answer
    assert answer.error_class
    assert len(answer.sqlstate) == 5
    # An empty text is a syntax error to 3.5, whose class says that it is empty.
    told = "PARSE_SYNTAX_ERROR" if is_older(reader, "4.0") and not text else answer.error_class
    assert answer.paragraph.startswith(f"[{told}]")
    assert "== SQL" not in answer.paragraph
    assert answer.exceptions


async def test_the_message_of_a_syntax_error_is_spark_s_own(reader: ReaderPool) -> None:
    answer = await reader.read("SELECT *\nFROM t WHER a = 1 AND b")
    assert isinstance(answer, NotParsed)
    assert answer.error_class == "PARSE_SYNTAX_ERROR"
    assert answer.sqlstate == "42601"
    assert answer.paragraph.startswith("[PARSE_SYNTAX_ERROR] Syntax error at or near 'a'")
    assert "\n" not in answer.paragraph
    assert answer.message.endswith("\n== SQL ==\nSELECT *\nFROM t WHER a = 1 AND b\n------------^^^\n")
    assert dict(answer.parameters)["error"] == "'a'"
    assert answer.exceptions[0] == "org.apache.spark.sql.catalyst.parser.ParseException"


async def test_options_of_a_relation(reader: ReaderPool) -> None:
    text = "INSERT INTO t WITH (Path = '/x') SELECT * FROM u WITH (k = 1, 'a.b' = 'c')"
    await require(reader, text, "4.0")
    answer = await reading(reader, text)
    # Before 4.3 the keys of what is written to come in lower case.
    assert {one.parts: set(one.options) for one in answer.relations} == {
        ("t",): {"path" if is_older(reader, "4.3") else "Path"},
        ("u",): {"k", "a.b"},
    }


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("SELECT IDENTIFIER('a') FROM t", "SELECT `a` FROM t"),
        ("SELECT IDENTIFIER( 'a' 'b' ) FROM t", "SELECT `ab` FROM t"),
        ("SELECT IDENTIFIER('`a.b`.c') FROM t", "SELECT `a.b`.`c` FROM t"),
        ("SELECT '😀', IDENTIFIER('a') FROM IDENTIFIER('`x``y`')", "SELECT '😀', `a` FROM `x``y`"),
        ("SELECT IDENTIFIER('abs')(x) FROM t", "SELECT `abs`(x) FROM t"),
        ("SELECT IDENTIFIER(('a')) FROM t", "SELECT `a` FROM t"),
        ("SELECT 'IDENTIFIER(''a'')' FROM t -- IDENTIFIER('b')", None),
        ("SELECT IDENTIFIER('s').f FROM t", "SELECT `s`['f'] FROM t"),
        ("SELECT IDENTIFIER('t.s') . f.g AS x FROM t", "SELECT `t`.`s`['f'].g AS x FROM t"),
        ("SELECT IDENTIFIER('s')['f'], IDENTIFIER('s').f[0] FROM t", "SELECT `s`['f'], `s`['f'][0] FROM t"),
        ("SELECT IDENTIFIER('s').`f` FROM t", None),
        ("SELECT IDENTIFIER('s').f FROM IDENTIFIER('t')", "SELECT `s`['f'] FROM `t`"),
        ("SELECT IDENTIFIER('s').* FROM t", None),
        ("SELECT IDENTIFIER('a' || concat('b', 'c')) FROM t", "SELECT `abc` FROM t"),
        ("SELECT IDENTIFIER(upper('a')) FROM t", None),
        ("SELECT IDENTIFIER(:a) FROM t", None),
        ("SELECT IDENTIFIER('a') FROM IDENTIFIER(:t)", None),
        ("SELECT d.identifier('a') FROM t", None),
    ],
)
async def test_names_that_are_given_as_literals_are_written_out(
    reader: ReaderPool, text: str, written: str | None
) -> None:
    if ".*" in text:
        await require(reader, text, "4.1")
    found = await reading(reader, text)
    assert found.written == written
    if written is not None:
        assert found == replace(await reading(reader, written), written=written)


async def test_an_expression_with_names_that_are_literals(reader: ReaderPool) -> None:
    found = await reader.read_expression("IDENTIFIER('a') > 1")
    assert isinstance(found, Reading)
    assert found.written == "`a` > 1"
    assert found.tree is not None
    assert found.tree.children[0].parts == ("a",)
