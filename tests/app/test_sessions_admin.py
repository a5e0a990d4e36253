"""Open sessions over REST: administrators list and end them, and nobody else does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from gateway.admin.listener import AdminServer
from gateway.app.administered_apis import make_sessions_api
from gateway.app.gateway_requests import GatewayRequests
from gateway.database import gateway_requests
from gateway.database.migrate import migrate
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.session.open_sessions import OpenSessions
from gateway.settings.listeners import SessionApiSettings
from tests.app.rest import Api
from tests.database.test_gateway_requests import answering
from tests.frontends.listening import Gateway
from tests.session.fakes import World
from tests.session.test_service import open_session
from tests.speed import patience


@pytest.fixture
async def api(database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """The API with `bob` as its administrator."""
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.close()
    monkeypatch.setattr(gateway_requests, "ANSWER_S", patience(15))
    logins = Gateway(World())
    made = make_sessions_api(SessionApiSettings(administrators=("bob",)), database, logins.authenticator)
    listener = AdminServer({}, CollectorRegistry(), mounted={"/sessions": made.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    async with aiohttp.ClientSession() as session:
        yield Api(session, f"http://127.0.0.1:{port}/sessions/")
    await listener.close()


async def test_they_are_listed_and_ended_in_a_gateway_that_runs(api: Api, database: str) -> None:
    assert (await api("GET"))[0] == 503, "no running gateway"
    world, every = World(), OpenSessions()
    every.add(world.sessions)
    await open_session(world)
    requests = GatewayRequests(every, users=None)  # type: ignore[arg-type]  # nobody asks for users
    async with answering(database, "gate-1", requests.answer):
        status, told = await api("GET")
        (one,) = told["sessions"]
        assert (status, one["user"], one["gateway"], told["messages"]) == (200, "bob", "gate-1", [])
        assert await api("DELETE", "?user=zoe") == (200, {"ended": 0, "messages": []})
        assert await api("DELETE", "?user=bob") == (200, {"ended": 1, "messages": []})
        assert (await api("GET"))[1]["sessions"] == []
    (event,) = world.ledger.of("session_ended")
    assert event.body["by"] == "bob"


async def test_a_gateway_of_another_version_says_that_it_cannot(api: Api, database: str) -> None:
    async def answer(_: Mapping[str, Any]) -> dict[str, Any]:
        return {"error": "unknown"}

    async with answering(database, "older", answer):
        assert await api("DELETE", "?user=zoe") == (200, {"ended": 0, "messages": ["older: unknown"]})


@pytest.mark.parametrize(
    ("method", "path", "user", "status"),
    [
        ("GET", "?user=zoe", "bob", 400),
        ("DELETE", "", "bob", 400),
        ("DELETE", "?user=", "bob", 400),
        ("DELETE", "?user=a&user=b", "bob", 400),
        ("DELETE", "?user=a%00", "bob", 400),
        ("DELETE", "?user=a&force=1", "bob", 400),
        ("POST", "", "bob", 405),
        ("GET", "zoe", "bob", 404),
        ("GET", "", "alice", 403),
        ("DELETE", "?user=bob", "alice", 403),
        ("GET", "", "nobody", 401),
    ],
)
async def test_what_makes_no_sense_and_who_may_not(
    api: Api, method: str, path: str, user: str, status: int
) -> None:
    found, told = await api(method, path, user=user)
    assert (found, bool(told["messages"][0])) == (status, True)


async def test_no_other_site(api: Api) -> None:
    assert (await api("DELETE", "?user=bob", Origin="http://elsewhere.example"))[0] == 403
