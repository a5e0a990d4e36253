"""DataFrames that are made again: what was judged once is forwarded with the ids that came, and nothing else.

A clearance that is used again must be the one that judging the plan anew gives, to the last byte.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.catalog import CatalogSnapshot
from gateway.model.policy import PolicySet
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    Cleared,
    Client,
    NeedsCatalog,
    NumberedQuery,
    PlanRequest,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.pipeline import Rules, judge
from gateway.pipeline.renewing import extract_ids, renew_clearance
from gateway.plan.walk_steps import ROOTS, message_types
from gateway.reader.pool import ReaderPool
from gateway.session.verdicts import VerdictInputs, Verdicts
from gateway.wire.connect import pb
from tests.pipeline.test_barriers import PLANS, world
from tests.plan.frames import Frame, command, message, sql, table
from tests.session.fakes import FakeAuthority, FakeCatalog, FakePolicies

pytestmark = pytest.mark.asyncio(loop_scope="session")

BY_ID = {
    "a column by its DataFrame": lambda: (t := table("t")).where(t.id > 7),
    "a column of the other side": lambda: table("u").join(t := table("t"), t.id == F.lit(7)),
    "a pattern": lambda: (t := table("t")).select(t.colRegex("`i.*`")),
    "all of a DataFrame": lambda: (t := table("t")).select(t["*"]),
    "a subquery": lambda: table("u").where(table("t").where("id = 7").exists()),
}
OTHERS = {
    "rows": lambda: table("t").where("id = 7").limit(3),
    "a lateral join": lambda: table("u").lateralJoin(table("t").where("id = 7")),
    "a text": lambda: sql("SELECT id FROM t WHERE id = 7"),
    "columns of names": lambda: table("u").drop("n").fillna({"id": 1}).dropDuplicates(["id"]),
    "unions": lambda: table("u").union(table("u").where("id = 1")).unionByName(table("u")),
    "who asks": lambda: table("t").select(F.current_user(), "id"),
}
QUESTIONS = {
    "a query": "SELECT id FROM t WHERE id = 7",
    "all of a guarded table": "SELECT * FROM t",
    "a query with arguments": "SELECT id FROM t WHERE id = :one",
    "a listing": "SHOW TABLES",
    "a description": "DESCRIBE TABLE t",
    "nothing of a table": "SELECT 1",
}
EFFECTS = {
    "a temporary view": "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT id FROM t",
    "another namespace": "USE db",
}
FRAMES: dict[str, Callable[[], Frame]] = {
    **{name: frame for name, (frame, _, _) in PLANS.items()},
    **BY_ID,
    **OTHERS,
}


def asked(frame: Frame, *, text: bool = False, analysis: str = "") -> Statement:
    """Return what executes a DataFrame; with `text` what `spark.sql` sends before there is one, with
    `analysis` what asks for something of it."""
    plan = command(frame._plan) if text else message(frame)
    if analysis:
        question = pb.AnalyzePlanRequest()
        getattr(question, analysis).plan.CopyFrom(plan)
        if analysis == "explain":
            question.explain.explain_mode = pb.AnalyzePlanRequest.Explain.EXPLAIN_MODE_SIMPLE
        plan = question
    kind: Literal["execute", "analyze"] = "analyze" if analysis else "execute"
    request = PlanRequest(kind=kind, message=plan.SerializeToString(deterministic=True))
    context = SessionContext(namespace=("db",), endpoint="connect")
    return Statement(text="", principal=world().principal("bob"), context=context, plan=request)


async def judged(statement: Statement, reader: ReaderPool) -> Verdict:
    return await world().judge_statement(statement, reader, Rules())


def query_of(statement: Statement) -> NumberedQuery:
    assert statement.plan is not None
    found = extract_ids(statement.plan)
    assert found is not None
    return found


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("analysis", ["", "schema", "explain"])
async def test_a_clearance_that_is_used_again_is_the_one_that_judging_gives(
    frame: Callable[[], Frame], analysis: str, reader: ReaderPool
) -> None:
    first, second = (asked(frame(), analysis=analysis) for _ in range(2))
    assert first != second
    cleared, anew = await judged(first, reader), await judged(second, reader)
    if not isinstance(cleared, Cleared):
        return
    again = renew_clearance(cleared, query_of(first), second, query_of(second))
    assert again is None or again == anew
    if not cleared.references_plan_ids:
        assert again == anew or query_of(first).plan != query_of(second).plan


def sent(name: str) -> Statement:
    text = {**QUESTIONS, **EFFECTS}[name]
    arguments: dict[str, Any] = {"one": F.lit(7)} if ":one" in text else {}
    return asked(sql(text, **arguments), text=True)


@pytest.mark.parametrize("name", [*QUESTIONS, *EFFECTS])
async def test_a_text_that_is_sent_again_is_judged_once(name: str, reader: ReaderPool) -> None:
    """`spark.sql` gives it a new id each time; the client gets back the one that it sent last."""
    first, second = sent(name), sent(name)
    assert first != second
    cleared, anew = await judged(first, reader), await judged(second, reader)
    assert isinstance(cleared, Cleared), cleared
    again = renew_clearance(cleared, query_of(first), second, query_of(second))
    assert again == (None if name in EFFECTS else anew)
    other = sent("a listing" if name != "a listing" else "a query")
    assert renew_clearance(cleared, query_of(first), other, query_of(other)) is None


@pytest.mark.parametrize("frame", BY_ID.values(), ids=BY_ID)
async def test_what_is_asked_for_by_an_id_is_for_these_ids_alone(
    frame: Callable[[], Frame], reader: ReaderPool
) -> None:
    """Other ids could make of it another relation's column, or none."""
    statement = asked(frame())
    cleared = await judged(statement, reader)
    if isinstance(cleared, Cleared):
        assert cleared.references_plan_ids
        query = query_of(statement)
        assert renew_clearance(cleared, query, statement, query) is None


