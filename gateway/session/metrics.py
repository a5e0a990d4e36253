"""What the gateway counts, in one place; the admin listener only prints it."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info


class Metrics:
    """Counters and gauges of one gateway process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.statements = Counter(
            "sluice_statements",
            "Statements by verdict; unrecorded: the ledger did not take it, so none is in force",
            ["verdict"],
            registry=registry,
        )
        self.refusals = Counter(
            "sluice_refusals",
            "Refused statements by the code that their clients got",
            ["code"],
            registry=registry,
        )
        self.build = Info("sluice_build", "Versions that this gateway is made of", registry=registry)
        self.certificate_ends = Gauge(
            "sluice_certificate_expiry_timestamp_seconds",
            "When the first certificate of a listener's chain runs out, as seconds since 1970",
            ["listener"],
            registry=registry,
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
        self.waited = Histogram(
            "sluice_spark_wait_seconds",
            "Time that statements waited until Spark had room for them",
            buckets=(0.01, 0.05, 0.2, 1, 5, 20, 60, 300, 1200),
            registry=registry,
        )
        self.spark_full = Counter(
            "sluice_spark_full", "Statements for which Spark's pool had no room", registry=registry
        )
        self.relayed_bytes = Counter("sluice_relayed_bytes", "Result bytes relayed", registry=registry)
        self.relayed_rows = Counter("sluice_relayed_rows", "Result rows relayed", registry=registry)
        self.logins = Counter(
            "sluice_logins",
            "Logins by result. Where every call shows its login, those of one user from one address are one "
            "until it is recorded again",
            ["result"],
            registry=registry,
        )
        self.foreign_handles = Counter(
            "sluice_foreign_handles", "Handles that another principal tried to use", registry=registry
        )
        self.connections = Gauge("sluice_connections", "Open client connections", registry=registry)
        self.connections_refused = Counter(
            "sluice_connections_refused",
            "Connections that were sent away, or cut before a login, by what bound",
            ["listener", "reason"],
            registry=registry,
        )
        self.policy_version = Gauge(
            "sluice_policy_version", "Version of the policies in force", registry=registry
        )
        # Read from other rooms: on the page once somebody has given `watch` a way to read them.
        self.spool_bytes = Gauge("sluice_spool_bytes", "Bytes of audit events on disk", registry=None)
        self.ledger_connected = Gauge(
            "sluice_ledger_database_connected", "1 while PostgreSQL takes the record", registry=None
        )
        self.ledger_recorded = Gauge(
            "sluice_ledger_recorded_events", "Audit events since the start", registry=None
        )
        self.ledger_shipped = Gauge(
            "sluice_ledger_shipped_events", "Audit events that PostgreSQL took since the start", registry=None
        )
        self.ledger_unfit = Gauge(
            "sluice_ledger_unfit_events",
            "Audit events of which PostgreSQL took only what is certain to be taken, since the start",
            registry=None,
        )
        self.ledger_open = Gauge(
            "sluice_ledger_open_statements",
            "Statements with a decision and no end in the record",
            registry=None,
        )
        self.sessions = Gauge("sluice_sessions", "Open sessions", registry=None)
        self.spark_statements = Gauge(
            "sluice_spark_statements", "Statements that Spark's Thrift Server has", registry=None
        )
        self.statements_waiting = Gauge(
            "sluice_statements_waiting", "Statements that wait until Spark has room for them", registry=None
        )
        self.operations = Gauge("sluice_operations", "Open operations", registry=None)
        self.connect_sessions = Gauge("sluice_connect_sessions", "Open Spark Connect sessions", registry=None)
        self.connect_operations = Gauge(
            "sluice_connect_operations", "Open Spark Connect operations", registry=None
        )
        self.cleared = self.statements.labels("cleared")
        self.refused = self.statements.labels("refused")
        self.unrecorded = self.statements.labels("unrecorded")

    def watch(self, gauge: Gauge, read: Callable[[], float]) -> None:
        """Put a gauge on the page that asks for its value whenever it is printed."""
        gauge.set_function(read)
        self.registry.register(gauge)
