"""Functions whose bodies were judged: a session of Spark goes on running the one that it has called first."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.catalog.describe import function_from_rows
from gateway.model.catalog import FUNCTION, Table, TableName
from gateway.model.definers import definer_mark
from gateway.model.principal import Principal
from gateway.model.statement import Cleared, Client, MakeFunction, Refused, SessionContext, Statement
from gateway.session.connect.operation import ConnectOperation
from gateway.session.judged import build_judged
from gateway.session.session import NameResolution
from gateway.session.states import Event, OperationStateMachine
from gateway.session.view_rules import refuse_replaced_functions

PRINCIPAL = Principal(user="bob")
NAME = TableName("spark_catalog", "lab", "f", FUNCTION)


def function(body: str, by: str | None = "ann") -> Table:
    mark = [] if by is None else [(f"Comment: {definer_mark(body, by)}",)]
    return function_from_rows([("Function: f",), *mark, (f"Body: {body}",)], NAME)


def cleared(*functions: Table, **fields: Any) -> Cleared:
    statement = Statement(text="SELECT f()", principal=PRINCIPAL, context=SessionContext())
    return Cleared(
        statement=statement,
        forwarded=statement.text,
        plan_class="Project",
        snapshot_version="1",
        names=frozenset({NAME}),
        functions=functions,
        **fields,
    )


def new_session() -> NameResolution:
    return NameResolution(PRINCIPAL, Client(protocol="thrift"), SessionContext())


@pytest.mark.parametrize(
    ("was", "now", "passes"),
    [
        (function("SELECT 1"), function("SELECT 1"), True),
        (function("SELECT 1"), function("SELECT 2"), False),
        (function("SELECT 1"), function("SELECT 1", "cat"), False),
        (function("SELECT 1"), function("1", None), False),
        (function("1", None), function("SELECT 1"), False),
        # Neither reads anything.
        (function("1", None), function("2", None), True),
    ],
)
def test_no_session_calls_another_body_than_it_knows(was: Table, now: Table, passes: bool) -> None:
    session = new_session()
    assert isinstance(refuse_replaced_functions(session, cleared(was)), Cleared)
    session.note_judged(cleared(was), 1, {})
    verdict = refuse_replaced_functions(session, cleared(now))
    assert isinstance(verdict, Cleared if passes else Refused)
    if isinstance(verdict, Refused):
        assert "open a new session" in verdict.message


def test_who_makes_a_function_knows_it_as_it_is() -> None:
    session = new_session()
    session.note_judged(cleared(function("SELECT 1")), 1, {})
    session.apply_finished(cleared(effects=(MakeFunction(NAME),)), 1)
    assert isinstance(refuse_replaced_functions(session, cleared(function("SELECT 2"))), Cleared)


def test_a_session_that_lived_on_may_know_any_body() -> None:
    session = new_session()
    session.lived_on = True
    assert isinstance(refuse_replaced_functions(session, cleared(function("SELECT 1"))), Refused)
    assert isinstance(refuse_replaced_functions(session, cleared(function("1", None))), Cleared)


def test_what_came_of_another_body_is_not_the_same() -> None:
    made = build_judged(cleared(function("SELECT 1")))
    assert made.is_same(cleared(function("SELECT 1")))
    assert not made.is_same(cleared(function("SELECT 2")))


def test_a_script_has_looked_up_its_names_when_it_ends() -> None:
    for until_end in (True, False):
        life, resolved = OperationStateMachine(), []
        life.apply(Event.FORWARD)
        operation = cast(
            "ConnectOperation",
            SimpleNamespace(
                life=life,
                names_seen=False,
                overtaken=False,
                cleared=replace(cleared(), names_until_end=until_end),
                resolved=SimpleNamespace(set=lambda: resolved.append(1)),  # noqa: B023
                hold=SimpleNamespace(request=SimpleNamespace(read_only=False)),
            ),
        )
        ConnectOperation.note_names_resolved(operation)
        assert life.analysed is not until_end
        assert bool(resolved) is not until_end
