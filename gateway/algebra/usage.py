"""Which columns of stored tables a query uses, and for what: a domain of the algebra.

A column is *used* if it is named, or shown by a star. It is *computed* with unless all that happens to its
values is that they are passed on: what is compared, joined, sorted, grouped, counted or handed to a function
is computed with. What passes a value on unchanged keeps its origins, so that a condition far above counts
for the column that it is on.

What cannot be attributed raises `Unclear`: whoever decides by usage then takes every column for used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final, NamedTuple

from gateway.algebra.findings import NO_ORIGINS, ColumnFindings, Origins
from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    ChangedColumns,
    ColumnAliases,
    ConditionClause,
    DroppedColumns,
    Expression,
    Filter,
    Generate,
    InlineTable,
    Join,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Pivot,
    Projection,
    QueryKind,
    RelationNode,
    RenamedColumns,
    SetKind,
    SetOperation,
    Star,
    Subquery,
    SubqueryAlias,
    TableFunction,
    Unpivot,
    WindowCall,
    WithColumns,
)
from gateway.algebra.resolve import Resolver
from gateway.algebra.scope import (
    AmbiguousName,
    FoundField,
    FoundName,
    NameAnswer,
    NameScope,
    OpenName,
    RelationColumn,
    RelationColumns,
    list_join_names,
)
from gateway.algebra.walking import list_references, names_in, parts_of
from gateway.model.catalog import TableName
from gateway.model.reading import Span

GUESSED: Final = "?"
"""What the name of a column begins with that a table may have, for all that is told of it."""

LITERAL_FUNCTIONS: Final = frozenset(
    """
    current_catalog current_database current_date current_path current_role current_schema current_time
    current_timestamp current_timezone current_user grouping__id localtime localtimestamp session_user user
    """.split()
)
"""Names that Spark takes for a function without brackets when no column has them."""
Parts = tuple[str, ...]
"""Name parts, lower case."""
_ALL: Final = "all"
"""GROUP BY ALL and ORDER BY ALL: a name to Spark's parser."""
_COMPUTING: Final = frozenset(
    """
    AggregateExpression CurrentPath CurrentTime Hex IsNotUnknown$anon IsUnknown$anon
    NamePlaceholder NamedArgumentExpression NamedParameter OptionList Overlay PosParameter
    SemiStructuredExtract ShiftLeft ShiftRight ShiftRightUnsigned StringLocate TimestampAdd
    TimestampDiff UnresolvedPipeAggregateOrdinal UnresolvedTableSpec
    """.split()
)
"""Spark's classes of expressions that are opaque to others, and that compute with their operands alone."""
_COMMANDS: Final = frozenset(
    """
    CacheTableAsSelect CreateTableAsSelect CreateView CreateViewCommand InsertIntoDir InsertIntoStatement
    ReplaceTableAsSelect
    """.split()
)
"""Commands that do nothing with columns but what the query in them does."""
_PIPE_PLACE: Final = "UnresolvedPipeAggregateOrdinal"
"""A number among the keys of `|> AGGREGATE`: a column of what is grouped."""
_MARKERS: Final = frozenset({"NamedParameter", "PosParameter", _PIPE_PLACE})
"""What may stand for the place of a column, where a number does."""


class Unclear(Exception):
    """Something cannot be attributed with certainty."""

    def __init__(self, why: str, sought: Parts = ()) -> None:
        super().__init__(why)
        self.why = why
        self.sought = sought
        """A name that no relation in scope has, lower case; empty for any other reason."""


class Unfound(Unclear):
    """A name that no column has, be it of a relation around: Spark refuses the statement."""


class UsedValue(NamedTuple):
    """What is known of a column of a relation."""

    origins: Origins = NO_ORIGINS
    table: TableName | None = None
    """The table that it is a column of, as long as nothing but its relation's name changed."""
    fieldless: bool = False
    """Whether its type has no fields."""

    @property
    def guessed(self) -> bool:
        return any(column.startswith(GUESSED) for _, column in self.origins)


