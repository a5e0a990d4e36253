"""Delegated administrators and the masks and row filters that others wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.admin.ranger.obliging import holds_alike, takes_back_denial
from gateway.model.principal import Principal
from tests.admin.conftest import Served
from tests.admin.ranger.test_access import API, policy, with_delegate

FIRST = {"users": ["ann"], "accesses": [{"type": "select"}]}


def mask(
    name: str, type_: str = "MASK_NULL", table: str = "sales_eu", column: str = "card", **more: Any
) -> dict[str, Any]:
    item = {**FIRST, "dataMaskInfo": {"dataMaskType": type_}, **more.pop("item", {})}
    return policy(name, table, column, policyType=1, policyItems=[], dataMaskPolicyItems=[item], **more)


ZOE = {"users": ["zoe"]}
CARD = mask("-")["resources"]


def row_filter(name: str, text: str = "id > 7", table: str = "sales_eu", **more: Any) -> dict[str, Any]:
    item = {**FIRST, "rowFilterInfo": {"filterExpr": text}, **more.pop("item", {})}
    resources = {"database": {"values": ["shop"]}, "table": {"values": [table]}}
    return policy(
        name, policyType=2, policyItems=[], resources=resources, rowFilterPolicyItems=[item], **more
    )


async def stored(served: Served, body: dict[str, Any], user: str = "admin") -> Any:
    status, made = await served.ask("POST", f"{API}/policy", body, user=user)
    assert status == 200, made
    return made


@pytest.mark.parametrize(
    ("central", "weaker"),
    [(mask("central"), mask("central", "MASK_NONE")), (row_filter("central"), row_filter("central", "true"))],
    ids=["mask", "filter"],
)
async def test_what_an_administrator_wrote_is_not_rewritten(
    served: Served, central: Any, weaker: Any
) -> None:
    await with_delegate(served)
    made = await stored(served, central)
    one = f"{API}/policy/{made['id']}"
    status, answer = await served.ask("PUT", one, {**made, **weaker}, user="bob")
    assert status == 403
    assert "`central` of others" in answer["msgDesc"]
    assert (await served.ask("PUT", one, {**made, "isEnabled": False}, user="bob"))[0] == 403
    assert (await served.ask("DELETE", one, user="bob"))[0] == 403
    for flags in ("updateIfExists", "deleteIfExists"):
        status, _ = await served.ask("POST", f"{API}/policy?{flags}=true", weaker, user="bob")
        assert status == 403
    for way in ("policy?mergeIfExists=true", "policy/apply"):
        # What is merged comes after what is there, so that it may change nothing.
        await served.ask("POST", f"{API}/{way}", weaker, user="bob")
    _, kept = await served.ask("GET", one)
    items = "dataMaskPolicyItems" if "dataMaskPolicyItems" in central else "rowFilterPolicyItems"
    assert kept[items] == made[items]
    made = kept
    status, changed = await served.ask("PUT", one, {**made, "description": "of the centre"}, user="bob")
    assert status == 200, changed
    # He changed nothing of what it does, so it is not his now.
    assert (await served.ask("DELETE", one, user="bob"))[0] == 403


DENIED = {"users": ["zoe"], "accesses": [{"type": "select"}]}


async def test_what_an_administrator_denies_is_not_taken_back(served: Served) -> None:
    await with_delegate(served)
    made = await stored(served, policy("central", "sales_eu", policyItems=[FIRST], denyPolicyItems=[DENIED]))
    one = f"{API}/policy/{made['id']}"
    changes: tuple[dict[str, Any], ...] = (
        {"isEnabled": False},
        {"denyPolicyItems": []},
        {"denyExceptions": [DENIED]},
        {"validitySchedules": [{"endTime": "2020/01/01 00:00:00"}]},
        {"resources": policy("-", "sales_us")["resources"]},
        {"name": "mine"},
    )
    for change in changes:
        status, told = await served.ask("PUT", one, {**made, **change}, user="bob")
        assert status == 403, (change, told)
    status, told = await served.ask("DELETE", one, user="bob")
    assert status == 403
    assert "what `central` of others denies" in told["msgDesc"]
    allowing = {**policy("central", "sales_eu", policyItems=[DENIED]), "denyPolicyItems": []}
    for way in ("policy?updateIfExists=true", "policy?deleteIfExists=true", "policy/apply"):
        await served.ask("POST", f"{API}/{way}", allowing, user="bob")
    _, kept = await served.ask("GET", one)
    assert kept["denyPolicyItems"] == made["denyPolicyItems"]
    more = {**kept, "policyItems": [FIRST, {**FIRST, "users": ["eve"]}]}
    assert (await served.ask("PUT", one, more, user="bob"))[0] == 200
    # It is not his now.
    assert (await served.ask("DELETE", one, user="bob"))[0] == 403
    assert (await served.ask("DELETE", one))[0] == 204


def test_what_is_allowed_where_all_else_is_denied_denies_too() -> None:
    total = policy("central", "sales_eu", policyItems=[FIRST], isDenyAllElse=True, createdBy="admin")
    bob = Principal(user="bob")
    assert takes_back_denial(bob, stored=total, policy={**total, "policyItems": [FIRST, DENIED]})
    assert takes_back_denial(bob, stored=total, policy=None)
    assert not takes_back_denial(bob, stored=total, policy={**total, "description": "of the centre"})
    assert not takes_back_denial(bob, stored={**total, "isDenyAllElse": False}, policy=None)


async def test_ones_own_denial_is(served: Served) -> None:
    await with_delegate(served)
    own = policy("own", "sales_eu", policyItems=[], denyPolicyItems=[DENIED])
    made = await stored(served, own, user="bob")
    assert (await served.ask("DELETE", f"{API}/policy/{made['id']}", user="bob"))[0] == 204


@pytest.mark.parametrize(
    ("central", "own", "allowed"),
    [
        (mask("central"), mask("own", "MASK_NONE", column="c*"), False),
        (mask("central", table="*", column="*"), mask("own", "MASK_NONE"), False),
        (mask("central"), mask("own", "MASK_NONE", table="sales_*", column="?ard"), False),
        (mask("central", table="{USER}"), mask("own", "MASK_NONE"), False),
        (mask("central"), mask("own", "MASK_NONE", column="name"), True),
        (mask("central"), mask("own", "MASK_NONE", "SALES_EU", "**Card"), False),
        (mask("central"), mask("own", "MASK_NONE", column="n", additionalResources=[CARD]), False),
        (mask("central", additionalResources=[CARD], column="n"), mask("own", "MASK_NONE"), False),
        (mask("central"), mask("own", "MASK_NONE", column="c{USER}"), False),
        (mask("central", table="orders"), mask("own", "MASK_NONE"), True),
        # Who is named nowhere else loses nothing by it.
        (mask("central"), mask("own", "MASK_NONE", column="c*", item=ZOE), True),
        (mask("central"), mask("own", "MASK_NONE", column="c*", item={"users": ["zoe", "ann"]}), False),
        (mask("central"), mask("own", "MASK_NONE", column="c*", item={"users": ["{USER}"]}), False),
        (
            mask("central"),
            mask("own", "MASK_NONE", column="c*", item={"users": ["zoe"], "groups": ["g"]}),
            False,
        ),
        (
            mask("central", item={"roles": ["r"]}),
            mask("own", "MASK_NONE", column="c*", item=ZOE),
            False,
        ),
        (mask("central", isEnabled=False), mask("own", "MASK_NONE", column="c*"), True),
        (row_filter("central", table="*"), row_filter("own", "true"), False),
        (row_filter("central", table="sales_us"), row_filter("own", "true"), True),
        # A mask is no obstacle for a filter.
        (mask("central", table="*", column="*"), row_filter("own", "true"), True),
    ],
)
async def test_nothing_is_put_before_what_an_administrator_wrote(
    served: Served, central: Any, own: Any, allowed: bool
) -> None:
    """The first that matches counts, and which is first follows from names and patterns."""
    await with_delegate(served)
    await stored(served, central)
    status, answer = await served.ask("POST", f"{API}/policy", own, user="bob")
    assert status == (200 if allowed else 403), answer


async def test_a_policy_of_ones_own_is_not_moved_before_it(served: Served) -> None:
    await with_delegate(served)
    made = await stored(served, mask("own", "MASK_NONE", table="sales_us"), user="bob")
    await stored(served, mask("central", table="sales_eu", column="*"))
    one = f"{API}/policy/{made['id']}"
    assert (await served.ask("PUT", one, {**made, **mask("own", "MASK_NONE")}, user="bob"))[0] == 403
    assert (await served.ask("PUT", one, {**made, **mask("own", "MASK_HASH", "sales_us")}, user="bob"))[
        0
    ] == 200
    assert (await served.ask("DELETE", one, user="bob"))[0] == 204


async def test_what_is_not_on_yet_is_not_switched_on(served: Served) -> None:
    await with_delegate(served)
    await stored(served, mask("central"))
    own = mask("own", "MASK_NONE", column="c*", isEnabled=False)
    assert (await served.ask("POST", f"{API}/policy", own, user="bob"))[0] == 403


@pytest.mark.parametrize("kind", [mask, row_filter])
async def test_what_an_administrator_hardened_does_not_come_back(served: Served, kind: Any) -> None:
    """By a word of the description it would be the delegate's own again."""
    await with_delegate(served)
    made = await stored(served, kind("own"), user="bob")
    one = f"{API}/policy/{made['id']}"
    items = "dataMaskPolicyItems" if "dataMaskPolicyItems" in made else "rowFilterPolicyItems"
    hardened = {**made, items: [{**made[items][0], "users": ["ann", "joe"]}]}
    status, made = await served.ask("PUT", one, hardened)
    assert status == 200
    for change in ({"description": "mine"}, {"policyLabels": ["mine"]}, {}):
        status, made = await served.ask("PUT", one, {**made, **change}, user="bob")
        assert status == 200, made
        assert made["updatedBy"] == "admin"
    weaker = [{**made[items][0], "users": ["ann"]}]
    assert (await served.ask("PUT", one, {**made, items: weaker}, user="bob"))[0] == 403
    assert (await served.ask("DELETE", one, user="bob"))[0] == 403


