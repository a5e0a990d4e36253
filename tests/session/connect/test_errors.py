"""Errors of Spark Connect: what a client may read of them, and that pyspark raises what it would have raised.

`recorded_errors.json` holds the status, its details and what was fetched of errors of a Spark 4.3.0 server.
The plan that they are of was guarded by `id > 0 and name <> 'canary'` and a mask `concat('***', …)`.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors.exceptions.connect import convert_exception
from pyspark.sql.streaming.listener import QueryTerminatedEvent, StreamingQueryProgress

from gateway.errors import RpcError
from gateway.model.secret_values import REDACTED
from gateway.session.connect.errors import (
    MAX_DETAILS_BYTES,
    Redaction,
    redact_error,
)
from gateway.session.redact import UNKNOWN, WITHHELD
from gateway.wire.connect import descriptor_of, pb, serialize
from gateway.wire.connect_errors import error_id
from gateway.wire.connect_responses import redact_details, redact_response

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "recorded_errors.json").read_text(encoding="utf-8")
)
FREE, OBLIGED = Redaction(has_obligations=False, plain=True), Redaction(has_obligations=True)
GUARD = ("canary", "concat(***", "Filter", "Relation", "SubqueryAlias", "#403", "+-", "right(")
"""What the recorded plans show of the guard."""
VALUES = ("***x", "The index 6", "could not be parsed")
"""What the recorded errors show of rows."""
INTERNAL = 13


def error(name: str) -> RpcError:
    return RpcError(
        RECORDED[name]["code"], RECORDED[name]["message"], base64.b64decode(RECORDED[name]["details"])
    )


def fetched(name: str) -> Any:
    return pb.FetchErrorDetailsResponse.FromString(base64.b64decode(RECORDED[name]["fetched"]))


def info_of(fault: RpcError) -> Any:
    status = Status.FromString(fault.details)
    assert (status.code, status.message) == (fault.code, fault.message), "pyspark takes no other details"
    for detail in status.details:
        if detail.Is(descriptor_of(ErrorInfo)):
            info = ErrorInfo()
            detail.Unpack(info)
            return info
    raise AssertionError("no ErrorInfo")


def made(
    message: str = "boom",
    *,
    reason: str = "org.apache.spark.SparkRuntimeException",
    details: Any = (),
    **metadata: str,
) -> RpcError:
    status = Status(code=INTERNAL, message=message)
    status.details.add().Pack(ErrorInfo(reason=reason, domain="org.apache.spark", metadata=metadata))
    status.details.extend(details)
    return RpcError(INTERNAL, message, status.SerializeToString())


def raised(name: str, redaction: Redaction, *, enriched: bool = True) -> Any:
    """Return the exception that pyspark raises of an error that was redacted."""
    fault = redact_error(error(name), redaction)
    response = None
    if enriched:
        response = pb.FetchErrorDetailsResponse.FromString(
            redact_details(serialize(fetched(name)), redaction)
        )
    return convert_exception(info_of(fault), fault.message, response)


def as_sent(name: str) -> Any:
    fault = error(name)
    return convert_exception(info_of(fault), fault.message, fetched(name))


@pytest.mark.parametrize("name", RECORDED)
def test_without_obligations_an_error_is_what_spark_sent(name: str) -> None:
    fault = redact_error(error(name), FREE)
    assert fault.message == error(name).message
    assert dict(info_of(fault).metadata).keys() == dict(info_of(error(name)).metadata).keys()
    assert str(raised(name, FREE)) == str(as_sent(name))
    assert raised(name, FREE).getStackTrace() == as_sent(name).getStackTrace()
    response = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(fetched(name)), FREE))
    assert response == fetched(name)


def test_the_stack_of_a_status_is_told_where_all_is() -> None:
    fault = made("no", errorClass="X", stackTrace="org.X: no\n\tat a.B")
    assert info_of(redact_error(fault, FREE)).metadata["stackTrace"] == "org.X: no\n\tat a.B"
    assert "stackTrace" not in info_of(redact_error(fault, OBLIGED)).metadata


@pytest.mark.parametrize(
    "error_class", ["CAST_INVALID_INPUT", "TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_COLUMN"]
)
def test_with_a_missing_table_only_its_own_error_is_told_whole(error_class: str) -> None:
    """With any other error the table has appeared, and nobody has judged what its columns are."""
    missing = ((("spark_catalog", "db", "gone"), ("gone",)),)
    redaction = Redaction(has_obligations=True, plain=True, missing=missing)
    analysis = "org.apache.spark.sql.AnalysisException"
    named = error_class == "TABLE_OR_VIEW_NOT_FOUND"
    fault = made(
        "no;\n'Project [*]\n+- Relation spark_catalog.db.gone[canary#1] parquet",
        reason=analysis,
        errorClass=error_class,
        classes=json.dumps([analysis]),
        stackTrace="canary",
    )
    shown = redact_error(fault, redaction)
    assert ("canary" in shown.message) is named
    assert ("stackTrace" in info_of(shown).metadata) is named


@pytest.mark.parametrize("enriched", [True, False])
@pytest.mark.parametrize("name", RECORDED)
def test_with_obligations_pyspark_raises_the_same_exception(name: str, enriched: bool) -> None:
    before, after = as_sent(name), raised(name, OBLIGED, enriched=enriched)
    assert type(after) is type(before)
    assert after.getCondition() == before.getCondition()
    assert after.getSqlState() == before.getSqlState()
    assert (after.getMessageParameters() or {}).keys() == (before.getMessageParameters() or {}).keys()


@pytest.mark.parametrize("name", RECORDED)
def test_with_obligations_nothing_tells_of_the_guard_or_of_rows(name: str) -> None:
    fault = redact_error(error(name), OBLIGED)
    response = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(fetched(name)), OBLIGED))
    told = f"{fault.message} {info_of(fault)} {response} {raised(name, OBLIGED)}"
    for secret in (*GUARD, *VALUES):
        assert secret not in told.replace("'***'", "")
    assert "\n" not in fault.message
    assert not any(one.stack_trace for one in response.errors)
    assert "stackTrace" not in info_of(fault).metadata


def test_with_obligations_names_of_an_analysis_still_help() -> None:
    fault = redact_error(error("unresolved column of a DataFrame"), OBLIGED)
    assert fault.message == (
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nope` "
        "cannot be resolved. Did you mean one of the following? [`id`, `name`]. SQLSTATE: 42703"
    )
    parameters = json.loads(info_of(fault).metadata["messageParameters"])
    assert parameters == {"objectName": "`nope`", "proposal": "`id`, `name`"}


@pytest.mark.parametrize("exception", ["SparkUnsupportedOperationException", "SparkRuntimeException"])
def test_with_obligations_what_a_table_cannot_do_is_told(exception: str) -> None:
    """No function that a user can call raises the one class; with another one the words may be a user's."""
    name, words = f"org.apache.spark.{exception}", "Table `x` does not support MERGE INTO TABLE"
    fault = made(
        f"[UNSUPPORTED_FEATURE.TABLE_OPERATION] The feature is not supported: {words}. SQLSTATE: 0A000",
        reason=name,
        errorClass="UNSUPPORTED_FEATURE.TABLE_OPERATION",
        classes=json.dumps([name]),
        sqlState="0A000",
    )
    told = redact_error(fault, OBLIGED).message
    assert (words in told) is (exception == "SparkUnsupportedOperationException")
    assert ("Table *** does not" in told) is (exception != "SparkUnsupportedOperationException")


