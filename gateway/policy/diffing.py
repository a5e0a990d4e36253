"""Which decisions two sets of policies disagree about: asked one by one, told in groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.decision import NO_POLICY, PolicyRef
from gateway.model.policy import FilterItem, MaskItem, PolicyType, ServiceDef
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource, Scope
from gateway.policy.differences import Pair, accesses_of
from gateway.policy.engine import Engine
from gateway.policy.probing import Probe
from gateway.policy.sqltext import bind

GAINED, LOST, MASK, FILTER = "gained", "lost", "mask", "filter"
KINDS = (GAINED, LOST, MASK, FILTER)
SELECT = "select"
NOWHERE = ""
"""Name of the service of a side that has none: it denies."""
_NO_MASK = "MASK_NONE"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessQuestion:
    """Somebody, something, and the access types to ask for."""

    principal: Principal
    resource: Resource
    label: str
    """The resource as a report writes it."""
    accesses: Sequence[tuple[str, ...]]
    """Classes of access types that get one answer."""
    old_service: str | None
    """Name of the service to ask; None: the one of the catalog."""
    new_service: str | None
    masks: bool = False
    """Whether it can carry a mask: it is a column."""
    filters: bool = False
    """Whether it can carry a row filter: it is a table."""
    context: AccessContext = NO_CONTEXT
    count: int = 1
    """How often it was asked, where questions come from a record."""


class Side(NamedTuple):
    """The answer under one set of policies, and the policy that decides it; `says` is for people."""

    says: str
    policy: PolicyRef = NO_POLICY


class AccessChange(NamedTuple):
    """One answer that differs."""

    kind: str
    principal: str
    label: str
    level: str
    accesses: tuple[str, ...]
    before: Side
    after: Side
    times: int = 1


class Cause(NamedTuple):
    """What the changes of one group share: the policy behind them, and their answers."""

    kind: str
    before: Side
    after: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Changes with one cause for the same people and access types, on several resources."""

    cause: Cause
    accesses: tuple[str, ...]
    people: tuple[str, ...]
    resources: tuple[tuple[str, str], ...]
    """(level, name)"""
    count: int
    """How many answers, or recorded accesses, changed."""


@dataclass(slots=True)
class Comparison:
    """The questions asked so far, and their answers on both sides."""

    asked: int = 0
    changes: list[AccessChange] = field(default_factory=list)


def questions_of(
    pair: Pair, probes: Iterable[Probe], principals: Sequence[Principal], context: AccessContext = NO_CONTEXT
) -> Iterator[AccessQuestion]:
    """Yield the questions about each resource, for each of the people."""
    accesses = accesses_of(pair)
    filtered = filter_levels(pair.definition)
    for probe in probes:
        kind = probe.resource.kind
        for principal in principals:
            yield AccessQuestion(
                principal=principal,
                resource=probe.resource,
                label=probe.label,
                accesses=accesses,
                old_service=pair.old.name if pair.old else NOWHERE,
                new_service=pair.new.name if pair.new else NOWHERE,
                masks=is_column(pair.definition, kind),
                filters=kind in filtered,
                context=context,
            )


def is_column(definition: ServiceDef, level: str) -> bool:
    """Say whether a level is one that masks speak of: the deepest of them."""
    masks = definition.levels(PolicyType.MASK)
    return any(m.name == level for m in masks) and not any(m.parent == level for m in masks)


def filter_levels(definition: ServiceDef) -> frozenset[str]:
    """Return the levels that row filters speak of: those right above columns."""
    own = {level.name for level in definition.levels(PolicyType.ROW_FILTER)}
    above = {level.parent for level in definition.resources if is_column(definition, level.name)}
    return frozenset(own & above)


def compare(
    old: Engine,
    new: Engine,
    questions: Iterable[AccessQuestion],
    progress: Callable[[Comparison], None] = lambda _: None,
    *,
    every: int = 1000,
) -> Comparison:
    """Ask both sides everything; `progress` is told now and then."""
    found = Comparison()
    for question in questions:
        found.asked += 1
        found.changes += _changes(old, new, question)
        if found.asked % every == 0:
            progress(found)
    progress(found)
    return found


def _changes(old: Engine, new: Engine, question: AccessQuestion) -> Iterator[AccessChange]:
    def change(kind: str, accesses: tuple[str, ...], before: Side, after: Side) -> AccessChange:
        who, level = question.principal.user, question.resource.kind
        return AccessChange(kind, who, question.label, level, accesses, before, after, question.count)

    for accesses in question.accesses:
        one, before = _decide(old, question, accesses[0], question.old_service)
        two, after = _decide(new, question, accesses[0], question.new_service)
        if one != two:
            yield change(GAINED if two else LOST, accesses, before, after)
    if question.masks and _both_read(old, new, question, Scope.SELF):
        before, after = (
            mask_side(old, question, question.old_service),
            mask_side(new, question, question.new_service),
        )
        if before.says != after.says:
            yield change(MASK, (SELECT,), before, after)
    if question.filters and _both_read(old, new, question, Scope.SELF_OR_DESCENDANTS):
        before, after = (
            filter_side(old, question, question.old_service),
            filter_side(new, question, question.new_service),
        )
        if before.says != after.says:
            yield change(FILTER, (SELECT,), before, after)


