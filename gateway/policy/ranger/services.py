"""A ServicePolicies of Ranger's, full as a plugin gets it, becomes a Service."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from gateway.errors import Faults
from gateway.model.policy import (
    AuditFilter,
    AuditRules,
    Policy,
    ResourceSet,
    ResourceValues,
    Role,
    Service,
    ServiceDef,
    Sharing,
    TaggedResource,
    UserStore,
    Zone,
)
from gateway.model.resource import ANY_ACCESS
from gateway.policy.diagnostics import Diagnostics, Located, Path, hint
from gateway.policy.hierarchy import hierarchy_to
from gateway.policy.json_shapes import Reader
from gateway.policy.list_deltas import unlike
from gateway.policy.packs.conditions import tag_definition as plain_tag_definition
from gateway.policy.ranger.people import merge_roles, read_role_maps, read_roles, read_user_store
from gateway.policy.ranger.policies import UNREAD, RangerPolicyReader, read_values
from gateway.policy.ranger.sharing import read_sharing
from gateway.policy.ranger.tags import TagReader, tag_definition
from gateway.policy.service_defs import read_service_def
from gateway.policy.unusable import build_closing_policy

TAG = "tag"
"""The service type of tag services."""
_NAMED = 5
"""Policies that one warning names."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Converted:
    """One service as it was downloaded, and what came with it."""

    service: Service
    roles: tuple[Role, ...] = ()
    users: UserStore | None = None
    """None: no user store came with it."""
    warnings: tuple[str, ...] = ()


class _Memory:
    """The policies of one list as they were converted last.

    What is at fault is not kept, so that it is told again when it comes again.
    """

    def __init__(self, *, tolerant: bool) -> None:
        """`tolerant`: a policy at fault is taken as one that is broken, and is no fault of the list."""
        self._tolerant = tolerant
        self._raws: list[Any] = []
        self._policies: dict[int, Policy | None] = {}
        """Identity of each of `_raws`, which keeps it alive → what it became."""
        self._warnings: dict[int, tuple[str, ...]] = {}
        self._numbers: Counter[int | str] = Counter()
        """Id → how many policies have it."""
        self._duplicates: set[int | str] = set()

    def convert(
        self, raws: list[Any], policies: RangerPolicyReader, findings: Diagnostics, path: Path, zone: str
    ) -> list[Policy]:
        gone, came = unlike(self._raws, raws)
        former = {_number(self._raws[i]): self._raws[i] for i in gone.values()}
        for warnings in [self._warnings[key] for key in self._warnings.keys() - gone.keys()]:
            findings.repeat(warnings)
        faults = findings.fault_count
        for i in came.values():
            twin = former.get(_number(raws[i]))
            if twin is not None and twin == raws[i]:
                self._keep(raws[i], self._policies[id(twin)], self._warnings.get(id(twin), ()))
                findings.repeat(self._warnings.get(id(twin), ()))
            else:
                before, already = findings.mark(), len(findings.faults)
                policy = policies.read(raws[i], findings, (*path, i), zone)
                if self._tolerant and len(findings.faults) > already:
                    policy = policies.build_invalid_policy(raws[i], policy, findings.withdraw(already), zone)
                if len(findings.faults) == already:
                    self._keep(raws[i], policy, findings.since(before))
        self._count([self._raws[i] for i in gone.values()], -1)
        self._count([raws[i] for key, i in came.items() if key in self._policies], 1)
        for ident in sorted(self._duplicates, key=str):
            findings.warn(path, f"{self._numbers[ident]} policies have the id {ident}")
        for key in gone:
            self._policies.pop(key, None)
            self._warnings.pop(key, None)
        kept = self._policies
        self._raws = raws if findings.fault_count == faults else [raw for raw in raws if id(raw) in kept]
        return [policy for policy in map(kept.get, map(id, self._raws)) if policy is not None]

    def _keep(self, raw: Any, policy: Policy | None, warnings: tuple[str, ...]) -> None:
        self._policies[id(raw)] = policy
        if warnings:
            self._warnings[id(raw)] = warnings

    def _count(self, raws: Iterable[Any], change: int) -> None:
        for raw in raws:
            number = _number(raw)
            if number is None:
                continue
            self._numbers[number] += change
            if self._numbers[number] > 1:
                self._duplicates.add(number)
            else:
                self._duplicates.discard(number)


