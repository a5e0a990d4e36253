"""Records of millions of events, made and copied into PostgreSQL by a process for each core.

Events are made once as a gateway makes them, and come again with other ids, times and links: their digests
are the ones of the first, but for what is new. So the chains are real, and making an event takes some 30 µs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from gateway.audit.chain import Head, digest, digest_of, start
from gateway.audit.partitions import make_partitions
from gateway.audit.rows import COLUMNS, encode_event, row
from gateway.database.migrate import migrate
from gateway.model.audit import AuditEvent
from tests.audit.samples import cleared, completed, login, refused

USERS, TABLES = 50, 40
PER_STATEMENT = 14 / 8
"""Events for each statement, refusal and login: six of eight have an end as well."""
_NEW = ("event_id", "time", "statement_id")
_PLACES = {name: COLUMNS.index(name) for name in _NEW}


@dataclass(frozen=True, slots=True)
class Model:
    """An event that comes again."""

    values: tuple[Any, ...]
    digests: dict[str, str]
    """Of all values, those of the body by themselves."""

    @classmethod
    def of(cls, event: AuditEvent, table: str) -> Model:
        values = tuple(_moved(value, table) for value in row(encode_event(event)))
        named = dict(zip(COLUMNS, values, strict=True))
        body = orjson.loads(named.pop("body"))
        digests = {f"body.{key}": digest_of(value) for key, value in body.items()}
        digests |= {name: digest_of(value) for name, value in named.items() if value is not None}
        model = cls(values, digests)
        assert model.digest({}) == digest({**named, "body": body})
        return model

    def digest(self, new: dict[str, str]) -> bytes:
        lines = "".join(f"{name} {value}\n" for name, value in sorted((self.digests | new).items()))
        return hashlib.sha256(b"sluice event 1\n" + lines.encode()).digest()

    def again(
        self, event: UUID, time: datetime, statement: UUID | None, head: Head
    ) -> tuple[tuple[Any, ...], Head]:
        """Return the row of the event that comes again, with its link, and the chain behind it."""
        new = {"event_id": digest_of(event), "time": digest_of(time)}
        values = list(self.values)
        values[_PLACES["event_id"]], values[_PLACES["time"]] = event, time
        if statement is not None:
            new["statement_id"] = digest_of(statement)
            values[_PLACES["statement_id"]] = statement
        head = head.next(self.digest(new))
        return (*values, head.position, head.link), head


def _moved(value: Any, table: str) -> Any:
    """Return the value about another table than that of the samples."""
    if isinstance(value, str):
        return value.replace("hr.employee", table).replace("hr/employee", table.replace(".", "/"))
    return [_moved(one, table) for one in value] if isinstance(value, list) else value


def day_of(number: int) -> datetime:
    """Return the beginning of a day of the record; they have ended long ago."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


