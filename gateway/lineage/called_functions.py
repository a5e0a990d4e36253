"""Writes the bodies of SQL functions where a text calls them, so that lineage goes through them as it goes
through the text of a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.model.catalog import LookUp, ViewBody
from gateway.model.reading import FunctionRef, NotRead, Reading
from gateway.reader.port import LineageReader
from gateway.sql import guard
from gateway.sql.call_texts import FoundCall, GuardedFunction, find_calls, write_calls
from gateway.sql.function_calls import list_functions_of_databases
from gateway.sql.names import Names
from gateway.sql.required import Unsupported

MAX_DEPTH: Final = 8
"""Functions whose bodies call others, that deep."""
MAX_CHARS: Final = 262_144
"""Of a text with bodies in it; a longer one is taken as it is."""
_VALUE: Final = "SELECT ("

_Known = Mapping[tuple[tuple[str, ...], bool], GuardedFunction]


async def write_bodies(
    text: str, reading: Reading, names: Names, look_up: LookUp, reader: LineageReader, depth: int = 0
) -> tuple[str, Reading] | NotRead:
    """Return a text with the bodies of the functions that it calls, and its reading; both as they are where
    it calls none, or where one cannot be written in its place. Raises what the look-up raises."""
    called = list_functions_of_databases(reading.functions, names)
    if not called or depth == MAX_DEPTH:
        return text, reading
    snapshot = await look_up(sorted({name.fold() for _, name in called}, key=str))
    known: dict[tuple[tuple[str, ...], bool], GuardedFunction] = {}
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
    return f"{'.'.join(call.function.name.parts)}({given})"
