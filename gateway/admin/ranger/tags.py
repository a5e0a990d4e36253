"""Tags on the resources of a service, as they are imported and read back."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

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
from gateway.admin.ranger.json_fields import Object, show
from gateway.admin.ranger.kinds import Body, ObjectKind, What
from gateway.admin.ranger.shapes import SERVICE_TAGS
from gateway.admin.ranger.signature import resource_signature
from gateway.admin.ranger.transactions import ReadTransaction
from gateway.admin.ranger.validation import MISSING, Failure
from gateway.admin.ranger.validation_policy import resource_failures, schedule_failures

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


OPERATIONS = ("set", "add_or_update", "delete", "replace")
UNKNOWN_OPERATION, UNKNOWN_TAG, BAD_TAG = 9040, 9041, 9042


def tag_failures(given: Mapping[str, Any], service: str, definition: ServiceType) -> list[Failure]:
    """Return everything that is wrong with an import that was read by `shapes`."""
    return list(_failures(given, service, definition))


def _failures(given: Mapping[str, Any], service: str, definition: ServiceType) -> Iterator[Failure]:
    op = (given.get("op") or "").lower()
    if op not in OPERATIONS:
        yield Failure(UNKNOWN_OPERATION, f"unknown operation `{op}`; known: {', '.join(OPERATIONS)}", "op")
    if given.get("serviceName") not in (None, service):
        yield Failure(UNKNOWN_OPERATION, f"the tags belong to `{given['serviceName']}`", "serviceName")
    for key, tag_def in given["tagDefinitions"].items():
        if not tag_def.get("name") and op != "delete":
            yield Failure(BAD_TAG, "a tag definition needs a name", "tagDefinitions", key, MISSING)
    for key, tag in given["tags"].items():
        if not tag.get("type") and op != "delete":
            yield Failure(BAD_TAG, "a tag needs a type", "tags", key, MISSING)
        yield from schedule_failures(tag["validityPeriods"])
    for i, resource in enumerate(given["serviceResources"]):
        if resource["resourceElements"]:
            yield from resource_failures(resource["resourceElements"], definition)
        elif resource.get("id") is None and not resource.get("guid"):
            yield Failure(BAD_TAG, "a resource needs elements", "serviceResources", str(i), MISSING)
        if op != "delete" and not resource["resourceElements"]:
            yield Failure(BAD_TAG, "a resource needs elements", "serviceResources", str(i), MISSING)
    ids = {str(r["id"]) for r in given["serviceResources"] if r.get("id") is not None}
    for resource_id, tags in given["resourceToTagIds"].items():
        if resource_id not in ids:
            reason = f"resource `{resource_id}`, to be tagged, does not exist"
            yield Failure(UNKNOWN_TAG, reason, "resourceToTagIds", resource_id)
        for tag_id in tags:
            if str(tag_id) not in given["tags"]:
                yield Failure(UNKNOWN_TAG, f"tag `{tag_id}` does not exist", "resourceToTagIds", resource_id)


def apply_import(stored: Mapping[str, Any] | None, given: Mapping[str, Any], service: str) -> Object:
    """Return the service's tags after an import without failures."""
    op = given["op"].lower()
    state = _ServiceTagsState({} if op == "replace" else stored or {}, service)
    if op == "delete":
        state.delete(given)
    else:
        state.put(given)
    return state.body()


