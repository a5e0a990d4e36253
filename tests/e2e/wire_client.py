"""A blocking HiveServer2 client that hides nothing: one call, one reply, every field as it came."""

from __future__ import annotations

import base64
import http.client
import socket
import struct
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from gateway.wire import calls, messages
from gateway.wire.frames import frame
from gateway.wire.rows import Cell, decode_rows
from gateway.wire.sasl import PlainClient
from gateway.wire.tcli import (
    TFetchOrientation,
    TOperationHandle,
    TOperationState,
    TProtocolVersion,
    TSessionHandle,
    TStatus,
    TStatusCode,
    TTableSchema,
)
from gateway.wire.thrift import Struct
from tests.speed import patience

TERMINAL = frozenset(
    {TOperationState.FINISHED, TOperationState.CANCELED, TOperationState.CLOSED}
    | {TOperationState.ERROR, TOperationState.TIMEDOUT}
)


class StatusError(Exception):
    """A reply whose status is not success."""

    def __init__(self, status: TStatus) -> None:
        super().__init__(status.errorMessage)
        self.status = status


@dataclass(frozen=True)
class Result:
    """A whole result: its columns as the server describes them, and its rows."""

    schema: TTableSchema
    rows: list[tuple[Cell, ...]]


class WireClient:
    """One connection, logged in. Raises OSError when the peer goes away, StatusError when it refuses."""

    def __init__(
        self, host: str, port: int, user: str, password: str = "anonymous", *, quiet_s: float = 300
    ) -> None:
        self._seqid = 0
        self._socket = socket.create_connection((host, port), patience(quiet_s))
        try:
            sasl = PlainClient(user, password)
            self._socket.sendall(sasl.start())
            # The answer is 5 bytes; nothing follows it before the first call.
            while not sasl.receive(self._some(5)):
                pass
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # -- calls -----------------------------------------------------------------------------------------------

    def ask(self, method: str, request: Struct) -> Any:
        """Call and return the reply whatever its status. Raises CallFailed for a Thrift exception."""
        self.send(method, request)
        return self.receive(method)

    def call(self, method: str, request: Struct) -> Any:
        """Call and return the reply. Raises StatusError unless it succeeded."""
        reply = self.ask(method, request)
        if reply.status.statusCode not in (TStatusCode.SUCCESS, TStatusCode.SUCCESS_WITH_INFO):
            raise StatusError(reply.status)
        return reply

    def send(self, method: str, request: Struct) -> None:
        self._seqid += 1
        self._socket.sendall(frame(messages.encode_call(method, self._seqid, request)))

    def receive(self, method: str) -> Any:
        """Return the next reply, which must be to `method`."""
        (length,) = struct.unpack(">I", self._exactly(4))
        return messages.decode_reply(self._exactly(length), calls.METHODS[method][1])

    def _exactly(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            data += self._some(length - len(data))
        return bytes(data)

    def _some(self, limit: int) -> bytes:
        chunk = self._socket.recv(min(limit, 1 << 18))
        if not chunk:
            raise ConnectionResetError("the peer closed the connection")
        return chunk

    # -- the calls by name -----------------------------------------------------------------------------------

    def open_session(
        self, protocol: int = TProtocolVersion.V10, configuration: dict[str, str] | None = None
    ) -> TSessionHandle:
        request = calls.TOpenSessionReq(client_protocol=protocol, configuration=configuration)
        reply = self.call("OpenSession", request)
        assert reply.serverProtocolVersion == protocol
        handle: TSessionHandle = reply.sessionHandle
        return handle

    def execute(
        self,
        session: TSessionHandle,
        statement: str,
        *,
        run_async: bool = False,
        timeout_s: int | None = None,
    ) -> TOperationHandle:
        request = calls.TExecuteStatementReq(
            sessionHandle=session, statement=statement, runAsync=run_async, queryTimeout=timeout_s
        )
        handle: TOperationHandle = self.call("ExecuteStatement", request).operationHandle
        return handle

    def status(self, operation: TOperationHandle) -> calls.TGetOperationStatusResp:
        request = calls.TGetOperationStatusReq(operationHandle=operation)
        reply: calls.TGetOperationStatusResp = self.call("GetOperationStatus", request)
        return reply

    def ended(self, operation: TOperationHandle, quiet_s: float = 900) -> calls.TGetOperationStatusResp:
        """Poll until the operation has ended, and return its last status."""
        deadline = time.monotonic() + patience(quiet_s)
        while (status := self.status(operation)).operationState not in TERMINAL:
            assert time.monotonic() < deadline, f"still in state {status.operationState}"
        return status

    def schema(self, operation: TOperationHandle) -> TTableSchema:
        request = calls.TGetResultSetMetadataReq(operationHandle=operation)
        schema: TTableSchema = self.call("GetResultSetMetadata", request).schema
        return schema

    def fetch(
        self,
        operation: TOperationHandle,
        max_rows: int = 1000,
        orientation: int = TFetchOrientation.NEXT,
        fetch_type: int | None = None,
    ) -> calls.TFetchResultsResp:
        request = calls.TFetchResultsReq(
            operationHandle=operation, maxRows=max_rows, orientation=orientation, fetchType=fetch_type
        )
        reply: calls.TFetchResultsResp = self.call("FetchResults", request)
        return reply

    def rows(self, operation: TOperationHandle, max_rows: int = 1000) -> list[tuple[Cell, ...]]:
        """Return the next batch; none at the end."""
        results = self.fetch(operation, max_rows).results
        assert results is not None
        return decode_rows(results)

    def cancel(self, operation: TOperationHandle) -> None:
        self.call("CancelOperation", calls.TCancelOperationReq(operationHandle=operation))

    def close_session(self, session: TSessionHandle) -> None:
        self.call("CloseSession", calls.TCloseSessionReq(sessionHandle=session))

    def close_operation(self, operation: TOperationHandle) -> None:
        self.call("CloseOperation", calls.TCloseOperationReq(operationHandle=operation))

    def result(self, session: TSessionHandle, statement: str, max_rows: int = 1000) -> Result:
        """Run a statement to its end and return everything that it gave."""
        operation = self.execute(session, statement)
        schema = self.schema(operation)
        rows: list[tuple[Cell, ...]] = []
        while batch := self.rows(operation, max_rows):
            rows += batch
        self.close_operation(operation)
        return Result(schema, rows)


class HttpWireClient(WireClient):
    """The same over HiveServer2's HTTP transport. Raises PermissionError where it is not let in."""

    def __init__(
        self, host: str, port: int, user: str, password: str, *, by_cookie: bool = False, quiet_s: float = 300
    ) -> None:
        """`by_cookie`: it shows the cookie of its first answer, and its password no more."""
        self._seqid = 0
        self._http = http.client.HTTPConnection(host, port, timeout=patience(quiet_s))
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._shown = {"Authorization": f"Basic {login}"}
        self._by_cookie = by_cookie

    def close(self) -> None:
        self._http.close()

    def send(self, method: str, request: Struct) -> None:
        self._seqid += 1
        body = messages.encode_call(method, self._seqid, request)
        self._http.request("POST", "/cliservice", body, self._shown)

    def receive(self, method: str) -> Any:
        answer = self._http.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            raise PermissionError(f"{answer.status}: {body.decode()}")
        cookie = answer.getheader("Set-Cookie", "").partition(";")[0]
        if self._by_cookie and cookie:
            self._shown = {"Cookie": cookie}
        return messages.decode_reply(body, calls.METHODS[method][1])
