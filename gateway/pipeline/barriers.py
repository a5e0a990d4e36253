"""Which row filters of a text or a plan need a barrier above them, and what may stand below one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.algebra.nodes import RelationNode
from gateway.algebra.spark import relation_of
from gateway.model.catalog import Table, TableKind, TableName
from gateway.model.meaning_settings import Influence, influence
from gateway.model.reading import RelationForm, RelationRole, Span
from gateway.pipeline.judging import Judging
from gateway.pipeline.metrics import metrics_of
from gateway.pipeline.policies import Policies
from gateway.pipeline.seeing import Prepared
from gateway.policy.engine import TableView
from gateway.policy.masks import null_of, standard_masks
from gateway.sql.change_feeds import ChangeFeed
from gateway.sql.classify import is_builtin
from gateway.sql.evaluate import masks_of
from gateway.sql.guard import NO_CONDITIONS, Below
from gateway.sql.leakproof import NONE, Leakproof, OuterConditions, Passed, Scanned, leakproof
from gateway.sql.total import total_statement, total_text, total_view
from gateway.sql.total_values import column_kind


@dataclass(frozen=True, slots=True)
class ObligationTotality:
    """A table's filter and masks: the columns that they are made of, and what of them can fail."""

    columns: frozenset[str]
    failing: frozenset[str]
    """Columns whose masks are not known to be total."""
    is_total: bool
    """Whether filter and masks are total, and choose a row by what stands in it alone."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as Spark's parser has it, or would have it."""

    tree: RelationNode | None
    text: str
    scans: Mapping[Span, TableName]
    """What it reads, by where its names stand."""
    ctes: frozenset[Span] = frozenset()


