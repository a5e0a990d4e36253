"""Iceberg's types as Spark writes them."""

from __future__ import annotations

from typing import Any

from gateway.catalog.readable import CatalogUnavailable
from gateway.catalog.rest import items, read_object, text
from gateway.model.catalog import quote as quoted
from gateway.model.restrictions import SPARK_TYPES

_TYPES = {**SPARK_TYPES, "time": "time(6)", "variant": "variant"}


def spark_type(told: Any, depth: int = 0) -> str:
    """Return a type of Iceberg's as Spark writes it. Raises CatalogUnavailable for one that is none."""
    if depth > 50:
        raise CatalogUnavailable("a type that is nested too deep")
    if isinstance(told, str):
        if told.startswith("decimal("):
            return told.replace(" ", "")
        return "binary" if told.startswith("fixed[") else _TYPES.get(told, told)
    one = read_object(told, "type")
    match one.get("type"):
        case "struct":
            fields = [read_object(f, "field") for f in items(one.get("fields"), "fields")]
            inner = (
                f"{quoted(text(f.get('name'), 'name'))}:{spark_type(f.get('type'), depth + 1)}"
                for f in fields
            )
            return f"struct<{','.join(inner)}>"
        case "list":
            return f"array<{spark_type(one.get('element'), depth + 1)}>"
        case "map":
            return f"map<{spark_type(one.get('key'), depth + 1)},{spark_type(one.get('value'), depth + 1)}>"
    raise CatalogUnavailable("an unknown type")
