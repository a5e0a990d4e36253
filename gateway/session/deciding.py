"""The order of judging, the same for either endpoint: from a session as it is to a statement of it that is
decided and on record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar
from weakref import ref

from gateway.errors import LimitExceeded
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import TableName
from gateway.model.reading_time import ReadingTime
from gateway.model.statement import Cleared, Client, Refused, Statement, Verdict
from gateway.model.tracing import trace
from gateway.session.budgets import StatementMeter
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import (
    AskedStatement,
    DecidedStatement,
    EndpointOperation,
    EndpointSession,
    changes_names,
)
from gateway.session.failures import StatementRefused, build_overtaken_error
from gateway.session.freshness import Freshness, RunsStatements
from gateway.session.identifiers import new_event_id
from gateway.session.locks import NO_LOCKS, HeldLocks, LockRequest
from gateway.session.session import NameResolution
from gateway.session.view_rules import build_refusal, list_functions_called

E = TypeVar("E", bound=EndpointOperation)
E_contra = TypeVar("E_contra", bound=EndpointOperation, contravariant=True)
S = TypeVar("S", bound=EndpointSession[Any, Any])
S_contra = TypeVar("S_contra", bound=EndpointSession[Any, Any], contravariant=True)

MAX_REQUESTS = 256
JUDGED_ANEW = "it waited for Spark and was authorized again"
RUN_AGAIN = "a table that its policies read was replaced meanwhile; it was authorized and run again"


class EndpointPort(RunsStatements[S_contra], Protocol[S_contra, E_contra]):
    """What deciding needs of an endpoint. The session is locked in every call."""

    async def wait_for_end(self, operation: E_contra) -> None:
        """Wait until an operation has ended."""

    async def wait_for_others(self, session: S_contra) -> None:
        """Wait until nothing of the session looks names up any more."""

    async def abort(self, session: S_contra, reason: str) -> None:
        """Close a session whose state in Spark is no longer known."""

    async def restrict(self, session: S_contra, verdict: Verdict, client: Client) -> Verdict:
        """Refuse what this endpoint does not let pass."""

    def has_room(self, session: S_contra, verdict: Verdict) -> bool:
        """Whether Spark takes the statement now, so that those of the gateway's own may go before it.

        Raises LimitExceeded when it may not even wait.
        """


class ViewsMoved(Exception):
    """What the session's temporary views and functions read has changed since they were judged; nothing of it
    is forwarded."""


class Deciding(Generic[S, E]):
    """The order of judging. The session is locked in every call."""

    def __init__(self, dependencies: Dependencies, endpoint: EndpointPort[S, E]) -> None:
        self._endpoint: EndpointPort[S, E] = endpoint
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._locks = dependencies.locks
        self._budgets = dependencies.budgets
        self._backend = dependencies.backend
        self._limits = dependencies.limits
        self._console_url = dependencies.console_url
        self._requests: BoundedDict[int, tuple[ref[Cleared], LockRequest]] = BoundedDict(MAX_REQUESTS)
        """What clearances lock that read nothing of a session, by their ids. They are not kept for it:
        a text may have megabytes."""
        self._freshness = Freshness(self._verdicts, dependencies.catalog.changed_names, endpoint)

    async def decide(self, session: S, asked: AskedStatement) -> DecidedStatement:
        """Decide on a statement of a client's, and record it; by what names mean once the session is ready.

        Raises StatementRefused and LimitExceeded.
        """
        until: float | None = None
        while True:
            await self.settle_pending(session)
            session.adopt_renewed()
            await self.renew_views(session, asked.client)
            statement = asked.statement
            if statement.principal is not session.principal or statement.context is not session.context:
                statement = replace(statement, principal=session.principal, context=session.context)
                asked = replace(asked, statement=statement)
            try:
                return await self._judge_and_record(session, asked)
            except ViewsMoved:
                until = until or _now() + self._limits.catalog_wait_s
                _require_time(until)

    async def decide_inside(self, session: S, asked: AskedStatement) -> DecidedStatement:
        """Decide on a statement of the gateway's own, while it works on one of a client's."""
        try:
            return await self._judge_and_record(session, asked, inside=True)
        except ViewsMoved:
            raise build_overtaken_error("") from None

    async def _judge_and_record(
        self, session: S, asked: AskedStatement, *, inside: bool = False
    ) -> DecidedStatement:
        """Raises ViewsMoved too."""
        statement, client = asked.statement, asked.client
        if asked.earlier is None:
            session.require_place(self._limits.operations_per_session)
        if not inside:
            await self._budgets.prepare(session.principal, client, self._backend)
        statement_id, begun = new_event_id(), time.perf_counter()
        policies_version = self._verdicts.policies_version
        with ReadingTime(time.perf_counter) as reading:
            verdict = await self.judge_with_fresh_tables(session, statement, client)
            if isinstance(verdict, Cleared) and changes_names(verdict.effects):
                await self.let_others_end(session)
                # It may have waited for long: what policies say counts now.
                verdict = await self.judge_with_fresh_tables(session, statement, client)
            verdict, locks = await self.hold_names(session, verdict, statement, client)
        meter = None
        try:
            # RULE (limit-counts-once)
            if not inside and asked.earlier is None and asked.counts:
                verdict, meter = self._admit(session, verdict, asked)
            if not inside and self._endpoint.has_room(session, verdict) and isinstance(verdict, Cleared):
                await self._freshness.run_before(session, verdict, statement, client)
            # INVARIANT (audit first): only what was decided may reach Spark.
            decided = time.perf_counter()
            await self._record(session, asked, verdict, statement_id, decided - begun, reading.seconds)
            recorded_s = time.perf_counter() - decided
            if isinstance(verdict, Refused):
                raise StatementRefused(verdict, statement_id, console_url=self._console_url)
        except BaseException:
            locks.release()
            raise
        basis = session.basis_of(verdict) if self._limits.end_results_on_policy_change else ()
        return DecidedStatement(
            cleared=verdict,
            statement_id=statement_id,
            locks=locks,
            policies_version=policies_version,
            basis=basis,
            meter=meter,
            recorded_s=recorded_s,
        )

    def _admit(
        self, session: S, verdict: Verdict, asked: AskedStatement
    ) -> tuple[Verdict, StatementMeter | None]:
        """Count a statement that may pass, or refuse it where a limit does."""
        if isinstance(verdict, Refused):
            return verdict, None
        try:
            if asked.refusal is not None:
                raise asked.refusal
            return verdict, self._budgets.admit(
                session.principal,
                asked.client,
                lambda: _list_tables(session, verdict),
                verdict.scans,
                self._backend,
            )
        except LimitExceeded as fault:
            refused = build_refusal(verdict, fault.code, fault.sqlstate, fault.message)
            return replace(refused, limit=fault.limit, retry_s=fault.retry_s), None

    # -- the steps ---------------------------------------------------------------------------------------

    async def settle_pending(self, session: S) -> None:
        """Wait for the statement before this one, if it changes names or tables; otherwise close the session.

        INVARIANT (effect barrier): nothing is judged while a statement that changes names is pending, because
        it would be judged in a context that Spark is just leaving.
        """
        session.require_open()
        if session.pending is None:
            return
        try:
            async with asyncio.timeout(self._limits.settle_timeout_s):
                await self._endpoint.wait_for_end(session.pending)
        except TimeoutError:
            await self._endpoint.abort(session, "a statement that changes names did not end in time")
        session.require_open()
        session.pending = None

    async def renew_views(self, session: S, client: Client) -> None:
        """Make what policies made of cached relations and temporary views what they would make of them
        now."""
        await self._freshness.renew_views(session, client)
        session.require_open()

    async def judge_with_fresh_tables(self, session: S, statement: Statement, client: Client) -> Verdict:
        """Judge a statement by tables that Spark's session knows as they are, and by what the session
        forbids it."""
        with trace("judge") as span:
            verdict = await self._freshness.judge_with_fresh_tables(session, statement, client)
            if isinstance(verdict, Cleared):  # RULE (stream-of-walked-files)
                verdict = self._verdicts.without_streams(verdict, session.collect_dependencies(verdict))
            verdict = await self._endpoint.restrict(session, verdict, client)
            if span is not None:
                span.note(verdict=verdict.code if isinstance(verdict, Refused) else "cleared")
            return verdict

    async def let_others_end(self, session: S) -> None:
        """Wait until nothing of the session looks names up any more, before they begin to mean something
        else. Raises LimitExceeded.

        INVARIANT (names are judged as Spark will resolve them), the other direction: Spark analyses a running
        statement at a moment of its own choosing. One that was judged to read the temporary view `v` would
        read a table `v`, unguarded, if a DROP VIEW overtook it; one that calls a function by its bare name
        would call another database's after a USE.
        """
        try:
            async with asyncio.timeout(self._limits.settle_timeout_s):
                await self._endpoint.wait_for_others(session)
        except TimeoutError:
            raise LimitExceeded(
                "statements of this session are still running; wait for them to end before changing its "
                "database, its temporary views or settings that affect expressions"
            ) from None
        session.require_open()
        if session.unstopped:
            await self._endpoint.abort(session, "Spark did not confirm that a statement was stopped")
            session.require_open()

    async def hold_names(
        self, session: S, verdict: Verdict, statement: Statement, client: Client
    ) -> tuple[Verdict, HeldLocks]:
        """Hold the names that a statement was judged by, and judge it again if they have changed meanwhile.

        How long Spark took to tell of the names does not count for how long others may be waited for. Raises
        ViewsMoved.

        INVARIANT (a name is judged as it will be resolved, across sessions): what was judged at this version
        of the catalog holds until the names are let go, because whoever changes one of them has to hold it.
        """
        until = _now() + self._limits.catalog_wait_s
        while isinstance(verdict, Cleared):
            request = self._build_request(session, verdict)
            # RULE (names-held)
            with trace("wait for names"):
                locks = await self._locks.acquire(request, until=until, by=session.number)
            if locks is None:
                return _busy(verdict, request), NO_LOCKS
            bound = False
            try:
                if locks.waited and session.reads_own_names(verdict):
                    raise ViewsMoved
                if locks.waited or not self._is_current(session, verdict, request):
                    # Now that nobody changes them, and by the policies of now.
                    verdict = await self.judge_with_fresh_tables(session, statement, client)
                    if isinstance(verdict, Refused):
                        return verdict, NO_LOCKS
                    request = self._build_request(session, verdict)
                    if not (locks.request.covers(request) and self._is_current(session, verdict, request)):
                        if _now() >= until:
                            return _busy(verdict, request), NO_LOCKS
                        continue
                bound = True
                return verdict, locks
            finally:
                if not bound:
                    locks.release()
        return verdict, NO_LOCKS

    def _build_request(self, session: NameResolution, cleared: Cleared) -> LockRequest:
        """Return what a statement locks; of a clearance that is used again, as it was."""
        if cleared.temp_views_read or session.functions:
            return LockRequest.of(cleared, session.collect_dependencies(cleared))
        known = self._requests.get(id(cleared))
        if known is None or known[0]() is not cleared:
            names = session.collect_dependencies(cleared)
            known = self._requests[id(cleared)] = ref(cleared), LockRequest.of(cleared, names)
        return known[1]

    def _is_current(self, session: NameResolution, verdict: Cleared, request: LockRequest) -> bool:
        """Whether nothing that the statement was judged by has changed since. Raises ViewsMoved."""
        if not (request.shared or request.exclusive):
            return True
        version = self._verdicts.catalog_version
        if session.views_version != version and session.reads_own_names(verdict):
            raise ViewsMoved
        return verdict.catalog_version == version

    async def _record(
        self,
        session: S,
        asked: AskedStatement,
        verdict: Verdict,
        statement_id: str,
        judged_s: float,
        read_s: float,
    ) -> None:
        """Make durable what was decided; of what was decided before only where its event says otherwise."""
        if (earlier := asked.earlier) is not None:
            if is_as_recorded(verdict, earlier):  # RULE (lost-files-connect-policies)
                return
            if earlier.ran_again:
                await self._recorder.record_completed(earlier, "failed", RUN_AGAIN)
            else:
                await self._recorder.record_completed(earlier, "not_forwarded", JUDGED_ANEW)
        await self._recorder.record_decided(
            verdict,
            statement_id=statement_id,
            client=asked.client,
            session=session.session_id,
            judged_s=judged_s,
            read_s=read_s,
            views=session.views_made_by(verdict),
            relations=session.relations_made_by(verdict),
            functions=list_functions_called(session, verdict),
            operation=asked.operation_id,
        )
        if earlier is not None:
            earlier.statement_id, earlier.completed = statement_id, isinstance(verdict, Refused)


def _list_tables(session: NameResolution, cleared: Cleared) -> Iterator[TableName]:
    """Yield what a statement reads or changes, in views too; not what policies alone read."""
    for name in session.collect_dependencies(cleared):
        if name not in cleared.policy_tables:
            yield name
    for scan in cleared.scans:
        yield scan.table


def is_as_recorded(verdict: Verdict, earlier: EndpointOperation) -> bool:
    """Whether the record says of an operation that has waited, or is run again, what there is to say of it
    now; what of the catalog was looked up meanwhile is no part of it."""
    before = earlier.cleared
    if isinstance(verdict, Refused) or before is None or earlier.completed:
        return False
    if _policies_of(before) != _policies_of(verdict):
        return False
    same = replace(before, catalog_version=verdict.catalog_version, snapshot_version=verdict.snapshot_version)
    return verdict == same


def _policies_of(cleared: Cleared) -> str:
    """Return the versions of what decided, without the catalog's, which stands last."""
    return cleared.snapshot_version.rpartition(" ")[0]


def _now() -> float:
    return asyncio.get_running_loop().time()


def _require_time(until: float) -> None:
    """Raise LimitExceeded when the loop's clock is past `until`."""
    if _now() >= until:
        raise LimitExceeded(
            "the tables behind the session's temporary views change faster than they can be authorized; "
            "try again later"
        )


def _busy(cleared: Cleared, request: LockRequest) -> Refused:
    """Refuse what would have to wait for too long; whatever else is named in it is not told."""
    if request.exclusive:
        why = (
            "other statements still use or change what this one would change; run it again when they have "
            "ended"
        )
    else:
        why = (
            "another statement is changing a table or view that this statement uses, directly or through a "
            "view or policy; run it again when that one has ended"
        )
    return build_refusal(cleared, "CATALOG_BUSY", "55P03", why)
