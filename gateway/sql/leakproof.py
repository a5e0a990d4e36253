"""Conditions of the user that may also stand below the barrier of a row filter: leakproof ones.

Above a row filter stands a barrier that Spark moves nothing past, so that no condition of the user is tried
on rows that the filter hides: one that fails on a value would tell of it. A condition that cannot fail
(PostgreSQL calls such an operator leakproof) may be tried on them. It is *added* below the barrier, in words
of our own; the user's text stays as it is, above. So a source is read with the partitions and the statistics
that the user asks for. A copy that should not be there could drop rows of the answer, never add one.

Which scan's column a name means, and whether the scan's other rows can go without changing the answer,
follows from the plan that Spark's parser makes and the columns that the catalog has, from the scans upwards.
Whatever is not known here ends the way of every column through it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gateway.model.reading import ExpressionNode, Span
from gateway.sql.functions import AGGREGATES, ROW_WISE_FUNCTIONS, VARYING_BY_ROW, builtin_name
from gateway.sql.leakproof_copies import copy_of, references

MAX_CHARS: Final = 16_384
"""Characters of the copies for one scan; those beyond it are left out."""
MAX_CHARS_OF_ALL: Final = 4 * MAX_CHARS
"""The same for all scans of a statement."""
MAX_STEPS: Final = 300_000
"""What is looked at while columns are followed from plan to plan, about a tenth of a second of it. A
statement that needs more has no copies."""

_PASSING: Final = frozenset(
    """
    Distinct PipeOperator RebalancePartitions Repartition RepartitionByExpression Sort
    UnresolvedHint WithWindowDefinition
    """.split()
)
"""Plans that have the columns of what is below them, row by row. A table as it was at another time
(`RelationTimeTravel`) may have had other types."""
_NAMING: Final = frozenset(
    "Except GlobalLimit Intersect LocalLimit Offset Sample Tail Union UnresolvedQualify".split()
)
"""Plans that have its columns, but may have other rows where it has fewer."""
_ROW_WISE: Final = frozenset(
    """
    Add Alias And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Coalesce Collate Concat
    CreateNamedStruct CurrentDate CurrentTimestamp CurrentUser Divide EqualNullSafe EqualTo Exists GreaterThan
    GreaterThanOrEqual ILike If In InSubquery IntegralDivide IsNotNull IsNull LessThan LessThanOrEqual Like
    LikeAll LikeAny ListQuery Literal Lower Multiply Not NotLikeAll NotLikeAny Or RLike Remainder
    ScalarSubquery StringTrim StringTrimLeft StringTrimRight Substring Subtract UnaryMinus UnaryPositive
    UnresolvedAlias UnresolvedAttribute UnresolvedCollation UnresolvedExtractValue UnresolvedFunction
    """.split()
)
"""Expressions of one row. Aggregates, windows and generators are not among them."""
AGGREGATING: Final = _ROW_WISE | frozenset(
    "AggregateExpression AnyValue First Last PipeExpression SortOrder".split()
)
"""Expressions of one group of rows."""

_KEEPS_LEFT: Final = frozenset("Cross Inner LeftAnti LeftOuter LeftSemi".split())
"""Joins after which a condition on a column of the left side drops the rows of the left side."""
_KEEPS_RIGHT: Final = frozenset("Cross Inner RightOuter".split())
_NARROWS_LEFT: Final = frozenset("Cross Inner LeftSemi RightOuter".split())
"""Joins in which rows of the left side for which ON does not hold are of no account."""
_NARROWS_RIGHT: Final = frozenset("Cross Inner LeftAnti LeftOuter LeftSemi".split())
_LEFT_ONLY: Final = frozenset("LeftAnti LeftSemi".split())
_ALL_MATCH: Final = frozenset("Cross Inner LeftSemi".split())
"""Joins in which ON holds for all that is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A relation that a statement reads, as what stands above it sees it."""

    columns: Mapping[str, str]
    """Every column that is shown, as the catalog writes it → its type, in the table's order."""
    takes: frozenset[str]
    """Those that show the stored value, where there is a barrier to put conditions below."""
    passes: frozenset[str] = frozenset()
    """Those that show what the text of a view makes, where that has barriers in it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A condition on a view's columns, for the text that makes them."""

    condition: ExpressionNode
    text: str
    """What its literals are looked up in."""
    columns: Mapping[tuple[str, ...], str]
    """Reference → the view's column, as the catalog writes it."""


