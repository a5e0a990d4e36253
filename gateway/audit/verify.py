"""Verifies the record: every event is there as it was written, in its place, and every seal holds.

Events are read in the order of their chains and their links made anew. What an event was cannot be told from
its link; which event is not what it was can.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import asyncpg
import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.archived import Archive, Stretch
from gateway.audit.chain import Head, digest, link, start
from gateway.audit.rows import COLUMNS
from gateway.audit.seals import NotASeal, Seal, fingerprint, merkle_root, read_seal
from gateway.errors import Faults, LedgerUnavailable

BATCH = 1_000
"""Events that are in memory at once."""
MOST_HELD = 1_000
"""Changed events of one gateway that are compared with each other, to find those that were swapped."""
MOST_FINDINGS = 10_000
_LIST = ", ".join((*COLUMNS, "erased", "chain_position", "link"))

Progress = Callable[[int, int], None]
"""Called with the events that were verified and those that there are."""


class Kind(enum.Enum):
    """What is wrong."""

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
    """What the database says of the end of a chain is not what its events come to."""
    ADDED = "added"
    """An event has no place in any chain."""
    FORGED = "forged"
    """Events are not those that a seal was made of."""
    SEAL = "seal"
    """A seal is missing, changed, or not signed by the key."""


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


@dataclass(slots=True, kw_only=True)
class Verified:
    """What was looked at, and what was found."""

    events: int = 0
    gateways: int = 0
    seals: int = 0
    signatures_checked: bool = False
    before_chain: int = 0
    """Events from before there was a chain, of which nothing can be said."""
    findings: list[Finding] = field(default_factory=list)
    more: int = 0
    """Diagnostics beyond those that are listed."""

    @property
    def holds(self) -> bool:
        return not self.findings

    def add(self, finding: Finding) -> None:
        if len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)
        else:
            self.more += 1


async def verify(
    connection: Any,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    exported: Iterable[str] = (),
    key: Ed25519PublicKey | None = None,
    reached: Mapping[str, Head] | None = None,
    archive: Archive | None = None,
    progress: Progress = lambda done, of: None,
) -> Verified:
    """Verify the record in one snapshot of the database.

    With `since` or `until`, the stretch of each chain that has the events of that time; seals are verified in
    any case. `exported`: texts of seals that were kept elsewhere. `key`: what seals must be signed with.
    `reached`: ends of chains that are known from elsewhere, such as a gateway's own spool. `archive`: has the
    days that went from the database.

    Raises LedgerUnavailable when the database does not answer, Faults when `exported` are no seals.
    """
    found = Verified()
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            known = await _seals(connection, found, list(exported), key)
            await _added(connection, found)
            heads = {
                row["gateway"]: Head(row["chain_position"], bytes(row["link"]))
                for row in await connection.fetch(
                    "SELECT gateway, chain_position, link FROM sluice.audit_chain"
                )
            }
            names = sorted({*heads, *(reached or {}), *(name for seal in known for name in seal.heads)})
            ranges = {name: await _range(connection, name, since, until) for name in names}
            kept = await _archived(connection) if archive is not None else {}
            total = sum(last - first + 1 for first, last in ranges.values())
            for name in names:
                ends = [
                    (f"seal {seal.number} of {seal.day}", seal.heads[name])
                    for seal in known
                    if name in seal.heads
                ]
                if reached and name in reached:
                    ends.append(("the gateway's own spool", reached[name]))
                chain = _Chain(
                    name,
                    *ranges[name],
                    heads.get(name),
                    ends,
                    whole=until is None,
                    archive=archive,
                    archived=kept.get(name, ()),
                )
                await chain.verify(connection, found, lambda done: progress(done, total))
                found.gateways += 1
            progress(total, total)
    except asyncpg.UndefinedTableError:
        raise LedgerUnavailable("no gateway of this version has used the audit database") from None
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError) as error:
        raise LedgerUnavailable(f"the audit database does not answer: {error}") from error
    return found


async def _seals(
    connection: Any, found: Verified, exported: Sequence[str], key: Ed25519PublicKey | None
) -> list[Seal]:
    """Verify the seals, and return those that hold."""
    rows = await connection.fetch("SELECT number, content FROM sluice.audit_seal ORDER BY number")
    found.signatures_checked = key is not None
    there: dict[int, Seal] = {}
    for row in rows:
        try:
            seal = read_seal(row["content"])
            if seal.number != row["number"]:
                raise NotASeal("it has another number")
        except NotASeal as error:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {row['number']} cannot be read: {error}"))
            continue
        there[seal.number] = seal
    known: list[Seal] = []
    before: Seal | None = None
    for number in range(1, max(there, default=0) + 1):
        one = there.get(number)
        if one is None:
            if number not in {row["number"] for row in rows}:
                found.add(Finding(kind=Kind.SEAL, where=f"seal {number} is missing"))
            before = None
            continue
        why = _fault(one, before, key)
        if why:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {number} of {one.day} {why}"))
        else:
            known.append(one)
        found.seals += 1
        before = one
    for position, text in enumerate(exported, 1):
        try:
            kept = read_seal(text)
        except NotASeal as error:
            raise Faults([f"line {position} of the exported seals is none: {error}"]) from None
        same = there.get(kept.number)
        if same is None:
            found.add(
                Finding(kind=Kind.SEAL, where=f"seal {kept.number} of {kept.day} was exported and is missing")
            )
        elif same.text() != kept.text():
            found.add(Finding(kind=Kind.SEAL, where=f"seal {kept.number} of {kept.day} was replaced"))
        else:
            continue
        if not _fault(kept, None, key):
            known.append(kept)
    return known


def _fault(seal: Seal, before: Seal | None, key: Ed25519PublicKey | None) -> str:
    """Say what is wrong with a seal; nothing when it holds, as far as that can be told without a key."""
    if seal.root != merkle_root(seal.heads):
        return "has another root than its heads come to"
    if key is not None and not seal.is_by(key):
        signed = seal.key == fingerprint(key)
        return "has a wrong signature" if signed else "is signed with another key"
    if before is None:
        return "" if seal.number > 1 or not seal.previous else "is the first and names one before it"
    if seal.previous != before.digest():
        return f"does not belong behind seal {before.number}: one of them was replaced"
    back = [
        name
        for name, head in before.heads.items()
        if name not in seal.heads or seal.heads[name].position < head.position
    ]
    return f"has less of `{back[0]}` than the seal before it" if back else ""


async def _added(connection: Any, found: Verified) -> None:
    """Look for events that no chain has, beyond those that are older than all chains."""
    began = await connection.fetchrow("SELECT began, events FROM sluice.audit_before_chain")
    found.before_chain = await connection.fetchval(
        "SELECT count(*) FROM sluice.audit_event WHERE chain_position IS NULL"
    )
    found.before_chain += await connection.fetchval(
        "SELECT coalesce(sum(dropped_unchained), 0)::bigint FROM sluice.archive_day"
    )
    known = began["events"] if began is not None else 0
    if found.before_chain <= known:
        return
    newest = await connection.fetch(
        "SELECT event_id, time, gateway FROM sluice.audit_event WHERE chain_position IS NULL"
        " ORDER BY stored_at DESC, time DESC LIMIT $1",
        min(found.before_chain - known, 100),
    )
    for row in newest:
        found.add(
            Finding(
                kind=Kind.ADDED,
                where=f"event {row['event_id']} of {row['time']:%Y-%m-%d %H:%M:%S}, by its own word of"
                f" `{row['gateway']}`, is in no chain",
                gateway=row["gateway"],
                event_id=str(row["event_id"]),
            )
        )


async def _range(
    connection: Any, gateway: str, since: datetime | None, until: datetime | None
) -> tuple[int, int]:
    """Return the first and last position of a gateway's events of a time; (1, 0) when there are none."""
    row = await connection.fetchrow(
        "SELECT min(first) AS first, max(last) AS last FROM ("
        "SELECT min(chain_position) AS first, max(chain_position) AS last FROM sluice.audit_event"
        " WHERE gateway = $1 AND chain_position IS NOT NULL AND ($2::timestamptz IS NULL OR time >= $2)"
        " AND ($3::timestamptz IS NULL OR time < $3)"
        " UNION ALL SELECT min(c.first), max(c.last) FROM sluice.archive_chain c"
        " JOIN sluice.archive_day d USING (day) WHERE gateway = $1 AND d.dropped_events > 0"
        " AND ($2::timestamptz IS NULL OR day >= ($2::timestamptz AT TIME ZONE 'UTC')::date)"
        " AND ($3::timestamptz IS NULL OR day <= ($3::timestamptz AT TIME ZONE 'UTC')::date)) AS places",
        gateway,
        since,
        until,
    )
    if row["first"] is None:
        return 1, 0
    # Without a beginning, from the first one that there ever was: it may have been removed.
    return (1 if since is None else row["first"]), row["last"]


