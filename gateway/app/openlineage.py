"""OpenLineage events as the settings want them, where they go, and how that is doing for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.lineage.openlineage.events import EventWriter
from gateway.lineage.openlineage.file import FileSink
from gateway.lineage.openlineage.http import HttpOptions, HttpSink
from gateway.lineage.openlineage.names import Naming
from gateway.lineage.openlineage.spool import EventSpool, EventSpoolLimits
from gateway.lineage.sinks import LineageSink
from gateway.model.catalog import Table, TableName
from gateway.settings.openlineage import OpenLineageHttp, OpenLineageSettings
from gateway.sources.ranger_client import tls_context


def make_writer(
    settings: OpenLineageSettings, *, tables: Callable[[TableName], Table | None], spark_version: str
) -> EventWriter:
    """Return what makes events. `tables`: what the catalog knows of a table by now."""
    naming = Naming(
        namespace=settings.namespace,
        job=settings.job,
        catalogs={catalog.lower(): namespace for catalog, namespace in settings.catalogs.items()},
        paths=settings.paths,
    )
    return EventWriter(
        naming=naming,
        tables=tables,
        spark_version=spark_version,
        texts=settings.texts,
        queries=settings.queries,
    )


async def open_sinks(
    settings: OpenLineageSettings,
    stack: AsyncExitStack,
    registry: CollectorRegistry,
    *,
    tables: Callable[[TableName], Table | None],
    spark_version: str,
) -> tuple[LineageSink, ...]:
    """Return where events go, nowhere when they are switched off; the stack closes it.

    Raises Faults when another process has its files, or a file or secret cannot be used.
    """
    if settings.transport == "off":
        return ()
    writer = make_writer(settings, tables=tables, spark_version=spark_version)
    if settings.transport == "file" or settings.http is None:
        return (await stack.enter_async_context(FileSink(settings.file, writer)),)
    sink = await stack.enter_async_context(_http_sink(settings.http, writer))
    registry.register(OpenLineageCollector(sink))
    return (sink,)


def _http_sink(settings: OpenLineageHttp, writer: EventWriter) -> HttpSink:
    key = settings.api_key
    if key is not None:
        # A key that is not there is told at the start, and not by a log.
        key.reveal()
    options = HttpOptions(
        url=settings.url,
        api_key=None if key is None else key.reveal,
        tls=None if settings.ca_file is None else tls_context(ca_file=str(settings.ca_file)),
        packed=settings.gzip,
        timeout_s=settings.timeout_s,
        longest_pause_s=settings.longest_pause_s,
    )
    limits = EventSpoolLimits(max_bytes=settings.spool_bytes, max_age_s=settings.spool_age_s)
    return HttpSink(options, EventSpool(settings.spool, limits=limits), writer)


class OpenLineageCollector(Collector):
    """How sending events is doing, asked whenever the page is printed."""

    def __init__(self, sink: HttpSink) -> None:
        self._sink = sink

    def collect(self) -> Iterator[Metric]:
        """Yield counters and gauges."""
        progress, spool = self._sink.progress, self._sink.spool
        events = CounterMetricFamily(
            "sluice_openlineage_events",
            "OpenLineage events; sent: accepted by the server; refused: set aside, because the server "
            "permanently rejects them; dropped: lost, because the spool was full or they were too old",
            labels=["fate"],
        )
        events.add_metric(["sent"], progress.sent)
        events.add_metric(["refused"], progress.refused)
        events.add_metric(["dropped"], spool.dropped)
        yield events
        yield CounterMetricFamily(
            "sluice_openlineage_failed_tries", "Failed attempts to send events", progress.failures
        )
        yield GaugeMetricFamily(
            "sluice_openlineage_spool_bytes", "Bytes of events waiting to be sent", spool.backlog_bytes
        )
        yield GaugeMetricFamily(
            "sluice_openlineage_spool_age_seconds",
            "Seconds since the oldest waiting file was written",
            spool.oldest_s,
        )
