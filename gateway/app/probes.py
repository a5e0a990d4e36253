"""The operators' listener from the first moment on: whoever asks learns that the gateway is not ready yet.

Imports little: it is there while the rest of the gateway is still being loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

from aiohttp import web

from gateway.admin.listener import AdminServer
from gateway.app.certificates import tls_context
from gateway.app.handed_connections import HandedConnections
from gateway.app.worker_metrics import merge_metrics, share_metrics
from gateway.frontends.connection_limits import ConnectionLimiter, ConnectionLimits
from gateway.session.metrics import Metrics
from gateway.settings.models import Settings

NAME = "admin"
"""Its section of `listeners`."""
STARTING = "the gateway is starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The listener, which listens."""

    admin: AdminServer
    connection_limiter: ConnectionLimiter
    port: int
    metrics: Metrics
    handed: HandedConnections | None = None
    """Who accepts connections, where this process is a worker."""

    @property
    def held(self) -> Collection[str]:
        """The listeners at which connections are accepted already."""
        return (NAME,) if self.handed is None else tuple(self.handed.place.ports)

    @property
    def is_first(self) -> bool:
        """Whether no other worker of this gateway is before this process."""
        return self.handed is None or self.handed.place.number == 1


async def start_probes(
    settings: Settings, metrics: Metrics, handed: HandedConnections | None = None
) -> Probes:
    """Listen for operators. Raises Faults for a certificate that cannot be used, OSError for the address."""
    listener = settings.listeners.admin
    tls = tls_context(listener.tls)
    admin = AdminServer({}, metrics.registry, mounted=list_first_pages(settings))
    admin.unready = STARTING
    door = build_connection_limiter(settings, metrics, NAME, handed)
    if handed is not None:
        await share_metrics(handed.place, metrics.registry)
        admin.read_metrics = partial(merge_metrics, handed.place)
    port = await admin.start(door, listener.host, listener.port, tls=tls)
    return Probes(admin=admin, connection_limiter=door, port=port, metrics=metrics, handed=handed)


def list_first_pages(settings: Settings) -> Mapping[str, Callable[[], web.Application]]:
    """Return what is there before the gateway is ready: others check by these keys what it asks them. Raises
    Faults."""
    if settings.token_signing is None:
        return {}
    from gateway.app.public_keys import WELL_KNOWN, make_key_application  # optional: few have it

    return {WELL_KNOWN: make_key_application(settings.token_signing)}  # RULE (keys-before-readiness)


def build_connection_limiter(
    settings: Settings, metrics: Metrics, listener: str, handed: HandedConnections | None = None
) -> ConnectionLimiter:
    """Return what accepts the connections of a listener."""
    refused = metrics.connections_refused
    return ConnectionLimiter(
        listener,
        read_connection_limits(settings, listener),
        refused=lambda name, why: refused.labels(name, why).inc(),
        arrivals=handed,
    )


def read_connection_limits(settings: Settings, listener: str) -> ConnectionLimits:
    """Return the bounds of a listener."""
    bounds, http = settings.connections, settings.listeners.thrift_http
    iceberg = settings.listeners.iceberg_rest
    connections = {
        "thrift": settings.listeners.thrift.connections,
        "thrift_http": http.connections if http is not None else 0,
        "connect": bounds.connect,
        "iceberg_rest": iceberg.connections if iceberg is not None else 0,
        NAME: bounds.before_login,
    }
    return ConnectionLimits(
        connections=connections[listener],
        strangers=bounds.before_login,
        strangers_per_address=bounds.before_login_per_address,
        first_byte_s=bounds.first_byte_s,
        login_s=settings.logins.handshake_timeout_s,
        reserve=bounds.reserve,
        balancers=getattr(getattr(settings.listeners, listener), "balancers", ()),
    )