def _number(raw: Any) -> int | str | None:
    ident = raw.get("id") if isinstance(raw, dict) else None
    return ident if isinstance(ident, int | str) else None


def _with_aliases(definition: ServiceDef, known: ServiceDef | None) -> ServiceDef:
    """Return a definition of a Ranger Admin with what its own plugin would call the gateway's access types.

    No Admin knows the gateway's option for that, so it comes from the definition of the same name at hand.
    """
    if known is None or definition.access_aliases:
        return definition
    names = {access.name for access in definition.access_types}
    aliases = {
        ours: theirs
        for ours, theirs in known.access_aliases.items()
        if ours not in names and (theirs in names or theirs == ANY_ACCESS)
    }
    return replace(definition, access_aliases=aliases) if aliases else definition


class Converter:
    """Converts downloads of one service again and again; what did not change is not converted again.

    A raw policy that is the same object as last time, or equal to what had its id, gives the same Policy
    object. Keep one converter for each service, and use a new one for files, whose lines move.
    """

    def __init__(
        self,
        definitions: Mapping[str, ServiceDef] | None = None,
        *,
        strict: bool = False,
        tolerant: bool = False,
    ) -> None:
        """`definitions` are used, by service type, for downloads that bring none of their own.

        With `strict` access types that nobody knows are faults also where they would grant nothing. With
        `tolerant` policies at fault are `broken`, and everything else is taken.
        """
        self._strict = strict
        self._tolerant = tolerant
        self._definitions = dict(definitions or {})
        self._raw_definition: Any = None
        self._definition: ServiceDef | None = None
        self._definition_warnings: tuple[str, ...] = ()
        self._policies: RangerPolicyReader | None = None
        self._tags: TagReader | None = None
        self._tag_policies: RangerPolicyReader | None = None
        self._raw_tag_definition: Any = None
        self._lists: dict[str, _Memory] = {}

    def service(
        self,
        service_policies: Mapping[str, Any],
        *,
        tags: Mapping[str, Any] | None = None,
        file: str = "",
        document: Located | None = None,
    ) -> Converted:
        """Return the service of a ServicePolicies; `tags` is a ServiceTags. Raises Faults with all faults.

        `document` is the file that the policies were read from, when it was one: faults then have lines.
        """
        findings = Diagnostics(document, file=file)
        reader = Reader(findings)
        data = reader.read_mapping(service_policies, ())
        findings.raise_any()
        definition = self._read_definition(data, findings)
        if definition is None:
            raise Faults(findings.texts())
        name = reader.text(data, "serviceName", ()).strip() or definition.name
        service = self._service(data, definition, name, findings, tags)
        roles = self._roles(data, reader)
        users = None
        if data.get("userStore") is not None:
            users = read_user_store(
                data["userStore"], reader, ("userStore",), adds_groups=False, tolerant=self._tolerant
            )
        findings.raise_any()
        warnings = (*self._definition_warnings, *findings.warnings)
        return Converted(service=service, roles=roles, users=users, warnings=tuple(dict.fromkeys(warnings)))

    def _read_definition(self, data: Mapping[str, Any], findings: Diagnostics) -> ServiceDef | None:
        raw = data.get("serviceDef")
        if self._definition is not None and raw is not None and raw == self._raw_definition:
            return self._definition
        found = self._definitions.get(Reader(findings).text(data, "serviceType", ()))
        if raw is not None:
            own = Reader(findings, "service definition")
            where: Path = ("serviceDef",)
            found = read_service_def(own.read_mapping(raw, where), own, where, strict=False)
            found = _with_aliases(found, self._definitions.get(found.name))
        elif found is None:
            findings.add(("serviceDef",), "`serviceDef` is missing")
        findings.raise_any()
        if found is not self._definition:
            self._lists = {}
            self._policies = self._tag_policies = self._tags = None
        self._raw_definition, self._definition = raw, found
        self._definition_warnings = findings.warnings
        return found

    def _service(
        self,
        data: Mapping[str, Any],
        definition: ServiceDef,
        name: str,
        findings: Diagnostics,
        tags: Mapping[str, Any] | None,
    ) -> Service:
        reader = Reader(findings)
        if data.get("policyDeltas"):
            findings.add(("policyDeltas",), "these are policy deltas, not the policies of a service")
        if self._policies is None or self._policies.service != name:
            self._policies = RangerPolicyReader(definition, name, strict=self._strict)
            self._lists = {}
        own = self._policies
        policies = self._list("", own, reader.read_list(data, "policies", ()), findings, ("policies",), "")
        zones = []
        # What closes the parts at fault that are no policies.
        at_fault: list[Policy] = []
        already = len(findings.faults)
        written = _zones(data, reader)
        if told := self._withdraw(findings, already):
            at_fault.append(build_closing_policy("zones", (), told, service=name))
        for zone, info, where in written:
            already = len(findings.faults)
            found = read_zone(zone, reader.read_mapping(info, where), definition, reader, where)
            raws = reader.read_list(info, "policies", where) if isinstance(info, Mapping) else []
            if told := self._withdraw(findings, already):
                at_fault.append(build_closing_policy(f"zone {zone}", found.resources, told, service=name))
                continue
            zones.append(found)
            policies += self._list(f"zone {zone}", own, raws, findings, (*where, "policies"), zone)
        already = len(findings.faults)
        tag_service = self._tag_service(data, definition, findings)
        if told := self._withdraw(findings, already):
            at_fault.append(build_closing_policy("policies on tags", (), told, service=name))
        _warn_of_zones(tag_service, {zone.name for zone in zones}, findings)
        already = len(findings.faults)
        configuration = Configuration(data, definition.name, reader, ())
        super_users = configuration.names("super.users", "superUsers")
        super_groups = configuration.names("super.groups", "superGroups")
        audit = configuration.audit_rules()
        if told := self._withdraw(findings, already):
            # Nobody is let in by it, and rather too much is recorded than too little.
            at_fault.append(
                replace(build_closing_policy("configuration", (), told, service=name), enabled=False)
            )
            super_users, super_groups = frozenset[str](), frozenset[str]()
            audit = AuditRules(mode="audit-all")
        tagged = self._read_tagged(data, definition, tags, findings, at_fault, name)
        sharing = self._read_sharing(data, definition, findings, at_fault, name)
        service = Service(
            name=name,
            definition=definition,
            policies=(*policies, *at_fault),
            version=reader.number(data, "policyVersion", (), -1),
            zones=tuple(zones),
            tags=tag_service,
            tagged=tagged,
            super_users=super_users,
            super_groups=super_groups,
            sharing=sharing,
            audit=audit,
        )
        own.forget()
        return service

    def _withdraw(self, findings: Diagnostics, already: int) -> tuple[str, ...]:
        """Return the faults after the first `already`, which are none of the download then; none where every
        fault is one of it."""
        return findings.withdraw(already) if self._tolerant else ()

    def _list(
        self,
        key: str,
        policies: RangerPolicyReader,
        raws: list[Any],
        findings: Diagnostics,
        path: Path,
        zone: str,
    ) -> list[Policy]:
        memory = self._lists.setdefault(key, _Memory(tolerant=self._tolerant))
        return memory.convert(raws, policies, findings, path, zone)

    def _tag_service(
        self, data: Mapping[str, Any], definition: ServiceDef, findings: Diagnostics
    ) -> Service | None:
        key = next((key for key in ("tagPolicies", "tagPolicyInfo") if data.get(key)), None)
        if key is None:
            return None
        reader = Reader(findings)
        path: Path = (key,)
        info = reader.field(data, key, ())
        name = reader.text(info, "serviceName", path).strip() or TAG
        policies = self._tag_reader(info, definition, name, findings, path)
        own_key = "policies" if info.get("policies") is not None else "tagPolicies"
        raws = reader.read_list(info, own_key, path)
        found = self._list(f"tags {name}", policies, raws, findings, (*path, own_key), "")
        policies.forget()
        return Service(
            name=name,
            definition=policies.definition,
            policies=tuple(found),
            version=reader.number(info, "policyVersion", path, -1),
            audit=Configuration(info, TAG, reader, path).audit_rules(),
        )

    def _tag_reader(
        self, info: Mapping[str, Any], definition: ServiceDef, name: str, findings: Diagnostics, path: Path
    ) -> RangerPolicyReader:
        raw = info.get("serviceDef")
        known = self._tag_policies
        if known is not None and known.service == name and raw == self._raw_tag_definition:
            return known
        if raw is not None:
            own = Reader(findings, "tag service definition")
            where = (*path, "serviceDef")
            written = read_service_def(own.read_mapping(raw, where), own, where, strict=False)
            found = tag_definition(written, definition)
        elif TAG in self._definitions:
            found = tag_definition(self._definitions[TAG], definition)
        else:
            found = plain_tag_definition(definition)
        self._lists.pop(f"tags {name}", None)
        self._raw_tag_definition = raw
        self._tag_policies = RangerPolicyReader(found, name, prefix=definition.name, strict=self._strict)
        return self._tag_policies

    def _read_tagged(
        self,
        data: Mapping[str, Any],
        definition: ServiceDef,
        tags: Mapping[str, Any] | None,
        findings: Diagnostics,
        at_fault: list[Policy],
        service: str,
    ) -> tuple[TaggedResource, ...]:
        key = next((key for key in ("serviceTags", "tags") if data.get(key)), "tags")
        written = data.get(key) if tags is None else tags
        if not written:
            return ()
        if self._tags is None:
            self._tags = TagReader(definition)
        reader = Reader(findings)
        closes = partial(build_closing_policy, service=service) if self._tolerant else None
        found = self._tags.read(reader.read_mapping(written, (key,)), reader, (key,), closes)
        at_fault += self._tags.at_fault
        return found

    def _read_sharing(
        self,
        data: Mapping[str, Any],
        definition: ServiceDef,
        findings: Diagnostics,
        at_fault: list[Policy],
        service: str,
    ) -> Sharing | None:
        key = next((key for key in ("gdsInfo", "serviceGdsInfo") if data.get(key)), None)
        if key is None:
            return None
        written = Reader(findings).field(data, key, ())
        found, closed = read_sharing(
            written, definition, findings, (key,), service=service if self._tolerant else None
        )
        at_fault += closed
        return found

    def _roles(self, data: Mapping[str, Any], reader: Reader) -> tuple[Role, ...]:
        found: tuple[Role, ...] = ()
        for key in ("roles", "serviceRoles"):
            if data.get(key) is not None:
                found += read_roles(data[key], reader, (key,), tolerant=self._tolerant)
        return merge_roles((*found, *read_role_maps(data, reader, ())))


