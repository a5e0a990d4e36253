"""PostgreSQL of `ledger.dsn`, as `sluice check` and a starting gateway look at it: the connection string, and
what the server says to a login."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from gateway.backends.reasons import reason_of
from gateway.database.connections import open_connection
from gateway.errors import one_line
from gateway.policy.diagnostics import hint

LOGIN_REFUSED = (
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidPasswordError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.InsufficientPrivilegeError,
)
SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
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
    """What PostgreSQL says to the login of `ledger.dsn`; nothing when it takes it."""

    fault: str | None = None
    """Only somebody can mend it."""
    warning: str | None = None
    """It may go away: statements are recorded on disk meanwhile."""


async def ask_database(dsn: str, *, within_s: float = 5.0) -> DatabaseAnswer:
    """Log in to PostgreSQL as a gateway does."""
    parts = urlsplit(dsn)
    where = f"PostgreSQL at `{parts.hostname or 'localhost'}:{parts.port or 5432}`"
    try:
        connection = await open_connection(dsn, "sluice check", connect_s=within_s)
    except (TimeoutError, OSError) as error:
        why = f"no answer within {within_s:g} s" if isinstance(error, TimeoutError) else reason_of(error)
        return DatabaseAnswer(warning=f"{where} cannot be reached: {why}")
    except asyncpg.PostgresError as error:
        said = one_line(str(error))
        if isinstance(error, LOGIN_REFUSED):
            return DatabaseAnswer(fault=f"{where} rejects the login of `ledger.dsn`: {said}")
        return DatabaseAnswer(warning=f"{where} cannot accept the login now: {said}")
    except (asyncpg.InterfaceError, ValueError):
        # What it says may quote the connection string.
        return DatabaseAnswer(fault="the connection string of `ledger.dsn` has invalid options")
    try:
        row = await connection.fetchrow(_QUESTIONS)
        if row["encoding"] != "UTF8":
            return DatabaseAnswer(
                fault=f"{where}: the database of `ledger.dsn` has the encoding {row['encoding']}; create it "
                "with the encoding UTF8"
            )
        if row["standby"]:
            return DatabaseAnswer(warning=f"{where} is a standby, where nothing can be written")
        if row["read_only"] == "on":
            return DatabaseAnswer(
                warning=f"{where}: nothing can be written in the database of `ledger.dsn`: "
                "`default_transaction_read_only` is on"
            )
        if not row["creates"]:
            return DatabaseAnswer(
                warning=f"{where}: the user of `ledger.dsn` may not create tables in its schema"
            )
    except (asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError, OSError) as error:
        return DatabaseAnswer(warning=f"{where} does not answer: {one_line(str(error))}")
    finally:
        connection.terminate()
    return DatabaseAnswer()
