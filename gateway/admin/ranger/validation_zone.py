"""What makes a security zone valid: who keeps it, and resources that no other zone has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.matching import matcher, overlap
from gateway.admin.ranger.validation import MISSING, Failure

_ADMINS = ("adminUsers", "adminUserGroups", "adminRoles")
_AUDITORS = ("auditUsers", "auditUserGroups", "auditRoles")


def zone_failures(
    zone: Mapping[str, Any],
    *,
    services: Mapping[str, tuple[Mapping[str, Any], ServiceType]],
    others: Iterable[Mapping[str, Any]],
    stored: Mapping[str, Any] | None = None,
    updating: bool = False,
) -> list[Failure]:
    """Return everything that is wrong with a zone.

    `services` holds every stored service with its definition; `others` all zones but the one that is updated.
    """
    neighbours = list(others)
    return [
        *_identity(zone, neighbours, stored, updating),
        *_members(zone),
        *_services(zone, services, neighbours),
    ]


def _identity(
    zone: Mapping[str, Any],
    others: list[Mapping[str, Any]],
    stored: Mapping[str, Any] | None,
    updating: bool,
) -> Iterator[Failure]:
    name = zone.get("name")
    if updating and stored is None:
        yield Failure(3037, f"zone `{zone.get('id')}` does not exist", "id")
    if not name or not name.strip():
        yield Failure(3035, "a zone needs a name", "name", type=MISSING)
        return
    same = next((other for other in others if other.get("name") == name), None)
    if same is not None:
        yield Failure(3036, f"zone {same.get('id')} already has the name `{name}`", "name")


def _members(zone: Mapping[str, Any]) -> Iterator[Failure]:
    for lists, what in ((_ADMINS, "administrators"), (_AUDITORS, "auditors")):
        if not any(zone[name] for name in lists):
            yield Failure(3038, f"a zone needs {what}: users, groups or roles", lists[0], type=MISSING)
        for name in lists:
            if any(not member or not member.strip() for member in zone[name]):
                yield Failure(3038, f"`{name}` contains an empty name", name)


def _services(
    zone: Mapping[str, Any],
    services: Mapping[str, tuple[Mapping[str, Any], ServiceType]],
    others: list[Mapping[str, Any]],
) -> Iterator[Failure]:
    for name in zone["tagServices"]:
        found = services.get(name)
        if found is None or found[0].get("type") != "tag":
            yield Failure(3040, f"tag service `{name}` does not exist", "tagServices")
    for name, part in zone["services"].items():
        found = services.get(name)
        if found is None:
            yield Failure(3040, f"service `{name}` does not exist", "services", name)
            continue
        service, definition = found
        maps = (part or {}).get("resources") or []
        if service.get("type") == "tag":
            if maps:
                yield Failure(3047, f"tag service `{name}` cannot have resources in a zone", "services", name)
            continue
        if not maps:
            yield Failure(3039, f"service `{name}` needs resources in the zone", "services", name, MISSING)
        yield from _resources(name, maps, definition)
        yield from _overlaps(name, maps, definition, others)


def _resources(service: str, maps: list[Mapping[str, Any]], definition: ServiceType) -> Iterator[Failure]:
    levels, ways = definition.levels(), definition.hierarchies()
    for resource in maps:
        keys = set(resource)
        if not keys or not any(keys == set(way[: len(keys)]) for way in ways):
            known = " or ".join("{" + ", ".join(way) + "}" for way in ways)
            reason = (
                f"{{{', '.join(sorted(keys))}}} is not a resource of `{service}`; its resources are {known}"
            )
            yield Failure(3042, reason, "resources", service)
            continue
        for name, values in resource.items():
            if not values or any(not value or not value.strip() for value in values):
                yield Failure(3039, f"resource `{name}` needs values", "resources", service, MISSING)
        if all(matcher(levels[name], {"values": values}).any for name, values in resource.items()):
            yield Failure(3043, f"a zone cannot contain all of `{service}`", "resources", service)
    texts = Counter(str(sorted((k, sorted(filter(None, v))) for k, v in r.items())) for r in maps)
    if any(count > 1 for count in texts.values()):
        yield Failure(3052, f"a resource of `{service}` is listed twice", "resources", service)


def _overlaps(
    service: str, maps: list[Mapping[str, Any]], definition: ServiceType, others: list[Mapping[str, Any]]
) -> Iterator[Failure]:
    for other in others:
        theirs = ((other.get("services") or {}).get(service) or {}).get("resources") or []
        if any(overlap(_clean(mine), _clean(their), definition) for mine in maps for their in theirs):
            reason = f"resources of `{service}` are also in zone `{other.get('name')}`"
            yield Failure(3046, reason, "resources", service)


def _clean(resource: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: [value for value in values if value] for name, values in resource.items()}
