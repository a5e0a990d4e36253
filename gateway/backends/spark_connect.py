"""Talks to Spark's Connect endpoint: plans that were cleared go out as bytes, answers come back as bytes.

Nothing of the client's call is forwarded but what the envelope holds: no metadata, no deadline. Spark's
shared token is added here, on its way out, or the user's own where what listens there logs users in; it
stands in no message and no log.

Connections are shared and made anew without a word, so a process of Spark's is known by its sessions: one is
opened by asking how that process reads texts, and everything in it carries Spark's own id of the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
import structlog

from gateway.backends.one_reading import OneReading
from gateway.backends.spark_connect_questions import ConnectQuestions, GatewayQuestions, require_own
from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    Faults,
    InvalidRequest,
    RpcError,
    one_line,
)
from gateway.model.reading_settings import GATEWAY_PREFIX, READING_SETTINGS
from gateway.model.secret_values import without_secrets
from gateway.model.spark_configuration import (
    ParserConfiguration,
    SparkConfiguration,
    extensions_of,
    process_of,
)
from gateway.model.spark_logins import OWN_LOGIN, SparkLogin
from gateway.model.statement import Cleared
from gateway.model.table_formats import formats_of, list_settings_of_formats
from gateway.model.tracing import CURRENT
from gateway.session.ports import CatalogLogins, Envelope, OpenedSession, ask_as_gateway, no_logins
from gateway.wire.connect import METHODS, Message, pb, serialize
from gateway.wire.connect_requests import read_user

_Call = Any  # type: ignore[explicit-any]  # gRPC has no types
_M = TypeVar("_M", bound=Message)

_log = structlog.get_logger(__name__)

PLANS = frozenset({"ExecutePlan", "AnalyzePlan"})
"""What carries a plan goes out by `execute` and `analyze` only, which take a Cleared."""
STREAMS = frozenset({"ExecutePlan", "ReattachExecute", "AddArtifacts"})
CALLS = frozenset(METHODS) - PLANS - STREAMS
DETAILS = "grpc-status-details-bin"
LOOKAHEAD_BYTES = 1024 * 1024
"""Bytes of a stream that gRPC takes before they are asked for; 1 GB/s at a millisecond's distance."""
FRAME_BYTES = 1024 * 1024
"""Largest HTTP/2 frame that Spark may send: of 16 KiB, the default, a gigabyte is 60,000 to be taken apart
(1.14 s of CPU for each instead of 1.38)."""
LOST_STATUS = "Internal error from Core"
"""What grpc.aio says when a write fails because the call has ended, in place of the status it ended with."""

PLAN_FIELD = b"\x1a"
"""Tag of `ExecutePlanRequest.plan`: field 3, length-delimited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkConnectOptions:
    """Where Spark Connect listens and how it is talked to."""

    host: str
    port: int
    token: str = field(default="", repr=False)
    """What Spark wants to be shown; empty: nothing."""
    user_tokens: Callable[[SparkLogin], Awaitable[str]] | None = None
    """Returns what is shown for a user instead, or raises AuthenticationFailed or BackendUnavailable; None:
    `token` is for everybody."""
    tls: bool = False
    ca_file: Path | None = None
    reader: ParserConfiguration = field(default_factory=ParserConfiguration)
    """The parser that texts are proved by; Spark must read as it does."""
    catalogs: Callable[[], Mapping[str, str]] = dict
    """What every session is told of catalogs; asked when one is opened, may raise Faults."""
    catalog_logins: CatalogLogins = no_logins
    """What it is told on top, which is in its user's name."""
    named_catalogs: frozenset[str] = frozenset()
    """Those that names may begin with, told or not: a Spark that lacks one gets no statement."""
    session_catalogs: Callable[[], Mapping[str, int]] = dict
    """Those of them that come and go: lower-case name → revision."""
    is_sluice: bool = False
    """Whether it is another Sluice before Spark: that one has the session read texts, and tells how."""
    gateway: str = ""
    """Which gateway this is: sessions that another one has opened are not taken. Empty: any are."""
    channels: int = 4
    connect_timeout_s: float = 10.0
    """Seconds for a probe's answer."""
    call_timeout_s: float = 60.0
    """Seconds for the answer to a call without a plan. With a plan there is no deadline: it may run for
    hours."""
    max_message_bytes: int = -1
    """Largest answer; by default there is no bound, because Spark has one (128 MB)."""


