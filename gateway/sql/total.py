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

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    ColumnAliases,
    ConditionClause,
    DroppedColumns,
    Expression,
    Filter,
    Join,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OneRow,
    Operator,
    Pass,
    Passing,
    Projection,
    QueryKind,
    RelationNode,
    RenamedColumns,
    SetKind,
    SetOperation,
    Star,
    Subquery,
    SubqueryAlias,
    WindowCall,
    With,
    WithColumns,
)
from gateway.algebra.resolve import Resolver, TooMuch
from gateway.algebra.scope import (
    AmbiguousName,
    FoundField,
    FoundName,
    NameAnswer,
    NameScope,
    OpenName,
    RelationColumn,
    RelationColumns,
    of_groups,
    scope_of,
)
from gateway.algebra.spark import lower_expression
from gateway.algebra.walking import infer_name, names_in
from gateway.model.reading import ExpressionNode, Span
from gateway.sql.functions import AGGREGATES, builtin_name
from gateway.sql.leakproof_copies import DECIMAL
from gateway.sql.rows import NUMBERING, may_be_shown
from gateway.sql.total_values import (
    BOOLEAN,
    FAILING,
    KNOWN,
    UNKNOWN,
    TotalValue,
    Values,
    aggregate,
    column_kind,
    never_fails,
    word,
)

_OPEN: Final[RelationColumns[TotalValue]] = RelationColumns(open=True)


class _NotTotal(Exception):
    """Something in a statement can fail, or is not known."""


def total_statement(
    tree: RelationNode | None, text: str, scanned: Mapping[Span, Mapping[str, str]], ctes: frozenset[Span]
) -> Mapping[Span, frozenset[str]] | None:
    """Return for every scan the columns whose types a statement's totality rests on; None when something in
    it could fail.

    `tree` is its plan, None where that is not known. `scanned` are the tables that it reads, by where their
    names stand, each with its columns and their types; of what is no table, as views, nothing is known.
    `ctes` are the places that name common table expressions.
    """
    if tree is None:
        return None
    domain = _TotalDomain(scanned, ctes, Values(text))
    try:
        domain.check_end_of_statement(tree, NameScope())
    except (_NotTotal, TooMuch):
        return None
    return domain.list_relied_on()


