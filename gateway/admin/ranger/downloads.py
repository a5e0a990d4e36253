"""What plugins download: a service's policies, tags, roles and users, whole or as a difference.

Everything is assembled of stored objects; versions and times are the store's.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gateway.admin.ranger.definitions import complete_definition
from gateway.admin.ranger.json_fields import Object
from gateway.admin.ranger.kinds import NEVER, ChangedObject, ObjectChange, Version

_Body = Mapping[str, Any]
_TAG = "tag"
_CONFIG_PREFIX = "ranger.plugin."
AUDIT_MODE = "audit-default"
MAX_DELTAS = 5_000
"""Changes sent as a difference; a plugin that is further behind gets everything."""


class Extent(enum.Enum):
    """How much a plugin gets."""

    NOTHING = "nothing"
    """It has what there is: 304."""
    DELTA = "delta"
    FULL = "full"


def extent(known: int, current: int, *, deltas: bool, changes: Sequence[ObjectChange] = ()) -> Extent:
    """Return what a plugin gets that has the version `known` (−1: none).

    `changes` are those after that version. 304 is for the same version only: a plugin that is ahead of the
    server, which was restored, gets everything. A difference must be complete, and must be one of policies.
    """
    if known == current:
        return Extent.NOTHING
    if not deltas or known < 0 or known > current or not changes or len(changes) > MAX_DELTAS:
        return Extent.FULL
    complete = {change.version for change in changes} == set(range(known + 1, current + 1))
    told = all(change.change <= ChangedObject.DELETED and change.policy is not None for change in changes)
    return Extent.DELTA if complete and told else Extent.FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPart:
    """One service with what its download is made of."""

    service: _Body
    definition: _Body
    policies: Sequence[_Body] = ()
    version: Version = NEVER


def service_policies(part: DownloadPart, tags: DownloadPart | None, zones: Iterable[_Body]) -> Object:
    """Return Ranger's ServicePolicies: enabled policies, a zone's with the zone, those on tags beside."""
    name = part.service["name"]
    found = _head(part)
    if part.service.get("isEnabled") is False:
        return found
    enabled = [policy for policy in part.policies if policy.get("isEnabled", True)]
    found |= {
        "policies": [dict(policy) for policy in enabled if not policy.get("zoneName")],
        "serviceDef": complete_definition(part.definition),
        "auditMode": AUDIT_MODE,
        "serviceConfig": _config(part.service),
    }
    if tags is not None and tags.service.get("isEnabled", True):
        found["tagPolicies"] = {
            **_head(tags),
            "policies": [dict(policy) for policy in tags.policies if policy.get("isEnabled", True)],
            "serviceDef": complete_definition(tags.definition),
            "auditMode": AUDIT_MODE,
            "serviceConfig": _config(tags.service),
        }
    by_zone: dict[str, list[Object]] = {}
    for policy in enabled:
        if policy.get("zoneName"):
            by_zone.setdefault(policy["zoneName"], []).append(dict(policy))
    info = _zones(name, part.service.get("tagService"), zones)
    for zone, entry in info.items():
        entry["policies"] = by_zone.get(zone, [])
    if info:
        found["securityZones"] = info
    return found


def policy_deltas(
    part: DownloadPart, changes: Sequence[ObjectChange], zones: Iterable[_Body], *, tag_service: str
) -> Object:
    """Return ServicePolicies that tell what changed: the last change of every policy.

    A policy that is switched off is deleted for a plugin. An update may be of one that it does not have.
    """
    last: dict[int, ObjectChange] = {}
    for change in changes:
        if change.policy is not None:
            last.pop(change.policy["id"], None)
            last[change.policy["id"]] = change
    found = _head(part)
    plain: list[Object] = []
    by_zone: dict[str, list[Object]] = {}
    for change in last.values():
        delta = _delta(change, part)
        zone = delta["policy"].get("zoneName")
        of_tags = delta["policy"]["serviceType"] == _TAG and part.service.get("type") != _TAG
        (by_zone.setdefault(zone, []) if zone and not of_tags else plain).append(delta)
    found |= {
        "policyDeltas": plain,
        "serviceDef": complete_definition(part.definition),
        "auditMode": AUDIT_MODE,
        "serviceConfig": _config(part.service),
    }
    info = _zones(part.service["name"], tag_service, zones)
    for zone, entry in info.items():
        entry["policyDeltas"] = by_zone.get(zone, [])
    if info:
        found["securityZones"] = info
    return found


def _delta(change: ObjectChange, part: DownloadPart) -> Object:
    policy = change.policy or {}
    gone = change.change == ChangedObject.DELETED or policy.get("isEnabled") is False
    kind = policy.get("serviceType") or part.service.get("type")
    sent: Object = {**policy, "serviceType": kind}
    if gone:
        sent = {
            "id": policy["id"],
            "service": policy.get("service"),
            "serviceType": kind,
            "policyType": policy.get("policyType") or 0,
            "zoneName": policy.get("zoneName"),
        }
    return {
        "id": policy["id"],
        "changeType": int(ChangedObject.DELETED if gone else change.change),
        "policiesVersion": change.version,
        "policy": sent,
    }


def _head(part: DownloadPart) -> Object:
    return {
        "serviceName": part.service["name"],
        "serviceId": part.service.get("id"),
        "policyVersion": part.version.number,
        "policyUpdateTime": part.version.updated_ms,
    }


def _config(service: _Body) -> Object:
    return {k: v for k, v in (service.get("configs") or {}).items() if k.startswith(_CONFIG_PREFIX)}


def _zones(service: str, tag_service: object, zones: Iterable[_Body]) -> dict[str, Object]:
    found: dict[str, Object] = {}
    for zone in zones:
        part = (zone.get("services") or {}).get(service)
        if part is None or zone.get("isEnabled") is False:
            continue
        found[zone["name"]] = {
            "zoneName": zone["name"],
            "resources": part.get("resources") or [],
            "containsAssociatedTagService": bool(tag_service)
            and tag_service in (zone.get("tagServices") or []),
        }
    return found


def service_tags(stored: _Body | None, *, service: str, version: Version) -> Object:
    """Return Ranger's ServiceTags as plugins read them."""
    body = stored or {}
    return {
        "op": "add_or_update",
        "serviceName": service,
        "tagVersion": version.number,
        "tagUpdateTime": version.updated_ms,
        "tagDefinitions": body.get("tagDefinitions") or {},
        "tags": body.get("tags") or {},
        "serviceResources": body.get("serviceResources") or [],
        "resourceToTagIds": body.get("resourceToTagIds") or {},
        "isDelta": False,
        "tagsChangeExtent": "ALL",
    }


