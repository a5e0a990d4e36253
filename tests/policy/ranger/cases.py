"""Reads tests/cases/ranger: policies in Ranger's JSON shape, requests, and the answers by Ranger's rules.

A world is what a policy download holds (`policies`, `tagPolicies`, `securityZones`, `serviceConfig`, …) with
`tags`, `roles` and `userStore` beside it, and its `tests`. What is written short is spelled out here before
the loader sees it: `shop.orders.*` for three levels of values, `select` for `{type: select, isAllowed: true}`
and the name of a definition of `defs.yaml` for the definition.

A test is a line `ann@hr,sec+boss select shop.orders.total -> allow 7` (user, groups, roles, access, resource,
decision, policy id), or a mapping with `ask` (such a line), `request` (fields of a RangerAccessRequest) and
`expect` (fields of the answer). `/` is the empty resource.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import yaml

from gateway.model.policy import PolicySet
from gateway.policy.ranger import load

CASES = Path(__file__).parents[2] / "cases" / "ranger"

TAG_MODEL = ("id", "type", "attributes")
_LINE = re.compile(
    r"(?P<user>[^\s@+]+)(?:@(?P<groups>[^\s+]+))?(?:\+(?P<roles>\S+))?"
    r"(?: (?P<access>\S+))?(?: (?P<resource>\S+))?(?: -> (?P<answer>allow|deny)(?: (?P<policy>-?\d+))?)?"
)
_ITEMS = (
    "policyItems",
    "denyPolicyItems",
    "allowExceptions",
    "denyExceptions",
    "dataMaskPolicyItems",
    "rowFilterPolicyItems",
)


def _read(file: str) -> Any:
    return yaml.load((CASES / file).read_text(encoding="utf-8"), Loader=_Loader)


class _Loader(yaml.CSafeLoader):
    """YAML that knows the scalars of JSON only: `2025-01-01` and `on` are texts."""


_Loader.yaml_implicit_resolvers = {
    mark: [
        (tag, regexp)
        for tag, regexp in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:bool")
    ]
    for mark, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"(?:true|false)\Z"), list("tf"))


@cache
def definitions() -> Mapping[str, dict[str, Any]]:
    """Return the service definitions of `defs.yaml` by their name there."""
    return {entry["is"]: {k: v for k, v in entry.items() if k != "is"} for entry in _read("defs.yaml")}


def instant(text: str) -> int:
    """Return milliseconds since the epoch for `2025-01-01T05:00:00Z`."""
    return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1000)


@dataclass(frozen=True)
class Case:
    """One request and what must come back."""

    world: World
    name: str
    rule: str
    request: Mapping[str, Any]
    expect: Mapping[str, Any]

    @property
    def id(self) -> str:
        return f"{self.world.file.removesuffix('.yaml')}: {self.world.name}: {self.name}"


@dataclass(frozen=True)
class World:
    """Policies and what belongs to them, as Ranger would hand them over."""

    file: str
    data: Mapping[str, Any]
    name: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.data["name"])

    @property
    def rule(self) -> str:
        return str(self.data.get("rule", ""))

    @cached_property
    def download(self) -> dict[str, Any]:
        """The world in Ranger's own spelling."""
        return spelled_out(self.data)

    @cached_property
    def policies(self) -> PolicySet:
        return load(self.download, file=f"{self.file}/{self.name}")

    def cases(self) -> Iterator[Case]:
        for entry in self.data.get("tests", ()):
            test: dict[str, Any] = {"ask": entry} if isinstance(entry, str) else dict(entry)
            request, expect = _line(test.get("ask", ""), self.download["serviceDef"])
            request = {**self.data.get("request", {}), **request, **test.get("request", {})}
            if isinstance(request.get("resource"), str):
                request["resource"] = _elements(request["resource"], self.download["serviceDef"])
            if isinstance(request.get("accessTime"), str) and "T" in request["accessTime"]:
                request["accessTime"] = instant(request["accessTime"])
            name = test.get("name") or test["ask"]
            assert test.keys() <= {"name", "rule", "ask", "request", "expect"}, name
            yield Case(
                self, name, str(test.get("rule", self.rule)), request, {**expect, **test.get("expect", {})}
            )


