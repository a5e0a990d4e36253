"""What Spark tells of files before they are a table: which there are, how they begin, what their columns are.

All that is asked is a fixed template around paths and names that `model/files.py` lets through.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.files.formats import (
    HEAD_BYTES,
    MARKS,
    Format,
    NotKnown,
    table_format,
    told,
    wide_encoding,
)
from gateway.files.links import LeadsOut, require_no_links
from gateway.files.places import place
from gateway.files.taken import Query
from gateway.model.files import FileSource

_NO_SUCH_PATH = ("42K03", "42P01")
"""SQLSTATEs of a path that is not there."""
_HEAD_LINES = 20
_ROOT = re.compile("^[^:/]*:(//[^/]*)?")
"""What stands before the path in a URL, in Java's spelling and Python's."""
_MOST_KINDS = 16
"""Endings of file names in one directory that are looked at; more are told as a mixed directory."""
_INSTEAD = {
    "Delta": "which `formats` of its source do not have",
    "Hudi": "which is not read",
    "Iceberg": "named by a catalog of its own: an entry of type `iceberg` in `catalogs`",
    "Paimon": "named by a catalog of its own: an entry of type `paimon` in `catalogs`, with its `warehouse`",
}
"""What to do about tables of formats that are not taken."""

Kinds = Sequence[tuple[str, int, int, str, str, str]]
"""For each ending of file names: the ending, files, bytes, a digest, the first of the files, and the
directory that all of them lie in, empty where there are several."""


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

    def stands_for_all(self, url: str, found: Format) -> str | None:
        """Return the one file whose columns Spark takes for those of all, where it looks at no other: of
        Parquet, unless schemas are merged or directories below give columns as well."""
        if found != Format("parquet") or not all(
            kind[5] and place(kind[5]) == place(url) for kind in self.kinds
        ):
            return None
        return min(kind[4] for kind in self.kinds)


class Nothing(Exception):
    """There are no files at the path."""


class UnfitFiles(Exception):
    """The files cannot become a table; the text says why."""


class Looking:
    """Looks at files by sessions of the gateway's own."""

    def __init__(self, query: Query, refusal: type[Exception]) -> None:
        self._query = query
        self._refusal = refusal

    async def refuse_links(self, source: FileSource, path: tuple[str, ...]) -> None:
        """Refuse local files with a link among them. Raises Nothing and UnfitFiles."""
        if not source.root.startswith("file:"):
            return
        try:
            local = source.root.removeprefix("file:")
            await asyncio.to_thread(require_no_links, local, path, source.files)
        except LeadsOut as why:
            if str(why) == "there is nothing":
                raise Nothing from None
            raise UnfitFiles(str(why)) from None

    async def files(self, source: FileSource, path: tuple[str, ...], *, deep: bool = False) -> Files:
        """Return what files there are, if they can be a table. Raises Nothing and UnfitFiles.

        Where there are none but in directories below that are no partitions, or with `deep`, these count.
        """
        table = await self.table_format(source, path)
        url = source.url(path)
        reading = named(source.pattern) if table is None else {}
        kinds = () if deep else await self.kinds(url, reading)
        if not kinds and table is None:
            await self.refuse_tables_below(source, path)
            reading = {**reading, DEEP: "true"}
            kinds = await self.kinds(url, reading)
        if not kinds:
            raise UnfitFiles("there are no files in it, or only empty ones")
        if len(kinds) > _MOST_KINDS:
            raise UnfitFiles("its files are of many kinds")
        if sum(kind[1] for kind in kinds) > source.files:
            raise UnfitFiles(f"it has more than the {source.files} files that its source allows")
        return Files(kinds, reading, table)

    async def refuse_tables_below(self, source: FileSource, path: tuple[str, ...]) -> None:
        """Refuse a directory with tables of formats anywhere in it."""
        below = ["/".join((*path, *["*"] * depth, "")) for depth in range(1, _DEEPEST + 1)]
        if await self._marked(source, below):
            raise UnfitFiles(
                "tables of formats lie in it, whose files by themselves hold deleted rows as well"
            )

    async def table_format(self, source: FileSource, path: tuple[str, ...]) -> Format | None:
        """Return the table format of a directory, where its source takes it. Refuses what else a table format
        keeps, here or in a directory above, up to the source's root."""
        above = ["/".join((*path[:depth], "")).lstrip("/") for depth in range(len(path) + 1)]
        own: Format | None = None
        for directory, format_ in (await self._marked(source, above)).items():
            if place(directory) != place(source.url(path)):
                raise UnfitFiles(
                    f"it lies in a table of {format_}, whose files by themselves hold deleted rows as well"
                )
            if format_.lower() not in source.formats:
                raise UnfitFiles(f"it is a table of {format_}, {_INSTEAD[format_]}")
            own = Format(format_.lower())
        return own

    async def _marked(self, source: FileSource, directories: Sequence[str]) -> Mapping[str, str]:
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
            raise UnfitFiles("Spark cannot look at it") from refused
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
        found = await self._marked(source, [f"{path}/" for path in paths])
        depth = len(place(source.root).path)
        by_place = {place(source.url(tuple(path.split("/")))).path[depth:]: path for path in paths}
        return {by_place[place(url).path[depth:]]: format_ for url, format_ in found.items()}

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
                Format("binaryFile", {**named(source.pattern), DEEP: "true"}),
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
                Format("binaryFile", {**named(source.pattern), DEEP: "true"}),
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                raise Nothing from None
            raise UnfitFiles("Spark cannot list its files") from refused
        if rows[0][1] is not None and place(str(rows[0][1])) == place(source.root):
            raise UnfitFiles("its root is a file, and no directory")
        return int(rows[0][0])

    async def kinds(self, url: str, reading: Mapping[str, str]) -> Kinds:
        """Return what `Kinds` tells. Raises Nothing and UnfitFiles."""
        name = "substring_index(path, '/', -1)"
        above = f"left(path, length(path) - length({name}) - 1)"
        ending = f"IF(instr({name}, '.') > 0, lower(substring_index({name}, '.', -1)), '')"
        try:
            rows = await self._look(
                "binaryFile",
                url,
                f"SELECT {ending}, count(*), sum(length),"
                " hex(bit_xor(xxhash64(path, length, modificationTime))), min(path),"
                f" IF(min({above}) = max({above}), min({above}), '')"
                f" FROM {{view}} WHERE length > 0 GROUP BY 1 ORDER BY 1 LIMIT {_MOST_KINDS + 1}",
                Format("binaryFile", reading),
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                raise Nothing from None
            raise UnfitFiles("Spark cannot list its files") from refused
        return [(str(r[0]), int(r[1]), int(r[2]), str(r[3]), str(r[4]), str(r[5])) for r in rows]

    async def format(self, files: Files, source: FileSource) -> Format:
        """Return the one format of all files."""
        if files.table is not None:
            return files.table
        found: dict[str, Format] = {}
        for *_, example, _ in files.kinds:
            if not example.startswith(source.root.split(":", 1)[0]) or set(example) & set("'`*?[]{}\\"):
                raise UnfitFiles("a file in it has a name that cannot be read safely")
            try:
                lines = await self._head(example)
                encoding = wide_encoding(lines)
                if encoding is not None:
                    lines = await self._head(example, encoding)
                format_ = told(lines, source.formats, encoding)
                format_ = Format(format_.name, {**format_.options, **files.reading})
            except NotKnown as why:
                raise UnfitFiles(str(why)) from None
            if found.setdefault(format_.name, format_).options != format_.options:
                raise UnfitFiles(f"its {format_.name} files are not written alike")
        if len(found) > 1:
            raise UnfitFiles(f"its files are of several formats: {', '.join(sorted(found))}")
        return next(iter(found.values()))

    async def _head(self, file: str, encoding: str | None = None) -> list[bytes]:
        """Return the first lines of a file, each cut at HEAD_BYTES."""
        # Bytes of UTF-16 hold such that end a line in any other encoding.
        reading = Format("text", {} if encoding is None else {"encoding": encoding, "lineSep": "\n"})
        value = f"hex(substr(CAST(value AS BINARY), 1, {HEAD_BYTES}))"
        try:
            rows = await self._look(
                "text", file, f"SELECT {value} FROM {{view}} LIMIT {_HEAD_LINES}", reading
            )
        except self._refusal as refused:
            raise UnfitFiles("a file in it cannot be read, or has vanished") from refused
        return [bytes.fromhex(str(row[0])) for row in rows]

    async def _look(
        self, format_: str, path: str, sql: str, reading: Format | None = None
    ) -> Sequence[Sequence[Any]]:
        """Ask about files by way of a temporary view: sessions do not run SQL on paths."""
        view = new_view()
        options = "".join(f", {option}" for option in options_of(reading)) if reading is not None else ""
        made = f"CREATE TEMPORARY VIEW {view} USING {format_} OPTIONS (path '{path}'{options})"
        return await self._query(sql.format(view=view), made, f"DROP VIEW IF EXISTS {view}")

    async def columns(self, url: str, found: Format) -> list[tuple[str, str]]:
        """Return names and types of the columns that Spark finds, as DESCRIBE has them. Raises UnfitFiles."""
        try:
            rows = await self._look(found.name, url, "DESCRIBE TABLE {view}", found)
        except self._refusal as refused:
            raise UnfitFiles(f"Spark cannot find the columns of its {found.name} files") from refused
        return [(str(row[0]), str(row[1])) for row in rows if row[0] and not str(row[0]).startswith("# ")]


def new_view() -> str:
    """Return the name of a temporary view that nobody has."""
    return f"sluice_look_{secrets.token_hex(8)}"


def options_of(found: Format) -> list[str]:
    """Return the options of a format as Spark SQL writes them."""
    return [f"'{key}' '{_literal(value)}'" for key, value in found.options.items()]


def named(pattern: str) -> Mapping[str, str]:
    """Return the option of Spark's sources that hides files with other names."""
    return {"pathGlobFilter": pattern} if pattern else {}


def signature(kinds: Kinds) -> str:
    """Return a digest of the files' paths, sizes and times, as Spark has summed them up by ending."""
    lines = "\n".join(f"{kind[0]} {kind[1]} {kind[2]} {kind[3]}" for kind in sorted(kinds))
    return hashlib.sha256(lines.encode()).hexdigest()


def _literal(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t").replace("\n", "\\n")
