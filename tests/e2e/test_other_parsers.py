"""A Spark that reads statements otherwise than the parser gets none, however and whenever that came about."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException

from gateway.app import exit_codes
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.e2e.conftest import write_settings
from tests.e2e.jars import make_jar
from tests.e2e.running import PASSWORDS, LoopThread, RunningGateway, Spark, answers, connect, until
from tests.speed import patience

SERVICE = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
PARSER = "other.Loose$Parser"
SALARY = 424242
LOOKS_HARMLESS = "SELECT '--' AS c"
"""A constant to Spark's parser, everybody's salary to the other one."""


class Restartable:
    """A Spark that can be started anew on the same ports, with other settings."""

    def __init__(self, loop: LoopThread, directory: Path) -> None:
        self._loop = loop
        self._directory = directory
        self._process: EmbeddedSpark | None = None

    def start(self, **conf: str) -> Spark:
        before = self._process
        self.stop()
        process = EmbeddedSpark(
            EmbeddedSparkOptions(
                directory=self._directory,
                java=find_java(),
                spark_home=find_spark_home(),
                classes=find_spark_classes(find_java(), find_spark_home()),
                java_options=jdk_openings(),
                start_timeout_s=patience(240),
                thrift_port=before.thrift_port if before is not None else 0,
                connect_port=before.connect_port if before is not None else 0,
                conf=conf,
            ),
            answers,
        )
        if before is not None:
            process.connect_token = before.connect_token
        self._loop.run(process.start())
        self._process = process
        return Spark.of(process)

    def stop(self) -> None:
        if self._process is not None:
            self._loop.run(self._process.stop())


@pytest.fixture
def restartable(session_loop: LoopThread, open_directory: Path) -> Iterator[Restartable]:
    made = Restartable(session_loop, open_directory / "other-spark")
    yield made
    made.stop()


@pytest.fixture
def jar(open_directory: Path) -> Path:
    """The extension."""
    return make_jar("other/Loose.java", open_directory / "loose.jar", {SERVICE: "other.Loose\n"})


def over_connect(session: Any) -> str:
    """Return what a statement of a session is refused with."""
    with pytest.raises(PySparkException) as caught:
        session.sql(LOOKS_HARMLESS).collect()
    return str(caught.value)


def require_closed(gateway: RunningGateway, reason: str) -> None:
    """Nobody gets anything, and everybody who looks is told why."""
    for user, statement in (("alice", LOOKS_HARMLESS), ("bob", "SELECT 1")):
        refusal = gateway.refusal(user, statement)
        assert refusal.startswith("[SLUICE_BACKEND_MISMATCH]"), refusal
        assert reason in refusal
    with gateway.session("alice") as session:
        refusal = over_connect(session)
        assert "SLUICE_BACKEND_MISMATCH" in refusal
        assert reason in refusal
    status, page = gateway.admin("/readyz")
    assert status == 503
    assert page.count(reason) == 2  # of each endpoint
    told = [r for r in gateway.records if r["event"] == "spark_reads_otherwise"]
    assert {record["endpoint"] for record in told} == {"thrift", "connect"}
    assert all(record["level"] == "error" for record in told)
    assert reason in str(told)
    checked = gateway.sluice("check", "--no-parser", str(gateway.config))
    assert checked.returncode == exit_codes.FAULTS
    assert reason in checked.stdout


def ready(gateway: RunningGateway) -> Callable[[], bool]:
    return lambda: gateway.admin("/readyz")[0] == 200


def test_a_spark_that_reads_otherwise_gets_nothing_before_and_after_it_was_started_anew(
    restartable: Restartable, open_directory: Path, jar: Path
) -> None:
    spark = restartable.start(**{"spark.jars": str(jar)})
    spark.query("CREATE DATABASE hr", f"CREATE TABLE hr.employee AS SELECT {SALARY} AS salary", user="loader")
    assert spark.query(LOOKS_HARMLESS) == [(SALARY,)]
    assert spark.query("SET spark.sql.extensions") == [("spark.sql.extensions", "<undefined>")]

    gateway = RunningGateway(write_settings(open_directory / "other-gateway", spark)).start()
    try:
        require_closed(gateway, PARSER)

        # Mended: the gateway finds out by itself.
        spark = restartable.start()
        until(ready(gateway), "the gateway serves again")
        assert gateway.query("alice", LOOKS_HARMLESS) == [("--",)]
        with gateway.session("alice") as session:
            assert session.sql(LOOKS_HARMLESS).collect() == [("--",)]
            thrift = connect(gateway.host, gateway.port, "alice", PASSWORDS["alice"])
            cursor = thrift.cursor()
            cursor.execute(LOOKS_HARMLESS)
            assert cursor.fetchall() == [("--",)]

            # Behind the gateway's back, with sessions open over both endpoints.
            restartable.start(**{"spark.sql.extensions": "does.not.Exist"})
            gateway.records.clear()
            with pytest.raises(Exception, match="SLUICE_BACKEND"):
                cursor.execute(LOOKS_HARMLESS)
            with contextlib.suppress(hive.OperationalError):  # the session is closed already
                thrift.close()
            over_connect(session)  # Spark has lost it, and PySpark does not come again
        require_closed(gateway, "does.not.Exist")
    finally:
        assert gateway.stop() == 0
