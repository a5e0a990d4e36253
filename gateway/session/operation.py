"""A session of a Thrift client, and each of its statements and metadata calls, from the verdict to the one
closing event."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import InvalidHandle, InvalidRequest
from gateway.model.principal import Principal
from gateway.model.statement import Client, SessionContext
from gateway.session.endpoint import EndpointOperation, EndpointSession
from gateway.session.identifiers import Handle
from gateway.session.ports import BackendOperation, BackendSession
from gateway.session.slots import Slot
from gateway.session.states import Event, State

PENDING, RUNNING, FINISHED, CANCELED, CLOSED, ERROR, TIMEDOUT = 7, 1, 2, 3, 4, 5, 8
"""TOperationState."""

NUMBERS: Mapping[State, int] = {
    State.DECIDED: PENDING,
    State.QUEUED: PENDING,
    State.FORWARDED: PENDING,
    State.RUNNING: RUNNING,
    State.FINISHED: FINISHED,
    State.FAILED: ERROR,
    State.CANCELED: CANCELED,
    State.CLOSED: CLOSED,
    State.TIMED_OUT: TIMEDOUT,
    State.NOT_FORWARDED: ERROR,
}
"""The states as clients are told of them."""
ENDS: Mapping[int, Event] = {
    FINISHED: Event.FINISH,
    CANCELED: Event.CANCEL,
    CLOSED: Event.CLOSE,
    ERROR: Event.FAIL,
    TIMEDOUT: Event.TIME_OUT,
}
"""What has happened when Spark says that an operation is in one of these states."""
ENDINGS = {
    CANCELED: ("the statement was canceled", "HY008"),
    CLOSED: ("the statement was closed", "HY008"),
    TIMEDOUT: ("the statement timed out", "HYT00"),
}
"""Message and SQLSTATE of the ends that are no errors of Spark's."""

EXECUTE_STATEMENT = 0
"""TOperationType of a statement."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """A column of a metadata answer; `type` is `string`, `int`, `smallint`, `tinyint` or `boolean`."""

    name: str
    type: str
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows that the gateway serves itself, and what it takes to write them down for the client."""

    offset: int
    rows: Sequence[Sequence[Any]]
    schema: Any
    """Spark's own TTableSchema or a tuple of ResultColumn."""
    protocol_version: int


class LocalRows:
    """A result that the gateway holds: a metadata answer, or an answer of Spark that was filtered.

    `schema` is Spark's own TTableSchema or a tuple of ResultColumn.
    """

    __slots__ = ("_next", "_start", "rows", "schema")

    def __init__(self, rows: Sequence[Sequence[Any]], schema: Any) -> None:
        self.rows = rows
        self.schema = schema
        self._next = 0
        self._start = 0

    def fetch(self, orientation: int, max_rows: int, protocol_version: int) -> Batch:
        """Return the next batch. Raises InvalidRequest for an orientation that Spark does not know."""
        match orientation:
            case 0:
                start = self._next
            case 1:
                start = max(0, self._start - max_rows)
            case 4:
                start = 0
            case _:
                raise InvalidRequest(
                    f"fetch orientation {orientation} is not supported; use FETCH_NEXT or FETCH_FIRST"
                )
        batch = self.rows[start : start + max_rows]
        self._start, self._next = start, start + len(batch)
        return Batch(start, batch, self.schema, protocol_version)


LOG_SCHEMA = (ResultColumn("operation_log", "string"),)


class ThriftOperation(EndpointOperation):
    session: Session

    def __init__(self, session: Session, handle: Handle, statement_id: str, kind: int) -> None:
        super().__init__(session, statement_id)
        self.handle = handle
        self.tended = False
        """Whether the gateway has done its part of it already, and Spark had no room then."""
        self.kind = kind
        self.upstream: BackendOperation | None = None
        self.answer: LocalRows | None = None
        self.has_result_set = True
        self.sparks_state = RUNNING
        """TOperationState of one that Spark has taken, as it says."""
        self.closed = False
        self.lock = asyncio.Lock()
        self.arrived = 0.0
        """The loop's time at which it began to wait for Spark."""
        self.taking: asyncio.Task[None] | None = None
        """Waits for that and hands it to Spark."""
        self.moved = asyncio.Event()
        """That task has ended."""
        self.unwanted = False
        """It was canceled before Spark had it."""
        self.log: LocalRows | None = None
        """What its client may read of what it waited for."""

    @property
    def state(self) -> int:
        """TOperationState, as its client is told of it."""
        return self.sparks_state if self.life.state is State.RUNNING else NUMBERS[self.life.state]

    @property
    def state_for_client(self) -> int:
        """The same; of one that a limit has ended, clients show the error only as one that failed."""
        return ERROR if self.over is not None and self.life.state is State.CANCELED else self.state

    @property
    def terminal(self) -> bool:
        return self.life.ended

    @property
    def queued(self) -> bool:
        """Whether it waits until Spark has room for it."""
        return self.life.state is State.QUEUED

    @property
    def running(self) -> bool:
        """Whether Spark may still be working on it."""
        return not self.terminal and not self.closed

    @property
    def not_with_spark_yet(self) -> bool:
        """Whether it waits, or has waited, for Spark, and has neither reached it nor ended."""
        return self.taking is not None and self.upstream is None and self.running and not self.moved.is_set()

    @property
    def let_go(self) -> bool:
        """Whether its client has closed or canceled it before Spark had it."""
        return self.closed or self.unwanted

    @property
    def backend_id(self) -> str:
        return self.upstream.id if self.upstream is not None else ""


class Session(EndpointSession[bytes, ThriftOperation]):
    """A session of a Thrift client."""

    LET_GO = "close some of them first"

    def __init__(
        self,
        *,
        handle: Handle,
        principal: Principal,
        client: Client,
        protocol_version: int,
        backend: BackendSession,
        opened: float,
        context: SessionContext,
    ) -> None:
        super().__init__(str(handle), principal, client, context, opened)
        self.handle = handle
        self.protocol_version = protocol_version
        self.backend = backend
        self.slot: Slot | None = None
        """What whoever has the lock may give Spark a statement by."""
        self.stopping: dict[bytes, float] = {}
        """Statements with effects that were stopped half-way, and the loop's time until which Spark may still
        look up their names."""

    @property
    def busy(self) -> bool:
        return self.lock.locked() or any(operation.running for operation in self.operations.values())

    def require_open(self) -> None:
        """Raise InvalidHandle, in Spark's words, when the session is closed."""
        if self.closed:
            raise InvalidHandle(f"Invalid SessionHandle: SessionHandle [{self.handle}]")
