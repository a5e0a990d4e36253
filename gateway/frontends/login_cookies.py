"""Signed cookies that stand for a login over HTTP: HiveServer2's `hive.server2.auth`.

A cookie says who logged in, by which password or token, and when; it is worth no more than that password or
token is now. Gateways that have the same key take each other's.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from gateway.frontends.tokens import Token
from gateway.frontends.users import User, Users

NAME = "hive.server2.auth"
"""What HiveServer2 calls its cookie, and its drivers look for."""
MAX_COOKIE_CHARS = 4096
MIN_KEY_BYTES = 32
FUTURE_S = 60.0
"""How far the clock of the gateway that made a cookie may be ahead."""
_PURPOSE = b"sluice login cookie 1\0"


@dataclass(frozen=True, slots=True)
class _Content:
    user: str
    id: str
    stamp: str
    issued_at: float


class CookieOwner(NamedTuple):
    """Whose cookie it is, and the token that it stands for; None for the password."""

    user: User
    token: Token | None


class LoginCookies:
    """Makes and checks cookies. `key`: shared by gateways; without one, one of this process alone."""

    def __init__(
        self, key: bytes | None = None, *, max_age_s: float = 86_400.0, clock: Callable[[], float] = time.time
    ) -> None:
        if key is not None and len(key) < MIN_KEY_BYTES:
            raise ValueError(f"a key of at least {MIN_KEY_BYTES} bytes is needed")
        self._key = key if key is not None else os.urandom(MIN_KEY_BYTES)
        self.max_age_s = max_age_s
        self._clock = clock

    def issue(self, user: User, secret_hash: str) -> str:
        """Return a cookie for who has just logged in by the password or token of that stored hash."""
        content = [user.principal.user, user.principal.id, self._stamp(secret_hash), round(self._clock(), 3)]
        body = json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode()
        return f"{_encode(body)}.{_encode(self._sign(body))}"

    def owner(self, value: str, users: Users) -> CookieOwner | None:
        """Return whose cookie it is; None where it is none of ours, has expired, or the user, or his password
        or token, is not the same any more."""
        content = self._read(value)
        if content is None:
            return None
        user = users.get(content.user)
        if user is None or user.principal.id != content.id:
            return None
        now = self._clock()
        if not content.issued_at - FUTURE_S <= now < content.issued_at + self.max_age_s:
            return None
        tokens = [
            token
            for token in user.tokens
            # RULE (cookie-of-confined-token)
            if not (token.is_confined or token.is_expired(datetime.fromtimestamp(now, UTC)))
        ]
        stands_for: list[tuple[str, Token | None]] = [(token.hash, token) for token in tokens]
        if user.password_hash:
            stands_for.append((user.password_hash, None))
        for secret_hash, token in stands_for:
            if hmac.compare_digest(content.stamp, self._stamp(secret_hash)):
                return CookieOwner(user, token)
        return None

    def _read(self, value: str) -> _Content | None:
        if len(value) > MAX_COOKIE_CHARS or not value.isascii():
            return None
        encoded, dot, signature = value.partition(".")
        try:
            body, signed = _decode(encoded), _decode(signature)
        except (ValueError, binascii.Error):
            return None
        if not dot or not hmac.compare_digest(self._sign(body), signed):
            return None
        user, id_, stamp, issued_at = json.loads(body)
        return _Content(user, id_, stamp, issued_at)

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._key, _PURPOSE + body, hashlib.sha256)

    def _stamp(self, secret_hash: str) -> str:
        """Return what tells stored hashes apart, and nothing of them."""
        return hmac.new(self._key, b"stamp\0" + secret_hash.encode(), hashlib.sha256).hexdigest()[:32]


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
