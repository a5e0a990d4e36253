"""What pages of the console ask of PostgreSQL and of the policies, with a large record and many policies.

`SLUICE_BENCH_EVENTS=10000000 make bench ARGS='-k console'` has the size of the aim; filling it takes minutes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest

from gateway.audit.record_pages import RecordQuery, load_page
from gateway.console.pages.policies import (
    MatrixQuestion,
    PolicyDetails,
    PolicyListQuestion,
    PolicyPages,
    PolicySource,
    TreeQuestion,
)
from gateway.database.policy_use import PolicyUse
from gateway.model.policy import Policy, PolicyItem, PolicySet, PolicyType, ResourceValues, Service
from gateway.policy.service_defs import load_service_defs
from tests.bench.console_record import fill
from tests.bench.figures import Record
from tests.bench.processes import cpu_s
from tests.console.fakes import viewer

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200), pytest.mark.asyncio(loop_scope="session")]
SERVICE_DEFS = Path(__file__).resolve().parents[2] / "rules" / "service_defs"
TURNS = 10
QUERIES = {
    "newest": RecordQuery(),
    "a busy user": RecordQuery(user="user0"),
    "a user who is rare": RecordQuery(user="user1990"),
    "nobody": RecordQuery(user="nobody"),
    "a busy table": RecordQuery(names=("spark_catalog.shop7.t0",)),
    "a policy of everything": RecordQuery(policy="everybody may look round"),
    "a policy that is rare": RecordQuery(policy="policy9990"),
    "refused": RecordQuery(verdict="refused"),
    "a part of a text": RecordQuery(text="shop7.t49"),
    "an end of a name": RecordQuery(ending="t4990"),
}


async def test_pages_of_a_large_record(record: Record, quick: bool, database: str) -> None:
    events = int(os.environ.get("SLUICE_BENCH_EVENTS", "50000" if quick else "1000000").split()[-1])
    record.begin(f"Console: {events:,} events")
    await fill(database, events, days=20)
    connection = await asyncpg.connect(database)
    try:
        processes = [psutil.Process(), psutil.Process(await connection.fetchval("SELECT pg_backend_pid()"))]
        for name, query in QUERIES.items():
            wall, spent = await _measure(partial(load_page, connection, query), processes)
            record.add(
                "Console",
                f"record of {events:,}, {name}",
                f"p95 {wall:.0f} ms, {spent:.0f} ms of CPU",
                aim="≤ 300 ms",
                met=wall <= 300,
                p95_ms=wall,
                cpu_ms=spent,
            )
    finally:
        await connection.close()


async def test_pages_of_many_policies(record: Record, quick: bool) -> None:
    count = 2_000 if quick else 100_000
    record.begin(f"Console: {count:,} policies")
    pages = PolicyPages(lambda: policies, _load_use, _load_details)
    policies = make_policies(count)
    auditor, anybody = viewer("ben"), viewer("cleo")
    await pages.list_policies(auditor, PolicyListQuestion())  # made once for each set of policies
    catalog = ("spark", "catalog", "spark_catalog")
    database_of = (*catalog, "database", "db7")
    asked: dict[str, Callable[[], Awaitable[Any]]] = {
        "of a group": lambda: pages.list_policies(auditor, PolicyListQuestion(who="group", name="group7")),
        "with a part of a name": lambda: pages.list_policies(auditor, PolicyListQuestion(q="policy 0999")),
        "about a database": lambda: pages.list_policies(auditor, PolicyListQuestion(about="db7")),
        "of one's own": lambda: pages.list_policies(anybody, PolicyListQuestion()),
        "by resource": lambda: pages.list_tree(auditor, TreeQuestion(under=catalog)),
        "who may do what": lambda: pages.show_matrix(auditor, MatrixQuestion(under=database_of)),
    }
    for name, ask in asked.items():
        wall, spent = await _measure(ask, [psutil.Process()])
        record.add(
            "Console",
            f"{count:,} policies, {name}",
            f"p95 {wall:.0f} ms, {spent:.0f} ms of CPU",
            aim="≤ 300 ms",
            met=wall <= 300,
            p95_ms=wall,
            cpu_ms=spent,
        )


async def _measure(ask: Callable[[], Awaitable[Any]], processes: list[psutil.Process]) -> tuple[float, float]:
    """Return the slowest of some turns, and the CPU of one, in milliseconds."""
    took, before = [], sum(map(cpu_s, processes))
    for _ in range(TURNS):
        began = time.perf_counter()
        await ask()
        took.append(time.perf_counter() - began)
    spent = sum(map(cpu_s, processes)) - before
    return 1e3 * max(took), 1e3 * spent / TURNS


def make_policies(count: int) -> PolicySet:
    """Return policies on as many tables of 200 databases, for 500 groups and 5,000 users."""
    definitions = load_service_defs({one.name: one.read_text() for one in sorted(SERVICE_DEFS.iterdir())})

    def policy(number: int) -> Policy:
        groups = {f"group{number % 500}"} | ({"staff"} if number % 3 == 0 else set())
        item = PolicyItem(
            users=frozenset({f"user{number % 5_000}"}),
            groups=frozenset(groups),
            accesses=frozenset({"select"}),
        )
        named = ("spark_catalog", f"db{number % 200}", f"t{number}", "*")
        levels = ("catalog", "database", "table", "column")
        return Policy(
            id=number + 1,
            name=f"policy {number:06d}",
            service="spark",
            type=PolicyType.ACCESS,
            resources={
                level: ResourceValues(values=(one,)) for level, one in zip(levels, named, strict=True)
            },
            allow=(item,),
        )

    service = Service(
        name="spark", definition=definitions["spark"], policies=tuple(map(policy, range(count)))
    )
    return PolicySet(version=1, services={"spark": service}, catalog_services={"spark_catalog": "spark"})


async def _load_use(names: object) -> PolicyUse:
    return PolicyUse(since=None, last={})


async def _load_details(*_: object) -> PolicyDetails:
    return PolicyDetails(source=PolicySource(kind="pack", where="", editable=False, change_at=""))
