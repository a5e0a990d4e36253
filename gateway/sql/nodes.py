"""Which logical plan nodes a query may be made of; a node in neither table is refused like a refused one.

Names are Spark's simple class names without a trailing `$`. The allow-list is what the parser of Spark 4.3
can put into a query and what only combines, filters, orders or renames the rows of its children: such a
node shows nothing that its scans do not, and a scan is always guarded. Derived from every plan class that
`AstBuilder` and `SparkSqlAstBuilder` refer to; tests/sql/test_totality.py has a statement for each.
"""

from __future__ import annotations

from typing import Final

QUERY_NODES: Final = frozenset(
    # RULE (no-relation-changes)
    {
        # rows from nowhere, or from a name that the walk reports as a relation or function
        "OneRowRelation",
        "UnresolvedInlineTable",
        "UnresolvedRelation",
        "UnresolvedTableValuedFunction",
        # rows of one child
        "Aggregate",
        "Distinct",
        "Filter",
        "Generate",
        "GlobalLimit",
        "LimitAll",
        "LocalLimit",
        "Offset",
        "PipeOperator",
        "Pivot",
        "Project",
        "RelationTimeTravel",  # the clause moves inside the guarded relation
        "RepartitionByExpression",
        "Sample",
        "Sort",
        "Unpivot",
        "UnresolvedBinBy",
        "UnresolvedHaving",
        "UnresolvedHint",  # its arguments are names of aliases, never relations
        "UnresolvedQualify",
        "WithWindowDefinition",
        # rows of several children
        "Except",
        "Intersect",
        "Join",
        "LateralJoin",
        "NearestByJoin",
        "Union",
        # names
        "SubqueryAlias",
        "UnresolvedSubqueryColumnAliases",
        "UnresolvedTVFAliases",
        "UnresolvedWith",
    }
)

_SCRIPT: Final = "SQL scripts are governed where a client sends them by themselves"
_STREAM: Final = "streaming reads are not supported here"
_UNKNOWN_NAME: Final = "the argument of IDENTIFIER(…) must be a string literal with the whole name"

REFUSED_NODES: Final[dict[str, str]] = {
    "AutoCdcInto": "change-data flows belong to pipelines, which are not supported",
    "CloseCursor": _SCRIPT,
    "CompoundBody": _SCRIPT,
    "DeclareCursor": _SCRIPT,
    "ErrorCondition": _SCRIPT,
    "ExceptionHandler": _SCRIPT,
    "FetchCursor": _SCRIPT,
    "ForStatement": _SCRIPT,
    "IfElseStatement": _SCRIPT,
    "IterateStatement": _SCRIPT,
    "LeaveStatement": _SCRIPT,
    "LoopStatement": _SCRIPT,
    "NamedStreamingRelation": _STREAM,
    "OpenCursor": _SCRIPT,
    "PlanWithUnresolvedIdentifier": _UNKNOWN_NAME,
    "RelationChanges": "a table's change feed would show rows that its row filter hides",
    "RepeatStatement": _SCRIPT,
    "SearchedCaseStatement": _SCRIPT,
    "SimpleCaseStatement": _SCRIPT,
    "SingleStatement": _SCRIPT,
    "UnresolvedEventTimeWatermark": _STREAM,
    "UnresolvedExecuteImmediate": "EXECUTE IMMEDIATE runs a statement that is not known in advance",
    "UnresolvedInsert": _UNKNOWN_NAME,
    "UnresolvedInsertTarget": _UNKNOWN_NAME,
    "WhileStatement": _SCRIPT,
}
"""Deliberately left out, each with the reason that a refusal tells."""


def node_refusal(node: str) -> str | None:
    """Return why a node may not stand in a query, or None when it may."""
    if node in QUERY_NODES:  # RULE (unknown-node-reason)
        return None
    return REFUSED_NODES.get(node, f"`{node}` is not supported in queries")
