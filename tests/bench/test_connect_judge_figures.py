"""What judging a plan costs, on a catalog that is known, and what an analyst and a rendering are of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pyspark.sql.connect import functions as F  # noqa: N812  as everybody calls them

from gateway.catalog.static import StaticCatalog
from gateway.model.catalog import TableName
from gateway.model.principal import Principal
from gateway.model.snapshot import Snapshot
from gateway.model.statement import (
    Cleared,
    Client,
    NeedsCatalog,
    PlanRequest,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.pipeline import judge
from gateway.plan.analyse import analyse_plan
from gateway.plan.reading import PlanReading
from gateway.plan.rendering import render
from gateway.plan.walk import read_plan
from gateway.policy.engine import engine_for
from gateway.policy.packs import load_packs
from gateway.policy.service_defs import load_service_defs
from gateway.reader.pool import ReaderPool
from gateway.session.verdicts import VerdictInputs, Verdicts
from gateway.sql.analyse import ScannedTable, Usage
from tests.bench.figures import Record, median_ms, p95_ms
from tests.judge_world import SERVICE_DEFS
from tests.plan.frames import Frame, message, sql, table
from tests.session.fakes import FakePolicies
from tests.tpch.governed import GOVERNED, POLICIES, UNGOVERNED, catalog

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="session")]

SECTION = "Judge of plans"
AIM_MS = 0.5


def large() -> Frame:
    """Return a DataFrame of about 200 messages: filters, new columns, a join, a grouping, an order."""
    frame = table("lineitem").alias("l")
    for n in range(6):
        price = F.col("l_extendedprice") * (1 - F.col("l_discount"))
        frame = frame.filter(F.col("l_quantity") > n).withColumn(f"n{n}", price)
    frame = frame.join(table("orders"), F.col("l_orderkey") == F.col("o_orderkey"))
    columns = ("l_quantity", "l_tax", "l_discount", "l_extendedprice", "o_totalprice", "n0")
    totals = [F.max(column).alias(f"m_{column}") for column in columns]
    return (
        frame.groupBy("l_returnflag", "o_orderstatus").agg(*totals).orderBy(F.desc("l_returnflag")).limit(9)
    )


def small() -> Frame:
    return table("customer").filter(F.col("c_custkey") == 42).select("c_name", "c_phone")


QUESTIONS: Mapping[str, Callable[[], Frame]] = {
    "200 messages": large,
    "a filter and two columns": small,
    "SQL text": lambda: sql("SELECT c_name, c_phone FROM customer WHERE c_custkey = 42"),
}


async def seconds(
    plan: Any, principal: Principal, snapshot: Snapshot, reader: ReaderPool, count: int
) -> list[float]:
    """Judge a plan again and again: every DataFrame has new ids, so that no verdict is ever found again."""
    context = SessionContext(namespace=("tpch",), endpoint="connect")
    request = PlanRequest(kind="execute", message=plan.SerializeToString())
    took = []
    for _ in range(count):
        statement = Statement(text="", principal=principal, context=context, plan=request)
        began = time.perf_counter()
        verdict = await judge(statement, snapshot, reader)
        took.append(time.perf_counter() - began)
        assert isinstance(verdict, Cleared), verdict
    return took


@pytest.mark.parametrize("name", QUESTIONS)
async def test_judge_of_plans(record: Record, reader: ReaderPool, quick: bool, name: str) -> None:
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    packs = {path.name: path.read_text(encoding="utf-8") for path in sorted(POLICIES.glob("*.yaml"))}
    snapshot = Snapshot(policies=load_packs(packs, definitions), catalog=catalog())
    plan = message(QUESTIONS[name]())
    reading = read_plan(PlanRequest(kind="execute", message=plan.SerializeToString()))
    assert isinstance(reading, PlanReading)
    count = 50 if quick else 1_000
    for principal, guarded in ((UNGOVERNED, "nothing guarded"), (GOVERNED, "guarded")):
        record.begin(f"Judge of plans: {name}, {guarded}, {count} times")
        await seconds(plan, principal, snapshot, reader, count // 5)
        took = await seconds(plan, principal, snapshot, reader, count)
        aimed = name == "200 messages"
        record.add(
            SECTION,
            f"{name}, {guarded}",
            f"p50 {median_ms(took):.2f} ms, p95 {p95_ms(took):.2f} ms, fastest {1e3 * min(took):.2f} ms "
            f"({reading.messages} messages)",
            aim=f"≤ {AIM_MS:g} ms" if aimed else "",
            met=median_ms(took) <= AIM_MS if aimed else None,
            p50_ms=median_ms(took),
            p95_ms=p95_ms(took),
            messages=reading.messages,
        )


def timed(work: Callable[[], object], count: int) -> list[float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return took


async def test_plans_that_are_made_again(record: Record, reader: ReaderPool, quick: bool) -> None:
    """What a dashboard costs that makes its DataFrames anew, so that each has new ids."""
    definitions = load_service_defs({p.name: p.read_text() for p in sorted(SERVICE_DEFS.iterdir())})
    packs = {path.name: path.read_text(encoding="utf-8") for path in sorted(POLICIES.glob("*.yaml"))}
    policies = load_packs(packs, definitions)

    async def judged(statement: Statement, snapshot: Snapshot) -> Verdict | NeedsCatalog:
        return await judge(statement, snapshot, reader)

    verdicts = Verdicts(
        VerdictInputs(
            judge=judged,
            policies=FakePolicies(lambda: policies, engine_for),
            catalog=StaticCatalog(catalog().tables.values()),
        )
    )
    context = SessionContext(namespace=("tpch",), endpoint="connect")
    count = 50 if quick else 1_000
    for name, question in QUESTIONS.items():
        for principal, guarded in ((UNGOVERNED, "nothing guarded"), (GOVERNED, "guarded")):
            record.begin(f"Judge of plans: {name}, {guarded}, made again {count} times")
            took, cpu = [], []
            for _ in range(count):
                request = PlanRequest(kind="execute", message=message(question()).SerializeToString())
                statement = Statement(text="", principal=principal, context=context, plan=request)
                began, began_cpu = time.perf_counter(), time.thread_time()
                verdict = await verdicts.judge(statement, Client(protocol="thrift"))
                took.append(time.perf_counter() - began)
                cpu.append(time.thread_time() - began_cpu)
                assert isinstance(verdict, Cleared), verdict
            aimed = name == "200 messages"
            record.add(
                SECTION,
                f"{name}, {guarded}, made again",
                f"p50 {median_ms(took):.2f} ms, p95 {p95_ms(took):.2f} ms; CPU p50 {median_ms(cpu):.2f} ms",
                aim=f"≤ {AIM_MS:g} ms" if aimed else "",
                met=median_ms(took) <= AIM_MS if aimed else None,
                p50_ms=median_ms(took),
                p95_ms=p95_ms(took),
                cpu_p50_ms=median_ms(cpu),
            )


async def test_parts_of_it(record: Record, quick: bool) -> None:
    plan = message(large())
    request = PlanRequest(kind="execute", message=plan.SerializeToString())
    reading = read_plan(request)
    assert isinstance(reading, PlanReading)
    known = catalog()
    tables = {}
    for position, read in enumerate(reading.tables):
        name = TableName("spark_catalog", "tpch", read.parts[-1])
        found = known.table(name)
        assert found is not None
        tables[position] = ScannedTable(parts=read.parts, name=name, columns=found.columns)
    assert isinstance(analyse_plan(reading, tables), Usage)
    count = 50 if quick else 1_000
    record.begin(f"Judge of plans: its parts, {count} times")
    parts: Mapping[str, Callable[[], object]] = {
        "the walk": lambda: read_plan(request),
        "column analysis": lambda: analyse_plan(reading, tables),
        "a rendering": lambda: render(plan),
    }
    found_ms = {name: median_ms(timed(work, count)) for name, work in parts.items()}
    record.add(
        SECTION,
        f"parts, {reading.messages} messages",
        ", ".join(f"{name} {ms:.3f} ms" for name, ms in found_ms.items()),
        numbers={f"{name.split()[-1]}_p50_ms": ms for name, ms in found_ms.items()},
    )
