"""The passes for SQL text: statements, the bodies of views, and the texts and expressions within plans.

`prepare` reads and classifies, `ask` asks the policies for the privileges that are required, `see` says which
columns it uses and what may be seen of them, `finish` guards and proves. `govern` is all of them for a text
by itself; a plan prepares everything within it first, so that what is missing is told all at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from gateway.model.catalog import TableName
from gateway.model.reading import NotParsed, NotRead, Reading, RelationRole, Splice
from gateway.model.statement import Definition, Findings, NeedsCatalog, ResetSettings, SessionContext
from gateway.model.table_formats import BRANCHED
from gateway.pipeline.authors import authors_of
from gateway.pipeline.barriers import below_text
from gateway.pipeline.functions import called_by, read_by
from gateway.pipeline.guarded_texts import binds, guarded_scans, identities
from gateway.pipeline.judging import (
    Judging,
    JudgingOutcome,
    Refusal,
    RewrittenStatement,
    access_denied,
    agreement,
    commanded,
    names_of,
    names_with_obligations,
    not_governable,
    to_describe_anew,
    to_promote,
    together,
    unknown_tables,
    wanted_tables,
)
from gateway.pipeline.kept import (
    cached_refusal,
    collated,
    default_collation,
    keeps,
    varying_text,
)
from gateway.pipeline.metrics import NONE as NO_METRICS
from gateway.pipeline.metrics import WrittenOut, metric_definition, write_out
from gateway.pipeline.policies import Policies, policies_of, refuse_unguarded_access, shown_only
from gateway.pipeline.rights import Accessing, own_rights
from gateway.pipeline.seeing import (
    TOP,
    ColumnAccess,
    Prepared,
    TextScope,
    misread_text,
    not_there,
    note_attempts,
    read_by_lists,
    scan_records,
    see,
    usage_of,
)
from gateway.pipeline.views import ReadViews
from gateway.sql import guard
from gateway.sql.analyse import Silent, Usage
from gateway.sql.classify import classify
from gateway.sql.dataset_statements import DatasetStatement, dataset_privileges, dataset_statement
from gateway.sql.delta_commands import changes_privileges
from gateway.sql.evaluate import (
    Denied,
    Evaluation,
    function_privileges,
    metadata_of,
    metadata_privileges,
    scans_of,
)
from gateway.sql.identity import IsIdentity
from gateway.sql.names import Names
from gateway.sql.parameters import MISPLACED
from gateway.sql.required import Required, Unsupported, join
from gateway.sql.spark_words import unbound_parameter


async def govern(text: str, context: SessionContext, judging: Judging, place: TextScope) -> JudgingOutcome:
    """Run every pass on one text: the statement itself, or the text of a view."""
    prepared = await prepare(text, context, judging, place)
    if isinstance(prepared, Refusal):
        return prepared
    outcome = await _govern(prepared, judging)
    return replace(outcome, plan_class=prepared.reading.root) if isinstance(outcome, Refusal) else outcome


async def _govern(prepared: Prepared, judging: Judging) -> JudgingOutcome:
    evaluation = judging.evaluation()
    accessing = Accessing(prepared.rights, evaluation)
    ask(prepared, accessing)
    if (denied := accessing.denied(judging)) is not None:
        return access_denied(denied, evaluation)
    named = (*prepared.tables, *to_promote(prepared.required))
    if unknown := tuple(dict.fromkeys((*evaluation.unsure, *judging.unknown(named)))):
        return unknown_tables(unknown, [prepared.required])
    usage = usage_of(prepared, evaluation)
    evaluation.context = replace(
        evaluation.context, accessed_together=together(usage, names_of(prepared.scans), judging.snapshot)
    )
    seen = see(prepared, usage, accessing)
    note_attempts(prepared, evaluation)
    if isinstance(seen, Denied):
        return access_denied(seen, evaluation)
    # RULE (hidden-name-in-text)
    denied = accessing.denied(judging) or misread_text(prepared, usage, evaluation)
    if denied is not None:
        return access_denied(denied, evaluation)
    return await finish(prepared, usage, seen, evaluation, judging)


async def prepare(
    text: str, context: SessionContext, judging: Judging, place: TextScope = TOP
) -> Prepared | Refusal:
    """Read a text and say what it requires; a Refusal when nothing of it can pass."""
    own = dataset_statement(text) if place.commands and place.depth == 0 else None
    if own is not None:
        text = own.text
    reading = await (judging.reader.read_expression(text) if place.expression else judging.reader.read(text))
    if isinstance(reading, NotParsed):
        if place.arguments and reading.error_class == "UNEXPECTED_USE_OF_PARAMETER_MARKER":
            # `INTERVAL :n DAY`: Spark writes the value in before it parses, and we read the marker.
            return not_governable(Unsupported(MISPLACED))
        # Spark's own words and SQLSTATE: the client must not notice who answered.
        return Refusal(
            code="SPARK",
            sqlstate=reading.sqlstate,
            message=reading.message,
            parameters=reading.parameters,
            exceptions=reading.exceptions,
        )
    if isinstance(reading, NotRead):
        return _unread(reading)
    # RULE (literal-names-written)
    found: Prepared | Refusal | Unsupported = _classified(
        reading.written or text, reading, context, judging, place
    )
    if isinstance(found, Prepared) and own is not None:
        found = _of_dataset(found, own, judging)
    if isinstance(found, Prepared):
        found = await _conditions_read(found, judging)
    if isinstance(found, Refusal):
        return found
    if isinstance(found, Unsupported):
        if found.sqlstate == "42P02" and reading.parameters:
            found = unbound_parameter(reading.parameters[0], text)
        return replace(not_governable(found, text), plan_class=reading.root)
    return found


def _of_dataset(prepared: Prepared, own: DatasetStatement, judging: Judging) -> Prepared | Unsupported:
    required = dataset_privileges(own, prepared.required, judging.snapshot.catalog.sources)
    return required if isinstance(required, Unsupported) else replace(prepared, required=required)


async def _conditions_read(prepared: Prepared, judging: Judging) -> Prepared | Refusal | Unsupported:
    """Read the texts that a procedure has Spark parse as conditions: nothing of them but a table's columns,
    values and built-in functions may pass."""
    for text in prepared.required.conditions:
        reading = await judging.reader.read_expression(text)
        if isinstance(reading, NotParsed):
            return Refusal(code="SPARK", sqlstate=reading.sqlstate, message=reading.message)
        if isinstance(reading, NotRead):
            return _unread(reading)
        required = classify(reading, prepared.names)
        functions = function_privileges(reading.functions, prepared.names)
        for refusal in (required, functions):
            if isinstance(refusal, Unsupported):
                return refusal
        if reading.relations or reading.nodes or functions:
            return Unsupported(f"`{text}` is more than a condition on columns of the table")
    return prepared


UNREAD_SQLSTATES = {
    "TOO_LARGE": "54001",
    "TOO_DEEP": "54001",
    "TWO_READINGS": "0A000",
    "PARSER_FAILED": "XX000",
}
"""Of what the reader has no reading of; of everything else 57000: it may have one in a moment."""


def _unread(answer: NotRead) -> Refusal:
    sqlstate = UNREAD_SQLSTATES.get(answer.code, "57000")
    return Refusal(code=answer.code, sqlstate=sqlstate, message=answer.message)


def _classified(
    text: str, reading: Reading, context: SessionContext, judging: Judging, place: TextScope
) -> Prepared | Unsupported:
    bound = replace(context, temp_views=context.temp_views | place.aliases) if place.aliases else context
    known = judging.snapshot.catalog
    names = Names(bound, known.catalogs, known.sources, known.listed)
    required = classify(reading, names, parameters=place.arguments, procedures=judging.rules.procedures)
    if isinstance(required, Unsupported):
        return required
    if reading.commands and not place.commands:  # RULE (nested-commands)
        where = "the text of a view" if place.depth else "SQL within a plan"
        return Unsupported(f"{where} is not a query")
    scans = scans_of(reading, names, text)
    if isinstance(scans, Unsupported):
        return scans
    functions = function_privileges(reading.functions, names)
    if isinstance(functions, Unsupported):
        return functions
    metadata = metadata_of(reading, names)
    if metadata and (place.depth or place.expression or keeps(reading) or required.shares):
        return Unsupported("a view, a kept result or an expression cannot rest on metadata of a table")
    changes = changes_privileges(reading, names)
    if isinstance(changes, Unsupported):
        return changes
    if changes.read and (place.depth or place.expression or keeps(reading) or required.shares):
        return Unsupported("a view, a kept result or an expression cannot rest on changes of a table")
    if keeps(reading) and _bound_scans(reading, place):  # RULE (dataframe-view-one-query)
        return Unsupported("a temporary view cannot rest on a DataFrame that one query binds to a name")
    return Prepared(
        text=text,
        place=place,
        reading=reading,
        names=names,
        required=join((required, metadata_privileges(one for _, one in metadata), changes)),
        functions=functions,
        scans=scans,
        metadata=metadata,
        rights=place.rights or own_rights(judging.principal),
    )


def _bound_scans(reading: Reading, place: TextScope) -> bool:
    return any(
        relation.role is RelationRole.SCAN
        and len(relation.parts) == 1
        and relation.parts[0].lower() in place.aliases
        for relation in reading.relations
    )


def ask(prepared: Prepared, accessing: Accessing) -> None:
    """Ask the policies for the privileges that a text requires, and whether its tables may be known."""
    for evaluation in accessing.accessors():
        evaluation.require((*prepared.required.privileges, *prepared.functions))  # RULE (text-privileges)
        evaluation.visibility(names_of(prepared.scans))  # RULE (text-tables-visible)


async def finish(
    prepared: Prepared,
    usage: Usage | Silent,
    seen: ColumnAccess,
    evaluation: Evaluation,
    judging: Judging,
    meaning: IsIdentity | None = None,
) -> JudgingOutcome:
    """Guard the text's scans, pin its targets and have the result proved.

    It is long because its order is its contract: of several refusals a client reads the first. And every step
    takes what those before it found: parts of it would hand a dozen values from one to the next.

    `meaning`: of an expression, what words without brackets mean where it stands.
    """
    text, reading, required = prepared.text, prepared.reading, prepared.required
    if (denied := evaluation.denied()) is not None:
        return access_denied(denied, evaluation)
    if (absent := evaluation.absent(required) or _never_there(prepared, evaluation)) is not None:
        return not_there(absent, prepared.names.context, prepared)
    if (unfounded := _unfounded(prepared, evaluation)) is not None:
        return not_governable(unfounded)
    # The text that a view has had until now need not be open to who gives it another one.
    named = names_of(prepared.scans) if required.shares else prepared.tables
    reads = ReadViews(
        seen=seen,
        rights=prepared.rights,
        place=prepared.place,
        scans={relation.span: name for relation, name in prepared.scans if relation.span is not None},
        judging=judging,
        govern=govern,
        context=prepared.names.context,
    )
    bodies = await reads.bodies(named)
    if not isinstance(bodies, dict):
        return bodies
    if required.shares and (whole := await metric_definition(prepared, govern, judging)) is not None:
        if isinstance(whole, Unsupported):
            return not_governable(whole)
        if not isinstance(whole, RewrittenStatement):
            return whole
        bodies[required.pins[0].table.folded()] = whole
    policies = await policies_of(seen, judging)
    if isinstance(policies, Unsupported):
        return not_governable(policies)
    if isinstance(policies, NeedsCatalog):
        return policies
    authors = await authors_of(seen, govern, judging)
    if isinstance(authors, Unsupported):
        return not_governable(authors)
    if isinstance(authors, NeedsCatalog):
        return authors
    called = await read_by(called_by(prepared.functions), judging.reader, judging.snapshot.catalog)
    if isinstance(called, NeedsCatalog):
        return called
    barred = reads.barred(bodies)
    alone = prepared.place.alone and not required.shares
    opened = await reads.opened(bodies, barred, alone=alone)
    placed = await below_text(prepared, policies, judging, reads.queried(bodies, barred, opened))
    narrowed = await reads.narrowed(placed, opened, bodies, barred)
    if not isinstance(narrowed, dict):
        return narrowed
    metrics: WrittenOut | Unsupported | Refusal | NeedsCatalog = NO_METRICS
    if not required.shares:
        personal = binds(prepared, judging)
        metrics = await write_out(prepared, policies, bodies, barred, reads.rows, judging, personal=personal)
    if isinstance(metrics, Unsupported):
        return not_governable(metrics)
    if not isinstance(metrics, WrittenOut):
        return metrics
    guarded = guarded_scans(
        prepared, policies, bodies, narrowed, placed.below, barred, metrics, evaluation, judging
    )
    if isinstance(guarded, Unsupported):
        return not_governable(guarded)
    # RULE (collation-beside-policies)
    if default_collation(reading) and any(scan.query is not None for scan in guarded):
        return not_governable(collated("the statement"))
    records = scan_records(seen, evaluation)
    with_obligations = [
        scan.table.name for scan in guarded if scan.has_obligations and judging.exists(scan.table)
    ]
    # RULE (explained-columns-of-now)
    of_now = read_by_lists([seen], bodies) if required.explains else seen.versions
    if old := to_describe_anew(required, evaluation, of_now, judging.snapshot):
        return NeedsCatalog(old, promotes=False, anew=True)
    denied = (
        evaluation.commanded(required, undisclosed_names(bodies))  # RULE (command-past-guard)
        or refuse_unguarded_access(
            reading, required, [*with_obligations, *_unexplained(required, bodies)], judging
        )
        # RULE (kept-view-show-only)
        or shown_only(records if keeps(reading) or required.shares else (), bodies.values(), judging)
    )
    if denied is not None:
        return access_denied(denied, evaluation)
    if required.shares:
        # What is stored has none of them: they are laid on each who reads it.
        records = tuple(replace(record, obligations=()) for record in records)

    written = guard.splices(text, reading, guarded)
    inner = guard.pin_metadata(prepared.metadata)
    pinned = guard.pin_targets(reading, required, prepared.names)
    if isinstance(written, Unsupported):
        return not_governable(written)
    if isinstance(pinned, Unsupported):
        return not_governable(pinned)
    bound = identities(prepared, evaluation, judging, meaning)
    if isinstance(bound, Unsupported):
        return not_governable(bound)
    unbound = bool(reading.identities) and not bound
    changing = varying_text(text, reading, prepared.names, policies.varying, bodies, unbound=unbound)
    uncached = cached_refusal(reading, required, changing, bodies)
    if uncached is not None:
        return not_governable(uncached)
    # INVARIANT (conservation): asked of the session, and not inferred from what is left over. A scan that was
    # lost on the way is no temporary view, and the proof does not allow it.
    in_session = prepared.names.context.temp_views
    temporary = {
        relation.parts
        for relation in reading.relations
        if relation.role is RelationRole.SCAN
        and len(relation.parts) == 1
        and relation.parts[0].lower() in in_session  # RULE (proof-lost-scan)
    }
    allowed = frozenset(
        {guard.pinned_parts(scan.table) for scan in guarded}
        | pinned[1]
        | temporary
        | policies.relations
        | {one.parts for _, one in prepared.metadata}
        | {parts for body in (*bodies.values(), *metrics.bodies) for parts in body.allowed}
    )
    columns = (one for one in written[0] if one.kind == "guard" or not metrics.within(one.span))
    splices = (*columns, *metrics.splices, *inner, *pinned[0], *bound)
    if any(isinstance(effect, ResetSettings) for effect in required.effects):  # RULE (reset-names-settings)
        splices = (guard.reset_nothing(text),)
    definition: Definition | None = None
    if required.shares and not required.explains:
        defined = guard.define_view(
            text, reading, required.pins[0].table, splices, judging.principal.identity, required.metrics
        )
        if isinstance(defined, Unsupported):
            return not_governable(defined)
        if isinstance(defined, Splice):
            splices = (*splices, defined)
        else:
            definition = defined
    forwarded = guard.apply(text, splices)
    unproved = await _prove(prepared, forwarded, splices, allowed, judging)
    if unproved is not None:
        return unproved
    hiding = any(scan.has_obligations or scan.query for scan in guarded if judging.exists(scan.table))
    hides_target = (
        evaluation.hides_target(required)
        # What a view's text names is as little the reader's to know as the names of a target.
        or hidden_within(bodies.values())
        or (prepared.place.depth > 0 and seen.lends)  # RULE (lent-not-told)
    )
    found = Findings(
        decisions=tuple(evaluation.decisions),
        scans=records,
        # RULE (text-functions-read)
        names=(authors.names | called).union(name.folded() for name in _judged_by(prepared, policies)),
        answer=evaluation.answer(required, undisclosed_names(bodies)),
        readers_agree=agreement(usage) if prepared.scans else None,
        provisional=any(not evaluation.catalog.table(name) for name in prepared.tables),
        context_dependencies=frozenset(evaluation.context_dependencies) | policies.context_dependencies,
        substitutions=(*written[1], *metrics.words),
        temp_views_read=frozenset(parts[0].lower() for parts in temporary) - prepared.place.aliases,
        varying=changing,
        policy_tables=policies.tables,
        hides_columns=seen.hides_columns,
        hides_target=hides_target,
        # INVARIANT (no values under obligations): all of Spark's words are told where nothing stands in them
        # that the user may not see, and nowhere else.
        plain=not (hiding or hides_target or undisclosed_names(bodies))  # RULE (whole-errors-unguarded)
        # RULE (whole-errors-command)
        and evaluation.shows_all((*commanded(required), *(pin.table for pin in required.pins))),
        missing=tuple(
            dict.fromkeys(
                (guard.pinned_parts(scan.table), scan.relation.parts)
                for scan in guarded
                if not judging.exists(scan.table)
            )
        ),
        rewritten=guard.rewritten(text, forwarded, splices),
        definers=prepared.rights.definers | authors.principals,
        definition=definition,
    ).merge(bodies.values())
    placed_texts = (*narrowed.values(), *metrics.bodies)
    return RewrittenStatement(
        text=forwarded,
        reading=reading,
        required=required,
        allowed=allowed,
        has_obligations=any(scan.has_obligations for scan in guarded),
        guarded=tuple(with_obligations),
        personal=bool(bound) or any(body.personal for body in (*bodies.values(), *metrics.bodies)),
        lends_to=seen.lends_to,
        stands_in=bool(barred or placed.below or narrowed or metrics.queries)  # RULE (outer-view-written-out)
        or any(body.walled for body in bodies.values()),
        listed=_listed(prepared, seen, guarded).union(*(body.listed for body in bodies.values())),
        opened=placed.opened,
        **found.with_substitutions_of(placed_texts).found(),
    )


def undisclosed_names(bodies: Mapping[TableName, RewrittenStatement]) -> frozenset[TableName]:
    """Return the views of which nothing but their columns may be told: their sources carry obligations, or
    their texts name what the reader may not select."""
    # RULE (view-texts-told)
    return names_with_obligations(bodies) | {name for name, body in bodies.items() if hidden_within([body])}


def _unexplained(required: Required, bodies: Mapping[TableName, RewrittenStatement]) -> Iterator[TableName]:
    """Yield the views whose plan may not be shown: it has the names of all that they read."""
    if required.explains:
        yield from sorted(undisclosed_names(bodies), key=str)  # RULE (view-plans-told)


def hidden_within(bodies: Iterable[RewrittenStatement]) -> bool:
    """Whether the text of a view names, or may name, columns that its reader may not select."""
    return any(body.hides_columns or body.hides_target for body in bodies)  # RULE (hidden-name-in-view)


def _listed(
    prepared: Prepared, seen: ColumnAccess, guarded: Iterable[guard.GuardedRelation]
) -> frozenset[TableName]:
    """Return what the text of a view reads by a list of columns alone; a version was described again."""
    if prepared.place.depth == 0:
        return frozenset()
    plain = {scan.table.name.folded() for scan in guarded if not scan.has_obligations}
    return frozenset(seen.told_apart(name for name in seen.tables if name in plain and not name.version))


def _judged_by(prepared: Prepared, policies: Policies) -> Iterator[TableName]:
    """Return every table that the verdict on a text rests on, but for what its views read."""
    yield from prepared.tables
    yield from wanted_tables(prepared.required.privileges)  # RULE (rests-on-privileges)
    yield from policies.tables  # RULE (rests-on-policy-tables)


def _never_there(prepared: Prepared, evaluation: Evaluation) -> TableName | None:
    """Return a table that a new view would read and that is not there: the view would keep for ever what
    keeps one off that appears meanwhile."""
    if not (keeps(prepared.reading) or prepared.required.shares):
        return None
    return next((name for _, name in prepared.scans if evaluation.catalog.table(name) is None), None)


def _unfounded(prepared: Prepared, evaluation: Evaluation) -> Unsupported | None:
    """Say why a name is not that of a table's metadata: its format has none of that name, or a namespace
    has the table's name, so that it may be a table of its own."""
    for relation, one in prepared.metadata:
        table = evaluation.catalog.table(one.table)
        provider = (table.provider or "").lower() if table is not None else ""
        if table is None or provider != one.provider or table.shadowed:
            return Unsupported(f"`{'.'.join(relation.parts)}` is not metadata of the table {one.table}")
    for pin in prepared.required.pins:
        table = evaluation.catalog.table(pin.table) if pin.below else None
        if pin.below and (table is None or table.provider not in BRANCHED or table.shadowed):
            return Unsupported(f"`{'.'.join(pin.relation.parts)}` is not a branch of the table {pin.table}")
    return None


