"""`python -m gateway.jobs.pacing SHARE COMMAND…`: has a command, with all that it starts, run for a share of
the time.

Priorities decide who runs first; they leave caches and memory to whoever runs. So what gives way to a gateway
on the same processors is stopped and continued, twice a second. Whatever ends this process in between,
nothing stays stopped: the command's process group has no parent in its session any more, and the kernel has
processes of such a group continue, and hang up (POSIX, `_exit`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

PERIOD_S = 0.5


def main(share: float, command: list[str]) -> int:
    """Run a command to its end and return its code. This process leads a session; SIGTERM is passed on."""
    process = subprocess.Popen(command, process_group=0)
    ended = threading.Event()

    def stop(number: int, frame: object) -> None:
        process.send_signal(number)
        ended.set()

    signal.signal(signal.SIGTERM, stop)
    pacing = threading.Thread(target=_pace, args=(share, ended), daemon=True)
    pacing.start()
    try:
        return process.wait()
    finally:
        ended.set()
        pacing.join()


def _pace(share: float, ended: threading.Event) -> None:
    while not ended.wait(PERIOD_S * share):
        try:
            _tell_all(signal.SIGSTOP)
            ended.wait(PERIOD_S * (1 - share))
        finally:
            _tell_all(signal.SIGCONT)


def _tell_all(number: signal.Signals) -> None:
    """Send a signal to all others of this session: Spark's Python workers have groups of their own."""
    for pid in _others(os.getsid(0)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _others(session: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                # The name, in parentheses, may hold anything: state, parent, group and session are behind it.
                if int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                    yield int(entry.name)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
