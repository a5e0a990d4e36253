"""Datasets in PostgreSQL: which files became which tables. Several gateways share it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import asyncpg

from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableName

_COLUMNS = (
    "source, path, database, table_name, url, format, options, columns, files, bytes, signature, promoted_by"
)
CHANGED = "sluice_dataset"
"""Channel of other gateways: `database.table` of a dataset that was made, renewed or forgotten."""
_TIMES = "promoted_at, looked_at, finding"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedFiles:
    """Files that became a table, as they were then."""

    source: str
    path: str
    table: TableName
    url: str
    format: str
    options: Mapping[str, str]
    columns: Sequence[tuple[str, str]]
    """Name and type of each, as Spark writes types in DDL."""
    files: int
    bytes: int
    signature: str
    promoted_by: str


@contextmanager
def answering() -> Iterator[None]:
    """Make BackendUnavailable of whatever PostgreSQL fails with, or the way there."""
    try:
        yield
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        raise BackendUnavailable("datasets are stored in PostgreSQL, which does not answer") from None


@asynccontextmanager
async def only_one(connection: Any, table: TableName) -> AsyncIterator[None]:
    """Hold a table's dataset: of all gateways one at a time makes or forgets it. What is written meanwhile
    is there at once, whatever becomes of the rest; who loses the connection holds nothing any more."""
    folded = table.fold()
    key = f"dataset {folded.database}.{folded.table}"
    try:
        await connection.execute("SELECT pg_advisory_lock(hashtextextended($1, 0))", key)
        yield
    finally:
        if not connection.is_closed():
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await connection.execute("SELECT pg_advisory_unlock(hashtextextended($1, 0))", key)


@asynccontextmanager
async def only_one_place(connection: Any) -> AsyncIterator[None]:
    """Within `only_one`: of all gateways one at a time finds out what datasets have taken, and begins.

    Tables wait for each other here alone, for as long as PostgreSQL takes: Spark is not asked meanwhile."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('dataset places', 0))")
        yield


async def begin(connection: Any, source: str, path: str, table: TableName, url: str, user: str) -> None:
    """Note that a table is about to be made, and keep its place from now on."""
    folded = table.fold()
    await connection.execute(
        "INSERT INTO sluice.dataset_begun (source, path, database, table_name, url, begun_by)"
        " VALUES ($1, $2, $3, $4, $5, $6)"
        " ON CONFLICT (database, table_name) DO UPDATE SET source = excluded.source, path = excluded.path,"
        " url = excluded.url, begun_by = excluded.begun_by, begun_at = now()",
        source,
        path,
        folded.database,
        folded.table,
        url,
        user,
    )


async def end(connection: Any, table: TableName) -> bool:
    """Forget that a promotion began; False when none had. Its table is saved, or Spark has none."""
    folded = table.fold()
    done: str = await connection.execute(
        "DELETE FROM sluice.dataset_begun WHERE database = $1 AND table_name = $2",
        folded.database,
        folded.table,
    )
    return done != "DELETE 0"


async def list_unfinished_promotions(connection: Any) -> Sequence[Mapping[str, Any]]:
    """Return the promotions that began and have not ended, by source and path."""
    found: Sequence[Mapping[str, Any]] = await connection.fetch(
        "SELECT source, path, database, table_name, url, begun_by, begun_at FROM sluice.dataset_begun"
        " ORDER BY source, path"
    )
    return found


async def find_unfinished_promotion_url(connection: Any, table: TableName) -> str | None:
    """Return the URL of a promotion that began and has not ended, None when there is none."""
    folded = table.fold()
    found: str | None = await connection.fetchval(
        "SELECT url FROM sluice.dataset_begun WHERE database = $1 AND table_name = $2",
        folded.database,
        folded.table,
    )
    return found


async def save(connection: Any, dataset: PromotedFiles) -> None:
    """Keep a dataset, in place of an older one of the same path, and end its promotion: both or neither."""
    folded = dataset.table.fold()
    async with connection.transaction():
        # Of a source that had another name.
        await connection.execute(
            "DELETE FROM sluice.dataset"
            " WHERE database = $1 AND table_name = $2 AND (source, path) <> ($3, $4)",
            folded.database,
            folded.table,
            dataset.source,
            dataset.path,
        )
        await _insert(connection, dataset)
        await end(connection, dataset.table)
        await _tell(connection, dataset.table)


async def _insert(connection: Any, dataset: PromotedFiles) -> None:
    await connection.execute(
        f"INSERT INTO sluice.dataset ({_COLUMNS})"
        " VALUES ($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8::text::jsonb, $9, $10, $11, $12)"
        " ON CONFLICT (source, path) DO UPDATE SET database = excluded.database,"
        " table_name = excluded.table_name, url = excluded.url, format = excluded.format,"
        " options = excluded.options, columns = excluded.columns, files = excluded.files,"
        " bytes = excluded.bytes, signature = excluded.signature, promoted_at = now(), looked_at = now(),"
        " finding = '',"
        " promoted_by = excluded.promoted_by",
        dataset.source,
        dataset.path,
        dataset.table.database.lower(),
        dataset.table.table.lower(),
        dataset.url,
        dataset.format,
        json.dumps(dict(dataset.options)),
        json.dumps([{"name": name, "type": type_} for name, type_ in dataset.columns]),
        dataset.files,
        dataset.bytes,
        dataset.signature,
        dataset.promoted_by,
    )


