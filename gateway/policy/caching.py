"""Answers that an engine has given, each given again only in the circumstances that it holds in."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from gateway.model.context import AccessContext

_MAX_REMEMBERED = 4096
"""Answers that a memory holds; a full one is emptied, which keeps it bounded and simple."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memory(Generic[K, V]):
    """Answers by what was asked, with the fields of the context that each depends on.

    One for a request that brings tags or roles of its own is not remembered at all.
    """

    def __init__(self, most: int = _MAX_REMEMBERED) -> None:
        """`most`: what all answers together may weigh; a full memory is emptied."""
        self._known: dict[K, tuple[V, frozenset[str], tuple[object, ...]]] = {}
        self._most = most
        self._weight = 0

    def find(self, key: K, context: AccessContext) -> V | None:
        """Return the answer that was given in the same circumstances, or None."""
        known = self._known.get(key)
        if known is None or context.tags is not None or context.roles is not None:
            return None
        if known[1] and context.values(known[1]) != known[2]:
            return None
        return known[0]

    def keep(
        self,
        key: K,
        value: V,
        context: AccessContext,
        context_dependencies: frozenset[str],
        *,
        weight: int = 1,
    ) -> V:
        """Remember an answer that depends on these fields of the context, and return it."""
        if context.tags is None and context.roles is None:
            if self._weight + weight > self._most:
                self._known.clear()
                self._weight = 0
            self._weight += weight
            self._known[key] = (value, context_dependencies, context.values(context_dependencies))
        return value


def remember(memory: dict[K, V], key: K, value: V) -> None:
    if len(memory) >= _MAX_REMEMBERED:
        memory.clear()
    memory[key] = value
