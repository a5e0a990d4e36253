"""What a login at PostgreSQL shows of its database, by a PostgreSQL that is asked."""

from __future__ import annotations

from urllib.parse import urlsplit

import asyncpg
import pytest

from gateway.app.database_checks import DatabaseAnswer, ask_database
from tests.speed import patience


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
        assert warning in (answer.warning or "") if warning else answer.warning is None
        assert (answer == DatabaseAnswer()) is not bool(fault or warning)
    finally:
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await connection.close()
