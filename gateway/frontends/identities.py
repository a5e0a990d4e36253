"""Whose groups and attributes are known: users of the file, and who logged in by something else lately.

The access of a view's definer, and of a policy's author, is asked for with what is known of them here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from gateway.frontends.login_chain import LoginSource
from gateway.model.bounded import BoundedDict
from gateway.model.principal import Principal

MAX_IDENTITIES = 100_000
"""Who logged in longest ago is forgotten first."""


class ConfirmedIdentity(NamedTuple):
    """Somebody who is not in the user file."""

    principal: Principal
    source: LoginSource
    at: float
    """When that was so: at a login, or when the directory was asked again."""


class Identities:
    """Users by name. What somebody else said of them counts for `remember_s`, and less than the user file."""

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
        self._confirmed: BoundedDict[str, ConfirmedIdentity] = BoundedDict(MAX_IDENTITIES)
        """By identity: the same name may be of several, as of an issuer's user and of the directory's."""
        self._known: Mapping[str, Principal] = {}
        self._made_of: Mapping[str, Principal] | None = None
        self._holds_until = float("-inf")

    def note(self, principal: Principal, source: LoginSource = "claims") -> None:
        """Remember somebody who is not in the user file: he has just logged in, or the directory still has
        him."""
        before = self._seen.pop(principal.user, None)
        self._seen[principal.user] = (principal, self._clock())
        while len(self._seen) > MAX_IDENTITIES:
            del self._seen[next(iter(self._seen))]
        self._confirmed[principal.identity] = ConfirmedIdentity(principal, source, self._clock())
        if before is None or before[0] != principal:
            self._made_of = None

    def find(self, principal: Principal) -> ConfirmedIdentity | None:
        """Return what was last known of somebody who is not in the user file."""
        return self._confirmed.get(principal.identity)

    def forget(self, principal: Principal) -> None:
        """Forget somebody who may not log in any more."""
        self._confirmed.pop(principal.identity, None)
        if self._seen.get(principal.user, (None,))[0] == principal:
            del self._seen[principal.user]
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
