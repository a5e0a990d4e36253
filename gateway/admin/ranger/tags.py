"""Tags on the resources of a service, as they are imported and read back."""

from __future__ import annotations

import asyncio

from aiohttp import web

from gateway.admin.ranger.calls import (
    PUBLIC,
    ApiCall,
    Route,
    answer,
    bad_request,
    forbidden,
    no_content,
    not_found,
    refuse,
)
from gateway.admin.ranger.definitions import ServiceType
from gateway.admin.ranger.json_fields import show
from gateway.admin.ranger.kinds import Body, ObjectKind, What
from gateway.admin.ranger.shapes import SERVICE_TAGS
from gateway.admin.ranger.tag_changes import apply_import, tag_failures
from gateway.admin.ranger.transactions import ReadTransaction

MAX_TAGS_BYTES = 64 * 1024**2


async def _get(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        service = await _service(call, reading)
        stored = await reading.find_named(ObjectKind.TAGS, service["name"]) or {}
        version = await reading.version(service["name"], What.TAG)
    return answer(
        {
            "op": "set",
            "serviceName": service["name"],
            "tagVersion": version.number,
            "tagUpdateTime": version.updated_ms,
            **{
                key: stored.get(key)
                for key in ("tagDefinitions", "tags", "serviceResources", "resourceToTagIds")
            },
        }
    )


async def _put(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        await _service(call, reading)  # before anything of the body is looked at
    given = await call.parse_object(SERVICE_TAGS, MAX_TAGS_BYTES, most_values=None)
    given["op"] = given["op"] or "set"
    async with call.store.writing(call.user) as writing:
        service = await _service(call, writing)
        name = service["name"]
        if service["type"] == "tag":
            raise bad_request(
                f"`{name}` is a tag service; tags belong to the service of the tagged resources"
            )
        definition = ServiceType(await writing.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {})
        refuse(await asyncio.to_thread(tag_failures, given, name, definition))
        stored = await writing.find_named(ObjectKind.TAGS, name)
        body = await asyncio.to_thread(_merge_tags, stored, given, name)
        if stored is None:
            await writing.create(ObjectKind.TAGS, body, name=name)
        else:
            await writing.update(ObjectKind.TAGS, stored, body, name=name, check_version=False)
        await writing.bump(What.TAG, [name])
    return no_content()


def _merge_tags(stored: Body | None, given: Body, service: str) -> Body:
    merged: Body = show(apply_import(stored, given, service))
    return merged


async def _service(call: ApiCall, reading: ReadTransaction) -> Body:
    """Return the service of the path. Raises RangerError 404, and 403 for who does not administer it."""
    service = await reading.find_named(ObjectKind.SERVICE, call.path("service"))
    if service is None:
        raise not_found(f"service `{call.path('service')}` does not exist")
    if not call.access.administers_service(call.principal, service):
        raise forbidden(f"user `{call.user}` does not administer service `{service['name']}`")
    return service


ROUTES = (
    Route("GET", f"{PUBLIC}/service/{{service}}/tags", _get),
    Route("PUT", f"{PUBLIC}/service/{{service}}/tags", _put),
)
