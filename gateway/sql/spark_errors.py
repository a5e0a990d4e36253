"""What the gateway refuses and Spark would too: in the words of Spark 4.3, with the place in the text.

Spark is not asked about these: it would look names up that nobody has judged, or there is no value to send.
"""

from __future__ import annotations

from collections.abc import Iterable

from gateway.model.catalog import TableName, quote_parts
from gateway.model.reading import FunctionRef, Parameter, Reading
from gateway.model.statement import SessionContext
from gateway.sql.required import Unsupported

_SYSTEM = ("`system`.`builtin`", "`system`.`session`")


def search_path(context: SessionContext, *, builtin: bool = True) -> str:
    """Return where Spark looks for a name without a database: `builtin` for what could be a function too."""
    current = quote_parts((context.catalog, *context.namespace))
    return f"[{', '.join((*(_SYSTEM if builtin else _SYSTEM[1:]), current))}]"


def build_unknown_function_refusal(function: FunctionRef, context: SessionContext) -> Unsupported:
    """Return the refusal of what is neither built in nor registered, as Spark tells that there is none.

    Whether there is a persistent function of the name is not looked up.
    """
    name = quote_parts(function.parts)
    if function.table_valued:
        return Unsupported(
            f"[UNRESOLVABLE_TABLE_VALUED_FUNCTION] Could not resolve {name} to a table-valued function.\n"
            f"Please make sure that {name} is defined as a table-valued function and that all required "
            f"parameters are provided correctly.\nIf {name} is not defined, please create the table-valued "
            "function before using it.\nFor more information about defining table-valued functions, please "
            "refer to the Apache Spark documentation. SQLSTATE: 42883",
            "42883",
            at=function.start,
            parameters=(("name", name),),
        )
    path = search_path(context)
    return Unsupported(
        f"[UNRESOLVED_ROUTINE] Cannot resolve routine {name} on search path {path}. SQLSTATE: 42883",
        "42883",
        at=function.start,
        parameters=(("routineName", name), ("searchPath", path)),
    )


def build_unbound_parameter_refusal(parameter: Parameter, text: str) -> Unsupported:
    """Return the refusal of a parameter marker in a text that came without arguments."""
    span = parameter.span
    name = "" if span is None else span.of(text).lstrip(":").strip()
    if span is not None and name == "?":
        name = f"_{span.start}"
    return Unsupported(
        f"[UNBOUND_SQL_PARAMETER] Found the unbound parameter: {name}. Please, fix `args` and provide a "
        "mapping of the parameter to either a SQL literal or collection constructor functions such as "
        "`map()`, `array()`, `struct()`. SQLSTATE: 42P02",
        "42P02",
        parameters=(("name", name),),
    )


def build_table_not_found_refusal(
    parts: Iterable[str], context: SessionContext, reading: Reading | None = None, at: int | None = None
) -> Unsupported:
    """Return the refusal of a command about a table that is not there, as it is written.

    With the `reading` of its text, the plan is told as well, as Spark prints it.
    """
    name = quote_parts(tuple(parts))
    printed = reading.printed if reading is not None else ""
    leaf = printed.rstrip("\n").rsplit("\n", 1)[-1]
    queried = "UnresolvedRelation" in printed or leaf.endswith("QueryLike")
    path = search_path(context, builtin=queried or not printed)
    return Unsupported(
        f"[TABLE_OR_VIEW_NOT_FOUND] The table or view {name} cannot be found. Verify the spelling and "
        f"correctness of the schema and catalog.\nSearch path: {path}.\n"
        "If you did not qualify the name with a schema, verify the current_schema() output, or qualify the "
        "name with the correct schema and catalog.\n"
        "To tolerate the error on drop use DROP VIEW IF EXISTS or DROP TABLE IF EXISTS. "
        "SQLSTATE: 42P01",
        "42P01",
        at=at,
        parameters=(("relationName", name), ("searchPath", path)),
        plan=printed,
    )


def add_position(refusal: Unsupported, text: str) -> str:
    """Return a refusal in Spark's words with the place in the text and the plan, where it has them."""
    if refusal.at is None:
        return refusal.why
    before = text[: refusal.at]
    line, column = before.count("\n") + 1, refusal.at - (before.rfind("\n") + 1)
    plan = f";\n{refusal.plan}" if refusal.plan else ""
    return f"{refusal.why}; line {line} pos {column}{plan}"


def build_temporary_reference_refusal(view: TableName, temporary: tuple[str, ...]) -> Unsupported:
    """Return the refusal of a persistent view that reads a temporary one, in Spark's words."""
    made, read = quote_parts(view.parts), quote_parts(temporary)
    return Unsupported(
        f"[INVALID_TEMP_OBJ_REFERENCE] Cannot create the persistent object {made} of the type VIEW because "
        f"it contains a reference to the temporary object {read} of the type VIEW. Please make the temporary "
        f"object {read} persistent, or make the persistent object {made} temporary. SQLSTATE: 42K0F",
        "42K0F",
    )
