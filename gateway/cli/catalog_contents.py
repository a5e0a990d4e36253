"""What a catalog has under a name, for `sluice catalogs show`: no property that may hold a secret is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.app.opening_catalogs import HIDDEN
from gateway.catalog.providers import is_secret
from gateway.catalog.readable import NoSuchDatabase, NoSuchFunction, NoSuchTable, ReadableCatalog


async def shown(catalog: ReadableCatalog, name: str, below: Sequence[str]) -> list[dict[str, Any]]:
    """Return the database and the table that a name means below a catalog: both, where there are both, since
    databases may lie in one another. Raises NoSuchDatabase, NoSuchTable."""
    told = []
    whole, above = ".".join(below), ".".join(below[:-1])
    try:
        told.append(await _database(catalog, name, whole))
    except NoSuchDatabase:
        if not above:
            raise
    if above:
        try:
            told.append(await _table(catalog, name, above, below[-1]))
        except NoSuchTable:
            told += await _function(catalog, name, above, below[-1])
            if not told:
                raise NoSuchTable(f"`{name}` has no table, function or database `{whole}`") from None
    return told


async def _database(catalog: ReadableCatalog, name: str, database: str) -> dict[str, Any]:
    found = await catalog.database(database)
    return {
        "catalog": name,
        "database": found.name,
        "comment": found.comment,
        "owner": found.owner,
        "location": found.location,
        "properties": _properties(found.properties),
        "tables": list(await catalog.tables(database)),
        "views": list(await catalog.views(database)),
        "functions": list(await catalog.functions(database)),
    }


async def _function(
    catalog: ReadableCatalog, name: str, database: str, function: str
) -> list[dict[str, Any]]:
    try:
        found = await catalog.function(database, function)
    except (NoSuchDatabase, NoSuchFunction):
        return []
    return [
        {
            "catalog": name,
            "database": database,
            "function": found.name,
            "class": found.class_name,
            "owner": found.owner,
            "text": found.text,
        }
    ]


async def _table(catalog: ReadableCatalog, name: str, database: str, table: str) -> dict[str, Any]:
    found = await catalog.table(database, table)
    return {
        "catalog": name,
        "database": database,
        found.kind.value: found.name,
        "comment": found.comment,
        "owner": found.owner,
        "provider": found.provider,
        "location": found.location,
        "columns": [{"name": one.name, "type": one.type, "comment": one.comment} for one in found.columns],
        "partitioning": list(found.partitioning),
        "rows": found.rows,
        "text": found.text,
        "properties": _properties(found.properties),
    }


def _properties(properties: Mapping[str, str]) -> dict[str, str]:
    return {key: HIDDEN if is_secret(key, value) else value for key, value in sorted(properties.items())}
