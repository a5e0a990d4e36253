"""Packs: YAML files of roles, policies and cases become one PolicySet, or every fault of all of them is told.

A pack whose cases fail is at fault like one that does not parse. docs/policies.md describes the shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gateway.errors import Faults
from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Place,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    Role,
    Service,
    ServiceDef,
)
from gateway.model.principal import Principal
from gateway.policy.cases import Case, failures, read_case
from gateway.policy.documents import Document, FaultList, Path, hint, parse_document, unknown_keys
from gateway.policy.engine import DEFAULT_SERVICE, engine_for
from gateway.policy.masks import MASK_TYPES
from gateway.policy.pack_shapes import Shapes
from gateway.policy.sqltext import faults_of, sample

_PACK_KEYS = ("service", "description", "people", "roles", "policies", "cases")
_ACCESS_KEYS = ("allow", "deny", "allow_exceptions", "deny_exceptions")
_POLICY_KEYS = (
    "id",
    "name",
    "description",
    "on",
    "enabled",
    "priority",
    "audited",
    *_ACCESS_KEYS,
    "deny_all_else",
    "mask",
    "filter",
)
_WHO_KEYS = ("users", "groups", "roles")
_LATER = {
    "conditions": "conditions",
    "condition": "conditions",
    "validity": "validity schedules",
    "validitySchedules": "validity schedules",
    "schedules": "validity schedules",
    "tags": "tags",
    "tag": "tags",
    "zone": "security zones",
    "zoneName": "security zones",
    "delegate_admin": "delegated administration",
}
"""Keys of things that Ranger has and that are not evaluated: refused in so many words, never passed over."""


def load_packs(
    texts: Mapping[str, str],
    service_defs: Mapping[str, ServiceDef],
    version: int = 1,
    *,
    catalog_services: Mapping[str, str] | None = None,
    people: Mapping[str, Principal] | None = None,
) -> PolicySet:
    """Return the policies of all packs (file → text); raises Faults with everything that is wrong.

    `people` are the users that a case may name in `as:` without saying what groups they are in.
    """
    packs: list[_Pack] = []
    faults = [
        f"catalogs: there is no service `{service}`{hint(service, service_defs)}"
        for service in sorted(set((catalog_services or {}).values()) - set(service_defs))
    ]
    for file in sorted(texts):
        try:
            document = parse_document(texts[file], file)
        except Faults as found:
            faults += found.faults
            continue
        pack = _Pack(document, service_defs, people or {})
        packs.append(pack)
    policies = _numbered(packs)
    roles = _merged_roles(packs)
    _check_roles(packs, roles)
    for pack in packs:
        faults += pack.faults.texts()
    if faults:
        raise Faults(faults)
    policy_set = PolicySet(
        version=version,
        services={
            name: Service(
                name=name,
                definition=definition,
                policies=tuple(policy for policy in policies if policy.service == name),
            )
            for name, definition in service_defs.items()
        },
        roles=tuple(roles.values()),
        catalog_services=dict(catalog_services or {}),
    )
    engine = engine_for(policy_set)  # built here, off the event loop, and found again when judging begins
    for pack in packs:
        for case in pack.cases:
            for failure in failures(case, engine):
                pack.faults.add(case.path, failure)
        faults += pack.faults.texts()
    if faults:
        raise Faults(faults)
    return policy_set


def expressions(policies: PolicySet) -> list[tuple[Place, str, str]]:
    """Return (place, text, kind) of every SQL text in the policies, for Spark's parser to read alone.

    Kind is `filter` or `mask`; tokens are replaced by plausible values.
    """
    found: list[tuple[Place, str, str]] = []
    for policy in policies.policies():
        somewhere = policy.place or Place(file=f"policy {policy.id}", line=1)
        found.extend(
            (mask.place or somewhere, sample(mask.value_expression), "mask")
            for mask in policy.masks
            if mask.value_expression is not None
        )
        found.extend(
            (item.place or somewhere, sample(item.filter_expression), "filter")
            for item in policy.filters
            if item.filter_expression.strip()
        )
    return found


class _Pack:
    """One file, read; what is wrong with it stands in `faults`."""

    def __init__(
        self, document: Document, service_defs: Mapping[str, ServiceDef], people: Mapping[str, Principal]
    ) -> None:
        self.document = document
        self.faults = FaultList(document)
        self.policies: list[tuple[Policy, Path, bool]] = []
        """Policy, where it stands, and whether it came with its own id."""
        self.roles: dict[str, tuple[Role, Path]] = {}
        self.cases: list[Case] = []
        self._shapes = Shapes(self.faults)
        data = document.data
        if not isinstance(data, dict):
            self.faults.add((), "a pack is a mapping with `policies`")
            return
        unknown_keys(data, _PACK_KEYS, (), self.faults, "a pack")
        service = data.get("service", DEFAULT_SERVICE)
        definition = service_defs.get(service) if isinstance(service, str) else None
        if definition is None:
            self.faults.add(
                ("service",), f"there is no service `{service}`{hint(str(service), service_defs)}"
            )
            return
        self._definition = definition
        self._people = dict(people) | self._read_people(data)
        self._read_roles(data)
        for i, entry in enumerate(self._shapes.sequence(data, "policies", ())):
            self._read_policy(entry, ("policies", i))
        for i, entry in enumerate(self._shapes.sequence(data, "cases", ())):
            case = read_case(entry, ("cases", i), definition, self._people, self._shapes)
            if case is not None:
                self.cases.append(case)

    def _read_people(self, data: Mapping[str, Any]) -> dict[str, Principal]:
        people = {}
        for name, entry in self._shapes.mapping(data.get("people", {}), ("people",)).items():
            path: Path = ("people", name)
            found = self._shapes.mapping(entry, path)
            unknown_keys(found, ("groups", "roles", "attributes"), path, self.faults, "a person")
            people[name] = self._shapes.principal({"user": name, **found}, path)
        return people

    def _read_roles(self, data: Mapping[str, Any]) -> None:
        for name, entry in self._shapes.mapping(data.get("roles", {}), ("roles",)).items():
            path: Path = ("roles", name)
            found = self._shapes.mapping(entry, path)
            unknown_keys(found, _WHO_KEYS, path, self.faults, "a role")
            members = {key: frozenset(self._shapes.texts(found, key, path)) for key in _WHO_KEYS}
            if not any(members.values()):
                self.faults.add(path, f"role `{name}` has no members")
            role = Role(name=name, **members)
            self.roles[name] = (role, path)

    def _read_policy(self, entry: object, path: Path) -> None:
        shapes = self._shapes
        data = shapes.mapping(entry, path)
        if not data:
            self.faults.add(path, "a policy must not be empty")
            return
        self._unknown(data, _POLICY_KEYS, path, "a policy")
        name = shapes.text(data, "name", path, required=True)
        kinds = {
            PolicyType.ACCESS: [k for k in (*_ACCESS_KEYS, "deny_all_else") if k in data],
            PolicyType.MASK: [k for k in ("mask",) if k in data],
            PolicyType.ROW_FILTER: [k for k in ("filter",) if k in data],
        }
        given = [type_ for type_, keys in kinds.items() if keys]
        if len(given) != 1:
            what = "one of `allow`, `deny`, `mask`, `filter`" if not given else "only one kind of items"
            self.faults.add(path, f"policy `{name}` needs {what}")
            return
        type_ = given[0]
        resources = shapes.resource_sets(data, path, self._definition, type_)
        ident = data.get("id")
        if ident is not None and (not isinstance(ident, int) or isinstance(ident, bool) or ident < 1):
            self.faults.add((*path, "id"), "`id` must be a whole number from 1")
            ident = None
        priority = data.get("priority", "normal")
        if priority not in ("normal", "override"):
            self.faults.add((*path, "priority"), "`priority` must be `normal` or `override`")
        deny_all_else = shapes.flag(data, "deny_all_else", path, default=False)
        if deny_all_else and ("deny" in data or "deny_exceptions" in data):
            self.faults.add((*path, "deny_all_else"), "`deny_all_else` cannot stand beside `deny`")
        access = {key: self._access_items(data, key, path) for key in _ACCESS_KEYS}
        if type_ is PolicyType.ACCESS and not (access["allow"] or access["deny"] or deny_all_else):
            self.faults.add(path, f"policy `{name}` allows and denies nothing")
        for key, needs in (("allow_exceptions", "allow"), ("deny_exceptions", "deny")):
            if access[key] and not access[needs]:
                self.faults.add((*path, key), f"`{key}` without `{needs}` has no effect")
        policy = Policy(
            id=ident or 0,
            name=name,
            service=self._definition.name,
            type=type_,
            resources=resources[0],
            additional_resources=tuple(resources[1:]),
            enabled=shapes.flag(data, "enabled", path, default=True),
            priority=1 if priority == "override" else 0,
            allow=access["allow"],
            deny=access["deny"],
            allow_exceptions=access["allow_exceptions"],
            deny_exceptions=access["deny_exceptions"],
            masks=self._mask_items(data, path),
            filters=self._filter_items(data, path),
            deny_all_else=deny_all_else,
            audited=shapes.flag(data, "audited", path, default=True),
            description=shapes.text(data, "description", path),
            place=self.document.place(path),
        )
        shapes.check_depth(policy, path, self._definition)
        self.policies.append((policy, path, ident is not None))

    def _unknown(self, data: Mapping[str, Any], allowed: tuple[str, ...], path: Path, what: str) -> None:
        for key in data:
            if key in _LATER and key not in allowed:
                self.faults.add((*path, key), f"{_LATER[key]} are not evaluated, so `{key}` is refused")
        known = {key: value for key, value in data.items() if key not in _LATER}
        unknown_keys(known, allowed, path, self.faults, what)

    def _items(
        self, data: Mapping[str, Any], key: str, path: Path, extra: tuple[str, ...]
    ) -> Iterable[tuple[dict[str, Any], dict[str, Any], Path]]:
        """Yield (entry, fields of its PolicyItem, place) for the items under `key`."""
        if key in data and not data[key]:
            self.faults.add((*path, key), f"`{key}` must not be empty")
        for i, entry in enumerate(self._shapes.sequence(data, key, path)):
            where: Path = (*path, key, i)
            found = self._shapes.mapping(entry, where)
            self._unknown(found, (*_WHO_KEYS, "access", *extra), where, "an item")
            who = {k: frozenset(self._shapes.texts(found, k, where)) for k in _WHO_KEYS}
            if not any(who.values()):
                self.faults.add(where, "an item needs `users`, `groups` or `roles`; `public` is everybody")
            yield found, {**who, "place": self.document.place(where)}, where

    def _accesses(
        self, found: Mapping[str, Any], where: Path, possible: frozenset[str], default: frozenset[str]
    ) -> frozenset[str]:
        listed = self._shapes.texts(found, "access", where)
        if not listed and default:
            return default
        if not listed:
            self.faults.add(where, "an item needs `access`")
        for access in listed:
            if access.lower() not in possible:
                near = hint(access, possible)
                self.faults.add((*where, "access"), f"unknown access type `{access}`{near}")
        return frozenset(access.lower() for access in listed)

    def _access_items(self, data: Mapping[str, Any], key: str, path: Path) -> tuple[PolicyItem, ...]:
        possible = frozenset(access.name for access in self._definition.access_types)
        return tuple(
            PolicyItem(**who, accesses=self._accesses(found, where, possible, frozenset()))
            for found, who, where in self._items(data, key, path, ())
        )

    def _mask_items(self, data: Mapping[str, Any], path: Path) -> tuple[MaskItem, ...]:
        items = []
        defined = {mask.name for mask in self._definition.mask_types}
        for found, who, where in self._items(data, "mask", path, ("type", "show", "predicate")):
            type_ = self._shapes.text(found, "type", where, required=True)
            known = sorted(defined & set(MASK_TYPES))
            if type_ and type_ not in known:
                self.faults.add((*where, "type"), f"unknown mask type `{type_}`{hint(type_, known)}")
            show = self._shapes.text(found, "show", where) or None
            if (type_ == "CUSTOM") != (show is not None):
                needs = "needs `show`, its expression" if type_ == "CUSTOM" else "takes no `show`"
                self.faults.add((*where, "show"), f"mask type `{type_}` {needs}")
            for fault in faults_of(show or "", "mask"):
                self.faults.add((*where, "show"), fault)
            predicate = found.get("predicate", "masked")
            if predicate not in ("masked", "deny"):
                self.faults.add((*where, "predicate"), "`predicate` must be `masked` or `deny`")
            accesses = self._definition.mask_accesses
            items.append(
                MaskItem(
                    **who,
                    accesses=self._accesses(found, where, accesses, accesses),
                    mask_type=type_,
                    value_expression=show,
                    predicate=str(predicate),
                )
            )
        return tuple(items)

    def _filter_items(self, data: Mapping[str, Any], path: Path) -> tuple[FilterItem, ...]:
        items = []
        for found, who, where in self._items(data, "filter", path, ("where",)):
            text = found.get("where")
            if not isinstance(text, str):
                self.faults.add((*where, "where"), "`where` must be a text; an empty one means every row")
                text = "FALSE"
            for fault in faults_of(text, "filter"):
                self.faults.add((*where, "where"), fault)
            accesses = self._definition.filter_accesses
            items.append(
                FilterItem(
                    **who,
                    accesses=self._accesses(found, where, accesses, accesses),
                    filter_expression=text.strip(),
                )
            )
        return tuple(items)


def _numbered(packs: Iterable[_Pack]) -> tuple[Policy, ...]:
    """Return all policies with ids: those given, and the smallest free numbers in order for the others."""
    taken: dict[int, str] = {}
    names: dict[tuple[str, str], str] = {}
    for pack in packs:
        for policy, path, given in pack.policies:
            place = str(pack.document.place(path))
            if given and policy.id in taken:
                pack.faults.add((*path, "id"), f"id {policy.id} is taken already ({taken[policy.id]})")
            elif given:
                taken[policy.id] = place
            named = (policy.service, policy.name)
            if policy.name and named in names:
                pack.faults.add(
                    (*path, "name"), f"there is a policy named `{policy.name}` already ({names[named]})"
                )
            names.setdefault(named, place)
    numbered = []
    free = 1
    for pack in packs:
        for policy, _, given in pack.policies:
            if given:
                numbered.append(policy)
                continue
            while free in taken:
                free += 1
            numbered.append(replace(policy, id=free))
            free += 1
    return tuple(numbered)


def _merged_roles(packs: Iterable[_Pack]) -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for pack in packs:
        for name, (role, path) in pack.roles.items():
            if name in roles:
                pack.faults.add(path, f"there is a role named `{name}` already")
            roles.setdefault(name, role)
    return roles


def _check_roles(packs: Iterable[_Pack], roles: Mapping[str, Role]) -> None:
    """A role inside a role must exist; roles of items may come from the directory, so they need not."""
    for pack in packs:
        for role, path in pack.roles.values():
            for inner in sorted(role.roles - roles.keys()):
                pack.faults.add((*path, "roles"), f"there is no role `{inner}`{hint(inner, roles)}")
