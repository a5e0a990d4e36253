"""A Python that Spark's unprivileged user can run: what executes Python functions that a policy grants."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gateway.backends.unprivileged import can_reach, run_as


def worker_python(shelter: Path) -> Path:
    """Return this interpreter, or a copy in `shelter` when Spark's user cannot get to it.

    A version manager of root's keeps it in a closed home. Packages are taken from where they are.
    """
    user = run_as()
    if user is None or can_reach(Path(sys.executable), user):
        return Path(sys.executable)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    base, copy = Path(sys.base_prefix), shelter / "worker-python"
    wrapper = copy / "bin" / "worker-python"
    if not wrapper.exists():
        (copy / "bin").mkdir(parents=True)
        (copy / "lib").mkdir()
        shutil.copy2(base / "bin" / name, copy / "bin" / name)
        for library in base.glob("lib/libpython*"):
            shutil.copy2(library, copy / "lib", follow_symlinks=False)
        shutil.copytree(
            base / "lib" / name,
            copy / "lib" / name,
            symlinks=True,
            copy_function=_link_or_copy,
            ignore=shutil.ignore_patterns("site-packages", "test", "__pycache__"),
        )
        packages = Path(sys.prefix) / "lib" / name / "site-packages"
        wrapper.write_text(
            f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec "{copy / "bin" / name}" "$@"\n'
        )
        wrapper.chmod(0o755)
    return wrapper


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
