"""Finds policies by resource, user, group, role, tag and zone, a page at a time, however many there are.

Each index is a list of keys in one order, so that a page begins where the last one ended, and no answer looks
at more than `MAX_LOOKED_AT` of them. What somebody may not see is left out by the caller's `may_see`.
"""

from __future__ import annotations

import heapq
import weakref
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import Literal

from gateway.model.policy import Policy, PolicySet, PolicyType, ResourceDef, ResourceSet, ResourceValues
from gateway.model.principal import Principal
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.list_deltas import list_delta
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC, Subject

PolicyKey = tuple[str, str, str]
"""Service, zone and name of a policy: no two have the same."""
TreePath = tuple[str, ...]
"""A service and then level, value, level, value, …, from the root down."""
MAX_LOOKED_AT = 5_000
"""Policies that one page looks at, so that a rare criterion costs no more than a common one."""
_MAX_PATHS = 64
"""A policy with more combinations of values than this is filed under fewer of its levels."""
_EVERYBODY = ("group", PUBLIC)
_LISTED = ("service", "zone", "tag")


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCriteria:
    """Which policies are wanted; what is empty holds for every one."""

    service: str = ""
    zone: str | None = None
    type: PolicyType | None = None
    who: tuple[str, str] | None = None
    """`user`, `group` or `role`, and the name."""
    tag: str = ""
    under: TreePath = ()
    """At a resource of the tree, or below it."""
    text: str = ""
    """A part of the name or the description; case does not matter."""
    enabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyPage:
    """Policies in their order, and where to go on."""

    policies: tuple[Policy, ...]
    after: PolicyKey | None
    """Where the next page begins; None at the end. It may come before the page is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """A resource that policies name, or that lies above such a one."""

    path: TreePath
    level: str
    value: str
    policies: int
    """At it and below it."""


def key_of_policy(policy: Policy) -> PolicyKey:
    return (policy.service, policy.zone, policy.name)


class PolicyDirectory:
    """The indexes of one PolicySet. Immutable but for the making."""

    def __init__(self, policies: PolicySet, base: PolicyDirectory | None = None) -> None:
        """File all policies; from `base`, the directory of an older set, what has not changed."""
        self._set = policies
        self._services: dict[str, tuple[tuple[ResourceDef, ...], str]] = {}
        """Service, tag services too → its levels, and the service whose policies it holds."""
        lists: dict[str, Sequence[Policy]] = {}
        for name, service in policies.services.items():
            self._services[name] = (service.definition.resources, name)
            lists[name] = service.policies
            if service.tags is not None:
                self._services[service.tags.name] = (service.tags.definition.resources, name)
                lists[service.tags.name] = service.tags.policies
        self._lists = lists
        self._in_order: dict[TreePath, list[tuple[str, str]]] = {}
        """What lies below a place in order, of places that were asked for."""
        if base is not None and base._services == self._services:
            self._take_over(base)
        else:
            self._policies: dict[PolicyKey, Policy] = {}
            self._by: dict[tuple[str, ...], list[PolicyKey]] = {}
            """What is asked for → keys in order: `who`, kind and name; `tag`; `zone`; `service`; `delegate`,
            kind and name; `at` and a path; `` alone for all."""
            self._below: dict[TreePath, set[tuple[str, str]]] = {}
            """Value and level of what lies right below a place; what is left without policies stays."""
            for policy in sorted((p for found in lists.values() for p in found), key=key_of_policy):
                key = key_of_policy(policy)
                self._policies[key] = policy
                for index in self._indexes_of(policy):
                    self._by.setdefault(index, []).append(key)
                    self._note_place(index, self._below)
            self._named: dict[str, set[str]] = {
                kind: {index[1] for index in self._by if index[0] == kind} for kind in _LISTED
            }

    def _take_over(self, base: PolicyDirectory) -> None:
        """File what has changed since; lists of which nothing has are the other directory's."""
        self._policies, self._below, self._by = dict(base._policies), dict(base._below), dict(base._by)
        self._named = {kind: set(names) for kind, names in base._named.items()}
        gone: dict[tuple[str, ...], set[PolicyKey]] = defaultdict(set)
        came: dict[tuple[str, ...], list[PolicyKey]] = defaultdict(list)
        for name, policies in self._lists.items():
            change = list_delta(base._lists[name], policies)
            for policy in change.gone:
                self._policies.pop(key_of_policy(policy), None)
                for index in self._indexes_of(policy):
                    gone[index].add(key_of_policy(policy))
            for policy in (*(new for _, new in change.unchanged), *change.came):
                self._policies[key_of_policy(policy)] = policy
            for policy in change.came:
                for index in self._indexes_of(policy):
                    came[index].append(key_of_policy(policy))
        new_places: dict[TreePath, set[tuple[str, str]]] = {}
        for index in {**gone, **came}:
            out = gone.get(index, ())
            self._by[index] = sorted(
                [*(key for key in self._by.get(index, ()) if key not in out), *came.get(index, ())]
            )
            self._note_place(index, new_places)
            if index[0] in _LISTED:
                names = self._named[index[0]]
                (names.add if self._by[index] else names.discard)(index[1])
        for path, children in new_places.items():
            self._below[path] = self._below.get(path, set()) | children

    def _note_place(self, index: tuple[str, ...], below: dict[TreePath, set[tuple[str, str]]]) -> None:
        if index[0] == "at" and len(index) > 2:
            *above, level, value = index[1:]
            below.setdefault(tuple(above), set()).add((value, level))

    def _indexes_of(self, policy: Policy) -> Iterator[tuple[str, ...]]:
        yield ("",)
        yield ("service", policy.service)
        yield ("zone", policy.zone)
        for kind, name in principals_named(policy):
            yield ("who", kind, name)
        for kind, name in _delegates_named(policy):
            yield ("delegate", kind, name)
        seen: dict[tuple[str, ...], None] = {}
        for resources in (policy.resources, *policy.additional_resources):
            if "tag" in resources:
                seen |= {("tag", value): None for value in resources["tag"].values}
            for path in self.paths_of(policy.service, resources):
                for depth in range(1, len(path) + 1, 2):
                    seen["at", *path[:depth]] = None
        yield from seen

    def paths_of(self, service: str, resources: ResourceSet) -> Iterator[TreePath]:
        """Yield the places of one resource set in the tree."""
        levels, _ = self._services[service]
        paths: list[TreePath] = [(service,)]
        for level in _in_order(resources, levels):
            values = _list_filed_values(resources[level.name], level)
            if len(paths) * len(values) > _MAX_PATHS:
                break
            paths = [(*path, level.name, value) for path, value in product(paths, values)]
        yield from paths

    # -- questions -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._policies)

    def list_levels(self, service: str) -> tuple[ResourceDef, ...]:
        """Return the levels of a service, or of a tag service."""
        return self._services[service][0]

    def find(self, key: PolicyKey) -> Policy | None:
        return self._policies.get(key)

    def find_page(
        self,
        criteria: PolicyCriteria,
        *,
        after: PolicyKey | None = None,
        limit: int = 50,
        within: Sequence[Sequence[PolicyKey]] | None = None,
        may_see: Callable[[Policy], bool] = lambda _: True,
        most: int | None = None,
    ) -> PolicyPage:
        """Return policies that fit, from behind `after` on. `within`: lists of keys in order, of which one
        has to have each; None: all that there are. `most`: how many are looked at."""
        bound = MAX_LOOKED_AT if most is None else most
        keys = self._choose(criteria) if within is None else None
        wanted = _merge_from(within or (), after) if keys is None else _from(keys, after)
        found: list[Policy] = []
        looked_at = 0
        last: PolicyKey | None = None
        for key in wanted:
            if len(found) >= limit or looked_at >= bound:
                return PolicyPage(policies=tuple(found), after=last)
            looked_at, last = looked_at + 1, key
            policy = self._policies[key]
            if self._fits(policy, criteria) and may_see(policy):  # RULE (console-policy-sight)
                found.append(policy)
        return PolicyPage(policies=tuple(found), after=None)

    def _choose(self, criteria: PolicyCriteria) -> Sequence[PolicyKey]:
        """Return the shortest of the lists that have all that is wanted."""
        wanted: list[tuple[str, ...]] = [("",)]
        if criteria.service:
            wanted.append(("service", criteria.service))
        if criteria.zone is not None:
            wanted.append(("zone", criteria.zone))
        if criteria.who is not None:
            wanted.append(("who", *criteria.who))
        if criteria.tag:
            wanted.append(("tag", criteria.tag))
        if criteria.under:
            wanted.append(("at", *criteria.under))
        return min((self._by.get(index, ()) for index in wanted), key=len)

    def _fits(self, policy: Policy, criteria: PolicyCriteria) -> bool:
        text = criteria.text.lower()
        return (
            criteria.service in ("", policy.service)
            and criteria.zone in (None, policy.zone)
            and criteria.type in (None, policy.type)
            and criteria.enabled in (None, policy.enabled)
            and (not text or text in policy.name.lower() or text in policy.description.lower())
            and (criteria.who is None or criteria.who in principals_named(policy))
            and (not criteria.tag or self._is_on_tag(policy, criteria.tag))
            and (not criteria.under or self._is_under(policy, criteria.under))
        )

    def _is_on_tag(self, policy: Policy, tag: str) -> bool:
        return any(
            "tag" in resources and tag in resources["tag"].values
            for resources in (policy.resources, *policy.additional_resources)
        )

    def _is_under(self, policy: Policy, under: TreePath) -> bool:
        return policy.service == under[0] and any(
            path[: len(under)] == under
            for resources in (policy.resources, *policy.additional_resources)
            for path in self.paths_of(policy.service, resources)
        )

    def list_lists_about(self, subject: Subject) -> list[Sequence[PolicyKey]]:
        """Return the lists of policies that name somebody: as user, by group, by role, or as everybody."""
        named = [("user", subject.user), _EVERYBODY, ("user", CURRENT_USER), ("user", OWNER)]
        named += [("group", group) for group in sorted(subject.groups)]
        named += [("role", role) for role in sorted(subject.roles)]
        return [self._by[index] for who in dict.fromkeys(named) if (index := ("who", *who)) in self._by]

    def list_lists_delegated(self, subject: Subject) -> list[Sequence[PolicyKey]]:
        """Return lists that have every policy on what somebody administers by delegation, and more."""
        named = [("user", subject.user), _EVERYBODY, ("user", CURRENT_USER), ("user", OWNER)]
        named += [("group", group) for group in subject.groups]
        named += [("role", role) for role in subject.roles]
        delegating = {key for who in named for key in self._by.get(("delegate", *who), ())}
        places: set[TreePath] = set()
        for key in delegating:
            policy = self._policies[key]
            for resources in (policy.resources, *policy.additional_resources):
                places |= {_above_patterns(path) for path in self.paths_of(policy.service, resources)}
        outermost = [path for path in places if not any(path[:n] in places for n in range(1, len(path), 2))]
        return [self._by[index] for path in outermost if (index := ("at", *path)) in self._by]

    def list_children(
        self, path: TreePath, *, after: tuple[str, str] | None = None, limit: int = 100
    ) -> tuple[TreeNode, ...]:
        """Return the resources right below a place of the tree, by value and level, from behind `after`
        on; below no place the services."""
        ordered = self._in_order.get(path)
        if ordered is None:
            if path and path not in self._below:
                return ()
            below = self._below[path] if path else [(name, "service") for name in self._services]
            ordered = self._in_order[path] = sorted(below)
        first = 0 if after is None else bisect_right(ordered, after)
        nodes = (
            TreeNode(path=place, level=level, value=value, policies=policies)
            for value, level in islice(ordered, first, None)
            if (policies := self.count("at", *(place := (*path, level, value) if path else (value,))))
        )
        return tuple(islice(nodes, limit))

    def count(self, *index: str) -> int:
        """Return how many policies one index has, such as `zone`, `hr`."""
        return len(self._by.get(index, ()))

    def list_names(self, kind: Literal["service", "zone", "tag"]) -> list[str]:
        """Return the names of services, zones or tags that policies have, in order."""
        return sorted(self._named[kind])


