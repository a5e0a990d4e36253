"""What CALL wants: the row of the procedure, for the table, locations and conditions that it is given; and
what listing and describing procedures wants.

The table is a text that the procedure parses itself, in its own catalog. It has to be a plain dotted name
with its database, so that there is one way to read it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gateway.model.catalog import TableName
from gateway.model.procedures import Procedure
from gateway.model.reading import FieldValue
from gateway.model.resource import Resource
from gateway.model.statement import CatalogChanged
from gateway.sql.names import Ungovernable
from gateway.sql.required import Privilege, Required
from gateway.sql.scope import CannotClassify, CommandScope, name_parts, table_resource

_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*){1,2}", re.ASCII)
_ARGUMENTS = frozenset(
    {
        "NamedArgumentExpression",
        *("NamedArgument", "PositionalArgument"),
        *("PaimonNamedArgument", "PaimonPositionalArgument"),
    }
)

_OF_EVERYBODY = frozenset({"system", "default"})
"""Namespaces whose names tell nothing: where formats have their procedures, and where sessions begin."""


def call(scope: CommandScope) -> Required:
    """CALL catalog.namespace.procedure(…), as Spark's parser has it or that of a format."""
    parts = _name(scope)
    written = ".".join(parts)
    if len(parts) != 3 or not scope.names.is_catalog(parts[0]):
        raise CannotClassify(
            f"write the catalog of the procedure, as in CALL lake.system.x(): `{written}` has none"
        )
    catalog = parts[0]
    rows = scope.procedures.rows.get((parts[1].lower(), parts[2].lower()), ())
    if not rows:
        raise CannotClassify(f"the procedure `{written}` is not supported")
    refused = next((row.refused for row in rows if row.refused), "")
    if refused:
        raise CannotClassify(f"the procedure `{written}` is refused: {refused}")
    # One of two formats' procedures is meant, and which cannot be told: what both want is wanted.
    wanted = [_build_required(scope, row, catalog, written) for row in rows]
    return Required(
        privileges=tuple(dict.fromkeys(privilege for one in wanted for privilege in one.privileges)),
        raw=tuple(dict.fromkeys(name for one in wanted for name in one.raw)),
        read=tuple(dict.fromkeys(name for one in wanted for name in one.read)),
        maintained=wanted[0].maintained if all(one.maintained for one in wanted) else (),
        effects=tuple(effect for one in wanted[:1] for effect in one.effects),
        conditions=tuple(dict.fromkeys(text for one in wanted for text in one.conditions)),
    )


def show(scope: CommandScope) -> Required:
    """SHOW PROCEDURES: the names of what a catalog has brought with it, in a namespace that one may know."""
    current = str(scope.node("child").get("node", "")).startswith("CurrentNamespace")
    catalog, database = scope.database("child") if current else scope.namespace("child")
    wanted = [Privilege(Resource.catalog(catalog), "use", visible_is_enough=True)]
    # RULE (procedures-database)
    if database is not None and database.lower() not in _OF_EVERYBODY:
        wanted.append(Privilege(Resource.database(catalog, database), "show", visible_is_enough=True))
    return Required(privileges=tuple(wanted), namespaces=scope.pin_database("child"))


def describe(scope: CommandScope) -> Required:
    """DESCRIBE PROCEDURE: what its catalog says of it, and its parameters."""
    found = scope.names.new_table(scope.parts("child"))
    if isinstance(found, Ungovernable):
        raise CannotClassify(found.refusal(".".join(scope.parts("child"))))
    wanted = [Privilege(Resource.catalog(found.catalog), "use", visible_is_enough=True)]
    if found.database.lower() not in _OF_EVERYBODY:
        database = Resource.database(found.catalog, found.database)
        wanted.append(Privilege(database, "show", visible_is_enough=True))
    return Required(privileges=tuple(wanted))


def _build_required(scope: CommandScope, row: Procedure, catalog: str, written: str) -> Required:
    given = _read_arguments(scope, row, written)
    required: list[Privilege] = []
    tables: list[TableName] = []
    for argument, accesses in row.table.items():
        table = _table(scope, given.get(argument), catalog, argument)
        tables.append(table)
        required += [Privilege(table_resource(table), access) for access in accesses]
    for argument, accesses in row.url.items():
        location = given.get(argument)
        if location is None:
            continue
        if not isinstance(location, str):
            raise CannotClassify(f"`{argument}` must be a string literal")
        required += [Privilege(Resource.url(location), access) for access in accesses]
    conditions = []
    for argument in sorted(row.condition):
        text = given.get(argument)
        if text is not None and not isinstance(text, str):
            raise CannotClassify(f"`{argument}` must be a string literal")
        conditions += [text] if text is not None else []
    tended = row.maintain.issuperset(given)  # RULE (maintain-arguments)
    return Required(
        privileges=tuple(required),
        raw=tuple(tables),
        read=tuple(tables),
        maintained=tuple(tables) if tended else (),
        effects=(CatalogChanged(tuple(tables), meaning="stays"),),
        conditions=tuple(conditions),
    )


def _name(scope: CommandScope) -> tuple[str, ...]:
    held = scope.command.fields.get("procedure", scope.command.fields.get("name"))
    if isinstance(held, Mapping):
        return name_parts(held, scope.command.node)
    if isinstance(held, tuple) and all(isinstance(part, str) for part in held):
        return tuple(str(part) for part in held)
    raise CannotClassify("the name of the procedure could not be parsed")


def _read_arguments(scope: CommandScope, row: Procedure, written: str) -> dict[str, FieldValue]:
    """Return the arguments by name; nulls are absent ones."""
    values = scope.field("args")
    if not isinstance(values, tuple):
        raise CannotClassify("the arguments of CALL could not be parsed")
    given: dict[str, FieldValue] = {}
    for position, value in enumerate(values):
        name, held = _argument(value)
        if name is None:
            if position >= len(row.arguments):
                raise CannotClassify(f"the procedure `{written}` has unsupported arguments")
            name = row.arguments[position]
        if name not in row.arguments:
            raise CannotClassify(f"the argument `{name}` of `{written}` is not supported")
        if name in given:
            raise CannotClassify(f"the argument `{name}` of `{written}` is given twice")
        given[name] = held
    return {name: value for name, value in given.items() if value is not None}


def _argument(value: FieldValue) -> tuple[str | None, FieldValue]:
    if not isinstance(value, Mapping) or value.get("node") not in _ARGUMENTS:
        return None, value
    name = value.get("key", value.get("name"))
    if name is not None and not isinstance(name, str):
        raise CannotClassify("the name of an argument could not be parsed")
    held = value["value"] if "value" in value else value.get("expr")
    return None if name is None else name.lower(), held


def _table(scope: CommandScope, value: FieldValue, catalog: str, argument: str) -> TableName:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise CannotClassify(
            f"`{argument}` must be a string literal with the table and its database, such as 'sales.orders'"
        )
    parts = value.split(".")
    if len(parts) == 3 and parts[0].lower() != catalog.lower():
        raise CannotClassify(f"`{value}` is not a table of the procedure's catalog `{catalog}`")
    if len(parts) == 2 and parts[0].lower() in scope.names.catalogs:
        raise CannotClassify(f"`{value}` begins with the name of a catalog; write its database as well")
    return TableName(catalog, parts[-2], parts[-1])
