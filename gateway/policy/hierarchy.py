"""Hierarchies of a service definition, and how a policy's resources relate to a requested one."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.model.policy import ResourceDef, ResourceSet, ResourceValues
from gateway.model.resource import ElementScope
from gateway.policy.matching import NO_CONTEXT_DEPENDENCIES, Asker, LevelMatcher


class MatchType(enum.Enum):
    """How a policy's resource relates to the requested one; the names are Ranger's."""

    NONE = 0
    SELF = 1
    SELF_AND_ALL_DESCENDANTS = 2
    DESCENDANT = 3
    """The policy speaks of something below the requested resource."""
    ANCESTOR = 4
    """The policy speaks of something above it."""


HERE = frozenset({MatchType.SELF, MatchType.SELF_AND_ALL_DESCENDANTS})


class ResourceEntry:
    """One resource set of a policy, tagged resource or zone: a matcher for each level, from the root down."""

    __slots__ = ("context_dependencies", "last_specific", "levels", "matchers", "of", "scripted")

    def __init__(self, of: Any, levels: tuple[str, ...], matchers: tuple[LevelMatcher, ...]) -> None:
        self.of = of
        """What has these resources."""
        self.levels = levels
        self.matchers = matchers
        self.last_specific = -1
        self.scripted = False
        """Whether a match may be one that cannot be told."""
        for at, matcher in enumerate(matchers):
            if not matcher.any:
                self.last_specific = at
            if matcher.scripted:
                self.scripted = True
        self.context_dependencies = (
            NO_CONTEXT_DEPENDENCIES.union(*(m.context_dependencies for m in matchers))
            if self.dynamic
            else NO_CONTEXT_DEPENDENCIES
        )

    @property
    def dynamic(self) -> bool:
        """Whether what it matches depends on who asks."""
        return any(m.dynamic for m in self.matchers)

    def match(self, values: Sequence[str], asker: Asker, scopes: Sequence[ElementScope] = ()) -> MatchType:
        """Say how this resource set relates to a resource whose levels are on the same way down.

        `scopes` are those of its levels, none where values are to match as they are. What cannot be told
        counts as a match; `doubtful` tells those.
        """
        asked, held = len(values), len(self.matchers)
        if scopes:
            for matcher, value, scope in zip(self.matchers, values, scopes, strict=False):
                if matcher.matches_within(value, asker, scope) is False:  # RULE (level-scopes)
                    return MatchType.NONE
        else:
            for matcher, value in zip(self.matchers, values, strict=False):
                if matcher.matches(value, asker) is False:
                    return MatchType.NONE
        if asked > held:
            return MatchType.ANCESTOR
        if asked == held:
            return MatchType.SELF
        for matcher in self.matchers[asked:]:
            if not matcher.any:
                break
            if matcher.never:  # RULE (everything-excluded)
                return MatchType.NONE
        # RULE (self-and-descendants, descendant-not-self)
        return MatchType.SELF_AND_ALL_DESCENDANTS if asked > self.last_specific else MatchType.DESCENDANT

    def may_begin(self, levels: Sequence[str], values: Sequence[str]) -> bool:
        """Say whether this may speak of something on this way down whose deepest name begins as here, or of
        what it lies in or of what lies in it; in doubt it may."""
        if any(one != other for one, other in zip(self.levels, levels, strict=False)):
            return False
        deepest = len(values) - 1
        return all(
            matcher.may_match(value) if at < deepest else matcher.may_begin(value)
            for at, (matcher, value) in enumerate(zip(self.matchers, values, strict=False))
        )

    def doubtful(self, values: Sequence[str], asker: Asker) -> bool:
        """Say whether it cannot be told if these resources match the values."""
        return self.scripted and any(
            matcher.matches_within(value, asker, ElementScope.SELF) is None
            for matcher, value in zip(self.matchers, values, strict=False)
        )


def hierarchy_to(name: str, levels: Sequence[ResourceDef]) -> tuple[ResourceDef, ...] | None:
    """Return the levels from the root to `name`, or None when the definition has no such way."""
    by_name = {level.name: level for level in levels}
    way: list[ResourceDef] = []
    step: str | None = name
    while step:
        level = by_name.get(step)
        if level is None or level in way:
            return None
        way.append(level)
        step = level.parent
    return tuple(reversed(way))


def level_sets(levels: Sequence[ResourceDef]) -> frozenset[frozenset[str]]:
    """Return the names of the levels of each way from the root."""
    ways = (hierarchy_to(level.name, levels) for level in levels)
    return frozenset(frozenset(step.name for step in way) for way in ways if way is not None)


_MAX_SHARED = 65_536


@dataclass(frozen=True, slots=True, eq=False)
class Hierarchy:
    """One way down from the root; makes entries, which share the matchers of equal values."""

    names: tuple[str, ...]
    levels: tuple[ResourceDef, ...]
    shared: tuple[dict[ResourceValues, LevelMatcher], ...]

    def entry(self, of: Any, resources: ResourceSet) -> ResourceEntry:
        matchers = []
        for name, level, shared in zip(self.names, self.levels, self.shared, strict=True):
            values = resources[name]
            matcher = shared.get(values)
            if matcher is None:
                if len(shared) >= _MAX_SHARED:
                    shared.clear()
                matcher = shared[values] = LevelMatcher(level, values)
            matchers.append(matcher)
        return ResourceEntry(of, self.names, tuple(matchers))


Hierarchies = Mapping[frozenset[str], Hierarchy]
"""The levels of a way down from the root, as a set → the same in order."""


def hierarchies_of(levels: Sequence[ResourceDef]) -> Hierarchies:
    """Return every way from the root to some level."""
    hierarchies = [way for level in levels if (way := hierarchy_to(level.name, levels)) is not None]
    shared: dict[str, dict[ResourceValues, LevelMatcher]] = {level.name: {} for level in levels}
    return {
        frozenset(level.name for level in way): Hierarchy(
            tuple(level.name for level in way), way, tuple(shared[level.name] for level in way)
        )
        for way in hierarchies
    }


def compile_entry(of: Any, resources: ResourceSet, hierarchies: Hierarchies) -> ResourceEntry | None:
    """Return the entry for one resource set, or None when it can never match.

    A set whose levels do not form a way down without gaps matches nothing, as in Ranger.
    """
    way = hierarchies.get(frozenset(resources))
    return None if way is None else way.entry(of, resources)
