"""Where nothing is guarded, an error is Spark's own; what the gateway wrote into the text is undone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model.statement import RewrittenText
from gateway.session.ports import BackendError
from gateway.session.redact import UNKNOWN
from gateway.session.whole_errors import as_written, may_show_whole, whole_failure
from tests.session.test_audit_records import cleared
from tests.session.test_error_places import rewritten

CLEARED = replace(cleared(), shows_errors=True)
HIVE = "org.apache.hive.service.cli.HiveSQLException: Error running query: "
FULL = ("spark_catalog", "db", "gone")
MISSING = ((FULL, ("gone",)),)
NOT_FOUND = (
    f"{HIVE}[TABLE_OR_VIEW_NOT_FOUND] org.apache.spark.sql.AnalysisException: [TABLE_OR_VIEW_NOT_FOUND] The "
    "table or view `spark_catalog`.`db`.`gone` cannot be found. SQLSTATE: 42P01; line 1 pos 14;\n"
)
GUARD = (
    "'Project [*]\n+- 'SubqueryAlias gone\n   +- 'Project [unresolvedalias(null)]\n      +- 'Filter "
    "isnull(raise_error(USER_RAISED_EXCEPTION, map(errorMessage, the table did not exist when the "
    "statement was authorized; run the statement again), NullType))\n         +- 'SubqueryAlias gone\n "
    "           +- 'UnresolvedRelation [spark_catalog, db, gone], [], false\n"
)


def test_a_guard_over_a_missing_table_is_undone_in_the_plan() -> None:
    shown = as_written(NOT_FOUND + GUARD, (), MISSING, named=True)
    assert shown.endswith("; line 1 pos 14;\n'Project [*]\n+- 'UnresolvedRelation [gone], [], false\n")
    assert "The table or view `gone` cannot be found" in shown


def test_a_read_of_a_missing_table_in_a_plan_is_shown_as_it_was_sent() -> None:
    full, written = MISSING[0]
    shown = as_written(
        "[TABLE_OR_VIEW_NOT_FOUND] no. SQLSTATE: 42P01; line 1 pos 17;\n"
        f"'Project ['a]\n+- 'SubqueryAlias {'.'.join(full)}\n"
        f"   +- 'UnresolvedRelation [{', '.join(full)}], [], false",
        (),
        MISSING,
        named=True,
    )
    assert shown == (
        "[TABLE_OR_VIEW_NOT_FOUND] no. SQLSTATE: 42P01;\n"
        f"'Project ['a]\n+- 'UnresolvedRelation [{', '.join(written)}], [], false"
    )


def test_a_plan_in_which_a_missing_table_has_appeared_is_not_told() -> None:
    appeared = GUARD.replace(
        "'UnresolvedRelation [spark_catalog, db, gone], [], false",
        "Relation spark_catalog.db.gone[canary#1] parquet",
    )
    other = "+- 'UnresolvedRelation [spark_catalog, db, other], [], false\n"
    shown = as_written(NOT_FOUND + appeared + other, (), MISSING, named=True)
    assert "canary" not in shown
    assert "The table or view `gone` cannot be found" in shown
    assert as_written(appeared, (), MISSING) == UNKNOWN


def test_with_a_missing_table_only_its_own_error_is_told_whole() -> None:
    reading = replace(CLEARED, missing=MISSING)
    assert may_show_whole(NOT_FOUND, reading)
    other = NOT_FOUND.replace("TABLE_OR_VIEW_NOT_FOUND", "UNRESOLVED_COLUMN")
    assert not may_show_whole(other, reading)
    at_run_time = NOT_FOUND.replace("sql.AnalysisException", "SparkRuntimeException")
    assert not may_show_whole(at_run_time, reading)
    assert may_show_whole(other, CLEARED)


@pytest.mark.timeout(60)
def test_of_many_names_all_are_put_back_in_one_pass() -> None:
    """Everybody waits meanwhile: each by itself, it took minutes for these."""
    original, forwarded, changes, plan = "", "", [], ""
    for number in range(9_000):
        original, forwarded = f"{original} FROM ", f"{forwarded} FROM "
        full = f"`spark_catalog`.`db`.`t{number}`"
        changes.append((len(original), len(original) + len(f"t{number}"), len(full)))
        original, forwarded = f"{original}t{number}", f"{forwarded}{full}"
        plan += f":- 'UnresolvedRelation [spark_catalog, db, t{number}], [], false\n"
    text = RewrittenText(original=original, forwarded=forwarded, changes=tuple(changes))
    shown = as_written(f"x;\n'Union\n{plan}", (text,), MISSING * 2_000)
    assert shown.count("'UnresolvedRelation [t") == 9_000
    assert "spark_catalog" not in shown


def test_a_guard_is_undone_below_the_alias_of_another() -> None:
    named = GUARD.replace("'SubqueryAlias gone\n   +-", "'SubqueryAlias g\n   +-")
    shown = as_written(NOT_FOUND + named, (), MISSING, named=True)
    assert shown.endswith("'Project [*]\n+- 'SubqueryAlias g\n   +- 'UnresolvedRelation [gone], [], false\n")


def test_places_are_told_in_the_users_text() -> None:
    text = rewritten("SELECT a FROM t WHERE b > 1")
    there, here = text.forwarded.index("b >"), text.original.index("b >")
    message = f"{HIVE}[X] a.B: [X] no. SQLSTATE: 42000; line 1 pos {there};\n'Project ['a]\n"
    shown = whole_failure(BackendError(message, None), replace(CLEARED, rewritten=(text,)), "event")
    assert f"; line 1 pos {here};\n" in shown.text
    assert str(there) not in shown.trace


def test_names_in_messages_that_tell_full_names_stay() -> None:
    text = rewritten("SELECT a FROM t")
    message = "The table `spark_catalog`.`db`.`t` is bad\n+- 'UnresolvedRelation [spark_catalog, db, t], []"
    assert as_written(message, (text,), ()) == (
        "The table `spark_catalog`.`db`.`t` is bad\n+- 'UnresolvedRelation [t], []"
    )
    assert "The table `t` is bad" in as_written(message, (text,), (), named=True)


def test_a_new_view_s_plan_has_its_text_as_it_was_written() -> None:
    text = rewritten("CREATE VIEW v AS SELECT a FROM t")
    plan = (
        "x;\n'CreateViewCommand `v`, [sluice.definer.0af3=626f62], "
        "SELECT a FROM `spark_catalog`.`db`.`t`, false\n"
    )
    assert as_written(plan, (text,), ()) == "x;\n'CreateViewCommand `v`, SELECT a FROM t, false\n"


def test_the_exception_s_own_words_are_told_without_the_stack() -> None:
    message = f"{HIVE}[X] a.B: [X] no\n\tat c.D.f(D.java:1)\nCaused by: a.B: [X] no\n\tat c.D.f(D.java:1)"
    failed = whole_failure(BackendError(message, None), CLEARED, "event")
    assert failed.text == "Error running query: [X] a.B: [X] no"
    assert failed.trace == message
    assert failed.sqlstate == ""
    lost = "Job aborted: no\n\tat c.D.f(D.java:1)\n\nDriver stacktrace:"
    fetched = whole_failure(BackendError(lost, None, 0, ("*a.B:no:1:0", "c.D:f:D.java:1")), CLEARED, "event")
    assert fetched.text == lost
    assert fetched.trace == ""
    assert fetched.details == ("*a.B:no:1:0", "c.D:f:D.java:1")


def test_texts_of_the_same_length_are_left_alone() -> None:
    assert as_written("x; line 1 pos 3", (), ()) == "x; line 1 pos 3"
    one = RewrittenText(original="SELECT a FROM t", forwarded="SELECT a FROM t", changes=())
    assert as_written("x; line 1 pos 7", (one,), ()) == "x; line 1 pos 7"
