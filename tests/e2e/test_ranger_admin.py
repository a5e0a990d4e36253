"""Policies kept through Ranger's API, managed with Ranger's own client, reach users of another gateway."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from apache_ranger.client.ranger_client import RangerClient
from apache_ranger.exceptions import RangerServiceException
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_service import RangerService
from pyhive import hive
from pyspark.errors.exceptions.connect import SparkConnectException

from gateway.cli.audit import find_record
from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.settings.loading import load_settings
from tests.e2e.running import PASSWORDS, RunningGateway, Spark, connect, until
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

SERVICE = "lake"
KEEPER, PLUGIN, PASSWORD = "ruth", "poller", "correct horse battery"
CUSTOMER = {
    "catalog": {"values": ["spark_catalog"]},
    "database": {"values": ["sales"]},
    "table": {"values": ["customer"]},
}
COLUMNS = CUSTOMER | {"column": {"values": ["id", "name", "email", "region"]}}
SELECT = [{"type": "select"}]
REGIONS = "SELECT DISTINCT region FROM sales.customer ORDER BY region"


def settings_of(directory: Path, spark: Spark, **changes: Any) -> dict[str, Any]:
    return {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": spark.host, "port": spark.port}},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    } | changes


def made(directory: Path, settings: dict[str, Any]) -> RunningGateway:
    directory.mkdir(exist_ok=True)
    directory.chmod(0o711)
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return RunningGateway(file)


@pytest.fixture
def keeper(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway that keeps policies."""
    directory = open_directory / "keeper"
    api = {"administrators": [KEEPER], "plugins": [PLUGIN]}
    listeners = {"thrift": {"port": 0}, "admin": {"port": 0, "ranger": api}}
    # Nobody answers there: it says whose catalog the service speaks for.
    source = {"service": SERVICE, "urls": ["http://127.0.0.1:9"], "user": PLUGIN, "password": {"env": "PATH"}}
    policies = {"ranger": [source], "catalogs": {"spark_catalog": SERVICE}}
    gateway = made(directory, settings_of(directory, spark, listeners=listeners, policies=policies))
    for user in (KEEPER, PLUGIN):
        set_user(directory / "users.yaml", user, password=PASSWORD)
    set_user(directory / "users.yaml", "bob", password=PASSWORDS["bob"], groups=["analysts"])
    yield gateway.start()
    gateway.stop()
    # One that was killed leaves its PostgreSQL to its next start, which does not come.
    EmbeddedPostgres(directory / "postgres").stop()


@pytest.fixture
def governed(
    spark: Spark, open_directory: Path, keeper: RunningGateway, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RunningGateway]]:
    """Start a gateway that polls the keeper; what is started is stopped."""
    monkeypatch.setenv("POLLER_PASSWORD", PASSWORD)
    directory = open_directory / "governed"
    started: list[RunningGateway] = []

    def start(**changes: Any) -> RunningGateway:
        source = {
            "service": SERVICE,
            "urls": [f"http://127.0.0.1:{keeper.admin_port}"],
            "user": PLUGIN,
            "password": {"env": "POLLER_PASSWORD"},
            "cache": "cache",
            "poll_s": 0.3,
            "tags_poll_s": 0.3,
        } | changes
        policies = {"ranger": [source], "catalogs": {"spark_catalog": SERVICE}}
        directory.mkdir(exist_ok=True)
        backend = spark.backend_settings(directory)
        listeners = {listener: {"port": 0} for listener in (*backend, "admin")}
        doors = {"backend": backend, "listeners": listeners}
        gateway = made(directory, settings_of(directory, spark, policies=policies, **doors))
        set_user(directory / "users.yaml", "bob", password=PASSWORDS["bob"], groups=["analysts"])
        started.append(gateway)
        return gateway.start()

    yield start
    for gateway in started:
        gateway.stop()


def policy(name: str, **fields: Any) -> RangerPolicy:
    return RangerPolicy({"service": SERVICE, "name": name, "resources": COLUMNS, **fields})


