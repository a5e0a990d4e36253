"""Tables of files on Spark: made, found, dropped."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.errors import BackendUnavailable
from gateway.files.formats import Format
from gateway.files.looking import UnfitFiles, new_view, options_of
from gateway.files.places import place
from gateway.files.taken import LOCATION, Query, answers
from gateway.model.catalog import Table, TableName
from gateway.model.files import FileSource
from gateway.session.ports import Catalog


class OtherFiles(Exception):
    """A table of the name is there, and has other files; the text names them."""


class Tables:
    """Asks Spark in fixed templates around names that `model/files.py` lets through."""

    def __init__(self, query: Query, *, refusal: type[Exception], catalog: Catalog) -> None:
        self._query = query
        self._refusal = refusal
        self._catalog = catalog

    async def make(
        self, source: FileSource, name: TableName, url: str, found: Format, *, like: str | None = None
    ) -> Table:
        """Make the table, its schema found by Spark, and return it; `like`: the file that has the columns of
        all, unless Spark merges those of all files. Raises UnfitFiles."""
        options = ", ".join(options_of(found))
        try:
            _, merged = await answers(
                self._query(f"CREATE DATABASE IF NOT EXISTS `{name.catalog}`.`{name.database}`"),
                self._query("SET spark.sql.parquet.mergeSchema"),
            )
            if [str(row[1]) for row in merged] != ["false"]:
                like = None
            if like is None or not await self._made_like(name, url, found, like):
                await self._query(
                    f"CREATE TABLE {_dotted(name)} USING {found.name}"
                    f"{f' OPTIONS ({options})' if options else ''} LOCATION '{url}'"
                )
        except self._refusal as refused:
            raise UnfitFiles(f"Spark cannot find the columns of its {found.name} files") from refused
        kept = False
        try:
            self._catalog.invalidate([name], [(name.catalog, name.database)])
            table = (await self._catalog.look_up([name])).table(name)
            if table is None:
                raise UnfitFiles("Spark does not tell of its table")
            require_columns(source, [column.type for column in table.columns])
            kept = True
            return table
        finally:
            if not kept:
                await self._query(f"DROP TABLE IF EXISTS {_dotted(name)}")

    async def _made_like(self, name: TableName, url: str, found: Format, like: str) -> bool:
        """Make the table with the columns of one file: Spark does not list the others for that. False where
        it refuses."""
        view = new_view()
        try:
            await self._query(
                f"CREATE TABLE {_dotted(name)} LIKE {view} USING {found.name} LOCATION '{url}'",
                f"CREATE TEMPORARY VIEW {view} USING {found.name} OPTIONS (path '{like}')",
                f"DROP VIEW IF EXISTS {view}",
            )
        except self._refusal:
            return False
        return True

    async def is_there(self, name: TableName, url: str) -> bool:
        """Say whether the table is there now. Raises OtherFiles."""
        self._catalog.invalidate([name], [])
        try:
            table = (await self._catalog.look_up([name])).table(name)
            locations = [] if table is None else [table.location]
        except BackendUnavailable as unavailable:
            # Nobody can describe one of Delta whose log is gone; where it lies Spark tells all the same.
            sql = f"SHOW TABLE EXTENDED IN `{name.catalog}`.`{name.database}` LIKE '{name.table}'"
            try:
                shown = [str(row[3]) for row in await self._query(sql) if not row[2]]
            except self._refusal:
                raise unavailable from None
            locations = [next(iter(LOCATION.findall(one)), None) for one in shown]
        for location in locations:
            if not is_at(location, url):
                raise OtherFiles(location or "none")
        return bool(locations)

    async def drop(self, name: TableName, url: str) -> None:
        """Drop the table, if it is there. Raises OtherFiles."""
        if await self.is_there(name, url):
            await self._query(f"DROP TABLE IF EXISTS {_dotted(name)}")
            self._catalog.invalidate([name], [(name.catalog, name.database)])


def require_columns(source: FileSource, types: Sequence[str]) -> None:
    """Raise UnfitFiles unless there are columns, and no more of them than the source allows."""
    leaves = sum(map(_leaves, types))
    if not leaves:
        raise UnfitFiles("its files have no columns")
    if leaves > source.leaf_columns:
        raise UnfitFiles(f"it has {leaves} columns; its source allows {source.leaf_columns}")


def is_at(location: str | None, url: str) -> bool:
    """Whether a table's location, as Spark tells it, is a dataset's URL; False where it cannot be told."""
    try:
        return location is not None and place(location) == place(url)
    except ValueError:
        return False


def _dotted(name: TableName) -> str:
    return f"`{name.catalog}`.`{name.database}`.`{name.table}`"


def _leaves(type_: str) -> int:
    """Count the columns of a type in DDL: fields of structures one by one."""
    return max(1, type_.count(":")) if "struct<" in type_ else 1
