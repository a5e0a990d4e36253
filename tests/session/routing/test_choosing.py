"""Which Spark a new session gets: by what is asked for, by rules, by who may use it, and by how it stands."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gateway.errors import BackendNotAllowed, BackendUnavailable, RpcError
from gateway.model.principal import Principal
from gateway.model.sparks import Routing, RoutingRule, SparkFacts
from gateway.session.routing.fleet import Fleet, SparkEntry
from tests.session.routing.sparks import DANA, EVA, fleet_of
from tests.speed import patience

ETL = SparkFacts(name="etl", groups=frozenset({"etl"}), tags=frozenset({"big"}), minor="4.2")
BI = SparkFacts(name="bi", tags=frozenset({"big"}), weight=3, minor="4.3")
OLD = SparkFacts(name="old", users=frozenset({"eva"}), minor="4.0")
POD = SparkFacts(name="pool@10.0.0.7", pool="pool", minor="4.3")
ROUTING = Routing(
    rules=(
        RoutingRule(backends=("old",), users=frozenset({"eva"}), catalogs=frozenset({"attic"})),
        RoutingRule(backends=("etl", "bi"), groups=frozenset({"etl"}), version="4.2"),
        RoutingRule(backends=("old",), catalogs=frozenset({"attic"})),
    ),
    default=("bi",),
)


def fleet() -> Fleet:
    return fleet_of(ROUTING, *((facts, [], None) for facts in (ETL, BI, OLD, POD)))


@pytest.mark.parametrize(
    ("principal", "asked", "catalog", "wanted"),
    [
        (DANA, "", "spark_catalog", ["etl"]),  # by group, and by version of the rule
        (EVA, "", "spark_catalog", ["bi"]),  # by default
        (EVA, "", "Attic", ["old"]),  # by catalog, whatever its case
        (DANA, "big", "", ["bi", "etl"]),  # a tag: the lighter one by weight
        (EVA, "big", "", ["bi"]),  # of a tag only what she may use
        (EVA, "4.3", "", ["bi", "pool@10.0.0.7"]),  # a version
        (EVA, "pool", "", ["pool@10.0.0.7"]),
        (EVA, "pool@10.0.0.7", "", ["pool@10.0.0.7"]),
    ],
)
def test_rules(principal: Principal, asked: str, catalog: str, wanted: list[str]) -> None:
    assert [one.name for one in fleet().choose("thrift", asked, principal, catalog)] == wanted


@pytest.mark.parametrize("asked", ["etl", "nowhere", "4.9", ""])
def test_what_somebody_may_not_use_is_told_as_if_it_were_not_there(asked: str) -> None:
    """A rule that leads there does not either."""
    sparks = fleet()
    if not asked:
        sparks.routing = replace(ROUTING, rules=(RoutingRule(backends=("etl",)),))
    with pytest.raises(BackendNotAllowed) as refused:
        sparks.choose("thrift", asked, EVA, "")
    assert refused.value.message.endswith("you may use `bi`, `big`, `old`, `pool`")
    assert "etl" not in refused.value.message.replace("Spark `etl`", "")


def test_who_may_use_none_is_told_so() -> None:
    with pytest.raises(BackendNotAllowed, match="there is no Spark that you may use"):
        fleet_of(Routing(), (replace(ETL, name="default"), [], None)).choose("thrift", "", EVA, "")


def test_what_is_drained_or_down_or_gone_gets_nothing() -> None:
    sparks = fleet()
    assert sparks.set_drained("etl", on=True) == ["etl"]
    assert [one.name for one in sparks.choose("thrift", "big", DANA, "")] == ["bi"]
    with pytest.raises(BackendUnavailable, match="`etl` is being drained"):
        sparks.choose("thrift", "etl", DANA, "")
    sparks.set_drained("etl", on=False)
    assert sparks.choose("thrift", "etl", DANA, "")
    pod = sparks.get("pool@10.0.0.7")
    assert pod is not None
    pod.is_gone = True
    with pytest.raises(BackendUnavailable, match="is about to go"):
        sparks.choose("thrift", "pool", EVA, "")
    assert sparks.set_drained("pool", on=True) == ["pool@10.0.0.7"]
    with pytest.raises(BackendNotAllowed):
        sparks.choose("connect", "", EVA, "")  # no Spark has it


async def test_a_breaker_opens_is_tried_by_the_gateway_and_closes() -> None:
    now = [0.0]
    sparks = fleet_of(ROUTING, (ETL, [], None), (BI, [], None), clock=lambda: now[0])
    spark = sparks.get("bi")
    assert spark is not None
    answers: list[Exception | None] = []

    async def ask() -> None:
        if (error := answers.pop(0)) is not None:
            raise error

    spark.looks = spark.trials = {"thrift": ask}
    breaker: Any = spark.breakers["thrift"]
    answers += [OSError("refused"), None, OSError("refused"), OSError("refused")]
    for state in ("closed", "closed", "closed", "open"):
        await sparks.look()
        assert breaker.state == state
    assert breaker.went_down.is_set()
    with pytest.raises(BackendUnavailable, match="`bi` does not answer"):
        sparks.choose("thrift", "", EVA, "")
    await sparks.look()  # not yet
    now[0] = 5.0
    answers.append(BackendUnavailable("Spark does not open a session"))
    await sparks.look()
    assert breaker.state == "open"
    now[0] = 10.0
    answers.append(None)
    await sparks.look()
    assert breaker.state == "closed"
    assert not breaker.went_down.is_set()
    # Who takes connections may still open no sessions: when some have failed the gateway tries by itself.
    for answer, state in ((None, "closed"), (BackendUnavailable("it hangs"), "open")):
        breaker.note_failure("session", "hangs")
        answers.append(None)
        await sparks.look()
        breaker.note_failure("session", "hangs")
        assert breaker.state == "closed", "a user's failures close no Spark to others"
        answers.append(answer)
        await sparks.look()
        assert breaker.state == state


async def test_a_spark_that_is_being_tried_holds_up_no_look_at_another() -> None:
    sparks = fleet_of(ROUTING, (ETL, [], None), (BI, [], None))
    sparks.limits = replace(sparks.limits, check_s=0.001)
    tried, silent = asyncio.Event(), asyncio.Event()

    async def hang() -> None:
        tried.set()
        await silent.wait()

    async def refuse() -> None:
        await tried.wait()
        raise OSError("refused")

    etl, bi = sparks.get("etl"), sparks.get("bi")
    assert etl is not None
    assert bi is not None
    etl.looks = etl.trials = {"thrift": hang}
    bi.looks = {"thrift": refuse}
    for _ in range(2):
        etl.breakers["thrift"].note_failure("session", "no session in time")
    looking = asyncio.create_task(sparks.run())
    async with asyncio.timeout(patience(5)):
        await bi.breakers["thrift"].went_down.wait()
    assert etl.breakers["thrift"].is_doubted
    looking.cancel()
    await asyncio.wait({looking})


def test_what_was_drained_stays_so_when_it_joins() -> None:
    fleet = fleet_of(Routing(default=("a", "pool")), (SparkFacts(name="a"), [], None))
    fleet.note_pending("late", "it has not answered yet")
    assert fleet.set_drained("late", on=True) == ["late"]
    assert fleet.set_drained("nowhere", on=True) == []
    fleet.note_pending("pool", "no address is known yet")
    fleet.set_drained("pool", on=True)
    for name, pool in (("late", "late"), ("pool@1", "pool"), ("pool@2", "pool")):
        fleet.add(SparkEntry(facts=SparkFacts(name=name, pool=pool), thrift=[]))  # type: ignore[arg-type]
    assert [one.name for one in fleet.all() if one.is_drained] == ["late", "pool@1", "pool@2"]
    fleet.set_drained("pool@1", on=False)
    assert fleet.set_drained("pool", on=False) == ["pool@1", "pool@2"]
    fleet.set_drained("pool@2", on=True)
    fleet.remove("pool@2")
    fleet.add(SparkEntry(facts=SparkFacts(name="pool@2", pool="pool"), thrift=[]))  # type: ignore[arg-type]
    assert [one.name for one in fleet.all() if one.is_drained] == ["late"]


@pytest.mark.parametrize("fault", [RpcError(13, "x"), KeyError("x"), RuntimeError("x")])
async def test_whatever_a_spark_says_the_gateway_looks_on(fault: Exception) -> None:
    fleet = fleet_of(Routing(), (SparkFacts(name="a"), [], None), failures=1)
    spark = fleet.all()[0]

    async def look() -> None:
        raise fault

    spark.looks = {"thrift": look}
    await fleet.look()
    assert spark.breakers["thrift"].state == "open"


def test_clients_are_told_no_address() -> None:
    sparks = [SparkFacts(name=f"pool@10.0.0.{number}", pool="pool") for number in range(30)]
    fleet = fleet_of(Routing(default=("pool",)), *((one, [], None) for one in sparks))
    for spark in fleet.all():
        spark.breakers["thrift"].note_failure("trial", "connection refused")
    with pytest.raises(BackendUnavailable) as raised:
        fleet.choose("thrift", "", Principal(user="bob"), "spark_catalog")
    assert raised.value.message == "no Spark takes a new session now: `pool` does not answer"
