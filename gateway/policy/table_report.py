"""What one user sees of one table and by which policies: the engine's own answers, put together for people.

Nothing is decided here. Columns, masks and rows are those of `Engine.table_view`, which judging uses, and the
reasons those of `Engine.explain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gateway.model.catalog import Column
from gateway.model.context import AccessContext
from gateway.model.decision import Considered, PolicyRef
from gateway.model.policy import Policy, PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource, Scope
from gateway.policy.describing import (
    PolicyLabel,
    describe_condition,
    describe_schedule,
    find_labelled,
    kind_of_policy,
    label_of,
    label_of_ref,
)
from gateway.policy.engine import DEFAULT_SERVICE, engine_for
from gateway.policy.resource_names import service_of_catalog

SELECT = "select"
MAX_REPORTED_COLUMNS = 1_000
MAX_REPORTED_POLICIES = 200
MAX_SETTLED = 20
ROWS = "rows"
_Sight = Literal["shown", "masked", "denied"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledBy:
    """What settled an answer: a policy, by which item and tag, and the engine's words."""

    policy: PolicyLabel | None
    """None: no policy did."""
    item: str = ""
    tag: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedColumn:
    """One column as the user sees it."""

    name: str
    type: str
    sight: _Sight
    access: SettledBy
    """Why it may be selected, or may not."""
    mask: str = ""
    """The mask type; empty where the value itself is shown."""
    shows: str = ""
    """The SQL that stands in place of the column."""
    masked_by: PolicyLabel | None = None
    in_predicates: bool = True
    """Whether the column may be used outside the output."""
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFilter:
    """Which rows the user sees."""

    expression: str
    """With the user's values in it."""
    policy: PolicyLabel | None
    checks_writes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeakingPolicy:
    """A policy that speaks of the table or of something in it, and what became of it for this user."""

    policy: PolicyLabel
    kind: str
    tag: str
    settled: bool
    settles: tuple[str, ...]
    """Names of the columns whose access or mask it settled, and `rows`; of many the first."""
    why: str
    """Why it did or did not, in words; empty for one on some columns alone that settled none."""
    validity: tuple[str, ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """What one user sees of one table."""

    table: str
    user: str
    groups: tuple[str, ...]
    roles: tuple[str, ...]
    visible: bool
    """Whether they may know that the table is there."""
    columns: tuple[ReportedColumn, ...]
    more_columns: int
    shown: int
    masked: int
    denied: int
    rows: ReportedFilter | None
    """None: every row."""
    closed: str
    """Why the table is closed to everybody, whatever policies allow."""
    policies: tuple[SpeakingPolicy, ...]
    more_policies: int
    depends_on: tuple[str, ...]
    """Circumstances that the answer depends on: `time`, `client_ip` and others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportChange:
    """Something that two reports of one user and table say differently."""

    what: str
    """Name of a column, `rows`, or `table`."""
    before: str
    after: str


def report_table(
    policies: PolicySet,
    principal: Principal,
    table: Resource,
    columns: Sequence[Column],
    context: AccessContext,
) -> TableReport:
    """Return what a user sees of a table under these policies, in these circumstances."""
    engine = engine_for(policies)
    view = engine.table_view(principal, table, columns, SELECT, context)
    speaking = engine.policies_on(table, context, within=True)
    service = service_of_catalog(table.level("catalog") or "", policies)
    label = _find_labels([policy for policy, _ in speaking], service)
    request = AccessRequest(
        principal=principal,
        resource=table,
        access=SELECT,
        context=context,
        scope=Scope.SELF_OR_DESCENDANTS,
    )
    explanation = engine.explain(request, asked_only=True)
    reported = []
    for column in columns[:MAX_REPORTED_COLUMNS]:
        mask, decision = view.masks.get(column.name), view.allowed[column.name]
        denied = bool(view.closed) or column.name in view.hidden
        tags = engine.tags(table.child("column", column.name), context)
        reported.append(
            ReportedColumn(
                name=column.name,
                type=column.type,
                sight="denied" if denied else "shown" if mask is None else "masked",
                access=SettledBy(
                    policy=label(decision.policy),
                    item=decision.item,
                    tag=decision.tag,
                    reason=decision.reason,
                ),
                mask="" if mask is None or denied else mask.mask_type,
                shows="" if mask is None or denied else mask.expression,
                masked_by=None if mask is None or denied else label(mask.policy),
                in_predicates=mask is None or mask.predicate != "deny",
                tags=tuple(dict.fromkeys(tag.type for tag in tags)),
            )
        )
    settled: dict[PolicyRef, list[str]] = {}
    for column in columns[:MAX_REPORTED_COLUMNS]:
        by = [view.allowed[column.name].policy]
        if column.name in view.masks:
            by.append(view.masks[column.name].policy)
        for ref in dict.fromkeys(by):
            settled.setdefault(ref, []).append(column.name)
    if view.row_filter is not None:
        settled.setdefault(view.row_filter.policy, []).append(ROWS)
    names = {column.name for column in columns}
    hidden = names if view.closed else names & view.hidden
    masked = len(view.masks.keys() & names - hidden)
    rows = view.row_filter
    return TableReport(
        table=str(table),
        user=principal.user,
        groups=tuple(sorted(principal.groups)),
        roles=tuple(sorted(explanation.roles or principal.roles)),
        visible=engine.visible(principal, table, context),
        columns=tuple(reported),
        more_columns=len(columns) - len(reported),
        shown=len(names) - len(hidden) - masked,
        masked=masked,
        denied=len(hidden),
        rows=None
        if rows is None
        else ReportedFilter(expression=rows.expression, policy=label(rows.policy), checks_writes=rows.check),
        closed=view.closed,
        policies=tuple(_report_policies(speaking[:MAX_REPORTED_POLICIES], explanation.considered, settled)),
        more_policies=max(0, len(speaking) - MAX_REPORTED_POLICIES),
        depends_on=tuple(sorted(view.context_dependencies)),
    )


def explain_column(
    policies: PolicySet, principal: Principal, column: Resource, context: AccessContext
) -> tuple[SpeakingPolicy, ...]:
    """Return what became of each policy that was asked about one column."""
    engine = engine_for(policies)
    request = AccessRequest(principal=principal, resource=column, access=SELECT, context=context)
    explanation = engine.explain(request, asked_only=True)
    speaking = engine.policies_on(column, context)
    return tuple(_report_policies(speaking[:MAX_REPORTED_POLICIES], explanation.considered, {}))


def _report_policies(
    speaking: Iterable[tuple[Policy, str]],
    considered: Iterable[Considered],
    settled: Mapping[PolicyRef, Sequence[str]],
) -> Iterable[SpeakingPolicy]:
    told: dict[tuple[PolicyRef, str], Considered] = {}
    for one in considered:
        key = (one.policy, one.tag)
        if key not in told or one.settled:
            told[key] = one
    for policy, tag in speaking:
        ref = PolicyRef(id=policy.id, name=policy.name, version=policy.version)
        found, own = told.get((ref, tag)), settled.get(ref, ())
        why = "" if found is None else found.why
        if own and not (found is not None and found.settled):
            why = "it speaks of these"
        yield SpeakingPolicy(
            policy=label_of(policy),
            kind=kind_of_policy(policy),
            tag=tag,
            settled=bool(own) or (found is not None and found.settled),
            settles=tuple(own[:MAX_SETTLED]),
            why=why,
            validity=tuple(map(describe_schedule, policy.schedules)),
            conditions=tuple(map(describe_condition, policy.conditions)),
        )


def _find_labels(policies: Sequence[Policy], service: str) -> Callable[[PolicyRef], PolicyLabel | None]:
    known = find_labelled(policies)

    def label(ref: PolicyRef) -> PolicyLabel | None:
        if not ref.name:
            return None
        return known(ref) or label_of_ref(ref, service or DEFAULT_SERVICE)

    return label


def compare_reports(before: TableReport, after: TableReport) -> tuple[ReportChange, ...]:
    """Return what two reports of one user and table say differently, columns in their order."""
    changes = []
    if before.visible != after.visible:
        changes.append(
            ReportChange(
                what="table", before=_write_visible(before.visible), after=_write_visible(after.visible)
            )
        )
    old = {column.name: _sight_of(column) for column in before.columns}
    new = {column.name: _sight_of(column) for column in after.columns}
    for name in dict.fromkeys((*old, *new)):
        one, other = old.get(name, "not there"), new.get(name, "not there")
        if one != other:
            changes.append(ReportChange(what=name, before=one, after=other))
    if (one := _rows_of(before)) != (other := _rows_of(after)):
        changes.append(ReportChange(what="rows", before=one, after=other))
    return tuple(changes)


def _write_visible(visible: bool) -> str:
    return "visible" if visible else "not visible"


def _sight_of(column: ReportedColumn) -> str:
    if column.sight != "masked":
        return column.sight
    return f"masked: {column.mask} {column.shows}" + ("" if column.in_predicates else ", not in predicates")


def _rows_of(report: TableReport) -> str:
    if report.rows is None:
        return "every row"
    return f"rows where {report.rows.expression}" + (", also to write" if report.rows.checks_writes else "")


def cut_report(report: TableReport) -> TableReport:
    """Return what the user of a report may see of it: not the names of columns that they may not know of, nor
    texts of masks and filters, which may name what is none of theirs, nor policies that settled nothing."""
    # What denies a column may be called after it.
    seen = {column.name for column in report.columns if column.sight != "denied"} | {ROWS}
    # RULE (console-own-report)
    return replace(
        report,
        columns=tuple(replace(column, shows="") for column in report.columns if column.sight != "denied"),
        rows=None if report.rows is None else replace(report.rows, expression=""),
        policies=tuple(
            replace(one, conditions=(), settles=(), why="")
            for one in report.policies
            if not seen.isdisjoint(one.settles)  # RULE (console-own-policies)
        ),
        more_policies=0,
    )
