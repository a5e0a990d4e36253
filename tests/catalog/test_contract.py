"""One contract for all catalogs: what each answers over the same databases, tables and views."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.app.providers import load_shipped_providers
from gateway.catalog.gravitino import GravitinoMetalake
from gateway.catalog.iceberg_rest import IcebergRestCatalog
from gateway.catalog.live import LiveCatalog
from gateway.catalog.memory import MemoryCatalog
from gateway.catalog.readable import (
    CatalogRefused,
    CatalogUnavailable,
    DatabaseAlreadyExists,
    DatabaseNotEmpty,
    NoSuchDatabase,
    NoSuchTable,
    TableEntry,
    WritableCatalog,
)
from gateway.catalog.rest import Login, RestLogin
from gateway.catalog.spark_sql import SparkSqlCatalog
from gateway.model.catalog import TableKind
from gateway.model.spark_minors import NEWEST
from tests.catalog.contract import COLUMNS, holds, raises
from tests.catalog.doubles import Double, gravitino, iceberg, serving
from tests.catalog.fake_spark import FakeSpark, Rows, SparkRefuses

TREE = {"default": {}, "sales": {"orders": "table", "items": "table", "öl": "table"}}
HIVE = load_shipped_providers().row("hive", NEWEST)
TYPES = HIVE.types if HIVE is not None else {}
KINDS = ("iceberg", "gravitino")


@asynccontextmanager
async def through_spark(spark: FakeSpark) -> AsyncIterator[WritableCatalog]:
    live = LiveCatalog(spark.query, refusal=SparkRefuses, catalogs=["lake"])
    async with SparkSqlCatalog("lake", spark.query, live, refusal=SparkRefuses) as catalog:
        yield catalog
    await live.close()


@asynccontextmanager
async def opened(kind: str) -> AsyncIterator[WritableCatalog]:
    double = Double(databases={name: dict(tables) for name, tables in TREE.items()})
    if kind == "iceberg":
        async with (
            serving(double, iceberg(double)),
            IcebergRestCatalog(double.url, login=RestLogin) as catalog,
        ):
            yield catalog
    else:
        async with (
            serving(double, gravitino(double)),
            GravitinoMetalake(double.url, "lake", RestLogin) as metalake,
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


@pytest.mark.parametrize("kind", KINDS)
async def test_databases_are_made_and_dropped_in_a_catalog(kind: str) -> None:
    async with opened(kind) as catalog:
        await holds(catalog, "written")
        await raises(DatabaseNotEmpty, catalog.drop_database("sales"))


async def test_databases_are_made_and_dropped_through_spark() -> None:
    spark = FakeSpark()
    async with through_spark(spark) as catalog:
        await holds(catalog, "written")
        # Templates quote what names hold.
        odd = "o`; DROP -- 'x"
        await catalog.create_database(odd)
        assert spark.texts[-1] == "CREATE DATABASE `lake`.`o``; DROP -- 'x`"
        spark.memory.entries.append(TableEntry(database="default", name="t"))
        await raises(DatabaseNotEmpty, catalog.drop_database("default"))


async def test_memory_compares_names_as_spark_does() -> None:
    catalog = MemoryCatalog()
    await holds(catalog, "written")
    await catalog.create_database("d")
    await raises(DatabaseAlreadyExists, catalog.create_database("D"))


async def test_a_nested_namespace_is_made_in_one_that_is_there() -> None:
    double = Double(databases={})
    async with serving(double, iceberg(double)), IcebergRestCatalog(double.url, login=RestLogin) as catalog:
        with pytest.raises(NoSuchDatabase, match="`a`"):
            await catalog.create_database("a.b")
        for name in ("a", "a.b", "a.b.c", "ab"):
            await catalog.create_database(name)
        await raises(DatabaseNotEmpty, catalog.drop_database("a"))
        await catalog.drop_database("a.b.c")
        assert list(await catalog.databases()) == ["a", "a.b", "ab"]


async def test_functions_of_a_database_are_those_that_are_named_below_it() -> None:
    spark = FakeSpark()
    spark.functions = ("lake.default.f", "of_an_extension", "lake.other.g", "lake.default.`ö`")
    async with through_spark(spark) as catalog:
        assert list(await catalog.functions("default")) == ["f", "ö"]


async def test_what_spark_does_not_know_or_refuses_is_told_in_one_line() -> None:
    async def refuses(_: str) -> Rows:
        raise SparkRefuses(
            "42501", "Error running query: [NO] not for you\nat org.apache.Spark\n" + "x" * 9999
        )

    live = LiveCatalog(refuses, refusal=SparkRefuses, catalogs=["lake"])
    with pytest.raises(CatalogRefused) as raised:
        async with SparkSqlCatalog("lake", refuses, live, refusal=SparkRefuses):
            pass
    assert raised.value.message == "[NO] not for you"


async def test_iceberg_nested_namespaces_pages_views_and_statistics() -> None:
    tables = {"t": "table", **{f"v{number}": "view" for number in range(5)}}
    double = Double(databases={"a": {}, "a.b": {}, "a.b.c": tables, "z": {}})
    async with serving(double, iceberg(double)), IcebergRestCatalog(double.url, login=RestLogin) as catalog:
        assert list(await catalog.databases()) == ["a", "a.b", "a.b.c", "z"]
        assert list(await catalog.views("a.b.c")) == [f"v{number}" for number in range(5)]
        table = await catalog.table("a.b.c", "t")
        assert (table.partitioning, table.rows, table.location) == (("bucket(16, id)",), 12, "s3://lake/t")
        view = await catalog.table("a.b.c", "v1")
        assert (view.kind, view.text, view.columns) == (TableKind.VIEW, "SELECT 1", COLUMNS)


async def test_oauth2_logs_in_once_and_tells_no_secret() -> None:
    double = Double(databases={"d": {}}, secret="hush")

    def login(credential: str) -> Login:
        return lambda: RestLogin(credential=credential, token_url="v1/oauth/tokens")

    async with (
        serving(double, iceberg(double)),
        IcebergRestCatalog(double.url, login=login("me:hush")) as catalog,
    ):
        await catalog.databases()
        await catalog.tables("d")
        assert double.logins == 1
    async with serving(double, iceberg(double)):
        for wrong in (login("me:hush2"), lambda: RestLogin(token="hush2"), RestLogin):
            with pytest.raises(CatalogUnavailable) as raised:
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
        async with GravitinoMetalake(
            double.url, "lake", lambda: RestLogin(user="olga", password="hush")
        ) as metalake:
            found = await metalake.catalogs()
        assert [(one.name, one.provider, one.in_use) for one in found] == [
            ("f", "hadoop", False),
            ("pg", "jdbc-postgresql", True),
        ]
        async with GravitinoMetalake(double.url, "lake", RestLogin) as metalake:
            with pytest.raises(CatalogUnavailable, match="status 401"):
                await metalake.catalogs()


async def test_nobody_there_is_told_without_a_trace() -> None:
    with pytest.raises(CatalogUnavailable, match="no answer"):
        async with IcebergRestCatalog("http://127.0.0.1:9", login=RestLogin):
            pass
