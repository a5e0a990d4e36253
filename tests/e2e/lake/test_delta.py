"""Delta before Spark 4.1: what a user gets is what copies that were filtered and masked beforehand give."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e import one_pack
from tests.e2e.lake.changes import (
    require_files_without_hidden_rows,
    require_hidden_rows_are_not_written,
    require_hidden_rows_stay,
    require_two_users_stay_apart,
)
from tests.e2e.lake.renames import (
    VIEWS_ARE_READ,
    require_commands_read_no_renamed_column,
    require_reads_show_no_renamed_column,
)
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import RunningGateway, connect_session

pytestmark = pytest.mark.in_turn(13, one_way=True)

PACK = """
service: spark
policies:
  - name: analysts may do all in the shop
    on: {catalog: spark_catalog, database: shop, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [all]}]
  - name: stewards do all
    on:
      - {catalog: spark_catalog, database: "*", table: "*", column: "*"}
      - {catalog: spark_catalog, database: "*"}
    allow: [{groups: [stewards], access: [all]}]
  - name: customers of a region
    on: {catalog: spark_catalog, database: shop, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: files that analysts tend
    on: {catalog: spark_catalog, database: shop, table: "tended*"}
    allow: [{groups: [analysts], access: [maintain]}]
  - name: tended rows of a region
    on: {catalog: spark_catalog, database: shop, table: tended}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: spark_catalog, database: shop, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: addresses of others
    on: {catalog: spark_catalog, database: shop, table: "changed_*", column: email}
    mask: [{groups: [analysts], type: MASK_NULL}]
  - name: numbers
    on: {catalog: spark_catalog, database: shop, table: customer, column: phone}
    mask: [{groups: [analysts], type: MASK_NULL}]
  - name: the same column by names that it has now
    on: {catalog: spark_catalog, database: shop, table: "moved_*", column: contact}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: a column that nobody may see
    on: {catalog: spark_catalog, database: shop, table: "moved_*", column: pin}
    deny: [{groups: [analysts], access: [select]}]
  - name: rows of a region by the name that it has now
    on: {catalog: spark_catalog, database: shop, table: ["moved_*", kept_rows]}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: rows of one user and of another
    on: {catalog: spark_catalog, database: shop, table: split_rows}
    filter: [{users: [bob], where: "region = 'EMEA'"}, {users: [amy], where: "region = 'AMER'"}]
  - name: rows that analysts write and read back
    on: {catalog: spark_catalog, database: shop, table: [checked_rows, checked_files]}
    check: true
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
"""
CANARY = "canary-9152"
COLUMNS = "(id INT, name STRING, email STRING, phone STRING, region STRING, day DATE) USING delta"
FEED = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
FIRST = f"""(1, 'Ann', 'ann@{CANARY}', '555-{CANARY}', 'EMEA', DATE'2024-01-01'),
    (2, '{CANARY}', 'bob@x.example', '555-0199', 'AMER', DATE'2024-01-02'),
    (3, 'Eve', 'eve@x.example', NULL, 'EMEA', DATE'2024-01-02')"""
SECOND = f"""(4, 'Zoe', 'zoe@{CANARY}', '1', 'EMEA', DATE'2024-01-03'),
    (5, '{CANARY}', '', '2', 'APAC', DATE'2024-01-03')"""
AS_SEEN = (
    "SELECT id, name, sha2(email, 256), CAST(NULL AS STRING), region, day FROM VALUES {} "
    "AS t(id, name, email, phone, region, day) WHERE region = 'EMEA'"
)


@pytest.fixture(scope="module", params=["3.5", "4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    made = ["CREATE DATABASE hidden", "CREATE DATABASE one", "CREATE DATABASE two"]
    for db, rows in (("shop", "VALUES {}"), ("shop_copy", AS_SEEN)):
        made += [
            f"CREATE DATABASE {db}",
            f"CREATE TABLE {db}.customer {COLUMNS} PARTITIONED BY (day) {FEED}",
            f"INSERT INTO {db}.customer {rows.format(FIRST)}",
            f"INSERT INTO {db}.customer {rows.format(SECOND)}",
            f"CREATE TABLE {db}.plain (id INT, note STRING) USING delta {FEED}",
            f"INSERT INTO {db}.plain VALUES (1, 'a'), (2, 'b')",
            f"UPDATE {db}.plain SET note = 'c' WHERE id = 2",
        ]
    made += [
        f"CREATE TABLE hidden.secret (id INT, s STRING) USING delta {FEED}",
        f"INSERT INTO hidden.secret VALUES (1, '{CANARY}')",
    ]
    lake.spark.query(*made, user="loader")
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    with lake.gateway(
        "delta", PACK + VIEWS_ARE_READ, {"bob": ["analysts"], "amy": ["analysts"], "stew": ["stewards"]}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def bob(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="shop", copies="shop_copy") as twins:
        yield twins


@pytest.fixture(scope="module")
def steward(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    """Two databases that are alike, one behind the gateway for somebody who may do all."""
    with Twins.open(lake, gateway, "stew", governed="one", copies="two") as twins:
        yield twins


READS = """
SELECT * FROM customer ORDER BY id
SELECT * FROM {db}.customer WHERE id > 1 ORDER BY id
SELECT * FROM spark_catalog.{db}.customer ORDER BY id
SELECT count(*) AS n, min(name) AS a, max(name) AS z, max(email) AS e FROM customer
SELECT region, count(*) AS n FROM customer GROUP BY region
SELECT day, count(DISTINCT email) AS n FROM customer GROUP BY day ORDER BY day
SELECT * FROM customer VERSION AS OF 0
SELECT * FROM customer VERSION AS OF 1 ORDER BY id
SELECT * FROM customer VERSION AS OF 2 ORDER BY id
SELECT * FROM customer FOR SYSTEM_VERSION AS OF 1 WHERE phone IS NULL ORDER BY id
SELECT * FROM {db}.customer VERSION AS OF '1' ORDER BY id
SELECT c.id FROM customer VERSION AS OF 1 AS c JOIN customer d ON c.email = d.email ORDER BY c.id
SELECT id FROM customer EXCEPT SELECT id FROM customer VERSION AS OF 1
SELECT id FROM customer WHERE email = 'ann@canary-9152'
SELECT id FROM customer WHERE phone LIKE '555%'
SELECT id FROM customer WHERE name = 'canary-9152'
SELECT name FROM customer WHERE day = DATE'2024-01-01'
SELECT name FROM customer WHERE day >= DATE'2024-01-02' AND name LIKE 'E%'
WITH c AS (SELECT id, upper(name) AS n FROM customer) SELECT * FROM c WHERE id IN (SELECT id FROM c)
SELECT id, row_number() OVER (PARTITION BY day ORDER BY id) AS r FROM customer ORDER BY id
SELECT * FROM customer TABLESAMPLE (100 PERCENT) REPEATABLE (1) ORDER BY id
SELECT * FROM customer PIVOT (count(*) FOR region IN ('EMEA', 'AMER')) ORDER BY id
SELECT c.name, p.note FROM customer c LEFT JOIN plain p ON p.id = c.id ORDER BY c.id
SELECT p.id FROM plain p LEFT ANTI JOIN customer c ON p.id = c.id
SELECT p.id, (SELECT max(name) FROM customer c WHERE c.id = p.id) AS n FROM plain p ORDER BY p.id
SELECT id FROM customer UNION SELECT id FROM plain
FROM customer |> WHERE id > 1 |> SELECT id, name |> ORDER BY id
SELECT id, x FROM customer, LATERAL (SELECT id + 1 AS x) ORDER BY id
SELECT day, count(*) AS n FROM customer GROUP BY ROLLUP (day)
SELECT * FROM customer LIMIT 0
SELECT DISTINCT region FROM customer
SELECT no_such FROM customer
SELECT /*+ BROADCAST(c) */ c.id FROM customer c JOIN plain p ON c.id = p.id
SHOW COLUMNS IN customer
SELECT * FROM plain ORDER BY id
SELECT * FROM plain VERSION AS OF 1 ORDER BY id
SELECT id, note, _change_type, _commit_version FROM table_changes('{db}.plain', 0) ORDER BY id, note
SELECT id, _change_type FROM table_changes('{db}.plain', 2, 2) ORDER BY id, _change_type
SELECT count(*) AS n FROM table_changes('{db}.plain', 0) c JOIN customer USING (id)
"""


@pytest.mark.in_turn(17, one_way=True)
def test_reads_are_those_of_copies(bob: Twins) -> None:
    bob.all_same(READS.strip().splitlines())


PRUNED = {
    "SELECT id FROM customer WHERE day = DATE'2024-01-02'": (
        r"PartitionFilters: \[.*\(day#\d+ = 2024-01-02\)",
        r"PushedFilters: \[.*EqualTo\(region,EMEA\)",
    ),
    "SELECT id, email FROM customer WHERE id >= 3": (r"PushedFilters: \[.*GreaterThanOrEqual\(id,3\)",),
}
"""By partition, and by what Delta's log has bounds of."""


@pytest.mark.in_turn(17, one_way=True)
def test_partitions_and_statistics_are_used_under_masks_and_filters(
    lake: LakeSpark, gateway: RunningGateway, bob: Twins
) -> None:
    for text, pushed in PRUNED.items():
        ((plan,),) = lake.spark.query("USE shop", f"EXPLAIN FORMATTED {bob.forwarded(gateway, 'bob', text)}")
        for condition in pushed:
            assert re.search(condition, plan), (condition, plan)


@pytest.mark.in_turn(17, one_way=True)
def test_plans_and_descriptions_tell_nothing_of_policies_or_hidden_rows(lake: LakeSpark, bob: Twins) -> None:
    (told,) = lake.spark.query("USE shop", "DESCRIBE DETAIL customer")
    place = next(str(cell) for cell in told if "/customer" in str(cell))
    texts = [f"EXPLAIN {how} SELECT id, email, phone FROM customer" for how in ("", "EXTENDED", "FORMATTED")]
    for text in (*texts, "EXPLAIN EXTENDED DELETE FROM customer WHERE id = 1"):
        asked = bob.ours.ask(text)
        assert "EMEA" not in str(asked), text
        assert "sha2" not in str(asked), text
    for text in (
        "DESCRIBE EXTENDED customer",
        "DESCRIBE EXTENDED customer id",
        "SHOW TBLPROPERTIES customer",
    ):
        asked = bob.ours.ask(text)
        assert asked.rows, text
        assert place not in str(asked.rows), text
    assert [row[0] for row in bob.ours.ask("DESCRIBE EXTENDED customer id").rows] == [
        "col_name",
        "data_type",
        "comment",
    ]
    for how in ("COST", "CODEGEN"):
        assert "ACCESS_DENIED" in str(bob.ours.ask(f"EXPLAIN {how} SELECT id FROM customer")), how


FRAMES: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda spark, db: spark.table("customer").orderBy("id"),
    "of a database": lambda spark, db: spark.read.table(f"{db}.customer").filter("id > 1"),
    "of a format": lambda spark, db: spark.read.format("delta").table(f"{db}.customer"),
    "columns": lambda spark, db: spark.table("customer").select("id", "email", "phone"),
    "grouped": lambda spark, db: spark.table("customer").groupBy("region").count(),
    "pruned": lambda spark, db: spark.table("customer").filter("day = DATE'2024-01-02'"),
    "masked in a condition": lambda spark, db: spark.table("customer").filter("email LIKE 'ann%'"),
    "joined": lambda spark, db: spark.table("customer").join(spark.table("plain"), "id", "left"),
    "with itself": lambda spark, db: (
        spark.table("customer").alias("a").join(spark.table("customer").alias("b"), "email")
    ),
    "union": lambda spark, db: spark.table("customer").select("id").union(spark.table("plain").select("id")),
    "distinct": lambda spark, db: spark.table("customer").select("region").distinct(),
    "of a text": lambda spark, db: spark.sql("SELECT * FROM customer VERSION AS OF 1"),
    "of a text, filtered": lambda spark, db: spark.sql("SELECT * FROM customer").filter("phone IS NULL"),
    "described": lambda spark, db: spark.table("customer").summary("count", "min", "max"),
    "sampled": lambda spark, db: spark.table("customer").sample(1.0, seed=3),
    "renamed": lambda spark, db: spark.table("customer").withColumnRenamed("email", "e").drop("day"),
    "limited": lambda spark, db: spark.table("customer").orderBy("id").limit(2),
    "crosstab": lambda spark, db: spark.table("customer").crosstab("region", "day"),
    "window": lambda spark, db: spark.table("customer").selectExpr(
        "id", "lag(email) OVER (ORDER BY id) AS l"
    ),
    "without nulls": lambda spark, db: spark.table("customer").na.fill("x"),
    "no such column": lambda spark, db: spark.table("customer").select("no_such"),
    "a version by option": lambda spark, db: spark.read.option("versionAsOf", 1).table("customer"),
    "a version by option of a format": lambda spark, db: (
        spark.read.format("delta").option("VersionAsOf", "1").table(f"{db}.customer").filter("id > 1")
    ),
    "a time beyond the last": lambda spark, db: spark.read.option("timestampAsOf", "2099-01-01").table(
        "customer"
    ),
    "changes by option": lambda spark, db: (
        spark.read.option("readChangeFeed", "true")
        .option("startingVersion", 1)
        .table(f"{db}.plain")
        .select("id", "note", "_change_type", "_commit_version")
    ),
    "changes between two": lambda spark, db: (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", 2)
        .option("endingVersion", 2)
        .table(f"{db}.plain")
        .select("id", "_change_type")
    ),
    "changes": lambda spark, db: spark.sql(
        f"SELECT id, note, _change_type FROM table_changes('{db}.plain', 0)"
    ),
}


