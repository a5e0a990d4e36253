"""The record of the last release, upgraded: whole, and like a new one, for gateways of both to write into."""

from __future__ import annotations

import asyncio
import re
import shlex
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.audit.search import EventQuery, search
from gateway.audit.verify import verify
from gateway.database.migrate import migrate, migrations, read_schema_state
from gateway.database.postgres import find_binaries
from tests.audit.ledgers import running, shipped
from tests.audit.samples import cleared, completed
from tests.conftest import new_database

ROOT = Path(__file__).resolve().parents[2]
STATES = {path.stem: path.read_text("utf-8") for path in (Path(__file__).parent / "states").glob("*.sql")}
"""Dumps of the record, as releases left it. Each release adds its own, and none is changed."""
EVENTS = 10
BEGINNINGS = 6
"""Of these, the ones that have no other before them; four are ends."""
OBJECTS = """
SELECT 'column', c.table_name, c.column_name,
       c.data_type || ' ' || c.is_nullable || ' ' || coalesce(c.column_default, '')
FROM information_schema.columns c WHERE c.table_schema = 'sluice'
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'sluice'
UNION ALL SELECT 'constraint', r.relname, c.conname, pg_get_constraintdef(c.oid)
FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid WHERE r.relnamespace = 'sluice'::regnamespace
UNION ALL SELECT 'function', p.proname, '', p.prosrc
FROM pg_proc p WHERE p.pronamespace = 'sluice'::regnamespace
UNION ALL SELECT 'trigger', r.relname, t.tgname, pg_get_triggerdef(t.oid)
FROM pg_trigger t JOIN pg_class r ON r.oid = t.tgrelid
WHERE r.relnamespace = 'sluice'::regnamespace AND NOT t.tgisinternal
"""
"""All that migrations make, but for order."""
OF_DAYS = re.compile(r"audit_event_\d{8}")

pytestmark = pytest.mark.parametrize("state", STATES.values(), ids=STATES.keys())


@pytest.fixture
async def upgraded(database: str, state: str) -> AsyncIterator[tuple[str, Any]]:
    """A database with the dump of a release, after the migrations of this one."""
    connection = await asyncpg.connect(database)
    await connection.execute(state)
    # A dump leaves its own search path.
    await connection.execute("RESET ALL")
    before = await read_schema_state(connection)
    assert before.changed == before.newer == ()
    assert before.applied, "the dump has no schema_version"
    assert await migrate(connection) == [one.version for one in before.pending]
    yield database, connection
    await connection.close()


async def made(connection: Any) -> set[tuple[str, ...]]:
    rows = await connection.fetch(OBJECTS)
    return {tuple(row) for row in rows if not OF_DAYS.search(" ".join(map(str, row)))}


async def test_an_upgraded_database_is_like_a_new_one(
    upgraded: tuple[str, Any], embedded_postgres: str
) -> None:
    _, connection = upgraded
    async with new_database(embedded_postgres) as dsn:
        new = await asyncpg.connect(dsn)
        assert await migrate(new) == [one.version for one in migrations()]
        wanted = await made(new)
        await new.close()
    assert len(wanted) > 200
    assert await made(connection) == wanted


async def test_what_was_recorded_is_whole_and_goes_on(upgraded: tuple[str, Any], tmp_path: Path) -> None:
    dsn, connection = upgraded
    found = await verify(connection)
    assert found.holds
    assert found.events == EVENTS
    assert len(await search(dsn, EventQuery())) == BEGINNINGS
    async with running(tmp_path / "spool", dsn) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        await ledger.record(completed(event))
        await shipped(ledger)
    found = await verify(connection)
    assert found.holds
    assert found.events == EVENTS + 2


async def test_a_gateway_of_that_release_writes_into_tables_of_this_one(database: str, state: str) -> None:
    """During a rolling upgrade: whatever it inserts, with its columns, has a place."""
    partitions = re.findall(
        r"ATTACH PARTITION sluice\.(audit_event_\d{8}) FOR VALUES (FROM .+? TO .+?);", state
    )
    insert = r"^INSERT INTO sluice\.audit_(?:event_\d{8}|chain) VALUES .+?\);$"
    inserts = re.findall(insert, state, re.M | re.S)
    assert len(inserts) == EVENTS + 1
    connection = await asyncpg.connect(database)
    try:
        await migrate(connection)
        for name, bounds in partitions:
            await connection.execute(
                f"CREATE TABLE sluice.{name} PARTITION OF sluice.audit_event FOR VALUES {bounds}"
            )
        for one in inserts:
            await connection.execute(one)
        assert (await verify(connection)).events == EVENTS
    finally:
        await connection.close()


async def test_a_backup_is_restored_as_documented(upgraded: tuple[str, Any], embedded_postgres: str) -> None:
    dsn, connection = upgraded
    page = (ROOT / "docs" / "upgrading.md").read_text("utf-8")
    (dump,) = re.findall(r"^pg_dump (.+)$", page, re.M)
    (restore,) = re.findall(r"`pg_restore (.+?)`", page)
    (binaries,) = [one for one in find_binaries({}) if one.bundle is not None][:1]
    async with new_database(embedded_postgres) as empty:
        with tempfile.TemporaryDirectory() as place:
            for program, words, at in (("pg_dump", dump, dsn), ("pg_restore", restore, empty)):
                done = await asyncio.create_subprocess_exec(
                    binaries.directory / program, *shlex.split(words.replace("$LEDGER_DSN", at)), cwd=place
                )
                assert await done.wait() == 0
        restored = await asyncpg.connect(empty)
        try:
            assert await migrate(restored) == []
            assert await made(restored) == await made(connection)
            found = await verify(restored)
            assert (found.holds, found.events) == (True, EVENTS)
        finally:
            await restored.close()
