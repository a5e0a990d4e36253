"""Whether Ranger's rules want a record of an access. The gateway's own ledger records it anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.model.policy import AuditFilter, PolicyType
from gateway.model.resource import ANY_ACCESS
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.hierarchy import HERE, Entry, MatchType, compile_entry, ways_down
from gateway.policy.service import Question, Service, TagQuestion
from gateway.policy.settling import wants_any
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC

_ACTION = frozenset({"action"})


@dataclass(frozen=True, slots=True, eq=False)
class _Filter:
    rule: AuditFilter
    entry: Entry | None
    """What it speaks of; None: everything, or nothing when it names resources."""
    bits: int
    """Its access types: these only, what they imply is not meant."""


class Auditing:
    """The audit rules of one service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._rules = service.model.audit
        ways = ways_down(service.definition.resources)
        self._filters = [
            _Filter(
                rule,
                compile_entry(rule, rule.resources, ways),
                sum({service.bits.wanted(access) for access in rule.accesses}),
            )
            for rule in self._rules.filters
        ]

    def audited(
        self, question: Question, zones: Sequence[str], *, allowed: bool, determined: bool, bits: int
    ) -> bool:
        """Say whether an access is audited: by the first filter that matches, else by policies and mode."""
        for one in self._filters:
            if one.rule.actions:
                question.note(_ACTION)
            if self._matches(one, question, bits, allowed=allowed, determined=determined):
                return one.rule.audited
        rules, subject = self._rules, question.subject
        if (
            subject.user in rules.excluded_users
            or not rules.excluded_groups.isdisjoint(subject.own_groups)
            or not rules.excluded_roles.isdisjoint(subject.roles)
        ):
            return False
        if rules.mode in ("audit-all", "audit-none"):
            return rules.mode == "audit-all"
        if not self._service.filing.compiled and self._service.model.tags is None:
            return True
        sharing, anything = self._service.sharing, wants_any(question.access)
        return any(
            _flagged(question, zone)
            or (sharing is not None and sharing.audited(question, zone, any_access=anything))
            for zone in zones
        )

    def _matches(
        self, one: _Filter, question: Question, bits: int, *, allowed: bool, determined: bool
    ) -> bool:
        rule, subject = one.rule, question.subject
        result = "NOT_DETERMINED" if not determined else "ALLOWED" if allowed else "DENIED"
        if rule.result and rule.result != result:
            return False
        if rule.resources:
            if one.entry is None or not _on_way(one.entry.levels, question.levels):
                return False
            match = one.entry.match(question.values, question)
            if match not in HERE and not (question.below and match is MatchType.DESCENDANT):
                return False
        if rule.accesses or rule.actions:
            anything = wants_any(question.access)
            listed = ANY_ACCESS in rule.accesses if anything else bool(one.bits & bits)
            if not (listed or question.context.action in rule.actions):
                return False
        if not (rule.users or rule.groups or rule.roles):
            return True
        return (
            subject.user in rule.users
            or CURRENT_USER in rule.users
            or (OWNER in rule.users and question.owner == subject.user)
            or PUBLIC in rule.groups
            or not rule.groups.isdisjoint(subject.own_groups)
            or not rule.roles.isdisjoint(subject.roles)
        )


def _on_way(levels: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    return levels == asked[: len(levels)] or asked == levels[: len(asked)]


def _flagged(question: Question, zone: str) -> bool:
    """Say whether some policy that matches, whoever its items are about, wants a record."""
    index = question.service.filing.index(zone, PolicyType.ACCESS)
    for policy, *_ in question.applying(index, None):
        if _wants_record(policy, question, question):
            return True
    on_tags = question.on_tags(PolicyType.ACCESS, zone, None)
    return any(_wants_record(policy, tag, question) for tag, (policy, *_) in on_tags)


def _wants_record(policy: CompiledPolicy, asked: Question | TagQuestion, question: Question) -> bool:
    if not policy.policy.audited:
        return False
    if policy.facets:
        question.note(policy.facets)
    return policy.in_force(asked) is not False
