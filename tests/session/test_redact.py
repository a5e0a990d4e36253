"""Spark's error messages lose plans, stacks, paths and values, and keep what helps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.session.conditions import STARS
from gateway.session.redact import (
    NOT_SELECTABLE,
    ROW_HIDDEN,
    UNKNOWN,
    UNNAMED,
    WITHHELD,
    ErrorKind,
    redact,
)

NOT_FOUND = (
    "Error running query: [TABLE_OR_VIEW_NOT_FOUND] org.apache.spark.sql.catalyst.ExtendedAnalysisException: "
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. Verify the spelling and correctness "
    "of the schema and catalog.\nIf you did not qualify the name with a schema, verify the current_schema() "
    "output, or qualify the name with the correct schema and catalog.\nTo tolerate the error on drop use "
    "DROP VIEW IF EXISTS or DROP TABLE IF EXISTS. SQLSTATE: 42P01; line 1 pos 14;\n'Project [*]\n"
    "+- 'UnresolvedRelation [x], [], false\n\n\tat org.apache.spark.sql.Foo.bar(Foo.scala:12)"
)
CAST = (
    "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value '123-45-6789' of the type "
    '"STRING" cannot be cast to "INT" because it is malformed. Correct the value as per the syntax, or '
    "change its target type. Use `try_cast` to tolerate malformed input and return NULL. SQLSTATE: 22018\n"
    "== SQL (line 1, position 8) ==\nSELECT CAST(ssn AS INT) FROM (SELECT * FROM `a`.`b`.`c` WHERE region)\n"
    "       ^^^^^^^^^^^^^^^^\n\n\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(Q.scala:1)"
)


def test_the_class_the_first_paragraph_and_the_state_stay() -> None:
    assert redact(NOT_FOUND, "42P01") == (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `x` cannot be found. Verify the spelling and "
        "correctness of the schema and catalog. SQLSTATE: 42P01"
    )


def test_plan_stack_and_statement_text_go() -> None:
    for message in (NOT_FOUND, CAST):
        shown = redact(message, None)
        for word in (
            "Project",
            "UnresolvedRelation",
            "\tat ",
            "scala",
            "== SQL",
            "region",
            "java",
            "\n",
            "pos",
        ):
            assert word not in shown


def test_without_obligations_the_value_helps_to_find_the_mistake() -> None:
    assert "'123-45-6789'" in redact(CAST, "22018")


def test_with_obligations_the_value_is_starred_and_the_types_stay() -> None:
    shown = redact(CAST, "22018", has_obligations=True)
    assert "123" not in shown
    assert f'The value {STARS} of the type "STRING" cannot be cast to "INT"' in shown
    assert shown.endswith("SQLSTATE: 22018")


@pytest.mark.parametrize(
    "message",
    [
        '[CAST_OVERFLOW] The value 98765.0D of the type "DOUBLE" cannot be cast to "TINYINT" due to an '
        "overflow. SQLSTATE: 22003",
        "[INVALID_ARRAY_INDEX] The index 98765 is out of bounds. The array has 98765. SQLSTATE: 22003",
        "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION] 98765.1 cannot be represented as Decimal(3, 1). "
        "SQLSTATE: 22003",
        "[CAST_INVALID_INPUT] The value 'O'Hara 98765' of the type \"STRING\" cannot be. SQLSTATE: 22018",
        "[USER_RAISED_EXCEPTION] 98765 SQLSTATE: P0001",
        "[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records: [98765,x]. SQLSTATE: 22023",
        "[SOME_CLASS_OF_TOMORROW] the secret is 98765",
        'java.lang.NumberFormatException: For input string: "98765"',
        "98765",
        "[CAST_INVALID_INPUT] The value 'a\\n98765' of the type \"STRING\" cannot be cast. SQLSTATE: 22018",
        "For input string: [DIVIDE_BY_ZERO] Hara",
        'x cannot cast "98765 secret" to int SQLSTATE: 22018',
    ],
)
def test_a_value_in_any_form_is_withheld_under_obligations(message: str) -> None:
    shown = redact(message, None, has_obligations=True)
    assert "98765" not in shown
    assert "Hara" not in shown


@pytest.mark.parametrize(
    ("subclass", "told"), [("FILE_NOT_EXIST", "REFRESH TABLE"), ("CANNOT_READ_FILE_FOOTER", "Parquet")]
)
@pytest.mark.parametrize("has_obligations", [False, True])
def test_a_file_that_cannot_be_read_says_what_helps(
    subclass: str, told: str, *, has_obligations: bool
) -> None:
    """Spark's message begins with the path, which nobody is told where anything is guarded."""
    message = (
        f"[FAILED_READ_FILE.{subclass}] Encountered error while reading file file:/wh/98765.parquet. It is "
        "possible the underlying files have been updated: run 'REFRESH TABLE t', or it is no Parquet. "
        "SQLSTATE: KD001"
    )
    shown = redact(message, "KD001", has_obligations=has_obligations)
    assert told in shown
    assert "98765" not in shown
    assert shown.endswith("SQLSTATE: KD001")


