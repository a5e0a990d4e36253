"""A service's policies compiled and filed by zone and type, and exchanged a few at a time."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.model.policy import Policy, PolicyType, ResourceSet, ServiceDef, TaggedResource
from gateway.policy.compiled import AccessBits, CompiledPolicy
from gateway.policy.hierarchy import Entry, Ways, compile_entry, ways_down
from gateway.policy.index import Index
from gateway.policy.matching import is_file_path
from gateway.policy.path_denials import PathDenials

Section = tuple[str, PolicyType]
"""Security zone (empty: none) and type."""
_NOTHING = Index()
T = TypeVar("T", Policy, TaggedResource)


@dataclass(frozen=True, slots=True)
class Exchange(Generic[T]):
    """How one list became another."""

    gone: list[T]
    came: list[T]
    twins: list[tuple[T, T]]
    """What is another object now but equal, and has the same number."""


def exchanged(old: Sequence[T], new: Sequence[T]) -> Exchange[T]:
    """Compare two lists by identity, and what is left by number and equality.

    Lists that are mostly the same objects in the same order are compared in portions, at a hundredth of what
    looking at each item would take. No step keeps other threads waiting for long.
    """
    gone, came = _unlike(old, new)
    twins: list[tuple[T, T]] = []
    if gone and came:
        by_number: dict[int, list[T]] = {}
        for item in gone.values():
            by_number.setdefault(item.id, []).append(item)
        for item in list(came.values()):
            twin = next((twin for twin in by_number.get(item.id, ()) if twin == item), None)
            if twin is not None:
                by_number[item.id].remove(twin)
                twins.append((twin, item))
                del gone[id(twin)], came[id(item)]
    return Exchange(list(gone.values()), list(came.values()), twins)


_PORTION = 512


def _unlike(old: Sequence[T], new: Sequence[T]) -> tuple[dict[int, T], dict[int, T]]:
    """Return what is in one list only, by the ids of the objects."""
    rest_old, rest_new = dict[int, T](), dict[int, T]()
    i = j = 0
    while i < len(old) and j < len(new):
        # Sequences find the same object equal without comparing it; what differs is looked at one by one.
        portion_old, portion_new = old[i : i + _PORTION], new[j : j + _PORTION]
        if all(map(operator.is_, portion_old, portion_new)) and len(portion_old) == len(portion_new):
            i, j = i + _PORTION, j + _PORTION
            continue
        while i < len(old) and j < len(new) and old[i] is new[j]:
            i, j = i + 1, j + 1
        if i < len(old) and j < len(new):
            skip_old, skip_new = _in_step(old, i, new, j)
            rest_old |= {id(item): item for item in old[i : i + skip_old]}
            rest_new |= {id(item): item for item in new[j : j + skip_new]}
            i, j = i + skip_old, j + skip_new
    rest_old |= {id(item): item for item in old[i:]}
    rest_new |= {id(item): item for item in new[j:]}
    for ident in rest_old.keys() & rest_new.keys():  # moved
        del rest_old[ident], rest_new[ident]
    return rest_old, rest_new


def _in_step(old: Sequence[T], i: int, new: Sequence[T], j: int) -> tuple[int, int]:
    """Return how much of each list to skip until they go on alike, or all of both."""
    for distance in range(1, 9):
        for skip in range(distance + 1):
            for a, b in ((distance, skip), (skip, distance)):
                if i + a < len(old) and j + b < len(new) and old[i + a] is new[j + b]:
                    return a, b
    return len(old) - i, len(new) - j


class Filing:
    """Policies of one service, or of its tag service. Immutable but for the making."""

    __slots__ = (
        "_conditional",
        "_ways",
        "bits",
        "compiled",
        "definition",
        "denying",
        "indexes",
        "path_denials",
        "policies",
    )

    def __init__(self, policies: Sequence[Policy], definition: ServiceDef, bits: AccessBits) -> None:
        self.definition, self.bits = definition, bits
        self._ways: dict[PolicyType, Ways] = {t: ways_down(definition.levels(t)) for t in PolicyType}
        self.policies = policies
        self.compiled: dict[int, tuple[CompiledPolicy, tuple[Entry, ...]]] = {}
        """Id of the policy object → what was made of it. `policies` keeps those objects, and so their ids."""
        self._conditional: bool | None = None
        self.denying: dict[CompiledPolicy, tuple[Entry, ...]] = {}
        """Access policies that deny something."""
        entries: dict[Section, list[Entry]] = {}
        for policy in policies:
            self._file(policy, entries)
        self.path_denials = self._path_denials()
        self.indexes = {section: Index(found) for section, found in entries.items() if found}

    @property
    def conditional(self) -> bool:
        """Whether some policy has a condition, a schedule or a script."""
        if self._conditional is None:
            made = self.compiled.values()
            self._conditional = any(
                p.conditional or any(e.facets or e.scripted for e in es) for p, es in made
            )
        return self._conditional

    def _path_denials(self) -> PathDenials:
        levels = [level.name for level in self.definition.resources if is_file_path(level)]
        found = [p for p, es in self.denying.items() if any(e.levels[-1] in levels for e in es if e.levels)]
        return PathDenials(found, levels)

    def index(self, zone: str, type_: PolicyType) -> Index:
        return self.indexes.get((zone, type_), _NOTHING)

    def entries_of(self, policy: CompiledPolicy) -> tuple[Entry, ...]:
        """Return an entry for each of the policy's resource sets that can match something."""
        ways = self._ways[policy.policy.type]
        sets: tuple[ResourceSet, ...] = (policy.policy.resources, *policy.policy.additional_resources)
        found = (compile_entry(policy, resources, ways) for resources in sets)
        return tuple([entry for entry in found if entry is not None])

    def way_of(self, type_: PolicyType) -> Ways:
        return self._ways[type_]

    def changed(self, policies: Sequence[Policy]) -> Filing:
        """Return the filing of another list of policies, sharing what has not changed."""
        if policies is self.policies:
            return self
        change = exchanged(self.policies, policies)
        filing = Filing((), self.definition, self.bits)
        filing._ways = self._ways
        filing.policies = policies
        filing.compiled = dict(self.compiled)
        filing.denying = dict(self.denying)
        out: dict[Section, list[Entry]] = {}
        new: dict[Section, list[Entry]] = {}
        for policy in change.gone:
            made = filing.compiled.pop(id(policy), None)
            if made is not None:
                filing.denying.pop(made[0], None)
                out.setdefault(_section(policy), []).extend(made[1])
        for twin, policy in change.twins:
            if policy.enabled:
                filing.compiled[id(policy)] = filing.compiled.pop(id(twin))
        for policy in change.came:
            filing._file(policy, new)
        same = filing.denying.keys() == self.denying.keys()
        filing.path_denials = self.path_denials if same else filing._path_denials()
        filing.indexes = dict(self.indexes)
        for section in {**out, **new}:
            index = self.indexes.get(section, _NOTHING)
            index = filing.indexes[section] = index.changed(out.get(section, ()), new.get(section, ()))
            if not index:
                del filing.indexes[section]
        return filing

    def _file(self, policy: Policy, entries: dict[Section, list[Entry]]) -> None:
        if not policy.enabled:
            return
        compiled = CompiledPolicy(policy, self.definition, self.bits)
        found = self.entries_of(compiled)
        self.compiled[id(policy)] = (compiled, found)
        if compiled.denies:
            self.denying[compiled] = found
        entries.setdefault(_section(policy), []).extend(found)


def _section(policy: Policy) -> Section:
    return policy.zone, policy.type


def entries_for(of: object, sets: Iterable[ResourceSet], ways: Ways) -> list[Entry]:
    """Return an entry for each resource set that can match something."""
    return [entry for resources in sets if (entry := compile_entry(of, resources, ways)) is not None]
