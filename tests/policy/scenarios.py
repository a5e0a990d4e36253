"""Reads tests/cases/policy: policies in short form, and one line for each question with its answer.

`ann@hr,sec+boss select shop.orders owner=bob -> allow p1` reads: user ann of the groups hr and sec with the
role boss asks for select on shop.orders, owned by bob; allowed by policy p1. Words after the resource that
are not `owner` are attributes of the user.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
    Role,
    Service,
    ServiceDef,
)
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.compiled import hierarchy_to
from gateway.policy.documents import parse_document
from gateway.policy.engine import Engine
from gateway.policy.service_defs import parse_service_def

CASES = Path(__file__).parents[1] / "cases" / "policy"
SHIPPED = Path(__file__).parents[2] / "rules" / "service_defs" / "spark.yaml"
FILES = ("ranger_examples", "matching", "items", "obligations", "spark_service")

_LINE = re.compile(
    r"(?P<user>[^\s@+]+)(?:@(?P<groups>[^\s+]+))?(?:\+(?P<roles>\S+))? "
    r"(?:(?P<access>[^\s.:/]+) )?(?P<resource>\S+)(?P<extra>(?: \w+=\S+)*) -> (?P<answer>.*)"
)


@cache
def definitions() -> Mapping[str, ServiceDef]:
    small = parse_document(
        (CASES / "service_defs.yaml").read_text(encoding="utf-8"), "service_defs.yaml"
    ).data
    found = [parse_service_def(yaml.safe_dump(entry), entry["name"]) for entry in small]
    found.append(parse_service_def(SHIPPED.read_text(encoding="utf-8"), "spark.yaml"))
    return {definition.name: definition for definition in found}


@dataclass(frozen=True)
class Question:
    """One line of a scenario."""

    principal: Principal
    access: str
    resource: Resource
    answer: str
    policy: str


class Scenario:
    """One set of policies with its questions."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.name = data["name"]
        self.service = data.get("service", "hive")
        roles = tuple(
            Role(
                name=name,
                users=frozenset(members.get("users", ())),
                groups=frozenset(members.get("groups", ())),
                roles=frozenset(members.get("roles", ())),
            )
            for name, members in data.get("roles", {}).items()
        )
        catalogs = data.get("catalogs", {})
        policies = tuple(
            policy_of(name, i, entry, entry.get("service", self.service))
            for i, (name, entry) in enumerate(data["policies"].items(), 1)
        )
        defs = dict(definitions())
        if self.service != "spark":
            # These scenarios speak of one service, and hive's has no catalogs to choose it by.
            defs["spark"] = defs[self.service]
            policies = tuple(replace(policy, service="spark") for policy in policies)
        self.policies = policy_set(defs, policies, roles=roles, catalog_services=catalogs)
        self.engine = Engine(self.policies)
        self.definition = defs["spark"]

    def questions(self, kind: str) -> list[tuple[str, Question]]:
        return [(line, self._question(line)) for line in self.data.get(kind, [])]

    def _question(self, line: str) -> Question:
        found = _LINE.fullmatch(line)
        assert found, line
        extra = dict(pair.split("=", 1) for pair in found["extra"].split())
        owner = extra.pop("owner", None)
        principal = Principal(
            user=found["user"],
            groups=frozenset((found["groups"] or "").split(",")) - {""},
            roles=frozenset((found["roles"] or "").split(",")) - {""},
            attributes=tuple(sorted(extra.items())),
        )
        answer, _, policy = found["answer"].partition(" ") if found["access"] else (found["answer"], "", "")
        access, target = found["access"] or "", found["resource"]
        if target.startswith("update:"):
            access, target = "update", target[7:]
        return Question(principal, access, self._resource(target, owner), answer, policy)

    def _resource(self, text: str, owner: str | None) -> Resource:
        if text == "/":
            return Resource((), owner)
        kind, colon, rest = text.partition(":")
        if colon and kind in ("url", "setting"):
            return Resource(((kind, rest),), owner)
        values = (rest if colon and kind in ("udf", "procedure") else text).split(".")
        way = hierarchy_to("column", self.definition.resources)
        if colon and kind in ("udf", "procedure"):
            way = hierarchy_to(kind, self.definition.resources)
        assert way is not None
        return Resource(tuple((level.name, value) for level, value in zip(way, values, strict=False)), owner)


def policy_set(
    definitions: Mapping[str, ServiceDef],
    policies: Sequence[Policy] = (),
    *,
    roles: tuple[Role, ...] = (),
    catalog_services: Mapping[str, str] | None = None,
) -> PolicySet:
    """Return a PolicySet with a service for each definition, called like it or like its key."""
    services = {
        name: Service(
            name=name, definition=definition, policies=tuple(p for p in policies if p.service == name)
        )
        for name, definition in definitions.items()
    }
    return PolicySet(version=1, services=services, roles=roles, catalog_services=catalog_services or {})


def values_of(written: object) -> ResourceValues:
    excludes = recursive = False
    if isinstance(written, dict):
        excludes, recursive = "except" in written, bool(written.get("recursive"))
        written = written.get("except") if excludes else written.get("values")
    values = written if isinstance(written, list) else [written]
    return ResourceValues(values=tuple(map(str, values)), excludes=excludes, recursive=recursive)


def resources_of(written: Mapping[str, object]) -> ResourceSet:
    return {level: values_of(values) for level, values in written.items()}


def policy_of(name: str, ident: int, data: Mapping[str, Any], service: str) -> Policy:
    """Return a policy as it is written, unchecked: the pack loader's checks are not under test here."""
    on = data["on"] if isinstance(data["on"], list) else [data["on"]]

    def who(item: Mapping[str, Any]) -> dict[str, frozenset[str]]:
        names = {key: frozenset(item.get(key, ())) for key in ("users", "groups", "roles")}
        return names | {"accesses": frozenset(item.get("access", ["select"]))}

    def items(key: str) -> tuple[PolicyItem, ...]:
        return tuple(PolicyItem(**who(item)) for item in data.get(key, ()))  # type: ignore[arg-type]

    masks = tuple(
        MaskItem(**who(item), mask_type=item["type"], value_expression=item.get("show"))  # type: ignore[arg-type]
        for item in data.get("mask", ())
    )
    filters = tuple(
        FilterItem(**who(item), filter_expression=item["where"])  # type: ignore[arg-type]
        for item in data.get("filter", ())
    )
    type_ = PolicyType.MASK if masks else PolicyType.ROW_FILTER if filters else PolicyType.ACCESS
    return Policy(
        id=ident,
        name=name,
        service=service,
        type=type_,
        resources=resources_of(on[0]),
        additional_resources=tuple(map(resources_of, on[1:])),
        enabled=data.get("enabled", True),
        priority=data.get("priority", 0),
        allow=items("allow"),
        deny=items("deny"),
        allow_exceptions=items("allow_exceptions"),
        deny_exceptions=items("deny_exceptions"),
        masks=masks,
        filters=filters,
        deny_all_else=data.get("deny_all_else", False),
    )


@cache
def scenarios() -> tuple[Scenario, ...]:
    found = []
    for file in FILES:
        text = (CASES / f"{file}.yaml").read_text(encoding="utf-8")
        found += [Scenario(entry) for entry in parse_document(text, f"{file}.yaml").data]
    return tuple(found)
