"""Connections to PostgreSQL: with a name there, times in UTC, and an end when nobody is at the other one."""

from __future__ import annotations

import socket
from typing import Any

import asyncpg

CONNECT_S = 10.0
KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""After half a minute of silence the other machine is asked three times, at ten seconds, whether it is still
there; where the system knows the options by these names."""


class _KeptAlive(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection that ends with the machine at its other end, or with the way there: asyncpg, which never
    asks, would wait for the rest of an answer for ever."""

    def __init__(self, protocol: Any, transport: Any, *others: Any) -> None:
        super().__init__(protocol, transport, *others)
        sock = transport.get_extra_info("socket")
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEP_ALIVE.items():
                if (option := getattr(socket, name, None)) is not None:
                    sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def open_connection(
    dsn: str, name: str, *, connect_s: float | None = None, command_s: float | None = None
) -> Any:
    """Return a connection that PostgreSQL knows by `name`, made in `connect_s` seconds, `CONNECT_S` where
    None; each question may take `command_s` seconds.

    Raises OSError, TimeoutError or an error of asyncpg's.
    """
    return await asyncpg.connect(
        dsn,
        timeout=CONNECT_S if connect_s is None else connect_s,
        command_timeout=command_s,
        server_settings=_settings(name),
        connection_class=_KeptAlive,
    )


async def open_pool(dsn: str, name: str, *, most: int, timeout_s: float) -> Any:
    """Return a pool of up to `most` such connections, which are made when they are needed."""
    return await asyncpg.create_pool(
        dsn,
        min_size=0,
        max_size=most,
        timeout=timeout_s,
        command_timeout=timeout_s,
        server_settings=_settings(name),
        connection_class=_KeptAlive,
    )


def _settings(name: str) -> dict[str, str]:
    return {"application_name": name, "timezone": "UTC"}
