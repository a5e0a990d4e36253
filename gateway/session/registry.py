"""Which sessions an endpoint has, how many there may be, and which of them nobody uses any more."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gateway.errors import (
    AuthenticationFailed,
    BackendNotAllowed,
    GatewayStopping,
    LimitExceeded,
    SluiceError,
)
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session import audit_records
from gateway.session.budgets import Seat
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import EndpointOperation, EndpointSession
from gateway.session.handles_elsewhere import UNKNOWN

FETCHED_WITHIN_S = 5.0
"""How long ago somebody must have asked for a statement for its result to be one that is being fetched."""
IsOver = Callable[[Principal, Client], bool]
"""Whether what somebody has open, having come so, is to end."""
K = TypeVar("K")


S = TypeVar("S", bound=EndpointSession[Any, Any])


@dataclass(slots=True, eq=False)
class SessionOpening:
    """A session that Spark is asked for."""

    principal: Principal
    client: Client
    ended: bool = False
    """Whether such sessions were ended meanwhile."""


class Registry(Generic[K, S]):
    """The open sessions of one endpoint by what clients know them by."""

    def __init__(self, dependencies: Dependencies, *, closing: str) -> None:
        """`closing`: what the clients of this endpoint call it when they close a session."""
        self._limits = dependencies.limits
        self._clock = dependencies.clock
        self._lifecycle = dependencies.lifecycle
        self._closing = closing
        self._budgets = dependencies.budgets
        self._backend = dependencies.backend
        self._may_use = dependencies.may_use
        self.sessions: dict[K, S] = {}
        self.per_user = dependencies.session_counts.of(closing)
        """Sessions by user, those that are being opened too, on whichever Spark."""
        self.shut = False
        """No more are opened."""
        self._opening: set[SessionOpening] = set()

    def __len__(self) -> int:
        return len(self.sessions)

    def get(self, key: K) -> S | None:
        return self.sessions.get(key)

    def all(self) -> list[S]:
        return list(self.sessions.values())

    async def ask_for_room(self, principal: Principal, client: Client) -> None:
        """Have a place to `reserve` at once, if the sessions at other gateways leave one."""
        await self._budgets.ask_for_session(principal, client, self._backend)

    def reserve(self, principal: Principal, client: Client) -> Seat:
        """Take a place for a session that is about to be opened. Raises BackendNotAllowed, LimitExceeded,
        GatewayStopping."""
        user = principal.user
        if self.shut:
            raise GatewayStopping()
        self._lifecycle.require_running()  # RULE (stopping-no-session)
        self.require_allowed(principal)  # RULE (session-backend-allowed)
        if self.per_user.total() >= self._limits.sessions:
            raise LimitExceeded("the gateway has no room for another session; try again later", passes=True)
        most = self._limits.sessions_per_user
        if self.per_user[user] >= most:
            raise LimitExceeded(f"user {user} has {most} open sessions; {self._closing} some of them")
        seat = self._budgets.open_session(principal, client, self._backend)
        self.per_user[user] += 1
        return seat

    def require_allowed(self, principal: Principal) -> None:
        """Raise BackendNotAllowed where somebody may not use the Spark, whichever way he came to it."""
        if not self._may_use(principal):
            raise BackendNotAllowed("you may not use the Spark of this session")

    def give_back(self, seat: Seat) -> None:
        """Give the place of a session back, or of one that was not opened."""
        self._budgets.close_session(seat)
        self.per_user[seat.user] -= 1
        if not self.per_user[seat.user]:
            del self.per_user[seat.user]

    @contextmanager
    def opening(self, principal: Principal, client: Client) -> Iterator[SessionOpening]:
        """Have it noted meanwhile when such a session would be ended."""
        one = SessionOpening(principal, client)
        self._opening.add(one)
        try:
            yield one
        finally:
            self._opening.discard(one)

    def end_opening(self, is_over: IsOver) -> None:
        """Have no session come to be that is being opened, and for which that is so."""
        for one in self._opening:
            one.ended = one.ended or is_over(one.principal, one.client)

    def add(self, key: K, session: S, seat: Seat) -> None:
        """Register a session that has its place."""
        session.seat = seat
        self.sessions[key] = session

    def close(self, key: K, session: S) -> bool:
        """Take a session out, and have everybody see that it is closed. False when it was closed before."""
        if session.closed:
            return False
        session.closed = True
        self.sessions.pop(key, None)
        self.give_back(session.seat)
        return True

    def idle(self) -> list[S]:
        """Return the sessions that nobody has used for too long."""
        now = self._clock()
        most = self._limits.session_idle_s
        return [s for s in self.sessions.values() if not s.busy and now - s.used_at > most]


class EndpointSessions(ABC, Generic[K, S]):
    """All sessions of the clients of one endpoint in one gateway process."""

    def __init__(self, dependencies: Dependencies, *, closing: str, idle_s: float) -> None:
        """`closing`: as Registry has it; `idle_s`: how long anything but a session may be idle."""
        self._dependencies = dependencies
        self.metrics = dependencies.metrics
        self.limits = dependencies.limits
        self.recorder = dependencies.recorder
        self.lifecycle = dependencies.lifecycle
        self._clock = dependencies.clock
        self._registry = Registry[K, S](dependencies, closing=closing)
        self._idle_s = idle_s

    @property
    def backend(self) -> str:
        """Name of the Spark that these sessions are on."""
        return self._dependencies.backend

    def __len__(self) -> int:
        return len(self._registry)

    async def run(self) -> None:
        """Expire what is idle, until cancelled."""
        pause = max(1.0, min(self.limits.session_idle_s, self._idle_s, 600.0) / 10)
        while True:
            await asyncio.sleep(pause)
            await self.expire()

    async def admit(self, principal: Principal, client: Client) -> Principal:
        """Return for whom a session is opened. Raises AuthenticationFailed, and has recorded it."""
        try:
            return self._dependencies.identity.admit(principal, client)
        except AuthenticationFailed as fault:
            await self.record_refused(principal, client, fault)
            raise

    @asynccontextmanager
    async def recording_refusals(self, principal: Principal, client: Client) -> AsyncIterator[None]:
        """Record within that a session does not open: its user may not use the Spark, or a limit of a pack
        lets none open."""
        try:
            yield
        except BackendNotAllowed as fault:
            await self.record_refused(principal, client, fault)  # RULE (backend-refused-on-record)
            raise
        except LimitExceeded as fault:
            if fault.limit:
                await self.record_refused(principal, client, fault, fault.limit)
            raise

    async def record_refused(
        self, principal: Principal, client: Client, fault: SluiceError, limit: str = ""
    ) -> None:
        """Record that no session opens for somebody, and why."""
        await self.recorder.record(
            audit_records.security,
            principal,
            action="session_refused",
            reason=fault.message,
            client=client,
            limit=limit,
        )

    def follow_login(self, session: S, principal: Principal, client: Client) -> None:
        """Have a session judge by the groups and attributes of its user's last login, or those of now."""
        session.renew_principal(self._dependencies.identity.current(principal, client))

    def list_open(self) -> list[S]:
        return self._registry.all()

    def busy(self) -> int:
        """Return in how many sessions something runs, or is being fetched."""
        since = self._clock() - FETCHED_WITHIN_S
        return sum(
            session.busy or any(one.used_at > since for one in session.operations.values())
            for session in self._registry.all()
        )

    def idle_of(self, session: S) -> float:
        """Return for how many seconds nobody has asked a session for anything."""
        return max(0.0, self._clock() - session.used_at)

    async def end_where(self, is_over: IsOver, reason: str, *, by: str) -> int:
        """End the sessions for which that is so, record it, and return how many there were. None that is
        being opened comes to be."""
        self._registry.end_opening(is_over)
        ended = [one for one in self._registry.all() if is_over(one.principal, one.client)]
        return await self._end_sessions(ended, reason, by)

    async def end_one(self, user: str, session_id: str, reason: str, *, by: str) -> int:
        """End a session of a user by its id in the record; return how many there were."""
        ended = [
            one for one in self._registry.all() if one.principal.user == user and one.session_id == session_id
        ]
        return await self._end_sessions(ended, reason, by)

    async def _end_sessions(self, ended: Sequence[S], reason: str, by: str) -> int:
        await self._close_all(ended, reason)
        for session in ended:
            await self.recorder.record(
                audit_records.session_ended,
                session.principal,
                client=session.client,
                session=session.session_id,
                reason=reason,
                by=by,
            )
        return len(ended)

    async def answer_other(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do what another gateway asks for about a handle of this endpoint; it may have none."""
        return UNKNOWN

    def list_running(self) -> list[EndpointOperation]:
        """Return the statements that have been decided on and have not ended."""
        return [
            operation
            for session in self._registry.all()
            for operation in session.operations.values()
            if operation.cleared is not None and not operation.life.ended
        ]

    @abstractmethod
    async def stop(self, operation: EndpointOperation, reason: str) -> None:
        """Have Spark stop a statement that somebody else than its client wants ended."""

    def begin_closing(self) -> None:
        """Begin to close what Spark has to end; nothing where its sessions outlive a gateway."""

    @abstractmethod
    def describe_wait(self, session: S) -> str:
        """Say what a statement of a session waits for, and its place; empty where none does."""

    @abstractmethod
    async def expire(self) -> None:
        """End what has been idle for too long; `run` calls it now and then."""

    @abstractmethod
    async def _close(self, session: S, reason: str) -> None:
        """Close a session here and in Spark, once."""

    async def _close_all(self, sessions: Iterable[S], reason: str) -> None:
        await asyncio.gather(*(self._close(session, reason) for session in sessions))
