"""Addresses, directories, memory and descriptors that a gateway of some settings would have: whether there is
one of each for everybody who wants one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from gateway.app.endpoints import ENDPOINTS, Address
from gateway.model.java_options import UNITS, heap_bytes
from gateway.settings.loading import Location
from gateway.settings.models import Settings

EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - what listening everywhere is told by
MIN_SPARK_HEAP = 450 << 20
"""Spark's `UnifiedMemoryManager` refuses less."""
MIN_READER_HEAP = 64 << 20
"""With less a parser ends while it starts."""
CGROUP = Path("/sys/fs/cgroup/memory.max")


class Wanted(NamedTuple):
    """An address that somebody is to listen at."""

    at: Location
    """Of its port in the settings."""
    name: str
    """Its section, for people."""
    host: str
    port: int

    @property
    def addresses(self) -> frozenset[str]:
        """What its host is called by numbers; nothing where it is no host, which is told elsewhere."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        except (OSError, UnicodeError):
            return frozenset()
        return frozenset(str(address[0]) for *_, address in found)


def list_wanted_addresses(settings: Settings) -> list[Wanted]:
    """Return the listeners and the doors of an embedded Spark, but for those that take any free port."""
    found = []
    for endpoint in ENDPOINTS:
        listener = endpoint.listener(settings)
        if listener is not None:
            name = f"listeners.{endpoint.name}"
            found.append(Wanted(("listeners", endpoint.name, "port"), name, listener.host, listener.port))
    embedded = settings.backend.embedded
    if embedded is not None:
        for key, port in (("thrift_port", embedded.thrift_port), ("connect_port", embedded.connect_port)):
            found.append(Wanted(("backend", "embedded", key), f"backend.embedded.{key}", "127.0.0.1", port))
    return [one for one in found if one.port != 0]


def find_clashing_addresses(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Yield who cannot listen beside another one, and backends that are the gateway itself."""
    wanted = list_wanted_addresses(settings)
    for first, other in combinations(wanted, 2):
        if first.port == other.port and _meet(first.addresses, other.addresses):
            yield other.at, f"`{other.name}` uses the address of `{first.name}`, {other.port}"
    for name, backend in settings.all_backends.items():
        at: Location = ("backends", name) if name in settings.backends else ("backend",)
        thrift, connect = backend.thrift, backend.connect
        if thrift and connect and (thrift.host, thrift.port) == (connect.host, connect.port):
            yield (
                (*at, "connect"),
                f"`{_format_place((*at, 'connect'))}` has the address of `{_format_place((*at, 'thrift'))}`, "
                f"{Address(connect.host, connect.port)}: each protocol of Spark's has a port of its own",
            )
        for key, spark in (("thrift", thrift), ("connect", connect)):
            if spark is None:
                continue
            for one in wanted:
                if one.port == spark.port and _is_here(spark.host, one):
                    yield (
                        (*at, key),
                        f"`{_format_place((*at, key))}` points to `{one.name}` of this gateway, "
                        f"{Address(spark.host, spark.port)}: set the address of Spark",
                    )


def _meet(some: frozenset[str], others: frozenset[str]) -> bool:
    if some & others:
        return True
    return any(
        one in EVERYWHERE and any((":" in one) == (":" in other) for other in those)
        for these, those in ((some, others), (others, some))
        for one in these
    )


def _is_here(host: str, listener: Wanted) -> bool:
    """Whether a host is where a listener is. No server of names is asked."""
    if host == listener.host:
        return True
    addresses = listener.addresses
    if host.lower() in ("localhost", socket.gethostname().lower()):
        return bool(addresses & {"127.0.0.1", "::1", *EVERYWHERE})
    if host in addresses:
        return True
    return bool(addresses & EVERYWHERE) and _is_own(host)


def _is_own(address: str) -> bool:
    """Whether an address, in numbers, is one of this machine's."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        socket.inet_pton(family, address)
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((address, 0))
    except OSError:
        return False
    return True


def find_shared_directories(made: Iterator[tuple[Location, Path]]) -> Iterator[tuple[Location, str]]:
    """Yield the directories that two would have for themselves."""
    first: dict[Path, Location] = {}
    for at, directory in made:
        other = first.setdefault(Path(os.path.realpath(directory)), at)  # a link may lead to itself
        if other != at:
            yield (
                at,
                f"`{directory}` is also the directory of `{_format_place(other)}`: each needs its own",
            )


def _format_place(at: Location) -> str:
    return ".".join(map(str, at))


def find_unfit_heaps(settings: Settings) -> Iterator[tuple[Location, str]]:
    """Yield whose heap does not fit into the memory that there is, or is too small for what it is for."""
    reader, embedded, jobs = settings.reader, settings.backend.embedded, settings.jobs
    memory = memory_bytes()
    heaps: list[tuple[Location, str, int, int]] = [
        (("reader", "heap"), reader.heap, reader.processes, MIN_READER_HEAP),
    ]
    if embedded is not None:
        heaps.append((("backend", "embedded", "heap"), embedded.heap, 1, MIN_SPARK_HEAP))
    if jobs.schedule and jobs.remote is None:
        heaps.append((("jobs", "driver_memory"), jobs.driver_memory, 1, MIN_SPARK_HEAP))
    for at, heap, times, least in heaps:
        size = heap_bytes(heap) * times
        if memory is not None and size > memory:
            yield (
                at,
                f"`{_format_place(at)}` needs {size / UNITS['g']:.1f} GiB of {memory / UNITS['g']:.1f}",
            )
        if heap_bytes(heap) < least:
            yield at, f"`{_format_place(at)}` is too small: `{heap}`, at least `{least // UNITS['m']}m`"


def memory_bytes() -> int | None:
    """Return the memory of this machine, or what its container may have of it; None where nobody says."""
    try:
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
    try:
        limit = CGROUP.read_text().strip()
    except OSError:
        return found
    return min(found, int(limit)) if limit.isdecimal() else found
