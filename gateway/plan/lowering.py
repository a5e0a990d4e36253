"""A plan of Spark Connect as the relation that the same query in SQL is (`gateway.algebra`).

One row for each case of `Relation`; a case without one is opaque, and so is what a message says that its row
does not know. What is made of whole rows by somebody's code reads all of its inputs, and has columns that
nobody knows. No recursion per operation; only queries within expressions and lateral joins recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Never, cast

from gateway.algebra.nodes import (
    Aggregate,
    Alias,
    Cast,
    ChangedColumns,
    ColumnAliases,
    ConditionClause,
    DroppedColumns,
    Expression,
    Filter,
    InlineTable,
    Join,
    JoinKind,
    NamedColumn,
    OneRow,
    OpaqueExpression,
    OpaqueRelation,
    Operator,
    Pass,
    Passing,
    Projection,
    RelationNode,
    RenamedColumns,
    SetKind,
    SetOperation,
    Star,
    SubqueryAlias,
    TableFunction,
    With,
    WithColumns,
)
from gateway.algebra.spark import conjuncts
from gateway.algebra.walking import infer_name
from gateway.plan.identifiers import table_parts
from gateway.plan.lineage_sources import local_names
from gateway.plan.lowering_expressions import ExpressionLowering, PlanNotes, UnreadablePlan
from gateway.plan.references import ids_bound, names_bound
from gateway.wire.connect import Message, descriptor_of, pb

MAX_NESTED: Final = 20
"""Queries within queries; each is a level of recursion."""

_JOINS: Final = {
    pb.Join.JOIN_TYPE_INNER: JoinKind.INNER,
    pb.Join.JOIN_TYPE_FULL_OUTER: JoinKind.FULL_OUTER,
    pb.Join.JOIN_TYPE_LEFT_OUTER: JoinKind.LEFT_OUTER,
    pb.Join.JOIN_TYPE_RIGHT_OUTER: JoinKind.RIGHT_OUTER,
    pb.Join.JOIN_TYPE_LEFT_ANTI: JoinKind.LEFT_ANTI,
    pb.Join.JOIN_TYPE_LEFT_SEMI: JoinKind.LEFT_SEMI,
    pb.Join.JOIN_TYPE_CROSS: JoinKind.CROSS,
}
_SETS: Final = {
    pb.SetOperation.SET_OP_TYPE_UNION: SetKind.UNION,
    pb.SetOperation.SET_OP_TYPE_EXCEPT: SetKind.EXCEPT,
    pb.SetOperation.SET_OP_TYPE_INTERSECT: SetKind.INTERSECT,
}
_GROUPINGS: Final = {
    pb.Aggregate.GROUP_TYPE_ROLLUP: "Rollup",
    pb.Aggregate.GROUP_TYPE_CUBE: "Cube",
    pb.Aggregate.GROUP_TYPE_GROUPING_SETS: "GroupingSets",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSources:
    """What stands for messages of a plan that are no part of the algebra, by the identity of each."""

    reads: Mapping[int, RelationNode]
    """Relations that read a table or a SQL text."""
    expressions: Mapping[int, Expression]
    """Texts of SQL expressions."""
    bound: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Of a SQL text the names, lower case, that mean relations of the plan."""


