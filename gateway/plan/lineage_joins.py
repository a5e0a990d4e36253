"""Relations of a plan with two inputs or more: joins, set operations, code over groups of two."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from gateway.model.lineage import Clause
from gateway.plan.lineage_expressions import PlanFragment
from gateway.plan.lineage_grouping import Grouping
from gateway.plan.lineage_relations import Outer, code_over
from gateway.sql.analyse_scope import Unclear
from gateway.sql.lineage_joins import keep_unmatched, key_parts, merged_keys, rejecting
from gateway.sql.lineage_references import decide_by
from gateway.sql.lineage_scope import (
    NOTHING,
    TRANSFORMED,
    Attribute,
    ConditionPart,
    Environment,
    Frame,
    RelationRows,
    Value,
    merged,
)
from gateway.sql.lineage_sets import Branches
from gateway.wire.connect import pb

_JOINS = {
    0: ("", ""), 1: ("", "INNER"), 2: ("FULL", ""), 3: ("LEFT", ""), 4: ("RIGHT", ""), 5: ("LEFT", "ANTI"),
    6: ("LEFT", "SEMI"), 7: ("", "CROSS"),
}  # fmt: skip
"""Side and kind of each JoinType, in SQL's words."""
_SET_OPERATIONS = {1: "INTERSECT", 2: "UNION", 3: "EXCEPT"}


class TwoInputs(Grouping):
    """The relations with several inputs: a method each, from a message and its inputs."""

    @abstractmethod
    def lateral(self, relation: pb.Relation, place: Environment) -> Frame:
        """Walk a relation as a query within the place."""

    def join(self, message: pb.Join, inputs: Sequence[Frame], outer: Outer) -> Frame:
        left, right = inputs
        side, kind = _join_type(message.join_type)
        both = _both(left, right)
        rejects = rejecting(side, kind, _identities(left), _identities(right))
        pairs: dict[str, tuple[Attribute, Attribute]] = {}
        if message.using_columns:
            names = list(dict.fromkeys(message.using_columns[:]))
            pairs = {name.lower(): (self.named(name, left), self.named(name, right)) for name in names}
            parts = key_parts(pairs, rejects)
            decide_by(both.rows, Clause.JOIN, f"USING ({', '.join(names)})", Value(NOTHING), parts)
        if message.HasField("join_condition"):
            condition = self.decide(
                both.rows, Clause.JOIN, message.join_condition, Environment(both, outer), rejects=rejects
            )
            if side and kind not in ("SEMI", "ANTI"):
                keep_unmatched(condition)
        if kind in ("SEMI", "ANTI"):
            both.take(list(left.attributes), list(left.opens))
        if message.HasField("join_data_type"):
            return _structs(left, right, both.rows)
        if pairs:
            both.take(merged_keys(both, pairs, side, kind), both.opens)
        return both

    def as_of_join(self, message: pb.AsOfJoin, inputs: Sequence[Frame], outer: Outer) -> Frame:
        left, right = inputs
        both = _both(left, right)
        place = Environment(both, outer)
        nearest = merged(
            (
                self.value(message.left_as_of, Environment(left, outer)),
                self.value(message.right_as_of, Environment(right, outer)),
            )
        )
        if message.HasField("tolerance"):
            nearest = merged((nearest, self.value(message.tolerance, place)))
        words = f"{PlanFragment(message.left_as_of)}, {PlanFragment(message.right_as_of)}"
        decide_by(both.rows, Clause.JOIN, f"AS OF {words}", nearest)
        names = message.using_columns[:]
        if names:
            pairs = {name.lower(): (self.named(name, left), self.named(name, right)) for name in names}
            parts = key_parts(pairs, lambda attribute: False)
            decide_by(both.rows, Clause.JOIN, f"USING ({', '.join(names)})", Value(NOTHING), parts)
        if message.HasField("join_expr"):
            self.decide(both.rows, Clause.JOIN, message.join_expr, place)
        return both

    def nearest_by_join(self, message: pb.NearestByJoin, inputs: Sequence[Frame], outer: Outer) -> Frame:
        both = _both(*inputs)
        value = self.value(message.ranking_expression, Environment(both, outer))
        decide_by(both.rows, Clause.JOIN, PlanFragment(message.ranking_expression), value)
        return both

    def zip(self, message: pb.Zip, inputs: Sequence[Frame], outer: Outer) -> Frame:
        return _both(*inputs)

    def lateral_join(self, message: pb.LateralJoin, inputs: Sequence[Frame], outer: Outer) -> Frame:
        left = inputs[0]
        right = self.lateral(message.right, Environment(left, outer))
        side, kind = _join_type(message.join_type)
        both = _both(left, right)
        if message.HasField("join_condition"):
            rejects = rejecting(side, kind, _identities(left), _identities(right))
            condition = self.decide(
                both.rows, Clause.JOIN, message.join_condition, Environment(both, outer), rejects=rejects
            )
            if side and kind not in ("SEMI", "ANTI"):
                keep_unmatched(condition)
        if kind in ("SEMI", "ANTI"):
            both.take(list(left.attributes), list(left.opens))
        return both

    def set_operations(
        self, messages: Sequence[pb.SetOperation], inputs: Sequence[Frame], outer: Outer
    ) -> Frame:
        """Make one relation of a chain of set operations: the first input, and one more for each."""
        branches = Branches(inputs[0].relation())
        for message, right in zip(messages, inputs[1:], strict=True):
            kind = _SET_OPERATIONS.get(message.set_op_type)
            if kind is None:
                raise Unclear("a set operation of an unknown kind")
            branches.add(kind, right.relation(), distinct=not message.is_all, by_name=message.by_name)
            self.spend(branches.cost)
        return Frame(branches.relation())

    def co_group_map(self, message: pb.CoGroupMap, inputs: Sequence[Frame], outer: Outer) -> Frame:
        made = code_over(inputs, message.func)
        left, right = (Environment(frame, outer) for frame in inputs)
        compared = merged(
            (
                self.operands(message.input_grouping_expressions, left),
                self.operands(message.other_grouping_expressions, right),
            )
        )
        rows = RelationRows(parents=[made.rows])
        decide_by(
            rows,
            Clause.JOIN,
            "cogroup",
            compared,
            [ConditionPart("cogroup", compared.dependencies, by_row=False)],
        )
        return made.over(rows=rows)


def _join_type(number: int) -> tuple[str, str]:
    if number not in _JOINS:
        raise Unclear("a join of an unknown kind")
    return _JOINS[number]


def _identities(frame: Frame) -> set[int]:
    return {id(attribute) for attribute in frame.attributes}


def _both(left: Frame, right: Frame) -> Frame:
    both = Frame(left.relation())
    both.add(right.relation())
    return both


def _structs(left: Frame, right: Frame, rows: RelationRows) -> Frame:
    """Return each side as one struct, as `joinWith` does."""
    attributes = [
        Attribute(name, replace(merged((a.value for a in side.shown), TRANSFORMED), written=(name,)))
        for name, side in (("_1", left), ("_2", right))
    ]
    return left.over(attributes, [], rows)
