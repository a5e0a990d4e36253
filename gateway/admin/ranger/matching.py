"""Whether resources of policies and zones match what a search or a request names, or each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.admin.ranger.definitions import ACCESS, ServiceType
from gateway.model.policy import ResourceDef, ResourceValues
from gateway.policy.globs import LOST_STAR
from gateway.policy.hierarchy import HERE, MatchType, ResourceEntry
from gateway.policy.matching import NOBODY, LevelMatcher, comparison, fold

SCOPES: Mapping[str, frozenset[MatchType]] = {
    "self": HERE,
    "self_or_descendant": HERE | {MatchType.DESCENDANT},
    "self_or_ancestor": HERE | {MatchType.ANCESTOR},
    "descendant": frozenset({MatchType.DESCENDANT}),
    "ancestor": frozenset({MatchType.ANCESTOR}),
    "any": frozenset(MatchType) - {MatchType.NONE},
    "": frozenset(MatchType) - {MatchType.NONE},
}
"""Ranger's search scopes; without one everything that touches the resource counts."""


def matcher(level: ResourceDef, one: Mapping[str, Any] | None) -> LevelMatcher:
    """Return what says whether a policy's values at one level match: nobody asks, so tokens are texts."""
    given = one or {}
    values = ResourceValues(
        values=tuple(str(value) for value in given.get("values") or () if value),
        excludes=bool(given.get("isExcludes")),
        recursive=bool(given.get("isRecursive")),
    )
    return LevelMatcher(replace(level, replaces_tokens=False, replaces_expressions=False), values)


def values_match(level: ResourceDef, one: Mapping[str, Any] | None, value: str) -> bool:
    """Say whether a policy's values at one level match a requested value there."""
    return bool(matcher(level, one).matches(comparison(level)(value), NOBODY))


def match(
    resources: Mapping[str, Any], request: Mapping[str, str], definition: ServiceType, type_: int = ACCESS
) -> MatchType:
    """Return how a policy's resource map relates to a requested resource: Ranger's walk down."""
    way = _way(set(resources), set(request), definition, type_)
    if way is None:
        return MatchType.NONE
    levels, held = definition.levels(type_), way[: len(resources)]
    entry = ResourceEntry(None, held, tuple(matcher(levels[name], resources[name]) for name in held))
    asked = [comparison(levels[name])(request[name]) for name in way[: len(request)]]
    return entry.match(asked, NOBODY)


def _way(policy: set[str], request: set[str], definition: ServiceType, type_: int) -> tuple[str, ...] | None:
    """Return the hierarchy by which the two are compared; neither may have a gap in it."""
    for way in definition.hierarchies(type_):
        if all(keys == set(way[: len(keys)]) for keys in (policy, request)):
            return way
    return None


def overlap(
    one: Mapping[str, Sequence[str]],
    other: Mapping[str, Sequence[str]],
    definition: ServiceType,
    type_: int = ACCESS,
) -> bool:
    """Say whether some resource lies in both of two resource maps, of zones or of policies of a type."""
    levels = definition.levels(type_)
    if not any(set(one) | set(other) <= set(way) for way in definition.hierarchies(type_)):
        return False
    for name in set(one) & set(other):
        level = levels[name]
        fit = any(
            globs_meet(
                fold(a) if level.ignore_case else a, fold(b) if level.ignore_case else b, path=level.is_path
            )
            for a in one[name]
            for b in other[name]
        )
        if not fit:
            return False
    return True


def globs_meet(one: str, other: str, *, path: bool = False) -> bool:
    """Say whether some text matches both patterns; those of paths hold what lies below, too."""
    if path:
        one, other = one.rstrip("/") + "*", other.rstrip("/") + "*"
    one, other = LOST_STAR.sub("", one), LOST_STAR.sub("", other)
    reached = {0}
    reached = _stars(one, reached)
    for character in other:
        onward: set[int] = set(range(min(reached), len(one) + 1)) if character == "*" else set()
        for at in reached if character != "*" else ():
            if at < len(one):
                if one[at] == "*":
                    onward.add(at)
                elif "?" in (one[at], character) or one[at] == character:
                    onward.add(at + 1)
        reached = _stars(one, onward)
        if not reached:
            return False
    return len(one) in reached


def _stars(text: str, reached: set[int]) -> set[int]:
    """Add the places behind stars, which may stand for nothing."""
    found = set(reached)
    for at in sorted(reached):
        while at < len(text) and text[at] == "*" and at + 1 not in found:
            at += 1
            found.add(at)
    return found