def test_with_obligations_a_cast_keeps_its_types() -> None:
    after = raised("cast of a value", OBLIGED)
    assert str(after) == (
        '[CAST_INVALID_INPUT] The value *** of the type "STRING" cannot be cast to "INT" because it is '
        "malformed. Correct the value as per the syntax, or change its target type. Use `try_cast` to "
        "tolerate malformed input and return NULL instead. SQLSTATE: 22018"
    )
    assert after.getMessageParameters() == {
        "expression": "***",
        "sourceType": '"STRING"',
        "targetType": '"INT"',
        "ansiConfig": "***",
    }


def test_with_obligations_paths_go() -> None:
    assert "/nope" not in str(raised("missing path", OBLIGED))
    assert "/nope" in str(raised("missing path", FREE))


SECRETS = Redaction(has_obligations=False, plain=True, secrets=("nope",))


def test_the_token_is_shown_to_nobody() -> None:
    name = "unresolved column of a DataFrame"
    fault = redact_error(error(name), SECRETS)
    response = redact_details(serialize(fetched(name)), SECRETS)
    assert "nope" not in fault.message
    assert b"nope" not in fault.details
    assert b"nope" not in response
    assert REDACTED in fault.message
    assert "nope" not in repr(SECRETS)


def test_what_we_wrote_comes_back_as_what_the_user_wrote() -> None:
    ours = "`spark_catalog`.`hr`.`employee`"
    fault = made(f"cannot read {ours}", messageParameters=json.dumps({"name": ours}))
    for has_obligations in (False, True):
        redaction = Redaction(has_obligations=has_obligations, substitutions=((ours, "employee"),))
        shown = redact_error(fault, redaction)
        assert "spark_catalog" not in shown.message
        assert b"spark_catalog" not in shown.details
    assert redact_error(
        fault, Redaction(has_obligations=False, substitutions=((ours, "employee"),))
    ).message == ("cannot read employee")


