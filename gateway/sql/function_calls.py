"""Functions of databases that are called without the whole name: which one is meant, written in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gateway.model.catalog import FUNCTION, TableName, quote_parts
from gateway.model.files import SESSION_CATALOG
from gateway.model.reading import FunctionRef, Reading, Splice
from gateway.model.resource import Resource
from gateway.sql.functions import CODE_FUNCTIONS, builtin_name
from gateway.sql.names import Names, Ungovernable
from gateway.sql.required import Privilege

WHOLE_NAME = 3
"""Parts of a name with its catalog."""
_RESERVED = frozenset({"builtin", "session", "system"})


def find_short_function(function: FunctionRef, names: Names) -> TableName | None:
    """Return which function of Spark's own catalog is meant by a name without its catalog, if one can be.

    The caller knows that the name is none of Spark's functions, and none that the session registered.
    """
    if function.builtin or len(function.parts) >= WHOLE_NAME or function.parts[0].lower() in _RESERVED:
        return None
    name = names.new_table(function.parts)
    if isinstance(name, Ungovernable) or name.catalog.lower() != SESSION_CATALOG:
        return None
    return replace(name, version=FUNCTION)


def list_functions_of_databases(
    functions: Iterable[FunctionRef], names: Names
) -> tuple[tuple[FunctionRef, TableName], ...]:
    """Return the functions of Spark's own catalog that are called by any name, and which are meant.

    A name that a function of the session has is not looked at: the caller refuses those.
    """
    found = []
    for function in functions:
        name = find_short_function(function, names)
        if name is None and len(function.parts) == WHOLE_NAME and not function.builtin:
            whole = names.new_table(function.parts)
            if isinstance(whole, TableName) and whole.catalog.lower() == SESSION_CATALOG:
                name = replace(whole, version=FUNCTION)
        if name is not None:
            found.append((function, name))
    return tuple(found)


def execute_on(name: TableName) -> Privilege:
    return Privilege(Resource.udf(name.catalog, name.database, name.table), "execute")


def code_privileges(function: FunctionRef) -> tuple[Privilege, ...]:
    """Return what a function of Spark's own wants that runs code of the caller's choice."""
    name = builtin_name(function.parts)
    if name not in CODE_FUNCTIONS:  # RULE (code-function-privilege)
        return ()
    return tuple(Privilege(Resource.udf("system", "session", name), each) for each in ("create", "execute"))


def pin_functions(
    reading: Reading, short: Iterable[tuple[FunctionRef, TableName]], *, in_body: bool = False
) -> tuple[Splice, ...] | FunctionRef:
    """Return what writes the whole names over calls; a function with a call that is not written literally.

    `in_body`: without the catalog, as Spark takes them in the body of a function.
    """
    found = []
    for function, name in short:
        parts = name.parts[1:] if in_body else name.parts
        if parts == function.parts:
            continue
        for call in reading.calls:
            if (call.parts, call.table_valued) != (function.parts, function.table_valued):
                continue
            if call.span is None:  # RULE (unplaced-call)
                return function
            kind = "pin" if call.table_valued else "column"
            found.append(Splice(span=call.span, text=quote_parts(parts), kind=kind, parts=parts))
    unique = {splice.span.start: splice for splice in found}
    return tuple(unique.values())
