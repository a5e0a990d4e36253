"""What a session knows of variables and of functions that it has made, by what statements do to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from gateway.model.catalog import TableName
from gateway.model.decision import PolicyRef, RowFilter
from gateway.model.handles import SparkHandle, mark_reading_function
from gateway.model.principal import Principal
from gateway.model.statement import (
    Cleared,
    Client,
    CreateTempView,
    DeclareVariables,
    DropFunction,
    DropVariable,
    EndpointName,
    Refused,
    RegisterCode,
    ScanRecord,
    SessionContext,
    SessionEffect,
    SetVariables,
    Statement,
    Verdict,
)
from gateway.session.endpoint import EndpointOperation, changes_names
from gateway.session.session import NameResolution
from gateway.session.view_rules import as_made, refuse_other_rows, statement_of, without_dangling_views
from tests.session.fakes import FakeEndpoint

PRINCIPAL = Principal(user="bob")
NAME = TableName("spark_catalog", "lab", "t")
X = frozenset({"x"})


def new_session(endpoint: EndpointName = "thrift") -> NameResolution:
    return NameResolution(PRINCIPAL, Client(protocol=endpoint), SessionContext(endpoint=endpoint))


def clear(session: NameResolution, text: str, *effects: SessionEffect, reads: bool = False) -> Cleared:
    return Cleared(
        statement=Statement(text=text, principal=PRINCIPAL, context=session.context),
        forwarded=text,
        plan_class="Command",
        snapshot_version="1",
        effects=effects,
        names=frozenset({NAME}) if reads else frozenset(),
    )


def run(session: NameResolution, text: str, *effects: SessionEffect, reads: bool = False) -> None:
    cleared = clear(session, text, *effects, reads=reads)
    session.prepare_to_forward(cleared)
    session.apply_finished(cleared, 1)


@dataclass
class Policies:
    """Judges what is asked again as it was, or, when policies have changed, otherwise."""

    session: NameResolution
    mark: str = ""
    ran: list[Statement] = field(default_factory=list)

    async def judge(self, asked: Statement) -> Verdict:
        forwarded = asked.text + (self.mark if " FROM " in asked.text else "")
        return replace(clear(self.session, asked.text), statement=asked, forwarded=forwarded)

    async def run(self, asked: Statement) -> None:
        self.ran.append(asked)

    async def renew(self) -> list[str]:
        self.ran.clear()
        await FakeEndpoint(self.judge, self.run).renew_views(self.session)
        return [one.text for one in self.ran]


def test_a_variable_counts_from_when_it_may_be_there_until_it_is_gone() -> None:
    session = new_session()
    cleared = clear(session, "DECLARE x", DeclareVariables(X, "a"))
    session.prepare_to_forward(cleared)
    assert session.context.variables == X
    assert session.context.known_values == frozenset()
    session.apply_finished(cleared, 1)
    assert session.context.known_values == {("x", "a")}
    session.prepare_to_forward(clear(session, "SET VAR x = y", SetVariables(X)))
    assert session.context.known_values == frozenset()
    dropped = clear(session, "DROP TEMPORARY VARIABLE x", DropVariable("x"))
    session.prepare_to_forward(dropped)
    assert session.context.variables == X
    session.apply_finished(dropped, 1)
    assert session.context.variables == frozenset()


def test_that_a_variable_has_strings_is_known_until_it_is_declared_anew() -> None:
    session = new_session()
    declared = clear(session, "DECLARE x STRING", DeclareVariables(X, of_strings=True))
    session.prepare_to_forward(declared)
    assert session.context.string_variables == frozenset()
    session.apply_finished(declared, 1)
    assert session.context.string_variables == X
    session.prepare_to_forward(clear(session, "DECLARE OR REPLACE x", DeclareVariables(X)))
    assert session.context.string_variables == frozenset()


async def test_a_value_that_came_of_rows_ends_with_them_and_so_does_what_came_of_it() -> None:
    session = new_session()
    policies = Policies(session)
    run(session, "DECLARE x", DeclareVariables(frozenset({"x", "y", "z", "w"})))
    run(session, "SET VAR x = (SELECT 1 FROM t)", SetVariables(X), reads=True)
    run(session, "SET VAR y = x + 1", SetVariables(frozenset({"y"})))
    run(session, "SET VAR z = 3", SetVariables(frozenset({"z"})))
    run(session, "CREATE TEMP VIEW v AS SELECT x", CreateTempView("v"))
    with_view = clear(session, "SET VAR w = (SELECT * FROM v)", SetVariables(frozenset({"w"})))
    session.apply_finished(replace(with_view, temp_views_read=frozenset({"v"})), 1)
    assert await policies.renew() == []
    policies.mark = " masked"
    ended = [text for text in await policies.renew() if "VARIABLE" in text]
    assert ended == [f"DROP TEMPORARY VARIABLE IF EXISTS `{name}`" for name in ("x", "y", "w")]
    assert await policies.renew() == []


async def test_a_session_of_spark_connect_says_that_it_has_variables() -> None:
    for endpoint, marks in (("thrift", 0), ("connect", 1)):
        session = new_session(endpoint)  # type: ignore[arg-type]
        policies = Policies(session)
        asked = clear(session, "DECLARE x", DeclareVariables(X))
        for _ in range(2):
            await FakeEndpoint(policies.judge, policies.run).run_before(session, asked.statement, asked)
        assert [one.marks_variables for one in policies.ran] == [True] * marks


def test_a_view_is_made_again_beside_the_variables_of_then() -> None:
    """What Spark keeps of it means none that came later; made again it would."""
    session = new_session()
    run(session, "CREATE TEMP VIEW v AS SELECT id FROM t", CreateTempView("v"))
    run(session, "DECLARE x", DeclareVariables(X))
    view = session.views["v"]
    assert as_made(session, view).context.variables == frozenset()
    assert statement_of(session, view).context.variables == X


def test_what_was_made_with_filters_is_not_read_from_a_branch() -> None:
    """Spark keeps SQL's settings with what was made, and not Iceberg's: its policies' tables would be read
    in the branch."""
    session, branch = new_session(), "spark.wap.branch"
    rows = RowFilter(expression="id IN (SELECT id FROM m)", policy=PolicyRef(name="rows"))
    scans = (ScanRecord(table=NAME, access="select", columns=("id",), obligations=(rows,)),)

    def make_view(name: str, text: str, scans: tuple[ScanRecord, ...]) -> None:
        cleared = replace(clear(session, text, CreateTempView(name), reads=True), scans=scans)
        session.prepare_to_forward(cleared)
        session.apply_finished(cleared, 1)

    def is_read(name: str) -> bool:
        read = replace(clear(session, f"SELECT * FROM {name}"), temp_views_read=frozenset({name}))
        return isinstance(refuse_other_rows(session, read), Cleared)

    make_view("before", "CREATE TEMP VIEW before AS SELECT id FROM t", scans)
    make_view("over", "CREATE TEMP VIEW over AS SELECT id FROM before", ())
    make_view("plain", "CREATE TEMP VIEW plain AS SELECT id FROM t", ())
    session.note_setting_changed("spark.sql.ansi.enabled", own=False)
    assert all(map(is_read, ("before", "over", "plain")))
    session.note_setting_changed(branch, own=False)
    make_view("after", "CREATE TEMP VIEW after AS SELECT id FROM t", scans)
    assert [is_read(name) for name in ("before", "over", "plain", "after")] == [False, False, True, True]
    session.note_setting_changed(branch, own=True)
    assert is_read("before")


async def test_a_function_that_reads_ends_with_what_it_reads_and_so_does_what_came_of_it() -> None:
    session = new_session()
    policies = Policies(session)
    handle = SparkHandle("function", "f")
    make = "CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN SELECT 1 FROM t"
    run(session, make, RegisterCode(handle, reads=True), reads=True)
    run(session, "DECLARE x", DeclareVariables(frozenset({"x", "y"})))
    run(session, "SET VAR x = f()", SetVariables(X))
    run(session, "SET VAR y = 2", SetVariables(frozenset({"y"})))
    run(session, "CREATE TEMP VIEW v AS SELECT f()", CreateTempView("v"))
    run(session, "CREATE TEMP VIEW w AS SELECT 2", CreateTempView("w"))
    assert session.context.handles == {handle, mark_reading_function("f")}
    assert await policies.renew() == []
    policies.mark = " masked"
    assert await policies.renew() == [
        "DROP TEMPORARY VARIABLE IF EXISTS `x`",
        "DROP VIEW IF EXISTS `v`",
        "DROP TEMPORARY FUNCTION IF EXISTS `f`",
    ]
    assert "function `f`" in session.ended_views["v"]
    assert set(session.views) == {"w"}
    assert await policies.renew() == []
    run(session, make, RegisterCode(handle, reads=True), reads=True)
    run(session, "CREATE OR REPLACE TEMPORARY FUNCTION f() RETURN 1", RegisterCode(handle))
    assert session.context.handles == {handle}
    policies.mark = " masked again"
    assert await policies.renew() == []


@pytest.mark.parametrize(
    ("made", "again"),
    [
        ("CREATE TEMPORARY FUNCTION f() RETURN 1", "CREATE OR REPLACE TEMPORARY FUNCTION f() RETURN 1"),
        ("create or replace temp function f() RETURN 1", "CREATE OR REPLACE TEMPORARY FUNCTION f() RETURN 1"),
        ("EXECUTE IMMEDIATE 'CREATE TEMPORARY FUNCTION f() RETURN 1'", ""),
        ("CREATE TEMPORARY FUNCTION IF NOT EXISTS f() RETURN 1", ""),
    ],
)
async def test_a_function_is_made_again_where_the_period_alone_is_another(made: str, again: str) -> None:
    """What its row filters read is looked at anew; it is there all the time."""
    session, ran, now = new_session(), list[Statement](), {"period": 7, "mark": ""}

    def clear_now(statement: Statement) -> Cleared:
        creates = " function " in statement.text.lower()
        return Cleared(
            statement=statement,
            forwarded=f"{statement.text} REPEATABLE ({now['period']}){now['mark']}",
            plan_class="Command",
            snapshot_version="1",
            effects=(RegisterCode(SparkHandle("function", "f"), reads=True),) if creates else (),
            names=frozenset({NAME}),
            period=cast("int", now["period"]),
        )

    async def judge(statement: Statement) -> Verdict:
        return clear_now(statement)

    async def run_own(statement: Statement) -> None:
        ran.append(statement)
        effects = (DropFunction("f"),) if statement.text.startswith("DROP") else clear_now(statement).effects
        session.prepare_to_forward(replace(clear_now(statement), effects=effects))
        session.apply_finished(replace(clear_now(statement), effects=effects), 1)

    endpoint = FakeEndpoint(judge, run_own)
    first = clear_now(Statement(text=made, principal=PRINCIPAL, context=session.context))
    session.prepare_to_forward(first)
    session.apply_finished(first, 1)
    session.context = replace(session.context, namespace=("elsewhere",))
    for period in (7, 8, 8, 9):
        now["period"] = period
        await endpoint.renew_views(session)
    drop = "DROP TEMPORARY FUNCTION IF EXISTS `f`"
    assert [one.text for one in ran] == ([again, again] if again else [drop])
    if again:
        assert {one.context.namespace for one in ran} == {first.statement.context.namespace}
        session.context = replace(session.context, settings=frozenset({"spark.sql.ansi.enabled"}))
        now["period"] = 10
        await endpoint.renew_views(session)
        assert ran[-1].text == drop, "Spark would keep other settings with it"


def test_errors_over_a_function_that_reads_tell_what_it_may() -> None:
    session = new_session()
    make = "CREATE TEMPORARY FUNCTION f() RETURNS INT RETURN SELECT 1 FROM t"
    run(session, make, RegisterCode(SparkHandle("function", "f"), reads=True), reads=True)
    assert session.views_guarded
    clone = new_session()
    clone.copy_names(session)
    assert clone.context.handles == session.context.handles
    assert clone.functions == session.functions


def test_nothing_is_judged_while_a_function_may_be_another_one() -> None:
    session, handle = new_session(), SparkHandle("function", "f")
    for reads in (False, True):
        cleared = clear(session, "CREATE TEMPORARY FUNCTION f", RegisterCode(handle, reads=reads))
        assert changes_names(cleared.effects)
        stopped = cast("EndpointOperation", SimpleNamespace(session=session, cleared=cleared))
        assert EndpointOperation.settle(stopped, finished=False, stopped=True) is not reads


def test_what_may_call_a_function_that_reads_has_names_of_the_session() -> None:
    session, handle = new_session(), SparkHandle("function", "f")
    run(session, "CREATE TEMPORARY FUNCTION f", RegisterCode(handle, reads=True), reads=True)
    calls, other = clear(session, "SELECT F(1)"), clear(session, "SELECT g(1)")
    assert [session.reads_own_names(one) for one in (calls, other)] == [True, False]
    assert session.collect_dependencies(calls) == {NAME}
    assert session.collect_dependencies(other) == frozenset()
    assert session.reads_own_names(replace(other, temp_views_read=frozenset({"v"})))
    for dropped in (DropFunction("f"), DropVariable("f")):
        assert not session.reads_own_names(clear(session, "DROP f", dropped))


def test_a_function_is_unknown_as_soon_as_its_drop_is_forwarded() -> None:
    session = new_session()
    handle = SparkHandle("function", "f")
    run(session, "CREATE TEMPORARY FUNCTION f", RegisterCode(handle))
    assert session.context.handles == {handle}
    session.prepare_to_forward(clear(session, "DROP TEMPORARY FUNCTION f", DropFunction("f")))
    assert session.context.handles == frozenset()


@pytest.mark.parametrize(
    ("text", "forwarded"),
    [
        ("CREATE TEMP VIEW v AS SELECT F(id) FROM t", ""),
        (r"EXECUTE IMMEDIATE 'CREATE TEMP VIEW v AS SELECT \146(id)'", "CREATE TEMP VIEW v AS SELECT f(id)"),
        (r"CREATE TEMP VIEW v AS SELECT IDENTIFIER('\146')(id)", "CREATE TEMP VIEW v AS SELECT `f`(id)"),
    ],
)
def test_a_function_that_a_view_calls_is_not_dropped(text: str, forwarded: str) -> None:
    session = new_session()
    cleared = clear(session, text, CreateTempView("v"))
    cleared = replace(cleared, forwarded=forwarded or cleared.forwarded)
    session.prepare_to_forward(cleared)
    session.apply_finished(cleared, 1)
    for name, refused in (("f", True), ("g", False)):
        drop = clear(session, f"DROP TEMPORARY FUNCTION {name}", DropFunction(name))
        verdict = without_dangling_views(session, drop)
        assert (isinstance(verdict, Refused) and verdict.code == "VIEW_IN_USE") is refused