@dataclass(frozen=True, slots=True)
class Above:
    """What stands above the text of a view."""

    columns: tuple[tuple[str, str, str], ...]
    """The view's columns: by their names, as its text names them, and of which type."""
    conditions: tuple[Passed, ...]


@dataclass(frozen=True, slots=True)
class Leakproof:
    """The conditions of a text that may also stand elsewhere, by the scans that they are on."""

    copies: Mapping[Span, tuple[str, ...]] = field(default_factory=dict)
    passed: Mapping[Span, tuple[Passed, ...]] = field(default_factory=dict)


class _Origin(NamedTuple):
    """A column of a scan."""

    scan: Span
    column: str
    type: str


class _Output(NamedTuple):
    """A column of a plan."""

    name: str
    qualifiers: frozenset[tuple[str, ...]] = frozenset()
    origins: frozenset[_Origin] = frozenset()
    """Columns of scans that have its value, and whose rows with another value are of no account once a
    condition has left one value of it."""
    bare: bool = True
    """Whether its name finds it without a qualifier: of two columns that USING makes one only that one."""


@dataclass(frozen=True, slots=True)
class _Outputs:
    columns: tuple[_Output, ...] = ()
    open: bool = False
    """Whether there may be more of them, by names that are not known."""

    def find(self, parts: Sequence[str]) -> _Output | None:
        """Return the one column that a reference can mean; None where it may be another, or none."""
        *qualifier, name = (part.lower() for part in parts)
        found = [
            one
            for one in self.columns
            if one.name == name and (tuple(qualifier) in one.qualifiers if qualifier else one.bare)
        ]
        return found[0] if len(found) == 1 and not self.open else None

    def mapped(self, change: Callable[[_Output], _Output]) -> _Outputs:
        return _Outputs(tuple([change(one) for one in self.columns]), self.open)

    def if_kept(self, kept: bool) -> _Outputs:
        return self if kept else self.mapped(lambda one: one._replace(origins=frozenset()))


_UNKNOWN: Final = _Outputs(open=True)
_Found = Mapping[tuple[str, ...], _Output | None]
"""Reference → the column that it means."""
_Scope = Mapping[str, _Outputs]
"""Common table expressions by name, lower case."""


NONE: Final = Leakproof()


def leakproof(
    tree: ExpressionNode | None,
    text: str,
    scanned: Mapping[Span, Scanned],
    ctes: frozenset[Span],
    above: Above | None = None,
) -> Leakproof:
    """Return for scans, by where their names stand, the conditions that may be added to them, and those for
    the texts of views.

    `tree` is the statement's plan, None where it is not known; `ctes` are the places that name common table
    expressions; `above`: what is asked of the view whose text it is.
    """
    if tree is None:
        return NONE
    nodes = tuple(_nodes(tree))
    named = frozenset(_named_columns(nodes))
    if above is not None:
        named |= {within.lower() for _, within, _ in above.columns}
    walk = _LeakWalk(text, scanned, ctes, Counter(_mentions(nodes)), named)
    try:
        outputs = walk.outputs(tree, {})
        if above is not None:
            walk.from_above(above, outputs)
    except _TooMuch:
        return NONE
    return Leakproof(
        _fitting({scan: copies for scan, copies in walk.copies.items() if walk.mentions[scan] == 1}),
        {scan: tuple(found) for scan, found in walk.passed.items() if walk.mentions[scan] == 1},
    )


class _TooMuch(Exception):
    """A statement whose columns cannot be followed in a reasonable time."""


