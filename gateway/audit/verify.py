"""Verifies the record: every event is there as it was written, in its place, and every seal holds.

Events are read in the order of their chains and their links made anew. What an event was cannot be told from
its link; which event is not what it was can.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.archived import Archive, ArchivedStretch
from gateway.audit.chain import Head
from gateway.audit.erasing import Erasures, read_erasures
from gateway.audit.rows import COLUMNS, KNOWN_DAY, event_digest, known_time
from gateway.audit.seals import NotASeal, Seal, before_chain, ends, fingerprint, merkle_root, read_seal
from gateway.audit.walking import NO_TIME, Chain, Finding, Kind, Linked, Verified
from gateway.database.asking import asking
from gateway.errors import Faults, LedgerUnavailable

BATCH = 1_000
"""Events that are in memory at once."""
_TIME = f"{known_time('time')} AS time"
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
            erasures = await erasures_by(connection, keys)
            chains = await expected(
                connection,
                found,
                erasures,
                since=since,
                until=until,
                exported=exported,
                keys=keys,
                reached=reached,
            )
            kept = await _archived(connection) if archive is not None else {}
            total = sum(chain.last - chain.first + 1 for chain in chains)
            for chain in chains:
                rows = _Rows(connection, chain.gateway, archive, kept.get(chain.gateway, ()), erasures, found)
                await _walk(rows, chain, found, progress, total)
                found.gateways += 1
            progress(total, total)
    return found


async def expected(
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
    await _added(connection, found, {one.before_chain for one in known if one.before_chain is not None})
    await _erased(connection, found, erasures, since, until)
    heads = await ends(connection)
    names = {*heads, *(reached or {}), *(name for seal in known for name in seal.heads)}
    names |= {row["gateway"] for row in await connection.fetch(_GATEWAYS)}
    chains = []
    for name in sorted(names):
        told = [
            (f"seal {seal.number} of {seal.day}", seal.heads[name]) for seal in known if name in seal.heads
        ]
        if reached and name in reached:
            told.append(("the gateway's own spool", reached[name]))
        first, last, whole = await _range(connection, name, since, until)
        if not whole:
            # What was made anew fits in itself: only who knows of a link behind it tells.
            last = min((end.position for _, end in told if end.position >= last), default=last)
        chains.append(
            Chain(gateway=name, first=first, last=last, head=heads.get(name), ends=told, whole=whole)
        )
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


_KINDS = {
    "uuid": "event_id statement_id",
    "timestamp with time zone": "time stored_at began made_at until",
    "date": "day",
    "bigint": "rows bytes chain_position number events erasure dropped_events dropped_unchained first last",
    "double precision": "duration_ms",
    "boolean": "readers_agree",
    "bytea": "statement_sha256 forwarded_sha256 original_record link",
    "text[]": "groups roles resources policies",
    "jsonb": "body erased",
}
_TYPES = dict.fromkeys((*COLUMNS, "content", "by_user", "reason", "signature"), "text") | {
    name: kind for kind, names in _KINDS.items() for name in names.split()
}
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
            raise LedgerUnavailable(f"`{row['table']}` is no table: what it shows is not the record")
        if row["kind"] != _TYPES.get(row["name"], row["kind"]):
            raise LedgerUnavailable(
                f"`{row['name']}` of `{row['table']}` is {row['kind']};"
                f" where a gateway has made it, it is {_TYPES[row['name']]}"
            )
    for row in await connection.fetch(_NO_TABLES):
        raise LedgerUnavailable(f"`{row['name']}` is no table: what it shows is not the record")


async def _walk(rows: _Rows, chain: Chain, found: Verified, progress: _Progress, total: int) -> None:
    before = None
    if chain.first > 1:
        async for event in rows.between(chain.first - 1, chain.first - 1):
            before = event
            break
    walk = chain.walk(found, before)
    async for event in rows.between(chain.first, chain.last):
        walk.step(event)
        if found.events % BATCH == 0:
            progress(found.events, total)
    chain.close(walk)


async def _seals(
    connection: Any, found: Verified, exported: Sequence[str], keys: Sequence[Ed25519PublicKey]
) -> list[Seal]:
    """Verify the seals, and return those that hold."""
    rows = await connection.fetch(
        f"SELECT number, {known_time('made_at')} AS made_at, content FROM sluice.audit_seal ORDER BY number"
    )
    found.signatures_checked = bool(keys)
    there: dict[int, Seal] = {}
    for row in rows:
        try:
            there[row["number"]] = _sealed(row)
        except NotASeal as error:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {row['number']} cannot be read: {error}"))
    numbers = [row["number"] for row in rows if row["number"] is not None and row["number"] > 0]
    for last, following in pairwise((0, *numbers)):
        if following == last:
            found.add(Finding(kind=Kind.SEAL, where=f"seal {last} is there twice"))
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
        if not _fault(kept, None, keys):
            known.append(kept)
    return known


def _sealed(row: Mapping[str, Any]) -> Seal:
    """Return the seal of a row, which has it as it was written. Raises NotASeal."""
    seal = read_seal(row["content"])
    if seal.number != row["number"]:
        raise NotASeal("it has another number")
    if seal.number < 1:
        raise NotASeal("seals are counted from 1")
    if seal.text() != row["content"]:
        raise NotASeal("it is written otherwise")
    made_at = row["made_at"]
    if made_at is None or seal.made_at != made_at.astimezone(UTC).isoformat(timespec="microseconds"):
        raise NotASeal("its row is of another time")
    return seal


def _fault(seal: Seal, before: Seal | None, keys: Sequence[Ed25519PublicKey]) -> str:
    """Say what is wrong with a seal; nothing when it holds, as far as that can be told without a key."""
    if seal.root != merkle_root(seal.heads):
        return "has another root than its heads come to"
    if keys and not any(seal.is_by(key) for key in keys):
        signed = seal.key in map(fingerprint, keys)
        return "has a wrong signature" if signed else "is signed with another key"
    if before is None:
        return "" if seal.number > 1 or not seal.previous else "is the first and names one before it"
    if not seal.follows(before):
        return f"does not belong behind seal {before.number}: one of them was replaced"
    back = [
        name
        for name, head in before.heads.items()
        if name not in seal.heads or seal.heads[name].position < head.position
    ]
    return f"has less of `{back[0]}` than the seal before it" if back else ""


async def _added(connection: Any, found: Verified, sealed: Set[int]) -> None:
    """Look for events that no chain has, beyond those that are older than all chains, and for fewer.
    `sealed`: how many these are, by the seals that hold."""
    before = await before_chain(connection)
    if before is None:
        where = "`sluice.audit_before_chain` does not say how many events are older than the chain"
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
        where = f"{row['dropped_unchained']} events of {row['day']}, of the archive alone, are in no chain"
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


async def erasures_by(connection: Any, keys: Sequence[Ed25519PublicKey]) -> Erasures:
    """Return the erasures that are signed by one of these keys; all, where there is none."""
    return Erasures([one for key in keys or (None,) for one in await read_erasures(connection, key)])


async def _erased(
    connection: Any, found: Verified, erasures: Erasures, since: datetime | None, until: datetime | None
) -> None:
    """Look among events in no chain for those whose texts are gone without an erasure on record; those in
    chains are looked at where these are walked."""
    async for row in connection.cursor(_ERASED, since, until, prefetch=BATCH):
        if not erasures.cover(row):
            found.add(lost(row, _event(row)))


def lost(row: Mapping[str, Any], event: str) -> Finding:
    """Return what is told of an event whose texts are gone."""
    place = row["chain_position"] or 0
    return Finding(
        kind=Kind.ERASED,
        where=f"{event} has lost texts, and no erasure is on record",
        gateway=row["gateway"] or "",
        first=place,
        last=place,
        event_id=str(row["event_id"]),
    )


_ERASED = f"""
SELECT event_id, {_TIME}, kind, user_name, gateway, chain_position FROM sluice.audit_event
WHERE erased IS NOT NULL AND {_UNCHAINED}
  AND ($1::timestamptz IS NULL OR time >= $1) AND ($2::timestamptz IS NULL OR time < $2)
