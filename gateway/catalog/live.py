"""The catalog that asks Spark, lazily and once for everybody who asks at the same time.

Every statement is a fixed template around quoted names. An error of Spark other than "there is no such
table" is an error here too: a statement whose tables cannot be looked up is not judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gateway.catalog.describe import (
    Row,
    catalog_view_from_rows,
    function_from_rows,
    global_view_from_json,
    is_catalog_view,
    property_from_rows,
    table_from_json,
    table_from_rows,
    view_body_from_properties,
    view_keys,
)
from gateway.catalog.known import KnownTables
from gateway.catalog.types import NotUnderstood
from gateway.catalog.versions import (
    DELTA_SCHEMAS,
    ICEBERG_PACKED,
    ICEBERG_SCHEMAS,
    Schemas,
    build_changes,
    build_feed,
    build_version,
    delta_schemas,
    files_view,
    iceberg_schemas,
    paimon_schemas,
    unpack_schemas,
)
from gateway.errors import BackendUnavailable
from gateway.model.catalog import (
    CHANGES,
    FEED,
    FUNCTION,
    SOME_VERSION,
    CatalogSnapshot,
    Table,
    TableKind,
    TableName,
    ViewBody,
    is_cached_by_sessions,
    join_namespace,
    levels,
    namespaces_in,
    namespaces_of,
    quote,
    quote_parts,
)
from gateway.model.changed_names import NOBODY, ChangedNames
from gateway.model.files import SESSION_CATALOG, FileSource
from gateway.model.metalakes import NONE_LISTED, ListedCatalogs
from gateway.model.spark_minors import JSON_DESCRIPTIONS, NEWEST, Minor
from gateway.model.table_formats import DELTA, ICEBERG, NAMED_BELOW, PAIMON

T = TypeVar("T")

AskSpark = Callable[..., Awaitable[Sequence[Row]]]
"""Runs one statement in a session of the gateway's own and returns its rows; a second text is one that runs
before it in the same session.

Raises the error type that LiveCatalog is given as `refusal` when Spark refuses the statement (with `sqlstate`
and `message` as attributes), BackendUnavailable when Spark is gone.
"""

_NO_SUCH_TABLE = "42P01"
_NO_SUCH_NAMESPACE = "42704"
_NOT_SUPPORTED = "0A000"
_NO_VIEWS = "_LEGACY_ERROR_TEMP_1184"
"""Spark's condition, before it had an SQLSTATE, for a catalog that has no views."""
_CONDITION = re.compile(r"(?:Error running query: )?\[([A-Z][A-Z0-9_.]*)\]")
"""What an error of Spark's begins with."""

_MAX_NAMESPACES = 50_000
"""More than any catalog has; keeps one that answers without end from filling the memory."""
_ATTEMPTS = 3
"""How often a name is looked up again because it was invalidated meanwhile."""

Owners = Callable[[Table], Awaitable[str | None]]
"""Tells who owns a table of a catalog that comes and goes, or one of files; None where nobody is known.
It does not raise."""

_Key = TableName | tuple[str, ...]


class LookUpRefused(BackendUnavailable):
    """Spark answered a look-up with an error that says nothing of what is there."""


