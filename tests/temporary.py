"""Keeps what tests write in memory, where the machine has a place for it and room.

A test of the record or of the API makes a database of some 300 files and drops it again; on a disk that costs
up to twenty times the CPU. `TMPDIR=/tmp make test` has everything on disk, and leaves it there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

MEMORY = Path("/dev/shm")
PREFIX = "sluice-tests-"
LEAST_FREE = 6 << 30
"""Bytes that the place must have, three times of what a run takes there."""
LEAST_MEMORY = 14 << 30
"""Bytes of memory that must be available: servers of a run take some 8 GB beside that."""


def has_room(place: Path) -> bool:
    """Whether a run may keep its files there, and start programs from there as Spark does."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return (
        os.access(place, os.W_OK)
        and not found.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
        and found.f_bavail * found.f_frsize >= LEAST_FREE
        and psutil.virtual_memory().available >= LEAST_MEMORY
    )


def move_to_memory() -> Path | None:
    """Have this process, and all that it starts, make temporary files in memory; return where, if so."""
    if "TMPDIR" in os.environ or not has_room(MEMORY):
        return None
    for left in MEMORY.glob(f"{PREFIX}*"):
        if not psutil.pid_exists(int(left.name.removeprefix(PREFIX))):
            shutil.rmtree(left, ignore_errors=True)
    made = MEMORY / f"{PREFIX}{os.getpid()}"
    made.mkdir(mode=0o711, exist_ok=True)
    made.chmod(0o711)  # Spark and PostgreSQL run as somebody else
    os.environ["TMPDIR"] = str(made)
    tempfile.tempdir = None
    return made


def in_memory() -> bool:
    """Whether the temporary files of this process are in memory."""
    return Path(tempfile.gettempdir()).is_relative_to(MEMORY)


# At import: the lanes of a run are started with this environment, and do not make places of their own.
_MADE = move_to_memory()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    if _MADE is not None:
        with contextlib.suppress(KeyError):
            del os.environ["TMPDIR"]
        tempfile.tempdir = None
        shutil.rmtree(_MADE, ignore_errors=True)


def pytest_report_header() -> str:
    return f"temporary files: {tempfile.gettempdir()}"
