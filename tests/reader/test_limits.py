"""Texts that no parser may see are refused before one does, at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.reading import NotRead
from gateway.reader.limits import ReaderLimits, refuse

LIMITS = ReaderLimits()


def code(text: str, limits: ReaderLimits = LIMITS) -> str | None:
    refusal = refuse(text, limits)
    return refusal.code if refusal else None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", None),
        ("", None),
        ("SELECT '" + "a" * 999_000 + "'", None),
        ("SELECT '" + "a" * 1_000_000 + "'", "TOO_LARGE"),
        ("SELECT '\0'", "UNSAFE_TEXT"),
        ("SELECT '\ud83d'", "UNSAFE_TEXT"),
        ("SELECT '\udc00'", "UNSAFE_TEXT"),  # noqa: PT014 - another surrogate than the last
        ("SELECT '😀'", None),
        ("SELECT '${a}'", "UNSAFE_TEXT"),
        ("SELECT 1 -- ${", "UNSAFE_TEXT"),
        ("SELECT '$', '{a}'", None),
        ("SELECT " + "(" * 200 + "1" + ")" * 200, None),
        ("SELECT " + "(" * 201 + "1" + ")" * 201, "TOO_DEEP"),
        ("SELECT " + "(" * 5000 + "1" + ")" * 5000, "TOO_DEEP"),
        ("SELECT " + "a[" * 201, "TOO_DEEP"),
        ("SELECT " + "f(a[" * 101, "TOO_DEEP"),
        ("SELECT " + "(1), " * 5000 + "1", None),
        ("SELECT " + ")" * 5000 + "(" * 201, "TOO_DEEP"),
        ("SELECT * FROM (" * 10_000 + "SELECT 1" + ") t" * 10_000, "TOO_DEEP"),
        ("SELECT " + "CASE WHEN a THEN " * 201 + "1" + " END" * 201, "TOO_DEEP"),
        ("SELECT " + "CASE WHEN a THEN 1 END, " * 5000 + "1", None),
        ("SELECT " + "ca\u017fe WHEN a THEN " * 201, "TOO_DEEP"),
        ("SELECT CAST(a AS " + "ARRAY<" * 101 + "INT" + ">" * 101 + ")", "TOO_DEEP"),
        ("SELECT CAST(a AS " + "\u017ftruct <a:" * 101, "TOO_DEEP"),
        ("SELECT 1 FROM t WHERE " + " AND ".join("a < 1" for _ in range(5000)), None),
        ("SELECT " + "x -> " * 1001, "TOO_DEEP"),
        ("SELECT 1 " + "/*" * 21, "TOO_DEEP"),
        ("SELECT 1 " + "/* a */" * 5000, None),
        ("SELECT 1 " + "/*/" * 21, "TOO_DEEP"),
    ],
    ids=lambda value: ascii(value[:40]) if isinstance(value, str) else value,
)
def test_refuse(text: str, expected: str | None) -> None:
    assert code(text) == expected


def test_a_rewritten_statement_may_be_longer() -> None:
    text = "SELECT '" + "a" * 1_500_000 + "'"
    assert refuse(text, LIMITS, growth=2) is None
    assert code(text) == "TOO_LARGE"


def test_limits_are_settable_and_told() -> None:
    refusal = refuse("((1))", ReaderLimits(max_nesting=1))
    assert refusal == NotRead("TOO_DEEP", "the statement nests brackets more than 1 deep")
    refusal = refuse("SELECT 1", ReaderLimits(max_chars=7))
    assert refusal == NotRead("TOO_LARGE", "the statement has more than 7 characters")


@given(st.text(alphabet="()[]{}<>/*-ACESEND \u017f\ud800\0$a'", max_size=300))
def test_any_text_has_an_answer(text: str) -> None:
    refusal = refuse(text, LIMITS)
    assert refusal is None or refusal.code in {"TOO_LARGE", "TOO_DEEP", "UNSAFE_TEXT"}
