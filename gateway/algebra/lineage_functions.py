"""What functions and operators make of the values in them: in which way each takes part, types, columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from gateway.algebra.lineage_values import (
    AGGREGATED,
    AGGREGATION,
    CHOOSING,
    TRANSFORMED,
    WAYS,
    AttributeDependencies,
    OperandUse,
    RelationRows,
    Value,
)
from gateway.algebra.nodes import (
    Alias,
    Cast,
    Expression,
    Literal,
    NamedCall,
    NamedColumn,
    OpaqueExpression,
    Operator,
    Star,
)
from gateway.algebra.types_in_ddl import (
    COUNTS,
    element_type,
    is_nested,
    struct_fields,
    struct_of,
    sum_type,
)

KEPT: Final = OperandUse(tuple(range(1 << 2 * WAYS)))
"""Of an operand that is all of the value."""
GROUPING: Final = frozenset({"grouping", "grouping_id"})
"""Functions that say by which of the groupings a row is, whatever is in the columns."""
_SAME: Final = frozenset(
    """
    any_value first first_value lag last last_value lead max max_by min min_by mode nth_value
    """.split()
)
"""They give a value of their first operand's type."""
_FIRST_NESTED: Final = frozenset("coalesce ifnull nvl".split())
_ARRAYS: Final = frozenset("array array_agg collect_list collect_set".split())
_MAPS: Final = frozenset("map map_from_arrays map_from_entries map_concat str_to_map".split())
_EXPLODES: Final = frozenset({"explode", "explode_outer"})
_POSEXPLODES: Final = frozenset({"posexplode", "posexplode_outer"})
_INLINES: Final = frozenset({"inline", "inline_outer"})
_OTHERS: Final = frozenset({"variant_explode", "variant_explode_outer"})


def sum_values(operands: Sequence[tuple[Value, OperandUse]]) -> Value:
    """Return a value that is computed of others, each of which takes part in its own way."""
    found: AttributeDependencies = {}
    rows: dict[int, RelationRows] = {}
    for value, way in operands:
        becomes = way.becomes
        for column, bits in value.dependencies.items():
            found[column] = found.get(column, 0) | becomes[bits]
        for one in value.rows:
            rows[id(one)] = one
    return Value(found, tuple(rows.values()))


def uses_of(expression: Expression, name: str, *, aggregates: bool) -> list[OperandUse]:
    """Return in which way each operand takes part. `name`: of a built-in function, empty for any other."""
    count = len(expression.operands)
    uses = [AGGREGATED if aggregates else TRANSFORMED] * count
    match expression:
        case Operator(name="CaseWhen"):
            return [
                TRANSFORMED if i % 2 or (i == count - 1 and count % 2) else CHOOSING for i in range(count)
            ]
        case NamedCall(filtered=int() as place):
            uses[place] = CHOOSING
        case NamedCall() if name in ("if", "nvl2"):
            uses[0] = CHOOSING
        case NamedCall() if name == "decode" and count > 2:
            return [TRANSFORMED if i and (i % 2 == 0 or i == count - 1) else CHOOSING for i in range(count)]
    return uses


def type_made(expression: Expression, name: str, operands: Sequence[Value]) -> str:
    """Return the type of what a function or an operator makes, in DDL; empty where it is not told here."""
    first = operands[0].type if operands else ""
    match expression:
        case Cast():
            return expression.type if expression.type[:7].lower() == "struct<" else ""
        case Operator(name="CaseWhen"):
            first = operands[1].type
        case NamedCall() if name in COUNTS:
            return "bigint"
        case NamedCall() if name == "sum":
            return sum_type(first)
        case NamedCall() if name == "if" and len(operands) > 1:
            first = operands[1].type
        case NamedCall() if name in _ARRAYS:
            return f"array<{first}>"
        case NamedCall() if name in _MAPS:
            return "map<>"
        case NamedCall() if name in _EXPLODES:
            return element_type(first)
        case NamedCall() if name == "from_json":
            schema = expression.operands[1] if len(expression.operands) > 1 else None
            return of_schema(schema.value or "") if isinstance(schema, Literal) else ""
        case NamedCall() if name in _SAME:
            return first
        case NamedCall() if name in _FIRST_NESTED:
            pass
        case _:
            return ""
    return first if is_nested(first) else ""


