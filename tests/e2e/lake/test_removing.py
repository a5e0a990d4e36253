"""Nobody destroys what masks and filters hide from him by a statement that only Iceberg or Delta has.

What Spark's own tables have is tried in `tests/e2e/test_removing.py`. Costs some 30 s beside Spark's start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.lake.worlds import LakeSpark, OpenLake
from tests.e2e.one_pack import PASSWORD, Ask, sessions
from tests.e2e.running import RunningGateway
from tests.e2e.test_removing import FRAMES, ROWS, TABLES, refusal

PACK = """
service: spark
policies:
  - name: everything
    on:
      - {catalog: [ice, spark_catalog], database: ["rm*"]}
      - {catalog: [ice, spark_catalog], database: ["rm*"], table: "*", column: "*"}
    allow: [{groups: [half, whole], access: [all]}]
  - name: the rest may be destroyed
    on: {catalog: [ice, spark_catalog], database: "rm*", table: "*", column: "*"}
    allow: [{users: [lea], access: [drop]}]
  - name: half of the rows
    on: {catalog: [ice, spark_catalog], database: [rmice, rmdelta], table: "rows*"}
    filter: [{groups: [half], where: "id > 1"}]
  - name: half of a column
    on: {catalog: [ice, spark_catalog], database: [rmice, rmdelta], table: "values*", column: pin}
    mask: [{groups: [half], type: MASK_NULL}]
  - name: not that one
    on: {catalog: [ice, spark_catalog], database: [rmice, rmdelta], table: "columns*", column: pin}
    deny: [{groups: [half], access: [select]}]
"""
DATABASES = {"iceberg": "ice.rmice", "delta": "spark_catalog.rmdelta"}
BOTH = """
CREATE OR REPLACE TABLE {t} USING {format} AS SELECT 1 AS id
CREATE OR REPLACE TABLE {t} USING {format} AS SELECT * FROM {t}
REPLACE TABLE {t} (id INT) USING {format}
REPLACE TABLE {t} USING {format} AS SELECT id FROM {t}
DROP TABLE {t}
TRUNCATE TABLE {t}
DELETE FROM {t}
DELETE FROM {t} WHERE id = 1
UPDATE {t} SET pin = 'x'
MERGE INTO {t} AS m USING (SELECT 1 AS k) s ON m.id = s.k WHEN MATCHED THEN DELETE
MERGE INTO {t} AS m USING (SELECT 9 AS k) s ON m.id = s.k WHEN NOT MATCHED BY SOURCE AND m.id = 1 THEN DELETE
MERGE INTO {t} AS m USING (SELECT 1 AS k) s ON m.id = s.k WHEN MATCHED THEN UPDATE SET pin = 'x'
INSERT OVERWRITE {t} SELECT 7, 'x', 0
INSERT OVERWRITE {t} SELECT * FROM {t}
ALTER TABLE {t} DROP COLUMN pin
ALTER TABLE {t} RENAME TO {db}.other
DROP DATABASE {db} CASCADE
"""
OWN = {
    "iceberg": """
DROP TABLE {t} PURGE
ALTER TABLE {t} REPLACE BRANCH main AS OF VERSION {first}
ALTER TABLE {t} CREATE OR REPLACE BRANCH main AS OF VERSION {first}
ALTER TABLE {t} DROP BRANCH kept
CALL ice.system.rollback_to_snapshot('{name}', {first})
CALL ice.system.rollback_to_timestamp('{name}', TIMESTAMP '2999-01-01 00:00:00')
CALL ice.system.set_current_snapshot('{name}', {first})
CALL ice.system.fast_forward('{name}', 'main', 'kept')
CALL ice.system.cherrypick_snapshot('{name}', {first})
CALL ice.system.expire_snapshots('{name}', TIMESTAMP '2999-01-01 00:00:00')
CALL ice.system.remove_orphan_files('{name}')
INSERT OVERWRITE {t}.branch_main SELECT 7, 'x', 0
DELETE FROM {t}.branch_kept
""",
    "delta": """
