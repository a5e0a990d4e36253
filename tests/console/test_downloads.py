"""A file goes on for as long as whoever takes it along may have it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest

from gateway.console import site
from gateway.console.routes import ConsoleDownload, ConsolePart, NoParameters, Viewer, Who
from tests.console.fakes import FakeConsole, as_user, people, serving


@pytest.mark.parametrize("change", ["none", "removed", "no auditor", "reads texts"])
async def test_who_may_no_more_is_given_no_more(change: str) -> None:
    now = [0.0]
    begun, go_on, closed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def write(viewer: Viewer, asked: NoParameters) -> AsyncIterator[bytes]:
        try:
            yield b"first "
            begun.set()
            await go_on.wait()
            yield b"second"
        finally:
            closed.set()

    download = ConsoleDownload(
        name="take_it",
        path="/it",
        about="It.",
        parameters=NoParameters,
        who=Who.AUDITOR,
        content_type="text/plain",
        file_name=lambda asked: "it.txt",
        handle=write,
    )
    console = FakeConsole([ConsolePart(routes=(), downloads=(download,))])
    console.site._clock = lambda: now[0]
    async with serving(console) as nobody:
        ben = await as_user(console, nobody, "ben")
        taken = asyncio.ensure_future(ben.ask("GET", "/api/v1/it"))
        await begun.wait()
        roles = console.site._roles
        now[0] += site.ASKED_ANEW_S + 1
        match change:
            case "removed":
                console.people.discard("ben")
            case "no auditor":
                console.site._roles = site.ConsoleRoles(
                    administrators=people(), auditors=people(), text_readers=people()
                )
            case "reads texts":
                console.site._roles = replace(roles, text_readers=people("ben"))
        go_on.set()
        if change == "none":
            assert (await taken)[:2] == (200, "first second")
        else:
            # Noticeably less than all of it.
            with pytest.raises(aiohttp.ClientError):
                await taken
        await closed.wait()
