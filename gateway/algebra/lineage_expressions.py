"""What expressions of a query are made of: the half of the domain of lineage that is about values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, cast

from gateway.algebra.lineage_functions import (
    GROUPING,
    KEPT,
    list_fields,
    list_generated,
    struct_type,
    sum_values,
    type_made,
    uses_of,
)
from gateway.algebra.lineage_names import ColumnNames, ShownName, name_column
from gateway.algebra.lineage_relations import (
    KeyPair,
)
from gateway.algebra.lineage_values import (
    NO_SOURCES,
    TRANSFORMED,
    WINDOWED,
    ConditionPart,
    OperandUse,
    RelationRows,
    RowCondition,
    Value,
    merge_values,
)
from gateway.algebra.lineage_words import WrittenWords, hull
from gateway.algebra.nodes import (
    Alias,
    Aliases,
    Expression,
    Lambda,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OpaqueExpression,
    Operator,
    QueryKind,
    RelationNode,
    Star,
    Subquery,
    WindowCall,
)
from gateway.algebra.resolve import Resolver
from gateway.algebra.scope import (
    FoundField,
    NameAnswer,
    NameScope,
    OpenName,
    RelationColumn,
    RelationColumns,
    list_meant,
)
from gateway.algebra.types_in_ddl import element_type, field_type, struct_fields
from gateway.algebra.usage import Parts, Unclear, is_literal
from gateway.algebra.walking import infer_name
from gateway.model.lineage import ANY_COLUMN, Clause
from gateway.model.reading import Span, UnnamedColumn

LineageColumn = RelationColumn[Value]
LineageColumns = RelationColumns[Value]
LineageScope = NameScope[Value]

MAX_STEPS: Final = 3_000_000
"""Columns and expressions that are looked at, a few seconds of it: nobody waits for lineage."""

_CALLED_SO: Final = frozenset({"current_date", "current_user", "current_timestamp", "localtimestamp"})
"""Functions without brackets that Spark calls the same with them, in all its versions."""


class LineageSource(Protocol):
    """Where the values of a statement come from."""

    def scan(self, scan: NamedScan) -> LineageColumns:
        """Return a relation that is stored; the same one when it is asked again. A column that stands for
        others whose names are not known has these in its value."""

    def name_function(self, parts: tuple[str, ...]) -> str:
        """Return the lower-case name of a built-in function, empty for any other."""

    def is_aggregate(self, name: str) -> bool:
        """Whether a built-in function is an aggregate."""

    def spend(self, work: int) -> None:
        """Count work; raise Unclear when it is too much."""


@dataclass(slots=True)
class LineageExpressions(ABC):
    """Says what expressions are made of while a `Resolver` goes through a text."""

    source: LineageSource
    text: str = ""
    """What the places of expressions are in."""
    ctes: frozenset[Span] = frozenset()
    names: Sequence[UnnamedColumn] = ()
    """What Spark calls the columns that have no alias, as far as that is known."""
    full_names: dict[Span, Parts] = field(default_factory=dict)
    """What stored relations are called in full, by their places."""
    guessed: dict[str, None] = field(default_factory=dict)
    seen: set[int] = field(default_factory=set)
    """The identities of the references that were looked up."""
    groups: RelationRows | None = None
    """Over what an aggregate is computed at present."""
    extends: bool = False
    """Whether a select list is that of `|> EXTEND`, where Spark calls a field by its whole name."""
    resolver: Resolver[Value] = field(init=False)
    _column_names: ColumnNames = field(init=False)
    _rows: dict[int, RelationRows] = field(default_factory=dict)
    """Of a relation or a window, by its identity: what reads itself is gone through several times."""
    _groupings: dict[int, RelationRows] = field(default_factory=dict)
    _pairs: dict[int, list[KeyPair]] = field(default_factory=dict)
    """Of joins by columns of one name: these."""

    def __post_init__(self) -> None:
        self._column_names = ColumnNames(self.names)
        self.resolver = Resolver(
            self,
            self.ctes,
            recursion=True,
            full_names=self.full_names,
            unnamed=self._show_unnamed,
            complete=self.complete,
            again=self._go_around,
            max_steps=MAX_STEPS,
        )

    def relation(self, relation: RelationNode, scope: LineageScope | None = None) -> LineageColumns:
        """Return what a relation shows; `rows_of` says what decides on its rows."""
        return self.resolver.relation(relation, scope or NameScope())

    # What the resolver asks.

    def scan(self, scan: NamedScan) -> Iterable[tuple[str, Value]] | None:
        stored = self.source.scan(scan)
        self._rows[id(scan)] = rows_of(stored)
        return [(one.name, one.value) for one in stored.columns if one.bare]

    def column(self, column: NamedColumn, answer: NameAnswer[Value], scope: LineageScope) -> Value:
        self.seen.add(id(column))
        return self._value_of(fold_parts(column.parts), answer, scope)

    def _value_of(self, parts: Parts, answer: NameAnswer[Value], scope: LineageScope) -> Value:
        """Return what a reference, lower case, is worth."""
        found, fields = list_meant(answer)
        if found:
            value = self.pick_column(found, parts)
            return value.take_field(fold_parts(fields), ".".join(parts)) if fields else value
        guess = self.guess_column(parts, scope)
        if guess is not None:
            return guess
        if is_literal(parts):
            return NO_SOURCES
        raise Unclear(f"`{'.'.join(parts)}` is not in any relation in scope")

    def compute(self, expression: Expression, operands: Sequence[Value]) -> Value:
        match expression:
            case Alias() | Aliases() | Lambda():
                return operands[0]
            case Literal():
                return NO_SOURCES
            case OpaqueExpression(name="NamedArgumentExpression"):
                return operands[0]
            case OpaqueExpression() if expression.relations:
                raise Unclear(f"lineage does not understand {expression.name or 'an expression'}")
            case Operator(name="UnresolvedExtractValue"):
                return self._extract(expression, operands)
            case WindowCall():
                return self._compute_window(expression, operands)
        return self._compute(expression, operands, windowed=False)

    def query(self, query: Subquery, scope: LineageScope) -> Value:
        groups, extends = self.groups, self.extends
        relation = self.relation(query.relation, scope)
        self.groups, self.extends = groups, extends
        if query.kind is QueryKind.EXISTS:  # it looks at rows, whatever columns they have
            return Value({}, (rows_of(relation),))
        values = [self.resolver.value(one, scope) for one in query.values]
        values += [one.value for one in relation.columns if one.bare]
        found = self.sum_up([(value, TRANSFORMED) for value in values])
        return replace(found, rows=tuple(dict.fromkeys((rows_of(relation), *found.rows))))

    def expand(
        self, star: Star, shown: Sequence[LineageColumn], scope: LineageScope
    ) -> Sequence[LineageColumn]:
        if star.replaced and any(one.value.unlisted for one in shown):
            there = {one.name for one in shown}
            instead = zip(star.excluded, star.replaced, strict=True)
            made = [(parts[-1], self.resolver.value(one, scope)) for parts, one in instead]
            return [*shown, *[RelationColumn(name, value) for name, value in made if name not in there]]
        if shown or not star.qualifier:
            return shown
        parts = fold_parts(star.qualifier)
        value = self._value_of(parts, scope.resolve(parts), scope)
        fields = struct_fields(value.type)
        if fields is None:
            return [stand_for_others(value.as_operand(TRANSFORMED))]
        return [
            RelationColumn(name, value.take_field((name,), f"{parts[-1]}.{name}"))
            for name in fields
            if (name,) not in star.excluded
        ]

    def star(self, star: Star, shown: Sequence[LineageColumn], scope: LineageScope) -> Value:
        if not shown:
            shown = self.expand(star, shown, scope)
        found = self.sum_up([(one.value, TRANSFORMED) for one in shown])
        return replace(found, fields={one.name: one.value for one in shown})

    def variable(self) -> Value:
        return NO_SOURCES

    def item(self, item: Expression, value: Value) -> Value:
        while isinstance(item, Alias | Aliases):
            item = item.operand
        return value if isinstance(item, NamedColumn) else replace(value, written=(self.words(item),))

    def merge(self, values: Sequence[Value]) -> Value:
        return values[0] if len(values) == 1 else replace(merge_values(values), type=values[0].type)

    @abstractmethod
    def decide(
        self, relation: RelationNode, inputs: Sequence[LineageColumns], scope: LineageScope
    ) -> Sequence[LineageColumns]:
        """Look at what a relation does with its inputs."""

    @abstractmethod
    def complete(
        self,
        relation: RelationNode,
        inputs: Sequence[LineageColumns],
        found: LineageColumns,
        scope: LineageScope,
    ) -> LineageColumns:
        """Return the columns of a relation, and its rows."""

    # Values.

    def words(self, *expressions: Expression, keyword: str = "") -> WrittenWords:
        return WrittenWords(expressions, self.text, keyword)

    def sum_up(self, operands: Sequence[tuple[Value, OperandUse]]) -> Value:
        self.source.spend(1 + sum([len(value.dependencies) for value, _ in operands]))
        return sum_values(operands)

    def _compute(self, expression: Expression, operands: Sequence[Value], *, windowed: bool) -> Value:
        name = self.source.name_function(expression.parts) if isinstance(expression, NamedCall) else ""
        if name in GROUPING:
            return Value({}, () if self.groups is None else (self.groups,))
        aggregates = bool(name) and self.source.is_aggregate(name)
        uses = uses_of(expression, name, aggregates=aggregates)
        found = self.sum_up(list(zip(operands, uses, strict=True)))
        if aggregates and not windowed and self.groups is not None:
            found = replace(found, rows=tuple(dict.fromkeys((*found.rows, self.groups))))
        fields = list_fields(expression, name, operands)
        if fields is not None:  # RULE (lineage-struct-fields)
            return replace(found, fields=fields, type=struct_type(fields))
        type_ = type_made(expression, name, operands)
        return replace(found, type=type_) if type_ else found

    def _extract(self, expression: Operator, operands: Sequence[Value]) -> Value:
        key = expression.operands[1]
        if isinstance(key, Literal) and key.type == "string" and key.value is not None:
            return operands[0].take_field((key.value.lower(),), "")
        found = self.sum_up([(one, TRANSFORMED) for one in operands])
        of = operands[0].type
        return replace(found, type=element_type(of) or field_type(of, ""))

    def _compute_window(self, expression: WindowCall, operands: Sequence[Value]) -> Value:
        count = len(expression.function.operands)
        value = self._compute(expression.function, operands[:count], windowed=True)
        keys = self.sum_up([(one, TRANSFORMED) for one in operands[count:]])
        if not keys.dependencies:
            return replace(value, rows=tuple(dict.fromkeys((*value.rows, *keys.rows))))
        # INVARIANT (bearing): rows that decide on one value only hang on the value, not on its query.
        words = self.words(expression)
        part = ConditionPart(words, keys.dependencies, by_row=False)
        rows = self.new_rows(expression, keys.rows)
        rows.conditions = [RowCondition(Clause.WINDOW, words, [part])]
        found = self.sum_up([(value, KEPT), (keys, WINDOWED)])
        return replace(found, rows=tuple(dict.fromkeys((*found.rows, rows))), type=value.type)

    @staticmethod
    def _go_around(columns: LineageColumns) -> LineageColumns:
        """Return what a relation that reads itself has of the rounds before: no rows that are stored."""
        rows = rows_of(columns)
        again = [
            one._replace(value=replace(one.value, rows=(*one.value.rows, rows))) for one in columns.columns
        ]
        return replace(columns, columns=tuple(again))

    # Names.

    def pick_column(self, found: Sequence[LineageColumn], parts: Parts) -> Value:
        value = found[0].value
        if len(found) > 1:
            if any(one.value is not value for one in found):
                self.guessed[".".join(parts)] = None
            value = merge_values(one.value for one in found)
        return replace(value, unlisted=()) if value.unlisted else value

    def guess_column(self, parts: Parts, scope: LineageScope) -> Value | None:
        """Look among the relations whose columns are not known, those of the innermost query first, and among
        columns whose names Spark makes up and nobody knows here."""
        unlisted, place = find_unlisted(parts, scope)
        if unlisted:
            if len(unlisted) > 1:
                self.guessed[".".join(parts)] = None
            value = merge_values(one(parts[place]) for one in unlisted)
            return value.as_operand(TRANSFORMED, (".".join(parts),)) if place + 1 < len(parts) else value
        for tiers in () if is_literal(parts) else scope.levels:
            nameless = [one.value for tier in tiers for one in tier.columns if not one.name]
            if nameless:
                if len(nameless) > 1:
                    self.guessed[".".join(parts)] = None
                return merge_values(nameless)
        return None

    def _show_unnamed(
        self, item: Expression, value: Value, scope: LineageScope
    ) -> Sequence[LineageColumn] | None:
        if isinstance(item, NamedColumn):
            word = item.parts[0].lower()
            if len(item.parts) == 1 and is_literal((word,)) and value is NO_SOURCES:
                return [RelationColumn(f"{word}()" if word in _CALLED_SO else "", value)]
            answer = scope.resolve(item.parts) if self.extends and len(item.parts) > 1 else None
            is_open = isinstance(answer, OpenName) and not scope.has_qualifier(item.parts)
            if is_open or isinstance(answer, FoundField):
                return [RelationColumn(".".join(fold_parts(item.parts)), value)]
            return None
        if isinstance(item, OpaqueExpression) and item.place is not None:
            shown = [one for one in scope.levels[0][0].columns if one.bare]
            return [shown[item.place - 1]] if 0 < item.place <= len(shown) else None
        if isinstance(item, NamedCall) and (many := self.generate_columns(item, value, scope)) is not None:
            return many
        return [RelationColumn(self.name_item(item, scope), value)]

    def name_item(self, item: Expression, scope: LineageScope) -> str:
        """Return what Spark calls the column of an item without an alias, empty where that is not known."""
        column = self._column_names.find(hull(item))
        if column is None and isinstance(item, Literal):
            return infer_name(item)
        return "" if column is None else name_column(column, lambda parts: _mean(parts, scope)) or ""

    def generate_columns(
        self, call: NamedCall, whole: Value, scope: LineageScope
    ) -> list[LineageColumn] | None:
        """Return the columns of a generator or a table function."""
        values = [self.resolver.value(one, scope) for one in call.operands]
        made = list_generated(self.source.name_function(call.parts), call.operands, values, whole)
        if made is None:
            return None
        columns = [RelationColumn(name, value) for name, value in made.columns]
        if made.others and columns:
            columns[-1] = columns[-1]._replace(value=with_others(columns[-1].value, whole))
        return columns or [stand_for_others(whole)]

    def new_rows(self, node: RelationNode | Expression, parents: Iterable[RelationRows]) -> RelationRows:
        rows = self._rows.setdefault(id(node), RelationRows())
        rows.conditions, rows.parents = [], list(parents)
        return rows


def rows_of(columns: LineageColumns) -> RelationRows:
    """Return what decides on the rows that columns are in."""
    return cast(RelationRows, columns.rows) if columns.rows is not None else RelationRows()


def store_columns(columns: Iterable[tuple[str, Value]], rows: RelationRows | None = None) -> LineageColumns:
    """Return a relation that is read, by the names and the values of its columns."""
    made = tuple([RelationColumn(name, value) for name, value in columns])
    return RelationColumns(made, rows=rows or RelationRows())


def find_unlisted(parts: Parts, scope: LineageScope) -> tuple[list[Callable[[str], Value]], int]:
    """Return the relations of unknown columns that may have a reference, and which of its parts is the
    column's name then."""
    for tiers in scope.levels:
        found = [one for tier in tiers for one in tier.columns if one.value.unlisted]
        for length in range(len(parts) - 1, 0, -1):
            named = [one for one in found if parts[:length] in one.qualifiers]
            if named:
                return _list_unlisted(named), length
        if found:
            return _list_unlisted(found), 0
    return [], 0


def _list_unlisted(columns: Iterable[LineageColumn]) -> list[Callable[[str], Value]]:
    return list(dict.fromkeys(one for column in columns for one in column.value.unlisted))


def show_meant(answer: NameAnswer[Value]) -> ShownName | None:
    """Return the type, and the name with its fields, of the first column that a reference may mean."""
    found, fields = list_meant(answer)
    return (found[0].value.type, (found[0].name, *fold_parts(fields))) if found else None


def _mean(parts: Parts, scope: LineageScope) -> ShownName | None:
    shown = show_meant(scope.resolve(parts))
    if shown is not None:
        return shown
    unlisted, place = find_unlisted(parts, scope)
    return ("", parts[place:]) if unlisted and not is_literal(parts) else None


def fold_parts(parts: Iterable[str]) -> Parts:
    return tuple([part.lower() for part in parts])


def stand_for_others(value: Value) -> LineageColumn:
    """Return a column that stands for others, of which only this is known: each is made of a value."""
    return RelationColumn(ANY_COLUMN, with_others(value, value))


def with_others(value: Value, whole: Value) -> Value:
    """Return a column that stands for others as well, each of which is made of `whole`."""
    return replace(value, unlisted=(*value.unlisted, lambda _: whole))
