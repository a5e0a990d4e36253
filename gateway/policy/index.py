"""Finds the policies that can concern a resource and a subject without looking at the others.

Policies are filed by which of their levels hold plain values ("shape") and by those values; within a file
that holds many, by the users, groups and roles that they name. A lookup visits one file for each shape that
occurs, a handful, however many policies there are. INVARIANT (complete): every policy whose resources match
and that says anything about the subject is among the candidates; the linear evaluator in the tests checks it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from gateway.policy.compiled import Entry
from gateway.policy.subjects import Subject

_MOST_KEYS = 64
"""A policy with more combinations of plain values than this is filed under fewer of its levels."""
_SPLIT_AT = 12
"""A file with more entries than this is split by the principals that they name."""

Shape = tuple[int, ...]
"""Positions of the levels whose values are keys."""


class _File:
    """Entries with the same key, and the same again by principal once there are many."""

    __slots__ = ("_by_group", "_by_role", "_by_user", "_wide", "entries")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._wide: list[Entry] | None = None
        self._by_user: dict[str, list[Entry]] = {}
        self._by_group: dict[str, list[Entry]] = {}
        self._by_role: dict[str, list[Entry]] = {}

    def concerning(self, subject: Subject) -> Iterable[Entry]:
        """Return the entries that can say something about a subject; one may come more than once."""
        if len(self.entries) <= _SPLIT_AT:
            return self.entries
        if self._wide is None:
            self._wide = self._split()
        found = [*self._wide, *self._by_user.get(subject.user, ())]
        for group in subject.groups & self._by_group.keys():
            found += self._by_group[group]
        for role in subject.roles & self._by_role.keys():
            found += self._by_role[role]
        return found

    def _split(self) -> list[Entry]:
        wide = []
        for entry in self.entries:
            policy = entry.policy
            if policy.speaks_of_everyone:
                wide.append(entry)
                continue
            items = policy.deciding_items
            for names, filed in (
                ({n for i in items for n in i.users}, self._by_user),
                ({n for i in items for n in i.groups}, self._by_group),
                ({n for i in items for n in i.roles}, self._by_role),
            ):
                for name in names:
                    filed.setdefault(name, []).append(entry)
        return wide


class _Shelf:
    """Every entry that speaks of one way down at one depth, by shape and key."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[Shape, tuple[Callable[[Sequence[str]], Any], dict[Any, _File]]] = {}

    def add(self, entry: Entry, shape: Shape, keys: Iterable[tuple[str, ...]]) -> None:
        if shape not in self._files:
            self._files[shape] = (itemgetter(*shape) if shape else _nothing, {})
        files = self._files[shape][1]
        for key in keys:
            # `itemgetter` of one position returns the value itself, of several a tuple.
            filed = key[0] if len(shape) == 1 else key
            file = files.get(filed)
            if file is None:
                file = files[filed] = _File()
            file.entries.append(entry)

    def find(self, values: Sequence[str], subject: Subject) -> list[Entry]:
        found: list[Entry] = []
        for key_of, files in self._files.values():
            file = files.get(key_of(values))
            if file is not None:
                found += file.concerning(subject)
        return found


def _nothing(_: Sequence[str]) -> tuple[str, ...]:
    return ()


class Index:
    """The entries of one service and policy type."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._level: dict[tuple[str, ...], _Shelf] = {}
        """Way down → entries that reach exactly so deep, or deeper with nothing specific further down."""
        self._below: dict[tuple[str, ...], _Shelf] = {}
        """Way down → entries that speak of something specific further down."""
        for entry in entries:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        plain = [i for i, matcher in enumerate(entry.matchers) if matcher.is_literal]
        while plain and _combinations(entry, plain) > _MOST_KEYS:
            plain.remove(max(plain, key=lambda i: len(entry.matchers[i].literals)))
        for depth in range(len(entry.levels) + 1):
            shape = tuple(i for i in plain if i < depth)
            keys = list(itertools.product(*(entry.matchers[i].literals for i in shape)))
            shelves = self._level if entry.last_specific < depth else self._below
            shelves.setdefault(entry.levels[:depth], _Shelf()).add(entry, shape, keys)

    def at(self, levels: tuple[str, ...], values: Sequence[str], subject: Subject) -> list[Entry]:
        """Return candidates that can match the resource itself (SELF or with all its descendants)."""
        shelf = self._level.get(levels)
        return shelf.find(values, subject) if shelf is not None else []

    def below(self, levels: tuple[str, ...], values: Sequence[str], subject: Subject) -> list[Entry]:
        """Return candidates that can match something below the resource only."""
        shelf = self._below.get(levels)
        return shelf.find(values, subject) if shelf is not None else []


def _combinations(entry: Entry, plain: Sequence[int]) -> int:
    product = 1
    for i in plain:
        product *= len(entry.matchers[i].literals)
    return product
