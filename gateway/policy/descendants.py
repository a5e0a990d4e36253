"""What lies below a resource and may be denied or hidden: of a path that is read, of a database that is
dropped."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.model.policy import PolicyType
from gateway.policy.combining import PolicyEffect, effect_of
from gateway.policy.hierarchy import ResourceEntry
from gateway.policy.matching import SCRIPT_START
from gateway.policy.paths import canonical, may_reach
from gateway.policy.policy_index import PolicyIndex
from gateway.policy.service import DATABASE, ResourceQuestion
from gateway.policy.zones import UNZONED


def find_denied_below(question: ResourceQuestion, zone: str, bit: int, priority: int) -> PolicyEffect | None:
    """Return a policy of at least `priority` that denies something which reading the path may reach."""
    tags = question.service.tag_policy_index
    if tags is not None and tags.denying:
        for value in question.service.tagged_paths:
            if _may_reach(question, value):
                further = question.with_value(value)
                said = _find_denied_by_tags(further, zone, bit, priority)
                question.note(further.context_dependencies)
                if said is not None:
                    return said
    for policy in question.service.policy_index.path_denials.reachable(question.values[-1]):
        if policy.priority < priority or policy.policy.zone != zone:
            continue
        said = effect_of(question, None, (policy, False, False), ignore_below=True)
        if (said.deny | said.rest) & bit:
            return said
    return None


def _find_denied_by_tags(
    question: ResourceQuestion, zone: str, bit: int, priority: int
) -> PolicyEffect | None:
    for tag, applying in question.on_tags(PolicyType.ACCESS, zone, question.subject):
        said = effect_of(question, tag, applying)
        if said.policy.priority >= priority and (said.deny | said.rest) & bit:
            return said
    return None


def other_zone_below(question: ResourceQuestion, zone: str) -> bool:
    """Say whether reading the path may reach what belongs to another security zone, and to its policies."""
    level = question.levels[-1]
    return any(
        _may_reach(question, value)
        for other in question.service.zones.zones
        if other.name != zone
        for resources in other.resources
        if level in resources
        for value in resources[level].values
    )


def _may_reach(question: ResourceQuestion, value: str) -> bool:
    written, script, _ = value.partition(SCRIPT_START)
    return may_reach(question.values[-1], canonical(f"{written}*" if script else written))


def may_be_denied_below(question: ResourceQuestion) -> bool:
    """Say whether some policy, on tags or on resources, denies anything in a resource to anybody, or in a
    namespace that lies in it.

    What belongs to another zone further down is denied to everybody whom that zone does not allow it.
    """
    service, levels = question.service, question.levels
    if UNZONED in question.zones():
        return True
    if levels[-1:] == (DATABASE,):
        zoned = service.zones.entries_with_prefix(levels, _inside(question))
        if frozenset(entry.of for entry in zoned) - {*question.zones()}:
            return True
    denying = (entry for found in service.policy_index.denying.values() for entry in found)
    tags = service.tag_policy_index
    return _may_speak_below(question, denying, on_tags=tags is not None and bool(tags.denying))


def may_be_hidden_below(question: ResourceQuestion) -> bool:
    """Say whether a mask or a row filter, on tags or on resources, whoever it is for, may hide something in a
    database, or in a namespace that lies in it."""
    index, tags = question.service.policy_index, question.service.tag_policy_index
    on_tags = tags is not None and any(_list_obligation_policies(tags))
    return _may_speak_below(question, _list_obligation_policies(index), on_tags=on_tags)


def _list_obligation_policies(policies: PolicyIndex) -> Iterable[ResourceEntry]:
    return (
        entry
        for policy, found in policies.compiled.values()
        if policy.policy.type is not PolicyType.ACCESS
        for entry in found
    )


def _may_speak_below(question: ResourceQuestion, entries: Iterable[ResourceEntry], *, on_tags: bool) -> bool:
    """Say whether one of the entries, or a tag, may be on something in a resource, or in a database whose
    name goes on with a dot."""
    taggings, levels, values = question.service.taggings, question.levels, question.values
    inside = _inside(question) if levels[-1:] == (DATABASE,) else None
    if any(
        _may_concern(e, levels, values)
        or (inside is not None and len(e.levels) >= len(levels) and e.may_begin(levels, inside))
        for e in entries
    ):
        return True
    return on_tags and (
        taggings.may_tag_in(levels, values)
        or (inside is not None and bool(taggings.entries_with_prefix(levels, inside)))
    )


def _inside(question: ResourceQuestion) -> tuple[str, ...]:
    """Return the values of a database, with what the names of those that lie in it begin with."""
    return (*question.values[:-1], f"{question.values[-1]}.")


def _may_concern(entry: ResourceEntry, levels: tuple[str, ...], values: tuple[str, ...]) -> bool:
    return entry.levels[: len(levels)] == levels and all(
        matcher.may_match(value) for matcher, value in zip(entry.matchers, values, strict=False)
    )
