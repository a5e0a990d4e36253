"""Errors of one statement, each with the text that its sender reads and the event id to quote."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gateway.errors import SluiceError
from gateway.model.statement import Refused

ANALYSIS = ("org.apache.spark.sql.AnalysisException",)
OTHER = ("org.apache.spark.SparkException",)
"""Classes of Spark's, each with those above it."""
_NOT_ANALYSED = {"CATALOG_NOT_FOUND": OTHER}
"""What a refusal in Spark's own words says that comes neither from its parser nor from its analyser."""
_CONDITION = re.compile(r"\s*\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRefusal:
    """Why a call without a statement is refused; `message` is for the person who sent it."""

    code: str
    """`ACCESS_DENIED`, `NOT_GOVERNABLE`, `MALFORMED`, `LIMIT_EXCEEDED`."""
    sqlstate: str
    message: str


class StatementRefused(SluiceError):
    """A verdict stopped the statement; nothing of it reached Spark."""

    def __init__(self, refused: Refused, statement_id: str, *, console_url: str = "") -> None:
        """`console_url`: where browsers reach the console; empty where they do not."""
        super().__init__(refused.message)
        self._console_url = console_url
        self.code = refused.code
        self.sqlstate = refused.sqlstate
        self.parameters = refused.parameters
        self.exceptions = refused.exceptions
        self._condition = refused.condition
        self.retry_s = refused.retry_s
        self.statement_id = statement_id

    @property
    def in_sparks_words(self) -> bool:
        """Whether the message is the one that Spark itself would give."""
        return self.code == "SPARK"

    @property
    def condition(self) -> str:
        """The error class of a message in Spark's words; empty when it has none."""
        found = _CONDITION.match(self.message)
        return found[1] if found is not None else self._condition

    @property
    def classes(self) -> tuple[str, ...]:
        """The Java classes of a message in Spark's words."""
        return self.exceptions or _NOT_ANALYSED.get(self.condition, ANALYSIS)

    @property
    def text(self) -> str:
        if self.in_sparks_words:
            # The parser's own words and no others: the client must not notice who answered.
            return self.message
        where = self.statement_id
        if self._console_url:
            where += f", or open {self._console_url}/console/events/{where}"
        return f"[SLUICE_{self.code}] {self.message}; to ask about it, quote audit event {where}"


class StatementFailed(SluiceError):
    """Spark could not run the statement; the message is as its sender may read it."""

    code = "STATEMENT_FAILED"

    def __init__(
        self,
        message: str,
        sqlstate: str,
        error_code: int,
        statement_id: str,
        *,
        trace: str = "",
        details: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.trace = trace
        """Where all may be told: exception, message, stack and causes, as Java prints them."""
        self.details = details
        """The same as HiveServer2 tells it, where Spark did."""
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


def build_overtaken_error(statement_id: str) -> StatementFailed:
    """Return the end of a statement whose names changed before Spark was known to have analysed it."""
    message = (
        "[SLUICE_CATALOG_CHANGED] a table or view that the statement reads was changed while Spark started "
        "it; run it again"
    )
    return StatementFailed(message, "40001", 0, statement_id)
