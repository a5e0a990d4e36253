"""Services as Ranger's JSON, so that what was loaded, from packs or elsewhere, can be served to plugins.

Reading what was written gives the same back. Empty fields are left out, as Ranger's own writers do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gateway.model.policy import (
    Condition,
    Policy,
    PolicyItem,
    PolicyType,
    ResourceDef,
    ResourceSet,
    Role,
    Service,
    ServiceDef,
    TaggedResource,
    Zone,
)
from gateway.model.tags import Recurrence, Tag, ValiditySchedule
from gateway.policy.ranger.audit import FILTERS
from gateway.policy.schedules import is_sound
from gateway.policy.service_defs import ALIAS, DENY_OPTION

_PACKAGE = "org.apache.ranger.plugin."
_CONDITIONS = _PACKAGE + "conditionevaluator."
_MATCHERS = _PACKAGE + "resourcematcher."


def write_service(service: Service) -> dict[str, Any]:
    """Return the service as a ServicePolicies; its tagged resources stand under `serviceTags`."""
    prefix = f"{service.definition.name}:"
    unzoned = [write_policy(p, service) for p in service.policies if not p.zone]
    zones = {zone.name: _zone(zone, service) for zone in service.zones}
    found: dict[str, Any] = {
        "serviceName": service.name,
        "serviceId": service.definition.id,
        "policyVersion": service.version,
        "serviceDef": write_definition(service.definition),
        "auditMode": service.audit.mode,
        "policies": unzoned,
        "serviceConfig": _configuration(service),
        "securityZones": zones,
    }
    if service.tags is not None:
        tags = service.tags
        found["tagPolicies"] = kept(
            {
                "serviceName": tags.name,
                "policyVersion": tags.version,
                "serviceDef": write_definition(tags.definition, prefix),
                "auditMode": tags.audit.mode,
                "policies": [write_policy(policy, tags, prefix) for policy in tags.policies],
                "serviceConfig": _configuration(tags),
            }
        )
    if service.tagged:
        found["serviceTags"] = write_tags(service.tagged, service.name)
    return kept(found) | {"policies": unzoned}


def kept(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {key: value for key, value in data.items() if value not in (None, "", [], {})}


def _configuration(service: Service) -> dict[str, str]:
    written = [
        kept(
            {
                "accessResult": entry.result,
                "resources": write_resources(entry.resources),
                "accessTypes": sorted(entry.accesses),
                "actions": sorted(entry.actions),
                "users": sorted(entry.users),
                "groups": sorted(entry.groups),
                "roles": sorted(entry.roles),
            }
        )
        | {"isAudited": entry.audited}
        for entry in service.audit.filters
    ]
    names = {
        "super.users": service.super_users,
        "super.groups": service.super_groups,
        "audit.exclude.users": service.audit.excluded_users,
        "audit.exclude.groups": service.audit.excluded_groups,
        "audit.exclude.roles": service.audit.excluded_roles,
    }
    found = {f"ranger.plugin.{key}": ",".join(sorted(value)) for key, value in names.items() if value}
    if written:
        found[FILTERS] = json.dumps(written, separators=(",", ":"), sort_keys=True)
    return found


def _zone(zone: Zone, service: Service) -> dict[str, Any]:
    return {
        "zoneName": zone.name,
        "resources": [
            {level: list(values.values) for level, values in resources.items()}
            for resources in zone.resources
        ],
        "policies": [write_policy(p, service) for p in service.policies if p.zone == zone.name],
        "containsAssociatedTagService": zone.governs_tags,
    }


def write_policy(policy: Policy, service: Service, prefix: str = "") -> dict[str, Any]:
    """Return one policy of a service; `prefix` stands before access and mask types of policies on tags."""

    def items(found: Iterable[PolicyItem]) -> list[dict[str, Any]]:
        return [_item(item, prefix) for item in found]

    return kept(
        {
            "id": policy.id,
            "guid": policy.guid,
            "isEnabled": policy.enabled,
            "version": policy.version,
            "service": service.name,
            "serviceType": service.definition.name,
            "name": policy.name,
            "policyType": int(policy.type),
            "policyPriority": policy.priority,
            "description": policy.description,
            "isAuditEnabled": policy.audited,
            "resources": write_resources(policy.resources),
            "additionalResources": [write_resources(found) for found in policy.additional_resources],
            "policyItems": items(policy.allow),
            "denyPolicyItems": items(policy.deny),
            "allowExceptions": items(policy.allow_exceptions),
            "denyExceptions": items(policy.deny_exceptions),
            "dataMaskPolicyItems": [
                _item(item, prefix)
                | {
                    "dataMaskInfo": kept(
                        {
                            "dataMaskType": prefix + item.mask_type,
                            "conditionExpr": item.condition_expression,
                            "valueExpr": item.value_expression,
                        }
                    )
                }
                for item in policy.masks
            ],
            "rowFilterPolicyItems": [
                _item(item, prefix) | {"rowFilterInfo": {"filterExpr": item.filter_expression}}
                for item in policy.filters
            ],
            "conditions": _conditions(policy.conditions),
            "validitySchedules": [write_schedule(schedule) for schedule in policy.schedules],
            "policyLabels": list(policy.labels),
            "zoneName": policy.zone,
            "isDenyAllElse": policy.deny_all_else,
        }
    )


def write_resources(resources: ResourceSet) -> dict[str, Any]:
    """Return a resource set as policies write it."""
    return {
        level: {
            "values": list(values.values),
            "isExcludes": values.excludes,
            "isRecursive": values.recursive,
        }
        for level, values in resources.items()
    }


def _item(item: PolicyItem, prefix: str) -> dict[str, Any]:
    return kept(
        {
            "accesses": [{"type": prefix + name, "isAllowed": True} for name in sorted(item.accesses)],
            "users": sorted(item.users),
            "groups": sorted(item.groups),
            "roles": sorted(item.roles),
            "conditions": _conditions(item.conditions),
            "delegateAdmin": item.delegate_admin,
        }
    )


def _conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    return [{"type": condition.type, "values": list(condition.values)} for condition in conditions]


def write_schedule(schedule: ValiditySchedule) -> dict[str, Any]:
    """Return one validity schedule."""
    times = {"startTime": schedule.start, "endTime": schedule.end}
    return kept(
        {
            **{key: f"{time:%Y/%m/%d %H:%M:%S}" for key, time in times.items() if time is not None},
            "timeZone": _time_zone(schedule),
            "recurrences": [_recurrence(recurrence) for recurrence in schedule.recurrences],
        }
    )


def _time_zone(schedule: ValiditySchedule) -> str:
    """Return the zone, or no zone's name where nothing else tells that it is invalid."""
    hidden = schedule.invalid and is_sound(replace(schedule, invalid=False))
    return f"invalid {schedule.zone}" if hidden else schedule.zone


