"""The sessions of Spark Connect on several Sparks: a new one gets its Spark, and every call finds it.

Sessions have ids that their clients choose, and calls of one may come through any gateway. So which Spark has
a session stands in a store that all gateways share; see `Affinity`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress

import structlog

from gateway.errors import BackendUnavailable, InvalidRequest, RpcError, SluiceError
from gateway.model.principal import Principal
from gateway.model.sparks import BoundSession
from gateway.model.statement import Client
from gateway.session.connect.service import ConnectSessions
from gateway.session.routing.affinity import Affinity
from gateway.session.routing.fleet import Fleet, SparkEntry
from gateway.wire import connect_requests
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_errors import spark_error

_log = structlog.get_logger(__name__)

MAX_ROUNDS = 8
"""How often a session may be found to be somewhere else while it is opened."""
TOUCH_S = 3600.0
_MAKING = frozenset({"ArtifactStatus", "CloneSession", "Config"})
"""Calls without a plan for which a session is made; others are about one that is there."""
_MAKING_IN_SPARK = frozenset({"FetchErrorDetails", "Interrupt"})
"""Calls for which one is made where there is none at all."""
_ENDING = frozenset({"Interrupt", "ReleaseExecute", "ReleaseSession"})
"""Calls that end what somebody has, also where he may not use that Spark any more."""


class RoutedConnectSessions:
    """What the listener calls of `ConnectSessions`, on whichever Spark a session is."""

    def __init__(self, fleet: Fleet, affinity: Affinity, *, first_catalog: str) -> None:
        """`first_catalog`: where sessions start."""
        self._fleet = fleet
        self._affinity = affinity
        self._first_catalog = first_catalog
        self._taking_back: set[asyncio.Task[None]] = set()

    async def execute(
        self, principal: Principal, client: Client, request: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Run a plan; as `ConnectSessions.execute`."""
        sessions = await self._find_or_make(principal, client, "ExecutePlan", request)
        async with aclosing(sessions.execute(principal, client, request)) as stream:
            async for data in stream:
                yield data

    async def reattach(
        self, principal: Principal, client: Client, request: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Go on with a plan on the Spark that runs it."""
        sessions = await self._find(principal, client, "ReattachExecute", request)
        async with aclosing(sessions.reattach(principal, client, request)) as stream:
            async for data in stream:
                yield data

    async def analyze(self, principal: Principal, client: Client, request: bytes) -> bytes:
        """Analyse a plan."""
        sessions = await self._find_or_make(principal, client, "AnalyzePlan", request)
        return await sessions.analyze(principal, client, request)

    async def add_artifacts(
        self, principal: Principal, client: Client, uploaded: AsyncIterator[bytes]
    ) -> bytes:
        """Upload files to the Spark that has the session."""
        first = await anext(uploaded, None)
        if first is None:
            raise InvalidRequest("an upload without messages")
        sessions = await self._find_or_make(principal, client, "AddArtifacts", first)
        return await sessions.add_artifacts(principal, client, _put_back(first, uploaded))

    async def call(self, method: str, principal: Principal, client: Client, request: bytes) -> bytes:
        """Answer a unary call that carries no plan."""
        if method in _MAKING:
            sessions = await self._find_or_make(principal, client, method, request)
        else:
            sessions = await self._find(principal, client, method, request)
        if not self._fleet.several:
            return await sessions.call(method, principal, client, request)
        if method == "CloneSession":
            return await self._clone(sessions, principal, client, request)
        answer = await sessions.call(method, principal, client, request)
        if method == "ReleaseSession":
            # What stays bound leads to a Spark that says that it has ended.
            with suppress(BackendUnavailable):
                await self._affinity.forget(_read_key(principal, method, request)[0])
        return answer

    async def run(self) -> None:
        """Say now and then which sessions are still there, until cancelled."""
        while True:
            await asyncio.sleep(TOUCH_S)
            if self._fleet.several:
                keys = [one.key for sessions in self._all() for one in sessions.list_open()]
                try:
                    await self._affinity.touch(keys)
                except BackendUnavailable as fault:
                    _log.warning("sessions_not_touched", reason=fault.for_operators)

    def has(self, key: SessionKey) -> bool:
        """Whether a session is known here, on whichever Spark."""
        return self._here(key) is not None

    # -- which Spark -------------------------------------------------------------------------------------

    def _all(self) -> list[ConnectSessions]:
        return [one.connect for one in self._fleet.all() if one.connect is not None]

    def _here(self, key: SessionKey) -> SparkEntry | None:
        return next((one for one in self._fleet.all() if one.connect and one.connect.has(key)), None)

    async def _find_or_make(
        self, principal: Principal, client: Client, method: str, request: bytes
    ) -> ConnectSessions:
        """Return the sessions among which the one of a request is, or is made.

        Raises BackendNotAllowed, and BackendUnavailable where no Spark takes it, or the store is away.
        """
        key, observed = _read_key(principal, method, request)
        for _ in range(MAX_ROUNDS):
            here = self._here(key)
            if here is not None and here.connect is not None:
                if client.backend:
                    self._fleet.require_allowed(here, principal, client.backend)
                return here.connect
            if not self._fleet.several:
                return _sessions_of((await self._choose(principal, client))[0])
            found = await self._open(key, principal, client, observed)
            if found is not None:
                return found
        raise BackendUnavailable("the session is being opened by others again and again; try again")

    async def _open(
        self, key: SessionKey, principal: Principal, client: Client, observed: str
    ) -> ConnectSessions | None:
        """Open a session where it is bound, or on the first Spark that takes it. None: it was moved
        meanwhile."""
        admitted = await self._all()[0].admit(principal, client)
        bound = await self._affinity.find(key)
        backend = bound.backend if bound is not None else await self._search(key, admitted, observed)
        if backend is not None:
            spark = self._get(backend, key)
            async with self._all()[0].recording_refusals(admitted, client):
                self._fleet.require_allowed(spark, admitted, client.backend)
            if bound is None:
                bound = await self._affinity.bind(key, backend)
            if bound.backend != backend:
                return None
            try:
                open_s = self._fleet.limits.open_s
                return await self._try(spark, key, principal, client, observed, open_s, bound)
            except BackendUnavailable:
                if bound.is_open or not await self._affinity.give_up(key, backend):
                    raise
                return None
        fault: BackendUnavailable | None = None
        chosen = await self._choose(principal, client)
        for spark in chosen:
            # INVARIANT (bound before it is forwarded): nothing of a session reaches a Spark that it is not
            # bound to, whoever else opens it at this moment.
            bound = await self._affinity.bind(key, spark.name)
            if bound.backend != spark.name:  # RULE (first-bind-wins)
                return None
            try:
                within_s = self._fleet.limit_attempt(spark, chosen)
                return await self._try(spark, key, principal, client, observed, within_s, bound)
            except BackendUnavailable as error:
                fault = error
                if bound.is_open or not await self._affinity.give_up(key, spark.name):
                    raise
        raise fault or BackendUnavailable("no Spark takes a new session now")

    async def _try(
        self,
        spark: SparkEntry,
        key: SessionKey,
        principal: Principal,
        client: Client,
        observed: str,
        within_s: float | None,
        bound: BoundSession,
    ) -> ConnectSessions | None:
        sessions = _sessions_of(spark)
        opening = sessions.open(principal, client, key[1], observed, lives=bound.is_open)
        if bound.is_open:
            await opening
            return sessions
        try:
            await spark.attempt("connect", opening, within_s)
            is_here = await self._affinity.confirm(key, spark.name)
        except (SluiceError, RpcError) as error:
            if not isinstance(error, BackendUnavailable):
                # Who is refused, as at a limit, leaves no row behind.
                await self._affinity.give_up(key, spark.name)  # RULE (refused-unbound)
            raise
        except asyncio.CancelledError:
            # Nor does who goes away, for whom nothing is waited here.
            self._begin_taking_back(sessions, key, spark.name)  # RULE (gone-unbound)
            raise
        if is_here:
            return sessions
        # Another gateway could not reach this Spark, and has moved it.
        await sessions.drop(key)  # RULE (moved-session-dropped)
        return None

    def _begin_taking_back(self, sessions: ConnectSessions, key: SessionKey, backend: str) -> None:
        task = asyncio.create_task(self._take_back(sessions, key, backend))
        self._taking_back.add(task)
        task.add_done_callback(self._taking_back.discard)

    async def _take_back(self, sessions: ConnectSessions, key: SessionKey, backend: str) -> None:
        """Leave nothing of a session that its client has not waited for."""
        try:
            if await self._affinity.give_up(key, backend):
                await sessions.drop(key)
        except BackendUnavailable as fault:
            # What stays bound, and was never open, any gateway may bind elsewhere.
            _log.info("session_not_unbound", reason=fault.for_operators)

    async def _find(
        self, principal: Principal, client: Client, method: str, request: bytes
    ) -> ConnectSessions:
        """Return the sessions among which the one of a request is; of one that nobody knows, those of the
        first Spark, which says so. Raises as `_find_or_make`."""
        key, _ = _read_key(principal, method, request)
        here = self._here(key)
        if here is not None and here.connect is not None:
            return here.connect
        if not self._fleet.several:
            return self._all()[0]
        bound = await self._affinity.find(key)
        if bound is None:
            if method in _MAKING_IN_SPARK:
                return await self._find_or_make(principal, client, method, request)
            return self._all()[0]
        spark = self._get(bound.backend, key)
        if method not in _ENDING:
            self._fleet.require_allowed(spark, await self._all()[0].admit(principal, client))
        return _sessions_of(spark)

    async def _choose(self, principal: Principal, client: Client) -> list[SparkEntry]:
        first = self._all()[0]
        admitted = await first.admit(principal, client)
        async with first.recording_refusals(admitted, client):
            return self._fleet.choose("connect", client.backend, admitted, self._first_catalog)

    def _get(self, backend: str, key: SessionKey) -> SparkEntry:
        spark = self._fleet.get(backend)
        if spark is not None and spark.connect is not None:
            return spark
        if backend in self._fleet.pending:
            raise BackendUnavailable("the Spark of this session cannot be reached")
        # Its Spark is gone, and what it held with it: nothing may pass for it elsewhere.
        raise spark_error("INVALID_HANDLE.SESSION_CLOSED", key[1])

    async def _search(self, key: SessionKey, principal: Principal, observed: str) -> str | None:
        """Return which Spark has a session that was opened when none was bound; None for a new one. Raises
        RpcError where its client knows it and nobody else does."""
        if not observed:
            return None
        for spark in self._fleet.all():
            if spark.connect is None or not spark.facts.may_be_used_by(principal):
                continue
            if await spark.connect.is_in_spark(principal, key[1]):
                return spark.name
        raise spark_error("INVALID_HANDLE.SESSION_CHANGED", key[1])

    async def _clone(
        self, sessions: ConnectSessions, principal: Principal, client: Client, request: bytes
    ) -> bytes:
        """Clone a session on its Spark: the clone is bound there before Spark hears of it."""
        wanted = connect_requests.read_clone_id(request)
        if wanted and connect_requests.is_uuid(wanted):
            key = (principal.user, wanted)
            bound = await self._affinity.bind(key, sessions.backend)
            if bound.backend != sessions.backend or bound.is_open:
                raise spark_error("INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_ALREADY_EXISTS", wanted)
        try:
            answer = await sessions.call("CloneSession", principal, client, request)
        except BaseException:
            if wanted and connect_requests.is_uuid(wanted):
                await self._affinity.give_up((principal.user, wanted), sessions.backend)
            raise
        # One without an id of its client's has one that nobody else can know yet.
        key = (principal.user, connect_requests.read_cloned_id(answer))
        is_here = False
        try:
            await self._affinity.bind(key, sessions.backend)
            is_here = await self._affinity.confirm(key, sessions.backend)
        finally:
            if not is_here:
                await sessions.drop(key)  # RULE (moved-clone-dropped)
        if not is_here:
            raise BackendUnavailable("the clone was opened on another Spark meanwhile; try again")
        return answer


def _read_key(principal: Principal, method: str, request: bytes) -> tuple[SessionKey, str]:
    session, observed = connect_requests.read_session(method, request)
    return (principal.user, session), observed


def _sessions_of(spark: SparkEntry) -> ConnectSessions:
    if spark.connect is None:
        raise BackendUnavailable(f"`{spark.name_for_clients}` has no Spark Connect")
    return spark.connect


async def _put_back(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for one in rest:
        yield one
