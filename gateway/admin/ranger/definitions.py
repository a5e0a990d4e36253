"""What a service definition lets policies say: levels, hierarchies, accesses, masks, conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from gateway.admin.ranger.json_fields import Object

ACCESS, MASK, ROW_FILTER = 0, 1, 2
_MARKED = ("CREATE", "READ", "UPDATE", "DELETE", "MANAGE")
_OVERLAID = {MASK: "dataMaskDef", ROW_FILTER: "rowFilterDef"}


@dataclass(frozen=True, slots=True)
class Level:
    """One resource of a definition, as policies of one type see it."""

    name: str
    parent: str = ""
    order: int = 10
    mandatory: bool = False
    leaf: bool | None = None
    """Whether a policy may end here; None: the definition does not say, so only at the end of a hierarchy."""
    excludes: bool = False
    recursive: bool = False
    wildcard: bool = True
    ignore_case: bool = True
    path: bool = False
    separator: str = "/"
    pattern: str = ""
    """The expression that values must match."""


def _flag(value: object, default: bool) -> bool:
    if isinstance(value, str):
        return value.strip().lower() == "true"
    return value if isinstance(value, bool) else default


def _level(entry: Mapping[str, Any]) -> Level:
    options = entry.get("matcherOptions") or {}
    matcher = str(entry.get("matcher") or "")
    leaf = entry.get("isValidLeaf")
    order = entry.get("level")
    return Level(
        name=str(entry.get("name") or ""),
        parent=str(entry.get("parent") or ""),
        order=order if isinstance(order, int) else 10,
        mandatory=_flag(entry.get("mandatory"), default=False),
        leaf=None if leaf is None else _flag(leaf, default=False),
        excludes=_flag(entry.get("excludesSupported"), default=False),
        recursive=_flag(entry.get("recursiveSupported"), default=False),
        wildcard=_flag(options.get("wildCard"), default=True),
        ignore_case=_flag(options.get("ignoreCase"), default=True),
        path=matcher.endswith(("PathResourceMatcher", "URLResourceMatcher")),
        separator=str(options.get("pathSeparatorChar") or "/"),
        pattern=str(entry.get("validationRegEx") or ""),
    )


def _overlaid(base: Level, entry: Mapping[str, Any]) -> Level:
    """Return the level with what a mask or filter definition says of it; a leaf only if that says so."""
    options = entry.get("matcherOptions") or {}
    leaf = entry.get("isValidLeaf")
    return replace(
        base,
        mandatory=_flag(entry.get("mandatory"), base.mandatory),
        leaf=None if leaf is None else _flag(leaf, default=False),
        excludes=_flag(entry.get("excludesSupported"), base.excludes),
        recursive=_flag(entry.get("recursiveSupported"), base.recursive),
        wildcard=_flag(options.get("wildCard"), base.wildcard),
        ignore_case=_flag(options.get("ignoreCase"), base.ignore_case),
        pattern=str(entry.get("validationRegEx") or base.pattern),
    )


class Definition:
    """A service definition that policies are checked against; reading a faulty one never raises."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self.body = body
        self.name = str(body.get("name") or "")
        self._levels: dict[int, dict[str, Level]] = {}
        self._accesses: dict[int, dict[str, str]] = {}
        self._hierarchies: dict[int, tuple[tuple[str, ...], ...]] = {}

    def part(self, type_: int) -> Mapping[str, Any]:
        """Return the part of the definition that speaks of policies of a type."""
        return (self.body.get(_OVERLAID[type_]) or {}) if type_ in _OVERLAID else self.body

    def levels(self, type_: int = ACCESS) -> Mapping[str, Level]:
        """Return name → level for policies of a type, in the definition's order."""
        if type_ not in self._levels:
            base = {e["name"]: _level(e) for e in self.body.get("resources") or [] if e.get("name")}
            if type_ in _OVERLAID:
                over = {e.get("name"): e for e in self.part(type_).get("resources") or []}
                base = {n: _overlaid(level, over[n]) for n, level in base.items() if n in over}
            self._levels[type_] = base
        return self._levels[type_]

    def hierarchies(self, type_: int = ACCESS) -> tuple[tuple[str, ...], ...]:
        """Return every way from a root to a last level, and every beginning of one that may end a policy."""
        if type_ not in self._hierarchies:
            self._hierarchies[type_] = tuple(dict.fromkeys(self._ways(type_)))
        return self._hierarchies[type_]

    def _ways(self, type_: int) -> Iterator[tuple[str, ...]]:
        levels = self.levels(type_)
        parents = {level.parent for level in levels.values()}
        for level in levels.values():
            way: list[str] = []
            at: Level | None = level
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
    found: dict[str, list[str]] = {name: [] for name in _MARKED}
    everything: list[str] = []
    for entry in body.get("accessTypes") or []:
        name = str(entry.get("name") or "")
        everything.append(name)
        category = str(entry.get("category") or "").upper()
        if category in found:
            found[category] += [name, *(g for g in entry.get("impliedGrants") or [] if g)]
    highest = max((e.get("itemId") or 0 for e in body.get("accessTypes") or []), default=0)
    granted: Sequence[tuple[str, list[str]]] = [*found.items(), ("ALL", everything)]
    return [
        {
            "itemId": highest + i,
            "name": f"_{category}",
            "label": f"_{category}",
            "impliedGrants": sorted(set(grants)),
        }
        for i, (category, grants) in enumerate(granted, start=1)
    ]


def implied_conditions(body: Mapping[str, Any]) -> list[Object]:
    """Return the script condition that a definition without one of its own has besides."""
    options = body.get("options") or {}
    if not _flag(options.get("enableImplicitConditionExpression"), default=True):
        return []
    given = body.get("policyConditions") or []
    if any(str(e.get("evaluator") or "").endswith("RangerScriptConditionEvaluator") for e in given):
        return []
    return [
        {
            "itemId": max((e.get("itemId") or 0 for e in given), default=0) + 1,
            "name": "_expression",
            "label": "Enter boolean expression",
            "description": "Boolean expression",
            "evaluator": "org.apache.ranger.plugin.conditionevaluator.RangerScriptConditionEvaluator",
            "evaluatorOptions": {"ui.isMultiline": "true", "engineName": "JavaScript"},
        }
    ]


def completed(body: Mapping[str, Any]) -> Object:
    """Return the definition with what the server computes: marker access types and the implied condition."""
    return {
        **body,
        "markerAccessTypes": markers(body),
        "policyConditions": [*(body.get("policyConditions") or []), *implied_conditions(body)],
    }
