"""Drafts are their owner's, and bounded; versions of packs are kept once each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from gateway.database import policy_drafts
from gateway.database.migrate import migrate
from gateway.database.pack_versions import (
    find_pack_version,
    list_pack_versions,
    load_pack_texts,
    save_pack_version,
)
from gateway.database.policy_drafts import delete_draft, list_drafts, load_draft, save_draft


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Any]:
    made = await asyncpg.connect(database)
    await migrate(made)
    yield made
    await made.close()


async def save(connection: Any, owner: str, text: str, id_: int | None = None) -> Any:
    return await save_draft(
        connection, id_=id_, owner=owner, kind="pack", target="a.yaml", title="t", text=text
    )


async def test_a_draft_is_changed_and_deleted_by_its_owner_alone(connection: Any) -> None:
    made = await save(connection, "ann", "one")
    assert await save(connection, "bob", "two", made.id) is None
    assert not await delete_draft(connection, made.id, "bob")
    changed = await save(connection, "ann", "three", made.id)
    assert (changed.id, changed.text, changed.owner) == (made.id, "three", "ann")
    assert await load_draft(connection, made.id) == changed
    assert await delete_draft(connection, made.id, "ann")
    assert await load_draft(connection, made.id) is None


async def test_lists_go_page_by_page_without_texts(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [(await save(connection, owner, "text")).id for owner in ("ann", "bob", "ann")]
    found = await list_drafts(connection, None, limit=2)
    assert [one.id for one in found] == [ids[2], ids[1]]
    assert {one.text for one in found} == {""}
    assert [one.id for one in await list_drafts(connection, "ann", before=ids[2])] == [ids[0]]
    monkeypatch.setattr(policy_drafts, "MAX_DRAFTS", 2)
    assert await save(connection, "ann", "one too many") is None
    assert await save(connection, "bob", "of another") is not None


async def test_versions_of_packs_are_kept_once_and_found_by_time(connection: Any) -> None:
    assert await save_pack_version(connection, "g", "d1", {"a.yaml": "A", "b.yaml": "B"})
    assert not await save_pack_version(connection, "h", "d1", {"a.yaml": "A", "b.yaml": "B"})
    assert await save_pack_version(connection, "g", "d2", {"a.yaml": "A2", "b.yaml": "B", "c.yaml": "\0"})
    newest, oldest = await list_pack_versions(connection)
    assert [one.digest for one in await list_pack_versions(connection, before=newest.id)] == ["d1"]
    assert await load_pack_texts(connection, newest) == {"a.yaml": "A2", "b.yaml": "B"}
    assert newest.packs.keys() == {"a.yaml", "b.yaml", "c.yaml"}
    assert await load_pack_texts(connection, oldest) == {"a.yaml": "A", "b.yaml": "B"}
    assert await connection.fetchval("SELECT count(*) FROM sluice.pack_text") == 3
    assert await find_pack_version(connection, newest.seen_at) == newest
    assert await find_pack_version(connection, newest.seen_at - timedelta(microseconds=1)) == oldest
    assert await find_pack_version(connection, oldest.seen_at - timedelta(seconds=1)) is None
