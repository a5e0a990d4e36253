"""The metric views that a plan reads: those that Spark reads by name, and those that are written out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.model.reading import ExpressionNode, Span
from gateway.model.statement import NeedsCatalog
from gateway.pipeline.guarded_plans import place_of
from gateway.pipeline.judging import Judging, Refusal, RewrittenStatement
from gateway.pipeline.metrics import measures_of, metrics_of, needs_writing, query_of_rows
from gateway.pipeline.plan_texts import PlanTexts
from gateway.pipeline.sources import ReadSources
from gateway.plan.facts import PlanFacts
from gateway.plan.guard import Edits
from gateway.plan.metrics import PlanMeasures, has_measure, names_inputs, plan_measures, write_measures
from gateway.plan.reading import PlanReading
from gateway.sql.evaluate import list_hidden_columns
from gateway.sql.metrics import (
    INPUT,
    calls_measure,
    expand_metric_view,
    not_ones_own,
    refuse_combined_metric_view,
    write_typed_query,
)
from gateway.sql.required import Unsupported


@dataclass(frozen=True, slots=True)
class WrittenReads:
    """What stands for the metric views of a plan, and for the measures in it."""

    queries: Mapping[Span, tuple[str, RewrittenStatement]] = field(default_factory=dict)
    """By the place of the read: the query, and the text of the view as it is in it."""
    measures: tuple[tuple[PlanMeasures, Mapping[str, str]], ...] = ()

    def write(self, edits: Edits) -> None:
        for found, expressions in self.measures:
            write_measures(found, expressions, edits)


async def write_out_reads(
    reading: PlanReading,
    facts: PlanFacts,
    texts: PlanTexts,
    sources: ReadSources,
    judging: Judging,
    original: bytes,
) -> WrittenReads | Unsupported | Refusal | NeedsCatalog:
    """Write out the metric views that a plan reads, where that has to be; see `pipeline.metrics`."""
    policies, bodies, barred = sources.policies, sources.bodies, sources.barred
    trees = {id(one.message): prepared.reading.tree for one, prepared in texts.expressions}
    queries: dict[Span, tuple[str, RewrittenStatement]] = {}
    measures: list[tuple[PlanMeasures, Mapping[str, str]]] = []

    def tree_of(message: object) -> ExpressionNode | None:
        return trees.get(id(message))

    for position, read in enumerate(facts.reads):
        name = read.name
        table = None if name is None else judging.snapshot.catalog.table(name)
        view = None if name is None else policies.views[name.fold()]
        if name is None or table is None or view is None or metrics_of(table) is None:
            continue
        folded = name.fold()
        if not needs_writing(name, table, view, bodies.get(folded), barred, personal=True):
            continue
        if read.read.streaming or read.read.options or read.read.changes:
            return refuse_combined_metric_view(table)
        # A text may name one by IDENTIFIER(…), in which signs can be written otherwise.
        # RULE (plan-metric-input-names, plan-metric-identifier)
        if names_inputs(original) or any(INPUT in prepared.text for prepared in texts.all):
            return not_ones_own()
        hidden = frozenset(one.lower() for one in list_hidden_columns(table, view))
        found = plan_measures(reading.message, read.read.relation, table, hidden, tree_of)
        body = bodies.get(folded)
        if isinstance(found, Unsupported) and body is not None and _is_shape(reading, texts):
            shown = write_typed_query(table, hidden)
            if isinstance(shown, Unsupported):
                return shown
            queries[place_of(position)] = (shown, body)
            continue
        if isinstance(found, Unsupported):
            return found
        computed = await measures_of(table, found.measures, hidden, judging)
        if isinstance(computed, Unsupported):
            return computed
        rows = await sources.reads.rows(table, query_of_rows(table, computed))
        if not isinstance(rows, RewrittenStatement):
            return rows
        query = expand_metric_view(
            table,
            view,
            found.measures,
            computed.inputs,
            rows.text,
            period=judging.period if folded in policies.reading else 0,
            barrier=folded in barred,
            bare=judging.bare_builtins,
        )
        if isinstance(query, Unsupported):
            return query
        queries[place_of(position)] = (query, rows)
        measures.append((found, computed.expressions))
    return WrittenReads(queries, tuple(measures))


def _is_shape(reading: PlanReading, texts: PlanTexts) -> bool:
    """Whether nothing but columns is asked for, and none that is computed as a measure."""
    called = any(calls_measure(prepared.reading.functions) for prepared in texts.all)
    return reading.shape and not called and not has_measure(reading.message)
