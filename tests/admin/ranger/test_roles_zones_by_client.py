"""Ranger's own Python client drives roles and zones."""

from __future__ import annotations

from typing import Any

import pytest
from apache_ranger.client.ranger_client import RangerClient
from apache_ranger.exceptions import RangerServiceException
from apache_ranger.model.grant_revoke_role_request import GrantRevokeRoleRequest
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_security_zone import RangerSecurityZone, RangerSecurityZoneV2
from apache_ranger.model.ranger_service import RangerService

from gateway.admin.ranger.kinds import What
from tests.admin.conftest import Served

SHOP = {"database": ["shop"]}


def service(client: RangerClient, name: str = "dev_hive") -> RangerService:
    return client.create_service(RangerService({"name": name, "type": "hive"}))


def role(name: str, *users: str, **more: Any) -> RangerRole:
    return RangerRole({"name": name, "users": [{"name": u, "isAdmin": u == "keeper"} for u in users], **more})


def refused(work: Any) -> RangerServiceException:
    with pytest.raises(RangerServiceException) as caught:
        work()
    return caught.value


async def version(served: Served, what: What, name: str = "dev_hive") -> int:
    async with served.store.reading() as reading:
        return (await reading.version(name, what)).number


async def test_a_role_is_made_read_changed_and_deleted(served: Served) -> None:
    def work(client: RangerClient) -> None:
        assert client.find_roles() == []
        service(client)
        made = client.create_role("dev_hive", role("readers", "ann", description="they read"))
        assert (made.id, made.version, made.createdByUser) == (1, 1, "admin")
        assert client.get_role_by_id(made.id).users == [{"name": "ann", "isAdmin": False}]
        assert client.get_role("readers", "admin", "dev_hive").id == made.id
        made.groups = [{"name": "analysts", "isAdmin": False}]
        changed = client.update_role(made.id, made)
        assert (changed.version, changed.guid) == (2, made.guid)
        client.create_role("dev_hive", role("outer", roles=[{"name": "readers"}]))
        assert client.get_all_role_names("admin", "dev_hive") == ["outer", "readers"]
        assert client.get_user_roles("ann") == ["outer", "readers"]
        assert client.get_user_roles("bob") == []
        assert [r.name for r in client.find_roles({"roleNamePartial": "read"})] == ["readers"]
        assert "contains it" in refused(lambda: client.delete_role_by_id(made.id)).msgDesc
        client.delete_role("outer", "admin", "dev_hive")
        client.delete_role_by_id(made.id)
        assert client.get_role_by_id(made.id) is None

    await served.drive(work)
    assert await version(served, What.ROLE) >= 5


