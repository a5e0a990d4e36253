"""Security zones in both of Ranger's shapes, and which of them a resource is in. Stored is the first one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.json_fields import Object
from gateway.admin.ranger.matching import match
from gateway.admin.ranger.validation import Failure
from gateway.policy.hierarchy import MatchType

_LISTS = {"USER": "Users", "GROUP": "UserGroups", "ROLE": "Roles"}
_SIDES = {"admins": "admin", "auditors": "audit"}
_BASE = (
    "id", "guid", "isEnabled", "createdBy", "updatedBy", "createTime", "updateTime", "version", "name",
    "description", "tagServices",
)  # fmt: skip
UNFIT = 9030


def to_v2(zone: Mapping[str, Any]) -> Object:
    """Return a stored zone in the second shape. A resource's id is its place among the service's."""
    found: Object = {key: zone[key] for key in _BASE if key in zone}
    for side, prefix in _SIDES.items():
        found[side] = [
            {"type": kind, "name": name}
            for kind, suffix in _LISTS.items()
            for name in zone.get(prefix + suffix) or []
        ]
    found["services"] = {name: {"resources": resources_v2(zone, name)} for name in zone.get("services") or {}}
    return found


def resources_v2(zone: Mapping[str, Any], service: str) -> list[Object]:
    """Return what a zone holds of a service, in the second shape."""
    part = (zone.get("services") or {}).get(service) or {}
    return [
        {"id": i, "resource": {name: {"values": list(values)} for name, values in resource.items()}}
        for i, resource in enumerate(part.get("resources") or [], start=1)
    ]


def from_v2(zone: Mapping[str, Any]) -> tuple[Object, list[Failure]]:
    """Return a zone of the second shape (as `shapes` read it) in the first one, and what does not fit."""
    failures: list[Failure] = []
    found: Object = {key: zone[key] for key in _BASE if key in zone}
    for side, prefix in _SIDES.items():
        found |= {prefix + suffix: [] for suffix in _LISTS.values()}
        for principal in zone.get(side) or []:
            suffix = _LISTS.get(str((principal or {}).get("type") or "").upper())
            if suffix is None:
                failures.append(
                    Failure(UNFIT, f"`{(principal or {}).get('type')}` is not a type of principal", side)
                )
            else:
                found[prefix + suffix].append(principal.get("name"))
    found["services"] = {}
    for name, part in (zone.get("services") or {}).items():
        given = (part or {}).get("resources") or []
        found["services"][name] = {"resources": [_plain(name, one, failures) for one in given]}
    return found, failures


def _plain(service: str, entry: Mapping[str, Any] | None, failures: list[Failure]) -> Object:
    resource = (entry or {}).get("resource") or {}
    for name, one in resource.items():
        if (one or {}).get("isExcludes"):
            failures.append(Failure(UNFIT, f"`{name}` of a zone cannot be excluded", "services", service))
    return {name: list((one or {}).get("values") or []) for name, one in resource.items()}


def apply_zone_change(zone: Mapping[str, Any], change: Mapping[str, Any]) -> tuple[Object, list[Failure]]:
    """Return the stored zone after a change request (as `shapes` read it), and what of it does not fit."""
    failures: list[Failure] = []
    found: Object = {**zone, "services": {k: dict(v or {}) for k, v in (zone.get("services") or {}).items()}}
    for key in ("name", "description"):
        if change.get(key):
            found[key] = change[key]
    tags = [t for t in zone.get("tagServices") or [] if t not in change["tagServicesToRemove"]]
    found["tagServices"] = list(dict.fromkeys([*tags, *change["tagServicesToAdd"]]))
    for side, prefix in _SIDES.items():
        for kind, suffix in _LISTS.items():
            gone, added = (
                [p.get("name") for p in change[f"{side}To{what}"] if str(p.get("type")).upper() == kind]
                for what in ("Remove", "Add")
            )
            kept = [name for name in zone.get(prefix + suffix) or [] if name not in gone]
            found[prefix + suffix] = list(dict.fromkeys([*kept, *added]))
    _remove_resources(found, change["resourcesToRemove"], failures)
    _update_resources(found, change["resourcesToUpdate"], failures)
    return found, failures


def _remove_resources(zone: Object, change: Mapping[str, Any], failures: list[Failure]) -> None:
    for service, part in change.items():
        held = list((zone["services"].get(service) or {}).get("resources") or [])
        gone = set()
        for entry in (part or {}).get("resources") or []:
            at = _place(held, service, entry, failures)
            if at is None:
                failures.append(
                    Failure(
                        UNFIT, f"the zone does not contain that resource of `{service}`", "resourcesToRemove"
                    )
                )
            else:
                gone.add(at)
        kept = [resource for i, resource in enumerate(held) if i not in gone]
        if kept:
            zone["services"][service] = {"resources": kept}
        else:
            zone["services"].pop(service, None)


def _update_resources(zone: Object, change: Mapping[str, Any], failures: list[Failure]) -> None:
    """Put resources in the place of those with their id; without an id they are new."""
    for service, part in change.items():
        held = list((zone["services"].get(service) or {}).get("resources") or [])
        for entry in (part or {}).get("resources") or []:
            resource = _plain(service, entry, failures)
            id_ = (entry or {}).get("id")
            if id_ is None:
                if resource not in held:
                    held.append(resource)
            elif 1 <= id_ <= len(held):
                held[id_ - 1] = resource
            else:
                failures.append(
                    Failure(UNFIT, f"the zone has no resource {id_} of `{service}`", "resourcesToUpdate")
                )
        zone["services"][service] = {"resources": held}


def _place(
    held: list[Any], service: str, entry: Mapping[str, Any] | None, failures: list[Failure]
) -> int | None:
    id_ = (entry or {}).get("id")
    if id_ is not None:
        return id_ - 1 if 1 <= id_ <= len(held) else None
    resource = _plain(service, entry, failures)
    wanted = {name: sorted(values) for name, values in resource.items()}
    return next((i for i, one in enumerate(held) if {n: sorted(v) for n, v in one.items()} == wanted), None)


def zones_of(
    service: str, resource: Mapping[str, str], zones: Iterable[Mapping[str, Any]], definition: ServiceType
) -> list[str]:
    """Return the names of the zones that a resource of a service touches."""
    return [
        str(zone["name"])
        for zone in zones
        if zone.get("isEnabled", True)
        and any(
            match(_values(one, definition), resource, definition) is not MatchType.NONE
            for one in ((zone.get("services") or {}).get(service) or {}).get("resources") or []
        )
    ]


def _values(resource: Mapping[str, Any], definition: ServiceType) -> Object:
    levels = definition.levels()
    return {
        name: {"values": values, "isRecursive": name in levels and levels[name].recursive_supported}
        for name, values in resource.items()
    }
