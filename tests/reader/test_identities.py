"""Every place that asks who the user is is told, and a literal in its place is proved."""

from __future__ import annotations

import pytest

from gateway.model.reading import Identity, Reading, Span, Splice
from gateway.reader.pool import ReaderPool
from gateway.reader.splicing import apply_splices
from gateway.sql.identity import identity_splices
from gateway.sql.required import Unsupported
from tests.reader.guarding import GUARD_NAME, guard_all
from tests.reader.test_reading import reading
from tests.readers import is_older, require

pytestmark = pytest.mark.asyncio(loop_scope="session")


def told(answer: Reading, text: str) -> list[str]:
    """`name|what is replaced`, and the marks: bare, output, nested, column, unsure."""
    found = []
    for one in answer.identities:
        words = [one.name, "-" if one.span is None else one.span.of(text)]
        words += [word for word in ("bare", "output", "nested", "column") if getattr(one, word)]
        found.append("|".join(words if one.sure else [*words, "unsure"]))
    return found


@pytest.mark.parametrize(
    ("text", "identities"),
    [
        ("SELECT current_user() FROM t", ["current_user|current_user()|output"]),
        ("SELECT CURRENT_USER ( ), User() u", ["current_user|CURRENT_USER ( )|output", "user|User()"]),
        ("SELECT (session_user())", ["session_user|(session_user())|output"]),
        ("SELECT ((user))", ["user|((user))|bare|output"]),
        ("SELECT 1 WHERE a = builtin.user()", ["user|builtin.user()"]),
        ("SELECT `system`.`builtin`.`user`()", ["user|`system`.`builtin`.`user`()|output"]),
        ("SELECT `Session_User`() || 'x'", ["session_user|`Session_User`()"]),
        ("SELECT current_user", ["current_user|current_user|bare|output"]),
        ("SELECT `user` FROM t", ["user|`user`|bare|output"]),
        ("SELECT user, user FROM t", ["user|user|bare|output", "user|user|bare|output"]),
        ("SELECT a AS user, user FROM t", ["user|user|bare|output|unsure"]),
        ("SELECT user FROM t x(user)", ["user|user|bare|output|column|unsure"]),
        ("SELECT user FROM (SELECT x AS user FROM t)", ["user|user|bare|output|nested|column|unsure"]),
        ("SELECT user FROM (SELECT x AS USER FROM t)", ["user|user|bare|output|nested|unsure"]),
        ("SELECT 1 FROM (SELECT t.user FROM t) WHERE user > 1", ["user|user|bare|nested|column|unsure"]),
        ("SELECT user FROM (SELECT s.* FROM t)", ["user|user|bare|output|nested"]),
        ("SELECT user FROM (SELECT x AS user FROM t), u", ["user|user|bare|output|nested|unsure"]),
        ("SELECT x AS user FROM t ORDER BY user", ["user|user|bare|column|unsure"]),
        ("SELECT x AS user FROM t WHERE user = 1", ["user|user|bare|unsure"]),
        ("SELECT x AS user FROM t HAVING user = 1", ["user|user|bare|unsure"]),
        (
            "SELECT (SELECT max(user) FROM u) FROM (SELECT x AS user FROM t)",
            ["user|user|bare|nested|unsure"],
        ),
        (
            "WITH c AS (SELECT x AS user FROM t), d AS (SELECT user FROM c) SELECT 1 FROM d WHERE user = 1",
            ["user|user|bare|output|nested|column|unsure", "user|user|bare|nested|column|unsure"],
        ),
        (
            "WITH c AS (SELECT 1 AS z), d AS (SELECT user FROM c) "
            "SELECT * FROM (WITH c AS (SELECT 1 AS user) SELECT 1 FROM d WHERE user = 1)",
            ["user|user|bare|output|nested|unsure", "user|user|bare|nested|unsure"],
        ),
        ("WITH c AS (SELECT x AS user FROM t) SELECT user FROM a.c", ["user|user|bare|output|nested|unsure"]),
        (
            "SELECT current_user FROM (SELECT x, count(*) AS current_user FROM t GROUP BY x) ORDER BY x",
            ["current_user|current_user|bare|output|nested|column|unsure"],
        ),
        (
            "SELECT user FROM (SELECT inline(from_json(a, 'user STRING')) FROM t)",
            ["user|user|bare|output|nested|unsure"],
        ),
        ("SELECT user, x.user FROM t x", ["user|user|bare|output|unsure"]),
        ("SELECT user FROM t UNION SELECT 1", ["user|user|bare|output|nested"]),
        ("FROM t |> SELECT a |> WHERE user = 'x'", ["user|user|bare|nested"]),
        ("SELECT a FROM t WHERE b = user HAVING max(c) = USER()", ["user|user|bare", "user|USER()"]),
        ("SELECT transform(a, x -> user) FROM t", ["user|-|bare|unsure"]),
        ("SELECT transform(a, user -> user) FROM t", ["user|-|bare|unsure"]),
        ("SELECT transform(a, x -> user()) FROM t", ["user|user()"]),
        ("SELECT user() FILTER (WHERE a) FROM t", ["user|-"]),
        ("SELECT user() OVER () FROM t", ["user|-"]),
        ("SELECT user.name, t.user, user(1), my.user(), a.builtin.user() FROM t", []),
        ("SELECT * FROM user", []),
        ("SELECT 'current_user()' -- user()", []),
        ("INSERT INTO t SELECT user()", ["user|user()|output"]),
        ("VALUES (current_user(), 1)", ["current_user|current_user()"]),
        ("SELECT '😀', user()", ["user|user()|output"]),
        ("SELECT (SELECT current_user()) FROM t", ["current_user|current_user()|output|nested"]),
    ],
)
async def test_identities(reader: ReaderPool, text: str, identities: list[str]) -> None:
    if "|>" in text:
        await require(reader, text, "4.0")
    assert sorted(told(await reading(reader, text), text)) == sorted(identities)


