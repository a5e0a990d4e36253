"""Which expressions may stand in a statement; a class in none of these tables is refused.

Names are Spark's simple class names without a trailing `$`. Functions that are called by name arrive as
`UnresolvedFunction` and are judged by that name (`functions.py`); what is listed here is syntax.
"""

from __future__ import annotations

from typing import Final

QUERY_EXPRESSIONS: Final = frozenset(
    # RULE (no-regex-columns)
    {
        # names and literals
        "Alias",
        "CurrentPath",
        "Literal",
        "MultiAlias",
        "NamePlaceholder",
        "UnresolvedAlias",
        "UnresolvedAttribute",
        "UnresolvedExtractValue",
        "UnresolvedNamedLambdaVariable",
        "UnresolvedOrdinal",
        "UnresolvedPipeAggregateOrdinal",
        "UnresolvedStar",
        "UnresolvedStarExceptOrReplace",
        # arithmetic, bits, comparison, logic
        "Add",
        "And",
        "BitwiseAnd",
        "BitwiseNot",
        "BitwiseOr",
        "BitwiseXor",
        "Divide",
        "EqualNullSafe",
        "EqualTo",
        "GreaterThan",
        "GreaterThanOrEqual",
        "ILike",
        "In",
        "IntegralDivide",
        "IsNotNull",
        "IsNotUnknown$anon",
        "IsNull",
        "IsUnknown$anon",
        "LessThan",
        "LessThanOrEqual",
        "Like",
        "LikeAll",
        "LikeAny",
        "Multiply",
        "Not",
        "NotLikeAll",
        "NotLikeAny",
        "Or",
        "RLike",
        "Remainder",
        "ShiftLeft",
        "ShiftRight",
        "ShiftRightUnsigned",
        "Subtract",
        "UnaryMinus",
        "UnaryPositive",
        # syntax that the parser turns into a function at once
        "AggregateExpression",
        "AnyValue",
        "CaseWhen",
        "Cast",
        "Coalesce",
        "Collate",
        "Concat",
        "CreateNamedStruct",
        "CurrentDate",
        "CurrentTime",
        "CurrentTimestamp",
        "CurrentUser",
        "First",
        "JsonTable",
        "Last",
        "Lower",
        "Overlay",
        "PercentileCont",  # before 4.0, as the next one
        "PercentileDisc",
        "SemiStructuredExtract",
        "StringLocate",
        "StringTrim",
        "StringTrimLeft",
        "StringTrimRight",
        "Substring",
        "TimestampAdd",
        "TimestampDiff",
        "Unnest",
        "UnresolvedCollation",
        # calls, generators, lambdas
        "LambdaFunction",
        "NamedArgumentExpression",
        "PipeExpression",
        "UnresolvedFunction",
        "UnresolvedGenerator",
        # grouping, ordering, windows
        "Cube",
        "CurrentRow",
        "GroupingSets",
        "Rollup",
        "SortOrder",
        "SpecifiedWindowFrame",
        "UnboundedFollowing",
        "UnboundedPreceding",
        "UnresolvedWindowExpression",
        "UnspecifiedFrame",
        "WindowExpression",
        "WindowSpecDefinition",
        # queries inside expressions: their plans are walked like any other
        "Exists",
        "FunctionTableSubqueryArgumentExpression",
        "InSubquery",
        "LateralSubquery",
        "ListQuery",
        "ScalarSubquery",
    }
)

COMMAND_EXPRESSIONS: Final = frozenset(
    {
        # the columns of the answer of SHOW and DESCRIBE, which Spark itself writes into the command
        "AttributeReference",
        # column lists, defaults and constraints of CREATE and ALTER TABLE
        "AlterColumnSpec",
        "CheckConstraint",
        "ColumnDefinition",
        "DefaultValueExpression",
        "ForeignKeyConstraint",
        "GeneratedColumnExpression",
        "OptionList",
        "PrimaryKeyConstraint",
        "QualifiedColType",
        "UniqueConstraint",
        "UnresolvedFieldName",
        "UnresolvedFieldPosition",
        "UnresolvedPartitionSpec",
        "UnresolvedTableSpec",
        # INSERT, UPDATE and MERGE
        "Assignment",
        "DeleteAction",
        "InsertAction",
        "InsertStarAction",
        "UpdateAction",
        "UpdateStarAction",
    }
)
"""Parts of commands, never of queries; whoever judges the command reads them."""

PARAMETERS: Final = frozenset({"NamedParameter", "PosParameter"})
"""Markers of arguments that come beside the text; `parameters.py` says where they may stand."""

_PARAMETER: Final = (
    "[UNBOUND_SQL_PARAMETER] parameter markers have no value here; give `args`, or write the value into the "
    "statement. SQLSTATE: 42P02"
)
"""In Spark's words, since no argument came with the text."""

_REPLACE: Final = "INSERT … REPLACE reads the target's raw rows"

REFUSED_EXPRESSIONS: Final[dict[str, str]] = {
    "ExpressionWithUnresolvedIdentifier": (
        "the argument of IDENTIFIER(…) must be a string literal with the whole name"
    ),
    "InsertReplaceOn": _REPLACE,
    "InsertReplaceUsing": _REPLACE,
    "InsertReplaceWhere": _REPLACE,
    "GetViewColumnByNameAndOrdinal": "it is only supported in view definitions that Spark itself expands",
    "NamedParameter": _PARAMETER,
    "PosParameter": _PARAMETER,
    "UnresolvedCursor": "SQL cursors belong to scripts, which are not supported",
    "UnresolvedRegex": "columns selected by a regular expression are not known in advance",
    "VariableReference": "the value of a session variable is not known in advance",
}
"""Deliberately left out, each with the reason that a refusal tells."""


def expression_refusal(expression: str, *, command: bool = False) -> str | None:
    """Return why an expression may not stand in a query (or in a command), or None when it may."""
    # RULE (command-expressions-apart)
    if expression in QUERY_EXPRESSIONS or (command and expression in COMMAND_EXPRESSIONS):
        return None
    return REFUSED_EXPRESSIONS.get(expression, f"`{expression}` is not a supported expression")
