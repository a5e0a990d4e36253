"""What every REST API of the admin listener asks of a request: who sends it, from where, and its turn."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlsplit

import asyncpg
import orjson
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from gateway.errors import AuthenticationFailed
from gateway.model.credentials import Credentials, of_authorization
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

Authenticate = Callable[[Credentials, str], Awaitable[Principal | None]]
"""(credentials, client address) → principal; None or AuthenticationFailed when nobody is logged in."""

AdministratorHandler = Callable[[web.Request, Principal], Awaitable[object]]

LOGIN = {"WWW-Authenticate": 'Basic realm="Sluice"'}
"""Headers of an answer with status 401."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Administrators:
    """Principals who may read and change everything here."""

    users: frozenset[str]
    groups: frozenset[str]

    def has(self, principal: Principal) -> bool:
        return principal.user in self.users or bool(self.groups & principal.groups)


class NotAuthenticated(Exception):
    """Nobody whom we know sends the request."""


class FromAnotherSite(Exception):
    """A page of another site made a browser send the request."""


class NotAdministrator(Exception):
    """Only administrators may do this."""


class BodyTooLarge(Exception):
    """A body has more bytes than are taken."""


class BadRequest(Exception):
    """The request makes no sense; the text says why."""


class NotFound(Exception):
    """There is no such thing, or not for the asker."""


def status_of(error: Exception, api: str, store: str) -> tuple[int, str]:
    """Return status and message for what any API may meet; `store` is what it asks. What nobody expected is
    logged."""
    match error:
        case NotAuthenticated():
            return 401, str(error)
        case FromAnotherSite() | NotAdministrator():
            return 403, str(error)
        case BadRequest():
            return 400, str(error)
        case NotFound():
            return 404, str(error)
        case BodyTooLarge():
            return 413, str(error)
        case web.HTTPException():
            return error.status, error.reason
        case asyncpg.QueryCanceledError() | TimeoutError():
            return 503, "the request took too long"
        case OSError() | asyncpg.PostgresError() | asyncpg.InterfaceError() | asyncpg.InternalClientError():
            _log.error(f"{api}_store_unavailable", error=type(error).__name__)
            return 503, f"{store} is not available"
        case _:
            _log.error(f"{api}_request_failed", exc_info=error)
            return 500, "internal error; see the gateway's log"


def json_answer(body: object, status: int = 200) -> web.Response:
    """Return an answer in JSON, which says how to log in where somebody has to."""
    headers = LOGIN if status == 401 else None
    return web.Response(
        body=orjson.dumps(body, default=str), status=status, content_type="application/json", headers=headers
    )


def messages_answer(status: int, *messages: str) -> web.Response:
    """Return an answer that says in words what is wrong."""
    return json_answer({"messages": messages}, status)


def number_in(text: str, most: int) -> int | None:
    """Return a number from 1 to so many, and None for anything else."""
    fits = text.isascii() and text.isdecimal() and len(text) <= 9 and 1 <= int(text) <= most
    return int(text) if fits else None


async def body_of(request: web.Request, limit: int) -> bytes:
    """Return a body's bytes. Raises BodyTooLarge as soon as they are more than the limit."""
    # aiohttp's own limit is that of the outermost application.
    if (request.content_length or 0) > limit:
        raise BodyTooLarge(f"the body has more than {limit} bytes")
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge(f"the body has more than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


class Turns:
    """Turns of requests: a user's own limit first, then everybody's."""

    def __init__(self, at_once: int, of_one: int) -> None:
        """`at_once`: requests that are worked on, further ones wait; `of_one`: of these, those of one user,
        so that whoever sends or reads slowly keeps nobody else waiting."""
        self._of_one = of_one
        self._all = asyncio.Semaphore(at_once)
        self._own: dict[str, asyncio.Semaphore] = {}
        self._asking: Counter[str] = Counter()

    @asynccontextmanager
    async def of(self, user: str) -> AsyncIterator[None]:
        self._asking[user] += 1
        own = self._own.setdefault(user, asyncio.Semaphore(self._of_one))
        try:
            async with own, self._all:
                yield
        finally:
            self._asking[user] -= 1
            if not self._asking[user]:
                del self._asking[user], self._own[user]


MAX_AT_ONCE = 4
"""Requests of such an API that are worked on; further ones wait their turn."""
MAX_OF_ONE = 2


class AdministratorsApi(ABC):
    """An API in which administrators may do everything, in turns, and others nothing."""

    of: ClassVar[str]
    """What they administer, for who does not."""
    store: ClassVar[str]
    """What it asks, for who gets no answer."""

    def __init__(
        self, authenticate: Authenticate, administrators: Administrators, *, timeout_s: float = 60.0
    ) -> None:
        """`timeout_s`: for one request."""
        self._authenticate = authenticate
        self._administrators = administrators
        self._timeout_s = timeout_s
        self._turns = Turns(MAX_AT_ONCE, MAX_OF_ONE)

    def app(self) -> web.Application:
        """Return the application to be mounted."""
        app = web.Application(middlewares=[build_error_middleware(self._timeout_s, self._explain)])
        for method, path, handler in self._routes():
            app.router.add_route(method, path, self._handler(handler))
        return app

    @abstractmethod
    def _routes(self) -> Iterable[tuple[str, str, AdministratorHandler]]:
        """Return methods, paths, and what is answered in JSON."""

    def _explain(self, request: web.Request, error: Exception) -> web.Response:
        return messages_answer(*status_of(error, self.of, self.store))

    def _handler(self, handler: AdministratorHandler) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            principal = await log_in(request, self._authenticate)
            if not self._administrators.has(principal):
                raise NotAdministrator(f"only administrators of {self.of} may do this")
            async with self._turns.of(principal.user):
                return json_answer(await handler(request, principal))

        return handle


def build_error_middleware(
    timeout_s: float, told: Callable[[web.Request, Exception], web.Response]
) -> Middleware:
    """Return what stands around every request of an API.

    Those from pages of other sites are refused, each has `timeout_s` seconds, its body included, and whatever
    happens is answered as `told` says.
    """

    @web.middleware
    async def answer_request(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            refuse_other_sites(request)
            async with asyncio.timeout(timeout_s):
                return await handler(request)
        except web.RequestPayloadError:
            # What is left of the body cannot be read either, nor another request behind it.
            response = told(request, BadRequest("the body does not match its headers"))
            response.force_close()
            return response
        except Exception as error:  # noqa: BLE001 - a request's root: whatever happens is answered
            return told(request, error)

    return answer_request


async def log_in(request: web.Request, authenticate: Authenticate) -> Principal:
    """Return who sends a request. Raises NotAuthenticated."""
    shown = of_authorization(request.headers.getall("Authorization", []))
    if shown is None:
        raise NotAuthenticated("log in with a user name and a password, or a token (HTTP's Basic or Bearer)")
    try:
        principal = await authenticate(shown, request.remote or "")
    except AuthenticationFailed as error:
        raise NotAuthenticated(error.message) from None
    if principal is None:
        raise NotAuthenticated("invalid user name or password")
    return principal


def refuse_other_sites(request: web.Request) -> None:
    """Raise FromAnotherSite for what a page of another site makes a browser send with our password."""
    site = request.headers.get("Sec-Fetch-Site", "none")
    origin = request.headers.get("Origin")
    if site not in ("none", "same-origin") or (origin and _host(origin) != request.host):
        raise FromAnotherSite("requests from other sites' pages are refused")


def _host(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
