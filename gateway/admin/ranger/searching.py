"""Ranger's search parameters over plain objects: what matches, in which order, which page of it.

An unknown parameter is passed over, as Ranger does; a known one with a value that cannot be read is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.admin.ranger.definitions import ACCESS, ServiceType
from gateway.admin.ranger.json_fields import Object, ShownEmpty
from gateway.admin.ranger.matching import SCOPES, match, values_match
from gateway.admin.ranger.shapes import ALL_ITEM_LISTS

PAGE_SIZE = 250
RESOURCE = "resource:"
MAX_PAGE = 1_000_000
_Body = Mapping[str, Any]
_Test = Callable[[_Body], bool]


class BadParameter(ValueError):
    """A search parameter has a value that it cannot have."""


@dataclass(frozen=True, slots=True)
class Page:
    """Part of what a search found."""

    items: list[Any]
    total: int
    start: int
    size: int
    sort_by: str
    sort_type: str

    def wrap_page(self, name: str) -> Object:
        """Return Ranger's paged wrapper with the items under `name`: `policies`, `services`, `list`, …"""
        return {
            "startIndex": self.start,
            "pageSize": self.size,
            "totalCount": self.total,
            "resultSize": len(self.items),
            "sortType": self.sort_type,
            "sortBy": self.sort_by,
            "queryTimeMS": 0,
            name: ShownEmpty(self.items),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchContext:
    """Other objects that a search for policies and zones looks up."""

    definitions: Mapping[str, ServiceType] = field(default_factory=dict)
    """Service type → definition."""
    services: Mapping[str, _Body] = field(default_factory=dict)
    """Service name → service."""
    zones: Mapping[str, _Body] = field(default_factory=dict)
    """Zone name → zone."""


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadParameter(f"parameter `{name}` is not a number") from None


def _flag(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise BadParameter(f"parameter `{name}` must be true or false")
    return text.strip().lower() == "true"


def _equal(key: str) -> Callable[[str, str], _Test]:
    return lambda _, wanted: lambda body: body.get(key) == wanted


def _partial(key: str) -> Callable[[str, str], _Test]:
    return lambda _, wanted: lambda body: wanted.lower() in str(body.get(key) or "").lower()


def _prefix(key: str) -> Callable[[str, str], _Test]:
    return lambda _, wanted: lambda body: str(body.get(key) or "").lower().startswith(wanted.lower())


def _numeric(key: str, default: int = 0) -> Callable[[str, str], _Test]:
    def make(name: str, text: str) -> _Test:
        wanted = _number(name, text)
        return lambda body: (default if body.get(key) is None else body[key]) == wanted

    return make


def _switch(key: str, *, default: bool) -> Callable[[str, str], _Test]:
    def make(name: str, text: str) -> _Test:
        wanted = _flag(name, text)
        return lambda body: bool(body.get(key, default)) == wanted

    return make


def _member(kind: str) -> Callable[[str, str], _Test]:
    return lambda _, wanted: lambda body: any(wanted in (item.get(kind) or []) for item in _items(body))


def _build_list_filter(key: str) -> Callable[[str, str], _Test]:
    return lambda _, wanted: lambda body: wanted in (body.get(key) or [])


def _build_partial_list_filter(key: str) -> Callable[[str, str], _Test]:
    return lambda _, wanted: (
        lambda body: any(wanted.lower() in str(one).lower() for one in body.get(key) or [])
    )


def _holds(key: str, *, partial: bool = False) -> Callable[[str, str], _Test]:
    def make(_: str, wanted: str) -> _Test:
        def test(body: _Body) -> bool:
            names = [str(member.get("name") or "") for member in body.get(key) or []]
            return any(wanted.lower() in name.lower() for name in names) if partial else wanted in names

        return test

    return make


def _items(policy: _Body) -> Iterable[_Body]:
    for name in ALL_ITEM_LISTS:
        yield from policy.get(name) or []


def _resource_maps(policy: _Body) -> list[_Body]:
    return [policy.get("resources") or {}, *(policy.get("additionalResources") or [])]


def _recursive(name: str, text: str) -> _Test:
    wanted = _flag(name, text)

    def test(policy: _Body) -> bool:
        found = any(
            bool((one or {}).get("isRecursive"))
            for resources in _resource_maps(policy)
            for one in resources.values()
        )
        return found == wanted

    return test


def _resource_text(_: str, wanted: str) -> _Test:
    def test(policy: _Body) -> bool:
        return any(
            wanted.lower() in str(value).lower()
            for resources in _resource_maps(policy)
            for one in resources.values()
            for value in (one or {}).get("values") or []
        )

    return test


_BASE: dict[str, Callable[[str, str], _Test]] = {
    "guid": _equal("guid"),
    "isEnabled": _switch("isEnabled", default=True),
    "createdBy": _equal("createdBy"),
    "updatedBy": _equal("updatedBy"),
}
_POLICY: dict[str, Callable[[str, str], _Test]] = {
    **_BASE,
    "serviceType": _equal("serviceType"),
    "policyName": _equal("name"),
    "policyNamePartial": _partial("name"),
    "policyNamePrefix": _prefix("name"),
    "policyId": _numeric("id"),
    "isRecursive": _recursive,
    "policyType": _numeric("policyType"),
    "policyPriority": _numeric("policyPriority"),
    "user": _member("users"),
    "group": _member("groups"),
    "role": _member("roles"),
    "policyLabel": _build_list_filter("policyLabels"),
    "policyLabelsPartial": _build_partial_list_filter("policyLabels"),
    "resourceSignature": _equal("resourceSignature"),
    "resourceSignature:": _equal("resourceSignature"),
    "polResource": _resource_text,
    "description": _partial("description"),
}
_SERVICE = {
    **_BASE,
    "serviceName": _equal("name"),
    "serviceNamePartial": _partial("name"),
    "serviceNamePrefix": _prefix("name"),
    "serviceDisplayName": _equal("displayName"),
    "serviceDisplayNamePartial": _partial("displayName"),
    "serviceType": _equal("type"),
    "serviceId": _numeric("id"),
    "tagServiceName": _equal("tagService"),
}
_SERVICE_DEF = {
    **_BASE,
    "serviceType": _equal("name"),
    "serviceTypeId": _numeric("id"),
    "serviceTypeDisplayName": _equal("displayName"),
    "serviceTypeDisplayNamePartial": _partial("displayName"),
}
_ROLE = {
    **_BASE,
    "roleName": _equal("name"),
    "roleNamePartial": _partial("name"),
    "roleId": _numeric("id"),
    "userName": _holds("users"),
    "userNamePartial": _holds("users", partial=True),
    "groupName": _holds("groups"),
    "groupNamePartial": _holds("groups", partial=True),
    "role": _holds("roles"),
}
_ZONE = {
    **_BASE,
    "zoneName": _equal("name"),
    "zoneNamePartial": _partial("name"),
    "zoneId": _numeric("id"),
    "serviceName": lambda _, wanted: (
        lambda zone: wanted in (zone.get("services") or {}) or wanted in (zone.get("tagServices") or [])
    ),
}
_USER = {
    "name": _partial("name"),
    "emailAddress": _equal("emailAddress"),
    "userSource": _numeric("userSource"),
    "isVisible": _numeric("isVisible", 1),
    "status": _numeric("status", 1),
    "syncSource": _equal("syncSource"),
    "userRoleList": _build_list_filter("userRoleList"),
    "userRole": _build_list_filter("userRoleList"),
}
_GROUP = {
    "name": _partial("name"),
    "groupSource": _numeric("groupSource"),
    "isVisible": _numeric("isVisible", 1),
    "syncSource": _equal("syncSource"),
}
_GROUP_USER = {
    "name": _equal("name"),
    "groupName": _equal("name"),
    "userId": _numeric("userId"),
    "parentGroupId": _numeric("parentGroupId"),
}
_COMMON_SORTS = {"id": "id", "name": "name", "createTime": "createTime", "updateTime": "updateTime"}
_SORTS: Mapping[str, Mapping[str, str]] = {
    "policy": {**_COMMON_SORTS, "policyId": "id", "policyName": "name", "serviceName": "service"},
    "service": {**_COMMON_SORTS, "serviceId": "id", "serviceName": "name", "serviceType": "type"},
    "service-def": {**_COMMON_SORTS, "serviceTypeId": "id", "serviceType": "name"},
    "role": {**_COMMON_SORTS, "roleId": "id", "roleName": "name"},
    "zone": {**_COMMON_SORTS, "zoneId": "id", "zoneName": "name"},
    "user": _COMMON_SORTS,
    "group": _COMMON_SORTS,
    "group-user": _COMMON_SORTS,
}


def find_policies(
    policies: Iterable[_Body], parameters: Mapping[str, str], known: SearchContext, *, size: int = PAGE_SIZE
) -> Page:
    """Return the policies that match every parameter. Raises BadParameter."""
    tests = _tests(_POLICY, parameters)
    service = parameters.get("serviceName") or parameters.get("servicename")
    if service:
        wanted = {service}
        if _on(parameters, "fetchTagPolicies"):
            wanted.add(str((known.services.get(service) or {}).get("tagService")))
        tests.append(lambda policy: policy.get("service") in wanted)
    if parameters.get("serviceId"):
        id_ = _number("serviceId", parameters["serviceId"])
        tests.append(lambda policy: (known.services.get(policy.get("service") or "") or {}).get("id") == id_)
    zone = _zone_test(parameters, known)
    if zone is not None:
        tests.append(zone)
    resource = resource_of(parameters)
    if resource:
        scope = (parameters.get("resourceMatchScope") or "").lower()
        if scope not in SCOPES:
            raise BadParameter(f"parameter `resourceMatchScope` cannot be `{scope}`")
        tests.append(lambda policy: _touches(policy, resource, scope, known))
    return page(_find_matching(policies, tests), parameters, "policy", size=size)


def for_resource(policies: Iterable[_Body], resource: Mapping[str, str], known: SearchContext) -> list[_Body]:
    """Return the policies that touch a resource: match it, lie above it or below it."""
    return [policy for policy in policies if _touches(policy, resource, "any", known)]


def _zone_test(parameters: Mapping[str, str], known: SearchContext) -> _Test | None:
    if not parameters.get("zoneName") and not parameters.get("zoneId"):
        return None
    name: str | None = parameters.get("zoneName")
    if not name:
        id_ = _number("zoneId", parameters["zoneId"])
        name = next((n for n, zone in known.zones.items() if zone.get("id") == id_), None)
        if name is None and id_ == UNZONED_ID:
            name = ""
    zones = {name, ""} if _on(parameters, "fetchZoneAndUnzonePolicies") else {name}
    return lambda policy: (policy.get("zoneName") or "") in zones


UNZONED_ID = 1
"""Ranger's id for what belongs to no zone."""


def resource_of(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the resource that `resource:<name>=<value>` parameters name."""
    return {k[len(RESOURCE) :]: v for k, v in parameters.items() if k.startswith(RESOURCE) and v}


def _touches(policy: _Body, resource: Mapping[str, str], scope: str, known: SearchContext) -> bool:
    definition = known.definitions.get(policy.get("serviceType") or "")
    if definition is None:
        return False
    type_ = policy.get("policyType") or ACCESS
    if scope:
        wanted = SCOPES[scope]
        return any(match(maps, resource, definition, type_) in wanted for maps in _resource_maps(policy))
    levels = definition.levels(type_)
    return any(
        all(
            name in maps
            and name in levels
            and (
                value in ((maps[name] or {}).get("values") or [])
                or values_match(levels[name], maps[name], value)
            )
            for name, value in resource.items()
        )
        for maps in _resource_maps(policy)
    )


def find(kind: str, bodies: Iterable[_Body], parameters: Mapping[str, str], *, size: int = PAGE_SIZE) -> Page:
    """Return objects of a kind: service, service-def, role, zone, user, group, group-user."""
    table = {
        "service": _SERVICE,
        "service-def": _SERVICE_DEF,
        "role": _ROLE,
        "zone": _ZONE,
        "user": _USER,
        "group": _GROUP,
        "group-user": _GROUP_USER,
    }[kind]
    return page(_find_matching(bodies, _tests(table, parameters)), parameters, kind, size=size)


def page(found: Sequence[_Body], parameters: Mapping[str, str], kind: str, *, size: int = PAGE_SIZE) -> Page:
    """Return the page of what was found that the parameters ask for. Raises BadParameter."""
    sorts = _SORTS[kind]
    sort_by = parameters.get("sortBy") or ""
    if sort_by and sort_by not in sorts:
        raise BadParameter(f"parameter `sortBy` cannot be `{sort_by}`; known: {', '.join(sorts)}")
    sort_type = (parameters.get("sortType") or "asc").lower()
    if sort_type not in ("asc", "desc"):
        raise BadParameter("parameter `sortType` must be asc or desc")
    key = sorts.get(sort_by, "id")
    ordered = sorted(found, key=lambda body: (_order(body.get(key)), body.get("id") or 0))
    if sort_type == "desc":
        ordered.reverse()
    start = _read_bounded("startIndex", parameters, 0)
    size = _read_bounded("pageSize", parameters, size) or size
    return Page(ordered[start : start + size], len(ordered), start, size, sort_by or "id", sort_type)


def _read_bounded(name: str, parameters: Mapping[str, str], default: int) -> int:
    number = _number(name, parameters[name]) if parameters.get(name) else default
    if not 0 <= number <= MAX_PAGE:
        raise BadParameter(f"parameter `{name}` cannot be {number}")
    return number


def _order(value: object) -> tuple[int, int, str]:
    """Sort missing values first, and texts alphabetically without regard to case."""
    if value is None:
        return (-1, 0, "")
    return (0, value, "") if isinstance(value, int) else (1, 0, str(value or "").lower())


def _on(parameters: Mapping[str, str], name: str) -> bool:
    return (parameters.get(name) or "").strip().lower() == "true"


def _tests(table: Mapping[str, Callable[[str, str], _Test]], parameters: Mapping[str, str]) -> list[_Test]:
    return [table[name](name, text) for name, text in parameters.items() if name in table and text != ""]


def _find_matching(bodies: Iterable[_Body], tests: Sequence[_Test]) -> list[_Body]:
    return [body for body in bodies if all(test(body) for test in tests)]