COMPUTED: Final = UsedValue()
"""What is made of columns, and passes none of them on."""
_Columns = RelationColumns[UsedValue]
_Column = RelationColumn[UsedValue]
_Scope = NameScope[UsedValue]
_Inputs = Sequence[_Columns]


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A relation that is read; `name` is None for one of unknown columns, as a temporary view."""

    name: TableName | None
    columns: Sequence[str] = ()
    guessed: frozenset[str] = frozenset()
    """Names, lower case, of columns that it may have besides."""
    fieldless: frozenset[str] = frozenset()
    """Names, lower case, of columns whose types have no fields."""


@dataclass(slots=True)
class UsageDomain:
    """Notes which columns a query uses while a `Resolver` goes through it."""

    scanned: Mapping[Span, StoredTable]
    """What is read, by where its name stands."""
    ctes: frozenset[Span]
    found: ColumnFindings = field(default_factory=ColumnFindings)
    many: Callable[[NamedCall], bool] = lambda _: True
    """Whether a function may make several columns of a select list."""
    resolver: Resolver[UsedValue] = field(init=False)
    _made: list[RelationNode] = field(default_factory=list)
    """What was made here and not by a lowering: the resolver knows relations by their identity."""
    _grouping: set[int] = field(default_factory=set)
    """The identities of the items of select lists that groups are made by."""
    _seen: set[int] = field(default_factory=set)  # those of the references that were looked up
    _guesses: bool = field(init=False)
    """Whether a table may have columns that are not known of it."""

    def __post_init__(self) -> None:
        full = {span: table.name.parts for span, table in self.scanned.items() if table.name is not None}
        self.resolver = Resolver(self, self.ctes, many=self.many, recursion=True, full_names=full, flat=True)
        self._guesses = any(table.guessed for table in self.scanned.values())

    def statement(self, relation: RelationNode) -> _Columns:
        """Note what a statement uses, and return the columns that it shows."""
        columns = self.resolver.relation(relation, NameScope())
        self.show(columns.columns)
        for node in list_references(relation):
            if id(node) not in self._seen:  # RULE (usage-every-reference)
                raise Unclear(f"column analysis did not come by `{'.'.join(node.parts)}`")
        return columns

    def show(self, columns: Iterable[_Column]) -> None:
        """Note columns that are shown without being named."""
        for one in columns:
            self.found.used |= one.value.origins
            if one.value.table is not None:
                self.found.stars.add(one.value.table)

    def compute_with(self, columns: Iterable[_Column]) -> None:
        self.found.compute([one.value for one in columns])

    # What the resolver asks.

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, UsedValue]] | None:
        table = self.scanned.get(scan.span) if scan.span is not None else None
        if table is None:
            raise Unclear(f"readers disagree: nothing is known of `{'.'.join(scan.parts)}`")
        if table.name is None:
            return None
        guessed = tuple(sorted(table.guessed - LITERAL_FUNCTIONS)) if table.guessed else ()
        return list_stored_columns(table.name, tuple(table.columns), guessed, table.fieldless)

    def column(self, column: NamedColumn, answer: NameAnswer[UsedValue], scope: _Scope) -> UsedValue:
        self._seen.add(id(column))
        # RULE (qualifier-before-column)
        if len(column.parts) == 1 or not scope.has_qualifier(column.parts):
            self.found.words.add(column.parts[0].lower())
        if isinstance(answer, FoundName):
            one = answer.attribute
            if not (one.guessed or (self._guesses and one.value.guessed)):  # as nearly all are
                self.found.mark(one.value.origins, plain=True)
                return one.value
        match answer:
            case FoundName():
                found: Sequence[_Column] = (answer.attribute,)
            case OpenName():
                self.found.mark(_origins(answer.otherwise), plain=False)
                return COMPUTED
            # RULE (field-of-fieldless)
            case FoundField() if all(one.value.fieldless for one in answer.attributes):
                # Spark takes it for a field, and finds none.
                raise _unfound(column, Unfound)
            case AmbiguousName() | FoundField():
                found = answer.attributes
            case _:
                return _resolve_word(column)
        known = [one for one in found if not one.value.guessed]  # RULE (known-column-before-guessed)
        given = [
            one
            for level in scope.levels[answer.depth : answer.depth + 1]
            for tier in level[1:]
            for one in tier.find_columns(column.parts[:1])
        ]
        # One of a relation of unknown columns is as likely.
        # RULE (alias-beside-unknown-columns)
        if not known and answer.open and all(one.value.guessed for one in given):
            return COMPUTED
        origins = _origins(known or found[:1])
        self.found.mark(origins, plain=True)
        if any(one.guessed for one in found):
            # Spark may have given the column another name: then it is one further out that is meant.
            tiers = [tier for level in scope.levels for tier in level]
            self.found.mark(_origins([o for t in tiers for o in t.find_columns(column.parts)]), plain=False)
        return UsedValue(origins)

    def compute(self, expression: Expression, operands: Sequence[UsedValue]) -> UsedValue:
        if isinstance(expression, Alias):
            return operands[0]
        # RULE (usage-known-expression)
        if isinstance(expression, OpaqueExpression) and not _computes_alone(expression):
            raise Unclear(f"column analysis does not understand {expression.name or 'an expression'}")
        self.found.compute(operands)
        return COMPUTED

    def query(self, query: Subquery, scope: _Scope) -> UsedValue:
        is_exists = query.kind is QueryKind.EXISTS
        relation = self._without_star(query.relation) if is_exists else query.relation
        with self.within_condition(inside=False):
            columns = self.resolver.relation(relation, scope).columns
            if is_exists:  # it looks at rows, whatever columns they have
                columns = tuple([one for one in columns if one.value.table is None])
            self.show(columns)
            self.compute_with(columns)
        self.found.compute([self.resolver.value(one, scope) for one in query.values])
        return COMPUTED

    def expand(self, star: Star, shown: Sequence[_Column], scope: _Scope) -> Sequence[_Column]:
        if id(star) in self._grouping:
            self.compute_with(shown)
        if star.implied:
            return shown
        self._note_star(star, shown, scope)
        return _as_listed(shown)

    def star(self, star: Star, shown: Sequence[_Column], scope: _Scope) -> UsedValue:
        self._note_star(star, shown, scope)
        self.compute_with(shown)
        return COMPUTED

    def variable(self) -> UsedValue:
        return COMPUTED

    def item(self, item: Expression, value: UsedValue) -> UsedValue:
        if id(item) in self._grouping:
            self.found.compute((value,))
        return UsedValue(value.origins) if value.table is not None else value

    def merge(self, values: Sequence[UsedValue]) -> UsedValue:
        return UsedValue(NO_ORIGINS.union(*[one.origins for one in values]))

    def decide(self, relation: RelationNode, inputs: _Inputs, scope: _Scope) -> _Inputs:
        return DECISIONS[type(relation)](self, relation, inputs, scope)

    # What relations do with their inputs.

    def _pass_on(self, relation: RelationNode, inputs: _Inputs, scope: _Scope) -> _Inputs:
        return inputs

    def _filter(self, relation: Filter, inputs: _Inputs, scope: _Scope) -> _Inputs:
        if relation.clause is ConditionClause.WHERE:
            with self.within_condition():
                self._compute(relation.conditions, scope.over(inputs[0]))
            return inputs
        self._of_shown(relation.conditions, relation.input, inputs[0], scope)
        if relation.clause is ConditionClause.QUALIFY:  # RULE (qualify-window-columns)
            windows = [one for made in relation.conditions for one in _windows(made)]
            below = self._find_made_of(relation.input, scope)
            self._compute(windows, scope.over(below, inputs[0]))
        return inputs

    def _alias_columns(self, relation: ColumnAliases, inputs: _Inputs, scope: _Scope) -> _Inputs:
        shown = replace(inputs[0], columns=tuple([one for one in inputs[0].columns if one.bare]))
        if shown.columns or not shown.uncounted:
            # RULE (alias-column-list)
            self.found.stars |= {one.value.table for one in shown.columns if one.value.table is not None}
            if shown.uncounted or len(relation.names) != len(shown.columns):
                raise Unclear(f"{len(relation.names)} names for {len(shown.columns)} columns")
        return [replace(shown, columns=tuple(_as_listed(shown.columns)))]

    def _make_rows(self, relation: InlineTable | TableFunction, inputs: _Inputs, scope: _Scope) -> _Inputs:
        self._compute(relation.expressions, scope)
        return inputs

    def _read_name(self, relation: NamedScan, inputs: _Inputs, scope: _Scope) -> _Inputs:
        if not inputs:
            raise Unclear(f"`{'.'.join(relation.parts)}` reads itself")
        return inputs

    def _generate(self, relation: Generate, inputs: _Inputs, scope: _Scope) -> _Inputs:
        if isinstance(relation.generator, OpaqueExpression):
            raise Unclear("column analysis does not understand a generator")
        return inputs

    def _use_rows(
        self, relation: OpaqueRelation | Pivot | Unpivot, inputs: _Inputs, scope: _Scope
    ) -> _Inputs:
        """PIVOT groups by what it does not name, and UNPIVOT copies it."""
        self._compute(relation.expressions, scope.over(_beside(inputs)))
        for below in inputs:
            self.show(below.columns)
            self.compute_with(below.columns)
        return inputs

    def _open(self, relation: OpaqueRelation, inputs: _Inputs, scope: _Scope) -> _Inputs:
        """Note what a relation uses that is known by its name, or to read nothing but its inputs."""
        name = relation.name
        if name in _COMMANDS:
            if any(names_in(one) for one in relation.expressions):
                raise Unclear(f"column analysis does not support {name}")
            for below in inputs:
                self.show(below.columns)
        elif relation.complete:
            self._use_rows(relation, inputs, scope)
        elif name != "UnresolvedIdentifier":  # RULE (usage-known-relation)
            raise Unclear(f"column analysis does not understand {name or 'a relation'}")
        return inputs

    @contextmanager
    def within_condition(self, *, inside: bool = True) -> Iterator[None]:
        """Note that what is computed with meanwhile is, or is not, a part of a condition."""
        outer, self.found.in_condition = self.found.in_condition, inside
        try:
            yield
        finally:
            self.found.in_condition = outer

    def _compute(self, expressions: Iterable[Expression], scope: _Scope) -> None:
        self.found.compute([self.resolver.value(one, scope) for one in expressions])

    def _note_star(self, star: Star, shown: Sequence[_Column], scope: _Scope) -> None:
        self.show(shown)
        if shown or not star.qualifier or scope.has_qualifier((*star.qualifier, "*")):
            return
        # The fields of a column with the name.
        answer = scope.resolve(star.qualifier)
        if not isinstance(answer, FoundName | FoundField):
            raise Unclear(f"`{'.'.join(star.qualifier)}.*` does not name a relation in scope")
        value = self.column(NamedColumn(star.qualifier), answer, scope)
        # RULE (fields-of-columns)
        self.found.compute((value,))  # nobody knows what they are called, nor what is asked of them

    def _group(self, relation: Aggregate, inputs: _Inputs, scope: _Scope) -> _Inputs:
        """Note what groups are made by: columns, then names of the list, or all of it by place."""
        (below,) = inputs
        if any(isinstance(one, OpaqueExpression) and one.name == _PIPE_PLACE for one in relation.items):
            self.show(below.columns)  # RULE (pipe-aggregate-ordinal)
            self.compute_with(below.columns)
        for key in relation.keys:
            if _means_places(key, below):
                self._grouping |= {id(item) for item in relation.items}
            names = {parts[0].lower() for parts in names_in(key)} - {one.name for one in below.columns}
            given = [one for one in relation.items if isinstance(one, Alias) and one.name.lower() in names]
            self._grouping |= {id(item) for item in given}
            own = RelationColumns(tuple([RelationColumn(one.name.lower(), COMPUTED) for one in given]))
            self._compute((key,), scope.over(below, own))
        return inputs

    def _of_shown(
        self, expressions: Iterable[Expression], relation: RelationNode, shown: _Columns, scope: _Scope
    ) -> None:
        """Note what conditions and sort keys above a select list are on: what it shows, and what that is made
        of. A name by itself is what is shown; one within an expression may be either."""
        below = self._find_made_of(relation, scope)
        # RULE (having-output-first)
        known = replace(below, columns=tuple([one for one in below.columns if not one.value.guessed]))
        for one in expressions:
            with self.resolver.aside():
                self._compute((one,), scope.over(shown, below))
            if not isinstance(one, NamedColumn):  # RULE (either-within-expression)
                self._compute((one,), scope.over(known, shown, below))

    def _find_made_of(self, relation: RelationNode, scope: _Scope) -> _Columns:
        """Return the columns that a select list is made of."""
        while isinstance(relation, Pass) or (
            isinstance(relation, Filter) and relation.clause is not ConditionClause.WHERE
        ):
            relation = relation.input
        if isinstance(relation, (Projection, Aggregate)):
            return self.resolver.relation(relation.input, scope)
        return RelationColumns()

    def _pass(self, relation: Pass, inputs: _Inputs, scope: _Scope) -> _Inputs:
        (below,) = inputs
        match relation.why:
            case Passing.DISTINCT:
                self.show(below.columns)
                self.compute_with(below.columns)
            case Passing.SORT | Passing.REPARTITION:
                for key in relation.expressions:
                    if _means_places(key, below):  # RULE (pipe-order-ordinal)
                        self.show(below.columns)
                        self.compute_with(below.columns)
                    self._of_shown((key,), relation.input, below, scope)
            case Passing.HINT:
                here = scope.over(below, self._find_made_of(relation.input, scope))
                parts = [one for hint in relation.expressions for one in parts_of(hint)]
                named = [one for one in parts if isinstance(one, NamedColumn)]
                self._seen |= {id(one) for one in named}
                for answer in [here.resolve(one.parts) for one in named]:
                    if isinstance(answer, FoundName):
                        self.found.mark(answer.attribute.value.origins, plain=False)
            case _:
                self._compute(relation.expressions, scope.over(below))
        return inputs

    def _join(self, join: Join, inputs: _Inputs, scope: _Scope) -> _Inputs:
        left, right = inputs
        if join.natural:
            if left.open or right.open:
                raise Unclear("a natural join with unknown columns")
            # It compares all columns that both have, whatever they are called.
            tables = {one.value.table for one in (*left.columns, *right.columns)}
            # RULE (natural-join-all-columns)
            self.found.stars |= {table for table in tables if table is not None}
        self.found.words |= {name.lower() for name in join.using}  # RULE (join-words)
        for name in list_join_names(join, left, right):
            for side in (left, right):
                found = side.find_columns((name,))
                if not found and not side.open:  # RULE (join-column-known)
                    raise Unfound(f"the join column `{name}` is in no known relation", (name,))
                self.found.mark(_origins(found[:1]), plain=False)  # RULE (join-column-first)
        with self.within_condition():
            self._compute(join.conditions, scope.over(left.beside(right)))
        return inputs

    def _set(self, relation: SetOperation, inputs: _Inputs, scope: _Scope) -> _Inputs:
        widths = {len([one for one in side.columns if one.bare]) for side in inputs}
        by_place = not relation.by_name
        if by_place and (len(widths) != 1 or any(side.uncounted for side in inputs)):
            raise Unclear("the columns of a set operation cannot be matched")
        for side in inputs:
            self.show(side.columns)
            if relation.kind is not SetKind.UNION:
                self.compute_with(side.columns)
        return inputs

    def _without_star(self, relation: RelationNode) -> RelationNode:
        """Return a query of EXISTS without the star of its select list."""
        if isinstance(relation, Pass) and relation.why is not Passing.DISTINCT:
            made: RelationNode = replace(relation, input=self._without_star(relation.input))
        elif isinstance(relation, Projection) and relation.items == (Star(),):
            made = replace(relation, items=())
        else:
            return relation
        self._made.append(made)
        return made


_NOTHING = (ChangedColumns, DroppedColumns, OneRow, Projection, RenamedColumns, SubqueryAlias, WithColumns)
UsageDecisions = Mapping[type, Callable[..., _Inputs]]
DECISIONS: Final[UsageDecisions] = {
    **dict.fromkeys(_NOTHING, UsageDomain._pass_on),
    Aggregate: UsageDomain._group,
    ColumnAliases: UsageDomain._alias_columns,
    Filter: UsageDomain._filter,
    Generate: UsageDomain._generate,
    InlineTable: UsageDomain._make_rows,
    Join: UsageDomain._join,
    NamedScan: UsageDomain._read_name,
    OpaqueRelation: UsageDomain._open,
    Pass: UsageDomain._pass,
    Pivot: UsageDomain._use_rows,
    SetOperation: UsageDomain._set,
    TableFunction: UsageDomain._make_rows,
    Unpivot: UsageDomain._use_rows,
}
"""What is noted of relations beside the values of their expressions. Called with a relation of their class
only; a test compares them with the classes there are."""


def _windows(expression: Expression) -> Iterator[WindowCall]:
    if isinstance(expression, WindowCall):
        yield expression
    for one in expression.operands:
        yield from _windows(one)


def _computes_alone(expression: OpaqueExpression) -> bool:
    """Whether an opaque expression is known to do nothing but compute with its operands."""
    return not expression.relations and (expression.complete or expression.name in _COMPUTING)


def is_literal(parts: Parts) -> bool:
    """Whether a name that no relation has is a function without brackets."""
    return len(parts) == 1 and parts[0] in LITERAL_FUNCTIONS


@lru_cache(maxsize=1024)
def list_stored_columns(
    table: TableName, columns: tuple[str, ...], guessed: tuple[str, ...], fieldless: frozenset[str]
) -> list[tuple[str, UsedValue]]:
    """Return a table's columns, and those that it may have, by their names. Nobody changes the list."""
    names = [(column.lower(),) * 2 for column in columns] + [(one, GUESSED + one) for one in guessed]
    return [
        (column, UsedValue(frozenset({(table, noted)}), table, noted in fieldless)) for column, noted in names
    ]


