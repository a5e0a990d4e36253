"""Policies of packs: one entry under `policies:` becomes a Policy, or faults with their lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.model.policy import FilterItem, MaskItem, Policy, PolicyItem, PolicyType, ServiceDef
from gateway.model.principal import identity_of
from gateway.policy.diagnostics import Path, hint, list_unknown_keys
from gateway.policy.masks import MASK_TYPES
from gateway.policy.packs.conditions import read_conditions
from gateway.policy.packs.shapes import Shapes
from gateway.policy.packs.times import read_validity
from gateway.policy.sqltext import faults_of
from gateway.policy.transformers import is_understood, sql_of
from gateway.policy.unusable import build_invalid_policy

ACCESS_KEYS = ("allow", "deny", "allow_exceptions", "deny_exceptions")
WHO_KEYS = ("users", "groups", "roles")
_CONDITION_KEYS = ("conditions", "when")
_POLICY_KEYS = (
    "id",
    "name",
    "description",
    "labels",
    "on",
    "zone",
    "enabled",
    "priority",
    "audited",
    "validity",
    *_CONDITION_KEYS,
    *ACCESS_KEYS,
    "deny_all_else",
    "mask",
    "filter",
    "check",
    "author",
    "author_id",
)
_ELSEWHERE = {
    "condition": "conditions",
    "validitySchedules": "validity",
    "schedules": "validity",
    "zoneName": "zone",
    "policyLabels": "labels",
    "delegateAdmin": "delegate_admin",
    "isDenyAllElse": "deny_all_else",
    "policyPriority": "priority",
    "isEnabled": "enabled",
    "isAuditEnabled": "audited",
    "resources": "on",
    "additionalResources": "on",
    "policyItems": "allow",
    "denyPolicyItems": "deny",
    "allowExceptions": "allow_exceptions",
    "denyExceptions": "deny_exceptions",
    "dataMaskPolicyItems": "mask",
    "rowFilterPolicyItems": "filter",
    "filterExpr": "where",
    "valueExpr": "show",
    "dataMaskType": "type",
    "accesses": "access",
}
"""Ranger's spelling of a key → ours, for whoever writes a pack with Ranger's JSON in mind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPolicy:
    """A policy, where it stands, whether it came with its own id, and whether it speaks of tags."""

    policy: Policy
    path: Path
    has_id: bool
    on_tags: bool


