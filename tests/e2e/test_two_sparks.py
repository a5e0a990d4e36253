"""Two Sparks of different minors and metastores behind two gateways: one table name, two tables."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException
from thrift.transport.TSocket import TSocket
from thrift_sasl import TSaslClientTransport

from gateway.backends.embedded_spark import EmbeddedSpark, EmbeddedSparkOptions
from gateway.model.spark_minors import Minor
from gateway.reader.java_runtime import find_java, find_spark_of, jdk_openings
from tests.e2e.one_pack import PASSWORD, write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark, answers, until
from tests.speed import patience

pytestmark = [pytest.mark.night, pytest.mark.timeout(1800)]

JARS = Path("~/.cache/sluice/spark-jars").expanduser()
PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: two, table: "*", column: "*"}
    allow: [{users: [ann, bob], access: [use, select, create, drop]}]
  - name: hidden pay
    on: {catalog: spark_catalog, database: two, table: t, column: pay}
    mask: [{users: [ann, bob], type: MASK_NULL}]
  - name: own rows
    on: {catalog: spark_catalog, database: two, table: t}
    filter: [{users: [ann, bob], where: "id > 1"}]
"""


@pytest.fixture(scope="module")
def other(session_loop: LoopThread, open_directory: Path) -> Iterator[Spark]:
    """A second Spark: of another minor, with a metastore of its own."""
    made = EmbeddedSpark(
        EmbeddedSparkOptions(
            directory=open_directory / "spark-other",
            java=find_java(),
            spark_home=find_spark_of(Minor(4, 2), JARS),
            java_options=jdk_openings(),
            start_timeout_s=patience(240),
            heap="768m",
        ),
        answers,
    )
    session_loop.run(made.start())
    try:
        spark = Spark.of(made)
        spark.query(
            "CREATE DATABASE two",
            "CREATE TABLE two.t USING parquet AS"
            " SELECT * FROM VALUES (1, 10, 'a'), (2, 20, 'b') AS t(id, pay, name)",
            user="loader",
        )
        yield spark
    finally:
        session_loop.run(made.stop())


@dataclass
class World:
    """Two gateways before the same two Sparks, with one PostgreSQL."""

    gateways: list[RunningGateway]

    def query(self, user: str, *statements: str, backend: str = "", number: int = 0) -> list[Any]:
        gateway = self.gateways[number]
        wire = TSocket(gateway.host, gateway.port)
        transport = TSaslClientTransport(
            lambda: hive.get_installed_sasl(gateway.host, "PLAIN", username=user, password=PASSWORD),
            "PLAIN",
            wire,
        )
        told = {"set:hiveconf:backend": backend} if backend else {}
        with contextlib.closing(
            hive.connect(thrift_transport=transport, username=user, configuration=told)
        ) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            return sorted(cursor.fetchall()) if cursor.description else []

    @contextlib.contextmanager
    def session(self, user: str, *, backend: str = "", number: int = 0, of: str = "") -> Iterator[Any]:
        from pyspark.sql import SparkSession

        asked = f";x-sluice-backend={backend}" if backend else ""
        same = f";session_id={of}" if of else ""
        port = self.gateways[number].connect_port
        url = f"sc://localhost:{port}/;token={user}:{PASSWORD.replace(' ', '%20')}{asked}{same}"
        session = SparkSession.builder.remote(url).create()
        try:
            yield session
        finally:
            session.stop()


def sees_both(gateway: RunningGateway) -> bool:
    return "is not there" not in gateway.admin("/readyz")[1]


