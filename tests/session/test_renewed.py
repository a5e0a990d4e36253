"""Groups that change while a session lives: what it made under others is judged again."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from gateway.model.handles import SparkHandle
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, Client, CreateTempView
from gateway.session.failures import StatementFailed
from gateway.session.identifiers import Handle
from gateway.session.limits import SessionLimits
from gateway.session.operation import Session
from gateway.session.ports import LoginIdentity
from tests.session.fakes import BOB, CLIENT, Sink, World

OTHER = replace(BOB, groups=frozenset({"auditors"}))
RELATION = SparkHandle("relation", "r")


class Newer(LoginIdentity):
    """Has a user's groups of now."""

    principal = BOB

    def current(self, principal: Principal, client: Client) -> Principal:
        return self.principal


class Renewing:
    """A session whose statements are forwarded with the groups of their user."""

    def __init__(self, limits: SessionLimits | None = None) -> None:
        self.newer = Newer()
        self.world = World(limits, identity=self.newer)
        self.world.judge.marks_groups = True

    async def open(self) -> Session:
        self.handle: Handle = await self.world.sessions.open_session(BOB, CLIENT, protocol_version=9)
        found = self.world.sessions._registry.get(self.handle.guid)
        assert found is not None
        return found

    async def run(self, text: str) -> Handle:
        opened = await self.world.sessions.execute(BOB, self.handle, text, run_async=False)
        return opened.handle

    async def cleared(self, session: Session, text: str) -> Cleared:
        await self.run(text)
        operation = list(session.operations.values())[-1]
        assert operation.cleared is not None
        return operation.cleared


@pytest.mark.parametrize("of", ["text", "frame"])
async def test_a_view_is_made_again_under_the_groups_of_now(of: Literal["text", "frame"]) -> None:
    one = Renewing()
    one.world.judge.effects = [("^CREATE TEMP VIEW v", (CreateTempView("v", of=of),))]
    await one.open()
    await one.run("CREATE TEMP VIEW v AS SELECT 1")
    one.newer.principal = OTHER
    await one.run("SELECT 1")
    assert one.world.backend.received[1:] == [
        "DROP VIEW IF EXISTS `v` /* ['auditors'] */",
        "CREATE TEMP VIEW v AS SELECT 1 /* ['auditors'] */",
        "SELECT 1 /* ['auditors'] */",
    ]


async def test_a_spark_that_logs_users_in_is_shown_the_groups_of_now() -> None:
    one = Renewing()
    await one.open()
    one.newer.principal = OTHER
    await one.run("SELECT 1")
    assert one.world.backend.sessions[-1].find_principal() == OTHER


@pytest.mark.parametrize("marks", [True, False], ids=["otherwise", "the same"])
async def test_a_cached_relation_ends_where_it_would_be_computed_otherwise(marks: bool) -> None:
    one = Renewing()
    one.world.judge.marks_groups = marks
    session = await one.open()
    cleared = await one.cleared(session, "SELECT 1")
    session.cache_relation(RELATION, cleared, 1, "", most=10)
    await one.run("SELECT 2")
    assert RELATION in session.relations
    one.newer.principal = OTHER
    await one.run("SELECT 2")
    assert (RELATION in session.relations) is not marks


async def test_what_rests_on_more_than_is_kept_ends_with_the_groups() -> None:
    one = Renewing()
    session = await one.open()
    cleared = await one.cleared(session, "SELECT 1")
    session.cache_relation(RELATION, cleared, 1, "", most=0)
    await one.run("SELECT 2")
    assert RELATION in session.relations
    one.newer.principal = BOB
    await one.run("SELECT 2")
    assert RELATION in session.relations
    one.newer.principal = OTHER
    await one.run("SELECT 2")
    assert RELATION not in session.relations


async def test_a_statement_that_was_decided_before_makes_what_is_judged_again() -> None:
    """It runs in Spark while the groups change, and its view comes after that."""
    one = Renewing()
    one.world.judge.effects = [("^CREATE TEMP VIEW v", (CreateTempView("v"),))]
    session = await one.open()
    await one.run("CREATE TEMP VIEW v AS SELECT 1")
    (operation,) = session.operations.values()
    one.newer.principal = OTHER
    await one.run("SELECT 1")
    assert operation.policies_version == -1


async def test_results_end_with_the_groups_where_they_end_with_policies() -> None:
    one = Renewing(SessionLimits(end_results_on_policy_change=True))
    session = await one.open()
    operation = await one.run("SELECT 1")

    async def fetch() -> None:
        await one.world.sessions.fetch(
            BOB, operation, orientation=0, max_rows=10, fetch_type=0, seqid=1, sink=Sink()
        )

    await fetch()
    session.renew_principal(OTHER)
    with pytest.raises(StatementFailed, match="SLUICE_POLICIES_CHANGED"):
        await fetch()
