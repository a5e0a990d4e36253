"""A service's policies compiled and filed by zone and type, and exchanged a few at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from gateway.model.policy import Policy, PolicyType, ResourceSet, ServiceDef
from gateway.policy import paths
from gateway.policy.compiled import AccessBits, CompiledPolicy
from gateway.policy.hierarchy import Hierarchies, ResourceEntry, compile_entry, hierarchies_of
from gateway.policy.index import Index
from gateway.policy.list_deltas import list_delta
from gateway.policy.matching import SCRIPT_START, is_file_path

_Section = tuple[str, PolicyType]
"""Security zone (empty: none) and type."""
_NOTHING = Index()


class PolicyIndex:
    """Policies of one service, or of its tag service. Immutable but for the making."""

    __slots__ = (
        "_asking",
        "_hierarchies",
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
        self._hierarchies: dict[PolicyType, Hierarchies] = {
            t: hierarchies_of(definition.levels(t)) for t in PolicyType
        }
        self.policies = policies
        self.compiled: dict[int, tuple[CompiledPolicy, tuple[ResourceEntry, ...]]] = {}
        """Id of the policy object → what was made of it. `policies` keeps those objects, and so their ids."""
        self._asking = 0
        """Policies with a condition, a schedule or a script."""
        self.denying: dict[CompiledPolicy, tuple[ResourceEntry, ...]] = {}
        """Access policies that deny something."""
        entries: dict[_Section, list[ResourceEntry]] = {}
        for policy in policies:
            self._file(policy, entries)
        self.path_denials = self._path_denials()
        self.indexes = {section: Index(found) for section, found in entries.items() if found}

    @property
    def conditional(self) -> bool:
        """Whether some policy has a condition, a schedule or a script."""
        return self._asking > 0

    def _path_denials(self) -> PathDenials:
        levels = [level.name for level in self.definition.resources if is_file_path(level)]
        found = [p for p, es in self.denying.items() if any(e.levels[-1] in levels for e in es if e.levels)]
        return PathDenials(found, levels)

    def index(self, zone: str, type_: PolicyType) -> Index:
        return self.indexes.get((zone, type_), _NOTHING)

    def entries_of(self, policy: CompiledPolicy) -> tuple[ResourceEntry, ...]:
        """Return an entry for each of the policy's resource sets that can match something."""
        hierarchies = self._hierarchies[policy.policy.type]
        # RULE (additional-resources)
        sets: tuple[ResourceSet, ...] = (policy.policy.resources, *policy.policy.additional_resources)
        found = (compile_entry(policy, resources, hierarchies) for resources in sets)
        return tuple([entry for entry in found if entry is not None])

    def hierarchies(self, type_: PolicyType) -> Hierarchies:
        return self._hierarchies[type_]

    def rebuild(self, policies: Sequence[Policy]) -> PolicyIndex:
        """Return the index of another list of policies, sharing what has not changed."""
        if policies is self.policies:
            return self
        change = list_delta(self.policies, policies)
        policy_index = PolicyIndex((), self.definition, self.bits)
        policy_index._hierarchies = self._hierarchies
        policy_index.policies = policies
        policy_index.compiled = dict(self.compiled)
        policy_index.denying = dict(self.denying)
        policy_index._asking = self._asking
        out: dict[_Section, list[ResourceEntry]] = {}
        new: dict[_Section, list[ResourceEntry]] = {}
        for policy in change.gone:
            made = policy_index.compiled.pop(id(policy), None)
            if made is not None:
                policy_index._asking -= _asks(*made)
                policy_index.denying.pop(made[0], None)
                out.setdefault(_section(policy), []).extend(made[1])
        for twin, policy in change.unchanged:
            if policy.enabled:
                policy_index.compiled[id(policy)] = policy_index.compiled.pop(id(twin))
        for policy in change.came:
            policy_index._file(policy, new)
        same = policy_index.denying.keys() == self.denying.keys()
        policy_index.path_denials = self.path_denials if same else policy_index._path_denials()
        policy_index.indexes = dict(self.indexes)
        for section in {**out, **new}:
            index = self.indexes.get(section, _NOTHING)
            index = policy_index.indexes[section] = index.with_changes(
                out.get(section, ()), new.get(section, ())
            )
            if not index:
                del policy_index.indexes[section]
        return policy_index

    def _file(self, policy: Policy, entries: dict[_Section, list[ResourceEntry]]) -> None:
        if not policy.enabled:  # RULE (disabled-policies)
            return
        compiled = CompiledPolicy(policy, self.definition, self.bits)
        found = self.entries_of(compiled)
        self.compiled[id(policy)] = (compiled, found)
        self._asking += _asks(compiled, found)
        if compiled.denies:
            self.denying[compiled] = found
        entries.setdefault(_section(policy), []).extend(found)


