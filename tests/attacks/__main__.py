"""`python -m tests.attacks`: the corpus or the fuzzer, against a Spark and a gateway of their own.

    python -m tests.attacks run [--class WORD] [--shape NAME] [--endpoint NAME] [--share N]
    python -m tests.attacks fuzz --seconds N --seed S
    python -m tests.attacks floors [--whole]

`run` goes through the whole matrix unless it is given a share. `fuzz` says every finding as it comes, and
ends with how many statements it tried in a second. Both fail when there was any, and when too little was
answered.
`floors` runs what runs by day, or the whole matrix, and writes down what share of each class is answered.
All use the Spark of `make lab` when there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.attacks import floors, fuzzing, world
from tests.attacks.corpus import Attack, corpus
from tests.attacks.tallies import Tally
from tests.attacks.trials import Doors, Trial, by_day, doors, run, share, whole_matrix
from tests.e2e import standing
from tests.e2e.running import LoopThread, RunningGateway, Spark


@contextlib.contextmanager
def some_spark(directory: Path) -> Iterator[Spark]:
    """The Spark that `make lab` keeps, or one that ends with the block."""
    if (kept := standing.find()) is not None:
        yield kept
        return
    loop = LoopThread()
    process = standing.server(directory / "spark", directory)
    try:
        loop.run(process.start())
        yield Spark.of(process)
    finally:
        loop.run(process.stop())
        loop.close()


@contextlib.contextmanager
def everything() -> Iterator[Doors]:
    """A Spark with the tables, a gateway, and sessions at both."""
    with tempfile.TemporaryDirectory(prefix="sluice-attacks-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        directory.chmod(0o711)
        with some_spark(directory) as spark:
            world.build(spark)
            gateway = RunningGateway(world.write_settings(directory / "gateway", spark)).start()
            try:
                with doors(gateway, spark) as opened:
                    yield opened
            finally:
                gateway.stop()
                spark.query(*world.drops(), user="loader")


def told(tallies: dict[str, Tally], seconds: float, too_few: list[str]) -> int:
    """Print what came of it, and what was answered too little; return the exit code."""
    for name, tally in tallies.items():
        print(f"{name:24} {dict(tally.kinds)} {len(tally.findings)} findings")
    total = sum(tally.kinds.total() for tally in tallies.values())
    findings = sum(len(tally.findings) for tally in tallies.values())
    print(f"{total} attacks in {seconds:.0f} s, {total / seconds:.1f} in a second; {findings} findings")
    for line in too_few:
        print(f"too little was answered: {line}")
    return 1 if findings or too_few else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attacks")
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--class", dest="of", default="")
    running.add_argument("--shape", default="")
    running.add_argument("--endpoint", default="")
    running.add_argument("--share", type=int, default=0)
    fuzz = commands.add_parser("fuzz")
    fuzz.add_argument("--seconds", type=float, required=True)
    fuzz.add_argument("--seed", type=int, default=0)
    measuring = commands.add_parser("floors")
    measuring.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    with everything() as opened:
        began = time.monotonic()
        if given.command == "fuzz":
            fuzzed = fuzzing.fuzz(opened, seed=given.seed, seconds=given.seconds)
            return told(fuzzed, time.monotonic() - began, floors.too_few_fuzzed(fuzzed))
        tallies: dict[str, Tally] = {}
        for name, attacks in corpus().items():
            found = run(opened, chosen(given, name, attacks))
            for tally in found.values():
                for finding in tally.findings:
                    print(finding, flush=True)
                print(f"{name}: {dict(tally.kinds)}, {time.monotonic() - began:.0f} s", flush=True)
            if given.command == "floors":
                floors.write(found, whole=given.whole)
            tallies |= found
        return told(tallies, time.monotonic() - began, floors.too_few(tallies))


def chosen(given: argparse.Namespace, name: str, attacks: Sequence[Attack]) -> Iterable[Trial]:
    """Return what of a class is run."""
    if given.command == "floors":
        return whole_matrix(attacks) if given.whole else by_day(attacks)
    if given.of not in name:
        return ()
    return (
        (attack, shape, endpoint)
        for attack, shape, endpoint in (share(attacks, given.share) if given.share else whole_matrix(attacks))
        if given.shape in ("", shape.name) and given.endpoint in ("", endpoint)
    )


if __name__ == "__main__":
    sys.exit(main())