"""


def _event(row: Mapping[str, Any]) -> str:
    return (
        f"event {row['event_id']} of {row['time'] or NO_TIME:%Y-%m-%d %H:%M:%S}, by its own word of"
        f" `{row['gateway']}`,"
    )


async def _range(
    connection: Any, gateway: str, since: datetime | None, until: datetime | None
) -> tuple[int, int, bool]:
    """Return the first and last position that tell of a gateway's events of a time, and whether its chain
    ends there; where there is nothing to walk over, the first comes behind the last.

    What was removed has no time any more. So they begin with the event before the time, which may be one of
    it that was given another, and go to the one that comes after it, or to the end: whatever is missing of
    the time is missing in between.
    """
    before = behind = None
    first, last = await _places(connection, gateway, since, until)
    if first is not None:
        if since is not None:
            before = await connection.fetchval(_BEFORE, gateway, first, since)
        if until is not None:
            behind = await connection.fetchval(_BEHIND, gateway, last, until)
    else:
        if since is not None:
            _, before = await _places(connection, gateway, None, since)
        if until is not None:
            behind, _ = await _places(connection, gateway, until, None)
        if before is not None and behind is not None and behind < before:
            # A clock went back: what is missing may be missing anywhere.
            before = behind = None
    if behind is None:
        # Not the last of the time: where a clock went back, earlier ones follow it.
        _, last = await _places(connection, gateway, None, None)
    return before or 1, (last if behind is None else behind) or 0, behind is None


async def _places(
    connection: Any, gateway: str, since: datetime | None, until: datetime | None
) -> tuple[int | None, int | None]:
    """Return the first and last position of a gateway's events of a time; None where there are none."""
    row = await connection.fetchrow(_PLACES, gateway, since, until)
    return row["first"], row["last"]