def _asks(policy: CompiledPolicy, entries: Iterable[ResourceEntry]) -> bool:
    """Say whether what a policy says depends on anything but the subject and the resource's name."""
    return policy.conditional or any(entry.context_dependencies or entry.scripted for entry in entries)


def _section(policy: Policy) -> _Section:
    return policy.zone, policy.type


def entries_for(of: object, sets: Iterable[ResourceSet], hierarchies: Hierarchies) -> list[ResourceEntry]:
    """Return an entry for each resource set that can match something."""
    return [entry for resources in sets if (entry := compile_entry(of, resources, hierarchies)) is not None]


# Denials on paths, sorted: reading a directory reads what is in it, so one further down matters as well.


_LAST = "\U0010ffff"


class PathDenials:
    """Policies that deny something on a path, found by what their values begin with."""

    __slots__ = ("_excluding", "_fixed", "_open", "_sorted")

    def __init__(self, policies: Iterable[CompiledPolicy] = (), levels: Iterable[str] = ()) -> None:
        self._sorted: list[tuple[str, int]] = []
        self._fixed: list[tuple[CompiledPolicy, str]] = []
        """A policy, and a value of it up to its first wildcard, in no order; `_sorted` names their places."""
        self._open: dict[int, dict[str, list[CompiledPolicy]]] = {}
        """Length → fixed part of that length → policies whose value goes on behind it with wildcards."""
        self._excluding: list[CompiledPolicy] = []
        names = frozenset(levels)
        for policy in policies:
            held = policy.policy
            for resources in (held.resources, *held.additional_resources):
                for level in names & resources.keys():
                    if resources[level].excludes:
                        self._excluding.append(policy)
                        continue
                    for value in resources[level].values:
                        self._add(policy, value)
        self._sorted.sort()

    def _add(self, policy: CompiledPolicy, value: str) -> None:
        # Where a script or a token begins, anything may follow.
        script = SCRIPT_START in value
        written = value.partition(SCRIPT_START)[0] if script else paths.canonical(value)
        fixed = paths.cut_at_glob(written.split("{", 1)[0])
        if script or fixed != written:
            self._open.setdefault(len(fixed), {}).setdefault(fixed, []).append(policy)
        self._sorted.append((fixed, len(self._fixed)))
        self._fixed.append((policy, fixed))

    def reachable(self, path: str) -> Iterator[CompiledPolicy]:
        """Yield the policies that may deny something which reading `path` reads; errs on the side of more."""
        if not paths.has_scheme(path):  # whose default file system?
            yield from dict.fromkeys(policy for policy, _ in self._fixed)
            yield from self._excluding
            return
        fixed = paths.cut_at_glob(path)
        if fixed != path:
            yield from self._excluding
            yield from self._list_with_prefix(fixed)
            yield from {p: None for p, part in self._fixed if fixed.startswith(part)}
            return
        bare = path.rstrip("/")
        if bare != path:  # to Hadoop `x/` is `x`, also where that is a file
            yield from self._between(bare, bare + "\0")
        yield from self._list_with_prefix(bare + "/")
        for length, parts in self._open.items():
            yield from parts.get(path[:length], ())

    def _list_with_prefix(self, prefix: str) -> Iterator[CompiledPolicy]:
        yield from self._between(prefix, prefix + _LAST)

    def _between(self, first: str, last: str) -> Iterator[CompiledPolicy]:
        start, end = (bisect_left(self._sorted, (text, -1)) for text in (first, last))
        for _, place in self._sorted[start:end]:
            yield self._fixed[place][0]
