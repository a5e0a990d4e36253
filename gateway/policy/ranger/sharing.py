"""Governed data sharing in Ranger's JSON (`ServiceGdsInfo`): what is shared with whom, in force or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gateway.model.policy import (
    AccessTypeDef,
    Condition,
    ConditionDef,
    DataShare,
    Membership,
    Policy,
    PolicyType,
    Project,
    ResourceDef,
    ResourceSet,
    ServiceDef,
    SharedDataset,
    SharedResource,
    Sharing,
)
from gateway.model.tags import ValiditySchedule
from gateway.policy.conditions import Untranslatable, compile_condition
from gateway.policy.diagnostics import Diagnostics, Path, hint
from gateway.policy.hierarchy import level_sets
from gateway.policy.json_shapes import Reader
from gateway.policy.ranger.policies import UNREAD, RangerPolicyReader, read_values
from gateway.policy.schedule_json import read_schedules
from gateway.policy.service_defs import IMPLICIT, MARKERS, compute_markers, read_service_def
from gateway.policy.subjects import PUBLIC
from gateway.policy.unusable import build_closing_policy

SERVICE = "_gds"
"""The service that policies of datasets and projects are of."""
DATASET, PROJECT = "dataset-id", "project-id"
_STATES = frozenset({"NONE", "REQUESTED", "GRANTED", "DENIED", "ACTIVE"})
_VALIDITY = ConditionDef(name="validitySchedule", evaluator="RangerValidityScheduleConditionEvaluator")
_LINKS = (("dshids", "dshInDs"), ("dips", "dsInProj"))
"""Keys of the lists of what is in what: Ranger's, and how its own texts call them."""

_Known = TypeVar("_Known", DataShare, SharedDataset, Project)


def build_sharing_definition(own: ServiceDef | None, component: ServiceDef) -> ServiceDef:
    """Return the definition that policies of datasets and projects follow; `own` is the one that came along.

    Access types are the service's, and the marker types of their categories.
    """
    levels = tuple(ResourceDef(name=name, wildcard=False, ignore_case=False) for name in (DATASET, PROJECT))
    return ServiceDef(
        name="gds",
        resources=levels,
        access_types=component.access_types,
        markers=markers_of(component),
        conditions=own.conditions if own is not None else (replace(IMPLICIT, name="expression"), _VALIDITY),
        deny_enabled=own.deny_enabled if own is not None else True,
    )


def markers_of(component: ServiceDef) -> tuple[AccessTypeDef, ...]:
    """Return the marker access types of a service, computed where its definition has none."""
    return component.markers or compute_markers(component.access_types)  # RULE (gds-markers)


def read_sharing(
    data: Mapping[str, Any],
    definition: ServiceDef,
    findings: Diagnostics,
    path: Path,
    *,
    service: str | None = None,
) -> tuple[Sharing, list[Policy]]:
    """Return the data sharing of a service; faults are left with the findings.

    Given the `service` those of one part are told by what closes it: what is at fault grants nothing, and
    what is shared under masks or filters, and may be by it, is closed.
    """
    reading = _Sharing(data, definition, findings, path, service)
    return reading.read(), reading.closed


