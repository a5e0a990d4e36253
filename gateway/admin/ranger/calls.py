"""What a route is handed and what it answers: parameters, bodies and errors in Ranger's shapes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from aiohttp import web

from gateway.admin.ranger.access import Access, PolicyText, TextQuestion
from gateway.admin.ranger.json_fields import JsonField, read, show
from gateway.admin.ranger.kinds import Body, ObjectKind
from gateway.admin.ranger.store import Store
from gateway.admin.ranger.transactions import ReadTransaction, WriteTransaction
from gateway.admin.ranger.validation import Failure, message, messages, unreadable
from gateway.admin.requests import BodyTooLarge, body_of
from gateway.errors import Faults
from gateway.model.principal import Principal
from gateway.policy.json_documents import parse_json

T = TypeVar("T")

PUBLIC = "/public/v2/api"
"""Where Ranger's own client finds everything, below `/service`."""

MAX_BODY_BYTES = 8 * 1024**2
"""One object; a policy with thousands of items has a few hundred kilobytes."""
MAX_ID = 2**63 - 1
MAX_DEPTH = 64
MAX_VALUES = 200_000
"""Maximum number of values in one object, however few bytes: each costs time to check."""
_ATTEMPTS = 4
"""How often a change is begun, since it needs texts that were not read."""
_AT_ONCE = 4
"""Texts of one call that are read at the same time: statements of users wait in the same queue."""
UNCHECKED_HEADER = "Sluice-Not-Checked"
"""Says in an answer what Spark was not asked of the texts that were stored."""
_MAX_HEADER = 1_000
_SHORT_BYTES = 16 * 1024
"""Bodies up to this size are parsed on the event loop; larger ones in a thread."""


class RangerError(Exception):
    """An answer in Ranger's error shape. `status` is HTTP's; `code` Ranger's own, by default the same."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: int | None = None,
        messages: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = status if code is None else code
        self.messages = tuple(messages)


class Invalid(RangerError):
    """An object breaks rules of validation: `failures`."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__(400, message(failures), code=1, messages=messages(failures))
        self.failures = tuple(failures)


class _NeedsTexts(Exception):
    """A change needs texts that have not been read."""


async def _read(
    access: Access, questions: Sequence[TextQuestion], author: Principal
) -> dict[TextQuestion, PolicyText]:
    """Return what the parser, and Spark, say of texts that somebody wants to store."""
    found: dict[TextQuestion, PolicyText] = {}
    waiting = iter(questions)

    async def read() -> None:
        for question in waiting:
            if access.read_text is not None:
                found[question] = await access.read_text(question, author)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(read())
    return found


def not_found(message: str = "Not found") -> RangerError:
    """Ranger's client takes it as None."""
    return RangerError(404, message)


def bad_request(message: str) -> RangerError:
    """A generic failure: Ranger answers these with 400 and its own code 1."""
    return RangerError(400, message, code=1)


def forbidden(message: str) -> RangerError:
    return RangerError(403, message)


async def change_policies(
    store: Store,
    access: Access,
    principal: Principal,
    work: Callable[[WriteTransaction, Access], Awaitable[T]],
    unchecked: dict[str, None],
) -> T:
    """Make a change of policies in one transaction, and return what `work` does. `unchecked` gets what Spark
    was not asked of texts.

    The texts that turn out to be new are read while no transaction is open, and the work begins anew: all
    writers of all gateways take turns, and nobody's revocation waits for a parser or for Spark. Raises
    RangerError, also when the policies change faster than they are read.
    """
    texts: dict[TextQuestion, PolicyText] = {}
    for _ in range(_ATTEMPTS):
        trying = access.with_texts(texts)
        try:
            async with store.writing(principal.user) as writing:
                made = await work(writing, trying)
                if trying.unread:
                    raise _NeedsTexts
        except (_NeedsTexts, Invalid):
            # What else is wrong is told with what is wrong with texts.
            if not trying.unread:
                raise
            texts |= await _read(trying, list(trying.unread), principal)
        else:
            unchecked.update((found.unchecked, None) for found in texts.values() if found.unchecked)
            return made
    raise RangerError(409, "the policies kept changing while the request ran; repeat it")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiCall:
    """One authenticated request."""

    request: web.Request
    principal: Principal
    store: Store
    access: Access
    unchecked: dict[str, None] = field(default_factory=dict)
    """Checks that Spark could not make of the texts that the call stored."""

    @property
    def user(self) -> str:
        return self.principal.user

    def require_administrator(self, what: str) -> None:
        """Raise RangerError 403 unless the caller is an administrator; `what` says what only they may do."""
        if not self.access.is_administrator(self.principal):
            raise forbidden(f"user `{self.user}` is not an administrator and may not {what}")

    async def change(self, work: Callable[[WriteTransaction, Access], Awaitable[T]]) -> T:
        """Make a change of policies, as `change_policies`."""
        return await change_policies(self.store, self.access, self.principal, work, self.unchecked)

    def path(self, name: str) -> str:
        """Return a part of the path, decoded."""
        return self.request.match_info[name]

    def path_id(self, name: str = "id") -> int:
        """Return an id of the path. Raises RangerError 404, as Ranger's routes do, when it is none."""
        return _id(self.path(name), not_found())

    def parameter(self, name: str, default: str = "") -> str:
        """Return a query parameter, the last one when it is there several times."""
        found = self.request.query.getall(name, [])
        return found[-1] if found else default

    def parameters(self) -> dict[str, str]:
        """Return all query parameters, for a search."""
        return {name: self.parameter(name) for name in self.request.query}

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a true-or-false parameter; anything but `true` is false, as in Java."""
        text = self.parameter(name)
        return text.strip().lower() == "true" if text else default

    def number(self, name: str, default: int) -> int:
        """Return a numeric parameter. Raises RangerError 400 when it is none."""
        text = self.parameter(name)
        return _number(text, f"parameter `{name}` is not a number") if text else default

    async def read(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """Return the body's bytes. Raises RangerError 413 as soon as they are more than the limit."""
        try:
            return await body_of(self.request, limit)
        except BodyTooLarge as error:
            raise RangerError(413, str(error)) from None

    async def body(self, limit: int = MAX_BODY_BYTES) -> Body:
        """Return the body, a JSON object. Raises RangerError 400 or 413 otherwise."""
        return await self._parse(limit, MAX_VALUES, _object)

    async def parse_object(
        self, shape: JsonField, limit: int = MAX_BODY_BYTES, *, most_values: int | None = MAX_VALUES
    ) -> Body:
        """Return the body with Ranger's defaults filled in. Raises RangerError 400 or 413."""
        return await self._parse(limit, most_values, lambda found: parse_object(shape, _object(found)))

    async def _parse(self, limit: int, most_values: int | None, then: Callable[[Any], Body]) -> Body:
        raw = await self.read(limit)

        def work() -> Body:
            return then(parse(raw, most_values))

        return work() if len(raw) <= _SHORT_BYTES else await asyncio.to_thread(work)


