"""The metric views that a text reads: those that Spark reads by name, and those that are written out.

Where nobody has an obligation on a metric view or on what it reads, the statement goes on as it is. Else the
view's dimensions, and what its measures are computed from, are read as a view's text is, by its definer's
access, and MEASURE(…) becomes what it stands for (docs/adr/0039).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.model.catalog import MetricDefinition, Table, TableName
from gateway.model.reading import ExpressionNode, Reading, RelationRole, Span, Splice
from gateway.model.statement import NeedsCatalog
from gateway.pipeline.judging import Judging, JudgingOutcome, Refusal, RewrittenStatement, access_denied
from gateway.pipeline.kept import write_nested_text
from gateway.pipeline.policies import Policies, deny_show_only
from gateway.pipeline.seeing import Prepared, TextScope
from gateway.policy.engine import TableView
from gateway.reader.port import ReaderPort
from gateway.sql import guard
from gateway.sql.evaluate import list_hidden_columns
from gateway.sql.guard import has_obligations
from gateway.sql.metric_views import MAX_YAML_CHARS, UnreadMetrics, find_source, query_of, read_metrics
from gateway.sql.metrics import (
    ComputedMeasures,
    MeasureCall,
    answers_nothing,
    calls_measure,
    expand_metric_view,
    inputs_within,
    measure_calls,
    measure_splices,
    not_ones_own,
    write_measures,
    write_typed_query,
)
from gateway.sql.names import Names
from gateway.sql.required import Unsupported

RowsOf = Callable[[Table, str], Awaitable[JudgingOutcome]]
"""Governs a query over what a metric view reads, by the access by which its own text is read."""


@dataclass(frozen=True, slots=True)
class WrittenOut:
    """What stands for the metric views of a text, and for the measures in it."""

    queries: Mapping[Span, str] = field(default_factory=dict)
    """By the place of the view."""
    bodies: tuple[RewrittenStatement, ...] = ()
    splices: tuple[Splice, ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    """(What we wrote, what the user wrote) pairs for messages."""

    def contains(self, span: Span) -> bool:
        """Whether a place lies in what is replaced."""
        return any(one.span.start <= span.start and span.end <= one.span.end for one in self.splices)


NONE: Final = WrittenOut()


def metrics_of(table: Table | None) -> MetricDefinition | None:
    """Return what a metric view is made of; None for everything else."""
    return table.view.metrics if table is not None and table.view is not None else None


def needs_writing(
    name: TableName,
    table: Table,
    view: TableView,
    body: RewrittenStatement | None,
    barred: AbstractSet[TableName],
    *,
    personal: bool,
) -> bool:
    """Whether somebody has an obligation on a metric view, or on what it reads, or may not see by himself
    what it reads: Spark, which reads it by name, would know nothing of these."""
    # RULE (metric-written-out)
    return (
        has_obligations(table, view)
        or not view.uniform()
        or name.fold() in barred
        or write_nested_text(body, personal=personal) is not None  # RULE (metric-inner-obligation)
    )


CREATES: Final = "CreateMetricView"
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


async def write_source_names(text: str, reading: Reading, names: Names, reader: ReaderPort) -> str | None:
    """Return a statement that makes a metric view, with the whole names of the tables that its source names
    without a database; None where it has none, or where they cannot be written.

    Spark keeps no database with a metric view: the text that is judged and sent is the one with whole names.
    """
    command = next((one for one in reading.commands if one.node == CREATES), None)
    stored = None if command is None else command.fields.get("originalText")
    if not isinstance(stored, str) or len(stored) > MAX_YAML_CHARS or text.count(stored) != 1:
        return None
    place = find_source(stored)
    if place is None:
        return None
    source = stored[slice(*place)]
    queried = source if _PLAIN.fullmatch(source) is None else f"TABLE {source}"
    read = await reader.read(queried)
    if not isinstance(read, Reading) or read.commands:
        return None
    splices = []
    for relation in read.relations:
        if relation.role is not RelationRole.SCAN or len(relation.parts) != 1:
            continue
        name = names.table(relation.parts)
        whole = name.parts if isinstance(name, TableName) else ()
        if relation.span is None or not whole or not all(map(_PLAIN.fullmatch, whole)):
            return None
        splices.append(Splice(span=relation.span, text=".".join(whole), kind="pin", parts=whole))
    if not splices:
        return None
    written = guard.apply(queried, splices).removeprefix("TABLE " if queried != source else "")
    at = text.index(stored) + place[0]
    return f"{text[:at]}{written}{text[at + len(source) :]}"


async def source_refusal(metrics: MetricDefinition, text: str, judging: Judging) -> Unsupported | None:
    """Say why what a metric view reads is not sure; `text`: the query that says it.

    INVARIANT (a name is judged as it will be resolved): Spark keeps no database with a metric view, and finds
    a name without one in whatever session reads it, among its temporary views too.
    """
    parts = (*metrics.dimensions, *metrics.measures, *((("filter", metrics.where),) if metrics.where else ()))
    for name, expression in parts:
        if not isinstance(await judging.reader.read_expression(expression), Reading):
            return Unsupported(f"`{name}` is not an expression")
    queried = metrics.source[1:-1] if metrics.source.startswith("(") else f"TABLE {metrics.source}"
    if not isinstance(await judging.reader.read(queried), Reading):
        return Unsupported("its source is neither a table name nor a query")
    reading = await judging.reader.read(text)
    if not isinstance(reading, Reading):
        return Unsupported("it cannot be parsed")
    for relation in reading.relations:
        if relation.role is RelationRole.SCAN and len(relation.parts) == 1:  # RULE (metric-one-meaning)
            return Unsupported(
                f"it refers to `{relation.parts[0]}` without a database, which resolves in the session "
                "that reads the view; write catalog.database.table"
            )
    for function in reading.functions:
        if not function.builtin and len(function.parts) == 1:
            return Unsupported(
                f"the function `{function.parts[0]}` resolves in the session that reads the view"
            )
    return None


async def write_out(
    prepared: Prepared,
    policies: Policies,
    bodies: Mapping[TableName, RewrittenStatement],
    barred: AbstractSet[TableName],
    rows_of: RowsOf,
    judging: Judging,
    *,
    personal: bool,
) -> WrittenOut | Unsupported | Refusal | NeedsCatalog:
    """Write out the metric views of a text that have to be. `personal`: the user's name is written in."""
    views: dict[Span, Table] = {}
    for relation, name in prepared.scans:
        table, view = judging.snapshot.catalog.table(name), policies.views[name.fold()]
        if table is None or view is None or metrics_of(table) is None:
            continue
        if not needs_writing(name, table, view, bodies.get(name.fold()), barred, personal=personal):
            continue
        if relation.span is None or relation.suffix is not None or prepared.place.expression:
            return Unsupported(
                f"{name} is a metric view with policies, and cannot be expanded in this "
                "place; read it in the FROM clause of a SELECT"
            )
        views[relation.span] = table
    if not views:
        return NONE
    # INVARIANT (what measures are computed from is not shown): the parser's columns are not all that may name
    # one: in a lambda function it could be a variable. What IDENTIFIER(…) writes otherwise is among them.
    depth = prepared.place.depth
    own = inputs_within(depth)
    # RULE (metric-input-names, metric-lambda-names)
    if own in prepared.text or any(
        part.startswith(own) for one in prepared.reading.columns for part in one.parts
    ):
        return not_ones_own(depth)
    seen = {span: policies.views[table.name.fold()] for span, table in views.items()}
    hidden = {
        span: frozenset(name.lower() for name in list_hidden_columns(table, view))
        for span, table in views.items()
        if (view := seen[span]) is not None
    }
    tree = prepared.reading.tree
    found = measure_calls(tree, views, hidden)
    if isinstance(found, Unsupported):
        return _write_typed_relations(found, tree, prepared, views, hidden)
    queries: dict[Span, str] = {}
    splices: list[Splice] = []
    rows: list[RewrittenStatement] = []
    inputs: list[str] = []
    for span, table in views.items():
        view = seen[span]
        measures = await measures_of(table, found[span], hidden.get(span, frozenset()), judging, depth)
        if isinstance(measures, Unsupported):
            return measures
        if view is None:
            continue
        body = await rows_of(table, query_of_rows(table, measures))
        if not isinstance(body, RewrittenStatement):
            return body
        query = expand_metric_view(
            table,
            view,
            found[span],
            measures.inputs,
            body.text,
            period=judging.period if table.name.fold() in policies.reading else 0,
            barrier=table.name.fold() in barred,
            bare=judging.bare_builtins,
        )
        if isinstance(query, Unsupported):
            return query
        queries[span] = query
        inputs += [name for name, _ in measures.inputs]
        rows.append(body)
        splices += measure_splices(found[span], measures.expressions)
    words = [(splice.text, splice.span.of(prepared.text)) for splice in splices]
    # Spark proposes names of columns in place of a misspelt one.
    words += [pair for name in inputs for pair in ((f"`{name}`, ", ""), (f", `{name}`", ""))]
    return WrittenOut(queries, tuple(rows), tuple(splices), tuple(words))


