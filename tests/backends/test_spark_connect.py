"""Spark Connect as a backend: what goes out, what comes back, and what is done when Spark fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from gateway.backends.spark_connect import CALLS, SparkConnectBackend, SparkConnectOptions, varint
from gateway.backends.spark_connect_service import SparkConnectService
from gateway.backends.spark_thrift_service import LOOKING_SETTINGS
from gateway.errors import BackendUnavailable, Faults, RpcError
from gateway.model.meaning_settings import list_changed_settings
from gateway.model.principal import Principal
from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.spark_configuration import ParserConfiguration
from gateway.model.statement import Cleared, SessionContext, Statement
from gateway.model.table_formats import DELTA
from gateway.model.tracing import CURRENT, TraceSpan
from gateway.session.ports import BackendError, Envelope
from gateway.wire.connect import METHODS, pb
from tests.backends.fake_connect_server import Configured, FakeConnectServer, rows, spark_connect
from tests.speed import patience

TOKEN = "the-shared-token"
SESSION = "00112233-4455-6677-8899-aabbccddeeff"


def cleared(forwarded: bytes, text: str = "") -> Cleared:
    statement = Statement(
        text=text, principal=Principal(user="bob"), context=SessionContext(endpoint="connect")
    )
    return Cleared(
        statement=statement,
        forwarded="",
        forwarded_plan=forwarded,
        plan_class="Plan",
        decisions=(),
        scans=(),
        snapshot_version="1",
    )


def envelope(**more: Any) -> Envelope:
    return Envelope(session_id=SESSION, user="bob", **more)


@contextlib.asynccontextmanager
async def backend_for(server: FakeConnectServer, token: str = TOKEN) -> AsyncIterator[SparkConnectBackend]:
    backend = SparkConnectBackend(
        SparkConnectOptions(
            host="127.0.0.1", port=server.port, token=token, channels=2, connect_timeout_s=patience(5)
        )
    )
    try:
        yield backend
    finally:
        await backend.close()


async def all_of(responses: AsyncIterator[bytes]) -> list[bytes]:
    return [response async for response in responses]


async def two(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
    yield b"\x0a\x01a"
    yield b"\x0a\x01b"


def answering(data: bytes) -> Any:
    async def answer(_request: bytes, _context: Any) -> bytes:
        return data

    return answer


def refusing(code: grpc.StatusCode, message: str, details: bytes = b"") -> Any:
    async def answer(_request: bytes, context: Any) -> bytes:
        trailing = (("grpc-status-details-bin", details),) if details else ()
        await context.abort(code, message, trailing)
        return b""

    return answer


def refusing_stream(code: grpc.StatusCode, message: str) -> Any:
    async def answer(_request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield b"\x0a\x01a"
        await context.abort(code, message)

    return answer


# -- what goes out -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**21, 2**32 + 5])
def test_lengths_are_written_as_protobuf_writes_them(number: int) -> None:
    message = pb.ExecutePlanResponse.ArrowBatch(row_count=number)
    assert (b"\x08" + varint(number) if number else b"") == message.SerializeToString()


async def test_a_cleared_plan_goes_out_in_its_envelope_and_nothing_else() -> None:
    plan = pb.Plan(root=pb.Relation(sql=pb.SQL(query="SELECT 1 " + "x" * 500)))
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["ExecutePlan"] = two
        everything = envelope(
            client_type="notebook",
            operation_id="0" * 36,
            tags=("a", "b"),
            reattachable=True,
            chunked=True,
            chunk_bytes=1 << 20,
            server_session="s" * 36,
        )
        assert await all_of(backend.own.execute(cleared(plan.SerializeToString()), everything)) == [
            b"\x0a\x01a",
            b"\x0a\x01b",
        ]
        ((_, data, metadata),) = server.calls
        request = pb.ExecutePlanRequest.FromString(data)
        assert request == pb.ExecutePlanRequest(
            session_id=SESSION,
            user_context=pb.UserContext(user_id="bob", user_name="bob"),
            plan=plan,
            client_type="notebook",
            operation_id="0" * 36,
            tags=["a", "b"],
            client_observed_server_side_session_id="s" * 36,
            request_options=[
                pb.ExecutePlanRequest.RequestOption(reattach_options=pb.ReattachOptions(reattachable=True)),
                pb.ExecutePlanRequest.RequestOption(
                    result_chunking_options=pb.ResultChunkingOptions(
                        allow_arrow_batch_chunking=True, preferred_arrow_chunk_size=1 << 20
                    )
                ),
            ],
        )
        assert metadata["authorization"] == f"Bearer {TOKEN}"
        assert "grpc-timeout" not in metadata
        assert "traceparent" not in metadata


async def test_spark_is_told_the_trace_that_a_call_is_of() -> None:
    span = cast(TraceSpan, SimpleNamespace(traceparent="00-mine"))
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["ExecutePlan"], server.answers["Config"] = two, answering(b"")
        plan = pb.Plan(root=pb.Relation(range=pb.Range(end=1, step=1))).SerializeToString()
        before = CURRENT.set(span)
        try:
            await all_of(backend.own.execute(cleared(plan), envelope()))
            await backend.own.call("Config", b"")
        finally:
            CURRENT.reset(before)
        assert [metadata["traceparent"] for _, _, metadata in server.calls] == ["00-mine", "00-mine"]


async def test_what_the_client_left_out_is_left_out() -> None:
    async with spark_connect() as server, backend_for(server, token="") as backend:
        server.answers["ExecutePlan"] = two
        plan = pb.Plan(root=pb.Relation(range=pb.Range(end=1, step=1)))
        await all_of(backend.own.execute(cleared(plan.SerializeToString()), envelope()))
        ((_, data, metadata),) = server.calls
        request = pb.ExecutePlanRequest.FromString(data)
        assert {f.name for f, _ in request.ListFields()} == {"session_id", "user_context", "plan"}
        assert "authorization" not in metadata


async def test_the_envelope_of_an_analysis_wins_over_whatever_the_message_holds() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["AnalyzePlan"] = answering(b"schema")
        message = pb.AnalyzePlanRequest(
            session_id="another", user_context=pb.UserContext(user_id="alice", user_name="alice")
        )
        message.schema.plan.root.range.end = 1
        answer = await backend.own.analyze(
            cleared(message.SerializeToString()), envelope(client_type="c", server_session="s")
        )
        assert answer == b"schema"
        request = pb.AnalyzePlanRequest.FromString(server.requests("AnalyzePlan")[0])
        assert request.session_id == SESSION
        assert request.user_context == pb.UserContext(user_id="bob", user_name="bob")
        assert request.schema == message.schema
        assert (request.client_type, request.client_observed_server_side_session_id) == ("c", "s")


async def test_a_clearance_of_a_text_is_no_clearance_of_a_plan() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        with pytest.raises(ValueError, match="without a plan"):
            backend.own.execute(cleared(b"", "SELECT 1"), envelope())
        with pytest.raises(ValueError, match="without a plan"):
            await backend.own.analyze(cleared(b"", "SELECT 1"), envelope())
        assert server.calls == []


async def test_calls_with_a_plan_have_no_other_way_out() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        for method in [*sorted(set(METHODS) - CALLS), "Nonsense"]:
            with pytest.raises(ValueError, match=method):
                await backend.own.call(method, b"")
        for method in CALLS:
            server.answers[method] = answering(method.encode())
            assert await backend.own.call(method, b"q") == method.encode()
        assert {name for name, _, _ in server.calls} == CALLS
    exchanges = "Config ArtifactStatus Interrupt ReleaseExecute ReleaseSession FetchErrorDetails CloneSession"
    assert {*exchanges.split(), "GetStatus"} == CALLS


async def test_a_call_that_spark_never_answers_ends() -> None:
    never = asyncio.Event()

    async def silent(_request: bytes, _context: Any) -> bytes:
        await never.wait()
        return b""

    async with spark_connect() as server:
        server.answers |= dict.fromkeys(CALLS, silent)
        options = SparkConnectOptions(host="127.0.0.1", port=server.port, token=TOKEN, call_timeout_s=0.05)
        backend = SparkConnectBackend(options)
        try:
            for method in CALLS:
                with pytest.raises(BackendUnavailable, match="Spark did not answer in time"):
                    await backend.own.call(method, b"q")
        finally:
            never.set()
            await backend.close()


async def test_artifacts_go_out_one_by_one() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["AddArtifacts"] = answering(b"taken")
        assert await backend.own.add_artifacts(parts(), "bob") == b"taken"
        assert server.requests("AddArtifacts") == [b"a", b"b"]


async def test_a_reattached_execution_is_relayed() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["ReattachExecute"] = two
        assert len(await all_of(backend.own.reattach(b"ids"))) == 2
        assert server.requests("ReattachExecute") == [b"ids"]


# -- what comes back -----------------------------------------------------------------------------------------


async def test_an_error_of_spark_comes_with_its_status_text_and_details() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["Config"] = refusing(grpc.StatusCode.INTERNAL, "[X] no", b"\x08\x0d")
        with pytest.raises(RpcError) as caught:
            await backend.own.call("Config", b"")
        assert (caught.value.code, caught.value.message, caught.value.details) == (13, "[X] no", b"\x08\x0d")
        server.answers["ExecutePlan"] = refusing_stream(grpc.StatusCode.INTERNAL, "[Y] no")
        responses = backend.own.execute(cleared(b"\x0a\x00"), envelope())
        assert await anext(responses) == b"\x0a\x01a"
        with pytest.raises(RpcError) as failed:
            await anext(responses)
        assert failed.value.message == "[Y] no"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (grpc.StatusCode.UNAVAILABLE, "cannot be reached"),
        (grpc.StatusCode.UNAUTHENTICATED, "does not accept the gateway's token"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "did not answer in time"),
    ],
)
async def test_what_is_between_spark_and_the_gateway_is_no_error_of_the_client(
    code: grpc.StatusCode, text: str
) -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["Config"] = refusing(code, f"secret words with {TOKEN}")
        with pytest.raises(BackendUnavailable, match=text) as caught:
            await backend.own.call("Config", b"")
        assert TOKEN not in caught.value.text
        server.answers["ExecutePlan"] = refusing_stream(code, "in the middle")
        with pytest.raises(BackendUnavailable, match=text):
            await all_of(backend.own.execute(cleared(b"\x0a\x00"), envelope()))


async def test_a_spark_that_is_away_is_found_again_when_it_is_back() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["Config"] = answering(b"here")
        assert await backend.own.call("Config", b"") == b"here"
        await server.stop()
        for _ in range(4):
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await backend.own.call("Config", b"")
        await server.start(server.port)
        async with asyncio.timeout(patience()):
            while True:
                with contextlib.suppress(BackendUnavailable):
                    assert await backend.own.call("Config", b"") == b"here"
                    break


async def test_an_iterator_that_is_closed_ends_the_call() -> None:
    async def endless(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["ExecutePlan"] = endless
        responses = backend.own.execute(cleared(b"\x0a\x00"), envelope())
        assert await anext(responses) == b"first"
        await responses.aclose()
        async with asyncio.timeout(patience()):
            await server.ended.wait()


async def test_spark_is_held_back_while_nobody_takes() -> None:
    produced = 0

    async def endless(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        nonlocal produced
        while produced < 4096:
            produced += 1
            yield b"x" * 262_144

    async with spark_connect() as server, backend_for(server) as backend:
        server.answers["ExecutePlan"] = endless
        server.answers["Config"] = answering(b"")
        responses = backend.own.execute(cleared(b"\x0a\x00"), envelope())
        await anext(responses)
        # Other calls go on meanwhile, whichever connection they take.
        for _ in range(200):
            await backend.own.call("Config", b"")
        assert produced < 256
        await responses.aclose()


async def test_an_upload_that_spark_refuses_half_way_says_why() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    async with spark_connect() as server, backend_for(server) as backend:
        real = server.serve

        async def serve(name: str, context: Any) -> None:
            if name == "AddArtifacts":
                await context.read()
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "[BAD] artifact")
            await real(name, context)

        server.serve = serve  # type: ignore[method-assign]
        with pytest.raises(RpcError) as caught:
            await backend.own.add_artifacts(endless(), "bob")
        # Which of the two depends on whether the write or the status is seen first.
        assert (caught.value.code, caught.value.message) in {
            (3, "[BAD] artifact"),
            (13, "Spark ended the upload before it was complete"),
        }


async def test_a_probe_tells_the_version_or_why_not() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        Configured(server)
        assert (await backend.probe()).version == "4.3.0"
        server.answers["Config"] = refusing(grpc.StatusCode.INTERNAL, "no")
        with pytest.raises(BackendUnavailable, match="gRPC status 13"):
            await backend.probe()
    with pytest.raises(BackendUnavailable):
        await SparkConnectBackend(SparkConnectOptions(host="127.0.0.1", port=server.port)).probe()


def test_a_file_of_authorities_that_is_not_there_is_a_fault(tmp_path: Path) -> None:
    options = SparkConnectOptions(host="h", port=1, tls=True, ca_file=tmp_path / "absent.pem")
    with pytest.raises(Faults, match="cannot be read"):
        SparkConnectBackend(options)


def test_the_token_does_not_print() -> None:
    assert TOKEN not in repr(SparkConnectOptions(host="h", port=1, token=TOKEN))


# -- the gateway's own questions -----------------------------------------------------------------------------


async def test_a_question_of_the_catalog_is_answered_in_a_session_that_reads_as_the_parser_does() -> None:
    async def answer(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        yield rows(name=["a", None], number=[1, 2], kinds=[["x"], []])
        yield pb.ExecutePlanResponse(
            result_complete=pb.ExecutePlanResponse.ResultComplete()
        ).SerializeToString()

    async with spark_connect() as server, backend_for(server) as backend:
        spark = Configured(server)
        server.answers |= {"ExecutePlan": answer, "ReleaseSession": answering(b"")}
        service = SparkConnectService(backend)
        assert await service.query("SHOW x") == [("a", 1, "['x']"), (None, 2, "[]")]
        await service.query("SHOW y")
        asked = [pb.ExecutePlanRequest.FromString(data) for data in server.requests("ExecutePlan")]
        assert [request.plan.root.sql.query for request in asked] == ["SHOW x", "SHOW y"]
        (session,) = {request.session_id for request in asked}
        # The other session told what Spark sets by itself, and is gone.
        (other,) = set(spark.sessions) - {session}
        assert spark.sessions[session] == {**READING_SETTINGS, **LOOKING_SETTINGS}
        assert spark.sessions[other] == dict(READING_SETTINGS)
        assert {r.client_observed_server_side_session_id for r in asked} == {f"{session}@1"}
        assert {request.user_context.user_id for request in asked} == {"sluice"}
        await service.close()
        released = [pb.ReleaseSessionRequest.FromString(data) for data in server.requests("ReleaseSession")]
        assert [request.session_id for request in released] == [other, session]


async def test_what_spark_refuses_of_the_catalogs_questions_has_its_sqlstate() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        Configured(server)
        service = SparkConnectService(backend, max_rows=2)
        server.answers["ExecutePlan"] = refusing_stream(
            grpc.StatusCode.INTERNAL, "[TABLE_OR_VIEW_NOT_FOUND] no. SQLSTATE: 42P01"
        )
        with pytest.raises(BackendError) as caught:
            await service.query("DESCRIBE t")
        assert caught.value.sqlstate == "42P01"

        async def many(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
            yield rows(name=["a", "b", "c"])

        server.answers["ExecutePlan"] = many
        with pytest.raises(BackendUnavailable, match="more than 2 rows"):
            await service.query("SHOW TABLES")


async def test_a_session_of_the_catalog_that_spark_ended_is_replaced() -> None:
    async with spark_connect() as server, backend_for(server) as backend:
        spark = Configured(server)
        server.answers["ExecutePlan"] = refusing_stream(
            grpc.StatusCode.INTERNAL, "[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid."
        )
        service = SparkConnectService(backend)
        with pytest.raises(BackendUnavailable, match="has ended the session"):
            await service.query("SHOW x")
        server.answers["ExecutePlan"] = two
        assert await service.query("SHOW x") == []
        assert len(spark.sessions) == 2


async def test_what_an_extension_has_set_in_a_session_that_lived_on_is_spark_own() -> None:
    """Delta's does when a session analyses its first plan, which a new one has not done."""
    key = "spark.sql.parquet.fieldId.read.enabled"
    async with spark_connect() as server:
        spark = Configured(server)
        extensions: list[str] = []

        async def changes() -> frozenset[str]:
            reader = ParserConfiguration(version=spark.version, extensions=extensions, parsers=spark.parsers)
            options = SparkConnectOptions(host="127.0.0.1", port=server.port, reader=reader)
            backend = SparkConnectBackend(options)
            opened = await backend.own.open_session(SESSION, "bob")
            await backend.close()
            return list_changed_settings(opened.settings, opened.own_settings)

        assert await changes() == frozenset()
        spark.sessions[SESSION][key] = "true"
        assert await changes() == {key}
        extensions.append(DELTA.extension)
        spark.settings["spark.sql.extensions"] = DELTA.extension
        assert await changes() == frozenset()
        spark.sessions[SESSION][key] = "false"
        assert await changes() == {key}
