"""What files are, told from where they begin. Nothing here reads a file."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

FORMATS = ("parquet", "orc", "avro", "json", "csv")
_TABLE_FORMATS: Mapping[str, tuple[str, ...]] = {
    "Delta": ("_delta_log/*.json",),
    "Hudi": (".hoodie/hoodie.properties",),
    "Iceberg": ("metadata/*.metadata.json",),
    "Paimon": ("snapshot/snapshot-*", "schema/schema-*"),
}
"""Files that, all of them, say that a directory is a table: its data files by themselves are not its rows."""
MARKS = tuple(mark for marks in _TABLE_FORMATS.values() for mark in marks)

_MAGIC = {"parquet": b"PAR1", "orc": b"ORC", "avro": b"Obj\x01"}
_ENCRYPTED = b"PARE"
_SEPARATORS = (",", "\t", ";", "|")
_VALUE = re.compile(r"[-+]?[\d.,:/ eETZ-]+|true|false|null|nan", re.IGNORECASE)


class NotKnown(Exception):
    """The files are of no format that can be told, or of one that is not read; the text says which."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of Spark's and the options to read it with."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)


def table_format(found: Collection[str]) -> str | None:
    """Return the format of the table that a directory is, by those of its directories that have marks."""
    for name, marks in _TABLE_FORMATS.items():
        if all(mark.partition("/")[0] in found for mark in marks):
            return name
    return None


def told(lines: Sequence[bytes], allowed: Sequence[str]) -> Format:
    """Return the first of the `allowed` formats that a file with these first lines is in. Raises NotKnown.

    Lines come without their ends, and may be cut short at some length.
    """
    if not lines:
        raise NotKnown("a file is empty")
    if lines[0].startswith(_ENCRYPTED):
        raise NotKnown("a file is Parquet with an encrypted footer")
    for name in allowed:
        found = _magic(name, lines) if name in _MAGIC else _json(lines) if name == "json" else _csv(lines)
        if found is not None:
            return found
    raise NotKnown(f"a file is none of {', '.join(allowed)}")


def _magic(name: str, lines: Sequence[bytes]) -> Format | None:
    return Format(name) if lines[0].startswith(_MAGIC[name]) else None


def _is_binary(lines: Sequence[bytes]) -> bool:
    return any(lines[0].startswith(magic) for magic in _MAGIC.values()) or any(
        b"\0" in line for line in lines
    )


def _texts(lines: Sequence[bytes]) -> list[str] | None:
    if _is_binary(lines):
        return None
    try:
        return [line.decode("utf-8") for line in lines]
    except UnicodeDecodeError:
        return None


def _json(lines: Sequence[bytes]) -> Format | None:
    texts = _texts(lines)
    first = next((text for text in texts or () if text.strip()), "").lstrip("\ufeff").strip()
    if not first.startswith(("{", "[")):
        return None
    try:
        is_line = isinstance(json.loads(first), dict)
    except ValueError:
        is_line = False
    if not is_line and texts is not None and len([t for t in texts if t.strip()]) == 1 and first[0] == "{":
        is_line = True  # one long line that was cut short
    return Format("json", {} if is_line else {"multiLine": "true"})


def _csv(lines: Sequence[bytes]) -> Format | None:
    texts = _texts(lines)
    if texts is None:
        return None
    texts = [text.lstrip("\ufeff").rstrip("\r") for text in texts if text.strip()]
    if not texts:
        return None
    best: tuple[int, str, list[list[str]]] | None = None
    for separator in _SEPARATORS:
        rows = list(csv.reader(texts, delimiter=separator))
        widths = {len(row) for row in rows}
        if len(widths) == 1 and (width := widths.pop()) > 1 and (best is None or width > best[0]):
            best = (width, separator, rows)
    if best is None:
        return None
    _, separator, rows = best
    return Format(
        "csv",
        {"sep": separator, "header": str(_has_header(rows)).lower(), "inferSchema": "true", "escape": '"'},
    )


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is names: all there, no two the same, and none that looks like a value."""
    names = [cell.strip() for cell in rows[0]]
    return (
        len(rows) > 1
        and all(names)
        and len(set(names)) == len(names)
        and not any(map(_VALUE.fullmatch, names))
    )
