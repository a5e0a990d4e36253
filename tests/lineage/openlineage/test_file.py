"""The file has every event whole, whatever happened to the process, the disk or the file's name."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.errors import Faults
from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.file import FileSink
from gateway.lineage.rows import SeenStatement
from tests.lineage.openlineage.shapes import check
from tests.lineage.statements import seen
from tests.speed import patience

WRITER = EventWriter()
ONE, TWO = seen("a.x -> b.y: x IDENTITY"), seen("b.y -> c.z: y IDENTITY")


def runs(path: Path) -> list[str]:
    """Return the runs of a file's events, each once; every line is an event."""
    events = [json.loads(line) for line in path.read_bytes().splitlines()]
    for event in events:
        check(event)
    return list(dict.fromkeys(event["run"]["runId"] for event in events))


def ids(*statements: object) -> list[str]:
    return [str(statement.statement_id) for statement in statements]  # type: ignore[attr-defined]


async def test_events_are_in_the_file_when_put_returns(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "events.jsonl"
    async with FileSink(path, WRITER) as sink:
        await sink.put([ONE])
        assert runs(path) == ids(ONE)
        await asyncio.gather(*(sink.put([TWO]) for _ in range(20)))
    assert runs(path) == ids(ONE, TWO)
    assert len(path.read_bytes().splitlines()) == 2 * 21
    assert path.stat().st_mode & 0o777 == 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Hanging(EventWriter):
    """Makes events for as long as a disk that hangs takes them."""

    begun: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)

    def lines(self, seen: Iterable[SeenStatement]) -> bytes:
        self.begun.set()
        self.over.wait()
        return WRITER.lines(seen)


async def test_a_disk_that_hangs_has_one_thread_and_not_everybodys(tmp_path: Path) -> None:
    path, writer = tmp_path / "events.jsonl", Hanging()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    async with FileSink(path, writer) as sink:
        given_up = asyncio.create_task(sink.put([ONE]))
        try:
            await asyncio.to_thread(writer.begun.wait)
            given_up.cancel()
            async with asyncio.timeout(patience()):
                for _ in range(5):
                    with pytest.raises(Faults, match="earlier events are not on disk yet"):
                        await sink.put([TWO])
                # Whoever else needs a thread has one.
                assert await asyncio.to_thread(lambda: "free") == "free"
        finally:
            writer.over.set()
    assert runs(path) == ids(ONE)


async def test_a_file_that_was_renamed_is_begun_anew(tmp_path: Path) -> None:
    path, old = tmp_path / "events.jsonl", tmp_path / "events.jsonl.1"
    async with FileSink(path, WRITER) as sink:
        await sink.put([ONE])
        path.rename(old)
        await sink.put([TWO])
    assert (runs(old), runs(path)) == (ids(ONE), ids(TWO))


async def test_two_gateways_on_one_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    async with FileSink(path, WRITER):
        with pytest.raises(Faults, match="another process writes events to"):
            async with FileSink(path, WRITER):
                pass
    async with FileSink(path, WRITER) as sink:
        await sink.put([ONE])


async def test_a_line_that_a_crash_cut_short_goes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    whole = WRITER.lines([ONE])
    path.write_bytes(whole + whole[: len(whole) // 3])
    async with FileSink(path, WRITER) as sink:
        await sink.put([TWO])
    assert runs(path) == ids(ONE, TWO)


async def test_a_cut_line_longer_than_a_chunk_goes(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(WRITER.lines([ONE]) + b'{"a":"' + b"x" * 200_000)
    async with FileSink(path, WRITER):
        assert runs(path) == ids(ONE)


async def test_another_kind_of_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("line\nnot mine")
    with pytest.raises(Faults, match="contains something other than lines of JSON"):
        async with FileSink(path, WRITER):
            pass
    assert path.read_text() == "line\nnot mine"


async def test_a_full_disk_is_an_error_and_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "events.jsonl"
    write = os.write
    async with FileSink(path, WRITER) as sink:
        await sink.put([ONE])

        def full(fd: int, data: bytes) -> int:
            if len(data) < 100:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(fd, data[:50])

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(Faults, match="No space left"):
            await sink.put([TWO])
        monkeypatch.undo()
        await sink.put([TWO])
    assert runs(path) == ids(ONE, TWO)
