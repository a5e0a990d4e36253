"""Relation → guarded relation within a plan, in place, and each change with what undoes it.

A guarded relation is a `SubqueryAlias` by the table's name over the same query that stands in for the table
in SQL text: one spelling for both. The outermost node keeps `common`, because the client's `df["c"]` looks
for its plan_id; the alias on top keeps the analyzer from pulling hidden columns through. A read without
obligations keeps its place and gets its full name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.model.catalog import Table, quote_parts
from gateway.plan.reading import FunctionCall, TableRead
from gateway.plan.scope import NamePin
from gateway.plan.walk_sources import TABLE_OPTIONS
from gateway.policy.sqltext import write_string_literal
from gateway.sql.functions import builtin_name
from gateway.sql.guard import list_name_parts
from gateway.sql.identity import IDENTITIES
from gateway.sql.required import Unsupported
from gateway.wire.connect import Message, pb, serialize
from gateway.wire.connect_calls import sql_plan

_CALLS = frozenset({"unresolved_function", "call_function"})
_OUTPUTS: Mapping[str, tuple[str, ...]] = {
    "spark.connect.Project": ("expressions",),
    "spark.connect.Aggregate": ("grouping_expressions", "aggregate_expressions"),
}
"""Fields whose expressions are columns that Spark names, where the client did not."""


@dataclass(slots=True)
class Edits:
    """What was changed in a plan. INVARIANT (undo): undone, the plan has its first bytes again."""

    relations: list[tuple[Message, Message]] = field(default_factory=list)
    """(message, a copy of what it was), in the order of change."""
    fields: list[tuple[Message, str, str | None]] = field(default_factory=list)
    """(message, field, what it was); None: it was not set."""
    queries: set[str] = field(default_factory=set)
    """SQL that was written: guarded queries and judged texts."""
    names: set[str] = field(default_factory=set)
    """Names of relations that were written or left."""
    targets: set[str] = field(default_factory=set)
    """Names that commands and catalog calls were given."""
    expressions: set[str] = field(default_factory=set)
    """Expression texts that were judged, as they are forwarded."""
    options: list[tuple[pb.WriteStreamOperationStart, str, str]] = field(default_factory=list)
    """(start of a stream, key, what it was)."""
    checkpoints: set[str] = field(default_factory=set)
    """Locations of checkpoints that were written."""

    @property
    def changed(self) -> bool:
        return bool(self.relations or self.fields or self.options)

    def remember(self, message: Message) -> None:
        """Remember a message as it is, before it becomes another."""
        copy = type(message)()
        copy.CopyFrom(message)
        self.relations.append((message, copy))

    def write(self, message: Message, name: str, text: str | None) -> None:
        """Write a string field, or clear it with None."""
        present = _has(message, name)
        old = getattr(message, name) if present else None
        if old == text:
            return
        self.fields.append((message, name, old))
        _set(message, name, text)

    def place_checkpoint(self, start: pb.WriteStreamOperationStart, key: str, url: str) -> None:
        """Write where a stream's checkpoint is over the location that the user chose under `key`."""
        self.options.append((start, key, start.options[key]))
        start.options[key] = url
        self.checkpoints.add(url)

    def pin(self, pins: Iterable[NamePin]) -> None:
        for pin in pins:
            self.write(pin.message, pin.field, pin.text)
            if pin.text is not None:
                self.targets.add(pin.text)

    def undo(self) -> None:
        """Give the plan its first bytes again."""
        for start, key, value in reversed(self.options):
            start.options[key] = value
        for message, name, old in reversed(self.fields):
            _set(message, name, old)
        for message, copy in reversed(self.relations):
            message.CopyFrom(copy)


def _has(message: Message, name: str) -> bool:
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    return bool(message.HasField(name)) if descriptor.has_presence else bool(getattr(message, name))


def _set(message: Message, name: str, text: str | None) -> None:
    if text is None:
        message.ClearField(name)
    else:
        setattr(message, name, text)


