"""Two clients, one for each endpoint, that run a statement and keep all that comes back."""

from __future__ import annotations

import importlib
import re
import zlib
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import grpc
import pyarrow
import pyarrow.ipc
from google.rpc import error_details_pb2, status_pb2

from gateway.wire import calls
from gateway.wire.tcli import TOperationHandle, TSessionHandle
from gateway.wire.thrift import Struct
from tests.e2e.connect.attacker import Answer as RawAnswer
from tests.e2e.connect.attacker import RawClient
from tests.e2e.wire_client import StatusError, WireClient

proto: Any = importlib.import_module("pyspark.sql.connect.proto")

Kind = Literal["answered", "refused", "failed", "unparsed"]
"""By rows; by Sluice; by Spark; by Spark's parser, or because the bytes are no message."""
TIMEOUT_S = 120
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_QUERY = re.compile(r"\s*(?:/\*.*?\*/\s*|--[^\n]*\n\s*)*[(\s]*(SELECT|WITH|FROM|TABLE|VALUES)\b", re.I | re.S)
_UNPARSED = (
    "PARSE_",
    "INVALID_IDENTIFIER",
    "INVALID_STATEMENT_OR_CLAUSE",
    "UNCLOSED_",
    "UNSUPPORTED_FEATURE.SQL_CURSOR",
)
"""Conditions of Spark's parser, which the gateway asks first."""


@dataclass(frozen=True)
class Outcome:
    """What came of one statement."""

    kind: Kind
    columns: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    condition: str = ""
    """The class of the error."""
    message: str = ""

    @property
    def shown(self) -> str:
        return "\n".join((*self.columns, *self.rows, self.message))


def failure(message: str) -> Outcome:
    found = _CONDITION.search(message)
    condition = found[1] if found else ""
    kind: Kind = "failed"
    if condition.startswith("SLUICE_"):
        kind = "refused"
    elif condition.startswith(_UNPARSED):
        kind = "unparsed"
    return Outcome(kind, condition=condition, message=message)


def is_query(statement: str) -> bool:
    """Whether it gives rows of tables: those are what is compared."""
    return _QUERY.match(statement) is not None


class Endpoint(Protocol):
    """A session at one endpoint, of the gateway or of Spark itself."""

    def run(self, statement: str) -> Outcome: ...

    def take(self) -> list[bytes]:
        """Return what came over the wire since the last time."""
        ...

    def close(self) -> None: ...


class _Recording(WireClient):
    """Keeps every byte that comes."""

    def __init__(self, host: str, port: int, user: str, password: str) -> None:
        self.seen: list[bytes] = []
        super().__init__(host, port, user, password, quiet_s=TIMEOUT_S)

    def _some(self, limit: int) -> bytes:
        chunk = super()._some(limit)
        self.seen.append(chunk)
        return chunk


class ThriftSession:
    """One HiveServer2 session."""

    def __init__(self, host: str, port: int, user: str, password: str) -> None:
        self.client = _Recording(host, port, user, password)
        self.handle: TSessionHandle = self.client.open_session()

    def run(self, statement: str) -> Outcome:
        request = calls.TExecuteStatementReq(sessionHandle=self.handle, statement=statement)
        return self.call("ExecuteStatement", request)

    def call(self, method: str, request: Struct) -> Outcome:
        """Make a call that begins an operation, and read the operation to its end, its logs as well."""
        operation: TOperationHandle | None = None
        try:
            reply = self.client.call(method, request)
            operation = getattr(reply, "operationHandle", None)
            if operation is None:
                return Outcome("answered", rows=(repr(reply),))
            status = self.client.status(operation)
            if status.errorMessage:
                return failure(status.errorMessage)
            columns: tuple[str, ...] = ()
            rows: list[str] = []
            if operation.hasResultSet:
                columns = tuple(
                    f"{c.columnName} {c.typeDesc.types[0]!r}" for c in self.client.schema(operation).columns
                )
                while batch := self.client.rows(operation, 10_000):
                    rows += map(repr, batch)
            self.client.ask(
                "FetchResults",
                calls.TFetchResultsReq(operationHandle=operation, maxRows=1000, orientation=0, fetchType=1),
            )
            return Outcome("answered", columns, tuple(rows))
        except StatusError as error:
            return failure(error.status.errorMessage or repr(error.status))
        finally:
            if operation is not None:
                self.client.close_operation(operation)

    def take(self) -> list[bytes]:
        # As one piece: what comes over the wire is cut anywhere.
        taken = b"".join(self.client.seen)
        self.client.seen.clear()
        return [taken]

    def close(self) -> None:
        self.client.close()


