"""Governed through the gateway, against data that were governed by hand: on Spark itself, without a gateway.

The TPC queries at their smallest, where what each statement costs beside its rows shows most; and a table of
many partitions with a filter, alone and as the fact table of a star whose dimension has a filter too.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive

from gateway.backends.embedded_spark import EmbeddedSpark
from gateway.frontends.users import set_user
from gateway.model.statement import Cleared, PlanRequest
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from gateway.wire.connect import pb
from tests.bench.conftest import PASSWORD, rows
from tests.bench.figures import Record, in_turns
from tests.e2e.running import RunningGateway, connect_session
from tests.judge_world import World
from tests.plan.frames import message, sql
from tests.tpcds import generator as tpcds_data
from tests.tpcds import governed as tpcds
from tests.tpcds.schema import QUERIES as TPCDS
from tests.tpch import generator as tpch_data
from tests.tpch import governed as tpch
from tests.tpch.schema import QUERIES as TPCH

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

SECTION = "Governed against governed by hand"
FACT, DAYS = "region <> 'hidden'", "number % 10 <> 7"
STARS = {
    "a count of one of the partitions": (
        "SELECT count(*), sum(amount) FROM {fact} WHERE day = DATE'2024-02-01'",
        r"\(day = 2024-02-01\)",
    ),
    "a star join": (
        "SELECT d.number, count(*), sum(f.amount) FROM {fact} f JOIN {days} d ON f.day = d.day "
        "WHERE d.number BETWEEN 25 AND 28 GROUP BY d.number",
        "dynamicpruning",
    ),
}
PEOPLE = {one.user: one.groups for one in (tpch.GOVERNED, tpcds.GOVERNED)} | {"sam": frozenset({"stars"})}
PACK = f"""
service: spark
policies:
  - name: stars
    on: {{catalog: spark_catalog, database: stars, table: "*", column: "*"}}
    allow: [{{groups: [stars], access: [select]}}]
  - name: facts
    on: {{catalog: spark_catalog, database: stars, table: fact}}
    filter: [{{groups: [stars], where: "{FACT}"}}]
  - name: days
    on: {{catalog: spark_catalog, database: stars, table: days}}
    filter: [{{groups: [stars], where: "{DAYS}"}}]
  - name: few partitions of shuffles
    on: {{setting: spark.sql.shuffle.partitions}}
    allow: [{{groups: [public], access: [set]}}]
"""


@pytest.fixture(scope="module")
def policed(record: Record, spark: EmbeddedSpark, directory: Path) -> Iterator[RunningGateway]:
    """A gateway with the packs of both, on both endpoints."""
    record.progress("a gateway with policies starts")
    home = directory / "policed"
    home.mkdir(mode=0o711)
    for user, groups in PEOPLE.items():
        set_user(home / "users.yaml", user, password=PASSWORD, groups=sorted(groups))
    (home / "token").touch(mode=0o600)
    (home / "token").write_text(spark.connect_token)
    (home / "stars.yaml").write_text(PACK)
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": {
            "thrift": {"host": spark.host, "port": spark.thrift_port},
            "connect": {"host": spark.host, "port": spark.connect_port, "token": {"file": "token"}},
        },
        "policies": {"paths": [str(tpch.POLICIES), str(tpcds.POLICIES), "stars.yaml"]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    (home / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(home / "gateway.yaml").start()
    yield running
    assert running.stop() == 0


def directly(spark: EmbeddedSpark) -> Any:
    """Return a connection to Spark itself."""
    return hive.connect(host=spark.host, port=spark.thrift_port, username="direct", auth="NONE")


@pytest.fixture(scope="module")
def straight(spark: EmbeddedSpark) -> Iterator[Any]:
    """A cursor of Spark's own."""
    with closing(directly(spark)) as connection:
        yield connection.cursor()


def views(statements: Iterable[str]) -> Iterator[str]:
    """Yield what makes views of the same content instead of copies."""
    for one in statements:
        made, tables = re.subn(r"CREATE TABLE (\S+) USING parquet AS", r"CREATE VIEW \1 AS", one)
        assert tables == 1 or one.startswith("CREATE DATABASE"), one
        yield made


