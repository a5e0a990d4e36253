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

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    ConditionClause,
    DroppedColumns,
    Expression,
    Filter,
    Generate,
    Join,
    JoinKind,
    NamedColumn,
    NamedScan,
    Operator,
    Pass,
    Passing,
    Projection,
    RelationNode,
    RenamedColumns,
    Star,
    Subquery,
    SubqueryAlias,
    WithColumns,
)
from gateway.algebra.resolve import LEFT_ONLY, Resolver, TooMuch
from gateway.algebra.scope import FoundName, NameAnswer, NameScope, RelationColumn, RelationColumns, scope_of
from gateway.algebra.walking import names_in, nodes_of, queries_in
from gateway.model.reading import Span
from gateway.sql.leakproof_copies import copy_of
from gateway.sql.rows import is_group_wise, is_row_wise

MAX_CHARS: Final = 16_384
"""Characters of the copies for one scan; those beyond it are left out."""
MAX_CHARS_OF_ALL: Final = 4 * MAX_CHARS
"""The same for all scans of a statement."""
_PASSING: Final = frozenset({Passing.DISTINCT, Passing.HINT, Passing.PIPE, Passing.REPARTITION, Passing.SORT})
"""What has all the rows of what is below it. A table as it was at another time (`RelationTimeTravel`) may
have had other types."""
_KEEPS_LEFT: Final = LEFT_ONLY | {JoinKind.CROSS, JoinKind.INNER, JoinKind.LEFT_OUTER}
"""Joins after which a condition on a column of the left side drops the rows of the left side."""
_KEEPS_RIGHT: Final = frozenset({JoinKind.CROSS, JoinKind.INNER, JoinKind.RIGHT_OUTER})
_ALL_MATCH: Final = frozenset({JoinKind.CROSS, JoinKind.INNER, JoinKind.LEFT_SEMI})
"""Joins in which ON holds for all that is left."""
_NARROWS_LEFT: Final = _ALL_MATCH | {JoinKind.RIGHT_OUTER}
"""Joins in which rows of the left side for which ON does not hold are of no account."""
_NARROWS_RIGHT: Final = frozenset(JoinKind) - {JoinKind.FULL_OUTER, JoinKind.RIGHT_OUTER}


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

    condition: Expression
    text: str
    """What its literals are looked up in."""
    columns: Mapping[tuple[str, ...], str]
    """Reference → the view's column, as the catalog writes it."""


@dataclass(frozen=True, slots=True)
class OuterConditions:
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


_Origins = frozenset[_Origin]
"""Of a column: the columns of scans that have its value, and whose rows with another value are of no account
once a condition has left one value of it."""
_NO_ORIGINS: Final = _Origins()
_Outputs = RelationColumns[_Origins]
_Output = RelationColumn[_Origins]
_Found = Mapping[tuple[str, ...], _Output | None]
"""Reference → the column that it means."""


NONE: Final = Leakproof()


def leakproof(
    tree: RelationNode | None,
    text: str,
    scanned: Mapping[Span, Scanned],
    ctes: frozenset[Span],
    above: OuterConditions | None = None,
) -> Leakproof:
    """Return for scans, by where their names stand, the conditions that may be added to them, and those for
    the texts of views.

    `tree` is the statement's plan, None where it is not known; `ctes` are the places that name common table
    expressions; `above`: what is asked of the view whose text it is.
    """
    if tree is None:
        return NONE
    nodes = tuple(nodes_of(tree))
    named = frozenset(_list_asked_columns(nodes))
    if above is not None:
        named |= {within.lower() for _, within, _ in above.columns}
    domain = _LeakDomain(text, scanned, ctes, Counter(_mentions(nodes)), named)
    try:
        outputs = domain.resolver.relation(tree, NameScope())
        if above is not None:
            domain.from_above(above, outputs)
    except TooMuch:
        return NONE
    return Leakproof(
        _limit_copies({scan: copies for scan, copies in domain.copies.items() if domain.mentions[scan] == 1}),
        {scan: tuple(found) for scan, found in domain.passed.items() if domain.mentions[scan] == 1},
    )


