"""Policies whose authors may not select what they read are told before users notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from gateway.admin.ranger.access import TextQuestion
from gateway.app.policy_authors import AuthorRights, JudgeText, PolicyAuthors
from gateway.app.ranger_admin import RangerAdmin
from gateway.errors import BackendUnavailable
from gateway.model.catalog import FUNCTION, CatalogSnapshot, TableName
from gateway.model.principal import Principal
from gateway.model.statement import SessionContext, Statement, Verdict
from gateway.reader.pool import ReaderPool
from gateway.settings.listeners import RangerApiSettings
from gateway.settings.models import PolicySettings
from tests.frontends.listening import Gateway
from tests.judge_world import World
from tests.pipeline.test_authors import CALLING, function, world
from tests.session.fakes import World as Served

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
    assert (asked, await authors.report_trouble()) == (1, None)
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
        assert POLICY in str(await authors.report_trouble())
    made.principals["bob"] = bob
    with capture_logs() as told:
        await authors.look()
    assert [one["event"] for one in told] == ["policy_opened"]
    assert await authors.report_trouble() is None


async def test_an_author_who_was_added_again_is_told_of(reader: ReaderPool) -> None:
    made = world("bob", id_="5d1f0c9ab3e2")
    made.principals["bob"] = replace(made.principals["bob"], id="77aa00bb11cc")

    async def judge(text: str, principal: Principal) -> Verdict:
        raise AssertionError("nothing is asked for somebody else")

    authors = PolicyAuthors(lambda: made.policies, made.principals.get, rights(made, reader, judge))
    with capture_logs() as told:
        await authors.look()
    (one,) = told
    assert (one["policy"], one["author"]) == (POLICY, "bob")
    assert one["fault"] == (
        "its author is not the user who has the name now, with id `77aa00bb11cc` in the user file"
    )


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
    assert await authors.report_trouble() is None
    away = False
    await authors.look()
    assert POLICY in str(await authors.report_trouble())


@pytest.mark.parametrize("call", ["", "spark_catalog.hr.f(id)"])
async def test_who_writes_a_text_again_is_told_whether_its_author_still_may(
    reader: ReaderPool, call: str
) -> None:
    text = f"{call or 'id'} IN (SELECT id FROM spark_catalog.hr.department)"
    made = world("bob", text, CALLING)
    made.tables[TableName("spark_catalog", "hr", "f", FUNCTION)] = function("f", "hr.g(x)")
    made.tables[TableName("spark_catalog", "hr", "g", FUNCTION)] = function("g", "x + 1")
    away = False

    async def judge(text: str, principal: Principal) -> Verdict:
        if away:
            raise BackendUnavailable("Spark is away")
        return await made.judge_statement(
            Statement(text=text, principal=principal, context=SessionContext()), reader
        )

    logins = Gateway(Served()).authenticator
    admin = RangerAdmin(
        RangerApiSettings(administrators=("ann",)),
        PolicySettings(),
        "postgresql://nobody@127.0.0.1:9/none",
        logins,
        reader,
        authors=rights(made, reader, judge),
        principals=made.principals.get,
    )

    async def asked(writer: str, author: str, trusted: bool = False) -> tuple[bool, bool]:
        question = TextQuestion("filter", text, "spark", "spark", "{}", trusted=trusted, author=author)
        found = await admin.read_text(question, made.principals[writer])
        assert (found.fault, bool(found.reach)) == (None, True)
        return found.selectable, found.lapsed

    assert await asked("bob", "") == (True, False)
    assert await asked("eve", "") == (False, False)
    assert await asked("bob", "eve") == (True, True)
    assert await asked("ann", "bob", trusted=True) == (True, False)
    assert await asked("ann", "nobody", trusted=True) == (True, True)
    assert await asked("eve", "bob") == (False, False)
    made.tables[TableName("spark_catalog", "hr", "g", FUNCTION)] = function(
        "g", "(SELECT max(id) FROM hr.employee)"
    )
    assert await asked("ann", "bob", trusted=True) == (True, bool(call))
    away = True
    assert await asked("ann", "bob", trusted=True) == (True, False), "it is not known"
    await admin.close()
