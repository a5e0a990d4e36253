"""What PostgreSQL is asked by `sluice check` and `sluice doctor`; tests/app/test_sites.py has refusals."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.app import database_checks
from gateway.app.database_checks import MAX_CLOCK_DIFFERENCE_S, ask_database
from gateway.database.migrate import Migration, migrate, migrations
from tests.speed import patience


async def test_an_empty_database_has_all_migrations_before_it_and_keeps_none(database: str) -> None:
    answer = await ask_database(database)
    assert (answer.fault, answer.warnings) == (None, ())
    assert answer.schema is not None
    assert [one.version for one in answer.schema.pending] == [one.version for one in migrations()]
    assert answer.schema.applied == answer.schema.newer == ()
    connection = await asyncpg.connect(database)
    assert answer.version == (await connection.fetchval("SHOW server_version")).split()[0]
    assert int(answer.version.partition(".")[0]) >= database_checks.MIN_POSTGRESQL
    assert await connection.fetchval("SELECT to_regnamespace('sluice')") is None
    await connection.close()


async def test_tables_of_a_later_gateway_are_fine_and_changed_ones_are_not(database: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection, [*migrations(), Migration(99, "later", "SELECT 1")])
    answer = await ask_database(database)
    assert answer.schema is not None
    assert (answer.fault, answer.schema.newer, answer.schema.pending) == (None, (99,), ())
    await connection.execute("UPDATE sluice.schema_version SET sha256 = 'x' WHERE version = 2")
    answer = await ask_database(database)
    assert answer.fault is not None
    assert answer.fault.endswith("migration 2 was changed after it was applied")
    await connection.close()


@pytest.mark.parametrize(("behind_s", "way"), [(3600, "ahead of"), (-3600, "behind"), (5, "")])
async def test_clocks_that_differ_are_told(
    database: str, monkeypatch: pytest.MonkeyPatch, behind_s: float, way: str
) -> None:
    class OurClock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) - timedelta(seconds=behind_s)

    monkeypatch.setattr(database_checks, "datetime", OurClock)
    answer = await ask_database(database)
    assert answer.clock_ahead_s == pytest.approx(behind_s, abs=MAX_CLOCK_DIFFERENCE_S / 2)
    told = [one for one in answer.warnings if "clock" in one]
    assert bool(told) is bool(way)
    assert all(f"3600 s {way} this machine's" in one for one in told)
    assert datetime.now(UTC).tzinfo is UTC


@pytest.mark.parametrize(
    ("creation", "change", "fault", "warning"),
    [
        ("", "", None, None),
        (
            "ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
            "",
            "has the encoding LATIN1; create it with the encoding UTF8",
            None,
        ),
        ("", "SET default_transaction_read_only = on", None, "`default_transaction_read_only` is on"),
    ],
)
async def test_a_database_in_which_no_record_can_be_kept_is_told(
    database: str, creation: str, change: str, fault: str | None, warning: str | None
) -> None:
    name = urlsplit(database).path[1:] + "_asked"
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(f"CREATE DATABASE {name} {creation}")
        if change:
            await connection.execute(f"ALTER DATABASE {name} {change}")
        answer = await ask_database(
            database.replace(urlsplit(database).path, f"/{name}"), within_s=patience()
        )
        assert fault in (answer.fault or "") if fault else answer.fault is None
        assert [warning is not None and warning in one for one in answer.warnings] == [True] * bool(warning)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()
