"""Handles of plans and of staged tables: every gateway of a fleet takes them, for what they are for."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway.reader.pool import ReaderPool
from gateway.rest.handles import MAX_HANDLE_AGE_S, SignedHandles
from tests.policy.restricted_tables import schema
from tests.rest.worlds import COLUMNS, PACK, Served, fault, loaded, serving, told

pytestmark = pytest.mark.asyncio(loop_scope="session")

TABLES = "/v1/lake/namespaces/shop/tables"
MEANING = ("plan", "bob", "lake", "shop", "t")
PLACE = "s3://lake/of/the/catalogs/choice"


async def key() -> bytes:
    return b"1" * 32


async def other_key() -> bytes:
    return b"2" * 32


@contextlib.asynccontextmanager
async def fleet(reader: ReaderPool, *, pack: str = PACK) -> AsyncIterator[tuple[Served, Served]]:
    """Two gateways before one catalog."""
    async with serving(reader, pack=pack) as one:
        other = Served(one.upstream, reader, pack=pack)
        try:
            yield one, other
        finally:
            await other.restrictions.aclose()


async def test_a_handle_is_of_what_it_was_given_for_and_ends() -> None:
    now = 1_000_000.0
    handles, others = (SignedHandles(one, clock=lambda: now) for one in (key, other_key))
    for text in ("", "p-1", "ü" * 100_000):
        handle = await handles.sign(MEANING, text)
        assert await SignedHandles(key, clock=lambda: now).read(MEANING, handle) == text
        assert await others.read(MEANING, handle) is None
        for at, _ in enumerate(MEANING):
            assert await handles.read((*MEANING[:at], "x", *MEANING[at + 1 :]), handle) is None
        # Parts do not run into each other.
        assert await handles.read(("planb", "ob", *MEANING[2:]), handle) is None
        assert await handles.read((*MEANING, ""), handle) is None
    handle = await handles.sign(MEANING, "p-1")
    sealed = base64.urlsafe_b64decode(handle + "=" * (-len(handle) % 4))
    for at in range(len(sealed)):
        forged = bytes([*sealed[:at], sealed[at] ^ 1, *sealed[at + 1 :]])
        assert await handles.read(MEANING, base64.urlsafe_b64encode(forged).decode().rstrip("=")) is None
    for odd in (
        "",
        "=",
        "p-1",
        "a",
        "A" * 10_000,
        "ü",
        "AAAA",
        handle + "\n",
        sealed[:20].hex(),
    ):
        assert await handles.read(MEANING, odd) is None
    now += MAX_HANDLE_AGE_S
    assert await handles.read(MEANING, handle) == "p-1"
    now += 1
    assert await handles.read(MEANING, handle) is None


async def plan_at(served: Served, user: str, table: str) -> tuple[str, str]:
    reply = await served.ask(user, f"{TABLES}/{table}/plan", method="POST", body={"select": ["id"]})
    assert reply.status == 200, reply
    return told(reply)["plan-id"], told(reply)["plan-tasks"][0]


async def fetch_at(served: Served, user: str, table: str, plan: str, task: str) -> list[int]:
    fetched = await served.ask(user, f"{TABLES}/{table}/plan/{plan}")
    tasks = await served.ask(user, f"{TABLES}/{table}/tasks", method="POST", body={"plan-task": task})
    return [fetched.status, tasks.status]


async def test_a_plan_goes_on_at_another_gateway(reader: ReaderPool) -> None:
    async with fleet(reader) as (one, other):
        one.upstream.replies["plan"] = {"status": "submitted", "plan-id": "p-1", "plan-tasks": ["t-1"]}
        plan, task = await plan_at(one, "bob", "plain")
        assert await fetch_at(other, "bob", "plain", plan, task) == [200, 200]
        assert one.upstream.asked[-1] == (
            "POST",
            "/v1/namespaces/shop/tables/plain/tasks",
            json.dumps({"plan-task": "t-1"}, separators=(",", ":")),
        )
        assert other.ledger.outcomes() == ["finished", "finished"]
        # A gateway of another fleet has another key.
        other.key = b"x" * 32
        assert await fetch_at(other, "bob", "plain", plan, task) == [404, 404]
        assert other.ledger.outcomes()[2:] == ["failed", "failed"]


async def test_a_plan_ends_with_what_was_decided_and_with_its_table(reader: ReaderPool) -> None:
    async with fleet(reader) as (one, other):
        one.upstream.replies["plan"] = {"status": "submitted", "plan-id": "p-1", "plan-tasks": ["t-1"]}
        plan, task = await plan_at(one, "engine", "both")
        assert await fetch_at(other, "engine", "both", plan, task) == [200, 200]
        # Another one has been made under its name since.
        kept = one.upstream.tables["shop", "both"]
        one.upstream.tables["shop", "both"] = loaded(COLUMNS, **{"table-uuid": "another"})
        assert await fetch_at(other, "engine", "both", plan, task) == [404, 404]
        one.upstream.tables["shop", "both"] = kept
        # What has to be enforced is something else now: files were chosen by the filter of then.
        other.policies = other.load(other.pack.replace("'EMEA'", "'AMER'"))
        assert await fetch_at(other, "engine", "both", plan, task) == [404, 404]
        asked = len(one.upstream.asked)
        # And nothing is asked of the catalog for who has no right any more.
        other.policies = other.load(
            other.pack.replace("groups: [analysts], access", "groups: [none], access")
        )
        assert await fetch_at(other, "engine", "both", plan, task) == [403, 403]
        assert {path for _, path, _ in one.upstream.asked[asked:]} == {"/v1/namespaces/shop/tables/both"}


async def test_without_the_key_nothing_is_taken(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        served.upstream.replies["plan"] = {"status": "submitted", "plan-id": "p-1", "plan-tasks": ["t-1"]}
        plan, task = await plan_at(served, "bob", "plain")
        served.key = None
        assert await fetch_at(served, "bob", "plain", plan, task) == [503, 503]
        assert served.ledger.outcomes()[-2:] == ["failed", "failed"]


STAGED = {
    "name": "new",
    "schema": schema(dict(COLUMNS), required=("id",)),
    "stage-create": True,
}


def committed(properties: Any, location: str = PLACE) -> dict[str, Any]:
    """What Iceberg's clients send to make a table that was staged."""
    return {
        "requirements": [{"type": "assert-create"}],
        "updates": [
            {"action": "assign-uuid", "uuid": "0e4b9b1c-53f5-4f3e-9d3f-5b4b6f0d8a11"},
            {"action": "add-schema", "schema": STAGED["schema"], "last-column-id": 4},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "set-location", "location": location},
            {"action": "set-properties", "updates": properties},
        ],
    }


