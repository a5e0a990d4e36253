"""asyncio's own event loop with a shorter way round: what became ready is run until nothing is, before the
kernel is asked again, and what the kernel says goes to its callbacks without objects in between.

Sockets, timers, subprocesses, signals and threads are asyncio's, unchanged. A statement of four calls wakes
some eighteen callbacks one after the other; asyncio asks the kernel before each of them
(docs/adr/0049-what-a-statement-costs.md).
"""

from __future__ import annotations

import asyncio
import heapq
import math
import select
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Any

ROUNDS = 8
"""How often what has become ready is run before sockets are looked at again: callbacks that always call for
more do not keep clients waiting."""
MANY_CANCELED = 100
"""Timers that were cancelled and whose time has not come, from which on asyncio clears them away, where they
are more than half."""
MAX_WAIT_S = 3600.0
"""Timers may be of a time that never comes."""
_READ, _WRITE = ~select.EPOLLOUT, ~select.EPOLLIN
"""Every event but one concerns a reader, every event but one a writer, as asyncio has it."""


class GatewayLoop(asyncio.SelectorEventLoop):
    """Runs a gateway. In debug mode it is asyncio's."""

    # asyncio's own, of which its types say nothing.
    _ready: deque[Any]
    _scheduled: list[Any]
    _timer_cancelled_count: int
    _clock_resolution: float
    _debug: bool
    _stopping: bool
    _remove_reader: Callable[[Any], bool]
    _remove_writer: Callable[[Any], bool]

    def __init__(self) -> None:
        selector = selectors.EpollSelector()
        super().__init__(selector)
        self._poll = selector._selector.poll  # type: ignore[attr-defined]
        self._keys: dict[int, selectors.SelectorKey] = selector._fd_to_key  # type: ignore[attr-defined]
        # Asked some forty times for each statement.
        self.time = time.monotonic  # type: ignore[method-assign]

    def _run_once(self) -> None:
        ready, scheduled = self._ready, self._scheduled
        canceled = self._timer_cancelled_count
        is_littered = canceled > MANY_CANCELED and 2 * canceled > len(scheduled)
        if self._debug or is_littered:
            super()._run_once()  # type: ignore[misc]  # it also clears away timers that were cancelled
            return
        self._look(self._find_wait(ready, scheduled))
        until = time.monotonic() + self._clock_resolution
        while scheduled and scheduled[0]._when < until:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False
            if timer._cancelled:
                self._timer_cancelled_count -= 1
            else:
                ready.append(timer)
        for _ in range(ROUNDS):
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            if not ready or self._stopping:
                break

    def _find_wait(self, ready: deque[Any], scheduled: list[Any]) -> float:
        """Return for how many seconds there is nothing to do; -1: until something comes."""
        while scheduled and scheduled[0]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(scheduled)._scheduled = False
        if ready or self._stopping:
            return 0
        if not scheduled:
            return -1
        # As asyncio's selector has it: no sooner than the timer, in whole milliseconds.
        left = scheduled[0]._when - time.monotonic()
        return 0 if left <= 0 else math.ceil(min(left, MAX_WAIT_S) * 1e3) * 1e-3

    def _look(self, wait_s: float) -> None:
        """Have the callbacks run for which something has come."""
        keys, ready = self._keys, self._ready
        try:
            events = self._poll(wait_s, len(keys) or 1)
        except InterruptedError:
            return
        for fd, event in events:
            key = keys.get(fd)
            if key is None:
                continue
            reader, writer = key.data
            if reader is not None and event & _READ and key.events & selectors.EVENT_READ:
                if reader._cancelled:
                    self._remove_reader(key.fileobj)
                else:
                    ready.append(reader)
            if writer is not None and event & _WRITE and key.events & selectors.EVENT_WRITE:
                if writer._cancelled:
                    self._remove_writer(key.fileobj)
                else:
                    ready.append(writer)


def make_event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a gateway: asyncio's own where this Python or system has it otherwise."""
    parts = (
        (asyncio.SelectorEventLoop, ("_run_once", "_remove_reader", "_remove_writer")),
        (asyncio.Handle, ("_run", "_cancelled")),
        (asyncio.TimerHandle, ("_when", "_scheduled")),
    )
    known = all(hasattr(kind, name) for kind, names in parts for name in names)
    if not known or not hasattr(selectors, "EpollSelector"):
        return asyncio.new_event_loop()
    return GatewayLoop()
