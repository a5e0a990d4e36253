"""What Spark tells of files before they are a table: which there are, how they begin, what their columns are.

All that is asked is a fixed template around paths and names that `model/files.py` lets through.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any
from urllib.parse import unquote

from gateway.files.formats import (
    HEAD_BYTES,
    HEAD_LINES,
    MARKS,
    Dialect,
    Format,
    NotKnown,
    detect_format,
    find_common_format,
    table_format,
    wide_encoding,
)
from gateway.files.hidden import compile_glob
from gateway.files.links import LeadsOut, NotThere, require_no_links
from gateway.files.places import parse_place
from gateway.files.taken import RunQuery, answers
from gateway.model.files import FileSource

_NO_SUCH_PATH = ("42K03", "42P01")
"""SQLSTATEs of a path that is not there."""
_ROOT = re.compile("^[^:/]*:(//[^/]*)?")
"""Prefix before the path in a URL, in Java's spelling and in Python's."""
_MAX_KINDS = 16
"""Endings of file names in one directory that are looked at; more are told as a mixed directory."""
_MAX_LOOKED_AT = 40
"""Files that are looked into; of each ending at least one."""
_AT_ONCE = 4
_PACKED = r"\.(gz|bz2|zst|lz4|snappy|deflate)$"
"""Endings by which Spark unpacks a file: what is in it has the ending before."""
_ENDINGS = (r"(\.[^.]+){1,2}$", r"\.[^.]+$")
"""What the ending of a name is: its last two parts with a dot before them, or the last one where there are
too many of these. Digits count as one: `log.2024-01-01` is as `log.2024-01-02`."""
_INSTEAD = {
    "Delta": "`formats` of its source does not include this format",
    "Hudi": "this format is not supported",
    "Iceberg": "add it as a catalog of its own: an entry of type `iceberg` in `catalogs`",
    "Paimon": "add it as a catalog of its own: an entry of type `paimon` in `catalogs`, with its `warehouse`",
}
"""Advice about tables of formats that cannot be promoted."""


@dataclass(frozen=True, slots=True)
class Ending:
    name: str
    files: int
    bytes: int
    digest: str
    """Digest of paths, sizes and times; for several endings, the XOR of their digests."""
    first: str
    directory: str
    """Directory that holds all of them; empty where there are several."""
    examples: tuple[str, ...] = ()
    """The first, the last, the newest, and others by chance."""


Kinds = Sequence[Ending]


DEEP = "recursiveFileLookup"
"""The option of Spark's sources that reads directories below, whatever they are called."""
_DEEPEST = 16
"""Directories below one that is read so in which tables of formats are looked for."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a path."""

    kinds: Kinds
    reading: Mapping[str, str]
    """Options that they are listed and read with."""
    table: Format | None = None
    """The table format that keeps them."""

    @property
    def count(self) -> int:
        return sum(kind.files for kind in self.kinds)

    @property
    def bytes(self) -> int:
        return sum(kind.bytes for kind in self.kinds)

    def find_schema_file(self, url: str, found: Format) -> str | None:
        """Return the one file whose columns Spark takes for those of all, where it looks at no other: of
        Parquet, unless schemas are merged or directories below give columns as well."""
        if found != Format("parquet") or not all(
            kind.directory and parse_place(kind.directory) == parse_place(url) for kind in self.kinds
        ):
            return None
        return min(kind.first for kind in self.kinds)


class Nothing(Exception):
    """There are no files at the path."""


class UnfitFiles(Exception):
    """The files cannot become a table; the text says why."""


