"""Where the record is forwarded to: a syslog server (RFC 5424 over TCP or TLS), or an HTTP server."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import gzip
import ssl
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from gateway.audit.forwarding import ForwardLine, NotDelivered

FACILITY = 10
"""`authpriv`: security and authorization messages."""
INFORMATIONAL = 6
MAX_ANSWER_BYTES = 2000
_LOOK_S = 0.02


@dataclass(slots=True)
class SyslogTarget:
    """A syslog server, asked over one connection; each message is framed by its length."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    timeout_s: float = 30.0
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None

    async def deliver(self, lines: Sequence[ForwardLine]) -> None:
        """Return when the server's machine has acknowledged every byte: syslog has no other confirmation.
        Raises TimeoutError."""
        async with asyncio.timeout(self.timeout_s):
            reader, writer = await self._connect()
            if reader.at_eof():
                raise NotDelivered("the syslog server has closed the connection")
            for line in lines:
                host = "".join(sign for sign in line.gateway if "!" <= sign <= "~")[:255] or "-"
                header = f"<{FACILITY * 8 + INFORMATIONAL}>1 {line.time} {host} sluice - - - "
                message = header.encode() + line.content
                writer.write(str(len(message)).encode() + b" " + message)
                await writer.drain()
            await self._wait_for_acknowledgement(reader, writer)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls)
        return self._reader, self._writer

    async def _wait_for_acknowledgement(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        sock = writer.get_extra_info("socket")
        while _count_unacknowledged(sock.fileno()) or writer.transport.get_write_buffer_size():
            if reader.at_eof() or writer.is_closing():
                raise NotDelivered("the syslog server has closed the connection")
            await asyncio.sleep(_LOOK_S)
        if reader.at_eof() or writer.is_closing():
            raise NotDelivered("the syslog server has closed the connection")

    async def close(self) -> None:
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.transport.abort()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()


def _count_unacknowledged(descriptor: int) -> int:
    """Return how many bytes the other machine has not acknowledged; 0 where the system does not say."""
    if descriptor < 0 or sys.platform != "linux":
        return 0
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.TIOCOUTQ, count)
    return count[0]


@dataclass(slots=True)
class HttpTarget:
    """A server that takes lines by POST, as collectors do: 2xx confirms all of them."""

    url: str
    headers: Callable[[], Mapping[str, str]] = field(default=dict)
    """Asked for each request, so that secrets may change."""
    tls: ssl.SSLContext | None = None
    packed: bool = True
    timeout_s: float = 30.0
    _session: aiohttp.ClientSession | None = None

    async def deliver(self, lines: Sequence[ForwardLine]) -> None:
        """Post the lines. Where the server says that they are too many, post halves."""
        if await self._post(b"".join(line.content + b"\n" for line in lines)) != 413:
            return
        if len(lines) == 1:
            raise NotDelivered("the server takes no event as long as this (HTTP 413); lower `text_chars`")
        half = len(lines) // 2
        await self.deliver(lines[:half])
        await self.deliver(lines[half:])

    async def _post(self, body: bytes) -> int:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=self.timeout_s), auto_decompress=False
            )
        headers = {"Content-Type": "application/x-ndjson", **self.headers()}
        if self.packed:
            headers["Content-Encoding"] = "gzip"
            body = await asyncio.to_thread(gzip.compress, body, 5)
        try:
            async with self._session.post(
                self.url, data=body, headers=headers, ssl=self.tls or True, allow_redirects=False
            ) as answer:
                await answer.content.read(MAX_ANSWER_BYTES)
                if answer.status == 413 or 200 <= answer.status < 300:
                    return answer.status
                raise NotDelivered(f"the server answered HTTP {answer.status}")
        except aiohttp.ClientError as error:
            raise NotDelivered(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()