def test_a_guard_without_obligations_keeps_its_plan_to_itself() -> None:
    """Hidden columns are no obligation, but the plan of their guard would name them."""
    words = (("(SELECT `id` FROM `spark_catalog`.`d1`.`t`) AS `t`", "t"),)
    redaction = Redaction(has_obligations=False, substitutions=words)
    after = raised("unresolved column of a text", redaction)
    assert not any(secret in str(after) for secret in GUARD)
    assert str(after).endswith("[`id`, `name`]. SQLSTATE: 42703")
    assert "***x" in str(raised("cast of a value", redaction)), "values of visible columns are no secret"
    assert "missing" in str(raised("missing table", redaction))


def context(**fields: Any) -> Any:
    return pb.FetchErrorDetailsResponse.QueryContext(**fields)


def contexts_of(redaction: Redaction, *contexts: Any) -> list[Any]:
    failure = pb.FetchErrorDetailsResponse.Error(error_type_hierarchy=["x.Y"], message="m")
    failure.spark_throwable.query_contexts.extend(contexts)
    response = pb.FetchErrorDetailsResponse(root_error_idx=0, errors=[failure])
    shown = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(response), redaction))
    return list(shown.errors[0].spark_throwable.query_contexts)


def test_the_place_of_an_error_is_shown_in_the_users_text_only() -> None:
    theirs = context(
        start_index=70,
        stop_index=86,
        fragment="cast(name as int)",
        summary="== SQL (line 1, position 71) ==\nselect (SELECT mask) cast(name as int)\n",
        object_type="VIEW",
        object_name="secret_view",
    )
    ours = context(start_index=0, stop_index=5, fragment="region = 'EU'", summary="region = 'EU'")
    redaction = Redaction(has_obligations=True, texts=("select  cast(name as int) from t",))
    (place,) = contexts_of(redaction, theirs, ours, context(), context(fragment="x", context_type=9))
    assert (place.start_index, place.stop_index) == (8, 24)
    assert place.fragment == "cast(name as int)"
    assert place.summary == "== SQL ==\ncast(name as int)\n^^^^^^^^^^^^^^^^^\n"
    assert "secret_view" not in str(place)


def test_the_place_of_an_error_in_the_clients_program_stays() -> None:
    called = context(
        context_type=pb.FetchErrorDetailsResponse.QueryContext.DATAFRAME,
        fragment="cast",
        call_site="notebook.py:7",
        summary='== DataFrame ==\n"cast" was called from\nnotebook.py:7\n',
    )
    assert contexts_of(OBLIGED, called) == [called]


