"""The rules once more, slowly and plainly: every policy is looked at, every value compared, nothing is filed.

Written from Ranger's description, without the engine's modules, so that agreement means something.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    ServiceDef,
)
from gateway.model.principal import Principal
from gateway.model.resource import Resource


def wild(pattern: Sequence[tuple[str, bool]], text: str) -> bool:
    """Match (character, is it live) pairs against text, by trying everything."""
    if not pattern:
        return not text
    character, live = pattern[0]
    if live and character == "*":
        return any(wild(pattern[1:], text[i:]) for i in range(len(text) + 1))
    return (
        bool(text) and ((live and character == "?") or character == text[0]) and wild(pattern[1:], text[1:])
    )


def value_matches(value: str, level: ResourceDef, text: str, user: str, owner: str | None) -> bool:
    pattern: list[tuple[str, bool]] = []
    rest = value
    while rest:
        if rest.startswith("{USER}"):
            pattern += [(c, False) for c in user]
            rest = rest[6:]
        elif rest.startswith("{OWNER}"):
            if not owner:
                return False
            pattern += [(c, False) for c in owner]
            rest = rest[7:]
        else:
            pattern.append((rest[0], level.wildcard))
            rest = rest[1:]
    if level.ignore_case:
        pattern = [(c.lower(), live) for c, live in pattern]
        text = text.lower()
    return wild(pattern, text)


def match_any(level: ResourceDef, values: ResourceValues) -> bool:
    return level.wildcard and any(v and not v.strip("*") for v in values.values)


def level_matches(
    level: ResourceDef, values: ResourceValues, text: str | None, user: str, owner: str | None
) -> bool:
    if match_any(level, values):
        return not values.excludes
    if text is None or text in ("", "*"):
        return False
    return any(value_matches(v, level, text, user, owner) for v in values.values) != values.excludes


def chain(definition: ServiceDef, type_: PolicyType, name: str) -> list[ResourceDef]:
    levels = {level.name: level for level in definition.levels(type_)}
    found = [levels[name]]
    while found[0].parent:
        found.insert(0, levels[found[0].parent])
    return found


def match_type(
    definition: ServiceDef, policy: Policy, resources: ResourceSet, resource: Resource, user: str
) -> str:
    """Ranger's walk from the root down, as it is described."""
    levels = {level.name for level in definition.levels(policy.type)}
    if not set(resources) <= levels or not {name for name, _ in resource.elements} <= levels:
        return "NONE"
    deepest = max(resources, key=lambda name: len(chain(definition, policy.type, name)))
    way = chain(definition, policy.type, deepest)
    if {level.name for level in way} != set(resources):
        return "NONE"
    asked = chain(definition, policy.type, resource.kind) if resource.elements else []
    longer = max(way, asked, key=len)
    if way != longer[: len(way)] or asked != longer[: len(asked)]:
        return "NONE"
    last_specific = max((i for i, lv in enumerate(way) if not match_any(lv, resources[lv.name])), default=-1)
    type_ = "NONE" if resource.elements else "SELF"
    for level in longer:
        held, value = resources.get(level.name), resource.level(level.name)
        if held is None:
            if value is not None:
                type_ = "ANCESTOR"
            break
        if value is None and not match_any(level, held):
            break
        if not level_matches(level, held, value, user, resource.owner):
            return "NONE"
        type_ = "SELF"
    if type_ == "SELF" and len(asked) < len(way):
        return "ALL" if len(asked) > last_specific else "DESCENDANT"
    return type_


class Linear:
    """Answers like the engine, for policy sets of one service without paths."""

    def __init__(self, policies: PolicySet, service: str) -> None:
        self.set = policies
        self.definition = policies.service_defs[service]

    def roles(self, principal: Principal) -> set[str]:
        held = set(principal.roles)
        for _ in range(len(self.set.roles) + 1):
            for role in self.set.roles:
                if (
                    principal.user in role.users
                    or role.groups & principal.groups
                    or "public" in role.groups
                    or role.roles & held
                ):
                    held.add(role.name)
        return held

    def covers(self, item: PolicyItem, principal: Principal, owner: str | None) -> bool:
        return (
            principal.user in item.users
            or "{USER}" in item.users
            or "public" in item.groups
            or bool(item.groups & principal.groups)
            or bool(item.roles & self.roles(principal))
            or ("{OWNER}" in item.users and owner == principal.user)
        )

    def lists(self, item: PolicyItem, access: str) -> bool:
        implied = {a.name: a.implied for a in self.definition.access_types}
        return access in item.accesses or any(access in implied.get(a, ()) for a in item.accesses)

    def any_item(
        self, items: Iterable[PolicyItem], principal: Principal, owner: str | None, access: str
    ) -> bool:
        return any(self.lists(item, access) and self.covers(item, principal, owner) for item in items)

    def effect(self, policy: Policy, principal: Principal, owner: str | None, access: str) -> str:
        def found(items: Iterable[PolicyItem]) -> bool:
            return self.any_item(items, principal, owner, access)

        if found(policy.deny) and not found(policy.deny_exceptions):
            return "deny"
        if found(policy.allow) and not found(policy.allow_exceptions):
            return "allow"
        return "deny" if policy.deny_all_else else ""

    def types(self, policy: Policy, resource: Resource, user: str) -> set[str]:
        return {
            match_type(self.definition, policy, resources, resource, user)
            for resources in (policy.resources, *policy.additional_resources)
        }

    def allowed(self, principal: Principal, resource: Resource, access: str, *, below: bool = False) -> bool:
        said: dict[int, set[str]] = {}
        for policy in self.set.policies:
            if policy.type is not PolicyType.ACCESS or not policy.enabled:
                continue
            types = self.types(policy, resource, principal.user)
            here = bool(types & {"SELF", "ALL"})
            if not here and not (below and "DESCENDANT" in types):
                continue
            effect = self.effect(policy, principal, resource.owner, access)
            if effect == "allow" or (effect == "deny" and here):
                said.setdefault(policy.priority, set()).add(effect)
        return bool(said) and "deny" not in said[max(said)]

    def visible(self, principal: Principal, resource: Resource) -> bool:
        return any(
            self.allowed(principal, resource, access.name, below=True)
            for access in self.definition.access_types
        )

    def obligation(
        self, type_: PolicyType, principal: Principal, resource: Resource, order: Sequence[int]
    ) -> MaskItem | FilterItem | None:
        """Return the first item of the first policy; `order` holds policy ids as Ranger sorts them."""
        by_id = {policy.id: policy for policy in self.set.policies}
        for ident in order:
            policy = by_id[ident]
            if policy.type is not type_ or not policy.enabled:
                continue
            if not self.types(policy, resource, principal.user) & {"SELF", "ALL"}:
                continue
            held: tuple[MaskItem | FilterItem, ...] = (*policy.masks, *policy.filters)
            for item in held:
                if self.lists(item, "select") and self.covers(item, principal, resource.owner):
                    return item
        return None
