"""Slots: how many statements run at once. Others wait, fair between users.

Spark's Thrift Server runs statements in a pool of threads (`hive.server2.async.exec.threads`) and refuses
what finds neither a thread nor a place in the pool's queue. A client that is refused there can do nothing but
try again, so nobody is sent before there is room.

INVARIANT (nothing waits in a circle): nobody waits for a slot with names of the catalog in hand, or with
another slot: what the gateway runs for a statement needs none. Spark ends what it has, whoever else waits for
what; and who has just been given a slot and has to wait for names waits for those who have theirs, or for
nothing but the ledger.

Spark Connect has no such pool: it begins a thread for every execution. There only limits of packs have
statements wait, of both endpoints together.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from gateway.errors import LimitExceeded
from gateway.session.locks import Followed
from gateway.session.shares import ShareKey, Shares

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 1.0
"""How long nobody is sent after Spark has refused one for want of room: others use its pool as well."""


class RunningBound(NamedTuple):
    """How many statements of a limit may run at once."""

    account: tuple[str, str]
    most: int
    words: str

    @property
    def key(self) -> ShareKey:
        return ShareKey(*self.account, "running")


class RunningCounts:
    """How many statements run of each limit, at all endpoints together."""

    def __init__(self, shares: Shares | None = None) -> None:
        """`shares`: what this gateway may use of what all gateways count together."""
        self._shares = shares or Shares()
        self._queues: dict[Callable[[], None], None] = {}

    def follow(self, serve: Callable[[], None]) -> None:
        """Call `serve` whenever there may be room again."""
        self._queues[serve] = None

    def unfollow(self, serve: Callable[[], None]) -> None:
        """Call it no more."""
        self._queues.pop(serve, None)

    def find_full(self, bounds: Sequence[RunningBound]) -> RunningBound | None:
        """Return one of the bounds that leaves no room; None where all do."""
        return next((one for one in bounds if not self._shares.has_room(one.key, one.most)), None)

    async def ask(self, bounds: Sequence[RunningBound]) -> None:
        """Have a share of each limit, of what all gateways leave."""
        if bounds:
            await self._shares.ask({one.key: one.most for one in bounds})

    def add(self, bounds: Sequence[RunningBound]) -> None:
        for one in bounds:
            self._shares.add(one.key, one.most)

    def take_out(self, bounds: Sequence[RunningBound]) -> None:
        for one in bounds:
            self._shares.take_out(one.key)

    @contextmanager
    def waiting(self, bounds: Sequence[RunningBound]) -> Iterator[None]:
        """Have a share asked for meanwhile."""
        for one in bounds:
            self._shares.begin_waiting(one.key, one.most)
        try:
            yield
        finally:
            for one in bounds:
                self._shares.end_waiting(one.key)

    def serve(self) -> None:
        """Have whoever waits for room look whether there is some."""
        for serve in list(self._queues):
            serve()


class Slot(Followed):
    """A statement's place among those that Spark has."""

    __slots__ = ("_slots", "bounds", "user")

    def __init__(self, slots: Slots, user: str, bounds: Sequence[RunningBound]) -> None:
        super().__init__()
        self.user = user
        self.bounds = bounds
        self._slots = slots

    def release(self) -> None:
        """Give the slot to the next one; every call after the first does nothing."""
        if not self.over:
            self.over = True
            self._slots.release(self)


class _SlotWaiter:
    __slots__ = ("arrived", "bounds", "granted", "user")

    def __init__(
        self, user: str, bounds: Sequence[RunningBound], arrived: float, granted: asyncio.Future[Slot]
    ) -> None:
        self.user = user
        self.bounds = bounds
        self.arrived = arrived
        self.granted = granted


