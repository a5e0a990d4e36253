"""Catalogs of other servers, which Spark's configuration lacks: Iceberg's REST catalog, Nessie, PostgreSQL.

Each session is given them. Masks, filters, denials and tags hold there, as over copies made beforehand.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from gateway.app.catalog_access import CatalogAccess, FoundCatalog, entry_named
from gateway.settings import load_settings
from gateway.wire import calls
from tests.catalog.contract import holds
from tests.e2e import one_pack
from tests.e2e.lake.servers import DRIVER, iceberg_rest, nessie, postgres
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import LoopThread, RunningGateway
from tests.e2e.wire_client import WireClient
from tests.frontends.test_jwt_logins import KEY, public, token

pytestmark = pytest.mark.in_turn(3)

PACK = """
service: spark
tags:
  - on: {catalog: CATALOG, database: shop, table: customer, column: phone}
    tags: [PII]
policies:
  - name: the shop
    on:
      - {catalog: CATALOG}
      - {catalog: CATALOG, database: [shop, shop.eu]}
      - {catalog: CATALOG, database: [shop, shop.eu], table: [customer, plain, of_customers], column: "*"}
    allow: [{groups: [analysts], access: [use, show, select]}]
  - name: customers of a region
    on: {catalog: CATALOG, database: shop, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: CATALOG, database: shop, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: not for joe, who is an analyst as well
    on: {catalog: CATALOG, database: shop, table: customer, column: "*"}
    deny: [{users: [joe], access: [select]}]
  - name: what is personal
    on: {tag: PII}
    mask: [{groups: [analysts], type: MASK_NULL}]
"""
CANARY = "canary-5512"
ICEBERG = "org.apache.iceberg.spark.SparkCatalog"
PASSWORD = "of-the-database-9917"
ROWS = f"""(1, 'Ann', 'ann@{CANARY}', '555-{CANARY}', 'EMEA'), (2, '{CANARY}', 'bob@x.example', '1', 'AMER'),
    (3, 'Eve', 'eve@x.example', NULL, 'EMEA')"""
COLUMNS = "id INT, name STRING, email STRING, phone STRING, region STRING"
COPIED = (
    f"SELECT id, name, sha2(email, 256), CAST(NULL AS STRING), region FROM VALUES {ROWS} "
    "AS t(id, name, email, phone, region) WHERE region = 'EMEA'"
)
READS = (
    "SELECT * FROM customer ORDER BY id",
    "SELECT * FROM {db}.customer WHERE id > 1 ORDER BY id",
    "SELECT count(*) AS n, max(name) AS z, max(email) AS e FROM customer",
    "SELECT region, count(*) AS n FROM customer GROUP BY region",
    "SELECT id FROM customer WHERE email = 'ann@canary-5512'",
    "SELECT id FROM customer WHERE phone LIKE '555%'",
    "SELECT id FROM customer WHERE name = 'Ann' AND phone IS NULL",
    "SELECT c.name, p.note FROM customer c LEFT JOIN plain p ON p.id = c.id ORDER BY c.id",
    "SELECT p.id FROM plain p LEFT ANTI JOIN customer c ON p.id = c.id",
    "WITH c AS (SELECT id, upper(name) AS n FROM customer) SELECT * FROM c WHERE id IN (SELECT id FROM c)",
    "SELECT id FROM customer ORDER BY id DESC LIMIT 1",
    "SELECT no_such FROM customer",
    "SHOW COLUMNS IN customer",
)
FRAMES: Mapping[str, Any] = {
    "table": lambda spark, db: spark.table("customer").orderBy("id"),
    "named": lambda spark, db: spark.read.table(f"{db}.customer").filter("email LIKE 'ann%'"),
    "grouped": lambda spark, db: spark.table(f"{db}.customer").groupBy("region").count(),
    "joined": lambda spark, db: spark.table("customer").join(spark.table("plain"), "id", "left"),
}
PAST = (
    "SELECT * FROM {catalog}.hidden.secret",
    "SELECT * FROM hidden.secret",
    "INSERT INTO customer SELECT * FROM customer",
    "DELETE FROM customer",
    "DROP TABLE {catalog}.shop.customer",
    "CREATE TABLE {catalog}.shop.c AS SELECT * FROM customer",
    "SELECT * FROM {catalog}.shop.customer.files",
    "SELECT * FROM {catalog}.hidden.deep.secret",
    "SELECT * FROM hidden.deep.secret",
    "INSERT INTO {catalog}.hidden.deep.secret VALUES (1, 's')",
    "CREATE TABLE {catalog}.shop.deep.t (id INT)",
    "CREATE NAMESPACE {catalog}.shop.deep",
    "DESCRIBE NAMESPACE {catalog}.hidden.deep",
    "DESCRIBE TABLE {catalog}.hidden.deep.secret",
    "SHOW TABLES IN {catalog}.hidden.deep",
    "SHOW NAMESPACES IN {catalog}.hidden",
    "USE {catalog}.hidden.deep",
    "SET spark.sql.catalog.{catalog}.uri",
    "SET `spark.sql.catalog.{catalog}.url`=`x`",
)


@pytest.fixture(scope="module", params=["4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    return lakes(request.param)


@pytest.fixture(scope="module", params=["rest", "nessie", "pg"])
def told(
    request: pytest.FixtureRequest, lake: LakeSpark, session_loop: LoopThread
) -> Iterator[tuple[str, dict[str, str]]]:
    """A catalog's name, and what it is told Spark by; its server runs."""
    directory = lake.directory / f"servers-{request.param}"
    directory.mkdir()
    directory.chmod(0o777)
    if request.param == "rest":
        with iceberg_rest(session_loop, directory) as url:
            yield "rest", {"": ICEBERG, "type": "rest", "uri": url}
        return
    if request.param == "nessie":
        with nessie(directory) as url:
            yield "nessie", {"": ICEBERG, "type": "nessie", "uri": url, "warehouse": f"file:{directory}/data"}
        return
    with postgres(session_loop, directory) as url:
        yield (
            "pg",
            {
                "": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
                "url": url,
                "driver": DRIVER,
                "user": "sluice",
                "password": PASSWORD,
            },
        )


@pytest.fixture(scope="module")
def set_up(lake: LakeSpark, told: tuple[str, dict[str, str]]) -> list[str]:
    """The statements by which a direct session has the catalog; its tables are there."""
    name, settings = told
    set_up = [
        f"SET `{'.'.join(filter(None, ('spark.sql.catalog', name, key)))}`=`{value}`"
        for key, value in settings.items()
    ]
    is_iceberg = settings[""] == ICEBERG
    using = "USING iceberg" if is_iceberg else ""
    made = []
    shops = [("shop", f"VALUES {ROWS}"), ("shop_copy", COPIED)]
    if is_iceberg:
        shops += [(f"{db}.eu", rows) for db, rows in shops]
    for db, rows in shops:
        made += [
            f"CREATE NAMESPACE {name}.{db}",
            f"CREATE TABLE {name}.{db}.customer ({COLUMNS}) {using}",
            f"INSERT INTO {name}.{db}.customer {rows}",
            f"CREATE TABLE {name}.{db}.plain (id INT, note STRING) {using}",
            f"INSERT INTO {name}.{db}.plain VALUES (1, 'a'), (2, 'b')",
        ]
    made += [
        f"CREATE NAMESPACE {name}.hidden",
        f"CREATE TABLE {name}.hidden.secret (id INT, s STRING) {using}",
        f"INSERT INTO {name}.hidden.secret VALUES (1, '{CANARY}')",
    ]
    if is_iceberg:
        made += [
            f"CREATE NAMESPACE {name}.hidden.deep",
            f"CREATE TABLE {name}.hidden.deep.secret (id INT, s STRING) USING iceberg",
            f"INSERT INTO {name}.hidden.deep.secret VALUES (1, '{CANARY}')",
            f"CREATE NAMESPACE {name}.shop.closed",
            f"CREATE TABLE {name}.shop.closed.secret (id INT) USING iceberg",
        ]
        for db in ("shop", "shop_copy"):
            made += [
                f"USE {name}.{db}.eu",
                "CREATE VIEW of_customers AS SELECT id, name, email FROM customer",
            ]
    lake.spark.query(*set_up, *made, user="loader")
    return set_up


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark, told: tuple[str, dict[str, str]], set_up: list[str]) -> Iterator[RunningGateway]:
    name, settings = told
    params: dict[str, Any] = {key: value for key, value in settings.items() if key}
    if "password" in params:
        params["password"] = {"env": "SLUICE_TEST_DATABASE"}
    kind = "iceberg" if settings[""] == ICEBERG else "jdbc"
    entry = {"name": name, "catalog": {"type": kind, "connection-params": params}, "policies": "spark"}
    os.environ["SLUICE_TEST_DATABASE"] = PASSWORD
    pack = PACK.replace("CATALOG", name)
    users = {"bob": ["analysts"], "joe": ["analysts"], "eve": []}
    with lake.gateway(f"of-{name}", pack, users, catalogs=[entry]) as running:  # type: ignore[arg-type]
        yield running
    del os.environ["SLUICE_TEST_DATABASE"]


