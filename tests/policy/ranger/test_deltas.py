"""What changed, applied to what was there, as a plugin of Ranger's does."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.policy.ranger import apply_deltas, apply_tag_deltas
from tests.policy.ranger.data import at, download, hive, policy, tag


def changes(*deltas: tuple[int, dict[str, Any]], **fields: Any) -> dict[str, Any]:
    found = {
        "serviceName": "dev",
        "policyVersion": 8,
        "serviceDef": hive(),
        "policyDeltas": written(*deltas),
        **fields,
    }
    return {key: value for key, value in found.items() if value is not None}


def written(*deltas: tuple[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"id": i, "changeType": change, "policy": {"serviceType": "hive", **found}}
        for i, (change, found) in enumerate(deltas)
    ]


def ids(data: Any) -> list[int]:
    return [found["id"] for found in data["policies"]]


def faults_of(old: Any, new: Any) -> tuple[str, ...]:
    before = copy.deepcopy(old)
    with pytest.raises(Faults) as caught:
        apply_deltas(old, new)
    assert old == before
    return caught.value.faults


OLD = download(policy(1), policy(3), policy(5))


def test_create_update_and_delete() -> None:
    before = copy.deepcopy(OLD)
    found = apply_deltas(
        OLD,
        changes((0, policy(2)), (1, policy(3, version=2)), (2, {"id": 5, "policyType": 0, "zoneName": ""})),
    )
    assert ids(found) == [1, 2, 3]
    assert found["policies"][2]["version"] == 2
    assert found["policies"][0] is OLD["policies"][0]
    assert found["policyVersion"] == 8
    assert "policyDeltas" not in found
    assert before == OLD


def test_the_last_change_of_a_policy_counts() -> None:
    found = apply_deltas(
        OLD, changes((1, policy(1, version=2)), (1, policy(1, version=3)), (2, {"id": 3}), (0, policy(3)))
    )
    assert [(p["id"], p["version"]) for p in found["policies"]] == [(1, 3), (3, 1), (5, 1)]


def test_an_update_of_what_is_not_there_creates_it_and_its_deletion_is_nothing() -> None:
    assert ids(apply_deltas(OLD, changes((1, policy(4)), (2, {"id": 99})))) == [1, 3, 4, 5]


def test_a_download_of_policies_replaces_everything() -> None:
    new = download(policy(8), policyDeltas=[], auditMode=None)
    found = apply_deltas(download(policy(1), securityZones={"z": {"policies": [policy(2)]}}), new)
    assert ids(found) == [8]
    assert "securityZones" not in found


def test_neither_policies_nor_changes_means_that_there_are_none() -> None:
    assert apply_deltas(OLD, {"serviceName": "dev", "serviceDef": hive()})["policies"] == []
    assert apply_deltas(OLD, changes())["policies"] == []


def test_changes_of_policies_on_tags() -> None:
    old = {**OLD, "tagPolicies": {"serviceName": "t", "serviceDef": tag(), "policies": [policy(20)]}}
    new = changes(
        (0, policy(21, serviceType="tag")),
        (0, policy(6)),
        tagPolicies={"serviceName": "t", "policyVersion": 4, "policies": None},
    )
    found = apply_deltas(old, new)
    assert ids(found) == [1, 3, 5, 6]
    assert ids(found["tagPolicies"]) == [20, 21]
    assert found["tagPolicies"]["policyVersion"] == 4
    assert found["tagPolicies"]["serviceDef"] == tag()


def test_a_tag_service_that_the_download_does_not_name_is_gone() -> None:
    old = {**OLD, "tagPolicies": {"serviceName": "t", "policies": [policy(20)]}}
    assert "tagPolicies" not in apply_deltas(old, changes((0, policy(6))))
    fault = "policyDeltas: tag policies change, but `tagPolicies` is missing"
    assert faults_of(old, changes((0, policy(21, serviceType="tag")))) == (fault,)


def test_zones() -> None:
    old = {
        **OLD,
        "securityZones": {
            "a": {"resources": [{"database": ["a"]}], "policies": [policy(30), policy(31)]},
            "b": {"resources": [{"database": ["b"]}], "policies": [policy(40)]},
        },
    }
    zones = {
        "a": {"resources": [{"database": ["a2"]}], "policyDeltas": written((2, {"id": 30}))},
        "c": {"resources": [{"database": ["c"]}], "policyDeltas": written((0, policy(50)))},
    }
    found = apply_deltas(old, changes(policyDeltas=None, securityZones=zones))
    assert ids(found) == [1, 3, 5]
    assert {name: ids(zone) for name, zone in found["securityZones"].items()} == {"a": [31], "c": [50]}
    assert found["securityZones"]["a"]["resources"] == [{"database": ["a2"]}]
    assert "policyDeltas" not in found["securityZones"]["a"]
    assert "securityZones" not in apply_deltas(old, changes((0, policy(6))))


def test_the_definition_stays_when_a_delta_brings_none() -> None:
    assert apply_deltas(OLD, changes((0, policy(6)), serviceDef=None))["serviceDef"] is OLD["serviceDef"]


@pytest.mark.parametrize("change", [3, 4, 5, 6, 7, 8, 9, None, "x"])
def test_other_changes_need_a_full_download(change: Any) -> None:
    new = changes((0, policy(2)))
    new["policyDeltas"].append({"changeType": change, "policy": policy(4)})
    assert any("policyDeltas[1].changeType" in fault for fault in faults_of(OLD, new))


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ([], "the download must be an object"),
        (changes((0, policy(2)), policies=[policy(3)]), "policies or policy deltas, not both"),
        (
            changes((0, policy(2)), securityZones={"z": {"policies": [policy(3)]}}),
            "policies or policy deltas, not both",
        ),
        (
            changes((0, policy(2)), tagPolicies={"policies": [policy(3)]}),
            "tagPolicies.policies: a download must contain either policies or policy deltas",
        ),
        (changes(policyDeltas={}), "`policyDeltas` must be a list"),
        (changes(policyDeltas=[1]), "`policyDeltas` must hold objects"),
        (
            changes(policyDeltas=[{"changeType": 0}]),
            "policyDeltas[0].policy: a delta must contain its policy",
        ),
        (changes(policyDeltas=[{"changeType": 2, "policy": {}}]), "policyDeltas[0].policy.id: `id` must be"),
        (changes((0, policy(2, serviceType="trino"))), "policy 2 is of service type `trino`, not `hive`"),
        (changes((0, policy(2)), serviceName="other"), "these are deltas of service `other`, not of `dev`"),
    ],
)
def test_nonsense(new: Any, fault: str) -> None:
    found = faults_of(OLD, new)
    assert any(fault in told for told in found), found


def test_an_old_state_without_ids_cannot_be_changed() -> None:
    assert "ids that are not numbers" in faults_of(download({"name": "x"}), changes((0, policy(2))))[0]


TAGS = {
    "op": "add_or_update",
    "serviceName": "dev",
    "tagVersion": 1,
    "tagDefinitions": {"1": {"name": "PII"}, "2": {"name": "OLD"}},
    "tags": {"1": {"type": "PII"}, "2": {"type": "OLD"}},
    "serviceResources": [
        {"id": 1, "resourceSignature": "a", "resourceElements": at(database="a")},
        {"id": 2, "resourceSignature": "b", "resourceElements": at(database="b")},
    ],
    "resourceToTagIds": {"1": [1], "2": [2]},
}


def test_changes_of_tags() -> None:
    before = copy.deepcopy(TAGS)
    new = {
        "isDelta": True,
        "serviceName": "dev",
        "tagVersion": 2,
        "tagDefinitions": {"2": {"name": ""}, "3": {"name": "NEW"}},
        "tags": {"2": {"type": ""}, "3": {"type": "NEW"}},
        "serviceResources": [
            {"id": 2, "resourceSignature": ""},
            {"id": 3, "resourceSignature": "c", "resourceElements": at(database="c")},
        ],
        "resourceToTagIds": {"1": [1, 3], "3": [3]},
    }
    found = apply_tag_deltas(TAGS, new)
    assert found["tagVersion"] == 2
    assert not found["isDelta"]
    assert found["tagDefinitions"] == {"1": {"name": "PII"}, "3": {"name": "NEW"}}
    assert found["tags"] == {"1": {"type": "PII"}, "3": {"type": "NEW"}}
    assert [entry["id"] for entry in found["serviceResources"]] == [1, 3]
    assert found["serviceResources"][0] is TAGS["serviceResources"][0]  # type: ignore[index]
    assert found["resourceToTagIds"] == {"1": [1, 3], "3": [3]}
    assert before == TAGS


def test_a_full_download_of_tags_replaces_them() -> None:
    assert apply_tag_deltas(TAGS, {"serviceName": "dev", "tags": {}}) == {"serviceName": "dev", "tags": {}}


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (TAGS, {"isDelta": "what"}, "`isDelta` must be true or false"),
        (TAGS, {"isDelta": True, "serviceName": "x"}, "these are tags of service `x`, not of `dev`"),
        (TAGS, {"isDelta": True, "tags": []}, "`tags` must be an object"),
        (TAGS, {"isDelta": True, "serviceResources": [{}]}, "serviceResources[0].id: `id` must be a whole"),
        ({"isDelta": True}, {"isDelta": True}, "tag deltas need a full set of tags to apply to"),
        (TAGS, 5, "the download must be an object"),
    ],
)
def test_nonsense_about_tags(old: Any, new: Any, fault: str) -> None:
    with pytest.raises(Faults) as caught:
        apply_tag_deltas(old, new)
    assert any(fault in told for told in caught.value.faults)


def versioned(*deltas: tuple[int | str | None, dict[str, Any]], **fields: Any) -> dict[str, Any]:
    found = [{**delta, "policiesVersion": version} for version, delta in deltas]
    return changes(policyDeltas=found, **fields)


def test_changes_continue_the_version_that_they_are_applied_to() -> None:
    """OLD is version 7. Gaps are right: of several changes of one policy only the last is told."""
    created, updated = written((0, policy(6)), (1, policy(1, version=2)))
    assert ids(apply_deltas(OLD, versioned((9, created), ("11", updated), policyVersion=11))) == [1, 3, 5, 6]
    assert ids(apply_deltas(OLD, versioned((None, created), policyVersion=7))) == [1, 3, 5, 6]
    assert ids(apply_deltas({**OLD, "policyVersion": None}, versioned((1, created), policyVersion=1)))
    assert faults_of(OLD, versioned((7, created), (8, updated))) == (
        "policyDeltas[0].policiesVersion: version 7 does not continue version 7",
    )
    assert faults_of(OLD, versioned((None, created), policyVersion=6)) == (
        "policyVersion: version 6 does not continue version 7",
    )
    assert faults_of(OLD, versioned((3, created), ("new", updated), policyVersion=6)) == (
        "policyVersion: version 6 does not continue version 7",
        "policyDeltas[0].policiesVersion: version 3 does not continue version 7",
        "policyDeltas[1].policiesVersion: `policiesVersion` must be a whole number",
    )


def test_versions_of_changes_in_zones_continue_too_and_the_tag_service_has_its_own() -> None:
    zoned = [{**delta, "policiesVersion": 2} for delta in written((0, policy(30)))]
    zones = {"a": {"resources": [{"database": ["a"]}], "policyDeltas": zoned}}
    assert faults_of(OLD, changes(policyDeltas=None, securityZones=zones)) == (
        "securityZones.a.policyDeltas[0].policiesVersion: version 2 does not continue version 7",
    )
    old = {**OLD, "tagPolicies": {"serviceName": "t", "policyVersion": 2, "policies": [policy(20)]}}
    (on_tags,) = written((0, policy(21, serviceType="tag")))
    new = versioned((3, on_tags), tagPolicies={"serviceName": "t", "policyVersion": 3})
    assert ids(apply_deltas(old, new)["tagPolicies"]) == [20, 21]
