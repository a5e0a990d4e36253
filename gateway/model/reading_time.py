"""How long Spark's parser was asked while one statement was decided on, for its record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType


class ReadingTime:
    """Counts the seconds in which at least one question was open, of those asked within."""

    __slots__ = ("_before", "_clock", "_open", "_since", "seconds")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.seconds = 0.0
        self._open = 0
        self._since = 0.0

    def __enter__(self) -> ReadingTime:
        """Have what is asked within be counted, by itself."""
        self._before = _CURRENT.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _CURRENT.reset(self._before)

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
def count_reading() -> Iterator[None]:
    """Count what is asked within, where somebody measures."""
    counted = _CURRENT.get()
    if counted is None:
        yield
        return
    with counted.count():
        yield
