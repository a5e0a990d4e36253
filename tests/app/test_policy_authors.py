"""Policies whose authors may not select what they read are told before users notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gateway.app.policy_authors import AuthorRights, JudgeText, PolicyAuthors
from gateway.errors import BackendUnavailable
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.model.principal import Principal
from gateway.model.statement import SessionContext, Statement, Verdict
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.test_pipeline_authors import world

pytestmark = pytest.mark.asyncio(loop_scope="session")


def rights(made: World, reader: ReaderPool, judge: JudgeText) -> AuthorRights:
    async def look_up(names: Sequence[TableName]) -> CatalogSnapshot:
        return made.snapshot(frozenset(names)).catalog

    return AuthorRights(reader, judge, lambda: made.snapshot(frozenset()).catalog, look_up)


POLICY = "spark: a filter with a subquery that fits"


async def test_what_closes_is_told_once_and_until_it_opens(reader: ReaderPool) -> None:
    made, asked = world("bob"), 0

    async def judge(text: str, principal: Principal) -> Verdict:
        nonlocal asked
        asked += 1
        return await made.judge_statement(
            Statement(text=text, principal=principal, context=SessionContext()), reader
        )

    authors = PolicyAuthors(lambda: made.policies, made.principals.get, rights(made, reader, judge))
    await authors.look()
    assert (asked, await authors.told()) == (1, None)
    bob = made.principals["bob"]
    for gone in (replace(bob, groups=frozenset()), None):
        made.principals.pop("bob")
        if gone is not None:
            made.principals["bob"] = gone
        with capture_logs() as told:
            await authors.look()
            await authors.look()
        closed = [one for one in told if one["event"] == "policy_closed"]
        assert [(one["policy"], one["author"]) for one in closed] == ([(POLICY, "bob")] if gone else [])
        assert POLICY in str(await authors.told())
    made.principals["bob"] = bob
    with capture_logs() as told:
        await authors.look()
    assert [one["event"] for one in told] == ["policy_opened"]
    assert await authors.told() is None


async def test_a_spark_that_is_away_changes_nothing(reader: ReaderPool) -> None:
    made = world("eve")
    away = True

    async def judge(text: str, principal: Principal) -> Verdict:
        if away:
            raise BackendUnavailable("Spark is away")
        return await made.judge(text, reader, user=principal.user)

    authors = PolicyAuthors(lambda: made.policies, made.principals.get, rights(made, reader, judge))
    with pytest.raises(BackendUnavailable):
        await authors.look()
    assert await authors.told() is None
    away = False
    await authors.look()
    assert POLICY in str(await authors.told())
