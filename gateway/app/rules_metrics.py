"""How every source of policies is doing, for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.app.rules import SourceState

MAX_CLOSED = 100
"""Closed policies of one source that the page names."""


class SourcesCollector(Collector):
    """Asks for the state of all sources whenever the page is printed."""

    def __init__(self, sources: Callable[[], Iterable[SourceState]]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, one sample for each source."""
        version = GaugeMetricFamily(
            "sluice_policy_source_version", "Ranger's policy version; -1: nothing loaded", labels=["source"]
        )
        policies = GaugeMetricFamily("sluice_policy_source_policies", "Policies in force", labels=["source"])
        contact = GaugeMetricFamily(
            "sluice_policy_source_contact_age_seconds",
            "Seconds since a Ranger Admin last confirmed the policies in force; +Inf: never",
            labels=["source"],
        )
        faults = GaugeMetricFamily(
            "sluice_policy_source_faults", "Number of current errors", labels=["source"]
        )
        stale = GaugeMetricFamily(
            "sluice_policy_source_stale", "1 while the source is older than its limit", labels=["source"]
        )
        closed = GaugeMetricFamily(
            "sluice_policy_closed_timestamp_seconds",
            "Unix time since which a policy cannot be loaded, so that access to what it protects is denied",
            labels=["source", "service", "policy", "id"],
        )
        files = GaugeMetricFamily(
            "sluice_policy_file_fault_timestamp_seconds",
            "Unix time since which a policy file is not fully in force: cases: a test case fails; whole: "
            "nothing in it can be used; unreadable",
            labels=["source", "file", "line", "kind"],
        )
        for source in self._sources():
            for file in source.files[:MAX_CLOSED]:
                files.add_metric([source.name, file.file, str(file.line), file.kind], file.since.timestamp())
            for one in source.closed[:MAX_CLOSED]:
                closed.add_metric([one.source, one.service, one.name, str(one.id)], one.since.timestamp())
            labels = [source.name]
            policies.add_metric(labels, source.policies)
            faults.add_metric(labels, len(source.faults))
            stale.add_metric(labels, 1 if source.stale else 0)
            if source.version is None:
                continue
            version.add_metric(labels, source.version)
            age = source.contact_age_s
            contact.add_metric(labels, float("inf") if age is None else age)
        yield from (version, policies, contact, faults, stale, closed, files)
