"""Says how long to wait, from how fast this machine is now: the one place that limits of tests come from.

Nothing passes or fails by these limits. They end what hangs, and are far above what any step takes. A machine
is compared with the quiet one that limits and budgets were written on, in two ways. A slower processor takes
more CPU time for the same work: budgets of CPU seconds grow with that. Beside other processes the same CPU
time takes longer: limits on waiting grow with both. A measurement takes a tenth of a second of CPU, and is
made again when it is old.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

QUIET_S = 120.0
"""Seconds on a quiet machine: ten times the slowest single step, the start of a Spark."""
REFERENCE_S = 0.1
"""Seconds that `_work` takes on two quiet cores of the machine where limits and budgets were measured."""
ROUNDS = 52
MAX_AGE_S = 30.0
MAX_MEASUREMENTS = 40
"""What counts is the slowest of the last twenty minutes: a machine that was busy is likely to be so again."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Multiples of what the reference needs; 1.0 is as fast, 2.0 half as fast."""

    cpu: float
    wall: float


def _work() -> int:
    """Do what the tests do most, in Python: make objects, hash, join, sort."""
    total = 0
    for turn in range(ROUNDS):
        words = {f"word-{turn}-{number}": number for number in range(7_000)}
        ordered = sorted(words, key=words.__getitem__, reverse=True)
        total += len(" ".join(ordered)) + sum(len(word) for word in ordered)
    return total


def measure() -> Speed:
    """Do the work once and say what it took."""
    wall_s, cpu_s = time.monotonic(), time.thread_time()
    _work()
    return Speed(
        cpu=(time.thread_time() - cpu_s) / REFERENCE_S, wall=(time.monotonic() - wall_s) / REFERENCE_S
    )


class Speedometer:
    """Keeps the last measurements, and makes a new one when the last is old."""

    def __init__(self) -> None:
        self._taken: list[Speed] = []
        self._at_s = float("-inf")

    def look(self) -> None:
        """Measure, unless somebody did a moment ago."""
        if time.monotonic() - self._at_s > MAX_AGE_S:
            self._taken = [*self._taken[1 - MAX_MEASUREMENTS :], measure()]
            self._at_s = time.monotonic()

    def slowest(self) -> Speed:
        """Return the worst of the last measurements, never better than the reference."""
        self.look()
        return Speed(
            cpu=max(1.0, *(one.cpu for one in self._taken)), wall=max(1.0, *(one.wall for one in self._taken))
        )

    def mean_cpu(self) -> float:
        """Return by how much a CPU second counts for less here, on average over the last measurements."""
        self.look()
        return max(1.0, sum(one.cpu for one in self._taken) / len(self._taken))


SPEEDOMETER = Speedometer()


def patience(quiet_s: float = QUIET_S) -> float:
    """Return how many seconds to wait for something that on a quiet machine may take `quiet_s`."""
    return quiet_s * SPEEDOMETER.slowest().wall
