"""The passes for Spark Connect plans: read by the walk, and every text within goes the way of all SQL.

One evaluation is asked for the whole plan, so that all missing privileges are told at once and a policy on
what may not be read together sees everything that is.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gateway.model.catalog import TableName
from gateway.model.reading import NotParsed
from gateway.model.spark_minors import minor_of
from gateway.model.statement import NeedsCatalog, PlanRequest, Statement
from gateway.pipeline.judging import (
    Judging,
    Refusal,
    access_denied,
    columns_read_together,
    list_commanded_tables,
    list_unknown_tables,
    not_governable,
    refuse_unparsed,
    to_promote,
)
from gateway.pipeline.pace import in_turn
from gateway.pipeline.places import authorize_places
from gateway.pipeline.plan_merges import find_plan_target
from gateway.pipeline.plan_outcomes import PlanOutcome, RewrittenPlan
from gateway.pipeline.plan_scripts import govern_command_script
from gateway.pipeline.plan_texts import PlanTexts, misread_plan, prepare_texts, usage_of_plan, words_of
from gateway.pipeline.rewrite_plans import DecidedPlan, rewrite_and_prove_plan
from gateway.pipeline.rights import Accessing, own_rights
from gateway.pipeline.seeing import ColumnAccess, authorize_columns, authorize_tables
from gateway.pipeline.texts import authorize_required, find_functions
from gateway.plan import unread
from gateway.plan.analyse import WordMeanings
from gateway.plan.facts import PlanFacts, facts_of
from gateway.plan.guard import bytes_of
from gateway.plan.niladic_functions import functions_among
from gateway.plan.reading import MalformedPlan, PlanReading
from gateway.plan.rendering import Rendering, render_message
from gateway.plan.walk import read_plan
from gateway.sql.analyse import Silent, Usage
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.names import Names
from gateway.sql.required import Unsupported

_POSITION = re.compile(r" \(line \d+, pos \d+\)")


async def govern_plan(
    statement: Statement, request: PlanRequest, judging: Judging
) -> PlanOutcome | NeedsCatalog:
    """Run every pass on a plan."""
    reading = await in_turn(lambda: read_plan(request, minor_of(judging.reader.spark_version)))
    if isinstance(reading, MalformedPlan):
        sqlstate = "54001" if reading.code.startswith("TOO_") else "08P01"
        return PlanOutcome("", Refusal(code=reading.code, sqlstate=sqlstate, message=reading.why))
    if isinstance(reading, Unsupported):
        return PlanOutcome(unread.render_plan(request), await _refusal(reading, judging))
    message = reading.message
    rendering = await in_turn(lambda: render_message(message))
    end = await _Plan(statement, judging, reading, rendering).govern()
    if isinstance(end, NeedsCatalog):
        return end
    if isinstance(end, Refusal):
        end = replace(end, plan_class=reading.root)
    return PlanOutcome(rendering.text, end, reading.named, reading.lazy, reading.references_plan_ids)


async def _refusal(refusal: Unsupported, judging: Judging) -> Refusal:
    """Say why a plan cannot pass; of a name that Spark cannot read either, in its parser's words."""
    if refusal.name is not None:
        told = await judging.reader.read(f"TABLE {refusal.name}" if refusal.name.strip() else "")
        if isinstance(told, NotParsed):
            return replace(refuse_unparsed(told), message=_POSITION.sub("", told.paragraph))
    return not_governable(refusal)


