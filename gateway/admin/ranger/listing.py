"""How objects of a kind are listed: all that a search finds, or a page of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from gateway.admin.ranger.calls import ApiCall, Handler, answer
from gateway.admin.ranger.kinds import Body
from gateway.admin.ranger.searching import MAX_PAGE, PAGE_SIZE, Page, find
from gateway.admin.ranger.transactions import ReadTransaction

Readable = Callable[[ApiCall, ReadTransaction], Awaitable[Sequence[Body]]]
"""Returns what the caller may see, as it is told."""


async def searched(call: ApiCall, kind: str, readable: Readable, *, size: int = PAGE_SIZE) -> Page:
    """Return what the parameters of a call find among what its caller may see."""
    async with call.store.reading() as reading:
        found = await readable(call, reading)
    return find(kind, found, call.parameters(), size=size)


def listed(kind: str, readable: Readable, *, size: int = MAX_PAGE) -> Handler:
    """Return the handler that lists what a search finds."""

    async def handle(call: ApiCall) -> web.Response:
        return answer((await searched(call, kind, readable, size=size)).items)

    return handle


def paged(kind: str, readable: Readable, name: str) -> Handler:
    """Return the handler that gives a page of it, under a name."""

    async def handle(call: ApiCall) -> web.Response:
        return answer((await searched(call, kind, readable)).wrapped(name))

    return handle
