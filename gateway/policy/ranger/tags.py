"""Tags in Ranger's JSON: what carries which, and the definition that policies on tags follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from gateway.model.policy import MaskTypeDef, Policy, ResourceSet, ServiceDef, TaggedResource
from gateway.model.tags import Tag
from gateway.policy.diagnostics import Path, hint
from gateway.policy.hierarchy import level_sets
from gateway.policy.json_shapes import Reader, whole
from gateway.policy.ranger.policies import UNREAD, read_values
from gateway.policy.schedule_json import read_schedules


def tag_definition(own: ServiceDef, component: ServiceDef) -> ServiceDef:
    """Return the definition of a tag service in the terms of one service whose resources carry the tags.

    Access and mask types are the service's own. What the tag service's definition says of them, under their
    prefixed names, goes before; it need not say anything.
    """
    prefix = f"{component.name.lower()}:"
    listed = {_bare(access.name, prefix): access for access in own.access_types}
    access_types = tuple(
        replace(
            access,
            implied=frozenset(_bare(name, prefix) for name in listed[access.name].implied) - {""}
            if access.name in listed
            else access.implied,
        )
        for access in component.access_types
    )
    mask_types = {mask.name: mask for mask in component.mask_types}
    for mask in own.mask_types:
        name = _bare(mask.name, prefix)
        if name:
            mask_types.setdefault(
                name, MaskTypeDef(name=name, transformer=mask.transformer, label=mask.label)
            )
    bare = frozenset({""})
    return replace(
        own,
        access_types=access_types,
        mask_types=tuple(mask_types.values()),
        mask_resources=own.mask_resources or own.resources,
        filter_resources=own.filter_resources or own.resources,
        mask_accesses=frozenset(_bare(name, prefix) for name in own.mask_accesses) - bare
        or component.mask_accesses,
        filter_accesses=frozenset(_bare(name, prefix) for name in own.filter_accesses) - bare
        or component.filter_accesses,
        access_aliases=component.access_aliases,
        markers=component.markers,
    )


def _bare(name: str, prefix: str) -> str:
    """Return a name without the service's prefix; empty when it has another one."""
    if name.lower().startswith(prefix):
        return name[len(prefix) :]
    return "" if ":" in name else name


class Closes(Protocol):
    """Makes what closes resources, for a part at fault of this name."""

    def __call__(self, name: str, sets: Sequence[ResourceSet], faults: tuple[str, ...], /) -> Policy: ...


