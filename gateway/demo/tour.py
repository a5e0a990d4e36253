"""The demo's tour: the same statements as three people, what Spark was sent for each, what the audit says.

The tour is a client like any other: it logs in over TCP with a password, and learns what was forwarded from
the audit record in PostgreSQL, not from inside of the gateway.
"""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from gateway.backends.spark_thrift_connection import SparkAddress, SparkConnection
from gateway.cli.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Terminal
from gateway.database.asking import connect
from gateway.errors import BackendUnavailable
from gateway.session.ports import BackendError
from gateway.wire import calls
from gateway.wire.rows import decode_rows
from gateway.wire.sasl import PlainClient
from gateway.wire.tcli import TFetchOrientation, TProtocolVersion, TSessionHandle

ROWS_SHOWN = 4
AUDIT_DEADLINE_S = 60.0
"""Seconds that the tour waits for an event to arrive in PostgreSQL; it takes well under one."""


@dataclass(frozen=True, slots=True)
class Person:
    """A user of the demo; the password is no secret, the gateway listens on 127.0.0.1 only."""

    name: str
    password: str
    groups: tuple[str, ...]
    about: str
    attributes: tuple[tuple[str, str], ...] = ()


PEOPLE = (
    Person("alice", "alice-demo", ("hr", "security"), "heads People: everything in hr, nothing in sales"),
    Person("bob", "bob-demo", ("analysts",), "analyst: no pay, contact data masked, customers of EMEA"),
    Person(
        "carol",
        "carol-demo",
        ("support",),
        "support: customers of her region, the end of a card number, no colleagues",
        (("region", "APAC"),),
    ),
)
ENGINEER = Person("dave", "dave-demo", ("engineers",), "runs the platform: everything, unmasked")
"""Not on the tour, but can log in."""


@dataclass(frozen=True, slots=True)
class TourStop:
    """One statement of the tour and what to look at."""

    title: str
    sql: str


STOPS = (
    TourStop(
        "Columns are masked, and keep their types",
        "SELECT name, email, phone, hired FROM hr.employee ORDER BY id LIMIT 3",
    ),
    TourStop(
        "A column that somebody may not see is not there for them",
        "SELECT department, avg(salary) AS mean FROM hr.employee\n"
        "GROUP BY department ORDER BY mean DESC LIMIT 3",
    ),
    TourStop(
        "The same customers, as three people see them",
        "SELECT name, email, card, region FROM sales.customer ORDER BY id LIMIT 3",
    ),
    TourStop(
        "What is masked cannot be searched for, either",
        "SELECT count(*) AS found FROM sales.customer WHERE card LIKE '4000 00%'",
    ),
    TourStop(
        "A join over 100,000 orders, governed on both sides",
        "SELECT o.region, c.segment, count(*) AS orders, sum(o.amount) AS revenue\n"
        "FROM sales.orders o JOIN sales.customer c ON o.customer_id = c.id\n"
        "GROUP BY o.region, c.segment ORDER BY o.region, c.segment",
    ),
    TourStop(
        "A directory of files becomes a table when somebody who may first names it",
        "SELECT page, count(*) AS visits, min(email) AS somebody FROM inbox.web.visits\n"
        "GROUP BY page ORDER BY page",
    ),
    TourStop("Nobody runs programs through SQL", "SELECT reflect('java.lang.System', 'getenv', 'PATH')"),
)


@dataclass(frozen=True, slots=True)
class ShownResult:
    """What a client saw: columns and rows, or an error."""

    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()
    error: str = ""


class TourClient:
    """A plain Thrift client with one session; what it may read is the gateway's business."""

    def __init__(self, connection: SparkConnection, session: TSessionHandle) -> None:
        self._connection = connection
        self._session = session

    @classmethod
    async def open(cls, host: str, port: int, user: str, password: str) -> TourClient:
        """Log in and open a session. Raises BackendUnavailable or BackendError."""
        connection = await SparkConnection.open(
            SparkAddress(host=host, port=port), PlainClient(user, password)
        )
        request = calls.TOpenSessionReq(client_protocol=TProtocolVersion.V10)
        reply = await connection.call("OpenSession", request, calls.TOpenSessionResp)
        if reply.sessionHandle is None:
            raise BackendUnavailable("the server opened no session")
        return cls(connection, reply.sessionHandle)

    async def ask(self, sql: str, max_rows: int = 1000) -> ShownResult:
        """Run one statement and return its rows, or the error as the user sees it."""
        try:
            started = await self._connection.call(
                "ExecuteStatement",
                calls.TExecuteStatementReq(sessionHandle=self._session, statement=sql, runAsync=False),
                calls.TExecuteStatementResp,
            )
            handle = started.operationHandle
            if handle is None:
                raise BackendError("the server started no operation", "HY000")
            schema = await self._connection.call(
                "GetResultSetMetadata",
                calls.TGetResultSetMetadataReq(operationHandle=handle),
                calls.TGetResultSetMetadataResp,
            )
            fetched = await self._connection.call(
                "FetchResults",
                calls.TFetchResultsReq(
                    operationHandle=handle, orientation=TFetchOrientation.NEXT, maxRows=max_rows
                ),
                calls.TFetchResultsResp,
            )
            await self._connection.call(
                "CloseOperation",
                calls.TCloseOperationReq(operationHandle=handle),
                calls.TCloseOperationResp,
            )
        except BackendError as error:
            return ShownResult(error=error.message)
        columns = tuple(column.columnName for column in schema.schema.columns) if schema.schema else ()
        rows = tuple(decode_rows(fetched.results)) if fetched.results is not None else ()
        return ShownResult(columns=columns, rows=rows)

    async def close(self) -> None:
        """End the session."""
        await self._connection.call(
            "CloseSession", calls.TCloseSessionReq(sessionHandle=self._session), calls.TCloseSessionResp
        )
        self._connection.abort()
        await self._connection.wait_closed()


