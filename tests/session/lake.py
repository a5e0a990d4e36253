"""A Spark whose tables and views change their meaning, behind both endpoints, and a gateway before it.

A table's meaning is a number. The judge writes into what is forwarded which meanings it has seen; this Spark
looks the names up at a moment of its own choosing, and notes where it finds another meaning: there the guards
of one table would stand around the rows of another.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any

from gateway.catalog.live import LiveCatalog
from gateway.errors import BackendUnavailable
from gateway.model.catalog import TableName
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    CatalogChanged,
    Cleared,
    CreateTempView,
    DropTempView,
    NeedsCatalog,
    SessionEffect,
    Statement,
    Verdict,
)
from gateway.session.limits import SessionLimits
from gateway.session.locks import CatalogLocks
from gateway.session.ports import BackendError, Envelope, FrameSink, OperationState, RelayedFrame
from gateway.wire.connect import pb, serialize
from tests.session import fakes
from tests.session.connect import fakes as connect

DATABASES = {"a": "one", "b": "one", "c": "two"}
"""Tables, and where they lie."""


def name_of(table: str) -> TableName:
    return TableName("spark_catalog", DATABASES[table], table)


class NoSuchTable(Exception):
    sqlstate = "42P01"


class Lake:
    """What the names mean now; 0 is a table that is not there."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.meanings = dict.fromkeys(DATABASES, 1)
        self.last = 1
        self.wrong: list[str] = []
        """Statements with effects that found another meaning than they were judged by."""
        self.slowest = 30

    async def pause(self, most: int | None = None) -> None:
        for _ in range(self.chance.randrange(most or self.slowest)):
            await asyncio.sleep(0)

    def change(self, text: str) -> None:
        """Do what a statement that changes tables does."""
        words = text.split()
        for table in self.changed_by(text):
            self.last += 1
            # What was open before comes back: it is not enough to see the same before and after.
            self.meanings[table] = self.chance.choice([1, 2, self.last])
        if words[0] == "RENAME":
            self.meanings[words[1]] = 0
        if words[0] == "DROP":
            self.meanings.update(dict.fromkeys(self.changed_by(text), 0))

    def changed_by(self, text: str) -> list[str]:
        words = text.split()
        match words[0]:
            case "CREATE" | "DROP" if words[1] == "DATABASE":
                return [table for table, database in DATABASES.items() if database == words[2]]
            case "CREATE" if words[1] == "TEMP":
                return []
            case "CREATE" | "DROP" if words[1] in DATABASES:
                return [words[1]]
            case "RENAME":
                return words[1:3]
        return []

    def finds(self, forwarded: str) -> bool:
        """Whether the names mean now what the statement was judged by."""
        judged = re.findall(r"\b([a-z])=(\d+)", forwarded)
        return all(self.meanings[table] == int(meaning) for table, meaning in judged)

    async def query(self, sql: str) -> Sequence[Sequence[Any]]:
        """Answer DESCRIBE, as of some moment while it was asked."""
        table = re.findall(r"`(\w+)`", sql)[-1]
        await self.pause(6)
        meaning = self.meanings[table]
        await self.pause(6)
        if not meaning:
            raise NoSuchTable
        described = {
            "catalog_name": "spark_catalog",
            "schema_name": DATABASES[table],
            "namespace": [DATABASES[table]],
            "table_name": table,
            "type": "TABLE",
            "owner": str(meaning),
            "columns": [{"name": "x", "type": {"name": "string"}}],
        }
        return [(json.dumps(described),)]


