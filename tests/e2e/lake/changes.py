"""What UPDATE and DELETE may change of a table of which their user sees a part, for every format."""

from __future__ import annotations

from tests.e2e.lake.worlds import LakeSpark, Twins

FAILING = "if(id IN (2, 12), raise_error('seen'), {})"
"""A condition that fails on rows that are hidden."""


def require_hidden_rows_stay(lake: LakeSpark, bob: Twins, provider: str, catalog: str = "") -> None:
    """Change rows over both, and require that hidden ones are neither changed nor asked about.

    A filter on `moved_rows` leaves those of EMEA, and `contact` is masked.
    """
    rows = "(1, 'a', 'EMEA', 'x'), (3, 'c', 'EMEA', NULL), (4, 'd', 'EMEA', 'y')"
    hidden = "(2, 'b', 'AMER', 'z'), (12, 'e', NULL, 'z')"
    columns = "(id INT, contact STRING, region STRING, note STRING)"
    for db, values in (("shop", f"{rows}, {hidden}"), ("shop_copy", rows)):
        lake.spark.query(
            f"CREATE TABLE {catalog}{db}.moved_rows {columns} USING {provider}",
            f"INSERT INTO {catalog}{db}.moved_rows VALUES {values}",
            user="loader",
        )
    for text in (
        f"DELETE FROM {{db}}.moved_rows WHERE {FAILING.format('id = 1')}",
        f"UPDATE {{db}}.moved_rows SET note = 'n', id = id + 10 WHERE {FAILING.format('note IS NULL')}",
        f"UPDATE {{db}}.moved_rows m SET region = 'APAC' WHERE {FAILING.format('m.id = 4')} AND id > 3",
    ):
        bob.same(text)
    bob.same("SELECT id, region, note FROM {db}.moved_rows WHERE region = 'EMEA' ORDER BY id")
    kept = lake.spark.query(
        f"SELECT id, region, note FROM {catalog}shop.moved_rows ORDER BY id, note", user="loader"
    )
    assert [tuple(row) for row in kept] == [
        (2, "AMER", "z"),
        (4, "APAC", "y"),
        (12, None, "z"),
        (13, "EMEA", "n"),
    ]
