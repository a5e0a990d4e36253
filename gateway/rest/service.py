"""Iceberg's REST routes: which call a request is, and how whatever goes wrong is answered.

INVARIANT (what is unknown is refused): a route, a method or a parameter without a row here is not passed on.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

import structlog

from gateway.errors import BackendUnavailable, LedgerUnavailable, SluiceError
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.rest.answers import RestReply, reply_json
from gateway.rest.requests import (
    RestCall,
    RestFault,
    bad_request,
    decode_part,
    not_found,
)

_log = structlog.get_logger(__name__)

AnswerRestCall = Callable[[RestCall], Awaitable[RestReply]]
RecordFault = Callable[[RestCall, int, str], Awaitable[None]]
"""Records a call that is answered with a status and words before it was judged."""
MAX_PARAMETERS = 20
_VARIABLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRoute:
    """One operation of the specification."""

    method: str
    path: str
    """As `/v1/config` has it: with the prefix and the variable parts in braces."""
    name: str
    """What the specification calls it."""
    handle: AnswerRestCall

    @property
    def listed(self) -> str:
        """The route as clients are told of it."""
        return f"{self.method} {self.path}".replace("{plan}", "{plan-id}")


class RestService:
    """Answers requests of who has logged in."""

    def __init__(
        self,
        catalogs: Collection[str],
        routes: Collection[RestRoute],
        *,
        timeout_s: float = 120.0,
        at_once: int = 64,
        of_one: int = 128,
        counted: Callable[[str, int], None] = lambda name, status: None,
        record_fault: RecordFault,
    ) -> None:
        """`catalogs`: those that are served, by their names. `at_once`: calls that are worked on, further
        ones wait; `of_one`: those of one user that are in progress, waiting ones too. `counted` hears of
        each answer; `record_fault` of faults of calls that nothing is on record of."""
        self._catalogs = tuple(catalogs)
        self._routes = tuple(routes)
        self._patterns = [(route, _compile(route.path)) for route in self._routes]
        self._timeout_s = timeout_s
        self._all = asyncio.Semaphore(at_once)
        self._of_one = of_one
        self._asking: dict[str, int] = {}
        self._counted = counted
        self._record_fault = record_fault

    async def answer(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        principal: Principal,
        client: Client,
    ) -> RestReply:
        """Answer a request; `target`: path and parameters as they were sent, `headers` by names in lower
        case."""
        call: RestCall | None = None
        user = principal.user
        try:
            if self._asking.get(user, 0) >= self._of_one:
                raise RestFault(
                    429, "TooManyRequestsException", "you have too many calls in progress; try again"
                )
            self._asking[user] = self._asking.get(user, 0) + 1
            try:
                async with asyncio.timeout(self._timeout_s), self._all:
                    call, route = self._find(method, target, headers, body, principal, client)
                    reply = await self._config(call) if route is None else await route.handle(call)
            finally:
                self._asking[user] -= 1
                if not self._asking[user]:
                    del self._asking[user]
        except Exception as error:  # noqa: BLE001 - a request's root: whatever happens is answered
            reply = reply_fault(await self._put_on_record(call, _explain(call, error)))
        self._counted(call.name if call is not None else "unknown", reply.status)
        return reply

    async def _put_on_record(self, call: RestCall | None, fault: RestFault) -> RestFault:
        """Return what is answered, when it is on record that the call came to nothing."""
        if call is None or call.on_record:
            return fault
        try:
            await self._record_fault(call, fault.status, fault.message)
        except LedgerUnavailable as why:
            return RestFault(503, "ServiceUnavailableException", why.text)
        return fault

    def _find(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        principal: Principal,
        client: Client,
    ) -> tuple[RestCall, RestRoute | None]:
        path, _, parameters = target.partition("?")
        query = _read_parameters(parameters)
        given: dict[str, Any] = {
            "method": method, "query": query, "headers": headers, "body": body,
            "principal": principal, "client": client,
        }  # fmt: skip
        if path == "/v1/config" and method == "GET":
            catalog = self._choose(query)
            return RestCall(catalog=catalog, parts={}, name="getConfig", **given), None
        others = []
        for route, pattern in self._patterns:
            found = pattern.fullmatch(path)
            if found is None:
                continue
            if route.method != method:
                others.append(route.method)
                continue
            parts = {key: decode_part(one) for key, one in found.groupdict().items()}
            if "view" in parts:
                parts["table"] = parts["view"]  # they share their names
            catalog = parts.pop("prefix")
            if catalog not in self._catalogs:  # RULE (rest-other-catalog)
                raise not_found("NoSuchWarehouseException", "no such catalog is served here")
            return RestCall(catalog=catalog, parts=parts, name=route.name, **given), route
        if others:
            raise RestFault(405, "UnsupportedOperationException", "this route does not take that method")
        if path == "/v1/oauth/tokens":
            raise RestFault(
                400, "BadRequestException",
                "no tokens are given here: show a token of yours as `token`, or a user and password",
            )  # fmt: skip
        raise not_found("NotFoundException", "this route is not served here")

    def _choose(self, query: Mapping[str, str]) -> str:
        for key in query:
            if key != "warehouse":
                raise bad_request(f"the parameter `{key[:60]}` is not known here")
        wanted = query.get("warehouse", "")
        if wanted in self._catalogs:
            return wanted
        if not wanted and len(self._catalogs) == 1:
            return self._catalogs[0]
        raise not_found("NoSuchWarehouseException", "name a catalog that is served here as `warehouse`")

    async def _config(self, call: RestCall) -> RestReply:
        # What the catalog itself would tell its clients has places and logins of theirs in it: none of it is
        # passed on.
        return reply_json(
            {
                "defaults": {},
                "overrides": {"prefix": call.catalog, "namespace-separator": "%1F"},
                "endpoints": [route.listed for route in self._routes],
            }
        )


def _explain(call: RestCall | None, error: Exception) -> RestFault:
    match error:
        case RestFault():
            return error
        case TimeoutError():
            return RestFault(503, "ServiceUnavailableException", "the call took too long")
        case LedgerUnavailable() | BackendUnavailable():
            return RestFault(503, "ServiceUnavailableException", error.text)
        case SluiceError():
            return RestFault(403, "ForbiddenException", error.text)
    _log.error("rest_request_failed", operation=call.name if call is not None else "", exc_info=error)
    return RestFault(500, "ServiceFailureException", "internal error; see the gateway's log")


def reply_fault(fault: RestFault) -> RestReply:
    """Return an error as the specification has it."""
    told = {"message": fault.message, "type": fault.kind, "code": fault.status}
    reply = reply_json({"error": told}, fault.status)
    if fault.retry_s is None:
        return reply
    return replace(reply, headers={"Retry-After": str(math.ceil(fault.retry_s))})


def _compile(path: str) -> re.Pattern[str]:
    pieces = [
        re.escape(one) if at % 2 == 0 else f"(?P<{one}>[^/]+)" for at, one in enumerate(_VARIABLE.split(path))
    ]
    return re.compile("".join(pieces))


def _read_parameters(text: str) -> dict[str, str]:
    try:
        found = parse_qsl(
            text,
            keep_blank_values=True,
            strict_parsing=bool(text),
            max_num_fields=MAX_PARAMETERS,
            errors="strict",
        )
    except (ValueError, UnicodeError):
        raise bad_request("parameters that cannot be read") from None
    if len(dict(found)) != len(found):
        raise bad_request("a parameter is given twice")
    return dict(found)
