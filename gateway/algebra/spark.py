"""Spark's own parse of a text as relations and expressions; what has no row here is opaque."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Aliases,
    Cast,
    ColumnAliases,
    ConditionClause,
    Expression,
    Filter,
    Generate,
    InlineTable,
    Join,
    JoinKind,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Pivot,
    Projection,
    QueryKind,
    RelationNode,
    SetKind,
    SetOperation,
    Star,
    Subquery,
    SubqueryAlias,
    TableFunction,
    Unpivot,
    WindowCall,
    With,
)
from gateway.model.reading import ExpressionNode, Reading, read_tree

GROUPINGS: Final = frozenset("Cube GroupingSets Rollup".split())
"""Operators that make several groupings of one."""
OPERATORS: Final = GROUPINGS | frozenset(
    """
    Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Collate CreateNamedStruct Divide
    EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual ILike In IntegralDivide LessThan LessThanOrEqual
    Like LikeAll LikeAny Multiply Not NotLikeAll NotLikeAny Or RLike Remainder Subtract UnaryMinus
    UnaryPositive UnresolvedCollation UnresolvedExtractValue
    """.split()
)
"""Spark's classes of operators: each makes a value of one row, the same wherever it stands."""
_FUNCTIONS: Final = {
    "AnyValue": "any_value",
    "Coalesce": "coalesce",
    "Concat": "concat",
    "CurrentDate": "current_date",
    "CurrentTimestamp": "current_timestamp",
    "CurrentUser": "current_user",
    "First": "first",
    "If": "if",
    "IsNotNull": "isnotnull",
    "IsNull": "isnull",
    "Last": "last",
    "Lower": "lower",
    "StringTrim": "trim",
    "StringTrimLeft": "ltrim",
    "StringTrimRight": "rtrim",
    "Substring": "substring",
}
"""Classes that the parser makes of syntax where there is a function, too."""
MAX_REMEMBERED: Final = 1 << 20
"""Bytes of a tree that is remembered; what is larger, lineage asks for, and asks once."""
BY_SOURCE: Final = " by source"
"""Behind the name of an action of MERGE on rows that only the target has."""
_NATURAL: Final = "Natural"
"""Before the type of a join that is NATURAL."""


def relation_of(reading: Reading, base: int = 0) -> RelationNode | None:
    """Return the plan of a statement as a relation; None for a very large one, and for an expression. Places
    in it are counted from `base`."""
    tree = reading.tree_json
    if tree is None:
        return None
    return (_read_relation if len(tree) <= MAX_REMEMBERED else _read_relation.__wrapped__)(tree, base)


@lru_cache(maxsize=32)
def _read_relation(tree: bytes, base: int) -> RelationNode:
    """The same, remembered: several ask for it while one statement is judged."""
    return lower_relation(read_tree(tree, base))


def lower_relation(node: ExpressionNode) -> RelationNode:
    """Return a plan as a relation."""
    return _RELATIONS.get(node.node, _opaque)(node)


def lower_expression(node: ExpressionNode) -> Expression:
    return _EXPRESSIONS.get(node.node, _opaque_expression)(node)


def conjuncts(conditions: Iterable[Expression]) -> Iterator[Expression]:
    """Yield the conditions that have to hold, one by one."""
    waiting = list(conditions)[::-1]
    while waiting:
        condition = waiting.pop()
        if isinstance(condition, Operator) and condition.name == "And":
            waiting += condition.operands[::-1]
        else:
            yield condition


def _all(nodes: Iterable[ExpressionNode]) -> tuple[Expression, ...]:
    return tuple([lower_expression(node) for node in nodes])


# Expressions.


def _opaque_expression(node: ExpressionNode) -> Expression:
    plans = tuple(map(lower_relation, node.plans))
    return OpaqueExpression(_all(node.children), plans, node.node, span=node.span)


def _place(node: ExpressionNode) -> Expression:
    place = None if node.value is None else int(node.value)
    return OpaqueExpression(_all(node.children), (), node.node, place=place, span=node.span)


def _column(node: ExpressionNode) -> Expression:
    return NamedColumn(node.parts, span=node.span)


def _lower_sort_key(node: ExpressionNode) -> Expression:
    """What a row is sorted by, with the order in its place."""
    return replace(lower_expression(node.children[0]), span=node.span)


