"""The Spark of end-to-end tests: how it is set up, and how one stays up between runs (`make lab`).

`python -m tests.e2e.standing` starts it, says when it is ready and stops it on Ctrl-C. A run of pytest
without lanes finds it and uses it instead of one of its own; what a run made is dropped before and after.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import tempfile
from pathlib import Path

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.demo import data as demo_data
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.e2e.connect.worker_python import worker_python
from tests.e2e.running import Spark, answers, query
from tests.speed import patience

FILE = Path(__file__).parents[2] / ".run" / "lab.json"
"""Where a standing Spark says how to reach it."""

JDBC_CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
CONF = {
    # A catalog beside Spark's own, in memory; it is made when it is first named.
    "spark.sql.catalog.paimon": JDBC_CATALOG,
    "spark.sql.catalog.paimon.url": "jdbc:derby:memory:paimon;create=true",
    "spark.sql.catalog.paimon.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    # Tables of a few rows need no parallelism. Generated code stays on, as in production; suites of many
    # queries turn it off for their sessions.
    "spark.sql.shuffle.partitions": "1",
    # What was compiled for a program in one of the ways that it is run in serves the others: 1,000 are few.
    "spark.sql.codegen.cache.maxEntries": "5000",
    # Each statement of Spark Connect is a new thread to the metastore, which first tries, by five queries for
    # each, whether Derby takes SQL of its own. Without that some filters of partitions are left to Spark.
    "spark.hadoop.hive.metastore.try.direct.sql": "false",
    "spark.sql.hive.metastorePartitionPruningFallbackOnException": "true",
    # Nor is it brought up to date many times a second.
    "spark.ui.liveUpdate.period": "1h",
    # What a web page would show of thousands of statements fills the heap; there is no page.
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.thriftserver.ui.retainedStatements": "10",
    "spark.sql.thriftserver.ui.retainedSessions": "10",
    "spark.connect.ui.retainedStatements": "10",
    "spark.connect.ui.retainedSessions": "10",
}
HEAP = "2g"
OWN_DATABASES = frozenset({"default", "hr", "sales"})
"""Spark's own, and those of the demo, which every run reads and none changes."""


def server(directory: Path, shelter: Path, *, heap: str = HEAP, thrift_port: int = 0) -> EmbeddedSpark:
    """Return a Spark for tests, to be started; `shelter` is a directory that its user can reach."""
    return EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=directory,
            java=find_java(),
            spark_home=find_spark_home(),
            java_options=jdk_openings(),
            classes=find_spark_classes(find_java(), find_spark_home()),
            start_timeout_s=patience(240),
            heap=heap,
            thrift_port=thrift_port,
            conf=CONF,
            python=worker_python(shelter),
        ),
        answers,
    )


def loaded(spark: Spark) -> Spark:
    """Return the same Spark, with the demo's tables in it."""
    query(spark.host, spark.port, "loader", *(sql for _, sql in demo_data.statements()))
    return spark


def find() -> Spark | None:
    """Return the Spark that `make lab` keeps, if one is there."""
    try:
        told = json.loads(FILE.read_text())
        os.kill(told["keeper"], 0)
    except (OSError, ValueError, KeyError):
        return None
    fields = {name: told[name] for name in ("host", "port", "connect_port", "user", "connect_token", "pid")}
    return Spark(**fields, directory=Path(told["directory"]))


def tidy(spark: Spark) -> None:
    """Drop every database that a run of tests made, and what it cached."""
    found = [name for (name,) in spark.query("SHOW DATABASES", user="loader")]
    drops = [f"DROP DATABASE `{name}` CASCADE" for name in found if name not in OWN_DATABASES]
    tables = [row[1] for row in spark.query("SHOW TABLES IN default", user="loader")]
    drops += [f"DROP TABLE IF EXISTS default.`{name}`" for name in tables]
    spark.query("CLEAR CACHE", *drops, user="loader")


def announce(spark: Spark) -> None:
    """Write down how to reach a Spark that this process keeps."""
    told = {**dataclasses.asdict(spark), "directory": str(spark.directory), "keeper": os.getpid()}
    FILE.parent.mkdir(exist_ok=True)
    FILE.touch(mode=0o600)
    FILE.write_text(json.dumps(told))
    print("Ready: tests use it, e.g. `.venv/bin/python -m pytest tests/e2e/test_serve.py`.")
    print("Ctrl-C stops it.", flush=True)


async def keep(directory: Path) -> None:
    """Keep a Spark until SIGINT or SIGTERM, or until it ends by itself."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    process = server(directory / "spark", directory)
    await process.start(lambda line: print(line, flush=True))
    try:
        announce(await asyncio.to_thread(loaded, Spark.of(process)))
        ends = [asyncio.ensure_future(process.wait_for_exit()), asyncio.ensure_future(stop.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
    finally:
        FILE.unlink(missing_ok=True)
        await process.stop()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sluice-lab-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        asyncio.run(keep(Path(name)))
    print("Stopped; nothing is left running.")


if __name__ == "__main__":
    main()