def _fitting(copies: Mapping[Span, Iterable[str]]) -> Mapping[Span, tuple[str, ...]]:
    fitting: dict[Span, tuple[str, ...]] = {}
    of_all = 0
    for scan, written in copies.items():
        taken: list[str] = []
        chars = 0
        for copy in dict.fromkeys(written):
            if chars + len(copy) <= MAX_CHARS and of_all + len(copy) <= MAX_CHARS_OF_ALL:
                taken.append(copy)
                chars += len(copy)
                of_all += len(copy)
        fitting[scan] = tuple(taken)
    return fitting


def _nodes(tree: ExpressionNode) -> Iterator[ExpressionNode]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children
        waiting += node.plans


def _mentions(nodes: Iterable[ExpressionNode]) -> Iterator[Span | str]:
    """Yield the place of every relation, and the name of each that has one part."""
    for node in nodes:
        if node.node == "UnresolvedRelation":
            if node.span is not None:
                yield node.span
            if len(node.parts) == 1:
                yield node.parts[0].lower()


def _named_columns(nodes: Iterable[ExpressionNode]) -> Iterator[str]:
    """Yield the names by which a statement asks for columns, lower case."""
    for node in nodes:
        if node.node == "UnresolvedAttribute":
            yield node.parts[-1].lower()
        elif node.node == "Join":
            yield from (name.lower() for name in node.parts)


