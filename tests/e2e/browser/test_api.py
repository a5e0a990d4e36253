"""Each route by GET of the REST API, as its own document has it: ETags, cursors, problems, limits; and that
who has looked is in the record.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gateway.backends.spark_thrift_options import write_basic
from gateway.demo.tour import ENGINEER
from tests.e2e.running import PASSWORDS, RunningGateway
from tests.speed import patience

pytestmark = [pytest.mark.console, pytest.mark.asyncio(loop_scope="session")]
ASKED = {
    "table": "sales.customer",
    "column": "sales.customer.card",
    "service": "spark",
    "name": "card numbers",
    "user": "bob",
}
"""What is there; else the examples of the document."""
RATE = 80
"""Requests of one person at once."""


def log_in(name: str) -> dict[str, str]:
    return {"Authorization": write_basic(name, PASSWORDS[name])}


@dataclass
class Api:
    """The API as one person asks it."""

    http: aiohttp.ClientSession
    base: str
    document: dict[str, Any]

    async def get(self, path: str, **given: Any) -> tuple[int, Any, Any]:
        """Return status, headers and JSON; who has asked too often asks again."""
        while True:
            async with self.http.get(self.base + path, **given) as answer:
                if answer.status != 429:
                    return answer.status, answer.headers, await answer.read()
            await asyncio.sleep(int(answer.headers["Retry-After"]))

    def routes(self) -> list[tuple[str, str, dict[str, str], set[str]]]:
        """Return name, path, what has to be asked and all parameters of each route by GET that gives JSON."""
        found = []
        for path, methods in self.document["paths"].items():
            told = methods.get("get")
            if told is None or "application/json" not in told["responses"]["200"]["content"]:
                continue
            parameters = told["parameters"]
            values = {
                one["name"]: ASKED.get(one["name"], one.get("example", ""))
                for one in parameters
                if one["required"]
            }
            filled = path
            for one in re.findall(r"\{(\w+)\}", path):
                filled = filled.replace(f"{{{one}}}", values.pop(one))
            found.append((told["operationId"], filled, values, {one["name"] for one in parameters}))
        return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def api(gateway: RunningGateway) -> AsyncIterator[Api]:
    """As dave, who administers."""
    gateway.query("dave", "SELECT 1", "SELECT 2")
    base = f"http://localhost:{gateway.admin_port}/api/v1"
    timeout = aiohttp.ClientTimeout(total=patience(120))
    login = log_in("dave")
    async with aiohttp.ClientSession(headers=login, timeout=timeout) as http:
        found = Api(http, base, {})
        status, _, body = await found.get("/openapi.json")
        assert status == 200
        found.document = json.loads(body)
        yield found


async def test_who_has_an_answer_is_not_sent_it_again(api: Api) -> None:
    routes = api.routes()
    assert len(routes) > 25
    wrong, same = [], 0
    for name, path, asked, _ in routes:
        status, headers, body = await api.get(path, params=asked)
        kind = headers["Content-Type"].split(";")[0]
        expected = "application/json" if status == 200 else "application/problem+json"
        if status not in (200, 404) or kind != expected:
            wrong.append(f"{name}: {status} {kind} {body[:200]!r}")
        elif status == 200:
            # What changes by itself, as ages do, may be another answer by then.
            again, told, _ = await api.get(path, params=asked, headers={"If-None-Match": headers["ETag"]})
            same += again == 304
            assert again in (200, 304), name
            assert again == 304 or told["ETag"] != headers["ETag"], name
    assert wrong == []
    assert same > 15


async def test_lists_go_on_and_know_their_own_places(api: Api) -> None:
    wrong, went_on = [], 0
    for name, path, asked, parameters in api.routes():
        if not {"limit", "after"} <= parameters:
            continue
        status, _, body = await api.get(path, params=asked | {"after": "eyJub3QiOiJvdXJzIn0"})
        if status != 400 or b"place" not in body:
            wrong.append(f"{name}: {status} for a place that is none")
        status, _, body = await api.get(path, params=asked | {"limit": "1"})
        page = json.loads(body)
        assert status == 200, (name, body)
        assert "total" not in page
        if page["next"] and page["items"]:
            status, _, body = await api.get(path, params=asked | {"limit": "1", "after": page["next"]})
            further = json.loads(body)
            if status != 200 or further["items"][:1] == page["items"][:1]:
                wrong.append(f"{name}: {status}, the same again")
            went_on += 1
    assert wrong == []
    assert went_on >= 2


async def test_unknown_parameters_are_told(api: Api) -> None:
    for name, path, asked, _ in api.routes():
        status, headers, body = await api.get(path, params=asked | {"nonsense": "1"})
        assert status == 400, name
        assert headers["Content-Type"].startswith("application/problem+json")
        assert b"unknown parameter `nonsense`" in body


async def test_who_asks_too_often_waits(gateway: RunningGateway) -> None:
    """And nobody else does. The one who does opens no page of another test."""
    base = f"http://localhost:{gateway.admin_port}/api/v1"
    login = log_in(ENGINEER.name)
    async with aiohttp.ClientSession() as http:

        async def ask(_: int) -> tuple[int, str]:
            async with http.get(f"{base}/openapi.json", headers=login) as answer:
                return answer.status, answer.headers.get("Retry-After", "")

        told = await asyncio.gather(*map(ask, range(3 * RATE)))
        assert {status for status, _ in told} == {200, 429}
        assert all(int(later) >= 1 for status, later in told if status == 429)
        bob = log_in("bob")
        async with http.get(f"{base}/openapi.json", headers=bob) as answer:
            assert answer.status == 200


async def test_who_has_looked_is_in_the_record(api: Api) -> None:
    status, _, _ = await api.get("/record", params={"user": "carol", "verdict": "refused", "limit": "3"})
    assert status == 200

    async def newest() -> list[dict[str, Any]]:
        _, _, body = await api.get("/record", params={"user": "dave", "limit": "20"})
        return list(json.loads(body)["items"])

    async with asyncio.timeout(patience()):
        # The record has no event of its own.
        while not (looks := [one for one in await newest() if one["kind"] == "viewed"]):  # noqa: ASYNC110
            await asyncio.sleep(0.5)
    _, _, body = await api.get(f"/events/{looks[-1]['event_id']}")
    assert b"list_record" in body or b"show_" in body or b"list_" in body
