"""When a day of the record may go from PostgreSQL: old enough, archived, read again, sealed, on no hold.

Whatever cannot be told keeps the day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.audit.erasing import Erasures, read_erasures
from gateway.audit.seals import NotASeal, Seal, read_seal, seals
from gateway.errors import LedgerUnavailable
from gateway.jobs.events import (
    MODULUS,
    SPARK_SCHEMA,
    Sums,
    links_in_database,
    midnight,
    sums_in_spark,
    with_lost,
)
from gateway.jobs.job import Progress, Work
from gateway.jobs.spark import cause_of, is_of_spark
from gateway.jobs.tables import LakeTable

LOCK_TIMEOUT = "5s"
"""For the lock on the record: statements wait behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A legal hold: days with events of these users, within these days, stay in PostgreSQL, and their texts
    stay wherever they are."""

    name: str
    users: tuple[str, ...] = ()
    """Empty: everybody's."""
    first: date | None = None
    last: date | None = None

    def holds(self, day: date) -> bool:
        return (self.first is None or self.first <= day) and (self.last is None or day <= self.last)

    def forbids(self, user: str, until: datetime) -> bool:
        """Whether texts of the user before a time may not be erased, of some day at least."""
        return self._is_of(user) and (self.first is None or midnight(self.first) < until)

    def forbids_on(self, user: str, day: date) -> bool:
        """Whether texts of the user of that day may not be erased."""
        return self._is_of(user) and self.holds(day)

    def _is_of(self, user: str) -> bool:
        return not self.users or user in self.users


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """For how long PostgreSQL keeps what is archived, and what it keeps in any case."""

    days: int | None = None
    """None: all."""
    holds: tuple[Hold, ...] = ()
    keys: Sequence[Ed25519PublicKey] = ()
    """By one of these seals must be signed, and erasures; without any nothing counts as sealed."""


@dataclass(frozen=True, slots=True)
class SeenErasures:
    """Erasures that the archive has carried out on a day."""

    last: int = 0
    """Number of the last one that it has seen."""
    left: frozenset[int] = frozenset()
    """Those up to `told` that were not carried out."""
    last_reported: int = 0
    """Not before `last` but where a job wrote it that does not tell what it leaves: whatever is behind is
    carried out once more."""

    @classmethod
    def of(cls, row: Mapping[str, Any] | None) -> SeenErasures:
        """Return those of a row of `sluice.archive_day`."""
        if row is None:
            return cls()
        return cls(row["erasure"], frozenset(row["left_erasures"]), row["left_up_to"])

    def has(self, number: int) -> bool:
        return number <= min(self.last, self.last_reported) and number not in self.left


class Troubles:
    """Days with which something went wrong: each is told, the others go on, and the run fails at its end."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._messages = progress, list[str]()

    @contextmanager
    def of(self, day: date) -> Iterator[None]:
        """Take LedgerUnavailable, and errors of Spark's, for a trouble of this day."""
        try:
            yield
        except Exception as error:
            if isinstance(error, LedgerUnavailable):
                why = error.message
            elif is_of_spark(error):
                why = f"Spark has failed: {cause_of(error)}"
            else:
                raise
            self._messages.append(f"{day}: {why}")
            self._progress(self._messages[-1])

    def end(self) -> None:
        """Raise LedgerUnavailable where there was any."""
        if self._messages:
            more = f"; and {len(self._messages) - 1:,} more times" if len(self._messages) > 1 else ""
            raise LedgerUnavailable(self._messages[0] + more)


async def drop_days(
    work: Work, table: LakeTable, keeping: Keeping, troubles: Troubles, there: Iterable[date]
) -> int:
    """Drop the partitions that may go, the oldest first, and return how many went; `there` are the days that
    have one."""
    if keeping.days is None:
        return 0
    before = work.now.astimezone(UTC).date() - timedelta(days=keeping.days)
    rows = await work.connection.fetch(
        "SELECT * FROM sluice.archive_day WHERE dropped_at IS NULL AND day < $1 ORDER BY day", before
    )
    dropped = 0
    for day in sorted({day for day in there if day < before} - {row["day"] for row in rows}):
        if await _drop_empty(work.connection, day):
            work.progress(f"{day}: dropped, it is empty")
            dropped += 1
    if not rows:
        return dropped
    seal = await _last_seal(work.connection, keeping.keys)
    for row in rows:
        with troubles.of(row["day"]):
            why = await _explain_kept(work.connection, row, keeping, seal) or await _drop(
                work, table, row, keeping.keys
            )
            work.progress(f"{row['day']}: stays in PostgreSQL, {why}" if why else f"{row['day']}: dropped")
            dropped += not why
    return dropped