def _star(node: ExpressionNode) -> Expression:
    replaced = _all(node.children)
    if replaced and len(replaced) != len(node.without):
        return _opaque_expression(node)
    return Star(node.parts, fold(node.without), replaced, implied=node.span is None, span=node.span)


def _literal(node: ExpressionNode) -> Expression:
    return Literal(node.type, node.value, span=node.span)


def _operator(node: ExpressionNode) -> Expression:
    return Operator(node.node, _all(node.children), node.mode, span=node.span)


def _syntax(node: ExpressionNode) -> Expression:
    return NamedCall((_FUNCTIONS[node.node],), _all(node.children), span=node.span)


def _call(node: ExpressionNode) -> Expression:
    filtered = None if node.value is None else int(node.value)
    return NamedCall(node.parts, _all(node.children), filtered, span=node.span)


def _build_aggregate(node: ExpressionNode) -> Expression:
    """Of `first(x) FILTER (WHERE c)`, Spark keeps the condition around the function."""
    function, *conditions = node.children
    made = lower_expression(function)
    if not isinstance(made, NamedCall):
        return _opaque_expression(node)
    filtered = len(made.operands) if conditions else None
    return NamedCall(made.parts, (*made.operands, *_all(conditions)), filtered, span=node.span)


def _cast(node: ExpressionNode) -> Expression:
    return Cast(lower_expression(node.children[0]), node.type, node.mode == "TRY", span=node.span)


def _alias(node: ExpressionNode) -> Expression:
    return Alias(node.parts[0], lower_expression(node.children[0]), span=node.span)


def _aliases(node: ExpressionNode) -> Expression:
    return Aliases(node.parts, lower_expression(node.children[0]), span=node.span)


def _lambda(node: ExpressionNode) -> Expression:
    body, *variables = node.children
    if any(len(one.parts) != 1 for one in variables):
        return _opaque_expression(node)
    return Lambda(tuple([one.parts[0] for one in variables]), lower_expression(body), span=node.span)


def _table_argument(node: ExpressionNode) -> Expression:
    """`TABLE(t)`, or `TABLE(SELECT …)`, as an argument of a table function."""
    return _opaque_expression(node) if node.children else _query(QueryKind.TABLE)(node)


def _within(node: ExpressionNode) -> Expression:
    """What says nothing of its value: a name that is still to be given, the clause of a pipe."""
    return lower_expression(node.children[0])


def _window(node: ExpressionNode) -> Expression:
    function, *specified = node.children
    if [one.node for one in specified] != ["WindowSpecDefinition"]:
        return _opaque_expression(node)
    keys, bounds = [], []
    for child in specified[0].children:
        if child.node in ("SpecifiedWindowFrame", "UnspecifiedFrame"):
            bounds += [one for one in child.children if one.node not in _BOUNDS]
        else:
            keys.append(child)
    return WindowCall(lower_expression(function), _all(keys), _all(bounds), span=node.span)


_BOUNDS: Final = frozenset("CurrentRow UnboundedFollowing UnboundedPreceding".split())


def _query(kind: QueryKind) -> Callable[[ExpressionNode], Expression]:
    def lower(node: ExpressionNode) -> Expression:
        if node.children:
            return _opaque_expression(node)
        return Subquery(kind, lower_relation(node.plans[0]), span=node.span)

    return lower


def _in_query(node: ExpressionNode) -> Expression:
    *values, listed = node.children
    if listed.node != "ListQuery" or listed.children:
        return _opaque_expression(node)
    return Subquery(QueryKind.IN, lower_relation(listed.plans[0]), _all(values), span=node.span)


_EXPRESSIONS: Final[Mapping[str, Callable[[ExpressionNode], Expression]]] = {
    **dict.fromkeys(OPERATORS, _operator),
    **dict.fromkeys(_FUNCTIONS, _syntax),
    "AggregateExpression": _build_aggregate,
    "Alias": _alias,
    "FunctionTableSubqueryArgumentExpression": _table_argument,
    "LambdaFunction": _lambda,
    "MultiAlias": _aliases,
    "UnresolvedNamedLambdaVariable": _column,
    "UnresolvedStarExceptOrReplace": _star,
    "Cast": _cast,
    "Exists": _query(QueryKind.EXISTS),
    "InSubquery": _in_query,
    "Literal": _literal,
    "PipeExpression": _within,
    "ScalarSubquery": _query(QueryKind.SCALAR),
    "SortOrder": _lower_sort_key,
    "UnresolvedAlias": _within,
    "UnresolvedAttribute": _column,
    "UnresolvedFunction": _call,
    "UnresolvedGenerator": _call,
    "UnresolvedOrdinal": _literal,
    "UnresolvedPipeAggregateOrdinal": _place,
    "UnresolvedStar": _star,
    "WindowExpression": _window,
}


