"""A gateway that is killed again and again keeps what it acknowledged and ends what it began, once each."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path

from tests.audit.ledgers import ask, kinds, running, shipped
from tests.speed import patience

KILLS = 10


async def run_until_killed(directory: Path, dsn: str, lifetime_s: float) -> list[str]:
    """Return the statement ids that the process acknowledged; its life counts from the first one."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.audit.crashing_gateway",
        str(directory),
        dsn,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert process.stdout is not None
    lines: list[str] = []

    async def listen() -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            if len(lines) == 0:
                asyncio.get_running_loop().call_later(lifetime_s, process.send_signal, signal.SIGKILL)
            if len(line) == 37:
                lines.append(line.decode().strip())

    async with asyncio.timeout(patience()):
        await listen()
        await process.wait()
    return lines


async def test_ten_kills_of_the_gateway(tmp_path: Path, database: str) -> None:
    chance = random.Random(20261120)
    acknowledged: list[str] = []
    for _ in range(KILLS):
        acknowledged += await run_until_killed(tmp_path, database, chance.uniform(0.0, 0.4))
    async with running(tmp_path, database) as ledger:
        await shipped(ledger)
    found = await kinds(database)
    assert len(acknowledged) > 10 * KILLS
    assert [statement for statement in acknowledged if statement not in found] == []
    rows = await ask(
        database, "SELECT statement_id::text, verdict FROM sluice.audit_event WHERE kind='decided'"
    )
    verdicts = {row["statement_id"]: row["verdict"] for row in rows}
    assert len(rows) == len(verdicts), "decided once"
    for statement, events in found.items():
        if verdicts.get(statement) == "refused":
            assert events == ["decided"]
        else:
            assert events in (["completed", "decided"], ["abandoned", "decided"]), statement
    ended = [events[0] for statement, events in found.items() if verdicts[statement] == "cleared"]
    assert {"completed", "abandoned"} == set(ended), "the test saw both"
