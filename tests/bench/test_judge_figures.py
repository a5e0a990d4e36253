"""What judging costs, on a catalog that is known: the statement seen for the first time, and again."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import psutil
import pytest

from gateway.catalog.static import StaticCatalog
from gateway.model.principal import Principal
from gateway.model.reading import NotRead, Proof, ReadingAnswer, ScriptReading, Splice, UnnamedColumn
from gateway.model.snapshot import Snapshot
from gateway.model.statement import Cleared, Client, NeedsCatalog, SessionContext, Statement, Verdict
from gateway.pipeline import judge
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from gateway.session.metrics import Metrics
from gateway.session.verdicts import VerdictInputs, Verdicts
from tests.bench.figures import Record, median_ms, p95_ms
from tests.bench.processes import cpu_s
from tests.judge_world import SERVICE_DEFS
from tests.session.fakes import FakePolicies
from tests.tpch.governed import GOVERNED, POLICIES, UNGOVERNED, catalog
from tests.tpch.schema import QUERIES

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="session")]

SECTION = "Judge"
SMALL = "SELECT c_name, c_phone FROM customer WHERE c_custkey = 42"


class TimedReader:
    """The reader, with the seconds that were spent waiting for it."""

    def __init__(self, reader: ReaderPool) -> None:
        self._reader = reader
        self.spent_s = 0.0

    @property
    def spark_version(self) -> str:
        return self._reader.spark_version

    async def read(self, text: str) -> ReadingAnswer:
        began = time.perf_counter()
        try:
            return await self._reader.read(text)
        finally:
            self.spent_s += time.perf_counter() - began

    async def read_expression(self, text: str) -> ReadingAnswer:
        began = time.perf_counter()
        try:
            return await self._reader.read_expression(text)
        finally:
            self.spent_s += time.perf_counter() - began

    async def column_names(
        self, text: str, *, expression: bool = False
    ) -> tuple[UnnamedColumn, ...] | NotRead:
        return await self._reader.column_names(text, expression=expression)

    async def read_script(self, text: str) -> ScriptReading | NotRead | None:
        return await self._reader.read_script(text)

    async def prove(
        self,
        original: str,
        rewritten: str,
        splices: Sequence[Splice],
        allowed: Collection[tuple[str, ...]],
        *,
        expression: bool = False,
    ) -> Proof:
        began = time.perf_counter()
        try:
            return await self._reader.prove(original, rewritten, splices, allowed, expression=expression)
        finally:
            self.spent_s += time.perf_counter() - began


class Bench:
    """A judge with the cache of verdicts before it, as in a gateway, and a count that makes texts new."""

    def __init__(self, reader: ReaderPool) -> None:
        definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
        packs = {path.name: path.read_text(encoding="utf-8") for path in sorted(POLICIES.glob("*.yaml"))}
        policies = load_packs(packs, definitions)
        self.reader = TimedReader(reader)
        self.metrics = Metrics()

        async def judged(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
            return await judge(statement, snapshot, self.reader)

        self.verdicts = Verdicts(
            VerdictInputs(
                judge=judged,
                policies=FakePolicies(lambda: policies, engine_for),
                catalog=StaticCatalog(catalog().tables.values()),
                metrics=self.metrics,
            )
        )
        self._texts = 0

    async def cold(self, sql: str, principal: Principal) -> tuple[Statement, float, float]:
        """Judge a text that nobody has seen; return it, the seconds, and those of them in the reader."""
        self._texts += 1
        context = SessionContext(namespace=("tpch",))
        statement = Statement(text=f"{sql} -- {self._texts}", principal=principal, context=context)
        self.reader.spent_s = 0.0
        return statement, await self.seconds(statement), self.reader.spent_s

    async def seconds(self, statement: Statement) -> float:
        began = time.perf_counter()
        verdict = await self.verdicts.judge(statement, Client(protocol="thrift"))
        took = time.perf_counter() - began
        assert isinstance(verdict, Cleared), verdict
        return took


async def test_judge(record: Record, reader: ReaderPool, quick: bool) -> None:
    bench = Bench(reader)
    record.begin("Judge: warming the parser up")
    for _ in range(1 if quick else 5):
        for sql in (SMALL, *QUERIES.values()):
            for principal in (UNGOVERNED, GOVERNED):
                await bench.cold(sql, principal)
    small, large = (40, 1) if quick else (300, 8)
    everything = {
        "small, nothing guarded": ([SMALL] * small, UNGOVERNED, 2.0),
        "small, 2 masks and a filter": ([SMALL] * small, GOVERNED, 2.0),
        "TPC-H 1-22, nothing guarded": ([*QUERIES.values()] * large, UNGOVERNED, 6.0),
        "TPC-H 1-22, guarded": ([*QUERIES.values()] * large, GOVERNED, 6.0),
    }
    for name, (texts, principal, aim_ms) in everything.items():
        record.begin(f"Judge: {name}, {len(texts)} statements")
        cold: list[float] = []
        in_reader: list[float] = []
        cached: list[float] = []
        parsers = [psutil.Process(pid) for pid in reader.pids]
        before, parsers_before = time.process_time(), sum(map(cpu_s, parsers))
        for sql in texts:
            statement, took, waited = await bench.cold(sql, principal)
            cold.append(took)
            in_reader.append(waited)
            cached.append(await bench.seconds(statement))
        python_ms = 1e3 * (time.process_time() - before - sum(cached)) / len(texts)
        parser_ms = 1e3 * (sum(map(cpu_s, parsers)) - parsers_before) / len(texts)
        record.add(
            SECTION,
            f"cold: {name}",
            f"p50 {median_ms(cold):.2f} ms, p95 {p95_ms(cold):.2f} ms, fastest {1e3 * min(cold):.2f} ms (of "
            f"the p50 {median_ms(in_reader):.2f} ms wait for the parser; "
            f"mean CPU: parser {parser_ms:.2f} ms, Python {python_ms:.2f} ms)",
            aim=f"≤ {aim_ms:g} ms",
            met=median_ms(cold) <= aim_ms,
            p50_ms=median_ms(cold),
            p95_ms=p95_ms(cold),
            reader_p50_ms=median_ms(in_reader),
            parser_cpu_ms=parser_ms,
            python_cpu_ms=python_ms,
            statements=len(texts),
        )
        record.add(
            SECTION,
            f"cached: {name}",
            f"p50 {median_ms(cached):.3f} ms, p95 {p95_ms(cached):.3f} ms",
            aim="≤ 0.1 ms",
            met=median_ms(cached) <= 0.1,
            p50_ms=median_ms(cached),
            p95_ms=p95_ms(cached),
        )
    record.add(
        SECTION,
        "what cold means",
        "a text never seen: verdict and first parse miss; its proof finds that parse and the guards' kept",
    )
