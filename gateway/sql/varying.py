"""Whether the rows of a text are the same for everybody and at any time, so that Spark's cache may keep them.

Spark keeps cached rows by the analysed plan, for every session of the server: whoever asks for the same plan
gets them. Functions of the instant and of the session stand in that plan as functions, not as their values,
and Spark does not drop the rows when a table changes that is read within an expression.

INVARIANT (now): what is cached holds none of these. Then the same plan means the same rows, whoever asks and
whenever, and no plan with a row filter or mask that depends on one of them can be answered by the cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gateway.model.reading import FunctionRef, Reading, RelationRole
from gateway.sql.functions import (
    CODE_FUNCTIONS,
    OF_THE_INSTANT,
    OF_THE_SESSION,
    VARYING_BY_ROW,
    builtin_name,
)
from gateway.sql.names import Names, TempViewName
from gateway.sql.required import Unsupported

_CHANGING = OF_THE_INSTANT | OF_THE_SESSION | CODE_FUNCTIONS
_EXPRESSIONS = frozenset({"CurrentDate", "CurrentPath", "CurrentTime", "CurrentTimestamp"})
QUERIES = frozenset(
    {
        "Exists",
        "FunctionTableSubqueryArgumentExpression",
        "InSubquery",
        "LateralSubquery",
        "ListQuery",
        "ScalarSubquery",
    }
)
"""Expressions that hold a query."""
_SPECIAL = re.compile(r"'\s*(?:now|today|tomorrow|yesterday)\b", re.IGNORECASE)
"""Strings that a cast to a date or a timestamp takes for an instant; as a date they are elsewhere too, which
is more than need be."""


def find_varying(text: str, reading: Reading) -> str | None:
    """Return what of a text makes its rows change with time or session, in words, or None.

    Who the user is does not count: that is bound as a literal (`sql/identity.py`), or told apart.
    """
    found = find_varying_function(reading.functions)
    found = found or next(
        filter(None, (find_varying_column(c.parts) for c in reading.columns if not c.star)), None
    )
    if found is not None:
        return found
    if "ScriptTransformation" in reading.nodes:  # RULE (transform-not-cached)
        return "it runs a program of its own"
    for expression in sorted(_EXPRESSIONS & reading.expressions):
        return f"it uses `{expression}`"
    if names_instant(text):
        return "it has a date or time literal such as `now` or `today`"
    if QUERIES & reading.expressions and any(r.role is RelationRole.SCAN for r in reading.relations):
        return WITHIN
    return None


WITHIN = "it reads a table in a subquery expression, where Spark does not refresh cached rows; write a join"


def names_instant(text: str) -> bool:
    """Whether a text has a string that a date or timestamp could be read from which changes, as `'now'`."""
    return _SPECIAL.search(text) is not None


def names_session(reading: Reading) -> bool:
    """Whether a text asks for the session's catalog, database or time zone, which its user chooses."""
    words = {builtin_name(function.parts) for function in reading.functions}
    words |= {column.parts[0].lower() for column in reading.columns if len(column.parts) == 1}
    return "CurrentPath" in reading.expressions or not OF_THE_SESSION.isdisjoint(words)


def find_varying_function(functions: Iterable[FunctionRef]) -> str | None:
    """Return why a call makes rows change; a function that is not Spark's own may do anything."""
    for function in functions:
        name = builtin_name(function.parts)
        if name is None or not (len(function.parts) > 1 or function.builtin):
            return f"it calls `{'.'.join(function.parts)}`, which is not a built-in function"
        if name in _CHANGING:
            return f"it calls `{name}`"
    return None


def may_vary_by_row(functions: Iterable[FunctionRef]) -> bool:
    """Whether a call may give a row another value where other rows are read before it."""
    return any(
        (name := builtin_name(function.parts)) is None
        or name in VARYING_BY_ROW
        or not (len(function.parts) > 1 or function.builtin)
        for function in functions
    )


def find_varying_column(parts: tuple[str, ...]) -> str | None:
    """Return why a reference makes rows change: where no column has its name, it is a function."""
    return f"it calls `{parts[0]}`" if len(parts) == 1 and parts[0].lower() in _CHANGING else None


def find_varying_view(view: TempViewName, names: Names) -> str | None:
    """Return why the rows of a temporary view change, in words."""
    if view.name.lower() not in names.context.varying_views:
        return None
    return f"the temporary view `{view.name}` depends on time or on the user"


def not_cached(why: str) -> Unsupported:
    return Unsupported(
        f"Spark would show its cached rows at later times and to other users, and {why}; save the rows as "
        "a table if that is intended"
    )
