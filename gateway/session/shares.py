"""How many sessions and running statements this gateway may have of a limit that all gateways count together.

Each gateway has a share of a limit, and gives out of it without asking anybody. It asks for more when a
session or statement finds none left, which is one question to PostgreSQL, and gives back what it no longer
uses: a moment later, or at once when others want it. Who has waited for longest gets it first, at whichever
gateway he is. While PostgreSQL is away, and where there is one gateway, it goes by what it counts itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

LOOK_S = 0.2
"""How often shares are asked for by who waits, and given back."""
KEEP_S = 1.0
"""For how long a share stays that nobody uses and nobody else wants; and how often it is looked who does."""


class ShareKey(NamedTuple):
    """What is counted together."""

    limit: str
    subject: str
    measure: str


class ShareStore(Protocol):
    """Where all gateways have their shares."""

    async def exchange(
        self, asked: Mapping[ShareKey, tuple[int, int, int]]
    ) -> Mapping[ShareKey, tuple[int, bool]] | None:
        """Say how many each limit allows, how many are in use here and how many are wanted; return how many
        this gateway may have, and whether others want more than there is. None while the store is away."""
        ...


class Shares:
    """What this gateway has and uses."""

    def __init__(
        self,
        store: ShareStore | None = None,
        *,
        has_others: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._has_others = has_others
        self._clock = clock
        self._used = Counter[ShareKey]()
        self._waiting = Counter[ShareKey]()
        """Statements that wait in the queue."""
        self._asking = Counter[ShareKey]()
        """Who is asking for a share at this moment."""
        self._most: dict[ShareKey, int] = {}
        self._granted: dict[ShareKey, int] = {}
        """What the store has of this gateway, or may have."""
        self._contended: set[ShareKey] = set()
        self._free_since: dict[ShareKey, float] = {}
        self._looked_at = float("-inf")
        self._exchanging = asyncio.Lock()
        self._is_away = False

    @property
    def are_counted_together(self) -> bool:
        """Whether what others have counts, too."""
        return self._store is not None and not self._is_away and self._has_others()

    def has_room(self, key: ShareKey, most: int) -> bool:
        """Whether one more fits."""
        used = self._used[key]
        if used >= most:
            return False
        # RULE (limit-of-cluster)
        return not self.are_counted_together or used < self._granted.get(key, 0)

    def add(self, key: ShareKey, most: int) -> None:
        """Count one that begins."""
        self._used[key] += 1
        self._most[key] = most
        self._free_since.pop(key, None)

    def take_out(self, key: ShareKey) -> None:
        """Count one that has ended."""
        self._used[key] -= 1
        if not self._used[key]:
            del self._used[key]
        self._free_since[key] = self._clock()
        if key in self._contended:
            # Who comes next here asks, and does not get it before those who wait elsewhere.
            self._granted[key] = self._used[key]  # RULE (limit-share-not-kept)
        self._forget_unused(key)

    def begin_waiting(self, key: ShareKey, most: int) -> None:
        """Note that a statement waits for room."""
        self._waiting[key] += 1
        self._most[key] = most

    def end_waiting(self, key: ShareKey) -> None:
        """Note that it waits no more."""
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]
        self._free_since[key] = self._clock()
        self._forget_unused(key)

    def _forget_unused(self, key: ShareKey) -> None:
        """Keep nothing of what nobody here uses or wants, and of which the store has nothing of this
        gateway."""
        is_wanted = self._used[key] or self._waiting[key] or self._asking[key]
        if not is_wanted and key not in self._granted:  # RULE (unused-limit-forgotten)
            self._most.pop(key, None)
            self._free_since.pop(key, None)
            self._contended.discard(key)

    async def ask(self, wanted: Mapping[ShareKey, int]) -> None:
        """Have room for one more of each, if all gateways together leave any; `wanted`: how many each allows.

        Nothing is asked where this gateway has some left, or has as many as may be. What there is room for is
        the caller's until it awaits something.
        """
        if not self.are_counted_together:
            return
        self._most.update(wanted)
        self._asking.update(wanted.keys())
        try:
            if any(map(self._lacks, wanted)):
                async with self._exchanging:
                    # Whoever had the turn before may have asked for this one, too.
                    if any(map(self._lacks, wanted)):
                        await self._exchange([*self._asking])
        finally:
            for key in wanted:
                if self._lacks(key):
                    self._free_since[key] = self._clock()
                self._asking[key] -= 1
                if not self._asking[key]:
                    del self._asking[key]
                self._forget_unused(key)

    def _lacks(self, key: ShareKey) -> bool:
        return self._granted.get(key, 0) < min(self._used[key] + self._asking[key], self._most.get(key, 0))

    async def look(self) -> bool:
        """Ask for who waits and give back what is not used; whether there may be room for who waits."""
        if self._store is None or not (self._granted or self._is_away or self._has_others()):
            return False
        now = self._clock()
        keys = {*self._waiting, *(key for key, since in self._free_since.items() if self._is_due(key, since))}
        if now - self._looked_at >= KEEP_S:
            # Others may want what is in use here; and what was counted while they were not there is told.
            self._looked_at = now
            keys |= self._used.keys() | self._granted.keys()
        if not keys and not self._is_away:
            return False
        async with self._exchanging:
            await self._exchange(keys)
        return bool(self._waiting)

    async def _exchange(self, keys: Iterable[ShareKey]) -> None:
        if self._store is None:
            return
        asked = {}
        for key in keys:
            used = self._used[key]
            wanted = used + self._waiting[key] + self._asking[key]
            since = self._free_since.get(key)
            if since is not None and not self._is_due(key, since):
                wanted = max(wanted, self._granted.get(key, 0))
            most = self._most.get(key, 0)
            asked[key] = (most, used, min(wanted, max(most, used)))
            self._granted.setdefault(key, 0)  # RULE (limit-wish-without-answer)
        told = await self._store.exchange(asked)
        self._is_away = told is None
        if told is None:
            return
        for key, (granted, contended) in told.items():
            self._granted[key] = granted
            (self._contended.add if contended else self._contended.discard)(key)
            if granted <= self._used[key]:
                self._free_since.pop(key, None)
            if not granted and not asked[key][2]:  # RULE (limit-wish-taken-back)
                del self._granted[key]
            self._forget_unused(key)

    def _is_due(self, key: ShareKey, since: float) -> bool:
        """Whether a share goes back that has not been used since then."""
        lasts = key not in self._contended and key.measure != "sessions"
        return not lasts or self._clock() - since >= KEEP_S  # RULE (limit-share-given-back)
