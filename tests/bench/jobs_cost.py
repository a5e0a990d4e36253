"""What a command costs with all that it starts: CPU seconds and the peak of memory, from /proc."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from gateway.app.jobs import build_pacing_command, lower_priority

ROOT = Path(__file__).parents[2]
POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Cost:
    seconds: float
    cpu_s: float
    """Of the command, its JVM, its Python workers and parsers."""
    peak_mib: float
    """Of all of them together; what several share counts once."""
    postgres_cpu_s: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.seconds + other.seconds,
            self.cpu_s + other.cpu_s,
            max(self.peak_mib, other.peak_mib),
            self.postgres_cpu_s + other.postgres_cpu_s,
        )


class Watched:
    """A tree of processes: each counts with what it had used when it was last seen."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._cpu: dict[tuple[int, float], float] = {}
        self.peak_mib = 0.0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def look(self, *, memory: bool) -> None:
        resident = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (self._root, *self._root.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess, OSError, IndexError):
                    times = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
                    if memory:
                        resident += _proportional_kib(process.pid)
        self.peak_mib = max(self.peak_mib, resident / 1024)


def _proportional_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    return 0


def run(
    words: Sequence[str],
    *,
    postgres: int,
    allowed: Sequence[int] = (0,),
    niceness: int = 0,
    share: float = 1.0,
    cores: int | None = None,
) -> tuple[Cost, str]:
    """Run `sluice WORDS` to its end; return what it cost, and what it wrote.

    `postgres` is the pid of the server; `niceness` and `share` are as for what a schedule starts. With
    `cores`, the command and all that it starts have so many of the machine's processors, whatever threads
    they run. Raises RuntimeError with the end of its messages when it fails.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        (*build_pacing_command(share), sys.executable, "-P", "-m", "gateway", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        start_new_session=True,
    )
    lower_priority(process.pid, niceness)
    if cores is not None:
        os.sched_setaffinity(process.pid, set(sorted(os.sched_getaffinity(0))[:cores]))
    tree, server = Watched(process.pid), Watched(postgres)
    server.look(memory=False)
    before, done = server.cpu_s, threading.Event()

    def watch() -> None:
        while not done.wait(POLL_S):
            tree.look(memory=True)
            server.look(memory=False)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        out, err = process.communicate()
    finally:
        done.set()
        watcher.join()
        if process.poll() is None:
            process.kill()
    server.look(memory=False)
    if process.returncode not in allowed:
        # Java's traces are long, and may come behind what the command says.
        said = "\n".join(line for line in err.splitlines() if not line[:1].isspace())
        raise RuntimeError(f"`sluice {' '.join(words)}` ended with {process.returncode}: {said[-4000:]}")
    seconds = time.perf_counter() - began
    return Cost(seconds, tree.cpu_s, tree.peak_mib, server.cpu_s - before), out


def settings(home: Path, dsn: str, **jobs: object) -> Path:
    """Write the settings of a gateway whose record is at `dsn`, with a key for seals; return the file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    home.mkdir(exist_ok=True)
    secrets = {
        "dsn": dsn,
        "key": Ed25519PrivateKey.generate()
        .private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        .decode(),
    }
    for name, text in secrets.items():
        (home / name).touch(mode=0o600)
        (home / name).write_text(text)
    file = home / "gateway.yaml"
    ledger = {"directory": "ledger", "dsn": {"file": "dsn"}, "seal_key": {"file": "key"}}
    file.write_text(json.dumps({"ledger": ledger, "jobs": {"directory": "lake", **jobs}}))
    return file
