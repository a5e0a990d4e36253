"""Where the markers of arguments are in a text, by its words alone."""

from __future__ import annotations

import time

import pytest

from gateway.sql.parameters import find_markers, stands_apart
from tests.speed import patience


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("SELECT IDENTIFIER(:a '.b'), ?", [":a", "?"]),
        ("SELECT ':a', \"?\", `?`, R'\\', ? -- :b\n, : c /* ? /* :d */ ? */, :`e f`", ["?", ": c", ":`e f`"]),
        ("SELECT v:field, a::int, f(x):y, m[1]:z, :w", [":w"]),
        ("SELECT 'it''s ?', 'it\\'s ?', ?", ["?"]),
        ("SELECT 'open, ?", []),
        ("SELECT /* open ?", []),
    ],
)
def test_markers_are_found_by_the_words_of_a_text(text: str, markers: list[str]) -> None:
    assert [place.of(text) for place in find_markers(text)] == markers


@pytest.mark.parametrize("piece", ["'\\'", "`", '"', "$a", "/*", ": ", "?", "''", "\\'", ":`a`"])
def test_markers_of_long_texts_are_found_at_once(piece: str) -> None:
    text = f"SELECT '{piece * 200_000}"
    began = time.process_time()
    found = [place for place in find_markers(text) if stands_apart(place, text)]
    assert len(found) <= len(text)
    assert time.process_time() - began < patience(5)


@pytest.mark.parametrize(
    ("text", "apart"),
    [("(?)", True), ("-?", False), ("'a'?", False), ("? 'a'", True), ("?1", False), ("?", True)],
)
def test_markers_stand_apart(text: str, apart: bool) -> None:
    (place,) = find_markers(text)
    assert stands_apart(place, text) is apart
