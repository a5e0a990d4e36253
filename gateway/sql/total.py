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
try what comes of it below the filter.

What is not known here is not total.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.model.reading import ExpressionNode, Span
from gateway.sql.functions import AGGREGATES, ROW_WISE_FUNCTIONS, builtin_name
from gateway.sql.leakproof import AGGREGATING, steady
from gateway.sql.leakproof_copies import (
    DECIMAL,
    DIGITS,
    INTEGERS,
    MOST_DIGITS,
    TEXT,
    date_of,
    timestamp_of,
)

MOST_STEPS: Final = 100_000
"""Columns and expressions that are looked at; a larger statement keeps its barriers."""

MOST_CALCULATED: Final = 31
"""Digits of a sum or product of decimals; databases have room for no more, Spark for 38."""

_INTEGER_TYPES: Final = tuple(INTEGERS)
"""From the narrowest to the widest."""
_FRACTIONS: Final = frozenset({"float", "double"})
_KNOWN: Final = frozenset({*_INTEGER_TYPES, *_FRACTIONS, "boolean", "date", "timestamp", "string"})
_MOST_DAYS: Final = 40_000
_MOST_MONTHS: Final = 1_200
"""How far from a date of four digits one may go that is still a date."""
_MICROS_A_DAY: Final = 86_400_000_000

_COMPARISONS: Final = frozenset(
    "EqualNullSafe EqualTo GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual".split()
)
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

_TEXT_TO_TEXT: Final = frozenset("btrim lcase lower ltrim rtrim trim ucase upper".split())
_LENGTHS: Final = frozenset("char_length character_length len length".split())
_TEXTS_TO_BOOLEAN: Final = frozenset("contains endswith startswith".split())
_PARTS_OF_DATES: Final = frozenset(
    "day dayofmonth dayofweek dayofyear month quarter weekday weekofyear year".split()
)
_ALIKE: Final = frozenset("coalesce ifnull nvl".split())
_NUMBERING: Final = frozenset("dense_rank rank row_number".split())
_WHO: Final = frozenset("current_user session_user user".split())
_OF_ITS_ARGUMENT: Final = frozenset("any_value first last max min".split())


@dataclass(frozen=True, slots=True)
class Value:
    """What is known of an expression."""

    type: str = ""
    """Its type as Spark writes it, varchar as string; empty when it is not known. A decimal may be said to
    have more digits than it has."""
    total: bool = True
    number: int | None = None
    """Of a whole number that is the same in every row: which one."""
    fixed: bool = False
    """Of a date or an instant: whether it is the same in every row, and far from the end of time."""
    grouped: bool = False
    """Whether it is made of a group of rows."""
    below: bool = True
    """Whether all is total of which aggregates in it are made."""


_UNKNOWN: Final = Value()
_FAILING: Final = Value(total=False)
_BOOLEAN: Final = Value("boolean")


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a plan; always total, since it is a value that is there."""

    name: str
    type: str
    qualifiers: frozenset[tuple[str, ...]] = frozenset()
    bare: bool = True
    """Whether its name finds it without a qualifier: of two that USING makes one only that one."""
    source: tuple[Span, str] | None = None
    """The scan's column that it is."""


@dataclass(frozen=True, slots=True)
class _Columns:
    columns: tuple[_Column, ...] = ()
    open: bool = False
    """Whether there may be others, by names that are not known."""

    def find(self, parts: Sequence[str]) -> list[_Column]:
        """Return the columns that a reference can mean."""
        *qualifier, name = (part.lower() for part in parts)
        return [
            one
            for one in self.columns
            if one.name == name and (tuple(qualifier) in one.qualifiers if qualifier else one.bare)
        ]


_OPEN: Final = _Columns(open=True)
_Ctes = Mapping[str, _Columns]


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
    walk = _Walk(text, scanned, ctes)
    try:
        walk.shown(tree, {}, ())
    except _NotTotal:
        return None
    return {span: frozenset(walk.used.get(span, ())) for span in scanned}


def total_text(tree: ExpressionNode | None, text: str, columns: Mapping[str, str]) -> frozenset[str] | None:
    """Return the columns that a policy's text is made of; None when it could fail for some value of them."""
    if tree is None:
        return None
    here = Span(0, 0)
    walk = _Walk(text, {here: columns}, frozenset())
    try:
        found = walk.value(tree, (walk.scan(here, ()),))
    except _NotTotal:
        return None
    return (
        frozenset(walk.used.get(here, ()))
        if found.total and (found.type in _KNOWN or DECIMAL.match(found.type))
        else None
    )


