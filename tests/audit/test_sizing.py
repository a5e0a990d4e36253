"""What docs/sizing.md says: what a statement costs PostgreSQL, and its sums."""

from __future__ import annotations

import math
import re
from pathlib import Path

from tests.audit.ledgers import ask, running, shipped
from tests.audit.samples import cleared, completed

PAGE = (Path(__file__).parents[2] / "docs" / "sizing.md").read_text("utf-8")
STATEMENTS = 1_500
SIZE = """
SELECT sum(pg_total_relation_size(c.oid))::bigint AS bytes, pg_current_wal_lsn() - '0/0' AS log
FROM pg_class c WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r'"""
TEXT = (
    "SELECT c.region, count(*) AS orders, sum(o.total) AS total FROM sales.orders o JOIN sales.customer c "
    "ON o.customer_id = c.id WHERE o.day >= DATE '2026-01-{0:02}' AND c.id <> {1} GROUP BY c.region"
)
WORKING_S = 8 * 3600
OF_A_CORE = 0.6


def told(what: str, unit: str) -> float:
    """Return what the page says that something costs."""
    (found,) = re.findall(rf"^\| {re.escape(what)} \| .*?([\d,.]+) {unit}", PAGE, re.M)
    return float(found.replace(",", ""))


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
    assert rows[0]["n"] == told("a statement in PostgreSQL", "rows") * (STATEMENTS + 100)
    assert 0.7 <= stored / told("a statement in PostgreSQL", "bytes") <= 1.3
    assert 0.5 <= logged / told("the same in its write-ahead log", "bytes") <= 1.5


def test_the_sums_are_right() -> None:
    examples = re.findall(
        r"^\| ([\d,]+) \| ([\d.]+) a minute \| (HiveServer2|Spark Connect) \| ([\d.]+) MB "
        r"\| ([\d.,]+) \| ([\d.]+) \| (\d+) \| ([\d.]+) GB \|$",
        PAGE,
        re.M,
    )
    assert len(examples) >= 4
    for people, each, through, results, second, cores, gateways, stored in examples:
        kind = "a `collect()` of" if through == "Spark Connect" else "a statement of"
        statements = float(people.replace(",", "")) * float(each) / 60
        needed = statements * (
            told(f"{kind} {through}", "ms") / 1e3
            + 0.5 * told("a text that was not seen before", "ms") / 1e3
            + float(results) / 1e3 * told(f"a gigabyte of results over {through}", "s")
        )
        found = (
            f"{statements:,.0f}",
            f"{needed:.2f}",
            str(max(2, math.ceil(needed / OF_A_CORE) + 1)),
            f"{statements * WORKING_S * told('a statement in PostgreSQL', 'bytes') / 1e9:.1f}",
        )
        assert (second, cores, gateways, stored) == found, f"for {people} over {through}"
