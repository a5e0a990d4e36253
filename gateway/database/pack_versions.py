"""The texts of packs as they were in force, so that policies can be seen as of a date and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from gateway.database.texts import storable

MAX_PACK_CHARS = 4_000_000
"""A pack beyond this is kept by its digest alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackVersion:
    """All packs at one time."""

    id: int
    seen_at: datetime
    gateway: str
    digest: str
    packs: Mapping[str, str]
    """File → SHA-256 of its text."""


async def save_pack_version(connection: Any, gateway: str, digest: str, packs: Mapping[str, str]) -> bool:
    """Keep the texts of packs (file → text) that came into force now; False where they were the last ones."""
    last = await connection.fetchval("SELECT digest FROM sluice.pack_version ORDER BY id DESC LIMIT 1")
    if last == digest:
        return False
    digests = {file: _digest(text) for file, text in packs.items()}
    kept = {
        digests[file]: text
        for file, text in packs.items()
        if len(text) <= MAX_PACK_CHARS and storable(text) == text
    }
    async with connection.transaction():
        for digest_of_text in sorted(kept):
            await connection.execute(
                "INSERT INTO sluice.pack_text (sha256, text) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                digest_of_text,
                kept[digest_of_text],
            )
        await connection.execute(
            "INSERT INTO sluice.pack_version (gateway, digest, packs) VALUES ($1, $2, $3::text::jsonb)",
            gateway,
            digest,
            orjson.dumps({storable(file): digests[file] for file in packs}).decode(),
        )
    return True


async def list_pack_versions(
    connection: Any, *, before: int | None = None, limit: int = 50
) -> list[PackVersion]:
    """Return versions, the newest first."""
    rows = await connection.fetch(
        "SELECT id, seen_at, gateway, digest, packs FROM sluice.pack_version"
        " WHERE $1::bigint IS NULL OR id < $1 ORDER BY id DESC LIMIT $2",
        before,
        limit,
    )
    return [_version_of(row) for row in rows]


async def find_pack_version(connection: Any, at: datetime) -> PackVersion | None:
    """Return what was in force at a time; None where nothing is kept of then."""
    row = await connection.fetchrow(
        "SELECT id, seen_at, gateway, digest, packs FROM sluice.pack_version"
        " WHERE seen_at <= $1 ORDER BY seen_at DESC, id DESC LIMIT 1",
        at,
    )
    return None if row is None else _version_of(row)


async def load_pack_texts(connection: Any, version: PackVersion) -> dict[str, str]:
    """Return file → text, without the packs of which only the digest was kept."""
    rows = await connection.fetch(
        "SELECT sha256, text FROM sluice.pack_text WHERE sha256 = ANY($1::text[])",
        list(version.packs.values()),
    )
    texts = {row["sha256"]: row["text"] for row in rows}
    return {file: texts[digest] for file, digest in version.packs.items() if digest in texts}


def _version_of(row: Any) -> PackVersion:
    return PackVersion(
        id=row["id"],
        seen_at=row["seen_at"],
        gateway=row["gateway"],
        digest=row["digest"],
        packs=orjson.loads(row["packs"]),
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
