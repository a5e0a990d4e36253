"""What stands in a text for the tables and views that it reads, and for the name of who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.model.catalog import Column, Table
from gateway.model.reading import RelationRole, Span, Splice
from gateway.pipeline.judging import Judging, RewrittenStatement, names_with_obligations
from gateway.pipeline.kept import keeps, refuse_long_views, write_nested_text
from gateway.pipeline.metrics import WrittenOut, metrics_of
from gateway.pipeline.rights import Rights
from gateway.pipeline.seeing import Prepared
from gateway.pipeline.sources import ReadSources
from gateway.sql import guard
from gateway.sql.change_feeds import ChangeFeed
from gateway.sql.evaluate import Evaluation, list_hidden_columns
from gateway.sql.identity import IsIdentity, identity_splices
from gateway.sql.required import Unsupported
from gateway.sql.sketches import sketch_scan

_COLUMNS = frozenset({"AddColumns", "AlterColumns", "CreateTable", "ReplaceColumns", "ReplaceTable"})
"""Commands that give columns what they are by default, which Spark keeps as a text."""


def guard_scans(
    prepared: Prepared,
    sources: ReadSources,
    narrowed: Mapping[Span, RewrittenStatement],
    below: Mapping[Span, guard.Below],
    metrics: WrittenOut,
    evaluation: Evaluation,
    judging: Judging,
) -> list[guard.GuardedRelation] | Unsupported:
    guarded: list[guard.GuardedRelation] = []
    policies, bodies, barred = sources.policies, sources.bodies, sources.barred
    personal = binds(prepared, judging)
    views_with_obligations = names_with_obligations(bodies)
    chars = 0
    for relation, name in prepared.scans:
        folded = name.fold()
        table, view = evaluation.catalog.table(name), policies.views[folded]
        if table is None or view is None:
            guarded.append(guard.guard_missing(prepared.text, relation, name, bare=judging.bare_builtins))
            continue
        if prepared.required.shares:
            within = folded in views_with_obligations
            if metrics_of(table) is not None and list_hidden_columns(table, view):
                return Unsupported(f"{name} is a metric view with columns that you may not select")
            guarded.append(guard.define_scan(prepared.text, relation, table, view, within=within))
            continue
        if metrics_of(table) is not None:
            guarded.append(
                guard.GuardedRelation(
                    relation=relation,
                    table=table,
                    query=None if relation.span is None else metrics.queries.get(relation.span),
                    has_obligations=folded in views_with_obligations or guard.has_obligations(table, view),
                )
            )
            continue
        feed = isinstance(relation, ChangeFeed)
        if prepared.required.sketches and guard.has_obligations(table, view) and not feed:
            sketched = sketch_scan(relation, table, view)
            if sketched is not None:
                guarded.append(sketched)
                continue
        body = (
            bodies.get(folded) if relation.span is None else narrowed.get(relation.span, bodies.get(folded))
        )
        nested = write_nested_text(body, personal=personal)
        chars += len(nested or "")
        if (found := refuse_long_views(chars, name)) is not None:
            return found
        scan = guard.guard_scan(
            prepared.text,
            relation,
            table,
            view,
            body=nested,
            within=folded in views_with_obligations,
            period=judging.period if folded in policies.reading else 0,
            barrier=folded in barred,
            below=guard.NO_CONDITIONS
            if relation.span is None
            else below.get(relation.span, guard.NO_CONDITIONS),
            bare=judging.bare_builtins,
        )
        if isinstance(scan, Unsupported):
            return scan
        guarded.append(scan)
    return guarded


def binds(prepared: Prepared, judging: Judging) -> bool:
    """Whether the principal's name is written into a text that asks for it: always where Spark does not know
    who the user is, and in what Spark may keep, so that no cached plan asks who the user is."""
    # RULE (connect-identity)
    return judging.endpoint == "connect" or prepared.place.depth > 0 or keeps(prepared.reading)


def identities(
    prepared: Prepared, evaluation: Evaluation, judging: Judging, meaning: IsIdentity | None
) -> tuple[Splice, ...] | Unsupported:
    """Return what binds `current_user()` and its likes to the principal."""
    reading = prepared.reading
    if not reading.identities or not binds(prepared, judging):
        return ()
    if prepared.required.shares:
        return ()  # it asks who reads it, not who made it
    if any(command.node in _COLUMNS for command in reading.commands):
        return Unsupported(
            "what a column is by default cannot ask who the user is where Spark does not know it, as over "
            "Spark Connect; write the value when you insert"
        )
    mentions = [r for r in reading.relations if r.role is not RelationRole.CTE]
    named: dict[int, Table | None] = {}
    for relation, name in prepared.scans:
        table = evaluation.catalog.table(name)
        if table is not None:
            # A hidden column is not there for Spark, which would take its name for the function.
            table = replace(table, columns=_selectable(table, prepared.rights, evaluation))
        named[id(relation)] = table
    splices = identity_splices(
        reading,
        judging.principal.user,
        [named.get(id(relation)) for relation in mentions],
        meaning=meaning,
    )
    if isinstance(splices, Unsupported) and judging.endpoint == "thrift":
        return ()  # Spark knows the user there; only its cache may not keep it
    return splices


def _selectable(table: Table, rights: Rights, evaluation: Evaluation) -> tuple[Column, ...]:
    columns = table.columns
    for principal in rights.accessors:
        found = replace(evaluation, principal=principal).selectable(table)
        columns = tuple(column for column in columns if column in found)
    return columns
