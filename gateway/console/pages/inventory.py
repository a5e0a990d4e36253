"""Files that became tables, catalogs, and runs of jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.console.routes import (
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NoParameters,
    PagedParameters,
    Viewer,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.model.principal import user_of


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetQuestion(PagedParameters):
    """Which of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTable:
    """Files that became a table."""

    source: str
    path: str
    table: str
    format: str
    files: int
    bytes: int
    promoted_by: str
    promoted_at: datetime
    looked_at: datetime | None
    finding: str
    """What was found since that the table does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTableList:
    items: tuple[FileTable, ...]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCatalog:
    name: str
    service: str
    """Whose policies speak for it."""
    source: str
    """Where the gateway knows it from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogList:
    items: tuple[ListedCatalog, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunQuestion(PagedParameters):
    job: str = parameter("Only runs of this job.", "", most=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    id: int
    job: str
    state: str
    runner: str
    started_at: datetime
    ended_at: datetime | None
    seconds: float | None
    rows_in: int
    rows_out: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledJob:
    name: str
    schedule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunList:
    items: tuple[JobRun, ...]
    next: str
    scheduled: tuple[ScheduledJob, ...]


ListDatasets = Callable[[tuple[str, str], int], Awaitable[Sequence[Mapping[str, Any]]]]


class InventoryPages:
    """Answers what there is."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Any]],
        datasets: ListDatasets,
        catalogs: Callable[[], Sequence[ListedCatalog]],
        scheduled: Callable[[], Sequence[ScheduledJob]],
    ) -> None:
        self._connect = connect
        self._datasets = datasets
        self._catalogs = catalogs
        self._scheduled = scheduled

    async def list_datasets(self, viewer: Viewer, asked: DatasetQuestion) -> FileTableList:
        limit = max(1, asked.limit)
        after = decode_cursor(asked.after, str, str) if asked.after else ("", "")
        found = await self._datasets((after[0], after[1]), limit + 1)
        items = tuple(
            FileTable(
                source=row["source"],
                path=row["path"],
                table=f"{row['database']}.{row['table_name']}",
                format=row["format"],
                files=row["files"],
                bytes=row["bytes"],
                promoted_by=user_of(row["promoted_by"]),
                promoted_at=row["promoted_at"],
                looked_at=row["looked_at"],
                finding=row["finding"],
            )
            for row in found[:limit]
        )
        return FileTableList(
            items=items, next=encode_cursor(items[-1].source, items[-1].path) if len(found) > limit else ""
        )

    async def list_catalogs(self, viewer: Viewer, asked: NoParameters) -> CatalogList:
        return CatalogList(items=tuple(self._catalogs()))

    async def list_job_runs(self, viewer: Viewer, asked: JobRunQuestion) -> JobRunList:
        limit = max(1, asked.limit)
        before = decode_cursor(asked.after, int)[0] if asked.after else None
        async with self._connect() as connection:
            rows = await connection.fetch(
                "SELECT id, job, state, runner, started_at, ended_at, seconds, rows_in, rows_out, error"
                " FROM sluice.job_run WHERE ($1 = '' OR job = $1) AND ($2::bigint IS NULL OR id < $2)"
                " ORDER BY id DESC LIMIT $3",
                asked.job,
                before,
                limit + 1,
            )
        items = tuple(JobRun(**dict(row)) for row in rows[:limit])
        return JobRunList(
            items=items,
            next=encode_cursor(items[-1].id) if len(rows) > limit else "",
            scheduled=tuple(self._scheduled()),
        )


def part(pages: InventoryPages) -> ConsolePart:
    """Return the routes and pages of it."""
    found = (
        ("/datasets", pages.list_datasets, "Files that became tables", " when they were first named"),
        ("/catalogs", pages.list_catalogs, "Catalogs", ", and whose policies speak for them"),
        ("/job-runs", pages.list_job_runs, "Jobs", " that ran on Spark, the newest first"),
    )
    routes = [
        ConsoleRoute.get(
            path,
            handle,
            f"{title}{which}.",
            unrecorded_because="It shows what there is, and nothing of the record.",
        )
        for path, handle, title, which in found
    ]
    return ConsolePart(
        routes=routes,
        pages=[
            ConsolePage(route=route, path=path, template=f"{path[1:].replace('-', '_')}.html", title=title)
            for route, (path, _, title, _) in zip(routes, found, strict=True)
        ],
    )