def _write_typed_relations(
    why: Unsupported,
    tree: ExpressionNode | None,
    prepared: Prepared,
    views: Mapping[Span, Table],
    hidden: Mapping[Span, AbstractSet[str]],
) -> WrittenOut | Unsupported:
    """Write relations without rows for metric views where nothing is asked but what columns there are."""
    reading = prepared.reading
    # RULE (metric-shape-rows)
    shape = (prepared.place.shape and not reading.commands) or answers_nothing(tree)
    if not shape or calls_measure(reading.functions):  # RULE (metric-empty-relation)
        return why
    queries: dict[Span, str] = {}
    for span, table in views.items():
        query = write_typed_query(table, hidden.get(span, frozenset()))
        if isinstance(query, Unsupported):
            return query
        queries[span] = query
    return WrittenOut(queries)


async def measures_of(
    table: Table,
    calls: Sequence[MeasureCall],
    hidden: AbstractSet[str],
    judging: Judging,
    depth: int = 0,
) -> ComputedMeasures | Unsupported:
    """Read the measures that are called, and write them over what stands for the view."""
    metrics = metrics_of(table)
    called = {call.measure for call in calls}
    measures = {} if metrics is None else {n: text for n, text in metrics.measures if n in called}
    readings: dict[str, Reading] = {}
    for name, text in measures.items():
        reading = await judging.reader.read_expression(text)
        if not isinstance(reading, Reading):
            return Unsupported(f"the measure `{name}` of {table.name} cannot be parsed")
        readings[name] = reading
    return write_measures(table, readings, measures, hidden, depth)


