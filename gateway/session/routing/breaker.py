"""Circuit breaker of one endpoint of a Spark: after failures in a row it gets no new sessions for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]


class Breaker:
    """Closed: sessions come. Open: none do. Half-open: the gateway itself tries whether they may again.

    No client is the one who tries a Spark that failed. Nor does a client open it: a session may fail for
    what its user is or asks for. After some that failed in a row the gateway tries by itself.
    """

    def __init__(self, *, failures: int, retry_s: float, clock: Callable[[], float]) -> None:
        self._most = failures
        self._retry_s = retry_s
        self._clock = clock
        self._failed = {"session": 0, "look": 0}
        self._opened = 0.0
        self.state: BreakerState = "closed"
        self.reason = ""
        """Why it is not closed."""
        self.is_suspected = False
        """Sessions have failed: the gateway is to try by itself, and sessions come meanwhile."""
        self._is_tried = False
        self.went_down = asyncio.Event()
        """Set while it is not closed: who waits for such a Spark need not wait on."""

    @property
    def is_doubted(self) -> bool:
        """Whether sessions have failed, and it is not known yet whether that was the Spark's fault: others
        are tried before it."""
        return self.is_suspected or self._is_tried

    @property
    def is_due(self) -> bool:
        """Whether it is time to try it."""
        if self.state == "closed":
            return self.is_suspected
        return self.state == "open" and self._clock() - self._opened >= self._retry_s

    def begin_trial(self) -> None:
        """Note that the gateway tries it now."""
        self.is_suspected, self._is_tried = False, True
        if self.state == "open":
            self.state = "half_open"

    def note_failure(self, kind: Literal["session", "look", "trial"], reason: str) -> None:
        """Note that a session could not be opened, that nobody answered at the address, or that a trial
        failed."""
        if kind == "trial":
            self._is_tried = False
        else:
            self._failed[kind] += 1
            if self._failed[kind] < self._most or self.state != "closed":
                return
        if kind == "session":  # RULE (sessions-open-no-breaker)
            self.is_suspected = True
            return
        self.state, self.reason, self._opened = "open", reason, self._clock()
        self.went_down.set()

    def note_success(self, kind: Literal["session", "look", "trial"]) -> None:
        """Note that it went well."""
        if kind == "look":
            self._failed["look"] = 0
            return
        if kind == "trial":
            self._is_tried = False
        elif self.state != "closed":
            return
        self._failed = {"session": 0, "look": 0}
        self.state, self.reason, self.is_suspected = "closed", "", False
        self.went_down.clear()
