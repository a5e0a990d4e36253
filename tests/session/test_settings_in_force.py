"""What a session has otherwise than Spark itself is known when its next statement is judged, not later."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import BackendUnavailable
from gateway.model.policy import PolicySet
from gateway.model.statement import ChangeSetting, CreateTempView, ResetSettings
from gateway.session.failures import StatementFailed
from gateway.session.identifiers import Handle
from gateway.session.ports import BackendError
from tests.session.fakes import BOB, CLIENT, World

ZONE = "spark.sql.session.timeZone"
PARTITIONS = "spark.sql.shuffle.partitions"


def world() -> World:
    made = World()
    made.backend.own_settings = {ZONE: "UTC"}
    made.judge.effects = [
        ("TOKYO", (ChangeSetting(ZONE, "Asia/Tokyo"),)),
        ("OWN", (ChangeSetting(ZONE, "UTC"),)),
        ("RESET", (ChangeSetting(ZONE, None),)),
        ("CREATE VIEW (v)", (CreateTempView("v"),)),
    ]
    return made


async def run(world: World, handle: Handle, text: str, *, run_async: bool = False) -> Handle:
    return (await world.sessions.execute(BOB, handle, text, run_async=run_async)).handle


def known(world: World) -> frozenset[str]:
    """Return what the last statement was judged with."""
    return world.judge.judged[-1].context.settings


async def opened(world: World) -> Handle:
    return await world.sessions.open_session(BOB, CLIENT, protocol_version=9)


async def test_a_change_is_known_until_the_value_is_sparks_own_again() -> None:
    there = world()
    handle = await opened(there)
    for text, settings in (
        ("SELECT 1", set()),
        ("SET TOKYO", set()),
        ("SELECT 2", {ZONE}),
        ("RESET it", {ZONE}),
        ("SELECT 3", set()),
        ("SET TOKYO", set()),
        ("SET OWN", {ZONE}),
        ("SELECT 4", set()),
    ):
        await run(there, handle, text)
        assert known(there) == settings, text
    await run(there, handle, "SET TOKYO")
    await run(there, await opened(there), "SELECT 5")
    assert known(there) == set()


async def test_settings_of_the_opening_are_known_as_well() -> None:
    there = world()
    handle = await there.sessions.open_session(BOB, CLIENT, protocol_version=9, settings={"spark.TOKYO": "x"})
    await run(there, handle, "SELECT 1")
    assert known(there) == {ZONE}


async def test_a_change_that_fails_changes_nothing() -> None:
    there = world()
    handle = await opened(there)
    there.backend.fail["SET TOKYO"] = ("no such zone", "22023")
    with pytest.raises(StatementFailed):
        await run(there, handle, "SET TOKYO")
    there.backend.refuse["SET TOKYO "] = BackendError("no", "HY000")
    with pytest.raises(StatementFailed):
        await run(there, handle, "SET TOKYO ")
    await run(there, handle, "SELECT 1")
    assert known(there) == set()


async def test_nothing_is_judged_while_a_change_is_under_way() -> None:
    there = world()
    handle = await opened(there)
    there.backend.slow = "TOKYO"
    await run(there, handle, "SET TOKYO", run_async=True)
    reading = asyncio.create_task(run(there, handle, "SELECT 1"))
    await asyncio.sleep(0)
    assert [s.text for s in there.judge.judged] == ["SET TOKYO"]
    there.backend.last.end()
    await reading
    assert known(there) == {ZONE}


async def test_a_change_waits_until_what_was_judged_before_it_has_ended() -> None:
    there = world()
    handle = await opened(there)
    there.backend.slow = "SELECT"
    await run(there, handle, "SELECT 1", run_async=True)
    setting = asyncio.create_task(run(there, handle, "SET TOKYO"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert there.backend.received == ["SELECT 1"]
    there.backend.last.end()
    await setting
    assert there.backend.received == ["SELECT 1", "SET TOKYO"]


async def test_a_change_that_was_stopped_may_have_happened() -> None:
    there = world()
    handle = await opened(there)
    there.backend.slow = "TOKYO"
    setting = await run(there, handle, "SET TOKYO", run_async=True)
    there.backend.last.end(state=3)
    await there.sessions.status(BOB, setting)
    await run(there, handle, "SELECT 1")
    assert known(there) == {ZONE}


async def test_a_temporary_view_keeps_the_settings_that_it_was_made_under() -> None:
    there = world()
    handle = await opened(there)
    await run(there, handle, "CREATE VIEW v AS SELECT 1")
    await run(there, handle, "SET TOKYO")
    there.policies = PolicySet(version=there.policies.version + 1)
    await run(there, handle, "SELECT 1")
    judged = {s.text: s.context.settings for s in there.judge.judged[-2:]}
    assert judged == {"CREATE VIEW v AS SELECT 1": frozenset(), "SELECT 1": {ZONE}}


async def test_reset_gives_back_what_the_session_was_given_and_nothing_else() -> None:
    there = world()
    there.judge.effects = [
        (r"^RESET$", (ResetSettings(),)),
        (r"^RESET `(.*)`$", ()),
        ("TOKYO", (ChangeSetting(ZONE, "Asia/Tokyo"),)),
        ("FOUR", (ChangeSetting(PARTITIONS, "4"),)),
        ("FIVE", (ChangeSetting("spark.five", "5"),)),
    ]
    handle, other = await opened(there), await opened(there)
    for text in ("SET TOKYO", "SET FOUR"):
        await run(there, handle, text)
    await run(there, other, "SET FIVE")
    assert known(there) == set()
    await run(there, handle, "SELECT 1")
    assert known(there) == {ZONE}
    there.judge.judged.clear()
    await run(there, handle, "RESET")
    forwarded = [one.text for one in there.judge.judged]
    assert [text for text in dict.fromkeys(forwarded) if text != "RESET"] == [
        f"RESET `{ZONE}`",
        f"RESET `{PARTITIONS}`",
    ]


async def test_after_a_reset_the_settings_are_sparks_own() -> None:
    there = world()
    there.judge.effects = [
        (r"^RESET$", (ResetSettings(),)),
        (r"^RESET `", (ChangeSetting(ZONE, None),)),
        ("TOKYO", (ChangeSetting(ZONE, "Asia/Tokyo"),)),
    ]
    handle = await opened(there)
    for text, settings in (("SET TOKYO", set()), ("RESET", {ZONE}), ("SELECT 1", set()), ("RESET", set())):
        there.judge.judged.clear()
        await run(there, handle, text)
        assert there.judge.judged[0].context.settings == settings, text
    assert {one.text for one in there.judge.judged} == {"RESET"}


async def test_a_reset_that_fails_half_way_is_an_error() -> None:
    there = world()
    there.judge.effects = [
        (r"^RESET$", (ResetSettings(),)),
        ("TOKYO", (ChangeSetting(ZONE, "Asia/Tokyo"),)),
    ]
    handle = await opened(there)
    await run(there, handle, "SET TOKYO")
    there.judge.refused = "^RESET `"
    with pytest.raises(BackendUnavailable, match=f"reset the setting `{ZONE}`"):
        await run(there, handle, "RESET")
    there.judge.refused = None
    await run(there, handle, "SELECT 1")
    assert known(there) == {ZONE}
