"""A frontend on a loopback port over the session room's fakes, and a raw client to be rude with."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import argon2

from gateway.frontends.authentication import Authenticator
from gateway.frontends.connection_limits import ConnectionLimiter, ConnectionLimits
from gateway.frontends.guessing import FailedLogins, LoginLimits
from gateway.frontends.login_chain import LoginChain, LoginMechanism
from gateway.frontends.login_mechanisms import PasswordLogins, TokenLogins
from gateway.frontends.thrift_binary import ThriftBinaryServer, ThriftLimits
from gateway.frontends.thrift_service import ThriftService
from gateway.frontends.users import User, Users
from gateway.model.principal import Principal
from gateway.session.limits import SessionLimits
from gateway.session.ports import Backend, FrameSink, RelayedFrame
from gateway.wire import calls
from gateway.wire.frames import frame
from gateway.wire.messages import decode_reply, encode_call, encode_reply
from gateway.wire.rows import ColumnSpec, encode_rows, table_schema
from gateway.wire.sasl import Status, step
from gateway.wire.tcli import TOperationHandle, TSessionHandle, TStatus, TTypeId
from gateway.wire.thrift import Struct
from tests.session.fakes import World
from tests.speed import patience

CHEAP = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""A hash of microseconds: what is tested is not argon2."""

SCHEMA = table_schema([ColumnSpec("id", TTypeId.INT), ColumnSpec("name", TTypeId.STRING)], first_position=0)

R = TypeVar("R", bound=Struct)

OPEN: list[RawClient] = []
"""Clients of the running test; `listening` closes them at its end."""


def user(name: str, password: str, *groups: str) -> User:
    return User(principal=Principal(user=name, groups=frozenset(groups)), password_hash=CHEAP.hash(password))


def chain_of(
    users: Callable[[], Users],
    *more: LoginMechanism,
    clock: Callable[[], float] = time.monotonic,
    remember_s: float = 60.0,
) -> LoginChain:
    """The ways to log in of a user file, and more."""
    alone = not any("PLAIN" in one.kinds for one in more)
    passwords = PasswordLogins(users, alone=alone, remember_s=remember_s)
    return LoginChain(users, [TokenLogins(users), passwords, *more], clock=clock)


class Gateway:
    """A running frontend; `world` has the fakes behind it."""

    def __init__(
        self,
        world: World,
        limits: ThriftLimits | None = None,
        logins: LoginLimits | None = None,
        doors: ConnectionLimits | None = None,
        remember_s: float = 60.0,
        mechanisms: Sequence[LoginMechanism] = (),
    ) -> None:
        self.world = world
        self.users = {"bob": user("bob", "secret", "analysts"), "alice": user("alice", "wonder")}
        self.now = 1000.0
        self.chain = chain_of(lambda: self.users, *mechanisms, clock=lambda: self.now, remember_s=remember_s)
        self.authenticator = Authenticator(
            self.chain,
            recorder=world.sessions.recorder,
            metrics=world.sessions.metrics,
            guesses=FailedLogins(logins, clock=lambda: self.now),
            clock=lambda: self.now,
        )
        service = ThriftService(
            world.sessions, spark_version="4.3.0", keywords=("ADD", "ZONE"), max_statement_chars=2_000_000
        )
        self.server = ThriftBinaryServer(
            service,
            self.authenticator,
            door=ConnectionLimiter("thrift", doors),
            metrics=world.sessions.metrics,
            limits=limits,
        )
        self.port = 0
        world.backend.relay_rows = self._relay

    async def _relay(self, rows: Sequence[Sequence[Any]], seqid: int, sink: FrameSink) -> RelayedFrame:
        batch = encode_rows([row if len(row) == 2 else (row[0], None) for row in rows], [3, 7], 5)
        reply = calls.TFetchResultsResp(status=TStatus(statusCode=0), hasMoreRows=False, results=batch)
        data = frame(encode_reply("FetchResults", seqid, reply))
        sink.write(data)
        await sink.drain()
        return RelayedFrame(bytes=len(data), rows=len(rows), status=0)


@contextlib.asynccontextmanager
async def listening(
    limits: ThriftLimits | None = None,
    logins: LoginLimits | None = None,
    sessions: SessionLimits | None = None,
    ssl: Any = None,
    backend: Backend | None = None,
    doors: ConnectionLimits | None = None,
    mechanisms: Sequence[LoginMechanism] = (),
) -> AsyncIterator[Gateway]:
    world = World(sessions, backend)
    gateway = Gateway(world, limits, logins, doors, mechanisms=mechanisms)
    gateway.port = await gateway.server.start("127.0.0.1", 0, ssl=ssl)
    try:
        yield gateway
    finally:
        while OPEN:
            await OPEN.pop().close()
        await gateway.server.close(within_s=5)
        await world.sessions.close()


class RawClient:
    """Speaks the protocol byte by byte, as badly as a test wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.seqid = 0

    @classmethod
    async def connect(cls, port: int) -> RawClient:
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        OPEN.append(client)
        return client

    @classmethod
    async def logged_in(cls, port: int, user: str = "bob", password: str = "secret") -> RawClient:
        client = await cls.connect(port)
        assert await client.log_in(user, password) == (Status.COMPLETE, b"")
        return client

    async def log_in(
        self, user: str, password: str, *, authzid: str = "", last: Status = Status.OK
    ) -> tuple[int, bytes]:
        self.writer.write(
            step(Status.START, b"PLAIN") + step(last, f"{authzid}\0{user}\0{password}".encode())
        )
        return await self.sasl_answer()

    async def sasl_answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(patience()):
            status, length = struct.unpack(">BI", await self.reader.readexactly(5))
            return status, await self.reader.readexactly(length)

    async def message(self) -> bytes:
        async with asyncio.timeout(patience()):
            (length,) = struct.unpack(">I", await self.reader.readexactly(4))
            return await self.reader.readexactly(length)

    def send(self, method: str, request: Struct) -> None:
        self.seqid += 1
        self.writer.write(frame(encode_call(method, self.seqid, request)))

    async def call(self, method: str, request: Struct, response: type[R]) -> R:
        self.send(method, request)
        return decode_reply(await self.message(), response)

    async def open_session(self, **more: Any) -> TSessionHandle:
        request = calls.TOpenSessionReq(**more)
        reply = await self.call("OpenSession", request, calls.TOpenSessionResp)
        assert reply.status.statusCode == 0, reply.status.errorMessage
        assert reply.sessionHandle is not None
        return reply.sessionHandle

    async def execute(
        self, session: TSessionHandle, text: str, *, run_async: bool = False
    ) -> TOperationHandle:
        request = calls.TExecuteStatementReq(sessionHandle=session, statement=text, runAsync=run_async)
        reply = await self.call("ExecuteStatement", request, calls.TExecuteStatementResp)
        assert reply.status.statusCode == 0, reply.status.errorMessage
        assert reply.operationHandle is not None
        return reply.operationHandle

    async def is_closed(self) -> bool:
        """Wait for the server's end of the connection."""
        async with asyncio.timeout(patience()):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                pass
            return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()
