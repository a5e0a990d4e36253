"""What roles and users at fault close.

Nobody can tell who is in a role that could not be read. So it lets nobody in; and where it says who is denied
or excepted, or whose rows and values are hidden, that policy is at fault with it. A user or a group of whom
something could not be read is denied everything: a group that is missing may be the one that is denied, and a
missing attribute is unlike whatever a filter compares it with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gateway.model.policy import (
    Condition,
    DataShare,
    Policy,
    PolicyItem,
    PolicySet,
    Role,
    Service,
    SharedResource,
)
from gateway.policy.unusable import build_closing_policy, build_invalid_policy

_SCRIPTED = re.compile(r"role|\bUR_?NAMES", re.IGNORECASE)
"""How scripts speak of roles; rather too much than too little."""
_MACRO = re.compile(r"\{[^}]*(?:role|\bUR_?NAMES)", re.IGNORECASE)
"""How texts of SQL, and names, do."""
ROLES = "roles"
"""Stands for the service of a role at fault: roles are of all services."""
Item = TypeVar("Item", bound=PolicyItem)


def close_dependents(policies: PolicySet) -> PolicySet:
    """Return the policies with those at fault that depend on a role, a user or a group at fault."""
    policies = _without_roles(policies)
    return _without_people(policies)


def build_invalid_role_policies(roles: Iterable[Role]) -> list[Policy]:
    """Return a policy at fault for each role that is, to be told of; none of them closes anything."""
    return [
        replace(build_closing_policy(describe_role(role), (), role.broken, service=ROLES), enabled=False)
        for role in roles
        if role.broken
    ]


def describe_role(role: Role) -> str:
    return f"role {role.name}" if role.name else "a role without a name"


# Roles


@dataclass(frozen=True, slots=True)
class _InvalidRoles:
    """Roles whose members cannot be determined."""

    known: frozenset[str]
    """Names of all roles that are defined."""
    faulty: frozenset[str]
    unnamed: bool
    """Whether there is one whose name could not be read: it may be any that is not defined."""

    def among(self, names: Iterable[str]) -> frozenset[str]:
        # RULE (broken-role-unnamed)
        return frozenset(n for n in names if n in self.faulty or (self.unnamed and n not in self.known))


def _without_roles(policies: PolicySet) -> PolicySet:
    at_fault = [role for role in policies.roles if role.broken]
    if not at_fault:
        return policies
    known = frozenset(role.name for role in policies.roles if role.name)
    unnamed = any(not role.name for role in at_fault)
    first = _InvalidRoles(known, frozenset(role.name for role in at_fault if role.name), unnamed)
    names = set(first.faulty)
    while True:
        # Who is in a role that holds one at fault cannot be told either.
        now = _InvalidRoles(known, frozenset(names), unnamed)
        # RULE (broken-role-members)
        more = {role.name for role in policies.roles if now.among(role.roles)} - names
        if not more:
            break
        names |= more
    told = tuple(fault for role in at_fault for fault in role.broken)

    def drop_invalid_roles(found: Sequence[Policy]) -> tuple[Policy, ...]:
        return tuple(_drop_invalid_roles(policy, now, told) for policy in found)

    services = {
        name: replace(
            service,
            policies=drop_invalid_roles(service.policies),
            tags=None
            if service.tags is None
            else replace(service.tags, policies=drop_invalid_roles(service.tags.policies)),
        )
        for name, service in policies.services.items()
    }
    services = {name: _without_shares(service, now, told) for name, service in services.items()}
    kept = tuple(
        Role(name=role.name, users=role.users, groups=role.groups, roles=role.roles)
        for role in policies.roles
        if role.name and role.name not in names
    )
    return replace(policies, services=services, roles=kept)


def _drop_invalid_roles(policy: Policy, roles: _InvalidRoles, told: tuple[str, ...]) -> Policy:
    """Return a policy without roles at fault; one at fault where these may close something by it."""
    asks = _asks_for_roles(policy)  # RULE (broken-role-policies)
    named = roles.among(name for item in policy.items for name in item.roles)
    if policy.broken or not (asks or named):
        return policy
    hides: list[PolicyItem] = [
        *policy.deny,  # RULE (broken-role-denials)
        *policy.allow_exceptions,
        *(mask for mask in policy.masks if mask.mask_type != "MASK_NONE"),
        *(item for item in policy.filters if item.filter_expression),
    ]
    guards = bool(policy.deny or policy.deny_all_else or policy.masks or policy.filters)
    if asks or any(roles.among(item.roles) for item in hides):
        which = ", ".join(f"`{name}`" for name in sorted(named)) or "roles"
        at = str(policy.place or f"{policy.service}, policy {policy.id}")
        faults = (f"{at}: it depends on {which}, which cannot be read", *told[:1])
        excepts = any(roles.among(item.roles) for item in policy.allow_exceptions)
        return build_invalid_policy(
            policy,
            faults,
            service=policy.service,
            zone=policy.zone,
            guards=guards or (excepts and bool(policy.allow)),
            named=True,
        )
    return replace(
        policy,
        allow=_rid(policy.allow, roles),
        deny_exceptions=_rid(policy.deny_exceptions, roles),
        masks=_rid(policy.masks, roles),
        filters=_rid(policy.filters, roles),
    )


def _rid(items: tuple[Item, ...], roles: _InvalidRoles) -> tuple[Item, ...]:
    """Return items without roles at fault; one that names nobody else is gone."""
    found: list[Item] = []
    for item in items:
        left = item.roles - roles.among(item.roles)
        if left or item.users or item.groups or left == item.roles:
            found.append(item if left == item.roles else replace(item, roles=left))
    return tuple(found)


def _asks_for_roles(policy: Policy) -> bool:
    """Whether a condition, a text or a name of a policy asks which roles somebody has."""
    conditions = [*policy.conditions, *(one for item in policy.items for one in item.conditions)]
    texts = [mask.text for mask in policy.masks]
    texts += [item.filter_expression for item in policy.filters]
    texts += [
        value
        for resources in (policy.resources, *policy.additional_resources)
        for values in resources.values()
        for value in values.values
    ]
    return _ask(conditions) or any(_MACRO.search(text) for text in texts)


def _ask(conditions: Iterable[Condition]) -> bool:
    return any(_SCRIPTED.search(value) for condition in conditions for value in condition.values)


def _without_shares(service: Service, roles: _InvalidRoles, told: tuple[str, ...]) -> Service:
    """Return a service without what is shared with roles at fault. What is shared under masks or filters is
    closed then: nobody can tell for whom they hold."""
    sharing = service.sharing
    if sharing is None:
        return service

    def rests(policy: Policy) -> bool:
        named = roles.among(name for item in policy.items for name in item.roles)
        return bool(named) or _asks_for_roles(policy)

    def keep_certain(found: tuple[Policy, ...]) -> tuple[Policy, ...]:
        return tuple(policy for policy in found if not rests(policy))

    shares = tuple(
        share for share in sharing.shares if _ask([*share.conditions, *_conditions_in(share.resources)])
    )
    asking = {share.id for share in shares}
    made = replace(
        sharing,
        shares=tuple(replace(s, resources=()) if s.id in asking else s for s in sharing.shares),
        datasets=tuple(replace(one, policies=keep_certain(one.policies)) for one in sharing.datasets),
        projects=tuple(replace(one, policies=keep_certain(one.policies)) for one in sharing.projects),
    )
    holders = any(rests(p) for one in (*sharing.datasets, *sharing.projects) for p in one.policies)
    closed = close_shares(sharing.shares if holders else shares, told, service.name)
    return replace(service, sharing=made, policies=(*service.policies, *closed))


def _conditions_in(resources: Iterable[SharedResource]) -> Iterator[Condition]:
    for one in resources:
        yield from one.conditions


def close_shares(shares: Iterable[DataShare], faults: tuple[str, ...], service: str) -> list[Policy]:
    """Return what closes what is shared under masks or filters."""
    return [
        build_closing_policy(f"shared resource {one.name or one.id}", [one.above], faults, service=service)
        for share in shares
        for one in share.resources
        if one.masks or one.rows is not None  # RULE (broken-role-shares)
    ]


# Users and groups


def _without_people(policies: PolicySet) -> PolicySet:
    store = policies.users
    if not (store.broken_users or store.broken_groups):  # RULE (broken-users-denied)
        return policies
    who = [(f"user {n}", PolicyItem(users=frozenset({n})), f) for n, f in store.broken_users.items()]
    who += [(f"group {n}", PolicyItem(groups=frozenset({n})), f) for n, f in store.broken_groups.items()]
    return replace(
        policies,
        services={
            name: replace(
                service,
                policies=(
                    *service.policies,
                    *(
                        build_closing_policy(called, (), faults, service=name, who=one)
                        for called, one, faults in who
                    ),
                ),
            )
            for name, service in policies.services.items()
        },
    )
