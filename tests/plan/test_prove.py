"""The second look: nothing goes on that was not judged, and without our edits it is what the client sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.model.spark_minors import NEWEST
from gateway.plan.classify import TABLE, FieldRule, short_name
from gateway.plan.guard import Edits, bind_identities, bytes_of, guard_read, pin_read
from gateway.plan.prove import _ASIDE, _COUNTED, _check, _leads, prove_plan
from gateway.plan.reading import PlanReading
from gateway.plan.walk_steps import ROOTS, message_types, steps_for
from gateway.wire.connect import MAX_DEPTH, descriptor_of, parse, pb, serialize
from tests.plan.frames import message, sql, table
from tests.plan.plans import plan_in, read
from tests.plan.test_guard import PEOPLE, QUERY

TYPES = {short_name(each.full_name): each for each in message_types(*ROOTS)}
CLASSES = {descriptor_of(each).full_name: each for each in steps_for(NEWEST)}


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
    assert prove_plan(reading, original, forwarded, edits) is None
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
    assert prove_plan(reading, original, bytes_of(plan), edits) is not None


def a_source(relation: pb.Relation) -> None:
    relation.read.data_source.format = "parquet"
    relation.read.data_source.paths.append("/secret")


def a_function_over_rows(relation: pb.Relation) -> None:
    relation.map_partitions.func.python_udf.command = b"x"


def a_table_function(relation: pb.Relation) -> None:
    relation.common_inline_user_defined_table_function.python_udtf.command = b"x"


def a_source_of_code(relation: pb.Relation) -> None:
    relation.common_inline_user_defined_data_source.python_data_source.command = b"x"


def an_aggregator(relation: pb.Relation) -> None:
    aggregated = relation.aggregate.aggregate_expressions.add()
    aggregated.typed_aggregate_expression.scalar_scala_udf.payload = b"x"


def a_model(relation: pb.Relation) -> None:
    relation.ml_relation.fetch.obj_ref.id = "x"


def a_function_in_the_place_of_a_table(relation: pb.Relation) -> None:
    relation.unresolved_table_valued_function.function_name = "secret"


def a_call(relation: pb.Relation) -> None:
    relation.catalog.list_catalogs.SetInParent()


def a_kept_relation(relation: pb.Relation) -> None:
    relation.cached_remote_relation.relation_id = "x"


@pytest.mark.parametrize(
    "write",
    [
        a_source,
        a_function_over_rows,
        a_table_function,
        a_source_of_code,
        an_aggregator,
        a_model,
        a_function_in_the_place_of_a_table,
        a_call,
        a_kept_relation,
    ],
)
def test_what_is_written_reads_nothing_else_and_brings_no_code(write: Callable[[pb.Relation], None]) -> None:
    """Undone it is gone, so the first state does not tell of it."""
    reading, original, edits = guarded()
    write(plan_in(reading).root.filter.input.join.left.subquery_alias.input)
    assert prove_plan(reading, original, bytes_of(reading.message), edits) is not None
    assert bytes_of(reading.message) == original


def two_sources() -> tuple[PlanReading, bytes, Edits]:
    plan = pb.Plan()
    for side, path in ((plan.root.join.left, "/a"), (plan.root.join.right, "/b")):
        side.read.data_source.format = "parquet"
        side.read.data_source.paths.append(path)
    reading = read(plan.SerializeToString(deterministic=True))
    return reading, bytes_of(reading.message), Edits()


def test_sources_that_were_judged_go_on() -> None:
    reading, original, edits = two_sources()
    assert prove_plan(reading, original, bytes_of(reading.message), edits) is None


def test_a_source_is_not_written_into_another() -> None:
    reading, original, edits = two_sources()
    edits.remember(plan_in(reading).root.join.right)
    plan_in(reading).root.join.right.read.data_source.paths[0] = "/a"
    assert prove_plan(reading, original, bytes_of(reading.message), edits) is not None


def saving(plan: pb.Plan) -> None:
    plan.command.write_operation.input.range.end = 1
    plan.command.write_operation.table.table_name = "t"
    plan.command.write_operation.table.save_method = (
        pb.WriteOperation.SaveTable.TABLE_SAVE_METHOD_SAVE_AS_TABLE
    )


def writing(plan: pb.Plan) -> None:
    plan.command.write_operation_v2.input.range.end = 1
    plan.command.write_operation_v2.table_name = "t"
    plan.command.write_operation_v2.mode = pb.WriteOperationV2.MODE_APPEND


def merging(plan: pb.Plan) -> None:
    merge = plan.command.merge_into_table_command
    merge.source_table_plan.range.end = 1
    merge.target_table_name = "t"
    merge.merge_condition.literal.boolean = True


def streaming(plan: pb.Plan) -> None:
    start = plan.command.write_stream_operation_start
    start.input.range.end = 1
    start.table_name = "t"


def a_view(plan: pb.Plan) -> None:
    plan.command.create_dataframe_view.input.range.end = 1
    plan.command.create_dataframe_view.name = "t"


def dropping(plan: pb.Plan) -> None:
    plan.root.catalog.drop_table.table_name = "t"


def listing(plan: pb.Plan) -> None:
    plan.root.catalog.list_tables.db_name = "t"


@pytest.mark.parametrize("command", [saving, writing, merging, streaming, a_view, dropping, listing])
def test_a_target_is_what_was_written(command: Callable[[pb.Plan], None]) -> None:
    plan = pb.Plan()
    command(plan)
    reading = read(plan.SerializeToString(deterministic=True))
    original = bytes_of(reading.message)
    assert prove_plan(reading, original, original, Edits()) is not None
    edits = Edits()
    edits.targets.add("t")
    assert prove_plan(reading, original, original, edits) is None


LOOKED_AT = frozenset(
    {
        FieldRule.TABLE,
        FieldRule.SQL,
        FieldRule.TEXT,
        FieldRule.FORMAT,
        FieldRule.PATH,
        FieldRule.CODE,
        FieldRule.HANDLE,
    }
)
"""What in a message makes it one that reads data, or code."""


def looked_at(descriptor: Descriptor) -> bool:
    return descriptor.full_name in _COUNTED or _check(descriptor) is not None


def test_everything_in_a_relation_that_reads_data_or_is_code_is_looked_at() -> None:
    """The table of the walk says what does, and is asked here only: the proof has its own names of them."""
    seen: set[str] = set()
    pending = [descriptor_of(pb.Relation)]
    missing = []
    while pending:
        one = pending.pop()
        if one.full_name in seen or looked_at(one):
            continue  # what is within one that is looked at belongs to it
        seen.add(one.full_name)
        row = TABLE.get(short_name(one.full_name), {})
        if any(row[f.name] in LOOKED_AT for f in one.fields if f.type != f.TYPE_BOOL and f.name in row):
            missing.append(short_name(one.full_name))
        pending.extend(field.message_type for field in one.fields if field.message_type is not None)
    assert missing == ["DataType.UDT"], "a type, whose classes the walk knows by name"


def test_no_command_is_within_what_is_written() -> None:
    names = {each.full_name for each in message_types(pb.Relation, pb.Expression)}
    assert not names & {"spark.connect.Command", "spark.connect.Plan"}


def test_targets_that_are_not_looked_at_name_no_table() -> None:
    left = {
        f"{name}.{field}"
        for name, row in TABLE.items()
        for field, kind in row.items()
        if kind is FieldRule.TARGET and _check(TYPES[name]) is None
    }
    assert {place for place in left if place.endswith(("_name", "path"))} == {
        "DropGlobalTempView.view_name",
        "DropTempView.view_name",  # taken as it is
        "SetCurrentCatalog.catalog_name",
    }


def test_what_stands_aside_can_hold_nothing_that_is_looked_at() -> None:
    for name in _ASIDE:
        assert [each.full_name for each in message_types(CLASSES[name]) if looked_at(each)] == []


def test_what_is_written_too_deep_does_not_go_on() -> None:
    """A name of the user's own in a column's place is two messages deeper than what asks for it."""
    plan = pb.Plan()
    relation = plan.root
    for _ in range((MAX_DEPTH - 4) // 2):
        relation = relation.limit.input
    relation.project.input.range.end = 1
    relation.project.expressions.add().unresolved_function.function_name = "current_user"
    reading = read(plan.SerializeToString(deterministic=True))
    original, edits = bytes_of(reading.message), Edits()
    bind_identities(reading.message, "bob", frozenset(), edits)
    why = prove_plan(reading, original, bytes_of(reading.message), edits)
    assert why is not None
    assert str(MAX_DEPTH) in why
    assert bytes_of(reading.message) == original


def varint(number: int) -> bytes:
    return bytes([number]) if number < 0x80 else bytes([number & 0x7F | 0x80]) + varint(number >> 7)


def held(field: int, inside: bytes) -> bytes:
    """Return a message, or a string, as the value of a field."""
    return varint(field << 3 | 2) + varint(len(inside)) + inside


def named(table: bytes) -> bytes:
    """Return a `Relation` that reads a table."""
    return held(2, held(1, held(1, table)))


ENCODINGS = {
    "one name, and another after it": held(1, held(2, held(1, held(1, b"secret") + held(1, b"people")))),
    "one message, and another after it": held(1, named(b"secret")) + held(1, named(b"people")),
    "one case of a oneof, and another after it": held(
        1, held(10, held(1, b"TABLE secret")) + named(b"people")
    ),
    "a command, and a relation after it": held(2, held(1, held(2, b"TABLE secret")))
    + held(1, named(b"people")),
    "numbers that are longer than they need be": b"\x8a\x00"
    + bytes([len(named(b"people")) | 0x80])
    + b"\x00"
    + named(b"people"),
    "a field that says what it would say unset": held(1, named(b"people") + held(1, b"")),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_goes_on_is_what_was_read_however_it_was_encoded(encoding: str) -> None:
    """Spark gets the gateway's own bytes, in which every field stands once."""
    reading = read(ENCODINGS[encoding])
    assert [found.parts for found in reading.tables] == [("people",)]
    assert not reading.texts
    original, edits = bytes_of(reading.message), Edits()
    pin_read(reading.tables[0], "`c`.`d`.`people`", edits)
    forwarded = bytes_of(reading.message)
    assert b"secret" not in forwarded
    assert serialize(parse(pb.Plan, forwarded)) == forwarded
    assert prove_plan(reading, original, forwarded, edits) is None
    assert bytes_of(reading.message) == original == serialize(parse(pb.Plan, original))