async def tour(
    terminal: Terminal,
    host: str,
    port: int,
    dsn: str,
    *,
    people: Sequence[Person] = PEOPLE,
    stops: Sequence[TourStop] = STOPS,
) -> None:
    """Walk all stops as all people, printing as it goes."""
    audit = await connect(dsn, "sluice-demo")
    clients: dict[str, TourClient] = {}
    try:
        for person in people:
            clients[person.name] = await TourClient.open(host, port, person.name, person.password)
            groups = ", ".join(person.groups)
            terminal.line(f"  {terminal.style(person.name, BOLD):<6} ({groups}): {person.about}")
        for number, stop in enumerate(stops, start=1):
            terminal.line()
            terminal.line(terminal.style(f"── {number}. {stop.title} " + "─" * (70 - len(stop.title)), BOLD))
            terminal.line(textwrap.indent(terminal.style(stop.sql, CYAN), "   "))
            for person in people:
                answer = await clients[person.name].ask(stop.sql)
                record = await _audit_record(audit, person.name, stop.sql)
                _show(terminal, person, answer, record)
    finally:
        for client in clients.values():
            await client.close()
        await audit.close()


def _show(terminal: Terminal, person: Person, answer: ShownResult, record: asyncpg.Record) -> None:
    terminal.line()
    verdict = record["verdict"]
    colour = GREEN if verdict == "cleared" else RED
    policies = ", ".join(record["policies"] or ()) or "none"
    terminal.line(
        f" {terminal.style(f'{person.name:<6}', BOLD)}{terminal.style(verdict, colour)}"
        f"  {terminal.style(f'policies: {policies}', DIM)}"
    )
    if record["forwarded"] is not None:
        terminal.line(terminal.style("   Spark was sent:", DIM))
        for line in textwrap.wrap(
            " ".join(record["forwarded"].split()), 104, initial_indent="     ", subsequent_indent="     "
        ):
            terminal.line(terminal.style(line, DIM))
    if answer.error:
        for line in textwrap.wrap(answer.error, 104, initial_indent="   ", subsequent_indent="   "):
            terminal.line(terminal.style(line, YELLOW))
    else:
        terminal.table(answer.columns, answer.rows[:ROWS_SHOWN], indent="   ")
    judged = f"judged in {record['judge_ms']:.1f} ms" if record["judge_ms"] is not None else "judged"
    sent = f", {record['rows']} rows, {record['bytes']} bytes" if record["rows"] is not None else ""
    terminal.line(
        terminal.style(
            f"   audit {record['statement_id']}: {verdict}, {judged}"
            f"{', ' + record['outcome'] if record['outcome'] else ''}{sent}",
            DIM,
        )
    )


async def _audit_record(audit: asyncpg.Connection, user: str, sql: str) -> asyncpg.Record:
    """Return the newest record of the user's statement, with its end when it was cleared."""
    deadline = time.monotonic() + AUDIT_DEADLINE_S
    while True:
        record = await audit.fetchrow(
            "SELECT * FROM sluice.audit_statement WHERE user_name = $1 AND statement = $2 "
            "ORDER BY time DESC LIMIT 1",
            user,
            sql,
        )
        if record is not None and (record["verdict"] == "refused" or record["ended"] is not None):
            return record
        if time.monotonic() > deadline:
            raise BackendUnavailable("the statement has not arrived in the audit database")
        await asyncio.sleep(0.05)


def connect_help(
    terminal: Terminal, *, host: str, port: int, connect_port: int, java: str, jars: str
) -> Sequence[str]:
    """Print how to connect with PySpark, beeline and Python; return the printed lines."""
    person = PEOPLE[1]
    url = f"jdbc:hive2://{host}:{port}/default"
    lines = [
        "PySpark, pandas-on-Spark, notebooks:",
        "  from pyspark.sql import SparkSession",
        f"  spark = SparkSession.builder.remote('sc://localhost:{connect_port}/"
        f";token={person.name}:{person.password}').getOrCreate()",
        "",
        "beeline (the one inside of pyspark):",
        f"  {java} -cp '{jars}/*' org.apache.hive.beeline.BeeLine \\",
        f"    -u '{url}' -n {person.name} -p {person.password} -e 'SELECT * FROM sales.orders LIMIT 5'",
        "",
        "PyHive:",
        "  from pyhive import hive",
        f"  db = hive.connect('{host}', port={port}, auth='LDAP', "
        f"username='{person.name}', password='{person.password}')",
        "",
        "impyla:",
        "  from impala.dbapi import connect",
        f"  db = connect('{host}', {port}, auth_mechanism='PLAIN', "
        f"user='{person.name}', password='{person.password}')",
    ]
    for line in lines:
        terminal.line("  " + line)
    return lines