def test_an_unknown_runtime_class_keeps_its_class_only() -> None:
    shown = redact("[USER_RAISED_EXCEPTION] 42 SQLSTATE: P0001", "P0001", has_obligations=True)
    assert shown == f"[USER_RAISED_EXCEPTION] {WITHHELD} SQLSTATE: P0001"


def test_analysis_errors_keep_their_names_under_obligations() -> None:
    message = (
        "Error running query: [UNRESOLVED_COLUMN.WITH_SUGGESTION] org.apache.spark.sql.AnalysisException: "
        "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, variable, or function parameter with name `nam` "
        "cannot be resolved. Did you mean one of these? [`name`, `salary`]. SQLSTATE: 42703; line 1 pos 7"
    )
    shown = redact(message, "42703", has_obligations=True)
    assert "`nam`" in shown
    assert "`salary`" in shown


@pytest.mark.parametrize(
    "path",
    [
        "file:/var/lib/wh/hr.db/employee",
        "hdfs://nn:8020/wh/x",
        "s3a://bucket/key/part-0000.parquet",
        "/var/lib/spark/wh/part-1.parquet",
        "jdbc:derby:;databaseName=/x",
        "jdbc:sqlserver://h;user=sa,password=(pw);x",
        "o3fs://bucket.volume/key",
        "alluxio:/wh/x",
    ],
)
def test_paths_go(path: str) -> None:
    shown = redact(
        f"[FAILED_READ_FILE.NO_HINT] Encountered error while reading file {path}. SQLSTATE: KD001", None
    )
    assert path not in shown
    assert "<path>" in shown


def test_the_users_own_words_come_back() -> None:
    ours = "`spark_catalog`.`hr`.`employee`"
    shown = redact(
        f"[X_Y] The table {ours} is bad. SQLSTATE: 42000", "42000", substitutions=((ours, "employee"),)
    )
    assert shown == "[X_Y] The table employee is bad. SQLSTATE: 42000"


def test_an_empty_message_still_says_something() -> None:
    assert redact("", None) == UNKNOWN
    assert redact("\n\tat x.y(Z.java)", None).strip()


@given(st.text(max_size=200), st.booleans())
def test_any_message_gives_one_line(message: str, has_obligations: bool) -> None:
    shown = redact(message, None, has_obligations=has_obligations)
    assert shown
    assert "\n" not in shown


@given(st.text(alphabet="ab'\"`[]{}() 0123.;:\\\n", max_size=60))
def test_nothing_of_a_value_survives_under_obligations(value: str) -> None:
    template = (
        '[CAST_INVALID_INPUT] The value {} of the type "STRING" cannot be cast to "INT" because. SQLSTATE: '
    )
    one, other = (redact(template.format(v) + "22018", "22018", has_obligations=True) for v in (value, "'x'"))
    assert one == other