@pytest.mark.in_turn(17, one_way=True)
def test_dataframes_are_those_of_copies(lake: LakeSpark, bob: Twins) -> None:
    if lake.spark.connect_port:
        bob.all_same_frames(FRAMES)


STREAMS: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda spark, db: spark.readStream.table(f"{db}.customer"),
    "of a format": lambda spark, db: spark.readStream.format("delta").table(f"{db}.customer"),
    "columns": lambda spark, db: spark.readStream.table(f"{db}.customer").select("id", "email"),
}


@pytest.mark.in_turn(17, one_way=True)
def test_streams_are_guarded_as_the_table_is(lake: LakeSpark, bob: Twins) -> None:
    if not lake.spark.connect_port:
        return
    for name, program in STREAMS.items():
        answer = bob.same_stream(name, program)
        assert not answer.error
        assert len(answer.rows) == 3


PAST = (
    "SELECT * FROM hidden.secret",
    "SELECT * FROM hidden.secret VERSION AS OF 1",
    "SELECT * FROM hidden.`secret@v1`",
    "SELECT * FROM shop.`customer@v1`",
    "SELECT * FROM shop.customer@v1",
    "SELECT * FROM `shop.customer@v1`",
    "SELECT * FROM delta.`{place}/customer`",
    "SELECT * FROM delta.`{place}/customer@v1`",
    "SELECT * FROM delta.`{place}/customer` VERSION AS OF 1",
    "SELECT * FROM DELTA.`{place}/plain`",
    "SELECT * FROM spark_catalog.delta.`{place}/customer`",
    "SELECT * FROM parquet.`{place}/customer/day=2024-01-01`",
    "SELECT * FROM json.`{place}/customer/_delta_log`",
    "SELECT * FROM json.`{place}/customer/_delta_log/00000000000000000001.json`",
    "SELECT * FROM text.`{place}/customer/_delta_log`",
    "SELECT * FROM binaryFile.`{place}/customer/_delta_log`",
    "SELECT * FROM parquet.`{place}/customer/_delta_log`",
    "SELECT * FROM IDENTIFIER('delta.`{place}/customer`')",
    "SELECT * FROM table_changes('shop.customer', 0)",
    "SELECT * FROM table_changes('hidden.secret', 0)",
    "SELECT * FROM table_changes('SHOP.CUSTOMER', 0, 2)",
    "SELECT * FROM table_changes('customer', 0)",
    "SELECT * FROM table_changes('plain', 0)",
    "SELECT * FROM table_changes('spark_catalog.shop.customer', 0)",
    "SELECT * FROM table_changes('`shop`.`customer`', 0)",
    "SELECT * FROM table_changes('shop' || '.customer', 0)",
    "SELECT * FROM table_changes('delta.`{place}/customer`', 0)",
    "SELECT * FROM table_changes('shop.plain', (SELECT max(id) FROM hidden.secret))",
    "SELECT * FROM table_changes_by_path('{place}/customer', 0)",
    "SELECT * FROM table_changes_by_path('{place}/plain', 0)",
    "CREATE VIEW shop.v AS SELECT * FROM table_changes('shop.plain', 0)",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM table_changes('shop.plain', 0)",
    "CACHE TABLE c AS SELECT * FROM table_changes('shop.plain', 0)",
    "DESCRIBE HISTORY shop.customer",
    "DESCRIBE HISTORY customer",
    "DESCRIBE HISTORY hidden.secret",
    "DESCRIBE HISTORY '{place}/customer'",
    "DESCRIBE HISTORY delta.`{place}/customer`",
    "DESCRIBE DETAIL shop.customer",
    "DESCRIBE DETAIL hidden.secret",
    "DESCRIBE DETAIL '{place}/customer'",
    "DESCRIBE DETAIL delta.`{place}/plain`",
    "DESCRIBE TABLE EXTENDED delta.`{place}/customer`",
    "CREATE TABLE shop.c SHALLOW CLONE shop.customer",
    "CREATE TABLE shop.c SHALLOW CLONE shop.customer VERSION AS OF 1",
    "CREATE TABLE shop.c SHALLOW CLONE hidden.secret",
    "CREATE TABLE shop.c SHALLOW CLONE delta.`{place}/customer`",
    "CREATE OR REPLACE TABLE shop.plain SHALLOW CLONE hidden.secret",
    "CREATE TABLE shop.c SHALLOW CLONE shop.plain LOCATION '{place}/customer'",
    "CREATE TABLE shop.c USING delta LOCATION '{place}/customer'",
    "CREATE TABLE shop.c USING delta OPTIONS (path '{place}/customer')",
    "CREATE TABLE shop.c (id INT) USING delta TBLPROPERTIES ('path' = '{place}/customer')",
    "CREATE TABLE delta.`{place}/c` (id INT) USING delta",
    "ALTER TABLE shop.plain SET LOCATION '{place}/customer'",
    "CONVERT TO DELTA parquet.`{place}/customer`",
    "CONVERT TO DELTA shop.plain",
    "OPTIMIZE shop.customer",
    "OPTIMIZE shop.customer ZORDER BY (email)",
    "OPTIMIZE shop.customer WHERE day = '2024-01-01'",
    "OPTIMIZE '{place}/customer'",
    "OPTIMIZE delta.`{place}/customer`",
    "OPTIMIZE shop.plain WHERE id = (SELECT max(id) FROM hidden.secret)",
    "OPTIMIZE shop.plain WHERE reflect('java.lang.System', 'getenv') = 'x'",
    "VACUUM shop.customer",
    "VACUUM shop.customer DRY RUN",
    "VACUUM '{place}/customer' DRY RUN",
    "VACUUM hidden.secret DRY RUN",
    "VACUUM shop.plain USING INVENTORY (SELECT * FROM hidden.secret)",
    "VACUUM shop.plain USING INVENTORY hidden.secret",
    "RESTORE TABLE shop.customer TO VERSION AS OF 1",
    "RESTORE shop.customer VERSION AS OF 1",
    "RESTORE TABLE delta.`{place}/customer` TO VERSION AS OF 1",
    "RESTORE TABLE hidden.secret TO VERSION AS OF 0",
    "REORG TABLE shop.customer APPLY (PURGE)",
    "REORG TABLE delta.`{place}/customer` APPLY (PURGE)",
    "GENERATE symlink_format_manifest FOR TABLE shop.customer",
    "GENERATE symlink_format_manifest FOR TABLE delta.`{place}/customer`",
    "ALTER TABLE shop.customer ADD CONSTRAINT c CHECK (email <> 'x')",
    "ALTER TABLE shop.plain ADD CONSTRAINT c CHECK (id > (SELECT max(id) FROM hidden.secret))",
    "ALTER TABLE hidden.secret DROP CONSTRAINT c",
    "ALTER TABLE shop.customer DROP FEATURE deletionVectors",
    "ALTER TABLE delta.`{place}/customer` ADD COLUMN x INT",
    "UPDATE shop.customer SET phone = email",
    "UPDATE delta.`{place}/customer` SET phone = email",
    "DELETE FROM shop.customer WHERE email LIKE '%9152'",
    "DELETE FROM delta.`{place}/customer`",
    "INSERT INTO delta.`{place}/plain` VALUES (7, 'x')",
    "INSERT INTO shop.plain SELECT id, s FROM hidden.secret",
    "INSERT INTO shop.customer REPLACE WHERE id = 2 SELECT * FROM shop.customer",
    "MERGE INTO shop.customer t USING shop.plain s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "MERGE WITH SCHEMA EVOLUTION INTO shop.customer t USING shop.plain s ON t.id = s.id "
    "WHEN NOT MATCHED THEN INSERT *",
    "MERGE INTO delta.`{place}/plain` t USING shop.plain s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "ALTER TABLE shop.customer CLUSTER BY (id)",
    "CREATE OR REPLACE TABLE shop.c USING delta TBLPROPERTIES ('delta.x.path' = '/tmp/x') AS SELECT 1 AS a",
    "SELECT r'\\', 'CLUSTER /*' AS `*/ BY (x) ' AS c, email FROM spark_catalog.shop.customer --'`",
    "SELECT _metadata.file_path FROM shop.customer",
    "SHOW CREATE TABLE hidden.secret",
    "SHOW TBLPROPERTIES delta.`{place}/customer`",
    "SHOW COLUMNS IN delta.`{place}/customer`",
)


