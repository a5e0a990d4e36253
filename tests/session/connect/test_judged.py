"""Sessions with the pipeline's own judge and Spark's parser: what they say to each other fits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.model.catalog import CatalogSnapshot
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, NeedsCatalog, Statement, Verdict
from gateway.pipeline import judge
from gateway.policy.engine import engine_for
from gateway.reader.pool import ReaderPool
from gateway.session.connect.service import ConnectSessions
from gateway.session.dependencies import Dependencies
from gateway.session.failures import StatementRefused
from gateway.session.locks import CatalogLocks
from gateway.wire.connect import pb
from tests.judge_world import World as JudgeWorld
from tests.session.connect.fakes import (
    CLIENT,
    SESSION,
    Spark,
    World,
    cached,
    cases,
    checkpoint,
    collect,
    execute_request,
    names,
    remove,
    rows,
    schema,
    sql,
    sql_relation,
    sql_rows,
    table,
    view,
)
from tests.session.fakes import FakeCatalog, FakeLedger, FakePolicies

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Judged(World):
    """The service over the pipeline's judge: bob of tests/cases/judge, and a Spark in memory."""

    def __init__(self, reader: ReaderPool) -> None:
        self.world = JudgeWorld()
        self.order: list[str] = []
        self.ledger = FakeLedger(self.order)
        self.spark = Spark(self.order)
        self.policies = self.world.policies
        self.cleared: list[Cleared] = []
        catalog = FakeCatalog()
        catalog.known = dict(self.world.tables)
        catalog.snapshot = CatalogSnapshot(
            version=1, catalogs=frozenset(self.world.data["catalogs"]), tables=self.world.tables
        )

        async def judged(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
            verdict = await judge(statement, snapshot, reader)
            if isinstance(verdict, Cleared):
                self.cleared.append(verdict)
            return verdict

        self.now = 1000.0
        self.service = ConnectSessions(
            Dependencies(
                judge=judged,
                policies=FakePolicies(lambda: self.policies, engine_for),
                catalog=catalog,
                locks=CatalogLocks(catalog),
                ledger=self.ledger,
                gateway="gw-1",
                clock=lambda: self.now,
            ),
            self.spark,
        )
        self.bob: Principal = self.world.principal("bob")

    async def bobs(self, plan: Any, **fields: Any) -> list[Any]:
        return await collect(self.service.execute(self.bob, CLIENT, execute_request(plan, **fields)))

    def scanned(self) -> str:
        """Return the first table that the last plan read, by its record."""
        return str(self.ledger.of("decided")[-1].body["scans"][0]["table"])

    def new_mask(self, expression: str) -> None:
        from gateway.policy.packs import load_packs
        from gateway.policy.service_defs import load_service_defs
        from tests.judge_world import SERVICE_DEFS

        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        pack = self.world.data["pack"].replace("EMEA", expression)
        assert pack != self.world.data["pack"]
        self.policies = load_packs({"world.yaml": pack}, definitions, self.policies.version + 1)


async def test_a_session_is_adopted_and_the_current_database_counts(reader: ReaderPool) -> None:
    world = Judged(reader)
    world.spark.namespace = ("spark_catalog", "hr")
    await world.bobs(table("department"))
    assert world.scanned() == "spark_catalog.hr.department"
    plan = pb.Plan()
    plan.root.catalog.set_current_database.db_name = "sales"
    await world.bobs(plan)
    await world.bobs(table("orders"))
    assert world.scanned() == "spark_catalog.sales.orders"
    await world.bobs(sql("USE hr"))
    await world.bobs(table("department"))
    assert world.scanned() == "spark_catalog.hr.department"


async def test_the_clients_own_relation_comes_back(reader: ReaderPool) -> None:
    world = Judged(reader)
    query = "SELECT name, email FROM hr.employee"
    world.spark.script("SELECT", sql_relation("SELECT guarded"))
    responses = await world.bobs(sql(query))
    assert responses[0].sql_command_result.relation.sql.query == query
    assert query.encode() not in world.cleared[-1].forwarded_plan
    body = world.ledger.of("decided")[-1].body
    assert body["texts"] == [query]
    assert body["scans"][0]["table"] == "spark_catalog.hr.employee"
    assert world.spark.envelopes[-1].reattachable is False


async def test_views_are_made_again_and_checkpoints_end_when_policies_change(reader: ReaderPool) -> None:
    world = Judged(reader)
    employees = sql("CREATE TEMPORARY VIEW staff AS SELECT id, name FROM hr.employee")
    await world.bobs(employees)
    await world.bobs(view("people", "staff"))
    assert world.session().context.temp_views == {"staff", "people"}
    assert [v.name for v in world.session().readers_of("staff")] == ["people"]
    made = await world.bobs(checkpoint(table("people")))
    relation = made[0].checkpoint_command_result.relation.relation_id
    await world.bobs(cached(relation))
    await world.bobs(sql("CREATE TEMPORARY VIEW crew AS SELECT * FROM staff"))
    with pytest.raises(StatementRefused, match="`crew` may read `staff`; drop `crew` first"):
        await world.bobs(sql("DROP VIEW staff"))
    await world.bobs(sql("DROP VIEW crew"))
    world.spark.received.clear()
    world.new_mask("APAC")
    with pytest.raises(StatementRefused, match="compute it again"):
        await world.bobs(cached(relation))
    assert [text.split(" ", 2)[0] for text in world.spark.received] == ["DROP", "DROP", "CREATE", "VIEW"]
    assert world.session().context.temp_views == {"staff", "people"}
    assert world.session().context.handles == frozenset()
    plan = pb.Plan()
    plan.root.catalog.drop_temp_view.view_name = "people"
    await world.bobs(plan)
    assert world.session().context.temp_views == {"staff"}
    world.require_balance()


async def test_relations_of_nobody_knows_whom_are_refused(reader: ReaderPool) -> None:
    world = Judged(reader)
    made = await world.bobs(checkpoint(table("sales.orders")))
    relation = made[0].checkpoint_command_result.relation.relation_id
    with pytest.raises(StatementRefused):
        await world.bobs(cached("11111111-1111-4111-8111-111111111111"))
    await world.bobs(remove(relation))
    with pytest.raises(StatementRefused):
        await world.bobs(cached(relation))


async def test_an_answer_that_lists_tables_is_filtered(reader: ReaderPool) -> None:
    world = Judged(reader)
    world.spark.script("SHOW TABLES", sql_rows(("hr", "department", "false"), ("hr", "vault", "false")))
    responses = await world.bobs(sql("SHOW TABLES IN hr"))
    data = responses[0].sql_command_result.relation.local_relation.data
    assert b"department" in data
    assert b"vault" not in data


def whole(text: str) -> pb.Plan:
    """Return the text as the ADBC driver sends all of them: as the root of a plan."""
    plan = pb.Plan()
    plan.root.sql.query = text
    return plan


async def test_a_text_that_is_all_of_a_plan_is_answered_with_rows_that_are_filtered(
    reader: ReaderPool,
) -> None:
    world = Judged(reader)
    listed = names(("hr", "department", "false"), ("hr", "vault", "false"))
    world.spark.script("SHOW TABLES", schema(), rows(2, listed))
    responses = await world.bobs(whole("SHOW TABLES IN hr"))
    assert cases(responses) == [None, "arrow_batch", "result_complete"]
    assert responses[1].arrow_batch.row_count == 1
    assert b"department" in responses[1].arrow_batch.data
    assert b"vault" not in responses[1].arrow_batch.data
    world.require_balance()


async def test_what_a_text_that_is_all_of_a_plan_changes_in_the_session_counts(reader: ReaderPool) -> None:
    world = Judged(reader)
    await world.bobs(whole("USE hr"))
    await world.bobs(table("department"))
    assert world.scanned() == "spark_catalog.hr.department"
    await world.bobs(whole("CREATE TEMPORARY VIEW staff AS SELECT name FROM employee"))
    assert world.session().context.temp_views == {"staff"}
    await world.bobs(whole("DROP VIEW staff"))
    assert world.session().context.temp_views == frozenset()
    world.require_balance()


async def test_a_view_that_a_whole_plan_made_is_made_again_when_policies_change(reader: ReaderPool) -> None:
    world = Judged(reader)
    await world.bobs(whole("CREATE TEMPORARY VIEW staff AS SELECT id, name FROM hr.employee"))
    await world.bobs(whole("SELECT name FROM staff"))
    world.spark.received.clear()
    world.new_mask("APAC")
    await world.bobs(whole("SELECT name FROM staff"))
    assert [text.split(" ")[:2] for text in world.spark.received] == [
        ["DROP", "VIEW"],
        ["ROOT", "CREATE"],
        ["ROOT", "SELECT"],
    ]
    assert any(b"APAC" in one.forwarded_plan for one in world.cleared)
    assert world.session().context.temp_views == {"staff"}
    world.require_balance()


async def test_a_script_that_is_all_of_a_plan_is_run_to_its_end(reader: ReaderPool) -> None:
    """Its names count until then: nobody waits for a client who does not read what it answers."""
    world = Judged(reader)
    texts = ("BEGIN SELECT name FROM hr.department; END", "SELECT name FROM hr.department")
    for text in texts:
        await world.bobs(whole(text), reattachable=True)
    assert [one.reattachable for one in world.spark.envelopes[-2:]] == [False, True]
    world.require_balance()


async def test_who_has_run_a_command_may_not_have_it_analysed(reader: ReaderPool) -> None:
    """Spark would run it: nothing that was found out of the plan counts for the question about it."""
    world = Judged(reader)
    for _ in range(2):
        request = pb.AnalyzePlanRequest(session_id=SESSION)
        request.schema.plan.CopyFrom(whole("DROP TABLE sales.tmp_x"))
        with pytest.raises(StatementRefused):
            await world.service.analyze(world.bob, CLIENT, request.SerializeToString())
        await world.bobs(whole("DROP TABLE sales.tmp_x"))
        again = whole("DROP TABLE sales.tmp_x")
        again.root.common.plan_id = 7
        request.schema.plan.CopyFrom(again)
        with pytest.raises(StatementRefused):
            await world.service.analyze(world.bob, CLIENT, request.SerializeToString())
        nested = pb.Plan()
        nested.root.limit.input.CopyFrom(again.root)
        nested.root.limit.limit = 1
        with pytest.raises(StatementRefused):
            await world.bobs(nested)
    world.require_balance()


async def test_an_analysis_is_judged_without_its_envelope(reader: ReaderPool) -> None:
    world = Judged(reader)
    request = pb.AnalyzePlanRequest(session_id=SESSION, client_type="pyspark")
    request.schema.plan.CopyFrom(table("hr.employee"))
    await world.service.analyze(world.bob, CLIENT, request.SerializeToString())
    assert world.cleared[-1].obligations
    request = pb.AnalyzePlanRequest(session_id=SESSION)
    request.explain.plan.CopyFrom(table("hr.employee"))
    request.explain.explain_mode = pb.AnalyzePlanRequest.Explain.EXPLAIN_MODE_SIMPLE
    with pytest.raises(StatementRefused):
        await world.service.analyze(world.bob, CLIENT, request.SerializeToString())
    await asyncio.sleep(0)
    world.require_balance()