def test_causes_are_followed_forwards_only() -> None:
    def failure(cause: int | None) -> Any:
        kind = pb.FetchErrorDetailsResponse.Error(error_type_hierarchy=["x.Y"], message="m")
        if cause is not None:
            kind.cause_idx = cause
        return kind

    causes = [1, 1, 0, 9, -1, None]
    response = pb.FetchErrorDetailsResponse(root_error_idx=17, errors=[failure(cause) for cause in causes])
    shown = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(response), FREE))
    assert [e.cause_idx if e.HasField("cause_idx") else None for e in shown.errors] == [1, *[None] * 5]
    assert not shown.HasField("root_error_idx")


def test_a_cause_is_withheld_even_under_an_error_of_the_analysis() -> None:
    outer = pb.FetchErrorDetailsResponse.Error(
        error_type_hierarchy=["org.apache.spark.sql.AnalysisException"], message="[A_B] fine", cause_idx=1
    )
    inner = pb.FetchErrorDetailsResponse.Error(
        error_type_hierarchy=["java.lang.RuntimeException"], message="secret 4711"
    )
    response = pb.FetchErrorDetailsResponse(root_error_idx=0, errors=[outer, inner])
    shown = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(response), OBLIGED))
    assert [e.message for e in shown.errors] == ["fine", f"{WITHHELD} (java.lang.RuntimeException)"]


def test_an_error_without_types_can_still_be_printed() -> None:
    """pyspark prints the first type of every cause without looking whether there is one."""
    response = pb.FetchErrorDetailsResponse(
        root_error_idx=0, errors=[pb.FetchErrorDetailsResponse.Error(error_type_hierarchy=["not a type"])]
    )
    shown = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(response), OBLIGED))
    assert list(shown.errors[0].error_type_hierarchy) == ["java.lang.Exception"]
    assert shown.errors[0].message == UNKNOWN


def test_advice_on_breaking_changes_stays() -> None:
    failure = pb.FetchErrorDetailsResponse.Error(error_type_hierarchy=["x.Y"], message="m")
    info = failure.spark_throwable.breaking_change_info
    info.migration_message.append("set nope to keep it")
    info.mitigation_config.key = "spark.sql.x"
    info.needs_audit = False
    response = pb.FetchErrorDetailsResponse(root_error_idx=0, errors=[failure])
    shown = pb.FetchErrorDetailsResponse.FromString(redact_details(serialize(response), SECRETS))
    kept = shown.errors[0].spark_throwable.breaking_change_info
    assert list(kept.migration_message) == [f"set {REDACTED} to keep it"]
    assert kept.mitigation_config.key == "spark.sql.x"
    assert kept.HasField("needs_audit")


@pytest.mark.parametrize(
    "message",
    [
        "[TABLE_OR_VIEW_NOT_FOUND] The table `CANARY` cannot be found. SQLSTATE: 42P01",
        "org.apache.spark.sql.AnalysisException: [A_B] CANARY SQLSTATE: 42P01",
        "Error running query: org.apache.spark.sql.AnalysisException: [A_B] CANARY",
        "[INVALID_HANDLE.OPERATION_NOT_FOUND] CANARY",
        "CANARY",
    ],
)
def test_a_message_does_not_tell_what_kind_of_error_it_is(message: str) -> None:
    """A user writes the message of `raise_error`; the exception's type is Spark's."""
    fault = made(
        message, errorClass="USER_RAISED_EXCEPTION", classes='["org.apache.spark.SparkRuntimeException"]'
    )
    shown = redact_error(fault, OBLIGED)
    assert shown.message == f"[USER_RAISED_EXCEPTION] {WITHHELD} SQLSTATE: P0001"
    assert b"CANARY" not in shown.details


@pytest.mark.parametrize(
    "metadata",
    [
        {"classes": "not json"},
        {"classes": '{"a": 1}'},
        {"classes": "[" * 100_000},
        {"classes": '["CANARY CANARY"]', "errorClass": "CANARY lower", "sqlState": "CANARY"},
        {"messageParameters": "not json CANARY"},
        {"messageParameters": '["CANARY"]'},
        {"messageParameters": '{"CANARY CANARY": "x", "a": {"b": "CANARY"}}'},
        {"stackTrace": "CANARY", "somethingNew": "CANARY", "sourceType": "CANARY"},
        {"messageParameters": '{"sourceType": "CANARY", "targetType": "\\"STRUCT<CANARY: INT>\\""}'},
    ],
)
def test_details_of_any_shape_tell_no_values(metadata: dict[str, str]) -> None:
    shown = redact_error(made("CANARY", **metadata), OBLIGED)
    assert "CANARY" not in shown.message
    assert b"CANARY" not in shown.details