def principals_named(policy: Policy) -> frozenset[tuple[str, str]]:
    """Return whom a policy names, by exceptions too, as kind and name; everybody as the group `public`."""
    found = {
        (kind, name)
        for item in policy.items
        for kind, names in (("user", item.users), ("group", item.groups), ("role", item.roles))
        for name in names
    }
    if policy.deny_all_else or ("user", CURRENT_USER) in found:
        found.add(_EVERYBODY)
    return frozenset(found)


def _delegates_named(policy: Policy) -> Iterator[tuple[str, str]]:
    for item in policy.allow:
        if item.delegate_admin:
            yield from (("user", name) for name in item.users)
            yield from (("group", name) for name in item.groups)
            yield from (("role", name) for name in item.roles)


def _in_order(resources: ResourceSet, levels: Sequence[ResourceDef]) -> Sequence[ResourceDef]:
    """Return the levels of a resource set from the root down; none where they form no way."""
    for name in resources:
        way = hierarchy_to(name, levels)
        if way is not None and {level.name for level in way} == set(resources):
            return way
    return ()


def _list_filed_values(values: ResourceValues, level: ResourceDef) -> Sequence[str]:
    if values.excludes or not values.values:
        return ("*",)
    if not level.ignore_case:
        return values.values
    return tuple(dict.fromkeys(value.lower() for value in values.values))


