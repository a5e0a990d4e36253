"""The mechanisms of the chain: what each makes of credentials, and what it says of them to an operator."""

from __future__ import annotations

import asyncio
import hmac
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import argon2

from gateway.frontends.jwt_logins import IssuerUnavailable, JwtLogins, TokenRefused
from gateway.frontends.ldap_rules import LdapDirectory, LdapRefused, LdapUnavailable, LdapUnusable
from gateway.frontends.login_chain import WRONG, WRONG_TOKEN, LoginKind, LoginOutcome
from gateway.frontends.login_cookies import LoginCookies
from gateway.frontends.tokens import Token, digest
from gateway.frontends.users import HASHER, User, Users, fingerprint
from gateway.model.credentials import Bearer, Credentials, Password

MAX_PASSWORD_CHARS = 4096
"""argon2 itself would take 4 GiB."""
NO_DIRECTORY = "the LDAP directory is not available; try again later"
WRONG_COOKIE = "the login cookie is no longer valid; log in again"
EXPIRED_TOKEN = "the token has expired; make a new one with `sluice users token`"  # noqa: S105 - a message
_NO_USER = LoginOutcome(diagnosis="does not know the user")


class SimpleMechanism:
    """One that remembers nothing and holds nothing."""

    description: str
    remember_s: float = 0.0

    def stamp(self, user: str) -> str:
        return ""

    def report(self) -> str | None:
        return None

    def close(self) -> None:
        pass


