"""One policy in Ranger's JSON becomes a Policy; what is wrong with it is told with its id and name."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

from gateway.model.policy import (
    Condition,
    FileLine,
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicyType,
    ResourceSet,
    ResourceValues,
    ServiceDef,
)
from gateway.policy.authors import authors_in, checks_writes, digest
from gateway.policy.conditions import Untranslatable, compile_condition, is_known
from gateway.policy.diagnostics import Diagnostics, Path, hint
from gateway.policy.globs import LOST_STAR, has_wildcard
from gateway.policy.hierarchy import level_sets
from gateway.policy.json_shapes import Reader, boolean
from gateway.policy.macros import compile_template
from gateway.policy.masks import MASK_TYPES
from gateway.policy.schedule_json import read_schedules
from gateway.policy.service_defs import MARKERS
from gateway.policy.sqltext import faults_of
from gateway.policy.transformers import is_understood, sql_of
from gateway.policy.unusable import build_invalid_policy

H = TypeVar("H", bound=Hashable)
T = TypeVar("T")

_NO_CONDITIONS: tuple[Condition, ...] = ()
_NOTHING: tuple[object, ...] = (None, [])
"""What a list may be that is not there; all else is looked at, were it only to tell that it is no list."""
UNREAD = ResourceValues(values=())
"""Placeholder for a level whose values are invalid."""
_CHECKED = 8192
"""Texts that were checked and are remembered; most policies say the same few things."""
_VALUES_ALONE = frozenset({"values", "isExcludes", "isRecursive"})
_PLAIN = re.compile(r"[A-Za-z0-9_]+")
_LONGEST_KEPT = 512
"""Characters of a part of a policy that is remembered as it was read."""

_KINDS = {PolicyType.ACCESS: "", PolicyType.MASK: "mask ", PolicyType.ROW_FILTER: "row-filter "}


class RangerPolicyReader:
    """Reads the policies of one service, or of a tag service for one service.

    With a `prefix`, access and mask types are written `prefix:select`; those of other prefixes are left out,
    as are items and policies that say nothing without them. With `strict` an access type that nobody knows is
    a fault also where it would grant nothing.
    """

    def __init__(
        self, definition: ServiceDef, service: str, prefix: str = "", *, strict: bool = False
    ) -> None:
        self.definition = definition
        self.strict = strict
        self.service = service
        self.prefix = f"{prefix.lower()}:" if prefix else ""
        self.accesses = {access.name for access in definition.access_types}
        self.markers = {marker.name for marker in definition.markers}
        self.levels = {type_: {d.name for d in definition.levels(type_)} for type_ in PolicyType}
        self.known_levels = {level.name for level in definition.resources}
        self.literal = {
            type_: {d.name for d in definition.levels(type_) if not d.wildcard} for type_ in PolicyType
        }
        """Levels that take no wildcards."""
        self.hierarchies = {type_: level_sets(definition.levels(type_)) for type_ in PolicyType}
        self.mask_types = {mask.name: mask.transformer for mask in definition.mask_types}
        self.conditions = {condition.name: condition for condition in definition.conditions}
        self._checked: dict[tuple[str, Hashable], tuple[list[str], list[str]]] = {}
        self._shared: dict[Hashable, Any] = {}
        self._read: dict[tuple[Hashable, str], Any] = {}
        self._plain: dict[str, ResourceValues] = {}

    def read(self, raw: object, findings: Diagnostics, path: Path, zone: str = "") -> Policy | None:
        """Return the policy; None when it is at fault, or says nothing about this service."""
        return _PolicyReading(self, findings, path, zone).policy(raw)

    def build_invalid_policy(
        self, raw: object, policy: Policy | None, faults: tuple[str, ...], zone: str
    ) -> Policy:
        """Return what a policy at fault is about, with the faults. One that only allows is switched off:
        without it nobody gets anything."""
        data = raw if isinstance(raw, Mapping) else {}
        # One that is no list, or no flag, may be of denials; and of one without any items nobody can tell.
        denies = data.get("denyPolicyItems") not in _NOTHING or (
            data.get("isDenyAllElse") is not None and boolean(data["isDenyAllElse"]) is not False
        )
        return build_invalid_policy(
            policy,
            faults,
            service=self.service,
            zone=zone,
            guards=denies or data.get("policyType") not in (None, 0) or "policyItems" not in data,
            # Without resources it never matches, as in Ranger. Where these are missing or none, they are any.
            named=data.get("resources") != {} or bool(data.get("additionalResources")),
        )

    def find_plain(self, written: object) -> ResourceValues | None:
        """Return what a level says that names one thing in letters and digits, of which nothing is noted."""
        if type(written) is not dict or not written.keys() <= _VALUES_ALONE:
            return None
        values = written.get("values")
        if type(values) is not list or len(values) != 1 or type(values[0]) is not str:
            return None
        for flag in (written.get("isExcludes"), written.get("isRecursive")):
            if flag is not None and flag is not False:
                return None
        (text,) = values
        found = self._plain.get(text)
        if found is None and _PLAIN.fullmatch(text):
            found = self._plain[text] = ResourceValues(values=(text,))
        return found

    def share(self, value: H) -> H:
        """Return an equal value that was seen before: policies repeat each other's names and values."""
        shared: H = self._shared.setdefault(value, value)
        return shared

    def forget(self) -> None:
        """Let go of what was shared and checked, once a load is over."""
        self._shared.clear()
        self._checked.clear()
        self._read.clear()
        self._plain.clear()

    def once(self, kind: Hashable, written: object, findings: Diagnostics, read: Callable[[], T]) -> T:
        """Return what a part of a policy says, from memory when the same was read before.

        INVARIANT (a fault is told of every policy that has it): only what nothing was noted of is remembered.
        """
        key = kind, repr(written)  # no two values of JSON have the same
        found: T | None = self._read.get(key)
        if found is None:
            before = findings.noted
            found = read()
            if findings.noted == before and len(key[1]) <= _LONGEST_KEPT:
                if len(self._read) >= _CHECKED:
                    self._read.clear()
                self._read[key] = found
        return found

    def check_once(
        self, kind: str, key: Hashable, check: Callable[[], tuple[list[str], list[str]]]
    ) -> tuple[list[str], list[str]]:
        """Return (faults, warnings) of a text, from memory when it was checked before."""
        found = self._checked.get((kind, key))
        if found is None:
            if len(self._checked) >= _CHECKED:
                self._checked.clear()
            found = self._checked[kind, key] = check()
        return found


