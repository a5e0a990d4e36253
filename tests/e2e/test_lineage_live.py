"""The running gateway puts the lineage of what ran into the graph, through both endpoints, and once."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pyhive import hive
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  as everybody calls them
from thrift.transport.TTransport import TTransportException

from gateway.database.postgres import EmbeddedPostgres
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, Thrift, session, write_settings
from tests.e2e.running import RunningGateway, Spark, until
from tests.speed import patience

PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: live, table: "*", column: "*"}
    allow: [{users: [ann], access: [select, create, drop, insert, alter]}]
  - name: numbers are hidden
    on: {catalog: spark_catalog, database: live, table: raw, column: ssn}
    mask: [{users: [ann], type: MASK_HASH}]
  - name: files are open
    on: {url: "*"}
    allow: [{users: [ann], access: [read, write]}]
"""
MADE = (
    "CREATE DATABASE live",
    "CREATE TABLE live.raw USING parquet AS SELECT * FROM VALUES (1, 'a', '9') AS t(id, name, ssn)",
)
EDGES = """
SELECT sd.name || '.' || sc.name AS source, td.name || '.' || tc.name AS target, e.subtype, e.masking,
  e.finished, e.statements::int AS statements
FROM sluice.lineage_edge e
JOIN sluice.lineage_column sc ON sc.id = e.source JOIN sluice.lineage_dataset sd ON sd.id = sc.dataset
JOIN sluice.lineage_column tc ON tc.id = e.target JOIN sluice.lineage_dataset td ON td.id = tc.dataset"""


GONE = (hive.OperationalError, TTransportException, OSError)
"""What clients say of a gateway that was killed."""


