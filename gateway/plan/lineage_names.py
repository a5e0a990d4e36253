"""What Spark calls a column that a plan computes and gives no name: `sum(a)`, `(a + 1)`.

A later operation of the plan may name it so. Where Spark's name is not known for certain there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.algebra.nodes import Expression
from gateway.algebra.types_in_ddl import is_map, is_plain, kind_of
from gateway.algebra.usage import Parts, Unclear
from gateway.plan.identifiers import attribute_parts
from gateway.wire.connect import pb

MAX_DEPTH = 20
"""Calls within calls of a name; nobody writes a longer one."""

_OPERATORS = {
    "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "==": "=", "=": "=", "<": "<", "<=": "<=", ">": ">",
    ">=": ">=", "<=>": "<=>", "and": "and", "or": "or",
}  # fmt: skip
_RENAMED = {"mean": "avg", "stddev_samp": "stddev_samp", "approxcountdistinct": "approx_count_distinct"}
_ARITHMETIC = frozenset("+-*/%")
_NUMBERS = ("byte", "short", "integer", "long")
"""Literals that Spark shows as they are."""


def parts_of(text: str) -> Parts:
    """Return the parts of an attribute's name, lower case; raise Unclear when Spark would not read them."""
    parts = attribute_parts(text)
    if not parts:
        raise Unclear("a column's name cannot be read")
    return tuple([part.lower() for part in parts])


def literal_name(literal: pb.Expression.Literal) -> str | None:
    """Return how Spark writes a literal as a name or as part of one."""
    case = literal.WhichOneof("literal_type")
    if case in _NUMBERS:
        return str(getattr(literal, case))
    if case == "string":
        return literal.string.lower()
    if case == "boolean":
        return str(literal.boolean).lower()
    return "null" if case == "null" else None


@dataclass(frozen=True, slots=True)
class PlanNaming:
    """Names what a plan's expressions make. An expression goes with what it was lowered to."""

    shown: Callable[[pb.Expression.UnresolvedAttribute], str]
    """How Spark shows a reference within an expression."""
    type_of: Callable[[Expression], str]
    """Its type in DDL; empty where it is not known."""

    def column_name(self, expression: pb.Expression, made: Expression, depth: int = 0) -> str | None:
        """Return the name in lower case, None where it is not known."""
        if depth > MAX_DEPTH:
            return None
        match expression.WhichOneof("expr_type"):
            case "unresolved_attribute":
                if depth:
                    return self.shown(expression.unresolved_attribute)
                try:
                    return parts_of(expression.unresolved_attribute.unparsed_identifier)[-1]
                except Unclear:
                    return None
            case "literal":
                return literal_name(expression.literal)
            case "unresolved_function":
                return self._function(expression.unresolved_function, made.operands, depth)
            case "unresolved_star":
                return "1"  # count(*) is called count(1)
            case "alias" if len(expression.alias.name) == 1:
                if not depth:
                    return expression.alias.name[0].lower()
                return self.column_name(expression.alias.expr, made.operands[0], depth)
            case "cast" if (
                not depth and expression.cast.expr.WhichOneof("expr_type") == "unresolved_attribute"
            ):
                name = self.shown(expression.cast.expr.unresolved_attribute)
                return name if "." not in name else None  # a cast of a field is called otherwise
            case "unresolved_extract_value":
                return self._extract(expression.unresolved_extract_value, made.operands, depth)
        return None

    def _extract(
        self, extract: pb.Expression.UnresolvedExtractValue, made: Sequence[Expression], depth: int
    ) -> str | None:
        of = self.column_name(extract.child, made[0], depth + 1)
        key = literal_name(extract.extraction.literal)
        if of is None or key is None:
            return None
        if extract.extraction.literal.WhichOneof("literal_type") != "string":
            return f"{of}[{key}]"
        type_ = self.type_of(made[0])
        if not type_:
            return None
        return f"{of}[{key}]" if is_map(type_) else f"{of}.{key}"

    def _function(
        self, function: pb.Expression.UnresolvedFunction, made: Sequence[Expression], depth: int
    ) -> str | None:
        name, arguments = function.function_name.lower(), function.arguments[:]
        if len(arguments) > MAX_DEPTH:
            return None
        names = [self.column_name(one, its, depth + 1) for one, its in zip(arguments, made, strict=True)]
        known = [one for one in names if one is not None]
        if len(known) < len(names):
            return None
        if name in _OPERATORS and len(known) == 2:
            if name in "+-" and not all(map(self._is_plain, arguments, made)):
                kinds = [
                    "number" if self._is_plain(one, its) else kind_of(self.type_of(its))
                    for one, its in zip(arguments, made, strict=True)
                ]
                return _date(kinds[0], name, kinds[1], known)
            return f"({known[0]} {_OPERATORS[name]} {known[1]})"
        if not name.isidentifier():
            return None
        distinct = "distinct " if function.is_distinct else ""
        return f"{_RENAMED.get(name, name)}({distinct}{', '.join(known)})"

    def _is_plain(self, operand: pb.Expression, made: Expression) -> bool:
        """Whether an operand is a number or a string: with dates and intervals Spark puts other functions in
        the place of some operators."""
        if operand.WhichOneof("expr_type") == "literal":
            case = operand.literal.WhichOneof("literal_type")
            return case in (*_NUMBERS, "string", "double", "float", "decimal")
        function = operand.unresolved_function
        if function.function_name in _ARITHMETIC and len(function.arguments):
            return all(map(self._is_plain, function.arguments, made.operands))
        return is_plain(self.type_of(made))


def _date(first: str, operator: str, second: str, names: Sequence[str]) -> str | None:
    """Return what Spark calls a sum or a difference with dates in it, by the kinds of both sides."""
    match first, operator, second:
        case "date", "+", "number":
            return f"date_add({names[0]}, {names[1]})"
        case "number", "+", "date":
            return f"date_add({names[1]}, {names[0]})"
        case "date", "-", "number":
            return f"date_sub({names[0]}, {names[1]})"
        case "date" | "timestamp", "-", "date" | "timestamp":
            return f"({names[0]} - {names[1]})"
    return None