class _PolicyReading:
    def __init__(self, reader: RangerPolicyReader, findings: Diagnostics, path: Path, zone: str) -> None:
        self._of = reader
        self._reader = Reader(findings)
        self._path = path
        self._zone = zone
        self._place: FileLine | None = None

    def policy(self, raw: object) -> Policy | None:
        reader, path = self._reader, self._path
        if not isinstance(raw, Mapping):
            self._reader.fault(path, "a policy must be an object (`{…}`)")
            return None
        name = reader.text(raw, "name", path)
        number = raw.get("id")
        numbered = "policy" if number is None else f"policy {number}"
        reader.label = f"{numbered} `{name}`: " if name else f"{numbered}: "
        self._place = reader.findings.place(path)
        if number is None:
            self._reader.fault(path, "`id` is missing")
        self._check_service(raw)
        type_ = self._type(raw)
        resources, additional = self._resource_sets(raw, type_)
        policy = Policy(
            id=reader.number(raw, "id", path, -1),
            name=name,
            service=self._of.service,
            type=type_,
            resources=resources,
            version=reader.number(raw, "version", path, 1),
            additional_resources=additional,
            enabled=reader.flag(raw, "isEnabled", path, default=True),
            priority=self._priority(raw),
            allow=self._items(raw, "policyItems", opens=True),
            deny=self._items(raw, "denyPolicyItems"),
            allow_exceptions=self._items(raw, "allowExceptions"),
            deny_exceptions=self._items(raw, "denyExceptions", opens=True),
            masks=self._masks(raw),
            filters=self._filters(raw),
            conditions=self._conditions(raw, path) if raw.get("conditions") not in _NOTHING else (),
            deny_all_else=reader.flag(raw, "isDenyAllElse", path, default=False),
            schedules=read_schedules(raw, "validitySchedules", reader, path)
            if raw.get("validitySchedules") not in _NOTHING
            else (),
            zone=self._zone_name(raw),
            labels=self._of.share(reader.texts(raw, "policyLabels", path)) if raw.get("policyLabels") else (),
            audited=reader.flag(raw, "isAuditEnabled", path, default=True),
            description=reader.text(raw, "description", path),
            guid=reader.text(raw, "guid", path),
            is_closing=False,
            broken=(),
            every_zone=False,
            place=self._place,
        )
        if self._of.prefix and _says_nothing(policy):
            return None
        return policy

    def _type(self, raw: Mapping[str, Any]) -> PolicyType:
        number = self._reader.number(raw, "policyType", self._path)
        try:
            return PolicyType(number)
        except ValueError:
            self._reader.fault(
                (*self._path, "policyType"), f"unknown policy type {number}; the types are 0, 1 and 2"
            )
            return PolicyType.ACCESS

    def _priority(self, raw: Mapping[str, Any]) -> int:
        number = self._reader.number(raw, "policyPriority", self._path)
        if number not in (0, 1):
            self._reader.fault(
                (*self._path, "policyPriority"), f"priority must be 0 (normal) or 1 (override), not {number}"
            )
        return number

    def _check_service(self, raw: Mapping[str, Any]) -> None:
        """Policies are of the service in whose list they stand, whatever they say, as in Ranger."""
        own = self._reader.text(raw, "service", self._path)
        if own and own != self._of.service:
            told = f"it names service `{own}` but is among the policies of `{self._of.service}`"
            self._reader.warn((*self._path, "service"), f"{told}, where it is applied")

    def _zone_name(self, raw: Mapping[str, Any]) -> str:
        """Policies are of the zone in whose list they stand, whatever they say; tag policies name theirs."""
        own = self._reader.text(raw, "zoneName", self._path)
        if self._of.prefix:
            return self._of.share(own)
        if own and own != self._zone:
            where = f"zone `{self._zone}`" if self._zone else "no zone"
            self._reader.warn(
                (*self._path, "zoneName"),
                f"it names zone `{own}` but is among the policies of {where}, where it is applied",
            )
        return self._zone

    # Resources

    def _resource_sets(
        self, raw: Mapping[str, Any], type_: PolicyType
    ) -> tuple[ResourceSet, tuple[ResourceSet, ...]]:
        primary = self._resource_set(raw.get("resources"), (*self._path, "resources"), type_)
        if raw.get("additionalResources") in _NOTHING:
            return primary, ()
        already = len(self._reader.findings.faults)
        entries = self._reader.entries(raw, "additionalResources", self._path)
        # Of what is no object nobody can tell what it is about.
        unread: tuple[ResourceSet, ...] = ({},) if len(self._reader.findings.faults) > already else ()
        return primary, (*unread, *(self._resource_set(entry, where, type_) for entry, where in entries))

    def _resource_set(self, value: object, path: Path, type_: PolicyType) -> ResourceSet:
        data = self._reader.read_mapping(value, path)
        if not data:
            self._reader.warn(path, "a policy without resources never matches")
            return {}
        of = self._of
        found = {}
        for level, written in data.items():
            if level not in of.known_levels:
                self._reader.fault((*path, level), f"unknown level `{level}`{hint(level, of.known_levels)}")
                continue
            if (plain := of.find_plain(written)) is not None:
                found[level] = plain
                continue
            already = len(self._reader.findings.faults)
            values = of.once(
                (type_, level),
                written,
                self._reader.findings,
                partial(self._level, written, level, (*path, level), type_),
            )
            found[level] = values if len(self._reader.findings.faults) == already else UNREAD
        if found and len(found) == len(data) and frozenset(found) not in of.hierarchies[type_]:
            self._reader.warn(path, self._unreachable(found, type_))
        return found

    def _level(self, written: object, level: str, path: Path, type_: PolicyType) -> ResourceValues:
        values = self._of.share(read_values(written, self._reader, path))
        for text in values.values:
            if "${{" in text:
                self._template(text, path)
            elif level in self._of.literal[type_] and has_wildcard(text):
                told = f"{_KINDS[type_]}policies do not support wildcards at level `{level}`"
                self._reader.warn(path, f"{told}: `{text}` is read as a name")
            elif LOST_STAR.search(text):
                read = LOST_STAR.sub("", text)
                told = f"a `*` before a `?` is lost, so that `{text}` is `{read}`; write `?*`"
                self._reader.warn(path, told)
        return values

    def _unreachable(self, levels: Mapping[str, object], type_: PolicyType) -> str:
        kind = _KINDS[type_]
        beyond = [name for name in levels if name not in self._of.levels[type_]]
        if beyond:
            return f"{kind}policies do not support level `{beyond[0]}`, so it never matches"
        names = "`, `".join(levels)
        return f"`{names}` alone does not form a path from the root of the resources, so it never matches"

    def _template(self, text: str, path: Path) -> None:
        def check() -> tuple[list[str], list[str]]:
            try:
                compile_template(text)
            except Untranslatable as error:
                return [str(error)], []
            return [], []

        self._tell(self._of.check_once("template", text, check), path)

    def _tell(self, found: tuple[list[str], list[str]], path: Path) -> None:
        for fault in found[0]:
            self._reader.fault(path, fault)
        for warning in found[1]:
            self._reader.warn(path, warning)

    # Items

    def _items(self, raw: Mapping[str, Any], key: str, *, opens: bool = False) -> tuple[PolicyItem, ...]:
        """Return the items of a list; with `opens` they can only give access, never take it."""
        written = raw.get(key)
        if not written:
            if written not in _NOTHING:
                self._reader.read_list(raw, key, self._path)  # tells when it is empty and yet no list
            return ()
        found = []
        for entry, where in self._reader.entries(raw, key, self._path):
            who = self._who(entry, where, opens=opens)
            if who is not None:
                found.append(PolicyItem(**who))
        return tuple(found)

    def _who(self, entry: Mapping[str, Any], path: Path, *, opens: bool = False) -> dict[str, Any] | None:
        """Return the fields that all items have; None when the item is for other services only."""
        if entry.get("conditions") not in _NOTHING:
            return self._read_who(entry, path, opens=opens)
        read = partial(self._read_who, entry, path, opens=opens)
        who = self._of.once(opens, entry, self._reader.findings, read)
        return None if who is None else {**who, "place": self._place}

    def _read_who(self, entry: Mapping[str, Any], path: Path, *, opens: bool) -> dict[str, Any] | None:
        reader, share = self._reader, self._of.share
        accesses, foreign = self._access_names(entry, path, opens=opens)
        delegate = reader.flag(entry, "delegateAdmin", path, default=False)
        if foreign and not accesses and not delegate:
            return None
        return {
            "users": self._names(entry, "users", path),
            "groups": self._names(entry, "groups", path),
            "roles": self._names(entry, "roles", path),
            "accesses": share(accesses),
            "conditions": self._conditions(entry, path)
            if entry.get("conditions") not in _NOTHING
            else _NO_CONDITIONS,
            "delegate_admin": delegate,
            "place": self._place,
        }

    def _names(self, entry: Mapping[str, Any], key: str, path: Path) -> frozenset[str]:
        found = self._reader.names(entry, key, path)
        for name in sorted(name for name in found if name != name.strip()):
            self._reader.warn((*path, key), f"`{name}` has surrounding blanks, so it matches nobody")
        return self._of.share(found)

    def _access_names(
        self, entry: Mapping[str, Any], path: Path, *, opens: bool
    ) -> tuple[frozenset[str], bool]:
        """Return the access types, lower case, and whether some were for other services.

        One that nobody knows grants nothing where the item `opens`, as in Ranger. Elsewhere it is a fault: it
        may stand for the access that was to be denied, masked or filtered.
        """
        of, found, foreign = self._of, set[str](), False
        for access, where in self._reader.entries(entry, "accesses", path):
            written = self._reader.read_required(access, "type", where)
            name = written.strip().lower()  # RULE (access-types-any-case)
            if of.prefix and ":" in name:
                if not name.startswith(of.prefix):
                    foreign = True
                    continue
                name = name[len(of.prefix) :]
            if not self._reader.flag(access, "isAllowed", where, default=True):  # RULE (access-not-allowed)
                continue  # grants nothing, in Ranger too
            if name not in of.accesses and name:
                if name not in of.markers and name not in MARKERS:
                    told = f"unknown access type `{written}`{hint(name, of.accesses)}"
                    if opens and not of.strict:  # RULE (unknown-grants-nobody)
                        self._reader.warn((*where, "type"), f"{told}: it grants nothing")
                    else:
                        self._reader.fault((*where, "type"), told)
                elif name not in of.markers:
                    self._reader.warn(
                        where,
                        f"the service definition does not define `{written}`: it grants nothing",
                    )
            found.add(name)
        return frozenset(found), foreign

    def _conditions(self, data: Mapping[str, Any], path: Path) -> tuple[Condition, ...]:
        found = []
        for entry, where in self._reader.entries(data, "conditions", path):
            condition = Condition(
                type=self._reader.read_required(entry, "type", where),
                values=tuple(self._reader.literals(entry, "values", where)),
            )
            self._tell(
                self._of.check_once("condition", condition, lambda c=condition: self._check(c)),  # type: ignore[misc]
                where,
            )
            found.append(condition)
        return tuple(found)

    def _check(self, condition: Condition) -> tuple[list[str], list[str]]:
        definition = self._of.conditions.get(condition.type)
        against = "it counts against access"
        if definition is None:
            near = hint(condition.type, self._of.conditions)
            return [], [f"unknown condition `{condition.type}`{near}: {against}"]
        try:
            compile_condition(condition, definition)
        except Untranslatable as error:
            return [f"condition `{condition.type}`: {error}"], []
        if not is_known(definition):
            return [], [f"condition `{condition.type}` is not supported ({definition.evaluator}): {against}"]
        return [], []

    def _masks(self, raw: Mapping[str, Any]) -> tuple[MaskItem, ...]:
        if raw.get("dataMaskPolicyItems") in _NOTHING:
            return ()
        found = []
        for entry, where in self._reader.entries(raw, "dataMaskPolicyItems", self._path):
            info = self._reader.field(entry, "dataMaskInfo", where)
            place = (*where, "dataMaskInfo")
            mask_type = self._reader.read_required(info, "dataMaskType", place)
            who = self._who(entry, where)
            if self._of.prefix and ":" in mask_type:
                prefix, _, mask_type = mask_type.partition(":")
                if f"{prefix.lower()}:" != self._of.prefix:
                    continue
            if who is None:
                continue
            expression = info.get("valueExpr") and self._reader.text(info, "valueExpr", place).strip()
            condition = info.get("conditionExpr") and self._reader.text(info, "conditionExpr", place)
            self._check_mask(mask_type, expression, place)
            found.append(
                MaskItem(
                    **who,
                    mask_type=mask_type,
                    value_expression=expression or None,
                    transformer=sql_of(mask_type, self._of.mask_types.get(mask_type, "")),
                    condition_expression=condition or None,
                    author=authors_in(raw).get(digest(expression or ""), ""),
                )
            )
        return tuple(found)

    def _check_mask(self, mask_type: str, expression: str | None, path: Path) -> None:
        if mask_type and mask_type not in self._of.mask_types:
            near = hint(mask_type, self._of.mask_types or MASK_TYPES)
            self._reader.warn(path, f"unknown mask type `{mask_type}`{near}: the column will show NULL")
        elif mask_type and mask_type not in MASK_TYPES and not is_understood(self._of.mask_types[mask_type]):
            told = f"what mask type `{mask_type}` shows is not supported: the column will show NULL"
            self._reader.warn(path, told)
        custom = mask_type.rpartition(":")[2] == "CUSTOM"
        if custom and not expression:
            self._reader.warn(path, "a custom mask without an expression shows NULL")
        if custom and expression:
            self._sql(expression, "mask", (*path, "valueExpr"))

    def _filters(self, raw: Mapping[str, Any]) -> tuple[FilterItem, ...]:
        if raw.get("rowFilterPolicyItems") in _NOTHING:
            return ()
        found = []
        for entry, where in self._reader.entries(raw, "rowFilterPolicyItems", self._path):
            info = self._reader.field(entry, "rowFilterInfo", where)
            place = (*where, "rowFilterInfo")
            who = self._who(entry, where)
            if who is None:
                continue
            if info.get("filterExpr") is None:  # RULE (absent-filter)
                self._reader.warn(place, "an item without `filterExpr` has no effect; the next one is tried")
                continue
            text = self._reader.text(info, "filterExpr", place).strip()
            self._sql(text, "filter", (*place, "filterExpr"))
            author = authors_in(raw).get(digest(text), "")
            check = checks_writes(raw)
            found.append(FilterItem(**who, filter_expression=text, author=author, check=check))
        return tuple(found)

    def _sql(self, text: str, kind: str, path: Path) -> None:
        self._tell(self._of.check_once(kind, text, lambda: (faults_of(text, kind), [])), path)


def read_values(written: object, reader: Reader, path: Path) -> ResourceValues:
    """Return the values of one level, as policies, zones and tagged resources write them."""
    if isinstance(written, list):  # zones list the values alone
        written = {"values": written}
    data = reader.read_mapping(written, path)
    return ResourceValues(
        values=reader.texts(data, "values", path),
        excludes=reader.flag(data, "isExcludes", path, default=False),
        recursive=reader.flag(data, "isRecursive", path, default=False),
    )


def _says_nothing(policy: Policy) -> bool:
    """Whether a tag policy is left with nothing to say to this service, so that nobody would miss it."""
    items = policy.allow or policy.deny or policy.allow_exceptions or policy.deny_exceptions
    return not (items or policy.masks or policy.filters or policy.deny_all_else or policy.audited)
