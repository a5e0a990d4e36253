"""Sessions: adopted once, bound to their user, ended in every way that a session can end."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import (
    BackendMismatch,
    BackendUnavailable,
    GatewayStopping,
    LimitExceeded,
    RpcError,
    SessionElsewhere,
)
from gateway.model.handles import SparkHandle
from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.statement import CreateTempView, UseNamespace
from gateway.session.failures import StatementRefused
from gateway.session.limits import SessionLimits
from gateway.session.open_sessions import OpenSessions
from gateway.wire.connect import pb
from tests.session.connect.fakes import (
    ALICE,
    BOB,
    CLIENT,
    OTHER_SESSION,
    SESSION,
    World,
    execute_request,
    fault,
    rows,
    rpc_error,
    schema,
    sql,
    table,
    uid,
    view,
)
from tests.session.fakes import until
from tests.speed import patience

THIRD_SESSION = "77777777-2222-4333-8444-555555555555"


async def test_before_the_first_plan_spark_reads_texts_as_the_reader_does() -> None:
    world = World()
    await world.run(table("t"))
    settings = world.spark.sessions[("bob", SESSION)].settings
    assert settings == dict(READING_SETTINGS)
    assert world.spark.calls[0][0] == "Config"
    assert world.spark.received[0] == "SHOW CURRENT NAMESPACE"


async def test_a_spark_that_does_not_open_the_session_is_told_in_time() -> None:
    world = World(limits=SessionLimits(login_s=0.05))
    world.spark.silent = asyncio.Event()
    world.spark.hold["ReleaseSession"] = asyncio.Event()
    told = r"within 0\.05 s \(`backend\.login_timeout_s`\)"
    for _ in range(2):  # the second waits for what is taken away after the first, and no longer
        with pytest.raises(BackendUnavailable, match=told):
            await world.run(table("t"))
        await until(lambda: [method for method, _ in world.spark.calls] == ["ReleaseSession"])
        world.now += 1
    # What a client calls besides, before it tells its user, waits for Spark no more.
    with pytest.raises(BackendUnavailable, match=told):
        await world.run(table("t"))
    release = pb.ReleaseExecuteRequest(session_id=SESSION, operation_id=OTHER_SESSION)
    release.user_context.user_id = "bob"
    with pytest.raises(BackendUnavailable, match=told):
        await world.service.call("ReleaseExecute", BOB, CLIENT, release.SerializeToString())
    assert [method for method, _ in world.spark.calls] == ["ReleaseSession"]
    world.now += 1
    world.spark.hold["ReleaseSession"].set()
    await until(lambda: not world.service._abandoned)
    world.spark.silent = None
    world.service.limits = replace(world.service.limits, login_s=patience())
    world.now += patience()
    await world.run(table("t"))


async def test_who_comes_again_waits_until_what_was_made_in_vain_is_gone() -> None:
    world = World()
    world.judge.refused = "CURRENT"
    world.spark.hold["ReleaseSession"] = asyncio.Event()
    with pytest.raises(StatementRefused):
        await world.run(table("t"))
    world.judge.refused = None
    again = asyncio.create_task(world.run(table("t")))
    await until(lambda: world.spark.calls[-1][0] == "ReleaseSession")
    assert len(world.spark.sessions) == 1
    world.spark.hold["ReleaseSession"].set()
    await again
    assert [method for method, _ in world.spark.calls] == ["Config", "ReleaseSession", "Config"]


async def test_a_session_is_adopted_once_however_many_come_at_first() -> None:
    world = World()
    await asyncio.gather(*(world.run(table(f"t{n}")) for n in range(20)))
    assert world.spark.received.count("SHOW CURRENT NAMESPACE") == 1
    assert [method for method, _ in world.spark.calls] == ["Config"]


async def test_what_names_mean_is_learnt_from_a_session_that_lived_on() -> None:
    world = World()
    world.spark.namespace = ("lake", "`odd name`.inner")
    await world.run(table("t"))
    context = world.judge.judged[-1].context
    assert context.catalog == "lake"
    assert context.namespace == ("odd name", "inner")
    assert context.endpoint == "connect"
    assert context.temp_views == frozenset()


async def test_the_gateways_own_statement_is_judged_and_recorded() -> None:
    world = World()
    await world.run(table("t"))
    assert [e.body["reqData"] for e in world.ledger.of("decided")] == ["SHOW CURRENT NAMESPACE", "TABLE t"]
    world.require_balance()
    world = World()
    world.judge.refused = "CURRENT"
    with pytest.raises(StatementRefused):
        await world.run(table("t"))
    assert world.spark.received == []
    assert len(world.service) == 0


async def test_a_first_contact_that_fails_is_made_again() -> None:
    world = World()
    world.spark.faults["Config"] = BackendUnavailable("Spark cannot be reached")
    with pytest.raises(BackendUnavailable):
        await world.run(table("t"))
    assert len(world.service) == 0
    assert not world.service._registry.per_user
    world.spark.faults.clear()
    await world.run(table("t"))
    assert world.statements() == ["TABLE t"]


async def test_a_first_contact_whose_client_goes_is_made_by_the_next() -> None:
    world = World()
    world.spark.hold["Config"] = asyncio.Event()
    first = asyncio.create_task(world.run(table("a")))
    await until(lambda: len(world.spark.calls) == 1)
    second = asyncio.create_task(world.run(table("b")))
    await asyncio.sleep(0)
    first.cancel()
    world.spark.hold["Config"].set()
    await second
    assert world.statements() == ["TABLE b"]
    assert len(world.service) == 1
    assert world.service._registry.per_user == {"bob": 1}


async def test_a_client_that_knows_another_server_is_told_so() -> None:
    world = World()
    with rpc_error("INVALID_HANDLE.SESSION_CHANGED"):
        await world.run(table("t"), observed=uid())
    assert len(world.service) == 0
    await world.run(table("t"))
    server_session = world.session().server_session
    await world.run(table("t"), observed=server_session)
    with rpc_error("INVALID_HANDLE.SESSION_CHANGED"):
        await world.run(table("t"), observed=uid())
    assert len(world.service) == 1


@pytest.mark.parametrize("method", ["Interrupt", "FetchErrorDetails"])
async def test_calls_make_no_sessions_past_the_bound(method: str) -> None:
    """Spark makes a session for them when it has none."""
    world = World(SessionLimits(sessions_per_user=2))
    for _ in range(2):
        answer = await world.call(method, session=uid())
        assert answer.server_side_session_id
    for _ in range(3):
        with pytest.raises(LimitExceeded):
            await world.call(method, session=uid())
    assert len(world.spark.sessions) == len(world.service) == 2


async def test_a_lie_about_the_server_makes_no_session_in_spark() -> None:
    world = World()
    for _ in range(3):
        with rpc_error("INVALID_HANDLE.SESSION_CHANGED"):
            await world.run(table("t"), observed=uid())
    assert not world.spark.sessions


async def test_a_first_contact_that_fails_leaves_nothing_in_spark() -> None:
    world = World()
    world.judge.refused = "CURRENT"
    with pytest.raises(StatementRefused):
        await world.run(table("t"))
    assert not world.spark.sessions
    world.judge.refused = None
    world.spark.hold["Config"] = asyncio.Event()
    gone = asyncio.create_task(world.run(table("t")))
    await until(lambda: world.spark.calls[-1][0] == "Config")
    gone.cancel()
    world.spark.hold["Config"].set()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert world.spark.calls[-1][0] == "ReleaseSession"
    await world.run(table("t"))
    assert world.statements() == ["TABLE t"]


async def test_a_spark_that_was_started_anew_ends_the_session() -> None:
    world = World()
    await world.run(table("t"))
    server_session = world.session().server_session
    world.spark.restart()
    # The client did not say what it knows: we do.
    with rpc_error("INVALID_HANDLE.SESSION_CHANGED"):
        await world.run(table("t"))
    assert len(world.service) == 0
    world.require_balance()
    with rpc_error("INVALID_HANDLE.SESSION_CHANGED"):
        await world.run(table("t"), observed=server_session)
    await world.run(table("t"))
    assert world.session().server_session != server_session


async def test_an_answer_of_another_server_ends_the_session() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), rows(1), hold := asyncio.Event(), rows(1))
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t")))
    await anext(stream)
    await anext(stream)
    world.spark.sessions[("bob", SESSION)].server_id = uid()
    hold.set()
    with rpc_error("INVALID_HANDLE.SESSION_CHANGED"):
        await anext(stream)
    assert len(world.service) == 0
    world.require_balance()


async def test_sessions_of_users_do_not_meet() -> None:
    world = World()
    world.judge.effects = [("USE", (UseNamespace(None, ("hr",)),))]
    await world.run(sql("USE hr"))
    await world.run(table("t"), principal=ALICE, user="bob")
    assert world.judge.judged[-1].context.namespace == ("default",)
    assert world.judge.judged[-1].principal == ALICE
    assert set(world.spark.sessions) == {("bob", SESSION), ("alice", SESSION)}


async def test_users_and_the_gateway_have_a_bounded_number_of_sessions() -> None:
    world = World(SessionLimits(sessions_per_user=2, sessions=3))
    await world.run(table("t"))
    await world.run(table("t"), session=OTHER_SESSION)
    with pytest.raises(LimitExceeded, match="user bob has 2"):
        await world.run(table("t"), session=THIRD_SESSION)
    await world.run(table("t"), principal=ALICE)
    with pytest.raises(LimitExceeded, match="no room"):
        await world.run(table("t"), principal=ALICE, session=THIRD_SESSION)
    await world.call("ReleaseSession")
    await world.run(table("t"), session=THIRD_SESSION)


async def test_a_released_session_ends_with_all_that_runs_in_it() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), asyncio.Event())
    world.spark.script("INSERT", asyncio.Event())
    streams = [
        world.service.execute(BOB, CLIENT, execute_request(table("t"))),
        world.service.execute(BOB, CLIENT, execute_request(sql("INSERT"))),
    ]
    await anext(streams[0])
    waiting = asyncio.create_task(anext(streams[1]))
    await until(lambda: "INSERT" in world.spark.received)
    answer = await world.call("ReleaseSession")
    assert answer.session_id == SESSION
    assert ("bob", SESSION) in world.spark.closed
    assert world.outcomes() == {"TABLE t": "canceled", "INSERT": "canceled"}
    with rpc_error("INVALID_HANDLE.SESSION_CLOSED"):
        await waiting
    for stream in streams:
        await stream.aclose()
    with rpc_error("INVALID_HANDLE.SESSION_CLOSED"):
        await world.run(table("t"))
    world.require_balance()


async def test_a_session_that_nobody_knows_is_released_at_spark() -> None:
    world = World()
    await world.call("ReleaseSession", allow_reconnect=True)
    method, request = world.spark.calls[-1]
    assert method == "ReleaseSession"
    assert request.user_context.user_id == "bob"
    assert request.allow_reconnect


async def test_an_idle_session_is_released_at_spark() -> None:
    world = World(SessionLimits(session_idle_s=100, detached_s=50, close_timeout_s=patience(5)))
    await world.run(table("t"))
    world.now += 60
    await world.service.expire()
    # The operation, which the client never released, ends first.
    assert world.session().operations == {}
    world.now += 60
    await world.service.expire()
    assert len(world.service) == 0
    assert ("bob", SESSION) in world.spark.closed
    assert not world.service._registry.per_user


async def test_a_busy_session_is_not_idle() -> None:
    world = World(SessionLimits(session_idle_s=100))
    world.spark.script("TABLE t", schema(), asyncio.Event())
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t")))
    await anext(stream)
    world.now += 500
    await world.service.expire()
    assert len(world.service) == 1
    await stream.aclose()


async def test_an_operation_whose_client_does_not_come_back_is_ended() -> None:
    world = World(SessionLimits(detached_s=50, close_timeout_s=patience(5)))
    world.spark.script("TABLE t", schema(), asyncio.Event())
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t")))
    await anext(stream)
    world.now += 100
    await world.service.expire()
    assert world.outcomes() == {}
    await stream.aclose()
    world.now += 100
    await world.service.expire()
    assert world.outcomes() == {"TABLE t": "canceled"}
    await until(lambda: [m for m, _ in world.spark.calls][-2:] == ["Interrupt", "ReleaseExecute"])
    assert world.session().operations == {}
    world.require_balance()


async def test_a_gateway_that_stops_records_what_ran_and_leaves_spark_its_sessions() -> None:
    world = World()
    world.judge.effects = [("VIEW", (CreateTempView("v"),))]
    world.spark.script("TABLE t", schema(), asyncio.Event())
    world.spark.script("VIEW", asyncio.Event())
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t")))
    await anext(stream)
    making = asyncio.create_task(world.run(view("v", "t")))
    await until(lambda: "VIEW v OF t" in world.spark.received)
    await world.service.close()
    assert world.outcomes() == {"TABLE t": "canceled", "VIEW v OF t": "canceled"}
    assert ("bob", SESSION) in world.spark.sessions
    with rpc_error("SESSION_CLOSED"):
        await making
    await stream.aclose()
    with pytest.raises(GatewayStopping, match="stopping"):
        await world.run(table("t"))
    world.require_balance()


async def test_while_a_gateway_stops_streams_go_on_and_no_plan_begins() -> None:
    world = World()
    go_on = asyncio.Event()
    world.spark.script("TABLE t", schema(), go_on, rows(1))
    stream = world.service.execute(BOB, CLIENT, execute_request(table("t"), reattachable=False))
    await anext(stream)
    world.service.lifecycle.stopping = True
    assert world.service.busy() == 1
    for session in (SESSION, OTHER_SESSION):
        with pytest.raises(GatewayStopping):
            await world.run(table("t"), session=session)
    # Its connection is cut by the gateway.
    world.service.lifecycle.cuts = True
    await stream.aclose()
    event = world.ledger.of("completed")[-1]
    assert (event.body["outcome"], event.body["error"]) == ("canceled", "the gateway is stopping")
    world.require_balance()


async def test_a_session_that_could_not_be_released_is_not_taken_up_again() -> None:
    world = World(SessionLimits(session_idle_s=100, detached_s=50, close_timeout_s=patience(5)))
    await world.run(table("t"))
    world.spark.faults["ReleaseSession"] = BackendUnavailable("Spark cannot be reached")
    world.now += 1000
    await world.service.expire()
    await world.service.expire()
    assert len(world.service) == 0
    with pytest.raises(BackendUnavailable):
        await world.run(table("t"))
    world.spark.faults.clear()
    with rpc_error("SESSION_CLOSED"):
        await world.run(table("t"))


@pytest.mark.parametrize("by_client", [False, True])
async def test_nothing_is_taken_up_of_a_session_that_could_not_be_released(by_client: bool) -> None:
    """Which of its operations may be shown is no longer known."""
    world = World(SessionLimits(session_idle_s=100, detached_s=50, close_timeout_s=patience(5)))
    world.spark.script("TABLE t", schema(), rows(1))
    operation = uid()
    await world.run(table("t"), operation=operation)
    world.spark.faults["ReleaseSession"] = BackendUnavailable("Spark cannot be reached")
    if by_client:
        with pytest.raises(BackendUnavailable):
            await world.call("ReleaseSession")
    else:
        world.now += 1000
        await world.service.expire()
        await world.service.expire()
    assert len(world.service) == 0
    with pytest.raises(BackendUnavailable):
        await world.reattach(operation)
    with pytest.raises(BackendUnavailable):
        await world.run(table("t"))
    world.spark.faults.clear()
    with rpc_error("INVALID_HANDLE"):
        await world.reattach(operation)
    assert "ReattachExecute" not in [method for method, _ in world.spark.calls[:-1]]


async def test_nothing_is_taken_up_of_a_session_while_its_client_releases_it() -> None:
    world = World()
    world.spark.script("TABLE t", schema(), rows(1))
    operation = uid()
    await world.run(table("t"), operation=operation)
    gate = world.spark.hold["ReleaseSession"] = asyncio.Event()
    releasing = asyncio.create_task(world.call("ReleaseSession", allow_reconnect=True))
    await until(lambda: world.spark.calls[-1][0] == "ReleaseSession")
    with rpc_error("SESSION_CLOSED"):
        await world.reattach(operation)
    with rpc_error("SESSION_CLOSED"):
        await world.run(table("t"))
    gate.set()
    await releasing
    await world.run(table("t"))


async def test_a_clone_has_the_names_of_its_source() -> None:
    world = World()
    world.judge.effects = [("USE", (UseNamespace(None, ("hr",)),)), ("VIEW v", (CreateTempView("v"),))]
    await world.run(sql("USE hr"))
    await world.run(view("v", "t"))
    checkpointed = world.session()
    for handle in (
        SparkHandle("relation", "x"),
        SparkHandle("query", "x"),
        SparkHandle("function", "f"),
        SparkHandle("table_function", "g"),
        SparkHandle("data_source", "d"),
    ):
        checkpointed.add_handle(handle)
    answer = await world.call("CloneSession", new_session_id=OTHER_SESSION)
    assert answer.new_session_id == OTHER_SESSION
    method, request = world.spark.calls[-1]
    assert (method, request.user_context.user_id) == ("CloneSession", "bob")
    assert request.client_observed_server_side_session_id == world.session().server_session
    await world.run(table("v"), session=OTHER_SESSION, observed=answer.new_server_side_session_id)
    context = world.judge.judged[-1].context
    assert context.namespace == ("hr",)
    assert context.temp_views == {"v"}
    # Spark's clone has none of the relations and queries of its source.
    assert context.handles == {
        SparkHandle("function", "f"),
        SparkHandle("table_function", "g"),
        SparkHandle("data_source", "d"),
    }
    assert world.spark.received.count("SHOW CURRENT NAMESPACE") == 1
    # They are two from here on.
    await world.run(sql("USE hr"), session=OTHER_SESSION)
    world.judge.effects = [("DROP", ())]
    assert world.session(OTHER_SESSION).views.keys() == world.session().views.keys()


async def test_a_clone_gets_an_id_when_the_client_gives_none() -> None:
    world = World()
    await world.run(table("t"))
    answer = await world.call("CloneSession")
    assert ("bob", answer.new_session_id) in world.spark.sessions
    await world.run(table("t"), session=answer.new_session_id)
    assert len(world.service) == 2


async def test_a_clone_takes_no_id_that_is_taken_or_none() -> None:
    world = World()
    await world.run(table("t"))
    await world.run(table("t"), session=OTHER_SESSION)
    with rpc_error("TARGET_SESSION_ID_ALREADY_EXISTS"):
        await world.call("CloneSession", new_session_id=OTHER_SESSION)
    with rpc_error("TARGET_SESSION_ID_FORMAT"):
        await world.call("CloneSession", new_session_id="x")
    world.spark.faults["CloneSession"] = fault("[INVALID_CLONE_SESSION_REQUEST.X] closed before")
    with rpc_error("closed before"):
        await world.call("CloneSession", new_session_id=THIRD_SESSION)
    assert len(world.service) == 2


async def test_a_gateway_that_was_killed_finds_its_sessions_again() -> None:
    world = World()
    await world.run(table("t"))
    server_session = world.session().server_session
    world.spark.namespace = ("spark_catalog", "hr")
    after = World(spark=world.spark)
    await after.run(table("t"), observed=server_session)
    assert after.session().server_session == server_session
    assert after.judge.judged[-1].context.namespace == ("hr",)


async def test_a_spark_that_reads_otherwise_gets_no_text_and_keeps_no_session() -> None:
    world = World()
    world.spark.mismatch = "`spark.sql.extensions` has `other.Parser`"
    with pytest.raises(BackendMismatch, match=r"other\.Parser"):
        await world.run(table("t"))
    assert world.spark.received == []
    assert len(world.service) == 0
    assert world.spark.sessions == {}


async def test_a_session_of_another_gateway_is_refused_and_left_as_it_is() -> None:
    world = World()
    await world.run(table("t"))
    other = World(spark=world.spark)
    world.spark.elsewhere = True
    with pytest.raises(SessionElsewhere, match="begin a new session"):
        await other.run(table("t"))
    assert len(other.service) == 0
    await world.run(table("u"))
    assert world.statements()[-1] == "TABLE u"


async def test_a_spark_that_was_started_anew_is_asked_before_the_next_text() -> None:
    world = World()
    await world.run(table("t"))
    world.spark.restart()
    world.spark.mismatch = "`spark.sql.extensions` has `other.Parser`"
    with pytest.raises(RpcError, match=r"SESSION_CHANGED|SESSION_CLOSED"):
        await world.run(table("t"))
    with pytest.raises(BackendMismatch):
        await world.run(table("t"))
    assert world.spark.sessions == {}
    world.spark.mismatch = ""
    await world.run(table("t"))
    assert world.statements()[-1] == "TABLE t"


async def test_a_session_knows_the_catalogs_that_spark_was_told_of_now_and_not_before() -> None:
    world = World()
    world.told = {"grav": 1, "old": 2}
    world.spark.known_catalogs = frozenset({"old"})
    await world.run(table("t"))
    assert world.judge.judged[-1].context.catalogs == {("grav", 1)}
    world.told = {"grav": 5}
    await world.run(table("t"))
    assert world.judge.judged[-1].context.catalogs == {("grav", 1)}


async def test_somebody_else_of_the_same_name_has_no_session_of_the_first() -> None:
    world = World()
    await world.run(table("t"))
    other = replace(BOB, id="another")
    with pytest.raises(RpcError, match="SESSION_CLOSED"):
        await world.run(table("t"), principal=other)
    await world.run(table("t"))


async def test_a_session_that_another_gateway_has_opened_for_its_user_is_that_ones() -> None:
    world = World()
    through = replace(BOB, attributes=(("sluice_gateway", "first"),))
    await world.run(table("t"), principal=through)
    for principal in (BOB, replace(BOB, attributes=(("sluice_gateway", "second"),))):
        with pytest.raises(SessionElsewhere):
            await world.run(table("t"), principal=principal)
    await world.run(table("t"), principal=through)


async def test_a_session_judges_by_the_groups_of_its_users_last_login() -> None:
    world = World()
    await world.run(table("t"))
    await world.run(table("t"), principal=replace(BOB, groups=frozenset({"auditors"})))
    assert world.judge.judged[-1].principal.groups == {"auditors"}


async def test_an_operator_stops_one_plan_by_its_id() -> None:
    world, every = World(), OpenSessions()
    every.add(world.service)
    world.spark.script("TABLE t", schema(), asyncio.Event())
    world.spark.script("INSERT", asyncio.Event())
    streams = [
        world.service.execute(BOB, CLIENT, execute_request(table("t"))),
        world.service.execute(BOB, CLIENT, execute_request(sql("INSERT"))),
    ]
    await anext(streams[0])
    waiting = asyncio.create_task(anext(streams[1]))
    await until(lambda: "INSERT" in world.spark.received)
    listed = {one.text: one for one in every.list_statements()}
    assert all(one.is_plan and one.user == "bob" for one in listed.values())
    assert len(listed) == 2
    stopped = next(one for text, one in listed.items() if "INSERT" in text)
    assert await every.stop_statement(stopped.statement, "an operator said so") == 1
    await until(lambda: "INSERT" in world.outcomes())
    assert world.outcomes() == {"INSERT": "canceled"}
    await asyncio.gather(waiting, return_exceptions=True)
    await world.call("ReleaseSession")
    assert await every.end_one("bob", SESSION, "an operator said so", by="dave") == 0, "it is gone"
