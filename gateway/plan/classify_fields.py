"""The words of `classify`: what a field of a message can be to the policies."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class FieldRule(enum.Enum):
    """What a field is. Those from ROWS on are read by a reader of `walk_relations` or `walk_commands`."""

    WALK = "a message, or several, each with a row of its own"
    PLAIN = "says nothing that policies ask about"
    NAMES = "names of columns, outside of expressions"
    SCHEMA = "a schema or metadata as text, which may name classes, or hold expressions in JSON"

    ROWS = "the client's own rows in Arrow, whose columns can have metadata as in a schema"
    COLUMN = "the name of a column, a star or a pattern"
    TABLE = "the name of a table or view that is read"
    SQL = "SQL text, a statement"
    TEXT = "SQL text, an expression"
    FUNCTION = "the name of a function that is called"
    OPTIONS = "options by key: only those that are known to be harmless"
    FORMAT = "a data source by name: only those that read and write files"
    PATH = "a path or an address"
    CODE = "user-defined code"
    HANDLE = "the id of something in Spark's session"
    TARGET = "what a command or a catalog call names: judged with the command"


@dataclass(frozen=True, slots=True)
class RefusedField:
    """A field that no plan may have set; `why` is for the client."""

    why: str


PLUGIN = (
    "plugins of Spark Connect, such as Delta's `DeltaTable`, contain code that Sluice cannot authorize; "
    "use SQL instead (MERGE, UPDATE, DELETE, DESCRIBE HISTORY, …)"
)
"""Why a field for messages of a plugin is refused."""

MessageRow = Mapping[str, FieldRule | RefusedField]
MessageRows = Mapping[str, MessageRow]


def row(*, refused: Mapping[str, str] | None = None, **fields: str) -> MessageRow:
    """Return a row: field names, parted by blanks, by what they are (`walk="input condition"`)."""
    made: dict[str, FieldRule | RefusedField] = {}
    for kind, names in fields.items():
        for name in names.split():
            if name in made:
                raise ValueError(f"`{name}` is classified twice")
            made[name] = FieldRule[kind.upper()]
    for name, why in (refused or {}).items():
        made[name] = RefusedField(why)
    return made
