"""What users wrote is shown to whoever asks for it, and does nothing to the terminal."""

from __future__ import annotations

import io

import pytest

from gateway.cli.terminal import Terminal


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("name\x1b]0;title\x07", "name ]0;title "),
        ("one\x1b[2Jtwo", "one [2Jtwo"),
        ("\x1b[1mbold\x1b[0m", "\x1b[1mbold\x1b[0m"),
        ("a\rb\x9b1Ac\u202ed", "a b 1Ac d"),
        ("two\n\tlines ä", "two\n\tlines ä"),
    ],
)
def test_signs_are_shown_and_orders_are_not_followed(text: str, shown: str) -> None:
    stream = io.StringIO()
    Terminal(stream, colour=True).line(text)
    assert stream.getvalue() == shown + "\n"
