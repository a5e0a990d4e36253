"""The YAML of the source document, as it stands there, loads, and names mean in its catalogs what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.app.catalogs import SparkCatalogs, first_context
from gateway.model.catalog import TableName
from gateway.model.statement import Cleared, Refused, SessionContext, Statement, UseNamespace, Verdict
from gateway.reader.pool import ReaderPool
from gateway.settings.loading import parse_settings
from gateway.sql.names import Names
from tests.judge_world import World
from tests.settings.test_catalogs import DOCUMENT as AS_WRITTEN

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCUMENT = AS_WRITTEN.replace("Default-db: sales", "Default-db: default")
SETTINGS = parse_settings(DOCUMENT, "g.yaml", Path("/conf"))
FIRST = first_context(SETTINGS)
PACK = """\
service: spark
people: {ann: {groups: [staff]}}
policies:
  - name: all
    on:
      - {catalog: "*"}
      - {catalog: "*", database: "*"}
      - {catalog: "*", database: "*", table: "*"}
      - {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [staff], access: [all]}]
"""
DATA = {
    "catalogs": list(SETTINGS.policies.catalogs),
    "tables": {
        f"{name}.t": {"id": "int"}
        for name in ("hive1.default", "hive1.sales", "flink1.default", "flink1.sales", "flink1.hive1")
    },
    "views": {},
    "people": {"ann": {"groups": ["staff"]}},
    "pack": PACK,
}


async def judged(reader: ReaderPool, text: str, context: SessionContext = FIRST) -> Verdict:
    world = World(DATA)
    return await world.judge_statement(
        Statement(text=text, principal=world.principal("ann"), context=context), reader
    )


async def after(reader: ReaderPool, text: str, context: SessionContext = FIRST) -> SessionContext:
    """Return the context in which a statement leaves a session that was in another."""
    verdict = await judged(reader, text, context)
    assert isinstance(verdict, Cleared), verdict
    (effect,) = verdict.effects
    assert isinstance(effect, UseNamespace)
    return replace(context, catalog=effect.catalog or "", namespace=effect.namespace or ("default",))


async def test_both_entries_load_and_spark_is_told_of_both() -> None:
    assert [(one.name, one.catalog.type) for one in SETTINGS.catalogs] == [
        ("hive1", "hive"),
        ("flink1", "generic-hive-metastore"),
    ]
    assert (FIRST.catalog, FIRST.namespace) == ("flink1", ("default",))
    told = SparkCatalogs(SETTINGS.catalogs).of_sessions()
    assert told["spark.sql.defaultCatalog"] == "flink1"
    for name in ("hive1", "flink1"):
        uris = told[f"spark.sql.catalog.{name}.hive.metastore.uris"]
        assert uris == "thrift://host1:10000,thrift://host2:10000"
    assert not [key for key in told if key.lower().endswith("metastore.db")]


@pytest.mark.parametrize(
    ("name", "current", "meant"),
    [
        # Three parts stand as they are, wherever the session is.
        ("hive1.sales.t", ("flink1", "default"), ("hive1", "sales", "t")),
        ("flink1.sales.t", ("hive1", "sales"), ("flink1", "sales", "t")),
        # Two are of the current catalog, which is the default one until somebody says otherwise.
        ("sales.t", ("flink1", "default"), ("flink1", "sales", "t")),
        ("sales.t", ("hive1", "default"), ("hive1", "sales", "t")),
        # One is of the current database.
        ("t", ("flink1", "default"), ("flink1", "default", "t")),
        ("t", ("hive1", "sales"), ("hive1", "sales", "t")),
        # What is a catalog and a database is the catalog; with its own before it, the database.
        ("flink1.hive1.t", ("flink1", "default"), ("flink1", "hive1", "t")),
        ("t", ("flink1", "hive1"), ("flink1", "hive1", "t")),
    ],
)
async def test_a_name_means_what_the_document_says(
    reader: ReaderPool, name: str, current: tuple[str, str], meant: tuple[str, str, str]
) -> None:
    context = replace(FIRST, catalog=current[0], namespace=(current[1],))
    verdict = await judged(reader, f"SELECT * FROM {name}", context)
    assert isinstance(verdict, Cleared), verdict
    assert verdict.names == {TableName(*meant)}
    # A name in full is left as it is written.
    full = name if name.count(".") == 2 else ".".join(f"`{part}`" for part in meant)
    assert verdict.forwarded == f"SELECT * FROM {full}"


async def test_a_catalog_is_no_database_of_its_name(reader: ReaderPool) -> None:
    refused = await judged(reader, "SELECT * FROM hive1.t")
    assert isinstance(refused, Refused)
    assert "refers to the catalog `hive1` without a database" in refused.message


async def test_use_goes_to_a_catalog_and_its_database(reader: ReaderPool) -> None:
    there = await after(reader, "USE hive1.sales")
    assert (there.catalog, there.namespace) == ("hive1", ("sales",))
    for text in ("SELECT * FROM t", "SELECT * FROM sales.t"):
        verdict = await judged(reader, text, there)
        assert isinstance(verdict, Cleared)
        assert verdict.names == {TableName("hive1", "sales", "t")}
    back = await after(reader, "USE flink1", there)
    assert (back.catalog, back.namespace) == ("flink1", ("default",))
    within = await after(reader, "USE sales", back)
    assert (within.catalog, within.namespace) == ("flink1", ("sales",))
    # What is both is the catalog here as well, and the database where USE DATABASE says that it is one.
    assert (await after(reader, "USE hive1", within)).catalog == "hive1"
    below = await after(reader, "USE DATABASE hive1", within)
    assert (below.catalog, below.namespace) == ("flink1", ("hive1",))
    assert (await after(reader, "SET CATALOG hive1", within)).catalog == "hive1"


async def test_its_names_are_resolved_without_a_parser_as_well() -> None:
    names = Names(FIRST, frozenset(SETTINGS.policies.catalogs))
    assert names.table(("sales", "t")) == TableName("flink1", "sales", "t")
    assert names.table(("hive1", "sales", "t")) == TableName("hive1", "sales", "t")
    assert names.current_database() == ("flink1", "default")
    assert names.namespace(("hive1", "sales")) == ("hive1", "sales")
