"""Decides: who may do what on which resource, what a column shows instead, which rows a table shows.

Pure and total: any request gets an answer, and what no policy settles is denied. Ranger's evaluation order,
compactly: take the matching policies of the highest priority at which one of them says anything about the
wanted access; if one of those denies, the answer is no, else yes. Masks and row filters: the first item that
speaks of the principal, of the first such policy in Ranger's order, settles it.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.errors import Faults
from gateway.model.catalog import Column
from gateway.model.decision import NO_POLICY, ColumnMask, Decision, PolicyRef, RowFilter
from gateway.model.policy import FilterItem, MaskItem, Policy, PolicyItem, PolicySet, PolicyType
from gateway.model.principal import Principal
from gateway.model.resource import ANY_ACCESS, AccessRequest, Resource
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.masks import DEFAULT_MASKED_DATE, mask_expression
from gateway.policy.matching import Asker, fold
from gateway.policy.service import Question, Service
from gateway.policy.sqltext import bind
from gateway.policy.subjects import RoleGraph, Subject

DEFAULT_SERVICE = "spark"
_MOST_REMEMBERED = 4096
"""Answers of a kind that an engine remembers; a full memory is emptied, which keeps it bounded and simple."""

ALLOWED = "a policy allows it"
DENIED = "a policy denies it"
ELSE_DENIED = "a policy denies everything else"
UNDECIDED = "no policy allows it"
DENIED_BELOW = "a policy denies something that this path reaches"
DEVIATES = "a path with `.` or `..` in it is not judged"

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """What one principal sees of one table: per column whether and how, and which rows."""

    allowed: Mapping[str, Decision]
    """Column name, as it was given → decision on it."""
    masks: Mapping[str, ColumnMask]
    """Masked columns only, also those that may not be selected."""
    row_filter: RowFilter | None


@dataclass(frozen=True, slots=True)
class _Answer:
    reason: str
    policy: PolicyRef = NO_POLICY
    allowed: bool = False
    priority: int = 0


_NOBODY_ALLOWS = _Answer(UNDECIDED)

_Effect = tuple[CompiledPolicy, int, int, int]
"""A policy with what it denies, allows, and denies as everything else, for one subject."""


class Engine:
    """Answers for one PolicySet. Holds no state but remembered answers."""

    def __init__(self, policies: PolicySet, *, masked_date: str = DEFAULT_MASKED_DATE) -> None:
        """Compile and file the policies; raises Faults when one of them needs what is not evaluated.

        `masked_date` is what MASK shows instead of a date, as `yyyy-mm-dd`.
        """
        _refuse_conditions(policies)
        self.version = policies.version
        self._masked_date = masked_date
        self._roles = RoleGraph(policies.roles)
        by_service: dict[str, list[Policy]] = {name: [] for name in policies.service_defs}
        for policy in policies.policies:
            by_service.setdefault(policy.service, []).append(policy)
        self._services = {
            name: Service(definition, by_service[name]) for name, definition in policies.service_defs.items()
        }
        self._catalogs = {fold(c): service for c, service in policies.catalog_services.items()}
        self._subjects: dict[Principal, Subject] = {}
        self._views: dict[tuple[Principal, Resource, str], tuple[Sequence[Column], TableView]] = {}
        self._seen: dict[tuple[Principal, Resource], bool] = {}

    def decide(self, request: AccessRequest) -> Decision:
        """Say whether the principal may, and which policy settled it."""
        answer = self._answer(request)
        return Decision(request=request, allowed=answer.allowed, policy=answer.policy, reason=answer.reason)

    def visible(self, principal: Principal, resource: Resource) -> bool:
        """Say whether the principal has any access to the resource or to anything below it."""
        key = (principal, resource)
        seen = self._seen.get(key)
        if seen is None:
            question = self._question(principal, resource)
            seen = not isinstance(question, str) and _any_access(question).allowed
            _remember(self._seen, key, seen)
        return seen

    def mask(self, principal: Principal, column: Resource, data_type: str) -> ColumnMask | None:
        """Return what the column shows instead of its value; None means the value itself.

        `data_type` is the column's type as Spark writes it in DDL, e.g. `decimal(10,2)`.
        """
        question = self._question(principal, column)
        if isinstance(question, str) or question.levels[-1:] != ("column",):
            return None  # no service knows such a column, so nothing grants access to it either
        return self._mask(question, question.policies(PolicyType.MASK), column.elements[-1][1], data_type)

    def row_filter(self, principal: Principal, table: Resource) -> RowFilter | None:
        """Return the predicate that the table's rows must satisfy; None means every row."""
        question = self._question(principal, table)
        return None if isinstance(question, str) else _row_filter(question)

    def table_view(
        self, principal: Principal, table: Resource, columns: Sequence[Column], access: str = "select"
    ) -> TableView:
        """Answer for all columns of a table at once; remembered, so that asking again costs a lookup."""
        key = (principal, table, access)
        known = self._views.get(key)
        if known is not None and (known[0] is columns or known[0] == columns):
            return known[1]
        view = self._view(principal, table, columns, access)
        _remember(self._views, key, (columns, view))
        return view

    def _subject(self, principal: Principal) -> Subject:
        subject = self._subjects.get(principal)
        if subject is None:
            subject = self._roles.subject(principal)
            _remember(self._subjects, principal, subject)
        return subject

    def _question(self, principal: Principal, resource: Resource) -> Question | str:
        """Return the question in its service's terms, or the reason why no service can answer it."""
        elements = resource.elements
        name = DEFAULT_SERVICE
        if elements and elements[0][0] == "catalog":
            name = self._catalogs.get(fold(elements[0][1]), DEFAULT_SERVICE)
        service = self._services.get(name)
        if service is None:
            return f"there is no service `{name}`"
        if elements and elements[0][0] == "catalog" and "catalog" not in service.ways:
            # A definition without catalogs (hive's) speaks for exactly the catalogs that were given to it.
            elements = elements[1:]
        levels = tuple([level for level, _ in elements])
        if levels and service.ways.get(levels[-1]) != levels:
            return f"service `{name}` knows no resource {'.'.join(levels)}"
        values = service.values(levels, [value for _, value in elements])
        subject = self._subject(principal)
        return Question(service, levels, values, subject, Asker(subject.user, resource.owner))

    def _answer(self, request: AccessRequest) -> _Answer:
        question = self._question(request.principal, request.resource)
        if isinstance(question, str):
            return _Answer(question)
        if question.deviates():
            return _Answer(DEVIATES)
        if request.access in ("", ANY_ACCESS):
            return _any_access(question)
        bit = question.service.bits.wanted(request.access)
        if not bit:
            return _unknown_access(question, request.access)
        answer = _settle(_effects(question, question.policies(PolicyType.ACCESS)), bit)
        if answer.allowed and question.on_path:
            below = question.service.denied_below(
                question.values[-1], question.levels[-1], question.subject, bit, answer.priority
            )
            if below is not None:
                return _Answer(DENIED_BELOW, below.ref)
        return answer

    def _mask(
        self, question: Question, policies: Iterable[CompiledPolicy], name: str, data_type: str
    ) -> ColumnMask | None:
        for policy in policies:
            item = policy.obligation(question.subject, question.asker.owner, question.service.mask_bits)
            if not isinstance(item, MaskItem):
                continue
            expression = mask_expression(
                item.mask_type,
                name,
                data_type,
                custom=item.value_expression,
                principal=question.subject.principal,
                masked_date=self._masked_date,
            )
            if expression is None:
                return None
            return ColumnMask(
                column=name,
                mask_type=item.mask_type,
                expression=expression,
                policy=policy.ref,
                predicate=item.predicate,
            )
        return None

    def _view(
        self, principal: Principal, table: Resource, columns: Sequence[Column], access: str
    ) -> TableView:
        question = self._question(principal, table)
        if isinstance(question, str) or question.service.ways.get("column") != (*question.levels, "column"):
            answers = {
                c.name: self._answer(
                    AccessRequest(principal=principal, resource=table.child("column", c.name), access=access)
                )
                for c in columns
            }
            return TableView(_Decisions(principal, table, access, answers), {}, None)
        service = question.service
        bit = service.bits.wanted(access)
        names = [column.name for column in columns]
        values = service.values(["column"] * len(names), names)
        if bit:
            answers = _column_answers(question, names, values, bit)
        else:
            answers = dict.fromkeys(names, _unknown_access(question, access))
        masks: dict[str, ColumnMask] = {}
        if access.lower() in service.definition.mask_accesses:
            masking = [(e.matchers[-1], e.policy) for e in question.column_entries(PolicyType.MASK)]
            for column, value in zip(columns, values, strict=True) if masking else ():
                policies = [policy for matcher, policy in masking if matcher.matches(value, question.asker)]
                if policies:
                    mask = self._mask(question, policies, column.name, column.type)
                    if mask is not None:
                        masks[column.name] = mask
        filtered = access.lower() in service.definition.filter_accesses
        decisions = _Decisions(principal, table, access, answers)
        return TableView(decisions, masks, _row_filter(question) if filtered else None)


