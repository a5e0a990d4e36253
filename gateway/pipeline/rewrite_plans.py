"""From a plan whose columns are decided on to the one that Spark gets: guarded in place, written, proved.

`rewrite_and_prove_plan` has the steps in their order, and the order counts: of several refusals a client
reads the first. The plan is changed in place, so what is told of it as it came is taken before the first
edit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gateway.model.catalog import TableKind, TableName
from gateway.model.handles import PERSISTED, mark_reading_function
from gateway.model.statement import (
    RELAY,
    AnswerRule,
    Checkpoint,
    Findings,
    NeedsCatalog,
    PersistFrame,
    ScanRecord,
    SessionContext,
)
from gateway.pipeline.barriers import Placed, QueriedViews, Query, below_query, filters_any
from gateway.pipeline.checkpoints import checkpoint_of, find_started_stream
from gateway.pipeline.guarded_plans import Guarding, guard_reads, place_of, write_guards
from gateway.pipeline.judging import (
    Judging,
    NotRewritten,
    Refusal,
    RewrittenStatement,
    access_denied,
    agreement,
    list_commanded_tables,
    list_undisclosed,
    list_wanted_tables,
    may_name_hidden_columns,
    not_governable,
    refuse_unsupported,
    to_describe_anew,
)
from gateway.pipeline.kept import find_varying_bodies, refuse_caching_view
from gateway.pipeline.pace import in_turn
from gateway.pipeline.plan_checks import NO_CHECK, PlanCheck, check_plan
from gateway.pipeline.plan_merges import find_plan_target, restrict_plan
from gateway.pipeline.plan_metrics import WrittenReads, write_out_reads
from gateway.pipeline.plan_outcomes import RewrittenPlan
from gateway.pipeline.plan_texts import PlanTexts
from gateway.pipeline.policies import (
    deny_create_statement,
    deny_show_only,
    metadata_shown,
    names_metadata,
    plan_shown,
)
from gateway.pipeline.rewrite_texts import rewrite_and_prove
from gateway.pipeline.rights import Rights
from gateway.pipeline.seeing import (
    TOP,
    ColumnAccess,
    build_not_found_refusal,
    list_tables_read_by_columns,
    of_files,
    scan_records,
)
from gateway.pipeline.sources import ReadSources, sources_of
from gateway.pipeline.views import ReadViews
from gateway.plan.analyse import WordMeanings
from gateway.plan.catalog_calls import DOES_NOT_EXIST
from gateway.plan.checking import write_frame_check
from gateway.plan.facts import PlanFacts
from gateway.plan.facts import names_metadata as plan_names_metadata
from gateway.plan.guard import Edits, bind_identities, bytes_of, is_identity
from gateway.plan.merging import list_restricted, merge_of, restrict_merge
from gateway.plan.prove import prove_plan
from gateway.plan.reading import PlanReading
from gateway.plan.rendering import Rendering, render
from gateway.plan.varying import find_varying_parts
from gateway.sql.analyse import Silent, Usage
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.guard import list_name_parts
from gateway.sql.identity import IsIdentity
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.sql.varying import not_cached

LAYING_OPEN = ("explain", "input_files")
"""Analyses that tell more of a table than is read of it."""


async def rewrite_and_prove_plan(plan: DecidedPlan) -> RewrittenPlan | NotRewritten:
    """Guard what the plan and the texts in it read, write everything into the plan and prove it."""
    if (absent := plan.absent()) is not None:
        return plan.refuse_absent(absent)
    sources = await plan.find_sources()
    if isinstance(sources, NotRewritten):
        return sources
    guards = await plan.guard(sources)
    if isinstance(guards, NotRewritten):
        return guards
    if (found := plan.refuse_disclosure(guards)) is not None:
        return found
    written = await plan.write(guards)
    if isinstance(written, Unsupported):
        return not_governable(written)
    if (unproved := await plan.prove(written)) is not None:
        return not_governable(unproved)
    # The proof has undone the edits: the plan is again as it came.
    changing = plan.uncacheable_reason(guards)
    if (uncached := plan.refuse_caching(guards, changing)) is not None:
        return not_governable(uncached)
    return plan.rewrite(guards, written, changing)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanGuards:
    """What stands in for what a plan reads."""

    sources: ReadSources
    metrics: WrittenReads
    reads: tuple[Guarding, ...]
    texts: Sequence[RewrittenStatement]
    records: tuple[ScanRecord, ...]
    """Of the plan's own reads."""
    restriction: str = ""
    """For which rows of its target a MERGE is done; empty: for all."""
    check: PlanCheck = NO_CHECK

    @property
    def inside(self) -> tuple[RewrittenStatement, ...]:
        """The texts within the plan, and those of the views and functions that it reads."""
        metrics = (body for _, body in self.metrics.queries.values())
        return (*self.texts, *self.sources.inside, *metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenPlan:
    """A plan as Spark would get it, not proved yet."""

    message: bytes
    text: str
    """Rendered."""
    edits: Edits
    original_relation: bytes
    substitutions: tuple[tuple[str, str], ...]
    answer: AnswerRule
    checkpoint: Checkpoint | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedPlan:
    """A plan whose privileges and columns are decided on; each step takes what those before it found."""

    context: SessionContext
    judging: Judging
    reading: PlanReading
    rendering: Rendering
    names: Names
    evaluation: Evaluation
    rights: Rights
    facts: PlanFacts
    texts: PlanTexts
    usage: Usage | Silent
    seen: tuple[ColumnAccess, ...]
    """Of the plan's own reads first, then of each text."""
    original: bytes
    exists: bool
    """Whether what a catalog call asks for may be known of."""
    words: WordMeanings
    identities: frozenset[int]
    """References without brackets that ask who the user is, by the identity of their messages."""
    meanings: tuple[IsIdentity | None, ...]
    """For each text, what words without brackets mean where it stands."""

    # -- what it reads -----------------------------------------------------------------------------------

    @property
    def _read(self) -> tuple[TableName, ...]:
        return tuple(one.name for one in self.facts.reads if one.name is not None)

    def absent(self) -> TableName | None:
        """Return a table that has to be there and is not."""
        return self.evaluation.find_missing_table(self.facts.commanded) or self._never_there()

    def refuse_absent(self, name: TableName) -> Refusal:
        found = (p for p in self.texts.all if name.fold() in (table.fold() for table in p.tables))
        return build_not_found_refusal(name, self.context, next(found, None))

    def _never_there(self) -> TableName | None:
        """Return a table that Spark is to keep a reader of and that is not there: the reader would keep for
        ever what keeps one off that appears meanwhile."""
        if not any(part.keeps for part in self.facts.parts):
            return None
        read = [*self._read, *(name for prepared in self.texts.all for _, name in prepared.scans)]
        return next((name for name in read if self.evaluation.catalog.table(name) is None), None)

    async def find_sources(self) -> ReadSources | NotRewritten:
        """Govern the views that it reads, and find the policies of all that it does."""
        reads = ReadViews(
            seen=self.seen[0],
            rights=self.rights,
            place=TOP,
            # By its position, as if that were its place in a text.
            scans={place_of(at): one.name for at, one in enumerate(self.facts.reads) if one.name is not None},
            judging=self.judging,
            context=self.context,
        )
        bodies = await reads.bodies((*self._read, *list_commanded_tables(self.facts.commanded)))
        if isinstance(bodies, NotRewritten):
            return bodies
        return await sources_of(reads, bodies, self.facts.required, alone=self._may_place())

    async def guard(self, sources: ReadSources) -> _PlanGuards | NotRewritten:
        """Say what stands in for each read, with conditions below barriers and metric views written out; and
        guard and prove each text."""
        facts, judging = self.facts, self.judging
        views = sources.list_queried_views
        placed = await in_turn(lambda: self._place_conditions(sources, views))
        narrowed = await sources.narrow_views(placed)
        if isinstance(narrowed, NotRewritten):
            return narrowed
        metrics: WrittenReads | NotRewritten = refuse_unsupported(
            await write_out_reads(self.reading, facts, self.texts, sources, judging, self.original)
        )
        if isinstance(metrics, NotRewritten):
            return metrics
        sketches = self.reading.sketches
        reads = await guard_reads(
            facts, sources, narrowed, placed.below, metrics.queries, judging, sketches=sketches
        )
        if isinstance(reads, Unsupported):
            return not_governable(reads)
        texts: list[RewrittenStatement] = []
        for prepared, seen, meaning in zip(self.texts.all, self.seen[1:], self.meanings, strict=True):
            usage = self.usage if isinstance(self.usage, Usage) else self.texts.usage(prepared)
            explained = sketches or prepared.required.sketches
            prepared = replace(prepared, required=replace(prepared.required, sketches=explained))
            outcome = await rewrite_and_prove(prepared, usage, seen, self.evaluation, self.judging, meaning)
            if not isinstance(outcome, RewrittenStatement):
                return outcome
            texts.append(outcome)
        records = scan_records(self.seen[0], self.evaluation)
        rows = await restrict_plan(self._find_target(), sources.policies, self.evaluation, judging)
        if isinstance(rows, Unsupported):
            return not_governable(rows)
        check = await check_plan(self.facts, self.reading, self.evaluation, judging)
        if isinstance(check, Denied):
            return access_denied(check, self.evaluation)
        if not isinstance(check, PlanCheck):
            return refuse_unsupported(check)
        return _PlanGuards(
            sources=sources,
            metrics=metrics,
            reads=reads,
            texts=texts,
            records=records,
            restriction=rows,
            check=check,
        )

    def _find_target(self) -> TableName | None:
        return find_plan_target(self.facts, self.texts, self.reading, self.evaluation)

    def _place_conditions(self, sources: ReadSources, views: QueriedViews) -> Placed:
        """Return what stands with the filters of the reads, and in the texts of views, by their places."""
        facts, policies, scans, found = self.facts, sources.policies, sources.reads.scans, self.words.shown
        if found is None or not (self._may_place() and filters_any(scans.values(), policies, views)):
            return Placed()
        if any(one.read.streaming or one.read.options or one.read.changes for one in facts.reads):
            return Placed()
        columns: list[dict[str, str]] = []
        for place, name in scans.items():
            table, view = self.judging.snapshot.catalog.table(name), policies.views[name.fold()]
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
        by_name = not found.has_references_by_plan
        alone = by_name or (all_known and found.of_one_type(columns))
        exact = by_name or (all_known and found.of_one_table(columns))
        query = Query(found.tree, "", scans)
        return below_query(query, policies, self.judging, alone=alone, exact=exact, views=views)

    def _may_place(self) -> bool:
        """Whether anything of the plan may stand elsewhere than it says.

        INVARIANT (one guard for what is kept): where the session has persisted a DataFrame, Spark finds its
        rows by what stands for the reads in it, and in all plans the same stands for them.
        """
        plain = not (self.reading.handles or self.reading.code or self.texts.statements)
        # RULE (persisted-one-guard)
        return self.reading.shown is not None and plain and PERSISTED not in self.context.handles

    # -- what would tell of it ---------------------------------------------------------------------------

    def refuse_disclosure(self, guards: _PlanGuards) -> NotRewritten | None:
        """Deny what would tell of guarded relations past their guard; ask for tables whose columns of this
        moment count."""
        required, evaluation, bodies = self.facts.commanded, self.evaluation, guards.sources.bodies
        of_now = self.seen[0].versions
        if self.reading.analysis in LAYING_OPEN:
            of_now = list_tables_read_by_columns(self.seen, bodies)  # RULE (input-files-columns-of-now)
        if old := to_describe_anew(required, evaluation, of_now, self.judging.snapshot):
            return NeedsCatalog(old, promotes=False, anew=True)
        if self._find_target() is not None:
            required = replace(required, read=())
        undisclosed = list_undisclosed(bodies)
        refusal = self._refuse_unguarded_access(guards)
        refusal = (  # RULE (plan-raw-rows)
            evaluation.deny_commands(required, undisclosed) or refusal
        )
        refusal = deny_create_statement(required, evaluation, undisclosed) or refusal
        if isinstance(refusal, Denied):
            return access_denied(refusal, evaluation)
        return None if refusal is None else not_governable(refusal)

    def _refuse_unguarded_access(self, guards: _PlanGuards) -> Denied | Unsupported | None:
        """Deny what would tell of guarded relations past their guard: plans, files, metadata, kept names."""
        facts, texts, governed, bodies = self.facts, self.texts, guards.texts, guards.sources.bodies
        with_obligations = [
            one.table.name for one in guards.reads if one.has_obligations and self.judging.exists(one.table)
        ]
        scans = guards.records
        for one in governed:
            with_obligations += one.guarded
            scans += one.scans
        user = self.judging.principal.user
        kept = bool(facts.temp_views or any(one.temp_views_read for one in governed) or self.reading.handles)
        if self.reading.analysis in LAYING_OPEN:  # RULE (guarded-plan-told)
            # RULE (plan-explained-sketched)
            plain = [one for one in guards.reads if not one.sketched]
            undisclosed = [one.table.name for one in plain if one.table.name in with_obligations]
            undisclosed += [name for one in governed for name in one.guarded if name not in one.sketched]
            # A plan has the names of all that a view reads.
            undisclosed += sorted(list_undisclosed(bodies), key=str)  # RULE (view-plans-explained)
            # RULE (view-plan-texts-explained)
            undisclosed += [one.scans[0].table for one in governed if one.hides_target and one.scans]
            if undisclosed:
                return plan_shown(undisclosed[0], user)
            if kept:
                return Unsupported("a plan over a temporary view would show the definition of the view")
            if self._calls_reading_function():  # RULE (plan-reading-function)
                return Unsupported("a plan with a temporary function would show the tables and filters in it")
        named = plan_names_metadata(self.reading) or any(
            names_metadata(column.parts) for prepared in texts.all for column in prepared.reading.columns
        )
        if named and with_obligations:  # RULE (guarded-plan-metadata)
            return metadata_shown(with_obligations[0], user)
        if named and kept:  # RULE (temp-view-metadata)
            return Unsupported("`_metadata` of a temporary view could show where its rows are stored")
        keeps = any(part.keeps for part in facts.parts)
        if (keeps or self.reading.analysis == "persist") and any(map(of_files, texts.all)):
            return Unsupported("views and cached results cannot read a table's metadata or change feed")
        return deny_show_only(  # RULE (kept-plan-show-only)
            scans if keeps else (), bodies.values(), self.judging
        )

    def uncacheable_reason(self, guards: _PlanGuards) -> str:
        """Return why its rows are not the same for everybody and at any time, in words, or nothing."""
        changing = find_varying_parts(self.reading, self.facts, self.names)
        if self._calls_reading_function():  # RULE (reading-function-cached)
            changing = changing or "it calls a temporary function that reads tables"
        return changing or guards.sources.policies.varying or find_varying_bodies(guards.inside)

    def refuse_caching(self, guards: _PlanGuards, changing: str) -> Unsupported | None:
        """Refuse to have Spark cache rows that another user, or another time, must not be shown."""
        if changing and self.reading.analysis == "persist":
            return not_cached(changing)
        found = (refuse_caching_view(name, guards.sources.bodies) for name in self.facts.cached)
        return next((one for one in found if one is not None), None)

    # -- what Spark gets ---------------------------------------------------------------------------------

    async def write(self, guards: _PlanGuards) -> _WrittenPlan | Unsupported:
        """Write guards, texts, full names and the user's name into the plan; every edit is undone by the
        proof."""
        reading, facts, governed, judging = self.reading, self.facts, guards.texts, self.judging
        start, checkpoint = find_started_stream(reading), None
        if start is not None:
            scans = (*guards.records, *(scan for one in guards.inside for scan in one.scans))
            placed = checkpoint_of(
                start, facts, self.texts, guards.reads, governed, guards.sources, scans, judging
            )
            if isinstance(placed, Unsupported):
                return placed
            checkpoint = placed
        sent_back = reading.sent_back
        original_relation = b"" if sent_back is None else bytes_of(sent_back)
        edits, merge = Edits(), merge_of(reading)
        if merge is not None and guards.restriction:
            for one in list_restricted(merge):  # before anything in them changes
                edits.remember(one)
        if guards.check.frame is not None:
            edits.remember(guards.check.frame.rows)
        words = write_guards(facts, guards.reads, edits, judging.exists)
        self.texts.write(governed, edits)
        guards.metrics.write(edits)
        if self.exists:
            edits.pin(facts.names)  # RULE (plan-full-names)
        if start is not None and checkpoint is not None:
            edits.place_checkpoint(start, checkpoint[0], checkpoint[1].url)
            words = (*words, (checkpoint[1].url, checkpoint[1].chosen))
        identities = bool(self.identities) or any(is_identity(call) for call in reading.functions)
        if identities:  # RULE (plan-identities)
            bind_identities(reading.message, judging.principal.user, self.identities, edits)
        answer = self._answer(guards)
        if not self.exists:
            relation = reading.catalog_calls[0].relation
            edits.remember(relation)
            relation.sql.query = DOES_NOT_EXIST
            edits.queries.add(DOES_NOT_EXIST)
            answer = RELAY
        if merge is not None and guards.restriction:  # RULE (plan-restricted-merge)
            restrict_merge(merge, guards.restriction, edits, bare=judging.bare_builtins)
        if guards.check.frame is not None:  # RULE (checked-frame)
            write_frame_check(guards.check.frame, edits)
        message = await in_turn(lambda: bytes_of(reading.message))
        text = self.rendering.text
        if edits.changed:
            measures = guards.metrics.measures
            elsewhere = bool(
                governed or facts.names or identities or checkpoint or measures or not self.exists
            )
            again = self.rendering.update_text
            text = await in_turn(lambda: render(reading.message) if elsewhere else again())
        return _WrittenPlan(
            message=message,
            text=text,
            edits=edits,
            original_relation=original_relation,
            substitutions=words,
            answer=answer,
            checkpoint=checkpoint[1] if checkpoint is not None else None,
        )

    async def prove(self, written: _WrittenPlan) -> Unsupported | None:
        """Look at the bytes that Spark would get again: with the edits undone they must be the original."""
        reading, original, message, edits = self.reading, self.original, written.message, written.edits
        # RULE (plan-proof)
        if await in_turn(lambda: prove_plan(reading, original, message, edits)) is not None:
            return Unsupported(
                "could not prove that the rewritten plan is equivalent to the original; write it in a "
                "simpler form"
            )
        return None

    def _answer(self, guards: _PlanGuards) -> AnswerRule:
        """Return what is done with the answer's rows: those of a catalog call, or of a command in SQL."""
        for part in self.facts.parts:
            if part.required.answer is RELAY:
                continue
            rule = self.evaluation.answer(part.required, list_undisclosed(guards.sources.bodies))
            if part.details is not None and not self.evaluation.holds(part.details):  # RULE (answer-details)
                rule = replace(rule, details=False)
            return rule
        return next((one.answer for one in guards.texts if one.answer is not RELAY), RELAY)

    # -- what is said of it ------------------------------------------------------------------------------

    def _findings(self, guards: _PlanGuards, written: _WrittenPlan, changing: str) -> Findings:
        """Return what was found out about the plan itself."""
        facts, evaluation, judging, governed = self.facts, self.evaluation, self.judging, guards.texts
        sources, bodies = guards.sources, guards.sources.bodies
        hides_target = (
            evaluation.hides_target(facts.commanded)
            or any(one.hides_target for one in governed)
            or may_name_hidden_columns(sources.inside)
        )
        absent = [one for one in guards.reads if not judging.exists(one.table)]
        hiding = any(one.has_obligations or one.query for one in guards.reads if one not in absent)
        has_reads = bool(facts.reads) or any(p.scans for p in self.texts.all)
        return Findings(
            decisions=tuple(evaluation.decisions),
            scans=guards.records,
            names=sources.names.union(
                name.fold() for name in (*self._list_judged_tables(sources), *guards.check.policies.tables)
            ),
            answer=written.answer,
            readers_agree=agreement(self.usage) if has_reads else None,
            provisional=bool(absent)
            or any(evaluation.catalog.table(name) is None for name in list_commanded_tables(facts.commanded)),
            context_dependencies=sources.context_dependencies(evaluation)
            | guards.check.policies.context_dependencies,
            substitutions=written.substitutions,
            temp_views_read=facts.temp_views.union(*(one.temp_views_read for one in governed)),
            uncacheable_reason=changing,
            policy_tables=sources.policies.tables | guards.check.policies.tables,
            hides_columns=any(one.hides_columns for one in self.seen),
            hides_target=hides_target,
            # INVARIANT (no values under obligations): as for a text.
            shows_errors=not (hiding or hides_target or list_undisclosed(bodies))  # RULE (whole-errors-plan)
            and evaluation.shows_all(list_commanded_tables(facts.commanded))
            and all(one.shows_errors for one in governed),  # RULE (whole-errors-plan-texts)
            missing=tuple(
                dict.fromkeys(
                    [(list_name_parts(one.table), tuple(one.read.read.parts)) for one in absent]
                    + [pair for one in governed for pair in one.missing]
                )
            ),
            rewritten=tuple(text for one in governed for text in one.rewritten),
            definers=sources.authors.principals,
            definition=next((one.definition for one in governed if one.definition is not None), None),
        )

    def rewrite(self, guards: _PlanGuards, written: _WrittenPlan, changing: str) -> RewrittenPlan:
        """Return the plan with all that was found out about it."""
        reading = self.reading
        narrowed = [one.body for one in guards.reads if one.body is not None]
        found = self._findings(guards, written, changing).merge(guards.inside)
        return RewrittenPlan(
            text=written.text,
            root=reading.root,
            message=written.message,
            texts=self.texts.written,
            original_relation=written.original_relation,
            code=self.facts.code,
            effects=(
                *self.facts.effects,
                *(effect for one in guards.texts for effect in one.required.effects),
                *([PersistFrame()] if reading.analysis == "persist" else []),
            ),
            checkpoint=written.checkpoint,
            # RULE (plan-effects-final)
            read_only=not (self._runs_command() or reading.catalog_calls or reading.analysis == "persist"),
            **found.with_substitutions_of(narrowed).list_fields(),
        )

    def _runs_command(self) -> bool:
        """Whether Spark runs a command: the plan's own, or one in SQL that is all of the plan."""
        # RULE (root-commands-final)
        return self.reading.command is not None or any(one.reading.commands for one in self.texts.all)

    def _calls_reading_function(self) -> bool:
        """Whether a temporary function whose body reads tables may be called."""
        called = {one.parts[-1].lower() for one in self.reading.functions}
        called |= {one.parts[-1].lower() for text in self.texts.all for one in text.reading.functions}
        handles = self.context.handles
        return any(mark_reading_function(name) in handles for name in called)

    def _list_judged_tables(self, sources: ReadSources) -> Iterator[TableName]:
        """Return every table that the verdict on a plan rests on, but for what its texts and views read."""
        yield from self._read  # RULE (plan-rests-on-reads)
        yield from list_commanded_tables(self.facts.commanded)
        yield from list_wanted_tables(self.facts.required)
        yield from sources.policies.tables
