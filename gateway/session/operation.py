"""A session of a Thrift client, and each of its statements and metadata calls, from the verdict to the one
closing event."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import InvalidRequest, SluiceError
from gateway.model.meaning_settings import may_change_meaning
from gateway.model.principal import Principal
from gateway.model.statement import (
    ChangeSetting,
    Cleared,
    Client,
    CreateTempView,
    DropFunction,
    DropTempView,
    ResetSettings,
    SessionContext,
    SessionEffect,
    UseNamespace,
)
from gateway.session.identifiers import Handle
from gateway.session.locks import NO_LOCKS
from gateway.session.ports import BackendOperation, BackendSession
from gateway.session.session import Basis, NameResolution
from gateway.session.slots import Slot
from gateway.session.states import Event, Life, State

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
    TIMEDOUT: ("the statement ran into its timeout", "HYT00"),
}
"""Message and SQLSTATE of the ends that are no errors of Spark's."""

FETCH_NEXT, FETCH_PRIOR, FETCH_FIRST = 0, 1, 4
"""TFetchOrientation, as far as Spark knows it."""

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


class ThriftOperation:
    """What the gateway knows of a running or finished operation. Only the service changes it.

    INVARIANT (one closing event): `completed` goes from False to True once for each statement id, and only
    then is the `completed` event written. There is none before the decision is on record.
    """

    __slots__ = (
        "answer",
        "arrived",
        "basis",
        "cleared",
        "closed",
        "completed",
        "error",
        "handle",
        "has_result_set",
        "hold",
        "kind",
        "life",
        "lock",
        "log",
        "moved",
        "policies_version",
        "relayed_bytes",
        "relayed_rows",
        "session",
        "slot",
        "sparks_state",
        "started",
        "statement_id",
        "taking",
        "tended",
        "unwanted",
        "upstream",
        "used_at",
    )

    def __init__(
        self, session: Session, handle: Handle, statement_id: str, kind: int, started: float
    ) -> None:
        self.session = session
        self.handle = handle
        self.statement_id = statement_id
        self.tended = False
        """Whether the gateway has done its part of it already, and Spark had no room then."""
        self.kind = kind
        self.started = started
        self.used_at = started
        self.cleared: Cleared | None = None
        self.basis: Basis = ()
        """What its temporary views were made from, where results end with policies."""
        self.upstream: BackendOperation | None = None
        self.answer: LocalRows | None = None
        self.error: SluiceError | None = None
        self.has_result_set = True
        self.hold = NO_LOCKS
        """The names of the catalog that it needs as they are, or changes."""
        self.life = Life()
        self.sparks_state = RUNNING
        """TOperationState of one that Spark has taken, as it says."""
        self.completed = False
        self.closed = False
        self.policies_version = -1
        self.relayed_rows = 0
        self.relayed_bytes = 0
        self.lock = asyncio.Lock()
        self.slot: Slot | None = None
        """Its place among those that Spark has."""
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

    def release_slot(self) -> None:
        """Let another have its place in Spark."""
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release()

    @property
    def changes_names(self) -> bool:
        """Whether it changes what names, or the texts of policies, mean in this session."""
        return self.cleared is not None and changes_names(self.cleared.effects)

    @property
    def principal(self) -> Principal:
        return self.session.principal

    @property
    def session_id(self) -> str:
        return str(self.session.handle)

    @property
    def backend_id(self) -> str:
        """Spark's id of it; empty before Spark has it."""
        return self.upstream.id if self.upstream is not None else ""

    @property
    def has_obligations(self) -> bool:
        """Whether what Spark runs carries row filters or masks, directly or through a temporary view."""
        return self.cleared is not None and (
            bool(self.cleared.obligations) or self.session.views_have_obligations
        )

    @property
    def plain(self) -> bool:
        """Whether all that Spark says of an error may be told, with the plan and the stack."""
        cleared = self.cleared
        return (
            cleared is not None and cleared.plain and not (self.has_obligations or self.session.views_guarded)
        )


class Session(NameResolution):
    """A session of a Thrift client. Only the service changes it.

    `lock` is held while a statement is judged and handed to Spark; while `pending` is set, nothing is judged.
    """

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
        super().__init__(principal, client, context)
        self.handle = handle
        self.protocol_version = protocol_version
        self.backend = backend
        self.operations: dict[bytes, ThriftOperation] = {}
        self.pending: ThriftOperation | None = None
        self.slot: Slot | None = None
        """What whoever has the lock may give Spark a statement by."""
        self.stopping: dict[bytes, float] = {}
        """Statements with effects that were stopped half-way, and the loop's time until which Spark may still
        look up their names."""
        self.used_at = opened
        self.closed = False

    @property
    def busy(self) -> bool:
        """Whether a statement is being judged or may still be running."""
        return self.lock.locked() or any(operation.running for operation in self.operations.values())


def changes_names(effects: Sequence[SessionEffect]) -> bool:
    """Whether one of the effects changes what names, or the texts of policies, mean in a session."""
    return any(
        may_change_meaning(effect.key) if isinstance(effect, ChangeSetting) else isinstance(effect, _CHANGING)
        for effect in effects
    )


_CHANGING = (UseNamespace, CreateTempView, DropTempView, DropFunction, ResetSettings)
