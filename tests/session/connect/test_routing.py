"""Sessions of Spark Connect on several Sparks, through several gateways: each is on one Spark, for all."""

from __future__ import annotations

import asyncio
import random
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import BackendNotAllowed, BackendUnavailable, LimitExceeded, RpcError, SessionElsewhere
from gateway.model.principal import Principal
from gateway.model.sparks import BoundSession, Routing, SparkFacts
from gateway.session.connect.routing import RoutedConnectSessions
from gateway.session.limits import SessionLimits
from gateway.wire.connect import pb, serialize
from tests.effort import tries
from tests.session.connect.fakes import (
    CLIENT,
    OTHER_SESSION,
    SESSION,
    Spark,
    World,
    collect,
    execute_request,
    table,
    uid,
)
from tests.session.fakes import BOB
from tests.session.routing.sparks import DANA, EVA, MemoryStore, fleet_of
from tests.speed import patience

KEY = ("dana", SESSION)


class Gateway(World):
    """One gateway of several: it has the Sparks `a` and `b`, and the store, with the others."""

    def __init__(
        self,
        sparks: dict[str, Spark],
        store: MemoryStore,
        *,
        groups: Any = None,
        limits: SessionLimits | None = None,
    ) -> None:
        facts = {"a": SparkFacts(name="a"), "b": SparkFacts(name="b", groups=groups)}
        self.worlds = {
            name: World(limits, spark=spark, name=name, may_use=facts[name].may_be_used_by)
            for name, spark in sparks.items()
        }
        self.fleet = fleet_of(
            Routing(default=("a", "b")),
            *((facts[name], None, world.service) for name, world in self.worlds.items()),
        )
        self.store = store
        self.service = RoutedConnectSessions(  # type: ignore[assignment]
            self.fleet, store, first_catalog="spark_catalog"
        )

    async def plan(
        self, text: str = "t", principal: Principal = DANA, asked: str = "", **more: Any
    ) -> list[Any]:
        client = replace(CLIENT, backend=asked)
        return await collect(self.service.execute(principal, client, execute_request(table(text), **more)))


class Site:
    """Two Sparks, and gateways before them."""

    def __init__(self, gateways: int = 2, *, sparks: str = "ab", **more: Any) -> None:
        self.sparks = {name: Spark([]) for name in sparks}
        self.store = MemoryStore()
        self.gateways = [Gateway(self.sparks, self.store, **more) for _ in range(gateways)]
        self.one, self.two = self.gateways[0], self.gateways[-1]

    def where(self, key: tuple[str, str] = KEY) -> list[str]:
        """On which Sparks a session is."""
        return [name for name, spark in self.sparks.items() if key in spark.sessions]


async def test_a_session_stays_on_its_spark() -> None:
    site = Site()
    for number in range(6):
        session = uid()
        for text in ("t", "u"):
            await site.one.plan(text, session=session)
        assert len(site.where(("dana", session))) == 1, number
        assert site.store.rows["dana", session].is_open
    assert [len(spark.sessions) for spark in site.sparks.values()] == [3, 3]


async def test_a_client_that_goes_away_while_its_session_is_opened_leaves_nothing_behind() -> None:
    site = Site()
    slow = {name: asyncio.Event() for name in site.sparks}
    for name, spark in site.sparks.items():
        spark.silent = slow[name]
    opening = asyncio.create_task(site.one.plan())
    async with asyncio.timeout(patience(5)):
        while not any(method == "open_session" for s in site.sparks.values() for method, _ in s.reached):  # noqa: ASYNC110
            await asyncio.sleep(0)
        opening.cancel()
        with suppress(asyncio.CancelledError):
            await opening
        for event in slow.values():
            event.set()
        while KEY in site.store.rows or site.where():  # noqa: ASYNC110
            await asyncio.sleep(0)
    for world in site.one.worlds.values():
        assert not world.service.list_open()
        assert not world.service._registry.per_user
    # And he may come again.
    await site.one.plan()
    assert site.store.rows[KEY].is_open


async def test_the_same_session_through_two_gateways_at_once_is_on_one_spark() -> None:
    """Who binds first has bound it; the other one goes there."""
    for turn in range(20):
        site = Site(4)
        site.one.fleet.get("a").thrift = [1] * (turn % 3)  # type: ignore[union-attr]  # others' load
        site.two.fleet.get("b").thrift = [1]  # type: ignore[union-attr]
        await asyncio.gather(*(gateway.plan() for gateway in site.gateways), return_exceptions=True)
        assert len(site.where()) == 1
        assert site.store.rows[KEY] == BoundSession(site.where()[0], is_open=True)


