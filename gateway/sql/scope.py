"""Reading the fields of a command node: names, options and properties, with refusal instead of guesses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gateway.model.catalog import Table, TableKind, TableName, levels, quote_parts
from gateway.model.procedures import NO_PROCEDURES, Procedures
from gateway.model.reading import CommandNode, FieldValue, Reading, Relation, RelationRole, Span
from gateway.model.resource import Resource
from gateway.model.table_formats import SPARK_FORMATS
from gateway.sql.names import Names, TempViewName, Ungovernable
from gateway.sql.required import NamespacePin, Pin, Unsupported

_OF_GLOBAL_VIEWS = frozenset({"DescribeRelation", "DropView", "ShowColumns"})
"""Commands that a global temporary view may be named in."""
_OF_CURRENT = frozenset({"ShowTables", "ShowTableExtended", "ShowViews", "ShowFunctions", "AnalyzeTables"})
"""Statements that mean the session's database where they name none, as Spark 3.5 resolves them."""


class CannotClassify(Exception):
    """Raised within `sql/` by field readers and turned into a Unsupported value by `classify`."""

    def __init__(self, why: str | Unsupported) -> None:
        self.refusal = why if isinstance(why, Unsupported) else Unsupported(why)
        super().__init__(self.refusal.why)


def table_resource(name: TableName, owner: str | None = None) -> Resource:
    return Resource.table(name.catalog, name.database, name.table, owner)


@dataclass(frozen=True, slots=True)
class CommandScope:
    """One command in its statement and session."""

    command: CommandNode
    reading: Reading
    names: Names
    procedures: Procedures = NO_PROCEDURES
    """Those that may be called."""

    def field(self, name: str) -> FieldValue:
        """Return a field of the command; a field that Spark renamed is not silently absent."""
        if name not in self.command.fields:
            raise CannotClassify(f"{self.command.node} has no field {name} in this version of Spark")
        return self.command.fields[name]

    def has(self, name: str) -> bool:
        """Whether the command has the field; older minors of Spark lack some."""
        return name in self.command.fields

    def flag(self, name: str) -> bool:
        value = self.field(name)
        if not isinstance(value, bool):
            raise CannotClassify(f"{self.command.node}.{name} is not a flag in this version of Spark")
        return value

    def text(self, name: str) -> str | None:
        value = self.field(name)
        if value is not None and not isinstance(value, str):
            raise CannotClassify(f"{self.command.node}.{name} is not text in this version of Spark")
        return value

    def node(self, name: str) -> Mapping[str, FieldValue]:
        value = self.field(name)
        if not isinstance(value, Mapping):
            raise CannotClassify(f"{self.command.node}.{name} is not a node in this version of Spark")
        return value

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the name parts of a name node held in a field."""
        return name_parts(self.node(name), self.command.node)

    def target(self, name: str) -> Pin:
        """Return the relation held in a field as a target, which may be a branch of a table."""
        parts = self.parts(name)
        branch = self.names.branch(parts)
        if branch is not None:
            return Pin(self.relation(parts), *branch)
        return self.pin(parts)

    def resolve_created(self, name: str) -> Pin:
        """Return the relation held in a field as a table that is made, which is no branch of another."""
        return self.pin(self.parts(name))

    def pin(self, parts: tuple[str, ...]) -> Pin:
        """Return the relation of a name as a target: never a temporary view, always a full name."""
        resolved = self.names.new_table(parts)
        if isinstance(resolved, Ungovernable):
            raise CannotClassify(resolved.refusal(".".join(parts)))
        return Pin(self.relation(parts), resolved)

    def resolve_existing(self, name: str) -> Pin | TempViewName:
        """Return the relation held in a field, which may be a temporary view of the session."""
        parts = self.parts(name)
        resolved = self.names.table(parts)
        if isinstance(resolved, Ungovernable):
            raise CannotClassify(resolved.refusal(".".join(parts)))
        if isinstance(resolved, TempViewName):
            return resolved
        # RULE (global-view-commands)
        if resolved.is_global_view and self.command.node not in _OF_GLOBAL_VIEWS:
            raise CannotClassify(f"{self.command.node} of a global temporary view is not supported")
        return Pin(self.relation(parts), resolved)

    def relation(self, parts: tuple[str, ...]) -> Relation:
        """Return the mention of a target in the statement's text."""
        found = [
            r
            for r in self.reading.relations
            if r.role is RelationRole.TARGET and r.parts == parts and r.holder == self.command.node
        ]
        if any(relation.options for relation in found):
            raise CannotClassify(
                f"options on {quote_parts(parts)} could redirect to other data and are not supported"
            )
        if not found:
            raise CannotClassify(f"{quote_parts(parts)} is not a literal name in {self.command.node}")
        return found[0]

    def database(self, name: str) -> tuple[str, str]:
        """Return catalog and database of a namespace field; the current one when the field says so."""
        if self._is_current(name):
            current = self.names.current_database()
            if isinstance(current, Ungovernable):
                raise CannotClassify(current.why)
            return current
        catalog, database = self.namespace(name)
        if database is None:
            raise CannotClassify(f"`{catalog}` is a catalog; a database is needed")
        return catalog, database

    def _is_current(self, name: str) -> bool:
        """Whether a namespace field says that the session's own is meant."""
        node = str(self.node(name).get("node", "")).rstrip("$")
        return node == "CurrentNamespace" or (
            # Before Spark 4.0 a name without parts, for these statements; for others that is the catalog.
            node == "UnresolvedNamespace" and not self.parts(name) and self.command.node in _OF_CURRENT
        )

    def pin_database(self, name: str) -> tuple[NamespacePin, ...]:
        """Return what writes the full name over a database that the statement names.

        Without it, a catalog that Spark has and the gateway does not know could take the name for itself.
        """
        if self._is_current(name):
            return ()
        value = self.node(name)
        catalog, database = self.namespace(name)
        full = (catalog,) if database is None else (catalog, *levels(database))
        if self.parts(name) == full:
            return ()
        span = value.get("span")
        if not isinstance(span, tuple) or len(span) != 2:
            raise CannotClassify(f"`{'.'.join(self.parts(name))}` is not a literal name")
        start, end = span
        return (NamespacePin(Span(int(str(start)), int(str(end))), full),)

    def namespace(self, name: str) -> tuple[str, str | None]:
        """Return catalog and, when given, database of a namespace field."""
        parts = self.parts(name)
        resolved = self.names.namespace(parts)
        if isinstance(resolved, Ungovernable):
            raise CannotClassify(resolved.refusal(".".join(parts)))
        return resolved


def clip(text: str) -> str:
    """Return what the client wrote for use in a message: one line, not too long."""
    line = " ".join(text[:200].split())
    return line if len(line) <= 80 else line[:79] + "…"


def name_parts(node: Mapping[str, FieldValue], holder: str) -> tuple[str, ...]:
    parts = node.get("parts")
    if not isinstance(parts, tuple) or not all(isinstance(part, str) for part in parts):
        raise CannotClassify(f"{holder} contains a name that is not literal")
    return tuple(str(part) for part in parts)


def is_copied_without_rows(table: Table) -> bool:
    """Whether a table that is made like this one, or a plan that describes it, has nothing of its rows. Of
    other kinds what says where they are, be it an address with a password, is copied with their options, and
    stands in plans as their connectors write it."""
    of_files = table.kind is TableKind.TABLE and str(table.provider).lower() in SPARK_FORMATS
    return of_files or table.kind is TableKind.VIEW
