"""What Iceberg REST catalogs restrict for a user, from the server to the verdict, at both endpoints.

The server is a double that answers each token otherwise; judging is the gateway's own, with Spark's parser.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from aiohttp import web

from gateway.app.catalogs import SparkCatalogs
from gateway.app.checking import _list_unasked
from gateway.app.restrictions import CatalogRestrictions
from gateway.cli.explain import as_json
from gateway.errors import Faults
from gateway.lineage.recorded import masks_of
from gateway.model.catalog import TableName
from gateway.model.principal import Principal
from gateway.model.restrictions import SALT_MARK
from gateway.model.spark_configuration import SparkConfiguration
from gateway.model.statement import Cleared, Client, PlanRequest, Refused, SessionContext, Statement, Verdict
from gateway.pipeline import Rules, judge
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from gateway.session import audit_records
from gateway.session.ports import ASKER, NO_TOKEN, CatalogAsker
from gateway.session.verdicts import VerdictInputs, Verdicts
from gateway.settings.loading import parse_settings
from gateway.settings.models import Settings
from tests.judge_world import SERVICE_DEFS
from tests.plan.frames import message
from tests.plan.frames import table as frame
from tests.policy.restricted_tables import answer, schema
from tests.session.fakes import FakeCatalog, FakePolicies

pytestmark = pytest.mark.asyncio(loop_scope="session")

PLAIN = schema({"id": "long", "name": "string", "region": "string"})
IS_EU = {"type": "eq", "left": {"type": "reference", "id": 3}, "right": "EU"}
PACK = """
service: spark
policies:
  - name: all
    on: {catalog: "*", database: "*", table: "*", column: "*"}
    allow: [{groups: [public], access: [all, metadata]}]
  - name: own filter
    on: {catalog: lake, database: sales, table: both}
    filter: [{groups: [public], where: "id > 3"}]
  - name: by a mapping
    on: {catalog: lake, database: sales, table: mapped}
    filter: [{groups: [public], where: "id IN (SELECT id FROM lake.sales.t)"}]
"""
SETTINGS = """
users: {file: users.yaml}
policies: {paths: [packs]}
catalogs:
  - name: lake
    catalog:
      type: iceberg
      read-restrictions-s: 20
      connection-params: {type: rest, uri: "URL"}
"""
HERE = Client(protocol="thrift")
TABLES = ("t", "both", "mapped", "plain")


@dataclass
class Server:
    """A REST catalog: what it answers, by who asks and by table."""

    told: dict[tuple[str, str], Any] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    status: int = 200
    url: str = ""

    async def config(self, _: web.Request) -> web.Response:
        return web.json_response({"defaults": {}, "overrides": {}})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        return web.json_response({"access_token": form["client_secret"], "token_type": "bearer"})

    async def load(self, request: web.Request) -> web.Response:
        who = request.headers.get("Authorization", "").removeprefix("Bearer of-")
        name = request.match_info["name"]
        self.asked.append((who, name))
        if self.status != 200:
            return web.json_response({"error": {"type": "E", "message": "m"}}, status=self.status)
        return web.json_response(self.told.get((who, name), answer(PLAIN)))


@asynccontextmanager
async def serving() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_get("/v1/config", server.config)
    app.router.add_post("/v1/oauth/tokens", server.token)
    app.router.add_get("/v1/namespaces/sales/tables/{name}", server.load)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


class Exchange:
    async def exchange(self, shown: str, audience: str) -> str:
        assert audience == "lakehouse"
        return f"of-{shown}"


class Restricted:
    """A gateway's verdicts over one REST catalog."""

    def __init__(
        self, server: Server, reader: ReaderPool, *, as_user: bool = True, text: str = SETTINGS
    ) -> None:
        self.server = server
        self.now = 0.0
        settings = parse_settings(text.replace("URL", server.url), "gateway.yaml", Path("/nowhere"))
        exchange: Any = Exchange()
        audiences = {"lake": "lakehouse"} if as_user else {}
        catalogs = SparkCatalogs(settings.catalogs, audiences=audiences, exchange=exchange)
        self.source = CatalogRestrictions(catalogs, {"lake": 20.0}, clock=lambda: self.now)
        self.catalog = FakeCatalog()
        for name in TABLES:
            self.catalog.add(f"lake.sales.{name}", ("id", "bigint"), ("name", "string"), ("region", "string"))
        self.catalog.add("spark_catalog.hr.own", ("id", "bigint"))
        self.catalog.known = {n: replace(t, provider="iceberg") for n, t in self.catalog.known.items()}
        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        policies = load_packs(
            {"pack.yaml": PACK}, definitions, 1, catalog_services={"spark_catalog": "spark", "lake": "spark"}
        )
        self.verdicts = Verdicts(
            VerdictInputs(
                judge=partial(judge, reader=reader, rules=Rules()),
                policies=FakePolicies(lambda: policies, engine_for),
                catalog=self.catalog,
                restrictions=self.source,
            )
        )

    def restrict(self, user: str, *, of: str = "t", **restrictions: Any) -> None:
        self.server.told[user, of] = answer(PLAIN, **restrictions)

    async def ask(self, sql: str, user: str = "bob", *, token: str | None = None) -> Verdict:
        ASKER.set(CatalogAsker(user if token is None else token))
        context = SessionContext(catalog="lake", namespace=("sales",))
        statement = Statement(text=sql, principal=Principal(user=user), context=context)
        return await self.verdicts.judge(statement, HERE)

    async def ask_plan(self, plan: Any, user: str = "bob") -> Verdict:
        ASKER.set(CatalogAsker(user))
        context = SessionContext(catalog="lake", namespace=("sales",), endpoint="connect")
        request = PlanRequest(kind="execute", message=plan)
        statement = Statement(text="", principal=Principal(user=user), context=context, plan=request)
        return await self.verdicts.judge(statement, HERE)

    async def sent(self, sql: str, user: str = "bob") -> str:
        verdict = await self.ask(sql, user)
        assert isinstance(verdict, Cleared), verdict
        return verdict.forwarded

    async def refusal(self, sql: str, user: str = "bob", *, token: str | None = None) -> str:
        verdict = await self.ask(sql, user, token=token)
        assert isinstance(verdict, Refused), verdict
        return verdict.message