def through(gateway: RunningGateway, user: str) -> Any:
    """Return a connection to the gateway."""
    host, port = gateway.host, gateway.port
    return hive.connect(host=host, port=port, username=user, auth="CUSTOM", password=PASSWORD)


@pytest.mark.parametrize(
    ("name", "queries", "data", "governed"),
    [("TPC-H", TPCH, tpch_data, tpch), ("TPC-DS", TPCDS, tpcds_data, tpcds)],
    ids=["tpch", "tpcds"],
)
def test_the_total_of_all_queries(
    record: Record,
    spark: EmbeddedSpark,
    straight: Any,
    policed: RunningGateway,
    quick: bool,
    name: str,
    queries: Mapping[str, str],
    data: Any,
    governed: Any,
) -> None:
    database = name.replace("-", "").lower()
    record.progress(f"Spark computes {name}, twice")
    for text in (
        *data.statements(database),
        *governed.copy_statements(database, f"{database}_governed"),
        *views(governed.copy_statements(database, f"{database}_views")),
    ):
        straight.execute(text)
    rounds = 1 if quick else 7
    with closing(through(policed, governed.GOVERNED.user)) as ours, closing(directly(spark)) as own:
        cursor, viewing = ours.cursor(), own.cursor()
        sides = {straight: f"{database}_governed", viewing: f"{database}_views", cursor: database}
        for one, namespace in sides.items():
            one.execute(f"USE {namespace}")
            one.execute("SET spark.sql.shuffle.partitions=2")
        record.begin(f"{name}: {len(queries)} queries, {rounds} rounds")
        for text in queries.values():
            expected = rows(straight, text)
            assert all(rows(one, text) == expected for one in (viewing, cursor))
        took: dict[Any, list[list[float]]] = {one: [[] for _ in queries] for one in sides}
        for n in range(rounds):
            for i, text in enumerate(queries.values()):
                # Whoever comes second finds warmer caches: they take turns.
                turn = (n + i) % len(sides)
                for one in (*list(sides)[turn:], *list(sides)[:turn]):
                    began = time.perf_counter()
                    rows(one, text)
                    took[one][i].append(time.perf_counter() - began)
    # A collection of garbage in one query of a round is nothing of how it is governed.
    governed_s, views_s, theirs = (
        sum(map(statistics.median, took[one])) for one in (cursor, viewing, straight)
    )
    record.add(
        SECTION,
        f"{name}, {len(queries)} queries",
        f"{governed_s / theirs:.2f} × ({governed_s:.2f} s, by hand {theirs:.2f} s); {views_s / theirs:.2f} × "
        "Spark alone, whose views have the same filters and masks",
        aim="≤ 1.15 ×",
        met=governed_s <= 1.15 * theirs,
        ratio=governed_s / theirs,
        governed_s=governed_s,
        by_hand_s=theirs,
        views_s=views_s,
    )


@pytest.fixture(scope="module")
def stars(record: Record, straight: Any, quick: bool) -> None:
    partitions = 40 if quick else 200
    record.progress(f"Spark writes {partitions} partitions of 3 files, twice")
    made = "USING parquet PARTITIONED BY (day) AS SELECT /*+ REPARTITION(3) */"
    for text in (
        "CREATE DATABASE stars",
        f"CREATE TABLE stars.fact {made} id, CAST(id % 1000 AS DECIMAL(10,2)) AS amount, "
        "IF(id % 10 = 0, 'hidden', concat('r', id % 4)) AS region, "
        f"date_add(DATE'2024-01-01', CAST(id % {partitions} AS INT)) AS day FROM range({partitions * 6000})",
        "CREATE TABLE stars.days USING parquet AS SELECT date_add(DATE'2024-01-01', CAST(id AS INT)) AS day, "
        f"CAST(id AS INT) AS number FROM range({partitions})",
        f"CREATE TABLE stars.fact_copy {made} * FROM stars.fact WHERE {FACT}",
        f"CREATE TABLE stars.days_copy USING parquet AS SELECT * FROM stars.days WHERE {DAYS}",
    ):
        straight.execute(text)


