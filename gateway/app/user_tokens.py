"""Whom users are shown as to a Spark that logs users in by itself, as `identity` of its settings says.

INVARIANT (nobody acts as somebody else): a token is of the very user whose session it is for. Where there is
none, the session is refused, and not opened by another.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import structlog

from gateway.app.catalogs import make_exchange
from gateway.app.public_keys import make_signer
from gateway.backends.token_signing import TokenSigner
from gateway.catalog.token_exchange import NotExchanged, TokenExchange
from gateway.errors import AuthenticationFailed, BackendUnavailable, Faults
from gateway.model.principal import Principal
from gateway.model.spark_logins import SparkLogin
from gateway.settings.backends import BackendSettings, IdentitySettings
from gateway.settings.models import Settings

_log = structlog.get_logger(__name__)

UserTokens = Callable[[SparkLogin], Awaitable[str]]
"""Returns the token of a user. Raises AuthenticationFailed, BackendUnavailable."""
MISSING = "this Spark takes users by tokens of their own; log in by one of the issuer's"


def make_user_tokens(
    settings: Settings, backend: BackendSettings, hide: Callable[[str], None], gateway: str = ""
) -> UserTokens | None:
    """Return what makes the tokens for a Spark; None where users are shown by name alone. `hide` is told each
    token: no client reads it in what Spark says. `gateway`: who says so to another Sluice. Raises Faults."""
    is_sluice = backend.connect is not None and backend.connect.sluice
    make = _choose_tokens(settings, backend, (gateway or "sluice") if is_sluice else "")
    if make is None:
        return None

    async def make_hidden(login: SparkLogin) -> str:
        token = await make(login)
        hide(token)
        return token

    return make_hidden


def _choose_tokens(settings: Settings, backend: BackendSettings, gateway: str) -> UserTokens | None:
    identity = backend.identity
    if identity is None:
        return None
    token = backend.connect.token if backend.connect is not None else None
    own = None if token is None else _own_token(token.reveal())
    match identity.by:
        case "signed" if settings.token_signing is not None:
            return partial(_sign, make_signer(settings.token_signing), identity, own, gateway)
        case "exchanged" if (exchange := make_exchange(settings)) is not None:
            return partial(_exchange, exchange, identity.audience, own)
        case "passed_on" if own is not None:
            return partial(_pass_on, own)
    raise Faults([f"`identity: {{by: {identity.by}}}` lacks what it needs"])


def _own_token(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or token != token.strip():
        raise Faults(["`backend.connect.token` has surrounding blanks or non-ASCII characters"])
    return token


async def _sign(
    signer: TokenSigner, identity: IdentitySettings, own: str | None, gateway: str, login: SparkLogin
) -> str:
    if login.is_gateway:
        return own or signer.sign(Principal(user=identity.own_user), identity.audience, (), gateway)
    user = login.principal
    if user.user == identity.own_user:  # RULE (own-name-is-nobodys)
        raise AuthenticationFailed("the name is the gateway's own at this Spark")
    groups = user.groups if identity.groups is None else user.groups & frozenset(identity.groups)
    return signer.sign(user, identity.audience, groups, gateway)


async def _exchange(exchange: TokenExchange, audience: str, own: str | None, login: SparkLogin) -> str:
    try:
        if login.is_gateway:
            return own or await exchange.fetch_own(audience)
        if not login.shown:  # RULE (no-token-no-exchange)
            raise AuthenticationFailed(MISSING)
        return await exchange.exchange(login.shown, audience)
    except NotExchanged as fault:
        _log.warning("token_not_exchanged", audience=audience, reason=str(fault))
        if fault.is_refusal and not login.is_gateway:
            raise AuthenticationFailed(
                "the issuer gives no token for yours; it may have expired: log in again"
            ) from None
        raise BackendUnavailable("the issuer of tokens for this Spark cannot be asked") from None
    except Faults:
        raise BackendUnavailable("the secret for the issuer of tokens cannot be read") from None


async def _pass_on(own: str, login: SparkLogin) -> str:
    if login.is_gateway:
        return own
    if not login.shown:  # RULE (no-token-none-passed-on)
        raise AuthenticationFailed(MISSING)
    return login.shown
