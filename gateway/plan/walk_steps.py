"""The table and the readers, put together once for each message class: what the walk does with its fields."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.message_factory import GetMessageClass

from gateway.model.spark_minors import Minor
from gateway.plan import walk_commands, walk_relations
from gateway.plan.classify import OPTIONAL_ONEOFS, TABLE, FieldRule, RefusedField, short_name
from gateway.plan.classify_since import newer_than
from gateway.plan.walk_state import FIELD_READERS, MESSAGE_READERS, PlanWalk
from gateway.wire.connect import AnyFieldValue, Message, descriptor_of, pb

_READER_MODULES = (walk_relations, walk_commands)
"""Imported for their readers."""

_MessageReader = Callable[[PlanWalk, Message], None]
_FieldReader = Callable[[PlanWalk, Message, AnyFieldValue], None]

ROOTS = (pb.Plan, pb.AnalyzePlanRequest)


class Op(enum.IntEnum):
    """What the walk does with the value of a field."""

    NOTHING = 0
    ONE = 1
    """Walk the message."""
    MANY = 2
    """Walk the messages of a repeated field."""
    VALUES = 3
    """Walk the messages of a map."""
    NAME = 4
    NAMES = 5
    """Note the strings of a repeated field, or the keys of a map."""
    SCHEMA = 6
    CODES = 7
    """Check that the number is one of the enum's."""
    REFUSE = 8


@dataclass(frozen=True, slots=True)
class Step:
    """What the walk does with a field that is set."""

    op: Op
    bit: int = 0
    """The bit of the field's oneof, if one must be set."""
    reader: _FieldReader | None = None
    known: frozenset[int] = frozenset()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """What the walk does with a message."""

    name: str
    fields: dict[FieldDescriptor, tuple[int, int, _FieldReader | None, Step]]
    """By field descriptor: a step's op, bit and reader, and the step; a tuple is quicker to take apart.
    Every field of the message type is here."""
    required: int
    """The bits of all oneofs that must be set."""
    reader: _MessageReader | None
    plain: bool
    """Whether nothing is done with any field, so that they need not be listed."""


def message_types(*roots: type[Message]) -> Iterator[Descriptor]:
    """Yield the descriptors of the message types that `roots` can hold, and themselves; not maps' entries."""
    pending, seen = [descriptor_of(root) for root in roots], set()
    while pending:
        descriptor = pending.pop()
        if descriptor.full_name in seen:
            continue
        seen.add(descriptor.full_name)
        if not descriptor.GetOptions().map_entry:
            yield descriptor
        pending.extend(field.message_type for field in descriptor.fields if field.message_type is not None)


def real_oneofs(descriptor: Descriptor) -> list[OneofDescriptor]:
    """Return the oneofs of a message type; an `optional` field has one of its own, which is none of them."""
    return [o for o in descriptor.oneofs if not (len(o.fields) == 1 and o.name == f"_{o.fields[0].name}")]


def _steps(descriptor: Descriptor, minor: Minor) -> Steps:
    name = short_name(descriptor.full_name)
    bits: dict[str, int] = {}
    for oneof in real_oneofs(descriptor):
        if f"{name}.{oneof.name}" not in OPTIONAL_ONEOFS:
            bits[oneof.name] = 1 << len(bits)
    fields = {}
    for field in descriptor.fields:
        within = field.containing_oneof
        step = _step(name, field, bits.get(within.name, 0) if within is not None else 0, minor)
        fields[field] = (int(step.op), step.bit, step.reader, step)
    plain = not bits and all(op == Op.NOTHING and reader is None for op, _, reader, _ in fields.values())
    # A reader is registered under the name of the type that it reads.
    reader = cast("_MessageReader | None", MESSAGE_READERS.get(name))
    return Steps(name, fields, sum(bits.values()), reader, plain)


def _step(name: str, field: FieldDescriptor, bit: int, minor: Minor) -> Step:
    newer = newer_than(minor)
    since = newer.get(f"{name}.{field.name}")
    if since is not None:  # RULE (newer-than-spark)
        return Step(Op.REFUSE, why=f"{name}.{field.name} needs Spark {since}; this is Spark {minor}")
    kind = TABLE.get(name, {}).get(field.name)
    if kind is None:
        # RULE (field-without-row)
        return Step(Op.REFUSE, why=f"{name}.{field.name} is not supported yet")
    if isinstance(kind, RefusedField):
        return Step(Op.REFUSE, why=kind.why)
    reader = cast("_FieldReader | None", FIELD_READERS.get(f"{name}.{field.name}"))
    if field.enum_type is not None:
        enum_name = short_name(field.enum_type.full_name)
        known = (v.number for v in field.enum_type.values if f"{enum_name}={v.name}" not in newer)
        return Step(Op.CODES, bit, reader, frozenset(known))
    return Step(_op(kind, field), bit, reader)


def _op(kind: FieldRule, field: FieldDescriptor) -> Op:
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        if inner.fields_by_name["value"].message_type is not None:
            return Op.VALUES
        return Op.NAMES if kind is FieldRule.NAMES else Op.NOTHING
    if inner is not None:
        # Whatever else it is, its own fields have rows.
        return Op.MANY if field.is_repeated else Op.ONE
    if kind is FieldRule.NAMES:
        return Op.NAMES if field.is_repeated else Op.NAME
    return Op.SCHEMA if kind is FieldRule.SCHEMA else Op.NOTHING


@functools.cache
def steps_for(minor: Minor) -> Mapping[type[Message], Steps]:
    """Return what the walk does with each message class before a Spark of this minor."""
    return {GetMessageClass(each): _steps(each, minor) for each in message_types(*ROOTS)}
