"""The audit record: searched by what people know of an event, page by page, and taken along as a file.

Auditors see everybody's events. Everybody else sees his own, without the names of policies and of resources:
behind a view there are tables of which he may not know.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

import orjson

from gateway.admin.requests import BadRequest
from gateway.audit.record_pages import (
    FIRST_SPAN,
    LONGEST_SPAN,
    RecordLine,
    RecordMark,
    RecordQuery,
    format_csv,
    format_csv_header,
    load_all,
    load_page,
    spread_name,
)
from gateway.console.routes import (
    MAX_CURSOR_CHARS,
    ConsoleDownload,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NotAllowed,
    Viewer,
    Who,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.console.texts import ShownTexts

ConnectRecord = Callable[[], AbstractAsyncContextManager[Any]]
NamesOfTag = Callable[[str], tuple[list[str], bool]]
"""Tag → names of what carries it now, and whether that is all."""
OWN = "whoever is no auditor sees the events of his own name alone, without policies and resources"
VerdictFilter = Literal["", "cleared", "refused", "accepted", "rejected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """What is looked for; all of it holds."""

    user: str = parameter("Name of the user.", "", most=400)
    since: datetime | None = parameter("The earliest time, in UTC where no zone is given.", None)
    until: datetime | None = parameter("The time before which it was.", None)
    table: str = parameter("Table, such as `hr.employee`, with or without its catalog.", "", most=800)
    column: str = parameter("Column of that table.", "", most=400)
    tag: str = parameter("Tag that a resource carries now.", "", most=200)
    policy: str = parameter("Name of a policy that decided, masked or filtered.", "", most=400)
    verdict: VerdictFilter = parameter("What was decided; of logins `accepted` or `rejected`.", "")
    text: str = parameter("Part of the statement; case does not matter.", "", most=500)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordExport(RecordFilter):
    """All of it, from where a page begins."""

    after: str = parameter("`next` of the page before.", "", most=MAX_CURSOR_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSearch(RecordExport):
    """A page of it."""

    limit: int = parameter("How many at most.", 50, most=200)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordList:
    """Events, newest first."""

    items: tuple[RecordLine, ...]
    next: str
    searched_to: datetime | None
    """How far back was looked where the page is not full; the next one goes on there."""
    tag_incomplete: bool
    """Whether the tag is on more than can be looked for by name."""
    everybody: bool
    """Whether the viewer sees the events of all people."""


class RecordPages:
    """Answers searches and exports."""

    def __init__(
        self,
        connect: ConnectRecord,
        texts: ShownTexts,
        *,
        catalogs: Sequence[str],
        names_of_tag: NamesOfTag,
    ) -> None:
        self._connect = connect
        self._texts = texts
        self._catalogs = tuple(catalogs)
        self._names_of_tag = names_of_tag

    async def search(self, viewer: Viewer, asked: RecordSearch) -> RecordList:
        query, whole = self._query(viewer, asked)
        if asked.limit < 1:
            raise BadRequest("`limit` must be at least 1")
        async with self._connect() as connection:
            page = await load_page(connection, query, after=_mark(asked.after), limit=asked.limit)
        return RecordList(
            items=tuple([await self._show(viewer, line) for line in page.lines]),
            next="" if page.next is None else _cursor(page.next),
            searched_to=page.searched_to,
            tag_incomplete=not whole,
            everybody=viewer.is_auditor,
        )

    async def export_csv(self, viewer: Viewer, asked: RecordExport) -> AsyncIterator[bytes]:
        """Yield what the list shows as CSV, some hundred events at a time."""
        head = format_csv_header()
        async for lines in self._export(viewer, asked):
            yield head + b"".join(map(format_csv, lines))
            head = b""

    async def export_json(self, viewer: Viewer, asked: RecordExport) -> AsyncIterator[bytes]:
        """Yield what the list shows as JSON, one event in a line."""
        async for lines in self._export(viewer, asked):
            yield b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)

    async def _export(self, viewer: Viewer, asked: RecordExport) -> AsyncIterator[list[RecordLine]]:
        """Yield events in portions, an empty one where there are none at all."""
        query, _ = self._query(viewer, asked)
        after, is_first = _mark(asked.after), True
        while True:
            # A connection is had for a portion alone: whoever reads slowly keeps none.
            async with self._connect() as connection:
                page = await load_all(connection, query, after)
            if page is not None or is_first:
                lines = page.lines if page is not None else ()
                yield [await self._show(viewer, line) for line in lines]
            if page is None or page.next is None:
                return
            after, is_first = page.next, False

    def _query(self, viewer: Viewer, asked: RecordFilter) -> tuple[RecordQuery, bool]:
        """Return what is asked of the record within what the viewer may see, and whether the tag is whole."""
        user = asked.user.strip() or None
        if not viewer.is_auditor:
            if user not in (None, viewer.user):
                raise NotAllowed("only auditors see the events of others")
            user = viewer.user  # RULE (record-own)
            if asked.table or asked.column or asked.tag or asked.policy:  # RULE (record-own-names)
                raise NotAllowed("only auditors search by table, column, tag or policy")
        elif asked.text and not viewer.reads_texts and user != viewer.user:  # RULE (record-text-oracle)
            # What is found by a part tells that the part is there.
            raise NotAllowed("searching texts of others needs the role that reads texts")
        names: tuple[str, ...] | None = None
        ending, whole = "", True
        if asked.column and not asked.table:
            raise BadRequest("`column` needs `table`")
        if asked.table:
            spelled, ending = spread_name(asked.table, asked.column, self._catalogs)
            names = spelled or None
        if asked.tag:
            tagged, whole = self._names_of_tag(asked.tag)
            names = tuple(tagged) if names is None else tuple(sorted(set(names) & set(tagged)))
        return (
            RecordQuery(
                user=user,
                since=asked.since,
                until=asked.until,
                names=names,
                ending=ending,
                policy=asked.policy.strip() or None,
                verdict=asked.verdict or None,
                text=asked.text,
            ),
            whole,
        )

    async def _show(self, viewer: Viewer, line: RecordLine) -> RecordLine:
        statement = await self._texts.show(
            viewer, line.statement, owner=line.user, kind="plan" if line.is_plan else "sql"
        )
        message = self._texts.show_message(viewer, line.message, owner=line.user)
        shown = replace(line, statement=statement, message=message)
        return shown if viewer.is_auditor else replace(shown, resources=(), policies=())


def _mark(text: str) -> RecordMark | None:
    if not text:
        return None
    microseconds, event_id, span_s = decode_cursor(text, int, str, int)
    span = timedelta(seconds=span_s) if 0 < span_s <= LONGEST_SPAN.total_seconds() else FIRST_SPAN
    try:
        return RecordMark(datetime.fromtimestamp(microseconds / 1_000_000, UTC), UUID(event_id), span)
    except (ValueError, OverflowError, OSError):
        raise BadRequest("`after` is not a place in this list") from None


def _cursor(mark: RecordMark) -> str:
    whole = int(mark.time.timestamp()) * 1_000_000 + mark.time.microsecond
    return encode_cursor(whole, str(mark.event_id), int(mark.span.total_seconds()))


def part(service: RecordPages) -> ConsolePart:
    """Return the routes and the page."""
    listing = ConsoleRoute.get(
        "/record",
        service.search,
        "Search the audit record, newest first.",
        name="list_record",
        own=OWN,
    )
    return ConsolePart(
        routes=(listing,),
        pages=(
            ConsolePage(
                route=listing, path="/record", template="record.html", title="Record", menu="Record", place=5
            ),
        ),
        downloads=(
            ConsoleDownload(
                name="export_record_csv",
                path="/record.csv",
                about="Take along what a search shows, as CSV that no spreadsheet takes for formulas.",
                parameters=RecordExport,
                who=Who.LOGGED_IN,
                own=OWN,
                content_type="text/csv; charset=utf-8",
                file_name=lambda asked: "record.csv",
                handle=service.export_csv,
            ),
            ConsoleDownload(
                name="export_record_json",
                path="/record.jsonl",
                about="Take along what a search shows, as one JSON object in each line.",
                parameters=RecordExport,
                who=Who.LOGGED_IN,
                own=OWN,
                content_type="application/jsonl",
                file_name=lambda asked: "record.jsonl",
                handle=service.export_json,
            ),
        ),
    )
