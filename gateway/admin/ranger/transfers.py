"""Policies and roles as files: out as Ranger writes them, in whole or not at all."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import BodyPartReader, ClientPayloadError, web
from aiohttp.http_exceptions import HttpProcessingError

import gateway
from gateway.admin.ranger.access import Access
from gateway.admin.ranger.calls import (
    ApiCall,
    Invalid,
    RangerError,
    Route,
    bad_request,
    no_content,
    parse,
    refuse,
    with_unchecked,
)
from gateway.admin.ranger.json_fields import Object, read
from gateway.admin.ranger.kinds import Body, ObjectKind
from gateway.admin.ranger.policy_changes import delete_policy, offer_policy, read_existing_policy_options
from gateway.admin.ranger.policy_search import search_policies
from gateway.admin.ranger.roles import create_role, replace_role
from gateway.admin.ranger.searching import MAX_PAGE, find
from gateway.admin.ranger.sending import send
from gateway.admin.ranger.shapes import POLICY, ROLE
from gateway.admin.ranger.transactions import WriteTransaction
from gateway.admin.ranger.validation import Failure, unreadable

MAX_FILE_BYTES = 64 * 1024**2
"""Maximum import size. A request has two minutes, for some 50,000 new policies, or 14,000 overwritten."""
_MAX_FILE_VALUES = 10_000_000
_MAPS = ("servicesMapJson", "zoneMapJson")
_MAX_MAP_BYTES = 1024**2


async def _export_policies(call: ApiCall) -> web.StreamResponse:
    parameters = {"pageSize": str(MAX_PAGE), **call.parameters()}
    found = (await search_policies(call, parameters)).items
    types = [t.strip() for t in parameters.get("serviceType", "").split(",") if t.strip()]
    if types:
        found = [policy for policy in found if policy.get("serviceType") in types]
    return await _file(call, found, "policies")


async def _export_roles(call: ApiCall) -> web.StreamResponse:
    call.require_administrator("export roles")
    async with call.store.reading() as reading:
        roles = await reading.all(ObjectKind.ROLE)
    return await _file(
        call, find("role", roles, {"pageSize": str(MAX_PAGE), **call.parameters()}).items, "roles"
    )


async def _file(call: ApiCall, found: Sequence[Mapping[str, Any]], name: str) -> web.StreamResponse:
    if not found:
        return no_content()
    now = dt.datetime.now(dt.UTC)
    document = build_export(
        found,
        name=name,
        host=call.request.url.host or "",
        user=call.user,
        now=now,
        version=gateway.__version__,
    )
    attachment = f'attachment; filename="{file_name(name.capitalize(), now)}"'
    return await send(call.request, document, {"Content-Disposition": attachment})


async def _import_policies(call: ApiCall) -> web.Response:
    files = await _files(call)
    policies, failures = await asyncio.to_thread(policies_of, files.get("file"))
    services, wrong = read_mapping(files.get("servicesMapJson"), "servicesMapJson")
    zones, also_wrong = read_mapping(files.get("zoneMapJson"), "zoneMapJson")
    refuse([*failures, *wrong, *also_wrong])
    mapped = Mapped(services=services, zones=zones)

    async def put(writing: WriteTransaction, access: Access) -> None:
        taken = await _select_policies(call, writing, place_policies(policies, mapped))
        if not taken:
            raise bad_request(
                "nothing was imported: none of the policies in the file is for a service that exists here"
            )
        if call.flag("isOverride"):
            await _make_room(call, writing, taken)
        await _put(call, writing, access, taken)

    await call.change(put)
    return with_unchecked(call, no_content())


async def _select_policies(call: ApiCall, writing: WriteTransaction, policies: Sequence[Body]) -> list[Body]:
    """Return the policies that the request asks for: of some types of services, with some resource."""
    types = [t.strip() for t in call.parameter("serviceType").split(",") if t.strip()]
    known = {one["name"]: one["type"] for one in await writing.all(ObjectKind.SERVICE)}
    taken = select_service_types(policies, service_types=known, wanted=types)
    resource = call.parameter("polResource").lower()
    if resource:
        taken = [policy for policy in taken if _has_value(policy, resource)]
    return taken


def _has_value(policy: Body, text: str) -> bool:
    return any(
        text in str(value).lower() for one in policy["resources"].values() for value in (one or {})["values"]
    )


async def _make_room(call: ApiCall, writing: WriteTransaction, policies: Sequence[Body]) -> None:
    """Delete what the services have in the zones that the import fills."""
    places = {(policy["service"], policy["zoneName"]) for policy in policies}
    for service, zone in sorted(places):
        for stored in await writing.all(ObjectKind.POLICY, service=service, zone=zone):
            await delete_policy(writing, call.access, call.principal, stored)


async def _put(call: ApiCall, writing: WriteTransaction, access: Access, policies: Sequence[Body]) -> None:
    """Store the policies. Raises RangerError that tells what is wrong with every one of them."""
    failures: list[Failure] = []
    for i, policy in enumerate(policies):
        try:
            await offer_policy(writing, access, call.principal, policy, **read_existing_policy_options(call))
        except Invalid as error:
            failures += add_places(error.failures, i, policy.get("name"))
        if i % 50 == 0:
            await asyncio.sleep(0)
    refuse(failures)


async def _import_roles(call: ApiCall) -> web.Response:
    call.require_administrator("import roles")
    files = await _files(call)
    roles, failures = roles_of(files.get("file"))
    refuse(failures)
    if not roles:
        raise bad_request("the file has no roles")
    async with call.store.writing(call.user) as writing:
        for role in _inner_first(roles):
            fresh = {**role, "id": None, "guid": None, "version": None}
            stored = await writing.find_named(ObjectKind.ROLE, role.get("name") or "")
            if stored is None:
                await create_role(writing, fresh)
            elif call.flag("updateIfExists"):
                await replace_role(writing, stored, fresh, check_version=False)
            else:
                raise bad_request(
                    f"role `{stored['name']}` already exists; `updateIfExists=true` overwrites it"
                )
    return no_content()


def _inner_first(roles: Sequence[Body]) -> list[Body]:
    """Return roles such that those which others contain come before them; of a circle in any order."""
    left = {str(role.get("name")): role for role in roles}
    ordered: list[Body] = []
    while left:
        ready = [n for n, role in left.items() if not any(m.get("name") in left for m in role["roles"])]
        ordered += [left.pop(name) for name in ready or list(left)]
    return ordered


async def _files(call: ApiCall) -> dict[str, Any]:
    """Return the documents of a multipart body by field. Raises RangerError 400 or 413."""
    if not call.request.content_type.startswith("multipart/"):
        raise bad_request("an import must be a multipart form with a field `file`")
    found: dict[str, Any] = {}
    try:
        reader = await call.request.multipart()
        while (part := await reader.next()) is not None:
            if not isinstance(part, BodyPartReader) or part.name is None:
                raise bad_request("a part of the form has no name")
            if part.name in found:
                raise bad_request(f"the form has `{part.name}` twice")
            if part.name in ("file", *_MAPS):
                limit = MAX_FILE_BYTES if part.name == "file" else _MAX_MAP_BYTES
                found[part.name] = await asyncio.to_thread(parse, await _bytes(part, limit), _MAX_FILE_VALUES)
    except (ValueError, AssertionError, HttpProcessingError, ClientPayloadError):
        raise bad_request("the multipart body cannot be parsed") from None
    if "file" not in found:
        raise bad_request("the form has no field `file`")
    return found


async def _bytes(part: BodyPartReader, limit: int) -> bytes:
    if part.headers.get("Content-Encoding") or part.headers.get(
        "Content-Transfer-Encoding", "binary"
    ) not in (
        "7bit",
        "8bit",
        "binary",
    ):
        raise bad_request(f"`{part.name}` is encoded; send it unencoded")
    chunks, size = [], 0
    while chunk := await part.read_chunk(256 * 1024):
        size += len(chunk)
        if size > limit:
            raise RangerError(413, f"`{part.name}` has more than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


ROUTES = (
    Route("GET", "/plugins/policies/exportJson", _export_policies),
    Route("POST", "/plugins/policies/importPoliciesFromFile", _import_policies),
    Route("GET", "/roles/roles/exportJson", _export_roles),
    Route("POST", "/roles/roles/importRolesFromFile", _import_roles),
)


# -- Exports of policies and roles as files, and what an import of such a file means here --------------


MAX_POLICIES = 200_000
WRONG_FILE, WRONG_MAP = 9050, 9051


def file_name(what: str, now: dt.datetime) -> str:
    """Return the attachment's name: `Ranger_Policies_20260131_100000.json`."""
    return f"Ranger_{what}_{now:%Y%m%d_%H%M%S}.json"


