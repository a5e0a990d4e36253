"""Tables of files on Spark: made, found, dropped."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.errors import BackendUnavailable
from gateway.files.formats import Format
from gateway.files.looking import UnfitFiles, new_view, options_of
from gateway.files.places import parse_place
from gateway.files.taken import LOCATION, NO_SUCH_NAMESPACE, RunQuery, answers
from gateway.model.catalog import Table, TableName, quote_parts
from gateway.model.files import FileSource
from gateway.session.ports import Catalog

_TYPE = re.compile(r"^Type: (.*)$", re.MULTILINE)
"""Told of a table before its comment, which can have line breaks."""


class OtherFiles(Exception):
    """A table of the name is there that is not made of these files; the text says what it is."""


class Tables:
    """Asks Spark in fixed templates around names that `model/files.py` lets through."""

    def __init__(self, query: RunQuery, *, refusal: type[Exception], catalog: Catalog) -> None:
        self._query = query
        self._refusal = refusal
        self._catalog = catalog

    async def make(
        self, source: FileSource, name: TableName, url: str, found: Format, *, like: str | None = None
    ) -> Table:
        """Make the table, its schema found by Spark, and return it; `like`: the file that has the columns of
        all, unless Spark merges those of all files. Raises UnfitFiles: then Spark has no such table."""
        try:
            _, merged = await answers(
                self._query(f"CREATE DATABASE IF NOT EXISTS `{name.catalog}`.`{name.database}`"),
                self._query("SET spark.sql.parquet.mergeSchema"),
            )
        except self._refusal as refused:
            raise UnfitFiles(f"Spark cannot create database `{name.database}`") from refused
        if [str(row[1]) for row in merged] != ["false"]:
            like = None
        try:
            await self._create(name, url, found, like)
        except self._refusal as refused:
            # What was asked before and cut may have come to its end in between.
            if not await self.drop(name, url):
                raise UnfitFiles(f"Spark cannot infer the columns of its {found.name} files") from refused
            await self._create_again(name, url, found)
        self._catalog.invalidate([name], [(name.catalog, name.database)])
        table = (await self._catalog.look_up([name])).table(name)
        try:
            if table is None:
                raise UnfitFiles("Spark cannot describe its table")
            require_columns(source, [column.type for column in table.columns])
        except UnfitFiles:
            await self._query(f"DROP TABLE IF EXISTS {quote_parts(name.parts)}")
            raise
        return table

    async def _create(self, name: TableName, url: str, found: Format, like: str | None = None) -> None:
        if like is not None and await self._make_like(name, url, found, like):
            return
        options = ", ".join(options_of(found))
        await self._query(
            f"CREATE TABLE {quote_parts(name.parts)} USING {found.name}"
            f"{f' OPTIONS ({options})' if options else ''} LOCATION '{url}'"
        )

    async def _create_again(self, name: TableName, url: str, found: Format) -> None:
        try:
            await self._create(name, url, found)
        except self._refusal as refused:
            raise UnfitFiles(f"Spark cannot infer the columns of its {found.name} files") from refused

    async def _make_like(self, name: TableName, url: str, found: Format, like: str) -> bool:
        """Make the table with the columns of one file: Spark does not list the others for that. False where
        it refuses."""
        view = new_view()
        try:
            await self._query(
                f"CREATE TABLE {quote_parts(name.parts)} LIKE {view} USING {found.name} LOCATION '{url}'",
                f"CREATE TEMPORARY VIEW {view} USING {found.name} OPTIONS (path '{like}')",
                f"DROP VIEW IF EXISTS {view}",
            )
        except self._refusal:
            return False
        return True

    async def is_there(self, name: TableName, url: str) -> bool:
        """Say whether the table is there now. Raises OtherFiles, and BackendUnavailable."""
        sql = f"SHOW TABLE EXTENDED IN `{name.catalog}`.`{name.database}` LIKE '{name.table}'"
        try:
            # Told also of one that nobody can describe: Delta's, whose log is gone.
            shown = [str(row[3]) for row in await self._query(sql) if not row[2]]
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) == NO_SUCH_NAMESPACE:
                return False
            raise BackendUnavailable("Spark does not report the locations of its tables") from refused
        for told in shown:
            location = next(iter(LOCATION.findall(told)), None)
            if not is_at(location, url):
                raise OtherFiles(
                    f"it is a table at `{location}`" if location else "it is a view, or has no files"
                )
            # INVARIANT (the files stay): what Spark calls managed goes with its files.
            if next(iter(_TYPE.findall(told)), None) != "EXTERNAL":
                raise OtherFiles("Spark deletes its files when it is dropped")
        return bool(shown)

    async def drop(self, name: TableName, url: str) -> bool:
        """Drop the table; False when it is not there. Raises OtherFiles, and BackendUnavailable."""
        if not await self.is_there(name, url):
            return False
        await self._query(f"DROP TABLE IF EXISTS {quote_parts(name.parts)}")
        self._catalog.invalidate([name], [(name.catalog, name.database)])
        return True


def require_columns(source: FileSource, types: Sequence[str]) -> None:
    """Raise UnfitFiles unless there are columns, and no more of them than the source allows."""
    found = sum(map(leaves, types))
    if not found:
        raise UnfitFiles("its files have no columns")
    if found > source.leaf_columns:
        raise UnfitFiles(f"it has {found} columns; its source allows {source.leaf_columns}")


def is_at(location: str | None, url: str) -> bool:
    """Whether a table's location, as Spark tells it, is a dataset's URL; False where it cannot be told."""
    try:
        return location is not None and parse_place(location) == parse_place(url)
    except ValueError:
        return False


def leaves(type_: str) -> int:
    """Count what a type in DDL consists of: fields of structures, keys and values of maps, one by one."""
    # What is left of the commas stands between two of them.
    return 1 + _NO_COMMAS.sub("", type_).count(",")


_NO_COMMAS = re.compile(r"`(?:[^`]|``)*`|\(\s*\d+\s*,\s*-?\d+\s*\)")
"""Names in quotes, and the lengths of decimals."""
