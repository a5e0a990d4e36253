"""MERGE INTO of a DataFrame: which columns of the target it sets, and by which conditions.

As `sql/lineage_changes.py` does it for SQL.
"""

from __future__ import annotations

from gateway.model.lineage import ANY_COLUMN, Clause
from gateway.plan.lineage_walk import PlanLineageWalk
from gateway.sql.analyse_scope import Unclear
from gateway.sql.lineage_changes import assign_same_names, every_column, with_rows
from gateway.sql.lineage_edges import Target
from gateway.sql.lineage_scope import Environment, Frame, LineageRelation, RelationRows
from gateway.sql.lineage_writes import Assigned, Write
from gateway.wire.connect import pb

_DELETE, _INSERT, _INSERT_STAR, _UPDATE, _UPDATE_STAR = range(1, 6)


def merged_into(
    walk: PlanLineageWalk, command: pb.MergeIntoTableCommand, write: Write
) -> tuple[list[Target], RelationRows]:
    """Return the columns that a MERGE sets, with the rows that it does so in."""
    if write.table is None:
        raise Unclear(f"the target {write.dataset} of MERGE is no table that can be known")
    source = walk.relation(command.source_table_plan, None)
    target = walk.extraction.sources.table(write.table)
    return _PlanMerge(walk, command, write, target, source).made()


class _PlanMerge:
    """A MERGE: actions on rows of the target, of the source, or of both."""

    def __init__(
        self,
        walk: PlanLineageWalk,
        command: pb.MergeIntoTableCommand,
        write: Write,
        target: LineageRelation,
        source: Frame,
    ) -> None:
        self.walk, self.command, self.write = walk, command, write
        self.target, self.source = target, source
        self.both = Frame(target)
        self.both.add(source.relation())
        self.assigned = Assigned(write.dataset)

    def made(self) -> tuple[list[Target], RelationRows]:
        rows, command = self.both.rows, self.command
        self.walk.decide(rows, Clause.MERGE, command.merge_condition, Environment(self.both))
        for action in command.match_actions:
            self._act(action, self.both, rows)
        for action in command.not_matched_actions:
            self._act(action, self.source, rows)
        for action in command.not_matched_by_source_actions:
            self._act(action, Frame(self.target), rows)
        return self.assigned.targets(), rows

    def _act(self, message: pb.Expression, frame: Frame, rows: RelationRows) -> None:
        action, place, own = message.merge_action, Environment(frame), RelationRows()
        if action.HasField("condition"):
            self.walk.decide(own, Clause.MERGE, action.condition, place)
        match action.action_type:
            case kind if kind == _DELETE:
                # Rows are gone: what decides that bears on every column.
                rows.conditions += own.conditions
                rows.parents += own.parents
                for vertex, value in every_column(self.write, self.target):
                    self.assigned.add(vertex.column, value)
            case kind if kind in (_INSERT_STAR, _UPDATE_STAR):
                for name, value in assign_same_names(self.walk, self.target, self.source):
                    self.assigned.add(name, with_rows(value, own))
            case kind if kind in (_INSERT, _UPDATE):
                target = Environment(Frame(self.target))
                for item in action.assignments:
                    key = item.key
                    if key.WhichOneof("expr_type") == "expression_string":
                        found = self.walk.item(key, target).attributes[0]
                    else:
                        found = self.walk.column(key.unresolved_attribute, target)
                    value = self.walk.value(item.value, place)
                    self.assigned.add(found.name or ANY_COLUMN, with_rows(value, own))
            case _:
                raise Unclear("an action of MERGE that is not known")
