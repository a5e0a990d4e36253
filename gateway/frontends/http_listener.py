"""A listener whose clients log in with each request of HTTP: its connections with their deadlines, and how it
begins and ends. HTTP itself is aiohttp's.
"""

from __future__ import annotations

import asyncio
import ssl as ssl_module
from abc import ABC, abstractmethod
from functools import partial
from typing import Any, Generic, TypeVar, cast

from aiohttp import web

from gateway.frontends.authentication import Authenticator
from gateway.frontends.connection_limits import ConnectionLimiter
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.ports import Visitor
from gateway.session.registry import IsOver
from gateway.session.visitor_protocol import VisitorProtocol

C = TypeVar("C", bound="HttpConnection")


class HttpConnection(VisitorProtocol):
    """One client's connection: aiohttp's protocol with the deadlines of the listener around it."""

    def __init__(self, listener: HttpListener[Any], inner: asyncio.Protocol, place: Visitor) -> None:
        super().__init__(inner, place)
        self.principal: Principal | None = None
        """Who was logged in with the last request; None before one was."""
        self.client: Client | None = None
        """From where the last request came, and by which token."""
        self.answers = False
        self._listener = listener
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._listener.connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.connections.discard(self)
        super().connection_lost(exc)

    def abort(self) -> None:
        """Cut it at once."""
        if self._transport is not None:
            self._transport.abort()


class HttpListener(ABC, Generic[C]):
    """Answers requests on the connections that its door lets in."""

    def __init__(
        self,
        protocol: str,
        connection: type[C],
        authenticator: Authenticator,
        door: ConnectionLimiter,
        *,
        idle_timeout_s: float,
        request_timeout_s: float,
        **options: Any,
    ) -> None:
        """`protocol`: what the record calls it. `options`: of aiohttp's server."""
        self.authenticator = authenticator
        self.connections: set[C] = set()
        self._protocol = protocol
        self._connection_kind = connection
        self._door = door
        self._idle_timeout_s = idle_timeout_s
        # aiohttp ends what is idle; the head of a next request has to come in time as well.
        self._next_within_s = idle_timeout_s + request_timeout_s
        self._options = options
        self._http: web.Server | None = None

    async def start(self, host: str, port: int, *, ssl: ssl_module.SSLContext | None = None) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError."""
        self._http = web.Server(
            self._handle, access_log=None, keepalive_timeout=self._idle_timeout_s, **self._options
        )
        record = partial(self.authenticator.record_bad_certificate, self._protocol)
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
        return self._connection_kind(self, self._http(), place)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        connection = transport.get_protocol() if transport is not None else None
        if not isinstance(connection, self._connection_kind):
            raise ConnectionResetError("the client disconnected")
        connection.place.begin_busy()
        connection.place.due(None)
        connection.answers = True
        try:
            return await self._answer(request, connection)
        finally:
            connection.answers = False
            connection.place.end_busy()
            connection.place.due(self._next_within_s)

    @abstractmethod
    async def _answer(self, request: web.BaseRequest, connection: C) -> web.StreamResponse:
        """Log in who asks, and answer."""
