"""A console without a gateway: logins by a list of passwords, sessions in memory, a record that is a list."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from gateway.admin.requests import Administrators
from gateway.console.guards import LOOPBACK
from gateway.console.login import ConsoleLogin
from gateway.console.login_sessions import ConsoleSession, derive, key_of, new_secret
from gateway.console.oidc import OidcClient
from gateway.console.routes import ConsolePart, Recordable, Viewer
from gateway.console.site import ConsoleRoles, ConsoleSite
from gateway.errors import AuthenticationFailed, LedgerUnavailable
from gateway.model.credentials import Bearer, Credentials, Password
from gateway.model.principal import Principal

PASSWORDS = {name: f"{name}s password" for name in ("ann", "ben", "cleo", "dora")}
"""`ann` administers, `ben` audits, `cleo` does neither, `dora` audits and sees texts."""


def people(*users: str) -> Administrators:
    return Administrators(users=frozenset(users), groups=frozenset())


ROLES = ConsoleRoles(
    administrators=people("ann"), auditors=people("ben", "dora"), text_readers=people("dora")
)


def viewer(name: str) -> Viewer:
    """Return one of the people as a page sees him."""
    return ROLES.viewer(Principal(user=name, groups=frozenset({"staff"})), "127.0.0.1")


@dataclass
class MemorySessions:
    """Sessions by the hash of their cookies."""

    kept: dict[bytes, ConsoleSession] = field(default_factory=dict)

    async def open(self, key: bytes, principal: Principal, stamp: str, address: str) -> None:
        now = datetime.now(UTC)
        self.kept[key] = ConsoleSession(
            principal=principal, stamp=stamp, address=address, opened_at=now, seen_at=now, key=key
        )

    async def find(self, key: bytes) -> ConsoleSession | None:
        return self.kept.get(key)

    async def close(self, key: bytes) -> None:
        self.kept.pop(key, None)

    async def list_of(self, user: str) -> list[ConsoleSession]:
        return [one for one in self.kept.values() if one.principal.user == user]

    async def close_others(self, user: str, key: bytes) -> int:
        others = [one.key for one in await self.list_of(user) if one.key != key]
        for one in others:
            await self.close(one)
        return len(others)


class FakeConsole:
    """The applications, with what they have recorded and who is known."""

    def __init__(
        self, parts: Sequence[ConsolePart], *, secure: bool = False, oidc: OidcClient | None = None
    ) -> None:
        self.sessions = MemorySessions()
        self.recorded: list[tuple[str, str, Mapping[str, Any], bool]] = []
        self.people = set(PASSWORDS)
        self.ledger_is_away = False
        self.login = ConsoleLogin(self.sessions, self._log_in, self._confirm, secure=secure, oidc=oidc)
        self.site = ConsoleSite(
            parts,
            roles=ROLES,
            login=self.login,
            authenticate=self._authenticate,
            record=self._record,
            hosts=LOOPBACK | {"console.example"},
            version="1",
        )

    def app(self) -> web.Application:
        app = web.Application()
        app.add_subapp("/console", self.site.pages_app())
        app.add_subapp("/api/v1", self.site.api_app())
        return app

    async def open_session(self, name: str) -> str:
        """Return the secret of a new session."""
        secret = new_secret()
        await self.sessions.open(key_of(secret), Principal(user=name), "", "")
        return secret

    async def _log_in(self, shown: Password | Bearer, address: str) -> tuple[Principal, str]:
        if isinstance(shown, Bearer):
            return Principal(user="cleo"), "issuer"
        if PASSWORDS.get(shown.user) != shown.password:
            raise AuthenticationFailed("invalid user name or password")
        return Principal(user=shown.user), ""

    async def _confirm(self, session: ConsoleSession) -> Principal | None:
        return session.principal if session.principal.user in self.people else None

    async def _authenticate(self, shown: Credentials, address: str) -> Principal | None:
        if not isinstance(shown, Password):
            return None
        return (await self._log_in(shown, address))[0]

    async def _record(
        self, viewer: Viewer, used: Recordable, asked: Mapping[str, Any], *, allowed: bool
    ) -> None:
        if self.ledger_is_away:
            raise LedgerUnavailable("the disk is full")
        self.recorded.append((viewer.user, used.name, asked, allowed))


@dataclass
class Browser:
    """Somebody at the console: his cookie, and what his forms send."""

    http: aiohttp.ClientSession
    url: str
    secret: str = ""
    name: str = "sluice-console"

    @property
    def csrf(self) -> str:
        return derive(self.secret, "form") if self.secret else ""

    async def ask(self, method: str, path: str, **given: Any) -> tuple[int, str, Mapping[str, str]]:
        """Return status, text and headers; redirects are not followed."""
        headers = {"Sec-Fetch-Site": "same-origin", **given.pop("headers", {})}
        if self.secret:
            headers.setdefault("Cookie", f"{self.name}={self.secret}")
        async with self.http.request(
            method, self.url + path, headers=headers, allow_redirects=False, **given
        ) as answer:
            return answer.status, await answer.text(), answer.headers


@asynccontextmanager
async def serving(console: FakeConsole) -> AsyncIterator[Browser]:
    """Serve the console, and yield a browser in which nobody is logged in."""
    server = TestServer(console.app())
    await server.start_server()
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        try:
            yield Browser(http, str(server.make_url("")).rstrip("/"))
        finally:
            await server.close()


async def as_user(console: FakeConsole, browser: Browser, name: str) -> Browser:
    """Return a browser in which somebody is logged in."""
    return Browser(browser.http, browser.url, await console.open_session(name))
