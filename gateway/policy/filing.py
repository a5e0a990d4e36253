"""A service's policies compiled and filed by zone and type, and exchanged a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from gateway.model.policy import Policy, PolicyType, ResourceSet, ServiceDef, TaggedResource
from gateway.policy.compiled import AccessBits, CompiledPolicy
from gateway.policy.hierarchy import Entry, Ways, compile_entry, ways_down
from gateway.policy.index import Index

Section = tuple[str, PolicyType]
"""Security zone (empty: none) and type."""
_NOTHING = Index()
T = TypeVar("T", Policy, TaggedResource)


def exchanged(old: Sequence[T], new: Sequence[T], known: Callable[[T], bool]) -> tuple[dict[int, T], list[T]]:
    """Return what of `old` is gone, by the id of the object, and what of `new` has come.

    What is the same object stays, and so does what is equal and has the same number. Only plain loops: none
    of them keeps other threads waiting for longer than the interpreter's switch interval.
    """
    here = {id(item) for item in old}
    stays = {id(item) for item in new}
    gone = {id(item): item for item in old if id(item) not in stays and known(item)}
    came = [item for item in new if id(item) not in here]
    if gone and came:
        by_number: dict[int, list[T]] = {}
        for item in gone.values():
            by_number.setdefault(item.id, []).append(item)
        really = []
        for item in came:
            twins = by_number.get(item.id, [])
            twin = next((twin for twin in twins if twin == item), None)
            if twin is None:
                really.append(item)
            else:
                twins.remove(twin)
                del gone[id(twin)]
        came = really
    return gone, came


class Filing:
    """Policies of one service, or of its tag service. Immutable but for the making."""

    __slots__ = (
        "_conditional",
        "_kept",
        "_ways",
        "bits",
        "compiled",
        "definition",
        "denying",
        "indexes",
        "policies",
    )

    def __init__(self, policies: Sequence[Policy], definition: ServiceDef, bits: AccessBits) -> None:
        self.definition, self.bits = definition, bits
        self._ways: dict[PolicyType, Ways] = {t: ways_down(definition.levels(t)) for t in PolicyType}
        self.policies = policies
        self.compiled: dict[int, tuple[CompiledPolicy, tuple[Entry, ...]]] = {}
        """Id of the policy object → what was made of it. `_kept` keeps those objects, and so their ids."""
        self._kept: dict[int, Policy] = {}
        self._conditional: bool | None = None
        self.denying: dict[CompiledPolicy, tuple[Entry, ...]] = {}
        """Access policies that deny something."""
        entries: dict[Section, list[Entry]] = {}
        for policy in policies:
            self._file(policy, entries)
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

    def index(self, zone: str, type_: PolicyType) -> Index:
        return self.indexes.get((zone, type_), _NOTHING)

    def holds(self, policy: Policy) -> bool:
        return id(policy) in self.compiled

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
        gone, came = exchanged(list(self._kept.values()), policies, self.holds)
        filing = Filing((), self.definition, self.bits)
        filing._ways = self._ways
        filing.policies = policies
        filing.compiled, filing._kept = dict(self.compiled), dict(self._kept)
        filing.denying = dict(self.denying)
        out: dict[Section, list[Entry]] = {}
        new: dict[Section, list[Entry]] = {}
        for ident in gone:
            compiled, entries = filing.compiled.pop(ident)
            del filing._kept[ident]
            filing.denying.pop(compiled, None)
            out.setdefault(_section(compiled.policy), []).extend(entries)
        for policy in came:
            filing._file(policy, new)
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
        self._kept[id(policy)] = policy
        if compiled.denies:
            self.denying[compiled] = found
        entries.setdefault(_section(policy), []).extend(found)


def _section(policy: Policy) -> Section:
    return policy.zone, policy.type


def entries_for(of: object, sets: Iterable[ResourceSet], ways: Ways) -> list[Entry]:
    """Return an entry for each resource set that can match something."""
    return [entry for resources in sets if (entry := compile_entry(of, resources, ways)) is not None]
