"""Columns in which a table format keeps values of other columns again: masks of those hold for these."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.catalog import Table
from gateway.model.decision import ColumnMask, PolicyRef
from gateway.model.table_formats import COLUMNS_OF_COPIES
from gateway.policy.views import TableView

MASK_TYPE = "MASK_NULL"


def mask_copied_values(view: TableView, table: Table) -> TableView:
    """Return a view whose columns of copies are NULL where a column is masked or hidden.

    Of which columns these are copies the table's files say, and nobody here: Hudi's `_hoodie_record_key` has
    the key of each row, `name:value,…`, whatever policies say of the columns of the key.
    """
    if {name.lower() for name in (*view.masks, *view.hidden)} <= COLUMNS_OF_COPIES:
        return view
    copies = [c.name for c in table.columns if c.name.lower() in COLUMNS_OF_COPIES]
    found = [name for name in copies if name not in view.hidden]
    if not found:
        return view
    origin = PolicyRef(name="values of masked columns that Hudi keeps again")
    made = {
        name: ColumnMask(column=name, mask_type=MASK_TYPE, expression="CAST(NULL AS STRING)", policy=origin)
        for name in found
    }
    return replace(view, masks={**view.masks, **made}, uniform=lambda: False)  # RULE (copied-values)
