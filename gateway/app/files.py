"""Sources of files, as the settings have them, before Spark and PostgreSQL."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from gateway.app.doors import Queries
from gateway.database.migrate import migrate
from gateway.errors import BackendUnavailable
from gateway.files.promotion import Promoter
from gateway.model.catalog import TableName
from gateway.model.decision import Decision
from gateway.model.principal import Principal
from gateway.session.audit_records import format_time, new_id, promoted
from gateway.session.ports import BackendError, Catalog, Ledger
from gateway.settings.models import Settings

_CONNECT_S = 10.0


def make_promotion(
    settings: Settings, queries: Queries, catalog: Catalog, dsn: str, *, ledger: Ledger, gateway: str
) -> Promoter | None:
    """Return who makes tables of files, None where the settings have no sources. `gateway`: its name in the
    record."""
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

    async def record(principal: Principal, table: TableName, url: str, decisions: Sequence[Decision]) -> None:
        now = time.time_ns()
        await ledger.decided(
            promoted(
                event_id=new_id(now // 1_000_000, os.urandom(10)),
                time=format_time(now // 1_000),
                gateway=gateway,
                principal=principal,
                table=str(table),
                url=url,
                decisions=decisions,
            )
        )

    return Promoter(
        sources, queries.query, refusal=BackendError, catalog=catalog, connect=connect, record=record
    )
