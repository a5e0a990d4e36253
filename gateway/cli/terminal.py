"""How commands print: plain text that a pipe can take, colour on a terminal only, JSON when asked for."""

from __future__ import annotations

import getpass
import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import IO, Any

import orjson

BOLD, DIM, RED, GREEN, YELLOW, CYAN = "1", "2", "31", "32", "33", "36"
MAX_CELL = 48
_SIGNS = r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_ORDERS = re.compile(rf"\x1b(?!\[(?:[012]|3[1236])(?:;(?:[012]|3[1236]))*m)|{_SIGNS}")
"""What has a terminal do something else than show a sign in one of our colours, or in another order."""
_ALL_ORDERS = re.compile(rf"\x1b|{_SIGNS}")


class Terminal:
    """Writes to one stream, in colour when that is a terminal and NO_COLOR is not set."""

    def __init__(self, stream: IO[str] | None = None, *, colour: bool | None = None) -> None:
        self.stream = stream or sys.stdout
        if colour is None:
            colour = (
                self.stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
            )
        self.colour = colour

    def style(self, text: str, *codes: str) -> str:
        """Return the text in a colour or weight, or as it is where there is none."""
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self.colour and text else text

    def line(self, text: str = "") -> None:
        """Write a line. Names and texts of statements are users': of what they hold a terminal takes nothing
        but our colours as anything else than text."""
        self._write((_ORDERS if self.colour else _ALL_ORDERS).sub(" ", text))

    def json(self, value: Any) -> None:
        """Write one JSON document and a line break."""
        options = orjson.OPT_INDENT_2 if self.stream.isatty() else 0
        self._write(orjson.dumps(value, default=str, option=options | orjson.OPT_NON_STR_KEYS).decode())

    def json_line(self, value: Any) -> None:
        """Write one JSON document on one line."""
        self._write(orjson.dumps(value, default=str).decode())

    def _write(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()

    def table(
        self,
        header: Sequence[str],
        rows: Iterable[Sequence[Any]],
        *,
        indent: str = "",
        max_cell: int = MAX_CELL,
    ) -> None:
        """Write rows in aligned columns; long cells are cut, numbers stand to the right."""
        rows = list(rows)
        cells = [[cell(value, max_cell) for value in row] for row in rows]
        numeric = [
            bool(rows) and all(isinstance(row[i], int | float) or is_decimal(row[i]) for row in rows)
            for i in range(len(header))
        ]
        widths = [max(len(name), *(len(row[i]) for row in cells), 0) for i, name in enumerate(header)]

        def join(values: Sequence[str]) -> str:
            parts = (
                value.rjust(width) if right else value.ljust(width)
                for value, width, right in zip(values, widths, numeric, strict=True)
            )
            return (indent + "  ".join(parts)).rstrip()

        self.line(self.style(join(header), BOLD))
        for row in cells:
            self.line(join(row))


def is_decimal(value: Any) -> bool:
    """Whether a value is a number that came as text or as a Decimal; NULL stands among numbers too."""
    if value is None:
        return True
    return str(value).lstrip("-").replace(".", "", 1).isdigit()


def cell(value: Any, limit: int = MAX_CELL) -> str:
    """Return a value as a table shows it: one line, NULL for None, cut at `limit` characters."""
    text = on_one_line("NULL" if value is None else value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def on_one_line(value: Any) -> str:
    """Return a value's text with spaces for line breaks and for whatever else is no sign."""
    return "".join(c if c.isprintable() else " " for c in str(value))


def user_name() -> str:
    """Return who runs the command, for the record; by number where the system has no name for them."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def complain(message: str) -> None:
    """Write what is wrong to standard error; it may quote users."""
    sys.stderr.write(_ALL_ORDERS.sub(" ", f"sluice: {message}") + "\n")


def print_progress(line: str) -> None:
    """Write a line of a job's progress to standard error."""
    sys.stderr.write(f"{datetime.now(UTC):%H:%M:%S} {on_one_line(line)}\n")
    sys.stderr.flush()
