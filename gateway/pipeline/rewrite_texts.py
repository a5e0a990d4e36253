"""From a text whose columns are decided on to the one that Spark gets: guarded, written, proved.

`rewrite_and_prove` has the steps in their order, and the order counts: of several refusals a client reads the
first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.model.catalog import TableKind, TableName
from gateway.model.reading import FunctionRef, RelationRole, Span, Splice
from gateway.model.statement import Definition, Findings, NeedsCatalog, ResetSettings, ScanRecord
from gateway.model.table_formats import BRANCHED
from gateway.pipeline.barriers import Placed, below_text
from gateway.pipeline.function_bodies import NO_CALLS, MadeFunction, WrittenCalls, judge_made, write_out_calls
from gateway.pipeline.guarded_texts import binds, guard_scans, identities
from gateway.pipeline.judging import (
    Judging,
    JudgingOutcome,
    NotRewritten,
    Refusal,
    RewrittenStatement,
    access_denied,
    agreement,
    list_commanded_tables,
    list_undisclosed,
    list_wanted_tables,
    may_name_hidden_columns,
    names_of,
    not_governable,
    refuse_unread,
    refuse_unsupported,
    to_describe_anew,
)
from gateway.pipeline.kept import (
    build_collation_refusal,
    default_collation,
    find_varying_bodies,
    find_varying_text,
    keeps,
    refuse_caching,
)
from gateway.pipeline.metrics import NONE as NO_METRICS
from gateway.pipeline.metrics import WrittenOut, metric_definition, write_out
from gateway.pipeline.policies import (
    deny_create_statement,
    deny_show_only,
    refuse_unguarded_access,
)
from gateway.pipeline.row_changes import list_described_anew, restrict_text
from gateway.pipeline.row_checks import NO_CHECKS, TextChecks, check_text
from gateway.pipeline.seeing import (
    ColumnAccess,
    Prepared,
    build_not_found_refusal,
    list_tables_read_by_columns,
    scan_records,
)
from gateway.pipeline.sources import ReadSources, sources_of
from gateway.pipeline.views import ReadViews
from gateway.sql import guard
from gateway.sql.analyse import Silent, Usage
from gateway.sql.call_texts import words_of
from gateway.sql.change_feeds import ChangeFeed, explain_no_feed
from gateway.sql.checking import attach
from gateway.sql.evaluate import Denied, Evaluation
from gateway.sql.function_calls import pin_functions
from gateway.sql.functions import FILE_FUNCTIONS, builtin_name
from gateway.sql.identity import IsIdentity
from gateway.sql.required import Required, Unsupported
from gateway.sql.restricting import find_restricted_table
from gateway.sql.session_commands import reset_nothing
from gateway.sql.spark_errors import build_unknown_function_refusal
from gateway.sql.storage import is_note, is_unread_option, refuse_option, refuse_property
from gateway.sql.versions import is_version_by_name


async def rewrite_and_prove(
    prepared: Prepared,
    usage: Usage | Silent,
    seen: ColumnAccess,
    evaluation: Evaluation,
    judging: Judging,
    meaning: IsIdentity | None = None,
) -> JudgingOutcome:
    """Guard the text's scans, pin its targets and have the result proved.

    `meaning`: of an expression, what words without brackets mean where it stands.
    """
    text = _Text(prepared, usage, seen, evaluation, judging, meaning)
    if (refusal := text.refuse_what_is_not_there()) is not None:
        return refusal
    sources = await text.find_sources()
    if isinstance(sources, NotRewritten):
        return sources
    made = await judge_made(prepared, judging)
    if isinstance(made, NotRewritten):
        return made
    guards = await text.guard_scans(sources)
    if isinstance(guards, NotRewritten):
        return guards
    if (found := text.refuse_disclosure(guards)) is not None:
        return found
    written = text.write(guards, made)
    if isinstance(written, Refusal):
        return written
    if (unproved := await text.prove(written)) is not None:
        return unproved
    return text.rewrite(guards, written, made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TextGuards:
    """What stands in for what a text reads."""

    sources: ReadSources
    scans: Sequence[guard.GuardedRelation]
    placed: Placed
    narrowed: Mapping[Span, RewrittenStatement]
    metrics: WrittenOut
    records: tuple[ScanRecord, ...]
    with_obligations: tuple[TableName, ...]
    """The tables that are guarded and exist."""
    sketched: frozenset[TableName] = frozenset()
    """Those of them whose masks and filters are left out: their plan is shown."""
    restrictions: tuple[Splice, ...] = ()
    """What keeps it from changing rows that the principal does not see."""
    checks: TextChecks = NO_CHECKS
    calls: WrittenCalls = NO_CALLS
    """The bodies of functions where these are called."""
    bound: tuple[Splice, ...] = ()
    """What binds the user's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenText:
    """A text as Spark would get it, not proved yet."""

    forwarded: str
    splices: Sequence[Splice]
    allowed: frozenset[tuple[str, ...]]
    """All relations that may stand in it."""
    substitutions: tuple[tuple[str, str], ...]
    temporary: frozenset[tuple[str, ...]]
    """The temporary views that it reads."""
    binds_user: bool
    """Whether the principal's name was written into it."""
    uncacheable_reason: str
    definition: Definition | None


