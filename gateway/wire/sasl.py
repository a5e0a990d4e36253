"""Thrift's SASL handshake, both ends, as state machines: bytes in, events and bytes out.

A step is `[status][4 bytes length, big-endian][payload]`. The client sends START with the mechanism's name
and at once the credentials, `authzid NUL authcid NUL password`, as OK (Python, npm) or COMPLETE (Java); the
server answers COMPLETE with no payload, or BAD with a text. After that the stream carries frames.
With GSSAPI credentials are a token, and each answer OK with another, until both ends have agreed (RFC 4752).
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from gateway.model.credentials import Password, SecurityLayer, UnreadableLogin
from gateway.wire.thrift import MalformedMessage

_HEAD = struct.Struct(">BI")

MAX_PAYLOAD_BYTES = 64 * 1024
"""Room for a token as the password; Cyrus SASL's own buffer is as large."""


PLAIN, GSSAPI = b"PLAIN", b"GSSAPI"
Qop = Literal["auth", "auth-int", "auth-conf"]
QOP_BITS: Mapping[Qop, int] = {"auth": 1, "auth-int": 2, "auth-conf": 4}
"""Protections of what follows a login of GSSAPI, as RFC 4752 numbers them."""
MAX_WRAPPED_BYTES = 0xFF_FF_FF
"""Largest message under a security layer: what RFC 4752 can say."""


class Status(enum.IntEnum):
    START = 1
    OK = 2
    BAD = 3
    ERROR = 4
    COMPLETE = 5


@dataclass(frozen=True, slots=True)
class SaslToken:
    """What the client says by a mechanism that this module knows nothing of."""

    token: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class HandshakeRefused:
    """The handshake failed: send `reply`, then close."""

    reason: str
    reply: bytes


def step(status: Status, payload: bytes = b"") -> bytes:
    """Return one handshake step as bytes."""
    return _HEAD.pack(status, len(payload)) + payload


class _SaslSteps:
    """Cuts a byte stream into steps; leaves what follows them alone."""

    __slots__ = ("_max", "buffer")

    def __init__(self, max_payload_bytes: int) -> None:
        self.buffer = bytearray()
        self._max = max_payload_bytes

    def next(self) -> tuple[Status, bytes] | None:
        """Return the next whole step, or None. Raises MalformedMessage."""
        if not self.buffer:
            return None
        try:
            status = Status(self.buffer[0])
        except ValueError:
            raise MalformedMessage("not a SASL handshake") from None
        if len(self.buffer) < _HEAD.size:
            return None
        _, length = _HEAD.unpack_from(self.buffer)
        if length > self._max:
            raise MalformedMessage(f"a SASL payload of more than {self._max} bytes")
        end = _HEAD.size + length
        if len(self.buffer) < end:
            return None
        payload = bytes(self.buffer[_HEAD.size : end])
        del self.buffer[:end]
        return status, payload


class _ServerState(enum.Enum):
    AWAIT_START = enum.auto()
    AWAIT_CREDENTIALS = enum.auto()
    AWAIT_VERDICT = enum.auto()
    DONE = enum.auto()