@dataclass
class ConnectSession:
    """One Spark Connect session. Texts go as PySpark sends them, or as the relation within a plan."""

    client: RawClient
    user: str = ""
    """Who a direct connection says it is; the gateway takes who logged in."""
    notes: list[str] = field(default_factory=list)

    def run(self, statement: str) -> Outcome:
        relation = proto.Relation()
        relation.sql.query = statement
        if zlib.crc32(statement.encode()) % 2:
            return self.execute(proto.Plan(root=relation))
        command = proto.Plan()
        command.command.sql_command.input.CopyFrom(relation)
        answer = self.client.execute(command, **self._user())
        if answer.code is not grpc.StatusCode.OK:
            return self._failed(answer)
        for message in answer.messages:
            response = proto.ExecutePlanResponse.FromString(message)
            if response.HasField("sql_command_result"):
                return self.execute(proto.Plan(root=response.sql_command_result.relation))
        return Outcome("answered")

    def execute(self, plan: Any) -> Outcome:
        """Execute a plan, or the bytes of an ExecutePlanRequest."""
        request = plan if isinstance(plan, bytes) else self.client.execution(plan, **self._user())
        answer = self.client.call("ExecutePlan", request, TIMEOUT_S)
        if answer.code is not grpc.StatusCode.OK:
            return self._failed(answer)
        columns: tuple[str, ...] = ()
        rows: list[str] = []
        others: list[str] = []
        for message in answer.messages:
            response = proto.ExecutePlanResponse.FromString(message)
            if not response.HasField("arrow_batch"):
                others.append(str(response))
                continue
            table = pyarrow.ipc.open_stream(response.arrow_batch.data).read_all()
            # What a mask shows within a structure may be known to be there; that is not compared.
            columns = tuple(f"{c.name} {c.type}".replace(" not null", "") for c in table.schema)
            if table.num_columns:
                rows += map(repr, zip(*map(_cells, table.columns), strict=True))
            else:
                rows += ["()"] * table.num_rows
        self.notes += others
        return Outcome("answered", columns, tuple(rows))

    def analyze(self, request: Any) -> Outcome:
        """Make an AnalyzePlan call."""
        request.session_id = self.client.session_id
        answer = self.client.call("AnalyzePlan", request, TIMEOUT_S)
        if answer.code is not grpc.StatusCode.OK:
            return self._failed(answer)
        response = proto.AnalyzePlanResponse.FromString(answer.messages[0])
        response.ClearField("session_id")
        response.ClearField("server_side_session_id")
        return Outcome("answered", rows=(str(response),))

    def _failed(self, answer: RawAnswer) -> Outcome:
        """Ask for an error's details, as PySpark does, and return what it is."""
        for key, value in answer.trailers:
            if key == "grpc-status-details-bin":
                status = status_pb2.Status.FromString(value)
                for detail in status.details:
                    info = error_details_pb2.ErrorInfo()
                    if detail.Unpack(info) and info.metadata.get("errorId"):
                        request = proto.FetchErrorDetailsRequest(
                            session_id=self.client.session_id, error_id=info.metadata["errorId"]
                        )
                        if self.user:
                            request.user_context.user_id = self.user
                        self.client.call("FetchErrorDetails", request)
        outcome = failure(answer.details)
        if answer.code is grpc.StatusCode.INVALID_ARGUMENT and not outcome.condition:
            return Outcome("unparsed", message=answer.details)
        return outcome

    def _user(self) -> dict[str, str]:
        return {"user_id": self.user} if self.user else {}

    def take(self) -> list[bytes]:
        taken, self.client.seen[:] = list(self.client.seen), []
        self.notes.clear()
        return taken

    def close(self) -> None:
        request = proto.ReleaseSessionRequest(session_id=self.client.session_id)
        if self.user:
            request.user_context.user_id = self.user
        self.client.call("ReleaseSession", request)
        self.client.channel.close()


def _cells(column: Any) -> list[Any]:
    """Return a column's values; days and instants beyond those of Python as numbers."""
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        return list(
            column.cast(pyarrow.int32() if column.type == pyarrow.date32() else pyarrow.int64()).to_pylist()
        )
