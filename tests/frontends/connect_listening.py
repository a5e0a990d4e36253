"""A Spark Connect listener on a loopback port before a service of its own, and raw gRPC clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from gateway.app.certificates import read_pair
from gateway.app.connect import connect_context_of
from gateway.frontends.authentication import Authenticator
from gateway.frontends.connect_server import ConnectLimits, ConnectServer
from gateway.frontends.connection_limits import ConnectionLimiter, ConnectionLimits
from gateway.frontends.guessing import FailedLogins, LoginLimits
from gateway.frontends.sibling_calls import Siblings
from gateway.frontends.tokens import new_token
from gateway.frontends.users import User
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.settings.listeners import Tls
from gateway.wire.connect import METHODS, pb
from tests.frontends.listening import chain_of, user
from tests.session.fakes import World
from tests.speed import patience

TLS = Path(__file__).parent / "tls"


@dataclass
class FakeConnect:
    """Answers as its `responses` say, and remembers who asked what."""

    calls: list[tuple[str, Principal, Client, bytes]] = field(default_factory=list)
    responses: Callable[[bytes], AsyncIterator[bytes]] | None = None
    unary: Callable[[str, bytes], Awaitable[bytes]] | None = None
    uploads: list[bytes] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    """Streams that were closed."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    sessions: set[tuple[str, str]] = field(default_factory=set)
    """Those that it says it has."""
    arrived: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    """Requests of unary calls and messages of uploads."""

    def execute(self, principal: Principal, client: Client, request: bytes) -> AsyncIterator[bytes]:
        self.calls.append(("ExecutePlan", principal, client, request))
        return self._stream("ExecutePlan", request)

    def reattach(self, principal: Principal, client: Client, request: bytes) -> AsyncIterator[bytes]:
        self.calls.append(("ReattachExecute", principal, client, request))
        return self._stream("ReattachExecute", request)

    async def _stream(self, method: str, request: bytes) -> AsyncIterator[bytes]:
        try:
            if self.responses is None:
                yield b"one"
                yield b"two"
            else:
                async for response in self.responses(request):
                    yield response
        finally:
            self.ended.append(method)
            self.closed.set()

    async def analyze(self, principal: Principal, client: Client, request: bytes) -> bytes:
        return await self.call("AnalyzePlan", principal, client, request)

    async def call(self, method: str, principal: Principal, client: Client, request: bytes) -> bytes:
        self.calls.append((method, principal, client, request))
        self.arrived.put_nowait(request)
        return await self.unary(method, request) if self.unary is not None else b"answer to " + request

    async def add_artifacts(
        self, principal: Principal, client: Client, requests: AsyncIterator[bytes]
    ) -> bytes:
        self.calls.append(("AddArtifacts", principal, client, b""))
        try:
            async for request in requests:
                self.uploads.append(request)
                self.arrived.put_nowait(request)
        finally:
            self.ended.append("AddArtifacts")
            self.closed.set()
        return b"taken"

    def has(self, key: tuple[str, str]) -> bool:
        return key in self.sessions


class Listening:
    """A running listener; `service` is what stands behind it, `world` has the ledger of logins."""

    def __init__(
        self,
        limits: ConnectLimits | None,
        logins: LoginLimits | None,
        doors: ConnectionLimits | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        self.world = World()
        self.service = FakeConnect()
        self.token, kept = new_token()
        bob = user("bob", "secret", "analysts")
        self.users = {
            "bob": User(principal=bob.principal, password_hash=bob.password_hash, tokens=(kept,)),
            "alice": user("alice", "w:on der"),
        }
        self.now = 1000.0
        self.server = ConnectServer(
            self.service,
            Authenticator(
                chain_of(lambda: self.users, clock=lambda: self.now),
                recorder=self.world.sessions.recorder,
                metrics=self.world.sessions.metrics,
                guesses=FailedLogins(logins, clock=lambda: self.now),
                clock=lambda: self.now,
            ),
            door=ConnectionLimiter("connect", doors),
            limits=limits,
            siblings=siblings,
            clock=lambda: self.now,
        )
        self.port = 0
        self.channels: list[grpc.aio.Channel] = []

    def channel(self, *, root: bytes | None = None, **options: Any) -> grpc.aio.Channel:
        """A connection of its own."""
        arguments = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        arguments += [(f"grpc.{key}", value) for key, value in options.items()]
        if root is None:
            made = grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=arguments)
        else:
            made = grpc.aio.secure_channel(
                f"localhost:{self.port}", grpc.ssl_channel_credentials(root), options=arguments
            )
        self.channels.append(made)
        return made

    @property
    def bearer(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),)

    def stub(self, method: str, channel: grpc.aio.Channel | None = None) -> Any:
        """What calls a method with bytes, of the kind that the method is."""
        found, channel = METHODS[method], channel or self.channel()
        if found.client_streaming:
            return channel.stream_unary(found.path)
        return (channel.unary_stream if found.server_streaming else channel.unary_unary)(found.path)

    async def call(
        self, method: str = "Config", request: bytes = b"question", metadata: Any = None, **options: Any
    ) -> bytes:
        """Make a unary call, by default as bob, and return its answer."""
        shown = self.bearer if metadata is None else metadata
        return bytes(await self.stub(method)(request, metadata=shown, timeout=patience(20), **options))


@contextlib.asynccontextmanager
async def connect_listening(
    limits: ConnectLimits | None = None,
    logins: LoginLimits | None = None,
    *,
    tls: bool = False,
    doors: ConnectionLimits | None = None,
    siblings: Siblings | None = None,
) -> AsyncIterator[Listening]:
    here = Listening(limits, logins, doors, siblings)
    certificate = None
    if tls:
        certificate = connect_context_of(
            read_pair(Tls(certificate=TLS / "test-only-certificate.pem", key=TLS / "test-only-key.pem"))
        )
    here.port = await here.server.start("127.0.0.1", 0, ssl=certificate)
    try:
        yield here
    finally:
        for channel in here.channels:
            await channel.close()
        await here.server.close(within_s=5)
        await here.world.sessions.close()


def status_in(error: grpc.aio.AioRpcError) -> Any:
    """Return the `google.rpc.Status` of an error as PySpark reads it: code and message must be the call's."""
    from google.rpc.status_pb2 import Status

    (details,) = [value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin"]
    status = Status.FromString(details)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    return status


def info_in(error: grpc.aio.AioRpcError) -> Any:
    """Return its one ErrorInfo."""
    from google.rpc.error_details_pb2 import ErrorInfo

    (packed,) = status_in(error).details
    info = ErrorInfo()
    assert packed.Unpack(info)
    return info


__all__ = ["FakeConnect", "Listening", "connect_listening", "info_in", "pb", "status_in"]
