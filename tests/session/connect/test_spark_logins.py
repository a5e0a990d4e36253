"""In whose name Spark is asked: of each session its user's, whoever is at work at that moment."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import AuthenticationFailed
from gateway.model.principal import Principal
from gateway.model.spark_logins import SparkLogin
from gateway.session.limits import SessionLimits
from gateway.session.ports import ASKER, NO_TOKEN, CatalogAsker
from gateway.wire.connect import pb, serialize
from tests.session.connect.fakes import ALICE, BOB, CLIENT, OTHER_SESSION, SESSION, World, sql, table, uid


def by_method(world: World) -> dict[str, set[SparkLogin]]:
    found: dict[str, set[SparkLogin]] = {}
    for method, login in world.spark.reached:
        found.setdefault(method, set()).add(login)
    return found


async def test_everything_of_a_session_is_asked_in_its_users_name_by_the_token_he_showed_last() -> None:
    world = World()
    ASKER.set(CatalogAsker("first"))
    await world.run(table("t"))
    ASKER.set(CatalogAsker("second"))
    await world.run(table("t"))
    told = by_method(world)
    assert told["open_session"] == {SparkLogin(BOB, "first")}
    assert told["execute"] == {SparkLogin(BOB, "first"), SparkLogin(BOB, "second")}


async def test_a_session_that_nobody_uses_ends_in_its_own_users_name() -> None:
    """Whoever has it ended, as the gateway itself or an administrator, is not shown to Spark."""
    limits = SessionLimits(session_idle_s=10)
    world = World(limits=limits)
    for user, session in ((BOB, SESSION), (ALICE, OTHER_SESSION)):
        ASKER.set(CatalogAsker(f"of {user.user}"))
        await world.run(table("t"), principal=user, session=session)
    world.spark.reached.clear()
    world.now += 20
    ASKER.set(CatalogAsker("of an administrator"))
    await world.service.expire()
    assert by_method(world)["ReleaseSession"] == {SparkLogin(BOB, "of bob"), SparkLogin(ALICE, "of alice")}
    await world.run(table("t"), session=uid())
    world.spark.reached.clear()
    await world.service.end_where(lambda *_: True, "removed", by="admin")
    assert {login.principal for login in by_method(world)["ReleaseSession"]} == {BOB}


async def test_calls_about_sessions_that_are_not_here_are_asked_in_the_callers_name() -> None:
    world = World()
    world.spark.session("bob", SESSION)
    ASKER.set(CatalogAsker("bobs"))
    request = pb.ReleaseSessionRequest(session_id=SESSION)
    await world.service.call("ReleaseSession", BOB, CLIENT, serialize(request))
    assert world.spark.reached == [("ReleaseSession", SparkLogin(BOB, "bobs"))]


async def test_who_cannot_be_shown_gets_no_session_and_it_is_on_record() -> None:
    world = World()

    async def refuse(*_: Any) -> Any:
        raise AuthenticationFailed("this Spark takes users by tokens of their own")

    world.spark.open_session = refuse  # type: ignore[assignment]
    ASKER.set(NO_TOKEN)
    with pytest.raises(AuthenticationFailed):
        await world.run(sql("SELECT 1"))
    assert not world.service.list_open()
    assert world.spark.received == []
    refused = [e for e in world.ledger.events if e.body.get("action") == "session_refused"]
    assert [(e.user, e.body["reason"]) for e in refused] == [
        ("bob", "this Spark takes users by tokens of their own")
    ]


async def test_a_session_of_one_of_two_people_of_a_name_shows_none_of_the_other() -> None:
    """Both are called bob; the issuer tells them apart."""
    world = World()
    one, other = Principal(user="bob", id="1"), Principal(user="bob", id="2")
    ASKER.set(CatalogAsker("of the one"))
    await world.run(table("t"), principal=one)
    ASKER.set(CatalogAsker("of the other"))
    with pytest.raises(Exception, match="SESSION_CLOSED"):
        await world.run(table("t"), principal=other)
    assert SparkLogin(one, "of the other") not in {login for _, login in world.spark.reached}