RESTORE TABLE {t} TO VERSION AS OF 0
RESTORE TABLE {t} TO TIMESTAMP AS OF '2999-01-01'
CREATE OR REPLACE TABLE {t} SHALLOW CLONE {db}.other
CREATE OR REPLACE TABLE {t} SHALLOW CLONE {t} VERSION AS OF 0
VACUUM {t} RETAIN 200 HOURS
INSERT INTO {t} REPLACE WHERE day = 0 SELECT 7, 'x', 0
ALTER TABLE {t} REPLACE COLUMNS (id INT)
""",
}
"""What removes or rewrites rows; `{first}` is a version of before."""


@pytest.fixture(scope="module", params=["4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    for format_, db in DATABASES.items():
        lake.spark.query(
            f"CREATE DATABASE {db}",
            *(
                statement
                for name in (*TABLES, "other")
                for statement in (
                    f"CREATE TABLE {db}.{name} (id INT, pin STRING, day INT) USING {format_}"
                    " PARTITIONED BY (day)",
                    f"INSERT INTO {db}.{name} VALUES {ROWS[0]}",
                    f"INSERT INTO {db}.{name} VALUES {ROWS[1]}",
                )
            ),
            user="loader",
        )
    for name in TABLES:
        lake.spark.query(f"ALTER TABLE ice.rmice.{name} CREATE BRANCH kept", user="loader")
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    with lake.gateway("removing", PACK, {"hob": ["half"], "lea": ["half"], "ada": ["whole"]}) as running:
        yield running


@pytest.fixture
def ask(gateway: RunningGateway) -> Iterator[Callable[[str, str], Ask]]:
    with sessions(gateway) as asked:
        yield asked


def stored(lake: LakeSpark, format_: str, name: str) -> list[Any]:
    """Return what is stored now, and what the branch holds."""
    table = f"{DATABASES[format_]}.{name}"
    found = sorted(lake.spark.query(f"SELECT * FROM {table}", user="loader"))
    if format_ == "iceberg":
        found += sorted(lake.spark.query(f"SELECT * FROM {table}.branch_kept", user="loader"))
    return found


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
@pytest.mark.parametrize("format_", DATABASES)
@pytest.mark.in_turn(3)
def test_what_is_hidden_outlives_what_formats_have(
    ask: Any, lake: LakeSpark, format_: str, endpoint: str
) -> None:
    hob, db = ask(endpoint, "hob"), DATABASES[format_]
    before = {name: stored(lake, format_, name) for name in TABLES}
    passed = []
    for name in TABLES:
        first = 0
        if format_ == "iceberg":
            ((first,),) = lake.spark.query(
                f"SELECT snapshot_id FROM {db}.{name}.snapshots ORDER BY committed_at LIMIT 1", user="loader"
            )
        for text in [*BOTH.strip().splitlines(), *OWN[format_].strip().splitlines()]:
            filled = text.format(
                t=f"{db}.{name}", db=db, format=format_, first=first, name=f"{db.partition('.')[2]}.{name}"
            )
            if "SLUICE_" not in (told := refusal(hob, filled)):
                passed.append((filled, told))
        assert stored(lake, format_, name) == before[name], (name, passed)
    # They ask visible rows alone: none of them has that id.
    texts = [text for text in BOTH.strip().splitlines() if "id = 1" in text or "m.id = s.k" in text]
    assert passed == [(text.format(t=f"{db}.rows"), "") for text in texts]


@pytest.mark.parametrize("endpoint", ["thrift", "connect"])
@pytest.mark.parametrize("format_", DATABASES)
@pytest.mark.in_turn(3)
def test_what_came_meanwhile_outlives_them_too(
    ask: Any, lake: LakeSpark, format_: str, endpoint: str
) -> None:
    """That a table is not there is remembered, too; what it hides is seen when it is to be removed."""
    hob = ask(endpoint, "hob")
    for number, text in enumerate(
        ("DROP TABLE IF EXISTS {t}", "CREATE OR REPLACE TABLE {t} AS SELECT 1 AS id")
    ):
        table = f"{DATABASES[format_]}.values_late_{endpoint}_{number}"
        assert "TABLE_OR_VIEW_NOT_FOUND" in refusal(hob, f"SELECT * FROM {table}")
        made = f"CREATE TABLE {table} USING {format_} AS SELECT 1 AS id, 'p' AS pin, 0 AS day"
        lake.spark.query(made, user="loader")
        assert "drop by name" in refusal(hob, text.format(t=table))
        assert lake.spark.query(f"SELECT * FROM {table}", user="loader") == [(1, "p", 0)]


@pytest.mark.parametrize("format_", DATABASES)
@pytest.mark.in_turn(3)
def test_what_is_hidden_outlives_frames(gateway: RunningGateway, lake: LakeSpark, format_: str) -> None:
    with gateway.session("hob", PASSWORD) as session:
        for name in TABLES:
            before = stored(lake, format_, name)
            for what, write in FRAMES.items():
                table = f"{DATABASES[format_]}.{name}"
                told = refusal(lambda table, write=write: write(session, table), table)
                assert "SLUICE_" in told, (what, name, told)
            assert stored(lake, format_, name) == before


@pytest.mark.parametrize("format_", DATABASES)
@pytest.mark.in_turn(3)
def test_whoever_may_drop_by_name_replaces(ask: Any, lake: LakeSpark, format_: str) -> None:
    lea, db = ask("thrift", "lea"), DATABASES[format_]
    for name in TABLES:
        made = f"{db}.{name}_again"
        lake.spark.query(f"CREATE TABLE {made} USING {format_} AS SELECT * FROM {db}.{name}", user="loader")
        lea(f"CREATE OR REPLACE TABLE {made} USING {format_} AS SELECT 7 AS id")
        assert lake.spark.query(f"SELECT * FROM {made}", user="loader") == [(7,)]
        lea(f"DROP TABLE {made}")
