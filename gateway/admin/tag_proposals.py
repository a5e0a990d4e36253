"""Proposals of tags over REST, below `/tags`, for administrators alone: list, show, accept, reject.

GET  /tags/proposals?state=proposed&tag=PII&name=hr.employee&gone=true&limit=100
GET  /tags/proposals/7
POST /tags/proposals/accept   {"ids": [7, 8], "again": false}
POST /tags/proposals/reject   the same
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

import orjson
import structlog
from aiohttp import web

from gateway.admin.requests import (
    AdministratorHandlers,
    Administrators,
    Authenticate,
    BadRequest,
    NotFound,
    Turns,
    body_of,
    build_error_middleware,
    messages_answer,
    number_in,
    status_of,
)
from gateway.database.texts import storable
from gateway.errors import Faults
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

MAX_AT_ONCE = 4
MAX_OF_ONE = 2
TIMEOUT_S = 60.0
"""For one request."""
MAX_BYTES = 1024 * 1024
"""Maximum size of a request body: some 100,000 ids."""
LIMIT = 100
MOST = 1_000
_STATES = ("proposed", "accepted", "rejected")
_PARAMETERS = ("state", "tag", "name", "gone", "limit")
_DECISIONS = {"accept": "accepted", "reject": "rejected"}

Json = dict[str, Any]


class Proposals(Protocol):
    """The list and its decisions; all raise OSError, TimeoutError or asyncpg's errors."""

    async def list_proposals(
        self, *, states: Collection[str], tag: str | None, name: str, gone: bool, limit: int
    ) -> list[Json]:
        """Return proposals in the order in which they came."""
        ...

    async def find_proposal(self, proposal: int) -> Json | None:
        """Return a proposal with its history, or None."""
        ...

    async def decide(self, ids: Sequence[int], state: str, user: str, *, again: bool) -> list[Json]:
        """Decide all or none; return them as they are now. Raises Faults."""
        ...


class TagsApi:
    """The application to be mounted at `/tags`."""

    def __init__(
        self,
        proposals: Proposals,
        authenticate: Authenticate,
        *,
        administrators: Collection[str],
        groups: Collection[str] = (),
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`administrators` and members of `groups` may do everything here, others nothing."""
        self._proposals = proposals
        self._timeout_s = timeout_s
        self._handler = AdministratorHandlers(
            authenticate,
            Administrators(users=frozenset(administrators), groups=frozenset(groups)),
            Turns(MAX_AT_ONCE, MAX_OF_ONE),
            of="tags",
        )

    def app(self) -> web.Application:
        """Return the application, for a server or a test."""
        app = web.Application(middlewares=[build_error_middleware(self._timeout_s, _build_error_response)])
        app.router.add_get("/proposals", self._handler(self._list))
        app.router.add_get(r"/proposals/{id:\d{1,18}}", self._handler(self._show))
        app.router.add_post("/proposals/{decision:accept|reject}", self._handler(self._decide))
        return app

    async def _list(self, request: web.Request, principal: Principal) -> list[Json]:
        asked = request.query
        unknown = sorted(set(asked) - set(_PARAMETERS))
        if unknown:
            raise BadRequest(f"unknown parameter `{unknown[0]}`; the parameters are {', '.join(_PARAMETERS)}")
        for name, value in asked.items():
            if storable(value) != value:
                raise BadRequest(f"`{name}` contains a character that names cannot have")
        states = asked.getall("state", list(_STATES))
        if not set(states) <= set(_STATES):
            raise BadRequest(f"`state` must be one of {', '.join(_STATES)}")
        if asked.get("gone", "false") not in ("true", "false"):
            raise BadRequest("`gone` must be `true` or `false`")
        limit = number_in(asked.get("limit", str(LIMIT)), MOST)
        if limit is None:
            raise BadRequest(f"`limit` must be a number from 1 to {MOST:,}")
        return await self._proposals.list_proposals(
            states=states,
            tag=asked.get("tag"),
            name=asked.get("name", ""),
            gone=asked.get("gone") == "true",
            limit=limit,
        )

    async def _show(self, request: web.Request, principal: Principal) -> Json:
        found = await self._proposals.find_proposal(int(request.match_info["id"]))
        if found is None:
            raise NotFound("proposal not found")
        return found

    async def _decide(self, request: web.Request, principal: Principal) -> list[Json]:
        try:
            body = orjson.loads(await body_of(request, MAX_BYTES))
        except ValueError:
            raise BadRequest("the body is not JSON") from None
        if not isinstance(body, dict) or not body.keys() <= {"ids", "again"}:
            raise BadRequest("the body must be an object with `ids` and optionally `again`")
        ids, again = body.get("ids"), body.get("again", False)
        if not isinstance(ids, list) or not ids or not all(_is_id(one) for one in ids):
            raise BadRequest("`ids` must be a list of proposal numbers")
        if not isinstance(again, bool):
            raise BadRequest("`again` must be `true` or `false`")
        state = _DECISIONS[request.match_info["decision"]]
        found = await self._proposals.decide(ids, state, principal.user, again=again)
        _log.info("tags_decided", user=principal.user, state=state, proposals=len(found))
        return found


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**18


def _build_error_response(request: web.Request, error: Exception) -> web.Response:
    if isinstance(error, Faults):
        return messages_answer(409 if request.method == "POST" else 400, *error.faults)
    return messages_answer(*status_of(error, "tags", "the database of proposals"))
