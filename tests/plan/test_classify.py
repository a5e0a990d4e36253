"""The table has a row for everything that the descriptors have, and for nothing else."""

from __future__ import annotations

from typing import Any, cast

import pytest
from google.protobuf.descriptor import FieldDescriptor

from gateway.model.spark_minors import NEWEST
from gateway.plan import walk_steps
from gateway.plan.classify import OPTIONAL_ONEOFS, TABLE, FieldRule, RefusedField, short_name
from gateway.plan.classify_fields import row
from gateway.plan.walk_state import FIELD_READERS, MESSAGE_READERS, READ
from gateway.plan.walk_steps import Op, message_types, real_oneofs
from gateway.wire.connect import METHODS, pb
from tests.plan.building import Place, is_map, kind_of, places, value_type

STEPS = walk_steps.steps_for(NEWEST)
TYPES = {short_name(each.full_name): each for each in message_types(*walk_steps.ROOTS)}
READ_BY_READERS = frozenset(
    {
        FieldRule.ROWS,
        FieldRule.COLUMN,
        FieldRule.TABLE,
        FieldRule.SQL,
        FieldRule.TEXT,
        FieldRule.FUNCTION,
        FieldRule.OPTIONS,
        FieldRule.FORMAT,
        FieldRule.PATH,
        FieldRule.CODE,
        FieldRule.HANDLE,
    }
)


def test_every_message_type_has_a_row_and_no_row_is_stale() -> None:
    assert set(TYPES) - set(TABLE) == set()
    assert set(TABLE) - set(TYPES) == set()


def test_every_field_and_every_case_is_classified_and_none_is_stale() -> None:
    fields = {f"{name}.{field.name}" for name, each in TYPES.items() for field in each.fields}
    rows = {f"{name}.{field}" for name, each in TABLE.items() for field in each}
    assert fields - rows == set()
    assert rows - fields == set()


def test_a_field_is_of_a_class_that_its_type_can_be() -> None:
    wrong = []
    for place in places():
        kind, field = kind_of(place), place.field
        inner = value_type(field)
        text = field.type == field.TYPE_STRING or is_map(field)
        fits = {
            FieldRule.WALK: inner is not None,
            FieldRule.PLAIN: inner is None,
            FieldRule.NAMES: inner is None and text,
            FieldRule.SCHEMA: field.type == field.TYPE_STRING and not field.is_repeated,
        }
        if isinstance(kind, FieldRule) and not fits.get(kind, True):
            wrong.append(place.name)
    assert wrong == []


def test_a_message_within_a_message_is_walked_whatever_else_it_is() -> None:
    """A class with a meaning of its own does not keep the messages below from being asked what they are."""
    for place in places():
        if value_type(place.field) is not None and not isinstance(kind_of(place), RefusedField):
            op, *_ = STEPS[_class(place.message)].fields[place.field]
            assert op in (Op.ONE, Op.MANY, Op.VALUES), place.name


def test_every_field_with_a_meaning_has_a_reader_and_no_reader_is_stale() -> None:
    meant = {place.name for place in places() if kind_of(place) in READ_BY_READERS}
    assert meant - READ == set()
    assert READ - meant == set()


def test_readers_are_registered_for_what_there_is() -> None:
    assert set(MESSAGE_READERS) - set(TYPES) == set()
    assert set(FIELD_READERS) - {place.name for place in places()} == set()


def test_oneofs_that_may_be_unset_are_there() -> None:
    oneofs = {f"{name}.{oneof.name}" for name, each in TYPES.items() for oneof in real_oneofs(each)}
    assert oneofs >= OPTIONAL_ONEOFS


REQUEST_EXTENSIONS = frozenset(
    {
        "ExecutePlanRequest.RequestOption.extension",
        "GetStatusRequest.extensions",
        "GetStatusRequest.OperationStatusRequest.extensions",
    }
)
"""Fields for plugins outside of plans: the session takes them, and the UserContext's, out of requests."""


def test_every_any_is_refused() -> None:
    """What a plugin of the server would make of it, nobody can say."""
    sites = {
        f"{short_name(each.full_name)}.{field.name}"
        for each in message_types(*(method.request for method in METHODS.values()))
        for field in each.fields
        if field.message_type is not None and field.message_type.full_name == "google.protobuf.Any"
    }
    refused = {place.name for place in places() if isinstance(kind_of(place), RefusedField)}
    assert len(sites) >= 12
    assert sites - refused == REQUEST_EXTENSIONS


def test_no_plan_is_within_a_plan() -> None:
    """So opening the compressed ones at the top opens them all."""
    assert not any(each is pb.Plan.DESCRIPTOR for each in message_types(pb.Relation, pb.Command))


def test_no_map_is_within_an_expression() -> None:
    """Which going through lambda functions relies on."""
    maps = [f.full_name for each in message_types(pb.Expression) for f in each.fields if is_map(f)]
    assert maps == []


def test_what_has_no_row_is_refused() -> None:
    """A fence that nobody has seen stop anything proves nothing."""
    step = walk_steps._step("Relation", cast("FieldDescriptor", _Unheard()), 0, NEWEST)
    assert step.op is Op.REFUSE
    assert "unheard_of" in step.why


def test_a_row_says_one_thing_of_a_field() -> None:
    with pytest.raises(ValueError, match="classified twice"):
        row(walk="input", plain="input")
    with pytest.raises(KeyError):
        row(anything="input")


class _Unheard:
    name = "unheard_of"
    enum_type = None
    message_type = None


def _class(descriptor: Any) -> Any:
    return next(each for each in STEPS if each.DESCRIPTOR is descriptor)


def test_places_are_all_fields() -> None:
    assert len(list(places())) == sum(len(row) for row in TABLE.values())
    assert all(isinstance(place, Place) for place in places())
