"""Changes are whole or not at all, none is lost, and each leaves its history."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from gateway.admin.ranger.kinds import ChangedObject, Conflict, ObjectKind, What
from gateway.admin.ranger.store import Store
from tests.admin.conftest import Served, shipped, shipped_names
from tests.conftest import new_database

API = "/public/v2/api"


def policy(name: str, **more: Any) -> dict[str, Any]:
    return {
        "service": "dev_hive",
        "name": name,
        "resources": {"database": {"values": [name]}},
        "policyItems": [{"users": ["ann"], "accesses": [{"type": "create"}]}],
        **more,
    }


async def with_service(served: Served) -> None:
    status, body = await served.ask("POST", f"{API}/service", {"name": "dev_hive", "type": "hive"})
    assert status == 200, body


async def test_of_changes_to_one_version_one_is_taken_and_the_others_are_told(served: Served) -> None:
    await with_service(served)
    _, made = await served.ask("POST", f"{API}/policy", policy("shop"))
    answers = await asyncio.gather(
        *(
            served.ask("PUT", f"{API}/policy/{made['id']}", {**made, "description": f"by {number}"})
            for number in range(8)
        )
    )
    assert sorted(status for status, _ in answers) == [200, *[409] * 7]
    _, now = await served.ask("GET", f"{API}/policy/{made['id']}")
    assert [body for status, body in answers if status == 200] == [now]
    conflict = next(body for status, body in answers if status == 409)
    assert conflict["statusCode"] == 409
    assert "the stored version is 2" in conflict["msgDesc"]


async def test_whoever_reads_again_gets_every_change_in(served: Served) -> None:
    await with_service(served)
    _, made = await served.ask("POST", f"{API}/policy", policy("shop"))

    async def add(user: str) -> None:
        while True:
            _, now = await served.ask("GET", f"{API}/policy/{made['id']}")
            now["policyItems"][0]["users"].append(user)
            status, _ = await served.ask("PUT", f"{API}/policy/{made['id']}", now)
            if status == 200:
                return
            assert status == 409

    users = {f"user{number}" for number in range(6)}
    await asyncio.gather(*(add(user) for user in users))
    _, now = await served.ask("GET", f"{API}/policy/{made['id']}")
    assert set(now["policyItems"][0]["users"]) == users | {"ann"}
    assert now["version"] == 7


async def test_policies_made_at_once_have_ids_and_versions_of_their_own(served: Served) -> None:
    await with_service(served)
    answers = await asyncio.gather(
        *(served.ask("POST", f"{API}/policy", policy(f"db{number}")) for number in range(10))
    )
    assert {status for status, _ in answers} == {200}
    assert {body["id"] for _, body in answers} == set(range(1, 11))
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    assert service["policyVersion"] == 11


async def test_two_policies_for_the_same_resources_made_at_once_are_one(served: Served) -> None:
    await with_service(served)
    same = {"database": {"values": ["shop"]}}
    answers = await asyncio.gather(
        *(
            served.ask("POST", f"{API}/policy", policy(f"policy {number}", resources=same))
            for number in range(5)
        )
    )
    assert sorted(status for status, _ in answers) == [200, *[400] * 4]


async def test_a_change_that_is_cut_off_leaves_nothing(served: Served, database: str) -> None:
    await with_service(served)
    before = await everything(database)

    async def cut_off() -> None:
        async with served.store.writing("admin") as writing:
            await writing.create(ObjectKind.POLICY, policy("shop"))
            await writing.bump(What.POLICY, ["dev_hive"], ChangedObject.CREATED, policy("shop"))
            await kill_connections(database)
            await writing.create(ObjectKind.POLICY, policy("other"))

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await cut_off()
    assert await everything(database) == before
    # And the next one is served by a new connection.
    status, made = await served.ask("POST", f"{API}/policy", policy("shop"))
    assert (status, made["id"]) == (200, 1)


async def test_a_refused_change_leaves_nothing(served: Served, database: str) -> None:
    await with_service(served)
    await served.ask("POST", f"{API}/policy", policy("b"))
    before = await everything(database)

    async def give_up() -> None:
        async with served.store.writing("admin") as writing:
            for name in ("a", "c"):
                await writing.create(ObjectKind.POLICY, policy(name))
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        await give_up()
    assert await everything(database) == before


async def test_history_tells_who_changed_what_and_is_not_rewritten(served: Served, database: str) -> None:
    await with_service(served)
    _, made = await served.ask("POST", f"{API}/policy", policy("shop"))
    changed = {**made, "description": "second"}
    await served.ask("PUT", f"{API}/policy/{made['id']}", changed, user="gwen")
    await served.ask("DELETE", f"{API}/policy/{made['id']}")
    async with served.store.reading() as reading:
        past = await reading.history(ObjectKind.POLICY, made["id"])
    assert [(one.who, one.action, one.version) for one in past] == [
        ("admin", "create", 1),
        ("gwen", "update", 2),
        ("admin", "delete", 2),
    ]
    assert past[1].before == made
    assert past[1].after is not None
    assert past[1].after["description"] == "second"
    assert past[2].after is None
    status, old = await served.ask("GET", f"/plugins/policy/{made['id']}/version/1")
    assert (status, old) == (200, made)
    assert (await served.ask("GET", f"/plugins/policy/{made['id']}/versionList"))[1] == {"value": "1,2"}
    connection = await asyncpg.connect(database)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await connection.execute("UPDATE sluice.ranger_history SET who = 'nobody'")
    await connection.close()


async def test_an_older_version_is_a_conflict_and_none_is_not(database: str) -> None:
    store = Store(database, prepare=shipped)
    async with store.writing("admin") as writing:
        made = await writing.create(ObjectKind.ROLE, {"name": "clerks"})
        second = await writing.update(ObjectKind.ROLE, made, {"name": "clerks", "version": 1})
        with pytest.raises(Conflict):
            await writing.update(ObjectKind.ROLE, second, {"name": "clerks", "version": 1})
        assert (await writing.update(ObjectKind.ROLE, second, {"name": "clerks"}))["version"] == 3
    await store.close()


async def test_gateways_that_start_at_once_put_the_definitions_in_once(embedded_postgres: str) -> None:
    async with new_database(embedded_postgres) as empty:
        await start_at_once(empty)


async def start_at_once(dsn: str) -> None:
    stores = [Store(dsn, prepare=shipped) for _ in range(3)]

    async def names(store: Store) -> list[str]:
        async with store.reading() as reading:
            return sorted(one["name"] for one in await reading.all(ObjectKind.SERVICE_DEF))

    found = await asyncio.gather(*(names(store) for store in stores))
    assert found == [sorted(shipped_names())] * 3
    for store in stores:
        await store.close()


async def everything(dsn: str) -> list[list[Any]]:
    connection = await asyncpg.connect(dsn)
    tables = ("object", "counter", "history", "version", "change", "plugin")
    found = [await connection.fetch(f"SELECT * FROM sluice.ranger_{table} ORDER BY 1, 2") for table in tables]
    await connection.close()
    return found


async def kill_connections(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()


async def test_long_lists_come_whole(served: Served) -> None:
    await with_service(served)
    async with served.store.writing("admin") as writing:
        for number in range(600):
            await writing.create(ObjectKind.POLICY, policy(f"db{number}"))
    _, found = await served.ask("GET", f"{API}/policy?pageSize=1000")
    assert [one["name"] for one in found] == [f"db{number}" for number in range(600)]
    _, found = await served.ask("GET", "/plugins/policies?pageSize=1000&sortBy=policyId&sortType=desc")
    assert (found["totalCount"], found["policies"][0]["name"]) == (600, "db599")
