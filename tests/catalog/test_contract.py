"""One contract for all catalogs: what each answers over the same databases, tables and views."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.app.providers import shipped_providers
from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.iceberg_rest import IcebergRestCatalog
from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import (
    AlreadyExists,
    CatalogUnavailable,
    DatabaseEntry,
    NoSuchDatabase,
    NoSuchTable,
    NotEmpty,
    ReadableCatalog,
    TableEntry,
)
from gateway.catalog.rest import RestLogin
from gateway.model.catalog import Column, TableKind
from gateway.model.spark_minors import NEWEST
from tests.catalog.doubles import Double, gravitino, iceberg, serving

COLUMNS = (
    Column(name="id", type="bigint"),
    Column(name="at", type="timestamp", comment="when"),
    Column(name="tags", type="array<string>"),
)
TREE = {"default": {}, "sales": {"orders": "table", "items": "table", "öl": "table"}}
HIVE = shipped_providers().row("hive", NEWEST)
TYPES = HIVE.types if HIVE is not None else {}
KINDS = ("memory", "iceberg", "gravitino")


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[ReadableCatalog]:
    double = Double(databases={name: dict(tables) for name, tables in TREE.items()})
    if kind == "memory":
        memory = MemoryCatalog()
        await memory.create_database(DatabaseEntry(name="sales", owner="olga", comment="c"))
        for name in TREE["sales"]:
            entry = TableEntry(database="sales", name=name, columns=COLUMNS, owner="olga")
            await memory.create_table(entry)
        yield memory
    elif kind == "iceberg":
        async with (
            serving(double, iceberg(double)),
            IcebergRestCatalog(double.url, login=RestLogin()) as catalog,
        ):
            yield catalog
    else:
        async with (
            serving(double, gravitino(double)),
            GravitinoMetalake(double.url, "lake", RestLogin()) as metalake,
            metalake.catalog("hive", TYPES) as of_metalake,
        ):
            yield of_metalake


@pytest.mark.parametrize("kind", KINDS)
async def test_every_catalog_answers_alike(kind: str) -> None:
    async with opened(kind) as catalog:
        assert list(await catalog.databases()) == ["default", "sales"]
        sales = await catalog.database("sales")
        assert (sales.name, sales.owner, sales.comment) == ("sales", "olga", "c")
        assert list(await catalog.tables("sales")) == ["items", "orders", "öl"]
        assert list(await catalog.tables("default")) == []
        assert list(await catalog.views("sales")) == []
        assert list(await catalog.functions("sales")) == []
        for name in ("orders", "öl"):
            found = await catalog.table("sales", name)
            assert (found.database, found.name, found.kind) == ("sales", name, TableKind.TABLE)
            assert (found.columns, found.owner) == (COLUMNS, "olga")
        with pytest.raises(NoSuchTable):
            await catalog.table("sales", "nothing")
        for question in (catalog.database, catalog.tables, catalog.views, catalog.functions):
            with pytest.raises(NoSuchDatabase):
                await question("nowhere")


async def test_what_is_written_to_a_catalog_is_read_from_it() -> None:
    catalog = MemoryCatalog()
    await catalog.create_database(DatabaseEntry(name="d"))
    await catalog.create_database(DatabaseEntry(name="D"), ignore_if_exists=True)
    with pytest.raises(AlreadyExists):
        await catalog.create_database(DatabaseEntry(name="D"))
    await catalog.create_table(TableEntry(database="d", name="t", properties={"a": "1", "b": "2"}))
    await catalog.create_table(TableEntry(database="d", name="T"), ignore_if_exists=True)
    with pytest.raises(AlreadyExists):
        await catalog.create_table(TableEntry(database="d", name="T"))
    with pytest.raises(NoSuchDatabase):
        await catalog.create_table(TableEntry(database="e", name="t"))
    await catalog.alter_table("d", "t", {"a": None, "c": "3"})
    assert (await catalog.table("d", "t")).properties == {"b": "2", "c": "3"}
    await catalog.create_table(TableEntry(database="d", name="v", kind=TableKind.VIEW, text="SELECT 1"))
    assert (list(await catalog.tables("d")), list(await catalog.views("d"))) == (["t"], ["v"])
    with pytest.raises(AlreadyExists):
        await catalog.rename_table("d", "t", "v")
    await catalog.rename_table("d", "t", "u")
    await catalog.rename_table("d", "t", "u", ignore_if_not_exists=True)
    for again in (
        catalog.drop_table("d", "t"),
        catalog.rename_table("d", "t", "x"),
        catalog.alter_table("d", "t", {}),
    ):
        with pytest.raises(NoSuchTable):
            await again
    with pytest.raises(NotEmpty):
        await catalog.drop_database("d")
    await catalog.drop_database("d", cascade=True)
    await catalog.drop_database("d", ignore_if_not_exists=True)
    with pytest.raises(NoSuchDatabase):
        await catalog.drop_database("d")


async def test_iceberg_nested_namespaces_pages_views_and_statistics() -> None:
    tables = {"t": "table", **{f"v{number}": "view" for number in range(5)}}
    double = Double(databases={"a": {}, "a.b": {}, "a.b.c": tables, "z": {}})
    async with serving(double, iceberg(double)), IcebergRestCatalog(double.url, login=RestLogin()) as catalog:
        assert list(await catalog.databases()) == ["a", "a.b", "a.b.c", "z"]
        assert list(await catalog.views("a.b.c")) == [f"v{number}" for number in range(5)]
        table = await catalog.table("a.b.c", "t")
        assert (table.partitioning, table.rows, table.location) == (("bucket(16, id)",), 12, "s3://lake/t")
        view = await catalog.table("a.b.c", "v1")
        assert (view.kind, view.text, view.columns) == (TableKind.VIEW, "SELECT 1", COLUMNS)


async def test_oauth2_logs_in_once_and_tells_no_secret() -> None:
    double = Double(databases={"d": {}}, secret="hush")
    login = RestLogin(credential="me:hush")
    async with serving(double, iceberg(double)), IcebergRestCatalog(double.url, login=login) as catalog:
        await catalog.databases()
        await catalog.tables("d")
        assert double.logins == 1
    async with serving(double, iceberg(double)):
        for wrong in (RestLogin(credential="me:hush2"), RestLogin(token="hush2"), RestLogin()):
            with pytest.raises(Exception) as raised:
                async with IcebergRestCatalog(double.url, login=wrong):
                    pass
            assert "hush" not in str(raised.value)


async def test_a_metalake_tells_its_catalogs_and_wants_a_login() -> None:
    catalogs = [
        {"name": "pg", "type": "RELATIONAL", "provider": "jdbc-postgresql", "properties": {"jdbc-url": "x"}},
        {"name": "f", "type": "FILESET", "provider": "hadoop", "properties": {"in-use": "false"}},
    ]
    double = Double(secret="hush")
    async with serving(double, gravitino(double, catalogs)):
        login = RestLogin(user="olga", password="hush")
        async with GravitinoMetalake(double.url, "lake", login) as metalake:
            found = await metalake.catalogs()
        assert [(one.name, one.provider, one.in_use) for one in found] == [
            ("f", "hadoop", False),
            ("pg", "jdbc-postgresql", True),
        ]
        async with GravitinoMetalake(double.url, "lake", RestLogin()) as metalake:
            with pytest.raises(CatalogUnavailable, match="status 401"):
                await metalake.catalogs()


async def test_nobody_there_is_told_without_a_trace() -> None:
    with pytest.raises(CatalogUnavailable, match="no answer"):
        async with IcebergRestCatalog("http://127.0.0.1:9", login=RestLogin()):
            pass
