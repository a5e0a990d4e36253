"""Statements in which nothing can fail, so that no barrier has to stand above a row filter.

Above a row filter stands a barrier, because Spark tries conditions of the user on rows that the filter hides,
and one that fails tells of them. Where none can fail, whatever Spark does with them, the barrier keeps Spark
from nothing but its work: partitions are pruned by joins, aggregates and limits reach the source.

INVARIANT (total): of the whole statement, each condition, each join, each key of a grouping and each column
that a query within makes is *total*: it has a value for every row that columns of these types can have, with
ANSI mode on and off. Its type is known from the catalog upwards, its operators and functions are on the lists
here, with the types for which they are total; Spark's implicit casts between operands are such as lose
nothing. Total is closed under what an optimizer does with conditions: taking them apart, turning them round,
putting a column in the place of one that equals it, trying them on more rows, and in another order. It
holds for a source that Spark hands conditions to, too: a database may fail where Spark makes an infinite
fraction, or a day after the last one that it knows.

Only what the statement shows at its very end may fail, `SELECT 1 / n`, since nothing stands above it that
Spark could merge it into: a projection is not done for rows that a filter below it drops. In a query within
it may not: Spark keeps in mind that `x` is `1 / n`, and where `n = m`, may put `m` in the place of `n` and
try what comes of it below the filter. And nothing is shown of a table with variants: Spark takes them apart,
casts and all, in the scan itself, before any filter.

What is not known here is not total.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from gateway.model.reading import ExpressionNode, Span
from gateway.sql.functions import AGGREGATES, ROW_WISE_FUNCTIONS, builtin_name
from gateway.sql.leakproof import AGGREGATING, conjuncts, steady
from gateway.sql.leakproof_copies import DECIMAL
from gateway.sql.total_columns import (
    OPEN,
    TypedColumn,
    TypedColumns,
    has_having,
    has_one_row,
    is_binding,
    is_of,
    made_name,
    named_columns,
    renamed,
    type_of,
)
from gateway.sql.total_values import (
    BOOLEAN,
    FAILING,
    KNOWN,
    NUMBERING,
    UNKNOWN,
    TotalValue,
    Values,
    aggregate,
    column_kind,
    never_fails,
    word,
)

MAX_STEPS: Final = 100_000
"""Columns and expressions that are looked at; a larger statement keeps its barriers."""

_PASSING: Final = frozenset("Distinct UnresolvedHint".split())
_LIMITS: Final = frozenset("GlobalLimit LocalLimit Offset".split())
_JOINS: Final = frozenset("Cross FullOuter Inner LeftAnti LeftOuter LeftSemi RightOuter".split())
_LEFT_ONLY: Final = frozenset("LeftAnti LeftSemi".split())
_SHOWN: Final = AGGREGATING | frozenset(
    """
    CurrentRow Cube GroupingSets Rollup SpecifiedWindowFrame UnboundedFollowing UnboundedPreceding
    UnresolvedStar UnspecifiedFrame WindowExpression WindowSpecDefinition
    """.split()
)
"""Expressions that may stand in what a statement shows, total or not: they make one value of a row or of a
group, by the rows that there are."""


_Ctes = Mapping[str, TypedColumns]


class _NotTotal(Exception):
    """Something in a statement can fail, or is not known."""


def total_statement(
    tree: ExpressionNode | None, text: str, scanned: Mapping[Span, Mapping[str, str]], ctes: frozenset[Span]
) -> Mapping[Span, frozenset[str]] | None:
    """Return for every scan the columns whose types a statement's totality rests on; None when something in
    it could fail.

    `tree` is its plan, None where that is not known. `scanned` are the tables that it reads, by where their
    names stand, each with its columns and their types; of what is no table, as views, nothing is known.
    `ctes` are the places that name common table expressions.
    """
    if tree is None:
        return None
    walk = _FailureWalk(scanned, ctes, Values(text))
    try:
        walk.shown(tree, {}, ())
    except _NotTotal:
        return None
    return {span: frozenset(walk.used.get(span, ())) for span in scanned}


def total_view(
    tree: ExpressionNode | None,
    text: str,
    scanned: Mapping[Span, Mapping[str, str]],
    ctes: frozenset[Span],
    columns: Sequence[tuple[str, str]],
) -> Mapping[Span, frozenset[str]] | None:
    """Return the same for the text of a view, of which nothing may fail: neither what it shows, since that is
    what conditions around it are on, nor what it makes of groups that it may hide. And nothing may hide rows
    by their number: what is shown of these Spark makes below a LIMIT or OFFSET, as below no other operator.

    `columns` are the view's, each by its name within the text, empty where its place tells it, and its type:
    the text has to give that very type, so that the view casts nothing.
    """
    if tree is None:
        return None
    walk = _FailureWalk(scanned, ctes, Values(text), limits=False)
    try:
        made = walk.plan(tree, {}, ())
    except _NotTotal:
        return None
    if made.open or walk.overflowing or len(made.columns) < len(columns):  # RULE (unbarred-view-overflow)
        return None
    if len(made.columns) > len(columns) and not all(name for name, _ in columns):
        return None
    for (name, kind), at in zip(columns, made.columns, strict=False):
        found = made.find((name,)) if name else [at]
        if len(found) != 1 or not is_of(kind, found[0]):  # RULE (unbarred-view-types)
            return None
    return {span: frozenset(walk.used.get(span, ())) for span in scanned}


def total_text(tree: ExpressionNode | None, text: str, columns: Mapping[str, str]) -> frozenset[str] | None:
    """Return the columns that a policy's text is made of; None when it could fail for some value of them."""
    return None if tree is None else _total_text(tree, text, tuple(columns.items()))


