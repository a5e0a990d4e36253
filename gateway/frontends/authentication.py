"""Passwords and tokens are checked here: in constant time, rate-limited by address, recorded either way."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple, assert_never

import argon2

from gateway.errors import AuthenticationFailed
from gateway.frontends.identities import Identities
from gateway.frontends.jwt_logins import IssuerUnavailable, JwtLogins, TokenRefused, looks_like_jwt
from gateway.frontends.ldap_rules import LdapDirectory, LdapRefused, LdapUnavailable
from gateway.frontends.login_cookies import LoginCookies
from gateway.frontends.tokens import PREFIX, Token, digest
from gateway.frontends.users import HASHER, User, Users
from gateway.model.credentials import Bearer, Cookie, Credentials, Password
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session import audit_records
from gateway.session.metrics import Metrics
from gateway.session.recorder import Recorder

MAX_PASSWORD_CHARS = 4096
"""Room for a token as the password; argon2 itself would take 4 GiB."""
MAX_ADDRESSES = 10_000
MAX_REMEMBERED = 10_000
JWT = "JWT"
"""What the record calls a login by a token of an issuer."""
WRONG = "invalid user name or password"
NO_DIRECTORY = "the LDAP directory is not available; try again later"
WRONG_TOKEN = "the token is unknown or was revoked"  # noqa: S105 - a message
WRONG_COOKIE = "the login cookie is no longer valid; log in again"
EXPIRED_TOKEN = "the token has expired; make a new one with `sluice users token`"  # noqa: S105 - a message


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLimits:
    """Bounds on guessing."""

    failures: int = 10
    """Failed logins from one address within `window_s`; then further ones are refused unseen."""
    window_s: float = 60.0
    longest_block_s: float = 900.0
    """Each block in a row is twice as long as the last, up to this."""
    remember_s: float = 60.0
    """How long a password that was right is not verified again: pools open many connections at once."""
    verifications: int = 2
    """Verifications at a time, 19 MiB and a core each."""


@dataclass(slots=True)
class _Address:
    """Failed logins of one client address."""

    failures: int = 0
    since: float = 0.0
    blocked_until: float = 0.0
    blocks: int = 0
    block_recorded: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class _LoginCheck(NamedTuple):
    """What came of looking at credentials: who it is, or why not."""

    principal: Principal | None
    reason: str = ""
    of_file: bool = True
    """Whether the user is one of the user file, and nobody without it."""


class Authenticator:
    """Turns a user name and a password into a Principal, or refuses without saying which was wrong."""

    def __init__(
        self,
        users: Callable[[], Users],
        *,
        recorder: Recorder,
        metrics: Metrics,
        limits: LoginLimits | None = None,
        cookies: LoginCookies | None = None,
        jwt: JwtLogins | None = None,
        ldap: LdapDirectory | None = None,
        identities: Identities | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`jwt`, `ldap`: who else may log in than users of the file; `identities` hears of them."""
        self.cookies = cookies or LoginCookies()
        self._jwt = jwt
        self._ldap = ldap
        self._identities = identities
        self._users = users
        self._now = now
        self._tokens: tuple[Users, dict[str, tuple[User, Token]]] = ({}, {})
        self._recorder = recorder
        self._metrics = metrics
        self._limits = limits or LoginLimits()
        self._clock = clock
        self._secret = os.urandom(32)
        self._remembered: OrderedDict[bytes, float] = OrderedDict()
        self._recorded: OrderedDict[tuple[str, str, str, str], float] = OrderedDict()
        self._addresses: OrderedDict[str, _Address] = OrderedDict()
        self._pool = ThreadPoolExecutor(self._limits.verifications, thread_name_prefix="argon2")
        # An unknown user costs as much time as a wrong password.
        self._nobody = HASHER.hash(os.urandom(16).hex())

    def set_limits(self, limits: LoginLimits) -> None:
        """Count failures by other limits from now on."""
        self._limits = limits

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def login(self, shown: Credentials, client: Client, *, record_success: bool = True) -> Principal:
        """Check what a client shows. Raises AuthenticationFailed; either way an audit event is written.

        A token may stand in the place of a password, for tools that ask for nothing else: it has to be the
        named user's.
        """
        check: Callable[[_Address], Awaitable[_LoginCheck]]
        mechanism: str = shown.mechanism
        match shown:
            case Password(user, secret) if self._jwt is not None and looks_like_jwt(secret):
                mechanism, check = JWT, partial(self._check_jwt, self._jwt, secret, user)
            case Bearer(secret) if self._jwt is not None and looks_like_jwt(secret):
                user, mechanism, check = "", JWT, partial(self._check_jwt, self._jwt, secret, "")
            case Password(user, secret) if secret.startswith(PREFIX) and self._token(secret) is not None:
                mechanism, check = Bearer.mechanism, partial(self._check_token, self._token(secret), user)
            case Password(user, password):
                check = partial(self._check, user, password)
            case Bearer(secret):
                # Whose it is comes out only when it is right.
                found = self._token(secret)
                user = found[0].principal.user if found is not None else ""
                check = partial(self._check_token, found, user)
            case Cookie(value):
                owner = self.cookies.owner(value, self._users())
                user = owner.principal.user if owner is not None else ""
                check = partial(self._check_cookie, owner)
            case _:
                assert_never(shown)
        return await self._settle(check, user, client, mechanism, record_success)

    async def login_each_time(
        self, shown: Credentials, client: Client, *, record_every_s: float
    ) -> Principal:
        """`login` for a protocol that shows the same with every request: a success is recorded once in
        a while only, by who it is and from where."""
        principal = await self.login(shown, client, record_success=False)
        key = (client.protocol, shown.mechanism, principal.user, client.address)
        if self._is_due(key, record_every_s):
            # Whoever comes meanwhile waits until it is on the disk, and records no second one.
            async with self._address(client.address).lock:
                if self._is_due(key, record_every_s):
                    await self._record(principal.user, client, shown.mechanism, principal)
                    self._metrics.logins.labels("accepted").inc()
                    self._recorded[key] = self._clock()
                    self._recorded.move_to_end(key)
                    while len(self._recorded) > MAX_REMEMBERED:
                        self._recorded.popitem(last=False)
        return principal

    def cookie_for(self, principal: Principal, shown: Credentials) -> str | None:
        """Return a cookie for who has just logged in by what was shown; None where he is gone already."""
        user = self._users().get(principal.user)
        match shown:
            case Password():
                secret_hash = user.password_hash if user is not None else ""
            case Bearer(secret):
                secret_hash = digest(secret)
            case Cookie():
                return None
            case _:
                assert_never(shown)
        return self.cookies.issue(user, secret_hash) if user is not None and secret_hash else None

    def _is_due(self, key: tuple[str, str, str, str], record_every_s: float) -> bool:
        return self._clock() - self._recorded.get(key, float("-inf")) >= record_every_s

    async def _record(
        self, user: str, client: Client, mechanism: str, principal: Principal | None, reason: str = ""
    ) -> None:
        await self._recorder.record(
            audit_records.login,
            user,
            client,
            accepted=principal is not None,
            reason=reason,
            principal=principal,
            mechanism=mechanism,
        )

    async def _settle(
        self,
        check: Callable[[_Address], Awaitable[_LoginCheck]],
        user: str,
        client: Client,
        mechanism: str,
        record_success: bool,
    ) -> Principal:
        address = self._address(client.address)
        try:
            checked = await check(address)
        except AuthenticationFailed as refused:
            checked = _LoginCheck(None, refused.message)
            if address.block_recorded:
                # One event tells of a block; a flood must not fill the audit record's disk.
                self._metrics.logins.labels("blocked").inc()
                raise
            address.block_recorded = True
        if self._is_removed(checked):
            # While it was checked.
            checked = _LoginCheck(None, WRONG)
        principal = checked.principal
        if principal is None or record_success:  # RULE (logins-counted)
            self._metrics.logins.labels("rejected" if principal is None else "accepted").inc()
        if principal is not None and not record_success:
            return principal
        named = principal.user if principal is not None else user
        await self._record(named, client, mechanism, principal, checked.reason if principal is None else "")
        if principal is None:
            raise AuthenticationFailed(checked.reason)
        if self._is_removed(checked):
            # Removed while it was recorded: nobody would end what is opened from here on.
            raise AuthenticationFailed(WRONG)
        return principal

    def _is_removed(self, checked: _LoginCheck) -> bool:
        user = checked.principal.user if checked.principal is not None else ""
        return bool(user) and checked.of_file and user not in self._users()

    def _token(self, secret: str) -> tuple[User, Token] | None:
        """Return whose token it is. It is found by its hash, which tells nothing to somebody who measures."""
        users = self._users()
        if self._tokens[0] is not users:
            index = {token.hash: (user, token) for user in users.values() for token in user.tokens}
            self._tokens = (users, index)
        if len(secret) > MAX_PASSWORD_CHARS:
            return None
        hashed = digest(secret)
        found = self._tokens[1].get(hashed)
        return found if found is not None and hmac.compare_digest(found[1].hash, hashed) else None

    async def _check_token(
        self, found: tuple[User, Token] | None, user: str, address: _Address
    ) -> _LoginCheck:
        if found is not None and found[0].principal.user != user:
            found = None
        if found is not None and not found[1].is_expired(self._now()):
            # Before the block, like a password that is remembered: nobody guesses 256 bits.
            return _LoginCheck(found[0].principal)
        self._refuse_blocked(address)
        self._count_failure(address)
        return _LoginCheck(None, WRONG_TOKEN if found is None else EXPIRED_TOKEN)

    async def _check_jwt(self, jwt: JwtLogins, secret: str, user: str, address: _Address) -> _LoginCheck:
        try:
            principal = await jwt.check(secret)
            if principal.user in self._users():
                raise TokenRefused("a user with the same name as the token's user is in the user file")
            if user not in ("", principal.user):
                raise TokenRefused("the token belongs to another user")
        except IssuerUnavailable as fault:
            return _LoginCheck(None, str(fault))
        except TokenRefused as fault:
            # Nobody guesses a signature, but many wrong ones fill the record.
            self._refuse_blocked(address)
            self._count_failure(address)
            return _LoginCheck(None, str(fault))
        if self._identities is not None:
            self._identities.note(principal)
        return _LoginCheck(principal, of_file=False)

    async def _check_cookie(self, owner: User | None, address: _Address) -> _LoginCheck:
        # Nobody guesses its signature, and one that has expired is no guess.
        return _LoginCheck(owner.principal if owner is not None else None, WRONG_COOKIE)

    async def _check(self, user: str, password: str, address: _Address) -> _LoginCheck:
        if self._ldap is not None and user not in self._users():
            return await self._check_at_directory(self._ldap, user, password, address)
        owner = await self._owner(user, password, address)
        return _LoginCheck(owner.principal if owner is not None else None, WRONG)

    async def _check_at_directory(
        self, directory: LdapDirectory, user: str, password: str, address: _Address
    ) -> _LoginCheck:
        principal = directory.remember(user, password)
        if principal is None:
            self._refuse_blocked(address)
            async with address.lock:
                self._refuse_blocked(address)
                try:
                    principal = await directory.check(user, password)
                except LdapUnavailable:
                    return _LoginCheck(None, NO_DIRECTORY)
                except LdapRefused:
                    self._count_failure(address)
                    return _LoginCheck(None, WRONG)
                address.failures = address.blocks = 0
        if principal.user in self._users():
            # By another spelling, or another name of his.
            return _LoginCheck(None, WRONG)
        if self._identities is not None:
            self._identities.note(principal)
        return _LoginCheck(principal, of_file=False)

    async def _owner(self, user: str, password: str, address: _Address) -> User | None:
        """Return whose password it is."""
        found = self._users().get(user)
        if found is not None and self._is_remembered(found, password):
            # Before the block: guessing from behind one address must not lock out the pools behind it.
            return found
        self._refuse_blocked(address)
        # One verification at a time for each address: failures are counted before the next one begins, so
        # that many connections at once do not get more guesses than one after the other.
        async with address.lock:
            self._refuse_blocked(address)
            if found is not None and self._is_remembered(found, password):
                return found
            right = await self._verify(found, password)
            if found is None or not right:
                self._count_failure(address)
                return None
            address.failures = address.blocks = 0
            self._remember(found, password)
            return found

    async def _verify(self, found: User | None, password: str) -> bool:
        if not password or len(password) > MAX_PASSWORD_CHARS:
            # An empty password is refused whatever the hash says.
            return False
        # A user without a password costs as much time as a wrong one, too.
        stored = (found.password_hash if found is not None else "") or self._nobody
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, fits, stored, password)

    # -- what was right a moment ago ---------------------------------------------------------------------

    def _key(self, user: User, password: str) -> bytes:
        # Keyed with a secret of this process: the key in memory does not help anybody to guess. The stored
        # hash is part of it, so that a changed password forgets the old one.
        parts = (user.principal.user, user.password_hash, password)
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, key=self._secret, digest_size=32).digest()

    def _is_remembered(self, user: User, password: str) -> bool:
        if not password or len(password) > MAX_PASSWORD_CHARS:
            return False
        until = self._remembered.get(self._key(user, password))
        return until is not None and self._clock() < until

    def _remember(self, user: User, password: str) -> None:
        self._remembered[self._key(user, password)] = self._clock() + self._limits.remember_s
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)

    # -- guessing ----------------------------------------------------------------------------------------

    def _address(self, name: str) -> _Address:
        address = self._addresses.get(name)
        if address is None:
            address = self._addresses[name] = _Address(since=self._clock())
        self._addresses.move_to_end(name)
        while len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        return address

    def _refuse_blocked(self, address: _Address) -> None:
        left = address.blocked_until - self._clock()
        if left > 0:
            raise AuthenticationFailed(
                f"too many failed logins from this address; try again in {round(left + 0.5)} seconds"
            )

    def _count_failure(self, address: _Address) -> None:
        now = self._clock()
        if now - address.since > self._limits.window_s:
            address.since, address.failures = now, 0
        address.failures += 1
        if address.failures >= self._limits.failures:
            block = self._limits.window_s * 2**address.blocks
            address.blocked_until = now + min(block, self._limits.longest_block_s)
            address.blocks = min(address.blocks + 1, 16)
            address.block_recorded = False
            address.since, address.failures = now, 0


def fits(stored: str, password: str) -> bool:
    """Whether a password is the one of a stored hash."""
    try:
        return HASHER.verify(stored, password)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False
    except UnicodeEncodeError:
        # A lone surrogate is in no password that was ever hashed.
        return False
