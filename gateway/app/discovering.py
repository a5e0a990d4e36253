"""Who tells the addresses of Sparks that come and go, as the settings have it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import structlog

from gateway.backends.spark_discovery import (
    Discovery,
    DnsDiscovery,
    EndpointSliceDiscovery,
    FileDiscovery,
)
from gateway.errors import Faults
from gateway.settings.backends import BackendSettings, DiscoverySettings
from gateway.settings.models import Settings

_log = structlog.get_logger(__name__)


def make_discovery(settings: DiscoverySettings) -> Discovery:
    """Return what tells the addresses of Sparks."""
    if settings.file is not None:
        return FileDiscovery(settings.file)
    if settings.dns is not None:
        return DnsDiscovery(settings.dns)
    kubernetes = settings.kubernetes
    if kubernetes is None:
        raise Faults(["`discover` needs one of `file`, `dns` and `kubernetes`"])
    token = kubernetes.token
    return EndpointSliceDiscovery(
        kubernetes.api,
        kubernetes.namespace,
        kubernetes.service,
        token=None if token is None else token.reveal,
        ca_file=kubernetes.ca_file,
    )


async def leave_out_own(
    addresses: frozenset[str], settings: Settings, backend: BackendSettings
) -> frozenset[str]:
    """Return the addresses without those where this gateway listens itself, as a pod of a service that
    has both: it would log in at itself again and again."""
    if not _has_a_port_of(settings, backend):
        return addresses
    own = [one for one in addresses if await _is_of_this_machine(one)]
    if own:
        _log.warning("own_addresses_left_out", addresses=sorted(own))
    return addresses.difference(own)  # RULE (own-address-left-out)


def _has_a_port_of(settings: Settings, backend: BackendSettings) -> bool:
    listeners, thrift = settings.listeners, backend.thrift
    pairs = [(backend.connect, listeners.connect)]
    if thrift is not None:
        listener = listeners.thrift if thrift.transport == "binary" else listeners.thrift_http
        pairs.append((thrift, listener))  # type: ignore[arg-type]  # both have a port
    return any(one is not None and at is not None and one.port == at.port for one, at in pairs)


async def _is_of_this_machine(address: str) -> bool:
    """Whether something can listen at an address here."""
    with suppress(OSError, UnicodeError):
        found = await asyncio.get_running_loop().getaddrinfo(address, 0, type=socket.SOCK_DGRAM)
        for family, kind, _, _, at in found:
            with socket.socket(family, kind) as tried:
                tried.bind(at)
        return bool(found)
    return False
