"""Which aggregate function is all of a value: what `count(x)` says of x is less than what `max(x)` says."""

from __future__ import annotations

import re

from gateway.sql.functions import AGGREGATES

_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\(([^'\"`]*)\)\s*\Z", re.ASCII)
"""Without quotes, whose ends it would take a lexer to find."""
_COMMENT = re.compile(r"--|/\*")


def aggregate_of(expression: str) -> str | None:
    """Return the built-in aggregate function that an expression is a call of, lower case.

    None when there is more in the expression, or when that cannot be told at a glance.
    """
    call = _CALL.match(expression)
    if call is None or _COMMENT.search(expression):
        return None
    depth = 0
    for sign in call[2]:
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return None
    name = call[1].lower()
    return name if depth == 0 and name in AGGREGATES else None
