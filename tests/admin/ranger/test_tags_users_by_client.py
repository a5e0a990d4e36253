"""Ranger's own Python client drives tags, users and groups; plugins find what was changed."""

from __future__ import annotations

from typing import Any

import pytest
from apache_ranger.client.ranger_client import RangerClient, RangerClientPrivate
from apache_ranger.client.ranger_user_mgmt_client import RangerUserMgmtClient
from apache_ranger.exceptions import RangerServiceException
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_role import RangerRole
from apache_ranger.model.ranger_service import RangerService
from apache_ranger.model.ranger_service_tags import RangerServiceTags
from apache_ranger.model.ranger_user_mgmt import RangerGroup, RangerGroupUser, RangerUser

from tests.admin.conftest import PASSWORD, Served

SSN = {"database": {"values": ["hr"]}, "table": {"values": ["emp"]}, "column": {"values": ["ssn"]}}


def service(client: RangerClient, name: str = "dev_hive") -> RangerService:
    return client.create_service(RangerService({"name": name, "type": "hive"}))


def refused(work: Any) -> RangerServiceException:
    with pytest.raises(RangerServiceException) as caught:
        work()
    return caught.value


def tagged(op: str = "set", kind: str = "PII", **more: Any) -> RangerServiceTags:
    return RangerServiceTags(
        {
            "op": op,
            "tagDefinitions": {"0": {"name": kind, "attributeDefs": [{"name": "level", "type": "int"}]}},
            "tags": {"0": {"type": kind, "attributes": {"level": "3"}}},
            "serviceResources": [{"id": 0, "resourceElements": SSN}],
            "resourceToTagIds": {"0": [0]},
            **more,
        }
    )


