"""Whoever changes tables and views meanwhile: what was judged is what ran, or it is not shown."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import pytest

from gateway.errors import RpcError, SluiceError
from gateway.session.identifiers import Handle
from gateway.wire.connect import pb, serialize
from tests.session.connect.fakes import OTHER_SESSION, SESSION, execute_request, sql, table
from tests.session.fakes import BOB, CLIENT, Sink
from tests.session.lake import LakeWorld
from tests.speed import patience

READS = ["SELECT a", "SELECT b", "SELECT a b", "SELECT c", "SELECT view1", "SELECT view2"]
CHANGES = [
    "CREATE a",
    "CREATE b FROM a",
    "CREATE c FROM a",
    "DROP a",
    "RENAME a b",
    "RENAME b a",
    "DROP DATABASE one",
    "DROP DATABASE two",
]
EFFECTS = ["INSERT a FROM b", "INSERT c FROM a", "INSERT b FROM b"]
VIEWS = ["CREATE TEMP view1 AS a", "CREATE TEMP view2 AS b"]


class CatalogStorm:
    """Clients of both endpoints who read, write and change the same few tables."""

    def __init__(self, seed: int) -> None:
        self.world = LakeWorld(
            seed,
            catalog_wait_s=0.03,
            overtake_s=0.004,
            stopped_s=1000,
            unsettled_s=1000,
            farewell_s=0.01,
            # Sessions that have stopped a write make no views any more.
            settle_timeout_s=0.3,
        )
        self.random = self.world.random
        self.operations: list[Handle] = []
        self.shown: list[str] = []
        """Everything that a client was given although it was of another meaning."""
        self.refused: Counter[str] = Counter()

    def text(self) -> str:
        return self.random.choice(self.random.choice([READS, READS, READS, CHANGES, CHANGES, EFFECTS, VIEWS]))

    async def thrift_client(self) -> None:
        service = self.world.thrift.sessions
        session = await service.open_session(BOB, CLIENT, protocol_version=9)
        for _ in range(14):
            try:
                await self.thrift_step(session)
            except SluiceError as error:
                self.refused[getattr(error, "code", "")] += 1
                if "Invalid SessionHandle" in error.message:
                    session = await service.open_session(BOB, CLIENT, protocol_version=9)
            await self.world.lake.pause(4)

    async def thrift_step(self, session: Handle) -> None:
        service, chance = self.world.thrift.sessions, self.random.random()
        handle = self.random.choice(self.operations) if self.operations else None
        if handle is None or chance < 0.5:
            run_async = self.random.random() < 0.6
            opened = await service.execute(BOB, session, self.text(), run_async=run_async)
            self.operations.append(opened.handle)
            if not run_async:
                await self.fetch(opened.handle)
        elif chance < 0.6:
            await service.status(BOB, handle)
        elif chance < 0.75:
            await self.fetch(handle)
        elif chance < 0.85:
            schema = await service.schema(BOB, handle)
            if schema == "raw":
                self.shown.append("schema")
        elif chance < 0.93:
            await service.cancel(BOB, handle)
        elif chance < 0.98:
            await service.close_operation(BOB, handle)
        else:
            await service.close_session(BOB, session)

    async def fetch(self, handle: Handle) -> None:
        sink = Sink()
        await self.world.thrift.sessions.fetch(
            BOB, handle, orientation=0, max_rows=5, fetch_type=0, seqid=1, sink=sink
        )
        if b"raw" in sink.data:
            self.shown.append("rows")

    async def connect_client(self, session: str) -> None:
        for _ in range(12):
            with contextlib.suppress(SluiceError, RpcError):
                await self.connect_step(session)
            await self.world.lake.pause(4)

    async def connect_step(self, session: str) -> None:
        service, spark = self.world.connect.service, self.world.spark
        text = self.text()
        if "view" in text:
            text = "SELECT a"
        if text.startswith("SELECT") and self.random.random() < 0.3:
            request = pb.AnalyzePlanRequest(session_id=session)
            request.schema.plan.CopyFrom(table(text[7:8]))
            answer = await service.analyze(BOB, CLIENT, serialize(request))
            if pb.AnalyzePlanResponse.FromString(answer).spark_version.version == "raw":
                self.shown.append("analysis")
            return
        plan = table(text[7:8]) if text.startswith("SELECT") else sql(text)
        reattachable = self.random.random() < 0.5
        asked = execute_request(plan, session=session, reattachable=reattachable)
        leaves = self.random.random() < 0.2
        stream = service.execute(BOB, CLIENT, asked)
        async with contextlib.aclosing(stream):
            async for data in stream:
                response = pb.ExecutePlanResponse.FromString(data)
                case = response.WhichOneof("response_type")
                shows = case in ("schema", "arrow_batch", "sql_command_result")
                if shows and response.operation_id in spark.raw:
                    self.shown.append(f"{case} of {text}")
                if leaves:
                    break

    async def lose(self) -> None:
        """Cut connections now and then: what becomes of the statements there nobody knows."""
        while True:
            await self.world.lake.pause(4000)
            if self.world.backend.sessions:
                self.random.choice(self.world.backend.sessions).lost = True


@pytest.mark.parametrize("seed", range(40))
async def test_nothing_is_shown_of_names_that_changed(seed: int) -> None:
    storm = CatalogStorm(seed)
    world = storm.world
    losing = asyncio.create_task(storm.lose())
    async with asyncio.timeout(patience()):
        thrift = [storm.thrift_client() for _ in range(4)]
        others = [storm.connect_client(session) for session in (SESSION, OTHER_SESSION, SESSION)]
        await asyncio.gather(*thrift, *others)
        losing.cancel()
        await world.thrift.sessions.close()
        await world.connect.service.close()
    assert storm.shown == []
    # What an effect found it keeps: there the check afterwards would come too late.
    assert world.lake.wrong == []
    assert not world.locks._queue
    # What is still held waits for statements that were stopped half-way.
    assert all(hold._expiry is not None for hold in world.locks._holds)
    for ledger in (world.thrift.ledger, world.connect.ledger):
        cleared = [e.statement_id for e in ledger.of("decided") if e.body["verdict"] == "cleared"]
        assert Counter(e.statement_id for e in ledger.of("completed")) == Counter(cleared)
