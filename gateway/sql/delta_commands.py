"""What Delta's own statements want. They work on files, past masks and filters: nobody may have one on the
table, who runs them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.model.reading import FieldValue
from gateway.model.resource import Resource
from gateway.model.statement import CatalogChanged, Meaning
from gateway.sql import storage
from gateway.sql.required import Pin, Privilege, Required
from gateway.sql.scope import CannotClassify, CommandScope, name_parts, table_resource


def optimize(scope: CommandScope) -> Required:
    """OPTIMIZE: rows move to other files. Its WHERE is a text that Delta has Spark parse."""
    predicates = scope.field("userPartitionPredicates")
    if not isinstance(predicates, tuple) or not all(isinstance(text, str) for text in predicates):
        raise CannotClassify("the condition of OPTIMIZE could not be parsed")
    required = on_files(scope.target("child"), "alter", conditions=tuple(str(text) for text in predicates))
    # What it orders by is no field of the command.
    names_columns = bool(scope.reading.columns or scope.reading.expressions)
    return required if predicates or names_columns else _let_maintain(required)


def reorganize(scope: CommandScope) -> Required:
    """REORG TABLE: rows move to other files."""
    return on_files(scope.target("target"), "alter")


def generate(scope: CommandScope) -> Required:
    """GENERATE: a list of the table's files is written beside them."""
    return on_files(scope.target("child"), "alter")


def vacuum(scope: CommandScope) -> Required:
    """VACUUM: files that no version within the time has go; DRY RUN names them."""
    if scope.field("inventoryTable") is not None or scope.field("inventoryQuery") is not None:
        raise CannotClassify("VACUUM USING INVENTORY reads file paths from a table and is not supported")
    required = on_files(scope.target("child"), "alter", "delete", "metadata")
    return required if scope.flag("dryRun") else _let_maintain(required)


def describe_history(scope: CommandScope) -> Required:
    """DESCRIBE HISTORY and DESCRIBE DETAIL: who did what, with conditions that hold values; paths, sizes."""
    return on_files(scope.target("child"), "metadata", changes=None)


def restore(scope: CommandScope) -> Required:
    """RESTORE: all rows become those of another version."""
    held = scope.node("table")
    if held.get("node") == "TimeTravel":
        return Required()  # what it holds says it, below
    return on_files(_resolve_name(scope, held), "alter", "insert", "delete")


def time_travel(scope: CommandScope) -> Required:
    """The table of RESTORE, or the source of CLONE, at a version."""
    within = {command.node for command in scope.reading.commands} - {"TimeTravel"}
    pin = _resolve_name(scope, scope.node("relation"))
    if within == {"RestoreTableStatement"}:
        return on_files(pin, "alter", "insert", "delete")
    if within == {"CloneTableStatement"}:
        return _clone(pin)
    raise CannotClassify("a table version is not supported in this place")


def clone(scope: CommandScope) -> Required:
    """CLONE: a table with all rows of another one, which it may read from the same files."""
    source, target = scope.node("source"), _resolve_name(scope, scope.node("target"))
    storage.check_properties(storage.keys(scope.field("tablePropertyOverrides"), "table properties"))
    required = [Privilege(table_resource(target.table), "create")]
    if scope.flag("isReplaceCommand"):
        required.append(Privilege(table_resource(target.table), "drop"))
    location = scope.text("targetLocation")
    if location is not None:
        required += [Privilege(Resource.url(location), "read"), Privilege(Resource.url(location), "write")]
    made = Required(privileges=tuple(required), pins=(target,), effects=(CatalogChanged((target.table,)),))
    if source.get("node") == "TimeTravel":
        return made
    read = _clone(_resolve_name(scope, source))
    return Required(
        privileges=(*made.privileges, *read.privileges),
        pins=(*made.pins, *read.pins),
        raw=read.raw,
        read=read.read,
        effects=made.effects,
    )


def add_constraint(scope: CommandScope) -> Required:
    """ADD CONSTRAINT … CHECK: all rows are checked, and what breaks it is told."""
    text = scope.text("expr")
    return on_files(scope.target("table"), "alter", conditions=() if text is None else (text,))


def alter(scope: CommandScope) -> Required:
    """DROP CONSTRAINT, DROP FEATURE."""
    return on_files(scope.target("table"), "alter")


def _let_maintain(required: Required) -> Required:
    """Return the same where `maintain` will do."""
    return replace(required, maintained=required.raw)


def _clone(pin: Pin) -> Required:
    return Required(
        privileges=(Privilege(table_resource(pin.table), "select"),),
        pins=(pin,),
        raw=(pin.table,),
        read=(pin.table,),
        past=(pin.table,),
    )


def on_files(
    pin: Pin, *accesses: str, conditions: tuple[str, ...] = (), changes: Meaning | None = "stays"
) -> Required:
    """Return what a statement wants that works on a table's files, past what masks and filters say."""
    return Required(
        privileges=tuple(Privilege(table_resource(pin.table), access) for access in accesses),
        pins=(pin,),
        raw=(pin.table,),
        read=(pin.table,),
        conditions=conditions,
        effects=(CatalogChanged((pin.table,), meaning=changes),) if changes else (),
    )


def _resolve_name(scope: CommandScope, held: Mapping[str, FieldValue]) -> Pin:
    return scope.pin(name_parts(held, scope.command.node))
