"""Questions to the database of the record: one connection for each, and one error for whatever goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg

from gateway.database.connections import CONNECT_S, open_connection
from gateway.errors import LedgerUnavailable

REFUSALS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The last is what asyncpg says where a connection is cut in the middle of an answer."""
TROUBLE = (*REFUSALS, OSError, TimeoutError)
"""What asyncpg raises when PostgreSQL does not answer, or not as it should."""


@contextmanager
def asking(*, alone: bool = True, within_s: float | None = None) -> Iterator[None]:
    """Raise LedgerUnavailable for what goes wrong with PostgreSQL within.

    `alone`: hardly anything else is done there, so that no answer in time and errors of the system are its
    doing too, and a table that is missing was never made. Otherwise it was there when the work began.
    `within_s`: how long PostgreSQL is given for each answer; nothing else has a limit there.
    """
    try:
        yield
    except REFUSALS as error:
        if alone and isinstance(error, asyncpg.UndefinedTableError):
            raise LedgerUnavailable("no gateway of this version has used this audit database yet") from None
        raise LedgerUnavailable(f"PostgreSQL has failed: {error}") from error
    except OSError as error:
        # Errors of the system that are called so have a text.
        is_late = isinstance(error, TimeoutError) and not str(error)
        if is_late and within_s is not None:
            raise LedgerUnavailable(_LATE.format(within_s)) from error
        if not alone:
            raise
        why = "no answer in time" if is_late else str(error) or type(error).__name__
        raise LedgerUnavailable(f"the audit database does not answer: {why}") from error


_LATE = (
    "the audit database did not answer within {:g} s: it is busy, or waits for a lock; "
    "try again, and see what `sluice doctor` says of it"
)

WHOLE = "SET row_security = off; SET search_path = pg_catalog, pg_temp"


async def connect(dsn: str, name: str, *, command_s: float | None = None, whole: bool = False) -> Any:
    """Return a connection as `open_connection` does, where `asking` holds.

    `whole`: tables are seen as they are, by functions and operators of PostgreSQL's own. Where policies of
    row level security would hide rows, a question fails instead.

    Raises LedgerUnavailable.
    """
    with asking(within_s=CONNECT_S):
        connection = await open_connection(dsn, name, command_s=command_s)
    with asking(within_s=command_s):
        if whole:
            await connection.execute(WHOLE)
        return connection


@asynccontextmanager
async def connected(dsn: str, name: str, *, whole: bool = False) -> AsyncIterator[Any]:
    """Have a connection within, where `asking` holds."""
    with asking():
        connection = await connect(dsn, name, whole=whole)
        try:
            yield connection
        finally:
            connection.terminate()
