"""Messages built from the descriptors: at every place that a plan has, whatever a test wants to put there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from gateway.model.statement import PlanRequest
from gateway.plan.classify import OPTIONAL_ONEOFS, TABLE, FieldRule, RefusedField, short_name
from gateway.plan.reading import MalformedPlan, PlanReading
from gateway.plan.walk import read_plan
from gateway.plan.walk_steps import ROOTS, message_types, real_oneofs
from gateway.sql.required import Unsupported
from gateway.wire.connect import pb, serialize

Descriptor = Any
FieldDescriptor = Any
_NO_ROW = RefusedField("no row of the table has it")


class Place(NamedTuple):
    """A field of a message type."""

    message: Descriptor
    field: FieldDescriptor

    @property
    def name(self) -> str:
        return f"{short_name(self.message.full_name)}.{self.field.name}"


def places() -> Iterator[Place]:
    """Yield every field of every message type that a plan or a request to analyse can hold."""
    for descriptor in message_types(*ROOTS):
        for field in descriptor.fields:
            yield Place(descriptor, field)


def kind_of(place: Place) -> FieldRule | RefusedField:
    """Return what a field is; one that no row has is refused, as the walk does."""
    return TABLE.get(short_name(place.message.full_name), {}).get(place.field.name, _NO_ROW)


def value_type(field: FieldDescriptor) -> Descriptor | None:
    """Return the message type of a field's values, those of a map's included."""
    inner = field.message_type
    if inner is not None and inner.GetOptions().map_entry:
        return inner.fields_by_name["value"].message_type
    return inner


def is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _ways() -> dict[str, tuple[Any, tuple[FieldDescriptor, ...]]]:
    """Return a shortest way from a root to each message type; a refused field is a detour of last resort."""
    ways: dict[str, tuple[Any, tuple[FieldDescriptor, ...]]] = {}
    later: list[tuple[Any, Descriptor, tuple[FieldDescriptor, ...]]] = []
    pending: deque[tuple[Any, Descriptor, tuple[FieldDescriptor, ...]]] = deque(
        (root, root.DESCRIPTOR, ()) for root in ROOTS
    )
    while pending or later:
        if not pending:
            pending.extend(later)
            later.clear()
        root, descriptor, way = pending.popleft()
        if descriptor.full_name in ways:
            continue
        ways[descriptor.full_name] = (root, way)
        for field in descriptor.fields:
            inner = value_type(field)
            if inner is not None:
                refused = isinstance(kind_of(Place(descriptor, field)), RefusedField)
                (later if refused else pending).append((root, inner, (*way, field)))
    return ways


WAYS = _ways()


def message_at(descriptor: Descriptor) -> tuple[Any, Any]:
    """Return a root message and, within it, an empty message of the type."""
    root, way = WAYS[descriptor.full_name]
    message = top = root()
    for field in way:
        message = enter(message, field)
    return top, message


def enter(message: Any, field: FieldDescriptor) -> Any:
    """Return the message that the field has now, or the one that was added to it."""
    value = getattr(message, field.name)
    if is_map(field):
        return value["k"]
    if field.is_repeated:
        return value.add()
    value.SetInParent()
    return value


def complete(top: Any) -> None:
    """Choose a case where one must be and a name where one is needed: only the test's matter shall count."""
    pending = [top]
    while pending:
        message = pending.pop()
        name = short_name(message.DESCRIPTOR.full_name)
        for field_name, text in _NEEDED.get(name, {}).items():
            if not getattr(message, field_name):
                setattr(message, field_name, text)
        if name == "Expression.LambdaFunction" and not message.arguments:
            message.arguments.add().name_parts.append("x")
        for oneof in real_oneofs(message.DESCRIPTOR):
            if f"{name}.{oneof.name}" in OPTIONAL_ONEOFS or message.WhichOneof(oneof.name) is not None:
                continue
            _choose(message, oneof)
        for field, value in message.ListFields():
            if value_type(field) is None:
                continue
            if is_map(field):
                pending.extend(value.values())
            elif field.is_repeated:
                pending.extend(value)
            else:
                pending.append(value)


_CHOICES = {
    "Relation.rel_type": "range",
    "Expression.expr_type": "literal",
    "Expression.Literal.literal_type": "integer",
}


_NEEDED = {
    "CallFunction": {"function_name": "f"},
    "Read.NamedTable": {"unparsed_identifier": "t"},
    "RelationChanges": {"unparsed_identifier": "t"},
    "MlCommand.Read": {"path": "/model"},
}
"""Names without which a message cannot be read."""


def _choose(message: Any, oneof: Any) -> None:
    name = short_name(message.DESCRIPTOR.full_name)
    field = oneof.containing_type.fields_by_name[_CHOICES.get(f"{name}.{oneof.name}", oneof.fields[0].name)]
    if field.message_type is not None:
        getattr(message, field.name).SetInParent()
    else:
        set_scalar(message, field)


def set_scalar(message: Any, field: FieldDescriptor, text: str = "x") -> None:
    """Give a field without messages a value that is not its default."""
    value: Any
    if is_map(field):
        getattr(message, field.name)["k"] = text
        return
    if field.enum_type is not None:
        value = field.enum_type.values[-1].number
    elif field.type in (field.TYPE_STRING,):
        value = text
    elif field.type == field.TYPE_BYTES:
        value = text.encode()
    elif field.type == field.TYPE_BOOL:
        value = True
    else:
        value = 1
    if field.is_repeated:
        getattr(message, field.name).append(value)
    else:
        setattr(message, field.name, value)


def outcome(top: Any) -> PlanReading | MalformedPlan | Unsupported:
    """Return what the walk says of a root message."""
    kind = "execute" if isinstance(top, pb.Plan) else "analyze"
    return read_plan(PlanRequest(kind="execute" if kind == "execute" else "analyze", message=serialize(top)))