@pytest.fixture(scope="module")
def twins(
    lake: LakeSpark, gateway: RunningGateway, told: tuple[str, dict[str, str]], set_up: list[str]
) -> Iterator[Twins]:
    name, _ = told
    governed, copies = f"{name}.shop", f"{name}.shop_copy"
    with Twins.open(lake, gateway, "bob", governed=governed, copies=copies, told=set_up) as twins:
        yield twins


@pytest.mark.in_turn(3)
def test_as_over_a_copy_made_beforehand(twins: Twins) -> None:
    twins.all_same(READS)
    assert not twins.ours.ask("SELECT * FROM customer").error
    twins.all_same_frames(FRAMES)


TAKEN = {
    "(SELECT id FROM customer ORDER BY id LIMIT 1)": r"PushedTopN: ORDER BY \[id ASC NULLS FIRST\] LIMIT 1",
    "(SELECT id FROM customer LIMIT 7)": r"PushedLimit: LIMIT 7",
    "(SELECT max(id) FROM customer)": r"PushedAggregates: \[MAX\(id\)\]",
    "(SELECT id FROM customer WHERE name > 'B')": r"PushedFilters: \[.*name > 'B'",
}


def test_a_database_is_given_limits_and_aggregates(
    lake: LakeSpark,
    gateway: RunningGateway,
    twins: Twins,
    told: tuple[str, dict[str, str]],
    set_up: list[str],
) -> None:
    """Each with the filter of its table; a file format has no use for them."""
    if told[0] != "pg":
        return
    text = " UNION ALL ".join(TAKEN)
    assert len(twins.same(text).rows) == 1 + 2 + 1 + 1
    forwarded = twins.forwarded(gateway, "bob", text)
    ((plan,),) = lake.spark.query(*set_up, "USE pg.shop", f"EXPLAIN FORMATTED {forwarded}")
    for pushed in TAKEN.values():
        assert re.search(pushed, plan), (pushed, plan)
    assert plan.count("region = 'EMEA'") >= len(TAKEN)


