"""Who is bound where: calls always, words without brackets only where no column can be meant."""

from __future__ import annotations

import pytest

from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.reading import Reading
from gateway.reader.pool import ReaderPool
from gateway.sql.guard import apply
from gateway.sql.identity import identity_splices
from gateway.sql.required import Unsupported
from tests.readers import require

pytestmark = pytest.mark.asyncio(loop_scope="session")


def table(*columns: str) -> Table:
    return Table(
        name=TableName("spark_catalog", "d", "t"),
        kind=TableKind.TABLE,
        columns=tuple(
            Column(name=c.split(" ", 1)[0], type=(c + " string").split(" ", 1)[1]) for c in columns
        ),
    )


PLAIN = table("a", "b int")
WITH_USER = table("a", "User")
WITH_FIELD = table("a", "s struct<user:string>")


async def bound(
    reader: ReaderPool, text: str, *tables: Table | None, user: str = "alice", named: bool = True
) -> str:
    reading = await reader.read(text)
    assert isinstance(reading, Reading), reading
    splices = identity_splices(reading, user, tables, named=named)
    return splices.why if isinstance(splices, Unsupported) else apply(text, splices)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT current_user()", "SELECT 'alice' AS `current_user()`"),
        ("SELECT USER(), (session_user())", "SELECT 'alice' AS `user()`, 'alice' AS `session_user()`"),
        ("SELECT user() AS u", "SELECT 'alice' AS u"),
        ("SELECT a FROM t WHERE a = system.builtin.current_user()", "SELECT a FROM t WHERE a = 'alice'"),
        ("SELECT user FROM t", "SELECT 'alice' AS `current_user()` FROM t"),
        ("SELECT a FROM t WHERE a = current_user", "SELECT a FROM t WHERE a = 'alice'"),
        ("SELECT a FROM t", "SELECT a FROM t"),
    ],
)
async def test_bound(reader: ReaderPool, text: str, expected: str) -> None:
    assert await bound(reader, text, PLAIN) == expected


async def test_an_apostrophe_binds_as_bytes(reader: ReaderPool) -> None:
    assert await bound(reader, "SELECT 1 WHERE a = user()", user="d'A") == (
        "SELECT 1 WHERE a = CAST(X'642741' AS STRING)"
    )


async def test_a_policy_s_text_gets_no_alias(reader: ReaderPool) -> None:
    reading = await reader.read_expression("current_user()")
    assert isinstance(reading, Reading)
    splices = identity_splices(reading, "alice", (), named=False)
    assert isinstance(splices, tuple)
    assert apply("current_user()", splices) == "'alice'"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT user FROM t x(user)",
        "WITH c AS (SELECT a AS user FROM t) SELECT user FROM c ORDER BY user",
        "SELECT user FROM (SELECT a AS user FROM t) WHERE user > 'x'",
        "FROM t |> SELECT a AS user |> SELECT user",
        "SELECT a AS user FROM t |> SELECT user |> WHERE user > 'x' |> ORDER BY user",
        "FROM t |> EXTEND a AS session_user |> SELECT session_user",
    ],
)
async def test_a_column_that_the_text_names_comes_first(reader: ReaderPool, text: str) -> None:
    if "|>" in text:
        await require(reader, text, "4.0")
    assert await bound(reader, text, PLAIN) == text
    assert await bound(reader, text, None) == text


async def test_a_column_comes_first(reader: ReaderPool) -> None:
    text = "SELECT user FROM t WHERE a = user() ORDER BY user"
    assert await bound(reader, text, WITH_USER) == "SELECT user FROM t WHERE a = 'alice' ORDER BY user"


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("SELECT user FROM t", (None,)),
        ("SELECT user FROM t, u", (PLAIN, None)),
        ("SELECT user FROM t, u", (WITH_USER, None)),
        ("SELECT user FROM (SELECT a FROM t)", (WITH_USER,)),
        ("SELECT a AS user FROM t WHERE a = user", (PLAIN,)),
        ("SELECT user FROM (SELECT s.* FROM t)", (WITH_FIELD,)),
        ("SELECT transform(a, x -> user) FROM t", (PLAIN,)),
        ("SELECT user FROM (SELECT inline(from_json(a, 'array<struct<user:string>>')) FROM t)", (PLAIN,)),
    ],
)
async def test_unclear(reader: ReaderPool, text: str, tables: tuple[Table | None, ...]) -> None:
    assert "may be a column or a function; write `user()`" in await bound(reader, text, *tables)


async def test_tables_left_out_are_unknown(reader: ReaderPool) -> None:
    for text, governable in (
        ("SELECT user FROM t", False),
        ("SELECT user", True),
        ("SELECT user() FROM t", True),
    ):
        reading = await reader.read(text)
        assert isinstance(reading, Reading)
        assert isinstance(identity_splices(reading, "alice"), tuple) is governable


async def test_words_without_brackets_can_be_left(reader: ReaderPool) -> None:
    reading = await reader.read_expression("user = user()")
    assert isinstance(reading, Reading)
    splices = identity_splices(reading, "alice", meaning=lambda name: False)
    assert isinstance(splices, tuple)
    assert apply("user = user()", splices) == "user = 'alice'"


@pytest.mark.parametrize("text", ["SELECT user() OVER () FROM t", "SELECT user() FILTER (WHERE true) FROM t"])
async def test_not_in_one_piece(reader: ReaderPool, text: str) -> None:
    assert "cannot be replaced" in await bound(reader, text, PLAIN)


async def test_a_name_that_is_no_text(reader: ReaderPool) -> None:
    assert "cannot be written" in await bound(reader, "SELECT user()", user="\ud800")