class TokenLogins(SimpleMechanism):
    """Tokens of the user file. One is found by its hash, which tells nothing to somebody who measures."""

    kinds: frozenset[LoginKind] = frozenset({"TOKEN"})
    description = "tokens of the user file"

    def __init__(
        self, users: Callable[[], Users], *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._users = users
        self._now = now
        self._tokens: tuple[Users, dict[str, tuple[User, Token]]] = ({}, {})

    async def check(self, shown: Credentials) -> LoginOutcome:
        secret = shown.password if isinstance(shown, Password) else getattr(shown, "secret", "")
        found = self._find(secret)
        if found is None:
            return LoginOutcome(diagnosis="rejected: unknown token", reason=WRONG_TOKEN, counts=True)
        user, token = found
        who = user.principal
        if isinstance(shown, Password) and shown.user != who.user:
            told = f"rejected: token {token.id} is `{who.user}`'s"
            return LoginOutcome(diagnosis=told, reason=WRONG_TOKEN, counts=True)
        if token.is_expired(self._now()):
            told = f"rejected: token {token.id} has expired"
            return LoginOutcome(diagnosis=told, reason=EXPIRED_TOKEN, user=who.user, counts=True)
        return LoginOutcome(
            diagnosis=f"accepts token {token.id}",
            principal=token.confine(who),
            of_file=True,
            endpoints=token.endpoints,
        )

    def _find(self, secret: str) -> tuple[User, Token] | None:
        users = self._users()
        if self._tokens[0] is not users:
            index = {token.hash: (user, token) for user in users.values() for token in user.tokens}
            self._tokens = (users, index)
        if len(secret) > MAX_PASSWORD_CHARS:
            return None
        hashed = digest(secret)
        found = self._tokens[1].get(hashed)
        return found if found is not None and hmac.compare_digest(found[1].hash, hashed) else None


class PasswordLogins(SimpleMechanism):
    """Passwords of the user file."""

    kinds: frozenset[LoginKind] = frozenset({"PLAIN"})

    def __init__(
        self,
        users: Callable[[], Users],
        *,
        name: str = "the user file",
        alone: bool = True,
        remember_s: float = 60.0,
        verifications: int = 2,
    ) -> None:
        """`alone`: nobody else checks passwords. `verifications`: at a time, 19 MiB and a core each."""
        self.description = name
        self.remember_s = remember_s
        self._users = users
        self._alone = alone
        self._pool = ThreadPoolExecutor(verifications, thread_name_prefix="argon2")
        # An unknown user costs as much time as a wrong password.
        self._nobody = HASHER.hash(os.urandom(16).hex())

    def stamp(self, user: str) -> str:
        return fingerprint(self._users().get(user))

    async def check(self, shown: Credentials) -> LoginOutcome:
        if not isinstance(shown, Password):
            return _NO_USER
        found = self._users().get(shown.user)
        if found is None and not self._alone:
            return _NO_USER
        right = await self._verify(found, shown.password)
        if found is None:
            return LoginOutcome(diagnosis=_NO_USER.diagnosis, reason=WRONG, counts=True)
        if not right:
            told = "rejects the password" if found.password_hash else "has the user without a password"
            return LoginOutcome(diagnosis=told, reason=WRONG, counts=True)
        return LoginOutcome(diagnosis="accepts the password", principal=found.principal, of_file=True)

    async def _verify(self, found: User | None, password: str) -> bool:
        if not password or len(password) > MAX_PASSWORD_CHARS:
            # An empty password is refused whatever the hash says.
            return False
        # A user without a password costs as much time as a wrong one, too.
        stored = (found.password_hash if found is not None else "") or self._nobody
        return await asyncio.get_running_loop().run_in_executor(self._pool, fits, stored, password)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class IssuerLogins(SimpleMechanism):
    """Tokens of an OIDC provider."""

    kinds: frozenset[LoginKind] = frozenset({"JWT"})

    def __init__(self, logins: JwtLogins) -> None:
        self._logins = logins
        self.description = f"tokens of {logins.rules.issuer}"

    def report(self) -> str | None:
        return self._logins.report()

    def close(self) -> None:
        self._logins.close()

    async def check(self, shown: Credentials) -> LoginOutcome:
        user, secret = (shown.user, shown.password) if isinstance(shown, Password) else ("", "")
        secret = shown.secret if isinstance(shown, Bearer) else secret
        try:
            principal = await self._logins.check(secret)
            if user not in ("", principal.user):
                raise TokenRefused("the token belongs to another user")
        except IssuerUnavailable as fault:
            return LoginOutcome(diagnosis=f"not available: {fault}", reason=str(fault))
        except TokenRefused as fault:
            # Nobody guesses a signature, but many wrong ones fill the record.
            return LoginOutcome(diagnosis=f"rejected: {fault}", reason=str(fault), counts=True)
        return LoginOutcome(diagnosis="accepts the login", principal=principal, source="claims")


class DirectoryLogins(SimpleMechanism):
    """Passwords of a directory."""

    kinds: frozenset[LoginKind] = frozenset({"PLAIN"})
    description = "the directory"

    def __init__(self, users: Callable[[], Users], directory: LdapDirectory) -> None:
        self._users = users
        self._directory = directory
        self.remember_s = directory.rules.remember_s

    def report(self) -> str | None:
        return self._directory.report()

    def close(self) -> None:
        self._directory.close()

    async def check(self, shown: Credentials) -> LoginOutcome:
        if not isinstance(shown, Password) or shown.user in self._users():
            return LoginOutcome(diagnosis="skipped: the user is in the user file")
        try:
            principal = await self._directory.check(shown.user, shown.password)
        except LdapUnavailable as fault:
            return LoginOutcome(diagnosis=f"not available: {fault}", reason=NO_DIRECTORY, is_away=True)
        except LdapUnusable as fault:
            return LoginOutcome(diagnosis=f"rejected: {fault}", reason=str(fault), user=shown.user)
        except LdapRefused:
            told = "rejected: no such user, more than one, or a wrong password"
            return LoginOutcome(diagnosis=told, reason=WRONG, counts=True)
        return LoginOutcome(diagnosis="accepts the login", principal=principal)


def check_cookie(cookies: LoginCookies, value: str, users: Users) -> LoginOutcome:
    """Say whose cookie it is. Nobody guesses its signature, and one that has expired is no guess."""
    owner = cookies.owner(value, users)
    if owner is None:
        return LoginOutcome(diagnosis="rejected", reason=WRONG_COOKIE)
    return LoginOutcome(diagnosis="accepts the login", principal=owner.user.principal, of_file=True)


def fits(stored: str, password: str) -> bool:
    """Whether a password is the one of a stored hash."""
    try:
        return HASHER.verify(stored, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
    except UnicodeEncodeError:
        # A lone surrogate is in no password that was ever hashed.
        return False