def test_a_denial_holds_in_plan_and_statement_alike(
    gateway: RunningGateway, told: tuple[str, dict[str, str]]
) -> None:
    name = f"{told[0]}.shop"
    for endpoint in one_pack.ENDPOINTS:
        with one_pack.session(gateway, endpoint, "joe") as joe:
            assert joe(f"SELECT * FROM {name}.plain") == [(1, "a"), (2, "b")]
            with pytest.raises(Exception, match="SLUICE_ACCESS_DENIED"):
                joe(f"SELECT count(*) FROM {name}.customer")
    denied = pytest.raises(Exception, match="SLUICE_ACCESS_DENIED")
    with gateway.session("joe", one_pack.PASSWORD) as frames, denied:
        frames.table(f"{name}.customer").select("id").collect()


def test_there_is_no_way_past(twins: Twins, told: tuple[str, dict[str, str]]) -> None:
    for text in PAST:
        message = twins.refusal(text.replace("{catalog}", told[0]))
        assert CANARY not in message
        assert PASSWORD not in message


def test_a_nested_namespace_is_as_a_copy_made_beforehand(
    lake: LakeSpark, gateway: RunningGateway, told: tuple[str, dict[str, str]], set_up: list[str]
) -> None:
    """What is said of `shop` holds in `shop.eu`: the filter, the mask, the tag. JDBC has one level alone."""
    name = told[0]
    if name == "pg":
        return
    governed, copies = f"{name}.shop.eu", f"{name}.shop_copy.eu"
    with Twins.open(lake, gateway, "bob", governed=governed, copies=copies, told=set_up) as twins:
        twins.all_same(text for text in READS if "no_such" not in text)
        twins.all_same_frames(FRAMES)
        assert len(twins.ours.ask("SELECT * FROM customer").rows) == 2
        # A view that was written in the namespace.
        assert len(twins.same("SELECT * FROM of_customers ORDER BY id").rows) == 2
        assert twins.ours.ask(f"SHOW VIEWS IN {name}.shop.eu").rows == [("shop.eu", "of_customers", False)]
    with WireClient(gateway.host, gateway.port, "bob", one_pack.PASSWORD) as client:
        session = client.open_session()
        request = calls.TGetSchemasReq(sessionHandle=session, catalogName=name, schemaName="%")
        schemas = client.rows(client.call("GetSchemas", request).operationHandle)
        assert [one for one, _ in schemas] == ["shop", "shop.eu"]
        asked = calls.TGetTablesReq(sessionHandle=session, catalogName=name, schemaName="shop.eu")
        tables = client.rows(client.call("GetTables", asked).operationHandle)
        assert [row[:4] for row in tables] == [
            (name, "shop.eu", "customer", "TABLE"),
            (name, "shop.eu", "of_customers", "VIEW"),
            (name, "shop.eu", "plain", "TABLE"),
        ]


