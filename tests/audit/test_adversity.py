"""Between the shipper and PostgreSQL something cuts, stalls and dribbles; events still arrive once each."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from gateway.audit.shipper import ShipperLimits
from tests.audit.ledgers import IMPATIENT, kinds, running, shipped
from tests.audit.samples import cleared, completed, until
from tests.speed import patience


class Interference:
    """A unix socket in front of PostgreSQL's."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._relays = set[asyncio.Task[None]]()
        self.connections = 0
        self.cut_after: int | None = None
        """Bytes to the server after which every connection is cut, without a word."""
        self.flowing = asyncio.Event()
        """Cleared: bytes to the server stop flowing."""
        self.flowing.set()
        self.piece = 65536
        """Largest number of bytes handed on at a time."""

    async def start(self, directory: str) -> None:
        self._server = await asyncio.start_unix_server(self._accept, f"{directory}/.s.PGSQL.5432")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        up_reader, up_writer = await asyncio.open_unix_connection(self._target)
        for task in (
            asyncio.create_task(self._relay(reader, up_writer, up=True)),
            asyncio.create_task(self._relay(up_reader, writer, up=False)),
        ):
            self._relays.add(task)
            task.add_done_callback(self._relays.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        passed = 0
        try:
            while data := await reader.read(self.piece):
                passed += len(data)
                if up and self.cut_after is not None and passed > self.cut_after:
                    writer.write(data[: len(data) // 2])
                    break
                if up:
                    await self.flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # one side is gone: so goes the other
        finally:
            writer.close()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in tuple(self._relays):
            task.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)


@pytest.fixture
async def between(database: str) -> AsyncIterator[tuple[Interference, str]]:
    """The interference and a DSN that leads through it."""
    socket_directory = parse_qs(urlsplit(database).query)["host"][0]
    interference = Interference(f"{socket_directory}/.s.PGSQL.5432")
    with tempfile.TemporaryDirectory(prefix="sluice-cut-") as directory:
        await interference.start(directory)
        yield interference, database.replace(database.partition("host=")[2], directory)
        await interference.close()


async def test_a_connection_cut_anywhere(
    tmp_path: Path, database: str, between: tuple[Interference, str]
) -> None:
    interference, dsn = between
    events = [cleared() for _ in range(20)]
    interference.cut_after = 0
    async with running(tmp_path, dsn, flush_timeout_s=patience(20)) as ledger:
        for event in events:
            await ledger.record_decided(event)
            await ledger.record(completed(event))

        def backlog() -> int:
            return ledger.metrics().backlog_bytes

        # Each connection lives a little longer than the one before: through login, migration, COPY, COMMIT.
        for cut_after in range(50, 60_000, 1_500):
            seen = interference.connections
            interference.cut_after = cut_after
            await until(lambda seen=seen: interference.connections > seen or not backlog())  # type: ignore[misc]
            if not backlog():
                break

        interference.cut_after = None
        await shipped(ledger)
    assert interference.connections > 10
    assert await kinds(database) == {event.statement_id: ["completed", "decided"] for event in events}


async def test_a_server_that_stops_answering_is_left_and_asked_again(
    tmp_path: Path, database: str, between: tuple[Interference, str]
) -> None:
    interference, dsn = between
    limits = ShipperLimits(
        first_pause_s=0.02, longest_pause_s=0.1, connect_timeout_s=0.3, command_timeout_s=0.3
    )
    async with running(tmp_path, dsn, shipper=limits) as ledger:
        await until(lambda: ledger.metrics().database_connected)
        interference.flowing.clear()
        event = cleared()
        await ledger.record_decided(event)
        await until(lambda: "Timeout" in ledger.metrics().database_error)
        await ledger.record(completed(event))
        assert not ledger.metrics().failure, "statements do not wait for the database"
        interference.flowing.set()
        await shipped(ledger)
    assert await kinds(database) == {event.statement_id: ["completed", "decided"]}


async def test_a_connection_that_dribbles(
    tmp_path: Path, database: str, between: tuple[Interference, str]
) -> None:
    interference, dsn = between
    interference.piece = 7
    async with running(tmp_path, dsn, shipper=IMPATIENT, flush_timeout_s=patience(30)) as ledger:
        event = cleared()
        await ledger.record_decided(event)
        await ledger.record(completed(event))
        await shipped(ledger)
    assert await kinds(database) == {event.statement_id: ["completed", "decided"]}
