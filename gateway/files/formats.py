"""What files are, told from where they begin. Nothing here reads a file."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

HEAD_BYTES = 4_096
"""Bytes read of each of the first lines; a line of this length may be longer."""
HEAD_LINES = 20
"""First lines that are looked at."""
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
_BACKSLASH = "\\"
_WIDE = {b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
"""Marks at the beginning of files in UTF-16."""
_NOT_LATIN = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]|[À-ÿ]{4}|[±²³´¶·¸¹¼½¾¢£¤¥¦¨¬¯][A-Za-zÀ-ÿ]")
"""What ISO-8859-1 text does not contain: control characters, words without plain letters, signs in words."""
_VALUE = re.compile(r"[-+]?[\d.,:/ eETZ-]+|true|false|null|nan", re.IGNORECASE)


class NotKnown(Exception):
    """The files are of no format that can be told, or of one that is not read; the text says which."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format of Spark's and the options to read it with."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one file is written, as far as its first lines show it; None: they do not."""

    name: str
    """Spark's name of the format."""
    multi_line: bool | None = None
    """For JSON, whether the file is one document; for CSV, whether a field has line breaks."""
    wide: bool = False
    """Whether it is in UTF-16."""
    encoding: str | None = None
    separator: str | None = None
    quote: str | None = None
    """Empty: a quote is a character like any other."""
    escape: str | None = None
    header: bool = False
    first: tuple[str, ...] = ()
    """For CSV, the fields of the first row."""

    @property
    def is_binary(self) -> bool:
        """Whether its first bytes say what it is."""
        return self.name in _MAGIC


_QUOTES = {'"': "has fields in quotes", "'": "has fields in apostrophes", "": "has quotes without a meaning"}
_MEANING: Mapping[str, Callable[[Any], str]] = {
    "wide": lambda value: "is in UTF-16" if value else "is not in UTF-16",
    "encoding": lambda value: f"is in {value}",
    "separator": lambda value: (
        f"has `{value}` between fields" if value != "\t" else "has tabs between fields"
    ),
    "quote": lambda value: _QUOTES[value],
    "escape": lambda value: f"has {'backslashes before quotes' if value == _BACKSLASH else 'doubled quotes'}",
    "width": lambda value: f"has {value} columns",
    "multi_line": lambda value: "is one document" if value else "has one JSON document per line",
}
"""Properties that must be equal in all files of a table, with their names in messages."""


def find_common_format(files: Mapping[str, Dialect]) -> Format:
    """Return the one format of files, by their names. Raises NotKnown, with the names of two that differ."""
    (one, first), *others = files.items()
    for other, found in others:
        if found.name != first.name:
            raise NotKnown(
                f"its files have different formats: `{one}` is {first.name}, `{other}` is {found.name}"
            )
    told = {
        key: _same(first.name, {name: _value(one, key) for name, one in files.items()}, meaning)
        for key, meaning in _MEANING.items()
        if key != "multi_line" or first.name == "json"
    }
    if first.name == "json":
        return Format("json", {"multiLine": "true"} if told["multi_line"] else {})
    if first.name != "csv":
        return Format(first.name)
    named = next((name for name, one in files.items() if one.header), None)
    for other, found in files.items():
        if named is not None and found.first != files[named].first:
            raise NotKnown(
                f"its csv files differ: `{named}` begins with a header, `{other}` with another header or none"
            )
    options = {"sep": told["separator"], "header": str(named is not None).lower(), "inferSchema": "true"}
    # INVARIANT (a name is that of the file): Spark finds columns of CSV by their places. By itself it reads
    # a file with other names in its header too, and shows a masked value under another column's name.
    options["enforceSchema"] = "false"  # RULE (csv-header)
    quote = '"' if told["quote"] is None else told["quote"]
    if quote != '"':
        options["quote"] = quote
    if quote:
        options["escape"] = told["escape"] or quote
    if told["wide"]:
        # Read whole, it loses its mark, and lines may end as on Windows.
        options |= {"encoding": "UTF-16", "multiLine": "true"}
    elif told["encoding"] not in (None, "UTF-8"):
        options["encoding"] = told["encoding"]
    if any(one.multi_line for one in files.values()):
        options["multiLine"] = "true"
    return Format("csv", options)


