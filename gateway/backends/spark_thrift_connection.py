"""One connection to Spark's Thrift Server: calls go out in order, replies come back in the same order.

Replies are matched by order, as the protocol has it. A caller that goes away leaves its place in the queue
behind, so that its reply is swallowed and never taken for another's. Large replies are not gathered: a relay
hands the bytes on as they arrive, and reading stops while their taker is slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

from gateway.backends.reasons import reason_of
from gateway.backends.spark_thrift_exchanges import Exchange, Gathered, Relayed, Swallowed
from gateway.errors import BackendUnavailable, InvalidRequest
from gateway.model.bounded import BoundedDict
from gateway.session.ports import BackendError, FrameSink, RelayedFrame
from gateway.wire.calls import (
    TCloseSessionReq,
    TCloseSessionResp,
    TFetchResultsReq,
    TFetchResultsResp,
    TGetResultSetMetadataResp,
    TOpenSessionResp,
)
from gateway.wire.frames import HEADER_BYTES, frame
from gateway.wire.messages import CallFailed, decode_reply, encode_call, without_seqid
from gateway.wire.peek import FetchPeek
from gateway.wire.sasl import LoginRefused, SaslClient
from gateway.wire.tcli import TStatus, TStatusCode
from gateway.wire.thrift import MalformedMessage, Struct
from gateway.wire.wrapped_frames import WrappedFrames

R = TypeVar("R", bound=Struct)

MAX_ERROR_BYTES = 4 * 1024 * 1024
"""Length of an error reply to FetchResults; Spark's hold a stack and a plan."""

_BELOW_THE_SERVICE = "Spark failed to answer a HiveServer2 call"

_LENGTH = struct.Struct(">I")
_BETWEEN = "\0\n\0"
"""Stands in no line of an error."""

KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
"""After a minute of silence Spark's machine is asked three times, at 20 seconds, whether it is still there;
Linux alone begins after two hours. Where the system knows the options by these names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAddress:
    """Where Spark's Thrift Server listens, and how long it may take to answer."""

    host: str
    port: int
    ssl: ssl.SSLContext | None = None
    http_path: str | None = None
    """Path of the HTTP transport; None: the binary one."""
    connect_timeout_s: float = 10.0
    """Seconds for the TCP connection and the login together."""
    call_timeout_s: float = 60.0
    """Seconds for one call; Spark's own long poll in GetOperationStatus takes 5."""
    urgent_timeout_s: float = 7.0
    """Seconds for a call that cancels or closes; one may stand behind a long poll of 5."""
    fetch_timeout_s: float = 600.0
    """Seconds without a byte of a FetchResults reply: with incremental collection Spark computes then. Also
    for a statement of the gateway's own, which is answered when it has run."""
    max_reply_bytes: int = 64 * 1024 * 1024
    """Length of a reply that is gathered and decoded; relayed ones have no limit."""

    @property
    def place(self) -> str:
        """Host and port, for operators."""
        return f"`{self.host}:{self.port}`"


class Begun(Generic[R]):
    """A call that was sent: its reply is awaited once, or dropped."""

    __slots__ = ("_connection", "_exchange", "_response", "_timeout_s")

    def __init__(
        self, connection: SparkConnection, exchange: Gathered, response: type[R], timeout_s: float
    ) -> None:
        self._connection = connection
        self._exchange = exchange
        self._response = response
        self._timeout_s = timeout_s

    def answer(self) -> Coroutine[None, None, R]:
        """Return the reply. Raises BackendError for an error status, BackendUnavailable."""
        return self._connection.read_reply(self._exchange, self._response, self._timeout_s)

    def drop(self) -> None:
        """Let the reply go, whatever it is."""
        self._exchange.drop()


