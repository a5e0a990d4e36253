"""What PostgreSQL keeps of a replay, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_TEXT = (
    "SELECT statement_id, statement FROM sluice.audit_event"
    " WHERE kind = 'decided' AND statement_id = ANY ($1)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayReport:
    """One run: its counts, what is otherwise by user, resource and column, and what could not be judged."""

    totals: dict[str, Any]
    changes: tuple[dict[str, Any], ...]
    unjudged: tuple[dict[str, Any], ...]
    texts: dict[str, str | None]
    """Examples by id, as they were sent; none unless they were asked for. None: PostgreSQL has the text no
    more."""


async def read_report(connection: Any, run: int, *, limit: int, literals: bool = False) -> ReplayReport:
    """Return what came of a run: `limit` changes, those of most statements. `literals`: with the texts of
    examples. Raises LookupError for a run that is not kept."""
    row = await connection.fetchrow("SELECT * FROM sluice.replay WHERE run = $1", run)
    if row is None:
        raise LookupError(f"there is no stored replay {run}")
    changes = await connection.fetch(
        "SELECT kind, user_name, resource, column_name, before, after, statements, fingerprints, examples"
        " FROM sluice.replay_change WHERE run = $1"
        " ORDER BY kind = 'lost' DESC, kind = 'gained' DESC, statements DESC, user_name, resource,"
        " column_name, before, after LIMIT $2",
        run,
        limit,
    )
    reasons = await connection.fetch(
        "SELECT reason, statements, example FROM sluice.replay_unjudged WHERE run = $1"
        " ORDER BY statements DESC, reason",
        run,
    )
    examples = {one for change in changes for one in change["examples"]}
    rows = await connection.fetch(_TEXT, sorted(examples)) if literals and examples else ()
    return ReplayReport(
        totals=dict(row),
        changes=tuple(dict(change) for change in changes),
        unjudged=tuple(dict(one) for one in reasons),
        texts=dict.fromkeys(map(str, examples) if literals else ())
        | {str(one["statement_id"]): one["statement"] for one in rows},
    )
