"""Forwarding of the record as the settings want it, and how it is doing for `/metrics`."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway import __version__
from gateway.audit.forward_formats import make_encoder
from gateway.audit.forward_targets import HttpTarget, SyslogTarget
from gateway.audit.forwarding import Forwarder, ForwardOptions, ForwardTarget
from gateway.settings.forwarding import ForwardSettings
from gateway.sources.ranger_client import tls_context


def make_forwarders(settings: Sequence[ForwardSettings], dsn: str) -> list[Forwarder]:
    """Return what forwards to each target. Raises Faults where a secret or certificate cannot be used."""
    return [_make_forwarder(one, dsn) for one in settings]


def _make_forwarder(settings: ForwardSettings, dsn: str) -> Forwarder:
    options = ForwardOptions(
        name=settings.name,
        kinds=frozenset(settings.kinds),
        from_beginning=settings.since == "beginning",
        batch=settings.batch,
        longest_pause_s=settings.longest_pause_s,
    )
    encode = make_encoder(settings.format, version=__version__, text_chars=settings.text_chars)
    return Forwarder(dsn, options, make_target(settings), encode)


def make_target(settings: ForwardSettings) -> ForwardTarget:
    """Return the target, not connected. Raises Faults where a secret or certificate cannot be used."""
    if settings.transport == "syslog":
        tls = _context(settings) if settings.tls else None
        return SyslogTarget(settings.host or "", settings.port, tls, settings.timeout_s)
    for secret in settings.headers.values():
        # One that is not there is told at the start, and not by a log.
        secret.reveal()
    url = settings.url or ""
    return HttpTarget(
        url,
        lambda: {name: secret.reveal() for name, secret in settings.headers.items()},
        _context(settings) if url.startswith("https") else None,
        settings.gzip,
        settings.timeout_s,
    )


async def report_forwarding(forwarders: Sequence[Forwarder]) -> str | None:
    """Describe what keeps events from their targets; None when nothing does."""
    troubles = [f"`{one.options.name}`: {one.progress.trouble}" for one in forwarders if one.progress.trouble]
    return f"the record is not forwarded: {'; '.join(troubles)}" if troubles else None


def _context(settings: ForwardSettings) -> ssl.SSLContext:
    return tls_context(ca_file=None if settings.ca_file is None else str(settings.ca_file))


class ForwardCollector(Collector):
    """How forwarding is doing, asked whenever the page is printed."""

    def __init__(self, forwarders: Sequence[Forwarder]) -> None:
        self._forwarders = forwarders

    def collect(self) -> Iterator[Metric]:
        """Yield counters and gauges, by target."""
        events = CounterMetricFamily(
            "sluice_forward_events",
            "Events of the record for other systems; sent: confirmed by the target; missed: they had left "
            "the database before",
            labels=["target", "fate"],
        )
        failures = CounterMetricFamily(
            "sluice_forward_failures", "Interruptions of forwarding, by target", labels=["target"]
        )
        active = GaugeMetricFamily(
            "sluice_forward_active", "1 on the gateway that forwards to the target", labels=["target"]
        )
        behind = GaugeMetricFamily(
            "sluice_forward_behind_events",
            "Events in the database that the target does not have, as its gateway knows",
            labels=["target"],
        )
        for one in self._forwarders:
            name, progress = one.options.name, one.progress
            events.add_metric([name, "sent"], progress.sent)
            events.add_metric([name, "missed"], progress.missed)
            failures.add_metric([name], progress.failures)
            active.add_metric([name], progress.forwarding)
            behind.add_metric([name], progress.behind)
        yield from (events, failures, active, behind)
