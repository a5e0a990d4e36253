"""Services: one system whose policies belong together, and the tag service that it is linked to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web

from gateway.admin.ranger.calls import (
    PUBLIC,
    ApiCall,
    Route,
    answer,
    bad_request,
    find_named,
    no_content,
    one_object,
    parse_object,
    refuse,
)
from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import NEVER, Body, ChangedObject, ObjectKind, What
from gateway.admin.ranger.listing import build_list_handler, build_page_handler, search
from gateway.admin.ranger.policy_changes import TAG_TYPE, create_policy, remove
from gateway.admin.ranger.searching import PAGE_SIZE
from gateway.admin.ranger.shapes import POLICY, SERVICE
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction
from gateway.admin.ranger.validation_service import service_failures

_HIDDEN = "*******"
_SECRET = ("password", "passwd", "secret")
"""Words in the names of settings that hold secrets, in any case."""
_COUNTED = ("policyVersion", "policyUpdateTime", "tagVersion", "tagUpdateTime")
"""Told with a service and kept elsewhere."""


async def _headers(call: ApiCall) -> web.Response:
    kept = ("id", "name", "displayName", "type", "isEnabled", "tagService")
    found = await search(call, "service", _readable)
    return answer([{key: one.get(key) for key in kept} for one in found.items])


async def _readable(call: ApiCall, reading: ReadTransaction) -> list[Body]:
    versions = await reading.versions()
    return [filter_service(call, service, versions) for service in await reading.all(ObjectKind.SERVICE)]


async def _get(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        service = await find_named(call, reading, ObjectKind.SERVICE)
        return answer(filter_service(call, service, await reading.versions()))


async def _create(call: ApiCall) -> web.Response:
    call.require_administrator("create services")
    body = await call.parse_object(SERVICE)
    async with call.store.writing(call.user) as writing:
        made = await create_service(writing, body)
        if call.flag("defaultPolicies"):
            definition = ServiceType(await writing.find_named(ObjectKind.SERVICE_DEF, made["type"]) or {})
            for policy in default_policies(made, definition, call.user):
                await create_policy(writing, call.access, call.principal, parse_object(POLICY, policy))
        return answer(filter_service(call, made, await writing.versions()))


async def create_service(writing: WriteTransaction, body: Body) -> Body:
    """Check and store a service, with a tag service beside it when it names none. Raises RangerError 400."""
    definition = await _definition(writing, body)
    refuse(service_failures(body, definition=definition, others=await writing.all(ObjectKind.SERVICE)))
    if body["type"] != TAG_TYPE and not body.get("tagService"):
        body = {**body, "tagService": await _tag_service(writing, body["name"])}
    made = await writing.create(ObjectKind.SERVICE, strip_passwords(body))
    for what in What:
        await writing.bump(what, [made["name"]])
    return made


async def _tag_service(writing: WriteTransaction, name: str) -> str | None:
    """Return the tag service for a service: `dev_tag` for `dev_hive`, made when it is not there."""
    if await writing.find_named(ObjectKind.SERVICE_DEF, TAG_TYPE) is None:
        return None
    stem = name.rpartition("_")[0] or name
    wanted = f"{stem}_tag"
    found = await writing.find_named(ObjectKind.SERVICE, wanted)
    if found is None:
        body = parse_object(SERVICE, {"name": wanted, "type": TAG_TYPE})
        found = await create_service(writing, body)
    return wanted if found["type"] == TAG_TYPE else None


async def _update(call: ApiCall) -> web.Response:
    # Not for a service's own administrators: its configuration names super users and more administrators.
    call.require_administrator("change services")
    body = await call.parse_object(SERVICE)
    async with call.store.writing(call.user) as writing:
        stored = await find_named(call, writing, ObjectKind.SERVICE)
        if body.get("id") not in (None, stored["id"]):
            raise bad_request("serviceID mismatch: the path and the body name different services")
        body["id"] = stored["id"]
        made = await _replace(writing, stored, body)
        return answer(filter_service(call, made, await writing.versions()))


async def _replace(writing: WriteTransaction, stored: Body, body: Body) -> Body:
    others = [one for one in await writing.all(ObjectKind.SERVICE) if one["id"] != stored["id"]]
    definition = await _definition(writing, body)
    refuse(
        service_failures(body, definition=definition, others=others, stored=stored, updating=True),
    )
    if body["name"] != stored["name"]:
        await _refuse_zoned(writing, stored["name"], "renamed")
        await writing.rename_service(stored["name"], body["name"])
    made = await writing.update(ObjectKind.SERVICE, stored, strip_passwords(body))
    await writing.bump(
        What.POLICY, [made["name"], *await writing.list_linked_services(made["name"])], ChangedObject.SERVICE
    )
    if made.get("tagService") != stored.get("tagService"):
        await writing.bump(What.TAG, [made["name"]])
    return made


async def _delete(call: ApiCall) -> web.Response:
    call.require_administrator("delete services")
    async with call.store.writing(call.user) as writing:
        await remove_service(writing, await find_named(call, writing, ObjectKind.SERVICE))
    return no_content()


async def remove_service(writing: WriteTransaction, service: Body) -> None:
    """Delete a service with its policies and tags. Raises RangerError 400 while a zone names it."""
    name = service["name"]
    await _refuse_zoned(writing, name, "deleted")
    for policy in await writing.all(ObjectKind.POLICY, service=name):
        await remove(writing, service, policy)
    for linked in await writing.list_linked_services(name):
        other = await writing.find_named(ObjectKind.SERVICE, linked)
        if other is not None:
            without = {key: value for key, value in other.items() if key != "tagService"}
            await writing.update(ObjectKind.SERVICE, other, without, check_version=False)
            await writing.bump(What.POLICY, [linked], ChangedObject.SERVICE)
    tags = await writing.find_named(ObjectKind.TAGS, name)
    if tags is not None:
        await writing.delete(ObjectKind.TAGS, tags, name=name)
    await writing.delete(ObjectKind.SERVICE, service)
    await writing.forget_service(name)


async def _refuse_zoned(reading: ReadTransaction, service: str, what: str) -> None:
    for zone in await reading.all(ObjectKind.ZONE):
        if service in (zone.get("services") or {}) or service in (zone.get("tagServices") or ()):
            raise bad_request(f"service `{service}` cannot be {what}: it belongs to zone `{zone['name']}`")


async def _definition(reading: ReadTransaction, body: Mapping[str, Any]) -> ServiceType | None:
    type_ = body.get("type")
    found = await reading.find_named(ObjectKind.SERVICE_DEF, type_) if type_ else None
    return None if found is None else ServiceType(found)


def strip_passwords(body: Mapping[str, Any]) -> Body:
    """Return a service as it is stored: without passwords, which nothing here needs."""
    shown = show({key: value for key, value in body.items() if key not in _COUNTED})
    shown["isEnabled"] = body.get("isEnabled", True)
    shown.setdefault("displayName", shown["name"])
    configs = {
        key: _HIDDEN if text and any(word in key.lower() for word in _SECRET) else text
        for key, text in (shown.get("configs") or {}).items()
    }
    return {**shown, "configs": configs}


def filter_service(call: ApiCall, service: Body, versions: Mapping[tuple[str, What], Any]) -> Body:
    """Return a service as the caller may see it: configuration is for those who administer it."""
    policy, tag = (versions.get((service["name"], what), NEVER) for what in (What.POLICY, What.TAG))
    counted = (policy.number, policy.updated_ms, tag.number, tag.updated_ms)
    shown = {**service, **dict(zip(_COUNTED, counted, strict=True))}
    if not call.access.administers_service(call.principal, service):
        shown.pop("configs", None)
    return shown


ROUTES = (
    Route("GET", f"{PUBLIC}/service", build_list_handler("service", _readable, size=PAGE_SIZE)),
    Route("POST", f"{PUBLIC}/service", _create),
    Route("GET", f"{PUBLIC}/service-headers", _headers),
    *one_object(f"{PUBLIC}/service", _get, _update, _delete),
    Route("GET", "/plugins/services", build_page_handler("service", _readable, "services")),
    Route("POST", "/plugins/services", _create),
    Route("GET", "/plugins/services/name/{name}", _get),
    *one_object("/plugins/services", _get, _update, _delete, ["{id}"]),
)


# The policies that Ranger makes with a service: everything on everything, for the service's own user.


def default_policies(service: Mapping[str, Any], definition: ServiceType, creator: str) -> Iterator[Body]:
    """Yield one policy `all - database, table, column` for each complete hierarchy of the definition."""
    user = (service.get("configs") or {}).get("username") or creator
    ways = definition.hierarchies()
    accesses = [entry["name"] for entry in definition.body.get("accessTypes") or () if entry.get("name")]
    for way in ways:
        if any(other != way and other[: len(way)] == way for other in ways):
            continue
        yield {
            "service": service["name"],
            "name": f"all - {', '.join(way)}",
            "description": f"Policy for all - {', '.join(way)}",
            "resources": {
                name: {"values": ["*"], "isRecursive": definition.levels()[name].recursive_supported}
                for name in way
            },
            "policyItems": [
                {"users": [user], "accesses": [{"type": name} for name in accesses], "delegateAdmin": True}
            ],
        }
