"""GRANT and REVOKE of services; exports and imports of policies and roles over HTTP."""

from __future__ import annotations

from typing import Any

import aiohttp
import orjson
from apache_ranger.client.ranger_client import RangerClient
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_service import RangerService

from tests.admin.conftest import Served

ORDERS = {"database": "shop", "table": "orders", "column": "*"}
EXPORT = "/plugins/policies/exportJson"
IMPORT = "/plugins/policies/importPoliciesFromFile"


def service(client: RangerClient, name: str = "dev_hive", **configs: str) -> RangerService:
    return client.create_service(RangerService({"name": name, "type": "hive", "configs": configs}))


def policy(name: str, table: str = "orders", **more: Any) -> RangerPolicy:
    return RangerPolicy(
        {
            "service": "dev_hive",
            "name": name,
            "resources": {
                "database": {"values": ["shop"]},
                "table": {"values": [table]},
                "column": {"values": ["*"]},
            },
            "policyItems": [{"users": ["ann"], "accesses": [{"type": "select"}]}],
            **more,
        }
    )


def request(*accesses: str, users: str = "bob", **more: Any) -> dict[str, Any]:
    return {"grantor": "admin", "resource": ORDERS, "users": users.split(), "accessTypes": accesses, **more}


async def granted(served: Served) -> list[dict[str, Any]]:
    status, found = await served.ask("GET", "/public/v2/api/service/dev_hive/policy")
    assert status == 200
    return [p for p in found if p["resources"]["database"]["values"] == ["shop"]]


async def test_a_grant_makes_a_policy_and_further_ones_change_it(served: Served) -> None:
    await served.drive(service)
    url = "/plugins/services/grant/dev_hive"
    assert (await served.ask("POST", url, request("SELECT", delegateAdmin=True)))[0] == 200
    made = (await granted(served))[0]
    assert made["name"].startswith("grant-")
    assert made["policyItems"][0]["accesses"] == [{"type": "select", "isAllowed": True}]
    assert (await served.ask("POST", url, request("update", users="carl")))[0] == 200
    assert len(await granted(served)) == 1
    url = "/plugins/secure/services/revoke/dev_hive"
    assert (await served.ask("POST", url, request("select")))[0] == 200
    items = (await granted(served))[0]["policyItems"]
    assert [item["users"] for item in items] == [["carl"]]
    status, body = await served.ask("POST", url, request("fly"))
    assert status == 200, body
    status, body = await served.ask("POST", url.replace("revoke", "grant"), request("fly"))
    assert (status, "3022" in body["msgDesc"]) == (400, True)


async def test_a_grantor_needs_the_right_and_nobody_speaks_for_another(served: Served) -> None:
    await served.drive(lambda client: service(client, **{"service.admin.users": "hive"}))
    grant, revoke = ("/plugins/services/grant/dev_hive", "/plugins/services/revoke/dev_hive")
    assert (await served.ask("POST", grant, request("select", users="dan", delegateAdmin=True)))[0] == 200
    ask = request("select", users="eve", grantor="dan")
    assert (await served.ask("POST", grant, ask, user="dan"))[0] == 200
    assert (await served.ask("POST", grant, ask, user="hive"))[0] == 200
    assert (await served.ask("POST", grant, ask, user="mallory"))[0] == 403
    more = request("drop", users="eve", grantor="dan")
    assert (await served.ask("POST", grant, more, user="dan"))[0] == 403
    assert (await served.ask("POST", grant, request("select", grantor="eve"), user="hive"))[0] == 403
    assert (await served.ask("POST", revoke, request("select", grantor="eve"), user="eve"))[0] == 403
    assert (await served.ask("POST", revoke.replace("dev_", "no_"), ask))[0] == 404


async def test_grants_that_say_nothing_are_refused(served: Served) -> None:
    await served.drive(service)
    url = "/plugins/services/grant/dev_hive"
    for bad in (request(), request("select", users=""), {**request("select"), "resource": {}}):
        assert (await served.ask("POST", url, bad))[0] == 400
    assert (await served.ask("POST", url, {**request("select"), "users": "bob"}))[0] == 400


def form(**files: object) -> aiohttp.FormData:
    data = aiohttp.FormData()
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else orjson.dumps(content)
        data.add_field(name, raw, filename=f"{name}.json", content_type="application/json")
    return data


async def upload(served: Served, path: str, **files: object) -> tuple[int, Any]:
    return await served.send("POST", path, form(**files))


async def exported(served: Served, query: str = "") -> dict[str, Any]:
    status, body = await served.ask("GET", f"{EXPORT}?serviceName=dev_hive{query}")
    assert status == 200
    assert set(body) == {"metaDataInfo", "policies"}
    found: dict[str, Any] = body
    return found


