"""`judge`: a statement and a snapshot in, Cleared or Refused out. The only place that makes a Cleared.

The passes, in order: read (Spark's parser), classify, resolve, evaluate (policies), analyse (sqlglot, an
advisor), guard (splices), prove (Spark's parser again). Each takes what the one before it gave; anything
that one of them does not know is refused. Nothing here does I/O but asking the reader.

`texts.py` has the passes for SQL text, `plans.py` those for Spark Connect plans, which hold SQL texts and
expressions within: these go the way of all SQL.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.model.catalog import FUNCTION, Table, TableName, quote, quote_parts
from gateway.model.reading_settings import VARIABLES_MARK, may_be_set
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    CatalogChanged,
    ChangeSetting,
    Checkpoint,
    Cleared,
    Definition,
    NeedsCatalog,
    PlanRequest,
    Refused,
    Statement,
    Verdict,
)
from gateway.pipeline.judging import (
    MAX_VIEW_DEPTH,
    Judging,
    Refusal,
    Rules,
    list_parent_namespaces,
    not_governable,
    reject_names_below_table,
    settle_effects,
)
from gateway.pipeline.scripts import govern_script, is_script
from gateway.pipeline.seeing import TextScope
from gateway.pipeline.texts import govern
from gateway.reader.port import ReaderPort
from gateway.sql.session_commands import refuse_pinned

__all__ = ["MAX_VIEW_DEPTH", "Rules", "judge"]


async def judge(
    statement: Statement, snapshot: Snapshot, reader: ReaderPort, rules: Rules | None = None
) -> Verdict | NeedsCatalog:
    """Say whether the statement may pass, and as what text or plan.

    Returns NeedsCatalog when tables must be looked up first; the caller does that and asks again. Each
    level of views can ask once more, so at most MAX_VIEW_DEPTH + 1 rounds are needed.
    """
    if statement.refreshes is not None:
        return _refresh(statement, statement.refreshes, snapshot)
    if statement.checkpoint is not None:
        return _list_checkpoints(statement, statement.checkpoint, snapshot)
    if statement.records is not None:
        return _record(statement, statement.records, snapshot)
    if statement.resets is not None:
        return _reset(statement, statement.resets, snapshot)
    if statement.marks_variables:
        return _own(statement, f"SET {VARIABLES_MARK}=true", "SetCommand", snapshot)
    judging = Judging(
        principal=statement.principal,
        snapshot=snapshot,
        reader=reader,
        rules=rules or Rules(),
        govern=govern,
        endpoint=statement.context.endpoint if statement.plan is None else "connect",
        settings=statement.context.settings,
        variables=statement.context.variables,
        session_catalogs=statement.context.catalogs,
    )
    if statement.plan is not None:
        verdict = await _judge_plan(statement, statement.plan, judging)
    else:
        verdict = await _judge_text(statement, judging)
    if not isinstance(verdict, Cleared):
        return verdict
    tables = list_parent_namespaces(verdict.names)
    if not tables:
        return verdict
    below = reject_names_below_table(verdict.names, judging)
    if isinstance(below, Refusal):
        return _build_refused(replace(below, plan_class=verdict.plan_class), verdict.statement, snapshot)
    return below or replace(verdict, names=verdict.names.union(tables))  # RULE (nested-namespace-held)


async def _judge_text(statement: Statement, judging: Judging) -> Verdict | NeedsCatalog:
    snapshot = judging.snapshot
    if await is_script(statement.text, judging):
        outcome = await govern_script(statement.text, statement.context, judging)
    else:
        outcome = await govern(statement.text, statement.context, judging, TextScope(alone=True))
    if isinstance(outcome, NeedsCatalog):
        return outcome
    if isinstance(outcome, Refusal):
        return _build_refused(outcome, statement, snapshot)
    return Cleared(
        statement=statement,
        forwarded=outcome.text,
        plan_class=outcome.reading.root,
        snapshot_version=snapshot.version,
        catalog_version=snapshot.catalog.version,
        tables=_list_known(outcome.names, snapshot),
        functions=_list_functions(outcome.names, snapshot),
        read_only=not outcome.reading.commands,
        effects=outcome.required.effects,
        period=snapshot.context.period,
        **outcome.list_fields(),
    )


def _refresh(statement: Statement, table: TableName, snapshot: Snapshot) -> Cleared:
    """Let the gateway have Spark's session look again at a table that policies read.

    The text is written here, whatever the statement says; it shows nothing, and changes nothing for anybody.
    """
    text = f"REFRESH TABLE {quote_parts(table.parts)}"
    return _own(statement, text, "RefreshTable", snapshot)


def _record(statement: Statement, definition: Definition, snapshot: Snapshot) -> Cleared:
    """Let the gateway record who defines a view, before a statement that was judged changes its text.

    What is recorded counts with that text only, so nobody may see more or less of the view until then.
    """
    view = definition.view
    name = quote_parts(view.parts)
    text = f"ALTER VIEW {name} SET TBLPROPERTIES ('{definition.key}' = '{definition.value}')"
    changed = CatalogChanged((view,), meaning="stays")
    return replace(_own(statement, text, "SetViewProperties", snapshot), effects=(changed,))


def _reset(statement: Statement, key: str, snapshot: Snapshot) -> Verdict:
    """Let the gateway give a setting Spark's own value again, for a session that asks to have all reset."""
    if not may_be_set(key):  # RULE (reset-keeps-pinned)
        stop = not_governable(refuse_pinned(key))
        return _build_refused(stop, replace(statement, text=f"RESET {quote(key)}"), snapshot)
    own = _own(statement, f"RESET {quote(key)}", "ResetCommand", snapshot)
    return replace(own, effects=(ChangeSetting(key, None),))


