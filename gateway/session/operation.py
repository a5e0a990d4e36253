"""One statement or metadata call of a session, from its verdict to its one closing event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gateway.errors import InvalidRequest, SluiceError
from gateway.model.statement import (
    ChangeSetting,
    Cleared,
    CreateTempView,
    DropTempView,
    SessionEffect,
    UseNamespace,
)
from gateway.session.identifiers import Handle
from gateway.session.locks import NO_HOLD
from gateway.session.ports import BackendOperation

if TYPE_CHECKING:
    from gateway.session.session import Session

PENDING, RUNNING, FINISHED, CANCELED, CLOSED, ERROR, TIMEDOUT = 7, 1, 2, 3, 4, 5, 8
"""TOperationState."""

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


class Operation:
    """What the gateway knows of a running or finished operation. Only the service changes it.

    INVARIANT (one closing event): `completed` goes from False to True once, and only then is the `completed`
    event written; it is written only when `decided` is True.
    """

    __slots__ = (
        "answer",
        "cleared",
        "closed",
        "completed",
        "decided",
        "error",
        "handle",
        "has_result_set",
        "hold",
        "kind",
        "lock",
        "policies_version",
        "relayed_bytes",
        "relayed_rows",
        "session",
        "settled",
        "started",
        "state",
        "statement_id",
        "upstream",
        "used_at",
    )

    def __init__(
        self, session: Session, handle: Handle, statement_id: str, kind: int, started: float
    ) -> None:
        self.session = session
        self.handle = handle
        self.statement_id = statement_id
        self.kind = kind
        self.started = started
        self.used_at = started
        self.cleared: Cleared | None = None
        self.upstream: BackendOperation | None = None
        self.answer: LocalRows | None = None
        self.error: SluiceError | None = None
        self.has_result_set = True
        self.hold = NO_HOLD
        """The names of the catalog that it needs as they are, or changes."""
        self.state = PENDING
        self.decided = False
        self.completed = False
        self.closed = False
        self.settled = False
        self.policies_version = -1
        self.relayed_rows = 0
        self.relayed_bytes = 0
        self.lock = asyncio.Lock()

    @property
    def terminal(self) -> bool:
        return self.state in (FINISHED, CANCELED, CLOSED, ERROR, TIMEDOUT)

    @property
    def running(self) -> bool:
        """Whether Spark may still be working on it."""
        return not self.terminal and not self.closed

    @property
    def changes_names(self) -> bool:
        """Whether it changes what names, or the texts of policies, mean in this session."""
        return self.cleared is not None and changes_names(self.cleared.effects)

    @property
    def user(self) -> str:
        return self.session.principal.user

    @property
    def session_id(self) -> str:
        return str(self.session.handle)

    @property
    def backend_id(self) -> str:
        """Spark's id of it; empty before Spark has it."""
        return self.upstream.id if self.upstream is not None else ""

    @property
    def obliged(self) -> bool:
        """Whether what Spark runs carries row filters or masks, directly or through a temporary view."""
        return self.cleared is not None and (bool(self.cleared.obligations) or self.session.views_obliged)

    @property
    def plain(self) -> bool:
        """Whether all that Spark says of an error may be told, with the plan and the stack."""
        cleared = self.cleared
        return cleared is not None and cleared.plain and not (self.obliged or self.session.views_guarded)


def changes_names(effects: Sequence[SessionEffect]) -> bool:
    """Whether one of the effects changes what names, or the texts of policies, mean in a session."""
    return any(
        isinstance(effect, UseNamespace | CreateTempView | DropTempView | ChangeSetting) for effect in effects
    )
