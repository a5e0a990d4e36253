"""Under obligations every error keeps its condition, its SQLSTATE and Spark's words, and none tells a value.

`spark_errors.json` holds what a Spark 4.3.0 said of statements that fail, directly: the status of a
synchronous call, that of an asynchronous operation, the error of a fetch, and over Connect the status and
what is fetched of it. Stacks are shortened. `CANARY` is in the rows alone.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gateway.reader.java_runtime import find_spark_home
from gateway.session.conditions import (
    MAX_LITERALS,
    STARS,
    Own,
    conditions,
    may_show_parameter,
    parameters,
    sentence,
    sqlstate_of,
)
from gateway.session.connect.errors import Redaction
from gateway.session.redact import CAST_IT, NO_METADATA, WITHHELD, ErrorKind, parse_sqlstate, redact
from gateway.session.thrift_exceptions import find_raised
from gateway.wire.connect_responses import ErrorCondition, ServerError

RECORDED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "cases" / "spark_errors.json").read_text(encoding="utf-8")
)
STATES = ("execute", "status", "fetch")
TOLD = [(name, state) for name, case in RECORDED.items() for state in STATES if state in case]
NO_CONDITION = {
    "repeat": "a number or a date is out of range",
    "rlike": "a regular expression is not valid",
    "schema json": "a text is not JSON",
    "sequence": "[_LEGACY_ERROR_TEMP_3243] Illegal sequence boundaries: *** to *** by ***",
    "xpath": f"{WITHHELD} (java.lang.RuntimeException)",
}
"""Statements that Spark fails with an exception of Java's, without a condition or without its name."""
HIVE = "org.apache.hive.service.cli.HiveSQLException: "


def of_thrift(name: str, state: str) -> str:
    case = RECORDED[name]
    told = case[state]
    return redact(
        told["message"],
        told["sqlstate"],
        has_obligations=True,
        details=told.get("details", ()),
        own=Own.of((case["text"],)),
    )


def of_connect(name: str) -> ServerError:
    case = RECORDED[name]
    errors = [
        ServerError(
            classes=tuple(error["classes"]),
            message=error["message"],
            stack=(),
            cause=error["cause"],
            condition=None
            if error["condition"] is None
            else ErrorCondition(
                error_class=error["condition"],
                sqlstate=error["sqlstate"],
                parameters=error["parameters"],
                contexts=(),
                breaking_change=None,
            ),
        )
        for error in case["connect"]["errors"]
    ]
    return Redaction(has_obligations=True, texts=(case["text"],)).errors(errors)[0]


def condition_of(name: str) -> str:
    """Return the condition that Spark tells, over Connect, of an error or of the first cause that has one."""
    return next(
        (error["condition"] for error in RECORDED[name]["connect"]["errors"] if error["condition"]), ""
    )


@pytest.mark.parametrize(("name", "state"), TOLD)
def test_condition_and_sqlstate_come_through_in_each_state(name: str, state: str) -> None:
    told = of_thrift(name, state)
    condition = condition_of(name)
    if not condition:
        assert told == NO_CONDITION[name]
        return
    assert told.startswith(f"[{condition}] "), told
    assert parse_sqlstate(told) == sqlstate_of(condition)
    assert "failed on a value" not in told


@pytest.mark.parametrize(("name", "state"), TOLD)
def test_no_state_tells_a_value(name: str, state: str) -> None:
    text = RECORDED[name]["text"]
    told = of_thrift(name, state)
    assert "CANARY" not in told.replace(text, "")
    assert "Ann" not in told
    assert "/warehouse" not in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "name", [name for name, case in RECORDED.items() if case.get("connect", {}).get("errors")]
)
def test_connect_says_the_same(name: str) -> None:
    told = of_connect(name).message
    assert "CANARY" not in told
    assert "/warehouse" not in told
    condition = condition_of(name)
    assert told == NO_CONDITION[name] if not condition else told.startswith(f"[{condition}] ")
    for state in STATES:
        if (
            state in RECORDED[name]
            and "by a subquery" not in told
            and "awaitResult" not in str(RECORDED[name])
        ):
            assert of_thrift(name, state) == told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("week group", "Fail to recognize 'w' pattern in the DateTimeFormatter"),
        ("week group", 'set "spark.sql.legacy.timeParserPolicy" to "LEGACY"'),
        ("overflow", "Use 'try_multiply' to tolerate overflow and return NULL instead."),
        ("cast order", '"STRING" cannot be cast to "INT"'),
        ("cast scalar", "Use `try_cast` to tolerate malformed input"),
        ("gone ctas", "REFRESH TABLE"),
        ("subquery rows order", "More than one row returned by a subquery used as an expression."),
        ("regex", "is invalid: '('"),
    ],
)
def test_what_helps_stays(name: str, told: str) -> None:
    for state in STATES:
        if state in RECORDED[name]:
            assert told in of_thrift(name, state)