def texts_are_held_against_spark(ranger: RangerClient) -> None:
    """The keeper's Spark has the tables: what it refuses is answered 400, what it was not asked is said."""

    def offer(kind: str, text: str, resources: dict[str, Any], **more: Any) -> Any:
        info = {"rowFilterInfo": {"filterExpr": text}} if kind == "filter" else {}
        info = info or {"dataMaskInfo": {"dataMaskType": "CUSTOM", "valueExpr": text}}
        item = {"users": ["nobody"], "accesses": SELECT, **info}
        items = {"rowFilterPolicyItems" if kind == "filter" else "dataMaskPolicyItems": [item]}
        body = policy("offered", policyType=2 if kind == "filter" else 1, resources=resources, **items)
        return ranger.create_policy(RangerPolicy({**body, "isEnabled": False, **more}))

    name = CUSTOMER | {"column": {"values": ["name"]}}
    absent = CUSTOMER | {"table": {"values": ["cutsomer"]}}
    every = CUSTOMER | {"table": {"values": ["*"]}}
    for kind, text, resources, told in (
        ("filter", "frobnicate(id) = 1", CUSTOMER, "[UNRESOLVED_ROUTINE]"),
        (
            "filter",
            "regoin = 'EMEA'",
            CUSTOMER,
            "refers to `regoin`, which table spark_catalog.sales.customer",
        ),
        ("filter", "region = DATE'foo'", CUSTOMER, "INVALID_TYPED_LITERAL"),
        ("filter", "concat(region, 'x')", CUSTOMER, "has type string"),
        ("filter", "frobnicate(id) = 1", every, "[UNRESOLVED_ROUTINE]"),
        ("mask", "frobnicate({col})", name, "[UNRESOLVED_ROUTINE]"),
        ("mask", "{col} || nmae", name, "refers to `nmae`"),
        ("mask", "name + array(1)", name, "[DATATYPE_MISMATCH"),
    ):
        with pytest.raises(RangerServiceException) as refused:
            offer(kind, text, resources)
        assert refused.value.statusCode == 400, (text, refused.value.msgDesc)
        assert told in str(refused.value.msgDesc), (text, refused.value.msgDesc)
        assert "Items" in str(refused.value.msgDesc), "the place"
    for kind, text, resources in (
        ("filter", "region = 'EMEA'", CUSTOMER),
        ("filter", "region = 'EMEA'", absent),
        ("filter", "region = {USER.region} OR year(since) > 2020", every),
        ("mask", "concat(left({col}, 1), '…')", name),
    ):
        ranger.delete_policy_by_id(offer(kind, text, resources).id)


def a_bad_policy_holds_no_revocation_back(
    keeper: RunningGateway, gateway: RunningGateway, ranger: RangerClient
) -> None:
    """A policy is stored past the API, as an older version would have; then somebody loses what he had."""
    dsn = find_record(load_settings(keeper.config))[0]

    async def store(text: str) -> None:
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "UPDATE sluice.ranger_object SET body = jsonb_set(body,"
            " '{rowFilterPolicyItems,0,rowFilterInfo,filterExpr}', to_jsonb($1::text))"
            " WHERE kind = 'policy' AND name = 'region'",
            text,
        )
        await connection.close()

    def version() -> int:
        return int(ranger.get_service(SERVICE).policyVersion)

    def in_force() -> bool:
        last = [r for r in gateway.records if r["event"] == "ranger_service_in_force"][-1]
        return bool(last["versions"]["policies"] == version())

    orders = CUSTOMER | {"table": {"values": ["orders"]}, "column": {"values": ["*"]}}
    asked = "SELECT count(*) FROM sales.orders"
    items = [{"roles": ["readers"], "accesses": SELECT}]
    granted = ranger.create_policy(policy("orders", resources=orders, policyItems=items))
    until(lambda: in_force(), "the grant is in force")
    assert gateway.query("bob", asked)
    for text in ("((", "region = = 1", "${region}", "'", "DATE'foo'"):
        asyncio.run(store(text))
        ranger.delete_policy_by_id(granted.id)
        until(in_force, f"the revocation is in force beside `{text}`", 20)
        assert "[SLUICE_ACCESS_DENIED]" in gateway.refusal("bob", asked)
        assert "[SLUICE_ACCESS_DENIED]" in gateway.refusal("bob", REGIONS), "what is filtered is closed"
        until(lambda: "`region` (id " in gateway.admin("/readyz")[1], "the page names the policy")
        assert gateway.admin("/readyz")[0] == 200
        assert "sluice_policy_closed_timestamp_seconds{" in gateway.admin("/metrics")[1]
        asyncio.run(store("region <> 'EMEA'"))
        granted = ranger.create_policy(policy("orders", resources=orders, policyItems=items))
        until(lambda: in_force() and 'policies_closed": "ok' in gateway.admin("/readyz")[1], "it is mended")
        assert gateway.query("bob", asked)
    ranger.delete_policy_by_id(granted.id)