@dataclass(frozen=True, slots=True)
class Placed:
    """What of a query stands further below, by its scans."""

    below: Mapping[Span, Below] = field(default_factory=dict)
    """With the filters of tables and views."""
    passed: Mapping[Span, tuple[Passed, ...]] = field(default_factory=dict)
    """In the texts of views."""
    opened: bool = False
    """Whether nothing in the query can fail, so that nothing in it has a barrier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedViews:
    """The views that a query reads, and the one whose text it is."""

    walled: AbstractSet[TableName] = frozenset()
    """Those that may have filters or barriers in their texts."""
    barred: AbstractSet[TableName] = frozenset()
    """Those that have a barrier above them, unless nothing in the query can fail."""
    opened: AbstractSet[Span] = frozenset()
    """The places of those in whose texts nothing can fail."""
    above: OuterConditions | None = None
    """What is asked of the view whose text it is."""
    below_barrier: bool = False
    """Whether that stands above a barrier, so that Spark brings none of it here."""
    opening: Table | None = None
    """The view whose text it is, where that is asked for without barriers."""


NO_VIEWS: Final = QueriedViews()


async def below_text(prepared: Prepared, policies: Policies, judging: Judging, views: QueriedViews) -> Placed:
    """Return what stands with the filters of a text, and with the barriers of views, by its scans.

    INVARIANT (total): what stands above a text is known only where nothing does, and where Spark does not
    keep the text to read it again.
    """
    reading = prepared.reading
    if prepared.place.expression or prepared.required.shares:
        return Placed()
    if any(metrics_of(judging.snapshot.catalog.table(name)) is not None for _, name in prepared.scans):
        return Placed()
    # The columns of a change feed are not followed.
    scans = {r.span: n for r, n in prepared.scans if r.span is not None and not isinstance(r, ChangeFeed)}
    if not (filters_any(scans.values(), policies, views) or views.below_barrier or views.opening):
        return Placed()
    ctes = frozenset(r.span for r in reading.relations if r.role is RelationRole.CTE and r.span is not None)
    query = Query(relation_of(reading), prepared.text, scans, ctes)
    alone = (
        (prepared.place.alone or views.opening is not None)  # RULE (inner-text-barriers)
        and not reading.commands
        and all(map(is_builtin, reading.functions))
        and not _share_a_name(prepared)  # RULE (same-name-no-casts)
    )
    return below_query(query, policies, judging, alone=alone, views=views)


def _share_a_name(prepared: Prepared) -> bool:
    """Whether columns may tell tables without an alias apart by their databases alone: a table that is cast,
    as those beside one without a barrier are, would have to be called otherwise."""
    if all(len(column.parts) + column.star < 3 for column in prepared.reading.columns):
        return False
    bare = {(r.parts[-1].lower(), name.fold()) for r, name in prepared.scans if r.form is RelationForm.BARE}
    names = [alias for alias, _ in bare]
    return len(bare) > 1 and (
        len(set(names)) < len(bare) or not prepared.reading.subquery_aliases.isdisjoint(names)
    )


def below_query(
    query: Query,
    policies: Policies,
    judging: Judging,
    *,
    alone: bool,
    exact: bool = True,
    views: QueriedViews = NO_VIEWS,
) -> Placed:
    """Return what stands with the filters of a query.

    `alone`: it is all that is asked, and calls nothing but Spark's own functions. `exact`: each name in it
    can mean one column only, as in a text; otherwise those of one name are of one type.
    """
    below = _without_barriers(query, policies, judging, views) if alone else None
    if views.opening is not None:
        return Placed(below or {}, opened=below is not None)
    below = below or {}
    opened = {span for span, one in below.items() if one.types_relied_on is not None}
    found = _copies(query, policies, judging, opened, views) if exact else NONE
    for span, conditions in found.copies.items():
        below[span] = replace(below.get(span, NO_CONDITIONS), conditions=conditions)
    return Placed(below, found.passed)


def filters_any(names: Iterable[TableName], policies: Policies, views: QueriedViews) -> bool:
    """Whether one of these has a barrier, or may have one in its text."""
    barred = views.walled | views.barred
    return any(_is_filtered(name, policies) or name.fold() in barred for name in names)


def _is_filtered(name: TableName, policies: Policies) -> bool:
    view = policies.views[name.fold()]
    return view is not None and (view.row_filter is not None or name.fold() in policies.reading)


def _copies(
    query: Query,
    policies: Policies,
    judging: Judging,
    opened: AbstractSet[Span],
    views: QueriedViews,
) -> Leakproof:
    """Return the conditions of a query that may be tried on hidden rows, by the scan that they are on."""
    if not judging.rules.push_down:
        return NONE
    scanned: dict[Span, Scanned] = {}
    for span, name in query.scans.items():
        table, view = judging.snapshot.catalog.table(name), policies.views[name.fold()]
        if table is None or view is None:
            continue
        shown = {c.name: c.type.lower() for c in table.columns if c.name not in view.hidden}
        masked = {column.lower() for column in view.masks}
        # INVARIANT (only less): a filter that takes one row in ten would take others, were some gone.
        firm = name.fold() not in policies.choosing  # RULE (pushdown-past-choosing-filter)
        stored = frozenset(c for c in shown if firm and c.lower() not in masked)
        barrier = (_is_filtered(name, policies) or views.below_barrier) and span not in opened
        # Into a view that only has a barrier above it no condition goes by that barrier, but into its text.
        takes = barrier and (table.kind is TableKind.TABLE or _is_filtered(name, policies))
        passes = views.below_barrier or name.fold() in views.walled | views.barred
        scanned[span] = Scanned(
            columns=shown,
            takes=stored if takes else frozenset(),
            passes=stored if passes and span not in opened else frozenset(),
        )
    if not any(one.takes or one.passes for one in scanned.values()):
        return NONE
    return leakproof(query.tree, query.text, scanned, query.ctes, views.above)


def may_be_without(judging: Judging) -> bool:
    """Whether barriers may be left out at all: not where a setting could give an operator another meaning."""
    if judging.rules.barriers == "always":
        return False
    return not any(influence(key) is Influence.ANYTHING for key in judging.settings)


def _without_barriers(
    query: Query, policies: Policies, judging: Judging, views: QueriedViews
) -> dict[Span, Below] | None:
    """Return the scans of a query that need no barrier, and those beside them, with the types that this rests
    on; None where each filter and view has its own.

    INVARIANT (types as judged): the text of a view may hide rows of all that it reads, so within it all is
    asked for its types.
    """
    if not may_be_without(judging):
        return None
    tables: dict[Span, tuple[Table, TableView, ObligationTotality]] = {}
    for span, name in query.scans.items():
        table, view = judging.snapshot.catalog.table(name), policies.views[name.fold()]
        if table is None or view is None:
            continue
        if table.kind is TableKind.TABLE or (table.kind is TableKind.VIEW and span in views.opened):
            tables[span] = table, view, _find_totality(table, view, policies)
    within = views.opening is not None
    opened = {
        span
        for span, (table, view, on) in tables.items()
        # RULE (inner-view-types)
        if on.is_total and (within or view.row_filter is not None or table.kind is TableKind.VIEW)
    }
    if within and len(opened) < len(query.scans):
        return None
    if not opened and not within:
        return None
    shown = {span: dict(_list_shown_columns(*one)) for span, one in tables.items()}
    if views.opening is not None:
        used = total_view(query.tree, query.text, shown, query.ctes, _list_view_columns(views.opening))
    else:
        used = total_statement(query.tree, query.text, shown, query.ctes)
    if used is None:
        return None
    return {
        span: Below(types_relied_on=tuple(_types(table, used[span] | on.columns)))
        if span in opened
        # A text is one, whatever length its column has.
        # RULE (unbarred-casts)
        else Below(cast=tuple((name, column_kind(type_)) for name, type_ in _types(table, used[span])))
        for span, (table, _, on) in tables.items()
    }


def _list_view_columns(view: Table) -> tuple[tuple[str, str], ...]:
    """Return a view's columns as its text has them: their names there, empty where their places tell, and
    their types."""
    if view.view is None or view.view.by_position:
        return tuple([("", column.type) for column in view.columns])
    return tuple([(name, c.type) for name, c in zip(view.view.output, view.columns, strict=True)])


def _find_totality(table: Table, view: TableView, policies: Policies) -> ObligationTotality:
    types = {column.name: column.type.lower() for column in table.columns}
    columns: set[str] = set()
    failing: set[str] = set()
    for name, mask in masks_of(view).items():
        columns.add(name)
        if mask.expression in standard_masks(mask.column, types.get(name, "")) | {null_of(name)}:
            continue
        found = total_text(policies.trees.get(mask.expression), mask.expression, types)
        if found is None:
            failing.add(name)
        columns |= found or set()
    firm = not failing
    folded = table.name.fold()
    if view.row_filter is not None:
        text = view.row_filter.expression
        found = total_text(policies.trees.get(text), text, types)
        columns |= found or set()
        # RULE (fallible-filter-barrier)
        firm = firm and found is not None and folded not in policies.reading | policies.choosing
    return ObligationTotality(frozenset(columns), frozenset(failing), firm)


def _list_shown_columns(
    table: Table, view: TableView, resting: ObligationTotality
) -> Iterator[tuple[str, str]]:
    """Yield the columns that a statement can name, and their types; of those whose masks can fail,
    empty ones."""
    for column in table.columns:
        if column.name not in view.hidden:
            yield column.name, "" if column.name in resting.failing else column.type.lower()


def _types(table: Table, names: frozenset[str]) -> Iterator[tuple[str, str]]:
    for column in table.columns:
        if column.name in names and column_kind(column.type):
            yield column.name, column.type.lower()
