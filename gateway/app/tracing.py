"""Traces by OpenTelemetry's SDK: spans wait in memory, up to a bound, for a thread that sends them.

Nothing waits for a collector: while it is away or slow the oldest spans are dropped, and everything else goes
on. Imported only where settings have `tracing`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import requests
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from prometheus_client import Counter

from gateway import __version__
from gateway.model.tracing import SpanValue, read_traceparent
from gateway.session.metrics import Metrics
from gateway.settings.tracing import TracingSettings

CLOSE_S = 3.0
"""How long a stop waits for the collector to take the last spans."""
PAUSE_MS = 1000.0
BATCH = 512


class OtlpSpan:
    """See `model.tracing.Span`."""

    __slots__ = ("_has_ended", "_span", "_tracer")

    def __init__(self, tracer: trace.Tracer, span: trace.Span) -> None:
        self._tracer, self._span = tracer, span
        self._has_ended = False

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    @property
    def span_id(self) -> str:
        return trace.format_span_id(self._span.get_span_context().span_id)

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self._span.get_span_context().trace_flags:02x}"

    def begin(self, name: str) -> OtlpSpan:
        context = trace.set_span_in_context(self._span)
        return OtlpSpan(self._tracer, self._tracer.start_span(name, context))

    def note(self, **attributes: SpanValue) -> None:
        if not self._has_ended:
            for name, value in attributes.items():
                self._span.set_attribute(f"sluice.{name}", value)

    def end(self, fault: str = "") -> None:
        if self._has_ended:
            return
        if fault:
            self._span.set_attribute("error.type", fault)
            self._span.set_status(trace.StatusCode.ERROR)
        self._has_ended = True
        self._span.end()


class OtlpTracer:
    """Begins traces, and sends them."""

    def __init__(self, settings: TracingSettings, gateway: str, metrics: Metrics) -> None:
        """`gateway`: its name in the record. Raises Faults where a header's secret cannot be had."""
        session = requests.Session()
        # A proxy or a login that the environment names is for browsing, not for this.
        session.trust_env = False
        exporter = OTLPSpanExporter(
            endpoint=settings.url,
            headers={name: secret.reveal() for name, secret in settings.headers.items()},
            certificate_file=None if settings.ca_file is None else str(settings.ca_file),
            timeout=settings.timeout_s,
            compression=Compression.Gzip,
            session=session,
        )
        self._processor = BatchSpanProcessor(
            _CountingExporter(exporter, metrics.trace_spans),
            max_queue_size=settings.spans,
            schedule_delay_millis=PAUSE_MS,
            max_export_batch_size=BATCH,
        )
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample)),
            resource=Resource.create(
                {
                    "service.name": settings.service,
                    "service.version": __version__,
                    "service.instance.id": gateway,
                }
            ),
            span_limits=SpanLimits(max_span_attributes=32, max_events=0, max_links=0),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(self._processor)
        self._tracer = provider.get_tracer("sluice", __version__)
        self._from_clients = settings.from_clients

    def begin(self, name: str, traceparent: str, *, is_ours: bool = False) -> OtlpSpan:
        """See `model.tracing.Tracer`."""
        context, told = None, read_traceparent(traceparent) if is_ours or self._from_clients else ""
        if told:
            _, trace_id, span_id, flags = told.split("-")
            parent = trace.SpanContext(
                int(trace_id, 16),
                int(span_id, 16),
                is_remote=True,
                trace_flags=trace.TraceFlags(int(flags, 16)),
            )
            context = trace.set_span_in_context(trace.NonRecordingSpan(parent))
        span = self._tracer.start_span(name, context or Context(), kind=trace.SpanKind.SERVER)
        return OtlpSpan(self._tracer, span)

    async def close(self) -> None:
        """Send what waits, for some seconds."""
        loop, closed = asyncio.get_running_loop(), asyncio.Event()
        processor: Any = self._processor

        def close() -> None:
            processor.shutdown()
            with contextlib.suppress(RuntimeError):  # nobody waited for so long
                loop.call_soon_threadsafe(closed.set)

        # A thread of asyncio's own would be waited for at the end.
        threading.Thread(target=close, name="tracing-close", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await closed.wait()


class _CountingExporter(SpanExporter):
    """Counts what the collector has taken, and what it has not."""

    def __init__(self, exporter: SpanExporter, spans: Counter) -> None:
        self._exporter = exporter
        self._sent, self._lost = spans.labels("sent"), spans.labels("failed")

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        except Exception:
            self._lost.inc(len(spans))
            raise
        (self._sent if result is SpanExportResult.SUCCESS else self._lost).inc(len(spans))
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> Any:
        return self._exporter.force_flush(timeout_millis)
