"""Why was I refused? One event of the record by its id: to auditors all that was decided, to the person
concerned what he sent and what he lacked.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.admin.requests import NotFound
from gateway.audit.search import Found
from gateway.console.differences import Pieces, compare
from gateway.console.routes import (
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    Viewer,
    parameter,
)
from gateway.console.texts import ShownTexts
from gateway.lineage.graph import Edge, see_all_columns, statement
from gateway.model.audit import AuditEvent

FindEvent = Callable[[Any, uuid.UUID], Awaitable[tuple[Found | None, list[AuditEvent]]]]
"""A connection and an id → the event, and what else there is of its statement."""
MAX_REFUSALS = 20
MAX_DECISIONS = 2_000
MAX_FLOWS = 100
LOOKED_BACK = timedelta(days=30)
_REFUSALS = """
SELECT event_id, time, code, statement FROM sluice.audit_event
WHERE user_name = $1 AND time > $3 AND kind = 'decided' AND verdict = 'refused'
ORDER BY time DESC LIMIT $2
"""
NOT_THERE = (
    "there is no such event, or it is not yours; what just happened on another gateway may take a moment"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventParameters:
    event: str = parameter("The audit id that the error message quotes.", most=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSearch:
    event: str = parameter("The audit id that the error message quotes.", "", most=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDecision:
    """One decision of policies."""

    resource: str
    kind: str
    action: str
    allowed: bool
    columns: tuple[str, ...]
    policy: int
    policy_name: str
    policy_version: int
    reason: str
    about: str
    """The definer of a view, where it was on his access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownObligation:
    """A mask or a row filter on a table that a statement reads."""

    table: str
    column: str
    """Empty for a row filter."""
    type: str
    expression: str
    policy_name: str
    policy_version: int
    definer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownScan:
    """A table that a statement reads."""

    table: str
    access: str
    columns: tuple[str, ...] | None
    definer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFlow:
    """What a statement had flow from one column into another."""

    source: str
    target: str
    carries: str
    """`values`, `masked`, or `influence` of a condition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTiming:
    """How long one step took."""

    name: str
    ms: float
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEvent:
    """One event of the record, as its viewer may see it."""

    id: str
    kind: str
    time: str
    user: str
    verdict: str
    code: str
    message: str
    is_cut: bool
    """Whether it is the cut version for the person concerned."""
    texts_whole: bool
    """Whether texts have their literals."""
    text: str
    sent: Pieces
    forwarded: Pieces
    """Both sides, with what is only on one of them; empty in the cut version."""
    who: Mapping[str, tuple[str, ...]]
    decisions: tuple[ShownDecision, ...]
    more_decisions: int
    obligations: tuple[ShownObligation, ...]
    scans: tuple[ShownScan, ...]
    flows: tuple[ShownFlow, ...]
    """Its lineage, for auditors; empty until that is made, seconds after its end."""
    more_flows: int
    timings: tuple[ShownTiming, ...]
    end: str
    ended_at: str
    rows: int | None
    bytes: int | None
    error: str
    facts: Mapping[str, str]
    lacking: tuple[ShownDecision, ...]
    """What was denied to the user himself: what he may ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRefusal:
    """A statement of the viewer's own that was refused."""

    id: str
    time: str
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEvent:
    """What the search page shows."""

    event: ShownEvent | None
    fault: str
    refusals: tuple[ShownRefusal, ...]


