"""The second look: nothing goes on that was not judged, and without our edits it is what the client sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.plan.guard import Edits, bytes_of, guard_read, pin_read
from gateway.plan.prove import _leads, proved
from gateway.plan.reading import PlanReading
from gateway.wire.connect import pb
from tests.plan.frames import message, sql, table
from tests.plan.plans import plan_in, read
from tests.plan.test_guard import PEOPLE, QUERY


def guarded() -> tuple[PlanReading, bytes, Edits]:
    """A plan with a guard, a pinned name and an expression in it, as it is about to be forwarded."""
    people, orders = table("people"), table("orders")
    frame = people.join(orders, "id").filter(F.expr("a > 1"))
    reading = read(message(frame).SerializeToString(deterministic=True))
    original = bytes_of(reading.message)
    edits = Edits()
    for found in reading.tables:
        if found.parts == ("people",):
            guard_read(found, PEOPLE, QUERY, edits)
        else:
            pin_read(found, "`c`.`d`.`orders`", edits)
    edits.expressions.add("a > 1")
    return reading, original, edits


def test_what_was_judged_and_written_is_proved_and_the_reading_is_as_before() -> None:
    reading, original, edits = guarded()
    forwarded = bytes_of(reading.message)
    assert forwarded != original
    assert proved(reading, original, forwarded, edits) is None
    assert bytes_of(reading.message) == original


def another_table(plan: Any) -> None:
    plan.root.filter.input.join.right.read.named_table.unparsed_identifier = "secret"


def another_query(plan: Any) -> None:
    plan.root.filter.input.join.left.subquery_alias.input.sql.query = "SELECT * FROM secret"


def another_expression(plan: Any) -> None:
    plan.root.filter.condition.expression_string.expression = "(SELECT 1 FROM secret)"


def a_change_feed(plan: Any) -> None:
    plan.root.filter.input.join.right.relation_changes.unparsed_identifier = "secret"


def a_catalog_call(plan: Any) -> None:
    plan.root.filter.input.join.right.catalog.list_tables.SetInParent()


def a_handle(plan: Any) -> None:
    plan.root.filter.input.join.right.cached_remote_relation.relation_id = "x"


def a_plug_in(plan: Any) -> None:
    plan.root.filter.input.join.right.extension.type_url = "x"


def a_compressed_plan(plan: Any) -> None:
    plan.compressed_operation.data = b"x"


def a_text_of_the_older_form(plan: Any) -> None:
    plan.command.sql_command.sql = "SELECT * FROM secret"


@pytest.mark.parametrize(
    "tamper",
    [
        another_table,
        another_query,
        another_expression,
        a_change_feed,
        a_catalog_call,
        a_handle,
        a_plug_in,
        a_compressed_plan,
        a_text_of_the_older_form,
    ],
)
def test_what_was_not_judged_does_not_go_on(tamper: Callable[[Any], None]) -> None:
    reading, original, edits = guarded()
    plan = pb.Plan.FromString(bytes_of(reading.message))
    tamper(plan)
    assert proved(reading, original, bytes_of(plan), edits) is not None


def test_a_change_that_nobody_notes_down_does_not_go_on() -> None:
    reading, original, edits = guarded()
    plan_in(reading).root.filter.input.join.join_type = pb.Join.JOIN_TYPE_CROSS
    assert proved(reading, original, bytes_of(reading.message), edits) is not None


def stream() -> tuple[PlanReading, bytes, Edits]:
    plan = pb.Plan()
    start = plan.command.write_stream_operation_start
    start.input.read.data_source.format = "rate"
    start.input.read.is_streaming = True
    start.format = "noop"
    start.options["CheckpointLocation"] = "file:/mine"
    reading = read(plan.SerializeToString(deterministic=True))
    return reading, bytes_of(reading.message), Edits()


def test_a_checkpoint_is_where_it_was_put() -> None:
    reading, original, edits = stream()
    start = plan_in(reading).command.write_stream_operation_start
    edits.place_checkpoint(start, "CheckpointLocation", "file:/ours/_a/_b")
    forwarded = bytes_of(reading.message)
    assert forwarded != original
    assert proved(reading, original, forwarded, edits) is None
    assert bytes_of(reading.message) == original


def test_a_checkpoint_that_was_chosen_does_not_go_on() -> None:
    reading, original, edits = stream()
    assert proved(reading, original, original, edits) is not None


def test_sql_within_a_plan_is_looked_at_too() -> None:
    reading = read(message(sql("SELECT 1")).SerializeToString(deterministic=True))
    original = bytes_of(reading.message)
    assert proved(reading, original, original, Edits()) is not None
    edits = Edits()
    edits.queries.add("SELECT 1")
    assert proved(reading, original, original, edits) is None


@pytest.mark.parametrize("name", ["Literal", "UnresolvedAttribute", "UnresolvedStar"])
def test_leaves_that_can_hold_nothing_are_not_looked_into(name: str) -> None:
    assert not _leads(getattr(pb.Expression, name).DESCRIPTOR)


@pytest.mark.parametrize("cls", [pb.Relation, pb.Expression, pb.Command, pb.SubqueryExpression, pb.Catalog])
def test_messages_that_can_hold_relations_are_looked_into(cls: Any) -> None:
    assert _leads(cls.DESCRIPTOR)
