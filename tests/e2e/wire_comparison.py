"""Conversations that are held with Spark and with the gateway and compared reply by reply, as structs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.wire import calls
from gateway.wire.tcli import TOperationHandle, TOperationState, TSessionHandle, TStatus, TStatusCode
from gateway.wire.thrift import Struct
from tests.e2e.lab import PASSWORD, TESTER
from tests.e2e.running import RunningGateway, Spark
from tests.e2e.wire_client import WireClient


@dataclass(frozen=True)
class Side:
    """One connection with one session, to Spark or to the gateway."""

    client: WireClient
    session: TSessionHandle

    def ask(self, method: str, **fields: Any) -> Any:
        return self.client.ask(method, calls.METHODS[method][0](**fields))

    def execute(self, statement: str, **more: Any) -> Any:
        return self.ask("ExecuteStatement", sessionHandle=self.session, statement=statement, **more)

    def fetch(self, operation: TOperationHandle, rows: int = 100, **more: Any) -> Any:
        return self.ask("FetchResults", operationHandle=operation, maxRows=rows, **more)


Conversation = Callable[[Side], list[Any]]


@dataclass(frozen=True)
class Pair:
    """Spark and the gateway."""

    direct: Side
    gateway: Side

    def say_the_same(self, conversation: Conversation) -> list[Any]:
        """Hold a conversation with both, compare every reply, and return Spark's replies."""
        theirs, ours = conversation(self.direct), conversation(self.gateway)
        for our, their in zip(map(neutral, ours), map(neutral, theirs), strict=True):
            assert our == their, f"{our}\n{their}"
        return theirs


@pytest.fixture(scope="module")
def pair(spark: Spark, lab_gateway: RunningGateway) -> Iterator[Pair]:
    with (
        WireClient(spark.host, spark.port, TESTER) as direct,
        WireClient(lab_gateway.host, lab_gateway.port, TESTER, PASSWORD) as through,
    ):
        yield Pair(Side(direct, direct.open_session()), Side(through, through.open_session()))


# -- what may differ -----------------------------------------------------------------------------------------

_HANDLE = re.compile(r"getHandleIdentifier\(\)=[0-9a-f-]+|SessionHandle \[[0-9a-f-]+\]")
_JAVA_CLASS = re.compile(r"^(?:[\w$]+\.)+[\w$]+: ")
_POSITION = re.compile(r"; line \d+ pos \d+;?")
_SQLSTATE = re.compile(r" SQLSTATE: [0-9A-Z]{5}")
_EXPRESSION_ID = re.compile(rb"#\d+")


def neutral(value: Any, field: str = "") -> Any:
    """Return a reply without what two servers cannot have in common, and without what the gateway leaves out.

    Handles; ids of expressions in plans; Java's stacks; of an error's message everything but the first
    paragraph, its position and its SQLSTATE; zero bytes at the end of a null bitmap. Spark leaves
    SQLSTATE and code of some errors out, the gateway says HY000 and 0. Spark's status does not say whether
    there is a result set, the gateway's does.
    """
    match value:
        case Struct():
            fields = {f.name: getattr(value, f.name) for f in type(value).wire_fields}
            for left_out in ("operationId", "sessionId", "infoMessages"):
                fields.pop(left_out, None)
            if isinstance(value, calls.TGetOperationStatusResp):
                del fields["hasResultSet"]
            if isinstance(value, TStatus) and value.statusCode == TStatusCode.ERROR:
                fields["sqlState"] = value.sqlState or "HY000"
                fields["errorCode"] = value.errorCode or 0
            return {name: neutral(it, name) for name, it in fields.items() if it is not None}
        case list():
            return [neutral(item, field) for item in value]
        case dict():
            return {key: neutral(item) for key, item in value.items()}
        case float():
            return repr(value)  # NaN is not equal to itself
        case bytes() if field == "nulls":
            return value.rstrip(b"\0")
        case bytes():
            return _EXPRESSION_ID.sub(b"#", value)
        case str() if field == "errorMessage":
            return first_paragraph(value)
    return value


def first_paragraph(message: str) -> str:
    text = _JAVA_CLASS.sub("", message).split("\n")[0]
    for left_out in (_POSITION, _SQLSTATE, _HANDLE):
        text = left_out.sub("", text)
    return " ".join(text.split())


def whole(statement: str, *, run_async: bool = False) -> Conversation:
    """Return the conversation about one statement, to its end and beyond."""

    def conversation(side: Side) -> list[Any]:
        started = side.execute(statement, runAsync=run_async)
        operation = started.operationHandle
        if operation is None:
            return [started]
        status = side.client.ended(operation)
        replies = [started, status, side.ask("GetResultSetMetadata", operationHandle=operation)]
        if status.operationState == TOperationState.FINISHED:
            for rows, orientation in ((2, 0), (1000, 0), (1000, 0), (1, 4), (1000, 0)):
                replies.append(side.fetch(operation, rows, orientation=orientation))
        replies.append(side.ask("CloseOperation", operationHandle=operation))
        replies.append(side.ask("GetOperationStatus", operationHandle=operation))
        return replies

    return conversation
