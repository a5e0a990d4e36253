"""What the gateway counts, in one place; the admin listener only prints it."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Counters and gauges of one gateway process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.statements = Counter(
            "sluice_statements", "Statements by verdict", ["verdict"], registry=registry
        )
        self.outcomes = Counter(
            "sluice_operations_ended", "Cleared statements by outcome", ["outcome"], registry=registry
        )
        judge = Histogram(
            "sluice_judge_seconds",
            "Time to judge a statement; cached: answered from the verdict cache",
            ["cache"],
            buckets=(0.00005, 0.0001, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05, 0.2, 1, 5),
            registry=registry,
        )
        self.judge_cold = judge.labels("cold")
        self.judge_cached = judge.labels("cached")
        self.sessions = Gauge("sluice_sessions", "Open sessions", registry=registry)
        self.operations = Gauge("sluice_operations", "Open operations", registry=registry)
        self.relayed_bytes = Counter("sluice_relayed_bytes", "Result bytes relayed", registry=registry)
        self.relayed_rows = Counter("sluice_relayed_rows", "Result rows relayed", registry=registry)
        self.logins = Counter("sluice_logins", "Logins by result", ["result"], registry=registry)
        self.foreign_handles = Counter(
            "sluice_foreign_handles", "Handles that another principal tried to use", registry=registry
        )
        self.connections = Gauge("sluice_connections", "Open client connections", registry=registry)
        self.reader_restarts = Counter(
            "sluice_reader_restarts", "Parser processes that had to be replaced", registry=registry
        )
        self.policy_version = Gauge(
            "sluice_policy_version", "Version of the policies in force", registry=registry
        )
        self.ledger_backlog = Gauge(
            "sluice_ledger_backlog_events",
            "Audit events on disk that wait for the database",
            registry=registry,
        )
        self.spool_bytes = Gauge("sluice_spool_bytes", "Bytes of audit events on disk", registry=registry)
        self.cleared = self.statements.labels("cleared")
        self.refused = self.statements.labels("refused")

    def watch(self, gauge: Gauge, read: Callable[[], float]) -> None:
        """Let a gauge ask for its value whenever it is printed."""
        gauge.set_function(read)
