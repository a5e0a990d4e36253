"""Functions that are found by a message's name take that message: what mypy cannot see of the dispatch."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.plan import (
    analyse,
    catalog_calls,
    commands,
    guard,
    lowering,
    lowering_expressions,
    prove,
    rendering,
    rendering_expressions,
    walk,
    walk_steps,
)
from gateway.plan.classify import short_name
from gateway.plan.walk_state import FIELD_READERS, MESSAGE_READERS
from gateway.plan.walk_steps import message_types
from gateway.wire.connect import Message, descriptor_of, pb

TYPES = {short_name(each.full_name): each for each in message_types(*walk_steps.ROOTS)}
EXPRESSION, RELATION = descriptor_of(pb.Expression), descriptor_of(pb.Relation)
COMMAND, CATALOG = descriptor_of(pb.Command), descriptor_of(pb.Catalog)
ANALYSIS = descriptor_of(pb.AnalyzePlanRequest)

TABLES: Mapping[str, tuple[Descriptor, Mapping[str, Callable[..., object]]]] = {
    "commands": (COMMAND, commands.COMMANDS),
    "catalog calls": (CATALOG, catalog_calls.CALLS),
    "lowered relations": (RELATION, lowering.RELATIONS),
    "lowered expressions": (EXPRESSION, {k: r.make for k, r in lowering_expressions.EXPRESSIONS.items()}),
    "rendered expressions": (EXPRESSION, rendering_expressions._CASES),
}
"""What is called with the message of a case: whose cases, and the functions by them."""


def taken(function: Callable[..., object]) -> list[set[type[Message]]]:
    """Return the messages that the parameters of a function may be, for those that are messages."""
    found = []
    for name, written in function.__annotations__.items():
        if name == "return":
            continue
        hint = eval(written, function.__globals__)
        union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        kinds = typing.get_args(hint) if union else (hint,)
        if all(isinstance(kind, type) and issubclass(kind, Message) for kind in kinds):
            found.append(set(kinds))
    return found


def takes(function: Callable[..., object], *given: Descriptor | None) -> bool:
    """Whether the messages that a function takes can be those that it is given, in their order."""
    kinds = taken(function)
    return len(kinds) == len(given) and all(
        each is not None and (Message in some or each in [descriptor_of(kind) for kind in some])
        for some, each in zip(kinds, given, strict=True)
    )


def field_of(descriptor: Descriptor, name: str) -> FieldDescriptor:
    assert name in descriptor.fields_by_name, f"{descriptor.full_name} has no field {name}"
    return descriptor.fields_by_name[name]


def test_readers_of_messages_take_the_type_that_they_are_registered_for() -> None:
    assert [name for name, reader in MESSAGE_READERS.items() if not takes(reader, TYPES[name])] == []


def test_readers_of_fields_take_the_message_that_has_the_field_and_its_value() -> None:
    wrong = []
    for place, reader in FIELD_READERS.items():
        name, _, field = place.rpartition(".")
        if not takes(reader, TYPES[name], field_of(TYPES[name], field).message_type):
            wrong.append(place)
    assert wrong == []


@pytest.mark.parametrize("table", TABLES)
def test_what_is_called_by_a_case_takes_the_message_of_the_case(table: str) -> None:
    descriptor, functions = TABLES[table]
    wrong = [
        case
        for case, function in functions.items()
        if function.__name__ != "<lambda>" and not takes(function, field_of(descriptor, case).message_type)
    ]
    assert wrong == []


def test_what_is_rendered_by_the_type_of_a_message_takes_it() -> None:
    for kind, function in rendering._BY_TYPE.items():
        assert taken(function) in ([{kind}], [{Message}])


def test_templates_are_of_messages_that_are_there_and_place_fields_that_they_have() -> None:
    fields = {field.full_name for each in TYPES.values() for field in each.fields}
    for name in rendering.TEMPLATES:
        template = rendering._template(TYPES[name])
        assert template.fields - rendering.UNSAID <= set(TYPES[name].fields_by_name)
    assert {f"spark.connect.{name}" for name in rendering.TRUE_UNLESS_SAID} <= fields


def test_checks_of_the_proof_take_the_type_that_they_are_for() -> None:
    for name, each in TYPES.items():
        check = prove._check(each)
        if check is not None and check.__qualname__ in ("_old_text_check", "_stream_check"):
            assert takes(check, each), name


def named_fields() -> Iterator[tuple[Descriptor, str]]:
    """Yield the fields that tables of this room name as text, with the message that must have them."""
    for cases, table in (
        (RELATION, lowering.INPUTS),
        (COMMAND, {case: (name,) for case, name in analyse._COMMANDS.items()}),
        (ANALYSIS, analyse._ANALYSES),
        (ANALYSIS, walk._PLANS),
    ):
        for case, names in table.items():
            inner = field_of(cases, case).message_type
            assert inner is not None
            yield from ((inner, name) for name in names)
    for case, row in lowering_expressions.EXPRESSIONS.items():
        for path in row.fields:
            inner = field_of(EXPRESSION, case).message_type
            for name in path.split("."):
                assert inner is not None
                yield inner, name
                inner = field_of(inner, name).message_type
    for full_name, names in guard._OUTPUTS.items():
        yield from ((TYPES[short_name(full_name)], name) for name in names)
    for full_name, (_, name) in prove._SENSITIVE.items():
        yield TYPES[short_name(full_name)], name


def test_fields_that_are_named_as_text_are_there() -> None:
    fields = list(named_fields())
    assert len(fields) > 60
    for descriptor, name in fields:
        field_of(descriptor, name)


def test_messages_that_the_proof_names_are_there() -> None:
    named = {*prove._SENSITIVE, *prove._COUNTED, *prove._FORBIDDEN, *prove._ASIDE, prove._OLD_TEXT}
    assert {name for name in (*named, prove._STREAM) if short_name(name) not in TYPES} == set()


def test_the_check_itself_sees_another_message() -> None:
    """A fence that nobody has seen stop anything proves nothing."""
    assert takes(commands._write, descriptor_of(pb.WriteOperation))
    assert not takes(commands._write, descriptor_of(pb.WriteOperationV2))
    assert not takes(FIELD_READERS["Relation.read"], RELATION, RELATION)
    with pytest.raises(AssertionError, match="has no field inptu"):
        field_of(RELATION, "inptu")
