"""A service follows its Admin, keeps what was good, and says when that has become too old."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web

from gateway.sources.cache import Cache
from gateway.sources.ranger_client import DownloadKind
from tests.sources.fake_admin import (
    SERVICE,
    Bench,
    Clocks,
    FakeAdmin,
    bench,
    changed,
    policy,
    roles,
    running,
    service_policies,
    tag_policies,
)
from tests.speed import patience

DAY = 86_400.0


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def admin_with(*tables: str, version: int = 7) -> FakeAdmin:
    policies = [policy(n, table) for n, table in enumerate(tables, 1)]
    return FakeAdmin(
        content={
            DownloadKind.POLICIES: service_policies(version, *policies),
            DownloadKind.ROLES: roles(3, clerks="ann"),
            DownloadKind.USERS: {"userStoreVersion": 9, "userAttrMapping": {"ann": {"dept": "hr"}}},
        }
    )


# -- what is asked, and when ---------------------------------------------------------------------------------


async def test_the_first_look_takes_everything_at_once_roles_before_policies() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        assert one.service.stale() == (
            "roles and policies of service `dev_hive` have never been loaded from a Ranger Admin"
        )
        await one.service.start()
        assert [asked.kind for asked in admin.asked] == [
            DownloadKind.ROLES,
            DownloadKind.POLICIES,
            DownloadKind.USERS,
        ]
        assert one.service.stale() is None
        assert one.service.contact_age_s == 0
        assert one.tables == {"orders"}
        (held,) = one.taker.taken
        assert [role.name for role in held.roles] == ["clerks"]
        assert held.users is not None
        assert held.users.users["ann"] == {"dept": "hr"}
        assert held.versions == {DownloadKind.ROLES: 3, DownloadKind.POLICIES: 7, DownloadKind.USERS: 9}
        assert held.service.version == 7


async def test_later_looks_tell_what_is_known_and_take_nothing_that_is_not_newer() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        assert not await one.later(30)
        asked = admin.questions(DownloadKind.POLICIES)[-1]
        assert asked.query["lastKnownVersion"] == "7"
        assert asked.query["supportsPolicyDeltas"] == "true"
        assert int(asked.query["lastActivationTime"]) == round((one.clocks.wall - 30) * 1000)
        assert admin.questions(DownloadKind.ROLES)[-1].query["lastKnownRoleVersion"] == "3"
        assert len(admin.questions(DownloadKind.USERS)) == 1  # not due for an hour
        assert len(one.taker.taken) == 1
        assert one.service.contact_age_s == 0


async def test_nothing_is_asked_before_it_is_due() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        before = len(admin.asked)
        assert 26 < one.service.next_s() <= 30
        await one.later(20)
        assert len(admin.asked) == before


async def test_a_newer_version_is_in_force_at_the_next_look() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        admin.content[DownloadKind.POLICIES] = service_policies(8, policy(1, "orders"), policy(2, "leads"))
        assert await one.later(30)
        assert one.tables == {"orders", "leads"}


async def test_an_admin_that_went_back_is_followed() -> None:
    """Restored from a backup: what it has is what holds."""
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        admin.content[DownloadKind.POLICIES] = service_policies(2, policy(1, "leads"))
        assert await one.later(30)
        assert one.tables == {"leads"}
        await one.later(30)
        assert admin.questions(DownloadKind.POLICIES)[-1].query["lastKnownVersion"] == "2"


async def test_the_same_answer_again_is_nothing_new() -> None:
    """Some servers never say 304."""
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        body = orjson.dumps(admin.content[DownloadKind.POLICIES])
        admin.next(DownloadKind.POLICIES, web.Response(body=body))
        assert not await one.later(30)
        assert len(one.taker.taken) == 1
        assert one.service.contact_age_s == 0


async def test_204_is_as_good_as_304() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        admin.next(DownloadKind.POLICIES, web.Response(status=204))
        assert not await one.later(30)
        assert one.service.contact_age_s == 0
        assert one.service.troubles == ()


async def test_roles_alone_may_change() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        before = one.service.held.service.policies
        admin.content[DownloadKind.ROLES] = roles(4, clerks="bob")
        assert await one.later(30)
        assert one.service.held.roles[0].users == {"bob"}
        assert one.service.held.service.policies[0] is before[0]  # not converted a second time


async def test_an_admin_without_roles_and_users_has_none() -> None:
    """Older Admins have no such downloads."""
    admin = admin_with("orders")
    del admin.content[DownloadKind.ROLES], admin.content[DownloadKind.USERS]
    async with running(admin), bench(admin.url) as one:
        await one.service.start()
        assert one.service.stale() is None
        assert one.service.held.roles == ()
        await one.later(30)
        assert one.service.stale() is None


@pytest.mark.parametrize("status", [204, 304])
async def test_nothing_newer_than_nothing_does_not_mean_that_there_is_none(status: int) -> None:
    """A denial for a role would be lost: there are roles, and an Admin that is busy does not send them."""
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        for kind in (DownloadKind.ROLES, DownloadKind.USERS):
            admin.next(kind, web.Response(status=status))
        admin.content[DownloadKind.ROLES] = roles(3, clerks="bob")
        await one.service.start()
        assert one.tables == {"orders"}
        assert one.service.stale() == (
            "roles of service `dev_hive` have never been loaded from a Ranger Admin"
        )
        assert any(
            "304 (not modified) without an earlier download" in trouble for trouble in one.service.troubles
        )
        assert await one.later(30)
        assert [asked.query["lastKnownRoleVersion"] for asked in admin.questions(DownloadKind.ROLES)] == [
            "-1",
            "-1",
        ]
        assert one.service.held.roles[0].users == {"bob"}
        assert one.service.stale() is None


async def test_what_is_switched_off_is_never_asked() -> None:
    admin = admin_with("orders")
    admin.content[DownloadKind.POLICIES]["tagPolicies"] = tag_policies()
    async with running(admin), bench(admin.url, tags_s=None, users_s=None) as one:
        await one.service.start()
        assert {asked.kind for asked in admin.asked} == {DownloadKind.ROLES, DownloadKind.POLICIES}
        assert one.service.stale() is None


# -- deltas --------------------------------------------------------------------------------------------------


async def test_changes_alone_make_the_same_as_a_whole_download() -> None:
    async with running(admin_with("orders", "leads", "old")) as admin, bench(admin.url) as one:
        await one.service.start()
        kept = one.service.held.service.policies[0]
        admin.deltas[(DownloadKind.POLICIES, 7)] = changed(
            8,
            (0, policy(4, "new")),
            (1, policy(2, "leads2", version=2)),
            (2, {"id": 3, "policyType": 0}),
        )
        admin.content[DownloadKind.POLICIES]["policyVersion"] = 8
        assert await one.later(30)
        assert one.tables == {"orders", "leads2", "new"}
        assert one.service.held.service.policies[0] is kept
        assert one.service.held.service.version == 8
        await one.later(30)
        assert admin.questions(DownloadKind.POLICIES)[-1].query["lastKnownVersion"] == "8"


async def test_nonsense_in_a_change_is_followed_by_a_whole_download() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        admin.deltas[(DownloadKind.POLICIES, 7)] = changed(8, (5, {"id": 1}))
        admin.content[DownloadKind.POLICIES] = service_policies(8, policy(1, "leads"))
        assert not await one.later(30)
        assert one.tables == {"orders"}
        assert one.service.troubles
        assert await one.later(2)
        asked = admin.questions(DownloadKind.POLICIES)[-1]
        assert (asked.query["lastKnownVersion"], asked.query["supportsPolicyDeltas"]) == ("-1", "false")
        assert one.tables == {"leads"}
        assert one.service.troubles == ()


async def test_changes_are_not_asked_for_when_they_are_switched_off() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url, deltas=False) as one:
        await one.service.start()
        await one.later(30)
        assert {asked.query["supportsPolicyDeltas"] for asked in admin.questions(DownloadKind.POLICIES)} == {
            "false"
        }


# -- tags ----------------------------------------------------------------------------------------------------

TAGGED = {
    "op": "replace",
    "serviceName": SERVICE,
    "tagVersion": 5,
    "tagDefinitions": {"1": {"id": 1, "name": "PII"}},
    "tags": {"1": {"id": 1, "type": "PII"}},
    "serviceResources": [{"id": 1, "resourceElements": {"database": {"values": ["shop"]}}}],
    "resourceToTagIds": {"1": [1]},
}


async def test_tags_are_asked_for_once_there_are_policies_on_them() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        assert admin.questions(DownloadKind.TAGS) == []
        admin.content[DownloadKind.TAGS] = TAGGED
        admin.content[DownloadKind.POLICIES] = service_policies(
            8, policy(1, "orders"), tagPolicies=tag_policies()
        )
        assert await one.later(30)
        assert len(admin.questions(DownloadKind.TAGS)) == 1
        (tagged,) = one.service.held.service.tagged
        assert tagged.tags[0].type == "PII"
        assert one.service.held.versions[DownloadKind.TAGS] == 5
        assert len(one.taker.taken) == 2  # policies and tags in one swap


async def test_policies_on_tags_do_not_hold_without_the_tags() -> None:
    """A denial on a tag that nobody carries yet would let through what it is there to stop."""
    admin = admin_with("orders")
    admin.content[DownloadKind.POLICIES]["tagPolicies"] = tag_policies()
    async with running(admin), bench(admin.url) as one:
        await one.service.start()
        assert one.service.stale() == "tags of service `dev_hive` have never been loaded from a Ranger Admin"
        assert "has no tags (404)" in one.service.troubles[0]
        admin.content[DownloadKind.TAGS] = TAGGED
        await one.later(2)
        assert one.service.stale() is None


async def test_tags_that_are_gone_are_kept() -> None:
    admin = admin_with("orders")
    admin.content[DownloadKind.POLICIES]["tagPolicies"] = tag_policies()
    admin.content[DownloadKind.TAGS] = TAGGED
    async with running(admin), bench(admin.url) as one:
        await one.service.start()
        del admin.content[DownloadKind.TAGS]
        await one.later(60)
        assert one.service.held.service.tagged
        assert "no longer has them (404)" in one.service.troubles[0]


# -- what is wrong stays out ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b'{"serviceName": "dev_hive", "policies": [', "not JSON"),
        (b"<html>login</html>", "dev_hive (policies):1: not JSON"),
        (b"[]", "is not a JSON object"),
        (b'{"policies": []}', "the response is for service `None`"),
        (b'{"serviceName": "prod_hive", "policyVersion": 8, "policies": []}', "for service `prod_hive`"),
        (b'{"serviceName": "dev_hive", "policyVersion": "8"}', "`policyVersion` is not a whole number"),
        (b'{"serviceName": "dev_hive", "policyVersion": 8, "policies": {}}', "policies"),
    ],
    ids=["half", "html", "list", "nameless", "foreign", "version", "shape"],
)
async def test_an_answer_that_is_none_changes_nothing(body: bytes, fault: str) -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        admin.next(DownloadKind.POLICIES, web.Response(body=body))
        assert not await one.later(30)
        assert one.tables == {"orders"}
        assert fault in one.service.troubles[0]
        assert one.service.contact_age_s == 30
        assert await one.later(2) is False  # asked again at once, and all is well
        assert one.service.troubles == ()


async def test_policies_with_faults_change_nothing_and_confirm_nothing() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        admin.content[DownloadKind.POLICIES] = service_policies(
            8, policy(2, "orders"), serviceTags={"op": "delete"}
        )
        assert not await one.later(30)
        assert one.tables == {"orders"}
        assert "is a deletion" in one.service.troubles[0]
        await one.later(DAY)
        assert "the limit is 86400" in str(one.service.stale())


async def test_a_policy_with_faults_is_taken_as_a_broken_one_with_all_the_rest() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        bad = policy(1, "leads", denyPolicyItems=[{"accesses": [{"type": "selct"}], "users": ["ann"]}])
        admin.content[DownloadKind.POLICIES] = service_policies(8, bad, policy(2, "carts"))
        assert await one.later(30)
        assert one.tables == {"leads", "carts"}
        assert one.service.troubles == ()
        broken, whole = one.service.held.service.policies
        assert (broken.enabled, broken.deny, whole.broken) == (True, (), ())
        assert "unknown access type `selct`" in broken.broken[0]


async def test_an_access_type_that_nobody_knows_keeps_no_policies_from_being_taken() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        newer = policy(1, "leads", policyItems=[{"accesses": [{"type": "selct"}], "users": ["ann"]}])
        admin.content[DownloadKind.POLICIES] = service_policies(8, newer, policy(2, "orders"))
        assert await one.later(30)
        assert one.tables == {"leads", "orders"}
        assert one.service.troubles == ()


async def test_what_is_not_taken_is_offered_again_and_then_in_force() -> None:
    """The reason may lie elsewhere: a parser that is down, a file that defines the same service."""
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        one.taker.refuse = ("no parser",)
        await one.service.start()
        assert one.service.troubles == ("no parser",)
        assert one.service.held.versions == {DownloadKind.ROLES: 3, DownloadKind.USERS: 9}
        assert "policies of service" in str(one.service.stale())
        one.taker.refuse = ()
        assert await one.later(2)
        assert one.tables == {"orders"}
        assert [q.query["lastKnownRoleVersion"] for q in admin.questions(DownloadKind.ROLES)] == ["-1", "3"]


async def test_bad_tags_do_not_hold_back_good_policies() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        admin.content[DownloadKind.POLICIES]["tagPolicies"] = tag_policies()
        admin.content[DownloadKind.TAGS] = TAGGED
        await one.service.start()
        admin.content[DownloadKind.POLICIES] = service_policies(
            8, policy(1, "leads"), tagPolicies=tag_policies()
        )
        admin.content[DownloadKind.TAGS] = {
            **TAGGED,
            "tagVersion": 6,
            "op": "delete",
        }
        assert await one.later(61)
        assert one.tables == {"leads"}
        assert one.service.held.service.tagged
        assert one.service.troubles


async def test_a_bug_met_on_the_way_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:

        def breaks(*_: object) -> None:
            raise AttributeError("never thought of")

        monkeypatch.setattr("gateway.sources.ranger_service.read_answer", breaks)
        await one.service.start()
        assert "loading it failed" in one.service.troubles[0]
        monkeypatch.undo()
        assert await one.later(2)


# -- away, gone, stale ---------------------------------------------------------------------------------------


async def test_an_admin_that_dies_is_lived_without_until_the_limit() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url, max_stale_s=DAY) as one:
        await one.service.start()
        await admin.kill()
        assert not await one.later(DAY)
        assert one.tables == {"orders"}
        assert one.service.stale() is None
        assert "cannot be reached" in one.service.troubles[0]
        one.clocks.pass_(1)
        assert one.service.stale() == (
            "the policies of service `dev_hive` were last confirmed by a Ranger Admin 86401 seconds ago; "
            "the limit is 86400"
        )


async def test_waits_grow_while_it_is_away() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        await admin.kill()
        waits = []
        for _ in range(9):
            await one.later(max(0.0, one.service.next_s()))
            waits.append(one.service.next_s())
        assert waits[0] <= 1
        assert 60 <= waits[-1] <= 120


async def test_a_single_kind_that_fails_holds_up_no_other_but_ages_the_service() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        for _ in range(2):
            admin.next(DownloadKind.ROLES, web.Response(status=500))
        admin.content[DownloadKind.POLICIES] = service_policies(8, policy(1, "leads"))
        assert await one.later(30)
        assert one.tables == {"leads"}
        assert one.service.contact_age_s == 30


async def test_users_age_the_service_only_where_policies_ask_for_attributes() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url, max_stale_s=7200, users_s=10) as one:
        await one.service.start()
        for _ in range(3):
            admin.next(DownloadKind.USERS, web.Response(status=500))
        await one.later(7201)
        assert one.service.stale() is None
        asking = policy(1, "orders", conditions=[{"type": "expression", "values": ["USER.dept == 'hr'"]}])
        told = service_policies(8, asking)
        told["serviceDef"]["policyConditions"] = [
            {
                "itemId": 1,
                "name": "expression",
                "evaluator": "org.apache.ranger.plugin.conditionevaluator.RangerScriptConditionEvaluator",
            }
        ]
        admin.content[DownloadKind.POLICIES] = told
        await one.later(31)
        assert "7232 seconds ago" in str(one.service.stale())
        await one.later(121)
        await one.later(121)
        assert one.service.stale() is None


@pytest.mark.parametrize(
    ("script", "asks"),
    [
        ("USER.dept != 'hr'", True),
        ("USER ['dept'] != 'hr'", True),
        ("IS_IN_GROUP('a') &&\nUSER.dept != 'hr'", True),
        ("USER\n.dept != 'hr'", True),
        ("REQ.userAttributes.dept != 'hr'", True),
        ("REQ.userGroupAttributes.a.dept != 'hr'", True),
        ("!HAS_USER_ATTR('dept')", True),
        ("UGA.sVal.dept != 'hr'", True),
        ("REQ.user != 'ann'", False),
        ("IS_IN_GROUP('a')", False),
    ],
)
async def test_scripts_that_ask_for_attributes_need_users(script: str, asks: bool) -> None:
    told = service_policies(
        7, policy(1, "{USER}", "USER", conditions=[{"type": "expression", "values": [script]}])
    )
    told["serviceDef"]["policyConditions"] = [
        {
            "itemId": 1,
            "name": "expression",
            "evaluator": "org.apache.ranger.plugin.conditionevaluator.RangerScriptConditionEvaluator",
        }
    ]
    admin = admin_with()
    admin.content[DownloadKind.POLICIES] = told
    admin.next(DownloadKind.USERS, web.Response(status=500))
    async with running(admin), bench(admin.url) as one:
        await one.service.start()
        expected = "users of service `dev_hive` have never been loaded from a Ranger Admin" if asks else None
        assert one.service.stale() == expected


async def test_a_service_that_is_gone_allows_nothing_and_is_forgotten(tmp_path: Path) -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url, cache=tmp_path) as one:
        await one.service.start()
        content = admin.content.pop(DownloadKind.POLICIES)
        assert await one.later(30)
        assert one.taker.taken[-1].service.policies == ()
        assert one.taker.taken[-1].service.definition.name == "hive"
        assert one.service.held.service.version == -1
        assert one.service.stale() is None  # the Admin has spoken
        (trouble,) = one.service.troubles
        assert trouble == "the Ranger Admin has no service `dev_hive` (404)"
        stamp = "20251009085350"
        assert names(tmp_path) == [
            f"sluice_dev_hive.contact_{stamp}",
            f"sluice_dev_hive.json_{stamp}",
            f"sluice_dev_hive_roles.json_{stamp}",
            f"sluice_dev_hive_userstore.json_{stamp}",
        ]
        assert not await one.later(30)
        assert len(one.taker.taken) == 2
        asked = admin.questions(DownloadKind.POLICIES)[-1]
        assert asked.query["lastKnownVersion"] == "-1"

        admin.content[DownloadKind.POLICIES] = content
        assert await one.later(30)
        assert one.tables == {"orders"}
        assert one.service.held.users is not None
        assert not one.service.troubles
        assert "sluice_dev_hive.json" in names(tmp_path)


# -- restarts ------------------------------------------------------------------------------------------------


async def test_a_start_without_the_admin_uses_the_cache_and_its_age(tmp_path: Path) -> None:
    clocks = Clocks()
    admin = admin_with("orders")
    admin.content[DownloadKind.POLICIES]["tagPolicies"] = tag_policies()
    admin.content[DownloadKind.TAGS] = TAGGED
    async with running(admin), bench(admin.url, cache=tmp_path, clocks=clocks) as one:
        await one.service.start()
        await one.later(60)
        url = admin.url
    clocks.wall += 1000
    clocks.now = 5  # another boot
    async with bench(url, cache=tmp_path, clocks=clocks) as again:
        await again.service.start()
        assert again.tables == {"orders"}
        assert again.service.held.versions == one.service.held.versions
        assert again.service.held.service.tagged
        assert again.service.contact_age_s == pytest.approx(1000)
        assert again.service.stale() is None
        clocks.pass_(DAY - 999)
        assert again.service.stale() is not None


async def test_after_a_start_from_the_cache_only_news_are_asked_for(tmp_path: Path) -> None:
    async with running(admin_with("orders")) as admin:
        async with bench(admin.url, cache=tmp_path) as one:
            await one.service.start()
        async with bench(admin.url, cache=tmp_path) as again:
            await again.service.start()
            assert admin.questions(DownloadKind.POLICIES)[-1].query["lastKnownVersion"] == "7"
            assert len(again.taker.taken) == 1


async def test_what_changes_made_is_in_the_cache_complete(tmp_path: Path) -> None:
    async with running(admin_with("orders", "leads")) as admin:
        async with bench(admin.url, cache=tmp_path) as one:
            await one.service.start()
            admin.deltas[(DownloadKind.POLICIES, 7)] = changed(8, (0, policy(3, "new")))
            admin.content[DownloadKind.POLICIES]["policyVersion"] = 8
            await one.later(30)
        await admin.kill()
        async with bench(admin.url, cache=tmp_path) as again:
            await again.service.start()
            assert again.tables == {"orders", "leads", "new"}
            assert again.service.held.service.version == 8


@pytest.mark.parametrize("keep", [0, 1, 0.5, 0.99])
async def test_a_cache_that_was_cut_short_counts_as_absent(tmp_path: Path, keep: float) -> None:
    async with running(admin_with("orders")) as admin:
        async with bench(admin.url, cache=tmp_path) as one:
            await one.service.start()
        file = tmp_path / "sluice_dev_hive.json"
        content = file.read_bytes()
        file.write_bytes(content[: int(keep) if keep in (0, 1) else int(len(content) * keep)])
        await admin.kill()
        async with bench(admin.url, cache=tmp_path) as again:
            await again.service.start()
            assert again.taker.taken == []
            assert "have never been loaded" in str(again.service.stale())
            assert str(file) in again.service.troubles[-1]


async def test_a_cache_of_another_service_is_not_used(tmp_path: Path) -> None:
    told = {**service_policies(7, policy(1, "orders")), "serviceName": "prod_hive"}
    (tmp_path / "sluice_dev_hive.json").write_bytes(orjson.dumps(told))
    async with running(FakeAdmin()) as admin:
        await admin.kill()
        async with bench(admin.url, cache=tmp_path) as one:
            await one.service.start()
            assert one.taker.taken == []
            assert "for service `prod_hive`" in one.service.troubles[-1]


async def test_a_cache_with_faults_is_not_used_and_the_admin_mends_it(tmp_path: Path) -> None:
    bad = service_policies(7, policy(1, "leads"), serviceTags={"op": "delete"})
    (tmp_path / "sluice_dev_hive.json").write_bytes(orjson.dumps(bad))
    async with running(admin_with("orders")) as admin, bench(admin.url, cache=tmp_path) as one:
        await one.service.start()
        assert admin.questions(DownloadKind.POLICIES)[0].query["lastKnownVersion"] == "-1"
        assert one.tables == {"orders"}
        assert one.service.troubles == ()


async def test_a_cache_from_the_future_counts_as_fresh_and_no_fresher(tmp_path: Path) -> None:
    """The clock went back, by an hour or by years: nothing follows from it but a warning."""
    clocks = Clocks()
    async with running(admin_with("orders")) as admin:
        async with bench(admin.url, cache=tmp_path, clocks=clocks) as one:
            await one.service.start()
        await admin.kill()
        clocks.wall -= 10 * 365 * DAY
        async with bench(admin.url, cache=tmp_path, clocks=clocks) as again:
            await again.service.start()
            assert again.service.contact_age_s == 0
            clocks.pass_(DAY + 1)
            assert again.service.stale() is not None


async def test_a_wall_clock_that_jumps_while_we_run_changes_nothing() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        await admin.kill()
        one.clocks.wall += 100 * DAY
        assert one.service.stale() is None
        one.clocks.wall -= 300 * DAY
        one.clocks.now += DAY + 1
        assert one.service.stale() is not None


async def test_times_that_cannot_be_read_are_those_of_the_files(tmp_path: Path) -> None:
    clocks = Clocks()
    async with running(admin_with("orders")) as admin:
        async with bench(admin.url, cache=tmp_path, clocks=clocks) as one:
            await one.service.start()
        await admin.kill()
        cache = Cache(tmp_path, "sluice", SERVICE)
        for kind in (DownloadKind.POLICIES, DownloadKind.ROLES):
            clocks.wall = cache.path(kind).stat().st_mtime + 500
        for content in (b"{", None):
            if content is None:
                cache.contact_path.unlink()
            else:
                cache.contact_path.write_bytes(content)
            async with bench(admin.url, cache=tmp_path, clocks=clocks) as again:
                await again.service.start()
                assert again.service.contact_age_s == pytest.approx(500, abs=5)


async def test_a_disk_that_takes_nothing_is_told_and_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with running(admin_with("orders")) as admin, bench(admin.url, cache=tmp_path / "file") as one:
        await one.service.start()
        assert one.tables == {"orders"}
        assert "cannot be" in one.service.troubles[0]


async def test_run_sleeps_until_something_is_due_and_then_looks() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        slept: list[float] = []

        class Enough(Exception):
            pass

        async def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) > 3:
                raise Enough
            one.clocks.pass_(seconds)

        one.service._sleep = sleep
        with pytest.raises(Enough):
            await one.service.run()
        assert all(26 < seconds <= 30 for seconds in slept)
        assert len(admin.questions(DownloadKind.POLICIES)) == 4


async def test_run_looks_at_once_when_somebody_says_that_policies_have_changed() -> None:
    async with running(admin_with("orders")) as admin, bench(admin.url) as one:
        await one.service.start()
        looked = asyncio.Event()

        async def sleep(_: float) -> None:
            looked.set()
            await asyncio.Event().wait()

        one.service._sleep = sleep
        running_ = asyncio.ensure_future(one.service.run())
        for asked in (1, 2, 3):
            async with asyncio.timeout(patience()):
                await looked.wait()
            looked.clear()
            assert len(admin.questions(DownloadKind.POLICIES)) == asked
            one.service.look_now()
        running_.cancel()


# -- data sharing --------------------------------------------------------------------------------------------


def sharing(version: int, state: str = "ACTIVE", **more: Any) -> dict[str, Any]:
    """Return a download in which a dataset shares `leads` with ann."""
    return {
        "serviceName": SERVICE,
        "gdsVersion": version,
        "isDelta": False,
        "dataShares": [{"id": 1, "name": "share", "zoneName": "", "defaultAccessTypes": ["select"]}],
        "datasets": [
            {
                "id": 1,
                "name": "campaign",
                "policies": [
                    {
                        "id": 900,
                        "service": "_gds",
                        "name": "campaign",
                        "policyType": 0,
                        "resources": {"dataset-id": {"values": ["1"]}},
                        "policyItems": [{"accesses": [{"type": "select"}], "users": ["ann"]}],
                    }
                ],
            }
        ],
        "projects": [],
        "dshids": [{"dataShareId": 1, "datasetId": 1, "status": state}],
        "dips": [],
        "resources": [
            {
                "id": 1,
                "dataShareId": 1,
                "name": "leads",
                "resource": {"database": {"values": ["shop"]}, "table": {"values": ["leads"]}},
            }
        ],
    } | more


def shared(one: Bench) -> set[str]:
    """Return the datasets of what is in force."""
    found = one.service.held.service.sharing
    return set() if found is None else {dataset.name for dataset in found.datasets}


async def test_data_sharing_is_asked_for_and_put_in_force() -> None:
    admin = admin_with("orders")
    admin.content[DownloadKind.SHARING] = sharing(4)
    async with running(admin), bench(admin.url, sharing_s=60.0) as one:
        await one.service.start()
        (asked,) = admin.questions(DownloadKind.SHARING)
        assert asked.path == f"/service/gds/download/{SERVICE}"
        assert asked.query["lastKnownGdsVersion"] == "-1"
        assert "supportsPolicyDeltas" not in asked.query
        assert shared(one) == {"campaign"}
        assert one.service.held.versions[DownloadKind.SHARING] == 4
        assert await one.later() is False
        assert admin.questions(DownloadKind.SHARING)[-1].query["lastKnownGdsVersion"] == "4"
        admin.content[DownloadKind.SHARING] = sharing(5, datasets=[], dshids=[])
        assert await one.later() is True
        assert shared(one) == set()


async def test_plugins_that_log_in_ask_elsewhere() -> None:
    admin = admin_with("orders")
    async with running(admin), bench(admin.url, sharing_s=60.0, client={"secure": True}) as one:
        await one.service.start()
        assert admin.questions(DownloadKind.SHARING)[0].path == f"/service/gds/secure/download/{SERVICE}"


async def test_an_admin_without_an_address_for_it_shares_nothing() -> None:
    admin = admin_with("orders")
    async with running(admin), bench(admin.url, sharing_s=60.0) as one:
        await one.service.start()
        assert admin.questions(DownloadKind.SHARING)
        assert (one.service.stale(), one.service.troubles) == (None, ())
        assert (one.tables, shared(one)) == ({"orders"}, set())


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=401),
        web.Response(status=500),
        web.Response(status=304),
        web.Response(body=b"{"),
        web.Response(body=orjson.dumps(sharing(4, serviceName="other"))),
        web.Response(body=orjson.dumps(sharing(4, isDelta=True))),
        web.Response(body=orjson.dumps(sharing(4, gdsVersion=None))),
        web.Response(body=orjson.dumps(sharing(4, gdsServiceDef=3))),
    ],
    ids=["login", "error", "busy", "no JSON", "another's", "changes alone", "no version", "faulty"],
)
async def test_data_sharing_that_cannot_be_had_refuses_everything(answer: web.Response) -> None:
    admin = admin_with("orders")
    admin.next(DownloadKind.SHARING, answer)
    async with running(admin), bench(admin.url, sharing_s=60.0) as one:
        await one.service.start()
        assert "sharing of service `dev_hive` have never been loaded" in (one.service.stale() or "")
        assert one.service.troubles


async def test_what_was_shared_stays_while_the_admin_says_otherwise_and_grows_stale() -> None:
    admin = admin_with("orders")
    admin.content[DownloadKind.SHARING] = sharing(4)
    async with running(admin), bench(admin.url, sharing_s=60.0, max_stale_s=300) as one:
        await one.service.start()
        del admin.content[DownloadKind.SHARING]
        await one.later()
        assert shared(one) == {"campaign"}
        assert "no longer has them (404)" in one.service.troubles[0]
        await one.later(400)
        assert one.service.stale() is not None


async def test_data_sharing_is_kept_in_rangers_file_and_taken_from_it(tmp_path: Path) -> None:
    admin = admin_with("orders")
    admin.content[DownloadKind.SHARING] = sharing(4)
    async with running(admin), bench(admin.url, cache=tmp_path, sharing_s=60.0) as one:
        await one.service.start()
    assert f"sluice_{SERVICE}_gds.json" in names(tmp_path)
    async with bench("http://localhost:1", cache=tmp_path, sharing_s=60.0) as one:
        await one.service.start()
        assert (shared(one), one.service.stale()) == ({"campaign"}, None)


async def test_that_nothing_is_shared_is_remembered_over_a_restart(tmp_path: Path) -> None:
    admin = admin_with("orders")
    async with running(admin), bench(admin.url, cache=tmp_path, sharing_s=60.0) as one:
        await one.service.start()
        assert DownloadKind.SHARING not in one.service.held.versions
        await one.later()
        assert one.service.troubles == ()
    async with bench("http://localhost:1", cache=tmp_path, sharing_s=60.0) as one:
        await one.service.start()
        assert (one.tables, one.service.stale()) == ({"orders"}, None)
    admin.content[DownloadKind.SHARING] = sharing(1)
    async with running(admin), bench(admin.url, cache=tmp_path, sharing_s=60.0) as one:
        await one.service.start()
        assert shared(one) == {"campaign"}


async def test_data_sharing_that_asks_for_attributes_needs_users() -> None:
    admin = admin_with("orders")
    admin.content[DownloadKind.SHARING] = sharing(
        4, resources=[{**sharing(4)["resources"][0], "conditionExpr": "USER.dept == 'hr'"}]
    )
    admin.next(DownloadKind.USERS, web.Response(status=500))
    async with running(admin), bench(admin.url, sharing_s=60.0) as one:
        await one.service.start()
        assert "users" in (one.service.stale() or "")