def _warn_of_zones(tags: Service | None, zones: Collection[str], findings: Diagnostics) -> None:
    """Tell of policies on tags whose zone has no part of this service: they hold for nothing in it.

    That is nothing bad by itself, and no fault: a tag service serves several services, and a zone may be of
    others of them. A zone that was misspelled looks the same.
    """
    found: dict[str, list[str]] = {}
    for policy in tags.policies if tags is not None else ():
        if policy.zone and policy.zone not in zones:
            found.setdefault(policy.zone, []).append(f"{policy.id} `{policy.name}`")
    for zone, policies in found.items():
        names = ", ".join(policies[:_NAMED]) + (", …" if len(policies) > _NAMED else "")
        told = f"the service has no resources in zone `{zone}`: tag policies apply to nothing here: {names}"
        findings.warn(("tagPolicies",), told)


def _zones(data: Mapping[str, Any], reader: Reader) -> list[tuple[str, Any, Path]]:
    zones = reader.field(data, "securityZones", ())
    return [(name, info, ("securityZones", name)) for name, info in zones.items()]


def read_zone(name: str, info: Mapping[str, Any], definition: ServiceDef, reader: Reader, path: Path) -> Zone:
    if info.get("policyDeltas"):
        reader.fault((*path, "policyDeltas"), "these are policy deltas, not the policies of a zone")
    levels = {level.name: level for level in definition.resources}
    sets: list[ResourceSet] = []
    already = len(reader.findings.faults)
    entries = reader.entries(info, "resources", path)
    if len(reader.findings.faults) > already:
        sets.append({})  # nobody can tell of what, so it is all
    for entry, where in entries:
        found: dict[str, ResourceValues] = {}
        for level, written in entry.items():
            if level not in levels:
                reader.fault((*where, level), f"zone `{name}`: unknown level `{level}`{hint(level, levels)}")
                continue
            already = len(reader.findings.faults)
            values = read_values(written, reader, (*where, level))
            plain = replace(values, excludes=False, recursive=levels[level].recursive_supported)
            found[level] = plain if len(reader.findings.faults) == already else UNREAD
        hierarchies = [hierarchy_to(level, definition.resources) or () for level in found]
        if found and not any({step.name for step in way} == set(found) for way in hierarchies):
            reader.warn(
                where, f"zone `{name}`: these levels do not form a path from the root, so they never match"
            )
        sets.append(found)
    return Zone(
        name=name,
        resources=tuple(sets),
        governs_tags=reader.flag(info, "containsAssociatedTagService", path, default=False),
    )


