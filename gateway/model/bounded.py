"""A dict of so many entries, and the bytes of a stream up to so many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Keeps at most so many entries: beyond that the one goes that was written, or moved, first."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.most:
            self.popitem(last=False)


async def read_bounded(read: Callable[[int], Awaitable[bytes]], most: int) -> bytes | None:
    """Return all that a stream has, None if that is more than `most` bytes; `read` gives up to as many bytes
    as it is asked for, none at the end."""
    found = bytearray()
    while more := await read(most + 1 - len(found)):
        found += more
        if len(found) > most:
            return None
    return bytes(found)
