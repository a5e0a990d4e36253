"""The three pages for operators, over real HTTP."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from gateway.admin import listener as listener_module
from gateway.admin.listener import AdminServer, Check
from gateway.admin.requests import NotAuthenticated, log_in
from gateway.app.rest_logins import log_in_rest
from gateway.frontends.connection_limits import ConnectionLimiter, ConnectionLimits
from gateway.model.credentials import Credentials
from gateway.model.principal import Principal
from gateway.session.metrics import Metrics
from tests.frontends.listening import Gateway
from tests.frontends.test_connection_limits import IPV4, proxied
from tests.session.fakes import World
from tests.speed import patience


class Parts:
    """Parts of a gateway that a test can break."""

    def __init__(self) -> None:
        self.faults: dict[str, str | None] = {"reader": None, "backend": None}
        self.asked = 0
        self.now = 0.0
        self.hang = False
        self.metrics = Metrics()

    def check(self, name: str) -> Check:
        async def answer() -> str | None:
            self.asked += 1
            if self.hang:
                await asyncio.Event().wait()
            if self.faults[name] == "raise":
                raise RuntimeError("a secret")
            return self.faults[name]

        return answer


@contextlib.asynccontextmanager
async def serving(parts: Parts) -> AsyncIterator[str]:
    listener = AdminServer(
        {name: parts.check(name) for name in parts.faults}, parts.metrics.registry, clock=lambda: parts.now
    )
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await listener.close()


async def get(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_alive_means_that_the_process_answers_whatever_is_broken() -> None:
    parts = Parts()
    parts.faults["backend"] = "Spark cannot be reached"
    async with serving(parts) as url:
        assert (await get(url + "/healthz"))[0] == 200


async def test_ready_needs_every_part_and_tells_which_is_not() -> None:
    parts = Parts()
    async with serving(parts) as url:
        assert (await get(url + "/readyz"))[0] == 200
        parts.faults["backend"] = "Spark cannot be reached"
        parts.now += 10
        status, body = await get(url + "/readyz")
        assert status == 503
        assert '"backend": "Spark cannot be reached"' in body
        assert '"reader": "ok"' in body


async def test_probes_in_a_row_ask_the_parts_once() -> None:
    parts = Parts()
    async with serving(parts) as url:
        await asyncio.gather(*(get(url + "/readyz") for _ in range(5)))
        assert parts.asked == 2


async def test_a_part_that_hangs_or_breaks_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "CHECK_TIMEOUT_S", 0.05)
    parts = Parts()
    async with serving(parts) as url:
        parts.hang = True
        status, body = await get(url + "/readyz")
        assert (status, "does not answer in time" in body) == (503, True)
        parts.hang, parts.now = False, 10
        parts.faults["reader"] = "raise"
        status, body = await get(url + "/readyz")
        assert status == 503
        assert "secret" not in body


async def test_figures_are_prometheus_text() -> None:
    parts = Parts()
    parts.metrics.cleared.inc(3)
    parts.metrics.judge_cached.observe(0.0001)
    async with serving(parts) as url:
        status, body = await get(url + "/metrics")
    assert status == 200
    assert 'sluice_statements_total{verdict="cleared"} 3.0' in body
    assert 'sluice_judge_seconds_count{cache="cached"} 1.0' in body
    for name in ("sluice_relayed_bytes_total", "sluice_policy_version", "sluice_connections"):
        assert name in body
    # A figure that nobody reads is not shown as zero.
    assert "sluice_spool_bytes" not in body


async def test_a_watched_figure_is_read_when_the_page_is() -> None:
    parts = Parts()
    figures = iter((7, 8))
    parts.metrics.watch(parts.metrics.spool_bytes, lambda: next(figures))
    async with serving(parts) as url:
        assert "sluice_spool_bytes 7.0" in (await get(url + "/metrics"))[1]
        assert "sluice_spool_bytes 8.0" in (await get(url + "/metrics"))[1]


async def test_other_pages_and_methods_are_not_there() -> None:
    async with serving(Parts()) as url:
        assert (await get(url + "/"))[0] == 404
        async with aiohttp.ClientSession() as session, session.post(url + "/healthz") as response:
            assert response.status == 405


async def test_a_note_is_shown_and_does_not_make_a_gateway_unready() -> None:
    parts = Parts()
    parts.faults = {"policies": "3 faults; the last valid policies, or closed ones, are in force"}
    listener = AdminServer({}, parts.metrics.registry, notes={"policies": parts.check("policies")})
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    try:
        status, body = await get(f"http://127.0.0.1:{port}/readyz")
    finally:
        await listener.close()
    assert status == 200
    assert "3 faults" in body


async def test_who_probes_is_answered_before_there_is_anything_to_ask() -> None:
    parts = Parts()
    listener = AdminServer({}, parts.metrics.registry)
    listener.unready = "the gateway is starting"
    port = await listener.start(ConnectionLimiter("admin"), "127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}"
    try:
        async with aiohttp.ClientSession() as kept:
            assert (await get(url + "/healthz"))[0] == 200
            async with kept.get(url + "/readyz") as response:
                assert response.status == 503
                assert await response.json() == {
                    "status": "not ready",
                    "parts": {"gateway": "the gateway is starting"},
                }
            # By 404 a plugin that polls would take its service for deleted.
            assert (await get(url + "/more/page"))[0] == 503

            async def page(_: web.Request) -> web.Response:
                return web.Response(text="here")

            def mounted() -> web.Application:
                app = web.Application()
                app.router.add_get("/page", page)
                return app

            await listener.complete({"backend": parts.check("backend")}, {}, {"/more": mounted})
            assert await get(url + "/more/page") == (200, "here")
            # A connection that was there before knows what is ready now, too.
            async with kept.get(url + "/readyz") as response:
                assert (response.status, (await response.json())["parts"]) == (200, {"backend": "ok"})
            asked = []
            for _ in range(2):
                async with kept.get(url + "/more/page") as response:
                    asked.append(response.status)
            assert asked == [503, 200], "it ends with the first answer"
            listener.unready = "the gateway is stopping"
            status, body = await get(url + "/readyz")
            assert (status, "the gateway is stopping" in body) == (503, True)
    finally:
        await listener.close()


async def test_a_login_that_comes_by_a_balancer_or_cannot_be_read_is_recorded_with_its_address() -> None:
    logins = Gateway(World())

    async def answer(request: web.Request) -> web.Response:
        async def authenticate(shown: Credentials, address: str) -> Principal:
            return await log_in_rest(logins.authenticator, "sessions", shown, address)

        try:
            principal = await log_in(request, authenticate)
        except NotAuthenticated as fault:
            return web.Response(status=401, text=str(fault))
        return web.Response(text=principal.user)

    def make() -> web.Application:
        app = web.Application()
        app.router.add_post("/", answer)
        return app

    listener = AdminServer({}, Metrics().registry, mounted={"/x": make})
    balancers = (ipaddress.ip_network("127.0.0.1/32"),)
    door = ConnectionLimiter("admin", ConnectionLimits(balancers=balancers))
    port = await listener.start(door, "127.0.0.1", 0)
    basic = base64.b64encode(b"bob:secret").decode()
    for last, shown, status in (
        (7, f"Authorization: Basic {basic}", 200),
        (8, "Authorization: sluice_secret", 401),
        (9, f"Authorization: Basic {basic}\r\nAuthorization: Bearer secret", 401),
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(proxied(bytes([198, 51, 100, last]) + IPV4[4:]))
        writer.write(f"POST /x/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n{shown}\r\n\r\nhi".encode())
        assert f" {status} ".encode() in await asyncio.wait_for(reader.readline(), patience())
        writer.close()
    await listener.close()
    told = [event.body for event in logins.world.ledger.of("login")]
    assert [(one["cliIP"], one["mechanism"], one["verdict"]) for one in told] == [
        ("198.51.100.7", "PLAIN", "accepted"),
        ("198.51.100.8", "UNKNOWN", "rejected"),
        ("198.51.100.9", "UNKNOWN", "rejected"),
    ]
    assert "secret" not in str(told)
