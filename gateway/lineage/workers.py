"""Processes that make lineage, off the event loop. One that takes too long is killed, and another begins.

A statement takes milliseconds; a hostile one may take for ever in compiled code, which only the end of its
process stops.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Protocol

from gateway.model.lineage import StatementLineage

_SPAWN = multiprocessing.get_context("spawn")
"""Not forked: the gateway has threads and sockets that a child must not have."""
_PR_SET_PDEATHSIG = 1
"""Option of prctl(2)."""
MAX_FRAMES = 6000
"""Calls within calls: each of the 450 levels that a tree may have takes up to ten."""


class HasLineage(Protocol):
    """Gathered input of a statement or plan: sent to a worker process, which returns the lineage."""

    def lineage(self) -> StatementLineage | None:
        """Return the lineage, None where there is none. Never raises."""
        ...

    def table_lineage(self, why: str) -> StatementLineage | None:
        """Return which tables are read and written; `why` no more is known."""
        ...


class LineageWorkers(AbstractAsyncContextManager["LineageWorkers"]):
    """A few processes; each makes one lineage at a time. They end with the block, or with their parent."""

    def __init__(self, processes: int = 1, *, deadline_s: float = 10.0) -> None:
        """Only remember. `deadline_s`: seconds that one statement may take."""
        self.processes = processes
        self.deadline_s = deadline_s
        self._idle: asyncio.Queue[_Worker] = asyncio.Queue()
        self._all: list[_Worker] = []

    @property
    def pids(self) -> list[int]:
        """Pids of the processes that were started and that we have not ended."""
        return [worker.pid for worker in self._all if worker.pid is not None]

    async def __aenter__(self) -> LineageWorkers:
        for _ in range(self.processes):
            worker = _Worker()
            self._all.append(worker)
            self._idle.put_nowait(worker)
        return self

    async def __aexit__(self, *_: object) -> None:
        for worker in self._all:
            worker.end()

    async def lineage(self, gathered: HasLineage) -> StatementLineage | None:
        """Return the lineage of a statement, at the level of tables where it takes too long; None where there
        is none."""
        worker = await self._idle.get()
        try:
            answer = await asyncio.to_thread(worker.ask, gathered, self.deadline_s)
        finally:
            self._idle.put_nowait(worker)
        if isinstance(answer, str):
            return gathered.table_lineage(answer)
        return answer


class _Worker:
    """One process, started when it is first asked and again after it was killed."""

    def __init__(self) -> None:
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def ask(self, gathered: HasLineage, deadline_s: float) -> StatementLineage | str | None:
        """Return the lineage, or why there is none at the level of columns."""
        pipe = self._start()
        try:
            pipe.send(gathered)
            if not pipe.poll(deadline_s):
                self.end()
                return f"it took longer than {deadline_s:g} seconds"
            answer: StatementLineage | None = pipe.recv()
        except (EOFError, OSError):
            self.end()
            return "the worker process ended"
        except RecursionError:
            return "it is nested too deep"
        return answer

    def _start(self) -> Connection:
        if self._process is None or self._pipe is None or not self._process.is_alive():
            self.end()
            self._pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True, name="sluice-lineage")
            self._process.start()
            theirs.close()
        return self._pipe

    def end(self) -> None:
        """Kill the process, whatever it does."""
        process, self._process = self._process, None
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.kill()
            process.join()


def _end_with_parent() -> None:
    """Have the kernel end this process with its parent, whatever it is at; only Linux has that.

    The kernel means the parent's thread: those of asyncio's executor live as long as its loop.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    parent = multiprocessing.parent_process()
    if parent is not None and os.getppid() != parent.pid:
        sys.exit()


def _serve(pipe: Connection) -> None:
    """Answer until the other end closes. Statements that clients wait for come first on a busy machine."""
    os.nice(10)
    sys.setrecursionlimit(MAX_FRAMES)
    _end_with_parent()
    while True:
        try:
            gathered = pipe.recv()
            pipe.send(gathered.lineage())
        except (EOFError, OSError, KeyboardInterrupt):
            return
