"""An expression standing alone is read and proved like a statement: nothing within it goes unseen."""

from __future__ import annotations

import pytest

from gateway.model.reading import NotParsed, Proof, Reading, RelationRole, Splice
from gateway.reader.pool import ReaderPool
from gateway.reader.splicing import apply_splices
from tests.reader.guarding import GUARD_NAME, guard_all
from tests.readers import is_older

pytestmark = pytest.mark.asyncio(loop_scope="session")

SINCE = {"|>": "4.0", "(FROM": "4.0", ".f:g": "4.1"}
"""What an older Spark's parser does not take."""

SUBQUERIES = [
    ("(SELECT max(email) FROM secret)", {"secret"}),
    ("id IN (SELECT id FROM secret)", {"secret"}),
    ("id IN (TABLE secret)", {"secret"}),
    ("NOT id IN (SELECT b FROM secret)", {"secret"}),
    ("(id, a) IN (SELECT b, c FROM db.secret s)", {"db.secret"}),
    ("EXISTS (SELECT 1 FROM secret)", {"secret"}),
    ("EXISTS (FROM secret)", {"secret"}),
    ("EXISTS (SELECT 1 FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x))", {"a", "b"}),
    ("CASE WHEN EXISTS (SELECT * FROM a JOIN LATERAL (TABLE b)) THEN 1 END", {"a", "b"}),
    ("(WITH c AS (SELECT * FROM secret) SELECT max(x) FROM c)", {"secret", "@c"}),
    ("a IN (WITH c AS (SELECT 1) SELECT * FROM c, secret)", {"secret", "@c"}),
    ("(SELECT a FROM (SELECT b FROM (SELECT c FROM secret)))", {"secret"}),
    ("(SELECT 1 FROM secret |> WHERE x)", {"secret"}),
    ("(SELECT max(x) FROM secret VERSION AS OF 1)", {"secret"}),
    ("(SELECT count(*) FROM secret TABLESAMPLE (10 PERCENT))", {"secret"}),
    ("(SELECT a FROM s LATERAL VIEW explode(b) x AS y)", {"s"}),
    ("(SELECT * FROM s PIVOT (sum(a) FOR b IN (1)))", {"s"}),
    ("(SELECT * FROM explode(TABLE(secret)))", {"secret"}),
    ("(SELECT * FROM s1 UNION SELECT * FROM s2 ORDER BY (SELECT 1 FROM s3) LIMIT 1)", {"s1", "s2", "s3"}),
    ("/* FROM x */ (SELECT 1 FROM /* , y */ secret -- , z\n)", {"secret"}),
    ("a AS b, c", None),
    ("(SELECT 1 FROM secret) AS b", {"secret"}),
    ("f(TABLE(secret))", set()),  # calls a function `TABLE`; a table argument needs a table function
    ("exists(a, x -> x > (SELECT max(b) FROM secret))", {"secret"}),
    ("x -> (SELECT max(a) FROM secret)", {"secret"}),
    ("sum(a) OVER (PARTITION BY (SELECT 1 FROM s2) ORDER BY (SELECT 2 FROM s3))", {"s2", "s3"}),
    ("sum(a) FILTER (WHERE b IN (SELECT 1 FROM secret))", {"secret"}),
    ("named(arg => (SELECT b FROM secret))", {"secret"}),
    ("struct((SELECT a FROM secret) AS x)", {"secret"}),
    ("(SELECT 1 FROM secret)[0].f:g::INT", {"secret"}),
    ("trim(BOTH (SELECT a FROM s1) FROM (SELECT a FROM s2))", {"s1", "s2"}),
    ("timestampdiff(DAY, (SELECT 1 FROM secret), b)", {"secret"}),
    ("interval '1' day * (SELECT 1 FROM secret)", {"secret"}),
    ("a LIKE ANY ((SELECT a FROM secret), 'x')", {"secret"}),
    ("a BETWEEN (SELECT 1 FROM s1) AND (SELECT 1 FROM s2)", {"s1", "s2"}),
    ("CASE (SELECT 1 FROM secret) WHEN 1 THEN 2 END", {"secret"}),
]


def _names(answer: Reading) -> set[str]:
    return {("@" if r.role is RelationRole.CTE else "") + ".".join(r.parts) for r in answer.relations}


