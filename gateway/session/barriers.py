"""What keeps names meaning what they were judged to mean, whichever endpoint a session came through.

An endpoint says how it waits for one of its operations, how it judges and how it runs a statement of its own;
the order of things, and what becomes of the names, is decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import structlog

from gateway.errors import BackendUnavailable, LimitExceeded
from gateway.model.catalog import TableKind, TableName
from gateway.model.changed_names import ChangedNames
from gateway.model.statement import (
    ChangeSetting,
    Cleared,
    CreateTempView,
    Refused,
    ResetSettings,
    Statement,
    UseNamespace,
    Verdict,
)
from gateway.session.endpoint import changes_names
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.locks import NO_LOCKS, CatalogLocks, HeldLocks, LockRequest
from gateway.session.session import CachedRelation, JudgedStatement, NameResolution, TempView
from gateway.session.view_rules import (
    as_made,
    refused,
    statement_of,
    why_ended,
    without_dangling_views,
    without_ended_views,
)

if TYPE_CHECKING:
    from gateway.session.dependencies import Dependencies

_log = structlog.get_logger(__name__)

JudgeStatement = Callable[[Statement], Awaitable[Verdict]]
CanBeRead = Callable[[Iterable[TableName]], Awaitable[bool]]
"""Whether nothing among the files of tables leads out of where they lie."""
RunStatement = Callable[[Statement], Awaitable[object]]
"""Runs a statement of the gateway's own to its end."""


async def let_others_end(ended: Iterable[Awaitable[None]], *, timeout_s: float) -> None:
    """Wait until nothing of the session looks names up any more, before they begin to mean something else.

    INVARIANT (names are judged as Spark will resolve them), the other direction: Spark analyses a running
    statement at a moment of its own choosing. One that was judged to read the temporary view `v` would
    read a table `v`, unguarded, if a DROP VIEW overtook it; one that calls a function by its bare name
    would call another database's after a USE.
    """
    try:
        async with asyncio.timeout(timeout_s):
            for one in ended:
                await one
    except TimeoutError:
        raise LimitExceeded(
            "statements of this session are still running; its database, its temporary views and settings "
            "that expressions depend on can only change when they have ended"
        ) from None


class ViewsMoved(Exception):
    """What the session's temporary views read has changed since they were judged; nothing of it is
    forwarded."""


def require_time(until: float) -> None:
    """Raise LimitExceeded when the loop's clock is past `until`."""
    if asyncio.get_running_loop().time() >= until:
        raise LimitExceeded(
            "what the session's temporary views read changes faster than they can be judged; try again later"
        )


T = TypeVar("T")

MAX_LOOKS = 5
"""How often a session looks at tables that others change at the same time, before the statement fails."""
NOT_THERE = "42P01"
"""The SQLSTATE of a table or view that is not there."""


async def retry_if_views_changed(
    prepare: Callable[[], Awaitable[None]], start: Callable[[], Awaitable[T]], *, wait_s: float
) -> T:
    """Prepare a session and start a statement in it; once more where its temporary views moved meanwhile.

    Raises LimitExceeded when they do so for longer than `wait_s`, counted from the first time.
    """
    until: float | None = None
    while True:
        await prepare()
        with contextlib.suppress(ViewsMoved):
            return await start()
        until = until or asyncio.get_running_loop().time() + wait_s
        require_time(until)


async def judge_and_bind(
    session: NameResolution,
    dependencies: Dependencies,
    *,
    judge: Callable[[], Awaitable[Verdict]],
    let_others_end: Callable[[], Awaitable[None]],
) -> tuple[Verdict, HeldLocks]:
    """Judge a statement and hold the names that it was judged by. Raises ViewsMoved and LimitExceeded."""
    verdict = await judge()
    if isinstance(verdict, Cleared) and changes_names(verdict.effects):
        await let_others_end()
        # It may have waited for long: what policies say counts now.
        verdict = await judge()
    return await bind(
        session,
        verdict,
        dependencies.locks,
        judge=judge,
        version=lambda: dependencies.verdicts.catalog_version,
        wait_s=dependencies.limits.catalog_wait_s,
    )


async def bind(
    session: NameResolution,
    verdict: Verdict,
    locks: CatalogLocks,
    *,
    judge: Callable[[], Awaitable[Verdict]],
    version: Callable[[], int],
    wait_s: float,
) -> tuple[Verdict, HeldLocks]:
    """Hold the names that a statement was judged by, and judge it again if they have changed meanwhile.

    `judge` judges the statement anew, `version` is the catalog's, `wait_s` is for how long others may be
    waited for from now on: how long Spark took to tell of the names does not count. Raises ViewsMoved.

    INVARIANT (a name is judged as it will be resolved, across sessions): what was judged at this version of
    the catalog holds until the names are let go, because whoever changes one of them has to hold it.
    """
    until = asyncio.get_running_loop().time() + wait_s
    while isinstance(verdict, Cleared):
        request = LockRequest.of(verdict, session.judged_by(verdict))
        # RULE (names-held)
        hold = await locks.acquire(request, until=until, by=session.number)
        if hold is None:
            return _busy(verdict, request), NO_LOCKS
        bound = False
        try:
            if hold.waited and verdict.temp_views_read:
                raise ViewsMoved
            if hold.waited or not _is_current(session, verdict, request, version()):
                # Now that nobody changes them, and by the policies of now.
                verdict = await judge()
                if isinstance(verdict, Refused):
                    return verdict, NO_LOCKS
                request = LockRequest.of(verdict, session.judged_by(verdict))
                if not (hold.request.covers(request) and _is_current(session, verdict, request, version())):
                    if asyncio.get_running_loop().time() >= until:
                        return _busy(verdict, request), NO_LOCKS
                    continue
            bound = True
            return verdict, hold
        finally:
            if not bound:
                hold.end()
    return verdict, NO_LOCKS


