"""What Spark says of a policy's text on a table: it is analysed over a relation without rows.

INVARIANT (nothing runs): Spark describes a query and does not begin it, and the text is one expression, as
its own parser read it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from gateway.errors import BackendUnavailable
from gateway.model.catalog import Table, quote
from gateway.model.policy import FilterItem, MaskItem
from gateway.pipeline.table_checks import ExistingName, FittingText, join_first_names, kind_of
from gateway.policy.column_types import column_type
from gateway.policy.transformers import hive_masking
from gateway.session.ports import BackendError

_TRUTHS = frozenset({"boolean", "void"})
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\] ([^\n]*)")
_BEHIND = re.compile(r" (?:SQLSTATE: \w{5}.*|Did you mean .*)")
_OF_THE_TEXT = ("07", "21", "22", "42", "0A")
"""Classes of SQLSTATEs of errors that are the text's own."""

Ask = Callable[[str], Awaitable[Sequence[Sequence[object]]]]
"""Runs one statement in a session of the gateway's own, and raises BackendError as Spark does."""


async def text_fault(text: FittingText, ask: Ask) -> str | None:
    """Return what Spark says against a text on a table, None: nothing. Raises BackendUnavailable where its
    answer is not about the text."""
    item, table = text.item, text.table
    expression = _expression(text)
    if expression is None:
        return None
    where = join_first_names([ExistingName((table.name.catalog, table.name.database, table.name.table))])
    try:
        rows = await ask(f"DESCRIBE QUERY SELECT {expression} AS `v` FROM {await _relation(table, ask)}")
    except BackendError as error:
        if not (error.sqlstate or "42").startswith(_OF_THE_TEXT):
            raise BackendUnavailable(f"Spark answered {in_short(error.message)}") from None
        return f"Spark refuses this {kind_of(item)} for {where}: {in_short(error.message)}"
    type_ = str(rows[0][1]).lower() if rows else "boolean"
    if isinstance(item, FilterItem) and type_ not in _TRUTHS:
        return f"this filter has type {type_} for {where}; it must be boolean"
    return None


def _expression(text: FittingText) -> str | None:
    """Return the expression that a guard would have; None where the mask's type says what that is."""
    if isinstance(text.item, MaskItem):
        type_ = next((one.type for one in text.table.columns if one.name.lower() == text.column), "")
        sql = column_type(type_).sql
        if sql is None or hive_masking(text.item.text) is not None:
            return None
        return f"TRY_CAST((\n{text.text}\n) AS {sql})"
    return f"(\n{text.text}\n)"


async def _relation(table: Table, ask: Ask) -> str:
    """Return a relation without rows that has the table's columns; the table, where Spark takes none such."""
    columns = ", ".join(f"CAST(NULL AS {one.type}) AS {quote(one.name)}" for one in table.columns)
    empty = f"(SELECT {columns}) AS {quote(table.name.table)}"
    try:
        await ask(f"DESCRIBE QUERY SELECT * FROM {empty}")
    except BackendError:
        return f"{'.'.join(map(quote, table.name.parts))} AS {quote(table.name.table)}"
    return empty


def in_short(message: str) -> str:
    """Return the first sentence of an error of Spark's, without what names other things that there are."""
    found = _CONDITION.search(message)
    told = f"[{found[1]}] {found[2]}" if found is not None else message.partition("\n")[0]
    return _BEHIND.sub("", told)[:300]
