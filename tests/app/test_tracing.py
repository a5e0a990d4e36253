"""Traces: what requests become, in whose trace, and that nothing waits for the collector."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway.app import tracing as app_tracing
from gateway.app.logs import add_trace
from gateway.app.tracing import OtlpTracer
from gateway.model.tracing import CURRENT, read_traceparent, trace, traced_request, traceparent_in
from gateway.session.metrics import Metrics
from gateway.session.operation import FINISHED
from gateway.settings.loading import parse_settings
from gateway.settings.tracing import TracingSettings
from gateway.wire import calls
from tests.app.otlp_collector import PARENT, TOLD, TRACE, collecting
from tests.frontends.connect_listening import connect_listening
from tests.frontends.listening import RawClient
from tests.frontends.listening import listening as thrift_listening
from tests.frontends.test_thrift_http import client as http_client
from tests.frontends.test_thrift_http import listening as http_listening
from tests.session import test_waiting as waiting
from tests.session.connect import fakes
from tests.speed import patience


def make_tracer(url: str, metrics: Metrics | None = None, **more: Any) -> OtlpTracer:
    return OtlpTracer(TracingSettings(url=url, **more), "gw-1", metrics or Metrics())


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


@contextmanager
def tracing(gateway: Any, tracer: OtlpTracer) -> Iterator[None]:
    gateway.authenticator._tracer = gateway.server.service._tracer = tracer
    yield


async def test_a_statement_over_thrift_goes_on_with_the_trace_that_its_comment_names() -> None:
    async with collecting() as collector, thrift_listening() as gateway:
        tracer = make_tracer(collector.url)
        with tracing(gateway, tracer):
            one = await RawClient.logged_in(gateway.port)
            session = await one.open_session()
            text = f"SELECT 'a secret' FROM t /*traceparent='{TOLD}'*/"
            operation = await one.execute(session, text)
            fetch = calls.TFetchResultsReq(operationHandle=operation, maxRows=10)
            await one.call("FetchResults", fetch, calls.TFetchResultsResp)
            close = calls.TCloseOperationReq(operationHandle=operation)
            await one.call("CloseOperation", close, calls.TCloseOperationResp)
        await tracer.close()
        spans = collector.of_trace()
        assert spans.keys() == {
            *("ExecuteStatement", "judge", "wait for names", "record", "spark"),
            *("FetchResults", "CloseOperation"),
        }
        root = spans["ExecuteStatement"]
        assert root.parent_span_id.hex() == PARENT
        for name in ("judge", "record", "spark"):
            assert spans[name].parent_span_id == root.span_id
        assert spans["FetchResults"].parent_span_id == root.span_id
        assert spans["record"].start_time_unix_nano < spans["spark"].start_time_unix_nano
        (decided,) = [event for event in gateway.world.ledger.of("decided") if event.body["reqData"] == text]
        assert attributes(root)["sluice.audit_event"] == decided.event_id
        assert attributes(spans["spark"])["sluice.outcome"] == "finished"
        others = {span.name for span in collector.spans() if span.trace_id.hex() != TRACE}
        assert others >= {"login", "OpenSession"}
        for told in (b"secret", b"SELECT", b"bob"):
            assert told not in b"".join(collector.bodies)


async def test_what_is_fetched_of_a_statement_is_in_its_trace_where_no_client_says_so() -> None:
    async with collecting() as collector, thrift_listening() as gateway:
        tracer = make_tracer(collector.url, from_clients=False)
        with tracing(gateway, tracer):
            one = await RawClient.logged_in(gateway.port)
            text = f"SELECT 1 /*traceparent='{TOLD}'*/"
            operation = await one.execute(await one.open_session(), text)
            fetch = calls.TFetchResultsReq(operationHandle=operation, maxRows=10)
            await one.call("FetchResults", fetch, calls.TFetchResultsResp)
        await tracer.close()
        spans = {span.name: span for span in collector.spans()}
        assert spans["ExecuteStatement"].trace_id.hex() != TRACE
        assert spans["FetchResults"].parent_span_id == spans["ExecuteStatement"].span_id


async def test_a_refused_statement_says_by_which_code_and_in_no_words() -> None:
    async with collecting() as collector, thrift_listening() as gateway:
        tracer = make_tracer(collector.url)
        gateway.world.judge.refused = "REFUSE"
        with tracing(gateway, tracer):
            one = await RawClient.logged_in(gateway.port)
            request = calls.TExecuteStatementReq(
                sessionHandle=await one.open_session(), statement=f"REFUSE x /*traceparent='{TOLD}'*/"
            )
            await one.call("ExecuteStatement", request, calls.TExecuteStatementResp)
            assert await (await RawClient.connect(gateway.port)).log_in("bob", "wrong-secret")
        await tracer.close()
        spans = collector.of_trace()
        assert "spark" not in spans
        assert attributes(spans["judge"])["sluice.verdict"] == "ACCESS_DENIED"
        login = [attributes(span) for span in collector.spans() if span.name == "login"]
        assert [(one["sluice.accepted"], one["sluice.mechanism"]) for one in login] == [
            (True, "PLAIN"),
            (False, "PLAIN"),
        ]
        assert b"secret" not in b"".join(collector.bodies)


@pytest.mark.parametrize("counts", [True, False])
async def test_the_header_of_a_request_over_http_says_whose_trace_it_is(counts: bool) -> None:
    async with (
        collecting() as collector,
        http_listening() as gateway,
        http_client(gateway) as one,
    ):
        tracer = make_tracer(collector.url, from_clients=counts)
        with tracing(gateway, tracer):
            one.headers["traceparent"] = TOLD
            await one.open_session()
            one.headers["traceparent"] = "00-nothing"
            await one.open_session()
        await tracer.close()
        mine = [span.name for span in collector.spans() if span.trace_id.hex() == TRACE]
        assert sorted(mine) == (["OpenSession", "login"] if counts else [])
        assert len(collector.spans()) == 4


async def test_a_plan_over_spark_connect_is_one_trace_from_its_login_to_its_last_row() -> None:
    async with collecting() as collector, connect_listening() as here:
        tracer, world = make_tracer(collector.url), fakes.World()
        here.server._tracer, here.server._service = tracer, world.service
        request = fakes.execute_request(fakes.sql("SELECT 'a secret'"))
        metadata = (*here.bearer, ("traceparent", TOLD))
        assert [one async for one in here.stub("ExecutePlan")(request, metadata=metadata)]
        with pytest.raises(Exception, match="UNAUTHENTICATED"):
            await here.call(metadata=(("authorization", "Bearer secret"), ("traceparent", TOLD[:-2] + "00")))
        await world.service.close()
        await tracer.close()
        spans = collector.of_trace()
        assert spans.keys() >= {"ExecutePlan", "login", "judge", "record", "spark", "relay"}
        assert "Config" not in spans, "its client says that nobody looks"
        root = spans["ExecutePlan"]
        assert root.parent_span_id.hex() == PARENT
        assert {spans[name].parent_span_id for name in ("login", "spark", "relay")} == {root.span_id}
        assert b"secret" not in b"".join(collector.bodies)


@pytest.mark.parametrize("cancels", [True, False])
async def test_waiting_for_spark_is_a_span_whatever_it_ends_in(cancels: bool) -> None:
    async with collecting() as collector:
        tracer = make_tracer(collector.url)
        world, session = await waiting.full()
        with traced_request(tracer, "ExecuteStatement", TOLD):
            operation = await waiting.begun(world, session, "SELECT 1")
        if cancels:
            await world.sessions.cancel(fakes.BOB, operation)
        else:
            world.backend.sessions[0].operations[0].end()
            await waiting.ends_in(world, operation, FINISHED)
            await world.sessions.close_operation(fakes.BOB, operation)
        await world.sessions.close()
        await tracer.close()
        spans = collector.of_trace()
        assert ("spark" in spans) is not cancels
        assert attributes(spans["wait for spark"]).get("sluice.outcome") == ("canceled" if cancels else None)


# -- the collector -------------------------------------------------------------------------------------------


async def test_the_collector_is_told_who_sends_and_by_which_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLLECTOR_KEY", "s3cret")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with collecting() as collector:
        tracer = make_tracer(collector.url, headers={"X-Key": {"env": "COLLECTOR_KEY"}}, service="front")
        with traced_request(tracer, "x"):
            pass
        await tracer.close()
        assert collector.headers[0]["x-key"] == "s3cret"
        (sent,) = ExportTraceServiceRequest.FromString(collector.bodies[0]).resource_spans
        told = {one.key: one.value.string_value for one in sent.resource.attributes}
        assert (told["service.name"], told["service.instance.id"]) == ("front", "gw-1")


@pytest.mark.parametrize("how", ["away", "silent", "broken"])
async def test_nothing_waits_for_a_collector_and_memory_is_bounded(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(app_tracing, "CLOSE_S", 0.5)
    async with collecting(silent=how == "silent", status=500) as collector:
        metrics, url = Metrics(), collector.url
        if how == "away":
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                url = f"http://127.0.0.1:{free.getsockname()[1]}/v1/traces"
        tracer = make_tracer(url, metrics, spans=512, timeout_s=0.1 if how != "silent" else 600.0)
        longest = 0.0
        for _ in range(4000):
            begun = time.perf_counter()
            with traced_request(tracer, "ExecuteStatement"), trace("judge"):
                pass
            longest = max(longest, time.perf_counter() - begun)
        assert longest < patience(1)
        assert len(tracer._processor._batch_processor._queue) <= 512
        begun = time.monotonic()
        await tracer.close()
        assert time.monotonic() - begun < patience(2)
        if how != "silent":
            assert metrics.trace_spans.labels("failed")._value.get() > 0
        assert metrics.trace_spans.labels("sent")._value.get() == 0


async def test_what_is_not_sampled_is_not_sent_but_where_a_client_wants_it() -> None:
    async with collecting() as collector:
        tracer = make_tracer(collector.url, sample=0)
        for told in ("", TOLD, TOLD[:-2] + "00"):
            with traced_request(tracer, "x", told) as span:
                assert span is not None
                assert int(span.traceparent[-2:], 16) & 1 == (told == TOLD)
        await tracer.close()
        assert [span.trace_id.hex() for span in collector.spans()] == [TRACE]


async def test_an_error_is_told_by_its_kind_and_without_its_text() -> None:
    async with collecting() as collector:
        tracer = make_tracer(collector.url)
        with pytest.raises(ValueError, match="a secret"), traced_request(tracer, "x"), trace("y"):
            raise ValueError("a secret")
        await tracer.close()
        assert {attributes(span)["error.type"] for span in collector.spans()} == {"ValueError"}
        assert b"secret" not in b"".join(collector.bodies)


# -- without one ---------------------------------------------------------------------------------------------


def test_without_a_tracer_nothing_has_a_span() -> None:
    with traced_request(None, "x", TOLD) as one, trace("y") as other:
        assert one is other is CURRENT.get() is None


async def test_the_log_has_the_ids_of_what_is_traced() -> None:
    async with collecting() as collector:
        tracer = make_tracer(collector.url)
        assert add_trace(None, "", {}) == {}
        with traced_request(tracer, "x", TOLD), trace("y") as span:
            assert span is not None
            assert add_trace(None, "", {}) == {"trace_id": TRACE, "span_id": span.span_id}
        await tracer.close()
    assert structlog.contextvars.get_contextvars() == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"SELECT 1 /*traceparent='{TOLD}'*/", TOLD),
        (f"/* app='x',traceparent='{TOLD}' */ SELECT 1", TOLD),
        (f"SELECT 1 /* traceparent={TOLD} */ ;", TOLD),
        (f"SELECT 'traceparent={TOLD}'", ""),
        (f"/* x */ SELECT 'traceparent={TOLD}' /* y */", ""),
        (f"SELECT 1 -- traceparent={TOLD} */", ""),
        (f"SELECT 1 /*traceparent='{TOLD.upper()}'*/", ""),
        (f"SELECT 1 /*traceparent='00-{'0' * 32}-{PARENT}-01'*/", ""),
        ("SELECT 1", ""),
        ("", ""),
    ],
)
def test_a_comment_at_an_end_of_a_statement_says_whose_trace_it_is(text: str, found: str) -> None:
    assert traceparent_in(text) == found


@pytest.mark.parametrize(
    ("header", "counts"),
    [
        (TOLD, True),
        (f" {TOLD} ", True),
        (f"01-{TRACE}-{PARENT}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"{TOLD}-more", False),
        (f"{TOLD}\nx: y", False),
        ("", False),
    ],
)
def test_a_header_counts_as_the_standard_has_it(header: str, counts: bool) -> None:
    assert read_traceparent(header) == (TOLD if counts else "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{url: 'ftp://x'}", "is not an address"),
        ("{url: 'http://u:p@x/v1/traces'}", "use `headers`"),
        ("{url: 'http://x', ca_file: ca.pem}", "`ca_file` needs an `https` address"),
        ("{url: 'http://x', spans: 10}", "spans"),
    ],
)
def test_settings_that_cannot_work_are_told(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(Exception, match=told):
        parse_settings(f"tracing: {text}", "gateway.yaml", tmp_path)
