"""Whether the rows of a plan are the same for everybody and at any time: `sql/varying.py` for plans."""

from __future__ import annotations

from gateway.model.handles import SparkHandle, functions_called
from gateway.model.reading import FunctionRef
from gateway.model.spark_minors import Minor
from gateway.plan.facts import RESERVED_FUNCTIONS, PlanFacts
from gateway.plan.reading import FunctionCall, PlanReading
from gateway.sql.functions import is_of
from gateway.sql.names import Names, TempViewName
from gateway.sql.varying import WITHIN, find_varying_column, find_varying_function, find_varying_view


def find_varying_parts(reading: PlanReading, facts: PlanFacts, names: Names) -> str:
    """Return what of a plan, beside the texts within it, makes its rows change, in words, or nothing.

    Who the user is has been bound as a literal. Code of the user's is in the plan with its bytes, or
    registered under a name in this session only.
    """
    handles = names.context.handles
    called = (call for call in dict.fromkeys(reading.functions) if not _is_code(call, handles))
    calls = (_function(call, reading.minor) for call in called)
    found = find_varying_function(calls)
    for column in reading.columns:
        found = found or (None if column.star else find_varying_column(column.parts))
    if found is None and reading.within and (facts.reads or reading.texts):
        found = WITHIN
    for name in sorted(facts.temp_views):
        found = found or find_varying_view(TempViewName(name), names)
    return found or ""


def _function(call: FunctionCall, minor: Minor) -> FunctionRef:
    name = call.parts[0].lower()
    builtin = len(call.parts) == 1 and name in RESERVED_FUNCTIONS and is_of(name, minor)
    return FunctionRef(parts=call.parts, table_valued=call.table_valued, builtin=builtin)


def _is_code(call: FunctionCall, handles: frozenset[SparkHandle]) -> bool:
    return len(call.parts) == 1 and not handles.isdisjoint(functions_called(call.parts[0].lower()))
