"""JSON over HTTP, as catalogs with a REST API have it: logins, deadlines, and a bound on every answer."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from gateway.catalog.readable import CatalogRefused, CatalogUnavailable, NotSupported

TOLD_CHARS = 200
"""How much of a server's own words stands in a message."""
EARLY_S = 30.0
"""Seconds before its end at which a token is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestLogin:
    """How a server is logged in to; without anything: not at all."""

    token: str = field(default="", repr=False)
    """A bearer token."""
    user: str = ""
    password: str = field(default="", repr=False)
    """HTTP's basic login."""
    token_url: str = ""
    """Where OAuth2's client credentials are exchanged for a token."""
    credential: str = field(default="", repr=False)
    """`ID:SECRET`, or a secret by itself."""
    scope: str = ""


class CatalogError(Exception):
    """An answer with an error status; `kind` is the server's own name for the error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message


class RestClient:
    """Speaks to one server. Everything raises CatalogUnavailable when it gives no answer of HTTP and JSON."""

    def __init__(
        self,
        url: str,
        login: RestLogin,
        *,
        accept: str = "application/json",
        told: Callable[[Any], tuple[str, str]],
        timeout_s: float = 30.0,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`told` reads kind and message out of the JSON of an error."""
        self._url = url.rstrip("/")
        self._login = login
        self._accept = accept
        self._told = told
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._clock = clock
        self._token = login.token
        self._token_until = float("inf")
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
        headers = {"Accept": self._accept, **await self._authorization()}
        url = f"{self._url}/{path}"
        status, content = await self._send(method, url, headers=headers, params=query, json=body)
        if status >= 400:
            kind, message = self._error(content)
            raise CatalogError(status, kind, message[:TOLD_CHARS])
        return self._json(content) if content.strip() else None

    async def _authorization(self) -> dict[str, str]:
        login = self._login
        if login.user:
            plain = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
            return {"Authorization": f"Basic {plain}"}
        if login.token_url and (not self._token or self._clock() >= self._token_until):
            await self._log_in()
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    async def _log_in(self) -> None:
        # A secret may hold colons, an id may not: so Iceberg and Gravitino read it.
        ident, colon, secret = self._login.credential.partition(":")
        if not colon:
            ident, secret = "", ident
        form = {"grant_type": "client_credentials", "client_secret": secret}
        if ident:
            form["client_id"] = ident
        if self._login.scope:
            form["scope"] = self._login.scope
        status, content = await self._send("POST", self._login.token_url, headers={}, data=form)
        # An answer to a login is not told: it may repeat what was sent.
        if status >= 400:
            raise CatalogUnavailable(f"{self._host}: the login was refused with status {status}")
        granted = self._json(content)
        token = granted.get("access_token") if isinstance(granted, dict) else None
        if not isinstance(token, str) or not token:
            raise CatalogUnavailable(f"{self._host}: the login gave no token")
        lasts = granted.get("expires_in")
        known = isinstance(lasts, int | float) and not isinstance(lasts, bool)
        self._token = token
        self._token_until = self._clock() + max(float(lasts) - EARLY_S, 1.0) if known else float("inf")

    async def _send(self, method: str, url: str, **request: Any) -> tuple[int, bytes]:
        if self._session is None:
            # No redirects: a login would go with them to whoever is named there.
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._timeout_s))
        try:
            async with self._session.request(method, url, allow_redirects=False, **request) as answer:
                content = await answer.content.read(self._max_bytes + 1)
                while len(content) <= self._max_bytes and (
                    more := await answer.content.read(self._max_bytes)
                ):
                    content += more
                status = answer.status
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            raise CatalogUnavailable(f"{self._host}: no answer ({type(error).__name__})") from None
        if len(content) > self._max_bytes:
            raise CatalogUnavailable(f"{self._host}: an answer of more than {self._max_bytes} bytes")
        if 300 <= status < 400:
            raise CatalogUnavailable(f"{self._host}: answers with a redirection, which is not followed")
        return status, content

    @property
    def _host(self) -> str:
        return urlsplit(self._url).netloc.rpartition("@")[2]

    def _json(self, content: bytes) -> Any:
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise CatalogUnavailable(f"{self._host}: an answer that is not JSON") from None

    def _error(self, content: bytes) -> tuple[str, str]:
        try:
            return self._told(json.loads(content))
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            return "", "an error without a message"


def refused(error: CatalogError, missing: Exception | None) -> Exception:
    """Return what an error status means of something that was to be done."""
    if error.status == 404 and missing is not None:
        return missing
    if error.status in (405, 406, 501):
        return NotSupported(f"the server cannot do that: {error.message}")
    if error.status >= 500:
        return unavailable(error)
    return CatalogRefused(f"the server refuses with status {error.status}: {error.message}")


def unavailable(error: CatalogError) -> CatalogUnavailable:
    """Return what an error status means where something was asked."""
    return CatalogUnavailable(f"the server answers with status {error.status}: {error.message}")


def missed(error: CatalogError, missing: Exception) -> Exception:
    """Return what an error status means where something was looked up: `missing` for 404."""
    return missing if error.status == 404 else unavailable(error)


@contextmanager
def refusals(
    missing: Exception | None, conflict: Exception | None = None, *, ignored: int = 0
) -> Iterator[None]:
    """Raise what a CatalogError within means: `missing` for 404, `conflict` for 409; `ignored` is none."""
    try:
        yield
    except CatalogError as error:
        if error.status == ignored:
            return
        if error.status == 409 and conflict is not None:
            raise conflict from None
        raise refused(error, missing) from None


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return a JSON object. Raises CatalogUnavailable."""
    if not isinstance(value, dict):
        raise CatalogUnavailable(f"an answer whose {what} is no object")
    return value


def items(value: Any, what: str) -> list[Any]:
    """Return a JSON array. Raises CatalogUnavailable."""
    if not isinstance(value, list):
        raise CatalogUnavailable(f"an answer whose {what} is no array")
    return value


def text(value: Any, what: str) -> str:
    """Return a JSON string. Raises CatalogUnavailable."""
    if not isinstance(value, str):
        raise CatalogUnavailable(f"an answer whose {what} is no text")
    return value


def properties(value: Any) -> dict[str, str]:
    """Return a JSON object's texts, none when there is no object."""
    found = value if isinstance(value, dict) else {}
    return {key: str(one) for key, one in found.items() if one is not None}