def _own(statement: Statement, text: str, plan_class: str, snapshot: Snapshot) -> Cleared:
    plan = b""
    if statement.context.endpoint == "connect":
        from gateway.plan.guard import plan_of

        plan = plan_of(text)
    return Cleared(
        statement=replace(statement, text=text),
        forwarded=text,
        plan_class=plan_class,
        snapshot_version=snapshot.version,
        forwarded_plan=plan,
    )


def _list_checkpoints(statement: Statement, checkpoint: Checkpoint, snapshot: Snapshot) -> Cleared:
    """Let the gateway ask which checkpoints a principal has under a location. What is asked is written here,
    of a place that no client can name, and the answer is for the gateway alone."""
    from gateway.plan.checkpoints import build_checkpoint_listing

    text = f"LIST CHECKPOINTS {checkpoint.directory}"
    return Cleared(
        statement=replace(statement, text=text),
        forwarded=text,
        plan_class="ListCheckpoints",
        snapshot_version=snapshot.version,
        shows_errors=True,
        forwarded_plan=build_checkpoint_listing(checkpoint.directory),
    )


def _list_known(names: Iterable[TableName], snapshot: Snapshot) -> tuple[Table, ...]:
    # RULE (functions-no-tables)
    tables = (name for name in sorted(names, key=str) if name.version != FUNCTION)
    return tuple(t for name in tables if (t := snapshot.catalog.table(name)) is not None)


def _list_functions(names: Iterable[TableName], snapshot: Snapshot) -> tuple[Table, ...]:
    functions = (name for name in sorted(names, key=str) if name.version == FUNCTION)
    return tuple(found for name in functions if (found := snapshot.catalog.table(name)) is not None)


async def _judge_plan(statement: Statement, request: PlanRequest, judging: Judging) -> Verdict | NeedsCatalog:
    # pyspark's protobuf classes take seconds to import: only gateways that get plans pay for them.
    from gateway.pipeline.plans import govern_plan

    outcome = await govern_plan(statement, request, judging)
    if isinstance(outcome, NeedsCatalog):
        return outcome
    told = replace(statement, text=outcome.rendering)
    if isinstance(outcome.end, Refusal):
        # RULE (refusal-plan-ids)
        return replace(_build_refused(outcome.end, told, judging.snapshot), handles=outcome.handles)
    plan = outcome.end
    return Cleared(
        statement=told,
        forwarded=plan.text,
        plan_class=plan.root,
        snapshot_version=judging.snapshot.version,
        catalog_version=judging.snapshot.catalog.version,
        tables=_list_known(plan.names, judging.snapshot),
        functions=_list_functions(plan.names, judging.snapshot),
        read_only=plan.read_only,
        effects=settle_effects(plan.effects, judging.snapshot.catalog),
        period=judging.snapshot.context.period,
        forwarded_plan=plan.message,
        plan_texts=plan.texts,
        original_relation=plan.original_relation,
        code=plan.code,
        checkpoint=plan.checkpoint,
        handles=outcome.handles,  # RULE (clearance-plan-ids)
        is_lazy_checkpoint=outcome.is_lazy_checkpoint,
        references_plan_ids=outcome.references_plan_ids,
        **plan.list_fields(),
    )


def _build_refused(stop: Refusal, statement: Statement, snapshot: Snapshot) -> Refused:
    return Refused(
        statement=statement,
        code=stop.code,
        sqlstate=stop.sqlstate,
        message=stop.message,
        plan_class=stop.plan_class,
        parameters=stop.parameters,
        exceptions=stop.exceptions,
        condition=stop.condition,
        decisions=stop.decisions,
        snapshot_version=snapshot.version,
    )
