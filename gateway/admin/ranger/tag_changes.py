"""Tags of a service as they are stored, after an import: `set`, `replace` or `delete`.

Stored is one ServiceTags with numbers of our own: an import's ids only join the parts of the import. A tag
definition is known by its name, a resource by its signature, a tag by its guid or by all that it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.admin.ranger.definitions import Definition
from gateway.admin.ranger.json_fields import Object
from gateway.admin.ranger.signature import resource_signature
from gateway.admin.ranger.validation import MISSING, Failure
from gateway.admin.ranger.validation_policy import resource_failures
from gateway.admin.ranger.validation_texts import schedule_failures

OPERATIONS = ("set", "add_or_update", "delete", "replace")
UNKNOWN_OPERATION, UNKNOWN_TAG, BAD_TAG = 9040, 9041, 9042


def tag_failures(given: Mapping[str, Any], service: str, definition: Definition) -> list[Failure]:
    """Return everything that is wrong with an import that was read by `shapes`."""
    return list(_failures(given, service, definition))


def _failures(given: Mapping[str, Any], service: str, definition: Definition) -> Iterator[Failure]:
    op = (given.get("op") or "").lower()
    if op not in OPERATIONS:
        yield Failure(UNKNOWN_OPERATION, f"`{op}` is no operation; known: {', '.join(OPERATIONS)}", "op")
    if given.get("serviceName") not in (None, service):
        yield Failure(UNKNOWN_OPERATION, f"the tags are of `{given['serviceName']}`", "serviceName")
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
            reason = f"there is no resource `{resource_id}` to put tags on"
            yield Failure(UNKNOWN_TAG, reason, "resourceToTagIds", resource_id)
        for tag_id in tags:
            if str(tag_id) not in given["tags"]:
                yield Failure(UNKNOWN_TAG, f"there is no tag `{tag_id}`", "resourceToTagIds", resource_id)


def imported(stored: Mapping[str, Any] | None, given: Mapping[str, Any], service: str) -> Object:
    """Return the service's tags after an import without failures."""
    op = given["op"].lower()
    state = _State({} if op == "replace" else stored or {}, service)
    if op == "delete":
        state.delete(given)
    else:
        state.put(given)
    return state.body()


class _State:
    """The tags of a service while an import changes them."""

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

    def put(self, given: Mapping[str, Any]) -> None:
        for tag_def in given["tagDefinitions"].values():
            old = self.definitions.get(tag_def["name"], {})
            self.definitions[tag_def["name"]] = {
                **tag_def,
                "id": old.get("id") or self._next(self.definitions),
            }
        for tag in given["tags"].values():
            if tag["type"] not in self.definitions:
                made = {"name": tag["type"], "source": "import", "id": self._next(self.definitions)}
                self.definitions[tag["type"]] = made
        for resource in given["serviceResources"]:
            signature = resource_signature(resource["resourceElements"])
            old = self.resources.get(signature, {})
            id_ = old.get("id") or self._next(self.resources)
            kept = {**resource, "id": id_, "serviceName": self.service, "resourceSignature": signature}
            self.resources[signature] = kept
            named = (
                given["resourceToTagIds"].get(str(resource["id"])) if resource.get("id") is not None else None
            )
            if named is not None:
                self._take_tags(id_)
                self.on[id_] = [self._add(given["tags"][str(tag_id)]) for tag_id in dict.fromkeys(named)]

    def delete(self, given: Mapping[str, Any]) -> None:
        for resource in given["serviceResources"]:
            signature = resource_signature(resource["resourceElements"] or {})
            for key, held in list(self.resources.items()):
                same_guid = resource.get("guid") and held.get("guid") == resource["guid"]
                same_id = not resource["resourceElements"] and held["id"] == resource.get("id")
                if key == signature or same_guid or same_id:
                    self._take_tags(held["id"])
                    del self.resources[key]
        wanted = [_identity(tag) for tag in given["tags"].values()]
        guids = {tag["guid"] for tag in given["tags"].values() if tag.get("guid")}
        gone = {
            id_
            for id_, tag in self.tags.items()
            if tag.get("guid") in guids or (not given["serviceResources"] and _identity(tag) in wanted)
        }
        for id_ in gone:
            del self.tags[id_]
        self.on = {key: [t for t in ids if t not in gone] for key, ids in self.on.items()}
        for tag_def in given["tagDefinitions"].values():
            if not any(tag["type"] == tag_def.get("name") for tag in self.tags.values()):
                self.definitions.pop(str(tag_def.get("name")), None)

    def _add(self, tag: Mapping[str, Any]) -> int:
        """Return the number of a tag; a shared one (owner 1) that is there already is used again."""
        if tag.get("owner"):
            for id_, held in self.tags.items():
                if held.get("owner") and _identity(held) == _identity(tag):
                    return id_
        id_ = max(self.tags, default=0) + 1
        self.tags[id_] = {**tag, "id": id_}
        return id_

    def _take_tags(self, resource: int) -> None:
        """Take the tags off a resource; those that are its own go."""
        taken = self.on.pop(resource, [])
        still = {id_ for ids in self.on.values() for id_ in ids}
        for id_ in taken:
            if id_ not in still:
                self.tags.pop(id_, None)

    @staticmethod
    def _next(held: Mapping[str, Object]) -> int:
        return max((one.get("id") or 0 for one in held.values()), default=0) + 1

    def body(self) -> Object:
        return {
            "serviceName": self.service,
            "tagDefinitions": {str(d["id"]): d for d in self.definitions.values()},
            "tags": {str(id_): tag for id_, tag in self.tags.items()},
            "serviceResources": list(self.resources.values()),
            "resourceToTagIds": {str(id_): ids for id_, ids in self.on.items() if ids},
        }


def _identity(tag: Mapping[str, Any]) -> object:
    return (tag.get("type"), tag.get("attributes") or {}, tag.get("validityPeriods") or [])
