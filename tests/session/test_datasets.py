"""Statements on datasets: on record, then done, then forwarded; what cannot be done is not forwarded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.errors import InvalidRequest
from gateway.model.catalog import TableName
from gateway.model.statement import CatalogChanged, CreateTempView, TendDataset
from gateway.session.failures import StatementRefused
from gateway.session.operation import FINISHED
from gateway.session.session import VIEW_ORIGINS
from tests.session.connect import fakes as connect
from tests.session.connect.fakes import sql, sql_rows
from tests.session.fakes import World
from tests.session.test_service import open_session, run
from tests.session.test_waiting import ends_in

EVENTS = TableName("spark_catalog", "lake", "raw__events")
EFFECTS = [("FORGET", (CatalogChanged((EVENTS,)), TendDataset("forget", EVENTS)))]


def thrift(*, promotes: bool = True) -> World:
    world = World(promotes=promotes)
    world.judge.effects = list(EFFECTS)
    return world


async def test_what_is_on_record_is_done_and_then_forwarded() -> None:
    world = thrift()
    await run(world, await open_session(world), "FORGET it")
    assert world.order[:3] == ["decided", "tended", "forwarded"]
    assert world.promotion.tended == [("forget", EVENTS)]


async def test_what_cannot_be_done_is_not_forwarded() -> None:
    world = thrift()
    world.promotion.why = "its files are gone"
    handle = await open_session(world)
    with pytest.raises(InvalidRequest, match="its files are gone"):
        await run(world, handle, "FORGET it")
    assert world.backend.received == []
    (completed,) = world.ledger.of("completed")
    assert completed.body["outcome"] == "failed"
    await run(world, handle, "SELECT 1")
    with pytest.raises(InvalidRequest, match="`files` is not configured"):
        await run(*(other := thrift(promotes=False), await open_session(other)), "FORGET it")


async def test_what_has_to_wait_for_spark_is_done_once() -> None:
    world = thrift()
    handle = await open_session(world)
    world.backend.full = 1
    opened = await run(world, handle, "FORGET it", run_async=True)
    await ends_in(world, opened, FINISHED)
    assert world.order.count("forwarded") == 2
    assert world.promotion.tended == [("forget", EVENTS)]


async def test_plans_go_the_same_way() -> None:
    world = connect.World(promotes=True)
    world.judge.effects = list(EFFECTS)
    world.spark.script("FORGET it", sql_rows())
    await world.run(sql("FORGET it"))
    at = world.order.index("tended")
    assert world.order[at - 1 : at + 2] == ["decided", "tended", "forwarded"]
    forwarded = world.order.count("forwarded")
    assert world.promotion.tended == [("forget", EVENTS)]
    world.promotion.why = "its files are gone"
    with pytest.raises(InvalidRequest, match="its files are gone"):
        await world.run(sql("FORGET it"))
    assert world.order.count("forwarded") == forwarded
    world.require_balance()


@pytest.mark.parametrize(
    ("owner", "unfinished", "is_made"),
    [(None, True, True), (None, False, False), ("alice", True, False)],
)
async def test_what_a_promotion_left_half_made_is_promoted_again(
    owner: str | None, unfinished: bool, is_made: bool
) -> None:
    world = World(promotes=True)
    world.catalog.add(str(EVENTS), ("id", "int"))
    world.catalog.known[EVENTS] = replace(world.catalog.known[EVENTS], owner=owner)
    world.judge.needs = (EVENTS,)
    world.promotion.covered.add(EVENTS)
    world.promotion.unfinished |= {EVENTS} if unfinished else set()
    await run(world, await open_session(world), "SELECT 1")
    assert world.promotion.promoted == ([(EVENTS, False)] if is_made else [])


@pytest.mark.parametrize("within", ["", "view"])
async def test_no_stream_goes_on_reading_files_that_are_looked_through(within: str) -> None:
    """It takes what comes later, a link among it, without a statement before which anybody looks."""
    world = connect.World(promotes=True)
    world.catalog.add(str(EVENTS), ("id", "int"))
    world.promotion.covered.add(EVENTS)
    world.judge.changes["START"] = {"plan_class": "WriteStreamOperationStart"}
    world.judge.names = [("events", frozenset({EVENTS}))]
    world.judge.effects = [("VIEW", (CreateTempView("v"),))]
    if within:
        await world.run(connect.view("v", "events"))
    with pytest.raises(StatementRefused, match="a stream over local files"):
        await world.run(sql(f"START FROM {'v' if within else 'events'}"))
    for text in ("START FROM others", "SELECT FROM events"):
        world.spark.script(text, sql_rows())
        await world.run(sql(text))


async def test_promoting_by_name_asks_whatever_judging_knew() -> None:
    world = World(promotes=True)
    world.judge.effects = [("PROMOTE", (CatalogChanged((EVENTS,)), TendDataset("promote", EVENTS)))]
    handle = await open_session(world)
    for _ in range(2):
        await run(world, handle, "PROMOTE it")
    assert world.promotion.promoted == [(EVENTS, True)] * 2
    assert world.promotion.tended == [("promote", EVENTS)] * 2
    world.promotion.refuses = "it has files of different kinds"
    with pytest.raises(InvalidRequest, match="different kinds"):
        await run(world, handle, "PROMOTE it")
    assert len(world.promotion.tended) == 2


async def test_files_with_something_among_them_that_leads_out_are_not_read() -> None:
    world = World(promotes=True)
    world.catalog.add(str(EVENTS), ("id", "int"))
    world.judge.names = [("events", frozenset({EVENTS}))]
    world.promotion.covered.add(EVENTS)
    handle = await open_session(world)
    for _ in range(2):
        await run(world, handle, "SELECT * FROM events")
    world.promotion.troubles[str(EVENTS)] = "it contains a link"
    for _ in range(2):
        with pytest.raises(StatementRefused, match="it contains a link"):
            await run(world, handle, "SELECT * FROM events")
    await run(world, handle, "SELECT 1")
    world.judge.effects = [("FORGET", (TendDataset("forget", EVENTS),))]
    await run(world, handle, "FORGET events")
    world.promotion.troubles.clear()
    await run(world, handle, "SELECT * FROM events")


@pytest.mark.parametrize("statements", [3, VIEW_ORIGINS + 2])
@pytest.mark.parametrize("by", ["view", "checkpoint"])
async def test_links_are_looked_for_below_a_view_of_however_many_statements(by: str, statements: int) -> None:
    """Of a view of a DataFrame that many statements made they are not kept; Spark has all their files."""
    world = connect.World(promotes=True)
    world.catalog.add(str(EVENTS), ("id", "int"))
    world.promotion.covered.add(EVENTS)
    world.judge.names = [("events", frozenset({EVENTS}))]
    world.judge.effects = [("VIEW v", (CreateTempView("v"),))]
    first = connect.view("v", "events")
    if by == "checkpoint":
        answer = await world.run(connect.checkpoint(connect.table("events")))
        kept = answer[0].checkpoint_command_result.relation.relation_id
        first.command.create_dataframe_view.input.CopyFrom(connect.cached(kept).root)
    await world.run(first)
    for _ in range(statements):
        await world.run(connect.view("v", "v"))
    await world.run(connect.table("v"))
    world.promotion.troubles[str(EVENTS)] = "it contains a link"
    await world.run(connect.table("others"))
    assert world.session().ended_views.keys() == {"v"}