def access_is_asked_for_given_and_ended(keeper: RunningGateway, gateway: RunningGateway) -> None:
    """By the keeper's console over REST: a missing right, and then break-glass past mask and filter."""

    def post(user: str, path: str, **body: Any) -> Any:
        word = f"{user}:{PASSWORD if user == KEEPER else PASSWORDS[user]}"
        login = {"Authorization": f"Basic {base64.b64encode(word.encode()).decode()}"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{keeper.admin_port}/api/v1/requests{path}",
            json.dumps(body).encode(),
            {"Content-Type": "application/json", **login},
        )
        with urllib.request.urlopen(request, timeout=patience(20)) as answer:
            return json.loads(answer.read())

    def ask(table: str, **more: Any) -> str:
        until_then = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        return f"/{post('bob', '', table=table, until=until_then, reason='yearly report', **more)['id']}"

    orders, emails = "SELECT count(*) FROM sales.orders", "SELECT region, email FROM sales.customer"
    assert "[SLUICE_ACCESS_DENIED]" in gateway.refusal("bob", orders)
    missing, masked = ask("sales.orders"), gateway.query("bob", emails)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        post("bob", f"{missing}/grant")
    post(KEEPER, f"{missing}/grant")
    until(lambda: isinstance(asked(gateway, orders)[0], list), "what was granted is in force", 20)
    urgent = ask("sales.customer", kind="break_glass", columns=["region", "email"])
    post(KEEPER, f"{urgent}/grant", reason="the house burns")
    until(lambda: gateway.query("bob", emails) != masked, "break-glass is in force", 20)
    shown = gateway.query("bob", emails)
    assert {region for region, _ in shown} >= {"EMEA", "AMER", "APAC"}
    assert all("@" in email for _, email in shown)
    for one in (missing, urgent):
        post("bob", f"{one}/end")
    until(lambda: gateway.query("bob", emails) == masked, "break-glass is over", 20)
    assert "[SLUICE_ACCESS_DENIED]" in gateway.refusal("bob", orders)


VOUCHED = "vouching.customers"
SEEN = f"SELECT id, email FROM {VOUCHED}"


@pytest.fixture
def vouched(spark: Spark) -> Iterator[None]:
    """A view that was made past the gateway: by default an operator vouches for it."""
    text = "SELECT id, email FROM sales.customer"
    spark.query("CREATE DATABASE vouching", f"CREATE VIEW {VOUCHED} AS {text}", user="loader")
    yield
    spark.query("DROP DATABASE vouching CASCADE", user="loader")


@contextlib.contextmanager
def one_session(gateway: RunningGateway, endpoint: str) -> Iterator[Callable[[str], object]]:
    """A session of bob's."""
    if endpoint == "connect":
        with gateway.session("bob") as frames:
            yield lambda text: frames.sql(text).collect()
        return
    with contextlib.closing(connect(gateway.host, gateway.port, "bob", PASSWORDS["bob"])) as connection:
        yield connection.cursor().execute