@pytest.mark.parametrize("state", ["42P01", "0A000", None])
def test_a_chosen_sqlstate_does_not_carry_values_out(state: str | None) -> None:
    message = (
        "org.apache.hive.service.cli.HiveSQLException: Error running query: [TABLE_OR_VIEW_NOT_FOUND] "
        "org.apache.spark.SparkRuntimeException: [TABLE_OR_VIEW_NOT_FOUND] The table or view `CANARY` "
        "cannot be found: Error running query: org.apache.spark.sql.AnalysisException: x. SQLSTATE: 42P01"
    )
    assert "CANARY" not in redact(message, state, has_obligations=True)


def test_over_connect_the_kind_of_an_error_is_told_beside_its_message() -> None:
    message = "[TABLE_OR_VIEW_NOT_FOUND] The table `CANARY` cannot be found. SQLSTATE: 42P01"
    told = ErrorKind(error_class="USER_RAISED_EXCEPTION", analysis=False)
    assert redact(message, "P0001", has_obligations=True, kind=told) == (
        f"[USER_RAISED_EXCEPTION] {WITHHELD} SQLSTATE: P0001"
    )
    told = ErrorKind(error_class="TABLE_OR_VIEW_NOT_FOUND", analysis=True)
    assert redact(message, "42P01", has_obligations=True, kind=told) == message


UNRESOLVED = (
    "Error running query: [UNRESOLVED_COLUMN.WITH_SUGGESTION] "
    "org.apache.spark.sql.catalyst.ExtendedAnalysisException: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column, "
    "variable, or function parameter with name `pay` cannot be resolved. Did you mean one of the following? "
    "[`CANARY`, `id`]. SQLSTATE: 42703; line 1 pos 7;\n'Project ['pay]"
)


ASYNCHRONOUS = f"org.apache.hive.service.cli.HiveSQLException: {UNRESOLVED}"


def test_who_may_not_select_every_column_is_told_so_whatever_column_was_named() -> None:
    shown = redact(UNRESOLVED, "42703", hides_columns=True)
    assert (
        shown
        == f"{redact(UNRESOLVED, '42703').removesuffix(' SQLSTATE: 42703')} {NOT_SELECTABLE} SQLSTATE: 42703"
    )
    assert f" {NOT_SELECTABLE} SQLSTATE" in redact(ASYNCHRONOUS, "42703", hides_columns=True)
    assert NOT_SELECTABLE not in redact(NOT_FOUND, "42P01", hides_columns=True)
    at_run_time = "org.apache.spark.SparkRuntimeException: [UNRESOLVED_COLUMN] I wrote this. SQLSTATE: 42703"
    assert NOT_SELECTABLE not in redact(at_run_time, "42703", hides_columns=True)


@pytest.mark.parametrize("has_obligations", [False, True])
@pytest.mark.parametrize("message", [UNRESOLVED, ASYNCHRONOUS])
def test_columns_of_what_is_written_to_are_not_told(message: str, has_obligations: bool) -> None:
    shown = redact(message, "42703", has_obligations=has_obligations, hides_target=True)
    assert shown == f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {UNNAMED} SQLSTATE: 42703"
    at_run_time = (
        "org.apache.spark.SparkRuntimeException: [NOT_NULL_ASSERT_VIOLATION] NULL value appeared in "
        "non-nullable field: CANARY. SQLSTATE: 42000"
    )
    assert "CANARY" not in redact(at_run_time, "42000", has_obligations=has_obligations, hides_target=True)


@pytest.mark.parametrize(
    "message",
    [
        "org.apache.spark.SparkIllegalArgumentException: Illegal sequence boundaries: 98765 to 0 by 0",
        "Error running query: java.lang.IllegalArgumentException: requirement failed: Illegal sequence "
        "boundaries: 98765 to 3 by 0\n\tat scala.Predef$.require(Predef.scala:337)",
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed "
        "1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (h executor driver): "
        "org.apache.spark.SparkIllegalArgumentException: Illegal sequence boundaries: 98765 to 0 by "
        "0\n\tat x",
    ],
)
def test_a_condition_whose_name_spark_leaves_out_is_told(message: str) -> None:
    told = "[_LEGACY_ERROR_TEMP_3243] Illegal sequence boundaries: *** to *** by ***"
    assert redact(message, None, has_obligations=True) == told
    kind = ErrorKind(error_class="", analysis=False, exception="java.lang.IllegalArgumentException")
    body = "requirement failed: Illegal sequence boundaries: 98765 to 3 by 0"
    assert redact(body, None, has_obligations=True, kind=kind) == told


