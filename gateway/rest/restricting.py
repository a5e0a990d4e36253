"""What a verdict obliges to, as Iceberg's `read-restrictions`: exactly, or by what shows less where the
operator allows that, or not at all.

A mask is known by its expression, not by its name, which a service definition may give another meaning.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.catalog.read_restrictions import read_restrictions
from gateway.model.catalog import Table
from gateway.model.decision import ColumnMask, RowFilter
from gateway.model.reading import Reading
from gateway.model.restrictions import QUERY_LOCAL, SALT_BYTES, SALT_MARK, FilterColumn
from gateway.model.statement import Cleared
from gateway.policy.masks import mask_expression, null_of
from gateway.policy.restrictions import restrict_view
from gateway.policy.views import TableView
from gateway.reader.port import ReaderPort
from gateway.rest.described import describe, find_schema, list_past_fields
from gateway.rest.predicates import NotServable, PredicateJson, both_predicates, write_filter

__all__ = ["Exactness", "NotServable", "Restricting", "ServedMask", "map_mask"]

_NULL = "replace-with-null"
_SAMPLE_SALT = SALT_MARK + "00" * SALT_BYTES


class Exactness(enum.Enum):
    """How a restriction says what a policy says."""

    EXACT = "exact"
    STRICTER = "stricter"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedMask:
    """What a reader that enforces shows in the place of a mask."""

    exactness: Exactness
    action: str = ""
    """Empty where there is none."""
    why: str = ""
    """Why it is not exact."""


_EXACT: Mapping[tuple[str, str], str] = {
    ("MASK_HASH", "string"): "sha-256-global",
    ("MASK_DATE_SHOW_YEAR", "date"): "truncate-to-year",
}
"""Mask and Iceberg's type → the action that gives the same values."""
_STRICTER: Mapping[tuple[str, str], str] = {
    ("MASK", "string"): "mask-alphanum",
    ("MASK_SHOW_FIRST_4", "string"): "show-first-4",
    ("MASK_SHOW_LAST_4", "string"): "show-last-4",
}
"""The same for those that show less of the kinds of characters, in other letters."""
_LESS = {
    "mask-alphanum": "its letters are all `x`",
    "show-first-4": "hidden characters are `n` and `x`",
    "show-last-4": "hidden characters are `n` and `x`",
}


def map_mask(mask: ColumnMask, data_type: str, kind: str, *, required: bool) -> ServedMask:
    """Return the restriction for a mask. `data_type` is Spark's, `kind` Iceberg's, empty for one that is no
    single value."""
    if mask.predicate == "deny":  # RULE (rest-denied-predicate)
        return ServedMask(
            exactness=Exactness.IMPOSSIBLE,
            why="it refuses conditions on its column, and readers do not",
        )
    if mask.expression == null_of(mask.column):
        if required:
            return ServedMask(exactness=Exactness.IMPOSSIBLE, why="a required column cannot be NULL")
        return ServedMask(exactness=Exactness.EXACT, action=_NULL)
    for known, exactness in ((_EXACT, Exactness.EXACT), (_STRICTER, Exactness.STRICTER)):
        for (mask_type, of), action in known.items():
            if of == kind and mask.expression in _spell(mask_type, mask.column, data_type):
                return ServedMask(exactness=exactness, action=action, why=_LESS.get(action, ""))
    if required:
        return ServedMask(
            exactness=Exactness.IMPOSSIBLE, why="no restriction shows the same, and it cannot be NULL"
        )
    return ServedMask(
        exactness=Exactness.STRICTER, action=_NULL, why="no restriction shows the same but NULL"
    )


def _spell(mask_type: str, column: str, data_type: str) -> set[str | None]:
    return {mask_expression(mask_type, column, data_type, bare=bare) for bare in (False, True)}


@dataclass(frozen=True, slots=True)
class _Field:
    id: int
    type: str
    required: bool


