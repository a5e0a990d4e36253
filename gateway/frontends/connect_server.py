"""The listener for Spark Connect: gRPC calls of the service's methods, as bytes, each logged in for itself.

Every call is taken as a stream of requests and answered as a stream of responses, which on the wire is what
all kinds of calls are. So the caller is known before the first byte of a request is read, reading it has a
deadline, and a response is written when the one before it was taken.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import ssl as ssl_module
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import astuple, dataclass, replace
from typing import Any, NamedTuple, Protocol, cast

import grpc
import grpc.aio
import orjson
import structlog

from gateway.errors import (
    AuthenticationFailed,
    InvalidRequest,
    RpcError,
    SessionElsewhere,
    SluiceError,
)
from gateway.frontends.authentication import Authenticator
from gateway.frontends.connect_status import (
    RpcStatus,
    build_restart_status,
    internal_error,
    status_of,
    without_own_condition,
)
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.judged_tls import JudgedTls
from gateway.frontends.login_chain import WRONG
from gateway.frontends.relaying import Relay, RelayedConnection
from gateway.frontends.request_room import Hand, Requests
from gateway.frontends.sibling_calls import (
    ABOUT_ONE,
    HAS_SESSION,
    MORE_METADATA_BYTES,
    UNNAMED,
    Siblings,
    session_of,
)
from gateway.frontends.tokens import token_id
from gateway.model.bounded import BoundedDict
from gateway.model.credentials import (
    Bearer,
    Credentials,
    Negotiation,
    Password,
    UnreadableLogin,
    of_authorization,
)
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.tracing import Tracer, begin_span, traced_request
from gateway.session.identifiers import new_event_id
from gateway.session.registry import IsOver
from gateway.wire.connect import METHODS, Method
from gateway.wire.protobuf import ProtobufError

_log = structlog.get_logger(__name__)

DETAILS = "grpc-status-details-bin"
BACKEND_HEADER = "x-sluice-backend"
"""Metadata by which a client says which of several Sparks it wants; `sc://HOST/;x-sluice-backend=NAME`."""
MAX_BACKEND_CHARS = 200
IDENTITY_ONLY = 1
"""Bit set of the compressions that are taken: none. A megabyte of gzip can be a gigabyte of zeros; plans have
a compression of their own, which is opened with a bound."""


class ConnectService(Protocol):
    """Port to the Spark Connect sessions; `gateway.session.connect.service.ConnectSessions`."""

    def execute(self, principal: Principal, client: Client, request: bytes) -> AsyncIterator[bytes]: ...

    def reattach(self, principal: Principal, client: Client, request: bytes) -> AsyncIterator[bytes]: ...

    async def analyze(self, principal: Principal, client: Client, request: bytes) -> bytes: ...

    async def add_artifacts(
        self, principal: Principal, client: Client, requests: AsyncIterator[bytes]
    ) -> bytes: ...

    async def call(self, method: str, principal: Principal, client: Client, request: bytes) -> bytes: ...

    def has(self, key: tuple[str, str]) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectLimits:
    """Deadlines and bounds of one listener."""

    calls: int = 2000
    """Calls at once; a query that runs is one."""
    calls_per_connection: int = 1000
    message_bytes: int = 128 * 1024 * 1024
    """Largest message; Spark's own limit."""
    requests_bytes: int = 512 * 1024**2
    """Requests in hand, of all calls together."""
    request_timeout_s: float = 120.0
    """Seconds from the start of a call, or from one message of an upload, to the next whole message."""
    request_grace_s: float = 5.0
    """How long a message may be on its way before it counts as the largest."""
    write_timeout_s: float = 600.0
    """How long a client may take nothing of what it asked for."""
    handshake_timeout_s: float = 15.0
    idle_timeout_s: float = 4 * 3600.0
    """Without a call before a connection is closed; clients open another by themselves."""
    ping_interval_s: float = 10.0
    """Clients that ping more often are sent away; PySpark pings every 60 s and can be told otherwise."""
    metadata_bytes: int = 16 * 1024
    record_every_s: float = 3600.0
    """Every call is a login; that somebody was let in from an address is recorded this often."""
    refusal_s: float = 5.0
    """How long a wrong login that is repeated is one and the same."""


