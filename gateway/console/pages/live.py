"""What happens now: open sessions, and the statements that wait or run, of every gateway; ending and
canceling them; and the events that have a page ask again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.admin.requests import NotFound
from gateway.console.routes import (
    ConsoleForm,
    ConsolePage,
    ConsolePart,
    ConsoleRoute,
    ConsoleStream,
    Recorded,
    Viewer,
    Who,
    parameter,
)
from gateway.console.shared_answers import SharedAnswer
from gateway.console.texts import ShownTexts

_Json = Mapping[str, Any]
ListOf = Callable[[], Awaitable[tuple[list[Any], Sequence[str]]]]
"""Returns sessions or statements of all gateways, and a sentence for each that did not tell its own."""
Stop = Callable[[str], Awaitable[tuple[int, Sequence[str]]]]
"""Stops a statement by its id; returns how many there were."""
EndSession = Callable[[str, str, str], Awaitable[tuple[int, Sequence[str]]]]
"""Ends a session: its user, its id, by whom."""
MAX_SHOWN = 200
LOOK_S = 5.0
"""How often it is looked whether something has changed: one look for all who watch."""
KEPT_S = 2.0
"""How old an answer may be before the gateways are asked again: one question for all who look."""
OLD_S = 5.0
"""How old an answer may be that is shown while they are asked; who watches learns of what is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveParameters:
    user: str = parameter("Of this user alone.", "")
    backend: str = parameter("On this Spark alone.", "")
    gateway: str = parameter("Of this gateway alone.", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatement:
    """A statement that waits or runs."""

    id: str
    gateway: str
    backend: str
    user: str
    endpoint: str
    state: str
    for_s: float
    text: str
    rows: int
    waits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSession:
    """An open session."""

    id: str
    gateway: str
    backend: str
    user: str
    endpoint: str
    address: str
    opened_at: str
    idle_s: float
    statements: int
    waits: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCount:
    """How much one Spark has of one gateway."""

    gateway: str
    backend: str
    sessions: int
    running: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """Everything as of a moment ago."""

    statements: tuple[LiveStatement, ...]
    more_statements: int
    sessions: tuple[LiveSession, ...]
    more_sessions: int
    counts: tuple[LiveCount, ...]
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelParameters:
    statement: str = parameter("Id of the statement.", most=40)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndParameters:
    session: str = parameter("Id of the session, as the list has it.", most=200)
    user: str = parameter("Its user.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveChange:
    """What came of it."""

    done: int
    messages: tuple[str, ...]


class LivePages:
    """Answers questions about what runs, as all gateways said a moment ago."""

    def __init__(
        self,
        list_sessions: ListOf,
        list_statements: ListOf,
        stop: Stop,
        end: EndSession,
        texts: ShownTexts,
        clock: Callable[[], float],
    ) -> None:
        self._list_sessions = list_sessions
        self._list_statements = list_statements
        self._stop = stop
        self._end = end
        self._texts = texts
        self._shared = SharedAnswer(self._ask, clock, kept_s=KEPT_S, old_s=OLD_S)

    async def show(self, viewer: Viewer, asked: LiveParameters) -> Live:
        """Return what runs. Raises LedgerUnavailable, BackendUnavailable."""
        sessions, statements, messages = await self._shared.get()
        sessions = [one for one in sessions if _fits(one, asked)]
        statements = [one for one in statements if _fits(one, asked)]
        return Live(
            statements=tuple([await self._statement(viewer, one) for one in statements[:MAX_SHOWN]]),
            more_statements=max(0, len(statements) - MAX_SHOWN),
            sessions=tuple(_session(one) for one in sessions[:MAX_SHOWN]),
            more_sessions=max(0, len(sessions) - MAX_SHOWN),
            counts=_count(sessions, statements),
            messages=messages,
        )

    async def cancel(self, viewer: Viewer, asked: CancelParameters) -> LiveChange:
        """Have a statement stopped. Raises NotFound when nothing of that id runs."""
        done, messages = await self._stop(asked.statement)
        self._shared.forget()
        if not done and not messages:
            raise NotFound("no such statement waits or runs any more")
        return LiveChange(done=done, messages=tuple(messages))

    async def end(self, viewer: Viewer, asked: EndParameters) -> LiveChange:
        """End a session. Raises NotFound when there is none."""
        done, messages = await self._end(asked.user, asked.session, viewer.user)
        self._shared.forget()
        if not done and not messages:
            raise NotFound("no such session is open any more")
        return LiveChange(done=done, messages=tuple(messages))

    async def listen(self, viewer: Viewer) -> AsyncIterator[str]:
        """Yield whenever something has begun or ended."""
        before: object = None
        while True:
            sessions, statements, _ = await self._shared.get_new()
            now = (
                {one["session"] for one in sessions},
                {(one["statement"], one["state"]) for one in statements},
            )
            if before is not None and now != before:
                yield "changed"
            before = now
            await asyncio.sleep(LOOK_S)

    async def _ask(self) -> tuple[list[_Json], list[_Json], tuple[str, ...]]:
        (sessions, told), (statements, also) = await asyncio.gather(
            self._list_sessions(), self._list_statements()
        )
        return sessions, statements, tuple(dict.fromkeys([*told, *also]))

    async def _statement(self, viewer: Viewer, one: _Json) -> LiveStatement:
        text = await self._texts.show(
            viewer, one["text"], owner=one["user"], kind="plan" if one["is_plan"] else "sql"
        )
        return LiveStatement(
            id=one["statement"],
            gateway=one["gateway"],
            backend=one["backend"],
            user=one["user"],
            endpoint=one["endpoint"],
            state=one["state"],
            for_s=one["for_s"],
            text=text,
            rows=one["rows"],
            waits=one["waits"],
        )


def _fits(one: _Json, asked: LiveParameters) -> bool:
    return all(
        wanted in ("", one[name])
        for name, wanted in (("user", asked.user), ("backend", asked.backend), ("gateway", asked.gateway))
    )


def _session(one: _Json) -> LiveSession:
    return LiveSession(
        id=one["session"],
        gateway=one["gateway"],
        backend=one["backend"],
        user=one["user"],
        endpoint=one["endpoint"],
        address=one["address"],
        opened_at=one["opened_at"],
        idle_s=one["idle_s"],
        statements=one["statements"],
        waits=one["waits"],
    )


def _count(sessions: Sequence[_Json], statements: Sequence[_Json]) -> tuple[LiveCount, ...]:
    places = Counter((one["gateway"], one["backend"]) for one in sessions)
    waits, runs = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for one in statements:
        side = waits if one["state"] in ("decided", "queued") else runs
        side[one["gateway"], one["backend"]] += 1
    return tuple(
        LiveCount(
            gateway=place[0],
            backend=place[1],
            sessions=places[place],
            running=runs[place],
            waiting=waits[place],
        )
        for place in sorted({*places, *waits, *runs})
    )


def build_live_part(service: LivePages) -> ConsolePart:
    """Return the routes, the page and its forms."""
    shown = ConsoleRoute.get(
        "/live",
        service.show,
        "Open sessions, and statements that wait or run, of every gateway.",
        name="show_live",
        recorded=Recorded.ONCE,
    )
    cancel = ConsoleRoute.post(
        "/live/statements/{statement}/cancel",
        service.cancel,
        "Has a statement stopped, in whichever gateway it is.",
        name="cancel_statement",
        examples={"statement": "01920000-0000-7000-8000-000000000000"},
    )
    end = ConsoleRoute.post(
        "/live/sessions/{session}/end",
        service.end,
        "Ends a session, with what runs in it.",
        name="end_session",
        examples={"session": "01920000-0000-7000-8000-000000000000", "user": "carol"},
    )
    return ConsolePart(
        routes=(shown, cancel, end),
        pages=(
            ConsolePage(
                route=shown, path="/live", template="live.html", title="What runs now", menu="Live", place=4
            ),
        ),
        forms=(
            ConsoleForm(route=cancel, path="/live/cancel", then=lambda asked, it: "/live"),
            ConsoleForm(route=end, path="/live/end", then=lambda asked, it: "/live"),
        ),
        streams=(
            ConsoleStream(
                name="watch_live",
                path="/live/events",
                about="An event whenever a session or a statement begins or ends.",
                who=Who.AUDITOR,
                listen=service.listen,
            ),
        ),
    )
