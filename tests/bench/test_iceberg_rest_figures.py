"""What the served Iceberg REST catalog adds to `loadTable`, before Iceberg's own server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.frontends.users import add_token, set_user
from tests.bench.figures import Record, in_turns, median_ms, p95_ms
from tests.bench.processes import GatewayProcesses, since
from tests.bench.raw_client import Server
from tests.e2e.lake.servers import iceberg_rest
from tests.e2e.running import LoopThread, RunningGateway

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]

SECTION = "Iceberg REST catalog"
COLUMNS = 60
CLIENTS = 50
PACK = """
service: spark
policies:
  - name: the shop
    on:
      - {catalog: lake}
      - {catalog: lake, database: shop}
      - {catalog: lake, database: shop, table: "*", column: "*"}
    allow: [{users: [bench], access: [use, show, select]}]
"""


@dataclass(frozen=True)
class Side:
    """A catalog as a client has it."""

    host: str
    port: int
    path: str
    headers: Mapping[str, str]

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}{self.path}"


@dataclass(frozen=True)
class Sides:
    direct: Side
    through: Side
    processes: GatewayProcesses


@pytest.fixture(scope="module")
def sides(record: Record, direct: Server, directory: Path) -> Iterator[Sides]:
    record.progress("Iceberg's REST server and a gateway before it start")
    home, loop = directory / "iceberg-rest", LoopThread()
    home.mkdir()
    home.chmod(0o777)
    with iceberg_rest(loop, home) as url:
        host, _, port = url.removeprefix("http://").partition(":")
        at = int(port.partition("/")[0])
        send(host, at, "/v1/namespaces", {"namespace": ["shop"]})
        fields = [
            {"id": n, "name": f"c{n}", "type": "string", "required": False} for n in range(1, COLUMNS + 1)
        ]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        send(host, at, "/v1/namespaces/shop/tables", {"name": "t", "schema": schema})
        set_user(home / "users.yaml", "bench", password="of the bench", groups=[])
        token = add_token(home / "users.yaml", "bench")
        (home / "pack.yaml").write_text(PACK)
        catalog = {"type": "iceberg", "connection-params": {"type": "rest", "uri": url}}
        settings: dict[str, Any] = {
            "listeners": {
                **{name: {"port": 0} for name in ("thrift", "admin")},
                "iceberg_rest": {"port": 0, "catalogs": ["lake"]},
            },
            "backend": {"thrift": {"host": direct.host, "port": direct.port}},
            "catalogs": [{"name": "lake", "catalog": catalog, "policies": "spark"}],
            "policies": {"paths": ["pack.yaml"]},
            "users": {"file": "users.yaml"},
            "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
            "logging": {"format": "json"},
        }
        (home / "gateway.yaml").write_text(json.dumps(settings))
        running = RunningGateway(home / "gateway.yaml").start()
        own = Side(running.host, running.iceberg_rest_port, "/v1/lake/namespaces/shop/tables/t",
                   {"Authorization": f"Bearer {token}"})  # fmt: skip
        yield Sides(Side(host, at, "/v1/namespaces/shop/tables/t", {}), own, GatewayProcesses(running.pid))
        assert running.stop() == 0
    loop.close()


def send(host: str, port: int, path: str, told: Any) -> None:
    connection = HTTPConnection(host, port, timeout=60)
    connection.request("POST", path, json.dumps(told), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()


class LoadClient:
    """One connection that is kept."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._connection = HTTPConnection(side.host, side.port, timeout=60)

    def load(self) -> None:
        self._connection.request("GET", self._side.path, headers=dict(self._side.headers))
        answer = self._connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body

    def close(self) -> None:
        self._connection.close()


def test_one_client(record: Record, sides: Sides, quick: bool) -> None:
    warm_up, rounds = (30, 60) if quick else (200, 600)
    record.begin(f"loadTable of {COLUMNS} columns: {warm_up} + {rounds} pairs")
    with closing(LoadClient(sides.direct)) as straight, closing(LoadClient(sides.through)) as governed:
        before = sides.processes.cpu()
        took = in_turns({"direct": straight.load, "through": governed.load}, warm_up=warm_up, rounds=rounds)
        used = since(before, sides.processes.cpu())
    direct_ms, through_ms = median_ms(took["direct"]), median_ms(took["through"])
    calls = warm_up + rounds
    record.add(
        SECTION,
        f"`loadTable`, one client, {COLUMNS} columns",
        f"+{through_ms - direct_ms:.2f} ms at p50 ({through_ms:.2f} ms, direct {direct_ms:.2f} ms; p95 "
        f"{p95_ms(took['through']):.2f} ms, direct {p95_ms(took['direct']):.2f} ms); "
        f"{used.gateway_s / calls * 1000:.2f} ms of the gateway's CPU a call",
        aim="≤ 5 ms",
        met=through_ms - direct_ms <= 5,
        added_ms=through_ms - direct_ms,
        cpu_ms=used.gateway_s / calls * 1000,
    )


async def load_at_once(side: Side, calls: int) -> tuple[float, list[float]]:
    """Return the seconds of all calls by many clients together, and of each."""
    took: list[float] = []

    async def client(http: aiohttp.ClientSession) -> None:
        for _ in range(calls // CLIENTS):
            began = time.perf_counter()
            async with http.get(side.url, headers=dict(side.headers)) as answer:
                await answer.read()
                assert answer.status == 200
            took.append(time.perf_counter() - began)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=CLIENTS)) as http:
        began = time.perf_counter()
        await asyncio.gather(*(client(http) for _ in range(CLIENTS)))
        return time.perf_counter() - began, took


def test_many_clients(record: Record, sides: Sides, quick: bool) -> None:
    calls, rounds = (500, 2) if quick else (2_000, 5)
    record.begin(f"loadTable by {CLIENTS} clients at once, {calls} calls, {rounds} rounds")
    for side in (sides.direct, sides.through):
        asyncio.run(load_at_once(side, calls))
    best: dict[str, tuple[float, float]] = {}
    before = sides.processes.cpu()
    for _ in range(rounds):
        for name, side in (("direct", sides.direct), ("through", sides.through)):
            whole, each = asyncio.run(load_at_once(side, calls))
            best[name] = min(best.get(name, (whole, 0.0)), (whole, median_ms(each)))
    used = since(before, sides.processes.cpu())
    ratio = best["through"][0] / best["direct"][0]
    per_s = {name: calls / whole for name, (whole, _) in best.items()}
    record.add(
        SECTION,
        f"`loadTable`, {CLIENTS} clients at once, best of {rounds}",
        f"{ratio:.2f} × ({per_s['through']:.0f} calls/s, direct {per_s['direct']:.0f}; p50 "
        f"{best['through'][1]:.1f} ms, direct {best['direct'][1]:.1f} ms); "
        f"{used.gateway_s / calls / rounds * 1000:.2f} ms of the gateway's CPU a call",
        aim="≤ 1.1 ×",
        met=ratio <= 1.1,
        ratio=ratio,
    )
