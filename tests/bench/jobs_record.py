"""Records of millions of events, made and copied into PostgreSQL by a process for each core.

Events are made once as a gateway makes them, and come again with other ids, times and links: their digests
are the ones of the first, but for what is new, and so are the bytes of their rows. So the chains are real.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from multiprocessing import get_context
from operator import itemgetter
from typing import Any
from uuid import UUID

import asyncpg
import orjson

from gateway.audit.chain import Head, digest, digest_of, start
from gateway.audit.rows import COLUMNS, encode_event, row
from gateway.audit.shipper import make_partitions
from gateway.database.migrate import migrate
from gateway.model.audit import AuditEvent
from tests.audit.samples import cleared, completed, login, refused

USERS, TABLES = 50, 40
PER_STATEMENT = 14 / 8
"""Events for each statement, refusal and login: six of eight have an end as well."""
_NEW = ("event_id", "time", "statement_id", "chain_position", "link")
_KEPT = tuple(name for name in COLUMNS if name not in _NEW)
_WITH, _WITHOUT = struct.Struct(">hi16siqi16siqi32s"), struct.Struct(">hi16siqiiqi32s")
"""What is new of a row in PostgreSQL's binary form; the second without a statement."""
_BEGIN, _END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_TEXT_OID = 25
CHUNK_BYTES = 256 * 1024


class Model:
    """An event that comes again: what stays of its row and of its digest is made once."""

    def __init__(self, event: AuditEvent, table: str) -> None:
        values = tuple(_moved(value, table) for value in row(encode_event(event)))
        named = dict(zip(COLUMNS, values, strict=True))
        self._kept = b"".join(_binary(name, named[name]) for name in _KEPT)
        body = orjson.loads(named.pop("body"))
        digests = {f"body.{key}": digest_of(value) for key, value in body.items()}
        digests |= {name: digest_of(value) for name, value in named.items() if value is not None}
        lines = {name: f"{name} {told}\n".encode() for name, told in sorted(digests.items())}

        def between(low: str, high: str) -> bytes:
            return b"".join(told for name, told in lines.items() if low < name < high)

        self._before = hashlib.sha256(b"sluice event 1\n" + between("", "event_id"))
        self._first = between("event_id", "statement_id")
        self._second = between("statement_id", "time")
        self._third = between("time", "~")
        has = named["statement_id"] is not None
        told = {name: digest_of(named[name]).encode() for name in _NEW[: 3 if has else 2]}
        assert self._digest(**told) == digest({**named, "body": body})

    def _digest(self, event_id: bytes, time: bytes, statement_id: bytes | None = None) -> bytes:
        found = self._before.copy()
        found.update(b"event_id " + event_id + b"\n" + self._first)
        if statement_id is not None:
            found.update(b"statement_id " + statement_id + b"\n")
        found.update(self._second + b"time " + time + b"\n" + self._third)
        return found.digest()

    def again(self, event: int, time: datetime, statement: int | None, head: Head) -> tuple[bytes, Head]:
        """Return the row of the event that comes again, with its link, and the chain behind it."""
        moment = _sha(time.isoformat(timespec="microseconds"))
        told = None if statement is None else _sha(_id(statement))
        head = head.next(self._digest(_sha(_id(event)), moment, told))
        fields, micros = len(_NEW) + len(_KEPT), (time - _EPOCH) // timedelta(microseconds=1)
        begin = (fields, 16, event.to_bytes(16, "big"), 8, micros)
        end = (8, head.position, 32, head.link)
        if statement is None:
            return _WITHOUT.pack(*begin, -1, *end) + self._kept, head
        return _WITH.pack(*begin, 16, statement.to_bytes(16, "big"), *end) + self._kept, head


def _sha(text: str) -> bytes:
    return hashlib.sha256(f'"{text}"'.encode()).hexdigest().encode()


def _id(number: int) -> str:
    told = f"{number:032x}"
    return f"{told[:8]}-{told[8:12]}-{told[12:16]}-{told[16:20]}-{told[20:]}"


def _binary(name: str, value: Any) -> bytes:
    """Return a value as PostgreSQL's binary form of COPY has it."""
    if value is None:
        return struct.pack(">i", -1)
    if isinstance(value, bool):
        data = struct.pack(">?", value)
    elif isinstance(value, int):
        data = struct.pack(">q", value)
    elif isinstance(value, float):
        data = struct.pack(">d", value)
    elif isinstance(value, list):
        dimensions = struct.pack(">ii", len(value), 1) if value else b""
        data = struct.pack(">iii", bool(value), 0, _TEXT_OID) + dimensions
        data += b"".join(_binary("", one) for one in value)
    else:
        data = value if isinstance(value, bytes) else value.encode()
        if name == "body":
            data = b"\x01" + data
    return struct.pack(">i", len(data)) + data


