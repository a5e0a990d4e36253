"""The columns of generators that plans call: each is made of all that the function is given."""

from __future__ import annotations

from dataclasses import replace

from gateway.algebra.lineage_values import RelationRows, Value
from gateway.algebra.types_in_ddl import element_type
from gateway.sql.lineage_scope import Attribute, LineageRelation, Open


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


def columns(names: list[str], value: Value) -> LineageRelation:
    """Return a relation of columns that are each made of a value."""
    return LineageRelation([Attribute(name, value) for name in names], RelationRows())


def build_unknown_relation(value: Value) -> LineageRelation:
    """Return a relation of whose columns only this is known: each is made of a value."""
    return LineageRelation([Attribute("*", value)], RelationRows(), [Open((), None, value)])
