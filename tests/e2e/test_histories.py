"""Histories of two analysts and a steward, through both endpoints, against governed copies as of each step.

Of the written ones those of issue 9 fail when their mends are taken out (`python -m tests.histories mends`
shows it); made ones are the first of `make fuzz`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.running import Spark
from tests.histories import generate, known, steps
from tests.histories.lab import Lab, lab
from tests.histories.run import Counts, Run
from tests.shares import todays

SEEDS = todays(range(1, 7), 6)
"""By day one, on each day another; `make fuzz` goes on from there."""
STEPS = 20


@pytest.fixture(scope="module")
def where(spark: Spark, open_directory: Path) -> Iterator[Lab]:
    with lab(spark, open_directory / "histories") as made:
        yield made


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("file", known.written().values(), ids=lambda file: file.stem)
def test_a_written_history(where: Lab, file: Path) -> None:
    failure = Run(where, Counts()).run(steps.read(file))
    assert failure is None, str(failure)


@pytest.mark.in_turn(5, place=1)
def test_made_histories(where: Lab) -> None:
    """A gateway that refuses everything passes no history, but it could pass half of each."""
    counts = Counts()
    for seed in SEEDS:
        failure = Run(where, counts).run(generate.history(seed, STEPS))
        assert failure is None, f"seed {seed}\n{failure}"
    assert counts.steps >= len(SEEDS) * STEPS
    answered, refused = sum(counts.answered.values()), sum(counts.refused.values())
    # One history may have more than its part of what is refused.
    assert refused < answered / (2 if len(SEEDS) > 1 else 1), (counts.answered, counts.refused)
