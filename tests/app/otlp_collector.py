"""A collector of traces on a real socket, which takes OTLP over HTTP as a test wants."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TOLD = f"00-{TRACE}-{PARENT}-01"


@dataclass
class Collector:
    """Takes OTLP over HTTP, as a test wants."""

    status: int = 200
    silent: bool = False
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def take(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        body = await request.read()
        if self.silent:
            await asyncio.Event().wait()
        # aiohttp opens what is compressed.
        self.bodies.append(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)
        return web.Response(status=self.status)

    def spans(self) -> list[Any]:
        return [
            span
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def of_trace(self, trace: str = TRACE) -> dict[str, Any]:
        return {span.name: span for span in self.spans() if span.trace_id.hex() == trace}


@asynccontextmanager
async def collecting(**how: Any) -> AsyncIterator[Collector]:
    one, app = Collector(**how), web.Application(client_max_size=64 * 1024**2)
    app.router.add_post("/v1/traces", one.take)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1/traces"
    try:
        yield one
    finally:
        await runner.cleanup()