def test_a_pattern_of_a_column_is_not_told() -> None:
    assert STARS in of_thrift("regex col", "execute")
    condition = "[INVALID_FORMAT.ESC_AT_THE_END]"
    said = f"org.apache.spark.sql.AnalysisException: {condition} The format is invalid: 'CANARY/'."
    text = f"{HIVE}Error running query: {condition} {said}"
    assert "CANARY" not in redact(text, "42601", has_obligations=True)


@pytest.mark.parametrize(
    "text",
    [
        f"{HIVE}Error running query: org.apache.spark.SparkException: Exception thrown in awaitResult: \n"
        "\tat a.b(C)\nCaused by: org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] x\n"
        "Caused by: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value CANARY of",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 "
        "times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (h): java.lang.RuntimeException: "
        "[TABLE_OR_VIEW_NOT_FOUND] org.apache.spark.sql.AnalysisException: CANARY",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Lost task 0.0 in stage 1.0 "
        "(TID 1) (h): org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] CANARY",
        "org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] CANARY",
        "java.lang.RuntimeException: [CANARY] x",
        "org.apache.spark.SparkRuntimeException: [CANARY] x",
        "org.apache.spark.SparkException: x\nCaused by: java.CANARY.Exception: x",
        "org.apache.spark.SparkException: x\nCaused by: java.util.CANARY: x",
        "org.apache.spark.SparkException: Exception thrown in awaitResult: \nCaused by: a.CANARY: [CANARY] x",
    ],
)
@pytest.mark.parametrize("state", [None, "42P01", "CANAR"])
def test_what_a_user_writes_into_a_message_passes_nothing(text: str, state: str | None) -> None:
    told = redact(text, state, has_obligations=True)
    assert "CANAR" not in told


def test_parameters_of_what_a_user_may_raise_are_not_told() -> None:
    body = 'The value 1 of the type "DECIMAL(12,34)" cannot be cast to "INT" because it is malformed.'
    raised_by = "org.apache.spark.SparkRuntimeException"
    assert "12" not in (sentence("CAST_INVALID_INPUT", raised_by, body) or "")
    assert not may_show_parameter("CAST_INVALID_INPUT", "sourceType", '"INT"', raised_by)
    assert may_show_parameter(
        "CAST_INVALID_INPUT", "sourceType", '"INT"', "org.apache.spark.SparkNumberFormatException"
    )


def test_a_statement_of_many_literals_names_none() -> None:
    few = " ".join(f"'p{number}'" for number in range(MAX_LITERALS))
    assert "p1" in Own.of((few,)).literals
    assert not Own.of((few, "'one more'")).literals


def test_words_of_a_statement_do_not_tell_what_a_function_was_called_with() -> None:
    """Who lists a thousand names in a comment would learn which one is in a row."""
    raised_by = "org.apache.spark.SparkDateTimeException"
    text = "SELECT from_utc_timestamp(at, name) /* Ann Bob Carol */ FROM t"
    assert not may_show_parameter("INVALID_TIMEZONE", "timeZone", "Ann", raised_by, Own.of((text,)))
    assert may_show_parameter(
        "INVALID_TIMEZONE", "timeZone", "Ann", raised_by, Own.of((f"{text} WHERE a = 'Ann'",))
    )
    assert not may_show_parameter(
        "DATETIME_OVERFLOW", "operation", "add 7 to Ann", raised_by, Own.of((text,))
    )
    assert may_show_parameter("TABLE_OR_VIEW_NOT_FOUND", "relationName", "`t`", raised_by, Own.of((text,)))


