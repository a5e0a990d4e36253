"""One execution or analysis of a Spark Connect session, and the answer that the gateway may hold of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gateway.errors import SluiceError
from gateway.model.principal import Principal
from gateway.model.statement import Cleared
from gateway.session.barriers import overtaken
from gateway.session.connect.spark_errors import spark_error
from gateway.session.locks import HeldLocks
from gateway.session.operation import changes_names
from gateway.session.states import Event, Life

if TYPE_CHECKING:
    from gateway.session.connect.requests import Wanted
    from gateway.session.connect.session import ConnectSession
    from gateway.session.session import Basis


_UNKNOWN = frozenset({""})
"""The handle of no query."""


def queries_told_of(cleared: Cleared) -> frozenset[str] | None:
    """Return the handles of the streaming queries that a plan asks about, by id and run; None: about any."""
    match cleared.plan_class:
        case "StreamingQueryCommand":
            return cleared.handles or _UNKNOWN
        case "StreamingQueryManagerCommand" | "StreamingQueryListenerBusCommand":
            return None
        case _:
            return frozenset()


class BufferedAnswer:
    """Responses that the gateway holds until the client has released them.

    A bounded list: whoever fills it keeps its size. Readers wait for more; the last response, or `fault`,
    is in place when `done` is set.
    """

    def __init__(self) -> None:
        self._responses: list[tuple[str, bytes]] = []
        self._first = 0
        self._released = ""
        self._changed = asyncio.Event()
        self.size = 0
        self.done = False
        self.fault: Exception | None = None

    def add(self, response_id: str, data: bytes) -> None:
        self._responses.append((response_id, data))
        self.size += len(data)
        self._notify()

    def finish(self, fault: Exception | None = None) -> None:
        """End it, once; every call after the first does nothing."""
        if not self.done:
            self.done, self.fault = True, fault
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def changed(self) -> None:
        await self._changed.wait()

    def position(self, response_id: str) -> int:
        """Return where reading goes on after a response; without one, at the beginning of what is held.

        Raises Spark's error for a response that is not, or no longer, held.
        """
        if not response_id:
            return self._first
        if response_id == self._released:
            return self._first
        for index, (known, _) in enumerate(self._responses):
            if known == response_id:
                return self._first + index + 1
        raise spark_error("INVALID_CURSOR.POSITION_NOT_FOUND", response_id[:64])

    def at(self, position: int) -> bytes | None:
        """Return the response at a position, None when there is none yet."""
        index = position - self._first
        return self._responses[index][1] if 0 <= index < len(self._responses) else None

    def release(self, response_id: str) -> None:
        """Forget the responses up to and with one; of an unknown one nothing."""
        for index, (known, _) in enumerate(self._responses):
            if known == response_id:
                self.size -= sum(len(data) for _, data in self._responses[: index + 1])
                del self._responses[: index + 1]
                self._first += index + 1
                self._released = response_id
                return

    @property
    def first(self) -> int:
        return self._first


class ConnectOperation:
    """What the gateway knows of it. Only the service changes it.

    INVARIANT (one closing event): `completed` goes from False to True once, and only then is the `completed`
    event written; `ended` is set with it.
    """

    def __init__(
        self,
        session: ConnectSession,
        wanted: Wanted,
        statement_id: str,
        cleared: Cleared,
        hold: HeldLocks,
        *,
        started: float,
        policies_version: int,
        buffer: BufferedAnswer | None = None,
    ) -> None:
        self.session = session
        self.operation_id = wanted.operation_id
        self.statement_id = statement_id
        self.cleared = cleared
        self.basis: Basis = ()
        """What its temporary views and cached relations came from, where results end with policies."""
        self.started = started
        self.used_at = started
        self.policies_version = policies_version
        self.digest = wanted.digest
        self.reattachable = wanted.reattachable
        """Whether the client may come back to it. Its own wish; Spark is asked for it unless `kept`."""
        self.queries = queries_told_of(cleared)
        """Handles of the streaming queries that it tells of; None: of all."""
        self.buffer = buffer
        self.hold = hold
        """The names of the catalog that it needs as they are, or changes."""
        self.task: asyncio.Task[None] | None = None
        """Works off an operation whose answer is kept."""
        self.farewell: asyncio.Task[None] | None = None
        """Reads on after its client has left, to learn how it ends."""
        self.last_response_id = ""
        """Of those that were relayed."""
        self.life = Life()
        self.error: SluiceError | None = None
        self.completed = False
        self.relayed_rows = 0
        self.relayed_bytes = 0
        self.told_bytes = 0
        """Of `relayed_bytes`, what there was when Spark was last told that the client has responses."""
        self.resolved = asyncio.Event()
        """Spark has looked up its names: nothing that changes them can reach it any more."""
        self.ended = asyncio.Event()
        self.interrupted = False
        self.released = False
        """The client has let it go; it only has to end."""
        self.readers = 0
        self.reading = 0
        """Number of the reader that has it now; the one before is disconnected, as by Spark."""

    def looked_up(self) -> None:
        """Note that Spark has looked up its names. Raises when it had ended here before, or was overtaken by
        a change: what names meant by then is not known, and nothing of it may be shown."""
        if self.life.ended and not self.names_seen:
            raise spark_error("OPERATION_CANCELED")
        if self.overtaken:
            raise overtaken(self.statement_id)
        if not self.life.ended:
            self.life.on(Event.ANALYSE)
        self.resolved.set()
        if self.hold.request.read_only:
            self.hold.end()

    @property
    def names_seen(self) -> bool:
        """Whether a response said that Spark has looked up its names."""
        return self.life.analysed

    @property
    def overtaken(self) -> bool:
        """Whether names of the catalog changed before it was known that Spark had looked them up."""
        return self.hold.overtaken and not self.names_seen

    def end_farewell(self) -> None:
        """Read on no more: the client is back, or the end is known."""
        task, self.farewell = self.farewell, None
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    @property
    def may_look_up_names(self) -> bool:
        """Whether Spark may still look up its names: neither a response nor its end said that it did."""
        return not (self.names_seen or self.ended.is_set())

    @property
    def attached(self) -> bool:
        """Whether a client is reading it."""
        return self.readers > 0

    @property
    def changes_names(self) -> bool:
        return changes_names(self.cleared.effects)

    @property
    def has_obligations(self) -> bool:
        """Whether what Spark runs carries row filters or masks, directly, through a temporary view, or in a
        streaming query that it tells of."""
        return (
            bool(self.cleared.obligations)
            or self.session.views_have_obligations
            or self.session.reads_guarded(self.queries)
        )

    @property
    def plain(self) -> bool:
        """Whether all that Spark says of it may be told, with plans, stacks and counts."""
        return self.cleared.plain and not (self.has_obligations or self.session.views_guarded)

    @property
    def principal(self) -> Principal:
        return self.session.principal

    @property
    def session_id(self) -> str:
        return self.session.session_id

    @property
    def backend_id(self) -> str:
        return self.operation_id
