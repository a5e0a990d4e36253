"""Paimon's tables on Spark 3.5: as over copies filtered and masked beforehand, and nothing past the masks."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.e2e import one_pack
from tests.e2e.lake.renames import (
    VIEWS_ARE_READ,
    require_commands_read_no_renamed_column,
    require_reads_show_no_renamed_column,
)
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins, statements
from tests.e2e.running import RunningGateway

pytestmark = pytest.mark.in_turn(3)

PACK = """
service: spark
policies:
  - name: analysts read the shop
    on: {catalog: paimon, database: shop, table: [customer, orders], column: "*"}
    allow: [{groups: [analysts], access: [select, show]}]
  - name: customers of a region
    on: {catalog: paimon, database: shop, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses and numbers
    on: {catalog: paimon, database: shop, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: no card for analysts
    on: {catalog: paimon, database: shop, table: customer, column: card}
    mask: [{groups: [analysts], type: MASK_NULL}]
  - name: analysts have settings of Paimon's
    on: {setting: "spark.paimon.*"}
    allow: [{groups: [analysts], access: [set]}]
  - name: engineers may do all
    on:
      - {catalog: paimon, database: "*", table: "*", column: "*"}
      - {catalog: paimon, database: "*"}
    allow: [{groups: [engineers], access: [all]}]
  - name: analysts have tables of their own
    on: {catalog: paimon, database: shop, table: "own_*", column: "*"}
    allow: [{groups: [analysts], access: [all]}]
  - name: analysts read what has other columns now
    on: {catalog: paimon, database: shop, table: moved, column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: a column by the name that it has now
    on: {catalog: paimon, database: shop, table: moved, column: contact}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: rows of a region by the name that it has now
    on: {catalog: paimon, database: shop, table: moved}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: analysts have what is renamed outside
    on: {catalog: paimon, database: shop, table: "changed_*", column: "*"}
    allow: [{groups: [analysts], access: [all]}]
  - name: a column that is called so later
    on: {catalog: paimon, database: shop, table: "changed_*", column: email}
    mask: [{groups: [analysts], type: MASK_NULL}]
"""
CANARIES = ("ann@x.example", "bob@x.example", "eve@x.example", "4000-1", "4000-2", "Bobby")
COLUMNS = (
    "id INT NOT NULL, name STRING, email STRING, card STRING, region STRING, amount DECIMAL(10,2), day DATE"
)
KEYED = (
    "PARTITIONED BY (day) TBLPROPERTIES ('primary-key' = 'id,day', 'bucket' = '1', "
    "'changelog-producer' = 'input', 'file-index.bloom-filter.columns' = 'name')"
)
FIRST = """(1, 'Ann', 'ann@x.example', '4000-1', 'EMEA', 10.50, DATE'2024-01-01'),
    (2, 'Bobby', 'bob@x.example', '4000-2', 'AMER', 20.00, DATE'2024-01-01'),
    (3, 'Eve', 'eve@x.example', NULL, 'EMEA', NULL, DATE'2024-01-02')"""
SECOND = """(1, 'Anna', 'ann@x.example', '4000-1', 'EMEA', 11.00, DATE'2024-01-01'),
    (4, 'Dan', NULL, '4000-4', 'EMEA', 0.01, DATE'2024-01-03')"""
AS_SEEN = (
    "SELECT id, name, sha2(email, 256), CAST(NULL AS STRING), region, amount, day FROM VALUES {} "
    "AS t(id, name, email, card, region, amount, day) WHERE region = 'EMEA'"
)
ORDERS = """(10, 1, DATE'2024-02-01', 5), (11, 2, DATE'2024-02-01', 7), (12, 4, DATE'2024-02-02', 1)"""

SAME = """
SELECT * FROM customer ORDER BY id
SELECT count(*), count(email), count(card), sum(amount) FROM customer
SELECT DISTINCT region FROM customer
SELECT name FROM customer WHERE day = DATE'2024-01-01'
SELECT name FROM customer WHERE day >= DATE'2024-01-02' AND name LIKE 'E%'
SELECT id FROM customer WHERE name = 'Bobby'
SELECT id FROM customer WHERE email = 'ann@x.example'
SELECT id FROM customer WHERE card IS NULL ORDER BY id
SELECT day, max(name) AS m, avg(amount) AS a FROM customer GROUP BY day ORDER BY day
SELECT day, count(*) FROM customer GROUP BY ROLLUP (day)
SELECT c.name, o.quantity FROM customer c JOIN orders o ON o.customer = c.id ORDER BY o.id
SELECT c.name, o.id FROM customer c LEFT JOIN orders o ON o.customer = c.id
SELECT o.id FROM orders o LEFT ANTI JOIN customer c ON o.customer = c.id
SELECT o.id, (SELECT max(name) FROM customer c WHERE c.id = o.customer) AS n FROM orders o ORDER BY o.id
SELECT id FROM orders WHERE customer IN (SELECT id FROM customer)
WITH c AS (SELECT * FROM customer WHERE amount > 1) SELECT a.id FROM c a, c b WHERE a.id <= b.id
SELECT id, row_number() OVER (PARTITION BY region ORDER BY id) AS r FROM customer
SELECT id FROM customer UNION SELECT customer FROM orders
SELECT id FROM customer INTERSECT SELECT customer FROM orders
SELECT * FROM customer VERSION AS OF 1 ORDER BY id
SELECT * FROM customer VERSION AS OF 2 ORDER BY id
SELECT * FROM customer VERSION AS OF 'first' ORDER BY id
SELECT name FROM customer FOR SYSTEM_VERSION AS OF 1 WHERE day = DATE'2024-01-01'
SELECT id FROM customer TIMESTAMP AS OF '2099-01-01 00:00:00'
SELECT a.name, b.name FROM customer VERSION AS OF 1 a JOIN customer b ON a.id = b.id AND a.name <> b.name
SELECT id FROM customer TABLESAMPLE (100 PERCENT) REPEATABLE (1)
SELECT id, lateral_id FROM customer, LATERAL (SELECT id + 1 AS lateral_id)
SELECT * FROM customer LIMIT 0
SELECT id, name, amount FROM customer ORDER BY amount DESC NULLS LAST, id LIMIT 2
SELECT id + 'x' FROM customer
SELECT * FROM {db}.customer WHERE id IN (1, 2)
SELECT /*+ BROADCAST(c) */ c.id FROM customer c JOIN orders o ON c.id = o.customer
SELECT * FROM VALUES (1) AS v(id) JOIN customer USING (id)
SELECT id FROM customer PIVOT (max(name) FOR region IN ('EMEA', 'AMER'))
SELECT exists(transform(collect_list(name), n -> n = 'Bobby'), b -> b) FROM customer
SHOW COLUMNS IN customer
DESCRIBE orders
"""


@pytest.fixture(scope="module", params=["3.5-paimon"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    made = []
    for db, rows in (("shop", "VALUES {}"), ("shop_copy", AS_SEEN)):
        made += [
            f"CREATE NAMESPACE paimon.{db}",
            f"CREATE TABLE paimon.{db}.customer ({COLUMNS}) {KEYED}",
            f"INSERT INTO paimon.{db}.customer {rows.format(FIRST)}",
            f"CALL paimon.sys.create_tag('{db}.customer', 'first', 1)",
            f"INSERT INTO paimon.{db}.customer {rows.format(SECOND)}",
            f"CREATE TABLE paimon.{db}.orders (id INT, customer INT, day DATE, quantity INT) "
            "PARTITIONED BY (day)",
            f"INSERT INTO paimon.{db}.orders VALUES {ORDERS}",
        ]
    lake.spark.query(*made, user="loader")
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    with lake.gateway(
        "paimon", PACK + VIEWS_ARE_READ, {"bob": ["analysts"], "dan": ["engineers"]}
    ) as running:
        yield running


@pytest.fixture(scope="module")
def twins(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="paimon.shop", copies="paimon.shop_copy") as twins:
        yield twins


@pytest.mark.parametrize("text", statements(SAME))
@pytest.mark.in_turn(3)
def test_as_over_a_copy_made_beforehand(twins: Twins, text: str) -> None:
    answer = twins.same(text)
    assert not answer.error
    assert not told(answer.rows)


def told(rows: object) -> list[str]:
    """Return the values in an answer that nobody but engineers may see."""
    return [canary for canary in CANARIES if canary in repr(rows)]


def test_what_fails_fails_as_over_a_copy(twins: Twins) -> None:
    assert twins.same("SELECT no_such FROM customer").error == "UNRESOLVED_COLUMN.WITH_SUGGESTION"
    assert not twins.same("SELECT assert_true(name <> 'Bobby') AS a FROM customer").error
    assert not told(twins.refusal("SELECT * FROM customer VERSION AS OF 99"))


WRITES = """
CREATE TABLE {db}.own_a (id INT, name STRING, region STRING)
  TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')
INSERT INTO {db}.own_a SELECT id, name, email FROM customer
INSERT INTO {db}.own_a VALUES (1, 'again', 'x'), (9, 'new', 'y')
INSERT INTO {db}.own_a (id, name) VALUES (10, 'named')
INSERT INTO {db}.own_a BY NAME SELECT 'by name' AS name, 11 AS id
UPDATE {db}.own_a SET name = upper(name) WHERE id < 10
DELETE FROM {db}.own_a WHERE id = 11
MERGE INTO {db}.own_a t USING (SELECT id, name, email AS region FROM customer) s
  ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.region
MERGE INTO {db}.own_a t USING (SELECT id + 20 AS id, card AS name, 'r' AS region FROM customer) s
  ON t.id = s.id WHEN NOT MATCHED THEN INSERT *
MERGE INTO {db}.own_a t USING orders s ON t.id = s.id WHEN MATCHED THEN DELETE
ALTER TABLE {db}.own_a ADD COLUMNS (extra INT COMMENT 'more')
ALTER TABLE {db}.own_a RENAME COLUMN extra TO other
ALTER TABLE {db}.own_a ALTER COLUMN other TYPE BIGINT
ALTER TABLE {db}.own_a ALTER COLUMN other COMMENT 'text'
ALTER TABLE {db}.own_a DROP COLUMN other
ALTER TABLE {db}.own_a SET TBLPROPERTIES ('snapshot.time-retained' = '2 h')
ALTER TABLE {db}.own_a UNSET TBLPROPERTIES ('snapshot.time-retained')
CREATE TABLE {db}.own_b PARTITIONED BY (day) AS SELECT id, email, day FROM customer
INSERT OVERWRITE {db}.own_b PARTITION (day = '2024-01-03') SELECT 7, 'seven'
INSERT OVERWRITE {db}.own_b SELECT id, name, day FROM customer WHERE day < DATE'2024-01-03'
ALTER TABLE {db}.own_b DROP PARTITION (day = '2024-01-02')
CREATE OR REPLACE TABLE {db}.own_b AS SELECT region, count(*) AS n FROM customer GROUP BY region
TRUNCATE TABLE {db}.own_b
ALTER TABLE {db}.own_b RENAME TO own_c
DROP TABLE {db}.own_c
"""


def test_what_is_written_is_what_a_copy_would_have_given(twins: Twins) -> None:
    for text in statements(WRITES):
        answer = twins.same(text)
        assert not answer.error, (text, answer.error)
        table = "own_a" if "own_a" in text else "own_b"
        if "own_c" not in text:
            assert not told(twins.same(f"SELECT * FROM {{db}}.{table}").rows), text
            twins.same(f"DESCRIBE {{db}}.{table}")
            twins.same(f"SHOW COLUMNS IN {{db}}.{table}")


PAST_THE_MASKS = """
SELECT * FROM `customer$audit_log`
SELECT * FROM {db}.`customer$audit_log`
SELECT * FROM `customer$AUDIT_LOG`
SELECT * FROM `customer$ro`
SELECT * FROM `customer$files`
SELECT * FROM `customer$partitions`
SELECT * FROM `customer$statistics`
SELECT * FROM `customer$branch_main`
SELECT * FROM `customer$branch_main$audit_log`
SELECT * FROM `customer$`
SELECT * FROM paimon.sys.all_table_options
SELECT * FROM paimon_incremental_query('customer', 0, 2)
SELECT * FROM paimon_incremental_query('shop.customer', '0', '2')
SELECT * FROM PAIMON_INCREMENTAL_QUERY(concat('cust', 'omer'), 0, 2)
SELECT __paimon_file_path FROM customer
SELECT __paimon_row_index FROM customer
SELECT * FROM paimon.`{warehouse}/shop.db/customer`
SELECT * FROM parquet.`{warehouse}/shop.db/customer/day=2024-01-01/bucket-0`
INSERT INTO own_x SELECT * FROM `customer$audit_log`
CREATE TABLE own_x AS SELECT * FROM paimon_incremental_query('customer', 0, 2)
CREATE TABLE own_x TBLPROPERTIES ('path' = '{warehouse}/shop.db/customer') AS SELECT 1 AS id
CREATE TABLE own_x (id INT) LOCATION '{warehouse}/shop.db/customer'
CREATE TABLE own_x LIKE customer
ALTER TABLE customer RENAME TO own_x
UPDATE customer SET email = name
DELETE FROM customer WHERE email = 'ann@x.example'
MERGE INTO customer t USING orders s ON t.id = s.id WHEN MATCHED THEN DELETE
MERGE INTO own_a t USING `customer$audit_log` s ON t.id = s.id
  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.email)
CALL paimon.sys.create_branch('shop.customer', 'mine')
CALL paimon.sys.create_tag('shop.customer', 'mine', 1)
CALL paimon.sys.rollback('shop.customer', '1')
CALL paimon.sys.compact(table => 'shop.customer', where => "assert_true(email = 'x')")
CALL paimon.sys.migrate_table('hive', 'shop.customer')
CALL sys.compact('shop.customer')
ANALYZE TABLE customer COMPUTE STATISTICS FOR ALL COLUMNS
SHOW PARTITIONS customer
SET `spark.sql.catalog.paimon.warehouse` = '/tmp'
EXPLAIN EXTENDED SELECT * FROM `customer$files`
DESCRIBE TABLE EXTENDED `customer$files`
CREATE OR REPLACE TEMPORARY VIEW v USING paimon OPTIONS (path '{warehouse}/shop.db/customer')
CREATE TEMPORARY VIEW v AS SELECT * FROM `customer$ro`
"""


@pytest.mark.parametrize("text", statements(PAST_THE_MASKS))
@pytest.mark.in_turn(3)
def test_no_way_past_the_masks(lake: LakeSpark, twins: Twins, text: str) -> None:
    warehouse = f"{lake.warehouse}/paimon"
    message = twins.refusal(text.replace("{warehouse}", warehouse))
    assert message.startswith("[SLUICE_") or "[UNRESOLVED_COLUMN" in message, message
    assert not told(message)


def test_the_statement_of_a_table_says_what_may_be_seen(lake: LakeSpark, twins: Twins) -> None:
    answer = twins.ours.ask("SHOW CREATE TABLE customer")
    assert not answer.error
    ((statement,),) = answer.rows
    assert "USING paimon" in statement
    for hidden in (str(lake.warehouse), "LOCATION", "path", "EMEA", *CANARIES):
        assert hidden not in statement


def test_whoever_may_see_all_is_given_what_paimon_gives(lake: LakeSpark, gateway: RunningGateway) -> None:
    with Twins.open(lake, gateway, "dan", governed="paimon.shop", copies="paimon.shop") as all_of_it:
        for text in (
            "SELECT * FROM customer",
            "SELECT * FROM customer VERSION AS OF 'first'",
            "DESCRIBE TABLE EXTENDED customer",
            "DESCRIBE customer",
            "DESCRIBE customer name",
            "SHOW CREATE TABLE customer",
            "SHOW TBLPROPERTIES customer",
            "SHOW PARTITIONS customer",
            "SHOW TABLES",
            "SHOW TABLES IN paimon.shop LIKE 'c*'",
            "SHOW COLUMNS IN customer",
            "DESCRIBE NAMESPACE EXTENDED paimon.shop",
        ):
            assert not all_of_it.same(text).error, text


PRUNED = {
    "SELECT id FROM customer WHERE day = DATE'2024-01-02'": (
        r"Equal\(day, 19724\)",
        r"Equal\(region, EMEA\)",
    ),
    "SELECT id FROM customer WHERE name = 'Bobby'": (r"Equal\(name, Bobby\)", r"Equal\(region, EMEA\)"),
    "SELECT id FROM customer WHERE id >= 3": (r"GreaterOrEqual\(id, 3\)",),
}
"""By partition, by what has a file index, by what a file has bounds of."""


def test_partitions_and_file_index_are_used_under_masks_and_filters(
    lake: LakeSpark, gateway: RunningGateway, twins: Twins
) -> None:
    forwarded = twins.forwarded(gateway, "bob", " UNION ALL ".join(PRUNED))
    ((plan,),) = lake.spark.query("USE paimon.shop", f"EXPLAIN FORMATTED {forwarded}")
    scans = re.findall(r"PaimonScan: .*", plan)
    assert len(scans) == len(PRUNED)
    for scan, pushed in zip(scans, PRUNED.values(), strict=True):
        for condition in pushed:
            assert re.search(condition, scan), (condition, scan)


@pytest.mark.parametrize("setting", ["scan.snapshot-id=1", "branch=main", "incremental-between=1,2"])
def test_no_mask_or_filter_is_believed_under_settings_of_paimon(
    lake: LakeSpark, gateway: RunningGateway, setting: str
) -> None:
    key, _, value = setting.partition("=")
    with Twins.open(lake, gateway, "bob", governed="paimon.shop", copies="paimon.shop_copy") as session:
        assert session.ours.message(f"SET `spark.paimon.{key}`={value}") is None
        assert "[SLUICE_" in session.refusal("SELECT * FROM customer")
        assert session.ours.message(f"RESET `spark.paimon.{key}`") is None
        assert session.same("SELECT count(*) FROM customer").rows == [(3,)]


METADATA = (
    *("snapshots", "schemas", "options", "manifests", "files", "tags", "branches", "consumers"),
    *("partitions", "statistics", "aggregation_fields"),
)


def test_system_tables_are_for_whoever_sees_all_and_has_the_access(
    lake: LakeSpark, gateway: RunningGateway, twins: Twins
) -> None:
    with Twins.open(lake, gateway, "dan", governed="paimon.shop", copies="paimon.shop") as all_of_it:
        for name in METADATA:
            assert not all_of_it.same(f"SELECT * FROM `customer${name}`").error, name
            assert "[SLUICE_ACCESS_DENIED]" in twins.refusal(f"SELECT * FROM `customer${name}`")
            assert "[SLUICE_ACCESS_DENIED]" in twins.refusal(f"SELECT * FROM paimon.shop.`orders${name}`")
        assert not all_of_it.same("SELECT count(*) FROM paimon.shop.`customer$SNAPSHOTS` s JOIN orders").error
        for name in ("audit_log", "ro", "branch_main", "branch_main$snapshots", "files$files"):
            assert "[SLUICE_NOT_GOVERNABLE]" in all_of_it.refusal(f"SELECT * FROM `customer${name}`")
        assert "[SLUICE_NOT_GOVERNABLE]" in all_of_it.refusal(
            "CREATE TEMPORARY VIEW v AS SELECT * FROM `customer$files`"
        )
        assert all_of_it.refusal("SELECT * FROM `no_such$files`")


CALLS = (
    "compact(table => '{name}', where => \"day = DATE'2024-01-01'\")",
    "compact('{name}')",
    "create_tag('{name}', 't1', 1)",
    "create_tag(table => '{name}', tag => 't2')",
    "delete_tag('{name}', 't1')",
    "create_branch('{name}', 'b1', 't2')",
    "fast_forward('{name}', 'b1')",
    "delete_branch('{name}', 'b1')",
    "expire_snapshots(table => '{name}', retain_max => 10)",
    "expire_partitions('{name}', '10000 d', 'yyyy-MM-dd')",
    "remove_orphan_files('{name}')",
    "mark_partition_done('{name}', 'day=2024-01-01')",
    "reset_consumer('{name}', 'nobody', 1)",
    "rollback('{name}', '1')",
)


def test_procedures(lake: LakeSpark, gateway: RunningGateway, twins: Twins) -> None:
    names = {}
    for db in ("shop", "shop_copy"):
        lake.spark.query(
            f"CREATE TABLE paimon.{db}.called ({COLUMNS}) {KEYED}",
            f"INSERT INTO paimon.{db}.called VALUES {FIRST}",
            f"INSERT INTO paimon.{db}.called VALUES {SECOND}",
            user="loader",
        )
        names[db] = f"{db}.called"
    with Twins.open(lake, gateway, "dan", governed="paimon.shop", copies="paimon.shop_copy") as all_of_it:
        for call in CALLS:
            answer = all_of_it.same(f"CALL paimon.sys.{call}", name=(names["shop"], names["shop_copy"]))
            assert not answer.error, (call, answer.error)
            assert "[SLUICE_" in twins.refusal(f"CALL paimon.sys.{call.replace('{name}', 'shop.customer')}")
            all_of_it.same("SELECT * FROM called ORDER BY id")
        for call in (
            "compact(table => 'shop.called', options => 'commit.callbacks=x')",
            "compact(table => 'shop.called', partitions => 'day=1')",
            "compact(table => 'shop.called', where => \"reflect('java.lang.System', 'getenv') = 'x'\")",
            "compact(table => 'shop.called', where => 'day IN (SELECT day FROM customer)')",
            "compact('called')",
            "compact('spark_catalog.shop.called')",
            "migrate_table('hive', 'shop.called')",
            "repair('shop')",
            "remove_orphan_files('shop.*')",
            "no_such('shop.called')",
            "system.compact('shop.called')",
        ):
            assert "[SLUICE_" in all_of_it.refusal(f"CALL paimon.sys.{call}"), call


def test_a_version_is_read_with_its_own_columns_and_policies_follow_them(
    lake: LakeSpark, twins: Twins
) -> None:
    lake.spark.query(
        "CREATE TABLE paimon.shop.moved (id INT, mail STRING, area STRING)",
        "INSERT INTO paimon.shop.moved VALUES (1, 'ann@x.example', 'EMEA'), (2, 'bob@x.example', 'AMER')",
        "ALTER TABLE paimon.shop.moved RENAME COLUMN mail TO contact",
        "ALTER TABLE paimon.shop.moved RENAME COLUMN area TO region",
        "ALTER TABLE paimon.shop.moved ADD COLUMN mail INT",
        "INSERT INTO paimon.shop.moved VALUES (3, 'eve@x.example', 'EMEA', 7)",
        "CREATE TABLE paimon.shop_copy.moved (id INT, mail STRING, area STRING)",
        "INSERT INTO paimon.shop_copy.moved VALUES (1, sha2('ann@x.example', 256), 'EMEA')",
        user="loader",
    )
    for text in (
        "SELECT id, mail, area FROM moved VERSION AS OF 1",
        "SELECT * FROM moved VERSION AS OF 1",
        "SELECT contact FROM moved VERSION AS OF 1",
        "SELECT id FROM moved VERSION AS OF 1 WHERE mail LIKE 'ann@%'",
    ):
        assert not told(twins.same(text).rows)


def test_a_rename_made_outside_opens_nothing(lake: LakeSpark, gateway: RunningGateway) -> None:
    require_reads_show_no_renamed_column(lake, gateway, "paimon.shop", "", "ann@x.example")


def test_a_version_has_the_masks_of_what_its_columns_are_called_by_now(
    lake: LakeSpark, gateway: RunningGateway
) -> None:
    for endpoint in lake.endpoints:
        table = f"paimon.shop.changed_version_{endpoint}"
        text = f"SELECT note FROM {table} VERSION AS OF 1"
        lake.spark.query(
            f"CREATE TABLE {table} (id INT, note STRING)",
            f"INSERT INTO {table} VALUES (1, 'ann@x.example')",
            user="loader",
        )
        with one_pack.session(gateway, endpoint, "bob") as ask:
            assert ask(text) == [("ann@x.example",)]
            lake.spark.query(f"ALTER TABLE {table} RENAME COLUMN note TO email", user="loader")
            assert ask(text) == [(None,)]


def test_commands_read_no_column_that_was_renamed_outside(lake: LakeSpark, gateway: RunningGateway) -> None:
    made = "TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')"
    require_commands_read_no_renamed_column(lake, gateway, "paimon.shop", made, "ann@x.example")


def test_a_row_that_is_added_takes_no_place_of_a_hidden_one(lake: LakeSpark, gateway: RunningGateway) -> None:
    """Where a table has a primary key, INSERT removes the row with the same key, whoever sees it."""
    keyed, plain = "paimon.shop.changed_keyed", "paimon.shop.changed_unkeyed"
    lake.spark.query(
        f"CREATE TABLE {keyed} (id INT, email STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1')",
        f"CREATE TABLE {plain} (id INT, email STRING)",
        *(f"INSERT INTO {table} VALUES (1, 'ann@x.example')" for table in (keyed, plain)),
        user="loader",
    )
    with one_pack.session(gateway, "thrift", "bob") as ask, one_pack.session(gateway, "thrift", "dan") as dan:
        for text in (
            "INSERT INTO {} VALUES (1, 'x')",
            "INSERT INTO {} (id) VALUES (1)",
            "INSERT INTO {} SELECT 9, 'x'",
            "FROM (SELECT 1 AS id, 'x' AS email) INSERT INTO {} SELECT *",
        ):
            with pytest.raises(Exception, match="SLUICE_ACCESS_DENIED"):
                ask(text.format(keyed))
        ask(f"INSERT INTO {plain} VALUES (1, 'x')")
        assert dan(f"SELECT * FROM {keyed}") == [(1, "ann@x.example")]
        assert dan(f"SELECT * FROM {plain}") == [(1, "ann@x.example"), (1, "x")]
        dan(f"INSERT INTO {keyed} VALUES (1, 'x')")
        assert dan(f"SELECT * FROM {keyed}") == [(1, "x")]
