"""Files with Ranger's JSON: each is recognised by what it holds, and all of them make one set of services.

Taken are downloads of policies, tags, roles and users (the cache files of Ranger's plugins are such), exports
of policies and of roles, security zones and service definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from gateway.errors import Faults
from gateway.model.policy import Policy, Role, Service, ServiceDef, UserStore, Zone
from gateway.policy.diagnostics import Diagnostics, Path, hint
from gateway.policy.json_documents import MAX_BYTES, JsonDocument, parse_json
from gateway.policy.json_shapes import Reader
from gateway.policy.packs.conditions import tag_definition as plain_tag_definition
from gateway.policy.ranger.people import merge_roles, read_roles, read_user_store
from gateway.policy.ranger.policies import RangerPolicyReader
from gateway.policy.ranger.services import TAG, Converter, read_zone
from gateway.policy.ranger.sharing import read_sharing
from gateway.policy.ranger.tags import TagReader, tag_definition
from gateway.policy.service_defs import definition_of
from gateway.policy.unusable import build_closing_policy, build_duplicate_policy

_KINDS = (
    ("definition", frozenset({"resources", "accessTypes"})),
    ("tags", frozenset({"serviceResources"})),
    ("tags", frozenset({"resourceToTagIds"})),
    ("roles", frozenset({"rangerRoles"})),
    ("roles", frozenset({"metaDataInfo", "roles"})),
    ("users", frozenset({"userAttrMapping"})),
    ("users", frozenset({"userGroupMapping"})),
    ("users", frozenset({"groupAttrMapping"})),
    ("policies", frozenset({"serviceName", "serviceDef"})),
    ("policies", frozenset({"serviceName", "policies"})),
    ("export", frozenset({"policies"})),
    ("zone", frozenset({"name", "services"})),
    ("sharing", frozenset({"gdsVersion"})),
    ("sharing", frozenset({"dataShares"})),
    ("users", frozenset({"userStoreVersion"})),
    ("roles", frozenset({"roleVersion"})),
    ("tags", frozenset({"tagVersion"})),
    ("policies", frozenset({"serviceName", "policyVersion"})),
)
"""Kind of a file by the keys that it must have; the first kind that fits counts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RangerFiles:
    """The parts of all given files, put together."""

    services: Mapping[str, Service]
    roles: tuple[Role, ...] = ()
    users: UserStore | None = None
    """None: there was no user store among the files."""
    definitions: Mapping[str, ServiceDef] = field(default_factory=dict)
    """Service definitions that were files of their own."""
    warnings: tuple[str, ...] = ()


def load_files(
    texts: Mapping[str, str | bytes],
    service_defs: Mapping[str, ServiceDef],
    *,
    max_bytes: int = MAX_BYTES,
    tolerant: bool = False,
) -> RangerFiles:
    """Return what the files (file → text) hold; raises Faults with all faults of all files.

    `service_defs` are used, by service type, for exports, which bring none of their own. With `tolerant`
    policies at fault are `broken`, and everything else is taken.
    """
    faults: list[str] = []
    files: dict[str, list[JsonDocument]] = {}
    for file in sorted(texts):
        try:
            document = parse_json(texts[file], file, max_bytes=max_bytes)
            files.setdefault(_kind(document), []).append(document)
        except Faults as found:
            faults += found.faults
    return _Files(files, service_defs, faults, tolerant=tolerant).together()


def _kind(document: JsonDocument) -> str:
    data = document.data
    if isinstance(data, list) and data and all(isinstance(entry, Mapping) for entry in data):
        if all({"name", "services"} <= entry.keys() for entry in data):
            return "zone"
        return "export" if any("resources" in entry for entry in data) else "roles"
    if isinstance(data, Mapping):
        for kind, keys in _KINDS:
            if keys <= data.keys() and not (kind == "policies" and "metaDataInfo" in data):
                return kind
    raise Faults([f"{document.file}:1: not Ranger policies, tags, roles, users or a service definition"])


