"""A relay of bytes that does nothing else: what any gateway in Python costs, measured in the same run.

`python -m tests.bench.bare_relay thrift|connect HOST PORT` listens on a free port of 127.0.0.1, prints it,
and passes on what comes: for HiveServer2 whatever arrives, for Spark Connect one call for each call. It reads
nothing, checks nobody and writes nothing down. So the difference between it and the gateway is what the
gateway does, and what is left is the price of a second hop with asyncio's sockets and gRPC's binding.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, cast

import grpc
import grpc.aio
import psutil

from tests.bench.processes import cpu_s

WRITE_BUFFER_BYTES = 1024 * 1024
"""As the gateway has it."""


class BareRelay:
    """A relay in a process of its own, from its start to the end of a `with`."""

    host = "127.0.0.1"

    def __init__(self, kind: str, host: str, port: int) -> None:
        """`kind`: thrift or connect; before the server at `host` and `port`."""
        command = (sys.executable, "-m", __spec__.name, kind, host, str(port))
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._seen = psutil.Process(self._process.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def cpu_s(self) -> float:
        """Return the seconds of CPU that it has used."""
        return cpu_s(self._seen)


class _Side(asyncio.Protocol):
    """One of a pair of connections: what it receives is written to the other."""

    def __init__(self, other: _Side | None = None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class _Client(_Side):
    """A client's connection; Spark is called when it is there."""

    def __init__(self, call: Callable[[_Client], Awaitable[None]]) -> None:
        super().__init__()
        self._call = call
        self.calling: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.calling = asyncio.ensure_future(self._call(self))


async def relay_thrift(host: str, port: int) -> None:
    loop = asyncio.get_running_loop()

    async def call(client: _Client) -> None:
        spark = _Side(client)
        await loop.create_connection(lambda: spark, host, port)
        client.other = spark
        assert spark.transport is not None
        spark.transport.write(b"".join(client.early))

    server = await loop.create_server(lambda: _Client(call), BareRelay.host, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class _Calls(grpc.GenericRpcHandler):  # type: ignore[misc]  # gRPC has no types
    """Makes Spark's call for each call of a client's, with one request, and passes the responses on."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        path = handler_call_details.method
        shown = tuple(
            (key, value) for key, value in handler_call_details.invocation_metadata if key == "authorization"
        )

        async def relay(request: bytes, context: Any) -> None:
            call = self._channel.unary_stream(path)(request, metadata=shown)
            try:
                async for response in call:
                    await context.write(response)
            except grpc.aio.AioRpcError as error:
                await context.abort(error.code(), error.details(), error.trailing_metadata())

        async def answer(request: bytes, context: Any) -> bytes:
            return cast(bytes, await self._channel.unary_unary(path)(request, metadata=shown))

        if path.endswith("/ReleaseExecute"):
            return grpc.unary_unary_rpc_method_handler(answer)
        return grpc.unary_stream_rpc_method_handler(relay)


async def relay_connect(host: str, port: int) -> None:
    unbounded = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    channel = grpc.aio.insecure_channel(f"{host}:{port}", options=unbounded)
    server = grpc.aio.server(handlers=(_Calls(channel),), options=unbounded)
    print(server.add_insecure_port(f"{BareRelay.host}:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    _, kind, host, port = sys.argv
    asyncio.run({"thrift": relay_thrift, "connect": relay_connect}[kind](host, int(port)))
