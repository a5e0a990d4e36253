"""Types of what a plan builds, as far as the names of their fields go; as `sql/lineage_structs.py` has it."""

from __future__ import annotations

from collections.abc import Callable

from gateway.algebra.lineage_functions import of_schema
from gateway.algebra.types_in_ddl import COUNTS, element_type, field_type, is_nested, struct_of, sum_type
from gateway.algebra.usage import Parts, Unclear
from gateway.plan.identifiers import attribute_parts
from gateway.wire.connect import pb

MAX_DEPTH = 20
"""Values within values; nobody writes a longer one."""
_SAME = frozenset(
    "max min first last any_value first_value last_value max_by min_by lag lead nth_value".split()
)
"""They give a value of their first argument's type."""

NUMBERS = ("byte", "short", "integer", "long")
"""Literals that Spark shows as they are."""


def parts_of(text: str) -> Parts:
    """Return the parts of an attribute's name, lower case; raise Unclear when Spark would not read them."""
    if "." not in text and "`" not in text:
        return (text.lower(),)
    parts = attribute_parts(text)
    if not parts:
        raise Unclear("a column's name cannot be read")
    return tuple([part.lower() for part in parts])


TypeOf = Callable[[pb.Expression.UnresolvedAttribute], str]


def literal_name(literal: pb.Expression.Literal) -> str | None:
    """Return how Spark writes a literal as a name or as part of one."""
    case = literal.WhichOneof("literal_type")
    if case in NUMBERS:
        return str(getattr(literal, case))
    if case == "string":
        return literal.string.lower()
    if case == "boolean":
        return str(literal.boolean).lower()
    return "null" if case == "null" else None


def infer_type(item: pb.Expression, column: TypeOf, depth: int = 0) -> str:
    """Return the type of an expression in DDL, empty where it is not told here. `column`: of a reference."""
    if depth > MAX_DEPTH:
        return ""
    match item.WhichOneof("expr_type"):
        case "unresolved_attribute":
            return column(item.unresolved_attribute)
        case "alias":
            return infer_type(item.alias.expr, column, depth + 1)
        case "window":
            return infer_type(item.window.window_function, column, depth + 1)
        case "unresolved_extract_value":
            extract = item.unresolved_extract_value
            of, at = infer_type(extract.child, column, depth + 1), extract.extraction.literal
            text = at.string if at.WhichOneof("literal_type") == "string" else None
            return element_type(of) if text is None else field_type(of, text.lower())
        case "unresolved_function":
            return _infer_call_type(item.unresolved_function, column, depth + 1)
    return ""


def _infer_call_type(function: pb.Expression.UnresolvedFunction, column: TypeOf, depth: int) -> str:
    arguments = function.arguments[:]
    name = function.function_name.lower()
    first = infer_type(arguments[0], column, depth) if arguments else ""
    match name:
        case "map" | "create_map":
            return "map<>"
        case "struct" | "named_struct":
            return _struct(_fields(function), column, depth)
        case "array":
            return f"array<{first}>"
        case "collect_list" | "collect_set" | "array_agg":
            return f"array<{first}>" if first else ""
        case "explode" | "explode_outer":
            return element_type(first)
        case "coalesce":
            return first if is_nested(first) else ""
        case "sum":
            return sum_type(first)
        case _ if name in COUNTS:
            return "bigint"
        case "from_json" if len(arguments) > 1 and arguments[1].HasField("literal"):
            return of_schema(arguments[1].literal.string)
    return first if name in _SAME else ""


def _fields(function: pb.Expression.UnresolvedFunction) -> list[tuple[str | None, pb.Expression]]:
    """Return the fields that a function makes a struct of, None for a name that is not known."""
    arguments = function.arguments[:]
    match function.function_name.lower():
        case "struct":
            return [(_field(one, i), one) for i, one in enumerate(arguments, 1)]
        case "named_struct":
            named = [literal_name(one.literal) for one in arguments[::2]]
            return list(zip(named, arguments[1::2], strict=False))
    return []


def _field(item: pb.Expression, number: int) -> str | None:
    match item.WhichOneof("expr_type"):
        case "alias" if len(item.alias.name) == 1:
            return item.alias.name[0].lower()
        case "unresolved_attribute":
            return parts_of(item.unresolved_attribute.unparsed_identifier)[-1]
        case "unresolved_function" | "literal" | "cast":
            return f"col{number}"
    return None


def _struct(fields: list[tuple[str | None, pb.Expression]], column: TypeOf, depth: int) -> str:
    found = [(name, infer_type(item, column, depth)) for name, item in fields if name is not None]
    return struct_of(found) if len(found) == len(fields) else ""  # RULE (plan-struct-fields)