def column_kind(written: str) -> str:
    """Return a column's type as far as it is looked at here; empty for all others. CHAR is among these: its
    values are made longer where they are read and where they are compared."""
    lowered = written.lower()
    if TEXT.match(lowered):
        return "string"
    return lowered if lowered in _KNOWN or DECIMAL.match(lowered) else ""


@dataclass(slots=True)
class _Walk:
    text: str
    scanned: Mapping[Span, Mapping[str, str]]
    ctes: frozenset[Span]
    used: dict[Span, set[str]] = field(default_factory=dict)
    steps: int = 0

    def _step(self, count: int = 1) -> None:
        self.steps += count
        if self.steps > MOST_STEPS:
            raise _NotTotal

    def scan(self, span: Span, qualifiers: Iterable[tuple[str, ...]]) -> _Columns:
        known = self.scanned[span]
        self._step(len(known))
        names = frozenset(qualifiers)
        return _Columns(
            tuple(
                [
                    _Column(name.lower(), column_kind(kind), names, source=(span, name))
                    for name, kind in known.items()
                ]
            )
        )

    # Plans.

    def shown(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[_Columns, ...]) -> None:
        """Go through the end of a statement, whose select list may fail."""
        match node.node:
            case "UnresolvedWith":
                self.shown(node.plans[0], self._named(node, ctes, outer), outer)
            case "Sort" if _has_having(node):
                self.plan(node, ctes, outer)
            case "Sort" | "Distinct" | "UnresolvedHint" | "Union":
                self._plain(node.children)
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

    def plan(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[_Columns, ...]) -> _Columns:
        """Return the columns of a plan in which all is total."""
        self._step()
        match node.node:
            case "UnresolvedRelation":
                return self._relation(node, ctes)
            case "UnresolvedWith":
                return self.plan(node.plans[0], self._named(node, ctes, outer), outer)
            case "OneRowRelation":
                return _Columns()
            case "Join":
                return self._join(node, ctes, outer)
            case "Union" | "Except" | "Intersect":
                return self._set(node, ctes, outer)
        if len(node.plans) != 1:
            raise _NotTotal
        below = self.plan(node.plans[0], ctes, outer)
        match node.node:
            case "Filter":
                self._conditions(node.children, (below, *outer), ctes)
            case "UnresolvedHaving":
                self._having(node, below, ctes, outer)
            case "SubqueryAlias":
                alias = frozenset({(node.parts[0].lower(),)})
                shown = [replace(one, qualifiers=alias) for one in below.columns if one.bare]
                return _Columns(tuple(shown), below.open)
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
                    found = self.value(order.children[0], (below, *outer), ctes)
                    self._item(order, found)
            case "UnresolvedSubqueryColumnAliases":
                return _OPEN
            case limit if limit in _LIMITS:
                self._limited(node)
            case passing if passing in _PASSING:
                self._plain(node.children)
            case _:
                raise _NotTotal
        return below

    def _relation(self, node: ExpressionNode, ctes: _Ctes) -> _Columns:
        parts = tuple([part.lower() for part in node.parts])
        qualifiers = frozenset(parts[start:] for start in range(len(parts)))
        if node.span in self.ctes:
            known = ctes.get(parts[-1])
            if known is None:
                raise _NotTotal  # it reads itself
            shown = [replace(one, qualifiers=qualifiers) for one in known.columns if one.bare]
            return _Columns(tuple(shown), known.open)
        if node.span is None or node.span not in self.scanned:
            return _OPEN
        return self.scan(node.span, qualifiers)

    def _named(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[_Columns, ...]) -> _Ctes:
        inside = dict(ctes)
        for name, plan in zip(node.parts, node.plans[1:], strict=True):
            inside.pop(name.lower(), None)
            inside[name.lower()] = self.plan(plan, inside, outer)
        return inside

    def _join(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[_Columns, ...]) -> _Columns:
        if node.mode not in _JOINS or len(node.plans) != 2:
            raise _NotTotal
        left, right = (self.plan(plan, ctes, outer) for plan in node.plans)
        both = _Columns((*left.columns, *right.columns), left.open or right.open)
        self._conditions(node.children, (both, *outer), ctes)
        merged = []
        for name in node.parts:
            one, other = self._reference((name,), (left,)), self._reference((name,), (right,))
            if not one.type or one.type != other.type:
                raise _NotTotal
            merged.append(_Column(name.lower(), one.type))
        if node.mode in _LEFT_ONLY:
            return left
        if not merged:
            return both
        folded = {one.name for one in merged}
        sides = [replace(one, bare=one.bare and one.name not in folded) for one in both.columns]
        return _Columns((*merged, *sides), both.open)

    def _set(self, node: ExpressionNode, ctes: _Ctes, outer: tuple[_Columns, ...]) -> _Columns:
        """Return the columns of a set operation; all but UNION ALL compare those of both sides."""
        sides = [self.plan(plan, ctes, outer) for plan in node.plans]
        types = {tuple(one.type for one in side.columns) for side in sides}
        if len(types) != 1 or any(side.open for side in sides) or not all(types.pop()):
            raise _NotTotal
        return _Columns(
            tuple([replace(one, qualifiers=frozenset(), source=None) for one in sides[0].columns])
        )

    def _project(
        self, items: Sequence[ExpressionNode], below: _Columns, ctes: _Ctes, outer: tuple[_Columns, ...]
    ) -> _Columns:
        known = {one.name for one in below.columns}
        made = {item.parts[0].lower() for item in items if item.node == "Alias"} - known
        if not made.isdisjoint(_named_columns(items)):
            raise _NotTotal  # it means another item of the same list, or a column of a query around
        columns: list[_Column] = []
        unnamed = below.open and any(item.node == "UnresolvedStar" for item in items)
        for item in items:
            if item.node == "UnresolvedStar":
                qualifier = tuple(part.lower() for part in item.parts)
                shown = [o for o in below.columns if (qualifier in o.qualifiers if qualifier else o.bare)]
                self._step(len(shown))
                columns += [replace(one, qualifiers=frozenset(), bare=True) for one in shown]
                # What has a qualifier that is none of a relation's is a column with fields.
                unnamed |= bool(qualifier) and not shown
                continue
            found = self.value(item, (below, *outer), ctes)
            self._item(item, found)
            if item.node == "Alias":
                columns.append(_Column(item.parts[0].lower(), found.type))
            elif item.node == "UnresolvedAttribute":
                columns.append(_Column(item.parts[-1].lower(), found.type))
            else:
                unnamed = True
        return _Columns(tuple(columns), unnamed)

    def _having(
        self, node: ExpressionNode, below: _Columns, ctes: _Ctes, outer: tuple[_Columns, ...]
    ) -> None:
        """Look at the conditions of groups, which are on what is shown, and on what that is made of."""
        inner = node.plans[0]
        if inner.node not in ("Aggregate", "Project"):
            raise _NotTotal
        within = self.plan(inner.plans[0], ctes, outer)
        ours = [one for one in below.columns if one.source is None]
        names = {one.name for one in ours}
        if any(one.name in names and one.type != _type_of(one.name, ours) for one in within.columns):
            raise _NotTotal  # which one of the two is meant is not followed
        kept = tuple([one for one in within.columns if one.name not in names])
        self._conditions(node.children, (_Columns((*ours, *kept), within.open or below.open), *outer), ctes)

    def _conditions(
        self, conditions: Iterable[ExpressionNode], scopes: tuple[_Columns, ...], ctes: _Ctes
    ) -> None:
        for condition in conditions:
            found = self.value(condition, scopes, ctes)
            self._total(found)
            if found.type not in ("boolean", "void"):
                raise _NotTotal

    def _item(self, node: ExpressionNode, found: Value) -> None:
        """Look at a column that a query within makes, or what it sorts by. What is made of groups may fail:
        it is never a condition on a row. What it aggregates may not."""
        if found.grouped and found.below:
            self._plain([node])
        else:
            self._total(found)

    def _total(self, found: Value) -> None:
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
                if not (name in ROW_WISE_FUNCTIONS or name in AGGREGATES or name in _NUMBERING):
                    raise _NotTotal
            self._plain(node.children)

    def _subqueries(self, node: ExpressionNode, ctes: _Ctes, scopes: tuple[_Columns, ...]) -> None:
        """Look at the queries within an expression that may fail: they may not."""
        if node.plans:
            self._total(self.value(node, scopes, ctes))
            return
        for child in node.children:
            self._subqueries(child, ctes, scopes)

    # Expressions.

    def value(self, node: ExpressionNode, scopes: tuple[_Columns, ...], ctes: _Ctes | None = None) -> Value:
        """Return what is known of an expression over columns of these plans, the innermost first."""
        self._step(1 + (len(scopes[0].columns) // 16 if scopes else 0))
        match node.node:
            case "UnresolvedAttribute":
                return self._reference(node.parts, scopes)
            case "Literal":
                return self._literal(node)
            case "Exists" | "ScalarSubquery" | "InSubquery":
                return self._query(node, scopes, ctes)
            case "WindowExpression":
                return self._window(node, scopes, ctes)
        operands = [self.value(child, scopes, ctes) for child in node.children]
        found = self._made(node, operands)
        if found.grouped:
            return found
        grouped = any(one.grouped for one in operands)
        total = found.total and all(one.total for one in operands)
        return replace(found, total=total, grouped=grouped, below=all(one.below for one in operands))

    def _reference(self, parts: Sequence[str], scopes: tuple[_Columns, ...]) -> Value:
        for scope in scopes:
            found = scope.find(parts)
            if len(found) == 1:
                if found[0].source is not None:
                    span, name = found[0].source
                    self.used.setdefault(span, set()).add(name)
                return Value(found[0].type)
            if found or scope.open:
                return _UNKNOWN
        return _word(parts[0].lower()) if len(parts) == 1 else _UNKNOWN

    def _literal(self, node: ExpressionNode) -> Value:
        if node.value is None:
            return Value("void")
        if node.type in INTEGERS:
            return Value(node.type, number=int(node.value))
        if node.type == "date":
            return Value("date", fixed=date_of(node) is not None)
        if node.type == "timestamp":
            return Value("timestamp", fixed=timestamp_of(node, self.text) is not None)
        return Value(column_kind(node.type))

    def _made(self, node: ExpressionNode, operands: list[Value]) -> Value:
        """Return what an operator makes of its operands; their own totality is the caller's."""
        match node.node:
            case "And" | "Or" | "Not":
                return _BOOLEAN if _all_of(operands, "boolean") else _FAILING
            case "IsNull" | "IsNotNull":
                return _BOOLEAN
            case "Alias" | "UnresolvedAlias" | "UnaryPositive":
                return operands[0]
            case comparison if comparison in _COMPARISONS:
                return self._compared(node.children, operands)
            case "In":
                return self._listed(node.children, operands)
            case "Like":
                return self._like(node, operands)
            case "Add" | "Subtract" | "Multiply":
                return _arithmetic(node, operands)
            case "Cast":
                return self._cast(node, operands[0])
            case "CaseWhen":
                return _case(operands)
            case "If":
                return _case(operands)
            case "Coalesce":
                return _same(operands)
            case "Concat":
                return Value("string") if _all_of(operands, "string") else _FAILING
            case "Substring":
                return _part(operands)
            case "Lower" | "StringTrim" | "StringTrimLeft" | "StringTrimRight":
                return Value("string") if _all_of(operands, "string") else _FAILING
            case "CurrentDate" | "CurrentTimestamp" | "CurrentUser":
                return _word({"CurrentDate": "current_date", "CurrentUser": "user"}.get(node.node, "now"))
            case "UnresolvedFunction":
                return self._called(node, operands)
        return _FAILING

    def _compared(self, nodes: Sequence[ExpressionNode], operands: Sequence[Value]) -> Value:
        (one, other), (left, right) = operands, nodes
        if _comparable(one, other) or self._read(right, one.type) or self._read(left, other.type):
            return _BOOLEAN
        return _FAILING

    def _listed(self, nodes: Sequence[ExpressionNode], operands: Sequence[Value]) -> Value:
        """An IN: Spark takes all of it to one type."""
        pairs = zip(nodes[1:], operands[1:], strict=True)
        compared = all(self._compared((nodes[0], n), (operands[0], o)).total for n, o in pairs)
        return _BOOLEAN if compared and _alike(operands[1:]) and _room(operands) else _FAILING

    def _read(self, node: ExpressionNode, type_: str) -> bool:
        """Whether a literal is text in which a date or an instant is written as Spark writes them."""
        if node.node != "Literal" or node.type != "string":
            return False
        if type_ == "date":
            return date_of(node) is not None
        return type_ == "timestamp" and timestamp_of(node, self.text) is not None

    def _like(self, node: ExpressionNode, operands: list[Value]) -> Value:
        """A LIKE whose pattern is known and escapes nothing: one that ends in an escape fails."""
        pattern = node.children[1]
        known = pattern.node == "Literal" and pattern.type == "string" and "\\" not in (pattern.value or "\\")
        return _BOOLEAN if known and node.mode == "\\" and operands[0].type == "string" else _FAILING

    def _cast(self, node: ExpressionNode, operand: Value) -> Value:
        target, source = column_kind(node.type), operand.type
        if node.type.lower().startswith("varchar"):
            return _FAILING
        tried = (
            node.mode == "TRY"
            and source in _KNOWN - {"date", "timestamp"}
            and target not in ("timestamp", "")
        )
        if self._read(node.children[0], target):
            return Value(target, fixed=True)
        if source == "date" and target == "timestamp":
            return Value(target, total=operand.fixed, fixed=operand.fixed)
        if target and (tried or source == "void" or _loses_nothing(source, target)):
            return Value(target, fixed=operand.fixed)
        return Value(target, total=False)

    def _called(self, node: ExpressionNode, operands: list[Value]) -> Value:
        name = builtin_name(node.parts) or ""
        types = [one.type for one in operands]
        if name in AGGREGATES:
            return _aggregate(name, operands)
        if name in _TEXT_TO_TEXT and 1 <= len(types) <= 2:
            return Value("string") if _all_of(operands, "string") else _FAILING
        if name in _LENGTHS and types == ["string"]:
            return Value("int")
        if name in _TEXTS_TO_BOOLEAN and types == ["string", "string"]:
            return _BOOLEAN
        if name == "concat":
            return Value("string") if types and _all_of(operands, "string") else _FAILING
        if name in ("substr", "substring"):
            return _part(operands)
        if name in _PARTS_OF_DATES and types in (["date"], ["timestamp"]):
            return Value("int")
        if (
            name in ("extract", "date_part", "datepart")
            and len(types) == 2
            and types[1] in ("date", "timestamp")
        ):
            field_ = node.children[0]
            return Value("int") if (field_.value or "").lower() in _PARTS_OF_DATES - {"weekday"} else _FAILING
        if name in ("date_add", "date_sub", "dateadd") and len(types) == 2 and types[0] == "date":
            return _days(operands)
        if name in ("datediff", "date_diff") and types == ["date", "date"]:
            return Value("int")
        if name in _ALIKE:
            return _same(operands)
        if name == "if" and len(operands) == 3:
            return _case(operands)
        if name == "between" and len(operands) == 3:
            value, low, high = node.children
            pairs = (((value, low), operands[:2]), ((value, high), (operands[0], operands[2])))
            return _BOOLEAN if all(self._compared(n, o).total for n, o in pairs) else _FAILING
        if name in ("equal_null", "nullif") and len(operands) == 2:
            found = self._compared(node.children, operands)
            return found if name == "equal_null" else Value(types[0], total=found.total)
        if name in ("isnull", "isnotnull") and len(operands) == 1:
            return _BOOLEAN
        if not operands:
            return _word(name)
        return _FAILING

    def _window(self, node: ExpressionNode, scopes: tuple[_Columns, ...], ctes: _Ctes | None) -> Value:
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
        if name in _NUMBERING:
            return Value("int", total=total)
        found = _aggregate(name or "", operands[: len(function.children)])
        return Value(found.type, total=total)

    def _query(self, node: ExpressionNode, scopes: tuple[_Columns, ...], ctes: _Ctes | None) -> Value:
        """A subquery in an expression: all in it is total, and one that stands for a value has one row."""
        if ctes is None:
            return _FAILING  # of a policy
        if node.node == "InSubquery":
            *values, listed = node.children
            found = self.plan(listed.plans[0], ctes, scopes) if listed.plans else _OPEN
            operands = [self.value(one, scopes, ctes) for one in values]
            alike = len(found.columns) == len(operands) and not found.open
            if not alike or not all(
                one.total and one.type == column.type and one.type
                for one, column in zip(operands, found.columns, strict=True)
            ):
                return _FAILING
            return replace(_BOOLEAN, grouped=any(one.grouped for one in operands))
        found = self.plan(node.plans[0], ctes, scopes)
        if node.node == "Exists":
            return _BOOLEAN
        if not _has_one_row(node.plans[0]) or len(node.plans[0].children) != 1:
            return _FAILING
        (item,) = node.plans[0].children
        below = self.plan(node.plans[0].plans[0], ctes, scopes)
        return Value(self.value(item, (below, *scopes), ctes).type)


def _has_having(node: ExpressionNode) -> bool:
    """Whether what is sorted are groups of which some are left out."""
    while node.node in ("Sort", "UnresolvedHint", "Distinct") and node.plans:
        node = node.plans[0]
    return node.node == "UnresolvedHaving"


def _named_columns(nodes: Iterable[ExpressionNode]) -> Iterable[str]:
    """Yield what references in expressions begin with, lower case."""
    for node in nodes:
        if node.node == "UnresolvedAttribute":
            yield node.parts[0].lower()
        yield from _named_columns(node.children)


def _has_one_row(plan: ExpressionNode) -> bool:
    """Whether a plan aggregates all of its rows to one."""
    return plan.node == "Project" and any(map(_aggregates, plan.children))


def _aggregates(node: ExpressionNode) -> bool:
    """Whether an expression calls an aggregate, not over a window."""
    if node.node == "UnresolvedFunction" and builtin_name(node.parts) in AGGREGATES:
        return True
    return node.node != "WindowExpression" and any(map(_aggregates, node.children))


def _type_of(name: str, columns: Iterable[_Column]) -> str:
    types = {one.type for one in columns if one.name == name}
    return types.pop() if len(types) == 1 else ""


def _word(name: str) -> Value:
    """What a word or a call without arguments stands for that no column has for its name."""
    if name in ("current_date", "curdate"):
        return Value("date", fixed=True)
    if name in ("current_timestamp", "now"):
        return Value("timestamp", fixed=True)
    return Value("string") if name in _WHO else _FAILING


def _all_of(operands: Iterable[Value], type_: str) -> bool:
    return all(one.type in (type_, "void") for one in operands)


def _digits(type_: str) -> tuple[int, int] | None:
    """Return the digits before and behind the point of a whole number's type or a decimal."""
    if type_ in DIGITS:
        return DIGITS[type_], 0
    found = DECIMAL.match(type_)
    return (int(found[1]) - int(found[2]), int(found[2])) if found else None


def _comparable(one: Value, other: Value) -> bool:
    """Whether two values can be compared whatever they are: Spark's cast of either to the type of both loses
    nothing."""
    types = {one.type, other.type}
    if "" in types:
        return False
    if len(types) == 1 or "void" in types:
        return True
    if types == {"date", "timestamp"}:
        return one.fixed if one.type == "date" else other.fixed
    if not all(type_ in _FRACTIONS or _digits(type_) for type_ in types):
        return False
    if types & _FRACTIONS:
        return True
    return _room((one, other))


def _room(values: Iterable[Value]) -> bool:
    """Whether there is a decimal for all of these numbers."""
    digits = [found for one in values if (found := _digits(one.type)) is not None]
    return max([a for a, _ in digits], default=0) + max([b for _, b in digits], default=0) <= MOST_DIGITS


def _alike(values: Iterable[Value]) -> bool:
    """Whether values are all of one type, or all numbers."""
    types = {one.type for one in values} - {"void"}
    return len(types) <= 1 or all(type_ in _FRACTIONS or _digits(type_) for type_ in types)


def _same(operands: Sequence[Value]) -> Value:
    """Return the type of values one of which is chosen: the one that all have."""
    types = {one.type for one in operands} - {"void"}
    if len(types) != 1 or "" in types:
        return _FAILING
    return Value(types.pop())


def _case(operands: Sequence[Value]) -> Value:
    pairs = len(operands) // 2 * 2
    found = _same([*operands[1:pairs:2], *operands[pairs:]])
    return found if _all_of(operands[0:pairs:2], "boolean") else _FAILING


def _part(operands: Sequence[Value]) -> Value:
    text, *places = operands
    known = text.type == "string" and len(places) in (1, 2) and all((one.number or 0) > 0 for one in places)
    return Value("string") if known else _FAILING


def _days(operands: Sequence[Value]) -> Value:
    """A day so many days from a known one."""
    start, days = operands
    near = start.fixed and days.number is not None and abs(days.number) <= _MOST_DAYS
    return Value("date", fixed=True) if near else _FAILING


_CALCULATED: Final[Mapping[str, Callable[[int, int], int]]] = {
    "Add": lambda one, other: one + other,
    "Subtract": lambda one, other: one - other,
    "Multiply": lambda one, other: one * other,
}


def _arithmetic(node: ExpressionNode, operands: Sequence[Value]) -> Value:
    """Sums and products that have room in their types: of decimals and of known numbers."""
    if len(operands) != 2:
        return _FAILING
    one, other = operands
    if one.fixed and node.node != "Multiply" and _is_near(node.children[1]):
        whole = one.type == "timestamp" or _is_whole_days(node.children[1])
        return Value(one.type, fixed=True) if whole else _FAILING
    if one.type == "date" and node.node != "Multiply":
        return _days(operands)
    types = {one.type, other.type}
    if not all(_digits(type_) for type_ in types):
        return _FAILING
    if types <= INTEGERS.keys():
        type_ = max(types, key=_INTEGER_TYPES.index)
        if one.number is None or other.number is None:
            return Value(type_, total=False)
        number = _CALCULATED[node.node](one.number, other.number)
        fits = abs(number) < 1 << INTEGERS[type_][0] - 1
        return Value(type_, number=number) if fits else _FAILING
    (a, b), (c, d) = (_digits(one.type) or (0, 0)), (_digits(other.type) or (0, 0))
    before, behind = (a + c + 1, b + d) if node.node == "Multiply" else (max(a, c) + 1, max(b, d))
    fits = before + behind <= MOST_CALCULATED
    return Value(f"decimal({before + behind},{behind})") if fits else _FAILING


def _is_near(node: ExpressionNode) -> bool:
    """Whether a literal is an interval that leads from a date of four digits to another date."""
    if node.node != "Literal" or node.value is None:
        return False
    if node.type in ("interval year", "interval month", "interval year to month"):
        return abs(int(node.value)) <= _MOST_MONTHS
    return node.type.startswith("interval ") and abs(int(node.value)) <= _MOST_DAYS * _MICROS_A_DAY


def _is_whole_days(node: ExpressionNode) -> bool:
    return node.type in ("interval year", "interval month", "interval year to month", "interval day")


def _loses_nothing(source: str, target: str) -> bool:
    """Whether a cast has a value for every one of the source's."""
    if source == target and source:
        return True
    if target == "string":
        return source in _KNOWN - _FRACTIONS - {"timestamp"} or bool(DECIMAL.match(source))
    if (source, target) == ("timestamp", "date"):
        return True
    digits, room = _digits(source), _digits(target)
    if target in _FRACTIONS:
        return digits is not None or source in _FRACTIONS
    if digits is None or room is None:
        return False
    if target in INTEGERS:
        return source in INTEGERS and INTEGERS[source][0] <= INTEGERS[target][0]
    # Fewer digits behind the point can carry into one more before it.
    return digits[0] + (1 if room[1] < digits[1] else 0) <= room[0]


def _aggregate(name: str, operands: Sequence[Value]) -> Value:
    """Return what an aggregate makes of a group; that it can fail tells of rows that are in the group."""
    below = all(one.total and one.below for one in operands)
    type_ = operands[0].type if operands else ""
    digits = _digits(type_)
    made = ""
    if name in ("count", "count_if"):
        made = "bigint"
    elif name in _OF_ITS_ARGUMENT:
        made = type_
    elif name in ("avg", "mean", "sum") and (type_ in _FRACTIONS or (type_ in INTEGERS and name != "sum")):
        made = "double"
    elif name == "sum" and type_ in INTEGERS:
        made = "bigint"
    elif name in ("avg", "mean", "sum") and digits is not None:
        more, behind = (10, 0) if name == "sum" else (4, 4)
        fits = digits[0] + digits[1] + more <= MOST_DIGITS
        made = f"decimal({digits[0] + digits[1] + more},{digits[1] + behind})" if fits else ""
    return Value(made, grouped=True, below=below)
