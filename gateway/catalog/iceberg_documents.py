"""Schemas, partitions and views in the JSON of Iceberg's REST specification, as a new table is told by."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

from gateway.catalog.partitioning import parse_partitioning
from gateway.catalog.readable import NotSupported, TableEntry
from gateway.catalog.types import DdlType, NotUnderstood, parse_ddl
from gateway.model.catalog import unquote

_TYPES = {
    "boolean": "boolean", "tinyint": "int", "smallint": "int", "int": "int", "bigint": "long",
    "float": "float", "double": "double", "date": "date", "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp", "string": "string", "char": "string", "varchar": "string",
    "binary": "binary", "variant": "variant",
}  # fmt: skip
_TRANSFORMS = frozenset({"identity", "year", "month", "day", "hour", "bucket", "truncate", "void"})
_WITH_WIDTH = frozenset({"bucket", "truncate"})


def new_table(table: TableEntry) -> dict[str, Any]:
    """Return the body that makes a table. Raises NotSupported for what Iceberg does not have."""
    schema = _schema(table)
    ids = {field["name"].lower(): field["id"] for field in schema["fields"]}
    told: dict[str, Any] = {"name": table.name, "schema": schema, "properties": _properties(table)}
    if table.location:
        told["location"] = table.location
    if table.partitioning:
        told["partition-spec"] = {
            "spec-id": 0,
            "fields": [_partition(one, ids) for one in table.partitioning],
        }
    return told


def new_view(view: TableEntry, levels: list[str]) -> dict[str, Any]:
    """Return the body that makes a view, whose text is Spark's; its names are looked for in `levels`."""
    if not view.text:
        raise NotSupported(f"the view `{view.name}` has no text")
    representation = {"type": "sql", "sql": view.text, "dialect": "spark"}
    version = {
        "version-id": 1,
        "schema-id": 0,
        "timestamp-ms": int(time.time() * 1000),
        "summary": {"engine-name": "sluice"},
        "representations": [representation],
        "default-namespace": levels,
    }
    told = {"name": view.name, "schema": _schema(view), "view-version": version}
    return {**told, "properties": _properties(view), **({"location": view.location} if view.location else {})}


def _properties(table: TableEntry) -> dict[str, str]:
    own = {"comment": table.comment, "owner": table.owner}
    return {**table.properties, **{key: value for key, value in own.items() if value}}


def _schema(table: TableEntry) -> dict[str, Any]:
    ids = itertools.count(1)
    # The ids of the columns come before those of what is inside of them, as Iceberg itself gives them.
    numbered = [(next(ids), column) for column in table.columns]
    fields = [
        {
            "id": number,
            "name": column.name,
            "required": False,
            "type": _type(_parse(column.type), ids),
            **({"doc": column.comment} if column.comment else {}),
        }
        for number, column in numbered
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def _partition(text: str, ids: dict[str, int]) -> dict[str, Any]:
    one = parse_partitioning(text)
    source = ids.get(one.column.lower())
    if source is None:
        raise NotSupported(f"the table has no column `{one.column}` to partition by")
    if one.transform not in _TRANSFORMS or (one.transform in _WITH_WIDTH) != (one.width is not None):
        raise NotSupported(f"Iceberg does not support partitioning by `{text}`")
    transform = one.transform if one.width is None else f"{one.transform}[{one.width}]"
    name = one.column if one.transform == "identity" else f"{one.column}_{one.transform}"
    return {"source-id": source, "name": name, "transform": transform}


def _parse(text: str) -> DdlType:
    try:
        return parse_ddl(text)
    except NotUnderstood as fault:
        raise NotSupported(f"cannot parse the type `{text[:80]}`: {fault}") from None


def _type(kind: DdlType, ids: Iterator[int]) -> Any:
    match kind.name:
        case "array":
            ((_, element),) = kind.inside
            return {
                "type": "list",
                "element-id": next(ids),
                "element": _type(element, ids),
                "element-required": False,
            }
        case "map":
            (_, key), (_, value) = kind.inside
            numbers = next(ids), next(ids)
            return {
                "type": "map",
                "key-id": numbers[0],
                "key": _type(key, ids),
                "value-id": numbers[1],
                "value": _type(value, ids),
                "value-required": False,
            }
        case "struct":
            fields = [(next(ids), unquote(name), one) for name, one in kind.inside]
            return {
                "type": "struct",
                "fields": [
                    {"id": number, "name": name, "required": False, "type": _type(one, ids)}
                    for number, name, one in fields
                ],
            }
    if kind.name.startswith("decimal("):
        return kind.name.replace(",", ", ")
    found = _TYPES.get(kind.name.partition("(")[0])
    if found is None:
        raise NotSupported(f"Iceberg has no type `{kind.name}`")
    return found
