"""Reads `read-restrictions` of Iceberg REST's answer to `loadTable`.

INVARIANT (what is not understood is not left out): an answer is read whole or refused. So every object may
have the members that are known and no others; an unknown action, expression or function is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from gateway.model.restrictions import (
    ACTIONS,
    ColumnAction,
    Fixed,
    JoinedPredicates,
    JsonLiteral,
    ListType,
    LiteralComparison,
    LiteralMembership,
    MapType,
    Negated,
    Predicate,
    ReferenceTest,
    SchemaField,
    StructType,
    TableRestrictions,
    TableSchema,
    list_references,
    walk_fields,
)

MAX_DEPTH = 100
"""Levels of a predicate or a type."""
MAX_VALUES = 10_000
"""Literals of one predicate."""
_ROW_FILTER, _COLUMNS = "required-row-filter", "required-column-projections"
_NEGATIONS = {
    "not-null": "is-null",
    "not-nan": "is-nan",
    "not-eq": "eq",
    "not-starts-with": "starts-with",
    "not-in": "in",
}
_MIRRORED: Mapping[str, str] = {"lt": "gt", "lt-eq": "gt-eq", "gt": "lt", "gt-eq": "lt-eq", "eq": "eq"}
_Operator = Literal["lt", "lt-eq", "gt", "gt-eq", "eq", "starts-with"]


class RestrictionNotUnderstood(Exception):
    """The message continues `catalog lake restricts TABLE by something that is not understood: `."""


def read_restrictions(catalog: str, answer: Any) -> TableRestrictions:
    """Return what an answer to `loadTable` restricts. One that is not understood is a fault of it."""
    try:
        return _read(catalog, answer)
    except RestrictionNotUnderstood as why:
        return TableRestrictions(catalog=catalog, fault=f"what it restricts is not understood: {why}")


def _read(catalog: str, answer: Any) -> TableRestrictions:
    # RULE (restriction-odd-answer)
    if not isinstance(answer, dict) or not isinstance(answer.get("metadata"), dict):
        raise RestrictionNotUnderstood("the answer has no table")
    told = answer.get("read-restrictions")
    if told is None:
        return TableRestrictions(catalog=catalog)
    _require_members(told, "read-restrictions", {_ROW_FILTER, _COLUMNS})
    filtered, listed = told.get(_ROW_FILTER), told.get(_COLUMNS)
    if listed is not None and not isinstance(listed, list):
        raise RestrictionNotUnderstood(f"`{_COLUMNS}` is no list")
    predicate = None if filtered is None else _read_predicate(filtered, 0)
    columns = tuple(_read_column(one) for one in listed or ())
    predicate = None if predicate == Fixed(value=True) else predicate
    if not columns and predicate is None:
        return TableRestrictions(catalog=catalog)
    metadata = answer["metadata"]
    schemas = _read_schemas(metadata)
    current = metadata.get("current-schema-id")
    if current not in {one.id for one in schemas}:
        raise RestrictionNotUnderstood("the table has no current schema")
    known = {one.id for schema in schemas for one in walk_fields(schema.fields)}
    ids = [one.field_id for one in columns]
    if len(set(ids)) != len(ids):  # RULE (restriction-column-twice)
        raise RestrictionNotUnderstood("a column has two actions")
    read = frozenset() if predicate is None else list_references(predicate)
    for ident in (*ids, *sorted(read)):
        if ident not in known:  # RULE (restriction-unknown-id)
            raise RestrictionNotUnderstood(f"no schema of the table has the field id {ident}")
    return TableRestrictions(
        catalog=catalog, schemas=schemas, current_schema=current, predicate=predicate, columns=columns
    )


def _require_members(value: Any, what: str, known: set[str], needed: Sequence[str] = ()) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RestrictionNotUnderstood(f"{what} is no object")
    unknown = sorted(set(value) - known)
    if unknown:  # RULE (restriction-unknown-member)
        raise RestrictionNotUnderstood(f"unknown member {_quote(unknown[0])} of {what}")
    for key in needed:
        if key not in value:
            raise RestrictionNotUnderstood(f"{what} has no `{key}`")
    return value


def _quote(told: object) -> str:
    """Write what a server says within a message: short, and in one line."""
    shown = "".join(c if c.isprintable() and c != "`" else "?" for c in str(told))
    return f"`{shown[:60]}`"


def _read_column(told: Any) -> ColumnAction:
    one = _require_members(told, "a column", {"field-id", "action"}, ("field-id", "action"))
    action = one["action"]
    if isinstance(action, dict):
        # A discriminated object, of which none of the actions has anything beside its name.
        members = _require_members(action, "an action", {"action", "type"})
        names = set(members.values()) if all(isinstance(n, str) for n in members.values()) else set()
        action = names.pop() if len(names) == 1 else None
    if not isinstance(action, str) or action not in ACTIONS:  # RULE (restriction-unknown-action)
        raise RestrictionNotUnderstood(f"unknown action {_quote(action)}")
    return ColumnAction(field_id=_read_id(one["field-id"]), action=action)


def _read_id(told: Any) -> int:
    if not isinstance(told, int) or isinstance(told, bool):
        raise RestrictionNotUnderstood(f"the field id {_quote(told)} is no number")
    return told


# Predicates.


def _read_predicate(told: Any, depth: int) -> Predicate:
    if depth > MAX_DEPTH:
        raise RestrictionNotUnderstood("a row filter that is nested too deep")
    if isinstance(told, bool):
        return Fixed(value=told)
    if not isinstance(told, dict) or not isinstance(told.get("type"), str):
        raise RestrictionNotUnderstood("a row filter that is no expression")
    kind = told["type"]
    match kind:
        case "true" | "false":
            _require_members(told, f"`{kind}`", {"type"})
            return Fixed(value=kind == "true")
        case "not":
            return Negated(_read_predicate(_child(told), depth + 1))
        case "and" | "or":
            left, right = _sides(told)
            first, second = _read_predicate(left, depth + 1), _read_predicate(right, depth + 1)
            return JoinedPredicates("AND" if kind == "and" else "OR", first, second)
        case "is-null" | "is-nan":
            return ReferenceTest(kind, _read_reference(_child(told)))
        case "lt" | "lt-eq" | "gt" | "gt-eq" | "eq" | "starts-with":
            return _read_comparison(cast(_Operator, kind), *_sides(told))
        case "in":
            values = _require_members(told, "`in`", {"type", "child", "values"}, ("child", "values"))[
                "values"
            ]
            if not isinstance(values, list) or not values or len(values) > MAX_VALUES:
                raise RestrictionNotUnderstood("`in` without a list of values")
            return LiteralMembership(
                _read_reference(told["child"]), tuple(_read_literal(one) for one in values)
            )
        case _ if kind in _NEGATIONS:
            return Negated(_read_predicate({**told, "type": _NEGATIONS[kind]}, depth + 1))
        case _:  # RULE (restriction-unknown-expression)
            raise RestrictionNotUnderstood(f"unknown expression {_quote(kind)}")


def _child(told: Any) -> Any:
    return _require_members(told, f"`{told['type']}`", {"type", "child"}, ("child",))["child"]


def _sides(told: Any) -> tuple[Any, Any]:
    found = _require_members(told, f"`{told['type']}`", {"type", "left", "right"}, ("left", "right"))
    return found["left"], found["right"]


def _is_reference(told: Any) -> bool:
    return isinstance(told, dict) and told.get("type") == "reference"


def _read_reference(told: Any) -> int:
    if not _is_reference(told):
        kind = told.get("type") if isinstance(told, dict) else told
        raise RestrictionNotUnderstood(f"{_quote(kind)} where a column is referenced")
    # By id alone: a name would mean another column after a rename.
    return _read_id(_require_members(told, "`reference`", {"type", "id"}, ("id",))["id"])


def _read_comparison(operator: _Operator, left: Any, right: Any) -> LiteralComparison:
    if _is_reference(left):
        return LiteralComparison(operator, _read_reference(left), _read_literal(right))
    if operator not in _MIRRORED:
        raise RestrictionNotUnderstood(f"`{operator}` of a literal")
    return LiteralComparison(
        cast(_Operator, _MIRRORED[operator]), _read_reference(right), _read_literal(left)
    )


def _read_literal(told: Any) -> JsonLiteral:
    kind = ""
    if isinstance(told, dict):
        if told.get("type") != "literal":
            raise RestrictionNotUnderstood(f"{_quote(told.get('type'))} where a literal is compared")
        found = _require_members(told, "`literal`", {"type", "value", "data-type"}, ("value",))
        told, kind = found["value"], found.get("data-type", "")
    if not isinstance(told, (str, int, float, bool)) or not isinstance(kind, str):
        raise RestrictionNotUnderstood("a literal that is no value")
    return JsonLiteral(told, kind.replace(" ", ""))


# Schemas.


def _read_schemas(metadata: Mapping[str, Any]) -> tuple[TableSchema, ...]:
    schemas = metadata.get("schemas")
    if not isinstance(schemas, list):
        raise RestrictionNotUnderstood("the table has no schemas")
    found = []
    for one in schemas:
        if not isinstance(one, dict) or not isinstance(one.get("schema-id"), int):
            raise RestrictionNotUnderstood("a schema without an id")
        found.append(TableSchema(id=one["schema-id"], fields=_read_fields(one.get("fields"), 0)))
    return tuple(found)


def _read_fields(told: Any, depth: int) -> tuple[SchemaField, ...]:
    if not isinstance(told, list):
        raise RestrictionNotUnderstood("a schema without fields")
    found = []
    for one in told:
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            raise RestrictionNotUnderstood("a field without a name")
        found.append(_read_field(one["name"], one.get("id"), one.get("type"), one.get("required"), depth))
    return tuple(found)


def _read_field(name: str, ident: Any, kind: Any, required: Any, depth: int) -> SchemaField:
    if not isinstance(required, bool):
        raise RestrictionNotUnderstood("a field that is neither required nor optional")
    return SchemaField(id=_read_id(ident), name=name, type=_read_type(kind, depth + 1), required=required)


def _read_type(told: Any, depth: int) -> str | StructType | ListType | MapType:
    if depth > MAX_DEPTH:
        raise RestrictionNotUnderstood("a type that is nested too deep")
    if isinstance(told, str):
        return told.replace(" ", "")
    kind = told.get("type") if isinstance(told, dict) else None
    match kind:
        case "struct":
            return StructType(_read_fields(told.get("fields"), depth))
        case "list":
            required = told.get("element-required")
            return ListType(
                _read_field("element", told.get("element-id"), told.get("element"), required, depth)
            )
        case "map":
            always = told.get("key-required", True)
            key = _read_field("key", told.get("key-id"), told.get("key"), always, depth)
            required = told.get("value-required")
            value = _read_field("value", told.get("value-id"), told.get("value"), required, depth)
            return MapType(key, value)
    raise RestrictionNotUnderstood(f"unknown type {_quote(kind)}")
