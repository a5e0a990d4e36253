"""Finds a user for the embedded Spark to run as, and puts what that user must read within its reach.

A statement reaches the file system with the server's rights (a `reflect` that slipped through, a path that
was granted too widely), so Spark never runs as root: as root, we hand it to `nobody`.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gateway.errors import SluiceError

STATE = Path("/var/lib/sluice")
"""Where root keeps state for the unprivileged user when the chosen directory is below a closed one."""
CANDIDATES = ("sluice", "nobody")


class NoUnprivilegedUser(SluiceError):
    """Root has no user to hand a process to."""

    code = "NO_UNPRIVILEGED_USER"
    sqlstate = "58000"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAs:
    """The user that a process becomes."""

    name: str
    uid: int
    gid: int


def run_as() -> RunAs | None:
    """Return the user to become when we are root, else None. Raises NoUnprivilegedUser."""
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return RunAs(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise NoUnprivilegedUser(
        f"running as root requires one of the users {', '.join(CANDIDATES)}, as whom Spark is run"
    )


def can_reach(path: Path, user: RunAs) -> bool:
    """Whether the user may traverse every parent of `path` and read `path` itself, by its mode bits."""
    resolved = path.resolve()
    if not all(_may(parent, user, stat.S_IXOTH) for parent in resolved.parents):
        return False
    wanted = stat.S_IROTH | (stat.S_IXOTH if resolved.is_dir() else 0)
    return resolved.exists() and _may(resolved, user, wanted)


def _may(path: Path, user: RunAs, bits: int) -> bool:
    found = path.stat()
    if found.st_uid == user.uid:
        bits <<= 6
    elif found.st_gid == user.gid:
        bits <<= 3
    return found.st_mode & bits == bits


def state_place(directory: Path, user: RunAs | None) -> Path:
    """Return `directory`, or a stand-in below `/var/lib/sluice` when the user cannot get there.

    The stand-in's name is derived from `directory`, so that the same directory finds the same state again.
    """
    directory = directory.absolute()
    if user is None:
        return directory
    above = next(parent for parent in directory.parents if parent.exists()).resolve()
    if all(_may(parent, user, stat.S_IXOTH) for parent in (above, *above.parents)):
        return directory
    digest = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return STATE / f"{directory.name}-{digest}"


def state_directory(directory: Path, user: RunAs | None) -> Path:
    """Return the place for `directory`'s state, created and owned by the user with mode 0700."""
    place = state_place(directory, user)
    place.mkdir(parents=True, exist_ok=True)
    if user is not None:
        os.chown(place, user.uid, user.gid)
    place.chmod(0o700)
    return place


def within_reach(tree: Path, user: RunAs | None, shelter: Path) -> Path:
    """Return `tree`, or a copy of it in `shelter` when the user cannot read it where it is.

    Files are hard-linked where the file system allows it (pyspark's jars are 456 MB), else copied. A copy
    made before is used again when it holds the same files.
    """
    if user is None or all(can_reach(path, user) for path in (tree, *_sample(tree))):
        return tree
    digest = hashlib.sha256(os.fsencode(tree.resolve())).hexdigest()[:8]
    copy = shelter / f"{tree.name}-{digest}"
    if _list_tree(copy) == _list_tree(tree):
        return copy
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tree, copy, symlinks=True, copy_function=_link_or_copy)
    for directory, _, files in os.walk(copy):
        os.chmod(directory, 0o755)  # noqa: S103, PTH101 read by the unprivileged user; holds nothing but programs
        for name in files:
            file = Path(directory, name)
            if not file.is_symlink() and not can_reach(file, user):
                _own_copy(file)
    return copy


def file_within_reach(file: Path, user: RunAs | None, place: Path) -> None:
    """Put a file at `place`, where nothing is, linked or copied so that the user can read it."""
    _link_or_copy(str(file.resolve()), str(place))
    if user is not None and not can_reach(place, user):
        _own_copy(place)


def _sample(tree: Path) -> Iterable[Path]:
    if tree.is_dir():
        yield from list(tree.iterdir())[:3]


def _list_tree(tree: Path) -> dict[str, int] | None:
    if not tree.is_dir():
        return None
    return {
        str(path.relative_to(tree)): path.lstat().st_size
        for path in tree.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def _own_copy(file: Path) -> None:
    # A link shares its mode with the original, which is not ours to open up: so this one becomes a copy.
    mode = file.stat().st_mode
    temporary = file.with_name(file.name + ".copy")
    shutil.copyfile(file, temporary)
    temporary.chmod(stat.S_IMODE(mode) | 0o444 | (0o111 if mode & 0o100 else 0))
    temporary.replace(file)
