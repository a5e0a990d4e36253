"""Another commit of this repository, checked out and with an environment in which it runs.

Kept below `.run/compare`, so that the second comparison with the same commit begins at once.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KEPT = ROOT / ".run" / "compare"
LOCK = "constraints.txt"
CHANGELOG = ROOT / "CHANGELOG.md"
RELEASE = re.compile(r"## \[\d")


@dataclass(frozen=True, slots=True)
class Build:
    """A checkout, and the Python that has what it needs."""

    name: str
    directory: Path
    python: str


def this_build() -> Build:
    """Return the build that this program is of."""
    return Build("this build", ROOT, sys.executable)


def prepare_base(ref: str) -> Build:
    """Check a commit out and return it with its environment: ours where both lock the same versions.

    Raises CalledProcessError where there is no such commit, or what it needs cannot be installed.
    """
    commit = _git("rev-parse", "--verify", f"{ref}^{{commit}}")
    directory = KEPT / commit
    if not (directory / "pyproject.toml").exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        _git("worktree", "prune")
        _git("worktree", "add", "--detach", "--force", str(directory), commit)
    name = f"base {commit[:8]}"
    if _locked(directory) == _locked(ROOT):
        return Build(name, directory, sys.executable)
    environment = directory / ".venv"
    done = environment / ".compared"
    if not done.exists():
        print(f"{name} locks other versions: installing them once into {environment}", flush=True)
        subprocess.run([str(directory / "deploy" / "setup.sh"), str(environment)], cwd=directory, check=True)
        done.touch()
    return Build(name, directory, str(environment / "bin" / "python"))


def last_release() -> str:
    """Return the commit of the last release: that which gave it its section in the changelog."""
    version = next(line for line in CHANGELOG.read_text().splitlines() if RELEASE.match(line))
    return _git("log", "-1", "--format=%H", f"-S{version}", "--", CHANGELOG.name)


def _locked(directory: Path) -> tuple[str, Any]:
    """Return what decides which versions an environment has."""
    lock = directory / LOCK
    project = tomllib.loads((directory / "pyproject.toml").read_text())["project"]
    needs = {key: project.get(key) for key in ("dependencies", "optional-dependencies", "requires-python")}
    return (lock.read_text() if lock.exists() else "", needs)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()
