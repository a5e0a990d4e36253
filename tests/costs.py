"""What each suite of a run cost: tests, wall time of its lane, and CPU time of everything that it started.

A suite is a room's tests, or one module of those on Spark. CPU is that of the whole process tree, with Spark,
PostgreSQL, gateways and clients, so a suite that shares a Spark pays for what it makes that Spark do. What is
made once for a session (the Spark itself, a world of tables) is on a bill of its own, by the fixture's name.

`tests/costs.yaml` says what each may cost on the machine of the reference. With `--budget` a run fails whose
suite costs more than half as much again: whoever raises an entry says why in the commit. CPU seconds are
compared, since a busy machine moves them less, and they count by how fast the machine was (`tests/speed.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import psutil
import pytest
import yaml

from tests.speed import SPEEDOMETER
from tests.temporary import in_memory

BUDGET = Path(__file__).with_name("costs.yaml")
OVER = 1.5
"""A multiple of its entry that a suite may cost."""
SPARE_S = 4.0
"""Seconds that any suite may cost beside that: the short ones vary more."""
ON_DISK = 3.0
"""A multiple that is allowed where temporary files are on a disk: of suites that make databases."""
CROWDED = 1.5
"""A multiple that is allowed beside many other processes: what Spark compiles in the background comes later
then, and is on the bill of whoever runs it at that moment."""
CROWD = 3.0
"""Processes for each processor, over 15 minutes, from which on a machine is crowded."""
BY_MODULE = ("e2e", "jobs")
"""Rooms in which each module is a suite."""
COLLECTION = "(collection)"
END = "(end of session fixtures)"


def budget(file: Path = BUDGET) -> dict[str, float]:
    """Return suite → the CPU seconds of its entry."""
    loaded: dict[str, float] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return loaded


@dataclass
class Cost:
    """What one suite took so far."""

    tests: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, other: Cost) -> None:
        self.tests += other.tests
        self.wall_s += other.wall_s
        self.cpu_s += other.cpu_s


def suite_of(nodeid: str) -> str:
    """Return the suite of a test: `policy` for a room, `e2e/test_serve` for a module of those on Spark."""
    path = PurePosixPath(nodeid.split("::")[0]).with_suffix("")
    parts = path.parts[1:] if path.parts[0] == "tests" else path.parts
    return "/".join(parts) if parts[0] in BY_MODULE else parts[0]


class Meter:
    """Puts the time that passes, and the CPU time that this process's tree uses, on one suite at a time."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self.costs: dict[str, Cost] = {}
        self._suite = COLLECTION
        self._wall_s = time.monotonic()
        self._cpu_s = 0.0

    def charge(self, suite: str) -> Cost:
        """From now on, costs are this suite's."""
        if suite != self._suite:
            self._settle()
            self._suite = suite
        return self.costs.setdefault(suite, Cost())

    @contextmanager
    def charging(self, suite: str) -> Iterator[None]:
        """Charge a suite for what is done within, and then the one of before again."""
        before = self._suite
        self.charge(suite)
        try:
            yield
        finally:
            self.charge(before)

    def result(self) -> dict[str, Cost]:
        self._settle()
        return self.costs

    def _settle(self) -> None:
        wall_s, cpu_s = time.monotonic(), self._tree_cpu_s()
        # A process that ended and was not waited for yet is counted by nobody: never less than nothing.
        spent = Cost(wall_s=wall_s - self._wall_s, cpu_s=max(0.0, cpu_s - self._cpu_s))
        self.costs.setdefault(self._suite, Cost()).add(spent)
        self._wall_s, self._cpu_s = wall_s, cpu_s

    def _tree_cpu_s(self) -> float:
        total = 0.0
        for process in (self._process, *self._process.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            total += times.user + times.system + times.children_user + times.children_system
        return total


_METERS: list[Meter] = []
"""That of this process, while it runs tests."""


@contextmanager
def charged(suite: str) -> Iterator[None]:
    """Put what is done within on a bill of its own: a server that several suites use, whoever comes first."""
    with _METERS[-1].charging(suite) if _METERS else nullcontext():
        yield


class Costs:
    """The plugin: one meter in each process that runs tests, one table at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._meter = Meter()
        _METERS.append(self._meter)
        self._others: dict[str, Cost] = {}
        self._speeds: list[float] = []
        self._over: list[str] = []
        self._started = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._meter.charge(suite_of(item.nodeid)).tests += 1
        SPEEDOMETER.look()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[Any]:
        if fixturedef.scope != "session":
            return (yield)
        with self._meter.charging(f"(fixture {fixturedef.argname})"):
            return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        if nextitem is None:
            self._meter.charge(END)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["costs"] = {
                name: (cost.tests, cost.wall_s, cost.cpu_s) for name, cost in self._meter.result().items()
            }
            output["speed"] = SPEEDOMETER.mean_cpu()
        elif self._config.getoption("budget"):
            self._hold_to_budget(session)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        output = getattr(node, "workeroutput", {})
        for name, values in output.get("costs", {}).items():
            self._others.setdefault(name, Cost()).add(Cost(*values))
        if output:
            self._speeds.append(output["speed"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._config.getoption("costs"):
            return
        costs = self._costs()
        steps = {"(these tests)": Cost(wall_s=time.monotonic() - self._started)}
        if file := self._config.getoption("steps"):
            steps = read_steps(Path(file)) | steps
        terminalreporter.section("costs")
        for line in table(costs, steps):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"a CPU second of the reference took {self._slowness():.2f} s here")
        for line in self._over:
            terminalreporter.write_line(line, red=True)

    def _costs(self) -> dict[str, Cost]:
        # The meter of the process that hands tests out saw no suite; its tree had the workers in it.
        return self._others or self._meter.result()

    def _slowness(self) -> float:
        return max(self._speeds, default=SPEEDOMETER.mean_cpu())

    def _hold_to_budget(self, session: pytest.Session) -> None:
        if len(self._speeds) < (self._config.getoption("numprocesses", None) or 0):
            return  # a lane was stopped, or died, and what it cost is not known
        entries = budget(Path(self._config.getoption("budget")))
        slowness = self._slowness() * (1.0 if in_memory() else ON_DISK)
        if os.getloadavg()[2] > CROWD * (os.cpu_count() or 1):
            slowness *= CROWDED
        self._over = list(over_budget(self._costs(), entries, slowness))
        if self._over:
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def over_budget(costs: Mapping[str, Cost], entries: Mapping[str, float], slowness: float) -> Iterator[str]:
    """Yield a line for each suite that costs too much, or that has no entry and costs more than nothing."""
    for name, cost in costs.items():
        may_cost_s = (OVER * entries.get(name, 0.0) + SPARE_S) * slowness
        if cost.cpu_s > may_cost_s:
            entry = f"its entry of {entries[name]:g} s" if name in entries else "no entry at all"
            yield (
                f"{name} cost {cost.cpu_s:.1f} s of CPU where {may_cost_s:.1f} s are allowed by {entry}"
                f" in {BUDGET.relative_to(BUDGET.parents[1])}"
            )


def read_steps(file: Path) -> dict[str, Cost]:
    """Read what ran before the tests: lines of name, seconds of wall time and of CPU, with tabs between."""
    rows = [line.split("\t") for line in file.read_text().splitlines()]
    return {name: Cost(wall_s=float(wall_s), cpu_s=float(cpu_s)) for name, wall_s, cpu_s in rows}


def table(costs: dict[str, Cost], steps: dict[str, Cost]) -> Iterator[str]:
    """Yield the lines of a table: the most expensive suite first, their sum, and the steps of the run."""
    yield f"{'suite':44}{'tests':>8}{'wall':>12}{'CPU':>12}"
    total = Cost()
    for name, cost in sorted(costs.items(), key=lambda item: -item[1].cpu_s):
        total.add(cost)
        yield _row(name, cost)
    yield _row("sum, of all lanes", total)
    yield from (_row(f"step {name}", cost) for name, cost in steps.items())


def _row(name: str, cost: Cost) -> str:
    cpu = f"{cost.cpu_s:10.1f} s" if cost.cpu_s else ""
    return f"{name:44}{cost.tests or '':>8}{cost.wall_s:10.1f} s{cpu}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--costs", action="store_true", help="print what each suite cost: tests, wall and CPU time"
    )
    parser.addoption("--budget", help="a file of CPU seconds by suite; a suite that costs more fails the run")
    parser.addoption("--steps", help="a file with what ran before the tests, for the table of costs")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs(config), "sluice-costs")