class Looking:
    """Looks at files by sessions of the gateway's own."""

    def __init__(self, query: RunQuery, refusal: type[Exception]) -> None:
        self._query = query
        self._refusal = refusal

    async def refuse_links(self, source: FileSource, path: tuple[str, ...]) -> None:
        """Refuse local files with a link among them. Raises Nothing and UnfitFiles."""
        if not source.is_local:
            return
        try:
            local = source.root.removeprefix("file:")
            counts = compile_glob(source.pattern)
            await asyncio.to_thread(require_no_links, local, path, source.files, counts=counts)
        except NotThere:
            raise Nothing from None
        except LeadsOut as why:
            raise UnfitFiles(str(why)) from None

    async def files(self, source: FileSource, path: tuple[str, ...], *, deep: bool = False) -> Files:
        """Return what files there are, if they can be a table. Raises Nothing and UnfitFiles.

        Where there are none but in directories below that are no partitions, or with `deep`, these count.
        """
        table = await self.table_format(source, path)
        url = source.url(path)
        reading = build_name_option(source.pattern) if table is None else {}
        kinds = () if deep else await self.kinds(url, reading)
        if not kinds and table is None:
            await self.refuse_tables_below(source, path)
            reading = {**reading, DEEP: "true"}
            kinds = await self.kinds(url, reading)
        if not kinds:
            raise UnfitFiles("it has no files, or only empty ones")
        if len(kinds) > _MAX_KINDS:
            one, other = (_name(url, kind.first) for kind in kinds[:2])
            raise UnfitFiles(f"it has files of different kinds, such as {one} and {other}")
        files = Files(kinds, reading, table)
        if files.count > source.files:
            raise UnfitFiles(f"it has more than {source.files} files, the limit of its source")
        return files

    async def refuse_tables_below(self, source: FileSource, path: tuple[str, ...]) -> None:
        """Refuse a directory with tables of formats anywhere in it."""
        below = ["/".join((*path, *["*"] * depth, "")) for depth in range(1, _DEEPEST + 1)]
        if await self._find_marked_directories(source, below):
            raise UnfitFiles("it contains tables of a table format, whose files also contain deleted rows")

    async def table_format(self, source: FileSource, path: tuple[str, ...]) -> Format | None:
        """Return the table format of a directory, where its source takes it. Refuses what else a table format
        keeps, here or in a directory above, up to the source's root."""
        above = ["/".join((*path[:depth], "")).lstrip("/") for depth in range(len(path) + 1)]
        own: Format | None = None
        for directory, format_ in (await self._find_marked_directories(source, above)).items():
            if parse_place(directory) != parse_place(source.url(path)):
                raise UnfitFiles(
                    f"it is inside a table of format {format_}, whose files also contain deleted rows"
                )
            if format_.lower() not in source.formats:
                raise UnfitFiles(f"it is a table of format {format_}; {_INSTEAD[format_]}")
            own = Format(format_.lower())
        return own

    async def _find_marked_directories(
        self, source: FileSource, directories: Sequence[str]
    ) -> Mapping[str, str]:
        """Return which of these directories, which may be globs, are tables of formats, and of which."""
        marks = ",".join(f"{directory}{mark}" for directory in directories for mark in MARKS)
        try:
            rows = await self._look(
                "binaryFile",
                f"{source.root}/{{{marks}}}",
                "SELECT DISTINCT regexp_replace(path, '/[^/]*$', '') FROM {view}",
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                return {}
            raise UnfitFiles("Spark cannot examine it") from refused
        found: dict[str, set[str]] = {}
        for row in rows:
            directory, _, mark = str(row[0]).rpartition("/")
            found.setdefault(directory, set()).add(mark)
        return {
            directory: format_
            for directory, seen in found.items()
            if (format_ := table_format(seen)) is not None
        }

    async def tables(self, source: FileSource, paths: Sequence[str]) -> Mapping[str, str]:
        """Return which of these directories are tables of formats, and of which. Raises UnfitFiles."""
        found = await self._find_marked_directories(source, [f"{path}/" for path in paths])
        depth = len(parse_place(source.root).path)
        by_place = {parse_place(source.url(tuple(path.split("/")))).path[depth:]: path for path in paths}
        return {by_place[parse_place(url).path[depth:]]: format_ for url, format_ in found.items()}

    async def directories(self, source: FileSource, after: str, most: int) -> list[tuple[str, int]]:
        """Return paths of directories with files in them, in their order after one, at most so many, and how
        many files; those in the root stand by themselves. Raises Nothing and UnfitFiles.

        Spark lists all that there is for that, whatever is asked for.
        """
        root = _ROOT.sub("", source.root)
        below = f"substr(regexp_replace(path, '{_ROOT.pattern}', ''), {len(root) + 2})"
        directory = f"IF(instr({below}, '/') > 0, regexp_replace({below}, '/[^/]*$', ''), {below})"
        # What is named after the last is of whoever wrote the files.
        last = f"CAST(unhex('{after.encode().hex()}') AS STRING)"
        try:
            rows = await self._look(
                "binaryFile",
                source.root,
                f"SELECT {directory}, count(*) FROM {{view}} WHERE length > 0 AND {directory} > {last}"
                f" GROUP BY 1 ORDER BY 1 LIMIT {most}",
                Format("binaryFile", {**build_name_option(source.pattern), DEEP: "true"}),
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                raise Nothing from None
            raise UnfitFiles("Spark cannot list its files") from refused
        return [(str(row[0]), int(row[1])) for row in rows]

    async def count(self, source: FileSource) -> int:
        """Return how many files lie below the root of a source. Raises Nothing and UnfitFiles."""
        try:
            rows = await self._look(
                "binaryFile",
                source.root,
                "SELECT count(*), min(path) FROM {view}",
                Format("binaryFile", {**build_name_option(source.pattern), DEEP: "true"}),
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                raise Nothing from None
            raise UnfitFiles("Spark cannot list its files") from refused
        if rows[0][1] is not None and parse_place(str(rows[0][1])) == parse_place(source.root):
            raise UnfitFiles("its root is a file, not a directory")
        return int(rows[0][0])

    async def kinds(self, url: str, reading: Mapping[str, str]) -> Kinds:
        """Return the files by their endings. Raises Nothing and UnfitFiles."""
        found: Kinds = ()
        for ending in _ENDINGS:
            found = await self._kinds(url, reading, ending)
            if len(found) <= _MAX_KINDS:
                break
        return found

    async def _kinds(self, url: str, reading: Mapping[str, str], ending: str) -> Kinds:
        name = "substring_index(path, '/', -1)"
        above = f"left(path, length(path) - length({name}) - 1)"
        unpacked = f"regexp_replace(lower({name}), '{literal(_PACKED)}', '')"
        kind = f"regexp_extract(regexp_replace({unpacked}, '[0-9]+', '0'), '{literal(ending)}', 0)"
        try:
            rows = await self._look(
                "binaryFile",
                url,
                f"SELECT {kind}, count(*), sum(length),"
                " hex(bit_xor(xxhash64(path, length, modificationTime))), min(path),"
                f" IF(min({above}) = max({above}), min({above}), ''),"
                " max(path), max_by(path, modificationTime),"
                " min_by(path, xxhash64(path)), max_by(path, xxhash64(path))"
                f" FROM {{view}} WHERE length > 0 GROUP BY 1 ORDER BY 1 LIMIT {_MAX_KINDS + 1}",
                Format("binaryFile", reading),
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                raise Nothing from None
            raise UnfitFiles("Spark cannot list its files") from refused
        return [
            Ending(
                name=str(name),
                files=int(files),
                bytes=int(size),
                digest=str(digest),
                first=str(first),
                directory=str(directory),
                examples=tuple(dict.fromkeys(map(str, (first, *others)))),
            )
            for name, files, size, digest, first, directory, *others in rows
        ]

    async def format(self, files: Files, source: FileSource, url: str) -> Format:
        """Return the one format of all files, of which some are looked into. Raises UnfitFiles."""
        if files.table is not None:
            return files.table
        each = max(1, _MAX_LOOKED_AT // len(files.kinds))
        first = await self._dialects([kind.first for kind in files.kinds], source, url)
        # Of files that are called `.parquet` Spark itself tells which one is none.
        doubtful = [
            path
            for kind, one in zip(files.kinds, first, strict=True)
            if not (one.is_binary and one.name in kind.name)
            for path in kind.examples[1:each]
        ]
        paths = [*(kind.first for kind in files.kinds), *doubtful]
        dialects = [*first, *await self._dialects(doubtful, source, url)]
        found = {_name(url, path).strip("`"): one for path, one in zip(paths, dialects, strict=True)}
        try:
            format_ = find_common_format(found)
        except NotKnown as why:
            raise UnfitFiles(str(why)) from None
        format_ = await self._look_through(url, format_, files.reading, found)
        return Format(format_.name, {**format_.options, **files.reading})

    async def _dialects(self, paths: Sequence[str], source: FileSource, url: str) -> Sequence[Dialect]:
        """Return how these files are written. Raises UnfitFiles."""
        for path in paths:
            if not path.startswith(source.root.split(":", 1)[0]) or not _is_safe(path):
                raise UnfitFiles("a file in it has a name that cannot be passed to Spark safely")
        found: list[Dialect] = []
        for at in range(0, len(paths), _AT_ONCE):
            some = paths[at : at + _AT_ONCE]
            found += await answers(*(self._detect_format(path, _name(url, path), source) for path in some))
        return found

    async def _detect_format(self, path: str, name: str, source: FileSource) -> Dialect:
        lines = await self._head(path)
        encoding = wide_encoding(lines)
        if encoding is not None:
            lines = await self._head(path, encoding)
        try:
            return detect_format(lines, source.formats, encoding)
        except NotKnown as why:
            raise UnfitFiles(f"{name} {why}") from None

    async def _look_through(
        self, url: str, found: Format, reading: Mapping[str, str], files: Mapping[str, Dialect]
    ) -> Format:
        """Return the format by which Spark reads all lines of texts as they are written."""
        question = build_whole_question(found)
        if question is None:
            return found
        try:
            (row,) = await self._look("text", url, question, Format("text", reading))
        except self._refusal as refused:
            raise UnfitFiles("its files cannot be read, or some are gone") from refused
        try:
            return choose_whole_format(found, row, files.values(), lambda path: _name(url, unquote(path)))
        except NotKnown as why:
            raise UnfitFiles(str(why)) from None

    async def _head(self, file: str, encoding: str | None = None) -> list[bytes]:
        """Return the first lines of a file, each cut at HEAD_BYTES."""
        # Bytes of UTF-16 hold such that end a line in any other encoding.
        reading = Format("text", {} if encoding is None else {"encoding": encoding, "lineSep": "\n"})
        value = f"hex(substr(CAST(value AS BINARY), 1, {HEAD_BYTES}))"
        try:
            rows = await self._look("text", file, f"SELECT {value} FROM {{view}} LIMIT {HEAD_LINES}", reading)
        except self._refusal as refused:
            raise UnfitFiles("a file in it cannot be read, or is gone") from refused
        return [bytes.fromhex(str(row[0])) for row in rows]

    async def _look(
        self, format_: str, path: str, sql: str, reading: Format | None = None
    ) -> Sequence[Sequence[Any]]:
        """Ask about files by way of a temporary view: sessions do not run SQL on paths."""
        view = new_view()
        options = "".join(f", {option}" for option in options_of(reading)) if reading is not None else ""
        made = f"CREATE TEMPORARY VIEW {view} USING {format_} OPTIONS (path '{path}'{options})"
        return await self._query(sql.replace("{view}", view), made, f"DROP VIEW IF EXISTS {view}")

    async def columns(self, url: str, found: Format) -> list[tuple[str, str]]:
        """Return names and types of the columns that Spark finds, as DESCRIBE has them. Raises UnfitFiles."""
        try:
            rows = await self._look(found.name, url, "DESCRIBE TABLE {view}", found)
        except self._refusal as refused:
            raise UnfitFiles(f"Spark cannot infer the columns of its {found.name} files") from refused
        return [(str(row[0]), str(row[1])) for row in rows if row[0] and not str(row[0]).startswith("# ")]


def new_view() -> str:
    """Return the name of a temporary view that nobody has."""
    return f"sluice_look_{secrets.token_hex(8)}"


def options_of(found: Format) -> list[str]:
    """Return the options of a format as Spark SQL writes them."""
    return [f"'{key}' '{literal(value)}'" for key, value in found.options.items()]


def build_name_option(pattern: str) -> Mapping[str, str]:
    """Return the option of Spark's sources that hides files with other names."""
    return {"pathGlobFilter": pattern} if pattern else {}


def signature(kinds: Kinds) -> str:
    """Return a digest of the files' paths, sizes and times, whatever endings they are told by."""
    digest = reduce(xor, (int(kind.digest or "0", 16) for kind in kinds), 0)
    files, size = sum(kind.files for kind in kinds), sum(kind.bytes for kind in kinds)
    return hashlib.sha256(f"{files} {size} {digest:X}".encode()).hexdigest()


def _is_safe(path: str) -> bool:
    return path.isprintable() and not set(path) & set("'`*?[]{}\\")


def _name(url: str, path: str) -> str:
    """Return how a file is told: by what leads to it from the directory that is looked at."""
    below = _ROOT.sub("", path).strip("/").split("/")
    name = "/".join(below[len(parse_place(url).path) :] or below[-1:])
    return f"`{name}`" if _is_safe(name) else "a file"


_BACKSLASH = "\\"
_JSON_LINES = r"^[\s\uFEFF]*[^\s\uFEFF{]"
_BLANK = r"[\s\uFEFF]+"


def literal(value: str) -> str:
    """Return a text as it stands between apostrophes in Spark SQL."""
    return value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t").replace("\n", "\\n")


def build_whole_question(found: Format) -> str | None:
    """Return what a view `{view}` of all lines is to be asked, in one row; None: nothing."""
    is_whole = found.options.get("multiLine") == "true"
    if found.name == "json":
        return _in_documents() if is_whole else _in_lines()
    if found.name == "csv" and found.options.get("quote") != "" and "UTF-16" not in found.options.values():
        return _quotes(found.options["sep"], found.options.get("quote", '"'))
    return None


def choose_whole_format(
    found: Format, row: Sequence[Any], files: Iterable[Dialect], named: Callable[[str], str]
) -> Format:
    """Return the format by which Spark reads what was told so of the lines. Raises NotKnown, with the name of
    a file, where there is none; `files`: how some of them are written."""
    if found.name == "json":
        if row[0] is not None:
            is_whole = found.options.get("multiLine") == "true"
            told = (
                "has several JSON documents that are not one per line"
                if is_whole
                else "has lines that are not JSON"
            )
            raise NotKnown(f"its files are JSON, and {named(str(row[0]))} {told}")
        return found
    backslash, doubled, by_doubling, by_backslash = row[0], row[1], row[2:4], row[4:6]
    shown = {one.escape for one in files if one.escape is not None}
    if backslash is not None and (doubled is not None or shown - {_BACKSLASH}):
        one, other = named(str(backslash)), "others" if doubled is None else named(str(doubled))
        where = f"{one} has both" if one == other else f"{one} has the former, {other} the latter"
        raise NotKnown(f"its csv files have backslashes before quotes and doubled quotes as well: {where}")
    options = dict(found.options)
    if backslash is not None:
        options["escape"] = _BACKSLASH
    opens, unclosed = by_backslash if options["escape"] == _BACKSLASH else by_doubling
    if unclosed is not None:
        raise NotKnown(f"{named(str(unclosed))} has a field with an opening quote and no closing one")
    if opens:
        options["multiLine"] = "true"
    return Format(found.name, options)


def _quotes(separator: str, quote: str) -> str:
    """Ask, for each way to escape quotes, whether a field goes on over the end of its line, and for a file in
    which one does and quotes do not come in pairs; and for a file with each way of escaping."""
    start = rf"(^|[{separator}])"
    opens = literal(rf"{start}{quote}[^{quote}]*$")
    backslash = literal(rf"{start}{quote}[^{quote}]*\\{quote}[^{quote}{separator}]")
    doubled = literal(rf"{start}{quote}[^{quote}]+{quote}{quote}[^{separator}]")
    one = literal(quote)
    plain = f"replace(value, '{one}{one}', '')"
    kept = f"replace(replace(value, '{literal(_BACKSLASH * 2)}', ''), '{literal(_BACKSLASH)}{one}', '')"

    def odd(text: str) -> str:
        return f"sum(length({text}) - length(replace({text}, '{one}', ''))) % 2 = 1"

    return (
        "SELECT min(IF(b, f, NULL)), min(IF(d, f, NULL)), bool_or(o1), min(IF(o1 AND n1, f, NULL)),"
        " bool_or(o2), min(IF(o2 AND n2, f, NULL)) FROM (SELECT f,"
        f" bool_or(value RLIKE '{backslash}') AS b, bool_or(value RLIKE '{doubled}') AS d,"
        f" bool_or(p RLIKE '{opens}') AS o1, {odd('p')} AS n1,"
        f" bool_or(k RLIKE '{opens}') AS o2, {odd('k')} AS n2"
        f" FROM (SELECT input_file_name() AS f, value, {plain} AS p, {kept} AS k FROM {{view}}) GROUP BY f)"
    )


def _in_lines() -> str:
    """Ask for a file with a line that is no object."""
    return (
        "SELECT min(f) FROM (SELECT input_file_name() AS f, value FROM {view})"
        f" WHERE value RLIKE '{literal(_JSON_LINES)}'"
    )


def _in_documents() -> str:
    """Ask for a file in which a line that ends an object or a list comes before one that begins one."""
    text = f"trim(regexp_replace(value, '{literal(_BLANK)}', ' '))"
    return (
        "SELECT min(f) FROM (SELECT f, a, lag(z) OVER (PARTITION BY f ORDER BY b, i) AS before FROM (SELECT"
        " input_file_name() AS f, input_file_block_start() AS b, monotonically_increasing_id() AS i,"
        f" left({text}, 1) AS a, right({text}, 1) AS z FROM {{view}}) WHERE a <> '')"
        " WHERE a IN ('[', '{') AND before IN (']', '}')"
    )
