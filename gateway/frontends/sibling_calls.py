"""Spark Connect calls about a session that another worker of the same gateway has: passed to it as they came.

A session is where its first call came to; clients that come back on another connection may come to another
worker. That one finds the session's mark in Spark, and from then on passes its calls to the worker whose mark
it is, over a socket in a directory that only workers of this gateway may enter. Of calls for which no session
is made, as of one that is taken up again, the others are asked who has it. The caller was logged in here, and
is logged in there again, by what he has shown.
"""

from __future__ import annotations

import asyncio
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
CERTIFICATE_HEADER = "x-sluice-certificate-bin"
"""Beside it: the client's certificate, in DER."""
MORE_METADATA_BYTES = 32 * 1024
"""What these two may add to a client's metadata."""
OWN_HEADERS = frozenset({"user-agent", HEADER, CERTIFICATE_HEADER})
HAS_SESSION = "/sluice.Workers/HasSession"
"""Asked by another worker: whether this one has a session."""
UNNAMED = frozenset({"", "unix:"})
"""The peer of a connection that comes from a socket without a name."""
ASKED_S = 2.0
"""Seconds that another worker gets to say whether it has a session."""
ABOUT_ONE = frozenset(
    {"FetchErrorDetails", "GetStatus", "Interrupt", "ReattachExecute", "ReleaseExecute", "ReleaseSession"}
)
"""Calls about a session that is there; for others it is made, and the mark in Spark says whose it is."""
MAX_SESSIONS = 10_000
"""Sessions of other workers that are known."""
_PREFIX = "connect-"
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Its successor listens a moment after a worker was killed.
    ("grpc.max_reconnect_backoff_ms", 1000),
)

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
    """The other workers of this gateway, each by the path of its socket."""

    def __init__(self, directory: Path, gateway: str) -> None:
        """`gateway`: the name of this worker, by which it marks sessions."""
        self._directory = directory
        self.own_path = self._path(gateway)
        self._channels: dict[Path, Any] = {}
        self._elsewhere: BoundedDict[tuple[str, str], Path] = BoundedDict(MAX_SESSIONS)

    def _path(self, gateway: str) -> Path:
        return self._directory / f"{_PREFIX}{hashlib.sha256(gateway.encode()).hexdigest()[:16]}"

    def find_worker(self, gateway: str) -> Path | None:
        """Return the worker of this gateway that has a name; None: it is none of them."""
        path = self._path(gateway)
        return path if gateway and path != self.own_path and path.exists() else None

    def note(self, user: str, request: bytes, worker: Path) -> None:
        """Note which worker has the session that a request is about."""
        if session := session_of(request):
            self._elsewhere[(user, session)] = worker

    def find(self, user: str, request: bytes) -> Path | None:
        """Return the worker that has the session of a request, as far as known; None: nobody else."""
        return self._elsewhere.get((user, session_of(request))) if self._elsewhere else None

    async def ask(self, user: str, request: bytes) -> Path | None:
        """Ask the others who has the session of a request, and note it; None: none of them says so."""
        others = [path for path in self._directory.glob(f"{_PREFIX}*") if path != self.own_path]
        question = orjson.dumps([user, session_of(request)])
        answers = await asyncio.gather(*(self._ask(path, question) for path in others))
        found = next((path for path, is_there in zip(others, answers, strict=True) if is_there), None)
        if found is not None:
            self.note(user, request, found)
        return found

    async def _ask(self, worker: Path, question: bytes) -> bool:
        try:
            return bool(await self._channel(worker).unary_unary(HAS_SESSION)(question, timeout=ASKED_S))
        except grpc.aio.AioRpcError:
            return False  # it starts, or it is gone

    def read_origin(self, peer: str, metadata: CallMetadata) -> Origin | None:
        """Return where a call comes from that another worker passes on; None for any other."""
        # INVARIANT (where a call comes from): only other workers come without a name. Every connection of a
        # client has one, which is a path (`relaying`), and what it says in this header is not looked at.
        if peer not in UNNAMED:
            return None
        shown = dict(metadata)
        told = shown.get(HEADER)
        if told is None:
            return None
        said = orjson.loads(told)
        certificate = shown.get(CERTIFICATE_HEADER)
        kept = [(key, value) for key, value in metadata if key not in OWN_HEADERS]
        connection = RelayedConnection(
            PassedOn(said["address"]), certificate if isinstance(certificate, bytes) else None, said["fault"]
        )
        return Origin(connection, [*kept, ("user-agent", said["agent"])])

    async def call(
        self,
        worker: Path,
        path: str,
        metadata: CallMetadata,
        connection: RelayedConnection,
        requests: AsyncIterator[bytes],
    ) -> AsyncGenerator[bytes, None]:
        """Make a call of a client's at another worker, and yield what it answers. Raises AioRpcError."""
        agent = next((value for key, value in metadata if key == "user-agent"), "")
        told = {
            "address": connection.place.address,
            "fault": connection.fault,
            "agent": agent if isinstance(agent, str) else agent.decode("latin-1"),
        }
        sent = [(key, value) for key, value in metadata if key not in OWN_HEADERS]
        sent.append((HEADER, orjson.dumps(told)))
        if connection.certificate is not None:
            sent.append((CERTIFICATE_HEADER, connection.certificate))
        call = self._channel(worker).stream_stream(path)(requests, metadata=tuple(sent))
        try:
            async for response in call:
                yield response
        finally:
            call.cancel()

    def _channel(self, worker: Path) -> Any:
        channel = self._channels.get(worker)
        if channel is None:
            channel = grpc.aio.insecure_channel(f"unix:{worker}", options=_OPTIONS)
            self._channels[worker] = channel
        return channel

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
