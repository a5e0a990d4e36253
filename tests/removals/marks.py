"""Finds the rules that a removal can take out: `# RULE (name)` in `gateway/`.

A mark stands at the end of a statement's first line, or on a line of its own directly above: then it is of
the statement. At a later line of a statement of several lines it is of what begins on that line. An `except`,
a `case` and an `elif` count as statements.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.removals.operations import Marked, first_line

GATEWAY = Path(__file__).parents[2] / "gateway"
_MARK = re.compile(r"# RULE \(([^)]*)\)")
_NAMES = re.compile(r"[a-z0-9-]+(, [a-z0-9-]+)*")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


class Mark(NamedTuple):
    """Where the mark of a rule stands."""

    name: str
    path: Path
    line: int
    """Of the code that it is about, from 1."""

    @property
    def module(self) -> str:
        parts = self.path.relative_to(GATEWAY.parent).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")


class Found(NamedTuple):
    """A marked entry of a block, in a tree."""

    block: list[Any]
    place: int
    line: int | None
    """The one line of the entry that is marked; None: the mark is of all its head."""


def _in_file(path: Path, text: str) -> Iterator[Mark]:
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for mark in _MARK.finditer(line):
            code = number
            while lines[code].lstrip().startswith("#") or not lines[code].strip():
                code += 1
            assert _NAMES.fullmatch(mark[1]), f"{path}:{number + 1}: names are small letters and hyphens"
            for name in mark[1].split(", "):
                yield Mark(name, path, code + 1)


@cache
def marks() -> tuple[Mark, ...]:
    """Return all marks in `gateway/`."""
    found: list[Mark] = []
    for path in sorted(GATEWAY.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "# RULE (" in text:
            found += _in_file(path, text)
    return tuple(found)


@cache
def by_name() -> dict[str, Mark]:
    return {mark.name: mark for mark in marks()}


def find(tree: ast.AST, line: int) -> Found:
    """Return what a mark of a line is of: the statement that begins there, or the innermost around it."""
    best: Found | None = None
    for block, index in entries(tree):
        node = block[index]
        start = first_line(node)
        if start == line:
            return Found(block, index, None)
        if start < line <= _last_line(node):
            best = Found(block, index, line)  # those within come later
    if best is None:
        raise LookupError(f"no statement at line {line}")
    return best


def entries(tree: ast.AST) -> Iterator[tuple[list[Any], int]]:
    """Yield all statements, `except`s and `case`s, each before those within it."""
    for field in _BLOCKS:
        block = getattr(tree, field, None)
        if isinstance(block, list):
            for index, node in enumerate(block):
                if isinstance(node, Marked):
                    yield block, index
                    yield from entries(node)


def _last_line(node: Marked) -> int:
    if isinstance(node, ast.match_case):
        return max(one.end_lineno or 0 for one in node.body)
    return node.end_lineno or 0
