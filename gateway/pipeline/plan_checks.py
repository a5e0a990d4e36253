"""Row filters that are asked of what a DataFrame writes."""

from __future__ import annotations

from dataclasses import dataclass

from gateway.model.statement import NeedsCatalog
from gateway.pipeline.judging import Judging
from gateway.pipeline.policies import Policies
from gateway.pipeline.row_checks import (
    NO_CHECKS,
    explain_unchecked,
    find_checks,
    list_written,
)
from gateway.plan.checking import FrameCheck, check_frame, find_frame_write
from gateway.plan.facts import PlanFacts
from gateway.plan.reading import PlanReading
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.required import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCheck:
    """What stands in a plan for the check of what it writes."""

    frame: FrameCheck | None = None
    policies: Policies = NO_CHECKS.policies


NO_CHECK = PlanCheck()


async def check_plan(
    facts: PlanFacts, reading: PlanReading, evaluation: Evaluation, judging: Judging
) -> PlanCheck | Unsupported | Denied | NeedsCatalog:
    """Return what has the filter of a table asked of the rows that a plan writes to it."""
    if reading.command is None:
        return NO_CHECK
    found = await find_checks(list_written(facts.commanded, makes=True), evaluation, judging)
    if not isinstance(found, list):
        return found
    if not found:
        return NO_CHECK
    one, write = found[0], find_frame_write(reading)
    if write is None:
        # RULE (check-other-plan-writes)
        return explain_unchecked(
            one.check.table.name, "Use insertInto, writeTo(…).append(), or UPDATE and MERGE in SQL."
        )
    frame = check_frame(write, one.check, bare=judging.bare_builtins)
    if isinstance(frame, Unsupported):
        return frame
    return PlanCheck(frame=frame, policies=one.policies)
