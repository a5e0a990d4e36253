"""Sessions of HiveServer2 clients on several Sparks: each stays where it was opened."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import (
    AuthenticationFailed,
    BackendNotAllowed,
    BackendUnavailable,
    InvalidHandle,
    LimitExceeded,
)
from gateway.model.principal import Principal
from gateway.model.sparks import Routing, RoutingRule, SparkFacts
from gateway.model.statement import Client
from gateway.session.identifiers import Handle, new_handle
from gateway.session.limits import SessionLimits
from gateway.session.metadata import Patterns
from gateway.session.ports import LoginIdentity
from gateway.session.routing.fleet import Fleet
from gateway.session.routing.thrift import RoutedSessions
from tests.effort import tries
from tests.session.fakes import CLIENT, World
from tests.session.routing.sparks import DANA, EVA, fleet_of
from tests.speed import patience

ROUTING = Routing(rules=(RoutingRule(backends=("b",), catalogs=frozenset({"lake"})),), default=("a", "b"))


class Gateway:
    """A gateway of two Sparks, `a` and `b`; `b` is for the group etl."""

    def __init__(self, *, closed: bool = False, limits: SessionLimits | None = None) -> None:
        groups = frozenset({"etl"}) if closed else None
        facts = SparkFacts(name="b", groups=groups)
        self.a, self.b = World(limits, name="a"), World(limits, name="b", may_use=facts.may_be_used_by)
        self.b.sessions._registry.per_user = self.a.sessions._registry.per_user
        self.fleet: Fleet = fleet_of(
            ROUTING,
            (SparkFacts(name="a", weight=2), self.a.sessions, None),
            (facts, self.b.sessions, None),
        )
        self.sessions = RoutedSessions(
            self.fleet,
            self.a.sessions.recorder,
            self.a.sessions.lifecycle,
            first_catalog="spark_catalog",
            named_catalogs=frozenset({"lake"}),
        )

    async def open(self, principal: Principal = DANA, asked: str = "", **more: Any) -> Handle:
        client = replace(CLIENT, backend=asked)
        return await self.sessions.open_session(principal, client, protocol_version=10, **more)

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.a.sessions), len(self.b.sessions)


async def test_sessions_are_spread_by_weight_and_stay() -> None:
    gateway = Gateway()
    handles = [await gateway.open() for _ in range(6)]
    assert gateway.counts == (4, 2)
    for handle in handles:
        await gateway.sessions.of(handle).execute(DANA, handle, "TABLE t", run_async=False)
    assert (len(gateway.a.backend.received), len(gateway.b.backend.received)) == (4, 2)
    (event,) = {e.body["backend"] for e in gateway.b.ledger.of("decided")}
    assert event == "b", "the record says where"
    await gateway.sessions.close_disconnected(handles)
    assert {e.body["backend"] for e in gateway.b.ledger.of("completed")} == {"b"}
    assert gateway.counts == (0, 0)
    nobodys = new_handle(b"")
    with pytest.raises(InvalidHandle):
        await gateway.sessions.of(nobodys).execute(DANA, nobodys, "TABLE t", run_async=False)


async def test_the_catalog_of_the_database_counts() -> None:
    gateway = Gateway()
    for database in ("lake.sales", "LAKE.sales", "sales"):
        await gateway.open(database=database)
    assert gateway.counts == (1, 2)


async def test_a_handle_of_somebody_else_is_refused_on_each_spark() -> None:
    gateway = Gateway()
    handles = [await gateway.open(asked=name) for name in ("a", "b")]
    for handle in handles:
        with pytest.raises(InvalidHandle):
            await gateway.sessions.of(handle).execute(EVA, handle, "TABLE t", run_async=False)
    assert [len(one.ledger.of("security")) for one in (gateway.a, gateway.b)] == [1, 1]


async def test_who_may_not_use_a_spark_gets_no_session_there() -> None:
    gateway = Gateway(closed=True)
    with pytest.raises(BackendNotAllowed, match=r"you may use `a`$"):
        await gateway.open(EVA, "b")
    with pytest.raises(BackendNotAllowed, match="no Spark of the rules is for you"):
        await gateway.open(EVA, database="lake.x")
    refused = [one.body["action"] for one in gateway.a.ledger.of("security")]
    assert refused == ["session_refused"] * 2
    await gateway.open(EVA)
    await gateway.open(DANA, "b")
    assert gateway.counts == (1, 1)


async def test_a_spark_that_fails_is_passed_over_at_once() -> None:
    gateway = Gateway()
    gateway.a.backend.down = True
    async with asyncio.timeout(patience(2)):
        await gateway.open()
        await gateway.open()
    assert gateway.counts == (0, 2)
    spark = gateway.fleet.get("a")
    assert spark is not None
    assert spark.breakers["thrift"].is_suspected
    gateway.b.backend.down = True
    with pytest.raises(BackendUnavailable):
        await gateway.open()


async def test_who_waits_for_a_spark_that_goes_silent_gets_the_next_one() -> None:
    """Nobody waits for its login until that is given up when the gateway knows better."""
    gateway = Gateway()
    gateway.a.backend.silent = asyncio.Event()
    opening = asyncio.create_task(gateway.open())
    while gateway.a.sessions._registry.per_user["dana"] == 0:  # noqa: ASYNC110 - a counter
        await asyncio.sleep(0)
    spark = gateway.fleet.get("a")
    assert spark is not None
    spark.breakers["thrift"].note_failure("look", "no answer")
    spark.breakers["thrift"].note_failure("look", "no answer")
    async with asyncio.timeout(patience(5)):
        await opening
    assert gateway.counts == (0, 1)
    assert gateway.a.sessions._registry.per_user == {"dana": 1}, "its place is given back"


async def test_a_spark_that_opens_no_session_in_time_is_passed_over_and_then_last() -> None:
    gateway = Gateway()
    gateway.fleet.limits = replace(gateway.fleet.limits, open_s=0.01)
    hung = gateway.a.backend.silent = asyncio.Event()
    spark = gateway.fleet.get("a")
    assert spark is not None
    for number in (1, 2):
        await gateway.open()
        assert gateway.counts == (0, number)
    assert spark.breakers["thrift"].is_suspected
    # Who comes next does not wait for it, neither before nor while the gateway tries it.
    for _ in range(2):
        assert [one.name for one in gateway.fleet.choose("thrift", "", DANA, "")] == ["b", "a"]
        spark.breakers["thrift"].begin_trial()
    spark.breakers["thrift"].note_success("trial")
    assert [one.name for one in gateway.fleet.choose("thrift", "", DANA, "")] == ["a", "b"]
    # Where there is no other one it has all the time that a gateway with one Spark gives it.
    opening = asyncio.create_task(gateway.open(asked="a"))
    await asyncio.sleep(0.05)
    assert not opening.done()
    hung.set()
    await opening
    assert gateway.counts == (1, 2)


async def test_however_sparks_fail_each_session_is_open_once() -> None:
    """They refuse, hang and answer as chance has it, and clients go away meanwhile."""
    for seed in range(tries(20)):
        chance, gateway = random.Random(seed), Gateway()
        gateway.fleet.limits = replace(gateway.fleet.limits, open_s=0.002)
        backends = (gateway.a.backend, gateway.b.backend)

        async def disturb(chance: random.Random = chance, backends: Any = backends) -> None:
            for _ in range(30):
                for one in backends:
                    one.down = chance.random() < 0.3
                    if one.silent is None:
                        one.silent = asyncio.Event() if chance.random() < 0.4 else None
                    elif chance.random() < 0.5:
                        one.silent.set()
                        one.silent = None
                await asyncio.sleep(chance.choice((0, 0.001, 0.003)))
            for one in backends:
                one.down = False
                if one.silent is not None:
                    one.silent.set()
                    one.silent = None

        openings = [asyncio.create_task(gateway.open()) for _ in range(20)]
        disturbing = asyncio.create_task(disturb())
        for opening in openings[:4]:
            await asyncio.sleep(0.001)
            opening.cancel()
        found = await asyncio.gather(*openings, return_exceptions=True)
        await disturbing
        handles = [one for one in found if isinstance(one, Handle)]
        assert all(isinstance(one, Handle | BackendUnavailable | asyncio.CancelledError) for one in found)
        assert sum(gateway.counts) == len(handles), seed
        here = [one for world in (gateway.a, gateway.b) for one in world.backend.sessions if not one.closed]
        assert len(here) == len(handles), f"{seed}: one was left behind"
        assert gateway.a.sessions._registry.per_user.get("dana", 0) == len(handles)


async def test_limits_are_for_all_sparks_together() -> None:
    gateway = Gateway(limits=SessionLimits(sessions_per_user=2))
    await gateway.open(asked="a")
    await gateway.open(asked="b")
    for name in ("a", "b"):
        with pytest.raises(LimitExceeded):
            await gateway.open(asked=name)


async def test_groups_of_now_count_and_not_those_of_the_login() -> None:
    gateway = Gateway(closed=True)

    class Left(LoginIdentity):
        def admit(self, principal: Principal, client: Client) -> Principal:
            if principal.user == "gone":
                raise AuthenticationFailed("the user was removed")
            return replace(principal, groups=frozenset())

    for world in (gateway.a, gateway.b):
        object.__setattr__(world.sessions._dependencies, "identity", Left())
    with pytest.raises(BackendNotAllowed):
        await gateway.open(DANA, "b")
    with pytest.raises(AuthenticationFailed):
        await gateway.open(Principal(user="gone"))


async def test_who_has_left_a_group_begins_nothing_in_an_open_session() -> None:
    gateway = Gateway(closed=True)
    handle = await gateway.open(asked="b")
    left = replace(DANA, groups=frozenset())
    with pytest.raises(BackendNotAllowed):
        await gateway.sessions.of(handle).execute(left, handle, "TABLE t", run_async=False)
    with pytest.raises(BackendNotAllowed):
        await gateway.sessions.of(handle).metadata(left, handle, 3, "GetSchemas", Patterns())
    assert not gateway.b.backend.received
    await gateway.sessions.of(handle).close_session(left, handle)
    assert gateway.counts == (0, 0)