class LakeJudge:
    """Clears everything; writes down what it saw of the tables."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake

    async def __call__(self, statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        text = statement.text if statement.plan is None else connect.words_of(statement)
        tables = set(re.findall(r"\b[a-z]\b", text)) & DATABASES.keys()
        seen = snapshot.catalog
        if unknown := tuple(name_of(table) for table in sorted(tables) if not seen.knows(name_of(table))):
            return NeedsCatalog(unknown)
        await self.lake.pause(6)
        found = {table: seen.table(name_of(table)) for table in sorted(tables)}
        judged = " ".join(f"{t}={0 if table is None else table.owner}" for t, table in found.items())
        plan = statement.plan
        return Cleared(
            statement=statement if plan is None else replace(statement, text=text),
            forwarded=f"{text} /* {judged} */",
            forwarded_plan=b"" if plan is None else plan.message,
            plan_class="Project",
            decisions=(),
            scans=(),
            shows_errors=True,
            snapshot_version=snapshot.version,
            catalog_version=seen.version,
            names=frozenset(name_of(table) for table in tables),
            read_only=text.split()[0] in ("SELECT", "TABLE", "schema"),
            effects=self.effects(text),
            temp_views_read=frozenset(re.findall(r"SELECT (view\d)", text)) & statement.context.temp_views,
        )

    def effects(self, text: str) -> tuple[SessionEffect, ...]:
        words = text.split()
        if words[:2] == ["CREATE", "TEMP"]:
            return (CreateTempView(words[2]),)
        if words[:2] == ["DROP", "VIEW"]:
            return (DropTempView(words[-1].strip("`")),)
        if words[:2] == ["DROP", "DATABASE"]:
            return (CatalogChanged(databases=(("spark_catalog", words[2]),)),)
        changed = self.lake.changed_by(text)
        return (CatalogChanged(tuple(name_of(table) for table in changed)),) if changed else ()


class LakeOperation:
    """A statement of the Thrift endpoint."""

    has_result_set = True
    id = "ab" * 16

    def __init__(self, session: LakeSession, cleared: Cleared) -> None:
        self.session = session
        self.lake = session.lake
        self.forwarded = cleared.forwarded
        self.text = cleared.forwarded.partition(" /*")[0]
        self.raw = False
        self.analysed = False
        self.state = 1
        self.ended = asyncio.Event()
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        await self.lake.pause()
        texts = [self.forwarded]
        if self.text.startswith("SELECT") and (found := re.search(r"\bview\d", self.text)):
            texts.append(self.session.views.get(found[0], ""))
        self.analysed = True
        self.raw = not all(self.lake.finds(text) for text in texts)
        if self.raw and not self.text.startswith("SELECT"):
            self.lake.wrong.append(self.forwarded)
        await self.lake.pause()
        self.lake.change(self.text)
        if self.text.startswith("CREATE TEMP"):
            self.session.views[self.text.split()[2]] = self.forwarded
        elif self.text.startswith("DROP VIEW"):
            self.session.views.pop(self.text.split()[-1].strip("`"), None)
        await self.lake.pause(6)
        self.end(2)

    def end(self, state: int) -> None:
        if not self.ended.is_set():
            self.state = state
            self.ended.set()

    async def status(self, get_progress: bool = False) -> OperationState:
        self.session.check()
        for _ in range(5):
            await asyncio.sleep(0)
        return OperationState(state=self.state)

    async def schema(self) -> Any:
        await asyncio.sleep(0)
        shown = "raw" if self.raw else "governed"
        return shown if self.analysed else "Result"

    async def relay(
        self, orientation: int, max_rows: int, fetch_type: int, seqid: int, sink: FrameSink
    ) -> RelayedFrame:
        await asyncio.sleep(0)
        if self.state != 2:
            error = BackendError("Expected states: [FINISHED]", "HY000")
            return RelayedFrame(bytes=0, rows=0, status=3, error=error)
        sink.write(b"raw" if self.raw else b"governed")
        await asyncio.sleep(0)
        return RelayedFrame(bytes=3, rows=1, status=0)

    async def fetch(self, max_rows: int) -> tuple[Sequence[Sequence[Any]], Any]:
        raise AssertionError("nothing is filtered here")

    def let_go(self) -> bool:
        return False

    async def cancel(self) -> None:
        await asyncio.sleep(0)
        if self.lake.chance.random() < 0.5:
            # As Spark, which can lose a cancel while it plans, and go on.
            self.task.cancel()
        self.end(3)

    async def close(self) -> None:
        await asyncio.sleep(0)


class LakeSession:
    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.views: dict[str, str] = {}
        self.lost = False

    def follow(self, login: Callable[[], Principal]) -> None:
        """Nobody asks it who is shown."""

    async def own_settings(self) -> dict[str, str]:
        return {}

    async def describe_functions(self) -> dict[str, tuple[str, str]]:
        return {}

    async def read_declared_types(
        self, database: str, table: str | None, *, max_rows: int
    ) -> dict[tuple[str, str], str]:
        return {}

    def check(self) -> None:
        if self.lost:
            raise BackendUnavailable("the connection to Spark was lost")

    async def execute(self, cleared: Cleared, *, run_async: bool, timeout_s: int) -> LakeOperation:
        await self.lake.pause(4)
        self.check()
        return LakeOperation(self, cleared)

    async def close(self) -> None:
        self.check()


class LakeBackend:
    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.sessions: list[LakeSession] = []

    async def open_session(
        self, principal: Principal, *, protocol_version: int, settings: dict[str, str]
    ) -> LakeSession:
        self.sessions.append(LakeSession(self.lake))
        return self.sessions[-1]


class LakeConnect(connect.Spark):
    """The Connect endpoint: what it answers of a statement that found another meaning is marked."""

    def __init__(self, lake: Lake) -> None:
        super().__init__([])
        self.lake = lake
        self.raw: set[str] = set()
        """Operations that found another meaning than they were judged by."""
        self.raw_analyses = 0

    def steps(self, text: str) -> list[Any]:
        if text.startswith(("INSERT", "CREATE", "DROP", "RENAME")):
            return [connect.progress(), connect.sql_rows()]
        return super().steps(text)

    async def execute(self, cleared: Cleared, envelope: Envelope) -> AsyncGenerator[bytes, None]:
        await self.lake.pause()
        if not self.lake.finds(cleared.forwarded):
            self.raw.add(envelope.operation_id)
            if not cleared.read_only:
                self.lake.wrong.append(cleared.forwarded)
        await self.lake.pause()
        self.lake.change(cleared.forwarded.partition(" /*")[0])
        async for data in super().execute(cleared, envelope):
            yield data

    async def analyze(self, cleared: Cleared, envelope: Envelope) -> bytes:
        await self.lake.pause()
        raw = not self.lake.finds(cleared.forwarded)
        self.raw_analyses += raw
        await self.lake.pause()
        answer = pb.AnalyzePlanResponse.FromString(await super().analyze(cleared, envelope))
        answer.spark_version.version = "raw" if raw else "governed"
        return serialize(answer)


class LakeWorld:
    """One gateway with both endpoints before one Spark."""

    def __init__(self, seed: int, **limits: Any) -> None:
        self.random = random.Random(seed)
        self.lake = Lake(self.random)
        bounds = SessionLimits(**{"settle_timeout_s": 60, "close_timeout_s": 60, **limits})
        catalog = LiveCatalog(self.lake.query, refusal=NoSuchTable)
        self.locks = CatalogLocks(catalog, bounds)
        self.catalog = catalog
        self.backend = LakeBackend(self.lake)
        self.spark = LakeConnect(self.lake)
        shared: Any = {"catalog": catalog, "locks": self.locks}
        self.thrift = fakes.World(bounds, backend=self.backend, **shared)
        self.connect = connect.World(bounds, spark=self.spark, **shared)
        judge: Any = LakeJudge(self.lake)
        self.thrift.sessions._verdicts._judge = judge
        self.connect.service._dependencies.verdicts._judge = judge
