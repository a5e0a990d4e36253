"""Proposals of tags over REST, below `/tags`, for administrators alone: list, show, accept, reject.

GET  /tags/proposals?state=proposed&tag=PII&name=hr.employee&gone=true&limit=100
GET  /tags/proposals/7
POST /tags/proposals/accept   {"ids": [7, 8], "again": false}
POST /tags/proposals/reject   the same
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any

import orjson
import structlog
from aiohttp import web

from gateway.admin.requests import (
    AdministratorHandler,
    Administrators,
    AdministratorsApi,
    Authenticate,
    BadRequest,
    NotFound,
    body_of,
    messages_answer,
    number_in,
)
from gateway.database.texts import storable
from gateway.errors import Faults
from gateway.lineage.proposals import ACCEPTED, REJECTED, STATES, as_json, decide, load_proposal, proposals
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

MAX_BYTES = 1024 * 1024
"""Maximum size of a request body: some 100,000 ids."""
LIMIT = 100
MOST = 1_000
_PARAMETERS = ("state", "tag", "name", "gone", "limit")
_DECISIONS = {"accept": ACCEPTED, "reject": REJECTED}

Json = dict[str, Any]


class TagsApi(AdministratorsApi):
    """The API to be mounted at `/tags`."""

    of = "tags"
    store = "the database of proposals"

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Any]],
        authenticate: Authenticate,
        administrators: Administrators,
    ) -> None:
        """`connect` yields a connection for one look."""
        super().__init__(authenticate, administrators)
        self._connect = connect

    def _routes(self) -> Iterable[tuple[str, str, AdministratorHandler]]:
        yield "GET", "/proposals", self._list
        yield "GET", r"/proposals/{id:\d{1,18}}", self._show
        yield "POST", "/proposals/{decision:accept|reject}", self._decide

    async def _list(self, request: web.Request, principal: Principal) -> list[Json]:
        asked = request.query
        unknown = sorted(set(asked) - set(_PARAMETERS))
        if unknown:
            raise BadRequest(f"unknown parameter `{unknown[0]}`; the parameters are {', '.join(_PARAMETERS)}")
        for name, value in asked.items():
            if storable(value) != value:
                raise BadRequest(f"`{name}` contains a character that names cannot have")
        states = asked.getall("state", list(STATES))
        if not set(states) <= set(STATES):
            raise BadRequest(f"`state` must be one of {', '.join(STATES)}")
        if asked.get("gone", "false") not in ("true", "false"):
            raise BadRequest("`gone` must be `true` or `false`")
        limit = number_in(asked.get("limit", str(LIMIT)), MOST)
        if limit is None:
            raise BadRequest(f"`limit` must be a number from 1 to {MOST:,}")
        async with self._connect() as connection:
            found = await proposals(
                connection,
                states=states,
                tag=asked.get("tag"),
                name=asked.get("name", ""),
                gone=asked.get("gone") == "true",
                limit=limit,
            )
        return [as_json(one) for one in found]

    async def _show(self, request: web.Request, principal: Principal) -> Json:
        async with self._connect() as connection:
            found = await load_proposal(connection, int(request.match_info["id"]))
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
        async with self._connect() as connection:
            found = await decide(connection, ids, state, principal.user, again=again)
        _log.info("tags_decided", user=principal.user, state=state, proposals=len(found))
        return [as_json(one) for one in found]

    def _explain(self, request: web.Request, error: Exception) -> web.Response:
        if isinstance(error, Faults):
            return messages_answer(409 if request.method == "POST" else 400, *error.faults)
        return super()._explain(request, error)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**18
