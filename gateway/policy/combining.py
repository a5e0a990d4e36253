"""How what several policies say becomes one answer, as Ranger combines it.

Of all that policies on tags and on the resource say about an access type only what comes with the highest
priority counts; there a denial wins. Told is the first policy, in the order of evaluation and those on tags
first, that said what came out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gateway.model.policy import PolicyType
from gateway.model.resource import ANY_ACCESS
from gateway.policy.compiled import Applying, CompiledPolicy
from gateway.policy.nesting import grants
from gateway.policy.service import ResourceQuestion, TagQuestion
from gateway.policy.subjects import Subject
from gateway.policy.zones import UNZONED

ALLOWED = "a policy allows it"
DENIED = "a policy denies it"
ELSE_DENIED = "a policy denies everything else"
UNDECIDED = "no policy allows it"
DENIED_BELOW = "a policy denies something below this path"
OTHER_ZONE = "something below this path is in another security zone"
OTHER_ZONE_ABOVE = "the enclosing namespace is in another security zone"
DENIED_ABOVE = "a policy denies it on the enclosing namespace"
DEVIATES = "a path with `.` or `..` is not supported"
SUPER_USER = "superuser"


class PolicyEffect(NamedTuple):
    """Access types that one policy denies, allows, and denies by its catch-all, for one subject."""

    policy: CompiledPolicy
    deny: int
    allow: int
    rest: int
    tag: TagQuestion | None = None


@dataclass(frozen=True, slots=True)
class CombinedDecision:
    """The combined decision, and the policies that it comes from."""

    reason: str
    allowed: bool = False
    said: PolicyEffect | None = None
    kind: str = ""
    """`allow` or `deny` when an item settled it."""
    bit: int = 0
    determined: bool = True
    zone: str = UNZONED
    place: int = 0
    """Place in the order of evaluation."""

    @property
    def priority(self) -> int:
        return self.said.policy.priority if self.said is not None else 0


NOBODY_ALLOWS = CombinedDecision(UNDECIDED, determined=False)


def all_effects(
    question: ResourceQuestion, zone: str, subject: Subject | None, *, ignore_below: bool = True
) -> list[PolicyEffect]:
    """Return what policies say of the resource in one zone, those on tags first."""
    on_tags = question.on_tags(PolicyType.ACCESS, zone, subject)
    if len(on_tags) > 1:
        on_tags.sort(key=lambda one: (one[1][0].sort_key, one[0].hit.tag.type))
    found = [effect_of(question, tag, one, ignore_below=ignore_below) for tag, one in on_tags]
    index = question.service.policy_index.index(zone, PolicyType.ACCESS)
    # RULE (tag-policies-first)
    found += [
        effect_of(question, None, one, ignore_below=ignore_below)
        for one in question.find_applicable(index, subject)
    ]
    return [*found, *_combine_shared(question, zone)]  # RULE (gds-grants)


def _combine_shared(question: ResourceQuestion, zone: str) -> list[PolicyEffect]:
    """Return what datasets and projects grant; their priority is below that of all that policies say."""
    sharing = question.service.sharing
    if sharing is None:
        return []
    found = sharing.grants(question, zone, any_access=wants_any(question.access))
    return [PolicyEffect(policy, 0, bits, 0) for policy, bits in found]


def effect_of(
    question: ResourceQuestion, tag: TagQuestion | None, applying: Applying, *, ignore_below: bool = True
) -> PolicyEffect:
    """Return what one policy says of the resource."""
    policy, below, doubted = applying
    if policy.context_dependencies:
        question.note(policy.context_dependencies)
    deny, allow, rest = policy.effect(question if tag is None else tag, doubted=doubted)
    if allow and question.nested and not grants(question, policy, None if tag is None else tag.hit):
        allow = 0
    if below and ignore_below:  # RULE (denial-below)
        return PolicyEffect(policy, 0, allow, 0, tag)
    return PolicyEffect(policy, deny, allow, rest, tag)


def settle(said: Iterable[PolicyEffect], bit: int) -> CombinedDecision:
    """Combine what is said about one access type."""
    priority = denying = granting = None
    denied_at = granted_at = 0
    for place, one in enumerate(said):
        denies = (one.deny | one.rest) & bit
        if not denies and not one.allow & bit:
            continue
        own = one.policy.priority  # RULE (priority)
        if priority is None or own > priority:
            priority, denying, granting = own, None, None
        if own == priority:
            if denies:
                if denying is None:
                    denying, denied_at = one, place
            elif granting is None:
                granting, granted_at = one, place
    if denying is not None:  # RULE (denial-over-allowance)
        if denying.deny & bit:
            return CombinedDecision(DENIED, said=denying, kind="deny", bit=bit, place=denied_at)
        return CombinedDecision(ELSE_DENIED, said=denying, bit=bit, place=denied_at)
    if granting is not None:
        return CombinedDecision(ALLOWED, allowed=True, said=granting, kind="allow", bit=bit, place=granted_at)
    return NOBODY_ALLOWS


def wants_any(access: str) -> bool:
    """Say whether any access type will do."""
    return access in ("", ANY_ACCESS)


def any_of(said: Sequence[PolicyEffect], bits: int) -> CombinedDecision:
    """Combine for several access types of which one suffices; denied when all of them are."""
    answers = []
    while bits:
        bit = bits & -bits
        bits ^= bit
        answers.append(settle(said, bit))
    granted = [answer for answer in answers if answer.allowed]
    if granted:  # RULE (any-access-one)
        return min(granted, key=_place)
    if answers and all(answer.said is not None for answer in answers):
        return min(answers, key=_place)
    return NOBODY_ALLOWS


def _place(answer: CombinedDecision) -> int:
    return answer.place


def all_of(said: Sequence[PolicyEffect], groups: Iterable[int]) -> CombinedDecision:
    """Combine for groups of access types: one of each group, and every group."""
    answers = [any_of(said, bits) for bits in groups]  # RULE (groups-and)
    denied = [a for a in answers if not a.allowed and a.said is not None]
    if denied:  # RULE (group-denied)
        return min(denied, key=_place)
    if not answers or not all(a.allowed for a in answers):
        return NOBODY_ALLOWS
    return min(answers, key=_place)


def find_denied_above(question: ResourceQuestion) -> tuple[int, PolicyEffect | None]:
    """Return the access types that are denied in a namespace above, and what denies the first of them."""
    bits, first = 0, None
    for one in question.build_questions_above():
        for zone in candidate_zones(one, any_access=False):
            said = all_effects(one, zone, one.subject)
            for bit in (*one.service.bits.names, one.service.bits.admin):
                answer = settle(said, bit)
                if answer.said is not None and not answer.allowed:
                    bits |= bit
                    first = first or answer.said
        question.note(one.context_dependencies)
    return bits, first


def sees(question: ResourceQuestion, zone: str, bits: int) -> bool:
    """Say whether any of the access types is allowed on the resource or below it; stops at the first that is.

    The question counts what is below; what is denied there does not matter.
    """
    subject = question.subject
    said = [
        effect_of(question, tag, one, ignore_below=True)
        for tag, one in question.on_tags(PolicyType.ACCESS, zone, subject)
    ]
    index = question.service.policy_index.index(zone, PolicyType.ACCESS)
    here = question.find_applicable(index, subject, below=False)
    said += [effect_of(question, None, one, ignore_below=True) for one in here]
    said += _combine_shared(question, zone)
    if any_of(said, bits).allowed:
        return True
    for one in question.each_below(index, subject):
        further = effect_of(question, None, one, ignore_below=True)
        if further.allow and any_of([*said, further], further.allow & bits).allowed:
            return True
    return False


def candidate_zones(question: ResourceQuestion, *, any_access: bool) -> tuple[str, ...]:
    """Return the zones whose policies are asked in turn until one allows.

    Ranger's: a resource that lies in one zone belongs to it; one in several, or in none, to no zone. For any
    access each of them may allow it.
    """
    zones = question.zones()
    if not zones or (len(zones) > 1 and not any_access):  # RULE (several-zones)
        return (UNZONED,)
    return zones
