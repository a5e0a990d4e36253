"""The columns of generators and table functions: how many there are, and what Spark calls them.

Each is made of all that the function is given: which argument ends where is up to the function.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from gateway.sql.lineage_expressions import Ctes, SqlLineageExpressions
from gateway.sql.lineage_scope import Attribute, Environment, LineageRelation, Open, RelationRows, Value
from gateway.sql.lineage_structs import infer_type
from gateway.sql.lineage_types import element_type, struct_fields

_EXPLODES = (exp.Explode, exp.ExplodeOuter)
_POSEXPLODES = (exp.Posexplode, exp.PosexplodeOuter)
_MAPS = (exp.Map, exp.VarMap, exp.MapFromEntries)


def generate_columns(
    node: exp.Expr, value: Value, walk: SqlLineageExpressions, place: Environment, ctes: Ctes
) -> LineageRelation | None:
    """Return the columns of a generator's call; None for a function of one column that it names itself."""
    first = node.args.get("this")
    if isinstance(node, (*_EXPLODES, *_POSEXPLODES)) and isinstance(first, exp.Expr):
        names = ["pos"] if isinstance(node, _POSEXPLODES) else []
        return _explode(names, first, value, walk, place, ctes)
    if isinstance(node, exp.Inline) and isinstance(first, exp.Expr):
        type_ = walk.value(first, place, ctes).type or infer_type(first, walk, place, ctes)
        fields = struct_fields(element_type(type_))
        return build_unknown_relation(value) if fields is None else columns(fields, value)
    if isinstance(node, exp.Stack):
        return _stack(node, value)
    if isinstance(node, exp.Anonymous):
        return _anonymous(node, value)
    return None


def _explode(
    names: list[str], of: exp.Expr, value: Value, walk: SqlLineageExpressions, place: Environment, ctes: Ctes
) -> LineageRelation:
    if isinstance(of, exp.Kwarg):
        of = of.expression
    type_ = walk.value(of, place, ctes).type or infer_type(of, walk, place, ctes)
    if not type_:
        type_ = "map<>" if isinstance(of, _MAPS) else "array<>" if isinstance(of, exp.Array) else ""
    return explode_columns(names, value, type_)


def explode_columns(names: list[str], value: Value, type_: str) -> LineageRelation:
    """Return the columns of EXPLODE behind those of `names`; `type_`: of what is exploded, empty where it is
    not known: then there may be other columns too, for a map is exploded into two."""
    if type_[:4].lower() == "map<":
        return columns([*names, "key", "value"], value)
    found = columns([*names, "col"], value)
    if type_:
        found.attributes[-1] = Attribute("col", replace(value, type=element_type(type_)))
        return found
    return LineageRelation(found.attributes, found.rows, [Open((), None, value)])


def _stack(node: exp.Stack, value: Value) -> LineageRelation:
    count = node.this
    if isinstance(count, exp.Literal) and str(count.this).isdigit() and int(str(count.this)) > 0:
        width = -(-len(node.expressions) // int(str(count.this)))
        return columns([f"col{i}" for i in range(width)], value)
    return build_unknown_relation(value)


def _anonymous(node: exp.Anonymous, value: Value) -> LineageRelation | None:
    name = str(node.this).lower()
    if name in ("posexplode_outer", "explode_outer", "posexplode", "explode"):
        return build_unknown_relation(value)
    if name in ("inline_outer", "inline", "stack", "variant_explode", "variant_explode_outer"):
        return build_unknown_relation(value)
    if name == "json_tuple":
        return columns([f"c{i}" for i in range(len(node.expressions) - 1)], value)
    if name == "range":
        return columns(["id"], value)
    return None


def columns(names: list[str], value: Value) -> LineageRelation:
    """Return a relation of columns that are each made of a value."""
    return LineageRelation([Attribute(name, value) for name in names], RelationRows())


def build_unknown_relation(value: Value) -> LineageRelation:
    """Return a relation of whose columns only this is known: each is made of a value."""
    return LineageRelation([Attribute("*", value)], RelationRows(), [Open((), None, value)])
