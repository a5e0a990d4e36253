"""The states of an operation, of either endpoint, and what follows on what: one table, tested cell by cell.

That Spark has no room for a statement, or has taken it, only its Thrift Server says; that it has looked up
its names, only Spark Connect. Whether a client has let go of it, and whether its closing event is written, is
no state: both may happen in any.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from types import MappingProxyType

from gateway.session.audit_records import StatementOutcome


class State(Enum):
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

    __slots__ = ("analysed", "forwarded", "state")

    def __init__(self) -> None:
        self.state = State.DECIDED
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
        if event is Event.ANALYSE:
            self.analysed = True
        elif event in (Event.FORWARD, Event.REFUSE, Event.AGAIN):
            self.forwarded = event is Event.FORWARD
            self.analysed = False

    @property
    def ended(self) -> bool:
        return self.state in OUTCOMES

    @property
    def outcome(self) -> StatementOutcome:
        """What became of it. Only for one that has ended."""
        return OUTCOMES[self.state]
