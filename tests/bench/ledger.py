"""Prints what the ledger adds to a statement, and how many events it takes a second.

`python -m tests.bench.ledger [DIRECTORY]`: the directory decides which disk is measured.
"""

from __future__ import annotations

import asyncio
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from gateway.audit.ledger import FileLedger, LedgerOptions
from gateway.audit.rows import encode_event
from gateway.database.postgres import EmbeddedPostgres
from gateway.model.audit import AuditEvent
from tests.audit.samples import cleared, completed, fresh_id, until
from tests.bench.figures import Record, median_ms, p95_ms, table

SECTION = "Ledger"
CONCURRENT = (1, 32, 128)
BACKLOG = 40_000


def bare_disk(directory: Path, size: int, count: int = 300) -> float:
    """Median seconds of one append and fdatasync without anything around it: what no ledger can beat."""
    path = directory / "bare"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        times = []
        for _ in range(count):
            began = time.perf_counter()
            os.write(fd, bytes(size))
            os.fdatasync(fd)
            times.append(time.perf_counter() - began)
    finally:
        os.close(fd)
        path.unlink()
    return statistics.median(times)


async def decided_latencies(ledger: FileLedger, concurrent: int, count: int) -> tuple[list[float], float]:
    """Seconds of each `decided` call when so many callers wait at a time, and of all together."""
    model = cleared()
    times: list[float] = []

    async def caller(events: Sequence[AuditEvent]) -> None:
        for event in events:
            began = time.perf_counter()
            await ledger.record_decided(event)
            times.append(time.perf_counter() - began)
            await ledger.record(completed(event))

    each = count // concurrent
    batches = [
        [replace(model, event_id=fresh_id(), statement_id=fresh_id()) for _ in range(each)]
        for _ in range(concurrent)
    ]
    began = time.perf_counter()
    await asyncio.gather(*(caller(events) for events in batches))
    return times, time.perf_counter() - began


async def fill(directory: Path, count: int) -> float:
    """Spool `count` events without a database; return the seconds that it took."""
    ledger = FileLedger(LedgerOptions(directory=directory))
    await ledger.start()
    _, took = await decided_latencies(ledger, 128, count // 2)
    await ledger.close()
    return took


async def drain(directory: Path, dsn: str) -> tuple[int, float]:
    """Ship what is spooled; return how many events, and the seconds from connecting to the last commit."""
    ledger = FileLedger(LedgerOptions(directory=directory, dsn=dsn))
    await ledger.start()
    await until(lambda: ledger.metrics().database_connected)
    began, before = time.perf_counter(), ledger.metrics().shipped_events
    await until(lambda: ledger.metrics().backlog_bytes == 0, quiet_s=300)
    took = time.perf_counter() - began
    count = ledger.metrics().shipped_events - before
    await ledger.close()
    return count, took


async def measure(directory: Path, record: Record, *, quick: bool = False) -> None:
    """Add the figures; `quick` measures a tenth, to try the benchmark itself."""
    share = 10 if quick else 1
    size = len(encode_event(cleared()).payload)
    ledger = FileLedger(LedgerOptions(directory=directory / "latency"))
    await ledger.start()
    await decided_latencies(ledger, 32, 640)
    for concurrent in CONCURRENT:
        record.begin(f"Ledger: {concurrent} statements at a time")
        bare = bare_disk(directory, size)
        times, took = await decided_latencies(
            ledger, concurrent, (1000 if concurrent == 1 else 12_800) // share
        )
        p50, p95, p99 = median_ms(times), p95_ms(times), 1e3 * sorted(times)[len(times) * 99 // 100]
        record.add(
            SECTION,
            f"added to a statement, {concurrent} at a time",
            f"p50 {p50:.2f} ms (bare append and fdatasync of {size} B {1e3 * bare:.2f}), p95 {p95:.2f} ms, "
            f"p99 {p99:.2f} ms; {2 * len(times) / took:,.0f} events/s into the spool",
            p50_ms=p50,
            p95_ms=p95,
            p99_ms=p99,
            bare_p50_ms=1e3 * bare,
            spool_events_s=2 * len(times) / took,
        )
    await ledger.close()
    record.begin("Ledger: PostgreSQL starts and takes a backlog")
    server = EmbeddedPostgres(directory / "postgres")
    dsn = await asyncio.to_thread(server.start)
    try:
        await fill(directory / "backlog", BACKLOG // share)
        count, took = await drain(directory / "backlog", dsn)
        record.add(
            SECTION,
            "spool into PostgreSQL",
            f"{count / took:,.0f} events/s ({count:,} events)",
            postgres_events_s=count / took,
        )
    finally:
        await asyncio.to_thread(server.stop)


def main(arguments: Sequence[str] = ()) -> None:
    """Measure the ledger alone and print."""
    record = Record()
    run(record, next(iter(arguments), None))
    print(table(record.figures))


def run(record: Record, below: str | None = None, *, quick: bool = False) -> None:
    """Add the ledger's figures, measured in a new directory `below` the given one."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    try:
        with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=below) as name:
            Path(name).chmod(0o755)
            asyncio.run(measure(Path(name), record, quick=quick))
    finally:
        structlog.reset_defaults()


if __name__ == "__main__":
    main(sys.argv[1:])
