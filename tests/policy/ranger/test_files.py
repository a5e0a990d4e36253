"""Files are recognised by what they hold, and together make services."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.policy.ranger import RangerFiles, load_files
from tests.policy.ranger.data import at, download, hive, item, policy, shipped, tag

TAGS = {
    "op": "add_or_update",
    "serviceName": "dev",
    "tags": {"1": {"type": "PII"}},
    "serviceResources": [{"id": 1, "resourceElements": at(database="hr")}],
    "resourceToTagIds": {"1": [1]},
}
ROLES = {"serviceName": "dev", "roleVersion": 3, "rangerRoles": [{"name": "r", "users": [{"name": "ann"}]}]}
USERS = {"userStoreVersion": 2, "userAttrMapping": {"ann": {"dept": "hr"}}}


def loaded(**files: Any) -> RangerFiles:
    return load_files(
        {
            f"{name}.json": data if isinstance(data, bytes) else json.dumps(data)
            for name, data in files.items()
        },
        shipped(),
    )


def faults_of(**files: Any) -> tuple[str, ...]:
    with pytest.raises(Faults) as caught:
        loaded(**files)
    return caught.value.faults


def export(*policies: Any) -> dict[str, Any]:
    return {"metaDataInfo": {"Host name": "h"}, "policies": list(policies)}


def of(service: str, type_: str, found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "service": service, "serviceType": type_}


def test_cache_files_of_a_plugin() -> None:
    found = loaded(
        hiveServer2_dev=download(policy()),
        hiveServer2_dev_tag=TAGS,
        hiveServer2_dev_roles=ROLES,
        hiveServer2_dev_userstore=USERS,
    )
    service = found.services["dev"]
    assert [p.id for p in service.policies] == [1]
    assert [t.type for t in service.tagged[0].tags] == ["PII"]
    assert [role.name for role in found.roles] == ["r"]
    assert found.users is not None
    assert found.users.users == {"ann": {"dept": "hr"}}
    assert not found.warnings
    assert str(service.policies[0].place).startswith("hiveServer2_dev.json:")


def test_an_export_of_several_services() -> None:
    found = loaded(
        export=export(
            of("dev", "hive", policy(1)),
            of(
                "tags",
                "tag",
                policy(2, resources=at(tag="PII"), policyItems=[item("hive:select", "spark:use")]),
            ),
            of("lake", "spark", policy(3, resources=at(catalog="c"), policyItems=[item("use")])),
        ),
        tags=TAGS,
    )
    assert {name: [p.id for p in s.policies] for name, s in found.services.items()} == {
        "dev": [1],
        "lake": [3],
    }
    assert found.services["dev"].tagged
    allowed = {}
    for name, service in found.services.items():
        assert service.tags is not None
        assert service.tags.name == "tags"
        allowed[name] = service.tags.policies[0].allow[0].accesses
    assert allowed == {"dev": {"select"}, "lake": {"use"}}


def test_an_export_may_be_a_bare_list_and_use_a_definition_beside_it() -> None:
    own = hive(name="lakehouse")
    found = loaded(
        policies=[of("dev", "lakehouse", policy(1))], servicedef=own, roles=[{"name": "r", "users": []}]
    )
    assert found.services["dev"].definition.name == "lakehouse"
    assert list(found.definitions) == ["lakehouse"]
    assert [role.name for role in found.roles] == ["r"]


def test_zones_of_an_export_come_from_a_file_of_their_own() -> None:
    zoned = of("dev", "hive", policy(1, zoneName="z"))
    zone = {"id": 2, "name": "z", "services": {"dev": {"resources": [{"database": ["hr"]}]}}}
    for written in (zone, [zone]):
        service = loaded(export=export(zoned), zones=written).services["dev"]
        assert [z.name for z in service.zones] == ["z"]
        assert [p.zone for p in service.policies] == ["z"]
    assert "zone `z` has policies, but no file defines its resources" in faults_of(export=export(zoned))[0]


def test_roles_of_several_files_are_one_set() -> None:
    found = loaded(a=ROLES, b={"metaDataInfo": {}, "roles": [{"name": "r", "groups": [{"name": "eng"}]}]})
    assert [(role.users, role.groups) for role in found.roles] == [(frozenset({"ann"}), frozenset({"eng"}))]


def test_what_belongs_to_nothing_is_told() -> None:
    found = loaded(tags=TAGS, gds={"serviceName": "dev", "gdsVersion": 1})
    assert found.services == {}
    assert found.warnings == (
        "gds.json:1: service `dev` of this data sharing does not exist",
        "tags.json:1: service `dev` of these tags does not exist",
    )
    alone = loaded(export=export(of("tags", "tag", policy(1, resources=at(tag="A"), policyItems=[]))))
    assert "do not belong to any service of this export" in alone.warnings[0]


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"x": {"hello": 1}}, "x.json:1: not Ranger policies"),
        ({"x": []}, "x.json:1: not Ranger policies"),
        ({"x": "text"}, "x.json:1: not Ranger policies"),
        ({"x": b'{"serviceName": "dev", "policies": ['}, "x.json:1: not JSON: the file is truncated"),
        ({"a": download(), "b": download()}, "b.json:1: policies of service `dev` were already loaded"),
        (
            {"a": download(policy()), "b": export(of("dev", "hive", policy()))},
            "of service `dev` were already loaded",
        ),
        ({"x": export(policy())}, "x.json:1: `service` must be a text"),
        ({"x": export(of("k", "kafka", policy()))}, "service type `kafka` has no definition"),
        ({"x": export("p")}, "x.json:1: a policy must be an object"),
        (
            {"x": export(of("a", "tag", policy(resources={})), of("b", "tag", policy(resources={})))},
            "does not tell which service uses which of `a`, `b`",
        ),
        (
            {"x": {"name": "n", "resources": [{"name": "a", "parent": "b"}], "accessTypes": []}},
            "has no parent",
        ),
        ({"x": hive(), "y": hive()}, "y.json:1: service `hive` is defined twice"),
        ({"x": {"rangerRoles": [{}]}}, "x.json:1: `name` must be a text"),
        ({"x": {"userAttrMapping": []}}, "x.json:1: `userAttrMapping` must be an object"),
    ],
)
def test_faults(files: dict[str, Any], fault: str) -> None:
    found = faults_of(**files)
    assert any(fault in told for told in found), found


def test_faults_of_all_files_are_told_at_once() -> None:
    found = faults_of(
        a=download(policy(denyPolicyItems=[item("selekt")])),
        b=b"{",
        c={"rangerRoles": 1},
        d=download(policyVersion="x", serviceName="other"),
    )
    assert sorted({told.partition(":")[0] for told in found}) == ["a.json", "b.json", "c.json", "d.json"]


def test_a_larger_file_is_refused() -> None:
    with pytest.raises(Faults) as caught:
        load_files({"x.json": json.dumps(download(policy()))}, {}, max_bytes=100)
    assert caught.value.faults == ("x.json:1: the file is larger than 100 bytes",)


def test_a_download_without_a_definition_uses_a_known_one() -> None:
    data = download(policy(), serviceType="hive")
    del data["serviceDef"]
    assert loaded(x=data).services["dev"].definition is shipped()["hive"]


def test_the_shipped_tag_definition_serves_exports() -> None:
    found = loaded(
        export=export(
            of("dev", "hive", policy(1)),
            of("tags", "tag", policy(2, resources=at(tag="A"), policyItems=[item("hive:select")])),
        )
    )
    tags = found.services["dev"].tags
    assert tags is not None
    assert {c.name for c in tags.definition.conditions} == {c["name"] for c in tag()["policyConditions"]}
