"""The web console, put together from settings, logins, the record and the database."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from gateway import __version__
from gateway.admin.requests import Administrators
from gateway.app import console_policies, console_record
from gateway.app.console_tools import ConsoleTools
from gateway.app.gateway_parts import GatewayParts
from gateway.app.gateway_requests import (
    ask_health,
    end_session,
    list_sessions,
    list_statements,
    stop_statement,
)
from gateway.app.ranger_admin import RangerAdmin
from gateway.app.rest_logins import log_in_rest
from gateway.audit.search import Found, find_event
from gateway.catalog.token_exchange import NotExchanged, post_form, write_client_login
from gateway.console.guards import LOOPBACK
from gateway.console.login import ConsoleLogin
from gateway.console.login_sessions import ConsoleSession, LoginSessions
from gateway.console.oidc import OidcClient, OidcRefused
from gateway.console.pages.events import EventPages, build_event_part
from gateway.console.pages.live import LivePages, build_live_part
from gateway.console.pages.mine import Endpoints, MinePage, OwnToken, build_mine_part
from gateway.console.pages.overview import OverviewPage, build_overview_part
from gateway.console.rendering import PAGES
from gateway.console.routes import ConsolePart, ConsoleRoute, Recordable, Viewer
from gateway.console.site import ConsoleRoles, ConsoleSite
from gateway.console.texts import ShownTexts
from gateway.database.migrate import LazyPool
from gateway.errors import AuthenticationFailed, BackendUnavailable, PoliciesStale
from gateway.frontends.authentication import Authenticator
from gateway.frontends.jwt_logins import IssuerUnavailable, fetch_json
from gateway.frontends.login_chain import looks_like_jwt
from gateway.frontends.tokens import looks_like_token
from gateway.frontends.users import fingerprint
from gateway.model.audit import AuditEvent
from gateway.model.credentials import Bearer, Password
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session.recorder import Recorder
from gateway.settings.console import ConsoleSettings, OidcClientSettings
from gateway.settings.logins import JwtSettings
from gateway.settings.models import Settings

PROTOCOL = "console"
"""What the record says of how somebody came who looks at pages; of REST `console-rest`."""
CONNECTIONS = 8
MAX_BACKLOG = 32 * 1024**2
"""Bytes of events that are still on this gateway's disk alone, and are looked through for one."""
QUESTION_S = 15.0
"""For one question to the database."""
_FILE, _DIRECTORY, _ISSUER = "file ", "directory", "issuer"


def make_console(
    parts: GatewayParts, settings: ConsoleSettings, admin: RangerAdmin | None
) -> Mapping[str, Callable[[], web.Application]]:
    """Return the console's applications by the prefixes that they are mounted at. `admin`: the API whose
    policies they change and grant by. Raises Faults."""
    pool = LazyPool(parts.dsn, "sluice-console", most=CONNECTIONS, timeout_s=QUESTION_S)
    parts.stack.callback(pool.close)
    authenticator = parts.authenticator()
    tools = ConsoleTools(
        pool=pool,
        texts=ShownTexts(parts.reader.fingerprint),
        recorder=parts.recorder,
        public_url=settings.public_url,
        admin=admin,
    )
    parts.background.append(console_policies.keep_history(parts, tools))
    listener = parts.settings.listeners.admin
    secure = listener.tls is not None or settings.public_url.startswith("https:")
    login = ConsoleLogin(
        LoginSessions(pool),
        partial(_log_in, parts, authenticator),
        partial(_confirm, parts),
        secure=secure,
        oidc=make_oidc(settings, parts.settings.logins.jwt),
    )
    site = ConsoleSite(
        list_parts(parts, tools),
        roles=roles_of(settings),
        login=login,
        authenticate=partial(log_in_rest, authenticator, f"{PROTOCOL}-rest"),
        record=partial(_record, parts.recorder),
        hosts=hosts_of(settings, listener.host, secure=secure),
        version=__version__,
    )
    return {PAGES: site.pages_app, "/api/v1": site.api_app}


def list_parts(parts: GatewayParts, tools: ConsoleTools) -> Sequence[ConsolePart]:
    """Return all pages."""

    def find(connection: Any, event: uuid.UUID) -> Awaitable[tuple[Found | None, list[AuditEvent]]]:
        # Where much waits to be shipped, what is not in the database yet shows later.
        few = parts.ledger.metrics().backlog_bytes <= MAX_BACKLOG
        return find_event(connection, event, spool=parts.settings.ledger.directory if few else None)

    dsn = parts.dsn
    live = LivePages(
        partial(list_sessions, dsn),
        partial(list_statements, dsn),
        partial(stop_statement, dsn),
        partial(end_session, dsn),
        tools.texts,
        time.monotonic,
    )
    mine = MinePage(
        tools.pool.acquire,
        LoginSessions(tools.pool),
        live=live.show,
        stop=partial(stop_statement, dsn),
        end=partial(end_session, dsn),
        tokens=partial(_list_tokens, parts),
        policies=lambda: parts.rules.current,
        endpoints=endpoints_of(parts.settings, tools.public_url),
    )
    return [
        build_event_part(EventPages(tools.pool.acquire, find, tools.texts)),
        build_live_part(live),
        build_mine_part(mine),
        build_overview_part(
            OverviewPage(
                partial(ask_health, dsn),
                time.monotonic,
                partial(console_record.list_alarms, tools.pool),
            )
        ),
        *console_policies.list_parts(parts, tools),
        *console_record.list_parts(parts, tools),
    ]


