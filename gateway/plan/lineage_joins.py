"""Relations of a plan with two inputs or more: joins, set operations, code over groups of two."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from gateway.algebra.lineage_values import (
    AGGREGATED,
    CHOOSING,
    NO_DEPENDENCIES,
    TRANSFORMED,
    ConditionPart,
    RelationRows,
    RowCondition,
    Value,
    decide_by,
    group_by,
    merge_values,
)
from gateway.algebra.usage import Unclear
from gateway.model.lineage import Clause
from gateway.plan.lineage_expressions import PlanFragment
from gateway.plan.lineage_relations import OneInput, Outer, Several, code_over
from gateway.plan.lineage_sources import names_in
from gateway.plan.lineage_structs import literal_name
from gateway.sql.lineage_joins import find_null_rejecting, keep_unmatched, key_parts, merge_keys
from gateway.sql.lineage_scope import (
    Attribute,
    Environment,
    Frame,
    LineageRelation,
    Open,
)
from gateway.sql.lineage_sets import Branches
from gateway.wire.connect import pb

# Relations of a plan that make fewer rows of many: aggregates, pivots, statistics, code over groups.

_OF_NUMBERS_AND_TEXT = frozenset(
    {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "byte", "short",
     "integer", "long", "char", "varchar"}
)  # fmt: skip
"""Types of the columns that `describe` and `summary` take without being told which."""


class Grouping(OneInput):
    """The relations with one input that group its rows."""

    # ---------------------------------------------------------------- aggregates

    def aggregate(self, message: pb.Aggregate, frame: Frame, outer: Outer) -> Frame:
        rows = RelationRows(parents=[frame.rows])
        place = Environment(frame, outer)
        grouping = RowCondition(Clause.GROUP_BY, Several(message.grouping_expressions))
        by = [self._not_ordinal(item, message) for item in message.grouping_expressions[:]]
        keys = self.project(by, place)
        if by or message.grouping_sets:
            place = replace(place, groups=RelationRows(groups=grouping))
        if message.HasField("pivot"):
            return self._pivot(message, frame, keys, rows, grouping, place)
        made = self.project(message.aggregate_expressions, place)
        if place.groups is not None:
            sets = [self.operands(one.grouping_set, place) for one in message.grouping_sets[:]]
            group_by(rows, grouping, merge_values((*(a.value for a in keys.attributes), *sets)))
        return frame.derive([*keys.attributes, *made.attributes], [*keys.opens, *made.opens], rows)

    def _not_ordinal(self, item: pb.Expression, message: pb.Aggregate) -> pb.Expression:
        """Return what is grouped by; a number is a column of the result by its position."""
        if item.WhichOneof("expr_type") != "literal" or not item.literal.HasField("integer"):
            return item
        outputs = [*message.grouping_expressions[:], *message.aggregate_expressions[:]]
        place = item.literal.integer
        if not 1 <= place <= len(outputs) or outputs[place - 1].WhichOneof("expr_type") == "literal":
            raise Unclear("a number that is grouped by")
        return outputs[place - 1]

    def _pivot(
        self,
        message: pb.Aggregate,
        frame: Frame,
        keys: LineageRelation,
        rows: RelationRows,
        grouping: RowCondition,
        place: Environment,
    ) -> Frame:
        """Group by the keys, and compute each aggregate for each value of the pivot's column."""
        place = replace(place, groups=RelationRows(groups=grouping))
        chosen = self.value(message.pivot.col, Environment(frame, place.parent))
        choosing = chosen.as_operand(CHOOSING)
        aggregates = []
        for item in message.aggregate_expressions[:]:
            value = self.value(item, place)
            both = merge_values((value, choosing))
            aggregates.append((self.name_of(item, place), Value(both.dependencies, both.rows, value.written)))
        group_by(rows, grouping, merge_values((*(a.value for a in keys.attributes), chosen)))
        names = [literal_name(literal) for literal in message.pivot.values[:]]
        if not names or None in names or not aggregates:
            whole = merge_values(value for _, value in aggregates)
            columns = [*keys.attributes, Attribute("*", whole)]
            return frame.derive(columns, [*keys.opens, Open((), None, whole)], rows)
        made = [
            Attribute(name if len(aggregates) == 1 else f"{name}_{of}" if of is not None else None, value)
            for name in names
            for of, value in aggregates
        ]
        return frame.derive([*keys.attributes, *made], keys.opens, rows)

    def unpivot(self, message: pb.Unpivot, frame: Frame, outer: Outer) -> Frame:
        """Keep the ids; the columns that are named, or all the others, become rows."""
        place = Environment(frame, outer)
        ids = self.project(message.ids, place)
        if message.HasField("values"):
            named = self.project(message.values.values, place).attributes
        else:
            kept = {id(a.value) for a in ids.attributes}
            named = [a for a in frame.shown if id(a.value) not in kept]
        made = [
            Attribute(message.variable_column_name.lower(), Value(NO_DEPENDENCIES)),
            Attribute(message.value_column_name.lower(), merge_values(a.value for a in named)),
        ]
        return frame.derive([*ids.attributes, *made], ids.opens)

    # ---------------------------------------------------------------- statistics

    def describe(self, message: pb.StatDescribe | pb.StatSummary, frame: Frame, outer: Outer) -> Frame:
        if isinstance(message, pb.StatDescribe) and message.cols:
            chosen = self._choose_columns(message.cols, frame)
        else:
            chosen = [a for a in frame.shown if _has_statistics(a.value.type)]
        columns = [
            Attribute(a.name, a.value.as_operand(AGGREGATED, (f"describe({a.name})",))) for a in chosen
        ]
        return frame.derive([Attribute("summary", Value(NO_DEPENDENCIES)), *columns])

    def crosstab(self, message: pb.StatCrosstab, frame: Frame, outer: Outer) -> Frame:
        first, second = (self.resolve_name(name, frame).value for name in (message.col1, message.col2))
        rows = RelationRows(parents=[frame.rows])
        grouping = RowCondition(Clause.GROUP_BY, f"{message.col1}, {message.col2}")
        group_by(rows, grouping, merge_values((first, second)))
        counts = replace(second.as_operand(CHOOSING, ("count(1)",)), rows=(RelationRows(groups=grouping),))
        name = f"{message.col1}_{message.col2}".lower()
        columns = [Attribute(name, first), Attribute("*", counts)]
        return frame.derive(columns, [Open((), None, counts)], rows)

    def statistic(self, message: pb.StatCov | pb.StatCorr, frame: Frame, outer: Outer) -> Frame:
        name = "cov" if isinstance(message, pb.StatCov) else "corr"
        both = merge_values(
            (self.resolve_name(n, frame).value for n in (message.col1, message.col2)), AGGREGATED
        )
        written = f"{name}({message.col1}, {message.col2})"
        return frame.derive([Attribute(name, replace(both, written=(written,)))], [])

    def approx_quantile(self, message: pb.StatApproxQuantile, frame: Frame, outer: Outer) -> Frame:
        chosen = merge_values((a.value for a in self._choose_columns(message.cols, frame)), AGGREGATED)
        value = replace(chosen, written=(f"approx_percentile({', '.join(message.cols[:])})",))
        return frame.derive([Attribute("approx_quantile", value)], [])

    def freq_items(self, message: pb.StatFreqItems, frame: Frame, outer: Outer) -> Frame:
        chosen = self._choose_columns(message.cols, frame)
        return frame.derive(
            [
                Attribute(f"{a.name}_freqitems", a.value.as_operand(AGGREGATED, (f"freqItems({a.name})",)))
                for a in chosen
            ],
            [],
        )

    # ---------------------------------------------------------------- code over groups

    def group_map(self, message: pb.GroupMap, inputs: Sequence[Frame], outer: Outer) -> Frame:
        info = message.transform_with_state_info
        schema = [item.name.lower() for item in info.output_schema.struct.fields]
        made = code_over(inputs, message.func, schema)
        value = self.operands(message.grouping_expressions, Environment(inputs[0], outer))
        if len(inputs) > 1:
            initial = Environment(inputs[1], outer)
            value = merge_values((value, self.operands(message.initial_grouping_expressions, initial)))
        return self._over_groups(made, message.grouping_expressions, value)

    def apply_in_pandas_with_state(
        self, message: pb.ApplyInPandasWithState, frame: Frame, outer: Outer
    ) -> Frame:
        made = code_over((frame,), message.func, names_in(message.output_schema))
        value = self.operands(message.grouping_expressions, Environment(frame, outer))
        return self._over_groups(made, message.grouping_expressions, value)

    def _over_groups(self, made: Frame, by: Sequence[pb.Expression], value: Value) -> Frame:
        if not by:
            return made
        rows = RelationRows(parents=[made.rows])
        decide_by(rows, Clause.GROUP_BY, Several(by), value)
        return made.derive(rows=rows)


