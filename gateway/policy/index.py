"""Finds the policies that can concern a resource and a subject without looking at the others.

Policies are filed by which of their levels hold plain values ("shape") and by those values. A file that holds
many is split by the users, groups and roles that they name, and each part by what the values with wildcards
begin with. A lookup visits one file for each shape that occurs, a handful, however many policies there are.
INVARIANT (complete): every policy whose resources match and that says anything about the subject is among the
candidates; the linear evaluator in the tests checks it.

An index does not change. `with_changes` returns another one that shares with it all but the files concerned,
so that ten policies of a hundred thousand are exchanged in milliseconds, and answers go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any

from gateway.policy.compiled import EVERYBODY, CompiledPolicy
from gateway.policy.hierarchy import ResourceEntry
from gateway.policy.subjects import Subject

_MAX_KEYS = 64
"""A policy with more combinations of plain values than this is filed under fewer of its levels."""
_SPLIT_AT = 12
"""A file with more entries than this is split by the principals that they name, and by prefix."""

Shape = tuple[int, ...]
"""Positions of the levels whose values are keys."""
_Key = Any
_Gone = Collection[ResourceEntry]


class _Bucket:
    """Entries that are looked through, or once there are many, those of fitting prefixes."""

    __slots__ = ("_by_prefix", "_rest", "entries")

    def __init__(self, entries: list[ResourceEntry], depth: int, shape: Shape) -> None:
        self.entries = entries
        self._by_prefix: dict[tuple[int, int], dict[str, list[ResourceEntry]]] | None = None
        self._rest: list[ResourceEntry] = []
        if len(entries) > _SPLIT_AT and len(shape) < depth:
            self._split(depth, shape)

    def _split(self, depth: int, shape: Shape) -> None:
        self._by_prefix = {}
        for entry in self.entries:
            prefixes, at = _prefixes(entry, depth, shape)
            if not prefixes:
                self._rest.append(entry)
            for prefix in prefixes:
                self._by_prefix.setdefault((at, len(prefix)), {}).setdefault(prefix, []).append(entry)

    def find(self, values: Sequence[str]) -> Iterable[ResourceEntry]:
        if self._by_prefix is None:
            return self.entries
        found = list(self._rest)
        for (at, length), filed in self._by_prefix.items():
            if hits := filed.get(values[at][:length]):
                found += hits
        return found


_FEW = 32


def _without(entries: list[ResourceEntry], gone: _Gone) -> list[ResourceEntry]:
    """Return another list without what is gone; a few are found fastest one after the other."""
    if len(gone) > _FEW:
        return [entry for entry in entries if entry not in gone]
    kept = entries.copy()
    for entry in gone:
        kept.remove(entry)
    return kept


def _prefixes(entry: ResourceEntry, depth: int, shape: Shape) -> tuple[Collection[str], int]:
    """Return what an asked value must begin with at the first level where that is known, and that level."""
    for at, matcher in enumerate(entry.matchers[:depth]):
        if at not in shape:
            prefixes = matcher.prefixes
            if 0 < len(prefixes) <= _MAX_KEYS:
                return prefixes, at
    return (), 0


class _File:
    """Entries with the same key, and the same again by principal once there are many."""

    __slots__ = ("_by_group", "_by_role", "_by_user", "_depth", "_shape", "_wide", "all")

    def __init__(self, depth: int, shape: Shape, entries: list[ResourceEntry]) -> None:
        self._depth, self._shape = depth, shape
        self.all = _Bucket(entries, depth, shape)
        self._wide: _Bucket | None = None
        self._by_user: dict[str, _Bucket] = {}
        self._by_group: dict[str, _Bucket] = {}
        self._by_role: dict[str, _Bucket] = {}
        if len(entries) > _SPLIT_AT:
            self._exchange((), entries)

    def find_for_subject(self, values: Sequence[str], subject: Subject) -> Iterable[ResourceEntry]:
        """Return the entries that can say something about a subject; one may come more than once."""
        if self._wide is None:
            return self.all.find(values)
        found = list(self._wide.find(values))
        if bucket := self._by_user.get(subject.user):
            found += bucket.find(values)
        for group in subject.groups & self._by_group.keys():
            found += self._by_group[group].find(values)
        for role in subject.roles & self._by_role.keys():
            found += self._by_role[role].find(values)
        return found

    def with_changes(self, gone: _Gone, new: list[ResourceEntry]) -> _File:
        """Return the file with some entries exchanged."""
        entries = _without(self.all.entries, gone)
        entries += new
        if self._wide is None or len(entries) <= _SPLIT_AT:
            return _File(self._depth, self._shape, entries)
        file = _File(self._depth, self._shape, [])
        file.all = _Bucket(entries, self._depth, self._shape)
        file._wide = self._wide
        file._by_user, file._by_group = dict(self._by_user), dict(self._by_group)
        file._by_role = dict(self._by_role)
        file._exchange(gone, new)
        return file

    def _exchange(self, gone: _Gone, new: Iterable[ResourceEntry]) -> None:
        """Put entries in and out of the parts for principals."""
        was: dict[tuple[str, str], set[ResourceEntry]] = {}
        now: dict[tuple[str, str], list[ResourceEntry]] = {}
        for entry in gone:
            for part in _principals(entry):
                was.setdefault(part, set()).add(entry)
        for entry in new:
            for part in _principals(entry):
                now.setdefault(part, []).append(entry)
        parts = {"user": self._by_user, "group": self._by_group, "role": self._by_role}
        for part in {**was, **now}:
            kind, name = part
            old = self._wide if kind == "" else parts[kind].get(name)
            out = was.get(part, ())
            kept = _without(old.entries, out) if old is not None else []
            bucket = _Bucket(kept + now.get(part, []), self._depth, self._shape)
            if kind == "":
                self._wide = bucket
            else:
                parts[kind][name] = bucket
        if self._wide is None:
            self._wide = _Bucket([], self._depth, self._shape)


def _principals(entry: ResourceEntry) -> frozenset[tuple[str, str]]:
    """Return whom an entry can say something about, as policies have it."""
    return entry.of.principals if isinstance(entry.of, CompiledPolicy) else EVERYBODY


class _LevelIndex:
    """Every entry that speaks of one way down at one depth, by shape and key."""

    __slots__ = ("depth", "files")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.files: dict[
            Shape, tuple[Callable[[Sequence[str]], _Key], dict[_Key, ResourceEntry | _File]]
        ] = {}
        """A file with one entry is that entry."""

    def find(self, values: Sequence[str], subject: Subject | None) -> list[ResourceEntry]:
        """Return the candidates; without a subject those of every subject."""
        found: list[ResourceEntry] = []
        for key_of, files in self.files.values():
            file = files.get(key_of(values))
            if file is None:
                continue
            if isinstance(file, ResourceEntry):
                found.append(file)
            elif subject is None:
                found += file.all.find(values)
            else:
                found += file.find_for_subject(values, subject)
        return found

    def with_changes(
        self, changes: dict[tuple[Shape, _Key], tuple[set[ResourceEntry], list[ResourceEntry]]]
    ) -> _LevelIndex:
        level_index = _LevelIndex(self.depth)
        level_index.files = dict(self.files)
        copied: set[Shape] = set()
        for (shape, key), (gone, new) in changes.items():
            if shape not in copied:
                key_of, files = level_index.files.get(shape) or (
                    itemgetter(*shape) if shape else _build_empty_key,
                    {},
                )
                level_index.files[shape] = (key_of, dict(files))
                copied.add(shape)
            files = level_index.files[shape][1]
            old = files.get(key)
            if isinstance(old, _File):
                file = old.with_changes(gone, new)
                entries = file.all.entries
                if len(entries) > 1:
                    files[key] = file
                    continue
            else:
                entries = [old] if old is not None and old not in gone else []
                entries += new
            if len(entries) > 1:
                files[key] = _File(self.depth, shape, entries)
            elif entries:
                files[key] = entries[0]
            else:
                files.pop(key, None)
        for shape in copied:
            if not level_index.files[shape][1]:
                del level_index.files[shape]
        return level_index


def _build_empty_key(_: Sequence[str]) -> tuple[str, ...]:
    return ()


IndexKey = tuple[bool, tuple[str, ...], Shape, _Key]
"""Index key of an entry: (matches descendants rather than the resource itself, level names from the root,
matcher shape, literal key)."""


class Index:
    """The entries of one kind: of one zone's policies of one type, say."""

    __slots__ = ("_level_indexes",)

    def __init__(self, entries: Iterable[ResourceEntry] = ()) -> None:
        self._level_indexes: tuple[dict[tuple[str, ...], _LevelIndex], dict[tuple[str, ...], _LevelIndex]] = (
            {},
            {},
        )
        """Way down → entries that reach exactly so deep, or deeper with nothing specific further down;
        and entries that speak of something specific further down."""
        gathered: dict[tuple[bool, tuple[str, ...]], dict[tuple[Shape, _Key], list[ResourceEntry]]] = {}
        for entry in entries:
            for below, levels, shape, key in _places(entry):
                gathered.setdefault((below, levels), {}).setdefault((shape, key), []).append(entry)
        for (below, levels), files in gathered.items():
            level_index = self._level_indexes[below][levels] = _LevelIndex(len(levels))
            for (shape, key), found in files.items():
                if shape not in level_index.files:
                    level_index.files[shape] = (itemgetter(*shape) if shape else _build_empty_key, {})
                file = found[0] if len(found) == 1 else _File(len(levels), shape, found)
                level_index.files[shape][1][key] = file

    def __bool__(self) -> bool:
        return bool(self._level_indexes[0] or self._level_indexes[1])

    def with_changes(self, gone: Iterable[ResourceEntry], new: Iterable[ResourceEntry]) -> Index:
        """Return the index with some entries taken out and others put in."""
        changes: dict[
            tuple[bool, tuple[str, ...]],
            dict[tuple[Shape, _Key], tuple[set[ResourceEntry], list[ResourceEntry]]],
        ] = {}
        for entry in gone:
            for below, levels, shape, key in _places(entry):
                place = changes.setdefault((below, levels), {}).setdefault((shape, key), (set(), []))
                place[0].add(entry)
        for entry in new:
            for below, levels, shape, key in _places(entry):
                place = changes.setdefault((below, levels), {}).setdefault((shape, key), (set(), []))
                place[1].append(entry)
        index = Index()
        index._level_indexes = (dict(self._level_indexes[0]), dict(self._level_indexes[1]))
        for (below, levels), files in changes.items():
            level_index = self._level_indexes[below].get(levels) or _LevelIndex(len(levels))
            level_index = index._level_indexes[below][levels] = level_index.with_changes(files)
            if not level_index.files:
                del index._level_indexes[below][levels]
        return index

    def find_at(
        self, levels: tuple[str, ...], values: Sequence[str], subject: Subject | None
    ) -> list[ResourceEntry]:
        """Return candidates that can match the resource itself (SELF or with all its descendants)."""
        level_index = self._level_indexes[0].get(levels)
        return level_index.find(values, subject) if level_index is not None else []

    def find_below(
        self, levels: tuple[str, ...], values: Sequence[str], subject: Subject | None
    ) -> list[ResourceEntry]:
        """Return candidates that can match something below the resource only."""
        level_index = self._level_indexes[1].get(levels)
        return level_index.find(values, subject) if level_index is not None else []

    def find_all(self, subject: Subject | None) -> list[ResourceEntry]:
        """Return every entry that can say something about a subject, or without one about anybody."""
        return [*self.find_at((), (), subject), *self.find_below((), (), subject)]

    def find_along_path(self, levels: tuple[str, ...]) -> list[ResourceEntry]:
        """Return the entries of resources on the same way down: above these levels, here or below."""
        return [
            entry
            for entry in self.find_all(None)
            if all(one == other for one, other in zip(entry.levels, levels, strict=False))
        ]

    def entries_with_prefix(self, levels: tuple[str, ...], values: Sequence[str]) -> list[ResourceEntry]:
        """Return the entries that may speak of something whose deepest name begins as here, of what it lies
        in or of what lies in it."""
        reach = levels[:-1], values[:-1]
        listed = (
            *self.find_at(*reach, None),
            *self.find_below(*reach, None),
            *self.find_above(levels, values),
        )
        return [entry for entry in dict.fromkeys(listed) if entry.may_begin(levels, values)]

    def find_above(self, levels: tuple[str, ...], values: Sequence[str]) -> list[ResourceEntry]:
        """Return candidates that can match something above the resource."""
        return [
            entry
            for depth in range(1, len(levels))
            for entry in self.find_at(levels[:depth], values[:depth], None)
            if len(entry.levels) == depth
        ]


