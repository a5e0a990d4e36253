"""The record page by page, newest first, for people who look: each page takes a fraction of a second, however
many events there are.

A page begins behind a mark (time and event id), never at an offset, and nothing is counted. A condition that
an index answers is asked of one span of time after the other, each four times as long: a rare one is found
soon, and a frequent one reads no more than it needs. Where no index helps, as with a part of a text, a page
looks at so many events and says how far back it came.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from gateway.audit.rows import MAX_INDEXED_CHARACTERS, select_time

BUDGET_S = 0.15
"""Time after which a page begins no other look into the database."""
QUERY_S = 2.0
"""Time that one look may take; one that takes longer is tried again over a shorter span."""
SLICE = 5_000
"""Events that one look goes through where no index helps."""
FIRST_SPAN = timedelta(minutes=5)
SHORTEST_SPAN, LONGEST_SPAN = timedelta(seconds=1), timedelta(days=100 * 366)
EXPORT_PAGE = 500
"""Events of an export that are in memory at once."""
_FIRST_ID, _LAST_ID = UUID(int=0), UUID(int=2**128 - 1)
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_FAST_S = 0.05
GROWTH = 4
"""A look that was done sooner is followed by one over so many times the span."""


@dataclass(frozen=True, slots=True)
class RecordMark:
    """A place in the record: what is older than this event comes behind it."""

    time: datetime
    event_id: UUID
    span: timedelta = FIRST_SPAN
    """Span of time that the next look takes: one that has gone far without finding much goes on so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordQuery:
    """Conditions that all hold; those that are None or empty hold for every event."""

    user: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    names: tuple[str, ...] | None = None
    """Resources as the record has them, of which an event has at least one."""
    ending: str = ""
    """Last part of a resource's name, such as `employee` or `employee.ssn`; case does not matter."""
    policy: str | None = None
    verdict: str | None = None
    text: str = ""
    """Part of the statement; case does not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLine:
    """One event as a list shows it, and for a statement how it ended."""

    event_id: str
    time: datetime
    kind: str
    statement_id: str
    gateway: str
    user: str
    verdict: str
    code: str
    message: str
    application: str
    client_address: str
    session_id: str
    plan_class: str
    resources: tuple[str, ...]
    policies: tuple[str, ...]
    statement: str
    is_plan: bool
    """Whether the statement is a plan of Spark Connect, written much as in PySpark."""
    outcome: str
    """Empty for what has not ended."""
    rows: int | None
    duration_ms: float | None
    """From the verdict to the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordPage:
    """Some events, newest first."""

    lines: tuple[RecordLine, ...]
    next: RecordMark | None
    """Where the next page begins; None when there is nothing older."""
    searched_to: datetime | None
    """How far back this page looked, where it came to its end before it was full; None otherwise."""


async def load_page(
    connection: Any,
    query: RecordQuery,
    *,
    after: RecordMark | None = None,
    limit: int = 50,
    budget_s: float = BUDGET_S,
) -> RecordPage:
    """Return the events behind a mark that a query asks for, `limit` at most.

    Raises what asyncpg raises.
    """
    conditions = _Conditions(query)
    mark = _earlier(after, query.until)
    search = _search_spans if conditions.indexed else _search_slices
    until_s = time.monotonic() + budget_s
    found, reached = await search(connection, query, conditions, mark, limit + 1, until_s)
    lines = await _load_lines(connection, found[:limit])
    if len(found) > limit:
        event_id, at = found[limit - 1]
        return RecordPage(lines=lines, next=RecordMark(at, event_id), searched_to=None)
    return RecordPage(lines=lines, next=reached, searched_to=None if reached is None else reached.time)


async def load_all(connection: Any, query: RecordQuery, after: RecordMark | None = None) -> RecordPage | None:
    """Return the next events of an export, some hundred at most, however long they are looked for; None
    where there are no more."""
    mark = after
    while True:
        page = await load_page(connection, query, after=mark, limit=EXPORT_PAGE, budget_s=QUERY_S)
        if page.lines or page.next is None:
            return page if page.lines else None
        mark = page.next


def _earlier(after: RecordMark | None, until: datetime | None) -> RecordMark | None:
    if until is None or (after is not None and after.time < until):
        return after
    return RecordMark(until, _FIRST_ID)  # `until` itself is not in the period


