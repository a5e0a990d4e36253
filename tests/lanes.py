"""Two lanes: how `make test` hands the suites to pytest-xdist's processes, and how it ends on Ctrl-C.

Modules that build the same world on Spark stay in one lane, one after the other, so that the world is made
once. The longest go first, by what `tests/costs.yaml` says: what is left at the end is short, and both
lanes end together.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from types import FrameType
from typing import Any

import psutil
import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.costs import budget, suite_of

WORLDS: dict[str, Sequence[str]] = {
    "connect": (
        "connect/test_attacks",
        "connect/test_bypasses",
        "connect/test_connect_storms",
        "connect/test_filter_first",
        "connect/test_kills",
        "connect/test_raw_attacks",
        "connect/test_run_once",
        "connect/test_scenarios",
    ),
    "lab": (
        "connect/test_arguments",
        "connect/test_identity",
        "connect/test_stopped",
        "connect/test_tpcds",
        "connect/test_tpch",
        "test_bypasses",
        "test_errors",
        "test_hostile",
        "test_metric_views",
        "test_names_and_races",
        "test_noninterference",
        "test_policy_authors",
        "test_tpch",
        "test_transparency",
        "test_transparency_failures",
    ),
    "demo": ("test_clients", "test_connect_doors", "test_ended_sessions", "test_minors", "test_serve"),
}
"""World → the end-to-end modules that share its tables and gateway. Any other has a world of its own."""

JOBS = "tests/jobs/"
"""All of its modules are one world, since one Spark runs the jobs of all."""
END_TO_END = "tests/e2e/"

LEAST_S = 0.001
"""Seconds that any test takes, so that of suites without an entry the largest goes first."""
PR_SET_CHILD_SUBREAPER = 36
STOP_S = 30.0
"""What the lanes get to stop their servers after Ctrl-C, before what is left is killed."""


def lake_of(nodeid: str) -> str:
    """Return the name of the Spark that a test of the lake suites is before, its first argument, if any."""
    found = re.search(r"tests/e2e/lake/[^[]*\[(\d\.\d(-paimon)?)[]-]", nodeid)
    return found[1] if found else ""


def world_of(nodeid: str) -> str:
    """Return what a test shares with those beside it in its lane."""
    if lake := lake_of(nodeid):
        return f"{END_TO_END}lake on Spark {lake}"
    module = str(PurePosixPath(nodeid.split("::")[0]).with_suffix(""))
    if module.startswith(JOBS):
        return JOBS
    name = module.removeprefix(END_TO_END)
    return next((world for world, modules in WORLDS.items() if name in modules), module)


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """pytest-xdist's scheduler of whole scopes, with worlds for scopes and an order of ours."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._each_s: dict[str, float] = {}

    def _split_scope(self, nodeid: str) -> str:
        return world_of(nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        if not self._each_s:
            self._each_s = self._costs_of_tests()
        self.workqueue.move_to_end(max(self.workqueue, key=self._cost_s), last=False)
        super()._assign_work_unit(node)

    def _costs_of_tests(self) -> dict[str, float]:
        """Return suite → seconds of each of its tests: its entry, over how many of them this run has."""
        tests = Counter(suite_of(nodeid) for world in self.workqueue.values() for nodeid in world)
        return {suite: budget().get(suite, 0.0) / count + LEAST_S for suite, count in tests.items()}

    def _cost_s(self, world: str) -> float:
        return sum(self._each_s[suite_of(nodeid)] for nodeid in self.workqueue[world])


class Control:
    """The process that hands tests out. Nothing outlives it; what a suite left running fails the run."""

    def __init__(self) -> None:
        self._lanes: set[int] = set()
        if sys.platform == "linux":
            # Whatever loses its parent becomes our child, not the system's: so nothing is lost sight of.
            ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            threading.Thread(target=self._bury_orphans, name="orphans", daemon=True).start()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Lanes:
        return Lanes(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_newgateway(self, gateway: Any) -> None:
        self._lanes.add(gateway._io.popen.pid)

    def pytest_keyboard_interrupt(self) -> None:
        """Let the lanes stop what they started. A terminal told them already, `kill` did not; once counts."""
        for pid in self._lanes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOP_S
        with contextlib.suppress(KeyboardInterrupt):
            while self._started_by_lanes() and time.monotonic() < deadline:
                time.sleep(0.05)
        self._sweep()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        if left := self._sweep():
            print("left running, and killed:", *left, sep="\n  ", file=sys.stderr)
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
        return result

    def _started_by_lanes(self) -> bool:
        # The lanes themselves wait to be told to end, and what lost its parent is not theirs any more.
        return any(_parent(process) in self._lanes for process in self._running())

    def _running(self) -> list[psutil.Process]:
        found = psutil.Process().children(recursive=True)
        return [process for process in found if _is_running(process)]

    def _sweep(self) -> list[str]:
        """Kill what still runs; return what it was."""
        killed = []
        for process in self._running():
            with contextlib.suppress(psutil.Error):
                killed.append(f"{process.pid}: {' '.join(process.cmdline())[:300]}")
                process.kill()
        return killed

    def _bury_orphans(self) -> None:
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                ended = None
            if ended is None or ended.si_pid in self._lanes:
                time.sleep(0.2)  # the lanes are waited for by those who started them
            else:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(ended.si_pid, 0)


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def _parent(process: psutil.Process) -> int:
    try:
        return int(process.ppid())
    except psutil.Error:
        return 0


def _interrupt_once(number: int, frame: FrameType | None) -> None:
    """The first Ctrl-C ends the tests; a second one may not end the stopping of what they started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        signal.signal(signal.SIGINT, _interrupt_once)
    elif getattr(config.option, "tx", None):
        config.pluginmanager.register(Control(), "sluice-lanes")
