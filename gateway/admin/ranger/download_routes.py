"""What plugins poll: 200 with everything or what is new, 304 when nothing is, 404 without the service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from gateway.admin.ranger.calls import ApiCall, Route, answer, bad_request, forbidden
from gateway.admin.ranger.downloads import (
    DownloadPart,
    Extent,
    extent,
    policy_deltas,
    ranger_roles,
    service_policies,
    service_tags,
    user_store,
)
from gateway.admin.ranger.kinds import Body, ObjectKind, Version, What
from gateway.admin.ranger.sending import send
from gateway.admin.ranger.transactions import ReadTransaction
from gateway.policy.json_writing import Texts

LONGEST_PLUGIN_ID = 255
_KEYS = {
    What.POLICY: ("lastKnownVersion", "policy", "policy.download.auth.users"),
    What.TAG: ("lastKnownVersion", "tag", "tag.download.auth.users"),
    What.ROLE: ("lastKnownRoleVersion", "role", "policy.download.auth.users"),
    What.USER_STORE: ("lastKnownUserStoreVersion", "userstore", "userstore.download.auth.users"),
}
"""What is downloaded → parameter with the version that the plugin has, prefix of what is noted of the
plugin, and the service's configuration that names who else may download it."""

Assemble = Callable[[ApiCall, ReadTransaction, Body, Version, int], Awaitable[Body]]


def _download(what: What, assemble: Assemble) -> Callable[[ApiCall], Awaitable[web.StreamResponse]]:
    """Return the handler for one kind of download."""
    parameter, prefix, config = _KEYS[what]

    async def handle(call: ApiCall) -> web.StreamResponse:
        name = call.path("service")
        known = call.number(parameter, -1)
        plugin = call.parameter("pluginId")
        if len(plugin) > LONGEST_PLUGIN_ID:
            raise bad_request(f"`pluginId` has more than {LONGEST_PLUGIN_ID} characters")
        async with call.store.reading() as reading:
            service = await reading.find_named(ObjectKind.SERVICE, name)
            if service is None or not call.access.may_download(call.principal, service, config):
                if service is None and call.access.is_plugin(call.principal):
                    return _no_service(name)
                raise forbidden(f"user `{call.user}` may not download for service `{name}`")
            version = await reading.version(name, what)
            new = extent(known, version.number, deltas=False) is not Extent.NOTHING
            document = await assemble(call, reading, service, version, known) if new else None
        if plugin:
            noted = _note_download(call, prefix, known, version, downloaded=new)
            await call.store.saw_plugin(name, plugin, call.request.remote or "", noted)
        if document is None:
            return web.Response(status=304)
        return await send(call.request, document)

    return handle


def _note_download(
    call: ApiCall, prefix: str, known: int, version: Version, *, downloaded: bool
) -> dict[str, Any]:
    noted: dict[str, Any] = {
        f"{prefix}ActiveVersion": str(known),
        f"{prefix}ActivationTime": call.parameter("lastActivationTime", "0"),
    }
    if downloaded:
        noted[f"{prefix}DownloadedVersion"] = str(version.number)
    for key in ("clusterName", "pluginCapabilities"):
        if call.parameter(key):
            noted[key] = call.parameter(key)
    return noted


def _no_service(name: str) -> web.Response:
    # Plugins take the service for deleted only when the body begins with exactly this.
    return answer(f"RANGER_ERROR_SERVICE_NOT_FOUND: ServiceName={name}", 404)


async def _policies(
    call: ApiCall, reading: ReadTransaction, service: Body, version: Version, known: int
) -> Body:
    zones = await reading.all(ObjectKind.ZONE)
    if call.flag("supportsPolicyDeltas"):
        changes = await reading.changes(service["name"], known)
        if extent(known, version.number, deltas=True, changes=changes) is Extent.DELTA:
            part = DownloadPart(
                service=service, definition=await _definition(reading, service), version=version
            )
            return policy_deltas(part, changes, zones, tag_service=service.get("tagService") or "")
    part = DownloadPart(service=service, definition=await _definition(reading, service), version=version)
    tags, of_tags = None, None
    if service.get("tagService"):
        of_tags = await reading.find_named(ObjectKind.SERVICE, service["tagService"])
    if of_tags is not None:
        tags = DownloadPart(
            service=of_tags,
            definition=await _definition(reading, of_tags),
            version=await reading.version(of_tags["name"], What.POLICY),
        )
    document = service_policies(part, tags, zones)
    # Policies go from the database to the plugin as the text that they are: 100,000 of them are 50 MB.
    if "policies" in document:
        texts = await reading.policy_texts(service["name"])
        document["policies"] = Texts(texts.get("", ()))
        for zone, entry in document.get("securityZones", {}).items():
            entry["policies"] = Texts(texts.get(zone, ()))
    if "tagPolicies" in document and tags is not None:
        texts = await reading.policy_texts(tags.service["name"])
        document["tagPolicies"]["policies"] = Texts(text for those in texts.values() for text in those)
    return document


async def _definition(reading: ReadTransaction, service: Body) -> Body:
    return await reading.find_named(ObjectKind.SERVICE_DEF, service["type"]) or {}


async def _tags(
    _call: ApiCall, reading: ReadTransaction, service: Body, version: Version, _known: int
) -> Body:
    stored = await reading.find_named(ObjectKind.TAGS, service["name"])
    return service_tags(stored, service=service["name"], version=version)


async def _roles(
    _call: ApiCall, reading: ReadTransaction, service: Body, version: Version, _known: int
) -> Body:
    return ranger_roles(await reading.all(ObjectKind.ROLE), service=service["name"], version=version)


async def _users(
    _call: ApiCall, reading: ReadTransaction, _service: Body, version: Version, _known: int
) -> Body:
    return user_store(
        await reading.all(ObjectKind.USER),
        await reading.all(ObjectKind.GROUP),
        await reading.all(ObjectKind.GROUP_USER),
        version=version,
    )


ROUTES = tuple(
    Route("GET", path + "/{service}", _download(what, assemble))
    for what, assemble, paths in (
        (What.POLICY, _policies, ("/plugins/policies/download", "/plugins/secure/policies/download")),
        (What.TAG, _tags, ("/tags/download", "/tags/secure/download")),
        (What.ROLE, _roles, ("/roles/download", "/roles/secure/download")),
        (What.USER_STORE, _users, ("/xusers/download", "/xusers/secure/download")),
    )
    for path in paths
)
