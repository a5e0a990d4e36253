"""What the gateway counts, in one place; the admin listener only prints it."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info

from gateway.session.audit_records import StatementOutcome


class Metrics:
    """Counters and gauges of one gateway process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._watched: dict[Gauge, list[Callable[[], float]]] = {}
        registry = self.registry
        self.statements = Counter(
            "sluice_statements",
            "Statements by verdict; unrecorded: the audit ledger did not accept it, so it was not run",
            ["verdict"],
            registry=registry,
        )
        self.refusals = Counter(
            "sluice_refusals",
            "Refused statements by the code sent to their clients",
            ["code"],
            registry=registry,
        )
        self.rest_calls = Counter(
            "sluice_iceberg_rest_calls",
            "Answered calls of the Iceberg REST catalog, by operation and HTTP status",
            ["operation", "status"],
            registry=registry,
        )
        self.build = Info("sluice_build", "Versions of the gateway and its components", registry=registry)
        self.certificate_ends = Gauge(
            "sluice_certificate_expiry_timestamp_seconds",
            "Expiry of the first certificate in a listener's chain, as Unix time",
            ["listener"],
            registry=registry,
        )
        self.outcomes = Counter(
            "sluice_operations_ended", "Cleared statements by outcome", ["outcome"], registry=registry
        )
        self.ended = {outcome: self.outcomes.labels(outcome) for outcome in get_args(StatementOutcome)}
        """Those of `outcomes`, by outcome: each statement counts in one."""
        judge = Histogram(
            "sluice_judge_seconds",
            "Time to authorize a statement; cached: answered from the verdict cache",
            ["cache"],
            buckets=(0.00005, 0.0001, 0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.05, 0.2, 1, 5),
            registry=registry,
        )
        self.judge_cold = judge.labels("cold")
        self.judge_cached = judge.labels("cached")
        self.waited = Histogram(
            "sluice_spark_wait_seconds",
            "Time that statements waited for a slot in Spark",
            buckets=(0.01, 0.05, 0.2, 1, 5, 20, 60, 300, 1200),
            registry=registry,
        )
        self.spark_full = Counter(
            "sluice_spark_full", "Statements for which Spark's thread pool had no room", registry=registry
        )
        self.limits_reached = Counter(
            "sluice_limits_reached",
            "Statements and sessions that a limit of a pack refused or canceled",
            ["limit", "measure", "action"],
            registry=registry,
        )
        self.relayed_bytes = Counter("sluice_relayed_bytes", "Result bytes relayed", registry=registry)
        self.relayed_rows = Counter("sluice_relayed_rows", "Result rows relayed", registry=registry)
        self.logins = Counter(
            "sluice_logins",
            "Logins by result. Where every call carries credentials, those of one user from one address "
            "count once until recorded again",
            ["result"],
            registry=registry,
        )
        self.foreign_handles = Counter(
            "sluice_foreign_handles", "Handles that another principal tried to use", registry=registry
        )
        self.connections = Gauge("sluice_connections", "Open client connections", registry=registry)
        self.connections_refused = Counter(
            "sluice_connections_refused",
            "Connections that were refused, or closed before a login, by reason",
            ["listener", "reason"],
            registry=registry,
        )
        self.access_requests = Counter(
            "sluice_access_requests",
            "Steps of requests for access and break-glass, such as `granted`",
            ["step", "kind"],
            registry=registry,
        )
        self.policy_version = Gauge(
            "sluice_policy_version", "Version of the policies in force", registry=registry
        )
        self.trace_spans = Counter(
            "sluice_trace_spans",
            "Spans of traces for the collector; failed: it was away or took too long",
            ["fate"],
            registry=registry,
        )
        # Read from other rooms: on the page once somebody has given `watch` a way to read them.
        self.spool_bytes = Gauge("sluice_spool_bytes", "Bytes of audit events on disk", registry=None)
        self.ledger_connected = Gauge(
            "sluice_ledger_database_connected", "1 while PostgreSQL accepts audit records", registry=None
        )
        self.ledger_recorded = Gauge(
            "sluice_ledger_recorded_events", "Audit events since the start", registry=None
        )
        self.ledger_shipped = Gauge(
            "sluice_ledger_shipped_events",
            "Audit events that PostgreSQL has stored since the start",
            registry=None,
        )
        self.ledger_unfit = Gauge(
            "sluice_ledger_unfit_events",
            "Audit events of which PostgreSQL has stored only the fields that always fit, since the start",
            registry=None,
        )
        self.ledger_open = Gauge(
            "sluice_ledger_open_statements",
            "Statements with a decision but no end in the record",
            registry=None,
        )
        self.sessions = Gauge("sluice_sessions", "Open sessions", registry=None)
        self.spark_statements = Gauge(
            "sluice_spark_statements", "Statements running on Spark's Thrift Server", registry=None
        )
        self.statements_waiting = Gauge(
            "sluice_statements_waiting", "Statements waiting for a slot in Spark", registry=None
        )
        self.plans_waiting = Gauge(
            "sluice_connect_plans_waiting",
            "Spark Connect plans waiting for what a limit allows",
            registry=None,
        )
        self.operations = Gauge("sluice_operations", "Open operations", registry=None)
        self.connect_sessions = Gauge("sluice_connect_sessions", "Open Spark Connect sessions", registry=None)
        self.connect_operations = Gauge(
            "sluice_connect_operations", "Open Spark Connect operations", registry=None
        )
        self.cleared = self.statements.labels("cleared")
        self.refused = self.statements.labels("refused")
        self.unrecorded = self.statements.labels("unrecorded")

    def watch(self, gauge: Gauge, read: Callable[[], float]) -> Callable[[], None]:
        """Put a gauge on the page that asks for its value whenever it is printed; of several Sparks
        the sum. Returns what stops that."""
        reads = self._watched.get(gauge)
        if reads is None:
            reads = self._watched[gauge] = []
            gauge.set_function(lambda: sum(one() for one in reads))
            self.registry.register(gauge)
        watching = reads
        watching.append(read)

        def stop() -> None:
            if read in watching:
                watching.remove(read)

        return stop
