"""Large documents are made and sent in pieces, so that nothing else waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from gateway.policy.json_writing import pieces

_PIECE_BYTES = 100_000


async def send(
    request: web.Request, document: Any, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Answer with a document. Where it cannot end, the connection is cut: nothing may follow half of it."""
    whole = await asyncio.to_thread(encode_json, document)
    response = web.StreamResponse(headers={"Content-Type": "application/json", **(headers or {})})
    response.content_length = sum(map(len, whole))
    await response.prepare(request)
    try:
        for piece in whole:
            await response.write(piece)
        await response.write_eof()
    except BaseException:
        if request.transport is not None:
            request.transport.abort()
        raise
    return response


def encode_json(document: Any) -> list[bytes]:
    """Return JSON in pieces of some 100 kB.

    One piece of 50 MB would hold up every statement while it is made, and again while it is sent.
    """
    found: list[bytes] = []
    gathered: list[bytes] = []
    size = 0
    for part in pieces(document):
        gathered.append(part)
        size += len(part)
        if size >= _PIECE_BYTES:
            found.append(b"".join(gathered))
            gathered, size = [], 0
    return [*found, b"".join(gathered)]
