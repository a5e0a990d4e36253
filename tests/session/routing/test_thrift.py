"""Sessions of HiveServer2 clients on several Sparks: each stays where it was opened."""

from __future__ import annotations

import asyncio
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
