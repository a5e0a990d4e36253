"""Tells whether a gateway can write where its settings say, and how much the disk there holds."""

from __future__ import annotations

import os
from pathlib import Path


def unwritable(directory: Path) -> str | None:
    """Return why nothing can be written in a directory, which is made where it is not there; or None."""
    if directory.exists() and not directory.is_dir():
        return f"`{directory}` is not a directory"
    if directory.is_symlink() and not directory.exists():
        return f"`{directory}` is a link whose target does not exist"
    above = _find_existing(directory)
    if not above.is_dir():
        return f"`{directory}` cannot be created: `{above}` is not a directory"
    if not os.access(above, os.W_OK | os.X_OK):
        who = f"user id {os.geteuid()}"
        if above == directory:
            return f"`{directory}` is not writable by {who}"
        return f"`{directory}` cannot be created: `{above}` is not writable by {who}"
    if os.statvfs(above).f_blocks == 0:
        return f"`{directory}` cannot be created: `{above}` is not on a disk"
    return None


def _find_existing(directory: Path) -> Path:
    """Return a directory, or the nearest above it that is there."""
    while not directory.exists() and directory != directory.parent:
        directory = directory.parent
    return directory


def unwritable_file(file: Path) -> str | None:
    """Return why nothing can be written to a file of a directory that can be written; or None."""
    if file.exists() and not file.is_file():
        return f"`{file}` is no file"
    if file.exists() and not os.access(file, os.R_OK | os.W_OK):
        return f"`{file}` cannot be written by user id {os.geteuid()}"
    return None


def free_bytes(directory: Path) -> int | None:
    """Return what is left on the disk of a directory, which need not be there yet; or None."""
    try:
        found = os.statvfs(_find_existing(directory))
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def disk_bytes(directory: Path) -> int | None:
    """Return the size of the disk of a directory, which need not be there yet; or None."""
    try:
        found = os.statvfs(_find_existing(directory))
    except OSError:
        return None
    return found.f_blocks * found.f_frsize