def _recurrence(recurrence: Recurrence) -> dict[str, Any]:
    hours, minutes = divmod(recurrence.interval_minutes, 60)
    return {
        "schedule": kept(
            {
                "minute": recurrence.minute,
                "hour": recurrence.hour,
                "dayOfMonth": recurrence.day_of_month,
                "dayOfWeek": recurrence.day_of_week,
                "month": recurrence.month,
                "year": recurrence.year,
            }
        ),
        "interval": {"days": hours // 24, "hours": hours % 24, "minutes": minutes},
    }


def write_tags(tagged: Iterable[TaggedResource], service: str, version: int = 1) -> dict[str, Any]:
    """Return a ServiceTags; tags and resources are numbered anew where two resources share an id."""
    tags: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    resources: list[dict[str, Any]] = []
    links: dict[str, list[int]] = {}
    taken: set[int] = set()
    for entry in tagged:
        ident = entry.id
        while ident in taken or ident <= 0:
            ident = max(taken, default=0) + 1
        taken.add(ident)
        resources.append(
            {
                "id": ident,
                "serviceName": service,
                "resourceElements": write_resources(entry.resources),
                "resourceSignature": str(ident),
            }
        )
        for tag in entry.tags:
            tag_id = len(tags) + 1
            tags[str(tag_id)] = _tag(tag, tag_id)
            definitions.setdefault(tag.type, {"name": tag.type, "source": "sluice"})
            links.setdefault(str(ident), []).append(tag_id)
    return {
        "op": "add_or_update",
        "serviceName": service,
        "tagVersion": version,
        "tagDefinitions": {str(i): {"id": i, **entry} for i, entry in enumerate(definitions.values(), 1)},
        "tags": tags,
        "serviceResources": resources,
        "resourceToTagIds": links,
        "isDelta": False,
    }


def _tag(tag: Tag, ident: int) -> dict[str, Any]:
    return kept(
        {
            "id": ident,
            "type": tag.type,
            "owner": tag.owner,
            "attributes": dict(tag.attributes),
            "validityPeriods": [write_schedule(schedule) for schedule in tag.validity],
        }
    )


def write_roles(roles: Iterable[Role], service: str = "", version: int = 1) -> dict[str, Any]:
    """Return a RangerRoles."""

    def members(names: Iterable[str]) -> list[dict[str, Any]]:
        return [{"name": name, "isAdmin": False} for name in sorted(names)]

    found = [
        kept(
            {
                "id": i,
                "name": role.name,
                "users": members(role.users),
                "groups": members(role.groups),
                "roles": members(role.roles),
            }
        )
        for i, role in enumerate(roles, 1)
    ]
    return {"serviceName": service, "roleVersion": version, "rangerRoles": found}


def write_definition(definition: ServiceDef, prefix: str = "") -> dict[str, Any]:
    """Return a service definition; `prefix` stands before the access and mask types of a tag service."""

    def accesses(names: Iterable[str]) -> list[dict[str, Any]]:
        return [{"name": prefix + name} for name in sorted(names)]

    return kept(
        {
            "id": definition.id,
            "name": definition.name,
            "options": _options(definition, prefix),
            "resources": _levels(definition, PolicyType.ACCESS),
            "accessTypes": [
                kept(
                    {
                        "itemId": i,
                        "name": prefix + access.name,
                        "impliedGrants": [prefix + name for name in sorted(access.implied)],
                        "category": access.category,
                    }
                )
                for i, access in enumerate(definition.access_types, 1)
            ],
            "markerAccessTypes": [
                {
                    "name": marker.name.upper(),
                    "impliedGrants": [prefix + name for name in sorted(marker.implied)],
                }
                for marker in definition.markers
            ],
            "policyConditions": [
                kept(
                    {
                        "itemId": i,
                        "name": condition.name,
                        "evaluator": _CONDITIONS + condition.evaluator if condition.evaluator else "",
                        "evaluatorOptions": dict(condition.options),
                    }
                )
                for i, condition in enumerate(definition.conditions, 1)
            ],
            "dataMaskDef": kept(
                {
                    "maskTypes": [
                        kept(
                            {
                                "itemId": i,
                                "name": prefix + mask.name,
                                "label": mask.label,
                                "transformer": mask.transformer,
                            }
                        )
                        for i, mask in enumerate(definition.mask_types, 1)
                    ],
                    "accessTypes": accesses(definition.mask_accesses),
                    "resources": [
                        _level(i, level) for i, level in enumerate(definition.mask_resources or (), 1)
                    ],
                }
            ),
            "rowFilterDef": kept(
                {
                    "accessTypes": accesses(definition.filter_accesses),
                    "resources": _levels(definition, PolicyType.ROW_FILTER),
                }
            ),
        }
    )


def _options(definition: ServiceDef, prefix: str) -> dict[str, str]:
    """Return the options; the gateway's own mean nothing beside names with a prefix."""
    found = {k: v for k, v in definition.options.items() if not (prefix and k.startswith(ALIAS))}
    return found if definition.deny_enabled else {**found, DENY_OPTION: "false"}


def _levels(definition: ServiceDef, type_: PolicyType) -> list[dict[str, Any]]:
    return [_level(i, level) for i, level in enumerate(definition.levels(type_), 1)]


def _level(number: int, level: ResourceDef) -> dict[str, Any]:
    matcher = "RangerDefaultResourceMatcher"
    if level.is_path:
        matcher = "RangerURLResourceMatcher" if level.needs_scheme else "RangerPathResourceMatcher"
    found = {
        "itemId": number,
        "name": level.name,
        "type": "path" if level.is_path and not level.needs_scheme else "string",
        "level": level.level,
        "parent": level.parent or "",
        "mandatory": True,
        "lookupSupported": False,
        "recursiveSupported": level.recursive_supported,
        "excludesSupported": level.excludes_supported,
        "matcher": _MATCHERS + matcher,
        "matcherOptions": _matcher_options(level),
    }
    # Silence, not false: what has no level below it may end a policy without saying so.
    return {**found, "isValidLeaf": True} if level.leaf else found


_PLAIN = ResourceDef(name="")
_MARKS = ("tokenDelimiterStart", "tokenDelimiterEnd", "tokenDelimiterEscape", "tokenDelimiterPrefix")


def _matcher_options(level: ResourceDef) -> dict[str, str]:
    """Return the options of a level's matcher; the rarer ones only where they are not as usual."""
    found = {
        "wildCard": "true" if level.wildcard else "false",
        "ignoreCase": "true" if level.ignore_case else "false",
    }
    if level.separator != _PLAIN.separator:
        found["pathSeparatorChar"] = level.separator
    if level.quote_characters:
        found |= {"quotedCaseSensitive": "true", "quoteChars": level.quote_characters}
    if not level.replaces_tokens:
        found["replaceTokens"] = "false"
    if level.token_marks != _PLAIN.token_marks:
        found |= dict(zip(_MARKS, level.token_marks, strict=True))
    if not level.replaces_expressions:
        found["replaceReqExpressions"] = "false"
    return found