def _is_current(session: NameResolution, verdict: Cleared, request: LockRequest, version: int) -> bool:
    """Whether nothing that the statement was judged by has changed since. Raises ViewsMoved."""
    if not (request.shared or request.exclusive):
        return True
    if verdict.temp_views_read and session.views_version != version:
        raise ViewsMoved
    return verdict.catalog_version == version


def _busy(cleared: Cleared, request: LockRequest) -> Refused:
    """Refuse what would have to wait for too long; whatever else is named in it is not told."""
    if request.exclusive:
        why = (
            "other statements still use, or change, what this one would change; run it again when they "
            "have ended"
        )
    else:
        why = (
            "a table or view that the statement reads or is on, by itself or through a view or policy, is "
            "being changed by another statement; run it again when that one has ended"
        )
    return refused(cleared, "CATALOG_BUSY", "55P03", why)


def overtaken(statement_id: str) -> StatementFailed:
    """Return the end of a statement whose names changed before Spark was known to have analysed it."""
    message = (
        "[SLUICE_CATALOG_CHANGED] a table or view that the statement reads was changed while Spark took "
        "it up; run it again"
    )
    return StatementFailed(message, "40001", 0, statement_id)


def settle(
    session: NameResolution,
    cleared: Cleared,
    policies_version: int,
    *,
    finished: bool,
    stopped: bool,
    statement_id: str = "",
) -> bool:
    """Put a statement's effects in force. False when what names mean is no longer certain.

    `stopped`: it ended neither FINISHED nor with an error of Spark's, so that it may have done its work.
    """
    if finished:
        session.finished(cleared, policies_version, statement_id)
        return True
    if stopped:
        for effect in cleared.effects:
            if isinstance(effect, ChangeSetting):
                session.setting_changed(effect.key, own=False)
    # A view that was being replaced may be the old one or the new one now.
    uncertain = (UseNamespace, CreateTempView)
    return not (stopped and any(isinstance(effect, uncertain) for effect in cleared.effects))


async def look_again(
    session: NameResolution,
    statement: Statement,
    *,
    judge: JudgeStatement,
    run: RunStatement,
    changed: ChangedNames,
) -> Verdict:
    """Judge a statement, and what temporary views forbid it; have Spark's session look at the tables that its
    policies read, once a period, and at those that have changed since it knows them.

    INVARIANT (now): Spark keeps the files of a table for as long as a session lasts. Who was blocked by a row
    of a mapping table is blocked in sessions, too, that have read it before. Catalogs of Iceberg and Paimon
    keep tables as well: a column that is gone, and was masked, is not read where nothing masks it any more.
    What was dropped and made again, or promoted anew, is not read by the columns and files that it had.
    """
    looked: dict[TableName, int] = {}
    attempts = 0
    while True:
        generation = changed.generation
        verdict = await judge(statement)
        if not isinstance(verdict, Cleared):
            return without_ended_views(session, verdict)
        # What was looked at for this very statement is fresh, should the period have ended meanwhile.
        stale = [table for table in session.stale_tables(verdict, changed) if table.folded() not in looked]
        if not stale:
            session.judged(verdict, generation, looked)
            return without_dangling_views(session, without_ended_views(session, verdict))
        try:
            await _look_at(stale, statement, verdict, run)
        except BackendUnavailable:
            attempts += 1
            if changed.generation == generation or attempts == MAX_LOOKS:
                raise
            continue  # what is looked at was changed or dropped meanwhile
        for table in stale:
            session.looked_at[table] = verdict.period
            looked[table.folded()] = generation


async def _look_at(
    stale: Sequence[TableName], statement: Statement, verdict: Cleared, run: RunStatement
) -> None:
    tables = {table.name.folded() for table in verdict.tables if table.kind is TableKind.TABLE}
    for table in stale:
        own = replace(statement, text="", plan=None, refreshes=table)
        try:
            await run(own)
        except (StatementRefused, StatementFailed) as error:
            # What is no table now a session has kept, or does not know. Of one that was dropped outside since
            # it was described Spark says so when the statement itself is run.
            is_read = table.folded() in tables and not _is_gone(error)
            if is_read or table in verdict.policy_tables:
                raise BackendUnavailable(f"Spark could not {_purpose(own)}") from None


