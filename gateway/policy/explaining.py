"""Why each policy of a service settled a decision or did not, in words. Slow: it looks at each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.model.decision import Considered, Decision, PolicyRef
from gateway.model.policy import Policy, PolicyType, ResourceSet, ResourceValues
from gateway.policy.combining import DEVIATES, OTHER_ZONE, SUPER_USER, wants_any
from gateway.policy.compiled import CompiledItem, CompiledPolicy, evaluate_test
from gateway.policy.hierarchy import HERE, MatchType, compile_entry
from gateway.policy.obligations import ObligationItem
from gateway.policy.policy_index import PolicyIndex
from gateway.policy.service import ResourceQuestion, TagQuestion
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC

DISABLED = "it is disabled"
_WHAT = {
    PolicyType.ACCESS: "access is granted on",
    PolicyType.MASK: "has masks",
    PolicyType.ROW_FILTER: "has row filters",
}


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome for one type of policies, and the item that decided it."""

    settled_by: PolicyRef | None
    item: str
    tag: str
    priority: int
    denied: bool


def consider(
    question: ResourceQuestion,
    decision: Decision,
    masked: ObligationItem | None,
    filtered: ObligationItem | None,
    zones: Sequence[str],
    *,
    asked_only: bool = False,
) -> tuple[Considered, ...]:
    """Return what every policy had to say: first those that were asked, in order, then, but for
    `asked_only`, all others."""
    service = question.service
    asked_by_type = {type_: list(_list_asked(question, type_, zones)) for type_ in PolicyType}
    outcomes = {
        PolicyType.ACCESS: _outcome_of(decision, asked_by_type[PolicyType.ACCESS]),
        PolicyType.MASK: _obligation(masked, "mask", asked_by_type[PolicyType.MASK]),
        PolicyType.ROW_FILTER: _obligation(filtered, "filter", asked_by_type[PolicyType.ROW_FILTER]),
    }
    told: list[Considered] = []
    asked: set[tuple[CompiledPolicy, str]] = set()
    for type_, outcome in outcomes.items():
        for policy, asking in asked_by_type[type_]:
            tag = asking.hit.tag.type if isinstance(asking, TagQuestion) else ""
            if (policy, tag) in asked:
                continue
            asked.add((policy, tag))
            settled = outcome.settled_by == policy.ref and outcome.tag == tag
            if decision.reason == SUPER_USER:
                why = "super users need no policy"
            elif type_ is PolicyType.ACCESS and decision.reason in (DEVIATES, OTHER_ZONE):
                why = decision.reason
            elif settled:
                why = _explain_settled(outcome, type_)
            else:
                why = _explain_overruled(policy, asking, question, outcome, type_)
            told.append(_build_considered(policy.policy, why, tag=tag, settled=settled))
    if asked_only:
        return (*told, *_list_shared(question, outcomes))
    heard = {policy for policy, _ in asked}
    rest = []
    for policy_index, on_tags in ((service.tag_policy_index, True), (service.policy_index, False)):
        for policy_ in policy_index.policies if policy_index is not None else ():
            compiled = policy_index.compiled.get(id(policy_)) if policy_index is not None else None
            if policy_index is not None and (compiled is None or compiled[0] not in heard):
                rest.append(
                    _build_considered(
                        policy_, _explain_unasked(policy_, policy_index, question, zones, on_tags=on_tags)
                    )
                )
    return (*told, *_list_shared(question, outcomes), *rest)


def _list_shared(question: ResourceQuestion, outcomes: Mapping[PolicyType, _Outcome]) -> Iterator[Considered]:
    """Yield what the policies of datasets and projects say that the resource is shared in."""
    sharing = question.service.sharing
    if sharing is None:
        return
    wanted = _list_wanted(question, PolicyType.ACCESS)
    for where, policy, bits in sharing.find_holder_policies(
        question, wanted, any_access=wants_any(question.access)
    ):
        settled = {type_ for type_, outcome in outcomes.items() if outcome.settled_by == policy.ref}
        if PolicyType.ACCESS in settled:
            why = "it grants access"
        elif bits:
            by = outcomes[PolicyType.ACCESS].settled_by
            why = f"policy `{by.name}` came earlier and decided" if by else "it has no other effect"
        else:
            why = f"it does not grant `{question.access}` to user {question.subject.user}"
        yield _build_considered(
            policy.policy, f"{where} covers the resource; {why}", settled=PolicyType.ACCESS in settled
        )
        for type_ in settled - {PolicyType.ACCESS}:
            told = f"what {where} shares {_WHAT[type_]}"
            yield replace(_build_considered(policy.policy, told, settled=True), type=type_)


