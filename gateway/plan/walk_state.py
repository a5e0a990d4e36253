"""What a walk has found so far, and how the functions that read messages are registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never, TypeVar

from gateway.plan.reading import PlanReading
from gateway.sql.required import Unsupported
from gateway.sql.scope import CannotClassify
from gateway.wire.connect import Message, pb, serialize


class PlanWalk:
    """A walk under way. Messages are compared by identity: one that is held here keeps its Python object."""

    __slots__ = ("bound", "command", "declared", "reading", "references", "registered", "root")

    def __init__(self, reading: PlanReading) -> None:
        self.reading = reading
        self.root: pb.Relation | None = None
        """The relation that is the whole plan to execute."""
        self.command: pb.Relation | None = None
        """The relation whose SQL text a SqlCommand executes."""
        self.registered: Message | None = None
        """The function, table function or data source that the command registers."""
        self.bound: dict[int, tuple[pb.Relation, frozenset[str]]] = {}
        """By id of a relation: itself, and the names that references bind in its SQL text."""
        self.references: dict[int | str, Message] = {}
        """By an id that subqueries refer to, the relation; by a name that references bind in a SQL text, the
        WithRelations that has them."""
        self.declared: dict[int, Message] = {}
        """By their ids, the lambda functions that were gone through, and the variables that they declare."""

    def bind(self, key: int | str, message: Message) -> None:
        """Note what an id or a name refers to.

        Spark looks for it in the WithRelations around, and the passes behind in one place for the whole plan:
        it has to be the same everywhere. So a DataFrame may be used twice, and two may not be taken for one.
        Raises CannotClassify.
        """
        other = self.references.setdefault(key, message)
        if other is message:
            return
        self.reading.references_plan_ids = True  # what is within has ids, too
        if serialize(other) != serialize(message):
            what = f"the name `{key}`" if isinstance(key, str) else f"the id {key}"
            raise refuse(f"{what} is bound by two DataFrames of the plan")


MessageReader = Callable[[PlanWalk, Never], None]
"""Called for every message of a type, and with no other; a test compares the two."""
FieldReader = Callable[[PlanWalk, Never, Never], None]
"""Called for a field that is set, with the message that has it and its value, before that is walked."""

MESSAGE_READERS: dict[str, MessageReader] = {}
FIELD_READERS: dict[str, FieldReader] = {}
READ: set[str] = set()
"""The fields, as `Type.field`, that a reader answers for: all those of the table that have a meaning."""

_M = TypeVar("_M", bound=MessageReader)
_F = TypeVar("_F", bound=FieldReader)


def reads_message(message_type: str, *fields: str) -> Callable[[_M], _M]:
    """Register the reader of a message type, which answers for `fields`."""

    def register(reader: _M) -> _M:
        MESSAGE_READERS[message_type] = reader
        READ.update(fields)
        return reader

    return register


def reads_field(field: str, *fields: str) -> Callable[[_F], _F]:
    """Register the reader of a field (`Type.field`), which answers for `fields`."""

    def register(reader: _F) -> _F:
        FIELD_READERS[field] = reader
        READ.update(fields)
        return reader

    return register


def refuse(why: str | Unsupported) -> CannotClassify:
    """Return the error that makes the plan Unsupported."""
    return CannotClassify(why)