async def test_bad_roles_are_refused_with_rangers_codes(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        made = client.create_role("dev_hive", role("a", "ann"))
        client.create_role("dev_hive", role("b", roles=[{"name": "a"}]))
        assert "4005" in refused(lambda: client.create_role("dev_hive", role("a", "bob"))).msgDesc
        assert "4003" in refused(lambda: client.create_role("dev_hive", role("", "bob"))).msgDesc
        inside = role("c", roles=[{"name": "nobody"}])
        assert "4007" in refused(lambda: client.create_role("dev_hive", inside)).msgDesc
        circle = role("a", roles=[{"name": "b"}])
        error = refused(lambda: client.update_role(made.id, circle))
        assert (error.statusCode, "a → b → a" in error.msgDesc) == (400, True)
        assert "mismatch" in refused(lambda: client.update_role(made.id, role("a", id=99))).msgDesc

    await served.drive(work)


async def test_a_role_that_something_names_is_not_deleted(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        made = client.create_role("dev_hive", role("readers", "ann"))
        policy = RangerPolicy(
            {
                "service": "dev_hive",
                "name": "p",
                "resources": {"database": {"values": ["shop"]}},
                "policyItems": [{"roles": ["readers"], "accesses": [{"type": "create"}]}],
            }
        )
        client.create_policy(policy)
        assert "policy `p`" in refused(lambda: client.delete_role_by_id(made.id)).msgDesc
        made.name = "others"
        assert "policy `p`" in refused(lambda: client.update_role(made.id, made)).msgDesc

    await served.drive(work)


async def test_roles_are_granted_and_revoked(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        client.create_role("dev_hive", role("readers", "keeper"))
        request = GrantRevokeRoleRequest()
        request.targetRoles, request.users, request.grantor = ["readers"], ["bob"], "admin"
        # An object as the answer would make the client fail.
        assert client.grant_role("dev_hive", request) is None
        assert "bob" in [u["name"] for u in client.get_role("readers", "admin", "dev_hive").users]
        assert client.revoke_role("dev_hive", request) is None
        assert [u["name"] for u in client.get_role("readers", "admin", "dev_hive").users] == ["keeper"]
        request.grantor = "mallory"
        assert refused(lambda: client.grant_role("dev_hive", request)).statusCode == 403
        request.grantor, request.targetRoles = "admin", ["nothing"]
        assert refused(lambda: client.grant_role("dev_hive", request)).statusCode == 400

    def as_keeper(client: RangerClient) -> None:
        request = GrantRevokeRoleRequest()
        request.targetRoles, request.users, request.grantOption = ["readers"], ["carl"], True
        client.grant_role("dev_hive", request)
        assert {"name": "carl", "isAdmin": True} in client.get_role("readers", "keeper", "dev_hive").users
        client.revoke_role("dev_hive", request)
        assert {"name": "carl", "isAdmin": False} in client.get_role("readers", "keeper", "dev_hive").users
        request.grantor = "admin"
        assert refused(lambda: client.grant_role("dev_hive", request)).statusCode == 403

    def as_member(client: RangerClient) -> None:
        request = GrantRevokeRoleRequest()
        request.targetRoles, request.users = ["readers"], ["eve"]
        assert refused(lambda: client.grant_role("dev_hive", request)).statusCode == 403
        assert client.get_user_roles("carl") == ["readers"]
        assert refused(lambda: client.get_user_roles("keeper")).statusCode == 403
        assert [r.name for r in client.find_roles()] == ["readers"]
        assert refused(lambda: client.create_role("dev_hive", role("x", "carl"))).statusCode == 403

    def as_stranger(client: RangerClient) -> None:
        assert client.find_roles() == []
        assert client.get_all_role_names("eve", "dev_hive") == []
        assert refused(lambda: client.get_role("readers", "eve", "dev_hive")).statusCode == 403

    await served.drive(work)
    await served.drive(as_keeper, user="keeper")
    await served.drive(as_member, user="carl")
    await served.drive(as_stranger, user="eve")


async def test_members_are_added_and_removed_by_the_older_endpoints(served: Served) -> None:
    await served.drive(lambda client: [service(client), client.create_role("dev_hive", role("r", "keeper"))])
    base = "/public/v2/api/roles/1"
    status, body = await served.ask(
        "PUT", f"{base}/addUsersAndGroups", {"users": ["ann"], "groups": ["g"], "isAdmin": True}
    )
    assert (status, body["groups"]) == (200, [{"name": "g", "isAdmin": True}])
    status, body = await served.ask("PUT", f"{base}/removeAdminFromUsersAndGroups", {"groups": ["g"]})
    assert (status, body["groups"]) == (200, [{"name": "g", "isAdmin": False}])
    status, body = await served.ask(
        "PUT", f"{base}/removeUsersAndGroups", {"users": ["ann"], "groups": ["g"]}, user="keeper"
    )
    assert (status, [u["name"] for u in body["users"]]) == (200, ["keeper"])
    status, _ = await served.ask("PUT", f"{base}/addUsersAndGroups", {"users": ["eve"]}, user="eve")
    assert status == 403
    status, body = await served.ask("GET", "/roles/roles")
    assert (status, body["totalCount"], body["roles"][0]["name"]) == (200, 1, "r")


def zone(name: str = "z", **more: Any) -> RangerSecurityZone:
    return RangerSecurityZone(
        {
            "name": name,
            "services": {"dev_hive": {"resources": [SHOP]}},
            "adminUsers": ["zadmin"],
            "auditUsers": ["zaudit"],
            **more,
        }
    )


async def test_a_zone_is_made_read_changed_and_deleted(served: Served) -> None:
    def work(client: RangerClient) -> None:
        assert client.find_security_zones() == []
        id_ = service(client).id
        made = client.create_security_zone(zone())
        assert made.version == 1
        assert client.get_security_zone("z").id == made.id
        assert client.get_security_zone_by_id(made.id).services["dev_hive"]["resources"] == [SHOP]
        made.services["dev_hive"]["resources"].append({"database": ["sales"], "table": ["t*"]})
        assert client.update_security_zone_by_id(made.id, made).version == 2
        assert [h.name for h in client.get_security_zone_headers()] == ["z"]
        assert [h.id for h in client.get_security_zone_service_headers(made.id)] == [id_]
        assert client.get_zone_names_for_resource("dev_hive", {"database": "sales", "table": "tx"}) == ["z"]
        assert client.get_zone_names_for_resource("dev_hive", {"database": "hr"}) == []
        assert [z.name for z in client.find_security_zones({"zoneName": "z"})] == ["z"]
        client.delete_security_zone("z")
        assert client.get_security_zone("z") is None

    await served.drive(work)
    status, _ = await served.ask("GET", "/public/v2/api/zones/zone-headers/for-service/99")
    assert status == 404


async def test_bad_zones_are_refused_with_rangers_codes(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        client.create_security_zone(zone())
        hr = {"dev_hive": {"resources": [{"database": ["hr"]}]}}
        cases: list[tuple[str, RangerSecurityZone]] = [
            ("3036", zone(services=hr)),
            ("3038", zone("y", services=hr, adminUsers=[])),
            ("3039", zone("y", services={"dev_hive": {"resources": []}})),
            ("3040", zone("y", services={"other": {"resources": [SHOP]}})),
            ("3042", zone("y", services={"dev_hive": {"resources": [{"table": ["t"]}]}})),
            ("3043", zone("y", services={"dev_hive": {"resources": [{"database": ["*"]}]}})),
            (
                "3046",
                zone("y", services={"dev_hive": {"resources": [{"database": ["sh*"], "table": ["x"]}]}}),
            ),
        ]
        for code, bad in cases:
            error = refused(lambda bad=bad: client.create_security_zone(bad))
            assert (error.statusCode, f"error code[{code}]" in error.msgDesc) == (400, True), code

    await served.drive(work)


async def test_zones_of_the_second_shape(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        made = client.create_security_zone_v2(
            RangerSecurityZoneV2(
                {
                    "name": "z",
                    "admins": [{"type": "USER", "name": "zadmin"}],
                    "auditors": [{"type": "ROLE", "name": "auditors"}],
                    "services": {
                        "dev_hive": {"resources": [{"resource": {"database": {"values": ["shop"]}}}]}
                    },
                }
            )
        )
        assert [(one.type, one.name) for one in made.auditors] == [("ROLE", "auditors")]
        assert client.get_security_zone("z").auditRoles == ["auditors"]
        assert client.get_security_zone_v2("z").id == made.id
        assert client.get_security_zone_v2_by_id(made.id).name == "z"
        found = client.find_security_zones_v2()
        assert (found.totalCount, found.list[0].name) == (1, "z")
        held = client.zone_v2_get_resources("z", "dev_hive")
        assert (held.totalCount, held.list[0].id) == (1, 1)
        client.partial_update_security_zone_v2(
            made.id,
            {
                "resourcesToUpdate": {
                    "dev_hive": {"resources": [{"resource": {"database": {"values": ["sales"]}}}]}
                },
                "adminsToAdd": [{"type": "GROUP", "name": "keepers"}],
            },
        )
        assert client.zone_v2_by_id_get_resources(made.id, "dev_hive").totalCount == 2
        assert client.get_security_zone("z").adminUserGroups == ["keepers"]
        made = client.get_security_zone_v2("z")
        made.description = "changed"
        # The client reads `{"values": ["shop"]}` as the list `["values"]`: that must not become a database.
        error = refused(lambda: client.update_security_zone_v2(made.id, made))
        assert "an object is expected" in error.msgDesc
        held = {"resources": [{"resource": {"database": {"values": ["shop"]}}}]}
        changed = RangerSecurityZoneV2({**made, "services": {"dev_hive": held}})
        assert client.update_security_zone_v2(made.id, changed).description == "changed"

    await served.drive(work)
    status, body = await served.ask("PUT", "/public/v2/api/zones-v2/1/partial", {"description": "x"})
    assert (status, body) == (200, True)
    status, _ = await served.ask("GET", "/public/v2/api/zones-v2/name/z/resources/other")
    assert status == 404


def zoned(name: str, zone_name: str) -> RangerPolicy:
    return RangerPolicy(
        {
            "service": "dev_hive",
            "name": name,
            "zoneName": zone_name,
            "resources": {"database": {"values": ["shop"]}},
            "policyItems": [{"users": ["ann"], "accesses": [{"type": "create"}]}],
        }
    )


async def test_policies_follow_their_zone(served: Served) -> None:
    def begin(client: RangerClient) -> None:
        service(client)
        client.create_security_zone(zone())
        client.create_policy(zoned("p", "z"))
        assert client.get_policy_by_name_zone("dev_hive", "p", "z").zoneName == "z"

    await served.drive(begin)
    before = await version(served, What.POLICY)

    def rename(client: RangerClient) -> None:
        body = client.get_security_zone("z")
        body.name = "y"
        client.update_security_zone_by_id(body.id, body)
        assert client.get_policy_by_name_zone("dev_hive", "p", "y").zoneName == "y"
        assert client.get_policy_by_name_zone("dev_hive", "p", "z") is None

    await served.drive(rename)
    assert await version(served, What.POLICY) > before

    def delete(client: RangerClient) -> None:
        client.delete_security_zone("y")
        assert client.find_policies({"serviceName": "dev_hive"}) == []

    await served.drive(delete)


async def test_who_may_do_what_with_zones(served: Served) -> None:
    await served.drive(lambda client: [service(client), client.create_security_zone(zone())])

    def as_admin_of_zone(client: RangerClient) -> None:
        assert client.get_security_zone("z").name == "z"
        client.create_policy(zoned("p", "z"))
        assert refused(lambda: client.delete_security_zone("z")).statusCode == 403
        assert refused(lambda: client.create_policy(zoned("q", ""))).statusCode == 403

    def as_auditor(client: RangerClient) -> None:
        assert [z.name for z in client.find_security_zones()] == ["z"]
        assert client.get_policy_by_name_zone("dev_hive", "p", "z").name == "p"
        assert refused(lambda: client.create_policy(zoned("q", "z"))).statusCode == 403

    def as_stranger(client: RangerClient) -> None:
        assert client.find_security_zones() == []
        assert client.get_security_zone_headers() == []
        assert refused(lambda: client.get_security_zone("z")).statusCode == 403
        assert refused(lambda: client.create_security_zone(zone("y"))).statusCode == 403

    await served.drive(as_admin_of_zone, user="zadmin")
    await served.drive(as_auditor, user="zaudit")
    await served.drive(as_stranger, user="eve")