async def make(dsn: str, events: int, *, days: Sequence[int], processes: int | None = None) -> None:
    """Add so many events, spread over these days, by one gateway for each process."""
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection)
        await make_partitions(connection, {day_of(day).date() for day in days})
    finally:
        await connection.close()
    count = processes or os.cpu_count() or 1
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(max_workers=count, mp_context=get_context("spawn")) as pool:
        await asyncio.gather(
            *(
                loop.run_in_executor(pool, _fill, dsn, f"gate{number}-00000000", events // count, tuple(days))
                for number in range(count)
            )
        )
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("VACUUM ANALYZE sluice.audit_event")
    finally:
        await connection.close()


def _fill(dsn: str, gateway: str, events: int, days: Sequence[int]) -> None:
    asyncio.run(_copy(dsn, gateway, events, days))


async def _copy(dsn: str, gateway: str, events: int, days: Sequence[int]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        known = await connection.fetchrow("SELECT * FROM sluice.audit_chain WHERE gateway = $1", gateway)
        ends = [start(gateway) if known is None else Head(known["chain_position"], bytes(known["link"]))]
        await connection.copy_records_to_table(
            "audit_event",
            schema_name="sluice",
            records=_rows(gateway, events, days, ends),
            columns=(*COLUMNS, "chain_position", "link"),
        )
        await connection.execute(
            "INSERT INTO sluice.audit_chain VALUES ($1, $2, $3) ON CONFLICT (gateway)"
            " DO UPDATE SET chain_position = excluded.chain_position, link = excluded.link",
            gateway,
            ends[-1].position,
            ends[-1].link,
        )
    finally:
        await connection.close()


def _rows(gateway: str, events: int, days: Sequence[int], ends: list[Head]) -> Iterator[tuple[Any, ...]]:
    """Yield rows in the order of their chain, and have `ends` hold its end."""
    seed = random.Random(f"{gateway} {days[0]}")
    statements, refusals, logins = _models(gateway)
    head, made, index = ends[-1], 0, 0

    def id_() -> UUID:
        return UUID(int=seed.getrandbits(128), version=4)

    while made < events:
        # Each day is filled to its end before the next one begins.
        day, within = divmod(made * len(days), events)
        time = day_of(days[day]) + timedelta(days=0.99) * (within / events)
        user, kind = seed.randrange(USERS), index % 8
        index += 1
        if kind == 0:
            values, head = logins[user].again(id_(), time, None, head)
            yield values
        elif kind == 1:
            values, head = refusals[user].again(id_(), time, id_(), head)
            yield values
        else:
            decided, end = seed.choice(statements)
            statement = id_()
            values, head = decided.again(id_(), time, statement, head)
            yield values
            values, head = end.again(id_(), time + timedelta(seconds=2), statement, head)
            yield values
            made += 1
        made += 1
    ends.append(head)


def _models(gateway: str) -> tuple[list[tuple[Model, Model]], list[Model], list[Model]]:
    """Return statements with their ends, refusals and logins of all users."""
    statements = []
    for user in range(USERS):
        for table in range(TABLES):
            event = cleared(f"SELECT name, ssn FROM hr.employee WHERE id = {user}", user=f"user{user}")
            event = replace(event, gateway=gateway)
            name = f"mart{table % 5}.t{table}"
            end = replace(completed(event), gateway=gateway)
            statements.append((Model.of(event, name), Model.of(end, name)))
    refusals = [Model.of(replace(refused(user=f"user{n}"), gateway=gateway), "hr.t0") for n in range(USERS)]
    logins = [Model.of(replace(login(f"user{n}"), gateway=gateway), "hr.t0") for n in range(USERS)]
    return statements, refusals, logins


async def make_graph(dsn: str, edges: int) -> int:
    """Put a graph of lineage with about so many edges into an empty database, and return how many.

    Five layers of tables with ten columns; each column is made of two of the layer below, in two tables, so
    that what feeds a column (14 others at most) does not grow with the graph.
    """
    groups = max(2, edges // 80)
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection)
        for text in _GRAPH:
            await connection.execute(text.replace("GROUPS", str(groups)))
        found: int = await connection.fetchval("SELECT count(*) FROM sluice.lineage_edge")
        return found
    finally:
        await connection.close()


_GRAPH = (
    "TRUNCATE sluice.lineage_dataset RESTART IDENTITY CASCADE",
    "INSERT INTO sluice.lineage_dataset (id, name, kind, parts, first_seen, last_seen)"
    " OVERRIDING SYSTEM VALUE"
    " SELECT n + 1, format('spark_catalog.l%s.t%s', n % 5, n / 5), 'table',"
    " ARRAY['spark_catalog', 'l' || n % 5, 't' || n / 5], now(), now()"
    " FROM generate_series(0, 5 * GROUPS - 1) n",
    "INSERT INTO sluice.lineage_column (id, dataset, name) OVERRIDING SYSTEM VALUE"
    " SELECT n + 1, n / 10 + 1, 'c' || n % 10 FROM generate_series(0, 50 * GROUPS - 1) n",
    "INSERT INTO sluice.lineage_edge (source, target, subtype, masking, expression, statements, finished,"
    " first_seen, last_seen, last_statement, aggregates)"
    " SELECT 10 * (5 * ((g + way) % GROUPS) + layer - 1) + 1 + (c + way) % 10, 10 * (5 * g + layer) + 1 + c,"
    " CASE way WHEN 0 THEN 'IDENTITY' ELSE 'TRANSFORMATION' END, c = 9, '', 1, true, now(), now(),"
    " gen_random_uuid(), ARRAY['-'] FROM generate_series(0, GROUPS - 1) g, generate_series(1, 4) layer,"
    " generate_series(0, 9) c, generate_series(0, 1) way",
    "ANALYZE sluice.lineage_edge",
)


async def make_statements(dsn: str, events: Sequence[AuditEvent], count: int) -> None:
    """Put so many verdicts into an empty database: these again and again, each as another text."""
    connection = await asyncpg.connect(dsn)
    try:
        await migrate(connection)
        await make_partitions(connection, {day_of(0).date()})
        await connection.copy_records_to_table(
            "audit_event", schema_name="sluice", records=_texts(events, count), columns=COLUMNS
        )
        await connection.execute("VACUUM ANALYZE sluice.audit_event")
    finally:
        await connection.close()


def _texts(events: Sequence[AuditEvent], count: int) -> Iterator[tuple[Any, ...]]:
    seed = random.Random(count)
    rows = [dict(zip(COLUMNS, row(encode_event(event)), strict=True)) for event in events]
    for number in range(count):
        values = rows[number % len(rows)]
        text = f"{values['statement']} -- {number}"
        new = {
            "event_id": UUID(int=seed.getrandbits(128), version=4),
            "statement_id": UUID(int=seed.getrandbits(128), version=4),
            "time": day_of(0) + timedelta(days=0.99) * number / count,
            "statement": text,
            "statement_sha256": hashlib.sha256(text.encode()).digest(),
        }
        yield tuple((values | new).values())
