"""What names and ids mean is what Spark will make of them: barriers, views, cached relations, policies."""

from __future__ import annotations

import asyncio

import pytest

from gateway.errors import BackendUnavailable, LimitExceeded, RpcError
from gateway.model.catalog import TableName
from gateway.model.context import TIME
from gateway.model.decision import PolicyRef, RowFilter
from gateway.model.handles import SparkHandle
from gateway.model.statement import (
    AnswerFilter,
    AnswerRule,
    CatalogChanged,
    CreateTempView,
    DropTempView,
    RegisterCode,
    ScanRecord,
    UseNamespace,
)
from gateway.session.failures import StatementRefused
from gateway.session.limits import SessionLimits
from gateway.wire.connect import pb
from tests.session.connect.fakes import (
    BOB,
    CLIENT,
    SESSION,
    World,
    cached,
    checkpoint,
    collect,
    execute_request,
    fault,
    relation_made,
    remove,
    rows,
    rpc_error,
    schema,
    sql,
    sql_rows,
    table,
    uid,
    view,
)
from tests.session.fakes import until
from tests.speed import patience


def world_of_names(limits: SessionLimits | None = None) -> World:
    world = World(limits)
    world.judge.effects = [
        ("USE", (UseNamespace(None, ("hr",)),)),
        ("DROP VIEW.*v", (DropTempView("v"),)),
        ("DROP VIEW.*w", (DropTempView("w"),)),
        ("VIEW v", (CreateTempView("v"),)),
        ("VIEW w", (CreateTempView("w"),)),
        ("INSERT", (CatalogChanged((TableName("spark_catalog", "default", "t"),)),)),
    ]
    return world


def context(world: World) -> tuple[tuple[str, ...], frozenset[str]]:
    held = world.session().context
    return held.namespace, held.temp_views


async def test_names_change_when_spark_has_said_the_end() -> None:
    world = world_of_names()
    hold = asyncio.Event()
    world.spark.script("USE", hold, sql_rows())
    using = asyncio.create_task(world.run(sql("USE hr")))
    await until(lambda: "USE hr" in world.spark.received)
    assert context(world) == (("default",), frozenset())
    reading = asyncio.create_task(world.run(table("t")))
    await asyncio.sleep(0)
    # INVARIANT (effect barrier): nothing is judged meanwhile.
    assert world.statements() == ["USE hr"]
    hold.set()
    await asyncio.gather(using, reading)
    assert world.judge.judged[-1].context.namespace == ("hr",)
    world.require_balance()


async def test_names_change_before_the_client_reads_the_end() -> None:
    world = world_of_names()
    stream = world.service.execute(BOB, CLIENT, execute_request(view("v", "t")))
    await anext(stream)
    assert context(world)[1] == {"v"}
    await stream.aclose()


async def test_a_command_that_failed_changes_nothing() -> None:
    world = world_of_names()
    world.spark.script("USE", fault("[SCHEMA_NOT_FOUND] no"))
    with rpc_error("SCHEMA_NOT_FOUND"):
        await world.run(sql("USE hr"))
    assert context(world) == (("default",), frozenset())
    assert len(world.service) == 1


@pytest.mark.parametrize(
    "end",
    [
        BackendUnavailable("Spark cannot be reached"),
        fault("Received RST_STREAM"),
        fault("[OPERATION_CANCELED] x"),
    ],
)
async def test_a_change_whose_end_is_not_learnt_ends_the_session(end: Exception) -> None:
    world = world_of_names()
    await world.run(table("t"))
    world.spark.script("VIEW", end)
    with pytest.raises(type(end)):
        await world.run(view("v", "t"))
    assert len(world.service) == 0
    assert ("bob", SESSION) in world.spark.closed
    world.require_balance()


async def test_a_client_that_goes_does_not_leave_a_change_half_way() -> None:
    world = world_of_names()
    hold = asyncio.Event()
    world.spark.script("VIEW", hold)
    for reattachable in (True, False):
        hold.clear()
        request = execute_request(view("v", "t"), reattachable=reattachable)
        task = asyncio.create_task(collect(world.service.execute(BOB, CLIENT, request)))
        await until(lambda: world.spark.received[-1:] == ["VIEW v OF t"] and not hold.is_set())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        hold.set()
        await world.run(table("u"))
        assert context(world)[1] == {"v"}
        world.spark.received.clear()
    world.require_balance()


