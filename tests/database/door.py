"""A way over TCP to a PostgreSQL that has a unix socket alone, as embedded ones do."""

from __future__ import annotations

import asyncio
import contextlib


async def door(place: str) -> asyncio.Server:
    """Listen on TCP for the server whose unix socket is at `place`."""

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            try:
                while data := await reader.read(65536):
                    writer.write(data)
                    await writer.drain()
            except OSError:
                pass  # whoever was there is gone

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_unix_connection(place)
        await asyncio.gather(relay(reader, to_server), relay(from_server, writer))

    return await asyncio.start_server(connected, "127.0.0.1", 0)
