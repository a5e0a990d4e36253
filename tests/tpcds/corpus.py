"""All queries of TPC-DS in Spark's dialect, and all of its tables: for readers that need no data."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent / "all"


def _queries() -> dict[str, str]:
    """Return the queries of Spark's own tests (versions 1.4, and 2.7 with an `a`), by name."""
    found = {}
    for part in (HERE / "queries.sql").read_text(encoding="utf-8").split("\n;\n"):
        name, _, text = part.strip().removeprefix("-- ").partition("\n")
        if text:
            found[name] = text
    return found


QUERIES = _queries()


def _tables() -> dict[str, dict[str, str]]:
    found = {}
    for line in (HERE / "tables.txt").read_text(encoding="utf-8").splitlines():
        table, _, columns = line.partition(": ")
        found[table] = dict(column.split(" ", 1) for column in columns.split(", "))
    return found


TABLES: dict[str, dict[str, str]] = _tables()
