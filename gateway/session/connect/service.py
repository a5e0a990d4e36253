"""The session service of Spark Connect: what its frontend calls, and the only thing it calls.

Sessions, operations and files belong to the principal of the call, whatever the request says of its user.
Errors are SluiceErrors and RpcErrors whose texts a client may read.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace

import structlog

from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    InvalidRequest,
    RpcError,
    SessionElsewhere,
)
from gateway.model.bounded import BoundedDict
from gateway.model.meaning_settings import list_changed_settings
from gateway.model.principal import Principal
from gateway.model.reading_settings import list_overridden_settings
from gateway.model.spark_logins import SparkLogin
from gateway.model.statement import Client, PlanRequest
from gateway.pipeline.pace import in_turn
from gateway.session.beginnings import LoginUnanswered, bounded_login, wait_a_moment
from gateway.session.connect.answers import current_namespace
from gateway.session.connect.artifacts import Uploads
from gateway.session.connect.calls import Calls
from gateway.session.connect.config import settings_changed
from gateway.session.connect.endings import Endings
from gateway.session.connect.execution import ConnectExecution
from gateway.session.connect.operation import ConnectOperation, ConnectSession, ExecutionOptions
from gateway.session.connect.streams import Streams
from gateway.session.dependencies import Dependencies
from gateway.session.endpoint import EndpointOperation
from gateway.session.identifiers import new_uuid
from gateway.session.limits import SessionLimits
from gateway.session.ports import ASKER, PlanBackend, PlanBackends
from gateway.session.registry import EndpointSessions
from gateway.session.states import STOPPING
from gateway.wire import connect_calls, connect_requests
from gateway.wire.connect_calls import SessionKey
from gateway.wire.connect_errors import ends_session, spark_error
from gateway.wire.connect_requests import (
    ArtifactStatusesRequest,
    CloneSessionRequest,
    ConfigRequest,
    ConnectRequest,
    ExecutePlanRequest,
    FetchErrorDetailsRequest,
    GetStatusRequest,
    InterruptRequest,
    MalformedRequest,
    ReleaseExecuteRequest,
    ReleaseSessionRequest,
)
from gateway.wire.protobuf import ProtobufError

_log = structlog.get_logger(__name__)

CURRENT_NAMESPACE = "SHOW CURRENT NAMESPACE"
ABANDON_S = 10.0
"""How long Spark is waited for when it is told to forget a session that never came to be."""
UNANSWERED_S = 5.0
"""How long further calls of a session that Spark did not open in time are answered in the same way, and no
longer than was waited: a client makes several before it tells its user."""
UNRELEASED = 10_000
"""Sessions that are to be released before they are used again, because Spark could not be reached."""


class ConnectSessions(EndpointSessions[SessionKey, ConnectSession]):
    """All Spark Connect sessions of one gateway process."""

    def __init__(
        self, dependencies: Dependencies, backend: PlanBackends, *, secrets: Sequence[str] = ()
    ) -> None:
        """`secrets` is what no client may read in what Spark says, as its token."""
        super().__init__(dependencies, closing="stop", idle_s=dependencies.limits.detached_s)
        self._backend = backend
        self._endings = Endings(dependencies, abort=self._close, secrets=secrets)
        self._streams = Streams(
            dependencies, self._endings, lambda operation: self._execution.run_again(operation)
        )
        self._execution = ConnectExecution(dependencies, self._endings, self._streams)
        self._calls = Calls(dependencies, self._endings, self._streams, secrets=secrets)
        self._uploads = Uploads(dependencies, self._endings)
        self._unreleased: BoundedDict[SessionKey, None] = BoundedDict(UNRELEASED)
        self._releasing: Counter[SessionKey] = Counter()
        """Sessions whose clients have asked for their release, while Spark may still have them."""
        self._unanswered: dict[SessionKey, tuple[float, LoginUnanswered]] = {}
        """Since when, and what clients of sessions that Spark did not open are told."""
        self._abandoned: dict[SessionKey, asyncio.Task[None]] = {}
        """What is taking sessions away that never came to be."""
        self._unwatch = (
            self.metrics.watch(self.metrics.plans_waiting, lambda: self._execution.slots.waiting),
            self.metrics.watch(self.metrics.connect_sessions, lambda: len(self._registry)),
            self.metrics.watch(
                self.metrics.connect_operations, lambda: sum(len(s.operations) for s in self._registry.all())
            ),
        )

    def describe_wait(self, session: ConnectSession) -> str:
        return self._execution.describe_wait(session)

    async def stop(self, operation: EndpointOperation, reason: str) -> None:
        if isinstance(operation, ConnectOperation):
            await self._endings.stop(operation, reason)

    # -- plans -------------------------------------------------------------------------------------------

    async def execute(
        self, principal: Principal, client: Client, request: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Run a plan; yields serialized `ExecutePlanResponse`. Closing the iterator is the client's going.

        Raises StatementRefused, InvalidRequest, LedgerUnavailable, LimitExceeded, BackendUnavailable,
        RpcError.
        """
        self.lifecycle.require_running()  # RULE (stopping-no-plan)
        asked = await in_turn(lambda: connect_requests.execute_plan(request))
        options = await in_turn(lambda: _options(asked, self.limits))
        client = _build_recorded_client(client, asked)
        session = await self._session(principal, client, asked)
        plan = PlanRequest(kind="execute", message=asked.plan)
        operation, envelope = await self._execution.start(session, plan, options, client)
        if envelope is not None:
            stream = self._streams.stream_new(operation, envelope)
        else:
            stream = self._streams.stream_after(operation)
        async with aclosing(stream):
            async for data in stream:
                yield data

    async def reattach(
        self, principal: Principal, client: Client, request: bytes
    ) -> AsyncGenerator[bytes, None]:
        """Go on with a plan that runs, or has run, after the last response that the client has."""
        asked = connect_requests.reattach_execute(request)
        client = _build_recorded_client(client, asked)
        session = self._find_session(principal, client, asked)
        if session is not None:
            self._registry.require_allowed(session.principal_now)  # RULE (reattach-backend-allowed)
        operation = session.operations.get(asked.operation_id) if session is not None else None
        if operation is not None and not operation.released:
            stream = self._streams.stream_after(operation, asked.last_response_id, asked.client_type)
        else:
            key = (principal.user, asked.session_id)
            observed = asked.observed
            spark = self._act_for(principal)
            if session is not None:
                session.require_shown(asked.operation_id)
                observed = session.server_session
            else:
                await self._release_leftover(key, spark)
            again = connect_calls.reattach(
                key,
                asked.operation_id,
                asked.last_response_id,
                observed=observed,
                client_type=asked.client_type,
            )
            stream = self._streams.relay_foreign(
                spark, principal, client, session, key, asked.operation_id, again
            )
        async with aclosing(stream):
            async for data in stream:
                yield data

    async def analyze(self, principal: Principal, client: Client, request: bytes) -> bytes:
        """Analyse a plan; returns a serialized `AnalyzePlanResponse`. Raises as `execute` does."""
        asked = await in_turn(lambda: connect_requests.analyze_plan(request))
        client = _build_recorded_client(client, asked)
        session = await self._session(principal, client, asked)
        plan = PlanRequest(kind="analyze", message=asked.question)
        return await self._execution.analyze(session, plan, asked.client_type, client)

    async def add_artifacts(
        self, principal: Principal, client: Client, uploaded: AsyncIterator[bytes]
    ) -> bytes:
        """Upload files; returns a serialized `AddArtifactsResponse`. Raises as `execute` does."""
        first = await anext(uploaded, None)
        if first is None:
            raise InvalidRequest("an upload without messages")
        message = await in_turn(lambda: connect_requests.add_artifacts(first))
        client = _build_recorded_client(client, message)
        session = await self._session(principal, client, message)
        return await self._uploads.add(session, principal, client, message, uploaded)

    # -- other calls -------------------------------------------------------------------------------------

    async def call(self, method: str, principal: Principal, client: Client, request: bytes) -> bytes:
        """Answer a unary call that carries no plan. Raises InvalidRequest for a method that is none."""
        asked = await in_turn(lambda: connect_requests.call(method, request))
        client = _build_recorded_client(client, asked)
        key = (principal.user, asked.session_id)
        spark = self._act_for(principal)
        self._require_answered(key)
        match asked:
            case ConfigRequest():
                session = await self._session(principal, client, asked)
                async with self._execution.configuring(session, settings_changed(asked.operation, {})):
                    return await self._calls.config(session, principal, client, asked)
            case ArtifactStatusesRequest():
                session = await self._session(principal, client, asked)
                return await self._calls.artifact_status(session, principal, client, asked)
            case CloneSessionRequest():
                return await self._clone(await self._session(principal, client, asked), client, asked)
            case ReleaseSessionRequest():
                return await self._release(key, spark, asked)
            case ReleaseExecuteRequest():
                # It comes once for each response, and Spark itself does not look at the session here.
                return await self._calls.release_execute(spark, key, self._registry.get(key), asked)
        known = self._find_session(principal, client, asked)
        if known is None and method in _MAKING and not await is_in_spark(spark, key):
            # Spark would make a session for it: one that counts for nobody and that nobody ends.
            known = await self._session(principal, client, asked)
        match asked:
            case InterruptRequest():
                return await self._calls.interrupt(spark, key, known, asked)
            case GetStatusRequest():
                return await self._calls.get_status(spark, key, known, asked)
            case FetchErrorDetailsRequest():
                return await self._calls.error_details(spark, key, known, asked)

    async def _release(self, key: SessionKey, spark: PlanBackend, asked: ReleaseSessionRequest) -> bytes:
        self._releasing[key] += 1
        try:
            if (session := self._registry.get(key)) is not None:
                await self._close(session, "the session was released by the client", release=False)
            request = connect_calls.release_session(
                key, allow_reconnect=asked.allow_reconnect, client_type=asked.client_type
            )
            answer = await spark.call("ReleaseSession", request)
            self._unreleased.pop(key, None)
            return answer
        except (RpcError, AuthenticationFailed, BackendUnavailable) as fault:
            self._not_released(key, fault)
            if isinstance(fault, RpcError):
                raise self._endings.redact_error(None, fault, self._endings.plain) from None
            raise
        finally:
            self._releasing[key] -= 1
            if not self._releasing[key]:
                del self._releasing[key]

    async def _clone(self, source: ConnectSession, client: Client, asked: CloneSessionRequest) -> bytes:
        """Clone a session, here and in Spark: what names mean in it goes along, what runs in it does not."""
        key = (source.principal.user, asked.new_session_id or new_uuid())
        error = "INVALID_CLONE_SESSION_REQUEST.TARGET_SESSION_ID_"
        if not connect_requests.is_uuid(key[1]):
            raise spark_error(f"{error}FORMAT", key[1][:64])
        await self._registry.ask_for_room(source.principal, client)
        if self._registry.get(key) is not None:
            raise spark_error(f"{error}ALREADY_EXISTS", key[1])
        clone = await self._open(key[1], source.principal, client)
        try:
            # Nobody judges in the clone before it is known what names mean there.
            async with clone.lock, source.lock:
                source.require_open()
                await self._execution.deciding.settle_pending(source)
                source.adopt_renewed()
                clone.principal = source.principal
                await self._execution.deciding.renew_views(source, client)
                request = connect_calls.clone_session(
                    source.key, key[1], source.server_session, asked.client_type
                )
                answer = await source.spark.call("CloneSession", request)
                clone.server_session = connect_calls.read_cloned_session(answer)
                clone.copy_names(source)
                clone.attached = bool(clone.server_session)
                return answer
        except RpcError as fault:
            redacted = self._endings.redact_error(source, fault, self._endings.plain)
            raise await self._endings.abort_on_error(source, fault, redacted) from None
        except ProtobufError:
            raise BackendUnavailable("Spark's response is not valid protobuf") from None
        finally:
            if not clone.attached:
                self._registry.close(clone.key, clone)

    # -- sessions ----------------------------------------------------------------------------------------

    def has(self, key: SessionKey) -> bool:
        """Whether a session is known here."""
        return self._registry.get(key) is not None

    async def is_in_spark(self, principal: Principal, session_id: str) -> bool:
        """Whether this Spark has a session of somebody's already. Raises BackendUnavailable."""
        return await is_in_spark(self._act_for(principal), (principal.user, session_id))

    def _act_for(self, principal: Principal) -> PlanBackend:
        """Return Spark as it is reached by who makes the call that is being answered."""
        login = SparkLogin(principal, ASKER.get().token)
        return self._backend.act_for(lambda: login)

    async def open(
        self, principal: Principal, client: Client, session_id: str, observed: str, *, lives: bool = False
    ) -> None:
        """Have a session ready for calls, here and in Spark, which has had it before where it `lives`. Raises
        as `execute`."""
        await self._session(principal, client, ConnectRequest(session_id, "", observed), lives=lives)

    async def drop(self, key: SessionKey) -> None:
        """Close a session here and in Spark that is another Spark's."""
        if (session := self._registry.get(key)) is not None:
            await self._close(session, "the session was opened on another Spark")

    def _find_session(
        self, principal: Principal, client: Client, asked: ConnectRequest
    ) -> ConnectSession | None:
        """Return a session that has plans already, without making one."""
        session = self._registry.get((principal.user, asked.session_id))
        if session is None or not session.attached:
            return None
        self._take_call(session, principal, client, asked.observed)
        return session

    def _take_call(
        self, session: ConnectSession, principal: Principal, client: Client, observed: str
    ) -> None:
        """Have a session go on with a call of its user. Raises RpcError for anybody else, and where the
        client knows another session."""
        if principal.identity != session.principal.identity:  # RULE (connect-session-of-identity)
            raise spark_error("INVALID_HANDLE.SESSION_CLOSED", session.session_id)
        if principal.gateway != session.principal.gateway:  # RULE (session-of-its-gateway)
            raise SessionElsewhere(
                "this session was opened through another gateway, which keeps its temporary names and "
                "settings; open a new session"
            )
        session.check_observed(observed)
        session.client, session.used_at = client, self._clock()
        session.shown = ASKER.get().token
        self.follow_login(session, principal, client)

    async def _session(
        self, principal: Principal, client: Client, asked: ConnectRequest, *, lives: bool = False
    ) -> ConnectSession:
        """Return the session of a request, ready for plans; the first contact makes it. `lives`: Spark has it
        already, whatever its client says."""
        key = (principal.user, asked.session_id)
        observed = asked.observed
        self._require_answered(key)
        while True:
            session = self._registry.get(key)
            if session is None:
                await self._release_leftover(key, self._act_for(principal))
                admitted = await self.admit(principal, client)
                await self._registry.ask_for_room(admitted, client)
                session = self._registry.get(key) or await self._open(asked.session_id, admitted, client)
            if not session.attached:
                await self._attach(session, observed, client, lives=lives)
            if not session.closed:
                self._take_call(session, principal, client, observed)
                self._registry.require_allowed(session.principal_now)  # RULE (plan-backend-allowed)
                return session
            if session.ending is not None:
                raise session.ending

    async def _open(self, session_id: str, principal: Principal, client: Client) -> ConnectSession:
        """Register a session, at once: nobody else opens the same one meanwhile."""
        async with self.recording_refusals(principal, client):
            seat = self._registry.reserve(principal, client)
        session = ConnectSession(
            session_id=session_id,
            principal=principal,
            client=client,
            opened=self._clock(),
            backends=self._backend,
            shown=ASKER.get().token,
        )
        self._registry.add(session.key, session, seat)
        return session

    async def _attach(self, session: ConnectSession, observed: str, client: Client, *, lives: bool) -> None:
        async with session.lock:
            if session.attached or session.closed:
                return
            session.lived_on = lives or bool(observed)
            try:
                await self._make_ready(session, observed, client)
            except RpcError as fault:
                raise self._endings.redact_error(None, fault, self._endings.plain) from None
            finally:
                if not session.attached:
                    # Who waits for the lock begins anew.
                    self._registry.close(session.key, session)

    async def _make_ready(self, session: ConnectSession, observed: str, client: Client) -> None:
        """Pin the settings of a session and learn what names mean in it. Raises RpcError and SluiceErrors.

        `observed` is Spark's session that the client knows: Spark refuses when it is another one by now. What
        a first contact that fails has made in Spark is taken away again, for which a later one waits, and
        this one not for long: Spark may be silent.
        """
        made = False
        try:
            async with bounded_login(self.limits):
                if (earlier := self._abandoned.get(session.key)) is not None:
                    await asyncio.shield(earlier)
                made = not session.lived_on
                await self._learn_names(session, observed, client)
        except LoginUnanswered as fault:
            self._unanswered[session.key] = self._clock(), fault
            raise
        except SessionElsewhere:
            made = False
            raise
        except AuthenticationFailed as fault:
            await self.record_refused(session.principal, client, fault)  # RULE (unidentified-on-record)
            raise
        finally:
            if not session.attached and made:
                abandoning = self._endings.spawn(self._abandon(session))
                self._abandoned[session.key] = abandoning
                await wait_a_moment(abandoning)

    def _require_answered(self, key: SessionKey) -> None:
        """Raise LoginUnanswered for a session that Spark has just not opened in time."""
        if not self._unanswered:
            return
        since = self._clock() - min(UNANSWERED_S, self.limits.login_s)
        self._unanswered = {one: told for one, told in self._unanswered.items() if told[0] > since}
        if (told := self._unanswered.get(key)) is not None and self._registry.get(key) is None:
            raise told[1]

    async def _learn_names(self, session: ConnectSession, observed: str, client: Client) -> None:
        """The session may be new in Spark, or one that lived on while the gateway was started anew. Of the
        latter the current catalog and database are asked for. Its temporary views are not known: their names
        are pinned to the catalog, so that they are out of reach until they are made again. Its cached
        relations are refused."""
        if observed and not await is_in_spark(session.spark, session.key):
            # As Spark says it, which would make the session first and leave it there.
            raise spark_error("INVALID_HANDLE.SESSION_CHANGED", session.session_id)
        # INVARIANT (one reading): before the first text reaches Spark, it has said that it reads texts as the
        # reader does. What comes after goes to this session of this process or nowhere.
        session_catalogs = self._dependencies.session_catalogs
        catalogs = frozenset(session_catalogs().items())
        opened = await session.spark.open_session(session.session_id, session.principal.user, observed)
        session.server_session, session.own_settings = opened.id, opened.own_settings
        # A session that lived on without us may have settings of its client's.
        settings = list_changed_settings(opened.settings, opened.own_settings)
        # What is the same before and after was so when Spark was told. Of what a session that lived on had
        # been told before, nobody knows whether it is the same.
        told = catalogs & frozenset(session_catalogs().items())
        catalogs = frozenset(one for one in told if one[0] not in opened.known_catalogs)
        session.context = replace(session.context, settings=settings, catalogs=catalogs)
        session.given_settings |= list_overridden_settings(opened.settings, opened.own_settings)
        # A statement like any other: judged, recorded, and run under the client's name.
        asked = self._execution.build_own_statement(session, CURRENT_NAMESPACE)
        answer = await self._execution.run_inside(session, asked, client)
        catalog, namespace = current_namespace(answer.responses)
        session.context = replace(session.context, catalog=catalog, namespace=namespace)
        session.attached = True

    async def _abandon(self, session: ConnectSession) -> None:
        """Release a session in Spark; its client may come again with the same id."""
        request = connect_calls.release_session(session.key, allow_reconnect=True)
        try:
            with suppress(RpcError, AuthenticationFailed, BackendUnavailable, TimeoutError):
                async with asyncio.timeout(ABANDON_S):
                    await session.spark.call("ReleaseSession", request)
        finally:
            self._abandoned.pop(session.key, None)

    async def expire(self) -> None:
        now = self._clock()
        for session in self._registry.all():
            for operation in list(session.operations.values()):
                idle = operation.reattachable and not operation.attached and not operation.released
                if idle and now - operation.used_at > self.limits.detached_s:
                    await self._streams.release(operation, "the client did not return")
        await self._close_all(self._registry.idle(), "the session was idle for too long")

    async def close(self) -> None:
        """Record the end of all that runs; new sessions are refused from here on.

        Spark keeps its sessions, and what runs in them: clients come back to the next gateway, as they do
        to one that was killed.
        """
        self._registry.shut = True
        await asyncio.gather(*(self._close(one, STOPPING, release=False) for one in self._registry.all()))
        await self.lifecycle.close_in_time(self._endings.close)
        self._execution.slots.close()
        for stop in self._unwatch:
            stop()

    async def _close(
        self,
        session: ConnectSession,
        reason: str,
        *,
        release: bool = True,
        ending: Exception | None = None,
    ) -> None:
        """Close a session here, and with `release` in Spark; `ending` is what its clients are told."""
        if not self._registry.close(session.key, session):
            return
        session.ending = ending or spark_error("INVALID_HANDLE.SESSION_CLOSED", session.session_id)
        # To its end, also when the call that noticed goes away.
        await self._endings.run_uncancelled(self._end_all(session, reason, release=release))

    async def _end_all(self, session: ConnectSession, reason: str, *, release: bool) -> None:
        for operation in list(session.operations.values()):
            await self._endings.end_with_session(operation, reason, session.ending)
        if release:
            await self._release_in_spark(session.key, session.spark)

    async def _release_leftover(self, key: SessionKey, spark: PlanBackend) -> None:
        """Release a session that could not be released when it ended: what it holds is not what we know, nor
        which of its operations may be shown. Raises RpcError while its client releases it."""
        if key in self._releasing:
            raise spark_error("INVALID_HANDLE.SESSION_CLOSED", key[1])
        if key in self._unreleased:
            await self._release_in_spark(key, spark)
            if key in self._unreleased:
                raise BackendUnavailable("Spark cannot be reached")

    async def _release_in_spark(self, key: SessionKey, spark: PlanBackend) -> None:
        try:
            async with asyncio.timeout(self.limits.close_timeout_s):
                await spark.call("ReleaseSession", connect_calls.release_session(key))
        except (RpcError, AuthenticationFailed, BackendUnavailable, TimeoutError) as fault:
            self._not_released(key, fault)
            return
        self._unreleased.pop(key, None)

    def _not_released(self, key: SessionKey, fault: Exception) -> None:
        """Note that Spark may still have a session; not when it says that it has none."""
        _log.info("session_not_released_upstream", reason=type(fault).__name__)
        if isinstance(fault, RpcError) and ends_session(fault):
            self._unreleased.pop(key, None)
            return
        self._unreleased[key] = None


