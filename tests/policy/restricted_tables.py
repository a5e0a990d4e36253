"""Answers to `loadTable` with restrictions, and the table as Spark describes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.catalog.iceberg_types import spark_type
from gateway.catalog.read_restrictions import read_restrictions
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.restrictions import SALT_MARK
from gateway.policy.restrictions import restrict_view
from gateway.policy.views import TableView

SALT = SALT_MARK + "5A" * 32
NAME = TableName("lake", "sales", "t")


def schema(fields: dict[str, Any], *, ident: int = 0, required: tuple[str, ...] = ()) -> dict[str, Any]:
    """A schema with ids 1, 2, … of its columns."""
    return {
        "type": "struct",
        "schema-id": ident,
        "fields": [
            {"id": number, "name": name, "type": kind, "required": name in required}
            for number, (name, kind) in enumerate(fields.items(), 1)
        ],
    }


def answer(*schemas: dict[str, Any], current: int = 0, **restrictions: Any) -> dict[str, Any]:
    """What a server answers; `row_filter` and `columns` (id → action) restrict the table."""
    told: dict[str, Any] = {"metadata": {"schemas": list(schemas), "current-schema-id": current}}
    restricted: dict[str, Any] = {}
    if "row_filter" in restrictions:
        restricted["required-row-filter"] = restrictions["row_filter"]
    if "columns" in restrictions:
        restricted["required-column-projections"] = [
            {"field-id": ident, "action": action} for ident, action in restrictions["columns"].items()
        ]
    return {**told, "read-restrictions": restricted} if restricted else told


def table(told: dict[str, Any], *, version: str = "", names: dict[str, Any] | None = None) -> Table:
    """The table as Spark describes it, with what the answer restricts; `names`: its columns, if others."""
    metadata = told["metadata"]
    current = next(s for s in metadata["schemas"] if s["schema-id"] == metadata["current-schema-id"])
    columns = names or {one["name"]: one["type"] for one in current["fields"]}
    restrictions = replace(read_restrictions("lake", told), salt=SALT)
    return Table(
        name=replace(NAME, version=version),
        kind=TableKind.TABLE,
        columns=tuple(Column(name=name, type=spark_type(kind)) for name, kind in columns.items()),
        provider="iceberg",
        restrictions=restrictions,
    )


OPEN = TableView(allowed={}, masks={}, row_filter=None, hidden=frozenset(), uniform=lambda: True)


def restricted(
    told: dict[str, Any], view: TableView = OPEN, *, bare: bool = True, **table_of: Any
) -> TableView:
    return restrict_view(view, table(told, **table_of), bare=bare)