def endpoints_of(settings: Settings, public_url: str) -> Endpoints:
    """Return where clients connect, as people are told it; a port that is chosen anew with each start is left
    out."""
    listeners = settings.listeners
    thrift, http, connect = listeners.thrift, listeners.thrift_http, listeners.connect
    iceberg = listeners.iceberg_rest
    bound = thrift.host if settings.serves_thrift or connect is None else connect.host
    is_everywhere = bound in ("::", "0.0.0.0")  # noqa: S104 - nothing is bound here
    host = urlsplit(public_url).hostname or ("localhost" if is_everywhere else bound)
    return Endpoints(
        host=f"[{host}]" if ":" in host else host,
        thrift=thrift.port if settings.serves_thrift else 0,
        thrift_tls=thrift.tls is not None,
        thrift_http=http.port if settings.serves_thrift and http is not None else 0,
        thrift_http_tls=http is not None and http.tls is not None,
        http_path=http.paths[0] if http is not None else "",
        connect=connect.port if connect is not None else 0,
        connect_tls=connect is not None and connect.tls is not None,
        iceberg_rest=iceberg.port if iceberg is not None else 0,
        iceberg_rest_tls=iceberg is not None and iceberg.tls is not None,
        iceberg_catalogs=iceberg.catalogs if iceberg is not None else (),
    )


def _list_tokens(parts: GatewayParts, name: str) -> list[OwnToken]:
    user = parts.users.users.get(name)
    return [
        OwnToken(
            id=one.id,
            label=one.label,
            expires=one.expires.isoformat() if one.expires is not None else "",
            endpoints=tuple(sorted(one.endpoints)),
            purpose=one.purpose,
        )
        for one in (user.tokens if user is not None else ())
    ]


def roles_of(settings: ConsoleSettings) -> ConsoleRoles:
    """Return who is what."""

    def people(users: Sequence[str], groups: Sequence[str]) -> Administrators:
        return Administrators(users=frozenset(users), groups=frozenset(groups))

    return ConsoleRoles(
        administrators=people(settings.administrators, settings.administrator_groups),
        auditors=people(settings.auditors, settings.auditor_groups),
        text_readers=people(settings.text_readers, settings.text_reader_groups),
    )


def hosts_of(settings: ConsoleSettings, host: str, *, secure: bool) -> frozenset[str]:
    """Return the names in `Host` that are answered: without TLS this machine's own alone."""
    if not secure:
        return LOOPBACK
    public = urlsplit(settings.public_url).hostname or ""
    return LOOPBACK | {one.lower() for one in (*settings.hosts, public, host) if one}


# -- logins --------------------------------------------------------------------------------------------------


async def _log_in(
    parts: GatewayParts, authenticator: Authenticator, shown: Password | Bearer, address: str
) -> tuple[Principal, str]:
    """Log somebody in as any endpoint does; return who it is, and what his session depends on. Raises
    AuthenticationFailed."""
    if isinstance(shown, Password) and (looks_like_token(shown.password) or looks_like_jwt(shown.password)):
        raise AuthenticationFailed("tokens are for programs; log in with your password")
    principal = await authenticator.login(shown, Client(address=address, protocol=PROTOCOL))
    user = parts.users.users.get(principal.user)
    if user is not None and user.principal.identity == principal.identity:
        return principal, _FILE + fingerprint(user)
    return principal, _DIRECTORY if isinstance(shown, Password) else _ISSUER


async def _confirm(parts: GatewayParts, session: ConsoleSession) -> Principal | None:
    """Return who has a session, with what is known of him now; None where it is over. Raises PoliciesStale,
    BackendUnavailable while nobody can say."""
    if (stale := parts.users.stale()) is not None:
        raise PoliciesStale(stale)
    name = session.principal.user
    user = parts.users.users.get(name)
    if session.stamp.startswith(_FILE) or user is not None:
        # Whatever of his entry has changed, his password among it, he logs in anew.
        return user.principal if user is not None and session.stamp == _FILE + fingerprint(user) else None
    if session.stamp == _ISSUER:
        return session.principal
    found = await parts.logins.known.find(name)
    if found.principal is None and found.is_away:
        raise BackendUnavailable(found.reason)
    return found.principal


async def _record(
    recorder: Recorder, viewer: Viewer, used: Recordable, asked: Mapping[str, Any], *, allowed: bool
) -> None:
    await recorder.record_console_use(
        viewer.principal,
        Client(address=viewer.address, protocol=PROTOCOL),
        action=used.name,
        asked=asked,
        changes=isinstance(used, ConsoleRoute) and used.changes,
        allowed=allowed,
    )


# -- the provider of tokens ----------------------------------------------------------------------------------


def make_oidc(settings: ConsoleSettings, tokens: JwtSettings | None) -> OidcClient | None:
    """Return the console as a client of the provider; None where it is none."""
    client = settings.oidc
    if client is None or tokens is None:
        return None
    return OidcClient(
        issuer=tokens.issuer,
        client_id=client.client_id,
        client_secret=_secret_of(client),
        redirect=f"{settings.public_url}{PAGES}/login/oidc/back",
        scopes=client.scopes,
        name=client.label,
        fetch=_fetch,
        post=_post,
    )


def _secret_of(client: OidcClientSettings) -> str | None:
    return client.client_secret.reveal() if client.client_secret is not None else None


async def _fetch(url: str) -> Any:
    try:
        return await fetch_json(url)
    except IssuerUnavailable as fault:
        raise OidcRefused(str(fault)) from None


async def _post(url: str, form: Mapping[str, str], login: tuple[str, str] | None) -> Any:
    """Post a form and return the JSON that is answered; redirects are not followed."""
    headers = {} if login is None else {"Authorization": write_client_login(*login)}
    try:
        status, data = await post_form(url, form, headers)
    except NotExchanged as fault:
        raise OidcRefused(f"the code brought no token: {fault}") from None
    if status != 200:
        raise OidcRefused(f"the provider answers {status} to the code")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        raise OidcRefused("the provider does not answer in JSON") from None
