"""Values that no client may read, as they are at the moment when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from gateway.model.bounded import BoundedDict

HIDDEN = "***"
"""Stands for a secret of the settings."""
REDACTED = "*********(redacted)"
"""Spark's own word for what it does not show."""


def find_secrets(text: str, secrets: Iterable[str]) -> list[str]:
    """Return the secrets that stand in a text, the longest first: one may be a part of another.

    There may be thousands, tokens of users among them: many texts are looked through at once.
    """
    return sorted({one for one in secrets if one and one in text}, key=len, reverse=True)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text without secrets."""
    for secret in find_secrets(text, secrets):
        text = text.replace(secret, REDACTED)
    return text


class RevealedSecrets:
    """Values that Spark was told, of now and of before: a session keeps what it was told. Of more than `most`
    those that were told last."""

    def __init__(self, most: int = 10_000) -> None:
        self._values: BoundedDict[str, None] = BoundedDict(most)

    def add(self, values: Iterable[str]) -> None:
        """Remember what Spark is told now."""
        for value in values:
            if value:
                self._values[value] = None

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def __repr__(self) -> str:
        return "RevealedSecrets(***)"


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
