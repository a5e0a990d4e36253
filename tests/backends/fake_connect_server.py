"""A Spark Connect server on a loopback port that answers as a test says and keeps what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pyarrow

from gateway.wire.connect import METHODS, pb


@dataclass
class FakeConnectServer:
    """Answers every method with `answers[name]`, a function of the request's bytes."""

    calls: list[tuple[str, bytes, dict[str, str]]] = field(default_factory=list)
    """Method, request, metadata."""
    answers: dict[str, Callable[[bytes, Any], Any]] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """A stream has ended, whichever way."""
    port: int = 0
    server: Any = None

    async def start(self, port: int = 0) -> None:
        self.server = grpc.aio.server(handlers=(_Handlers(self),), options=[("grpc.so_reuseport", 0)])
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")
        await self.server.start()

    async def stop(self) -> None:
        await self.server.stop(0)

    def requests(self, method: str) -> list[bytes]:
        return [request for name, request, _ in self.calls if name == method]

    async def serve(self, name: str, context: Any) -> None:
        method = METHODS[name]
        metadata = dict(context.invocation_metadata())
        try:
            if method.client_streaming:
                while (message := await context.read()) is not grpc.aio.EOF:
                    self.calls.append((name, message, metadata))
                await context.write(await self.answers[name](b"", context))
                return
            request = await context.read()
            self.calls.append((name, request, metadata))
            answer = self.answers[name](request, context)
            if method.server_streaming:
                async for response in answer:
                    await context.write(response)
            else:
                await context.write(await answer)
        finally:
            self.ended.set()


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, server: FakeConnectServer) -> None:
        self._server = server

    def service(self, handler_call_details: Any) -> Any:
        name = handler_call_details.method.rpartition("/")[2]

        async def call(_requests: Any, context: Any) -> None:
            await self._server.serve(name, context)

        return grpc.stream_stream_rpc_method_handler(call)


@contextlib.asynccontextmanager
async def spark_connect() -> AsyncIterator[FakeConnectServer]:
    server = FakeConnectServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def rows(**columns: list[Any]) -> bytes:
    """Return a serialized `ExecutePlanResponse` with a batch of rows."""
    batch = pyarrow.RecordBatch.from_pydict(columns)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    arrow = pb.ExecutePlanResponse.ArrowBatch(row_count=batch.num_rows, data=sink.getvalue().to_pybytes())
    return bytes(pb.ExecutePlanResponse(arrow_batch=arrow).SerializeToString())
