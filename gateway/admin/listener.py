"""`/healthz`, `/readyz` and `/metrics` on an address of their own: no statement and no value is told
there; of names, those of policies that are not in force as they were written.

Other applications, with logins of their own, may be mounted beside them.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from gateway.session.ports import Entrance, Visitor
from gateway.session.visitor_protocol import VisitorProtocol

_log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[str | None]]
"""Says what is wrong with one part, in a sentence without secrets; None when nothing is."""

CHECK_TIMEOUT_S = 5.0
ANSWER_AGE_S = 2.0
"""How long an answer of the checks is given again: a balancer's probes must not become Spark's load."""


KEPT_S = 30.0
"""How long a connection is kept on which nothing is asked."""
NEXT_S = 15.0
"""How long the head of a request may take from its first byte, at most; and what is kept longer than that is
cut."""


class _Connection(VisitorProtocol):
    """One client's: nobody logs in on a connection here, so it has a deadline whenever nothing is asked."""


@web.middleware
async def _extend_deadline(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Give a request that is there as long as it takes, and its connection a deadline afterwards."""
    connection = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(connection, _Connection):
        return await handler(request)
    connection.place.begin_busy()
    connection.place.due(None)
    if request.remote != connection.place.address:  # RULE (admin-address-of-client)
        # A balancer has passed it on.
        request = request.clone(remote=connection.place.address)
    try:
        return await handler(request)
    finally:
        connection.place.end_busy()
        connection.place.due(KEPT_S + NEXT_S)


class AdminServer:
    """Serves the three pages. `checks` are what a gateway needs to answer a statement; `mounted` is served
    below the prefixes it names.

    `notes` are shown beside them and do not count: rule files with faults are somebody's to mend, while the
    last good rules serve on; all gateways share the files, and must not all leave the balancer together.
    """

    def __init__(
        self,
        checks: Mapping[str, Check],
        registry: CollectorRegistry,
        *,
        notes: Mapping[str, Check] | None = None,
        mounted: Mapping[str, Callable[[], web.Application]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checks = dict(checks)
        self._notes = dict(notes or {})
        self._registry = registry
        self._mounted = dict(mounted or {})
        self._clock = clock
        self._lock = asyncio.Lock()
        self._answer: dict[str, str | None] = {}
        self._answered_at = float("-inf")
        self._runner: web.AppRunner | None = None
        self._older: list[web.AppRunner] = []
        """What answers on connections that are older than `complete`."""
        self._connection_limiter: Entrance | None = None
        self.read_metrics: Callable[[], Awaitable[bytes]] | None = None
        """Reads those of all processes of a gateway, where there are several."""
        self.unready: str | None = None
        """Why no client is to be sent here, whatever the checks say: it starts, or it stops."""

    def app(self) -> web.Application:
        """Return the application, for a server or a test."""
        app = web.Application(client_max_size=1024, middlewares=[_extend_deadline])
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        for prefix, make in self._mounted.items():
            app.add_subapp(prefix, make())
        if self.unready is not None:
            # RULE (page-to-come)
            app.router.add_route("*", "/{page:.*}", self._wait)
        return app

    async def start(self, door: Entrance, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Listen; return the port, which matters when 0 was asked for. Raises OSError."""
        self._connection_limiter = door
        try:
            await self._set_up()
            return await door.open(host, port, self._connection, tls=tls)
        except BaseException:
            await self.close()
            raise

    async def complete(
        self,
        checks: Mapping[str, Check],
        notes: Mapping[str, Check],
        mounted: Mapping[str, Callable[[], web.Application]],
    ) -> None:
        """Have everything there that was not yet at the start, on connections that come from now on; what is
        asked on an older one is answered by it as well, but for what is mounted: there it ends."""
        self._checks, self._notes, self._mounted = dict(checks), dict(notes), dict(mounted)
        self._answered_at = float("-inf")
        await self._set_up()
        self.unready = None

    async def _set_up(self) -> None:
        runner = web.AppRunner(self.app(), access_log=None, keepalive_timeout=KEPT_S, shutdown_timeout=2)
        await runner.setup()
        if self._runner is not None:
            self._older.append(self._runner)
        self._runner = runner

    def _connection(self, place: Visitor) -> asyncio.Protocol:
        server = self._runner.server if self._runner is not None else None
        if server is None:
            raise ConnectionAbortedError("the listener is closed")
        return _Connection(server(), place)

    async def close(self) -> None:
        """Stop listening and end what is being answered."""
        runner, self._runner = self._runner, None
        if self._connection_limiter is not None:
            self._connection_limiter.stop_listening()
        for one in (*self._older, *((runner,) if runner is not None else ())):
            await one.cleanup()
        self._older.clear()
        if self._connection_limiter is not None:
            self._connection_limiter.close()

    async def ready(self) -> dict[str, str | None]:
        """Return for each part what is wrong with it, or None."""
        async with self._lock:
            if self._clock() - self._answered_at > ANSWER_AGE_S:
                asked = self._checks | self._notes
                answers = await asyncio.gather(*(self._ask(name, check) for name, check in asked.items()))
                self._answer = dict(zip(asked, answers, strict=True))
                self._answered_at = self._clock()
            return self._answer

    async def _ask(self, name: str, check: Check) -> str | None:
        try:
            async with asyncio.timeout(CHECK_TIMEOUT_S):
                return await check()
        except TimeoutError:
            return "does not answer in time"
        except Exception:  # noqa: BLE001 - a check's root: one that breaks means not ready, not a dead page
            _log.exception("readiness_check_failed", part=name)
            return "the check itself failed; the log has the details"

    async def _wait(self, request: web.Request) -> web.Response:
        """Have who asks for a page that is still to come ask again, on a new connection: by 404 a plugin
        would take its service for deleted."""
        answer = web.json_response(
            {"statusCode": 503, "msgDesc": "the gateway is starting; try again"}, status=503
        )
        answer.force_close()
        return answer

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.json_response({"status": "alive"})

    async def _readyz(self, request: web.Request) -> web.Response:
        # Nothing is asked of parts that are only just there, or just going.
        answers = await self.ready() if self.unready is None else {}
        ready = self.unready is None and not any(answers[name] for name in self._checks)
        parts = {name: fault or "ok" for name, fault in answers.items()}
        if self.unready is not None:
            parts = {"gateway": self.unready, **parts}
        body = {"status": "ready" if ready else "not ready", "parts": parts}
        return web.json_response(body, status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry) if self.read_metrics is None else await self.read_metrics()
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})
