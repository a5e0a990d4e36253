"""The passes for Spark Connect plans: read by the walk, and every text within goes the way of all SQL.

One evaluation is asked for the whole plan, so that all missing privileges are told at once and a policy on
what may not be read together sees everything that is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gateway.model.catalog import TableKind, TableName
from gateway.model.handles import PERSISTED
from gateway.model.reading import ExpressionNode, NotParsed, Span
from gateway.model.spark_minors import minor_of
from gateway.model.statement import (
    RELAY,
    AnswerRule,
    Findings,
    NeedsCatalog,
    PersistFrame,
    PlanRequest,
    ScanRecord,
    Statement,
)
from gateway.pipeline.authors import Authors, authors_of
from gateway.pipeline.barriers import Placed, QueriedViews, Query, below_query, filters_any
from gateway.pipeline.checkpoints import checkpoint_of, started_stream
from gateway.pipeline.functions import called_by, read_by
from gateway.pipeline.guarded_plans import Guarding, guard_reads, place_of, write_guards
from gateway.pipeline.judging import (
    Judging,
    Refusal,
    RewrittenStatement,
    access_denied,
    agreement,
    commanded,
    not_governable,
    to_describe_anew,
    to_promote,
    together,
    unknown_tables,
    wanted_tables,
)
from gateway.pipeline.kept import cached_view_refusal, varying_bodies
from gateway.pipeline.pace import in_turn
from gateway.pipeline.plan_metrics import WrittenReads, write_out_reads
from gateway.pipeline.plan_outcomes import PlanOutcome, RewrittenPlan
from gateway.pipeline.plan_texts import PlanTexts, misread_plan, prepare_texts, usage_of_plan, words_of
from gateway.pipeline.policies import (
    Policies,
    metadata_shown,
    names_metadata,
    plan_shown,
    policies_of,
    shown_only,
)
from gateway.pipeline.rights import Accessing, own_rights
from gateway.pipeline.seeing import (
    TOP,
    ColumnAccess,
    not_there,
    of_files,
    read_by_lists,
    scan_records,
    see,
    see_tables,
)
from gateway.pipeline.texts import (
    ask,
    finish,
    govern,
    hidden_within,
    undisclosed_names,
)
from gateway.pipeline.views import ReadViews
from gateway.plan import unread
from gateway.plan.analyse_scope import ColumnUsage
from gateway.plan.catalog_calls import DOES_NOT_EXIST
from gateway.plan.expression_trees import tree_of_plan
from gateway.plan.facts import PlanFacts, facts_of
from gateway.plan.facts import names_metadata as plan_names_metadata
from gateway.plan.guard import Edits, bind_identities, bytes_of, is_identity
from gateway.plan.prove import proved
from gateway.plan.reading import MalformedPlan, PlanReading
from gateway.plan.rendering import Rendering, render, rendered
from gateway.plan.varying import varying_plan
from gateway.plan.walk import read_plan
from gateway.plan.words import asking, functions_among
from gateway.sql.analyse import Silent, Usage
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.guard import pinned_parts
from gateway.sql.identity import IsIdentity
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.sql.varying import not_cached

_POSITION = re.compile(r" \(line \d+, pos \d+\)")
LAYING_OPEN = ("explain", "input_files")
"""Analyses that tell more of a table than is read of it."""


async def govern_plan(
    statement: Statement, request: PlanRequest, judging: Judging
) -> PlanOutcome | NeedsCatalog:
    """Run every pass on a plan."""
    reading = await in_turn(lambda: read_plan(request, minor_of(judging.reader.spark_version)))
    if isinstance(reading, MalformedPlan):
        sqlstate = "54001" if reading.code.startswith("TOO_") else "08P01"
        return PlanOutcome("", Refusal(code=reading.code, sqlstate=sqlstate, message=reading.why))
    if isinstance(reading, Unsupported):
        return PlanOutcome(unread.rendered(request), await _refusal(reading, judging))
    message = reading.message
    rendering = await in_turn(lambda: rendered(message))
    end = await _Plan(statement, judging, reading, rendering).govern()
    if isinstance(end, NeedsCatalog):
        return end
    if isinstance(end, Refusal):
        end = replace(end, plan_class=reading.root)
    return PlanOutcome(rendering.text, end, reading.named, reading.lazy, reading.by_id)


async def _refusal(refusal: Unsupported, judging: Judging) -> Refusal:
    """Say why a plan cannot pass; of a name that Spark cannot read either, in its parser's words."""
    if refusal.name is not None:
        told = await judging.reader.read(f"TABLE {refusal.name}" if refusal.name.strip() else "")
        if isinstance(told, NotParsed):
            return Refusal(code="SPARK", sqlstate=told.sqlstate, message=_POSITION.sub("", told.paragraph))
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
        self.names = Names(self.context, catalog.catalogs, catalog.sources, catalog.listed)
        self.evaluation: Evaluation = judging.evaluation()
        self.accessing = Accessing(own_rights(judging.principal), self.evaluation)
        self.words: frozenset[int] = frozenset()
        """References without brackets that ask who the user is, by the identity of their messages."""
        self.meanings: tuple[IsIdentity | None, ...] = ()
        self.evaluation.context = replace(self.evaluation.context, request_data=rendering.text)
        if reading.analysis:  # RULE (analysis-visible-columns)
            # It returns no rows: the schema of a table is what may be seen of it.
            self.evaluation.star_shows_visible = True

    async def govern(self) -> RewrittenPlan | Refusal | NeedsCatalog:
        original = await in_turn(lambda: bytes_of(self.reading.message))
        facts = await in_turn(lambda: facts_of(self.reading, self.names))
        if isinstance(facts, Unsupported):
            return await _refusal(facts, self.judging)
        texts = await prepare_texts(self.reading, self.context, self.judging, self.evaluation)
        if isinstance(texts, Refusal):
            return texts
        asked = await in_turn(lambda: self._ask(facts, texts))
        if not isinstance(asked, bool):
            return asked
        findings = asking(self.reading, texts.asking)
        usage = await in_turn(lambda: usage_of_plan(self.reading, facts, texts, self.evaluation, findings))
        seen = await in_turn(lambda: self._see(facts, texts, usage))
        await in_turn(lambda: self._note_attempts(facts, texts))
        if isinstance(seen, Denied):
            return access_denied(seen, self.evaluation)
        misread = await in_turn(lambda: misread_plan(self.reading, facts, texts, self.evaluation, usage))
        if misread is not None:
            return access_denied(misread, self.evaluation)
        words = functions_among(self.reading, findings, followed=isinstance(usage, Usage))
        if isinstance(words, Unsupported):
            return not_governable(words)
        self.words, self.meanings = words, texts.meanings(findings)
        return await self._guard(facts, texts, usage, seen, original, exists=asked)

    def _ask(self, facts: PlanFacts, texts: PlanTexts) -> bool | Refusal | NeedsCatalog:
        """Put everything that is wanted to the policies; return whether what is asked for may be known."""
        evaluation, judging = self.evaluation, self.judging
        evaluation.require(facts.required)  # RULE (plan-privileges)
        # RULE (plan-tables-visible)
        evaluation.visibility(one.name for one in facts.reads if one.name is not None)
        for prepared in texts.all:
            ask(prepared, self.accessing)  # RULE (plan-texts-privileges)
        secrets = [part.secret for part in facts.parts if part.secret is not None]
        known = [evaluation.knows_of(secret) for secret in secrets]
        if (denied := evaluation.denied()) is not None:
            return access_denied(denied, evaluation)
        tables: list[TableName] = [one.name for one in facts.reads if one.name is not None]
        tables += [*commanded(facts.commanded), *(name for p in texts.all for name in p.tables)]
        tables += [name for p in texts.all for name in to_promote(p.required)]
        if unknown := tuple(dict.fromkeys((*evaluation.unsure, *judging.unknown(tables)))):
            return unknown_tables(unknown, [p.required for p in texts.all])
        return all(known)  # RULE (plan-unknown-is-absent)

    def _see(
        self, facts: PlanFacts, texts: PlanTexts, usage: Usage | Silent
    ) -> tuple[ColumnAccess, ...] | Denied:
        """Decide on the columns that are used: of the reads first, then of each text."""
        evaluation = self.evaluation
        reads = [one.name for one in facts.reads if one.name is not None]
        every = [*reads, *(name for p in texts.all for _, name in p.scans)]
        found = together(usage, every, self.judging.snapshot)
        if isinstance(usage, Silent):
            parts = [
                together(texts.usage(p), [n for _, n in p.scans], self.judging.snapshot) for p in texts.all
            ]
            found = together(usage, reads, self.judging.snapshot).union(*parts)
        evaluation.context = replace(evaluation.context, accessed_together=found)
        seen: list[ColumnAccess] = []
        refusal: Denied | None = None
        for step in (None, *texts.all):
            if step is None:
                one = see_tables(reads, usage, self.accessing)
            else:
                one = see(step, usage if isinstance(usage, Usage) else texts.usage(step), self.accessing)
            if isinstance(one, Denied):
                refusal = refusal or one
            else:
                seen.append(one)
        return refusal or evaluation.denied() or tuple(seen)

    def _note_attempts(self, facts: PlanFacts, texts: PlanTexts) -> None:
        """Record the denial of hidden columns that the plan names, and that Spark will not find."""
        names = [one.name for one in facts.reads if one.name is not None]
        names += [name for p in texts.all for _, name in p.scans]
        if self.evaluation.may_name_hidden(names, words_of(self.reading, texts)):
            known = usage_of_plan(
                self.reading, facts, texts, self.evaluation, ColumnUsage(asked=set()), hidden=True
            )
            self.evaluation.tried(known)

    async def _guard(
        self,
        facts: PlanFacts,
        texts: PlanTexts,
        usage: Usage | Silent,
        seen: tuple[ColumnAccess, ...],
        original: bytes,
        *,
        exists: bool,
    ) -> RewrittenPlan | Refusal | NeedsCatalog:
        judging, evaluation = self.judging, self.evaluation
        read = tuple(one.name for one in facts.reads if one.name is not None)
        required = facts.commanded
        if (absent := evaluation.absent(required) or self._never_there(facts, texts)) is not None:
            return self._not_there(absent, texts)
        reads = ReadViews(
            seen=seen[0],
            rights=self.accessing.rights,
            place=TOP,
            scans=self._scans(facts),
            judging=judging,
            govern=govern,
            context=self.context,
        )
        bodies = await reads.bodies((*read, *commanded(required)))
        if not isinstance(bodies, dict):
            return bodies
        policies = await policies_of(seen[0], judging)
        if isinstance(policies, Unsupported):
            return not_governable(policies)
        if isinstance(policies, NeedsCatalog):
            return policies
        authors = await authors_of(seen[0], govern, judging)
        if isinstance(authors, Unsupported):
            return not_governable(authors)
        if isinstance(authors, NeedsCatalog):
            return authors
        called = await read_by(called_by(facts.required), judging.reader, judging.snapshot.catalog)
        if isinstance(called, NeedsCatalog):
            return called
        barred = reads.barred(bodies)
        opened = await reads.opened(bodies, barred, alone=self._may_place(texts))
        views = reads.queried(bodies, barred, opened)
        placed = await in_turn(lambda: self._placed(facts, texts, reads.scans, policies, views))
        narrowed = await reads.narrowed(placed, opened, bodies, barred)
        if not isinstance(narrowed, dict):
            return narrowed
        metrics = await write_out_reads(
            self.reading, facts, texts, policies, bodies, barred, reads.rows, judging, original
        )
        if isinstance(metrics, Unsupported):
            return not_governable(metrics)
        if not isinstance(metrics, WrittenReads):
            return metrics
        guarding = await guard_reads(
            facts, policies, bodies, narrowed, placed.below, barred, metrics.queries, judging
        )
        if isinstance(guarding, Unsupported):
            return not_governable(guarding)
        governed: list[RewrittenStatement] = []
        for prepared, one, meaning in zip(texts.all, seen[1:], self.meanings, strict=True):
            outcome = await finish(
                prepared,
                usage if isinstance(usage, Usage) else texts.usage(prepared),
                one,
                evaluation,
                judging,
                meaning,
            )
            if not isinstance(outcome, RewrittenStatement):
                return outcome
            governed.append(outcome)
        records, of_now = scan_records(seen[0], evaluation), seen[0].versions
        if self.reading.analysis in LAYING_OPEN:
            of_now = read_by_lists(seen, bodies)  # RULE (input-files-columns-of-now)
        if old := to_describe_anew(required, evaluation, of_now, judging.snapshot):
            return NeedsCatalog(old, promotes=False, anew=True)
        refusal = self._past_guards(facts, texts, guarding, governed, bodies, records)
        refusal = evaluation.commanded(required, undisclosed_names(bodies)) or refusal  # RULE (plan-raw-rows)
        if isinstance(refusal, Denied):
            return access_denied(refusal, evaluation)
        if refusal is not None:
            return not_governable(refusal)
        return await self._written(
            facts,
            texts,
            usage,
            seen,
            guarding,
            metrics,
            replace(authors, names=authors.names | called),  # RULE (plan-functions-read)
            governed,
            bodies,
            policies,
            records,
            original,
            exists=exists,
        )

    def _scans(self, facts: PlanFacts) -> dict[Span, TableName]:
        """Return what is read, by its position, as if that were its place in a text."""
        return {place_of(at): one.name for at, one in enumerate(facts.reads) if one.name is not None}

    def _placed(
        self,
        facts: PlanFacts,
        texts: PlanTexts,
        scans: Mapping[Span, TableName],
        policies: Policies,
        views: QueriedViews,
    ) -> Placed:
        """Return what stands with the filters of the reads, and in the texts of views, by their places."""
        relation = self.reading.shown
        if relation is None or not self._may_place(texts):
            return Placed()
        if not filters_any(scans.values(), policies, views):
            return Placed()
        nodes = {}
        for position, one in enumerate(facts.reads):
            if one.read.streaming or one.read.options or one.read.changes:
                return Placed()
            parts, span = tuple(one.read.parts), place_of(position)
            nodes[id(one.read.relation)] = ExpressionNode(node="UnresolvedRelation", parts=parts, span=span)
        written = {id(one.message): prepared.reading.tree for one, prepared in texts.expressions}
        found = tree_of_plan(relation, nodes, written)
        if found is None:
            return Placed()
        columns: list[dict[str, str]] = []
        for place, name in scans.items():
            table, view = self.judging.snapshot.catalog.table(name), policies.views[name.folded()]
            if table is None or view is None:
                return Placed()
            # What has no type that is known for certain is no column of its name: of views, masked, hidden.
            sure = table.kind is TableKind.TABLE or place in views.opened
            unsure = {c.lower() for c in (*view.masks, *view.hidden)}
            columns.append(
                {c.name: c.type if sure and c.name.lower() not in unsure else "" for c in table.columns}
            )
        all_known = len(columns) == len(facts.reads)
        # RULE (dataframe-column-one-type)
        alone = not found.by_plan or (all_known and found.of_one_type(columns))
        exact = not found.by_plan or (all_known and found.of_one_table(columns))
        query = Query(found.tree, "", scans)
        return below_query(query, policies, self.judging, alone=alone, exact=exact, views=views)

    def _may_place(self, texts: PlanTexts) -> bool:
        """Whether anything of the plan may stand elsewhere than it says.

        INVARIANT (one guard for what is kept): where the session has persisted a DataFrame, Spark finds its
        rows by what stands for the reads in it, and in all plans the same stands for them.
        """
        plain = not (self.reading.handles or self.reading.code or texts.statements)
        # RULE (persisted-one-guard)
        return self.reading.shown is not None and plain and PERSISTED not in self.context.handles

    def _not_there(self, name: TableName, texts: PlanTexts) -> Refusal:
        found = (p for p in texts.all if name.folded() in (table.folded() for table in p.tables))
        return not_there(name, self.context, next(found, None))

    def _never_there(self, facts: PlanFacts, texts: PlanTexts) -> TableName | None:
        """Return a table that Spark is to keep a reader of and that is not there: the reader would keep for
        ever what keeps one off that appears meanwhile."""
        if not any(part.keeps for part in facts.parts):
            return None
        read = [one.name for one in facts.reads if one.name is not None]
        read += [name for prepared in texts.all for _, name in prepared.scans]
        return next((name for name in read if self.evaluation.catalog.table(name) is None), None)

    def _past_guards(
        self,
        facts: PlanFacts,
        texts: PlanTexts,
        guarding: tuple[Guarding, ...],
        governed: Sequence[RewrittenStatement],
        bodies: Mapping[TableName, RewrittenStatement],
        records: tuple[ScanRecord, ...],
    ) -> Denied | Unsupported | None:
        """Deny what would tell of guarded relations past their guard: plans, files, metadata, kept names."""
        with_obligations = [
            one.table.name for one in guarding if one.has_obligations and self.judging.exists(one.table)
        ]
        scans = records
        for one in governed:
            with_obligations += one.guarded
            scans += one.scans
        user = self.judging.principal.user
        kept = bool(facts.temp_views or any(one.temp_views_read for one in governed) or self.reading.handles)
        if self.reading.analysis in LAYING_OPEN:  # RULE (guarded-plan-told)
            # A plan has the names of all that a view reads.
            # RULE (view-plans-explained)
            undisclosed = [*with_obligations, *sorted(undisclosed_names(bodies), key=str)]
            # RULE (view-plan-texts-explained)
            undisclosed += [one.scans[0].table for one in governed if one.hides_target and one.scans]
            if undisclosed:
                return plan_shown(undisclosed[0], user)
            if kept:
                return Unsupported("a plan over a temporary view would print what the view was made of")
        named = plan_names_metadata(self.reading) or any(
            names_metadata(column.parts) for prepared in texts.all for column in prepared.reading.columns
        )
        if named and with_obligations:  # RULE (guarded-plan-metadata)
            return metadata_shown(with_obligations[0], user)
        if named and kept:  # RULE (temp-view-metadata)
            return Unsupported("`_metadata` of a temporary view could tell where its rows are stored")
        keeps = any(part.keeps for part in facts.parts)
        if (keeps or self.reading.analysis == "persist") and any(map(of_files, texts.all)):
            return Unsupported("a view or a kept result cannot rest on metadata or changes of a table")
        return shown_only(scans if keeps else (), bodies.values(), self.judging)  # RULE (kept-plan-show-only)

    async def _written(
        self,
        facts: PlanFacts,
        texts: PlanTexts,
        usage: Usage | Silent,
        seen: tuple[ColumnAccess, ...],
        guarding: tuple[Guarding, ...],
        metrics: WrittenReads,
        authors: Authors,
        governed: list[RewrittenStatement],
        bodies: dict[TableName, RewrittenStatement],
        policies: Policies,
        records: tuple[ScanRecord, ...],
        original: bytes,
        *,
        exists: bool,
    ) -> RewrittenPlan | Refusal:
        """Write everything into the plan and prove it.

        The plan is changed in place, so the order counts: what is told of it as it came is taken before the
        first edit, every edit is undone by the proof, and what is forwarded is the bytes that were proved.
        What `_guard` found comes in as arguments: none of it may be looked for in a plan that has changed.
        """
        reading, evaluation = self.reading, self.evaluation
        inside = [*governed, *bodies.values(), *(body for _, body in metrics.queries.values())]
        narrowed = [one.body for one in guarding if one.body is not None]
        scans = (*records, *(scan for one in inside for scan in one.scans))
        start = started_stream(reading)
        placed = None
        if start is not None:
            placed = checkpoint_of(
                start, facts, texts, guarding, governed, bodies, policies, scans, self.judging
            )
        if isinstance(placed, Unsupported):
            return not_governable(placed)
        command = reading.command
        original_relation = b""
        if command is not None and command.WhichOneof("command_type") == "sql_command":
            original_relation = bytes_of(command.sql_command.input)
        edits = Edits()
        words = write_guards(facts, guarding, edits, self.judging.exists)
        texts.write(governed, edits)
        metrics.write(edits)
        if exists:
            edits.pin(facts.names)  # RULE (plan-full-names)
        if start is not None and placed is not None:
            edits.place_checkpoint(start, placed[0], placed[1].url)
            words = (*words, (placed[1].url, placed[1].chosen))
        identities = bool(self.words) or any(is_identity(call) for call in reading.functions)
        if identities:  # RULE (plan-identities)
            bind_identities(reading.message, self.judging.principal.user, self.words, edits)
        answer = self._answer(facts, governed, bodies)
        if not exists:
            relation = reading.catalog_calls[0].relation
            edits.keep(relation)
            relation.sql.query = DOES_NOT_EXIST
            edits.queries.add(DOES_NOT_EXIST)
            answer = RELAY
        forwarded = await in_turn(lambda: bytes_of(reading.message))
        told = self.rendering.text
        if edits.changed:
            elsewhere = bool(
                governed or facts.names or identities or placed or metrics.measures or not exists
            )
            again = self.rendering.again
            told = await in_turn(lambda: render(reading.message) if elsewhere else again())
        # RULE (plan-proof)
        if await in_turn(lambda: proved(reading, original, forwarded, edits)) is not None:
            return not_governable(
                Unsupported(
                    "the guarded plan could not be proved equal to the original; write it in a simpler form"
                )
            )
        changing = varying_plan(reading, facts, self.names) or policies.varying or varying_bodies(inside)
        uncached = not_cached(changing) if changing and reading.analysis == "persist" else None
        for name in facts.cached:
            uncached = uncached or cached_view_refusal(name, bodies)
        if uncached is not None:
            return not_governable(uncached)
        hides_target = (
            evaluation.hides_target(facts.commanded)
            or any(one.hides_target for one in governed)
            or hidden_within(bodies.values())
        )
        absent = [one for one in guarding if not self.judging.exists(one.table)]
        hiding = any(one.has_obligations or one.query for one in guarding if one not in absent)
        found = Findings(
            decisions=tuple(evaluation.decisions),
            scans=records,
            names=authors.names.union(name.folded() for name in _judged_by(facts, policies)),
            answer=answer,
            readers_agree=agreement(usage) if facts.reads or any(p.scans for p in texts.all) else None,
            provisional=any(not self.judging.exists(one.table) for one in guarding)
            or any(evaluation.catalog.table(name) is None for name in commanded(facts.commanded)),
            context_dependencies=frozenset(evaluation.context_dependencies) | policies.context_dependencies,
            substitutions=words,
            temp_views_read=facts.temp_views.union(*(one.temp_views_read for one in governed)),
            varying=changing,
            policy_tables=policies.tables,
            hides_columns=any(one.hides_columns for one in seen),
            hides_target=hides_target,
            # INVARIANT (no values under obligations): as for a text.
            plain=not (hiding or hides_target or undisclosed_names(bodies))  # RULE (whole-errors-plan)
            and evaluation.shows_all(commanded(facts.commanded))
            and all(one.plain for one in governed),  # RULE (whole-errors-plan-texts)
            missing=tuple(
                dict.fromkeys(
                    [(pinned_parts(one.table), tuple(one.read.read.parts)) for one in absent]
                    + [pair for one in governed for pair in one.missing]
                )
            ),
            rewritten=tuple(text for one in governed for text in one.rewritten),
            definers=authors.principals,
            definition=next((one.definition for one in governed if one.definition is not None), None),
        ).merge(inside)
        return RewrittenPlan(
            text=told,
            root=reading.root,
            message=forwarded,
            texts=texts.written,
            original_relation=original_relation,
            code=facts.code,
            effects=(
                *facts.effects,
                *(effect for one in governed for effect in one.required.effects),
                *([PersistFrame()] if reading.analysis == "persist" else []),
            ),
            checkpoint=placed[1] if placed is not None else None,
            # RULE (plan-effects-final)
            read_only=command is None and not reading.catalog_calls and reading.analysis != "persist",
            **found.with_substitutions_of(narrowed).found(),
        )

    def _answer(
        self,
        facts: PlanFacts,
        governed: list[RewrittenStatement],
        bodies: dict[TableName, RewrittenStatement],
    ) -> AnswerRule:
        """Return what is done with the answer's rows: those of a catalog call, or of a command in SQL."""
        for part in facts.parts:
            if part.required.answer is RELAY:
                continue
            rule = self.evaluation.answer(part.required, undisclosed_names(bodies))
            if part.details is not None and not self.evaluation.holds(part.details):  # RULE (answer-details)
                rule = replace(rule, details=False)
            return rule
        return next((one.answer for one in governed if one.answer is not RELAY), RELAY)


def _judged_by(facts: PlanFacts, policies: Policies) -> Iterator[TableName]:
    """Return every table that the verdict on a plan rests on, but for what its texts and views read."""
    yield from (one.name for one in facts.reads if one.name is not None)  # RULE (plan-rests-on-reads)
    yield from commanded(facts.commanded)
    yield from wanted_tables(facts.required)
    yield from policies.tables
