"""What of an error message of Spark a client may read: its class and first paragraph, without the rest.

Spark's Thrift server sends the Java stack, the analysed plan and the statement's text with `^^^` marks, all
of which show what the gateway wrote, and raw cell values: a predicate of the user may run on a row before the
row filter has dropped it, and then the error quotes that row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_ERROR_CLASS = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ?")
_JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z][\w$]*(?:Exception|Error)?: ")
_THRIFT_PREFIX = re.compile(r"^(?:Error (?:running|operating) [\w ]*: ?)+")
_SQLSTATE = re.compile(r"[ ,;]*SQLSTATE: ?([0-9A-Z]{5})\b")
_POSITION = re.compile(r"[;,]? ?\(?line \d+,? pos(?:ition)? \d+\)?[;,]?")
_END = re.compile(r"\r?\n|\t+at (?=[\w.$]+\()|== SQL|(?<=;) ?'?[A-Z]\w+ \[")
_ANALYSIS = re.compile(
    r"(?:org\.apache\.hive\.service\.cli\.HiveSQLException: )?Error running query: "
    r"(?:\[([A-Z][A-Z0-9_.]*)\] )?org\.apache\.spark\.sql\."
    r"(?:AnalysisException|catalyst\.(?:ExtendedAnalysisException|parser\.\w+|analysis\.\w+)): "
)
_PLANNING = re.compile(
    r"(?:org\.apache\.hive\.service\.cli\.HiveSQLException: )?Error running query: "
    r"\[(UNSUPPORTED_FEATURE\.TABLE_OPERATION)\] org\.apache\.spark\.SparkUnsupportedOperationException: "
)
"""The same of a command that a table cannot do: it is planned before any row is read, and names the table and
the command. No function that a user can call raises this class."""
"""Spark's own beginning of an error that comes before any row is read. A user chooses the SQLSTATE and the
error class of a runtime error (`aes_encrypt`, `raise_error`), but not the exception's class."""
_PATH = re.compile(
    r"(https://spark\.apache\.org/docs/[\w./#-]*)"
    r"|(?<![\w`])(?:(?:file|hdfs|s3[an]?|abfss?|wasbs?|gs|dbfs|viewfs|oss|cosn|obs|jdbc|thrift|https?)"
    r":[^\s,;)\]'\"`]+|/(?:[\w.=%@+-]+/)+[\w.=%@+-]*)"
)

VALUE = "'***'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorKind:
    """What Spark Connect tells of an error beside its message; over Thrift the message is all there is."""

    error_class: str
    """Spark's error class, empty when it has none; not read from the message, which a user can write."""
    analysis: bool
    """Whether it came before any row was read, as the exception's class tells."""
    exception: str = ""
    """That class; empty when it is not known."""


_TYPE = r'("[A-Z][A-Z_ ]*(?:\([0-9, ]+\))?")'
_CAST = re.compile(rf"The value .* of the type {_TYPE} cannot be cast to {_TYPE}", re.DOTALL)

_SENTENCES = {
    "ARITHMETIC_OVERFLOW": "arithmetic overflow; use the try_ variant of the function to tolerate it",
    "BINARY_ARITHMETIC_OVERFLOW": "arithmetic overflow; use the try_ variant of the function to tolerate it",
    "CANNOT_PARSE_DECIMAL": f"cannot parse {VALUE} as a decimal",
    "CANNOT_PARSE_TIMESTAMP": f"cannot parse {VALUE} as a timestamp; use try_to_timestamp to tolerate it",
    "CAST_INVALID_INPUT": f"the value {VALUE} cannot be cast; use try_cast to tolerate it",
    "CAST_OVERFLOW": f"the value {VALUE} does not fit the type that it is cast to",
    "DATETIME_OVERFLOW": "a date or time is out of range",
    "DIVIDE_BY_ZERO": "division by zero; use try_divide to tolerate it",
    "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER": "a file is neither ORC nor Parquet, or is corrupt",
    "FAILED_READ_FILE.FILE_NOT_EXIST": "a file of a table does not exist, and may have been replaced; run "
    "REFRESH TABLE on what the statement reads, or make the DataFrame anew",
    "INTERVAL_ARITHMETIC_OVERFLOW": "an interval is out of range",
    "INTERVAL_DIVIDED_BY_ZERO": "division of an interval by zero",
    "INVALID_ARRAY_INDEX": "an array index is out of bounds; use get() to tolerate it",
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": "an array index is out of bounds; use try_element_at to tolerate it",
    "INVALID_INDEX_OF_ZERO": "an array index is zero; indexes start at 1",
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": f"the value {VALUE} has too many digits",
    "NUMERIC_VALUE_OUT_OF_RANGE": f"the value {VALUE} does not fit its decimal type",
    "REMAINDER_BY_ZERO": "remainder by zero; use try_mod to tolerate it",
}
"""Our own sentence for the runtime errors that people meet. Under obligations nothing of Spark's text is
repeated: a cell value may hold quotes, brackets and line breaks, so where it ends cannot be known."""