class SaslServer:
    """The server's end. Feed it with `receive`; answer Password with `accept` or `refuse`, UnreadableLogin
    with `refuse`, and SaslToken with `challenge` as well.

    Bytes that the client sends ahead of the verdict are kept, at most `max_early_bytes`; `accept` gives them
    back: they are the first frames.
    """

    __slots__ = ("_early", "_mechanism", "_mechanisms", "_state", "_steps")

    def __init__(
        self,
        mechanisms: tuple[bytes, ...] = (PLAIN,),
        *,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        max_early_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        self._mechanisms = mechanisms
        self._mechanism = b""
        self._steps = _SaslSteps(max_payload_bytes)
        self._state = _ServerState.AWAIT_START
        self._early = max_early_bytes

    @property
    def done(self) -> bool:
        """Whether the handshake is over, well or badly."""
        return self._state is _ServerState.DONE

    def receive(self, chunk: bytes) -> Password | UnreadableLogin | SaslToken | HandshakeRefused | None:
        """Take a chunk; return what the client claims, a refusal, or None when more bytes are needed."""
        if self._state is _ServerState.DONE:
            raise RuntimeError("the SASL handshake has already ended")
        self._steps.buffer += chunk
        if self._state is _ServerState.AWAIT_VERDICT:
            if len(self._steps.buffer) > self._early:
                return self.refuse("too many bytes before the login was answered")
            return None
        try:
            return self._advance()
        except MalformedMessage as fault:
            return self.refuse(str(fault))

    def _advance(self) -> Password | UnreadableLogin | SaslToken | HandshakeRefused | None:
        while (received := self._steps.next()) is not None:
            status, payload = received
            if self._state is _ServerState.AWAIT_START:
                if status is not Status.START:
                    return self.refuse("a SASL handshake begins with START")
                if payload not in self._mechanisms:
                    taken = b" and ".join(self._mechanisms).decode()
                    self._state = _ServerState.AWAIT_VERDICT
                    return UnreadableLogin(f"unsupported SASL mechanism; this server supports {taken}")
                self._mechanism = payload
                self._state = _ServerState.AWAIT_CREDENTIALS
                continue
            if status not in (Status.OK, Status.COMPLETE):
                return self.refuse("the client gave up the handshake")
            claimed = parse_plain(payload) if self._mechanism == PLAIN else SaslToken(payload)
            self._state = _ServerState.AWAIT_VERDICT
            if len(self._steps.buffer) > self._early:
                return self.refuse("too many bytes before the login was answered")
            return claimed
        return None

    def challenge(self, data: bytes) -> bytes:
        """Return the bytes that ask the client for another token."""
        if self._state is not _ServerState.AWAIT_VERDICT:
            raise RuntimeError("there is nothing to answer")
        self._state = _ServerState.AWAIT_CREDENTIALS
        return step(Status.OK, data)

    def accept(self) -> tuple[bytes, bytes]:
        """Say yes: return the bytes to send and the bytes that came early and belong to the frames."""
        if self._state is not _ServerState.AWAIT_VERDICT:
            raise RuntimeError("there are no credentials to accept")
        self._state = _ServerState.DONE
        early = bytes(self._steps.buffer)
        self._steps.buffer.clear()
        return step(Status.COMPLETE), early

    def refuse(self, reason: str) -> HandshakeRefused:
        """Say no: return the refusal, whose `reply` is to be sent before the connection is closed."""
        self._state = _ServerState.DONE
        self._steps.buffer.clear()
        return HandshakeRefused(reason, step(Status.BAD, reason.encode("utf-8", "replace")))


def parse_plain(payload: bytes) -> Password | UnreadableLogin:
    """Read `authzid NUL authcid NUL password`; return the credentials, or why they are refused.

    A user who logs in as one and asks to be another is refused: Spark ignores the authzid, so the client
    would run under an identity that it did not ask for.
    """
    parts = payload.split(b"\0")
    if len(parts) != 3:
        return UnreadableLogin("PLAIN credentials must have three parts")
    try:
        authzid, user, password = (part.decode("utf-8") for part in parts)
    except UnicodeDecodeError:
        return UnreadableLogin("PLAIN credentials must be UTF-8")
    if not user:
        return UnreadableLogin("the user name is empty")
    if authzid not in ("", user):
        return UnreadableLogin("acting as another user is not allowed", user=user)
    return Password(user, password)


class SaslClient(Protocol):
    """The client's end: send `start()`, feed what comes to `receive`, and send `take_reply()`, until it says
    True; from then on everything goes through the layer, if there is one."""

    @property
    def layer(self) -> SecurityLayer | None: ...

    def start(self) -> bytes: ...

    def receive(self, chunk: bytes) -> bool: ...

    def take_reply(self) -> bytes: ...


class PlainClient:
    """`SaslClient` by a name and a password."""

    __slots__ = ("_credentials", "_steps")

    layer = None

    def __init__(self, user: str, password: str, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES) -> None:
        if "\0" in user or "\0" in password:
            raise ValueError("a NUL in the user name or the password")
        self._credentials = b"\0".join((b"", user.encode(), password.encode()))
        self._steps = _SaslSteps(max_payload_bytes)

    def start(self) -> bytes:
        """Return everything the client has to say."""
        return step(Status.START, b"PLAIN") + step(Status.OK, self._credentials)

    def receive(self, chunk: bytes) -> bool:
        """Take a chunk; True when the server has accepted. Raises LoginRefused or MalformedMessage."""
        self._steps.buffer += chunk
        received = self._steps.next()
        if received is None:
            return False
        status, payload = received
        if status in (Status.BAD, Status.ERROR):
            raise LoginRefused(payload.decode("utf-8", "replace"))
        if status is not Status.COMPLETE:
            raise MalformedMessage("the server wants another step of PLAIN")
        if self._steps.buffer:
            raise MalformedMessage("the server spoke before it was asked")
        return True

    def take_reply(self) -> bytes:
        """Return what has to be sent now: nothing, since it has said everything."""
        return b""


class GssContext(Protocol):
    """The client's end of GSSAPI, which has said its first token. Raises LoginRefused."""

    @property
    def is_complete(self) -> bool: ...

    def step(self, token: bytes) -> bytes: ...

    def choose_protection(self, offer: bytes) -> tuple[bytes, SecurityLayer | None]:
        """Return the answer to the server's offer of protections, and what protects the rest."""


class GssapiClient:
    """`SaslClient` by a ticket (RFC 4752)."""

    __slots__ = ("_context", "_first", "_has_chosen", "_reply", "_steps", "layer")

    def __init__(
        self, context: GssContext, first: bytes, *, max_payload_bytes: int = MAX_PAYLOAD_BYTES
    ) -> None:
        self._context = context
        self._first = first
        self._has_chosen = False
        self._reply = bytearray()
        self._steps = _SaslSteps(max_payload_bytes)
        self.layer: SecurityLayer | None = None

    def start(self) -> bytes:
        """Return the mechanism and the first token."""
        return step(Status.START, GSSAPI) + step(Status.OK, self._first)

    def receive(self, chunk: bytes) -> bool:
        """Take a chunk; True when both ends have agreed. Raises LoginRefused or MalformedMessage."""
        self._steps.buffer += chunk
        while (received := self._steps.next()) is not None:
            status, payload = received
            if status in (Status.BAD, Status.ERROR):
                raise LoginRefused(payload.decode("utf-8", "replace"))
            if status is Status.COMPLETE and self._has_chosen:
                if self._steps.buffer:
                    raise MalformedMessage("the server spoke before it was asked")
                return True
            # INVARIANT (servers prove who they are): one that accepts before its own token has been checked
            # may be anybody.
            if status is not Status.OK or self._has_chosen:  # RULE (gssapi-server-proven)
                raise MalformedMessage("the server ends the login before both sides have agreed")
            if self._context.is_complete:
                answer, self.layer = self._context.choose_protection(payload)
                self._has_chosen = True
            else:
                answer = self._context.step(payload)
            self._reply += step(Status.OK, answer)
        return False

    def take_reply(self) -> bytes:
        """Return what has to be sent now."""
        reply = bytes(self._reply)
        self._reply.clear()
        return reply


class LoginRefused(Exception):
    """The server answered the handshake with BAD; the text is the server's."""
