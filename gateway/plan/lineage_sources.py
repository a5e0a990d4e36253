"""Names and types of columns where a plan says them itself: schemas in DDL or JSON, local data."""

from __future__ import annotations

import json

from gateway.algebra.types_in_ddl import struct_fields
from gateway.wire.connect import ProtobufError, pb
from gateway.wire.local_data import columns_of

MAX_SCHEMA = 1_000_000
"""Characters of a schema that are read."""
_TYPES = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
"""JSON's names of types, and DDL's."""


def columns_in(schema: str) -> list[tuple[str, str]]:
    """Return a schema's columns: names in lower case, and types where they are simple ones, else empty; none
    where they cannot be read."""
    text = schema.strip()
    if not text or len(text) > MAX_SCHEMA:
        return []
    if not text.startswith("{"):
        inside = text if text[:7].lower() == "struct<" else f"struct<{text}>"
        return [(name, "") for name in struct_fields(inside) or ()]
    try:
        fields = [(str(field["name"]).lower(), field["type"]) for field in json.loads(text)["fields"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [(name, _TYPES.get(type_, type_) if isinstance(type_, str) else "") for name, type_ in fields]


def names_in(schema: str) -> list[str]:
    """Return the names of a schema's columns, lower case; none where they cannot be read."""
    return [name for name, _ in columns_in(schema)]


def local_names(local: pb.LocalRelation) -> list[str]:
    """Return the names of the columns of data that the client brings."""
    names = names_in(local.schema) if local.HasField("schema") else []
    if names or not local.HasField("data"):
        return names
    try:
        return [name.lower() for name in columns_of(local.data)]
    except ProtobufError:
        return []
