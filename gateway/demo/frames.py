"""The tour's last stop: a PySpark program as an analyst would write it, run by an interpreter of its own."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import time
from datetime import datetime
from pathlib import Path

import asyncpg

from gateway.cli.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Terminal
from gateway.database.asking import connect
from gateway.demo.tour import AUDIT_DEADLINE_S, PEOPLE
from gateway.errors import BackendUnavailable

TITLE = "The same policies for DataFrames: a PySpark program"
DEADLINE_S = 600.0
"""Seconds for the program; a few are usual."""
WARNINGS_OFF = {"PYTHONWARNINGS": "ignore", "GRPC_VERBOSITY": "NONE"}

PROGRAM = """\
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.remote("{url}").getOrCreate()

spark.sql("SELECT name, email, hired FROM hr.employee ORDER BY id LIMIT 3").show(truncate=False)

customers = spark.table("sales.customer")
customers.select("name", "email", "card", "region").orderBy("id").limit(3).show(truncate=False)

orders = spark.table("sales.orders")
per_segment = orders.join(customers, orders.customer_id == customers.id).groupBy("segment")
per_segment.agg(F.count("*").alias("orders"), F.sum("amount").alias("revenue")).orderBy("segment").show()

try:
    spark.table("hr.employee").show()
except PySparkException as refused:
    print(refused)
"""


def url_for(port: int, user: str, password: str) -> str:
    """Return what PySpark connects to; to `localhost` it sends tokens without TLS."""
    return f"sc://localhost:{port}/;token={user}:{password}"


async def frames(terminal: Terminal, port: int, dsn: str, number: int) -> None:
    """Show the program and what it prints, and what the audit record says of it."""
    person = PEOPLE[1]
    program = PROGRAM.format(url=url_for(port, person.name, person.password))
    audit = await connect(dsn, "sluice-demo")
    try:
        await _show(terminal, program, audit, number, person.name)
    finally:
        await audit.close()


async def _show(terminal: Terminal, program: str, audit: asyncpg.Connection, number: int, user: str) -> None:
    begun = await audit.fetchval("SELECT now()")
    terminal.line()
    terminal.line(terminal.style(f"── {number}. {TITLE} " + "─" * (70 - len(TITLE)), BOLD))
    terminal.line(textwrap.indent(terminal.style(program.rstrip(), CYAN), "   "))
    terminal.line()
    terminal.line(f" {terminal.style(user, BOLD)} sees:")
    for line in (await _output_of(program)).splitlines():
        refused = line.startswith("[SLUICE_")
        parts = textwrap.wrap(line, 104) if refused else [line]
        for part in parts:
            terminal.line(f"   {terminal.style(part, YELLOW) if refused else part}".rstrip())
    await _tell(terminal, audit, begun, user)


async def _tell(terminal: Terminal, audit: asyncpg.Connection, begun: datetime, user: str) -> None:
    """Print the plans of the program as the record has them: as PySpark would write them."""
    records = await _records(audit, begun, user)
    terminal.line(terminal.style("   the audit record has them as PySpark would print them:", DIM))
    for record in records:
        colour = GREEN if record["verdict"] == "cleared" else RED
        policies = ", ".join(record["policies"] or ()) or "none"
        judged = f"judged in {record['judge_ms']:.1f} ms" if record["judge_ms"] is not None else "judged"
        terminal.line(
            f"   {terminal.style(record['verdict'], colour)}"
            f"  {terminal.style(f'{judged}, policies: {policies}', DIM)}"
        )
        for line in textwrap.wrap(
            record["statement"], 104, initial_indent="     ", subsequent_indent="       "
        ):
            terminal.line(terminal.style(line, DIM))


async def _records(audit: asyncpg.Connection, begun: datetime, user: str) -> list[asyncpg.Record]:
    """Return what the record has of the program's plans once the last one, which is refused, is there."""
    deadline = time.monotonic() + AUDIT_DEADLINE_S
    while True:
        records = await audit.fetch(
            "SELECT * FROM sluice.audit_statement WHERE user_name = $1 AND time >= $2 "
            "AND client_protocol = 'connect' AND plan_class = 'ShowString' ORDER BY time",
            user,
            begun,
        )
        if records and records[-1]["verdict"] == "refused":
            return list(records)
        if time.monotonic() > deadline:
            raise BackendUnavailable("the program's statements have not arrived in the audit database")
        # The record is shipped behind the program's back: there is nothing to wait on but the table.
        await asyncio.sleep(0.05)


async def _output_of(program: str) -> str:
    """Run a Python program with this interpreter and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        program,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **WARNINGS_OFF},
        cwd=Path(sys.prefix),
    )
    try:
        async with asyncio.timeout(DEADLINE_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        raise BackendUnavailable(
            f"the PySpark program of the tour did not end within {DEADLINE_S:g} s: the machine is too busy; "
            "`--no-tour` starts the demo without it"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return printed.decode(errors="replace")
