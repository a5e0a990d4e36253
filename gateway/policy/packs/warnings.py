"""What loads and does not mean what its author may think: told with its place, never refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from re import compile as compiled
from typing import TYPE_CHECKING

from gateway.model.policy import (
    Policy,
    PolicyItem,
    PolicySet,
    ResourceDef,
    ResourceSet,
    ResourceValues,
    Role,
    Service,
    ServiceDef,
)

if TYPE_CHECKING:
    from gateway.policy.packs.files import Pack

_EVERYBODY = "public"
_CURRENT_USER = "{USER}"


def warnings_of(policies: PolicySet, packs: Sequence[Pack]) -> tuple[str, ...]:
    """Return warnings as `place: message`, in the order of packs and lines."""
    found = list(_of_roles(policies, packs))
    for service in policies.services.values():
        found += _of_service(service)
    return tuple(dict.fromkeys(found))


def _of_roles(policies: PolicySet, packs: Sequence[Pack]) -> Iterator[str]:
    roles = {role.name: role for role in policies.roles}
    for pack in packs:
        for name, (_, path) in pack.roles.items():
            cycle = _cycle(name, roles)
            if cycle and name == min(cycle):  # once for all of its roles
                way = " → ".join(f"`{step}`" for step in cycle)
                yield f"{pack.document.place(path)}: role `{name}` contains itself: {way}"
    known = roles.keys() | {role for pack in packs for one in pack.people.values() for role in one.roles}
    for policy in policies.policies():
        for item in policy.items:
            for role in sorted(item.roles - known):
                yield f"{item.place}: no pack defines role `{role}`; it can only come from a login directory"


def _cycle(start: str, roles: Mapping[str, Role]) -> tuple[str, ...]:
    """Return the way from a role back to itself, or nothing."""
    ways: list[tuple[str, ...]] = [(start,)]
    seen = set[str]()
    while ways:
        way = ways.pop()
        for inner in sorted(roles[way[-1]].roles) if way[-1] in roles else ():
            if inner == start:
                return (*way, start)
            if inner not in seen:
                seen.add(inner)
                ways.append((*way, inner))
    return ()


def _of_service(service: Service) -> Iterator[str]:
    carried = {tag.type for tagged in service.tagged for tag in tagged.tags}
    if service.tags is not None:
        for policy in service.tags.policies:
            yield from _of_items(policy, service.tags.definition)
            named = {value for found in _sets(policy) for values in found.values() for value in values.values}
            for tag in sorted(named - carried):
                yield f"{policy.place}: no resource has tag `{tag}`"
    for policy in service.policies:
        yield from _of_items(policy, service.definition)
        yield from _of_literals(policy, service.definition)
        yield from _of_zones(policy, service)


def _of_items(policy: Policy, definition: ServiceDef) -> Iterator[str]:
    """Items that are never asked, and permissions that their own exceptions take away."""
    obligations: Sequence[PolicyItem] = policy.masks or policy.filters
    for i, item in enumerate(obligations[:-1]):
        if _for_everybody(item):
            yield f"{obligations[i + 1].place}: never reached: the item before it applies to everybody"
            break
    taken = _list_granted(
        (access for item in policy.allow_exceptions if _for_everybody(item) for access in item.accesses),
        definition,
    )
    given = _list_granted((access for item in policy.allow for access in item.accesses), definition)
    delegates = any(item.delegate_admin for item in policy.allow)
    if given and given <= taken and not (policy.deny or policy.deny_all_else or delegates):
        yield f"{policy.place}: policy `{policy.name}` allows nothing: its exceptions apply to everybody"


def _for_everybody(item: PolicyItem) -> bool:
    return (_EVERYBODY in item.groups or _CURRENT_USER in item.users) and not item.conditions


def _list_granted(accesses: Iterable[str], definition: ServiceDef) -> set[str]:
    grants = {each.name.lower(): each for each in (*definition.access_types, *definition.markers)}
    found = set[str]()
    for access in accesses:
        found.add(access)
        if access in grants:
            found |= {implied.lower() for implied in grants[access].implied}
    return found


def _of_literals(policy: Policy, definition: ServiceDef) -> Iterator[str]:
    """Wildcards at levels that know none: they would match only a thing of that very name."""
    levels = {level.name: level for level in definition.levels(policy.type)}
    for found in _sets(policy):
        for name, values in found.items():
            level = levels.get(name)
            for value in values.values:
                if level is not None and not level.wildcard and ("*" in value or "?" in value):
                    yield f"{policy.place}: `{name}` does not support wildcards; `{value}` is read as a name"


def _of_zones(policy: Policy, service: Service) -> Iterator[str]:
    levels = {level.name: level for level in service.definition.resources}
    zones = {zone.name: zone.resources for zone in service.zones}
    if policy.zone:
        inside = zones.get(policy.zone, ())
        if inside and all(_apart(found, zone, levels) for found in _sets(policy) for zone in inside):
            where = f"it is outside of zone `{policy.zone}`"
            yield f"{policy.place}: policy `{policy.name}` never matches: {where}"
        return
    covering = [_find_covering_zone(found, zones, levels) for found in _sets(policy)]
    if covering and all(covering):
        names = " and ".join(f"`{name}`" for name in sorted(set(covering)))
        yield (
            f"{policy.place}: policy `{policy.name}` never matches: it covers resources of zone "
            f"{names} but does not belong to that zone"
        )


def _find_covering_zone(
    found: ResourceSet, zones: Mapping[str, Sequence[ResourceSet]], levels: Mapping[str, ResourceDef]
) -> str:
    """Return the name of a zone that everything in the set lies in, or nothing."""
    for name, resources in zones.items():
        if any(
            all(
                level in found and _all_in(found[level], values, levels[level])
                for level, values in zone.items()
            )
            for zone in resources
        ):
            return name
    return ""


def _apart(one: ResourceSet, other: ResourceSet, levels: Mapping[str, ResourceDef]) -> bool:
    """Whether no resource can lie in both, as far as plain values tell."""
    return any(
        not one[level].excludes
        and not other[level].excludes
        and not any(_may_meet(a, b, levels[level]) for a in one[level].values for b in other[level].values)
        for level in one.keys() & other.keys()
    )


def _may_meet(one: str, other: str, level: ResourceDef) -> bool:
    if level.is_path or (_is_pattern(one) and _is_pattern(other)):
        return True
    if _is_pattern(one):
        one, other = other, one
    return _matches(one, other, level)


def _all_in(one: ResourceValues, zone: ResourceValues, level: ResourceDef) -> bool:
    if one.excludes:
        return any(not value.strip("*") for value in zone.values)
    return all(
        any(
            value == other or (not other.strip("*")) or _plain_in(value, other, level)
            for other in zone.values
        )
        for value in one.values
    )


def _plain_in(value: str, pattern: str, level: ResourceDef) -> bool:
    return not _is_pattern(value) and _matches(value, pattern, level)


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?{")


def _matches(value: str, pattern: str, level: ResourceDef) -> bool:
    if "{" in pattern:
        return True
    if level.ignore_case:
        value, pattern = value.lower(), pattern.lower()
    # fnmatch knows character classes, policies do not.
    return compiled(translate(pattern.replace("[", "[[]"))).fullmatch(value) is not None


def _sets(policy: Policy) -> tuple[ResourceSet, ...]:
    return tuple(found for found in (policy.resources, *policy.additional_resources) if found)
