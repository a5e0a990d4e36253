"""Tokens of users: random, shown once, kept as hashes; what stands in the user file and how one is found.

A token has 256 random bits, so its SHA-256 is as good as a slow hash and is found in a dictionary: nobody can
guess towards it. It names no user; who it is of stands in the file.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gateway.model.credentials import Bearer, ClientCertificate, Credentials, Password
from gateway.model.principal import Principal

PREFIX = "sluice_"
"""Prefix of every token, so that people and secret scanners recognise it."""
_SECRET = re.compile(rf"{PREFIX}[0-9a-f]{{8}}_[\w-]{{43}}", re.ASCII)
HASH = re.compile(r"sha256:[0-9a-f]{64}")
ID = re.compile(r"[0-9a-f]{8}")
MAX_LABEL_CHARS = 100
TOKEN_ENDPOINTS = ("thrift", "thrift_http", "connect", "iceberg_rest", "admin")
"""What a token may be confined to, as listeners are called."""
WITHOUT_SESSIONS = frozenset({"admin", "iceberg_rest"})
"""Those at which each request logs in by itself: nothing that is open goes on while a directory is away."""
PURPOSE = "purpose"
"""Attribute of the user that says what a token is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token of a user, without the secret."""

    id: str
    """Id for listing and revoking the token; the first part of the secret."""
    hash: str = field(repr=False)
    label: str = ""
    expires: datetime | None = None
    endpoints: frozenset[str] = frozenset()
    """Where it may be shown; everywhere where there is none."""
    purpose: str = ""
    """What it is for, as policies read it in the user's attribute `purpose`."""

    @property
    def is_confined(self) -> bool:
        """Whether it lets less through than its user's password."""
        return bool(self.endpoints or self.purpose)

    def is_for(self, protocol: str) -> bool:
        """Whether it may be shown at the endpoint of that protocol; REST APIs are `admin`."""
        return not self.endpoints or endpoint_of(protocol) in self.endpoints

    def confine(self, principal: Principal) -> Principal:
        """Return its user with its purpose, beside which none of the user's own counts."""
        return confine(principal, self.purpose)

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires


def confine(principal: Principal, purpose: str = "") -> Principal:
    """Return somebody with a purpose, where there is one, and no other."""
    if not purpose:
        return principal
    others = [one for one in principal.attributes if one[0] != PURPOSE]
    return replace(principal, attributes=tuple(sorted([*others, (PURPOSE, purpose)])))


def endpoint_of(protocol: str) -> str:
    """Return the listener of a protocol as the record has it."""
    return protocol if protocol in TOKEN_ENDPOINTS else "admin"


def new_token(
    *,
    label: str = "",
    expires: datetime | None = None,
    endpoints: Collection[str] = (),
    purpose: str = "",
) -> tuple[str, Token]:
    """Return a new secret and what is kept of it."""
    identifier = secrets.token_hex(4)
    secret = f"{PREFIX}{identifier}_{secrets.token_urlsafe(32)}"
    token = Token(
        id=identifier,
        hash=digest(secret),
        label=label,
        expires=expires,
        endpoints=frozenset(endpoints),
        purpose=purpose,
    )
    return secret, token


def token_id(shown: Credentials | None) -> str:
    """Return the id of the token that is shown, whoever it is of; empty for anything else."""
    match shown:
        case ClientCertificate(beside=beside):
            return token_id(beside)
        case Password(_, secret) | Bearer(secret) if looks_like_token(secret):
            return secret.removeprefix(PREFIX)[:8]
    return ""


def looks_like_token(secret: str) -> bool:
    """Whether a secret is written as a token."""
    return _SECRET.fullmatch(secret) is not None


def digest(secret: str) -> str:
    """Return what the user file keeps of a secret."""
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def parse_expiry(text: str) -> datetime | None:
    """Return the instant of an ISO 8601 time with a zone, or None when it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo is not None else None


def format_expiry(moment: datetime) -> str:
    """Return an instant as the user file has it: `2027-01-31T12:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
