"""`mergeInto` a table of which the principal sees a part: it changes the rows that he sees."""

from __future__ import annotations

from gateway.model.catalog import TableName
from gateway.pipeline.judging import Judging
from gateway.pipeline.plan_texts import PlanTexts
from gateway.pipeline.policies import Policies
from gateway.pipeline.row_changes import qualify_rows
from gateway.plan.facts import PlanFacts
from gateway.plan.merging import merge_of, read_plan_merge
from gateway.plan.reading import PlanReading
from gateway.sql.evaluate import Evaluation
from gateway.sql.required import Unsupported
from gateway.sql.restricting import find_changed_table


def find_plan_target(
    facts: PlanFacts, texts: PlanTexts, reading: PlanReading, evaluation: Evaluation
) -> TableName | None:
    """Return the table that a plan merges into and of which it shall change visible rows alone."""
    required, command = facts.commanded, merge_of(reading)
    if not required.restricts or command is None:
        return None
    read = [(one.message, prepared.reading) for one, prepared in texts.expressions]
    return find_changed_table(required, evaluation, lambda: read_plan_merge(reading, read))


async def restrict_plan(
    name: TableName | None, policies: Policies, evaluation: Evaluation, judging: Judging
) -> str | Unsupported:
    """Return the filter of the table that a plan merges into, as it stands beside the source; empty where it
    has none."""
    table = evaluation.catalog.table(name) if name is not None else None
    view = policies.views[name.fold()] if name is not None else None
    if table is None or view is None or view.row_filter is None:
        return ""
    return await qualify_rows(view.row_filter.expression, table, table.name.parts, judging)
