"""One real Spark with the demo's data, and one gateway before it, for the whole test session."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import demo_data
from gateway.app.rules import shipped_rules
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.demo_tour import ENGINEER, PEOPLE
from gateway.frontends.users import set_user
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.e2e import lab
from tests.e2e.connect.worker_python import worker_python
from tests.e2e.running import LoopThread, RunningGateway, Spark, answers, query
from tests.e2e.tpch_session import tpch
from tests.e2e.wire_comparison import pair

__all__ = ["pair", "tpch"]


JDBC_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
SECOND_CATALOG = {
    "spark.sql.catalog.paimon": JDBC_CATALOG,
    "spark.sql.catalog.paimon.url": "jdbc:derby:memory:paimon;create=true",
    "spark.sql.catalog.paimon.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
}
"""A catalog beside Spark's own, in memory; it is made when it is first named."""


@pytest.fixture(scope="session")
def session_loop() -> Iterator[LoopThread]:
    thread = LoopThread()
    yield thread
    thread.close()


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """A new directory that Spark's and PostgreSQL's unprivileged user can reach; pytest's own are closed."""
    directory = Path(tempfile.mkdtemp(prefix="sluice-test-"))
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def spark(session_loop: LoopThread, open_directory: Path) -> Iterator[Spark]:
    process = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=open_directory / "spark",
            java=find_java(),
            spark_home=find_spark_home(),
            java_options=jdk_openings(),
            heap="1g",
            conf=SECOND_CATALOG,
            python=worker_python(open_directory),
        ),
        answers,
    )
    session_loop.run(process.start())
    try:
        query(process.host, process.thrift_port, "loader", *(sql for _, sql in demo_data.statements()))
        yield Spark(
            process.host,
            process.thrift_port,
            process.connect_port,
            process.user,
            process,
            process.connect_token,
        )
    finally:
        session_loop.run(process.stop())


def write_settings(directory: Path, spark: Spark) -> Path:
    """Write settings, users and a copy of the shipped packs for a gateway before the test session's Spark."""
    directory.mkdir()
    directory.chmod(0o711)
    for person in (*PEOPLE, ENGINEER):
        set_user(
            directory / "users.yaml",
            person.name,
            password=person.password,
            groups=list(person.groups),
            attributes=dict(person.attributes),
        )
    shutil.copytree(shipped_rules() / "policies", directory / "policies")
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": spark.backend_settings(directory),
        "policies": {"paths": ["policies"], "reload_s": 0.2},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file


@pytest.fixture(scope="session")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway with the demo's users and packs; tests must leave both as they were."""
    running = RunningGateway(write_settings(open_directory / "gateway", spark)).start()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="session")
def lab_gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """A gateway with the packs of the lab and of TPC-H, before the same Spark."""
    spark.query(*lab.TABLES, user="loader")
    running = RunningGateway(lab.write_settings(open_directory / "lab", spark)).start()
    yield running
    assert running.stop() == 0