def parse(raw: bytes, most_values: int | None = None) -> Any:
    """Return a JSON document that PostgreSQL and we can hold. Raises RangerError 400 otherwise."""
    if most_values is not None and raw.count(b"{") + raw.count(b"[") > most_values:
        raise bad_request(f"the body has more than {most_values} values")
    try:
        # Of a key that stands twice another program may take the first: who reads the body, and who checks it
        # on the way, could see two policies.
        found = parse_json(raw, "body").data
    except Faults as error:
        _, line, what = error.faults[0].split(":", 2)
        raise bad_request(f"the body cannot be read: line {line}:{what}") from None
    _require_holdable(found, most_values)
    return found


def _object(found: Any) -> Body:
    if not isinstance(found, dict):
        raise bad_request("the body is not a JSON object")
    return found


def parse_object(shape: JsonField, value: object) -> Body:
    """Return an object with Ranger's defaults filled in. Raises RangerError 400 with all wrong types."""
    found, faults = read(shape, value)
    refuse(unreadable(faults))
    return found


def refuse(failures: Sequence[Failure]) -> None:
    """Raise the failures of a validation, if there are any, as Ranger tells them."""
    if failures:
        raise Invalid(failures)


def answer(body: Any, status: int = 200) -> web.Response:
    """Return JSON as Ranger's writer does: without what is empty."""
    return web.Response(body=orjson.dumps(show(body)), status=status, content_type="application/json")


def with_unchecked(call: ApiCall, response: web.Response) -> web.Response:
    """Return the response of a change, with what was not checked of it."""
    if call.unchecked:
        told = "; ".join(call.unchecked).encode("ascii", "replace").decode("ascii")
        response.headers[UNCHECKED_HEADER] = "".join(c if c.isprintable() else " " for c in told)[
            :_MAX_HEADER
        ]
    return response


def no_content() -> web.Response:
    return web.Response(status=204)


def error_answer(error: RangerError) -> web.Response:
    """Return an error in Ranger's shape."""
    shape: dict[str, Any] = {"statusCode": error.code, "msgDesc": error.message}
    if error.messages:
        shape["messageList"] = list(error.messages)
    return answer(shape, error.status)


Handler = Callable[[ApiCall], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Route:
    """One endpoint; `path` is below `/service`."""

    method: str
    path: str
    handler: Handler


PLACES = ("name/{name}", "guid/{guid}", "{id}")
"""How the path names one object; `find_named` finds it."""


def one_object(
    base: str, get: Handler, put: Handler, delete: Handler, places: Sequence[str] = PLACES
) -> list[Route]:
    """Return the routes that read, change and delete one object."""
    return [
        Route(method, f"{base}/{place}", handler)
        for place in places
        for method, handler in (("GET", get), ("PUT", put), ("DELETE", delete))
    ]


async def find_named(call: ApiCall, reading: ReadTransaction, kind: ObjectKind) -> Body:
    """Return the object that the path names by `{name}`, `{guid}` or `{id}`. Raises RangerError 404."""
    match call.request.match_info:
        case {"name": name}:
            found = await reading.find_named(kind, name)
        case {"guid": guid}:
            found = await reading.by_guid(kind, guid)
        case _:
            found = await reading.get(kind, call.path_id())
    if found is None:
        raise not_found()
    return found


def _require_holdable(document: Any, most_values: int | None) -> None:
    level, depth, count = [document], 0, 0
    while level:
        depth += 1
        count += len(level)
        if most_values is not None and count > most_values:
            raise bad_request(f"the body has more than {most_values} values")
        if depth > MAX_DEPTH:
            raise bad_request(f"the body is nested deeper than {MAX_DEPTH} levels")
        below: list[Any] = []
        for value in level:
            if isinstance(value, dict):
                below.extend(value)
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
            elif isinstance(value, str) and "\0" in value:
                raise bad_request("the body contains the character NUL")
        level = below


def _id(text: str, error: RangerError) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) > MAX_ID:
        raise error
    return int(text)


def _number(text: str, message: str) -> int:
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * _id(digits, bad_request(message))