def test_a_plan_in_a_parameter_is_withheld() -> None:
    tree = {"treeNode": "Filter exists#12\n+- Relation CANARY", "sqlExpr": '"salary#7"', "name": "`a`"}
    fault = made("m", reason="org.apache.spark.sql.AnalysisException", messageParameters=json.dumps(tree))
    shown = json.loads(info_of(redact_error(fault, OBLIGED)).metadata["messageParameters"])
    assert shown == {"treeNode": "***", "sqlExpr": "***", "name": "`a`"}


@pytest.mark.parametrize(
    "details", [b"", b"\xff\xff\xff", Status(code=3, message="CANARY").SerializeToString()]
)
def test_a_status_without_details_that_can_be_read(details: bytes) -> None:
    fault = RpcError(14, "failed to connect to all addresses", details)
    assert redact_error(fault, FREE).message == "failed to connect to all addresses"
    shown = redact_error(fault, OBLIGED)
    assert (shown.code, shown.message, shown.details) == (14, UNKNOWN, b"")
    assert redact_error(RpcError(2, "", b""), FREE).message == UNKNOWN


def test_when_to_try_again_stays_and_other_details_go() -> None:
    retry, odd, broken = AnyMessage(), AnyMessage(), AnyMessage()
    retry.Pack(RetryInfo())
    odd.Pack(pb.KeyValue(key="CANARY"))
    broken.type_url, broken.value = "type.googleapis.com/google.rpc.ErrorInfo", b"\xff\xffCANARY"
    shown = redact_error(made(details=[retry, odd, broken]), OBLIGED)
    assert [d.type_url.rpartition("/")[2] for d in Status.FromString(shown.details).details] == [
        "google.rpc.RetryInfo",
        "google.rpc.ErrorInfo",
    ]
    assert b"CANARY" not in shown.details


def test_what_clients_look_for_in_errors_of_handles_stays() -> None:
    fault = made(
        "[INVALID_HANDLE.OPERATION_NOT_FOUND] The handle x is invalid. Operation not found. SQLSTATE: HY000",
        reason="org.apache.spark.SparkSQLException",
        errorClass="INVALID_HANDLE.OPERATION_NOT_FOUND",
        sqlState="HY000",
    )
    for redaction in (FREE, OBLIGED):
        assert redact_error(fault, redaction).message == fault.message


def test_a_large_status_loses_what_can_be_fetched() -> None:
    fault = made(
        "m" * 5000,
        errorClass="A_B",
        errorId="id",
        sqlState="42000",
        messageParameters=json.dumps({"a": "x" * MAX_DETAILS_BYTES}),
        stackTrace="y" * MAX_DETAILS_BYTES,
    )
    shown = redact_error(fault, FREE)
    assert len(shown.details) < 2 * MAX_DETAILS_BYTES
    assert set(info_of(shown).metadata) >= {"errorClass", "errorId", "sqlState"}
    assert len(shown.message) == 2048


def test_the_id_by_which_details_are_fetched() -> None:
    name = "division by zero"
    assert error_id(error(name)) == info_of(error(name)).metadata["errorId"]
    assert error_id(redact_error(error(name), OBLIGED)) == error_id(error(name))
    assert error_id(RpcError(14, "gone", b"")) == ""


@given(st.text(max_size=80), st.booleans())
def test_any_message_and_value_gives_a_status_that_pyspark_takes(text: str, has_obligations: bool) -> None:
    fault = made(text, messageParameters=json.dumps({"a": text}), errorClass=text)
    shown = redact_error(fault, Redaction(has_obligations=has_obligations))
    assert shown.message
    assert convert_exception(info_of(shown), shown.message, None) is not None


