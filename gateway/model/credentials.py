"""What a client shows to say who it is, whatever the protocol; nothing of it has been checked.

A new way to log in is one more of them: `frontends/authentication.py` has to say what it is worth, or mypy
complains, and whatever reads it of a client returns it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Password:
    """A user name and a password."""

    mechanism: ClassVar = "PLAIN"
    """What the record calls it."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token."""

    mechanism: ClassVar = "TOKEN"

    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cookie:
    """What the gateway gave a client of HTTP that had logged in."""

    mechanism: ClassVar = "COOKIE"

    value: str = field(repr=False)


Credentials = Password | Bearer | Cookie


def of_basic(value: str) -> Password | None:
    """Return what HTTP's `Basic` holds; None where that is not `USER:PASSWORD`.

    Raises ValueError where it is no base64 of UTF-8.
    """
    user, colon, password = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
    return Password(user, password) if user and colon else None
