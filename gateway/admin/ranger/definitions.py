"""What a service definition lets policies say: levels, hierarchies, accesses, masks, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from gateway.admin.ranger.json_fields import Object
from gateway.model.policy import ResourceDef
from gateway.policy.service_defs import IMPLICIT, SCRIPT, granted_by_markers, levels_of

ACCESS, MASK, ROW_FILTER = 0, 1, 2
_OVERLAID = {MASK: "dataMaskDef", ROW_FILTER: "rowFilterDef"}


def _flag(value: object, default: bool) -> bool:
    if isinstance(value, str):
        return value.strip().lower() == "true"
    return value if isinstance(value, bool) else default


class ServiceType:
    """A service definition that policies are checked against; reading a faulty one never raises."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.name = str(body.get("name") or "")
        self._levels: dict[int, dict[str, ResourceDef]] = {}
        self._accesses: dict[int, dict[str, str]] = {}
        self._hierarchies: dict[int, tuple[tuple[str, ...], ...]] = {}

    def part(self, type_: int) -> Mapping[str, Any]:
        """Return the part of the definition that speaks of policies of a type."""
        return (self.body.get(_OVERLAID[type_]) or {}) if type_ in _OVERLAID else self.body

    def levels(self, type_: int = ACCESS) -> Mapping[str, ResourceDef]:
        """Return name → level for policies of a type, in the definition's order."""
        if type_ not in self._levels:
            self._levels[type_] = levels_of(self.body, _OVERLAID.get(type_, ""))
        return self._levels[type_]

    def hierarchies(self, type_: int = ACCESS) -> tuple[tuple[str, ...], ...]:
        """Return every way from a root to a last level, and every beginning of one that may end a policy."""
        if type_ not in self._hierarchies:
            self._hierarchies[type_] = tuple(dict.fromkeys(self._each_hierarchy(type_)))
        return self._hierarchies[type_]

    def _each_hierarchy(self, type_: int) -> Iterator[tuple[str, ...]]:
        levels = self.levels(type_)
        parents = {level.parent for level in levels.values()}
        for level in levels.values():
            way: list[str] = []
            at: ResourceDef | None = level
            while at is not None and at.name not in way:
                way.insert(0, at.name)
                at = levels.get(at.parent) if at.parent else None
            if at is None and (level.name not in parents or level.leaf):
                yield tuple(way)

    def accesses(self, type_: int = ACCESS) -> Mapping[str, str]:
        """Return lower-case name → name of every access type that policies of a type may use."""
        if type_ not in self._accesses:
            self._accesses[type_] = self._known_accesses(type_)
        return self._accesses[type_]

    def _known_accesses(self, type_: int) -> dict[str, str]:
        part = self.part(type_)
        entries = list(part.get("accessTypes") or [])
        if type_ not in _OVERLAID:
            entries += markers(self.body)
        return {str(e["name"]).lower(): str(e["name"]) for e in entries if e.get("name")}

    @cached_property
    def masks(self) -> frozenset[str]:
        """Names of the mask types."""
        return frozenset(str(e.get("name")) for e in self.part(MASK).get("maskTypes") or [])

    @cached_property
    def conditions(self) -> Mapping[str, Mapping[str, Any]]:
        """Name → condition definition, the implied one too."""
        return {
            str(e.get("name")): e
            for e in [*(self.body.get("policyConditions") or []), *implied_conditions(self.body)]
        }

    @cached_property
    def denies(self) -> bool:
        """Whether deny items and exceptions mean anything."""
        options = self.body.get("options") or {}
        return _flag(options.get("enableDenyAndExceptionsInPolicies"), default=True)


def markers(body: Mapping[str, Any]) -> list[Object]:
    """Return Ranger's marker access types: each category's accesses with what they grant, and `_ALL`."""
    entries = body.get("accessTypes") or []
    granted = granted_by_markers(
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


def implied_conditions(body: Mapping[str, Any]) -> list[Object]:
    """Return the script condition that a definition without one of its own has besides."""
    options = body.get("options") or {}
    if not _flag(options.get("enableImplicitConditionExpression"), default=True):
        return []
    given = body.get("policyConditions") or []
    if any(str(e.get("evaluator") or "").endswith(SCRIPT) for e in given):
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


def completed(body: Mapping[str, Any]) -> Object:
    """Return the definition with what the server computes: marker access types and the implied condition."""
    return {
        **body,
        "markerAccessTypes": markers(body),
        "policyConditions": [*(body.get("policyConditions") or []), *implied_conditions(body)],
    }