@pytest.mark.parametrize("text", PAST)
@pytest.mark.in_turn(17, one_way=True)
def test_there_is_no_way_past_a_filter_or_mask(lake: LakeSpark, bob: Twins, text: str) -> None:
    message = bob.refusal(text.replace("{place}", str(lake.warehouse / "shop.db")))
    assert CANARY not in message
    if text.startswith("SELECT * FROM shop.customer@") or (
        lake.minor < (4, 0) and "SCHEMA EVOLUTION" in text
    ):
        assert "PARSE_SYNTAX_ERROR" in message
        return
    assert message.startswith("[SLUICE_"), message


@pytest.mark.in_turn(17, one_way=True)
def test_rows_that_are_not_seen_are_not_changed(lake: LakeSpark, bob: Twins) -> None:
    require_hidden_rows_stay(lake, bob, "delta")
    require_hidden_rows_are_not_written(lake, bob, "delta")
    require_files_without_hidden_rows(lake, bob)


@pytest.mark.night
def test_two_users_change_rows_of_one_table(lake: LakeSpark, gateway: RunningGateway, bob: Twins) -> None:
    require_two_users_stay_apart(lake, gateway, bob, "delta")


@pytest.mark.in_turn(17, one_way=True)
def test_history_is_for_whoever_may_see_all_of_a_table(bob: Twins) -> None:
    history = bob.ours.ask("DESCRIBE HISTORY shop.plain")
    assert [row[4] for row in history.rows] == ["UPDATE", "WRITE", "CREATE TABLE"]
    assert len(bob.ours.ask("DESCRIBE HISTORY plain LIMIT 1").rows) == 1
    assert bob.ours.ask("DESCRIBE DETAIL shop.plain").rows[0][0] == "delta"