class TagReader:
    """Reads ServiceTags of one service, again and again; what did not change stays the same object."""

    def __init__(self, definition: ServiceDef) -> None:
        self._levels = [level.name for level in definition.resources]
        self._hierarchies = level_sets(definition.resources)
        self._tags: dict[int, tuple[Any, Tag]] = {}
        self._resources: dict[int, tuple[Any, TaggedResource]] = {}
        self.at_fault: list[Policy] = []
        """Of what was read last: what closes the resources whose tags cannot be told."""

    def read(
        self, data: Mapping[str, Any], reader: Reader, path: Path, closes: Closes | None = None
    ) -> tuple[TaggedResource, ...]:
        """Return what carries tags; a tag that is nowhere defined is a fault, as half a download would be.

        With `closes` faults of a resource, or of a tag that it carries, are none of the download: they make a
        policy of `at_fault`, which closes the resource.
        """
        findings = reader.findings
        self.at_fault = []
        if reader.flag(data, "isDelta", path, default=False):
            reader.fault(path, "these are tag deltas, not the tags of a service")
        operation = reader.text(data, "op", path, "add_or_update").lower()
        if operation not in ("add_or_update", "replace", "set"):
            reader.fault((*path, "op"), f"`{operation}` is a deletion, not a full set of tags")
        before = len(findings.faults)
        links = reader.field(data, "resourceToTagIds", path)
        tags, faulty = self._read_tags(data, reader, path, tolerant=closes is not None)
        entries = reader.entries(data, "serviceResources", path)
        if closes is not None and (told := findings.withdraw(before)):
            # Tags of nobody knows what.
            self.at_fault.append(closes("tags", (), told))
        found, kept = [], {}
        waiting = {key for key, tag_ids in links.items() if tag_ids}
        for raw, where in entries:
            already = len(findings.faults)
            ident = reader.number(raw, "id", where, -1)
            if raw.get("id") is None:
                reader.fault((*where, "id"), "`id` is missing, so its tags cannot be found")
            waiting.discard(str(ident))
            carried, of_tags = [], dict[str, None]()
            for i, tag_id in enumerate(reader.read_list(links, str(ident), (*path, "resourceToTagIds"))):
                number = whole(tag_id)
                tag = tags.get(number) if number is not None else None
                if tag is not None:
                    carried.append(tag)
                elif number in faulty:
                    of_tags |= dict.fromkeys(faulty[number])
                else:
                    reader.fault((*path, "resourceToTagIds", str(ident), i), f"tag {tag_id} does not exist")
            enabled = reader.flag(raw, "isEnabled", where, default=True)
            told = (*of_tags, *(findings.withdraw(already) if closes is not None else ()))
            if not told and not (carried and enabled):
                continue
            known = self._resources.get(ident)
            if known is not None and known[0] is raw and known[1].tags == tuple(carried) and not told:
                resource = known[1]
            else:
                resources = self._resource_set(raw, reader, where)
                resource = TaggedResource(resources=resources, tags=tuple(carried), id=ident)
            if closes is not None and (told := (*told, *findings.withdraw(already))):
                named = f"tags of resource {ident}" if ident >= 0 else "tags of a resource without an id"
                # RULE (broken-resource-tags)
                self.at_fault.append(replace(closes(named, (resource.resources,), told), enabled=enabled))
                continue
            kept[ident] = (raw, resource)
            found.append(resource)
        for key in sorted(waiting):
            reader.warn(
                (*path, "resourceToTagIds", key), f"resource `{key}` does not exist: its tags are ignored"
            )
        if len(findings.faults) > before:  # what is at fault is told again next time
            self._tags, kept = {}, {}
        self._resources = kept
        return tuple(found)

    def _read_tags(
        self, data: Mapping[str, Any], reader: Reader, path: Path, *, tolerant: bool
    ) -> tuple[dict[int, Tag], dict[int | None, tuple[str, ...]]]:
        """Return the tags by their ids and, with `tolerant`, the faults of those that are at fault."""
        kept: dict[int, tuple[Any, Tag]] = {}
        faulty: dict[int | None, tuple[str, ...]] = {}
        for key, raw in reader.field(data, "tags", path).items():
            where = (*path, "tags", key)
            ident = whole(key)
            if ident is None:
                reader.fault(where, f"a tag's id must be a whole number, not `{key}`")
                continue
            known = self._tags.get(ident)
            if known is not None and known[0] is raw:
                kept[ident] = known
                continue
            already = len(reader.findings.faults)
            tag = read_tag(raw, reader, where)
            if tolerant and (told := reader.findings.withdraw(already)):
                faulty[ident] = told
            else:
                kept[ident] = (raw, tag)
        self._tags = kept
        return {ident: tag for ident, (_, tag) in kept.items()}, faulty

    def _resource_set(self, raw: Mapping[str, Any], reader: Reader, path: Path) -> ResourceSet:
        elements = reader.field(raw, "resourceElements", path)
        found = {}
        for level, written in elements.items():
            where, already = (*path, "resourceElements", level), len(reader.findings.faults)
            if level not in self._levels:
                reader.fault(where, f"unknown level `{level}`{hint(level, self._levels)}")
            values = read_values(written, reader, where)
            found[level] = values if len(reader.findings.faults) == already else UNREAD
        if frozenset(found) not in self._hierarchies:
            reader.warn(
                path, "its elements do not form a path from the root of the resources: its tags are ignored"
            )
        return found


def read_tag(raw: object, reader: Reader, path: Path) -> Tag:
    """Return one tag: `{type, attributes, owner, validityPeriods}`."""
    data = reader.read_mapping(raw, path)
    type_ = data.get("type") or data.get("name")
    return Tag(
        type=type_ if isinstance(type_, str) and type_ else reader.read_required(data, "type", path),
        attributes=reader.scalars(data, "attributes" if "attributes" in data else "attributeValues", path),
        owner=reader.number(data, "owner", path),
        validity=read_schedules(data, "validityPeriods", reader, path),
    )
