"""`make bench` prints what a decision costs, and that it does not cost more with more policies."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable

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
from gateway.policy.engine import Engine
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


def figures(count: int) -> str:
    found = policy_set(count)
    began = time.perf_counter()
    engine = Engine(found)
    build = time.perf_counter() - began
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
    return f"{count:8} | {build:7.2f} | {times}"


@pytest.mark.bench
@pytest.mark.timeout(600)
def test_policy_figures() -> None:
    print("\npolicies | build s | µs for: one decision | a table of 20 columns, first time | the same again")
    for count in (1_000, 100_000):
        print(figures(count))
