"""Requests for access and break-glass: asked with a reason, granted by whoever may, for a time.

A grant is policies with a validity; the pages decide nothing themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, TypeVar

from gateway.admin.ranger.access_requests import AccessRequests, NotForYou, NotGrantable, StoredRequest
from gateway.admin.ranger.calls import RangerError
from gateway.console.routes import (
    ConsoleConflict,
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    NotAllowed,
    PagedParameters,
    Viewer,
    decode_cursor,
    encode_cursor,
    parameter,
)
from gateway.errors import Faults
from gateway.policy.access_requests import MAX_REASON_CHARS, RequestedAccess, RequestKind

T = TypeVar("T")
OWN = "a request is shown to its asker and to whoever may decide on it, and missing to everybody else"
NOT_RECORDED = "requests keep a history of their own; nothing of the audit record is shown"
NEWEST = 2**62
DEFAULT_DAYS = 7
Which = Literal["own", "decide", "granted", "break_glass"]
InForce = Callable[[str, Sequence[str]], bool]
"""Service and guids → whether this gateway judges by these policies now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRequests(PagedParameters):
    """Which requests."""

    which: Which = parameter(
        "`own`; `decide`: open ones of others that the viewer may decide on; for auditors `granted` and "
        "`break_glass`: what holds now.",
        "own",
    )
    purpose: str = parameter("Of `granted`, those for this purpose alone.", "", most=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """An entry of a request's history."""

    time: datetime
    who: str
    step: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRequest:
    """A request."""

    id: int
    kind: str
    state: str
    """As it is kept, or `expired` for one that is open or granted and whose time is over."""
    asker: str
    asked_at: datetime
    table: str
    columns: tuple[str, ...]
    accesses: tuple[str, ...]
    until: datetime
    reason: str
    purpose: str
    event: str
    """Audit id of the refusal; empty when there was none."""
    decided_at: datetime | None
    decided_by: str
    decision: str
    expires: datetime | None
    policies: tuple[str, ...]
    """Guids."""
    in_force: bool
    """Whether this gateway judges by its policies now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Purpose:
    """What grants that hold are for."""

    name: str
    grants: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestList:
    """Requests, newest first."""

    items: tuple[ShownRequest, ...]
    next: str
    break_glass: tuple[ShownRequest, ...]
    """Grants of break-glass that hold now, for auditors."""
    purposes: tuple[Purpose, ...]
    """For auditors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedRequest:
    """One request."""

    request: int = parameter("Number of the request.", most=2**62)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestView:
    """One request, and what the viewer may do with it."""

    request: ShownRequest
    history: tuple[ShownStep, ...]
    may_decide: bool
    may_withdraw: bool
    may_end: bool
    grantable_here: bool
    where: str
    """Where policies on the table are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessForm:
    """What a form for a request is filled in with."""

    table: str = parameter("Table.", "", most=800)
    columns: tuple[str, ...] = parameter("Columns.", (), most=400)
    access: str = parameter("Access type.", "select", most=60)
    event: str = parameter("Audit id of the refusal.", "", most=64)
    kind: Literal["access", "break_glass"] = parameter("What is asked for.", "access")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledForm:
    """A form for a request."""

    table: str
    columns: str
    accesses: str
    event: str
    kind: str
    until: datetime
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest:
    """What somebody asks for."""

    table: str = parameter("Table, such as `hr.employee`.", most=800)
    columns: tuple[str, ...] = parameter(
        "Columns, also several behind commas; `*` for all.", ("*",), most=4_000
    )
    accesses: tuple[str, ...] = parameter("Access types, also several behind commas.", ("select",), most=400)
    until: datetime = parameter("Until when, in UTC where no zone is given.")
    reason: str = parameter("Why.", most=MAX_REASON_CHARS)
    purpose: str = parameter("What for, in one word.", "", most=60)
    kind: Literal["access", "break_glass"] = parameter(
        "`break_glass` overrides denials, masks and row filters, for hours.", "access"
    )
    event: str = parameter("Audit id of the refusal.", "", most=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOf(AskedRequest):
    """A grant."""

    expires: datetime | None = parameter(
        "When it ends; at the latest, and without it, when was asked for.", None
    )
    reason: str = parameter("Why; needed for break-glass.", "", most=MAX_REASON_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionOn(AskedRequest):
    """Another decision."""

    reason: str = parameter("Why.", most=MAX_REASON_CHARS)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOf(AskedRequest):
    """The end of a grant."""

    reason: str = parameter("Why.", "", most=MAX_REASON_CHARS)


class RequestPages:
    """Answers for requests."""

    def __init__(self, requests: AccessRequests, *, catalogs: Sequence[str], in_force: InForce) -> None:
        """`catalogs`: those that names may begin with, the one of names without any first."""
        self._requests = requests
        self._catalogs = tuple(catalogs)
        self._in_force = in_force

    async def list(self, viewer: Viewer, asked: AskedRequests) -> RequestList:
        before = decode_cursor(asked.after, int)[0] if asked.after else NEWEST
        limit, who = max(asked.limit, 1), viewer.principal
        if asked.which in ("granted", "break_glass") and not viewer.is_auditor:
            raise NotAllowed("only auditors see what others were granted")
        requests, most, more = self._requests, limit + 1, 0
        if asked.which == "own":
            found = await requests.list_own(who, before=before, limit=most)
        elif asked.which == "decide":
            found, more = await requests.list_to_decide(who, before=before, limit=limit)
        elif asked.which == "granted" and asked.purpose:
            found = await requests.list_purpose(asked.purpose, before=before, limit=most)
        else:
            kind = RequestKind.ACCESS if asked.which == "granted" else RequestKind.BREAK_GLASS
            found = await requests.list_granted(kind=kind, before=before, limit=most)
        loud: list[StoredRequest] = []
        purposes: list[tuple[str, int]] = []
        if viewer.is_auditor:
            loud = await self._requests.list_granted(kind=RequestKind.BREAK_GLASS, before=NEWEST, limit=20)
            purposes = await self._requests.list_purposes()
        return RequestList(
            items=tuple(map(self._describe, found[:limit])),
            next=encode_cursor(more or found[limit - 1].id) if more or len(found) > limit else "",
            break_glass=tuple(map(self._describe, loud)),
            purposes=tuple(Purpose(name=name, grants=grants) for name, grants in purposes),
        )

    async def show(self, viewer: Viewer, asked: AskedRequest) -> RequestView:
        found = await self._requests.find(viewer.principal, asked.request)
        history = await self._requests.history(found)
        decides = await self._requests.may_decide(viewer.principal, found)
        own = viewer.user == found.asker
        place = self._requests.place_of(found.asked.catalog)
        return RequestView(
            request=self._describe(found),
            history=tuple(
                ShownStep(time=one.time, who=one.who, step=one.step, reason=one.reason) for one in history
            ),
            may_decide=decides and found.state == "open" and not found.expired,
            may_withdraw=own and found.state == "open",
            may_end=found.state == "granted" and not found.expired and (own or decides),
            grantable_here=bool(place.service),
            where=place.where,
        )

    async def prepare(self, viewer: Viewer, asked: AccessForm) -> FilledForm:
        hours = 4 if asked.kind == "break_glass" else 24 * DEFAULT_DAYS
        end = datetime.now(UTC) + timedelta(hours=hours)
        catalog = self._split(asked.table)[0] if asked.table.strip() else self._catalogs[0]
        return FilledForm(
            table=asked.table,
            columns=", ".join(asked.columns) or "*",
            accesses=asked.access,
            event=asked.event,
            kind=asked.kind,
            until=end.replace(second=0, microsecond=0),
            where=self._requests.place_of(catalog).where,
        )

    async def ask(self, viewer: Viewer, asked: NewRequest) -> ShownRequest:
        catalog, database, table = self._split(asked.table)
        wanted = RequestedAccess(
            kind=RequestKind(asked.kind),
            catalog=catalog,
            database=database,
            table=table,
            columns=_split_list(asked.columns) or ("*",),
            accesses=tuple(one.lower() for one in _split_list(asked.accesses)),
            until=asked.until,
            reason=asked.reason,
            purpose=asked.purpose.strip(),
        )
        return await self._step(self._requests.ask(viewer.principal, wanted, asked.event.strip()))

    async def grant(self, viewer: Viewer, asked: GrantOf) -> ShownRequest:
        work = self._requests.grant(
            viewer.principal, asked.request, expires=asked.expires, reason=asked.reason
        )
        return await self._step(work)

    async def refuse(self, viewer: Viewer, asked: DecisionOn) -> ShownRequest:
        return await self._step(self._requests.refuse(viewer.principal, asked.request, asked.reason))

    async def grant_elsewhere(self, viewer: Viewer, asked: DecisionOn) -> ShownRequest:
        return await self._step(self._requests.grant_elsewhere(viewer.principal, asked.request, asked.reason))

    async def withdraw(self, viewer: Viewer, asked: AskedRequest) -> ShownRequest:
        return await self._step(self._requests.withdraw(viewer.principal, asked.request))

    async def end(self, viewer: Viewer, asked: EndOf) -> ShownRequest:
        return await self._step(self._requests.end(viewer.principal, asked.request, asked.reason))

    async def _step(self, work: Awaitable[StoredRequest]) -> ShownRequest:
        """Take a step. Raises NotAllowed, ConsoleConflict or Faults for what cannot be."""
        try:
            return self._describe(await work)
        except NotForYou as error:
            raise NotAllowed(str(error)) from None
        except NotGrantable as error:
            raise ConsoleConflict(str(error)) from None
        except RangerError as error:
            if error.status == 403:
                raise NotAllowed(error.message) from None
            raise Faults([error.message]) from None

    def _split(self, name: str) -> tuple[str, str, str]:
        """Return catalog, database and table of a name. Raises Faults."""
        parts = [part.strip() for part in name.replace("`", "").split(".")]
        if parts[0].lower() not in {one.lower() for one in self._catalogs} or len(parts) == 2:
            parts = [self._catalogs[0], *parts]
        if len(parts) < 3 or not all(parts):
            raise Faults([f"`{name[:200]}` is no name of a table, such as `hr.employee`"])
        return parts[0], ".".join(parts[1:-1]), parts[-1]

    def _describe(self, found: StoredRequest) -> ShownRequest:
        lapsed = found.expired and found.state in ("open", "granted")
        return ShownRequest(
            id=found.id,
            kind=found.asked.kind.value,
            state="expired" if lapsed else found.state,
            asker=found.asker,
            asked_at=found.asked_at,
            table=found.asked.name,
            columns=found.asked.columns,
            accesses=found.asked.accesses,
            until=found.asked.until,
            reason=found.asked.reason,
            purpose=found.asked.purpose,
            event=found.event,
            decided_at=found.decided_at,
            decided_by=found.decided_by,
            decision=found.decision_reason,
            expires=found.expires,
            policies=found.policies,
            in_force=found.state == "granted"
            and not found.expired
            and self._in_force(found.service, found.policies),
        )


def _split_list(values: Sequence[str]) -> tuple[str, ...]:
    found = (one.strip().strip("`") for value in values for one in value.split(","))
    return tuple(dict.fromkeys(one for one in found if one))


def part(service: RequestPages) -> ConsolePart:
    """Return the routes, pages and forms."""

    listing = ConsoleRoute.get(
        "/requests",
        service.list,
        "List requests for access.",
        name="list_requests",
        own=OWN,
        unrecorded_because=NOT_RECORDED,
    )
    form = ConsoleRoute.get(
        "/requests/new",
        service.prepare,
        "Return what a form for a request is filled in with.",
        name="prepare_request",
        own=OWN,
        unrecorded_because=NOT_RECORDED,
    )
    one = ConsoleRoute.get(
        "/requests/{request}",
        service.show,
        "Show a request with its history.",
        name="show_request",
        own=OWN,
        unrecorded_because=NOT_RECORDED,
        examples={"request": "1"},
    )
    asked = {"table": "hr.employee", "until": "2030-01-01T00:00:00Z", "reason": "for the yearly report"}
    ask = ConsoleRoute.post(
        "/requests", service.ask, "Ask for access to a table.", name="ask_access", own=OWN, examples=asked
    )
    steps = [
        ConsoleRoute.post(
            f"/requests/{{request}}/{last}",
            handle,
            about,
            name=name,
            own=OWN,
            examples={"request": "1"}
            if last in ("grant", "withdraw", "end")
            else {"request": "1", "reason": "no"},
        )
        for last, name, handle, about in (
            ("grant", "grant_request", service.grant, "Grant a request for a time."),
            ("refuse", "refuse_request", service.refuse, "Refuse a request."),
            (
                "elsewhere",
                "note_granted_elsewhere",
                service.grant_elsewhere,
                "Note that a request was granted where its policies are made.",
            ),
            ("withdraw", "withdraw_request", service.withdraw, "Withdraw a request of one's own."),
            ("end", "end_grant", service.end, "End a grant before its time."),
        )
    ]
    return ConsolePart(
        routes=(listing, form, one, ask, *steps),
        pages=(
            ConsolePage(
                route=listing,
                path="/requests",
                template="requests.html",
                title="Requests",
                menu="Requests",
                place=8,
            ),
            ConsolePage(
                route=form, path="/requests/new", template="request_new.html", title="Ask for access"
            ),
            ConsolePage(
                route=one, path="/requests/{request}", template="request.html", title="Request for access"
            ),
        ),
        forms=(
            ConsoleForm(route=ask, path="/requests/ask", then=lambda asked, it: f"/requests/{it.id}"),
            *(
                ConsoleForm(route=route, path=route.path, then=lambda asked, it: f"/requests/{it.id}")
                for route in steps
            ),
        ),
    )