def asked(gateway: RunningGateway, text: str) -> list[list[tuple[Any, ...]] | str]:
    """What bob is answered on each endpoint: rows, or why not."""
    found: list[list[tuple[Any, ...]] | str] = []
    try:
        found.append(sorted(gateway.query("bob", text)))
    except hive.OperationalError as error:
        found.append(str(error.args[0].status.errorMessage))
    if gateway.connect_port:
        with gateway.session("bob") as session:
            try:
                found.append(sorted(tuple(row) for row in session.sql(text).collect()))
            except SparkConnectException as error:
                found.append(str(error))
    return found


def a_policy_at_fault_denies_and_hides_on_each_endpoint(
    keeper: RunningGateway, gateway: RunningGateway, ranger: RangerClient
) -> None:
    """Of what an Admin sends one policy cannot be loaded: a denial stands in its place; and NULL, or no row,
    where no denial holds, in a view that an operator vouches for."""
    dsn = find_record(load_settings(keeper.config))[0]
    view = {"catalog": ["spark_catalog"], "database": ["vouching"], "table": ["customers"], "column": ["*"]}
    resources = {level: {"values": values} for level, values in view.items()}
    items = [{"roles": ["readers"], "accesses": SELECT}]
    granted = ranger.create_policy(policy("vouched", resources=resources, policyItems=items))

    async def store(name: str, items: str, item: dict[str, Any]) -> dict[str, Any]:
        connection = await asyncpg.connect(dsn)
        was = await connection.fetchval(
            "SELECT body->$2->0 FROM sluice.ranger_object WHERE kind = 'policy' AND name = $1", name, items
        )
        await connection.execute(
            "UPDATE sluice.ranger_object SET body = jsonb_set(body, ARRAY[$2, '0'], $3::jsonb)"
            " WHERE kind = 'policy' AND name = $1",
            name,
            items,
            json.dumps(item),
        )
        await connection.close()
        return dict(json.loads(was))

    def touch() -> None:
        ranger.update_policy_by_id(granted.id, ranger.get_policy_by_id(granted.id))

    def shows(text: str, expected: Callable[[list[tuple[Any, ...]] | str], bool]) -> bool:
        return all(map(expected, asked(gateway, text)))

    def denied(told: object) -> bool:
        return "ACCESS_DENIED" in str(told)

    def unknown(told: object) -> bool:
        return "UNRESOLVED_COLUMN" in str(told)

    until(
        lambda: shows(SEEN, lambda told: not isinstance(told, str) and len(told) > 0), "the view is granted"
    )
    before = asked(gateway, SEEN)
    assert all(isinstance(told, list) and all(email for _, email in told) for told in before)
    mine = "CREATE TEMPORARY VIEW mine AS SELECT id, email FROM sales.customer"
    who = {"groups": ["public"], "accesses": SELECT}
    mask = {**who, "dataMaskInfo": {"dataMaskType": "CUSTOM", "valueExpr": "(("}}
    with contextlib.ExitStack() as opened:
        endpoints = ("thrift", "connect")[: len(before)]
        kept = [opened.enter_context(one_session(gateway, endpoint)) for endpoint in endpoints]
        for ask in kept:
            ask(mine)
        was = asyncio.run(store("email", "dataMaskPolicyItems", mask))
        touch()
        until(lambda: shows("SELECT email FROM sales.customer", unknown), "the column is closed", 20)
        for ask in kept:
            for text in ("SELECT * FROM mine", "DESCRIBE mine"):
                with pytest.raises(Exception, match="the temporary view `mine` ended because the policies"):
                    ask(text)
    assert shows("SELECT id FROM sales.customer", lambda told: isinstance(told, list) and len(told) > 0)
    assert shows(SEEN, lambda told: isinstance(told, list) and bool(told) and not any(e for _, e in told))
    asyncio.run(store("email", "dataMaskPolicyItems", was))
    rows = {**who, "rowFilterInfo": {"filterExpr": "region = = 1"}}
    was = asyncio.run(store("region", "rowFilterPolicyItems", rows))
    touch()
    until(lambda: shows("SELECT id FROM sales.customer", denied), "the table is closed", 20)
    assert shows(SEEN, lambda told: told == [])
    assert shows("SELECT count(*) FROM sales.customer", denied)
    asyncio.run(store("region", "rowFilterPolicyItems", was))
    touch()
    until(lambda: asked(gateway, SEEN) == before, "both are mended", 20)
    ranger.delete_policy_by_id(granted.id)


