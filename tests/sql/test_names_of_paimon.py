"""Names with `$`: metadata of a Paimon table, or nobody's."""

from __future__ import annotations

import pytest

from gateway.model.catalog import TableName
from gateway.model.statement import SessionContext
from gateway.sql.names import MetadataTable, Names, Ungovernable

NAMES = Names(
    SessionContext(catalog="lake", namespace=("shop",), temp_views=frozenset({"t$tags"})),
    frozenset({"lake", "spark_catalog"}),
)
T = TableName("lake", "shop", "t")


@pytest.mark.parametrize("parts", [("t$files",), ("shop", "t$FILES"), ("lake", "shop", "t$files")])
def test_a_listed_part_is_metadata_of_the_table_before_it(parts: tuple[str, ...]) -> None:
    found = NAMES.metadata_table(parts)
    assert found == MetadataTable(T, "paimon", "files")
    assert found.parts == ("lake", "shop", "t$files")


@pytest.mark.parametrize(
    "name",
    [
        "t$audit_log",
        "t$ro",
        "t$branch_x",
        "t$branch_x$files",
        "$files",
        "t$",
        "t$$files",
        "t $files",
        "/t$files",
    ],
)
def test_whatever_else_has_the_sign_is_refused(name: str) -> None:
    for parts in ((name,), ("lake", "shop", name)):
        assert NAMES.metadata_table(parts) is None
        assert isinstance(NAMES.table(parts), Ungovernable)


def test_a_temporary_view_and_the_catalog_of_spark_have_no_such_tables() -> None:
    assert NAMES.metadata_table(("t$tags",)) is None
    assert NAMES.metadata_table(("spark_catalog", "shop", "t$files")) is None
