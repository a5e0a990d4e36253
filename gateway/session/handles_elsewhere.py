"""Handles of HiveServer2 clients that another gateway made: it is asked what needs no rows, and answers only
to the principal whose they are.

The first bytes of a handle say which gateway made it. Its secret stays where it is: the other gateway is
shown a digest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway.errors import InvalidHandle, SessionElsewhere, SluiceError
from gateway.model.principal import Principal
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.session.identifiers import TAG_BYTES, Handle
from gateway.session.ports import AskOwner

AskedOfOwner = Literal["find", "status", "cancel", "close_operation", "close_session"]
"""What the owner of a handle is asked to do."""
UNKNOWN: Mapping[str, Any] = {"unknown": True}
"""The answer about a handle that is not there, or not the principal's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReport:
    """How an operation stands; `error` is what the client may read of its failure."""

    state: int
    has_result_set: bool
    error: SluiceError | None = None
    waits: str = ""
    """What it waits for, and its place."""

    def write(self) -> dict[str, Any]:
        """Write it for another gateway."""
        error = None if self.error is None else write_error(self.error)
        return {
            "state": self.state,
            "has_result_set": self.has_result_set,
            "error": error,
            "waits": self.waits,
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> OperationReport:
        """Read what another gateway wrote."""
        error = told["error"]
        return cls(
            state=told["state"],
            has_result_set=told["has_result_set"],
            error=None if error is None else read_error(error),
            waits=told["waits"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedHandle:
    """A question about a handle, as its gateway gets it."""

    wanted: str
    guid: bytes
    digest: bytes
    kind: int
    progress: bool
    principal: Principal
    """Name and id alone: nothing is judged for it."""

    @classmethod
    def read(cls, asked: Mapping[str, Any]) -> AskedHandle:
        """Raises KeyError, TypeError or ValueError."""
        return cls(
            wanted=str(asked["wanted"]),
            guid=bytes.fromhex(asked["guid"]),
            digest=bytes.fromhex(asked["digest"]),
            kind=int(asked["kind"]),
            progress=bool(asked["progress"]),
            principal=Principal(user=str(asked["user"]), id=str(asked["id"])),
        )

    def is_for(self, handle: Handle) -> bool:
        """Whether whoever asks has the secret of the handle."""
        return hmac.compare_digest(digest_of(handle), self.digest)  # RULE (elsewhere-secret)


def digest_of(handle: Handle) -> bytes:
    """Return what says that somebody has a handle's secret."""
    return hashlib.sha256(b"sluice handle" + handle.guid + handle.secret).digest()


class Elsewhere:
    """Asks the gateways that made handles which this one does not know."""

    def __init__(self, ask: AskOwner | None, tag: bytes) -> None:
        """`ask` asks the gateway with a tag, None: there are no others; `tag` is this one's."""
        self._ask = ask
        self._tag = tag

    async def ask(
        self,
        wanted: AskedOfOwner,
        principal: Principal,
        handle: Handle,
        unknown: InvalidHandle,
        *,
        kind: int = 0,
        progress: bool = False,
    ) -> Mapping[str, Any]:
        """Have the handle's gateway do something, and return its answer.

        Raises `unknown` where there is no such handle of the principal's, or what the other gateway raised.
        """
        tag = handle.guid[:TAG_BYTES]
        if self._ask is None or tag == self._tag:
            raise unknown
        answer = await self._ask(
            tag,
            {
                "wanted": wanted,
                "guid": handle.guid.hex(),
                "digest": digest_of(handle).hex(),
                "kind": kind,
                "progress": progress,
                "user": principal.user,
                "id": principal.id,
            },
        )
        if answer is None or "unknown" in answer:
            raise unknown
        if "raised" in answer:
            raise read_error(answer["raised"])
        return answer

    async def refuse(
        self, principal: Principal, handle: Handle, unknown: InvalidHandle, *, kind: int = 0
    ) -> SluiceError:
        """Return why a call that needs the session itself is refused for a handle that is not here."""
        try:
            found = await self.ask("find", principal, handle, unknown, kind=kind)
        except SluiceError as error:
            return error
        return SessionElsewhere(
            f"the session was opened through the gateway `{found['gateway']}`: here it can only be closed, "
            "and its statements asked for their status, cancelled and closed; use the connection that opened "
            "it, or open another session"
        )


def write_error(error: SluiceError) -> dict[str, Any]:
    """Write an error for another gateway, as its client may read it."""
    written: dict[str, Any] = {"code": error.code, "sqlstate": error.sqlstate, "message": error.text}
    if isinstance(error, StatementRefused) and error.in_sparks_words:
        condition = f"[{error.condition}] " if error.condition else ""
        written["message"] = f"Error running query: {condition}{error.classes[0]}: {error.text}"
    elif isinstance(error, StatementFailed):
        written["trace"], written["details"] = error.trace, list(error.details)
        written["error_code"] = error.error_code
    return written


def read_error(told: Mapping[str, Any]) -> SluiceError:
    """Return the error that another gateway told of: its text stays what it is."""
    return StatementFailed(
        str(told["message"]),
        str(told["sqlstate"]),
        int(told.get("error_code", 0)),
        "",
        trace=str(told.get("trace", "")),
        details=tuple(str(line) for line in told.get("details", ())),
    )
