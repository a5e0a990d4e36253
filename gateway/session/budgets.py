"""What users have and use, counted by the limits that packs set: sessions, statements, rows, bytes, time.

Nothing that is relayed is decoded for it. Rates of a minute each gateway counts by itself; what is at once,
and budgets of an hour or a day, all gateways of a PostgreSQL count together. While that is away, each goes by
what it knows and has counted itself: limits keep costs down and guard no data
([0043](../../docs/adr/0043-limits.md)).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from gateway.errors import LimitExceeded
from gateway.model.bounded import BoundedDict
from gateway.model.catalog import TableName
from gateway.model.limits import (
    MEASURES,
    AppliedLimit,
    Limit,
    Measure,
    MeasureKind,
    strictest,
)
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal, identity_of
from gateway.model.sparks import DEFAULT_BACKEND
from gateway.model.statement import Client, ScanRecord
from gateway.session.limit_ports import LimitSource, SharedUse, UseKey
from gateway.session.metrics import Metrics
from gateway.session.shares import LOOK_S, ShareKey, Shares
from gateway.session.slots import RunningBound, RunningCounts

MAX_ACCOUNTS = 100_000
"""Users and limits whose use is remembered."""
CHECK_S = 10.0
"""How often it is looked whether a budget of time lasts that several statements may use at once."""
SHARE_S = 2.0
"""How often gateways tell each other what was used."""
LONGEST_RETRY_S = 60.0
"""How long a client may be told to wait and try again: longer, its user is to know why nothing happens."""
Account = tuple[str, str]
NO_POLICIES = PolicySet(version=0)


@dataclass(frozen=True, slots=True)
class Seat:
    """A session's place in the counts."""

    user: str
    accounts: tuple[Account, ...] = ()


class _TokenBucket:
    """As many tokens as a minute gives, and so many at once."""

    __slots__ = ("_at", "_tokens")

    def __init__(self, most: int, now: float) -> None:
        self._tokens, self._at = float(most), now

    def wait_s(self, most: int, period_s: int, now: float) -> float:
        """Return in how many seconds there is a token; 0 where there is one."""
        # A clock that goes back gives nothing.
        gained = max(0.0, now - self._at) * most / period_s
        self._tokens, self._at = min(float(most), self._tokens + gained), max(now, self._at)
        return max(0.0, (1.0 - self._tokens) * period_s / most)

    def take(self) -> None:
        self._tokens -= 1.0


class _Period:
    """What an account has used in an hour or a day."""

    __slots__ = ("known", "mine", "others", "running", "since", "start", "touched")

    def __init__(self, start: int) -> None:
        self.start = start
        self.mine = 0.0
        self.others = 0.0
        """As other gateways, and earlier runs of this one, have told."""
        self.known = False
        """Whether these have been asked."""
        self.touched = True
        """Whether somebody has asked for it since it was last told the others."""
        self.running = 0
        """Statements whose time counts here."""
        self.since = 0.0
        """Up to when it is counted, by the loop's clock."""

    def count_time(self, change: int = 0) -> None:
        """Count the time of what runs; `change`: how many begin to run or, below 0, have ended."""
        if self.running or change:
            now = asyncio.get_running_loop().time()
            self.mine += self.running * max(0.0, now - self.since)
            self.since, self.running = now, max(0, self.running + change)

    def enter(self, start: int) -> None:
        """Begin anew where another hour or day has begun; time does not go back."""
        if start > self.start:
            self.start, self.mine, self.others = start, 0.0, 0.0

    @property
    def used(self) -> float:
        return self.mine + self.others


class _Excess(NamedTuple):
    limit: Limit
    measure: Measure
    most: int
    retry_s: float | None = None
    """Seconds until it passes."""
    used: float | None = None


