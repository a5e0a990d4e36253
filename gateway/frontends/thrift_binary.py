"""The listener for HiveServer2's binary transport: SASL, frames, one call after the other.

A connection is an asyncio Protocol with one task that answers its calls in order. Every wait has a deadline
and every buffer a limit; a client that is slower than the deadlines or larger than the limits is let go.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl as ssl_module
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import structlog

from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator, peer_certificate
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.thrift_calls import CallAnswerer, ClientGone, ReplyCut
from gateway.frontends.thrift_service import Caller, ThriftService
from gateway.frontends.tokens import token_id
from gateway.model.credentials import Negotiation, Password, SecurityLayer, UnreadableLogin
from gateway.model.statement import Client
from gateway.session.metrics import Metrics
from gateway.session.ports import Visitor
from gateway.session.registry import IsOver
from gateway.wire.frames import FrameSplitter, frame
from gateway.wire.messages import ExceptionKind, encode_exception
from gateway.wire.sasl import GSSAPI, PLAIN, HandshakeRefused, SaslServer, SaslToken
from gateway.wire.thrift import MalformedMessage
from gateway.wire.wrapped_frames import FrameWrapper

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThriftLimits:
    """Deadlines and bounds of one listener."""

    last_words_s: float = 15.0
    """How long a client may take what it is told before its connection is closed."""
    frame_timeout_s: float = 60.0
    """Seconds from a frame's first byte to its last."""
    idle_timeout_s: float = 4 * 3600.0
    """Without a call; sessions have their own, shorter limit."""
    write_timeout_s: float = 600.0
    """How long a client may take nothing of what it asked for."""
    max_frame_bytes: int = 16 * 1024 * 1024
    """Largest request: a statement above the reader's limit still gets an answer instead of a cut line."""
    pipelined_calls: int = 64
    """Calls that may wait behind the one being answered; then the socket is no longer read."""
    pipelined_bytes: int = 16 * 1024 * 1024
    write_buffer_bytes: int = 1024 * 1024


