"""The application below `/lineage`: who asks, how much at once, what is asked, and every error in JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any
from uuid import UUID

import asyncpg
import orjson
from aiohttp import web

from gateway.admin.lineage.sight import Sight
from gateway.admin.requests import (
    Administrators,
    Authenticate,
    BadRequest,
    NotFound,
    Turns,
    build_error_middleware,
    json_answer,
    log_in,
    number_in,
    status_of,
)
from gateway.database.texts import storable
from gateway.errors import Faults, PoliciesStale
from gateway.lineage.drawing import as_dot, as_json, as_mermaid, edge_as_json
from gateway.lineage.graph import (
    MAX_DEPTH,
    MAX_EDGES,
    Ambiguous,
    Carries,
    Direction,
    Edge,
    GraphAnswer,
    GraphColumn,
    Knows,
    StatementEdges,
    Ways,
    find,
    find_paths,
    search,
    see_all_columns,
    statement,
    walk,
)
from gateway.model.principal import Principal

MAX_AT_ONCE = 4
"""Requests that are worked on; further ones wait their turn. Statements share the event loop with them."""
MAX_OF_ONE = 2
TIMEOUT_S = 60.0
"""For one request."""
MAX_CHARS = 4_000
"""Maximum length of one parameter."""
MAX_ENDS = 50
"""Pairs of columns of one question for paths."""
DEPTH = 10
LIMIT = 1_000
PATHS = 20
MAX_PATHS = 200
PAGE = 100
MAX_PAGE = 1_000

OpenGraph = Callable[[], AbstractAsyncContextManager[Any]]
"""Yields a connection to the graph that sees one instant and writes nothing."""
MakeSight = Callable[[Any, Principal, str], Sight]
"""Connection, asker and address → what the asker may know of now. Raises PoliciesStale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """One authenticated question on one instant of the graph."""

    request: web.Request
    principal: Principal
    connection: Any
    sight: Sight | None
    """None: an administrator, who may know of all."""

    @property
    def knows(self) -> Knows:
        return see_all_columns if self.sight is None else self.sight.knows

    async def filter_visible(self, edges: Sequence[Edge]) -> list[Edge]:
        return list(edges) if self.sight is None else await self.sight.filter_visible(edges)

    def take(self, *names: str) -> None:
        """Raise BadRequest for parameters that the question does not take, or takes only once."""
        given = self.request.query
        unknown = sorted(set(given) - set(names))
        if unknown:
            known = ", ".join(f"`{name}`" for name in names) or "none"
            raise BadRequest(f"unknown parameter `{_short(unknown[0])}`; the parameters are {known}")
        for name in given:
            if len(given.getall(name)) > 1:
                raise BadRequest(f"parameter `{name}` is given more than once")

    def text(self, name: str, default: str | None = None) -> str:
        """Return a parameter. Raises BadRequest when it is missing and has no default."""
        value = self.request.query.get(name, default)
        if value is None or (not value.strip() and default is None):
            raise BadRequest(f"parameter `{name}` is missing")
        if len(value) > MAX_CHARS:
            raise BadRequest(f"parameter `{name}` has more than {MAX_CHARS:,} characters")
        if storable(value) != value:
            raise BadRequest(f"parameter `{name}` contains a character that names cannot have")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        found = number_in(self.text(name, str(default)), most)
        if found is None:
            raise BadRequest(f"parameter `{name}` must be a number from 1 to {most:,}")
        return found

    def choice(self, name: str, *choices: str) -> str:
        """Return a parameter that is one of a few words; the first is the default."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise BadRequest(f"parameter `{name}` must be one of {', '.join(f'`{one}`' for one in choices)}")
        return text

    async def columns(self, name: str) -> tuple[GraphColumn, ...]:
        """Return the columns that a parameter means. Raises BadRequest, NotFound."""
        try:
            return await find(self.connection, self.text(name), self.knows)
        except Ambiguous as error:
            raise BadRequest(error.message) from None
        except Faults as error:
            raise NotFound(error.message) from None


class LineageApi:
    """Questions to the graph by REST. Administrators see all of it, others what policies let them know of."""

    def __init__(
        self,
        reading: OpenGraph,
        administrators: Administrators,
        authenticate: Authenticate,
        sight: MakeSight,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._reading = reading
        self._administrators = administrators
        self._authenticate = authenticate
        self._sight = sight
        self._timeout_s = timeout_s
        self._turns = Turns(MAX_AT_ONCE, MAX_OF_ONE)

    def app(self) -> web.Application:
        """Return the application to be mounted at `/lineage`."""
        app = web.Application(middlewares=[build_error_middleware(self._timeout_s, _answer)])
        for path, handler in _ROUTES.items():
            app.router.add_get(path, self._handler(handler), allow_head=False)
        return app

    def _handler(
        self, handler: Callable[[_Asked], Awaitable[web.Response]]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            principal = await log_in(request, self._authenticate)
            async with self._turns.of(principal.user), self._reading() as connection:
                sight = None
                if not self._administrators.has(principal):
                    sight = self._sight(connection, principal, request.remote or "")
                return await handler(
                    _Asked(request=request, principal=principal, connection=connection, sight=sight)
                )

        return handle


async def _columns(asked: _Asked) -> web.Response:
    """Search columns by a part of their names."""
    asked.take("text", "after", "limit")
    limit = asked.number("limit", PAGE, MAX_PAGE)
    after = _after(asked.text("after", ""))
    found, cut_off = await search(
        asked.connection, asked.text("text", ""), asked.knows, after=after, limit=limit + 1
    )
    more = len(found) > limit
    page = found[:limit]
    return json_answer(
        {
            "columns": [column_as_json(column) for column in page],
            "next": orjson.dumps([page[-1].dataset, page[-1].name]).decode() if more else None,
            "complete": not more and not cut_off,
            "cut_off": "" if more else cut_off,
        }
    )


def _after(text: str) -> GraphColumn | None:
    if not text:
        return None
    try:
        match orjson.loads(text):
            case [str() as dataset, str() as name]:
                if "\0" not in dataset + name:
                    return GraphColumn(dataset, name)
    except orjson.JSONDecodeError:
        pass
    raise BadRequest("parameter `after` must be the `next` of an earlier response")


def _build_walk_handler(direction: Direction) -> Callable[[_Asked], Awaitable[web.Response]]:
    async def handle(asked: _Asked) -> web.Response:
        asked.take("column", "depth", "limit", "format")
        shape = asked.choice("format", "json", "mermaid", "dot")
        answer = await _walk(asked, direction)
        if shape == "json":
            answer.edges = await asked.filter_visible(answer.edges)
            return json_answer(as_json(answer))
        return _picture(shape, answer.edges, answer.cut_off)

    return handle


async def _walk(asked: _Asked, direction: Direction) -> GraphAnswer:
    depth = asked.number("depth", DEPTH, MAX_DEPTH)
    limit = asked.number("limit", LIMIT, MAX_EDGES)
    start = await asked.columns("column")
    return await walk(asked.connection, start, direction, asked.knows, depth=depth, most_edges=limit)


async def _impact(asked: _Asked) -> web.Response:
    """Tell what dropping or tagging a column would do."""
    asked.take("column", "depth", "limit")
    return json_answer(impact_as_json(await _walk(asked, Direction.DOWN)))


async def _paths(asked: _Asked) -> web.Response:
    """Tell by which edges one column comes to be in another."""
    asked.take("from", "to", "depth", "limit", "format")
    depth = asked.number("depth", DEPTH, MAX_DEPTH)
    most = asked.number("limit", PATHS, MAX_PATHS)
    shape = asked.choice("format", "json", "mermaid", "dot")
    sources, targets = await asked.columns("from"), await asked.columns("to")
    if len(sources) * len(targets) > MAX_ENDS:
        raise BadRequest(f"more than {MAX_ENDS} pairs of columns; name columns instead of tables")
    found = Ways()
    for source, target in product(sources, targets):
        some = await find_paths(asked.connection, source, target, asked.knows, depth=depth, most=most)
        found.found += some.found
        found.cut_off = found.cut_off or some.cut_off
        if len(found.found) > most:
            found.cut_off = f"there are more than {most} paths"
            break
    found.found = sorted(found.found, key=len)[:most]
    if shape != "json":
        return _picture(
            shape, {id(edge): edge for way in found.found for edge in way}.values(), found.cut_off
        )
    shown = iter(await asked.filter_visible([edge for way in found.found for edge in way]))
    found = replace(found, found=[tuple(next(shown) for _ in way) for way in found.found])
    return json_answer(ways_as_json(sources, targets, found))


async def _statement(asked: _Asked) -> web.Response:
    """Tell what a statement brought; those of others only administrators."""
    asked.take()
    text = asked.request.match_info["id"]
    try:
        statement_id = UUID(text)
    except ValueError:
        raise BadRequest(f"`{_short(text)}` is not a statement id") from None
    found = await statement(asked.connection, statement_id, asked.knows)
    whole = asked.sight is None
    if found is None or not (whole or found.user == asked.principal.user):
        raise NotFound("the lineage graph has no such statement, or you may not see it")
    return json_answer(statement_as_json(found, await asked.filter_visible(found.edges), whole=whole))


_ROUTES: dict[str, Callable[[_Asked], Awaitable[web.Response]]] = {
    "/columns": _columns,
    "/upstream": _build_walk_handler(Direction.UP),
    "/downstream": _build_walk_handler(Direction.DOWN),
    "/impact": _impact,
    "/paths": _paths,
    "/statements/{id}": _statement,
}


def _picture(shape: str, edges: Iterable[Edge], cut_off: str) -> web.Response:
    """Return a picture; that a bound cut it off stands in its first line, a comment."""
    text, sign, kind = (
        (as_mermaid(edges), "%%", "text/vnd.mermaid")
        if shape == "mermaid"
        else (as_dot(edges), "//", "text/vnd.graphviz")
    )
    told = f"{sign} cut off: {cut_off}\n" if cut_off else ""
    return web.Response(text=f"{told}{text}\n", content_type=kind, charset="utf-8")


def _short(text: str) -> str:
    return text if len(text) <= 100 else text[:99] + "…"


def _answer(request: web.Request, error: Exception) -> web.Response:
    status, message = _build_error_response(error)
    return json_answer({"statusCode": status, "msgDesc": message}, status)


def _build_error_response(error: Exception) -> tuple[int, str]:
    match error:
        case web.HTTPMethodNotAllowed():
            return 405, "only GET is allowed"
        case web.HTTPNotFound():
            return 404, "not found"
        case PoliciesStale():
            return 503, error.message
        case asyncpg.QueryCanceledError() | TimeoutError():
            return 503, "the query took too long; ask for a smaller depth, or for one column"
        case _:
            return status_of(error, "lineage", "the database of lineage")


# -- What the lineage API answers: JSON, Mermaid and DOT -----------------------------------------------


_ON_DROP = {True: "fails", False: "stale"}
_ON_RETAG = {Carries.VALUES: "follows", Carries.MASKED: "masked", Carries.INFLUENCE: "none"}


def column_as_json(column: GraphColumn) -> dict[str, Any]:
    return {"dataset": column.dataset, "column": column.name, "name": str(column)}


def impact_as_json(answer: GraphAnswer) -> dict[str, Any]:
    """Return what dropping the start would do to each column that it feeds, and whether a tag on it would
    follow."""
    return {
        "start": [str(column) for column in answer.start],
        "affected": [
            {
                "column": str(one.column),
                "distance": one.distance,
                "carries": one.carries.name.lower(),
                "on_drop": _ON_DROP[one.distance == 1],
                "on_retag": _ON_RETAG[one.carries],
            }
            for one in answer.reached
        ],
        "complete": not answer.cut_off,
        "cut_off": answer.cut_off,
    }


def ways_as_json(source: Sequence[GraphColumn], target: Sequence[GraphColumn], ways: Ways) -> dict[str, Any]:
    return {
        "from": [str(column) for column in source],
        "to": [str(column) for column in target],
        "paths": [[edge_as_json(edge) for edge in way] for way in ways.found],
        "complete": not ways.cut_off,
        "cut_off": ways.cut_off,
    }


def statement_as_json(found: StatementEdges, edges: Sequence[Edge], *, whole: bool) -> dict[str, Any]:
    """Return a statement and its edges; the reason why only tables are known of it only with `whole`, since
    it may be in words of a view."""
    return {
        "statement": str(found.statement_id),
        "time": found.time.isoformat(),
        "user": found.user,
        "operation": found.operation,
        "outcome": found.outcome,
        "table_level": bool(found.table_level),
        "table_level_reason": found.table_level if whole else None,
        "edges": [edge_as_json(edge) for edge in edges],
    }
