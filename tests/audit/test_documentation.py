"""docs/audit.md names every key and column, and its queries run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.audit.ledger import build_abandoned
from gateway.audit.rows import COLUMNS
from gateway.database.migrate import migrate
from gateway.model.audit import AuditEvent
from gateway.model.principal import Principal
from gateway.model.statement import Client
from gateway.session import audit_records
from gateway.session.audit_records import Stamp
from tests.audit.samples import cleared, completed, fresh_id, login, now, refused
from tests.lineage.recorded import cleared as cleared_by_judge
from tests.lineage.recorded import decided as with_lineage

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "audit.md").read_text("utf-8")
NAMED = set(re.findall(r"`([A-Za-z_0-9]+)`", TEXT))
QUERIES = [query for block in re.findall(r"```sql\n(.*?)```", TEXT, re.S) for query in block.split(";\n")]


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


EVENTS: list[AuditEvent] = [
    cleared(),
    with_lineage(cleared_by_judge("SELECT 1"), views={"user": fresh_id()}),
    refused(),
    login(),
    completed(cleared(), "failed", error="no", sqlstate="22012"),
    build_abandoned(
        statement_id=fresh_id(), decided_at=now(), gateway="g", user="bob", recovered_at=now(), reason=""
    ),
    audit_records.security(
        Stamp(fresh_id(), now(), "g"),
        Principal(user="bob"),
        action="foreign_handle",
        reason="",
        client=Client(protocol="thrift"),
    ),
    audit_records.session_ended(
        Stamp(fresh_id(), now(), "g"),
        Principal(user="bob"),
        client=Client(protocol="thrift"),
        session="s",
        reason="",
        by="ruth",
    ),
    audit_records.metadata_decided(
        Stamp(fresh_id(), now(), "g"),
        "GetTables",
        {"schema": "hr"},
        principal=Principal(user="bob"),
        client=Client(protocol="thrift"),
    ),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_every_key_is_described(event: AuditEvent) -> None:
    assert {event.kind, *keys(dict(event.body))} - NAMED == set()


def test_every_column_is_described() -> None:
    assert {*COLUMNS, "stored_at"} - NAMED == set()


@pytest.mark.parametrize("query", [query for query in QUERIES if query.strip()])
async def test_every_query_runs(database: str, query: str) -> None:
    connection = await asyncpg.connect(database)
    await migrate(connection)
    await connection.fetch(query)
    await connection.close()
