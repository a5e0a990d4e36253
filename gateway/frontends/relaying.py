"""Connections of Spark Connect clients on their way to gRPC: bytes both ways, without their TLS, which ends
here.

gRPC accepts whoever connects, and says nothing of a connection on which no call was made. So it listens on a
socket of the gateway's own, in a directory that nobody else may enter, and the door before it accepts. Who is
at the other end gRPC tells by the name of the socket that a connection comes from, which is the place's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import socket
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, NamedTuple, cast

from gateway.frontends.authentication import peer_certificate
from gateway.frontends.connection_limits import ConnectionLimiter, RecordBadCertificate
from gateway.session.ports import Visitor

MAX_BUFFERED = 256 * 1024
"""Bytes that may wait for one side before the other one is not read any more."""
LAST_BYTES_S = 60.0
"""How long a client may take the rest of what it asked for, when gRPC has ended its connection."""
LONGEST_DIRECTORY = 70
"""A socket's path has 107 bytes at most."""


class RelayedConnection(NamedTuple):
    """What the gateway knows of a connection that gRPC answers calls on."""

    place: Visitor
    certificate: bytes | None = None
    """What the client has shown in TLS, in DER."""
    fault: str | None = None
    """Why nobody may call on it: what is wrong with that certificate."""


class Relay:
    """Takes connections from a door to a socket that only this process knows."""

    def __init__(self, door: ConnectionLimiter, record_bad_certificate: RecordBadCertificate) -> None:
        """`record_bad_certificate` hears of one before gRPC answers its client's calls, which it refuses."""
        self._connection_limiter = door
        self.record_bad_certificate = record_bad_certificate
        made = tempfile.mkdtemp(prefix="sluice-")
        if len(made) > LONGEST_DIRECTORY:
            shutil.rmtree(made)
            made = tempfile.mkdtemp(prefix="sluice-", dir="/tmp")
        self._directory = Path(made)
        self._numbers = itertools.count(1)
        self._relayed: dict[str, RelayedConnection] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.unaccepted: set[asyncio.Protocol] = set()
        """Connections to gRPC on which it has said nothing yet."""

    @property
    def path(self) -> str:
        """Where gRPC has to listen."""
        return str(self._directory / "listener")

    def find(self, peer: str) -> RelayedConnection | None:
        """Return the connection that gRPC calls by that name; None for one that did not come through here."""
        return self._relayed.get(peer.rpartition("/")[2])

    def protocol(self, place: Visitor) -> asyncio.Protocol:
        """Return what takes one client's bytes to gRPC."""
        return _Outside(self, place)

    def close(self) -> None:
        """Forget the socket, when the door is closed and gRPC has stopped."""
        for task in self._tasks:
            task.cancel()
        shutil.rmtree(self._directory, ignore_errors=True)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def remove(self, name: str, place: Visitor) -> None:
        self._relayed.pop(name, None)
        place.leave()

    async def connect(self, name: str, relayed: RelayedConnection, inside: _Side) -> None:
        """Connect one side with gRPC, by a name of its own. Raises OSError."""
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        own = self._directory / name
        try:
            # gRPC takes one for each that it has not yet accepted.
            if self._connection_limiter.has_no_room(sock.fileno() + len(self.unaccepted) + 1):
                raise OSError("no file descriptors are left for the connection")
            sock.settimeout(0)
            sock.bind(str(own))
            self._relayed[name] = relayed
            await loop.sock_connect(sock, self.path)
            sock.getpeername()  # raises if it only seems to be connected
            self.unaccepted.add(inside)
            await loop.connect_accepted_socket(lambda: inside, sock)
        except BaseException:
            self.unaccepted.discard(inside)
            sock.close()
            raise
        finally:
            with contextlib.suppress(OSError):
                own.unlink()

    def next_name(self) -> str:
        return str(next(self._numbers))


class _Side(asyncio.Protocol):
    """One end of a relayed connection; what it receives, the other end writes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MAX_BUFFERED)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None


class _Inside(_Side):
    """gRPC's end."""

    def __init__(self, relay: Relay, other: _Side, place: Visitor) -> None:
        super().__init__()
        # gRPC speaks before its client does.
        self.other = other
        self._relay, self._place = relay, place

    def data_received(self, data: bytes) -> None:
        self._relay.unaccepted.discard(self)
        super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.other is not None and self.other.transport is not None:
            # What the client still has to be sent is sent first.
            self.other.transport.close()
        self._relay.unaccepted.discard(self)
        self._place.due(LAST_BYTES_S)


class _Outside(_Side):
    """The client's end."""

    def __init__(self, relay: Relay, place: Visitor) -> None:
        super().__init__()
        self._relay, self._place = relay, place
        self._name = relay.next_name()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self.transport is not None:
            self.transport.pause_reading()
            self._place.ends_by(self.transport.abort)
            self._relay.spawn(self._connect(self.transport))

    def _describe(self, transport: asyncio.Transport) -> RelayedConnection:
        fault = getattr(transport.get_extra_info("ssl_object"), "fault", None)
        return RelayedConnection(self._place, peer_certificate(transport), fault)

    async def _connect(self, transport: asyncio.Transport) -> None:
        inside, relayed = _Inside(self._relay, self, self._place), self._describe(transport)
        if relayed.fault is not None:  # RULE (bad-certificate-recorded-at-once)
            await self._relay.record_bad_certificate(self._place.address, relayed.fault)
            if self.transport is None:  # gone meanwhile
                return
        try:
            await self._relay.connect(self._name, relayed, inside)
        except OSError:
            transport.abort()
            return
        if self.transport is None:  # gone meanwhile
            if inside.transport is not None:
                inside.transport.abort()
            return
        self.other = inside
        self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self.other is not None and self.other.transport is not None:
            # INVARIANT (who is gone leaves nothing): gRPC reads no further while it cannot write, and nobody
            # takes what it writes any more. Waiting until it has read the rest would keep the connection.
            self.other.transport.abort()
        self._relay.remove(self._name, self._place)