@pytest.mark.parametrize(
    "exception",
    [
        "org.apache.spark.SparkRuntimeException",
        "java.lang.RuntimeException",
        "java.lang.NumberFormatException",
    ],
)
def test_a_sentence_that_a_user_may_have_chosen_names_no_condition(exception: str) -> None:
    shown = redact(f"{exception}: Illegal sequence boundaries: 98765 to 0 by 0", None, has_obligations=True)
    assert "98765" not in shown
    assert "LEGACY" not in shown


def test_a_sentence_of_few_words_names_no_condition() -> None:
    shown = redact(
        "org.apache.spark.SparkIllegalArgumentException: Unexpected: 98765.", None, has_obligations=True
    )
    assert "98765" not in shown
    assert "LEGACY" not in shown


THREADS = "The background threadpool cannot accept new task for execution, please retry the operation"


def test_what_holds_no_value_is_told_under_obligations() -> None:
    assert redact(THREADS, None, has_obligations=True) == THREADS
    assert WITHHELD in redact(f"{THREADS}: 98765", None, has_obligations=True)
    state = "Expected state FINISHED, but found "
    assert redact(f"{state}CANCELED", None, has_obligations=True) == f"{state}CANCELED"
    raised = (
        f"[USER_RAISED_EXCEPTION] org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] {state}"
    )
    assert "CANARY" not in redact(f"{raised}CANARY", "P0001", has_obligations=True)
    subquery = "[SCALAR_SUBQUERY_TOO_MANY_ROWS] 98765 SQLSTATE: 21000"
    assert redact(subquery, "21000", has_obligations=True) == (
        "[SCALAR_SUBQUERY_TOO_MANY_ROWS] More than one row returned by a subquery used as an expression. "
        "SQLSTATE: 21000"
    )


MERGE = (
    "Error running query: [UNSUPPORTED_FEATURE.TABLE_OPERATION] org.apache.spark.{}: "
    "[UNSUPPORTED_FEATURE.TABLE_OPERATION] The feature is not supported: Table `c`.`d`.`t` does not support "
    "MERGE INTO TABLE. SQLSTATE: 0A000"
)


def test_what_a_table_cannot_do_is_told_under_obligations_unless_a_user_raised_it() -> None:
    assert "MERGE INTO TABLE" in redact(
        MERGE.format("SparkUnsupportedOperationException"), "0A000", has_obligations=True
    )
    assert "MERGE" not in redact(MERGE.format("SparkRuntimeException"), "0A000", has_obligations=True)
    assert "MERGE" not in redact(
        f"x: {MERGE.format('SparkUnsupportedOperationException')}", None, has_obligations=True
    )


def test_spark_s_documentation_is_no_path() -> None:
    link = "https://spark.apache.org/docs/latest/sql-ref.html"
    assert link in redact(f"[X] see {link} or https://example.org/x/y. SQLSTATE: 42000", None)
    assert "example.org" not in redact(f"[X] see {link} or https://example.org/x/y. SQLSTATE: 42000", None)


@pytest.mark.parametrize("has_obligations", [True, False])
def test_why_a_row_may_not_be_written(*, has_obligations: bool) -> None:
    """Whoever raises the same himself reads the same words."""
    message = (
        "org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] SLUICE_ROW_CHECK a.b.c canary "
        "SQLSTATE: P0001"
    )
    told = redact(message, "P0001", has_obligations=has_obligations)
    assert told == f"[SLUICE_ROW_CHECK] {ROW_HIDDEN} SQLSTATE: 44000"
    wrapped = redact("[TASK_WRITE_FAILED] Task failed", None, details=("x", message))
    assert wrapped == told