async def test_a_change_waits_until_nobody_looks_names_up_any_more() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    analysed = asyncio.Event()
    world.spark.script("TABLE v", analysed, schema(), rows(1), rows(1))
    reader = world.service.execute(BOB, CLIENT, execute_request(table("v")))
    first = asyncio.create_task(anext(reader))
    await until(lambda: "TABLE v" in world.spark.received)
    dropping = asyncio.create_task(world.run(sql("DROP VIEW v")))
    for _ in range(10):
        await asyncio.sleep(0)
    assert "DROP VIEW v" not in world.spark.received
    analysed.set()
    await first
    # Spark has looked up the names; the rows may come while the view goes.
    await dropping
    assert len([data async for data in reader]) == 3
    assert context(world)[1] == frozenset()


async def test_a_change_waits_for_analyses_too_but_not_for_ever() -> None:
    world = world_of_names(SessionLimits(settle_timeout_s=0.05, close_timeout_s=patience(5)))
    world.spark.script("schema", hold := asyncio.Event())
    request = pb.AnalyzePlanRequest(session_id=SESSION)
    request.schema.plan.CopyFrom(table("t"))
    analysing = asyncio.create_task(world.service.analyze(BOB, CLIENT, request.SerializeToString()))
    await until(lambda: "schema TABLE t" in world.spark.received)
    with pytest.raises(LimitExceeded, match="still running"):
        await world.run(sql("USE hr"))
    assert context(world)[0] == ("default",)
    hold.set()
    await analysing
    await world.run(sql("USE hr"))
    assert context(world)[0] == ("hr",)


async def test_a_change_that_does_not_end_in_time_ends_the_session() -> None:
    world = world_of_names(SessionLimits(settle_timeout_s=0.05, close_timeout_s=patience(5)))
    world.spark.script("USE", asyncio.Event())
    using = asyncio.create_task(world.run(sql("USE hr")))
    await until(lambda: "USE hr" in world.spark.received)
    with rpc_error("SESSION_CLOSED"):
        await world.run(table("t"))
    with rpc_error("SESSION_CLOSED"):
        await using
    world.require_balance()


async def test_what_changes_tables_is_told_to_the_catalog() -> None:
    world = world_of_names()
    await world.run(sql("INSERT INTO t VALUES (1)"))
    assert world.catalog.invalidated == [TableName("spark_catalog", "default", "t")] * 2, "before and after"


async def test_a_view_that_policies_change_is_made_again() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    world.spark.received.clear()
    world.new_policies(mark="mask")
    await world.run(table("v"))
    assert world.spark.received == ["DROP VIEW IF EXISTS `v`", "VIEW v OF t", "TABLE v"]
    assert context(world)[1] == {"v"}
    world.spark.received.clear()
    await world.run(table("v"))
    assert world.spark.received == ["TABLE v"]
    world.require_balance()


async def test_a_view_that_is_refused_now_ends_and_its_name_says_so() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    world.new_policies()
    world.judge.refused = "VIEW v OF t"
    name = TableName("spark_catalog", "default", "v")
    world.judge.scans["TABLE v"] = (ScanRecord(table=name, access="select", columns=None),)
    with pytest.raises(StatementRefused, match="ended because the policies"):
        await world.run(table("v"))
    assert context(world)[1] == frozenset()
    assert "TABLE v" not in world.spark.received


async def test_views_that_read_a_view_end_and_come_again_with_it() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    await world.run(view("w", "v"))
    assert world.session().views["w"].reads == {"v"}
    world.spark.received.clear()
    world.judge.marked = "VIEW v"
    world.new_policies(mark="mask")
    await world.run(table("w"))
    assert world.spark.received == [
        "DROP VIEW IF EXISTS `w`",
        "DROP VIEW IF EXISTS `v`",
        "VIEW v OF t",
        "VIEW w OF v",
        "TABLE w",
    ]


