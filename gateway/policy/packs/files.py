"""One pack, read: its sections as the model's objects, and every fault of it with its line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.model.limits import Limit
from gateway.model.policy import (
    AuditFilter,
    Policy,
    ResourceSet,
    Role,
    ServiceDef,
    TaggedResource,
    Zone,
)
from gateway.model.policy import PolicyType as Type
from gateway.model.principal import Principal
from gateway.policy.diagnostics import Diagnostics, Path, hint, list_unknown_keys
from gateway.policy.documents import Document, parse_document
from gateway.policy.engine import DEFAULT_SERVICE
from gateway.policy.packs.cases import Case, read_case
from gateway.policy.packs.conditions import tag_definition
from gateway.policy.packs.limits import read_limit
from gateway.policy.packs.policies import WHO_KEYS, PackPolicyReader, ReadPolicy
from gateway.policy.packs.shapes import Shapes
from gateway.policy.packs.times import read_tags
from gateway.policy.unusable import build_closing_policy

PACK_KEYS = (
    "service",
    "description",
    "people",
    "directory",
    "roles",
    "tags",
    "zones",
    "super_users",
    "super_groups",
    "audit",
    "limits",
    "policies",
    "cases",
)
_AUDIT_MODES = {"default": "audit-default", "all": "audit-all", "none": "audit-none"}
_AUDIT_RESULTS = {"allowed": "ALLOWED", "denied": "DENIED", "undetermined": "NOT_DETERMINED"}


class Pack:
    """One file, read; what is wrong with it stands in `faults`."""

    def __init__(
        self,
        document: Document,
        service_defs: Mapping[str, ServiceDef],
        people: Mapping[str, Principal],
        *,
        tolerant: bool = False,
    ) -> None:
        """`tolerant`: a policy at fault is taken as one that is broken, and is no fault of the file."""
        self.tolerant = tolerant
        self.document = document
        self.faults = Diagnostics(document)
        self.service = ""
        """Name of the service that it belongs to; empty when there is no such service."""
        self.policies: list[ReadPolicy] = []
        self.closing: list[Policy] = []
        """What closes the resources of tags and zones at fault, and all where nobody can tell of what."""
        self.messages: list[str] = []
        """What is wrong with cases, and with the people in them."""
        self.roles: dict[str, tuple[Role, Path]] = {}
        self.limits: list[tuple[Limit, Path]] = []
        self.cases: list[Case] = []
        self.tagged: list[tuple[TaggedResource, Path]] = []
        self.zones: dict[str, tuple[Zone, Path]] = {}
        self.broken_zones: set[str] = set()
        """Names of zones at fault, which hold nothing, and whose policies speak of nothing."""
        self.super_users: frozenset[str] = frozenset()
        self.super_groups: frozenset[str] = frozenset()
        self.audit_mode = ""
        self.audit_filters: tuple[AuditFilter, ...] = ()
        self.audit_excluded: Mapping[str, frozenset[str]] = {}
        self.directory_users: dict[str, Mapping[str, str]] = {}
        self.directory_groups: dict[str, Mapping[str, str]] = {}
        self.memberships: dict[str, frozenset[str]] = {}
        self.broken_users: dict[str, tuple[str, ...]] = {}
        self.broken_groups: dict[str, tuple[str, ...]] = {}
        self.people: dict[str, Principal] = {}
        """Those of the section `people` alone."""
        self._shapes = Shapes(self.faults)
        data = document.data
        if not isinstance(data, dict):
            self.faults.add((), "a pack must be a mapping with `policies`")
            return
        service = data.get("service", DEFAULT_SERVICE)
        definition = service_defs.get(service) if isinstance(service, str) else None
        if definition is None:
            near = hint(str(service), service_defs)
            self.faults.add(("service",), f"service `{service}` does not exist{near}")
            return
        self.service = definition.name
        self._definition = definition
        self._read_unknown(data)
        self._read_sections(data, people)

    def withdraw(self, already: int) -> tuple[str, ...]:
        """Return the faults that came after the first `already`, which are then none of the file; none where
        every fault is one of the file."""
        if not self.tolerant or len(self.faults.faults) == already:
            return ()
        return self.faults.withdraw(already)

    def _read_unknown(self, data: Mapping[str, Any]) -> None:
        """Tell of sections that there are not. What holds more than a text may be policies that hide all."""
        for key in data:
            already = len(self.faults.faults)
            list_unknown_keys({key: None}, PACK_KEYS, (), self.faults, "a pack")
            holds = isinstance(data[key], dict | list) and bool(data[key])
            self._close_all(key, self.withdraw(already), closes=holds)

    def _read_sections(self, data: Mapping[str, Any], people: Mapping[str, Principal]) -> None:
        shapes, definition = self._shapes, self._definition
        already = len(self.faults.faults)
        self.people = people_of(data, shapes)
        self.messages += self.withdraw(already)  # for cases alone
        self._read_directory(data)
        self._read_roles(data)
        already = len(self.faults.faults)
        for i, entry in enumerate(shapes.sequence(data, "tags", ())):
            self._read_tagged(entry, ("tags", i))
        self._close_all("tags", self.withdraw(already))
        already = len(self.faults.faults)
        for name, entry in shapes.read_mapping(data.get("zones", {}), ("zones",)).items():
            self._read_zone(name, entry)
        self._close_all("zones", self.withdraw(already))
        already = len(self.faults.faults)
        self.super_users = frozenset(shapes.texts(data, "super_users", ()))
        self.super_groups = frozenset(shapes.texts(data, "super_groups", ()))
        if told := self.withdraw(already):
            self._close_all("super_users", told, closes=False)
            self.super_users = self.super_groups = frozenset()
        already = len(self.faults.faults)
        self._read_audit(data)
        if told := self.withdraw(already):
            self._close_all("audit", told, closes=False)
            # Rather too much is recorded than too little.
            self.audit_mode, self.audit_filters, self.audit_excluded = "audit-all", (), {}
        self._read_limits(data)
        already = len(self.faults.faults)
        reader = PackPolicyReader(shapes, definition, tag_definition(definition))
        written = shapes.sequence(data, "policies", ())
        self._close_all("policies", self.withdraw(already))
        for i, entry in enumerate(written):
            already = len(self.faults.faults)
            policy = reader.read(entry, ("policies", i))
            if told := self.withdraw(already):
                policy = reader.build_invalid_policy(entry, policy, ("policies", i), told)
            if policy is not None:
                self.policies.append(policy)
        known = dict(people) | self.people
        already = len(self.faults.faults)
        for i, entry in enumerate(shapes.sequence(data, "cases", ())):
            before = len(self.faults.faults)
            case = read_case(entry, ("cases", i), definition, known, shapes)
            if case is not None and (not self.tolerant or len(self.faults.faults) == before):
                self.cases.append(case)
        self.messages += self.withdraw(already)

    def _read_limits(self, data: Mapping[str, Any]) -> None:
        """Read what bounds use. Nothing is closed for what cannot be read of it, since it hides nothing, and
        what can be read of a limit holds."""
        already = len(self.faults.faults)
        for i, entry in enumerate(self._shapes.sequence(data, "limits", ())):
            path: Path = ("limits", i)
            limit = read_limit(entry, path, self._definition, self._shapes, self.document.place(path))
            if limit is not None:
                self.limits.append((limit, path))
        self.messages += self.withdraw(already)

    def _close_all(self, section: str, faults: tuple[str, ...], *, closes: bool = True) -> None:
        """Close everything of the service where a section cannot be read at all, or only tell of it."""
        if faults:
            made = build_closing_policy(f"section {section}", (), faults, service=self.service)
            self.closing.append(replace(made, enabled=closes))

    def _read_directory(self, data: Mapping[str, Any]) -> None:
        already = len(self.faults.faults)
        self._read_people_of_directory(data)
        # Faults of one user or group are told of it; what is left may be of anybody.
        self._close_all("directory", self.withdraw(already))

    def _read_people_of_directory(self, data: Mapping[str, Any]) -> None:
        shapes, where = self._shapes, ("directory",)
        section = shapes.read_mapping(data.get("directory", {}), where)
        list_unknown_keys(section, ("users", "groups"), where, self.faults, "`directory`")
        for name, entry in shapes.read_mapping(section.get("users", {}), (*where, "users")).items():
            already = len(self.faults.faults)
            path: Path = (*where, "users", name)
            found = shapes.read_mapping(entry, path)
            list_unknown_keys(found, ("groups", "attributes"), path, self.faults, "a user")
            self.directory_users[name] = shapes.attributes(found, path)
            if "groups" in found:
                self.memberships[name] = frozenset(shapes.texts(found, "groups", path))
            if told := self.withdraw(already):
                self.broken_users[name] = told
        for name, entry in shapes.read_mapping(section.get("groups", {}), (*where, "groups")).items():
            already = len(self.faults.faults)
            path = (*where, "groups", name)
            found = shapes.read_mapping(entry, path)
            list_unknown_keys(found, ("attributes",), path, self.faults, "a group")
            self.directory_groups[name] = shapes.attributes(found, path)
            if told := self.withdraw(already):
                self.broken_groups[name] = told

    def _read_roles(self, data: Mapping[str, Any]) -> None:
        first = len(self.faults.faults)
        roles = self._shapes.read_mapping(data.get("roles", {}), ("roles",))
        if told := self.withdraw(first):
            self.roles[""] = (Role(name="", broken=told), ("roles",))
        for name, entry in roles.items():
            already = len(self.faults.faults)
            path: Path = ("roles", name)
            found = self._shapes.read_mapping(entry, path)
            list_unknown_keys(found, WHO_KEYS, path, self.faults, "a role")
            members = {key: frozenset(self._shapes.texts(found, key, path)) for key in WHO_KEYS}
            if not any(members.values()):
                self.faults.add(path, f"role `{name}` has no members")
            self.roles[name] = (Role(name=name, **members, broken=self.withdraw(already)), path)

    def _read_tagged(self, entry: object, path: Path) -> None:
        shapes, already = self._shapes, len(self.faults.faults)
        data = shapes.read_mapping(entry, path)
        list_unknown_keys(data, ("on", "tags"), path, self.faults, "an entry of `tags`")
        resources = self._resource_sets(data, path, excludes=True)
        tags = tuple(read_tags(data, path, shapes))
        if not tags and len(self.faults.faults) == already:
            self.faults.add(path, "`tags` is missing: which tags does the resource have?")
        place = self.document.place(path)
        if told := self.withdraw(already):
            named = f"tags in line {place.line}"
            self.closing.append(
                build_closing_policy(named, resources, told, service=self.service, place=place)
            )
            return
        self.tagged += [
            (TaggedResource(resources=found, tags=tags, place=place), path) for found in resources
        ]

    def _read_zone(self, name: str, entry: object) -> None:
        shapes, path, already = self._shapes, ("zones", name), len(self.faults.faults)
        data = shapes.read_mapping(entry, path)
        list_unknown_keys(data, ("on", "own_tag_policies"), path, self.faults, "a zone")
        levels = {level.name: level for level in self._definition.resources}
        resources = tuple(
            # Ranger looks for zones recursively wherever the definition knows recursion.
            {key: replace(values, recursive=levels[key].recursive_supported) for key, values in found.items()}
            for found in self._resource_sets(data, path, excludes=False)
        )
        own = shapes.flag(data, "own_tag_policies", path, default=False)
        zone = Zone(name=name, resources=resources, governs_tags=own)
        if told := self.withdraw(already):
            self.close_zone(zone, path, told)
        else:
            self.zones[name] = (zone, path)

    def close_zone(self, zone: Zone, path: Path, faults: tuple[str, ...]) -> None:
        """Close what a zone holds: nobody can tell whose policies govern it."""
        self.zones.pop(zone.name, None)
        self.broken_zones.add(zone.name)
        place = self.document.place(path)
        told = build_closing_policy(
            f"zone {zone.name}", zone.resources, faults, service=self.service, place=place
        )
        self.closing.append(told)

    def _resource_sets(self, data: Mapping[str, Any], path: Path, *, excludes: bool) -> list[ResourceSet]:
        if "on" not in data:
            self.faults.add((*path, "on"), "`on` is missing: which resources?")
            return []
        found = self._shapes.resource_sets(data, path, self._definition, Type.ACCESS)
        if not excludes and any(values.excludes for each in found for values in each.values()):
            self.faults.add((*path, "on"), "a zone cannot have `except`")
        return found

    def _read_audit(self, data: Mapping[str, Any]) -> None:
        shapes, where = self._shapes, ("audit",)
        section = shapes.read_mapping(data.get("audit", {}), where)
        list_unknown_keys(section, ("mode", "exclude", "filters"), where, self.faults, "`audit`")
        self.audit_mode = shapes.text(section, "mode", where)
        if self.audit_mode and self.audit_mode not in _AUDIT_MODES:
            near = hint(self.audit_mode, _AUDIT_MODES)
            self.faults.add((*where, "mode"), f"`mode` must be `default`, `all` or `none`{near}")
        self.audit_mode = _AUDIT_MODES.get(self.audit_mode, "")
        excluded_at = (*where, "exclude")
        excluded = shapes.read_mapping(section.get("exclude", {}), excluded_at)
        list_unknown_keys(excluded, WHO_KEYS, excluded_at, self.faults, "`exclude`")
        self.audit_excluded = {
            key: frozenset(shapes.texts(excluded, key, excluded_at)) for key in WHO_KEYS if key in excluded
        }
        self.audit_filters = tuple(
            self._read_audit_filter(entry, (*where, "filters", i))
            for i, entry in enumerate(shapes.sequence(section, "filters", where))
        )

    def _read_audit_filter(self, entry: object, path: Path) -> AuditFilter:
        shapes = self._shapes
        data = shapes.read_mapping(entry, path)
        keys = ("audited", "result", "on", "access", "actions", *WHO_KEYS)
        list_unknown_keys(data, keys, path, self.faults, "an audit filter")
        if "audited" not in data:
            self.faults.add(path, "an audit filter needs `audited`")
        result = shapes.text(data, "result", path)
        if result and result not in _AUDIT_RESULTS:
            near = hint(result, _AUDIT_RESULTS)
            known = "`allowed`, `denied` or `undetermined`"
            self.faults.add((*path, "result"), f"`result` must be {known}{near}")
        possible = {access.name.lower() for access in self._definition.access_types}
        accesses = shapes.texts(data, "access", path)
        for access in accesses:
            if access.lower() not in possible:
                near = hint(access, possible)
                self.faults.add((*path, "access"), f"unknown access type `{access}`{near}")
        resources: ResourceSet = {}
        if "on" in data:
            resources = shapes.resource_set(data["on"], (*path, "on"), self._definition, Type.ACCESS)
        return AuditFilter(
            audited=shapes.flag(data, "audited", path, default=True),
            result=_AUDIT_RESULTS.get(result, ""),
            resources=resources,
            accesses=frozenset(access.lower() for access in accesses),
            actions=frozenset(shapes.texts(data, "actions", path)),
            **{key: frozenset(shapes.texts(data, key, path)) for key in WHO_KEYS},
        )


def people_of(data: Mapping[str, Any], shapes: Shapes) -> dict[str, Principal]:
    """Return the section `people`: name → principal."""
    people = {}
    for name, entry in shapes.read_mapping(data.get("people", {}), ("people",)).items():
        path: Path = ("people", name)
        found = shapes.read_mapping(entry, path)
        list_unknown_keys(found, ("groups", "roles", "attributes"), path, shapes.faults, "a person")
        people[name] = shapes.principal({"user": name, **found}, path)
    return people


def load_people(text: str, file: str) -> dict[str, Principal]:
    """Return the people of a file, be it a pack or one with `people` alone; raises Faults."""
    document = parse_document(text, file)
    faults = Diagnostics(document)
    shapes = Shapes(faults)
    data = shapes.read_mapping(document.data, ())
    if not faults.fault_count and "people" not in data:
        faults.add((), "the pack has no section `people`")
    people = people_of(data, shapes)
    faults.raise_any()
    return people
