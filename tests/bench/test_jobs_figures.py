"""What the jobs cost for each event, how that grows with the record, and what a gateway feels.

`make bench-jobs EVENTS="1000000 10000000"` has the sizes; the record is made and thrown away in parts, so
that 50 million events take some 25 GB of disk. A minute for each 100,000 events on two cores.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml

from gateway.app.classifying import classifiers
from gateway.database.postgres import EmbeddedPostgres
from gateway.frontends.users import set_user
from gateway.jobs.classification.formats import Formats
from gateway.jobs.classification.scoring import Scorer
from gateway.reader.pool import ReaderPool
from gateway.settings.jobs import ClassifySettings, JobsSettings
from tests.bench import jobs_record
from tests.bench.conftest import PASSWORD
from tests.bench.figures import OUTPUT, Record, median_ms
from tests.bench.jobs_cost import Cost, run, settings
from tests.bench.raw_client import RawClient, Server
from tests.e2e.running import RunningGateway
from tests.jobs.classification.corpus import corpus
from tests.jobs.replay.test_replay import NEW, OLD, STATEMENTS, recorded
from tests.judge_world import World
from tests.tpch.governed import POLICIES, UNGOVERNED

pytestmark = [pytest.mark.bench, pytest.mark.timeout(24 * 3600)]

LONG = "SLUICE_BENCH_EVENTS" in os.environ
SIZES = sorted(map(int, os.environ.get("SLUICE_BENCH_EVENTS", "10000 50000").replace(",", " ").split()))
REPLAYED = int(os.environ.get("SLUICE_BENCH_STATEMENTS", "400"))
"""Statements that are judged anew, every one another text."""
PROCESSORS = tuple(map(int, os.environ.get("SLUICE_BENCH_PROCESSORS", "1 2").split()))
"""On so many of the machine's processors, one after the other."""
PART = 5_000_000
"""Events that are in PostgreSQL at once; a part has two days."""
DISK_BYTES = 2_200
"""For each event of a part: rows with their indexes, PostgreSQL's log, and the copies on their way."""
LAPS = 400
MAX_WARMING = 40
"""Times so many laps, at most."""
GROWTH = 1.2
PACK = """\
service: spark
tags:
  - on: {catalog: spark_catalog, database: l0, table: "*", column: c0}
    tags: [PII]
policies: []
"""


@pytest.fixture(scope="module", autouse=True)
def written(record: Record) -> Iterator[None]:
    """Keep the long ones by themselves: they are no part of a run of all others."""
    yield
    if LONG:
        record.write(OUTPUT.with_name("bench-jobs.json"))