def _has_statistics(type_: str) -> bool:
    return not type_ or type_.split("(")[0].strip().lower() in _OF_NUMBERS_AND_TEXT


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
        pairs: dict[str, tuple[Attribute, Attribute]] = {}
        if message.using_columns:
            names = list(dict.fromkeys(message.using_columns[:]))
            pairs = {
                name.lower(): (self.resolve_name(name, left), self.resolve_name(name, right))
                for name in names
            }
            parts = key_parts(pairs, find_null_rejecting(side, kind, _identities(left), _identities(right)))
            decide_by(both.rows, Clause.JOIN, f"USING ({', '.join(names)})", Value(NO_DEPENDENCIES), parts)
        self._meet(message, left, right, both, outer)
        if message.HasField("join_data_type"):
            return _structs(left, right, both.rows)
        if pairs:
            both.set_columns(merge_keys(both, pairs, side, kind), both.opens)
        return both

    def as_of_join(self, message: pb.AsOfJoin, inputs: Sequence[Frame], outer: Outer) -> Frame:
        left, right = inputs
        both = _both(left, right)
        place = Environment(both, outer)
        nearest = merge_values(
            (
                self.value(message.left_as_of, Environment(left, outer)),
                self.value(message.right_as_of, Environment(right, outer)),
            )
        )
        if message.HasField("tolerance"):
            nearest = merge_values((nearest, self.value(message.tolerance, place)))
        words = f"{PlanFragment(message.left_as_of)}, {PlanFragment(message.right_as_of)}"
        decide_by(both.rows, Clause.JOIN, f"AS OF {words}", nearest)
        names = message.using_columns[:]
        if names:
            pairs = {
                name.lower(): (self.resolve_name(name, left), self.resolve_name(name, right))
                for name in names
            }
            parts = key_parts(pairs, lambda attribute: False)
            decide_by(both.rows, Clause.JOIN, f"USING ({', '.join(names)})", Value(NO_DEPENDENCIES), parts)
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
        both = _both(left, right)
        self._meet(message, left, right, both, outer)
        return both

    def _meet(
        self, message: pb.Join | pb.LateralJoin, left: Frame, right: Frame, both: Frame, outer: Outer
    ) -> None:
        """Note the condition of a join, and leave what it gives."""
        side, kind = _join_type(message.join_type)
        if message.HasField("join_condition"):
            rejects = find_null_rejecting(side, kind, _identities(left), _identities(right))
            condition = self.decide(
                both.rows, Clause.JOIN, message.join_condition, Environment(both, outer), rejects=rejects
            )
            if side and kind not in ("SEMI", "ANTI"):
                keep_unmatched(condition)
        if kind in ("SEMI", "ANTI"):
            both.set_columns(list(left.attributes), list(left.opens))

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
        compared = merge_values(
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
        return made.derive(rows=rows)


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
        Attribute(name, replace(merge_values((a.value for a in side.shown), TRANSFORMED), written=(name,)))
        for name, side in (("_1", left), ("_2", right))
    ]
    return left.derive(attributes, [], rows)