@pytest.mark.parametrize(("text", "names"), SUBQUERIES, ids=[text for text, _ in SUBQUERIES])
async def test_relations_are_seen_and_guarded(reader: ReaderPool, text: str, names: set[str] | None) -> None:
    since = next((minor for part, minor in SINCE.items() if part in text), None)
    if since is not None and is_older(reader, since):
        assert isinstance(await reader.read_expression(text), NotParsed)
        return
    answer = await reader.read_expression(text)
    if names is None:
        assert isinstance(answer, NotParsed)
        return
    assert isinstance(answer, Reading)
    assert _names(answer) == names
    unguarded = await reader.prove(text, text, [], [], expression=True)
    assert unguarded.holds == (not names)
    splices = guard_all(text, answer)
    rewritten = apply_splices(text, splices)
    assert rewritten is not None
    if "TABLESAMPLE" in text and is_older(reader, "4.2"):
        return  # the parser draws the seed
    assert await reader.prove(text, rewritten, splices, [GUARD_NAME], expression=True) == Proof(holds=True)
    assert (await reader.prove(text, rewritten, splices, [], expression=True)).holds == (not names)


@pytest.mark.parametrize(
    "text",
    [
        "a) FROM people --",
        "a FROM people",
        "1 FROM people",
        "(a) FROM people --",
        "a, (SELECT 1 FROM people)",
        "1; SELECT * FROM people",
        "SELECT a FROM people",
        "a UNION SELECT b FROM people",
        "a |> SELECT b",
        "(DELETE FROM people)",
        "a /* x",
        "'a",
        "`a",
        "",
    ],
)
async def test_a_text_that_tries_to_break_out(reader: ReaderPool, text: str) -> None:
    assert isinstance(await reader.read_expression(text), NotParsed)
    assert not (await reader.prove(text, text, [], [("people",)], expression=True)).holds


async def test_everything_is_reported(reader: ReaderPool) -> None:
    text = "upper(t.a) || (SELECT max(s.*) FROM db.s AS x WHERE y = 1 AND f.g(z)) || sum(b) OVER (ORDER BY c)"
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    assert {column.parts for column in answer.columns} == {("t", "a"), ("s",), ("y",), ("z",), ("b",), ("c",)}
    assert [c.span.of(text) for c in answer.columns if c.star and c.span] == ["s.*"]
    assert {function.parts for function in answer.functions} == {("upper",), ("max",), ("f", "g"), ("sum",)}
    assert answer.subquery_aliases == {"x"}
    assert answer.expressions >= {"WindowExpression", "ScalarSubquery", "UnresolvedStar", "SortOrder"}
    assert answer.nodes >= {"SubqueryAlias", "UnresolvedRelation", "Filter"}


@pytest.mark.parametrize(
    "text", ["a AS b", "a AS (b, c)", "*", "t.*", "* EXCEPT (a)", "count(*)", "x -> x + 1"]
)
async def test_items_of_a_select_list(reader: ReaderPool, text: str) -> None:
    if text == "* EXCEPT (a)" and is_older(reader, "4.0"):
        assert isinstance(await reader.read_expression(text), NotParsed)
        return
    assert isinstance(await reader.read_expression(text), Reading)
    assert (await reader.prove(text, text, [], [], expression=True)).holds


async def test_an_expression_is_not_proved_as_a_statement(reader: ReaderPool) -> None:
    """The same text is kept apart for both: `x` alone is an expression and no statement."""
    assert (await reader.prove("x", "x", [], [], expression=True)).holds
    assert not (await reader.prove("x", "x", [], [])).holds
    assert (await reader.prove("SELECT 1", "SELECT 1", [], [])).holds
    assert not (await reader.prove("SELECT 1", "SELECT 1", [], [], expression=True)).holds


async def test_a_changed_expression_is_not_proved(reader: ReaderPool) -> None:
    text = "a IN (SELECT b FROM t)"
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    (splice,) = guard_all(text, answer)
    wider = Splice(
        span=splice.span,
        text=splice.text + " WHERE true OR b > 0",
        kind="guard",
        query=splice.query,
        alias=splice.alias,
    )
    rewritten = apply_splices(text, [wider])
    assert rewritten is not None
    found = await reader.prove(text, rewritten, [wider], [GUARD_NAME], expression=True)
    assert not found.holds
    assert "another plan" in found.why
