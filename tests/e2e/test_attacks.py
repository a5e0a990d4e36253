"""The corpus of attacks and the fuzzer: no canary gets out, and answers are those over governed data.

By day one attack in three meets some shape of protection at some endpoint, by what it says; by night every
one meets every shape at both.
A finding names its statements: `python -m tests.attacks run --class …` tries them alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks import canaries, floors, world
from tests.attacks.corpus import corpus
from tests.attacks.fuzzing import fuzz
from tests.attacks.tallies import Tally
from tests.attacks.trials import Doors, by_day, doors, run, whole_matrix
from tests.e2e.running import RunningGateway, Spark
from tests.effort import tries

CORPUS = corpus()
FUZZED = 80
SEED = 20261122


@pytest.fixture(scope="module")
def opened(spark: Spark, open_directory: Path) -> Iterator[Doors]:
    """The tables, a gateway before them, and sessions at both."""
    world.build(spark)
    gateway = RunningGateway(world.write_settings(open_directory / "attacks", spark)).start()
    with doors(gateway, spark) as some:
        yield some
    assert gateway.stop() == 0
    spark.query(*world.drops(), user="loader")


def check(tally: Tally) -> None:
    assert not tally.findings, "\n".join(map(str, tally.findings[:20]))


def test_the_canaries_are_there(spark: Spark, opened: Doors) -> None:
    """Straight at Spark every shape shows them: so it is the gateway that keeps them."""
    for shape in world.SHAPES:
        if shape.name != "hidden_v":
            rows = spark.query(f"SELECT * FROM {world.LIVE}.{shape.name}", user="loader")
            assert canaries.found([repr(rows).encode()], []), shape


@pytest.mark.in_turn(12)
@pytest.mark.parametrize("name", CORPUS)
def test_nothing_gets_out(opened: Doors, name: str) -> None:
    tally = run(opened, by_day(CORPUS[name]))[name]
    check(tally)
    assert tally.answered >= floors.by_day(name), (name, tally.kinds)


@pytest.mark.night
@pytest.mark.timeout(7200)
@pytest.mark.in_turn(12)
@pytest.mark.parametrize("name", CORPUS)
def test_nothing_gets_out_of_any_shape(opened: Doors, name: str) -> None:
    tallies = run(opened, whole_matrix(CORPUS[name]))
    check(tallies[name])
    assert not floors.too_few(tallies)


@pytest.mark.in_turn(3, place=0)
@pytest.mark.timeout(7200)
def test_nothing_gets_out_of_what_nobody_wrote(opened: Doors) -> None:
    tallies = fuzz(opened, seed=SEED, count=tries(FUZZED), loud=False)
    for tally in tallies.values():
        check(tally)
    assert not floors.too_few_fuzzed(tallies)
