"""`make bench` prints what a decision costs, and that it does not cost more with more policies."""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from gateway.model.catalog import Column
from gateway.model.context import NO_CONTEXT
from gateway.model.policy import (
    FilterItem,
    MaskItem,
    Policy,
    PolicyItem,
    PolicySet,
    PolicyType,
    ResourceSet,
    ResourceValues,
)
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import engine_for
from tests.policy.scenarios import definitions
from tests.policy.scenarios import policy_set as policy_set_of

COLUMNS = tuple(Column(name=f"c{i}", type="string") for i in range(20))
SELECT = frozenset({"select"})


def on(**levels: str) -> ResourceSet:
    return {level: ResourceValues(values=(value,)) for level, value in levels.items()}


def policy_set(count: int) -> PolicySet:
    """Access to every table for some group, a mask on two columns and a filter for every tenth table."""
    policies: list[Policy] = []
    for i in itertools.count():
        database, table = f"d{i % 100}", f"t{i // 100}"
        where = {"catalog": "c", "database": database, "table": table}
        groups = frozenset({f"g{i % 50}", f"g{(i + 1) % 50}"})
        add: list[Policy] = [
            Policy(
                id=len(policies) + 1,
                name=f"a{i}",
                service="spark",
                type=PolicyType.ACCESS,
                resources=on(**where, column="*"),
                allow=(PolicyItem(groups=groups, accesses=SELECT),),
            )
        ]
        if i % 10 == 0:
            mask = MaskItem(groups=frozenset({"public"}), accesses=SELECT, mask_type="MASK_HASH")
            rows = FilterItem(groups=frozenset({"public"}), accesses=SELECT, filter_expression="u = {USER}")
            mask_on = dict(on(**where)) | {"column": ResourceValues(values=("c1", "c7"))}
            number = len(policies) + 2
            add += [
                Policy(
                    id=number,
                    name=f"m{i}",
                    service="spark",
                    type=PolicyType.MASK,
                    resources=mask_on,
                    masks=(mask,),
                ),
                Policy(
                    id=number + 1,
                    name=f"f{i}",
                    service="spark",
                    type=PolicyType.ROW_FILTER,
                    resources=on(**where),
                    filters=(rows,),
                ),
            ]
        if len(policies) + len(add) > count:
            return policy_set_of({"spark": definitions()["spark"]}, policies)
        policies += add
    raise AssertionError("unreachable")


def median_us(work: Callable[[], object], rounds: int = 9, calls: int = 400) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(calls):
            work()
        times.append((time.perf_counter() - began) / calls)
    return statistics.median(times) * 1e6


def resident_mb() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no resident size")


def figures(count: int) -> str:
    gc.collect()
    before = resident_mb()
    began = time.perf_counter()
    found = policy_set(count)
    made = time.perf_counter() - began
    data = resident_mb() - before
    began = time.perf_counter()
    engine = engine_for(found)
    build = time.perf_counter() - began
    size = resident_mb() - before - data
    people = [Principal(user=f"u{i}", groups=frozenset({f"g{i}"})) for i in range(50)]
    tables = [Resource.table("c", f"d{i}", "t0") for i in range(50)]
    pairs = itertools.cycle(list(zip(people, tables, strict=True)))

    def decide() -> None:
        person, table = next(pairs)
        engine.decide(AccessRequest(principal=person, resource=table, access="select"))

    def first() -> None:
        person, table = next(pairs)
        engine._view(person, table, COLUMNS, "select", NO_CONTEXT)

    def again() -> None:
        person, table = next(pairs)
        engine.table_view(person, table, COLUMNS)

    times = " | ".join(f"{median_us(work):8.1f}" for work in (decide, first, again))
    return f"{count:8} | {made:7.2f} | {build:7.2f} | {data:7.0f} | {size:7.0f} | {times}"


def exchanged(found: PolicySet, round_: int) -> PolicySet:
    """Return the set with ten policies changed, one gone and one new."""
    service = found.services["spark"]
    policies = list(service.policies)
    for i in range(10):
        place = (round_ * 7919 + i * 9973) % len(policies)
        policies[place] = replace(policies[place], version=policies[place].version + 1, priority=1)
    new = replace(policies.pop(), id=10**6 + round_, name="new")
    services = {"spark": replace(service, policies=(*policies, new))}
    return PolicySet(version=found.version + 1, services=services)


async def stall_ms(work: Callable[[], object]) -> tuple[float, float]:
    """Run in a thread; return how long it took and the longest time that the loop was kept waiting."""
    task = asyncio.create_task(asyncio.to_thread(work))
    began = last = time.perf_counter()
    longest = 0.0
    while not task.done():
        await asyncio.sleep(0.0005)
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
    await task
    return (time.perf_counter() - began) * 1e3, longest * 1e3


def taken_over(new: PolicySet, old: PolicySet) -> None:
    """Build as a gateway does: the collector looks neither at what is there for long nor while it is made."""
    gc.collect()
    gc.disable()
    try:
        engine_for(new, old)
        gc.freeze()
    finally:
        gc.enable()


def delta_figures(count: int, rounds: int = 15) -> str:
    found = policy_set(count)
    engine_for(found)
    gc.collect()
    gc.freeze()
    took, stalls = [], []
    for i in range(rounds):
        new = exchanged(found, i)
        delta, stall = asyncio.run(stall_ms(partial(taken_over, new, found)))
        took.append(delta)
        stalls.append(stall)
        found = new
    gc.unfreeze()
    return (
        f"a change of 10 in {count}: median {statistics.median(took):.0f} ms, most {max(took):.0f} ms; "
        f"the loop waits for {statistics.median(stalls):.1f} ms, at most {max(stalls):.1f} ms"
    )


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_policy_figures() -> None:
    print("\npolicies | made s  | built s | sets MB | more MB | µs for: one decision | 20 columns | again")
    for count in (1_000, 100_000):
        print(figures(count))
    print(delta_figures(100_000))
