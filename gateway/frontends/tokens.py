"""Tokens of users: random, shown once, kept as hashes; what stands in the user file and how one is found.

A token has 256 random bits, so its SHA-256 is as good as a slow hash and is found in a dictionary: nobody can
guess towards it. It names no user; who it is of stands in the file.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime

PREFIX = "sluice_"
"""Prefix of every token, so that people and secret scanners recognise it."""
_SECRET = re.compile(rf"{PREFIX}[0-9a-f]{{8}}_[\w-]{{43}}", re.ASCII)
HASH = re.compile(r"sha256:[0-9a-f]{64}")
ID = re.compile(r"[0-9a-f]{8}")
MAX_LABEL_CHARS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """One token of a user, without the secret."""

    id: str
    """Id for listing and revoking the token; the first part of the secret."""
    hash: str = field(repr=False)
    label: str = ""
    expires: datetime | None = None

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires


def new_token(*, label: str = "", expires: datetime | None = None) -> tuple[str, Token]:
    """Return a new secret and what is kept of it."""
    identifier = secrets.token_hex(4)
    secret = f"{PREFIX}{identifier}_{secrets.token_urlsafe(32)}"
    return secret, Token(id=identifier, hash=digest(secret), label=label, expires=expires)


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
