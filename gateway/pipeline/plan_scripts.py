"""A script that comes as the text of a SqlCommand of Spark Connect, or as all of a plan: judged as it is over
HiveServer2, and written into the plan."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.statement import Findings, SessionContext
from gateway.pipeline.judging import Judging, NotRewritten, Refusal, not_governable
from gateway.pipeline.pace import in_turn
from gateway.pipeline.plan_outcomes import RewrittenPlan
from gateway.pipeline.scripts import ROOT, govern_script, is_script
from gateway.plan.guard import Edits, bytes_of
from gateway.plan.prove import prove_plan
from gateway.plan.reading import PlanReading
from gateway.plan.rendering import render
from gateway.sql.required import Unsupported


async def govern_command_script(
    reading: PlanReading, context: SessionContext, judging: Judging
) -> RewrittenPlan | NotRewritten | None:
    """Judge a plan that is nothing but a script to run; None for any other plan."""
    if len(reading.texts) != 1:
        return None
    text = reading.texts[0]
    if not text.runs_commands or not await is_script(text.text, judging):
        return None
    alone = not (reading.tables or reading.code or reading.handles or reading.urls or reading.expressions)
    if text.arguments or not alone:
        return not_governable(Unsupported("a script takes no arguments; write their values into it"))
    found = await govern_script(text.text, context, judging)
    if isinstance(found, NotRewritten):
        return replace(found, plan_class=ROOT) if isinstance(found, Refusal) else found
    original = await in_turn(lambda: bytes_of(reading.message))
    sent_back = reading.sent_back
    relation = b"" if sent_back is None else bytes_of(sent_back)
    edits = Edits()
    edits.write(text.relation.sql, "query", found.text)
    edits.queries.add(found.text)
    message = bytes_of(reading.message)
    rendered = await in_turn(lambda: render(reading.message))
    unproved = await in_turn(lambda: prove_plan(reading, original, message, edits))
    if unproved is not None:
        return not_governable(Unsupported("could not prove that the rewritten plan is the one that was sent"))
    return RewrittenPlan(
        text=rendered,
        root=reading.root,
        message=message,
        texts=(text.text,),
        original_relation=relation,
        code=(),
        effects=found.required.effects,
        checkpoint=None,
        read_only=False,
        **Findings.list_fields(found),
    )
