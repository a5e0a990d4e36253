"""What every catalog does that the gateway can change: one contract, held by each of them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.catalog.readable import (
    DatabaseAlreadyExists,
    DatabaseEntry,
    DatabaseNotEmpty,
    NoSuchDatabase,
    NoSuchFunction,
    NoSuchTable,
    NotSupported,
    TableAlreadyExists,
    TableEntry,
    WritableCatalog,
)
from gateway.errors import SluiceError
from gateway.model.catalog import Column, TableKind

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="at", type="timestamp", comment="when"),
    Column(name="tags", type="array<string>"),
)


@dataclass(frozen=True)
class Ability:
    """What a kind of catalog has beside databases and tables."""

    columns: tuple[Column, ...] = COLUMNS
    partitioning: tuple[str, ...] = ("id",)
    provider: str | None = None
    properties: bool = True
    """Whether databases and tables have properties, and comments."""
    views: bool = True


async def raises(error: type[SluiceError], asked: Awaitable[Any]) -> None:
    with pytest.raises(error):
        await asked


async def holds(catalog: WritableCatalog, database: str, ability: Ability) -> None:
    """See that a catalog holds the contract, in a database of that name, which is not there yet."""
    await no_such_database(catalog, database)
    await databases(catalog, database, ability)
    await tables(catalog, database, ability)
    await views(catalog, database, ability)
    await dropped(catalog, database, ability)


def table(database: str, name: str, ability: Ability, **more: Any) -> TableEntry:
    return TableEntry(
        database=database, name=name, columns=ability.columns, provider=ability.provider, **more
    )


async def no_such_database(catalog: WritableCatalog, database: str) -> None:
    assert database not in await catalog.databases()
    for question in (catalog.database, catalog.tables, catalog.views, catalog.functions):
        await raises(NoSuchDatabase, question(database))
    await raises(NoSuchTable, catalog.table(database, "orders"))
    await raises(NoSuchDatabase, catalog.function(database, "f"))
    await raises(NoSuchDatabase, catalog.create_table(table(database, "orders", Ability())))
    await raises(NoSuchDatabase, catalog.drop_database(database))
    await raises(NoSuchDatabase, catalog.alter_database(database, {"a": "1"}))
    await catalog.alter_database(database, {"a": "1"}, ignore_if_not_exists=True)
    await catalog.drop_database(database, ignore_if_not_exists=True)
    await catalog.drop_database(database, ignore_if_not_exists=True, cascade=True)
    for ignored in (
        catalog.drop_table(database, "orders", ignore_if_not_exists=True),
        catalog.rename_table(database, "orders", "o", ignore_if_not_exists=True),
        catalog.alter_table(database, "orders", {"a": "1"}, ignore_if_not_exists=True),
    ):
        await ignored


async def databases(catalog: WritableCatalog, database: str, ability: Ability) -> None:
    told = {"team": "it's \\ red", "gone": "x"} if ability.properties else {}
    made = DatabaseEntry(name=database, comment="c" if ability.properties else None, properties=told)
    await catalog.create_database(made)
    await raises(DatabaseAlreadyExists, catalog.create_database(made))
    await catalog.create_database(made, ignore_if_exists=True)
    assert database in await catalog.databases()
    found = await catalog.database(database)
    assert found.name == database
    assert list(await catalog.tables(database)) == []
    assert list(await catalog.views(database)) == []
    if ability.properties:
        assert found.comment == "c"
        assert told.items() <= found.properties.items()
        await catalog.alter_database(database, {"team": "blue", "gone": None, "new": "y"})
        changed = (await catalog.database(database)).properties
        assert (changed.get("team"), changed.get("gone"), changed.get("new")) == ("blue", None, "y")


async def tables(catalog: WritableCatalog, database: str, ability: Ability) -> None:
    told = {"kept": "it's", "gone": "x"} if ability.properties else {}
    comment = "all" if ability.properties else None
    orders = table(
        database, "orders", ability, properties=told, comment=comment, partitioning=ability.partitioning
    )
    await catalog.create_table(orders)
    await raises(TableAlreadyExists, catalog.create_table(orders))
    await catalog.create_table(orders, ignore_if_exists=True)
    await catalog.create_table(table(database, "items", ability))
    assert list(await catalog.tables(database)) == ["items", "orders"]
    found = await catalog.table(database, "orders")
    assert (found.database, found.name, found.kind) == (database, "orders", TableKind.TABLE)
    assert {one.name: one for one in found.columns} == {one.name: one for one in ability.columns}
    assert found.partitioning == ability.partitioning
    assert list(await catalog.functions(database)) == []
    await raises(NoSuchFunction, catalog.function(database, "orders"))
    if ability.properties:
        assert found.comment == "all"
        assert told.items() <= found.properties.items()
        await catalog.alter_table(database, "orders", {"kept": "as it is", "gone": None, "new": "y"})
        changed = (await catalog.table(database, "orders")).properties
        assert (changed.get("kept"), changed.get("gone"), changed.get("new")) == ("as it is", None, "y")
    await raises(TableAlreadyExists, catalog.rename_table(database, "orders", "items"))
    await catalog.rename_table(database, "orders", "sold")
    assert list(await catalog.tables(database)) == ["items", "sold"]
    assert (await catalog.table(database, "sold")).partitioning == ability.partitioning
    await catalog.drop_table(database, "sold")
    for again in (
        catalog.table(database, "sold"),
        catalog.drop_table(database, "sold"),
        catalog.rename_table(database, "sold", "x"),
        catalog.alter_table(database, "sold", {"a": "1"}),
    ):
        await raises(NoSuchTable, again)
    await catalog.drop_table(database, "sold", ignore_if_not_exists=True)


async def views(catalog: WritableCatalog, database: str, ability: Ability) -> None:
    view = TableEntry(
        database=database,
        name="recent",
        kind=TableKind.VIEW,
        columns=(Column(name="id", type="bigint"),),
        text="SELECT CAST(1 AS BIGINT) AS id",
    )
    if not ability.views:
        await raises(NotSupported, catalog.create_table(view))
        return
    await catalog.create_table(view)
    await raises(TableAlreadyExists, catalog.create_table(view))
    assert (list(await catalog.tables(database)), list(await catalog.views(database))) == (
        ["items"],
        ["recent"],
    )
    found = await catalog.table(database, "recent")
    assert (found.kind, found.text, found.columns) == (TableKind.VIEW, view.text, view.columns)
    await catalog.alter_table(database, "recent", {"a": "1"})
    assert (await catalog.table(database, "recent")).properties["a"] == "1"
    await catalog.rename_table(database, "recent", "late")
    assert list(await catalog.views(database)) == ["late"]
    await catalog.drop_table(database, "late")
    assert list(await catalog.views(database)) == []


async def dropped(catalog: WritableCatalog, database: str, ability: Ability) -> None:
    await raises(DatabaseNotEmpty, catalog.drop_database(database))
    await catalog.drop_database(database, cascade=True)
    assert database not in await catalog.databases()
    # What comes back under the name of one that went is empty.
    await catalog.create_database(DatabaseEntry(name=database))
    assert list(await catalog.tables(database)) == []
    await catalog.drop_database(database)
    await raises(NoSuchDatabase, catalog.database(database))