class EventPages:
    """Answers questions about single events."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Any]],
        find: FindEvent,
        texts: ShownTexts,
    ) -> None:
        self._connect = connect
        self._find = find
        self._texts = texts

    async def show(self, viewer: Viewer, asked: EventParameters) -> ShownEvent:
        """Return an event. Raises NotFound, for somebody else's as well."""
        try:
            key = uuid.UUID(asked.event.strip())
        except ValueError:
            raise NotFound("an audit id looks like 019abc12-3456-7789-8abc-0123456789ab") from None
        async with self._connect() as connection:
            found, others = await self._find(connection, key)
        if found is None:
            raise NotFound(NOT_THERE)
        if not (viewer.is_auditor or _concerns(found.event, viewer)):  # RULE (console-own-event)
            raise NotFound(NOT_THERE)
        flows: Sequence[Edge] = ()
        if viewer.is_auditor and found.event.statement_id:
            async with self._connect() as connection:
                brought = await statement(connection, uuid.UUID(found.event.statement_id), see_all_columns)
            flows = brought.edges if brought is not None else ()
        return await self._build(viewer, found, others, flows)

    async def search(self, viewer: Viewer, asked: EventSearch) -> FoundEvent:
        """Return an event where an id is given, and the viewer's own last refusals."""
        event, fault = None, ""
        if asked.event.strip():
            try:
                event = await self.show(viewer, EventParameters(event=asked.event))
            except NotFound as error:
                fault = str(error)
        async with self._connect() as connection:
            rows = await connection.fetch(
                # With the time as a value PostgreSQL plans for these days alone.
                _REFUSALS,
                viewer.user,
                MAX_REFUSALS,
                datetime.now(UTC) - LOOKED_BACK,
            )
        refusals = tuple(
            ShownRefusal(
                id=str(row["event_id"]),
                time=row["time"].isoformat(),
                code=row["code"] or "",
                text=(row["statement"] or "")[:500],
            )
            for row in rows
        )
        return FoundEvent(event=event, fault=fault, refusals=refusals)

    async def _build(
        self, viewer: Viewer, found: Found, others: Sequence[AuditEvent], flows: Sequence[Edge]
    ) -> ShownEvent:
        event, end = found.event, found.end
        body = event.body
        end_body: Mapping[str, Any] = end.body if end is not None else {}
        is_cut = not viewer.is_auditor
        whole = self._texts.are_whole(viewer, event.user)
        text, sent, forwarded = await self._show_texts(viewer, event, is_cut=is_cut)
        decisions = [_decision(one) for one in _list_of(body, "decisions")]
        denied = [one for one in decisions if not one.allowed and not one.about]
        refused = body.get("verdict") == "refused"
        return ShownEvent(
            id=event.statement_id or event.event_id,
            kind=event.kind,
            time=event.time,
            user=event.user,
            verdict=_text(body, "verdict"),
            code=_text(body, "code"),
            message=self._message(viewer, event),
            is_cut=is_cut,
            texts_whole=whole,
            text=text,
            sent=sent,
            forwarded=forwarded,
            who=_who(body),
            decisions=() if is_cut else tuple(decisions[:MAX_DECISIONS]),
            more_decisions=0 if is_cut else max(0, len(decisions) - MAX_DECISIONS),
            obligations=_obligations(body, is_cut=is_cut),
            scans=() if is_cut else _scans(body),
            flows=tuple(
                ShownFlow(source=str(one.source), target=str(one.target), carries=one.carries.name.lower())
                for one in flows[:MAX_FLOWS]
            ),
            more_flows=max(0, len(flows) - MAX_FLOWS),
            timings=_timings(body, end_body),
            end=_text(end_body, "outcome"),
            ended_at=end.time if end is not None else "",
            rows=_whole(end_body, "rows"),
            bytes=_whole(end_body, "bytes"),
            error=self._texts.show_message(viewer, _text(end_body, "error"), owner=event.user),
            facts=_facts(event, others, is_cut=is_cut),
            lacking=tuple(_without_policy(one) for one in denied) if refused else (),
        )

    def _message(self, viewer: Viewer, event: AuditEvent) -> str:
        """Return the error's message; one that names what was lacking has no value in it."""
        if event.body.get("verdict") == "cleared":
            return ""
        message = _text(event.body, "message") or _text(event.body, "reason")
        if event.body.get("code") == "ACCESS_DENIED" or event.kind != "decided":
            return message
        return self._texts.show_message(viewer, message, owner=event.user)

    async def _show_texts(
        self, viewer: Viewer, event: AuditEvent, *, is_cut: bool
    ) -> tuple[str, Pieces, Pieces]:
        body = event.body
        kind: Any = "plan" if "plan" in body else "sql"
        texts = tuple(str(one) for one in _list_of(body, "texts"))
        text = await self._texts.show(
            viewer, _text(body, "reqData"), owner=event.user, kind=kind, texts=texts
        )
        if is_cut or not body.get("forwarded"):
            return text, (), ()
        # What the gateway made of it has the user's literals, and those of policies.
        forwarded = await self._texts.show(viewer, _text(body, "forwarded"), owner="", kind=kind)
        return text, *compare(text, forwarded)


