"""Whether the gateway is about to stop; and the states of an operation, of either endpoint, and what follows
on what: one table, tested cell by cell.

That Spark has no room for a statement, or has taken it, only its Thrift Server says; that it has looked up
its names, only Spark Connect. Whether a client has let go of it, and whether its closing event is written, is
no state: both may happen in any.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from types import MappingProxyType, TracebackType

import structlog

from gateway.errors import GatewayStopping
from gateway.session.audit_records import StatementOutcome

_log = structlog.get_logger(__name__)


class State(Enum):
    # Looked up some twenty times for each statement; Enum's own hashes the name, in Python.
    __hash__ = object.__hash__

    DECIDED = auto()
    """The verdict is on record; Spark has nothing of it."""
    QUEUED = auto()
    """It waits until Spark has room for it."""
    FORWARDED = auto()
    """It is being handed over: Spark may have it."""
    RUNNING = auto()
    """Spark has taken it."""
    ANALYSED = auto()
    """Spark has looked up its names."""
    FINISHED = auto()
    FAILED = auto()
    CANCELED = auto()
    CLOSED = auto()
    """Its client closed it, or its session, before its end."""
    TIMED_OUT = auto()
    NOT_FORWARDED = auto()
    """It ended before Spark had anything of it, and nobody asked for that."""


class Event(Enum):
    __hash__ = object.__hash__

    QUEUE = auto()
    ADMIT = auto()
    """There is room for it."""
    FORWARD = auto()
    REFUSE = auto()
    """Spark had no room after all, and has not begun it."""
    TAKE = auto()
    ANALYSE = auto()
    FINISH = auto()
    FAIL = auto()
    CANCEL = auto()
    CLOSE = auto()
    TIME_OUT = auto()
    DROP = auto()
    """It is given up before anything of it reaches Spark."""
    AGAIN = auto()
    """It failed for files that are gone, has changed nothing, and is to be run again."""


class WrongEvent(RuntimeError):
    """A state has no place for the event: what follows would not be what was promised, so it does not."""


_ENDS: Mapping[Event, State] = {
    Event.FINISH: State.FINISHED,
    Event.FAIL: State.FAILED,
    Event.CANCEL: State.CANCELED,
    Event.CLOSE: State.CLOSED,
    Event.TIME_OUT: State.TIMED_OUT,
}
_UNSENT = {**_ENDS, Event.DROP: State.NOT_FORWARDED}

TABLE: Mapping[State, Mapping[Event, State]] = MappingProxyType(
    {
        # INVARIANT (audit first): nothing is forwarded but what is on record, and not after its end; once,
        # unless Spark has failed what only reads.
        State.DECIDED: {**_UNSENT, Event.QUEUE: State.QUEUED, Event.FORWARD: State.FORWARDED},
        State.QUEUED: {**_UNSENT, Event.ADMIT: State.DECIDED},
        State.FORWARDED: {
            **_ENDS,
            Event.REFUSE: State.DECIDED,
            Event.TAKE: State.RUNNING,
            Event.ANALYSE: State.ANALYSED,
            Event.AGAIN: State.QUEUED,
        },
        State.RUNNING: {**_ENDS, Event.AGAIN: State.QUEUED},
        State.ANALYSED: {**_ENDS, Event.ANALYSE: State.ANALYSED, Event.AGAIN: State.QUEUED},
        # Rows can still break, or be other ones by the policies of now, when they are read; of which none was
        # read, that can be run again.
        State.FINISHED: {Event.FAIL: State.FAILED, Event.AGAIN: State.QUEUED},
        State.FAILED: {},
        State.CANCELED: {},
        State.CLOSED: {},
        State.TIMED_OUT: {},
        State.NOT_FORWARDED: {},
    }
)
"""State → event → next state. What is not there is refused."""

OUTCOMES: Mapping[State, StatementOutcome] = {
    State.FINISHED: "finished",
    State.FAILED: "failed",
    State.CANCELED: "canceled",
    State.CLOSED: "canceled",
    State.TIMED_OUT: "timed_out",
    State.NOT_FORWARDED: "not_forwarded",
}
"""The states that are ends, as the audit log has them."""


class OperationStateMachine:
    """Where one operation is in the table, and how far it came."""

    __slots__ = ("analysed", "ended", "forwarded", "state")

    def __init__(self) -> None:
        self.state = State.DECIDED
        self.ended = False
        """Whether that is an end."""
        self.forwarded = False
        """True from the moment the statement may have reached Spark, even if Spark then rejected it."""
        self.analysed = False
        """Whether Spark has said that it looked up its names."""

    def apply(self, event: Event) -> None:
        """Go on to the next state. Raises WrongEvent."""
        following = TABLE[self.state].get(event)
        if following is None:
            raise WrongEvent(f"{event.name} in the state {self.state.name}")
        self.state = following
        self.ended = following in OUTCOMES
        if event is Event.ANALYSE:
            self.analysed = True
        elif event in (Event.FORWARD, Event.REFUSE, Event.AGAIN):
            self.forwarded = event is Event.FORWARD
            self.analysed = False

    @property
    def outcome(self) -> StatementOutcome:
        """What became of it. Only for one that has ended."""
        return OUTCOMES[self.state]


STOPPING = "the gateway is stopping"
STOP_S = 5.0
"""Seconds for ending what still runs when draining is over: Spark may be silent, and clients slow."""
LEAST_S = 0.5
"""What closing one thing gets of that when all of it is used up."""


class UntilCut:
    """See `Lifecycle.until_cut`. Every call of a client passes here: a timeout would cost much more."""

    __slots__ = ("_before", "_calls", "_is_cut", "_task")

    def __init__(self, calls: set[UntilCut]) -> None:
        self._calls = calls
        self._is_cut = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a call is answered within a task")
        self._task, self._before = task, task.cancelling()
        self._calls.add(self)

    def cut(self) -> None:
        """End what is done in the block."""
        if not self._is_cut:
            self._is_cut = True
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._calls.discard(self)
        if self._is_cut and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise GatewayStopping() from None


class Lifecycle:
    """Whether the gateway is about to stop: then nothing new begins, and what ends is the gateway's doing.
    One for a whole process."""

    def __init__(self) -> None:
        self.stopping = False
        """Nothing new begins; what runs may go on to its end."""
        self.cuts = False
        """Its time is over: what ends from here on, the gateway ends."""
        self._until = 0.0
        self._calls: set[UntilCut] = set()

    def require_running(self) -> None:
        """Raise GatewayStopping when nothing new may begin."""
        if self.stopping:
            raise GatewayStopping()

    def reason(self, otherwise: str) -> str:
        """Return why something ends: a gateway that stops cuts its clients, who then seem to go away."""
        return STOPPING if self.cuts else otherwise  # RULE (stopping-cut, stopping-client-left)

    def cut(self) -> None:
        """End the time of what runs: calls that wait are answered that the gateway stops."""
        if self.cuts:
            return
        self.stopping = self.cuts = True
        now = asyncio.get_running_loop().time()
        self._until = now + STOP_S
        for call in list(self._calls):
            call.cut()

    def until_cut(self) -> UntilCut:
        """Wait in the block for what a call needs, and no longer than the time of what runs. Raises
        GatewayStopping then."""
        if self.cuts:
            raise GatewayStopping()
        return UntilCut(self._calls)

    def compute_seconds_left(self) -> float:
        """Return how many seconds something has to be closed, after the cut."""
        return max(LEAST_S, self._until - asyncio.get_running_loop().time())

    async def close_in_time(self, close: Callable[[], Awaitable[None]]) -> None:
        """Close what may wait for Spark. What is not done in time after the cut is left to Spark, which ends
        what it has with its connections."""
        try:
            async with asyncio.timeout(self.compute_seconds_left() if self.cuts else None):
                await close()
        except TimeoutError:
            _log.info("not_closed_in_time", part=type(getattr(close, "__self__", close)).__name__)