def spelled_out(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a world as a ServicePolicies with all that is written short in full."""
    found = {
        key: copy.deepcopy(value)
        for key, value in data.items()
        if key not in ("name", "rule", "tests", "request", "faults", "warns", "defPatch")
    }
    found["serviceDef"] = _definition(found.get("serviceDef", "hive"), data.get("defPatch", {}))
    found.setdefault("serviceName", "dev")
    found.setdefault("policyVersion", 7)
    _policies(found, found["serviceDef"])
    if "tagPolicyInfo" in found:
        found["tagPolicyInfo"]["serviceDef"] = _definition(found["tagPolicyInfo"]["serviceDef"], {})
    if isinstance(found.get("tagPolicies"), dict):
        tag_policies = found["tagPolicies"]
        tag_policies["serviceDef"] = _definition(tag_policies.get("serviceDef", "tag"), {})
        tag_policies.setdefault("serviceName", "tags")
        _policies(tag_policies, tag_policies["serviceDef"])
    zones = found.get("securityZones", {})
    for name, zone in zones.items() if isinstance(zones, dict) else ():
        zone.setdefault("zoneName", name)
        _policies(zone, found["serviceDef"], zone=name)
    if isinstance(found.get("tags"), dict) and "on" in found["tags"]:
        found["tags"] = _service_tags(found["tags"], found["serviceDef"])
    return found


def _definition(written: Any, patch: Mapping[str, Any]) -> Any:
    found = copy.deepcopy(definitions()[written]) if isinstance(written, str) else copy.deepcopy(written)
    return {**found, **copy.deepcopy(dict(patch))} if patch else found


def _policies(holder: dict[str, Any], definition: Any, zone: str | None = None) -> None:
    policies = holder.get("policies")
    if not isinstance(policies, list):
        return
    for i, policy in enumerate(policies, 1):
        if not isinstance(policy, dict):
            continue
        policy.setdefault("id", i)
        policy.setdefault("name", f"p{policy['id']}")
        policy.setdefault("version", 1)
        if zone is not None:
            policy.setdefault("zoneName", zone)
        if "resources" in policy:
            policy["resources"] = _resources(policy["resources"], definition)
        more = policy.get("additionalResources")
        if isinstance(more, list):
            policy["additionalResources"] = [_resources(entry, definition) for entry in more]
        for key in _ITEMS:
            for item in policy.get(key) or () if isinstance(policy.get(key), list) else ():
                if isinstance(item, dict) and isinstance(item.get("accesses"), list):
                    item["accesses"] = [
                        {"type": entry, "isAllowed": True} if isinstance(entry, str) else entry
                        for entry in item["accesses"]
                    ]


def _way(definition: Mapping[str, Any]) -> list[str]:
    """Return the names of the longest way down, the one that dotted text means."""
    parents = {entry["name"]: entry.get("parent") or "" for entry in definition["resources"]}
    ways = []
    for name in parents:
        way = [name]
        while parents.get(way[0]):
            way.insert(0, parents[way[0]])
        ways.append(way)
    return max(ways, key=len)


def _resources(written: Any, definition: Mapping[str, Any]) -> Any:
    if isinstance(written, str):
        levels = zip(_way(definition), written.split("."), strict=False)
        return {level: {"values": [v], "isExcludes": False, "isRecursive": False} for level, v in levels}
    if not isinstance(written, dict):
        return written
    return {
        level: {"values": [value] if isinstance(value, str) else value}
        if isinstance(value, str | list)
        else value
        for level, value in written.items()
    }


def _elements(written: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    values = [] if written == "/" else written.split(".")
    return {"elements": dict(zip(_way(definition), values, strict=False))}


def _line(text: str, definition: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if not text:
        return {}, {}
    found = _LINE.fullmatch(text)
    assert found, text
    request: dict[str, Any] = {"user": found["user"]}
    request["userGroups"] = found["groups"].split(",") if found["groups"] else []
    if found["roles"]:
        request["userRoles"] = found["roles"].split(",")
    if found["access"]:
        request["accessType"] = "" if found["access"] == "_" else found["access"]
    if found["resource"]:
        request["resource"] = _elements(found["resource"], definition)
    expect: dict[str, Any] = {}
    if found["answer"]:
        expect["isAllowed"] = found["answer"] == "allow"
    if found["policy"]:
        expect["policyId"] = int(found["policy"])
    return request, expect


def _service_tags(short: Mapping[str, Any], definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ServiceTags for `{on: {shop.orders.card: [PII, {type: X, attributes: {…}}]}}`."""
    tags: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    resources: list[dict[str, Any]] = []
    links: dict[str, list[int]] = {}
    for number, (where, carried) in enumerate(short["on"].items(), 1):
        elements = yaml.safe_load(where) if where.startswith("{") else where
        resources.append({"id": number, "guid": f"r{number}", "serviceName": "dev", "resourceSignature": "s"})
        resources[-1]["resourceElements"] = _resources(elements, definition)
        links[str(number)] = ids = []
        for tag in carried:
            written = {"type": tag} if isinstance(tag, str) else dict(tag)
            ident = len(tags) + 1
            tags[str(ident)] = {"id": ident, "guid": f"t{ident}", "owner": 0, **written}
            kinds[written["type"]] = {"name": written["type"], "source": "internal", "attributeDefs": []}
            ids.append(ident)
    defs = {str(i): {"id": i, **kind} for i, kind in enumerate(kinds.values(), 1)}
    return {
        "op": "add_or_update",
        "serviceName": "dev",
        "tagVersion": 3,
        "tagDefinitions": defs,
        "tags": tags,
        "serviceResources": resources,
        "resourceToTagIds": links,
    }


def _scripted(file: str, entry: Mapping[str, Any]) -> Iterator[World]:
    """Yield two worlds for each script: one in which it allows, one in which it denies."""
    base = {key: value for key, value in entry.items() if key not in ("yes", "no", "fails", "ask")}
    base.setdefault("serviceDef", "hive_conditions")
    for answer in ("yes", "no", "fails"):
        for script in entry.get(answer, ()):
            condition = {"type": "expression", "values": [script]}
            yield from _both_ways(file, base, script, condition, answer, [dict(entry["ask"])])


def _conditioned(file: str, entry: Mapping[str, Any]) -> Iterator[World]:
    """Yield two worlds for a condition of a definition of its own, as `_scripted` does."""
    base = {key: entry[key] for key in ("rule", "tags", "userStore") if key in entry}
    base["name"] = entry["evaluator"]
    base["serviceDef"] = "hive"
    package = "org.apache.ranger.plugin.conditionevaluator."
    base["defPatch"] = {
        "policyConditions": [
            {
                "itemId": 1,
                "name": "cond",
                "evaluator": package + entry["evaluator"],
                "evaluatorOptions": entry.get("options", {}),
            }
        ]
    }
    condition = {"type": "cond", "values": entry["values"]}
    for answer in ("yes", "no", "fails"):
        if entry.get(answer):
            yield from _both_ways(file, base, str(entry["values"]), condition, answer, entry[answer])


def _both_ways(
    file: str,
    base: Mapping[str, Any],
    what: str,
    condition: Mapping[str, Any],
    answer: str,
    requests: list[Mapping[str, Any]],
) -> Iterator[World]:
    public = {"groups": ["public"], "accesses": ["select"]}
    allow = {"id": 1, "resources": "shop.*.*", "policyItems": [{**public, "conditions": [condition]}]}
    deny = {"id": 2, "resources": "shop.*.*", "denyPolicyItems": [{**public, "conditions": [condition]}]}
    plain = {"id": 1, "resources": "shop.*.*", "policyItems": [public]}
    asked = {"resource": "shop.orders.total", "accessType": "select", "user": "ann"}
    for way, policies, allowed, policy in (
        ("allows", [allow], answer == "yes", 1 if answer == "yes" else -1),
        ("denies", [plain, deny], answer == "no", 1 if answer == "no" else 2),
    ):
        tests = [
            {
                "name": json.dumps(request, sort_keys=True) if len(requests) > 1 else "asked",
                "request": {**asked, **request},
                "expect": {"isAllowed": allowed, "policyId": policy},
            }
            for request in requests
        ]
        name = f"{base['name']}: {what} {way} ({answer})"
        yield World(file, {**base, "name": name, "policies": policies, "tests": tests})


def _scheduled(file: str, entry: Mapping[str, Any]) -> Iterator[World]:
    policy = {"resources": "shop.orders.*", "policyItems": [{"users": ["ann"], "accesses": ["select"]}]}
    policy["validitySchedules"] = entry["schedules"]
    tests = [
        {
            "ask": f"ann select shop.orders -> {answer}",
            "name": f"{time} {answer}",
            "request": {"accessTime": time},
            "expect": {"policyId": 1 if answer == "allow" else -1},
        }
        for key, answer in (("applies", "allow"), ("sleeps", "deny"))
        for time in entry.get(key, ())
    ]
    base = {key: entry[key] for key in ("name", "rule")}
    yield World(file, {**base, "policies": [policy], "tests": tests})


_SHAPES = {"scripts": _scripted, "conditions": _conditioned, "schedules": _scheduled}
"""Files whose entries are tables, and what makes worlds of an entry."""


@cache
def worlds() -> tuple[World, ...]:
    """Return every world of every file but those that must not load."""
    found: list[World] = []
    for path in sorted(CASES.glob("*.yaml")):
        if path.stem in ("defs", "faults"):
            continue
        for entry in _read(path.name):
            shape = _SHAPES.get(path.stem)
            found += shape(path.name, entry) if shape else [World(path.name, entry)]
    return tuple(found)


@cache
def faulty() -> tuple[World, ...]:
    """Return the worlds that must not load; their `faults` says what must be told."""
    return tuple(World("faults.yaml", entry) for entry in _read("faults.yaml"))


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case for world in worlds() for case in world.cases())