def build_export(
    items: Sequence[Mapping[str, Any]], *, name: str, host: str, user: str, now: dt.datetime, version: str
) -> Object:
    """Return the content of an export; `name` is `policies` or `roles`."""
    return {
        "metaDataInfo": {
            "Host name": host,
            "Exported by": user,
            "Export time": f"{now:%b %d, %Y, %I:%M:%S %p}",
            "Sluice version": version,
        },
        name: [dict(item) for item in items],
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Where policies of an import go: service → service and zone → zone; empty: as the file says."""

    services: Mapping[str, str]
    zones: Mapping[str, str]

    @property
    def elsewhere(self) -> bool:
        """Whether the import names where things go, so that only what is named goes anywhere."""
        return bool(self.services)


def read_mapping(document: object, what: str) -> tuple[dict[str, str], list[Failure]]:
    """Return a `servicesMapJson` or `zoneMapJson` file's content, and what is wrong with it."""
    if document is None:
        return {}, []
    if not isinstance(document, Mapping) or not all(
        isinstance(k, str) and isinstance(v, str) and (v or what == "zoneMapJson")
        for k, v in document.items()
    ):
        return {}, [Failure(WRONG_MAP, f"`{what}` must map names to names", what)]
    return dict(document), []


def policies_of(document: object) -> tuple[list[Object], list[Failure]]:
    """Return the policies of an export with defaults filled in, and every fault of its types."""
    return _items(document, "policies", POLICY)


def roles_of(document: object) -> tuple[list[Object], list[Failure]]:
    """Return the roles of an export with defaults filled in, and every fault of its types."""
    return _items(document, "roles", ROLE)


def _items(document: object, name: str, shape: Any) -> tuple[list[Object], list[Failure]]:
    listed = document.get(name) if isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        return [], [Failure(WRONG_FILE, f"the file has no list of {name}", name)]
    if len(listed) > MAX_POLICIES:
        return [], [Failure(WRONG_FILE, f"the file has more than {MAX_POLICIES} {name}", name)]
    items: list[Object] = []
    faults: list[str] = []
    for i, one in enumerate(listed):
        item, found = read(shape, one)
        items.append(item)
        label = one.get("name") if isinstance(one, Mapping) else None
        faults += [f"{name}[{i}]{f' (`{label}`)' if label else ''}: {fault}" for fault in found]
    return items, unreadable(faults)


def place_policies(policies: Iterable[Mapping[str, Any]], mapped: Mapped) -> list[Object]:
    """Return the policies where they go, without ids and what else belongs to where they come from.

    With a map of services, policies of services that it does not name stay out.
    """
    found = []
    for policy in policies:
        service, zone = policy.get("service") or "", policy.get("zoneName") or ""
        if mapped.elsewhere and service not in mapped.services:
            continue
        found.append(
            {
                **policy,
                "id": None,
                "guid": None,
                "version": None,
                "serviceType": None,
                "service": mapped.services.get(service, service),
                "zoneName": mapped.zones.get(zone, zone),
            }
        )
    return found


def select_service_types(
    policies: Iterable[Mapping[str, Any]], *, service_types: Mapping[str, str], wanted: Sequence[str]
) -> list[Object]:
    """Return the policies whose service is of a wanted type; no wanted types: all."""
    return [
        dict(policy)
        for policy in policies
        if not wanted or service_types.get(policy.get("service") or "") in wanted
    ]


def add_places(failures: Iterable[Failure], index: int, name: str | None) -> list[Failure]:
    """Return the failures of one policy of a file with their place in it."""
    where = f"policies[{index}]" + (f" (`{name}`)" if name else "")
    return [Failure(f.code, f"{where}: {f.reason}", f.field, f.subfield, f.type) for f in failures]
