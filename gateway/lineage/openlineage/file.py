"""Writes events to a file of JSON lines, for whoever reads or ships files.

The file only grows. Whoever rotates it renames it, as logrotate does, and the next event is in a new file; no
signal is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from gateway.errors import Faults
from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.lines import LineFile, Lock
from gateway.lineage.openlineage.waiting import OneThread
from gateway.lineage.rows import SeenStatement


class FileSink:
    """A `LineageSink`: when `put` returns, the events are in the file and on the disk.

    A statement that comes twice is in the file twice, with the same run.
    """

    def __init__(self, path: Path, writer: EventWriter) -> None:
        self._file = LineFile(path)
        self._lock = Lock(path.with_name(path.name + ".lock"), f"writes events to `{path}`")
        self._writer = writer
        self._thread = OneThread("openlineage-file", f"{path}: earlier events are not on disk yet")

    async def __aenter__(self) -> Self:
        """Take the file. Raises Faults when another process writes it, or nobody can."""
        await asyncio.to_thread(self._lock.take)
        try:
            await asyncio.to_thread(self._append, b"")
        except BaseException:
            self._lock.release()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._thread.end(self._close)

    async def put(self, seen: Sequence[SeenStatement]) -> None:
        """Write the events of statements. Raises Faults when the file cannot be written; then some of them
        may be in it."""
        await self._thread.run(self._put, seen)

    def _put(self, seen: Sequence[SeenStatement]) -> None:
        self._append(self._writer.lines(seen))

    def _append(self, lines: bytes) -> None:
        try:
            self._file.append(lines)
        except OSError as error:
            raise Faults([f"{self._file.path}: cannot be written: {error.strerror or error}"]) from None

    def _close(self) -> None:
        self._file.close()
        self._lock.release()
