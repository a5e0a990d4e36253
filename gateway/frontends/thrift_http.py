"""The listener for HiveServer2's HTTP transport: one Thrift message in the body of a POST, one in the answer.

Each request says who calls: by `Basic`, `Bearer` or a cookie. Sessions do not belong to a connection: they
live until they are closed or idle for too long. HTTP itself is aiohttp's.

What drivers need: both `/path` and `/path/`; a cookie that is worth nothing any more is not answered 401 when
the request has a password too; no `X-XSRF-HEADER`, which Python's clients do not send.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog
from aiohttp import hdrs, web

from gateway.errors import AuthenticationFailed
from gateway.frontends import login_cookies
from gateway.frontends.authentication import Authenticator, ShownBeside, peer_certificate
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.http_listener import HttpConnection, HttpListener
from gateway.frontends.proxy_logins import ProxyRule, read_proxied_user
from gateway.frontends.thrift_calls import CallAnswerer, ClientGone, ReplyCut
from gateway.frontends.thrift_service import Caller, ThriftService
from gateway.model.credentials import (
    Cookie,
    Credentials,
    Negotiation,
    ProxiedUser,
    of_authorization,
)
from gateway.model.networks import Network, is_within
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.tracing import CLIENTS
from gateway.session.ports import Visitor
from gateway.wire.frames import HEADER_BYTES
from gateway.wire.thrift import MalformedMessage

_log = structlog.get_logger(__name__)

THRIFT = "application/x-thrift"
PROTOCOL = "thrift_http"
MAX_HEADER_BYTES = 16 * 1024
"""Of one header. Kerberos tickets with many groups are the longest."""
MIN_COMPRESSED_BYTES = 1024
"""Shorter answers are sent as they are."""
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Deadlines and bounds of one listener."""

    request_timeout_s: float = 60.0
    """From a request's first byte to its last."""
    idle_timeout_s: float = 300.0
    """Without a request; sessions go on without the connection."""
    write_timeout_s: float = 600.0
    """How long a client may take nothing of what it asked for."""
    max_body_bytes: int = 16 * 1024 * 1024
    """Largest request, as of a frame of the binary transport."""
    buffered_bytes: int = 1024 * 1024
    """Relayed bytes that wait for the client before Spark is not read any more."""
    record_every_s: float = 300.0
    """How often the record has the same user's login from the same address."""


class _LoginAnswer(NamedTuple):
    """What goes back to who has logged in, with the answer to his call."""

    cookie: str | None = None
    token: bytes = b""
    """The last one of SPNEGO."""


class _Body:
    """Takes a relayed frame and hands it to the task that writes the answer: see `ports.FrameSink`."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._chunks: list[bytes] = []
        self._waiting = 0
        self._head = b""
        self._changed = asyncio.Event()
        self._emptied = asyncio.Event()
        self._emptied.set()
        self._ended = False
        self.gone = False
        self.written = 0
        self.length: int | None = None
        """Bytes of the message; None until its frame has said so."""

    @property
    def slow(self) -> bool:
        return self.gone or self._waiting > self._limits.buffered_bytes

    def write(self, data: bytes) -> None:
        self.written += len(data)
        if self.gone:
            return
        if self.length is None:
            self._head += data
            if len(self._head) < HEADER_BYTES:
                return
            (self.length,) = _LENGTH.unpack_from(self._head)
            data, self._head = self._head[HEADER_BYTES:], b""
        self._chunks.append(data)
        self._waiting += len(data)
        self._emptied.clear()
        self._changed.set()

    async def drain(self) -> None:
        """Wait until the client has taken enough. Raises ClientGone when it does not."""
        if self.slow and not self.gone:
            try:
                async with asyncio.timeout(self._limits.write_timeout_s):
                    await self._emptied.wait()
            except TimeoutError:
                self.leave()
                raise ClientGone("the client did not read the response") from None
        if self.gone:
            raise ClientGone("the client disconnected")

    def end(self) -> None:
        """Nothing more will be written."""
        self._ended = True
        self._changed.set()

    def leave(self) -> None:
        """Nobody takes what is written any more."""
        self.gone = True
        self._chunks.clear()
        self._emptied.set()
        self._changed.set()

    async def take(self) -> bytes | None:
        """Return what has been written since, joined; None at the end."""
        while not self._chunks:
            self._waiting = 0
            self._emptied.set()
            if self._ended or self.gone:
                return None
            self._changed.clear()
            await self._changed.wait()
        chunks, self._chunks = self._chunks, []
        self._waiting = 0
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class _HttpConnection(HttpConnection):
    """One client's connection, and what it may still ask."""

    def __init__(self, listener: ThriftHttpServer, inner: asyncio.Protocol, place: Visitor) -> None:
        super().__init__(listener, inner, place)
        self.answerer = CallAnswerer(listener.service)
        self.unknown_handles = 0


