"""Rules of files and of Ranger Admins together: one set, each source in its last good state, none too old."""

from __future__ import annotations

import asyncio
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from gateway.app import collector_tuning
from gateway.app.collector_tuning import freeze_survivors, uncollected
from gateway.app.rules import PolicyRegistry
from gateway.app.state_metrics import StateCollector, source_gauges
from gateway.errors import Faults
from gateway.model.catalog import CatalogSnapshot
from gateway.model.policy import Role, UserStore
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.snapshot import Snapshot
from gateway.pipeline.policy_reading import unparsable
from gateway.policy.engine import engine_for
from gateway.policy.parts import Part, combine
from gateway.settings.models import PolicySettings, RangerAdminSettings
from gateway.sources.ranger_client import DownloadKind
from tests.app.readers import ReaderThatCounts
from tests.sources.fake_admin import (
    FakeAdmin,
    changed,
    policy,
    roles,
    row_filter,
    running,
    service_policies,
)

PACK = """\
service: spark
roles:
  clerks: {users: [cleo]}
policies:
  - name: analysts read
    on: {catalog: spark_catalog, database: hr, table: "*", column: "*"}
    allow: [{users: [ann], access: [select]}]
"""


@asynccontextmanager
async def rules_of(
    tmp_path: Path, *urls: str, pack: str = PACK, catalogs: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[tuple[PolicyRegistry, ReaderThatCounts]]:
    packs = tmp_path / "packs"
    packs.mkdir(exist_ok=True)
    (packs / "hr.yaml").write_text(pack)
    entries = tuple(RangerAdminSettings(service="dev_hive", urls=(url,), **more) for url in urls)
    spoken = {"spark_catalog": "spark", "hive": "dev_hive"} if catalogs is None else dict(catalogs)
    settings = PolicySettings(paths=(packs,), ranger=entries, catalogs=spoken)
    reader = ReaderThatCounts()
    async with PolicyRegistry(settings, reader) as rules:
        yield rules, reader


def admin_with(*policies: dict[str, Any], version: int = 17) -> FakeAdmin:
    return FakeAdmin(
        content={DownloadKind.POLICIES: service_policies(version, *policies), DownloadKind.ROLES: roles(4)}
    )


def may_read(rules: PolicyRegistry, user: str, catalog: str, database: str, table: str, column: str) -> bool:
    resource = Resource.table(catalog, database, table).child("column", column)
    request = AccessRequest(principal=Principal(user=user), resource=resource, access="select")
    return engine_for(rules.current).decide(request).allowed


async def look(rules: PolicyRegistry) -> bool:
    """Have the Admin asked now, whatever is due when."""
    (service,) = rules._services
    service._due = dict.fromkeys(service._due, float("-inf"))
    return await service.look()


async def test_files_and_admins_are_one_set_and_the_catalog_chooses(tmp_path: Path) -> None:
    async with running(admin_with(policy(1, "orders"))) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        assert rules.stale() is None
        assert may_read(rules, "ann", "spark_catalog", "hr", "employee", "name")
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
        assert not may_read(rules, "ann", "hive", "hr", "employee", "name")
        assert not may_read(rules, "ann", "spark_catalog", "shop", "orders", "id")
        assert not may_read(rules, "bob", "hive", "shop", "orders", "id")


async def test_the_record_tells_the_sources_own_versions(tmp_path: Path) -> None:
    """Two processes count their reloads each from one; what they loaded is told by its own numbers."""
    versions = []
    for _ in range(2):
        async with (
            running(admin_with(policy(1, "orders"))) as admin,
            rules_of(tmp_path, admin.url) as (rules, _reader),
        ):
            snapshot = Snapshot(
                policies=rules.current, catalog=CatalogSnapshot(version=5, catalogs=frozenset())
            )
            versions.append(snapshot.version)
    assert versions[0] == versions[1]
    count, files, *others = versions[0].split()
    assert count == "policies=2"
    assert files.startswith("files=")
    assert len(files) == len("files=") + 12
    assert others == ["dev_hive=17", "dev_hive.roles=4", "catalog=5"]
    async with running(FakeAdmin()) as empty, rules_of(tmp_path, empty.url, pack=PACK + "\n") as (rules, _):
        other = Snapshot(
            policies=rules.current, catalog=CatalogSnapshot(version=5, catalogs=frozenset())
        ).version.split()
        assert "dev_hive=none" in other
        assert other[1].startswith("files=")
        assert other[1] != files


async def test_a_change_of_one_source_leaves_the_other_as_it_is(tmp_path: Path) -> None:
    async with running(admin_with(policy(1, "orders"))) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        before = rules.current
        admin.content[DownloadKind.POLICIES] = service_policies(18, policy(1, "orders"), policy(2, "leads"))
        assert await look(rules)
        assert rules.current.version == before.version + 1
        assert rules.current.services["spark"] is before.services["spark"]
        assert may_read(rules, "ann", "hive", "shop", "leads", "id")

        admins = rules.current.services["dev_hive"]
        (tmp_path / "packs" / "hr.yaml").write_text(PACK.replace("ann", "bob"))
        assert await rules.reload_files()
        assert rules.current.services["dev_hive"] is admins
        assert may_read(rules, "bob", "spark_catalog", "hr", "employee", "name")


async def test_a_filter_that_spark_does_not_parse_closes_its_table_and_holds_no_revocation_back(
    tmp_path: Path,
) -> None:
    both = policy(1, "orders"), policy(3, "x")
    async with running(admin_with(*both)) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
        assert may_read(rules, "ann", "hive", "shop", "x", "id")
        admin.content[DownloadKind.POLICIES] = service_policies(
            18, policy(1, "leads"), policy(3, "x"), row_filter(2, "x", "broken x")
        )
        assert await look(rules)
        (state,) = (source for source in rules.sources() if source.name == "dev_hive")
        assert "not a Spark SQL expression: syntax error at 'broken'" in state.faults[0]
        assert state.version == 18
        assert not may_read(rules, "ann", "hive", "shop", "orders", "id")
        assert may_read(rules, "ann", "hive", "shop", "leads", "id")
        assert not may_read(rules, "ann", "hive", "shop", "x", "id")
        (tmp_path / "packs" / "hr.yaml").write_text(PACK.replace("ann", "bob"))
        assert await rules.reload_files()
        assert not may_read(rules, "ann", "hive", "shop", "x", "id")


DENIES = [{"accesses": [{"type": "select"}], "groups": ["public"]}]
BROKEN = {
    "unknown access type": {"denyPolicyItems": [{"accesses": [{"type": "selct"}], "users": ["ann"]}]},
    "a script that is none": {
        "denyPolicyItems": DENIES,
        "conditions": [{"type": "_expression", "values": ["USER."]}],
    },
    "no list": {"denyPolicyItems": DENIES, "denyExceptions": 7},
    "an unknown priority": {"denyPolicyItems": DENIES, "policyPriority": 5},
    "an unknown type": {"policyType": 7},
    "a level more": {
        "denyPolicyItems": DENIES,
        "resources": {
            "database": {"values": ["shop"]},
            "table": {"values": ["x"]},
            "colunm": {"values": ["*"]},
        },
    },
    "a level that is none": {
        "denyPolicyItems": DENIES,
        "resources": {"table": {"values": ["x"]}, "column": 5},
    },
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
async def test_a_policy_at_fault_closes_what_it_is_about_and_holds_no_revocation_back(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    every = policy(1, "orders"), policy(3, "x"), policy(4, "leads")
    async with running(admin_with(*every)) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        bad = {**policy(9, "x"), "policyItems": [], **fields}
        admin.content[DownloadKind.POLICIES] = service_policies(18, policy(3, "x"), policy(4, "leads"), bad)
        assert await look(rules)
        assert not may_read(rules, "ann", "hive", "shop", "orders", "id"), "what was taken away is gone"
        assert not may_read(rules, "ann", "hive", "shop", "x", "id")
        assert may_read(rules, "ann", "hive", "shop", "leads", "id"), "nothing else is closed"
        (state,) = (source for source in rules.sources() if source.name == "dev_hive")
        assert [(one.id, one.service) for one in state.closed] == [(9, "dev_hive")]
        assert state.version == 18
        # It stays so, and later changes come into force.
        admin.content[DownloadKind.POLICIES] = service_policies(19, policy(3, "x"), bad)
        assert await look(rules)
        assert not may_read(rules, "ann", "hive", "shop", "leads", "id")
        assert not may_read(rules, "ann", "hive", "shop", "x", "id")
        admin.content[DownloadKind.POLICIES] = service_policies(20, policy(3, "x"))
        assert await look(rules)
        assert may_read(rules, "ann", "hive", "shop", "x", "id")


async def test_a_policy_at_fault_that_names_nothing_that_there_is_closes_its_service(tmp_path: Path) -> None:
    async with running(admin_with(policy(1, "orders"))) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        bad = {**policy(9, "x"), "policyItems": [], "denyPolicyItems": DENIES}
        bad["resources"] = {"tabel": {"values": ["orders"]}}
        admin.content[DownloadKind.POLICIES] = service_policies(18, policy(1, "orders"), bad)
        assert await look(rules)
        assert not may_read(rules, "ann", "hive", "shop", "orders", "id")
        assert may_read(rules, "ann", "spark_catalog", "hr", "employee", "name"), "and no other service"


async def test_only_texts_not_seen_before_are_read(tmp_path: Path) -> None:
    filters = [row_filter(n, f"t{n}", f"a = {n}") for n in range(1, 6)]
    async with running(admin_with(*filters)) as admin, rules_of(tmp_path, admin.url) as (rules, reader):
        assert sorted(reader.asked) == [f"a = {n}" for n in range(1, 6)]
        reader.asked.clear()
        admin.deltas[(DownloadKind.POLICIES, 17)] = changed(18, (0, row_filter(6, "t6", "a = 6")))
        admin.content[DownloadKind.POLICIES]["policyVersion"] = 18
        assert await look(rules)
        assert reader.asked == ["a = 6"]
        admin.content[DownloadKind.POLICIES] = service_policies(19, *filters, row_filter(7, "t7", "a = 1"))
        admin.content[DownloadKind.POLICIES]["policies"][0]["name"] = "another name"
        assert await look(rules)
        assert reader.asked == ["a = 6"]


@pytest.mark.parametrize(("text", "good"), [("1", False), ("a + 1", False), ("true", True), ("a = 1", True)])
async def test_a_filter_that_is_never_a_truth_is_a_fault(tmp_path: Path, text: str, good: bool) -> None:
    async with (
        running(admin_with(row_filter(1, "orders", text))) as admin,
        rules_of(tmp_path, admin.url) as (rules, reader),
    ):
        assert rules.stale() is None
        faults = rules.sources()[-1].faults
        assert good is not any("not a boolean expression" in fault for fault in faults)
        assert await unparsable(rules.current, reader) == []


async def test_a_gateway_starts_without_its_admin_and_refuses_until_it_is_there(tmp_path: Path) -> None:
    async with running(admin_with(policy(1, "orders"))) as admin:
        await admin.kill()
        async with rules_of(tmp_path, admin.url) as (rules, _):
            assert rules.stale() == (
                "roles and policies and sharing of service `dev_hive` have never been loaded "
                "from a Ranger Admin"
            )
            assert not may_read(rules, "ann", "hive", "shop", "orders", "id")
            assert may_read(rules, "ann", "spark_catalog", "hr", "employee", "name")


async def test_a_service_that_speaks_for_no_catalog_makes_nothing_stale(tmp_path: Path) -> None:
    async with running(FakeAdmin()) as admin:
        await admin.kill()
        async with rules_of(tmp_path, admin.url, catalogs={"spark_catalog": "spark"}) as (rules, _):
            assert rules.stale() is None
            assert rules.sources()[-1].stale is not None


async def test_a_restart_uses_the_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    async with running(admin_with(policy(1, "orders"))) as admin:
        async with rules_of(tmp_path, admin.url, cache=cache):
            pass
        await admin.kill()
        async with rules_of(tmp_path, admin.url, cache=cache) as (rules, _):
            assert rules.stale() is None
            assert may_read(rules, "ann", "hive", "shop", "orders", "id")


async def test_a_service_that_is_gone_allows_nothing(tmp_path: Path) -> None:
    async with running(admin_with(policy(1, "orders"))) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        del admin.content[DownloadKind.POLICIES]
        assert await look(rules)
        assert not may_read(rules, "ann", "hive", "shop", "orders", "id")
        assert rules.sources()[-1].faults


async def test_a_service_has_one_source(tmp_path: Path) -> None:
    """Told before anything is asked, and for every two kinds of sources."""
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "hive.json").write_bytes(orjson.dumps(service_policies(1, policy(1, "orders"))))
    with pytest.raises(Faults, match="`dev_hive` is defined by Ranger's files and by a Ranger Admin"):
        async with rules_of(tmp_path, "http://127.0.0.1:9"):
            pass
    named = service_policies(1, policy(1, "orders"), serviceName="spark")
    (tmp_path / "packs" / "hive.json").write_bytes(orjson.dumps(named))
    with pytest.raises(Faults, match="`spark` is defined by packs and by Ranger's files"):
        async with rules_of(tmp_path, catalogs={}):
            pass


async def test_rangers_files_lie_beside_packs(tmp_path: Path) -> None:
    (tmp_path / "packs").mkdir()
    (tmp_path / "packs" / "hive.json").write_bytes(orjson.dumps(service_policies(1, policy(1, "orders"))))
    async with rules_of(tmp_path) as (rules, _):
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
        assert may_read(rules, "ann", "spark_catalog", "hr", "employee", "name")
        (tmp_path / "packs" / "hive.json").write_bytes(b'{"serviceName": "dev_hive", "policies": [')
        assert not await rules.reload_files()
        assert "hive.json:1:" in rules.faults[0]
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")


async def test_a_catalog_needs_a_service_that_there_is(tmp_path: Path) -> None:
    with pytest.raises(Faults, match=r"service `dev_hvie` does not exist \(did you mean `dev_hive`\?\)"):
        async with rules_of(tmp_path, "http://127.0.0.1:9", catalogs={"hive": "dev_hvie"}):
            pass


async def test_a_role_has_one_source(tmp_path: Path) -> None:
    admin = admin_with(policy(1, "orders"))
    admin.content[DownloadKind.ROLES] = roles(4, clerks="mallory")
    async with running(admin), rules_of(tmp_path, admin.url) as (rules, _):
        assert not rules.current.roles, "nobody can tell who is in it"
        (fault,) = [fault for source in rules.sources() for fault in source.faults]
        assert "role `clerks` is defined differently by" in fault
        assert may_read(rules, "ann", "hive", "shop", "orders", "id"), "and nothing else is held back"


def test_services_of_one_admin_tell_the_same_roles_and_users() -> None:
    old, new = (Role(name="r", users=frozenset({user})) for user in ("old", "new"))
    store = UserStore(users={"ann": {"dept": "hr"}})
    one = Part(name="a", services={}, roles=(old,), users=store, realm="https://ranger")
    other = Part(
        name="b", services={}, roles=(new,), users=UserStore(users={"ann": {}}), realm="https://ranger"
    )
    both = combine((one, other), 1, {})
    assert both.roles == (new,)
    assert both.users.users == {"ann": {}}
    stranger = Part(name="c", services={}, users=UserStore(users={"ann": {"dept": "it"}, "bob": {}}))
    with pytest.raises(Faults, match="attributes of user `ann` come from c"):
        combine((one, stranger), 1, {})
    friend = Part(
        name="d",
        services={},
        users=UserStore(users={"bob": {}}, memberships={"bob": frozenset({"g"})}, adds_groups=True),
    )
    joined = combine((one, friend), 1, {}).users
    assert (joined.users, joined.memberships) == (
        {"ann": {"dept": "hr"}, "bob": {}},
        {"bob": frozenset({"g"})},
    )
    assert joined.adds_groups


def test_a_role_that_the_freshest_source_does_not_tell_is_no_more() -> None:
    kept, gone = Role(name="kept"), Role(name="gone", users=frozenset({"ann"}))
    stale = Part(name="a", services={}, roles=(kept, gone), realm="https://ranger")
    fresh = Part(name="b", services={}, roles=(kept,), realm="https://ranger")
    other = Part(name="c", services={}, roles=(Role(name="own"),))
    assert combine((stale, other, fresh), 1, {}).roles == (Role(name="own"), kept)


async def test_metrics_tell_every_source(tmp_path: Path) -> None:
    async with running(admin_with(policy(1, "orders"))) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        registry = CollectorRegistry()
        registry.register(StateCollector(lambda: source_gauges(rules.sources())))
        page = generate_latest(registry).decode()
    assert 'sluice_policy_source_version{source="dev_hive"} 17.0' in page
    assert 'sluice_policy_source_policies{source="files"} 1.0' in page
    assert 'sluice_policy_source_stale{source="dev_hive"} 0.0' in page
    assert 'sluice_policy_source_faults{source="dev_hive"} 0.0' in page
    assert 'sluice_policy_source_contact_age_seconds{source="dev_hive"}' in page
    assert 'version{source="files"}' not in page


def test_the_collector_rests_while_much_is_made_and_what_was_made_is_set_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector_tuning, "MANY", 1000)
    frozen, before = gc.get_freeze_count(), sys.getswitchinterval()
    try:
        with uncollected():
            assert not gc.isenabled()
            assert sys.getswitchinterval() == pytest.approx(0.001)
            with uncollected():
                kept = [[n] for n in range(5000)]
            assert not gc.isenabled()
        assert gc.isenabled()
        assert sys.getswitchinterval() == pytest.approx(before)
        assert gc.get_freeze_count() > frozen
        gc.unfreeze()
        with uncollected():
            few = [[n] for n in range(10)]
        assert gc.get_freeze_count() == 0
        with uncollected():
            few.append([0])
            freeze_survivors()
        assert gc.get_freeze_count() > 0
        gc.unfreeze()
        freeze_survivors()  # outside, it means nothing
        with uncollected():
            few.append([0])
        assert gc.get_freeze_count() == 0
        assert len(kept) + len(few) == 5012
    finally:
        gc.unfreeze()


async def test_a_set_that_was_replaced_is_freed_without_the_collector(tmp_path: Path) -> None:
    """What was set aside is never visited again: a cycle in it would be there for ever."""
    # A worker that has answered lets go of what it was given a moment later, before it takes other work. With
    # one worker, that moment is over when it has done something else.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(max_workers=1))
    async with running(admin_with(policy(1, "orders"))) as admin, rules_of(tmp_path, admin.url) as (rules, _):
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
        dropped = weakref.ref(rules.current)
        engine = weakref.ref(engine_for(rules.current))
        gc.disable()
        try:
            admin.content[DownloadKind.POLICIES] = service_policies(18, policy(2, "leads"))
            assert await look(rules)
            await asyncio.to_thread(int)
            assert dropped() is None
            assert engine() is None
        finally:
            gc.enable()


async def test_a_changed_user_store_counts_from_the_next_statement_on(tmp_path: Path) -> None:
    """Attributes are no part of a login: sessions that are open have the newest, and lose what is gone."""
    asking = policy(1, "orders", conditions=[{"type": "expression", "values": ["USER.dept == 'hr'"]}])
    told = service_policies(17, asking)
    told["serviceDef"]["policyConditions"] = [
        {
            "itemId": 1,
            "name": "expression",
            "evaluator": "org.apache.ranger.plugin.conditionevaluator.RangerScriptConditionEvaluator",
        }
    ]
    admin = FakeAdmin(content={DownloadKind.POLICIES: told, DownloadKind.ROLES: roles(4)})
    stores: list[dict[str, dict[str, str]]] = [{"ann": {"dept": "hr"}}, {"ann": {"dept": "it"}}, {}]
    admin.content[DownloadKind.USERS] = {"userStoreVersion": 1, "userAttrMapping": stores[0]}
    async with running(admin), rules_of(tmp_path, admin.url) as (rules, _):
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
        for version, store in enumerate(stores[1:], 2):
            before = rules.current.version
            admin.content[DownloadKind.USERS] = {"userStoreVersion": version, "userAttrMapping": store}
            assert await look(rules)
            assert rules.current.version > before, "verdicts that were kept do not count any more"
            assert not may_read(rules, "ann", "hive", "shop", "orders", "id")
        admin.content[DownloadKind.USERS] = {"userStoreVersion": 4, "userAttrMapping": stores[0]}
        assert await look(rules)
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
        # An Admin that is away takes nothing away; what it has told ages with `max_stale_s`.
        admin.next(DownloadKind.USERS, web.Response(status=500))
        await look(rules)
        assert may_read(rules, "ann", "hive", "shop", "orders", "id")
