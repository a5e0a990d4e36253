"""Service definitions in Ranger's shape, with its looseness and without its silence."""

from __future__ import annotations

import pytest

from gateway.errors import Faults
from gateway.model.policy import ConditionDef, PolicyType
from gateway.policy.service_defs import load_service_defs, parse_service_def
from tests.policy.ranger.data import shipped
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


def test_hive_is_as_ranger_has_it() -> None:
    hive = shipped()["hive"]
    accesses = {access.name: access for access in hive.access_types}
    assert accesses.keys() - accesses["all"].implied == {"all", "tempudfadmin"}
    assert {m.name: m.implied for m in hive.markers} == {
        "_create": {"create", "alter"},
        "_read": {"select", "read"},
        "_update": {"update", "write"},
        "_delete": {"drop"},
        "_manage": {"index", "lock", "repladmin", "serviceadmin", "tempudfadmin", "refresh"},
        "_all": accesses.keys(),
    }
    assert [level.name for level in hive.resources if not level.ignore_case] == [
        "url",
        "hiveservice",
        "global",
    ]
    assert [level.name for level in hive.resources if level.leaf] == ["database", "table"]
    for type_ in (PolicyType.MASK, PolicyType.ROW_FILTER):
        assert not any(level.wildcard or level.leaf for level in hive.levels(type_))
    assert [level.name for level in hive.levels(PolicyType.ROW_FILTER)] == ["database", "table"]
    assert hive.access_aliases["insert"] == "update"
    assert hive.id == 3


def test_tags_match_as_they_are_written() -> None:
    tag = shipped()["tag"]
    (level,) = tag.resources
    assert (level.name, level.wildcard, level.ignore_case) == ("tag", False, False)
    assert [c.name for c in tag.conditions] == ["accessed-after-expiry", "expression"]
    assert tag.conditions[0].options == {"scriptTemplate": "ctx.isAccessedAfter('expiry_date');"}


def test_conditions_options_and_markers() -> None:
    richer = definitions()["richer"]
    assert richer.conditions == (
        ConditionDef(name="from", evaluator="RangerIpMatcher"),
        ConditionDef(
            name="until",
            evaluator="RangerScriptTemplateConditionEvaluator",
            options={"scriptTemplate": "ctx.isAccessedBefore('end')", "times": "3"},
        ),
        ConditionDef(
            name="_expression",
            evaluator="RangerScriptConditionEvaluator",
            options={"engineName": "JavaScript"},
        ),
    )
    assert not richer.deny_enabled
    # Given markers stay as they are; they need not say what categories would.
    assert [(m.name, m.implied) for m in richer.markers] == [("_read", frozenset({"look"}))]
    assert [(a.name, a.category) for a in richer.access_types] == [("look", "READ"), ("touch", "UPDATE")]
    assert richer.options["rrnResourceSepChar"] == "/"
    assert richer.id == 77


def test_overlays_replace_what_they_give_and_make_no_leaf_by_silence() -> None:
    richer = definitions()["richer"]
    shelf, box = richer.levels(PolicyType.MASK)
    assert (shelf.leaf, shelf.wildcard, shelf.ignore_case) == (False, False, True)
    assert (box.leaf, box.recursive_supported, box.level, box.parent) == (True, True, 20, "shelf")
    assert not box.is_path
    base = richer.resource("box")
    assert base is not None
    assert (base.is_path, base.separator, base.leaf) == (True, ".", False)


def test_a_script_condition_of_its_own_or_an_option_spares_the_implicit_one() -> None:
    script = "policyConditions: [{name: own, evaluator: a.b.RangerScriptConditionEvaluator}]"
    option = 'options: {enableImplicitConditionExpression: "false"}'
    assert [c.name for c in parse_service_def(f"name: x\n{script}", "x.yaml").conditions] == ["own"]
    assert parse_service_def(f"name: x\n{option}", "x.yaml").conditions == ()


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
        (
            "name: x\nresources: [{name: a, isValidLeaf: false}]",
            "2: `a` has no level below it, so `isValidLeaf` cannot be false",
        ),
        (
            "name: x\nresources: [{name: a}, {name: b, parent: a}]\n"
            "rowFilterDef: {resources: [{name: a, isValidLeaf: 'false'}]}",
            "3: `a` has no level below it",
        ),
        ("name: x\npolicyConditions: [{evaluator: a.B}]", "2: `name` must be a text and is missing"),
        ("name: x\npolicyConditions: {}", "2: `policyConditions` must be a list"),
        ("name: x\nmarkerAccessTypes: [_READ]", "2: `markerAccessTypes` must hold objects"),
        ("name: x\noptions: [a]", "2: `options` must be an object"),
        ("name: x\nid: three", "2: `id` must be a whole number, not the text `three`"),
        (
            "name: x\ndataMaskDef: {maskTypes: [{name: M, transformer: 'upper({col}) -- x'}]}",
            "2: mask type `M`: ",
        ),
    ],
)
def test_faults(text: str, fault: str) -> None:
    with pytest.raises(Faults) as caught:
        load_service_defs({"s.yaml": text})
    line, _, words = fault.partition(": ")
    assert any(f.startswith(f"s.yaml:{line}:") and words in f for f in caught.value.faults), (
        caught.value.faults
    )


def test_faults_of_json_have_lines_too() -> None:
    text = '{"name": "x",\n "resources": [\n  {"name": "a",\n   "parent": "b"}]}'
    with pytest.raises(Faults) as caught:
        parse_service_def(text, "x.json")
    assert caught.value.faults == ("x.json:4: `a` has no parent `b`",)
    with pytest.raises(Faults, match=r"x\.json:2: not JSON: the file is truncated"):
        parse_service_def('{"name":\n"x"', "x.json")


def test_a_service_is_defined_once() -> None:
    with pytest.raises(Faults) as caught:
        load_service_defs({"a.yaml": "name: x", "b.yaml": "name: x"})
    assert caught.value.faults == ("b.yaml:1: service `x` is defined a second time",)