def over_lake(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Run a test with a server and a gateway's verdicts over it, as its first argument."""

    @functools.wraps(test)
    async def run(reader: ReaderPool, **given: Any) -> None:
        async with serving() as server:
            lake = Restricted(server, reader)
            try:
                await test(lake, **given)
            finally:
                await lake.source.aclose()
                ASKER.set(NO_TOKEN)

    own = inspect.signature(run, follow_wrapped=False).parameters["reader"]
    _, *others = inspect.signature(test).parameters.values()
    setattr(run, "__signature__", inspect.Signature([own, *others]))  # noqa: B010 - mypy has no such name
    return run


@over_lake
async def test_a_restriction_appears_changes_and_goes_and_the_catalog_dies(lake: Restricted) -> None:
    sql = "SELECT name FROM t"
    assert "WHERE" not in await lake.sent(sql)
    lake.restrict("bob", row_filter=IS_EU)
    # Answers serve for as long as the settings say, and no longer.
    lake.now = 19.9
    assert "WHERE" not in await lake.sent(sql)
    lake.now = 20.0
    assert "`region` <=> 'EU'" in await lake.sent(sql)
    lake.restrict("bob", columns={2: "mask-alphanum"})
    lake.now = 40.0
    masked = await lake.sent(sql)
    assert "regexp_replace" in masked
    assert "<=>" not in masked
    del lake.server.told["bob", "t"]
    lake.now = 60.0
    assert "regexp_replace" not in await lake.sent(sql)
    lake.now, lake.server.status = 80.0, 503
    why = await lake.refusal(sql)
    assert "catalog `lake` restricts table lake.sales.t" in why
    assert "it answers with status 503" in why
    # What is refused for want of an answer is asked again at once.
    lake.server.status = 200
    assert "regexp_replace" not in await lake.sent(sql)


@over_lake
async def test_no_user_gets_what_another_was_answered(lake: Restricted) -> None:
    lake.restrict("bob", columns={2: "replace-with-null"})
    assert "CASE WHEN FALSE THEN `name` END" in await lake.sent("SELECT name FROM t", "bob")
    assert "CASE" not in await lake.sent("SELECT name FROM t", "ann")
    assert "CASE WHEN FALSE THEN `name` END" in await lake.sent("SELECT name FROM t", "bob")
    assert lake.server.asked == [("bob", "t"), ("ann", "t")]
    # The same user with another token is another scope.
    verdict = await lake.ask("SELECT name FROM t", "bob", token="bobs-other")
    assert isinstance(verdict, Cleared)
    assert ("bobs-other", "t") in lake.server.asked


@over_lake
async def test_plans_are_restricted_as_texts_are(lake: Restricted) -> None:
    lake.restrict("bob", row_filter=IS_EU, columns={2: "show-last-4"})
    plan = message(frame("lake.sales.t").select("name")).SerializeToString()
    verdict = await lake.ask_plan(plan)
    assert isinstance(verdict, Cleared), verdict
    assert b"`region` <=> 'EU'" in verdict.forwarded_plan
    assert b"SUBSTRING(`name` FROM -4)" in verdict.forwarded_plan
    (scan,) = verdict.scans
    assert {one.policy.name for one in scan.obligations} == {"catalog lake"}
    lake.restrict("bob", columns={2: "mask-unknown"})
    lake.now = 20.0
    refused = await lake.ask_plan(plan)
    assert isinstance(refused, Refused)
    assert "unknown action `mask-unknown`" in refused.message


@over_lake
async def test_without_a_token_the_catalog_is_asked_by_nobody(lake: Restricted) -> None:
    lake.server.told["", "t"] = answer(PLAIN, columns={2: "mask-alphanum"})
    verdict = await lake.ask("SELECT name FROM t", token="")
    assert isinstance(verdict, Cleared)
    assert "regexp_replace" in verdict.forwarded
    lake.now, lake.server.status = 20.0, 401
    assert "it answers with status 401" in await lake.refusal("SELECT name FROM t", token="")
    assert set(lake.server.asked) == {("", "t")}


async def test_with_the_login_of_the_settings_it_answers_for_that(reader: ReaderPool) -> None:
    async with serving() as server:
        lake = Restricted(server, reader, as_user=False)
        server.told["", "t"] = answer(PLAIN, columns={2: "mask-alphanum"})
        assert "regexp_replace" in await lake.sent("SELECT name FROM t")
        await lake.source.aclose()


async def test_with_credentials_of_users_it_answers_for_each(reader: ReaderPool) -> None:
    mapped = SETTINGS + "      user-credentials: {bob: {env: SLUICE_TEST_BOB}}\n"
    with patch.dict(os.environ, {"SLUICE_TEST_BOB": "bob:of-bob"}):
        async with serving() as server:
            lake = Restricted(server, reader, as_user=False, text=mapped)
            server.told["bob", "t"] = answer(PLAIN, columns={2: "mask-alphanum"})
            assert "regexp_replace" in await lake.sent("SELECT name FROM t", "bob")
            assert "no credential is set for the user" in await lake.refusal("SELECT name FROM t", "ann")
            assert server.asked == [("bob", "t")]
            await lake.source.aclose()


@over_lake
async def test_the_record_and_explain_say_that_the_catalog_restricts(lake: Restricted) -> None:
    lake.restrict("bob", of="both", row_filter=IS_EU, columns={2: "mask-alphanum"})
    verdict = await lake.ask("SELECT name FROM both")
    assert isinstance(verdict, Cleared), verdict
    told = as_json(verdict)["obligations"]
    assert {(one["kind"], one["policy"]) for one in told} == {
        ("mask", "catalog lake"),
        ("filter", "own filter and catalog lake"),
    }
    assert "(id > 3) AND (`region` <=> 'EU')" in verdict.forwarded
    (scan,) = [audit_records.of_scan(one) for one in verdict.scans]
    # What lineage is made of: a masked edge.
    assert masks_of(verdict.scans) == {TableName("lake", "sales", "both"): frozenset({"name"})}
    mask = next(one for one in scan["obligations"] if one["type"] != "ROW_FILTER")
    assert (mask["type"], mask["column"], mask["policy_name"]) == ("mask-alphanum", "name", "catalog lake")


@over_lake
@pytest.mark.parametrize(
    "sql",
    [
        *(f"SELECT * FROM sales.t.{name}" for name in ("snapshots", "files", "partitions", "manifests")),
        "SELECT * FROM lake.sales.t.all_data_files",
        "SELECT * FROM lake.sales.t.position_deletes",
        "ANALYZE TABLE t COMPUTE STATISTICS FOR ALL COLUMNS",
        "SELECT name, _metadata FROM t",
    ],
)
async def test_metadata_of_a_restricted_table_is_refused(lake: Restricted, sql: str) -> None:
    for restrictions in ({"row_filter": IS_EU}, {"columns": {2: "mask-alphanum"}}):
        lake.restrict("bob", **restrictions)
        lake.now += 20.0
        await lake.refusal(sql)


@over_lake
async def test_a_policy_does_not_read_past_what_a_catalog_restricts(lake: Restricted) -> None:
    await lake.sent("SELECT name FROM mapped")
    lake.restrict("bob", row_filter=IS_EU)
    lake.now = 20.0
    assert "which its catalog restricts" in await lake.refusal("SELECT name FROM mapped")


@over_lake
async def test_tables_of_other_catalogs_are_not_asked_about(lake: Restricted) -> None:
    await lake.sent("SELECT id FROM spark_catalog.hr.own")
    assert lake.server.asked == []


@over_lake
async def test_an_open_table_costs_one_question_for_each_user_and_time(lake: Restricted) -> None:
    for _ in range(3):
        await lake.sent("SELECT name FROM t")
    await asyncio.gather(*(lake.sent(f"SELECT name, {n} FROM plain", "ann") for n in range(5)))
    assert lake.server.asked == [("bob", "t"), ("ann", "plain")]


@over_lake
@pytest.mark.parametrize("odd", [[], {}, {"metadata": 3}, "x"])
async def test_an_odd_answer_refuses(lake: Restricted, odd: Any) -> None:
    lake.server.told["bob", "t"] = odd
    assert "is not understood" in await lake.refusal("SELECT name FROM t")


@over_lake
async def test_the_columns_of_now_are_looked_at(lake: Restricted) -> None:
    renamed = schema({"id": "long", "called": "string", "region": "string"}, ident=1)
    lake.server.told["bob", "t"] = answer(PLAIN, renamed, current=1, columns={2: "mask-alphanum"})
    assert "its columns have changed" in await lake.refusal("SELECT name FROM t")
    name = TableName("lake", "sales", "t")
    lake.catalog.add("lake.sales.t", ("id", "bigint"), ("called", "string"), ("region", "string"))
    assert "regexp_replace" in await lake.sent("SELECT called FROM t")
    assert [c.name for c in lake.catalog.known[name].columns][1] == "called"


# Salts.


def salts_of(text: str) -> set[str]:
    return {one[:64] for one in text.split(SALT_MARK)[1:]}


@over_lake
async def test_each_statement_has_a_salt_that_no_record_has(lake: Restricted) -> None:
    lake.restrict("bob", columns={2: "sha-256-query-local"})
    sql = "SELECT a.name FROM t a JOIN t b ON a.name = b.name"
    seen = []
    for _ in range(2):
        verdict = await lake.ask(sql)
        assert isinstance(verdict, Cleared), verdict
        (salt,) = salts_of(verdict.forwarded)
        seen.append(salt)
        stamp = audit_records.Stamp("id", "time", "gateway")
        event = audit_records.build_decided(stamp, verdict, client=HERE, duration_us=1)
        shown = f"{event} {as_json(verdict)}"
        assert salt not in shown
        assert SALT_MARK not in shown
    assert seen[0] != seen[1]


@over_lake
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TEMPORARY VIEW v AS SELECT name FROM t",
        "CACHE TABLE v AS SELECT name FROM t",
        "CACHE LAZY TABLE v AS SELECT name FROM t",
    ],
)
async def test_nothing_is_kept_that_has_a_salt(lake: Restricted, sql: str) -> None:
    lake.restrict("bob", columns={2: "sha-256-query-local"})
    assert "nothing that reads it can be kept" in await lake.refusal(sql)
    lake.restrict("bob", columns={2: "sha-256-global"})
    lake.now = 20.0
    await lake.sent(sql)


