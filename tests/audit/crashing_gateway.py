"""A process that keeps a ledger busy until it is killed; each acknowledgement is a line on its output."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from gateway.audit.ledger import FileLedger
from gateway.audit.spool import SpoolLimits
from tests.audit.ledgers import settings
from tests.audit.samples import cleared, completed, refused


async def client(ledger: FileLedger, number: int) -> None:
    count = 0
    while True:
        count += 1
        event = refused() if count % 5 == 0 else cleared(gateway=ledger.gateway)
        await ledger.record_decided(event)
        # One unbuffered write: what was said before the kill is in the pipe.
        os.write(1, f"{event.statement_id}\n".encode())
        if count % 5 and (count + number) % 3:
            await asyncio.sleep(0)
            await ledger.record(completed(event))


async def main() -> None:
    limits = SpoolLimits(max_segment_bytes=200_000)
    ledger = FileLedger(settings(Path(sys.argv[1]), sys.argv[2], spool=limits))
    await ledger.start()
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(client(ledger, number))


if __name__ == "__main__":
    asyncio.run(main())