_MAKING = frozenset({"FetchErrorDetails", "Interrupt"})
"""Calls for which Spark makes a session that it does not have."""


def _build_recorded_client(client: Client, asked: ConnectRequest) -> Client:
    """Return the client as the record names it."""
    return replace(client, protocol="connect", application=asked.client_type or client.application)


def _options(asked: ExecutePlanRequest, limits: SessionLimits) -> ExecutionOptions:
    """Say by what an execution is known. Raises MalformedRequest for tags that Spark would not take."""
    if len(asked.tags) > limits.tags:
        raise MalformedRequest(f"an operation can have at most {limits.tags} tags")
    for tag in asked.tags:
        # The first two are Spark's own rule.
        if not tag or "," in tag or len(tag) > limits.tag_chars:
            raise MalformedRequest(f"a tag must have 1 to {limits.tag_chars} characters and no comma")
    return ExecutionOptions(
        operation_id=asked.operation_id or new_uuid(),
        client_type=asked.client_type,
        digest=hashlib.sha256(asked.plan).digest(),
        tags=asked.tags,
        reattachable=asked.reattachable,
        chunked=asked.chunked,
        chunk_bytes=asked.chunk_bytes,
    )


async def is_in_spark(backend: PlanBackend, key: SessionKey) -> bool:
    """Whether Spark has a session already; asking does not make it. Raises BackendUnavailable.

    Of a Spark that cannot say it is taken for granted.
    """
    try:
        await backend.call("GetStatus", connect_calls.get_status(key))
    except RpcError as fault:
        return not ends_session(fault)
    return True