class LiveCatalog:
    """Spark's tables, looked up when asked for; facts are used for `max_age_s`, then asked for again."""

    def __init__(
        self,
        query: AskSpark,
        *,
        refusal: type[Exception],
        catalogs: Sequence[str] = ("spark_catalog",),
        sources: Sequence[FileSource] = (),
        max_age_s: float = 30.0,
        missing_age_s: float = 1.0,  # RULE (missing-asked-again)
        timeout_s: float = 300.0,
        concurrency: int = 4,
        max_names: int = 50_000,
        minor: Minor = NEWEST,
        clock: Callable[[], float] = time.monotonic,
        listed: Callable[[], ListedCatalogs] = lambda: NONE_LISTED,
        owners: Owners | None = None,
        learned: Callable[[TableName, Table | None], None] = lambda name, table: None,
    ) -> None:
        """`timeout_s` bounds one look-up: a metastore that takes minutes is slow, and not away. `minor` is of
        the Spark that is asked. `listed` tells the catalogs that come and go, `owners` who owns a table
        where another than Spark knows that; `learned` is told of every answer."""
        self._learned = learned
        self._listed = listed
        self._now_listed = NONE_LISTED
        self._owners = owners
        self._query = query
        self._refusal = refusal
        self._known = KnownTables(
            catalogs,
            max_age_s=max_age_s,
            missing_age_s=missing_age_s,
            max_names=max_names,
            sources=sources,
        )
        self._lists: dict[tuple[str, ...], tuple[float, Sequence[Any]]] = {}
        self._max_age_s = max_age_s
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._json = minor >= JSON_DESCRIPTIONS
        self._clock = clock
        self._asking: dict[_Key, asyncio.Task[Any]] = {}
        self._changes = Counter[tuple[str, str]]()
        self._forgotten = 0
        """How often everything was."""
        self.changed_names = ChangedNames()

    @property
    def snapshot(self) -> CatalogSnapshot:
        """What is known and still fresh."""
        self._relist()
        return self._known.snapshot(self._clock())

    async def look_up(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Return a snapshot that knows all of `tables`. Raises BackendUnavailable if Spark does not tell."""
        names = list(dict.fromkeys(name.fold() for name in tables))
        for _ in range(_ATTEMPTS):
            self._relist()
            self._require_usable(names)
            stale = [name for name in names if not self._known.is_fresh(name, self._clock())]
            # Few at a time, so that a statement of a thousand names does not stand before everybody else.
            for first in range(0, len(stale), self._concurrency):
                few = stale[first : first + self._concurrency]
                for answer in [self._ask(name, self._look_up(name)) for name in few]:
                    await asyncio.shield(answer)
            self._relist()
            snapshot = self._known.snapshot(self._clock(), names)
            if all(snapshot.knows(name) for name in names):
                return snapshot
        raise BackendUnavailable("the tables change too fast to look them up")

    async def describe_anew(self, tables: Sequence[TableName]) -> CatalogSnapshot:
        """Look names up again, whatever is known of them. Raises BackendUnavailable as `look_up` does."""
        names = [name.fold() for name in tables]
        for name in names:
            # What is on its way may have been asked before whatever this is about.
            self._asking.pop(name, None)
        self._known.outdate(names, self._clock())
        return await self.look_up(names)

    def invalidate(
        self,
        tables: Sequence[TableName],
        databases: Sequence[tuple[str, str]],
        *,
        by: int = NOBODY,
        stays: bool = False,
    ) -> None:
        """Forget names that a statement has changed, and answers about them that are still on their way."""
        self.changed_names.note(tables, databases, by=by, stays=stays)
        self._known.forget(tables, databases)
        folded = {name.current.fold() for name in tables}
        touched = {(c.lower(), d.lower()) for c, d in databases} | {(n.catalog, n.database) for n in folded}
        whole = {(c.lower(), d.lower()) for c, d in databases}
        for key in list(self._asking):
            if isinstance(key, TableName):
                within = ((key.catalog, above) for above in namespaces_of(key.database))
                if key.current in folded or any(place in whole for place in within):
                    del self._asking[key]
            elif key[1:] in touched or any(key[1:] == (catalog,) for catalog, _ in whole):
                del self._asking[key]
        self._changes.update(touched)
        for catalog, database in touched:
            self._lists.pop(("tables", catalog, database), None)
        for catalog, _ in whole:
            self._lists.pop(("databases", catalog), None)

    def forget_all(self) -> None:
        """Forget everything, and answers that are still on their way: others may have changed any name."""
        self.changed_names.note_all()
        self._known.forget_all()
        self._asking.clear()
        self._lists.clear()
        self._forgotten += 1

    def changes(self, catalog: str, database: str) -> int:
        """Return how often names of a database were invalidated, or the database itself."""
        return self._forgotten + self._changes[catalog.lower(), database.lower()]

    def _relist(self) -> None:
        """Take note of catalogs that came, went or changed: what is known of these is forgotten, and answers
        that are on their way do not count."""
        listed = self._listed()
        if listed is self._now_listed or listed == self._now_listed:
            return
        self._now_listed = listed
        gone = self._known.relist(listed)
        for asked in list(self._asking):
            if (asked.catalog if isinstance(asked, TableName) else asked[1]) in gone:
                del self._asking[asked]
        self._lists = {key: kept for key, kept in self._lists.items() if key[1] not in gone}

    def _require_usable(self, names: Sequence[TableName]) -> None:
        for name in names:
            why = self._now_listed.refused.get(name.catalog)
            if why is not None:
                raise BackendUnavailable(f"the catalog `{name.catalog}` cannot be used: it is one {why}")

    async def databases(self, catalog: str) -> Sequence[str]:
        """Return the catalog's databases."""
        self._relist()
        key = ("databases", catalog.lower())
        listed: Sequence[str] = await self._list(key, self._databases)
        return listed

    async def list_tables(self, catalog: str, database: str) -> Sequence[tuple[str, bool]]:
        """Return the database's tables and views, with whether each is a view; none when there is no such."""
        self._relist()
        key = ("tables", catalog.lower(), database.lower())
        listed: Sequence[tuple[str, bool]] = await self._list(key, self._tables)
        return listed

    async def close(self) -> None:
        """Stop asking."""
        tasks = list(self._asking.values())
        self._asking.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- asking once -----------------------------------------------------------------------------------------

    def _ask(self, key: _Key, question: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Return the task that asks for `key`, starting it unless it runs already."""
        running = self._asking.get(key)
        if running is not None:
            question.close()
            return running
        task = asyncio.create_task(question)
        self._asking[key] = task
        task.add_done_callback(lambda done: self._forget_question(key, done))
        return task

    def _forget_question(self, key: _Key, task: asyncio.Task[Any]) -> None:
        if self._asking.get(key) is task:
            del self._asking[key]
        if not task.cancelled():
            task.exception()  # marks it as seen: whoever asked may have gone away

    def _still_asked(self, key: _Key) -> bool:
        """Whether the running task's answer counts: nothing was invalidated since it began."""
        return self._asking.get(key) is asyncio.current_task()

    async def _list(
        self, key: tuple[str, ...], question: Callable[[tuple[str, ...]], Coroutine[Any, Any, Sequence[Any]]]
    ) -> Sequence[Any]:
        kept = self._lists.get(key)
        if kept is not None and self._clock() - kept[0] < self._max_age_s:
            return kept[1]
        return await asyncio.shield(self._ask(key, self._list_names(key, question)))

    async def _list_names(
        self, key: tuple[str, ...], question: Callable[[tuple[str, ...]], Coroutine[Any, Any, Sequence[Any]]]
    ) -> Sequence[Any]:
        listed = await question(key)
        if self._still_asked(key):
            self._lists[key] = (self._clock(), listed)
        return listed

    # -- questions -------------------------------------------------------------------------------------------

    async def _look_up(self, name: TableName) -> None:
        if name.version == FUNCTION:
            table = await self._function(name)
        else:
            table = await self._describe(name.current)
            if name.version:
                table = await self._version(table, name)
        comes_and_goes = name.catalog in self._now_listed.revisions or self._known.is_of_files(name)
        if table is not None and self._owners is not None and comes_and_goes:
            table = replace(table, owner=await self._owners(table))
        if self._still_asked(name):
            self._known.learn(name, table, self._clock())
            self._learned(name, table)

    async def _function(self, name: TableName) -> Table | None:
        """Return what our session knows of a function; None also for what Spark does not describe."""
        rows = await self._rows(f"DESCRIBE FUNCTION EXTENDED {quote_parts(name.parts)}", refusable=True)
        if isinstance(rows, str):
            return None
        try:
            return function_from_rows(rows, name)
        except NotUnderstood:
            return None

    async def _describe(self, name: TableName) -> Table | None:
        full_name = quote_parts(name.parts)
        try:
            if name.is_global_view:
                return await self._describe_global_view(name)
            try:
                table = await self._describe_relation(full_name, name)
            except LookUpRefused:
                # Our session may know a table whose files are gone, and it never forgets what is asked about.
                if isinstance(await self._rows(f"REFRESH TABLE {full_name}", refusable=True), str):
                    raise
                table = await self._describe_relation(full_name, name)
            if _is_kept(table):
                # What it told is what our own session knew, which can be older than what the user's knows.
                if isinstance(await self._rows(f"REFRESH TABLE {full_name}", _NO_SUCH_TABLE), str):
                    return None
                table = await self._describe_relation(full_name, name)
            if table is None or not _has_names_below(table):
                return table
            namespace = await self._rows(
                f"DESCRIBE NAMESPACE {full_name}", _NO_SUCH_NAMESPACE, _NOT_SUPPORTED
            )
            return replace(table, shadowed=not isinstance(namespace, str))
        except NotUnderstood as fault:
            raise BackendUnavailable(f"cannot parse Spark's description of {name}: {fault}") from fault

    async def _describe_relation(self, dotted: str, name: TableName) -> Table | None:
        """Return what our session knows of a table or view."""
        sql = f"DESCRIBE TABLE EXTENDED {dotted}"
        absent = (_NO_SUCH_TABLE, _NO_SUCH_NAMESPACE)
        if self._json:
            rows = await self._rows(f"{sql} AS JSON", *absent, _NOT_SUPPORTED)
            if rows in absent:
                return None
            if not isinstance(rows, str):
                return table_from_json(_only_cell(rows), name)
        rows = await self._rows(sql, *absent)
        if isinstance(rows, str):
            return None
        if is_catalog_view(rows):
            return await self._catalog_view(sql, dotted, name, rows)
        table = table_from_rows(rows, name)
        if not self._json and table.kind is TableKind.VIEW:
            return replace(table, view=await self._view_body(sql, dotted, rows, len(table.columns)))
        return table

    async def _describe_global_view(self, name: TableName) -> Table | None:
        """Return what Spark tells of a global temporary view, whose name has no catalog. One of a DataFrame
        has no text, and some minors do not tell any."""
        asked = f"DESCRIBE TABLE EXTENDED {quote_parts((name.database, name.table))} AS JSON"
        rows = await self._rows(asked, refusable=True) if self._json else _NOT_SUPPORTED
        if rows in (_NO_SUCH_TABLE, _NO_SUCH_NAMESPACE):
            return None
        return global_view_from_json("" if isinstance(rows, str) else _only_cell(rows), name)

    async def _version(self, now: Table | None, name: TableName) -> Table | None:
        """Return a version of a table. One that Spark does not describe, or is not asked about, is
        read by the columns of now."""
        if now is None or now.kind is not TableKind.TABLE:
            return now if now is None else replace(now, name=name)
        full_name = quote_parts(now.name.parts)
        fresh = f"REFRESH TABLE {full_name}" if is_cached_by_sessions(now) else ""
        if name.version == CHANGES:
            return build_changes(now, name)
        schemas: Schemas = ((), ())
        with contextlib.suppress(NotUnderstood):
            schemas = await self._schemas(now, full_name, fresh)
        if name.version == FEED:
            return build_feed(now, name, schemas)
        described = f"DESCRIBE QUERY SELECT * FROM {full_name} {name.version}"
        rows = "" if name.version == SOME_VERSION else await self._read_refusable(described, fresh)
        return build_version(now, name, rows, schemas)

    async def _schemas(self, table: Table, full_name: str, fresh: str) -> Schemas:
        """Return all schemas that a table has had, and the one that it has, as its format tells of them.
        Raises NotUnderstood."""
        match (table.provider or "").lower():
            case ICEBERG.name:
                log = await self._read(f"SELECT file FROM {full_name}.metadata_log_entries", fresh)
                file = log[-1][0] if log else ""
                if str(file).endswith(".gz.metadata.json"):
                    # Spark's readers know compressed files by how their names end.
                    packed = await self._read(
                        ICEBERG_PACKED, files_view("binaryFile", file, "pathGlobFilter '*.json'")
                    )
                    return iceberg_schemas(*await asyncio.to_thread(unpack_schemas, packed))
                rows = await self._read(ICEBERG_SCHEMAS, files_view("text", file, "wholetext 'true'"))
                return iceberg_schemas(*(rows[0] if rows else ("", "")))
            case DELTA.name:
                place = f"{(table.location or '').rstrip('/')}/_delta_log"
                found: list[Row] = []
                for form in ("json", "parquet"):
                    files = files_view(form, place, f"pathGlobFilter '*.{form}'")
                    found += await self._read(DELTA_SCHEMAS, files)
                return delta_schemas(found)
            case PAIMON.name:
                *above, last = table.name.parts
                name = quote_parts((*above, f"{last}$schemas"))
                return paimon_schemas(await self._read(f"SELECT schema_id, fields FROM {name}", fresh))
        raise NotUnderstood("a format without column ids")

    async def _read(self, sql: str, before: str) -> Sequence[Row]:
        rows = await self._read_refusable(sql, before)
        if isinstance(rows, str):
            raise NotUnderstood("metadata that Spark cannot read")
        return rows

    async def _read_refusable(self, sql: str, before: str) -> Sequence[Row] | str:
        return await self._rows(sql, before=before, refusable=True)

    async def _view_body(self, sql: str, dotted: str, rows: Sequence[Row], columns: int) -> ViewBody | None:
        """Return a view's text by what Spark 3.5 tells: in many answers, between which it must not change."""
        shown = f"SHOW TBLPROPERTIES {dotted}"
        keys = view_keys(columns)
        kept = {key: property_from_rows(await self._read_existing(f"{shown} ('{key}')"), key) for key in keys}
        own = await self._read_existing(shown)
        if await self._read_existing(sql) != rows:
            raise NotUnderstood("it is being replaced at the moment")
        return view_body_from_properties(rows, columns, kept, own)

    async def _catalog_view(self, sql: str, dotted: str, name: TableName, rows: Sequence[Row]) -> Table:
        """Return a view of a catalog that is not Spark's own: by three answers that agree."""
        properties = await self._read_existing(f"SHOW TBLPROPERTIES {dotted}")
        shown = await self._read_existing(f"SHOW CREATE TABLE {dotted}")
        if await self._read_existing(sql) != rows:
            raise NotUnderstood("it is being replaced at the moment")
        return catalog_view_from_rows(rows, name, properties, shown)

    async def _read_existing(self, statement: str) -> Sequence[Row]:
        """Return what is told of something that is there."""
        told = await self._rows(statement, _NO_SUCH_TABLE)
        if isinstance(told, str):
            raise NotUnderstood("it is being dropped at the moment")
        return told

    async def _databases(self, key: tuple[str, ...]) -> Sequence[str]:
        found: dict[str, None] = {}
        catalog = key[1]
        rows = await self._rows(f"SHOW DATABASES IN {quote(catalog)}", _NO_SUCH_NAMESPACE)
        level = [] if isinstance(rows, str) else namespaces_in((), _first_cells(rows))
        while level:
            found.update((join_namespace(name), None) for name in level)
            if len(found) > _MAX_NAMESPACES:
                raise BackendUnavailable(f"`{catalog}` has more than {_MAX_NAMESPACES} databases")
            if catalog == SESSION_CATALOG:
                break
            further: list[tuple[str, ...]] = []
            for first in range(0, len(level), self._concurrency):
                few = level[first : first + self._concurrency]
                for below in await asyncio.gather(*(self._below(catalog, name) for name in few)):
                    further += below
            level = further
        return tuple(found)

    async def _below(self, catalog: str, above: tuple[str, ...]) -> list[tuple[str, ...]]:
        """Return the namespaces in one; none of a catalog that has no nested ones, however it says so."""
        place = quote_parts((catalog, *above))
        rows = await self._rows(f"SHOW NAMESPACES IN {place}", refusable=True)
        return [] if isinstance(rows, str) else namespaces_in(above, _first_cells(rows))

    async def _tables(self, key: tuple[str, ...]) -> Sequence[tuple[str, bool]]:
        database = quote_parts((key[1], *levels(key[2])))
        rows = await self._rows(f"SHOW TABLES IN {database}", _NO_SUCH_NAMESPACE)
        if isinstance(rows, str):
            return ()
        shown = await self._rows(f"SHOW VIEWS IN {database}", _NO_SUCH_NAMESPACE, _NOT_SUPPORTED, _NO_VIEWS)
        views = {} if isinstance(shown, str) else dict.fromkeys(str(row[1]) for row in shown if not row[2])
        # Spark lists views of its own among the tables; other catalogs do not.
        names = dict.fromkeys([*(str(row[1]) for row in rows if not row[2]), *views])
        # INVARIANT (one name): what has a dot in it cannot be governed, nor asked about by one name.
        return tuple((name, name in views) for name in names if "." not in name)

    async def _rows(
        self, sql: str, *expected: str, before: str = "", refusable: bool = False
    ) -> Sequence[Row] | str:
        """Return the rows, or the SQLSTATE or condition when Spark refuses with one of `expected`; where the
        statement is `refusable`, with whatever it refuses."""
        try:
            async with self._slots, asyncio.timeout(self._timeout_s):
                return await (self._query(sql, before) if before else self._query(sql))
        except TimeoutError:
            raise BackendUnavailable("Spark did not answer a catalog look-up in time") from None
        except self._refusal as refused:
            sqlstate = getattr(refused, "sqlstate", None)
            named = _CONDITION.match(getattr(refused, "message", ""))
            for known in (sqlstate, named and named[1]):
                if known in expected:
                    return str(known)
            if refusable:
                return str(sqlstate or "")
            raise LookUpRefused(
                f"Spark refused a catalog look-up with SQLSTATE {sqlstate or 'unknown'}"
            ) from refused


def _is_kept(table: Table | None) -> bool:
    return table is not None and table.kind is TableKind.TABLE and is_cached_by_sessions(table)


def _has_names_below(table: Table) -> bool:
    return table.kind is TableKind.TABLE and (table.provider or "").lower() in NAMED_BELOW


def _first_cells(rows: Sequence[Row]) -> list[str]:
    return [str(row[0]) for row in rows]


def _only_cell(rows: Sequence[Row]) -> Any:
    if len(rows) != 1 or len(rows[0]) != 1:
        raise NotUnderstood("a description of an unexpected form")
    return rows[0][0]