class Restricting:
    """Writes the restrictions of one service."""

    def __init__(self, reader: ReaderPort, *, stricter: bool = False) -> None:
        """`stricter`: whether what shows less than the policies say may stand for them."""
        self._reader = reader
        self._stricter = stricter

    async def restrict(
        self, user: str, told: Mapping[str, Any], table: Table, cleared: Cleared, hidden: Sequence[str] = ()
    ) -> PredicateJson:
        """Return `read-restrictions` for a table that the catalog has answered, in which its own are joined.
        `hidden`: columns that show NULL. Raises NotServable."""
        fields = _read_fields(told["metadata"])
        if any(scan.obligations and scan.table.fold() != table.name.fold() for scan in cleared.scans):
            raise NotServable("something else than the table is restricted")
        if cleared.hides_columns and not hidden:  # RULE (rest-restrict-hidden)
            raise NotServable("it has columns that you may not select")
        types = {one.name: one.type for one in table.columns}
        actions: dict[int, str] = {}
        past = _read_past_fields(told["metadata"])
        for name in hidden:
            for field in past[name.lower()]:
                self._add(actions, field, name, ServedMask(exactness=Exactness.EXACT, action=_NULL))
        predicate: PredicateJson | None = None
        for one in cleared.obligations:
            match one:
                case ColumnMask():
                    for field in past[one.column.lower()]:
                        found = map_mask(one, types[one.column], field.type, required=field.required)
                        self._add(actions, field, one.column, found)
                case RowFilter():
                    predicate = _join(predicate, await self.write_rows(one, fields, user))
        restrictions = self._join_own(told, fields, actions, predicate)
        _prove(told, describe(table.name, told["metadata"]), restrictions)
        return restrictions

    async def write_rows(self, rows: RowFilter, fields: Mapping[str, _Field], user: str) -> PredicateJson:
        """Return a row filter as a predicate. Raises NotServable."""
        reading = await self._reader.read_expression(rows.expression)
        if not isinstance(reading, Reading):
            raise NotServable("a row filter that is not read now")
        columns: dict[str, FilterColumn] = {}
        for name, field in fields.items():
            if name.lower() in columns:
                raise NotServable("two columns whose names differ in case alone")
            columns[name.lower()] = FilterColumn(field.id, field.type)
        return write_filter(reading, columns, user)

    def _add(self, actions: dict[int, str], field: _Field, name: str, found: ServedMask) -> None:
        if found.exactness is Exactness.IMPOSSIBLE:
            raise NotServable(
                f"the mask of column `{name}` has no restriction that is as strict: {found.why}"
            )
        if found.exactness is Exactness.STRICTER and not self._stricter:  # RULE (rest-stricter)
            raise NotServable(
                f"the mask of column `{name}` has no restriction that shows the same: {found.why} "
                "(`stricter` allows that)"
            )
        if found.action == _NULL and field.required:
            raise NotServable(f"column `{name}` may not be shown, and is required, so it cannot be NULL")
        actions[field.id] = _join_actions(actions.get(field.id), found.action, field)

    @staticmethod
    def _join_own(
        told: Mapping[str, Any],
        fields: Mapping[str, _Field],
        actions: dict[int, str],
        predicate: PredicateJson | None,
    ) -> PredicateJson:
        """Return restrictions with those that the catalog has itself."""
        own = told.get("read-restrictions") or {}
        if own.get("required-row-filter") is not None:
            predicate = _join(predicate, _as_object(own["required-row-filter"]))
        by_id = {one.id: one for one in fields.values()}
        within = {inner for one in told["metadata"]["schemas"] for inner in _list_within(one, actions)}
        others = read_restrictions("", dict(told)).columns
        for one in others:
            if one.field_id in by_id:
                field = by_id[one.field_id]
                actions[one.field_id] = _join_actions(actions.get(one.field_id), one.action, field)
            elif one.field_id not in within:
                actions[one.field_id] = one.action
        found: PredicateJson = {}
        if predicate is not None:
            found["required-row-filter"] = predicate
        if actions:
            found["required-column-projections"] = [
                {"field-id": ident, "action": action} for ident, action in sorted(actions.items())
            ]
        return found


def _join(left: PredicateJson | None, right: PredicateJson) -> PredicateJson:
    return right if left is None else both_predicates(left, right)


def _as_object(told: Any) -> PredicateJson:
    return {"type": "true" if told else "false"} if isinstance(told, bool) else told


def _join_actions(one: str | None, other: str, field: _Field) -> str:
    """Return what a column shows of which two things are said."""
    if one is None or one == other:
        return other
    if field.required:
        raise NotServable("a required column has two masks, and cannot be NULL")
    return _NULL


def _read_fields(metadata: Mapping[str, Any]) -> dict[str, _Field]:
    """Return the columns of the current schema by their names."""
    fields = find_schema(metadata, metadata.get("current-schema-id", 0))
    return {str(one["name"]): _read_field(one) for one in fields}


def _read_past_fields(metadata: Mapping[str, Any]) -> dict[str, list[_Field]]:
    """Return by names in lower case all columns that are, or were, called so, and are called nothing else
    now: earlier snapshots are read by the schemas of then."""
    current = {one["id"]: one for one in find_schema(metadata, metadata.get("current-schema-id", 0))}
    found: dict[str, dict[int, _Field]] = {}
    for one in list_past_fields(metadata):
        if current.get(one["id"], one)["name"] == one["name"]:
            found.setdefault(str(one["name"]).lower(), {})[int(one["id"])] = _read_field(one)
    return {name: list(fields.values()) for name, fields in found.items()}


def _read_field(one: Mapping[str, Any]) -> _Field:
    kind = one.get("type")
    single = kind.replace(" ", "") if isinstance(kind, str) else ""
    return _Field(int(one["id"]), single, one.get("required") is not False)


def _list_within(schema: Mapping[str, Any], actions: Mapping[int, str]) -> set[int]:
    """Return the ids of fields within columns that show NULL: nothing more can be said of them."""
    found: set[int] = set()
    for one in schema.get("fields", ()):
        if actions.get(one.get("id")) == _NULL:
            _add_ids(one.get("type"), found, 0)
    return found


def _add_ids(told: Any, found: set[int], depth: int) -> None:
    if depth > 100:
        raise NotServable("a type that is nested too deep")
    if isinstance(told, dict):
        found.update(one for key, one in told.items() if key in ("id", "element-id", "key-id", "value-id"))
        for one in told.values():
            _add_ids(one, found, depth + 1)
    elif isinstance(told, list):
        for one in told:
            _add_ids(one, found, depth + 1)


_OPEN = TableView(allowed={}, masks={}, row_filter=None, hidden=frozenset(), uniform=lambda: True)


def _prove(told: Mapping[str, Any], table: Table, restrictions: PredicateJson) -> None:
    """Require that the restrictions are understood, and can be enforced, by what this gateway does with those
    of others. INVARIANT (what is served is read): one way to write them, and the other to read them."""
    read = read_restrictions("", {**told, "read-restrictions": restrictions})
    if read.fault:
        raise NotServable(read.fault)
    salted = replace(read, salt=_SAMPLE_SALT) if any(c.action == QUERY_LOCAL for c in read.columns) else read
    closed = restrict_view(_OPEN, replace(table, restrictions=salted), bare=True).closed
    if closed:
        raise NotServable(closed)
