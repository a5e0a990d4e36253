"""A listener for requests of HTTP that log in one by one and are answered whole: bounds and deadlines."""

from __future__ import annotations

import asyncio
import ssl as ssl_module
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, cast

from aiohttp import hdrs, web

from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator, ShownBeside, peer_certificate
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.model.credentials import of_authorization
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.tracing import CLIENTS
from gateway.session.ports import Visitor
from gateway.session.registry import IsOver

MAX_LINE_BYTES = 16 * 1024
"""Of a path with its parameters, and of one header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCallLimits:
    """Deadlines and bounds of one listener."""

    request_timeout_s: float = 60.0
    """From a request's first byte to its last."""
    idle_timeout_s: float = 300.0
    """Without a request."""
    max_body_bytes: int = 16 * 1024 * 1024
    bodies_bytes: int = 128 * 1024 * 1024
    """Of all bodies together that have not been answered yet; more are refused."""
    record_every_s: float = 900.0
    """How often the record has the same user's login from the same address."""


class HttpReply(Protocol):
    """What goes back to a client."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> bytes: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


AnswerHttpCall = Callable[[str, str, Mapping[str, str], bytes, Principal, Client], Awaitable[HttpReply]]
"""Method, path with parameters, headers by names in lower case, body, and who asks from where."""
ExplainHttpFault = Callable[[int, str], HttpReply]
"""Status and words → the answer in the form of the protocol."""


class _CallConnection(asyncio.Protocol):
    """One client's connection: aiohttp's protocol with the deadlines of the listener around it."""

    def __init__(self, server: HttpCallServer, inner: asyncio.Protocol, place: Visitor) -> None:
        self.place = place
        self.principal: Principal | None = None
        self.client: Client | None = None
        self.answers = False
        self._server = server
        self._inner = inner
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.place.ends_by(self._transport.abort)
        self._server.connections.add(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.place.leave()
        self._server.connections.discard(self)
        self._inner.connection_lost(exc)

    def abort(self) -> None:
        """Cut it at once."""
        if self._transport is not None:
            self._transport.abort()


class HttpCallServer:
    """Logs in whoever sends a request, and has it answered."""

    def __init__(
        self,
        protocol: str,
        answer: AnswerHttpCall,
        explain: ExplainHttpFault,
        authenticator: Authenticator,
        *,
        door: ConnectionLimiter,
        limits: HttpCallLimits | None = None,
    ) -> None:
        """`protocol`: what the record calls it."""
        self.connections: set[_CallConnection] = set()
        self._protocol = protocol
        self._answer_call = answer
        self._explain = explain
        self._authenticator = authenticator
        self._door = door
        self._limits = limits or HttpCallLimits()
        self._held_bytes = 0
        self._http: web.Server | None = None

    async def start(self, host: str, port: int, *, ssl: ssl_module.SSLContext | None = None) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError."""
        self._http = web.Server(
            self._handle,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=self._limits.idle_timeout_s,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        record = partial(self._authenticator.record_bad_certificate, self._protocol)
        return await self._door.open(host, port, self._connection, tls=ssl, record_bad_certificate=record)

    async def close(self, within_s: float = 10.0) -> None:
        """End what is being answered, and every connection."""
        self._door.stop_listening()
        if self._http is not None:
            await self._http.shutdown(within_s)
        self._door.close()

    def end_where(self, is_over: IsOver) -> None:
        """End the connections for whose users of the last request that is so."""
        for one in list(self.connections):
            if one.principal is not None and one.client is not None and is_over(one.principal, one.client):
                one.abort()

    def count_running_calls(self) -> int:
        """Return on how many connections a call is being answered."""
        return sum(one.answers for one in self.connections)

    def _connection(self, place: Visitor) -> asyncio.Protocol:
        if self._http is None:
            raise ConnectionAbortedError("the listener is closed")
        return _CallConnection(self, self._http(), place)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        connection = transport.get_protocol() if transport is not None else None
        if not isinstance(connection, _CallConnection):
            raise ConnectionResetError("the client disconnected")
        connection.place.begin_busy()
        connection.place.due(None)
        connection.answers = True
        try:
            return await self._answer(request, connection)
        finally:
            connection.answers = False
            connection.place.end_busy()
            connection.place.due(self._limits.idle_timeout_s + self._limits.request_timeout_s)

    async def _answer(self, request: web.BaseRequest, connection: _CallConnection) -> web.Response:
        CLIENTS.set(request.headers.get("traceparent", ""))
        # INVARIANT (logins first): nothing of a request is looked at before it is known whose it is.
        client = Client(
            protocol=self._protocol,
            address=connection.place.address,
            application=request.headers.get(hdrs.USER_AGENT, "")[:200],
        )
        if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
            return self._fault(403, "requests from pages of other sites are refused", close=True)
        try:
            written: ShownBeside = of_authorization(request.headers.getall(hdrs.AUTHORIZATION, []))
            shown = self._authenticator.with_certificate(written, peer_certificate(request.transport))
            if shown is None:
                raise AuthenticationFailed("log in with HTTP `Basic` or `Bearer` authentication")
            client = replace(client, token=self._authenticator.token_of(shown))
            every_s = self._limits.record_every_s
            principal = await self._authenticator.login_each_time(shown, client, record_every_s=every_s)
        except AuthenticationFailed as fault:
            answer = self._fault(401, fault.message, close=request.body_exists)
            answer.headers.add(hdrs.WWW_AUTHENTICATE, 'Basic realm="sluice", charset="UTF-8"')
            return answer
        connection.place.mark_logged_in()
        connection.principal, connection.client = principal, client
        most = self._limits.max_body_bytes
        if (request.content_length or 0) > most:
            return self._fault(413, f"a body of more than {most} bytes", close=True)
        body = bytearray()
        try:
            refused = await self._read_body(request, body)
            if refused is not None:
                return refused
            headers = {name.lower(): value for name, value in request.headers.items()}
            target = request.raw_path
            reply = await self._answer_call(request.method, target, headers, bytes(body), principal, client)
        finally:
            self._held_bytes -= len(body)
        return _write(reply)

    async def _read_body(self, request: web.BaseRequest, body: bytearray) -> web.Response | None:
        """Add to `body` what is sent; return a fault where that cannot be. What has arrived counts, and not
        what was announced: whoever sends slowly keeps nobody else from sending."""
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue" and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
            return self._fault(415, "compressed bodies are not taken", close=True)
        try:
            async with asyncio.timeout(self._limits.request_timeout_s):
                async for chunk in request.content.iter_any():
                    if len(body) + len(chunk) > self._limits.max_body_bytes:
                        most = self._limits.max_body_bytes
                        return self._fault(413, f"a body of more than {most} bytes", close=True)
                    if self._held_bytes + len(chunk) > self._limits.bodies_bytes:
                        return self._fault(503, "too much is being sent at once; try again", close=True)
                    self._held_bytes += len(chunk)
                    body += chunk
        except TimeoutError:
            return self._fault(408, "the request did not arrive in time", close=True)
        except web.RequestPayloadError:
            return self._fault(400, "the body ends early, or does not match its headers", close=True)
        return None

    def _fault(self, status: int, words: str, *, close: bool = False) -> web.Response:
        answer = _write(self._explain(status, words))
        if close:
            answer.force_close()
        return answer


def _write(reply: HttpReply) -> web.Response:
    answer = web.Response(status=reply.status, headers=dict(reply.headers))
    if reply.body or reply.status not in (204, 304):
        answer.body = reply.body
        answer.content_type = "application/json"
    with suppress(KeyError):
        del answer.headers[hdrs.SERVER]
    # What one user is answered is no other's, whatever stands between.
    answer.headers[hdrs.CACHE_CONTROL] = "private, no-cache"
    return answer
