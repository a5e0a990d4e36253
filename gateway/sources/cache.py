"""Files beside the gateway with the last good downloads, named and shaped as Ranger's plugins keep them.

A file is replaced whole or not at all. One that was cut short or is no JSON counts as absent, and is told of.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gateway.errors import Faults
from gateway.policy.json_documents import parse_object
from gateway.policy.json_writing import pieces
from gateway.sources.ranger_client import DownloadKind

_SUFFIX = {
    DownloadKind.POLICIES: "",
    DownloadKind.ROLES: "_roles",
    DownloadKind.TAGS: "_tag",
    DownloadKind.USERS: "_userstore",
    DownloadKind.SHARING: "_gds",
}
CONTACT = ".contact"
"""Not `.json`: this file is ours, and whoever reads the others should not meet it."""


class CacheTrouble(Exception):
    """A file of the cache cannot be used; `message` names it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


Contact = dict[DownloadKind, float]
"""When an Admin last confirmed each download, in seconds since 1970 by the wall clock."""


class Cache:
    """The files of one service: `<app>_<service>.json` and its companions."""

    def __init__(self, directory: Path, app: str, service: str, *, read_only: bool = False) -> None:
        """`read_only`: nothing is written, for a command beside the gateway whose files they are."""
        self._directory = directory
        self._read_only = read_only
        self._stem = f"{app}_{service}".replace("/", "_").replace(":", "_")

    def path(self, kind: DownloadKind) -> Path:
        """Return the file that keeps downloads of a kind."""
        return self._directory / f"{self._stem}{_SUFFIX[kind]}.json"

    @property
    def contact_path(self) -> Path:
        """The file that keeps the times of the last contact."""
        return self._directory / f"{self._stem}{CONTACT}"

    def read(self, kind: DownloadKind) -> dict[str, Any] | None:
        """Return what was kept, None when nothing was. Raises CacheTrouble."""
        return read_file(self.path(kind))

    def read_contact(self, kinds: Iterable[DownloadKind]) -> Contact:
        """Return when each of the kinds was last confirmed; from the files' own times when that was not kept.

        Raises CacheTrouble when the times were kept and cannot be read.
        """
        kept = read_file(self.contact_path)
        if kept is None:
            return self.file_times(kinds)
        times = {kind: kept.get(kind.value) for kind in kinds}
        if not all(_is_time(time) for time in times.values() if time is not None):
            raise CacheTrouble(f"{self.contact_path}: contains something other than times")
        return {kind: float(time) for kind, time in times.items() if time is not None}

    def file_times(self, kinds: Iterable[DownloadKind]) -> Contact:
        """Return when each file was written."""
        times: Contact = {}
        for kind in kinds:
            with suppress(OSError):
                times[kind] = self.path(kind).stat().st_mtime
        return times

    def write(self, kind: DownloadKind, content: Mapping[str, Any]) -> None:
        """Replace what is kept of a kind. Raises CacheTrouble."""
        if not self._read_only:
            replace_file(self.path(kind), pieces(content))

    def write_contact(self, contact: Contact) -> None:
        """Replace the times of the last contact. Raises CacheTrouble."""
        told = orjson.dumps({kind.value: time for kind, time in contact.items()})
        if not self._read_only:
            replace_file(self.contact_path, (told,))

    def set_aside(self, now: float) -> None:
        """Rename every file, with the time in its new name: the service is gone.

        One that cannot be renamed is emptied: nothing may come of it at the next start. Raises CacheTrouble.
        """
        if self._read_only:
            return
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d%H%M%S")
        troubles = []
        for path in (*(self.path(kind) for kind in DownloadKind), self.contact_path):
            try:
                path.rename(path.with_name(f"{path.name}_{stamp}"))
            except FileNotFoundError:
                continue
            except OSError as error:
                troubles.append(f"{path}: cannot be renamed: {error.strerror}")
                with suppress(OSError):
                    os.truncate(path, 0)
        if troubles:
            raise CacheTrouble("; ".join(troubles))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e11


def read_file(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file that nobody else may write; None when there is none.

    Raises CacheTrouble.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CacheTrouble(f"{path}: cannot be read: {error.strerror}") from None
    if mode & stat.S_IWOTH:
        raise CacheTrouble(
            f"{path}: is writable by everybody, which would allow everybody to change policies"
        )
    try:
        return parse_object(content, str(path))
    except Faults as error:
        raise CacheTrouble("; ".join(error.faults)) from None


def replace_file(path: Path, content: Iterable[bytes]) -> None:
    """Write a file of mode 0600 beside the old one and put it in its place once it is on the disk.

    Raises CacheTrouble.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise CacheTrouble(f"{path}: cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "wb", buffering=1024 * 1024) as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise CacheTrouble(f"{path}: cannot be written: {error.strerror}") from None
    except TypeError as error:  # orjson's own, for nesting that it does not write
        raise CacheTrouble(f"{path}: cannot be written: {error}") from None
    finally:
        Path(name).unlink(missing_ok=True)
