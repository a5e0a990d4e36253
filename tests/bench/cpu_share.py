"""Gives processes a share of a core, so that a machine of two can show how several gateways scale."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

PERIOD_US = 20_000


@contextlib.contextmanager
def share_of_a_core(pids: Iterable[int], share: float) -> Iterator[bool]:
    """Have processes, and what they start, use that share of one core at most, all together; False where
    control groups cannot be written."""
    found = _make_group(f"sluice-bench-{uuid.uuid4().hex[:8]}")
    if found is None:
        yield False
        return
    group, is_new = found
    try:
        quota = int(share * PERIOD_US)
        if is_new:
            (group / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield True
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                (group.parent / "cgroup.procs").write_text(left)
        with contextlib.suppress(OSError):
            group.rmdir()


def _make_group(name: str) -> tuple[Path, bool] | None:
    """Return a new control group, and whether it is one of version 2."""
    for parent, file in (("/sys/fs/cgroup", "cpu.max"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")):
        group = Path(parent, name)
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / file).exists():
                return group, file == "cpu.max"
            group.rmdir()
    return None