def differences(case: Case, answer: Mapping[str, Any]) -> list[str]:
    """Return what of the answer is not as expected."""
    found = []
    for key, wanted in case.expect.items():
        got = answer.get(key)
        if key in ("dataMask", "rowFilter"):
            found += _obligation_differences(key, wanted, got)
        elif key == "reason":
            if wanted not in str(got):
                found.append(f"reason: {got!r} does not hold {wanted!r}")
        elif got != wanted:
            found.append(f"{key}: wanted {wanted!r}, got {got!r}")
    return found


_ENABLED = {"dataMask": "isMaskEnabled", "rowFilter": "isRowFilterEnabled"}


def _obligation_differences(
    key: str, wanted: Mapping[str, Any] | None, got: Mapping[str, Any] | None
) -> list[str]:
    if wanted is None:
        holds = got is not None and got.get(_ENABLED[key])
        return [f"{key}: wanted none, got {got!r}"] if holds else []
    if got is None:
        return [f"{key}: wanted {wanted!r}, got none"]
    found = []
    for name, value in wanted.items():
        told = got.get(name)
        if name in ("filterExpr", "maskedValue") and isinstance(told, str) and isinstance(value, str):
            told, value = _plain(told), _plain(value)
        if told != value:
            found.append(f"{key}.{name}: wanted {value!r}, got {told!r}")
    return found


def _plain(text: str) -> str:
    """Return SQL text without the spaces and brackets that do not change what it says."""
    text = re.sub(r"\s*([(),=<>])\s*", r"\1", " ".join(text.split()))
    return text.lower() if text.lower() in ("true", "false") else text