class Graph:
    """What the gateway's database has, asked past the gateway."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def fetch(self, query: str, *arguments: object) -> list[Any]:
        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.dsn)
            try:
                return list(await connection.fetch(query, *arguments))
            finally:
                await connection.close()

        return asyncio.run(ask())

    def settled(self) -> bool:
        """Whether everything that was recorded is in the graph."""
        (row,) = self.fetch(
            "SELECT (SELECT count(*) FROM sluice.lineage_queue) AS queued, (SELECT count(*) FROM"
            " sluice.audit_event WHERE kind = 'decided' AND verdict = 'cleared') AS decided, (SELECT count(*)"
            " FROM sluice.audit_event WHERE kind IN ('completed', 'abandoned')) AS ended"
        )
        return bool(row["queued"] == 0 and row["decided"] == row["ended"])

    def into(self, table: str) -> set[str]:
        """Edges into a table of `live`, in words; of values only."""
        return {
            f"{_short(row['source'])} -> {_short(row['target'])}"
            + (" masked" if row["masking"] else "")
            + ("" if row["finished"] else " unfinished")
            for row in self.fetch(EDGES)
            if row["target"].startswith(f"spark_catalog.live.{table}.")
            and row["subtype"] in ("IDENTITY", "TRANSFORMATION", "AGGREGATION", "TABLE")
        }

    def statements(self, text: str) -> list[str]:
        """Outcomes, in the graph, of the statements with this text."""
        rows = self.fetch(
            "SELECT s.outcome FROM sluice.lineage_statement s JOIN sluice.audit_event e"
            " ON e.statement_id = s.id AND e.kind = 'decided'"
            " WHERE e.statement = $1 OR e.body->'texts'->>0 = $1",
            text,
        )
        return [row["outcome"] for row in rows]


def _short(name: str) -> str:
    return name.removeprefix("spark_catalog.live.")


@pytest.fixture(scope="module")
def postgres(open_directory: Path) -> Iterator[str]:
    """A database that outlives the gateway."""
    server = EmbeddedPostgres(open_directory / "live-postgres", settings={"fsync": "off"})
    yield server.start()
    server.stop()


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path, postgres: str) -> Iterator[RunningGateway]:
    spark.query(*MADE, user="loader")
    directory = open_directory / "live"
    file = write_settings(directory, spark, PACK, {"ann": ()})
    (directory / "dsn").write_text(postgres)
    settings = json.loads(file.read_text())
    settings["ledger"] = {"directory": "ledger", "dsn": {"file": "dsn"}}
    settings["lineage"] = {"deadline_s": patience()}
    file.write_text(json.dumps(settings))
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def graph(gateway: RunningGateway, postgres: str) -> Graph:
    return Graph(postgres)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_ran_is_in_the_graph(gateway: RunningGateway, graph: Graph, endpoint: str) -> None:
    e = endpoint
    with session(gateway, e, "ann") as ask:
        ask(f"CREATE TABLE live.{e}_copy USING parquet AS SELECT id, upper(name) AS who, ssn FROM live.raw")
        ask(f"INSERT INTO live.{e}_copy SELECT id + 1, name, 'none' FROM live.raw WHERE name <> ''")
        ask(f"CREATE VIEW live.{e}_view AS SELECT ssn AS number FROM live.{e}_copy")
        ask("CREATE TEMPORARY VIEW tv AS SELECT ssn AS s, id AS i FROM live.raw")
        ask("CREATE TEMPORARY VIEW tw AS SELECT s AS t FROM tv")
        ask(f"CREATE TABLE live.{e}_out USING parquet AS SELECT t FROM tw")
        ask(f"CREATE TABLE live.{e}_from_view USING parquet AS SELECT number FROM live.{e}_view")
        ask(f"DROP TABLE live.{e}_from_view")
        ask(f"SELECT count(*) AS n FROM live.raw -- {e}")
        with pytest.raises((hive.OperationalError, PySparkException)):
            ask(f"INSERT INTO live.{e}_copy SELECT raise_error('no'), name, 'none' FROM live.raw")
        with pytest.raises((hive.OperationalError, PySparkException)):
            ask(f"MERGE INTO live.{e}_copy USING live.raw ON false WHEN NOT MATCHED THEN INSERT *")
    until(graph.settled, "all that was recorded is in the graph")
    assert graph.into(f"{e}_copy") == {
        f"raw.id -> {e}_copy.id",
        f"raw.name -> {e}_copy.who",
        f"raw.ssn -> {e}_copy.ssn masked",
    }
    assert graph.into(f"{e}_view") == {f"{e}_copy.ssn -> {e}_view.number"}
    assert {one for one in graph.into(f"{e}_out") if one.startswith("raw")} == {
        f"raw.ssn -> {e}_out.t masked"
    }
    # The table was dropped before anybody asked what columns it had.
    assert f"{e}_copy.ssn -> {e}_from_view.number" in graph.into(f"{e}_from_view")
    assert graph.statements(f"SELECT count(*) AS n FROM live.raw -- {e}") == ["finished"]
    failed = f"INSERT INTO live.{e}_copy SELECT raise_error('no'), name, 'none' FROM live.raw"
    assert graph.statements(failed) == ["failed"]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_what_failed_may_have_written(gateway: RunningGateway, graph: Graph, endpoint: str) -> None:
    """Spark runs one insert of a statement after the other: tags follow what did not finish, too."""
    one, two = f"live.{endpoint}_one", f"live.{endpoint}_two"
    with session(gateway, endpoint, "ann") as ask:
        for table in (one, two):
            ask(f"CREATE TABLE {table} (id STRING) USING parquet")
        with pytest.raises((hive.OperationalError, PySparkException)):
            ask(
                f"FROM live.raw INSERT INTO {one} SELECT name AS id"
                f" INSERT INTO {two} SELECT raise_error(name) AS id"
            )
        assert ask(f"SELECT count(*) > 0 FROM {one}") == [(True,)]
    until(graph.settled, "all that was recorded is in the graph")
    assert graph.into(f"{endpoint}_one") == {f"raw.name -> {endpoint}_one.id unfinished"}


def test_data_frames_are_in_the_graph(gateway: RunningGateway, graph: Graph, spark: Spark) -> None:
    files = f"file:{spark.directory}/live-files"
    with gateway.session("ann", PASSWORD) as ann:
        raw = ann.table("live.raw")
        raw.select("id", F.upper("name").alias("who"), "ssn").write.saveAsTable("live.df_copy")
        raw.select(raw.id + 1, "name", F.lit("none")).write.insertInto("live.df_copy")
        raw.filter("name <> ''").select("ssn").writeTo("live.df_v2").using("parquet").create()
        # Temporary views: of a DataFrame read by SQL, of SQL read by a DataFrame, and one over itself.
        raw.select(F.col("ssn").alias("s"), "id").createOrReplaceTempView("tv")
        ann.table("tv").select(F.concat("s", F.lit("!")).alias("s"), "id").createOrReplaceTempView("tv")
        ann.sql("CREATE TEMPORARY VIEW tw AS SELECT s AS t FROM tv").collect()
        ann.sql("CREATE TABLE live.df_by_sql USING parquet AS SELECT t FROM tw").collect()
        ann.table("tw").write.saveAsTable("live.df_by_frame")
        kept = raw.select("ssn", "name").localCheckpoint()
        kept.filter("name <> ''").write.saveAsTable("live.df_kept")
        ann.createDataFrame([("a s3cret row", 1)], ["word", "id"]).join(raw, "id").select(
            "word", "name"
        ).write.saveAsTable("live.df_local")
        raw.select("name").write.parquet(f"{files}/names")
        with pytest.raises(PySparkException):
            raw.select(F.raise_error(F.lit("no")), "name", "name").write.insertInto("live.df_copy")
        assert raw.select("id").count() == 1
        assert raw.schema.names == ["id", "name", "ssn"]
        del kept
    until(graph.settled, "all that was recorded is in the graph")
    assert graph.into("df_copy") == {
        "raw.id -> df_copy.id",
        "raw.name -> df_copy.who",
        "raw.ssn -> df_copy.ssn masked",
        "raw.name -> df_copy.ssn unfinished",
    }
    assert graph.into("df_v2") == {"raw.ssn -> df_v2.ssn masked"}
    for table, column in (("df_by_sql", "t"), ("df_by_frame", "t"), ("df_kept", "ssn")):
        masked = {one for one in graph.into(table) if one.startswith("raw.ssn")}
        assert masked == {f"raw.ssn -> {table}.{column} masked"}
    assert graph.into("df_local") == {"raw.name -> df_local.name"}
    (into_files,) = [r for r in graph.fetch(EDGES) if r["target"].startswith("path:")]
    assert _short(into_files["source"]) == "raw.name"
    (row,) = graph.fetch(
        "SELECT count(*) AS n FROM sluice.audit_event WHERE body::text LIKE '%s3cret row%'"
        " OR encode(coalesce(original_record, ''), 'escape') LIKE '%s3cret row%'"
    )
    assert row["n"] == 0
    # What Spark was only asked about is no statement of the graph.
    (row,) = graph.fetch(
        "SELECT count(*) AS n FROM sluice.lineage_statement s JOIN sluice.audit_event e"
        " ON e.statement_id = s.id WHERE e.body->>'plan' = 'analyze'"
    )
    assert row["n"] == 0


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_renamed_table_is_fed_by_the_other(gateway: RunningGateway, graph: Graph, endpoint: str) -> None:
    old, new = f"live.{endpoint}_old", f"live.{endpoint}_new"
    with session(gateway, endpoint, "ann") as ask:
        ask(f"CREATE TABLE {old} USING parquet AS SELECT name FROM live.raw")
        ask(f"ALTER TABLE {old} RENAME TO {new}")
    until(graph.settled, "all that was recorded is in the graph")
    assert graph.into(f"{endpoint}_new") == {f"{endpoint}_old.name -> {endpoint}_new.name"}


def killed(gateway: RunningGateway) -> None:
    """Kill the gateway as it stands and start it again."""
    gateway.stop(signal.SIGKILL)
    gateway.start()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_killed_as_soon_as_it_had_ended(gateway: RunningGateway, graph: Graph, endpoint: str) -> None:
    text = f"CREATE TABLE live.{endpoint}_killed USING parquet AS SELECT id FROM live.raw"
    with session(gateway, endpoint, "ann") as ask:
        ask(text)
    killed(gateway)
    until(graph.settled, "all that was recorded is in the graph")
    assert len(graph.statements(text)) == 1
    # Ends are on the disk a moment later: one that was not yet is unknown after the restart.
    assert {edge.removesuffix(" unfinished") for edge in graph.into(f"{endpoint}_killed")} == {
        f"raw.id -> {endpoint}_killed.id"
    }


def test_killed_when_a_data_frame_was_written(gateway: RunningGateway, graph: Graph) -> None:
    with gateway.session("ann", PASSWORD) as ann:
        ann.table("live.raw").select("name").createOrReplaceTempView("names")
        ann.table("names").write.saveAsTable("live.df_killed")
    killed(gateway)
    until(graph.settled, "all that was recorded is in the graph")
    edges = {edge.removesuffix(" unfinished") for edge in graph.into("df_killed")}
    assert {edge for edge in edges if edge.startswith("raw")} == {"raw.name -> df_killed.name"}


def test_killed_between_decision_and_end(gateway: RunningGateway, graph: Graph) -> None:
    slow = "live.raw, range(2000000000) AS r(n) WHERE rand() < n - 3000000000"
    text = f"INSERT INTO live.thrift_copy SELECT id, name, ssn FROM {slow}"
    with suppress(*GONE), closing(Thrift(gateway, "ann")) as ann:
        ann.begin(text)
        killed(gateway)
    until(graph.settled, "all that was recorded is in the graph")
    assert graph.statements(text) == ["unknown"]
    # What imports the record counts nothing again.
    counted = {(r["source"], r["target"]): r["statements"] for r in graph.fetch(EDGES)}
    done = gateway.sluice("lineage", "import", "--since", "1d", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["statements"] > 10
    assert report["new"] == 0
    assert counted == {(r["source"], r["target"]): r["statements"] for r in graph.fetch(EDGES)}


def test_pages_tell_of_it(gateway: RunningGateway) -> None:
    _, ready = gateway.admin("/readyz")
    assert json.loads(ready)["parts"]["lineage"] == "ok"
    _, metrics = gateway.admin("/metrics")
    assert 'sluice_lineage_statements_total{lineage="columns"}' in metrics
    # What waits is counted once a second.
    until(lambda: "sluice_lineage_waiting 0.0" in gateway.admin("/metrics")[1], "nothing waits")