@dataclass(slots=True)
class PlanLowering:
    """Says what relations of a plan are, one after the other."""

    sources: PlanSources
    notes: PlanNotes = field(default_factory=PlanNotes)
    expressions: ExpressionLowering = field(init=False)
    referred: dict[int, pb.Relation] = field(default_factory=dict)
    """Relations that expressions refer to by their plan_id."""
    named: dict[str, pb.Relation] = field(default_factory=dict)
    """Those that SQL texts refer to by their names."""
    nested: int = 0

    def __post_init__(self) -> None:
        self.expressions = ExpressionLowering(self.sources.expressions, self._refer, self.notes)

    def relation(self, root: pb.Relation) -> RelationNode:
        """Return what a relation is, without recursion over those that it reads."""
        order: list[tuple[pb.Relation, str, Message, int]] = []
        stack = [root]
        while stack:
            relation = stack.pop()
            case: str = relation.WhichOneof("rel_type") or ""
            message: Message = getattr(relation, case) if case else relation
            if case == "with_relations":
                self.bind(relation.with_relations)
            inputs = inputs_of(case, message) if id(relation) not in self.sources.reads else ()
            order.append((relation, case, message, len(inputs)))
            stack += inputs
        self.notes.step(len(order))
        results: list[RelationNode] = []
        for relation, case, message, count in reversed(order):
            inputs_made = results[len(results) - count :]
            del results[len(results) - count :]
            made = self.sources.reads.get(id(relation))
            if made is None:
                is_whole = case in RELATIONS and count >= MIN_INPUTS[case]
                make = _MAKE[case] if is_whole else PlanLowering._unknown
                made = make(self, message, inputs_made)
            elif case == "sql":
                made = self._text(relation, made)
            if self.notes.messages is not None:
                self.notes.note(made, message)
            if relation.common.HasField("plan_id"):
                self.notes.plan_ids.setdefault(relation.common.plan_id, []).append(made)
            results.append(made)
        return results[0]

    # What is referred to by an id or a name is lowered anew wherever it is.

    def bind(self, message: pb.WithRelations) -> None:
        self.referred.update(ids_bound(message))
        self.named.update((name.lower(), reference) for name, reference in names_bound(message))

    def _refer(self, plan_id: int) -> RelationNode:
        if plan_id not in self.referred:
            raise UnreadablePlan("a subquery refers to a relation that is not beside it")
        return self._within(self.referred[plan_id])

    def _within(self, relation: pb.Relation) -> RelationNode:
        if self.nested >= MAX_NESTED:  # RULE (lineage-nested-bound)
            raise UnreadablePlan("the plan has too many nested subqueries for column analysis")
        self.nested += 1
        made = self.relation(relation)
        self.nested -= 1
        return made

    def _text(self, relation: pb.Relation, made: RelationNode) -> RelationNode:
        """Return a SQL text: a query over the relations of the plan that it names, and its arguments."""
        definitions = []
        for name in sorted(self.sources.bound.get(id(relation), ())):
            if name not in self.named:
                raise UnreadablePlan(f"`{name}` is bound nowhere")
            definitions.append((name, self._within(self.named[name])))
        if definitions:
            made = With(made, tuple(definitions))
        arguments = [*relation.sql.pos_arguments, *relation.sql.named_arguments.values()]
        self.notes.unnamed = True
        return self._observe(made, arguments) if arguments else made

    # Relations that read no other.

    def _unknown(self, message: Message, inputs: Sequence[RelationNode]) -> RelationNode:
        self.notes.unnamed = True
        return OpaqueRelation(tuple(inputs), ())

    def _no_table(self, message: Message, inputs: Sequence[RelationNode]) -> RelationNode:
        """Return data that come from no table, in columns that nobody knows."""
        self.notes.unnamed = True
        return OpaqueRelation((), (), complete=True)

    def _read(self, message: pb.Read, inputs: Sequence[RelationNode]) -> RelationNode:
        of_files = message.WhichOneof("read_type") == "data_source"
        return self._no_table(message, inputs) if of_files else self._unknown(message, inputs)

    def _local(self, message: pb.LocalRelation, inputs: Sequence[RelationNode]) -> RelationNode:
        names = local_names(message)
        self.notes.made.update(names)
        return InlineTable(tuple(names)) if names else self._no_table(message, inputs)

    def _range(self, message: pb.Range, inputs: Sequence[RelationNode]) -> RelationNode:
        self.notes.made.add("id")
        return InlineTable(("id",))

    def _table_function(
        self, message: pb.UnresolvedTableValuedFunction, inputs: Sequence[RelationNode]
    ) -> RelationNode:
        self.notes.unnamed = True
        parts = table_parts(message.function_name) or (message.function_name,)
        return TableFunction(parts, self.expressions.lower_all(message.arguments))

    def _user_table_function(
        self, message: pb.CommonInlineUserDefinedTableFunction, inputs: Sequence[RelationNode]
    ) -> RelationNode:
        self.notes.unnamed = True
        return OpaqueRelation((), self.expressions.lower_all(message.arguments), complete=True)

    # The columns of one input.

    def _same(self, message: Message, inputs: Sequence[RelationNode]) -> RelationNode:
        return inputs[0]

    def _filter(self, message: pb.Filter, inputs: Sequence[RelationNode]) -> RelationNode:
        conditions = tuple(conjuncts([self.expressions.lower(message.condition)]))
        return Filter(inputs[0], ConditionClause.WHERE, conditions)

    def _drop_na(self, message: pb.NADrop, inputs: Sequence[RelationNode]) -> RelationNode:
        return Filter(inputs[0], ConditionClause.WHERE, (self._of_names(message.cols),))

    def _sort(self, message: pb.Sort, inputs: Sequence[RelationNode]) -> RelationNode:
        keys = self.expressions.lower_all([one.child for one in message.order])
        if self.notes.messages is not None:
            self.notes.messages.update(
                (id(key), (key, one)) for key, one in zip(keys, message.order, strict=True)
            )
        return Pass(inputs[0], Passing.SORT, keys)

    def _limit(self, message: pb.Limit | pb.Offset, inputs: Sequence[RelationNode]) -> RelationNode:
        return Pass(inputs[0], Passing.LIMIT)

    def _some(self, message: Message, inputs: Sequence[RelationNode]) -> RelationNode:
        """Return some of the rows, or how they are shown to people."""
        return Pass(inputs[0], Passing.SAMPLE)

    def _sample_by(self, message: pb.StatSampleBy, inputs: Sequence[RelationNode]) -> RelationNode:
        return Pass(inputs[0], Passing.SAMPLE, (self.expressions.lower(message.col),))

    def _repartition(self, message: pb.Repartition, inputs: Sequence[RelationNode]) -> RelationNode:
        return Pass(inputs[0], Passing.REPARTITION)

    def _repartition_by(
        self, message: pb.RepartitionByExpression, inputs: Sequence[RelationNode]
    ) -> RelationNode:
        return Pass(inputs[0], Passing.REPARTITION, self.expressions.lower_all(message.partition_exprs))

    def _hint(self, message: pb.Hint, inputs: Sequence[RelationNode]) -> RelationNode:
        return Pass(inputs[0], Passing.HINT, self.expressions.lower_all(message.parameters))

    def _metrics(self, message: pb.CollectMetrics, inputs: Sequence[RelationNode]) -> RelationNode:
        return self._observe(inputs[0], message.metrics)

    def _watermark(self, message: pb.WithWatermark, inputs: Sequence[RelationNode]) -> RelationNode:
        return Pass(inputs[0], Passing.OBSERVED, (self.expressions.name(message.event_time),))

    def _deduplicate(self, message: pb.Deduplicate, inputs: Sequence[RelationNode]) -> RelationNode:
        if message.column_names and not message.all_columns_as_keys:
            return Pass(
                inputs[0], Passing.FIRST_ROWS, tuple(map(self.expressions.name, message.column_names))
            )
        why = Passing.FIRST_ROWS if message.within_watermark else Passing.DISTINCT
        return Pass(inputs[0], why, (Star(),) if message.within_watermark else ())

    def _subquery_alias(self, message: pb.SubqueryAlias, inputs: Sequence[RelationNode]) -> RelationNode:
        if message.qualifier:
            return self._whole_rows(inputs)
        return SubqueryAlias(inputs[0], message.alias)

    # Other columns of one input.

    def _project(self, message: pb.Project, inputs: Sequence[RelationNode]) -> RelationNode:
        return Projection(inputs[0] if inputs else OneRow(), self._items(message.expressions))

    def _with_columns(self, message: pb.WithColumns, inputs: Sequence[RelationNode]) -> RelationNode:
        items: list[Alias] = []
        for one in message.aliases:
            items += self._lower_alias(one)
        return WithColumns(inputs[0], tuple(items))

    def _rename(self, message: pb.WithColumnsRenamed, inputs: Sequence[RelationNode]) -> RelationNode:
        names = [(one.col_name, one.new_col_name) for one in message.renames]
        names += sorted(message.rename_columns_map.items())
        self.notes.made.update(name.lower() for pair in names for name in pair)
        return RenamedColumns(inputs[0], tuple(names))

    def _drop(self, message: pb.Drop, inputs: Sequence[RelationNode]) -> RelationNode:
        columns = self.expressions.lower_all(message.columns)
        known = tuple([one for one in columns if isinstance(one, NamedColumn)])
        self.notes.strings.update((id(one), one) for one in known)
        if len(known) < len(columns):
            return self._unknown(message, inputs)
        return DroppedColumns(inputs[0], tuple(message.column_names), known)

    def _change(self, message: pb.NAFill | pb.NAReplace, inputs: Sequence[RelationNode]) -> RelationNode:
        changed = tuple(map(self.expressions.name, message.cols)) or (Star(),)
        self.notes.unnamed = True
        return ChangedColumns(inputs[0], changed)

    def _to_df(self, message: pb.ToDF, inputs: Sequence[RelationNode]) -> RelationNode:
        self.notes.made.update(name.lower() for name in message.column_names)
        return ColumnAliases(inputs[0], tuple(message.column_names)) if message.column_names else inputs[0]

    def _to_schema(self, message: pb.ToSchema, inputs: Sequence[RelationNode]) -> RelationNode:
        """`df.to(schema)`: the columns of these names, cast."""
        names = [item.name for item in message.schema.struct.fields]
        self.notes.by_schema = True
        self.notes.made.update(name.lower() for name in names)
        columns = [NamedColumn((name,)) for name in names]
        for column in columns:
            self.notes.note(column, message)
        items = [Alias(one.parts[0], Cast(one, "", tried=False)) for one in columns]
        return Projection(inputs[0], tuple(items))

    def _aggregate(self, message: pb.Aggregate, inputs: Sequence[RelationNode]) -> RelationNode:
        keys = self._items(message.grouping_expressions)
        shown = self._items(message.aggregate_expressions)
        grouped = tuple([one.operand if isinstance(one, Alias) else one for one in keys])
        if message.group_type == pb.Aggregate.GROUP_TYPE_PIVOT:
            self.notes.unnamed = True
            pivoted = self.expressions.lower(message.pivot.col)
            made = OpaqueExpression(shown, complete=True, several=True)  # a column for each of the values
            return Aggregate(inputs[0], (*grouped, pivoted), (*keys, made))
        if message.group_type in _GROUPINGS:
            sets = [e for one in message.grouping_sets for e in self.expressions.lower_all(one.grouping_set)]
            grouped = (Operator(_GROUPINGS[message.group_type], (*grouped, *sets)),)
        elif message.group_type != pb.Aggregate.GROUP_TYPE_GROUPBY:
            return self._unknown(message, inputs)
        return Aggregate(inputs[0], grouped, (*keys, *shown))

    def _statistics(
        self,
        message: pb.StatDescribe | pb.StatApproxQuantile | pb.StatFreqItems,
        inputs: Sequence[RelationNode],
    ) -> RelationNode:
        return self._summarize(inputs[0], message.cols)

    def _summary(self, message: pb.StatSummary, inputs: Sequence[RelationNode]) -> RelationNode:
        return self._summarize(inputs[0], ())

    def _of_two(
        self, message: pb.StatCrosstab | pb.StatCov | pb.StatCorr, inputs: Sequence[RelationNode]
    ) -> RelationNode:
        return self._summarize(inputs[0], (message.col1, message.col2))

    def _summarize(self, below: RelationNode, names: Iterable[str]) -> RelationNode:
        """Return what is found out about columns, or all without names, in columns of other names."""
        self.notes.unnamed = True
        made = replace(self._of_names(names), several=True)
        return Aggregate(below, (), (made,))

    # Rows as a whole.

    def _unpivot(self, message: pb.Unpivot, inputs: Sequence[RelationNode]) -> RelationNode:
        return self._whole_rows(inputs, [*message.ids, *message.values.values])

    def _transpose(self, message: pb.Transpose, inputs: Sequence[RelationNode]) -> RelationNode:
        return self._whole_rows(inputs, message.index_columns)

    def _code(self, message: pb.MapPartitions | pb.Parse, inputs: Sequence[RelationNode]) -> RelationNode:
        return self._whole_rows(inputs)

    def _stateful(self, message: pb.ApplyInPandasWithState, inputs: Sequence[RelationNode]) -> RelationNode:
        return self._whole_rows(inputs, message.grouping_expressions)

    def _groups(self, message: pb.GroupMap, inputs: Sequence[RelationNode]) -> RelationNode:
        sides = [self._observe(inputs[0], [*message.grouping_expressions, *message.sorting_expressions])]
        sides += [self._observe(one, message.initial_grouping_expressions) for one in inputs[1:]]
        return self._whole_rows(sides)

    def _two_groups(self, message: pb.CoGroupMap, inputs: Sequence[RelationNode]) -> RelationNode:
        ours = [*message.input_grouping_expressions, *message.input_sorting_expressions]
        theirs = [*message.other_grouping_expressions, *message.other_sorting_expressions]
        return self._whole_rows([self._observe(inputs[0], ours), self._observe(inputs[1], theirs)])

    def _whole_rows(
        self, inputs: Sequence[RelationNode], expressions: Iterable[pb.Expression] = ()
    ) -> RelationNode:
        self.notes.unnamed = True
        return OpaqueRelation(tuple(inputs), self.expressions.lower_all(expressions), complete=True)

    # Two inputs.

    def _join(self, message: pb.Join, inputs: Sequence[RelationNode]) -> RelationNode:
        kind = _JOINS.get(message.join_type)
        if kind is None:
            return self._unknown(message, inputs)
        left, right = inputs
        on = self._one(message, "join_condition")
        made = Join(left, right, kind, tuple(conjuncts(on)), tuple(message.using_columns))
        # `joinWith`: each side as one struct.
        return self._whole_rows([made]) if message.HasField("join_data_type") else made

    def _lateral_join(self, message: pb.LateralJoin, inputs: Sequence[RelationNode]) -> RelationNode:
        kind = _JOINS.get(message.join_type)
        right = self._within(message.right)
        self.notes.unnamed = True
        if kind is None:
            return self._unknown(message, (*inputs, right))
        on = tuple(conjuncts(self._one(message, "join_condition")))
        return Join(inputs[0], right, kind, on, lateral=True)

    def _as_of_join(self, message: pb.AsOfJoin, inputs: Sequence[RelationNode]) -> RelationNode:
        left = self._observe(inputs[0], [message.left_as_of])
        right = self._observe(inputs[1], [message.right_as_of])
        on = (*self._one(message, "join_expr"), *self._one(message, "tolerance"))
        return self._match(left, right, on, message.using_columns)

    def _nearest_by_join(self, message: pb.NearestByJoin, inputs: Sequence[RelationNode]) -> RelationNode:
        left, right = inputs
        return self._match(left, right, self._one(message, "ranking_expression"), ())

    def _zip(self, message: pb.Zip, inputs: Sequence[RelationNode]) -> RelationNode:
        left, right = inputs
        return self._match(left, right, (), ())

    def _match(
        self, left: RelationNode, right: RelationNode, on: tuple[Expression, ...], using: Iterable[str]
    ) -> RelationNode:
        """Return rows beside each other by a rule that depends on what other rows there are."""
        rule = OpaqueExpression(on, complete=True)
        return Join(left, right, JoinKind.FULL_OUTER, (rule,), tuple(using))

    def _set(self, message: pb.SetOperation, inputs: Sequence[RelationNode]) -> RelationNode:
        kind = _SETS.get(message.set_op_type)
        if kind is None:
            return self._unknown(message, inputs)
        left, right = inputs
        sides: tuple[RelationNode, ...] = (left, right)
        match left:
            case SetOperation(kind=SetKind.UNION, by_name=False) if kind is SetKind.UNION:
                if self.notes.messages is not None and not message.by_name:
                    sides = (*left.inputs, right)  # of many relations each is looked at once
        made = SetOperation(kind, sides, message.by_name, message.allow_missing_columns)
        distinct = kind is SetKind.UNION and not message.is_all
        return Pass(made, Passing.DISTINCT) if distinct else made

    # What they share.

    def _observe(self, below: RelationNode, messages: Iterable[pb.Expression]) -> RelationNode:
        """Return a relation of which these are computed beside."""
        found = self.expressions.lower_all(messages)
        return Pass(below, Passing.OBSERVED, found) if found else below

    def _one(self, message: Message, name: str) -> tuple[Expression, ...]:
        return (self.expressions.lower(getattr(message, name)),) if message.HasField(name) else ()

    def _of_names(self, names: Iterable[str]) -> OpaqueExpression:
        """Return what is made of columns, all of them without names."""
        return OpaqueExpression(tuple(map(self.expressions.name, names)) or (Star(),), complete=True)

    def _items(self, messages: Iterable[pb.Expression]) -> tuple[Expression, ...]:
        items: list[Expression] = []
        for message in messages:
            if message.WhichOneof("expr_type") == "alias":
                items += self._lower_alias(message.alias)
            else:
                items.append(self.expressions.lower(message))
        for item in items:
            if isinstance(item, NamedColumn):
                # The last part may be a field of a column.
                self.notes.made.update(part.lower() for part in item.parts[1:])
            elif not isinstance(item, Alias | Star):
                self.notes.made.add(infer_name(item))
        return tuple(items)

    def _lower_alias(self, message: pb.Expression.Alias) -> list[Alias]:
        """Return the columns of an alias: one, or several of a generator."""
        self.notes.made.update([name.lower() for name in message.name])
        value = self.expressions.lower(message.expr)
        # What is known of a column may make it CHAR, which Spark pads to any length where it is compared.
        if len(message.name) != 1 or message.metadata:
            value = OpaqueExpression((value,), complete=True)
            self.notes.note(value, message.expr)
        return [Alias(name, value) for name in message.name]


