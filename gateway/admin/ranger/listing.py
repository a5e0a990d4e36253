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


async def search(call: ApiCall, kind: str, readable: Readable, *, size: int = PAGE_SIZE) -> Page:
    """Return what the parameters of a call find among what its caller may see."""
    async with call.store.reading() as reading:
        found = await readable(call, reading)
    return find(kind, found, call.parameters(), size=size)


def build_list_handler(kind: str, readable: Readable, *, size: int = MAX_PAGE) -> Handler:
    """Return the handler that lists what a search finds."""

    async def handle(call: ApiCall) -> web.Response:
        return answer((await search(call, kind, readable, size=size)).items)

    return handle


def build_page_handler(kind: str, readable: Readable, name: str) -> Handler:
    """Return the handler that gives a page of it, under a name."""

    async def handle(call: ApiCall) -> web.Response:
        return answer((await search(call, kind, readable)).wrap_page(name))

    return handle