async def test_a_description_is_changed_by_a_body_without_what_the_store_keeps(served: Served) -> None:
    await with_delegate(served)
    made = await stored(served, mask("central"))
    lean = {key: value for key, value in made.items() if key not in ("guid", "createTime", "createdBy")}
    status, told = await served.ask(
        "PUT", f"{API}/policy/{made['id']}", {**lean, "description": "of the centre"}, user="bob"
    )
    assert status == 200, told


def tag_mask(name: str, tag: str, type_: str, user: str = "ann") -> dict[str, Any]:
    item = {"users": [user], "accesses": [{"type": "hive:select"}], "dataMaskInfo": {"dataMaskType": type_}}
    resources = {"tag": {"values": [tag]}}
    return {
        "service": "tags",
        "name": name,
        "policyType": 1,
        "resources": resources,
        "dataMaskPolicyItems": [item],
    }


@pytest.mark.parametrize(
    "central", [mask("central"), tag_mask("central", "PII", "hive:MASK_NULL")], ids=["column", "tag"]
)
async def test_no_tag_comes_before_what_an_administrator_wrote(served: Served, central: Any) -> None:
    """A column may have the delegate's tag beside another, and masks on tags come before those on columns."""
    await served.ask("POST", f"{API}/service", {"name": "tags", "type": "tag"})
    await served.ask("POST", f"{API}/service", {"name": "dev_hive", "type": "hive", "tagService": "tags"})
    item = {"users": ["bob"], "accesses": [{"type": "hive:select"}], "delegateAdmin": True}
    resources = {"tag": {"values": ["OPEN"]}}
    await stored(served, {"service": "tags", "name": "d", "resources": resources, "policyItems": [item]})
    await stored(served, central)
    own = tag_mask("aaa", "OPEN", "hive:MASK_NONE")
    status, told = await served.ask("POST", f"{API}/policy", own, user="bob")
    assert status == 403
    assert "the mask `central`" in told["msgDesc"]
    await stored(served, tag_mask("aaa", "OPEN", "hive:MASK_NULL", user="zoe"), user="bob")


