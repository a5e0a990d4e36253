"""Plugins get everything, the difference, or nothing; what they get is what the policy engine loads."""

from __future__ import annotations

from typing import Any

from gateway.policy.ranger import evaluate, load
from tests.admin.conftest import Served

API = "/public/v2/api"
POLICIES = "/plugins/policies/download/dev_hive"
ORDERS = {"database": {"values": ["shop"]}, "table": {"values": ["orders"]}, "column": {"values": ["*"]}}


def policy(name: str = "orders", **more: Any) -> dict[str, Any]:
    return {
        "service": "dev_hive",
        "name": name,
        "resources": {**ORDERS, "table": {"values": [name]}},
        "policyItems": [{"users": ["ann"], "accesses": [{"type": "select"}]}],
        **more,
    }


async def make(served: Served, path: str, body: dict[str, Any]) -> dict[str, Any]:
    status, made = await served.ask("POST", API + path, body)
    assert status == 200, made
    return dict(made)


async def with_service(served: Served) -> None:
    await make(served, "/service", {"name": "dev_hive", "type": "hive"})


async def download(served: Served, known: int = -1, *, deltas: bool = False, path: str = POLICIES) -> Any:
    query = f"?lastKnownVersion={known}&supportsPolicyDeltas={str(deltas).lower()}&pluginId=hive@h1-dev_hive"
    status, body = await served.ask("GET", path + query, user="plugin")
    return body if status == 200 else status


async def test_the_whole_is_what_the_engine_decides_with(served: Served) -> None:
    await with_service(served)
    made = await make(served, "/policy", policy())
    await make(served, "/policy", policy("off", isEnabled=False))
    await make(served, "/policy", {
        "service": "dev_tag", "name": "pii", "resources": {"tag": {"values": ["PII"]}},
        "denyPolicyItems": [{"groups": ["public"], "accesses": [{"type": "hive:select"}]}],
    })  # fmt: skip
    await make(served, "/roles", {"name": "clerks", "users": [{"name": "bob"}]})
    await make(served, "/policy", policy(
        "leads", policyItems=[{"roles": ["clerks"], "accesses": [{"type": "select"}]}]
    ))  # fmt: skip
    whole = await download(served)
    assert [one["name"] for one in whole["policies"]] == ["orders", "leads"]
    assert [one["name"] for one in whole["tagPolicies"]["policies"]] == ["pii"]
    assert (whole["serviceName"], whole["policyVersion"]) == ("dev_hive", 5)
    assert whole["serviceDef"]["name"] == "hive"

    status, roles = await served.ask("GET", "/roles/download/dev_hive?lastKnownRoleVersion=-1", user="plugin")
    assert (status, [one["name"] for one in roles["rangerRoles"]]) == (200, ["clerks"])
    policies = load({**whole, "roles": roles})

    def asked(user: str, table: str) -> tuple[bool, int]:
        resource = {"elements": {"database": "shop", "table": table, "column": "id"}}
        found = evaluate(policies, {"resource": resource, "accessType": "select", "user": user})
        return found["isAllowed"], found["policyId"]

    assert asked("ann", "orders") == (True, made["id"])
    assert asked("bob", "orders") == (False, -1)
    assert asked("bob", "leads")[0]
    assert not asked("ann", "off")[0]


async def test_nothing_new_is_304_and_any_other_version_gets_everything(served: Served) -> None:
    await with_service(served)
    await make(served, "/policy", policy())
    assert await download(served, 2) == 304
    assert (await download(served, 1))["policyVersion"] == 2
    assert (await download(served, 99))["policyVersion"] == 2


async def test_a_plugin_that_takes_differences_gets_the_last_change_of_each_policy(served: Served) -> None:
    await with_service(served)
    first = await make(served, "/policy", policy())
    second = await make(served, "/policy", policy("leads"))
    known = (await download(served))["policyVersion"]
    changed = {**first, "description": "new"}
    assert (await served.ask("PUT", f"{API}/policy/{first['id']}", changed))[0] == 200
    assert (await served.ask("DELETE", f"{API}/policy/{second['id']}"))[0] == 204
    third = await make(served, "/policy", policy("third"))
    assert (await served.ask("PUT", f"{API}/policy/{third['id']}", {**third, "description": "3"}))[0] == 200

    found = await download(served, known, deltas=True)
    assert "policies" not in found
    told = {delta["id"]: delta["changeType"] for delta in found["policyDeltas"]}
    assert told[first["id"]] == 1
    assert told[second["id"]] == 2
    assert third["id"] in told
    assert found["policyVersion"] == known + 4
    assert await download(served, known + 4, deltas=True) == 304


