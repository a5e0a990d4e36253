"""The application below `/service`: who asks, how much at once, and every error in Ranger's shape."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable

import asyncpg
from aiohttp import web

from gateway.admin.ranger import (
    download_routes,
    grants,
    plugins,
    policies,
    roles,
    server_routes,
    servicedefs,
    services,
    tags,
    transfers,
    users,
    zones,
)
from gateway.admin.ranger.access import Access
from gateway.admin.ranger.calls import (
    ApiCall,
    RangerError,
    Route,
    bad_request,
    error_answer,
    not_found,
)
from gateway.admin.ranger.kinds import Conflict
from gateway.admin.ranger.merging import NotMergeable
from gateway.admin.ranger.searching import BadParameter
from gateway.admin.ranger.store import Store
from gateway.admin.requests import (
    LOGIN,
    Authenticate,
    Turns,
    build_error_middleware,
    log_in,
    status_of,
)

ROUTES: tuple[Route, ...] = (
    *transfers.ROUTES,  # before what takes `exportJson` for an id
    *servicedefs.ROUTES,
    *services.ROUTES,
    *policies.ROUTES,
    *download_routes.ROUTES,
    *server_routes.ROUTES,
    *roles.ROUTES,
    *zones.ROUTES,
    *tags.ROUTES,
    *users.ROUTES,
    *grants.ROUTES,
    *plugins.ROUTES,
)

MAX_AT_ONCE = 32
"""Requests that are worked on; further ones wait their turn."""
MAX_OF_ONE = 8
"""Maximum of those for one user, so that a slow client keeps nobody else waiting."""
TIMEOUT_S = 120.0
"""For one request, its body included: a peer that dribbles does not keep a turn for ever."""


class RangerApi:
    """Ranger's REST API on a store. `routes` may be fewer for a test."""

    def __init__(
        self,
        store: Store,
        access: Access,
        authenticate: Authenticate,
        *,
        routes: Iterable[Route] = ROUTES,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._store = store
        self._access = access
        self._authenticate = authenticate
        self._routes = tuple(routes)
        self._timeout_s = timeout_s
        self._turns = Turns(MAX_AT_ONCE, MAX_OF_ONE)

    def app(self) -> web.Application:
        """Return the application to be mounted at `/service`."""
        app = web.Application(middlewares=[build_error_middleware(self._timeout_s, _build_error_response)])
        for route in self._routes:
            for path in (route.path, route.path + "/"):
                app.router.add_route(route.method, path, self._handler(route))
        return app

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            principal = await log_in(request, self._authenticate)
            async with self._turns.of(principal.user):
                return await route.handler(
                    ApiCall(request=request, principal=principal, store=self._store, access=self._access)
                )

        return handle


def as_rest_error(error: Exception) -> RangerError:
    """Return what a caller is told of an exception; what nobody expected is logged."""
    match error:
        case RangerError():
            return error
        case Conflict():
            return RangerError(
                409,
                f"the object was changed meanwhile: the stored version is {error.stored}, the body has "
                f"version {error.given}; read it again and repeat the change",
            )
        case web.HTTPNotFound():
            return not_found()
        case BadParameter() | NotMergeable():
            return bad_request(str(error))
        case asyncpg.UniqueViolationError():
            return bad_request("an object with this name, guid or these resources already exists")
        case asyncpg.ProgramLimitExceededError():
            return bad_request("a name or guid is too long to store")
        case asyncpg.DataError() | UnicodeError() | json.JSONDecodeError():
            return bad_request("the request has a value that cannot be stored")
        case _:
            return RangerError(*status_of(error, "ranger", "the database of policies"))


def _build_error_response(request: web.Request, error: Exception) -> web.Response:
    found = as_rest_error(error)
    response = error_answer(found)
    if found.status == 401:
        response.headers.update(LOGIN)
    return response
