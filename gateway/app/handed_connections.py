"""What a worker has of its supervisor: the connections that this accepts, and a directory that only the
workers of one gateway may enter.

The supervisor listens and never reads. It hands each connection to a worker as a descriptor, over a socket
of which the worker has the other end; the worker says there which listeners it takes connections of, and how
many it has.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog

_log = structlog.get_logger(__name__)

MAX_MESSAGE_BYTES = 4096
AGAIN_S = 0.1
"""After so long the supervisor is told again what it did not take."""
HANDED_AT_ONCE = 64
"""Then it is others' turn on the loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """Which of a gateway's workers a process is, and where its siblings are."""

    number: int
    directory: Path
    """Only workers of this gateway may enter it."""
    control: int
    """The descriptor of its end of the supervisor's socket."""
    ports: Mapping[str, int]
    """Of listeners, by their names."""


class HandedConnections:
    """Takes connections from the supervisor; see `frontends.connection_limits.Arrivals`."""

    def __init__(self, place: WorkerPlace) -> None:
        self.place = place
        self._socket = socket.socket(fileno=place.control)
        self._socket.settimeout(0)
        self._takers: dict[str, Callable[[socket.socket], None]] = {}
        self._open: dict[str, int] = {}
        self._received: dict[str, int] = {}
        self._reporting: asyncio.TimerHandle | None = None
        self._reading = False
        self._ready = False

    def take(self, listener: str, enter: Callable[[socket.socket], None]) -> int:
        """Have connections of a listener handed to `enter` from now on; return its port."""
        self._takers[listener] = enter
        self._received.setdefault(listener, 0)
        if not self._reading:
            self._reading = True
            asyncio.get_running_loop().add_reader(self._socket, self._receive)
        self._report_soon()
        return self.place.ports.get(listener, 0)

    def stop(self, listener: str) -> None:
        """Take no more of them."""
        if self._takers.pop(listener, None) is not None:
            self._report_soon()

    def note_open(self, listener: str, count: int) -> None:
        """Say how many connections a listener has."""
        self._open[listener] = count
        self._report_soon()

    def mark_ready(self) -> None:
        """Say that this worker is ready: connections come to it rather than to one that is not."""
        self._ready = True
        self._report_soon()

    def _report_soon(self, within_s: float = 0.0) -> None:
        if self._reporting is None:
            self._reporting = asyncio.get_running_loop().call_later(within_s, self._report)

    def _report(self) -> None:
        self._reporting = None
        listeners = {
            name: [self._received[name], self._open.get(name, 0), name in self._takers]
            for name in self._received
        }
        try:
            self._socket.send(json.dumps({"ready": self._ready, "listeners": listeners}).encode())
        except BlockingIOError:
            self._report_soon(AGAIN_S)
        except OSError:
            return  # the supervisor is gone, which is noticed where it is read

    def _receive(self) -> None:
        for _ in range(HANDED_AT_ONCE):
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, MAX_MESSAGE_BYTES, 1)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                data, descriptors = b"", []
            if not data and not descriptors:
                self._end()
                return
            listener = data.decode()
            self._received[listener] = self._received.get(listener, 0) + 1
            for descriptor in descriptors:
                sock = socket.socket(fileno=descriptor)
                enter = self._takers.get(listener)
                if enter is None:
                    sock.close()
                else:
                    enter(sock)
            self._report_soon()

    def _end(self) -> None:
        """INVARIANT (no worker by itself): without its supervisor nobody ends or replaces it."""
        asyncio.get_running_loop().remove_reader(self._socket)
        _log.error("supervisor_gone")
        os.kill(os.getpid(), signal.SIGTERM)
