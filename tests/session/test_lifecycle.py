"""Calls of a gateway that stops are answered, and what waits for Spark does not hold it up."""

from __future__ import annotations

import asyncio

import pytest

from gateway.backends.delayed_endings import DelayedEndings
from gateway.errors import GatewayStopping
from gateway.session import states
from gateway.session.states import Lifecycle


async def test_a_call_that_waits_hears_that_the_gateway_stops() -> None:
    life = Lifecycle()
    waits = asyncio.Event()

    async def call() -> None:
        with life.until_cut():
            waits.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(call())
    await waits.wait()
    life.cut()
    life.cut()
    with pytest.raises(GatewayStopping):
        await waiting
    with pytest.raises(GatewayStopping):
        await call()


async def test_deadlines_of_a_call_are_its_own() -> None:
    with pytest.raises(TimeoutError), Lifecycle().until_cut():
        async with asyncio.timeout(0):
            await asyncio.Event().wait()


async def test_what_waits_for_spark_has_so_long_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "STOP_S", 0.0)
    monkeypatch.setattr(states, "LEAST_S", 0.0)
    life = Lifecycle()
    life.cut()
    ended: list[str] = []
    endings = DelayedEndings()

    async def end(name: str, silent: bool) -> None:
        ended.append(name)
        if silent:
            await asyncio.Event().wait()

    monkeypatch.setattr("gateway.backends.delayed_endings.AT_ONCE_S", 0.05)
    endings.schedule(3600, lambda: end("answers", silent=False))
    endings.schedule(3600, lambda: end("silent", silent=True))
    await asyncio.sleep(0)
    await life.close_in_time(endings.close)
    assert sorted(ended) == ["answers", "silent"]
    await endings.close()
