"""How many files and sockets this process may have open, and whether that is enough for its settings."""

from __future__ import annotations

import resource

import structlog

from gateway.settings.models import Settings

_log = structlog.get_logger(__name__)

OWN = 512
"""Files, sockets to Spark and PostgreSQL, and pipes to children of a gateway that nobody is connected to."""
THRIFT = 2
"""Descriptors of one client of HiveServer2: its connection, and the one to Spark."""
CONNECT = 3
"""Of one of Spark Connect: its connection, and both ends of the one to gRPC."""


def count_descriptors(settings: Settings) -> int:
    """Return how many descriptors a gateway of these settings has open when all bounds are reached."""
    connections, listeners = settings.connections, settings.listeners
    thrift = listeners.thrift.connections * THRIFT if settings.serves_thrift else 0
    if listeners.thrift_http is not None:
        thrift += listeners.thrift_http.connections * THRIFT
    if listeners.iceberg_rest is not None:
        thrift += listeners.iceberg_rest.connections
    connect = connections.connect * CONNECT if listeners.connect is not None else 0
    return OWN + connections.reserve + thrift + connect + connections.before_login


def few_descriptors(settings: Settings) -> str | None:
    """Return a warning when a process may have fewer than the settings want, however far it is raised."""
    needed = count_descriptors(settings)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or hard >= needed:
        return None
    return (
        f"this process may open {hard} file descriptors, and its settings need {needed}: connections will "
        f"be refused; set `ulimit -n {needed}`, or `LimitNOFILE={needed}` in its unit"
    )


def raise_limit(settings: Settings) -> str | None:
    """Raise the process's limit to what the settings want, as far as the system lets it; return a warning
    when that is too little."""
    needed = count_descriptors(settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if (few := few_descriptors(settings)) is not None:
        _log.warning("descriptors_few", limit=soft, wanted=needed)
    return few
