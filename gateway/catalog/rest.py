"""JSON over HTTP, as catalogs with a REST API have it: logins, deadlines, and a bound on every answer."""

from __future__ import annotations

import asyncio
import base64
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from gateway.catalog.readable import CatalogRefused, CatalogUnavailable, NotSupported
from gateway.model.bounded import read_bounded

MAX_LINE_CHARS = 200
"""How much of a server's own words stands in a message."""
UNAUTHORIZED = 401
EARLY_S = 30.0
"""Seconds before its end at which a token is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestLogin:
    """How a server is logged in to; without anything: not at all. A user counts before a credential, and that
    before a token."""

    token: str = field(default="", repr=False)
    """A bearer token."""
    user: str = ""
    password: str = field(default="", repr=False)
    """HTTP's basic login."""
    token_url: str = ""
    """Where the credential is exchanged for a token; a path is one below the server's address."""
    credential: str = field(default="", repr=False)
    """OAuth2's client credentials: `ID:SECRET`, or a secret by itself."""
    scope: str = ""
    more: Mapping[str, str] = field(default_factory=dict)
    """What else is said when the credential is exchanged: `audience`, `resource`."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What every question has, that for a token too."""


Login = Callable[[], RestLogin]
"""Reads the secrets as they are now. Raises Faults when one cannot be had."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestAnswer:
    """An answer as the server gave it, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By names in lower case."""
    content: bytes = field(default=b"", repr=False)


class CatalogError(Exception):
    """An answer with an error status; `kind` is the server's own name for the error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Granted:
    """What questions show, until when by the clock, or until it is refused."""

    headers: Mapping[str, str] = field(repr=False)
    authorization: Mapping[str, str] = field(repr=False)
    """The header of this name, where there is a login."""
    until: float = math.inf


