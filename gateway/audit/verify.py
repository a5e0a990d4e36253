"""Verifies the record: every event is there as it was written, in its place, and every seal holds.

Events are read in the order of their chains and their links made anew. What an event was cannot be told from
its link; which event is not what it was can.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.archived import Archive, ArchivedDay
from gateway.audit.chain import Head
from gateway.audit.erasing import Erasures, read_erasures
from gateway.audit.rows import COLUMN_TYPES, COLUMNS, KNOWN_DAY, event_digest, select_time
from gateway.audit.seals import NotASeal, Seal, before_chain, ends, fingerprint, merkle_root, read_seal
from gateway.audit.stretches import find_stretch, places
from gateway.audit.walking import NO_TIME, Chain, Finding, Kind, Linked, Verified
from gateway.database.asking import asking
from gateway.errors import Faults, LedgerUnavailable

BATCH = 1_000
"""Events after which it is told how far it came."""
PREFETCH = 50
"""Events that are in memory at once: texts of one may have some MB."""
SEALED_WITHIN = timedelta(days=2)
"""After which events are to be in a seal: one is made each day."""
_TIME = f"{select_time('time')} AS time"
_LIST = ", ".join(
    _TIME if name == "time" else name for name in (*COLUMNS, "erased", "chain_position", "link")
)
_UNCHAINED = "(chain_position IS NULL OR chain_position < 1 OR gateway IS NULL)"

_Progress = Callable[[int, int], None]
"""Called with the events that were verified and those that there are."""


async def verify(
    connection: Any,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    exported: Iterable[str] = (),
    keys: Sequence[Ed25519PublicKey] = (),
    reached: Mapping[str, Head] | None = None,
    archive: Archive | None = None,
    progress: _Progress = lambda done, of: None,
) -> Verified:
    """Verify the record in one snapshot of the database.

    With `since` or `until`, the stretch of each chain that has the events of that time, up to where a seal
    binds it; seals are verified in any case. `exported`: texts of seals that were kept elsewhere. `keys`: by
    one of these seals must be signed. `reached`: ends of chains that are known from elsewhere, such as a
    gateway's own spool. `archive`: has the days that went from the database.

    Raises LedgerUnavailable when the database does not answer, or has other tables than a gateway makes,
    Faults when `exported` are no seals.
    """
    found = Verified()
    with asking():
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            await require_tables(connection)
            erasures = Erasures(await read_erasures(connection, keys))
            chains = await prepare_chains(
                connection,
                found,
                erasures,
                since=since,
                until=until,
                exported=exported,
                keys=keys,
                reached=reached,
            )
            kept = await _list_archived_days(connection) if archive is not None else []
            least = await find_least_places(connection) if kept else {}
            total = sum(chain.last - chain.first + 1 for chain in chains)
            for chain in chains:
                rows = _Rows(connection, chain.gateway, archive, kept, least, erasures, found)
                await _walk(rows, chain, found, progress, total)
                found.gateways += 1
            for day in kept:
                if archive is not None and _is_within(day.day, since, until):
                    archive.survey(day, found.report)
            progress(total, total)
    return found


async def prepare_chains(
    connection: Any,
    found: Verified,
    erasures: Erasures,
    *,
    since: datetime | None,
    until: datetime | None,
    exported: Iterable[str],
    keys: Sequence[Ed25519PublicKey],
    reached: Mapping[str, Head] | None,
) -> list[Chain]:
    """Verify seals, look for events that are in no chain, and return the chains that are to be walked, with
    what is known of them. Arguments are those of `verify`; call it in a transaction."""
    known = await _seals(connection, found, list(exported), keys)
    await _find_added(connection, found, {one.before_chain for one in known if one.before_chain is not None})
    await _find_erased(connection, found, erasures, since, until)
    heads = await ends(connection)
    names = {*heads, *(reached or {}), *(name for seal in known for name in seal.heads)}
    names |= {row["gateway"] for row in await connection.fetch(_GATEWAYS)}
    archived = {row["gateway"]: row["last"] for row in await connection.fetch(_ARCHIVED)}
    chains = []
    for name in sorted(names):
        told = [
            (f"seal {seal.number} of {seal.day}", seal.heads[name]) for seal in known if name in seal.heads
        ]
        if reached and name in reached:
            told.append(("the gateway's own spool", reached[name]))
        first, last, whole = await find_stretch(connection, name, since, until)
        _, end = await places(connection, name)
        if not whole:
            # What was made anew fits in itself: only who knows of a link behind it tells.
            behind = [head.position for _, head in told if head.position >= last]
            if behind:
                last = min(behind)
            else:
                last, whole = end or last, True
        chains.append(
            Chain(
                gateway=name,
                first=first,
                last=last,
                head=heads.get(name),
                ends=told,
                whole=whole,
                archived=archived.get(name) or 0,
            )
        )
        sealed = max((seal.heads[name].position for seal in known if name in seal.heads), default=0)
        if end is not None and end > sealed:
            await _count_unsealed(connection, found, name, sealed, end, keys=bool(keys))
    return chains


_GATEWAYS = """
WITH RECURSIVE one AS (
    (SELECT gateway FROM sluice.audit_event WHERE chain_position IS NOT NULL ORDER BY gateway LIMIT 1)
    UNION ALL
    SELECT (SELECT e.gateway FROM sluice.audit_event e
            WHERE e.chain_position IS NOT NULL AND e.gateway > one.gateway ORDER BY e.gateway LIMIT 1)
    FROM one WHERE one.gateway IS NOT NULL
)
SELECT gateway FROM one WHERE gateway IS NOT NULL
UNION SELECT gateway FROM sluice.archive_chain WHERE gateway IS NOT NULL
"""
"""Gateways of events, by one step in the index for each."""
GONE = "is only in the archive, after what PostgreSQL has of the same day, although no run has dropped it"
_ARCHIVED = "SELECT gateway, max(last) AS last FROM sluice.archive_chain GROUP BY gateway"


_KINDS = {
    "text": "content by_user reason signature",
    "timestamp with time zone": "began made_at until",
    "date": "day",
    "bigint": "number events erasure dropped_events dropped_unchained first last",
}
_TYPES = COLUMN_TYPES | {name: kind for kind, names in _KINDS.items() for name in names.split()}
_MADE = """
SELECT 'sluice.' || c.relname AS "table", c.relkind::text AS relkind, a.attname AS name,
       format_type(a.atttypid, NULL) AS kind
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = ANY ('{sluice.audit_event, sluice.audit_chain, sluice.audit_seal, sluice.audit_erasure,
                     sluice.audit_before_chain, sluice.archive_day, sluice.archive_chain}'::regclass[])
