"""Spark Connect calls about a session that another worker of the same gateway has: passed to it as they came.

A session is where its first call came to; clients that come back on another connection may come to another
worker. That one finds the session's mark in Spark, and from then on passes its calls to the worker whose mark
it is, over a socket in a directory that only workers of this gateway may enter. The caller was logged in
here, and is logged in there again, by what he has shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import orjson

from gateway.frontends.relaying import RelayedConnection
from gateway.model.bounded import BoundedDict

HEADER = "x-sluice-worker-bin"
"""Metadata between workers: whose connection it is that a call came on. From others nothing is read of it."""
OWN_HEADERS = frozenset({"user-agent", HEADER})
MAX_SESSIONS = 10_000
"""Sessions of other workers that are known."""
_UNBOUNDED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))

CallMetadata = Iterable[tuple[str, str | bytes]]


class PassedOn:
    """The connection of a client at another worker; see `ports.Visitor`."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ends_by(self, end: object) -> None:
        """The other worker ends it."""

    def begin_busy(self) -> None: ...

    def end_busy(self) -> None: ...

    def due(self, within_s: float | None) -> None: ...

    def mark_logged_in(self) -> None: ...

    def leave(self) -> None: ...


class Origin(NamedTuple):
    """Where a passed call came from, and its metadata as the client sent it."""

    connection: RelayedConnection
    metadata: list[tuple[str, str | bytes]]


class Siblings:
    """The other workers of this gateway."""

    def __init__(self, directory: Path, gateway: str) -> None:
        """`gateway`: the name of this worker, by which it marks sessions."""
        self._directory = directory
        self.own_path = self._path(gateway)
        self._channels: dict[str, Any] = {}
        self._elsewhere: BoundedDict[tuple[str, str], str] = BoundedDict(MAX_SESSIONS)

    def _path(self, gateway: str) -> Path:
        return self._directory / f"connect-{hashlib.sha256(gateway.encode()).hexdigest()[:16]}"

    def has(self, gateway: str) -> bool:
        """Whether a gateway is a worker of this one."""
        return bool(gateway) and self._path(gateway).exists()

    def note(self, user: str, request: bytes, gateway: str) -> None:
        """Note which worker has the session that a request is about."""
        if session := session_of(request):
            self._elsewhere[(user, session)] = gateway

    def find(self, user: str, request: bytes) -> str:
        """Return the worker that has the session of a request, as far as known; empty: nobody else."""
        return self._elsewhere.get((user, session_of(request)), "") if self._elsewhere else ""

    def read_origin(self, peer: str, metadata: CallMetadata) -> Origin | None:
        """Return where a call comes from that another worker passes on; None for any other."""
        # INVARIANT (where a call comes from): only other workers come without a name. Every connection of a
        # client has one, which is a path (`relaying`), and what it says in this header is not looked at.
        if "/" in peer:
            return None
        told = next((value for key, value in metadata if key == HEADER), None)
        if told is None:
            return None
        said = orjson.loads(told)
        shown = bytes.fromhex(said["certificate"]) if said["certificate"] else None
        kept = [(key, value) for key, value in metadata if key not in OWN_HEADERS]
        connection = RelayedConnection(PassedOn(said["address"]), shown, said["fault"])
        return Origin(connection, [*kept, ("user-agent", said["agent"])])

    async def call(
        self,
        gateway: str,
        path: str,
        metadata: CallMetadata,
        connection: RelayedConnection,
        requests: AsyncIterator[bytes],
    ) -> AsyncGenerator[bytes, None]:
        """Make a call of a client's at another worker, and yield what it answers. Raises AioRpcError."""
        channel = self._channels.get(gateway)
        if channel is None:
            address = f"unix:{self._path(gateway)}"
            channel = self._channels[gateway] = grpc.aio.insecure_channel(address, options=_UNBOUNDED)
        agent = next((value for key, value in metadata if key == "user-agent"), "")
        told = {
            "address": connection.place.address,
            "certificate": connection.certificate.hex() if connection.certificate else "",
            "fault": connection.fault,
            "agent": agent if isinstance(agent, str) else agent.decode("latin-1"),
        }
        kept = [(key, value) for key, value in metadata if key not in OWN_HEADERS]
        call = channel.stream_stream(path)(requests, metadata=(*kept, (HEADER, orjson.dumps(told))))
        try:
            async for response in call:
                yield response
        finally:
            call.cancel()

    async def close(self) -> None:
        """Forget the other workers."""
        for channel in self._channels.values():
            with suppress(grpc.RpcError):
                await channel.close()
        self._channels.clear()


def session_of(request: bytes) -> str:
    """Return the session that a request is about, which is the first field of each; empty where it is not
    written so."""
    if len(request) < 2 or request[0] != 0x0A or request[1] > 0x7F:
        return ""
    return request[2 : 2 + request[1]].decode("utf-8", "replace")
