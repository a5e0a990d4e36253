"""Tables that are closed since a policy names a column that they do not have (`unmatched_columns`)."""

from __future__ import annotations

from dataclasses import replace

from gateway.model.catalog import CatalogSnapshot, Table
from gateway.policy.unmatched import ResourceNames
from gateway.policy.views import TableView


def close_unmatched_view(
    view: TableView, table: Table, catalog: CatalogSnapshot, names: ResourceNames | None
) -> TableView:
    """Return a view of nothing where a column that policies name is not there; without `names`, the view.

    A version is held against the columns that its table has now: policies speak of those.
    """
    if names is None:
        return view
    now = catalog.table(table.name.current) or table  # RULE (version-unmatched-columns)
    found = names.find_unmatched(now.name, now.columns)
    if found is None:
        return view
    named, column = found
    why = (
        f"{named.owner} refers to column `{column.text}`, which table {now.name} does not have; the table "
        "is closed until it has every column that policies name (`policies.unmatched_columns`)"
    )
    return replace(view, hidden=frozenset(one.name for one in table.columns), closed=why)
