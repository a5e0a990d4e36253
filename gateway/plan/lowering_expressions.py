"""Expressions of Spark Connect as the expressions that the same SQL is (`gateway.algebra`).

One row for each case of `Expression`: the expressions that its message has, and what is made of them. A case
without a row, and a message with something in it that says more than its row knows, is opaque. No recursion
per operator: a condition may be as long as a plan.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final, NamedTuple, Never, cast

from gateway.algebra.nodes import (
    Alias,
    Cast,
    Expression,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    OpaqueExpression,
    Operator,
    QueryKind,
    RelationNode,
    Star,
    Subquery,
    WindowCall,
)
from gateway.plan.identifiers import attribute_parts, table_parts
from gateway.sql.identity import IDENTITIES
from gateway.sql.leakproof_copies import MAX_DIGITS, NUMBER
from gateway.wire.connect import Message, pb

MAX_NODES: Final = 300_000
"""Messages of one plan that are lowered, those that are referred to several times counted as often."""

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
_COUNTS: Final = {
    **dict.fromkeys(("!", "isnotnull", "isnull", "not"), 1),
    **dict.fromkeys("* + - < <= <=> = == > >= and or".split(), 2),
}
"""How many operands they have."""
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
"""Cases of types, and of literals, as SQL calls them."""
_QUERIES: Final = {1: QueryKind.SCALAR, 2: QueryKind.EXISTS, 4: QueryKind.IN}
"""`SubqueryType` → what it is in SQL."""
_SAFE_PATTERN = re.compile(r"[A-Za-z0-9_ ^$.|*+?\[\]-]{1,200}")
_QUANTIFIERS = re.compile(r"[*+?]")
NOTHING_READ: Final = OpaqueExpression((), complete=True)
"""A value that is made of no column."""


def pattern_of(text: str) -> str | None:
    """Return the pattern of columns' names. Java's expressions are read if they mean the same in Python and
    cannot take long; None for others."""
    if text.startswith("`") and text.endswith("`") and len(text) > 2:
        text = text[1:-1]
    if _SAFE_PATTERN.fullmatch(text) and len(_QUANTIFIERS.findall(text)) <= 3:
        with contextlib.suppress(re.error):
            return re.compile(text, re.IGNORECASE).pattern
    return None


class UnreadablePlan(Exception):
    """A plan refers to itself, or to what is not in it, or is too large to be followed."""


@dataclass(slots=True)
class PlanNotes:
    """What is found on the way through a plan besides its tree."""

    by_plan: set[str] = field(default_factory=set)
    """Columns, lower case, that are asked for by the DataFrame that has them."""
    made: set[str] = field(default_factory=set)
    """Names, lower case, that the plan gives to what it makes, and plain ones that Spark does."""
    unnamed: bool = False
    """Whether it has relations whose columns' names are not known, or queries within, whose columns may have
    the names of columns around."""
    by_schema: bool = False
    """Whether it has `to(schema)`, by which a column that is not there is one of NULL."""
    words: dict[int, NamedColumn] = field(default_factory=dict)
    """References that may ask who the user is, by the identity of the message."""
    texts: dict[int, Expression] = field(default_factory=dict)
    """Texts of SQL expressions, by the identity of the message."""
    strings: dict[int, NamedColumn] = field(default_factory=dict)
    """References, by their own identity, that stand where only a column can."""
    plan_ids: dict[int, list[RelationNode]] = field(default_factory=dict)
    """Relations by their plan_id."""
    messages: dict[int, tuple[object, Message]] | None = None
    """What relations and expressions were made of, by the identity of each; None: nobody asks for it."""
    steps: int = 0

    def message_of(self, node: object) -> Message | None:
        """Return the message that a relation or an expression was made of."""
        found = None if self.messages is None else self.messages.get(id(node))
        return None if found is None else found[1]

    def note(self, node: object, message: Message) -> None:
        """Note what a node was made of; what only passes on another is none of its own."""
        if self.messages is not None and node is not NOTHING_READ:
            self.messages.setdefault(id(node), (node, message))

    def step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MAX_NODES:
            raise UnreadablePlan("the plan is too large to be followed")


@dataclass(slots=True)
class ExpressionLowering:
    texts: Mapping[int, Expression]
    """Texts of SQL expressions by the identity of their messages; what is missing is opaque."""
    subquery: Callable[[int], RelationNode]
    """Return the relation that an expression refers to by its id."""
    notes: PlanNotes

    def lower(self, root: pb.Expression) -> Expression:
        """Return what an expression is, without recursion."""
        order: list[tuple[_Make, Message, pb.Expression, int]] = []
        stack = [root]
        while stack:
            message = stack.pop()
            case = message.WhichOneof("expr_type")
            list_operands, make = _CASES.get(case, _UNKNOWN)
            inner: Message = message if case is None else getattr(message, case)
            operands = () if list_operands is None else list_operands(inner)
            order.append((make, inner, message, len(operands)))
            stack += operands
        notes = self.notes
        notes.step(len(order))
        results: list[Expression] = []
        for make, inner, message, count in reversed(order):
            if count:
                operands_made = tuple(results[-count:])
                del results[-count:]
                results.append(make(self, inner, operands_made))
            else:
                results.append(make(self, inner, ()))
            if notes.messages is not None:
                notes.note(results[-1], message)
        return results[0]

    def lower_all(self, messages: Iterable[pb.Expression]) -> tuple[Expression, ...]:
        return tuple([self.lower(one) for one in messages])

    def name(self, name: str) -> Expression:
        """Return the column that a string means outside of expressions: one of that name, or a reference;
        where it could be either, all columns."""
        if "." in name or "`" in name:
            return OpaqueExpression((Star(),), complete=True)
        column = NamedColumn((name,))
        self.notes.strings[id(column)] = column
        return column

    # What is made of each case.

    def _literal(self, message: pb.Expression.Literal, operands: Sequence[Expression]) -> Expression:
        case = message.WhichOneof("literal_type") or ""
        value = getattr(message, case) if case else None
        if message.HasField("data_type"):
            return NOTHING_READ  # it may have a collation
        if case == "null":
            # One of a type makes others be cast to it, as CAST(NULL AS INT) does.
            plain = message.null.WhichOneof("kind") in (None, "null")
            return Literal("void") if plain else NOTHING_READ
        if case == "boolean":
            return Literal("boolean", str(value).lower())
        if case == "decimal":
            return _lower_decimal(message.decimal)
        return Literal(_PLAIN_TYPES[case], str(value)) if case in _PLAIN_TYPES else NOTHING_READ

    def _attribute(
        self, message: pb.Expression.UnresolvedAttribute, operands: Sequence[Expression]
    ) -> Expression:
        parts = attribute_parts(message.unparsed_identifier)
        if not parts or message.is_metadata_column:
            return OpaqueExpression(())
        plan_id = message.plan_id if message.HasField("plan_id") else None
        if plan_id is not None:
            self.notes.by_plan.add(".".join(parts).lower())
        made = NamedColumn(tuple(parts), plan_id)
        if parts[0].lower() in IDENTITIES:
            self.notes.words[id(message)] = made
        return made

    def _star(self, message: pb.Expression.UnresolvedStar, operands: Sequence[Expression]) -> Expression:
        target = message.unparsed_target.removesuffix(".*")
        qualifier = attribute_parts(target) if message.unparsed_target else ()
        if qualifier is None:
            return OpaqueExpression(())
        plan_id = message.plan_id if message.HasField("plan_id") else None
        self.notes.unnamed |= plan_id is not None
        return Star(tuple(qualifier), plan_id=plan_id)

    def _regex(self, message: pb.Expression.UnresolvedRegex, operands: Sequence[Expression]) -> Expression:
        plan_id = message.plan_id if message.HasField("plan_id") else None
        self.notes.unnamed = True
        pattern = pattern_of(message.col_name)
        return OpaqueExpression(()) if pattern is None else Star(plan_id=plan_id, pattern=pattern)

    def _function(
        self, message: pb.Expression.UnresolvedFunction, operands: tuple[Expression, ...]
    ) -> Expression:
        if message.is_user_defined_function or message.is_internal or "." in message.function_name:
            return OpaqueExpression(operands, complete=True)
        name = message.function_name.lower()
        if name == "like":
            # A third argument is another escape than SQL's.
            alone = len(operands) == 2
            return Operator("Like", operands, "\\") if alone else OpaqueExpression(operands, complete=True)
        if name == "count" and not message.is_distinct and operands == (Star(),):
            operands = (Literal("int", "1"),)  # as Spark's parser has it: count(*) reads no column
        if len(operands) != _COUNTS.get(name, len(operands)):
            return OpaqueExpression(operands, complete=True)
        if (operator := _OPERATORS.get(name)) is not None and operands:
            return Operator(operator, operands)
        return NamedCall((name,), operands)

    def _call(self, message: pb.CallFunction, operands: tuple[Expression, ...]) -> Expression:
        parts = table_parts(message.function_name)
        return NamedCall(parts, operands) if parts else OpaqueExpression(operands, complete=True)

    def _alias(self, message: pb.Expression.Alias, operands: tuple[Expression, ...]) -> Expression:
        if not operands:
            return OpaqueExpression(())
        self.notes.made.update(name.lower() for name in message.name)
        # What is known of a column may make it CHAR, which Spark pads to any length where it is compared.
        if len(message.name) != 1 or message.metadata:
            operands = (OpaqueExpression(operands, complete=True),)
        return Alias(message.name[0], operands[0]) if len(message.name) == 1 else operands[0]

    def _cast(self, message: pb.Expression.Cast, operands: tuple[Expression, ...]) -> Expression:
        if message.WhichOneof("cast_to_type") == "type_str":
            kind = " ".join(message.type_str.lower().split())
        else:
            case = message.type.WhichOneof("kind") or ""
            plain = case in _PLAIN_TYPES and not (case == "string" and message.type.string.collation)
            kind = _PLAIN_TYPES[case] if plain else ""
        tried = message.eval_mode == pb.Expression.Cast.EVAL_MODE_TRY
        return Cast(operands[0], kind, tried) if operands else OpaqueExpression(())

    def _text(self, message: pb.Expression.ExpressionString, operands: Sequence[Expression]) -> Expression:
        found = self.texts.get(id(message))
        if found is None:
            return OpaqueExpression(())
        _note_aliases(found, self.notes.made)
        self.notes.texts[id(message)] = found
        return found

    def _window(self, message: pb.Expression.Window, operands: tuple[Expression, ...]) -> Expression:
        keys = 1 + len(message.partition_spec) + len(message.order_spec)
        if not message.HasField("window_function"):
            return OpaqueExpression(())
        return WindowCall(operands[0], operands[1:keys], operands[keys:])

    def _extract(
        self, message: pb.Expression.UnresolvedExtractValue, operands: tuple[Expression, ...]
    ) -> Expression:
        whole = len(operands) == 2
        return Operator("UnresolvedExtractValue", operands) if whole else OpaqueExpression(())

    def _subquery(self, message: pb.SubqueryExpression, operands: tuple[Expression, ...]) -> Expression:
        relation = self.subquery(message.plan_id)
        self.notes.unnamed = True  # RULE (plan-query-names)
        kind = _QUERIES.get(message.subquery_type)
        if message.subquery_type == _TABLE and self.notes.messages is not None:
            kind = QueryKind.TABLE
        if kind is None or (operands and kind is not QueryKind.IN):
            # A table that is the argument of a function; what it is parted by are its own columns.
            return OpaqueExpression((), (relation,), complete=message.subquery_type == _TABLE)
        return Subquery(kind, relation, operands)

    def _lambda(self, message: pb.Expression.LambdaFunction, operands: tuple[Expression, ...]) -> Expression:
        names = [".".join(one.name_parts) for one in message.arguments]
        return Lambda(tuple(names), operands[0]) if operands else OpaqueExpression(())

    def _variable(
        self, message: pb.Expression.UnresolvedNamedLambdaVariable, operands: Sequence[Expression]
    ) -> Expression:
        return NamedColumn((".".join(message.name_parts),))

    def _whole_row(self, message: Message, operands: Sequence[Expression]) -> Expression:
        return OpaqueExpression((Star(),), complete=True)

    def _order(self, message: Message, operands: tuple[Expression, ...]) -> Expression:
        return operands[0] if operands else OpaqueExpression(())

    def _compute(self, message: Message, operands: tuple[Expression, ...]) -> Expression:
        """Code of the user's, lambda functions and the like: something is made of the operands alone."""
        return OpaqueExpression(operands, complete=True)