def _value(written: Dialect, key: str) -> Any:
    return len(written.first) or None if key == "width" else getattr(written, key)


def _same(format_: str, values: Mapping[str, Any], meaning: Callable[[Any], str]) -> Any:
    """Return the one value of all files that show one. Raises NotKnown where two differ."""
    seen: dict[Any, str] = {}
    for name, value in values.items():
        if value is not None:
            seen.setdefault(value, name)
    if len(seen) > 1:
        (value, one), (another, other), *_ = seen.items()
        raise NotKnown(f"its {format_} files differ: `{one}` {meaning(value)}, `{other}` {meaning(another)}")
    return next(iter(seen), None)


def table_format(found: Collection[str]) -> str | None:
    """Return the format of the table that a directory is, by those of its directories that have marks."""
    for name, marks in _TABLE_FORMATS.items():
        if all(mark.partition("/")[0] in found for mark in marks):
            return name
    return None


def wide_encoding(lines: Sequence[bytes]) -> str | None:
    """Return the encoding that a file says it is in, whose lines have to be told apart otherwise."""
    return _WIDE.get(lines[0][:2]) if lines else None


def detect_format(lines: Sequence[bytes], allowed: Sequence[str], encoding: str | None = None) -> Dialect:
    """Return how a file with these first lines is written, in the first of the `allowed` formats that it is
    in. Raises NotKnown, with what the file is or is not.

    Lines come without their ends, and cut short at HEAD_BYTES; `encoding`: of `wide_encoding`.
    """
    if not lines:
        raise NotKnown("is empty")
    if encoding is not None:
        lines = [_wide(line, encoding) for line in lines]
        found = _csv(lines) if "csv" in allowed else None
        if found is None:
            raise NotKnown("is in UTF-16 but not CSV")
        return replace(found, wide=True, encoding=None)
    if lines[0].startswith(_ENCRYPTED):
        raise NotKnown("is Parquet with an encrypted footer")
    for name in allowed:
        if name == DELTA:
            continue
        found = _magic(name, lines) if name in _MAGIC else _json(lines) if name == "json" else _csv(lines)
        if found is not None:
            return found
    raise NotKnown(f"is none of these formats: {', '.join(allowed)}")


def _wide(line: bytes, encoding: str) -> bytes:
    """Return a line in UTF-8, as long as a cut one where it is cut."""
    text = line.decode(encoding, "replace").encode()
    return text.ljust(HEAD_BYTES) if _is_cut(line) else text[: HEAD_BYTES - 1]


def _magic(name: str, lines: Sequence[bytes]) -> Dialect | None:
    return Dialect(name) if lines[0].startswith(_MAGIC[name]) else None


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


def _json(lines: Sequence[bytes]) -> Dialect | None:
    texts = _texts(lines)
    if texts is None:
        return None
    texts[0] = texts[0].removeprefix("\ufeff")
    filled = [(text.strip(), _is_cut(line)) for text, line in zip(texts, lines, strict=True) if text.strip()]
    if not filled or not filled[0][0].startswith(("{", "[")):
        return None
    first, is_cut = filled[0]
    if not is_cut and _is_object(first, is_cut):
        # One object in one line is a document as well.
        return Dialect("json", False if len(filled) > 1 else None)
    if is_cut and first[0] == "{":
        if not all(_is_object(*line) for line in filled):
            raise NotKnown("is JSON, but its lines are too long to check whether each is an object")
        return Dialect("json", multi_line=False)
    _require_one_document("\n".join(texts))
    return Dialect("json", multi_line=True)


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
        raise NotKnown("has several JSON documents that are not one per line")


