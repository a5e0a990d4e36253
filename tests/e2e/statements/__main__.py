"""Runs the collection and prints the shares and the refusals by reason: `python -m tests.e2e.statements`.

`--endpoint connect`, `--user ana` (who has masks and filters), `--scripts views tables`, `--examples`,
`--all` (each statement). It uses the Spark of `make lab` where one stands, or starts one.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.e2e import standing
from tests.e2e.one_pack import write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark
from tests.e2e.statements import collection, running


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.statements", description=__doc__)
    parser.add_argument("--endpoint", choices=("thrift", "connect"), default="thrift")
    parser.add_argument("--user", choices=(running.BOSS, running.ANALYST), default=running.BOSS)
    parser.add_argument("--scripts", nargs="*", default=())
    parser.add_argument("--examples", action="store_true", help="Spark's own examples of its functions, too")
    parser.add_argument("--all", action="store_true", help="print each statement that differs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-statements-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        loop = LoopThread()
        kept = standing.find()
        process = None if kept is not None else standing.server(Path(name) / "spark", Path(name))
        if process is not None:
            loop.run(process.start())
        try:
            spark = kept if kept is not None else Spark.of(process)  # type: ignore[arg-type]
            measure(spark, Path(name), given)
        finally:
            if process is not None:
                loop.run(process.stop())
            loop.close()


def measure(spark: Spark, directory: Path, given: argparse.Namespace) -> None:
    """Run what was asked for and print it."""
    users: dict[str, list[str]] = {running.BOSS: [], running.ANALYST: []}
    gateway = RunningGateway(write_settings(directory / "gateway", spark, running.PACK, users)).start()
    try:
        running.make_tables(spark, given.user)
        scripts = [*collection.of_our_own(), collection.of_the_grammar()]
        if given.examples:
            told = running.describe_functions(spark, running.list_functions(spark))
            scripts.append(collection.Script("examples", tuple(collection.examples(told))))
        if given.scripts:
            scripts = [script for script in scripts if script.name in given.scripts]
        outcomes = running.run(spark, gateway, given.endpoint, scripts, given.user)
        for line in running.report(outcomes, every=given.all):
            print(line)
        running.drop_tables(spark)
    finally:
        gateway.stop()


if __name__ == "__main__":
    main()