class ThriftConnection(asyncio.Protocol):
    """One client. It is also the sink that results are relayed to."""

    def __init__(self, server: ThriftBinaryServer, place: Visitor) -> None:
        self._server = server
        self._place = place
        self._limits = server.limits
        self._sasl: SaslServer | None = SaslServer(server.mechanisms)
        self._asked: asyncio.Future[bytes] | None = None
        """Set while the client is asked for another token."""
        self._layer: SecurityLayer | None = None
        self._wrapper: FrameWrapper | None = None
        self._frames = FrameSplitter(self._limits.max_frame_bytes)
        self._has_begun = False
        """Whether a frame has begun that is not whole."""
        self._calls: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._wake: asyncio.Future[None] | None = None
        self._drain: asyncio.Future[None] | None = None
        self._reading_paused = False
        self._writing_paused = False
        self.written = 0
        self._gone = False
        self.answers = False
        """Whether a call is being answered, or its answer is on its way."""
        self._loop = asyncio.get_running_loop()
        self._due: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._client = Client(protocol="thrift")
        self._caller: Caller | None = None
        self._answerer = CallAnswerer(server.service)

    # -- asyncio.Protocol --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._place.ends_by(self._transport.abort)
        self._server.add_connection(self)
        self._client = Client(protocol="thrift", address=self._place.address)
        self._transport.set_write_buffer_limits(high=self._limits.write_buffer_bytes)

    def data_received(self, data: bytes) -> None:
        if self._gone:
            return
        if self._sasl is not None:
            self._shake_hands(self._sasl, data)
        else:
            self._take(data)

    def eof_received(self) -> None:
        """A client that has said everything is gone: no HiveServer2 client reads on after that."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._place.leave()
        self._due = None
        if self._timer is not None:
            self._timer.cancel()
        self._wake_up()
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        if self._asked is not None and not self._asked.done():
            self._asked.set_exception(ClientGone("the client gave up its login"))
        self._server.remove_connection(self)
        if self._caller is not None:
            self._server.spawn(self._server.service.close_connection(self._caller))

    def pause_writing(self) -> None:
        self._writing_paused = True

    def resume_writing(self) -> None:
        self._writing_paused = False
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    # -- FrameSink ---------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if self._transport is not None and not self._gone:
            self._transport.write(data if self._wrapper is None else self._wrapper.feed(data))

    @property
    def caller(self) -> Caller | None:
        """Who is logged in; None before the login."""
        return self._caller

    @property
    def slow(self) -> bool:
        return self._writing_paused or self._gone

    async def drain(self) -> None:
        """Wait until the client takes more. Raises ClientGone when it does not."""
        if self._writing_paused and not self._gone:
            self._drain = self._loop.create_future()
            try:
                async with asyncio.timeout(self._limits.write_timeout_s):
                    await self._drain
            except TimeoutError:
                self.abort()
                raise ClientGone("the client did not read the response") from None
            finally:
                self._drain = None
        if self._gone:
            raise ClientGone("the client disconnected")

    # -- login -------------------------------------------------------------------------------------------

    def _shake_hands(self, sasl: SaslServer, data: bytes) -> None:
        match sasl.receive(data):
            case HandshakeRefused(reason=reason, reply=reply):
                _log.info("handshake_refused", reason=reason, address=self._client.address)
                self._last_words(reply)
            case None:
                pass
            case SaslToken(token=token) if self._asked is not None:
                if not self._asked.done():
                    self._asked.set_result(token)
            case SaslToken(token=token):
                shown = Negotiation(token, self._server.service_name, partial(self._ask, sasl))
                self._server.spawn(self._log_in(sasl, shown))
            case claimed:
                self._server.spawn(self._log_in(sasl, claimed))

    async def _ask(self, sasl: SaslServer, challenge: bytes) -> bytes:
        """Return what the client answers. Raises ClientGone."""
        if self._gone or sasl.done:
            raise ClientGone("the client gave up its login")
        self._asked = self._loop.create_future()
        self._place.end_busy()
        try:
            self.write(sasl.challenge(challenge))
            self._shake_hands(sasl, b"")
            return await self._asked
        finally:
            self._asked = None
            self._place.begin_busy()

    async def _log_in(self, sasl: SaslServer, claimed: Password | Negotiation | UnreadableLogin) -> None:
        self._place.begin_busy()
        try:
            shown = self._server.authenticator.with_certificate(claimed, peer_certificate(self._transport))
            self._client = replace(self._client, token=token_id(shown))
            principal = await self._server.authenticator.login(shown or claimed, self._client)
        except AuthenticationFailed as fault:
            self._place.end_busy()
            if not self._gone and not sasl.done:
                self._last_words(sasl.refuse(f"Error validating the login: {fault.message}").reply)
            return
        except ClientGone:
            self._place.end_busy()
            return
        if self._gone or sasl.done:
            return
        self._place.mark_logged_in()
        reply, early = sasl.accept()
        self._sasl = None
        self._caller = Caller(principal=principal, client=self._client, sink=self)
        self.write(reply)
        if isinstance(claimed, Negotiation) and claimed.layer is not None:
            self._layer, self._wrapper = claimed.layer, FrameWrapper(claimed.layer)
        self._expect(self._limits.idle_timeout_s)
        self._server.spawn(self._serve(self._caller))
        if early:
            self._take(early)

    # -- frames ------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        try:
            messages = self._frames.feed(data)
            if self._layer is not None:
                messages = [self._layer.unwrap(message) for message in messages]
        except (MalformedMessage, ValueError) as fault:
            self._protocol_error(str(fault))
            return
        for message in messages:
            self._waiting_bytes += len(message)
            self._calls.append(message)
        pending = self._frames.pending
        self._has_begun = bool(pending)
        if pending:
            if messages or pending == len(data):
                # A frame has begun: it has to end in time, however slowly its bytes come.
                self._expect(self._limits.frame_timeout_s)
        elif messages:
            # Whoever answers them says what is expected next.
            self._due = None
        if self._overfull and not self._reading_paused and self._transport is not None:
            self._reading_paused = True
            self._transport.pause_reading()
            # What does not come now is our doing.
            self._expect(None)
        if messages:
            self._wake_up()

    @property
    def _overfull(self) -> bool:
        return (
            len(self._calls) > self._limits.pipelined_calls
            or self._waiting_bytes > self._limits.pipelined_bytes
        )

    # -- calls -------------------------------------------------------------------------------------------

    async def _serve(self, caller: Caller) -> None:
        """Answer calls, in order, until the client is gone."""
        try:
            while not self._gone:
                if not self._calls:
                    self._wake = self._loop.create_future()
                    await self._wake
                    continue
                message = self._calls.popleft()
                self._waiting_bytes -= len(message)
                if self._reading_paused and not self._overfull and self._transport is not None:
                    self._reading_paused = False
                    self._transport.resume_reading()
                    if self._has_begun:
                        self._expect(self._limits.frame_timeout_s)
                # A long answer does not count as the client being idle.
                if not self._has_begun:
                    self._expect(None)
                self.answers = True
                try:
                    await self._answer(message, caller)
                    if self.slow:
                        await self.drain()
                finally:
                    self.answers = False
                if not self._has_begun:
                    self._expect(self._limits.idle_timeout_s)
        except ClientGone:
            pass
        finally:
            if self._gone:
                # OpenSession may have been under way when the connection was lost.
                await self._server.service.close_connection(caller)

    async def _answer(self, data: bytes, caller: Caller) -> None:
        try:
            reply = await self._answerer.answer(data, caller, self)
        except MalformedMessage as fault:
            self._protocol_error(str(fault))
        except ReplyCut:
            self.abort()
        else:
            if reply is not None:
                self.write(frame(reply))

    # -- ending ------------------------------------------------------------------------------------------

    def _protocol_error(self, text: str) -> None:
        """Say why, and close: after this the stream cannot be followed."""
        _log.info("protocol_error", reason=text, address=self._client.address)
        self._calls.clear()
        self._last_words(frame(encode_exception("", 0, ExceptionKind.PROTOCOL_ERROR, text)))

    def _last_words(self, data: bytes) -> None:
        if self._transport is None or self._gone:
            return
        self.write(data)
        # `close` sends what is buffered first; a client that takes nothing is cut off by the deadline.
        self._expect(self._limits.last_words_s)
        self._transport.close()

    def abort(self) -> None:
        """Cut the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """End the connection after what is buffered is sent."""
        if self._transport is not None:
            self._transport.close()

    def _expect(self, within_s: float | None) -> None:
        """Set the deadline for what the client has to do next; None: nothing is awaited of it.

        Deadlines change several times a call and are hardly ever met, so the timer stays where it is and is
        moved only when it fires, or when it would fire too late.
        """
        if within_s is None or self._gone:
            self._due = None
            return
        self._due = self._loop.time() + within_s
        if self._timer is None or self._timer.when() > self._due:
            self._set_timer(self._due)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        if self._due is None or self._gone:
            return
        if self._loop.time() >= self._due:
            self._too_slow()
        else:
            self._set_timer(self._due)

    def _too_slow(self) -> None:
        _log.info("client_too_slow", address=self._client.address, logged_in=self._caller is not None)
        self.abort()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)