async def run_before(
    session: NameResolution, statement: Statement, verdict: Verdict, run: RunStatement
) -> None:
    """Have Spark know who defines a view before its text changes: the statement holds the view's name. For
    RESET, give the session Spark's own value of every setting that it was given.

    INVARIANT (one reading): one by one, because RESET itself would take the pinned ones too.
    """
    if not isinstance(verdict, Cleared):
        return
    if verdict.definition is not None:
        await _run_own(replace(statement, text="", plan=None, records=verdict.definition), run)
    if any(isinstance(effect, ResetSettings) for effect in verdict.effects):
        for key in sorted(session.given_settings):
            own = replace(statement, text="", plan=None, context=session.context, resets=key)
            await _run_own(own, run)


async def _run_own(statement: Statement, run: RunStatement) -> None:
    try:
        await run(statement)
    except (StatementRefused, StatementFailed):
        raise BackendUnavailable(f"Spark could not {_purpose(statement)}") from None


def _is_gone(error: StatementRefused | StatementFailed) -> bool:
    """Whether Spark says that there is no such table: over Thrift at times in the words alone."""
    if not isinstance(error, StatementFailed):
        return False
    return error.sqlstate == NOT_THERE or error.message.rstrip().endswith(f"SQLSTATE: {NOT_THERE}")


def _purpose(statement: Statement) -> str:
    if statement.resets is not None:
        return f"reset the setting `{statement.resets}`"
    return "look again at what the statement reads" if statement.refreshes else "record who defines a view"


async def renew_views(
    session: NameResolution,
    version: int,
    *,
    catalog_version: int,
    judge: JudgeStatement,
    run: RunStatement,
    drop: Callable[[str], Statement],
    changed: ChangedNames,
    can_be_read: CanBeRead,
) -> None:
    """Judge every temporary view again: policies, or what it reads, may have changed since it was made.

    A view whose text would be the same stays, unless Spark keeps its plan and tables in it are others by
    now. One that would be written differently is dropped and made again; one that is refused now is dropped,
    and its name answers with an explanation, not with a table.
    """
    session.views_version = catalog_version
    judged: set[str] = set()
    while due := [
        view for name, view in session.views.items() if name not in judged or view.policies_version < version
    ]:
        judged.add(due[0].name.lower())
        await _renew(session, due[0], version, judge, run, drop, changed, can_be_read)


async def _renew(
    session: NameResolution,
    view: TempView,
    version: int,
    judge: JudgeStatement,
    run: RunStatement,
    drop: Callable[[str], Statement],
    changed: ChangedNames,
    can_be_read: CanBeRead,
) -> None:
    generation = changed.generation
    statement = as_made(session, view)
    verdict = without_ended_views(session, await judge(statement))
    if isinstance(verdict, Cleared) and not view.inlined:
        # Spark looks the names in it up again whenever it is read, by what its session knows.
        stale = session.changed_tables(verdict, changed)  # RULE (text-view-renewed)
        await _look_at(stale, statement, verdict, run)
        session.judged(verdict, generation, dict.fromkeys((name.folded() for name in stale), generation))
    origin = CachedRelation(
        basis=view.basis,
        policies_version=view.policies_version,
        statement_id=view.statement_id,
        sources=view.sources,
    )
    same = view.made.same(verdict) and not session.is_outdated(view, changed)  # RULE (plan-view-renewed)
    if same and await still_right(origin, version, judge, can_be_read):
        session.view_still_right(view, version)
        return
    # INVARIANT (no dangling reader): what reads a view ends with it. Spark keeps the text of a temporary
    # view: a reader left behind would find a table where its view was.
    chain = [view, *session.readers_of(view.name)]
    # Of the others, and of streams, the views end: nobody asked for another stream.
    again = [ended for ended in chain if session.can_be_made_again(ended)]
    for ended in reversed(chain):
        # The view leaves the context whatever comes of its drop: from then on its name is pinned to the
        # catalog and cannot reach the old view.
        with contextlib.suppress(StatementRefused, StatementFailed):
            await run(drop(ended.name))
        session.end_view(ended.name, why_ended(ended.name, view.name, verdict))
    for ended in again:
        with contextlib.suppress(StatementRefused, StatementFailed):
            await run(statement_of(session, ended))
    made_again = [ended.name.lower() in session.views for ended in chain]
    _log.info("temporary_views_renewed", ended=len(chain), made_again=sum(made_again))


async def still_right(
    relation: CachedRelation, version: int, judge: JudgeStatement, can_be_read: CanBeRead
) -> bool:
    """Whether everything that it was computed from would be computed in the same way now."""
    if relation.basis is None:
        # RULE (links-below-many-statements)
        return relation.policies_version == version and await can_be_read(relation.sources)
    return await all_same(relation.basis, judge)


async def all_same(basis: tuple[JudgedStatement, ...], judge: JudgeStatement) -> bool:
    """Whether judging gives again what Spark was handed, for each of the statements."""
    for judged in basis:
        if not judged.same(await judge(judged.statement)):
            return False
    return True
