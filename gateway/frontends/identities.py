"""Whose groups and attributes are known: users of the file, and who logged in by a token of others lately.

The access of a view's definer, and of a policy's author, is asked for with what is known of them here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from gateway.model.principal import Principal

MAX_IDENTITIES = 100_000
"""Who logged in longest ago is forgotten first."""


class Identities:
    """Users by name. What a token said of somebody counts for `remember_s`, and less than the user file."""

    def __init__(
        self,
        in_file: Callable[[], Mapping[str, Principal]],
        *,
        remember_s: float = 86_400.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._in_file = in_file
        self._remember_s = remember_s
        self._clock = clock
        self._seen: dict[str, tuple[Principal, float]] = {}
        self._known: Mapping[str, Principal] = {}
        self._made_of: Mapping[str, Principal] | None = None
        self._holds_until = float("-inf")

    def note(self, principal: Principal) -> None:
        """Remember somebody who has just logged in without being in the user file."""
        before = self._seen.pop(principal.user, None)
        self._seen[principal.user] = (principal, self._clock())
        while len(self._seen) > MAX_IDENTITIES:
            del self._seen[next(iter(self._seen))]
        if before is None or before[0] != principal:
            self._made_of = None

    @property
    def principals(self) -> Mapping[str, Principal]:
        """Everybody who is known now, by name; the same object while nothing changes."""
        in_file, now = self._in_file(), self._clock()
        if self._made_of is not in_file or now >= self._holds_until:
            self._forget(now)
            self._known = {**{name: one for name, (one, _) in self._seen.items()}, **in_file}
            self._made_of = in_file
            oldest = next((at for _, at in self._seen.values()), float("inf"))
            self._holds_until = oldest + self._remember_s
        return self._known

    def _forget(self, now: float) -> None:
        for name, (_, at) in list(self._seen.items()):
            if now - at < self._remember_s:
                break  # in the order of their logins
            del self._seen[name]
