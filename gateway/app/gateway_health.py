"""How one gateway is doing, as it tells the others for an overview: checks, ages, counts, latency."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import Histogram

from gateway import __version__
from gateway.admin.listener import AdminServer
from gateway.app.rules import PolicyRegistry
from gateway.app.sparks import Sparks
from gateway.audit.ledger import FileLedger
from gateway.session.metrics import Metrics
from gateway.session.open_sessions import OpenSessions

BOUNDS_MS = (1, 4, 16, 50, 200)
"""Bands of the time that judging takes; they are among the histogram's."""
MAX_FAULTS = 20


class GatewayHealth:
    """Says how this gateway is doing."""

    def __init__(
        self,
        admin: AdminServer,
        metrics: Metrics,
        ledger: FileLedger,
        rules: PolicyRegistry,
        sparks: Sparks,
        sessions: OpenSessions,
        lineage: Callable[[], Mapping[str, Any] | None],
        worker: tuple[int, int],
    ) -> None:
        """`lineage`: how far its graph follows the record; None where it does not. `worker`: which of how
        many workers it is."""
        self._admin = admin
        self._metrics = metrics
        self._ledger = ledger
        self._rules = rules
        self._sparks = sparks
        self._sessions = sessions
        self._lineage = lineage
        self._worker = worker
        self._started = time.monotonic()

    async def tell(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        ledger, metrics = self._ledger.metrics(), self._metrics
        running = self._sessions.list_statements()
        waiting = sum(one.state in ("decided", "queued") for one in running)
        return {
            "version": __version__,
            "worker": self._worker,
            "up_s": round(time.monotonic() - self._started),
            "parts": dict(await self._admin.ready()),
            "sessions": len(self._sessions.all()),
            "running": len(running) - waiting,
            "waiting": waiting,
            "cleared": _read(metrics.cleared),
            "refused": _read(metrics.refused),
            "unrecorded": _read(metrics.unrecorded),
            "iceberg_rest": _count_calls(metrics),
            "judged": [_bands(metrics.judge_cold), _bands(metrics.judge_cached)],
            "ledger": {
                "connected": ledger.database_connected,
                "backlog_bytes": ledger.backlog_bytes,
                "behind": max(0, ledger.recorded_events - ledger.shipped_events),
                "trouble": ledger.failure or ledger.trouble,
            },
            "policies": [
                {
                    "name": one.name,
                    "version": one.version,
                    "policies": one.policies,
                    "age_s": one.contact_age_s,
                    "faults": list(one.faults[:MAX_FAULTS]),
                    "stale": one.stale or "",
                }
                for one in self._rules.sources()
            ],
            "policy_version": self._rules.current.version,
            "backends": self._sparks.list_states(),
            "lineage": self._lineage(),
        }


def _read(counter: Any) -> int:
    value: float = counter._value.get()
    return round(value)


def _count_calls(metrics: Metrics) -> dict[str, int] | None:
    """Return how many calls of the Iceberg REST catalog were answered, refused, and failed; None where nobody
    has called."""
    found = {"answered": 0, "refused": 0, "failed": 0}
    for metric in metrics.rest_calls.collect():
        for sample in metric.samples:
            if sample.name.endswith("_total"):
                status = sample.labels["status"]
                kind = "refused" if status == "403" else "failed" if status.startswith("5") else "answered"
                found[kind] += round(sample.value)
    return found if any(found.values()) else None


def _bands(histogram: Histogram) -> list[int]:
    """Return how many were at most as slow as each of the bounds, and all of them."""
    found = {
        sample.labels["le"]: sample.value for sample in histogram._child_samples() if sample.name == "_bucket"
    }
    return [round(found.get(str(bound / 1000), 0)) for bound in BOUNDS_MS] + [round(found.get("+Inf", 0))]