ORDER BY 1, a.attnum
"""


_NO_TABLES = """
SELECT c.relnamespace::regnamespace || '.' || c.relname AS name FROM pg_partition_tree('sluice.audit_event') t
JOIN pg_class c ON c.oid = t.relid WHERE c.relkind NOT IN ('r', 'p')"""


async def require_tables(connection: Any) -> None:
    """Raise LedgerUnavailable where the tables of the record are none, or not as gateways make them."""
    for row in await connection.fetch(_MADE):
        if row["relkind"] not in ("r", "p"):
            raise LedgerUnavailable(f"`{row['table']}` is not a table, so its rows are not the record")
        if row["kind"] != _TYPES.get(row["name"], row["kind"]):
            raise LedgerUnavailable(
                f"`{row['name']}` of `{row['table']}` is {row['kind']}; gateways create it as "
                f"{_TYPES[row['name']]}"
            )
    for row in await connection.fetch(_NO_TABLES):
        raise LedgerUnavailable(f"`{row['name']}` is not a table, so its rows are not the record")


async def _walk(rows: _Rows, chain: Chain, found: Verified, progress: _Progress, total: int) -> None:
    before = None
    if chain.first > 1:
        async for event in rows.read_between(chain.first - 1, chain.first - 1):
            before = event
            break
    walk = chain.walk(found, before)
    async for event in rows.read_between(chain.first, chain.last):
        walk.step(event)
        if found.events % BATCH == 0:
            progress(found.events, total)
    chain.close(walk)


async def _seals(
    connection: Any, found: Verified, exported: Sequence[str], keys: Sequence[Ed25519PublicKey]
) -> list[Seal]:
    """Verify the seals, and return those that hold."""
    rows = await connection.fetch(
        f"SELECT number, {select_time('made_at')} AS made_at, content FROM sluice.audit_seal ORDER BY number"
    )
    found.signatures_checked = bool(keys)
    there: dict[int, Seal] = {}
    for row in rows:
        try:
            there[row["number"]] = _read_seal(row)
        except NotASeal as error:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {row['number']} cannot be read: {error}"))
    numbers = [row["number"] for row in rows if row["number"] is not None and row["number"] > 0]
    for last, following in pairwise((0, *numbers)):
        if following == last:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {last} exists twice"))
        elif following == last + 2:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {last + 1} is missing"))
        elif following > last + 2:
            found.add(Finding(kind=Kind.SEAL, where=f"seals {last + 1} to {following - 1} are missing"))
    known: list[Seal] = []
    for number, one in there.items():
        # Behind one that is missing or cannot be read, it is held to nothing before it.
        why = _fault(one, there.get(number - 1), keys)
        if why:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {number} of {one.day} {why}"))
        else:
            known.append(one)
        found.seals += 1
    for position, text in enumerate(exported, 1):
        try:
            kept = read_seal(text)
        except NotASeal as error:
            raise Faults([f"line {position} of the exported seals is not a seal: {error}"]) from None
        same = there.get(kept.number)
        if same is None:
            found.add(
                Finding(kind=Kind.SEAL, where=f"seal {kept.number} of {kept.day} was exported and is missing")
            )
        elif same.text() != kept.text():
            found.add(Finding(kind=Kind.SEAL, where=f"seal {kept.number} of {kept.day} was replaced"))
        else:
            continue
        if not _fault(kept, None, keys):
            known.append(kept)
    if known:
        found.last_seal = max(known, key=lambda one: one.number).made_at
    return known


def _read_seal(row: Mapping[str, Any]) -> Seal:
    """Return the seal of a row, which has it as it was written. Raises NotASeal."""
    seal = read_seal(row["content"])
    if seal.number != row["number"]:
        raise NotASeal("it has another number")
    if seal.number < 1:
        raise NotASeal("seals are counted from 1")
    if seal.text() != row["content"]:
        raise NotASeal("it is not in the canonical form")
    made_at = row["made_at"]
    if made_at is None or seal.made_at != made_at.astimezone(UTC).isoformat(timespec="microseconds"):
        raise NotASeal("its row has another time")
    return seal


def _fault(seal: Seal, before: Seal | None, keys: Sequence[Ed25519PublicKey]) -> str:
    """Say what is wrong with a seal; nothing when it holds, as far as that can be told without a key."""
    if seal.root != merkle_root(seal.heads):
        return "has another root than the one computed from its heads"
    if keys and not any(seal.is_by(key) for key in keys):
        signed = seal.key in map(fingerprint, keys)
        return "has a wrong signature" if signed else "is signed with another key"
    if before is None:
        return "" if seal.number > 1 or not seal.previous else "is the first seal but names a predecessor"
    if not seal.follows(before):
        return f"does not follow seal {before.number}: one of them was replaced"
    back = [
        name
        for name, head in before.heads.items()
        if name not in seal.heads or seal.heads[name].position < head.position
    ]
    return f"covers less of `{back[0]}` than the seal before it" if back else ""


async def _count_unsealed(
    connection: Any, found: Verified, gateway: str, sealed: int, last: int, *, keys: bool
) -> None:
    """Count the events of a chain behind what is sealed; tell of those that are there for long, where `keys`
    say which seals count."""
    found.unsealed += last - sealed
    made_at = datetime.fromisoformat(found.last_seal) if keys and found.last_seal else None
    if keys and await connection.fetchval(_LONG_UNSEALED, gateway, sealed, made_at, SEALED_WITHIN):
        since = f"since {found.last_seal}" if made_at else "ever"
        found.add(
            Finding(
                kind=Kind.UNSEALED,
                where=f"events {sealed + 1} to {last} of `{gateway}`: not sealed {since}",
                gateway=gateway,
                first=sealed + 1,
                last=last,
            )
        )


_LONG_UNSEALED = """
SELECT EXISTS (
    SELECT FROM sluice.audit_event WHERE gateway = $1 AND chain_position > $2
      AND ($3::timestamptz IS NULL OR stored_at >= $3) AND stored_at < clock_timestamp() - $4::interval
)
"""


async def _find_added(connection: Any, found: Verified, sealed: Set[int]) -> None:
    """Look for events that no chain has, beyond those that are older than all chains, and for fewer.
    `sealed`: how many these are, by the seals that hold."""
    before = await before_chain(connection)
    if before is None:
        where = "`sluice.audit_before_chain` has no count of the events older than the chain"
        found.add(Finding(kind=Kind.MISSING, where=where))
    said, began = before or (0, NO_TIME)
    least, most = min((said, *sealed)), max((said, *sealed))
    there = await connection.fetchrow(
        f"SELECT count(*) AS events, count(*) FILTER (WHERE (stored_at > $1) IS NOT FALSE) AS newer"
        f" FROM sluice.audit_event WHERE {_UNCHAINED}",
        began,
    )
    found.before_chain = there["events"]
    # Days with such events stay in the database.
    for row in await connection.fetch(
        "SELECT to_char(day, 'YYYY-MM-DD') AS day, dropped_unchained FROM sluice.archive_day"
        " WHERE dropped_unchained IS DISTINCT FROM 0 ORDER BY archive_day.day"
    ):
        where = (
            f"{row['dropped_unchained']} events of {row['day']}, which are only in the archive, are in "
            "no chain"
        )
        found.add(Finding(kind=Kind.ADDED, where=where))
    if found.before_chain < most:
        where = f"{most - found.before_chain:,} events from before the chain"
        found.add(Finding(kind=Kind.MISSING, where=where))
    # However many are said to be older: what came later is not.
    beyond = max(found.before_chain - least, there["newer"])
    if beyond <= 0:
        return
    newest = await connection.fetch(
        f"SELECT event_id, {_TIME}, gateway FROM sluice.audit_event e WHERE {_UNCHAINED}"
        " ORDER BY stored_at DESC, e.time DESC LIMIT $1",
        min(beyond, 100),
    )
    for row in newest:
        found.add(
            Finding(
                kind=Kind.ADDED,
                where=f"{_event(row)} is in no chain",
                gateway=row["gateway"] or "",
                event_id=str(row["event_id"]),
            )
        )


async def _find_erased(
    connection: Any, found: Verified, erasures: Erasures, since: datetime | None, until: datetime | None
) -> None:
    """Look among events in no chain for those whose texts are gone without an erasure on record; those in
    chains are looked at where these are walked."""
    async for row in connection.cursor(_ERASED, since, until, prefetch=PREFETCH):
        if not erasures.cover(row):
            found.add(describe_lost(row, _event(row)))


def describe_lost(row: Mapping[str, Any], event: str) -> Finding:
    """Return what is told of an event whose texts are gone."""
    return Finding.of_event(Kind.ERASED, f"{event} lost texts, but no erasure is recorded", row)


_ERASED = f"""
SELECT event_id, {_TIME}, kind, user_name, gateway, chain_position FROM sluice.audit_event
WHERE erased IS NOT NULL AND {_UNCHAINED}
  AND ($1::timestamptz IS NULL OR time >= $1) AND ($2::timestamptz IS NULL OR time < $2)