WRITES = """
CREATE TABLE t (id INT, name STRING, day DATE) USING delta PARTITIONED BY (day)
INSERT INTO t VALUES (1, 'a', DATE'2024-01-01'), (2, 'b', DATE'2024-01-02')
INSERT INTO t BY NAME SELECT 'c' AS name, 3 AS id, DATE'2024-01-03' AS day
INSERT OVERWRITE t PARTITION (day = DATE'2024-01-02') SELECT 4, 'd'
INSERT INTO t REPLACE WHERE day = DATE'2024-01-02' SELECT 5, 'e', DATE'2024-01-02'
UPDATE t SET name = upper(name) WHERE id < 3
DELETE FROM t WHERE id = 3
MERGE INTO t USING (SELECT 1 AS id, 'm' AS name, DATE'2024-02-01' AS day) s ON t.id = s.id \
WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *
MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 7 AS id, 'n' AS name, DATE'2024-02-01' AS day, 1 AS more) s \
ON t.id = s.id WHEN NOT MATCHED THEN INSERT *
ALTER TABLE t ADD COLUMN note STRING
ALTER TABLE t ADD CONSTRAINT positive CHECK (id > 0)
INSERT INTO t VALUES (-1, 'x', DATE'2024-01-01', 1, 'x')
ALTER TABLE t DROP CONSTRAINT positive
ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')
INSERT INTO t VALUES (8, 'x', DATE'2024-01-01', 1, 'x')
RESTORE TABLE t TO VERSION AS OF 3
CREATE TABLE u USING delta AS SELECT id, name FROM t
CREATE OR REPLACE TABLE u USING delta AS SELECT id FROM t
DROP TABLE u
CREATE TABLE w SHALLOW CLONE {db}.t
CREATE TABLE x SHALLOW CLONE {db}.t VERSION AS OF 1
CREATE OR REPLACE TABLE x SHALLOW CLONE t
CREATE TABLE y (a INT, b INT) USING delta CLUSTER BY (a)
""".replace("\\\n", "")
CHANGING = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "RESTORE"})
"""What such statements begin with that change the rows of `t`; each statement of Delta's takes seconds."""


