"""Which resources to ask two sets of policies about, so that every difference between them shows.

That is everything that a policy, tag or zone of either side names literally, below each wildcard one thing
that nobody names, and one that any two patterns share. Only what a difference between the two sides can reach
is asked, so that a small change among 100,000 policies costs little.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gateway.model.policy import ResourceDef, ResourceSet, ResourceValues, ServiceDef, TaggedResource
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.policy.differences import THE_OWNER, Pair, SetKey, key_of, list_shared, list_tagged, sets_of
from gateway.policy.facts import Facts
from gateway.policy.globs import LOST_STAR
from gateway.policy.macros import compile_template
from gateway.policy.matching import fold
from gateway.policy.script import Untranslatable

OTHER = "some_other"
"""Stands for `*`; what a wildcard covers and nobody names."""
MAX_CROSSED = 40
"""Patterns of one level that are looked at in pairs, for what both of two match."""
MAX_SUBSTITUTED = 500
"""People whose names are put into values such as `home_{USER}`."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A resource to ask about, and how a report writes it: `sales.*` for something below a wildcard."""

    resource: Resource
    label: str


@dataclass(slots=True)
class _Found:
    """A resource set of either side, and whether a difference between the sides speaks of it."""

    levels: ResourceSet
    changed: bool = False
    reaches_below: bool = False
    """Tags and zones hold for what lies below them as well."""


def resources_of(pair: Pair, principals: Sequence[Principal]) -> Iterator[Probe]:
    """Yield the resources to ask about, each once, parents before what lies below them."""
    found = _sets_of(pair)
    if not any(each.changed for each in found):
        return
    walk = _ProbeWalk(pair.definition, found, principals)
    yield from walk.probes()


def _sets_of(pair: Pair) -> list[_Found]:
    changed_keys = {key_of(found) for policy in pair.changed for found in sets_of(policy)}
    sets: dict[tuple[int, SetKey], _Found] = {}
    for service in pair.sides:
        for policy in (*service.policies, *list_shared(service)):
            for resources in sets_of(policy):
                if resources and policy.enabled:
                    key = key_of(resources)
                    is_changed = pair.everything or key in changed_keys
                    sets.setdefault((0, key), _Found(resources, changed=is_changed))
        for zone in service.zones:
            for resources in zone.resources:
                found = _Found(resources, changed=pair.everything, reaches_below=True)
                sets.setdefault((1, key_of(resources)), found)
    for tagged, is_changed in _list_tagged(pair):
        found = sets.setdefault((2, key_of(tagged.resources)), _Found(tagged.resources, reaches_below=True))
        found.changed = found.changed or is_changed
    return list(sets.values())


def _list_tagged(pair: Pair) -> Iterator[tuple[TaggedResource, bool]]:
    """Yield the tagged resources of both sides, with whether a difference can concern what they tag."""
    tags = {
        value
        for policy in pair.changed
        for found in sets_of(policy)
        if "tag" in found and pair.definition.resource("tag") is None
        for value in found["tag"].values
    }
    sides = [list_tagged(service) for service in pair.sides]
    both = sides[0] & sides[-1] if len(sides) == 2 else set()
    for service in pair.sides:
        for each in service.tagged:
            unlike = (key_of(each.resources), repr(each.tags)) not in both
            yield each, pair.everything or unlike or any(tag.type in tags for tag in each.tags)


@dataclass(slots=True)
class _Values:
    """Values of one level among some sets: who names what."""

    named: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    spelt: dict[str, str] = field(default_factory=dict)
    patterns: list[tuple[re.Pattern[str], bool, int]] = field(default_factory=list)
    """(pattern, whether the set excludes it, set)"""
    wild: set[str] = field(default_factory=set)
    """Patterns, folded."""
    samples: dict[str, str] = field(default_factory=dict)
    """Folded stand-in for a pattern → how a report writes it."""


