"""Slows down who guesses: failed logins are counted by address, of all endpoints together."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.errors import AuthenticationFailed

MAX_ADDRESSES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """Bounds on guessing."""

    failures: int = 10
    """Failed logins from one address within `window_s`; then further ones are refused unseen."""
    window_s: float = 60.0
    longest_block_s: float = 900.0
    """Each block in a row is twice as long as the last, up to this."""


@dataclass(slots=True)
class LoginAddress:
    """Failed logins of one client address."""

    limits: LoginLimits
    clock: Callable[[], float]
    failures: int = 0
    since: float = 0.0
    blocked_until: float = 0.0
    blocks: int = 0
    block_recorded: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """One verification at a time: failures are counted before the next one begins, so that many connections
    at once do not get more guesses than one after the other."""

    def refuse_blocked(self) -> None:
        """Raise AuthenticationFailed while the address is blocked."""
        left = self.blocked_until - self.clock()
        if left > 0:
            raise AuthenticationFailed(
                f"too many failed logins from this address; try again in {round(left + 0.5)} seconds"
            )

    def count_failure(self) -> None:
        """Count a wrong guess."""
        now = self.clock()
        if now - self.since > self.limits.window_s:
            self.since, self.failures = now, 0
        self.failures += 1
        if self.failures >= self.limits.failures:
            block = self.limits.window_s * 2**self.blocks
            self.blocked_until = now + min(block, self.limits.longest_block_s)
            self.blocks = min(self.blocks + 1, 16)
            self.block_recorded = False
            self.since, self.failures = now, 0

    def clear(self) -> None:
        """Forget failures: somebody has logged in."""
        self.failures = self.blocks = 0


class FailedLogins:
    """Addresses from where logins failed."""

    def __init__(
        self, limits: LoginLimits | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits = limits or LoginLimits()
        """May be replaced at any time."""
        self._clock = clock
        self._addresses: OrderedDict[str, LoginAddress] = OrderedDict()

    def of(self, name: str) -> LoginAddress:
        """Return what is known of an address."""
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = LoginAddress(self.limits, self._clock, since=self._clock())
        address.limits = self.limits
        self._addresses.move_to_end(name)
        while len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        return address
