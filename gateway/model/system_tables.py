"""What table formats name beside a table's own name: metadata, versions, branches, change logs.

One row for each name, with what it holds and whether it passes: names, messages and docs/formats.md are
made of these rows. What is not here is refused as an unknown name.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Treatment(enum.Enum):
    """How a system table passes."""

    METADATA = "with the access type `metadata`, to whoever sees all of the table"
    """It holds values, bounds of values, counts and paths, whichever rows and columns these are of."""
    GUARDED = "with the table's row filters and masks"
    REFUSED = "refused"


class NameForm(enum.Enum):
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
    naming: NameForm
    holds: str
    passing: Treatment
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
            NameForm.BELOW,
            _BOUNDS,
            Treatment.METADATA,
        ),
        SystemTable(
            "entries all_entries",
            NameForm.BELOW,
            f"{_BOUNDS}, and when these came and went",
            Treatment.METADATA,
        ),
        SystemTable(
            "manifests all_manifests",
            NameForm.BELOW,
            "paths of manifests, bounds of partitions",
            Treatment.METADATA,
        ),
        SystemTable(
            "partitions",
            NameForm.BELOW,
            "values of partitions, counts of their rows",
            Treatment.METADATA,
        ),
        SystemTable(
            "position_deletes",
            NameForm.BELOW,
            "places of deleted rows, and the rows where kept",
            Treatment.METADATA,
        ),
        SystemTable(
            "snapshots history refs metadata_log_entries",
            NameForm.BELOW,
            "snapshots, branches and tags with their times, paths and counts of rows",
            Treatment.METADATA,
        ),
        SystemTable(
            "branch_* tag_* snapshot_id_* at_timestamp_*",
            NameForm.BELOW,
            "the table's rows in a branch, at a tag, a snapshot or a time",
            Treatment.GUARDED,
        ),
        SystemTable(
            "changes",
            NameForm.BELOW,
            "rows that were added and removed, and by which snapshot",
            Treatment.GUARDED,
            "without a range: Spark has no clause for one",
        ),
        SystemTable(
            "rewrite",
            NameForm.BELOW,
            "files that a compaction has staged",
            Treatment.REFUSED,
            "call rewrite_data_files",
        ),
    ),
    "delta": (
        SystemTable(
            "table_changes",
            NameForm.CALL,
            "rows that were added, removed and changed, and by which version",
            Treatment.GUARDED,
            "refused under these once a name was given to another column",
        ),
        SystemTable(
            "table_changes_by_path",
            NameForm.CALL,
            "the same of a directory that policies know no table of",
            Treatment.REFUSED,
            "call table_changes with the table's name",
        ),
        SystemTable(
            "v* *",
            NameForm.SUFFIX,
            "the table's rows at a version or a time",
            Treatment.REFUSED,
            _READ_VERSION,
        ),
    ),
    "paimon": (
        SystemTable("files", NameForm.AFTER, f"{_BOUNDS}, and keys", Treatment.METADATA),
        SystemTable("manifests", NameForm.AFTER, "paths and sizes of manifests", Treatment.METADATA),
        SystemTable(
            "partitions",
            NameForm.AFTER,
            "values of partitions, counts of their rows",
            Treatment.METADATA,
        ),
        SystemTable(
            "statistics",
            NameForm.AFTER,
            "counts and extremes of columns",
            Treatment.METADATA,
        ),
        SystemTable(
            "snapshots tags branches consumers",
            NameForm.AFTER,
            "snapshots, tags, branches and readers, with counts of rows",
            Treatment.METADATA,
        ),
        SystemTable(
            "schemas options aggregation_fields",
            NameForm.AFTER,
            "columns and options that the table has and had",
            Treatment.METADATA,
        ),
        SystemTable(
            "audit_log binlog",
            NameForm.AFTER,
            "every change of a row, with its kind, past row filters and masks",
            Treatment.REFUSED,
            f"{_READ_VERSION}, and compare",
        ),
        SystemTable(
            "ro",
            NameForm.AFTER,
            "the table's rows as far as they are compacted, past row filters and masks",
            Treatment.REFUSED,
            "read the table",
        ),
        SystemTable(
            "branch_*",
            NameForm.AFTER,
            "the rows of a branch, and its system tables, past row filters and masks",
            Treatment.REFUSED,
            "read the table, or have the branch fast-forwarded",
        ),
        SystemTable(
            "buckets table_indexes row_tracking file_key_ranges",
            NameForm.AFTER,
            "what later versions of Paimon tell of files and rows",
            Treatment.REFUSED,
            "read `$files` or `$partitions`",
        ),
        SystemTable(
            "paimon_incremental_query paimon_incremental_between_timestamp paimon_incremental_to_auto_tag",
            NameForm.CALL,
            "rows that were added between two snapshots, past row filters and masks",
            Treatment.REFUSED,
            f"{_READ_VERSION}, and compare",
        ),
    ),
    # Its tables are read where Spark has it without its extension, which is not served.
    "hudi": (
        SystemTable(
            "_hoodie_record_key _hoodie_partition_path",
            NameForm.COLUMN,
            "the key and the partition of each row, as they are",
            Treatment.GUARDED,
            "NULL where any other column is masked or hidden",
        ),
        SystemTable(
            "_hoodie_commit_time _hoodie_commit_seqno _hoodie_file_name",
            NameForm.COLUMN,
            "when a row was written, and where it lies",
            Treatment.GUARDED,
        ),
        SystemTable(
            "hudi_table_changes hudi_query",
            NameForm.CALL,
            "rows that were added or changed since, past row filters and masks",
            Treatment.REFUSED,
            "read the table, with a condition on `_hoodie_commit_time`",
        ),
        SystemTable(
            "hudi_query_timeline hudi_filesystem_view hudi_metadata",
            NameForm.CALL,
            "commits, files, and bounds of values that an index has",
            Treatment.REFUSED,
            "ask at Spark itself",
        ),
        SystemTable(
            "hudi_vector_search hudi_vector_search_batch",
            NameForm.CALL,
            "rows that are near to a vector, past row filters and masks",
            Treatment.REFUSED,
            "read the table, and sort by the distance",
        ),
    ),
}

_TITLES = {"iceberg": "Iceberg", "delta": "Delta", "paimon": "Paimon", "hudi": "Hudi"}


def list_names(format_name: str, passing: Treatment, naming: NameForm) -> frozenset[str]:
    """Return the names of a format, in lower case, that pass in one way."""
    return frozenset(
        name
        for one in SYSTEM_TABLES.get(format_name, ())
        if one.passing is passing and one.naming is naming
        for name in one.listed
    )


def is_system_table(naming: NameForm, name: str) -> bool:
    """Whether some format reads a name in this way."""
    return any(
        one.naming is naming and one.is_named(name.lower())
        for tables in SYSTEM_TABLES.values()
        for one in tables
    )


def explain(naming: NameForm, name: str) -> str | None:
    """Say what some format has under a name that is written in this way, and what to use instead, to continue
    a sentence that begins with the name; None for a name that no format has.

    It tells nothing of what is there: neither whether there is such a table, nor what its format is.
    """
    written = naming.value.format(name)
    for format_name, tables in SYSTEM_TABLES.items():
        for one in tables:
            if one.naming is naming and one.is_named(name.lower()):
                instead = (
                    f"; instead, {one.instead}" if one.passing is Treatment.REFUSED and one.instead else ""
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
