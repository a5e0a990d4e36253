"""`python -m tests.histories fuzz | replay FILE… | mends`."""

from __future__ import annotations

import argparse
import itertools
import logging
import time
from pathlib import Path

from tests.histories import generate, known, steps
from tests.histories.comparing import Failure
from tests.histories.lab import Lab, a_spark, lab
from tests.histories.mends import MENDS, command
from tests.histories.run import Counts, Run
from tests.histories.shrink import shrunk

FOUND = Path(__file__).parents[2] / ".run" / "histories"
"""Where histories that failed are written."""


def tell(line: str) -> None:
    print(line, flush=True)


def ignore(line: str) -> None:
    """Tell nothing of a step."""


def told(counts: Counts, started: float) -> str:
    seconds = time.monotonic() - started
    return (
        f"{seconds:7.0f} s: {counts.histories} histories, "
        f"{counts.steps} steps ({counts.steps / seconds:.1f}/s), "
        f"{counts.statements} statements ({counts.statements / seconds:.1f}/s), "
        f"{sum(counts.refused.values())} refused, {sum(counts.answered.values())} answered"
    )


def keep(where: Lab, seed: int, history: list[steps.Step], failure: Failure, directory: Path) -> Path:
    """Shrink a history that failed and write it down."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{seed}.jsonl"
    steps.write(file, history, f"seed {seed}\n{failure}")
    print(f"\nseed {seed} failed; shrinking\n{failure}", flush=True)
    small, last = shrunk(history, failure, lambda tried: Run(where, Counts()).run(tried))
    steps.write(file, small, f"seed {seed}, shrunk from {len(history)} steps\n{last}")
    print(f"shrunk to {len(small)} steps in {file}:", *small, str(last), sep="\n", flush=True)
    return file


def fuzz(arguments: argparse.Namespace) -> int:
    """Try new histories until the time is over."""
    counts, found = Counts(), list[Path]()
    with a_spark() as (spark, directory), lab(spark, directory / "histories") as where:
        started = shown = time.monotonic()
        try:
            for seed in itertools.count(arguments.seed):
                if time.monotonic() - started > arguments.minutes * 60:
                    break
                history = generate.history(seed, arguments.steps)
                failure = Run(where, counts).run(history)
                if failure is not None:
                    found.append(keep(where, seed, history, failure, arguments.directory))
                if time.monotonic() - shown > arguments.every:
                    shown = time.monotonic()
                    print(told(counts, started), flush=True)
        except KeyboardInterrupt:
            print("stopped")
        print(told(counts, started))
    print("answered:", dict(counts.answered.most_common()))
    print("refused:", dict(counts.refused.most_common()))
    print(f"{len(found)} failed", *found, sep="\n  ", flush=True)
    return 1 if found else 0


def replay(arguments: argparse.Namespace) -> int:
    """Run histories again, telling every step."""
    status = 0
    with a_spark() as (spark, directory), lab(spark, directory / "histories") as where:
        for file in arguments.file:
            failure = Run(where, Counts(), tell).run(steps.read(file))
            print(f"{file}: {failure or 'nothing'}", flush=True)
            status |= failure is not None
    return status


def mends(arguments: argparse.Namespace) -> int:
    """Take each mend out and run its history, which must fail; with `--seeds`, made histories as well."""
    unnoticed = []
    with a_spark() as (spark, directory):
        for item, file in known.written().items():
            if item not in MENDS or (arguments.item and item not in arguments.item):
                continue
            with lab(spark, directory / f"without-{item}", command(item)) as where:
                failure = Run(where, Counts(), tell if arguments.tell else ignore).run(steps.read(file))
                print(f"without item {item}, {file.name}: {failure or 'NOTHING NOTICED'}", flush=True)
                if failure is None:
                    unnoticed.append(item)
                for seed in range(arguments.seed, arguments.seed + arguments.seeds):
                    failure = Run(where, Counts()).run(generate.history(seed, arguments.steps))
                    if failure is not None:
                        print(f"without item {item}, seed {seed}: {failure}", flush=True)
                        break
    print(f"unnoticed: {unnoticed or 'none'}")
    return 1 if unnoticed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.histories", description=__doc__)
    commands = parser.add_subparsers(required=True)
    parsed = commands.add_parser("fuzz", help="try new histories; what fails is shrunk and kept")
    parsed.add_argument("--minutes", type=float, default=60)
    parsed.add_argument("--seed", type=int, default=1, help="the first one")
    parsed.add_argument("--steps", type=int, default=30, help="of each history, at least")
    parsed.add_argument("--every", type=float, default=30, help="seconds between lines")
    parsed.add_argument("--directory", type=Path, default=FOUND)
    parsed.set_defaults(work=fuzz)
    parsed = commands.add_parser("replay", help="run histories again")
    parsed.add_argument("file", type=Path, nargs="+")
    parsed.set_defaults(work=replay)
    parsed = commands.add_parser("mends", help="take each mend out, and show that its history fails")
    parsed.add_argument("--item", type=int, action="append", help="only this one")
    parsed.add_argument("--seed", type=int, default=1)
    parsed.add_argument("--tell", action="store_true", help="every step")
    parsed.add_argument("--seeds", type=int, default=0, help="made histories that are tried as well")
    parsed.add_argument("--steps", type=int, default=30)
    parsed.set_defaults(work=mends)
    arguments = parser.parse_args()
    # PySpark writes every error of a query in full.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    status: int = arguments.work(arguments)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
