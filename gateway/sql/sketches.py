"""Guarded relations whose plan is shown: what stands in them of policies is left out."""

from __future__ import annotations

from gateway.model.catalog import Table, TableKind, quote
from gateway.model.reading import Relation
from gateway.policy.engine import TableView
from gateway.sql.evaluate import list_hidden_columns, masks_of
from gateway.sql.guard import BARRIER, GuardedRelation, write_table_name


def sketch_scan(relation: Relation, table: Table, view: TableView) -> GuardedRelation | None:
    """Return what stands in for one scan where its plan is shown; None for what has more to it than masks and
    a filter."""
    query = write_sketch(table, view) if relation.suffix is None else None
    if query is None:
        return None
    return GuardedRelation(relation=relation, table=table, query=query, has_obligations=True, sketched=True)


def write_sketch(table: Table, view: TableView) -> str | None:
    """Return the query that stands for a table where a plan is shown: its columns, with NULL for masked ones,
    and the barrier; None for what has more to it than masks and a filter.

    INVARIANT (no values under obligations): nothing of a condition from around reaches the table, so that no
    list of partitions or files in the plan depends on its rows.
    """
    # RULE (sketched-columns)
    if table.kind is not TableKind.TABLE or list_hidden_columns(table, view) or table.renamed:
        return None
    if table.name.version:
        return None
    masks = masks_of(view)
    columns = ", ".join(
        f"CAST(NULL AS {c.type}) AS {quote(c.name)}" if c.name in masks else quote(c.name)
        for c in table.columns
    )
    source, alias = write_table_name(table), quote(table.name.table)
    return f"SELECT {columns} FROM (SELECT * FROM {source}) {BARRIER.format(period=0)} AS {alias}"