# Relations.


def _opaque(node: ExpressionNode) -> RelationNode:
    plans = tuple(map(lower_relation, node.plans))
    return OpaqueRelation(plans, _all(node.children), node.node, span=node.span)


def _merge(node: ExpressionNode) -> RelationNode:
    """A MERGE: its condition, and its actions, whose names tell what is on rows of the target alone."""
    condition, *actions = node.children
    others = sum(map(int, (node.value or "0 0").split()))
    named = [*actions[:others], *[replace(one, node=one.node + BY_SOURCE) for one in actions[others:]]]
    plans = tuple(map(lower_relation, node.plans))
    return OpaqueRelation(plans, _all((condition, *named)), node.node, span=node.span)


def _input(node: ExpressionNode) -> RelationNode:
    (below,) = node.plans
    return lower_relation(below)


def _scan(node: ExpressionNode) -> RelationNode:
    return NamedScan(node.parts, span=node.span)


def _one_row(node: ExpressionNode) -> RelationNode:
    return OneRow(span=node.span)


def _project(node: ExpressionNode) -> RelationNode:
    return Projection(_input(node), _all(node.children), span=node.span)


def _aggregate(node: ExpressionNode) -> RelationNode:
    count = int(node.value or 0)
    return Aggregate(_input(node), _all(node.children[:count]), _all(node.children[count:]), span=node.span)


def _filter(clause: ConditionClause) -> Callable[[ExpressionNode], RelationNode]:
    def lower(node: ExpressionNode) -> RelationNode:
        return Filter(_input(node), clause, tuple(conjuncts(_all(node.children))), span=node.span)

    return lower


def _join(node: ExpressionNode) -> RelationNode:
    natural = node.mode.startswith(_NATURAL)
    kind = _JOIN_KINDS.get(node.mode.removeprefix(_NATURAL))
    if kind is None or len(node.plans) != 2:
        return _opaque(node)
    left, right = map(lower_relation, node.plans)
    conditions = tuple(conjuncts(_all(node.children)))
    return Join(left, right, kind, conditions, node.parts, natural, span=node.span)


def _lateral(node: ExpressionNode) -> RelationNode:
    """A join whose right side is a query within an expression."""
    right, *conditions = node.children
    kind = _JOIN_KINDS.get(node.mode)
    if kind is None or right.node != "LateralSubquery" or right.children:
        return _opaque(node)
    on = tuple(conjuncts(_all(conditions)))
    below = lower_relation(right.plans[0])
    return Join(_input(node), below, kind, on, node.parts, lateral=True, span=node.span)


_JOIN_KINDS: Final = {kind.value: kind for kind in JoinKind}


def _set(node: ExpressionNode) -> RelationNode:
    if node.mode:
        return _opaque(node)  # by name, which no text says
    return SetOperation(SetKind(node.node), tuple(map(lower_relation, node.plans)), span=node.span)


def _generate(node: ExpressionNode) -> RelationNode:
    generator, *columns = node.children
    names = tuple([one.parts[-1] for one in columns if one.node == "UnresolvedAttribute"])
    return Generate(_input(node), lower_expression(generator), names, "".join(node.parts), span=node.span)


def _pivot(node: ExpressionNode) -> RelationNode:
    column, *others = _all(node.children)
    count = int(node.value or 0)
    values, aggregates = tuple(others[:count]), tuple(others[count:])
    return Pivot(_input(node), column, values, aggregates, span=node.span)


def _unpivot(node: ExpressionNode) -> RelationNode:
    variable, *names = node.parts
    values, width = _all(node.children), len(names)
    if len(values) % width:
        return _opaque(node)
    rows = tuple([values[start : start + width] for start in range(0, len(values), width)])
    return Unpivot(_input(node), variable, tuple(names), rows, span=node.span)