class Ground:
    """A PostgreSQL of its own, and settings whose record is in it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o755)
        self.directory = directory
        self._server = EmbeddedPostgres(directory / "postgres", settings={"max_wal_size": "1GB"})
        self.dsn = self._server.start()
        self.pid = int((self._server.data_dir / "postmaster.pid").read_text().split()[0])

    def close(self) -> None:
        self._server.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def job(self, name: str, config: Path, **gives_way: Any) -> Cost:
        words = ("jobs", "run", name, "--json", "-c", str(config))
        cost, _ = run(words, postgres=self.pid, **gives_way)
        return cost


@pytest.fixture
def ground(directory: Path) -> Iterator[Callable[[], Ground]]:
    made: list[Ground] = []

    def make() -> Ground:
        while made:
            made.pop().close()
        made.append(Ground(directory / f"jobs-{os.urandom(4).hex()}"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def require_disk(directory: Path, events: int) -> None:
    """Say before hours of work that they would end for want of room."""
    need, free = min(events, PART) * DISK_BYTES + events * 200, shutil.disk_usage(directory).free
    if free < need:
        pytest.fail(f"{events:,} events need {need / 1e9:.0f} GB of disk, and {free / 1e9:.0f} GB are free")


def grown(record: Record, what: str, costs: dict[int, tuple[Cost, int]]) -> None:
    """Add how the CPU for each row grows from one size to the next. What a run costs without any rows (Spark
    starts) is in both, so that small sizes show less than there is."""
    of_rows = {rows: cost for cost, rows in costs.values()}
    for few, many in pairwise(sorted(of_rows)):
        ratio = (of_rows[many].cpu_s / many) / (of_rows[few].cpu_s / few)
        record.add(
            "Jobs: growth",
            f"{what}, CPU for each, {many:,} to {few:,}",
            f"{ratio:.2f} x",
            aim=f"≤ {GROWTH} x",
            met=ratio <= GROWTH,
            ratio=ratio,
        )


def told(cost: Cost, rows: int) -> tuple[str, dict[str, float]]:
    cpu = cost.cpu_s + cost.postgres_cpu_s
    figures = {
        "events": float(rows),
        "seconds": cost.seconds,
        "cpu_s": cost.cpu_s,
        "postgres_cpu_s": cost.postgres_cpu_s,
        "a_second_and_core": rows / cost.cpu_s,
        "peak_mib": cost.peak_mib,
    }
    text = (
        f"{rows / cost.cpu_s:,.0f} a second and core ({rows / cpu:,.0f} with PostgreSQL's), "
        f"{cost.seconds:,.0f} s, peak {cost.peak_mib:,.0f} MiB"
    )
    return text, figures


@pytest.mark.parametrize("job", ["rollups", "archive"])
async def test_the_record(record: Record, ground: Callable[[], Ground], directory: Path, job: str) -> None:
    """Each over a record of its own, so that hours of the one can be measured without those of the other."""
    costs: dict[str, dict[int, tuple[Cost, int]]] = {}
    for size in SIZES:
        require_disk(directory, size)
        place, left, number = ground(), size, 0
        config = settings(place.directory / "home", place.dsn)
        found: dict[str, tuple[Cost, int]] = {}
        while left:
            part, days = min(left, PART), (2 * number, 2 * number + 1)
            record.begin(f"{part:,} events are made, of {left:,} to go")
            await jobs_record.make(place.dsn, part, days=days)
            record.begin(f"{job} of {part:,} events")
            add(found, job, place.job(job, config), part)
            # Of larger records the first part is the same.
            if job == "archive" and not number and size <= 2 * PART:
                record.begin(f"verify, {part:,} events")
                run(("audit", "seal", "-c", str(config)), postgres=place.pid)
                cost, out = run(("audit", "verify", "--json", "-c", str(config)), postgres=place.pid)
                assert json.loads(out)["events"] >= part - 1
                add(found, "audit verify", cost, part)
                # PostgreSQL's events, and the archive's copies of the same.
                add(found, "verify, of both", place.job("verify", config), part)
            connection = await asyncpg.connect(place.dsn)
            for table in await connection.fetch(
                "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent ="
                " 'sluice.audit_event'::regclass"
            ):
                await connection.execute(f"DROP TABLE {table['name']}")
            await connection.execute("DELETE FROM sluice.archive_day")
            await connection.close()
            left, number = left - part, number + 1
        for name, (cost, rows) in found.items():
            text, figures = told(cost, rows)
            record.add("Jobs: record", f"{name}, {rows:,} events", text, numbers=figures)
            costs.setdefault(name, {})[size] = cost, rows
    for name, of_sizes in costs.items():
        grown(record, name, of_sizes)


def add(found: dict[str, tuple[Cost, int]], name: str, cost: Cost, rows: int) -> None:
    before = found.get(name)
    found[name] = (cost, rows) if before is None else (before[0] + cost, before[1] + rows)


async def test_the_closure(record: Record, ground: Callable[[], Ground]) -> None:
    costs: dict[int, tuple[Cost, int]] = {}
    for size in SIZES:
        place = ground()
        (place.directory / "pack.yaml").write_text(PACK)
        config = settings(place.directory / "home", place.dsn)
        document = json.loads(config.read_text())
        config.write_text(
            json.dumps({**document, "policies": {"paths": [str(place.directory / "pack.yaml")]}})
        )
        record.begin(f"closure: a graph of {size:,} edges is made")
        edges = await jobs_record.make_graph(place.dsn, size)
        record.begin(f"closure of {edges:,} edges")
        costs[size] = place.job("closure", config), edges
        text, figures = told(*costs[size])
        record.add("Jobs: closure", f"{edges:,} edges", text, numbers=figures)
    grown(record, "closure", costs)


@pytest.mark.asyncio(loop_scope="session")
async def test_replay_by_cores(record: Record, ground: Callable[[], Ground], reader: ReaderPool) -> None:
    place, world = ground(), World()
    (place.directory / "old.yaml").write_text(OLD)
    (place.directory / "new.yaml").write_text(NEW)
    config = settings(place.directory / "home", place.dsn)
    tables = place.directory / "tables.yaml"
    catalogs: dict[str, dict[str, dict[str, object]]] = {}
    for name, columns in world.data["tables"].items():
        catalog, database, one = name.split(".")
        catalogs.setdefault(catalog, {}).setdefault(database, {})[one] = {"columns": columns}
    tables.write_text(yaml.safe_dump({"catalogs": catalogs}))
    record.begin(f"replay: {REPLAYED:,} statements are made")
    of_tables = [one for one in STATEMENTS if "nonsense" not in one[1] and "directory" not in one[1]]
    await jobs_record.make_statements(place.dsn, await recorded(world, reader, of_tables), REPLAYED)
    rates = {}
    for cores in PROCESSORS:
        record.begin(f"replay of {REPLAYED:,} statements on {cores} of the machine's processors")
        cost, out = run(
            (
                *("policy", "diff", str(place.directory / "old.yaml"), str(place.directory / "new.yaml")),
                *("--replay", "--since", "2025-12-01", "--tables", str(tables), "--json"),
                *("--master", f"local[{cores}]", "-c", str(config)),
            ),
            postgres=place.pid,
            allowed=(0, 1),
            cores=cores,
        )
        judged = json.loads(out)["judged"]
        assert judged >= REPLAYED * 0.8, out[-2000:]
        rates[cores] = judged / cost.seconds
        text, figures = told(cost, judged)
        record.add("Jobs: replay", f"{judged:,} statements, {cores} cores", text, numbers=figures)
    if not {1, 2} <= rates.keys():
        return
    ratio = rates[2] / rates[1] / 2
    record.add(
        "Jobs: replay",
        "1 core to 2, by time, with what starts",
        f"{ratio:.2f} x linear",
        aim="≥ 0.7 x",
        met=ratio >= 0.7,
        ratio=ratio,
    )


def test_classification(record: Record) -> None:
    rules = classifiers(ClassifySettings())
    scorer = Scorer(rules, Formats(rules.lists, ClassifySettings().regions, today=date(2026, 1, 1)))
    samples = [one.column for one in corpus()]
    record.begin(f"{len(samples)} columns are scored")
    size = sum(len(value.encode()) for sampled in samples for value in sampled.values)
    began = time.process_time()
    for sampled in samples:
        scorer.findings(sampled)
    took = time.process_time() - began
    record.add(
        "Jobs: classification",
        f"{len(samples)} columns of {len(samples[0].values)} values",
        f"{len(samples) / took:,.0f} columns, {size / took / 1e3:,.0f} kB a second and core",
        columns_s=len(samples) / took,
        bytes_s=size / took,
    )


async def test_a_gateway_while_its_record_is_archived(
    record: Record, ground: Callable[[], Ground], direct: Server
) -> None:
    place = ground()
    set_user(
        place.directory / "users.yaml", UNGOVERNED.user, password=PASSWORD, groups=sorted(UNGOVERNED.groups)
    )
    config = settings(place.directory / "home", place.dsn)
    document = json.loads(config.read_text())
    document |= {
        "listeners": {"thrift": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": direct.host, "port": direct.port}},
        "policies": {"paths": [str(POLICIES)]},
        "users": {"file": str(place.directory / "users.yaml")},
        "logging": {"format": "json"},
    }
    config.write_text(json.dumps(document))
    events = min(SIZES[-1], 1_000_000)
    record.begin(f"{events:,} events are made for a gateway's record")
    await jobs_record.make(place.dsn, events, days=(0, 1))
    ended, costs = threading.Event(), list[Cost]()

    def drain() -> None:
        try:
            usual = JobsSettings()
            costs.append(place.job("archive", config, niceness=usual.niceness, share=usual.share))
        finally:
            ended.set()

    def p50(client: RawClient, laps: int, more: Callable[[], bool] = lambda: False) -> float:
        times: list[float] = []
        while len(times) < laps or more():
            times.append(client.in_four_calls("SELECT 1").total_s)
        return median_ms(times)

    running = RunningGateway(config).start()
    try:
        with RawClient(Server(running.host, running.port, UNGOVERNED.user, PASSWORD)) as client:
            record.begin("a gateway and Spark get warm")
            # Spark compiles for two minutes: whoever does not wait compares a cold one to a warm one.
            warm = [p50(client, LAPS), p50(client, LAPS)]
            while len(warm) < MAX_WARMING and min(warm[-2:]) < 0.98 * min(warm[:-2], default=1e9):
                warm.append(p50(client, LAPS))
            record.begin("p50 of a gateway, alone and while the archive drains its PostgreSQL")
            alone = p50(client, LAPS)
            thread = threading.Thread(target=drain)
            thread.start()
            meanwhile = p50(client, 1, lambda: not ended.is_set())
            thread.join()
            alone = min(alone, p50(client, LAPS))
    finally:
        assert running.stop() == 0
    assert costs
    record.add(
        "Jobs: a gateway meanwhile",
        "p50 of SELECT 1 while the archive drains, started by a schedule",
        f"{meanwhile / alone:.2f} x (alone {alone:.2f} ms, meanwhile {meanwhile:.2f} ms, for "
        f"{costs[0].seconds:.0f} s on {os.cpu_count()} cores for client, gateway, job, Spark and PostgreSQL)",
        aim="≤ 1.1 x",
        met=meanwhile <= 1.1 * alone,
        ratio=meanwhile / alone,
        alone_ms=alone,
        meanwhile_ms=meanwhile,
    )