@pytest.fixture(scope="module")
def world(spark: Spark, other: Spark, open_directory: Path, embedded_postgres: str) -> Iterator[World]:
    spark.query(
        "CREATE DATABASE IF NOT EXISTS two",
        "CREATE TABLE two.t USING parquet AS SELECT * FROM VALUES (1, 10), (2, 20), (3, 30) AS t(id, pay)",
        user="loader",
    )
    os.environ["TWO_SPARKS_DSN"] = embedded_postgres
    found = []
    for number in (1, 2):
        directory = open_directory / f"two-{number}"
        settings = write_settings(
            directory,
            spark,
            PACK,
            {"ann": ("etl",), "bob": ()},
            ledger={"directory": "ledger", "dsn": {"env": "TWO_SPARKS_DSN"}},
        )
        token = directory / "other.token"
        token.touch(mode=0o600)
        token.write_text(other.connect_token)
        written = json.loads(settings.read_text())
        second = {
            "thrift": {"host": other.host, "port": other.port},
            "connect": {"host": other.host, "port": other.connect_port, "token": {"file": "other.token"}},
            "groups": ["etl"],
            "parser": {"spark_version": "4.2"},
        }
        written["backends"] = {"other": second}
        settings.write_text(json.dumps(written))
        found.append(RunningGateway(settings).start())
    made = World(found)
    try:
        for gateway in found:
            until(partial(sees_both, gateway), "both Sparks", 300)
        yield made
    finally:
        assert [gateway.stop() for gateway in found] == [0, 0]
        spark.query("DROP DATABASE two CASCADE", user="loader")


def test_a_name_is_the_table_of_the_spark_that_runs_the_statement(world: World) -> None:
    for _ in range(2):
        assert world.query("ann", "SELECT * FROM two.t") == [(2, None), (3, None)]
        assert world.query("ann", "SELECT * FROM two.t", backend="other") == [(2, None, "b")]
    assert world.query("ann", "SELECT version()", backend="other")[0][0].startswith("4.2")
    with pytest.raises(hive.OperationalError, match="you may use `default`"):
        world.query("bob", "SELECT * FROM two.t", backend="other")
    # What is made on one is not there on the other.
    world.query("ann", "CREATE TABLE two.made AS SELECT 7 AS seven", backend="other")
    assert world.query("ann", "SELECT * FROM two.made", backend="other") == [(7,)]
    with pytest.raises(hive.OperationalError, match="two"):
        world.query("ann", "SELECT * FROM two.made")
    world.query("ann", "DROP TABLE two.made", backend="other", number=1)


def test_the_same_through_spark_connect_and_another_gateway(world: World) -> None:
    with world.session("ann", backend="other") as here, world.session("ann") as main:
        assert sorted(map(tuple, here.table("two.t").collect())) == [(2, None, "b")]
        assert sorted(map(tuple, main.table("two.t").collect())) == [(2, None), (3, None)]
        assert here.version.startswith("4.2")
        # The other gateway knows where it is: it neither opens a second one nor takes this one over.
        with world.session("ann", number=1, of=here.session_id) as there:
            there.release_session_on_close = False
            with pytest.raises(PySparkException, match="another gateway"):
                there.sql("SELECT 1").collect()
        assert sorted(map(tuple, here.table("two.t").collect())) == [(2, None, "b")]
    with (
        pytest.raises(PySparkException, match="you may use `default`"),
        world.session("bob", backend="other") as refused,
    ):
        refused.sql("SELECT 1").collect()


def test_an_operator_drains_one(world: World) -> None:
    gateway = world.gateways[0]
    with world.session("ann", backend="other") as here:
        assert here.table("two.t").count() == 1
        drained = gateway.sluice("backends", "drain", "other")
        assert (drained.returncode, drained.stderr) == (0, "")
        for number in (0, 1):
            with pytest.raises(hive.OperationalError, match="`other` is being drained"):
                world.query("ann", "SELECT 1", backend="other", number=number)
        assert here.table("two.t").count() == 1
    assert "is being drained" in gateway.sluice("backends", "list").stdout
    assert gateway.sluice("backends", "undrain", "other").returncode == 0
    assert world.query("ann", "SELECT 1", backend="other") == [(1,)]
