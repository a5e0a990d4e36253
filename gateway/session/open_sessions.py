"""All open sessions of one gateway, of every endpoint: who has them, and ending those of a user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog

from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.endpoint import EndpointSession
from gateway.session.handles_elsewhere import UNKNOWN
from gateway.session.registry import EndpointSessions, IsOver

_log = structlog.get_logger(__name__)

REMOVED = "the user was removed"
"""Why sessions end whose user may not log in any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStatement:
    """A statement as operators are told of it, from the verdict to its end."""

    statement: str
    """Its id, as the record has it."""
    user: str
    endpoint: str
    session: str
    backend: str
    state: str
    for_s: float
    """Seconds since the verdict."""
    text: str
    is_plan: bool
    rows: int
    """Relayed so far."""
    waits: str


MAX_SHOWN_CHARS = 4_000
"""Characters of a statement's text that operators are told."""
EndConnections = Callable[[IsOver], None]
"""Ends the connections for whose users it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session as operators are told of it."""

    user: str
    endpoint: str
    address: str
    session: str
    """As the record has it in `sess`."""
    backend: str
    """The Spark that it is on."""
    opened_at: datetime
    idle_s: float
    """Seconds since its client last asked for something; 0 while a statement runs."""
    statements: int
    """What it has running, or open to be fetched."""
    waits: str = ""
    """What a statement of it waits for, and its place in the queue."""


class OpenSessions:
    """Endpoints add their sessions, and those with connections that stay logged in what ends these."""

    def __init__(self) -> None:
        self._endpoints: list[EndpointSessions[Any, Any]] = []
        self._connections: list[EndConnections] = []
        self._answering: list[Callable[[], int]] = []

    def add(self, sessions: EndpointSessions[Any, Any]) -> None:
        """Have the sessions of an endpoint listed and ended with the others."""
        self._endpoints.append(sessions)

    def remove(self, sessions: EndpointSessions[Any, Any]) -> None:
        """Forget the sessions of a Spark that is gone."""
        self._endpoints.remove(sessions)

    def add_connections(self, end: EndConnections, answering: Callable[[], int]) -> None:
        """Have connections of an endpoint ended with the sessions of a user who may not log in any more.
        `answering` says how many calls are being answered on them."""
        self._connections.append(end)
        self._answering.append(answering)

    def busy(self) -> int:
        """Return in how many sessions something runs, or is being fetched; or how many calls are being
        answered where these are more: a call for metadata, an answer that a slow client takes."""
        sessions = sum(endpoint.busy() for endpoint in self._endpoints)
        # RULE (stopping-waits-answers)
        return max(sessions, sum(answering() for answering in self._answering))

    def begin_closing(self) -> None:
        """Have endpoints begin to close what Spark has to end, which they wait for when they are closed."""
        for endpoint in self._endpoints:
            endpoint.begin_closing()

    def list_sessions(self) -> list[OpenSession]:
        """Return all of them, by user and then by age."""
        found = [
            OpenSession(
                user=session.principal.user,
                endpoint=session.client.protocol,
                address=session.client.address,
                session=session.session_id,
                backend=endpoint.backend,
                opened_at=session.opened_at,
                idle_s=0.0 if session.busy else round(endpoint.idle_of(session), 3),
                statements=len(session.operations),
                waits=endpoint.describe_wait(session),
            )
            for endpoint in self._endpoints
            for session in endpoint.list_open()
        ]
        return sorted(found, key=lambda one: (one.user, one.opened_at))

    def list_statements(self) -> list[RunningStatement]:
        """Return the statements that wait or run, the oldest first."""
        found = [
            RunningStatement(
                statement=operation.statement_id,
                user=operation.principal.user,
                endpoint=operation.session.client.protocol,
                session=operation.session_id,
                backend=endpoint.backend,
                state=operation.life.state.name.lower(),
                for_s=round(time.monotonic() - operation.started, 3),
                text=operation.cleared.statement.text[:MAX_SHOWN_CHARS],
                is_plan=operation.cleared.statement.plan is not None,
                rows=operation.relayed_rows,
                waits=endpoint.describe_wait(operation.session),
            )
            for endpoint in self._endpoints
            for operation in endpoint.list_running()
            if operation.cleared is not None
        ]
        return sorted(found, key=lambda one: -one.for_s)

    async def stop_statement(self, statement_id: str, reason: str) -> int:
        """Have a statement stopped by its id; return how many there were."""
        found = [
            (endpoint, operation)
            for endpoint in self._endpoints
            for operation in endpoint.list_running()
            if operation.statement_id == statement_id
        ]
        await asyncio.gather(*(endpoint.stop(operation, reason) for endpoint, operation in found))
        return len(found)

    async def end_one(self, user: str, session_id: str, reason: str, *, by: str) -> int:
        """End one session of a user; return how many there were."""
        ended = await asyncio.gather(
            *(one.end_one(user, session_id, reason, by=by) for one in self._endpoints)
        )
        return sum(ended)

    async def end(self, users: Collection[str], reason: str, *, by: str = "") -> int:
        """End all sessions of users here and in Spark, with what runs in them; return how many there were.

        `by`: who asked for it; empty for the gateway itself.
        """

        def is_theirs(principal: Principal, client: Client) -> bool:
            return principal.user in users or client.real_user in users

        return await self._end(is_theirs, reason, by=by)

    async def end_removed_users(self, users: Collection[str]) -> None:
        """End what users have open who may not log in any more, and the connections that they came by."""
        count = await self.end_where(
            lambda principal, client: principal.user in users or client.real_user in users, REMOVED
        )
        _log.info("sessions_of_removed_users_ended", users=len(users), sessions=count)

    async def end_where(self, is_over: IsOver, reason: str) -> int:
        """End the sessions for which that is so, with the connections that their clients came by; return how
        many there were."""
        count = await self._end(is_over, reason)
        for end in self._connections:
            end(is_over)
        # What was being opened meanwhile: from here on nobody of them is logged in.
        while more := await self._end(is_over, reason):
            count += more
        return count

    async def answer_other(self, about: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what another gateway asks for about a handle, in the endpoint that has it. Raises KeyError,
        TypeError or ValueError for what is no question."""
        for endpoint in self._endpoints:
            answer = await endpoint.answer_other(about)
            if answer is not UNKNOWN:
                return answer
        return UNKNOWN

    def all(self) -> list[EndpointSession[Any, Any]]:
        """Return the open sessions of all endpoints."""
        return [session for endpoint in self._endpoints for session in endpoint.list_open()]

    async def _end(self, is_over: IsOver, reason: str, *, by: str = "") -> int:
        ended = await asyncio.gather(*(one.end_where(is_over, reason, by=by) for one in self._endpoints))
        return sum(ended)