class _Files:
    """All files of one load, by what they hold."""

    def __init__(
        self,
        files: Mapping[str, list[JsonDocument]],
        service_defs: Mapping[str, ServiceDef],
        faults: list[str],
        *,
        tolerant: bool,
    ) -> None:
        self._tolerant = tolerant
        self._files = files
        self._faults = faults
        self._warnings: list[str] = []
        self._own: dict[str, ServiceDef] = {}
        self._definitions = dict(service_defs)
        self._services: dict[str, Service] = {}
        self._roles: list[Role] = []

    def together(self) -> RangerFiles:
        self._read_definitions()
        tags = {self._name(document, "serviceName"): document for document in self._files.get("tags", ())}
        for document in self._files.get("roles", ()):
            findings = Diagnostics(document)
            self._roles += read_roles(document.data, Reader(findings), (), tolerant=self._tolerant)
            self._take(findings)
        users = self._users()
        for document in self._files.get("policies", ()):
            self._download(document, tags.pop(self._name(document, "serviceName"), None))
        for document in self._files.get("export", ()):
            self._export(document, tags)
        for document in self._files.get("sharing", ()):
            self._share(document)
        for name, document in tags.items():
            self._warnings.append(f"{document.file}:1: service `{name}` of these tags does not exist")
        if self._faults:
            raise Faults(list(dict.fromkeys(self._faults)))
        return RangerFiles(
            services=self._services,
            roles=merge_roles(self._roles),
            users=users,
            definitions=self._own,
            warnings=tuple(dict.fromkeys(self._warnings)),
        )

    def _take(self, findings: Diagnostics) -> None:
        self._faults += findings.texts()
        self._warnings += findings.warnings

    def _name(self, document: JsonDocument, key: str) -> str:
        name = document.data.get(key)
        return name if isinstance(name, str) else ""

    def _read_definitions(self) -> None:
        for document in self._files.get("definition", ()):
            try:
                definition = definition_of(document)
            except Faults as found:
                self._faults += found.faults
                continue
            if definition.name in self._own:
                self._faults.append(f"{document.file}:1: service `{definition.name}` is defined twice")
            self._own[definition.name] = definition
        self._definitions |= self._own

    def _users(self) -> UserStore | None:
        stores = []
        for document in self._files.get("users", ()):
            findings = Diagnostics(document)
            stores.append(
                read_user_store(
                    document.data, Reader(findings), (), adds_groups=False, tolerant=self._tolerant
                )
            )
            self._take(findings)
        if not stores:
            return None
        found = UserStore()
        for store in stores:
            found = UserStore(
                users={**found.users, **store.users},
                groups={**found.groups, **store.groups},
                memberships={**found.memberships, **store.memberships},
                broken_users={**found.broken_users, **store.broken_users},
                broken_groups={**found.broken_groups, **store.broken_groups},
            )
        return found

    def _add(self, service: Service, document: JsonDocument) -> None:
        if service.name in self._services:
            self._faults.append(
                f"{document.file}:1: policies of service `{service.name}` were already loaded"
            )
        self._services[service.name] = service

    def _download(self, document: JsonDocument, tags: JsonDocument | None) -> None:
        try:
            converter = Converter(self._definitions, tolerant=self._tolerant)
            converted = converter.service(document.data, document=document)
        except Faults as found:
            self._faults += found.faults
            return
        service = converted.service
        if tags is not None:
            service = self._with_tags(service, tags)
        self._add(service, document)
        self._roles += converted.roles
        self._warnings += converted.warnings

    def _export(self, document: JsonDocument, tags: dict[str, JsonDocument]) -> None:
        """Make services of an export: policies of any number of services in one list."""
        findings = Diagnostics(document)
        export = _Export(document, self._definitions, self._zones, findings, tolerant=self._tolerant)
        for service in export.services():
            found = tags.pop(service.name, None)
            self._add(service if found is None else self._with_tags(service, found), document)
        self._take(findings)

    def _with_tags(self, service: Service, document: JsonDocument) -> Service:
        findings = Diagnostics(document)
        reader = TagReader(service.definition)
        closes = partial(build_closing_policy, service=service.name) if self._tolerant else None
        tagged = reader.read(document.data, Reader(findings), (), closes)
        self._take(findings)
        policies = (*service.policies, *reader.at_fault)
        return replace(service, policies=policies, tagged=(*service.tagged, *tagged))

    def _share(self, document: JsonDocument) -> None:
        """Give what is shared of a service to that service."""
        name = self._name(document, "serviceName")
        service = self._services.get(name)
        if service is None:
            self._warnings.append(f"{document.file}:1: service `{name}` of this data sharing does not exist")
            return
        if service.sharing is not None:
            self._faults.append(f"{document.file}:1: data sharing of service `{name}` was already loaded")
        findings = Diagnostics(document)
        sharing, closed = read_sharing(
            document.data, service.definition, findings, (), service=name if self._tolerant else None
        )
        self._take(findings)
        self._services[name] = replace(service, policies=(*service.policies, *closed), sharing=sharing)

    def _zones(self, service: str, definition: ServiceDef) -> tuple[tuple[Zone, ...], list[Policy]]:
        """Return the zones that hold something of a service, and what closes those at fault."""
        found, closed = [], []
        for document in self._files.get("zone", ()):
            findings = Diagnostics(document)
            reader = Reader(findings)
            listed = isinstance(document.data, list)
            for i, entry in enumerate(document.data if listed else [document.data]):
                path: Path = (i,) if listed else ()
                already = len(findings.faults)
                info = reader.field(reader.field(entry, "services", path), service, (*path, "services"))
                name = reader.read_required(entry, "name", path)
                where = (*path, "services", service)
                zone = read_zone(name, info, definition, reader, where)
                if self._tolerant and (told := findings.withdraw(already)):
                    closed.append(build_closing_policy(f"zone {name}", zone.resources, told, service=service))
                elif info:
                    found.append(zone)
            self._take(findings)
        return tuple(found), closed


