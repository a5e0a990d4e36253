"""What is written through the API, downloaded as a plugin does and given to the policy engine, is decided."""

from __future__ import annotations

from typing import Any

from apache_ranger.client.ranger_client import RangerClient
from apache_ranger.client.ranger_user_mgmt_client import RangerUserMgmtClient
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_security_zone import RangerSecurityZone
from apache_ranger.model.ranger_service import RangerService
from apache_ranger.model.ranger_service_tags import RangerServiceTags
from apache_ranger.model.ranger_user_mgmt import RangerGroup, RangerUser

from gateway.model.policy import PolicySet
from gateway.policy.ranger import evaluate, load
from tests.admin.conftest import Served
from tests.admin.ranger.objects import item, resources


def policy(name: str, path: str, **more: Any) -> RangerPolicy:
    return RangerPolicy({"service": "dev_hive", "name": name, "resources": resources(path), **more})


def fill(client: RangerClient) -> None:
    client.create_service(
        RangerService({"name": "dev_hive", "type": "hive", "configs": {"ranger.plugin.super.users": "root"}})
    )
    users = RangerUserMgmtClient(client)
    users.create_group(RangerGroup({"name": "analysts"}))
    users.create_user(RangerUser({"name": "ann", "groupNameList": ["analysts"]}))
    client.create_role("dev_hive", RangerRole({"name": "inner", "groups": [{"name": "analysts"}]}))
    client.create_role("dev_hive", RangerRole({"name": "outer", "roles": [{"name": "inner"}]}))
    client.create_policy(policy("shop", "shop/*/*", policyItems=[item("SELECT", roles="outer")]))
    hidden = [item("select", groups="public", dataMaskInfo={"dataMaskType": "MASK_HASH"})]
    client.create_policy(policy("mask", "shop/orders/card", policyType=1, dataMaskPolicyItems=hidden))
    rows = [item("select", users="ann", rowFilterInfo={"filterExpr": "country = 'US'"})]
    client.create_policy(policy("rows", "shop/orders", policyType=2, rowFilterPolicyItems=rows))
    client.create_policy(policy("off", "crm/*/*", isEnabled=False, policyItems=[item("select", users="ann")]))
    client.create_security_zone(
        RangerSecurityZone(
            {
                "name": "vault",
                "services": {"dev_hive": {"resources": [{"database": ["vault"]}]}},
                "adminUsers": ["zoe"],
                "auditUsers": ["zoe"],
            }
        )
    )
    client.create_policy(
        policy("in vault", "vault/*/*", zoneName="vault", policyItems=[item("select", users="zoe")])
    )
    client.create_policy(policy("all", "*/*/*", policyItems=[item("select", users="bob")]))
    tags = {
        "op": "set",
        "tags": {"0": {"type": "PII"}},
        "serviceResources": [{"id": 0, "resourceElements": resources("shop/people/ssn")}],
        "resourceToTagIds": {"0": [0]},
    }
    client.import_service_tags("dev_hive", RangerServiceTags(tags))
    client.create_policy(
        RangerPolicy(
            {
                "service": "dev_tag",
                "name": "pii",
                "resources": {"tag": {"values": ["PII"]}},
                "denyPolicyItems": [item("hive:select", groups="public")],
            }
        )
    )


async def downloaded(served: Served) -> PolicySet:
    document: dict[str, Any] = {}
    for key, path in (
        ("", "/plugins/policies/download/dev_hive"),
        ("tags", "/tags/download/dev_hive"),
        ("roles", "/roles/download/dev_hive"),
        ("userStore", "/xusers/download/dev_hive"),
    ):
        status, body = await served.ask("GET", path, user="plugin")
        assert status == 200
        document = {**body, **document} if not key else {**document, key: body}
    return load(document)


def asked(policies: PolicySet, path: str, user: str, *groups: str, access: str = "select") -> dict[str, Any]:
    elements = {name: one["values"][0] for name, one in resources(path).items()}
    return evaluate(
        policies,
        {"resource": {"elements": elements}, "accessType": access, "user": user, "userGroups": list(groups)},
    )


async def test_what_was_written_is_decided(served: Served) -> None:
    await served.drive(fill)
    policies = await downloaded(served)

    def allowed(path: str, user: str, *groups: str) -> bool:
        return bool(asked(policies, path, user, *groups)["isAllowed"])

    assert allowed("shop/orders/total", "ann", "analysts")
    assert not allowed("shop/orders/total", "eve")
    assert allowed("shop/orders/total", "root")
    assert not allowed("crm/leads/id", "ann", "analysts")
    assert not allowed("shop/people/ssn", "ann", "analysts"), "a tag denies"
    assert allowed("shop/people/name", "ann", "analysts")
    assert not allowed("vault/a/b", "bob"), "the zone has policies of its own"
    assert allowed("vault/a/b", "zoe")
    mask = asked(policies, "shop/orders/card", "ann", "analysts")["dataMask"]
    assert mask["maskType"] == "MASK_HASH"
    rows = asked(policies, "shop/orders", "ann", "analysts")["rowFilter"]
    assert rows["filterExpr"] == "country = 'US'"