async def test_a_view_that_another_one_reads_cannot_be_dropped() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    await world.run(sql("CREATE TEMPORARY VIEW w AS SELECT * FROM v"))
    with pytest.raises(StatementRefused, match="first"):
        await world.run(sql("DROP VIEW v"))


async def test_views_whose_plans_are_too_large_to_keep_are_refused() -> None:
    world = world_of_names(SessionLimits(cached_plan_bytes=300))
    await world.run(view("v", "t"))
    with pytest.raises(StatementRefused, match="too large to store"):
        await world.run(view("w", "x" * 300))
    assert world.ledger.of("decided")[-1].body["code"] == "LIMIT_EXCEEDED"


async def make_checkpoint(world: World, source: str = "t") -> str:
    responses = await world.run(checkpoint(table(source)))
    return str(responses[0].checkpoint_command_result.relation.relation_id)


async def test_a_checkpoint_may_be_read_by_the_session_that_made_it() -> None:
    world = world_of_names()
    relation = await make_checkpoint(world)
    assert world.session().context.handles == {SparkHandle("relation", relation)}
    await world.run(cached(relation))
    with pytest.raises(StatementRefused, match="unknown relation"):
        await world.run(cached(uid()))
    await world.run(remove(relation))
    assert world.session().context.handles == frozenset()
    assert world.session().relations == {}


async def test_the_record_of_a_read_names_the_statements_that_made_what_it_reads() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    first = await make_checkpoint(world)
    responses = await world.run(checkpoint(cached(first)))
    second = str(responses[0].checkpoint_command_result.relation.relation_id)
    made_view, made_first, made_second = world.ledger.of("decided")[-3:]
    assert made_first.body["lineage"]["relations"] == {}
    assert made_second.body["lineage"]["relations"] == {first: made_first.statement_id}
    await world.run(remove(first))
    await world.run(cached(second))
    (read,) = world.ledger.of("decided")[-1:]
    assert read.body["lineage"] == {"temp_views": {}, "relations": {second: made_second.statement_id}}
    await world.run(table("v"))
    (read,) = world.ledger.of("decided")[-1:]
    assert read.body["lineage"] == {"temp_views": {"v": made_view.statement_id}, "relations": {}}


async def test_a_checkpoint_whose_rows_would_be_others_now_ends() -> None:
    world = world_of_names()
    relation = await make_checkpoint(world)
    world.new_policies()
    await world.run(cached(relation))
    world.new_policies(mark="mask")
    with pytest.raises(StatementRefused, match="compute it again") as caught:
        await world.run(cached(relation))
    assert caught.value.code == "RELATION_ENDED"
    assert world.session().context.handles == frozenset()
    # Also when the old policies come back: it is gone.
    world.new_policies(mark="")
    with pytest.raises(StatementRefused, match="compute it again"):
        await world.run(cached(relation))


async def test_a_checkpoint_ends_with_what_it_was_computed_from() -> None:
    world = world_of_names()
    await world.run(view("v", "t"))
    of_view = await make_checkpoint(world, "v")
    first = await make_checkpoint(world)
    responses = await world.run(checkpoint(cached(first)))
    second = responses[0].checkpoint_command_result.relation.relation_id
    # Clients drop what they no longer hold: that does not change what the second was made from.
    await world.run(remove(first))
    await world.run(sql("DROP VIEW v"))
    world.new_policies()
    await world.run(cached(second))
    await world.run(cached(of_view))
    world.judge.marked = "VIEW v OF t|^CHECKPOINT TABLE t"
    world.new_policies(mark="mask")
    for relation in (second, of_view):
        with pytest.raises(StatementRefused, match="compute it again"):
            await world.run(cached(relation))


async def test_a_view_over_a_checkpoint_ends_with_it() -> None:
    world = world_of_names()
    relation = await make_checkpoint(world)
    plan = view("v", "x")
    plan.command.create_dataframe_view.input.CopyFrom(cached(relation).root)
    await world.run(plan)
    await world.run(remove(relation))
    world.spark.received.clear()
    world.judge.marked = "^CHECKPOINT TABLE t"
    world.new_policies(mark="mask")
    await world.run(table("u"))
    assert world.spark.received[0] == "DROP VIEW IF EXISTS `v`"


