"""What a security officer looks at, on one page: copies that are read more freely, proposals that nobody has
decided, alarms of proofs, peaks of refusals, days without a seal, policies that match nothing.

Each part is asked of what has it now, and says what it could not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from gateway.app.explaining import make_reader
from gateway.app.policy_diff import load_side, load_user_file
from gateway.app.propagation_rules import propagation_rules
from gateway.app.spark_checks import ask_spark
from gateway.app.tag_propagation import load_accepted_list
from gateway.audit.seals import read_seal, seals
from gateway.errors import Faults, SluiceError
from gateway.jobs.proof.report import alarms, proofs
from gateway.jobs.reports import find_refusal_peaks
from gateway.lineage.laundering import find_laundering
from gateway.lineage.proposals import PROPOSED, proposals
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.policy.engine import engine_for
from gateway.policy.laundering import Sights, list_named_principals
from gateway.settings.models import Settings

MAX_PEOPLE = 8
"""Who is named of those who read a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficerPart:
    """One part of the page."""

    title: str
    found: Sequence[Mapping[str, Any]]
    """What somebody has to look at; each has the same keys."""
    count: int
    """How many there are, where only the first are in `found`."""
    missing: Sequence[str] = field(default_factory=tuple)
    """What could not be known, and why."""
    more: str
    """The command that goes on from here."""


async def officer_page(
    connection: Any, settings: Settings, config: Path, *, since: date, limit: int, with_spark: bool = True
) -> AsyncIterator[OfficerPart]:
    """Yield the parts of the page, one after the other. Raises Faults for policies that cannot be loaded, and
    what asyncpg raises."""
    accepted = await load_accepted_list(connection)
    people = load_user_file(settings)
    policies = await asyncio.to_thread(load_side, config, people, None, accepted)
    yield await _copies(connection, settings, policies, limit)
    yield await _count_proposed(connection, limit)
    yield await _alarms(connection, since, limit)
    yield await _peaks(connection, since, limit)
    yield await _count_unsealed(connection, settings, limit)
    yield await _count_unmatched(settings, policies, limit, with_spark=with_spark)


async def _copies(connection: Any, settings: Settings, policies: PolicySet, limit: int) -> OfficerPart:
    people = load_user_file(settings)
    sights = Sights(
        engine_for(policies), list_named_principals(policies, people), AccessContext(time=datetime.now(UTC))
    )
    report = await find_laundering(connection, sights, propagation_rules(settings.tag_propagation))
    missing = list(report.cut_off)
    if not settings.lineage.enabled:
        missing.append("`lineage.enabled` is off: newer copies are not known")
    return OfficerPart(
        title="copies with weaker protection than their source",
        found=[
            {
                "column": str(one.source),
                "copy": str(one.target),
                "who": _names([each.principal for each in one.weaker]),
                "there": one.weaker[0].there,
                "here": one.weaker[0].here,
            }
            for one in report.found[:limit]
        ],
        count=len(report.found),
        missing=missing,
        more="sluice lineage laundering",
    )


async def _count_proposed(connection: Any, limit: int) -> OfficerPart:
    open_ = await proposals(connection, states=(PROPOSED,), limit=limit)
    count = await connection.fetchval("SELECT count(*) FROM sluice.tag_proposal WHERE state = $1", PROPOSED)
    return OfficerPart(
        title="undecided tag proposals",
        found=[
            {
                "id": one.id,
                "column": one.target.name,
                "tag": one.target.tag,
                "since": one.proposed_at,
                "for": _names([str(origin["column"]) for origin in one.origins]) or "what is in it",
            }
            for one in open_
        ],
        count=count,
        more="sluice tags show ID; sluice tags accept ID, or reject",
    )


async def _alarms(connection: Any, since: date, limit: int) -> OfficerPart:
    found = await alarms(connection, since=since, until=None, user=None, limit=limit + 1)
    runs = await proofs(connection, 1)
    missing = [] if runs else ["no proof was made: `sluice jobs run proof` makes one"]
    count = await connection.fetchval(
        "SELECT count(*) FROM sluice.proof_alarm WHERE found_at >= $1::timestamp AT TIME ZONE 'UTC'", since
    )
    return OfficerPart(
        title=f"statements whose rows differed from what policies allow, since {since}",
        found=[
            {
                "found": one["found_at"],
                "user": one["user_name"],
                "tables": one["tables"],
                "what": one["what"],
                "statement": one["statement_id"],
            }
            for one in found[:limit]
        ],
        count=count,
        missing=missing,
        more="sluice report proof",
    )


async def _peaks(connection: Any, since: date, limit: int) -> OfficerPart:
    found = await find_refusal_peaks(connection, since)
    last = await connection.fetchval(
        "SELECT max(ended_at) FROM sluice.job_run WHERE job = 'rollups' AND state = 'done'"
    )
    missing = (
        [f"refusals are counted up to {last.astimezone(UTC):%Y-%m-%d %H:%M} UTC, when `rollups` last ran"]
        if last is not None
        else ["no refusals are counted: `sluice jobs run rollups` counts them"]
    )
    return OfficerPart(
        title=f"days with far more refusals of a user than before, since {since}",
        found=found[:limit],
        count=len(found),
        missing=missing,
        more="sluice report refused --user USER --since DAY",
    )


_UNSEALED = """
SELECT (e.time AT TIME ZONE 'UTC')::date AS day, count(*)::bigint AS events
FROM sluice.audit_event e LEFT JOIN unnest($1::text[], $2::bigint[]) AS s (gateway, position) USING (gateway)
WHERE e.chain_position > coalesce(s.position, 0) AND e.time < date_trunc('day', now(), 'UTC')
GROUP BY 1 ORDER BY 1"""


async def _count_unsealed(connection: Any, settings: Settings, limit: int) -> OfficerPart:
    texts = await seals(connection)
    heads = read_seal(texts[-1]).heads if texts else {}
    rows = await connection.fetch(_UNSEALED, list(heads), [head.position for head in heads.values()])
    missing = []
    if settings.ledger.seal_key is None:
        missing.append("`ledger.seal_key` is not set: new events are not sealed")
    return OfficerPart(
        title="past days with unsealed events",
        found=[dict(row) for row in rows[:limit]],
        count=len(rows),
        missing=missing,
        more="sluice audit seal; sluice audit verify",
    )


async def _count_unmatched(
    settings: Settings, policies: PolicySet, limit: int, *, with_spark: bool
) -> OfficerPart:
    names: list[str] = []
    missing: list[str] = []
    if with_spark:
        try:
            async with await make_reader(settings) as reader:
                told = await ask_spark(policies, settings, reader, texts=False)
            names, missing = told.names, told.not_asked
        except Faults as error:
            missing = list(error.faults)
        except SluiceError as error:
            missing = [error.for_operators]
    else:
        missing = ["tables and columns of policies were not checked against Spark: `--no-spark`"]
    return OfficerPart(
        title="policies that name missing tables or columns",
        found=[{"policy": name} for name in names[:limit]],
        count=len(names),
        missing=missing,
        more="sluice check SETTINGS",
    )


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_PEOPLE} more" if len(names) > MAX_PEOPLE else ""
    return ", ".join(names[:MAX_PEOPLE]) + more