class SparkConnectBackend:
    """A few connections to one Spark Connect server, shared by all sessions.

    A user gets to it by `act_for`; what it does itself is done in the gateway's own name.
    """

    def __init__(self, options: SparkConnectOptions) -> None:
        self._options = options
        self._where = f"`{options.host}:{options.port}`"
        self._reading = OneReading("connect", options.reader, options.named_catalogs)
        credentials = _tls(options.ca_file) if options.tls else None
        self._channels = [self._channel(credentials) for _ in range(options.channels)]
        self._turns = itertools.cycle(self._channels)
        self._untouched: tuple[tuple[str, str], Mapping[str, str]] | None = None
        """The process that was asked last, and what is set in a session there that no client has touched."""
        self._metadata = (("authorization", f"Bearer {options.token}"),) if options.token else ()
        self._probe_session = str(uuid.uuid4())  # RULE (probe-session-unknown)
        """That of probes. It is told the gateway's own logins to catalogs: a user of its name must not find
        it."""
        self.own = self.act_for(lambda: OWN_LOGIN)
        """What the gateway asks for itself."""

    def act_for(self, login: Callable[[], SparkLogin]) -> SparkConnectUser:
        """Return it as a user reaches it. See `PlanBackends`."""
        return SparkConnectUser(self, login)

    def _channel(self, credentials: grpc.ChannelCredentials | None) -> grpc.aio.Channel:
        options = self._options
        host = f"[{options.host}]" if ":" in options.host else options.host
        target = f"dns:///{host}:{options.port}"
        arguments = [
            ("grpc.max_receive_message_length", options.max_message_bytes),
            ("grpc.max_send_message_length", -1),
            # Each channel is to be a connection of its own.
            ("grpc.use_local_subchannel_pool", 1),
            # A Spark that vanished without a word is found out within a minute and a half.
            ("grpc.keepalive_time_ms", 60_000),
            ("grpc.keepalive_timeout_ms", 20_000),
            # After Spark was away: 120 s, gRPC's default, is longer than anybody waits.
            ("grpc.max_reconnect_backoff_ms", 5_000),
            # Of what Spark has sent it keeps the last 10 MB, and a client that comes back after a kill needs
            # whatever it had not yet got: so little is read ahead of the client.
            ("grpc.http2.bdp_probe", 0),
            ("grpc.http2.lookahead_bytes", LOOKAHEAD_BYTES),
            ("grpc.http2.max_frame_size", FRAME_BYTES),
            # A proxy named in the environment is for browsing, not for this.
            ("grpc.enable_http_proxy", 0),
            # Retries of gRPC's own would run a statement twice.
            ("grpc.enable_retries", 0),
            ("grpc.primary_user_agent", "sluice"),
        ]
        if credentials is None:
            return grpc.aio.insecure_channel(target, options=arguments)
        return grpc.aio.secure_channel(target, credentials, options=arguments)

    async def open_session(
        self, by: SparkConnectUser, session_id: str, user: str, observed: str
    ) -> OpenedSession:
        """Have a session of Spark read texts as the reader does. See `PlanBackend`."""
        # Of who comes through another gateway that one keeps the names: the mark is of both.
        gateway = ":".join(filter(None, (self._options.gateway, by.gateway)))
        session, configuration, known = await self._open_session(by, session_id, user, observed, gateway)
        # One that lived on has analysed plans, and the new one that is asked for comparison has not.
        formats = formats_of(extensions_of(configuration.settings))
        late = list_settings_of_formats(formats, configuration.settings)
        own = {**await self._own_settings(configuration), **late}
        return OpenedSession(
            id=session, settings=configuration.settings, own_settings=own, known_catalogs=known
        )

    async def _own_settings(self, configuration: SparkConfiguration) -> Mapping[str, str]:
        """Return what is set in a new session of the same process; once for each process."""
        process = process_of(configuration.settings)
        if self._untouched is not None and self._untouched[0] == process:
            return self._untouched[1]
        # An id that no client has ever had.
        session = str(uuid.uuid4())
        with ask_as_gateway():
            _, untouched, _ = await self._open_session(self.own, session, PROBE_USER, "")
        await self._release(session)
        found = process_of(untouched.settings)
        if found != process:
            raise BackendUnavailable("Spark was restarted while the session was being opened")
        if found is not None:
            self._untouched = (found, untouched.settings)
        return untouched.settings

    async def _open_session(
        self, by: SparkConnectUser, session_id: str, user: str, observed: str, gateway: str = ""
    ) -> tuple[str, SparkConfiguration, frozenset[str]]:
        """Return Spark's id of the session, how it is configured, and the catalogs that it knew before. With
        `gateway` it is that one's from now on; raises SessionElsewhere where it is another's."""
        asked = self._questions(by, session_id, user, observed)
        known: frozenset[str] = frozenset()
        if self._options.is_sluice:
            # It sets what a session needs, lets nobody change that, and keeps the session for this gateway.
            configuration = await self._reading.require(asked)
            return asked.server_session, configuration, known
        mark = f"{GATEWAY_PREFIX}{gateway}" if gateway else ""
        own = {mark: "true"} if mark else {}
        if self._options.session_catalogs():
            # A catalog may be told otherwise only in a session that is nobody else's.
            if own:
                await asked.set(own)
            settings = await asked.settings()
            await require_own(asked, settings, mark)
            known = frozenset(
                key.removeprefix(_CATALOG).lower()
                for key in settings
                if key.startswith(_CATALOG) and "." not in key.removeprefix(_CATALOG)
            )
        # INVARIANT (one reading): nothing is sent to a session before Spark has said that it reads as we do.
        logins = await self._options.catalog_logins()
        await asked.set({**self._options.catalogs(), **logins, **READING_SETTINGS, **own})
        configuration = await self._reading.require(asked)
        await require_own(asked, configuration.settings, mark)
        return asked.server_session, configuration, known

    def _questions(
        self, by: SparkConnectUser, session_id: str, user: str, observed: str = ""
    ) -> ConnectQuestions:
        kind = GatewayQuestions if self._options.is_sluice else ConnectQuestions
        return kind(by, session_id, user, observed)

    def ask(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """Run a serialized `ExecutePlanRequest` that the gateway wrote, with nothing of a user's in it. It is
        not part of `PlanBackend`: sessions have no way to it."""
        return self.own.stream("ExecutePlan", request, request)

    async def introduction(self) -> SparkConfiguration:
        """Return Spark's version and settings, as it says, whatever they are; parsers are not asked for.

        Raises BackendUnavailable.
        """
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                asked = self._questions(self.own, self._probe_session, PROBE_USER)
                settings = await asked.settings()
                return SparkConfiguration(version=await asked.version(), settings=settings, parsers=())
        except (TimeoutError, RpcError) as error:
            raise self._explain_no_answer(error) from None

    async def read_initial_settings(self) -> Mapping[str, str]:
        """Return what is set in a new session that was told nothing. Raises BackendUnavailable."""
        session = str(uuid.uuid4())
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                settings = await self._questions(self.own, session, PROBE_USER).settings()
        except (TimeoutError, RpcError) as error:
            raise self._explain_no_answer(error) from None
        await self._release(session)
        return settings

    async def _release(self, session: str) -> None:
        user = pb.UserContext(user_id=PROBE_USER, user_name=PROBE_USER)
        release = pb.ReleaseSessionRequest(session_id=session, user_context=user)
        with contextlib.suppress(RpcError):  # Spark forgets it by itself, later
            await self.own.call("ReleaseSession", serialize(release))

    async def probe(self) -> SparkConfiguration:
        """Return how Spark is configured.

        Raises BackendUnavailable when it does not answer in time, BackendMismatch as `open_session` does.
        """
        try:
            async with asyncio.timeout(self._options.connect_timeout_s):
                with ask_as_gateway():
                    _, configuration, _ = await self._open_session(
                        self.own, self._probe_session, PROBE_USER, ""
                    )
                return configuration
        except (TimeoutError, RpcError) as error:
            raise self._explain_no_answer(error) from None

    async def ready(self) -> SparkConfiguration:
        """Return how Spark is configured, if it answers what it has to ask its metastore for. Raises as
        `probe` does; waits for as long as the caller does."""
        configuration = await self.probe()
        request = pb.ExecutePlanRequest(
            session_id=self._probe_session,
            user_context=pb.UserContext(user_id=PROBE_USER, user_name=PROBE_USER),
        )
        request.plan.root.catalog.database_exists.db_name = "default"
        try:
            async with contextlib.aclosing(self.ask(serialize(request))) as answers:
                async for _ in answers:
                    pass
        except RpcError as error:
            raise self._explain_no_answer(error) from None
        return configuration

    def _explain_no_answer(self, error: TimeoutError | RpcError) -> BackendUnavailable:
        """Return why a question of the gateway's own has no answer."""
        if isinstance(error, RpcError):
            # Its words may quote the settings that it was told of catalogs.
            return BackendUnavailable(
                f"Spark Connect answered with gRPC status {error.code}", where=self._where
            )
        within = f"{self._where}, within {self._options.connect_timeout_s:g} s"
        return BackendUnavailable("Spark Connect did not answer in time", where=within)

    async def close(self) -> None:
        """End every call and every connection."""
        for channel in self._channels:
            await channel.close()

    # -- calls -------------------------------------------------------------------------------------------

    async def build_metadata(self, login: SparkLogin, user: str | bytes) -> tuple[tuple[str, str], ...]:
        """Return what goes along with a call about a session of a user, by name or as a request has him: the
        login, and the call's trace.

        Raises AuthenticationFailed, BackendUnavailable.
        """
        shown = self._metadata
        if self._options.user_tokens is not None:
            # INVARIANT (nobody acts as somebody else): who is shown is whose session it is.
            named = user if isinstance(user, str) else read_user(user)
            if login.principal.user != named:  # RULE (shown-user-of-session)
                raise AuthenticationFailed("the call is about a session of another user")
            shown = (("authorization", f"Bearer {await self._options.user_tokens(login)}"),)
        span = CURRENT.get()
        return shown if span is None else (*shown, ("traceparent", span.traceparent))

    def next_channel(self) -> grpc.aio.Channel:
        """Return the connection that the next call takes."""
        return next(self._turns)

    @property
    def is_sluice(self) -> bool:
        """Whether it is another Sluice before Spark."""
        return self._options.is_sluice

    @property
    def shows_users(self) -> bool:
        """Whether each user is shown by a token of his own."""
        return self._options.user_tokens is not None

    @property
    def call_timeout_s(self) -> float:
        return self._options.call_timeout_s

    def translate(
        self, error: grpc.aio.AioRpcError, login: SparkLogin, metadata: Sequence[tuple[str, str]]
    ) -> Exception:
        """Return what the session room knows for a status that is not OK; `metadata` went with the call."""
        is_users = self.shows_users and not login.is_gateway
        if is_users and error.code() is grpc.StatusCode.UNAUTHENTICATED:  # RULE (refused-user-no-outage)
            _log.warning("spark_connect_user_refused", where=self._where)
            return AuthenticationFailed("the Spark behind this gateway does not accept you")
        shown = [value.removeprefix("Bearer ") for name, value in metadata if name == "authorization"]
        return _translate_status(error, self._where, shown)


class SparkConnectUser:
    """Spark Connect in the name of one user, or of the gateway itself."""

    def __init__(self, backend: SparkConnectBackend, login: Callable[[], SparkLogin]) -> None:
        self._backend = backend
        self._login = login

    @property
    def gateway(self) -> str:
        """The gateway before this one that the user comes through; empty: none."""
        return self._login().principal.gateway

    async def open_session(self, session_id: str, user: str, observed: str = "") -> OpenedSession:
        """Have a session of Spark read texts as the reader does. See `PlanBackend`."""
        return await self._backend.open_session(self, session_id, user, observed)

    def execute(self, cleared: Cleared, envelope: Envelope) -> AsyncGenerator[bytes, None]:
        """Run a cleared plan; yields serialized `ExecutePlanResponse`. See `PlanBackend`."""
        # INVARIANT (one way): only a Cleared is forwarded, and of it the bytes that were proved.
        plan = cleared.forwarded_plan
        if not plan:
            raise ValueError("a cleared statement without a plan is not for Spark Connect")
        request = PLAN_FIELD + varint(len(plan)) + plan + _execute_envelope(envelope)
        return self.stream("ExecutePlan", request, envelope.user)

    async def analyze(self, cleared: Cleared, envelope: Envelope) -> bytes:
        """Analyse a cleared plan; returns a serialized `AnalyzePlanResponse`. See `PlanBackend`."""
        # INVARIANT (one way): as above.
        if not cleared.forwarded_plan:
            raise ValueError("a cleared statement without a plan is not for Spark Connect")
        # What comes last wins: the envelope, whatever the message held.
        request = cleared.forwarded_plan + _analyze_envelope(envelope)
        return await self._unary("AnalyzePlan", request, envelope.user)

    def reattach(self, request: bytes) -> AsyncGenerator[bytes, None]:
        """Take up an execution again. See `PlanBackend`."""
        return self.stream("ReattachExecute", request, request)

    async def call(self, method: str, request: bytes) -> bytes:
        """Make a unary call that carries no plan. See `PlanBackend`."""
        if method not in CALLS:
            raise ValueError(f"{method} is not a call without a plan")
        return await self._unary(method, request, request, within_s=self._backend.call_timeout_s)

    async def add_artifacts(self, requests: AsyncIterator[bytes], user: str) -> bytes:
        """Upload artifacts that were judged. See `PlanBackend`."""
        backend, login = self._backend, self._login()
        metadata = await backend.build_metadata(login, user)
        call: _Call = backend.next_channel().stream_unary(METHODS["AddArtifacts"].path)(metadata=metadata)
        try:
            async for request in requests:
                if backend.shows_users and read_user(request) != user:  # RULE (uploads-of-one-user)
                    raise InvalidRequest("the messages of an upload name several users")
                if call.done():
                    break  # Spark has answered already; what it says is read below.
                await call.write(request)
            else:
                await call.done_writing()
            return bytes(await call)
        except grpc.aio.AioRpcError as error:
            if error.details() == LOST_STATUS:
                raise RpcError(code=13, message="Spark ended the upload before it was complete") from None
            raise backend.translate(error, login, metadata) from None
        finally:
            call.cancel()

    async def ask_analysis(self, request: bytes) -> bytes:
        """Make an analysis that the gateway wrote, with nothing of a user's in it; see `ask`."""
        return await self._unary("AnalyzePlan", request, request)

    async def _unary(
        self, method: str, request: bytes, user: str | bytes, *, within_s: float | None = None
    ) -> bytes:
        backend, login = self._backend, self._login()
        metadata = await backend.build_metadata(login, user)
        call: _Call = backend.next_channel().unary_unary(METHODS[method].path)
        try:
            return bytes(await call(request, metadata=metadata, timeout=within_s))
        except grpc.aio.AioRpcError as error:
            raise backend.translate(error, login, metadata) from None

    async def stream(self, method: str, request: bytes, user: str | bytes) -> AsyncGenerator[bytes, None]:
        """Make a call that is answered by a stream, about a session of the user."""
        backend, login = self._backend, self._login()
        metadata = await backend.build_metadata(login, user)
        stub: _Call = backend.next_channel().unary_stream(METHODS[method].path)
        call = stub(request, metadata=metadata)
        try:
            # One message is read when the one before it was taken; gRPC's window holds Spark back.
            async for response in call:
                yield response
        except grpc.aio.AioRpcError as error:
            raise backend.translate(error, login, metadata) from None
        finally:
            # Also when nobody takes the rest: Spark learns of it at once.
            call.cancel()


_CATALOG = "spark.sql.catalog."


PROBE_USER = OWN_LOGIN.principal.user


def varint(number: int) -> bytes:
    """Return a number in protobuf's base-128 encoding."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _execute_envelope(envelope: Envelope) -> bytes:
    request = pb.ExecutePlanRequest(
        session_id=envelope.session_id,
        user_context=pb.UserContext(user_id=envelope.user, user_name=envelope.user),
        tags=envelope.tags,
    )
    _set_common(request, envelope)
    if envelope.operation_id:
        request.operation_id = envelope.operation_id
    if envelope.reattachable:
        request.request_options.add().reattach_options.reattachable = True
    if envelope.chunked:
        chunking = request.request_options.add().result_chunking_options
        chunking.allow_arrow_batch_chunking = True
        if envelope.chunk_bytes is not None:
            chunking.preferred_arrow_chunk_size = envelope.chunk_bytes
    return serialize(request)


def _analyze_envelope(envelope: Envelope) -> bytes:
    request = pb.AnalyzePlanRequest(
        session_id=envelope.session_id,
        user_context=pb.UserContext(user_id=envelope.user, user_name=envelope.user),
    )
    _set_common(request, envelope)
    return serialize(request)


def _set_common(request: pb.ExecutePlanRequest | pb.AnalyzePlanRequest, envelope: Envelope) -> None:
    if envelope.client_type:
        request.client_type = envelope.client_type
    if envelope.server_session:
        request.client_observed_server_side_session_id = envelope.server_session


def _translate_status(
    error: grpc.aio.AioRpcError, where: str, shown: Iterable[str]
) -> RpcError | BackendUnavailable:
    """Return what the session room knows for a status that is not OK; `where` is Spark's address, `shown` the
    token that went with the call."""
    code = error.code()
    message = error.details() or ""
    if code is grpc.StatusCode.UNAVAILABLE:
        message = without_secrets(message, shown)  # RULE (outage-without-token)
        _log.warning("spark_connect_unavailable", reason=message)
        return BackendUnavailable(
            "Spark cannot be reached, or the connection was lost",
            where=f"{where}: {one_line(message)}",
        )
    if code is grpc.StatusCode.UNAUTHENTICATED:
        # The client's login is another matter: it must not read this as a fault of its own.
        _log.error("spark_connect_token_refused")
        return BackendUnavailable("Spark does not accept the gateway's token", where=where, lasting=True)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return BackendUnavailable("Spark did not answer in time", where=where)
    details = b""
    for key, value in error.trailing_metadata() or ():
        if key == DETAILS:
            details = value if isinstance(value, bytes) else value.encode()
    return RpcError(message=message, code=int(code.value[0]), details=details)


def _tls(ca_file: Path | None) -> grpc.ChannelCredentials:
    if ca_file is None:
        return grpc.ssl_channel_credentials()
    try:
        return grpc.ssl_channel_credentials(ca_file.read_bytes())
    except OSError as error:
        raise Faults([f"{ca_file}: cannot be read: {error.strerror}"]) from None
