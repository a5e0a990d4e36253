"""Whether Ranger's rules want a record of an access. The gateway's own ledger records it anyway."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gateway.model.policy import AuditFilter, PolicyType, ServiceDef
from gateway.model.resource import ANY_ACCESS
from gateway.policy.combining import wants_any
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.hierarchy import HERE, MatchType, ResourceEntry, compile_entry, hierarchies_of
from gateway.policy.matching import fold
from gateway.policy.service import CompiledService, ResourceQuestion, TagQuestion
from gateway.policy.subjects import CURRENT_USER, OWNER, PUBLIC
from gateway.policy.tagging import TagHit

_ACTION = frozenset({"action"})


@dataclass(frozen=True, slots=True, eq=False)
class _Filter:
    rule: AuditFilter
    entry: ResourceEntry | None
    """What it speaks of; None: everything, or nothing when it names resources."""
    bits: int
    """Its access types: these only, what they imply is not meant."""


class Auditing:
    """The audit rules of one service."""

    def __init__(self, service: CompiledService) -> None:
        self._service = service
        self._rules = service.model.audit
        self._filters = _compile(self._rules.filters, service.definition, service)
        tags = service.model.tags
        self._tag_filters: Sequence[_Filter] = ()
        if tags is not None:
            self._tag_filters = _compile(tags.audit.filters, tags.definition, service)

    def is_audited(
        self,
        question: ResourceQuestion,
        zones: Sequence[str],
        *,
        allowed: bool,
        determined: bool,
        known: bool = True,
    ) -> bool:
        """Say whether an access is audited: by the first filter that matches, else by policies and mode.

        Filters of the tag service are asked first, about the tags of the resource. Not `known` is a resource
        that policies cannot speak of.
        """
        result = self._result(zones, allowed=allowed, determined=determined)
        by_tags = self._by_tags(question, result) if known else None  # RULE (audit-tags-first)
        if by_tags is not None:
            return by_tags
        for one in self._filters:  # RULE (audit-filters-first)
            here = not one.rule.resources or (known and _speaks_of(one, question))
            if here and self._matches(one, question, result):
                return one.rule.audited
        settled = self._find_settled(question)
        if settled is not None:
            return settled
        if not self._service.policy_index.compiled and self._service.model.tags is None:
            return True
        sharing, anything = self._service.sharing, wants_any(question.access)
        return known and any(
            _has_audit_flag(question, zone)
            # RULE (gds-audit)
            or (sharing is not None and sharing.is_audited(question, zone, any_access=anything))
            for zone in zones
        )

    def _result(self, zones: Sequence[str], *, allowed: bool, determined: bool) -> str:
        """Return the result in the words of filters: denied is also what policies might allow, and none
        does."""
        if allowed:
            return "ALLOWED"
        told = determined or not self._service.zones_with_policies.isdisjoint(zones)  # RULE (audit-denied)
        return "DENIED" if told else "NOT_DETERMINED"

    def _by_tags(self, question: ResourceQuestion, result: str) -> bool | None:
        """Return what the filters of the tag service say; None when none of them matches.

        As in Ranger, where one speaks of a tag of the resource, excluded users and the mode settle it first.
        """
        for one in self._tag_filters:
            # RULE (audit-filter-tag)
            hits = [hit for hit in question.hits() if self._names(one, hit, question)]
            if not hits:
                continue
            settled = self._find_settled(question)  # RULE (audit-settled)
            if settled is not None:
                return settled
            # In doubt whether the resource has the tag, it is audited.
            sure = one.rule.audited or not all(hit.doubted for hit in hits)
            if sure and self._matches(one, question, result):
                return one.rule.audited
        return None

    def _names(self, one: _Filter, hit: TagHit, question: ResourceQuestion) -> bool:
        if not one.rule.resources:
            return True
        tags = self._service.model.tags
        if tags is None or one.entry is None:
            return False
        type_ = fold(hit.tag.type) if tags.definition.resources[0].ignore_case else hit.tag.type
        return one.entry.match((type_,), question) in HERE

    def _find_settled(self, question: ResourceQuestion) -> bool | None:
        """Return what holds whatever the policies say; None when there is nothing such."""
        rules, subject = self._rules, question.subject
        if (
            subject.user in rules.excluded_users  # RULE (audit-excluded-users)
            or not rules.excluded_groups.isdisjoint(subject.own_groups)
            or not rules.excluded_roles.isdisjoint(subject.roles)
        ):
            return False
        # RULE (audit-mode)
        return rules.mode == "audit-all" if rules.mode in ("audit-all", "audit-none") else None

    def _matches(self, one: _Filter, question: ResourceQuestion, result: str) -> bool:
        """Say whether the access is one that the filter speaks of, wherever it is."""
        rule, subject = one.rule, question.subject
        if rule.result and rule.result != result:
            return False
        if rule.actions:
            question.note(_ACTION)
        if rule.accesses or rule.actions:
            wanted = self._service.bits.find_bit(question.access)
            listed = ANY_ACCESS in rule.accesses if wants_any(question.access) else bool(one.bits & wanted)
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


def _compile(rules: Iterable[AuditFilter], definition: ServiceDef, service: CompiledService) -> list[_Filter]:
    hierarchies = hierarchies_of(definition.resources)
    return [
        _Filter(
            rule,
            compile_entry(rule, rule.resources, hierarchies),
            sum({service.bits.find_bit(access) for access in rule.accesses}),
        )
        for rule in rules
    ]


def _speaks_of(one: _Filter, question: ResourceQuestion) -> bool:
    if one.entry is None or not _on_way(one.entry.levels, question.levels):
        return False
    match = one.entry.match(question.values, question, question.element_scopes)
    return match in HERE or (question.below and match is MatchType.DESCENDANT)


def _on_way(levels: tuple[str, ...], asked: tuple[str, ...]) -> bool:
    return levels == asked[: len(levels)] or asked == levels[: len(asked)]


def _has_audit_flag(question: ResourceQuestion, zone: str) -> bool:
    """Say whether some policy that matches, whoever its items are about, wants a record."""
    index = question.service.policy_index.index(zone, PolicyType.ACCESS)
    for policy, *_ in question.find_applicable(index, None):
        if _wants_record(policy, question, question):
            return True
    on_tags = question.on_tags(PolicyType.ACCESS, zone, None)
    return any(_wants_record(policy, tag, question) for tag, (policy, *_) in on_tags)


def _wants_record(
    policy: CompiledPolicy, asked: ResourceQuestion | TagQuestion, question: ResourceQuestion
) -> bool:
    if not policy.policy.audited:  # RULE (audit-flag)
        return False
    if policy.context_dependencies:
        question.note(policy.context_dependencies)
    return policy.in_force(asked) is not False
