"""A converter converts again only what changed, and never remembers what was at fault."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.model.policy import ResourceValues
from gateway.policy.ranger import Converter, apply_deltas
from tests.policy.ranger.data import at, download, hive, item, policy, tag


def tags(*types: str) -> dict[str, Any]:
    return {
        "serviceName": "dev",
        "tags": {str(i): {"type": type_} for i, type_ in enumerate(types, 1)},
        "serviceResources": [
            {"id": i, "resourceElements": at(database=f"d{i}")} for i, _ in enumerate(types, 1)
        ],
        "resourceToTagIds": {str(i): [i] for i, _ in enumerate(types, 1)},
    }


def test_what_is_the_same_stays_the_same_object() -> None:
    converter = Converter()
    raw = download(
        *(policy(i) for i in range(1, 6)),
        securityZones={"z": {"resources": [{"database": ["z"]}], "policies": [policy(9)]}},
        tagPolicies={
            "serviceName": "t",
            "serviceDef": tag(),
            "policies": [policy(20, resources=at(tag="A"))],
        },
    )
    first = converter.service(raw, tags=tags("A", "B")).service
    changed = policy(3, version=2, description="new")
    second_raw = apply_deltas(
        raw,
        {
            **{key: value for key, value in raw.items() if key not in ("policies", "securityZones")},
            "policyVersion": 8,
            "tagPolicies": {"serviceName": "t", "serviceDef": tag()},
            "securityZones": {"z": {"resources": [{"database": ["z"]}]}},
            "policyDeltas": [{"changeType": 1, "policy": changed}],
        },
    )
    second = converter.service(second_raw, tags=tags("A", "B")).service
    assert [p.description for p in second.policies] == ["", "", "new", "", "", ""]
    assert [a is b for a, b in zip(first.policies, second.policies, strict=True)] == [
        True,
        True,
        False,
        True,
        True,
        True,
    ]
    assert first.tags is not None
    assert second.tags is not None
    assert second.tags.policies[0] is first.tags.policies[0]
    assert second.definition is first.definition
    assert second.version == 8


def test_equal_policies_of_a_full_download_are_the_same_objects_too() -> None:
    converter = Converter()
    raw = download(*(policy(i) for i in range(1, 4)))
    first = converter.service(raw).service
    again = converter.service(json.loads(json.dumps(raw))).service
    assert all(a is b for a, b in zip(first.policies, again.policies, strict=True))


def test_tagged_resources_are_kept() -> None:
    converter = Converter()
    raw, carried = download(), tags("A", "B")
    first = converter.service(raw, tags=carried).service
    carried = {**carried, "tags": {**carried["tags"], "2": {"type": "C"}}}
    second = converter.service(raw, tags=carried).service
    assert second.tagged[0] is first.tagged[0]
    assert [t.type for t in second.tagged[1].tags] == ["C"]


def test_another_definition_converts_all_of_it_again() -> None:
    converter = Converter()
    raw = download(policy(denyPolicyItems=[item("lock")]))
    converter.service(raw)
    poorer = [access for access in hive()["accessTypes"] if access["name"] not in ("lock", "all")]
    with pytest.raises(Faults, match="unknown access type `lock`"):
        converter.service({**raw, "serviceDef": hive(accessTypes=poorer)})
    assert converter.service(raw).service.policies[0].deny[0].accesses == {"lock"}


def test_a_fault_is_told_each_time() -> None:
    converter = Converter()
    good = download(policy(1))
    bad = {**good, "policies": [good["policies"][0], policy(2, denyPolicyItems=[item("selekt")])]}
    first = converter.service(good).service
    for _ in range(2):
        with pytest.raises(Faults, match="unknown access type `selekt`"):
            converter.service(bad)
    untyped: dict[str, Any] = {"tags": {"1": {}}}
    unknown: dict[str, Any] = {"resourceToTagIds": {"1": [4]}, "serviceResources": [{"id": 1}]}
    for broken in (untyped, unknown):
        for _ in range(2):
            with pytest.raises(Faults):
                converter.service(good, tags=broken)
    assert converter.service(good).service.policies[0] is first.policies[0]


def test_warnings_come_again_with_what_is_kept() -> None:
    converter = Converter()
    raw = download(policy(resources=at(table="t")))
    first, second = converter.service(raw).warnings, converter.service(raw).warnings
    assert first == second != ()


def test_a_definition_that_is_at_fault_is_told_each_time() -> None:
    converter = Converter()
    broken: dict[str, Any] = copy.deepcopy(
        download(serviceDef=hive(resources=[{"name": "a", "parent": "b"}]))
    )
    for _ in range(2):
        with pytest.raises(Faults, match="`a` has no parent `b`"):
            converter.service(broken)


def test_a_fault_that_several_policies_have_is_told_of_each() -> None:
    """Also where one has it twice; and who mends one of them is told of the others still."""
    converter = Converter()
    bad = item("selekt")
    raws = [policy(1, denyPolicyItems=[bad, bad]), *(policy(i, denyPolicyItems=[bad]) for i in (2, 3))]
    for mended in range(3):
        with pytest.raises(Faults) as told:
            converter.service(download(*(policy(1), policy(2))[:mended], *raws[mended:]))
        for number in range(mended + 1, 4):
            assert any(f"policy {number} " in fault for fault in told.value.faults)


def test_a_warning_that_several_policies_have_is_told_of_each() -> None:
    odd = at(database="a*?", table="t")
    found = Converter().service(download(*(policy(i, resources=odd) for i in (1, 2))))
    assert [any(f"policy {i} " in warning for warning in found.warnings) for i in (1, 2)] == [True, True]


@pytest.mark.parametrize(
    "flags",
    [{}, {"isExcludes": False, "isRecursive": False}, {"isExcludes": None}, {"isRecursive": "false"}],
)
def test_a_plain_name_is_read_alike_however_its_flags_are_spelled(flags: dict[str, Any]) -> None:
    resources = {**at(database="shop", column="*"), "table": {"values": ["orders"], **flags}}
    (found,) = Converter().service(download(policy(resources=resources))).service.policies
    assert found.resources["table"] == ResourceValues(values=("orders",))


@pytest.mark.parametrize("key", ["isExcludes", "isRecursive"])
def test_flags_of_a_plain_name_count(key: str) -> None:
    """After a policy with the same name and without the flag, too."""
    resources = {**at(database="shop", column="*"), "table": {"values": ["orders"], key: True}}
    _, found = Converter().service(download(policy(1), policy(2, resources=resources))).service.policies
    assert (found.resources["table"].excludes, found.resources["table"].recursive) == (
        key == "isExcludes",
        key == "isRecursive",
    )
    for wrong in (0, "", "perhaps"):
        resources["table"][key] = wrong
        with pytest.raises(Faults, match=f"`{key}` must be true or false"):
            Converter().service(download(policy(resources=resources)))
