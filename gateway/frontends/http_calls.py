"""A listener for requests of HTTP that log in one by one and are answered whole: bounds and deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from aiohttp import hdrs, web

from gateway.errors import AuthenticationFailed
from gateway.frontends.authentication import Authenticator, ShownBeside, peer_certificate
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.frontends.http_listener import HttpConnection, HttpListener
from gateway.model.credentials import of_authorization
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.model.tracing import CLIENTS

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


class HttpCallServer(HttpListener[HttpConnection]):
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
        self._limits = limits or HttpCallLimits()
        super().__init__(
            protocol,
            HttpConnection,
            authenticator,
            door,
            idle_timeout_s=self._limits.idle_timeout_s,
            request_timeout_s=self._limits.request_timeout_s,
            auto_decompress=False,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_LINE_BYTES,
        )
        self._answer_call = answer
        self._explain = explain
        self._held_bytes = 0

    async def _answer(self, request: web.BaseRequest, connection: HttpConnection) -> web.Response:
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
            shown = self.authenticator.with_certificate(written, peer_certificate(request.transport))
            if shown is None:
                raise AuthenticationFailed("log in with HTTP `Basic` or `Bearer` authentication")
            client = replace(client, token=self.authenticator.token_of(shown))
            every_s = self._limits.record_every_s
            principal = await self.authenticator.login_each_time(shown, client, record_every_s=every_s)
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