class _ServiceTagsState:
    """The tags of a service while an import changes them; a step costs what it touches, not all there is."""

    def __init__(self, stored: Mapping[str, Any], service: str) -> None:
        self.service = service
        self.definitions: dict[str, Object] = {
            d["name"]: dict(d) for d in (stored.get("tagDefinitions") or {}).values()
        }
        self.tags: dict[int, Object] = {int(k): dict(t) for k, t in (stored.get("tags") or {}).items()}
        self.resources: dict[str, Object] = {
            r["resourceSignature"]: dict(r) for r in stored.get("serviceResources") or []
        }
        self.on: dict[int, list[int]] = {
            int(k): list(ids) for k, ids in (stored.get("resourceToTagIds") or {}).items()
        }
        self.uses = Counter(id_ for ids in self.on.values() for id_ in ids)
        self.shared = {_identity(tag): id_ for id_, tag in self.tags.items() if tag.get("owner")}
        self.last_definition = max((d.get("id") or 0 for d in self.definitions.values()), default=0)
        self.last_resource = max((r.get("id") or 0 for r in self.resources.values()), default=0)
        self.last_tag = max(self.tags, default=0)

    def put(self, given: Mapping[str, Any]) -> None:
        for tag_def in given["tagDefinitions"].values():
            self._define(tag_def)
        for tag in given["tags"].values():
            if tag["type"] not in self.definitions:
                self._define({"name": tag["type"], "source": "import"})
        for resource in given["serviceResources"]:
            signature = resource_signature(resource["resourceElements"])
            id_ = self.resources.get(signature, {}).get("id")
            if id_ is None:
                id_ = self.last_resource = self.last_resource + 1
            kept = {**resource, "id": id_, "serviceName": self.service, "resourceSignature": signature}
            self.resources[signature] = kept
            named = (
                given["resourceToTagIds"].get(str(resource["id"])) if resource.get("id") is not None else None
            )
            if named is not None:
                self._take_tags(id_)
                added = [self._add(given["tags"][str(tag_id)]) for tag_id in dict.fromkeys(named)]
                self.on[id_] = list(dict.fromkeys(added))
                self.uses.update(self.on[id_])

    def delete(self, given: Mapping[str, Any]) -> None:
        by_guid = {r["guid"]: key for key, r in self.resources.items() if r.get("guid")}
        by_id = {r["id"]: key for key, r in self.resources.items()}
        for resource in given["serviceResources"]:
            elements = resource["resourceElements"]
            keys = {by_guid.get(resource.get("guid"))}
            keys.add(resource_signature(elements) if elements else by_id.get(resource.get("id")))
            for key in keys:
                held = self.resources.pop(key, None) if key is not None else None
                if held is not None:
                    self._take_tags(held["id"])
        self._delete_tags(given)
        used = {tag["type"] for tag in self.tags.values()}
        for tag_def in given["tagDefinitions"].values():
            if tag_def.get("name") not in used:
                self.definitions.pop(str(tag_def.get("name")), None)

    def _delete_tags(self, given: Mapping[str, Any]) -> None:
        """Drop tags by guid; when the import names no resources, also those that say the same."""
        guids = {tag["guid"] for tag in given["tags"].values() if tag.get("guid")}
        alike = set() if given["serviceResources"] else {_identity(tag) for tag in given["tags"].values()}
        gone = {
            id_
            for id_, tag in self.tags.items()
            if tag.get("guid") in guids or (alike and _identity(tag) in alike)
        }
        for id_ in gone:
            del self.tags[id_]
        if gone:
            self.on = {key: [t for t in ids if t not in gone] for key, ids in self.on.items()}

    def _define(self, tag_def: Mapping[str, Any]) -> None:
        id_ = self.definitions.get(tag_def["name"], {}).get("id")
        if id_ is None:
            id_ = self.last_definition = self.last_definition + 1
        self.definitions[tag_def["name"]] = {**tag_def, "id": id_}

    def _add(self, tag: Mapping[str, Any]) -> int:
        """Return the number of a tag; a shared one (owner 1) that is there already is used again."""
        identity = _identity(tag) if tag.get("owner") else None
        if identity is not None and identity in self.shared:
            return self.shared[identity]
        self.last_tag += 1
        self.tags[self.last_tag] = {**tag, "id": self.last_tag}
        if identity is not None:
            self.shared[identity] = self.last_tag
        return self.last_tag

    def _take_tags(self, resource: int) -> None:
        """Take the tags off a resource; those that were its alone go."""
        for id_ in self.on.pop(resource, []):
            self.uses[id_] -= 1
            if self.uses[id_] <= 0:
                gone = self.tags.pop(id_, None)
                if gone is not None and gone.get("owner"):
                    self.shared.pop(_identity(gone), None)

    def body(self) -> Object:
        return {
            "serviceName": self.service,
            "tagDefinitions": {str(d["id"]): d for d in self.definitions.values()},
            "tags": {str(id_): tag for id_, tag in self.tags.items()},
            "serviceResources": list(self.resources.values()),
            "resourceToTagIds": {str(id_): ids for id_, ids in self.on.items() if ids},
        }


def _identity(tag: Mapping[str, Any]) -> str:
    """Return all that a tag says, as a text; defaults count as absent."""
    told = [tag.get("type"), tag.get("attributes") or {}, show(tag.get("validityPeriods") or [])]
    return json.dumps(told, sort_keys=True)
