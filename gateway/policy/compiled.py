"""Policies prepared for evaluation: access types as bits, a matcher per level, Ranger's order as a key."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

from gateway.model.decision import PolicyRef
from gateway.model.policy import Policy, PolicyItem, PolicyType, ResourceDef, ResourceSet, ServiceDef
from gateway.policy.matching import Asker, LevelMatcher, is_dynamic
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC, Subject


class MatchType(enum.Enum):
    """How a policy's resource relates to the requested one; the names are Ranger's."""

    NONE = 0
    SELF = 1
    SELF_AND_ALL_DESCENDANTS = 2
    DESCENDANT = 3
    """The policy speaks of something below the requested resource."""
    ANCESTOR = 4
    """The policy speaks of something above it."""


class AccessBits:
    """The access types of a service as bits of an integer, with their implied grants."""

    def __init__(self, definition: ServiceDef) -> None:
        names = [access.name.lower() for access in definition.access_types]
        self._bit = {name: 1 << i for i, name in enumerate(names)}
        self.all = (1 << len(names)) - 1
        self.count = len(names)
        # One level deep, as in Ranger: a grant that is implied implies nothing further.
        self._granted = {
            access.name.lower(): self._bit[access.name.lower()]
            | sum({self._bit[name.lower()] for name in access.implied if name.lower() in self._bit})
            for access in definition.access_types
        }
        self._aliases = {k.lower(): v.lower() for k, v in definition.access_aliases.items()}

    def wanted(self, access: str) -> int:
        """Return the bit of a requested access type, 0 when the service does not know it."""
        access = access.lower()
        return self._bit.get(access) or self._bit.get(self._aliases.get(access, ""), 0)

    def granted(self, accesses: frozenset[str]) -> int:
        """Return the bits of what an item lists, implied grants included."""
        bits = 0
        for access in accesses:
            bits |= self._granted.get(access.lower(), 0)
        return bits


class CompiledItem:
    """Who an item speaks of, and which access types it lists."""

    __slots__ = ("bits", "everyone", "groups", "item", "owner", "roles", "users")

    def __init__(self, item: PolicyItem, bits: AccessBits) -> None:
        self.item = item
        self.bits = bits.granted(item.accesses)
        self.users, self.groups, self.roles = item.users, item.groups, item.roles
        self.everyone = CURRENT_USER in item.users or PUBLIC in item.groups
        self.owner = OWNER in item.users

    def covers(self, subject: Subject, owner: str | None) -> bool:
        """Say whether the item speaks of `subject`, who may own the resource."""
        return (
            self.everyone
            or subject.user in self.users
            or not self.groups.isdisjoint(subject.groups)
            or not self.roles.isdisjoint(subject.roles)
            or (self.owner and owner is not None and owner == subject.user)
        )


class CompiledPolicy:
    """One policy of one service, ready to be asked what it allows and denies to a subject."""

    __slots__ = (
        "_allow",
        "_allow_exceptions",
        "_deny",
        "_deny_exceptions",
        "_else_bits",
        "obligations",
        "policy",
        "priority",
        "rank",
        "ref",
        "sort_key",
    )

    def __init__(self, policy: Policy, definition: ServiceDef, bits: AccessBits) -> None:
        self.policy = policy
        self.priority = policy.priority
        self.ref = PolicyRef(id=policy.id, name=policy.name, version=policy.version)
        self.rank = 0
        self.sort_key = (
            -policy.priority,
            0 if policy.deny or policy.deny_all_else else 1,
            evaluation_score(policy, definition),
            policy.name,
            policy.id,
        )
        access = policy.type is PolicyType.ACCESS

        def compiled(items: Sequence[PolicyItem]) -> tuple[CompiledItem, ...]:
            return tuple(CompiledItem(item, bits) for item in items)

        self._allow = compiled(policy.allow if access else ())
        self._deny = compiled(policy.deny if access else ())
        self._allow_exceptions = compiled(policy.allow_exceptions if access else ())
        self._deny_exceptions = compiled(policy.deny_exceptions if access else ())
        self._else_bits = bits.all if access and policy.deny_all_else else 0
        masked: tuple[PolicyItem, ...] = ()
        if policy.type is PolicyType.MASK:
            masked = policy.masks
        elif policy.type is PolicyType.ROW_FILTER:
            masked = policy.filters
        self.obligations = compiled(masked)
        """Items of a mask or row-filter policy; the first that speaks of the subject settles it."""

    @property
    def deciding_items(self) -> tuple[CompiledItem, ...]:
        """Items without which the policy says nothing about a subject; exceptions only take away."""
        return self._allow + self._deny + self.obligations

    @property
    def speaks_of_everyone(self) -> bool:
        return bool(self._else_bits) or any(i.everyone or i.owner for i in self.deciding_items)

    @property
    def denies(self) -> bool:
        return bool(self._deny or self._else_bits)

    def effect(self, subject: Subject, owner: str | None) -> tuple[int, int, int]:
        """Return the access bits that this policy denies, allows, and denies as "everything else"."""
        deny = allow = rest = 0
        for item in self._deny:
            if item.covers(subject, owner):
                deny |= item.bits
        for item in self._deny_exceptions if deny else ():
            if item.covers(subject, owner):
                deny &= ~item.bits
        for item in self._allow:
            if item.covers(subject, owner):
                allow |= item.bits
        for item in self._allow_exceptions if allow else ():
            if item.covers(subject, owner):
                allow &= ~item.bits
        allow &= ~deny
        if self._else_bits:
            rest = self._else_bits & ~allow & ~deny
        return deny, allow, rest

    def obligation(self, subject: Subject, owner: str | None, bit: int) -> PolicyItem | None:
        """Return the first mask or filter item, in the listed order, that speaks of the subject."""
        for item in self.obligations:
            if item.bits & bit and item.covers(subject, owner):
                return item.item
        return None


def evaluation_score(policy: Policy, definition: ServiceDef) -> int:
    """Return Ranger's `evalOrder`: lower scores are asked first, broad policies score low.

    Decides which of two policies of equal priority is reported, and for masks and filters which one wins.
    """
    score = 10_000
    breadth = 0
    for values in policy.resources.values():
        if not values.values:
            continue
        if any(v in ("", "*") for v in values.values):
            breadth += 25
            continue
        if any("*" in v for v in values.values):
            breadth += 10
        elif any("?" in v for v in values.values):
            breadth += 5
        breadth += 5 * values.excludes + 5 * values.recursive
    score -= min(100, breadth)
    if any(is_dynamic(v) for values in policy.resources.values() for v in values.values):
        score += 20
    items: tuple[PolicyItem, ...] = (
        *policy.allow,
        *policy.deny,
        *policy.allow_exceptions,
        *policy.deny_exceptions,
        *policy.masks,
        *policy.filters,
    )
    users = frozenset[str]().union(*(item.users for item in items))
    groups = frozenset[str]().union(*(item.groups for item in items))
    accesses = {a.lower() for item in items for a in item.accesses}
    everyone = PUBLIC in groups or CURRENT_USER in users or policy.deny_all_else
    score -= 25 if everyone else min(25, len(users) + len(groups))
    score -= int(25 * len(accesses) / max(1, len(definition.access_types)) + 0.5)
    conditions = len(policy.conditions) + sum(len(item.conditions) for item in items)
    return score - max(0, 25 - 5 * conditions)


class Entry:
    """One resource set of one policy: a matcher for each level, from the root down."""

    __slots__ = ("last_specific", "levels", "matchers", "policy")

    def __init__(
        self, policy: CompiledPolicy, levels: tuple[str, ...], matchers: tuple[LevelMatcher, ...]
    ) -> None:
        self.policy = policy
        self.levels = levels
        self.matchers = matchers
        self.last_specific = max((i for i, m in enumerate(matchers) if not m.any), default=-1)

    def match(self, values: Sequence[str], asker: Asker) -> MatchType:
        """Say how this resource set relates to a resource whose levels are on the same way down."""
        asked, held = len(values), len(self.matchers)
        for matcher, value in zip(self.matchers, values, strict=False):
            if not matcher.matches(value, asker):
                return MatchType.NONE
        if asked > held:
            return MatchType.ANCESTOR
        if asked == held:
            return MatchType.SELF
        for matcher in self.matchers[asked:]:
            if not matcher.any:
                break
            if matcher.never:
                return MatchType.NONE
        return MatchType.SELF_AND_ALL_DESCENDANTS if asked > self.last_specific else MatchType.DESCENDANT


def way_down(name: str, levels: Sequence[ResourceDef]) -> tuple[ResourceDef, ...] | None:
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


Ways = Mapping[frozenset[str], tuple[ResourceDef, ...]]
"""The levels of a way down from the root, as a set → the same in order."""


def ways_down(levels: Sequence[ResourceDef]) -> Ways:
    """Return every way from the root to some level."""
    ways = (way_down(level.name, levels) for level in levels)
    return {frozenset(level.name for level in way): way for way in ways if way is not None}


def compile_entry(policy: CompiledPolicy, resources: ResourceSet, ways: Ways) -> Entry | None:
    """Return the entry for one resource set, or None when it can never match.

    A set whose levels do not form a way down without gaps matches nothing, as in Ranger.
    """
    way = ways.get(frozenset(resources))
    if way is None:
        return None
    matchers = tuple([LevelMatcher(level, resources[level.name]) for level in way])
    return Entry(policy, tuple([level.name for level in way]), matchers)
