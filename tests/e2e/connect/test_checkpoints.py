"""On real Spark: a stream's checkpoint gives nobody what another stream, or another policy, put into it."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect import functions as F  # noqa: N812  pyspark's own convention

from gateway.frontends.users import set_user
from tests.e2e.running import RunningGateway, Spark, query, until
from tests.speed import patience

pytestmark = pytest.mark.in_turn(2)

PASSWORD = "correct horse battery"
CANARY = "CANARY"
MASKED = "'x'"
PACK = """
service: spark
policies:
  - name: everybody works here
    on: {{catalog: spark_catalog, database: ckp, table: "*", column: "*"}}
    allow: [{{users: [ann, bob], access: [select, create, drop, insert, delete, alter]}}]
  - name: everybody reads and writes every file
    on: [{{url: "*"}}, {{catalog: "*", database: "*", udf: "*"}}]
    allow: [{{users: [ann, bob], access: [all]}}]
  - name: numbers are hidden
    on: {{catalog: spark_catalog, database: ckp, table: masked, column: ssn}}
    mask: [{{users: [ann, bob], type: CUSTOM, show: "{mask}"}}]
  - name: not those of America
    on: {{catalog: spark_catalog, database: ckp, table: masked}}
    filter: [{{users: [ann, bob], where: "region <> 'AMER'"}}]