def _limit_copies(copies: Mapping[Span, Iterable[str]]) -> Mapping[Span, tuple[str, ...]]:
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


def _mentions(nodes: Iterable[RelationNode | Expression]) -> Iterator[Span | str]:
    """Yield the place of every relation, and the name of each that has one part."""
    for node in nodes:
        if isinstance(node, NamedScan):
            if node.span is not None:
                yield node.span
            if len(node.parts) == 1:
                yield node.parts[0].lower()


def _list_asked_columns(nodes: Iterable[RelationNode | Expression]) -> Iterator[str]:
    """Yield the names by which a statement asks for columns, lower case."""
    for node in nodes:
        if isinstance(node, NamedColumn):
            yield node.parts[-1].lower()
        elif isinstance(node, RenamedColumns):
            yield from (old.lower() for old, _ in node.names)
        elif isinstance(node, Join):
            yield from (name.lower() for name in node.using)


@dataclass(slots=True)
class _LeakDomain:
    """Where the values of columns come from; notes what conditions can be copied to."""

    text: str
    scanned: Mapping[Span, Scanned]
    ctes: frozenset[Span]
    mentions: Counter[Span | str]
    """How often each relation is in the plan: what is there twice is read for two."""
    named: frozenset[str]
    """The columns that the statement asks for; others need not be followed."""
    copies: dict[Span, list[str]] = field(default_factory=dict)
    passed: dict[Span, list[Passed]] = field(default_factory=dict)
    resolver: Resolver[_Origins] = field(init=False)

    def __post_init__(self) -> None:
        self.resolver = Resolver(self, self.ctes, self.named)

    def from_above(self, above: OuterConditions, outputs: _Outputs) -> None:
        """Note what conditions above a view can be copied to within its text."""
        made: dict[str, _Output] = {}
        for name, within, kind in above.columns:
            found = _one((within,), outputs)
            if found is not None:
                # A view has its columns in the types that it was made with.
                same = frozenset(one for one in found.value if one.type.lower() == kind.lower())
                made[name] = found._replace(value=same)
        for one in above.conditions:
            self.resolver.step(len(one.columns) * 10)
            self._copy(
                one.condition,
                {parts: made.get(column) for parts, column in one.columns.items()},
                one.text,
            )

    # What the resolver asks.

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, _Origins]] | None:
        known = self.scanned.get(scan.span) if scan.span is not None else None
        if scan.span is None or known is None:
            return None
        place = scan.span
        return ((name, frozenset({_Origin(place, name, kind)})) for name, kind in known.columns.items())

    def column(
        self, column: NamedColumn, answer: NameAnswer[_Origins], scope: NameScope[_Origins]
    ) -> _Origins:
        found = _sure(answer)
        return _NO_ORIGINS if found is None else found.value

    def compute(self, expression: Expression, operands: Sequence[_Origins]) -> _Origins:
        return operands[0] if isinstance(expression, Alias) else _NO_ORIGINS

    def query(self, query: Subquery, scope: NameScope[_Origins]) -> _Origins:
        return _NO_ORIGINS

    def expand(self, star: Star, shown: Sequence[_Output], scope: NameScope[_Origins]) -> Sequence[_Output]:
        return shown

    def star(self, star: Star, shown: Sequence[_Output], scope: NameScope[_Origins]) -> _Origins:
        return _NO_ORIGINS

    def variable(self) -> _Origins:
        return _NO_ORIGINS

    def item(self, item: Expression, value: _Origins) -> _Origins:
        return value

    def merge(self, values: Sequence[_Origins]) -> _Origins:
        return _NO_ORIGINS

    def decide(
        self, relation: RelationNode, inputs: Sequence[_Outputs], scope: NameScope[_Origins]
    ) -> Sequence[_Outputs]:
        self.resolver.step(sum([10 + len(one.value) for below in inputs for one in below.columns]))
        for expression in relation.expressions:
            for query in queries_in(expression):
                self.resolver.relation(query, scope)
        match relation:
            case Pass(why=Passing.VERSION):
                return [RelationColumns(open=True)]
            case Join(lateral=False) if not relation.natural:  # RULE (natural-join-columns)
                return self._join(relation, inputs[0], inputs[1])
            case Filter(clause=ConditionClause.WHERE):
                inputs = [self._narrow(relation.conditions, inputs[0])]
                # What varies by row would choose among other rows, were those gone that is dropped above.
                kept = all(map(is_row_wise, relation.conditions))  # RULE (pushdown-past-varying-condition)
            case Filter(clause=ConditionClause.HAVING):
                kept = all(map(is_group_wise, relation.conditions))
            case Projection() | WithColumns():
                listed = [one for item in relation.items for one in _strip_star(item)]
                kept = all(map(is_row_wise, listed))
            case Aggregate():
                return [_group_outputs(relation, inputs[0])]
            case Generate():
                kept = all(map(is_row_wise, relation.generator.operands))
            case Pass():
                kept = relation.why in _PASSING
            case NamedScan():
                kept = self.mentions[relation.parts[-1].lower()] == 1
            case _:
                kept = isinstance(relation, SubqueryAlias | RenamedColumns | DroppedColumns)
        return [_if_kept(below, kept=kept) for below in inputs]

    def _narrow(self, conditions: Sequence[Expression], below: _Outputs) -> _Outputs:
        """Return the columns of rows for which conditions hold, and note copies of these."""
        self.resolver.step(len(conditions) * len(below.columns) // 4)
        outputs = _merge_equal(below, _equalities(conditions, below))
        for condition in conditions:
            self._copy(condition, self._find_columns(condition, outputs), self.text)
        return outputs

    def _join(self, join: Join, left: _Outputs, right: _Outputs) -> Sequence[_Outputs]:
        self.resolver.step(len(join.conditions) * (len(left.columns) + len(right.columns)) // 4)
        pairs = _equalities(join.conditions, left.beside(right))
        for name in join.using:
            of_left, of_right = _one((name,), left), _one((name,), right)
            if of_left is not None and of_right is not None:
                pairs += _of_one_type([(of_left, of_right)])  # RULE (using-one-type)
        kind = join.kind
        if kind in _ALL_MATCH:
            left, right = _merge_equal(left, pairs), _merge_equal(right, pairs)
        narrowed = _if_kept(left, kept=kind in _NARROWS_LEFT).beside(
            _if_kept(right, kept=kind in _NARROWS_RIGHT)
        )
        for one in join.conditions:
            self._copy(one, self._find_columns(one, narrowed), self.text)
        if pairs and kind not in _ALL_MATCH:
            # Of one side's rows, those that no condition above drops match rows with the same value only.
            left, right = _match_outputs(left, right, pairs), _match_outputs(right, left, pairs)
        return _if_kept(left, kept=kind in _KEEPS_LEFT), _if_kept(right, kept=kind in _KEEPS_RIGHT)

    def _find_columns(self, condition: Expression, outputs: _Outputs) -> _Found:
        """Return the columns that a condition refers to."""
        found = {parts: _one(parts, outputs) for parts in names_in(condition)}
        self.resolver.step(len(outputs.columns) * len(found) // 4)
        return found

    def _copy(self, condition: Expression, found: _Found, text: str) -> None:
        """Add a condition to each scan that has all of its columns."""
        known = [one for one in found.values() if one is not None]
        if not known or len(known) < len(found):
            return
        each = sum([10 + len(one.value) for parts in names_in(condition) if (one := found[parts])])
        for scan in frozenset.intersection(*(_scans(one) for one in known)):
            takes, passes = self.scanned[scan].takes, self.scanned[scan].passes
            self.resolver.step(each)

            def find_stored(parts: Sequence[str], scan: Span = scan) -> tuple[str, str] | None:
                one = found[tuple(parts)]
                origins = [o for o in one.value if o.scan == scan] if one is not None else []
                return (origins[0].column, origins[0].type) if len(origins) == 1 else None

            used = {parts: its[0] for parts in found if (its := find_stored(parts)) is not None}
            if len(used) < len(found) or not (takes or passes).issuperset(used.values()):
                continue
            copy = copy_of(condition, find_stored, text)
            if copy is None:
                continue
            if takes.issuperset(used.values()):
                self.copies.setdefault(scan, []).append(copy)
            if passes.issuperset(used.values()):
                self.passed.setdefault(scan, []).append(Passed(condition, text, used))


def _strip_star(item: Expression) -> tuple[Expression, ...]:
    """Return what an item of a select list computes."""
    return item.replaced if isinstance(item, Star) else (item,)


def _sure(answer: NameAnswer[_Origins]) -> _Output | None:
    """Return the one column of the query itself that a reference can mean; None where it may be another."""
    if not isinstance(answer, FoundName) or answer.depth or answer.open:
        return None
    return answer.attribute


def _one(parts: Sequence[str], outputs: _Outputs) -> _Output | None:
    return _sure(scope_of(outputs).resolve(parts))


def _map_outputs(outputs: _Outputs, change: Callable[[_Output], _Origins]) -> _Outputs:
    columns = [
        one if (value := change(one)) is one.value else one._replace(value=value) for one in outputs.columns
    ]
    return RelationColumns(tuple(columns), outputs.open)


def _if_kept(outputs: _Outputs, *, kept: bool) -> _Outputs:
    return outputs if kept else _map_outputs(outputs, lambda _: _NO_ORIGINS)


def _scans(output: _Output) -> frozenset[Span]:
    return frozenset(origin.scan for origin in output.value)


_Pairs = list[tuple[_Output, _Output]]


def _equalities(conditions: Iterable[Expression], outputs: _Outputs) -> _Pairs:
    """Return the columns that conditions equate and that are of one type."""
    pairs: _Pairs = []
    for condition in conditions:
        match condition:
            case Operator(name="EqualTo", operands=(NamedColumn(parts=one), NamedColumn(parts=other))):
                found = _one(one, outputs), _one(other, outputs)
                if found[0] is not None and found[1] is not None:
                    pairs.append((found[0], found[1]))
    return _of_one_type(pairs)


def _of_one_type(pairs: _Pairs) -> _Pairs:
    """Return the pairs of which both types are known and the same: `'01' = 1`, but not every condition that
    holds for one of them holds for the other."""
    return [
        (one, other)
        for one, other in pairs
        # RULE (equal-column-types-known)
        if one.value and other.value and len({o.type for o in one.value | other.value}) == 1
    ]


def _merge_equal(outputs: _Outputs, pairs: _Pairs) -> _Outputs:
    """Return columns of rows in which pairs are equal: each with the origins of all that equal it."""
    groups: list[_Origins] = []
    for one, other in pairs:
        group = one.value | other.value
        touched = [known for known in groups if known & group]
        groups = [known for known in groups if not known & group] + [group.union(*touched)]
    by_origin = {origin: group for group in groups for origin in group}

    def join_origins(one: _Output) -> _Origins:
        found = [by_origin[origin] for origin in one.value if origin in by_origin]
        return one.value.union(*found) if found else one.value

    return _map_outputs(outputs, join_origins) if groups else outputs


def _match_outputs(side: _Outputs, other: _Outputs, pairs: _Pairs) -> _Outputs:
    """Return one side's columns with the origins of the other side's that have to equal them in a match."""
    matches: dict[_Output, _Origins] = {}
    ours, theirs = frozenset(side.columns), frozenset(other.columns)
    for pair in pairs:
        for one, its in (pair, pair[::-1]):
            if one in ours and its in theirs:
                matches[one] = matches.get(one, _NO_ORIGINS) | its.value
    return _map_outputs(side, lambda one: one.value | matches[one] if one in matches else one.value)


def _group_outputs(relation: Aggregate, below: _Outputs) -> _Outputs:
    """Return the columns below groups; those that these are made by pass, where they are columns alone."""
    grouped = [_one(key.parts, below) if isinstance(key, NamedColumn) else None for key in relation.keys]
    # RULE (pushdown-past-varying-groups)
    if None in grouped or not grouped or not all(map(is_group_wise, relation.items)):
        return _if_kept(below, kept=False)
    kept = {one.value for one in grouped if one is not None}
    return _map_outputs(below, lambda one: one.value if one.value in kept else _NO_ORIGINS)
