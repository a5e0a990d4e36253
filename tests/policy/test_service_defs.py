"""Service definitions in Ranger's shape, with its looseness and without its silence."""

from __future__ import annotations

import pytest

from gateway.errors import Faults
from gateway.model.policy import PolicyType
from gateway.policy.service_defs import load_service_defs, parse_service_def
from tests.policy.scenarios import definitions


def test_the_shipped_definition() -> None:
    spark = definitions()["spark"]
    accesses = {access.name: access.implied for access in spark.access_types}
    assert accesses["all"] == accesses.keys() - {"all"}
    assert [m.name for m in spark.mask_types][-1] == "CUSTOM"
    assert spark.mask_accesses == spark.filter_accesses == {"select"}
    assert [level.name for level in spark.levels(PolicyType.MASK)] == [
        "catalog",
        "database",
        "table",
        "column",
    ]
    assert [level.name for level in spark.levels(PolicyType.ROW_FILTER)] == ["catalog", "database", "table"]
    url = spark.resource("url")
    assert url is not None
    assert (url.is_path, url.needs_scheme, url.ignore_case, url.recursive_supported) == (
        True,
        True,
        False,
        True,
    )


def test_options_are_booleans_or_texts_and_overlays_win() -> None:
    hive = definitions()["hive"]
    url, column = hive.resource("url"), hive.resource("column")
    assert url is not None
    assert column is not None
    assert not url.ignore_case
    assert column.wildcard
    assert not any(level.wildcard for level in hive.levels(PolicyType.MASK))
    assert hive.access_aliases == {"insert": "update"}
    trino = definitions()["trino"]
    assert trino.levels(PolicyType.MASK) == ()


def test_json_is_taken() -> None:
    text = '{"name": "x", "guid": "1-2", "isEnabled": true, "resources": [{"name": "topic", "parent": ""}]}'
    definition = parse_service_def(text, "x.json")
    assert [level.parent for level in definition.resources] == [None]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("resources: []", "1: `name` must be a text"),
        ("name: x\nresources: {}\naccessTypes: 1", "3: `accessTypes` must be a list"),
        ("name: x\nresources: [{name: a, parent: b}]", "2: `a` has no parent `b`"),
        ("name: x\nresources: [{name: a, parent: b}, {name: b, parent: a}]", "2: `a` is its own ancestor"),
        ("name: x\nresources: [{name: a}, {name: a}]", "2: resource `a` is defined a second time"),
        (
            "name: x\nresources: [{name: a, matcherOptions: {wildCard: maybe}}]",
            "2: `wildCard` must be true or false",
        ),
        (
            "name: x\naccessTypes: [{name: all, impliedGrants: [selekt]}, {name: select}]",
            "2: `all` implies unknown `selekt` (did",
        ),
        ("name: x\naccessTypes: [{name: a}, {name: A}]", "2: access type `a` is defined a second time"),
        ("name: x\ndataMaskDef: {resources: [{name: col}]}", "2: unknown resource `col`"),
        ("name: x\nrowFilterDef: {accessTypes: [{name: select}]}", "2: unknown access type `select`"),
        ("name: x\noptions: {sluice.access.insert: update}", "2: unknown access type `update`"),
        ("[]", "1: a mapping is expected here"),
    ],
)
def test_faults(text: str, fault: str) -> None:
    with pytest.raises(Faults) as caught:
        load_service_defs({"s.yaml": text})
    line, _, words = fault.partition(": ")
    assert any(f.startswith(f"s.yaml:{line}:") and words in f for f in caught.value.faults), (
        caught.value.faults
    )


def test_a_service_is_defined_once() -> None:
    with pytest.raises(Faults) as caught:
        load_service_defs({"a.yaml": "name: x", "b.yaml": "name: x"})
    assert caught.value.faults == ("b.yaml:1: service `x` is defined a second time",)