class _Sharing:
    """The reading of one ServiceGdsInfo."""

    def __init__(
        self,
        data: Mapping[str, Any],
        definition: ServiceDef,
        findings: Diagnostics,
        path: Path,
        service: str | None,
    ) -> None:
        self._service = service
        self.closed: list[Policy] = []
        self._holders: tuple[str, ...] = ()
        """What is wrong with data shares, datasets, projects and what is in what."""
        self._data, self._path, self._findings = data, path, findings
        self._definition = definition
        self._reader = Reader(findings)
        self._levels = [level.name for level in definition.resources]
        self._accesses = {access.name for access in definition.access_types} | MARKERS
        self._obligations = RangerPolicyReader(definition, SERVICE)
        self._hierarchies = level_sets(definition.resources)

    def read(self) -> Sharing:
        reader, data, path = self._reader, self._data, self._path
        if reader.flag(data, "isDelta", path, default=False):
            reader.fault(path, "these are deltas of the data sharing, not the data sharing of a service")
        raw = data.get("gdsServiceDef")
        own = None
        if raw is not None:
            where = (*path, "gdsServiceDef")
            own = read_service_def(reader.read_mapping(raw, where), reader, where, strict=False)
        definition = build_sharing_definition(own, self._definition)
        policies = RangerPolicyReader(definition, SERVICE)
        at_fault: dict[int, DataShare] = {}
        shares = self._unique("dataShares", self._share, at_fault)
        datasets = self._unique(
            "datasets", lambda entry, where: SharedDataset(**self._holder(entry, where, policies))
        )
        projects = self._unique(
            "projects", lambda entry, where: Project(**self._holder(entry, where, policies))
        )
        in_datasets = self._links(_LINKS[0], "dataShareId", datasets, shares)
        in_projects = self._links(_LINKS[1], "projectId", datasets, projects)
        resources = self._resources(shares, at_fault)
        return Sharing(
            definition=definition,
            version=reader.number(data, "gdsVersion", path, -1),
            shares=tuple(replace(share, resources=tuple(resources[share.id])) for share in shares.values()),
            datasets=tuple(
                replace(one, shares=tuple(in_datasets[one.id]), projects=tuple(in_projects[one.id]))
                for one in datasets.values()
            ),
            projects=tuple(projects.values()),
        )

    def _withdraw(self, already: int) -> tuple[str, ...]:
        """Return the faults after the first `already`, which one part has by itself; none where every fault
        is one of all."""
        return () if self._service is None else self._findings.withdraw(already)

    def _unique(self, key: str, read: Any, at_fault: dict[int, Any] | None = None) -> dict[int, Any]:
        """Return the entries of a list by their ids, without those at fault."""
        found: dict[int, Any] = {}
        faulty = {} if at_fault is None else at_fault
        already = len(self._findings.faults)
        entries = self._reader.entries(self._data, key, self._path)
        self._holders += self._withdraw(already)
        for entry, where in entries:
            already = len(self._findings.faults)
            one = read(entry, where)
            if one.id in found or one.id in faulty:
                self._reader.fault(where, f"`{key}` has the id {one.id} twice")
            if told := self._withdraw(already):
                self._holders += told
                faulty[one.id] = one
                found.pop(one.id, None)
            else:
                found[one.id] = one
        return found

    def _resources(
        self, shares: Mapping[int, DataShare], at_fault: Mapping[int, DataShare]
    ) -> dict[int, list[SharedResource]]:
        """Return what is shared by each data share."""
        reader = self._reader
        found: dict[int, list[SharedResource]] = {ident: [] for ident in shares}
        doubtful: list[SharedResource] = []
        already = len(self._findings.faults)
        entries = reader.entries(self._data, "resources", self._path)
        if told := self._withdraw(already):
            self._close("shared resources", {}, told)
        for entry, where in entries:
            already = len(self._findings.faults)
            ident = self._ident(entry, "dataShareId", where)
            share = shares.get(ident) or at_fault.get(ident)
            if share is None:
                reader.warn(
                    where, f"data share {entry.get('dataShareId')} does not exist: nothing is shared by it"
                )
                if not self._holders and len(self._findings.faults) == already:
                    continue
            one = self._resource(entry, where, share or DataShare(id=ident))
            if told := self._withdraw(already):
                hides = bool(entry.get("subResourceMasks") or entry.get("rowFilter"))
                self._close(f"shared resource {one.name or one.id}", one.above, told, closes=hides)
            elif ident in shares:
                found[ident].append(one)
            else:
                doubtful.append(one)
        for one in (*doubtful, *(one for each in found.values() for one in each)):
            if self._holders and (one.masks or one.rows is not None):  # RULE (broken-share)
                self._close(f"shared resource {one.name or one.id}", one.above, self._holders)
        if self._holders and not self.closed:
            # Nothing is closed for it, but it has to be told.
            self._close("data sharing", {}, self._holders, closes=False)
        return found

    def _close(
        self, name: str, resources: ResourceSet, faults: tuple[str, ...], *, closes: bool = True
    ) -> None:
        """Close resources; or only tell, where what is at fault can but grant."""
        made = build_closing_policy(name, (resources,), faults, service=self._service or "")
        self.closed.append(replace(made, enabled=closes))

    def _ident(self, entry: Mapping[str, Any], key: str, path: Path) -> int:
        if entry.get(key) is None:
            self._reader.fault(path, f"`{key}` is missing")
        return self._reader.number(entry, key, path, -1)

    def _share(self, entry: Mapping[str, Any], path: Path) -> DataShare:
        if entry.get("defaultTagMasks"):
            self._reader.warn(
                (*path, "defaultTagMasks"), "masks of a data share for tags have no effect, as in Ranger"
            )
        return DataShare(
            id=self._ident(entry, "id", path),
            name=self._reader.text(entry, "name", path),
            zone=self._reader.text(entry, "zoneName", path).strip(),
            accesses=self._access_types(entry, "defaultAccessTypes", path),
            conditions=self._condition(entry, path),
        )

    def _holder(self, entry: Mapping[str, Any], path: Path, policies: RangerPolicyReader) -> dict[str, Any]:
        """Return the fields that datasets and projects have."""
        found = [
            policy
            for i, raw in enumerate(self._reader.read_list(entry, "policies", path))
            if (policy := self._policy(raw, policies, (*path, "policies", i))) is not None
        ]
        return {
            "id": self._ident(entry, "id", path),
            "name": self._reader.text(entry, "name", path),
            "schedules": self._schedule(entry, path),
            "policies": tuple(found),
        }

    def _policy(self, raw: Any, policies: RangerPolicyReader, path: Path) -> Policy | None:
        found = policies.read(raw, self._findings, path)
        if found is not None and found.type is not PolicyType.ACCESS:
            self._reader.fault((*path, "policyType"), "policies of datasets and projects grant access only")
        return found

    def _schedule(self, entry: Mapping[str, Any], path: Path) -> tuple[ValiditySchedule, ...]:
        raw = entry.get("validitySchedule")
        if not raw:
            return ()
        return read_schedules({"validitySchedule": [raw]}, "validitySchedule", self._reader, path)

    def _condition(self, entry: Mapping[str, Any], path: Path) -> tuple[Condition, ...]:
        text = self._reader.text(entry, "conditionExpr", path).strip()
        if not text:
            return ()
        condition = Condition(type=IMPLICIT.name, values=(text,))
        try:
            compile_condition(condition, IMPLICIT)
        except Untranslatable as error:
            self._reader.fault((*path, "conditionExpr"), str(error))
        return (condition,)

    def _links(
        self,
        keys: Sequence[str],
        member_key: str,
        datasets: Mapping[int, SharedDataset],
        others: Mapping[int, _Known],
    ) -> dict[int, list[Membership]]:
        """Return what is in force of one list: dataset → the shares in it, or the projects that it is in."""
        found: dict[int, list[Membership]] = {ident: [] for ident in datasets}
        for key in keys:
            first = len(self._findings.faults)
            entries = self._reader.entries(self._data, key, self._path)
            self._holders += self._withdraw(first)
            for entry, where in entries:
                already = len(self._findings.faults)
                status = self._reader.text(entry, "status", where).strip().upper()
                if status not in _STATES:
                    self._reader.warn(
                        where, f"unknown status `{status}`{hint(status, _STATES)}: it is not in force"
                    )
                dataset = self._ident(entry, "datasetId", where)
                other = self._ident(entry, member_key, where)
                schedules = self._schedule(entry, where)
                if told := self._withdraw(already):
                    self._holders += told
                    continue
                if status != "ACTIVE":  # RULE (gds-active)
                    continue
                if dataset not in datasets or other not in others:
                    self._reader.warn(
                        where, "it refers to something that does not exist here: it is not in force"
                    )
                    continue
                found[dataset].append(Membership(id=other, schedules=schedules))
        return found

    # Resources

    def _resource(self, entry: Mapping[str, Any], path: Path, share: DataShare) -> SharedResource:
        reader = self._reader
        ident = self._ident(entry, "id", path)
        above = self._resource_set(entry, path)
        resources, sub = dict(above), reader.text(entry, "subResourceType", path).strip()
        shared = (
            read_values(entry["subResource"], reader, (*path, "subResource"))
            if entry.get("subResource")
            else None
        )
        if sub and sub not in self._levels:
            reader.fault((*path, "subResourceType"), f"unknown level `{sub}`{hint(sub, self._levels)}")
        if sub and shared is not None and shared.values:  # RULE (gds-sub-resources)
            resources[sub] = shared
        if frozenset(resources) not in self._hierarchies:
            reader.warn(
                path, "its levels do not form a path from the root of the resources, so it shares nothing"
            )
        # An empty list is one, in Ranger too: then nothing is shared.
        own = entry.get("accessTypes") is not None  # RULE (gds-own-access-types, gds-empty-access-types)
        accesses = self._access_types(entry, "accessTypes", path) if own else share.accesses
        written = {level: _build_values(values) for level, values in resources.items()}
        name = reader.text(entry, "name", path)
        base = {"id": ident, "name": name or f"shared resource {ident}"}
        return SharedResource(
            id=ident,
            name=name,
            resources=resources,
            above=above,
            accesses=accesses,
            conditions=self._condition(entry, path),
            masks=self._masks(entry, path, base, written, sub, share.zone),
            rows=self._rows(entry, path, base, {level: written[level] for level in above}, share.zone),
        )

    def _resource_set(self, entry: Mapping[str, Any], path: Path) -> ResourceSet:
        found = {}
        for level, written in self._reader.field(entry, "resource", path).items():
            where, already = (*path, "resource", level), len(self._findings.faults)
            if level not in self._levels:
                self._reader.fault(where, f"unknown level `{level}`{hint(level, self._levels)}")
                continue
            values = read_values(written, self._reader, where)
            found[level] = values if len(self._findings.faults) == already else UNREAD
        return found

    def _access_types(self, entry: Mapping[str, Any], key: str, path: Path) -> frozenset[str]:
        found = {name.strip().lower() for name in self._reader.names(entry, key, path)}
        for name in sorted(found - self._accesses):
            told = f"unknown access type `{name}`{hint(name, self._accesses)}"
            self._reader.warn((*path, key), f"{told}: it grants nothing")
        return frozenset(found)

    def _masks(
        self,
        entry: Mapping[str, Any],
        path: Path,
        base: Mapping[str, Any],
        written: Mapping[str, Any],
        sub: str,
        zone: str,
    ) -> tuple[Policy, ...]:
        """Return the masks as policies, so that they are checked like those."""
        raw = entry.get("subResourceMasks")
        where = (*path, "subResourceMasks")
        if isinstance(raw, Mapping):  # before RANGER-4564: name → mask
            masks = [({"values": [name]}, info) for name, info in raw.items()]
        else:
            masks = [
                ({"values": self._reader.read_list(mask, "values", at)}, mask.get("maskInfo"))
                for mask, at in self._reader.entries(entry, "subResourceMasks", path)
            ]
        if masks and not sub:
            self._reader.fault(where, "there are masks, but `subResourceType` is missing")
        found = []
        for values, info in masks:
            item = {**self._everybody(self._definition.mask_accesses), "dataMaskInfo": info or {}}
            policy = {
                **base,
                "policyType": PolicyType.MASK.value,
                "zoneName": zone,
                "resources": {**written, sub: values} if sub else written,
                "dataMaskPolicyItems": [item],
            }
            read = self._obligations.read(policy, self._findings, where, zone)
            if read is not None:
                found.append(read)
        return tuple(found)

    def _rows(
        self,
        entry: Mapping[str, Any],
        path: Path,
        base: Mapping[str, Any],
        written: Mapping[str, Any],
        zone: str,
    ) -> Policy | None:
        info = self._reader.field(entry, "rowFilter", path)
        if not self._reader.text(info, "filterExpr", (*path, "rowFilter")).strip():
            return None
        item = {**self._everybody(self._definition.filter_accesses), "rowFilterInfo": info}
        policy = {
            **base,
            "policyType": PolicyType.ROW_FILTER.value,
            "zoneName": zone,
            "resources": written,
            "rowFilterPolicyItems": [item],
        }
        return self._obligations.read(policy, self._findings, (*path, "rowFilter"), zone)

    def _everybody(self, accesses: frozenset[str]) -> dict[str, Any]:
        return {"groups": [PUBLIC], "accesses": [{"type": name} for name in sorted(accesses)]}


def _build_values(values: Any) -> dict[str, Any]:
    return {"values": list(values.values), "isExcludes": values.excludes, "isRecursive": values.recursive}
