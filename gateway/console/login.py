"""Logins to the console: a form that takes names and passwords, or the provider of tokens (`console.oidc`),
and the session that a browser has afterwards.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import structlog
from aiohttp import web

from gateway.admin.requests import BadRequest
from gateway.console.forms import FormTooOld, form_of
from gateway.console.login_sessions import (
    LONGEST_S,
    Confirm,
    SessionStore,
    derive,
    is_secret,
    key_of,
    new_secret,
)
from gateway.console.oidc import OidcClient, OidcRefused
from gateway.console.rendering import PAGES, is_local
from gateway.errors import AuthenticationFailed
from gateway.model.credentials import Bearer, Password
from gateway.model.principal import Principal

_log = structlog.get_logger(__name__)

LogIn = Callable[[Password | Bearer, str], Awaitable[tuple[Principal, str]]]
"""Credentials and address → who that is, and the stamp of his entry in the user file. Raises
AuthenticationFailed."""
LOGIN_S = 900
"""How long the login page counts."""
MAX_USER_CHARS = 200
MAX_PASSWORD_CHARS = 16_384
FRONT = f"{PAGES}/"
REFUSED = "The user name or the password is wrong, or you may not log in."


class ConsoleLogin:
    """The pages of logins, and who is logged in."""

    def __init__(
        self,
        store: SessionStore,
        log_in: LogIn,
        confirm: Confirm,
        *,
        secure: bool,
        oidc: OidcClient | None = None,
    ) -> None:
        """`secure`: whether browsers reach the console by TLS; else it is on this machine alone, and a cookie
        cannot be bound to TLS."""
        self._store = store
        self._log_in = log_in
        self._confirm = confirm
        self._secure = secure
        self._oidc = oidc
        prefix = "__Host-" if secure else ""
        self.cookie = f"{prefix}sluice-console"
        self._before = f"{prefix}sluice-login"
        self.render: Callable[..., str] = _not_there

    def add_routes(self, app: web.Application) -> None:
        app.router.add_get("/login", self._show)
        app.router.add_post("/login", self._take)
        app.router.add_post("/logout", self._log_out)
        if self._oidc is not None:
            app.router.add_get("/login/oidc", self._begin_oidc)
            app.router.add_get("/login/oidc/back", self._end_oidc)

    # -- who is logged in ----------------------------------------------------------------------------------

    async def find(self, request: web.Request) -> tuple[Principal, str] | None:
        """Return who is logged in, and what his forms send; None for nobody."""
        secret = request.cookies.get(self.cookie, "")
        if not is_secret(secret):
            return None
        session = await self._store.find(key_of(secret))
        if session is None:
            return None
        principal = await self._confirm(session)
        # RULE (console-removed-user)
        if principal is None or principal.identity != session.principal.identity:
            await self._store.close(session.key)
            return None
        return principal, derive(secret, "form")

    def require_token(self, token: str, given: str) -> None:
        """Raise FormTooOld where a change does not come from one of our own pages. `token`: empty for
        who has shown a password or a token with the request itself."""
        if token and not hmac.compare_digest(token.encode(), given.encode()):  # RULE (console-csrf)
            raise FormTooOld("the form is not of this session; open the page again")

    def redirect(self, request: web.Request) -> web.Response:
        """Lead to the login, and from there back."""
        return _to(self.address(request.path_qs))

    def address(self, following: str) -> str:
        """Return the address of the login that leads to a page."""
        query = f"?{urlencode({'next': following})}" if is_local(following) and following != FRONT else ""
        return f"{PAGES}/login{query}"

    # -- by the form ---------------------------------------------------------------------------------------

    async def _show(self, request: web.Request) -> web.Response:
        if await self.find(request) is not None:
            return _to(_next(request.query.get("next", "")))
        return self._page(request, request.query.get("next", ""))

    def _page(self, request: web.Request, following: str, *, fault: str = "", user: str = "") -> web.Response:
        secret = request.cookies.get(self._before, "")
        secret = secret if is_secret(secret) else new_secret()
        text = self.render(
            "login.html",
            csrf_token=derive(secret, "login"),
            following=_next(following),
            fault=fault,
            user=user,
            oidc=self._oidc.name if self._oidc is not None else "",
            oidc_link=f"{PAGES}/login/oidc?{urlencode({'next': _next(following)})}",
        )
        answer = web.Response(text=text, content_type="text/html", status=401 if fault else 200)
        self._set(answer, self._before, secret, LOGIN_S)
        return answer

    async def _take(self, request: web.Request) -> web.Response:
        given = {name: values[-1] for name, values in (await form_of(request)).items()}
        before = request.cookies.get(self._before, "")
        following = given.get("next", "")
        user, password = given.get("user", ""), given.get("password", "")
        token = derive(before, "login") if is_secret(before) else ""
        # RULE (console-login-csrf)
        if not token or not hmac.compare_digest(token.encode(), given.get("csrf", "").encode()):
            return self._page(request, following, fault="The page was too old. Log in again.", user=user)
        if not user or len(user) > MAX_USER_CHARS or len(password) > MAX_PASSWORD_CHARS:
            return self._page(request, following, fault=REFUSED)
        try:
            principal, stamp = await self._log_in(Password(user, password), request.remote or "")
        except AuthenticationFailed as error:
            return self._page(request, following, fault=f"{REFUSED} ({error.message})", user=user)
        return await self._open(request, principal, stamp, following)

    async def _open(
        self, request: web.Request, principal: Principal, stamp: str, following: str
    ) -> web.Response:
        """Begin a session under a name that nobody has known before."""
        old = request.cookies.get(self.cookie, "")
        if is_secret(old):
            await self._store.close(key_of(old))
        secret = new_secret()  # RULE (console-session-fixation)
        await self._store.open(key_of(secret), principal, stamp, request.remote or "")
        answer = _to(_next(following))
        self._set(answer, self.cookie, secret, round(LONGEST_S))
        self._delete(answer, self._before)
        return answer

    async def _log_out(self, request: web.Request) -> web.Response:
        secret = request.cookies.get(self.cookie, "")
        if is_secret(secret):
            given = (await form_of(request)).get("csrf", [""])[0]
            self.require_token(derive(secret, "form"), given)
            await self._store.close(key_of(secret))
        answer = _to(f"{PAGES}/login")
        self._delete(answer, self.cookie)
        return answer

    # -- by the provider -----------------------------------------------------------------------------------

    async def _begin_oidc(self, request: web.Request) -> web.Response:
        if self._oidc is None:
            raise BadRequest("there is no provider")
        secret = new_secret()
        try:
            address = await self._oidc.begin(secret, _next(request.query.get("next", "")))
        except OidcRefused as refused:
            return self._page(request, "", fault=f"The login failed: {refused}.")
        answer = _to(address)
        self._set(answer, self._before, secret, LOGIN_S)
        return answer

    async def _end_oidc(self, request: web.Request) -> web.Response:
        if self._oidc is None:
            raise BadRequest("there is no provider")
        secret = request.cookies.get(self._before, "")
        try:
            if not is_secret(secret):
                raise OidcRefused("the login was not begun in this browser, or too long ago")
            token, following = await self._oidc.end(secret, request.query)
            principal, stamp = await self._log_in(Bearer(token), request.remote or "")
        except OidcRefused as refused:
            _log.info("console_oidc_refused", reason=str(refused))
            return self._page(request, "", fault=f"The login failed: {refused}.")
        except AuthenticationFailed as error:
            return self._page(request, "", fault=f"The login failed: {error.message}.")
        return await self._open(request, principal, stamp, following)

    # -- cookies -------------------------------------------------------------------------------------------

    def _set(self, answer: web.Response, name: str, value: str, age_s: int) -> None:
        answer.set_cookie(
            name, value, max_age=age_s, path="/", httponly=True, samesite="Lax", secure=self._secure
        )

    def _delete(self, answer: web.Response, name: str) -> None:
        answer.del_cookie(name, path="/", httponly=True, samesite="Lax", secure=self._secure)


def _next(following: str) -> str:
    """Return where a login leads: to one of our pages, whatever a link says."""
    return following if is_local(following) and not following.startswith(f"{PAGES}/log") else FRONT


def _to(address: str) -> web.Response:
    return web.Response(status=303, headers={"Location": address})


def _not_there(*_: Any, **__: Any) -> str:
    raise RuntimeError("the login belongs to no site")