def ranger_roles(roles: Iterable[_Body], *, service: str, version: Version) -> Object:
    """Return Ranger's RangerRoles."""
    return {
        "serviceName": service,
        "roleVersion": version.number,
        "roleUpdateTime": version.updated_ms,
        "rangerRoles": [dict(role) for role in roles if role.get("isEnabled", True)],
    }


def user_store(
    users: Iterable[_Body], groups: Iterable[_Body], memberships: Iterable[_Body], *, version: Version
) -> Object:
    """Return Ranger's UserStore: attributes of users and groups, and who is in which."""
    known = list(users)
    names: dict[object, str] = {user["id"]: str(user["name"]) for user in known}
    groups_of: dict[str, list[str]] = {name: [] for name in names.values()}
    for membership in memberships:
        name = names.get(membership.get("userId"))
        if name is not None and membership.get("name"):
            groups_of[name].append(str(membership["name"]))
    return {
        "userStoreVersion": version.number,
        "userStoreUpdateTime": version.updated_ms,
        "userAttrMapping": {str(user["name"]): attributes(user) for user in known},
        "groupAttrMapping": {str(group["name"]): attributes(group) for group in groups},
        "userGroupMapping": {name: sorted(set(found)) for name, found in groups_of.items() if found},
    }


def attributes(of: _Body) -> dict[str, str]:
    """Return the attributes of a user or group: its JSON text of them, and those with reserved names."""
    found: dict[str, str] = {"_name": str(of["name"])}
    for key, name in (("emailAddress", "_emailAddress"), ("syncSource", "_syncSource")):
        if of.get(key):
            found[name] = str(of[key])
    return found | other_attributes(of.get("otherAttributes"))


def other_attributes(text: object) -> dict[str, str]:
    """Return what the JSON text holds; raise ValueError when it is no object of texts."""
    if not text:
        return {}
    try:
        found = orjson.loads(str(text))
    except orjson.JSONDecodeError:
        raise ValueError("`otherAttributes` is not JSON") from None
    if not isinstance(found, dict):
        raise ValueError("`otherAttributes` is not a JSON object")
    return {
        str(k): v if isinstance(v, str) else orjson.dumps(v).decode()
        for k, v in found.items()
        if v is not None
    }