class ConnectServer:
    """Listens, logs every call in, and owns the tasks of calls until they have ended."""

    def __init__(
        self,
        service: ConnectService,
        authenticator: Authenticator,
        *,
        door: ConnectionLimiter,
        limits: ConnectLimits | None = None,
        tracer: Tracer | None = None,
        siblings: Siblings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`siblings`: the other workers, where this is one of several."""
        self._siblings = siblings
        self.limits = limits or ConnectLimits()
        self._tracer = tracer
        self._service = service
        self._authenticator = authenticator
        self._clock = clock
        self._secret = os.urandom(32)
        self._refused: BoundedDict[bytes, tuple[float, str]] = BoundedDict(MAX_REFUSED)
        self._requests = Requests(
            room=self.limits.requests_bytes,
            largest=self.limits.message_bytes,
            timeout_s=self.limits.request_timeout_s,
            grace_s=self.limits.request_grace_s,
        )
        self._connection_limiter = door
        self._relaying: Relay | None = None
        self._server: grpc.aio.Server | None = None
        self._calls: dict[asyncio.Task[Any], tuple[Principal, Client] | None] = {}
        """Calls that run, and who is logged in by each, from where; None before that."""
        self._barred: set[asyncio.Task[Any]] = set()
        """Calls that are ended since their users were removed."""
        self._stopping = False

    async def start(
        self, host: str, port: int, *, ssl: ssl_module.SSLContext | JudgedTls | None = None
    ) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError when it is taken."""
        limits = self.limits
        metadata_bytes = limits.metadata_bytes + (MORE_METADATA_BYTES if self._siblings is not None else 0)
        server = grpc.aio.server(
            handlers=(_Handlers(self._serve, self._tell_sibling if self._siblings is not None else None),),
            maximum_concurrent_rpcs=limits.calls,
            options=[
                ("grpc.max_receive_message_length", limits.message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_concurrent_streams", limits.calls_per_connection),
                ("grpc.max_metadata_size", metadata_bytes),
                ("grpc.absolute_max_metadata_size", metadata_bytes),
                ("grpc.compression_enabled_algorithms_bitset", IDENTITY_ONLY),
                ("grpc.server_handshake_timeout_ms", round(limits.handshake_timeout_s * 1000)),
                ("grpc.max_connection_idle_ms", round(limits.idle_timeout_s * 1000)),
                # A client that is gone without a word is found out within a minute and a half.
                ("grpc.keepalive_time_ms", 60_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.max_pings_without_data", 0),
                ("grpc.http2.min_ping_interval_without_data_ms", round(limits.ping_interval_s * 1000)),
            ],
        )
        self._relaying = relay = Relay(self._connection_limiter, self._record_bad_certificate)
        try:
            server.add_insecure_port(f"unix:{relay.path}")
            if self._siblings is not None:
                self._siblings.own_path.unlink(missing_ok=True)
                server.add_insecure_port(f"unix:{self._siblings.own_path}")
        except RuntimeError:
            raise OSError(f"gRPC cannot listen on {relay.path}") from None
        await server.start()
        self._server = server
        try:
            return await self._connection_limiter.open(host, port, relay.protocol, tls=ssl)
        except OSError:
            await self.close(0)
            raise

    async def close(self, within_s: float = 10.0) -> None:
        """Take no more calls, end those that run, and wait for what they leave behind to be cleaned up.

        Clients are told UNAVAILABLE: PySpark then comes back, by itself, to where it was.
        """
        self._stopping = True
        if self._server is None:
            return
        self._connection_limiter.stop_listening()
        self._connection_limiter.end_strangers()
        stopped = asyncio.ensure_future(self._server.stop(within_s))
        for task in list(self._calls):
            task.cancel()
        # gRPC waits, longer than it was told to, for a connection that it has something to send on and whose
        # client does not take it: the door ends these when calls have had their time.
        await asyncio.wait([stopped], timeout=within_s + LAST_WRITE_S)
        self._connection_limiter.close()
        if self._relaying is not None:
            self._relaying.close()
        if self._siblings is not None:
            await self._siblings.close()
        await asyncio.wait([stopped], timeout=within_s)
        if not stopped.done():
            _log.warning("connect_server_not_stopped", waited_s=2 * within_s)

    def end_where(self, is_over: IsOver) -> None:
        """End the calls for whose users that is so: they may not log in any more."""
        for task, caller in self._calls.items():
            if caller is not None and is_over(*caller) and task not in self._barred:
                self._barred.add(task)
                task.cancel()

    def count_running_calls(self) -> int:
        """Return how many calls are being answered."""
        return len(self._calls)

    # -- one call ------------------------------------------------------------------------------------------

    async def _serve(self, method: Method, context: Any) -> bytes | None:
        """Answer one call; every call of every method comes through here. Returns what is yet to be sent."""
        task = cast(asyncio.Task[Any], asyncio.current_task())
        self._calls[task] = None
        try:
            answer = await self._answer_call(method, context)
        except asyncio.CancelledError:
            barred = task in self._barred
            if not (self._stopping or barred) or context.cancelled():
                raise  # The client is gone, or has given up.
            task.uncancel()
            answer = status_of(AuthenticationFailed(WRONG), method.name) if barred else build_restart_status()
        finally:
            del self._calls[task]
            self._barred.discard(task)
        if isinstance(answer, RpcStatus):
            if "grpc-java" in _find_agent(context.invocation_metadata() or ()):
                answer = without_own_condition(answer)
            await context.abort(answer.code, answer.message, ((DETAILS, answer.details),))
            return None
        return answer

    async def _answer_call(self, method: Method, context: Any) -> RpcStatus | bytes | None:
        metadata = context.invocation_metadata() or ()
        if self._tracer is None or method.name in SMALL:
            return await self._log_in_and_answer(method, context, metadata)
        told = next((value for key, value in metadata if key == "traceparent"), "")
        with traced_request(self._tracer, method.name, told if isinstance(told, str) else "") as span:
            answer = await self._log_in_and_answer(method, context, metadata)
            if span is not None and isinstance(answer, RpcStatus):
                span.note(status=answer.code.name)
                span.end(answer.code.name)
            return answer

    async def _log_in_and_answer(
        self, method: Method, context: Any, metadata: _Metadata
    ) -> RpcStatus | bytes | None:
        try:
            relayed = self._relaying.find(context.peer()) if self._relaying is not None else None
            origin = self._siblings.read_origin(context.peer(), metadata) if self._siblings else None
            if relayed is None and origin is not None:
                relayed, metadata = origin
            if relayed is None:  # RULE (door-grpc)
                raise AuthenticationFailed("the connection did not come through the listener")
            place = relayed.place
            client = client_of(place.address, metadata)
            place.begin_busy()
            try:
                shown = self._read_credentials(metadata, relayed)
                client = replace(client, token=token_id(shown))
                principal = await self._login(shown, client)
                place.mark_logged_in()
            finally:
                place.end_busy()
            self._calls[cast(asyncio.Task[Any], asyncio.current_task())] = (principal, client)
            with self._requests.hand() as hand:
                if self._siblings is not None and origin is None:
                    caller = _Caller(principal, client, metadata, relayed)
                    return await self._answer_or_pass_on(self._siblings, caller, method, context, hand)
                return await self._answer(method, principal, client, context, hand)
        except (SluiceError, RpcError, ProtobufError) as error:
            return status_of(error, method.name)
        except Exception:  # noqa: BLE001 - a call's root: a fault of ours ends this call, not the gateway
            incident = new_event_id()
            _log.exception("call_failed", method=method.name, incident=incident)
            return internal_error(incident)

    def _read_credentials(self, metadata: Any, relayed: RelayedConnection) -> Credentials:
        if relayed.fault is not None:  # RULE (bad-certificate-opens-nothing)
            return UnreadableLogin(relayed.fault, "CERTIFICATE")
        shown = self._authenticator.with_certificate(credentials(metadata), relayed.certificate)
        if shown is None:
            raise AuthenticationFailed(f"no token in the request; {HOW}")
        return shown

    async def _record_bad_certificate(self, address: str, fault: str) -> None:
        """Record one that TLS has found; calls on its connection are the same attempt."""
        with suppress(AuthenticationFailed):
            await self._login(
                UnreadableLogin(fault, "CERTIFICATE"), Client(protocol="connect", address=address)
            )

    async def _login(self, shown: Credentials, client: Client) -> Principal:
        # INVARIANT (identity): the principal comes from here, whatever a message says about its user.
        # Every call is a login: what it takes to know an attempt again is left out while none is refused.
        if self._refused and (refusal := self._refusal(self._attempt(shown, client))) is not None:
            raise AuthenticationFailed(refusal)
        try:
            return await self._authenticator.login_each_time(
                shown, client, record_every_s=self.limits.record_every_s
            )
        except AuthenticationFailed as refused:
            if isinstance(shown, UnreadableLogin) and shown.kind == "UNKNOWN":
                refused = AuthenticationFailed(f"{refused.message}; {HOW}")
            self._refused[self._attempt(shown, client)] = (self._clock(), refused.message)
            raise refused from None

    def _attempt(self, shown: Credentials, client: Client) -> bytes:
        text = repr((client.address, astuple(shown))).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._secret, digest_size=32).digest()

    def _refusal(self, attempt: bytes) -> str | None:
        """Return why the same attempt was refused a moment ago, or None.

        PySpark makes several calls before it gives up: they are one wrong login and not several guesses.
        """
        refused = self._refused.get(attempt)
        if refused is None or self._clock() - refused[0] >= self.limits.refusal_s:
            return None
        return refused[1]

    async def _answer_or_pass_on(
        self, siblings: Siblings, caller: _Caller, method: Method, context: Any, hand: Hand
    ) -> RpcStatus | bytes | None:
        """Answer a call, or have the worker answer it that has its session."""
        user = caller.principal.user
        hand.keeps_first = True
        first = await hand.read(context) or b""
        hand.begin_again()
        worker = siblings.find(user, first)
        if worker is None and method.name in ABOUT_ONE and not self._service.has((user, session_of(first))):
            worker = await siblings.ask(user, first)
        if worker is None:
            try:
                return await self._answer(method, caller.principal, caller.client, context, hand)
            except SessionElsewhere as elsewhere:
                worker = siblings.find_worker(elsewhere.gateway)
                if worker is None or not hand.begin_again():
                    raise
                siblings.note(user, first, worker)
        responses = siblings.call(
            worker, method.path, caller.metadata, caller.connection, _upload(context, hand)
        )
        try:
            async with aclosing(responses):
                async for response in responses:
                    if method.name in SMALL:
                        return response
                    await self._write(context, response)
        except grpc.aio.AioRpcError as error:
            told = dict(error.trailing_metadata() or ())
            return RpcStatus(error.code(), error.details() or "", bytes(told.get(DETAILS, b"")))
        return None

    async def _tell_sibling(self, question: bytes, context: Any) -> bytes:
        """Tell another worker whether a session is here; nobody else may ask."""
        if context.peer() not in UNNAMED:  # RULE (has-session-asked-by-workers)
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")
        user, session = orjson.loads(question)
        return b"yes" if self._service.has((user, session)) else b""

    async def _answer(
        self, method: Method, principal: Principal, client: Client, context: Any, hand: Hand
    ) -> bytes | None:
        service = self._service
        if method.client_streaming:
            async with aclosing(_upload(context, hand)) as uploaded:
                await self._write(context, await service.add_artifacts(principal, client, uploaded))
            return None
        request = await hand.read(context)
        if request is None:
            raise InvalidRequest("the call ended before sending a request")
        match method.name:
            case "ExecutePlan":
                await self._relay(context, service.execute(principal, client, request))
            case "ReattachExecute":
                await self._relay(context, service.reattach(principal, client, request))
            case "AnalyzePlan":
                await self._write(context, await service.analyze(principal, client, request))
            case name if name in SMALL:
                return await service.call(name, principal, client, request)
            case name:
                await self._write(context, await service.call(name, principal, client, request))
        return None

    async def _relay(self, context: Any, responses: AsyncIterator[bytes]) -> None:
        span = None
        try:
            async for response in responses:
                span = span or begin_span("relay")
                await self._write(context, response)
        finally:
            if span is not None:
                span.end()
            # A client that is gone must not leave a query behind that nobody reads.
            if (close := getattr(responses, "aclose", None)) is not None:
                await close()

    async def _write(self, context: Any, response: bytes) -> None:
        writing = asyncio.ensure_future(context.write(response))
        try:
            async with asyncio.timeout(self.limits.write_timeout_s):
                await asyncio.shield(writing)
        except TimeoutError:
            writing.cancel()
            raise InvalidRequest("the client did not read the response for too long") from None
        except asyncio.CancelledError:
            # gRPC takes no status while it still takes a response: a moment for that, where the client reads.
            await asyncio.wait((writing,), timeout=LAST_WRITE_S)
            writing.cancel()
            raise


async def _upload(context: Any, hand: Hand) -> AsyncGenerator[bytes, None]:
    while (message := await hand.read(context)) is not None:
        yield message


class _Caller(NamedTuple):
    """Who makes a call, what came with it, and on which connection."""

    principal: Principal
    client: Client
    metadata: _Metadata
    connection: RelayedConnection


SMALL = frozenset({"ReleaseExecute"})
"""Answers of a few ids: gRPC sends one and its status at once, which is half the work. What may be large is
written, with a deadline, before the status."""
MAX_REFUSED = 1000
LAST_WRITE_S = 1.0
"""Seconds for a response that is being written when its call is ended."""


Serve = Callable[[Method, Any], Awaitable[bytes | None]]


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Gives gRPC the handler of each method by its path; what it does not know is UNIMPLEMENTED."""

    def __init__(self, serve: Serve, tell_sibling: Callable[[bytes, Any], Awaitable[bytes]] | None) -> None:
        self._handlers = {method.path: _handler(serve, method) for method in METHODS.values()}
        if tell_sibling is not None:
            self._handlers[HAS_SESSION] = grpc.unary_unary_rpc_method_handler(tell_sibling)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        return self._handlers.get(handler_call_details.method)


def _handler(serve: Serve, method: Method) -> grpc.RpcMethodHandler:
    async def call(_requests: Any, context: Any) -> None:
        await serve(method, context)

    async def answer(_requests: Any, context: Any) -> bytes | None:
        return await serve(method, context)

    # Without serializers a message is its bytes.
    if method.name in SMALL:
        return grpc.stream_unary_rpc_method_handler(answer)
    return grpc.stream_stream_rpc_method_handler(call)


# Who calls, as the metadata of a Spark Connect call tells it: a token, or a user name and a password.
# PySpark sends `authorization: Bearer T` with the T of `sc://host/;token=T`, and nothing else by itself. So T
# is either a token that `sluice users token` made or `user:password`; others may send HTTP's basic login.


MAX_AGENT_CHARS = 200
HOW = (
    "connect with `sc://HOST:PORT/;token=TOKEN`, where TOKEN is printed by `sluice users token`, or is "
    "`USER:PASSWORD`"
)


_Metadata = Iterable[tuple[str, str | bytes]]


def credentials(metadata: _Metadata) -> Password | Bearer | Negotiation | UnreadableLogin | None:
    """Return what the call shows; None for nothing.

    Nothing but `authorization` is looked at: who somebody says to be elsewhere does not count.
    """
    shown = [value for key, value in metadata if key == "authorization"]
    found = of_authorization([one if isinstance(one, str) else one.decode("latin-1") for one in shown])
    return _of_token(found.secret) if isinstance(found, Bearer) else found


def _of_token(value: str) -> Password | Bearer | UnreadableLogin:
    user, colon, password = value.partition(":")
    if not colon:
        return Bearer(value)
    if not user:
        return UnreadableLogin("the user name before the colon is empty")
    return Password(user, password)


def _find_agent(metadata: _Metadata) -> str:
    agent = next((value for key, value in metadata if key == "user-agent"), "")
    return agent if isinstance(agent, str) else agent.decode("latin-1")


def client_of(address: str, metadata: _Metadata) -> Client:
    """Return where a call comes from, for the audit record."""
    shown = _find_agent(metadata)[:MAX_AGENT_CHARS]
    if not shown.isprintable():
        shown = "".join(character for character in shown if character.isprintable())
    asked = next((value for key, value in metadata if key == BACKEND_HEADER), "")
    backend = asked if isinstance(asked, str) else ""
    return Client(address=address, protocol="connect", application=shown, backend=backend[:MAX_BACKEND_CHARS])
