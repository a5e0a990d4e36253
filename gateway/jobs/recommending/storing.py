"""Recommendations in PostgreSQL: kept over runs, listed, decided."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gateway.errors import Faults

PROPOSED, REJECTED, APPLIED = STATES = ("proposed", "rejected", "applied")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One change that is recommended."""

    kind: str
    subject: str
    """Subject of the recommendation; with the kind, the same in every run."""
    title: str
    edits: Sequence[Mapping[str, Any]]
    """As `gateway.policy.packs.editing` has them."""
    cases: Sequence[Mapping[str, Any]] = ()
    """Cases, in the form of packs, that hold once the edits are made."""
    evidence: Mapping[str, Any] = field(default_factory=dict)

    @property
    def basis(self) -> str:
        """A digest of what would be changed, however the policy is otherwise."""
        edits = [{key: value for key, value in edit.items() if key != "was"} for edit in self.edits]
        return hashlib.sha256(_json(edits).encode()).hexdigest()[:32]


_NEW_NUMBER = "id = DEFAULT,"


@dataclass(frozen=True, slots=True)
class Kept:
    """Changes that a run made to the stored recommendations."""

    proposed: int
    gone: int
    open: int


async def keep(connection: Any, found: Iterable[Advice], *, run: int, now: datetime) -> Kept:
    """Replace the open recommendations by those that were found; call it in a transaction.

    What was rejected stays so while the change is the same. What was applied and is found all the same is
    proposed again, but not by a run that began before (`now`), which may have looked at the policies of then.
    A change that is another, or of a policy that is, has another number: nobody applies what they have not
    looked at. Of several that have one kind and subject the first counts.
    """
    rows = await connection.fetch(
        "SELECT id, kind, subject, state, basis, change, decided_at FROM sluice.recommendation FOR UPDATE"
    )
    known = {(row["kind"], row["subject"]): row for row in rows}
    seen: set[int] = set()
    proposed = still = 0
    told: dict[tuple[str, str], Advice] = {}
    for one in found:
        told.setdefault((one.kind, one.subject), one)
    for one in told.values():
        row = known.get((one.kind, one.subject))
        values = (one.title, _json({"edits": one.edits, "cases": one.cases}), one.basis, _json(one.evidence))
        if row is None:
            await connection.execute(
                "INSERT INTO sluice.recommendation (kind, subject, state, title, change, basis, evidence,"
                " run, proposed_at) VALUES ($1, $2, 'proposed', $3, $4, $5, $6, $7, $8)",
                *(one.kind, one.subject, *values, run, now),
            )
            proposed, still = proposed + 1, still + 1
            continue
        seen.add(row["id"])
        if row["state"] == REJECTED and row["basis"] == one.basis:
            continue
        if row["state"] == APPLIED and row["decided_at"] > now:
            continue
        again = row["state"] != PROPOSED
        is_another = _json(json.loads(row["change"])["edits"]) != _json(one.edits)
        proposed, still = proposed + again, still + 1
        await connection.execute(
            f"UPDATE sluice.recommendation SET {_NEW_NUMBER if is_another else ''}"
            " state = 'proposed', title = $2, change = $3, basis = $4, evidence = $5, run = $6,"
            " proposed_at = CASE WHEN $7 THEN $8 ELSE proposed_at END, decided_at = NULL, decided_by = ''"
            " WHERE id = $1",
            *(row["id"], *values, run, again, now),
        )
    gone = [row["id"] for row in rows if row["state"] == PROPOSED and row["id"] not in seen]
    await connection.execute("DELETE FROM sluice.recommendation WHERE id = ANY ($1::bigint[])", gone)
    return Kept(proposed, len(gone), still)


_WITH_RUN = """
SELECT one.*, run.started_at AS looked_at
FROM sluice.recommendation one JOIN sluice.job_run run ON run.id = one.run"""


async def list_recommendations(
    connection: Any,
    *,
    states: Sequence[str] = (PROPOSED,),
    kind: str = "",
    after: tuple[str, int] = ("", 0),
    limit: int = 100,
) -> list[dict[str, Any]]:
    """Return recommendations, by kind and number, from behind `after` on."""
    rows = await connection.fetch(
        f"{_WITH_RUN} WHERE one.state = ANY ($1::text[]) AND ($2 = '' OR kind = $2)"
        " AND (kind, one.id) > ($4, $5) ORDER BY kind, one.id LIMIT $3",
        list(states),
        kind,
        limit,
        *after,
    )
    return [_as_json(row) for row in rows]


async def load_recommendation(connection: Any, number: int) -> dict[str, Any]:
    """Return one recommendation. Raises Faults when there is none of that number."""
    row = await connection.fetchrow(f"{_WITH_RUN} WHERE one.id = $1", number)
    if row is None:
        raise Faults([f"recommendation {number} does not exist; `sluice recommend list` shows them"])
    return _as_json(row)


async def decide(
    connection: Any,
    numbers: Sequence[int],
    state: str,
    by: str,
    *,
    apply: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Reject or apply proposed recommendations, all or none; `apply` writes what is applied.

    Raises Faults for unknown numbers, and for those of which something else was decided; nothing is written
    then, nor is anything decided that cannot be written.
    """
    async with connection.transaction():
        rows = await connection.fetch(
            "SELECT id, state, decided_by FROM sluice.recommendation WHERE id = ANY ($1::bigint[])"
            " FOR UPDATE",
            list(numbers),
        )
        missing = set(numbers) - {row["id"] for row in rows}
        faults = [f"recommendation {number} does not exist" for number in sorted(missing)]
        faults += [
            f"recommendation {row['id']} was {row['state']} by {row['decided_by']}"
            for row in rows
            if row["state"] not in (PROPOSED, state)
        ]
        if faults:
            raise Faults(faults)
        if apply is not None:
            await apply()
        await connection.execute(
            # Behind what was written: a run that read it before began before this time.
            "UPDATE sluice.recommendation SET state = $2, decided_at = clock_timestamp(), decided_by = $3"
            " WHERE id = ANY ($1::bigint[])",
            list(numbers),
            state,
            by,
        )


def _as_json(row: Any) -> dict[str, Any]:
    change = json.loads(row["change"])
    return {
        "id": row["id"],
        "kind": row["kind"],
        "subject": row["subject"],
        "title": row["title"],
        "state": row["state"],
        "edits": change["edits"],
        "cases": change["cases"],
        "evidence": json.loads(row["evidence"]),
        "proposed_at": row["proposed_at"].isoformat(),
        # Of what was used later it knows nothing.
        "looked_at": row["looked_at"].isoformat(),
        "decided_at": row["decided_at"].isoformat() if row["decided_at"] is not None else None,
        "decided_by": row["decided_by"],
    }


def _json(value: object) -> str:
    # PostgreSQL takes no NUL in jsonb.
    return json.dumps(value, sort_keys=True, default=str).replace("\\u0000", "\\ufffd")
