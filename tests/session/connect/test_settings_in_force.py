"""The same through Spark Connect's Config call, a clone, and a gateway that is started anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.errors import RpcError
from gateway.model.statement import ChangeSetting, ResetSettings
from gateway.wire.connect import pb
from tests.session.connect.fakes import OTHER_SESSION, SESSION, World, fault, sql, table, words_of
from tests.session.fakes import until

ZONE = "spark.sql.session.timeZone"


def world() -> World:
    made = World()
    made.spark.own_settings = {ZONE: "UTC"}
    made.judge.effects = [("TOKYO", (ChangeSetting(ZONE, "Asia/Tokyo"),))]
    return made


def set_to(value: str) -> Any:
    operation = pb.ConfigRequest.Operation()
    operation.set.pairs.add(key=ZONE, value=value)
    return operation


def unset() -> Any:
    operation = pb.ConfigRequest.Operation()
    operation.unset.keys.append(ZONE)
    return operation


def known(world: World) -> frozenset[str]:
    return world.judge.judged[-1].context.settings


async def test_a_config_call_is_known_to_the_next_plan() -> None:
    there = world()
    steps = [
        (None, set()),
        (set_to("Asia/Tokyo"), {ZONE}),
        (set_to("UTC"), set()),
        # Spark then has its own default, and not what it was started with.
        (unset(), {ZONE}),
    ]
    for number, (operation, settings) in enumerate(steps):
        if operation is not None:
            await there.call("Config", operation=operation)
        await there.run(table(f"t{number}"))
        assert known(there) == settings, number


async def test_a_call_that_fails_may_have_set_it() -> None:
    there = world()
    await there.run(table("t"))
    there.spark.faults["Config"] = fault("no")
    with pytest.raises(RpcError):
        await there.call("Config", operation=set_to("Asia/Tokyo"))
    there.spark.faults.clear()
    await there.run(table("u"))
    assert known(there) == {ZONE}


async def test_a_call_waits_for_plans_that_may_still_look_it_up() -> None:
    there = world()
    going = asyncio.Event()
    there.spark.script("TABLE slow", going)
    running = asyncio.create_task(there.run(table("slow")))
    await until(lambda: any("slow" in text for text in there.spark.received))
    setting = asyncio.create_task(there.call("Config", operation=set_to("Asia/Tokyo")))
    for _ in range(50):
        await asyncio.sleep(0)
    key = ("bob", SESSION)
    assert there.spark.sessions[key].settings.get(ZONE) is None
    going.set()
    await asyncio.gather(running, setting)
    assert there.spark.sessions[key].settings[ZONE] == "Asia/Tokyo"


async def test_a_clone_has_the_settings_of_its_source() -> None:
    there = world()
    await there.call("Config", operation=set_to("Asia/Tokyo"))
    await there.call("CloneSession", new_session_id=OTHER_SESSION)
    await there.run(table("t"), session=OTHER_SESSION)
    assert known(there) == {ZONE}


async def test_what_a_session_had_set_before_the_gateway_was_started_anew_is_asked_for() -> None:
    before = world()
    await before.call("Config", operation=set_to("Asia/Tokyo"))
    after = world()
    after.spark.sessions = before.spark.sessions
    await after.run(table("t"))
    assert known(after) == {ZONE}


async def test_reset_gives_back_what_came_by_config_or_from_before() -> None:
    there = world()
    there.judge.effects = [(r"^RESET$", (ResetSettings(),)), (r"^RESET `", (ChangeSetting(ZONE, None),))]
    await there.call("Config", operation=set_to("Asia/Tokyo"))
    await there.run(table("t"))
    assert known(there) == {ZONE}
    there.judge.judged.clear()
    await there.run(sql("RESET"))
    assert f"RESET `{ZONE}`" in [words_of(one) for one in there.judge.judged]
    await there.run(table("u"))
    assert known(there) == set()