class Slots:
    """Gives out slots: the next one to the user who has fewest, of these to who came first; of those whose
    limits leave room."""

    def __init__(self, size: int, most_waiting: int, limited: RunningCounts | None = None) -> None:
        """`size`: how many Spark has room for; 0: for any number."""
        self.size = size
        self._limited = limited if limited is not None else RunningCounts()
        self._limited.follow(self._serve)
        self._most_waiting = most_waiting
        self._held: set[Slot] = set()
        self._running: Counter[str] = Counter()
        self._queue: list[_SlotWaiter] = []
        self._pause_s = 0.0
        """Last pause, while Spark refuses; then one at a time tries again."""
        self._resume: asyncio.TimerHandle | None = None
        self._trying = False

    @property
    def held(self) -> int:
        """Statements that Spark has."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def take(self, user: str, bounds: Sequence[RunningBound] = ()) -> Slot | None:
        """Take a slot if there is one and nobody waits for it."""
        if not self._open or self._limited.find_full(bounds) is not None or self._find_next() is not None:
            return None
        return self._grant(user, bounds)

    def require_place(self) -> None:
        """Raise LimitExceeded when no more may wait."""
        if len(self._queue) >= self._most_waiting:
            raise LimitExceeded(
                f"Spark is running {len(self._held)} statements, and {len(self._queue)} others are "
                "waiting; try again later",
                passes=True,
            )

    def close(self) -> None:
        """Give out nothing any more: the Spark that they are of is gone."""
        self._limited.unfollow(self._serve)

    def find_full(self, bounds: Sequence[RunningBound]) -> RunningBound | None:
        """Return a limit that leaves no room; None where all do."""
        return self._limited.find_full(bounds)

    def place(self, user: str, arrived: float) -> tuple[int, int]:
        """Return the place in the queue of who waits since `arrived`, from 1 on, and how many wait.

        As it comes out when nothing ends meanwhile but what makes room for the next one. A limit may hold
        back who stands before.
        """
        ranks = Counter[str]()
        order = []
        for waiter in sorted(self._queue, key=lambda one: one.arrived):
            turn = self._running[waiter.user] + ranks[waiter.user]
            ranks[waiter.user] += 1
            order.append((turn, waiter.arrived, waiter.user))
        order.sort()
        before = (index for index, one in enumerate(order) if one[1:] == (arrived, user))
        place = next(before, len(order)) + 1
        return place, max(len(order), place)

    async def wait(
        self, user: str, *, until: float, arrived: float, bounds: Sequence[RunningBound] = ()
    ) -> Slot | None:
        """Wait for a slot until the loop's clock says `until`, then return None.

        `arrived` is when the statement came: who comes back, because Spark had no room after all, does not
        lose its place. Raises LimitExceeded when too many wait.
        """
        self.require_place()
        waiter = _SlotWaiter(user, bounds, arrived, asyncio.get_running_loop().create_future())
        self._queue.append(waiter)
        self._serve()
        slot: Slot | None = None
        try:
            with self._limited.waiting(bounds):
                async with asyncio.timeout_at(until):
                    slot = await waiter.granted
        except TimeoutError:
            pass
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
            elif slot is None and waiter.granted.done() and not waiter.granted.cancelled():
                # It was granted just as its time was over, or as the caller was cancelled.
                waiter.granted.result().release()
        return slot

    def note_refused(self, slot: Slot) -> None:
        """Note that Spark had no room although we thought so, and take the slot back."""
        self._trying = False
        if self._resume is None:
            self._pause_s = min(max(2 * self._pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            self._resume = asyncio.get_running_loop().call_later(self._pause_s, self._go_on)
        slot.over = True
        self._take_out(slot)
        if slot.bounds:
            self._limited.serve()

    def note_taken(self) -> None:
        """Note that Spark has taken a statement: there is room."""
        self._trying, self._pause_s = False, 0.0
        self._cancel_pause()
        self._serve()

    def release(self, slot: Slot) -> None:
        """Note that a statement has ended: with it a thread of Spark's is free."""
        self._take_out(slot)
        self._trying = False
        self._cancel_pause()
        self._limited.serve()

    # -- inside ------------------------------------------------------------------------------------------

    @property
    def _open(self) -> bool:
        if self._resume is not None or (self._pause_s and self._trying):
            return False
        return not self.size or len(self._held) < self.size

    def _find_next(self) -> _SlotWaiter | None:
        """Return who is next of those whose limits leave room."""
        return min(
            (one for one in self._queue if self._limited.find_full(one.bounds) is None),
            key=lambda one: (self._running[one.user], one.arrived),
            default=None,
        )

    def _grant(self, user: str, bounds: Sequence[RunningBound]) -> Slot:
        slot = Slot(self, user, bounds)
        self._held.add(slot)
        self._limited.add(bounds)
        self._running[user] += 1
        self._trying = bool(self._pause_s)
        return slot

    def _take_out(self, slot: Slot) -> None:
        if slot in self._held:
            self._held.remove(slot)
            self._limited.take_out(slot.bounds)
            self._running[slot.user] -= 1
            if not self._running[slot.user]:
                del self._running[slot.user]

    def _serve(self) -> None:
        while self._queue and self._open and (waiter := self._find_next()) is not None:
            self._queue.remove(waiter)
            if not waiter.granted.done():
                waiter.granted.set_result(self._grant(waiter.user, waiter.bounds))
        if self._queue:
            for slot in list(self._held):
                slot.ask_for_its_end()

    def _go_on(self) -> None:
        self._resume = None
        self._serve()

    def _cancel_pause(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