_Zones = Callable[[str, ServiceDef], tuple[tuple[Zone, ...], list[Policy]]]


class _Export:
    """One export of policies, which may be of many services."""

    def __init__(
        self,
        document: JsonDocument,
        definitions: Mapping[str, ServiceDef],
        zones: _Zones,
        findings: Diagnostics,
        *,
        tolerant: bool,
    ) -> None:
        self._tolerant = tolerant
        listed = isinstance(document.data, list)
        self._reader = Reader(findings)
        self._path: Path = () if listed else ("policies",)
        self._raws = document.data if listed else self._reader.read_list(document.data, "policies", ())
        self._definitions = definitions
        self._zones = zones
        self._findings = findings

    def services(self) -> list[Service]:
        groups = self._groups()
        on_tags = {name: positions for (name, type_), positions in groups.items() if type_ == TAG}
        if len(on_tags) > 1:
            names = "`, `".join(on_tags)
            self._findings.add(self._path, f"an export does not tell which service uses which of `{names}`")
        found = []
        for (name, type_), positions in groups.items():
            if type_ == TAG:
                continue
            definition = self._definitions.get(type_)
            if definition is None:
                near = hint(type_, self._definitions)
                where = (*self._path, positions[0])
                self._findings.add(where, f"service type `{type_}` has no definition{near}")
                continue
            service = self._service(name, definition, positions)
            for tag_name, tag_positions in on_tags.items():
                service = replace(service, tags=self._tag_service(tag_name, definition, tag_positions))
            found.append(service)
        if on_tags and not found:
            self._findings.warn(self._path, "these tag policies do not belong to any service of this export")
        return found

    def _groups(self) -> dict[tuple[str, str], list[int]]:
        """Return (service, its type) → positions of its policies."""
        groups: dict[tuple[str, str], list[int]] = {}
        for i, raw in enumerate(self._raws):
            where = (*self._path, i)
            data = self._reader.read_mapping(raw, where, "a policy")
            name = self._reader.read_required(data, "service", where)
            type_ = self._reader.text(data, "serviceType", where) or name
            if name:
                groups.setdefault((name, type_), []).append(i)
        return groups

    def _service(self, name: str, definition: ServiceDef, positions: list[int]) -> Service:
        policies = self._policies(RangerPolicyReader(definition, name), positions)
        zones, closed = self._zones(name, definition)
        # Without the zone's resources other policies would govern what it holds.
        missing = {policy.zone for policy in policies if policy.zone} - {zone.name for zone in zones}
        for zone in sorted(missing - {one.name.removeprefix("zone ") for one in closed}):
            already = len(self._findings.faults)
            self._findings.add(
                self._path,
                f"zone `{zone}` has policies, but no file defines its resources of `{name}`",
            )
            if self._tolerant:
                told = self._findings.withdraw(already)
                policies = tuple(
                    replace(build_duplicate_policy(one, told), every_zone=True) if one.zone == zone else one
                    for one in policies
                )
        return Service(name=name, definition=definition, policies=(*policies, *closed), zones=zones)

    def _tag_service(self, name: str, component: ServiceDef, positions: list[int]) -> Service:
        own = self._definitions.get(TAG)
        definition = tag_definition(own, component) if own else plain_tag_definition(component)
        reader = RangerPolicyReader(definition, name, prefix=component.name)
        return Service(name=name, definition=definition, policies=self._policies(reader, positions))

    def _policies(self, reader: RangerPolicyReader, positions: list[int]) -> tuple[Policy, ...]:
        found = []
        for i in positions:
            zone = self._raws[i].get("zoneName")
            zone = zone if isinstance(zone, str) else ""
            already = len(self._findings.faults)
            policy = reader.read(self._raws[i], self._findings, (*self._path, i), zone)
            if self._tolerant and len(self._findings.faults) > already:
                policy = reader.build_invalid_policy(
                    self._raws[i], policy, self._findings.withdraw(already), zone
                )
            if policy is not None:
                found.append(policy)
        reader.forget()
        return tuple(found)
