"""What formats name beside their tables: told in messages and on the page alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.model.statement import SessionContext
from gateway.model.system_tables import (
    SYSTEM_TABLES,
    NameForm,
    Treatment,
    explain,
    write_rows,
)
from gateway.model.table_formats import FORMATS, METADATA_TABLES
from gateway.sql.names import Names, Ungovernable

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def test_the_page_has_every_row() -> None:
    assert write_rows() in PAGE.read_text(encoding="utf-8"), "write_rows() is what docs/formats.md has"


def test_every_format_has_rows_and_each_that_is_refused_says_what_to_use() -> None:
    assert SYSTEM_TABLES.keys() == FORMATS.keys() | {"hudi"}
    for rows in SYSTEM_TABLES.values():
        names = [(one.naming, name) for one in rows for name in one.listed]
        assert len(names) == len(set(names))
        assert all(one.instead for one in rows if one.passing is Treatment.REFUSED)


def test_tables_of_metadata_are_those_that_pass_so() -> None:
    assert METADATA_TABLES["iceberg"] >= {"files", "snapshots", "position_deletes"}
    assert "audit_log" not in METADATA_TABLES["paimon"]
    assert "delta" not in METADATA_TABLES


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("t$audit_log", "Paimon's `t$audit_log`, which holds every change of a row"),
        ("t$ro", "instead, read the table"),
        ("t$branch_x$files", "the rows of a branch"),
        ("t$BINLOG", "Paimon's `t$BINLOG`"),
        ("t$files", "Paimon's `t$files`, which holds paths"),
        ("t@v3", "Delta's `t@v3`, which holds the table's rows at a version"),
        ("t$no_such", "characters of paths or system tables"),
        ("/t", "characters of paths or system tables"),
    ],
)
def test_a_name_is_refused_with_what_it_holds(name: str, told: str) -> None:
    names = Names(SessionContext(namespace=("shop",)), frozenset({"spark_catalog"}))
    found = names.table(("shop", name))
    assert isinstance(found, Ungovernable)
    assert told in found.why


def test_names_are_told_apart_by_how_they_are_written() -> None:
    assert explain(NameForm.BELOW, "rewrite") is not None
    assert explain(NameForm.AFTER, "rewrite") is None
    assert explain(NameForm.BELOW, "branch_") is None
