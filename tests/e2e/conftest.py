"""One real Spark for the whole test session, with the demo's data."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import demo_data
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.e2e.running import LoopThread, Spark, answers, query


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
        ),
        answers,
    )
    session_loop.run(process.start())
    try:
        query(process.host, process.thrift_port, "loader", *(sql for _, sql in demo_data.statements()))
        yield Spark(process.host, process.thrift_port, process.connect_port, process.user, process)
    finally:
        session_loop.run(process.stop())
