"""UPDATE and DELETE of a table of which the principal sees a part: they change the rows that he sees.

The statement's condition is asked of rows that the filter leaves, and of no other: `coalesce(CASE WHEN filter
THEN condition END, FALSE)`. Spark makes AND of a CASE with FALSE beside it, and tries the two in any order: a
condition that fails on a value would tell of hidden rows. Not of one inside `coalesce`.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot.tokenizer_core import TokenType

from gateway.algebra.usage import Unclear
from gateway.model.catalog import TableKind, TableName
from gateway.model.reading import Reading, RelationRole, Span, Splice
from gateway.model.table_formats import METADATA_COLUMNS
from gateway.policy.masks import QUALIFIER
from gateway.sql.evaluate import Evaluation
from gateway.sql.functions import FILE_FUNCTIONS, builtin_name
from gateway.sql.required import Required, Unsupported
from gateway.sql.tokens import step, tokens_of

FORMATS: Final = frozenset({"delta", "iceberg"})
"""Formats whose rows Spark changes by any condition."""
WINDOWS: Final = frozenset({"UnresolvedWindowExpression", "WindowExpression"})
"""Expressions that are made of more than their row."""
PLACE: Final = "sluice condition"
"""Stands for the statement's own condition in what the proof is told."""
_WORD: Final = re.compile(r"\w+")
_CONDITION: Final = "{builtin}coalesce(CASE WHEN ({rows}) THEN ({own}) END, FALSE)"


def find_restricted_table(required: Required, reading: Reading, evaluation: Evaluation) -> TableName | None:
    """Return the table that a statement changes and of which it shall change visible rows alone; None where
    all of it is seen, or where the statement uses what is not.

    INVARIANT (no values under obligations): nothing in it asks for a masked column, nor for what is beside
    the table's own columns.
    """
    if not required.restricts or len(reading.commands) != 1 or len(required.read) != 1 or reading.parameters:
        return None
    name = required.read[0]
    table, view = evaluation.catalog.table(name), evaluation.view(name)
    if table is None or view is None or table.kind is not TableKind.TABLE or view.closed or view.hidden:
        return None
    # RULE (restricted-formats)
    if (table.provider or "").lower() not in FORMATS or (view.row_filter is None and not view.masks):
        return None
    # RULE (restricted-subqueries)
    if any(relation.role is RelationRole.SCAN for relation in reading.relations):
        return None
    if "LambdaFunction" in reading.expressions or any(column.star for column in reading.columns):
        return None
    if any(builtin_name(one.parts) in FILE_FUNCTIONS for one in reading.functions):
        return None
    # RULE (restricted-windows)
    if not WINDOWS.isdisjoint(reading.expressions):
        return None  # what is set would be made of hidden rows, too
    # RULE (restricted-masked-rows)
    if view.masks and any(one.access == "delete" for one in required.privileges):
        return None  # with a row goes what its masked columns hide
    words = {part.lower() for column in reading.columns for part in column.parts}
    masked = {column.lower() for column in view.masks}
    # RULE (restricted-metadata-columns)
    if words & METADATA_COLUMNS:
        return None  # the path of a file has the values of its partition
    # RULE (restricted-checks)
    if any(column in table.checks.lower() for column in masked):
        return None  # that a row fails a check would tell of what is masked in it
    # RULE (restricted-alias)
    if view.row_filter is not None and _hides_column(reading, view.row_filter.expression):
        return None
    # RULE (restricted-masked-columns)
    return None if words & masked else name


def _hides_column(reading: Reading, row_filter: str) -> bool:
    """Whether the filter would mean something else because of the name that the statement gives the table:
    to `t AS s` the field `s.owner` of a column is a column `owner`."""
    words = {word.lower() for word in _WORD.findall(row_filter)}
    return any(not words.isdisjoint(_WORD.findall(alias)) for alias in reading.subquery_aliases)


def restrict_rows(text: str, row_filter: str, *, bare: bool) -> Splice | Unsupported:
    """Return what puts the filter before the statement's condition."""
    try:
        tokens = tokens_of(text)
    except Unclear as why:
        return Unsupported(str(why))
    depth, where, end = 0, -1, len(text)
    for token in tokens:
        depth += step(token)
        if depth == 0 and token.token_type is TokenType.WHERE and where < 0:
            where = token.end + 1
        if token.token_type is TokenType.SEMICOLON:
            end = token.start
    if where < 0:
        return Unsupported(
            "a row filter applies to you, so UPDATE and DELETE need a condition: write WHERE TRUE for all "
            "rows that you see"
        )
    builtin = "" if bare else QUALIFIER
    # The line break keeps a comment at the end from swallowing the bracket.
    own = _CONDITION.format(builtin=builtin, rows=row_filter, own=f"{text[where:end]}\n")
    proved = _CONDITION.format(builtin=builtin, rows=row_filter, own=f"`{PLACE}`")
    return Splice(span=Span(where, end), text=f" {own}", kind="condition", query=proved, parts=(PLACE,))
