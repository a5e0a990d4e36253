"""Service definitions: what policies of a type of service can speak of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
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
from gateway.admin.ranger.definitions import complete_definition
from gateway.admin.ranger.downloads import DownloadPart, service_policies
from gateway.admin.ranger.json_fields import Object, show
from gateway.admin.ranger.kinds import GATEWAY, Body, ChangedObject, ObjectKind, What
from gateway.admin.ranger.listing import build_list_handler, build_page_handler
from gateway.admin.ranger.policy_changes import TAG_TYPE
from gateway.admin.ranger.searching import PAGE_SIZE
from gateway.admin.ranger.services import remove_service
from gateway.admin.ranger.shapes import SERVICE_DEF
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction
from gateway.admin.ranger.validation import Failure
from gateway.admin.ranger.validation_service import service_def_failures
from gateway.errors import Faults
from gateway.policy.ranger import load

_STAMPS = frozenset({"id", "guid", "isEnabled", "version"})


async def _readable(call: ApiCall, reading: ReadTransaction) -> list[Body]:
    return await reading.all(ObjectKind.SERVICE_DEF)


async def _get(call: ApiCall) -> web.Response:
    async with call.store.reading() as reading:
        return answer(await find_named(call, reading, ObjectKind.SERVICE_DEF))


async def _create(call: ApiCall) -> web.Response:
    call.require_administrator("create service definitions")
    body = await call.parse_object(SERVICE_DEF)
    async with call.store.writing(call.user) as writing:
        refuse(service_def_failures(body, others=await writing.all(ObjectKind.SERVICE_DEF)))
        made = await writing.create(ObjectKind.SERVICE_DEF, show(complete_definition(body)))
        return answer(await refresh_tags(writing, made))


async def _update(call: ApiCall) -> web.Response:
    call.require_administrator("change service definitions")
    body = await call.parse_object(SERVICE_DEF)
    async with call.store.writing(call.user) as writing:
        stored = await find_named(call, writing, ObjectKind.SERVICE_DEF)
        if body.get("id") not in (None, stored["id"]):
            raise bad_request(
                "serviceDefID mismatch: the path and the body name different service definitions"
            )
        body["id"] = stored["id"]
        others = [one for one in await writing.all(ObjectKind.SERVICE_DEF) if one["id"] != stored["id"]]
        refuse(service_def_failures(body, others=others, stored=stored, updating=True))
        shown = show(complete_definition(body))
        refuse(await list_left_behind(writing, shown))
        made = await writing.update(ObjectKind.SERVICE_DEF, stored, shown)
        await _note(writing, made)
        return answer(await refresh_tags(writing, made))


async def _delete(call: ApiCall) -> web.Response:
    call.require_administrator("delete service definitions")
    async with call.store.writing(call.user) as writing:
        stored = await find_named(call, writing, ObjectKind.SERVICE_DEF)
        services = [s for s in await writing.all(ObjectKind.SERVICE) if s["type"] == stored["name"]]
        if services and not call.flag("forceDelete"):
            names = ", ".join(f"`{service['name']}`" for service in services)
            raise bad_request(f"service definition `{stored['name']}` is used by {names}")
        for service in services:
            await remove_service(writing, service)
        await writing.delete(ObjectKind.SERVICE_DEF, stored)
        await refresh_tags(writing, stored)
    return no_content()


async def ship(writing: WriteTransaction, definitions: Iterable[Mapping[str, Any]]) -> None:
    """Put in the definitions that come with the gateway, and newer ones of them that nobody has changed."""
    for definition in definitions:
        body = show(complete_definition(parse_object(SERVICE_DEF, definition)))
        stored = await writing.find_named(ObjectKind.SERVICE_DEF, body["name"])
        if stored is None:
            await writing.create(ObjectKind.SERVICE_DEF, body)
        elif body["name"] != TAG_TYPE and stored["updatedBy"] == GATEWAY and _differs(stored, body):
            await _note(writing, await writing.update(ObjectKind.SERVICE_DEF, stored, body))
    tag = await writing.find_named(ObjectKind.SERVICE_DEF, TAG_TYPE)
    if tag is not None:
        await refresh_tags(writing, tag)


def _differs(stored: Body, body: Body) -> bool:
    return any(stored.get(key) != value for key, value in body.items() if key not in _STAMPS)


async def refresh_tags(writing: WriteTransaction, changed: Body) -> Body:
    """Let the tag definition follow a change of another one; return what was changed, as it is now."""
    tag = await writing.find_named(ObjectKind.SERVICE_DEF, TAG_TYPE)
    if tag is None:
        return changed
    now = show(complete_definition(with_components(tag, await writing.all(ObjectKind.SERVICE_DEF))))
    if now == tag:
        return changed
    made = await writing.update(ObjectKind.SERVICE_DEF, tag, now, check_version=False)
    await _note(writing, made)
    return made if changed["id"] == made["id"] else changed


async def _note(writing: WriteTransaction, definition: Body) -> None:
    for service in await writing.all(ObjectKind.SERVICE):
        if service["type"] == definition["name"]:
            names = [service["name"], *await writing.list_linked_services(service["name"])]
            await writing.bump(What.POLICY, names, ChangedObject.SERVICE_DEF)


ROUTES = (
    Route("GET", f"{PUBLIC}/servicedef", build_list_handler("service-def", _readable, size=PAGE_SIZE)),
    Route("POST", f"{PUBLIC}/servicedef", _create),
    *one_object(f"{PUBLIC}/servicedef", _get, _update, _delete),
    Route("GET", "/plugins/definitions", build_page_handler("service-def", _readable, "serviceDefs")),
    Route("POST", "/plugins/definitions", _create),
    Route("GET", "/plugins/definitions/name/{name}", _get),
    *one_object("/plugins/definitions", _get, _update, _delete, ["{id}"]),
)


# -- Whether what is stored can still be loaded when a service definition changes ----------------------
# Every gateway of the type would keep what it has, for as long as one stored policy speaks of what is gone.


LEFT_BEHIND = 9013
_Definitions = Mapping[str, Mapping[str, Any]]
_Download = Callable[[_Definitions], Object]
"""Definitions by name → what a gateway would download."""


async def list_left_behind(writing: WriteTransaction, definition: Body) -> list[Failure]:
    """Return the policies, tags and zones that load now and would not under the new definition.

    Faults that there are already do not count, so that a definition can be mended.
    """
    before = {str(one["name"]): one for one in await writing.all(ObjectKind.SERVICE_DEF)}
    after = {**before, definition["name"]: definition}
    if TAG_TYPE in after:
        after[TAG_TYPE] = show(complete_definition(with_components(after[TAG_TYPE], after.values())))
    found: list[Failure] = []
    for service in await writing.all(ObjectKind.SERVICE):
        if service["type"] == TAG_TYPE or definition["name"] not in (service["type"], TAG_TYPE):
            continue
        async for download in _downloads(writing, service, own=definition["name"] != TAG_TYPE):
            new = await asyncio.to_thread(_new_faults, download, service["name"], before, after)
            found += [Failure(LEFT_BEHIND, fault, "serviceDef") for fault in new]
    return found


async def _downloads(writing: WriteTransaction, service: Body, *, own: bool) -> AsyncIterator[_Download]:
    """Yield what gateways download of a service in portions; without `own` only policies on tags.

    What is switched off is looked at as well: nobody checks it when it is switched on again.
    """
    service = {**service, "isEnabled": True}
    if own:
        zones = await writing.all(ObjectKind.ZONE)
        tags = await writing.find_named(ObjectKind.TAGS, service["name"])
        yield lambda known: {**_download(known, service, zones=zones), "serviceTags": tags}
        async for portion in writing.policies(service=service["name"]):
            yield lambda known, those=portion: _download(known, service, those)  # type: ignore[misc]
    tag_service = await writing.find_named(ObjectKind.SERVICE, service.get("tagService") or "")
    if tag_service is not None:
        async for portion in writing.policies(service=tag_service["name"]):
            yield lambda known, those=portion: _download(  # type: ignore[misc]
                known, service, on_tags=(tag_service, those)
            )


def _download(
    definitions: _Definitions,
    service: Body,
    policies: Sequence[Body] = (),
    *,
    zones: Sequence[Body] = (),
    on_tags: tuple[Body, Sequence[Body]] | None = None,
) -> Object:
    tags = None
    if on_tags is not None:
        tag_service = {**on_tags[0], "isEnabled": True}
        tags = DownloadPart(service=tag_service, definition=definitions[TAG_TYPE], policies=on_tags[1])
    # Where policies stand makes no difference to whether they can be loaded, so zones need not hold theirs.
    unzoned = [{**policy, "zoneName": ""} for policy in policies]
    part = DownloadPart(service=service, definition=definitions[service["type"]], policies=unzoned)
    return service_policies(part, tags, zones)


def _new_faults(download: _Download, name: str, before: _Definitions, after: _Definitions) -> list[str]:
    faults = _faults(download(after), name)
    known = set(_faults(download(before), name)) if faults else set[str]()
    return [fault for fault in faults if fault not in known]


def _faults(document: Object, name: str) -> Sequence[str]:
    try:
        load(document, file=name, strict=True)
    except Faults as error:
        return error.faults
    return ()


_APART = 1000
"""Numbers of one definition's entries stay below this, so that every entry here has a number of its own."""


