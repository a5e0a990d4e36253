"""A Spark that is killed and started anew in the middle of a history: nothing that was kept of it shows more.

What a gateway remembers of a session (its temporary views, its database) is of a process that is no more: in
the next one the same names would reach tables.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyhive.exc import Error as HiveError
from pyspark.errors import PySparkException
from thrift.transport.TTransport import TTransportException

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.reader.class_archive import find_spark_classes
from gateway.reader.java_runtime import find_java, find_spark_home, jdk_openings
from tests.e2e.one_pack import PASSWORD, Thrift, sessions, write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark, answers, connect_session, until
from tests.speed import patience

pytestmark = [pytest.mark.night, pytest.mark.timeout(1800)]

PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: anew, table: "*", column: "*"}
    allow: [{users: [ann, bob], access: [use, select, refresh, create, drop]}]
  - name: own rows
    on: {catalog: spark_catalog, database: anew, table: owned}
    filter: [{users: [ann, bob], where: "own = current_user()"}]
"""
MADE = (
    "CREATE DATABASE anew",
    "CREATE TABLE anew.owned USING parquet AS SELECT * FROM VALUES (1, 'ann'), (2, 'bob') AS t(id, own)",
    "CREATE TABLE anew.open USING parquet AS SELECT * FROM VALUES (7, 'x') AS t(id, own)",
)


@pytest.fixture
def process(session_loop: LoopThread, open_directory: Path) -> Iterator[EmbeddedSpark]:
    made = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=open_directory / "spark-anew",
            java=find_java(),
            spark_home=find_spark_home(),
            classes=find_spark_classes(find_java(), find_spark_home()),
            java_options=jdk_openings(),
            start_timeout_s=patience(240),
            heap="768m",
        ),
        answers,
    )
    session_loop.run(made.start())
    try:
        yield made
    finally:
        session_loop.run(made.stop())


def kill(process: EmbeddedSpark, loop: LoopThread) -> None:
    """Kill Spark and start it again: the same ports, tables and views."""
    os.kill(Spark.of(process).pid, signal.SIGKILL)
    loop.run(process.stop())
    loop.run(process.start())


def test_what_was_made_before_reaches_nothing_afterwards(
    process: EmbeddedSpark, open_directory: Path, session_loop: LoopThread
) -> None:
    spark = Spark.of(process)
    spark.query(*MADE, user="loader")
    settings = write_settings(open_directory / "anew", spark, PACK, {"ann": (), "bob": ()})
    gateway = RunningGateway(settings).start()
    token = f"ann:{PASSWORD}"
    try:
        with connect_session(gateway.connect_port, token) as ann, sessions(gateway) as ask:
            bob = Thrift(gateway, "bob")
            ann.sql("USE anew")
            # A temporary view in front of a table.
            ann.sql("CREATE TEMPORARY VIEW owned AS SELECT * FROM anew.open")
            assert ann.sql("SELECT id FROM owned").collect() == [(7,)]
            ann.sql("CREATE VIEW anew.v AS SELECT id FROM anew.owned")
            assert bob("SELECT id FROM anew.v") == [(2,)]
            kill(process, session_loop)
            for text in ("SELECT id FROM owned", "SELECT id FROM anew.owned"):
                with pytest.raises(PySparkException, match=r"SESSION|HANDLE|SLUICE"):
                    ann.sql(text).collect()
            with pytest.raises((HiveError, TTransportException)):
                bob("SELECT id FROM anew.owned")
            with contextlib.suppress(HiveError, TTransportException):
                bob.close()
            ann.release_session_on_close = False
            until(lambda: gateway.admin("/readyz")[0] == 200, "the gateway has found it", 300)
            # Who says nothing of the session that was, under its id.
            with connect_session(gateway.connect_port, token, session_id=ann.session_id) as again:
                with pytest.raises(PySparkException):
                    again.sql("SELECT id FROM owned").collect()
                again.sql("USE anew")
                assert again.sql("SELECT id FROM owned").collect() == [(1,)]
            for endpoint in ("thrift", "connect"):
                assert ask(endpoint, "bob")("SELECT id FROM anew.v") == [(2,)]
    finally:
        assert gateway.stop() == 0
