"""What stands before every request to the console: its name in `Host`, the site that it comes from, the
headers of its answer, and how often somebody asks.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from aiohttp import web

from gateway.admin.requests import FromAnotherSite, refuse_other_sites
from gateway.console.problems import TooMany, WrongHost

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::\d{1,5})?")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
CSP = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would have browsers send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
IMMUTABLE = "public, max-age=31536000, immutable"


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Put on every answer what browsers need to keep it apart; nothing of a person is kept by anybody."""
    for name, value in HEADERS.items():
        response.headers[name] = value
    response.headers.setdefault("Cache-Control", "no-store")


def require_host(request: web.Request, hosts: frozenset[str]) -> None:
    """Raise WrongHost for a name that is none of ours."""
    found = _HOST.fullmatch(request.host)
    name = (found[1] or found[2]).lower() if found is not None else ""
    if name not in hosts:  # RULE (console-host)
        raise WrongHost(
            "the console does not answer to this name; `hosts` or `public_url` of `listeners.admin.console` "
            "lists its names, and without TLS only this machine's own are answered"
        )


def require_own_site(request: web.Request, *, page: bool) -> None:
    """Raise FromAnotherSite for what a page of another site makes a browser ask for. Following a link to a
    `page` is another matter: nothing is changed by it, and no other site can read what it shows."""
    follows_link = (
        page
        and request.method == "GET"
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
        and "Origin" not in request.headers
    )
    if follows_link:
        return
    refuse_other_sites(request)  # RULE (console-site)
    if request.method != "GET" and request.headers.get("Origin") == "null":
        raise FromAnotherSite("requests from other sites' pages are refused")


class RateLimit:
    """So many requests a second for each person, and a few more at once."""

    def __init__(
        self, per_s: float, burst: int, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._most = most
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, user: str) -> None:
        """Count a request. Raises TooMany."""
        now = self._clock()
        left, at = self._left.pop(user, (float(self._burst), now))
        left = min(self._burst, left + (now - at) * self._per_s)
        self._left[user] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > self._most:
            self._left.popitem(last=False)
        if left < 1:  # RULE (console-rate)
            raise TooMany(max(1, round((1 - left) / self._per_s)))


class Places:
    """Streams that are open at once: of all, and of one person."""

    def __init__(self, of_all: int, of_one: int) -> None:
        self._of_all = of_all
        self._of_one = of_one
        self._open: dict[object, _Place] = {}

    @contextmanager
    def of(self, user: str, is_gone: Callable[[], bool]) -> Iterator[None]:
        """Have a place within; `is_gone` says whether who reads has left, whose place another one may take:
        a page that is loaded again has left by then. Raises TooMany."""
        if self._is_full(user):
            for key, place in list(self._open.items()):
                if place.is_gone():  # RULE (console-places-of-the-gone)
                    del self._open[key]
                    if place.task is not None:
                        place.task.cancel()
            if self._is_full(user):
                raise TooMany(30)
        key = object()
        self._open[key] = _Place(user, is_gone, asyncio.current_task())
        try:
            yield
        finally:
            self._open.pop(key, None)

    def _is_full(self, user: str) -> bool:
        own = sum(place.user == user for place in self._open.values())
        return len(self._open) >= self._of_all or own >= self._of_one  # RULE (console-places)


class _Place(NamedTuple):
    user: str
    is_gone: Callable[[], bool]
    task: asyncio.Task[Any] | None
