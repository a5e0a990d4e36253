"""Ranger's own Python client drives services and policies as it does with a Ranger Admin."""

from __future__ import annotations

from typing import Any

import pytest
from apache_ranger.client.ranger_client import RangerClient
from apache_ranger.exceptions import RangerServiceException
from apache_ranger.model.ranger_policy import RangerPolicy
from apache_ranger.model.ranger_service import RangerService

from tests.admin.conftest import Served, shipped_names

ORDERS = {"database": {"values": ["shop"]}, "table": {"values": ["orders"]}, "column": {"values": ["*"]}}


def service(client: RangerClient, name: str = "dev_hive") -> RangerService:
    made = client.create_service(RangerService({"name": name, "type": "hive"}))
    assert made is not None
    return made


def policy(name: str = "orders", **more: Any) -> RangerPolicy:
    return RangerPolicy(
        {
            "service": "dev_hive",
            "name": name,
            "resources": ORDERS,
            "policyItems": [{"users": ["ann"], "accesses": [{"type": "select"}]}],
            **more,
        }
    )


async def test_definitions_are_there_and_can_be_made_changed_and_deleted(served: Served) -> None:
    def work(client: RangerClient) -> None:
        assert {"hive", "spark", "tag"} <= {one.name for one in client.find_service_defs()}
        assert client.get_service_def("hive").id == 3
        made = client.create_service_def(
            {
                "name": "lake",
                "resources": [{"itemId": 1, "name": "path", "level": 10}],
                "accessTypes": [{"itemId": 1, "name": "read", "category": "READ"}],
            }
        )
        assert (made.version, made.createdBy) == (1, "admin")
        made.description = "a lake"
        assert client.update_service_def("lake", made).description == "a lake"
        assert client.get_service_def_by_id(made.id).version == 2
        tag = client.get_service_def("tag")
        assert "lake:read" in {one["name"] for one in tag.accessTypes}
        client.delete_service_def("lake")
        assert client.get_service_def("lake") is None
        tag = client.get_service_def("tag")
        assert "lake:read" not in {one["name"] for one in tag.accessTypes}

    await served.drive(work)
    _, hive = await served.ask("GET", "/public/v2/api/servicedef/3")
    markers = {one["name"]: one["impliedGrants"] for one in hive["markerAccessTypes"]}
    assert "select" in markers["_ALL"]


async def test_services_have_versions_and_a_tag_service(served: Served) -> None:
    def work(client: RangerClient) -> None:
        made = client.create_service(
            RangerService(
                {"name": "dev_hive", "type": "hive", "configs": {"password": "secret", "jdbc.url": "x"}}
            )
        )
        assert (made.displayName, made.tagService, made.policyVersion) == ("dev_hive", "dev_tag", 1)
        assert made.configs == {"password": "*******", "jdbc.url": "x"}
        assert client.get_service("dev_tag").type == "tag"
        assert {one.name for one in client.find_services()} == {"dev_hive", "dev_tag"}
        assert [one.name for one in client.find_services({"serviceType": "tag"})] == ["dev_tag"]
        made.description = "of development"
        changed = client.update_service("dev_hive", made)
        assert (changed.description, changed.version, changed.policyVersion) == ("of development", 2, 2)
        with pytest.raises(RangerServiceException) as refused:
            client.create_service(RangerService({"name": "dev_hive", "type": "hive"}))
        assert "error code[1007]" in refused.value.msgDesc
        client.delete_service_by_id(made.id)
        assert client.get_service("dev_hive") is None

    await served.drive(work)


