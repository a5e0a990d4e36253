"""What of a description a principal may read from whom policies hide something of the table.

What is not on the lists here goes: location, statistics, a view's text, properties, bounds of partitions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

HARMLESS = frozenset(
    {
        "Catalog",
        "Collation",
        "Comment",
        "Created By",
        "Created Time",
        "Database",
        "Name",
        "Namespace",
        "Owner",
        "Provider",
        "Table",
        "Type",
    }
)
"""Lines about a table that tell nothing of its rows, nor where they are."""
HARMLESS_DETAILS = HARMLESS | {"InputFormat", "OutputFormat", "Partition Provider", "Serde Library"}
"""The same in the rows of DESCRIBE EXTENDED, which each end where they end."""
HARMLESS_KEYS = frozenset(
    {
        "table_name",
        "catalog_name",
        "namespace",
        "schema_name",
        "owner",
        "created_time",
        "created_by",
        "type",
        "provider",
        "comment",
        "collation",
        "serde_library",
        "input_format",
        "output_format",
        "partition_provider",
    }
)
"""The same in DESCRIBE EXTENDED AS JSON."""
_COLUMN_KEYS = frozenset({"name", "type", "nullable", "comment"})
HARMLESS_PROPERTIES = frozenset(
    {
        "comment",
        "delta.columnMapping.mode",
        "delta.minReaderVersion",
        "delta.minWriterVersion",
        "file.format",
        "format",
        "format-version",
        "orc.compress",
        "owner",
        "parquet.compression",
        "provider",
        "type",
        "write.format.default",
        "write.orc.compression-codec",
        "write.parquet.compression-codec",
    }
)
"""Properties of tables that say how files are written, and no more."""
_ENDS = ("View Text", "View Original Text", "Table Properties", "Storage Properties", "Schema")
"""After these, what stands in a line may be a piece of somebody's text."""
_LINE = re.compile(r"([A-Z][A-Za-z ]{1,40}): ?(.*)")
_SCHEMA = "\nSchema: root\n"
_COLUMN = re.compile(r" \|-- (.+): ([a-z][\w (),]*) \(nullable = (?:true|false)\)")
"""A column of the tree that SHOW TABLE EXTENDED prints; no type that it prints has a colon."""


def reduce_information(information: str, columns: frozenset[str] | None) -> str:
    """Return of the `information` of SHOW TABLE EXTENDED what tells no value, bound or path, and of its
    columns those that may be seen (lower case; None for all).

    Clients read type, provider, owner and columns in it.
    """
    head, found, tree = information.rpartition(_SCHEMA)
    if not found:
        head, tree = information, ""
    lines = [*_harmless(head.split("\n"))]
    shown = [*_visible(tree.split("\n"), columns)]
    if shown:
        lines += ["Schema: root", *shown]
    return "".join(f"{line}\n" for line in lines)


def type_line(information: str) -> str:
    """Return what a table is, of the `information` of SHOW TABLE EXTENDED: a line, or nothing."""
    head = information.rpartition(_SCHEMA)[0] or information
    lines = [line for line in _harmless(head.split("\n")) if line.startswith("Type: ")]
    return "".join(f"{line}\n" for line in lines)


def reduce_json(text: str, columns: frozenset[str] | None) -> str:
    """Return the same of DESCRIBE EXTENDED AS JSON. Raises ValueError for what is not understood."""
    told = json.loads(text)
    if not isinstance(told, dict) or not isinstance(told.get("columns"), list):
        raise ValueError("it has no columns")
    if columns is not None and not columns:
        return "{}"
    shown = {key: value for key, value in told.items() if key in HARMLESS_KEYS}  # RULE (harmless-json-keys)
    shown["columns"] = [
        {key: value for key, value in column.items() if key in _COLUMN_KEYS}
        for column in told["columns"]
        if isinstance(column, dict) and _is_visible(column.get("name"), columns)
    ]
    partitions = told.get("partition_columns")
    if isinstance(partitions, list):
        shown["partition_columns"] = [name for name in partitions if _is_visible(name, columns)]
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def _is_visible(name: object, columns: frozenset[str] | None) -> bool:
    return isinstance(name, str) and (columns is None or name.lower() in columns)


def _harmless(lines: Sequence[str]) -> Iterator[str]:
    told = set[str]()
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            continue
        if found[1] in _ENDS:
            return  # RULE (view-text-lines)
        if found[1] in HARMLESS and found[1] not in told:
            told.add(found[1])
            yield line


def _visible(lines: Sequence[str], columns: frozenset[str] | None) -> Iterator[str]:
    shows = False
    for line in lines:
        if line.startswith(" |-- "):
            found = _COLUMN.fullmatch(line)
            # RULE (described-tree-columns)
            shows = found is not None and (columns is None or found[1].lower() in columns)
        elif not line.startswith(" |  "):
            shows = False
        if shows:
            yield line
