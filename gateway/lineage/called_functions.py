"""Writes the bodies of SQL functions where a text calls them, so that lineage goes through them as it goes
through the text of a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.model.catalog import FUNCTION, LookUp, TableName, ViewBody, quote_parts
from gateway.model.reading import CommandNode, FunctionRef, NotRead, Reading, RelationRole, Splice
from gateway.reader.port import LineageReader
from gateway.sql import guard
from gateway.sql.call_texts import FoundCall, GuardedFunction, find_calls, write_calls
from gateway.sql.function_calls import list_functions_of_databases
from gateway.sql.function_commands import list_parameters
from gateway.sql.names import Names
from gateway.sql.required import Unsupported

MAX_DEPTH: Final = 8
"""Functions whose bodies call others, that deep."""
MAX_CHARS: Final = 262_144
"""Of a text with bodies in it; a longer one is taken as it is."""
_OF_SESSION: Final = "system"
"""The catalog that Spark has for functions of the session."""
_VALUE: Final = "SELECT ("

TemporaryFunctions = Mapping[str, GuardedFunction]
NO_TEMPORARY: TemporaryFunctions = {}
_Known = Mapping[tuple[tuple[str, ...], bool], GuardedFunction]


async def write_bodies(
    text: str,
    reading: Reading,
    names: Names,
    look_up: LookUp,
    reader: LineageReader,
    depth: int = 0,
    *,
    temporary: TemporaryFunctions = NO_TEMPORARY,
) -> tuple[str, Reading] | NotRead:
    """Return a text with the bodies of the functions that it calls, and its reading; both as they are where
    it calls none, or where one cannot be written in its place. Raises what the look-up raises.

    `temporary`: functions of the session, by their names, lower case: it calls these by such names.
    """
    of_session = {_key(one): own for one in reading.functions if (own := _find(one, temporary))}
    called = [
        (one, name)
        for one, name in list_functions_of_databases(reading.functions, names)
        if _key(one) not in of_session
    ]
    if not (called or of_session) or depth == MAX_DEPTH:
        return text, reading
    snapshot = await look_up(sorted({name.fold() for _, name in called}, key=str))
    known: dict[tuple[tuple[str, ...], bool], GuardedFunction] = dict(of_session)
    for function, name in called:
        table = snapshot.table(name.fold())
        if table is None or table.view is None or not table.view.body or not table.view.returns:
            continue
        body = await _write_nested(table.view, names, look_up, reader, depth)
        if isinstance(body, NotRead):
            return body
        known[_key(function)] = GuardedFunction(name=table.name, view=table.view, body=body, lends=False)
    calls = find_calls(text, reading, known) if known else ()
    if isinstance(calls, Unsupported) or not calls:
        return text, reading
    splices = write_calls(calls, {call.span.start: _title(text, call) for call in calls}, bare=True)
    if isinstance(splices, Unsupported):
        return text, reading
    written = guard.apply(text, splices)
    found = await reader.read(written) if len(written) <= MAX_CHARS else None
    if isinstance(found, NotRead):
        return found
    return (written, found) if isinstance(found, Reading) else (text, reading)


def _find(function: FunctionRef, temporary: TemporaryFunctions) -> GuardedFunction | None:
    *qualifier, name = (part.lower() for part in function.parts)
    return temporary.get(name) if qualifier in ([], ["session"], [_OF_SESSION, "session"]) else None


async def read_temporary(name: str, text: str, names: Names, reader: LineageReader) -> GuardedFunction | None:
    """Return the function that a statement makes, of its text; None where it is not told. Names in its body
    are written in full, as they were where it was made: `names`."""
    reading = await reader.read(text)
    made = next((one.fields for one in _commands(reading) if "isTableFunc" in one.fields), None)
    if made is None:
        return None
    body, is_table = made.get("queryText") or made.get("exprText"), made.get("isTableFunc") is True
    returned, given = made.get("returnTypeText"), made.get("inputParamText")
    if not isinstance(body, str) or not isinstance(returned, str):
        return None
    inputs = await _list_columns(f"({given})" if given else "", reader)
    outputs = await _list_columns(f"({returned})" if is_table else f"(x {returned})", reader)
    whole = await _write_in_full(body, names, reader, is_table=is_table)
    if inputs is None or not outputs or whole is None:
        return None
    returns = outputs if is_table else tuple(("", kind) for _, kind in outputs)
    view = ViewBody(
        text=whole,
        catalog="",
        database="",
        output=(),
        parameters=inputs,
        is_table=is_table,
        body=whole,
        defaults=("",) * len(inputs),  # a call that leaves one out is taken as it is
        returns=returns,
    )
    function = TableName(_OF_SESSION, "session", name, FUNCTION)
    return GuardedFunction(name=function, view=view, body=whole, lends=False)


def _commands(reading: object) -> tuple[CommandNode, ...]:
    return reading.commands if isinstance(reading, Reading) else ()


async def _list_columns(written: str, reader: LineageReader) -> tuple[tuple[str, str], ...] | None:
    if not written:
        return ()
    reading = await reader.read(f"CREATE TABLE t {written}")
    return list_parameters(reading) if isinstance(reading, Reading) else None


async def _write_in_full(body: str, names: Names, reader: LineageReader, *, is_table: bool) -> str | None:
    reading = await (reader.read(body) if is_table else reader.read_expression(body))
    if not isinstance(reading, Reading):
        reading = await reader.read(body)  # a query that gives a value
    if not isinstance(reading, Reading):
        return None
    splices = []
    for relation in reading.relations:
        found = names.table(relation.parts)
        if relation.role is not RelationRole.SCAN or not isinstance(found, TableName):
            continue
        if relation.span is None:
            return None
        splices.append(Splice(span=relation.span, text=quote_parts(found.parts), kind="pin"))
    return guard.apply(body, splices)


def _key(function: FunctionRef) -> tuple[tuple[str, ...], bool]:
    return function.parts, function.table_valued


async def _write_nested(
    view: ViewBody, names: Names, look_up: LookUp, reader: LineageReader, depth: int
) -> str | NotRead:
    """Return the body of a function with those of the functions that it calls."""
    before, after = ("", "") if view.is_table else (_VALUE, "\n)")
    text = f"{before}{view.body}{after}"
    reading = await reader.read(text)
    if not isinstance(reading, Reading):
        return reading if isinstance(reading, NotRead) else view.body
    found = await write_bodies(text, reading, names, look_up, reader, depth + 1)
    if isinstance(found, NotRead):
        return found
    return found[0][len(before) : len(found[0]) - len(after)]


def _title(text: str, call: FoundCall) -> str:
    """Return what Spark calls a column that is a call, empty for one that has an alias or is none."""
    if not call.heads_column:
        return ""
    given = ", ".join(span.of(text) for _, _, span in call.arguments)
    parts = call.function.name.parts
    # One of the session is called as it is.
    name = parts[-1] if parts[0] == _OF_SESSION else ".".join(parts)
    return f"{name}({given})"