async def _tell(connection: Any, table: TableName) -> None:
    folded = table.fold()
    await connection.execute("SELECT pg_notify($1, $2)", CHANGED, f"{folded.database}.{folded.table}")


async def find(connection: Any, table: TableName) -> Mapping[str, Any] | None:
    """Return the dataset of a table, None when there is none."""
    folded = table.fold()
    found: Mapping[str, Any] | None = await connection.fetchrow(
        f"SELECT {_COLUMNS}, {_TIMES} FROM sluice.dataset WHERE database = $1 AND table_name = $2",
        folded.database,
        folded.table,
    )
    return found


async def find_finished(connection: Any, table: TableName) -> Mapping[str, Any] | None:
    """Return the dataset of a table whose promotion has come to its end; None when there is none."""
    return (
        None
        if await find_unfinished_promotion_url(connection, table) is not None
        else await find(connection, table)
    )


async def renew(
    connection: Any,
    table: TableName,
    *,
    format: str,  # noqa: A002 - the column's name
    options: Mapping[str, str],
    columns: Sequence[tuple[str, str]],
    files: int,
    bytes: int,  # noqa: A002 - the column's name
    signature: str,
) -> None:
    """Keep what a dataset's files are now."""
    folded = table.fold()
    await connection.execute(
        "UPDATE sluice.dataset SET format = $3, options = $4::text::jsonb, columns = $5::text::jsonb,"
        " files = $6, bytes = $7, signature = $8 WHERE database = $1 AND table_name = $2",
        folded.database,
        folded.table,
        format,
        json.dumps(dict(options)),
        json.dumps([{"name": name, "type": type_} for name, type_ in columns]),
        files,
        bytes,
        signature,
    )
    await _tell(connection, table)


async def record_look(connection: Any, table: TableName, finding: str) -> None:
    """Note that a dataset's files were looked at, and what was found that its table does not have."""
    folded = table.fold()
    await connection.execute(
        "UPDATE sluice.dataset SET looked_at = clock_timestamp(), finding = $3"
        " WHERE database = $1 AND table_name = $2",
        folded.database,
        folded.table,
        finding.replace("\0", " "),
    )


@asynccontextmanager
async def only_one_looks(connection: Any) -> AsyncIterator[bool]:
    """Say whether this is the one of all gateways that looks at datasets by itself now."""
    key = "hashtextextended('dataset looks', 0)"
    mine: bool = await connection.fetchval(f"SELECT pg_try_advisory_lock({key})")
    try:
        yield mine
    finally:
        if mine and not connection.is_closed():
            await connection.execute(f"SELECT pg_advisory_unlock({key})")


async def due(connection: Any, every_s: Mapping[str, float]) -> Mapping[str, Any] | None:
    """Return the dataset that is due for longest; None when none is. `every_s`: seconds by source."""
    found: Mapping[str, Any] | None = await connection.fetchrow(
        "SELECT database, table_name FROM sluice.dataset"
        " JOIN unnest($1::text[], $2::float8[]) AS wanted (source, every_s) USING (source)"
        " WHERE looked_at < clock_timestamp() - make_interval(secs => every_s)"
        " ORDER BY looked_at LIMIT 1",
        list(every_s),
        list(every_s.values()),
    )
    return found


async def forget(connection: Any, table: TableName) -> None:
    """Drop what is kept of a table's files, and of a promotion that was cut."""
    folded = table.fold()
    async with connection.transaction():
        await end(connection, table)
        await connection.execute(
            "DELETE FROM sluice.dataset WHERE database = $1 AND table_name = $2",
            folded.database,
            folded.table,
        )
        await _tell(connection, table)


async def datasets(connection: Any) -> Sequence[Mapping[str, Any]]:
    """Return all datasets, with when they were made and what was found since, by source and path."""
    found: Sequence[Mapping[str, Any]] = await connection.fetch(
        f"SELECT {_COLUMNS}, {_TIMES} FROM sluice.dataset ORDER BY source, path"
    )
    return found


async def list_datasets(
    connection: Any, *, after: tuple[str, str] = ("", ""), limit: int = 100
) -> Sequence[Mapping[str, Any]]:
    """Return datasets as `datasets`, from behind a source and path on."""
    found: Sequence[Mapping[str, Any]] = await connection.fetch(
        f"SELECT {_COLUMNS}, {_TIMES} FROM sluice.dataset WHERE (source, path) > ($1, $2)"
        " ORDER BY source, path LIMIT $3",
        *after,
        limit,
    )
    return found


async def findings(connection: Any) -> Mapping[str, int]:
    """Return of how many datasets of each source the files are not as their table, at the last look."""
    rows = await connection.fetch(
        "SELECT source, count(*) AS found FROM sluice.dataset WHERE finding <> '' GROUP BY source"
    )
    return {row["source"]: row["found"] for row in rows}