"""
ROWS = (
    f"(1, 'EMEA', '{CANARY}-1'), (2, 'AMER', '{CANARY}-2'), (3, 'APAC', '{CANARY}-3') AS t(id, region, ssn)"
)
GOVERNED = [(1, "EMEA", "x"), (3, "APAC", "x")]
MADE = (
    "CREATE DATABASE ckp",
    f"CREATE TABLE ckp.masked USING parquet AS SELECT * FROM VALUES {ROWS}",
    # Its path is the beginning of the other's, which is all that Spark asks of files that a checkpoint lists.
    "CREATE TABLE ckp.m (id INT, region STRING, ssn STRING) USING parquet",
)


@pytest.fixture(scope="module")
def root(spark: Spark) -> Path:
    return spark.directory / f"checkpoints-{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path, root: Path) -> Iterator[RunningGateway]:
    spark.query(*MADE, user="loader")
    directory = open_directory / "checkpoints"
    directory.mkdir()
    directory.chmod(0o711)
    for user in ("ann", "bob"):
        set_user(directory / "users.yaml", user, password=PASSWORD)
    (directory / "pack.yaml").write_text(PACK.format(mask=MASKED))
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": spark.backend_settings(directory),
        "policies": {"paths": ["pack.yaml"], "reload_s": 0.2},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "sessions": {"checkpoints": f"file:{root}"},
        "logging": {"format": "json"},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.fixture
def ann(gateway: RunningGateway) -> Iterator[Any]:
    with gateway.session("ann", PASSWORD) as session:
        yield session


def put_in_force(gateway: RunningGateway, mask: str) -> None:
    before = version(gateway)
    gateway.config.with_name("pack.yaml").write_text(PACK.format(mask=mask))
    until(lambda: version(gateway) != before, "the policies are in force")


def version(gateway: RunningGateway) -> str:
    lines = gateway.admin("/metrics")[1].splitlines()
    return next(line for line in lines if line.startswith("sluice_policy_version "))


def place() -> str:
    return f"file:/chosen/{uuid.uuid4().hex}"


def new(name: str) -> str:
    return f"ckp.{name}_{uuid.uuid4().hex[:8]}"


def started(stream: Any, location: str, table: str) -> None:
    """Run a stream into a table until nothing is left to read."""
    writer = stream.writeStream.option("checkpointLocation", location).trigger(availableNow=True)
    query = writer.toTable(table)
    assert query.awaitTermination(patience(180))
    assert query.exception() is None


def failed(stream: Any, location: str, table: str) -> None:
    """Run a stream that has planned its first batch, and fails in it."""
    writer = stream.writeStream.option("checkpointLocation", location).trigger(availableNow=True)
    query = writer.toTable(table)
    with contextlib.suppress(PySparkException):
        query.awaitTermination(patience(180))
    assert query.exception() is not None


def error_of(work: Callable[[], Any]) -> str:
    with pytest.raises(PySparkException) as raised:
        work()
    return str(raised.value)


def rows(session: Any, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in session.table(table).collect())


def failing(session: Any) -> Any:
    return session.readStream.table("ckp.masked").select(
        F.expr("id + CAST(concat(region, ssn) AS INT) AS id"), "region", "ssn"
    )


def test_files_that_a_failed_stream_listed_are_not_read_by_another(ann: Any) -> None:
    location = place()
    failed(failing(ann), location, new("failed"))
    sink = new("sink")
    told = error_of(lambda: started(ann.readStream.table("ckp.m"), location, sink))
    assert "CHECKPOINT_CHANGED" in told
    assert location in told


def test_nor_when_what_began_was_free(ann: Any, spark: Spark) -> None:
    """What a policy hides today may have been listed yesterday, when it hid nothing."""
    victim, own = f"{new('v')}", f"{new('w')}"
    spark.query(f"CREATE TABLE {victim} USING parquet AS SELECT 1 AS id", user="loader")
    spark.query(f"CREATE TABLE {own} (id INT) USING parquet", user="loader")
    location = place()
    failed(
        ann.readStream.table(victim).select(F.expr("CAST(concat('x', id) AS INT) AS id")), location, new("f")
    )
    assert "CHECKPOINT_CHANGED" in error_of(lambda: started(ann.readStream.table(own), location, new("s")))


def test_a_stream_goes_on_exactly_where_it_was(gateway: RunningGateway, spark: Spark) -> None:
    source, sink, location = new("masked"), new("sink"), place()
    spark.query(f"CREATE TABLE {source} (id INT, region STRING) USING parquet", user="loader")
    for step in range(1, 3):
        spark.query(f"INSERT INTO {source} VALUES ({step}, 'EMEA')", user="loader")
        if step == 2:
            assert gateway.stop() == 0  # nothing of it is remembered
            gateway.start()
        with gateway.session("ann", PASSWORD) as session:
            # Projections and the speed may change.
            speed = session.readStream.option("maxFilesPerTrigger", step).table(source)
            started(speed.select("id", F.lit(step).alias("step")), location, sink)
            assert rows(session, sink) == [(n, n) for n in range(1, step + 1)]


def test_a_guarded_stream_goes_on(gateway: RunningGateway, spark: Spark) -> None:
    sink, location = new("sink"), place()
    for step in range(2):
        with gateway.session("ann", PASSWORD) as session:
            speed = session.readStream.option("maxFilesPerTrigger", step + 1).table("ckp.masked")
            started(speed, location, sink)
            assert rows(session, sink) == GOVERNED


def test_another_policy_is_another_checkpoint(gateway: RunningGateway) -> None:
    sink, location = new("sink"), place()
    with gateway.session("ann", PASSWORD) as session:
        started(session.readStream.table("ckp.masked"), location, sink)
        put_in_force(gateway, "'y'")
        again = error_of(lambda: started(session.readStream.table("ckp.masked"), location, sink))
        assert "CHECKPOINT_CHANGED" in again
        put_in_force(gateway, MASKED)
        started(session.readStream.table("ckp.masked"), location, sink)
        assert rows(session, sink) == GOVERNED


def test_another_principal_has_another_checkpoint(ann: Any, gateway: RunningGateway) -> None:
    location = place()
    started(ann.readStream.table("ckp.masked"), location, new("sink"))
    with gateway.session("bob", PASSWORD) as bob:
        sink = new("sink")
        started(bob.readStream.table("ckp.masked"), location, sink)
        assert rows(bob, sink) == GOVERNED


def begun(start: Callable[[], Any], tries: int = 5) -> Any:
    """Start a query of a Python function: Spark gives its process ten seconds, on any machine."""
    for _ in range(tries - 1):
        try:
            return start()
        except PySparkException as error:
            if "SocketTimeoutException" not in str(error):
                raise
    return start()


def test_state_and_batches_of_functions(ann: Any, root: Path) -> None:
    location, sink = place(), new("sink")
    grouped = ann.readStream.table("ckp.masked").groupBy("ssn").count()
    writer = grouped.writeStream.option("CHECKPOINTLOCATION", location).outputMode("update")

    def keep(frame: Any, number: int) -> None:
        frame.write.mode("append").saveAsTable(sink)

    query = begun(lambda: writer.foreachBatch(keep).trigger(availableNow=True).start())
    assert query.awaitTermination(patience(180))
    assert query.exception() is None
    assert query.lastProgress is not None
    assert not Path(location.removeprefix("file:")).exists()
    assert list(root.glob("_*/_*/state"))


def test_nobody_reads_or_writes_where_checkpoints_are(
    ann: Any, gateway: RunningGateway, root: Path, tmp_path: Path
) -> None:
    failed(failing(ann), place(), new("failed"))
    log = next(path for path in root.glob("_*/_*/sources/0/0") if CANARY not in str(path))
    begin, end = str(log).rsplit("/", 1)
    attempts: list[Callable[[], Any]] = [
        lambda: ann.read.text(f"file:{log}").collect(),
        lambda: ann.read.text(f"FILE://{log}").collect(),
        lambda: ann.read.text(f"file:{begin}//./{end}").collect(),
        lambda: ann.read.text(str(log)).collect(),
        lambda: ann.read.text(f"file:{root.parent}").collect(),
        lambda: ann.read.option("recursiveFileLookup", "true").text(f"file:{root.parent}").collect(),
        lambda: ann.read.option("pathGlobFilter", "0").text("file:/").collect(),
        lambda: ann.read.format("text").option("path", f"file:{root}").load().collect(),
        lambda: (
            ann.readStream.format("text").schema("value string").load(f"file:{begin}").writeStream.start()
        ),
        lambda: ann.range(1).write.mode("overwrite").parquet(f"file:{root}"),
        lambda: ann.range(1).write.mode("append").parquet(f"file:{begin}"),
        lambda: ann.range(1).write.option("path", f"file:{root}").saveAsTable(new("there")),
        lambda: ann.sql(f"CREATE TABLE {new('there')} (value STRING) USING text LOCATION 'file:{begin}'"),
        lambda: ann.sql(
            f"CREATE TABLE {new('there')} (value STRING) USING text LOCATION '{root.parent}/c*/*'"
        ),
        lambda: ann.catalog.createTable(new("there"), f"file:{begin}", "text"),
        lambda: started(ann.readStream.table("ckp.masked"), f"file:{root}/mine", new("sink")),
        lambda: (
            ann.readStream.table("ckp.masked")
            .writeStream.option("checkpointLocation", place())
            .format("parquet")
            .start(f"file:{root}/out")
        ),
    ]
    for number, attempt in enumerate(attempts):
        told = error_of(attempt)
        assert "it is reserved for files that Sluice keeps there" in told or "NOT_GOVERNABLE" in told, (
            number,
            told,
        )
    with pytest.raises(Exception, match="it is reserved for files that Sluice keeps there"):
        query(
            gateway.host,
            gateway.port,
            "ann",
            f"CREATE TABLE {new('there')} (value STRING) USING text LOCATION 'file:{begin}'",
            password=PASSWORD,
        )


def test_a_temporary_view_has_no_lasting_checkpoint(ann: Any) -> None:
    ann.readStream.table("ckp.masked").createOrReplaceTempView("streamed")
    assert "temporary view" in error_of(lambda: started(ann.table("streamed"), place(), new("sink")))
