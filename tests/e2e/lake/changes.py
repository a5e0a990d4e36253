"""What UPDATE and DELETE may change of a table of which their user sees a part, for every format."""

from __future__ import annotations

from tests.e2e.lake.worlds import LakeSpark, Twins

FAILING = "if(id IN (2, 12), raise_error('seen'), {})"
"""A condition that fails on rows that are hidden."""


def require_hidden_rows_stay(lake: LakeSpark, bob: Twins, provider: str, catalog: str = "") -> None:
    """Change rows over both, and require that hidden ones are neither changed nor asked about.

    A filter on `moved_rows` and `kept_rows` leaves those of EMEA; `contact` of the first is masked.
    """
    rows = "(1, 'a', 'EMEA', 'x'), (3, 'c', 'EMEA', NULL), (4, 'd', 'EMEA', 'y')"
    hidden = "(2, 'b', 'AMER', 'z'), (12, 'e', NULL, 'z')"
    columns = "(id INT, contact STRING, region STRING, note STRING)"
    for db, values in (("shop", f"{rows}, {hidden}"), ("shop_copy", rows)):
        for table in ("moved_rows", "kept_rows"):
            lake.spark.query(
                f"CREATE TABLE {catalog}{db}.{table} {columns} USING {provider}",
                f"INSERT INTO {catalog}{db}.{table} VALUES {values}",
                user="loader",
            )
    for text in (
        f"DELETE FROM {{db}}.kept_rows WHERE {FAILING.format('id = 1')}",
        f"UPDATE {{db}}.moved_rows SET note = 'n', id = id + 10 WHERE {FAILING.format('note IS NULL')}",
        f"UPDATE {{db}}.moved_rows m SET region = 'APAC' WHERE {FAILING.format('m.id = 4')} AND id > 3",
    ):
        bob.same(text)
    own = f"{bob.ours.database}.moved_rows"
    for text in (
        f"DELETE FROM {own} WHERE id = 1",  # with a row goes what its masked columns hide
        f"UPDATE {own} SET note = _file WHERE id = 1",  # the path of a file has the values of its partition
        f"UPDATE {own} SET note = _metadata.file_path WHERE id = 1",
        f"UPDATE {own} SET note = max(note) OVER () WHERE TRUE",
        f"UPDATE {own} AS region SET note = 'n' WHERE TRUE",  # the filter's own column is another's field
    ):
        assert "SLUICE_" in str(bob.ours.message(text)), text
    if provider == "delta":
        check = f"ALTER TABLE {catalog}shop.moved_rows ADD CONSTRAINT c CHECK (contact IS NOT NULL)"
        lake.spark.query(check, user="loader")
        assert "SLUICE_" in str(bob.ours.message(f"UPDATE {own} SET note = 'n' WHERE id = 1"))
    # Spark's words for a condition have the filter in them.
    assert "EMEA" not in str(bob.ours.message(f"UPDATE {bob.ours.database}.kept_rows SET id = 9 WHERE id"))
    bob.same("SELECT id, region, note FROM {db}.moved_rows WHERE region = 'EMEA' ORDER BY id")
    for table, ids, notes in (
        ("moved_rows", [1, 2, 4, 12, 13], ["x", "z", "y", "z", "n"]),
        ("kept_rows", [2, 3, 4, 12], ["z", None, "y", "z"]),
    ):
        kept = lake.spark.query(f"SELECT id, note FROM {catalog}shop.{table} ORDER BY id", user="loader")
        assert [tuple(row) for row in kept] == list(zip(ids, notes, strict=True))
