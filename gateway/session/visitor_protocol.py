"""aiohttp's protocol of a connection, with the place that the connection has at its listener's door."""

from __future__ import annotations

import asyncio
from typing import cast

from gateway.session.ports import Visitor


class VisitorProtocol(asyncio.Protocol):
    """Passes on what a client sends, has the door cut it, and leaves its place when it is gone."""

    def __init__(self, inner: asyncio.Protocol, place: Visitor) -> None:
        self.place = place
        self._inner = inner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.place.ends_by(cast(asyncio.Transport, transport).abort)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.place.leave()
        self._inner.connection_lost(exc)