def total_view(
    tree: RelationNode | None,
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
    domain = _TotalDomain(scanned, ctes, Values(text), limits=False)
    try:
        made = domain.resolver.relation(tree, NameScope())
    except (_NotTotal, TooMuch):
        return None
    if made.open or domain.overflowing or len(made.columns) < len(columns):  # RULE (unbarred-view-overflow)
        return None
    if len(made.columns) > len(columns) and not all(name for name, _ in columns):
        return None
    for (name, kind), at in zip(columns, made.columns, strict=False):
        found = made.find_columns((name,)) if name else [at]
        if len(found) != 1 or not _is_of(kind, found[0]):  # RULE (unbarred-view-types)
            return None
    return domain.list_relied_on()


def total_text(tree: ExpressionNode | None, text: str, columns: Mapping[str, str]) -> frozenset[str] | None:
    """Return the columns that a policy's text is made of; None when it could fail for some value of them."""
    return None if tree is None else _total_text(tree, text, tuple(columns.items()))


@lru_cache(maxsize=1024)
def _total_text(
    tree: ExpressionNode, text: str, columns: tuple[tuple[str, str], ...]
) -> frozenset[str] | None:
    """The same, remembered: the texts of a policy come again with every statement."""
    scan = NamedScan((), span=Span(0, 0))
    domain = _TotalDomain({Span(0, 0): dict(columns)}, frozenset(), Values(text), queries=False)
    try:
        row = domain.resolver.relation(scan, NameScope())
        found = domain.resolver.value(lower_expression(tree), scope_of(row))
    except (_NotTotal, TooMuch):
        return None
    known = found.total and (found.type in KNOWN or DECIMAL.match(found.type))
    return domain.list_relied_on()[Span(0, 0)] if known else None


@dataclass(slots=True)
class _TotalDomain:
    """Whether columns and expressions have a value for every row."""

    scanned: Mapping[Span, Mapping[str, str]]
    ctes: frozenset[Span]
    values: Values
    limits: bool = True
    """Whether there may be some below what may fail."""
    queries: bool = True
    """Whether there may be any within expressions."""
    used: dict[Span, set[str]] = field(default_factory=dict)
    reaching: int = 0
    """References to columns of a query around, but for those that equal one of the query itself."""
    overflowing: int = 0
    """What was let pass although it may fail, since it is made of groups."""
    binding: set[int] = field(default_factory=set)
    """The identities of the filters right below what a subquery shows."""
    resolver: Resolver[TotalValue] = field(init=False)

    def __post_init__(self) -> None:
        self.resolver = Resolver(self, self.ctes)

    def list_relied_on(self) -> Mapping[Span, frozenset[str]]:
        return {span: frozenset(self.used.get(span, ())) for span in self.scanned}

    # What a statement shows.

    def check_end_of_statement(self, relation: RelationNode, scope: NameScope[TotalValue]) -> None:
        """Go through the end of a statement, whose select list may fail."""
        match relation:
            case With():
                self.check_end_of_statement(relation.input, self.resolver.within(relation, scope))
            case Pass(why=Passing.LIMIT):
                self._check_limit(relation)
                self.check_end_of_statement(relation.input, scope)
            case Pass(why=Passing.SORT) if _has_having(relation):  # RULE (total-having-below-sort)
                self.resolver.relation(relation, scope)
            case Pass(why=Passing.SORT | Passing.DISTINCT | Passing.HINT) | SetOperation(kind=SetKind.UNION):
                self._check_shown(relation.expressions, scope.over(_OPEN))
                for one in relation.inputs:
                    self.check_end_of_statement(one, scope)
            case Projection() | Aggregate() | WithColumns():
                below = self.resolver.relation(relation.input, scope)
                self._check_shown(relation.expressions, scope.over(below))
            case _:
                self.resolver.relation(relation, scope)

    def _check_shown(self, expressions: Iterable[Expression], scope: NameScope[TotalValue]) -> None:
        """Look at expressions that may fail; the queries within them may not."""
        for expression in expressions:
            self._plain(expression)
            self._subqueries(expression, scope)

    def _subqueries(self, expression: Expression, scope: NameScope[TotalValue]) -> None:
        if isinstance(expression, Subquery):
            self._total(self.resolver.value(expression, scope))
        else:
            for one in expression.operands:
                self._subqueries(one, scope)

    # What the resolver asks.

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, TotalValue]] | None:
        known = self.scanned.get(scan.span) if scan.span is not None else None
        if scan.span is None or known is None:
            return None
        # What is asked of a variant, even at the very end, Spark does where it reads it.
        if any("variant" in kind.lower() for kind in known.values()):
            raise _NotTotal
        self.resolver.step(len(known))
        columns = []
        for name, kind in known.items():
            type_ = column_kind(kind)
            written = "" if type_ else kind.lower()
            columns.append((name, TotalValue(type_, source=(scan.span, name), written=written)))
        return columns

    def column(
        self, column: NamedColumn, answer: NameAnswer[TotalValue], scope: NameScope[TotalValue]
    ) -> TotalValue:
        match answer:
            case FoundName() | AmbiguousName():
                found = (answer.attribute,) if isinstance(answer, FoundName) else answer.attributes
                self.reaching += bool(answer.depth or answer.open)
                for one in found:
                    if one.value.source is not None:
                        span, name = one.value.source
                        self.used.setdefault(span, set()).add(name)
                # Of several Spark takes none, unless a plan says which.
                types = {_type_of(one) for one in found}
                written = found[0].value.written if len(found) == 1 else ""
                return TotalValue(types.pop(), written=written) if len(types) == 1 else UNKNOWN
            case OpenName() | FoundField():
                self.reaching += 1
                return UNKNOWN
        return word(column.parts[0].lower()) if len(column.parts) == 1 else UNKNOWN

    def compute(self, expression: Expression, operands: Sequence[TotalValue]) -> TotalValue:
        if isinstance(expression, WindowCall):
            return self._check_window(expression, operands)
        found = self.values.compute(expression, operands)
        if found.grouped:
            if isinstance(expression, NamedCall):
                self.overflowing += not never_fails(builtin_name(expression.parts) or "", operands)
            return found
        if all(one.total and one.below and not one.grouped for one in operands):
            return found
        return found._replace(
            total=found.total and all(one.total for one in operands),
            grouped=any(one.grouped for one in operands),
            below=all(one.below for one in operands),
        )

    def query(self, query: Subquery, scope: NameScope[TotalValue]) -> TotalValue:
        """A subquery in an expression: all in it is total, and one that stands for a value has one row.

        INVARIANT (groups of visible rows): what a subquery makes of groups may fail only where the groups are
        those of its own rows. For one that is bound to the rows around it otherwise than by `inner = outer`,
        Spark makes a group for each value of these rows, those that a filter hides among them.
        """
        if not self.queries:
            return FAILING
        reaching, overflowing = self.reaching, self.overflowing
        if isinstance(query.relation, Projection) and isinstance(query.relation.input, Filter):
            self.binding.add(id(query.relation.input))
        found = self._check_query(query, scope)
        if self.reaching > reaching and self.overflowing > overflowing:  # RULE (correlated-groups-overflow)
            return FAILING
        return found

    def expand(
        self, star: Star, shown: Sequence[RelationColumn[TotalValue]], scope: NameScope[TotalValue]
    ) -> Sequence[RelationColumn[TotalValue]]:
        return shown

    def star(
        self, star: Star, shown: Sequence[RelationColumn[TotalValue]], scope: NameScope[TotalValue]
    ) -> TotalValue:
        return FAILING

    def variable(self) -> TotalValue:
        return UNKNOWN

    def item(self, item: Expression, value: TotalValue) -> TotalValue:
        """Look at a column that a query within makes, or what it sorts by. What is made of groups may fail:
        it is never a condition on a row. What it aggregates may not."""
        if value.grouped and value.below:
            self.overflowing += not value.total
            self._plain(item)
        else:
            self._total(value)  # RULE (total-inner-query)
        return TotalValue(value.type, written=value.written)

    def merge(self, values: Sequence[TotalValue]) -> TotalValue:
        types = {one.type for one in values}
        return TotalValue(types.pop()) if len(types) == 1 else UNKNOWN

    def decide(
        self,
        relation: RelationNode,
        inputs: Sequence[RelationColumns[TotalValue]],
        scope: NameScope[TotalValue],
    ) -> Sequence[RelationColumns[TotalValue]]:
        here = scope.over(inputs[0]) if inputs else scope
        match relation:
            case Filter(clause=ConditionClause.WHERE):
                self._conditions(relation.conditions, here, binds=id(relation) in self.binding)
            case Filter(clause=ConditionClause.HAVING):
                self._check_having(relation, inputs[0], scope)
            case Join(natural=False, lateral=False):
                self._conditions(relation.conditions, scope.over(inputs[0].beside(inputs[1])))
                for name in relation.using:
                    one, other = (self._column(name, side) for side in inputs)
                    if not one.type or one.type != other.type:
                        raise _NotTotal
            case SetOperation():
                # All but UNION ALL compare the columns of both sides.
                if relation.by_name:  # RULE (set-operation-by-name)
                    raise _NotTotal
                types = {tuple([one.value.type for one in side.columns]) for side in inputs}
                # RULE (set-operation-one-type)
                if len(types) != 1 or any(side.open for side in inputs) or not all(types.pop()):
                    raise _NotTotal
            case Projection() | WithColumns():
                self._list_names(relation.items, inputs[0])
            case Aggregate():
                made = self._list_names(relation.items, inputs[0])
                for key in relation.keys:
                    if not (isinstance(key, NamedColumn) and key.parts[-1].lower() in made):
                        self._total(self.resolver.value(key, here))
            case Pass(why=Passing.SORT):
                # What it sorts by, Spark makes below it, even below the HAVING of an aggregation.
                for key in relation.expressions:
                    self.item(key, self.resolver.value(key, here))
            case Pass(why=Passing.LIMIT) if self.limits:  # RULE (total-limit-barrier)
                self._check_limit(relation)
            case Pass(why=Passing.DISTINCT | Passing.HINT):
                for hint in relation.expressions:
                    self._plain(hint)
            case NamedScan() if not inputs:
                raise _NotTotal  # it reads itself
            case NamedScan() | OneRow() | SubqueryAlias() | ColumnAliases() | With() | RenamedColumns():
                pass
            case DroppedColumns():
                pass
            case _:
                raise _NotTotal  # RULE (total-known-relation)
        return inputs

    def _column(self, name: str, side: RelationColumns[TotalValue]) -> TotalValue:
        return self.resolver.value(NamedColumn((name,)), scope_of(side))

    def _list_names(self, items: Sequence[Expression], below: RelationColumns[TotalValue]) -> frozenset[str]:
        """Return the names that a select list makes, lower case."""
        made = {item.name.lower() if isinstance(item, Alias) else infer_name(item) for item in items}
        made -= {one.name for one in below.columns}
        if any(parts[0].lower() in made for item in items for parts in names_in(item)):
            raise _NotTotal  # it means another item of the same list, or a column of a query around
        return frozenset(made)

    def _check_having(
        self, relation: Filter, shown: RelationColumns[TotalValue], scope: NameScope[TotalValue]
    ) -> None:
        """Look at the conditions of groups, which are on what is shown, and on what that is made of."""
        inner = relation.input
        if not isinstance(inner, Aggregate | Projection):
            raise _NotTotal
        below = self.resolver.relation(inner.input, scope)
        types: dict[str, set[str]] = {}
        for one in shown.columns:
            types.setdefault(one.name, set()).add(one.value.type)
        if any(types.get(one.name, {one.value.type}) != {one.value.type} for one in below.columns):
            raise _NotTotal  # which one of the two is meant is not followed
        self._conditions(relation.conditions, scope.over(of_groups(shown, below)))

    def _conditions(
        self, conditions: Iterable[Expression], scope: NameScope[TotalValue], *, binds: bool = False
    ) -> None:
        """Look at conditions; with `binds`, `inner = outer` among them does not count as reaching."""
        for condition in conditions:
            reaching = self.reaching
            found = self.resolver.value(condition, scope)
            self._total(found)
            if found.type not in ("boolean", "void"):
                raise _NotTotal
            if binds and _is_binding(condition, scope):
                self.reaching = reaching

    def _total(self, found: TotalValue) -> None:
        if not (found.total and found.below):
            raise _NotTotal

    def _check_limit(self, relation: Pass) -> None:
        if not all(isinstance(one, Literal) for one in relation.expressions):
            raise _NotTotal

    def _plain(self, expression: Expression) -> None:
        if not may_be_shown(expression):
            raise _NotTotal

    def _check_window(self, window: WindowCall, operands: Sequence[TotalValue]) -> TotalValue:
        self._plain(window)
        total = all(one.total and one.below for one in operands)
        function = window.function
        name = builtin_name(function.parts) if isinstance(function, NamedCall) else None
        if name in NUMBERING:
            return TotalValue("int", total=total)
        over = operands[: len(function.operands)]
        self.overflowing += not never_fails(name or "", over)
        return TotalValue(aggregate(name or "", over).type, total=total)

    def _check_query(self, query: Subquery, scope: NameScope[TotalValue]) -> TotalValue:
        found = self.resolver.relation(query.relation, scope)
        match query.kind:
            case QueryKind.EXISTS:
                return BOOLEAN
            case QueryKind.IN:
                operands = [self.resolver.value(one, scope) for one in query.values]
                alike = len(found.columns) == len(operands) and not found.open
                if not alike or not all(
                    one.total and one.type == column.value.type and one.type
                    for one, column in zip(operands, found.columns, strict=True)
                ):
                    return FAILING
                return BOOLEAN._replace(grouped=any(one.grouped for one in operands))
            case QueryKind.TABLE:
                return FAILING
        # RULE (scalar-subquery-one-row)
        return TotalValue(found.columns[0].value.type) if _has_one_row(query.relation) else FAILING


