"""What lies below a resource and may be denied: of a path that is read, and of a database that is dropped."""

from __future__ import annotations

from gateway.model.policy import PolicyType
from gateway.policy.combining import PolicyEffect, effect_of
from gateway.policy.hierarchy import ResourceEntry
from gateway.policy.matching import SCRIPT_START
from gateway.policy.paths import canonical, may_reach
from gateway.policy.service import DATABASE, ResourceQuestion
from gateway.policy.zones import UNZONED


def denied_below(question: ResourceQuestion, zone: str, bit: int, priority: int) -> PolicyEffect | None:
    """Return a policy of at least `priority` that denies something which reading the path may reach."""
    tags = question.service.tag_policy_index
    if tags is not None and tags.denying:
        for value in question.service.tagged_paths:
            if _may_reach(question, value):
                further = question.instead(value)
                said = _denied_by_tags(further, zone, bit, priority)
                question.note(further.facets)
                if said is not None:
                    return said
    for policy in question.service.policy_index.path_denials.reachable(question.values[-1]):
        if policy.priority < priority or policy.policy.zone != zone:
            continue
        said = effect_of(question, None, (policy, False, False), ignore_below=True)
        if (said.deny | said.rest) & bit:
            return said
    return None


def _denied_by_tags(question: ResourceQuestion, zone: str, bit: int, priority: int) -> PolicyEffect | None:
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
    service, levels, values = question.service, question.levels, question.values
    if UNZONED in question.zones():
        return True
    if levels[-1:] == (DATABASE,) and _may_be_denied_inside(question):
        return True
    if any(
        _may_concern(entry, levels, values)
        for found in service.policy_index.denying.values()
        for entry in found
    ):
        return True
    tags = service.tag_policy_index
    return tags is not None and bool(tags.denying) and service.taggings.may_tag_in(levels, values)


def _may_be_denied_inside(question: ResourceQuestion) -> bool:
    """Say whether that may be so for a database whose name goes on with a dot."""
    service, levels = question.service, question.levels
    inside = (*question.values[:-1], f"{question.values[-1]}.")
    if frozenset(entry.of for entry in service.zones.beginning(levels, inside)) - {*question.zones()}:
        return True
    denying = (entry for found in service.policy_index.denying.values() for entry in found)
    if any(len(e.levels) >= len(levels) and e.may_begin(levels, inside) for e in denying):
        return True
    tags = service.tag_policy_index
    return tags is not None and bool(tags.denying) and bool(service.taggings.beginning(levels, inside))


def _may_concern(entry: ResourceEntry, levels: tuple[str, ...], values: tuple[str, ...]) -> bool:
    return entry.levels[: len(levels)] == levels and all(
        matcher.may_match(value) for matcher, value in zip(entry.matchers, values, strict=False)
    )
