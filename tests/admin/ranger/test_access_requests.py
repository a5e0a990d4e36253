"""Requests for access: who may do what with them, that a grant is policies in force for a time, and races."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from gateway.admin.ranger import access_requests
from gateway.admin.ranger.access_requests import NotForYou, NotGrantable, PlaceOfGrants, StoredRequest
from gateway.admin.ranger.calls import RangerError
from gateway.admin.ranger.kinds import ObjectKind
from gateway.admin.requests import NotFound
from gateway.errors import Faults
from gateway.policy.access_requests import MAX_OPEN, RequestKind
from tests.admin.ranger.request_desk import Desk, asked, break_glass, who


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Desk]:
    made = Desk(database)
    await made.begin()
    yield made
    await made.close()


async def test_a_request_is_granted_used_and_over(desk: Desk) -> None:
    request = await desk.ask()
    assert (request.state, request.expired) == ("open", False)
    assert not await desk.sees("carol")
    granted = await desk.grant("dave", request.id)
    assert (granted.state, granted.decided_by, granted.expires) == ("granted", "dave", request.asked.until)
    assert await desk.sees("carol")
    assert not await desk.sees("carol", "salary")
    assert not await desk.sees("eve")
    assert not await desk.sees("carol", at=request.asked.until + timedelta(seconds=1))
    ended = await desk.requests.end(who("carol"), request.id, "")
    assert ended.state == "ended"
    assert not await desk.sees("carol")
    assert await desk.steps(request.id) == [("carol", "asked"), ("dave", "granted"), ("carol", "ended")]
    assert desk.noted == [(step, "access") for step in ("asked", "granted", "ended")]


@pytest.mark.parametrize("user", ["admin", "dave", "olga"])
async def test_administrators_delegates_and_owners_grant_and_nobody_else(desk: Desk, user: str) -> None:
    request = await desk.ask()
    assert await desk.to_decide(user) == [1]
    for stranger in ("eve", "mallory"):
        assert await desk.to_decide(stranger) == []
        for work in (
            desk.requests.find(who(stranger), request.id),
            desk.grant(stranger, request.id),
            desk.requests.refuse(who(stranger), request.id, "no"),
            desk.requests.grant_elsewhere(who(stranger), request.id, "there"),
            desk.requests.withdraw(who(stranger), request.id),
            desk.requests.end(who(stranger), request.id, ""),
        ):
            with pytest.raises(NotFound, match="no such request"):
                await work
    await desk.grant(user, request.id)
    assert await desk.sees("carol")
    # Who has nothing to do with it is not told of the grant either.
    for work in (desk.requests.find(who("eve"), 1), desk.requests.end(who("eve"), 1, "")):
        with pytest.raises(NotFound):
            await work


async def test_nobody_grants_to_himself(desk: Desk) -> None:
    for user in ("admin", "dave", "olga"):
        request = await desk.ask(user)
        assert request.id not in await desk.to_decide(user)
        for work in (
            desk.grant(user, request.id),
            desk.requests.refuse(who(user), request.id, "no"),
            desk.requests.grant_elsewhere(who(user), request.id, "there"),
        ):
            with pytest.raises(NotForYou):
                await work
        # Nor a later user of his name.
        with pytest.raises(NotForYou):
            await desk.requests.grant(who(user, "2"), request.id, expires=None, reason="me")
        # Nor as an administrator whom the directory calls by two names.
        second = replace(who("second"), id=f"1-{user}")
        with pytest.raises(NotFound):
            await desk.requests.grant(second, request.id, expires=None, reason="me")
        assert not await desk.sees(user) or user == "dave"


async def test_nobody_grants_more_than_he_may(desk: Desk) -> None:
    other = await desk.ask(wanted=asked(database="hr"))
    update = await desk.ask(wanted=asked(accesses=("select", "update")))
    for request in (other, update):
        with pytest.raises(NotFound):
            await desk.grant("dave", request.id)
    table = await desk.ask(wanted=asked(table="orders", columns=("*",)))
    with pytest.raises(NotFound):
        await desk.grant("olga", table.id)
    with pytest.raises(NotGrantable, match="longer than was asked"):
        await desk.grant("dave", table.id, expires=table.asked.until + timedelta(seconds=1))
    with pytest.raises(NotGrantable, match="in the past"):
        await desk.grant("dave", table.id, expires=datetime.now(UTC) - timedelta(seconds=1))
    earlier = datetime.now(UTC) + timedelta(hours=1)
    assert (await desk.grant("dave", table.id, expires=earlier)).expires == earlier
    with pytest.raises(RangerError, match="unknown access type"):
        await desk.grant("admin", (await desk.ask(wanted=asked(accesses=("fly",)))).id)


async def test_what_is_not_open_any_more_is_not_granted(desk: Desk) -> None:
    withdrawn, refused, lapsed, left, again = [await desk.ask() for _ in range(5)]
    await desk.requests.withdraw(who("carol"), withdrawn.id)
    await desk.requests.refuse(who("dave"), refused.id, "no need")
    await desk.run(
        "UPDATE sluice.access_request SET until = clock_timestamp() - interval '1 s' WHERE id = $1", lapsed.id
    )
    for request, why in ((withdrawn, "withdrawn"), (refused, "refused"), (lapsed, "is over")):
        with pytest.raises(NotGrantable, match=why):
            await desk.grant("admin", request.id)
    # Who has left is not given anything, nor somebody else who has the name now.
    for person in (None, who("carol", "2")):
        desk.people["carol"] = person  # type: ignore[assignment]
        with pytest.raises(NotGrantable, match="cannot log in any more"):
            await desk.grant("admin", left.id)
    desk.people["carol"] = who("carol")
    await desk.grant("admin", again.id)
    for work in (
        desk.grant("second", again.id),
        desk.requests.refuse(who("admin"), again.id, "no"),
        desk.requests.withdraw(who("carol"), again.id),
    ):
        with pytest.raises(NotGrantable):
            await work
    await desk.requests.end(who("admin"), again.id, "enough")
    with pytest.raises(NotGrantable):
        await desk.requests.end(who("admin"), again.id, "enough")


async def test_break_glass_takes_a_second_person_who_administers_and_a_reason(desk: Desk) -> None:
    table = {"catalog": "spark_catalog", "database": "sales", "table": "customer", "column": "*"}
    await desk.policy(
        name="nobody",
        resources={level: {"values": [name]} for level, name in table.items()},
        denyPolicyItems=[{"groups": ["public"], "accesses": [{"type": "select"}]}],
    )
    usual, urgent = await desk.ask(), await desk.ask(wanted=break_glass())
    await desk.grant("admin", usual.id)
    assert not await desk.sees("carol")
    for user in ("dave", "olga"):
        with pytest.raises(NotFound):
            await desk.grant(user, urgent.id)
    with pytest.raises(Faults, match="give a reason"):
        await desk.grant("admin", urgent.id, reason=" ")
    await desk.grant("admin", urgent.id, reason="the house burns")
    assert await desk.sees("carol")
    alone = await desk.ask("admin", break_glass())
    with pytest.raises(NotForYou):
        await desk.grant("admin", alone.id)
    await desk.grant("second", alone.id)
    assert len((await desk.requests.find(who("second"), alone.id)).policies) == 3
    loud = await desk.requests.list_granted(kind=RequestKind.BREAK_GLASS, before=2**62, limit=9)
    assert [one.id for one in loud] == [alone.id, urgent.id]
    assert ("granted", "break_glass") in desk.noted


async def test_of_two_who_decide_at_once_one_does(desk: Desk) -> None:
    beside = Desk(desk.dsn)  # another gateway
    for _ in range(4):
        request = await desk.ask()
        ends = await asyncio.gather(
            desk.grant("admin", request.id),
            beside.grant("second", request.id),
            beside.grant("dave", request.id),
            desk.requests.refuse(who("dave"), request.id, "no"),
            beside.requests.withdraw(who("carol"), request.id),
            return_exceptions=True,
        )
        done = [one for one in ends if isinstance(one, StoredRequest)]
        assert len(done) == 1, ends
        assert all(isinstance(one, StoredRequest | NotGrantable) for one in ends), ends
        assert len(await desk.steps(request.id)) == 2
        found = await desk.requests.find(who("carol"), request.id)
        assert len(found.policies) == (1 if found.state == "granted" else 0)
    await beside.close()


async def test_two_grants_alike_do_not_hinder_each_other(desk: Desk) -> None:
    until = datetime.now(UTC) + timedelta(days=1)
    for user in ("carol", "eve", "mallory"):
        await desk.grant("admin", (await desk.ask(user, asked(until=until))).id)
    for user in ("carol", "eve", "mallory"):
        assert await desk.sees(user)


async def test_the_end_of_a_grant_takes_back_nothing_that_was_written_since(desk: Desk) -> None:
    request = await desk.grant("dave", (await desk.ask()).id)
    deny = [{"users": ["carol"], "accesses": [{"type": "select"}]}]
    async with desk.store.writing("admin") as writing:
        policy = await writing.by_guid(ObjectKind.POLICY, request.policies[0])
        assert policy is not None
        await writing.update(ObjectKind.POLICY, policy, {**policy, "denyPolicyItems": deny})
    with pytest.raises(RangerError) as refused:
        await desk.requests.end(who("carol"), request.id, "")
    assert refused.value.status == 403
    assert not await desk.sees("carol")
    await desk.requests.end(who("admin"), request.id, "by an administrator")
    # Nor what took its place, guid and all.
    request = await desk.grant("dave", (await desk.ask()).id)
    async with desk.store.writing("admin") as writing:
        policy = await writing.by_guid(ObjectKind.POLICY, request.policies[0])
        assert policy is not None
        await writing.delete(ObjectKind.POLICY, policy)
        replaced = {**policy, "policyItems": [], "denyPolicyItems": deny}
        assert (await writing.create(ObjectKind.POLICY, replaced))["version"] == 1
    with pytest.raises(RangerError):
        await desk.requests.end(who("carol"), request.id, "")


async def test_grants_that_are_over_are_cleared_away(desk: Desk) -> None:
    old = await desk.grant("admin", (await desk.ask()).id)
    await desk.run(
        "UPDATE sluice.access_request SET expires = clock_timestamp() - interval '2 days' WHERE id = $1",
        old.id,
    )
    assert (await desk.requests.find(who("carol"), old.id)).expired
    await desk.grant("admin", (await desk.ask()).id)
    async with desk.store.reading() as reading:
        assert await reading.by_guid(ObjectKind.POLICY, old.policies[0]) is None
    assert (await desk.steps(old.id))[-1] == ("sluice", "expired")


async def test_where_policies_are_made_elsewhere_a_request_is_kept_and_noted(desk: Desk) -> None:
    desk.place = PlaceOfGrants(service="", where="made in the packs")
    request = await desk.ask()
    with pytest.raises(NotGrantable, match="made in the packs"):
        await desk.grant("admin", request.id)
    with pytest.raises(NotFound):
        await desk.grant("dave", request.id)
    with pytest.raises(Faults, match="give a reason"):
        await desk.requests.grant_elsewhere(who("admin"), request.id, "")
    noted = await desk.requests.grant_elsewhere(who("admin"), request.id, "pack sales, line 12")
    assert (noted.state, noted.policies) == ("elsewhere", ())
    assert not await desk.sees("carol")
    desk.place = PlaceOfGrants(service="lake", where="here")
    with pytest.raises(NotGrantable, match="grant it"):
        await desk.requests.grant_elsewhere(who("admin"), (await desk.ask()).id, "there")


async def test_requests_are_listed_to_who_asked_and_have_a_limit(desk: Desk) -> None:
    ids = [(await desk.ask()).id for _ in range(3)]
    await desk.ask("eve")
    own = await desk.requests.list_own(who("carol"), before=2**62, limit=2)
    assert [one.id for one in own] == ids[:0:-1]
    assert [one.id for one in await desk.requests.list_own(who("carol"), before=ids[1], limit=9)] == ids[:1]
    assert await desk.requests.list_own(who("carol", "2"), before=2**62, limit=9) == []
    outcomes = await asyncio.gather(*(desk.ask() for _ in range(MAX_OPEN)), return_exceptions=True)
    assert len([one for one in outcomes if isinstance(one, Faults)]) == 3
    with pytest.raises(Faults, match="the past"):
        await desk.ask("eve", asked(until=datetime.now(UTC)))


async def test_what_there_is_to_decide_comes_in_pages(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in ("customer", "orders", "customer", "orders", "orders", "customer", "orders"):
        await desk.ask(wanted=asked(table=table, database="sales" if table == "customer" else "hr"))
    await desk.requests.list_to_decide(who("admin"), before=2**62, limit=9)
    assert desk.looked_up == [], "who may decide on everything needs no owners"
    await desk.requests.list_to_decide(who("olga"), before=2**62, limit=9)
    assert [len(tables) for tables in desk.looked_up] == [7], "all tables together"
    monkeypatch.setattr(access_requests, "MAX_LOOKED_AT", 2)
    for user, limit, ids in (
        ("dave", 9, [6, 3, 1]),
        ("dave", 1, [6, 3, 1]),
        ("admin", 9, [7, 6, 5, 4, 3, 2, 1]),
    ):
        found: list[int] = []
        before = 2**62
        while True:
            some, before = await desk.requests.list_to_decide(who(user), before=before, limit=limit)
            assert len(some) <= limit
            found += [one.id for one in some]
            if not before:
                break
        assert found == ids


async def test_purposes_are_those_of_grants_that_hold(desk: Desk) -> None:
    for purpose in ("audit", "audit", "billing"):
        await desk.grant("admin", (await desk.ask(wanted=asked(purpose=purpose))).id)
    await desk.ask(wanted=asked(purpose="later"))
    assert await desk.requests.list_purposes() == [("audit", 2), ("billing", 1)]
    assert [one.id for one in await desk.requests.list_purpose("audit", before=2**62, limit=9)] == [2, 1]
    assert await desk.requests.list_purpose("", before=2**62, limit=9) == []


async def test_the_history_is_for_good(desk: Desk) -> None:
    request = await desk.ask()
    assert [one.step for one in await desk.requests.history(request)] == ["asked"]
    for sql in ("UPDATE sluice.access_request_step SET who = 'x'", "DELETE FROM sluice.access_request_step"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await desk.run(sql)
