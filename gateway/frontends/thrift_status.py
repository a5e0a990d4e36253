"""Errors as HiveServer2 says them: a TStatus with code 3, an SQLSTATE, a message and one line of detail."""

from __future__ import annotations

from gateway.errors import InvalidHandle, SluiceError
from gateway.wire.tcli import TStatus, TStatusCode

OK = TStatus(statusCode=TStatusCode.SUCCESS)

_EXCEPTION = "org.apache.hive.service.cli.HiveSQLException"
"""The class that Hive's JDBC driver makes of the line of detail."""


def error_status(fault: SluiceError) -> TStatus:
    """Return the status for an error.

    The line of detail has Hive's form `*class:message:trace length:unique frames`; drivers parse the numbers,
    and `0:-1` is a trace without frames.
    """
    text = status_text(fault)
    return TStatus(
        statusCode=TStatusCode.ERROR,
        infoMessages=[f"*{_EXCEPTION}:{text}:0:-1"],
        sqlState=fault.sqlstate,
        errorCode=getattr(fault, "error_code", 0),
        errorMessage=text,
    )


def status_text(fault: SluiceError) -> str:
    """Return the message of an error; an invalid handle is worded exactly as Spark words it."""
    return fault.message if isinstance(fault, InvalidHandle) else fault.text
