"""A plan of Spark Connect as the relation that the same query in SQL is (`gateway.algebra`).

Which conditions of a statement may stand below a barrier, and whether one is needed, is found out from that
(`gateway.sql.leakproof`, `gateway.sql.total`). A plan is one only if every message in it has a meaning here;
all others keep their barriers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Never

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Cast,
    ConditionClause,
    Expression,
    Filter,
    Join,
    JoinKind,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    Operator,
    Pass,
    Passing,
    Projection,
    RelationNode,
    Star,
    SubqueryAlias,
    queries_in,
)
from gateway.algebra.resolve import infer_name
from gateway.algebra.spark import conjuncts, lower_expression
from gateway.model.reading import ExpressionNode
from gateway.plan.identifiers import attribute_parts
from gateway.sql.leakproof_copies import MAX_DIGITS, NUMBER
from gateway.sql.total_values import WORDS
from gateway.wire.connect import pb

_JOINS: Final = {
    pb.Join.JOIN_TYPE_INNER: JoinKind.INNER,
    pb.Join.JOIN_TYPE_FULL_OUTER: JoinKind.FULL_OUTER,
    pb.Join.JOIN_TYPE_LEFT_OUTER: JoinKind.LEFT_OUTER,
    pb.Join.JOIN_TYPE_RIGHT_OUTER: JoinKind.RIGHT_OUTER,
    pb.Join.JOIN_TYPE_LEFT_ANTI: JoinKind.LEFT_ANTI,
    pb.Join.JOIN_TYPE_LEFT_SEMI: JoinKind.LEFT_SEMI,
    pb.Join.JOIN_TYPE_CROSS: JoinKind.CROSS,
}
_OPERATORS: Final = {
    "!": "Not",
    "*": "Multiply",
    "+": "Add",
    "-": "Subtract",
    "<": "LessThan",
    "<=": "LessThanOrEqual",
    "<=>": "EqualNullSafe",
    "=": "EqualTo",
    "==": "EqualTo",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqual",
    "and": "And",
    "in": "In",
    "not": "Not",
    "or": "Or",
    "when": "CaseWhen",
}
"""Functions by which clients write what SQL has operators for."""
_UNARY: Final = frozenset({"!", "isnotnull", "isnull", "not"})
_BINARY: Final = frozenset("* + - < <= <=> = == > >= and or".split())
_LITERALS: Final = {
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
}
_PLAIN_TYPES: Final = {
    "boolean": "boolean",
    "byte": "tinyint",
    "date": "date",
    "double": "double",
    "float": "float",
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "string": "string",
    "timestamp": "timestamp",
}
_PLAIN_NAME = re.compile(r"[^\W\d]\w*\Z")
"""A name that Spark makes of no call and no operator."""


@dataclass(frozen=True, slots=True)
class PlanTree:
    """A plan's tree, and what names in it mean that no name says."""

    tree: RelationNode
    by_plan: frozenset[str]
    """Columns, lower case, that are asked for by the DataFrame that has them. Spark finds them there, and not
    by their names in what they are used on."""
    made: frozenset[str]
    """Names, lower case, that the plan gives to what it makes, and plain ones that Spark does."""

    def of_one_type(self, scanned: Sequence[Mapping[str, str]]) -> bool:
        """Whether every column that is asked for by its DataFrame has the type of all columns of its name.
        `scanned` are all tables that the plan reads, with their columns' types, empty where not known.

        INVARIANT (total): Spark finds such a column behind a projection that hides it, too, where by its name
        it would be another, or a word like `user`.
        """
        types = [{kind.lower() for kind in _list_types(name, scanned)} for name in self.by_plan]
        plain = all(_PLAIN_NAME.match(name) and name not in WORDS for name in self.by_plan)
        return (
            plain
            and self.by_plan.isdisjoint(self.made)
            and all(len(kinds) == 1 and "" not in kinds for kinds in types)
        )

    def of_one_table(self, scanned: Sequence[Mapping[str, str]]) -> bool:
        """Whether there is no other column of its name."""
        return self.by_plan.isdisjoint(self.made) and all(
            len(_list_types(name, scanned)) == 1 for name in self.by_plan
        )