def of_schema(schema: str) -> str:
    """Return the type that a schema in DDL is; one in JSON is not told."""
    text = schema.strip()
    if text[:1] in '{["' or text[:6].lower() in ("array<", "map<"):
        return text if text[:6].lower() == "array<" else ""
    return text if text[:7].lower() == "struct<" else f"struct<{text}>"


def list_fields(expression: Expression, name: str, operands: Sequence[Value]) -> Mapping[str, Value] | None:
    """Return the fields of a struct that an expression builds; None for anything else, and where a name is
    not known."""
    items = expression.operands
    keys: Sequence[Expression | None] = [None] * len(items)
    if name == "named_struct" or (
        isinstance(expression, Operator) and expression.name == "CreateNamedStruct"
    ):
        keys, items, operands = items[::2], items[1::2], operands[1::2]
    elif name != "struct":
        return None
    found: dict[str, Value] = {}
    for key, item, value in zip(keys, items, operands, strict=True):
        match key, item:
            case _, Star():
                if value.fields is None:
                    return None
                found.update(value.fields)
            case Literal(value=str() as written), _:
                found[written.lower()] = value
            case ((None | OpaqueExpression(name="NamePlaceholder")), Alias()):
                found[item.name.lower()] = value
            case ((None | OpaqueExpression(name="NamePlaceholder")), NamedColumn()):
                found[item.parts[-1].lower()] = value
            case ((None | OpaqueExpression(name="NamePlaceholder")), _):
                found[f"col{len(found) + 1}"] = value
            case _:
                return None
    return found


def struct_type(fields: Mapping[str, Value]) -> str:
    """Return the type of a struct of these fields, in DDL."""
    return struct_of([(name, value.type) for name, value in fields.items()])


class GeneratedColumns(NamedTuple):
    """The columns of a generator or a table function."""

    columns: list[tuple[str, Value]]
    others: bool = False
    """Whether there may be others, whose names are not known."""


def list_generated(
    name: str, arguments: Sequence[Expression], values: Sequence[Value], whole: Value
) -> GeneratedColumns | None:
    """Return the columns of a generator's call, each of which is made of all that it is given; None for a
    function of one column that Spark names."""
    if not arguments:
        return None
    if name in _EXPLODES or name in _POSEXPLODES:
        return _explode(["pos"] if name in _POSEXPLODES else [], values[0].type, whole)
    if name in _INLINES:
        fields = struct_fields(element_type(values[0].type))
        return GeneratedColumns([], others=True) if fields is None else _all(fields, whole)
    if name == "stack":
        count = arguments[0]
        digits = (count.value or "") if isinstance(count, Literal) else ""
        if digits.isdigit() and int(digits) > 0:
            return _all([f"col{i}" for i in range(-(-(len(arguments) - 1) // int(digits)))], whole)
        return GeneratedColumns([], others=True)
    if name == "json_tuple":
        return _all([f"c{i}" for i in range(len(arguments) - 1)], whole)
    if name == "range":
        return _all(["id"], whole)
    return GeneratedColumns([], others=True) if name in _OTHERS else None


def _all(names: Sequence[str], whole: Value) -> GeneratedColumns:
    return GeneratedColumns([(name, whole) for name in names])


def _explode(names: list[str], type_: str, whole: Value) -> GeneratedColumns:
    if type_[:4].lower() == "map<":
        return _all([*names, "key", "value"], whole)
    element = replace(whole, type=element_type(type_))
    columns = [*[(name, whole) for name in names], ("col", element)]
    return GeneratedColumns(columns, others=not type_)


def is_aggregated(value: Value) -> bool:
    """Whether a value is an aggregate; one without columns, as count(*), has its groups among its rows."""
    return any((bits | bits >> WAYS) & AGGREGATION for bits in value.dependencies.values()) or any(
        rows.groups is not None for rows in value.rows
    )
