"""Delegated administrators and the masks and row filters that others wrote."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.admin.conftest import Served
from tests.admin.ranger.test_access import API, policy, with_delegate

FIRST = {"users": ["ann"], "accesses": [{"type": "select"}]}


def mask(
    name: str, type_: str = "MASK_NULL", table: str = "sales_eu", column: str = "card", **more: Any
) -> dict[str, Any]:
    item = {**FIRST, "dataMaskInfo": {"dataMaskType": type_}, **more.pop("item", {})}
    return policy(name, table, column, policyType=1, policyItems=[], dataMaskPolicyItems=[item], **more)


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
    assert "`central`, which others wrote" in answer["msgDesc"]
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


@pytest.mark.parametrize(
    ("central", "own", "allowed"),
    [
        (mask("central"), mask("own", "MASK_NONE", column="c*"), False),
        (mask("central", table="*", column="*"), mask("own", "MASK_NONE"), False),
        (mask("central"), mask("own", "MASK_NONE", table="sales_*", column="?ard"), False),
        (mask("central", table="{USER}"), mask("own", "MASK_NONE"), False),
        (mask("central"), mask("own", "MASK_NONE", column="name"), True),
        (mask("central", table="orders"), mask("own", "MASK_NONE"), True),
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


@pytest.mark.parametrize("named", [{"users": ["bob"]}, {"groups": ["sellers"]}])
async def test_it_may_be_delegated_explicitly(served: Served, named: Any) -> None:
    await with_delegate(served)
    item = {**FIRST, "dataMaskInfo": {"dataMaskType": "MASK_NULL"}}
    delegating = {**item, "users": [], **named, "delegateAdmin": True}
    made = await stored(served, {**mask("central"), "dataMaskPolicyItems": [item, delegating]})
    one = f"{API}/policy/{made['id']}"
    item["dataMaskInfo"] = {"dataMaskType": "MASK_NONE"}
    body = {**made, "dataMaskPolicyItems": [item, delegating]}
    assert (await served.ask("PUT", one, body, user="bob"))[0] == (200 if "users" in named else 403)


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
