"""What statements of table formats want that Spark's own grammar does not have."""

from __future__ import annotations

from gateway.model.statement import CatalogChanged, Meaning
from gateway.sql.names import Ungovernable
from gateway.sql.required import Pin, Privilege, Required
from gateway.sql.scope import CannotClassify, CommandScope, table_resource


def alter_layout(scope: CommandScope) -> Required:
    """Iceberg's ALTER TABLE on partition fields, identifier fields and the order of writing: it names
    columns."""
    return _altered(scope, meaning="changes")


def alter_reference(scope: CommandScope) -> Required:
    """Iceberg's ALTER TABLE on branches and tags: they keep, or let go of, all rows of a snapshot."""
    return _altered(scope, meaning="stays")


def _altered(scope: CommandScope, *, meaning: Meaning) -> Required:
    pin = _target(scope)
    return Required(
        privileges=(Privilege(table_resource(pin.table), "alter"),),
        pins=(pin,),
        raw=(pin.table,),
        read=(pin.table,),
        effects=(CatalogChanged((pin.table,), meaning=meaning),),
    )


def _target(scope: CommandScope) -> Pin:
    """Return the table, whose name these commands hold without a node of its own."""
    value = scope.field("table")
    if not isinstance(value, tuple) or not all(isinstance(part, str) for part in value):
        raise CannotClassify(f"{scope.command.node} holds a name that is not written literally")
    parts = tuple(str(part) for part in value)
    resolved = scope.names.new_table(parts)
    if isinstance(resolved, Ungovernable):
        raise CannotClassify(resolved.refusal(".".join(parts)))
    return Pin(scope.relation(parts), resolved)
