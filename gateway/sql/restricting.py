"""UPDATE, DELETE and MERGE of a table of which the principal sees a part: they change the rows that he sees.

The statement's condition is asked of rows that the filter leaves, and of no other: `coalesce(CASE WHEN filter
THEN condition END, FALSE)`. Spark makes AND of a CASE with FALSE beside it, and tries the two in any order: a
condition that fails on a value would tell of hidden rows. Not of one inside `coalesce`.

To a MERGE hidden rows are not there (`gateway/sql/merging.py`): its condition never holds for one, so that a
row of the source that has none but hidden ones beside it is not matched; and what it does to rows that are
not in the source it does to visible ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sqlglot.tokenizer_core import TokenType

from gateway.algebra.nodes import (
    Expression,
    Lambda,
    NamedColumn,
    NamedScan,
    OpaqueExpression,
    OpaqueRelation,
    RelationNode,
    Star,
    Subquery,
    SubqueryAlias,
    WindowCall,
)
from gateway.algebra.spark import BY_SOURCE, relation_of
from gateway.algebra.usage import Unclear
from gateway.algebra.walking import parts_of
from gateway.model.catalog import TableKind, TableName
from gateway.model.reading import Reading, RelationRole, Span, Splice
from gateway.model.table_formats import METADATA_COLUMNS
from gateway.policy.masks import QUALIFIER
from gateway.sql.classify import is_builtin
from gateway.sql.evaluate import Evaluation
from gateway.sql.functions import FILE_FUNCTIONS, builtin_name
from gateway.sql.required import Required, Unsupported
from gateway.sql.tokens import step, tokens_of
from gateway.sql.varying import QUERIES

FORMATS: Final = frozenset({"delta", "iceberg"})
"""Formats whose rows Spark changes by any condition."""
WINDOWS: Final = frozenset({"UnresolvedWindowExpression", "WindowExpression"})
"""Expressions that are made of more than their row."""
PLACE: Final = "sluice condition"
"""Stands for the statement's own condition in what the proof is told."""
MERGE: Final = "MergeIntoTable"
_WORD: Final = re.compile(r"\w+")
_CONDITION: Final = "{builtin}coalesce(CASE WHEN ({rows}) THEN ({own}) END, FALSE)"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """What a statement that changes rows uses of their table."""

    words: frozenset[str]
    """The parts of all names that may be columns of the table, lower case."""
    every_column: bool = False
    """Whether it sets all columns: `UPDATE SET *`."""
    aliases: frozenset[str] = frozenset()
    """What it calls the table, where the filter's columns stand without a qualifier."""


_ReadChange = Callable[[], RowChange | None]


def find_restricted_table(required: Required, reading: Reading, evaluation: Evaluation) -> TableName | None:
    """Return the table that a statement changes and of which it shall change visible rows alone; None where
    all of it is seen, or where the statement uses what is not."""
    if not required.restricts or len(reading.commands) != 1 or reading.parameters:
        return None
    return find_changed_table(required, evaluation, lambda: _read_change(reading))


def find_changed_table(
    required: Required, evaluation: Evaluation, read_change: _ReadChange
) -> TableName | None:
    """Return the same of a command whose use of the table `read_change` tells, if it can be told.

    INVARIANT (no values under obligations): nothing in it asks for a masked column, nor for what is beside
    the table's own columns.
    """
    if len(required.read) != 1:
        return None
    name = required.read[0]
    table, view = evaluation.catalog.table(name), evaluation.view(name)
    if table is None or view is None or table.kind is not TableKind.TABLE or view.closed or view.hidden:
        return None
    # RULE (restricted-formats)
    if (table.provider or "").lower() not in FORMATS or (view.row_filter is None and not view.masks):
        return None
    change = read_change()
    if change is None:
        return None
    # RULE (restricted-masked-rows)
    if view.masks and any(one.access == "delete" for one in required.privileges):
        return None  # with a row goes what its masked columns hide
    # RULE (restricted-every-column)
    if view.masks and change.every_column:
        return None
    masked = {column.lower() for column in view.masks}
    # RULE (restricted-metadata-columns)
    if change.words & METADATA_COLUMNS:
        return None  # the path of a file has the values of its partition
    # RULE (restricted-checks)
    if any(column in table.checks.lower() for column in masked):
        return None  # that a row fails a check would tell of what is masked in it
    # RULE (restricted-alias)
    if view.row_filter is not None and _hides_column(change.aliases, view.row_filter.expression):
        return None
    # RULE (restricted-masked-columns)
    return None if change.words & masked else name