@pytest.mark.in_turn(17, one_way=True)
def test_who_may_do_all_does_what_a_direct_session_does(lake: LakeSpark, steward: Twins) -> None:
    for text in WRITES.strip().splitlines():
        if lake.minor < (4, 0) and "CLUSTER BY" in text:
            assert steward.refusal(text).startswith("[SLUICE_TWO_READINGS]")
            continue
        steward.same(text)
        if text.split()[0] in CHANGING:
            steward.same("SELECT * FROM t ORDER BY id")
    for table in ("w", "x") if lake.minor < (4, 0) else ("w", "x", "y"):
        assert not steward.same(f"SELECT * FROM {table}").error
    for text in (
        "OPTIMIZE one.t",
        "OPTIMIZE t ZORDER BY (id)",
        "OPTIMIZE one.t WHERE day = DATE'2024-01-01'",
        "VACUUM one.t",
        "VACUUM t DRY RUN",
        "GENERATE symlink_format_manifest FOR TABLE one.t",
        "DESCRIBE HISTORY one.t",
        "DESCRIBE DETAIL one.t",
    ):
        assert steward.ours.ask(text).error == steward.theirs.ask(text.replace("one.", "two.")).error == "", (
            text
        )
    if lake.minor < (4, 0):
        # Delta's parser forgets the catalog that was written, so that the name means the current one's.
        assert "could not prove" in steward.refusal("REORG TABLE one.t APPLY (PURGE)")
    else:
        assert steward.ours.ask("REORG TABLE one.t APPLY (PURGE)").error == ""
    for condition in ("day = (SELECT DATE'2024-01-01')", "reflect('a', 'b') = 1"):
        assert "[" in steward.refusal(f"OPTIMIZE one.t WHERE {condition}")


