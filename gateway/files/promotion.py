"""Files become a table when somebody who may first names it.

All that is asked of Spark is a fixed template around names that `model/files.py` lets through. Of all
gateways one at a time makes a table: PostgreSQL has the lock.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import structlog

from gateway.errors import BackendUnavailable, Faults
from gateway.files import store
from gateway.files.formats import MARKS, Format, NotKnown, table_format, told
from gateway.files.links import LeadsOut, require_no_links
from gateway.files.places import place
from gateway.files.taken import NotTold, Query, Taken, TakenPlaces
from gateway.model.catalog import Table, TableName
from gateway.model.decision import Decision
from gateway.model.files import FileSource, NotPromoted, source_of
from gateway.model.principal import Principal
from gateway.model.resource import Resource
from gateway.session.ports import Catalog

log = structlog.get_logger(__name__)

Connect = Callable[[], AbstractAsyncContextManager[Any]]
Decide = Callable[[Resource, str], Decision]
Escaped = Callable[..., bool]
"""Says whether guards of an old name do not hold for a new one: `Authority.guards_escaped`."""
Record = Callable[[Principal, TableName, str, Sequence[Decision]], Awaitable[None]]
"""Puts on record that files, by their URL, are about to become a table; returns when that is durable."""

PROMOTE, READ = "promote", "read"
_NO_SUCH_PATH = ("42K03", "42P01")
"""SQLSTATEs of a path that is not there."""
_HEAD_LINES = 20
_HEAD_BYTES = 4_096
_MOST_KINDS = 16
"""Endings of file names in one directory that are looked at; more are told as a mixed directory."""


class _Nothing(Exception):
    """There are no files at the path."""


class _Refused(Exception):
    """The files cannot become a table; the text says why."""


class Promoter:
    """Makes tables of files that are named for the first time."""

    def __init__(
        self,
        sources: Sequence[FileSource],
        query: Query,
        *,
        refusal: type[Exception],
        catalog: Catalog,
        connect: Connect,
        record: Record,
        reserved: Sequence[str] = (),
        timeout_s: float = 300.0,
    ) -> None:
        """`query` runs a statement in a session of the gateway's own, and in it one `before` and one `after`
        it; it raises `refusal` (with `sqlstate`) where Spark refuses. `connect` lends a connection to
        PostgreSQL. `record` may raise LedgerUnavailable: then nothing is made. `reserved` are URLs of
        directories of which no table is made."""
        self._sources = tuple(sources)
        self._query = query
        self._refusal = refusal
        self._catalog = catalog
        self._connect = connect
        self._record = record
        self._timeout_s = timeout_s
        self._taken = TakenPlaces(query, refusal=refusal, catalog=catalog, reserved=reserved)

    def covers(self, name: TableName) -> bool:
        """Whether the name of a table stands for files of a source."""
        return source_of(self._sources, name) is not None

    async def promote(
        self, name: TableName, principal: Principal, decide: Decide, escaped: Escaped
    ) -> NotPromoted | None:
        """Make a table of the files that `name` stands for, if they are there.

        `decide` and `escaped` are asked before anything is looked at. Returns why they cannot become one, or
        may not at this user's word; None when the name may be looked up again. Raises BackendUnavailable when
        Spark or PostgreSQL does not answer.
        """
        found = source_of(self._sources, name)
        if found is None:
            return None
        source, path = found
        # Before anything is looked at: who may not is told the same, whatever is there.
        asked = (
            (_resource(name), PROMOTE),
            (Resource.url(source.url(path)), READ),
        )
        decisions = tuple(decide(resource, access) for resource, access in asked)
        if not all(decision.allowed for decision in decisions):
            told_ = (
                f"user {principal.user} may not make a table of files of source `{source.name}`: it takes "
            )
            told_ += f"`{PROMOTE}` on `{name}` and `{READ}` on its path"
            return NotPromoted(code="ACCESS_DENIED", sqlstate="42501", message=told_, decisions=decisions)
        if _guards_escaped(source, path, name, escaped):
            return NotPromoted(
                code="ACCESS_DENIED",
                sqlstate="42501",
                message=f"`{'/'.join(path)}` of source `{source.name}` cannot become a table: policies mask, "
                "filter or deny something by the name of a directory above it, or of something in it, that "
                "they do not by its own",
                decisions=decisions,
            )
        # INVARIANT (audit first): whoever had Spark make a table is on record before Spark is asked.
        await self._record(principal, name, source.url(path), decisions)
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._promoted(source, path, name, principal, decide)
        except _Nothing:
            return None
        except _Refused as why:
            return NotPromoted(
                code="NOT_GOVERNABLE",
                sqlstate="0A000",
                message=f"`{'/'.join(path)}` of source `{source.name}` cannot become a table: {why}",
                decisions=decisions,
            )
        except TimeoutError:
            raise BackendUnavailable("files could not be made a table in time") from None
        finally:
            self._catalog.invalidate([name], [])
        return None

    async def _promoted(
        self,
        source: FileSource,
        path: tuple[str, ...],
        name: TableName,
        principal: Principal,
        decide: Decide,
    ) -> None:
        if source.root.startswith("file:"):
            try:
                local = source.root.removeprefix("file:")
                await asyncio.to_thread(require_no_links, local, path, source.files)
            except LeadsOut as why:
                if str(why) == "there is nothing":
                    raise _Nothing from None
                raise _Refused(str(why)) from None
        url = source.url(path)
        async with self._connect() as connection, store.only_one(connection, name):
            # Who waited for another finds its table here.
            self._catalog.invalidate([name], [])
            if (await self._catalog.look_up([name])).table(name) is not None:
                return
            await self._refuse_table_formats(source, path)
            kinds = await self._kinds(url)
            if sum(kind[1] for kind in kinds) > source.files:
                raise _Refused(f"it has more than the {source.files} files that its source allows")
            found = await self._format(kinds, source)
            # INVARIANT (one name): until it is saved nobody else makes a table of what this one overlaps.
            await store.only_one_place(connection)
            await self._refuse_taken(await store.datasets(connection), source, url, name, decide)
            table = await self._made(source, name, url, found)
            await store.save(
                connection,
                store.Dataset(
                    source=source.name,
                    path="/".join(path),
                    table=name,
                    url=url,
                    format=found.name,
                    options=found.options,
                    columns=[(column.name, column.type) for column in table.columns],
                    files=sum(kind[1] for kind in kinds),
                    bytes=sum(kind[2] for kind in kinds),
                    signature=signature(kinds),
                    promoted_by=principal.user,
                ),
            )
        log.info("dataset_promoted", source=source.name, format=found.name, files=sum(k[1] for k in kinds))

    async def _refuse_table_formats(self, source: FileSource, path: tuple[str, ...]) -> None:
        """Refuse what a table format keeps, here or in a directory above, up to the source's root."""
        above = ["/".join((*path[:depth], "")).lstrip("/") for depth in range(len(path) + 1)]
        marks = ",".join(f"{directory}{mark}" for directory in above for mark in MARKS)
        try:
            rows = await self._look(
                "binaryFile",
                f"{source.root}/{{{marks}}}",
                "SELECT DISTINCT regexp_replace(path, '/[^/]*$', '') FROM {view}",
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                return
            raise _Refused("Spark cannot look at it") from refused
        found: dict[str, set[str]] = {}
        for row in rows:
            directory, _, mark = str(row[0]).rpartition("/")
            found.setdefault(directory, set()).add(mark)
        for directory, seen in found.items():
            format_ = table_format(seen)
            if format_ is None:
                continue
            if place(directory) == place(source.url(path)):
                raise _Refused(f"it is a table of {format_}, which has a catalog of its own to be named by")
            raise _Refused(
                f"it lies in a table of {format_}, whose files by themselves hold deleted rows as well"
            )

    async def _refuse_taken(
        self,
        datasets: Sequence[Mapping[str, Any]],
        source: FileSource,
        url: str,
        name: TableName,
        decide: Decide,
    ) -> None:
        """Refuse what shares files with a table, a database, or what the gateway keeps for itself."""
        try:
            found = await self._taken.overlapped(url, name, datasets)
        except NotTold as whose:
            log.warning("dataset_places_unknown", source=source.name, table=str(name), of=str(whose))
            raise _Refused("it cannot be told where all other tables lie") from None
        if found is None:
            return
        log.info("dataset_place_taken", source=source.name, table=str(name), by=str(found.table or found.url))
        raise _Refused(_of_another(found, decide))

    async def _kinds(self, url: str) -> list[tuple[str, int, int, str, str]]:
        """Return for each ending of file names: the ending, files, bytes, a digest and one of the files."""
        name = "substring_index(path, '/', -1)"
        ending = f"IF(instr({name}, '.') > 0, lower(substring_index({name}, '.', -1)), '')"
        try:
            rows = await self._look(
                "binaryFile",
                url,
                f"SELECT {ending}, count(*), sum(length),"
                " hex(bit_xor(xxhash64(path, length, modificationTime))), min(path)"
                f" FROM {{view}} WHERE length > 0 GROUP BY 1 ORDER BY 1 LIMIT {_MOST_KINDS + 1}",
            )
        except self._refusal as refused:
            if getattr(refused, "sqlstate", None) in _NO_SUCH_PATH:
                raise _Nothing from None
            raise _Refused("Spark cannot list its files") from refused
        if not rows:
            raise _Refused("there are no files in it, or only empty ones")
        if len(rows) > _MOST_KINDS:
            raise _Refused("its files are of many kinds")
        return [(str(r[0]), int(r[1]), int(r[2]), str(r[3]), str(r[4])) for r in rows]

    async def _format(self, kinds: Sequence[tuple[str, int, int, str, str]], source: FileSource) -> Format:
        """Return the one format of all kinds of files."""
        found: dict[str, Format] = {}
        for *_, example in kinds:
            if not example.startswith(source.root.split(":", 1)[0]) or set(example) & set("'`*?[]{}\\"):
                raise _Refused("a file in it has a name that cannot be read safely")
            value = f"hex(substr(CAST(value AS BINARY), 1, {_HEAD_BYTES}))"
            try:
                rows = await self._look("text", example, f"SELECT {value} FROM {{view}} LIMIT {_HEAD_LINES}")
            except self._refusal as refused:
                raise _Refused("a file in it cannot be read, or has vanished") from refused
            try:
                format_ = told([bytes.fromhex(str(row[0])) for row in rows], source.formats)
            except NotKnown as why:
                raise _Refused(str(why)) from None
            if found.setdefault(format_.name, format_).options != format_.options:
                raise _Refused(f"its {format_.name} files are not written alike")
        if len(found) > 1:
            raise _Refused(f"its files are of several formats: {', '.join(sorted(found))}")
        return next(iter(found.values()))

    async def _look(self, format_: str, path: str, sql: str) -> Sequence[Sequence[Any]]:
        """Ask about files by way of a temporary view: sessions do not run SQL on paths."""
        view = f"sluice_look_{secrets.token_hex(8)}"
        made = f"CREATE TEMPORARY VIEW {view} USING {format_} OPTIONS (path '{path}')"
        return await self._query(sql.format(view=view), made, f"DROP VIEW IF EXISTS {view}")

    async def _made(self, source: FileSource, name: TableName, url: str, found: Format) -> Table:
        """Make the table on Spark, its schema found by Spark, and return it."""
        dotted = f"`{name.catalog}`.`{name.database}`.`{name.table}`"
        options = ", ".join(f"'{key}' '{_literal(value)}'" for key, value in found.options.items())
        try:
            await self._query(f"CREATE DATABASE IF NOT EXISTS `{name.catalog}`.`{name.database}`")
            await self._query(
                f"CREATE TABLE {dotted} USING {found.name}"
                f"{f' OPTIONS ({options})' if options else ''} LOCATION '{url}'"
            )
        except self._refusal as refused:
            raise _Refused(f"Spark cannot find the columns of its {found.name} files") from refused
        kept = False
        try:
            self._catalog.invalidate([name], [(name.catalog, name.database)])
            table = (await self._catalog.look_up([name])).table(name)
            leaves = sum(_leaves(column.type) for column in table.columns) if table is not None else 0
            if table is None or not leaves:
                raise _Refused("its files have no columns")
            if leaves > source.leaf_columns:
                raise _Refused(f"it has {leaves} columns; its source allows {source.leaf_columns}")
            kept = True
            return table
        finally:
            if not kept:
                await self._query(f"DROP TABLE IF EXISTS {dotted}")


async def forget(connection: Any, query: Query, catalog: Catalog, name: TableName, url: str) -> None:
    """Drop a table that was made of files, and what is kept of it; the files stay. Raises Faults where the
    table is another one by now, and the errors of `query`."""
    async with store.only_one(connection, name):
        table = (await catalog.look_up([name])).table(name)
        if table is not None:
            if (table.location or "").replace(":///", ":/") != url.replace(":///", ":/"):
                raise Faults([f"`{name}` has other files by now than `{url}`; nothing was dropped"])
            await query(f"DROP TABLE IF EXISTS `{name.catalog}`.`{name.database}`.`{name.table}`")
        await store.forget(connection, name)


def _guards_escaped(source: FileSource, path: tuple[str, ...], name: TableName, escaped: Escaped) -> bool:
    """Say whether somebody may see more by this name than by that of a directory above, or of what is below.

    Whether there is a table of the other name does not matter: policies are written before it is there.
    """
    own = _resource(name)
    above = (_resource(source.table(path[:depth])) for depth in range(1, len(path)))
    below = _resource(TableName(name.catalog, name.database, f"{name.table}__"))
    return any(escaped(own, one) for one in above) or escaped(own, below, beginning=True)


def _resource(name: TableName) -> Resource:
    return Resource.table(name.catalog, name.database, name.table)


def _of_another(taken: Taken, decide: Decide) -> str:
    """Say whose the files are, where the user may read that table; of others not even that they are there."""
    table = taken.table
    if table is None or not decide(_resource(table), "select").allowed:
        return "it shares files with another table or database, or with what the gateway keeps for itself"
    return f"it shares files with the table `{table}`, which is how they are named"


def signature(kinds: Sequence[tuple[str, int, int, str, str]]) -> str:
    """Return a digest of the files' paths, sizes and times, as Spark has summed them up by ending."""
    lines = "\n".join(f"{kind[0]} {kind[1]} {kind[2]} {kind[3]}" for kind in sorted(kinds))
    return hashlib.sha256(lines.encode()).hexdigest()


def _literal(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'").replace("\t", "\\t")


def _leaves(type_: str) -> int:
    """Count the columns of a type in DDL: fields of structures one by one."""
    return max(1, type_.count(":")) if "struct<" in type_ else 1
