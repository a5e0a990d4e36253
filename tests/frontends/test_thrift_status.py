"""Errors in HiveServer2's form: what Hive's JDBC driver makes exceptions of."""

from __future__ import annotations

from dataclasses import replace

from gateway.frontends.thrift_service import error_status, operation_text
from gateway.session.failures import StatementFailed, StatementRefused
from tests.session.test_audit_records import refused_in_spark_s_words

TRACE = (
    "org.apache.hive.service.cli.HiveSQLException: Error running query: [X] a.B: [X] no;\n'Project [a]\n\n"
    "\tat c.D$.$anonfun$f$1(D.scala:12)\n"
    "\tat java.base/java.lang.Thread.run(Thread.java:840)\n"
    "\tat c.E.native(Native Method)\n"
    "Caused by: a.B: [X] no;\n'Project [a]\n\n"
    "\tat c.F.g(Unknown Source)\n"
    "\t... 2 more\n"
)


def test_a_stack_is_told_as_hive_tells_it() -> None:
    status = error_status(StatementFailed("Error running query: no", "42000", 0, "event", trace=TRACE))
    assert status.errorMessage == "Error running query: no"
    assert status.infoMessages == [
        "*org.apache.hive.service.cli.HiveSQLException:"
        "Error running query: [X] a.B: [X] no;\n'Project [a]\n:3:2",
        "c.D$:$anonfun$f$1:D.scala:12",
        "java.lang.Thread:run:Thread.java:840",
        "c.E:native::-2",
        "*a.B:[X] no;\n'Project [a]\n:3:0",
        "c.F:g:Unknown Source:-1",
    ]


def test_what_spark_told_of_a_fetch_is_told_as_it_was() -> None:
    details = ("*java.lang.RuntimeException:no:1:0", "c.D:f:D.java:1")
    status = error_status(StatementFailed("no", "", 0, "event", details=details))
    assert status.infoMessages == list(details)
    assert status.sqlState is None


def test_a_refusal_in_spark_s_words_has_the_form_of_its_own() -> None:
    refused = StatementRefused(refused_in_spark_s_words(), "event")
    status = error_status(refused)
    words = "org.apache.spark.sql.catalyst.parser.ParseException: \n[PARSE_SYNTAX_ERROR] no."
    assert status.errorMessage == f"Error running query: [PARSE_SYNTAX_ERROR] {words}"
    assert status.infoMessages == [
        f"*org.apache.hive.service.cli.HiveSQLException:{status.errorMessage}:0:-1",
        f"*{words.replace('Exception: ', 'Exception:')}:0:-1",
    ]
    assert operation_text(refused) == (
        f"org.apache.hive.service.cli.HiveSQLException: {status.errorMessage}\nCaused by: {words}\n"
    )


def test_a_condition_that_the_message_does_not_begin_with_is_told_too() -> None:
    old = replace(refused_in_spark_s_words(), message="\nno.", condition="_LEGACY_ERROR_TEMP_0015")
    told = error_status(StatementRefused(old, "event")).errorMessage
    assert told is not None
    assert told.startswith("Error running query: [_LEGACY_ERROR_TEMP_0015] org.apache.spark.sql.catalyst")