async def test_policies_of_three_types_from_creation_to_deletion(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        access = client.create_policy(policy())
        assert (access.id, access.version, access.serviceType, access.isEnabled) == (1, 1, "hive", True)
        column = {**ORDERS, "column": {"values": ["card"]}}
        mask = client.create_policy(
            policy(
                "card",
                policyType=1,
                resources=column,
                policyItems=[],
                dataMaskPolicyItems=[
                    {
                        "groups": ["public"],
                        "accesses": [{"type": "select"}],
                        "dataMaskInfo": {"dataMaskType": "MASK_SHOW_LAST_4"},
                    }
                ],
            )
        )
        rows = client.create_policy(
            policy(
                "rows",
                policyType=2,
                resources={name: ORDERS[name] for name in ("database", "table")},
                policyItems=[],
                rowFilterPolicyItems=[
                    {
                        "groups": ["public"],
                        "accesses": [{"type": "select"}],
                        "rowFilterInfo": {"filterExpr": "country = 'US'"},
                    }
                ],
            )
        )
        assert mask.dataMaskPolicyItems[0].dataMaskInfo.dataMaskType == "MASK_SHOW_LAST_4"
        assert rows.rowFilterPolicyItems[0].rowFilterInfo.filterExpr == "country = 'US'"
        assert [one.id for one in client.find_policies({"policyType": 1})] == [mask.id]
        assert len(client.get_policies_in_service("dev_hive")) == 3
        assert client.get_policy_by_id(rows.id).name == "rows"

        access.description = "all of it"
        changed = client.update_policy_by_id(access.id, access)
        assert (changed.version, changed.guid, changed.createTime) == (2, access.guid, access.createTime)
        changed.name = "all orders"
        assert client.update_policy("dev_hive", "orders", changed).version == 3
        assert client.get_policy("dev_hive", "orders") is None
        assert client.get_policy("dev_hive", "all orders").description == "all of it"

        client.delete_policy("dev_hive", "all orders")
        client.delete_policy_by_id(mask.id)
        assert [one.name for one in client.get_policies_in_service("dev_hive")] == ["rows"]
        assert client.get_policy_by_id(mask.id) is None
        # One for the service itself, three created, two updated, two deleted.
        assert client.get_service("dev_hive").policyVersion == 8

    await served.drive(work)


async def test_the_same_resources_again_merge_update_or_make_way(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        first = client.create_policy(policy())
        other = policy("again", policyItems=[{"users": ["bob"], "accesses": [{"type": "update"}]}])
        with pytest.raises(RangerServiceException) as refused:
            client.create_policy(other)
        assert "error code[3010]" in refused.value.msgDesc

        merged = client.create_policy(other, {"mergeIfExists": "true", "updateIfExists": "true"})
        assert (merged.id, merged.name) == (first.id, "orders")
        assert sorted(user for item in merged.policyItems for user in item.users) == ["ann", "bob"]

        updated = client.create_policy(other, {"updateIfExists": "true"})
        assert (updated.id, updated.name, updated.version) == (first.id, "again", 3)
        assert [item.users for item in updated.policyItems] == [["bob"]]

        replaced = client.create_policy(policy(), {"deleteIfExists": "true"})
        assert replaced.id != first.id
        assert client.get_policy_by_id(first.id) is None

        applied = client.apply_policy(other)
        assert applied.id == replaced.id
        assert len(applied.policyItems) == 2
        elsewhere = {**ORDERS, "table": {"values": ["leads"]}}
        renamed = client.apply_policy(policy(resources=elsewhere))
        assert renamed.name.startswith("orders ")

    await served.drive(work)


async def test_bulk_deletion_takes_what_the_filters_find(served: Served) -> None:
    def work(client: RangerClient) -> list[int]:
        service(client)
        for table in ("a", "b", "c"):
            client.create_policy(policy(f"on {table}", resources={**ORDERS, "table": {"values": [table]}}))
        return [one.id for one in client.find_policies({"policyNamePartial": "on "})]

    ids = await served.drive(work)
    status, gone = await served.ask(
        "DELETE", "/public/v2/api/policies/bulk?serviceName=dev_hive&polResource=b"
    )
    assert (status, gone) == (200, [ids[1]])
    status, rest = await served.ask("GET", "/public/v2/api/service/dev_hive/policy/")
    assert [one["id"] for one in rest] == [ids[0], ids[2]]


async def test_everything_wrong_is_told_at_once_with_rangers_codes(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        with pytest.raises(RangerServiceException) as refused:
            client.create_policy(
                policy(
                    resources={"database": {"values": ["shop"]}, "column": {"values": []}},
                    policyItems=[{"accesses": [{"type": "fly"}]}],
                )
            )
        for code in (3020, 3022):
            assert f"error code[{code}]" in refused.value.msgDesc
        assert refused.value.statusCode == 400

    await served.drive(work)


async def test_access_types_in_capitals_are_stored_as_the_definition_spells_them(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        made = client.create_policy(
            policy(policyItems=[{"users": ["ann"], "accesses": [{"type": "SELECT"}]}])
        )
        assert [access.type for access in made.policyItems[0].accesses] == ["select"]

    await served.drive(work)


async def test_a_renamed_service_keeps_policies_tags_and_versions(served: Served) -> None:
    def work(client: RangerClient) -> None:
        made = service(client)
        client.create_policy(policy())
        made.name = "prod_hive"
        renamed = client.update_service_by_id(made.id, made)
        assert (renamed.name, renamed.policyVersion) == ("prod_hive", 3)
        assert client.get_service("dev_hive") is None
        assert [one.service for one in client.get_policies_in_service("prod_hive")] == ["prod_hive"]
        tags = client.get_service("dev_tag")
        tags.name = "prod_tag"
        client.update_service_by_id(tags.id, tags)
        assert client.get_service("prod_hive").tagService == "prod_tag"
        client.delete_service("prod_tag")
        assert client.get_service("prod_hive").tagService is None

    await served.drive(work)


async def test_a_definition_in_use_goes_by_force_only(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        client.create_policy(policy())
        with pytest.raises(RangerServiceException, match="is used by `dev_hive`"):
            client.delete_service_def("hive")
        client.delete_service_def("hive", {"forceDelete": "true"})
        assert client.get_service("dev_hive") is None
        assert client.find_policies() == []

    await served.drive(work)


async def test_default_policies_are_made_when_asked_for(served: Served) -> None:
    body = {"name": "dev_hive", "type": "hive", "configs": {"username": "hive"}}
    assert (await served.ask("POST", "/public/v2/api/service?defaultPolicies=true", body))[0] == 200
    _, made = await served.ask("GET", "/public/v2/api/service/dev_hive/policy")
    assert "all - database, table, column" in [one["name"] for one in made]
    for one in made:
        assert one["policyItems"][0]["users"] == ["hive"]
        assert one["policyItems"][0]["delegateAdmin"] is True


async def test_house_keeping_drops_what_is_old_and_tells_how_much(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        client.delete_policy_deltas(days=7, reloadServicePoliciesCache=True)
        found = client.purge_records("trx_records", 1)
        assert found[0]["recordType"] == "trx_records"
        assert found[0]["totalRecordCount"] > 0
        assert found[0]["purgedRecordCount"] == 0

    await served.drive(work)


async def test_older_paths_answer_with_pages(served: Served) -> None:
    def work(client: RangerClient) -> None:
        service(client)
        for table in ("a", "b", "c"):
            client.create_policy(policy(table, resources={**ORDERS, "table": {"values": [table]}}))

    await served.drive(work)
    for query in ("startIndex=1&pageSize=1", "startIndex=1&pageSize=1&policyType=0&sortBy=policyId"):
        _, found = await served.ask("GET", f"/plugins/policies?{query}")
        assert (found["totalCount"], found["resultSize"]) == (3, 1)
        assert [one["name"] for one in found["policies"]] == ["b"]
    _, found = await served.ask("GET", "/plugins/policies/count?serviceName=dev_hive")
    assert found == 3
    _, services = await served.ask("GET", "/plugins/services")
    assert {one["name"] for one in services["services"]} == {"dev_hive", "dev_tag"}
    _, definitions = await served.ask("GET", "/plugins/definitions?pageSize=1")
    assert (definitions["totalCount"], len(definitions["serviceDefs"])) == (len(shipped_names()), 1)
    _, on = await served.ask(
        "GET", "/public/v2/api/policies/hive/for-resource?serviceName=dev_hive&resource:database=shop"
    )
    assert len(on) == 3