def _subquery_alias(node: ExpressionNode) -> RelationNode:
    return SubqueryAlias(_input(node), node.parts[0], span=node.span)


def _column_aliases(node: ExpressionNode) -> RelationNode:
    return ColumnAliases(_input(node), node.parts, span=node.span)


def _with(node: ExpressionNode) -> RelationNode:
    query, *definitions = map(lower_relation, node.plans)
    pairs = tuple(zip(node.parts, definitions, strict=True))
    return With(query, pairs, node.mode == "RECURSIVE", span=node.span)


def _values(node: ExpressionNode) -> RelationNode:
    return InlineTable(node.parts, _all(node.children), span=node.span)


def _table_function(node: ExpressionNode) -> RelationNode:
    return TableFunction(node.parts, _all(node.children), span=node.span)


def _drop(node: ExpressionNode) -> RelationNode:
    """What `|> DROP` leaves: all columns but some."""
    if any(one.node != "UnresolvedAttribute" for one in node.children):
        return _opaque(node)
    left = Star(excluded=fold([one.parts for one in node.children]), implied=True)
    return Projection(_input(node), (left,), span=node.span)


def _windows(node: ExpressionNode) -> RelationNode:
    """Put what WINDOW says in the places of its names, which is all that it does."""
    windows = dict(zip([name.lower() for name in node.parts], node.children[-len(node.parts) :], strict=True))
    (below,) = node.plans
    return lower_relation(_with_windows(below, windows))


def _with_windows(node: ExpressionNode, windows: Mapping[str, ExpressionNode]) -> ExpressionNode:
    children = tuple([_with_windows(one, windows) for one in node.children])
    plans = tuple([_with_windows(one, windows) for one in node.plans])
    if node.node == "UnresolvedWindowExpression" and (meant := windows.get(node.parts[0].lower())):
        return replace(node, node="WindowExpression", parts=(), children=(*children, meant))
    return replace(node, children=children, plans=plans)


def fold(names: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    """Return names in lower case."""
    return tuple([tuple([part.lower() for part in parts]) for parts in names])


def _pass(why: Passing) -> Callable[[ExpressionNode], RelationNode]:
    def lower(node: ExpressionNode) -> RelationNode:
        return Pass(_input(node), why, _all(node.children), span=node.span)

    return lower


_RELATIONS: Final[Mapping[str, Callable[[ExpressionNode], RelationNode]]] = {
    "Aggregate": _aggregate,
    "DataFrameDropColumns": _drop,
    "Distinct": _pass(Passing.DISTINCT),
    "Except": _set,
    "Filter": _filter(ConditionClause.WHERE),
    "Generate": _generate,
    "GlobalLimit": _pass(Passing.LIMIT),
    "Intersect": _set,
    "Join": _join,
    "LateralJoin": _lateral,
    "LimitAll": _pass(Passing.LIMIT),
    "LocalLimit": _pass(Passing.LIMIT),
    "Offset": _pass(Passing.LIMIT),
    "MergeIntoTable": _merge,
    "OneRowRelation": _one_row,
    "PipeOperator": _pass(Passing.PIPE),
    "Pivot": _pivot,
    "Project": _project,
    "RebalancePartitions": _pass(Passing.REPARTITION),
    "Repartition": _pass(Passing.REPARTITION),
    "RelationTimeTravel": _pass(Passing.VERSION),
    "RepartitionByExpression": _pass(Passing.REPARTITION),
    "Sample": _pass(Passing.SAMPLE),
    "Sort": _pass(Passing.SORT),
    "SubqueryAlias": _subquery_alias,
    "Union": _set,
    "Unpivot": _unpivot,
    "UnresolvedHaving": _filter(ConditionClause.HAVING),
    "UnresolvedHint": _pass(Passing.HINT),
    "UnresolvedInlineTable": _values,
    "UnresolvedQualify": _filter(ConditionClause.QUALIFY),
    "UnresolvedRelation": _scan,
    "UnresolvedSubqueryColumnAliases": _column_aliases,
    "UnresolvedTVFAliases": _column_aliases,
    "UnresolvedTableValuedFunction": _table_function,
    "UnresolvedWith": _with,
    "WithWindowDefinition": _windows,
}