class _Decisions(Mapping[str, Decision]):
    """The decisions on a table's columns, each built when it is asked for: most never are."""

    __slots__ = ("_access", "_answers", "_built", "_principal", "_table")

    def __init__(
        self, principal: Principal, table: Resource, access: str, answers: Mapping[str, _Answer]
    ) -> None:
        self._principal, self._table, self._access = principal, table, access
        self._answers = answers
        self._built: dict[str, Decision] = {}

    def __getitem__(self, name: str) -> Decision:
        decision = self._built.get(name)
        if decision is None:
            answer = self._answers[name]
            resource = self._table.child("column", name)
            decision = self._built[name] = Decision(
                request=AccessRequest(principal=self._principal, resource=resource, access=self._access),
                allowed=answer.allowed,
                policy=answer.policy,
                reason=answer.reason,
            )
        return decision

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)


_engines: weakref.WeakKeyDictionary[PolicySet, Engine] = weakref.WeakKeyDictionary()


def engine_for(policies: PolicySet) -> Engine:
    """Return the engine of a PolicySet, compiled once and dropped with it."""
    engine = _engines.get(policies)
    if engine is None:
        engine = _engines[policies] = Engine(policies)
    return engine


def items_of(policy: Policy) -> tuple[PolicyItem, ...]:
    """Return every item of a policy."""
    return (
        *policy.allow,
        *policy.deny,
        *policy.allow_exceptions,
        *policy.deny_exceptions,
        *policy.masks,
        *policy.filters,
    )