class _Conditions:
    """The SQL of a query. What is asked for is bound, never written into the text."""

    def __init__(self, query: RecordQuery) -> None:
        self.arguments: list[object] = []
        self._plain = ["kind NOT IN ('completed', 'abandoned')"]
        self.indexed = False
        """Whether an index finds what is asked for, by something else than its time."""
        self._slow: list[str] = []
        if query.user is not None:
            self._bind("user_name = ?", query.user[:MAX_INDEXED_CHARACTERS], indexed=True)
        if query.names is not None:
            self._bind("resources && ?::text[]", list(query.names), indexed=True)
        if query.policy is not None:
            self._bind("policies @> ARRAY[?::text]", query.policy, indexed=True)
        if query.verdict is not None:
            self._bind("verdict = ?", query.verdict)
        if query.since is not None:
            self._bind("time >= ?", query.since)
        if query.text:
            self._bind("position(lower(?) in lower(statement)) > 0", query.text, slow=True)
        if query.ending:
            ending = "." + query.ending.lower()
            text = "EXISTS (SELECT FROM unnest(resources) r WHERE right('.' || lower(r), length(?)) = ?)"
            self._bind(text, ending, slow=True)

    def _bind(self, condition: str, value: object, *, indexed: bool = False, slow: bool = False) -> None:
        self.arguments.append(value)
        (self._slow if slow else self._plain).append(condition.replace("?", f"${len(self.arguments)}"))
        self.indexed = self.indexed or indexed

    @property
    def quick(self) -> str:
        """What an event itself answers."""
        return " AND ".join(self._plain)

    @property
    def slow(self) -> str:
        """What takes longer for each event; empty for nothing."""
        return " AND ".join(self._slow)

    def behind(self, mark: RecordMark | None) -> tuple[str, list[object]]:
        """Return the condition for what is behind a mark, and all arguments."""
        if mark is None:
            return "true", self.arguments
        first = len(self.arguments) + 1
        text = f"time <= ${first} AND (time < ${first} OR event_id < ${first + 1})"
        return text, [*self.arguments, mark.time, mark.event_id]


_Found = list[tuple[UUID, datetime]]


async def _search_slices(
    connection: Any,
    query: RecordQuery,
    conditions: _Conditions,
    mark: RecordMark | None,
    limit: int,
    until_s: float,
) -> tuple[_Found, RecordMark | None]:
    """Go through events in the order of their times, so many at a time."""
    found: _Found = []
    size = SLICE if conditions.slow else limit
    while True:
        behind, arguments = conditions.behind(mark)
        count = len(arguments)
        rows = await connection.fetch(
            # The subquery's LIMIT bounds what is looked at, whatever is asked for.
            "WITH looked AS MATERIALIZED (SELECT event_id, time,"
            f" ({conditions.slow or 'true'}) IS TRUE AS fits FROM sluice.audit_event"
            f" WHERE {conditions.quick} AND {behind}"
            f" ORDER BY time DESC, event_id DESC LIMIT ${count + 1})"
            " (SELECT 'found' AS part, event_id, time FROM looked WHERE fits"
            f" ORDER BY time DESC, event_id DESC LIMIT ${count + 2})"
            " UNION ALL (SELECT 'last', event_id, time FROM looked ORDER BY time, event_id"
            f" LIMIT (SELECT count(*) FROM looked) / ${count + 1})",
            *arguments,
            size,
            limit - len(found),
        )
        found += sorted(
            ((row["event_id"], row["time"]) for row in rows if row["part"] == "found"),
            key=lambda one: (one[1], one[0]),
            reverse=True,
        )
        # There is a last one only where there may be more behind it.
        last = next((row for row in rows if row["part"] == "last"), None)
        if len(found) == limit or last is None:
            return found, None
        mark = RecordMark(last["time"], last["event_id"])
        if time.monotonic() > until_s:
            return found, mark


async def _search_spans(
    connection: Any,
    query: RecordQuery,
    conditions: _Conditions,
    mark: RecordMark | None,
    limit: int,
    until_s: float,
) -> tuple[_Found, RecordMark | None]:
    """Ask an index for one span of time after the other."""
    oldest = await connection.fetchval(f"SELECT {select_time('min(time)')} FROM sluice.audit_event")
    if oldest is None:
        return [], None
    oldest = max(oldest, query.since or _BEGINNING)
    if mark is None:
        newest = await connection.fetchval(f"SELECT {select_time('max(time)')} FROM sluice.audit_event")
        mark = RecordMark(newest or oldest, _LAST_ID)
    found: _Found = []
    now, span = datetime.now(UTC), mark.span
    where = f"{conditions.quick} AND {conditions.slow}" if conditions.slow else conditions.quick
    while True:
        # Clocks go wrong: what is of the future is looked at by itself.
        low = max(now, oldest) if mark.time > now else mark.time - min(span, mark.time - oldest)
        behind, arguments = conditions.behind(mark)
        began = time.monotonic()
        try:
            rows = await connection.fetch(
                # The order by what is no column keeps PostgreSQL from walking along the index on times in the
                # hope to meet a rare event soon.
                f"SELECT event_id, time FROM sluice.audit_event WHERE {where} AND {behind}"
                f" AND time >= ${len(arguments) + 1}"
                f" ORDER BY time + interval '0' DESC, event_id DESC LIMIT ${len(arguments) + 2}",
                *arguments,
                low,
                limit - len(found),
                timeout=QUERY_S,
            )
        except TimeoutError:
            if span <= SHORTEST_SPAN:
                raise
            span = max(span / 16, SHORTEST_SPAN)
            continue
        found += [(row["event_id"], row["time"]) for row in rows]
        if len(found) == limit:
            return found, None
        if low <= oldest:
            break
        ended = time.monotonic()
        if ended - began < _FAST_S:
            span = min(span * GROWTH, LONGEST_SPAN)
        mark = RecordMark(low, _FIRST_ID, span)
        if ended > until_s:
            return found, mark
    return found, None


