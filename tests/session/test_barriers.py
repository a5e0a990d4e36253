"""Views whose policies changed: what is made again, and what is not; and tables that policies read."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from gateway.errors import BackendUnavailable
from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.model.statement import (
    Cleared,
    Client,
    Definition,
    PlanRequest,
    Refused,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.session.failures import StatementFailed
from gateway.session.judged import JudgedStatement
from gateway.session.session import NameResolution, TempView
from gateway.session.view_rules import explain_ended_view, refuse_ended_views
from tests.session.fakes import FakeEndpoint

PRINCIPAL = Principal(user="bob")


def statement(text: str, plan: bytes = b"") -> Statement:
    request = PlanRequest(kind="execute", message=plan) if plan else None
    return Statement(text=text, principal=PRINCIPAL, context=SessionContext(), plan=request)


@pytest.mark.parametrize(("of", "again"), [("frame", True), ("stream", False), ("text", True)])
async def test_a_stream_is_not_started_again_for_its_view(
    of: Literal["text", "frame", "stream"], again: bool
) -> None:
    session = NameResolution(
        PRINCIPAL, Client(protocol="thrift"), SessionContext(temp_views=frozenset({"v"}))
    )
    made = JudgedStatement(statement=statement("", b"plan"), forwarded="", forwarded_plan=b"plan")
    session.views["v"] = TempView(name="v", text="v", made=made, policies_version=1, of=of)
    ran: list[Statement] = []

    async def judge(asked: Statement) -> Verdict:
        return Refused(statement=asked, code="ACCESS_DENIED", sqlstate="42501", message="no")

    async def run(asked: Statement) -> None:
        ran.append(asked)

    endpoint = FakeEndpoint(judge, run)
    endpoint.policies_version = 2
    await endpoint.renew_views(session)
    assert ran[0].text == "DROP VIEW IF EXISTS `v`"
    assert [one.plan for one in ran[1:]] == ([made.statement.plan] if again else [])
    assert session.ended_views.keys() == {"v"}
    assert session.ended_views["v"].endswith("its statement is refused now ([SLUICE_ACCESS_DENIED] no)")


def bare_session() -> NameResolution:
    return NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())


def ended(name: str, read: str = "v") -> NameResolution:
    """A session in which a view has ended."""
    session = bare_session()
    refusal = Refused(statement=statement(""), code="ACCESS_DENIED", sqlstate="42501", message="no")
    session.end_view(name, explain_ended_view(name, read, refusal))
    return session


def test_what_is_refused_for_the_table_of_an_ended_views_name_says_so() -> None:
    """Else it would be told that there is no such table, or that the user may not read it."""
    parameters = (("relationName", "`v`"), ("searchPath", "x"))
    asked = Refused(
        statement=statement("DESCRIBE v"),
        code="SPARK",
        sqlstate="42P01",
        message="none",
        parameters=parameters,
    )
    told = refuse_ended_views(ended("V"), asked)
    assert isinstance(told, Refused)
    assert (told.code, told.sqlstate, told.parameters) == ("VIEW_ENDED", "42P01", ())
    assert told.message == (
        "the temporary view `V` ended because the policies or its sources changed, and its statement is "
        "refused now ([SLUICE_ACCESS_DENIED] no); create it again, or write the table's name with its "
        "database"
    )
    other = replace(asked, parameters=(("relationName", "`lab`.`v`"),))
    assert refuse_ended_views(ended("v"), other) is other
    assert refuse_ended_views(ended("w"), asked) is asked
    assert refuse_ended_views(bare_session(), asked) is asked


def test_what_is_denied_on_the_table_of_an_ended_views_name_says_so() -> None:
    def denied(database: str, allowed: bool = False) -> Refused:
        resource = Resource.table("spark_catalog", database, "w")
        request = AccessRequest(principal=Principal(user="ann"), resource=resource, access="select")
        return Refused(
            statement=statement("SELECT * FROM w"),
            code="ACCESS_DENIED",
            sqlstate="42501",
            message="user ann needs select",
            decisions=(Decision(request=request, allowed=allowed),),
        )

    told = refuse_ended_views(ended("w"), denied("default"))
    assert isinstance(told, Refused)
    assert told.code == "ACCESS_DENIED"
    assert told.message == (
        "user ann needs select (the temporary view `w` ended because `v`, which it reads, ended)"
    )
    for other in (denied("lab"), denied("default", allowed=True), replace(denied("default"), code="PARSE")):
        assert refuse_ended_views(ended("w"), other) is other


MAPPING = TableName("spark_catalog", "lab", "blocked")


class Looking:
    """A judge of one statement whose policies read a table, and a Spark that takes its time to look."""

    def __init__(self, *, periods: int = 0) -> None:
        self.period, self.periods = 7, periods
        self.definition: Definition | None = None
        self.judged: list[Statement] = []
        self.ran: list[Statement] = []

    async def judge(self, asked: Statement) -> Verdict:
        self.judged.append(asked)
        return Cleared(
            statement=asked,
            forwarded=asked.text,
            plan_class="Project",
            decisions=(),
            scans=(),
            snapshot_version="1",
            policy_tables=frozenset({MAPPING} if asked.refreshes is None else ()),
            period=self.period,
            definition=self.definition,
            read_only=not asked.text.startswith("INSERT"),
        )

    async def run(self, asked: Statement) -> None:
        self.ran.append(asked)
        if self.periods:
            self.period, self.periods = self.period + 1, self.periods - 1


async def test_what_policies_read_is_looked_at_once_in_a_period() -> None:
    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    looking = Looking()
    endpoint = FakeEndpoint(looking.judge, looking.run)
    for looks in (1, 1, 2):
        looking.period += looks == 2
        verdict = await endpoint.judge_with_fresh_tables(session, statement("SELECT 1"))
        assert isinstance(verdict, Cleared)
        assert verdict.period == looking.period
        assert [one.refreshes for one in looking.ran] == [MAPPING] * looks
    assert not looking.ran[0].text, "nothing of the client's is run for it"


async def test_for_what_is_written_it_is_looked_at_each_time() -> None:
    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    looking = Looking()
    endpoint = FakeEndpoint(looking.judge, looking.run)
    for looks in (1, 2, 3):
        await endpoint.judge_with_fresh_tables(session, statement("INSERT INTO t VALUES (1)"))
        assert [one.refreshes for one in looking.ran] == [MAPPING] * looks


async def test_a_look_that_takes_longer_than_a_period_is_not_made_again() -> None:
    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    looking = Looking(periods=99)
    endpoint = FakeEndpoint(looking.judge, looking.run)
    verdict = await endpoint.judge_with_fresh_tables(session, statement("SELECT 1"))
    assert isinstance(verdict, Cleared)
    assert len(looking.ran) == 1
    assert verdict.period == looking.period, "it was judged after the look"
    await endpoint.judge_with_fresh_tables(session, statement("SELECT 1"))
    assert len(looking.ran) == 2, "for the next statement it is too old"


async def test_what_cannot_be_looked_at_is_not_told() -> None:
    async def run(asked: Statement) -> None:
        raise StatementFailed("[TABLE_OR_VIEW_NOT_FOUND] lab.blocked", "42P01", 0, "")

    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    with pytest.raises(BackendUnavailable) as raised:
        await FakeEndpoint(Looking().judge, run).judge_with_fresh_tables(session, statement("SELECT 1"))
    assert "blocked" not in str(raised.value)
    assert not session.looked_at


def known(provider: str, *columns: str, kind: TableKind = TableKind.TABLE) -> Table:
    return Table(
        name=MAPPING,
        kind=kind,
        columns=tuple(Column(name=name, type="int") for name in columns),
        provider=provider,
    )


@pytest.mark.parametrize(
    ("then", "now", "looks"),
    [
        (known("iceberg", "a"), known("iceberg", "a"), 0),
        (known("iceberg", "a"), known("iceberg", "a", "b"), 1),
        (known("iceberg", "a"), None, 1),
        (None, known("paimon", "a"), 1),
        (known("iceberg", "a"), known("iceberg", "a", kind=TableKind.VIEW), 1),
        (known("parquet", "a"), known("parquet", "a", "b"), 0),
        (None, known("parquet", "a"), 0),
    ],
)
async def test_a_session_looks_again_at_what_has_changed_where_it_keeps_tables(
    then: Table | None, now: Table | None, looks: int
) -> None:
    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    facts, ran = then, []

    async def judge(asked: Statement) -> Verdict:
        return Cleared(
            statement=asked,
            forwarded=asked.text,
            plan_class="Project",
            decisions=(),
            scans=(),
            snapshot_version="1",
            names=frozenset({MAPPING}),
            tables=(facts,) if facts is not None else (),
        )

    async def run(asked: Statement) -> None:
        ran.append(asked.refreshes)
        if facts is None or facts.kind is TableKind.VIEW:
            raise StatementFailed("[TABLE_OR_VIEW_NOT_FOUND] lab.blocked", "42P01", 0, "")

    endpoint = FakeEndpoint(judge, run)
    await endpoint.judge_with_fresh_tables(session, statement("SELECT 1"))
    assert not ran, "it has not read it before"
    facts = now
    for _ in range(2):
        await endpoint.judge_with_fresh_tables(session, statement("SELECT 1"))
        assert ran == [MAPPING] * looks


async def test_who_defines_a_view_is_recorded_before_its_text_changes() -> None:
    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    looking = Looking()
    looking.definition = Definition(view=MAPPING, key="sluice.definer.0", value="00")
    asked = statement("ALTER VIEW v AS")
    endpoint = FakeEndpoint(looking.judge, looking.run)
    verdict = await endpoint.judge_with_fresh_tables(session, asked)
    await endpoint.run_before(session, asked, verdict)
    assert isinstance(verdict, Cleared)
    assert [one.records for one in looking.ran] == [None, looking.definition]
    assert not looking.ran[-1].text, "nothing of the client's is run for it"


async def test_a_text_is_not_changed_when_its_definer_cannot_be_recorded() -> None:
    async def run(asked: Statement) -> None:
        if asked.records is not None:
            raise StatementFailed("[TABLE_OR_VIEW_NOT_FOUND] lab.v", "42P01", 0, "")

    looking = Looking()
    looking.definition = Definition(view=MAPPING, key="sluice.definer.0", value="00")
    session = NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())
    asked = statement("ALTER VIEW v AS")
    endpoint = FakeEndpoint(looking.judge, run)
    verdict = await endpoint.judge_with_fresh_tables(session, asked)
    with pytest.raises(BackendUnavailable, match="the definer of a view"):
        await endpoint.run_before(session, asked, verdict)
