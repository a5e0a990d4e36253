"""Who may do what: administrators, administrators of services, delegated administrators, plugins, anybody."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aiohttp
import orjson
import pytest

from gateway.admin.ranger.kinds import ChangedObject, ObjectKind, What
from gateway.policy.authors import OPTION, digest
from tests.admin.conftest import Served

API = "/public/v2/api"


def policy(name: str = "p", table: str = "orders", column: str = "*", **more: Any) -> dict[str, Any]:
    return {
        "service": "dev_hive",
        "name": name,
        "resources": {
            "database": {"values": ["shop"]},
            "table": {"values": [table]},
            "column": {"values": [column]},
        },
        "policyItems": [{"users": ["ann"], "accesses": [{"type": "select"}]}],
        **more,
    }


async def with_delegate(served: Served, **more: Any) -> None:
    """Bob administers select and update on shop.sales_* by delegation."""
    await served.ask("POST", f"{API}/service", {"name": "dev_hive", "type": "hive"})
    item = {
        "users": ["bob"],
        "accesses": [{"type": "select"}, {"type": "update"}],
        "delegateAdmin": True,
    }
    status, body = await served.ask(
        "POST", f"{API}/policy", policy("delegated", "sales_*", policyItems=[item], **more)
    )
    assert status == 200, body


async def test_without_a_right_password_there_is_nothing(served: Served) -> None:
    for headers in ({"Authorization": "Basic !"}, {"Authorization": "Bearer x"}, {"Authorization": ""}):
        status, body = await served.ask("GET", f"{API}/service", headers=headers)
        assert (status, body["statusCode"]) == (401, 401)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/service", {"name": "x", "type": "hive"}),
        ("PUT", "/service/name/dev_hive", {"name": "dev_hive", "type": "hive"}),
        ("DELETE", "/service/name/dev_hive", None),
        ("POST", "/servicedef", {"name": "x"}),
        ("PUT", "/servicedef/name/hive", {"name": "hive"}),
        ("DELETE", "/servicedef/name/hive", None),
        ("POST", "/policy", policy()),
        ("POST", "/policy/apply", policy()),
        ("PUT", "/policy/1", policy()),
        ("GET", "/policy/1", None),
        ("DELETE", "/policy/1", None),
        ("DELETE", "/policies/bulk?serviceName=dev_hive", None),
        ("DELETE", "/server/policydeltas", None),
        ("DELETE", "/server/purge/records?type=trx_records", None),
    ],
)
async def test_others_may_not(served: Served, method: str, path: str, body: Any) -> None:
    await with_delegate(served)
    status, told = await served.ask(method, API + path, body, user="eve")
    assert (status, told["statusCode"]) == (403, 403)
    assert "`eve`" in told["msgDesc"]


async def test_a_group_of_administrators_may_do_everything(served: Served) -> None:
    await with_delegate(served)
    assert (await served.ask("POST", f"{API}/policy", policy(), user="gwen"))[0] == 200


async def test_configuration_of_services_is_for_those_who_administer_them(served: Served) -> None:
    await with_delegate(served)
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    service["configs"] = {"service.admin.users": "sam", "service.admin.groups": "stewards"}
    assert (await served.ask("PUT", f"{API}/service/name/dev_hive", service))[0] == 200
    for user, sees in (("sam", True), ("dave", True), ("eve", False)):
        _, seen = await served.ask("GET", f"{API}/service/name/dev_hive", user=user)
        assert ("configs" in seen) is sees
        status, _ = await served.ask("POST", f"{API}/policy", policy(user, f"t_{user}"), user=user)
        assert status == (200 if sees else 403)
        # It would let them name super users.
        assert (await served.ask("PUT", f"{API}/service/name/dev_hive", service, user=user))[0] == 403


@pytest.mark.parametrize(
    ("table", "column", "access", "allowed"),
    [
        ("sales_eu", "*", "select", True),
        ("sales_eu", "id", "update", True),
        ("SALES_EU", "id", "update", True),
        ("sales_e?", "*", "select", True),
        ("sales_e*", "*", "select", True),
        ("sales_eu", "*", "drop", False),
        ("sales_eu", "*", "all", False),
        ("orders", "*", "select", False),
        ("sale?_eu", "*", "select", False),
        ("sales*", "*", "select", False),
        ("*", "*", "select", False),
        ("", "*", "select", False),
    ],
)
async def test_delegation_covers_all_of_a_policy_or_none_of_it(
    served: Served, table: str, column: str, access: str, allowed: bool
) -> None:
    await with_delegate(served)
    items = [{"users": ["ann"], "accesses": [{"type": access}]}]
    body = policy("new", table, column, policyItems=items)
    status, told = await served.ask("POST", f"{API}/policy", body, user="bob")
    assert status == (200 if allowed else 403), told


async def test_every_part_of_a_policy_must_be_delegated(served: Served) -> None:
    await with_delegate(served)
    two = policy("two", "sales_eu")
    two["additionalResources"] = [policy(table="orders")["resources"]]
    assert (await served.ask("POST", f"{API}/policy", two, user="bob"))[0] == 403
    values = policy("values", "sales_eu")
    values["resources"]["table"]["values"].append("orders")
    assert (await served.ask("POST", f"{API}/policy", values, user="bob"))[0] == 403
    excluding = policy("excluding", "sales_eu")
    excluding["resources"]["table"]["isExcludes"] = True
    assert (await served.ask("POST", f"{API}/policy", excluding, user="bob"))[0] == 403
    denying = policy("denying", "sales_eu", policyItems=[])
    denying["denyPolicyItems"] = [{"users": ["ann"], "accesses": [{"type": "drop"}]}]
    assert (await served.ask("POST", f"{API}/policy", denying, user="bob"))[0] == 403
    else_ = policy("else", "sales_eu", isDenyAllElse=True)
    assert (await served.ask("POST", f"{API}/policy", else_, user="bob"))[0] == 403
    masking = policy("masking", "sales_eu", "card", policyType=1, policyItems=[])
    masking["dataMaskPolicyItems"] = [
        {
            "users": ["ann"],
            "accesses": [{"type": "select"}],
            "dataMaskInfo": {"dataMaskType": "MASK_NULL"},
        }
    ]
    assert (await served.ask("POST", f"{API}/policy", masking, user="bob"))[0] == 200


async def test_what_overrides_others_is_for_those_who_administer_them(served: Served) -> None:
    """Such a policy would take back what is denied and masked centrally, on the delegated resources."""
    await with_delegate(served)
    overriding = policy("overriding", "sales_eu", policyPriority=1)
    status, told = await served.ask("POST", f"{API}/policy", overriding, user="bob")
    assert status == 403
    assert "`policyPriority` 1" in told["msgDesc"]
    _, own = await served.ask("POST", f"{API}/policy", policy("own", "sales_us"), user="bob")
    one = f"{API}/policy/{own['id']}"
    assert (await served.ask("PUT", one, {**own, "policyPriority": 1}, user="bob"))[0] == 403
    assert (await served.ask("PUT", one, {**own, "policyPriority": 0}, user="bob"))[0] == 200
    status, central = await served.ask("POST", f"{API}/policy", overriding)
    assert status == 200
    one = f"{API}/policy/{central['id']}"
    assert (await served.ask("PUT", one, {**central, "policyPriority": 0}, user="bob"))[0] == 403
    assert (await served.ask("DELETE", one, user="bob"))[0] == 403
    for flags in ("mergeIfExists", "updateIfExists", "deleteIfExists"):
        status, _ = await served.ask(
            "POST", f"{API}/policy?{flags}=true", {**overriding, "name": "other"}, user="bob"
        )
        assert status == 403
    assert (await served.ask("GET", one))[1] == central


async def test_delegates_may_override_where_the_settings_say_so(served: Served) -> None:
    await with_delegate(served)
    served.access.rights = replace(served.access.rights, delegates_may_override=True)
    overriding = policy("overriding", "sales_eu", policyPriority=1)
    assert (await served.ask("POST", f"{API}/policy", overriding, user="bob"))[0] == 200
    overriding = policy("beyond", "orders", policyPriority=1)
    assert (await served.ask("POST", f"{API}/policy", overriding, user="bob"))[0] == 403


async def test_a_policy_cannot_be_carried_off_to_where_one_administers(served: Served) -> None:
    await with_delegate(served)
    _, foreign = await served.ask("POST", f"{API}/policy", policy("foreign"))
    moved = policy("foreign", "sales_eu")
    status, _ = await served.ask("PUT", f"{API}/policy/{foreign['id']}", moved, user="bob")
    assert status == 403
    _, own = await served.ask("POST", f"{API}/policy", policy("own", "sales_eu"), user="bob")
    status, _ = await served.ask("PUT", f"{API}/policy/{own['id']}", policy("own", "customers"), user="bob")
    assert status == 403
    for flags in ("mergeIfExists", "updateIfExists", "deleteIfExists"):
        body = {**policy("foreign"), "policyItems": [{"users": ["bob"], "accesses": [{"type": "select"}]}]}
        status, _ = await served.ask("POST", f"{API}/policy?{flags}=true", body, user="bob")
        assert status == 403


async def test_one_reads_what_one_administers_part_of(served: Served) -> None:
    await with_delegate(served)
    drop = [{"users": ["ann"], "accesses": [{"type": "drop"}]}]
    await served.ask("POST", f"{API}/policy", policy("orders"))
    _, on_sales = await served.ask("POST", f"{API}/policy", policy("sales", "sales_eu", policyItems=drop))
    _, seen = await served.ask("GET", f"{API}/policy?serviceName=dev_hive", user="bob")
    assert [one["name"] for one in seen] == ["delegated", "sales"]
    assert (await served.ask("GET", f"{API}/policy/{on_sales['id']}", user="bob"))[0] == 200
    assert (await served.ask("DELETE", f"{API}/policy/{on_sales['id']}", user="bob"))[0] == 403
    assert (await served.ask("GET", f"{API}/policy", user="eve"))[1] == []


async def test_delegation_ends_with_the_policy_that_gave_it(served: Served) -> None:
    await with_delegate(served)
    assert (await served.ask("POST", f"{API}/policy", policy("a", "sales_a"), user="bob"))[0] == 200
    assert (await served.ask("DELETE", f"{API}/service/dev_hive/policy/delegated"))[0] == 204
    assert (await served.ask("POST", f"{API}/policy", policy("b", "sales_b"), user="bob"))[0] == 403


async def test_a_change_that_was_taken_back_is_not_remembered(served: Served) -> None:
    await with_delegate(served)
    those = [policy("x", "sales_x"), policy("y", "sales_y"), policy("z", "leads")]
    form = aiohttp.FormData()
    form.add_field("file", orjson.dumps({"policies": those}), filename="p.json")
    status, _ = await served.send("POST", "/plugins/policies/importPoliciesFromFile", form, user="bob")
    assert status == 403
    # The change that follows gets the versions that the import would have got.
    assert (await served.ask("DELETE", f"{API}/service/dev_hive/policy/delegated"))[0] == 204
    status, _ = await served.ask("POST", f"{API}/policy", policy("own", "sales_*"), user="bob")
    assert status == 403


async def test_no_password_of_a_service_is_kept(served: Served) -> None:
    names = ("password", "jdbc.Password", "ranger.plugin.keystore.password", "ranger.plugin.client_secret")
    configs = {"username": "u", **dict.fromkeys(names, "S3cret")}
    body = {"name": "dev_hive", "type": "hive", "configs": configs}
    _, made = await served.ask("POST", f"{API}/service", body)
    assert made["configs"] == {"username": "u", **dict.fromkeys(names, "*******")}
    _, download = await served.ask("GET", "/plugins/policies/download/dev_hive", user="plugin")
    assert "S3cret" not in str(download)
    async with served.store.reading() as reading:
        assert "S3cret" not in str(await reading.history(ObjectKind.SERVICE, made["id"]))


async def test_who_administers_a_service_puts_nobody_into_roles(served: Served) -> None:
    for name, users in (("dev_hive", "sam"), ("dev_trino", "sam,plugin")):
        configs = {"service.admin.users": users}
        await served.ask("POST", f"{API}/service", {"name": name, "type": "hive", "configs": configs})
    await served.ask("POST", f"{API}/roles", {"name": "readers"})
    request = {"grantor": "admin", "targetRoles": ["readers"], "users": ["sam"]}
    for user, name, expected in (
        ("sam", "dev_hive", 403),
        ("plugin", "dev_hive", 403),
        ("plugin", "dev_trino", 200),
    ):
        status, _ = await served.ask("PUT", f"{API}/roles/grant/{name}", request, user=user)
        assert status == expected


async def test_delegation_under_a_condition_that_cannot_be_told_does_not_count(served: Served) -> None:
    await with_delegate(served, validitySchedules=[{"endTime": "2020/01/01 00:00:00"}])
    assert (await served.ask("POST", f"{API}/policy", policy("a", "sales_a"), user="bob"))[0] == 403


async def test_pages_of_other_sites_do_not_use_a_browsers_password(served: Served) -> None:
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        status, _ = await served.ask("GET", f"{API}/service", headers=headers)
        assert status == 403
    assert (await served.ask("GET", f"{API}/service", headers={"Origin": served.url}))[0] == 200


def filtering(text: str) -> dict[str, Any]:
    item = {"users": ["ann"], "accesses": [{"type": "select"}], "rowFilterInfo": {"filterExpr": text}}
    resources = {"database": {"values": ["shop"]}, "table": {"values": ["sales_eu"]}}
    return policy("rows", policyType=2, policyItems=[], resources=resources, rowFilterPolicyItems=[item])


def masking(text: str) -> dict[str, Any]:
    info = {"dataMaskType": "CUSTOM", "valueExpr": text}
    item = {"users": ["ann"], "accesses": [{"type": "select"}], "dataMaskInfo": info}
    return policy("cells", "sales_eu", "card", policyType=1, policyItems=[], dataMaskPolicyItems=[item])


@pytest.mark.parametrize(
    ("plain", "reaching"),
    [
        (filtering("region = 'EMEA'"), filtering("id IN (SELECT id FROM lab.secret)")),
        (masking("left({col}, 2)"), masking("(SELECT max(ssn) FROM lab.secret)")),
    ],
    ids=["filter", "mask"],
)
async def test_a_text_of_a_delegate_reads_no_table(served: Served, plain: Any, reaching: Any) -> None:
    """Whoever writes policies on one table would read any other by a mask of his own."""
    await with_delegate(served)
    status, told = await served.ask("POST", f"{API}/policy", reaching, user="bob")
    assert status == 400
    assert "reads `lab.secret`, and `bob` has delegated admin on some resources only" in told["msgDesc"]
    status, made = await served.ask("POST", f"{API}/policy", plain, user="bob")
    assert status == 200, made
    changed = {**made, **{key: reaching[key] for key in reaching if key.endswith("PolicyItems")}}
    assert (await served.ask("PUT", f"{API}/policy/{made['id']}", changed, user="bob"))[0] == 400
    status, made = await served.ask("PUT", f"{API}/policy/{made['id']}", changed)
    assert status == 200, "an administrator may"
    # What an administrator wrote stays when the delegate changes something else.
    status, told = await served.ask(
        "PUT", f"{API}/policy/{made['id']}", {**made, "description": "mine"}, user="bob"
    )
    assert status == 200, told


@pytest.mark.parametrize(
    "reaching", [filtering("id IN (SELECT id FROM lab.open)"), masking("(SELECT max(a) FROM lab.open)")]
)
async def test_a_delegate_who_may_select_it_all_may_write_it(served: Served, reaching: Any) -> None:
    """Then the text is his: who serves it asks again, each time, whether he still may."""
    await with_delegate(served)
    forged = {**reaching, "options": {OPTION: {"0": "admin"}, "note": "x"}}
    status, made = await served.ask("POST", f"{API}/policy", forged, user="bob")
    assert status == 200, made
    (text,) = {value for item in texts_of(made) for value in item.values() if "lab.open" in str(value)}
    assert made["options"] == {OPTION: {digest(text): "bob"}, "note": "x"}
    _, told = await served.ask("GET", "/plugins/policies/download/dev_hive", user="plugin")
    (downloaded,) = [one for one in told["policies"] if one["name"] == made["name"]]
    assert downloaded["options"][OPTION] == {digest(text): "bob"}
    # Whoever changes something else leaves it his; who writes the text anew has it for his own.
    changed = {**made, "description": "d", "options": {}}
    status, made = await served.ask("PUT", f"{API}/policy/{made['id']}", changed)
    assert status == 200, made
    assert made["options"] == {OPTION: {digest(text): "bob"}}
    resources = {**made["resources"], "table": {**made["resources"]["table"], "values": ["sales_us"]}}
    moved = {**made, "resources": resources, "options": {}}
    status, made = await served.ask("PUT", f"{API}/policy/{made['id']}", moved)
    assert status == 200, made
    assert OPTION not in (made.get("options") or {})


async def test_who_puts_a_text_in_force_needs_what_it_reads(served: Served) -> None:
    """What an administrator keeps out of force, or for other times, reads for nobody who may not."""
    await with_delegate(served)
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    service["configs"] = {"service.admin.users": "sam"}
    assert (await served.ask("PUT", f"{API}/service/name/dev_hive", service))[0] == 200
    ended = [{"endTime": "2019/01/01 00:00:00", "timeZone": "UTC"}]
    condition = {"type": "_expression", "values": ["true"]}
    changes: list[dict[str, Any]] = [
        {"isEnabled": True},
        {"validitySchedules": []},
        {"conditions": [condition]},
    ]
    for reads, may in (("lab.secret", False), ("lab.open", True)):
        for when in changes:
            stored = {**masking(f"(SELECT max(a) FROM {reads})"), "validitySchedules": ended}
            stored["isEnabled"] = "isEnabled" not in when
            status, made = await served.ask("POST", f"{API}/policy", stored)
            assert status == 200, made
            path = f"{API}/policy/{made['id']}"
            status, told = await served.ask("PUT", path, {**made, **when}, user="sam")
            assert (status, "reads `lab.secret`" in str(told)) == ((200, False) if may else (400, True)), told
            _, now = await served.ask("GET", path)
            assert list((now.get("options") or {}).get(OPTION, {}).values()) == (["sam"] if may else [])
            assert (await served.ask("DELETE", path))[0] == 204


def texts_of(made: Any) -> list[dict[str, Any]]:
    return [
        item.get("rowFilterInfo") or item.get("dataMaskInfo")
        for items in ("rowFilterPolicyItems", "dataMaskPolicyItems")
        for item in made.get(items) or ()
    ]


@pytest.mark.parametrize(
    ("items", "may"),
    [("policyItems", True), ("denyPolicyItems", False)],
    ids=["gives", "takes away"],
)
async def test_a_policy_at_fault_delegates_nothing_and_holds_no_delegate_up(
    served: Served, items: str, may: bool
) -> None:
    """Stored as an older version could have: what delegates elsewhere goes on."""
    await with_delegate(served)
    item = {"users": ["bob"], "accesses": [{"type": "select"}], "delegateAdmin": True}
    more: dict[str, Any] = {"policyItems": []} if items != "policyItems" else {}
    status, made = await served.ask(
        "POST", f"{API}/policy", policy("bad", "sales_eu", **{**more, items: [item]})
    )
    assert status == 200, made
    async with served.store.writing("old") as writing:
        stored = await writing.get(ObjectKind.POLICY, made["id"])
        assert stored is not None
        await writing.update(ObjectKind.POLICY, stored, {**stored, "policyPriority": 5})
        await writing.bump(What.POLICY, ["dev_hive"], ChangedObject.UPDATED, stored)
    for table, allowed in (("sales_us", True), ("sales_eu", may)):
        offered = policy(f"on {table}", table, "id")
        status, told = await served.ask("POST", f"{API}/policy", offered, user="bob")
        assert (status == 200) is allowed, told