class StatementMeter:
    """Counts what one statement uses."""

    __slots__ = ("_applied", "_asked_rows", "_budgets", "_bytes", "_rows", "_used_bytes", "_used_rows")

    def __init__(self, budgets: Budgets, applied: Sequence[AppliedLimit]) -> None:
        self._budgets = budgets
        self._applied = applied
        self._rows = strictest(applied, "rows")
        self._bytes = strictest(applied, "bytes")
        self._used_rows = self._used_bytes = self._asked_rows = 0

    @property
    def left_rows(self) -> int | None:
        """How many rows more may be shown; None where nothing bounds them."""
        left = [] if self._rows is None else [self._rows[1] - self._used_rows]
        left += [math.ceil(one) for one in self._budgets.list_left(self._applied, "rows")]
        return max(0, min(left) - self._asked_rows) if left else None

    def note(self, rows: int, size: int) -> LimitExceeded | None:
        """Count rows and bytes that were relayed, or are about to be; return the error of a limit that is
        passed."""
        self._used_rows += rows
        self._used_bytes += size
        over = self._budgets.spend(self._applied, {"rows": rows, "bytes": size})
        if self._rows is not None and self._used_rows > self._rows[1]:
            return self._budgets.cut(_Excess(self._rows[0], MEASURES["rows"], self._rows[1]))
        if self._bytes is not None and self._used_bytes > self._bytes[1]:
            return self._budgets.cut(_Excess(self._bytes[0], MEASURES["bytes"], self._bytes[1]))
        return None if over is None else self._budgets.cut(over)

    @contextmanager
    def asking_for(self, rows: int) -> Iterator[None]:
        """Keep rows for a batch that is being asked for: others may be, of the same result."""
        rows = max(0, rows)  # RULE (limit-rows-not-negative)
        self._asked_rows += rows
        try:
            yield
        finally:
            self._asked_rows -= rows

    def refuse_more(self) -> LimitExceeded:
        """Return the error of a statement that has no row left and more to show."""
        own, budget = self._rows, self._budgets.find_least(self._applied, "rows")
        if own is not None and (budget is None or own[1] - self._used_rows <= budget[1]):
            return self._budgets.cut(_Excess(own[0], MEASURES["rows"], own[1]))
        if budget is None:
            raise AssertionError("no limit bounds its rows")
        return self._budgets.cut(budget[0])

    def begin_running(self) -> None:
        """Count from now on how long it runs."""
        self._budgets.change_running(self._applied, 1)

    def end_running(self) -> None:
        """Count that no more."""
        self._budgets.change_running(self._applied, -1)

    def check_time(self, ran_s: float) -> LimitExceeded | None:
        """Return the error of a statement that has run for as long as it may."""
        own, budget = strictest(self._applied, "seconds"), self._budgets.find_least(self._applied, "seconds")
        if own is not None and ran_s >= own[1]:
            return self._budgets.cut(_Excess(own[0], MEASURES["seconds"], own[1]))
        return self._budgets.cut(budget[0]) if budget is not None and budget[1] <= 0 else None

    def find_time_left(self, ran_s: float) -> float | None:
        """Return in how many seconds to look again whether it may run on; None where nothing bounds that."""
        own = strictest(self._applied, "seconds")
        left = [] if own is None else [own[1] - ran_s]
        # Others may use the same budget meanwhile, here and elsewhere.
        left += [min(one, CHECK_S) for one in self._budgets.list_times_left(self._applied)]
        return max(0.001, min(left)) if left else None