@given(st.text(alphabet="ab'\"`[]{}() 0123.;:\\\n", max_size=60))
def test_nothing_of_a_value_survives_under_obligations(value: str) -> None:
    shown = [
        redact_error(
            made(
                f'[CAST_INVALID_INPUT] The value {v} of the type "STRING" cannot be cast to "INT" because.',
                errorClass="CAST_INVALID_INPUT",
                messageParameters=json.dumps({"expression": v}),
            ),
            OBLIGED,
        )
        for v in (value, "'x'")
    ]
    assert shown[0].message == shown[1].message
    assert info_of(shown[0]) == info_of(shown[1])


def response(**fields: Any) -> Any:
    return pb.ExecutePlanResponse(session_id="s", response_id="r", **fields)


def redacted(message: Any, redaction: Redaction) -> Any:
    return pb.ExecutePlanResponse.FromString(redact_response(serialize(message), redaction))


def test_counts_of_the_plans_nodes_go_with_obligations() -> None:
    told = response(
        metrics=pb.ExecutePlanResponse.Metrics(
            metrics=[pb.ExecutePlanResponse.Metrics.MetricObject(name="Scan parquet")]
        )
    )
    assert redacted(told, FREE) == told
    assert not redacted(told, OBLIGED).HasField("metrics")
    progress = pb.ExecutePlanResponse.ExecutionProgress(
        stages=[pb.ExecutePlanResponse.ExecutionProgress.StageInfo(stage_id=1, input_bytes_read=4711)]
    )
    after = redacted(response(execution_progress=progress), OBLIGED)
    assert after.execution_progress.stages[0].stage_id == 1
    assert after.execution_progress.stages[0].input_bytes_read == 0


def test_errors_of_observations_are_redacted() -> None:
    failure = pb.FetchErrorDetailsResponse.Error(error_type_hierarchy=["x.Y"], message="CANARY")
    observed = pb.ExecutePlanResponse.ObservedMetrics(
        name="o", keys=["n"], plan_id=3, root_error_idx=0, errors=[failure]
    )
    after = redacted(response(observed_metrics=[observed]), OBLIGED)
    assert after.observed_metrics[0].errors[0].message == WITHHELD
    assert after.observed_metrics[0].root_error_idx == 0
    assert after.observed_metrics[0].plan_id == 3
    assert redacted(response(observed_metrics=[observed]), FREE).observed_metrics[0] == observed


def streaming(**result: Any) -> Any:
    return response(streaming_query_command_result=pb.StreamingQueryCommandResult(**result))


def test_failures_of_streaming_queries_are_redacted() -> None:
    failed = streaming(
        exception=pb.StreamingQueryCommandResult.ExceptionResult(
            exception_message="org.apache.spark.sql.streaming.StreamingQueryException: CANARY",
            error_class="STREAM_FAILED",
            stack_trace="CANARY",
        )
    )
    assert redacted(failed, FREE) == failed
    after = redacted(failed, OBLIGED).streaming_query_command_result.exception
    assert after.exception_message.split(": ", 1) == [
        "org.apache.spark.sql.streaming.StreamingQueryException",
        "[STREAM_FAILED] Query [id = ***, runId = ***] terminated with exception: *** SQLSTATE: XXKST",
    ]
    assert not after.HasField("stack_trace")
    none = streaming(exception=pb.StreamingQueryCommandResult.ExceptionResult())
    assert redacted(none, OBLIGED) == none


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("Waiting for next trigger", "Waiting for next trigger"),
        ("Getting offsets from FileStreamSource[file:/CANARY]", "Getting offsets"),
        ("Terminated with exception: [DIVIDE_BY_ZERO] CANARY", "Terminated with exception"),
        ("CANARY", WITHHELD),
    ],
)
def test_the_status_of_a_streaming_query_tells_not_what_failed(message: str, shown: str) -> None:
    status = pb.StreamingQueryCommandResult.StatusResult(status_message=message, is_trigger_active=True)
    told = streaming(status=status)
    assert redacted(told, FREE) == told
    after = redacted(told, OBLIGED).streaming_query_command_result.status
    assert (after.status_message, after.is_trigger_active) == (shown, True)


