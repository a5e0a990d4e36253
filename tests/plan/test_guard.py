"""Guards in a plan: the outermost node keeps its common, every change can be undone."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.plan.guard import (
    Edits,
    bind_identities,
    bytes_of,
    full_name,
    guard_read,
    is_identity,
    pin_read,
    read_suffix,
)
from gateway.plan.reading import FunctionCall, PlanReading, TableRead
from gateway.plan.scope import NamePin
from gateway.sql.wants import Unsupported
from gateway.wire.connect import pb
from tests.plan.frames import message, table
from tests.plan.plans import plan_in, read

PEOPLE = Table(
    name=TableName("spark_catalog", "hr", "people"),
    kind=TableKind.TABLE,
    columns=(Column(name="id", type="int"),),
)
QUERY = "SELECT `id` FROM `spark_catalog`.`hr`.`people` AS `people` WHERE (id > 1)"


def reading_of(frame: Any) -> PlanReading:
    return read(message(frame).SerializeToString(deterministic=True))


def test_a_guarded_read_is_an_alias_over_a_query_and_keeps_its_plan_id() -> None:
    frame = table("people")
    reading = reading_of(frame.filter(frame.id > 1))
    before = bytes_of(reading.message)
    (found,) = reading.tables
    plan_id = found.relation.common.plan_id
    edits = Edits()
    guard_read(found, PEOPLE, QUERY, edits)
    relation = plan_in(reading).root.filter.input
    assert relation.common.plan_id == plan_id
    assert relation.subquery_alias.alias == "people"
    assert list(relation.subquery_alias.qualifier) == ["spark_catalog", "hr"]
    inner = relation.subquery_alias.input
    assert inner.sql.query == QUERY
    assert not inner.HasField("common")
    assert edits.queries == {QUERY}
    edits.undo()
    assert bytes_of(reading.message) == before


def test_a_read_without_obligations_keeps_its_place_and_options() -> None:
    reading = reading_of(table("people", maxFilesPerTrigger="1"))
    before = bytes_of(reading.message)
    edits = Edits()
    pin_read(reading.tables[0], full_name(PEOPLE), edits)
    named = plan_in(reading).root.read.named_table
    assert named.unparsed_identifier == "`spark_catalog`.`hr`.`people`"
    assert dict(named.options) == {"maxFilesPerTrigger": "1"}
    edits.undo()
    assert bytes_of(reading.message) == before


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ((), ""),
        ((("maxFilesPerTrigger", "1"),), "WITH ('maxFilesPerTrigger' = '1')"),
    ],
)
def test_options_are_written_as_literals(options: Any, written: str) -> None:
    assert read_suffix(TableRead(relation=pb.Relation(), parts=("t",), options=options)) == written


@pytest.mark.parametrize("key", ["path", "PATH", "url", "dbtable", "versionAsOf"])
def test_options_that_lead_to_other_data_are_refused(key: str) -> None:
    suffix = read_suffix(TableRead(relation=pb.Relation(), parts=("t",), options=((key, "1"),)))
    assert isinstance(suffix, Unsupported)
    assert f"the option `{key}`" in suffix.why


def test_a_value_that_is_no_plain_literal_is_refused() -> None:
    read = TableRead(relation=pb.Relation(), parts=("t",), options=(("maxFilesPerTrigger", "1' OR"),))
    assert isinstance(read_suffix(read), Unsupported)


def test_fields_are_written_cleared_and_given_back() -> None:
    call = pb.ListColumns(table_name="t", db_name="d")
    edits = Edits()
    edits.pin(
        (
            NamePin(message=call, field="table_name", text="`c`.`d`.`t`"),
            NamePin(message=call, field="db_name", text=None),
        )
    )
    assert call.table_name == "`c`.`d`.`t`"
    assert not call.HasField("db_name")
    edits.undo()
    assert (call.table_name, call.db_name) == ("t", "d")


def test_what_is_written_as_it_is_changes_nothing() -> None:
    call = pb.ListColumns(table_name="t")
    edits = Edits()
    edits.write(call, "table_name", "t")
    assert not edits.changed


@pytest.mark.parametrize(
    ("parts", "asks"),
    [
        (("current_user",), True),
        (("SESSION_USER",), True),
        (("user",), True),
        (("system", "builtin", "user"), True),
        (("builtin", "current_user"), True),
        (("session", "user"), False),
        (("users",), False),
    ],
)
def test_who_asks_for_the_user(parts: tuple[str, ...], asks: bool) -> None:
    assert is_identity(FunctionCall(parts=parts)) is asks


def test_identities_become_the_principal_and_columns_keep_their_names() -> None:
    frame = table("people").select(
        F.current_user(), F.upper(F.session_user()), F.user().alias("me"), F.call_function("current_user")
    )
    reading = reading_of(frame.filter(F.current_user() == "x").groupBy(F.user()).count())
    before = bytes_of(reading.message)
    edits = Edits()
    bind_identities(reading.message, "bob", frozenset(), edits)
    aggregate = plan_in(reading).root.aggregate
    assert list(aggregate.grouping_expressions[0].alias.name) == ["user()"]
    assert aggregate.grouping_expressions[0].alias.expr.literal.string == "bob"
    condition = aggregate.input.filter.condition.unresolved_function
    assert condition.arguments[0].literal.string == "bob"
    first, second, third, fourth = aggregate.input.filter.input.project.expressions
    assert list(first.alias.name) == ["current_user()"]
    assert second.unresolved_function.arguments[0].literal.string == "bob"
    assert (list(third.alias.name), third.alias.expr.literal.string) == (["me"], "bob")
    assert list(fourth.alias.name) == ["current_user()"]
    edits.undo()
    assert bytes_of(reading.message) == before