AFTER_VIEWS = (
    "SELECT * FROM table_changes('shop.over_customer', 0)",
    "SELECT * FROM table_changes('over_customer', 0)",
    "SELECT * FROM table_changes('over_secret', 0)",
    "CREATE TABLE shop.c SHALLOW CLONE shop.over_customer",
    "CREATE TABLE shop.c SHALLOW CLONE over_customer",
    "CREATE OR REPLACE TABLE shop.customer SHALLOW CLONE shop.customer",
    "CREATE OR REPLACE TABLE shop.plain SHALLOW CLONE shop.customer VERSION AS OF 0",
    "OPTIMIZE shop.plain WHERE java_method('java.lang.System', 'getenv') = 'x'",
    "ALTER TABLE shop.plain ADD CONSTRAINT c CHECK (reflect('java.lang.System', 'nanoTime') <> 'x')",
    "ALTER TABLE shop.plain ADD CONSTRAINT c CHECK (EXISTS (SELECT 1 FROM hidden.secret))",
    "DESCRIBE HISTORY shop.over_customer",
    "DESCRIBE DETAIL over_customer",
)


def test_a_view_is_no_way_to_changes_clones_or_history(bob: Twins) -> None:
    for text in (
        "CREATE OR REPLACE VIEW shop.over_customer AS SELECT * FROM shop.customer",
        "CREATE OR REPLACE TEMPORARY VIEW over_customer AS SELECT * FROM shop.customer",
    ):
        bob.ours.message(text)
    passed = []
    for text in AFTER_VIEWS:
        message = bob.ours.message(text)
        if message is None or not message.startswith("[SLUICE_") or CANARY in message:
            passed.append((text, message))
    assert not passed, passed


FRAMES_PAST: dict[str, Callable[[Any, str], Any]] = {
    "by path": lambda spark, place: spark.read.format("delta").load(f"{place}/customer"),
    "a partition's directory": lambda spark, place: spark.read.format("delta").load(
        f"{place}/customer/day=2024-01-01"
    ),
    "the files": lambda spark, place: spark.read.parquet(f"{place}/customer/day=2024-01-01"),
    "the log": lambda spark, place: spark.read.json(f"{place}/customer/_delta_log"),
    "a version by path": lambda spark, place: spark.read.format("delta").load(f"{place}/customer@v1"),
    "changes by option": lambda spark, place: (
        spark.read.option("readChangeFeed", "true").option("startingVersion", 0).table("shop.customer")
    ),
    "changes without a beginning": lambda spark, place: spark.read.option("readChangeFeed", "true").table(
        "shop.plain"
    ),
    "changes and a version": lambda spark, place: (
        spark.read.option("readChangeFeed", "true")
        .option("startingVersion", 0)
        .option("versionAsOf", 1)
        .table("shop.plain")
    ),
    "a version of a hidden one": lambda spark, place: spark.read.option("versionAsOf", 1).table(
        "hidden.secret"
    ),
    "changes of another": lambda spark, place: (
        spark.read.format("delta").option("readChangeFeed", "true").load("shop.customer")
    ),
    "a hidden one's changes": lambda spark, place: spark.sql(
        "SELECT * FROM table_changes('hidden.secret', 0)"
    ),
}


