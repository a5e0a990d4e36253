"""What files are, told from where they begin. Nothing here reads a file."""

from __future__ import annotations

import codecs
import csv
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

HEAD_BYTES = 4_096
"""Of each of the first lines that are looked at; a line of this length may go on."""
DELTA = "delta"
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
_QUOTES = ('"', "'")
_WIDE = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
"""Marks at the beginning of files in UTF-16."""
_NOT_LATIN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]|[À-ÿ]{4}|[±²³´¶·¸¹¼½¾¢£¤¥¦¨¬¯][A-Za-zÀ-ÿ]")
"""What texts in ISO-8859-1 do not have: control characters, words without plain letters, signs in words."""
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


def wide_encoding(lines: Sequence[bytes]) -> str | None:
    """Return the encoding that a file says it is in, whose lines have to be told apart otherwise."""
    return _WIDE.get(lines[0][:2]) if lines else None


def told(lines: Sequence[bytes], allowed: Sequence[str], encoding: str | None = None) -> Format:
    """Return the first of the `allowed` formats that a file with these first lines is in. Raises NotKnown.

    Lines come without their ends, and cut short at HEAD_BYTES; `encoding`: of `wide_encoding`.
    """
    if not lines:
        raise NotKnown("a file is empty")
    if encoding is not None:
        lines = [_wide(line, encoding) for line in lines]
        found = _csv(lines) if "csv" in allowed else None
        if found is None:
            raise NotKnown("a file is in UTF-16, and not CSV")
        # Read whole, it loses its mark, and lines may end as on Windows.
        return Format(found.name, {**found.options, "encoding": "UTF-16", "multiLine": "true"})
    if lines[0].startswith(_ENCRYPTED):
        raise NotKnown("a file is Parquet with an encrypted footer")
    for name in allowed:
        if name == DELTA:
            continue
        found = _magic(name, lines) if name in _MAGIC else _json(lines) if name == "json" else _csv(lines)
        if found is not None:
            return found
    raise NotKnown(f"a file is none of {', '.join(allowed)}")


def _wide(line: bytes, encoding: str) -> bytes:
    """Return a line in UTF-8, as long as a cut one where it is cut."""
    text = line.decode(encoding, "replace").encode()
    return text.ljust(HEAD_BYTES) if _is_cut(line) else text[: HEAD_BYTES - 1]


def _magic(name: str, lines: Sequence[bytes]) -> Format | None:
    return Format(name) if lines[0].startswith(_MAGIC[name]) else None


def _is_binary(lines: Sequence[bytes]) -> bool:
    return any(lines[0].startswith(magic) for magic in _MAGIC.values()) or any(
        b"\0" in line for line in lines
    )


def _is_cut(line: bytes) -> bool:
    return len(line) >= HEAD_BYTES


def _texts(lines: Sequence[bytes]) -> list[str] | None:
    if _is_binary(lines):
        return None
    try:
        # Of a line that goes on, the last character may be cut in two.
        return [
            codecs.getincrementaldecoder("utf-8")().decode(line, final=not _is_cut(line)) for line in lines
        ]
    except UnicodeDecodeError:
        return None


def _json(lines: Sequence[bytes]) -> Format | None:
    texts = _texts(lines)
    if texts is None:
        return None
    texts[0] = texts[0].removeprefix("\ufeff")
    filled = [(text.strip(), _is_cut(line)) for text, line in zip(texts, lines, strict=True) if text.strip()]
    if not filled or not filled[0][0].startswith(("{", "[")):
        return None
    first, is_cut = filled[0]
    if not is_cut and _is_object(first, is_cut):
        return Format("json")
    if is_cut and first[0] == "{":
        if not all(_is_object(*line) for line in filled):
            raise NotKnown("a file is JSON, and its lines are too long to tell whether each is an object")
        return Format("json")
    _require_one_document("\n".join(texts))
    return Format("json", {"multiLine": "true"})


def _is_object(text: str, is_cut: bool) -> bool:
    """Whether a line is an object, as far as it can be seen."""
    if is_cut:
        return text.startswith("{")
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _require_one_document(text: str) -> None:
    """Raise NotKnown where something follows a document: Spark would read the first one alone."""
    try:
        _, end = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return  # it goes on below the lines that are looked at
    if text.lstrip()[end:].strip():
        raise NotKnown("a file has several JSON documents, which are not one a line")


def _csv(lines: Sequence[bytes]) -> Format | None:
    texts, options = _texts(lines), {}
    if texts is None:
        texts, options = _latin(lines), {"encoding": "ISO-8859-1"}
    if texts is None or _is_cut(lines[0]):
        return None
    whole = [text for text, line in zip(texts, lines, strict=True) if text.strip() and not _is_cut(line)]
    whole = [text.lstrip("\ufeff").rstrip("\r") for text in whole]
    if not whole or (len(whole) == 1 and any(map(_is_cut, lines))):
        return None
    best: tuple[int, str, str, list[list[str]]] | None = None
    for quote, separator in product(_QUOTES, _SEPARATORS):
        if quote == "'" and not _is_in_apostrophes(whole, separator):
            continue
        rows = list(csv.reader(whole, delimiter=separator, quotechar=quote))
        widths = {len(row) for row in rows}
        # Of as many columns, apostrophes around fields are quotes rather than part of them.
        if (
            len(widths) == 1
            and (width := widths.pop()) > 1
            and (best is None or width >= best[0] + (quote == '"'))
        ):
            best = (width, separator, quote, rows)
    if best is None:
        return None
    _, separator, quote, rows = best
    options |= {"sep": separator, "header": str(_has_header(rows)).lower(), "inferSchema": "true"}
    if quote != '"':
        options["quote"] = quote
    return Format("csv", {**options, "escape": quote})


def _latin(lines: Sequence[bytes]) -> list[str] | None:
    """Return lines as ISO-8859-1, where they are such a text by the look of it."""
    if _is_binary(lines):
        return None
    texts = [line.decode("latin-1") for line in lines]
    return None if any(map(_NOT_LATIN.search, texts)) else texts


def _is_in_apostrophes(texts: Sequence[str], separator: str) -> bool:
    """Whether in all lines but a header there are fields in apostrophes, and none with half of a pair."""
    apart = re.escape(separator)
    field_ = rf"(?:'(?:[^']|'')*'|[^'{apart}]*)"
    line = re.compile(rf"{field_}(?:{apart}{field_})*")
    below = texts[1:] or texts
    return all("'" in text and line.fullmatch(text) for text in below)


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row is names: all there, no two the same, and none that looks like a value."""
    names = [cell.strip() for cell in rows[0]]
    return (
        len(rows) > 1
        and all(names)
        and len(set(names)) == len(names)
        and not any(map(_VALUE.fullmatch, names))
    )
