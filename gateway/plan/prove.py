"""A second look at a plan that is about to be forwarded, by other means than the walk that judged it.

What was changed is undone, and the plan must have the bytes that it was judged with. The forwarded bytes are
read again: every table, view, database, text of SQL and target that they name must be one that was judged or
written, and what else reads data or is code must have been there before. In which messages such things can be
is derived from pyspark's descriptors, not from the table of the walk; a test compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from gateway.plan.classify import short_name
from gateway.plan.guard import Edits, bytes_of
from gateway.plan.reading import PlanReading
from gateway.wire.connect import Message, ProtobufError, descriptor_of, parse, pb

_SENSITIVE: Mapping[str, tuple[str, str]] = {
    "spark.connect.Read.NamedTable": ("names", "unparsed_identifier"),  # RULE (proof-tables)
    "spark.connect.RelationChanges": ("names", "unparsed_identifier"),  # RULE (proof-change-feeds)
    "spark.connect.SQL": ("queries", "query"),  # RULE (proof-texts)
    "spark.connect.Expression.ExpressionString": ("expressions", "expression"),  # RULE (proof-expressions)
    "spark.connect.DropView": ("targets", "view_name"),
    "spark.connect.CreateDataFrameViewCommand": ("targets", "name"),  # RULE (proof-view-names)
}
"""Message → what its text must be one of, and the field that holds it."""
_TARGETS = frozenset({"db_name", "table_name", "target_table_name"})
"""Fields of commands and catalog calls that name a table or database: written over what the client wrote."""
_FLOW = "spark.connect.ResolvedIdentifier"
"""Names a flow of a pipeline, and no table."""
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
        "spark.connect.UnresolvedTableValuedFunction",
    }
)
"""Messages that the walk judged where they stand; there may be none that was not there before."""
_UNCHANGED = frozenset({"spark.connect.Read.DataSource", "spark.connect.CachedRemoteRelation"})
"""Those of them in which nothing is ever written: each must say what one said before."""
_FORBIDDEN = frozenset({"google.protobuf.Any", "spark.connect.Plan.CompressedOperation"})
_ASIDE = frozenset({"spark.connect.RelationCommon", "spark.connect.ExpressionCommon"})
"""Where in the client's program something was written: no relation and no text of SQL can hide in them."""
_OLD_TEXT = "spark.connect.SqlCommand"
_STREAM = "spark.connect.WriteStreamOperationStart"

_Check = Callable[[Message, Edits], str | None]
"""Return why a message of the type that it is for may not go on, or None."""
_Fields = tuple[tuple[str, bool, bool, bool], ...]
"""Field, whether it is repeated, whether it is a map, whether it says if it is set."""


def prove_plan(reading: PlanReading, original: bytes, forwarded: bytes, edits: Edits) -> str | None:
    """Return why `forwarded` is not the plan that was judged with `edits` in it, or None.

    The reading's message is given its first state back.
    """
    edits.undo()
    if bytes_of(reading.message) != original:  # RULE (proof-unchanged)
        return "the rewritten plan, with its changes undone, is not the plan that was authorized"
    try:
        plan = parse(type(reading.message), forwarded)
    except ProtobufError as error:  # RULE (proof-too-deep)
        return error.why  # what is written can be deeper than that in whose place it stands
    added: Counter[tuple[str, bytes]] = Counter()
    for kind, message in _list_compared_messages(plan):
        why = kind.check(message, edits) if kind.check is not None else None
        if why is not None:
            return why
        if kind.counted:
            added[kind.key(message)] += 1
    if added:
        added.subtract(
            kind.key(message) for kind, message in _list_compared_messages(reading.message) if kind.counted
        )
    for (name, _), count in added.items():
        if count > 0:  # RULE (proof-no-other-reads)
            return f"the rewritten plan has a {short_name(name)} that was not authorized"
    return None


def _list_compared_messages(root: Message) -> Iterator[tuple[_CheckedType, Message]]:
    """Yield the messages that are looked at, each with what is."""
    pending = [root]
    while pending:
        message = pending.pop()
        kind = _KINDS[type(message)]
        if kind.sensitive:
            yield kind, message
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


