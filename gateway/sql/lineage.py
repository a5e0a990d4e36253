"""`lineage_of`: a statement and what its names stand for in, its column lineage out. Never raises.

Spark's reading says what the statement is, what it writes and which relations it reads; sqlglot's tree says
how columns flow between them. Where sqlglot cannot parse a statement, or sees other relations or columns than
Spark, there are no edges between columns and `table_level` says why.

It takes as long as the statement is large. Whoever runs it gives it a process and a deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from gateway.algebra.lineage_values import MAX_WORK
from gateway.algebra.usage import Unclear
from gateway.model.lineage import RESULT, Operation, StatementLineage
from gateway.model.reading import RelationRole
from gateway.sql.lineage_extraction import Extraction
from gateway.sql.lineage_sources import (
    LineageCatalog,
    LineageText,
    read_datasets,
    scans_of,
    target_of,
)
from gateway.sql.lineage_writes import Write, trace_rename, writes_of

T = TypeVar("T")
__all__ = ["LineageCatalog", "LineageText", "lineage_of", "table_lineage"]


def lineage_of(
    statement: LineageText, catalog: LineageCatalog, *, max_work: int = MAX_WORK
) -> StatementLineage | None:
    """Return the lineage of a statement; None for one that neither moves rows nor shows any. A table that is
    renamed is one that is made of the other.

    `catalog` has what the statement reads, what views read, and what it writes. `max_work` bounds how many
    dependencies between columns are followed; above it the lineage is table-level.
    """
    if statement.parts:
        return _join([lineage_of(part, catalog, max_work=max_work) for part in statement.parts])
    try:
        writes = writes_of(statement, catalog)
    except Unclear as unclear:
        return table_lineage(statement, catalog, unclear.why)
    found = _of_tables(statement, catalog, writes)
    if found is None:
        return trace_rename(statement, catalog)
    try:
        return Extraction(catalog, max_work).statement(statement, writes, found, {})
    except Unclear as unclear:
        why = unclear.why
    except RecursionError:
        why = "the statement is nested too deep"
    return replace(found, table_level=why)


def table_lineage(statement: LineageText, catalog: LineageCatalog, why: str) -> StatementLineage | None:
    """Return which tables a statement reads and writes, by Spark's reading alone; `why` no more is known."""
    if statement.parts:
        return _join([table_lineage(part, catalog, why) for part in statement.parts])
    try:
        writes = writes_of(statement, catalog)
    except Unclear as unclear:
        inputs, views = read_datasets(scans_of(statement), catalog)
        written = (r.parts for r in statement.reading.relations if r.role is RelationRole.TARGET)
        return StatementLineage(
            operation=Operation.INSERT,
            targets=tuple(dict.fromkeys(target_of(name, statement.names, catalog)[0] for name in written)),
            inputs=tuple(inputs),
            views=tuple(views),
            table_level=unclear.why,
        )
    found = _of_tables(statement, catalog, writes)
    return trace_rename(statement, catalog) if found is None else replace(found, table_level=why)


def _join(parts: Sequence[StatementLineage | None]) -> StatementLineage | None:
    """Return the lineage of a script, of all that is in it. Where one of its statements has no edges between
    columns, the script has none: every input may feed every target."""
    found = [part for part in parts if part is not None]
    if not found:
        return None
    why = next((part.table_level for part in found if part.table_level), "")
    writing = [part for part in found if any(target != RESULT for target in part.targets)] or found
    return StatementLineage(
        operation=writing[0].operation,
        targets=_all(part.targets for part in found),
        inputs=_all(part.inputs for part in found),
        views=_all(part.views for part in found),
        columns=() if why else _all(part.columns for part in found),
        edges=() if why else _all(part.edges for part in found),
        view_edges=() if why else _all(part.view_edges for part in found),
        table_level=why,
        unread=_all(part.unread for part in found),
        guessed=_all(part.guessed for part in found),
    )


def _all(several: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(one for each in several for one in each))


def _of_tables(
    statement: LineageText, catalog: LineageCatalog, writes: list[Write]
) -> StatementLineage | None:
    if not writes:
        return None
    inputs, views = read_datasets(scans_of(statement), catalog)
    return StatementLineage(
        operation=writes[0].operation,
        targets=tuple(dict.fromkeys(write.dataset for write in writes)),
        inputs=tuple(inputs),
        views=tuple(views),
    )