@pytest.mark.parametrize(
    ("text", "identities"),
    [
        ("current_user()", ["current_user|current_user()|output"]),
        ("(user())", ["user|(user())|output"]),
        ("user", ["user|user|bare|output"]),
        ("user() AS u", ["user|user()"]),
        ("a IN (SELECT session_user() FROM t)", ["session_user|session_user()|output"]),
    ],
)
async def test_identities_of_expressions(reader: ReaderPool, text: str, identities: list[str]) -> None:
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    assert sorted(told(answer, text)) == sorted(identities)


USERS = ["alice", "d'Artagnan", "CORP\\bob", "żółw", "x' OR '1'='1", "a b@c.d"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "text",
    [
        "SELECT current_user(), (user()), user, upper(session_user) x FROM t WHERE a = current_user",
        "SELECT count(*), user() FROM t GROUP BY user() ORDER BY user()",
        "SELECT a FROM t WHERE b IN (SELECT builtin.user() FROM u) OR CASE user() WHEN 'x' THEN true END",
        "INSERT INTO gov.db.g SELECT user(), current_user FROM t",
        "FROM t INSERT INTO gov.db.g SELECT user() INSERT INTO gov.db.g SELECT user()",
        "WITH c AS (SELECT user()) SELECT * FROM c",
        "SELECT struct(user()), array(user) FROM t",
        "SELECT user() UNION ALL SELECT current_user()",
        "VALUES (user(), 1)",
        "SELECT /*+ BROADCAST(t) */ DISTINCT user() FROM t",
        "EXPLAIN SELECT user()",
    ],
)
async def test_values_are_proved(reader: ReaderPool, text: str, user: str) -> None:
    answer = await reading(reader, text)
    values = identity_splices(answer, user, ())
    assert isinstance(values, tuple)
    assert values
    splices = [*guard_all(text, answer), *values]
    rewritten = apply_splices(text, splices)
    assert rewritten is not None
    found = await reader.prove(text, rewritten, splices, [GUARD_NAME])
    assert found.holds, found.why
    assert not (await reading(reader, rewritten)).identities


