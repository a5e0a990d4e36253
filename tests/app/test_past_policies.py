"""Policies as they were, and as they would be: the same as if they had been, or were, in force."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.app.past_policies import PolicyVersions
from gateway.app.rules import PolicyRegistry
from gateway.database.migrate import LazyPool
from gateway.database.pack_versions import save_pack_version
from gateway.errors import Faults
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from gateway.policy.parts import Part
from gateway.policy.ranger import load
from gateway.settings.models import PolicySettings, RangerAdminSettings
from tests.app.readers import ReaderThatCounts
from tests.policy.scenarios import definitions

PACK = """\
service: spark
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
cases:
  - as: {user: bob, groups: [analysts]}
    on: {catalog: spark_catalog, database: hr, table: staff, column: name}
    expect: {effect: allow}
"""
BOB = Principal(user="bob", groups=frozenset({"analysts"}))
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def may(policies: PolicySet, database: str = "hr", catalog: str = "spark_catalog") -> bool:
    resource = Resource.table(catalog, database, "staff").child("column", "name")
    request = AccessRequest(principal=BOB, resource=resource, access="select")
    return engine_for(policies).decide(request).allowed


def policy(number: int, database: str, user: str = "bob", **more: Any) -> dict[str, Any]:
    return {
        "id": number,
        "guid": f"guid-{number}",
        "service": "lake",
        "name": f"p{number}",
        "policyType": 0,
        "version": 1,
        "isEnabled": True,
        "resources": {
            "catalog": {"values": ["lake"]},
            "database": {"values": [database]},
            "table": {"values": ["*"]},
            "column": {"values": ["*"]},
        },
        "policyItems": [{"users": [user], "accesses": [{"type": "select", "isAllowed": True}]}],
        **more,
    }


@dataclass
class World:
    directory: Path
    registry: PolicyRegistry
    pool: LazyPool
    versions: PolicyVersions

    async def keep(self, seen_at: datetime) -> None:
        texts = self.registry.texts
        assert texts is not None
        async with self.pool.acquire() as connection:
            await save_pack_version(connection, "g", texts.digest, texts.packs)
            await connection.execute(
                "UPDATE sluice.pack_version SET seen_at = $1 WHERE digest = $2", seen_at, texts.digest
            )

    async def change(self, before: dict[str, Any] | None, after: dict[str, Any] | None, at: datetime) -> None:
        one = after or before or {}
        async with self.pool.acquire() as connection:
            await connection.execute(
                "INSERT INTO sluice.ranger_history"
                " (time, who, action, kind, object_id, name, service, version, before, after)"
                " VALUES ($1, 'ann', 'update', 'policy', $2, $3, 'lake', 1, $4, $5)",
                at,
                one["id"],
                one["name"],
                None if before is None else json.dumps(before),
                None if after is None else json.dumps(after),
            )
            await connection.execute(
                "INSERT INTO sluice.ranger_object (kind, id, guid, name, service, version, body)"
                " VALUES ('policy', $1, $2, $3, 'lake', 1, '{}') ON CONFLICT DO NOTHING",
                one["id"],
                one["guid"],
                one["name"],
            )


@pytest.fixture
async def world(tmp_path: Path, database: str) -> AsyncIterator[World]:
    (tmp_path / "hr.yaml").write_text(PACK)
    entry = RangerAdminSettings.model_construct(service="lake", urls=("http://admin",))
    settings = PolicySettings(
        paths=(tmp_path,), catalogs={"spark_catalog": "spark", "lake": "lake"}, ranger=(entry,)
    )
    files_alone = settings.model_copy(update={"ranger": (), "catalogs": {"spark_catalog": "spark"}})
    registry = PolicyRegistry(files_alone, ReaderThatCounts())
    await registry.start()
    registry._settings = settings
    await put(registry, [policy(1, "sales"), policy(2, "hr", "ann")])
    pool = LazyPool(database, "test", most=2, timeout_s=30)
    yield World(tmp_path, registry, pool, PolicyVersions(registry, settings, pool, dict))
    pool.close()


async def put(registry: PolicyRegistry, policies: list[dict[str, Any]]) -> None:
    """Have the policies of the Ranger service in force."""
    document = {"serviceName": "lake", "serviceType": "spark", "policies": policies}
    found = load(document, service_defs={"spark": definitions()["spark"]})
    await registry.replace_part("lake", Part(name="lake", services=found.services))


async def test_packs_are_as_they_were_in_force_then(world: World) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await world.keep(yesterday)
    (world.directory / "hr.yaml").write_text(PACK.replace("analysts]", "others]").replace("allow}", "deny}"))
    assert await world.registry.reload_files()
    await world.keep(datetime.now(UTC))
    assert not may(world.registry.current)
    then = await world.versions.find_at(yesterday + timedelta(hours=1))
    assert may(then.policies)
    assert not may(world.registry.current)
    before = await world.versions.find_at(yesterday - timedelta(hours=1))
    assert not may(before.policies)
    assert any("packs are kept since" in note for note in before.notes)


async def test_of_the_own_api_what_changed_since_is_taken_back(world: World) -> None:
    now = datetime.now(UTC)
    old = policy(1, "finance")
    await world.change(old, policy(1, "markets"), now - timedelta(hours=3))
    await world.change(policy(1, "markets"), policy(1, "sales"), now - timedelta(hours=1))
    await world.change(None, policy(2, "hr", "ann"), now - timedelta(hours=2))
    await world.change(policy(9, "gone"), None, now - timedelta(hours=1))

    async def allowed(hours: float) -> set[str]:
        found = await world.versions.find_at(now - timedelta(hours=hours))
        names = ("finance", "markets", "sales", "gone")
        return {name for name in names if may(found.policies, name, "lake")}

    assert await allowed(4) == {"finance", "gone"}
    assert await allowed(2.5) == {"markets", "gone"}
    assert await allowed(0.5) == {"sales"}
    held = (await world.versions.find_at(now - timedelta(hours=2.5))).policies.services["lake"]
    assert [one.id for one in held.policies] == [1, 9]
    # Those in force are what they were.
    assert {one.id for one in world.registry.current.services["lake"].policies} == {1, 2}


async def test_another_admins_past_is_not_taken_for_ours(world: World) -> None:
    await world.change(policy(1, "finance"), policy(1, "sales"), datetime.now(UTC) - timedelta(hours=1))
    async with world.pool.acquire() as connection:
        await connection.execute("UPDATE sluice.ranger_object SET guid = 'another'")
    found = await world.versions.find_at(datetime.now(UTC) - timedelta(hours=2))
    assert may(found.policies, "sales", "lake")
    assert any("come from a Ranger Admin, which alone has their past" in note for note in found.notes)


async def test_a_pack_is_tried_and_not_in_force(world: World) -> None:
    tried = await world.versions.try_pack(
        str(world.directory / "hr.yaml"), PACK.replace("database: hr", "database: it")
    )
    assert may(tried.policies, "it")
    assert tried.failing == ()
    assert not may(world.registry.current, "it")
    failing = await world.versions.try_pack(
        str(world.directory / "hr.yaml"),
        PACK.replace("analysts]\n", "x]\n", 1).replace("allow: [{groups: [analysts]", "allow: [{groups: [x]"),
    )
    assert len(failing.failing) == 1
    assert "case fails" in failing.failing[0]
    for text in (
        PACK.replace("select", "selct"),
        "policies: [",
        PACK.replace("name: analysts read", "nmae: x"),
    ):
        with pytest.raises(Faults, match=r"hr.yaml:\d+"):
            await world.versions.try_pack(str(world.directory / "hr.yaml"), text)
    with pytest.raises(Faults, match="not one of the packs"):
        await world.versions.try_pack("/etc/passwd", PACK)


async def test_a_policy_is_tried_and_not_in_force(world: World) -> None:
    tried = await world.versions.try_policy("lake", policy(1, "finance"))
    assert may(tried.policies, "finance", "lake")
    assert not may(tried.policies, "sales", "lake")
    new = copy.deepcopy(policy(1, "finance"))
    del new["id"]
    added = await world.versions.try_policy("lake", new)
    assert may(added.policies, "sales", "lake")
    assert not may(world.registry.current, "finance", "lake")
    broken = policy(1, "finance")
    broken["policyItems"][0]["accesses"] = "select"
    with pytest.raises(Faults):
        await world.versions.try_policy("lake", broken)
    with pytest.raises(Faults, match="does not come from a Ranger Admin"):
        await world.versions.try_policy("spark", policy(1, "finance"))


async def test_too_much_to_read_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.app.past_policies.MAX_PACK_BYTES", 10)
    with pytest.raises(Faults, match="too much to be read for a page"):
        await world.versions.try_pack(str(world.directory / "hr.yaml"), PACK)
    monkeypatch.setattr("gateway.app.past_policies.MAX_CHANGES", 0)
    await world.change(policy(1, "finance"), policy(1, "sales"), datetime.now(UTC))
    with pytest.raises(Faults, match="more than 0 policies"):
        await world.versions.find_at(LONG_AGO)
