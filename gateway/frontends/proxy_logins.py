"""Logins by a proxy that has authenticated its users, such as a balancer with single sign-on: it names them
in a header, and proves itself by a secret in another.

Knox logs in by itself, and acts as its users: that is `impersonation`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway.errors import Faults
from gateway.frontends.known_users import KnownUsers
from gateway.frontends.login_chain import LoginKind, LoginOutcome
from gateway.frontends.login_mechanisms import SimpleMechanism
from gateway.model.credentials import Credentials, ProxiedUser, UnreadableLogin
from gateway.model.networks import Network, is_within

MAX_USER_CHARS = 200


NOT_PROVED = "the proxy has not proved itself"
TWO_LOGINS = "two logins in one request"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRule:
    """Which proxies may say who somebody is."""

    addresses: Sequence[Network]
    """Of the connection itself, whatever headers say."""
    user_header: str
    secret_header: str
    secret: Callable[[], str] = field(repr=False)
    lower: bool = False
    unlisted: bool = False
    """Whether users that are neither in the user file nor in the directory log in, of no group."""


class ProxyLogins(SimpleMechanism):
    """Turns names that proxies give into principals."""

    kinds: frozenset[LoginKind] = frozenset({"PROXY"})
    description = "authenticating proxies"

    def __init__(self, rule: ProxyRule, known: KnownUsers) -> None:
        self.rule = rule
        self._known = known

    async def check(self, shown: Credentials) -> LoginOutcome:
        """Say who the user is that a proxy names, who has proved itself."""
        if not isinstance(shown, ProxiedUser):
            return LoginOutcome(diagnosis="skipped")
        return await self._known.find(shown.user, unlisted=self.rule.unlisted)


def read_proxied_user(
    read: Callable[[str], Sequence[str]], peer: str, rule: ProxyRule | None, *, has_login: bool
) -> ProxiedUser | UnreadableLogin | None:
    """Return whom a proxy names in a request; None where none does. `read`: gives all headers of a name;
    `peer`: where the connection comes from; `has_login`: whether there is an `Authorization`, too.

    Headers from anywhere else are what any client may write, and count for nothing. A proxy that proves
    nothing is an UnreadableLogin, and so are two logins, of which the client may have written one.
    """
    if rule is None or not is_within(peer, rule.addresses):  # RULE (proxy-address)
        return None
    users, secrets = read(rule.user_header), read(rule.secret_header)
    if not users and not secrets:
        return None
    try:
        expected = rule.secret()
    except Faults:
        expected = ""
    is_proved = len(secrets) == 1 and hmac.compare_digest(_bytes(secrets[0]), _bytes(expected))
    if not expected or not is_proved:  # RULE (proxy-secret)
        return UnreadableLogin(NOT_PROVED, "PROXY")
    if has_login or len(users) != 1:  # RULE (proxy-two-logins)
        return UnreadableLogin(TWO_LOGINS, "PROXY")
    user: str = users[0].strip()
    if not 0 < len(user) <= MAX_USER_CHARS or not user.isprintable():
        return UnreadableLogin("the proxy names no user", "PROXY")
    return ProxiedUser(user.lower() if rule.lower else user)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
