"""The passes for SQL text: statements, the bodies of views, and the texts and expressions within plans.

`prepare` reads and classifies, `authorize_required` asks the policies for the privileges that are required,
`authorize_columns` says which columns it uses and what may be seen of them, `rewrite_and_prove` guards and
proves. `govern` is all of them for a text by itself; a plan prepares everything within it first, so that what
is missing is told all at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.model.catalog import TableName
from gateway.model.reading import FunctionRef, NotParsed, NotRead, Reading, RelationRole
from gateway.model.statement import NeedsCatalog, RegisterCode, SessionContext
from gateway.pipeline.immediate import MAX_NESTED, write_immediate, write_known_names
from gateway.pipeline.immediate import ROOT as IMMEDIATE
from gateway.pipeline.judging import (
    Judging,
    JudgingOutcome,
    Refusal,
    access_denied,
    columns_read_together,
    list_unknown_tables,
    names_of,
    not_governable,
    refuse_unparsed,
    refuse_unread,
    to_promote,
)
from gateway.pipeline.kept import keeps
from gateway.pipeline.metrics import CREATES as METRIC_VIEW
from gateway.pipeline.metrics import write_source_names
from gateway.pipeline.places import authorize_places
from gateway.pipeline.rewrite_texts import rewrite_and_prove
from gateway.pipeline.rights import Accessing, own_rights
from gateway.pipeline.seeing import (
    TOP,
    Prepared,
    TextScope,
    authorize_columns,
    misread_text,
    note_attempts,
    usage_of,
)
from gateway.sql.classify import classify, is_registered, list_short_functions
from gateway.sql.dataset_statements import DatasetStatement, dataset_privileges, dataset_statement
from gateway.sql.evaluate import Denied, Evaluation, function_privileges
from gateway.sql.file_scans import files_of, files_privileges
from gateway.sql.function_calls import execute_on, list_functions_of_databases
from gateway.sql.function_commands import body_refusal
from gateway.sql.names import Names
from gateway.sql.parameters import MISPLACED
from gateway.sql.read_relations import list_feeds, metadata_of, metadata_privileges, scans_of
from gateway.sql.required import FunctionBody, Privilege, Unsupported, join
from gateway.sql.spark_errors import (
    build_temporary_reference_refusal,
    build_unbound_parameter_refusal,
    build_unknown_function_refusal,
)


async def govern(text: str, context: SessionContext, judging: Judging, place: TextScope) -> JudgingOutcome:
    """Run every pass on one text: the statement itself, or the text of a view."""
    prepared = await prepare(text, context, judging, place)
    if isinstance(prepared, Refusal):
        return prepared
    outcome = await _govern(prepared, judging)
    return replace(outcome, plan_class=prepared.reading.root) if isinstance(outcome, Refusal) else outcome


async def _govern(prepared: Prepared, judging: Judging) -> JudgingOutcome:
    evaluation = judging.evaluation()
    settled = settle_functions(prepared, evaluation, judging)
    if not isinstance(settled, Prepared):
        return settled
    prepared = settled
    accessing = Accessing(prepared.rights, evaluation)
    authorize_required(prepared, accessing)
    if (denied := accessing.build_denial(judging)) is not None:
        return access_denied(denied, evaluation)
    named = (*prepared.tables, *to_promote(prepared.required))
    if unknown := tuple(dict.fromkeys((*evaluation.unsure, *judging.list_unknown(named)))):
        return list_unknown_tables(unknown, [prepared.required])
    placed = authorize_places(prepared.required.privileges, evaluation, judging)
    if placed is not None:
        return placed
    usage = usage_of(prepared, evaluation)
    evaluation.context = replace(
        evaluation.context,
        accessed_together=columns_read_together(usage, names_of(prepared.scans), judging.snapshot),
    )
    seen = authorize_columns(prepared, usage, accessing)
    note_attempts(prepared, evaluation)
    if isinstance(seen, Denied):
        return access_denied(seen, evaluation)
    # RULE (hidden-name-in-text)
    denied = accessing.build_denial(judging) or misread_text(prepared, usage, evaluation, judging)
    if denied is not None:
        return access_denied(denied, evaluation)
    return await rewrite_and_prove(prepared, usage, seen, evaluation, judging)


async def prepare(
    text: str, context: SessionContext, judging: Judging, place: TextScope = TOP
) -> Prepared | Refusal:
    """Read a text and say what it requires; a Refusal when nothing of it can pass."""
    own = dataset_statement(text) if place.commands and place.depth == 0 else None
    if own is not None:
        text = own.text
    reading = await (judging.reader.read_expression(text) if place.expression else judging.reader.read(text))
    for _ in range(MAX_NESTED):
        if not isinstance(reading, Reading) or reading.root != IMMEDIATE:
            break
        if place.depth or place.expression or place.arguments:
            break
        inner = await write_immediate(text, reading, context, judging.reader)
        if isinstance(inner, str):
            text, reading = inner, await judging.reader.read(inner)
        elif isinstance(inner, Unsupported):
            return replace(not_governable(inner), plan_class=reading.root)
        else:
            reading = inner
    if isinstance(reading, Reading) and reading.identifiers and not place.depth and not place.expression:
        named = await write_known_names(text, reading, context, judging.reader)
        if isinstance(named, Unsupported):
            return replace(not_governable(named), plan_class=reading.root)
        if named is not None:
            text, reading = named, await judging.reader.read(named)
    if isinstance(reading, Reading) and reading.root == METRIC_VIEW and not place.depth:
        known = judging.snapshot.catalog
        within = Names(context, known.catalogs, known.sources, known.listed)
        named = await write_source_names(text, reading, within, judging.reader)
        if named is not None:  # RULE (metric-source-names)
            text, reading = named, await judging.reader.read(named)
    if isinstance(reading, NotParsed):
        if place.arguments and reading.error_class == "UNEXPECTED_USE_OF_PARAMETER_MARKER":
            # `INTERVAL :n DAY`: Spark writes the value in before it parses, and we read the marker.
            return not_governable(Unsupported(MISPLACED))
        return refuse_unparsed(reading)
    if isinstance(reading, NotRead):
        return refuse_unread(reading)
    # RULE (literal-names-written)
    found: Prepared | Refusal | Unsupported = _classify(
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
            found = build_unbound_parameter_refusal(reading.parameters[0], text)
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
            return refuse_unparsed(reading)
        if isinstance(reading, NotRead):
            return refuse_unread(reading)
        required = classify(reading, prepared.names)
        functions = function_privileges(reading.functions, prepared.names)
        for refusal in (required, functions):
            if isinstance(refusal, Unsupported):
                return refusal
        if reading.relations or reading.nodes or functions:
            return Unsupported(f"`{text}` is not a condition on columns of the table alone")
    return await _bodies_read(prepared, judging)


async def _bodies_read(prepared: Prepared, judging: Judging) -> Prepared | Refusal | Unsupported:
    """Read the texts that Spark keeps of a function: a call of it is not judged by what is in them."""
    bodies: list[FunctionBody] = []
    for body in prepared.required.bodies:
        reader = judging.reader
        reading = await (
            reader.read_expression(body.text) if body.kind == "expression" else reader.read(body.text)
        )
        if isinstance(reading, NotParsed):
            return refuse_unparsed(reading)
        if isinstance(reading, NotRead):
            return refuse_unread(reading)
        own = next((one for one in reading.functions if is_registered(one, prepared.names)), None)
        if own is not None and prepared.required.pins:
            name = prepared.required.pins[0].table.parts[-2:]
            return build_temporary_reference_refusal(name, own.parts, kind="FUNCTION", of="FUNCTION")
        # RULE (function-of-session-called)
        named = [one for one in reading.functions if not is_registered(one, prepared.names)]
        called = list_functions_of_databases(named, prepared.names)
        refusal = body_refusal(body, reading, called)
        required = classify(reading, prepared.names)
        functions = function_privileges(reading.functions, prepared.names, short=True)
        for one in (required, refusal, functions):
            if isinstance(one, Unsupported):
                return one
        scans = any(one.role is RelationRole.SCAN for one in reading.relations)
        reads = scans or bool(called or reading.identities)  # RULE (function-body-identity)
        bodies.append(replace(body, reads=reads))
    required = replace(prepared.required, bodies=tuple(bodies))
    if any(body.reads for body in bodies):
        made = (replace(e, reads=True) if isinstance(e, RegisterCode) else e for e in required.effects)
        required = replace(required, effects=tuple(made))
    return replace(prepared, required=required)


def _classify(
    text: str, reading: Reading, context: SessionContext, judging: Judging, place: TextScope
) -> Prepared | Unsupported:
    bound = replace(context, temp_views=context.temp_views | place.aliases) if place.aliases else context
    known = judging.snapshot.catalog
    own = place.depth == 0 and not place.expression  # RULE (file-functions-own-text)
    # RULE (global-view-own-text)
    names = Names(bound, known.catalogs, known.sources, known.listed, global_views=own)
    required = classify(
        reading,
        names,
        parameters=place.arguments,
        procedures=judging.rules.procedures,
        files=own,
    )
    if isinstance(required, Unsupported):
        return required
    # A program that TRANSFORM starts stands in a query.
    commands = [one for one in reading.commands if place.depth or one.node != "ScriptTransformation"]
    if commands and not place.commands:  # RULE (nested-commands)
        where = "the text of a view" if place.depth else "SQL within a plan"
        return Unsupported(f"{where} is not a query")
    scans = scans_of(reading, names, text)
    if isinstance(scans, Unsupported):
        return scans
    # INVARIANT (a view lends no more than its rows): whoever reads a metric view chooses what is found there.
    short = not place.of_session  # RULE (metric-view-functions)
    functions = function_privileges(reading.functions, names, short=short)
    if isinstance(functions, Unsupported):
        return functions
    metadata = metadata_of(reading, names)
    if metadata and (place.depth or place.expression or keeps(reading) or required.shares):
        return Unsupported("views, cached results and expressions cannot read a table's metadata")
    files = files_of(reading, names)
    if isinstance(files, Unsupported):
        return files
    if files and (place.depth or place.expression or required.shares):  # RULE (view-over-path)
        return Unsupported("persistent views and expressions cannot read files by their path")
    feeds = list_feeds(text, reading, names)
    if isinstance(feeds, Unsupported):
        return feeds
    if feeds and (place.depth or place.expression or keeps(reading) or required.shares):
        return Unsupported("views, cached results and expressions cannot read a table's change feed")
    if keeps(reading) and _bind_scans(reading, place):  # RULE (dataframe-view-one-query)
        return Unsupported(
            "a temporary view cannot read a DataFrame that is bound to a name for one query only"
        )
    return Prepared(
        text=text,
        place=place,
        reading=reading,
        names=names,
        required=join((required, metadata_privileges(one for _, one in metadata), files_privileges(files))),
        functions=functions,
        short_functions=list_short_functions(reading, names) if short else (),
        scans=(*scans, *feeds),
        metadata=metadata,
        files=files,
        rights=place.rights or own_rights(judging.principal),
    )


def settle_functions(
    prepared: Prepared, evaluation: Evaluation, judging: Judging
) -> Prepared | Refusal | NeedsCatalog:
    """Look up the functions of databases that a text calls without their whole names."""
    own = prepared.place.depth == 0
    wanted = find_functions(
        prepared.short_functions, prepared.names, evaluation, judging, own=own, text=prepared.text
    )
    if not isinstance(wanted, tuple):
        return wanted
    return replace(prepared, functions=(*prepared.functions, *wanted)) if wanted else prepared


def find_functions(
    short: Iterable[tuple[FunctionRef, TableName]],
    names: Names,
    evaluation: Evaluation,
    judging: Judging,
    *,
    own: bool = True,
    text: str = "",
) -> tuple[Privilege, ...] | Refusal | NeedsCatalog:
    """Look up functions that are called without their whole names; return what they want.

    A client who may not execute one is told what he is told where there is none. Of what a view calls, which
    is not the client's `own`, `authorize_required` asks those by whose access its text is read.
    """
    unknown: dict[TableName, None] = {}
    wanted = []
    for function, name in short:
        privilege = execute_on(name)
        asked = replace(evaluation, missing=[], decisions=[])
        if own:
            asked.require([privilege])
        found = None if asked.missing else judging.snapshot.catalog.table(name.fold())
        if not asked.missing and not judging.snapshot.catalog.knows(name.fold()):
            unknown[name.fold()] = None
        elif found is None:  # RULE (short-function-absent)
            evaluation.decisions.extend(asked.decisions)
            told = build_unknown_function_refusal(function, names.context)
            return replace(not_governable(told, text), decisions=tuple(asked.decisions))
        wanted.append(privilege)  # RULE (execute-short-function)
    if unknown:
        return NeedsCatalog(tuple(unknown), promotes=False)
    return tuple(wanted)


def _bind_scans(reading: Reading, place: TextScope) -> bool:
    return any(
        relation.role is RelationRole.SCAN
        and len(relation.parts) == 1
        and relation.parts[0].lower() in place.aliases
        for relation in reading.relations
    )


def authorize_required(prepared: Prepared, accessing: Accessing) -> None:
    """Ask the policies for the privileges that a text requires, and whether its tables may be known."""
    for evaluation in accessing.accessors():
        required = evaluation.settle_maintenance(prepared.required)
        evaluation.require((*required.privileges, *prepared.functions))  # RULE (text-privileges)
        evaluation.visibility(names_of(prepared.scans))  # RULE (text-tables-visible)