_PLACES = """
SELECT min(first) AS first, max(last) AS last FROM (
    SELECT min(chain_position) AS first, max(chain_position) AS last FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > 0 AND ($2::timestamptz IS NULL OR time >= $2)
      AND ($3::timestamptz IS NULL OR time < $3)
    UNION ALL
    SELECT min(c.first), max(c.last) FROM sluice.archive_chain c JOIN sluice.archive_day d USING (day)
    WHERE gateway = $1 AND d.dropped_events > 0
      AND ($2::timestamptz IS NULL OR day >= ($2::timestamptz AT TIME ZONE 'UTC')::date)
      AND ($3::timestamptz IS NULL OR day <= ($3::timestamptz AT TIME ZONE 'UTC')::date)
) AS places
"""


_BEFORE = """
SELECT max(place) FROM (
    SELECT max(chain_position) AS place FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > 0 AND chain_position < $2::bigint AND time < $3::timestamptz
    UNION ALL
    SELECT max(least(c.last, $2::bigint - 1))
    FROM sluice.archive_chain c JOIN sluice.archive_day d USING (day)
    WHERE gateway = $1 AND d.dropped_events > 0 AND c.first < $2::bigint
      AND day < ($3::timestamptz AT TIME ZONE 'UTC')::date
) AS places
"""
_BEHIND = """
SELECT min(place) FROM (
    SELECT min(chain_position) AS place FROM sluice.audit_event
    WHERE gateway = $1 AND chain_position > $2::bigint AND time >= $3::timestamptz
    UNION ALL
    SELECT min(CASE WHEN c.first > $2::bigint THEN c.first ELSE c.last END)
    FROM sluice.archive_chain c JOIN sluice.archive_day d USING (day)
    WHERE gateway = $1 AND d.dropped_events > 0 AND c.last > $2::bigint
      AND day > ($3::timestamptz AT TIME ZONE 'UTC')::date
) AS places
"""
"""The nearest place before one and a time, and behind. Of an archived day the database knows the first and
the last place that are there; of those in between, none."""


async def _archived(connection: Any) -> dict[str, list[ArchivedStretch]]:
    """Return where chains are in archived days of which the database does not have everything."""
    found: dict[str, list[ArchivedStretch]] = {}
    rows = await connection.fetch(
        "SELECT c.day, c.gateway, c.first, c.last FROM sluice.archive_chain c"
        " JOIN sluice.archive_day d USING (day) WHERE d.dropped_events > 0 AND c.first <= c.last"
        f" AND {KNOWN_DAY} ORDER BY day"
    )
    for row in rows:
        found.setdefault(row["gateway"], []).append(ArchivedStretch(row["day"], row["first"], row["last"]))
    return found


class _Rows:
    """One gateway's events, of the database and of the archive."""

    def __init__(
        self,
        connection: Any,
        gateway: str,
        archive: Archive | None,
        archived: Sequence[ArchivedStretch],
        erasures: Erasures,
        found: Verified,
    ) -> None:
        self._connection, self._gateway = connection, gateway
        self._archive, self._archived = archive, archived
        self._erasures, self._found = erasures, found

    async def between(self, first: int, last: int) -> AsyncIterator[Linked]:
        """Yield events by position; what both have, once."""
        kept: Iterator[Mapping[str, Any]] = iter(())
        if self._archive is not None:
            kept = self._archive.rows(self._gateway, self._archived, first, last, self._found.tell)
        archived = next(kept, None)
        rows = self._connection.cursor(
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
                    yield self._linked(archived)
                archived = next(kept, None)
            yield self._linked(row)
        while archived is not None:
            yield self._linked(archived)
            archived = next(kept, None)

    def _linked(self, row: Mapping[str, Any]) -> Linked:
        if row["erased"] is not None and not self._erasures.cover(row):
            self._found.add(lost(row, _event(row)))
        return linked(row)


def linked(row: Mapping[str, Any]) -> Linked:
    """Return what the chain has of an event, by its row."""
    return Linked(
        row["chain_position"],
        bytes(row["link"] or b""),
        event_digest(row),
        str(row["event_id"]),
        row["time"] or NO_TIME,
    )