class SparkConnection(asyncio.Protocol):
    """A logged-in connection. Once anything goes wrong with it, it is closed and every call fails."""

    def __init__(
        self, address: SparkAddress, login: SaslClient | None, *, redact: Callable[[str], str] = str
    ) -> None:
        """`redact` takes out of what Spark says in a reply what nobody may read."""
        self._address = address
        self._redact = redact
        self._login = login
        self._wrapping: WrappedFrames | None = None
        """What protects messages, as the login has agreed."""
        self._loop = asyncio.get_running_loop()
        self._logged_in: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        """Looks whether a call has waited for too long. It stays where it is when one was answered: then the
        next one needs none."""
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Exchange] = deque()
        self._header = bytearray()
        self._left = 0
        self._seqid = 0
        self._error: BackendUnavailable | None = None

    @classmethod
    async def open(
        cls, address: SparkAddress, login: SaslClient, *, redact: Callable[[str], str] = str
    ) -> SparkConnection:
        """Connect and log in. Raises BackendUnavailable."""
        connection = cls(address, login, redact=redact)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(address.connect_timeout_s):
                await loop.create_connection(lambda: connection, address.host, address.port, ssl=address.ssl)
                await connection._logged_in  # of one over HTTP as soon as it is there
        except TimeoutError:
            connection.abort()
            raise BackendUnavailable(
                "Spark did not answer the login in time",
                where=f"{address.place}, within {address.connect_timeout_s:g} s",
            ) from None
        except OSError as error:
            connection.abort()
            raise BackendUnavailable(
                "Spark cannot be reached",
                where=f"{address.place}: {reason_of(error)}",
            ) from error
        except BaseException:
            connection.abort()
            raise
        return connection

    @property
    def alive(self) -> bool:
        return self._error is None and self._transport is not None

    @property
    def idle(self) -> bool:
        """Whether a new call would be answered at once, and not stand behind another's long poll."""
        return all(exchange.quick for exchange in self._waiting)

    def abort(self) -> None:
        """Drop the connection at once; a binary session of Spark ends with it."""
        self._break(BackendUnavailable("the connection to Spark was closed"))

    async def wait_closed(self) -> None:
        """Return when the socket is closed."""
        if self._transport is not None:
            await asyncio.shield(self._closed)

    async def call(self, method: str, request: Struct, response: type[R], *, urgent: bool = False) -> R:
        """Make one call. Raises BackendError for an error status, BackendUnavailable when Spark is gone."""
        return await self.begin(method, request, response, urgent=urgent).answer()

    def begin(
        self,
        method: str,
        request: Struct,
        response: type[R],
        *,
        urgent: bool = False,
        quick: bool = False,
        computed: bool = False,
    ) -> Begun[R]:
        """Send a call; its reply is awaited later, or dropped. Raises BackendUnavailable.

        `quick` calls are those that Spark answers as soon as it comes to them, `computed` ones those that it
        answers when it has run a statement.
        """
        timeout_s = self._address.urgent_timeout_s if urgent else self._address.call_timeout_s
        if computed:
            timeout_s = self._address.fetch_timeout_s
        exchange = Gathered(method, self._address.max_reply_bytes, quick=quick)
        self._seqid = self._seqid % 0x7FFF_FFFF + 1
        self._send(exchange, method, request, self._seqid)
        return Begun(self, exchange, response, timeout_s)

    def send_unanswered(self, method: str, request: Struct) -> None:
        """Send a call that Spark answers as soon as it comes to it, and let the reply go, whatever it is; one
        that cannot be sent, too."""
        self._seqid = self._seqid % 0x7FFF_FFFF + 1
        with contextlib.suppress(BackendUnavailable):
            self._send(Swallowed(), method, request, self._seqid)

    async def read_reply(self, exchange: Gathered, response: type[R], timeout_s: float) -> R:
        """Wait for the reply of a call that was sent. Raises as `call` does."""
        answer = exchange.answer
        if not answer.done():
            self._look_by(exchange, timeout_s)
        try:
            data = await answer
        finally:
            exchange.due = None
            answer.cancel()
        return self._decode(data, response)

    def _look_by(self, exchange: Exchange, within_s: float) -> None:
        """Give a call so many seconds from now."""
        due = exchange.due = self._loop.time() + within_s
        if self._timer is None or self._timer.when() > due:
            self._set_timer(due)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._look, when)

    def _look(self, now: float) -> None:
        """End the connection where a call has waited for too long."""
        self._timer = None
        now = max(now, self._loop.time())
        if silence := next(filter(None, (one.find_silence(now) for one in self._waiting)), ""):
            self._break(BackendUnavailable(silence))
        elif dues := [one.due for one in self._waiting if one.due is not None]:
            self._set_timer(min(dues))

    async def relay(self, request: TFetchResultsReq, seqid: int, sink: FrameSink) -> RelayedFrame:
        """Make a FetchResults call and hand its reply on to `sink`, length included, as it arrives.

        An error reply is returned and nothing of it is written. Raises BackendUnavailable when Spark goes
        away, maybe in the middle of the reply: then `sink` has the beginning of a frame that never ends.
        """
        if sink.slow:
            await sink.drain()
        transport, silence_s = self._usable(), self._address.fetch_timeout_s
        exchange = Relayed(sink, transport, min(self._address.max_reply_bytes, MAX_ERROR_BYTES), silence_s)
        self._send(exchange, "FetchResults", request, seqid)
        try:
            while not exchange.finished:
                self._look_by(exchange, silence_s)
                await exchange.wait(self._loop.create_future())
                if exchange.error is not None:
                    raise exchange.error
                if exchange.stopped:
                    await sink.drain()
                    exchange.read_on()
        finally:
            if exchange.stopped or not exchange.finished:
                exchange.abandon()
        peek = cast(FetchPeek, exchange.peek)
        if peek.succeeded:
            return RelayedFrame(bytes=exchange.received, rows=peek.rows, status=peek.status)
        try:
            self._decode(exchange.gathered, TFetchResultsResp)
        except BackendError as error:
            return RelayedFrame(bytes=0, rows=0, status=peek.status, error=error)
        raise self._break(BackendUnavailable("Spark answered FetchResults with two statuses"))

    # -- asyncio.Protocol ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            # A Spark whose machine has vanished answers nothing, not even with an end.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEP_ALIVE.items():
                if (option := getattr(socket, name, None)) is not None:
                    sock.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._login is not None:
            self._transport.write(self._login.start())

    def data_received(self, data: bytes) -> None:
        if self._error is not None:
            return
        try:
            if self._login is not None:
                self._go_on_with_login(self._login, data)
            elif self._wrapping is not None:
                for message in self._wrapping.receive(data):
                    self._take(frame(message))
            else:
                self._take(data)
        except LoginRefused:
            self._break(BackendUnavailable("Spark refused the gateway's login", lasting=True))
        except MalformedMessage as fault:
            self._break(BackendUnavailable(f"Spark's response is not valid HiveServer2 protocol: {fault}"))
        except BackendUnavailable as fault:
            self._break(fault)

    def _go_on_with_login(self, login: SaslClient, data: bytes) -> None:
        if not login.receive(data):
            if reply := login.take_reply():
                self._usable().write(reply)
            return
        self._login = None
        if login.layer is not None:
            self._wrapping = WrappedFrames(login.layer, self._address.max_reply_bytes)
        if not self._logged_in.done():
            self._logged_in.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(BackendUnavailable("the connection to Spark was lost"))
        if not self._closed.done():
            self._closed.set_result(None)

    # -- inside ----------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                at = self._begin(data, at)
                if not self._left:
                    return
            chunk = data if not at and end <= self._left else data[at : at + self._left]
            at += len(chunk)
            self._left -= len(chunk)
            exchange = self._waiting[0]
            exchange.take(chunk)
            if not self._left:
                exchange.end()
                self._waiting.popleft()

    def _begin(self, data: bytes, at: int) -> int:
        """Begin a frame at `at`, and return where its bytes go on; `_left` stays 0 while the header is short.

        A header that came whole stays in front of its frame, so that the chunk is handed on without a copy.
        """
        if not self._header and len(data) - at >= HEADER_BYTES:
            (length,) = _LENGTH.unpack_from(data, at)
            self._left = length + HEADER_BYTES
        else:
            needed = HEADER_BYTES - len(self._header)
            self._header += data[at : at + needed]
            at += needed
            if len(self._header) < HEADER_BYTES:
                return at
            (length,) = _LENGTH.unpack(self._header)
            self._left = length
        if not self._waiting:
            raise MalformedMessage("an unexpected reply")
        if not length:
            raise MalformedMessage("an empty reply")
        self._waiting[0].begin(length)
        if self._header:
            self._waiting[0].take(bytes(self._header))
            self._header.clear()
        return at

    def _usable(self) -> asyncio.Transport:
        if self._error is not None or self._transport is None:
            raise BackendUnavailable("the connection to Spark is closed")
        return self._transport

    def _require_open(self) -> None:
        self._usable()

    def _send(self, exchange: Exchange, method: str, request: Struct, seqid: int) -> None:
        if self._error is not None or self._transport is None:
            self._require_open()
        try:
            message = encode_call(method, seqid, request)
        except ValueError as error:
            raise InvalidRequest("the text contains lone surrogates, which are not valid Unicode") from error
        self._waiting.append(exchange)
        self._write(message)

    def _write(self, message: bytes) -> None:
        transport, framed = self._transport or self._usable(), frame(message)
        transport.write(framed if self._wrapping is None else self._wrapping.wrap(framed))

    def _decode(self, data: bytes, response: type[R]) -> R:
        try:
            reply = (
                decode_reply(data, response)
                if response not in _RECURRING_REPLIES
                else _read_again(data, response)
            )
        except CallFailed as failure:
            # INVARIANT (handles stay here): the text of a Thrift exception may repeat the whole request, and
            # with it Spark's handle and secret, which anybody may use.
            raise BackendError(_BELOW_THE_SERVICE, "HY000", failure.kind) from failure
        except MalformedMessage as fault:
            raise self._break(
                BackendUnavailable(f"Spark's response is not valid HiveServer2 protocol: {fault}")
            ) from fault
        status: TStatus = reply.status  # type: ignore[attr-defined]  # every reply of the service has one
        if status.statusCode not in (TStatusCode.SUCCESS, TStatusCode.SUCCESS_WITH_INFO):
            lines = status.infoMessages or ()
            raise BackendError(
                self._redact(_message(status)),
                status.sqlState,
                status.errorCode or 0,
                # At once: of the hundreds of lines of a stack each would cost as much as all.
                tuple(self._redact(_BETWEEN.join(lines)).split(_BETWEEN)) if lines else (),
            )
        return reply

    def _break(self, error: BackendUnavailable) -> BackendUnavailable:
        """Close the connection and fail every call; return the error for raising."""
        error.where = error.where or self._address.place
        if self._error is not None:
            return error
        self._error = error
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        if not self._logged_in.done():
            self._logged_in.set_exception(error)
            self._logged_in.exception()  # marks it as seen: nobody may be waiting any more
        while self._waiting:
            self._waiting.popleft().fail(BackendUnavailable(error.message, where=error.where))
        return error