@over_lake
async def test_plans_of_a_salted_statement_are_not_shown(lake: Restricted) -> None:
    lake.restrict("bob", columns={2: "sha-256-query-local"})
    verdict = await lake.ask("EXPLAIN SELECT name FROM t")
    assert isinstance(verdict, Refused) or SALT_MARK not in verdict.forwarded


# Which catalogs are asked.


def parsed(text: str) -> Settings:
    return parse_settings(text, "gateway.yaml", Path("/nowhere"))


async def test_catalogs_that_are_not_asked_are_told() -> None:
    named = SETTINGS.replace("URL", "http://lake.internal") + (
        "  - name: other\n    catalog: {type: spark}\n"
        "  - name: loud\n    catalog: {type: iceberg, read-restrictions: ignore, connection-params: "
        "{type: rest, uri: 'http://loud.internal'}}\n"
    )
    own = {f"spark.sql.catalog.{name}.type": "rest" for name in ("lake", "other", "unnamed")}
    told = SparkConfiguration(version="4.1.0", settings=own, parsers=())
    found = _list_unasked(parsed(named), told)
    assert [one.split("`")[1] for one in found] == ["loud", "other"]
    assert "since only Spark's configuration has it" in found[1]
    as_class = {"spark.sql.catalog.other.catalog-impl": "org.apache.iceberg.rest.RESTCatalog"}
    assert len(_list_unasked(parsed(named), replace(told, settings=as_class))) == 2


async def test_only_rest_catalogs_have_the_setting() -> None:
    with pytest.raises(Faults, match="is for Iceberg REST catalogs"):
        parsed(SETTINGS.replace("type: iceberg", "type: spark").replace("URL", "http://x"))
