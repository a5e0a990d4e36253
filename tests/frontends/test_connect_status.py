"""Statuses of Spark Connect, as PySpark itself reads them: which exception, and never a retry without end."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from pyspark.errors.exceptions.connect import (
    AnalysisException,
    ParseException,
    SparkConnectGrpcException,
    SparkException,
    convert_exception,
)
from pyspark.sql.connect.client.retries import DefaultPolicy

import gateway
from gateway import errors
from gateway.errors import (
    AuthenticationFailed,
    BackendUnavailable,
    GatewayStopping,
    InvalidHandle,
    InvalidRequest,
    LedgerUnavailable,
    LimitExceeded,
    PoliciesStale,
    RpcError,
    SluiceError,
)
from gateway.frontends import connect_status
from gateway.frontends.connect_status import (
    MAX_ENCODED,
    REFUSALS,
    RpcStatus,
    internal_error,
    shorten,
    status_of,
    without_own_condition,
)
from gateway.model.principal import Principal
from gateway.model.statement import Refused, SessionContext, Statement
from gateway.session.failures import NotFinished, StatementFailed, StatementRefused
from gateway.wire.protobuf import ProtobufError

Code = grpc.StatusCode
EVENT = "0193ab00-1111-7222-8333-444455556666"


PARSER = ("org.apache.spark.sql.catalyst.parser.ParseException", "org.apache.spark.sql.AnalysisException")


def refused(
    code: str,
    sqlstate: str,
    message: str = "user bob needs select on hr.salary",
    exceptions: tuple[str, ...] = (),
) -> StatementRefused:
    statement = Statement(
        text="", principal=Principal(user="bob"), context=SessionContext(endpoint="connect")
    )
    told = Refused(statement=statement, code=code, sqlstate=sqlstate, message=message, exceptions=exceptions)
    return StatementRefused(told, EVENT)


class Ended(grpc.RpcError):  # type: ignore[misc]
    """A call that ended with a status, as grpc shows it to PySpark."""

    def __init__(self, status: RpcStatus) -> None:
        self._status = status

    def code(self) -> Any:
        return self._status.code

    def details(self) -> str:
        return self._status.message

    def trailing_metadata(self) -> Any:
        return (grpc.aio.Metadata(("grpc-status-details-bin", self._status.details))) or ()


def exception_of(status: RpcStatus) -> SparkConnectGrpcException:
    """Return what PySpark raises for a status; the same steps as its `_handle_rpc_error`."""
    details = Status.FromString(status.details)
    assert (details.code, details.message) == (status.code.value[0], status.message)
    for packed in details.details:
        info = ErrorInfo()
        if packed.Unpack(info):
            raised = convert_exception(info, details.message, None, False, status.code)  # noqa: FBT003
            assert isinstance(raised, SparkConnectGrpcException)
            return raised
    return SparkConnectGrpcException(message=details.message, grpc_status_code=status.code)


def is_retried(status: RpcStatus) -> bool:
    return bool(DefaultPolicy().can_retry(Ended(status)))


ERRORS: list[tuple[Exception, grpc.StatusCode, type[Exception]]] = [
    (refused("ACCESS_DENIED", "42501"), Code.PERMISSION_DENIED, AnalysisException),
    (refused("NOT_GOVERNABLE", "0A000"), Code.INVALID_ARGUMENT, AnalysisException),
    (refused("MALFORMED", "22023"), Code.INVALID_ARGUMENT, SparkException),
    (refused("TOO_DEEP", "54001"), Code.INVALID_ARGUMENT, AnalysisException),
    (refused("VIEW_ENDED", "42P01"), Code.FAILED_PRECONDITION, AnalysisException),
    (refused("RELATION_ENDED", "42P01"), Code.FAILED_PRECONDITION, AnalysisException),
    (refused("CHECKPOINT_CHANGED", "55000"), Code.FAILED_PRECONDITION, AnalysisException),
    (refused("CATALOG_BUSY", "55P03"), Code.FAILED_PRECONDITION, SparkException),
    (refused("LIMIT_EXCEEDED", "54000"), Code.RESOURCE_EXHAUSTED, AnalysisException),
    (refused("UNAVAILABLE", "57000"), Code.FAILED_PRECONDITION, SparkException),
    (refused("SOMETHING_NEW", "42000"), Code.PERMISSION_DENIED, AnalysisException),
    (refused("SPARK", "42601", "\n[PARSE_SYNTAX_ERROR] no", PARSER), Code.INTERNAL, ParseException),
    (
        refused("SPARK", "42613", "[ALL_PARAMETERS_MUST_BE_NAMED] no"),
        Code.INTERNAL,
        AnalysisException,
    ),
    (refused("SPARK", "42883", "[UNRESOLVED_ROUTINE] no routine"), Code.INTERNAL, AnalysisException),
    (refused("SPARK", "42P08", "[CATALOG_NOT_FOUND] no catalog"), Code.INTERNAL, SparkException),
    (BackendUnavailable("Spark is away"), Code.FAILED_PRECONDITION, SparkException),
    (LedgerUnavailable("the disk is full"), Code.FAILED_PRECONDITION, SparkException),
    (PoliciesStale("not confirmed"), Code.FAILED_PRECONDITION, SparkException),
    (LimitExceeded("too many sessions"), Code.RESOURCE_EXHAUSTED, SparkException),
    (InvalidRequest("no"), Code.INVALID_ARGUMENT, SparkException),
    (NotFinished("no"), Code.FAILED_PRECONDITION, SparkException),
    (StatementFailed("[DIVIDE_BY_ZERO] no", "22012", 0, EVENT), Code.INTERNAL, SparkException),
    (SluiceError("no"), Code.INTERNAL, SparkException),
    (ProtobufError("MALFORMED", "no message"), Code.INVALID_ARGUMENT, SparkException),
    (ProtobufError("TOO_DEEP", "too many"), Code.INVALID_ARGUMENT, AnalysisException),
    (AuthenticationFailed("no"), Code.UNAUTHENTICATED, SparkConnectGrpcException),
]


@pytest.mark.parametrize("recorded", [False, True])
def test_pyspark_comes_again_after_the_seconds_that_a_limit_tells_and_no_sooner(recorded: bool) -> None:
    error: SluiceError = LimitExceeded("too fast", retry_s=2.5)
    if recorded:
        error = refused("LIMIT_EXCEEDED", "53400")
        error.retry_s = 2.5
    for method in ("ExecutePlan", "AnalyzePlan"):
        status = status_of(error, method)
        assert status.code is Code.RESOURCE_EXHAUSTED
        assert is_retried(status)
        wait_ms = DefaultPolicy().to_state().next_attempt(Ended(status))
        assert wait_ms is not None
        assert 2500 <= wait_ms <= 3100  # it adds up to half a second of its own
        assert type(exception_of(status)) is SparkException
        assert "SLUICE_LIMIT_EXCEEDED" in status.message
    assert not is_retried(status_of(LimitExceeded("until tomorrow", passes=True), "ExecutePlan"))


@pytest.mark.parametrize(("error", "code", "raised"), ERRORS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("method", ["ExecutePlan", "AnalyzePlan", "ReattachExecute", "Config"])
def test_every_error_is_raised_at_once_with_its_own_text(
    error: Any, code: grpc.StatusCode, raised: type[Exception], method: str
) -> None:
    status = status_of(error, method)
    assert status.code is code
    assert type(exception_of(status)) is raised
    assert not is_retried(status)


def test_a_refusal_has_class_sqlstate_and_the_event_to_quote() -> None:
    raised = exception_of(status_of(refused("ACCESS_DENIED", "42501"), "ExecutePlan"))
    assert raised.getCondition() == "SLUICE_ACCESS_DENIED"
    assert raised.getSqlState() == "42501"
    assert raised.getMessageParameters() == {"auditEvent": EVENT}
    assert str(raised).startswith(
        "[SLUICE_ACCESS_DENIED] user bob needs select on hr.salary; to ask about it"
    )
    assert EVENT in str(raised)


def test_what_spark_cannot_parse_is_told_in_sparks_words_only() -> None:
    message = "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)"
    raised = exception_of(status_of(refused("SPARK", "42601", message, PARSER), "ExecutePlan"))
    assert isinstance(raised, ParseException)
    assert str(raised) == message
    assert (raised.getCondition(), raised.getSqlState()) == ("PARSE_SYNTAX_ERROR", "42601")


def test_an_unexpected_error_has_a_number_and_no_text() -> None:
    status = internal_error("0193")
    assert "0193" in status.message
    assert type(exception_of(status)) is SparkException
    assert not is_retried(status)


def test_a_wrong_login_has_no_details_that_pyspark_would_ask_about() -> None:
    status = status_of(AuthenticationFailed("wrong"), "Config")
    assert list(Status.FromString(status.details).details) == []


def info_in(details: bytes) -> ErrorInfo:
    info = ErrorInfo()
    (packed,) = Status.FromString(details).details
    assert packed.Unpack(info)
    return info


def spark(code: grpc.StatusCode, message: str, error_class: str = "", **metadata: str) -> RpcError:
    told = {"errorClass": error_class, **metadata} if error_class else metadata
    info = ErrorInfo(reason="r", domain="org.apache.spark", metadata=told)
    status = Status(code=code.value[0], message=message)
    status.details.add().Pack(info)
    return RpcError(code=code.value[0], message=message, details=status.SerializeToString())


def test_an_error_of_spark_passes_as_it_is() -> None:
    classes = json.dumps(["org.apache.spark.sql.AnalysisException"])
    error = spark(
        Code.INTERNAL, "[UNRESOLVED_COLUMN] no", "UNRESOLVED_COLUMN", classes=classes, sqlState="42703"
    )
    status = status_of(error, "ExecutePlan")
    assert (status.code, status.message) == (Code.INTERNAL, error.message)
    assert info_in(status.details) == info_in(error.details)
    raised = exception_of(status)
    assert type(raised) is AnalysisException
    assert raised.getSqlState() == "42703"


@pytest.mark.parametrize("details", [b"", b"\xff\xff", Status(code=3, message="another").SerializeToString()])
def test_details_that_do_not_fit_are_made_to_fit(details: bytes) -> None:
    status = status_of(RpcError(code=13, message="no", details=details), "Config")
    assert str(exception_of(status)) == "no"


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.UNAUTHENTICATED, Code.OK])
def test_statuses_that_clients_take_for_something_else_do_not_pass(code: grpc.StatusCode) -> None:
    status = status_of(spark(code, "no"), "ExecutePlan")
    assert status.code not in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED, Code.UNAUTHENTICATED, Code.OK)
    assert not is_retried(status)


def test_an_execution_never_says_that_it_is_not_there() -> None:
    """PySpark would run it again at once, and again, for an hour."""
    for name, instead in (
        ("SESSION_NOT_FOUND", "SESSION_CLOSED"),
        ("OPERATION_NOT_FOUND", "OPERATION_ABANDONED"),
    ):
        text = f"[INVALID_HANDLE.{name}] The handle x is invalid."
        errors: list[Any] = [InvalidHandle(text), spark(Code.INTERNAL, text, f"INVALID_HANDLE.{name}")]
        for error in errors:
            executed = exception_of(status_of(error, "ExecutePlan"))
            assert name not in str(executed)
            assert executed.getCondition() == f"INVALID_HANDLE.{instead}"
            # Taking up again is answered as Spark answers it: then the client begins anew.
            assert f"INVALID_HANDLE.{name}" in status_of(error, "ReattachExecute").message


def test_a_cursor_that_another_took_over_is_retried_as_with_spark() -> None:
    assert is_retried(status_of(spark(Code.INTERNAL, "[INVALID_CURSOR.DISCONNECTED] no"), "ReattachExecute"))


def test_what_spark_wants_retried_is_retried_a_bounded_number_of_times() -> None:
    status = Status(code=13, message="busy")
    status.details.add().Pack(RetryInfo())
    found = status_of(RpcError(code=13, message="busy", details=status.SerializeToString()), "Config")
    assert is_retried(found)
    assert DefaultPolicy().max_retries == 15


@pytest.mark.parametrize("character", ["x", "ü", "語", "\n", "%"])
def test_a_long_message_fits_and_keeps_its_end(character: str) -> None:
    columns = ", ".join(f"{character * 20}{i}" for i in range(2000))
    status = status_of(
        refused("ACCESS_DENIED", "42501", f"user bob needs select on {columns}"), "ExecutePlan"
    )
    assert status.message.startswith("[SLUICE_ACCESS_DENIED] user bob needs select on ")
    assert status.message.endswith(f"quote audit event {EVENT}")
    assert len(status.details) * 4 / 3 + MAX_ENCODED < 8192
    assert exception_of(status).getCondition() == "SLUICE_ACCESS_DENIED"


def test_a_short_message_stays_as_it_is() -> None:
    assert shorten("x" * MAX_ENCODED) == "x" * MAX_ENCODED
    assert shorten("ü" * 100) == "ü" * 100


ROOMS = ("backends", "frontends", "pipeline", "plan", "reader", "session", "sql", "wire")
"""Rooms that a call of Spark Connect goes through."""
REFUSING = {
    "CallRefusal",
    "NotRead",
    "ProtobufError",
    "Refused",
    "Stop",
    "_build_refusal",
    "_build_refused",
    "_explain_refused",
    "build_refusal",
}
AT_START = {
    "ALREADY_EXISTS",
    "CATALOG_NOT_SUPPORTED",
    "CATALOG_REFUSED",
    "CATALOG_UNAVAILABLE",
    "CLASSES_NOT_ARCHIVED",
    "FAULTS",
    "JAVA_NOT_FOUND",
    "JOB_BUSY",
    "NO_UNPRIVILEGED_USER",
    "PROOF_FAILED",
    "RECORD_CHANGED",
    "ROUTINE_NOT_FOUND",
    "SCHEMA_ALREADY_EXISTS",
    "SCHEMA_NOT_EMPTY",
    "SCHEMA_NOT_FOUND",
    "SPARK_JARS_NOT_FETCHED",
    "TABLE_OR_VIEW_ALREADY_EXISTS",
    "TABLE_OR_VIEW_NOT_FOUND",
    "UNSUPPORTED_FORMAT",
    "UNSUPPORTED_SPARK",
}
"""Codes of errors for the operator, before a door is open; some come of commands alone."""


def sources() -> Iterator[ast.AST]:
    for room in ROOMS:
        for path in sorted((Path(__file__).parents[2] / "gateway" / room).rglob("*.py")):
            yield from ast.walk(ast.parse(path.read_text()))


def test_every_code_of_a_refusal_has_a_status_of_its_own() -> None:
    codes = set()
    for node in sources():
        if isinstance(node, ast.Call):
            named = getattr(node.func, "attr", None) or getattr(node.func, "id", "")
            given = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            given += node.args if named in REFUSING else []
            texts = {v.value for v in given if isinstance(v, ast.Constant) and isinstance(v.value, str)}
            codes |= {text for text in texts if re.fullmatch(r"[A-Z]+(?:_[A-Z]+)*", text)}
            # `PoliciesStale.code`
            named_by = [v.value for v in given if isinstance(v, ast.Attribute) and v.attr == "code"]
            codes |= {
                vars(errors)[v.id].code for v in named_by if isinstance(v, ast.Name) and v.id in vars(errors)
            }
    assert {"ACCESS_DENIED", "RELATION_ENDED", "VIEW_IN_USE", "UNSAFE_TEXT"} <= codes
    assert codes == REFUSALS.keys()


def kinds_of(kind: type[SluiceError]) -> Iterator[type[SluiceError]]:
    for inner in kind.__subclasses__():
        # Not those of modules that a test of removals read a second time.
        stands = getattr(sys.modules.get(inner.__module__), inner.__qualname__, None) is inner
        if stands and inner.__module__.startswith("gateway."):
            yield inner
            yield from kinds_of(inner)


def test_every_kind_of_error_has_a_status_of_its_own() -> None:
    for module in pkgutil.walk_packages(gateway.__path__, "gateway."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)  # else only those are met that other tests imported
            except ModuleNotFoundError as missing:
                if missing.name not in ("gssapi", "ldap"):  # of extras
                    raise
    known = tuple(kind for kind, _ in connect_status.ERRORS)
    kinds = [kind for kind in kinds_of(SluiceError) if kind.code not in AT_START]
    assert len(kinds) > len(known)
    for kind in kinds:
        assert issubclass(kind, (*known, StatementRefused)), kind


def test_a_gateway_that_stops_has_clients_come_again() -> None:
    for method in ("ExecutePlan", "Config"):
        status = status_of(GatewayStopping(), method)
        assert (status.code, status.message) == (grpc.StatusCode.UNAVAILABLE, "the gateway is stopping")


def test_the_client_for_the_jvm_gets_no_condition_that_it_cannot_look_up() -> None:
    refusal = status_of(InvalidRequest("no such operation"), "Config")
    told = without_own_condition(refusal)
    assert (told.code, told.message) == (refusal.code, refusal.message)
    assert info_in(refusal.details).metadata["errorClass"].startswith("SLUICE_")
    left = dict(info_in(told.details).metadata)
    assert "errorClass" not in left
    assert left == {k: v for k, v in info_in(refusal.details).metadata.items() if k != "errorClass"}
    of_spark = status_of(spark(Code.INTERNAL, "[UNRESOLVED_COLUMN] no", "UNRESOLVED_COLUMN"), "ExecutePlan")
    assert without_own_condition(of_spark) == of_spark
