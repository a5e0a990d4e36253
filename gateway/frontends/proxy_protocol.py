"""Reads the header by which a balancer says whose connection it passes on: PROXY protocol, version 2.

After HAProxy's specification: 12 bytes that begin no other protocol, version and command, family, length,
addresses, and records of more that are skipped.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
HEAD_BYTES = len(SIGNATURE) + 4
MAX_HEADER_BYTES = 2048
"""Behind the head; addresses have up to 216, the rest are certificates and names of others."""
_INET, _INET6 = 0x1, 0x2
_LOCAL, _PROXY = 0x0, 0x1


class NotProxied(Exception):
    """What should begin with a header does not, or with one that makes no sense."""


async def read_source(sock: socket.socket) -> str | None:
    """Read a header from a connection that has just been accepted, and nothing behind it; return the client's
    address, or None where the balancer speaks for itself, as to see whether somebody is there.

    Raises NotProxied, OSError.
    """
    head = await _read(sock, HEAD_BYTES)
    if not head.startswith(SIGNATURE):
        raise NotProxied("no PROXY protocol version 2 header")
    version, family, length = struct.unpack_from(">BBH", head, len(SIGNATURE))
    if version >> 4 != 2 or length > MAX_HEADER_BYTES:
        raise NotProxied("another version of the PROXY protocol, or a header that is too long")
    return source_of(version & 0xF, family >> 4, await _read(sock, length))


def source_of(command: int, family: int, body: bytes) -> str | None:
    """Return the client's address in what stands behind a header's head. Raises NotProxied."""
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise NotProxied("an unknown command")
    if family == _INET and len(body) >= 12:
        return str(ipaddress.IPv4Address(body[:4]))
    if family == _INET6 and len(body) >= 36:
        address = ipaddress.IPv6Address(body[:16])
        return str(address.ipv4_mapped or address)
    raise NotProxied("neither an IPv4 nor an IPv6 address")


async def _read(sock: socket.socket, size: int) -> bytes:
    loop, found = asyncio.get_running_loop(), b""
    while len(found) < size:
        chunk = await loop.sock_recv(sock, size - len(found))
        if not chunk:
            raise NotProxied("the connection ends within the PROXY protocol header")
        found += chunk
    return found
