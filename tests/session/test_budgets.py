"""Limits of packs over Thrift: what is refused, what waits, what is canceled, and what each of it leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from gateway.errors import LimitExceeded
from gateway.model.catalog import TableName
from gateway.model.limits import LevelNames, Limit
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.statement import Client, ScanRecord
from gateway.policy.limits import limits_of
from gateway.session.budgets import Budgets
from gateway.session.failures import StatementRefused
from gateway.session.identifiers import Handle
from gateway.session.limit_ports import SharedUse, UseKey
from gateway.session.limits import SessionLimits
from gateway.session.metrics import Metrics
from gateway.session.open_sessions import OpenSessions
from gateway.session.operation import ERROR, FINISHED, PENDING
from gateway.session.slots import RunningBound, RunningCounts, Slots
from tests.session.fakes import BOB, CLIENT, Sink, World, until
from tests.session.test_waiting import nothing_is_ready
from tests.speed import patience

ANN = Principal(user="ann")
EVERYBODY = frozenset({"public"})


def limit(name: str = "small", *, together: bool = False, on: str = "", **bounds: int) -> Limit:
    levels = {"catalog": "spark_catalog", "table": on}
    return Limit(
        name=name,
        bounds=bounds,
        groups=EVERYBODY,
        together=together,
        resources=({key: LevelNames((one,)) for key, one in levels.items()},) if on else (),
        set_by="ops",
    )


def world_of(*limits: Limit, **more: Any) -> World:
    bounds = {"poll_s": 0.01, "settle_timeout_s": patience(5), "close_timeout_s": patience(5), **more}
    world = World(SessionLimits(**bounds))
    world.new_policies(*limits)
    world.backend.slow = "SLOW"
    return world


async def opened(world: World, who: Principal = BOB, client: Client = CLIENT) -> Handle:
    return await world.sessions.open_session(who, client, protocol_version=9)


async def begun(world: World, session: Handle, text: str = "SELECT 1", who: Principal = BOB) -> Handle:
    return (await world.sessions.execute(who, session, text, run_async=True)).handle


async def status(world: World, operation: Handle, who: Principal = BOB) -> Any:
    return await world.sessions.status(who, operation)


async def fetched(world: World, operation: Handle, most: int = 100) -> int:
    """Fetch once; return how many rows came."""
    frame = await world.sessions.fetch(
        BOB, operation, orientation=0, max_rows=most, fetch_type=0, seqid=1, sink=Sink()
    )
    return int(getattr(frame, "rows", 0))


def counted(world: World, action: str, measure: str, name: str = "small") -> float:
    labels = {"limit": name, "measure": measure, "action": action}
    return world.metrics.registry.get_sample_value("sluice_limits_reached_total", labels) or 0.0


async def ended(world: World, operation: Handle) -> Any:
    for _ in range(500):
        report = await status(world, operation)
        if report.error is not None or report.state == FINISHED:
            return report
    pytest.fail("it does not end")


# -- a statement ---------------------------------------------------------------------------------------------


async def test_a_statement_shows_as_many_rows_as_it_may_and_is_canceled_when_there_is_one_more() -> None:
    world = world_of(limit(rows=5), limit("wide", rows=7))
    world.backend.answers["SELECT 5"] = [(n,) for n in range(5)]
    world.backend.answers["SELECT 6"] = [(n,) for n in range(6)]
    session = await opened(world)
    five, six = await begun(world, session, "SELECT 5"), await begun(world, session, "SELECT 6")
    assert (await status(world, five)).state == (await status(world, six)).state == FINISHED
    assert [await fetched(world, five, 3) for _ in range(3)] == [3, 2, 0]
    assert await fetched(world, six) == 5
    for _ in range(2):  # asking again changes nothing
        with pytest.raises(LimitExceeded) as caught:
            await fetched(world, six)
        told = "limit `small`, set by ops, allows 5 rows a statement; the statement was canceled"
        assert (caught.value.message, caught.value.sqlstate, caught.value.retry_s) == (told, "54000", None)
    assert world.backend.sessions[0].operations[1].closed
    (event,) = world.ledger.of("completed")
    assert (event.body["outcome"], event.body["limit"], event.body["rows"]) == ("canceled", "small", 5)
    assert counted(world, "canceled", "rows") == 1
    await world.sessions.close()
    assert sorted(world.ledger.outcomes()) == ["canceled", "finished"]


async def test_who_fetches_a_result_over_many_connections_at_once_gets_no_row_more() -> None:
    world = world_of(limit(rows=5))
    world.backend.answers["SELECT 20"] = [(n,) for n in range(20)]
    operation = await begun(world, await opened(world), "SELECT 20")
    await status(world, operation)
    relay = world.backend.relay_rows

    async def late(*asked: Any) -> Any:
        await nothing_is_ready()
        return await relay(*asked)

    world.backend.relay_rows = late
    found = await asyncio.gather(*(fetched(world, operation, 3) for _ in range(8)), return_exceptions=True)
    assert sum(one for one in found if isinstance(one, int)) <= 5
    assert any(isinstance(one, LimitExceeded) for one in found)
    assert world.ledger.outcomes() == ["canceled"]


def test_a_call_that_asks_for_less_than_nothing_leaves_no_more_to_others() -> None:
    policies = PolicySet(version=1, limits=(limit(rows=5),))
    meter = Budgets(lambda: policies, limits_of).admit(BOB, CLIENT, list)
    assert meter is not None
    with meter.asking_for(-(2**62)):
        assert meter.left_rows == 5


async def test_rows_are_bounded_before_anybody_has_asked_how_the_statement_stands() -> None:
    world = world_of(limit(rows=1))
    world.backend.answers["SELECT 6"] = [(n,) for n in range(6)]
    operation = await begun(world, await opened(world), "SELECT 6")
    assert await fetched(world, operation) == 1
    with pytest.raises(LimitExceeded):
        await fetched(world, operation)
    assert world.ledger.outcomes() == ["canceled"]


async def test_bytes_end_a_statement_with_the_batch_that_passes_them() -> None:
    world = world_of(limit(bytes=150))  # the fake's batches have 100 bytes each
    session = await opened(world)
    operation = await begun(world, session)
    await status(world, operation)
    assert await fetched(world, operation) == 1
    await fetched(world, operation)
    with pytest.raises(LimitExceeded, match="150 bytes a statement"):
        await fetched(world, operation)
    assert world.ledger.of("completed")[0].body["bytes"] == 200


async def test_a_statement_that_runs_for_too_long_is_canceled_at_spark_and_says_by_which_limit() -> None:
    world = world_of(limit(seconds=1))
    session = await opened(world)
    loop = asyncio.get_running_loop()
    operation = await begun(world, session, "SLOW 1")
    began = loop.time()
    report = await ended(world, operation)
    assert loop.time() - began > 0.9
    # A canceled one shows no message in Hive's driver.
    assert report.state == ERROR
    assert report.error.text == (
        "[SLUICE_LIMIT_EXCEEDED] limit `small`, set by ops, allows 1 seconds a statement; the statement was "
        "canceled"
    )
    assert world.backend.last.cancelled
    (event,) = world.ledger.of("completed")
    assert (event.body["outcome"], event.body["limit"]) == ("canceled", "small")
    with pytest.raises(LimitExceeded):
        await fetched(world, operation)
    assert counted(world, "canceled", "seconds") == 1
    # The session goes on.
    assert (await ended(world, await begun(world, session))).state == FINISHED


async def test_the_error_reaches_a_client_that_waits_for_the_end_in_its_call() -> None:
    world = world_of(limit(seconds=1))
    session = await opened(world)
    with pytest.raises(LimitExceeded, match="1 seconds a statement"):
        await world.sessions.execute(BOB, session, "SLOW 1", run_async=False)
    assert world.ledger.outcomes() == ["canceled"]


async def test_what_ends_in_time_is_not_canceled_later() -> None:
    world = world_of(limit(seconds=1))
    operation = await begun(world, await opened(world), "SLOW 1")
    world.backend.last.end()
    assert (await ended(world, operation)).state == FINISHED
    (known,) = world.sessions._operations.values()
    assert known._runs_until is None
    assert await fetched(world, operation) == 1


async def test_a_limit_on_a_table_speaks_of_statements_that_read_it_in_a_view_too() -> None:
    world = world_of(limit("t", on="t*", statements_per_day=1))
    session = await opened(world)
    for name, passes in (("u", True), ("u", True), ("t", True), ("T2", False), ("u", True)):
        world.judge.names = [(".", frozenset({TableName("spark_catalog", "d", name)}))]
        operation = await begun(world, session, f"SELECT a FROM {name}")
        assert ((await ended(world, operation)).state == FINISHED) == passes, name


async def test_a_table_is_read_by_a_condition_on_one_of_its_partitions() -> None:
    days = replace(limit("days", on="t"), filtered_by=frozenset({"day", "hour"}))
    world = world_of(days)
    session = await opened(world)
    t, u = TableName("spark_catalog", "d", "t"), TableName("spark_catalog", "d", "u")
    world.judge.names = [(".", frozenset({t, u}))]
    for table, compared, passes in (
        (t, frozenset({"x"}), False),
        (t, frozenset[str](), False),
        (t, frozenset({"x", "hour"}), True),
        (t, None, True),  # column analysis could not tell, or a view reads it
        (u, frozenset({"x"}), True),
    ):
        record = ScanRecord(table=table, access="select", columns=None, conditions=compared)
        world.judge.scans["SELECT a"] = (record,)
        world.new_policies(days)
        report = await ended(world, await begun(world, session, "SELECT a"))
        assert (report.state == FINISHED) == passes, record
    refused = world.ledger.of("decided")[0].body
    assert refused["limit"] == "days"
    told = "limit `days`, set by ops, wants a condition on `day`, `hour` where spark_catalog.d.t is read"
    assert refused["message"] == told


# -- rates and budgets ---------------------------------------------------------------------------------------


async def test_a_rate_refuses_what_comes_too_fast_and_says_when_to_come_again() -> None:
    world = world_of(limit(statements_per_minute=2))
    session = await opened(world)
    for _ in range(2):
        assert (await ended(world, await begun(world, session))).state == FINISHED
    refused = (await ended(world, await begun(world, session))).error
    assert isinstance(refused, StatementRefused)
    assert refused.sqlstate == "53400"
    assert refused.retry_s == pytest.approx(30)
    assert "allows 2 statements a minute; try again in 30 seconds" in refused.text
    event = world.ledger.of("decided")[-1]
    assert (event.body["verdict"], event.body["code"], event.body["limit"]) == (
        "refused",
        "LIMIT_EXCEEDED",
        "small",
    )
    assert counted(world, "refused", "statements_per_minute") == 1
    world.now += 29
    assert (await ended(world, await begun(world, session))).error is not None
    world.now += 1  # what was refused has cost nothing
    assert (await ended(world, await begun(world, session))).state == FINISHED
    # Nobody else is slowed down.
    assert (await status(world, await begun(world, await opened(world, ANN), who=ANN), ANN)).error is None


async def test_what_one_limit_refuses_costs_nothing_of_another() -> None:
    budgets = Counting([limit("wide", statements_per_minute=10), limit("narrow", statements_per_minute=1)])
    take(budgets)
    for _ in range(20):
        with pytest.raises(LimitExceeded, match="narrow"):
            take(budgets)
    budgets.now += 60
    take(budgets)


async def test_rows_of_a_day_are_counted_over_statements_and_sessions_to_the_row() -> None:
    world = world_of(limit(rows_per_day=8))
    world.backend.answers["SELECT 6"] = [(n,) for n in range(6)]
    first, second = await opened(world), await opened(world)
    cursors = [await begun(world, session, "SELECT 6") for session in (first, second)]
    for cursor in cursors:
        await status(world, cursor)
    got = 0
    for turn in range(3):  # asynchronous clients fetch from several cursors in turn
        got += await fetched(world, cursors[turn % 2], 3)
    with pytest.raises(LimitExceeded, match="8 rows a day, and 8 are used; it begins anew at 00:00 UTC"):
        await fetched(world, cursors[0], 3)
    assert got == 8
    refused = (await ended(world, await begun(world, first))).error
    assert isinstance(refused, StatementRefused)
    # It is hours away: whoever tries again by himself would look like a program that hangs.
    assert (refused.sqlstate, refused.retry_s) == ("53400", None)


async def test_a_statement_may_run_for_as_long_as_its_budget_of_the_day_lasts() -> None:
    world = world_of(limit(seconds_per_day=1))
    session = await opened(world)
    report = await ended(world, await begun(world, session, "SLOW 1"))
    assert "allows 1 seconds a day" in report.error.text
    assert (await ended(world, await begun(world, session))).error is not None


async def test_statements_that_run_side_by_side_use_a_budget_of_time_together() -> None:
    world = world_of(limit(seconds_per_day=2))
    loop = asyncio.get_running_loop()
    sessions = [await opened(world) for _ in range(4)]
    began = loop.time()
    operations = [await begun(world, session, f"SLOW {n}") for n, session in enumerate(sessions)]
    assert world.budgets.list_left(world.budgets._find(BOB, CLIENT, "default"), "seconds")[0] <= 2
    last = [await begun(world, await opened(world), "SLOW 9")]
    for operation in [*operations, *last]:
        report = await ended(world, operation)
        assert "allows 2 seconds a day" in report.error.text
    assert loop.time() - began < patience(4)
    used = 2 - world.budgets.list_left(world.budgets._find(BOB, CLIENT, "default"), "seconds")[0]
    assert 2 <= used < patience(8)  # each by itself would have had 2
    assert all(period.running == 0 for period in world.budgets._periods.values())


async def test_a_budget_that_all_share_is_used_by_all() -> None:
    world = world_of(limit("office", together=True, statements_per_hour=2))
    for who in (BOB, ANN):
        operation = await begun(world, await opened(world, who), who=who)
        assert (await status(world, operation, who)).error is None
    carl = Principal(user="carl")
    assert (
        await status(world, await begun(world, await opened(world, carl), who=carl), carl)
    ).error is not None


async def test_who_acts_as_many_users_has_the_limits_that_name_him() -> None:
    portal = Limit(name="portal", bounds={"statements_per_minute": 2}, users=frozenset({"hue"}))
    world = world_of(portal, limit(statements_per_minute=100))
    client = Client(protocol="thrift", address="10.0.0.9", real_user="hue")
    outcomes = []
    for user in ("ann", "bob", "carl"):
        who = Principal(user=user)
        operation = await begun(world, await opened(world, who, client), who=who)
        outcomes.append((await status(world, operation, who)).error is None)
    assert outcomes == [True, True, False]
    # Who logs in by himself has nothing to do with it.
    assert (await status(world, await begun(world, await opened(world, ANN), who=ANN), ANN)).error is None


async def test_a_statement_that_waits_and_is_judged_again_counts_once() -> None:
    world = world_of(limit(statements_per_minute=2), statements=1)
    other = await opened(world, ANN)
    await begun(world, other, "SLOW 1", ANN)
    waiting = await begun(world, await opened(world))
    assert (await status(world, waiting)).state == PENDING
    world.new_policies(limit(statements_per_minute=2))
    world.backend.full = 1  # and Spark has no room after all, once
    world.backend.sessions[0].operations[0].end()
    assert (await ended(world, waiting)).state == FINISHED
    assert (await ended(world, await begun(world, await opened(world)))).state == FINISHED


# -- at once -------------------------------------------------------------------------------------------------


async def test_sessions_of_a_user_are_bounded_and_come_free_again() -> None:
    world = world_of(limit(sessions=2))
    sessions = [await opened(world) for _ in range(2)]
    with pytest.raises(LimitExceeded) as caught:
        await opened(world)
    told = "limit `small`, set by ops, allows 2 open sessions; close some of them"
    assert (caught.value.message, caught.value.sqlstate) == (told, "53400")
    event = world.ledger.of("security")[-1].body
    assert (event["action"], event["limit"], event["reason"]) == ("session_refused", "small", told)
    await opened(world, ANN)
    world.new_policies(limit(sessions=3))  # what was counted is given back, whatever policies say by then
    await world.sessions.close_session(BOB, sessions[0])
    await opened(world)
    await opened(world)
    world.backend.down = True
    for _ in range(3):
        with pytest.raises(Exception):  # noqa: B017 - of either kind
            await opened(world)
    world.backend.down = False
    await world.sessions.close()
    assert not world.budgets._shares._used


async def test_sessions_are_opened_no_faster_than_they_may_be() -> None:
    world = world_of(limit(sessions_per_minute=3))
    for _ in range(3):
        await world.sessions.close_session(BOB, await opened(world))
    with pytest.raises(LimitExceeded, match="3 sessions a minute; try again in 20 seconds") as caught:
        await opened(world)
    assert caught.value.retry_s == pytest.approx(20)
    assert len(world.backend.sessions) == 3


async def test_who_runs_as_much_as_he_may_waits_and_holds_nobody_else_up() -> None:
    world = world_of(limit(running=1), statements=2)
    first, second, third = await opened(world), await opened(world), await opened(world)
    await begun(world, first, "SLOW 1")
    waiting, last = await begun(world, second, "SELECT 2"), await begun(world, third, "SELECT 3")
    report = await status(world, waiting)
    assert report.state == PENDING
    assert report.waits == "limit `small`, set by ops, allows 1 running statements; place 1 of 2 in the queue"
    assert (await status(world, last)).waits.endswith("place 2 of 2 in the queue")
    ann = await opened(world, ANN)
    assert (await status(world, await begun(world, ann, "SELECT 9", ANN), ANN)).state == FINISHED
    listing = OpenSessions()
    listing.add(world.sessions)
    assert [one.waits[-19:-13] for one in listing.list_sessions() if one.waits] == ["1 of 2", "2 of 2"]
    world.backend.sessions[0].operations[0].end()
    for operation in (waiting, last):
        assert (await ended(world, operation)).state == FINISHED
    assert world.backend.received == ["SLOW 1", "SELECT 9", "SELECT 2", "SELECT 3"]


async def test_the_log_of_a_waiting_statement_tells_its_place_whenever_it_changes() -> None:
    world = world_of(limit(running=1))
    sessions = [await opened(world) for _ in range(3)]
    await begun(world, sessions[0], "SLOW 1")
    await begun(world, sessions[1], "SLOW 2")
    waiting = await begun(world, sessions[2], "SELECT 3")

    async def read() -> list[str]:
        batch = await world.sessions.fetch(
            BOB, waiting, orientation=0, max_rows=10, fetch_type=1, seqid=1, sink=Sink()
        )
        return [row[0].rpartition("; ")[2] for row in batch.rows]  # type: ignore[union-attr]

    assert await read() == ["place 2 of 2 in the queue"]
    assert await read() == []
    world.backend.sessions[0].operations[0].end()
    await until(lambda: "SLOW 2" in world.backend.received)
    assert await read() == ["place 1 of 1 in the queue"]


async def test_who_waits_for_too_long_is_told_for_which_limit() -> None:
    world = world_of(limit(running=1), spark_wait_s=0.05)
    await begun(world, await opened(world), "SLOW 1")
    report = await ended(world, await begun(world, await opened(world)))
    assert report.state == ERROR
    assert report.error.sqlstate == "53400"
    assert "allows 1 running statements, and none of them ended within 0.05 s" in report.error.text
    (event,) = world.ledger.of("completed")
    assert (event.body["outcome"], event.body["limit"]) == ("not_forwarded", "small")


async def test_many_users_and_limits_run_no_more_at_once_than_they_may() -> None:
    counts = RunningCounts()
    queues = [Slots(3, 1000, counts), Slots(0, 1000, counts)]
    running: dict[str, int] = {}
    most: dict[str, int] = {}

    async def run(i: int) -> None:
        user, queue = f"u{i % 4}", queues[i % 2]
        bounds = (RunningBound(("each", user), 2, ""), RunningBound(("all", ""), 5, ""))
        slot = queue.take(user, bounds)
        if slot is None:
            slot = await queue.wait(
                user, until=asyncio.get_running_loop().time() + 60, arrived=i, bounds=bounds
            )
        assert slot is not None
        for key in (user, "all", f"queue {i % 2}"):
            running[key] = running.get(key, 0) + 1
            most[key] = max(most.get(key, 0), running[key])
        await asyncio.sleep(0.001 * (i % 3))
        for key in (user, "all", f"queue {i % 2}"):
            running[key] -= 1
        slot.release()

    tasks = [asyncio.create_task(run(i)) for i in range(200)]
    for task in tasks[::17]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most["all"] == 5
    assert max(most[f"u{i}"] for i in range(4)) == 2
    assert most["queue 0"] <= 3
    assert all(queue.held == queue.waiting == 0 for queue in queues)
    assert counts.find_full((RunningBound(("all", ""), 1, ""),)) is None


async def test_the_place_is_the_turn_at_which_one_comes_among_users_who_take_turns() -> None:
    slots = Slots(1, 100)
    slots.take("ann")
    tasks = [
        asyncio.create_task(slots.wait(user, until=asyncio.get_running_loop().time() + 60, arrived=at))
        for at, user in enumerate(("ann", "bob", "bob", "carl"))
    ]
    await asyncio.sleep(0)
    places = [slots.place(user, at) for at, user in enumerate(("ann", "bob", "bob", "carl"))]
    assert places == [(3, 4), (1, 4), (4, 4), (2, 4)]
    for task in tasks:
        task.cancel()


# -- several gateways, and clocks ----------------------------------------------------------------------------


class Table:
    """What gateways share: as PostgreSQL has it."""

    def __init__(self) -> None:
        self.used: dict[tuple[int, UseKey], float] = {}
        self.now_s = 1_800_000_000.0
        self.down = False
        self.asked = 0

    def of(self, run: int) -> Run:
        return Run(self, run)


class Told(NamedTuple):
    others: Mapping[UseKey, float]
    now_s: float


class Run:
    def __init__(self, table: Table, run: int) -> None:
        self._table, self._run = table, run

    async def exchange(self, mine: Mapping[UseKey, float]) -> Told | None:
        table = self._table
        table.asked += 1
        if table.down:
            return None
        for key, used in mine.items():
            table.used[self._run, key] = max(used, table.used.get((self._run, key), 0.0))
        others = {
            key: sum(n for (run, one), n in table.used.items() if one == key and run != self._run)
            for key in mine
        }
        return Told(others, table.now_s)


class Counting(Budgets):
    """With a clock that the test moves."""

    def __init__(self, limits: list[Limit], shared: SharedUse | None = None, wall: float = 1.8e9) -> None:
        self.now = 5000.0
        policies = PolicySet(version=1, limits=tuple(limits))
        super().__init__(
            lambda: policies, limits_of, Metrics(), shared=shared, clock=lambda: self.now, wall=lambda: wall
        )


def take(budgets: Budgets, who: Principal = BOB) -> None:
    budgets.admit(who, CLIENT, lambda: ())


async def test_gateways_count_a_day_together_and_a_new_run_of_one_forgets_nothing() -> None:
    table = Table()
    one, other = (Counting([limit(statements_per_day=10)], table.of(run)) for run in (1, 2))
    for _ in range(4):
        for budgets in (one, other):
            await budgets.prepare(BOB, CLIENT)
            take(budgets)
        await one.share()
        await other.share()
        await one.share()  # what is sent twice counts once
    third = Counting([limit(statements_per_day=10)], table.of(3))
    await third.prepare(BOB, CLIENT)
    take(third)
    take(third)
    with pytest.raises(LimitExceeded, match="and 10 are used"):
        take(third)
    await third.share()
    await one.share()
    take(one)  # nobody has used it here since: it is asked for with the next exchange
    await one.share()
    with pytest.raises(LimitExceeded):
        take(one)


async def test_while_postgresql_is_away_each_gateway_counts_alone_and_tells_it_later() -> None:
    table = Table()
    table.down = True
    one, other = (Counting([limit(statements_per_day=3)], table.of(run)) for run in (1, 2))
    for budgets in (one, other):
        for _ in range(3):
            await budgets.prepare(BOB, CLIENT)
            take(budgets)
        with pytest.raises(LimitExceeded):
            take(budgets)
    table.down = False
    await one.share()
    await other.share()
    third = Counting([limit(statements_per_day=7)], table.of(3))
    await third.prepare(BOB, CLIENT)
    take(third)
    with pytest.raises(LimitExceeded, match="and 7 are used"):
        take(third)


async def test_users_without_budgets_ask_nobody_and_others_once() -> None:
    table = Table()
    budgets = Counting([limit(rows=3, statements_per_minute=3)], table.of(1))
    await budgets.prepare(BOB, CLIENT)
    assert table.asked == 0
    budgets = Counting([limit(statements_per_day=3)], table.of(1))
    for _ in range(3):
        await budgets.prepare(BOB, CLIENT)
    assert table.asked == 1


async def test_a_clock_that_jumps_gives_nobody_a_new_budget() -> None:
    table = Table()
    # This gateway's own clock is a day ahead: PostgreSQL's counts.
    budgets = Counting([limit(statements_per_hour=2)], table.of(1), wall=table.now_s + 86_400)
    await budgets.prepare(BOB, CLIENT)
    take(budgets)
    take(budgets)
    await budgets.share()
    with pytest.raises(LimitExceeded):
        take(budgets)
    table.now_s -= 86_400  # back: it goes on with the hour that it was in
    await budgets.share()
    with pytest.raises(LimitExceeded):
        take(budgets)
    table.now_s += 86_400 + 3600
    await budgets.share()
    take(budgets)


def test_a_bucket_gives_nothing_for_time_that_goes_back() -> None:
    budgets = Counting([limit(statements_per_minute=60)])
    for _ in range(60):
        take(budgets)
    budgets.now -= 1000
    with pytest.raises(LimitExceeded):
        take(budgets)
    budgets.now += 1000
    with pytest.raises(LimitExceeded):
        take(budgets)
    budgets.now += 1
    take(budgets)