def read_suffix(read: TableRead) -> str | Unsupported:
    """Write the options of a read as SQL has them after the name; refuse those that lead elsewhere."""
    if not read.options:
        return ""
    pairs = []
    for key, value in read.options:
        if key.lower() not in TABLE_OPTIONS:  # RULE (guard-options)
            return Unsupported(
                f"the option `{key}` on `{'.'.join(read.parts)}` could redirect the read to other data and "
                "is not supported"
            )
        word = write_string_literal(value)
        if word is None or not word.startswith("'"):  # RULE (guard-literals)
            return Unsupported(f"the value of the option `{key}` cannot be written in SQL")
        pairs.append(f"{write_string_literal(key)} = {word}")
    return f"WITH ({', '.join(pairs)})"


def guard_read(read: TableRead, table: Table, query: str, edits: Edits) -> None:
    """Put a guarded query in the place of a read."""
    edits.remember(read.relation)
    alias = read.relation.subquery_alias
    alias.alias = table.name.table  # RULE (guard-keeps-name)
    alias.qualifier.extend(table.name.parts[:-1])
    alias.input.sql.query = query
    edits.queries.add(query)


def pin_read(read: TableRead, text: str, edits: Edits) -> None:
    """Write the full name of a table that is read as it is, or a temporary view's name in quotes."""
    held = read.relation.relation_changes if read.changes else read.relation.read.named_table
    edits.write(held, "unparsed_identifier", text)
    edits.names.add(text)


def full_name(table: Table) -> str:
    return quote_parts(list_name_parts(table))


def is_identity(call: FunctionCall) -> bool:
    """Whether a call asks who the user is."""
    if call.table_valued or call.parts[-1].lower() not in IDENTITIES:
        return False  # as nearly all are
    return builtin_name(call.parts) in IDENTITIES


def bind_identities(root: Message, user: str, words: frozenset[int], edits: Edits) -> None:
    """Make everything that asks who the user is a literal of the principal's name: calls, and of the words
    without brackets those whose messages are `words`, by identity.

    A column that Spark would name after the function keeps that name.
    """
    for expression, output in _identity_calls(root, words):
        case = expression.WhichOneof("expr_type") or ""
        held = getattr(expression, case)
        # Spark's own name: a word without brackets is shown as the function that it stands for.
        name = held.function_name if case in _CALLS else "current_user"
        edits.remember(expression)
        if output:
            bare = name.replace("`", "").rsplit(".", 1)[-1]
            expression.alias.expr.literal.string = user
            expression.alias.name.append(f"{bare}()")
        else:
            expression.literal.string = user


def _identity_calls(root: Message, words: frozenset[int]) -> list[tuple[pb.Expression, bool]]:
    found: list[tuple[pb.Expression, bool]] = []
    pending: list[tuple[Message, bool]] = [(root, False)]
    while pending:
        message, output = pending.pop()
        if isinstance(message, pb.Expression):
            case = message.WhichOneof("expr_type")
            if case in ("unresolved_attribute", "unresolved_regex") and id(getattr(message, case)) in words:
                found.append((message, output))
                continue
            if case in _CALLS:
                call = getattr(message, case)
                parts = tuple(call.function_name.replace("`", "").strip().split("."))
                if builtin_name(parts) in IDENTITIES and not call.arguments:
                    found.append((message, output))
                    continue
        outputs = _OUTPUTS.get(message.DESCRIPTOR.full_name, ())
        for descriptor, value in message.ListFields():
            if descriptor.message_type is None:
                continue
            if descriptor.message_type.GetOptions().map_entry:
                if descriptor.message_type.fields_by_name["value"].message_type is not None:
                    pending.extend((value[key], False) for key in value)
            elif descriptor.is_repeated:
                pending.extend((item, descriptor.name in outputs) for item in value)
            else:
                pending.append((value, False))
    return found


plan_of = sql_plan
"""For a room that may not import `wire`."""


def bytes_of(message: Message) -> bytes:
    """Return the same bytes for the same plan, whatever the order of its maps."""
    return serialize(message)
