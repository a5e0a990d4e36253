"""What a stored service definition lets policies say, as the policy engine reads it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from gateway.admin.ranger.json_fields import Object
from gateway.model.policy import ConditionDef, PolicyType, ResourceDef, ServiceDef
from gateway.policy.diagnostics import Diagnostics
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.json_shapes import Reader
from gateway.policy.service_defs import IMPLICIT, SCRIPT, expand_markers, read_service_def

ACCESS, MASK, ROW_FILTER = (int(type_) for type_ in PolicyType)
_OVERLAID = {MASK: "dataMaskDef", ROW_FILTER: "rowFilterDef"}


class ServiceType:
    """A service definition that policies are checked against; reading a faulty one never raises."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.name = str(body.get("name") or "")
        self._levels: dict[int, dict[str, ResourceDef]] = {}
        self._ways: dict[int, tuple[tuple[str, ...], ...]] = {}

    @cached_property
    def definition(self) -> ServiceDef:
        """The definition as the engine gets it, with marker access types."""
        body = {**self.body, "markerAccessTypes": markers(self.body)}
        return read_service_def(body, Reader(Diagnostics()), (), strict=False)

    def levels(self, type_: int = ACCESS) -> Mapping[str, ResourceDef]:
        """Return name → level for policies of a type, in the definition's order."""
        if type_ not in self._levels:
            levels = self.definition.levels(PolicyType(type_))
            self._levels[type_] = {level.name: level for level in levels if level.name}
        return self._levels[type_]

    def hierarchies(self, type_: int = ACCESS) -> tuple[tuple[str, ...], ...]:
        """Return every way from a root to a last level, and every beginning of one that may end a policy."""
        if type_ not in self._ways:
            levels = tuple(self.levels(type_).values())
            parents = {level.parent for level in levels}
            ways = [hierarchy_to(one.name, levels) for one in levels if one.leaf or one.name not in parents]
            self._ways[type_] = tuple(tuple(level.name for level in way) for way in ways if way)
        return self._ways[type_]

    def accesses(self, type_: int = ACCESS) -> Mapping[str, str]:
        """Return lower-case name → name of every access type that policies of a type may use."""
        if type_ in _OVERLAID:
            entries = (self.body.get(_OVERLAID[type_]) or {}).get("accessTypes") or []
        else:
            entries = [*(self.body.get("accessTypes") or []), *markers(self.body)]
        return {str(e["name"]).lower(): str(e["name"]) for e in entries if e.get("name")}

    @cached_property
    def masks(self) -> frozenset[str]:
        """Names of the mask types."""
        return frozenset(mask.name for mask in self.definition.mask_types)

    @cached_property
    def conditions(self) -> Mapping[str, ConditionDef]:
        """Name → condition definition, the implied one too."""
        return {condition.name: condition for condition in self.definition.conditions}


def markers(body: Mapping[str, Any]) -> list[Object]:
    """Return Ranger's marker access types: each category's accesses with what they grant, and `_ALL`."""
    entries = body.get("accessTypes") or []
    granted = expand_markers(
        (
            str(e.get("name") or ""),
            str(e.get("category") or "").upper(),
            filter(None, e.get("impliedGrants") or []),
        )
        for e in entries
    )
    highest = max((e.get("itemId") or 0 for e in entries), default=0)
    return [
        {"itemId": highest + i, "name": marker, "label": marker, "impliedGrants": sorted(grants)}
        for i, (marker, grants) in enumerate(granted.items(), start=1)
    ]


def build_implied_conditions(body: Mapping[str, Any]) -> list[Object]:
    """Return the script condition that a definition without one of its own has besides."""
    given = body.get("policyConditions") or []
    if ServiceType(body).definition.conditions[len(given) :] != (IMPLICIT,):
        return []
    return [
        {
            "itemId": max((e.get("itemId") or 0 for e in given), default=0) + 1,
            "name": IMPLICIT.name,
            "label": "Enter boolean expression",
            "description": "Boolean expression",
            "evaluator": f"org.apache.ranger.plugin.conditionevaluator.{SCRIPT}",
            "evaluatorOptions": {"ui.isMultiline": "true", **IMPLICIT.options},
        }
    ]


def complete_definition(body: Mapping[str, Any]) -> Object:
    """Return the definition with what the server computes: marker access types and the implied condition."""
    return {
        **body,
        "markerAccessTypes": markers(body),
        "policyConditions": [*(body.get("policyConditions") or []), *build_implied_conditions(body)],
    }
