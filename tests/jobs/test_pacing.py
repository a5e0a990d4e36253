"""What a schedule starts runs for a share of the time, and nothing stays stopped, whoever is killed. ~5 s."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gateway.app.jobs import build_pacing_command, lower_priority
from tests.speed import patience

BUSY = "import time\nwhile True: time.process_time()"
NAMED = "import ctypes; ctypes.CDLL(None).prctl(15, b') \\xff (1 2 3')\n" + BUSY
"""Under a name that is no text, with what the kernel has around names."""
STARTING = "import subprocess, sys; subprocess.run([sys.executable, '-c', {!r}]{})"


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    made: list[subprocess.Popen[bytes]] = []

    def start(*command: str, share: float = 0.25) -> subprocess.Popen[bytes]:
        words = (*build_pacing_command(share), *command)
        made.append(subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True))
        return made[-1]

    yield start
    for one in made:
        for pid in _of_session(one.pid):
            with contextlib.suppress(ProcessLookupError):  # it may end with one that was killed before it
                os.kill(pid, signal.SIGKILL)
        one.communicate()


def _of_session(session: int) -> list[int]:
    found = []
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == session:
                found.append(pid)
        except ProcessLookupError:
            continue
    return found


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience()
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # between looks: /proc has no events


def child_of(process: subprocess.Popen[bytes]) -> psutil.Process:
    until(lambda: bool(psutil.Process(process.pid).children()))
    return psutil.Process(process.pid).children()[0]


def status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_DEAD


def gone(process: psutil.Process) -> bool:
    return status(process) in (psutil.STATUS_DEAD, psutil.STATUS_ZOMBIE)


def stopped(process: psutil.Process) -> bool:
    return status(process) == psutil.STATUS_STOPPED


def test_a_command_is_stopped_and_continued_and_its_code_told(
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    process = started(sys.executable, "-c", BUSY)
    child = child_of(process)
    for _ in range(2):
        until(lambda: stopped(child))
        until(lambda: not stopped(child))
    process.send_signal(signal.SIGTERM)
    assert process.wait(patience()) != 0
    assert not child.is_running()
    assert started(sys.executable, "-c", "raise SystemExit(7)").wait(patience()) == 7


def test_what_it_starts_in_groups_of_its_own_and_by_any_name_is_stopped_as_well(
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    child = child_of(started(sys.executable, "-c", STARTING.format(NAMED, ", process_group=0")))
    until(lambda: bool(child.children()))
    grandchild = child.children()[0]
    until(lambda: stopped(child) and stopped(grandchild))
    until(lambda: not stopped(grandchild))


def test_nothing_stays_stopped_when_it_is_killed(started: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = started(sys.executable, "-c", STARTING.format(BUSY, ""), share=0.25)
    child = child_of(process)
    until(lambda: bool(child.children()))
    grandchild = child.children()[0]
    until(lambda: stopped(child) and stopped(grandchild))
    process.kill()
    # It is killed with it; what it has started, and is stopped, the kernel has continue and hang up.
    until(lambda: gone(child) and not stopped(grandchild))


def test_a_command_that_does_not_listen_is_killed_with_it(
    started: Callable[..., subprocess.Popen[bytes]],
) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{BUSY}"
    process = started(sys.executable, "-c", deaf)
    child = child_of(process)
    until(lambda: stopped(child))
    process.send_signal(signal.SIGTERM)
    until(lambda: not stopped(child))
    process.kill()
    until(lambda: gone(child))


def test_it_stops_nothing_but_what_it_has_started() -> None:
    words = (*build_pacing_command(0.25), sys.executable, "-c", "")
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "does not lead its session" in ran.stderr


def test_without_a_share_there_is_nothing_between() -> None:
    assert build_pacing_command(1.0) == ()


def test_giving_way_counts_between_sessions(started: Callable[..., subprocess.Popen[bytes]]) -> None:
    process = started(sys.executable, "-c", BUSY, share=1.0)
    lower_priority(process.pid, 12)
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 12
    group = Path(f"/proc/{process.pid}/autogroup")
    if group.exists():  # a kernel with groups of sessions
        assert group.read_text().split()[-1] == "12"