async def test_policies_go_out_and_come_in_elsewhere(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        service(client, "copy_hive")
        client.create_policy(policy("a"))
        client.create_policy(policy("b", "customers", policyPriority=1))

    await served.drive(work)
    document = await exported(served)
    assert [p["name"] for p in document["policies"]] == ["a", "b"]
    assert document["metaDataInfo"]["Exported by"] == "admin"
    assert (await served.ask("GET", f"{EXPORT}?serviceName=copy_hive"))[0] == 204
    status, body = await upload(served, IMPORT, file=document, servicesMapJson={"dev_hive": "copy_hive"})
    assert status == 204, body

    def check(client: RangerClient) -> None:
        copied = client.get_policies_in_service("copy_hive")
        assert [(p.name, p.policyPriority, p.version) for p in copied] == [("a", 0, 1), ("b", 1, 1)]
        assert len(client.get_policies_in_service("dev_hive")) == 2
        client.create_policy(policy("c", "leads", service="copy_hive"))

    await served.drive(check)
    status, body = await upload(served, IMPORT, file=document, servicesMapJson={"dev_hive": "copy_hive"})
    assert (status, "3006" in body["msgDesc"]) == (400, True)
    path = f"{IMPORT}?updateIfExists=true"
    assert (await upload(served, path, file=document, servicesMapJson={"dev_hive": "copy_hive"}))[0] == 204
    path = f"{IMPORT}?isOverride=true"
    assert (await upload(served, path, file=document, servicesMapJson={"dev_hive": "copy_hive"}))[0] == 204

    def overridden(client: RangerClient) -> None:
        assert [p.name for p in client.get_policies_in_service("copy_hive")] == ["a", "b"]

    await served.drive(overridden)


async def test_an_import_with_a_fault_changes_nothing_and_tells_all(served: Served) -> None:
    await served.drive(lambda client: [service(client), client.create_policy(policy("kept"))])
    bad = [
        policy("good", "customers"),
        policy("one", "t1", policyItems=[{"users": ["ann"], "accesses": [{"type": "fly"}]}]),
        policy("two", "t2", policyPriority=9),
    ]
    status, body = await upload(served, f"{IMPORT}?isOverride=true", file={"policies": bad})
    assert status == 400
    assert "policies[1] (`one`)" in body["msgDesc"]
    assert "policies[2] (`two`)" in body["msgDesc"]
    names = [p["name"] for p in await granted(served)]
    assert names == ["kept"]


async def test_imports_that_cannot_be_read(served: Served) -> None:
    await served.drive(service)
    policies = {"policies": [policy("a")]}
    for files in (
        {"file": b'{"policies": [{"na'},
        {"file": {"policies": "none"}},
        {"file": {"policies": [{"name": {"a": 1}}]}},
        {"other": policies},
        {"file": policies, "servicesMapJson": ["a"]},
        {"file": policies, "servicesMapJson": {"some": "where"}},
        {"file": {"policies": [policy("a", service="nothing")]}},
    ):
        status, body = await upload(served, IMPORT, **files)
        assert (status, body["statusCode"]) == (400, 1), files
    assert (await served.ask("POST", IMPORT, policies))[0] == 400
    status, _ = await served.send(
        "POST", IMPORT, b"--x\r\nbroken", {"Content-Type": "multipart/form-data; boundary=x"}
    )
    assert status == 400
    assert await granted(served) == []


async def test_who_may_not_write_policies_may_not_import_them(served: Served) -> None:
    await served.drive(service)
    status, _ = await served.send("POST", IMPORT, form(file={"policies": [policy("a")]}), user="eve")
    assert status == 403
    assert await granted(served) == []


async def test_roles_go_out_and_come_in(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        client.create_role("dev_hive", RangerRole({"name": "inner", "users": [{"name": "ann"}]}))
        client.create_role("dev_hive", RangerRole({"name": "outer", "roles": [{"name": "inner"}]}))

    await served.drive(work)
    status, document = await served.ask("GET", "/roles/roles/exportJson")
    assert (status, [r["name"] for r in document["roles"]]) == (200, ["inner", "outer"])

    def delete(client: RangerClient) -> None:
        client.delete_role("outer", "admin", "dev_hive")
        client.delete_role("inner", "admin", "dev_hive")

    await served.drive(delete)
    document["roles"].reverse()
    path = "/roles/roles/importRolesFromFile"
    assert (await upload(served, path, file=document))[0] == 204
    assert (await upload(served, path, file=document))[0] == 400
    assert (await upload(served, f"{path}?updateIfExists=true", file=document))[0] == 204
    status, document = await served.ask("GET", "/roles/roles/exportJson?roleName=outer")
    assert document["roles"][0]["roles"] == [{"name": "inner", "isAdmin": False}]
    assert (await served.ask("GET", "/roles/roles/exportJson", user="eve"))[0] == 403
