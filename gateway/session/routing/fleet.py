"""The Sparks behind a gateway: how each stands, and which of them a new session gets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import structlog

from gateway.errors import BackendNotAllowed, BackendUnavailable
from gateway.model.principal import Principal
from gateway.model.sparks import Routing, SparkFacts
from gateway.session.routing.breaker import Breaker
from gateway.session.service import Sessions

if TYPE_CHECKING:
    from gateway.session.connect.service import ConnectSessions

_log = structlog.get_logger(__name__)

T = TypeVar("T")
SparkEndpoint = Literal["thrift", "connect"]
TrySpark = Callable[[], Awaitable[None]]
CONNECT_S = 0.5
"""Longest wait for a Spark to take a connection: with the pause between two looks it bounds failover."""
TRIAL_S = 10.0
"""Longest wait for a Spark that failed to open a session for the gateway itself."""
MAX_NAMES = 20
"""Names of Sparks that a client is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetLimits:
    """How failures count."""

    check_s: float = 0.5
    failures: int = 2
    retry_s: float = 5.0
    open_s: float = 5.0


@dataclass(eq=False, kw_only=True)
class SparkEntry:
    """One Spark with its sessions, and how it stands."""

    facts: SparkFacts
    thrift: Sessions | None = None
    connect: ConnectSessions | None = None
    looks: Mapping[SparkEndpoint, TrySpark] = field(default_factory=dict)
    """Raise where nobody answers at the address: cheap, asked all the time."""
    trials: Mapping[SparkEndpoint, TrySpark] = field(default_factory=dict)
    """Raise where it opens no session that reads texts as the parser does."""
    breakers: dict[SparkEndpoint, Breaker] = field(default_factory=dict)
    is_drained: bool = False
    """It gets no new sessions."""
    is_gone: bool = False
    """It was discovered, and is no longer told of: no new sessions, either."""

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def name_for_clients(self) -> str:
        """Its name, or that under which it was discovered."""
        return self.facts.pool or self.facts.name

    def sessions_of(self, endpoint: SparkEndpoint) -> Sessions | ConnectSessions | None:
        return self.thrift if endpoint == "thrift" else self.connect

    @property
    def session_count(self) -> int:
        """How many sessions are open on it."""
        return sum(len(one) for one in (self.thrift, self.connect) if one is not None)

    def explain(self, endpoint: SparkEndpoint) -> str:
        """Say why it gets no new sessions; empty when it gets some."""
        if self.sessions_of(endpoint) is None:
            return "has no such endpoint"
        if self.is_drained or self.is_gone:
            return "is being drained" if self.is_drained else "is about to go"
        return "does not answer" if self.breakers[endpoint].state != "closed" else ""

    async def attempt(
        self, endpoint: SparkEndpoint, opening: Coroutine[Any, Any, T], within_s: float | None = None
    ) -> T:
        """Open a session, and give up after `within_s`, or as soon as it is known that nobody answers there.
        Raises as `opening`, BackendUnavailable."""
        breaker = self.breakers[endpoint]
        task, down = asyncio.ensure_future(opening), asyncio.ensure_future(breaker.went_down.wait())
        try:
            await asyncio.wait({task, down}, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                silent = f"Spark opened no session within {within_s:g} s" if not down.done() else ""
                task.cancel()
                await asyncio.wait({task})
                # INVARIANT (none left behind): what was opened at the last moment is taken, not forgotten.
                if task.cancelled() or task.exception() is not None:
                    raise BackendUnavailable(silent or "Spark cannot be reached")
            found = task.result()
        except BackendUnavailable as fault:
            breaker.note_failure("session", fault.for_operators)
            raise
        finally:
            down.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        breaker.note_success("session")
        return found


class Fleet:
    """All Sparks of a gateway."""

    def __init__(
        self,
        routing: Routing,
        limits: FleetLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.routing = routing
        self.limits = limits or FleetLimits()
        self._clock = clock
        self._sparks: dict[str, SparkEntry] = {}
        self._pending: dict[str, str] = {}
        self._drained: dict[str, bool] = {}
        """What was asked for since the start, by a Spark's name, or that under which some are discovered."""
        self._looking: set[Breaker] = set()
        """Of what is being looked at, or tried."""
        self.several = False
        """Whether there are, or may be, more than one."""

    def add(self, spark: SparkEntry) -> None:
        """Let sessions come to a Spark."""
        for endpoint in ("thrift", "connect"):
            if spark.sessions_of(endpoint) is not None:
                spark.breakers[endpoint] = Breaker(
                    failures=self.limits.failures, retry_s=self.limits.retry_s, clock=self._clock
                )
        for name in (spark.facts.pool, spark.name):
            spark.is_drained = self._drained.get(name, spark.is_drained)  # RULE (drained-stays-drained)
        self._sparks[spark.name] = spark
        self._pending.pop(spark.name, None)

    def remove(self, name: str) -> SparkEntry | None:
        """Take out a Spark that is gone."""
        self._drained.pop(name, None)
        return self._sparks.pop(name, None)

    def note_pending(self, name: str, reason: str) -> None:
        """Note that a Spark is expected and not there yet."""
        self._pending[name] = reason

    def forget_pending(self, name: str) -> None:
        """Note that a Spark is expected no more."""
        self._pending.pop(name, None)

    @property
    def pending(self) -> Mapping[str, str]:
        """Sparks that are expected → why they are not there."""
        return self._pending

    def all(self) -> list[SparkEntry]:
        return list(self._sparks.values())

    @property
    def only(self) -> SparkEntry | None:
        """The Spark, where there is one."""
        return next(iter(self._sparks.values())) if len(self._sparks) == 1 else None

    def get(self, name: str) -> SparkEntry | None:
        return self._sparks.get(name)

    def set_drained(self, name: str, *, on: bool) -> list[str]:
        """Have a Spark, or all that are discovered under a name, get no new sessions, or get them again, also
        those that join later; return which."""
        found = [one for one in self._sparks.values() if name in (one.name, one.facts.pool)]
        for one in found:
            one.is_drained = on
            self._drained.pop(one.name, None)
        names = [one.name for one in found] or ([name] if name in self._pending else [])
        if names:
            self._drained[name] = on
        for one_name in names:
            _log.info("backend_drained" if on else "backend_undrained", backend=one_name)
        return names

    def require_allowed(self, spark: SparkEntry, principal: Principal, asked: str = "") -> None:
        """Raise BackendNotAllowed where somebody may not use a Spark, or asks for another than his session
        is on."""
        if not spark.facts.may_be_used_by(principal):  # RULE (bound-backend-allowed)
            raise self._refuse(principal, "")
        if asked and not spark.facts.is_meant_by(asked):
            raise BackendNotAllowed(
                f"the session is on another Spark than `{asked}`; open a new session to use that"
            )

    def choose(
        self, endpoint: SparkEndpoint, asked: str, principal: Principal, catalog: str
    ) -> list[SparkEntry]:
        """Return the Sparks to try for a new session, in order.

        Raises BackendNotAllowed where its user may use none, BackendUnavailable where none of them takes
        sessions.
        """
        listed = [one for one in self._sparks.values() if one.sessions_of(endpoint) is not None]
        chosen = self.routing.select((one.facts for one in listed), asked, principal, catalog)
        if chosen is None:
            raise self._refuse(principal, asked)
        sparks = [self._sparks[facts.name] for facts in chosen]
        if len(listed) == 1 and not self.several and not sparks[0].is_drained:
            return sparks  # there is nothing to fail over to: its own error says more
        ready = [one for one in sparks if not one.explain(endpoint)]
        if not ready:
            # Addresses of those that were discovered are no client's.
            why = dict.fromkeys(f"`{one.name_for_clients}` {one.explain(endpoint)}" for one in sparks)
            told = ", ".join(list(why)[:MAX_NAMES])
            raise BackendUnavailable(f"no Spark takes a new session now: {told}")
        return sorted(ready, key=lambda one: (one.breakers[endpoint].is_doubted, *_by_load(one)))

    def limit_attempt(self, spark: SparkEntry, chosen: Sequence[SparkEntry]) -> float | None:
        """Return the seconds for one of the chosen Sparks to open a session; None for the last: there is no
        other one then."""
        return None if spark is chosen[-1] else self.limits.open_s

    def _refuse(self, principal: Principal, asked: str) -> BackendNotAllowed:
        # What somebody may not use is told as if it were not there.
        usable = [one.facts for one in self._sparks.values() if one.facts.may_be_used_by(principal)]
        names = sorted({one.pool or one.name for one in usable} | {tag for one in usable for tag in one.tags})
        may = (
            f"you may use {', '.join(f'`{name}`' for name in names[:MAX_NAMES])}"
            if names
            else ("there is no Spark that you may use")
        )
        what = f"there is no Spark `{asked[:100]}` for you" if asked else "no Spark of the rules is for you"
        return BackendNotAllowed(f"{what}; {may}")

    # -- how they stand ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look whether each Spark answers, until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                # One that does not answer, or is being tried, holds up no look at another.
                group.create_task(self.look())
                await asyncio.sleep(self.limits.check_s)

    async def look(self) -> None:
        """Look once, at all of them at the same time."""
        await asyncio.gather(
            *(self._look_at(one, name) for one in self.all() for name in one.breakers if name in one.looks)
        )

    async def _look_at(self, spark: SparkEntry, endpoint: SparkEndpoint) -> None:
        breaker = spark.breakers[endpoint]
        if breaker in self._looking:
            return
        self._looking.add(breaker)
        try:
            await self._look_or_try(spark, endpoint, breaker)
        finally:
            self._looking.discard(breaker)

    async def _look_or_try(self, spark: SparkEntry, endpoint: SparkEndpoint, breaker: Breaker) -> None:
        trial = breaker.is_due
        if breaker.state != "closed" and not trial:
            return
        if trial:
            breaker.begin_trial()
        ask = spark.trials.get(endpoint, spark.looks[endpoint]) if trial else spark.looks[endpoint]
        kind: Literal["look", "trial"] = "trial" if trial else "look"
        was = breaker.state
        try:
            async with asyncio.timeout(TRIAL_S if trial else CONNECT_S):
                await ask()
        except (BackendUnavailable, OSError, TimeoutError) as error:
            reason = error.for_operators if isinstance(error, BackendUnavailable) else str(error)
            breaker.note_failure(kind, reason or "no answer in time")
        except Exception as error:  # noqa: BLE001 - whatever a Spark says ends no gateway
            _log.warning("backend_not_looked_at", backend=spark.name, error=type(error).__name__)
            breaker.note_failure(kind, type(error).__name__)
        else:
            breaker.note_success(kind)
        if breaker.state != was:
            told = _log.info if breaker.state == "closed" else _log.warning
            told("backend_breaker", backend=spark.name, endpoint=endpoint, state=breaker.state)


def _by_load(spark: SparkEntry) -> tuple[bool, float]:
    weight = spark.facts.weight
    return weight == 0, (spark.session_count + 1) / (weight or 1)
