"""Records of any size and day, put into PostgreSQL as a gateway's shipper would have them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import orjson

from gateway.audit.chain import Head, digest, start
from gateway.audit.rows import COLUMNS, encode_event, row
from gateway.audit.shipper import make_partitions
from gateway.database.migrate import migrate
from gateway.model.audit import AuditEvent
from gateway.session import audit_records
from tests.audit.samples import cleared, completed, login, refused

DAY = datetime(2026, 11, 20, tzinfo=UTC)
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
USERS = ("ann", "bob", "cem")


def written(moment: datetime) -> str:
    return audit_records.format_time(int(moment.timestamp() * 1_000_000))


def identity(moment: datetime, seed: random.Random) -> str:
    return audit_records.new_id(int(moment.timestamp() * 1000), seed.randbytes(10))


def at(event: AuditEvent, moment: datetime, gateway: str, seed: random.Random, **more: Any) -> AuditEvent:
    """Return the event as if it had been recorded then and there."""
    return dataclasses.replace(
        event, event_id=identity(moment, seed), time=written(moment), gateway=gateway, **more
    )


def statement(
    moment: datetime,
    text: str = "SELECT name, ssn FROM hr.employee WHERE id = 7",
    *,
    user: str = "bob",
    gateway: str = "gate0-00000000",
    after: timedelta = timedelta(seconds=2),
    seed: random.Random,
) -> list[AuditEvent]:
    """Return a statement's decision and its end."""
    decided = at(cleared(text, user=user), moment, gateway, seed, statement_id=identity(moment, seed))
    end = at(completed(decided), moment + after, gateway, seed)
    return [decided, dataclasses.replace(end, event_id=audit_records.outcome_id(decided.statement_id))]


def day_of_events(
    day: datetime = DAY, count: int = 120, *, gateways: int = 2, number: int = 1
) -> list[AuditEvent]:
    """Return a day's events, spread over its hours: statements with their ends, refusals, logins."""
    seed = random.Random(number)
    found: list[AuditEvent] = []
    for index in range(count):
        moment = day + timedelta(seconds=86_000 * index / count)
        user, gateway = USERS[index % 3], f"gate{index % gateways}-00000000"
        match index % 8:
            case 0:
                found.append(at(login(user), moment, gateway, seed))
            case 1:
                found.append(
                    at(refused(user=user), moment, gateway, seed, statement_id=identity(moment, seed))
                )
            case _:
                text = f"SELECT name, ssn FROM hr.employee WHERE id = {index} -- 'ü'"
                found += statement(moment, text, user=user, gateway=gateway, seed=seed)
    return found


async def fill(dsn: str, events: Iterable[AuditEvent], *, stored_at: datetime | None = None) -> None:
    """Insert events with their links, in their order, and move the chains on."""
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection)
        heads = {
            one["gateway"]: Head(one["chain_position"], bytes(one["link"]))
            for one in await connection.fetch("SELECT * FROM sluice.audit_chain")
        }
        rows = [_linked(row(encode_event(event)), heads) for event in events]
        await make_partitions(connection, {one[1].date() for one in rows})
        columns: Sequence[str] = (*COLUMNS, "chain_position", "link")
        if stored_at is not None:
            rows = [(*one, stored_at) for one in rows]
            columns = (*columns, "stored_at")
        await connection.copy_records_to_table(
            "audit_event", schema_name="sluice", records=rows, columns=columns
        )
        await connection.executemany(
            "INSERT INTO sluice.audit_chain VALUES ($1, $2, $3) ON CONFLICT (gateway)"
            " DO UPDATE SET chain_position = excluded.chain_position, link = excluded.link",
            [(name, head.position, head.link) for name, head in heads.items()],
        )
    finally:
        await connection.close()


def _linked(values: tuple[Any, ...], heads: dict[str, Head]) -> tuple[Any, ...]:
    named = dict(zip(COLUMNS, values, strict=True))
    gateway = named["gateway"]
    named["body"] = orjson.loads(named["body"])
    heads[gateway] = heads.get(gateway, start(gateway)).next(digest(named))
    return (*values, heads[gateway].position, heads[gateway].link)


def question(text: str, *, groups: Sequence[str] = (), namespace: str = "default") -> dict[str, Any]:
    """Return a statement of ann's as workers of a replay get it, cleared then."""
    return {
        "key": "k",
        "user_name": "ann",
        "groups": [*groups],
        "roles": [],
        "endpoint": "thrift",
        "text": text,
        "catalog": "spark_catalog",
        "namespace": [namespace],
        "settings": [],
        "temp_views": [],
        "relations": [],
        "tables": None,
        "facts": None,
        "plan": None,
        "verdict": "cleared",
        "code": "",
        "plan_class": "Project",
        "second": None,
        "address": None,
    }
