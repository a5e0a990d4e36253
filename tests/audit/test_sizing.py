"""What a statement costs PostgreSQL, as docs/sizing.md says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.audit.ledgers import ask, running, shipped
from tests.audit.samples import cleared, completed

PAGE = Path(__file__).parents[2] / "docs" / "sizing.md"
STATEMENTS = 1_500
SIZE = """
SELECT sum(pg_total_relation_size(c.oid))::bigint AS bytes, pg_current_wal_lsn() - '0/0' AS log
FROM pg_class c WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r'"""
TEXT = (
    "SELECT c.region, count(*) AS orders, sum(o.total) AS total FROM sales.orders o JOIN sales.customer c "
    "ON o.customer_id = c.id WHERE o.day >= DATE '2026-01-{0:02}' AND c.id <> {1} GROUP BY c.region"
)


def told(what: str) -> int:
    """Return how many bytes the page says."""
    (found,) = re.findall(rf"^\| {re.escape(what)} \| .*?([\d,]+) bytes", PAGE.read_text("utf-8"), re.M)
    return int(found.replace(",", ""))


async def test_bytes_of_a_statement_are_as_the_page_says(tmp_path: Path, database: str) -> None:
    async with running(tmp_path / "spool", database) as ledger:

        async def write(count: int) -> None:
            for number in range(count):
                event = cleared(TEXT.format(number % 28 + 1, number))
                await ledger.record_decided(event)
                await ledger.record(completed(event))
            await shipped(ledger)

        await write(100)
        before = (await ask(database, SIZE))[0]
        await write(STATEMENTS)
        after = (await ask(database, SIZE))[0]
        rows = await ask(database, "SELECT count(*) AS n FROM sluice.audit_event")
    stored = (after["bytes"] - before["bytes"]) / STATEMENTS
    logged = float(after["log"] - before["log"]) / STATEMENTS
    print(f"{stored:.0f} bytes a statement, {logged:.0f} in the write-ahead log")
    assert rows[0]["n"] == 2 * (STATEMENTS + 100)
    assert 0.7 <= stored / told("a statement in PostgreSQL") <= 1.3
    assert 0.5 <= logged / told("the same in its write-ahead log") <= 1.5
