"""`python -m gateway.jobs.pacing SHARE COMMAND…`: has a command, with all that it starts, run for a share of
the time.

Priorities decide who runs first; they leave caches and memory to whoever runs. So what gives way to a gateway
on the same processors is stopped and continued, twice a second. Whatever ends this process, nothing of it
stays: the command is killed with it (`man prctl`, PR_SET_PDEATHSIG), and its process group has no parent in
its session any more, so that the kernel has what is stopped in it continue, and hang up (POSIX, `_exit`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

PERIOD_S = 0.5
PR_SET_PDEATHSIG = 1
PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Paced:
    """A command that runs."""

    def __init__(self, share: float, command: list[str]) -> None:
        self._share = share
        self._ending = False
        """Whether it was told to end: it does so at full speed."""
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        self._process = subprocess.Popen(command, process_group=0, preexec_fn=_prepare)
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)

    def _pass_on(self, number: int, frame: object) -> None:
        self._ending = True
        self._process.send_signal(number)

    def run(self) -> int:
        """Wait for its end; return its code, as a shell has it."""
        ended = threading.Event()
        pacing = threading.Thread(target=self._pace, args=(ended,), daemon=True)
        pacing.start()
        code = self._process.wait()
        ended.set()
        pacing.join()
        return code if code >= 0 else 128 - code

    def _pace(self, ended: threading.Event) -> None:
        while not ended.wait(PERIOD_S * self._share) and not self._ending:
            stopped = [pid for pid in _others() if _tell(pid, signal.SIGSTOP)]
            ended.wait(PERIOD_S * (1 - self._share))
            # Those first: they may have left the session since.
            for pid in (*stopped, *_others()):
                _tell(pid, signal.SIGCONT)


def _prepare() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _tell(pid: int, number: signal.Signals) -> bool:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def _others() -> Iterator[int]:
    """Yield all others of this session: Spark's Python workers have groups of their own."""
    own = os.getpid()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != own:
            with contextlib.suppress(OSError, IndexError, ValueError):
                # A process's name, in parentheses, may hold anything; its session is the fourth behind it.
                if int((entry / "stat").read_bytes().rpartition(b")")[2].split()[3]) == own:
                    yield int(entry.name)


if __name__ == "__main__":
    if os.getsid(0) != os.getpid():
        sys.exit("this process does not lead its session: pausing it would pause other programs in it")
    sys.exit(_Paced(float(sys.argv[1]), sys.argv[2:]).run())
