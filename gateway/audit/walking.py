"""Walks along chains: each event is held to the one before it, and the end to what others know of it.

A chain can be walked in parts, each by itself and wherever its events are, and the parts then be joined.
What is found is the same.
"""

from __future__ import annotations

import enum
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gateway.audit.chain import Head, link, start

MAX_HELD = 1_000
"""Changed events of one gateway that are compared with each other, to find those that were swapped."""
MAX_FINDINGS = 10_000
NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for the time of an event without one, or with one that no gateway writes."""


class Kind(enum.Enum):
    """Kinds of findings."""

    CHANGED = "changed"
    """An event is not what was recorded, or its link is not."""
    MISSING = "missing"
    """Events were removed."""
    SWAPPED = "swapped"
    """Two events have each other's place."""
    REPEATED = "repeated"
    """Two events have one place."""
    TRUNCATED = "truncated"
    """The end of a chain is gone."""
    HEAD = "head"
    """The recorded end of a chain differs from the one computed from its events."""
    ADDED = "added"
    """An event has no place in any chain."""
    ERASED = "erased"
    """Texts of an event are gone, and no erasure on record is of them."""
    FORGED = "forged"
    """Events are not those that a seal was made of."""
    UNREADABLE = "unreadable"
    """A part of the archive cannot be read: of what it holds nobody can say that it is as it was recorded."""
    SEAL = "seal"
    """A seal is missing, changed, or not signed by the key."""
    UNSEALED = "unsealed"
    """Events are there for long, and in no seal that holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: Kind
    where: str
    """For people: which gateway, events, days."""
    gateway: str = ""
    first: int = 0
    """Position in the gateway's chain; 0 where it is about none."""
    last: int = 0
    event_id: str = ""

    @classmethod
    def of_event(cls, kind: Kind, where: str, row: Mapping[str, Any]) -> Finding:
        """Return one about a single event, by its row."""
        place = row["chain_position"] or 0
        gateway, event_id = row["gateway"] or "", str(row["event_id"])
        return cls(kind=kind, where=where, gateway=gateway, first=place, last=place, event_id=event_id)


@dataclass(slots=True, kw_only=True)
class Verified:
    """Counts of what was verified, and the findings."""

    events: int = 0
    gateways: int = 0
    seals: int = 0
    signatures_checked: bool = False
    last_seal: str = ""
    """When the last seal that holds was made; UTC, ISO 8601."""
    unsealed: int = 0
    """Events of chains behind all seals that hold: bound by their chains alone."""
    before_chain: int = 0
    """Events from before there was a chain, of which nothing can be said."""
    findings: list[Finding] = field(default_factory=list)
    more: int = 0
    """Findings beyond those that are listed."""
    most: int = MAX_FINDINGS

    @property
    def holds(self) -> bool:
        return not self.findings and not self.more

    def report(self, kind: Kind, where: str) -> None:
        """Add a finding that is about no event, once."""
        if not any(one.kind is kind and one.where == where for one in self.findings):
            self.add(Finding(kind=kind, where=where))

    def add(self, finding: Finding) -> None:
        if len(self.findings) < self.most:
            self.findings.append(finding)
        else:
            self.more += 1


@dataclass(frozen=True, slots=True)
class Linked:
    """The link that a chain has of an event, and the one computed from the event."""

    position: int
    link: bytes
    digest: bytes
    event_id: str
    time: datetime


