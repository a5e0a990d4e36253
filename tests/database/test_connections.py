"""Connections to PostgreSQL ask whether the machine at their other end is still there. Below 1 s."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.database.connections import KEEP_ALIVE, open_connection, open_pool
from tests.database.door import door


@pytest.fixture
async def over_tcp(database: str) -> AsyncIterator[str]:
    """The DSN of an empty database behind TCP; the embedded server has only a socket of Unix."""
    parts = urlsplit(database)
    (directory,) = parse_qs(parts.query)["host"]
    server = await door(f"{directory}/.s.PGSQL.5432")
    port = server.sockets[0].getsockname()[1]
    yield parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}", query="sslmode=disable").geturl()
    server.close()


def _asks(connection: Any) -> bool:
    sock = connection._transport.get_extra_info("socket")
    options = {name: sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEP_ALIVE}
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)) and options == KEEP_ALIVE


async def test_a_connection_asks_whether_its_other_end_is_there(over_tcp: str) -> None:
    connection = await open_connection(over_tcp, "sample", command_s=20)
    assert _asks(connection)
    found = await connection.fetchrow(
        "SELECT current_setting('application_name') AS name, current_setting('timezone') AS zone"
    )
    assert tuple(found) == ("sample", "UTC")
    await connection.close()


async def test_so_do_those_of_a_pool(over_tcp: str) -> None:
    pool = await open_pool(over_tcp, "sample", most=2, timeout_s=20)
    async with pool.acquire() as connection:
        assert await connection.fetchval("SELECT 1") == 1
        assert _asks(connection)
    await pool.close()


async def test_a_socket_of_unix_needs_none_of_it(database: str) -> None:
    connection = await open_connection(database, "sample")
    assert await connection.fetchval("SELECT 1") == 1
    await connection.close()
