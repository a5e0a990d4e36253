"""From a session as it is to a statement of it that is decided and on record: the same for either endpoint.

An endpoint says how it waits for one of its operations, how it runs a statement of its own, and how it closes
a session; the order of things is here, and what becomes of names in `barriers.py`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from gateway.model.catalog import quote
from gateway.model.statement import Cleared, Client, Refused, Statement, Verdict
from gateway.session import barriers
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import EndpointOperation, EndpointSession
from gateway.session.failures import StatementRefused
from gateway.session.identifiers import new_event_id

E = TypeVar("E", bound=EndpointOperation)
S = TypeVar("S", bound=EndpointSession[Any, Any])


class Deciding(ABC, Generic[S, E]):
    """Everything is called with the session locked."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._verdicts = dependencies.verdicts
        self._recorder = dependencies.recorder
        self._limits = dependencies.limits

    @abstractmethod
    async def run_inside(self, session: S, statement: Statement, client: Client) -> object:
        """Run a statement of the gateway's own within the lock of the session: judged and recorded like any.

        Raises StatementRefused and StatementFailed.
        """

    @abstractmethod
    async def _abort(self, session: S, reason: str) -> None:
        """Close a session whose state in Spark is no longer known."""

    @abstractmethod
    async def _ended(self, operation: E) -> None:
        """Wait for the end of an operation."""

    @abstractmethod
    def _others(self, session: S) -> Iterable[Awaitable[None]]:
        """Return what to wait for until nothing of the session looks names up any more."""

    @abstractmethod
    def own(self, session: S, text: str) -> Statement:
        """Return a text of the gateway's own as a statement of the session."""

    async def prepare(self, session: S, client: Client) -> None:
        """Bring the session to where the next statement can be judged: what policies made of its cached
        relations and temporary views is what they would make of them now."""
        session.require_open()
        await self._settle_pending(session)
        version = self._verdicts.policies_version

        async def judge(statement: Statement) -> Verdict:
            return await self._verdicts.judge(statement, client)

        for handle, relation in list(session.relations.items()):
            if not await barriers.still_right(relation, version, judge, self._verdicts.can_be_read):
                session.end_relation(handle)
        await barriers.renew_views(
            session,
            version,
            catalog_version=self._verdicts.catalog_version,
            judge=judge,
            run=lambda statement: self.run_inside(session, statement, client),
            drop=lambda name: self.own(session, f"DROP VIEW IF EXISTS {quote(name)}"),
            changed=self._dependencies.catalog.changed_names,
            can_be_read=self._verdicts.can_be_read,
        )
        session.require_open()

    async def _settle_pending(self, session: S) -> None:
        """Wait for the statement before this one, if it changes names or tables; otherwise close the session.

        INVARIANT (effect barrier): nothing is judged while a statement that changes names is pending, because
        it would be judged in a context that Spark is just leaving.
        """
        if session.pending is None:
            return
        try:
            async with asyncio.timeout(self._limits.settle_timeout_s):
                await self._ended(session.pending)
        except TimeoutError:
            await self._abort(session, "a statement that changes names did not end in time")
        session.require_open()
        session.pending = None

    async def _let_others_end(self, session: S) -> None:
        await barriers.let_others_end(self._others(session), timeout_s=self._limits.settle_timeout_s)
        session.require_open()

    async def _judge(self, session: S, statement: Statement, client: Client) -> Verdict:
        verdict = await barriers.look_again(
            session,
            statement,
            judge=lambda one: self._verdicts.judge(one, client),
            run=lambda one: self.run_inside(session, one, client),
            changed=self._dependencies.catalog.changed_names,
        )
        return self._verdicts.without_streams(verdict, session.judged_by)  # RULE (stream-of-walked-files)

    async def _decided(
        self,
        session: S,
        statement: Statement,
        client: Client,
        *,
        ready: Callable[[Verdict], bool],
        record: Callable[[Verdict, str, float], Awaitable[None]],
        begin: Callable[[Cleared, str], E],
    ) -> tuple[E, Cleared]:
        """Judge and record; return what begins or goes on. Raises StatementRefused, and ViewsMoved too.

        `ready`: whether there is room in Spark, so that statements of the gateway's own may go before it.
        `record` gets the verdict, the id of the statement and the seconds that judging took.
        """
        statement_id = new_event_id()
        begun = time.perf_counter()
        policies_version = self._verdicts.policies_version
        verdict, hold = await barriers.judge_and_bind(
            session,
            self._dependencies,
            judge=lambda: self._judge(session, statement, client),
            let_others_end=lambda: self._let_others_end(session),
        )
        operation: E | None = None
        try:
            if ready(verdict):
                await barriers.run_before(
                    session, statement, verdict, lambda one: self.run_inside(session, one, client)
                )
            # INVARIANT (audit first): only what was decided may reach Spark.
            await record(verdict, statement_id, time.perf_counter() - begun)
            if isinstance(verdict, Refused):
                raise StatementRefused(verdict, statement_id)
            operation = begin(verdict, statement_id)
        finally:
            if operation is None:
                hold.end()
        operation.cleared, operation.hold = verdict, hold
        operation.policies_version = policies_version
        if self._limits.end_results_on_policy_change:
            operation.basis = session.basis_of(verdict)
        return operation, verdict
