"""How sources of files stand that are looked at by themselves, for `/metrics`.

PostgreSQL says it, whichever gateway looked."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.files.refreshing import Refreshing


class DatasetsCollector(Collector):
    """Asks for what is known whenever the page is printed."""

    def __init__(self, refreshing: Refreshing) -> None:
        self._refreshing = refreshing

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, one sample for each source."""
        changed = GaugeMetricFamily(
            "sluice_datasets_changed",
            "Tables whose files differ from the table or are gone",
            labels=["source"],
        )
        found = GaugeMetricFamily(
            "sluice_source_found", "Directories that could be tables but are not", labels=["source"]
        )
        walked = GaugeMetricFamily(
            "sluice_source_walked_timestamp_seconds",
            "Unix time of the last scan, whatever its result",
            labels=["source"],
        )
        failing = GaugeMetricFamily(
            "sluice_source_walk_trouble",
            "1 while the last scan failed, or was incomplete",
            labels=["source"],
        )
        for source, number in self._refreshing.findings.items():
            changed.add_metric([source], number)
        for walk in self._refreshing.walks:
            found.add_metric([walk.source], walk.found)
            walked.add_metric([walk.source], walk.walked_at.timestamp())
            failing.add_metric([walk.source], 1 if walk.trouble else 0)
        yield from (changed, found, walked, failing)