def test_plans_of_streaming_queries_go_with_obligations() -> None:
    plan = streaming(explain=pb.StreamingQueryCommandResult.ExplainResult(result="Filter CANARY"))
    assert redacted(plan, FREE) == plan
    assert b"CANARY" not in redact_response(serialize(plan), OBLIGED)


PROGRESS = {
    "id": "11111111-2222-3333-4444-555555555555",
    "runId": "11111111-2222-3333-4444-555555555556",
    "name": None,
    "timestamp": "2026-01-01T00:00:00.000Z",
    "batchId": 3,
    "batchDuration": 5,
    "durationMs": {"addBatch": 1},
    "stateOperators": [{"customMetrics": {"CANARY": 1}}],
    "sources": [{"description": "CANARY", "numInputRows": 4711}],
    "sink": {"description": "CANARY"},
    "numInputRows": 4711,
}


def test_the_progress_of_streaming_queries_tells_no_counts_and_stays_readable() -> None:
    progress = streaming(
        recent_progress=pb.StreamingQueryCommandResult.RecentProgressResult(
            recent_progress_json=[json.dumps(PROGRESS), "CANARY", '["CANARY"]']
        )
    )
    assert redacted(progress, FREE) == progress
    after = redact_response(serialize(progress), OBLIGED)
    assert b"CANARY" not in after
    assert b"4711" not in after
    told = pb.ExecutePlanResponse.FromString(after).streaming_query_command_result.recent_progress
    assert StreamingQueryProgress.fromJson(json.loads(told.recent_progress_json[0])).batchId == 3
    ended = {**PROGRESS, "exception": "CANARY", "errorClassOnException": "STREAM_FAILED"}
    events = [json.dumps({"progress": PROGRESS}), json.dumps(ended)]
    told = response(
        streaming_query_listener_events_result=pb.StreamingQueryListenerEventsResult(
            events=[pb.StreamingQueryListenerEvent(event_json=event) for event in events]
        )
    )
    assert redacted(told, FREE) == told
    shown = [e.event_json for e in redacted(told, OBLIGED).streaming_query_listener_events_result.events]
    assert not any("CANARY" in event or "4711" in event for event in shown)
    assert StreamingQueryProgress.fromJson(json.loads(shown[0])["progress"]).batchId == 3
    assert QueryTerminatedEvent.fromJson(json.loads(shown[1])).exception == WITHHELD


def test_the_start_of_a_streaming_query_tells_no_secret() -> None:
    started = pb.WriteStreamOperationStartResult(name="n", query_started_event_json='{"name": "nope"}')
    after = redact_response(serialize(response(write_stream_operation_start_result=started)), SECRETS)
    assert b"nope" not in after


def test_columns_of_what_is_written_to_are_not_told() -> None:
    message = "[UNRESOLVED_COLUMN.WITH_SUGGESTION] No `pay`. Did you mean [`CANARY`]? SQLSTATE: 42703"
    status = Status(code=INTERNAL, message=message)
    status.details.add().Pack(
        ErrorInfo(
            reason="org.apache.spark.sql.AnalysisException",
            domain="org.apache.spark",
            metadata={
                "classes": '["org.apache.spark.sql.AnalysisException"]',
                "errorClass": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                "sqlState": "42703",
                "messageParameters": '{"objectName": "`pay`", "proposal": "`CANARY`"}',
                "stackTrace": "CANARY",
            },
        )
    )
    fault = RpcError(INTERNAL, message, status.SerializeToString())
    shown = redact_error(fault, Redaction(has_obligations=False, hides_target=True))
    assert shown.message.startswith("[UNRESOLVED_COLUMN.WITH_SUGGESTION] ")
    assert b"CANARY" not in shown.details
    assert "CANARY" not in shown.message
    assert info_of(shown).metadata["sqlState"] == "42703"
    assert b"CANARY" in redact_error(fault, FREE).details