def _concerns(event: AuditEvent, viewer: Viewer) -> bool:
    return viewer.user in (event.user, event.body.get("realUser"))


def _text(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    return found if isinstance(found, str) else ""


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    found = body.get(name)
    return found if isinstance(found, int) else None


def _list_of(body: Mapping[str, Any], name: str) -> list[Any]:
    found = body.get(name)
    return found if isinstance(found, list) else []


def _who(body: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return groups, roles and attributes as they were then."""
    found = {name: tuple(str(one) for one in _list_of(body, name)) for name in ("groups", "roles")}
    pairs = [one for one in _list_of(body, "attributes") if isinstance(one, list) and len(one) == 2]
    return found | {"attributes": tuple(f"{name} = {value}" for name, value in pairs)}


def _decision(found: Mapping[str, Any]) -> ShownDecision:
    kind, resource = _text(found, "resType").removeprefix("@"), _text(found, "resource")
    return ShownDecision(
        resource=resource if kind == "url" else resource.replace("/", "."),
        kind=kind,
        action=_text(found, "action"),
        allowed=found.get("result") == 1,
        columns=tuple(str(one) for one in _list_of(found, "columns")),
        policy=found.get("policy", -1),
        policy_name=_text(found, "policy_name"),
        policy_version=found.get("policy_version") or 0,
        reason=_text(found, "reason"),
        about=_text(found, "user"),
    )


def _without_policy(one: ShownDecision) -> ShownDecision:
    """Return what was lacking, without what policies say."""
    return ShownDecision(
        resource=one.resource,
        kind=one.kind,
        action=one.action,
        allowed=False,
        columns=one.columns,
        policy=-1,
        policy_name="",
        policy_version=0,
        reason="",
        about="",
    )


def _obligations(body: Mapping[str, Any], *, is_cut: bool) -> tuple[ShownObligation, ...]:
    """Return masks and filters; to the person concerned those on his own access, and not in which words."""
    return tuple(
        ShownObligation(
            table=_text(scan, "table"),
            column=_text(one, "column"),
            type=_text(one, "type"),
            expression="" if is_cut else _text(one, "expression"),
            policy_name="" if is_cut else _text(one, "policy_name"),
            policy_version=0 if is_cut else one.get("policy_version") or 0,
            definer=_text(scan, "definer"),
        )
        for scan in _list_of(body, "scans")
        if not (is_cut and scan.get("definer"))
        for one in _list_of(scan, "obligations")
    )


def _scans(body: Mapping[str, Any]) -> tuple[ShownScan, ...]:
    return tuple(
        ShownScan(
            table=_text(one, "table"),
            access=_text(one, "access"),
            columns=tuple(map(str, one["columns"])) if isinstance(one.get("columns"), list) else None,
            definer=_text(one, "definer"),
        )
        for one in _list_of(body, "scans")
    )


def _timings(body: Mapping[str, Any], end: Mapping[str, Any]) -> tuple[ShownTiming, ...]:
    found = []
    judged, read, record = body.get("duration_us"), body.get("read_us"), end.get("record_ms")
    if isinstance(judged, int) and isinstance(read, int):
        told = "Spark's parser read it, and proved what policies made of it" if read else "known from before"
        found.append(ShownTiming(name="Read", ms=read / 1000, meaning=told))
        told = "tables were looked up and policies applied"
        found.append(ShownTiming(name="Judge", ms=max(0, judged - read) / 1000, meaning=told))
    elif isinstance(judged, int):
        told = "Spark's parser read it, and policies were applied and proved"
        found.append(ShownTiming(name="Read and judge", ms=judged / 1000, meaning=told))
    if isinstance(record, int | float):
        told = "until the decision was on record; nothing runs before that"
        found.append(ShownTiming(name="Record", ms=float(record), meaning=told))
    whole, spark, waited = end.get("duration_ms"), end.get("spark_ms"), end.get("wait_ms")
    if isinstance(whole, int | float) and isinstance(spark, int | float):
        if isinstance(waited, int | float):
            told = "for its turn in Spark"
            found.append(ShownTiming(name="Wait", ms=float(waited), meaning=told))
            told = "Spark's own work until its first rows"
            found.append(ShownTiming(name="Spark", ms=max(0.0, round(spark - waited, 3)), meaning=told))
        else:
            told = "waiting for its turn, and Spark's own work until its first rows"
            found.append(ShownTiming(name="Wait and Spark", ms=float(spark), meaning=told))
        told = "rows on their way to the client, and the client's own time"
        found.append(ShownTiming(name="Relay", ms=max(0.0, round(whole - spark, 3)), meaning=told))
        told = "from the decision, once it was on record, to the end: waiting, Spark and relay together"
        found.append(ShownTiming(name="In all", ms=float(whole), meaning=told))
    return tuple(found)


def _facts(event: AuditEvent, others: Sequence[AuditEvent], *, is_cut: bool) -> dict[str, str]:
    """Return what else the record has that fits into a line."""
    body = event.body
    names = [str(one) for one in _list_of(body, "namespace")]
    found = {
        "Action": _text(body, "action"),
        "Kind of statement": _text(body, "plan_class"),
        "Catalog and namespace": ".".join([_text(body, "catalog"), *names]).strip("."),
        "Endpoint": _text(body, "cliType"),
        "Application": _text(body, "application"),
        "Address": _text(body, "cliIP"),
        "Acting for him": _text(body, "realUser"),
        "Session": _text(body, "sess"),
        "Login": _text(body, "mechanism"),
        "Limit": _text(body, "limit"),
        "By": _text(body, "by"),
    }
    if not is_cut:
        found |= {
            "Versions": _text(body, "snapshot"),
            "Gateway": event.gateway,
            "Spark": _text(body, "backend"),
            "Settings": ", ".join(_setting(one) for one in _list_of(body, "settings")),
            "User's code": ", ".join(map(str, _list_of(body, "user_code"))),
            "Also recorded": ", ".join(sorted({one.kind for one in others})),
        }
    return {name: value for name, value in found.items() if value}


def _setting(found: Any) -> str:
    return "=".join(map(str, found)) if isinstance(found, list) else str(found)


def build_event_part(service: EventPages) -> ConsolePart:
    """Return the routes and pages."""
    shown = ConsoleRoute.get(
        "/events/{event}",
        service.show,
        "One event of the record, by its id: what was decided, by what, and what came of it.",
        name="show_event",
        own="Whoever is no auditor gets his own events alone, without policies, and what he sent himself.",
        examples={"event": "01920000-0000-7000-8000-000000000000"},
    )
    search = ConsoleRoute.get(
        "/events",
        service.search,
        "Finds an event by its id; lists the statements of one's own that were refused.",
        name="find_event",
        own="As `show_event`; the list has statements of the viewer alone.",
    )
    return ConsolePart(
        routes=(shown, search),
        pages=(
            ConsolePage(
                route=search,
                path="/events",
                template="events.html",
                title="Why was I refused?",
                menu="Why refused?",
                place=1,
            ),
            ConsolePage(
                route=shown, path="/events/{event}", template="event.html", title="Event of the record"
            ),
        ),
    )