def test_what_nobody_granted_in_a_nested_namespace_is_refused_in_plan_and_statement_alike(
    twins: Twins, gateway: RunningGateway, told: tuple[str, dict[str, str]]
) -> None:
    name = told[0]
    for text in (
        "SELECT * FROM {}.hidden.deep.secret",
        "USE {}.hidden.deep",
        "SHOW TABLES IN {}.hidden.deep",
    ):
        assert twins.refusal(text.format(name)).startswith("[SLUICE_ACCESS_DENIED]")
    with gateway.session("bob", one_pack.PASSWORD) as frames:
        asked: tuple[Callable[[], Any], ...] = (
            lambda: frames.table(f"{name}.hidden.deep.secret").collect(),
            lambda: frames.catalog.listTables(f"{name}.hidden.deep"),
            lambda: frames.catalog.getTable(f"{name}.hidden.deep.secret"),
        )
        for ask in asked:
            with pytest.raises(Exception, match="SLUICE_ACCESS_DENIED") as raised:
                ask()
            assert CANARY not in str(raised.value)


def test_the_contract_of_catalogs_holds_at_the_server(
    gateway: RunningGateway, told: tuple[str, dict[str, str]]
) -> None:
    """Iceberg's is told directly, PostgreSQL through Spark."""

    async def hold() -> None:
        settings = load_settings(gateway.config)
        entry = entry_named(settings, told[0])
        assert entry is not None
        async with CatalogAccess(settings) as access:
            catalog = await access.open(FoundCatalog(entry))
            await holds(catalog, "written")

    asyncio.run(hold())


def test_it_is_there_for_who_may_know_of_it(
    lake: LakeSpark, gateway: RunningGateway, twins: Twins, told: tuple[str, dict[str, str]]
) -> None:
    name, settings = told
    assert (name,) in twins.ours.ask("SHOW CATALOGS").rows
    assert ("shop",) in twins.ours.ask(f"SHOW NAMESPACES IN {name}").rows
    assert ("hidden",) not in twins.ours.ask(f"SHOW NAMESPACES IN {name}").rows
    listed = [row[:2] for row in twins.ours.ask(f"SHOW TABLES IN {name}.shop").rows]
    tables = [("shop", "customer"), ("shop", "plain")]
    if name == "nessie":  # Spark lists what is in nested namespaces with it; `shop.closed` is nobody's
        tables += [("shop.eu", "customer"), ("shop.eu", "plain")]
    assert sorted(listed) == tables
    shown = [twins.ours.ask(text).rows for text in ("SET", "SET -v", "EXPLAIN SELECT * FROM plain")]
    assert PASSWORD not in str(shown)
    assert settings.get("url", settings.get("uri", "")) not in str(shown[:2])
    assert PASSWORD not in str(gateway.records)


def test_an_unknown_user_sees_no_such_catalog(
    lake: LakeSpark, gateway: RunningGateway, told: tuple[str, dict[str, str]]
) -> None:
    name, _ = told
    with Twins.open(lake, gateway, "eve", governed="spark_catalog.default", copies="default") as eve:
        assert (name,) not in eve.ours.ask("SHOW CATALOGS").rows
        assert eve.refusal(f"SELECT * FROM {name}.shop.plain").startswith("[SLUICE_")


