"""The columns of generators and table functions that a plan calls, as `sql/lineage_generators.py` has it."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.algebra.lineage_values import Value
from gateway.algebra.types_in_ddl import element_type, struct_fields
from gateway.sql.lineage_generators import build_unknown_relation, columns, explode_columns
from gateway.sql.lineage_scope import (
    LineageRelation,
)
from gateway.wire.connect import pb


def generate_columns(
    function: pb.Expression.UnresolvedFunction | pb.UnresolvedTableValuedFunction,
    value: Value,
    types: Sequence[str],
) -> LineageRelation:
    """Return the columns of a call. `types`: of its arguments in DDL, empty where they are not known."""
    name = function.function_name.lower().removesuffix("_outer")
    arguments = function.arguments
    type_ = types[0] if types else ""
    match name:
        case "explode":
            return explode_columns([], value, type_)
        case "posexplode":
            return explode_columns(["pos"], value, type_)
        case "inline":
            fields = struct_fields(element_type(type_))
            return build_unknown_relation(value) if fields is None else columns(fields, value)
        case "json_tuple":
            return columns([f"c{i}" for i in range(len(arguments) - 1)], value)
        case "stack" if arguments and arguments[0].literal.integer > 0:
            width = -(-(len(arguments) - 1) // arguments[0].literal.integer)
            return columns([f"col{i}" for i in range(width)], value)
        case "variant_explode":
            return columns(["pos", "key", "value"], value)
        case "range":
            return columns(["id"], value)
    return build_unknown_relation(value)