# -- What a service's configuration in Ranger says of super users and of auditing ----------------------


FILTERS = "ranger.plugin.audit.filters"
_MODES = ("audit-default", "audit-all", "audit-none")
_RESULTS = ("DENIED", "ALLOWED", "NOT_DETERMINED")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'((?:[^'\\]|\\.)*)'", re.DOTALL)


class Configuration:
    """`serviceConfig` of one service of a type, and the lists beside it that Ranger's own test files use."""

    def __init__(self, data: Mapping[str, Any], type_: str, reader: Reader, path: Path) -> None:
        self._data = data
        self._type = type_
        self._reader = reader
        self._path = path
        self._config = reader.scalars(data, "serviceConfig", path)

    def names(self, suffix: str, beside: str) -> frozenset[str]:
        """Return the names in `ranger.plugin.<suffix>`, which commas separate, and in the list `beside`."""
        found = set(self._reader.names(self._data, beside, self._path))
        for prefix in ("ranger.plugin.", f"ranger.plugin.{self._type}."):
            found |= {name.strip() for name in self._config.get(prefix + suffix, "").split(",")}
        return frozenset(found - {""})

    def audit_rules(self) -> AuditRules:
        mode = self._reader.text(self._data, "auditMode", self._path).strip().lower() or _MODES[0]
        if mode not in _MODES:
            self._reader.warn(
                (*self._path, "auditMode"), f"unknown audit mode `{mode}`: taken as {_MODES[0]}"
            )
            mode = _MODES[0]
        return AuditRules(
            mode=mode,
            filters=self._filters(),
            excluded_users=self.names("audit.exclude.users", "auditExcludedUsers"),
            excluded_groups=self.names("audit.exclude.groups", "auditExcludedGroups"),
            excluded_roles=self.names("audit.exclude.roles", "auditExcludedRoles"),
        )

    def _filters(self) -> tuple[AuditFilter, ...]:
        """Return the filters; a text that cannot be read filters nothing, with a warning, as in Ranger."""
        text = self._config.get(FILTERS, "").strip()
        if not text:
            return ()
        where = (*self._path, "serviceConfig", FILTERS)
        try:
            entries = json.loads(_QUOTED.sub(_requote, text))
        except (ValueError, RecursionError):
            self._reader.warn(where, "the audit filters are not JSON and are ignored")
            return ()
        # Of findings of its own: what is wrong with auditing must not keep policies from being taken.
        reader = Reader(Diagnostics())
        found = [
            _filter(entry, reader)
            for entry, _ in reader.entries({"filters": entries}, "filters", ())
            if entry.get("isAudited") is not None  # without it, it decides nothing, in Ranger too
        ]
        for text in (*reader.findings.texts(), *reader.findings.warnings):
            self._reader.warn(where, f"audit filters: {text}")
        if reader.findings.fault_count:
            self._reader.warn(where, "the audit filters cannot be read and are ignored")
            return ()
        return tuple(found)


def _filter(entry: Mapping[str, Any], reader: Reader) -> AuditFilter:
    result = reader.text(entry, "accessResult", ()).upper()
    if result and result not in _RESULTS:
        reader.warn((), f"unknown access result `{result}`")
    resources = reader.field(entry, "resources", ())
    return AuditFilter(
        audited=reader.flag(entry, "isAudited", (), default=True),
        result=result,
        resources={level: read_values(written, reader, (level,)) for level, written in resources.items()},
        accesses=frozenset(name.lower() for name in reader.names(entry, "accessTypes", ())),
        actions=reader.names(entry, "actions", ()),
        users=reader.names(entry, "users", ()),
        groups=reader.names(entry, "groups", ()),
        roles=reader.names(entry, "roles", ()),
    )


def _requote(found: re.Match[str]) -> str:
    """Return a text in single quotes as JSON wants it; one in double quotes as it is."""
    inner = found[1]
    if inner is None:
        return found[0]
    return '"' + inner.replace("\\'", "'").replace('"', '\\"') + '"'
