"""Errors of one statement, each with the text that its sender reads and the event id to quote."""

from __future__ import annotations

from gateway.errors import SluiceError
from gateway.model.statement import Refused


class StatementRefused(SluiceError):
    """A verdict stopped the statement; nothing of it reached Spark."""

    def __init__(self, refused: Refused, statement_id: str) -> None:
        super().__init__(refused.message)
        self.code = refused.code
        self.sqlstate = refused.sqlstate
        self.statement_id = statement_id

    @property
    def text(self) -> str:
        if self.code == "SPARK":
            # The parser's own words and no others: the client must not notice who answered.
            return self.message
        return f"[SLUICE_{self.code}] {self.message}; to ask about it, quote audit event {self.statement_id}"


class StatementFailed(SluiceError):
    """Spark could not run the statement; the message was scrubbed."""

    code = "STATEMENT_FAILED"

    def __init__(self, message: str, sqlstate: str, error_code: int, statement_id: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.error_code = error_code
        self.statement_id = statement_id

    @property
    def text(self) -> str:
        """Spark's words and no others, as clients that look for its error class expect."""
        return self.message


class NotFinished(SluiceError):
    """Rows were asked for before the operation has any, or after it ended without them."""

    code = "NOT_FINISHED"
    sqlstate = "HY010"