async def test_an_origin_that_is_too_long_ends_with_any_change_of_policies() -> None:
    world = world_of_names(SessionLimits(origins=1))
    first = await make_checkpoint(world)
    responses = await world.run(checkpoint(cached(first)))
    second = responses[0].checkpoint_command_result.relation.relation_id
    await world.run(cached(second))
    world.new_policies()
    await world.run(cached(first))
    with pytest.raises(StatementRefused, match="compute it again"):
        await world.run(cached(second))


@pytest.mark.parametrize("origins", [10, 1], ids=["known", "too long"])
async def test_what_came_of_a_grant_ends_with_it_however_long_its_origin_is(origins: int) -> None:
    """No policy changes when a grant is over: neither one step below what it gave nor many."""
    world = world_of_names(SessionLimits(origins=origins))
    world.judge.changes["^CHECKPOINT TABLE"] = {"context_dependencies": frozenset({TIME})}
    relation = await make_checkpoint(world)
    for _ in range(2):
        responses = await world.run(checkpoint(cached(relation)))
        relation = responses[0].checkpoint_command_result.relation.relation_id
    await world.run(cached(relation))
    world.judge.refused = "^CHECKPOINT TABLE"
    world.now += 1_000_000  # no verdict is used again
    with pytest.raises(StatementRefused, match="compute it again"):
        await world.run(cached(relation))


async def test_a_session_keeps_a_bounded_number_of_handles() -> None:
    world = world_of_names(SessionLimits(handles=2))
    await make_checkpoint(world)
    await make_checkpoint(world)
    with pytest.raises(LimitExceeded, match="too many"):
        await make_checkpoint(world)
    world.require_balance()


async def test_what_the_session_registered_is_known_when_spark_has_it() -> None:
    world = world_of_names(SessionLimits(handles=1))
    world.judge.effects.append(("REGISTER f", (RegisterCode(SparkHandle("function", "f")),)))
    world.judge.effects.append(("REGISTER g", (RegisterCode(SparkHandle("function", "g")),)))
    world.spark.script("REGISTER", fault("[PYTHON_VERSION_MISMATCH] no"))
    with rpc_error("PYTHON_VERSION_MISMATCH"):
        await world.run(table("REGISTER f"))
    assert world.session().context.handles == frozenset()
    world.spark.script("REGISTER")
    await world.run(table("REGISTER f"))
    assert world.session().context.handles == {SparkHandle("function", "f")}
    await world.run(table("REGISTER f"))
    with pytest.raises(StatementRefused, match="too many functions"):
        await world.run(table("REGISTER g"))
    world.require_balance()


async def test_streaming_queries_of_the_session_are_known() -> None:
    world = world_of_names()
    started = pb.ExecutePlanResponse()
    started.write_stream_operation_start_result.query_id.id = "q1"
    started.write_stream_operation_start_result.query_id.run_id = "r1"
    world.spark.script("TABLE", schema(), started)
    await world.run(table("t"))
    assert world.session().context.handles == {SparkHandle("query", "q1"), SparkHandle("query", "r1")}
    listed = pb.ExecutePlanResponse()
    query = listed.streaming_query_manager_command_result.active.active_queries.add()
    query.id.id, query.id.run_id = "q2", "r2"
    world.spark.script("TABLE", listed)
    await world.run(table("t"))
    assert {SparkHandle("query", "q2"), SparkHandle("query", "r2")} <= world.session().context.handles


async def told_of(world: World, query: str, run: str) -> str:
    failed = pb.ExecutePlanResponse()
    failed.streaming_query_command_result.exception.exception_message = "x.Y: CANARY"
    asked = f"ASK {query} {run}"
    world.spark.script(asked, failed)
    world.judge.changes[asked] = {
        "plan_class": "StreamingQueryCommand",
        "handles": frozenset({SparkHandle("query", query), SparkHandle("query", run)} if query else ()),
    }
    answer = (await world.run(table(asked)))[0]
    return str(answer.streaming_query_command_result.exception.exception_message)