class _ProbeWalk:
    """Goes down the hierarchy with the sets that still match, so that only combinations that mean
    something are made."""

    def __init__(
        self, definition: ServiceDef, found: Sequence[_Found], principals: Sequence[Principal]
    ) -> None:
        self._levels = {level.name: level for level in definition.resources}
        self._children: dict[str | None, list[str]] = defaultdict(list)
        for level in definition.resources:
            self._children[level.parent].append(level.name)
        self._found = found
        self._principals = principals[:MAX_SUBSTITUTED]
        self._seen = set[tuple[tuple[str, str], ...]]()

    def probes(self) -> Iterator[Probe]:
        yield from self._below(None, (), (), range(len(self._found)), inherited=False)

    def _below(
        self,
        parent: str | None,
        elements: tuple[tuple[str, str], ...],
        labels: tuple[str, ...],
        active: Iterable[int],
        *,
        inherited: bool,
    ) -> Iterator[Probe]:
        active = list(active)
        for name in self._children[parent]:
            here = [i for i in active if name in self._found[i].levels]
            if not here and not inherited:
                continue
            if not inherited and not any(self._found[i].changed for i in here):
                continue
            level = self._levels[name]
            values = self._values(level, here)
            if inherited:
                values.samples.setdefault(_fold(OTHER, level), "*")
            for value, label in self._candidates(values):
                matching = self._list_matching(values, value, level)
                changed = [i for i in matching if self._found[i].changed]
                if not changed and not inherited:
                    continue
                path = (*elements, (name, value))
                if path in self._seen:
                    continue
                self._seen.add(path)
                shown = (*labels, label)
                yield Probe(Resource(path, THE_OWNER), ".".join(shown))
                ends = any(
                    self._found[i].reaches_below and not self._goes_on(self._found[i].levels, name)
                    for i in changed
                )
                yield from self._below(name, path, shown, matching, inherited=inherited or ends)

    def _goes_on(self, levels: ResourceSet, name: str) -> bool:
        return any(child in levels for child in self._children[name])

    def _candidates(self, values: _Values) -> Iterator[tuple[str, str]]:
        yield from ((spelt, spelt) for spelt in values.spelt.values())
        for sample, label in values.samples.items():
            if sample not in values.spelt:
                yield sample, label

    def _values(self, level: ResourceDef, here: Sequence[int]) -> _Values:
        values = _Values()
        for i in here:
            written = self._found[i].levels[level.name]
            for text in self._substitute_tokens(written):
                self._take(values, level, written, text, i)
            if written.excludes:
                values.samples.setdefault(_fold(OTHER, level), "*")
        wild = sorted(values.wild)[:MAX_CROSSED]
        for one, other in itertools.combinations(wild, 2):
            both = find_common_match(one, other)
            if both:
                values.samples.setdefault(both, both)
        return values

    def _take(self, values: _Values, level: ResourceDef, written: ResourceValues, text: str, i: int) -> None:
        text = LOST_STAR.sub("", text) if level.wildcard else text
        folded = _fold(text, level)
        pattern = level.wildcard and ("*" in text or "?" in text)
        below = level.is_path and written.recursive
        if pattern or written.excludes or below:
            values.patterns.append((_pattern(folded, level, written.recursive), written.excludes, i))
        elif not pattern:
            values.named[folded].append(i)
        if pattern:
            values.wild.add(folded)
            values.samples.setdefault(_fold(_sample(text), level), text)
            return
        values.spelt.setdefault(folded, text)
        if below:
            sample = f"{text.rstrip('/')}/{OTHER}"
            values.samples.setdefault(_fold(sample, level), f"{text.rstrip('/')}/…")

    def _substitute_tokens(self, values: ResourceValues) -> Iterator[str]:
        """Yield the values, those with tokens once for each person; what cannot be told is left out."""
        for text in values.values:
            if "{" not in text:
                yield text
            elif "{ROLES}" not in text:
                yield from dict.fromkeys(filter(None, (_render(text, one) for one in self._principals)))

    def _list_matching(self, values: _Values, value: str, level: ResourceDef) -> list[int]:
        folded = _fold(value, level)
        found = set(values.named.get(folded, ()))
        hit = defaultdict[int, bool](bool)
        excluding = set[int]()
        for pattern, excludes, i in values.patterns:
            hit[i] = hit[i] or pattern.fullmatch(folded) is not None
            if excludes:
                excluding.add(i)
        found |= {i for i, matched in hit.items() if matched != (i in excluding)}
        return sorted(found)


def _fold(text: str, level: ResourceDef) -> str:
    return fold(text) if level.ignore_case else text


def find_common_match(one: str, other: str) -> str | None:
    """Return the shortest text that both patterns of `*` and `?` match, or None when there is none."""
    ways: deque[tuple[int, int, str]] = deque([(0, 0, "")])
    seen = {(0, 0)}
    while ways:
        i, j, text = ways.popleft()
        if i == len(one) and j == len(other):
            return text
        a, b = one[i : i + 1], other[j : j + 1]
        steps: list[tuple[int, int, str]] = []
        if a == "*":
            steps.append((i + 1, j, text))
        if b == "*":
            steps.append((i, j + 1, text))
        if a and b and not a == b == "*" and (a == b or a in "*?" or b in "*?"):
            letter = next((c for c in (a, b) if c not in "*?"), "x")
            steps.append((i + (a != "*"), j + (b != "*"), text + letter))
        for step in steps:
            if step[:2] not in seen:
                seen.add(step[:2])
                # What adds no letter comes first, so that the first text found is a shortest one.
                if step[2] == text:
                    ways.appendleft(step)
                else:
                    ways.append(step)
    return None


def _sample(pattern: str) -> str:
    return pattern.replace("*", OTHER).replace("?", "x")


def _pattern(text: str, level: ResourceDef, recursive: bool) -> re.Pattern[str]:
    wild = level.wildcard
    body = "".join(
        ".*" if wild and c == "*" else "." if wild and c == "?" else re.escape(c) for c in text.rstrip("/")
    )
    end = "(?:/.*)?" if level.is_path and recursive else "/?" if level.is_path else ""
    return re.compile(body + end, re.DOTALL)


def _render(text: str, principal: Principal) -> str | None:
    attributes: dict[str, tuple[str, ...]] = {}
    for name, value in principal.attributes:
        attributes[name] = (*attributes.get(name, ()), value)
    facts = Facts(
        user=principal.user, groups=principal.groups, roles=principal.roles, user_attributes=attributes
    )
    try:
        found = compile_template(text).render(facts)
    except Untranslatable:
        return None
    return found.replace("{USER}", principal.user).replace("{OWNER}", THE_OWNER) if found else None
