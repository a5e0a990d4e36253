"""Places in messages of Spark are told in the text that the user wrote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.statement import RewrittenText
from gateway.session.error_places import fragment_of, in_users_text, original_range, place_of, summary_of

PIN = "`spark_catalog`.`db`.`t`"


def rewritten(original: str, name: str = "t", written: str = PIN) -> RewrittenText:
    """Return a text in which the first mention of a name was written out."""
    start = original.index(name)
    forwarded = original[:start] + written + original[start + len(name) :]
    return RewrittenText(
        original=original, forwarded=forwarded, changes=((start, start + len(name), len(written)),)
    )


TEXTS = (
    "SELECT a FROM t WHERE a / 0 > 1",
    "SELECT a\nFROM t\nWHERE a /\n 0 > 1 AND " + "b = 1 AND " * 9 + "c",
    "SELECT " + "x, " * 30 + "y FROM t WHERE a / 0 > 1",
    "SELECT '😀' FROM t WHERE a / 0 > 1",
)


@pytest.mark.parametrize("original", TEXTS)
@pytest.mark.parametrize("fragment", ["a /", "SELECT", "> 1", "t"])
def test_a_fragment_is_shown_where_it_stands_in_the_users_text(original: str, fragment: str) -> None:
    text = rewritten(original)
    there = PIN if fragment == "t" else fragment
    start = text.forwarded.index(there)
    stop = start + len(there) - 1
    begun = original.index(fragment)
    assert original_range(text, start, stop) == (begun, begun + len(fragment) - 1)
    message = f"no. SQLSTATE: 22012\n{summary_of(text.forwarded, start, stop)}\n\tat a.b(C.java:1)"
    shown = in_users_text(message, (text,))
    expected = summary_of(original, begun, begun + len(fragment) - 1)
    assert shown == f"no. SQLSTATE: 22012\n{expected}\n\tat a.b(C.java:1)"


def test_a_summary_is_written_as_spark_writes_it() -> None:
    assert summary_of("SELECT 1/0", 7, 9) == "== SQL (line 1, position 8) ==\nSELECT 1/0\n       ^^^\n"
    assert summary_of("SELECT a +\n  b FROM t", 7, 13) == (
        "== SQL (line 1, position 8) ==\nSELECT a +\n       ^^^\n  b FROM t\n^^^\n"
    )
    wide = summary_of("x" * 50 + "1/0" + "y" * 50, 50, 52)
    assert wide.splitlines()[1] == f"...{'x' * 32}1/0{'y' * 32}..."


@pytest.mark.timeout(60)
@pytest.mark.parametrize("around", ["", "é", "😀"])
def test_a_message_that_a_user_wrote_costs_no_more_than_it_is_long(around: str) -> None:
    """Everybody waits while it is read: these took minutes, or raised what nobody expects."""
    text = rewritten(f"SELECT a FROM t -- {around}{'x' * 200_000}")
    summaries = "== SQL (line 1, position 1) ==\n" + "a\n^\n" * 2_000
    for message in (summaries, summaries * 20, "; line 1 pos 8" * 50_000):
        assert in_users_text(message, (text,))
    endless = "9" * 5_000
    for message in (f"== SQL (line {endless}, position 1) ==\na\n^\n", f"x; line 1 pos {endless};"):
        assert in_users_text(message, (text,)) == message


def test_a_position_moves_with_the_text() -> None:
    text = rewritten("SELECT a FROM t\nJOIN u ON nope")
    offset = text.forwarded.index("nope")
    line, column = place_of(text.forwarded, offset)
    assert in_users_text(f"x. SQLSTATE: 42703; line {line} pos {column};\n'Project", (text,)) == (
        "x. SQLSTATE: 42703; line 2 pos 10;\n'Project"
    )
    same_line = rewritten("SELECT a FROM t JOIN u ON nope")
    offset = same_line.forwarded.index("nope")
    assert "line 1 pos 26" in in_users_text(f"x; line 1 pos {offset}", (same_line,))


def test_what_does_not_fit_the_text_stays() -> None:
    text = rewritten("SELECT a FROM t")
    for message in (
        "x; line 9 pos 9",
        "== SQL (line 1, position 8) ==\nSELECT raised\n       ^^^\n",
        "== SQL of VIEW v (line 1, position 8) ==\nSELECT 1/0\n       ^^^\n",
    ):
        assert in_users_text(message, (text,)) == message


@given(st.text(max_size=60), st.integers(0, 70), st.integers(0, 70), st.integers(0, 60), st.integers(0, 60))
def test_every_place_has_one_in_the_original(
    original: str, start: int, stop: int, cut: int, length: int
) -> None:
    begin = min(cut, len(original))
    end = min(begin + 3, len(original))
    forwarded = original[:begin] + "x" * length + original[end:]
    text = RewrittenText(original=original, forwarded=forwarded, changes=((begin, end, length),))
    first, last = original_range(text, min(start, len(forwarded)), min(stop, len(forwarded)))
    assert 0 <= first <= len(original)
    assert first <= last
    in_users_text(
        f"a; line {start} pos {stop}\n== SQL (line 1, position {stop}) ==\n{original}\n^\n", (text,)
    )
    if original:
        summary_of(original, min(start, len(original) - 1), stop)
        fragment_of(original, start, stop)