def _moved(value: Any, table: str) -> Any:
    """Return the value about another table than that of the samples."""
    if isinstance(value, str):
        return value.replace("hr.employee", table).replace("hr/employee", table.replace(".", "/"))
    return [_moved(one, table) for one in value] if isinstance(value, list) else value


def day_of(number: int) -> datetime:
    """Return the beginning of a day of the record; they have ended long ago."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


async def make(dsn: str, events: int, *, days: Sequence[int], processes: int | None = None) -> None:
    """Add so many events, spread over these days that have none, by one gateway for each process.

    Days get their indexes when they are full, which is several times sooner.
    """
    connection = await asyncpg.connect(dsn)
    count, loop = processes or os.cpu_count() or 1, asyncio.get_running_loop()
    try:
        await migrate(connection)
        for day in days:
            await connection.execute(
                f"CREATE TABLE {_table(day)} (LIKE sluice.audit_event INCLUDING DEFAULTS)"
            )
        with ProcessPoolExecutor(max_workers=count, mp_context=get_context("spawn")) as pool:
            await asyncio.gather(
                *(
                    loop.run_in_executor(
                        pool, _fill, dsn, f"gate{number}-00000000", events // count, tuple(days)
                    )
                    for number in range(count)
                )
            )
        await connection.execute("SET maintenance_work_mem = '256MB'")
        for day in days:
            await connection.execute(
                f"ALTER TABLE sluice.audit_event ATTACH PARTITION {_table(day)} FOR VALUES"
                f" FROM ('{day_of(day).isoformat()}') TO ('{day_of(day + 1).isoformat()}')"
            )
        await connection.execute("VACUUM ANALYZE sluice.audit_event")
    finally:
        await connection.close()


def _table(day: int) -> str:
    return f"sluice.audit_event_{day_of(day):%Y%m%d}"


def _fill(dsn: str, gateway: str, events: int, days: Sequence[int]) -> None:
    asyncio.run(_copy(dsn, gateway, events, days))


async def _copy(dsn: str, gateway: str, events: int, days: Sequence[int]) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        known = await connection.fetchrow("SELECT * FROM sluice.audit_chain WHERE gateway = $1", gateway)
        ends = [start(gateway) if known is None else Head(known["chain_position"], bytes(known["link"]))]
        # Each day is filled to its end before the next one begins.
        for day, rows in groupby(_rows(gateway, events, days, ends), key=itemgetter(0)):
            schema, table = _table(day).split(".")
            await connection.copy_to_table(
                table,
                schema_name=schema,
                source=_chunks(data for _, data in rows),
                columns=(*_NEW, *_KEPT),
                format="binary",
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


async def _chunks(rows: Iterator[bytes]) -> AsyncIterator[bytes]:
    chunk = bytearray(_BEGIN)
    for data in rows:
        chunk += data
        if len(chunk) > CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk) + _END


def _rows(gateway: str, events: int, days: Sequence[int], ends: list[Head]) -> Iterator[tuple[int, bytes]]:
    """Yield days and rows in the order of their chain, and have `ends` hold its end."""
    seed = random.Random(f"{gateway} {days[0]}")
    statements, refusals, logins = _models(gateway)
    head, made, index = ends[-1], 0, 0

    def id_() -> int:
        return UUID(int=seed.getrandbits(128), version=4).int

    while made < events:
        number, within = divmod(made * len(days), events)
        day = days[number]
        time = day_of(day) + timedelta(days=0.99) * (within / events)
        user, kind = seed.randrange(USERS), index % 8
        index += 1
        if kind == 0:
            data, head = logins[user].again(id_(), time, None, head)
            yield day, data
        elif kind == 1:
            data, head = refusals[user].again(id_(), time, id_(), head)
            yield day, data
        else:
            decided, end = seed.choice(statements)
            statement = id_()
            data, head = decided.again(id_(), time, statement, head)
            yield day, data
            data, head = end.again(id_(), time + timedelta(seconds=2), statement, head)
            yield day, data
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
            statements.append((Model(event, name), Model(end, name)))
    refusals = [Model(replace(refused(user=f"user{n}"), gateway=gateway), "hr.t0") for n in range(USERS)]
    logins = [Model(replace(login(f"user{n}"), gateway=gateway), "hr.t0") for n in range(USERS)]
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
