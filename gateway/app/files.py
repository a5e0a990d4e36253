"""Sources of files, as the settings have them, before Spark and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from gateway.app.doors import Queries
from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable
from gateway.files.promotion import Promoter
from gateway.session.ports import BackendError, Catalog
from gateway.settings.models import Settings

_CONNECT_S = 10.0


def make_promotion(settings: Settings, queries: Queries, catalog: Catalog, dsn: str) -> Promoter | None:
    """Return who makes tables of files, None where the settings have no sources."""
    sources = [source.made(name) for name, source in settings.files.items()]
    if not sources:
        return None

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        try:
            connection = await asyncpg.connect(
                dsn,
                timeout=_CONNECT_S,
                server_settings={"application_name": "sluice-files", "timezone": "UTC"},
            )
        except (OSError, asyncpg.PostgresError, TimeoutError):
            raise BackendUnavailable("datasets are kept in PostgreSQL, which does not answer") from None
        try:
            await migrate(connection)
            yield connection
        finally:
            await connection.close()

    return Promoter(sources, queries.query, refusal=BackendError, catalog=catalog, connect=connect)