@pytest.fixture(scope="module")
def world() -> World:
    """The same tables and policies, for what a gateway forwards: it shows nobody plans of filtered tables."""
    fact = {"id": "bigint", "amount": "decimal(10,2)", "region": "string", "day": "date"}
    return World(
        {
            "catalogs": ["spark_catalog"],
            "tables": {
                "spark_catalog.stars.fact": fact,
                "spark_catalog.stars.days": {"day": "date", "number": "int"},
            },
            "views": {},
            "people": {"sam": {"groups": ["stars"]}},
            "pack": PACK,
        }
    )


async def forwarded(world: World, reader: ReaderPool, text: str, endpoint: str) -> Cleared:
    if endpoint == "HiveServer2":
        verdict = await world.judge(text, reader, user="sam", rules=Rules())
    else:
        plan = PlanRequest(kind="execute", message=message(sql(text)).SerializeToString())
        verdict = await world.judge_plan(plan, reader, user="sam", rules=Rules())
    assert isinstance(verdict, Cleared), verdict
    return verdict


def pruned_by(plan: str) -> list[str]:
    """Return by what each scan of a plan chooses partitions, without the numbers of expressions."""
    found = re.findall(r"PartitionFilters: \[(.*)\]", plan)
    return sorted(re.sub(r"#\d+", "", one) for one in found)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("endpoint", ["HiveServer2", "Spark Connect"])
@pytest.mark.parametrize("name", STARS)
async def test_partitions_and_stars(
    record: Record,
    spark: EmbeddedSpark,
    world: World,
    reader: ReaderPool,
    straight: Any,
    policed: RunningGateway,
    stars: None,
    quick: bool,
    name: str,
    endpoint: str,
) -> None:
    """The same partitions are chosen, so the same files are read; and it takes about as long."""
    template, pruning = STARS[name]
    by_hand = template.format(fact="stars.fact_copy", days="stars.days_copy")
    text = template.format(fact="stars.fact", days="stars.days")
    warm_up, rounds = (1, 3) if quick else (10, 41)
    governed_as = await forwarded(world, reader, text, endpoint)
    if endpoint == "HiveServer2":
        plans = [
            "\n".join(rows(straight, f"EXPLAIN FORMATTED {one}")) for one in (by_hand, governed_as.forwarded)
        ]
        connection = through(policed, "sam")
        cursor = connection.cursor()
        sides = {"by hand": lambda: rows(straight, by_hand), "governed": lambda: rows(cursor, text)}
        close = connection.close
    else:
        direct = connect_session(spark.connect_port, spark.connect_token, "direct")
        governed = connect_session(policed.connect_port, f"sam:{PASSWORD}")
        one, other = direct.__enter__(), governed.__enter__()
        sent = pb.Plan.FromString(governed_as.forwarded_plan)
        plans = [
            one._client._analyze("explain", plan=plan, explain_mode="formatted").explain_string
            for plan in (message(sql(by_hand)), sent)
        ]
        sides = {
            "by hand": lambda: sorted(map(repr, one.sql(by_hand).collect())),
            "governed": lambda: sorted(map(repr, other.sql(text).collect())),
        }

        def close() -> None:
            governed.__exit__(None, None, None)
            direct.__exit__(None, None, None)

    chosen = [pruned_by(plan.replace("\\n", "\n")) for plan in plans]
    assert any(re.search(pruning, one) for one in chosen[0]), plans[0]
    same = any(re.search(pruning, one) for one in chosen[1])
    assert sides["governed"]() == sides["by hand"]()
    record.begin(f"{name}, {endpoint}: {rounds} rounds")
    took = in_turns(sides, warm_up=warm_up, rounds=rounds)
    close()
    ours, theirs = (statistics.median(took[side]) for side in ("governed", "by hand"))
    record.add(
        SECTION,
        f"{name}, {endpoint}",
        f"{ours / theirs:.2f} × ({1e3 * ours:.0f} ms, by hand {1e3 * theirs:.0f} ms); partitions are chosen "
        f"{'as by hand' if same else 'otherwise'}",
        aim="≤ 1.3 ×, same files",
        met=same and ours <= 1.3 * theirs,
        ratio=ours / theirs,
        governed_ms=1e3 * ours,
        by_hand_ms=1e3 * theirs,
    )