async def test_reading_goes_on_through_another_gateway() -> None:
    site = Site()
    await site.one.plan(session=OTHER_SESSION)  # so that `b` is next
    operation = uid()
    stream = site.one.service.execute(DANA, CLIENT, execute_request(table("t"), operation=operation))
    async with aclosing(stream):
        first = await anext(stream)
    assert site.where() == ["b"]
    last = pb.ExecutePlanResponse.FromString(first).response_id
    rest = await site.two.reattach(operation, last, principal=DANA)
    assert rest
    assert rest[-1].HasField("result_complete")
    await site.two.call("Interrupt", DANA, interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
    assert [method for method, _ in site.sparks["b"].calls].count("Interrupt") == 1
    assert not site.sparks["a"].calls or "Interrupt" not in {m for m, _ in site.sparks["a"].calls}
    await site.two.call("ReleaseSession", DANA)
    assert KEY not in site.store.rows
    assert site.where() == []


async def test_nobody_elses_session_is_found() -> None:
    site = Site()
    operation = uid()
    await site.one.plan(operation=operation)
    with pytest.raises(RpcError):
        await site.two.reattach(operation, principal=EVA)
    assert ("eva", SESSION) not in site.store.rows


async def test_without_the_store_there_is_no_new_session_and_open_ones_go_on() -> None:
    site = Site()
    await site.one.plan()
    site.store.away = True
    await site.one.plan("u")
    for gateway, session in ((site.one, OTHER_SESSION), (site.two, SESSION)):
        with pytest.raises(BackendUnavailable, match="database"):
            await gateway.plan(session=session)
    assert sum(len(spark.sessions) for spark in site.sparks.values()) == 1
    await site.one.call("ReleaseSession", DANA)
    assert site.where() == []
    site.store.away = False
    await site.one.plan(session=OTHER_SESSION)


async def test_a_new_session_goes_to_the_next_spark_and_an_open_one_does_not() -> None:
    site = Site()
    site.sparks["a"].down = True
    async with asyncio.timeout(patience(2)):
        await site.one.plan()
    assert site.where() == ["b"]
    site.sparks["b"].down, site.sparks["a"].down = True, False
    for gateway in site.gateways:
        with pytest.raises((BackendUnavailable, RpcError)):
            await gateway.plan("u")
    assert site.store.rows[KEY] == BoundSession("b", is_open=True)
    assert site.where() == ["b"]


async def test_what_was_moved_while_it_was_opened_is_not_opened_there_too() -> None:
    """One gateway cannot reach the Spark of a session and moves it, while another one gets through."""
    site = Site()
    slow = site.sparks["a"].silent = asyncio.Event()
    opening = asyncio.create_task(site.two.plan())
    while KEY not in site.store.rows:  # noqa: ASYNC110 - the store is a dictionary
        await asyncio.sleep(0)
    assert await site.store.give_up(KEY, "a")
    assert (await site.store.bind(KEY, "b")).backend == "b"
    slow.set()
    await opening
    assert site.where() == ["b"]
    assert KEY in site.sparks["a"].closed


async def test_a_spark_that_opens_no_session_in_time_is_passed_over() -> None:
    site = Site()
    for gateway in site.gateways:
        gateway.fleet.limits = replace(gateway.fleet.limits, open_s=0.01)
    hung = site.sparks["a"].silent = asyncio.Event()
    await site.one.plan()
    assert site.where() == ["b"]
    assert site.store.rows[KEY] == BoundSession("b", is_open=True)
    hung.set()
    await site.two.plan(session=OTHER_SESSION)
    assert site.where() == ["b"], "what it was asked for is not opened afterwards"


async def test_however_sparks_fail_each_session_is_open_on_one() -> None:
    """Through several gateways at once, while Sparks hang and answer as chance has it."""
    for seed in range(tries(10)):
        chance, site = random.Random(seed), Site(3)
        for gateway in site.gateways:
            gateway.fleet.limits = replace(gateway.fleet.limits, open_s=0.002)

        async def disturb(chance: random.Random = chance, site: Site = site) -> None:
            for _ in range(20):
                for spark in site.sparks.values():
                    if spark.silent is None:
                        spark.silent = asyncio.Event() if chance.random() < 0.5 else None
                    elif chance.random() < 0.5:
                        spark.silent.set()
                        spark.silent = None
                await asyncio.sleep(chance.choice((0, 0.001, 0.004)))
            for spark in site.sparks.values():
                if spark.silent is not None:
                    spark.silent.set()
                    spark.silent = None

        ids = [uid() for _ in range(8)]
        plans = [chance.choice(site.gateways).plan(session=one) for one in ids for _ in range(2)]
        await asyncio.gather(disturb(), *plans, return_exceptions=True)
        for one in ids:
            row, where = site.store.rows.get(("dana", one)), site.where(("dana", one))
            assert where in ([], ["a"], ["b"]), seed
            if row is not None and row.is_open:
                assert where == [row.backend], seed
            else:
                assert not where, f"{seed}: one was left behind"


@pytest.mark.parametrize("asked", ["b", "nowhere"])
async def test_who_may_not_use_a_spark_gets_no_session_there(asked: str) -> None:
    site = Site(groups=frozenset({"etl"}))
    with pytest.raises(BackendNotAllowed, match=r"you may use `a`$"):
        await site.one.plan(principal=EVA, asked=asked)
    assert not site.store.rows
    await site.one.plan(principal=DANA, asked="b")
    assert site.where() == ["b"]
    # Who has left the group reads nothing there through another gateway, and can still end it.
    left = replace(DANA, groups=frozenset())
    with pytest.raises(BackendNotAllowed):
        await site.two.plan(principal=left)
    with pytest.raises(BackendNotAllowed):
        await site.two.reattach(uid(), principal=left)
    await site.two.call("ReleaseSession", left)
    assert site.where() == []


async def test_who_has_left_a_group_begins_nothing_in_an_open_session() -> None:
    site = Site(groups=frozenset({"etl"}))
    operation = uid()
    await site.one.plan(asked="b", operation=operation)
    left = replace(DANA, groups=frozenset())
    before = len(site.sparks["b"].received)
    with pytest.raises(BackendNotAllowed):
        await site.one.plan("u", principal=left)
    with pytest.raises(BackendNotAllowed):
        await site.one.call("CloneSession", left, new_session_id=uid())
    with pytest.raises(BackendNotAllowed):
        await site.one.reattach(operation, principal=left)
    assert len(site.sparks["b"].received) == before
    await site.one.call("Interrupt", left, interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
    await site.one.call("ReleaseSession", left)
    assert site.where() == []


@pytest.mark.parametrize("method", ["Interrupt", "FetchErrorDetails"])
@pytest.mark.parametrize("sparks", ["ab", "b"])
async def test_a_call_that_makes_a_session_makes_none_where_its_user_may_not(
    method: str, sparks: str
) -> None:
    """Spark makes a session for these where it has none; the store may know one of earlier."""
    site = Site(groups=frozenset({"etl"}), sparks=sparks)
    if sparks == "ab":
        site.store.rows["eva", SESSION] = BoundSession("b", is_open=True)
    fields: dict[str, Any] = (
        {"error_id": uid()}
        if method == "FetchErrorDetails"
        else {"interrupt_type": pb.InterruptRequest.INTERRUPT_TYPE_ALL}
    )
    with pytest.raises(BackendNotAllowed):
        await site.one.call(method, EVA, **fields)
    with pytest.raises(BackendNotAllowed):
        await site.one.plan(principal=EVA)
    assert not site.sparks["b"].sessions
    events = [one for world in site.one.worlds.values() for one in world.ledger.of("security")]
    assert {(one.body["action"], one.body["reqUser"]) for one in events} == {("session_refused", "eva")}


async def test_a_session_is_not_on_another_spark_than_its_client_asks_for() -> None:
    site = Site()
    await site.one.plan(asked="a")
    await site.one.plan(asked="a")
    for gateway in site.gateways:
        with pytest.raises(BackendNotAllowed, match="open a new session"):
            await gateway.plan(asked="b")
    assert site.where() == ["a"]


async def test_a_clone_is_on_the_spark_of_its_session() -> None:
    site = Site()
    await site.one.plan(session=OTHER_SESSION)
    await site.one.plan()
    (spark,) = site.where()
    wanted = uid()
    await site.one.call("CloneSession", DANA, new_session_id=wanted)
    assert site.store.rows["dana", wanted] == BoundSession(spark, is_open=True)
    answer = await site.one.call("CloneSession", DANA)
    assert site.store.rows["dana", answer.new_session_id].backend == spark
    with pytest.raises(RpcError, match="ALREADY_EXISTS"):
        await site.one.call("CloneSession", DANA, new_session_id=OTHER_SESSION)


@pytest.mark.parametrize("away", [False, True])
async def test_a_clone_that_was_moved_while_it_was_made_is_not_on_two_sparks(away: bool) -> None:
    """Another gateway could not reach its Spark, and opened it on the other one; or the store is away."""
    site = Site()
    await site.one.plan(asked="a")
    wanted = uid()
    hold = site.sparks["a"].hold["CloneSession"] = asyncio.Event()
    cloning = asyncio.create_task(site.one.call("CloneSession", DANA, new_session_id=wanted))
    while not any(method == "CloneSession" for method, _ in site.sparks["a"].calls):  # noqa: ASYNC110 - a list
        await asyncio.sleep(0)
    assert await site.store.give_up(("dana", wanted), "a")
    await site.two.plan(session=wanted, asked="b")
    site.store.away = away
    hold.set()
    with pytest.raises(BackendUnavailable):
        await cloning
    assert site.where(("dana", wanted)) == ["b"]
    assert not site.one.worlds["a"].service.has(("dana", wanted))


async def test_a_session_of_before_there_were_several_sparks_is_found() -> None:
    site = Site()
    lone = World(spark=site.sparks["b"], name="b")
    await collect(lone.service.execute(DANA, CLIENT, execute_request(table("t"))))
    observed = site.sparks["b"].sessions[KEY].server_id
    await site.one.plan(observed=observed)
    assert site.store.rows[KEY].backend == "b"
    with pytest.raises(RpcError, match="SESSION_CHANGED"):
        await site.one.plan(session=OTHER_SESSION, observed=observed)


async def test_a_session_whose_spark_is_gone_has_ended() -> None:
    site = Site()
    await site.one.plan(asked="b")
    site.two.fleet.remove("b")
    with pytest.raises(RpcError, match="SESSION_CLOSED"):
        await site.two.plan()
    site.two.fleet.note_pending("b", "it has not answered yet")
    with pytest.raises(BackendUnavailable):
        await site.two.plan()
    assert site.where() == ["b"]


async def test_calls_about_what_is_nowhere_are_answered_as_spark_does() -> None:
    site = Site()
    with pytest.raises(RpcError):
        await site.one.reattach(uid(), principal=BOB)
    await site.one.call("ReleaseSession", BOB)
    assert not site.store.rows
    await site.one.call("Interrupt", BOB, interrupt_type=pb.InterruptRequest.INTERRUPT_TYPE_ALL)
    assert len(site.store.rows) == 1, "Spark makes a session for it, and so do we"


async def test_an_upload_goes_to_the_spark_of_its_session() -> None:
    site = Site()
    await site.one.plan(session=OTHER_SESSION)
    await site.one.plan()
    (spark,) = site.where()

    async def upload() -> Any:
        request = pb.AddArtifactsRequest(session_id=SESSION)
        request.batch.SetInParent()
        yield serialize(request)

    await site.one.service.add_artifacts(DANA, CLIENT, upload())
    analysis = pb.AnalyzePlanRequest(session_id=SESSION)
    analysis.spark_version.SetInParent()
    await site.one.service.analyze(DANA, CLIENT, serialize(analysis))
    assert site.where() == [spark]


async def test_a_session_of_another_gateway_is_not_released_when_it_is_refused() -> None:
    site = Site()
    await site.one.plan()
    (spark,) = site.where()
    site.sparks[spark].elsewhere = True
    with pytest.raises(SessionElsewhere):
        await site.two.plan()
    assert site.where() == [spark]
    assert site.store.rows[KEY].is_open


async def test_who_is_refused_a_session_leaves_nothing_in_the_store() -> None:
    site = Site(limits=SessionLimits(sessions_per_user=2))
    for _ in range(20):
        with suppress(LimitExceeded):
            await site.one.plan(session=uid())
    rows = [row for (user, _), row in site.store.rows.items() if user == "dana"]
    assert rows
    assert all(row.is_open for row in rows)
