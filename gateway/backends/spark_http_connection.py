"""One connection to Spark's Thrift Server over its HTTP transport: each call is a request, one at a time.

Whoever makes the calls says with each who he is; a session of Spark's does not end with its connection here.
Replies come whole: HTTP does not always say their length before their first byte, and a frame begins with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from urllib.parse import quote

from gateway.backends.reasons import reason_of
from gateway.backends.spark_thrift_connection import SparkAddress, SparkConnection
from gateway.errors import AuthenticationFailed, BackendUnavailable, one_line
from gateway.session.ports import FrameSink, RelayedFrame
from gateway.wire.calls import TFetchResultsReq
from gateway.wire.thrift import MalformedMessage

MAX_HEAD_BYTES = 64 * 1024
_LENGTH = struct.Struct(">I")

Show = Callable[[], Awaitable[str]]
"""Returns the `Authorization` of the next requests. Raises AuthenticationFailed, BackendUnavailable."""


class SparkHttpConnection(SparkConnection):
    """A connection whose calls are requests of HTTP/1.1."""

    def __init__(
        self, address: SparkAddress, show: Show, *, acts_as: str = "", redact: Callable[[str], str] = str
    ) -> None:
        """`acts_as`: the user whom the login acts as, where it is not his own."""
        super().__init__(address, None, redact=redact)
        self._show = show
        path = f"/{(address.http_path or '').strip('/')}"
        host = f"[{address.host}]" if ":" in address.host else address.host
        query = f"?doAs={quote(acts_as, safe='')}" if acts_as else ""
        self._head = (
            f"POST {path}{query} HTTP/1.1\r\nHost: {host}:{address.port}\r\n"
            "Content-Type: application/x-thrift\r\nAccept: application/x-thrift\r\n"
            "User-Agent: sluice\r\nX-XSRF-HEADER: true\r\n"
        )
        self._requests: deque[bytes] = deque()
        """Calls that are made when the one before has its reply."""
        self._is_asking = False
        self._asking: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._is_last_reply = False
        """Whether the server has said that it closes the connection, which has not happened yet."""
        self.is_refused = False
        """Whether who was shown may not come in."""
        self._response = _HttpResponse(address.max_reply_bytes)

    @classmethod
    async def open_http(
        cls, address: SparkAddress, show: Show, *, acts_as: str = "", redact: Callable[[str], str] = str
    ) -> SparkHttpConnection:
        """Connect. Raises BackendUnavailable, and AuthenticationFailed where there is nothing to show."""
        connection = cls(address, show, acts_as=acts_as, redact=redact)
        await show()
        try:
            await connection._connect()
        except BaseException:
            connection.abort()
            raise
        return connection

    @property
    def alive(self) -> bool:
        return self._error is None

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_last_reply:
            self._is_last_reply = False  # it was dropped here
            return
        self._transport = None
        if self._waiting or self._error is not None:  # RULE (http-idle-lost-nothing)
            super().connection_lost(exc)

    async def wait_closed(self) -> None:
        if self._transport is not None:
            await super().wait_closed()

    # -- inside ------------------------------------------------------------------------------------------

    async def relay(self, request: TFetchResultsReq, seqid: int, sink: FrameSink) -> RelayedFrame:
        """Make a FetchResults call and hand its reply on when it is here. Raises BackendUnavailable."""
        await self._reconnect()
        return await super().relay(request, seqid, sink)

    async def _reconnect(self) -> asyncio.Transport:
        """Return what calls go by: servers and proxies end connections that are idle, and those that had so
        many requests. Raises BackendUnavailable."""
        async with self._connecting:
            if self._error is None and self._transport is None:
                try:
                    await self._connect()
                except BackendUnavailable as fault:
                    raise self._break(fault) from None
        return self._usable()

    async def _connect(self) -> None:
        address = self._address
        try:
            async with asyncio.timeout(address.connect_timeout_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: self, address.host, address.port, ssl=address.ssl
                )
        except TimeoutError:
            where = f"{address.place}, within {address.connect_timeout_s:g} s"
            raise BackendUnavailable("Spark did not answer in time", where=where) from None
        except OSError as error:
            where = f"{address.place}: {reason_of(error)}"
            raise BackendUnavailable("Spark cannot be reached", where=where) from error

    def _require_open(self) -> None:
        if self._error is not None:
            self._usable()

    def _write(self, message: bytes) -> None:
        self._requests.append(message)
        self._ask()

    def _ask(self) -> None:
        if self._is_asking or not self._requests:
            return
        self._is_asking = True
        self._asking = asyncio.create_task(self._send_next(self._requests.popleft()))

    async def _send_next(self, message: bytes) -> None:
        """Send a call with a token that lasts: an open session outlives the one that it began with."""
        try:
            shown = await self._show()  # RULE (http-token-renewed)
        except AuthenticationFailed as fault:
            # A session that is open ends like one whose Spark does not know its user any more.
            self._break(BackendUnavailable(fault.message))
            return
        except BackendUnavailable as fault:
            # Of this call Spark has heard nothing; the next one may be shown again.
            self._is_asking = False
            if self._error is None:
                self._waiting.popleft().fail(fault)
                self._ask()
            return
        except Exception as fault:  # noqa: BLE001 - nobody else hears of it, and the caller would wait on
            self._break(BackendUnavailable(f"the user cannot be shown to Spark ({type(fault).__name__})"))
            return
        with contextlib.suppress(BackendUnavailable):
            (await self._reconnect()).write(self._write_head(shown, message) + message)

    def _write_head(self, shown: str, message: bytes) -> bytes:
        return f"{self._head}Authorization: {shown}\r\nContent-Length: {len(message)}\r\n\r\n".encode()

    def _take(self, data: bytes) -> None:
        while data:
            body, data = self._response.take(data)
            if body is None:
                return
            if not self._waiting:
                raise MalformedMessage("an unexpected reply")
            self._is_asking = False
            exchange = self._waiting[0]
            if self._response.status != 200:
                self._break(self._explain_status(body))
                return
            if not body:
                raise MalformedMessage("an empty reply")
            if self._response.is_last and self._transport is not None:
                self._is_last_reply = True
                self._transport.abort()
                self._transport = None
            self._response = _HttpResponse(self._address.max_reply_bytes)
            exchange.begin(len(body))
            exchange.take(_LENGTH.pack(len(body)) + body)
            exchange.end()
            self._waiting.popleft()
            self._ask()

    def _explain_status(self, body: bytes) -> BackendUnavailable:
        status = self._response.status
        if status in (401, 403):
            self.is_refused = True
            return BackendUnavailable("Spark refused the gateway's login", lasting=True)
        # RULE (http-body-redacted-whole): of a token that is cut in two each half would pass.
        told = one_line(self._redact(body[:MAX_HEAD_BYTES].decode("utf-8", "replace")))
        where = f"{self._address.place}: HTTP status {status}: {told}"
        return BackendUnavailable("Spark did not answer a call over HTTP", where=where)


class _HttpResponse:
    """Gathers one response. `Content-Length` or chunks say where it ends."""

    def __init__(self, most: int) -> None:
        self.status = 0
        self.is_last = False
        """Whether the server closes the connection after it."""
        self._most = most
        self._head = bytearray()
        self._body = bytearray()
        self._left = -1
        """Bytes of the body, or of this chunk, that are to come; -1: it is not known yet."""
        self._is_chunked = False
        self._is_last = False
        self._line = bytearray()

    def take(self, data: bytes) -> tuple[bytes | None, bytes]:
        """Return the body when all of it is here, and what is left of the data. Raises MalformedMessage."""
        if not self.status:
            data = self._take_head(data)
            if not self.status:
                return None, b""
        if self._is_chunked:
            return self._take_chunks(data)
        self._add(data[: self._left])
        data, self._left = data[self._left :], self._left - min(len(data), self._left)
        return (bytes(self._body), data) if not self._left else (None, b"")

    def _add(self, data: bytes) -> None:
        if len(self._body) + len(data) > self._most:
            raise MalformedMessage(f"a response of more than {self._most} bytes")
        self._body += data

    def _take_head(self, data: bytes) -> bytes:
        begin = max(0, len(self._head) - 3)
        self._head += data
        end = self._head.find(b"\r\n\r\n", begin)
        if end < 0:
            if len(self._head) > MAX_HEAD_BYTES:
                raise MalformedMessage("headers of HTTP that are too long")
            return b""
        first, *lines = self._head[:end].decode("latin-1").split("\r\n")
        rest = bytes(self._head[end + 4 :])
        version, _, status = first.partition(" ")
        if not version.startswith("HTTP/1.") or not status[:3].isdecimal():
            raise MalformedMessage("no response of HTTP")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)
        }
        if status.startswith("1"):  # 100 Continue
            self._head.clear()
            return self._take_head(rest) if rest else b""
        self._is_chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self.is_last = "close" in headers.get("connection", "").lower()
        length = headers.get("content-length", "")
        if not self._is_chunked and not length.isdecimal():
            raise MalformedMessage("a response of HTTP without a length")
        self._left = -1 if self._is_chunked else int(length)
        if self._left > self._most:
            raise MalformedMessage(f"a response of more than {self._most} bytes")
        self.status = int(status[:3])
        return rest

    def _take_chunks(self, data: bytes) -> tuple[bytes | None, bytes]:
        while data:
            if self._left > 0:
                self._add(data[: self._left])
                taken = min(len(data), self._left)
                data, self._left = data[taken:], self._left - taken
                continue
            # A line: the end of a chunk, the length of the next one, or the trailer's.
            self._line += data[:1] if b"\n" not in data else data[: data.index(b"\n") + 1]
            data = data[1:] if b"\n" not in data else data[data.index(b"\n") + 1 :]
            if not self._line.endswith(b"\n"):
                if len(self._line) > MAX_HEAD_BYTES:
                    raise MalformedMessage("a chunk without a length")
                continue
            line, self._line = bytes(self._line).strip(), bytearray()
            if self._is_last:
                if not line:
                    return bytes(self._body), data
            elif self._left == 0:
                self._left = -1
            else:
                try:
                    self._left = int(line.partition(b";")[0], 16)
                except ValueError:
                    raise MalformedMessage("a chunk without a length") from None
                self._is_last = not self._left
        return None, b""
