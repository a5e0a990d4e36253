"""Denials on paths, sorted: reading a directory reads what is in it, so one further down matters as well."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from gateway.policy import paths
from gateway.policy.compiled import CompiledPolicy
from gateway.policy.matching import SCRIPT_START

_LAST = "\U0010ffff"


class PathDenials:
    """Policies that deny something on a path, found by what their values begin with."""

    __slots__ = ("_excluding", "_fixed", "_open", "_sorted")

    def __init__(self, policies: Iterable[CompiledPolicy] = (), levels: Iterable[str] = ()) -> None:
        self._sorted: list[tuple[str, int]] = []
        self._fixed: list[tuple[CompiledPolicy, str]] = []
        """A policy, and a value of it up to its first wildcard, in no order; `_sorted` names their places."""
        self._open: dict[int, dict[str, list[CompiledPolicy]]] = {}
        """Length → fixed part of that length → policies whose value goes on behind it with wildcards."""
        self._excluding: list[CompiledPolicy] = []
        names = frozenset(levels)
        for policy in policies:
            held = policy.policy
            for resources in (held.resources, *held.additional_resources):
                for level in names & resources.keys():
                    if resources[level].excludes:
                        self._excluding.append(policy)
                        continue
                    for value in resources[level].values:
                        self._add(policy, value)
        self._sorted.sort()

    def _add(self, policy: CompiledPolicy, value: str) -> None:
        # Where a script or a token begins, anything may follow.
        script = SCRIPT_START in value
        written = value.partition(SCRIPT_START)[0] if script else paths.canonical(value)
        fixed = paths.fixed_part(written.split("{", 1)[0])
        if script or fixed != written:
            self._open.setdefault(len(fixed), {}).setdefault(fixed, []).append(policy)
        self._sorted.append((fixed, len(self._fixed)))
        self._fixed.append((policy, fixed))

    def reachable(self, path: str) -> Iterator[CompiledPolicy]:
        """Yield the policies that may deny something which reading `path` reads; errs on the side of more."""
        if not paths.has_scheme(path):  # whose default file system?
            yield from dict.fromkeys(policy for policy, _ in self._fixed)
            yield from self._excluding
            return
        fixed = paths.fixed_part(path)
        if fixed != path:
            yield from self._excluding
            yield from self._starting(fixed)
            yield from {p: None for p, part in self._fixed if fixed.startswith(part)}
            return
        bare = path.rstrip("/")
        if bare != path:  # to Hadoop `x/` is `x`, also where that is a file
            yield from self._between(bare, bare + "\0")
        yield from self._starting(bare + "/")
        for length, parts in self._open.items():
            yield from parts.get(path[:length], ())

    def _starting(self, prefix: str) -> Iterator[CompiledPolicy]:
        yield from self._between(prefix, prefix + _LAST)

    def _between(self, first: str, last: str) -> Iterator[CompiledPolicy]:
        start, end = (bisect_left(self._sorted, (text, -1)) for text in (first, last))
        for _, place in self._sorted[start:end]:
            yield self._fixed[place][0]