def _resolve_word(column: NamedColumn) -> UsedValue:
    name = column.parts[0].lower()
    if len(column.parts) == 1 and (name in LITERAL_FUNCTIONS or name == _ALL):
        return COMPUTED
    # Other names than plain ones may be those that Spark makes up.
    raise _unfound(column, Unfound if len(column.parts) == 1 and name.isidentifier() else Unclear)


def _unfound(column: NamedColumn, kind: type[Unclear]) -> Unclear:
    sought = tuple(part.lower() for part in column.parts)
    return kind(f"`{'.'.join(column.parts)}` is not in any relation in scope", sought)


def _origins(columns: Iterable[_Column]) -> Origins:
    return NO_ORIGINS.union(*[one.value.origins for one in columns])


def _as_listed(columns: Iterable[_Column]) -> list[_Column]:
    """Return columns as a list passes them on: they are its own then, and no longer a table's."""
    return [one._replace(value=UsedValue(one.value.origins)) for one in columns]


def _beside(inputs: Sequence[_Columns]) -> _Columns:
    columns: _Columns = RelationColumns()
    for one in inputs:
        columns = columns.beside(one)
    return columns


def _means_places(key: Expression, below: _Columns) -> bool:
    """Whether a key means columns by their places: a number, what may be one, or ALL."""
    match key:
        case Literal():
            return True
        case OpaqueExpression(name=name):
            return name in _MARKERS
        case NamedColumn(parts=(name,)):
            return name.lower() == _ALL and not below.find_columns((name,))
        case Operator(name="Rollup" | "Cube" | "GroupingSets", operands=operands):
            return any(_means_places(one, below) for one in operands)
        case NamedCall(parts=("struct" | "named_struct",), operands=operands):
            return any(_means_places(one, below) for one in operands)
    return False