def _above_patterns(path: TreePath) -> TreePath:
    """Return a place of the tree up to its first value that stands for several."""
    for at in range(2, len(path), 2):
        if any(sign in path[at] for sign in "*?{$"):
            return path[: at - 1]
    return path


def _from(keys: Sequence[PolicyKey], after: PolicyKey | None) -> Iterator[PolicyKey]:
    start = 0 if after is None else bisect_right(keys, after)
    for at in range(start, len(keys)):
        yield keys[at]


def _merge_from(lists: Iterable[Sequence[PolicyKey]], after: PolicyKey | None) -> Iterator[PolicyKey]:
    last: PolicyKey | None = None
    for key in heapq.merge(*(_from(keys, after) for keys in lists)):
        if key != last:
            last = key
            yield key


_directories: weakref.WeakKeyDictionary[PolicySet, PolicyDirectory] = weakref.WeakKeyDictionary()


def directory_for(policies: PolicySet, base: PolicySet | None = None) -> PolicyDirectory:
    """Return the directory of a PolicySet, made once and dropped with it; `base` as `engine_for` has it."""
    found = _directories.get(policies)
    if found is None:
        older = _directories.get(base) if base is not None else None
        found = _directories[policies] = PolicyDirectory(policies, older)
    return found


def somebody(kind: str, name: str) -> Principal:
    """Return who stands for a user of whom nothing else is known, or for anybody in a group or role."""
    if kind == "group":
        return Principal(user=f"(someone in {name})", groups=frozenset({name}))
    if kind == "role":
        return Principal(user=f"(someone with role {name})", roles=frozenset({name}))
    return Principal(user=name)