@dataclass(slots=True)
class _LeakWalk:
    text: str
    scanned: Mapping[Span, Scanned]
    ctes: frozenset[Span]
    mentions: Counter[Span | str]
    """How often each relation is in the plan: what is there twice is read for two."""
    named: frozenset[str]
    """The columns that the statement asks for; others need not be followed."""
    steps: int = 0
    copies: dict[Span, list[str]] = field(default_factory=dict)
    passed: dict[Span, list[Passed]] = field(default_factory=dict)

    def from_above(self, above: Above, outputs: _Outputs) -> None:
        """Note what conditions above a view can be copied to within its text."""
        made: dict[str, _Output] = {}
        for name, within, kind in above.columns:
            found = outputs.find((within,))
            if found is not None:
                # A view has its columns in the types that it was made with.
                same = frozenset(one for one in found.origins if one.type.lower() == kind.lower())
                made[name] = found._replace(origins=same)
        for one in above.conditions:
            self._step(len(one.columns) * 10)
            self._copy(
                one.condition,
                {parts: made.get(column) for parts, column in one.columns.items()},
                one.text,
            )

    def outputs(self, node: ExpressionNode, scope: _Scope) -> _Outputs:
        """Return a plan's columns; note what conditions in it and below it can be copied to."""
        outputs = self._outputs(node, scope)
        self._step(sum([10 + len(one.origins) for one in outputs.columns]))
        return outputs

    def _step(self, count: int) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:  # RULE (leakproof-steps)
            raise _TooMuch

    def _outputs(self, node: ExpressionNode, scope: _Scope) -> _Outputs:
        for child in node.children:
            self._within(child, scope)
        if node.node == "UnresolvedRelation":
            return self._relation(node, scope)
        if node.node == "UnresolvedWith":
            return self._with(node, scope)
        below = [self.outputs(plan, scope) for plan in node.plans]
        if node.node == "Join" and len(below) == 2:
            return self._join(node, below[0], below[1])
        if not below:
            return _UNKNOWN
        first = below[0]
        if node.node in _NAMING:
            return first.if_kept(kept=False)
        if len(below) > 1:
            return _UNKNOWN
        if node.node in _PASSING:
            return first
        match node.node:
            case "Filter":
                # What varies by row would choose among other rows, were those gone that is dropped above.
                # RULE (pushdown-past-varying-condition)
                return self._narrowed(list(conjuncts(node.children)), first).if_kept(
                    all(map(_row_wise, node.children))
                )
            case "UnresolvedHaving":
                return first.if_kept(all(map(_by_group, node.children)))
            case "SubqueryAlias":
                alias = frozenset({(node.parts[0].lower(),)})
                shown = tuple([one._replace(qualifiers=alias) for one in first.columns if one.bare])
                return _Outputs(shown, first.open)
            case "Project":
                return _project(node.children, first)
            case "Aggregate":
                return _aggregate(node, first)
            case "Generate":
                return _generate(node, first)
        return _UNKNOWN

    def _within(self, expression: ExpressionNode, scope: _Scope) -> None:
        """Go through the subqueries of an expression."""
        for plan in expression.plans:
            self.outputs(plan, scope)
        for child in expression.children:
            self._within(child, scope)

    def _relation(self, node: ExpressionNode, scope: _Scope) -> _Outputs:
        parts = tuple([part.lower() for part in node.parts])
        qualifiers = frozenset(parts[start:] for start in range(len(parts)))
        if node.span in self.ctes:
            inner = scope.get(parts[-1], _UNKNOWN).if_kept(self.mentions[parts[-1]] == 1)
            return inner.mapped(lambda one: one._replace(qualifiers=qualifiers))
        known = self.scanned.get(node.span) if node.span is not None else None
        if known is None or node.span is None:
            return _UNKNOWN
        return _Outputs(
            tuple(
                [
                    _Output(name.lower(), qualifiers, frozenset({_Origin(node.span, name, kind)}))
                    for name, kind in known.columns.items()
                    if name.lower() in self.named
                ]
            )
        )

    def _with(self, node: ExpressionNode, scope: _Scope) -> _Outputs:
        inside = dict(scope)
        for name, plan in zip(node.parts, node.plans[1:], strict=True):
            inside[name.lower()] = self.outputs(plan, {**inside, name.lower(): _UNKNOWN})
        return self.outputs(node.plans[0], inside)

    def _narrowed(self, conditions: Sequence[ExpressionNode], below: _Outputs) -> _Outputs:
        """Return the columns of rows for which conditions hold, and note copies of these."""
        self._step(len(conditions) * len(below.columns) // 4)
        outputs = _equated(below, _equalities(conditions, below))
        for condition in conditions:
            self._copy(condition, self._found(condition, outputs), self.text)
        return outputs

    def _join(self, node: ExpressionNode, left: _Outputs, right: _Outputs) -> _Outputs:
        kind, conditions = node.mode, list(conjuncts(node.children))
        if kind not in _NARROWS_LEFT | _NARROWS_RIGHT:
            return _beside(_UNKNOWN, _beside(left, right)).if_kept(kept=False)
        self._step(len(conditions) * (len(left.columns) + len(right.columns)) // 4)
        pairs = _equalities(conditions, _beside(left, right))
        for name in node.parts:
            of_left, of_right = left.find((name,)), right.find((name,))
            if of_left is None or of_right is None:
                return _UNKNOWN
            pairs += _of_one_type([(of_left, of_right)])  # RULE (using-one-type)
        if kind in _ALL_MATCH:
            left, right = _equated(left, pairs), _equated(right, pairs)
        narrowed = _beside(left.if_kept(kind in _NARROWS_LEFT), right.if_kept(kind in _NARROWS_RIGHT))
        for one in conditions:
            self._copy(one, self._found(one, narrowed), self.text)
        if kind not in _ALL_MATCH:
            # Of one side's rows, those that no condition above drops match rows with the same value only.
            left, right = _matched(left, right, pairs), _matched(right, left, pairs)
        left, right = left.if_kept(kind in _KEEPS_LEFT), right.if_kept(kind in _KEEPS_RIGHT)
        if kind in _LEFT_ONLY:
            return left
        return _using(node.parts, left, right, kind) if node.parts else _beside(left, right)

    def _found(self, condition: ExpressionNode, outputs: _Outputs) -> _Found:
        """Return the columns that a condition refers to."""
        found = {parts: outputs.find(parts) for parts in references(condition)}
        self._step(len(outputs.columns) * len(found) // 4)
        return found

    def _copy(self, condition: ExpressionNode, found: _Found, text: str) -> None:
        """Add a condition to each scan that has all of its columns."""
        known = [one for one in found.values() if one is not None]
        if not known or len(known) < len(found):
            return
        each = sum([10 + len(one.origins) for parts in references(condition) if (one := found[parts])])
        for scan in frozenset.intersection(*(_scans(one) for one in known)):
            takes, passes = self.scanned[scan].takes, self.scanned[scan].passes
            self._step(each)

            def stored(parts: Sequence[str], scan: Span = scan) -> tuple[str, str] | None:
                one = found[tuple(parts)]
                origins = [o for o in one.origins if o.scan == scan] if one is not None else []
                return (origins[0].column, origins[0].type) if len(origins) == 1 else None

            used = {parts: its[0] for parts in found if (its := stored(parts)) is not None}
            if len(used) < len(found) or not (takes or passes).issuperset(used.values()):
                continue
            copy = copy_of(condition, stored, text)
            if copy is None:
                continue
            if takes.issuperset(used.values()):
                self.copies.setdefault(scan, []).append(copy)
            if passes.issuperset(used.values()):
                self.passed.setdefault(scan, []).append(Passed(condition, text, used))


def _scans(output: _Output) -> frozenset[Span]:
    return frozenset(origin.scan for origin in output.origins)


def conjuncts(conditions: Iterable[ExpressionNode]) -> Iterator[ExpressionNode]:
    """Yield the conditions that have to hold, one by one."""
    for condition in conditions:
        if condition.node == "And":
            yield from conjuncts(condition.children)
        else:
            yield condition


def _beside(left: _Outputs, right: _Outputs) -> _Outputs:
    return _Outputs((*left.columns, *right.columns), left.open or right.open)


_Pairs = list[tuple[_Output, _Output]]


def _equalities(conditions: Iterable[ExpressionNode], outputs: _Outputs) -> _Pairs:
    """Return the columns that conditions equate and that are of one type."""
    pairs: _Pairs = []
    for condition in conditions:
        if condition.node == "EqualTo" and all(c.node == "UnresolvedAttribute" for c in condition.children):
            one, other = (outputs.find(c.parts) for c in condition.children)
            if one is not None and other is not None:
                pairs.append((one, other))
    return _of_one_type(pairs)


def _of_one_type(pairs: _Pairs) -> _Pairs:
    """Return the pairs of which both types are known and the same: `'01' = 1`, but not every condition that
    holds for one of them holds for the other."""
    return [
        (one, other)
        for one, other in pairs
        # RULE (equal-column-types-known)
        if one.origins and other.origins and len({o.type for o in one.origins | other.origins}) == 1
    ]


def _equated(outputs: _Outputs, pairs: _Pairs) -> _Outputs:
    """Return columns of rows in which pairs are equal: each with the origins of all that equal it."""
    groups: list[frozenset[_Origin]] = []
    for one, other in pairs:
        group = one.origins | other.origins
        touched = [known for known in groups if known & group]
        groups = [known for known in groups if not known & group] + [group.union(*touched)]
    by_origin = {origin: group for group in groups for origin in group}

    def equated(one: _Output) -> _Output:
        found = {by_origin[origin] for origin in one.origins if origin in by_origin}
        return one._replace(origins=one.origins.union(*found)) if found else one

    return outputs.mapped(equated)


def _matched(side: _Outputs, other: _Outputs, pairs: _Pairs) -> _Outputs:
    """Return one side's columns with the origins of the other side's that have to equal them in a match."""
    matches: dict[_Output, frozenset[_Origin]] = {}
    ours, theirs = frozenset(side.columns), frozenset(other.columns)
    for pair in pairs:
        for one, its in (pair, pair[::-1]):
            if one in ours and its in theirs:
                matches[one] = matches.get(one, frozenset()) | its.origins
    return side.mapped(lambda one: one._replace(origins=one.origins | matches.get(one, frozenset())))


def _using(names: Sequence[str], left: _Outputs, right: _Outputs, kind: str) -> _Outputs:
    """Return the columns of a join that makes one of two columns of a name."""
    folded = {name.lower() for name in names}
    merged = [(left if kind != "RightOuter" else right).find((name,)) for name in names]
    columns = [_Output(one.name, origins=one.origins) for one in merged if one is not None]
    sides = _beside(left, right).mapped(lambda one: one._replace(bare=one.bare and one.name not in folded))
    return _Outputs((*columns, *sides.columns), sides.open)


def _project(items: Sequence[ExpressionNode], below: _Outputs) -> _Outputs:
    columns: list[_Output] = []
    unnamed = False
    for item in items:
        if item.node == "UnresolvedStar":
            qualifier = tuple(part.lower() for part in item.parts)
            shown = [o for o in below.columns if (qualifier in o.qualifiers if qualifier else o.bare)]
            columns += [one._replace(qualifiers=frozenset(), bare=True) for one in shown]
            # What has a qualifier that is none of a relation's is a column with fields.
            unnamed |= below.open or (bool(qualifier) and not shown)
        elif (column := _named(item, below)) is not None:
            columns.append(column)
        else:
            unnamed = True
    by_row = all(item.node == "UnresolvedStar" or _row_wise(item) for item in items)
    return _Outputs(tuple(columns), unnamed).if_kept(by_row)


def _named(item: ExpressionNode, below: _Outputs) -> _Output | None:
    """Return the column that an item of a select list makes; None where its name is Spark's to give."""
    attribute = item
    if item.node == "Alias":
        attribute = item.children[0]
    elif item.node != "UnresolvedAttribute":
        return None
    name = item.parts[-1].lower()
    found = below.find(attribute.parts) if attribute.node == "UnresolvedAttribute" else None
    return _Output(name, origins=found.origins if found is not None else frozenset())


def _row_wise(node: ExpressionNode) -> bool:
    if node.node not in _ROW_WISE:
        return False
    if node.node == "UnresolvedFunction" and builtin_name(node.parts) not in ROW_WISE_FUNCTIONS:
        return False
    return steady(node.plans) and all(_row_wise(child) for child in node.children)  # RULE (varying-subquery)


def _by_group(node: ExpressionNode) -> bool:
    """Whether an expression is of one group of rows, and the same whatever other groups there are."""
    if node.node not in AGGREGATING:
        return False
    if node.node == "UnresolvedFunction":
        name = builtin_name(node.parts)
        if name not in ROW_WISE_FUNCTIONS and name not in AGGREGATES:
            return False
    return steady(node.plans) and all(_by_group(child) for child in node.children)


def steady(plans: Iterable[ExpressionNode]) -> bool:
    """Whether subqueries call nothing that varies by row: Spark may write a small one out where it stands."""
    functions = (node for plan in plans for node in _nodes(plan) if node.node == "UnresolvedFunction")
    return all(
        (name := builtin_name(function.parts)) is not None and name not in VARYING_BY_ROW
        for function in functions
    )


def _aggregate(node: ExpressionNode, below: _Outputs) -> _Outputs:
    """Return the columns of an aggregation; those that it groups by pass, when it groups by columns alone."""
    count = int(node.value or 0)
    keys, items = node.children[:count], node.children[count:]
    grouped = [below.find(key.parts) if key.node == "UnresolvedAttribute" else None for key in keys]
    outputs = _Outputs(
        tuple([column for item in items if (column := _named(item, below)) is not None]),
        any(_named(item, below) is None for item in items),
    )
    if None in grouped or not keys or not all(map(_by_group, items)):  # RULE (pushdown-past-varying-groups)
        return outputs.if_kept(kept=False)
    kept = {one.origins for one in grouped if one is not None}
    return outputs.mapped(lambda one: one if one.origins in kept else one._replace(origins=frozenset()))


def _generate(node: ExpressionNode, below: _Outputs) -> _Outputs:
    """Return the columns of a LATERAL VIEW: what is below it, and what it makes of each row."""
    names = [child.parts[-1].lower() for child in node.children[1:] if child.node == "UnresolvedAttribute"]
    qualifiers = frozenset({tuple(part.lower() for part in node.parts)})
    made = tuple([_Output(name, qualifiers) for name in names])
    kept = below.if_kept(all(map(_row_wise, node.children[0].children)))
    return _beside(kept, _Outputs(made, open=not names))