class PackPolicyReader:
    """Reads policies of one pack; faults go to `shapes`."""

    def __init__(self, shapes: Shapes, definition: ServiceDef, tags: ServiceDef) -> None:
        self._shapes = shapes
        self._faults = shapes.faults
        self._service = definition
        self._tags = tags

    def read(self, entry: object, path: Path) -> ReadPolicy | None:
        """Return the policy, or None when it is too broken to go on with."""
        shapes = self._shapes
        data = shapes.read_mapping(entry, path)
        if not data:
            self._faults.add(path, "a policy must not be empty")
            return None
        self._unknown(data, _POLICY_KEYS, path, "a policy")
        name = shapes.text(data, "name", path, required=True)
        type_ = self._type(data, name, path)
        if type_ is None:
            return None
        on_tags = _speaks_of_tags(data.get("on"), self._service)
        definition = self._tags if on_tags else self._service
        resources = shapes.resource_sets(data, path, definition, type_)
        ident = data.get("id")
        if ident is not None and (not isinstance(ident, int) or isinstance(ident, bool) or ident < 1):
            self._faults.add((*path, "id"), "`id` must be a whole number from 1")
            ident = None
        priority = data.get("priority", "normal")
        if priority not in ("normal", "override"):
            self._faults.add((*path, "priority"), "`priority` must be `normal` or `override`")
        deny_all_else = shapes.flag(data, "deny_all_else", path, default=False)
        if "check" in data and type_ is not PolicyType.ROW_FILTER:
            self._faults.add((*path, "check"), "`check` belongs to policies with `filter`")
        access = self._access(data, name, path, type_, definition, deny_all_else)
        policy = Policy(
            id=ident or 0,
            name=name,
            service=self._service.name,
            type=type_,
            resources=resources[0],
            additional_resources=tuple(resources[1:]),
            enabled=shapes.flag(data, "enabled", path, default=True),
            priority=1 if priority == "override" else 0,
            allow=access["allow"],
            deny=access["deny"],
            allow_exceptions=access["allow_exceptions"],
            deny_exceptions=access["deny_exceptions"],
            masks=self._mask_items(data, path, definition),
            filters=self._filter_items(data, path, definition),
            conditions=read_conditions(data, path, definition, shapes),
            deny_all_else=deny_all_else,
            schedules=read_validity(data, path, shapes),
            zone=shapes.text(data, "zone", path),
            labels=shapes.texts(data, "labels", path),
            audited=shapes.flag(data, "audited", path, default=True),
            description=shapes.text(data, "description", path),
            place=self._faults.place(path),
        )
        if not on_tags:
            shapes.check_depth(policy, path, self._service)
        return ReadPolicy(policy=policy, path=path, has_id=ident is not None, on_tags=on_tags)

    def build_invalid_policy(
        self, entry: object, read: ReadPolicy | None, path: Path, faults: tuple[str, ...]
    ) -> ReadPolicy:
        """Return what an entry at fault is about, with the faults. One that only allows is switched off:
        without it nobody gets anything."""
        data = entry if isinstance(entry, dict) else {}
        policy = read.policy if read is not None else None
        on_tags = read.on_tags if read is not None else _speaks_of_tags(data.get("on"), self._service)
        if policy is None:
            # Of its kind nothing is known: what it is about is read as of one about access.
            definition = self._tags if on_tags else self._service
            already = len(self._faults.faults)
            sets = self._shapes.resource_sets(data, path, definition, PolicyType.ACCESS)
            self._faults.withdraw(already)
            name, zone = data.get("name"), data.get("zone")
            policy = Policy(
                id=0,
                name=name if isinstance(name, str) else "",
                service=self._service.name,
                type=PolicyType.ACCESS,
                resources=sets[0],
                additional_resources=tuple(sets[1:]),
                enabled=data.get("enabled") is not False,
                zone=zone if isinstance(zone, str) else "",
                place=self._faults.place(path),
            )
        hides = data.keys() & {"deny", "deny_all_else", "mask", "filter"} or {
            # What looks like items, or like a flag, may be a denial whose key was misspelt.
            key
            for key, value in data.items()
            if key not in _POLICY_KEYS
            and (value is True or (isinstance(value, list) and any(isinstance(one, dict) for one in value)))
        }
        guards = "allow" not in data or bool(hides)
        made = build_invalid_policy(
            policy,
            faults,
            service=self._service.name,
            zone=policy.zone,
            guards=guards,
            # One that hides something, of nothing that could be read, may hide anything of its service.
            named=True,
        )
        return ReadPolicy(policy=made, path=path, has_id=read is not None and read.has_id, on_tags=on_tags)

    def _type(self, data: Mapping[str, Any], name: str, path: Path) -> PolicyType | None:
        kinds = {
            PolicyType.ACCESS: [k for k in (*ACCESS_KEYS, "deny_all_else") if k in data],
            PolicyType.MASK: [k for k in ("mask",) if k in data],
            PolicyType.ROW_FILTER: [k for k in ("filter",) if k in data],
        }
        given = [type_ for type_, keys in kinds.items() if keys]
        if len(given) == 1:
            return given[0]
        what = "one of `allow`, `deny`, `mask`, `filter`" if not given else "only one kind of items"
        self._faults.add(path, f"policy `{name}` needs {what}")
        return None

    def _access(
        self,
        data: Mapping[str, Any],
        name: str,
        path: Path,
        type_: PolicyType,
        definition: ServiceDef,
        deny_all_else: bool,
    ) -> dict[str, tuple[PolicyItem, ...]]:
        """Return the four lists of an access policy, checked against each other."""
        if deny_all_else and ("deny" in data or "deny_exceptions" in data):
            self._faults.add((*path, "deny_all_else"), "`deny_all_else` and `deny` exclude each other")
        if not definition.deny_enabled:
            for key in ("deny", "allow_exceptions", "deny_exceptions", "deny_all_else"):
                if key in data:
                    why = f"service `{definition.name}` has deny items and exceptions disabled"
                    self._faults.add((*path, key), f"`{key}` would be ignored: {why}")
        access = {key: self._access_items(data, key, path, definition) for key in ACCESS_KEYS}
        if type_ is PolicyType.ACCESS and not (access["allow"] or access["deny"] or deny_all_else):
            self._faults.add(path, f"policy `{name}` neither allows nor denies anything")
        for key, needs in (("allow_exceptions", "allow"), ("deny_exceptions", "deny")):
            if access[key] and not access[needs]:
                self._faults.add((*path, key), f"`{key}` without `{needs}` has no effect")
        return access

    def _unknown(self, data: Mapping[str, Any], allowed: tuple[str, ...], path: Path, what: str) -> None:
        for key in data:
            ours = _ELSEWHERE.get(key)
            if ours in allowed and key not in allowed:
                self._faults.add((*path, key), f"unknown key `{key}` in {what}; it is called `{ours}` here")
            elif key in ("tag", "tags") and key not in allowed:
                where = "resources are tagged in the section `tags`"
                self._faults.add(
                    (*path, key),
                    f"unknown key `{key}` in {what}; {where}, a policy covers one by `on: {{tag: …}}`",
                )
        known = {
            key: value
            for key, value in data.items()
            if key in allowed or (_ELSEWHERE.get(key) not in allowed and key not in ("tag", "tags"))
        }
        list_unknown_keys(known, allowed, path, self._faults, what)

    def _items(
        self,
        data: Mapping[str, Any],
        key: str,
        path: Path,
        definition: ServiceDef,
        extra: tuple[str, ...],
    ) -> Iterable[tuple[dict[str, Any], dict[str, Any], Path]]:
        """Yield (entry, fields of its PolicyItem, place) for the items under `key`."""
        if key in data and not data[key]:
            self._faults.add((*path, key), f"`{key}` must not be empty")
        for i, entry in enumerate(self._shapes.sequence(data, key, path)):
            where: Path = (*path, key, i)
            found = self._shapes.read_mapping(entry, where)
            self._unknown(found, (*WHO_KEYS, "access", *_CONDITION_KEYS, *extra), where, "an item")
            who = {k: frozenset(self._shapes.texts(found, k, where)) for k in WHO_KEYS}
            if not any(who.values()):
                self._faults.add(
                    where, "an item needs `users`, `groups` or `roles`; the group `public` is everybody"
                )
            yield (
                found,
                {
                    **who,
                    "conditions": read_conditions(found, where, definition, self._shapes),
                    "place": self._faults.place(where),
                },
                where,
            )

    def _accesses(
        self, found: Mapping[str, Any], where: Path, possible: frozenset[str], default: frozenset[str]
    ) -> frozenset[str]:
        listed = self._shapes.texts(found, "access", where)
        if not listed and default:
            return default
        if not listed:
            self._faults.add(where, "an item needs `access`")
        for access in listed:
            if access.lower() not in possible:
                near = hint(access, possible)
                self._faults.add((*where, "access"), f"unknown access type `{access}`{near}")
        return frozenset(access.lower() for access in listed)

    def _access_items(
        self, data: Mapping[str, Any], key: str, path: Path, definition: ServiceDef
    ) -> tuple[PolicyItem, ...]:
        if key not in data:
            return ()
        possible = frozenset(
            access.name.lower() for access in (*definition.access_types, *definition.markers)
        )
        items = []
        for found, who, where in self._items(data, key, path, definition, ("delegate_admin",)):
            delegates = self._shapes.flag(found, "delegate_admin", where, default=False)
            accesses = (
                frozenset[str]()
                if delegates and "access" not in found
                else self._accesses(found, where, possible, frozenset())
            )
            items.append(PolicyItem(**who, accesses=accesses, delegate_admin=delegates))
        return tuple(items)

    def _mask_items(
        self, data: Mapping[str, Any], path: Path, definition: ServiceDef
    ) -> tuple[MaskItem, ...]:
        items = []
        known = {
            mask.name: sql_of(mask.name, mask.transformer)
            for mask in definition.mask_types
            if mask.name in MASK_TYPES or is_understood(mask.transformer)
        }
        extra = ("type", "show", "predicate")
        for found, who, where in self._items(data, "mask", path, definition, extra):
            type_ = self._shapes.text(found, "type", where, required=True)
            if type_ and type_ not in known:
                self._faults.add((*where, "type"), f"unknown mask type `{type_}`{hint(type_, sorted(known))}")
            show = self._shapes.text(found, "show", where) or None
            if (type_ == "CUSTOM") != (show is not None):
                needs = "needs `show`, its expression" if type_ == "CUSTOM" else "takes no `show`"
                self._faults.add((*where, "show"), f"mask type `{type_}` {needs}")
            for fault in faults_of(show or "", "mask"):
                self._faults.add((*where, "show"), fault)
            predicate = found.get("predicate", "masked")
            if predicate not in ("masked", "deny"):
                self._faults.add((*where, "predicate"), "`predicate` must be `masked` or `deny`")
            accesses = definition.mask_accesses
            items.append(
                MaskItem(
                    **who,
                    accesses=self._accesses(found, where, accesses, accesses),
                    mask_type=type_,
                    value_expression=show,
                    transformer=known.get(type_, ""),
                    predicate=str(predicate),
                    author=self._author(data, path),
                )
            )
        return tuple(items)

    def _author(self, data: Mapping[str, Any], path: Path) -> str:
        """Return whose the texts of a policy are, who has no id where none is written."""
        user, id_ = (self._shapes.text(data, key, path) for key in ("author", "author_id"))
        if id_ and not user:
            self._faults.add((*path, "author_id"), "`author_id` is set without `author`")
        return identity_of(user.strip(), id_) if user.strip() else user

    def _filter_items(
        self, data: Mapping[str, Any], path: Path, definition: ServiceDef
    ) -> tuple[FilterItem, ...]:
        items = []
        for found, who, where in self._items(data, "filter", path, definition, ("where",)):
            text = found.get("where")
            if not isinstance(text, str):
                self._faults.add((*where, "where"), "`where` must be a text; an empty text means every row")
                text = "FALSE"
            for fault in faults_of(text, "filter"):
                self._faults.add((*where, "where"), fault)
            accesses = definition.filter_accesses
            items.append(
                FilterItem(
                    **who,
                    accesses=self._accesses(found, where, accesses, accesses),
                    filter_expression=text.strip(),
                    author=self._author(data, path),
                    check=self._shapes.flag(data, "check", path, default=False),
                )
            )
        return tuple(items)


def _speaks_of_tags(on: object, definition: ServiceDef) -> bool:
    """Whether `on` names `tag`, and the service itself has no level of that name."""
    entries = on if isinstance(on, list) else [on]
    named = any(isinstance(entry, dict) and "tag" in entry for entry in entries)
    return named and definition.resource("tag") is None
