"""`sluice lake-demo`: Sparks with table formats on this machine, a gateway before each, and a tour.

Spark 4.1 with Iceberg and Delta, Spark 3.5 with Paimon; for the first, Iceberg's REST server, whose catalog
its Spark was told nothing of: the gateway has it from a list as a Gravitino server tells it. Jars are fetched
once for each machine. Everything else lies in one directory and is made anew; everything started here ends
here.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from gateway.app.gateway import Addresses, Gateway
from gateway.app.spark_jars import fetch, fetch_catalog_servers, fetch_format
from gateway.backends.embedded_catalog import EmbeddedCatalog, EmbeddedCatalogOptions
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.backends.unprivileged import run_as, state_place
from gateway.cli.terminal import BOLD, GREEN, Terminal
from gateway.demo.run import HOST, Clock
from gateway.demo.tour import ENGINEER, PEOPLE, TourClient, TourStop, tour
from gateway.errors import BackendUnavailable
from gateway.frontends.users import set_user
from gateway.model.spark_configuration import CATALOG_PREFIX, EXTENSIONS
from gateway.model.spark_minors import Minor
from gateway.model.table_formats import FORMATS
from gateway.reader.java_runtime import find_java, jdk_openings
from gateway.settings import load_settings
from gateway.settings.models import ReaderSettings

LOADER = "loader"
"""Who makes the tables, at Spark itself."""
TRAVELLERS = (*PEOPLE[1:], ENGINEER)
"""Who is on the tour: an analyst, support, and the engineer, who may see everything."""

PACK = """\
service: spark
policies:
  - name: everybody reads the shop
    on:
      - {catalog: "*", database: shop}
      - {catalog: "*", database: shop, table: "*", column: "*"}
    allow: [{groups: [analysts, support], access: [use, show, select, metadata]}]
  - name: what the metalake calls personal
    on: {tag: PERSONAL}
    mask: [{groups: [analysts, support], type: MASK_NULL}]
  - name: engineers do everything
    on:
      - {catalog: "*"}
      - {catalog: "*", database: "*"}
      - {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [engineers], access: [all]}]
  - name: own region only
    on: {catalog: "*", database: shop, table: customer}
    filter:
      - {groups: [analysts], where: "region = 'EMEA'"}
      - {groups: [support], where: "region = 'APAC'"}
  - name: contact data
    on: {catalog: "*", database: shop, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}, {groups: [support], type: MASK}]
"""

SMALL = {
    "spark.sql.shuffle.partitions": "1",
    # Delta reads what a table is in 50 tasks.
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""For tables of a few rows."""

CUSTOMERS = """
    (1, 'Ann', 'ann@shop.example', 'EMEA'), (2, 'Ben', 'ben@shop.example', 'APAC'),
    (3, 'Eve', 'eve@shop.example', 'EMEA'), (4, 'Kim', 'kim@shop.example', 'AMER')"""
