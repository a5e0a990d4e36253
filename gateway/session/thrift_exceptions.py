"""What a text of Thrift Server says of an exception: its class, its condition, and those that caused it.

A user chooses the message of a run-time error, and with it everything that follows: what counts is what Spark
writes in front of it. Of causes, which may be forged where they are printed, only names on a list are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.session.conditions import conditions

_HIVE = "org.apache.hive.service.cli.HiveSQLException: "
_WRAPPER = re.compile(r"(?:Error (?:running|operating) [\w ]*: ?)+")
_CONDITION = re.compile(r"\[(_?[A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\] ?")
_JAVA_CLASS = re.compile(r"((?:[a-z_]\w*\.)+[A-Z][\w$]*)(?::[ \n]?|(?=\s)|$)")
_TASK = re.compile(
    r"Job aborted due to stage failure: "
    r"(?:Task \d+ in stage [\d.]+ failed \d+ times?, most recent failure: )?"
    r"Lost task [\d.]+ in stage [\d.]+ \(TID \d+\) \([^()\n]{1,256}\): "
)
_CAUSE = re.compile(r"\nCaused by: ")
_DETAIL = re.compile(r"\*([\w.$]+):")
_SPARK = "org.apache.spark."
SPARK_EXCEPTION = f"{_SPARK}SparkException"
LOST_FILES = frozenset({"FAILED_READ_FILE.FILE_NOT_EXIST"})
MAX_CAUSES = 16
MAX_DEPTH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """An exception as its text tells it."""

    exception: str = ""
    """Its Java class, which no user chooses; empty when it is not known."""
    condition: str = ""
    """Spark's error class; empty when it has none."""
    message: str = ""
    """What it says beside them, which may hold anything."""
    direct: bool = True
    """Whether it is the one that ended the statement or a task of it, and not a cause that a stack prints."""
    outermost: bool = False
    """Whether Spark says it of the statement, and not of a task, nor while rows are fetched."""


def find_raised(text: str, details: Sequence[str] = ()) -> Raised:
    """Return the exception that says why a statement failed: the first that has a condition, else the last
    within those that only say that a task or a wait for one failed.

    `details` are the lines of a status, which tell an exception and its causes one by one.
    """
    text = text.strip()
    first = _read(_line(text) if _DETAIL.match(text) else text)
    if first.condition or not first.exception.startswith((_SPARK, "java.util.concurrent.")):
        return first
    told = first
    for cause in _causes(text, details):
        if cause.condition in conditions():  # RULE (cause-condition)
            return cause
        if _says_nothing(told) and cause.exception:
            told = cause
    return told


def has_lost_files(text: str, details: Sequence[str] = ()) -> bool:
    """Whether a statement failed because a file that a table had is gone."""
    found = find_raised(text, details)
    return found.condition in LOST_FILES or found.exception == "java.io.FileNotFoundException"


def _says_nothing(told: Raised) -> bool:
    return told.exception in (SPARK_EXCEPTION, "java.util.concurrent.ExecutionException")


def _causes(text: str, details: Sequence[str]) -> Iterator[Raised]:
    lines = [_line(line) for line in details if _DETAIL.match(line)]
    for line in (lines[1:] or _CAUSE.split(text)[1:])[:MAX_CAUSES]:
        found = _read(line)
        yield Raised(
            exception=found.exception, condition=found.condition, message=found.message, direct=False
        )


def _line(detail: str) -> str:
    """Return an exception as a stack prints it, of a line that HiveServer2 tells it in."""
    return detail.removeprefix("*").replace(":", ": ", 1)


def _read(text: str, depth: int = 0) -> Raised:
    """Read `[CONDITION] java.Class: [CONDITION] message`, each part where Spark writes it."""
    body = text.removeprefix(_HIVE)
    wrapper = _WRAPPER.match(body)
    if wrapper is not None:
        body = body[wrapper.end() :]
    condition = ""
    if named := _CONDITION.match(body):
        condition, body = named[1], body[named.end() :]
    java = _JAVA_CLASS.match(body)
    if java is None:
        return Raised(condition=condition if condition in conditions() else "", message=body)
    exception, body = java[1], body[java.end() :]
    again = _CONDITION.match(body)
    if condition:
        if again is not None and again[1] == condition:
            body = body[again.end() :]
    elif again is not None and exception.startswith(_SPARK) and again[1] in conditions():
        condition, body = again[1], body[again.end() :]
    elif task := _TASK.match(body):
        inner = _read(body[task.end() :], depth + 1) if depth < MAX_DEPTH else Raised()
        if inner.exception:
            return inner
    elif exception == "java.util.concurrent.ExecutionException" and depth < MAX_DEPTH:
        inner = _read(body, depth + 1)
        if inner.condition:
            return inner
    outermost = wrapper is not None and depth == 0  # RULE (task-error-late)
    return Raised(exception=exception, condition=condition, message=body, outermost=outermost)
