"""What policies on a namespace say of those that lie in it: those on the database `a` of `a.b`.

A database is one value to policies, its levels joined by dots, and matches as any other. What restricts
reaches further: what is denied, masked or filtered in `a` is so in `a.b`, for a table or column of the same
name where it names one, and `a.b` has the tags that `a` has. What allows does not reach further; and where a
policy allows all databases but `a`, or `a` lies in a zone of its own, nothing is allowed in `a.b` by that.
"""

from __future__ import annotations

from gateway.model.policy import PolicyType
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.service import DATABASE, ResourceQuestion
from gateway.policy.tagging import TagHit


def in_other_zone(question: ResourceQuestion) -> bool:
    """Say whether a namespace above lies in another security zone, and so under other policies."""
    return any(one.zones() != question.zones() for one in question.build_questions_above())


def grants(question: ResourceQuestion, policy: CompiledPolicy, hit: TagHit | None) -> bool:
    """Say whether what a policy allows it allows here: not by the tag (`hit`) of a namespace above, nor where
    it excludes one."""
    if hit is not None:
        # Which databases have the tag is said by tagged resources, and these may exclude some, too.
        return not (question.is_inherited(hit) or question.service.excluding_tags)
    sets = (policy.policy.resources, *policy.policy.additional_resources)
    if not any(values.excludes for each in sets for level, values in each.items() if level == DATABASE):
        return True
    index = question.service.policy_index.index(policy.policy.zone, PolicyType.ACCESS)
    return all(
        any(found is policy for found, *_ in one.find_applicable(index, one.subject))
        for one in question.build_questions_above()
    )
