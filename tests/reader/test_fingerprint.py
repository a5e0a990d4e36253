"""Statements of one shape have one fingerprint, and no literal is in it."""

from __future__ import annotations

import pytest

from gateway.model.reading import NotRead
from gateway.reader.pool import ReaderPool

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    ("text", "fingerprint"),
    [
        ("SELECT a, 1 FROM T WHERE b = 'x'", "select a , ? from t where b = ?"),
        ("select  A,-- c\n 2.5e3 from t/* 'y' */ where b=\"it''s\"", "select a , ? from t where b = ?"),
        ("SELECT * FROM t WHERE a IN (1, 2, 3)", "select * from t where a in ( ?, … )"),
        ("SELECT * FROM t WHERE a IN ('x', 'y')", "select * from t where a in ( ?, … )"),
        ("SELECT 1, 2", "select ? , ?"),
        ("SELECT 'a' 'b' \"c\"", "select ?"),
        (
            "SELECT DATE '2020-01-01', X'1F', 1L, 1S, 1Y, 1.0F, 1.0D, 1.0BD",
            "select date ? , x ?" + " , ?" * 6,
        ),
        ("SELECT `Mixed Case`, `a``b` FROM `T`", "select `Mixed Case` , `a``b` from `T`"),
        ("SELECT r'\\d', 'it\\'s'", "select ? , ?"),
        ("SELECT 'never ends", "select ?"),
        ("", ""),
        ("ſelect 'x'", "ſelect ?"),
    ],
)
async def test_a_fingerprint_is_what_sparks_lexer_leaves(
    reader: ReaderPool, text: str, fingerprint: str
) -> None:
    assert await reader.fingerprint(text) == fingerprint


async def test_what_may_not_be_looked_at_has_none(reader: ReaderPool) -> None:
    for text, code in (("SELECT '\0'", "UNSAFE_TEXT"), ("SELECT " + "(" * 5_000, "TOO_DEEP")):
        found = await reader.fingerprint(text)
        assert isinstance(found, NotRead)
        assert found.code == code


async def test_a_parser_that_is_not_there_is_told_from_a_text_that_has_none() -> None:
    found = await ReaderPool().fingerprint("SELECT 1")
    assert isinstance(found, NotRead)
    assert found.code == "UNAVAILABLE"