def with_components(tag: Mapping[str, Any], definitions: Iterable[Mapping[str, Any]]) -> Body:
    """Return the tag definition with what the others have, and nothing of those that are gone."""
    others = [one for one in definitions if one["name"] != tag["name"]]
    levels = [{"name": level["name"], "matcherOptions": {}} for level in tag.get("resources") or ()]
    masks = [
        entry for one in others for entry in _prefix_names(one, (one.get("dataMaskDef") or {}), "maskTypes")
    ]
    found = {
        **tag,
        "accessTypes": [entry for one in others for entry in _prefix_names(one, one, "accessTypes")],
        "dataMaskDef": {"maskTypes": masks, **_part(others, "dataMaskDef", levels)},
        "rowFilterDef": _part(others, "rowFilterDef", levels),
    }
    for part in ("dataMaskDef", "rowFilterDef"):
        if not found[part]["accessTypes"]:
            del found[part]
    return found


def _part(others: Iterable[Mapping[str, Any]], name: str, levels: list[Body]) -> Body:
    accesses = [entry for one in others for entry in _prefix_names(one, (one.get(name) or {}), "accessTypes")]
    return {"accessTypes": accesses, "resources": levels}


def _prefix_names(
    definition: Mapping[str, Any], part: Mapping[str, Any], entries: str
) -> Iterator[Mapping[str, Any]]:
    prefix, first = definition["name"], (definition.get("id") or 0) * _APART
    for number, entry in enumerate(part.get(entries) or (), start=1):
        made = {
            **entry,
            "itemId": first + (entry.get("itemId") or number),
            "name": f"{prefix}:{entry['name']}",
        }
        if entry.get("impliedGrants"):
            made["impliedGrants"] = [f"{prefix}:{grant}" for grant in entry["impliedGrants"]]
        yield made