class _CheckedType:
    """What is looked at in messages of one type."""

    __slots__ = ("check", "counted", "fields", "name", "oneof", "sensitive", "within")

    def __init__(self, cls: type[Message]) -> None:
        descriptor = descriptor_of(cls)
        self.name: str = descriptor.full_name
        self.check = _check(descriptor)
        self.counted = self.name in _COUNTED
        self.sensitive = self.check is not None or self.counted
        # The large oneofs are asked for their case; other fields one by one.
        large = [one for one in descriptor.oneofs if len(one.fields) > 8]
        self.oneof: str = large[0].name if large else ""
        leading = [f for f in descriptor.fields if f.message_type is not None and _leads(f.message_type)]
        inside = {f.name for f in leading if large and f.containing_oneof is large[0]}
        self.within = frozenset(inside)
        self.fields: _Fields = tuple(
            (f.name, f.is_repeated, _is_map(f), f.has_presence) for f in leading if f.name not in inside
        )

    def key(self, message: Message) -> tuple[str, bytes]:
        """Return by what a counted message is the same as another."""
        return self.name, bytes_of(message) if self.name in _UNCHANGED else b""  # RULE (proof-sources)


def _check(descriptor: Descriptor) -> _Check | None:
    name = descriptor.full_name
    if name in _FORBIDDEN:  # RULE (proof-unread)
        return lambda message, edits: "the rewritten plan has a part that cannot be read"
    if name == _OLD_TEXT:
        return cast("_Check", _old_text_check)  # RULE (proof-older-text)
    if name == _STREAM:
        return cast("_Check", _stream_check)
    if name in _SENSITIVE:
        kind, field = _SENSITIVE[name]
        return _text_check(kind, (descriptor.fields_by_name[field],))
    targets = tuple(field for field in descriptor.fields if field.name in _TARGETS)  # RULE (proof-targets)
    return _text_check("targets", targets) if targets and name != _FLOW else None


def _text_check(kind: str, fields: Sequence[FieldDescriptor]) -> _Check:
    named = tuple((field.name, field.has_presence) for field in fields)

    def check(message: Message, edits: Edits) -> str | None:
        known: set[str] = getattr(edits, kind)
        for name, present in named:
            if getattr(message, name) not in known and (not present or message.HasField(name)):
                return "the rewritten plan has a name that was not authorized"
        return None

    return check


def _old_text_check(message: pb.SqlCommand, edits: Edits) -> str | None:
    return "the rewritten plan has a text that was not authorized" if message.sql else None


def _stream_check(message: pb.WriteStreamOperationStart, edits: Edits) -> str | None:
    """INVARIANT (no chosen checkpoint): Spark reads files that a checkpoint names, whosever they are."""
    written = {value for key, value in message.options.items() if key.lower() == "checkpointlocation"}
    # RULE (proof-stream-targets)
    if message.HasField("table_name") and message.table_name not in edits.targets:
        return "the stream has a target that was not authorized"
    # RULE (proof-checkpoints)
    return None if written <= edits.checkpoints else "the stream has a checkpoint that was not authorized"


class _Kinds(dict[type[Message], _CheckedType]):
    """What is looked at in messages, by their class."""

    def __missing__(self, cls: type[Message]) -> _CheckedType:
        found = self[cls] = _CheckedType(cls)
        return found


_KINDS = _Kinds()
_LEADS: dict[str, bool] = {}


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _leads(descriptor: Descriptor) -> bool:
    """Whether a message of this type can hold anything that is looked at, at any depth."""
    known = _LEADS.get(descriptor.full_name)
    if known is None:
        seen: dict[str, Descriptor] = {}
        pending = [descriptor]
        while pending:
            one = pending.pop()
            if one.full_name not in seen:
                seen[one.full_name] = one
                pending.extend(f.message_type for f in one.fields if f.message_type is not None)
        looked_at = any(one.full_name in _COUNTED or _check(one) is not None for one in seen.values())
        known = descriptor.full_name not in _ASIDE and looked_at
        _LEADS[descriptor.full_name] = known
    return known