def query_of_rows(table: Table, measures: ComputedMeasures) -> str:
    """Write the query whose columns are a view's dimensions and what its measures are computed from."""
    metrics = metrics_of(table)
    return "" if metrics is None else query_of(metrics, measures.inputs)


async def metric_definition(
    prepared: Prepared, judging: Judging
) -> RewrittenStatement | Unsupported | Refusal | NeedsCatalog | None:
    """Judge what a metric view that is made reads, by the access of who makes it; None where none is made.

    Masks and filters of his are no obstacle: each reader gets his own. But Spark stores the definition as it
    is, so that nothing that it reads may have columns that are hidden from him.
    """
    text, target = prepared.required.metrics, prepared.required.pins[0].table
    if not text:
        known = judging.snapshot.catalog.table(target)
        # RULE (alter-metric-view)
        if known is not None and prepared.reading.root == "AlterViewAs" and metrics_of(known) is not None:
            return Unsupported(
                f"{target} is a metric view, which ALTER VIEW … AS would break; drop and create it again"
            )
        return None
    try:
        found = read_metrics(text)
        metrics = found.with_names(found.names)
    except UnreadMetrics as why:
        return Unsupported(f"the metric view cannot be governed: {why}")
    query = query_of(metrics)
    refusal = await source_refusal(metrics, query, judging)
    if refusal is not None:
        return Unsupported(f"the metric view cannot be governed: {refusal.why}")
    context = replace(prepared.names.context, temp_views=frozenset())
    body = await judging.govern(query, context, judging, TextScope(commands=False))
    if isinstance(body, Refusal) and body.code == "SPARK":
        return Unsupported("the source of the metric view cannot be parsed")
    if not isinstance(body, RewrittenStatement):
        return body
    if body.hides_columns:  # RULE (metric-author-columns)
        return Unsupported(
            "the author of a metric view needs select on every column of the tables that it reads"
        )
    if (denied := deny_show_only(body.scans, (), judging)) is not None:
        return access_denied(denied, judging.evaluation())
    scans = tuple(replace(scan, obligations=()) for scan in body.scans)
    return replace(body, scans=scans, has_obligations=False, guarded=())
