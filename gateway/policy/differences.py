"""Where two sets of policies differ at all, and whom and which access types that can concern."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from gateway.model.policy import Policy, PolicySet, PolicyType, ResourceSet, Service, ServiceDef
from gateway.model.principal import Principal

PUBLIC = "public"
ANYBODY = "(anybody else)"
THE_OWNER = "(the owner)"
"""Owns every resource that is asked about."""
_OWNER = "{OWNER}"
_WHOEVER = frozenset({"{USER}", _OWNER})
SetKey = frozenset[object]
"""A resource set in a form that can be compared and hashed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pair:
    """One service on both sides."""

    old: Service | None
    """None: the side has no such service. One of the two is there."""
    new: Service | None
    definition: ServiceDef
    everything: bool
    """Whether more than policies and tagged resources differs: roles, people, zones, definitions."""
    policies: tuple[Policy, ...]
    """Enabled policies of both sides, those on tags too, each content once."""
    changed: tuple[Policy, ...]
    """Policies that only one side has."""

    @property
    def sides(self) -> tuple[Service, ...]:
        return tuple(service for service in (self.old, self.new) if service is not None)


def pairs_of(old: PolicySet, new: PolicySet) -> list[Pair]:
    """Return the services that belong together: of one name, else the only ones of one definition."""
    everything = not (
        frozenset(old.roles) == frozenset(new.roles)
        and old.users.users == new.users.users
        and old.users.groups == new.users.groups
        and old.users.memberships == new.users.memberships
    )
    left = dict(new.services)
    matched: list[tuple[Service | None, Service | None]] = []
    for name, service in old.services.items():
        other = left.pop(name, None) or _alone(service.definition.name, old, left)
        if other is not None:
            left.pop(other.name, None)
        matched.append((service, other))
    matched += [(None, service) for service in left.values()]
    return [_pair(one, two, everything=everything) for one, two in matched]


def _alone(definition: str, old: PolicySet, left: Mapping[str, Service]) -> Service | None:
    there = [service for service in left.values() if service.definition.name == definition]
    here = [service for service in old.services.values() if service.definition.name == definition]
    return there[0] if len(there) == len(here) == 1 and there[0].name not in old.services else None


def _pair(old: Service | None, new: Service | None, *, everything: bool) -> Pair:
    before, after = _by_content(old), _by_content(new)
    changed = [before[key] for key in before.keys() - after.keys()]
    changed += [after[key] for key in after.keys() - before.keys()]
    some = new or old
    if some is None:
        raise ValueError("a pair has at least one service")
    return Pair(
        old=old,
        new=new,
        definition=some.definition,
        everything=everything or old is None or new is None or _differ(old, new),
        policies=tuple((before | after).values()),
        changed=tuple(changed),
    )


def _differ(one: Service, two: Service) -> bool:
    """Whether the services differ in more than policies and tagged resources."""
    return not (
        one.definition == two.definition
        and one.zones == two.zones
        and one.super_users == two.super_users
        and one.super_groups == two.super_groups
        and one.sharing == two.sharing
        and (one.tags is None or two.tags is None or one.tags.definition == two.tags.definition)
    )


def _by_content(service: Service | None) -> dict[object, Policy]:
    if service is None:
        return {}
    tags = service.tags.policies if service.tags is not None else ()
    return {
        (kind, _content(policy)): policy
        for kind, policies in ((0, service.policies), (1, tags), (2, list_shared(service)))
        for policy in policies
        if policy.enabled
    }


def list_shared(service: Service) -> tuple[Policy, ...]:
    """Return what is shared of a service as policies on its resources."""
    sharing = service.sharing
    return () if sharing is None else (*sharing.grants(), *sharing.obligations())


def _content(policy: Policy) -> object:
    """Return the parts of a policy that can change an answer: not its number, labels and texts for people."""
    return (
        policy.name,
        policy.type,
        policy.priority,
        policy.zone,
        policy.deny_all_else,
        policy.conditions,
        policy.schedules,
        policy.allow,
        policy.deny,
        policy.allow_exceptions,
        policy.deny_exceptions,
        policy.masks,
        policy.filters,
        tuple(key_of(found) for found in sets_of(policy)),
    )


