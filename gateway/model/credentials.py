"""What a client shows to say who it is, whatever the protocol; nothing of it has been checked.

A new kind is one more of them: `frontends/login_chain.py` has to say which mechanisms see it, or mypy
complains, and whatever reads it of a client returns it.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

NO_CERTIFICATE = "the client has shown no certificate, which this listener requires"


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


class SecurityLayer(Protocol):
    """Protects what is said after a login, as the two ends have agreed."""

    max_bytes: int
    """Of what is wrapped at a time."""

    def wrap(self, data: bytes) -> bytes:
        """Return data as it goes over the network."""
        ...

    def unwrap(self, data: bytes) -> bytes:
        """Return what the other end wrapped. Raises ValueError where it is not as it was sent, or less
        protected than was agreed."""
        ...


@dataclass(slots=True, eq=False)
class Negotiation:
    """An exchange of GSSAPI that a client has begun."""

    mechanism: ClassVar = "KERBEROS"

    token: bytes = field(repr=False)
    service: str
    """By which name a client of this protocol knows its servers: `hive`, or `HTTP`."""
    ask: Callable[[bytes], Awaitable[bytes]] | None = None
    """Sends something to the client and returns the answer; None where one token has to do, as over HTTP."""
    reply: bytes = field(default=b"", repr=False)
    """The server's last token, once the client is let in."""
    layer: SecurityLayer | None = None
    """What protects the rest, once the client is let in; None for nothing."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate that a client has proved by TLS to be its own, signed by an authority of the listener."""

    mechanism: ClassVar = "CERTIFICATE"

    der: bytes = field(repr=False)
    beside: Password | Bearer | Cookie | Negotiation | ProxiedUser | None = None
    """What else the client shows."""


@dataclass(frozen=True, slots=True)
class ProxiedUser:
    """Whom a proxy has logged in, which has shown that it is the one of the settings."""

    mechanism: ClassVar = "PROXY"

    user: str


@dataclass(frozen=True, slots=True)
class UnreadableLogin:
    """A login that no mechanism can look at. It is refused and recorded like a wrong one."""

    mechanism: ClassVar = "UNKNOWN"

    reason: str
    """In words of ours alone, for the client and the record: what it wrote may be a secret."""
    kind: Literal["UNKNOWN", "CERTIFICATE", "PROXY"] = "UNKNOWN"
    """Of a login that it is, as the record calls it."""
    user: str = ""
    """Whose login it would be, where the client says so."""


Credentials = Password | Bearer | Cookie | Negotiation | ClientCertificate | ProxiedUser | UnreadableLogin


def of_authorization(headers: Sequence[str]) -> Password | Bearer | Negotiation | UnreadableLogin | None:
    """Return what the `Authorization` headers of a request show; None where there is none."""
    if len(headers) > 1:
        # Which one would count? A proxy before us may have looked at the other.
        return UnreadableLogin("the request has more than one `Authorization`")
    return _of_header(headers[0]) if headers else None


def _of_header(header: str) -> Password | Bearer | Negotiation | UnreadableLogin:
    scheme, _, value = header.strip().partition(" ")
    match scheme.lower(), value.strip():
        case "basic", value:
            return _of_basic(value)
        case "bearer", value if value:
            return Bearer(value)
        case "negotiate", value if value:
            try:
                # Hive's JDBC driver writes `Negotiate : TOKEN`.
                token = base64.b64decode(value.removeprefix(": "), validate=True)
                return Negotiation(token, "HTTP")
            except ValueError:
                return UnreadableLogin("`Authorization: Negotiate` must have a token in base64")
    return UnreadableLogin("the scheme of `Authorization` is not supported; use `Basic` or `Bearer`")


def _of_basic(value: str) -> Password | UnreadableLogin:
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
    except ValueError:
        user = colon = password = ""
    if not user or not colon:
        return UnreadableLogin("`Authorization: Basic` must have `USER:PASSWORD` in base64")
    return Password(user, password)