async def test_a_policy_on_tags_is_a_difference_of_the_services_that_use_the_tags(served: Served) -> None:
    await with_service(served)
    known = (await download(served))["policyVersion"]
    made = await make(served, "/policy", {
        "service": "dev_tag", "name": "pii", "resources": {"tag": {"values": ["PII"]}},
        "policyItems": [{"users": ["ann"], "accesses": [{"type": "hive:select"}]}],
    })  # fmt: skip
    found = await download(served, known, deltas=True)
    assert [(one["id"], one["policy"]["serviceType"]) for one in found["policyDeltas"]] == [
        (made["id"], "tag")
    ]


async def test_what_is_no_change_of_a_policy_is_sent_whole(served: Served) -> None:
    await with_service(served)
    await make(served, "/policy", policy())
    known = (await download(served))["policyVersion"]
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    service["configs"] = {"ranger.plugin.super.users": "root"}
    assert (await served.ask("PUT", f"{API}/service/name/dev_hive", service))[0] == 200
    found = await download(served, known, deltas=True)
    assert [one["name"] for one in found["policies"]] == ["orders"]
    assert found["serviceConfig"] == {"ranger.plugin.super.users": "root"}

    known = found["policyVersion"]
    await make(served, "/policy", policy("leads"))
    assert (await served.ask("DELETE", f"{API}/server/policydeltas?days=1"))[0] == 204
    assert "policyDeltas" in await download(served, known, deltas=True)


async def test_a_service_made_anew_does_not_reach_a_version_that_a_plugin_has(served: Served) -> None:
    await with_service(served)
    await make(served, "/policy", policy())
    known = (await download(served))["policyVersion"]
    assert (await served.ask("DELETE", f"{API}/service/name/dev_hive"))[0] == 204
    status, gone = await served.ask("GET", POLICIES, user="plugin")
    assert (status, gone) == (404, "RANGER_ERROR_SERVICE_NOT_FOUND: ServiceName=dev_hive")
    await with_service(served)
    assert (await download(served, known))["policyVersion"] > known


async def test_a_disabled_service_has_a_version_and_no_policies(served: Served) -> None:
    await with_service(served)
    await make(served, "/policy", policy())
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    assert (await served.ask("PUT", f"{API}/service/name/dev_hive", {**service, "isEnabled": False}))[
        0
    ] == 200
    found = await download(served)
    assert "policies" not in found
    assert found["policyVersion"] == 3


async def test_downloads_are_for_plugins_and_those_whom_the_service_names(served: Served) -> None:
    await with_service(served)
    assert (await served.ask("GET", POLICIES, user="ann"))[0] == 403
    assert (await served.ask("GET", "/plugins/policies/download/nothing", user="ann"))[0] == 403
    _, service = await served.ask("GET", f"{API}/service/name/dev_hive")
    service["configs"] = {"policy.download.auth.users": "hive, ann"}
    assert (await served.ask("PUT", f"{API}/service/name/dev_hive", service))[0] == 200
    assert (await served.ask("GET", POLICIES, user="ann"))[0] == 200
    assert (await served.ask("GET", "/plugins/secure/policies/download/dev_hive", user="ann"))[0] == 200
    assert (await served.ask("GET", "/tags/download/dev_hive", user="ann"))[0] == 403
    assert (await served.ask("GET", "/tags/secure/download/dev_hive", user="plugin"))[0] == 200


async def test_who_downloads_is_known(served: Served) -> None:
    await with_service(served)
    await download(served)
    await download(served, 1)
    found = await served.store.plugins()
    assert [(one["service"], one["plugin"]) for one in found] == [("dev_hive", "hive@h1-dev_hive")]
    assert found[0]["info"]["policyActiveVersion"] == "1"
    assert found[0]["info"]["policyDownloadedVersion"] == "1"


async def test_data_sharing_has_no_address_here_as_in_an_older_admin(served: Served) -> None:
    await with_service(served)
    for path in ("/gds/download/dev_hive", "/gds/secure/download/dev_hive"):
        for user in ("plugin", "admin"):
            status, _ = await served.ask("GET", f"{path}?lastKnownGdsVersion=-1", user=user)
            assert status == 404
