"""How one long list became another, found without looking at what has stayed the same."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from gateway.model.policy import Policy, TaggedResource

T = TypeVar("T", Policy, TaggedResource)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class ListDelta(Generic[T]):
    """How one list became another."""

    gone: list[T]
    came: list[T]
    unchanged: list[tuple[T, T]]
    """Elements that are equal and have the same number, but are another object now."""


def list_delta(old: Sequence[T], new: Sequence[T]) -> ListDelta[T]:
    """Compare two lists by identity, and what is left by number and equality; see `unlike`."""
    went, turned_up = unlike(old, new)
    gone = {ident: old[i] for ident, i in went.items()}
    came = {ident: new[j] for ident, j in turned_up.items()}
    unchanged: list[tuple[T, T]] = []
    if gone and came:
        by_number: dict[int, list[T]] = {}
        for item in gone.values():
            by_number.setdefault(item.id, []).append(item)
        for item in list(came.values()):
            twin = next((twin for twin in by_number.get(item.id, ()) if twin == item), None)
            if twin is not None:
                by_number[item.id].remove(twin)
                unchanged.append((twin, item))
                del gone[id(twin)], came[id(item)]
    return ListDelta(list(gone.values()), list(came.values()), unchanged)


_PORTION = 512


def unlike(old: Sequence[V], new: Sequence[V]) -> tuple[dict[int, int], dict[int, int]]:
    """Return what is in the old list only and what in the new one only: identity → position.

    Lists that are mostly the same objects in the same order are compared in portions, at a hundredth of what
    looking at each item would take. No step keeps other threads waiting for long.
    """
    rest_old, rest_new = dict[int, int](), dict[int, int]()
    i = j = 0
    while i < len(old) and j < len(new):
        # Sequences find the same object equal without comparing it; what differs is looked at one by one.
        portion_old, portion_new = old[i : i + _PORTION], new[j : j + _PORTION]
        if all(map(operator.is_, portion_old, portion_new)) and len(portion_old) == len(portion_new):
            i, j = i + _PORTION, j + _PORTION
            continue
        while i < len(old) and j < len(new) and old[i] is new[j]:
            i, j = i + 1, j + 1
        if i < len(old) and j < len(new):
            skip_old, skip_new = _in_step(old, i, new, j)
            rest_old |= {id(item): at for at, item in enumerate(old[i : i + skip_old], i)}
            rest_new |= {id(item): at for at, item in enumerate(new[j : j + skip_new], j)}
            i, j = i + skip_old, j + skip_new
    rest_old |= {id(item): at for at, item in enumerate(old[i:], i)}
    rest_new |= {id(item): at for at, item in enumerate(new[j:], j)}
    for ident in rest_old.keys() & rest_new.keys():  # moved
        del rest_old[ident], rest_new[ident]
    return rest_old, rest_new


def _in_step(old: Sequence[V], i: int, new: Sequence[V], j: int) -> tuple[int, int]:
    """Return how much of each list to skip until they go on alike, or all of both."""
    size = 64
    while True:
        places = {id(item): skip for skip, item in enumerate(old[i : i + size])}
        for skip, item in enumerate(new[j : j + size]):
            found = places.get(id(item))
            if found is not None:
                return found, skip
        if i + size >= len(old) and j + size >= len(new):
            return len(old) - i, len(new) - j
        size *= 4