async def _prove(
    prepared: Prepared,
    forwarded: str,
    splices: Sequence[Splice],
    allowed: frozenset[tuple[str, ...]],
    judging: Judging,
) -> Refusal | None:
    if not splices:
        # The text goes on as it was read; what is left to show is that every relation was accounted for.
        relations = prepared.reading.relations
        loose = [r for r in relations if r.role is not RelationRole.CTE and r.parts not in allowed]
        if not loose:  # RULE (text-unchanged-proof)
            return None
        return not_governable(Unsupported(f"`{'.'.join(loose[0].parts)}` is not accounted for"))
    if prepared.place.expression:
        proof = await judging.reader.prove(prepared.text, forwarded, splices, allowed, expression=True)
    else:
        proof = await judging.reader.prove(prepared.text, forwarded, splices, allowed)
    if proof.not_read is not None:
        return _unread(proof.not_read)
    if proof.holds:  # RULE (text-proof)
        return None
    if judging.seeds_while_parsing and "Sample" in prepared.reading.nodes:
        return not_governable(
            Unsupported(
                f"TABLESAMPLE without a seed is another sample each time that Spark "
                f"{judging.reader.spark_version} reads it; add REPEATABLE (1) or another seed"
            )
        )
    return not_governable(
        Unsupported(
            "the guarded statement could not be proved equal to the original; "
            "give its tables plain aliases or write it in a simpler form"
        )
    )
