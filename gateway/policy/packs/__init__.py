"""Packs: YAML files of roles, tags, zones, policies and cases become one PolicySet, or every fault is told.

A pack whose cases fail is at fault like one that does not parse, but for a gateway that is running: there,
what it takes away is in force. docs/policies.md describes the shape.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.errors import Faults
from gateway.model.limits import Limit
from gateway.model.policy import (
    AuditRules,
    Policy,
    PolicySet,
    Role,
    Service,
    ServiceDef,
    TaggedResource,
    UserStore,
    Zone,
)
from gateway.model.principal import Principal
from gateway.policy.broken_parts import close_dependents
from gateway.policy.diagnostics import Path, hint
from gateway.policy.documents import parse_document
from gateway.policy.engine import DEFAULT_SERVICE, engine_for
from gateway.policy.limits import limits_of
from gateway.policy.packs.cases import Case, failures
from gateway.policy.packs.conditions import tag_definition, with_script_condition
from gateway.policy.packs.files import Pack
from gateway.policy.packs.policies import ReadPolicy
from gateway.policy.packs.warnings import warnings_of
from gateway.policy.unusable import build_duplicate_policy, list_invalid_policies, with_closed

TAG_SERVICE = "tag"
"""Service type without packs of its own: policies on tags stand in the packs of the service they guard."""


def load_packs(
    texts: Mapping[str, str],
    service_defs: Mapping[str, ServiceDef],
    version: int = 1,
    *,
    catalog_services: Mapping[str, str] | None = None,
    people: Mapping[str, Principal] | None = None,
    tolerant: bool = False,
    failing: list[str] | None = None,
) -> PolicySet:
    """Return the policies of all packs (file → text); raises Faults with everything that is wrong.

    There is one service for each definition, called like it. `people` are the users that a case may name in
    `as:` without saying what groups they are in. With `tolerant` policies at fault are `broken`, and all else
    is taken; then cases that fail are warnings, since they may rest on what is broken. Where nothing is, what
    is told of them is added to `failing`, if that is given, and is no fault.
    """
    definitions = {
        name: with_script_condition(definition)
        for name, definition in service_defs.items()
        if name != TAG_SERVICE
    }
    faults = [
        f"catalogs: service `{service}` does not exist{hint(service, definitions)}"
        for service in sorted(set((catalog_services or {}).values()) - set(definitions))
    ]
    packs: list[Pack] = []
    for file in sorted(texts):
        try:
            document = parse_document(texts[file], file)
        except Faults as found:
            faults += found.faults
            continue
        packs.append(Pack(document, definitions, people or {}, tolerant=tolerant))
    policies = _number_policies(packs)
    roles = _merge_roles(packs)
    _check_roles(packs, roles)
    limits = _collect_limits(packs)
    services = {
        name: _service(definition, [pack for pack in packs if pack.service == name], policies)
        for name, definition in definitions.items()
    }
    directory = _directory(packs)
    for pack in packs:
        faults += pack.faults.texts()
    if faults:
        raise Faults(faults)
    policy_set = PolicySet(
        version=version,
        services=services,
        roles=tuple(roles.values()),
        users=directory,
        catalog_services=dict(catalog_services or {}),
        limits=limits,
    )
    told = tuple(fault for pack in packs for fault in pack.messages)
    policy_set = replace(policy_set, warnings=(*told, *warnings_of(policy_set, packs)))
    fitted = close_dependents(policy_set)
    at_fault = list_invalid_policies(fitted)
    # Built here, off the event loop, and found again when judging begins.
    engine = engine_for(with_closed(fitted, at_fault))
    for pack in packs:
        for case in pack.cases:
            for failure in failures(case, engine, pack.service, limits_of(policy_set)):
                pack.faults.add(case.path, failure)
        faults += pack.faults.texts()
    if faults and not (at_fault or told or any(role.broken for role in roles.values())):
        if failing is None:
            raise Faults(faults)
        failing += faults
    return replace(policy_set, warnings=(*policy_set.warnings, *faults)) if faults else policy_set


@dataclass(frozen=True, slots=True, kw_only=True)
class PackCase:
    """One case of a pack, with where it stands and what it says there."""

    file: str
    line: int
    service: str
    case: Case
    written: str
    """On one line."""


def load_cases(
    texts: Mapping[str, str],
    service_defs: Mapping[str, ServiceDef],
    people: Mapping[str, Principal] | None = None,
) -> tuple[PackCase, ...]:
    """Return the cases of all packs that can be read; nothing is run."""
    definitions = {
        name: with_script_condition(definition)
        for name, definition in service_defs.items()
        if name != TAG_SERVICE
    }
    found = []
    for file in sorted(texts):
        try:
            document = parse_document(texts[file], file)
        except Faults:
            continue
        for case in Pack(document, definitions, people or {}, tolerant=True).cases:
            _, at = case.path[:2]
            data = document.data["cases"][at]
            found.append(
                PackCase(
                    file=file,
                    line=document.place(case.path).line,
                    service=str(document.data.get("service", DEFAULT_SERVICE)),
                    case=case,
                    written=json.dumps(data, ensure_ascii=False, default=str),
                )
            )
    return tuple(found)


def _service(
    definition: ServiceDef, packs: Sequence[Pack], policies: Mapping[int, tuple[Policy, bool]]
) -> Service:
    """Return the service that packs of one definition make together."""
    zones = _zones(packs)
    own = _in_zones(packs, policies, zones)
    on_tags = tuple(policy for policy, tags in own if tags)
    tagged = _list_tagged(packs)
    tag_service = None
    if on_tags or tagged:
        name = f"{definition.name}_{TAG_SERVICE}"
        on_tags = tuple(replace(policy, service=name) for policy in on_tags)
        tag_service = Service(name=name, definition=tag_definition(definition), policies=on_tags)
    return Service(
        name=definition.name,
        definition=definition,
        policies=(
            *(policy for policy, tags in own if not tags),
            *(policy for pack in packs for policy in pack.closing),
        ),
        zones=zones,
        tags=tag_service,
        tagged=tagged,
        super_users=frozenset[str]().union(*(pack.super_users for pack in packs)),
        super_groups=frozenset[str]().union(*(pack.super_groups for pack in packs)),
        audit=_audit_rules(packs),
    )


def _collect_limits(packs: Iterable[Pack]) -> tuple[Limit, ...]:
    found: dict[str, Limit] = {}
    for pack in packs:
        for limit, path in pack.limits:
            if limit.name in found:
                already = len(pack.faults.faults)
                pack.faults.add(
                    (*path, "name"), f"limit `{limit.name}` already exists ({found[limit.name].place})"
                )
                pack.messages += pack.withdraw(already)
            found.setdefault(limit.name, limit)
    return tuple(found.values())


def _list_tagged(packs: Iterable[Pack]) -> tuple[TaggedResource, ...]:
    entries = [tagged for pack in packs for tagged, _ in pack.tagged]
    return tuple(replace(tagged, id=i) for i, tagged in enumerate(entries, 1))


def _zones(packs: Sequence[Pack]) -> tuple[Zone, ...]:
    zones: dict[str, tuple[Zone, Pack, Path]] = {}
    twice: set[str] = set()
    for pack in packs:
        for name, (zone, path) in list(pack.zones.items()):
            if name in zones:
                already = len(pack.faults.faults)
                pack.faults.add(path, f"zone `{name}` already exists")
                if told := pack.withdraw(already):
                    # Which of them is meant nobody can tell: both are closed.
                    first, other, place = zones[name]
                    other.close_zone(first, place, told)
                    pack.close_zone(zone, path, told)
                    twice.add(name)
            zones.setdefault(name, (zone, pack, path))
    return tuple(zone for name, (zone, _, _) in zones.items() if name not in twice)


def _in_zones(
    packs: Sequence[Pack], policies: Mapping[int, tuple[Policy, bool]], zones: Sequence[Zone]
) -> list[tuple[Policy, bool]]:
    """Return the policies of packs. One of a zone that is not there is at fault, and closes what it is about
    wherever that lies; of a zone at fault everything is closed anyway."""
    known = {zone.name for zone in zones}
    at_fault = frozenset[str]().union(*(pack.broken_zones for pack in packs))
    found = []
    for pack in packs:
        for read in pack.policies:
            policy, on_tags = policies[id(read)]
            if policy.zone and policy.zone not in known and policy.zone not in at_fault:
                already = len(pack.faults.faults)
                near = hint(policy.zone, known)
                pack.faults.add((*read.path, "zone"), f"zone `{policy.zone}` does not exist{near}")
                if told := pack.withdraw(already):
                    policy = replace(build_duplicate_policy(policy, told), every_zone=True)
            found.append((policy, on_tags))
    return found


def _audit_rules(packs: Sequence[Pack]) -> AuditRules:
    mode = ""
    for pack in packs:
        if pack.audit_mode and mode and pack.audit_mode != mode:
            already = len(pack.faults.faults)
            pack.faults.add(("audit", "mode"), "another pack of the service has a different `mode`")
            if told := pack.withdraw(already):
                pack.messages += told
                return AuditRules(mode="audit-all")
        mode = mode or pack.audit_mode

    def union_excluded(key: str) -> frozenset[str]:
        return frozenset[str]().union(*(pack.audit_excluded.get(key, frozenset()) for pack in packs))

    return AuditRules(
        mode=mode or "audit-default",
        filters=tuple(found for pack in packs for found in pack.audit_filters),
        excluded_users=union_excluded("users"),
        excluded_groups=union_excluded("groups"),
        excluded_roles=union_excluded("roles"),
    )


def _directory(packs: Iterable[Pack]) -> UserStore:
    users: dict[str, Mapping[str, str]] = {}
    groups: dict[str, Mapping[str, str]] = {}
    memberships: dict[str, frozenset[str]] = {}
    at_fault: dict[str, dict[str, tuple[str, ...]]] = {"users": {}, "groups": {}}
    for pack in packs:
        at_fault["users"] |= pack.broken_users
        at_fault["groups"] |= pack.broken_groups
        for kind, mine, all_of_them in (
            ("users", pack.directory_users, users),
            ("groups", pack.directory_groups, groups),
        ):
            for name in mine.keys() & all_of_them.keys():
                already = len(pack.faults.faults)
                pack.faults.add(("directory", kind, name), f"`{name}` is in another pack's directory")
                if told := pack.withdraw(already):
                    at_fault[kind][name] = told
            all_of_them |= mine
        memberships |= pack.memberships
    return UserStore(
        users=users,
        groups=groups,
        memberships=memberships,
        adds_groups=bool(memberships),
        broken_users=at_fault["users"],
        broken_groups=at_fault["groups"],
    )


def _number_policies(packs: Iterable[Pack]) -> dict[int, tuple[Policy, bool]]:
    """Return all policies with ids, under the identity of what was read, with whether they speak of tags.

    Ids are those given, and the smallest free numbers in order for the others.
    """
    taken: dict[int, str] = {}
    names: dict[tuple[str, str, str], str] = {}
    reads: list[tuple[ReadPolicy, Policy, bool]] = []
    for pack in packs:
        for read in pack.policies:
            policy, path = read.policy, read.path
            place = str(pack.document.place(path))
            already = len(pack.faults.faults)
            has_id = read.has_id and policy.id not in taken
            if has_id:
                taken[policy.id] = place
            elif read.has_id:
                pack.faults.add((*path, "id"), f"id {policy.id} is already used ({taken[policy.id]})")
            named = (policy.service, policy.zone, policy.name)
            if policy.name and named in names:
                pack.faults.add((*path, "name"), f"policy `{policy.name}` already exists ({names[named]})")
            names.setdefault(named, place)
            if told := pack.withdraw(already):
                policy = build_duplicate_policy(policy, told)
            reads.append((read, policy, has_id))
    numbered = {}
    free = 1
    for read, policy, has_id in reads:
        if not has_id:
            while free in taken:
                free += 1
            policy = replace(policy, id=free)
            free += 1
        numbered[id(read)] = (policy, read.on_tags)
    return numbered


def _merge_roles(packs: Iterable[Pack]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for pack in packs:
        for name, (role, path) in pack.roles.items():
            if name in roles:
                already = len(pack.faults.faults)
                pack.faults.add(path, f"role `{name}` already exists")
                if told := (*roles[name].broken, *role.broken, *pack.withdraw(already)):
                    roles[name] = replace(role, broken=told)
            roles.setdefault(name, role)
    return roles


def _check_roles(packs: Iterable[Pack], roles: dict[str, Role]) -> None:
    """A role inside a role must exist; roles of items may come from the directory, so they need not."""
    for pack in packs:
        for role, path in pack.roles.values():
            already = len(pack.faults.faults)
            for inner in sorted(role.roles - roles.keys()):
                pack.faults.add((*path, "roles"), f"role `{inner}` does not exist{hint(inner, roles)}")
            if told := pack.withdraw(already):
                roles[role.name] = replace(roles[role.name], broken=(*roles[role.name].broken, *told))
