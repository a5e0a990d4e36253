"""What becomes of a table's columns by another schema, by their ids: which are renamed, added, dropped.

Files have columns by ids, policies by names. INVARIANT (a name keeps its data): no id of the past comes back
under another name, or at another place, because what a policy says of the old name would not be said of it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from gateway.catalog.iceberg_types import spark_type
from gateway.catalog.readable import CatalogUnavailable
from gateway.model.catalog import Column, TableName, quote
from gateway.rest.requests import bad_request, forbidden, require_list, require_members, require_text
from gateway.rest.statements import name_of

MAX_DEPTH = 50
_FIELD = ("id", "name", "type", "required", "doc", "initial-default", "write-default")
_TYPES: Mapping[str, tuple[str, ...]] = {
    "struct": ("type", "fields"),
    "list": ("type", "element-id", "element", "element-required"),
    "map": ("type", "key-id", "key", "value-id", "value", "value-required", "key-required"),
}


def read_schema(told: Any) -> Mapping[str, Any]:
    """Return a schema of a body, of which every member is known."""
    members = require_members(
        told, "a schema", ("type", "schema-id", "identifier-field-ids", "fields"), ("fields",)
    )
    for one in require_list(members["fields"], "the fields of a schema"):
        _check_field(one, 0)
    ids = [ident for one in members["fields"] for ident in list_ids(one)]
    if len(set(ids)) != len(ids):
        raise bad_request("a schema has an id twice")
    return members


def _check_field(told: Any, depth: int) -> None:
    one = require_members(told, "a field", _FIELD, ("id", "name", "type"))
    require_text(one["name"], "the name of a field")
    _check_type(one["type"], depth + 1)


def _check_type(told: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise bad_request("a type that is nested too deep")
    if isinstance(told, str):
        return
    kind = told.get("type") if isinstance(told, dict) else None
    if not isinstance(kind, str) or kind not in _TYPES:
        raise bad_request("a type that is not known")
    require_members(
        told, "a type", _TYPES[kind], [key for key in _TYPES[kind] if not key.endswith("required")]
    )
    match kind:
        case "struct":
            for one in require_list(told["fields"], "the fields of a struct"):
                _check_field(one, depth)
        case "list":
            _check_type(told["element"], depth + 1)
        case "map":
            _check_type(told["key"], depth + 1)
            _check_type(told["value"], depth + 1)


def list_ids(field: Mapping[str, Any]) -> Iterator[int]:
    """Yield the ids of a field and of all within it."""
    yield _number(field["id"])
    yield from _ids_within(field["type"])


def _ids_within(told: Any) -> Iterator[int]:
    if not isinstance(told, dict):
        return
    for one in told.get("fields", ()):
        yield from list_ids(one)
    for key in ("element", "key", "value"):
        if key in told:
            yield _number(told[f"{key}-id"])
            yield from _ids_within(told[key])


def _number(told: Any) -> int:
    if not isinstance(told, int) or isinstance(told, bool):
        raise bad_request("an id that is no number")
    return told


def read_columns(fields: Sequence[Mapping[str, Any]]) -> tuple[Column, ...]:
    """Return the fields of a schema as columns."""
    try:
        return tuple(Column(name=one["name"], type=spark_type(one["type"])) for one in fields)
    except CatalogUnavailable:
        raise bad_request("a type that is not known") from None


def write_changes(
    table: TableName,
    metadata: Mapping[str, Any],
    current: Sequence[Mapping[str, Any]],
    schema: Mapping[str, Any],
) -> list[str]:
    """Return the statements that another schema counts as. Raises RestFault for what no statement can do."""
    wanted = schema["fields"]
    was, will = {_number(one["id"]): one for one in current}, {_number(one["id"]): one for one in wanted}
    _require_ids_in_place(metadata, was, will)
    altered = f"ALTER TABLE {name_of(table)}"
    found: list[str] = []
    for ident, one in will.items():
        old = was.get(ident)
        if old is None:
            (column,) = read_columns([one])
            found.append(f"{altered} ADD COLUMNS ({quote(column.name)} {column.type})")
            continue
        if old["name"] != one["name"]:
            found.append(f"{altered} RENAME COLUMN {quote(old['name'])} TO {quote(one['name'])}")
        if {**old, "name": ""} != {**one, "name": ""}:
            found.append(f"{altered} ALTER COLUMN {quote(old['name'])} COMMENT 'changed'")
    found += [
        f"{altered} DROP COLUMNS ({quote(old['name'])})" for ident, old in was.items() if ident not in will
    ]
    if not found and list(was) != list(will):
        found.append(f"{altered} ALTER COLUMN {quote(next(iter(will.values()))['name'])} FIRST")
    return found


def _require_ids_in_place(
    metadata: Mapping[str, Any], was: Container[int], will: Mapping[int, Mapping[str, Any]]
) -> None:
    """Require that ids which the table has, or had, are of the columns that they were of. `was`: those of the
    schema before, which the same commit may have changed already."""
    last = metadata.get("last-column-id")
    if not isinstance(last, int):
        raise forbidden("it is not known which ids the table's columns have had")
    owners: dict[int, set[int]] = {}
    names: dict[int, str] = {}
    for schema in sorted(metadata["schemas"], key=lambda one: one.get("schema-id", 0)):
        for field in schema["fields"]:
            top = _number(field["id"])
            names[top] = field["name"]
            for ident in list_ids(field):
                owners.setdefault(ident, set()).add(top)
    for top, field in will.items():
        for ident in list_ids(field):
            if ident <= last and owners.get(ident) != {top}:  # RULE (rest-id-of-other-data)
                raise forbidden(f"the schema gives the id {ident} of other data to `{field['name']}`")
        if top <= last and top not in was and names.get(top) != field["name"]:  # RULE (rest-former-id)
            raise forbidden(
                f"the schema brings data of the former column `{names.get(top)}` back as `{field['name']}`"
            )