@dataclass(frozen=True, slots=True)
class Changed:
    """An event whose link is not that of its content."""

    event: Linked
    previous: bytes
    """The link before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainPart:
    """Result of verifying neighbouring events, except the first one's link to the event before it."""

    first: Linked
    last: Head
    events: int
    changed: Sequence[Changed]
    findings: Sequence[Finding]
    more: int
    links: dict[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A gateway's chain, from one position to another, and what is known of it."""

    gateway: str
    first: int
    last: int
    head: Head | None = None
    """End of the chain as the database has it."""
    ends: Sequence[tuple[str, Head]] = ()
    """Known ends of the chain and their witnesses: seals, the gateway's own spool."""
    whole: bool = True
    """Whether it goes to the end."""
    archived: int = 0
    """The last place that the archive has, by the database's word."""

    @property
    def sealed(self) -> frozenset[int]:
        """Positions at which somebody else knows the link."""
        return frozenset(end.position for _, end in self.ends)

    def walk(self, found: Verified, before: Linked | None = None) -> Walk:
        """Return a walk that starts behind `before`, the event before the first; None where there is none."""
        if self.first == 1:
            at = Head(0, start(self.gateway).link)
        elif before is not None:
            at = Head(before.position, before.link)
        else:
            # Then that one is missing, too.
            at = Head(self.first - 2, b"")
        return Walk(self.gateway, self.sealed, found, at)

    def close(self, walk: Walk) -> None:
        """Hold what a walk has come to to what the database, seals and others know of it."""
        walk.report_changed()
        at = walk.at
        if self.whole:
            ends = [end for _, end in self.ends] + ([self.head] if self.head is not None else [])
            furthest = max([self.archived, *(end.position for end in ends)])
            if furthest > at.position:
                walk.report(Kind.TRUNCATED, at.position + 1, furthest)
            elif self.head is None or self.head.position < at.position or self.head.link != at.link:
                walk.report(Kind.HEAD, at.position, at.position)
        elif at.position < self.last:
            walk.report(Kind.MISSING, at.position + 1, self.last)
        for who, end in self.ends:
            kept = start(self.gateway).link if end.position == 0 else walk.links.get(end.position)
            if kept is not None and kept != end.link:
                walk.found.add(
                    Finding(
                        kind=Kind.FORGED,
                        where=f"events of `{self.gateway}` up to {end.position} differ from those of {who}",
                        gateway=self.gateway,
                        last=end.position,
                    )
                )


class Walk:
    """Goes along one gateway's events, by position."""

    def __init__(
        self, gateway: str, sealed: Container[int], found: Verified, at: Head, held: int = MAX_HELD
    ) -> None:
        self.found, self.at = found, at
        self.links: dict[int, bytes] = {}
        """Links at the positions that somebody else knows."""
        self._gateway, self._sealed, self._held = gateway, sealed, held
        self._changed: list[Changed] = []

    def step(self, event: Linked) -> None:
        """Go on with the next event."""
        self.found.events += 1
        at = self.at
        if event.position == at.position:
            self.report(Kind.REPEATED, event.position, event.position, event.event_id)
            return
        if event.position > at.position + 1:
            self.report(Kind.MISSING, at.position + 1, event.position - 1)
        elif link(at.link, event.position, event.digest) != event.link:
            self._hold(Changed(event, at.link))
        self._reach(event)

    def join(self, part: ChainPart, *, begun: bool = False) -> None:
        """Go on with events that were walked over elsewhere; `begun`: this walk begins behind their first."""
        if not begun:
            self.step(part.first)
        self.found.events += part.events - 1
        for changed in part.changed:
            self._hold(changed)
        for finding in part.findings:
            self.found.add(finding)
        self.found.more += part.more
        self.links |= part.links
        self.at = part.last

    def part(self, first: Linked) -> ChainPart:
        """Return what has been walked over since `first`, which is what the walk began behind."""
        return ChainPart(
            first=first,
            last=self.at,
            events=self.found.events + 1,
            changed=self._changed,
            findings=self.found.findings,
            more=self.found.more,
            links=self.links | ({first.position: first.link} if first.position in self._sealed else {}),
        )

    def report_changed(self) -> None:
        """Tell of events whose links are others; of two that fit in each other's place, as swapped."""
        left = list(self._changed)
        self._changed = []
        while left:
            one = left.pop(0)
            other = next((that for that in left if _would_fit(one, that)), None)
            event = one.event
            if other is not None:
                left = [that for that in left if that is not other and not _hangs_on(that, one, other)]
                self.report(Kind.SWAPPED, event.position, other.event.position)
            else:
                self.found.add(
                    Finding(
                        kind=Kind.CHANGED,
                        where=f"event {event.event_id} of {event.time:%Y-%m-%d %H:%M:%S},"
                        f" number {event.position} of `{self._gateway}`",
                        gateway=self._gateway,
                        first=event.position,
                        last=event.position,
                        event_id=event.event_id,
                    )
                )

    def report(self, kind: Kind, first: int, last: int, event_id: str = "") -> None:
        """Tell of positions of the chain."""
        numbers = f"event {first}" if first == last else f"events {first} to {last}"
        if kind is Kind.SWAPPED:
            numbers = f"events {first} and {last}"
        self.found.add(
            Finding(
                kind=kind,
                where=f"{numbers} of `{self._gateway}`",
                gateway=self._gateway,
                first=first,
                last=last,
                event_id=event_id,
            )
        )

    def _reach(self, event: Linked) -> None:
        self.at = Head(event.position, event.link)
        if event.position in self._sealed:
            self.links[event.position] = event.link

    def _hold(self, changed: Changed) -> None:
        if len(self._changed) >= self._held:
            self.report_changed()
        self._changed.append(changed)


def _would_fit(one: Changed, other: Changed) -> bool:
    """Whether each is what the other's place had; the link between neighbours is taken as it stands. Links
    may have stayed in their places, or gone with the events."""
    here, there = one.event, other.event
    if (
        link(one.previous, here.position, there.digest) == here.link
        and link(other.previous, there.position, here.digest) == there.link
    ):
        return True
    between = there.link if there.position == here.position + 1 else other.previous
    return (
        link(one.previous, here.position, there.digest) == there.link
        and link(between, there.position, here.digest) == here.link
    )


def _hangs_on(event: Changed, one: Changed, other: Changed) -> bool:
    """Whether an event is what it was behind one of two that were swapped with their links."""
    that = event.event
    return any(
        that.position == gone.event.position + 1
        and link(came.event.link, that.position, that.digest) == that.link
        for gone, came in ((one, other), (other, one))
    )
