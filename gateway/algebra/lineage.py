"""Column lineage: a domain of the algebra.

Of each column of a query it says which stored columns are in it, and in which ways; of the rows of each
relation, which conditions decide on them (`lineage_values`). What is written is in the statement's words.

It decides nothing, so it is lenient: a name that may be of several relations whose columns are not known
counts for each of them, and is noted in `guessed`. What it does not understand raises `Unclear`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from gateway.algebra.lineage_expressions import (
    LineageColumn,
    LineageColumns,
    LineageExpressions,
    LineageScope,
    fold_parts,
    rows_of,
    stand_for_others,
)
from gateway.algebra.lineage_functions import (
    is_aggregated,
)
from gateway.algebra.lineage_relations import (
    NULLS_KEPT_OUT,
    KeyPair,
    alias_columns,
    choose,
    join_condition,
    merge_keys,
    merge_sets,
    pivot_names,
    value_name,
    with_rows,
)
from gateway.algebra.lineage_values import (
    NO_SOURCES,
    TRANSFORMED,
    RelationRows,
    RowCondition,
    Value,
    add_conjunct,
    decide_by,
    group_by,
    merge_values,
)
from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    ColumnAliases,
    ConditionClause,
    Expression,
    Filter,
    Generate,
    InlineTable,
    Join,
    JoinKind,
    Literal,
    NamedCall,
    NamedColumn,
    NamedScan,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Pivot,
    Projection,
    RelationNode,
    SetKind,
    SetOperation,
    Star,
    TableFunction,
    Unpivot,
)
from gateway.algebra.scope import (
    AmbiguousName,
    FoundField,
    FoundName,
    NameAnswer,
    RelationColumn,
    RelationColumns,
    list_join_names,
    scope_of,
)
from gateway.algebra.spark import GROUPINGS
from gateway.algebra.usage import Unclear
from gateway.algebra.walking import nodes_of, parts_of
from gateway.model.lineage import Clause

_CLAUSES: Final = {
    ConditionClause.WHERE: Clause.WHERE,
    ConditionClause.HAVING: Clause.HAVING,
    ConditionClause.QUALIFY: Clause.QUALIFY,
}
_COMPARISONS: Final = frozenset("EqualTo GreaterThan GreaterThanOrEqual LessThan LessThanOrEqual Not".split())
_ALL: Final = "all"
_SELECT_LISTS = Projection | Aggregate


class LineageDomain(LineageExpressions):
    """Says what the columns of a text are made of while a `Resolver` goes through it."""

    def check_seen(self, relation: RelationNode) -> None:
        """Raise Unclear where a reference was not looked up."""
        for node in nodes_of(relation):
            if isinstance(node, NamedColumn) and id(node) not in self.seen:  # RULE (lineage-every-reference)
                raise Unclear(f"lineage did not come by `{'.'.join(node.parts)}`")

    def decide(
        self, relation: RelationNode, inputs: Sequence[LineageColumns], scope: LineageScope
    ) -> Sequence[LineageColumns]:
        self.groups = None
        below = [rows_of(one) for one in inputs]
        match relation:
            case Filter():
                here = self._scope_of_filter(relation, inputs[0], scope)
                rows = self.new_rows(relation, below)
                condition = self.lay_condition(rows, _CLAUSES[relation.clause], relation.conditions, here)
                if isinstance(relation.input, Unpivot):
                    for part in condition.parts:
                        part.by_row = False
            case Projection():
                self.extends = any(isinstance(one, Star) and one.implied for one in relation.items)
            case Aggregate():
                self._group(relation)
            case Pass(why=Passing.SORT):
                self._sort(relation, inputs[0], scope)
            case Pass(why=Passing.DISTINCT):
                written = "UNION" if isinstance(relation.input, SetOperation) else "DISTINCT"
                shown = merge_values(one.value for one in inputs[0].columns if one.bare)
                decide_by(self.new_rows(relation, below), Clause.GROUP_BY, written, shown)
                self._compare_once(relation.input)
            case Pass(why=Passing.LIMIT):
                for expression in relation.expressions:
                    self.resolver.value(expression, scope)
            case Pass():
                for expression in relation.expressions:
                    self.seen |= {id(one) for one in parts_of(expression)}
            case Join():
                self._join(relation, inputs[0], inputs[1], scope)
            case NamedScan() if not inputs:
                raise Unclear(f"`{'.'.join(relation.parts)}` reads itself")
            case Pivot():
                self._keep_grouping(relation, "PIVOT", relation.expressions)
            case OpaqueRelation(complete=False):  # RULE (lineage-known-relation)
                raise Unclear(f"lineage does not understand {relation.name or 'a relation'}")
        return inputs

    # What relations do.

    def _compare_once(self, relation: RelationNode) -> None:
        """Drop from a chain of UNIONs what compares the rows of the first ones: the last compares all."""
        while isinstance(relation, SetOperation) and relation.kind is SetKind.UNION:
            first = relation.inputs[0]
            if not isinstance(first, Pass) or first.why is not Passing.DISTINCT:
                return
            if not isinstance(first.input, SetOperation) or first.input.kind is not SetKind.UNION:
                return
            self._rows[id(first)].conditions.clear()
            relation = first.input

    def _scope_of_filter(self, relation: Filter, below: LineageColumns, scope: LineageScope) -> LineageScope:
        if relation.clause is ConditionClause.WHERE:
            return scope.over(below)
        return self._scope_of_shown(relation.input, below, scope)

    def _scope_of_shown(
        self, relation: RelationNode, shown: LineageColumns, scope: LineageScope, *, shown_first: bool = False
    ) -> LineageScope:
        """Return the scope above a select list: what it is made of, and what it shows."""
        while isinstance(relation, Pass) or (
            isinstance(relation, Filter) and relation.clause is not ConditionClause.WHERE
        ):
            relation = relation.input
        if not isinstance(relation, _SELECT_LISTS):
            return scope.over(shown)
        self.groups = self._groupings.get(id(relation))
        below = self.relation(relation.input, scope)
        return scope.over(shown, below) if shown_first else scope.over(below, shown)

    def lay_condition(
        self,
        rows: RelationRows,
        clause: Clause,
        conditions: Sequence[Expression],
        scope: LineageScope,
        rejects: Callable[[LineageColumn | None], bool] | None = None,
    ) -> RowCondition:
        """Lay a condition on rows. `rejects`: of a join, the columns whose NULLs it keeps out; of what else
        there is, these are all that it compares."""
        condition = RowCondition(clause, self.words(*conditions))
        for one in conditions:
            value = self.resolver.value(one, scope)
            add_conjunct(condition, rows, self.words(one), value, self._keys(one, scope, rejects))
        rows.conditions.append(condition)
        return condition

    def _keys(
        self,
        condition: Expression,
        scope: LineageScope,
        rejects: Callable[[LineageColumn | None], bool] | None,
    ) -> list[int]:
        """Return the columns that a condition compares, so that none of them is NULL where it holds."""
        if not isinstance(condition, Operator) or condition.name not in _COMPARISONS:
            return []
        sides = condition.operands
        if condition.name == "Not":
            (inner,) = sides
            if not isinstance(inner, Operator) or inner.name != "EqualTo":
                return []
            sides = inner.operands
        keys: list[int] = []
        for side in sides:
            if isinstance(side, NamedColumn):
                answer = self.answer_of(side, scope)
                found = answer.attribute if isinstance(answer, FoundName) else None
                if isinstance(answer, FoundField):
                    found = answer.attributes[0]
                if rejects is None or rejects(found):
                    keys += self.column(side, answer, scope).dependencies
        return keys

    def answer_of(self, column: NamedColumn, scope: LineageScope) -> NameAnswer[Value]:
        """Return what a reference means."""
        return scope.resolve(column.parts)

    def _keep_grouping(
        self, relation: RelationNode, keyword: str, keys: Sequence[Expression]
    ) -> RelationRows:
        grouping = RowCondition(Clause.GROUP_BY, self.words(*keys, keyword=keyword))
        return self._groupings.setdefault(id(relation), RelationRows(groups=grouping))

    def _group(self, relation: Aggregate) -> None:
        if relation.keys:
            self.groups = self._keep_grouping(relation, "GROUP BY", relation.keys)

    def _group_keys(
        self, relation: Aggregate, below: LineageColumns, shown: LineageColumns, scope: LineageScope
    ) -> list[Value]:
        """Return what groups are made by: a key may be a column of the select list, or a number of one."""
        here = scope.over(below, RelationColumns(tuple([one for one in shown.columns if one.name])))
        waiting, values = list(relation.keys)[::-1], list[Value]()
        listed = [one for one in shown.columns if one.bare]
        while waiting:
            key = waiting.pop()
            match key:
                case Operator(name=name) if name in GROUPINGS:
                    waiting += key.operands[::-1]
                case OpaqueExpression(place=int() as place):
                    values += [one.value for one in below.columns if one.bare][place - 1 : place]
                case _ if (of := _place(key, listed)) is not None:
                    values.append(of.value)
                case NamedColumn() if _means_all(key, here):
                    self.seen.add(id(key))
                    values += [one.value for one in listed if not is_aggregated(one.value)]
                case _:
                    values.append(self.resolver.value(key, here))
        return values

    def _sort(self, relation: Pass, below: LineageColumns, scope: LineageScope) -> None:
        rows = self.new_rows(relation, [rows_of(below)])
        shown = [one for one in below.columns if one.bare]
        values: list[Value] = []
        for key in relation.expressions:
            if (of := _place(key, shown)) is not None:
                values.append(of.value)
                continue
            is_bare = isinstance(key, NamedColumn) and len(key.parts) == 1
            here = self._scope_of_shown(relation.input, below, scope, shown_first=is_bare)
            if isinstance(key, NamedColumn) and _means_all(key, here):
                self.seen.add(id(key))
                values += [one.value for one in shown]
            else:
                values.append(self.resolver.value(key, here))
        decide_by(
            rows, Clause.SORT, self.words(*relation.expressions, keyword="ORDER BY"), merge_values(values)
        )

    def _join(self, join: Join, left: LineageColumns, right: LineageColumns, scope: LineageScope) -> None:
        rows = self.new_rows(join, [rows_of(left), rows_of(right)])
        of_left, of_right = NULLS_KEPT_OUT[join.kind]
        if join.natural and (left.open or right.open):
            raise Unclear("a natural join with unknown columns")
        names = [name.lower() for name in list_join_names(join, left, right)]
        if names:
            pairs = [KeyPair(name, *[self._key(name, side) for side in (left, right)]) for name in names]
            self._pairs[id(join)] = pairs
            rows.conditions.append(join_condition(pairs, of_left, of_right, natural=join.natural))
        if join.conditions:

            def rejects(column: LineageColumn | None) -> bool:
                if any(one is column for one in left.columns):
                    return of_left
                return of_right and (of_left or any(one is column for one in right.columns))

            condition = self.lay_condition(
                rows, Clause.JOIN, join.conditions, scope.over(left.beside(right)), rejects
            )
            if join.kind in (JoinKind.LEFT_OUTER, JoinKind.RIGHT_OUTER, JoinKind.FULL_OUTER):
                # Its condition alone drops no row of the side that is kept.
                for part in condition.parts:
                    part.by_row = part.by_row and len(part.not_null) > 0

    def _key(self, name: str, side: LineageColumns) -> Value:
        found = side.find_columns((name,))
        value = self.pick_column(found, (name,)) if found else self.guess_column((name,), scope_of(side))
        if value is None:
            raise Unclear(f"`{name}` is not in any relation in scope")
        return value

    # What they have.

    def complete(
        self,
        relation: RelationNode,
        inputs: Sequence[LineageColumns],
        found: LineageColumns,
        scope: LineageScope,
    ) -> LineageColumns:
        """Return the columns of a relation, and its rows."""
        rows = self._rows.get(id(relation))
        if rows is None and inputs:
            rows = rows_of(inputs[0]) if len(inputs) == 1 else self.new_rows(relation, map(rows_of, inputs))
        match relation:
            case NamedScan() if found.rows is not None:
                return found  # a common table expression
            case Aggregate():
                values = self._group_keys(relation, inputs[0], found, scope)
                groups = self._groupings.get(id(relation))
                if groups is not None and groups.groups is not None:
                    rows = self.new_rows(relation, [rows_of(inputs[0])])
                    group_by(rows, groups.groups, merge_values(values))
            case Join() if id(relation) in self._pairs:
                found = merge_keys(found, self._pairs[id(relation)], relation.kind)
            case SetOperation():
                found, rows = self._merge_sides(relation, inputs, found)
            case ColumnAliases():
                found = alias_columns(relation.names, inputs[0])
            case InlineTable():
                found = self._fill(relation, scope)
            case Generate():
                found, rows = self._generate_beside(relation, inputs[0], scope)
            case TableFunction():
                found, rows = self._call_table(relation, scope)
            case Pivot():
                found, rows = self._pivot(relation, inputs[0], scope)
            case Unpivot():
                found = self._unpivot(relation, inputs[0], scope)
            case OpaqueRelation():
                whole = merge_values([one.value for side in inputs for one in side.columns], TRANSFORMED)
                found = RelationColumns((stand_for_others(whole),))
        return with_rows(found, rows or RelationRows())

    def _merge_sides(
        self, relation: SetOperation, inputs: Sequence[LineageColumns], found: LineageColumns
    ) -> tuple[LineageColumns, RelationRows]:
        rows = self.new_rows(relation, [rows_of(one) for one in inputs])
        found = merge_sets(relation, inputs, found)
        self.source.spend(sum([len(one.value.dependencies) for side in inputs for one in side.columns]))
        if relation.kind is not SetKind.UNION:
            # Rows of the left side are kept or not as the right side has them: a semi or an anti join.
            compared = merge_values([one.value for side in inputs for one in side.columns if one.bare])
            decide_by(rows, Clause.JOIN, relation.kind.value.upper(), compared)
        return found, rows

    def _fill(self, relation: InlineTable, scope: LineageScope) -> LineageColumns:
        values = [self.resolver.value(one, scope) for one in relation.expressions]
        width = len(relation.names)
        columns = [
            RelationColumn(name.lower(), merge_values(values[place::width]))
            for place, name in enumerate(relation.names)
        ]
        return RelationColumns(tuple(columns))

    def _generate_beside(
        self, relation: Generate, below: LineageColumns, scope: LineageScope
    ) -> tuple[LineageColumns, RelationRows]:
        here = scope.over(below)
        call = relation.generator
        whole = replace(self.resolver.value(call, here), written=(self.words(call),))
        made = self.generate_columns(call, whole, here) if isinstance(call, NamedCall) else None
        columns = made or [stand_for_others(whole)]
        if relation.names:
            columns = list(alias_columns(relation.names, RelationColumns(tuple(columns))).columns)
        qualifiers = frozenset({(relation.alias.lower(),)})
        beside = RelationColumns(tuple([one._replace(qualifiers=qualifiers) for one in columns]))
        parents = [rows_of(below), *whole.rows]
        return with_rows(below.beside(beside), RelationRows()), self.new_rows(relation, parents)

    def _call_table(
        self, relation: TableFunction, scope: LineageScope
    ) -> tuple[LineageColumns, RelationRows]:
        call = NamedCall(relation.parts, relation.expressions, span=relation.span)
        value = self.resolver.value(call, scope)
        whole = replace(value, written=(self.words(*relation.expressions),))
        columns = self.generate_columns(call, whole, scope) or [stand_for_others(whole)]
        qualifiers = frozenset({(relation.parts[-1].lower(),)})
        shown = tuple([one._replace(qualifiers=qualifiers) for one in columns])
        return RelationColumns(shown), self.new_rows(relation, whole.rows)

    def _pivot(
        self, relation: Pivot, below: LineageColumns, scope: LineageScope
    ) -> tuple[LineageColumns, RelationRows]:
        """Group by what is not named, and compute each aggregate for each value of the pivot's column."""
        here = scope.over(below)
        groups = self._groupings[id(relation)]
        self.groups = groups
        made = [self.item(one, self.resolver.value(one, here)) for one in relation.aggregates]
        names = [
            one.name.lower()
            if isinstance(one, Alias)
            else self.name_item(one, here) or value_name(one, self.text)
            for one in relation.aggregates
        ]
        self.groups = None
        chosen = self.sum_up([(self.resolver.value(relation.column, here), TRANSFORMED)])
        used = _columns_in((relation.column, *relation.aggregates), here)
        values = [choose(value, chosen) for _ in relation.values for value in made]
        columns = [
            RelationColumn(name, value)
            for name, value in zip(pivot_names(relation.values, names, self.text), values, strict=True)
        ]
        self.seen |= {id(one) for value in relation.values for one in parts_of(value)}
        rows = self.new_rows(relation, [rows_of(below)])
        kept = [one for one in below.columns if one.bare and not any(one is its for its in used)]
        if groups.groups is not None:
            group_by(rows, groups.groups, merge_values([*[one.value for one in kept], chosen]))
        return RelationColumns((*kept, *columns)), rows

    def _unpivot(self, relation: Unpivot, below: LineageColumns, scope: LineageScope) -> LineageColumns:
        """Keep what is not named; the columns that are named become rows."""
        if any(one.value.unlisted for one in below.columns):
            raise Unclear("an UNPIVOT of unknown columns")
        here = scope.over(below)
        used = _columns_in(relation.expressions, here)
        values = [[self.resolver.value(one, here) for one in row] for row in relation.values]
        made = [
            RelationColumn(name.lower(), merge_values([row[place] for row in values]))
            for place, name in enumerate(relation.names)
        ]
        kept = [one for one in below.columns if one.bare and not any(one is its for its in used)]
        return RelationColumns((*kept, RelationColumn(relation.variable.lower(), NO_SOURCES), *made))


def _place(key: Expression, shown: Sequence[LineageColumn]) -> LineageColumn | None:
    """Return the column of a select list that a key names by its number."""
    if isinstance(key, Literal) and key.type == "int" and (key.value or "").isdigit():
        place = int(key.value or "")
        if 0 < place <= len(shown):
            return shown[place - 1]
    return None


def _means_all(key: NamedColumn, scope: LineageScope) -> bool:
    """Whether a key is ALL."""
    if fold_parts(key.parts) != (_ALL,):
        return False
    return not any(tier.find_columns((_ALL,)) for tiers in scope.levels[:1] for tier in tiers)


def _columns_in(expressions: Iterable[Expression], scope: LineageScope) -> list[LineageColumn]:
    """Return the columns that expressions refer to."""
    answers = [
        scope.resolve(part.parts)
        for one in expressions
        for part in parts_of(one)
        if isinstance(part, NamedColumn)
    ]
    found: list[LineageColumn] = []
    for answer in answers:
        match answer:
            case FoundName():
                found.append(answer.attribute)
            case AmbiguousName() | FoundField():
                found += answer.attributes
    return found