def _build_considered(policy: Policy, why: str, *, tag: str = "", settled: bool = False) -> Considered:
    ref = PolicyRef(id=policy.id, name=policy.name, version=policy.version)
    return Considered(policy=ref, type=policy.type, settled=settled, why=why, tag=tag, zone=policy.zone)


def _list_asked(
    question: ResourceQuestion, type_: PolicyType, zones: Sequence[str]
) -> Iterator[tuple[CompiledPolicy, ResourceQuestion | TagQuestion]]:
    for zone in zones:
        on_tags = question.on_tags(type_, zone, None)
        on_tags.sort(key=lambda one: one[1][0].sort_key)
        for tag, (policy, *_) in on_tags:
            yield policy, tag
        for policy, *_ in question.find_applicable(question.service.policy_index.index(zone, type_), None):
            yield policy, question


def find_policies_about(
    question: ResourceQuestion, type_: PolicyType, zones: Sequence[str]
) -> Iterator[tuple[Policy, str]]:
    """Yield the policies of a type that speak of the resource, with the tag by which they do."""
    for policy, asking in _list_asked(question, type_, zones):
        yield policy.policy, asking.hit.tag.type if isinstance(asking, TagQuestion) else ""


_Asked = Sequence[tuple[CompiledPolicy, ResourceQuestion | TagQuestion]]


def _outcome_of(decision: Decision, asked: _Asked) -> _Outcome:
    if decision.policy.id < 0 and not decision.policy.name:
        return _Outcome(None, "", "", 0, denied=False)
    priority = _priority(decision.policy, asked)
    return _Outcome(decision.policy, decision.item, decision.tag, priority, denied=not decision.allowed)


def _obligation(found: ObligationItem | None, kind: str, asked: _Asked) -> _Outcome:
    if found is None:
        return _Outcome(None, "", "", 0, denied=False)
    priority = _priority(found.policy, asked)
    return _Outcome(found.policy, f"{kind}[{found.index}]", found.tag, priority, denied=False)


def _priority(ref: PolicyRef, asked: _Asked) -> int:
    return max((policy.priority for policy, _ in asked if policy.ref == ref), default=0)


def _explain_settled(outcome: _Outcome, type_: PolicyType) -> str:
    if type_ is not PolicyType.ACCESS:
        return f"its `{outcome.item}` matches"
    if not outcome.item:
        return "it denies everything else"
    return f"its `{outcome.item}` {'denies' if outcome.denied else 'allows'} it"


def _list_wanted(question: ResourceQuestion, type_: PolicyType) -> int:
    service = question.service
    bits = service.bits.all if wants_any(question.access) else service.bits.find_bit(question.access)
    if type_ is PolicyType.MASK:
        return service.mask_bits & bits
    return service.filter_bits & bits if type_ is PolicyType.ROW_FILTER else bits


def _explain_overruled(
    policy: CompiledPolicy,
    asking: ResourceQuestion | TagQuestion,
    question: ResourceQuestion,
    outcome: _Outcome,
    type_: PolicyType,
) -> str:
    """Say why a policy whose resources match did not settle it."""
    force = policy.in_force(asking)
    if force is False:
        return _out_of_force(policy, asking)
    bits = _list_wanted(question, type_)
    if type_ is PolicyType.ACCESS:
        deny, allow, rest = policy.effect(asking)
        denies, speaks = bool((deny | rest) & bits), bool((deny | rest | allow) & bits)
    else:
        denies, speaks = False, policy.obligation(asking, bits) is not None
    if not speaks:
        return _silence(policy, asking, bits, question.access, force)
    if outcome.settled_by is None:
        return f"it does not cover `{question.access}`"
    by = f"policy `{outcome.settled_by.name}`"
    if policy.priority < outcome.priority:
        return f"{by} of higher priority overrides it"
    if type_ is PolicyType.ACCESS and outcome.denied and not denies:
        return f"a denial wins, that of {by}"
    return f"{by} came earlier and decided"


def _out_of_force(policy: CompiledPolicy, asking: ResourceQuestion | TagQuestion) -> str:
    if policy.policy.schedules and policy.out_of_schedule(asking):
        return "it is outside of its validity schedule"
    false = [c.type for c, test in policy.conditions() if evaluate_test(test, asking.facts()) is False]
    return f"its condition {_names(false)} is false"


