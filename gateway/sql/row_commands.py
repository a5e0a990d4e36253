"""What UPDATE, DELETE and MERGE want: the rows of a table that is there are changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from gateway.model.reading import RelationRole
from gateway.model.statement import CatalogChanged
from gateway.sql.names import Ungovernable
from gateway.sql.required import Pin, Privilege, Required
from gateway.sql.scope import CannotClassify, CommandScope, table_resource

_ACTIONS: Final = {
    "DeleteAction": "delete",
    "InsertAction": "insert",
    "InsertStarAction": "insert",
    "UpdateAction": "update",
    "UpdateStarAction": "update",
}


def update(scope: CommandScope) -> Required:
    return replace(_on_rows(scope, ("update",)), restricts=True)


def delete(scope: CommandScope) -> Required:
    return replace(_on_rows(scope, ("delete",)), restricts=True)


def merge(scope: CommandScope) -> Required:
    # The source's columns may become columns of the target. Spark has it since 4.0.
    evolves = scope.has("withSchemaEvolution") and scope.flag("withSchemaEvolution")
    accesses = ["alter"] if evolves else []
    # RULE (merge-every-action)
    for field in ("matchedActions", "notMatchedActions", "notMatchedBySourceActions"):
        actions = scope.field(field)
        if not isinstance(actions, tuple):
            raise CannotClassify("the actions of MERGE could not be parsed")
        for action in actions:
            access = _ACTIONS.get(str(action.get("node"))) if isinstance(action, Mapping) else None
            if access is None:
                raise CannotClassify("unknown MERGE action")
            accesses.append(access)
    if set(accesses) <= {"alter"}:
        raise CannotClassify("MERGE has no action")
    required = _on_rows(scope, tuple(dict.fromkeys(accesses)))
    changed = (CatalogChanged(tuple(pin.table for pin in required.pins)),)
    # RULE (merge-evolving-raw)
    return replace(required, effects=changed) if evolves else replace(required, restricts=True)


def _on_rows(scope: CommandScope, accesses: tuple[str, ...]) -> Required:
    """Conditions and values read the target's raw rows, so it may carry no obligation, unless the statement
    is kept to visible rows (`restricts`)."""
    pin = _target(scope)
    resource = table_resource(pin.table)
    # RULE (row-change-reads-raw)
    return Required(
        privileges=tuple(Privilege(resource, access) for access in accesses), pins=(pin,), read=(pin.table,)
    )


def _target(scope: CommandScope) -> Pin:
    """Return the table, which may stand behind an alias and is therefore not in the command's fields."""
    found = [
        relation
        for relation in scope.reading.relations
        if relation.role is RelationRole.TARGET and relation.holder == scope.command.node
    ]
    if len(found) != 1:
        raise CannotClassify(f"the table of {scope.command.node} could not be parsed")
    branch = scope.names.branch(found[0].parts)
    if branch is not None:
        return Pin(scope.relation(found[0].parts), *branch)
    target = scope.names.new_table(found[0].parts)
    if isinstance(target, Ungovernable):
        raise CannotClassify(f"`{'.'.join(found[0].parts)}` {target.why}")
    return Pin(scope.relation(found[0].parts), target)
