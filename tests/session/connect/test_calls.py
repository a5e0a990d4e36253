"""Calls without a plan: settings, files, error details, states; whose they are and what they tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast, get_args

import pytest
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2

from gateway.errors import InvalidRequest, LedgerUnavailable, PoliciesStale, RpcError
from gateway.session.failures import StatementRefused
from gateway.wire import connect_requests
from gateway.wire.connect import METHODS, pb, serialize
from gateway.wire.connect_requests import CallRequest
from tests.session.connect.fakes import (
    ALICE,
    BOB,
    CLIENT,
    OTHER_SESSION,
    SESSION,
    World,
    fault,
    rpc_error,
    schema,
    table,
    uid,
)
from tests.session.connect.test_executions import GUARDED
from tests.session.fakes import FakePolicies


def config(case: str, *keys: str) -> Any:
    operation = pb.ConfigRequest.Operation()
    if case == "set":
        operation.set.pairs.extend(pb.KeyValue(key=key, value="x") for key in keys)
    else:
        getattr(operation, case).keys.extend(keys)
    return operation


async def test_a_setting_is_set_when_policies_let_it_and_recorded() -> None:
    world = World()
    await world.call("Config", operation=config("set", "spark.sql.shuffle.partitions"))
    assert world.spark.sessions[("bob", SESSION)].settings["spark.sql.shuffle.partitions"] == "x"
    event = world.ledger.of("decided")[-1]
    assert event.body["plan_class"] == "Config.set"
    assert event.body["reqData"] == "Config.set(spark.sql.shuffle.partitions)"
    assert event.body["cliType"] == "connect"
    assert world.order[-2:] == ["decided", "completed"]
    world.require_balance()


async def test_a_setting_that_may_not_be_set_is_refused_and_recorded() -> None:
    world = World()
    world.hidden.add("spark.sql.shuffle.partitions")
    with pytest.raises(StatementRefused, match="needs set"):
        await world.call("Config", operation=config("set", "spark.sql.shuffle.partitions"))
    with pytest.raises(StatementRefused, match="fixed by Sluice"):
        await world.call("Config", operation=config("unset", "spark.sql.variable.substitute"))
    settings = world.spark.sessions[("bob", SESSION)].settings
    assert "spark.sql.shuffle.partitions" not in settings
    assert settings["spark.sql.variable.substitute"] == "false"
    assert [e.body["verdict"] for e in world.ledger.of("decided")][-2:] == ["refused", "refused"]
    world.require_balance()


async def test_reading_settings_leaves_no_record() -> None:
    world = World()
    await world.run(table("t"))
    before = len(world.ledger.events)
    answer = await world.call("Config", operation=config("get", "spark.sql.session.timeZone"))
    assert [pair.key for pair in answer.pairs] == ["spark.sql.session.timeZone"]
    assert len(world.ledger.events) == before


async def test_a_setting_is_not_set_without_a_record() -> None:
    world = World()
    await world.run(table("t"))
    world.ledger.down = True
    with pytest.raises(LedgerUnavailable):
        await world.call("Config", operation=config("set", "spark.sql.shuffle.partitions"))
    assert "spark.sql.shuffle.partitions" not in world.spark.sessions[("bob", SESSION)].settings


async def test_every_method_of_the_service_is_answered_or_refused() -> None:
    world = World()
    for method in ("ExecutePlan", "ReattachExecute", "AddArtifacts", "AnalyzePlan", "", "Nonsense"):
        with pytest.raises(InvalidRequest, match="is not supported"):
            await world.service.call(method, BOB, CLIENT, b"")
    unary = {m.name for m in METHODS.values() if not (m.client_streaming or m.server_streaming)}
    # Of a session that it does not have, Spark tells no state.
    await world.run(table("t"))
    for method in sorted(unary - {"AnalyzePlan", "Config", "ReleaseExecute", "ReleaseSession"}):
        await world.call(method)


@pytest.mark.parametrize(
    "method",
    ["Interrupt", "GetStatus", "FetchErrorDetails", "ReleaseSession", "ArtifactStatus", "CloneSession"],
)
async def test_every_call_is_made_as_the_principal_and_for_our_session(method: str) -> None:
    world = World()
    await world.run(table("t"))
    server_session = world.session().server_session
    await world.call(method)
    request = next(r for m, r in world.spark.calls if m == method)
    assert request.user_context.user_id == request.user_context.user_name == "bob"
    if method != "ReleaseSession":
        assert request.client_observed_server_side_session_id == server_session
        with rpc_error("SESSION_CHANGED"):
            await world.call(method, client_observed_server_side_session_id=uid())
    with pytest.raises(InvalidRequest):
        await world.call(method, session="../x")


async def test_extensions_of_the_user_go_and_those_of_a_request_are_refused() -> None:
    world = World()
    request = pb.GetStatusRequest(session_id=SESSION)
    request.user_context.extensions.add().type_url = "x"
    await world.run(table("t"))
    await world.service.call("GetStatus", BOB, CLIENT, serialize(request))
    assert len(world.spark.calls[-1][1].user_context.extensions) == 0
    request.extensions.add().type_url = "x"
    with pytest.raises(InvalidRequest, match="extensions"):
        await world.service.call("GetStatus", BOB, CLIENT, serialize(request))


def error_with_id(message: str, error_id: str) -> RpcError:
    info = error_details_pb2.ErrorInfo(
        reason="org.apache.spark.SparkRuntimeException",
        metadata={
            "errorId": error_id,
            "errorClass": "CAST_INVALID_INPUT",
            "classes": json.dumps(["org.apache.spark.SparkRuntimeException"]),
        },
    )
    packed = any_pb2.Any()
    packed.Pack(info)
    status = status_pb2.Status(code=13, message=message, details=[packed])
    return RpcError(code=13, message=message, details=status.SerializeToString())


def details(message: str) -> Any:
    answer = pb.FetchErrorDetailsResponse(root_error_idx=0)
    answer.errors.add(message=message, error_type_hierarchy=["org.apache.spark.SparkRuntimeException"])
    return answer


async def test_details_of_an_error_are_told_as_the_error_was() -> None:
    world = World()
    message = "[CAST_INVALID_INPUT] The value 'secret' of x"
    world.judge.scans["TABLE guarded"] = (GUARDED,)
    for name in ("guarded", "free"):
        world.spark.script(f"TABLE {name}", schema(), error_with_id(message, name))
        world.spark.errors[name] = details(message)
        with rpc_error("CAST_INVALID_INPUT"):
            await world.run(table(name))
    world.spark.errors["unknown"] = details(message)
    told = {
        name: (await world.call("FetchErrorDetails", error_id=name)).errors[0].message
        for name in ("guarded", "free", "unknown")
    }
    assert "secret" in told["free"]
    assert "secret" not in told["guarded"]
    assert "secret" not in told["unknown"]
    # Another session, or another user, was not given the error.
    other = await world.call("FetchErrorDetails", session=OTHER_SESSION, error_id="free")
    assert "secret" not in str(other)


async def test_a_call_to_a_session_that_spark_ended_ends_it_here() -> None:
    world = World()
    await world.run(table("t"))
    world.spark.faults["GetStatus"] = fault("[INVALID_HANDLE.SESSION_CLOSED] x")
    with rpc_error("SESSION_CLOSED"):
        await world.call("GetStatus")
    assert len(world.service) == 0


async def test_stale_policies_stop_calls_that_need_them() -> None:
    world = World()
    await world.run(table("t"))
    in_force = cast(FakePolicies, world.service._dependencies.policies)
    in_force.stale = lambda: "the policies are old"
    with pytest.raises(PoliciesStale):
        await world.call("Config", operation=config("get", "spark.sql.session.timeZone"))
    with pytest.raises(StatementRefused, match="old"):
        await world.run(table("t"))


# -- files -----------------------------------------------------------------------------------------------


def upload(*names: str, session: str = SESSION, data: bytes = b"x") -> bytes:
    request = pb.AddArtifactsRequest(session_id=session, client_type="pyspark")
    request.user_context.user_id = "mallory"
    for name in names:
        artifact = request.batch.artifacts.add(name=name)
        artifact.data.data = data
    return serialize(request)


async def messages(requests: Sequence[bytes]) -> AsyncIterator[bytes]:
    for request in requests:
        await asyncio.sleep(0)
        yield request


CACHED = "cache/" + "0" * 64


async def test_local_data_is_uploaded_as_the_principal_without_a_record() -> None:
    world = World()
    await world.run(table("t"))
    before = len(world.ledger.events)
    await world.service.add_artifacts(BOB, CLIENT, messages([upload(CACHED), upload(CACHED)]))
    assert len(world.ledger.events) == before
    assert [r.user_context.user_id for r in world.spark.uploaded] == ["bob", "bob"]
    server_session = world.session().server_session
    assert all(r.client_observed_server_side_session_id == server_session for r in world.spark.uploaded)


async def test_a_file_is_recorded_before_it_is_uploaded() -> None:
    world = World()
    await world.service.add_artifacts(BOB, CLIENT, messages([upload("pyfiles/x.py", CACHED)]))
    assert world.order[-3:] == ["decided", "uploaded", "completed"]
    event = world.ledger.of("decided")[-1]
    assert event.body["reqData"] == "AddArtifacts(pyfiles/x.py)"
    assert event.body["resources"] == ["pyfiles/x.py"]
    await world.call("ArtifactStatus", names=["pyfiles/x.py", CACHED])
    world.hidden.add("pyfiles/x")
    await world.call("ArtifactStatus", names=["pyfiles/x.py"])
    world.require_balance()


async def test_a_file_without_a_grant_is_refused_and_nothing_after_it_goes() -> None:
    world = World()
    world.hidden.add("pyfiles/x")
    with pytest.raises(StatementRefused, match="needs create on artifact"):
        await world.service.add_artifacts(
            BOB, CLIENT, messages([upload(CACHED), upload("pyfiles/x.py"), upload(CACHED)])
        )
    assert len(world.spark.uploaded) == 1
    assert world.ledger.of("decided")[-1].body["verdict"] == "refused"
    with pytest.raises(StatementRefused):
        await world.call("ArtifactStatus", names=["pyfiles/x.py"])
    world.require_balance()


async def test_an_upload_that_is_cut_off_is_ended() -> None:
    world = World()
    world.hidden.add("x")

    async def vanishing() -> AsyncIterator[bytes]:
        yield upload("pyfiles/x.py")
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await world.service.add_artifacts(BOB, CLIENT, vanishing())
    assert world.ledger.outcomes()[-1] == "canceled"
    begun = pb.AddArtifactsRequest(session_id=SESSION)
    begun.begin_chunk.name = "pyfiles/y.py"
    begun.begin_chunk.num_chunks = 2
    begun.begin_chunk.total_bytes = 2
    begun.begin_chunk.initial_chunk.data = b"x"
    with pytest.raises(InvalidRequest, match="ended within"):
        await world.service.add_artifacts(BOB, CLIENT, messages([serialize(begun)]))
    with pytest.raises(InvalidRequest, match="without messages"):
        await world.service.add_artifacts(BOB, CLIENT, messages([]))
    world.require_balance()


async def test_an_upload_belongs_to_one_session_of_one_user() -> None:
    world = World()
    with pytest.raises(InvalidRequest, match="name several sessions"):
        await world.service.add_artifacts(
            BOB, CLIENT, messages([upload(CACHED), upload(CACHED, session=OTHER_SESSION)])
        )
    await world.service.add_artifacts(ALICE, CLIENT, messages([upload(CACHED)]))
    assert world.spark.uploaded[-1].user_context.user_id == "alice"


async def test_an_upload_that_spark_refuses_is_recorded_as_failed() -> None:
    world = World()
    world.spark.faults["AddArtifacts"] = fault("[X] no space left")
    with rpc_error("no space"):
        await world.service.add_artifacts(BOB, CLIENT, messages([upload("pyfiles/x.py")]))
    assert world.ledger.outcomes()[-1] == "failed"
    world.require_balance()


def test_calls_are_read_as_the_requests_of_their_methods() -> None:
    unary = {n: m for n, m in METHODS.items() if not (m.client_streaming or m.server_streaming)}
    del unary["AnalyzePlan"]
    for name, method in unary.items():
        fields = {"operation_id": uid()} if name == "ReleaseExecute" else {}
        read = connect_requests.call(name, serialize(method.request(session_id=SESSION, **fields)))
        assert type(read).__name__ == method.request.__name__
    assert {kind.__name__ for kind in get_args(CallRequest)} == {m.request.__name__ for m in unary.values()}
