"""All gateways of a database answer what is asked of them, and who does not is named."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

from gateway.database.gateway_requests import LISTENER, Answering, ask_gateways
from gateway.errors import LedgerUnavailable
from tests.speed import patience


@asynccontextmanager
async def answering(dsn: str, gateway: str, answer: Any) -> AsyncIterator[None]:
    """Have a gateway answer within; it waits for requests when the block begins."""
    running = asyncio.ensure_future(Answering(dsn, gateway, answer).run())
    try:
        await until_listening(dsn, gateway)
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until_listening(dsn: str, gateway: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(patience()):
            while True:
                if await connection.fetchval(
                    "SELECT count(*) FROM pg_stat_activity"
                    " WHERE application_name = $1 AND datname = current_database()",
                    LISTENER + gateway,
                ):
                    return
                await asyncio.sleep(0.01)
    finally:
        await connection.close()


async def test_each_gateway_answers_for_itself(dsn: str) -> None:
    async def first(body: Mapping[str, Any]) -> dict[str, Any]:
        return {"first": body["n"]}

    async def second(body: Mapping[str, Any]) -> dict[str, Any]:
        return {"second": body["n"] + 1}

    async with answering(dsn, "gate-1", first), answering(dsn, "gate-2", second):
        for number in range(3):
            found = await ask_gateways(dsn, {"n": number}, within_s=patience())
            assert found.by_gateway == {"gate-1": {"first": number}, "gate-2": {"second": number + 1}}
            assert not found.silent
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("SELECT count(*) FROM sluice.gateway_request") == 0
    assert await connection.fetchval("SELECT count(*) FROM sluice.gateway_answer") == 0
    await connection.close()


async def test_who_is_silent_is_named_and_who_fails_says_so(dsn: str) -> None:
    async def never(_: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.Event().wait()
        return {}

    async def fails(_: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError("a secret")

    async with answering(dsn, "silent", never), answering(dsn, "failing", fails):
        found = await ask_gateways(dsn, {}, within_s=patience(1))
        assert found.silent == {"silent"}
        assert "error" in found.by_gateway["failing"]
        assert "secret" not in str(found.by_gateway)


async def test_a_gateway_that_lost_postgresql_answers_again(dsn: str) -> None:
    async def answer(_: Mapping[str, Any]) -> dict[str, Any]:
        return {"here": True}

    async with answering(dsn, "gate", answer):
        connection = await asyncpg.connect(dsn)
        gone = await connection.fetchval(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = $1",
            LISTENER + "gate",
        )
        await connection.close()
        assert gone
        await until_listening(dsn, "gate")
        assert (await ask_gateways(dsn, {}, within_s=patience())).by_gateway == {"gate": {"here": True}}


async def test_nobody_is_there(dsn: str) -> None:
    found = await ask_gateways(dsn, {})
    assert not found.by_gateway
    assert not found.silent
    with pytest.raises(LedgerUnavailable):
        await ask_gateways("postgresql://nobody@127.0.0.1:1/none", {})


async def test_one_gateway_is_asked_alone_and_while_it_works_on_something_else(dsn: str) -> None:
    busy, free = asyncio.Event(), asyncio.Event()

    async def answer(body: Mapping[str, Any]) -> dict[str, Any]:
        if body.get("slow"):
            busy.set()
            await free.wait()
        return dict(body)

    async with answering(dsn, "gate-1", answer), answering(dsn, "gate-2", answer):
        slow = asyncio.ensure_future(ask_gateways(dsn, {"slow": 1}, only="gate-1", within_s=patience()))
        await busy.wait()
        found = await ask_gateways(dsn, {"n": 1}, only="gate-1", within_s=patience())
        assert found.by_gateway == {"gate-1": {"n": 1}}
        free.set()
        assert (await slow).by_gateway == {"gate-1": {"slow": 1}}
        nobody = await ask_gateways(dsn, {"n": 1}, only="gone", within_s=patience())
        assert not nobody.by_gateway
        assert not nobody.silent
