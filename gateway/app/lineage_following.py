"""The running gateway's own lineage: the record's input for it, and who follows the record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.audit.lineage_queue import LineageQueue
from gateway.database.migrate import open_migrated
from gateway.lineage.following import Follower, FollowerLimits, FollowerMetrics
from gateway.lineage.gathering import Gatherer
from gateway.lineage.recorded import LineageInput
from gateway.lineage.sinks import LineageSink
from gateway.lineage.workers import LineageWorkers
from gateway.model.catalog import CatalogSnapshot, TableName
from gateway.reader.port import LineageReader
from gateway.session import recorder
from gateway.session.ports import Catalog
from gateway.settings.models import LineageSettings

LATE_S = 300.0
"""Seconds after which a statement that waits is worth telling of."""


def lineage_input(settings: LineageSettings) -> recorder.MakeLineageInput:
    """Return what the record keeps of cleared statements for their lineage."""
    if not settings.enabled:
        return recorder.no_lineage
    return LineageInput(queries=settings.queries, tables_bytes=settings.tables_bytes)


def list_catalogs(catalog: Catalog) -> frozenset[str]:
    """Return the catalogs that names may begin with now, and those that there were."""
    snapshot = catalog.snapshot
    return snapshot.catalogs | snapshot.listed.refused.keys()


async def look_up(catalog: Catalog, names: Sequence[TableName]) -> CatalogSnapshot:
    """Return a snapshot that knows the names. What is in a catalog that is gone, or refused, is not there:
    lineage of what was recorded before does not wait for it to come back."""
    refused = catalog.snapshot.listed.refused
    away = frozenset(name.fold() for name in names if name.catalog.lower() in refused)
    snapshot = await catalog.look_up([name for name in names if name.fold() not in away])
    return replace(snapshot, missing=snapshot.missing | away)


def make_follower(
    settings: LineageSettings,
    dsn: str,
    reader: LineageReader,
    catalog: Catalog,
    gateway: str,
    workers: LineageWorkers,
    sinks: Sequence[LineageSink] = (),
) -> Follower:
    """Return who makes lineage of the record of `gateway`, not running."""
    return Follower(
        connect=partial(open_migrated, dsn, "sluice-lineage", command_s=60),
        queue=LineageQueue(gateway),
        gatherer=Gatherer(
            reader=reader,
            look_up=partial(look_up, catalog),
            catalogs=catalog.snapshot.catalogs,
            listed=lambda: list_catalogs(catalog),
        ),
        workers=workers,
        sinks=sinks,
        limits=FollowerLimits(batch=settings.batch),
    )


def trouble(metrics: FollowerMetrics) -> str | None:
    """Say what is wrong with following, None when nothing is. Statements run all the same."""
    if metrics.error:
        return f"lineage is not extracted: {metrics.error}"
    if metrics.oldest_s > LATE_S:
        return (
            f"{metrics.waiting} statements are waiting for lineage extraction, the oldest for "
            f"{metrics.oldest_s:.0f} s"
        )
    return None


def lineage_state(follower: Follower | None) -> Callable[[], dict[str, float] | None]:
    """Return what tells how far the graph is behind the record; None where nothing follows it."""
    if follower is None:
        return lambda: None
    metrics = follower.metrics
    return lambda: {"waiting": metrics.waiting, "behind_s": metrics.oldest_s}


class LineageCollector(Collector):
    """Asks for the follower's metrics whenever the page is printed."""

    def __init__(self, metrics: FollowerMetrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the counters and gauges."""
        metrics = self._metrics
        made = CounterMetricFamily(
            "sluice_lineage_statements",
            "Statements by result of lineage extraction: columns, tables only, none available, lost",
            labels=["lineage"],
        )
        made.add_metric(["columns"], metrics.made)
        made.add_metric(["tables"], metrics.table_level)
        made.add_metric(["none"], metrics.without)
        made.add_metric(["lost"], metrics.lost)
        yield made
        yield CounterMetricFamily(
            "sluice_lineage_not_sunk", "Statements that a sink did not accept", value=metrics.not_sunk
        )
        yield GaugeMetricFamily(
            "sluice_lineage_waiting",
            "Ended statements whose lineage is not extracted yet",
            value=metrics.waiting,
        )
        yield GaugeMetricFamily(
            "sluice_lineage_oldest_seconds",
            "Seconds that the oldest of them has waited",
            value=metrics.oldest_s,
        )
