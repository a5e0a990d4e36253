"""Ports for servers that are told theirs before they listen."""

from __future__ import annotations

import random
import socket
from contextlib import closing

_BELOW_EPHEMERAL = range(20_000, 32_000)
"""Where neither Linux (32768 to 60999) nor macOS and Windows (from 49152) take ports for connections by
themselves: within the seconds until a server listens, one of those is gone to whoever opens a connection."""
_ATTEMPTS = 100


def free_port(host: str) -> int:
    """Return a port at an address of this machine that nobody listens on, and that the system gives to nobody
    who does not ask for it. Raises OSError when all that are tried are taken."""
    for _ in range(_ATTEMPTS - 1):
        port = random.choice(_BELOW_EPHEMERAL)  # noqa: S311 - not a secret
        try:
            return _bound(host, port)
        except OSError:
            continue
    return _bound(host, random.choice(_BELOW_EPHEMERAL))  # noqa: S311


def _bound(host: str, port: int) -> int:
    with closing(socket.socket()) as free:
        free.bind((host, port))
    return port
