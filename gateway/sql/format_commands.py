"""What statements of table formats want that Spark's own grammar does not have."""

from __future__ import annotations

from gateway.sql.delta_commands import on_files
from gateway.sql.required import Pin, Required
from gateway.sql.scope import CommandScope, name_parts


def alter_layout(scope: CommandScope) -> Required:
    """Iceberg's ALTER TABLE on partition fields, identifier fields and the order of writing: it names
    columns."""
    return on_files(_target(scope), "alter", changes="changes")


def alter_reference(scope: CommandScope) -> Required:
    """Iceberg's ALTER TABLE on branches and tags: they keep, or let go of, all rows of a snapshot."""
    return on_files(_target(scope), "alter")


def _target(scope: CommandScope) -> Pin:
    """Return the table, whose name these commands hold without a node of its own."""
    return scope.pin(name_parts({"parts": scope.field("table")}, scope.command.node))
