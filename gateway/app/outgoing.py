"""Addresses that a gateway of some settings connects to, and what keeps it from them: DNS, the way, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from gateway.app.certificates import WARN_BEFORE
from gateway.backends.reasons import reason_of
from gateway.errors import Faults, one_line
from gateway.settings.loading import Location
from gateway.settings.models import Settings
from gateway.settings.section import Section

PORTS = {"http": 80, "https": 443, "ldap": 389, "ldaps": 636, "postgresql": 5432, "postgres": 5432}
"""Schemes of the addresses in settings, with their usual ports."""
TLS_SCHEMES = frozenset({"https", "ldaps"})
_NOT_OURS = frozenset({"listeners", "catalogs", "files"})
"""Sections whose addresses the gateway listens at, or Spark alone connects to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingAddress:
    """Where a gateway connects to."""

    at: str
    """Its place in the settings."""
    host: str
    port: int
    tls: bool = False
    ca_file: Path | None = None
    """Authorities that verify its certificate; None: the system's."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachAnswer:
    """What came of connecting to an address."""

    address: OutgoingAddress
    failed: Literal["dns", "way", "tls"] | None = None
    """What kept us from it; None: it was reached."""
    reason: str = ""
    numbers: tuple[str, ...] = ()
    """What its name resolves to."""
    certificate_ends: datetime | None = None
    """When the certificate that it showed expires, over TLS."""

    def ends_soon(self, now: datetime) -> bool:
        """Whether its certificate expires soon."""
        return self.certificate_ends is not None and self.certificate_ends <= now + WARN_BEFORE


def list_outgoing_addresses(settings: Settings) -> list[OutgoingAddress]:
    """Return each address once, at the first place in the settings that has it."""
    found = list(_list_backends(settings))
    for name in type(settings).model_fields:
        if name not in _NOT_OURS:
            found += _list_urls(getattr(settings, name), (name,), None)
    for index, entry in enumerate(settings.catalogs):
        if entry.catalog.kind.lists:
            parameters = entry.catalog.connection_params
            found += _list_urls(parameters, ("catalogs", index, "connection_params"), None)
    found += _list_databases(settings)
    return list({(one.host, one.port): one for one in reversed(found)}.values())[::-1]


def _list_backends(settings: Settings) -> Iterator[OutgoingAddress]:
    for name, backend in settings.all_backends.items():
        at = f"backends.{name}" if name in settings.backends else "backend"
        thrift, connect = backend.thrift, backend.connect
        if thrift is not None and backend.discover is None:
            yield OutgoingAddress(
                at=f"{at}.thrift",
                host=thrift.host,
                port=thrift.port,
                tls=thrift.tls,
                ca_file=thrift.ca_file,
            )
        if connect is not None and backend.discover is None:
            yield OutgoingAddress(
                at=f"{at}.connect",
                host=connect.host,
                port=connect.port,
                tls=connect.tls,
                ca_file=connect.ca_file,
            )


def _list_databases(settings: Settings) -> Iterator[OutgoingAddress]:
    """Yield the hosts of PostgreSQL; its TLS begins within its protocol, and is tried by the login."""
    try:
        dsn = settings.ledger.dsn.reveal() if settings.ledger.dsn is not None else ""
    except Faults:
        return  # told as a secret that cannot be read
    hosts = dsn.partition("://")[2].partition("/")[0].rpartition("@")[2]
    for host in hosts.split(","):
        yield from _list_url(f"postgresql://{host}", ("ledger", "dsn"), None)


def _list_urls(value: object, at: Location, ca_file: Path | None) -> Iterator[OutgoingAddress]:
    """Yield the URLs in a part of the settings. Authorities stand beside the URLs that they are for."""
    if isinstance(value, Section):
        own = getattr(value, "ca_file", None)
        for name in type(value).model_fields:
            yield from _list_urls(getattr(value, name), (*at, name), own)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _list_urls(entry, (*at, key), ca_file)
    elif isinstance(value, tuple):
        for index, entry in enumerate(value):
            yield from _list_urls(entry, (*at, index), ca_file)
    elif isinstance(value, str) and "://" in value and value.partition("://")[0] in PORTS:
        yield from _list_url(value, at, ca_file)


def _list_url(url: str, at: Location, ca_file: Path | None) -> Iterator[OutgoingAddress]:
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port or PORTS[parts.scheme]
    except ValueError:
        return  # told where it is read
    if parts.hostname:
        yield OutgoingAddress(
            at=".".join(map(str, at)),
            host=parts.hostname,
            port=port,
            tls=parts.scheme in TLS_SCHEMES,
            ca_file=ca_file,
        )


async def reach_all(addresses: Iterable[OutgoingAddress], *, within_s: float = 5.0) -> list[ReachAnswer]:
    """Connect to each address, all at once, and close the connections without a word."""
    return list(await asyncio.gather(*(_reach(one, within_s) for one in addresses)))


async def _reach(address: OutgoingAddress, within_s: float) -> ReachAnswer:
    late = f"no answer within {within_s:g} s"
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_s):
            told = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return ReachAnswer(address=address, failed="dns", reason=late)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else None
        return ReachAnswer(address=address, failed="dns", reason=reason or one_line(str(error)))
    numbers = tuple(dict.fromkeys(str(one[4][0]) for one in told))
    try:
        context = _make_context(address)
        async with asyncio.timeout(within_s):
            _, writer = await asyncio.open_connection(
                address.host, address.port, ssl=context, server_hostname=address.host if context else None
            )
    except ssl.SSLError as error:
        why = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        reason = one_line(why or str(error))
        return ReachAnswer(address=address, failed="tls", reason=reason, numbers=numbers)
    except TimeoutError:
        return ReachAnswer(address=address, failed="way", reason=late, numbers=numbers)
    except OSError as error:
        return ReachAnswer(address=address, failed="way", reason=reason_of(error), numbers=numbers)
    shown = writer.get_extra_info("peercert")
    writer.transport.abort()
    ends = ssl.cert_time_to_seconds(shown["notAfter"]) if shown else None
    return ReachAnswer(
        address=address,
        numbers=numbers,
        certificate_ends=datetime.fromtimestamp(ends, UTC) if ends is not None else None,
    )


def _make_context(address: OutgoingAddress) -> ssl.SSLContext | None:
    """Raises OSError for authorities that cannot be read."""
    if not address.tls:
        return None
    return ssl.create_default_context(cafile=str(address.ca_file) if address.ca_file is not None else None)