class ThriftHttpServer(HttpListener[_HttpConnection]):
    """Answers POSTs on the connections that its door lets in."""

    def __init__(
        self,
        service: ThriftService,
        authenticator: Authenticator,
        *,
        door: ConnectionLimiter,
        paths: Iterable[str] = ("cliservice",),
        trusted_proxies: Sequence[Network] = (),
        cookies: bool = True,
        secure: bool = False,
        compresses: bool = True,
        proxies: ProxyRule | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        """`paths`: without slashes around them. `trusted_proxies`: whose `X-Forwarded-For` counts. `secure`:
        whether cookies are for TLS alone. `proxies`: those that say who their users are."""
        self.service = service
        self.limits = limits or HttpLimits()
        super().__init__(
            PROTOCOL,
            _HttpConnection,
            authenticator,
            door,
            idle_timeout_s=self.limits.idle_timeout_s,
            request_timeout_s=self.limits.request_timeout_s,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        self._paths = frozenset(f"/{path.strip('/')}" for path in paths)
        self._trusted_proxies = trusted_proxies
        self._cookies = cookies
        self._secure = secure
        self._proxies = proxies
        self._compresses = compresses

    # -- one request -------------------------------------------------------------------------------------

    async def _answer(self, request: web.BaseRequest, connection: _HttpConnection) -> web.StreamResponse:
        try:
            return await self._answer_request(request, connection)
        except (ClientGone, ConnectionResetError):
            connection.abort()
            raise

    async def _answer_request(
        self, request: web.BaseRequest, connection: _HttpConnection
    ) -> web.StreamResponse:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        CLIENTS.set(request.headers.get("traceparent", ""))
        client = Client(protocol=PROTOCOL, address=self._address_of(request, connection.place.address))
        try:
            shown, written = self._read_credentials(request, connection.place.address)
            client = replace(client, token=self.authenticator.token_of(shown))
            if isinstance(written, ProxiedUser):
                client = replace(client, extra={"proxy": connection.place.address})
            principal, headers = await self._log_in(shown, written, client)
        except AuthenticationFailed as fault:
            return await self._list_unauthorized(request, fault.message)
        connection.place.mark_logged_in()
        connection.principal, connection.client = principal, client
        # In any case, as of HiveServer2: who acts as another must not run as himself.
        # RULE (do-as-any-case)
        asked = [user for key, user in request.query.items() if key.lower() == "doas"]
        if asked not in ([], [principal.user]):
            try:
                acts_as = [("doAs", user) for user in asked]
                principal, client = await self.service.act_as(principal, client, acts_as)
            except AuthenticationFailed as fault:
                return _text(403, fault.message)
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await _continue(request)
        data = await self._body(request)
        if isinstance(data, web.Response):
            return data
        return await self._call(request, connection, data, principal, client, headers)

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        if request.path.rstrip("/") not in self._paths:
            return _text(404, "no such path; see `listeners.thrift_http.paths`")
        if request.method != hdrs.METH_POST:
            answer = _text(405, "HiveServer2's HTTP transport accepts POST only")
            answer.headers[hdrs.ALLOW] = hdrs.METH_POST
            return answer
        if (request.content_length or 0) > self.limits.max_body_bytes:
            return _too_large(self.limits.max_body_bytes)
        return None

    def _address_of(self, request: web.BaseRequest, peer: str) -> str:
        """Return the client's address: the last one in `X-Forwarded-For` that is no trusted proxy's."""
        if not self._is_trusted(peer):
            return peer
        found = peer
        listed = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
        for written in reversed(listed):
            try:
                address = str(ipaddress.ip_address(written.strip()))
            except ValueError:
                return found
            found = address
            if not self._is_trusted(address):
                break
        return found

    def _is_trusted(self, address: str) -> bool:
        return is_within(address, self._trusted_proxies)

    def _read_credentials(self, request: web.BaseRequest, peer: str) -> tuple[Credentials, ShownBeside]:
        """Return what a request shows, and what of it is written in its headers. Raises AuthenticationFailed.

        What the request says in `Authorization` counts; a cookie only where it says nothing.
        """
        headers, proxies = request.headers.getall(hdrs.AUTHORIZATION, []), self._proxies
        written: ShownBeside = read_proxied_user(
            lambda name: request.headers.getall(name, []), peer, proxies, has_login=bool(headers)
        )
        if written is None:
            written = of_authorization(headers)
        value = request.cookies.get(login_cookies.NAME, "") if self._cookies else ""
        if written is None and value:
            written = Cookie(value)
        shown = self.authenticator.with_certificate(written, peer_certificate(request.transport))
        if shown is None:
            raise AuthenticationFailed("log in with HTTP `Basic` or `Bearer` authentication")
        return shown, written

    async def _log_in(
        self, shown: Credentials, written: object, client: Client
    ) -> tuple[Principal, _LoginAnswer]:
        """Return who calls, and what he is to be told beside the answer. Raises AuthenticationFailed."""
        every_s = self.limits.record_every_s
        principal = await self.authenticator.login_each_time(shown, client, record_every_s=every_s)
        cookie = self.authenticator.cookie_for(principal, shown) if self._cookies else None
        return principal, _LoginAnswer(cookie, written.reply if isinstance(written, Negotiation) else b"")

    async def _list_unauthorized(self, request: web.BaseRequest, why: str) -> web.Response:
        if request.content_length is None:
            # Some drivers send all of a body of unknown length before they read an answer.
            await self._body(request)
        answer = _text(401, why)
        if self.authenticator.takes_kerberos:
            answer.headers.add(hdrs.WWW_AUTHENTICATE, "Negotiate")
        answer.headers.add(hdrs.WWW_AUTHENTICATE, 'Basic realm="sluice", charset="UTF-8"')
        if self._cookies and login_cookies.NAME in request.cookies:
            answer.del_cookie(login_cookies.NAME, path="/")
        return answer

    async def _body(self, request: web.BaseRequest) -> bytes | web.Response:
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self.limits.request_timeout_s):
                async for chunk in request.content.iter_any():
                    size += len(chunk)
                    if size > self.limits.max_body_bytes:
                        return _too_large(self.limits.max_body_bytes)
                    chunks.append(chunk)
        except TimeoutError:
            return _close(_text(408, "the request did not arrive in time"))
        except web.RequestPayloadError:
            return _close(_text(400, "the body ends early, or does not match its headers"))
        return b"".join(chunks)

    # -- one call ----------------------------------------------------------------------------------------

    async def _call(
        self,
        request: web.BaseRequest,
        connection: _HttpConnection,
        data: bytes,
        principal: Principal,
        client: Client,
        told: _LoginAnswer,
    ) -> web.StreamResponse:
        body = _Body(self.limits)
        caller = Caller(
            principal=principal, client=client, sink=body, unknown_handles=connection.unknown_handles
        )
        answered = asyncio.create_task(connection.answerer.answer(data, caller, body))
        answered.add_done_callback(lambda _: body.end())
        try:
            first = await body.take()
            if first is None:
                return await self._whole(request, connection, await answered, told)
            return await self._relay(request, body, first, answered, told)
        except MalformedMessage as fault:
            return _text(400, f"not a Thrift message in strict binary protocol: {fault}")
        except ReplyCut:
            raise ConnectionResetError("a response that ends early") from None
        finally:
            connection.unknown_handles = caller.unknown_handles
            body.leave()
            if not answered.done():
                answered.cancel()
                await asyncio.wait({answered})

    async def _whole(
        self,
        request: web.BaseRequest,
        connection: _HttpConnection,
        reply: bytes | None,
        told: _LoginAnswer,
    ) -> web.StreamResponse:
        if reply is None:
            raise ConnectionResetError("a call without a response")
        answer = web.Response(body=reply, content_type=THRIFT)
        if self._gzips(request, len(reply)):
            answer.body = await asyncio.to_thread(_Gzip().compress_all, reply)
            answer.headers[hdrs.CONTENT_ENCODING] = "gzip"
        self._tell(answer, told)
        return answer

    async def _relay(
        self,
        request: web.BaseRequest,
        body: _Body,
        chunk: bytes | None,
        answered: asyncio.Task[bytes | None],
        told: _LoginAnswer,
    ) -> web.StreamResponse:
        """Send an answer as it comes. Raises TimeoutError for a client that does not read."""
        answer = web.StreamResponse(headers={hdrs.CONTENT_TYPE: THRIFT})
        self._tell(answer, told)
        gzip = _Gzip() if self._gzips(request, body.length or 0) else None
        if gzip is not None:
            answer.headers[hdrs.CONTENT_ENCODING] = "gzip"
            answer.enable_chunked_encoding()
        else:
            answer.content_length = body.length
        await answer.prepare(request)
        while chunk is not None:
            if gzip is not None:
                chunk = await asyncio.to_thread(gzip.compress, chunk)
            if chunk:
                async with asyncio.timeout(self.limits.write_timeout_s):
                    await answer.write(chunk)
            chunk = await body.take()
        await answered
        if gzip is not None:
            await answer.write(gzip.flush())
        await answer.write_eof()
        return answer

    def _gzips(self, request: web.BaseRequest, size: int) -> bool:
        accepted = request.headers.get(hdrs.ACCEPT_ENCODING, "")
        return self._compresses and size >= MIN_COMPRESSED_BYTES and _accepts_gzip(accepted)

    def _tell(self, answer: web.StreamResponse, told: _LoginAnswer) -> None:
        if told.token:
            token = base64.b64encode(told.token).decode()
            answer.headers[hdrs.WWW_AUTHENTICATE] = f"Negotiate {token}"
        if told.cookie is not None:
            answer.set_cookie(
                login_cookies.NAME,
                told.cookie,
                max_age=int(self.authenticator.cookies.max_age_s),
                path="/",
                secure=self._secure,
                httponly=True,
                samesite="Strict",
            )


class _Gzip:
    """gzip at its quickest: it is there for slow networks, and must not slow fast ones."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(level=1, wbits=31)

    def compress(self, chunk: bytes) -> bytes:
        return self._compressor.compress(chunk)

    def flush(self) -> bytes:
        return self._compressor.flush()

    def compress_all(self, data: bytes) -> bytes:
        return self.compress(data) + self.flush()


def _accepts_gzip(header: str) -> bool:
    for one in header.lower().split(","):
        coding, _, parameters = one.partition(";")
        if coding.strip() == "gzip":
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


async def _continue(request: web.BaseRequest) -> None:
    """Have a client send its body that waits to be asked for it."""
    transport = request.transport
    if transport is None:
        raise ConnectionResetError("the client disconnected")
    transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")


def _close(answer: web.Response) -> web.Response:
    answer.force_close()
    return answer


def _too_large(most: int) -> web.Response:
    return _close(_text(413, f"a request of more than {most} bytes"))
