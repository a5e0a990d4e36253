"""Every event arrives, whatever the server does, and none is sent on for ever."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.app.openlineage import OpenLineageCollector
from gateway.errors import Faults
from gateway.lineage.openlineage.http import DOUBTS_AFTER
from tests.lineage.openlineage.servers import Server, names, numbers, sink_of, statement
from tests.lineage.openlineage.shapes import check


async def test_events_arrive_in_their_order_and_as_they_are(tmp_path: Path) -> None:
    sent = [statement(number, length=30 * number) for number in range(5)]
    async with Server().running() as server, sink_of(server, tmp_path) as sink:
        for one in sent:
            await sink.put([one])
        await server.until(lambda s: len(s.taken) == 5)
    assert numbers(server.taken) == names(*range(5))
    for event in server.taken:
        check(event)
    packed = [headers.get("content-encoding") == "gzip" for _, headers in server.asked]
    assert packed[0] is False or len(json.dumps(server.taken[0])) > 1024
    assert packed[-1] is True


async def test_the_key_is_asked_for_each_event(tmp_path: Path) -> None:
    keys: Iterator[str] = iter(["old", "new"])
    async with Server().running() as server:
        options = replace(server.options, api_key=lambda: next(keys), packed=False)
        async with sink_of(server, tmp_path, options) as sink:
            await sink.put([statement(0), statement(1, length=50)])
            await server.until(lambda s: len(s.taken) == 2)
    assert [headers["authorization"] for _, headers in server.asked] == ["Bearer old", "Bearer new"]
    assert all("content-encoding" not in headers for _, headers in server.asked)


async def test_a_key_that_cannot_be_read_stops_nothing_for_ever(tmp_path: Path) -> None:
    asked = 0

    def key() -> str:
        nonlocal asked
        asked += 1
        if asked <= 3:
            raise Faults(["the secret cannot be read"])
        assert sink.progress.trouble == "the secret cannot be read"
        return "key"

    async with Server().running() as server:
        sink = sink_of(server, tmp_path, replace(server.options, api_key=key))
        async with sink:
            await sink.put([statement(0)])
            await server.until(lambda s: len(s.taken) == 1)
            assert sink.progress.failures == 3


BAD: list[Any] = [
    500,
    503,
    401,
    403,
    404,
    408,
    429,
    302,
    b"",
    b"HTTP/1.1 banana\r\n\r\n",
    b"\x00" * 70_000,
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000,
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:30])
async def test_what_is_no_final_answer_has_an_event_sent_again(bad: Any, tmp_path: Path) -> None:
    tries = 0

    def answer(event: object) -> Any:
        nonlocal tries
        tries += 1
        return bad if tries <= 3 else 201

    async with Server(answer).running() as server, sink_of(server, tmp_path) as sink:
        await sink.put([statement(0), statement(1)])
        await server.until(lambda s: len(s.taken) == 2)
        assert (sink.progress.failures, sink.progress.refused) == (3, 0)
    assert numbers(server.taken) == names(0, 1)
    assert len(server.asked) == 5


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
async def test_what_a_server_will_never_take_is_put_aside(status: int, tmp_path: Path) -> None:
    def answer(event: dict[str, Any]) -> int:
        return status if event["job"]["name"] == "1" else 201

    async with Server(answer).running() as server, sink_of(server, tmp_path) as sink:
        await sink.put([statement(n) for n in range(3)])
        await server.until(lambda s: len(s.taken) == 2)
        assert sink.progress.refused == 1
        assert sink.progress.failures == 0
    assert numbers(server.taken) == names(0, 2)
    (aside,) = (tmp_path / "spool" / "refused.jsonl").read_bytes().splitlines()
    assert numbers([json.loads(aside)]) == names(1)


async def test_an_event_that_breaks_the_server_does_not_hold_up_all_others(tmp_path: Path) -> None:
    def answer(event: dict[str, Any]) -> int:
        return 500 if event["job"]["name"] == "1" else 201

    async with Server(answer).running() as server, sink_of(server, tmp_path) as sink:
        await sink.put([statement(n) for n in range(4)])
        await server.until(lambda s: names(3)[0] in numbers(s.taken))
        assert sink.progress.refused == 1
    assert list(dict.fromkeys(numbers(server.taken))) == names(0, 2, 3)
    assert (tmp_path / "spool" / "refused.jsonl").exists()


async def test_a_broken_server_loses_nothing(tmp_path: Path) -> None:
    async with Server(lambda event: 500).running() as server, sink_of(server, tmp_path) as sink:
        await sink.put([statement(n) for n in range(4)])
        await server.until(lambda s: len(s.asked) > 5 * DOUBTS_AFTER)
        server.answer = lambda event: 201
        await server.until(lambda s: len(s.taken) == 4)
        assert sink.progress.refused == 0
    assert numbers(server.taken) == names(0, 1, 2, 3)


async def test_a_server_that_is_silent_is_left_and_asked_again(tmp_path: Path) -> None:
    async with Server(lambda event: None).running() as server:
        async with sink_of(server, tmp_path, replace(server.options, timeout_s=0.05)) as sink:
            await sink.put([statement(0)])
            await server.until(lambda s: len(s.asked) >= 3)
            assert sink.progress.trouble == "does not answer in time"
        # Slow machines: what is taken below must not be given up.
        server.answer = lambda event: 201
        async with sink_of(server, tmp_path):
            await server.until(lambda s: len(s.taken) == 1)


async def test_an_endless_answer_is_not_read(tmp_path: Path) -> None:
    class Endless(web.StreamResponse):
        async def prepare(self, request: Any) -> Any:
            writer = await super().prepare(request)
            with suppress(ConnectionError):
                while self.status:
                    await self.write(b"x" * 65536)
            return writer

    tries = 0

    def answer(event: object) -> Any:
        nonlocal tries
        tries += 1
        return Endless(status=400 if tries == 1 else 201)

    async with Server(answer).running() as server, sink_of(server, tmp_path) as sink:
        await sink.put([statement(0), statement(1), statement(2)])
        await server.until(lambda s: len(s.asked) == 3)
        assert (sink.progress.sent, sink.progress.refused) == (1, 1)


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    async with Server().running() as other, Server().running() as server:
        answers: Iterator[Any] = iter([web.Response(status=307, headers={"Location": other.options.url})])
        server.answer = lambda event: next(answers, 201)
        options = replace(server.options, api_key=lambda: "not for others")
        async with sink_of(server, tmp_path, options) as sink:
            await sink.put([statement(0), statement(1)])
            await server.until(lambda s: numbers(s.taken)[-1:] == names(1))
    assert other.asked == []
    assert numbers(server.taken) == names(0, 1)


async def test_a_server_says_when_to_come_again_within_bounds(tmp_path: Path) -> None:
    tries = 0

    def answer(event: object) -> Any:
        nonlocal tries
        tries += 1
        return web.Response(status=429, headers={"Retry-After": "99999"}) if tries == 1 else 201

    async with Server(answer).running() as server, sink_of(server, tmp_path) as sink:
        await sink.put([statement(0)])
        await server.until(lambda s: len(s.taken) == 1)


async def test_events_outlive_a_server_that_is_away_and_a_restart(tmp_path: Path) -> None:
    async with Server().running() as server:
        pass
    failed = asyncio.Event()
    tries = iter([lambda: None, failed.set])

    def key() -> str:
        next(tries, failed.set)()
        return "key"

    async with sink_of(server, tmp_path, replace(server.options, api_key=key)) as sink:
        await sink.put([statement(0), statement(1)])
        await failed.wait()
        assert "Connect call failed" in sink.progress.trouble
    async with sink_of(server, tmp_path) as sink:
        await sink.put([statement(2)])
        async with server.running():
            await server.until(lambda s: len(s.taken) == 3)
    assert numbers(server.taken) == names(0, 1, 2)


async def test_beyond_its_bounds_the_oldest_events_go_and_are_counted(tmp_path: Path) -> None:
    server = Server(lambda event: 503)
    async with server.running(), sink_of(server, tmp_path, max_bytes=100_000) as sink:
        for number in range(200):
            await sink.put([statement(number)])
        dropped = sink.spool.dropped
        assert dropped > 0
        server.answer = lambda event: 201
        await server.until(lambda s: "199" in numbers(s.taken))
        metrics = {
            (sample.name, sample.labels.get("fate")): sample.value
            for metric in OpenLineageCollector(sink).collect()
            for sample in metric.samples
        }
    assert metrics[("sluice_openlineage_events_total", "dropped")] == dropped
    assert numbers(server.taken) == names(*range(200 - len(server.taken), 200))


async def test_two_gateways_on_one_spool_are_told(tmp_path: Path) -> None:
    async with Server().running() as server, sink_of(server, tmp_path):
        with pytest.raises(Faults, match="another process uses the spool"):
            async with sink_of(server, tmp_path):
                pass


ROOT = str(Path(__file__).resolve().parents[3])
KILLED = """
import asyncio, os, sys
from pathlib import Path
from tests.lineage.openlineage.servers import Server, sink_of, statement

async def main(path, port):
    async with sink_of(Server(port=port), path) as sink:
        number = 0
        while True:
            await sink.put([statement(number)])
            print("put", number, flush=True)
            number += 1

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


@pytest.mark.parametrize("moment", [1, 7, 40])
async def test_a_gateway_that_is_killed_has_lost_nothing_that_was_put(moment: int, tmp_path: Path) -> None:
    async with Server(lambda event: 201 if int(event["job"]["name"]) % 5 else 503).running() as server:
        gateway = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            KILLED,
            str(tmp_path),
            str(server.port),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])},
        )
        assert gateway.stdout is not None
        put: list[bytes] = []
        while len(put) <= moment:
            put += [line for line in [await gateway.stdout.readline()] if line.startswith(b"put ")]
        gateway.send_signal(signal.SIGKILL)
        await gateway.wait()
        put += [line for line in (await gateway.stdout.read()).splitlines() if line.startswith(b"put ")]
        last = int(put[-1].split()[1])
        server.answer = lambda event: 201
        async with sink_of(server, tmp_path):
            await server.until(lambda s: set(names(*range(last + 1))) <= set(numbers(s.taken)))