class RestClient:
    """Speaks to one server. Everything raises CatalogUnavailable when it gives no answer of HTTP and JSON,
    and Faults when a secret cannot be had.

    It logs in with the first question, and anew when a token ends or is refused: then secrets are read again,
    which may have been replaced.
    """

    def __init__(
        self,
        url: str,
        login: Login,
        *,
        accept: str = "application/json",
        told: Callable[[Any], tuple[str, str]],
        timeout_s: float = 30.0,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`told` reads kind and message out of the JSON of an error."""
        self._url = self._login_url = url.rstrip("/")
        self._login = login
        self._accept = accept
        self._read_error = told
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._clock = clock
        self._usual: Mapping[str, str] = {}
        self._always: Mapping[str, str] = {}
        self._granted: _Granted | None = None
        self._logging_in = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the JSON of an answer, None where it is empty. Raises CatalogError for an error status."""
        content = None if body is None else json.dumps(body).encode()
        answer = await self.relay(method, path, query=query, content=content)
        if answer.status >= 400:
            kind, message = self._error(answer.content)
            raise CatalogError(answer.status, kind, message[:MAX_LINE_CHARS])
        return self._json(answer.content) if answer.content.strip() else None

    async def relay(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RestAnswer:
        """Return an answer undecoded; `content` is JSON, and `headers` are sent beside the client's own."""
        url = f"{self._url}/{path}"
        granted = await self._authorize()
        answer = await self._send_request(method, url, granted, headers, params=query, data=content)
        if answer.status == UNAUTHORIZED:
            # Once: who is refused with what is new is refused.
            anew = await self._authorize(refused=granted)
            if (anew.headers, anew.authorization) != (granted.headers, granted.authorization):
                answer = await self._send_request(method, url, anew, headers, params=query, data=content)
        return answer

    def move(self, url: str) -> None:
        """Ask at another address from now on; logins stay where they are. Raises CatalogUnavailable for none,
        and for one that would show in the clear what was encrypted."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CatalogUnavailable(f"{self._host}: redirects to an invalid address")
        if parts.scheme == "http" and urlsplit(self._url).scheme == "https":
            raise CatalogUnavailable(f"{self._host}: redirects to an unencrypted address")
        self._url = url.rstrip("/")

    def set_wanted_headers(self, usual: Mapping[str, str], always: Mapping[str, str]) -> None:
        """Show the headers that the server wants: some where the login says no others, and some always."""
        self._usual, self._always = usual, always

    async def _send_request(
        self, method: str, url: str, granted: _Granted, more: Mapping[str, str] | None, **request: Any
    ) -> RestAnswer:
        own = {"Accept": self._accept, **(more or {})}
        if request.get("data") is not None:
            own["Content-Type"] = "application/json"
        headers = _merge_headers(own, self._usual, granted.headers, self._always, granted.authorization)
        return await self._send(method, url, headers=headers, **request)

    async def _authorize(self, refused: _Granted | None = None) -> _Granted:
        """Return what is shown now, and not what was refused if anything else can be had."""
        # Those who are refused together log in together.
        async with self._logging_in:
            granted = self._granted
            if granted is None or granted is refused or self._clock() >= granted.until:
                granted = self._granted = await self._log_in()
            return granted

    async def _log_in(self) -> _Granted:
        login = self._login()
        if login.user:
            plain = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            return _build_granted(login, f"Basic {plain}")
        if login.credential:
            return await self._exchange(login)
        return _build_granted(login, f"Bearer {login.token}" if login.token else "")

    async def _exchange(self, login: RestLogin) -> _Granted:
        # A secret may hold colons, an id may not: so Iceberg and Gravitino read it.
        ident, colon, secret = login.credential.partition(":")
        if not colon:
            ident, secret = "", ident
        form = {"grant_type": "client_credentials", "client_secret": secret, **login.more}
        if ident:
            form["client_id"] = ident
        if login.scope:
            form["scope"] = login.scope
        url = login.token_url
        if not url.lower().startswith(("http://", "https://")):
            url = f"{self._login_url}/{url.lstrip('/')}"
        first = _build_granted(login, f"Bearer {login.token}" if login.token else "")
        headers = _merge_headers(first.headers, first.authorization)
        told = await self._send("POST", url, headers=headers, data=form)
        # An answer to a login is not told: it may repeat what was sent.
        if told.status >= 400:
            raise CatalogUnavailable(f"{self._host}: the login was refused with status {told.status}")
        answer = self._json(told.content)
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str) or not token:
            raise CatalogUnavailable(f"{self._host}: the login returned no token")
        lasts_s = _seconds(answer.get("expires_in"))
        until = math.inf if lasts_s is None else self._clock() + max(lasts_s - EARLY_S, 1.0)
        return _build_granted(login, f"Bearer {token}", until)

    async def _send(self, method: str, url: str, **request: Any) -> RestAnswer:
        if self._session is None:
            # No redirects: a login would go with them to whoever is named there.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._timeout_s))
        try:
            async with self._session.request(method, url, allow_redirects=False, **request) as answer:
                content = await read_bounded(answer.content.read, self._max_bytes)
                status = answer.status
                told = {name.lower(): value for name, value in answer.headers.items()}
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise CatalogUnavailable(f"{self._host}: no answer ({type(error).__name__})") from None
        if content is None:
            raise CatalogUnavailable(f"{self._host}: a response of more than {self._max_bytes} bytes")
        if 300 <= status < 400:
            raise CatalogUnavailable(f"{self._host}: answers with a redirect, which is not followed")
        return RestAnswer(status=status, headers=told, content=content)

    @property
    def _host(self) -> str:
        return urlsplit(self._url).netloc.rpartition("@")[2]

    def _json(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise CatalogUnavailable(f"{self._host}: a response that is not JSON") from None

    def _error(self, content: bytes) -> tuple[str, str]:
        try:
            return self._read_error(json.loads(content))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return "", "an error without a message"


def _build_granted(login: RestLogin, authorization: str, until: float = math.inf) -> _Granted:
    shown = {"Authorization": authorization} if authorization else {}
    return _Granted(headers=login.headers, authorization=shown, until=until)


def _merge_headers(*headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers of which a later one replaces an earlier one, however it is written."""
    last = {name.lower(): (name, value) for one in headers for name, value in one.items()}
    return dict(last.values())


def _seconds(told: Any) -> float | None:
    """Return how long a token lasts, which some servers write as a text; None when it is not told."""
    try:
        lasts_s = math.nan if isinstance(told, bool) else float(told)
    except (TypeError, ValueError, OverflowError):
        return None
    return lasts_s if math.isfinite(lasts_s) else None


def unavailable(error: CatalogError) -> CatalogUnavailable:
    """Return what an error status means where something was asked."""
    return CatalogUnavailable(f"the server answers with status {error.status}: {error.message}")


def build_lookup_error(error: CatalogError, missing: Exception) -> Exception:
    """Return what an error status means where something was looked up: `missing` for 404."""
    return missing if error.status == 404 else unavailable(error)


@contextmanager
def refusals(missing: Exception | None, conflict: Exception) -> Iterator[None]:
    """Raise what a CatalogError within means: `missing` for 404, `conflict` for 409."""
    try:
        yield
    except CatalogError as error:
        if error.status == 404 and missing is not None:
            raise missing from None
        if error.status == 409:
            raise conflict from None
        if error.status in (405, 406, 501):
            raise NotSupported(f"the server does not support this: {error.message}") from None
        if error.status >= 500:
            raise unavailable(error) from None
        raise CatalogRefused(f"the server refuses with status {error.status}: {error.message}") from None


def read_object(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object. Raises CatalogUnavailable."""
    if not isinstance(value, dict):
        raise CatalogUnavailable(f"the `{what}` of the response is not an object")
    return value


def items(value: Any, what: str) -> list[Any]:
    """Return a JSON array. Raises CatalogUnavailable."""
    if not isinstance(value, list):
        raise CatalogUnavailable(f"the `{what}` of the response is not an array")
    return value


def text(value: Any, what: str) -> str:
    """Return a JSON string. Raises CatalogUnavailable."""
    if not isinstance(value, str):
        raise CatalogUnavailable(f"the `{what}` of the response is not a text")
    return value


def properties(value: Any) -> dict[str, str]:
    """Return a JSON object's texts, none when there is no object."""
    found = value if isinstance(value, dict) else {}
    return {key: str(one) for key, one in found.items() if one is not None}
