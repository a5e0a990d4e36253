"""Questions to the lineage graph as the gateway makes them: users of the file, logins in the record."""

from __future__ import annotations

import base64

import aiohttp
import asyncpg
from prometheus_client import CollectorRegistry

from gateway.admin.listener import AdminServer
from gateway.app.lineage_admin import LineageAdmin
from gateway.database.migrate import migrate
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.lineage.store import store_lineage
from gateway.settings.listeners import LineageApiSettings
from gateway.settings.models import Settings
from tests.frontends.listening import Gateway
from tests.judge_world import World as JudgeWorld
from tests.lineage.statements import seen
from tests.session.fakes import World


async def test_users_of_the_file_are_told_what_policies_in_force_let_them_know_of(database: str) -> None:
    judged = JudgeWorld()
    world = World()
    stale: list[str] = []
    admin = LineageAdmin(
        LineageApiSettings(administrators=("alice",)),
        database,
        Gateway(world).authenticator,
        policies=lambda: judged.policies,
        stale=lambda: stale[0] if stale else None,
        catalog=world.catalog,
    )
    listener = AdminServer({}, CollectorRegistry(), mounted={"/lineage": admin.api.app})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}/lineage/upstream?column=open.x"
    async with aiohttp.ClientSession() as session:

        async def ask(user: str, password: str) -> tuple[int, int]:
            token = base64.b64encode(f"{user}:{password}".encode()).decode()
            async with session.get(url, headers={"Authorization": f"Basic {token}"}) as answer:
                return answer.status, len((await answer.json()).get("edges", ()))

        # The first question makes the tables, when nobody else has.
        assert await ask("alice", "wonder") == (404, 0)
        connection = await asyncpg.connect(database)
        assert await migrate(connection) == []
        await store_lineage(connection, [seen("hidden.s -> open.x: s IDENTITY")])
        await connection.close()
        assert await ask("alice", "wonder") == (200, 1)
        assert await ask("bob", "secret") == (404, 0)
        assert await ask("bob", "wrong") == (401, 0)
        stale.append("policies are too old")
        assert await ask("bob", "secret") == (503, 0)
        assert await ask("alice", "wonder") == (200, 1)
    logins = [e for e in world.ledger.events if e.kind == "login"]
    assert [(e.user, e.body["result"]) for e in logins] == [("alice", 1), ("bob", 1), ("bob", 0)]
    await listener.close()
    await admin.close()


def test_the_api_is_not_there_unless_it_is_asked_for() -> None:
    assert Settings().listeners.admin.lineage is None
