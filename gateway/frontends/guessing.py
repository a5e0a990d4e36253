"""Slows down who guesses: failed logins are counted by address and by user, of all endpoints together, and of
all gateways where they share a database."""

from __future__ import annotations

import asyncio
import ipaddress
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gateway.errors import AuthenticationFailed
from gateway.model.bounded import BoundedDict

MAX_COUNTERS = 10_000
MAX_UNSENT = 1000
"""Addresses and users whose failures wait to be counted by all gateways; those of guesses always do."""
KNOWN_FOR_S = 86_400.0
"""For how long an address that a user has logged in from is one of his: others cannot lock him out there."""
IPV6_PREFIX = 64
"""Somebody who has one address of such a network has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """Bounds on guessing."""

    failures: int = 10
    """Failed logins from one address within `window_s`; then further ones are refused unseen."""
    user_failures: int = 50
    """The same of one user, from all addresses together."""
    window_s: float = 60.0
    longest_block_s: float = 900.0
    """Each block in a row is twice as long as the last, up to this."""

    def of(self, key: str) -> int:
        """Return how many failures block what a key stands for."""
        return self.user_failures if key.startswith(_USER) else self.failures


class SharedCount(Protocol):
    """What all gateways together have counted."""

    @property
    def blocks(self) -> int: ...
    @property
    def blocked_s(self) -> float:
        """For how many seconds it is blocked from now on; not positive where it is not."""
        ...


class SharedFailures(Protocol):
    """Failed logins as all gateways of a database count them. Where it cannot be asked, each counts alone."""

    async def find(self, keys: Sequence[str]) -> Mapping[str, SharedCount]:
        """Return what is counted of these; nothing of those without a failure."""
        ...

    async def count(self, failures: Mapping[str, int], limits: LoginLimits) -> Mapping[str, SharedCount]:
        """Count so many failures of each key."""
        ...

    async def clear(self, keys: Sequence[str]) -> None:
        """Forget what was counted."""
        ...


_ADDRESS, _USER = "address ", "user "


@dataclass(slots=True)
class FailureCounter:
    """Failed logins of one client address, or of one user."""

    key: str
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
        """Raise AuthenticationFailed while it is blocked."""
        left = self.blocked_until - self.clock()
        if left > 0:
            what = "of this user" if self.key.startswith(_USER) else "from this address"
            raise AuthenticationFailed(
                f"too many failed logins {what}; try again in {round(left + 0.5)} seconds"
            )

    def count_failure(self) -> None:
        """Count a wrong guess."""
        now = self.clock()
        if now - self.since > self.limits.window_s:
            self.since, self.failures = now, 0
        self.failures += 1
        if self.failures >= self.limits.of(self.key):
            block = self.limits.window_s * 2**self.blocks
            self.blocked_until = now + min(block, self.limits.longest_block_s)
            self.blocks = min(self.blocks + 1, 16)
            self.block_recorded = False
            self.since, self.failures = now, 0

    def take(self, shared: SharedCount) -> None:
        """Be blocked for as long as all gateways say."""
        until = self.clock() + shared.blocked_s
        if shared.blocked_s > 0 and until > self.blocked_until + 1.0:
            self.blocked_until, self.block_recorded = until, False
        self.blocks = max(self.blocks, shared.blocks)

    def clear(self) -> None:
        """Forget failures: somebody has logged in."""
        self.failures = self.blocks = 0


@dataclass(slots=True)
class FailureBatch:
    """Failures that all gateways count by one question."""

    failures: Counter[str] = field(default_factory=Counter)
    sent: asyncio.Event = field(default_factory=asyncio.Event)


class FailedLogins:
    """Addresses from where logins failed, and users whose logins did."""

    def __init__(
        self,
        limits: LoginLimits | None = None,
        *,
        shared: SharedFailures | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits or LoginLimits()
        """May be replaced at any time."""
        self.shared = shared
        self._clock = clock
        self._counters: BoundedDict[str, FailureCounter] = BoundedDict(MAX_COUNTERS)
        self._places: BoundedDict[tuple[str, str], float] = BoundedDict(MAX_COUNTERS)
        """Users with addresses where they have logged in by a password."""
        self._unsent = FailureBatch()
        self._sending: asyncio.Task[None] | None = None

    def of(self, address: str) -> FailureCounter:
        """Return what is known of an address."""
        return self._find(_ADDRESS + network_of(address))

    def of_user(self, user: str) -> FailureCounter:
        """Return what is known of a user, whether there is one or not."""
        # As directories compare names (RFC 4518): each spelling is another guess at the same one.
        folded = " ".join(unicodedata.normalize("NFKC", user).casefold().split())
        return self._find(_USER + folded[:256])  # RULE (user-locked-by-any-spelling)

    def is_known(self, user: str, address: str) -> bool:
        """Whether a user has logged in from an address within a day."""
        at = self._places.get((user, network_of(address)), float("-inf"))
        return self._clock() - at < KNOWN_FOR_S

    def note_login(self, user: str, address: str) -> None:
        """Remember where a user has logged in."""
        key = (user, network_of(address))
        self._places[key] = self._clock()

    async def ask_others(self, counters: Sequence[FailureCounter]) -> bool:
        """Take up what other gateways have counted; whether they have counted anything."""
        if self.shared is None:
            return False
        found = await self.shared.find([one.key for one in counters])
        self._take(counters, found)
        return bool(found)

    def count_elsewhere(self, counters: Sequence[FailureCounter], *, is_guess: bool) -> asyncio.Event:
        """Have a failure counted by all gateways that is counted here already; return what is set when it is.

        One question at a time counts all that have come meanwhile. Of a flood that is slower to count than to
        come, some count here alone; not guesses, of which each connection waits for its own.
        """
        batch = self._unsent
        if self.shared is None:
            batch.sent.set()
            return batch.sent
        for one in counters:
            # RULE (failures-unsent-bound)
            if is_guess or one.key in batch.failures or len(batch.failures) < MAX_UNSENT:
                batch.failures[one.key] += 1
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send(self.shared))
        return batch.sent

    def close(self) -> None:
        """Send no more."""
        if self._sending is not None:
            self._sending.cancel()

    async def _send(self, shared: SharedFailures) -> None:
        while (batch := self._unsent).failures:
            self._unsent = FailureBatch()
            try:
                found = await shared.count(batch.failures, self.limits)
            finally:
                batch.sent.set()
            self._take([one for key in found if (one := self._counters.get(key)) is not None], found)

    async def clear_others(self, counters: Sequence[FailureCounter]) -> None:
        """Forget there what was counted."""
        if self.shared is not None:
            await self.shared.clear([one.key for one in counters])

    def _take(self, counters: Sequence[FailureCounter], found: Mapping[str, SharedCount]) -> None:
        for one in counters:
            if one.key in found:
                one.take(found[one.key])

    def _find(self, key: str) -> FailureCounter:
        found = self._counters.get(key)
        if found is None:
            found = FailureCounter(key, self.limits, self._clock, since=self._clock())
            self._counters[key] = found
        else:
            self._counters.move_to_end(key)
        found.limits = self.limits
        return found


def network_of(address: str) -> str:
    """Return what one client has to itself: an address, or of IPv6 a whole network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found.packed, IPV6_PREFIX), strict=False))  # RULE (guesses-by-network)
