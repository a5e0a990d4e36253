"""Values that no client may read, as they are at the moment when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload


class SecretValues(Sequence[str]):
    """A sequence that is made anew for each look; it shows nothing of itself."""

    def __init__(self, values: Callable[[], Iterable[str]]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(tuple(self._values()))

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...
    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return tuple(self._values())[at]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values()))

    def __repr__(self) -> str:
        return "SecretValues(***)"
