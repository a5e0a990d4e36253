"""Errors as HiveServer2 says them: a TStatus with code 3, an SQLSTATE, a message and lines of detail."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gateway.errors import InvalidHandle, SluiceError
from gateway.session.failures import StatementFailed, StatementRefused
from gateway.wire.tcli import TStatus, TStatusCode

OK = TStatus(statusCode=TStatusCode.SUCCESS)

_EXCEPTION = "org.apache.hive.service.cli.HiveSQLException"
"""The class that Hive's JDBC driver makes of the first line of detail."""
_FRAME = re.compile(r"\tat (?:[\w.@$-]+/+)?([^()\s]+)\.([^.()\s]+)\(([^()]*?)(?::(\d+))?\)")
_COMMON = re.compile(r"\t\.\.\. (\d+) more")
_CAUSE = "Caused by: "


def error_status(fault: SluiceError) -> TStatus:
    """Return the status for an error of a call."""
    text = status_text(fault)
    return TStatus(
        statusCode=TStatusCode.ERROR,
        infoMessages=_details(fault, text),
        sqlState=fault.sqlstate or None,
        errorCode=getattr(fault, "error_code", 0),
        errorMessage=text,
    )


def status_text(fault: SluiceError) -> str:
    """Return the message of an error; an invalid handle is worded exactly as Spark words it."""
    if isinstance(fault, StatementRefused) and fault.in_sparks_words:
        condition = f"[{fault.condition}] " if fault.condition else ""
        return f"Error running query: {condition}{_thrown(fault)}"
    return fault.message if isinstance(fault, InvalidHandle) else fault.text


def operation_text(fault: SluiceError) -> str:
    """Return the message of an error that ended an operation: with stack and causes, as Spark tells it, where
    all may be told."""
    if isinstance(fault, StatementFailed) and fault.trace:
        return fault.trace
    if isinstance(fault, StatementRefused) and fault.in_sparks_words:
        return f"{_EXCEPTION}: {status_text(fault)}\n{_CAUSE}{_thrown(fault)}"
    return status_text(fault)


def _thrown(refused: StatementRefused) -> str:
    """Return a message in Spark's words as the exception's own `toString` has it."""
    return f"{refused.classes[0]}: {refused.text}"


def _details(fault: SluiceError, text: str) -> list[str]:
    """Return the lines of detail: for each exception `*class:message:trace length:unique frames`, and its
    frames as `class:method:file:line` (HiveSQLException.toString in Hive's service, 2.3).

    Drivers parse the numbers; `0:-1` is a trace without frames.
    """
    if isinstance(fault, StatementFailed) and fault.details:
        return list(fault.details)
    if isinstance(fault, StatementFailed) and fault.trace:
        return [line for thrown in fault.trace.split(f"\n{_CAUSE}") for line in _detail(thrown)]
    lines = [f"*{_EXCEPTION}:{text}:0:-1"]
    if isinstance(fault, StatementRefused) and fault.in_sparks_words:
        lines.append(f"*{fault.classes[0]}:{fault.text}:0:-1")
    return lines


def _detail(thrown: str) -> Iterator[str]:
    name, _, rest = thrown.partition(": ")
    lines = rest.rstrip("\n").split("\n")
    frames: list[str] = []
    common = 0
    if lines and (found := _COMMON.fullmatch(lines[-1])) is not None:
        common = int(found[1])
        lines.pop()
    while lines and (found := _FRAME.fullmatch(lines[-1])) is not None:
        kind, method, file, line = found.groups()
        native = file == "Native Method"
        frames.append(f"{kind}:{method}:{'' if native else file}:{-2 if native else line or -1}")
        lines.pop()
    message = "\n".join(lines)
    yield f"*{name}:{message}:{len(frames) + common}:{len(frames) - 1}"
    yield from reversed(frames)
