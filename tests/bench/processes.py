"""CPU and memory of processes, from /proc."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.speed import patience

MIB = 1024 * 1024


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds that a process has used; the kernel counts in steps of 10 ms."""
    times = process.cpu_times()
    return float(times.user + times.system)


class Memory:
    """Resident memory of a process, and its peak since `forget_peak`."""

    def __init__(self, pid: int) -> None:
        self._proc = Path(f"/proc/{pid}")

    def forget_peak(self) -> None:
        (self._proc / "clear_refs").write_text("5")

    @property
    def resident_mib(self) -> float:
        return self._read("VmRSS")

    @property
    def peak_mib(self) -> float:
        return self._read("VmHWM")

    def _read(self, key: str) -> float:
        found = re.search(rf"^{key}:\s+(\d+) kB", (self._proc / "status").read_text(), re.MULTILINE)
        assert found is not None
        return int(found[1]) / 1024


@dataclass(frozen=True, slots=True)
class CpuUsed:
    """CPU seconds of a gateway and of what stands beside it."""

    gateway_s: float
    reader_s: float
    """The parser JVMs."""
    postgres_s: float


class GatewayProcesses:
    """The gateway's process and its children, told apart."""

    def __init__(self, pid: int) -> None:
        self.gateway = psutil.Process(pid)
        children = self.gateway.children(recursive=True)
        self._readers = [child for child in children if "sluice.ReaderMain" in child.cmdline()]
        # What makes lineage is Python's; it comes with the first statement and may be replaced.
        ours = [child for child in children if "multiprocessing" in " ".join(child.cmdline())]
        self._others = [child for child in children if child not in (*self._readers, *ours)]
        assert self._readers, "the gateway has a parser"
        self._last: dict[psutil.Process, float] = {}

    def cpu(self) -> CpuUsed:
        return CpuUsed(
            cpu_s(self.gateway), sum(map(self._so_far, self._readers)), sum(map(self._so_far, self._others))
        )

    def _so_far(self, child: psutil.Process) -> float:
        """Return its CPU seconds; of one that has ended, as PostgreSQL's workers do, the last known."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self._last[child] = cpu_s(child)
        return self._last.get(child, 0.0)


def since(before: CpuUsed, after: CpuUsed) -> CpuUsed:
    return CpuUsed(
        after.gateway_s - before.gateway_s,
        after.reader_s - before.reader_s,
        after.postgres_s - before.postgres_s,
    )


class Load:
    """Watches from its making on how busy the machine is with processes that are not ours."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_s()
        self._ours = _ours_s()

    def others_cores(self) -> float:
        """Return how many cores the others kept busy on average."""
        took = max(time.monotonic() - self._began, 1e-3)
        ours = _ours_s()
        used = sum(seconds - self._ours.get(key, 0.0) for key, seconds in ours.items())
        busy = (_busy_s() - self._busy - used) / took
        return min(max(0.0, busy), float(psutil.cpu_count() or 1))


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def _ours_s() -> dict[tuple[int, float], float]:
    return {(p.pid, p.create_time()): seconds for p, seconds in _tree()}


def _tree() -> Iterator[tuple[psutil.Process, float]]:
    """Yield our processes with what they used, children that have ended included."""
    me = psutil.Process()
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            yield process, float(times.user + times.system + times.children_user + times.children_system)


@contextlib.contextmanager
def stub_spark() -> Iterator[dict[str, int]]:
    """Run a stub Spark in a process of its own within; yield its ports by the name of their protocol."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.stub_spark"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())
    finally:
        process.stdin.close()
        ended = process.wait(patience(60))
        process.stdout.close()
    assert ended == 0