async def _drop_empty(connection: Any, day: date) -> bool:
    """Drop the partition of a day without events; return whether it went."""
    empty = f"SELECT NOT EXISTS (SELECT FROM {_partition(day)})"
    if not await connection.fetchval(empty):
        return False
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            await connection.execute(f"LOCK TABLE {_partition(day)} IN SHARE MODE")
            if found := await connection.fetchval(empty):
                await connection.execute(f"DROP TABLE {_partition(day)}")
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return False
    return bool(found)


async def _last_seal(connection: Any, keys: Sequence[Ed25519PublicKey]) -> Seal | None:
    """Return the last seal that is signed with one of the keys."""
    for text in reversed(await seals(connection)):
        try:
            found = read_seal(text)
        except NotASeal:
            continue
        if any(found.is_by(key) for key in keys):
            return found
    return None


async def _explain_kept(connection: Any, row: Mapping[str, Any], keeping: Keeping, seal: Seal | None) -> str:
    """Say what keeps a day; empty when nothing does."""
    day: date = row["day"]
    if await connection.fetchval("SELECT to_regclass($1)", _partition(day)) is None:
        return "or rather does not exist: somebody else has removed it"
    for hold in keeping.holds:
        if hold.holds(day):
            held = not hold.users or await connection.fetchval(
                f"SELECT EXISTS (SELECT FROM {_partition(day)} WHERE user_name = ANY ($1::text[]))",
                list(hold.users),
            )
            if held:
                return f"on hold: {hold.name}"
    if row["unchained"]:
        return f"{row['unchained']:,} of its events are older than the chain, and no seal covers them"
    if seal is None:
        return "no seal is signed with a key of the settings"
    chains = await connection.fetch("SELECT gateway, last FROM sluice.archive_chain WHERE day = $1", day)
    for chain in chains:
        head = seal.heads.get(chain["gateway"])
        if head is None or head.position < chain["last"]:
            return f"the last seal does not cover all of `{chain['gateway']}`"
    waiting = await connection.fetchval(
        "SELECT EXISTS (SELECT FROM sluice.lineage_queue WHERE decided_at >= $1 AND decided_at < $2)",
        midnight(day),
        midnight(day) + timedelta(days=1),
    )
    return "lineage of its statements has not been extracted yet" if waiting else ""


async def _drop(
    work: Work, table: LakeTable, row: Mapping[str, Any], keys: Sequence[Ed25519PublicKey]
) -> str:
    """Read the archived day once more, hold PostgreSQL to it, and drop the partition; say why not."""
    day: date = row["day"]
    spark = await work.spark()
    frame = table.read(spark, SPARK_SCHEMA, [f"day={day.isoformat()}"])
    kept, gone = read_archived_sums(row), read_dropped_sums(row)
    if await asyncio.to_thread(sums_in_spark, frame) != kept:
        return "the archive has changed"
    erasures = await read_erasures(work.connection, keys)
    if await asyncio.to_thread(with_lost(frame, Erasures(erasures)).where("lost").count):
        return "texts are missing in the archive, and no erasure is recorded"
    connection = work.connection
    try:
        async with connection.transaction():
            await connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
            await connection.execute(f"LOCK TABLE {_partition(day)} IN SHARE MODE")
            there = await links_in_database(connection, _partition(day))
            if there != (kept.events - gone.events, (kept.links - gone.links) % MODULUS):
                return "it has events that are not archived"
            # Whether one is signed takes its time, and statements wait: only what is new is read again.
            newest = max((one.number for one in erasures), default=0)
            erasures += await read_erasures(connection, keys, behind=newest)
            seen = SeenErasures.of(row)
            newer = Erasures(one for one in erasures if not seen.has(one.number))
            if any(until > midnight(day) for until in newer.values()):
                return "texts were erased since it was archived"
            await connection.execute(f"DROP TABLE {_partition(day)}")
            await connection.execute(
                "UPDATE sluice.archive_day SET dropped_at = clock_timestamp(), dropped_events = events,"
                " dropped_unchained = unchained, dropped_links = links, dropped_digests = digests"
                " WHERE day = $1",
                day,
            )
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
        return "somebody uses it"
    return ""


def read_archived_sums(row: Mapping[str, Any]) -> Sums:
    """Return what a day in the archive comes to, by its row of `sluice.archive_day`."""
    return Sums(row["events"], row["unchained"], int(row["links"], 16), int(row["digests"], 16))


def read_dropped_sums(row: Mapping[str, Any]) -> Sums:
    """Return the same of what PostgreSQL has no more."""
    return Sums(
        row["dropped_events"],
        row["dropped_unchained"],
        int(row["dropped_links"], 16),
        int(row["dropped_digests"], 16),
    )


def _partition(day: date) -> str:
    return f"sluice.audit_event_{day:%Y%m%d}"
