"""UPDATE, DELETE and MERGE: which columns of the target they set to what, and by which conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.algebra.lineage import LineageDomain
from gateway.algebra.lineage_expressions import LineageColumns, LineageScope, find_unlisted, rows_of
from gateway.algebra.lineage_values import NO_SOURCES, RelationRows, Value
from gateway.algebra.nodes import Expression, NamedColumn, OpaqueExpression, OpaqueRelation, RelationNode
from gateway.algebra.scope import FoundField, FoundName, scope_of
from gateway.algebra.spark import BY_SOURCE, conjuncts
from gateway.algebra.usage import Unclear
from gateway.model.lineage import ANY_COLUMN, Clause, Operation
from gateway.sql.lineage_edges import TargetValue
from gateway.sql.lineage_writes import Assigned, Write

_NODES = {
    "UpdateTable": Operation.UPDATE,
    "DeleteFromTable": Operation.DELETE,
    "MergeIntoTable": Operation.MERGE,
}


def trace_changes(
    domain: LineageDomain, command: RelationNode, write: Write, scope: LineageScope
) -> tuple[list[TargetValue], RelationRows]:
    """Return the columns that a command sets, with the rows that it does so in."""
    if not isinstance(command, OpaqueRelation) or _NODES.get(command.name) is not write.operation:
        raise Unclear(f"lineage does not understand {type(command).__name__}")
    target = domain.relation(command.inputs[0], scope)
    if write.operation is Operation.MERGE:
        return _Merge(domain, command, write, scope, target).trace_changes()
    rows = RelationRows(parents=[rows_of(target)])
    assignments, conditions = _split(command.expressions)
    place = scope.over(target)
    if conditions:
        domain.lay_condition(rows, Clause.WHERE, tuple(conjuncts(conditions)), place)
    if write.operation is Operation.DELETE:
        return _every_column(write, target), rows
    assigned = Assigned(write.dataset)
    for assignment in assignments:
        assigned.add(*_assign(domain, assignment, target, place))
    return assigned.targets(), rows


def trace_replace_where(
    domain: LineageDomain,
    target: RelationNode,
    conditions: Sequence[Expression],
    rows: RelationRows,
    scope: LineageScope,
) -> RelationRows:
    """Return the rows that REPLACE WHERE writes: its condition on the target's decides on them, too."""
    found = RelationRows(parents=[rows])
    place = scope.over(domain.relation(target, scope))
    domain.lay_condition(found, Clause.WHERE, tuple(conjuncts(conditions)), place)
    return found


def _every_column(write: Write, target: LineageColumns) -> list[TargetValue]:
    assigned = Assigned(write.dataset)
    for one in target.columns:
        assigned.add(one.name or ANY_COLUMN, NO_SOURCES)
    return assigned.targets()


def _split(
    expressions: Sequence[Expression],
) -> tuple[list[OpaqueExpression], list[Expression]]:
    """Return assignments, and the condition that stands beside them."""
    assignments = [
        one for one in expressions if isinstance(one, OpaqueExpression) and one.name == "Assignment"
    ]
    return assignments, [one for one in expressions if not any(one is its for its in assignments)]


def _assign(
    domain: LineageDomain, assignment: OpaqueExpression, target: LineageColumns, place: LineageScope
) -> tuple[str, Value]:
    """Return the column that an assignment is to, and what it gets; `s.f = …` changes the column s."""
    key, value = assignment.operands
    if not isinstance(key, NamedColumn):
        raise Unclear("lineage does not understand an assignment")
    domain.seen.add(id(key))
    parts = tuple([part.lower() for part in key.parts])
    answer = scope_of(target).resolve(key.parts)
    match answer:
        case FoundName():
            name = answer.attribute.name
        case FoundField():
            name = answer.attributes[0].name
        case _:
            unlisted, at = find_unlisted(parts, scope_of(target))
            if not unlisted:
                raise Unclear(f"`{'.'.join(parts)}` is not a column of the target")
            name = parts[at]
    if isinstance(value, NamedColumn) and [part.lower() for part in value.parts] == ["default"]:
        domain.seen.add(id(value))
        return name, NO_SOURCES
    return name, domain.item(value, domain.resolver.value(value, place))


@dataclass(slots=True)
class _Merge:
    """A MERGE: actions on rows of the target, of the source, or of both."""

    domain: LineageDomain
    command: OpaqueRelation
    write: Write
    scope: LineageScope
    target: LineageColumns

    def trace_changes(self) -> tuple[list[TargetValue], RelationRows]:
        source = self.domain.relation(self.command.inputs[1], self.scope)
        both = self.scope.over(self.target.beside(source))
        rows = RelationRows(parents=[rows_of(self.target), rows_of(source)])
        on, *actions = self.command.expressions
        self.domain.lay_condition(rows, Clause.MERGE, tuple(conjuncts((on,))), both)
        assigned = Assigned(self.write.dataset)
        for action in actions:
            if not isinstance(action, OpaqueExpression):
                raise Unclear("lineage does not understand an action of MERGE")
            name = action.name.removesuffix(BY_SOURCE)
            place = both
            if name.startswith("Insert"):
                place = self.scope.over(source)
            elif name != action.name:
                place = self.scope.over(self.target)
            assignments, conditions = _split(action.operands)
            own = RelationRows()
            if conditions:
                self.domain.lay_condition(own, Clause.MERGE, tuple(conjuncts(conditions)), place)
            match name:
                case "UpdateAction" | "InsertAction":
                    values = [_assign(self.domain, one, self.target, place) for one in assignments]
                case "UpdateStarAction" | "InsertStarAction":
                    values = list(self._same_names(source))
                case "DeleteAction":
                    # Rows are gone: what decides that bears on every column.
                    rows.conditions += own.conditions
                    rows.parents += own.parents
                    own = RelationRows()
                    values = [
                        (vertex.column, value) for vertex, value in _every_column(self.write, self.target)
                    ]
                case _:
                    raise Unclear(f"lineage does not understand the action {name} of MERGE")
            for column, value in values:
                assigned.add(column, with_rows(value, own))
        return assigned.targets(), rows

    def _same_names(self, source: LineageColumns) -> Iterator[tuple[str, Value]]:
        """Yield for every column of the target what the source has by its name."""
        if any(one.value.unlisted for one in self.target.columns):
            for one in source.columns:
                if one.bare:
                    yield one.name or ANY_COLUMN, one.value
            return
        for one in self.target.columns:
            found = source.find_columns((one.name,))
            unlisted, _ = find_unlisted((one.name,), scope_of(source))
            if found:
                yield one.name, found[0].value
            elif unlisted:
                yield one.name, unlisted[0](one.name)


def with_rows(value: Value, own: RelationRows) -> Value:
    """Return a value with what decides on it alone."""
    return replace(value, rows=(*value.rows, own)) if own.conditions or own.parents else value
