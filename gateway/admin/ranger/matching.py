"""Whether resources of policies and zones match what a search or a request names, or each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from gateway.admin.ranger.definitions import ACCESS, ServiceType
from gateway.model.policy import ResourceDef
from gateway.policy.globs import LOST_STAR, glob
from gateway.policy.hierarchy import HERE, MatchType
from gateway.policy.matching import fold

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


@lru_cache(maxsize=8192)
def _pattern(text: str, ignore_case: bool, path: bool, recursive: bool, separator: str) -> re.Pattern[str]:
    if path and text.endswith(separator):
        text += "*"
    compiled = glob([(fold(text) if ignore_case else text, True)])
    below = f"(?s:{re.escape(separator)}.*)?" if path and recursive else ""
    return re.compile(compiled + below)


def is_all(level: ResourceDef, one: Mapping[str, Any]) -> bool:
    """Say whether the values of a policy at a level are every value."""
    values = [v for v in one.get("values") or [] if v and v.strip()]
    return not values or (level.wildcard and any(not v.strip("*") for v in values))


def values_match(level: ResourceDef, one: Mapping[str, Any], value: str) -> bool:
    """Say whether a policy's values at one level match a requested value there."""
    excludes = bool(one.get("isExcludes"))
    if is_all(level, one):
        return not excludes
    if value in ("", "*"):
        return False
    asked = fold(value) if level.ignore_case else value
    recursive = bool(one.get("isRecursive")) and level.is_path
    found = False
    for listed in one.get("values") or []:
        text = (fold(listed) if level.ignore_case else listed) if listed else ""
        if not text.strip():
            continue
        if not level.wildcard and not recursive:
            found = text == asked
        else:
            plain = text.rstrip(level.separator) if recursive and not level.wildcard else text
            pattern = _pattern(plain, level.ignore_case, level.is_path, recursive, level.separator)
            found = pattern.fullmatch(asked) is not None
        if found:
            break
    return found != excludes


def match(
    resources: Mapping[str, Any], request: Mapping[str, str], definition: ServiceType, type_: int = ACCESS
) -> MatchType:
    """Return how a policy's resource map relates to a requested resource: Ranger's walk down."""
    way = _way(set(resources), set(request), definition, type_)
    if way is None:
        return MatchType.NONE
    levels = definition.levels(type_)
    specific = -1
    for i, name in enumerate(way):
        if name in resources and not is_all(levels[name], resources[name] or {}):
            specific = i
    found = MatchType.NONE if request else MatchType.SELF
    for name in way:
        one, value = resources.get(name), request.get(name)
        if one is None:
            return MatchType.ANCESTOR if value is not None else _narrowed(found, resources, request, specific)
        if value is None:
            if not is_all(levels[name], one):
                break
        elif not values_match(levels[name], one, value):
            return MatchType.NONE
        found = MatchType.SELF
    return _narrowed(found, resources, request, specific)


def _narrowed(
    found: MatchType, resources: Mapping[str, Any], request: Mapping[str, str], specific: int
) -> MatchType:
    if found is MatchType.SELF and len(request) < len(resources):
        return MatchType.SELF_AND_ALL_DESCENDANTS if len(request) > specific else MatchType.DESCENDANT
    return found


def _way(policy: set[str], request: set[str], definition: ServiceType, type_: int) -> tuple[str, ...] | None:
    """Return the hierarchy by which the two are compared; neither may have a gap in it."""
    ways = sorted(definition.hierarchies(type_), key=len)
    for way in ways:
        fits = policy | request <= set(way)
        if fits and all(keys == set(way[: len(keys)]) for keys in (policy, request)):
            return way
    return None


def overlap(
    one: Mapping[str, Sequence[str]], other: Mapping[str, Sequence[str]], definition: ServiceType
) -> bool:
    """Say whether some resource lies in both of two zones' resource maps."""
    levels = definition.levels()
    if not any(set(one) | set(other) <= set(way) for way in definition.hierarchies()):
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
