"""What tests of sending share: a server that does as a test wants, on a real socket, and statements."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from aiohttp import web

from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.http import HttpOptions, HttpSink
from gateway.lineage.openlineage.spool import EventSpool, EventSpoolLimits
from gateway.lineage.rows import IMPORTED, SeenStatement
from tests.lineage.statements import seen

Event = dict[str, Any]
Answer = web.StreamResponse | int | bytes | None
"""A response; a status; bytes instead of HTTP; None: silence."""


@dataclass(slots=True)
class Server:
    """Keeps what it was asked and what it took."""

    answer: Callable[[Event], Answer] = lambda event: 201
    asked: list[tuple[Event, dict[str, str]]] = field(default_factory=list)
    taken: list[Event] = field(default_factory=list)
    port: int = 0
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def options(self) -> HttpOptions:
        """Options of a client that does not wait long."""
        return HttpOptions(
            url=f"http://127.0.0.1:{self.port}/api/v1/lineage", first_pause_s=0.001, longest_pause_s=0.01
        )

    async def until(self, holds: Callable[[Server], bool]) -> None:
        """Return once something holds of what was asked and taken."""
        async with self._changed:
            await self._changed.wait_for(lambda: holds(self))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """Listen, on the same port each time."""
        application = web.Application(client_max_size=64 * 1024**2)
        application.router.add_post("/api/v1/lineage", self._take)
        runner = web.AppRunner(application, shutdown_timeout=0.01)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _take(self, request: web.Request) -> web.StreamResponse:
        event = json.loads(await request.read())
        answer = self.answer(event)
        async with self._changed:
            self.asked.append((event, {k.lower(): v for k, v in request.headers.items()}))
            if isinstance(answer, int) and answer < 300:
                self.taken.append(event)
            self._changed.notify_all()
        if isinstance(answer, web.StreamResponse):
            return answer
        if isinstance(answer, int):
            return web.Response(status=answer, text="no\x1b[31m", headers={"Connection": "keep-alive"})
        assert request.transport is not None
        if answer is None:
            await asyncio.Event().wait()
        request.transport.write(answer or b"")
        request.transport.close()
        return web.Response()


WRITER = EventWriter()


def statement(number: int, length: int = 1) -> SeenStatement:
    """Return one that makes one event, and whose user is its number."""
    edges = (f"a.x -> b.y{i}: x IDENTITY" for i in range(length))
    return replace(seen(*edges), user=str(number), outcome=IMPORTED)


def numbers(events: list[dict[str, Any]]) -> list[str]:
    return [str(event["job"]["name"]) for event in events]


def names(*wanted: int) -> list[str]:
    return [str(number) for number in wanted]


def sink_of(server: Server, path: Path, options: HttpOptions | None = None, **limits: float) -> HttpSink:
    spool = EventSpool(path / "spool", limits=EventSpoolLimits(**limits))  # type: ignore[arg-type]
    naming = replace(WRITER.naming, job="{user}")
    return HttpSink(options or server.options, spool, replace(WRITER, naming=naming), random=Random(7))
