"""Clearances are used again only in circumstances that are the same as far as policies asked for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gateway.catalog.live import LiveCatalog
from gateway.errors import PoliciesStale
from gateway.model.catalog import TableName
from gateway.model.policy import PolicySet
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    AnswerFilter,
    AnswerRule,
    Cleared,
    Client,
    NeedsCatalog,
    Refused,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.session.limits import SessionLimits
from gateway.session.ports import BackendError
from gateway.session.verdicts import VerdictInputs, Verdicts
from tests.session.fakes import FakeAuthority, FakeCatalog, FakeJudge, FakePolicies

BOB = Principal(user="bob")
HOME, CAFE = Client(address="10.1.0.7", protocol="thrift"), Client(address="192.0.2.9", protocol="thrift")
NINE = datetime(2026, 3, 2, 9, 0, 0, tzinfo=UTC)


class Judging:
    """Verdicts over a judge with `context_dependencies`, which keeps the snapshots that it was given."""

    def __init__(self, *context_dependencies: str) -> None:
        self.context_dependencies = frozenset(context_dependencies)
        self.seen: list[Snapshot] = []
        self.now = NINE
        self.stale: str | None = None
        self.go = asyncio.Event()
        """Judging waits for it."""
        self.go.set()
        self._judge = FakeJudge()
        self.verdicts = Verdicts(
            VerdictInputs(
                judge=self._judged,
                policies=FakePolicies(
                    lambda: self.policies,
                    lambda _: FakeAuthority(set()),
                    stale=lambda: self.stale,
                    principals=lambda: self.principals,
                ),
                catalog=FakeCatalog(),
                now=lambda: self.now,
            )
        )
        self.principals: dict[str, Principal] = {}
        self.definers = frozenset[Principal]()
        self.policies = PolicySet(version=1)

    async def _judged(self, statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        self.seen.append(snapshot)
        await self.go.wait()
        verdict = await self._judge(statement, snapshot)
        if isinstance(verdict, Cleared):
            return replace(verdict, context_dependencies=self.context_dependencies, definers=self.definers)
        return verdict

    async def ask(self, client: Client = HOME, text: str = "SELECT 1") -> Verdict:
        statement = Statement(text=text, principal=BOB, context=SessionContext())
        return await self.verdicts.judge(statement, client)


async def test_the_judge_is_told_when_and_from_where() -> None:
    judging = Judging()
    await judging.ask(CAFE, "SELECT 2")
    context = judging.seen[0].context
    assert (context.time, context.client_ip, context.action) == (NINE, "192.0.2.9", "QUERY")
    assert context.request_data == "SELECT 2"


async def test_without_conditions_one_clearance_serves_every_place_and_time() -> None:
    judging = Judging()
    for client in (HOME, CAFE):
        judging.now += timedelta(hours=3)
        assert isinstance(await judging.ask(client), Cleared)
    assert len(judging.seen) == 1


async def test_a_clearance_by_a_definers_access_ends_when_the_definer_is_another() -> None:
    judging = Judging()
    ann = Principal(user="ann", groups=frozenset({"hr"}))
    judging.principals, judging.definers = {"ann": ann}, frozenset({ann})
    for _ in range(2):
        await judging.ask()
    assert len(judging.seen) == 1
    assert judging.seen[0].principals == {"ann": ann}
    judging.principals = {"ann": Principal(user="ann")}
    await judging.ask()
    judging.principals = {}
    await judging.ask()
    assert [snapshot.principals for snapshot in judging.seen[1:]] == [{"ann": Principal(user="ann")}, {}]


async def test_a_clearance_that_asked_for_the_address_serves_that_address() -> None:
    judging = Judging("client_ip")
    for client in (HOME, HOME, CAFE, CAFE, HOME):
        await judging.ask(client)
    assert [snapshot.context.client_ip for snapshot in judging.seen] == ["10.1.0.7", "192.0.2.9", "10.1.0.7"]


async def test_a_clearance_that_asked_for_the_time_serves_its_second() -> None:
    judging = Judging("time")
    for milliseconds in (0, 400, 400, 400, 900):
        judging.now += timedelta(milliseconds=milliseconds)
        await judging.ask()
    assert [snapshot.context.time for snapshot in judging.seen] == [
        NINE,
        NINE + timedelta(seconds=1.2),
        NINE + timedelta(seconds=2.1),
    ]


async def test_what_many_send_together_is_judged_once() -> None:
    judging = Judging()
    judging.go.clear()
    asked = [asyncio.create_task(judging.ask()) for _ in range(50)]
    await asyncio.sleep(0)
    judging.policies = PolicySet(version=2)
    judging.go.set()
    answers = await asyncio.gather(*asked)
    assert all(isinstance(answer, Cleared) for answer in answers)
    # Who waited is judged by the policies that stand when the wait is over.
    assert [snapshot.policies.version for snapshot in judging.seen[:2]] == [1, 2]


async def test_who_waits_for_another_does_not_wait_for_ever_nor_take_its_circumstances() -> None:
    judging = Judging("client_ip")
    judging.go.clear()
    first = asyncio.create_task(judging.ask(HOME))
    await asyncio.sleep(0)
    others = [asyncio.create_task(judging.ask(client)) for client in (HOME, CAFE, CAFE)]
    await asyncio.sleep(0)
    assert len(judging.seen) == 1
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    judging.go.set()
    assert all(isinstance(answer, Cleared) for answer in await asyncio.gather(*others))
    assert {snapshot.context.client_ip for snapshot in judging.seen[1:]} == {"10.1.0.7", "192.0.2.9"}


async def test_what_the_text_itself_determines_does_not_part_clearances() -> None:
    judging = Judging("request_data", "accessed_together")
    await judging.ask()
    await judging.ask()
    assert len(judging.seen) == 1


async def test_stale_policies_refuse_everything_also_what_was_cleared_before() -> None:
    judging = Judging()
    assert isinstance(await judging.ask(), Cleared)
    judging.stale = "the policies of `lake` are 2 days old"
    refused = await judging.ask()
    assert isinstance(refused, Refused)
    assert refused.text == "[SLUICE_POLICIES_STALE] the policies of `lake` are 2 days old"
    with pytest.raises(PoliciesStale):
        judging.verdicts.visible_to(BOB, HOME)
    judging.stale = None
    assert isinstance(await judging.ask(), Cleared)
    assert judging.verdicts.visible_to(BOB, HOME)(Resource.database("c", "d"))
    assert len(judging.seen) == 1


async def test_what_may_be_told_in_full_is_what_describe_would_tell() -> None:
    judging = Judging()
    names = [TableName("c", "d", name) for name in ("Plain", "masked", "odd`name", "denied")]

    def text(name: str) -> str:
        return f"DESCRIBE TABLE EXTENDED `c`.`d`.`{name}`"

    described = AnswerRule(filter=AnswerFilter.DESCRIBE_TABLE, columns=frozenset({"a"}))
    judging._judge.rules = {
        text("Plain"): described,
        text("masked"): replace(described, details=False),
        text("odd``name"): described,
        text("denied"): described,
    }
    judging._judge.refused = "denied"
    asked = Statement(text="SHOW TABLE EXTENDED LIKE '*'", principal=BOB, context=SessionContext())
    told = await judging.verdicts.build_description_filters(names, asked, HOME)
    assert told == {
        TableName("c", "d", "plain"): described,
        TableName("c", "d", "masked"): replace(described, details=False),
        TableName("c", "d", "odd`name"): described,
    }


def over_live_catalog(judge: Any, query: Any, clock: Callable[[], float]) -> Verdicts:
    """Return verdicts under one set of policies, by what `query` tells of tables."""
    return Verdicts(
        VerdictInputs(
            judge=judge,
            policies=FakePolicies(lambda: PolicySet(version=1), lambda _: FakeAuthority(set())),
            catalog=LiveCatalog(query, refusal=BackendError, clock=clock),
            clock=clock,
        )
    )


async def test_what_the_first_round_learnt_still_counts_in_the_last() -> None:
    """A metastore that takes longer for each table than what it said is relied on."""
    names = [TableName("spark_catalog", "d", f"t{number}") for number in range(3)]
    now = 0.0

    async def query(sql: str) -> list[tuple[str]]:
        nonlocal now
        now += 20.0
        raise BackendError("there is no such table", "42P01")

    async def judged(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        for name in names:
            if not snapshot.catalog.knows(name):
                return NeedsCatalog(tables=(name,))
        return await FakeJudge()(statement, snapshot)

    verdicts = over_live_catalog(judged, query, lambda: now)
    statement = Statement(text="SELECT 1", principal=BOB, context=SessionContext())
    assert isinstance(await verdicts.judge(statement, HOME), Cleared)


async def test_what_has_to_be_known_of_this_moment_is_asked_for_each_time() -> None:
    """A command that reads its target finds whatever has a name by now, and policies are by name."""
    name = TableName("spark_catalog", "d", "t")
    asked: list[str] = []

    async def query(sql: str) -> list[tuple[str]]:
        asked.append(sql)
        named = {"table_name": "t", "catalog_name": "spark_catalog", "namespace": ["d"], "schema_name": "d"}
        columns = [{"name": f"c{len(asked)}", "type": {"name": "int"}}]
        return [(json.dumps({**named, "type": "MANAGED", "columns": columns}),)]

    seen: list[str] = []

    async def judged(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        if not snapshot.catalog.knows(name):
            return NeedsCatalog(tables=(name,))
        assert snapshot.anew is not None
        if name not in snapshot.anew:
            return NeedsCatalog(tables=(name,), promotes=False, anew=True)
        table = snapshot.catalog.table(name)
        assert table is not None
        seen.append(table.columns[0].name)
        return await FakeJudge()(statement, snapshot)

    verdicts = over_live_catalog(judged, query, lambda: 0.0)
    statement = Statement(text="UPDATE t SET a = b", principal=BOB, context=SessionContext())
    for _ in range(3):
        assert isinstance(await verdicts.judge(statement, HOME), Cleared)
    assert seen == ["c2", "c3", "c4"], "nothing of it is kept"


async def test_a_clearance_lasts_no_longer_than_what_it_rests_on() -> None:
    """Of two gateways before one Spark the other one may have made another table of it meanwhile."""
    name = TableName("spark_catalog", "d", "t")
    now = 0.0
    asked: list[float] = []
    judged_at: list[float] = []

    async def query(sql: str) -> list[tuple[str]]:
        asked.append(now)
        named = {"table_name": "t", "catalog_name": "spark_catalog", "namespace": ["d"], "schema_name": "d"}
        described = {**named, "type": "MANAGED", "columns": [{"name": "a", "type": {"name": "int"}}]}
        return [(json.dumps(described),)]

    async def judged(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        if not snapshot.catalog.knows(name):
            return NeedsCatalog(tables=(name,))
        judged_at.append(now)
        cleared = await FakeJudge()(statement, snapshot)
        assert isinstance(cleared, Cleared)
        return replace(cleared, names=frozenset({name}))

    verdicts = over_live_catalog(judged, query, lambda: now)
    statement = Statement(text="SELECT 1", principal=BOB, context=SessionContext())
    for at in (0.0, 5.0, 29.0, 29.5, 30.5, 31.0):
        now = at
        assert isinstance(await verdicts.judge(statement, HOME), Cleared)
    assert asked == [0.0, 30.5]
    assert judged_at == [0.0, 29.0, 30.5]


async def test_what_asks_for_more_of_the_catalog_without_end_is_too_deep() -> None:
    judging = Judging()
    asked: list[TableName] = []

    async def views_of_views(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        asked.append(TableName("spark_catalog", "hr", f"v{len(asked)}"))
        return NeedsCatalog((asked[-1],))

    judging.verdicts._judge = views_of_views
    verdict = await judging.ask(text="SELECT * FROM v0")
    assert isinstance(verdict, Refused)
    assert (verdict.code, verdict.sqlstate) == ("TOO_DEEP", "54001")
    assert len(asked) == SessionLimits().catalog_rounds
