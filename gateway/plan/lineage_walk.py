"""The walk over the relations of a plan: what each gives, bottom-up, once, without recursion.

What it does not know raises Unclear, and the plan gets table-level lineage. Only queries within expressions
and lateral joins recurse, and SQL that reads relations of the plan; how deeply and how often is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import cast

from gateway.algebra.lineage_values import NO_DEPENDENCIES, RelationRows, Value
from gateway.algebra.usage import Unclear
from gateway.model.lineage import StatementLineage
from gateway.plan.lineage_expressions import TextsById
from gateway.plan.lineage_generators import generate_columns
from gateway.plan.lineage_joins import TwoInputs
from gateway.plan.lineage_relations import Outer, names_of_type, of_whole
from gateway.plan.lineage_sources import columns_in, local_names
from gateway.plan.lowering import INPUTS
from gateway.plan.reading import PlanReading
from gateway.plan.references import ids_bound, names_bound
from gateway.plan.walk_sources import is_registrable
from gateway.sql.lineage_extraction import Bound, Extraction
from gateway.sql.lineage_scope import (
    Attribute,
    Environment,
    Frame,
    LineageRelation,
    Open,
)
from gateway.sql.names import Names
from gateway.wire.connect import Message, pb

MAX_NESTED = 20
"""Queries within queries; each is a level of recursion."""
MAX_FOLLOWED_DUPLICATES = 64
"""Relations of one id, as in a join of a DataFrame with itself, that a column of it may be of."""


class PlanLineageWalk(TwoInputs):
    """One walk over one plan."""

    def __init__(
        self,
        reading: PlanReading,
        texts: TextsById,
        names: Names,
        kept: Mapping[str, StatementLineage],
        extraction: Extraction,
    ) -> None:
        super().__init__(extraction, texts)
        self.names = names
        self.kept = kept
        self._parts = {id(read.relation): read.parts for read in reading.tables}
        self._references: dict[int, pb.Relation] = {}
        """Relations that subqueries refer to by their plan_id."""
        self._aliases: dict[str, pb.Relation] = {}
        self._by_id: dict[int, list[Frame]] = {}
        """What relations give, by their plan_id, in the order of the walk."""
        self._nested = 0

    # ---------------------------------------------------------------- relations

    def relation(self, root: pb.Relation, outer: Outer) -> Frame:
        """Walk a relation and those that it reads, and return what it gives."""
        self.extraction.budget.step()
        order: list[_Step] = []
        stack = [root]
        while stack:
            step = self._step(stack.pop())
            order.append(step)
            stack += step.inputs
        self.spend(len(order))
        results: list[Frame] = []
        for step in reversed(order):
            count = len(step.inputs)
            inputs = results[len(results) - count :]
            del results[len(results) - count :]
            frame = self._build_frame(step, inputs, outer)
            if step.relation.common.HasField("plan_id"):
                self._by_id.setdefault(step.relation.common.plan_id, []).append(frame)
            results.append(frame)
        return results[0]

    def _step(self, relation: pb.Relation) -> _Step:
        case = relation.WhichOneof("rel_type") or ""
        message: Message = getattr(relation, case) if case else relation
        if case == "set_op":
            chain = [relation.set_op]
            while chain[-1].left_input.WhichOneof("rel_type") == "set_op":
                chain.append(chain[-1].left_input.set_op)
            chain.reverse()
            inputs = [chain[0].left_input, *(each.right_input for each in chain)]
            return _Step(relation, case, message, inputs, chain)
        if case == "with_relations":
            self.bind(relation.with_relations)
        names = INPUTS.get(case, ())
        if case == "group_map" and not relation.group_map.HasField("initial_input"):
            names = names[:1]
        return _Step(relation, case, message, [getattr(message, name) for name in names])

    def _build_frame(self, step: _Step, inputs: list[Frame], outer: Outer) -> Frame:
        case = step.case
        if case == "set_op":
            return self.set_operations(step.chain, inputs, outer)
        if (one := _ONE.get(case)) is not None:
            return one(self, step.message, inputs[0], outer)
        if (several := _SEVERAL.get(case)) is not None:
            return several(self, step.message, inputs, outer)
        if (leaf := _LEAVES.get(case)) is not None:
            return Frame(leaf(self, step.relation, step.message, outer))
        raise Unclear(f"column analysis does not understand {case or 'an empty relation'}")

    # ---------------------------------------------------------------- relations that read no other

    def _read(self, relation: pb.Relation, read: pb.Read, outer: Outer) -> LineageRelation:
        sources = self.extraction.sources
        if read.WhichOneof("read_type") == "named_table":
            return sources.scan(self._parts[id(relation)], self.names)
        source = read.data_source
        columns = columns_in(source.schema) if source.HasField("schema") else []
        paths = paths_of(source)
        if paths and not is_registrable(source.format or "parquet"):
            return sources.files(paths, columns)
        names = [name for name, _ in columns]
        return of_whole(names, Value(NO_DEPENDENCIES), RelationRows()).relation()

    def _changes(self, relation: pb.Relation, changes: pb.RelationChanges, outer: Outer) -> LineageRelation:
        found = self.extraction.sources.scan(self._parts[id(relation)], self.names)
        return LineageRelation(found.attributes, found.rows, [*found.opens, Open((), None)])

    def _sql(self, relation: pb.Relation, sql: pb.SQL, outer: Outer) -> LineageRelation:
        text, bound = self.text(relation)
        found = self.extraction.query(text, bound)
        attributes = [Attribute(a.name, a.value) for a in found.attributes if not a.hidden]
        return LineageRelation(attributes, found.rows, [Open((), o.scan, o.value) for o in found.opens])

    def _range(self, relation: pb.Relation, message: pb.Range, outer: Outer) -> LineageRelation:
        return LineageRelation([Attribute("id", Value(NO_DEPENDENCIES))], RelationRows())

    def _local(self, relation: pb.Relation, local: pb.LocalRelation, outer: Outer) -> LineageRelation:
        return of_whole(local_names(local), Value(NO_DEPENDENCIES), RelationRows()).relation()

    def _opaque(self, relation: pb.Relation, message: Message, outer: Outer) -> LineageRelation:
        """Return data that come from no table: what the client has sent before, and the like."""
        return of_whole([], Value(NO_DEPENDENCIES), RelationRows()).relation()

    def _resolve_cached(
        self, relation: pb.Relation, message: pb.CachedRemoteRelation, outer: Outer
    ) -> LineageRelation:
        made = self.kept.get(message.relation_id)
        if made is None:
            raise Unclear("a relation cached in the session, whose lineage is not known")
        return self.extraction.sources.resolve_cached(made)

    def _function(
        self, relation: pb.Relation, call: pb.UnresolvedTableValuedFunction, outer: Outer
    ) -> LineageRelation:
        place = outer or Environment(Frame())
        types = [self.type_of(argument, place) for argument in call.arguments[:]]
        value = self.operands(call.arguments, place)
        found = generate_columns(call, value, types)
        return LineageRelation(found.attributes, RelationRows(parents=list(value.rows)), found.opens)

    def _user_function(
        self, relation: pb.Relation, call: pb.CommonInlineUserDefinedTableFunction, outer: Outer
    ) -> LineageRelation:
        value = self.operands(call.arguments, outer or Environment(Frame()))
        names = names_of_type(call.python_udtf.return_type)
        return of_whole(names, value, RelationRows(parents=list(value.rows))).relation()

    # ---------------------------------------------------------------- references by id and by alias

    def by_plan_id(self, plan_id: int) -> Sequence[Frame]:
        """Return relations of an id, those first that were walked last: they are below, or nearest."""
        return self._by_id.get(plan_id, [])[: -MAX_FOLLOWED_DUPLICATES - 1 : -1]

    def bind(self, message: pb.WithRelations) -> None:
        """Bind what stands beside a relation; it is walked where it is used, within the place of its use."""
        self._references.update(ids_bound(message))
        self._aliases.update((name.lower(), reference) for name, reference in names_bound(message))

    def bind_names(self, names: Iterable[str]) -> Bound:
        return {name: partial(self._apply_alias, name) for name in names}

    def _apply_alias(self, name: str) -> LineageRelation:
        if name not in self._aliases:
            raise Unclear(f"`{name}` is not bound")
        return self.lateral(self._aliases[name], None).relation()

    def subquery(self, plan_id: int, place: Environment) -> Frame:
        reference = self._references.get(plan_id)
        if reference is None:
            raise Unclear("a subquery refers to a relation that is not a sibling")
        return self.lateral(reference, place)

    def lateral(self, relation: pb.Relation, place: Outer) -> Frame:
        if self._nested >= MAX_NESTED:  # RULE (lineage-nested-bound)
            raise Unclear("the plan has too many nested queries")
        self._nested += 1
        frame = self.relation(relation, place)
        self._nested -= 1
        return frame


class _Step:
    """A relation that is to be walked, and what it reads."""

    __slots__ = ("case", "chain", "inputs", "message", "relation")

    def __init__(
        self,
        relation: pb.Relation,
        case: str,
        message: Message,
        inputs: Sequence[pb.Relation],
        chain: Sequence[pb.SetOperation] = (),
    ) -> None:
        self.relation, self.case, self.message = relation, case, message
        self.inputs, self.chain = inputs, chain


def paths_of(source: pb.Read.DataSource) -> list[str]:
    """Return the locations of the files that are read."""
    return [*source.paths[:], *(value for key, value in source.options.items() if key.lower() == "path")]


# Called with the message of their case only; a test compares them with the cases of `LineageRelation`.
_ONE = cast(
    "Mapping[str, Callable[[PlanLineageWalk, Message, Frame, Outer], Frame]]",
    {
        **dict.fromkeys(
            (
                "limit", "offset", "tail", "sample", "repartition", "repartition_by_expression", "hint",
                "show_string", "html_string", "with_relations", "collect_metrics", "with_watermark",
            ),
            PlanLineageWalk.same,
        ),
        "project": PlanLineageWalk.projection,
        "filter": PlanLineageWalk.filter,
        "sort": PlanLineageWalk.sort,
        "aggregate": PlanLineageWalk.aggregate,
        "deduplicate": PlanLineageWalk.deduplicate,
        "subquery_alias": PlanLineageWalk.subquery_alias,
        "to_df": PlanLineageWalk.to_df,
        "to_schema": PlanLineageWalk.to_schema,
        "with_columns": PlanLineageWalk.with_columns,
        "with_columns_renamed": PlanLineageWalk.with_columns_renamed,
        "drop": PlanLineageWalk.drop,
        "unpivot": PlanLineageWalk.unpivot,
        "transpose": PlanLineageWalk.transpose,
        "parse": PlanLineageWalk.parse,
        "map_partitions": PlanLineageWalk.map_partitions,
        "apply_in_pandas_with_state": PlanLineageWalk.apply_in_pandas_with_state,
        "fill_na": PlanLineageWalk.fill_na,
        "drop_na": PlanLineageWalk.drop_na,
        "replace": PlanLineageWalk.replace,
        "sample_by": PlanLineageWalk.sample_by,
        "describe": PlanLineageWalk.describe,
        "summary": PlanLineageWalk.describe,
        "crosstab": PlanLineageWalk.crosstab,
        "cov": PlanLineageWalk.statistic,
        "corr": PlanLineageWalk.statistic,
        "approx_quantile": PlanLineageWalk.approx_quantile,
        "freq_items": PlanLineageWalk.freq_items,
    },
)  # fmt: skip
_SEVERAL = cast(
    "Mapping[str, Callable[[PlanLineageWalk, Message, Sequence[Frame], Outer], Frame]]",
    {
        "join": PlanLineageWalk.join,
        "as_of_join": PlanLineageWalk.as_of_join,
        "nearest_by_join": PlanLineageWalk.nearest_by_join,
        "zip": PlanLineageWalk.zip,
        "lateral_join": PlanLineageWalk.lateral_join,
        "group_map": PlanLineageWalk.group_map,
        "co_group_map": PlanLineageWalk.co_group_map,
    },
)
_LEAVES = cast(
    "Mapping[str, Callable[[PlanLineageWalk, pb.Relation, Message, Outer], LineageRelation]]",
    {
        "read": PlanLineageWalk._read,
        "relation_changes": PlanLineageWalk._changes,
        "sql": PlanLineageWalk._sql,
        "range": PlanLineageWalk._range,
        "local_relation": PlanLineageWalk._local,
        "cached_local_relation": PlanLineageWalk._opaque,
        "chunked_cached_local_relation": PlanLineageWalk._opaque,
        "common_inline_user_defined_data_source": PlanLineageWalk._opaque,
        "cached_remote_relation": PlanLineageWalk._resolve_cached,
        "unresolved_table_valued_function": PlanLineageWalk._function,
        "common_inline_user_defined_table_function": PlanLineageWalk._user_function,
    },
)
NOT_FOLLOWED = frozenset({"catalog", "ml_relation", "extension", "unknown"})
"""Relations whose columns are those of no table, or of objects that nobody can look into."""
