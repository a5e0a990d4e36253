"""Set operations: UNION by position or by name, EXCEPT and INTERSECT."""

from __future__ import annotations

from dataclasses import replace

from gateway.algebra.lineage_values import (
    AttributeDependencies,
    ConditionPart,
    RelationRows,
    RowCondition,
    Value,
    merge_values,
)
from gateway.algebra.usage import Unclear
from gateway.model.lineage import Clause
from gateway.sql.lineage_scope import (
    Attribute,
    LineageRelation,
)


class _UnionColumn:
    """A column of a chain of UNIONs as it grows; copying it at each branch would cost the square."""

    __slots__ = ("dependencies", "name", "rows", "type", "written")

    def __init__(self, attribute: Attribute) -> None:
        value = attribute.value
        self.name = attribute.name
        self.type = value.type
        self.dependencies: AttributeDependencies = dict(value.dependencies)
        self.rows: dict[int, RelationRows] = {id(rows): rows for rows in value.rows}
        self.written: dict[object, None] = dict.fromkeys(value.written)

    def add(self, value: Value) -> int:
        for key, bits in value.dependencies.items():
            self.dependencies[key] = self.dependencies.get(key, 0) | bits
        self.rows.update((id(rows), rows) for rows in value.rows)
        self.written.update(dict.fromkeys(value.written))
        return 1 + len(value.dependencies)

    def attribute(self) -> Attribute:
        value = Value(self.dependencies, tuple(self.rows.values()), tuple(self.written), self.type)
        return Attribute(self.name, value)


class Branches:
    """What a chain of set operations gives so far."""

    def __init__(self, first: LineageRelation) -> None:
        self._columns = [_UnionColumn(a) for a in first.attributes if not a.hidden]
        self._rows = RelationRows(parents=[first.rows])
        self._opens = list(first.opens)
        self._distinct = False
        self.cost = 0
        """Column dependencies copied by the last `add()`; the caller charges them to its work budget."""

    def add(self, kind: str, right: LineageRelation, *, distinct: bool, by_name: bool) -> None:
        """Add the right side of an operation: of a UNION, EXCEPT or INTERSECT."""
        self.cost = 0
        values = self._match_columns(right, by_name=by_name)
        if kind == "UNION":
            for column, value in values:
                self.cost += column.add(value)
            self._rows.parents.append(right.rows)
            self._opens += right.opens
            self._distinct = distinct
            return
        # Rows of the left side are kept or not as the right side has them: a semi or an anti join.
        self._settle()
        compared = merge_values(
            value for column, value in values for value in (column.attribute().value, value)
        )
        self.cost += len(compared.dependencies)
        self._rows = RelationRows(
            [RowCondition(Clause.JOIN, kind, [ConditionPart(kind, compared.dependencies, by_row=False)])],
            [self._rows, right.rows, *compared.rows],
        )

    def _match_columns(self, right: LineageRelation, *, by_name: bool) -> list[tuple[_UnionColumn, Value]]:
        theirs = [a for a in right.attributes if not a.hidden]
        if by_name:
            return self._by_name(theirs)
        if len(theirs) == len(self._columns):
            return [(column, a.value) for column, a in zip(self._columns, theirs, strict=True)]
        if not (self._opens or right.opens):
            raise Unclear("the columns of a set operation cannot be matched")
        # Somewhere a star stands for columns that nobody knows: whatever is there may be in any column.
        whole = merge_values(a.value for a in theirs)
        return [(column, whole) for column in self._columns]

    def _by_name(self, theirs: list[Attribute]) -> list[tuple[_UnionColumn, Value]]:
        mine = {column.name: column for column in self._columns}
        found = []
        for attribute in theirs:
            column = mine.get(attribute.name)
            if column is None:
                column = _UnionColumn(attribute)
                self._columns.append(column)
                mine[attribute.name] = column
            found.append((column, attribute.value))
        return found

    def _settle(self) -> None:
        """Lay the comparison of a distinct UNION on its rows."""
        if self._distinct:
            compared = merge_values(column.attribute().value for column in self._columns)
            part = ConditionPart("UNION", compared.dependencies, by_row=False)
            self._rows.conditions.append(RowCondition(Clause.GROUP_BY, "UNION", [part]))
            self._rows.parents += compared.rows
        self._distinct = False

    def relation(self) -> LineageRelation:
        self._settle()
        attributes = [column.attribute() for column in self._columns]
        return LineageRelation(attributes, self._rows, [replace(o, qualifier=()) for o in self._opens])