async def _archived(connection: Any) -> dict[str, list[Stretch]]:
    """Return where chains are in archived days of which the database does not have everything."""
    found: dict[str, list[Stretch]] = {}
    rows = await connection.fetch(
        "SELECT c.day, c.gateway, c.first, c.last FROM sluice.archive_chain c"
        " JOIN sluice.archive_day d USING (day) WHERE d.dropped_events > 0 ORDER BY c.day"
    )
    for row in rows:
        found.setdefault(row["gateway"], []).append(Stretch(row["day"], row["first"], row["last"]))
    return found


@dataclass(slots=True)
class _Changed:
    position: int
    previous: bytes
    link: bytes
    digest: bytes
    event_id: str
    time: datetime


class _Chain:
    """One gateway's chain, from one position to another."""

    def __init__(
        self,
        gateway: str,
        first: int,
        last: int,
        head: Head | None,
        ends: Sequence[tuple[str, Head]],
        *,
        whole: bool,
        archive: Archive | None = None,
        archived: Sequence[Stretch] = (),
    ) -> None:
        self._gateway = gateway
        self._archive, self._archived = archive, archived
        self._first, self._last = first, last
        self._head, self._ends, self._whole = head, ends, whole
        self._changed: list[_Changed] = []
        self._sealed = {end.position for _, end in ends}
        self._links: dict[int, bytes] = {}
        """Links at the positions that somebody else knows."""

    async def verify(self, connection: Any, found: Verified, progress: Callable[[int], None]) -> None:
        at = await self._before(connection)
        reached = at.position
        async for row in self._rows(connection, self._first, self._last):
            found.events += 1
            if found.events % BATCH == 0:
                progress(found.events)
            position, kept = row["chain_position"], bytes(row["link"] or b"")
            if position == reached:
                self._tell(found, Kind.REPEATED, position, position, row)
                continue
            if position > reached + 1:
                self._tell(found, Kind.MISSING, reached + 1, position - 1)
            else:
                made = _digest(row)
                if link(at.link, position, made) != kept:
                    self._hold(
                        found, _Changed(position, at.link, kept, made, str(row["event_id"]), row["time"])
                    )
            at = Head(position, kept)
            reached = position
            if position in self._sealed:
                self._links[position] = kept
        self._tell_changed(found)
        self._verify_ends(found, reached, at)

    async def _rows(self, connection: Any, first: int, last: int) -> AsyncIterator[Mapping[str, Any]]:
        """Yield events by position, of the database and of the archive; what both have, once."""
        kept: Iterator[Mapping[str, Any]] = iter(())
        if self._archive is not None:
            kept = self._archive.rows(self._gateway, self._archived, first, last)
        archived = next(kept, None)
        rows = connection.cursor(
            f"SELECT {_LIST} FROM sluice.audit_event WHERE gateway = $1 AND chain_position BETWEEN $2 AND $3"
            " ORDER BY chain_position, time, event_id",
            self._gateway,
            first,
            last,
            prefetch=BATCH,
        )
        async for row in rows:
            while archived is not None and archived["chain_position"] <= row["chain_position"]:
                if archived["event_id"] != str(row["event_id"]):
                    yield archived
                archived = next(kept, None)
            yield row
        while archived is not None:
            yield archived
            archived = next(kept, None)

    async def _before(self, connection: Any) -> Head:
        """Return the head before the first event."""
        if self._first > 1:
            async for row in self._rows(connection, self._first - 1, self._first - 1):
                return Head(self._first - 1, bytes(row["link"] or b""))
        return Head(self._first - 1, start(self._gateway).link)

    def _verify_ends(self, found: Verified, reached: int, at: Head) -> None:
        """Hold the chain to what the database, seals and others know of it."""
        if self._whole:
            furthest = max(
                [end.position for _, end in self._ends] + ([self._head.position] if self._head else [])
            )
            if furthest > reached:
                self._tell(found, Kind.TRUNCATED, reached + 1, furthest)
            elif self._head is None or self._head.position < reached or self._head.link != at.link:
                self._tell(found, Kind.HEAD, reached, reached)
        for who, end in self._ends:
            kept = start(self._gateway).link if end.position == 0 else self._links.get(end.position)
            if kept is not None and kept != end.link:
                found.add(
                    Finding(
                        kind=Kind.FORGED,
                        where=f"events of `{self._gateway}` up to {end.position} are not those of {who}",
                        gateway=self._gateway,
                        last=end.position,
                    )
                )

    def _hold(self, found: Verified, changed: _Changed) -> None:
        if len(self._changed) >= MOST_HELD:
            self._tell_changed(found)
        self._changed.append(changed)

    def _tell_changed(self, found: Verified) -> None:
        """Tell of events whose links are others; of two that fit in each other's place, as swapped."""
        left = list(self._changed)
        self._changed = []
        while left:
            one = left.pop(0)
            other = next((that for that in left if _would_fit(one, that)), None)
            if other is not None:
                left.remove(other)
                self._tell(found, Kind.SWAPPED, one.position, other.position)
            else:
                found.add(
                    Finding(
                        kind=Kind.CHANGED,
                        where=f"event {one.event_id} of {one.time:%Y-%m-%d %H:%M:%S},"
                        f" number {one.position} of `{self._gateway}`",
                        gateway=self._gateway,
                        first=one.position,
                        last=one.position,
                        event_id=one.event_id,
                    )
                )

    def _tell(
        self, found: Verified, kind: Kind, first: int, last: int, row: Mapping[str, Any] | None = None
    ) -> None:
        numbers = f"event {first}" if first == last else f"events {first} to {last}"
        if kind is Kind.SWAPPED:
            numbers = f"events {first} and {last}"
        found.add(
            Finding(
                kind=kind,
                where=f"{numbers} of `{self._gateway}`",
                gateway=self._gateway,
                first=first,
                last=last,
                event_id=str(row["event_id"]) if row is not None else "",
            )
        )


def _would_fit(one: _Changed, other: _Changed) -> bool:
    """Whether each is what the other's place had; the link between neighbours is taken as it stands."""
    return (
        link(one.previous, one.position, other.digest) == one.link
        and link(other.previous, other.position, one.digest) == other.link
    )


def _digest(row: Mapping[str, Any]) -> bytes:
    values = {name: row[name] for name in COLUMNS}
    values["body"] = orjson.loads(row["body"])
    erased = orjson.loads(row["erased"]) if row["erased"] is not None else None
    return digest(values, erased)