@dataclass(frozen=True, slots=True)
class _Text:
    """A text under judgement; each step takes what those before it found."""

    prepared: Prepared
    usage: Usage | Silent
    seen: ColumnAccess
    evaluation: Evaluation
    judging: Judging
    meaning: IsIdentity | None

    # -- what it reads -----------------------------------------------------------------------------------

    def refuse_what_is_not_there(self) -> Refusal | None:
        """Deny what is missing of privileges; refuse tables that do not exist, and names that are not what
        they seem."""
        prepared, evaluation = self.prepared, self.evaluation
        if (denied := evaluation.build_denial()) is not None:
            return access_denied(denied, evaluation)
        if (absent := evaluation.find_missing_table(prepared.required) or self._never_there()) is not None:
            return build_not_found_refusal(absent, prepared.names.context, prepared)
        unfounded = self._explain_not_metadata() or self._refuse_properties()
        return None if unfounded is None else not_governable(unfounded)

    async def find_sources(self) -> ReadSources | NotRewritten:
        """Govern the views that it reads, and find the policies of all that it does."""
        prepared, judging, required = self.prepared, self.judging, self.prepared.required
        # The text that a view has had until now need not be open to who gives it another one.
        named = names_of(prepared.scans) if required.shares else prepared.tables
        reads = ReadViews(
            seen=self.seen,
            rights=prepared.rights,
            place=prepared.place,
            scans={relation.span: name for relation, name in prepared.scans if relation.span is not None},
            judging=judging,
            context=prepared.names.context,
        )
        bodies = await reads.bodies(named)
        if isinstance(bodies, NotRewritten):
            return bodies
        if required.shares and required.pins:
            whole = refuse_unsupported(await metric_definition(prepared, judging))
            if isinstance(whole, NotRewritten):
                return whole
            if whole is not None:
                bodies[required.pins[0].table.fold()] = whole
        alone = prepared.place.alone and not required.shares
        writes = not prepared.place.expression
        personal = binds(prepared, judging)
        functions = prepared.functions
        return await sources_of(reads, bodies, functions, alone=alone, writes=writes, personal=personal)

    async def guard_scans(self, sources: ReadSources) -> _TextGuards | NotRewritten:
        """Say what stands in for each scan, with conditions below barriers and metric views written out."""
        prepared, judging, evaluation = self.prepared, self.judging, self.evaluation
        placed = await below_text(prepared, sources.policies, judging, sources.list_queried_views)
        narrowed = await sources.narrow_views(placed)
        if isinstance(narrowed, NotRewritten):
            return narrowed
        metrics: WrittenOut | NotRewritten = NO_METRICS
        if not prepared.required.shares:
            metrics = refuse_unsupported(
                await write_out(
                    prepared,
                    sources.policies,
                    sources.bodies,
                    sources.barred,
                    sources.reads.rows,
                    judging,
                    personal=binds(prepared, judging),
                )
            )
        if isinstance(metrics, NotRewritten):
            return metrics
        scans = guard_scans(prepared, sources, narrowed, placed.below, metrics, evaluation, judging)
        if isinstance(scans, Unsupported):
            return not_governable(scans)
        # RULE (collation-beside-policies)
        if default_collation(prepared.reading) and any(scan.query is not None for scan in scans):
            return not_governable(build_collation_refusal("the statement"))
        checks = await check_text(prepared, evaluation, judging)
        if isinstance(checks, Denied):
            return access_denied(checks, evaluation)
        if not isinstance(checks, TextChecks):
            return refuse_unsupported(checks)
        restrictions = await restrict_text(prepared, sources.policies, evaluation, judging, checks.change)
        if isinstance(restrictions, Unsupported):
            return not_governable(restrictions)
        bound = identities(prepared, evaluation, judging, self.meaning)
        if isinstance(bound, Unsupported):
            return not_governable(bound)
        calls = await write_out_calls(prepared, sources.guarded_functions, bound, judging)
        if isinstance(calls, Unsupported):
            return not_governable(calls)
        return _TextGuards(
            bound=bound,
            calls=calls,
            sources=sources,
            scans=scans,
            placed=placed,
            narrowed=narrowed,
            metrics=metrics,
            records=scan_records(self.seen, evaluation),
            with_obligations=tuple(
                scan.table.name for scan in scans if scan.has_obligations and judging.exists(scan.table)
            )
            + tuple(sources.guarded_functions if calls.calls else ()),  # RULE (called-body-explained)
            sketched=frozenset(scan.table.name for scan in scans if scan.sketched),
            restrictions=restrictions,
            checks=checks,
        )

    def refuse_disclosure(self, guards: _TextGuards) -> NotRewritten | None:
        """Deny what would tell of guarded relations past their guard; ask for tables whose columns of this
        moment count."""
        reading, required, bodies = self.prepared.reading, self.prepared.required, guards.sources.bodies
        evaluation, judging, records = self.evaluation, self.judging, guards.records
        # RULE (explained-columns-of-now)
        of_now = list_tables_read_by_columns([self.seen], bodies) if required.explains else self.seen.versions
        # RULE (merge-types-of-now)
        of_now = (*of_now, *list_described_anew(self.prepared, evaluation))
        if old := to_describe_anew(required, evaluation, of_now, judging.snapshot):
            return NeedsCatalog(old, promotes=False, anew=True)
        told = next((f for f in reading.functions if builtin_name(f.parts) in FILE_FUNCTIONS), None)
        if told is not None and not self._reads_plain_tables(guards):  # RULE (guarded-file-functions)
            return not_governable(
                Unsupported(
                    f"the function `{'.'.join(told.parts)}` is refused over views and over tables with row "
                    "filters, masks or hidden columns: it shows where their rows are stored"
                )
            )
        if find_restricted_table(required, reading, evaluation) is not None:
            required = replace(required, read=())
        unexplained = [*_list_unexplained_views(required, bodies)]
        guarded = guards.with_obligations
        explained = [name for name in guarded if name not in guards.sketched] + unexplained
        undisclosed = list_undisclosed(bodies)
        denied = (
            evaluation.deny_commands(required, undisclosed)  # RULE (command-past-guard)
            or deny_create_statement(required, evaluation, undisclosed)
            or refuse_unguarded_access(reading, required, [*guarded, *unexplained], explained, judging)
            # RULE (kept-view-show-only)
            or deny_show_only(records if keeps(reading) or required.shares else (), bodies.values(), judging)
        )
        return None if denied is None else access_denied(denied, evaluation)

    # -- what Spark gets ---------------------------------------------------------------------------------

    def write(self, guards: _TextGuards, made: MadeFunction | None) -> _WrittenText | Refusal:
        """Write guards, full names and the user's name into the text."""
        prepared, reading, required = self.prepared, self.prepared.reading, self.prepared.required
        guarded = guard.splices(prepared.text, reading, guards.scans)
        inner = guard.pin_metadata(prepared.metadata)
        pinned = guard.pin_targets(reading, required, prepared.names)
        if isinstance(guarded, Unsupported):
            return not_governable(guarded)
        if isinstance(pinned, Unsupported):
            return not_governable(pinned)
        bound, calls = guards.bound, guards.calls.calls
        varying, bodies = guards.sources.policies.varying, guards.sources.bodies
        unbound = bool(reading.identities) and not bound
        changing = find_varying_text(prepared.text, reading, prepared.names, varying, bodies, unbound=unbound)
        changing = changing or find_varying_bodies(guards.sources.functions.values())
        uncached = refuse_caching(reading, required, changing, bodies)
        if uncached is not None:
            return not_governable(uncached)
        metrics = guards.metrics
        called = pin_functions(reading, prepared.short_functions)
        if isinstance(called, FunctionRef):
            return not_governable(
                build_unknown_function_refusal(called, prepared.names.context), prepared.text
            )
        columns = (
            one for one in (*guarded[0], *called) if one.kind == "guard" or not metrics.contains(one.span)
        )
        written_out = {one.span.start for one in calls}
        kept = (one for one in columns if one.span.start not in written_out)
        written = (*kept, *calls, *metrics.splices, *inner, *pinned[0], *bound, *guards.calls.titles)
        splices: tuple[Splice, ...] = (*written, *guards.restrictions)
        if guards.checks.wrapping is not None:  # RULE (checked-insert)
            splices = attach(prepared.text, splices, guards.checks.wrapping)
        # RULE (reset-names-settings)
        if any(isinstance(effect, ResetSettings) for effect in required.effects):
            splices = (reset_nothing(prepared.text),)
        if made is not None:
            splices = (*splices, *made.splices)
        defined = self._define_view(splices)
        if isinstance(defined, Unsupported):
            return not_governable(defined)
        if isinstance(defined, Splice):
            splices = (*splices, defined)
        temporary = self._temporary_views()
        return _WrittenText(
            forwarded=guard.apply(prepared.text, splices),
            splices=splices,
            allowed=self._list_allowed(guards) | pinned[1] | temporary,
            substitutions=(*guarded[1], *metrics.words, *words_of(prepared.text, calls)),
            temporary=temporary,
            binds_user=bool(bound),
            uncacheable_reason=changing,
            definition=defined if isinstance(defined, Definition) else None,
        )

    def _define_view(self, splices: Sequence[Splice]) -> Splice | Definition | Unsupported | None:
        """Return how it is recorded who defines a view: in the text, or before it."""
        prepared, required = self.prepared, self.prepared.required
        if not required.shares or required.explains or not required.pins:
            return None  # a global temporary view, which is nobody's, has no pin
        target, user = required.pins[0].table, self.judging.principal.identity
        return guard.define_view(prepared.text, prepared.reading, target, splices, user, required.metrics)

    def _reads_plain_tables(self, guards: _TextGuards) -> bool:
        """Whether it reads nothing but tables of which all may be seen, and files by their path."""
        tables = (scan.query is None and scan.table.kind is TableKind.TABLE for scan in guards.scans)
        return all(tables) and not (self._temporary_views() or self.prepared.metadata)

    def _temporary_views(self) -> frozenset[tuple[str, ...]]:
        # INVARIANT (conservation): asked of the session, and not inferred from what is left over. A scan that
        # was lost on the way is no temporary view, and the proof does not allow it.
        in_session = self.prepared.names.context.temp_views
        return frozenset(
            relation.parts
            for relation in self.prepared.reading.relations
            if relation.role is RelationRole.SCAN
            and len(relation.parts) == 1
            and relation.parts[0].lower() in in_session  # RULE (proof-lost-scan)
        )

    def _list_allowed(self, guards: _TextGuards) -> frozenset[tuple[str, ...]]:
        """Return the relations that may stand in what is written, beside its targets and temporary views."""
        bodies = (*guards.sources.bodies.values(), *guards.metrics.bodies)
        if guards.calls.calls:
            bodies = (*bodies, *guards.sources.functions.values())
        return frozenset(
            {guard.list_name_parts(scan.table) for scan in guards.scans}
            | guards.sources.policies.relations
            | guards.checks.policies.relations
            | {one.parts for _, one in self.prepared.metadata}
            | {relation.parts for relation, _ in self.prepared.files}
            | {parts for body in bodies for parts in body.allowed}
        )

    async def prove(self, written: _WrittenText) -> Refusal | None:
        """Have Spark's parser read the text again: with the splices undone it must be the original."""
        prepared, judging = self.prepared, self.judging
        if not written.splices:
            # The text goes on as it was read; what is left to show is that every relation was accounted for.
            relations = prepared.reading.relations
            loose = [
                r for r in relations if r.role is not RelationRole.CTE and r.parts not in written.allowed
            ]
            if not loose:  # RULE (text-unchanged-proof)
                return None
            return not_governable(
                Unsupported(f"`{'.'.join(loose[0].parts)}` was not authorized with the statement")
            )
        texts = prepared.text, written.forwarded, written.splices, written.allowed
        if prepared.place.expression:
            proof = await judging.reader.prove(*texts, expression=True)
        else:
            proof = await judging.reader.prove(*texts)
        if proof.not_read is not None:
            return refuse_unread(proof.not_read)
        if proof.holds:  # RULE (text-proof)
            return None
        if judging.seeds_while_parsing and "Sample" in prepared.reading.nodes:
            return not_governable(
                Unsupported(
                    "TABLESAMPLE without a seed returns different rows each time Spark "
                    f"{judging.reader.spark_version} reads it; add REPEATABLE (1) or another seed"
                )
            )
        return not_governable(
            Unsupported(
                "could not prove that the rewritten statement is equivalent to the original; give its "
                "tables plain aliases or write it in a simpler form"
            )
        )

    # -- what is said of it ------------------------------------------------------------------------------

    def rewrite(
        self, guards: _TextGuards, written: _WrittenText, made: MadeFunction | None
    ) -> RewrittenStatement:
        """Return the text with all that was found out about it."""
        prepared, sources, metrics, placed = self.prepared, guards.sources, guards.metrics, guards.placed
        bodies = sources.inside
        # The body of a function of a database is stored without masks and filters.
        kept = () if made is None else (made.body,)
        if made is not None and not made.is_temporary:
            kept = (replace(made.body, scans=_without_obligations(made.body.scans)),)
        found = self._findings(guards, written).merge((*bodies, *kept))
        return RewrittenStatement(
            text=written.forwarded,
            reading=prepared.reading,
            required=prepared.required,
            allowed=written.allowed,
            has_obligations=bool(guards.calls.calls) or any(scan.has_obligations for scan in guards.scans),
            guarded=guards.with_obligations,
            sketched=guards.sketched,
            personal=written.binds_user or any(body.personal for body in (*bodies, *metrics.bodies)),
            lends_to=self.seen.lends_to,
            # RULE (outer-view-written-out)
            stands_in=bool(sources.barred or placed.below or guards.narrowed or metrics.queries)
            or any(body.walled for body in bodies),
            listed=self._list_read_by_columns(guards).union(*(body.listed for body in bodies)),
            moves=sources.moves,
            opened=placed.opened,
            **found.with_substitutions_of((*guards.narrowed.values(), *metrics.bodies)).list_fields(),
        )

    def _findings(self, guards: _TextGuards, written: _WrittenText) -> Findings:
        prepared, required, evaluation = self.prepared, self.prepared.required, self.evaluation
        sources, judging, records = guards.sources, self.judging, guards.records
        undisclosed = list_undisclosed(sources.bodies)
        if required.shares:
            # What is stored has none of them: they are laid on each who reads it.
            records = _without_obligations(records)
        absent = [scan for scan in guards.scans if not judging.exists(scan.table)]
        hiding = bool(sources.guarded_functions) or any(
            scan.has_obligations or scan.query for scan in guards.scans if scan not in absent
        )
        hides_target = (
            evaluation.hides_target(required)
            # What a view's text names is as little the reader's to know as the names of a target.
            or may_name_hidden_columns(sources.inside)
            or (prepared.place.depth > 0 and self.seen.lends)  # RULE (lent-not-told)
            # What Spark says of the condition has the policy's own in it.
            or any(one.kind == "condition" for one in written.splices)  # RULE (restricted-errors)
        )
        temporary = frozenset(parts[0].lower() for parts in written.temporary)
        return Findings(
            decisions=tuple(evaluation.decisions),
            scans=records,
            names=sources.names.union(
                name.fold() for name in (*self._list_judged_tables(sources), *guards.checks.policies.tables)
            ),
            answer=evaluation.answer(required, undisclosed),
            readers_agree=agreement(self.usage) if prepared.scans else None,
            provisional=any(not evaluation.catalog.table(name) for name in prepared.tables),
            context_dependencies=sources.context_dependencies(evaluation)
            | guards.checks.policies.context_dependencies,
            substitutions=written.substitutions,
            temp_views_read=temporary - prepared.place.aliases,
            uncacheable_reason=written.uncacheable_reason,
            policy_tables=sources.policies.tables | guards.checks.policies.tables,
            hides_columns=self.seen.hides_columns,
            hides_target=hides_target,
            # INVARIANT (no values under obligations): all of Spark's words are told where nothing stands in
            # them that the user may not see, and nowhere else.
            shows_errors=not (hiding or hides_target or undisclosed)  # RULE (whole-errors-unguarded)
            # RULE (whole-errors-command)
            and evaluation.shows_all(
                (*list_commanded_tables(required), *(pin.table for pin in required.pins))
            ),
            missing=tuple(
                dict.fromkeys((guard.list_name_parts(scan.table), scan.relation.parts) for scan in absent)
            ),
            rewritten=guard.locate_rewritten_texts(prepared.text, written.forwarded, written.splices),
            definers=prepared.rights.definers | sources.authors.principals,
            definition=written.definition,
        )

    def _list_read_by_columns(self, guards: _TextGuards) -> frozenset[TableName]:
        """Return what the text of a view reads by a list of columns alone; a version was described again."""
        if self.prepared.place.depth == 0:
            return frozenset()
        plain = {scan.table.name.fold() for scan in guards.scans if not scan.has_obligations}
        listed = (name for name in self.seen.tables if name in plain and not name.version)
        return frozenset(self.seen.list_tables_with_column_rules(listed))

    def _list_judged_tables(self, sources: ReadSources) -> Iterator[TableName]:
        """Return every table that the verdict on a text rests on, but for what its views read."""
        prepared, policies = self.prepared, sources.policies
        yield from prepared.tables
        yield from list_wanted_tables(prepared.required.privileges)  # RULE (rests-on-privileges)
        yield from policies.tables  # RULE (rests-on-policy-tables)

    def _never_there(self) -> TableName | None:
        """Return a table that a new view would read and that is not there: the view would keep for ever what
        keeps one off that appears meanwhile."""
        prepared = self.prepared
        kept = keeps(prepared.reading) or bool(prepared.required.shares)
        scans = (name for one, name in prepared.scans if kept or isinstance(one, ChangeFeed))
        return next((name for name in scans if self.evaluation.catalog.table(name) is None), None)

    def _refuse_properties(self) -> Unsupported | None:
        """Refuse properties and options that the format of their table may read."""
        required = self.prepared.required
        for name, key in required.properties:
            if not is_note(key, self._provider(name)):
                return Unsupported(refuse_property(key))  # RULE (altered-properties)
        for name, key in required.options:
            if not is_unread_option(key, self._provider(name)):
                return Unsupported(refuse_option(key))  # RULE (altered-options)
        return None

    def _provider(self, name: TableName) -> str | None:
        table = self.evaluation.catalog.table(name)
        return table.provider if table is not None and table.kind is TableKind.TABLE else None

    def _explain_not_metadata(self) -> Unsupported | None:
        """Say why a name is not that of a table's metadata or of a version: its format has none of that name,
        or a namespace has the table's name, so that it may be a table of its own."""
        find = self.evaluation.catalog.table
        for relation, one in self.prepared.metadata:
            table = find(one.table)
            provider = (table.provider or "").lower() if table is not None else ""
            if table is None or provider != one.provider or table.shadowed:
                return Unsupported(f"`{'.'.join(relation.parts)}` is not a metadata table of {one.table}")
        for relation, name in self.prepared.scans:
            table = find(name)
            if isinstance(relation, ChangeFeed) and table is not None:
                no_feed = explain_no_feed(name, table.kind, table.provider)  # RULE (feed-of-delta)
                if no_feed is not None:
                    return no_feed
            table = table if is_version_by_name(relation, name) else None
            # RULE (version-below-table)
            if table is not None and (table.provider not in BRANCHED or table.shadowed):
                return Unsupported(f"`{'.'.join(relation.parts)}` is not a version of the table {name}")
        for pin in self.prepared.required.pins:
            table = find(pin.table) if pin.below else None
            if pin.below and (table is None or table.provider not in BRANCHED or table.shadowed):
                return Unsupported(
                    f"`{'.'.join(pin.relation.parts)}` is not a branch of the table {pin.table}"
                )
        return None


def _without_obligations(records: tuple[ScanRecord, ...]) -> tuple[ScanRecord, ...]:
    return tuple(replace(record, obligations=()) for record in records)


def _list_unexplained_views(
    required: Required, bodies: Mapping[TableName, RewrittenStatement]
) -> Iterator[TableName]:
    """Yield the views whose plan may not be shown: it has the names of all that they read."""
    if required.explains:
        yield from sorted(list_undisclosed(bodies), key=str)  # RULE (view-plans-told)
