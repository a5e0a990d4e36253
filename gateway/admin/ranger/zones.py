"""Security zones, in Ranger's first and second shape.

A zone's policies go with it, and with a service that leaves it; every change of a zone makes plugins of its
services download everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from aiohttp import web

from gateway.admin.ranger.calls import (
    PUBLIC,
    ApiCall,
    Route,
    answer,
    bad_request,
    find_named,
    forbidden,
    no_content,
    not_found,
    one_object,
    parse_object,
    refuse,
)
from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import Body, ChangedObject, ObjectKind, What
from gateway.admin.ranger.listing import build_list_handler, build_page_handler, search
from gateway.admin.ranger.matching import matcher, overlap
from gateway.admin.ranger.policy_changes import remove
from gateway.admin.ranger.searching import page, resource_of
from gateway.admin.ranger.shapes import ZONE, ZONE_CHANGE, ZONE_V2
from gateway.admin.ranger.signature import policy_signature
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction
from gateway.admin.ranger.validation import MISSING, Failure
from gateway.admin.ranger.zone_shapes import apply_zone_change, from_v2, resources_v2, to_v2, zones_of


async def _page_v2(call: ApiCall) -> web.Response:
    found = (await search(call, "zone", _readable)).wrap_page("list")
    return answer({**found, "list": [to_v2(zone) for zone in found["list"]]})


async def _readable(call: ApiCall, reading: ReadTransaction) -> list[Body]:
    zones = await reading.all(ObjectKind.ZONE)
    return [zone for zone in zones if call.access.audits_zone(call.principal, zone)]


async def _get(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        return answer(await _find_zone(call, reading))


async def _get_v2(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        return answer(to_v2(await _find_zone(call, reading)))


async def _resources_v2(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        zone = await _find_zone(call, reading)
    service = call.path("service")
    if service not in (zone.get("services") or {}):
        raise not_found(f"zone `{zone['name']}` does not contain service `{service}`")
    return answer(page(resources_v2(zone, service), call.parameters(), "zone").wrap_page("list"))


async def _create(call: ApiCall) -> web.Response:
    call.require_administrator("create zones")
    body = await call.parse_object(ZONE)
    async with call.store.writing(call.user) as writing:
        return answer(await _make(writing, body))


async def _create_v2(call: ApiCall) -> web.Response:
    call.require_administrator("create zones")
    body, failures = from_v2(await call.parse_object(ZONE_V2))
    refuse(failures)
    async with call.store.writing(call.user) as writing:
        return answer(to_v2(await _make(writing, parse_object(ZONE, body))))


async def _make(writing: WriteTransaction, body: Body) -> Body:
    services = await _services(writing)
    refuse(zone_failures(body, services=services, others=await writing.all(ObjectKind.ZONE)))
    made = await writing.create(ObjectKind.ZONE, _build_stored_zone(body))
    await _bump(writing, made)
    return made


async def _update(call: ApiCall) -> web.Response:
    call.require_administrator("change zones")
    body = await call.parse_object(ZONE)
    async with call.store.writing(call.user) as writing:
        stored = await _find_zone(call, writing)
        return answer(await _replace(writing, stored, body))


async def _update_v2(call: ApiCall) -> web.Response:
    call.require_administrator("change zones")
    body, failures = from_v2(await call.parse_object(ZONE_V2))
    refuse(failures)
    async with call.store.writing(call.user) as writing:
        stored = await _find_zone(call, writing)
        return answer(to_v2(await _replace(writing, stored, parse_object(ZONE, body))))


async def _change_v2(call: ApiCall) -> web.Response:
    call.require_administrator("change zones")
    change = await call.parse_object(ZONE_CHANGE)
    async with call.store.writing(call.user) as writing:
        stored = await _find_zone(call, writing)
        body, failures = apply_zone_change(parse_object(ZONE, stored), change)
        refuse(failures)
        await _replace(writing, stored, body, check_version=False)
    return answer(body=True)


async def _replace(
    writing: WriteTransaction, stored: Body, body: Body, *, check_version: bool = True
) -> Body:
    """Check a zone and put it in the place of the stored one. Raises RangerError 400 and Conflict."""
    if body.get("id") not in (None, stored["id"]):
        raise bad_request("zoneID mismatch: the path and the body name different zones")
    body = {**body, "id": stored["id"]}
    others = [one for one in await writing.all(ObjectKind.ZONE) if one["id"] != stored["id"]]
    services = await _services(writing)
    refuse(zone_failures(body, services=services, others=others, stored=stored, updating=True))
    made = await writing.update(
        ObjectKind.ZONE, stored, _build_stored_zone(body), check_version=check_version
    )
    await _drop_policies(writing, stored["name"], services, keep=_members(made))
    if made["name"] != stored["name"]:
        await _rename_policies(writing, stored["name"], made["name"])
    await _bump(writing, stored, made)
    return made


async def _delete(call: ApiCall) -> web.Response:
    call.require_administrator("delete zones")
    async with call.store.writing(call.user) as writing:
        stored = await _find_zone(call, writing)
        await _drop_policies(writing, stored["name"], await _services(writing), keep=frozenset())
        await writing.delete(ObjectKind.ZONE, stored)
        await _bump(writing, stored)
    return no_content()


def _build_stored_zone(body: Body) -> Body:
    """Return a zone as it is stored: every service of it is there, if empty."""
    services = {
        name: {"resources": show((part or {}).get("resources") or [])}
        for name, part in body["services"].items()
    }
    return {**show(body), "isEnabled": body.get("isEnabled", True), "services": services}


def _members(zone: Mapping[str, Any]) -> frozenset[str]:
    return frozenset({*(zone.get("services") or ()), *(zone.get("tagServices") or ())})


async def _services(reading: ReadTransaction) -> dict[str, tuple[Body, ServiceType]]:
    definitions = {one["name"]: ServiceType(one) for one in await reading.all(ObjectKind.SERVICE_DEF)}
    return {
        one["name"]: (one, definitions[one["type"]])
        for one in await reading.all(ObjectKind.SERVICE)
        if one["type"] in definitions
    }


async def _drop_policies(
    writing: WriteTransaction,
    zone: str,
    services: Mapping[str, tuple[Body, ServiceType]],
    *,
    keep: frozenset[str],
) -> None:
    for policy in await writing.all(ObjectKind.POLICY, zone=zone):
        if policy["service"] not in keep:
            await remove(writing, services[policy["service"]][0], policy)


async def _rename_policies(writing: WriteTransaction, old: str, new: str) -> None:
    for policy in await writing.all(ObjectKind.POLICY, zone=old):
        moved = {**policy, "zoneName": new}
        moved["resourceSignature"] = signature = policy_signature(moved)
        enabled = moved.get("isEnabled", True)
        await writing.update(ObjectKind.POLICY, policy, moved, signature=signature if enabled else None)


async def _bump(writing: WriteTransaction, *zones: Body) -> None:
    """Make plugins of all services of these zones download everything."""
    services: list[str] = []
    for zone in zones:
        for name in sorted(_members(zone)):
            services += [name, *await writing.list_linked_services(name)]
    await writing.bump(What.POLICY, services, ChangedObject.SERVICE)


async def _headers(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        return answer([_header(zone) for zone in await _readable(call, reading)])


def _header(zone: Mapping[str, Any]) -> Body:
    return {key: zone.get(key) for key in ("id", "guid", "name", "isEnabled", "version")}


async def _service_headers(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        zone = await _find_zone(call, reading)
        services = [one for one in await reading.all(ObjectKind.SERVICE) if one["name"] in _members(zone)]
    return answer([_service_header(service) for service in services])


def _service_header(service: Mapping[str, Any]) -> Body:
    shown = {key: service.get(key) for key in ("id", "guid", "name", "displayName", "type", "isEnabled")}
    return {**shown, "isTagService": service.get("type") == "tag"}


async def _headers_for_service(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        service = await reading.get(ObjectKind.SERVICE, call.path_id())
        if service is None:
            raise not_found()
        key = "tagServices" if call.flag("isTagService") else "services"
        zones = [zone for zone in await _readable(call, reading) if service["name"] in (zone.get(key) or ())]
    return answer([_header(zone) for zone in zones])


async def _names_for_resource(call: ApiCall) -> web.Response:
    name, resource = call.path("service"), resource_of(call.parameters())
    async with call.store.reading() as reading:
        service = await reading.find_named(ObjectKind.SERVICE, name)
        if service is None:
            raise not_found(f"service `{name}` does not exist")
        definition = ServiceType(await reading.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {})
        administers = call.access.administers_service(call.principal, service)
        zones: Sequence[Body] = await (
            reading.all(ObjectKind.ZONE) if administers else _readable(call, reading)
        )
    unknown = sorted(set(resource) - set(definition.levels()))
    if unknown:
        raise bad_request(f"`{unknown[0]}` is not a resource of service `{name}`")
    return answer(zones_of(name, resource, zones, definition))


async def _find_zone(call: ApiCall, reading: ReadTransaction) -> Body:
    """Return the zone that the path names. Raises RangerError 404, and 403 if the caller may not read it."""
    found = await find_named(call, reading, ObjectKind.ZONE)
    if not call.access.audits_zone(call.principal, found):
        raise forbidden(f"user `{call.user}` may not read zone `{found['name']}`")
    return found


_BY_PLACE = ("name/{name}", "{id}")

ROUTES = (
    Route("GET", f"{PUBLIC}/zones", build_list_handler("zone", _readable)),
    Route("POST", f"{PUBLIC}/zones", _create),
    Route("GET", f"{PUBLIC}/zones/zone-headers/for-service/{{id}}", _headers_for_service),
    Route("GET", f"{PUBLIC}/zone-headers", _headers),
    Route("GET", f"{PUBLIC}/zone-names/{{service}}/resource", _names_for_resource),
    *(
        Route(method, f"{PUBLIC}/zones/{place}", handler)
        for place in _BY_PLACE
        for method, handler in (("GET", _get), ("PUT", _update), ("DELETE", _delete))
    ),
    Route("GET", f"{PUBLIC}/zones/{{id}}/service-headers", _service_headers),
    Route("GET", f"{PUBLIC}/zones-v2", _page_v2),
    Route("POST", f"{PUBLIC}/zones-v2", _create_v2),
    *(
        Route(method, f"{PUBLIC}/zones-v2/{place}{rest}", handler)
        for place in _BY_PLACE
        for method, rest, handler in (
            ("GET", "", _get_v2),
            ("PUT", "", _update_v2),
            ("DELETE", "", _delete),
            ("PUT", "/partial", _change_v2),
            ("GET", "/resources/{service}", _resources_v2),
        )
    ),
    Route("GET", "/zones/zones", build_page_handler("zone", _readable, "securityZones")),
    Route("POST", "/zones/zones", _create),
    *one_object("/zones/zones", _get, _update, _delete, _BY_PLACE),
)


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
        *_member_failures(zone),
        *_service_failures(zone, services, neighbours),
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


def _member_failures(zone: Mapping[str, Any]) -> Iterator[Failure]:
    for lists, what in ((_ADMINS, "administrators"), (_AUDITORS, "auditors")):
        if not any(zone[name] for name in lists):
            yield Failure(3038, f"a zone needs {what}: users, groups or roles", lists[0], type=MISSING)
        for name in lists:
            if any(not member or not member.strip() for member in zone[name]):
                yield Failure(3038, f"`{name}` contains an empty name", name)


def _service_failures(
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
