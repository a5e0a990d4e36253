"""How every metalake is doing, for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.sources.metalakes import MetalakeState


class MetalakesCollector(Collector):
    """Asks for the state of all metalakes whenever the page is printed."""

    def __init__(self, states: Callable[[], Iterable[MetalakeState]]) -> None:
        self._states = states

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, one sample for each metalake."""
        catalogs = GaugeMetricFamily("sluice_metalake_catalogs", "Catalogs in force", labels=["metalake"])
        left_out = GaugeMetricFamily(
            "sluice_metalake_left_out", "Catalogs that are not passed to Spark", labels=["metalake"]
        )
        lost = GaugeMetricFamily(
            "sluice_metalake_not_mapped",
            "Tags, privileges and properties that could not be mapped",
            labels=["metalake"],
        )
        age = GaugeMetricFamily(
            "sluice_metalake_age_seconds",
            "Seconds since the server last confirmed the catalogs in force; +Inf: never",
            labels=["metalake"],
        )
        stale = GaugeMetricFamily(
            "sluice_metalake_stale",
            "1 while the catalogs are refused because the server has not confirmed them for too long",
            labels=["metalake"],
        )
        for state in self._states():
            labels = [state.name]
            catalogs.add_metric(labels, 0 if state.stale else len(state.catalogs))
            left_out.add_metric(labels, len(state.left_out))
            lost.add_metric(labels, sum(state.unmapped_privileges.values()))
            age.add_metric(labels, float("inf") if state.age_s is None else state.age_s)
            stale.add_metric(labels, 1 if state.stale else 0)
        yield from (catalogs, left_out, lost, age, stale)