@pytest.mark.usefixtures("vouched")
def test_a_change_reaches_a_client_and_the_last_word_counts_until_it_is_too_old(
    keeper: RunningGateway, governed: Callable[..., RunningGateway]
) -> None:
    ranger = RangerClient(f"http://127.0.0.1:{keeper.admin_port}", (KEEPER, PASSWORD))
    ranger.create_service(RangerService({"name": SERVICE, "type": "spark"}))
    ranger.create_role(SERVICE, RangerRole({"name": "readers", "groups": [{"name": "analysts"}]}), {})
    ranger.create_policy(policy("customers", policyItems=[{"roles": ["readers"], "accesses": SELECT}]))
    mask = {"dataMaskInfo": {"dataMaskType": "MASK_HASH"}, "groups": ["public"], "accesses": SELECT}
    email = CUSTOMER | {"column": {"values": ["email"]}}
    ranger.create_policy(policy("email", policyType=1, resources=email, dataMaskPolicyItems=[mask]))
    rows = {"groups": ["public"], "accesses": SELECT, "rowFilterInfo": {"filterExpr": "region = 'EMEA'"}}
    region = ranger.create_policy(
        policy("region", policyType=2, resources=CUSTOMER, rowFilterPolicyItems=[rows])
    )

    # Whole downloads: what is stored past the API is in no list of changes.
    gateway = governed(deltas=False)
    assert gateway.query("bob", REGIONS) == [("EMEA",)]
    assert all(len(email) == 64 for (email,) in gateway.query("bob", "SELECT email FROM sales.customer"))
    assert "[UNRESOLVED_COLUMN" in gateway.refusal("bob", "SELECT card FROM sales.customer")
    assert "[SLUICE_ACCESS_DENIED]" in gateway.refusal("bob", "SELECT * FROM sales.customer")

    region.rowFilterPolicyItems[0].rowFilterInfo.filterExpr = "region <> 'EMEA'"
    ranger.update_policy_by_id(region.id, region)
    until(lambda: gateway.query("bob", REGIONS) == [("AMER",), ("APAC",)], "the new filter is in force")
    last = [r for r in gateway.records if r["event"] == "ranger_service_in_force"][-1]
    assert last["versions"]["policies"] == ranger.get_service(SERVICE).policyVersion

    downloaded = ranger.client_http.session.get(
        f"http://127.0.0.1:{keeper.admin_port}/service/plugins/policies/download/{SERVICE}",
        params={
            "lastKnownVersion": last["versions"]["policies"] - 1,
            "supportsPolicyDeltas": "true",
            "pluginId": "test",
        },
    ).json()
    assert [delta["policy"]["name"] for delta in downloaded["policyDeltas"]] == ["region"]
    assert "policies" not in downloaded

    texts_are_held_against_spark(ranger)
    access_is_asked_for_given_and_ended(keeper, gateway)
    a_bad_policy_holds_no_revocation_back(keeper, gateway, ranger)
    a_policy_at_fault_denies_and_hides_on_each_endpoint(keeper, gateway, ranger)

    keeper.stop(number=9)
    assert gateway.query("bob", REGIONS) == [("AMER",), ("APAC",)]
    gateway.stop()

    restarted = governed(max_stale_s=3600)
    assert restarted.query("bob", REGIONS) == [("AMER",), ("APAC",)], "from the cache"
    assert "ranger" in restarted.admin("/readyz")[1] or SERVICE in restarted.admin("/readyz")[1]
    restarted.stop()

    stale = governed(max_stale_s=0.5)
    assert "[SLUICE_POLICIES_STALE]" in stale.refusal("bob", REGIONS)
