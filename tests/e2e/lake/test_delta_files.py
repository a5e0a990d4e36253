"""Directories of Delta become tables where their source says so, on Spark 4.1 and 3.5. Costs 25 s a Spark."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lake.worlds import LakeSpark, OpenLake
from tests.e2e.one_pack import session
from tests.e2e.running import RunningGateway

pytestmark = pytest.mark.in_turn(3)

PACK = """
service: spark
policies:
  - name: whoever comes first
    on:
      - {catalog: spark_catalog, database: [testdelta, testplain]}
      - {catalog: spark_catalog, database: [testdelta, testplain], table: "*", column: "*"}
    allow: [{groups: [public], access: [all]}]
  - name: their files
    on: {url: "file:ROOT/*"}
    allow: [{groups: [public], access: [read]}]
  - name: secrets
    on: {catalog: spark_catalog, database: testdelta, table: "*", column: secret}
    mask: [{groups: [public], type: MASK_NULL}]
  - name: rows
    on: {catalog: spark_catalog, database: testdelta, table: "*"}
    filter: [{groups: [public], where: "id > 1"}]
"""


@pytest.fixture(scope="module", params=["3.5", "4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    return lakes(request.param)


@pytest.fixture(scope="module")
def root(lake: LakeSpark) -> Path:
    made = lake.warehouse.parent / "sources"
    made.mkdir(mode=0o777)
    made.chmod(0o777)
    return made


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark, root: Path) -> Iterator[RunningGateway]:
    table = f"USING delta PARTITIONED BY (day) LOCATION 'file:{root}/events'"
    lake.spark.query(
        f"CREATE TABLE events_of_another (id INT, secret STRING, day INT) {table}",
        "INSERT INTO events_of_another VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2), (4, 'd', 2)",
        "DELETE FROM events_of_another WHERE id = 4",
        "DROP TABLE events_of_another",
        user="loader",
    )
    sources = {
        "testdelta": {"root": f"file:{root}", "formats": ["delta", "csv"]},
        "testplain": {"root": f"file:{root.parent}/other"},
    }
    pack = PACK.replace("ROOT", str(root))
    with lake.gateway("delta_files", pack, {"ann": [], "bob": []}, files=sources) as running:
        yield running


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_a_directory_of_delta_has_the_rows_of_its_log(
    lake: LakeSpark, gateway: RunningGateway, root: Path, endpoint: str
) -> None:
    if endpoint == "connect" and lake.minor < (4, 0):
        endpoint = "thrift"
    with session(gateway, endpoint, "ann") as ann:
        assert ann("SELECT * FROM testdelta.events ORDER BY id") == [(2, None, 1), (3, None, 2)]
        assert ann("SELECT id FROM testdelta.events WHERE day = 2") == [(3,)]
        lake.spark.query(
            f"INSERT INTO delta.`file:{root}/events` VALUES (5, 'e', 3)",
            user="loader",
        )
        assert ann("ALTER TABLE testdelta.events REFRESH METADATA") == []
        assert ann("SELECT count(*) FROM testdelta.events") == [(3,)]
        with session(gateway, endpoint, "bob") as bob, pytest.raises(Exception, match="DENIED"):
            bob("SELECT count(*) FROM testdelta.events")
        parts = "testdelta.events.`day=1`"
        with pytest.raises(Exception, match="is inside a table of format Delta"):
            ann(f"SELECT * FROM {parts}")
        assert ann("ALTER TABLE testdelta.events FORGET METADATA") == []
        lake.spark.query(f"DELETE FROM delta.`file:{root}/events` WHERE id = 5", user="loader")


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
def test_overwritten_vacuumed_and_without_its_log_a_table_shows_no_more(
    lake: LakeSpark, gateway: RunningGateway, root: Path, endpoint: str
) -> None:
    name = f"changed_{endpoint}"
    place = f"file:{root}/{name}"
    if endpoint == "connect" and lake.minor < (4, 0):
        endpoint = "thrift"
    lake.spark.query(
        f"CREATE TABLE made_{name} (id INT, secret STRING, day INT) USING delta LOCATION '{place}'",
        f"INSERT INTO made_{name} VALUES (1, 'a', 1), (2, 'b', 1)",
        f"DROP TABLE made_{name}",
        user="loader",
    )
    text = f"SELECT * FROM testdelta.{name}"
    with session(gateway, endpoint, "ann") as ann, session(gateway, endpoint, "ann") as before:
        assert ann(text) == before(text) == [(2, None, 1)]
        lake.spark.query(
            f"CREATE TABLE made_{name} USING delta LOCATION '{place}'",
            f"CREATE OR REPLACE TABLE made_{name} (secret STRING, id INT, more STRING) USING delta"
            f" LOCATION '{place}'",
            f"INSERT INTO made_{name} VALUES ('top', 7, 'new'), ('top', 0, 'new')",
            f"DROP TABLE made_{name}",
            "SET spark.databricks.delta.retentionDurationCheck.enabled=false",
            f"VACUUM delta.`{place}` RETAIN 0 HOURS",
            user="loader",
        )
        assert ann(f"ALTER TABLE testdelta.{name} REFRESH METADATA") == []
        assert ann(text) == before(text) == [(None, 7, "new")]
        for past in (
            f"{text} VERSION AS OF 1",
            f"RESTORE TABLE testdelta.{name} TO VERSION AS OF 1",
            f"DESCRIBE HISTORY testdelta.{name}",
            f"VACUUM testdelta.{name}",
        ):
            # The files of the old version are gone, as Spark says; the rest is refused.
            with pytest.raises(Exception, match=r"DENIED|FILE_NOT_EXIST|failed while running"):
                ann(past)
        shutil.rmtree(root / name / "_delta_log")
        with pytest.raises(Exception, match=r"42P01|SLUICE|DELTA"):
            ann(text)
        # What lies there now is no table of this source; nothing of it is shown, and its name can be freed.
        for change, why in (("REFRESH", "is none of"), ("REFRESH", "no longer be a table")):
            with pytest.raises(Exception, match=why):
                ann(f"ALTER TABLE testdelta.{name} {change} METADATA")
        assert ann(f"ALTER TABLE testdelta.{name} FORGET METADATA") == []
        with pytest.raises(Exception, match="is none of"):
            ann(text)
