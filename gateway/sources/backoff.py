"""How long to wait: a regular interval while all is well, longer and longer while it is not."""

from __future__ import annotations

from random import Random

FIRST_S = 1.0
MAX_S = 120.0
SPREAD = 0.1


class Backoff:
    """Waits for one thing that is asked again and again.

    Randomness keeps many gateways from asking at the same time.
    """

    def __init__(self, interval_s: float, random: Random) -> None:
        self._interval_s = interval_s
        self._random = random
        self._failures = 0

    def record_success(self) -> float:
        """Return the seconds until the next question after an answer."""
        self._failures = 0
        return self._interval_s * self._random.uniform(1 - SPREAD, 1)

    def record_failure(self) -> float:
        """Return the seconds until the next try: 1, 2, 4, … up to 120, each less up to half of it."""
        # 2**10 seconds are beyond the limit already; the exponent must not grow for days.
        delay = min(MAX_S, FIRST_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        return delay * self._random.uniform(0.5, 1)