class IssuerBeforeTheCatalog:
    """An issuer of tokens that exchanges Eva's, and what stands before the catalog and lets in by them."""

    def __init__(self, catalog: str) -> None:
        self.catalog = catalog
        self.url = ""
        self.asked: dict[str, list[str]] = {}
        """By what was shown: methods and paths."""
        self.exchanged: list[Mapping[str, str]] = []

    async def start(self) -> None:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self.discover)
        app.router.add_get("/keys", self.keys)
        app.router.add_post("/token", self.exchange)
        app.router.add_route("*", "/catalog/{path:.*}", self.forward)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._http = aiohttp.ClientSession()

    async def stop(self) -> None:
        await self._http.close()
        await self._runner.cleanup()

    async def discover(self, _: web.Request) -> web.Response:
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def keys(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [public(KEY, "one", use="sig", alg="RS256")]})

    async def exchange(self, request: web.Request) -> web.Response:
        self.exchanged.append({key: str(value) for key, value in (await request.post()).items()})
        return web.json_response({"access_token": EVAS, "token_type": "Bearer", "expires_in": 300})

    async def forward(self, request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.asked.setdefault(shown, []).append(f"{request.method} {request.match_info['path']}")
        if shown not in (EVAS, OWN):
            told = {"message": "log in", "type": "NotAuthorizedException", "code": 401}
            return web.json_response({"error": told}, status=401)
        async with self._http.request(
            request.method,
            f"{self.catalog}/{request.match_info['path']}",
            params=request.query,
            data=await request.read(),
            headers={"Content-Type": "application/json"},
        ) as answer:
            body = await answer.read()
            if shown == EVAS and request.method == "GET" and request.path.endswith("/tables/customer"):
                body = orjson.dumps(orjson.loads(body) | {"read-restrictions": EVAS_RESTRICTIONS})
            return web.Response(status=answer.status, body=body, content_type="application/json")


EVAS_RESTRICTIONS = {
    "required-row-filter": {"type": "lt", "left": {"type": "reference", "id": 1}, "right": 3},
    "required-column-projections": [{"field-id": 2, "action": "mask-alphanum"}],
}
EVAS, OWN = "of-eva-for-the-catalog", "of-the-gateway-for-the-catalog"


def test_the_catalog_is_asked_in_the_name_of_the_user(
    lake: LakeSpark, told: tuple[str, dict[str, str]], set_up: list[str], session_loop: LoopThread
) -> None:
    """By a token that the issuer gives for his; who has none is nobody there, whatever the gateway may."""
    name, settings = told
    if name != "rest":
        return
    issuer = IssuerBeforeTheCatalog(settings["uri"].rstrip("/"))
    session_loop.run(issuer.start())
    params = {"type": "rest", "uri": f"{issuer.url}/catalog", "token": {"env": "SLUICE_TEST_TOKEN"}}
    entry = {"name": name, "catalog": {"type": "iceberg", "connection-params": params}, "policies": "spark"}
    exchange = {
        "token_url": f"{issuer.url}/token",
        "client_id": "sluice",
        "client_secret": {"env": "SLUICE_TEST_TOKEN"},
        "catalogs": {name: "lake-api"},
    }
    logins = {"jwt": {"issuer": issuer.url, "audiences": ["sluice"], "exchange": exchange}}
    more: dict[str, Any] = {"catalogs": [entry], "logins": logins}
    os.environ["SLUICE_TEST_TOKEN"] = OWN
    evas, text = token(iss=issuer.url), "SELECT id, name FROM rest.shop.customer"
    try:
        with lake.gateway(
            "exchanging", PACK.replace("CATALOG", name), {"bob": ["analysts"]}, **more
        ) as running:
            for endpoint in one_pack.ENDPOINTS:
                issuer.asked.clear()
                with one_pack.session(running, endpoint, "Eva", evas) as eva:
                    # By what the catalog restricts for her, which Spark does not know of.
                    assert eva(text) == [(1, "xxx")]
                assert any(path.endswith("tables/customer") for path in issuer.asked[EVAS]), issuer.asked
                with one_pack.session(running, endpoint, "bob") as bob, pytest.raises(Exception) as raised:
                    bob(text)
                assert "" in issuer.asked
                assert not any(one in str(raised.value) for one in (EVAS, OWN, evas))
    finally:
        del os.environ["SLUICE_TEST_TOKEN"]
        session_loop.run(issuer.stop())
    assert {one["audience"] for one in issuer.exchanged} == {"lake-api"}
    assert {one["subject_token"] for one in issuer.exchanged} == {evas}