class Budgets:
    """Counts of one gateway process."""

    def __init__(
        self,
        policies: Callable[[], PolicySet] = lambda: NO_POLICIES,
        source: Callable[[PolicySet], LimitSource] | None = None,
        metrics: Metrics | None = None,
        *,
        shared: SharedUse | None = None,
        shares: Shares | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.shared = shared
        self._shares = shares or Shares()
        self.running = RunningCounts(self._shares)
        self._policies = policies
        self._find_source = source
        self._metrics = metrics or Metrics()
        self._clock = clock
        # INVARIANT (no clock that jumps): the wall's is read once, and PostgreSQL's is the one that counts.
        self._offset = wall() - clock()
        self._has_synced = False
        self._buckets: BoundedDict[tuple[str, str, str], _TokenBucket] = BoundedDict(MAX_ACCOUNTS)
        self._periods: BoundedDict[tuple[str, str, str], _Period] = BoundedDict(MAX_ACCOUNTS)

    # -- sessions ----------------------------------------------------------------------------------------

    def open_session(self, principal: Principal, client: Client, backend: str = DEFAULT_BACKEND) -> Seat:
        """Count a session that is about to be opened. Raises LimitExceeded."""
        applied = self._find(principal, client, backend)
        for one in applied:
            most = one.limit.bounds.get("sessions")
            if most is not None and not self._shares.has_room(_of_sessions(one.account), most):
                raise self._refuse(_Excess(one.limit, MEASURES["sessions"], most))
        self._take_tokens(applied, "sessions_per_minute")
        bounded = [one for one in applied if "sessions" in one.limit.bounds]
        for one in bounded:
            self._shares.add(_of_sessions(one.account), one.limit.bounds["sessions"])
        accounts = tuple(one.account for one in bounded)
        return Seat(principal.user, accounts)

    def close_session(self, seat: Seat) -> None:
        """Count a session no more."""
        for account in seat.accounts:
            self._shares.take_out(_of_sessions(account))

    async def ask_for_session(self, principal: Principal, client: Client, backend: str) -> None:
        """Have room for one more session, of what those at other gateways leave. It is the caller's until it
        awaits something."""
        wanted = {
            _of_sessions(one.account): one.limit.bounds["sessions"]
            for one in self._find(principal, client, backend)
            if "sessions" in one.limit.bounds
        }
        if wanted:
            # Many ask at once, and those who wait meanwhile by one question: whoever goes on has counted.
            await self._shares.ask(wanted)

    async def keep_shares(self) -> None:
        """Ask for shares of limits for who waits, and give back those that nobody uses, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            if await self._shares.look():
                self.running.serve()

    # -- statements --------------------------------------------------------------------------------------

    def bounds(
        self, principal: Principal, client: Client, backend: str = DEFAULT_BACKEND
    ) -> tuple[RunningBound, ...]:
        """Return how many statements of a user may run at once, by each limit."""
        return tuple(
            RunningBound(one.account, most, f"{one.limit.title} allows {MEASURES['running'].describe(most)}")
            for one in self._find(principal, client, backend)
            if (most := one.limit.bounds.get("running")) is not None
        )

    async def prepare(self, principal: Principal, client: Client, backend: str = DEFAULT_BACKEND) -> None:
        """Learn what the other gateways have counted of a user of whom nothing is known yet."""
        if self.shared is None:
            return
        unknown = {
            key: period
            for one in self._find(principal, client, backend)
            for measure in _list_periods(one.limit)
            if not (period := self._period(key := (*one.account, measure.key), measure)).known
        }
        if unknown:
            await self._exchange(unknown)

    def admit(
        self,
        principal: Principal,
        client: Client,
        list_tables: Callable[[], Iterable[TableName]],
        scans: Iterable[ScanRecord] = (),
        backend: str = DEFAULT_BACKEND,
    ) -> StatementMeter | None:
        """Count a statement that may pass, over these tables; return what counts the rest of it; None where
        no limit speaks of it. Raises LimitExceeded, and has counted nothing."""
        found = self._find(principal, client, backend)
        applied = self._select(found, list(list_tables())) if found else []
        if not applied:
            return None
        for one in applied:
            self._require_conditions(one.limit, scans)
        for limit, measure, most, period in self._walk(applied):
            if period.used >= most:  # RULE (limit-of-period)
                raise self._refuse(self._of_period(limit, measure, most, period))
        self._take_tokens(applied, "statements_per_minute")
        self.spend(applied, {"statements": 1})
        return StatementMeter(self, applied)

    def read_on(
        self, principal: Principal, client: Client, backend: str = DEFAULT_BACKEND
    ) -> StatementMeter | None:
        """Return what counts the rest of a statement that another run of a gateway has begun; None where no
        limit speaks of it. What it reads is not known, nor what was sent of it before."""
        applied = self._select(self._find(principal, client, backend), ())
        return StatementMeter(self, applied) if applied else None

    def _require_conditions(self, limit: Limit, scans: Iterable[ScanRecord]) -> None:
        """Raise LimitExceeded where a table is read without a condition on one of a limit's columns.

        What column analysis could not tell passes: whoever wants to read all of a table finds a way, and the
        other limits hold.
        """
        source = self._source()
        if source is None or not limit.filtered_by:
            return
        for scan in scans:
            compared = scan.conditions
            # RULE (limit-of-conditions)
            if compared is None or compared & limit.filtered_by or not source.speaks_of(limit, [scan.table]):
                continue
            self._metrics.limits_reached.labels(limit.name, "filtered_by", "refused").inc()
            names = "`, `".join(sorted(limit.filtered_by))
            raise LimitExceeded(
                f"{limit.title} wants a condition on `{names}` where {scan.table} is read", limit=limit.name
            )

    # -- periods -----------------------------------------------------------------------------------------

    def spend(self, applied: Iterable[AppliedLimit], used: Mapping[str, float]) -> _Excess | None:
        """Count what was used; return what is passed by it."""
        over = None
        for limit, measure, most, period in self._walk(applied):
            if amount := used.get(measure.unit, 0):
                period.mine += amount
                if period.used > most and over is None:
                    over = self._of_period(limit, measure, most, period)
        return over

    def change_running(self, applied: Iterable[AppliedLimit], change: int) -> None:
        """Count a statement among those that run, or, with -1, no more."""
        for _, measure, _, period in self._walk(applied):
            if measure.unit == "seconds":
                period.count_time(change)

    def list_times_left(self, applied: Iterable[AppliedLimit]) -> list[float]:
        """Return for how long each budget of time lasts, if nothing begins and nothing ends."""
        return [
            (most - period.used) / max(1, period.running)
            for _, measure, most, period in self._walk(applied)
            if measure.unit == "seconds"
        ]

    def list_left(self, applied: Iterable[AppliedLimit], unit: str) -> list[float]:
        """Return what is left of each budget of a unit."""
        return [left for _, left in self._list_budgets(applied, unit)]

    def find_least(self, applied: Iterable[AppliedLimit], unit: str) -> tuple[_Excess, float] | None:
        """Return the budget of a unit of which least is left."""
        return min(self._list_budgets(applied, unit), key=lambda one: one[1], default=None)

    async def run(self) -> None:
        """Tell the other gateways what was used, and learn from them, until cancelled."""
        while True:
            await asyncio.sleep(SHARE_S)
            await self.share()

    async def share(self) -> None:
        """Exchange once what has been asked for since the last time."""
        touched = {key: period for key, period in self._periods.items() if period.touched}
        if touched and self.shared is not None:
            await self._exchange(touched)

    async def _exchange(self, periods: Mapping[tuple[str, str, str], _Period]) -> None:
        if self.shared is None:
            return
        asked = {UseKey(*key, period.start): period.mine for key, period in periods.items()}
        told = await self.shared.exchange(asked)
        if told is None:
            return
        self._offset = told.now_s - self._clock()
        if not self._has_synced:
            self._has_synced = True
            if self._move_periods():
                await self._exchange(periods)
                return
        for key, period in periods.items():
            # What began meanwhile is asked for the next time.
            if UseKey(*key, period.start) in asked:
                period.others = told.others.get(UseKey(*key, period.start), 0.0)
                period.known = True
                period.touched = False

    def _move_periods(self) -> bool:
        """Count what was counted by this gateway's own clock for the hour and day of PostgreSQL's; whether
        there was any other."""
        moved = False
        for key, period in self._periods.items():
            start = self._start_of(MEASURES[key[2]])
            moved = moved or period.start != start
            period.start = start
        return moved

    # -- inside ------------------------------------------------------------------------------------------

    def _find(self, principal: Principal, client: Client, backend: str) -> Sequence[AppliedLimit]:
        source = self._source()
        if source is None:
            return ()
        real = identity_of(client.real_user, client.real_id) if client.real_user else ""
        return source.find(principal, real, backend)

    def _select(self, found: Sequence[AppliedLimit], tables: Sequence[TableName]) -> list[AppliedLimit]:
        """Return the limits that speak of a statement over these tables."""
        source = self._source()
        return [one for one in found if source is None or source.speaks_of(one.limit, tables)]

    def _source(self) -> LimitSource | None:
        policies = self._policies()
        if self._find_source is None or not (policies.limits or policies.before):
            return None
        return self._find_source(policies)

    def _take_tokens(self, applied: Iterable[AppliedLimit], key: str) -> None:
        """Take a token of each bucket, or raise LimitExceeded and take none."""
        now, measure, buckets = self._clock(), MEASURES[key], []
        longest: _Excess | None = None
        for one in applied:
            most = one.limit.bounds.get(key)
            if most is None:
                continue
            bucket = self._buckets.get(account := (*one.account, key))
            if bucket is None:
                bucket = self._buckets[account] = _TokenBucket(most, now)
            self._buckets.move_to_end(account)
            buckets.append(bucket)
            wait_s = bucket.wait_s(most, measure.period_s, now)
            if wait_s > 0 and (longest is None or wait_s > (longest.retry_s or 0)):
                longest = _Excess(one.limit, measure, most, wait_s)
        if longest is not None:
            raise self._refuse(longest)
        for bucket in buckets:
            bucket.take()  # RULE (limit-of-rate)

    def _period(self, key: tuple[str, str, str], measure: Measure) -> _Period:
        start = self._start_of(measure)
        period = self._periods.get(key)
        if period is None:
            period = self._periods[key] = _Period(start)
        self._periods.move_to_end(key)
        period.count_time()
        period.enter(start)
        period.touched = True
        return period

    def _start_of(self, measure: Measure) -> int:
        """Return when the hour or day of now began."""
        return int((self._clock() + self._offset) // measure.period_s) * measure.period_s

    def _list_budgets(self, applied: Iterable[AppliedLimit], unit: str) -> list[tuple[_Excess, float]]:
        return [
            (self._of_period(limit, measure, most, period), most - period.used)
            for limit, measure, most, period in self._walk(applied)
            if measure.unit == unit
        ]

    def _walk(self, applied: Iterable[AppliedLimit]) -> Iterator[tuple[Limit, Measure, int, _Period]]:
        """Yield the budgets of an hour or a day, with what is used of each."""
        for one in applied:
            for measure in _list_periods(one.limit):
                period = self._period((*one.account, measure.key), measure)
                yield one.limit, measure, one.limit.bounds[measure.key], period

    def _of_period(self, limit: Limit, measure: Measure, most: int, period: _Period) -> _Excess:
        left_s = period.start + measure.period_s - (self._clock() + self._offset)
        return _Excess(limit, measure, most, max(0.0, left_s), period.used)

    def _refuse(self, excess: _Excess) -> LimitExceeded:
        self._metrics.limits_reached.labels(excess.limit.name, excess.measure.key, "refused").inc()
        return self._tell(excess, "")

    def cut(self, excess: _Excess) -> LimitExceeded:
        """Return the error of a statement that a limit ends, and count it."""
        self._metrics.limits_reached.labels(excess.limit.name, excess.measure.key, "canceled").inc()
        return self._tell(excess, "; the statement was canceled")

    def _tell(self, excess: _Excess, end: str) -> LimitExceeded:
        limit, measure, most, left_s, used = excess
        text = f"{limit.title} allows {measure.describe(most)}"
        if measure.kind is MeasureKind.PERIOD and used is not None and left_s is not None:
            at = datetime.fromtimestamp(self._clock() + self._offset + left_s, UTC)
            text += f", and {used:.0f} are used; it begins anew at {at:%H:%M} UTC{end}"
        elif left_s is not None:
            text += f"; try again in {math.ceil(left_s)} seconds{end}"
        elif measure.kind is MeasureKind.AT_ONCE:
            text += f"; close some of them{end}"
        else:
            text += end
        soon = left_s if left_s is not None and left_s <= LONGEST_RETRY_S and not end else None
        passes = measure.kind is not MeasureKind.STATEMENT
        return LimitExceeded(text, limit=limit.name, retry_s=soon, passes=passes)


def _of_sessions(account: Account) -> ShareKey:
    return ShareKey(*account, "sessions")


def _list_periods(limit: Limit) -> list[Measure]:
    return [measure for key in limit.bounds if (measure := MEASURES[key]).kind is MeasureKind.PERIOD]