@pytest.mark.in_turn(17, one_way=True)
def test_no_dataframe_is_a_way_past_either(lake: LakeSpark, bob: Twins) -> None:
    if not lake.spark.connect_port:
        return
    bob.require_refused_frames(FRAMES_PAST, lake.warehouse / "shop.db", CANARY)


def test_old_versions_have_their_own_columns(gateway: RunningGateway) -> None:
    """A column that is gone is in old versions and in changes: what policies say of its name holds there."""
    mapped = "TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableChangeDataFeed' = 'true')"
    table = "shop.changed_old"
    with contextlib.ExitStack() as opened:
        steward, ask = (
            opened.enter_context(one_pack.session(gateway, "thrift", user)) for user in ("stew", "bob")
        )
        steward(f"CREATE TABLE {table} (id INT, email STRING) USING delta {mapped}")
        steward(f"INSERT INTO {table} VALUES (1, '{CANARY}')")
        steward(f"ALTER TABLE {table} DROP COLUMN email")
        assert steward(f"SELECT * FROM {table} VERSION AS OF 1") == [(1, CANARY)]
        assert ask(f"SELECT * FROM {table} VERSION AS OF 1") == [(1, None)]
        assert ask(f"SELECT id FROM {table} VERSION AS OF 1 WHERE email LIKE 'canary%'") == []
        for text in (
            f"SELECT email FROM {table}",
            f"SELECT * FROM table_changes('{table}', 0, 1)",
            f"CREATE TABLE shop.cloned_old SHALLOW CLONE {table} VERSION AS OF 1",
        ):
            with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN|SLUICE_ACCESS_DENIED") as raised:
                ask(text)
            assert CANARY not in str(raised.value)


MAPPED = "USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
MOVED = (
    f"CREATE TABLE shop.moved_all (id INT, mail STRING, code INT, area STRING) {MAPPED}",
    f"INSERT INTO shop.moved_all VALUES (1, '{CANARY}', 9, 'EMEA'), (2, '{CANARY}', 8, 'AMER')",
    "ALTER TABLE shop.moved_all RENAME COLUMN mail TO contact",
    "ALTER TABLE shop.moved_all RENAME COLUMN code TO pin",
    "ALTER TABLE shop.moved_all RENAME COLUMN area TO region",
    "ALTER TABLE shop.moved_all ADD COLUMN mail INT",
    f"CREATE TABLE shop.moved_seen (id INT, mail STRING, area STRING) {MAPPED}",
    f"INSERT INTO shop.moved_seen VALUES (1, '{CANARY}', 'EMEA'), (2, '{CANARY}', 'AMER')",
    "ALTER TABLE shop.moved_seen RENAME COLUMN mail TO contact",
    "ALTER TABLE shop.moved_seen RENAME COLUMN area TO region",
    f"CREATE TABLE shop_copy.moved_seen (id INT, mail STRING, area STRING) {MAPPED}",
    f"INSERT INTO shop_copy.moved_seen VALUES (1, sha2('{CANARY}', 256), 'EMEA')",
    f"CREATE TABLE shop_copy.moved_all (id INT, mail STRING, area STRING) {MAPPED}",
    f"INSERT INTO shop_copy.moved_all VALUES (1, sha2('{CANARY}', 256), 'EMEA')",
)
OLD = """
SELECT id, mail, area FROM moved_all VERSION AS OF 1
SELECT mail FROM moved_all FOR SYSTEM_VERSION AS OF 1 WHERE area = 'EMEA' AND mail LIKE 'canary%'
SELECT contact FROM moved_all VERSION AS OF 1
SELECT code FROM moved_all VERSION AS OF 1
SELECT pin FROM moved_all VERSION AS OF '1'
""".strip().splitlines()


def test_a_version_is_read_with_its_own_columns_and_policies_follow_them(
    lake: LakeSpark, gateway: RunningGateway, bob: Twins
) -> None:
    """What is masked, hidden or filtered by under its present name is so under its name of then."""
    lake.spark.query(*MOVED, user="loader")
    bob.all_same(OLD)
    with one_pack.session(gateway, "thrift", "stew") as steward:
        assert steward("SELECT code, mail FROM shop.moved_all VERSION AS OF 1") == [(8, CANARY), (9, CANARY)]
    if lake.spark.connect_port:
        bob.same_frame(
            "versionAsOf",
            lambda spark, db: spark.read.option("versionAsOf", 1).table(f"{db}.moved_seen"),
        )


def test_a_rename_made_outside_opens_nothing(lake: LakeSpark, gateway: RunningGateway) -> None:
    require_reads_show_no_renamed_column(lake, gateway, "shop", MAPPED, CANARY)


def test_a_version_has_the_masks_of_what_its_columns_are_called_by_now(
    lake: LakeSpark, gateway: RunningGateway
) -> None:
    for endpoint in lake.endpoints:
        table = f"shop.changed_version_{endpoint}"
        text = f"SELECT note FROM {table} VERSION AS OF 1"
        lake.spark.query(
            f"CREATE TABLE {table} (id INT, note STRING) {MAPPED}",
            f"INSERT INTO {table} VALUES (1, '{CANARY}')",
            user="loader",
        )
        with one_pack.session(gateway, endpoint, "bob") as ask:
            assert ask(text) == [(CANARY,)]
            lake.spark.query(f"ALTER TABLE {table} RENAME COLUMN note TO email", user="loader")
            assert ask(text) == [(None,)]


