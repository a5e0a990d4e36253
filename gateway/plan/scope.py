"""Names that a plan's commands and catalog calls hold as strings, and what these want of policies.

Spark parses such a string as a table identifier. It is resolved as a name in SQL text would be, and the full
name is written over it, so that what was judged is what Spark resolves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.model.catalog import TableName, quote, quote_parts
from gateway.model.resource import Resource
from gateway.model.spark_minors import NEWEST, Minor
from gateway.plan.identifiers import table_parts
from gateway.sql.names import Names, TempViewName, Ungovernable
from gateway.sql.required import Privilege, Required, Unsupported
from gateway.sql.scope import CannotClassify
from gateway.wire.connect import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class NamePin:
    """A string field of a message, and the text that is written into it; None clears it."""

    message: Message
    field: str
    text: str | None


NOTHING_REQUIRED = Required()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequired:
    """What a command or a catalog call wants, as the SQL statement of the same meaning would."""

    required: Required = NOTHING_REQUIRED
    names: tuple[NamePin, ...] = ()
    keeps: bool = False
    """Spark keeps its rows' plan under a name, and what later plans do with it is not seen."""
    details: Privilege | None = None
    """What must be allowed for the answer to show locations and descriptions."""
    secret: Resource | None = None
    """Whether this exists is told only to who may know of it; others are answered that it does not."""


@dataclass(frozen=True, slots=True)
class PlanScope:
    """Names as the plan's session resolves them. Its methods raise CannotClassify."""

    names: Names
    minor: Minor = NEWEST
    """Of the Spark that the plan is for."""

    def parts(self, text: str) -> tuple[str, ...]:
        parts = table_parts(text)
        if parts is None:
            raise CannotClassify(Unsupported(f"`{text}` cannot be parsed as a name", name=text))
        return parts

    def table(self, text: str) -> TableName | TempViewName:
        """Return what the name of a table or view means; a temporary view comes first."""
        resolved = self.names.table(self.parts(text))
        if isinstance(resolved, Ungovernable):
            raise CannotClassify(resolved.refusal(text))
        if isinstance(resolved, TableName) and resolved.is_global_view:  # RULE (global-view-calls)
            raise CannotClassify("calls on global temporary views are not supported; use SQL")
        return resolved

    def target(self, text: str) -> TableName:
        """Return what the name of a table means where temporary views do not count."""
        resolved = self.names.new_table(self.parts(text))  # RULE (target-no-temp-view)
        if isinstance(resolved, Ungovernable):
            raise CannotClassify(resolved.refusal(text))
        return resolved

    def resolve_target(self, text: str) -> tuple[TableName, str]:
        """Return the table that is written to, and its full name, with the branch that may follow it."""
        branch = self.names.branch(self.parts(text))
        if branch is not None:
            name, below = branch
            return name, quote_parts((*name.parts, below))
        return self.resolve_created(text)

    def resolve_created(self, text: str) -> tuple[TableName, str]:
        """Return the table that a name means where temporary views do not count, and its full name."""
        target = self.target(text)
        return target, quote_name(target)

    def database(self, text: str) -> tuple[str, str]:
        """Return the catalog and the database that a name means; of none, the current ones."""
        if not text:
            current = self.names.current_database()
            if isinstance(current, Ungovernable):
                raise CannotClassify(current.why)
            return current
        resolved = self.names.namespace(self.parts(text))
        if isinstance(resolved, Ungovernable):
            raise CannotClassify(resolved.refusal(text))
        catalog, database = resolved
        if database is None:
            raise CannotClassify(f"`{catalog}` is a catalog; a database is needed")
        return catalog, database

    def view_name(self, text: str) -> str:
        """Return the one plain part that a temporary view's name is."""
        parts = table_parts(text)
        if parts is None or len(parts) != 1 or not parts[0].strip():
            raise CannotClassify(f"`{text}` is not a plain name, which a temporary view needs")
        return parts[0]


def quote_name(name: TableName | TempViewName) -> str:
    """Write a resolved name in full, every part quoted."""
    if isinstance(name, TempViewName):
        return quote(name.name)
    return quote_parts(name.parts)


def split_option(options: Iterable[tuple[str, str]], *names: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the values of the options of these names (lower case), and the keys of all others."""
    values, others = [], []
    for key, value in options:
        if key.lower() in names:
            values.append(value)
        else:
            others.append(key)
    return tuple(values), tuple(others)
