"""Decides: who may do what on which resource, what a column shows instead, which rows a table shows.

Where a new text of policies is not taken as it stands, because its cases fail, what it takes away is in
force and what it would give is not: both are asked, the new text and what was in force before it. Nothing is
allowed that one of them does not allow, and the masks and filters of both hold.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import replace

from gateway.model.catalog import Column
from gateway.model.context import NO_CONTEXT, AccessContext
from gateway.model.decision import ColumnMask, Decision, RowFilter
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.tags import Tag
from gateway.policy.combining import ALLOWED, DENIED, ELSE_DENIED, UNDECIDED
from gateway.policy.deciding import PolicyEngine
from gateway.policy.masks import DEFAULT_MASKED_DATE, null_of
from gateway.policy.obligations import NO_ROWS, ObligationItem
from gateway.policy.resource_names import DEFAULT_SERVICE
from gateway.policy.views import Decisions, TableView, all_filters, both_masks, merge_table_views

__all__ = [
    "ALLOWED",
    "DEFAULT_SERVICE",
    "DENIED",
    "ELSE_DENIED",
    "UNDECIDED",
    "Engine",
    "ObligationItem",
    "TableView",
    "engine_for",
]

BEFORE = "by the policies from before a test case failed"


class Engine(PolicyEngine):
    """Answers for one PolicySet and, where there is one, for what was in force before it.

    INVARIANT (a case that fails gives nothing, and holds no denial back): each answer is the stricter of two.
    """

    def __init__(
        self, policies: PolicySet, *, masked_date: str = DEFAULT_MASKED_DATE, base: Engine | None = None
    ) -> None:
        """As a `PolicyEngine` is made."""
        super().__init__(policies, masked_date=masked_date, base=base)
        self._before: Engine | None = None
        if policies.before is not None:
            older = base if base is None or base._before is None else base._before
            self._before = Engine(policies.before, masked_date=masked_date, base=older)

    def decide(self, request: AccessRequest) -> Decision:
        decision = super().decide(request)
        if self._before is None or not decision.allowed:
            return decision
        return _stricter(decision, self._before.decide(request))  # RULE (failing-case-decision)

    def decide_groups(self, request: AccessRequest, groups: Sequence[frozenset[str]]) -> Decision:
        decision = super().decide_groups(request, groups)
        if self._before is None or not decision.allowed:
            return decision
        return _stricter(decision, self._before.decide_groups(request, groups))  # RULE (failing-case-groups)

    def visible(self, principal: Principal, resource: Resource, context: AccessContext = NO_CONTEXT) -> bool:
        seen = super().visible(principal, resource, context)
        # RULE (failing-case-visible)
        return seen and (self._before is None or self._before.visible(principal, resource, context))

    def visible_tables(
        self,
        principal: Principal,
        database: Resource,
        tables: Sequence[str],
        context: AccessContext = NO_CONTEXT,
    ) -> bytes:
        seen = super().visible_tables(principal, database, tables, context)
        if self._before is None:
            return seen
        before = self._before.visible_tables(principal, database, tables, context)
        # RULE (failing-case-listing)
        return bytes(one & other for one, other in zip(seen, before, strict=True))

    def mask(
        self,
        principal: Principal,
        column: Resource,
        data_type: str,
        context: AccessContext = NO_CONTEXT,
        service: str | None = None,
    ) -> ColumnMask | None:
        mask = super().mask(principal, column, data_type, context, service)
        if self._before is None:
            return mask
        before = self._before.mask(principal, column, data_type, context, service)
        return _mask_of_both(mask, before) if mask is not None and before is not None else mask or before

    def row_filter(
        self,
        principal: Principal,
        table: Resource,
        context: AccessContext = NO_CONTEXT,
        service: str | None = None,
    ) -> RowFilter | None:
        rows = super().row_filter(principal, table, context, service)
        if self._before is None:
            return rows
        before = self._before.row_filter(principal, table, context, service)
        return _filter_of_both(rows, before) if rows is not None and before is not None else rows or before

    def table_view(
        self,
        principal: Principal,
        table: Resource,
        columns: Sequence[Column],
        access: str = "select",
        context: AccessContext = NO_CONTEXT,
    ) -> TableView:
        view = super().table_view(principal, table, columns, access, context)
        if self._before is None:
            return view
        before = self._before.table_view(principal, table, columns, access, context)
        names = [column.name for column in columns]
        request = AccessRequest(principal=principal, resource=table, access=access, context=context)
        masks = {
            name: _mask_of_both(mask, before.masks[name]) if name in before.masks else mask
            for name, mask in view.masks.items()
        }
        rows = view.row_filter
        if rows is not None and before.row_filter is not None:
            rows = _filter_of_both(rows, before.row_filter)
        return replace(
            merge_table_views(view.hidden | before.hidden, (view, before)),  # RULE (failing-case-columns)
            allowed=Decisions(self.decide, request, names, lambda: {name: name for name in names}),
            masks={**before.masks, **masks},  # RULE (failing-case-masks)
            row_filter=rows or before.row_filter,  # RULE (failing-case-filters)
        )

    def tags(
        self, resource: Resource, context: AccessContext = NO_CONTEXT, *, within: bool = False
    ) -> tuple[Tag, ...]:
        tags = super().tags(resource, context, within=within)
        if self._before is None:
            return tags
        return (*tags, *(t for t in self._before.tags(resource, context, within=within) if t not in tags))

    def shares(self, resource: Resource) -> bool:
        return super().shares(resource) or (self._before is not None and self._before.shares(resource))

    def may_be_denied_below(self, resource: Resource) -> bool:
        before = self._before
        return super().may_be_denied_below(resource) or (
            before is not None and before.may_be_denied_below(resource)
        )

    def may_be_hidden_below(self, resource: Resource) -> bool:
        before = self._before
        return super().may_be_hidden_below(resource) or (
            before is not None and before.may_be_hidden_below(resource)
        )

    def would_rename_widen_access(self, old: Resource, new: Resource) -> bool:
        before = self._before
        return super().would_rename_widen_access(old, new) or (
            before is not None and before.would_rename_widen_access(old, new)
        )

    def guards_escaped(self, new: Resource, old: Resource, *, beginning: bool = False) -> bool:
        before = self._before
        return super().guards_escaped(new, old, beginning=beginning) or (
            before is not None and before.guards_escaped(new, old, beginning=beginning)
        )


def _stricter(decision: Decision, before: Decision) -> Decision:
    """Return the answer of two of which the first allows."""
    context_dependencies = decision.context_dependencies | before.context_dependencies
    if before.allowed:
        return replace(decision, context_dependencies=context_dependencies)
    return replace(before, reason=f"{before.reason}, {BEFORE}", context_dependencies=context_dependencies)


def _mask_of_both(mask: ColumnMask, before: ColumnMask) -> ColumnMask:
    found = replace(
        both_masks(mask, before), context_dependencies=mask.context_dependencies | before.context_dependencies
    )
    if mask.expression != before.expression:
        return replace(found, author="")
    if mask.author and before.author and mask.author != before.author:
        return replace(found, mask_type="MASK_NULL", expression=null_of(mask.column), author="")
    return replace(found, author=mask.author or before.author)


def _filter_of_both(rows: RowFilter, before: RowFilter) -> RowFilter:
    found = replace(
        all_filters((rows, before)) or rows,
        context_dependencies=rows.context_dependencies | before.context_dependencies,
    )
    same = rows.expression == before.expression
    # RULE (failing-case-author)
    if rows.author == before.author or (same and not (rows.author and before.author)):
        return replace(found, author=rows.author or before.author)
    # One text has one author, and counts for no more than he may select.
    return replace(found, expression=NO_ROWS, author="")


_engines: weakref.WeakKeyDictionary[PolicySet, Engine] = weakref.WeakKeyDictionary()


def engine_for(policies: PolicySet, base: PolicySet | None = None) -> Engine:
    """Return the engine of a PolicySet, compiled once and dropped with it.

    From the engine of `base`, an older set, comes whatever has not changed: services that are the same
    object, and of the others every policy that is the same or equal.
    """
    engine = _engines.get(policies)
    if engine is None:
        older = _engines.get(base) if base is not None else None
        engine = _engines[policies] = Engine(policies, base=older)
    return engine