def test_a_time_that_spark_computes_chooses_a_version_with_its_own_columns(
    lake: LakeSpark, gateway: RunningGateway
) -> None:
    for endpoint in lake.endpoints:
        table = f"shop.changed_times_{endpoint}"
        lake.spark.query(
            f"CREATE TABLE {table} (id INT, note STRING) {MAPPED}",
            f"INSERT INTO {table} VALUES (1, '{CANARY}')",
            user="loader",
        )
        last = max(lake.spark.query(f"DESCRIBE HISTORY {table}", user="loader"))
        ((millis,),) = lake.spark.query(f"SELECT unix_millis(TIMESTAMP'{last[1]}')", user="loader")
        then = f"TIMESTAMP AS OF timestamp_millis({millis}) + INTERVAL '0' SECOND"
        with one_pack.session(gateway, endpoint, "bob") as ask:
            assert ask(f"SELECT * FROM {table} {then}") == [(1, CANARY)]
            lake.spark.query(
                f"ALTER TABLE {table} RENAME COLUMN note TO email",
                f"ALTER TABLE {table} ADD COLUMN more INT",
                user="loader",
            )
            assert ask(f"SELECT * FROM {table} {then}") == [(1, None)]
            assert ask(f"SELECT note FROM {table} {then}") == [(None,)]
            for other in ("current_timestamp()", f"concat('', timestamp_millis({millis}))"):
                with pytest.raises(Exception, match=r"SLUICE_|\[[A-Z_.]+\] |failed while running") as raised:
                    ask(f"SELECT * FROM {table} TIMESTAMP AS OF {other}")
                assert CANARY not in str(raised.value)


def test_a_version_behind_a_name_is_none_to_spark_and_refused(
    lake: LakeSpark, gateway: RunningGateway
) -> None:
    """Spark's grammar has no `t@v1`, and Delta reads it off paths alone."""
    for name, why in (("shop.customer@v1", "PARSE_SYNTAX_ERROR"), ("shop.`customer@v1`", "customer@v1")):
        with pytest.raises(Exception, match=why):
            lake.spark.query(f"SELECT * FROM {name}", user="loader")
        for endpoint in lake.endpoints:
            with one_pack.session(gateway, endpoint, "bob") as ask:
                with pytest.raises(Exception, match=r"PARSE_SYNTAX_ERROR|SLUICE_NOT_GOVERNABLE") as raised:
                    ask(f"SELECT * FROM {name}")
                assert CANARY not in str(raised.value)


def test_commands_read_no_column_that_was_renamed_outside(lake: LakeSpark, gateway: RunningGateway) -> None:
    require_commands_read_no_renamed_column(lake, gateway, "shop", MAPPED, CANARY)


@pytest.mark.in_turn(17, one_way=True)
def test_a_session_that_outlives_its_gateway_has_no_settings_of_its_client(lake: LakeSpark) -> None:
    """Delta's extension sets some in each session: they are Spark's own, and filters stand under them."""
    if not lake.spark.connect_port:
        return
    text, token = "SELECT id, email FROM shop.customer ORDER BY id", f"bob:{one_pack.PASSWORD}"
    with lake.gateway("delta-anew", PACK, {"bob": ["analysts"]}) as gateway:
        with connect_session(gateway.connect_port, token) as before:
            rows = before.sql(text).collect()
            before.release_session_on_close = False
        assert gateway.stop() == 0
        gateway.start()
        with connect_session(gateway.connect_port, token, session_id=before.session_id) as after:
            assert after.sql(text).collect() == rows


def test_whoever_maintains_a_table_changes_and_sees_no_row_of_it(
    lake: LakeSpark, gateway: RunningGateway
) -> None:
    lake.spark.query(
        "CREATE TABLE shop.tended (id INT, region STRING, note STRING) USING delta",
        *(
            f"INSERT INTO shop.tended VALUES ({one}, '{'AMER' if one % 2 else 'EMEA'}', '{CANARY}')"
            for one in (1, 2)
        ),
        user="loader",
    )
    raw = lake.spark.query("SELECT * FROM shop.tended ORDER BY id", user="loader")
    for endpoint in lake.endpoints:
        with one_pack.session(gateway, endpoint, "bob") as ask:
            for text in ("OPTIMIZE shop.tended", "VACUUM shop.tended", "VACUUM shop.tended RETAIN 200 HOURS"):
                assert CANARY not in str(ask(text)), text
            assert ask("SELECT id FROM shop.tended") == [(2,)]
            for text in (
                "OPTIMIZE shop.tended WHERE id = 1",
                "OPTIMIZE shop.tended ZORDER BY (note)",
                "VACUUM shop.tended DRY RUN",
                "DESCRIBE HISTORY shop.tended",
                "RESTORE TABLE shop.tended TO VERSION AS OF 0",
            ):
                with pytest.raises(Exception, match="a row filter, column mask or hidden column"):
                    ask(text)
    assert lake.spark.query("SELECT * FROM shop.tended ORDER BY id", user="loader") == raw
