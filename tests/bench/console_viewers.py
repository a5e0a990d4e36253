"""People who look at a page of the console, which asks again by itself; in a process of their own.

python -m tests.bench.console_viewers BASE PAGE EVERY_S PASSWORD USER…    # lines of input: on, off, at once
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import aiohttp

from tests.speed import patience


class Viewers:
    """The same, of another process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, what: str) -> list[float]:
        """Have them look, or stop; return the milliseconds until the first byte of each page since then."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def looking(base: str, page: str, every_s: float, password: str, users: Sequence[str]) -> Iterator[Viewers]:
    """Log people in, and have them wait."""
    words = (base, page, str(every_s), password, *users)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.console_viewers", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        viewers = Viewers(process)
        viewers.ask("at once")  # they are logged in, and what is made once has been made
        yield viewers
    finally:
        process.communicate(timeout=patience(30))


class _Person:
    def __init__(self, base: str, page: str) -> None:
        self._base, self._page = base, page
        self._http = aiohttp.ClientSession(
            cookie_jar=aiohttp.CookieJar(unsafe=True), headers={"Sec-Fetch-Site": "same-origin"}
        )

    async def log_in(self, user: str, password: str) -> None:
        async with self._http.get(f"{self._base}/console/login") as answer:
            token = re.search(r'name="csrf" value="([0-9a-f]+)"', await answer.text())
        assert token is not None
        form = {"user": user, "password": password, "csrf": token[1]}
        async with self._http.post(f"{self._base}/console/login", data=form, allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()

    async def look(self) -> float:
        began = time.perf_counter()
        async with self._http.get(self._base + self._page) as answer:
            first = time.perf_counter() - began
            assert answer.status == 200, await answer.text()
            await answer.read()
        return 1e3 * first

    async def close(self) -> None:
        await self._http.close()


async def _serve(base: str, page: str, every_s: str, password: str, *users: str) -> None:
    people = [_Person(base, page) for _ in users]
    for person, user in zip(people, users, strict=True):
        await person.log_in(user, password)
    took: list[float] = []
    looks: list[asyncio.Task[None]] = []

    async def look_again(person: _Person, later_s: float) -> None:
        await asyncio.sleep(later_s)
        while True:
            took.append(await person.look())
            await asyncio.sleep(float(every_s))

    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        told: list[Any] = []
        match line:
            case "on":
                spread = float(every_s) / len(people)
                looks = [asyncio.create_task(look_again(one, n * spread)) for n, one in enumerate(people)]
            case "off":
                for task in looks:
                    task.cancel()
                ends = await asyncio.gather(*looks, return_exceptions=True)
                faults = [one for one in ends if isinstance(one, Exception)]
                assert not faults, faults[0]
                told, took = took, []
            case "at once":
                told = await asyncio.gather(*(one.look() for one in people))
        print(json.dumps(told), flush=True)
    await asyncio.gather(*(one.close() for one in people))


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
