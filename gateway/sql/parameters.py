"""Where the markers of arguments, `:x` and `?`, may stand in a text that comes with arguments.

Spark (since 4.1) writes each argument into the text as a literal and parses the result: a marker may stand
wherever a literal may, so also where it becomes a path, an option or a name. What was read and proved is the
text with its markers; it says the same as the text with the literals only where a marker is an expression of
the plan, and only where no literal can join the characters beside it. Elsewhere it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from gateway.model.reading import ExpressionNode, Reading, Span
from gateway.sql.expressions import PARAMETERS

WITH_QUERIES: Final = frozenset(
    {
        "CreateTableAsSelect",
        "DeleteFromTable",
        "DescribeQueryCommand",
        "ExplainCommand",
        "InsertIntoStatement",
        "MergeIntoTable",
        "ReplaceTableAsSelect",
        "SetVariable",
        "UpdateTable",
    }
)
"""Commands whose queries and conditions may hold markers. What others keep, they keep as text."""


MISPLACED: Final = (
    "a parameter marker is used where no expression is allowed; write its value into the statement"
)

IMMEDIATE = "UnresolvedExecuteImmediate"
"""The command that has the statement in a text run."""


ADJACENT: Final = "a parameter marker is adjacent to other text; put spaces around it"

_TOKEN: Final = re.compile(
    r"""[Rr]'[^']*'|[Rr]"[^"]*"
    | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`
    | (?P<open>['"`])
    | --(?:\\\n|[^\r\n])*
    | (?P<comment>/\*) | :: | \w+
    | (?P<marker>\?|:\s*(?:[A-Za-z_]\w*|`(?:[^`]|``)*`))
    | .""",
    re.DOTALL | re.VERBOSE,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_JOINS: Final = re.compile(r"[\w'\"`$:?]")
_ENDS_VALUE: Final = re.compile(r"[\w`)\]]")


def find_markers(text: str) -> Iterator[Span]:
    """Yield where the markers of a text are, by its words alone: Spark's parser has no places of those that
    stand where no expression can. What is written there is judged as part of the text."""
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or found["open"] is not None:
            return  # what is not closed is not parsed
        start, at = found.span()
        if found["comment"] is not None:
            at = _end_of_comment(text, at)
        elif found["marker"] == "?" or (
            # `v:field` is a field of a variant.
            found["marker"] is not None and not (start > 0 and _ENDS_VALUE.match(text, start - 1))
        ):
            yield Span(start, at)


def _end_of_comment(text: str, at: int) -> int:
    depth = 1
    for found in _COMMENT.finditer(text, at):
        depth += 1 if found[0] == "/*" else -1
        if depth == 0:
            return found.end()
    return len(text)


def stands_apart(marker: Span, text: str) -> bool:
    """Whether no literal in the place of a marker can join the characters beside it."""
    before = text[marker.start - 1 : marker.start]
    return not (before == "-" or _JOINS.match(before) or _JOINS.match(text, marker.end))


def parameter_refusal(reading: Reading, *, stored: bool = True) -> str | None:
    """Return why the markers of a text with arguments may not stand where they do, or None. Without `stored`
    it is not the text with its markers that is judged and sent."""
    if not reading.parameters:
        held = reading.expressions & PARAMETERS
        return "a parameter marker was not found in the statement" if held else None
    if not all(parameter.value for parameter in reading.parameters):  # RULE (parameter-is-expression)
        return MISPLACED
    if not all(parameter.apart for parameter in reading.parameters):  # RULE (parameter-apart)
        return ADJACENT
    commands = sorted({command.node for command in reading.commands} - WITH_QUERIES)
    if commands and stored:  # RULE (parameter-in-stored-text)
        return "parameter markers are only allowed in queries; write the value into the statement"
    return None


def constant_text(node: ExpressionNode, known: Mapping[str, str]) -> str | None:
    """Return the string that an expression is: a literal, literals put together, or a variable whose value is
    known; None for what has to be computed."""
    if node.node == "Literal":
        return node.value if node.type == "string" else None
    joins = node.node == "Concat" or (
        node.node == "UnresolvedFunction" and [part.lower() for part in node.parts] == ["concat"]
    )
    if joins:
        parts = [constant_text(child, known) for child in node.children]
        return None if any(part is None for part in parts) else "".join(part or "" for part in parts)
    if node.node == "UnresolvedAttribute":
        *qualifier, name = (part.lower() for part in node.parts)
        return known.get(name) if qualifier in ([], ["session"], ["system", "session"]) else None
    return None


def is_null(node: ExpressionNode) -> bool:
    """Whether an expression is NULL as it is written, whatever type it is given."""
    while node.node == "Cast" and len(node.children) == 1:
        node = node.children[0]
    return node.node == "Literal" and node.type == "void"


def write_string(text: str) -> str:
    """Return a string as a literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
