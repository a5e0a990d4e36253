"""A blocking HiveServer2 client that does nothing beside the protocol, so that its own time hardly counts."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from gateway.wire import calls
from gateway.wire.frames import frame
from gateway.wire.messages import decode_reply, encode_call
from gateway.wire.peek import peek_fetch_reply
from gateway.wire.sasl import PlainClient
from gateway.wire.tcli import (
    TFetchOrientation,
    TOperationHandle,
    TOperationState,
    TProtocolVersion,
    TStatusCode,
)
from gateway.wire.thrift import Struct

R = TypeVar("R", bound=Struct)
T = TypeVar("T")

PEEK_BYTES = 512


@dataclass(frozen=True, slots=True)
class Server:
    """Where somebody may log in: Spark itself, or a gateway before it."""

    host: str
    port: int
    user: str
    password: str = "anonymous"


class Laps(dict[str, float]):
    """Seconds of each call of one statement."""

    def timed(self, name: str, call: Callable[[], T]) -> T:
        began = time.perf_counter()
        answer = call()
        self[name] = time.perf_counter() - began
        return answer

    @property
    def total_s(self) -> float:
        return sum(self.values())


class RawClient:
    """One connection with one session."""

    def __init__(self, server: Server, *, receive_buffer_bytes: int = 0, timeout_s: float = 300.0) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self._buffer = bytearray(1 << 20)
        self._seqid = 0
        try:
            self.socket.connect((server.host, server.port))
            reply = self.log_in(server)
        except BaseException:
            self.socket.close()
            raise
        assert reply.sessionHandle is not None
        self.session = reply.sessionHandle

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def log_in(self, server: Server) -> calls.TOpenSessionResp:
        """Log in and open the session."""
        login = PlainClient(server.user, server.password)
        self.socket.sendall(login.start())
        while not login.receive(self._some()):
            pass
        return self.call(
            "OpenSession",
            calls.TOpenSessionReq(client_protocol=TProtocolVersion.V10, configuration={}),
            calls.TOpenSessionResp,
        )

    # -- calls -----------------------------------------------------------------------------------------------

    def call(self, method: str, request: Struct, response: type[R]) -> R:
        """Make a call and decode its reply; anything but success fails."""
        self.send(method, request)
        reply: Any = decode_reply(bytes(self._frame()), response)
        assert reply.status.statusCode in (TStatusCode.SUCCESS, TStatusCode.SUCCESS_WITH_INFO), (
            reply.status.errorMessage
        )
        answer: R = reply
        return answer

    def send(self, method: str, request: Struct) -> None:
        self._seqid += 1
        self.socket.sendall(frame(encode_call(method, self._seqid, request)))

    def execute(self, text: str, *, run_async: bool = False) -> TOperationHandle:
        """Start a statement; return when it has ended, or with `run_async` at once."""
        reply = self.call(
            "ExecuteStatement",
            calls.TExecuteStatementReq(sessionHandle=self.session, statement=text, runAsync=run_async),
            calls.TExecuteStatementResp,
        )
        assert reply.operationHandle is not None
        return reply.operationHandle

    def state(self, operation: TOperationHandle) -> int | None:
        """Ask once how a statement stands."""
        return self._status(operation).operationState

    def _status(self, operation: TOperationHandle) -> calls.TGetOperationStatusResp:
        return self.call(
            "GetOperationStatus",
            calls.TGetOperationStatusReq(operationHandle=operation),
            calls.TGetOperationStatusResp,
        )

    def until_finished(self, operation: TOperationHandle) -> None:
        while True:
            reply = self._status(operation)
            if reply.operationState == TOperationState.FINISHED:
                return
            assert reply.operationState in (TOperationState.PENDING, TOperationState.RUNNING), (
                reply.errorMessage
            )

    def columns(self, operation: TOperationHandle) -> list[str]:
        reply = self.call(
            "GetResultSetMetadata",
            calls.TGetResultSetMetadataReq(operationHandle=operation),
            calls.TGetResultSetMetadataResp,
        )
        return [] if reply.schema is None else [column.columnName for column in reply.schema.columns]

    def send_fetch(self, operation: TOperationHandle, max_rows: int, *, first: bool = False) -> None:
        orientation = TFetchOrientation.FIRST if first else TFetchOrientation.NEXT
        self.send(
            "FetchResults",
            calls.TFetchResultsReq(
                operationHandle=operation, orientation=orientation, maxRows=max_rows, fetchType=0
            ),
        )

    def fetch(self, operation: TOperationHandle, max_rows: int, *, first: bool = False) -> tuple[int, int]:
        """Fetch a batch undecoded; return its rows and its bytes."""
        self.send_fetch(operation, max_rows, first=first)
        message = self._frame()
        peek = peek_fetch_reply(bytes(message[:PEEK_BYTES]))
        assert peek is not None
        assert peek.succeeded
        return peek.rows, len(message) + 4

    def close(self, operation: TOperationHandle) -> None:
        self.call(
            "CloseOperation",
            calls.TCloseOperationReq(operationHandle=operation),
            calls.TCloseOperationResp,
        )

    # -- whole statements ------------------------------------------------------------------------------------

    def in_four_calls(self, text: str) -> Laps:
        """Run a statement of one batch as PyHive does."""
        laps = Laps()
        operation = laps.timed("execute", lambda: self.execute(text))
        laps.timed("metadata", lambda: self.columns(operation))
        laps.timed("fetch", lambda: self.fetch(operation, 1000))
        laps.timed("close", lambda: self.close(operation))
        return laps

    def in_five_calls(self, text: str) -> Laps:
        """Run a statement of one batch as Hive's JDBC driver does."""
        laps = Laps()
        operation = laps.timed("execute", lambda: self.execute(text, run_async=True))
        laps.timed("status", lambda: self.until_finished(operation))
        laps.timed("metadata", lambda: self.columns(operation))
        laps.timed("fetch", lambda: self.fetch(operation, 1000))
        laps.timed("close", lambda: self.close(operation))
        return laps

    # -- bytes -----------------------------------------------------------------------------------------------

    def _some(self) -> bytes:
        data = self.socket.recv(4096)
        assert data, "the server closed the connection"
        return data

    def _frame(self) -> memoryview:
        (length,) = struct.unpack(">I", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, size: int) -> memoryview:
        """Return so many bytes; they are valid until the next call."""
        if len(self._buffer) < size:
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        at = 0
        while at < size:
            received = self.socket.recv_into(view[at:], size - at)
            assert received, "the server closed the connection"
            at += received
        return view
