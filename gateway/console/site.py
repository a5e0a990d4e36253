"""The console's two applications: pages and forms below `/console`, the REST API below `/api/v1`.

Every request takes the same way: its host and its site are looked at, then who asks, his role, how often,
what he asks; what he does is recorded, and only then answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol

import orjson
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from gateway.admin.requests import (
    Administrators,
    Authenticate,
    BadRequest,
    NotAuthenticated,
    NotFound,
    Turns,
    body_of,
)
from gateway.admin.requests import log_in as log_in_by_header
from gateway.console.binding import bind
from gateway.console.forms import MAX_BODY, form_of, list_filled_in, page_before
from gateway.console.guards import (
    IMMUTABLE,
    Places,
    RateLimit,
    add_headers,
    require_host,
    require_own_site,
)
from gateway.console.login import ConsoleLogin
from gateway.console.openapi import build_document
from gateway.console.problems import answer_problem, problem_of
from gateway.console.rendering import PAGES, Renderer, StaticFiles, is_local
from gateway.console.routes import (
    ConsoleConflict,
    ConsoleDownload,
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    ConsoleStream,
    NotAllowed,
    Recordable,
    Recorded,
    Viewer,
    check_parts,
)
from gateway.errors import Faults
from gateway.model.bounded import BoundedDict
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

TIMEOUT_S = 30.0
ONCE_S = 900.0
"""How often the use of what refreshes itself is recorded."""
MAX_REMEMBERED = 10_000
AT_ONCE, AT_ONCE_OF_ONE = 16, 4
STREAMS, STREAMS_OF_ONE = 100, 6
STREAM_S = 300.0
"""How long a stream goes on; the browser then asks for the next, and whether he may is asked anew."""
KEEP_ALIVE_S = 15.0
ASKED_ANEW_S = 60.0
"""How often it is asked whether who takes a file along still may."""
PIECE_S = 300.0
"""How long a reader may take for one piece of a file."""
PER_S, BURST = 10.0, 80
"""Requests of one person."""

_NO_FILE_NAME = re.compile(r"[^A-Za-z0-9._-]")


_REFUSED = (NotAllowed, NotFound, BadRequest, ConsoleConflict, Faults)
"""What a route answers instead of doing what was asked."""
_ASKER: ContextVar[tuple[Viewer | None, str]] = ContextVar("_ASKER", default=(None, ""))
"""Who asks, and the token of his forms: for the page that tells what went wrong."""


class RecordUse(Protocol):
    """Records that somebody uses a route, or may not."""

    async def __call__(
        self, viewer: Viewer, used: Recordable, asked: Mapping[str, Any], *, allowed: bool
    ) -> None:
        """Return when it is on disk. Raises LedgerUnavailable."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRoles:
    """Who is what."""

    administrators: Administrators
    auditors: Administrators
    text_readers: Administrators

    def viewer(self, principal: Principal, address: str) -> Viewer:
        """Return somebody with his roles."""
        administers = self.administrators.has(principal)
        return Viewer(
            principal=principal,
            is_administrator=administers,
            is_auditor=administers or self.auditors.has(principal),
            reads_texts=self.text_readers.has(principal),
            address=address,
        )


