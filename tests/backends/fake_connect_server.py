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
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from gateway.model.spark_configuration import CALLERS, PARSER, PARSER_CLASSES, PROBE_TEXT
from gateway.wire.connect import METHODS, pb

ERROR_ID = "00000000-0000-4000-8000-0000000000e1"


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


@dataclass
class Configured:
    """How a Spark is configured, and how it tells when it is asked: as Spark 4.3 does without extensions."""

    server: FakeConnectServer
    version: str = "4.3.0"
    settings: dict[str, str] = field(
        default_factory=lambda: {"spark.app.id": "local-1", "spark.app.startTime": "1"}
    )
    parsers: list[str] = field(default_factory=lambda: [PARSER, *sorted(PARSER_CLASSES - {PARSER})])
    """The innermost first."""
    sessions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Session id → what was set in it."""
    process: int = 1
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server.answers |= {
            "Config": self._config,
            "AnalyzePlan": self._analyze,
            "FetchErrorDetails": self._details,
            "ReleaseSession": self._release,
        }

    def restart(self) -> None:
        """Another process in its place, which has no sessions."""
        self.process += 1
        self.settings["spark.app.id"] = f"local-{self.process}"
        self.sessions.clear()

    async def _open(self, message: Any, context: Any) -> str:
        """Return the server-side id of a session, which is made when it is not there."""
        mine = f"{message.session_id}@{self.process}"
        if message.client_observed_server_side_session_id not in ("", mine):
            await context.abort(
                grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid."
            )
        self.sessions.setdefault(message.session_id, {})
        return mine

    async def _config(self, request: bytes, context: Any) -> bytes:
        message = pb.ConfigRequest.FromString(request)
        answer = pb.ConfigResponse(server_side_session_id=await self._open(message, context))
        own = self.sessions[message.session_id]
        self.asked.append(f"Config.{message.operation.WhichOneof('op_type')}")
        own.update({pair.key: pair.value for pair in message.operation.set.pairs})
        for key in message.operation.unset.keys:
            own.pop(key, None)
        if message.operation.HasField("get_all"):
            for key, value in {**self.settings, **own}.items():
                answer.pairs.add(key=key, value=value)
        return bytes(answer.SerializeToString())

    async def _analyze(self, request: bytes, context: Any) -> bytes:
        message = pb.AnalyzePlanRequest.FromString(request)
        await self._open(message, context)
        if message.HasField("spark_version"):
            self.asked.append("version")
            answer = pb.AnalyzePlanResponse()
            answer.spark_version.version = self.version
            return bytes(answer.SerializeToString())
        self.asked.append(message.schema.plan.root.sql.query)
        assert self.asked[-1] == PROBE_TEXT
        info = ErrorInfo(reason="org.apache.spark.sql.catalyst.parser.ParseException")
        info.metadata["errorId"] = ERROR_ID
        status = Status(code=13, message="[PARSE_SYNTAX_ERROR]")
        status.details.add().Pack(info)
        details = (("grpc-status-details-bin", status.SerializeToString()),)
        await context.abort(grpc.StatusCode.INTERNAL, "[PARSE_SYNTAX_ERROR]", details)
        return b""

    async def _release(self, request: bytes, context: Any) -> bytes:
        message = pb.ReleaseSessionRequest.FromString(request)
        self.sessions.pop(message.session_id, None)
        return bytes(pb.ReleaseSessionResponse(session_id=message.session_id).SerializeToString())

    async def _details(self, request: bytes, context: Any) -> bytes:
        message = pb.FetchErrorDetailsRequest.FromString(request)
        await self._open(message, context)
        answer = pb.FetchErrorDetailsResponse()
        shown = self.settings | self.sessions[message.session_id]
        if message.error_id == ERROR_ID:
            answer.root_error_idx = 0
            error = answer.errors.add(message="[PARSE_SYNTAX_ERROR]")
            if shown.get("spark.sql.connect.serverStacktrace.enabled", "true") == "true":
                for name in [*self.parsers, *sorted(CALLERS)]:
                    error.stack_trace.add(declaring_class=name, method_name="parse")
        return bytes(answer.SerializeToString())


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