_TABLE: Final = 3
"""`SubqueryType` of the argument of a table function."""


def _note_aliases(expression: Expression, made: set[str]) -> None:
    waiting = [expression]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Alias):
            made.add(one.name.lower())
        waiting += one.operands


def _lower_decimal(message: pb.Expression.Literal.Decimal) -> Expression:
    """Return a decimal: its type has the digits that it says, or those of its value if they are more.
    `lit(Decimal("1.25"))` comes as one of ten digits, none of them behind the point."""
    if not (message.HasField("precision") and message.HasField("scale") and NUMBER.match(message.value)):
        return NOTHING_READ
    whole, _, rest = message.value.lstrip("-").partition(".")
    digits, behind = max(message.precision, len(whole) + len(rest)), max(message.scale, len(rest))
    if max(digits, behind) > MAX_DIGITS:
        return NOTHING_READ
    return Literal(f"decimal({max(digits, behind)},{behind})", message.value)


_ListOperands = Callable[[Message], Sequence[pb.Expression]]


def _list_fields(fields: Sequence[str]) -> _ListOperands | None:
    """Return what lists the expressions of a message's fields, each one or several, as far as they are there;
    None without fields."""

    def list_operands(message: Message) -> Sequence[pb.Expression]:
        found: list[pb.Expression] = []
        for before, name in paths:
            holder = message
            for step in before:
                holder = getattr(holder, step)
            value = getattr(holder, name)
            if not isinstance(value, pb.Expression):
                found += [one.child for one in value[:]] if name == "order_spec" else value[:]
            elif holder.HasField(name):
                found.append(value)
        return found

    paths = [((*path.split(".")[:-1],), path.split(".")[-1]) for path in fields]
    if fields == ("arguments",):  # as nearly all are
        arguments_of = attrgetter("arguments")
        return lambda message: arguments_of(message)[:]
    return list_operands if fields else None