def _type_of(attribute: RelationColumn[TotalValue]) -> str:
    return "" if attribute.guessed else attribute.value.type


def _is_of(kind: str, column: RelationColumn[TotalValue]) -> bool:
    """Whether a column of a text is of the type that its view says."""
    said = column_kind(kind)
    if said or column.value.type:
        return column.value.type == said and not column.guessed
    return column.value.written != "" and column.value.written == kind.lower()


def _has_having(relation: RelationNode) -> bool:
    """Whether what is sorted are groups of which some are left out."""
    while isinstance(relation, Pass) and relation.why in (Passing.SORT, Passing.HINT, Passing.DISTINCT):
        relation = relation.input
    return isinstance(relation, Filter) and relation.clause is ConditionClause.HAVING


def _is_binding(condition: Expression, scope: NameScope[TotalValue]) -> bool:
    """Whether a condition says that a column equals one of the same type of the query right around."""
    if not (isinstance(condition, Operator) and condition.name == "EqualTo"):
        return False
    found = [scope.resolve(one.parts) for one in condition.operands if isinstance(one, NamedColumn)]
    sure = [one for one in found if isinstance(one, FoundName) and not one.open]
    types = {_type_of(one.attribute) for one in sure}
    # RULE (correlated-equality-types)
    return sorted(one.depth for one in sure) == [0, 1] and len(types) == 1 and "" not in types


def _has_one_row(relation: RelationNode) -> bool:
    """Whether a relation aggregates all of its rows to one value."""
    return isinstance(relation, Projection) and len(relation.items) == 1 and _aggregates(relation.items[0])


def _aggregates(expression: Expression) -> bool:
    """Whether an expression calls an aggregate, not over a window."""
    if isinstance(expression, NamedCall) and builtin_name(expression.parts) in AGGREGATES:
        return True
    return not isinstance(expression, WindowCall) and any(map(_aggregates, expression.operands))