def _places(entry: ResourceEntry) -> Iterator[IndexKey]:
    """Yield every place where an entry is filed."""
    matchers = entry.matchers
    plain = [i for i, matcher in enumerate(matchers) if matcher.is_literal]
    while _combinations(entry, plain) > _MAX_KEYS:
        plain.remove(max(plain, key=lambda i: len(matchers[i].literals)))
    levels, last_specific = entry.levels, entry.last_specific
    if all(len(matchers[i].literals) == 1 for i in plain):  # as nearly all are
        names = tuple([literal for i in plain for literal in matchers[i].literals])
        for below, way, shape in _list_shapes(levels, tuple(plain), last_specific):
            yield below, way, shape, names[0] if len(shape) == 1 else names[: len(shape)]
        return
    shape = ()
    keys: Sequence[tuple[str, ...]] = ((),)
    for depth in range(len(levels) + 1):
        if depth and depth - 1 in plain:
            shape = (*shape, depth - 1)
            literals = matchers[depth - 1].literals
            keys = [(*key, literal) for key in keys for literal in literals]
        below = last_specific >= depth
        way = levels[:depth] if depth < len(levels) else levels
        for key in keys:
            # `itemgetter` of one position returns the value itself, of several a tuple.
            yield below, way, shape, key[0] if len(shape) == 1 else key


@lru_cache(maxsize=1024)
def _list_shapes(
    levels: tuple[str, ...], plain: tuple[int, ...], last_specific: int
) -> list[tuple[bool, tuple[str, ...], Shape]]:
    """Return where an entry is filed whose `plain` levels have one name each, but for these names."""
    return [
        (last_specific >= depth, levels[:depth], tuple([i for i in plain if i < depth]))
        for depth in range(len(levels) + 1)
    ]


def _combinations(entry: ResourceEntry, plain: Sequence[int]) -> int:
    product = 1
    for i in plain:
        product *= len(entry.matchers[i].literals)
    return product