def inputs_of(case: str, message: Message) -> list[pb.Relation]:
    """Return the relations that one of a case reads, without queries within."""
    names = INPUTS.get(case, ())
    return [getattr(message, name) for name in names if message.HasField(name)]


def _relations_in(case: str) -> list[str]:
    """Return the fields of a case's message that hold one relation each."""
    message = descriptor_of(pb.Relation).fields_by_name[case].message_type
    fields = [] if message is None else message.fields
    return [f.name for f in fields if f.message_type is descriptor_of(pb.Relation) and not f.is_repeated]


RELATIONS: Mapping[str, Callable[[PlanLowering, Never, Sequence[RelationNode]], RelationNode]] = {
    **dict.fromkeys(("describe", "approx_quantile", "freq_items"), PlanLowering._statistics),
    **dict.fromkeys(("crosstab", "cov", "corr"), PlanLowering._of_two),
    **dict.fromkeys(("fill_na", "replace"), PlanLowering._change),
    **dict.fromkeys(("limit", "offset"), PlanLowering._limit),
    **dict.fromkeys(("map_partitions", "parse"), PlanLowering._code),
    **dict.fromkeys(("sample", "tail", "show_string", "html_string"), PlanLowering._some),
    **dict.fromkeys(
        ("cached_local_relation", "chunked_cached_local_relation", "cached_remote_relation", "catalog"),
        PlanLowering._no_table,
    ),
    "aggregate": PlanLowering._aggregate,
    "apply_in_pandas_with_state": PlanLowering._stateful,
    "as_of_join": PlanLowering._as_of_join,
    "co_group_map": PlanLowering._two_groups,
    "collect_metrics": PlanLowering._metrics,
    "common_inline_user_defined_table_function": PlanLowering._user_table_function,
    "deduplicate": PlanLowering._deduplicate,
    "drop": PlanLowering._drop,
    "drop_na": PlanLowering._drop_na,
    "filter": PlanLowering._filter,
    "group_map": PlanLowering._groups,
    "hint": PlanLowering._hint,
    "join": PlanLowering._join,
    "lateral_join": PlanLowering._lateral_join,
    "local_relation": PlanLowering._local,
    "nearest_by_join": PlanLowering._nearest_by_join,
    "project": PlanLowering._project,
    "range": PlanLowering._range,
    "read": PlanLowering._read,
    "repartition": PlanLowering._repartition,
    "repartition_by_expression": PlanLowering._repartition_by,
    "sample_by": PlanLowering._sample_by,
    "set_op": PlanLowering._set,
    "sort": PlanLowering._sort,
    "subquery_alias": PlanLowering._subquery_alias,
    "summary": PlanLowering._summary,
    "to_df": PlanLowering._to_df,
    "to_schema": PlanLowering._to_schema,
    "transpose": PlanLowering._transpose,
    "unpivot": PlanLowering._unpivot,
    "unresolved_table_valued_function": PlanLowering._table_function,
    "with_columns": PlanLowering._with_columns,
    "with_columns_renamed": PlanLowering._rename,
    "with_relations": PlanLowering._same,
    "with_watermark": PlanLowering._watermark,
    "zip": PlanLowering._zip,
}
OPAQUE_RELATIONS: Final = frozenset(
    {
        "common_inline_user_defined_data_source",
        "extension",
        "ml_relation",
        "relation_changes",
        "sql",
        "unknown",
    }
)
"""Cases without a row: what nobody can look into, and what is known by its name or its text alone."""
# Called with the message of their case only; a test compares them with the cases of `Relation`.
_MAKE = cast(
    "Mapping[str, Callable[[PlanLowering, Message, Sequence[RelationNode]], RelationNode]]", RELATIONS
)
INPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    case: tuple([name for name in _relations_in(case) if (case, name) != ("lateral_join", "right")])
    for case in RELATIONS
}
"""The relations that each case reads, without those that are queries within."""
MIN_INPUTS: Final = {case: len(names) for case, names in INPUTS.items()} | {"group_map": 1, "project": 0}
"""How many of them there have to be: a select list may have none."""
