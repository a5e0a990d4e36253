"""The first decision under new policies: what a statement waits for does not grow with how many there are.

Policies are compiled and filed before they are in force, whatever they come from. Counted are calls of
functions, not seconds.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import orjson
import pytest

from gateway.app.rules import PolicyRegistry
from gateway.model.catalog import Column
from gateway.model.principal import Principal
from gateway.model.resource import AccessRequest, Resource
from gateway.policy.engine import Engine, engine_for
from gateway.settings.models import PolicySettings, RangerAdminSettings
from gateway.sources.ranger_client import DownloadKind
from tests.app.readers import ReaderThatCounts
from tests.sources.fake_admin import (
    SERVICE,
    FakeAdmin,
    changed,
    policy,
    roles,
    row_filter,
    running,
    service_policies,
)

FEW, MANY = 40, 1_600
ANN = Principal(user="ann", groups=frozenset({"sales"}))
COLUMNS = (Column(name="id", type="int"), Column(name="name", type="string"))


def _calls_of(work: Callable[[], object]) -> int:
    """Return how many functions are called."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def first(rules: PolicyRegistry, catalog: str) -> int:
    """Return what the first questions of a statement cost, on a table and on a path, allowed and denied."""
    tables = [Resource.table(catalog, "shop", "t1"), Resource.table(catalog, "shop", "nowhere")]

    def asked() -> None:
        engine = engine_for(rules.current)
        for table in tables:
            engine.table_view(ANN, table, COLUMNS)
            engine.visible(ANN, table)
            engine.may_be_denied_below(table)
            engine.would_rename_widen_access(table, tables[0])
            engine.guards_escaped(tables[1], table)
            engine.tags(table)
            for access in ("select", "update"):
                engine.decide(AccessRequest(principal=ANN, resource=table, access=access))
        engine.decide(AccessRequest(principal=ANN, resource=Resource.url("/data/x"), access="read"))

    return _calls_of(asked)


def pack(count: int, more: str = "") -> str:
    rows = [
        f"  - name: r{i}\n    on: {{catalog: spark_catalog, database: shop, table: t{i}, column: '*'}}\n"
        f"    allow: [{{groups: [sales], access: [select]}}]\n"
        f"  - name: f{i}\n    on: {{catalog: spark_catalog, database: shop, table: t{i}}}\n"
        f"    filter: [{{groups: [sales], where: 'id > {i}'}}]\n"
        for i in range(count // 2)
    ]
    return f"service: spark\npolicies:\n{''.join(rows)}{more}"


def of_ranger(count: int) -> list[dict[str, Any]]:
    access = [policy(i + 1, f"t{i}") for i in range(count // 2)]
    return access + [row_filter(count + i, f"t{i}", "id > 5") for i in range(count // 2)]


@asynccontextmanager
async def packs(directory: Path, count: int) -> AsyncIterator[PolicyRegistry]:
    (directory / "p.yaml").write_text(pack(count))
    async with PolicyRegistry(PolicySettings(paths=(directory,)), ReaderThatCounts()) as rules:
        yield rules


@asynccontextmanager
async def reloaded_packs(directory: Path, count: int) -> AsyncIterator[PolicyRegistry]:
    async with packs(directory, count) as rules:
        engine_for(rules.current).table_view(ANN, Resource.table("spark_catalog", "shop", "t1"), COLUMNS)
        one_more = "  - name: last\n    on: {catalog: x}\n    allow: [{users: [ann], access: [use]}]\n"
        (directory / "p.yaml").write_text(pack(count, one_more))
        assert await rules.reload_files()
        yield rules


@asynccontextmanager
async def cached_file(directory: Path, count: int) -> AsyncIterator[PolicyRegistry]:
    """What a plugin of Ranger has downloaded, as a file."""
    file = directory / "hive.json"
    file.write_bytes(orjson.dumps(service_policies(1, *of_ranger(count))))
    settings = PolicySettings(paths=(file,), catalogs={"hive": SERVICE})
    async with PolicyRegistry(settings, ReaderThatCounts()) as rules:
        yield rules


@asynccontextmanager
async def behind_an_admin(directory: Path, count: int) -> AsyncIterator[tuple[PolicyRegistry, FakeAdmin]]:
    content = {DownloadKind.POLICIES: service_policies(17, *of_ranger(count)), DownloadKind.ROLES: roles(4)}
    async with running(FakeAdmin(content=content)) as admin:
        settings = PolicySettings(
            paths=(directory,),
            ranger=(RangerAdminSettings(service=SERVICE, urls=(admin.url,)),),
            catalogs={"hive": SERVICE},
        )
        async with PolicyRegistry(settings, ReaderThatCounts()) as rules:
            yield rules, admin


@asynccontextmanager
async def downloaded(directory: Path, count: int) -> AsyncIterator[PolicyRegistry]:
    async with behind_an_admin(directory, count) as (rules, _):
        yield rules


@asynccontextmanager
async def changed_by_deltas(directory: Path, count: int) -> AsyncIterator[PolicyRegistry]:
    async with behind_an_admin(directory, count) as (rules, admin):
        before = rules.current
        engine_for(before).table_view(ANN, Resource.table("hive", "shop", "t1"), COLUMNS)
        admin.deltas[(DownloadKind.POLICIES, 17)] = changed(18, (0, policy(10**6, "t_new")))
        admin.content[DownloadKind.POLICIES]["policyVersion"] = 18
        (service,) = rules._services
        service._due = dict.fromkeys(service._due, float("-inf"))
        assert await service.look()
        assert rules.current is not before
        yield rules


def _not_now(*arguments: object, **named: object) -> None:
    raise AssertionError("an engine is made before its policies are in force, not for a statement")


SOURCES = {
    "packs": (packs, "spark_catalog"),
    "packs that changed": (reloaded_packs, "spark_catalog"),
    "a file of Ranger's": (cached_file, "hive"),
    "an Admin's policies": (downloaded, "hive"),
    "an Admin's changes": (changed_by_deltas, "hive"),
}


@pytest.mark.parametrize(("source", "catalog"), SOURCES.values(), ids=SOURCES)
async def test_the_first_decision_costs_the_same_however_many_policies_there_are(
    source: Callable[..., Any], catalog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for count in (FEW, MANY):
        directory = tmp_path / str(count)
        directory.mkdir()
        async with source(directory, count) as rules:
            with monkeypatch.context() as patched:
                patched.setattr(Engine, "__init__", _not_now)
                counts.append(first(rules, catalog))
    few, many = counts
    # A memory of what was compared before makes a few calls less.
    assert 0.9 * few <= many <= 1.1 * few, counts
