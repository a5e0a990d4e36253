"""What of an error message of Spark a client may read: its class and first paragraph, without the rest.

Spark's Thrift server sends the Java stack, the analysed plan and the statement's text with `^^^` marks, all
of which show what the gateway wrote, and raw cell values: a predicate of the user may run on a row before the
row filter has dropped it, and then the error quotes that row. Then Spark's sentence is told with stars in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gateway.model.table_formats import METADATA_COLUMNS
from gateway.session.conditions import NO_PARAMETERS_SHOWN, Own, find_legacy, sentence, sqlstate_of, sqlstates
from gateway.session.thrift_exceptions import Raised, find_raised

_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ?")
_JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error)?: ")
_THRIFT_PREFIX = re.compile(r"^(?:Error (?:running|operating) [\w ]*: ?)+")
_SQLSTATE_SUFFIX = re.compile(r" SQLSTATE: ([0-9A-Z]{5})$")
_SQLSTATE = re.compile(r"[ ,;]*SQLSTATE: ?([0-9A-Z]{5})\b")
_POSITION = re.compile(r"[;,]? ?\(?line \d+,? pos(?:ition)? \d+\)?[;,]?")
_END = re.compile(r"\r?\n|\t+at (?=[\w.$]+\()|== SQL|(?<=;) ?'?[A-Z]\w+ \[")
_BEFORE_ROWS = re.compile(
    r"org\.apache\.spark\.sql\.(?:AnalysisException|connect\.common\.InvalidPlanInput"
    r"|catalyst\.(?:ExtendedAnalysisException|parser\.\w+|analysis\.\w+))"
)
"""Exceptions that come before any row is read. A user chooses the message of a run-time error
(`raise_error`), but not the exception's class."""
_PLANNING = ("UNSUPPORTED_FEATURE.TABLE_OPERATION", "org.apache.spark.SparkUnsupportedOperationException")
"""The same of a command that a table cannot do: it is planned before any row is read, and names the table and
the command. No function that a user can call raises this class."""
_NOT_OF_ANALYSIS = ("INVALID_FORMAT", "_LEGACY_ERROR_TEMP_3065")
"""What is raised as an AnalysisException and yet tells of rows, or of a policy: LIKE looks at the pattern of
each row; Hive's metastore quotes partitions' values, and the filter that it was asked for partitions by."""
_FIRST_NAME = re.compile(r"(`[^`]{1,64}`(?:\.`[^`]{1,64}`){0,5})")
_HIVE = "org.apache.hive.service.cli.HiveSQLException: "
_PATH = re.compile(
    r"(https://spark\.apache\.org/docs/[\w./#-]*)"
    r"|(?<![\w`])(?:jdbc:[^\s'\"`]+|(?:[a-z][a-z0-9+.-]{1,31}:/|(?:file|hdfs|s3[an]?|thrift):)[^\s,;)\]'\"`]+"
    r"|/(?:[\w.=%@+-]+/)+[\w.=%@+-]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorKind:
    """What Spark Connect tells of an error beside its message; over Thrift the message is all there is."""

    error_class: str
    """Spark's error class, empty when it has none; not read from the message, which a user can write."""
    analysis: bool
    """Whether it came before any row was read, as the exception's class tells."""
    exception: str = ""
    """That class; empty when it is not known."""
    parameters: Mapping[str, str] | None = None
    """Those of the message, where Spark tells them."""


_CONSTANT = re.compile(
    r"The background threadpool cannot accept new task for execution, please retry the operation"
    r"|Expected state FINISHED, but found"
    r" (?:INITIALIZED|RUNNING|CANCELED|CLOSED|ERROR|UNKNOWN|PENDING|TIMEDOUT|COMPILED)"
)
"""What Thrift Server says of itself, without a condition and without a value. A user can raise the same: so
every word of it is written here."""
_NO_TYPE = re.compile(
    r"Unrecognized type name: "
    r"(?:variant|time(?:\(\d\))?|geo(?:metry|graphy)(?:\((?:any|[A-Z]{0,8}:?\d{1,9})\))?)"
)
"""What it says of a type that HiveServer2's protocol has no number for."""
CAST_IT = "HiveServer2's protocol has no such type; cast the column, to STRING for example"
NO_METADATA = "Metadata columns are not available for a table with row filters or masks."
_NOT_FOUND = frozenset(
    {"CANNOT_RESOLVE_DATAFRAME_COLUMN", "UNRESOLVED_COLUMN", "UNRESOLVED_USING_COLUMN_FOR_JOIN"}
)
"""Conditions that a column is not there."""
NOT_SELECTABLE = "Columns that you may not select cannot be resolved."
"""What is added then, whatever column was named: whoever lacks a privilege learns what to ask for."""
UNNAMED = (
    "the statement does not match its target table, or a view that it reads does not match its table; you "
    "may not select every column or row of that table"
)
WITHHELD = (
    "the statement failed while running; Spark's message is not shown because row filters or masks apply"
)
_SENTENCES = {
    "com.fasterxml.jackson.core.JsonParseException": "a text is not JSON",
    "com.fasterxml.jackson.core.io.JsonEOFException": "a text is not JSON",
    "java.io.FileNotFoundException": "a file of a table does not exist and may have been replaced; run "
    "REFRESH TABLE on the tables that the statement reads, or create the "
    "DataFrame again",
    "java.lang.ArithmeticException": "a number or a date is out of range",
    "java.lang.NumberFormatException": "a text is not a number",
    "java.lang.OutOfMemoryError": "Spark does not have enough memory",
    "java.time.DateTimeException": "a date, a time or a time zone is not valid",
    "java.time.format.DateTimeParseException": "a text is not a date or a time",
    "java.util.regex.PatternSyntaxException": "a regular expression is not valid",
    "org.apache.spark.api.python.PythonException": "a Python function raised an exception",
}
"""What an exception without a condition is about, by its class."""
MARK = "SLUICE_ROW_CHECK"
"""In the message of the error that a row raises which may not be written. Whoever raises one himself reads
the same words: none of them is of a row."""
ROW_HIDDEN = (
    "a row that the statement writes does not satisfy the row filter of its table for you, so you could not "
    "read it back; nothing was written"
)
_WRAPPERS = frozenset({"org.apache.spark.SparkException", "org.apache.spark.SparkRuntimeException"})
_JAVA = re.compile(r"(?:java|javax|org\.apache\.(?:spark|hadoop|parquet|orc)|scala)\.[\w.$]{1,200}")
UNKNOWN = "Spark could not run the statement"


def redact(
    message: str,
    sqlstate: str | None,
    *,
    substitutions: Sequence[tuple[str, str]] = (),
    has_obligations: bool = False,
    hides_columns: bool = False,
    hides_target: bool = False,
    kind: ErrorKind | None = None,
    details: Sequence[str] = (),
    own: Own = NO_PARAMETERS_SHOWN,
) -> str:
    """Return what of Spark's `message` may be shown.

    `substitutions` are (ours, the user's) pairs of text, put back into the user's words. `has_obligations`:
    the statement carries row filters or masks, so that a runtime error is told without values.
    `hides_columns` and `hides_target` are those of Cleared. `own`: what the statement says itself.
    Without `kind` the message itself tells its class, as Thrift Server writes it, and `details` its causes.
    """
    if any(MARK in one for one in (message, *details)):  # RULE (row-check-told)
        return _tell(MARK, ROW_HIDDEN, "44000")
    error_class, body = _head(message)
    text = body
    if kind is None:
        first = find_raised(message, details)
        kind, text = _kind_of(first), first.message
    else:
        error_class = kind.error_class
    if has_obligations and not kind.error_class:
        # What its parameters are, nobody has said.
        kind = replace(kind, error_class=find_legacy(kind.exception, text), parameters={})
    condition = kind.error_class
    named_state = _SQLSTATE.search(body)
    if hides_target or (has_obligations and not kind.analysis):
        # INVARIANT (no values under obligations): Spark's text is made anew from its list of conditions.
        state = sqlstate if sqlstate and sqlstate in sqlstates() else sqlstate_of(condition)
        if kind.analysis:
            return _tell(condition, UNNAMED, state)
        if hides_target:
            own = NO_PARAMETERS_SHOWN
        return _tell(condition, _without_values(kind, text, own), state)
    end = _END.search(body)
    body = _SQLSTATE.sub("", body[: end.start()] if end else body)
    body = _POSITION.sub("", body).rstrip("; \t")
    body = without_paths(in_users_words(body, substitutions))
    body = " ".join(body.split()) or UNKNOWN
    if kind.analysis and condition.split(".", 1)[0] in _NOT_FOUND:
        if has_obligations and _names_metadata(body):
            body = f"{body} {NO_METADATA}"
        if hides_columns:
            body = f"{body} {NOT_SELECTABLE}"
    return _tell(error_class, body, named_state.group(1) if named_state else "")


def parse_sqlstate(shown: str) -> str:
    """Return the SQLSTATE that a text of `redact` ends with; empty when it has none."""
    found = _SQLSTATE_SUFFIX.search(shown)
    return found[1] if found is not None else ""


def comes_before_rows(condition: str, exception: str) -> bool:
    """Whether an error of this class comes before any row is read."""
    if condition.startswith(_NOT_OF_ANALYSIS):  # RULE (late-conditions)
        return False
    return _BEFORE_ROWS.fullmatch(exception) is not None or (condition, exception) == _PLANNING


def _kind_of(first: Raised) -> ErrorKind:
    # A cause that a stack prints may be a user's text: nothing of it is told but what is on a list of ours.
    certain = first.direct or first.exception in _SENTENCES
    return ErrorKind(
        error_class=first.condition,
        analysis=first.outermost and comes_before_rows(first.condition, first.exception),
        exception=first.exception if certain else "",  # RULE (cause-class-untold)
        parameters=None if first.direct else {},
    )


def in_users_words(text: str, substitutions: Sequence[tuple[str, str]]) -> str:
    """Put what we wrote back into the words that stood there, the longest first."""
    for ours, theirs in sorted(substitutions, key=lambda pair: -len(pair[0])):
        if ours and ours != theirs:
            text = text.replace(ours, theirs)
    return text


def without_paths(text: str) -> str:
    """Leave out paths and URLs, but not those of Spark's documentation."""
    return _PATH.sub(lambda found: found[1] or "<path>", text)


def _tell(error_class: str, body: str, state: str) -> str:
    prefix = f"[{error_class}] " if error_class else ""
    suffix = f" SQLSTATE: {state}" if state else ""
    return f"{prefix}{body}{suffix}"


def _head(message: str) -> tuple[str, str]:
    """Split off the error class; Thrift's wrapper repeats it: `[CLASS] java.Class: [CLASS] message`."""
    error_class, body = "", _THRIFT_PREFIX.sub("", message.strip().removeprefix(_HIVE))
    while True:
        if java := _JAVA_CLASS.match(body):
            body = body[java.end() :]
        elif (found := _ERROR_CLASS.match(body)) and found.group(1) == (error_class or found.group(1)):
            error_class, body = found.group(1), body[found.end() :]
        else:
            return error_class, body


def _names_metadata(body: str) -> bool:
    """Whether the name that an error says first may be that of a metadata column."""
    found = _FIRST_NAME.search(body)
    return found is not None and found[1].rsplit(".", 1)[-1].strip("`").lower() in METADATA_COLUMNS


def _without_values(kind: ErrorKind, body: str, own: Own) -> str:
    if not kind.error_class and _CONSTANT.fullmatch(body):
        return body
    if not kind.error_class and _NO_TYPE.fullmatch(body):
        return f"{body}: {CAST_IT}"
    told = sentence(kind.error_class, kind.exception, body, own=own, given=kind.parameters)
    if told is not None:
        return told
    if (known := _SENTENCES.get(kind.exception)) is not None:
        return known
    if kind.exception in _WRAPPERS or not _JAVA.fullmatch(kind.exception):
        return WITHHELD
    return f"{WITHHELD} ({kind.exception})"