def _silence(
    policy: CompiledPolicy, asking: ResourceQuestion | TagQuestion, bits: int, access: str, force: bool | None
) -> str:
    """Say why a policy says nothing about this access of this principal."""
    items = policy.deciding_items
    naming = [item for item in items if item.covers(asking.subject, asking.owner)]
    user = asking.subject.user
    if not naming:
        return f"no item names user {user} or a group or role of theirs" + _instead(items)
    listing = [item for item in naming if item.bits & bits]
    if not listing:
        return f"no item for user {user} lists `{access}`"
    if force is None:
        indeterminate = [
            c.type for c, test in policy.conditions() if evaluate_test(test, asking.facts()) is None
        ]
        if indeterminate:
            return f"its condition {_names(indeterminate)} is indeterminate, which counts against access"
        lacking = "without a time, its schedule" if asking.facts().context.time is None else "its schedule"
        return f"{lacking} is indeterminate, which counts against access"
    held = [item.holds(asking) for item in listing]
    if True not in held:
        conditions = _names([c.type for item in listing for c in item.item.conditions])
        if None in held:
            return f"a condition of its item ({conditions}) is indeterminate, which counts against access"
        return f"a condition of its item ({conditions}) is false"
    return "its own exception applies"


def _instead(items: Sequence[CompiledItem]) -> str:
    names = sorted(
        {f"user {n}" for i in items for n in i.users if n not in (CURRENT_USER, OWNER)}
        | {f"group {n}" for i in items for n in i.groups if n != PUBLIC}
        | {f"role {n}" for i in items for n in i.roles}
    )
    if not names:
        return ""
    return f"; they name {', '.join(names[:_MAX_NAMED])}{' and others' if len(names) > _MAX_NAMED else ''}"


_MAX_NAMED = 3


def _names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def _explain_unasked(
    policy: Policy,
    policy_index: PolicyIndex,
    question: ResourceQuestion,
    zones: Sequence[str],
    *,
    on_tags: bool,
) -> str:
    """Say why a policy was not asked at all."""
    if not policy.enabled:
        return DISABLED
    here = [question.service.zones.tag_zone(zone) if on_tags else zone for zone in zones]
    if policy.zone not in here:
        where = " and ".join(f"zone `{zone}`" if zone else "no zone" for zone in dict.fromkeys(here))
        own = f"zone `{policy.zone}`" if policy.zone else "no zone"
        return f"it belongs to {own}, and the policies of {where} apply"
    sets = (policy.resources, *policy.additional_resources)
    if on_tags:
        named = [name for resources in sets for values in resources.values() for name in values.values]
        return f"the resource has no tag {' or '.join(f'`{name}`' for name in named)}"
    why = list(dict.fromkeys(_mismatch(policy, resources, policy_index, question) for resources in sets))
    return f"its resources do not match: {'; '.join(why)}"


def _mismatch(
    policy: Policy, resources: ResourceSet, policy_index: PolicyIndex, question: ResourceQuestion
) -> str:
    hierarchies = policy_index.hierarchies(policy.type)
    entry = compile_entry(policy, resources, hierarchies)
    if entry is None:
        alone = "themselves" if len(resources) > 1 else "itself"
        return f"{', '.join(resources)} by {alone} is nothing that {_WHAT[policy.type]}"
    shown = dict(question.resource.elements)
    for level, value, matcher in zip(question.levels, question.values, entry.matchers, strict=False):
        if level not in resources:
            return f"it covers {entry.levels[-1]}s, not {question.levels[-1]}s"
        found = matcher.matches(value, question)
        if found is False:
            return f"{level} is {shown.get(level, value)}, {_values(resources[level])}"
    match = entry.match(question.values, question)
    if match is MatchType.ANCESTOR:
        return f"it covers the {entry.levels[-1]} itself, not what is in it"
    if match not in HERE:
        below = [name for name in entry.levels if name not in question.levels]
        return f"it covers only some {below[-1] if below else entry.levels[-1]}s in it"
    return "they do not apply here"


def _values(values: ResourceValues) -> str:
    some = " or ".join(values.values[:_MAX_NAMED])
    more = " or others" if len(values.values) > _MAX_NAMED else ""
    return f"which it excludes ({some}{more})" if values.excludes else f"not {some}{more}"