def test_a_word_in_capitals_is_no_type() -> None:
    raised_by = "org.apache.spark.SparkIllegalArgumentException"
    several = '("STRING" or "INTERVAL DAY TO SECOND")'
    for type_ in ('"INT"', "DECIMAL(38,18)", "ARRAY<STRING>", several, "VARCHAR(300)"):
        assert may_show_parameter("UNSUPPORTED_DATATYPE", "typeName", type_, raised_by), type_
    for word in ('"SMITH"', "ANN LEE", "ARRAY<ANN>"):
        assert not may_show_parameter("UNSUPPORTED_DATATYPE", "typeName", word, raised_by), word


def test_what_a_metastore_says_of_partitions_is_not_told() -> None:
    """Spark raises it as it does what the analysis finds; it has the filter, and values of partitions."""
    said = (
        "Error running query: [_LEGACY_ERROR_TEMP_3065] org.apache.spark.sql.AnalysisException: "
        "[_LEGACY_ERROR_TEMP_3065] org.apache.hadoop.hive.ql.metadata.HiveException: MetaException(message:"
        "Error parsing partition filter: region <> 'CANARY')"
    )
    told = redact(f"{HIVE}{said}", None, has_obligations=True)
    assert told.startswith("[_LEGACY_ERROR_TEMP_3065] ")
    assert "CANARY" not in told


@pytest.mark.parametrize("name", ["variant", "time(6)", "geometry(4326)", "geography(any)"])
def test_a_type_that_the_protocol_lacks_is_the_trouble(name: str) -> None:
    told = redact(f"Unrecognized type name: {name}", None, has_obligations=True)
    assert told == f"Unrecognized type name: {name}: {CAST_IT}"
    assert "CANARY" not in redact("Unrecognized type name: CANARY", None, has_obligations=True)


def test_metadata_columns_are_refused_in_our_words() -> None:
    for name in ("`_file`", "`c`.`_partition`", "`_ROW_ID`", "`_deleted`"):
        said = f"A column, variable, or function parameter with name {name} cannot be resolved."
        kind = ErrorKind(error_class="UNRESOLVED_COLUMN.WITH_SUGGESTION", analysis=True)
        told = redact(f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {said}", None, has_obligations=True, kind=kind)
        assert told.endswith(f"{said} {NO_METADATA}")
        assert NO_METADATA not in redact(said, None, has_obligations=False, kind=kind)
        assert NO_METADATA not in redact(said.replace(name, "`nope`"), None, has_obligations=True, kind=kind)


def test_a_cause_with_a_condition_says_why() -> None:
    found = find_raised(RECORDED["gone scalar"]["status"]["message"])
    assert (found.condition, found.direct) == ("FAILED_READ_FILE.FILE_NOT_EXIST", False)


def listed() -> dict[str, tuple[str, str]]:
    """Return the conditions of this Spark's jar: text on one line, and SQLSTATE."""
    (jar,) = (find_spark_home() / "jars").glob("spark-common-utils_*.jar")
    with zipfile.ZipFile(jar) as packed:
        told = json.loads(packed.read("error/error-conditions.json"))
    texts: dict[str, tuple[str, str]] = {}
    for name, condition in told.items():
        text, state = " ".join(condition["message"]), condition.get("sqlState", "")
        texts[name] = (" ".join(text.split()), state)
        for sub, more in condition.get("subClass", {}).items():
            whole = " ".join(f"{text} {' '.join(more['message'])}".split())
            texts[f"{name}.{sub}"] = (whole, more.get("sqlState", state))
    return texts


def test_every_condition_of_this_spark_is_classified() -> None:
    known = {name: (one.text, one.sqlstate) for name, one in conditions().items()}
    assert known == listed()
    found = Counter(
        "constant" if not one.kinds else "values" if "values" in one.kinds.values() else "statement"
        for one in conditions().values()
    )
    print(dict(found))
    assert min(found["constant"], found["statement"], found["values"]) > 100


def test_every_parameter_of_this_spark_has_one_kind() -> None:
    names = [name for kind in parameters().values() for name in kind]
    assert len(names) == len(set(names))
    assert set(names) == {name for text, _ in listed().values() for name in re.findall(r"<(\w+)>", text)}


def test_what_is_not_known_may_hold_values() -> None:
    assert sentence("CONDITION_OF_TOMORROW", "org.apache.spark.SparkException", "4711") is None
    assert not may_show_parameter(
        "CONDITION_OF_TOMORROW", "sourceType", '"INT"', "org.apache.spark.SparkException"
    )