def _decide(engine: Engine, question: AccessQuestion, access: str, service: str | None) -> tuple[bool, Side]:
    if service == NOWHERE:
        return False, Side("denied: the service does not exist")
    decision = engine.decide(_request(question, access, service))
    said = "allowed" if decision.allowed else "denied"
    return decision.allowed, Side(f"{said}: {decision.reason}", decision.policy)


def _both_read(old: Engine, new: Engine, question: AccessQuestion, scope: Scope) -> bool:
    """Whether a mask or filter matters: something of the resource may be selected on both sides."""
    return all(
        service != NOWHERE and engine.decide(_request(question, SELECT, service, scope)).allowed
        for engine, service in ((old, question.old_service), (new, question.new_service))
    )


def _request(
    question: AccessQuestion, access: str, service: str | None, scope: Scope = Scope.SELF
) -> AccessRequest:
    return AccessRequest(
        principal=question.principal,
        resource=question.resource,
        access=access,
        context=question.context,
        service=service,
        scope=scope,
    )


def mask_side(engine: Engine, question: AccessQuestion, service: str | None) -> Side:
    """Return which mask applies to a column."""
    settled = engine.mask_answer(_request(question, SELECT, service))
    if settled is None or not isinstance(settled.item, MaskItem):
        return Side("no mask")
    item = settled.item
    if not settled.certain:
        return Side("MASK_NULL, because its condition is indeterminate", settled.policy)
    if item.mask_type == _NO_MASK:
        return Side("no mask", settled.policy)
    shows = f" showing {item.text}" if item.text else ""
    predicate = ", not in predicates" if item.predicate == "deny" else ""
    return Side(f"{item.mask_type}{shows}{predicate}", settled.policy)


def filter_side(engine: Engine, question: AccessQuestion, service: str | None) -> Side:
    """Return which row filter applies to a table, with the user's values in it."""
    settled = engine.filter_answer(_request(question, SELECT, service))
    if settled is None or not isinstance(settled.item, FilterItem):
        return Side("every row")
    text = settled.item.filter_expression
    if not settled.certain:
        return Side("no row, because its condition is indeterminate", settled.policy)
    if not text.strip():
        return Side("every row", settled.policy)
    bound = bind(text, settled.facts)
    rows = f"rows where {bound}" if bound is not None else "no row"
    return Side(f"{rows}, also to write" if settled.item.check else rows, settled.policy)


def group_changes(changes: Iterable[AccessChange], all_accesses: Iterable[str] = ()) -> list[Group]:
    """Return the changes in groups, merged by access types, then by people, then by resources."""
    accesses: dict[tuple[Cause, str, tuple[str, str]], set[str]] = defaultdict(set)
    counts: dict[tuple[Cause, str, tuple[str, str]], int] = defaultdict(int)
    for c in changes:
        key = (Cause(c.kind, c.before, c.after), c.principal, (c.level, c.label))
        accesses[key].update(c.accesses)
        counts[key] += c.times
    people: dict[tuple[Cause, frozenset[str], tuple[str, str]], list[str]] = defaultdict(list)
    totals: dict[tuple[Cause, frozenset[str], tuple[str, str]], int] = defaultdict(int)
    for (cause, principal, resource), wanted in accesses.items():
        merged = (cause, frozenset(wanted), resource)
        people[merged].append(principal)
        totals[merged] += counts[cause, principal, resource]
    resources: dict[tuple[Cause, frozenset[str], tuple[str, ...]], list[tuple[str, str]]] = defaultdict(list)
    sums: dict[tuple[Cause, frozenset[str], tuple[str, ...]], int] = defaultdict(int)
    for (cause, together, resource), names in people.items():
        group = (cause, together, tuple(sorted(names)))
        resources[group].append(resource)
        sums[group] += totals[cause, together, resource]
    known = frozenset(all_accesses)
    groups = [
        Group(
            cause=group[0],
            accesses=_short(group[1], known),
            people=group[2],
            resources=tuple(sorted(found)),
            count=sums[group],
        )
        for group, found in resources.items()
    ]
    return sorted(groups, key=lambda g: (KINDS.index(g.cause.kind), g.resources, g.people, g.accesses))


def _short(accesses: frozenset[str], known: frozenset[str]) -> tuple[str, ...]:
    """Return access types as a report writes them: `all` stands for every one."""
    if "all" not in accesses:
        return tuple(sorted(accesses))
    missing = sorted(known - accesses)
    return (f"all but {', '.join(missing)}",) if missing else ("all",)
