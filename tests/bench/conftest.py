"""A Spark that is as fast as it can be, one gateway before it, and the record of what was measured."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.frontends.users import set_user
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.bench.bare_relay import BareRelay
from tests.bench.figures import OUTPUT, Record, conditions, table
from tests.bench.processes import stub_spark
from tests.bench.raw_client import Server
from tests.e2e.running import LoopThread, RunningGateway, answers
from tests.tpch.governed import POLICIES, UNGOVERNED

PASSWORD = "correct horse battery"
SESSIONS = 1000
"""Room for so many: Spark itself takes 500 connections unless told otherwise."""
QUICK = os.environ.get("SLUICE_BENCH_QUICK", "") not in ("", "0")
"""Whether a tenth of everything will do, to try the benchmarks themselves."""
HERE = Path(__file__).parent
ROOMS = (
    "policy",
    "lineage",
    "judge",
    "connect_judge",
    "ledger",
    "session",
    "fleet",
    "statement",
    "fetch",
    "http",
    "login",
    "filter",
    "governed",
    "catalog",
    "connect",
    "lineage_live",
)
ORDER = tuple(f"test_{what}_figures.py" for what in ROOMS)
RECORD = pytest.StashKey[Record]()


def rows(cursor: Any, text: str) -> list[str]:
    """Return what a statement gives, in an order of its own."""
    cursor.execute(text)
    return sorted(map(repr, cursor.fetchall()))


@pytest.fixture(scope="session")
def record(pytestconfig: pytest.Config) -> Record:
    return pytestconfig.stash.setdefault(RECORD, Record())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Measure without Spark first, and memory of sessions while the gateway's has no holes yet."""
    ours = [item for item in items if item.path.parent == HERE and item.path.name in ORDER]
    ours.sort(key=lambda item: ORDER.index(item.path.name))
    items[:] = [item for item in items if item not in ours] + ours


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    record = config.stash.get(RECORD, None)
    if record is None or not record.figures:
        return
    terminalreporter.write_line(table(record.figures))
    terminalreporter.write_line(f"\n{conditions(record.document())}")
    if not QUICK and not config.option.keyword:
        # A part of the benchmarks does not take the place of a whole run.
        record.write()
        terminalreporter.write_line(f"written to {OUTPUT}")


@pytest.fixture(scope="session")
def quick() -> bool:
    return QUICK


@pytest.fixture(scope="session")
def directory() -> Iterator[Path]:
    """A new directory that Spark's and PostgreSQL's unprivileged user can reach."""
    made = Path(tempfile.mkdtemp(prefix="sluice-bench-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def spark(record: Record, directory: Path) -> Iterator[EmbeddedSpark]:
    """Spark itself, with Java's optimising compiler: the faster Spark is, the more a gateway shows."""
    record.progress("Spark starts")
    thread = LoopThread()
    spark = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=directory / "spark",
            java=find_java(),
            spark_home=find_spark_home(),
            classes=find_spark_classes(find_java(), find_spark_home()),
            # Rows come from memory: a fetch that waits for Spark to compute would flatter the ratio.
            conf={
                "spark.sql.thriftServer.incrementalCollect": "false",
                "spark.hadoop.hive.server2.thrift.max.worker.threads": str(SESSIONS),
            },
            java_options=(*jdk_openings(), "-Xmn1536m"),
            heap="5g",
            quick_start=False,
        ),
        answers,
    )
    thread.run(spark.start())
    try:
        yield spark
    finally:
        thread.run(spark.stop())
        thread.close()


@pytest.fixture(scope="session")
def direct(spark: EmbeddedSpark) -> Server:
    """Spark's HiveServer2."""
    return Server(spark.host, spark.thrift_port, "direct")


@pytest.fixture(scope="session")
def bare(direct: Server) -> Iterator[BareRelay]:
    """What a second hop alone costs HiveServer2's clients: nothing can be nearer to a direct connection."""
    with BareRelay("thrift", direct.host, direct.port) as relay:
        yield relay


@pytest.fixture(scope="session")
def bare_connect(spark: EmbeddedSpark) -> Iterator[BareRelay]:
    """The same for Spark Connect's clients."""
    with BareRelay("connect", spark.host, spark.connect_port) as relay:
        yield relay


@pytest.fixture(scope="session")
def gateway(record: Record, direct: Server, directory: Path) -> Iterator[RunningGateway]:
    """`sluice serve` in a process of its own, with room for many sessions of one user."""
    record.progress("the gateway starts")
    home = directory / "gateway"
    home.mkdir(mode=0o711)
    set_user(home / "users.yaml", UNGOVERNED.user, password=PASSWORD, groups=sorted(UNGOVERNED.groups))
    settings = {
        "listeners": {"thrift": {"port": 0}, "thrift_http": {"port": 0}, "admin": {"port": 0}},
        "backend": {"thrift": {"host": direct.host, "port": direct.port}},
        "policies": {"paths": [str(POLICIES)]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"per_user": SESSIONS},
        "logging": {"format": "json"},
    }
    (home / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(home / "gateway.yaml").start()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def governed_http(gateway: RunningGateway) -> Server:
    """The same over HTTP."""
    return Server(gateway.host, gateway.http_port, UNGOVERNED.user, PASSWORD)


@pytest.fixture(scope="session")
def connect_gateway(record: Record, spark: EmbeddedSpark, directory: Path) -> Iterator[RunningGateway]:
    """A gateway for Spark Connect alone, so that neither door's memory is in the other's figures."""
    record.progress("a gateway for Spark Connect starts")
    home = directory / "connect"
    home.mkdir(mode=0o711)
    set_user(home / "users.yaml", UNGOVERNED.user, password=PASSWORD, groups=sorted(UNGOVERNED.groups))
    (home / "token").touch(mode=0o600)
    (home / "token").write_text(spark.connect_token)
    settings = {
        "listeners": {"connect": {"port": 0}, "admin": {"port": 0}},
        "backend": {"connect": {"host": spark.host, "port": spark.connect_port, "token": {"file": "token"}}},
        "policies": {"paths": [str(POLICIES)]},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"per_user": SESSIONS},
        "logging": {"format": "json"},
    }
    (home / "gateway.yaml").write_text(json.dumps(settings))
    running = RunningGateway(home / "gateway.yaml").start()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def governed(gateway: RunningGateway) -> Server:
    """The gateway as clients see it."""
    return Server(gateway.host, gateway.port, UNGOVERNED.user, PASSWORD)


@pytest.fixture(scope="module")
def stub() -> Iterator[dict[str, int]]:
    """A stub Spark in a process of its own."""
    with stub_spark() as ports:
        yield ports
