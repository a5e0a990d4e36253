"""Errors of statements in which nothing is guarded: Spark's own, whole, as if the user's text were Spark's.

What the gateway writes into such a text is full names for names; and for a table that is not there a guard,
which keeps rows from showing should it appear meanwhile. Both are undone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.model.statement import Cleared, RewrittenText
from gateway.session.places import in_users_text

Missing = Sequence[tuple[tuple[str, ...], tuple[str, ...]]]
"""(parts of the full name, parts as they were written) of tables that are not there."""

_EXCEPTION = "org.apache.hive.service.cli.HiveSQLException: "
_RUNNING = "\n\tat org.apache.spark.sql.hive.thriftserver.HiveThriftServerErrors$.runningQueryError("
_NOT_FOUND = re.compile(
    r"(?:org\.apache\.hive\.service\.cli\.HiveSQLException: )?"
    r"Error running query: \[TABLE_OR_VIEW_NOT_FOUND\] org\.apache\.spark\.sql\."
    r"(?:AnalysisException|catalyst\.ExtendedAnalysisException): "
)
"""How Thrift Server begins the one error that Spark gives of a table that is not there. With any other one,
the table has appeared, and nobody has judged what its columns are."""


def whole_words(message: str, cleared: Cleared) -> bool:
    """Whether a message of Thrift Server may be told whole, of a statement in which nothing is guarded."""
    return not cleared.missing or _NOT_FOUND.match(message) is not None


def in_users_words_whole(message: str, cleared: Cleared) -> str:
    """Return such a message as Spark would have written it of the text that the user wrote."""
    return as_written(message, cleared.rewritten, cleared.missing)


def as_written(message: str, texts: Sequence[RewrittenText], missing: Missing) -> str:
    """Return a whole message with places and missing names as the user wrote them."""
    message = in_users_text(message, texts)
    return without_guards(message, missing) if missing else message


def without_stack(message: str) -> str:
    """Return what the exception itself says, of a text with stack and causes."""
    message = message.removeprefix(_EXCEPTION)
    end = message.find(_RUNNING)
    return message[: end if end >= 0 else message.find("\n\tat ") if "\n\tat " in message else None]


def without_guards(message: str, missing: Missing) -> str:
    return message