def _list_types(name: str, scanned: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the types of all columns of a name."""
    return [kind for columns in scanned for column, kind in columns.items() if column.lower() == name]


class _NoTree(Exception):
    """A message has no meaning here."""


def tree_of_plan(
    relation: pb.Relation,
    reads: Mapping[int, NamedScan],
    expressions: Mapping[int, ExpressionNode | None],
) -> PlanTree | None:
    """Return what a relation of a plan is, None where it is not known.

    `reads` are what stands for the relations that read tables, and `expressions` the trees of texts of SQL
    expressions, by the identity of their messages.
    """
    trees = _Trees(reads, expressions)
    try:
        tree = trees.plan(relation)
    except _NoTree:
        return None
    return PlanTree(tree, frozenset(trees.by_plan), frozenset(trees.made))


@dataclass(slots=True)
class _Trees:
    reads: Mapping[int, NamedScan]
    texts: Mapping[int, ExpressionNode | None]
    by_plan: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)

    def plan(self, relation: pb.Relation) -> RelationNode:
        known = self.reads.get(id(relation))
        if known is not None:
            return known
        case = relation.WhichOneof("rel_type") or ""
        make = _PLANS.get(case)
        if make is None:
            raise _NoTree
        return make(self, getattr(relation, case))

    def filter(self, message: pb.Filter) -> RelationNode:
        conditions = tuple(conjuncts([self.expression(message.condition)]))
        return Filter(self.plan(message.input), ConditionClause.WHERE, conditions)

    def project(self, message: pb.Project) -> RelationNode:
        if not message.HasField("input"):
            raise _NoTree
        return Projection(self.plan(message.input), self._items(message.expressions))

    def with_columns(self, message: pb.WithColumns) -> RelationNode:
        """A column of a name that there is already stands beside that: which one is meant is not followed."""
        aliases = [self._lower_alias(alias) for alias in message.aliases]
        return Projection(self.plan(message.input), (Star(), *aliases))

    def sort(self, message: pb.Sort) -> RelationNode:
        keys = [self.expression(one.child) for one in message.order]
        return Pass(self.plan(message.input), Passing.SORT, tuple(keys))

    def limit(self, message: pb.Limit | pb.Offset) -> RelationNode:
        return Pass(self.plan(message.input), Passing.LIMIT)

    def distinct(self, message: pb.Deduplicate) -> RelationNode:
        if message.column_names or message.within_watermark:
            raise _NoTree
        return Pass(self.plan(message.input), Passing.DISTINCT)

    def alias(self, message: pb.SubqueryAlias) -> RelationNode:
        if message.qualifier:
            raise _NoTree
        return SubqueryAlias(self.plan(message.input), message.alias)

    def join(self, message: pb.Join) -> RelationNode:
        kind = _JOINS.get(message.join_type)
        if kind is None or message.HasField("join_data_type"):
            raise _NoTree
        on = [self.expression(message.join_condition)] if message.HasField("join_condition") else []
        left, right = self.plan(message.left), self.plan(message.right)
        return Join(left, right, kind, tuple(conjuncts(on)), tuple(message.using_columns))

    def aggregate(self, message: pb.Aggregate) -> RelationNode:
        if message.group_type != pb.Aggregate.GROUP_TYPE_GROUPBY:
            raise _NoTree
        keys = self._items(message.grouping_expressions)
        shown = self._items(message.aggregate_expressions)
        grouped = tuple([one.operand if isinstance(one, Alias) else one for one in keys])
        return Aggregate(self.plan(message.input), grouped, (*keys, *shown))

    # Expressions.

    def expression(self, message: pb.Expression) -> Expression:
        case = message.WhichOneof("expr_type") or ""
        make = _EXPRESSIONS.get(case)
        if make is None:
            raise _NoTree
        return make(self, getattr(message, case))

    def _items(self, messages: Iterable[pb.Expression]) -> tuple[Expression, ...]:
        items = tuple([self.expression(one) for one in messages])
        for item in items:
            if isinstance(item, NamedColumn):
                # The last part may be a field of a column.
                self.made.update(part.lower() for part in item.parts[1:])
            elif not isinstance(item, Alias | Star):
                self.made.add(infer_name(item))
        return items

    def literal(self, message: pb.Expression.Literal) -> Expression:
        case = message.WhichOneof("literal_type") or ""
        value = getattr(message, case) if case else None
        if message.HasField("data_type"):
            raise _NoTree  # it may have a collation
        if case == "null":
            # One of a type makes others be cast to it, as CAST(NULL AS INT) does.
            if message.null.WhichOneof("kind") not in (None, "null"):
                raise _NoTree
            return Literal("void")
        if case == "boolean":
            return Literal("boolean", str(value).lower())
        if case == "decimal":
            return Literal(_decimal_of(message.decimal), message.decimal.value)
        if case not in _LITERALS:
            raise _NoTree
        return Literal(_LITERALS[case], str(value))

    def attribute(self, message: pb.Expression.UnresolvedAttribute) -> Expression:
        parts = attribute_parts(message.unparsed_identifier)
        if not parts or message.is_metadata_column:
            raise _NoTree
        if message.HasField("plan_id"):
            if len(parts) > 1:
                raise _NoTree
            self.by_plan.add(parts[0].lower())
        return NamedColumn(tuple(parts))

    def star(self, message: pb.Expression.UnresolvedStar) -> Expression:
        if message.HasField("plan_id") or message.unparsed_target:
            raise _NoTree
        return Star()

    def function(self, message: pb.Expression.UnresolvedFunction) -> Expression:
        if message.is_user_defined_function or message.is_internal or "." in message.function_name:
            raise _NoTree
        name = message.function_name.lower()
        operands = tuple([self.expression(one) for one in message.arguments])
        if name == "like":
            # A third argument is another escape than SQL's.
            if len(operands) != 2:
                raise _NoTree
            return Operator("Like", operands, "\\")
        if len(operands) != (1 if name in _UNARY else 2 if name in _BINARY else len(operands)):
            raise _NoTree
        if (operator := _OPERATORS.get(name)) is not None and operands:
            return Operator(operator, operands)
        return NamedCall((name,), operands)

    def _lower_alias(self, message: pb.Expression.Alias) -> Expression:
        # What is known of a column may make it CHAR, which Spark pads to any length where it is compared.
        if len(message.name) != 1 or message.metadata:
            raise _NoTree
        self.made.add(message.name[0].lower())
        return Alias(message.name[0], self.expression(message.expr))

    def cast(self, message: pb.Expression.Cast) -> Expression:
        if message.WhichOneof("cast_to_type") == "type_str":
            kind = " ".join(message.type_str.lower().split())
        else:
            case = message.type.WhichOneof("kind") or ""
            plain = case in _PLAIN_TYPES and not (case == "string" and message.type.string.collation)
            kind = _PLAIN_TYPES[case] if plain else ""
        tried = message.eval_mode == pb.Expression.Cast.EVAL_MODE_TRY
        return Cast(self.expression(message.expr), kind, tried)

    def text(self, message: pb.Expression.ExpressionString) -> Expression:
        found = self.texts.get(id(message))
        if found is None:
            raise _NoTree
        expression = lower_expression(found)
        if any(queries_in(expression)):
            raise _NoTree
        self._note_aliases(expression)
        return expression

    def _note_aliases(self, expression: Expression) -> None:
        if isinstance(expression, Alias):
            self.made.add(expression.name.lower())
        for one in expression.operands:
            self._note_aliases(one)


def _decimal_of(message: pb.Expression.Literal.Decimal) -> str:
    """Return the type of a decimal: it has the digits that it says, or those of its value if they are more.
    `lit(Decimal("1.25"))` comes as one of ten digits, none of them behind the point."""
    if not (message.HasField("precision") and message.HasField("scale") and NUMBER.match(message.value)):
        raise _NoTree
    whole, _, rest = message.value.lstrip("-").partition(".")
    digits, behind = max(message.precision, len(whole) + len(rest)), max(message.scale, len(rest))
    if max(digits, behind) > MAX_DIGITS:
        raise _NoTree
    return f"decimal({max(digits, behind)},{behind})"


_PLANS: Final[Mapping[str, Callable[[_Trees, Never], RelationNode]]] = {
    "aggregate": _Trees.aggregate,
    "deduplicate": _Trees.distinct,
    "filter": _Trees.filter,
    "join": _Trees.join,
    "limit": _Trees.limit,
    "offset": _Trees.limit,
    "project": _Trees.project,
    "sort": _Trees.sort,
    "subquery_alias": _Trees.alias,
    "with_columns": _Trees.with_columns,
}
_EXPRESSIONS: Final[Mapping[str, Callable[[_Trees, Never], Expression]]] = {
    "alias": _Trees._lower_alias,
    "cast": _Trees.cast,
    "expression_string": _Trees.text,
    "literal": _Trees.literal,
    "unresolved_attribute": _Trees.attribute,
    "unresolved_function": _Trees.function,
    "unresolved_star": _Trees.star,
}