def test_a_change_that_nobody_notes_down_does_not_go_on() -> None:
    reading, original, edits = guarded()
    plan_in(reading).root.filter.input.join.join_type = pb.Join.JOIN_TYPE_CROSS
    assert prove_plan(reading, original, bytes_of(reading.message), edits) is not None


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
    assert prove_plan(reading, original, forwarded, edits) is None
    assert bytes_of(reading.message) == original


def test_a_checkpoint_that_was_chosen_does_not_go_on() -> None:
    reading, original, edits = stream()
    assert prove_plan(reading, original, original, edits) is not None


def test_sql_within_a_plan_is_looked_at_too() -> None:
    reading = read(message(sql("SELECT 1")).SerializeToString(deterministic=True))
    original = bytes_of(reading.message)
    assert prove_plan(reading, original, original, Edits()) is not None
    edits = Edits()
    edits.queries.add("SELECT 1")
    assert prove_plan(reading, original, original, edits) is None


@pytest.mark.parametrize("name", ["Literal", "UnresolvedAttribute", "UnresolvedStar"])
def test_leaves_that_can_hold_nothing_are_not_looked_into(name: str) -> None:
    assert not _leads(getattr(pb.Expression, name).DESCRIPTOR)


@pytest.mark.parametrize("cls", [pb.Relation, pb.Expression, pb.Command, pb.SubqueryExpression, pb.Catalog])
def test_messages_that_can_hold_relations_are_looked_into(cls: Any) -> None:
    assert _leads(cls.DESCRIPTOR)