class _RowPlace(NamedTuple):
    fields: tuple[str, ...]
    """Where the message has expressions."""
    make: Callable[[ExpressionLowering, Never, tuple[Expression, ...]], Expression]
    """Takes the message of the case."""


EXPRESSIONS: Final[Mapping[str, _RowPlace]] = {
    "alias": _RowPlace(("expr",), ExpressionLowering._alias),
    "call_function": _RowPlace(("arguments",), ExpressionLowering._call),
    "cast": _RowPlace(("expr",), ExpressionLowering._cast),
    "common_inline_user_defined_function": _RowPlace(("arguments",), ExpressionLowering._compute),
    "direct_shuffle_partition_id": _RowPlace(("child",), ExpressionLowering._compute),
    "expression_string": _RowPlace((), ExpressionLowering._text),
    "lambda_function": _RowPlace(("function",), ExpressionLowering._lambda),
    "literal": _RowPlace((), ExpressionLowering._literal),
    "named_argument_expression": _RowPlace(("value",), ExpressionLowering._compute),
    "sort_order": _RowPlace(("child",), ExpressionLowering._order),
    "subquery_expression": _RowPlace(("in_subquery_values",), ExpressionLowering._subquery),
    "typed_aggregate_expression": _RowPlace((), ExpressionLowering._whole_row),
    "unresolved_attribute": _RowPlace((), ExpressionLowering._attribute),
    "unresolved_extract_value": _RowPlace(("child", "extraction"), ExpressionLowering._extract),
    "unresolved_function": _RowPlace(("arguments",), ExpressionLowering._function),
    "unresolved_named_lambda_variable": _RowPlace((), ExpressionLowering._variable),
    "unresolved_regex": _RowPlace((), ExpressionLowering._regex),
    "unresolved_star": _RowPlace((), ExpressionLowering._star),
    "update_fields": _RowPlace(("struct_expression", "value_expression"), ExpressionLowering._compute),
    "window": _RowPlace(
        (
            "window_function",
            "partition_spec",
            "order_spec",
            "frame_spec.lower.value",
            "frame_spec.upper.value",
        ),
        ExpressionLowering._window,
    ),
}
OPAQUE_EXPRESSIONS: Final = frozenset({"extension", "merge_action"})
"""Cases without a row: what nobody can look into, and what stands in commands alone."""
_Make = Callable[[ExpressionLowering, Message, tuple[Expression, ...]], Expression]
_UNKNOWN: Final[tuple[_ListOperands | None, _Make]] = (None, lambda *_: OpaqueExpression(()))
# Called with the message of their case only; a test compares them with the cases of `Expression`.
_CASES: Final[Mapping[str | None, tuple[_ListOperands | None, _Make]]] = {
    case: (_list_fields(row.fields), cast("_Make", row.make)) for case, row in EXPRESSIONS.items()
}
