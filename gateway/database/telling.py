"""Says to gateways that something which they keep is another one now, for commands that change it."""

from __future__ import annotations

from typing import Any

from gateway.database import asking
from gateway.database.connections import open_connection
from gateway.database.name_holds import CHANGED, EVERYTHING, POLICIES_CHANGED


async def tell_policies_changed(connection: Any) -> None:
    """Have all gateways read policies and tags again; within a transaction, at its end."""
    await connection.execute("SELECT pg_notify($1, '')", POLICIES_CHANGED)


async def tell_names_changed(dsn: str) -> bool:
    """Have all gateways forget what names mean; False where PostgreSQL does not answer: then they learn of it
    as of changes made outside."""
    try:
        connection = await open_connection(dsn, "sluice-command", command_s=5.0)
        try:
            await connection.execute("SELECT pg_notify($1, $2)", CHANGED, EVERYTHING)
        finally:
            connection.terminate()
    except asking.TROUBLE:
        return False
    return True
