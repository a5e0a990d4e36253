"""What the gateway refuses and Spark would too: in the words of Spark 4.3, with the place in the text.

Spark is not asked about these: it would look names up that nobody has judged, or there is no value to send.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gateway.model.catalog import quote, quote_parts
from gateway.model.reading import ExpressionNode, FunctionRef, Parameter, Reading
from gateway.model.statement import SessionContext
from gateway.sql.required import Unsupported

_SYSTEM = ("`system`.`builtin`", "`system`.`session`")


def search_path(context: SessionContext, *, builtin: bool = True) -> str:
    """Return where Spark looks for a name without a database: `builtin` for what could be a function too."""
    current = quote_parts((context.catalog, *context.namespace))
    return f"[{', '.join((*(_SYSTEM if builtin else _SYSTEM[1:]), current))}]"


def build_path_refusal() -> Unsupported:
    """Return the refusal of SET PATH, in the words of Spark with the value that its setting has here."""
    key = '"spark.sql.path.enabled"'
    return Unsupported(
        "[UNSUPPORTED_FEATURE.SET_PATH_WHEN_DISABLED] The feature is not supported: SET PATH is disabled. "
        f"Set {key} to true to enable it. SQLSTATE: 0A000",
        "0A000",
        parameters=(("config", key),),
    )


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


def build_temporary_reference_refusal(
    made: Iterable[str], temporary: Iterable[str], *, kind: str = "VIEW", of: str = "VIEW"
) -> Unsupported:
    """Return the refusal of a persistent view or function (`kind`) that reads, or calls, a temporary one
    (`of`), in Spark's words."""
    name, read = quote_parts(tuple(made)), quote_parts(tuple(temporary))
    return Unsupported(
        f"[INVALID_TEMP_OBJ_REFERENCE] Cannot create the persistent object {name} of the type {kind} because "
        f"it references to the temporary object {read} of the type {of}. Please make the temporary object "
        f"{read} persistent, or make the persistent object {name} temporary. SQLSTATE: 42K0F",
        "42K0F",
        parameters=(("obj", kind), ("objName", name), ("tempObj", of), ("tempObjName", read)),
    )


def build_variable_refusal(parts: tuple[str, ...], context: SessionContext | None = None) -> Unsupported:
    """Return the refusal of a name that no variable can have, in Spark's words. `context`: of a variable that
    is used, and not declared."""
    name = quote_parts(parts)
    path = search_path(context) if context is not None else f"[{_SYSTEM[1]}]"
    return Unsupported(
        f"[UNRESOLVED_VARIABLE] Cannot resolve variable {name} on search path {path}. SQLSTATE: 42883",
        "42883",
        parameters=(("variableName", name), ("searchPath", path)),
    )


def build_no_name_refusal(expression: str, kind: str) -> Unsupported:
    """Return the refusal of a literal in IDENTIFIER(…) that is no string, in Spark's words."""
    why = f"The data type of the expression is {kind}."
    return Unsupported(
        f"[NOT_A_CONSTANT_STRING.WRONG_TYPE] The expression {expression} used for the routine or clause "
        f"IDENTIFIER must be a constant STRING which is NOT NULL. {why} SQLSTATE: 42601",
        "42601",
        parameters=(("expr", expression), ("name", "IDENTIFIER"), ("dataType", kind)),
    )


def build_no_constant_refusal(expression: str, condition: str) -> Unsupported:
    """Return the refusal of an argument of IDENTIFIER that is NULL, or no constant, in Spark's words."""
    why = (
        "The expression evaluates to NULL."
        if condition == "NULL"
        else "To be considered constant the expression must not depend on any columns, contain a subquery, "
        "or invoke a non deterministic function such as rand()."
    )
    return Unsupported(
        f"[NOT_A_CONSTANT_STRING.{condition}] The expression {expression} used for the routine or clause "
        f"IDENTIFIER must be a constant STRING which is NOT NULL. {why} SQLSTATE: 42601",
        "42601",
        parameters=(("expr", expression), ("name", "IDENTIFIER")),
    )


def build_text_type_refusal(kind: str) -> Unsupported:
    """Return the refusal of a text of EXECUTE IMMEDIATE that is a literal but no string, in Spark's words."""
    written = f'"{kind.upper()}"'
    return Unsupported(
        f"[INVALID_EXPR_TYPE_FOR_QUERY_EXECUTE_IMMEDIATE] Expression type must be string type but got "
        f"{written}. SQLSTATE: 42K09",
        "42K09",
        parameters=(("exprType", written),),
    )