@pytest.mark.parametrize(
    "named", [{"users": ["bob"]}, {"groups": ["public"]}, {"roles": ["outer"]}, {"groups": ["sellers"]}]
)
async def test_it_may_be_delegated_explicitly(served: Served, named: Any) -> None:
    await with_delegate(served)
    await served.ask("POST", f"{API}/roles", {"name": "inner", "users": [{"name": "bob"}]})
    await served.ask("POST", f"{API}/roles", {"name": "outer", "roles": [{"name": "inner"}]})
    item = {**FIRST, "dataMaskInfo": {"dataMaskType": "MASK_NULL"}}
    delegating = {**item, "users": [], **named, "delegateAdmin": True}
    made = await stored(served, {**mask("central"), "dataMaskPolicyItems": [item, delegating]})
    one = f"{API}/policy/{made['id']}"
    item["dataMaskInfo"] = {"dataMaskType": "MASK_NONE"}
    body = {**made, "dataMaskPolicyItems": [item, delegating]}
    assert (await served.ask("PUT", one, body, user="bob"))[0] == (403 if "sellers" in str(named) else 200)


async def test_the_settings_may_leave_it_to_delegates(served: Served) -> None:
    await with_delegate(served)
    made = await stored(served, mask("central"))
    served.access.rights = replace(served.access.rights, delegates_may_override=True)
    one = f"{API}/policy/{made['id']}"
    assert (await served.ask("PUT", one, {**made, **mask("central", "MASK_NONE")}, user="bob"))[0] == 200


