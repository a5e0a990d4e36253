"""A stream is never so far ahead of its client that Spark has forgotten what a cut-off client lacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gateway.errors import InvalidRequest
from gateway.session.connect import window as windows
from gateway.session.connect.window import AHEAD_BYTES, Window, Windows
from gateway.wire.connect import pb
from tests.session.connect.fakes import BOB, CLIENT, SESSION, World, execute_request, rows, schema, table, uid
from tests.session.fakes import until

MEGABYTE = b"x" * 2**20
KEY = ("bob", "session", "operation")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "PATIENCE_S", 0.0)


async def test_it_waits_until_the_client_has_enough() -> None:
    window = Window()
    for name in ("a", "b", "c"):
        window.note_sent(name, AHEAD_BYTES)
    window.acknowledge("a")
    waiting = asyncio.create_task(window.wait_for_room())
    window.acknowledge("unknown")
    await asyncio.sleep(0)
    assert not waiting.done()
    window.acknowledge("b")
    await waiting


async def test_a_client_that_never_says_what_it_has_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "FIRST_WORD_S", 0.0)
    window = Window()
    window.note_sent("a", AHEAD_BYTES + 1)
    await window.wait_for_room()
    window.note_sent("b", AHEAD_BYTES + 1)
    async with asyncio.timeout(0):
        await window.wait_for_room()


@pytest.mark.usefixtures("impatient")
async def test_a_client_that_takes_nothing_is_not_waited_for_for_ever() -> None:
    window = Window()
    window.note_sent("a", 1)
    window.acknowledge("a")
    window.note_sent("b", AHEAD_BYTES + 1)
    with pytest.raises(InvalidRequest, match="did not read"):
        await window.wait_for_room()


async def test_a_reader_that_another_one_follows_is_held_up_no_longer() -> None:
    all_of_them = Windows()
    async with all_of_them.over(KEY) as first:
        first.note_sent("a", 1)
        all_of_them.acknowledge(KEY, "a")
        first.note_sent("b", AHEAD_BYTES + 1)
        waiting = asyncio.create_task(first.wait_for_room())
        async with all_of_them.over(KEY) as second:
            await waiting
            second.note_sent("b", AHEAD_BYTES + 1)
            all_of_them.acknowledge(KEY, None)  # it wants no more
            await second.wait_for_room()
    all_of_them.acknowledge(KEY, "b")


def relayed(world: World, operation: str) -> AsyncGenerator[bytes, None]:
    return world.service.execute(BOB, CLIENT, execute_request(table("t"), operation=operation))


@pytest.mark.parametrize("restarted", [False, True])
async def test_spark_is_asked_for_more_when_the_client_has_what_was_sent(restarted: bool) -> None:
    world = World()
    world.spark.script("TABLE t", schema(), *[rows(n, MEGABYTE) for n in range(1, 9)])
    operation = uid()
    stream = relayed(world, operation)
    seen = [pb.ExecutePlanResponse.FromString(await anext(stream))]
    if restarted:
        await stream.aclose()
        world = World(spark=world.spark)
        request = pb.ReattachExecuteRequest(
            session_id=SESSION, operation_id=operation, last_response_id=seen[0].response_id
        )
        stream = world.service.reattach(BOB, CLIENT, request.SerializeToString())

    async def read() -> None:
        async for data in stream:
            seen.append(pb.ExecutePlanResponse.FromString(data))  # noqa: PERF401 - seen as they come

    await world.release(operation, until=seen[0].response_id)
    reading = asyncio.create_task(read())
    for released in range(1, 7):
        # What crosses the bound is sent, and nothing after it.
        await until(lambda sent=released + 3: len(seen) == sent)  # type: ignore[misc]
        await asyncio.sleep(0)
        assert len(seen) == released + 3
        await world.release(operation, until=seen[released].response_id)
    await reading
    assert [s.arrow_batch.row_count for s in seen if s.HasField("arrow_batch")] == list(range(1, 9))
