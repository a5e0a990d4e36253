"""How long Spark's parser was asked while one statement was decided on, for its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class ReadingTime:
    """Counts the seconds in which at least one question was open."""

    __slots__ = ("_clock", "_open", "_since", "seconds")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds = 0.0
        self._open = 0
        self._since = 0.0

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count while this lasts; what goes on at once counts once."""
        if not self._open:
            self._since = self._clock()
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open:
                self.seconds += self._clock() - self._since


_CURRENT: ContextVar[ReadingTime | None] = ContextVar("reading_time", default=None)


@contextmanager
def measure_reading(clock: Callable[[], float]) -> Iterator[ReadingTime]:
    """Have what is asked within be counted, by itself."""
    counted = ReadingTime(clock)
    before = _CURRENT.set(counted)
    try:
        yield counted
    finally:
        _CURRENT.reset(before)


@contextmanager
def count_reading() -> Iterator[None]:
    """Count what is asked within, where somebody measures."""
    counted = _CURRENT.get()
    if counted is None:
        yield
        return
    with counted.count():
        yield