class ConsoleSite:
    """The applications; `pages_app` and `api_app` are mounted at `/console` and `/api/v1`."""

    def __init__(
        self,
        parts: Sequence[ConsolePart],
        *,
        roles: ConsoleRoles,
        login: ConsoleLogin,
        authenticate: Authenticate,
        record: RecordUse,
        hosts: frozenset[str],
        version: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`authenticate`: of who shows a password or a token with his request over REST. Raises Faults for a
        table that lacks something."""
        check_parts(parts)
        self.parts = parts
        self._roles = roles
        self._login = login
        self._authenticate = authenticate
        self._record = record
        self._hosts = hosts
        self._clock = clock
        self._static = StaticFiles()
        self._renderer = Renderer(parts, self._static)
        login.render = self._renderer.template
        self._document = orjson.dumps(build_document(parts, version))
        self._rate = RateLimit(PER_S, BURST, clock=clock)
        self._turns = Turns(AT_ONCE, AT_ONCE_OF_ONE)
        self._places = Places(STREAMS, STREAMS_OF_ONE)
        self._recorded: BoundedDict[tuple[str, str], float] = BoundedDict(MAX_REMEMBERED)

    # -- the two applications ------------------------------------------------------------------------------

    def pages_app(self) -> web.Application:
        app = web.Application(middlewares=[self._around(page=True)])
        app.on_response_prepare.append(add_headers)
        app.router.add_get("", _to_front)
        app.router.add_get("/", self._front)
        app.router.add_get("/static/{name}", self._serve_static)
        self._login.add_routes(app)
        for part in self.parts:
            for page in part.pages:
                app.router.add_get(page.path, self._page(page))
            for form in part.forms:
                app.router.add_post(form.path, self._form(form))
        return app

    def api_app(self) -> web.Application:
        app = web.Application(middlewares=[self._around(page=False)])
        app.on_response_prepare.append(add_headers)
        app.router.add_get("/openapi.json", self._openapi)
        for part in self.parts:
            for route in part.routes:
                app.router.add_route(route.method, route.path, self._api(route))
            for stream in part.streams:
                app.router.add_get(stream.path, self._stream(stream))
            for download in part.downloads:
                app.router.add_get(download.path, self._download(download))
        return app

    def _around(self, *, page: bool) -> Any:
        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            _ASKER.set((None, ""))
            try:
                require_host(request, self._hosts)
                require_own_site(request, page=page)
                return await handler(request)
            except NotAuthenticated as error:
                if page and request.method == "GET":
                    return self._login.redirect(request)
                return await self._explain(request, error, page=page)
            except Exception as error:  # noqa: BLE001 - a request's root: whatever happens is answered
                return await self._explain(request, error, page=page)

        return answer

    async def _explain(self, request: web.Request, error: Exception, *, page: bool) -> web.Response:
        problem = problem_of(error)
        if not page:
            answer = answer_problem(problem)
            if "Sec-Fetch-Site" in request.headers:
                # A browser would ask for a password by itself.
                answer.headers.popall("WWW-Authenticate", None)
            return answer
        viewer, csrf = _ASKER.get()
        came_from = page_before(request)
        text = self._renderer.template(
            "problem.html",
            problem=problem,
            viewer=viewer,
            csrf_token=csrf,
            filled_in=await list_filled_in(request, error),
            back=came_from,
            login=self._login.address(came_from),
            again=request.path_qs if request.method == "GET" and is_local(request.path_qs) else "",
        )
        return _html(text, problem.status)

    # -- who asks ------------------------------------------------------------------------------------------

    async def _viewer(self, request: web.Request, *, by_header: bool) -> tuple[Viewer, str]:
        """Return who asks, and the token that his forms send; over REST he may show a password or a token
        instead of a session. Raises NotAuthenticated, TooMany."""
        viewer, csrf = await self._find_viewer(request, by_header=by_header)
        _ASKER.set((viewer, csrf))
        self._rate.take(viewer.user)
        return viewer, csrf

    async def _find_viewer(self, request: web.Request, *, by_header: bool) -> tuple[Viewer, str]:
        if by_header and "Authorization" in request.headers:
            principal, csrf = await log_in_by_header(request, self._authenticate), ""
        else:
            found = await self._login.find(request)
            if found is None:
                raise NotAuthenticated("log in to the console, or send a password or a token along")
            principal, csrf = found
        return self._roles.viewer(principal, request.remote or ""), csrf

    async def _use(self, viewer: Viewer, used: Recordable, asked: Mapping[str, Any]) -> None:
        """Let somebody use a route by its rule, and have that recorded. Raises NotAllowed,
        LedgerUnavailable."""
        if not viewer.may(used.who):  # RULE (console-role)
            await self._record(viewer, used, asked, allowed=False)
            raise NotAllowed("you do not have the role for this")
        if used.recorded is Recorded.NEVER:
            return
        key = (viewer.user, used.name)
        if used.recorded is Recorded.ONCE and self._clock() - self._recorded.get(key, -ONCE_S) < ONCE_S:
            return
        await self._record(viewer, used, asked, allowed=True)  # RULE (console-recorded)
        if used.recorded is Recorded.ONCE:
            self._recorded[key] = self._clock()

    @asynccontextmanager
    async def _record_refusal(self, viewer: Viewer, used: Recordable, asked: Any) -> AsyncIterator[None]:
        """Have it recorded, too, that nothing came of what was recorded before it was done."""
        try:
            yield
        except _REFUSED:
            if used.recorded is Recorded.EACH:  # RULE (console-refusal-recorded)
                await self._record(viewer, used, _plain(asked), allowed=False)
            raise

    async def _answer(self, viewer: Viewer, route: ConsoleRoute, given: Mapping[str, Any]) -> tuple[Any, Any]:
        """Do what a route does; return its parameters and its result. Raises TimeoutError."""
        if not viewer.may(route.who):
            await self._use(viewer, route, {})
        asked = bind(route.parameters, given)
        async with asyncio.timeout(TIMEOUT_S), self._turns.of(viewer.user):
            await self._use(viewer, route, _plain(asked))
            async with self._record_refusal(viewer, route, asked):
                return asked, await route.handle(viewer, asked)

    # -- REST ----------------------------------------------------------------------------------------------

    def _api(self, route: ConsoleRoute) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            viewer, csrf = await self._viewer(request, by_header=True)
            if route.changes:
                self._login.require_token(csrf, request.headers.get("X-CSRF-Token", ""))
            given = _read_parameters(request)
            form = given.pop("format", ["json"])[0] if not route.changes else "json"
            if route.method in ("POST", "PUT"):
                given |= await _json_of(request)
            written = {"json": ("application/json", _json), **_short_names(route)}
            if form not in written:
                raise BadRequest(f"`format` must be one of {', '.join(written)}")
            _, result = await self._answer(viewer, route, given)
            kind, write = written[form]
            return _answer_cached(request, write(result), kind)

        return handle

    def _stream(self, stream: ConsoleStream) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            viewer, _ = await self._viewer(request, by_header=True)
            with self._places.of(viewer.user, partial(_has_left, request)):
                await self._use(viewer, stream, {})
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                with contextlib.suppress(ConnectionResetError):
                    await _send_events(response, stream.listen(viewer))
            return response

        return handle

    def _download(self, download: ConsoleDownload) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            viewer, _ = await self._viewer(request, by_header=True)
            if not viewer.may(download.who):
                await self._use(viewer, download, {})
            asked = bind(download.parameters, _read_parameters(request))
            with self._places.of(viewer.user, partial(_has_left, request)):
                await self._use(viewer, download, _plain(asked))
                pieces = self._while_he_may(request, viewer, download.handle(viewer, asked))
                try:
                    # What cannot be begun is answered as an error.
                    async with self._record_refusal(viewer, download, asked):
                        first = await anext(pieces, b"")
                    response = web.StreamResponse(headers={"Content-Type": download.content_type})
                    name = _NO_FILE_NAME.sub("", download.file_name(asked))
                    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
                    await response.prepare(request)
                    await _send_pieces(request, response, first, pieces)
                finally:
                    await pieces.aclose()
            return response

        return handle

    async def _while_he_may(
        self, request: web.Request, viewer: Viewer, pieces: AsyncIterator[bytes]
    ) -> AsyncGenerator[bytes]:
        """Yield pieces for as long as the viewer is who he was: a file may take hours. Raises
        NotAuthenticated, NotAllowed."""
        asked_s = self._clock()
        try:
            async for piece in pieces:
                if self._clock() - asked_s > ASKED_ANEW_S:  # RULE (console-download-ends)
                    asked_s = self._clock()
                    now, _ = await self._find_viewer(request, by_header=True)
                    if not now.has_roles_of(viewer):
                        raise NotAllowed("who takes the file along has other roles by now")
                yield piece
        finally:
            if (close := getattr(pieces, "aclose", None)) is not None:
                await close()

    async def _openapi(self, request: web.Request) -> web.Response:
        await self._viewer(request, by_header=True)
        return _answer_cached(request, self._document, "application/json")

    # -- pages ---------------------------------------------------------------------------------------------

    def _page(self, page: ConsolePage) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            viewer, csrf = await self._viewer(request, by_header=False)
            asked, it = await self._answer(viewer, page.route, _read_parameters(request))
            return _html(self._renderer.page(page, viewer, csrf, asked, it))

        return handle

    def _form(self, form: ConsoleForm) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            viewer, csrf = await self._viewer(request, by_header=False)
            given = dict(await form_of(request))
            self._login.require_token(csrf, (given.pop("csrf", None) or [""])[0])
            asked, it = await self._answer(viewer, form.route, {**given, **_path_of(request)})
            address = PAGES + form.then(asked, it)
            if not is_local(address):
                raise NotFound("the form leads nowhere")
            return web.Response(status=303, headers={"Location": address})

        return handle

    async def _front(self, request: web.Request) -> web.Response:
        """Lead to the first page of the menu that is for the viewer."""
        viewer, _ = await self._viewer(request, by_header=False)
        menu = self._renderer.menu_of(viewer)
        if not menu:
            raise NotFound("there is no page for you here")
        return web.Response(status=303, headers={"Location": PAGES + menu[0].path})

    async def _serve_static(self, request: web.Request) -> web.Response:
        found = self._static.files.get(request.match_info["name"])
        if found is None:
            raise NotFound("there is no such file")
        content, kind = found
        return web.Response(
            body=content, content_type=kind, charset="utf-8", headers={"Cache-Control": IMMUTABLE}
        )


async def _send_pieces(
    request: web.Request, response: web.StreamResponse, first: bytes, pieces: AsyncIterator[bytes]
) -> None:
    """Write a file that has begun. What breaks it off ends the connection, so that nobody takes a part of it
    for the whole."""
    try:
        await _write(response, first)
        async for piece in pieces:
            await _write(response, piece)
        await response.write_eof()
    except ConnectionError:
        pass  # the reader has left
    except Exception as error:  # noqa: BLE001 - a request's root
        if isinstance(error, NotAuthenticated | NotAllowed):
            _log.info("console_download_ended", reason=str(error))
        else:
            _log.exception("console_download_broke_off")
        if request.transport is not None:
            request.transport.abort()


def _has_left(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


async def _write(response: web.StreamResponse, piece: bytes) -> None:
    """Write to a reader. Raises TimeoutError for one who keeps his place and does not read."""
    async with asyncio.timeout(PIECE_S):
        await response.write(piece)


async def _to_front(request: web.Request) -> web.Response:
    return web.Response(status=308, headers={"Location": f"{PAGES}/"})


# -- what is asked, and how it is answered -------------------------------------------------------------------


def _path_of(request: web.Request) -> dict[str, list[Any]]:
    return {name: [value] for name, value in request.match_info.items()}


def _read_parameters(request: web.Request) -> dict[str, list[Any]]:
    """Return what path and query give; a name in both is the path's."""
    return {name: list(request.query.getall(name)) for name in request.query} | _path_of(request)


async def _json_of(request: web.Request) -> dict[str, list[Any]]:
    """Return the fields of a body. Forms of other sites' pages cannot send this type without being asked."""
    if request.content_type != "application/json":
        raise BadRequest("the body must be JSON (`Content-Type: application/json`)")
    try:
        body = orjson.loads(await body_of(request, MAX_BODY) or b"{}")
    except orjson.JSONDecodeError:
        raise BadRequest("the body is not JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the body must be an object")
    if again := sorted(body.keys() & request.match_info.keys()):
        raise BadRequest(f"`{again[0]}` is in the path already")
    return {name: [value] for name, value in body.items()}


def _plain(asked: Any) -> dict[str, Any]:
    """Return parameters for the record, without those that nobody gave."""
    given = {one.name: getattr(asked, one.name) for one in fields(asked)}
    defaults = {one.name: one.default for one in fields(asked)}
    return {name: value for name, value in given.items() if value != defaults[name]}


def _short_names(route: ConsoleRoute) -> dict[str, tuple[str, Callable[[Any], bytes]]]:
    return {kind.rsplit("/", 1)[-1]: (kind, write) for kind, write in route.formats.items()}


def _json(result: Any) -> bytes:
    return orjson.dumps(result, default=_of_json)


def _of_json(value: Any) -> Any:
    if isinstance(value, set | frozenset):
        return sorted(value)
    return dict(value) if isinstance(value, Mapping) else str(value)


def _answer_cached(request: web.Request, body: bytes, kind: str) -> web.Response:
    """Return an answer with its ETag, or none for who has it; nobody keeps it without asking again."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if request.method == "GET" and tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    return web.Response(body=body, content_type=kind, headers=headers)


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, content_type="text/html", status=status)


async def _send_events(response: web.StreamResponse, events: AsyncIterator[str]) -> None:
    """Send what comes, and now and then a line that says nothing, for `STREAM_S`."""
    waiting: asyncio.Task[str] | None = None
    try:
        async with asyncio.timeout(STREAM_S):
            while True:
                waiting = waiting or asyncio.ensure_future(anext(events))
                done, _ = await asyncio.wait({waiting}, timeout=KEEP_ALIVE_S)
                if not done:
                    await response.write(b": still here\n\n")
                    continue
                event, waiting = waiting.result(), None
                await response.write(b"data: " + event.replace("\n", " ").encode() + b"\n\n")
    except (TimeoutError, StopAsyncIteration):
        pass
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        if (close := getattr(events, "aclose", None)) is not None:
            await close()