MAKES = PACK.replace("access: [use, show, select]", "access: [use, show, select, create]").replace(
    "table: [plain,", "table: [other, plain,"
)


async def stage(served: Served, user: str = "bob") -> dict[str, str]:
    served.upstream.replies["tables"] = loaded(location=PLACE, properties={"meta.a": "b"})
    reply = await served.ask(user, TABLES, method="POST", body=STAGED)
    assert reply.status == 200, reply
    properties: dict[str, str] = told(reply)["metadata"]["properties"]
    return properties


async def test_a_staged_table_is_committed_at_another_gateway(reader: ReaderPool) -> None:
    async with fleet(reader, pack=MAKES) as (one, other):
        properties = await stage(one)
        assert properties.keys() == {"meta.a", "sluice.staged"}
        await one.ask("bob", TABLES, method="POST", body=STAGED)
        reply = await other.ask("bob", f"{TABLES}/new", method="POST", body=committed(properties))
        assert reply.status == 200, reply
        (event,) = other.ledger.of("decided")
        assert "LOCATION" not in event.body["reqData"]
        assert "sluice.staged" not in event.body["reqData"]
        passed = json.loads(one.upstream.sent("POST")[-1][1])
        assert passed["updates"][-1] == {"action": "set-properties", "updates": {"meta.a": "b"}}
        assert passed["updates"][3]["location"] == PLACE


@pytest.mark.parametrize(
    "way", ["another place", "another user", "another table", "forged", "none", "other key"]
)
async def test_a_place_is_of_one_table_and_who_staged_it(reader: ReaderPool, way: str) -> None:
    pack = MAKES.replace(
        "users: [root], access: [all, metadata]", "users: [root, eve], access: [all, metadata]"
    )
    async with fleet(reader, pack=pack) as (one, other):
        properties, user, table, place = await stage(one), "bob", "new", PLACE
        match way:
            case "another place":
                place = "s3://lake/of/others"
            case "another user":
                user = "eve"
            case "another table":
                table = "other"
            case "forged":
                properties["sluice.staged"] = properties["sluice.staged"][:-2] + "AA"
            case "none":
                del properties["sluice.staged"]
            case "other key":
                other.key = b"x" * 32
        sent = len(one.upstream.sent("POST"))
        body = committed(properties, place)
        reply = await other.ask(user, f"{TABLES}/{table}", method="POST", body=body)
        # It is a table at a place of the client's choice, and takes the right to that.
        assert reply.status == 403, reply
        assert place in fault(reply) or "location" in fault(reply).lower() or "url" in fault(reply).lower()
        assert len(one.upstream.sent("POST")) == sent


async def test_no_table_keeps_the_mark_of_a_staged_one(reader: ReaderPool) -> None:
    async with serving(reader) as served:
        updates = [{"action": "set-properties", "updates": {"sluice.staged": "x", "meta.b": "c"}}]
        body = {"requirements": [], "updates": updates}
        assert (await served.ask("root", f"{TABLES}/plain", method="POST", body=body)).status == 200
        passed = json.loads(served.upstream.sent("POST")[-1][1])
        assert passed["updates"] == [{"action": "set-properties", "updates": {"meta.b": "c"}}]
