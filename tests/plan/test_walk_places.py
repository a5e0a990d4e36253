"""Whatever stands at whatever place of a plan is found by the walk, or the plan is refused.

The places come from the descriptors: a field that a new Spark adds is a new test.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass

from gateway.model.handles import SparkHandle
from gateway.plan.classify import OPTIONAL_ONEOFS, FieldRule, RefusedField, short_name
from gateway.plan.reading import MalformedPlan, PlanReading
from gateway.plan.walk_steps import ROOTS, message_types, real_oneofs
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb
from tests.plan.building import (
    WAYS,
    Place,
    complete,
    enter,
    is_map,
    kind_of,
    message_at,
    outcome,
    places,
    set_scalar,
    value_type,
)

SECRET = "prod.hr.`secret pay`"
SECRET_PARTS = ("prod", "hr", "secret pay")
SUBQUERY = "(select max(pay) from hr.secret)"


def _places_of(*types: Any) -> list[Place]:
    wanted = {each.DESCRIPTOR for each in types}
    return [place for place in places() if value_type(place.field) in wanted]


def _named(place: Place) -> str:
    return place.name


def _is_refused_place(place: Place) -> bool:
    """Whether the table refuses the field, or one on every way to it."""
    _, way = WAYS[place.message.full_name]
    steps = [Place(field.containing_type, field) for field in (*way, place.field)]
    return any(isinstance(kind_of(step), RefusedField) for step in steps)


def _plant_table(relation: Any) -> None:
    relation.read.named_table.unparsed_identifier = SECRET


@pytest.mark.parametrize("place", _places_of(pb.Relation), ids=_named)
def test_a_table_is_found_wherever_a_relation_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    _plant_table(enter(message, place.field))
    complete(top)
    found = outcome(top)
    if _is_refused_place(place):
        assert isinstance(found, Unsupported)
    elif place.name == "SqlCommand.input":
        assert isinstance(found, Unsupported)  # Spark runs nothing but SQL text there
    else:
        assert isinstance(found, PlanReading), found
        assert [table.parts for table in found.tables] == [SECRET_PARTS]


@pytest.mark.parametrize("place", _places_of(pb.Relation), ids=_named)
def test_sql_text_is_found_wherever_a_relation_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    enter(message, place.field).sql.query = "select * from hr.secret"
    complete(top)
    found = outcome(top)
    if _is_refused_place(place):
        assert isinstance(found, Unsupported)
    else:
        assert isinstance(found, PlanReading), found
        assert [text.text for text in found.texts] == ["select * from hr.secret"]
        assert found.texts[0].command == (place.name == "SqlCommand.input")


@pytest.mark.parametrize("place", _places_of(pb.Expression), ids=_named)
def test_an_expression_text_is_found_wherever_an_expression_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    enter(message, place.field).expression_string.expression = SUBQUERY
    complete(top)
    found = outcome(top)
    if _is_refused_place(place):
        assert isinstance(found, Unsupported)
    else:
        assert isinstance(found, PlanReading), found
        assert [text.text for text in found.expressions] == [SUBQUERY]


@pytest.mark.parametrize("place", _places_of(pb.Expression), ids=_named)
def test_a_function_and_a_column_are_found_wherever_an_expression_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    function = enter(message, place.field).unresolved_function
    function.function_name = "reflect"
    function.arguments.add().unresolved_attribute.unparsed_identifier = "_metadata.`file path`"
    complete(top)
    found = outcome(top)
    if not _is_refused_place(place):
        assert isinstance(found, PlanReading), found
        assert ("reflect",) in [call.parts for call in found.functions]
        assert [column.parts for column in found.columns] == [("_metadata", "file path")]


def test_only_pipelines_refuse_places_for_relations_and_expressions() -> None:
    """Most places being refused would make the tests above true of nothing."""
    refused = {
        place.name.split(".")[0]
        for place in _places_of(pb.Relation, pb.Expression)
        if _is_refused_place(place)
    }
    assert refused == {"PipelineCommand"}
    assert len(_places_of(pb.Relation)) >= 70
    assert len(_places_of(pb.Expression)) >= 60


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.CODE], ids=_named)
def test_code_is_found_wherever_it_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    set_scalar(message, place.field, "evil")
    complete(top)
    found = outcome(top)
    if isinstance(found, PlanReading):
        harmless = place.name == "DataType.UDT.python_class"
        assert bool(found.code) != harmless
    else:
        assert isinstance(found, Unsupported)


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.PATH], ids=_named)
def test_a_path_is_found_wherever_it_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    set_scalar(message, place.field, "/secret")
    complete(top)
    found = outcome(top)
    assert isinstance(found, PlanReading), found
    assert [use.url for use in found.urls] == ["/secret"]


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.OPTIONS], ids=_named)
@pytest.mark.parametrize("key", ["path", "PATH", "paths", "dbtable", "avroSchemaUrl", "data_source"])
def test_an_option_that_points_at_other_data_is_found_or_refused(place: Place, key: str) -> None:
    top, message = message_at(place.message)
    getattr(message, place.field.name)[key] = "/secret"
    complete(top)
    found = outcome(top)
    if isinstance(found, PlanReading) and not found.code and not found.texts:
        changes = place.name == "RelationChanges.options"
        assert [use.url for use in found.urls] == ["/secret"] or changes


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.FORMAT], ids=_named)
@pytest.mark.parametrize("name", ["jdbc", "org.apache.spark.sql.jdbc", "binaryFile", "kafka", "memory"])
def test_a_format_that_is_not_known_to_be_harmless_is_refused(place: Place, name: str) -> None:
    top, message = message_at(place.message)
    setattr(message, place.field.name, name)
    complete(top)
    if (name, place.name) == ("memory", "WriteStreamOperationStart.format"):
        return  # a temporary view, which the command judges
    assert isinstance(outcome(top), Unsupported)


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.HANDLE], ids=_named)
def test_a_handle_is_found_wherever_it_may_stand(place: Place) -> None:
    top, message = message_at(place.message)
    set_scalar(message, place.field, "abc")
    complete(top)
    found = outcome(top)
    assert isinstance(found, PlanReading), found
    assert found.handles[0].handle in (SparkHandle("relation", "abc"), SparkHandle("query", "abc"))


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.NAMES], ids=_named)
def test_a_column_is_found_wherever_it_is_a_string(place: Place) -> None:
    top, message = message_at(place.message)
    if is_map(place.field):
        getattr(message, place.field.name)["salary"] = "x"
    else:
        set_scalar(message, place.field, "salary")
    complete(top)
    found = outcome(top)
    assert isinstance(found, PlanReading), found
    assert "salary" in found.names


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.SCHEMA], ids=_named)
@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"udt","class":"evil.Type","pyClass":null,"sqlType":"string"}',
        '{"type":"\\u0075dt","class":"evil.Type","pyClass":null,"sqlType":"string"}',
        '{"type":"struct","fields":[{"type":{"type":"array","elementType":{"class":"evil.T","type":"udt"}}}]}',
        '{"type":"struct","fields":[{"type":{"type":"udt","serializedClass":"gAS="}}]}',
        '{"type":"udt","class":"org.apache.spark.ml.linalg.VectorUDT","class":"evil.Type"}',
        ' {"type":"udt" "class":"evil.Type"}',
        "{\"CURRENT_DEFAULT\":\"reflect('java.lang.System', 'getenv')\"}",
        '{"EXISTS\\u005fDEFAULT":"f()"}',
        '{"type":"struct","fields":[{"name":"a","type":"int","metadata":{"GENERATION_EXPRESSION":"f()"}}]}',
        '{"delta.invariants":"{}"}',
    ],
)
def test_a_schema_that_names_a_class_or_holds_an_expression_is_refused(place: Place, schema: str) -> None:
    top, message = message_at(place.message)
    setattr(message, place.field.name, schema)
    complete(top)
    assert isinstance(outcome(top), Unsupported)


@pytest.mark.parametrize("place", [p for p in places() if kind_of(p) is FieldRule.SCHEMA], ids=_named)
@pytest.mark.parametrize(
    "schema",
    [
        "a int, b struct<c: string>",
        '{"type":"struct","fields":[{"name":"MY_DEFAULT","type":"string","metadata":{"comment":"\\n"}}]}',
        '{"type":"udt","class":"org.apache.spark.ml.linalg.VectorUDT","pyClass":"x","sqlType":"string"}',
        "{}",
        "",
    ],
)
def test_other_schemas_pass(place: Place, schema: str) -> None:
    top, message = message_at(place.message)
    setattr(message, place.field.name, schema)
    complete(top)
    if not _is_refused_place(place):
        assert isinstance(outcome(top), PlanReading)


@pytest.mark.parametrize("place", [p for p in places() if isinstance(kind_of(p), RefusedField)], ids=_named)
def test_a_refused_field_is_refused(place: Place) -> None:
    top, message = message_at(place.message)
    if value_type(place.field) is not None:
        enter(message, place.field)
    else:
        set_scalar(message, place.field)
    complete(top)
    if place.name == "Plan.compressed_operation":
        assert isinstance(
            outcome(top), MalformedPlan
        )  # an empty one; tests/plan/test_compressed.py has others
    else:
        assert isinstance(outcome(top), Unsupported)


TYPES = list(message_types(*ROOTS))


@pytest.mark.parametrize("descriptor", TYPES, ids=lambda each: short_name(each.full_name))
def test_an_unknown_field_is_found_in_every_message(descriptor: Any) -> None:
    top, message = message_at(descriptor)
    complete(top)
    message.MergeFromString(b"\xa2\xfa\x01\x01x")
    found = outcome(top)
    assert isinstance(found, Unsupported | MalformedPlan), found
    _, way = WAYS[descriptor.full_name]
    if not any(isinstance(kind_of(Place(field.containing_type, field)), RefusedField) for field in way):
        assert "4004" in (found.why)


@pytest.mark.parametrize("descriptor", TYPES, ids=lambda each: short_name(each.full_name))
def test_a_message_of_no_kind_is_refused(descriptor: Any) -> None:
    name = short_name(descriptor.full_name)
    for oneof in real_oneofs(descriptor):
        if f"{name}.{oneof.name}" in OPTIONAL_ONEOFS:
            continue
        top, message = message_at(descriptor)
        complete(top)
        message.ClearField(message.WhichOneof(oneof.name))
        assert not isinstance(outcome(top), PlanReading)


@pytest.mark.parametrize("place", [p for p in places() if p.field.enum_type is not None], ids=_named)
def test_an_unknown_number_of_an_enum_is_refused(place: Place) -> None:
    top, message = message_at(place.message)
    setattr(message, place.field.name, 4004)
    complete(top)
    found = outcome(top)
    assert not isinstance(found, PlanReading)


@pytest.mark.parametrize("descriptor", TYPES, ids=lambda each: short_name(each.full_name))
def test_every_message_with_every_field_set_is_read_or_refused(descriptor: Any) -> None:
    for text in ("x", "/x", "parquet", "a.b", ""):
        top, message = message_at(descriptor)
        for field in descriptor.fields:
            if value_type(field) is not None:
                enter(message, field)
            else:
                set_scalar(message, field, text)
        assert isinstance(outcome(top), PlanReading | MalformedPlan | Unsupported)
        complete(top)
        assert isinstance(outcome(top), PlanReading | MalformedPlan | Unsupported)


@pytest.mark.parametrize("seed", range(40))
def test_a_table_is_found_however_deep_and_wherever(seed: int) -> None:
    """Ways that are not the shortest: a random walk over the places down to the table."""
    rng = random.Random(seed)
    top = pb.Plan()
    message = top.root
    for _ in range(rng.randrange(3, 60)):
        inner = [
            field
            for field in message.DESCRIPTOR.fields
            if value_type(field) is not None
            and not isinstance(kind_of(Place(message.DESCRIPTOR, field)), RefusedField)
            and _leads_to_a_relation(value_type(field))
        ]
        if not inner:
            break
        message = enter(message, rng.choice(inner))
    while message.DESCRIPTOR is not pb.Relation.DESCRIPTOR:
        inner = [f for f in message.DESCRIPTOR.fields if _leads_to_a_relation(value_type(f))]
        message = enter(message, rng.choice(inner))
    _plant_table(message)
    complete(top)
    found = outcome(top)
    assert isinstance(found, PlanReading), found
    assert [table.parts for table in found.tables] == [SECRET_PARTS]


_REACHES: dict[str, bool] = {}


def _leads_to_a_relation(descriptor: Any) -> bool:
    if descriptor is None:
        return False
    known = _REACHES.get(descriptor.full_name)
    if known is None:
        reached = message_types(GetMessageClass(descriptor))
        known = any(each is pb.Relation.DESCRIPTOR for each in reached)
        _REACHES[descriptor.full_name] = known
    return known