_CONSTANT = re.compile(
    r"The background threadpool cannot accept new task for execution, please retry the operation"
    r"|Expected state FINISHED, but found"
    r" (?:INITIALIZED|RUNNING|CANCELED|CLOSED|ERROR|UNKNOWN|PENDING|TIMEDOUT|COMPILED)"
)
"""What Thrift Server says of itself, without a condition and without a value. A user can raise the same: so
every word of it is written here."""
_NOT_FOUND = frozenset(
    {"CANNOT_RESOLVE_DATAFRAME_COLUMN", "UNRESOLVED_COLUMN", "UNRESOLVED_USING_COLUMN_FOR_JOIN"}
)
"""Conditions that a column is not there."""
NOT_SELECTABLE = "A column that may not be selected cannot be resolved either."
"""What is added then, whatever column was named: whoever lacks a privilege learns what to ask for."""
UNNAMED = (
    "the statement does not fit a table that it writes to, or a view that it reads does not fit its table, "
    "of which not every column may be selected"
)
WITHHELD = "the statement failed on a value; values are not shown because row filters or masks apply"
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
) -> str:
    """Return what of Spark's `message` may be shown.

    `substitutions` are (ours, the user's) pairs of text, put back into the user's words. `has_obligations`:
    the statement carries row filters or masks, so that a runtime error is told in our words, without values.
    `hides_columns` and `hides_target` are those of Cleared.
    Without `kind` the message itself tells its class, as Thrift Server writes it.
    """
    error_class, body = _head(message)
    if kind is not None:
        error_class = kind.error_class
    named_state = _SQLSTATE.search(body)
    spark = _ANALYSIS.match(message) or _PLANNING.match(message)
    analysis = kind.analysis if kind is not None else spark is not None
    condition = error_class or (spark is not None and spark.group(1)) or ""
    if hides_target or (has_obligations and not analysis):
        # INVARIANT (no values under obligations): only the class and the SQLSTATE come from Spark's text.
        state = sqlstate if sqlstate and re.fullmatch("[0-9A-Z]{5}", sqlstate) else ""
        if analysis:
            return _tell(condition, UNNAMED, state)
        return _tell(error_class, _without_values(error_class, body), state)
    end = _END.search(body)
    body = _SQLSTATE.sub("", body[: end.start()] if end else body)
    body = _POSITION.sub("", body).rstrip("; \t")
    body = without_paths(in_users_words(body, substitutions))
    body = " ".join(body.split()) or UNKNOWN
    if hides_columns and analysis and condition.split(".", 1)[0] in _NOT_FOUND:
        body = f"{body} {NOT_SELECTABLE}"
    return _tell(error_class, body, named_state.group(1) if named_state else "")


@cache
def constant_messages() -> Mapping[str, str]:
    """Return the texts of Spark 4.3 for conditions that have no parameters, each on one line.

    They are told by the condition and not repeated from a message, which a user can write.
    """
    file = Path(__file__).with_name("constant_messages.json")
    messages: Mapping[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return messages


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
    error_class, body = "", _THRIFT_PREFIX.sub("", message.strip())
    while True:
        if java := _JAVA_CLASS.match(body):
            body = body[java.end() :]
        elif (found := _ERROR_CLASS.match(body)) and found.group(1) == (error_class or found.group(1)):
            error_class, body = found.group(1), body[found.end() :]
        else:
            return error_class, body


def _without_values(error_class: str, body: str) -> str:
    top = error_class.split(".", 1)[0]
    if top in {"CAST_INVALID_INPUT", "CAST_OVERFLOW"} and (types := _CAST.match(body)):
        return f"the value {VALUE} of the type {types.group(1)} cannot be cast to {types.group(2)}"
    if _CONSTANT.fullmatch(body):
        return body
    return (
        _SENTENCES.get(error_class) or _SENTENCES.get(top) or constant_messages().get(error_class, WITHHELD)
    )