def _refuse_conditions(policies: PolicySet) -> None:
    """Conditions are not evaluated; a policy that relies on one must not look as if it were."""
    faults = [
        f"{policy.place or 'policy'}: policy `{policy.name}` has conditions, which are not evaluated"
        for policy in policies.policies
        if policy.conditions or any(item.conditions for item in items_of(policy))
    ]
    if faults:
        raise Faults(faults)


def _remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= _MOST_REMEMBERED:
        memory.clear()
    memory[key] = value


def _column_answers(
    question: Question, names: Sequence[str], values: Sequence[str], bit: int
) -> dict[str, _Answer]:
    """Return the answer for each column; `values` are the names as they are compared."""
    granting = question.column_entries(PolicyType.ACCESS)
    effects = _effects(question, [entry.policy for entry in granting])
    # Most tables are governed as a whole: one answer serves every column.
    matchers = [entry.matchers[-1] for entry in granting]
    if all(matcher.any and not matcher.never for matcher in matchers):
        return dict.fromkeys(names, _settle(effects, bit))
    answers = {}
    for name, value in zip(names, values, strict=True):
        matching = [m.matches(value, question.asker) for m in matchers]
        answers[name] = _settle(itertools.compress(effects, matching), bit)
    return answers


def _effects(question: Question, policies: Iterable[CompiledPolicy]) -> list[_Effect]:
    subject, owner = question.subject, question.asker.owner
    return [(policy, *policy.effect(subject, owner)) for policy in policies]


def _settle(effects: Iterable[_Effect], bit: int) -> _Answer:
    """Combine the effects, which come in Ranger's order: highest priority first.

    At the highest priority where anything is said a denial wins; the first policy of the outcome is told.
    """
    granting: CompiledPolicy | None = None
    for policy, deny, allow, rest in effects:
        if granting is not None and policy.priority < granting.priority:
            break
        if (deny | rest) & bit:
            return _Answer(DENIED if deny & bit else ELSE_DENIED, policy.ref)
        if allow & bit and granting is None:
            granting = policy
    if granting is None:
        return _NOBODY_ALLOWS
    return _Answer(ALLOWED, granting.ref, allowed=True, priority=granting.priority)


def _any_access(question: Question) -> _Answer:
    """Ranger's `_any`: one access type suffices, and a denial of something further down does not count."""
    if question.deviates():
        return _Answer(DEVIATES)
    here = _effects(question, question.policies(PolicyType.ACCESS))
    known = {policy.rank for policy, *_ in here}
    below = _effects(question, (p for p in question.policies_below() if p.rank not in known))
    effects = [*here, *((policy, 0, allow, 0) for policy, _, allow, _ in below)]
    effects.sort(key=lambda effect: effect[0].rank)
    undecided = question.service.bits.all
    while undecided:
        bit = undecided & -undecided
        undecided ^= bit
        answer = _settle(effects, bit)
        if answer.allowed:
            return answer
    return _NOBODY_ALLOWS


def _unknown_access(question: Question, access: str) -> _Answer:
    return _Answer(f"`{access}` is no access type of service `{question.service.definition.name}`")


def _row_filter(question: Question) -> RowFilter | None:
    for policy in question.policies(PolicyType.ROW_FILTER):
        item = policy.obligation(question.subject, question.asker.owner, question.service.filter_bits)
        if not isinstance(item, FilterItem):
            continue
        if not item.filter_expression.strip():
            return None
        # An attribute that the user does not have leaves no row, never all of them.
        bound = bind(item.filter_expression, question.subject.principal)
        return RowFilter(expression="FALSE" if bound is None else bound, policy=policy.ref)
    return None
