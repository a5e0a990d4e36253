"""What a table is, by what Spark says of it. No Spark."""

from __future__ import annotations

from typing import Any

from gateway.jobs.classification.source import GatewaySource, TableParts

TABLE = TableParts("spark_catalog", "lab", "t")
BEFORE = (("id", "int", None), ("# Detailed Table Information", "string", None), ("# ", "string", None))
COLUMNS = (*BEFORE, ("Type", "string", None), ("# col_name", "string", None), ("ssn", "STRING", "VIEW"))
BEHIND = (
    *(("# Partition Information", "", ""), ("# col_name", "data_type", "comment"), ("id", "int", None)),
    *(("", "", ""), ("# Detailed Table Information", "", ""), ("Type", "MANAGED", ""), ("Owner", "bob", "")),
)


class Told(GatewaySource):
    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self._told = rows

    def _rows(self, text: str) -> Any:
        return list(self._told)


def test_a_column_that_is_named_like_a_heading_hides_none_behind_it() -> None:
    found = Told(*COLUMNS, *BEHIND).describe(TABLE)
    assert [(one.name, one.type) for one in found.columns] == [
        (name, kind.lower()) for name, kind, _ in COLUMNS
    ]
    assert (found.partitioned_by, found.is_view) == (("id",), False)
    assert Told(*BEFORE, *BEHIND[4:5], ("Type", "VIEW", "")).describe(TABLE).is_view
