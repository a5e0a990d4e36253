"""One class per reaction of the edge. A refusal of a statement is a value (`Refused`), not an error.

Messages are in the user's words, lower case, without a full stop; names that the user typed stand in
backticks. `sqlstate` and `code` are stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_LINE_CHARS = 200
"""How much of a server's or a library's own words stands in a message or a log."""


def one_line(text: str) -> str:
    """Return a server's or a library's words as one short line."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_LINE_CHARS else line[:MAX_LINE_CHARS] + "…"


def members_of(error: BaseException) -> list[BaseException]:
    """Return the errors that a group holds, groups in it too; of what is no group, the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [one for member in error.exceptions for one in members_of(member)]


PASSES = "53400"
"""SQLSTATE of what a limit refuses now and not for ever: PostgreSQL's `configuration_limit_exceeded`, of the
class of insufficient resources."""


class SluiceError(Exception):
    """Base of every error that an edge turns into a reply."""

    code = "INTERNAL"
    sqlstate = "XX000"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    @property
    def text(self) -> str:
        """The message as a client sees it."""
        return f"[SLUICE_{self.code}] {self.message}"

    @property
    def for_operators(self) -> str:
        """The message as whoever runs the gateway sees it."""
        return self.message


class InvalidHandle(SluiceError):
    """A session or operation handle is unknown, expired or belongs to another principal."""

    code = "INVALID_HANDLE"
    sqlstate = "HY000"


class AuthenticationFailed(SluiceError):
    """The credentials are wrong, or too many attempts failed."""

    code = "AUTHENTICATION_FAILED"
    sqlstate = "28000"


class InvalidRequest(SluiceError):
    """The client sent something that the protocol allows but Sluice does not take."""

    code = "INVALID_REQUEST"
    sqlstate = "HY000"


class BackendNotAllowed(InvalidRequest):
    """A client may not use the Spark that it asks for, or that rules would give it."""

    code = "BACKEND_NOT_ALLOWED"
    sqlstate = "42501"


class SessionElsewhere(InvalidRequest):
    """The session was opened through another gateway."""

    def __init__(self, message: str, *, gateway: str = "") -> None:
        """`gateway`: its name, where that is known."""
        super().__init__(message)
        self.gateway = gateway


class BackendUnavailable(SluiceError):
    """Spark cannot be reached, or went away while it was working."""

    code = "BACKEND_UNAVAILABLE"
    sqlstate = "08006"

    def __init__(self, message: str, *, where: str = "", lasting: bool = False) -> None:
        """`where`: address and reason, which are the operators' and no client's. `lasting`: it stays so until
        somebody mends the settings."""
        super().__init__(message)
        self.where = where
        self.lasting = lasting

    @property
    def for_operators(self) -> str:
        return f"{self.message}: {self.where}" if self.where else self.message


class BackendMismatch(BackendUnavailable):
    """Spark answers, but may read texts otherwise than the parser does, so nothing may run."""

    code = "BACKEND_MISMATCH"
    sqlstate = "57000"

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class GatewayStopping(SluiceError):
    """The gateway takes nothing new, since it is about to stop; another one, or the next, will."""

    code = "STOPPING"
    sqlstate = "57P01"
    """As PostgreSQL's `admin_shutdown`: pools of connections drop the connection and open another."""

    def __init__(self, message: str = "the gateway is stopping; connect again") -> None:
        super().__init__(message)


class LedgerUnavailable(SluiceError):
    """The audit record cannot be made durable, so nothing may run."""

    code = "LEDGER_UNAVAILABLE"
    sqlstate = "58030"


@dataclass(eq=False)  # not frozen: contextlib sets `__traceback__` of what passes through a context manager
class RpcError(Exception):
    """A call to Spark Connect ended with a status that is not OK; texts are Spark's own until redacted."""

    code: int
    """gRPC status code, 14 for UNAVAILABLE."""
    message: str
    details: bytes = b""
    """`grpc-status-details-bin`: a serialized `google.rpc.Status`."""


class JobBusy(SluiceError):
    """Somebody else runs the job: of each there is one run at a time, over all gateways."""

    code = "JOB_BUSY"
    sqlstate = "55006"


class ProofFailed(SluiceError):
    """A statement shows something else than the policies say."""

    code = "PROOF_FAILED"
    sqlstate = "XX000"


class RecordChanged(SluiceError):
    """The audit record is not what was recorded."""

    code = "RECORD_CHANGED"
    sqlstate = "XX001"


class LimitExceeded(SluiceError):
    """A bound on sessions, operations, sizes or use was reached."""

    code = "LIMIT_EXCEEDED"
    sqlstate = "54000"

    def __init__(
        self, message: str, *, limit: str = "", retry_s: float | None = None, passes: bool = False
    ) -> None:
        """`limit`: its name, where a pack sets it. `retry_s`: after how many seconds the same may be tried
        again; `passes`: that it may be, at some time."""
        super().__init__(message)
        self.limit = limit
        self.retry_s = retry_s
        if passes or retry_s is not None:
            self.sqlstate = PASSES


class PoliciesStale(SluiceError):
    """The source of the policies has not been heard for longer than its limit, so nothing may run."""

    code = "POLICIES_STALE"
    sqlstate = "57000"


class Faults(SluiceError):
    """Everything that is wrong with a set of files, told together with file and line."""

    code = "FAULTS"
    sqlstate = "F0000"

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


class UnreadableFiles(Faults):
    """Files that cannot be read at all, so that nobody knows whether what was read before still holds."""