"""


def _event(row: Mapping[str, Any]) -> str:
    return (
        f"event {row['event_id']} of {row['time'] or NO_TIME:%Y-%m-%d %H:%M:%S}, which names "
        f"`{row['gateway']}`,"
    )


async def _list_archived_days(connection: Any) -> list[ArchivedDay]:
    """Return the archived days of which the database does not have everything."""
    found: dict[date, ArchivedDay] = {}
    places: dict[date, dict[str, tuple[int, int]]] = {}
    for row in await connection.fetch(
        "SELECT day, d.events, c.gateway, min(c.first) AS first, max(c.last) AS last"
        " FROM sluice.archive_day d LEFT JOIN sluice.archive_chain c USING (day)"
        f" WHERE d.dropped_events > 0 AND {KNOWN_DAY} GROUP BY day, d.events, c.gateway ORDER BY day"
    ):
        of_day = places.setdefault(row["day"], {})
        found[row["day"]] = ArchivedDay(row["day"], row["events"] or 0, of_day)
        if None not in (row["gateway"], row["first"], row["last"]):
            of_day[row["gateway"]] = row["first"], row["last"]
    return list(found.values())


def _is_within(day: date, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or day >= since.astimezone(UTC).date()) and (
        until is None or day <= until.astimezone(UTC).date()
    )


async def find_least_places(connection: Any) -> dict[tuple[date, str], int]:
    """Return the least place that the database has of a gateway in a day which it said to have dropped.

    A day goes as a whole, and what comes for it later has later places: of a gateway, nothing that the
    archive alone has lies behind one of these.
    """
    rows = await connection.fetch(_LEAST)
    return {(row["day"], row["gateway"]): row["place"] for row in rows}


_LEAST = f"""
SELECT d.day, e.gateway, e.place FROM sluice.archive_day d CROSS JOIN LATERAL (
    SELECT gateway, min(chain_position) AS place FROM sluice.audit_event
    WHERE time >= d.day::timestamp AT TIME ZONE 'UTC' AND time < (d.day + 1)::timestamp AT TIME ZONE 'UTC'
      AND chain_position > 0 AND gateway IS NOT NULL
    GROUP BY gateway
) e WHERE d.dropped_events > 0 AND {KNOWN_DAY}
"""


class _Rows:
    """One gateway's events, of the database and of the archive."""

    def __init__(
        self,
        connection: Any,
        gateway: str,
        archive: Archive | None,
        archived: Sequence[ArchivedDay],
        least: Mapping[tuple[date, str], int],
        erasures: Erasures,
        found: Verified,
    ) -> None:
        self._connection, self._gateway = connection, gateway
        self._archive, self._archived, self._least = archive, archived, least
        self._erasures, self._found = erasures, found

    async def read_between(self, first: int, last: int) -> AsyncIterator[Linked]:
        """Yield events by position; what both have, once."""
        kept: Iterator[Mapping[str, Any]] = iter(())
        if self._archive is not None:
            kept = self._archive.rows(self._gateway, self._archived, first, last, self._found.report)
        archived = next(kept, None)
        rows = self._connection.cursor(
            f"SELECT {_LIST} FROM sluice.audit_event WHERE gateway = $1 AND chain_position BETWEEN $2 AND $3"
            " ORDER BY chain_position, time, event_id",
            self._gateway,
            first,
            last,
            prefetch=PREFETCH,
        )
        async for row in rows:
            ours = self._check_link(row)
            while archived is not None and archived["chain_position"] <= ours.position:
                if (archived["chain_position"], archived["event_id"]) != (ours.position, ours.event_id):
                    yield self._alone(archived)
                elif (copy := self._check_link(archived)).link != ours.link or copy.digest != ours.digest:
                    self._tell(Kind.CHANGED, archived, "differs between the archive and PostgreSQL")
                archived = next(kept, None)
            yield ours
        while archived is not None:
            yield self._alone(archived)
            archived = next(kept, None)

    def _alone(self, row: Mapping[str, Any]) -> Linked:
        """Return what the chain has of an event that only the archive has."""
        time, place = row["time"] or NO_TIME, row["chain_position"]
        if place > self._least.get((time.astimezone(UTC).date(), self._gateway), place):
            self._tell(Kind.MISSING, row, GONE)
        return self._check_link(row)

    def _tell(self, kind: Kind, row: Mapping[str, Any], what: str) -> None:
        self._found.add(Finding.of_event(kind, f"{_event(row)} {what}", row))

    def _check_link(self, row: Mapping[str, Any]) -> Linked:
        if row["erased"] is not None and not self._erasures.cover(row):
            self._found.add(describe_lost(row, _event(row)))
        return read_link(row)


def read_link(row: Mapping[str, Any]) -> Linked:
    """Return what the chain has of an event, by its row."""
    return Linked(
        row["chain_position"],
        bytes(row["link"] or b""),
        event_digest(row),
        str(row["event_id"]),
        row["time"] or NO_TIME,
    )