def digest_of(policy: Policy) -> str:
    """Return a digest of a policy, the same in every process, that is another when anything of it is but its
    number: which one of a pack has goes by those before it."""
    told = _plain(replace(policy, id=0, version=0, guid=""))
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """Return a value of a policy as JSON has it; sets in order, and nothing that is not compared."""
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value) if each.compare}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(_plain, value), key=repr)
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else repr(value)


def sets_of(policy: Policy) -> tuple[ResourceSet, ...]:
    return (policy.resources, *policy.additional_resources)


def key_of(found: ResourceSet) -> SetKey:
    """Return a resource set as something that can be hashed."""
    return frozenset(found.items())


def depends_on_context(policies: PolicySet) -> bool:
    """Say whether an answer may depend on when and from where it is asked."""
    tags = (tag for service in policies.services.values() for t in service.tagged for tag in t.tags)
    shared = (s.sharing for s in policies.services.values() if s.sharing is not None)
    if any(sharing.depends_on_context for sharing in shared):
        return True
    return any(tag.validity for tag in tags) or any(
        policy.conditions
        or policy.schedules
        or any(item.conditions for item in policy.items)
        or any(
            "${{" in value
            for found in sets_of(policy)
            for values in found.values()
            for value in values.values
        )
        or any("${{" in item.filter_expression for item in policy.filters)
        or any("${{" in item.text for item in policy.masks)
        for policy in policies.policies()
    )


def speaks_of_everybody(policy: Policy) -> bool:
    """Say whether a policy concerns people whom it does not name."""
    return policy.deny_all_else or any(
        PUBLIC in item.groups or not item.users.isdisjoint(_WHOEVER) for item in policy.items
    )


def principals_of(pairs: Iterable[Pair]) -> list[Principal]:
    """Return somebody for every user, group and role that a difference can concern, and one in none."""
    users, groups, roles = set[str](), set[str](), set[str]()
    owner = False
    for pair in pairs:
        wide = (
            pair.everything
            or _tags_differ(pair)
            or any(speaks_of_everybody(policy) for policy in pair.changed)
        )
        for policy in pair.policies if wide else pair.changed:
            for item in policy.items:
                users |= item.users - _WHOEVER
                owner = owner or _OWNER in item.users
                groups |= item.groups - {PUBLIC}
                roles |= item.roles
        if pair.everything:
            for service in pair.sides:
                users |= service.super_users
                groups |= service.super_groups
    return [
        *(Principal(user=user) for user in sorted(users)),
        *(Principal(user=f"(someone in {g})", groups=frozenset({g})) for g in sorted(groups)),
        *(Principal(user=f"(someone with role {r})", roles=frozenset({r})) for r in sorted(roles)),
        *([Principal(user=THE_OWNER)] if owner else []),
        Principal(user=ANYBODY),
    ]


def list_unprobed(pair: Pair) -> list[str]:
    """Return the names of changed policies with values that stand for nothing in particular: roles."""
    return sorted(
        policy.name
        for policy in pair.changed
        if any("{ROLES}" in text for s in sets_of(policy) for values in s.values() for text in values.values)
    )


def _tags_differ(pair: Pair) -> bool:
    return pair.old is None or pair.new is None or list_tagged(pair.old) != list_tagged(pair.new)


def list_tagged(service: Service) -> set[tuple[SetKey, str]]:
    """Return the tagged resources of a service in a form that can be compared."""
    return {(key_of(each.resources), repr(each.tags)) for each in service.tagged}


def accesses_of(pair: Pair) -> list[tuple[str, ...]]:
    """Return the access types in classes; those of one class get one answer, so one of each is asked.

    Types that every item of both sides grants together cannot be told apart, unless a condition asks.
    """
    names = [access.name.lower() for access in pair.definition.access_types]
    if any(p.conditions or any(item.conditions for item in p.items) for p in pair.policies):
        return [(name,) for name in names]
    granted = {
        each.name.lower(): {each.name.lower(), *(implied.lower() for implied in each.implied)}
        for each in (*pair.definition.access_types, *pair.definition.markers)
    }
    listed = {item.accesses for p in pair.policies if p.type is PolicyType.ACCESS for item in p.items}
    grants = [set[str]().union(*(granted.get(a, set()) for a in accesses)) for accesses in listed]
    classes: dict[tuple[bool, ...], list[str]] = defaultdict(list)
    for name in names:
        classes[tuple(name in each for each in grants)].append(name)
    return [tuple(members) for members in classes.values()]
