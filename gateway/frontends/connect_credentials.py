"""Who calls, as the metadata of a Spark Connect call tells it: a token, or a user name and a password.

PySpark sends `authorization: Bearer T` with the T of `sc://host/;token=T`, and nothing else by itself. So T
is either a token that `sluice users token` made or `user:password`; others may send HTTP's basic login.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass, field
from urllib.parse import unquote

from gateway.errors import AuthenticationFailed
from gateway.model.statement import Client

MAX_AGENT_CHARS = 200
HOW = (
    "connect with `sc://HOST:PORT/;token=TOKEN`, where TOKEN is what `sluice users token` printed, "
    "or `USER:PASSWORD`"
)


@dataclass(frozen=True, slots=True)
class Password:
    """A user name and a password, neither checked."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token, not checked."""

    secret: str = field(repr=False)


Metadata = Iterable[tuple[str, str | bytes]]


def credentials(metadata: Metadata) -> Password | Bearer:
    """Return what the call shows. Raises AuthenticationFailed when it is nothing, or not understood.

    Nothing but `authorization` is looked at: who somebody says to be elsewhere does not count.
    """
    shown = [value for key, value in metadata if key == "authorization"]
    if not shown:
        raise AuthenticationFailed(f"no token was sent; {HOW}")
    if len(shown) > 1:
        # Which one would count? A proxy before us may have looked at the other.
        raise AuthenticationFailed("more than one `authorization` was sent")
    text = shown[0] if isinstance(shown[0], str) else shown[0].decode("latin-1")
    scheme, _, value = text.strip().partition(" ")
    value = value.strip()
    match scheme.lower():
        case "bearer" if value:
            return _of_token(value)
        case "basic" if value:
            return _of_basic(value)
        case _:
            raise AuthenticationFailed(f"`authorization` is neither Bearer nor Basic; {HOW}")


def _of_token(value: str) -> Password | Bearer:
    user, colon, password = value.partition(":")
    if not colon:
        return Bearer(value)
    if not user:
        raise AuthenticationFailed(f"there is no user name before the colon; {HOW}")
    return Password(user, password)


def _of_basic(value: str) -> Password:
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        raise AuthenticationFailed("the `Basic` login is not base64 of `USER:PASSWORD` in UTF-8") from None
    if not user or not colon:
        raise AuthenticationFailed("the `Basic` login is not `USER:PASSWORD`")
    return Password(user, password)


def client_of(peer: str, metadata: Metadata) -> Client:
    """Return where a call comes from, for the audit record."""
    agent = next((value for key, value in metadata if key == "user-agent"), "")
    text = agent if isinstance(agent, str) else agent.decode("latin-1")
    shown = text[:MAX_AGENT_CHARS]
    if not shown.isprintable():
        shown = "".join(character for character in shown if character.isprintable())
    return Client(address=address_of(peer), protocol="connect", application=shown)


def address_of(peer: str) -> str:
    """Return the address in what gRPC calls a peer: `ipv4:10.0.0.7:4711`, `ipv6:%5B::1%5D:4711`, `unix:…`."""
    kind, _, rest = peer.partition(":")
    match kind:
        case "ipv4":
            return rest.rpartition(":")[0]
        case "ipv6":
            address = unquote(rest).rpartition(":")[0].strip("[]")
            # A client of IPv4 at a socket for both: the limits are to count it once.
            return address.removeprefix("::ffff:") if "." in address else address
        case _:
            return peer
