"""Asks the PostgreSQL of `ledger.dsn` whether it takes the login, for its version and its clock, and which
migrations its tables have: for `sluice check`, `sluice doctor`, and the start of a gateway."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from gateway.backends.reasons import reason_of
from gateway.database.connections import open_connection
from gateway.database.migrate import SchemaState, read_schema_state
from gateway.errors import one_line
from gateway.policy.diagnostics import hint

LOGIN_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
MIN_POSTGRESQL = 15
"""Oldest major version that PostgreSQL's own project maintains."""
MAX_CLOCK_DIFFERENCE_S = 30.0
"""As `logins.jwt.leeway_s`: with more, tokens of a provider with the right time are refused."""
_QUESTIONS = """
SELECT has_schema_privilege(current_schema(), 'CREATE') AS creates, pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only') AS read_only, current_setting('server_encoding') AS encoding
"""


def dsn_fault(dsn: str) -> str | None:
    """Return why a connection string cannot be one of PostgreSQL's, without quoting it; None when it can."""
    example = "write `postgresql://USER:PASSWORD@HOST:5432/DATABASE`"
    try:
        parts = urlsplit(dsn)
        _ = parts.port
    except ValueError:
        return (
            "the port in the connection string is not a number, or the password is not percent-encoded; "
            f"{example}"
        )
    if parts.scheme not in ("postgresql", "postgres"):
        return f"the connection string must begin with `postgresql://`; {example}"
    if not (parts.netloc or parts.path or parts.query):
        return f"the connection string names neither a host nor a database; {example}"
    if parts.fragment or "@" in parts.path or ("@" in parts.query and "@" not in parts.netloc):
        return f"the password in the connection string is not percent-encoded; {example}"
    options = dict(parse_qsl(parts.query))
    if (mode := options.get("sslmode", SSL_MODES[0])) not in SSL_MODES:
        known = ", ".join(SSL_MODES)
        return f"`sslmode` in the connection string must be one of {known}{hint(mode, SSL_MODES)}"
    for key in ("sslrootcert", "sslcert", "sslkey", "sslcrl", "passfile"):
        if key in options and not Path(options[key]).is_file():
            return f"`{key}` in the connection string names a file that does not exist"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseAnswer:
    """What PostgreSQL says to the login of `ledger.dsn`."""

    fault: str | None = None
    """Only somebody can mend it."""
    warnings: tuple[str, ...] = ()
    """It may go away: statements are recorded on disk meanwhile."""
    version: str = ""
    """Of the server, such as `16.4`; empty where it was not asked."""
    clock_ahead_s: float | None = None
    """Seconds by which its clock is ahead of this machine's."""
    schema: SchemaState | None = None
    """Which migrations its tables have."""


async def ask_database(dsn: str, *, within_s: float = 5.0) -> DatabaseAnswer:
    """Log in to PostgreSQL as a gateway does; nothing is changed there."""
    parts = urlsplit(dsn)
    where = f"PostgreSQL at `{parts.hostname or 'localhost'}:{parts.port or 5432}`"
    try:
        connection = await open_connection(dsn, "sluice check", connect_s=within_s, command_s=within_s)
    except (TimeoutError, OSError) as error:
        why = f"no answer within {within_s:g} s" if isinstance(error, TimeoutError) else reason_of(error)
        return DatabaseAnswer(warnings=(f"{where} cannot be reached: {why}",))
    except asyncpg.PostgresError as error:
        said = one_line(str(error))
        if isinstance(error, LOGIN_REFUSED):
            return DatabaseAnswer(fault=f"{where} rejects the login of `ledger.dsn`: {said}")
        return DatabaseAnswer(warnings=(f"{where} cannot accept the login now: {said}",))
    except (asyncpg.InterfaceError, ValueError):
        # What it says may quote the connection string.
        return DatabaseAnswer(fault="the connection string of `ledger.dsn` has invalid options")
    try:
        return await _look_at(connection, where)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError, OSError) as error:
        return DatabaseAnswer(warnings=(f"{where} does not answer: {one_line(str(error))}",))
    finally:
        connection.terminate()


async def _look_at(connection: Any, where: str) -> DatabaseAnswer:
    found = await connection.fetchrow(_QUESTIONS)
    if found["encoding"] != "UTF8":
        return DatabaseAnswer(
            fault=f"{where}: the database of `ledger.dsn` has the encoding {found['encoding']}; create it "
            "with the encoding UTF8"
        )
    warnings = []
    if found["standby"]:
        warnings.append(f"{where} is a standby, where nothing can be written")
    elif found["read_only"] == "on":
        warnings.append(
            f"{where}: nothing can be written in the database of `ledger.dsn`: "
            "`default_transaction_read_only` is on"
        )
    elif not found["creates"]:
        warnings.append(f"{where}: the user of `ledger.dsn` may not create tables in its schema")
    server = connection.get_server_version()
    if server.major < MIN_POSTGRESQL:
        warnings.append(f"{where} has version {server.major}: use {MIN_POSTGRESQL} or later")
    asked = datetime.now(UTC)
    told = await connection.fetchval("SELECT clock_timestamp()")
    answered = datetime.now(UTC)
    ahead_s = (told - asked - (answered - asked) / 2).total_seconds()
    if abs(ahead_s) > MAX_CLOCK_DIFFERENCE_S:
        way = "ahead of" if ahead_s > 0 else "behind"
        warnings.append(
            f"the clock of {where} is {abs(ahead_s):.0f} s {way} this machine's: tokens, tickets and "
            "schedules go by the time; have both take it from one source (NTP)"
        )
    answer = DatabaseAnswer(
        warnings=tuple(warnings), version=f"{server.major}.{server.micro}", clock_ahead_s=ahead_s
    )
    schema = await read_schema_state(connection)
    if schema.changed:
        return replace(answer, fault=f"{where}: {schema.describe_changed()}")
    return replace(answer, schema=schema)
