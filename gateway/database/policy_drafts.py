"""Policies and packs that somebody is writing: kept until they are in force or thrown away."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

DraftKind = Literal["pack", "policy"]
MAX_DRAFTS = 200
"""Drafts of one person; a further one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDraft:
    """One draft."""

    id: int
    owner: str
    kind: DraftKind
    target: str
    """The pack's file, or the service of a policy."""
    title: str
    text: str
    """The pack's YAML, or the policy in Ranger's JSON."""
    made_at: datetime
    changed_at: datetime


_COLUMNS = "id, owner, kind, target, title, text, made_at, changed_at"


async def list_drafts(
    connection: Any, owner: str | None, *, before: int | None = None, limit: int = 50
) -> list[PolicyDraft]:
    """Return drafts without their texts, the newest first; those of everybody without an owner."""
    rows = await connection.fetch(
        "SELECT id, owner, kind, target, title, '' AS text, made_at, changed_at FROM sluice.policy_draft"
        " WHERE ($1::text IS NULL OR owner = $1) AND ($2::bigint IS NULL OR id < $2)"
        " ORDER BY id DESC LIMIT $3",
        owner,
        before,
        limit,
    )
    return [PolicyDraft(**dict(row)) for row in rows]


async def load_draft(connection: Any, id_: int) -> PolicyDraft | None:
    row = await connection.fetchrow(f"SELECT {_COLUMNS} FROM sluice.policy_draft WHERE id = $1", id_)
    return None if row is None else PolicyDraft(**dict(row))


async def save_draft(
    connection: Any, *, id_: int | None, owner: str, kind: DraftKind, target: str, title: str, text: str
) -> PolicyDraft | None:
    """Keep a new draft, or the new text of one of the owner's; None where there are too many, or no such
    one."""
    if id_ is not None:
        row = await connection.fetchrow(
            "UPDATE sluice.policy_draft SET title = $3, text = $4, changed_at = clock_timestamp()"
            f" WHERE id = $1 AND owner = $2 RETURNING {_COLUMNS}",
            id_,
            owner,
            title,
            text,
        )
    else:
        row = await connection.fetchrow(
            "INSERT INTO sluice.policy_draft (owner, kind, target, title, text) SELECT $1, $2, $3, $4, $5"
            " WHERE (SELECT count(*) FROM sluice.policy_draft WHERE owner = $1) < $6"
            f" RETURNING {_COLUMNS}",
            owner,
            kind,
            target,
            title,
            text,
            MAX_DRAFTS,
        )
    return None if row is None else PolicyDraft(**dict(row))


async def delete_draft(connection: Any, id_: int, owner: str) -> bool:
    """Throw a draft of somebody's away; False where there is none."""
    done: str = await connection.execute(
        "DELETE FROM sluice.policy_draft WHERE id = $1 AND owner = $2", id_, owner
    )
    return done != "DELETE 0"
