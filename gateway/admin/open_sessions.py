"""Open sessions over REST, below `/sessions`, for administrators alone: list them, end those of a user.

GET    /sessions/
DELETE /sessions/?user=dana
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import structlog
from aiohttp import web

from gateway.admin.requests import (
    AdministratorHandler,
    Administrators,
    AdministratorsApi,
    Authenticate,
    BadRequest,
    messages_answer,
)
from gateway.database.texts import storable
from gateway.errors import BackendUnavailable, LedgerUnavailable
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

_Json = dict[str, Any]
ListSessions = Callable[[], Awaitable[tuple[list[_Json], Sequence[str]]]]
"""Returns the sessions of all gateways, and a sentence for each that did not tell its own."""
EndSessions = Callable[[str, str], Awaitable[tuple[int, Sequence[str]]]]
"""Ends all sessions of a user, by somebody; returns how many, and a sentence for each that did not."""


class SessionsApi(AdministratorsApi):
    """The API to be mounted at `/sessions`; its functions may raise LedgerUnavailable, BackendUnavailable."""

    of = "sessions"
    store = "the database of requests to gateways"

    def __init__(
        self,
        list_sessions: ListSessions,
        end_sessions: EndSessions,
        authenticate: Authenticate,
        administrators: Administrators,
    ) -> None:
        super().__init__(authenticate, administrators)
        self._list_sessions = list_sessions
        self._end_sessions = end_sessions

    def _routes(self) -> Iterable[tuple[str, str, AdministratorHandler]]:
        for path in ("", "/"):
            yield "GET", path, self._list
            yield "DELETE", path, self._end

    async def _list(self, request: web.Request, principal: Principal) -> _Json:
        if request.query:
            raise BadRequest(f"unknown parameter `{min(request.query)}`; this call has no parameters")
        sessions, messages = await self._list_sessions()
        return {"sessions": sessions, "messages": messages}

    async def _end(self, request: web.Request, principal: Principal) -> _Json:
        users = request.query.getall("user", [])
        if set(request.query) != {"user"} or len(users) != 1 or not users[0]:
            raise BadRequest("pass the user whose sessions to end exactly once: `?user=NAME`")
        if storable(users[0]) != users[0]:
            raise BadRequest("`user` contains a character that names cannot have")
        ended, messages = await self._end_sessions(users[0], principal.user)
        _log.info("sessions_ended", by=principal.user, user=users[0], sessions=ended)
        return {"ended": ended, "messages": messages}

    def _explain(self, request: web.Request, error: Exception) -> web.Response:
        if isinstance(error, BackendUnavailable | LedgerUnavailable):
            return messages_answer(503, error.message)
        return super()._explain(request, error)