def _hides_column(aliases: frozenset[str], row_filter: str) -> bool:
    """Whether the filter would mean something else because of the name that the statement gives the table:
    to `t AS s` the field `s.owner` of a column is a column `owner`."""
    words = {word.lower() for word in _WORD.findall(row_filter)}
    return any(not words.isdisjoint(_WORD.findall(alias)) for alias in aliases)


def _read_change(reading: Reading) -> RowChange | None:
    if any(builtin_name(one.parts) in FILE_FUNCTIONS for one in reading.functions):
        return None
    # Spark runs code of its users' for each row before it looks at the condition around it.
    # RULE (restricted-code)
    if not all(map(is_builtin, reading.functions)):
        return None
    if reading.commands[0].node == MERGE:
        tree = relation_of(reading)
        return read_merge(tree) if isinstance(tree, OpaqueRelation) and tree.name == MERGE else None
    # RULE (restricted-subqueries)
    if QUERIES & reading.expressions or any(one.role is RelationRole.SCAN for one in reading.relations):
        return None
    if "LambdaFunction" in reading.expressions or any(column.star for column in reading.columns):
        return None
    # RULE (restricted-windows)
    if not WINDOWS.isdisjoint(reading.expressions):
        return None  # what is set would be made of hidden rows, too
    return RowChange(
        words=frozenset(part.lower() for column in reading.columns for part in column.parts),
        aliases=frozenset(reading.subquery_aliases),
    )


def name_of(relation: RelationNode) -> str:
    """Return the one name by which columns of a side of a MERGE are told from those of the other, lower
    case; empty where it has none."""
    match relation:
        case SubqueryAlias():
            return relation.name.lower()
        case NamedScan():
            return relation.parts[-1].lower()
        case _:
            return ""


def read_merge(merge: OpaqueRelation) -> RowChange | None:
    """Return what a MERGE uses of its target; None where that cannot be told.

    What it inserts is made of its source alone, which is read like any other relation.
    """
    target, source = map(name_of, merge.inputs)
    on, *actions = merge.expressions
    asked, every_column = [on], False
    for action in actions:
        if not isinstance(action, OpaqueExpression):
            return None
        every_column = every_column or action.name.removesuffix(BY_SOURCE) == "UpdateStarAction"
        if action.name.startswith("Insert"):
            if not all(map(_is_of_one_row, action.operands)):
                return None
        else:
            asked += action.operands
    if not all(map(_is_of_one_row, asked)):
        return None
    names = (one.parts for each in asked for one in parts_of(each) if isinstance(one, NamedColumn))
    other = "" if source == target else source
    return RowChange(
        words=frozenset(word for parts in names for word in _words(parts, other)), every_column=every_column
    )


def _is_of_one_row(expression: Expression) -> bool:
    """Whether an expression is made of its row, and names what it uses."""
    for one in parts_of(expression):
        if isinstance(one, Subquery | Lambda | Star | WindowCall):  # RULE (restricted-merge-expressions)
            return False
        if isinstance(one, OpaqueExpression) and one.relations:
            return False
    return True


def _words(parts: tuple[str, ...], source: str) -> Iterator[str]:
    """Yield the words of a reference that may name columns of the target: all but `source.column`, since what
    is longer may begin with the target's database."""
    first, *others = [part.lower() for part in parts]
    yield first
    # RULE (restricted-source-columns, restricted-source-like-database)
    if not (len(others) == 1 and source and first == source):
        yield from others


def restrict_condition(rows: str, own: str, *, bare: bool) -> str:
    """Return a condition that is asked of no row but those for which `rows` holds."""
    return _CONDITION.format(builtin="" if bare else QUALIFIER, rows=rows, own=own)


def require_both(own: str, asked: str) -> str:
    """Return a condition that asks another one of the rows for which it holds."""
    return f"CASE WHEN ({own}) THEN ({asked}) ELSE FALSE END" if own else f"({asked})"


def restrict_rows(text: str, row_filter: str, asked: str = "", *, bare: bool) -> Splice | Unsupported:
    """Return what puts the filter before the condition of an UPDATE or DELETE; and behind it what is `asked`
    of the rows that are changed."""
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
    # The line break keeps a comment at the end from swallowing the bracket.
    own, proved = (
        restrict_condition(row_filter, require_both(one, asked) if asked else one, bare=bare)
        for one in (f"{text[where:end]}\n", f"`{PLACE}`")
    )
    return Splice(span=Span(where, end), text=f" {own}", kind="condition", query=proved, parts=(PLACE,))