async def test_tags_are_imported_read_back_and_downloaded(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        assert client.get_service_tags("dev_hive").tags is None
        client.import_service_tags("dev_hive", tagged())
        found = client.get_service_tags("dev_hive")
        assert [t.type for t in found.tags.values()] == ["PII"]
        assert found.serviceResources[0].resourceElements["column"]["values"] == ["ssn"]
        assert len(found.resourceToTagIds) == 1
        bad = tagged(resourceToTagIds={"0": [5]}, serviceResources=[{"id": 0, "resourceElements": {}}])
        error = refused(lambda: client.import_service_tags("dev_hive", bad))
        assert (error.statusCode, "(1)" in error.msgDesc) == (400, True)
        assert "9040" in refused(lambda: client.import_service_tags("dev_hive", tagged("burn"))).msgDesc
        assert client.get_service_tags("nothing") is None

    await served.drive(work)
    path = "/tags/download/dev_hive"
    status, body = await served.ask("GET", f"{path}?lastKnownVersion=-1", user="plugin")
    assert status == 200
    assert body["tags"]["1"]["attributes"] == {"level": "3"}
    known = body["tagVersion"]
    assert (await served.ask("GET", f"{path}?lastKnownVersion={known}", user="plugin"))[0] == 304
    await served.drive(lambda client: client.import_service_tags("dev_hive", tagged("delete")))
    status, body = await served.ask("GET", f"{path}?lastKnownVersion={known}", user="plugin")
    assert (status, body["serviceResources"], body["tags"]) == (200, [], {})


async def test_only_who_administers_a_service_changes_its_tags(served: Served) -> None:
    await served.drive(service)

    def as_stranger(client: RangerClient) -> None:
        assert refused(lambda: client.import_service_tags("dev_hive", tagged())).statusCode == 403
        assert refused(lambda: client.get_service_tags("dev_hive")).statusCode == 403

    await served.drive(as_stranger, user="eve")


async def test_users_and_groups(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        users = RangerUserMgmtClient(client)
        assert users.find_users().list == []
        group = users.create_group(RangerGroup({"name": "analysts", "otherAttributes": '{"site": "north"}'}))
        ann = users.create_user(
            RangerUser(
                {
                    "name": "ann",
                    "password": "secret-1",
                    "otherAttributes": '{"dept": "hr"}',
                    "groupIdList": [group.id],
                }
            )
        )
        assert ann.groupNameList == ["analysts"]
        assert users.get_user("ann").id == ann.id
        assert users.get_user_by_id(ann.id).name == "ann"
        assert users.get_groups_for_user("ann") == ["analysts"]
        assert users.get_users_in_group("analysts") == ["ann"]
        assert users.get_group("analysts").id == group.id
        assert users.get_group_by_id(group.id).name == "analysts"
        bob = users.create_user(RangerUser({"name": "bob"}))
        member = users.create_group_user(
            RangerGroupUser({"name": "analysts", "parentGroupId": group.id, "userId": bob.id})
        )
        assert [m.userId for m in users.find_group_users({"userId": bob.id}).list] == [bob.id]
        users.delete_group_user_by_id(member.id)
        assert users.get_users_in_group("analysts") == ["ann"]
        bob.description = "changed"
        assert users.update_user_by_id(bob.id, bob).description == "changed"
        group.description = "they analyse"
        assert users.update_group_by_id(group.id, group).description == "they analyse"
        assert "already exists" in refused(lambda: users.create_user(RangerUser({"name": "ann"}))).msgDesc
        assert refused(lambda: users.create_user(RangerUser({"name": " "}))).statusCode == 400
        bad = RangerUser({"name": "x", "otherAttributes": "[1]"})
        assert "otherAttributes" in refused(lambda: users.create_user(bad)).msgDesc
        bob.name = "robert"
        assert "renamed" in refused(lambda: users.update_user_by_id(bob.id, bob)).msgDesc
        users.delete_user_by_id(bob.id)
        assert users.get_user("bob") is None

    await served.drive(work)
    status, body = await served.ask(
        "GET", "/xusers/download/dev_hive?lastKnownUserStoreVersion=-1", user="plugin"
    )
    assert status == 200
    assert body["userAttrMapping"]["ann"]["dept"] == "hr"
    assert body["groupAttrMapping"]["analysts"]["site"] == "north"
    assert body["userGroupMapping"] == {"ann": ["analysts"]}
    assert "secret-1" not in str(await served.ask("GET", "/xusers/users"))
    assert (await served.ask("GET", "/xusers/users", user="eve"))[0] == 403


async def test_a_user_that_something_names_is_deleted_by_force_only_and_then_everywhere(
    served: Served,
) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        users = RangerUserMgmtClient(client)
        ann = users.create_user(RangerUser({"name": "ann"}))
        client.create_policy(
            RangerPolicy(
                {
                    "service": "dev_hive",
                    "name": "p",
                    "resources": SSN,
                    "policyItems": [
                        {"users": ["ann"], "accesses": [{"type": "select"}]},
                        {"users": ["ann", "bob"], "accesses": [{"type": "update"}]},
                    ],
                }
            )
        )
        client.create_role("dev_hive", RangerRole({"name": "r", "users": [{"name": "ann"}, {"name": "bob"}]}))
        assert "uses it" in refused(lambda: users.delete_user_by_id(ann.id)).msgDesc
        private = RangerClientPrivate(client.client_http.url, ("admin", PASSWORD))
        with private.client_http.session:
            private.delete_user("ann", "admin")
        items = client.get_policy("dev_hive", "p").policyItems
        assert [item.users for item in items] == [["bob"]]
        assert client.get_role("r", "admin", "dev_hive").users == [{"name": "bob", "isAdmin": False}]
        assert users.get_user("ann") is None

    await served.drive(work)


async def test_a_users_groups_count_for_its_roles(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        users = RangerUserMgmtClient(client)
        users.create_group(RangerGroup({"name": "analysts"}))
        users.create_user(RangerUser({"name": "ann", "groupNameList": ["analysts"]}))
        client.create_role("dev_hive", RangerRole({"name": "r", "groups": [{"name": "analysts"}]}))
        assert client.get_user_roles("ann") == ["r"]

    await served.drive(work)


async def test_plugins_that_downloaded_are_listed(served: Served) -> None:
    await served.drive(service)
    await served.ask(
        "GET", "/plugins/policies/download/dev_hive?pluginId=hiveServer2@node7-dev_hive", user="plugin"
    )
    status, body = await served.ask("GET", "/public/v2/api/plugins/info")
    assert status == 200
    assert (body[0]["appType"], body[0]["hostName"], body[0]["serviceType"]) == (
        "hiveServer2",
        "node7",
        "hive",
    )
    status, body = await served.ask("GET", "/public/v2/api/plugins/info?pluginHostName=other")
    assert (status, body) == (200, [])
    assert await served.ask("GET", "/public/v2/api/plugins/info", user="eve") == (200, [])


async def test_a_log_level_is_taken_and_changes_nothing(served: Served) -> None:
    path = "/admin/set-logger-level"
    assert (await served.ask("POST", path, {"loggerName": "org.apache", "logLevel": "debug"}))[0] == 200
    assert (await served.ask("POST", path, {"loggerName": "x", "logLevel": "loud"}))[0] == 400
    assert (await served.ask("POST", path, {"loggerName": "x", "logLevel": "INFO"}, user="eve"))[0] == 403