class _Plan:
    """One plan under judgement."""

    def __init__(
        self, statement: Statement, judging: Judging, reading: PlanReading, rendering: Rendering
    ) -> None:
        context = statement.context
        self.context = context if context.endpoint == "connect" else replace(context, endpoint="connect")
        self.judging = judging
        self.reading = reading
        self.rendering = rendering
        catalog = judging.snapshot.catalog
        self.names = Names(self.context, catalog.catalogs, catalog.sources, catalog.listed, global_views=True)
        self.evaluation: Evaluation = judging.evaluation()
        self.accessing = Accessing(own_rights(judging.principal), self.evaluation)
        self.evaluation.context = replace(self.evaluation.context, request_data=rendering.text)
        if reading.analysis:  # RULE (analysis-visible-columns)
            # It returns no rows: the schema of a table is what may be seen of it.
            self.evaluation.star_shows_visible = True

    async def govern(self) -> RewrittenPlan | Refusal | NeedsCatalog:
        script = await govern_command_script(self.reading, self.context, self.judging)
        if script is not None:
            return script
        original, facts = await in_turn(
            lambda: (bytes_of(self.reading.message), facts_of(self.reading, self.names))
        )
        if isinstance(facts, Unsupported):
            return await _refusal(facts, self.judging)
        texts = await prepare_texts(self.reading, self.context, self.judging, self.evaluation)
        if isinstance(texts, Refusal | NeedsCatalog):
            return texts
        called = find_functions(facts.short_functions, self.names, self.evaluation, self.judging)
        if not isinstance(called, tuple):
            return called
        if called:  # RULE (execute-plan-short-function)
            facts = replace(facts, required=(*facts.required, *called))
        asked = await in_turn(lambda: self._ask(facts, texts))
        if not isinstance(asked, bool):
            return asked
        words = WordMeanings()
        usage = await in_turn(lambda: usage_of_plan(self.reading, facts, texts, self.evaluation, words))
        seen = await in_turn(lambda: self._see(facts, texts, usage))
        await in_turn(lambda: self._note_attempts(facts, texts))
        if isinstance(seen, Denied):
            return access_denied(seen, self.evaluation)
        misread = await in_turn(
            lambda: misread_plan(self.reading, facts, texts, self.evaluation, usage, self.judging)
        )
        if misread is not None:
            return access_denied(misread, self.evaluation)
        identities = functions_among(self.reading, words, followed=isinstance(usage, Usage))
        if isinstance(identities, Unsupported):
            return not_governable(identities)
        decided = DecidedPlan(
            context=self.context,
            judging=self.judging,
            reading=self.reading,
            rendering=self.rendering,
            names=self.names,
            evaluation=self.evaluation,
            rights=self.accessing.rights,
            facts=facts,
            texts=texts,
            usage=usage,
            seen=seen,
            original=original,
            exists=asked,
            words=words,
            identities=identities,
            meanings=texts.meanings(words),
        )
        return await rewrite_and_prove_plan(decided)

    def _ask(self, facts: PlanFacts, texts: PlanTexts) -> bool | Refusal | NeedsCatalog:
        """Put everything that is wanted to the policies; return whether what is asked for may be known."""
        evaluation, judging = self.evaluation, self.judging
        evaluation.require(facts.required)  # RULE (plan-privileges)
        # RULE (plan-tables-visible)
        evaluation.visibility(one.name for one in facts.reads if one.name is not None)
        for prepared in texts.all:
            authorize_required(prepared, self.accessing)  # RULE (plan-texts-privileges)
        secrets = [part.secret for part in facts.parts if part.secret is not None]
        known = [evaluation.knows_of(secret) for secret in secrets]
        if (denied := evaluation.build_denial()) is not None:
            return access_denied(denied, evaluation)
        tables: list[TableName] = [one.name for one in facts.reads if one.name is not None]
        tables += [*list_commanded_tables(facts.commanded), *(name for p in texts.all for name in p.tables)]
        tables += [name for p in texts.all for name in to_promote(p.required)]
        if unknown := tuple(dict.fromkeys((*evaluation.unsure, *judging.list_unknown(tables)))):
            return list_unknown_tables(unknown, [p.required for p in texts.all])
        wanted = (*facts.required, *(one for p in texts.all for one in p.required.privileges))
        placed = authorize_places(wanted, evaluation, judging)
        if placed is not None:
            return placed
        return all(known)  # RULE (plan-unknown-is-absent)

    def _see(
        self, facts: PlanFacts, texts: PlanTexts, usage: Usage | Silent
    ) -> tuple[ColumnAccess, ...] | Denied:
        """Decide on the columns that are used: of the reads first, then of each text."""
        evaluation = self.evaluation
        reads = [one.name for one in facts.reads if one.name is not None]
        every = [*reads, *(name for p in texts.all for _, name in p.scans)]
        found = columns_read_together(usage, every, self.judging.snapshot)
        if isinstance(usage, Silent):
            parts = [
                columns_read_together(texts.usage(p), [n for _, n in p.scans], self.judging.snapshot)
                for p in texts.all
            ]
            found = columns_read_together(usage, reads, self.judging.snapshot).union(*parts)
        evaluation.context = replace(evaluation.context, accessed_together=found)
        seen: list[ColumnAccess] = []
        refusal: Denied | None = None
        for step in (None, *texts.all):
            if step is None:
                target = find_plan_target(facts, texts, self.reading, evaluation)
                changed = () if target is None else (target,)
                one = authorize_tables((*reads, *changed), usage, self.accessing)
            else:
                one = authorize_columns(
                    step, usage if isinstance(usage, Usage) else texts.usage(step), self.accessing
                )
            if isinstance(one, Denied):
                refusal = refusal or one
            else:
                seen.append(one)
        return refusal or evaluation.build_denial() or tuple(seen)

    def _note_attempts(self, facts: PlanFacts, texts: PlanTexts) -> None:
        """Record the denial of hidden columns that the plan names, and that Spark will not find."""
        names = [one.name for one in facts.reads if one.name is not None]
        names += [name for p in texts.all for _, name in p.scans]
        # Of tables that hide nothing no word is looked at.
        hides = self.evaluation.hides_columns(names)
        if hides and self.evaluation.may_name_hidden(names, words_of(self.reading, texts)):
            known = usage_of_plan(self.reading, facts, texts, self.evaluation, hidden=True)
            self.evaluation.record_denied_columns(known)
