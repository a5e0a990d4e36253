"""What of a plan its lineage is made of: its operations, without rows, code and options of the client's."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from gateway.plan.compressed import open_plan
from gateway.wire.connect import AnyFieldValue, Message, ProtobufError, parse_again, pb, serialize
from gateway.wire.local_data import without_rows

MAX_MESSAGES = 20_000
"""Messages of a plan that are gone through while its client waits, about four microseconds each."""
_PLAIN, _BYTES, _ONE, _MANY, _VALUES, _PAIRS = range(6)
_NAMES = "rename_columns_map"
"""A map whose words are names of columns; all others have words of data sources."""
_UNUSED = 500_000_000
"""The number of a field that is in no message."""
_steps: dict[FieldDescriptor, int] = {}


def strip_plan(plan: bytes) -> bytes | None:
    """Return a serialized `Plan` that reads, computes and writes the same columns, with nothing in it that is
    no business of a record: of local data only the schema, no code and no other bytes, and of options only
    paths. None where there is too much to be gone through. Compressed plans are opened.

    `plan` has been read before. Raises ProtobufError for bytes that are no plan.
    """
    if _has_nothing(plan):
        return plan
    message = parse_again(pb.Plan, plan)
    open_plan(message)
    return serialize(message) if _strip(message) else None


def _has_nothing(plan: bytes) -> bool:
    """Whether a plan has nothing that is taken out, as most have: the codec finds that out by itself, a
    hundred times as fast as a walk."""
    try:
        return parse_again(_WITHOUT, plan).IsInitialized()
    except ProtobufError:
        return False


def _strip(plan: pb.Plan) -> bool:
    """Take out what is no business of a record; return whether that was all gone through."""
    pending: list[Message] = [plan]
    count = 0
    while pending:
        one = pending.pop()
        count += 1
        if count > MAX_MESSAGES:
            return False
        for field, value in one.ListFields():
            step = _steps.get(field)
            if step is None:
                step = _steps[field] = _step(field)
            if step == _ONE:
                pending.append(value)
            elif step == _MANY:
                pending += value
            elif step == _VALUES:
                pending += value.values()
            elif step == _BYTES:
                setattr(one, field.name, _schema(one, value))
            elif step == _PAIRS:
                _keep_paths(value)
    return True


def _step(field: FieldDescriptor) -> int:
    kind = field.message_type
    if kind is None:
        return _BYTES if field.type == FieldDescriptor.TYPE_BYTES else _PLAIN
    if not kind.GetOptions().map_entry:
        return _MANY if field.is_repeated else _ONE
    if kind.fields_by_name["value"].message_type is not None:
        return _VALUES
    return _PLAIN if field.name == _NAMES else _PAIRS


def _schema(message: Message, data: bytes) -> bytes:
    if not isinstance(message, pb.LocalRelation):
        return b""
    try:
        return without_rows(data)
    except ProtobufError:
        return b""


def _keep_paths(options: AnyFieldValue) -> None:
    for key in [key for key in options if key.lower() != "path"]:
        del options[key]


# ---------------------------------------------------------------- plans without those fields

_NONE = "sluice.None"
"""A message that lacks a field that it requires: what has one in it is not initialized, at any depth."""


def _plan_without() -> type[Message]:
    """Return a class `Plan` that is initialized where there are neither bytes nor options in it."""
    pool = DescriptorPool()
    none = FileDescriptorProto(name="none.proto", package="sluice", syntax="proto2")
    field = none.message_type.add(name="None").field.add(name="none", number=_UNUSED)
    field.type, field.label = FieldDescriptorProto.TYPE_BOOL, FieldDescriptorProto.LABEL_REQUIRED
    pool.Add(none)
    for file in _with_dependencies(pb.Plan.DESCRIPTOR.file, set()):
        proto = FileDescriptorProto()
        file.CopyToProto(proto)
        proto.dependency.append(none.name)
        for message in proto.message_type:
            _require_none(message)
        pool.Add(proto)
    return GetMessageClass(pool.FindMessageTypeByName(pb.Plan.DESCRIPTOR.full_name))


def _with_dependencies(file: FileDescriptor, seen: set[str]) -> Iterator[FileDescriptor]:
    if file.name not in seen:
        seen.add(file.name)
        for other in file.dependencies:
            yield from _with_dependencies(other, seen)
        yield file


def _require_none(message: DescriptorProto) -> None:
    maps = {
        entry.name: entry
        for entry in message.nested_type
        if entry.options.map_entry and entry.field[1].type != FieldDescriptorProto.TYPE_MESSAGE
    }
    for field in message.field:
        entry = maps.get(field.type_name.rpartition(".")[2]) if field.name != _NAMES else None
        if entry is not None:
            message.nested_type.remove(entry)
        if entry is not None or field.type == FieldDescriptorProto.TYPE_BYTES:
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_NONE}"
            field.ClearField("default_value")
    for nested in message.nested_type:
        _require_none(nested)


_WITHOUT = _plan_without()
