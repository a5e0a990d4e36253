"""How sources of policies, metalakes and sources of files are doing, for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.app.rules import SourceState
from gateway.files.refreshing import Refreshing
from gateway.session.routing.fleet import Fleet
from gateway.sources.metalakes import MetalakeState

MAX_CLOSED = 100
"""Closed policies of one source that the page names."""
Gauges = tuple[tuple[str, str, Callable[[Any], float | None]], ...]
"""Name, meaning and value of each; None: it has no sample."""

_SOURCE: Gauges = (
    ("version", "Ranger's policy version; -1: nothing loaded", lambda one: one.version),
    ("policies", "Policies in force", lambda one: one.policies),
    (
        "contact_age_seconds",
        "Seconds since a Ranger Admin last confirmed the policies in force; +Inf: never",
        lambda one: None if one.version is None else _age(one.contact_age_s),
    ),
    ("faults", "Number of current errors", lambda one: len(one.faults)),
    ("stale", "1 while the source is older than its limit", lambda one: bool(one.stale)),
)
_METALAKE: Gauges = (
    ("catalogs", "Catalogs in force", lambda one: 0 if one.stale else len(one.catalogs)),
    ("left_out", "Catalogs that are not passed to Spark", lambda one: len(one.left_out)),
    (
        "not_mapped",
        "Tags, privileges and properties that could not be mapped",
        lambda one: sum(one.unmapped_privileges.values()),
    ),
    (
        "age_seconds",
        "Seconds since the server last confirmed the catalogs in force; +Inf: never",
        lambda one: _age(one.age_s),
    ),
    (
        "stale",
        "1 while the catalogs are refused because the server has not confirmed them for too long",
        lambda one: bool(one.stale),
    ),
)
_WALK: Gauges = (
    ("found", "Directories that could be tables but are not", lambda one: one.found),
    (
        "walked_timestamp_seconds",
        "Unix time of the last scan, whatever its result",
        lambda one: one.walked_at.timestamp(),
    ),
    (
        "walk_trouble",
        "1 while the last scan failed, or was incomplete",
        lambda one: bool(one.trouble),
    ),
)


def _age(seconds: float | None) -> float:
    return inf if seconds is None else seconds


class StateCollector(Collector):
    """Asks for the gauges of a state whenever the page is printed."""

    def __init__(self, gauges: Callable[[], Iterator[Metric]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterator[Metric]:
        return self._gauges()


def _measure(
    prefix: str, label: str, states: Iterable[Any], gauges: Gauges, name: str = "name"
) -> Iterator[Metric]:
    """Yield gauges with one sample for each state, by its `name`."""
    told = list(states)
    for suffix, text, read in gauges:
        family = GaugeMetricFamily(f"{prefix}_{suffix}", text, labels=[label])
        for one in told:
            value = read(one)
            if value is not None:
                family.add_metric([getattr(one, name)], value)
        yield family


def source_gauges(sources: Iterable[SourceState]) -> Iterator[Metric]:
    """Yield the gauges of sources of policies."""
    every = list(sources)
    yield from _measure("sluice_policy_source", "source", every, _SOURCE)
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
    for source in every:
        for file in source.files[:MAX_CLOSED]:
            files.add_metric([source.name, file.file, str(file.line), file.kind], file.since.timestamp())
        for one in source.closed[:MAX_CLOSED]:
            closed.add_metric([one.source, one.service, one.name, str(one.id)], one.since.timestamp())
    yield from (closed, files)


def metalake_gauges(states: Iterable[MetalakeState]) -> Iterator[Metric]:
    return _measure("sluice_metalake", "metalake", states, _METALAKE)


def dataset_gauges(refreshing: Refreshing) -> Iterator[Metric]:
    """Yield the gauges of sources of files that are looked at by themselves; PostgreSQL says what they are,
    whichever gateway looked."""
    family = GaugeMetricFamily(
        "sluice_datasets_changed", "Tables whose files differ from the table or are gone", labels=["source"]
    )
    for source, number in refreshing.findings.items():
        family.add_metric([source], number)
    yield family
    yield from _measure("sluice_source", "source", refreshing.walks, _WALK, name="source")


def backend_gauges(fleet: Fleet) -> Iterator[Metric]:
    """Yield the gauges of several Sparks."""
    up = GaugeMetricFamily(
        "sluice_backend_up", "1 while the Spark gets new sessions", labels=["backend", "endpoint"]
    )
    sessions = GaugeMetricFamily(
        "sluice_backend_sessions", "Open sessions on the Spark", labels=["backend", "endpoint"]
    )
    busy = GaugeMetricFamily(
        "sluice_backend_busy_sessions",
        "Sessions on the Spark in which something runs or is being fetched",
        labels=["backend", "endpoint"],
    )
    breaker = GaugeMetricFamily(
        "sluice_backend_breaker",
        "1 for the state of the Spark's circuit breaker: closed, open or half_open",
        labels=["backend", "endpoint", "state"],
    )
    for spark in fleet.all():
        for name, one in spark.breakers.items():
            there = spark.sessions_of(name)
            up.add_metric([spark.name, name], not spark.explain(name))
            sessions.add_metric([spark.name, name], 0 if there is None else len(there))
            busy.add_metric([spark.name, name], 0 if there is None else there.busy())
            for state in ("closed", "open", "half_open"):
                breaker.add_metric([spark.name, name, state], one.state == state)
    for missing in fleet.pending:
        up.add_metric([missing, ""], 0)
    yield from (up, sessions, busy, breaker)
