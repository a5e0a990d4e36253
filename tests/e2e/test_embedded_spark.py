"""The embedded Spark answers, keeps its tables, runs unprivileged and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.errors import BackendUnavailable
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.e2e.running import LoopThread, Spark, answers
from tests.speed import patience

PARENT = """
import asyncio, sys
from pathlib import Path
from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings

async def never(host, port):
    raise ConnectionError("not ready")

async def main():
    spark = EmbeddedSpark(EmbeddedSparkOptions(directory=Path(sys.argv[1]), java=find_java(), heap="256m",
        spark_home=find_spark_home(), java_options=jdk_openings()), never)
    await spark.start(lambda line: print(spark.pid, line, flush=True))

asyncio.run(main())
"""


def options(directory: Path, **changes: object) -> EmbeddedSparkOptions:
    values = {
        "directory": directory,
        "java": find_java(),
        "spark_home": find_spark_home(),
        "java_options": jdk_openings(),
        "heap": "256m",
    } | changes
    return EmbeddedSparkOptions(**values)  # type: ignore[arg-type]


def wait_until_gone(pid: int) -> bool:
    deadline = time.monotonic() + patience()
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def test_the_demo_data_are_there_and_the_same_everywhere(spark: Spark) -> None:
    assert spark.query("SELECT count(*), count(DISTINCT name), count(DISTINCT ssn) FROM hr.employee") == [
        (200, 200, 200)
    ]
    assert spark.query("SELECT count(*), count(DISTINCT email) FROM sales.customer") == [(5000, 5000)]
    assert spark.query("SELECT count(*) FROM sales.orders") == [(100_000,)]
    # Fixed values: a change of the data must be meant, because every document quotes them.
    assert spark.query("SELECT name, email, region FROM hr.employee WHERE id IN (1, 4) ORDER BY id") == [
        ("Liam Haddad", "liam.haddad@northwind.example", "AMER"),
        ("Alice Gupta", "alice@northwind.example", "EMEA"),
    ]
    regions = spark.query("SELECT region, count(*) FROM sales.orders GROUP BY region ORDER BY region")
    assert regions == [("AMER", 35695), ("APAC", 22762), ("EMEA", 41543)]


def test_every_card_number_has_a_valid_check_digit(spark: Spark) -> None:
    for (card,) in spark.query("SELECT card FROM sales.customer WHERE id <= 300"):
        digits = [int(digit) for digit in reversed(card.replace(" ", ""))]
        doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[1::2]]
        assert (sum(digits[0::2]) + sum(doubled)) % 10 == 0, card


def test_variables_in_text_are_not_replaced(spark: Spark) -> None:
    assert spark.query("SELECT '${spark.app.name}'") == [("${spark.app.name}",)]


def test_spark_does_not_run_as_root(spark: Spark) -> None:
    pid = spark.pid
    assert psutil.Process(pid).uids().effective != 0
    if os.geteuid() == 0:
        assert spark.user == psutil.Process(pid).username()


def test_both_ports_are_bound_to_this_machine_only(spark: Spark) -> None:
    pid = spark.pid
    listening = [c for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {spark.port, spark.connect_port} <= {c.laddr.port for c in listening}
    assert {c.laddr.ip.removeprefix("::ffff:") for c in listening} == {"127.0.0.1"}


def test_a_second_spark_in_the_same_directory_is_refused_at_once(
    spark: Spark, session_loop: LoopThread
) -> None:
    second = EmbeddedSpark(options(spark.directory), answers)
    with pytest.raises(BackendUnavailable, match="another embedded Spark uses"):
        session_loop.run(second.start())


def test_a_spark_that_cannot_start_says_why_and_leaves_nothing(
    session_loop: LoopThread, open_directory: Path
) -> None:
    broken = EmbeddedSpark(options(open_directory / "broken", heap="1g1"), answers)
    with pytest.raises(BackendUnavailable, match="Invalid maximum heap size"):
        session_loop.run(broken.start())
    assert broken.pid is None


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda s: s.name)
def test_spark_dies_with_its_parent(open_directory: Path, how: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(open_directory / f"orphan-{how}")],
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline().split()[0])
        assert psutil.pid_exists(pid)
        parent.send_signal(how)
        parent.wait(patience())
        assert wait_until_gone(pid), "Spark outlived its parent"


def test_classes_come_from_the_archive_if_there_is_one(spark: Spark) -> None:
    """`make classes`, before `make test`, makes it; Java says nothing of one that it does not take."""
    classes = find_spark_classes(find_java(), find_spark_home())
    mapped = {Path(region.path) for region in psutil.Process(spark.pid).memory_maps()}
    ours = {path for path in mapped if path.name.startswith("sluice-spark-") and path.suffix == ".jsa"}
    assert ours == (set() if classes is None else {Path(classes.option.partition("=")[2]).resolve()})
