"""`python -m tests.attacks`: the corpus or the fuzzer, against a Spark and a gateway of their own.

    python -m tests.attacks run [--class WORD] [--shape NAME] [--endpoint NAME] [--share N]
    python -m tests.attacks fuzz --seconds N --seed S
    python -m tests.attacks floors

`run` goes through the whole matrix unless it is given a share. `fuzz` says every finding as it comes, ends
with how many statements it tried in a second, and fails when there was any. `floors` measures the share of
each class that is answered by day and writes floors.yaml. All use the Spark of `make lab` when there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.attacks import fuzzing, world
from tests.attacks.corpus import corpus
from tests.attacks.trials import Doors, Tally, by_day, doors, run, share, whole_matrix, write_floors
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


def told(tallies: dict[str, Tally], seconds: float) -> int:
    """Print what came of it; return the exit code."""
    for name, tally in tallies.items():
        print(f"{name:24} {dict(tally.kinds)} {len(tally.findings)} findings")
    total = sum(tally.kinds.total() for tally in tallies.values())
    findings = sum(len(tally.findings) for tally in tallies.values())
    print(f"{total} attacks in {seconds:.0f} s, {total / seconds:.1f} in a second; {findings} findings")
    return 1 if findings else 0


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
    commands.add_parser("floors")
    given = parser.parse_args()
    with everything() as opened:
        began = time.monotonic()
        if given.command == "fuzz":
            fuzzed = fuzzing.fuzz(opened, seed=given.seed, seconds=given.seconds)
            return told(fuzzed, time.monotonic() - began)
        if given.command == "floors":
            day = [trial for attacks in corpus().values() for trial in by_day(attacks)]
            write_floors(run(opened, day))
            return 0
        tallies: dict[str, Tally] = {}
        for name, attacks in corpus().items():
            if given.of not in name:
                continue
            trials = share(attacks, given.share) if given.share else whole_matrix(attacks)
            chosen = (
                (attack, shape, endpoint)
                for attack, shape, endpoint in trials
                if given.shape in ("", shape.name) and given.endpoint in ("", endpoint)
            )
            for found, tally in run(opened, chosen).items():
                tallies.setdefault(found, Tally()).add(tally)
                for finding in tally.findings:
                    print(finding, flush=True)
        return told(tallies, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main())
