"""What walks have found, in PostgreSQL: how far each has come, and which directories are no tables yet."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.files.walking import Round, not_tables
from gateway.model.files import FileSource

MAX_KEPT = 100_000
"""Directories of a source that are noted, whether they are tables or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceWalk:
    """The walk of a source, as its last round left it."""

    source: str
    walked_at: datetime
    found: int
    """Directories that are no tables and could be."""
    trouble: str
    """Why the round could not look, or what it could not look at; empty: nothing."""


async def due(connection: Any, every_s: Mapping[str, float]) -> tuple[str, str] | None:
    """Return the source whose next round is due for longest, and the path that the last one reached; None
    when none is. `every_s`: seconds by source."""
    row = await connection.fetchrow(
        "SELECT wanted.source, coalesce(walk.reached, '') AS reached"
        " FROM unnest($1::text[], $2::float8[]) AS wanted (source, every_s)"
        " LEFT JOIN sluice.source_walk AS walk USING (source)"
        " WHERE walked_at IS NULL OR walked_at < clock_timestamp() - make_interval(secs => every_s)"
        " ORDER BY walked_at NULLS FIRST LIMIT 1",
        list(every_s),
        list(every_s.values()),
    )
    return None if row is None else (row["source"], row["reached"])


async def list_seen_paths(connection: Any, source: str) -> dict[str, tuple[int, str]]:
    """Return the paths that walks of a source have seen, each with its files and its table format."""
    rows = await connection.fetch(
        "SELECT path, files, table_format FROM sluice.found_directory WHERE source = $1 ORDER BY path", source
    )
    return {row["path"]: (row["files"], row["table_format"]) for row in rows}


async def keep(connection: Any, source: FileSource, after: str, round_: Round) -> None:
    """Keep what a round has seen that began after a path. When all was, what is gone is dropped."""
    before = await list_seen_paths(connection, source.name)
    paths = list(dict.fromkeys((*round_.files, *round_.formats)))
    new = [path for path in paths if path not in before]
    left_out = set(new[max(0, MAX_KEPT - len(before)) :])
    paths = [path for path in paths if path not in left_out]
    told = [f"{round_.unread} directories cannot be read"] if round_.unread else []
    told += [f"it has more than {MAX_KEPT} directories: the others are ignored"] if left_out else []
    trouble = "; ".join(told)
    async with connection.transaction():
        await _step(connection, source.name, round_.reached, trouble, anew=not after)
        await connection.execute(
            "INSERT INTO sluice.found_directory AS kept (source, path, files, table_format, seen_at)"
            " SELECT $1, path, files, table_format, clock_timestamp()"
            " FROM unnest($2::text[], $3::bigint[], $4::text[]) AS new (path, files, table_format)"
            # Of a directory of partitions, some may have been seen by the round before.
            " ON CONFLICT (source, path) DO UPDATE SET seen_at = excluded.seen_at,"
            " table_format = excluded.table_format, files = excluded.files + CASE WHEN kept.seen_at >="
            " (SELECT began_at FROM sluice.source_walk WHERE source = $1) THEN kept.files ELSE 0 END",
            source.name,
            paths,
            [round_.files.get(path, 0) for path in paths],
            [round_.formats.get(path, "") for path in paths],
        )
        if not round_.reached:
            await connection.execute(
                "DELETE FROM sluice.found_directory WHERE source = $1 AND seen_at <"
                " (SELECT began_at FROM sluice.source_walk WHERE source = $1)",
                source.name,
            )
        await connection.execute(
            "UPDATE sluice.source_walk SET found = $2 WHERE source = $1",
            source.name,
            len(await no_tables(connection, source)),
        )


async def fail(connection: Any, source: FileSource, after: str, why: str) -> None:
    """Note why a round could not look; the next one begins where it did."""
    await _step(connection, source.name, after, why, anew=False)


async def _step(connection: Any, source: str, reached: str, trouble: str, *, anew: bool) -> None:
    await connection.execute(
        "INSERT INTO sluice.source_walk AS walk (source, reached, trouble, began_at, walked_at)"
        " VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp())"
        " ON CONFLICT (source) DO UPDATE SET reached = excluded.reached, trouble = excluded.trouble,"
        " walked_at = excluded.walked_at,"
        " began_at = CASE WHEN $4 THEN excluded.began_at ELSE walk.began_at END",
        source,
        reached,
        trouble,
        anew,
    )


async def walks(connection: Any) -> Sequence[SourceWalk]:
    """Return the walks of all sources, of whatever gateway."""
    rows = await connection.fetch(
        "SELECT source, walked_at, found, trouble FROM sluice.source_walk ORDER BY source"
    )
    return [SourceWalk(**row) for row in rows]


async def no_tables(connection: Any, source: FileSource) -> dict[str, int]:
    """Return the paths of a source that could become tables and did not, with their files."""
    rows = await connection.fetch("SELECT path FROM sluice.dataset WHERE source = $1", source.name)
    datasets = [row["path"] for row in rows]
    # So many take their time, and statements wait for nobody else's.
    return await asyncio.to_thread(
        not_tables, source, await list_seen_paths(connection, source.name), datasets
    )
