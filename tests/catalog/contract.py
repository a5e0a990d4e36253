"""What every catalog does in which databases are made and dropped: one contract, held by each of them."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest

from gateway.catalog.readable import (
    DatabaseAlreadyExists,
    NoSuchDatabase,
    NoSuchFunction,
    NoSuchTable,
    WritableCatalog,
)
from gateway.errors import SluiceError
from gateway.model.catalog import Column

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="at", type="timestamp", comment="when"),
    Column(name="tags", type="array<string>"),
)


async def raises(error: type[SluiceError], asked: Awaitable[Any]) -> None:
    with pytest.raises(error):
        await asked


async def holds(catalog: WritableCatalog, database: str) -> None:
    """See that a catalog holds the contract, in a database of that name, which is not there yet."""
    assert database not in await catalog.databases()
    for question in (catalog.database, catalog.tables, catalog.views, catalog.functions):
        await raises(NoSuchDatabase, question(database))
    await raises(NoSuchTable, catalog.table(database, "orders"))
    await raises(NoSuchDatabase, catalog.function(database, "f"))
    await raises(NoSuchDatabase, catalog.drop_database(database))
    await catalog.create_database(database)
    await raises(DatabaseAlreadyExists, catalog.create_database(database))
    assert database in await catalog.databases()
    assert (await catalog.database(database)).name == database
    for question in (catalog.tables, catalog.views, catalog.functions):
        assert list(await question(database)) == []
    await raises(NoSuchTable, catalog.table(database, "orders"))
    await raises(NoSuchFunction, catalog.function(database, "f"))
    await catalog.drop_database(database)
    await raises(NoSuchDatabase, catalog.database(database))
