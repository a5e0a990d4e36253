"""Of how many rows an expression is made, and whether it is the same whatever other rows there are."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from gateway.algebra.nodes import (
    Aliases,
    Expression,
    Lambda,
    NamedCall,
    OpaqueExpression,
    Operator,
    RelationNode,
    Star,
    Subquery,
    WindowCall,
)
from gateway.algebra.spark import GROUPINGS
from gateway.algebra.walking import nodes_of
from gateway.sql.functions import AGGREGATES, ROW_WISE_FUNCTIONS, VARYING_BY_ROW, builtin_name

NUMBERING = frozenset("dense_rank rank row_number".split())
"""Functions that number the rows of a window."""


def is_row_wise(expression: Expression) -> bool:
    """Whether an expression is of one row."""
    return _calls(expression, ROW_WISE_FUNCTIONS, listed=False)


def is_group_wise(expression: Expression) -> bool:
    """Whether an expression is of one group of rows, and the same whatever other groups there are."""
    return _calls(expression, ROW_WISE_FUNCTIONS | AGGREGATES, listed=False)


def may_be_shown(expression: Expression) -> bool:
    """Whether an expression is of one row, one group or one window, and varies by nothing else."""
    return _calls(expression, ROW_WISE_FUNCTIONS | AGGREGATES | NUMBERING, listed=True)


def _calls(expression: Expression, functions: AbstractSet[str], *, listed: bool) -> bool:
    """Whether an expression calls no other functions, and is known throughout; `listed`: it may have stars,
    windows and groupings in it."""
    match expression:
        case OpaqueExpression() | Aliases() | Lambda():
            return False
        case Star() | WindowCall() if not listed:
            return False
        case Operator(name=name) if name in GROUPINGS and not listed:
            return False
        case NamedCall(parts=parts) if builtin_name(parts) not in functions:
            return False
        case Subquery() if not is_steady(expression.relation):  # RULE (varying-subquery)
            return False
    return all(_calls(one, functions, listed=listed) for one in expression.operands)


def is_steady(query: RelationNode) -> bool:
    """Whether a query calls nothing that varies by row: Spark may write a small one out where it stands."""
    names = [builtin_name(node.parts) for node in nodes_of(query) if isinstance(node, NamedCall)]
    return all(name is not None and name not in VARYING_BY_ROW for name in names)