class ThriftBinaryServer:
    """Owns the connections that its door lets in, and every task of theirs."""

    def __init__(
        self,
        service: ThriftService,
        authenticator: Authenticator,
        *,
        door: ConnectionLimiter,
        metrics: Metrics,
        limits: ThriftLimits | None = None,
        service_name: str = "hive",
    ) -> None:
        """`service_name`: by which tickets of Kerberos are for this endpoint."""
        self.service = service
        self.service_name = service_name
        self.authenticator = authenticator
        self.mechanisms = (PLAIN, GSSAPI) if authenticator.takes_kerberos else (PLAIN,)
        self.limits = limits or ThriftLimits()
        self._metrics = metrics
        self._connections: set[ThriftConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._connection_limiter = door

    async def start(self, host: str, port: int, *, ssl: ssl_module.SSLContext | None = None) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError."""
        return await self._connection_limiter.open(
            host,
            port,
            lambda place: ThriftConnection(self, place),
            tls=ssl,
            record_bad_certificate=partial(self.authenticator.record_bad_certificate, "thrift"),
        )

    async def close(self, within_s: float = 10.0) -> None:
        """End every connection and wait for what they leave behind to be cleaned up."""
        self._connection_limiter.stop_listening()
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        self._connection_limiter.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=within_s)

    def end_where(self, is_over: IsOver) -> None:
        """End the connections for whose users that is so."""
        for connection in list(self._connections):
            if (caller := connection.caller) is not None and is_over(caller.principal, caller.client):
                connection.abort()

    def count_running_calls(self) -> int:
        """Return on how many connections a call is being answered."""
        return sum(connection.answers for connection in self._connections)

    def add_connection(self, connection: ThriftConnection) -> None:
        self._connections.add(connection)
        self._metrics.connections.set(len(self._connections))

    def remove_connection(self, connection: ThriftConnection) -> None:
        self._connections.discard(connection)
        self._metrics.connections.set(len(self._connections))

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine of a connection; its task is owned here and its failure is logged."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_ended)

    def _note_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (fault := task.exception()) is not None:
            _log.error("connection_task_failed", exc_info=fault)
