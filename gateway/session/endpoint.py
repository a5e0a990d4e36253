"""A session and an operation as those of either endpoint are. State only, no I/O."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, TypeVar

from gateway.errors import LimitExceeded, SluiceError
from gateway.model.meaning_settings import may_change_meaning
from gateway.model.principal import Principal
from gateway.model.statement import (
    ChangeSetting,
    Cleared,
    Client,
    CreateTempView,
    DeclareVariables,
    DropFunction,
    DropTempView,
    DropVariable,
    RegisterCode,
    ResetSettings,
    SessionContext,
    SessionEffect,
    SetVariables,
    Statement,
    UseNamespace,
)
from gateway.model.tracing import TraceSpan
from gateway.session.budgets import Seat, StatementMeter
from gateway.session.identifiers import new_event_id
from gateway.session.judged import Basis
from gateway.session.locks import NO_LOCKS, HeldLocks
from gateway.session.session import NameResolution
from gateway.session.slots import Slot
from gateway.session.states import OperationStateMachine


@dataclass(eq=False, kw_only=True)
class RecordedCall:
    """What a client asked for, as its closing event tells of it: by itself, without a statement."""

    principal: Principal
    session_id: str
    statement_id: str = field(default_factory=new_event_id)
    started: float = field(default_factory=time.monotonic)
    answered: float | None = None
    """When Spark was done, as the gateway heard, or its first rows came; None: not before the end."""
    recorded_s: float | None = None
    """How long it took until the decision was on record; None: of a call that is no statement."""
    waited_s: float | None = None
    """How long it waited for its turn after that; None where it did so before, or never had one."""
    completed: bool = False
    relayed_rows: int = 0
    relayed_bytes: int = 0
    error: SluiceError | None = None
    waiting_span: TraceSpan | None = field(default=None, repr=False)
    """While it waits for a slot in Spark, where it is traced."""
    span: TraceSpan | None = field(default=None, repr=False)
    """From being handed to Spark to its closing event, where it is traced."""

    @property
    def backend_id(self) -> str:
        """Spark's id of it; empty where Spark has none."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedStatement:
    """A statement that is to be decided on."""

    statement: Statement
    client: Client
    operation_id: str = ""
    """By which its client knows it, for the record."""
    earlier: EndpointOperation | None = None
    """Its operation, where it was decided before and has waited, or is run again."""
    counts: bool = True
    """Whether it is a statement to those who set limits."""
    refusal: LimitExceeded | None = None
    """Why it is refused, whatever policies say of it: it has waited for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedStatement:
    """A statement that may pass and is on record."""

    cleared: Cleared
    statement_id: str
    """As the record has it; of an operation that was decided before only where it had to be recorded anew."""
    locks: HeldLocks
    """The names that it was judged by; whoever takes this releases them."""
    policies_version: int
    basis: Basis = ()
    """What its temporary views and cached relations came from, where results end with policies."""
    meter: StatementMeter | None = None
    """Counts what it uses; None where nothing does, or what counted it before goes on."""
    recorded_s: float = 0.0
    """How long it took until it was on record."""


class EndpointOperation(RecordedCall):
    """What the gateway knows of a running or finished operation. Only the service changes it.

    INVARIANT (one closing event): `completed` goes from False to True once for each statement id, and only
    then is the `completed` event written. There is none before the decision is on record.
    """

    def __init__(self, session: EndpointSession[Any, Any], statement_id: str) -> None:
        super().__init__(
            principal=session.principal, session_id=session.session_id, statement_id=statement_id
        )
        self.session = session
        self.cleared: Cleared | None = None
        """None for a metadata call, of which there is no verdict."""
        self.basis: Basis = ()
        """As DecidedStatement has it."""
        self.policies_version = -1
        self.hold = NO_LOCKS
        """The names of the catalog that it needs as they are, or changes."""
        self.life = OperationStateMachine()
        self.meter: StatementMeter | None = None
        """Counts what it uses; None where nothing does."""
        self.over: LimitExceeded | None = None
        """The limit that ended it."""
        self.slot: Slot | None = None
        """Its place among the statements that run."""
        self._runs_since: float | None = None
        self._runs_until: asyncio.TimerHandle | None = None
        self.ran_again = False
        """Whether it has failed once, for files that are gone, and was run again."""
        self.used_at = self.started

    def take(self, decided: DecidedStatement) -> None:
        """Become the operation of what was decided, and hold its names."""
        self.cleared, self.hold = decided.cleared, decided.locks
        self.policies_version, self.basis = decided.policies_version, decided.basis
        self.meter = decided.meter or self.meter
        self.recorded_s = max(decided.recorded_s, self.recorded_s or 0.0)

    def begin_timing(self, cut: Callable[[LimitExceeded], None]) -> None:
        """Count from now on how long it runs, and call `cut` when that is longer than its limits allow."""
        if self.meter is not None:
            self._stop_timing()
            self._runs_since = asyncio.get_running_loop().time()
            self.meter.begin_running()
            self._check_time(self.meter, self._runs_since, cut)

    def _check_time(self, meter: StatementMeter, since: float, cut: Callable[[LimitExceeded], None]) -> None:
        loop = asyncio.get_running_loop()
        ran_s = loop.time() - since
        if (over := meter.check_time(ran_s)) is not None:
            self._stop_timing()
            cut(over)
        elif (left_s := meter.find_time_left(ran_s)) is not None:
            self._runs_until = loop.call_later(left_s, self._check_time, meter, since, cut)

    def _stop_timing(self) -> None:
        if self._runs_until is not None:
            self._runs_until.cancel()
            self._runs_until = None
        if self.meter is not None and self._runs_since is not None:
            self.meter.end_running()
        self._runs_since = None

    def note_stopped_running(self) -> None:
        """Note that Spark is done with it: its time is over, and its place is free."""
        self._stop_timing()
        slot, self.slot = self.slot, None
        if slot is not None:
            slot.release()

    def settle(self, *, finished: bool, stopped: bool) -> bool:
        """Put its effects in force. False when what names mean in its session is no longer certain.

        `stopped`: it ended neither FINISHED nor with an error of Spark's, so that it may have done its work.
        """
        session, cleared = self.session, self.cleared
        if cleared is None:
            return True
        if finished:
            session.apply_finished(cleared, self.policies_version, self.statement_id)
            return True
        if stopped:
            for effect in cleared.effects:
                if isinstance(effect, ChangeSetting):
                    session.note_setting_changed(effect.key, own=False)
        return not (stopped and any(map(_is_uncertain, cleared.effects)))

    @property
    def changes_names(self) -> bool:
        """Whether it changes what names, or the texts of policies, mean in this session."""
        return self.cleared is not None and changes_names(self.cleared.effects)

    @property
    def has_obligations(self) -> bool:
        """Whether what Spark runs carries row filters or masks, directly or through a temporary view."""
        return self.cleared is not None and (
            bool(self.cleared.obligations) or self.session.views_have_obligations
        )

    @property
    def plain(self) -> bool:
        """Whether all that Spark says of it may be told, with plans, stacks and counts."""
        cleared = self.cleared
        return (
            cleared is not None
            and cleared.shows_errors
            and not (self.has_obligations or self.session.views_guarded)
        )


K = TypeVar("K")
E = TypeVar("E", bound=EndpointOperation)


class EndpointSession(NameResolution, Generic[K, E]):
    """Only the service changes it. `lock` is held while a statement is judged and handed to Spark; while
    `pending` is set, nothing is judged."""

    LET_GO: ClassVar[str]
    """What its client can do when it has too many operations."""

    def __init__(
        self, session_id: str, principal: Principal, client: Client, context: SessionContext, opened: float
    ) -> None:
        super().__init__(principal, client, context)
        self.session_id = session_id
        self.renewed: Principal | None = None
        """Who the user is by now, where his groups or attributes have changed; counts with the next
        statement."""
        self.operations: dict[K, E] = {}
        self.pending: E | None = None
        self.used_at = opened
        self.opened_at = datetime.now(UTC)
        self.seat = Seat(principal.user)
        """Its place in the counts of sessions."""
        self.closed = False
        self.unstopped = False
        """Spark did not say that it stopped a statement: that may look its names up at any time."""

    @property
    @abstractmethod
    def busy(self) -> bool:
        """Whether a statement is being judged, may still be running, or is being read."""

    @abstractmethod
    def require_open(self) -> None:
        """Raise what the client is to know when the session is closed."""

    @property
    def principal_now(self) -> Principal:
        """The user with his groups and attributes of now."""
        return self.renewed or self.principal

    def renew_principal(self, principal: Principal) -> None:
        """Have statements from the next one on judged with other groups and attributes of the same user."""
        self.renewed = principal if principal != self.principal else None

    def adopt_renewed(self) -> None:
        """Judge with the user's groups and attributes of now. The session is locked.

        What the session has of earlier statements is judged again as it is after a change of policies; what
        rests on more of them than are kept is no longer current.
        """
        if self.renewed is None:
            return
        self.principal, self.renewed = self.renewed, None
        # RULE (renewed-judges-again)
        for operation in self.operations.values():
            operation.policies_version = -1
        self.relations = {key: replace(one, policies_version=-1) for key, one in self.relations.items()}
        self.variables = {key: replace(one, policies_version=-1) for key, one in self.variables.items()}
        self.views = {key: replace(one, policies_version=-1) for key, one in self.views.items()}

    def require_place(self, most: int) -> None:
        """Raise LimitExceeded when the session has `most` operations."""
        if len(self.operations) >= most:
            raise LimitExceeded(f"this session has {len(self.operations)} open operations; {self.LET_GO}")


def changes_names(effects: Sequence[SessionEffect]) -> bool:
    """Whether one of the effects changes what names, or the texts of policies, mean in a session."""
    return any(
        may_change_meaning(effect.key) if isinstance(effect, ChangeSetting) else isinstance(effect, _CHANGING)
        for effect in effects
    )


def _is_uncertain(effect: SessionEffect) -> bool:
    """Whether a name means one of two things where the statement was stopped: a view that was being replaced
    may be the old one or the new one, and a function may have the body that reads tables."""
    reads = isinstance(effect, RegisterCode) and effect.reads  # RULE (function-made-uncertain)
    return reads or isinstance(effect, UseNamespace | CreateTempView)


_CHANGING = (
    UseNamespace,
    CreateTempView,
    DropTempView,
    RegisterCode,
    DropFunction,
    ResetSettings,
    DeclareVariables,
    SetVariables,
    DropVariable,
)
