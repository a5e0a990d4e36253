"""UPDATE, DELETE and MERGE: which columns of the target they set to what, and by which conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from gateway.algebra.usage import Unclear
from gateway.model.lineage import ANY_COLUMN, Clause, Operation
from gateway.sql.analyse_tree import NOT_UNDERSTOOD, fold_identifier, parts_of, reject_unread_parts
from gateway.sql.lineage_edges import TargetValue
from gateway.sql.lineage_expressions import Ctes
from gateway.sql.lineage_references import References
from gateway.sql.lineage_scope import (
    NO_DEPENDENCIES,
    Environment,
    Frame,
    LineageRelation,
    RelationRows,
    Value,
)
from gateway.sql.lineage_walk import SqlLineageWalk
from gateway.sql.lineage_writes import Assigned, Write

_UPDATE_PARTS = frozenset({"with_", "this", "expressions", "where"})
_DELETE_PARTS = frozenset({"with_", "this", "where"})
_MERGE_PARTS = frozenset({"with_", "this", "using", "on", "whens"})
_WHEN_PARTS = frozenset({"matched", "source", "condition", "then"})


def trace_changes(
    walk: SqlLineageWalk, tree: exp.Expr, write: Write
) -> tuple[list[TargetValue], RelationRows]:
    """Return the columns that a command sets, with the rows that it does so in."""
    ctes = walk.with_(tree.args.get("with_"), None, {})
    match write.operation, tree:
        case Operation.UPDATE, exp.Update():
            reject_unread_parts(tree, _UPDATE_PARTS)
            return _update(walk, tree, write, ctes)
        case Operation.DELETE, exp.Delete():
            reject_unread_parts(tree, _DELETE_PARTS)
            return _delete(walk, tree, write, ctes)
        case Operation.MERGE, exp.Merge():
            reject_unread_parts(tree, _MERGE_PARTS)
            return _SqlMerge(walk, tree, write, ctes).trace_changes()
    raise Unclear(f"{NOT_UNDERSTOOD}{type(tree).__name__}")


def _target(walk: SqlLineageWalk, node: exp.Expr, ctes: Ctes) -> LineageRelation:
    if not isinstance(node, exp.Table):
        raise Unclear(f"{NOT_UNDERSTOOD}a target that is a {type(node).__name__}")
    relation = walk.scan(fold_identifier(node.this))
    return walk.apply_alias(node, relation, None, ctes)


def _update(
    walk: SqlLineageWalk, tree: exp.Update, write: Write, ctes: Ctes
) -> tuple[list[TargetValue], RelationRows]:
    frame = Frame(_target(walk, tree.this, ctes))
    place = Environment(frame)
    if (where := tree.args.get("where")) is not None:
        walk.decide(frame.rows, Clause.WHERE, where.this, place, ctes)
    assigned = Assigned(write.dataset)
    for assignment in tree.expressions:
        name = _find_assigned_column(walk, assignment, frame)
        assigned.add(name, _trace_assigned_value(walk, assignment.expression, place, ctes))
    return assigned.targets(), frame.rows


def _delete(
    walk: SqlLineageWalk, tree: exp.Delete, write: Write, ctes: Ctes
) -> tuple[list[TargetValue], RelationRows]:
    target = _target(walk, tree.this, ctes)
    frame = Frame(target)
    if (where := tree.args.get("where")) is not None:
        walk.decide(frame.rows, Clause.WHERE, where.this, Environment(frame), ctes)
    return every_column(write, target), frame.rows


def trace_replace_where(
    walk: SqlLineageWalk, places: tuple[tuple[int, int], tuple[int, int]], rows: RelationRows
) -> None:
    """Have the condition of REPLACE WHERE, on rows of the target, decide of what is written."""
    target, condition = (walk.text.piece(start, end) for start, end in places)
    tree = walk.text.parse(f"DELETE FROM {target} WHERE {condition}")
    if not isinstance(tree, exp.Delete):
        raise Unclear(f"{NOT_UNDERSTOOD}the condition of REPLACE WHERE")
    reject_unread_parts(tree, _DELETE_PARTS)
    place = Environment(Frame(_target(walk, tree.this, {})))
    walk.decide(rows, Clause.WHERE, tree.args["where"].this, place, {})


def every_column(write: Write, target: LineageRelation) -> list[TargetValue]:
    """Return all columns of a target, with values that no column is in."""
    assigned = Assigned(write.dataset)
    for attribute in target.attributes:
        assigned.add(attribute.name or ANY_COLUMN, Value(NO_DEPENDENCIES))
    return assigned.targets()


def _find_assigned_column(walk: SqlLineageWalk, assignment: exp.Expr, target: Frame) -> str:
    """Return the column that an assignment is to; `s.f = …` changes the column s."""
    parts = parts_of(assignment.this) if isinstance(assignment, exp.EQ) else None
    if parts is None:
        raise Unclear(f"{NOT_UNDERSTOOD}an assignment")
    walk.references.add(parts)
    found, _ = target.find(parts)
    if found:
        return found[0].name or ANY_COLUMN
    unknown, at = target.candidates(parts)
    if not unknown:
        raise Unclear(f"`{'.'.join(parts)}` is not a column of the target")
    return parts[at]


def _trace_assigned_value(walk: SqlLineageWalk, node: exp.Expr, place: Environment, ctes: Ctes) -> Value:
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.upper() == "DEFAULT":
        walk.references.add(("default",))
        return Value(NO_DEPENDENCIES)
    return walk.value(node, place, ctes)


class _SqlMerge:
    """A MERGE: actions on rows of the target, of the source, or of both."""

    def __init__(self, walk: SqlLineageWalk, tree: exp.Merge, write: Write, ctes: Ctes) -> None:
        self.walk, self.tree, self.write, self.ctes = walk, tree, write, ctes
        self.target = _target(walk, tree.this, ctes)
        self.source = self._source()
        self.both = Frame(self.target)
        self.both.add(self.source)
        self.assigned = Assigned(write.dataset)

    def _source(self) -> LineageRelation:
        select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=self.tree.args["using"].copy()))
        frame = Frame()
        self.walk.from_clause(select, frame, None, self.ctes)
        return frame.relation()

    def trace_changes(self) -> tuple[list[TargetValue], RelationRows]:
        rows = self.both.rows
        self.walk.decide(rows, Clause.MERGE, self.tree.args["on"], Environment(self.both), self.ctes)
        for when in self.tree.args["whens"].expressions:
            reject_unread_parts(when, _WHEN_PARTS)
            self._when(when, rows)
        return self.assigned.targets(), rows

    def _when(self, when: exp.When, rows: RelationRows) -> None:
        if when.args.get("matched"):
            frame = self.both
        else:
            frame = Frame(self.target if when.args.get("source") else self.source)
        place = Environment(frame)
        own = RelationRows()
        if (condition := when.args.get("condition")) is not None:
            self.walk.decide(own, Clause.MERGE, condition, place, self.ctes)
        then = when.args["then"]
        match then:
            case exp.Update():
                self._update(then, place, own)
            case exp.Insert():
                self._insert(then, place, own)
            case exp.Var() if then.name.upper() == "DELETE":
                # Rows are gone: what decides that bears on every column.
                rows.conditions += own.conditions
                rows.parents += own.parents
                for vertex, value in every_column(self.write, self.target):
                    self.assigned.add(vertex.column, value)
            case _:
                raise Unclear(f"{NOT_UNDERSTOOD}the action {type(then).__name__} of MERGE")

    def _update(self, then: exp.Update, place: Environment, own: RelationRows) -> None:
        items = then.expressions
        if not items or isinstance(items[0], exp.Star):
            self._same_names(own)
            return
        target = Frame(self.target)
        for assignment in items:
            name = _find_assigned_column(self.walk, assignment, target)
            self._assign(name, _trace_assigned_value(self.walk, assignment.expression, place, self.ctes), own)

    def _insert(self, then: exp.Insert, place: Environment, own: RelationRows) -> None:
        columns, values = then.args.get("this"), then.args.get("expression")
        if columns is None or isinstance(columns, exp.Star) or values is None:
            self._same_names(own)
            return
        names = []
        for item in columns.expressions if isinstance(columns, exp.Tuple) else [columns]:
            parts = (fold_identifier(item),) if isinstance(item, exp.Identifier) else parts_of(item)
            if parts is None:
                raise Unclear(f"{NOT_UNDERSTOOD}a column of INSERT")
            self.walk.references.add(parts)
            names.append(parts[-1])
        cells = values.expressions if isinstance(values, exp.Tuple) else [values]
        if len(cells) != len(names):
            raise Unclear("INSERT of a MERGE has other columns than values")
        for name, cell in zip(names, cells, strict=True):
            self._assign(name, _trace_assigned_value(self.walk, cell, place, self.ctes), own)

    def _same_names(self, own: RelationRows) -> None:
        """UPDATE SET * and INSERT *."""
        self.walk.star_references.add(())
        for name, value in assign_same_names(self.walk, self.target, Frame(self.source)):
            self._assign(name, value, own)

    def _assign(self, name: str, value: Value, own: RelationRows) -> None:
        self.assigned.add(name, with_rows(value, own))


def with_rows(value: Value, own: RelationRows) -> Value:
    """Return a value with what decides on it alone."""
    return replace(value, rows=(*value.rows, own)) if own.conditions or own.parents else value


def assign_same_names(
    walk: References, target: LineageRelation, source: Frame
) -> Iterator[tuple[str, Value]]:
    """Yield for every column of the target what the source has by its name."""
    if target.opens:
        for attribute in source.shown:
            yield attribute.name or ANY_COLUMN, attribute.value
        return
    for attribute in target.attributes:
        name = attribute.name or ANY_COLUMN
        found, _ = source.find((name,))
        if found:
            yield name, found[0].value
        elif source.opens:
            yield name, walk.open_column(source.opens[0], name)
