"""What table formats name beside a table's own name: metadata, versions, branches, change logs.

One row for each name, with what it holds and whether it passes: names, messages and docs/formats.md are
made of these rows. What is not here is refused as an unknown name.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Passing(enum.Enum):
    """How a system table passes."""

    METADATA = "with the access type `metadata`, to whoever sees all of the table"
    """It holds values, bounds of values, counts and paths, whichever rows and columns these are of."""
    GUARDED = "with the table's row filters and masks"
    REFUSED = "refused"


class Naming(enum.Enum):
    """How a format writes the name of a system table: `{}` stands for it."""

    BELOW = "t.{}"
    AFTER = "t${}"
    CALL = "{}('db.t', …)"
    COLUMN = "{}"
    SUFFIX = "t@{}"


@dataclass(frozen=True, slots=True)
class SystemTable:
    """Names that a format reads in one way."""

    names: str
    """Divided by blanks; one that ends with `*` stands for all that begin so."""
    naming: Naming
    holds: str
    passing: Passing
    instead: str = ""
    """Of what is refused: what to use. Of the others: what is left out."""

    @property
    def listed(self) -> tuple[str, ...]:
        return tuple(self.names.split())

    def is_named(self, name: str) -> bool:
        """Whether a name, in lower case, is one of these."""
        return any(
            name.startswith(one[:-1]) and len(name) >= len(one) if one.endswith("*") else name == one
            for one in self.listed
        )


_BOUNDS = "paths, sizes, counts and bounds of values of its files"
_READ_VERSION = "read a version by `VERSION AS OF` or `TIMESTAMP AS OF`"

SYSTEM_TABLES: Mapping[str, tuple[SystemTable, ...]] = {
    "iceberg": (
        SystemTable(
            "files data_files delete_files all_files all_data_files all_delete_files",
            Naming.BELOW,
            _BOUNDS,
            Passing.METADATA,
        ),
        SystemTable(
            "entries all_entries", Naming.BELOW, f"{_BOUNDS}, and when these came and went", Passing.METADATA
        ),
        SystemTable(
            "manifests all_manifests",
            Naming.BELOW,
            "paths of manifests, bounds of partitions",
            Passing.METADATA,
        ),
        SystemTable(
            "partitions", Naming.BELOW, "values of partitions, counts of their rows", Passing.METADATA
        ),
        SystemTable(
            "position_deletes",
            Naming.BELOW,
            "places of deleted rows, and the rows where kept",
            Passing.METADATA,
        ),
        SystemTable(
            "snapshots history refs metadata_log_entries",
            Naming.BELOW,
            "snapshots, branches and tags with their times, paths and counts of rows",
            Passing.METADATA,
        ),
        SystemTable(
            "branch_* tag_* snapshot_id_* at_timestamp_*",
            Naming.BELOW,
            "the table's rows in a branch, at a tag, a snapshot or a time",
            Passing.GUARDED,
        ),
        SystemTable(
            "changes",
            Naming.BELOW,
            "rows that were added and removed, and by which snapshot",
            Passing.GUARDED,
            "without a range: Spark has no clause for one",
        ),
        SystemTable(
            "rewrite",
            Naming.BELOW,
            "files that a compaction has staged",
            Passing.REFUSED,
            "call rewrite_data_files",
        ),
    ),
    "delta": (
        SystemTable(
            "table_changes",
            Naming.CALL,
            "rows that were added, removed and changed, and by which version",
            Passing.GUARDED,
        ),
        SystemTable(
            "table_changes_by_path",
            Naming.CALL,
            "the same of a directory that policies know no table of",
            Passing.REFUSED,
            "call table_changes with the table's name",
        ),
        SystemTable(
            "v* *", Naming.SUFFIX, "the table's rows at a version or a time", Passing.REFUSED, _READ_VERSION
        ),
    ),
    "paimon": (
        SystemTable("files", Naming.AFTER, f"{_BOUNDS}, and keys", Passing.METADATA),
        SystemTable("manifests", Naming.AFTER, "paths and sizes of manifests", Passing.METADATA),
        SystemTable(
            "partitions", Naming.AFTER, "values of partitions, counts of their rows", Passing.METADATA
        ),
        SystemTable("statistics", Naming.AFTER, "counts and extremes of columns", Passing.METADATA),
        SystemTable(
            "snapshots tags branches consumers",
            Naming.AFTER,
            "snapshots, tags, branches and readers, with counts of rows",
            Passing.METADATA,
        ),
        SystemTable(
            "schemas options aggregation_fields",
            Naming.AFTER,
            "columns and options that the table has and had",
            Passing.METADATA,
        ),
        SystemTable(
            "audit_log binlog",
            Naming.AFTER,
            "every change of a row, with its kind, past row filters and masks",
            Passing.REFUSED,
            f"{_READ_VERSION}, and compare",
        ),
        SystemTable(
            "ro",
            Naming.AFTER,
            "the table's rows as far as they are compacted, past row filters and masks",
            Passing.REFUSED,
            "read the table",
        ),
        SystemTable(
            "branch_*",
            Naming.AFTER,
            "the rows of a branch, and its system tables, past row filters and masks",
            Passing.REFUSED,
            "read the table, or have the branch fast-forwarded",
        ),
        SystemTable(
            "buckets table_indexes row_tracking file_key_ranges",
            Naming.AFTER,
            "what later versions of Paimon tell of files and rows",
            Passing.REFUSED,
            "read `$files` or `$partitions`",
        ),
        SystemTable(
            "paimon_incremental_query paimon_incremental_between_timestamp paimon_incremental_to_auto_tag",
            Naming.CALL,
            "rows that were added between two snapshots, past row filters and masks",
            Passing.REFUSED,
            f"{_READ_VERSION}, and compare",
        ),
    ),
}

_TITLES = {"iceberg": "Iceberg", "delta": "Delta", "paimon": "Paimon"}


def list_names(format_name: str, passing: Passing, naming: Naming) -> frozenset[str]:
    """Return the names of a format, in lower case, that pass in one way."""
    return frozenset(
        name
        for one in SYSTEM_TABLES.get(format_name, ())
        if one.passing is passing and one.naming is naming
        for name in one.listed
    )


def is_system_table(naming: Naming, name: str) -> bool:
    """Whether some format reads a name in this way."""
    return any(
        one.naming is naming and one.is_named(name.lower())
        for tables in SYSTEM_TABLES.values()
        for one in tables
    )


def explain(naming: Naming, name: str) -> str | None:
    """Say what some format has under a name that is written in this way, and what to use instead, to continue
    a sentence that begins with the name; None for a name that no format has.

    It tells nothing of what is there: neither whether there is such a table, nor what its format is.
    """
    written = naming.value.format(name)
    for format_name, tables in SYSTEM_TABLES.items():
        for one in tables:
            if one.naming is naming and one.is_named(name.lower()):
                instead = (
                    f"; instead, {one.instead}" if one.passing is Passing.REFUSED and one.instead else ""
                )
                return f"is named as {_TITLES[format_name]}'s `{written}`, which holds {one.holds}{instead}"
    return None


def write_rows() -> str:
    """Return the table of docs/formats.md."""
    lines = ["| | written | holds | passes |", "|---|---|---|---|"]
    for format_name, tables in SYSTEM_TABLES.items():
        for one in tables:
            written = ", ".join(f"`` {one.naming.value.format(name)} ``" for name in one.listed)
            passes = one.passing.value
            if one.instead:
                passes += f"; {one.instead}"
            lines.append(f"| {_TITLES[format_name]} | {written} | {one.holds} | {passes} |")
    return "\n".join(lines) + "\n"
