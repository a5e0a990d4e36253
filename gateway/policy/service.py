"""One service's policies, compiled and filed, and questions put in that service's terms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from gateway.model.policy import Policy, PolicyType, ResourceSet, ServiceDef
from gateway.policy import paths
from gateway.policy.compiled import (
    AccessBits,
    CompiledPolicy,
    Entry,
    MatchType,
    compile_entry,
    ways_down,
)
from gateway.policy.index import Index
from gateway.policy.matching import Asker, fold
from gateway.policy.subjects import Subject

_HERE = (MatchType.SELF, MatchType.SELF_AND_ALL_DESCENDANTS)


class Service:
    """The policies of one service definition."""

    def __init__(self, definition: ServiceDef, policies: Iterable[Policy]) -> None:
        self.definition = definition
        self.bits = AccessBits(definition)
        self.mask_bits = self.bits.granted(definition.mask_accesses)
        self.filter_bits = self.bits.granted(definition.filter_accesses)
        self._folds = {level.name: level.ignore_case for level in definition.resources}
        self.ways = {
            way[-1].name: tuple(level.name for level in way)
            for way in ways_down(definition.resources).values()
        }
        """Level → the levels from the root down to it."""
        self.paths = frozenset(level.name for level in definition.resources if level.is_path)
        compiled = [CompiledPolicy(p, definition, self.bits) for p in policies if p.enabled]
        compiled.sort(key=attrgetter("sort_key"))
        entries: dict[PolicyType, list[Entry]] = {type_: [] for type_ in PolicyType}
        self._path_denials: list[tuple[CompiledPolicy, ResourceSet]] = []
        ways = {type_: ways_down(definition.levels(type_)) for type_ in PolicyType}
        for rank, policy in enumerate(compiled):
            policy.rank = rank
            for resources in (policy.policy.resources, *policy.policy.additional_resources):
                entry = compile_entry(policy, resources, ways[policy.policy.type])
                if entry is None:
                    continue
                entries[policy.policy.type].append(entry)
                if policy.denies and entry.levels and entry.levels[-1] in self.paths:
                    self._path_denials.append((policy, resources))
        self.index = {type_: Index(found) for type_, found in entries.items()}

    def values(self, levels: Iterable[str], values: Iterable[str]) -> tuple[str, ...]:
        """Return requested values as they are compared."""
        return tuple([self._compared(level, value) for level, value in zip(levels, values, strict=True)])

    def _compared(self, level: str, value: str) -> str:
        if level in self.paths:
            value = paths.canonical(value)
        return fold(value) if self._folds[level] else value

    def denied_below(
        self, path: str, level: str, subject: Subject, bit: int, priority: int
    ) -> CompiledPolicy | None:
        """Return a policy of at least `priority` that denies something which reading the path may reach."""
        for policy, resources in self._path_denials:
            if policy.priority < priority:
                continue
            deny, _, rest = policy.effect(subject, None)
            values = resources.get(level)
            if not (deny | rest) & bit or values is None:
                continue
            if values.excludes:
                if paths.fixed_part(path) != path:
                    return policy
            elif any(paths.may_reach(path, paths.canonical(value)) for value in values.values):
                return policy
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A resource in the terms of the service that speaks for it, and who asks."""

    service: Service
    levels: tuple[str, ...]
    values: tuple[str, ...]
    """As they are compared: folded where case does not matter."""
    subject: Subject
    asker: Asker

    @property
    def on_path(self) -> bool:
        return bool(self.levels) and self.levels[-1] in self.service.paths

    def policies(self, type_: PolicyType) -> list[CompiledPolicy]:
        """Return the policies of a type that apply to the resource itself, in Ranger's order."""
        entries = self.service.index[type_].at(self.levels, self.values, self.subject)
        found = {e.policy.rank: e.policy for e in entries if e.match(self.values, self.asker) in _HERE}
        return [found[rank] for rank in sorted(found)]

    def policies_below(self) -> list[CompiledPolicy]:
        """Return the access policies that apply to something specific below the resource."""
        entries = self.service.index[PolicyType.ACCESS].below(self.levels, self.values, self.subject)
        found = {
            e.policy.rank: e.policy
            for e in entries
            if e.match(self.values, self.asker) is MatchType.DESCENDANT
        }
        return [found[rank] for rank in sorted(found)]

    def column_entries(self, type_: PolicyType) -> list[Entry]:
        """Return entries that apply to some or all columns of this table, in Ranger's order."""
        index, depth = self.service.index[type_], len(self.levels)
        candidates = [
            *index.at(self.levels, self.values, self.subject),
            *index.below(self.levels, self.values, self.subject),
        ]
        found = {
            id(entry): entry
            for entry in candidates
            if len(entry.levels) == depth + 1
            and entry.levels[depth] == "column"
            and entry.match(self.values, self.asker) is not MatchType.NONE
        }
        return sorted(found.values(), key=lambda entry: entry.policy.rank)

    def deviates(self) -> bool:
        """Say whether the resource is a path that is not what it looks like."""
        return self.on_path and paths.deviates(self.values[-1])