COLUMNS = "(id INT, name STRING, email STRING, region STRING)"

ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
RETAIL = "retail"
"""The catalog of the REST server."""
RETAIL_TAGS = {"PERSONAL": [f"{RETAIL}.shop.visit.address"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeDemoOptions:
    """What may be chosen."""

    directory: Path
    port: int = 10019
    """Of the first gateway; the second one has the next. 0: any."""
    heap: str = "1g"
    kept: Path = ReaderSettings().spark_jars
    """Where the jars are, or are put."""
    with_tour: bool = True
    exit_after_tour: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A Spark, what it is set up with, and what there is to see."""

    minor: Minor
    formats: tuple[str, ...]
    catalogs: Mapping[str, str]
    """Settings below `spark.sql.catalog.`; `{}` stands for the directory of its tables."""
    tables: Sequence[str]
    """Statements that make the sample data."""
    retail: Sequence[str] = ()
    """The same in the catalog `retail` of a REST server, where this one has it."""
    stops: Sequence[TourStop]

    @property
    def title(self) -> str:
        return f"Spark {self.minor} with {' and '.join(one.capitalize() for one in self.formats)}"


LAKES = (
    Lake(
        minor=Minor(4, 1),
        formats=("iceberg", "delta"),
        catalogs={
            "spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "ice": ICEBERG_CATALOG,
            "ice.type": "hadoop",
            "ice.warehouse": "{}/ice",
        },
        tables=(
            "CREATE NAMESPACE ice.shop",
            f"CREATE TABLE ice.shop.customer {COLUMNS} USING iceberg",
            f"INSERT INTO ice.shop.customer VALUES {CUSTOMERS}",
            "ALTER TABLE ice.shop.customer CREATE TAG opening",
            "UPDATE ice.shop.customer SET name = 'Anna' WHERE id = 1",
            "CREATE DATABASE spark_catalog.shop",
            "CREATE TABLE spark_catalog.shop.orders (id INT, customer INT, amount DECIMAL(10,2)) USING delta",
            "INSERT INTO spark_catalog.shop.orders VALUES (10, 1, 12.50), (11, 2, 8.00), (12, 3, 99.90)",
        ),
        retail=(
            f"CREATE NAMESPACE {RETAIL}.shop",
            f"CREATE TABLE {RETAIL}.shop.visit (customer INT, page STRING, address STRING) USING iceberg",
            f"INSERT INTO {RETAIL}.shop.visit VALUES (1, '/', '192.0.2.1'), (3, '/sale', '192.0.2.7')",
        ),
        stops=(
            TourStop(
                "An Iceberg table: rows are filtered, addresses masked",
                "SELECT id, name, email, region FROM ice.shop.customer ORDER BY id",
            ),
            TourStop(
                "Time travel shows older rows, by the policies of today",
                "SELECT id, name, email FROM ice.shop.customer VERSION AS OF 'opening' ORDER BY id",
            ),
            TourStop(
                "A Delta table joined with it",
                "SELECT c.name, o.amount FROM spark_catalog.shop.orders o\n"
                "JOIN ice.shop.customer c ON o.customer = c.id ORDER BY o.id",
            ),
            TourStop(
                "A Gravitino server's list names a catalog of an Iceberg REST server; its tags mask",
                f"SELECT c.name, v.page, v.address FROM {RETAIL}.shop.visit v\n"
                "JOIN ice.shop.customer c ON v.customer = c.id ORDER BY c.id",
            ),
            TourStop(
                "MERGE is for those who may write",
                "MERGE INTO spark_catalog.shop.orders t\n"
                "USING (SELECT 10 AS id, CAST(13.00 AS DECIMAL(10,2)) AS amount) s ON t.id = s.id\n"
                "WHEN MATCHED THEN UPDATE SET amount = s.amount",
            ),
            TourStop(
                "Metadata tables hold values of all rows: not for whoever has a mask or a filter",
                "SELECT record_count, readable_metrics.email.lower_bound FROM ice.shop.customer.files",
            ),
        ),
    ),
    Lake(
        minor=Minor(3, 5),
        formats=("paimon",),
        catalogs={"paimon": "org.apache.paimon.spark.SparkCatalog", "paimon.warehouse": "{}/paimon"},
        tables=(
            "CREATE NAMESPACE paimon.shop",
            f"CREATE TABLE paimon.shop.customer {COLUMNS} "
            "TBLPROPERTIES ('primary-key' = 'id', 'file-index.bloom-filter.columns' = 'name')",
            f"INSERT INTO paimon.shop.customer VALUES {CUSTOMERS}",
            "CALL paimon.sys.create_tag('shop.customer', 'opening', 1)",
            "UPDATE paimon.shop.customer SET name = 'Anna' WHERE id = 1",
        ),
        stops=(
            TourStop(
                "A Paimon table: rows are filtered, addresses masked",
                "SELECT id, name, email, region FROM paimon.shop.customer ORDER BY id",
            ),
            TourStop(
                "Time travel shows older rows, by the policies of today",
                "SELECT id, name, email FROM paimon.shop.customer VERSION AS OF 'opening' ORDER BY id",
            ),
            TourStop(
                "MERGE on a table with a primary key",
                "MERGE INTO paimon.shop.customer t\n"
                "USING (SELECT 5 AS id, 'Zoe' AS name, 'zoe@shop.example' AS email, 'EMEA' AS region) s\n"
                "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            ),
            TourStop(
                "System tables hold values of all rows: not for whoever has a mask or a filter",
                "SELECT record_count, min_value_stats FROM paimon.shop.`customer$files`",
            ),
            TourStop("What shows raw rows is for nobody", "SELECT * FROM paimon.shop.`customer$audit_log`"),
        ),
    ),
)


async def lake_demo(options: LakeDemoOptions, terminal: Terminal) -> None:
    """Start everything, show the tour, and serve until cancelled. Leaves nothing running, however it ends."""
    progress = Clock(terminal)
    kept = options.kept.expanduser()
    jars = [await asyncio.to_thread(_fetch, lake, kept, progress) for lake in LAKES]
    servers = await asyncio.to_thread(fetch_catalog_servers, kept, progress)
    async with AsyncExitStack() as running:
        gateways: list[Gateway] = []
        for number, (lake, (home, files)) in enumerate(zip(LAKES, jars, strict=True)):
            place = options.directory / str(lake.minor)
            state = state_place(place / "spark", run_as())
            for old in (place, state):
                shutil.rmtree(old, ignore_errors=True)
            place.mkdir(parents=True)
            spark = _spark(lake, state, home, files, options.heap)
            progress(f"{lake.title} is started")
            running.push_async_callback(spark.stop)
            await spark.start(progress)
            listed = ""
            if lake.retail:
                url = await _catalog(running, state.with_name("catalog"), servers, home)
                progress(f"Iceberg's REST server on {url}")
                listed = await running.enter_async_context(
                    metalake({RETAIL: {"catalog-backend": "rest", "uri": url}}, RETAIL_TAGS)
                )
                await _load(spark, (*_build_catalog_settings(RETAIL, url), *lake.retail))
            await _load(spark, lake.tables)
            progress(f"{lake.title} has its tables")
            port = options.port + number if options.port else 0
            file = _prepare(lake, place, spark, port, options.kept, listed)
            gateway = Gateway(load_settings(file), progress)
            gateways.append(await running.enter_async_context(gateway))
            where = gateway.addresses
            progress(terminal.style(f"gateway on {where.endpoints['thrift']}", GREEN))
        for lake, gateway in zip(LAKES, gateways, strict=True):
            if options.with_tour:
                await _show(terminal, lake, gateway.addresses)
        if options.exit_after_tour:
            return
        terminal.line()
        terminal.line(terminal.style("Running. Ctrl-C stops everything.", BOLD))
        async with asyncio.TaskGroup() as serving:
            for gateway in gateways:
                serving.create_task(gateway.run())


def _fetch(lake: Lake, kept: Path, progress: Callable[[str], None]) -> tuple[Path, list[Path]]:
    home = fetch(lake.minor, kept, progress)
    return home, [
        jar for name in lake.formats for jar in fetch_format(FORMATS[name], lake.minor, kept, progress)
    ]


def _spark(lake: Lake, directory: Path, home: Path, jars: Sequence[Path], heap: str) -> EmbeddedSpark:
    tables = directory / "warehouse"
    conf = {CATALOG_PREFIX + key: value.format(tables) for key, value in lake.catalogs.items()}
    options = EmbeddedSparkOptions(
        directory=directory,
        java=find_java(),
        spark_home=home.resolve(),
        java_options=jdk_openings(),
        heap=heap,
        jars=jars,
        conf={**SMALL, **conf, EXTENSIONS: ",".join(FORMATS[name].extension for name in lake.formats)},
    )
    return EmbeddedSpark(options, _answers)


async def _catalog(running: AsyncExitStack, directory: Path, jars: Path, home: Path) -> str:
    """Start Iceberg's REST server; return its URL."""
    options = EmbeddedCatalogOptions(directory=directory, java=find_java(), jars=jars, spark_home=home)
    server = EmbeddedCatalog(options)
    running.push_async_callback(server.stop)
    await server.start()
    return server.url


def _build_catalog_settings(catalog: str, url: str) -> list[str]:
    """Return what a session of Spark's own is told of a REST catalog: none but the gateway's have it."""
    told = {"": ICEBERG_CATALOG, ".type": "rest", ".uri": url}
    return [f"SET `{CATALOG_PREFIX}{catalog}{key}`=`{value}`" for key, value in told.items()]


async def _answers(host: str, port: int) -> None:
    client = await TourClient.open(host, port, LOADER, LOADER)
    try:
        answer = await client.ask("SELECT 1")
    finally:
        await client.close()
    if answer.error:
        raise BackendUnavailable(answer.error)


async def _load(spark: EmbeddedSpark, statements: Sequence[str]) -> None:
    client = await TourClient.open(spark.host, spark.thrift_port, LOADER, LOADER)
    try:
        for sql in statements:
            answer = await client.ask(sql)
            if answer.error:
                raise BackendUnavailable(f"Spark refused `{sql}`: {answer.error}")
    finally:
        await client.close()


def _prepare(lake: Lake, directory: Path, spark: EmbeddedSpark, port: int, kept: Path, listed: str) -> Path:
    """Write users, policies and settings of a gateway, and return the settings file."""
    for person in TRAVELLERS:
        set_user(directory / "users.yaml", person.name, password=person.password, groups=list(person.groups))
    (directory / "shop.yaml").write_text(PACK)
    named = {key for key in lake.catalogs if "." not in key} | {"spark_catalog"}
    settings: dict[str, Any] = {
        "listeners": {"thrift": {"host": HOST, "port": port}, "admin": {"host": HOST, "port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.thrift_port}},
        "reader": {"spark_jars": str(kept)},
        "policies": {"paths": ["shop.yaml"], "catalogs": dict.fromkeys(sorted(named), "spark")},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
    }
    if listed:
        parameters = {"uri": listed, "metalake": METALAKE, "iceberg": True}
        settings["catalogs"] = [
            {"name": "list", "catalog": {"type": "gravitino", "connection-params": parameters}}
        ]
    file = directory / "gateway.yaml"
    file.write_bytes(orjson.dumps(settings, option=orjson.OPT_INDENT_2))
    return file


async def _show(terminal: Terminal, lake: Lake, where: Addresses) -> None:
    terminal.line()
    terminal.line(terminal.style(lake.title, BOLD))
    await tour(terminal, *where.endpoints["thrift"], where.ledger_dsn, people=TRAVELLERS, stops=lake.stops)


# A list of catalogs as a Gravitino server tells it, for `sluice lake-demo`: its documented REST API, no more
# of it than the gateway asks, on a port of 127.0.0.1.


METALAKE = "shop"
_AUDIT = {"creator": "emma", "createTime": "2026-01-01T00:00:00Z"}
_MEDIA_TYPE = "application/vnd.gravitino.v1+json"


@asynccontextmanager
async def metalake(catalogs: Mapping[str, Mapping[str, str]], tags: Mapping[str, Sequence[str]]) -> Any:
    """Serve the list; yields its URL.

    `catalogs`: properties of catalogs of the provider `lakehouse-iceberg` by their names; `tags`: full names
    of columns by what they are tagged with.
    """
    listed = [
        {
            "name": name,
            "type": "relational",
            "provider": "lakehouse-iceberg",
            "comment": None,
            "properties": {"in-use": "true", **properties},
            "audit": _AUDIT,
        }
        for name, properties in catalogs.items()
    ]
    tagged = [
        {"name": name, "comment": None, "properties": {}, "inherited": None, "audit": _AUDIT} for name in tags
    ]

    async def list_catalogs(_: web.Request) -> web.Response:
        return _answer(catalogs=listed)

    async def list_tags(_: web.Request) -> web.Response:
        return _answer(tags=tagged)

    async def list_objects(request: web.Request) -> web.Response:
        columns = tags.get(request.match_info["tag"], ())
        return _answer(metadataObjects=[{"fullName": name, "type": "column"} for name in columns])

    app = web.Application()
    below = f"/api/metalakes/{METALAKE}"
    app.router.add_get(f"{below}/catalogs", list_catalogs)
    app.router.add_get(f"{below}/tags", list_tags)
    app.router.add_get(f"{below}/tags/{{tag}}/objects", list_objects)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def _answer(**told: Any) -> web.Response:
    return web.json_response({"code": 0, **told}, content_type=_MEDIA_TYPE)
