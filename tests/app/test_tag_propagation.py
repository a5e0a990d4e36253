"""Tags from the graph to the decision: proposed, accepted, in force in every gateway; over REST as well."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from gateway.admin.listener import AdminServer
from gateway.app.administered_apis import make_tags_api
from gateway.app.rules import PolicyRegistry
from gateway.app.tag_propagation import Accepted, TagPropagation, connected, in_own_loop
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.lineage.proposals import ACCEPTED, decide, proposals
from gateway.lineage.store import store_lineage
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.engine import engine_for
from gateway.settings.listeners import TagApiSettings
from gateway.settings.models import PolicySettings, TagPropagationSettings
from gateway.sources.accepted_tags import AcceptedTags
from tests.app.readers import ReaderThatCounts
from tests.app.rest import Api
from tests.frontends.listening import Gateway
from tests.lineage.statements import seen
from tests.session.fakes import World

PACK = """\
service: spark
tags:
  - on: {catalog: spark_catalog, database: lab, table: raw, column: ssn}
    tags: [PII]
policies:
  - name: analysts read
    on: {catalog: "*", database: lab, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: personal data is masked
    on: {tag: PII}
    mask: [{groups: [public], type: MASK_NULL}]
"""
ANN = Principal(user="ann", groups=frozenset({"analysts"}))
HIVE = """\
service: hive
tags:
  - on: {database: lab, table: raw, column: ssn}
    tags: [PII]
policies:
  - name: personal data is masked
    on: {tag: PII}
    mask: [{groups: [public], type: MASK_NULL}]
"""


@asynccontextmanager
async def gateway(
    database: str, tmp_path: Path, pack: str = PACK, catalogs: dict[str, str] | None = None
) -> AsyncIterator[tuple[PolicyRegistry, AcceptedTags]]:
    """A gateway's policies, with a cache of its own."""
    own = tmp_path / uuid.uuid4().hex
    own.mkdir()
    (own / "pack.yaml").write_text(pack)
    accepted = Accepted(database)
    source = AcceptedTags(accepted.fetch, cache=own / "accepted.json")
    settings = PolicySettings(paths=(own / "pack.yaml",), catalogs=catalogs or {"spark_catalog": "spark"})
    async with PolicyRegistry(settings, ReaderThatCounts(), accepted=source) as rules:
        yield rules, source
    accepted.close()


def masked(rules: PolicyRegistry, table: str, column: str) -> bool:
    resource = Resource.table("spark_catalog", "lab", table).child("column", column)
    return engine_for(rules.current).mask(ANN, resource, "string") is not None


async def flow(database: str, *lines: str, rules: PolicyRegistry) -> None:
    async with connected(database) as connection:
        await store_lineage(connection, [seen(line) for line in lines])
    await TagPropagation(TagPropagationSettings(), database, lambda: rules.current).look()


async def accept(database: str, *columns: str) -> None:
    async with connected(database) as connection:
        found = [one for column in columns for one in await proposals(connection, name=column)]
        await decide(connection, [one.id for one in found], ACCEPTED, "ann")


async def test_what_is_accepted_is_in_force_in_every_gateway_at_its_next_look(
    database: str, tmp_path: Path
) -> None:
    async with gateway(database, tmp_path) as (rules, one), gateway(database, tmp_path) as (others, two):
        await flow(database, "raw.ssn -> copy.id: ssn IDENTITY", rules=rules)
        assert masked(rules, "raw", "ssn")
        assert not masked(rules, "copy", "id")
        await accept(database, "copy.id")
        assert await one.look()
        assert await two.look()
        assert masked(rules, "copy", "ID")
        assert masked(others, "copy", "id")
        assert not masked(rules, "copy", "name")
        assert rules.current.origins["accepted_tags"] == "1"
        (state,) = [state for state in rules.sources() if state.name == "accepted tags"]
        assert state.faults == ()
        # What came along lineage is no tag of policies: the look finds nothing new and nothing gone.
        await TagPropagation(TagPropagationSettings(), database, lambda: rules.current).look()
        async with connected(database) as connection:
            assert [one.origin_gone for one in await proposals(connection)] == [False]


async def test_a_tag_within_a_table_follows_where_only_tables_are_known(
    database: str, tmp_path: Path
) -> None:
    async with gateway(database, tmp_path) as (rules, _), connected(database) as connection:
        statement = seen("raw.a -> copy.a: a IDENTITY")
        lineage = replace(statement.lineage, edges=(), columns=(), table_level="no reading")
        # The graph has never heard of the tagged column.
        await store_lineage(connection, [replace(statement, lineage=lineage)])
        await TagPropagation(TagPropagationSettings(), database, lambda: rules.current).look()
        (proposed,) = await proposals(connection)
        assert (proposed.target.table, proposed.target.column, proposed.asks) == ("copy", "*", True)


async def test_a_service_without_catalogs_gets_the_tag_too(database: str, tmp_path: Path) -> None:
    async with gateway(database, tmp_path, HIVE, {"spark_catalog": "hive"}) as (rules, source):
        await flow(database, "raw.ssn -> copy.id: ssn IDENTITY", rules=rules)
        await accept(database, "copy.id")
        assert await source.look()
        assert masked(rules, "copy", "id")


async def test_after_a_broken_connection_the_list_is_read_whole(database: str) -> None:
    accepted = Accepted(database)
    found = await accepted.fetch(None)
    assert found is not None
    assert await accepted.fetch(found.number) is None
    # Whatever is behind the new connection, the same number may be of another list.
    accepted.close()
    assert await accepted.fetch(found.number) == found
    accepted.close()


async def test_without_the_database_a_gateway_that_knew_nothing_judges_nothing(tmp_path: Path) -> None:
    async with gateway("postgresql://nobody@127.0.0.1:1/none", tmp_path) as (rules, _):
        assert "the accepted tags are not known" in (rules.stale() or "")


async def test_a_database_that_is_made_anew_is_told_of_its_tables(database: str, tmp_path: Path) -> None:
    async with gateway(database, tmp_path) as (rules, source):
        connection = await asyncpg.connect(database)
        await connection.execute("DROP SCHEMA sluice CASCADE")
        assert not await source.look()
        assert rules.stale() is None
        assert await source.look()
        await connection.close()


async def test_why_no_tags_are_proposed_is_told() -> None:
    dsn = "postgresql://nobody@127.0.0.1:1/none"
    propagation = TagPropagation(TagPropagationSettings(), dsn, lambda: PolicySet(version=1))
    assert await propagation.report_trouble() is None
    running = asyncio.create_task(propagation.run())
    while await propagation.report_trouble() is None:  # noqa: ASYNC110 - nothing else says that a look has failed
        await asyncio.sleep(0.01)
    running.cancel()
    assert "no tags are proposed: " in (await propagation.report_trouble() or "")


async def test_a_look_that_is_cancelled_ends_before_its_caller_does() -> None:
    begun, ended = threading.Event(), []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(threading.current_thread())

    task = asyncio.create_task(in_own_loop(work()))
    await asyncio.to_thread(begun.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended
    assert ended[0] is not threading.current_thread()


# -- REST ----------------------------------------------------------------------------------------------------


@pytest.fixture
async def api(database: str) -> AsyncIterator[Api]:
    """The API with `bob` as its administrator."""
    logins = Gateway(World())
    made = make_tags_api(TagApiSettings(administrators=("bob",)), database, logins.authenticator)
    listener = AdminServer({}, CollectorRegistry(), mounted={"/tags": made.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Api(session, f"http://127.0.0.1:{port}/tags/proposals")
    await listener.close()


async def test_administrators_list_and_decide(api: Api, database: str, tmp_path: Path) -> None:
    async with gateway(database, tmp_path) as (rules, _):
        await flow(database, "raw.ssn -> a.x: ssn IDENTITY", "raw.ssn -> b.x: ssn IDENTITY", rules=rules)
    status, listed = await api("GET", "?state=proposed&tag=PII&name=lab.a.x")
    assert status == 200
    assert [(one["column"], one["tag"], one["state"]) for one in listed] == [
        ("spark_catalog.lab.a.x", "PII", "proposed")
    ]
    (number,) = [one["id"] for one in listed]
    status, decided = await api("POST", "/accept", {"ids": [number]})
    assert (status, decided[0]["state"], decided[0]["decided_by"]) == (200, "accepted", "bob")
    status, told = await api("POST", "/reject", {"ids": [number]})
    assert status == 409
    assert "was accepted by bob" in told["messages"][0]
    assert (await api("POST", "/reject", {"ids": [number], "again": True}))[0] == 200
    status, shown = await api("GET", f"/{number}")
    assert [one["state"] for one in shown["history"]] == ["accepted", "rejected"]
    assert shown["origins"][0]["way"][0]["flow"] == "IDENTITY"


WRONG: Sequence[tuple[str, str, Any, int]] = (
    ("GET", "?stat=x", None, 400),
    ("GET", "?state=open", None, 400),
    ("GET", "?limit=0", None, 400),
    ("GET", "?limit=1e3", None, 400),
    ("GET", "?limit=0000000019999999999", None, 400),
    ("GET", "?limit=" + "1" * 5000, None, 400),
    ("GET", "?name=a%00b", None, 400),
    ("GET", "?tag=%00", None, 400),
    ("POST", "/accept", {"ids": list(range(1, 5000))}, 409),
    ("GET", "?gone=1", None, 400),
    ("GET", "/99", None, 404),
    ("POST", "/accept", [], 400),
    ("POST", "/accept", {"ids": []}, 400),
    ("POST", "/accept", {"ids": ["1"]}, 400),
    ("POST", "/accept", {"ids": [True]}, 400),
    ("POST", "/accept", {"ids": [1], "again": 1}, 400),
    ("POST", "/accept", {"ids": [1], "force": True}, 400),
    ("POST", "/accept", {"ids": [12345]}, 409),
    ("GET", "/7/none", None, 404),
    ("DELETE", "", None, 405),
)


async def test_what_makes_no_sense_is_told(api: Api) -> None:
    for method, path, body, status in WRONG:
        found, told = await api(method, path, body)
        assert (found, bool(told["messages"][0])) == (status, True), (method, path, body)


async def test_nobody_else_and_no_other_site(api: Api) -> None:
    assert (await api("GET", "", user="alice"))[0] == 403
    assert (await api("GET", "", user="nobody"))[0] == 401
    assert (await api("POST", "/accept", {"ids": [1]}, user="alice"))[0] == 403
    assert (await api("POST", "/accept", {"ids": [1]}, Origin="http://elsewhere.example"))[0] == 403