async def test_administrators_of_the_service_rewrite_what_they_want(served: Served) -> None:
    await with_delegate(served)
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    service["configs"] = {"service.admin.users": "sam"}
    assert (await served.ask("PUT", f"{API}/service/name/dev_hive", service))[0] == 200
    made = await stored(served, mask("central"))
    one = f"{API}/policy/{made['id']}"
    assert (await served.ask("PUT", one, {**made, **mask("central", "MASK_NONE")}, user="sam"))[0] == 200
    assert (await served.ask("DELETE", one, user="sam"))[0] == 204


async def test_whose_the_texts_are_is_nothing_that_a_body_changes(served: Served) -> None:
    """A delegate's tool may leave out what it does not know."""
    await with_delegate(served)
    reading = row_filter("own", "id IN (SELECT id FROM lab.open)")
    made = await stored(served, reading, user="bob")
    assert made["options"]
    status, kept = await served.ask(
        "PUT", f"{API}/policy/{made['id']}", {**made, "description": "of the centre", "policyLabels": ["x"]}
    )
    assert status == 200, kept
    bare = {key: value for key, value in kept.items() if key != "options"}
    status, told = await served.ask(
        "PUT", f"{API}/policy/{made['id']}", {**bare, "description": "mine"}, user="bob"
    )
    assert status == 200, told
    assert told["options"] == made["options"]


def test_a_delegate_who_changes_when_a_policy_holds_puts_its_texts_in_force() -> None:
    stored = mask("central")
    for field in ("validitySchedules", "conditions"):
        assert holds_alike(stored, {**stored, field: [{}]}, delegated=False)
        assert not holds_alike(stored, {**stored, field: [{}]}, delegated=True)
    for delegated in (True, False):
        assert holds_alike(stored, {**stored, "description": "in other words"}, delegated=delegated)
        assert not holds_alike(stored, {**stored, "isEnabled": False}, delegated=delegated)
