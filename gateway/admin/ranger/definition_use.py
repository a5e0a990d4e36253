"""Whether what is stored can still be loaded when a service definition changes.

Every gateway of the type would keep what it has, for as long as one stored policy speaks of what is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from gateway.admin.ranger.definitions import completed
from gateway.admin.ranger.downloads import DownloadPart, service_policies
from gateway.admin.ranger.json_fields import Object, show
from gateway.admin.ranger.kinds import Body, ObjectKind
from gateway.admin.ranger.policy_changes import TAG_TYPE
from gateway.admin.ranger.tag_definition import with_components
from gateway.admin.ranger.transactions import WriteTransaction
from gateway.admin.ranger.validation import Failure
from gateway.errors import Faults
from gateway.policy.ranger import load

LEFT_BEHIND = 9013
_Definitions = Mapping[str, Mapping[str, Any]]
_Download = Callable[[_Definitions], Object]
"""Definitions by name → what a gateway would download."""


async def left_behind(writing: WriteTransaction, definition: Body) -> list[Failure]:
    """Return what of policies, tags and zones could be loaded until now, and not with the definition.

    Faults that there are already do not count, so that a definition can be mended.
    """
    before = {str(one["name"]): one for one in await writing.all(ObjectKind.SERVICE_DEF)}
    after = {**before, definition["name"]: definition}
    if TAG_TYPE in after:
        after[TAG_TYPE] = show(completed(with_components(after[TAG_TYPE], after.values())))
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
        tags = await writing.named(ObjectKind.TAGS, service["name"])
        yield lambda known: {**_download(known, service, zones=zones), "serviceTags": tags}
        async for portion in writing.policies(service=service["name"]):
            yield lambda known, those=portion: _download(known, service, those)  # type: ignore[misc]
    tag_service = await writing.named(ObjectKind.SERVICE, service.get("tagService") or "")
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
