"""Functions of plans: what only plans can call is known by name, and nothing of Spark's can be registered."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark.sql.internal
import pytest

from gateway.model.handles import SparkHandle
from gateway.model.statement import SessionContext
from gateway.plan.facts import RESERVED_FUNCTIONS, PlanFacts, facts_of, names_metadata
from gateway.plan.reading import CodeUse, ColumnName, FunctionCall, PlanReading
from gateway.sql.functions import ALLOWED_FUNCTIONS, INTERNAL_FUNCTIONS, REFUSED_FUNCTIONS
from gateway.sql.names import Names
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb

NAMES = Names(SessionContext(endpoint="connect"), frozenset({"spark_catalog"}))


def names_with(*handles: SparkHandle) -> Names:
    return Names(SessionContext(endpoint="connect", handles=frozenset(handles)), frozenset({"spark_catalog"}))


def facts(*calls: FunctionCall) -> PlanFacts | Unsupported:
    return facts_of(PlanReading(message=pb.Plan(), root="", functions=list(calls)), NAMES)


def test_the_internal_functions_that_pyspark_calls_are_known() -> None:
    source = Path(pyspark.sql.internal.__file__).read_text()
    called = set(re.findall(r'_over_columns\(\s*"(\w+)"', source))
    assert called
    assert called <= INTERNAL_FUNCTIONS


def test_no_name_is_on_two_lists() -> None:
    assert not INTERNAL_FUNCTIONS & (ALLOWED_FUNCTIONS | REFUSED_FUNCTIONS.keys())
    assert INTERNAL_FUNCTIONS | ALLOWED_FUNCTIONS | REFUSED_FUNCTIONS.keys() <= RESERVED_FUNCTIONS


def test_internal_functions_are_found_by_plans_alone() -> None:
    assert isinstance(facts(FunctionCall(parts=("product",))), PlanFacts)
    assert isinstance(facts(FunctionCall(parts=("product",), internal=True)), PlanFacts)
    # `call_function` looks names up as SQL does, where another function could have that name.
    assert isinstance(facts(FunctionCall(parts=("product",), by_name=True)), Unsupported)


@pytest.mark.parametrize(
    "call",
    [
        FunctionCall(parts=("sha2",), internal=True),
        FunctionCall(parts=("vector_get",), internal=True),
        FunctionCall(parts=("from_avro",)),
        FunctionCall(parts=("system", "builtin", "reflect")),
        FunctionCall(parts=("session", "f")),
        FunctionCall(parts=("f",)),
        FunctionCall(parts=("read_files",), table_valued=True),
        FunctionCall(parts=("sha2",), table_valued=True),
    ],
)
def test_functions_that_are_not_known_are_refused(call: FunctionCall) -> None:
    assert isinstance(facts(call), Unsupported)


@pytest.mark.parametrize("table_valued", [False, True])
def test_what_the_session_registered_wants_execute_by_its_kind(*, table_valued: bool) -> None:
    kinds = {False: SparkHandle("function", "twice"), True: SparkHandle("table_function", "twice")}
    call = FunctionCall(parts=("Twice",), table_valued=table_valued)
    reading = PlanReading(message=pb.Plan(), root="", functions=[call])
    found = facts_of(reading, names_with(kinds[table_valued]))
    assert isinstance(found, PlanFacts)
    assert [f"{privilege.access} {privilege.resource}" for privilege in found.required] == [
        "execute system.session.Twice"
    ]
    # Of the other kind it could be a persistent function of that name.
    assert isinstance(facts_of(reading, names_with(kinds[not table_valued])), Unsupported)


def test_a_data_source_is_one_that_the_session_registered() -> None:
    use = CodeUse(
        name="Mine",
        access="execute",
        what="a built-in data source",
        handle=SparkHandle("data_source", "mine"),
    )
    reading = PlanReading(message=pb.Plan(), root="", code=[use])
    refused = facts_of(reading, NAMES)
    assert isinstance(refused, Unsupported)
    assert "`Mine` can access other systems" in refused.why
    found = facts_of(reading, names_with(SparkHandle("data_source", "mine")))
    assert isinstance(found, PlanFacts)
    assert found.code == ("execute system.session.Mine",)
    assert [f"{privilege.access} {privilege.resource}" for privilege in found.required] == list(found.code)


def test_persistent_functions_want_a_grant() -> None:
    found = facts(FunctionCall(parts=("spark_catalog", "lab", "f")))
    assert isinstance(found, PlanFacts)
    assert [f"{privilege.access} {privilege.resource}" for privilege in found.required] == [
        "execute spark_catalog.lab.f"
    ]


@pytest.mark.parametrize(
    ("reading", "names"),
    [
        (PlanReading(message=pb.Plan(), root="", columns=[ColumnName(parts=("t", "_Metadata", "x"))]), True),
        (PlanReading(message=pb.Plan(), root="", columns=[ColumnName(parts=("x",), metadata=True)]), True),
        (PlanReading(message=pb.Plan(), root="", names=["`_metadata`"]), True),
        (PlanReading(message=pb.Plan(), root="", names=["t._metadata.file_path"]), True),
        (PlanReading(message=pb.Plan(), root="", columns=[ColumnName(parts=("user_metadata",))]), False),
    ],
)
def test_metadata_by_any_spelling(reading: PlanReading, names: bool) -> None:
    assert names_metadata(reading) is names
