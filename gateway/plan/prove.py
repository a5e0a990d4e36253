"""A second look at a plan that is about to be forwarded, by other means than the walk that judged it.

The forwarded bytes are read again, and everything in them that names or reads data must be what was judged
and written. Which messages can hold such a thing is derived from pyspark's descriptors, not from the table of
the walk. What was changed is then undone, and the plan must have the bytes that it was judged with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.plan.guard import Edits, bytes_of
from gateway.plan.reading import PlanReading
from gateway.wire.connect import Message, descriptor_of, parse, pb

_SENSITIVE: Mapping[str, tuple[str, str]] = {
    "spark.connect.Read.NamedTable": ("names", "unparsed_identifier"),
    "spark.connect.RelationChanges": ("names", "unparsed_identifier"),
    "spark.connect.SQL": ("queries", "query"),
    "spark.connect.Expression.ExpressionString": ("expressions", "expression"),
}
"""Message → what its text must be one of, and the field that holds it."""
_COUNTED = frozenset(
    {
        "spark.connect.Catalog",
        "spark.connect.Read.DataSource",
        "spark.connect.CachedRemoteRelation",
        "spark.connect.CommonInlineUserDefinedFunction",
        "spark.connect.CommonInlineUserDefinedTableFunction",
        "spark.connect.CommonInlineUserDefinedDataSource",
        "spark.connect.TypedAggregateExpression",
        "spark.connect.MlRelation",
    }
)
"""Messages that the walk judged where they stand; there may be none that was not there before."""
_FORBIDDEN = frozenset({"google.protobuf.Any", "spark.connect.Plan.CompressedOperation"})
_ASIDE = frozenset({"spark.connect.RelationCommon", "spark.connect.ExpressionCommon"})
"""Where in the client's program something was written: no relation and no text of SQL can hide in them."""
_OLD_TEXT = "spark.connect.SqlCommand"
_STREAM = "spark.connect.WriteStreamOperationStart"

_Check = Callable[[Message, Edits], str | None]
"""Return why a message of the type that it is for may not go on, or None."""
_Fields = tuple[tuple[str, bool, bool, bool], ...]
"""Field, whether it is repeated, whether it is a map, whether it says if it is set."""


def proved(reading: PlanReading, original: bytes, forwarded: bytes, edits: Edits) -> str | None:
    """Return why `forwarded` is not the plan that was judged with `edits` in it, or None.

    The reading's message is given its first state back.
    """
    why = _look(parse(type(reading.message), forwarded), reading, edits)
    if why is not None:
        return why
    edits.undo()
    if bytes_of(reading.message) != original:
        return "the plan without what was written into it is not the plan that was judged"
    return None


def _look(root: Message, reading: PlanReading, edits: Edits) -> str | None:
    seen: Counter[str] = Counter()
    pending = [root]
    while pending:
        message = pending.pop()
        kind = _KINDS[type(message)]
        if kind.sensitive:
            why = kind.check(message, edits) if kind.check is not None else None
            if why is not None:
                return why
            seen[kind.name] += 1
        if kind.oneof:
            case = message.WhichOneof(kind.oneof)
            if case in kind.within:
                pending.append(getattr(message, case))
        for name, repeated, mapped, present in kind.fields:
            if repeated:
                held = getattr(message, name)
                if held:
                    pending += held.values() if mapped else held[:]
            elif not present or message.HasField(name):
                pending.append(getattr(message, name))
    if seen["spark.connect.Catalog"] > len(reading.catalog_calls):
        return "the plan has a catalog call that was not judged"
    if seen["spark.connect.CachedRemoteRelation"] > len(reading.handles):
        return "the plan has a handle that was not judged"
    return None


class _Kind:
    """What is looked at in messages of one type."""

    __slots__ = ("check", "fields", "name", "oneof", "sensitive", "within")

    def __init__(self, cls: type[Message]) -> None:
        descriptor = descriptor_of(cls)
        self.name: str = descriptor.full_name
        self.check = _check(self.name)
        self.sensitive = self.check is not None or self.name in _COUNTED
        # The large oneofs are asked for their case; other fields one by one.
        large = [one for one in descriptor.oneofs if len(one.fields) > 8]
        self.oneof: str = large[0].name if large else ""
        leading = [f for f in descriptor.fields if f.message_type is not None and _leads(f.message_type)]
        inside = {f.name for f in leading if large and f.containing_oneof is large[0]}
        self.within = frozenset(inside)
        self.fields: _Fields = tuple(
            (f.name, f.is_repeated, _is_map(f), f.has_presence) for f in leading if f.name not in inside
        )


def _check(name: str) -> _Check | None:
    if name in _FORBIDDEN:
        return lambda message, edits: "the plan holds what cannot be read"
    if name == _OLD_TEXT:
        return cast("_Check", _old_text_check)
    if name == _STREAM:
        return cast("_Check", _stream_check)
    if name not in _SENSITIVE:
        return None
    kind, field = _SENSITIVE[name]

    def check(message: Message, edits: Edits) -> str | None:
        known: set[str] = getattr(edits, kind)
        return None if getattr(message, field) in known else "the plan names what was not judged"

    return check


def _old_text_check(message: pb.SqlCommand, edits: Edits) -> str | None:
    return "the plan has a text that was not judged" if message.sql else None


def _stream_check(message: pb.WriteStreamOperationStart, edits: Edits) -> str | None:
    """INVARIANT (no chosen checkpoint): Spark reads files that a checkpoint names, whosever they are."""
    written = {value for key, value in message.options.items() if key.lower() == "checkpointlocation"}
    return None if written <= edits.checkpoints else "the stream has a checkpoint that was not judged"


class _Kinds(dict[type[Message], _Kind]):
    """What is looked at in messages, by their class."""

    def __missing__(self, cls: type[Message]) -> _Kind:
        found = self[cls] = _Kind(cls)
        return found


_KINDS = _Kinds()
_LEADS: dict[str, bool] = {}


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _leads(descriptor: Descriptor) -> bool:
    """Whether a message of this type can hold anything that is looked at, at any depth."""
    known = _LEADS.get(descriptor.full_name)
    if known is None:
        seen: set[str] = set()
        pending = [descriptor]
        while pending:
            one = pending.pop()
            if one.full_name not in seen:
                seen.add(one.full_name)
                pending.extend(f.message_type for f in one.fields if f.message_type is not None)
        wanted = {*_SENSITIVE, *_COUNTED, "spark.connect.Plan.CompressedOperation", _OLD_TEXT, _STREAM}
        known = descriptor.full_name in _FORBIDDEN or (
            descriptor.full_name not in _ASIDE and not wanted.isdisjoint(seen)
        )
        _LEADS[descriptor.full_name] = known
    return known