def build_parameter_refusal(expression: ExpressionNode, text: str) -> Unsupported:
    """Return the refusal of a query among the arguments of EXECUTE IMMEDIATE, in Spark's words."""
    written = expression.span.of(text) if expression.span is not None else "a query"
    return Unsupported(
        "[UNSUPPORTED_EXPR_FOR_PARAMETER] A query parameter contains unsupported expression.\nParameters can "
        f'either be variables or literals.\nInvalid expression: ["{written}"] SQLSTATE: 42K0E',
        "42K0E",
        parameters=(("invalidExprSql", f'"{written}"'),),
    )


def build_into_refusal(text: str) -> Unsupported:
    """Return the refusal of EXECUTE IMMEDIATE … INTO with what is no query, in Spark's words."""
    return Unsupported(
        "[INVALID_STATEMENT_FOR_EXECUTE_INTO] The INTO clause of EXECUTE IMMEDIATE is only valid for queries "
        f"but the given statement is not a query: {text.upper()}. SQLSTATE: 07501",
        "07501",
        parameters=(("sqlString", text.upper()),),
    )


def build_mixed_parameters_refusal() -> Unsupported:
    """Return the refusal of a text with markers of both kinds, in Spark's words."""
    return Unsupported(
        "[INVALID_QUERY_MIXED_QUERY_PARAMETERS] Parameterized query must either use positional, or named "
        "parameters, but not both. SQLSTATE: 42613",
        "42613",
    )


def build_unnamed_parameters_refusal(values: Iterable[str]) -> Unsupported:
    """Return the refusal of arguments without a name for markers that have one, in Spark's words."""
    told = ", ".join(f'"{value}"' for value in values)
    return Unsupported(
        "[ALL_PARAMETERS_MUST_BE_NAMED] Using name parameterized queries requires all parameters to be "
        f"named. Parameters missing names: {told}. SQLSTATE: 07001",
        "07001",
        parameters=(("exprs", told),),
    )


def build_schema_refusal(schema: str) -> Unsupported:
    """Return the refusal of a literal that is no string where a schema is wanted, in Spark's words."""
    return Unsupported(
        f'[INVALID_SCHEMA.NON_STRING_LITERAL] The input schema "{schema}" is not a valid schema string. The '
        "input expression must be string literal and not null. SQLSTATE: 42K07",
        "42K07",
        parameters=(("inputSchema", f'"{schema}"'),),
    )


def build_arguments_refusal(
    function: Iterable[str], parameters: Sequence[str], condition: str, name: str = "", actual: int = 0
) -> Unsupported:
    """Return the refusal of a call whose arguments do not fit a function, in Spark's words. `name`: of the
    parameter that is wrong."""
    routine, quoted = quote_parts(tuple(function)), quote(name)
    call, sqlstate = f"Call to routine {routine} is invalid because it includes multiple argument ", "4274K"
    same = f"{call}assignments to the same parameter name {quoted}. "
    match condition:
        case "WRONG_NUM_ARGS.WITHOUT_SUGGESTION":
            sqlstate = "42605"
            why = (
                f"The {routine} requires {len(parameters)} parameters but the actual number is {actual}. "
                "Please, refer to 'https://spark.apache.org/docs/latest/sql-ref-functions.html' for a fix."
            )
        case "UNEXPECTED_POSITIONAL_ARGUMENT":
            why = (
                f"Cannot invoke routine {routine} because it contains positional argument(s) following the "
                f"named argument assigned to {quoted}; please rearrange them so the positional arguments "
                "come first and then retry the query again."
            )
        case "UNRECOGNIZED_PARAMETER_NAME":
            why = (
                f"Cannot invoke routine {routine} because the routine call included a named argument "
                f"reference for the argument named {quoted}, but this routine does not include any signature "
                "containing an argument with this name. Did you mean one of the following? "
                f"[{' '.join(quote(one) for one in parameters)}]."
            )
        case "REQUIRED_PARAMETER_NOT_FOUND":
            why = (
                f"Cannot invoke routine {routine} because the parameter named {quoted} is required, but the "
                "routine call did not supply a value. Please update the routine call to supply an argument "
                f"value (either positionally at index {[*parameters].index(name)} or by name) and retry the "
                "query again."
            )
        case "DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT.BOTH_POSITIONAL_AND_NAMED":
            why = (
                f"{same}A positional argument and named argument both referred to the same parameter. Please "
                "remove the named argument referring to this parameter."
            )
        case _:
            why = (
                f"{same}More than one named argument referred to the same parameter. Please assign a value "
                "only once."
            )
    return Unsupported(f"[{condition}] {why} SQLSTATE: {sqlstate}", sqlstate)