GUARDED = ScanRecord(
    table=TableName("spark_catalog", "hr", "employee"),
    access="select",
    columns=None,
    obligations=(RowFilter(expression="region = 'EU'", policy=PolicyRef(id=8, name="eu", version=1)),),
)


async def test_what_a_streaming_query_tells_is_redacted_unless_it_is_known_to_read_nothing_guarded() -> None:
    world = world_of_names()
    world.judge.scans["TABLE GUARDED"] = (GUARDED,)
    for query in ("FREE", "GUARDED"):
        started = pb.ExecutePlanResponse()
        started.write_stream_operation_start_result.query_id.id = query
        started.write_stream_operation_start_result.query_id.run_id = f"{query}-1"
        world.spark.script(query, schema(), started)
        await world.run(table(query))
    assert await told_of(world, "FREE", "FREE-1") == "x.Y: CANARY"
    for query, run in (
        ("GUARDED", "GUARDED-1"),
        ("FREE", "GUARDED-1"),
        ("other", "run"),
        ("FREE", "FREE-2"),
        ("", ""),
    ):
        assert "CANARY" not in await told_of(world, query, run)


@pytest.mark.parametrize("eager", [False, True])
async def test_a_checkpoint_that_is_computed_later_fails_as_what_it_was_made_from(eager: bool) -> None:
    world = world_of_names()
    world.judge.scans["CHECKPOINT TABLE t"] = (GUARDED,)
    plan = checkpoint(table("t"))
    plan.command.checkpoint_command.eager = eager
    relation = (await world.run(plan))[0].checkpoint_command_result.relation.relation_id
    world.spark.script(f"CACHED {relation}", fault("x: CANARY"))
    with pytest.raises(RpcError) as caught:
        await world.run(cached(relation))
    assert ("CANARY" in caught.value.message) is eager


async def test_a_checkpoint_of_a_client_that_went_is_remembered() -> None:
    world = world_of_names()
    relation = uid()
    world.spark.script("CHECKPOINT", relation_made(relation))
    stream = world.service.execute(BOB, CLIENT, execute_request(checkpoint(table("t"))))
    await anext(stream)
    await stream.aclose()
    await world.run(cached(relation))


async def test_the_renewal_of_views_is_not_disturbed_by_a_view_that_lists() -> None:
    world = world_of_names()
    world.judge.rules["SHOW VIEWS"] = AnswerRule(filter=AnswerFilter.VIEWS, catalog="spark_catalog")
    await world.run(view("v", "t"))
    world.new_policies(mark="mask")
    world.spark.script("DROP VIEW", fault("[TABLE_OR_VIEW_NOT_FOUND] no"))
    await world.run(table("u"))
    # Its drop failed: it was made again all the same, and replaced.
    assert context(world)[1] == {"v"}
    world.require_balance()


@pytest.mark.parametrize("confirms", [True, False])
async def test_names_change_after_a_stopped_statement_only_when_spark_says_that_it_stopped(
    confirms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of_names(
        SessionLimits(settle_timeout_s=patience(5), close_timeout_s=0.2 if not confirms else patience(5))
    )
    await world.run(view("v", "t"))
    world.spark.script("INSERT", asyncio.Event())
    operation = uid()
    request = execute_request(sql("INSERT INTO t SELECT * FROM v"), operation=operation)
    running = asyncio.create_task(collect(world.service.execute(BOB, CLIENT, request)))
    await until(lambda: any("INSERT" in text for text in world.spark.received))
    if not confirms:
        monkeypatch.setattr(world.spark, "_interrupt", lambda session, message: [])
    await world.release(operation)
    with pytest.raises(RpcError):
        await running
    # What reads names is judged as ever: they still mean what they did.
    await world.run(table("v"))
    if confirms:
        await world.run(sql("DROP VIEW v"))
        assert "DROP VIEW v" in world.spark.received
    else:
        with rpc_error("SESSION_CLOSED"):
            await world.run(sql("DROP VIEW v"))
        assert "DROP VIEW v" not in world.spark.received
        assert len(world.service) == 0
    world.require_balance()