@pytest.mark.parametrize(
    "name",
    ["rows", "a text", "columns of names", "unions", "who asks", "a filter", "a view", "grouped", "using"],
)
@pytest.mark.parametrize("analysis", ["", "schema"])
async def test_most_queries_are_the_same_when_they_are_made_again(
    name: str, analysis: str, reader: ReaderPool
) -> None:
    first, second = (asked(FRAMES[name](), analysis=analysis) for _ in range(2))
    cleared = await judged(first, reader)
    assert isinstance(cleared, Cleared), cleared
    assert renew_clearance(cleared, query_of(first), second, query_of(second)) is not None


async def test_another_query_does_not_get_it(reader: ReaderPool) -> None:
    first = asked(table("t").where("id = 7"))
    cleared = await judged(first, reader)
    assert isinstance(cleared, Cleared)
    for other in (table("t").where("id = 8"), table("u").where("id = 7"), table("t"), table("t").limit(1)):
        second = asked(other)
        assert renew_clearance(cleared, query_of(first), second, query_of(second)) is None
    unknown = message(table("t").where("id = 7")).SerializeToString() + b"\xfa\x3e\x01x"
    query = extract_ids(PlanRequest(kind="execute", message=unknown))
    assert query is None or query.plan != query_of(first).plan


async def test_only_queries_and_texts_have_other_ids() -> None:
    write = pb.Plan()
    write.command.write_operation.input.sql.query = "SELECT 1"
    assert extract_ids(PlanRequest(kind="execute", message=write.SerializeToString())) is None
    # As Spark 3.5's clients wrote it.
    old = pb.Plan()
    old.command.sql_command.sql = "SELECT 1"
    assert extract_ids(PlanRequest(kind="execute", message=old.SerializeToString())) is None
    assert extract_ids(PlanRequest(kind="execute", message=b"\xff")) is None
    kept = pb.AnalyzePlanRequest()
    kept.persist.relation.CopyFrom(message(table("t")).root)
    assert extract_ids(PlanRequest(kind="analyze", message=kept.SerializeToString())) is None
    of_a_command = pb.AnalyzePlanRequest()
    of_a_command.schema.plan.CopyFrom(write)
    assert extract_ids(PlanRequest(kind="analyze", message=of_a_command.SerializeToString())) is None
    assert extract_ids(PlanRequest(kind="analyze", message=b"\xff")) is None


async def test_where_relations_can_be_asked_for_by_their_ids() -> None:
    """A new message with one has to be noted by the walk."""
    found = {each.name for each in message_types(*ROOTS) if "plan_id" in each.fields_by_name}
    assert found == {
        "RelationCommon",
        "SubqueryExpression",
        "UnresolvedAttribute",
        "UnresolvedRegex",
        "UnresolvedStar",
    }


class Counting:
    """Verdicts over the real judge, which counts what it is asked."""

    def __init__(self, reader: ReaderPool) -> None:
        self.world = world()
        self.reader = reader
        self.asked = 0
        self.policies = self.world.policies
        self.catalog = FakeCatalog()
        snapshot = self.world.snapshot().catalog
        self.catalog.snapshot = CatalogSnapshot(
            version=1, catalogs=snapshot.catalogs, tables=self.world.tables
        )
        self.verdicts = Verdicts(
            VerdictInputs(
                judge=self._judged,
                policies=FakePolicies(lambda: self.policies, lambda _: FakeAuthority(set())),
                catalog=self.catalog,
            )
        )

    async def _judged(self, statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        self.asked += 1
        return await judge(statement, snapshot, self.reader, Rules())

    async def ask(self, statement: Statement) -> Verdict:
        return await self.verdicts.judge(statement, Client(protocol="thrift"))


async def test_a_dashboard_is_judged_once(reader: ReaderPool) -> None:
    """For each user, session and version of policies and catalog, as a text is."""
    counting = Counting(reader)

    def made() -> Statement:
        return asked(table("t").where("id = 7").groupBy("day").count())

    for _ in range(3):
        statement = made()
        cleared, anew = await counting.ask(statement), await judged(statement, reader)
        assert isinstance(cleared, Cleared)
        assert isinstance(anew, Cleared)
        assert (cleared.forwarded_plan, cleared.statement) == (anew.forwarded_plan, anew.statement)
    assert counting.asked == 1
    other = replace(made(), context=SessionContext(namespace=("other",), endpoint="connect"))
    await counting.ask(other)
    assert counting.asked > 1
    before = counting.asked
    counting.policies = PolicySet(version=counting.policies.version + 1)
    assert not isinstance(await counting.ask(made()), Cleared)
    assert counting.asked == before + 1