_RECURRING_REPLIES = frozenset({TGetResultSetMetadataResp})
"""Replies that come again and again but for their sequence id: the columns of the same statement."""
MAX_REPLIES = 256
MAX_REPLY_BYTES = 16_384
"""Such replies that are kept as they were read, and how long one of them may be. Nobody changes what was
read."""
_read: BoundedDict[bytes, Struct] = BoundedDict(MAX_REPLIES)


def _read_again(data: bytes, response: type[R]) -> R:
    """Read a reply that may have come before. Raises as `decode_reply` does."""
    if len(data) > MAX_REPLY_BYTES:
        return decode_reply(data, response)
    told = without_seqid(data)
    known = _read.get(told)
    if not isinstance(known, response):
        known = _read[told] = decode_reply(data, response)
    return known


def _message(status: TStatus) -> str:
    if status.errorMessage:
        return status.errorMessage
    # Some errors of HiveServer2 come without a message, but with the exception as `*class:message:…` lines.
    return next(iter(status.infoMessages or ()), "Spark reports an error without a message")


async def close_unwanted(connection: SparkConnection, opening: asyncio.Task[TOpenSessionResp]) -> None:
    """Close a session when Spark has opened it that nobody waits for any more."""
    with contextlib.suppress(BackendError, BackendUnavailable):
        if (handle := (await opening).sessionHandle) is not None:
            close = TCloseSessionReq(sessionHandle=handle)
            await connection.call("CloseSession", close, TCloseSessionResp)
    connection.abort()
