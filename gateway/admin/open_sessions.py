"""Open sessions over REST, below `/sessions`, for administrators alone: list them, end those of a user.

GET    /sessions/
DELETE /sessions/?user=dana
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import structlog
from aiohttp import web

from gateway.admin.requests import (
    AdministratorHandlers,
    Administrators,
    Authenticate,
    BadRequest,
    Turns,
    build_error_middleware,
    messages_answer,
    status_of,
)
from gateway.database.texts import storable
from gateway.errors import BackendUnavailable, LedgerUnavailable
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

MAX_AT_ONCE = 4
MAX_OF_ONE = 2
TIMEOUT_S = 60.0
"""For one request."""

_Json = dict[str, Any]


class SessionsOfGateways(Protocol):
    """The sessions of all gateways; both raise LedgerUnavailable and BackendUnavailable."""

    async def list_sessions(self) -> tuple[list[_Json], Sequence[str]]:
        """Return the sessions, and a sentence for each gateway that did not tell its own."""
        ...

    async def end(self, user: str, by: str) -> tuple[int, Sequence[str]]:
        """End all of a user's; return how many, and a sentence for each gateway that did not."""
        ...


class SessionsApi:
    """The application to be mounted at `/sessions`."""

    def __init__(
        self,
        sessions: SessionsOfGateways,
        authenticate: Authenticate,
        *,
        administrators: Collection[str],
        groups: Collection[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`administrators` and members of `groups` may do everything here, others nothing."""
        self._sessions = sessions
        self._timeout_s = timeout_s
        self._handler = AdministratorHandlers(
            authenticate,
            Administrators(users=frozenset(administrators), groups=frozenset(groups)),
            Turns(MAX_AT_ONCE, MAX_OF_ONE),
            of="sessions",
        )

    def app(self) -> web.Application:
        """Return the application, for a server or a test."""
        app = web.Application(middlewares=[build_error_middleware(self._timeout_s, _explain)])
        for path in ("", "/"):
            app.router.add_get(path, self._handler(self._list))
            app.router.add_delete(path, self._handler(self._end))
        return app

    async def _list(self, request: web.Request, principal: Principal) -> _Json:
        if request.query:
            raise BadRequest(f"unknown parameter `{min(request.query)}`; this call has no parameters")
        sessions, messages = await self._sessions.list_sessions()
        return {"sessions": sessions, "messages": messages}

    async def _end(self, request: web.Request, principal: Principal) -> _Json:
        users = request.query.getall("user", [])
        if set(request.query) != {"user"} or len(users) != 1 or not users[0]:
            raise BadRequest("pass the user whose sessions to end exactly once: `?user=NAME`")
        if storable(users[0]) != users[0]:
            raise BadRequest("`user` contains a character that names cannot have")
        ended, messages = await self._sessions.end(users[0], principal.user)
        _log.info("sessions_ended", by=principal.user, user=users[0], sessions=ended)
        return {"ended": ended, "messages": messages}


def _explain(request: web.Request, error: Exception) -> web.Response:
    if isinstance(error, BackendUnavailable | LedgerUnavailable):
        return messages_answer(503, error.message)
    return messages_answer(*status_of(error, "sessions", "the database of requests to gateways"))