@pytest.mark.parametrize(
    "text", ["user()", "(current_user())", "a = user() OR upper(user) = 'X'", "user() AS u"]
)
async def test_values_in_expressions_are_proved(reader: ReaderPool, text: str) -> None:
    answer = await reader.read_expression(text)
    assert isinstance(answer, Reading)
    for named in (True, False):
        splices = identity_splices(answer, "alice", (), named=named)
        assert isinstance(splices, tuple)
        rewritten = apply_splices(text, splices)
        assert rewritten is not None
        assert (await reader.prove(text, rewritten, splices, [], expression=True)).holds


@pytest.mark.parametrize(
    "query",
    [
        "email",
        "user()",
        "'alice' || 'x'",
        "1",
        "NULL",
        "CAST(1 AS STRING)",
        "CAST(X'61' AS BINARY)",
        "'alice' AS `email`",
        "(SELECT 'alice')",
        "DATE '2020-01-01'",
        "'alice' COLLATE UTF8_LCASE",
        "upper('alice')",
        "'alice' AS (a, b)",
        ":x",
        "*",
    ],
)
async def test_only_a_string_stands_for_the_user(reader: ReaderPool, query: str) -> None:
    text = "SELECT user() FROM gov.db.g"
    splice = Splice(span=Span(7, 13), text=query, kind="value", query=query)
    rewritten = apply_splices(text, [splice])
    assert rewritten is not None
    found = await reader.prove(text, rewritten, [splice], [GUARD_NAME])
    assert not found.holds
    assert "string literal" in found.why or ("COLLATE" in query and is_older(reader, "4.0"))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("SELECT email FROM gov.db.g", 7, 12),
        ("SELECT 'x' FROM gov.db.g", 7, 10),
        ("SELECT t.user FROM gov.db.g t", 7, 13),
        ("SELECT user(1) FROM gov.db.g", 7, 14),
        ("SELECT user() FROM gov.db.g", 7, 11),
        ("SELECT a FROM gov.db.g WHERE 1 = 1", 29, 30),
    ],
)
async def test_nothing_but_an_identity_becomes_a_value(
    reader: ReaderPool, text: str, start: int, end: int
) -> None:
    splice = Splice(span=Span(start, end), text="'alice'", kind="value", query="'alice'")
    rewritten = apply_splices(text, [splice])
    assert rewritten is not None
    assert not (await reader.prove(text, rewritten, [splice], [GUARD_NAME])).holds


async def test_another_text_than_was_told(reader: ReaderPool) -> None:
    text = "SELECT 1 FROM gov.db.g WHERE a = user()"
    splice = Splice(span=Span(33, 39), text="'bob' OR true", kind="value", query="'bob'")
    rewritten = apply_splices(text, [splice])
    assert rewritten is not None
    assert not (await reader.prove(text, rewritten, [splice], [GUARD_NAME])).holds


async def test_a_default_keeps_its_text_and_is_not_proved(reader: ReaderPool) -> None:
    """Spark stores the text of a default beside its expression: the two must not differ."""
    text = "CREATE TABLE gov.db.g (a STRING DEFAULT user())"
    answer = await reading(reader, text)
    splices = identity_splices(answer, "alice", ())
    if is_older(reader, "4.0"):
        assert isinstance(splices, Unsupported)  # there is the text alone
        return
    assert isinstance(splices, tuple)
    rewritten = apply_splices(text, splices)
    assert rewritten is not None
    assert not (await reader.prove(text, rewritten, splices, [GUARD_NAME])).holds


async def test_many_places_are_told_in_time(reader: ReaderPool) -> None:
    text = "SELECT " + ", ".join(["user"] * 5_000) + " FROM t"
    answer = await reading(reader, text)
    assert len(answer.identities) == 5_000
    assert answer.identities[-1] == Identity(
        name="user", span=Span(len(text) - 11, len(text) - 7), output=True, bare=True, sure=True, nested=False
    )
