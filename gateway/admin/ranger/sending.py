"""Large documents are made and sent in pieces, so that nothing else waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from aiohttp import web

_PIECE_BYTES = 100_000


class Texts(list[str]):
    """A list of objects that are JSON already."""


async def send(
    request: web.Request, document: Any, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Answer with a document. Where it cannot end, the connection is cut: nothing may follow half of it."""
    pieces = await asyncio.to_thread(encoded, document)
    response = web.StreamResponse(headers={"Content-Type": "application/json", **(headers or {})})
    response.content_length = sum(map(len, pieces))
    await response.prepare(request)
    try:
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
    except BaseException:
        if request.transport is not None:
            request.transport.abort()
        raise
    return response


def encoded(document: Any) -> list[bytes]:
    """Return JSON in pieces of some 100 kB.

    One piece of 50 MB would hold up every statement while it is made, and again while it is sent.
    """
    pieces: list[bytes] = []
    gathered: list[bytes] = []
    size = 0
    for part in _parts(document, depth=4):
        gathered.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            pieces.append(b"".join(gathered))
            gathered, size = [], 0
    return [*pieces, b"".join(gathered)]


def _parts(document: Any, depth: int) -> Iterator[bytes]:
    if depth and isinstance(document, dict):
        before = b"{"
        for key, value in document.items():
            yield before + orjson.dumps(key) + b":"
            yield from _parts(value, depth - 1)
            before = b","
        yield b"}" if document else b"{}"
    elif isinstance(document, Texts) or (depth and isinstance(document, list)):
        before = b"["
        for value in document:
            yield before + (value.encode() if isinstance(document, Texts) else orjson.dumps(value))
            before = b","
        yield b"]" if document else b"[]"
    else:
        yield orjson.dumps(document)
