"""Gathers what the lineage of a Connect plan is made of: readings of the SQL within it, tables, views.

By itself, because whoever imports it imports Spark Connect's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.lineage.gathering import Gatherer, names_of
from gateway.model.catalog import TableName
from gateway.model.lineage import StatementLineage
from gateway.model.reading import NotRead, Reading
from gateway.model.statement import PlanRequest, SessionContext
from gateway.plan.arguments import names_by_argument, with_named_arguments
from gateway.plan.lineage import LineagePlan, plan_lineage, plan_table_lineage, table_written
from gateway.plan.reading import MalformedPlan, PlanReading, SqlText
from gateway.plan.walk import read_plan
from gateway.sql.lineage import LineageCatalog, LineageText
from gateway.sql.names import Names
from gateway.sql.required import Unsupported


@dataclass(frozen=True, slots=True)
class GatheredPlan:
    """All that `plan_lineage` needs of one plan."""

    plan: LineagePlan
    catalog: LineageCatalog

    def lineage(self) -> StatementLineage | None:
        return plan_lineage(self.plan, self.catalog)

    def table_lineage(self, why: str) -> StatementLineage | None:
        return plan_table_lineage(self.plan, self.catalog, why)


async def gather_plan(
    gatherer: Gatherer,
    request: PlanRequest,
    context: SessionContext,
    temp_views: Mapping[str, StatementLineage],
    kept: Mapping[str, StatementLineage],
    masks: Mapping[TableName, frozenset[str]],
) -> GatheredPlan | MalformedPlan | Unsupported | NotRead:
    """Return a plan with what its names stand for, or why it is none that runs.

    `kept`: lineage of the plans that made relations that Spark keeps, by their ids. Raises what the look-up
    raises.
    """
    reading = read_plan(request)
    if not isinstance(reading, PlanReading):
        return reading
    names = Names(context, gatherer.known_catalogs)
    statements = tuple([await _statement(gatherer, text, context) for text in reading.texts])
    expressions = tuple(
        [_read(await gatherer.text(one.text, context, expression=True)) for one in reading.expressions]
    )
    written = table_written(reading, names)
    wanted = {written} if written is not None else set()
    for read in reading.tables:
        meaning = names.table(read.parts)
        if isinstance(meaning, TableName):
            wanted.add(meaning.fold())
    for text in (*statements, *expressions):
        wanted |= names_of(text) if text is not None else set()
    plan = LineagePlan(
        request=request, names=names, statements=statements, expressions=expressions, kept=kept
    )
    catalog = await gatherer.catalog(wanted, temp_views, masks)
    return catalog if isinstance(catalog, NotRead) else GatheredPlan(plan, catalog)


async def _statement(gatherer: Gatherer, text: SqlText, context: SessionContext) -> LineageText | None:
    written = text.text
    if names_by_argument(text):
        reading = await gatherer.reader.read(written)
        written = with_named_arguments(text, reading) if isinstance(reading, Reading) else written
    return _read(await gatherer.text(written, context))


def _read(text: object) -> LineageText | None:
    return text if isinstance(text, LineageText) else None