def _csv(lines: Sequence[bytes]) -> Dialect | None:
    texts, encoding = _texts(lines), None if all(map(bytes.isascii, lines)) else "UTF-8"
    if texts is None:
        texts, encoding = _latin(lines), "ISO-8859-1"
    if texts is None or _is_cut(lines[0]):
        return None
    whole = [text for text, line in zip(texts, lines, strict=True) if not _is_cut(line)]
    whole = [text.lstrip("\ufeff").rstrip("\r") for text in whole]
    filled = [text for text in whole if text.strip()]
    if not filled or (len(filled) == 1 and any(map(_is_cut, lines))):
        return None
    best: tuple[int, CsvRows, str, str] | None = None
    for quoting, separator in product(_QUOTING, _SEPARATORS):
        if not quoting.suits(filled, separator):
            continue
        rows = read_rows("\n".join(whole), separator, quoting, goes_on=len(lines) >= HEAD_LINES)
        widths = set() if rows is None else {len(row) for row in rows.rows}
        # Of as many columns, apostrophes around fields are quotes rather than part of them.
        if (
            rows is not None
            and len(widths) == 1
            and (width := widths.pop()) > 1
            and (best is None or width >= best[0] + (quoting.quote != "'"))
        ):
            best = (width, rows, separator, quoting.quote)
    if best is None:
        return None
    _, rows, separator, quote = best
    return Dialect(
        "csv",
        multi_line=rows.multi_line,
        encoding=encoding,
        separator=separator,
        quote=quote if rows.quoted or not quote else None,
        escape=rows.escape,
        header=_has_header(rows.rows),
        first=tuple(cell.strip() for cell in rows.rows[0]),
    )


@dataclass(frozen=True, slots=True)
class Quoting:
    """How fields are quoted, and quotes in them escaped."""

    quote: str
    escape: str

    def suits(self, lines: Sequence[str], separator: str) -> bool:
        """Whether it is worth trying."""
        if self.quote == "'":
            return _is_in_apostrophes(lines, separator)
        # Where fields are apart by tabs, quotes need not mean anything.
        return bool(self.quote) or (separator == "\t" and any('"' in line for line in lines))


_QUOTING = (Quoting('"', '"'), Quoting('"', _BACKSLASH), Quoting("'", "'"), Quoting("", ""))
"""In the order in which they are preferred."""


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Rows of a text, and what was seen in them."""

    rows: Sequence[Sequence[str]]
    quoted: bool
    escape: str | None
    multi_line: bool
    """Whether a field has a line break in it."""


def read_rows(text: str, separator: str, quoting: Quoting, *, goes_on: bool) -> CsvRows | None:
    """Return the rows of a text as RFC 4180 has them, None where something follows a closing quote, or none
    closes. `goes_on`: there is more of it, so that its last row need not be whole."""
    quote, pair = quoting.quote, quoting.escape + quoting.quote
    plain = re.compile(rf"[^{re.escape(separator)}\n]*")
    inside = r"(?:[^\\{q}]|\\[\s\S])*+" if quoting.escape == _BACKSLASH else "(?:[^{q}]|{q}{q})*+"
    quoted = re.compile(rf"{quote}({inside.format(q=quote)})({quote} *(?=[{re.escape(separator)}\n]|\Z))?")
    rows: list[list[str]] = []
    row: list[str] = []
    escape, is_quoted, multi_line = None, False, False
    at = 0
    while at <= len(text):
        if quote and text.startswith(quote, at) and (found := quoted.match(text, at)) is not None:
            cell = found[1]
            is_quoted, multi_line = True, multi_line or "\n" in cell
            if found[2] is None:
                if not rows or not goes_on or text.startswith(quote, found.end()):
                    return None
                return CsvRows(rows, is_quoted, escape, multi_line=True)
            if pair in cell:
                escape = quoting.escape
            row.append(cell.replace(pair, quote))
        else:
            found = plain.match(text, at)
            row.append(found[0] if found is not None else "")
        at += len(found[0]) if found is not None else 0
        if not text.startswith(separator, at):
            if len(row) > 1 or row[0].strip():
                rows.append(row)
            row = []
        at += 1
    return CsvRows(rows, is_quoted, escape, multi_line) if rows else None


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