_COLUMNS = (
    "event_id, time, kind, statement_id, gateway, user_name, verdict, code, message, application,"
    " client_address, session_id, plan_class, resources, policies, statement,"
    " body ? 'plan_sha256' AS is_plan"
)


async def _load_lines(connection: Any, found: _Found) -> tuple[RecordLine, ...]:
    """Return events in the order in which they were found, with their ends."""
    if not found:
        return ()
    ids, times = [one for one, _ in found], [at for _, at in found]
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM sluice.audit_event WHERE event_id = ANY($1::uuid[])"
        " AND time = ANY($2::timestamptz[])",
        ids,
        times,
    )
    by_id = {row["event_id"]: row for row in rows}
    cleared = [row["statement_id"] for row in rows if row["statement_id"] and row["verdict"] == "cleared"]
    ended: dict[Any, Any] = {}
    if cleared:
        # A statement ends after its decision; an abandoned one has its decision's own time.
        ends = await connection.fetch(
            # One after the other by the index: for all at once PostgreSQL reads the newest day from end to
            # end, as long as it has no statistics of it.
            "SELECT ended.* FROM unnest($1::uuid[]) AS one(id) CROSS JOIN LATERAL"
            " (SELECT statement_id, outcome, rows, duration_ms FROM sluice.audit_event"
            " WHERE statement_id = one.id AND kind IN ('completed', 'abandoned') AND time >= $2 LIMIT 1)"
            " AS ended",
            cleared,
            min(times),
        )
        ended = {row["statement_id"]: row for row in ends}
    return tuple(_line(by_id[one], ended.get(by_id[one]["statement_id"])) for one, _ in found if one in by_id)


def _line(row: Any, end: Any) -> RecordLine:
    return RecordLine(
        event_id=str(row["event_id"]),
        time=row["time"],
        kind=row["kind"],
        statement_id=str(row["statement_id"] or ""),
        gateway=row["gateway"],
        user=row["user_name"],
        verdict=row["verdict"] or "",
        code=row["code"] or "",
        message=row["message"] or "",
        application=row["application"] or "",
        client_address=row["client_address"] or "",
        session_id=row["session_id"] or "",
        plan_class=row["plan_class"] or "",
        resources=tuple(row["resources"] or ()),
        policies=tuple(row["policies"] or ()),
        statement=row["statement"] or "",
        is_plan=bool(row["is_plan"]),
        outcome="" if end is None else end["outcome"] or "",
        rows=None if end is None else end["rows"],
        duration_ms=None if end is None else end["duration_ms"],
    )


def spread_name(table: str, column: str, catalogs: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Return how the record spells a table or a column, and what its name ends with where that is all that
    is known.

    `hr.employee` is looked for in each of the catalogs, `employee` alone in every database.
    """
    name = ".".join(part.strip().replace("`", "") for part in (table, column) if part.strip())
    parts = table.count(".") + 1 if table.strip() else 0
    first = name.split(".", 1)[0].lower()
    if parts >= 3 or (parts and first in {one.lower() for one in catalogs}):
        names = [name]
    elif parts == 2 and catalogs:
        names = [f"{catalog}.{name}" for catalog in catalogs]
    else:
        return (), name
    return tuple(dict.fromkeys(spelled for one in names for spelled in (one, one.lower()))), ""


# -- exports -------------------------------------------------------------------------------------------------

CSV_COLUMNS = (
    "time",
    "event_id",
    "kind",
    "user",
    "verdict",
    "code",
    "message",
    "outcome",
    "rows",
    "duration_ms",
    "plan_class",
    "resources",
    "policies",
    "statement",
    "statement_id",
    "session_id",
    "application",
    "client_address",
    "gateway",
)
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


def format_csv_header() -> bytes:
    """Return the first line of an export as CSV."""
    return (",".join(CSV_COLUMNS) + "\r\n").encode()


def format_csv(line: RecordLine) -> bytes:
    """Return an event as a line of CSV that no spreadsheet takes for a formula."""
    return (",".join(_cell(getattr(line, name)) for name in CSV_COLUMNS) + "\r\n").encode()


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case datetime():
            return value.isoformat()
        case int() | float():
            return str(value)  # a number of our own
        case tuple():
            text = " ".join(map(str, value))
        case _:
            text = str(value)
    # RULE (csv-formula): spreadsheets run what begins so, also behind spaces and line breaks.
    if text.lstrip(" \n\v\f\x1c\x1d\x1e\x1f\x85\xa0\ufeff").startswith(_FORMULAS):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"'