@lru_cache(maxsize=1024)
def _total_text(
    tree: ExpressionNode, text: str, columns: tuple[tuple[str, str], ...]
) -> frozenset[str] | None:
    """The same, remembered: the texts of a policy come again with every statement."""
    here = Span(0, 0)
    walk = _FailureWalk({here: dict(columns)}, frozenset(), Values(text))
    try:
        found = walk.value(tree, (walk.scan(here, ()),))
    except _NotTotal:
        return None
    return (
        frozenset(walk.used.get(here, ()))
        if found.total and (found.type in KNOWN or DECIMAL.match(found.type))
        else None
    )


@dataclass(slots=True)
class _FailureWalk:
    scanned: Mapping[Span, Mapping[str, str]]
    ctes: frozenset[Span]
    values: Values
    limits: bool = True
    """Whether there may be some below what may fail."""
    used: dict[Span, set[str]] = field(default_factory=dict)
    steps: int = 0
    reaching: int = 0
    """References to columns of a query around, but for those that equal one of the query itself."""
    overflowing: int = 0
    """What was let pass although it may fail, since it is made of groups."""
    binding: set[int] = field(default_factory=set)
    """The identities of the filters right below what a subquery shows."""

    def _step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            raise _NotTotal

    def scan(self, span: Span, qualifiers: Iterable[tuple[str, ...]]) -> TypedColumns:
        known = self.scanned[span]
        self._step(len(known))
        # What is asked of a variant, even at the very end, Spark does where it reads it.
        if any("variant" in kind.lower() for kind in known.values()):
            raise _NotTotal
        names = frozenset(qualifiers)
        return TypedColumns(
            tuple(
                [
                    TypedColumn(
                        name.lower(),
                        column_kind(kind),
                        names,
                        source=(span, name),
                        written="" if column_kind(kind) else kind.lower(),
                    )
                    for name, kind in known.items()
                ]
            )
        )

    # Plans.

    def shown(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[TypedColumns, ...]) -> None:
        """Go through the end of a statement, whose select list may fail."""
        match node.node:
            case "UnresolvedWith":
                self.shown(node.plans[0], self._named(node, ctes, outer), outer)
            case "Sort" if has_having(node):  # RULE (total-having-below-sort)
                self.plan(node, ctes, outer)
            case "Sort" | "Distinct" | "UnresolvedHint" | "Union":
                self._plain(node.children)
                for child in node.children:
                    self._subqueries(child, ctes, (OPEN, *outer))
                for plan in node.plans:
                    self.shown(plan, ctes, outer)
            case limit if limit in _LIMITS:
                self._limited(node)
                self.shown(node.plans[0], ctes, outer)
            case "Project" | "Aggregate":
                self._plain(node.children)
                below = self.plan(node.plans[0], ctes, outer)
                for child in node.children:
                    self._subqueries(child, ctes, (below, *outer))
            case _:
                self.plan(node, ctes, outer)

    def plan(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[TypedColumns, ...]) -> TypedColumns:
        """Return the columns of a plan in which all is total."""
        self._step()
        match node.node:
            case "UnresolvedRelation":
                return self._relation(node, ctes)
            case "UnresolvedWith":
                return self.plan(node.plans[0], self._named(node, ctes, outer), outer)
            case "OneRowRelation":
                return TypedColumns()
            case "Join":
                return self._join(node, ctes, outer)
            case "Union" | "Except" | "Intersect":
                return self._set(node, ctes, outer)
        if len(node.plans) != 1:
            raise _NotTotal
        below = self.plan(node.plans[0], ctes, outer)
        match node.node:
            case "Filter":
                binds = id(node) in self.binding
                self._conditions(node.children, (below, *outer), ctes, binds=binds)
            case "UnresolvedHaving":
                self._having(node, below, ctes, outer)
            case "SubqueryAlias":
                alias = frozenset({(node.parts[0].lower(),)})
                shown = [one._replace(qualifiers=alias) for one in below.columns if one.bare]
                return TypedColumns(tuple(shown), below.open)
            case "Project":
                return self._project(node.children, below, ctes, outer)
            case "Aggregate":
                count = int(node.value or 0)
                keys, items = node.children[:count], node.children[count:]
                known = {one.name for one in below.columns}
                made = {item.parts[0].lower() for item in items if item.node == "Alias"} - known
                for key in keys:
                    if not (key.node == "UnresolvedAttribute" and key.parts[-1].lower() in made):
                        self._total(self.value(key, (below, *outer), ctes))
                return self._project(items, below, ctes, outer)
            case "Sort":
                # What it sorts by, Spark makes below it, even below the HAVING of an aggregation.
                for order in node.children:
                    for key in order.children if order.node == "SortOrder" else (order,):
                        self._item(order, self.value(key, (below, *outer), ctes))
            case "UnresolvedSubqueryColumnAliases":
                return renamed(below, node.parts)
            case limit if limit in _LIMITS and self.limits:  # RULE (total-limit-barrier)
                self._limited(node)
            case passing if passing in _PASSING:
                self._plain(node.children)
            case _:
                raise _NotTotal
        return below

    def _relation(self, node: ExpressionNode, ctes: _Ctes) -> TypedColumns:
        parts = tuple([part.lower() for part in node.parts])
        qualifiers = frozenset(parts[start:] for start in range(len(parts)))
        if node.span in self.ctes:
            known = ctes.get(parts[-1])
            if known is None:
                raise _NotTotal  # it reads itself
            shown = [one._replace(qualifiers=qualifiers) for one in known.columns if one.bare]
            return TypedColumns(tuple(shown), known.open)
        if node.span is None or node.span not in self.scanned:
            return OPEN
        return self.scan(node.span, qualifiers)

    def _named(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[TypedColumns, ...]) -> _Ctes:
        inside = dict(ctes)
        for name, plan in zip(node.parts, node.plans[1:], strict=True):
            inside.pop(name.lower(), None)
            inside[name.lower()] = self.plan(plan, inside, outer)
        return inside

    def _join(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[TypedColumns, ...]) -> TypedColumns:
        if node.mode not in _JOINS or len(node.plans) != 2:
            raise _NotTotal
        left, right = (self.plan(plan, ctes, outer) for plan in node.plans)
        both = TypedColumns((*left.columns, *right.columns), left.open or right.open)
        self._conditions(node.children, (both, *outer), ctes)
        merged = []
        for name in node.parts:
            one, other = self._reference((name,), (left,)), self._reference((name,), (right,))
            if not one.type or one.type != other.type:
                raise _NotTotal
            merged.append(TypedColumn(name.lower(), one.type))
        if node.mode in _LEFT_ONLY:
            return left
        if not merged:
            return both
        folded = {one.name for one in merged}
        sides = [one._replace(bare=one.bare and one.name not in folded) for one in both.columns]
        return TypedColumns((*merged, *sides), both.open)

    def _set(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[TypedColumns, ...]) -> TypedColumns:
        """Return the columns of a set operation; all but UNION ALL compare those of both sides."""
        sides = [self.plan(plan, ctes, outer) for plan in node.plans]
        types = {tuple(one.type for one in side.columns) for side in sides}
        # RULE (set-operation-one-type)
        if len(types) != 1 or any(side.open for side in sides) or not all(types.pop()):
            raise _NotTotal
        return TypedColumns(
            tuple([one._replace(qualifiers=frozenset(), source=None) for one in sides[0].columns])
        )

    def _project(
        self,
        items: Sequence[ExpressionNode],
        below: TypedColumns,
        ctes: _Ctes,
        outer: tuple[TypedColumns, ...],
    ) -> TypedColumns:
        known = {one.name for one in below.columns}
        made = {i.parts[0].lower() if i.node == "Alias" else made_name(i) for i in items} - known
        if not made.isdisjoint(named_columns(items)):
            raise _NotTotal  # it means another item of the same list, or a column of a query around
        columns: list[TypedColumn] = []
        unnamed = below.open and any(item.node == "UnresolvedStar" for item in items)
        for item in items:
            if item.node == "UnresolvedStar":
                qualifier = tuple(part.lower() for part in item.parts)
                shown = [o for o in below.columns if (qualifier in o.qualifiers if qualifier else o.bare)]
                self._step(len(shown))
                columns += [one.unqualified() for one in shown]
                # What has a qualifier that is none of a relation's is a column with fields.
                unnamed |= bool(qualifier) and not shown
                continue
            found = self.value(item, (below, *outer), ctes)
            self._item(item, found)  # RULE (total-inner-query)
            if item.node == "Alias":
                columns.append(TypedColumn(item.parts[0].lower(), found.type))
            elif item.node == "UnresolvedAttribute":
                meant = below.find(item.parts)
                written = meant[0].written if len(meant) == 1 else ""
                columns.append(TypedColumn(item.parts[-1].lower(), found.type, written=written))
            else:
                name = made_name(item)
                columns.append(TypedColumn(name, found.type, guessed=bool(name)))
                unnamed = True
        return TypedColumns(tuple(columns), unnamed)

    def _having(
        self, node: ExpressionNode, below: TypedColumns, ctes: _Ctes, outer: tuple[TypedColumns, ...]
    ) -> None:
        """Look at the conditions of groups, which are on what is shown, and on what that is made of."""
        inner = node.plans[0]
        if inner.node not in ("Aggregate", "Project"):
            raise _NotTotal
        within = self.plan(inner.plans[0], ctes, outer)
        ours = [one for one in below.columns if one.source is None]
        names = {one.name for one in ours}
        if any(one.name in names and one.type != type_of(one.name, ours) for one in within.columns):
            raise _NotTotal  # which one of the two is meant is not followed
        kept = tuple([one for one in within.columns if one.name not in names])
        self._conditions(
            node.children, (TypedColumns((*ours, *kept), within.open or below.open), *outer), ctes
        )

    def _conditions(
        self,
        conditions: Iterable[ExpressionNode],
        scopes: tuple[TypedColumns, ...],
        ctes: _Ctes,
        *,
        binds: bool = False,
    ) -> None:
        """Look at conditions; with `binds`, `inner = outer` among them does not count as reaching."""
        for condition in conjuncts(conditions):
            reaching = self.reaching
            found = self.value(condition, scopes, ctes)
            self._total(found)
            if found.type not in ("boolean", "void"):
                raise _NotTotal
            if binds and is_binding(condition, scopes):
                self.reaching = reaching

    def _item(self, node: ExpressionNode, found: TotalValue) -> None:
        """Look at a column that a query within makes, or what it sorts by. What is made of groups may fail:
        it is never a condition on a row. What it aggregates may not."""
        if found.grouped and found.below:
            self.overflowing += not found.total
            self._plain([node])
        else:
            self._total(found)

    def _total(self, found: TotalValue) -> None:
        if not (found.total and found.below):
            raise _NotTotal

    def _limited(self, node: ExpressionNode) -> None:
        if any(child.node != "Literal" for child in node.children):
            raise _NotTotal

    def _plain(self, nodes: Iterable[ExpressionNode]) -> None:
        """Look at expressions that may fail: they are of one row or one group, and vary by nothing else."""
        for node in nodes:
            self._step()
            if node.node not in _SHOWN or not steady(node.plans):
                raise _NotTotal
            if node.node == "UnresolvedFunction":
                name = builtin_name(node.parts)
                if not (name in ROW_WISE_FUNCTIONS or name in AGGREGATES or name in NUMBERING):
                    raise _NotTotal
            self._plain(node.children)

    def _subqueries(self, node: ExpressionNode, ctes: _Ctes, scopes: tuple[TypedColumns, ...]) -> None:
        """Look at the queries within an expression that may fail: they may not."""
        if node.plans:
            self._total(self.value(node, scopes, ctes))
            return
        for child in node.children:
            self._subqueries(child, ctes, scopes)

    # Expressions.

    def value(
        self, node: ExpressionNode, scopes: tuple[TypedColumns, ...], ctes: _Ctes | None = None
    ) -> TotalValue:
        """Return what is known of an expression over columns of these plans, the innermost first."""
        self._step(1 + (len(scopes[0].columns) // 16 if scopes else 0))
        match node.node:
            case "UnresolvedAttribute":
                return self._reference(node.parts, scopes)
            case "Literal":
                return self.values.literal(node)
            case "Exists" | "ScalarSubquery" | "InSubquery":
                return self._query(node, scopes, ctes)
            case "WindowExpression":
                return self._window(node, scopes, ctes)
        operands = [self.value(child, scopes, ctes) for child in node.children]
        found = self.values.made(node, operands)
        if found.grouped:
            if node.node == "UnresolvedFunction":
                self.overflowing += not never_fails(builtin_name(node.parts) or "", operands)
            return found
        grouped = any(one.grouped for one in operands)
        total = found.total and all(one.total for one in operands)
        return found._replace(total=total, grouped=grouped, below=all(one.below for one in operands))

    def _reference(self, parts: Sequence[str], scopes: tuple[TypedColumns, ...]) -> TotalValue:
        for depth, scope in enumerate(scopes):
            found = scope.find(parts)
            self.reaching += bool(found and depth) or scope.open
            for one in found:
                if one.source is not None:
                    span, name = one.source
                    self.used.setdefault(span, set()).add(name)
            if found:
                # Of several Spark takes none, unless a plan says which.
                types = {"" if one.guessed else one.type for one in found}
                return TotalValue(types.pop()) if len(types) == 1 else UNKNOWN
            if scope.open:
                return UNKNOWN
        return word(parts[0].lower()) if len(parts) == 1 else UNKNOWN

    def _window(
        self, node: ExpressionNode, scopes: tuple[TypedColumns, ...], ctes: _Ctes | None
    ) -> TotalValue:
        function = node.children[0]
        operands = [self.value(child, scopes, ctes) for child in function.children]
        self._plain(node.children)
        for specified in node.children[1:]:
            for child in specified.children:
                if child.node in ("SpecifiedWindowFrame", "UnspecifiedFrame"):
                    continue
                keys = child.children if child.node == "SortOrder" else (child,)
                operands += [self.value(key, scopes, ctes) for key in keys]
        total = all(one.total and one.below for one in operands)
        name = builtin_name(function.parts) if function.node == "UnresolvedFunction" else None
        if name in NUMBERING:
            return TotalValue("int", total=total)
        over = operands[: len(function.children)]
        self.overflowing += not never_fails(name or "", over)
        return TotalValue(aggregate(name or "", over).type, total=total)

    def _query(
        self, node: ExpressionNode, scopes: tuple[TypedColumns, ...], ctes: _Ctes | None
    ) -> TotalValue:
        """A subquery in an expression: all in it is total, and one that stands for a value has one row.

        INVARIANT (groups of visible rows): what a subquery makes of groups may fail only where the groups are
        those of its own rows. For one that is bound to the rows around it otherwise than by `inner = outer`,
        Spark makes a group for each value of these rows, those that a filter hides among them.
        """
        if ctes is None:
            return FAILING  # of a policy
        reaching, overflowing = self.reaching, self.overflowing
        for shown in node.plans:
            if shown.node == "Project":
                self.binding |= {id(plan) for plan in shown.plans if plan.node == "Filter"}
        found = self._queried(node, scopes, ctes)
        if self.reaching > reaching and self.overflowing > overflowing:  # RULE (correlated-groups-overflow)
            return FAILING
        return found

    def _queried(self, node: ExpressionNode, scopes: tuple[TypedColumns, ...], ctes: _Ctes) -> TotalValue:
        if node.node == "InSubquery":
            *values, listed = node.children
            found = self.plan(listed.plans[0], ctes, scopes) if listed.plans else OPEN
            operands = [self.value(one, scopes, ctes) for one in values]
            alike = len(found.columns) == len(operands) and not found.open
            if not alike or not all(
                one.total and one.type == column.type and one.type
                for one, column in zip(operands, found.columns, strict=True)
            ):
                return FAILING
            return BOOLEAN._replace(grouped=any(one.grouped for one in operands))
        found = self.plan(node.plans[0], ctes, scopes)
        if node.node == "Exists":
            return BOOLEAN
        # RULE (scalar-subquery-one-row)
        if not has_one_row(node.plans[0]) or len(node.plans[0].children) != 1:
            return FAILING
        (item,) = node.plans[0].children
        below = self.plan(node.plans[0].plans[0], ctes, scopes)
        return TotalValue(self.value(item, (below, *scopes), ctes).type)
