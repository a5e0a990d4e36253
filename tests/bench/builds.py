"""What judging a cold statement costs in two builds of the gateway, side by side.

`python -m tests.bench.builds DIRECTORY [DIRECTORY …]`: each is a checkout, and the first is what the others
are compared with. Each gets a process of its own with a parser; they take turns, so that what else the
machine does meets all of them. Prints for each kind of statement the CPU time of the gateway and its parser
together, of which how much is the parser's, in the fastest round and the middle one, and the ratios. `--only
plan` tries the kinds that begin with it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROUNDS = 25
WARM_UP = 8
SMALL = "SELECT c_name, c_phone FROM customer WHERE c_custkey = 42"
REPEATED = 22
"""How often the small statement stands in a round, in which TPC-H has each query once."""
READY = "ready"


async def measure() -> None:
    """Judge what is asked for on standard input, round by round; imports are those of the checkout."""
    from gateway.model.snapshot import Snapshot
    from gateway.model.statement import Cleared, PlanRequest, SessionContext, Statement
    from gateway.pipeline import judge
    from gateway.policy.packs import load_packs
    from gateway.policy.service_defs import load_service_defs
    from tests.bench.test_connect_judge_figures import large, small
    from tests.judge_world import SERVICE_DEFS
    from tests.plan.frames import message
    from tests.readers import patient_reader
    from tests.tpch.governed import GOVERNED, POLICIES, UNGOVERNED, catalog
    from tests.tpch.schema import QUERIES

    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    packs = {path.name: path.read_text(encoding="utf-8") for path in sorted(POLICIES.glob("*.yaml"))}
    people = {one.user: one for one in (GOVERNED, UNGOVERNED)}
    snapshot = Snapshot(policies=load_packs(packs, definitions), catalog=catalog(), principals=people)
    plans = {
        name: message(frame()).SerializeToString() for name, frame in (("large", large), ("small", small))
    }
    kinds = {
        "small": ([SMALL] * REPEATED, UNGOVERNED),
        "small, guarded": ([SMALL] * REPEATED, GOVERNED),
        "TPC-H": ([*QUERIES.values()], UNGOVERNED),
        "TPC-H, guarded": ([*QUERIES.values()], GOVERNED),
        "plan": (["large"] * REPEATED, UNGOVERNED),
        "plan, guarded": (["large"] * REPEATED, GOVERNED),
        "plan, small": (["small"] * REPEATED, UNGOVERNED),
        "plan, small, guarded": (["small"] * REPEATED, GOVERNED),
    }
    texts = 0
    async with patient_reader() as reader:
        clocks = [(~pid << 3) | 2 for pid in reader.pids]  # of the CPU time of another process, on Linux

        def parsers_s() -> float:
            return sum(map(time.clock_gettime, clocks))

        async def round_of(name: str) -> tuple[float, float]:
            nonlocal texts
            queries, principal = kinds[name]
            before, began = parsers_s(), time.process_time()
            for sql in queries:
                if sql in plans:
                    context = SessionContext(namespace=("tpch",), endpoint="connect")
                    plan = PlanRequest(kind="execute", message=plans[sql])
                    statement = Statement(text="", principal=principal, context=context, plan=plan)
                else:
                    texts += 1
                    context = SessionContext(namespace=("tpch",))
                    text = f"{sql} -- {texts}"
                    statement = Statement(text=text, principal=principal, context=context)
                verdict = await judge(statement, snapshot, reader)
                assert isinstance(verdict, Cleared), verdict
            took, parsing = time.process_time() - began, parsers_s() - before
            return (took + parsing) / len(queries), parsing / len(queries)

        print(json.dumps([READY, *kinds]), flush=True)
        for line in sys.stdin:
            print(json.dumps(await round_of(line.strip())), flush=True)


class Build:
    """One checkout's process."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "measure"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.kinds = self._answer()[1:]

    def seconds(self, kind: str) -> tuple[float, float]:
        """CPU seconds for each statement of a round: all, and those of them in the parser."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{kind}\n")
        self.process.stdin.flush()
        both, parsing = self._answer()
        return both, parsing

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


def main(directories: list[str], only: str) -> None:
    builds = [Build(Path(directory).resolve()) for directory in directories]
    for kind in builds[0].kinds:
        if not kind.startswith(only):
            continue
        took: list[list[float]] = [[] for _ in builds]
        parsed: list[list[float]] = [[] for _ in builds]
        for number in range(-WARM_UP, ROUNDS):
            for at in range(len(builds)):
                place = (at + number) % len(builds)
                both, parsing = builds[place].seconds(kind)
                if number >= 0:
                    took[place].append(1e3 * both)
                    parsed[place].append(1e3 * parsing)
        fastest, middle = [min(one) for one in took], [statistics.median(one) for one in took]
        print(f"{kind}:")
        for at, directory in enumerate(directories):
            print(
                f"  {directory}: fastest {fastest[at]:.3f} ms ({fastest[at] / fastest[0]:.2f} ×), "
                f"middle {middle[at]:.3f} ms ({middle[at] / middle[0]:.2f} ×), "
                f"of it the parser {statistics.median(parsed[at]):.3f} ms",
                flush=True,
            )
    for build in builds:
        build.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        asyncio.run(measure())
    else:
        asked = argparse.ArgumentParser()
        asked.add_argument("directories", nargs="+")
        asked.add_argument("--only", default="")
        main(**vars(asked.parse_args()))
