"""Ranger's rules as data: every case of tests/cases/ranger against `load` and `evaluate`.

Beside its own answer each case holds some laws: policies may stand in any order, may be written as JSON text
in between, and more policies on other things change nothing.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from random import Random
from typing import Any

import pytest

from gateway.errors import Faults
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.engine import engine_for
from gateway.policy.ranger import evaluate, load
from tests.policy.ranger.cases import (
    Case,
    World,
    cases,
    definitions,
    differences,
    faulty,
    spelled_out,
    worlds,
)

ROWS = [("hr", "eu"), ("sales", "us"), ("x' OR '1'='1", "cn"), ("", "")]
TOLD = ("isAllowed", "policyId", "isAudited", "item", "zoneName", "tag", "dataMask", "rowFilter")


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in cases()])
def test_case(case: Case) -> None:
    answer = evaluate(case.world.policies, case.request)
    wanted = {key: value for key, value in case.expect.items() if key != "keeps"}
    assert not differences(Case(case.world, case.name, case.rule, case.request, wanted), answer), case.rule
    assert evaluate(case.world.policies, json.loads(json.dumps(case.request))) == answer
    if "keeps" in case.expect:
        assert kept(answer["rowFilter"]) == case.expect["keeps"]


def kept(row_filter: dict[str, Any] | None) -> list[str]:
    """Return the departments of the rows that a filter keeps, as SQLite reads it."""
    if row_filter is None or not row_filter["isRowFilterEnabled"]:
        return [dept for dept, _ in ROWS]
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (dept TEXT, region TEXT)")
        database.executemany("INSERT INTO t VALUES (?, ?)", ROWS)
        text = row_filter["filterExpr"].replace(" AS STRING)", " AS TEXT)")
        return [dept for (dept,) in database.execute(f"SELECT dept FROM t WHERE {text} ORDER BY rowid")]


SEVERAL = [w for w in worlds() if len(w.data["policies"]) > 1 and "denies (" not in w.name]
"""Worlds in which an order could matter."""


@pytest.mark.parametrize("world", [pytest.param(w, id=f"{w.file}: {w.name}") for w in SEVERAL])
def test_the_order_in_which_policies_are_listed_means_nothing(world: World) -> None:
    turned = copy.deepcopy(world.download)
    turned["policies"].reverse()
    for holder in (turned.get("tagPolicies"), *turned.get("securityZones", {}).values()):
        if holder:
            holder["policies"].reverse()
    if turned["policies"]:
        turned["policies"][1:1] = [noisy(number, turned["serviceDef"]) for number in range(900, 912)]
    policies = load(json.loads(json.dumps(turned)))
    for case in world.cases():
        expected = evaluate(world.policies, case.request)
        answer = evaluate(policies, case.request)
        assert {key: answer[key] for key in TOLD} == {key: expected[key] for key in TOLD}, case.name


def noisy(number: int, definition: dict[str, Any]) -> dict[str, Any]:
    """Return a policy on something that no case speaks of, one half of them denials of everything."""
    root = next(entry["name"] for entry in definition["resources"] if not entry.get("parent"))
    accesses = [{"type": entry["name"]} for entry in definition["accessTypes"]]
    items = [{"users": ["nobody who asks"], "accesses": accesses}]
    return {
        "id": number,
        "name": f"noise {number}",
        "policyPriority": number % 2,
        "isAuditEnabled": False,
        "resources": {root: {"values": [f"nobody_asks_for_{number}"]}},
        ("denyPolicyItems" if number % 3 else "policyItems"): items,
    }


@pytest.mark.parametrize("world", [pytest.param(w, id=w.name) for w in faulty() if "warns" in w.data])
def test_warnings(world: World) -> None:
    told = load(spelled_out(world.data), file="download.json").warnings
    for wanted in world.data["warns"]:
        assert any(str(wanted).lower() in warning.lower() for warning in told), told
    assert all("download.json" in warning for warning in told), told


@pytest.mark.parametrize("world", [pytest.param(w, id=w.name) for w in faulty() if "faults" in w.data])
def test_faults(world: World) -> None:
    with pytest.raises(Faults) as caught:
        load(spelled_out(world.data), file="download.json")
    told = [fault.lower() for fault in caught.value.faults]
    for wanted in world.data["faults"]:
        assert any(str(wanted).lower() in fault for fault in told), told
    assert len(told) >= len(world.data["faults"])
    assert all("download.json" in fault for fault in told), told


MASKS = {
    "MASK": "MASK",
    "MY_LAST": "MASK_SHOW_LAST_4",
    "MY_FIRST": "MASK_SHOW_FIRST_4",
    "MY_HASH": "MASK_HASH",
    "MY_YEAR": "MASK_DATE_SHOW_YEAR",
}
COLUMN = Resource((("database", "hr"), ("table", "emp"), ("column", "ssn")))
TRANSFORMERS = {
    "MY_LAST": "mask_show_last_n({col}, 4, 'x', 'x', 'x', -1, '1')",
    "MY_FIRST": "mask_show_first_n({col}, 4, 'x', 'x', 'x', -1, '1')",
    "MY_HASH": "mask_hash({col})",
    "MY_YEAR": "mask({col}, 'x', 'x', 'x', -1, '1', 1, 0, -1)",
    "MY_OWN": "mask_show_last_n(upper({col}), 4)",
    "MY_HALF": "mask_hash({col}",
    "MY_TWO": "mask({col}); drop table t",
    "MY_NOTHING": "",
    "MY_SQL": "upper({col})",
}


def masked(mask_type: str, data_type: str, definition: dict[str, Any]) -> str | None:
    """Return what the column hr.emp.ssn shows by a mask of this type, as Spark SQL."""
    item = {"groups": ["public"], "accesses": ["select"], "dataMaskInfo": {"dataMaskType": mask_type}}
    policy = {"policyType": 1, "resources": "hr.emp.ssn", "dataMaskPolicyItems": [item]}
    policies = load(spelled_out({"serviceDef": definition, "policies": [policy]}))
    answer = evaluate(
        policies,
        {
            "user": "ann",
            "accessType": "select",
            "resource": {"elements": {"database": "hr", "table": "emp", "column": "ssn"}},
        },
    )
    assert answer["dataMask"] is not None
    mask = engine_for(policies).mask(Principal(user="ann"), COLUMN, data_type, service="dev")
    return None if mask is None else mask.expression


def with_transformers() -> dict[str, Any]:
    definition = copy.deepcopy(definitions()["hive"])
    definition["dataMaskDef"]["maskTypes"] += [
        {"itemId": 100 + i, "name": name, "transformer": text}
        for i, (name, text) in enumerate(TRANSFORMERS.items())
    ]
    return definition


@pytest.mark.parametrize("data_type", ["string", "int", "date", "varchar(10)", "double"])
@pytest.mark.parametrize(("own", "known"), MASKS.items())
def test_transformers_are_understood(own: str, known: str, data_type: str) -> None:
    definition = with_transformers()
    assert masked(own, data_type, definition) == masked(known, data_type, definition)


def test_a_transformer_that_is_sql_shows_what_it_says() -> None:
    assert "(upper(`ssn`)) AS" in str(masked("MY_SQL", "string", with_transformers()))


@pytest.mark.parametrize("mask_type", ["MY_OWN", "MY_HALF", "MY_TWO", "MY_NOTHING"])
def test_a_transformer_that_is_not_understood_shows_nothing(mask_type: str) -> None:
    definition = with_transformers()
    assert masked(mask_type, "string", definition) == masked("MASK_NULL", "string", definition)


def test_a_mask_type_that_nobody_defined_shows_nothing() -> None:
    definition = with_transformers()
    assert masked("NOBODY_KNOWS", "string", definition) == masked("MASK_NULL", "string", definition)


JUNK: tuple[Any, ...] = (
    None,
    True,
    -1,
    1.5,
    10**30,
    "",
    "x",
    "{",
    "${{",
    "\ud800",
    [],
    {},
    [None],
    [[]],
    [{}],
    {"a": 1},
    ["a", 1],
)


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of everything in a JSON document but the document itself."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def spoil(data: Any, random: Random) -> Any:
    """Return a copy in which one place holds something else."""
    spoilt = copy.deepcopy(data)
    *way, last = random.choice(list(places(spoilt)))
    place = spoilt
    for key in way:
        place = place[key]
    place[last] = copy.deepcopy(random.choice(JUNK))
    return spoilt


def loaded(download: Any) -> PolicySet | None:
    """Return the policies, or None when they are refused."""
    try:
        return load(download)
    except Faults:
        return None


@pytest.mark.parametrize("part", range(4))
def test_what_is_spoilt_is_refused_or_answered(part: int) -> None:
    """Nothing but Faults is raised, whatever stands where."""
    refused = 0
    for seed in range(part * 150, part * 150 + 150):
        random = Random(seed)
        world = random.choice(worlds())
        policies = loaded(spoil(world.download, random))
        if policies is None:
            refused += 1
            continue
        for case in world.cases():
            assert isinstance(evaluate(policies, case.request)["isAllowed"], bool), seed
            with contextlib.suppress(Faults):
                evaluate(policies, spoil(dict(case.request), random))
    assert 30 < refused < 140


def test_there_are_cases_for_every_section() -> None:
    told = Counter(rule for case in cases() for rule in case.rule.replace(",", " ").split() if "§" in rule)
    sections = [f"§2.{n}" for n in range(1, 7)] + [f"§3.{n}" for n in range(2, 14)] + ["§1.2", "§1.3", "§4"]
    assert [section for section in sections if not told[section]] == []
    assert [n for n in range(1, 31) if n != 23 and not told[f"§9.{n}"]] == []
    assert len(cases()) > 900
    ids = Counter(case.id for case in cases())
    assert [ident for ident, count in ids.items() if count > 1] == []
