"""Iceberg before Spark 4.1: what a user gets is what copies that were filtered and masked beforehand give."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from tests.e2e import one_pack
from tests.e2e.lake.changes import (
    require_hidden_rows_are_not_written,
    require_hidden_rows_stay,
    require_two_users_stay_apart,
)
from tests.e2e.lake.renames import (
    VIEWS_ARE_READ,
    require_commands_read_no_renamed_column,
    require_reads_show_no_renamed_column,
)
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins, statements
from tests.e2e.running import RunningGateway

pytestmark = pytest.mark.in_turn(13, one_way=True)

PACK = """
service: spark
policies:
  - name: analysts read the shop
    on: {catalog: ice, database: shop, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select, show, use]}]
  - name: stewards do all
    on: {catalog: ice, database: "*", table: "*", column: "*"}
    allow: [{groups: [stewards], access: [all]}]
  - name: stewards see plain metadata
    on: {catalog: ice, database: shop, table: plain}
    allow: [{groups: [analysts], access: [metadata]}]
  - name: metadata of customers, which a filter takes back
    on: {catalog: ice, database: shop, table: customer}
    allow: [{groups: [analysts], access: [all]}]
  - name: rows that analysts change
    on: {catalog: ice, database: shop, table: [moved_rows, kept_rows, checked_rows, split_rows], column: "*"}
    allow: [{groups: [analysts], access: [all]}]
  - name: customers of a region
    on: {catalog: ice, database: shop, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: what was sold since
    on: {catalog: ice, database: shop, table: sold}
    filter: [{groups: [analysts], where: "day >= DATE'2024-01-02'"}]
  - name: files that analysts tend
    on: {catalog: ice, database: shop, table: fed}
    allow: [{groups: [analysts], access: [maintain]}]
  - name: fed rows of a region
    on: {catalog: ice, database: shop, table: fed}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: ice, database: shop, table: [customer, fed], column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: addresses of others
    on: {catalog: ice, database: shop, table: "changed_*", column: email}
    mask: [{groups: [analysts], type: MASK_NULL}]
  - name: numbers
    on: {catalog: ice, database: shop, table: customer, column: phone}
    mask: [{groups: [analysts], type: MASK_NULL}]
  - name: rows of one's own, by a field
    on: {catalog: ice, database: shop, table: changed_within}
    filter: [{groups: [analysts], where: "s.owner = 'bob'"}]
  - name: the same column by names that it has now
    on: {catalog: ice, database: shop, table: "moved_*", column: [contact, email]}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: a column that nobody may see
    on: {catalog: ice, database: shop, table: "moved_*", column: pin}
    deny: [{groups: [analysts], access: [select]}]
  - name: rows of a region by the name that it has now
    on: {catalog: ice, database: shop, table: ["moved_*", kept_rows]}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: rows of one user and of another
    on: {catalog: ice, database: shop, table: split_rows}
    filter: [{users: [bob], where: "region = 'EMEA'"}, {users: [amy], where: "region = 'AMER'"}]
  - name: rows that analysts write and read back
    on: {catalog: ice, database: shop, table: checked_rows}
    check: true
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
"""
CANARY = "canary-7421"
ROWS = f"""(1, 'Ann', 'ann@{CANARY}', '555-{CANARY}', 'EMEA', DATE'2024-01-01'),
    (2, '{CANARY}', 'bob@x.example', '555-0199', 'AMER', DATE'2024-01-02'),
    (3, 'Eve', 'eve@x.example', NULL, 'EMEA', DATE'2024-01-02')"""
LATER = f"""(4, 'Zoe', 'zoe@{CANARY}', '1', 'EMEA', DATE'2024-01-03'),
    (5, '{CANARY}', '', '2', 'APAC', DATE'2024-01-03')"""
SOLD_COLUMNS = "(id INT, day DATE) USING iceberg PARTITIONED BY (day)"
SOLD = "(1, DATE'2024-01-01'), (5, DATE'2024-01-02'), (9, DATE'2024-01-03'), (4, DATE'2024-01-03')"
COPIED = "SELECT id, name, sha2(email, 256) AS email, CAST(NULL AS STRING) AS phone, region, day"


def feed(table: str, email: str, seen: str = "") -> list[str]:
    """Return what makes a table whose rows, hidden ones too, came and went, on a branch and beside it."""

    def rows(*ids: int) -> str:
        values = ", ".join(f"({one}, 'm{one}@{CANARY}', '{'AMER' if one % 2 else 'EMEA'}')" for one in ids)
        return f"SELECT id, {email}, region FROM VALUES {values} AS v(id, email, region) {seen}"

    return [
        f"CREATE TABLE {table} (id INT, email STRING, region STRING) USING iceberg",
        f"INSERT INTO {table} {rows(1, 2, 3, 4)}",
        f"ALTER TABLE {table} CREATE BRANCH `work`",
        f"ALTER TABLE {table} CREATE BRANCH `au-dit`",
        f"INSERT INTO {table}.branch_work {rows(5, 6)}",
        f"DELETE FROM {table} WHERE id IN (1, 2)",
        f"ALTER TABLE {table} CREATE TAG less",
        f"INSERT INTO {table} {rows(7, 8)}",
    ]


@pytest.fixture(scope="module", params=["3.5", "4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    columns = "(id INT, name STRING, email STRING, phone STRING, region STRING, day DATE) USING iceberg"
    lake.spark.query(
        "CREATE DATABASE ice.shop",
        "CREATE DATABASE ice.shop_copy",
        f"CREATE TABLE ice.shop.customer {columns} PARTITIONED BY (day)",
        f"CREATE TABLE ice.shop_copy.customer {columns} PARTITIONED BY (day)",
        f"INSERT INTO ice.shop.customer VALUES {ROWS}",
        f"INSERT INTO ice.shop_copy.customer {COPIED} FROM ice.shop.customer WHERE region = 'EMEA'",
        "ALTER TABLE ice.shop.customer CREATE TAG first",
        "ALTER TABLE ice.shop_copy.customer CREATE TAG first",
        f"INSERT INTO ice.shop.customer VALUES {LATER}",
        f"INSERT INTO ice.shop_copy.customer {COPIED} FROM ice.shop.customer WHERE id = 4",
        "CREATE TABLE ice.shop.plain (id INT, note STRING) USING iceberg",
        "INSERT INTO ice.shop.plain VALUES (1, 'a'), (2, 'b')",
        "CREATE TABLE ice.shop_copy.plain (id INT, note STRING) USING iceberg",
        "INSERT INTO ice.shop_copy.plain VALUES (1, 'a'), (2, 'b')",
        *(f"CREATE TABLE ice.{one}.sold {SOLD_COLUMNS}" for one in ("shop", "shop_copy")),
        f"INSERT INTO ice.shop.sold VALUES {SOLD}",
        "INSERT INTO ice.shop_copy.sold SELECT * FROM ice.shop.sold WHERE day >= DATE'2024-01-02'",
        *feed("ice.shop.fed", "email"),
        *feed("ice.shop_copy.fed", "sha2(email, 256)", "WHERE region = 'EMEA'"),
        "CREATE DATABASE ice.hidden",
        "CREATE TABLE ice.hidden.secret (id INT, s STRING) USING iceberg",
        f"INSERT INTO ice.hidden.secret VALUES (1, '{CANARY}')",
        user="loader",
    )
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    users = {"bob": ["analysts"], "amy": ["analysts"], "stew": ["stewards"]}
    with lake.gateway("iceberg", PACK + VIEWS_ARE_READ, users) as running:
        yield running


@pytest.fixture(scope="module")
def bob(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="ice.shop", copies="ice.shop_copy") as twins:
        yield twins


@pytest.fixture(scope="module")
def steward(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    """Two databases that are alike, one behind the gateway for somebody who may do all."""
    lake.spark.query("CREATE DATABASE ice.one", "CREATE DATABASE ice.two", user="loader")
    with Twins.open(lake, gateway, "stew", governed="ice.one", copies="ice.two") as twins:
        yield twins


READS = (
    "SELECT * FROM customer ORDER BY id",
    "SELECT * FROM {db}.customer WHERE id > 1 ORDER BY id",
    "SELECT count(*) AS n, min(name) AS a, max(name) AS z FROM customer",
    "SELECT region, count(*) AS n FROM customer GROUP BY region",
    "SELECT day, count(DISTINCT email) AS n FROM customer GROUP BY day ORDER BY day",
    "SELECT * FROM customer VERSION AS OF 'first' ORDER BY id",
    "SELECT * FROM customer FOR VERSION AS OF 'first' WHERE phone IS NULL ORDER BY id",
    "SELECT * FROM customer VERSION AS OF 'main' ORDER BY id",
    "SELECT c.id FROM customer VERSION AS OF 'first' AS c JOIN customer d ON c.email = d.email ORDER BY c.id",
    "SELECT id FROM customer WHERE email = 'ann@canary-7421'",
    "SELECT id FROM customer WHERE phone LIKE '555%'",
    "WITH c AS (SELECT id, upper(name) AS n FROM customer) SELECT * FROM c WHERE id IN (SELECT id FROM c)",
    "SELECT id, row_number() OVER (PARTITION BY day ORDER BY id) AS r FROM customer ORDER BY id",
    "SELECT * FROM customer TABLESAMPLE (100 PERCENT) REPEATABLE (1) ORDER BY id",
    "SELECT id FROM customer EXCEPT SELECT id FROM customer VERSION AS OF 'first'",
    "FROM customer |> WHERE id > 1 |> SELECT id, name |> ORDER BY id",
    "SELECT * FROM customer PIVOT (count(*) FOR region IN ('EMEA', 'AMER')) ORDER BY id",
    "SELECT no_such FROM customer",
    "SHOW COLUMNS IN customer",
    "SELECT plain.id, name FROM plain JOIN customer USING (id) ORDER BY id",
    "SELECT * FROM plain ORDER BY id",
    "SELECT * FROM {db}.customer.branch_main ORDER BY id",
    "SELECT c.id, email FROM {db}.customer.tag_first AS c WHERE phone IS NULL ORDER BY id",
)
BY_NAME = (
    "SELECT * FROM {db}.fed.branch_work ORDER BY id",
    "SELECT * FROM {db}.fed.`branch_au-dit` ORDER BY id",
    "SELECT branch_work.id, branch_work.* FROM {db}.fed.branch_work WHERE branch_work.id > 1 ORDER BY 1",
    "SELECT * FROM {db}.fed FOR VERSION AS OF 'work' ORDER BY id",
    "SELECT * FROM {db}.fed.tag_less ORDER BY id",
    "SELECT w.id FROM {db}.fed.branch_work w LEFT ANTI JOIN {db}.fed f ON w.email = f.email ORDER BY id",
    "SELECT count(*) AS n FROM {db}.fed.branch_work TABLESAMPLE (100 PERCENT) REPEATABLE (1)",
    "WITH w AS (TABLE {db}.fed.branch_work) SELECT max(id) AS m FROM w",
    "SELECT id, email, region, _change_type, _change_ordinal FROM {db}.fed.changes ORDER BY id, _change_type",
    "SELECT _change_type, count(*) AS n FROM {db}.fed.changes GROUP BY _change_type ORDER BY 1",
    "SELECT c.id, f.email FROM {db}.fed.changes AS c JOIN {db}.fed AS f USING (id) ORDER BY id, _change_type",
    "SELECT id FROM {db}.plain.branch_main ORDER BY id",
    "SELECT id, _change_type FROM {db}.plain.changes ORDER BY id",
)
"""Branches, tags and changes below the name of a table."""


@pytest.mark.in_turn(17, one_way=True)
def test_branches_tags_and_changes_are_read_by_name(lake: LakeSpark, bob: Twins) -> None:
    bob.all_same(BY_NAME)
    ids = [
        row
        for name in ("ice.shop.fed", "ice.shop_copy.fed")
        for row in lake.spark.query(f"SELECT snapshot_id FROM {name}.snapshots ORDER BY committed_at LIMIT 1")
    ]
    by_id = "SELECT * FROM {db}.fed.snapshot_id_{id} ORDER BY id"
    bob.same(by_id, id=(str(ids[0][0]), str(ids[1][0])))
    assert not bob.same("SELECT count(*) AS n FROM {db}.fed.at_timestamp_4102444800000").error
    deleted = "SELECT id FROM ice.shop.fed.changes WHERE _change_type = 'DELETE' AND email LIKE '%'"
    assert bob.ours.ask(deleted).rows == [(2,)]
    for name in ("branch_none", "tag_none", "snapshot_id_1", "at_timestamp_1"):
        assert CANARY not in bob.refusal(f"SELECT * FROM ice.shop.fed.{name}")
    if bob.ours.frames is not None:
        bob.all_same_frames(
            {
                name: (lambda spark, db, name=name: spark.table(f"{db}.fed.{name}").orderBy("id"))
                for name in ("branch_work", "tag_less", "`branch_au-dit`")
            }
            | {"changes": lambda spark, db: spark.table(f"{db}.fed.changes").groupBy("_change_type").count()}
        )


TENDING = (
    "rewrite_data_files(table => 'shop.fed', options => map('rewrite-all', 'true'))",
    "rewrite_manifests('shop.fed')",
    "rewrite_position_delete_files('shop.fed')",
    "expire_snapshots(table => 'shop.fed', older_than => TIMESTAMP '2020-01-01 00:00:00')",
)


@pytest.mark.in_turn(17, one_way=True)
def test_whoever_maintains_a_table_changes_and_sees_no_row_of_it(lake: LakeSpark, bob: Twins) -> None:
    """By SQL and as SQL of Connect; hidden rows are written to other files, and stay hidden."""
    rows = "SELECT * FROM ice.shop.fed ORDER BY id"
    raw = lake.spark.query(rows, user="loader")
    for call in TENDING:
        answer = bob.ours.ask(f"CALL ice.system.{call}")
        assert not answer.error, (call, answer)
        assert CANARY not in str(answer)
        if bob.ours.frames is not None:
            assert CANARY not in str(bob.ours.frames.sql(f"CALL ice.system.{call}").collect())
    assert lake.spark.query(rows, user="loader") == raw
    assert not bob.same("SELECT * FROM {db}.fed ORDER BY id").error
    for call in (
        "remove_orphan_files('shop.fed')",
        "rewrite_data_files('shop.fed', where => 'id = 1')",
    ):
        assert "[SLUICE_ACCESS_DENIED]" in bob.refusal(f"CALL ice.system.{call}")


@pytest.mark.in_turn(17, one_way=True)
def test_reads_are_those_of_copies(bob: Twins) -> None:
    bob.all_same(READS)


def test_metadata_is_for_whoever_may_have_all_of_the_table(bob: Twins) -> None:
    answer = bob.same("SELECT count(*) AS n FROM {db}.plain.snapshots")
    assert answer.rows == [(1,)]
    assert not bob.same("SELECT content, record_count FROM {db}.plain.files").error
    assert not bob.same("SELECT count(*) AS n FROM {db}.plain.HISTORY").error
    assert not bob.same("SELECT count(*) AS n FROM {db}.plain.entries VERSION AS OF 'main'").error


METADATA = (
    "files",
    "data_files",
    "all_data_files",
    "delete_files",
    "entries",
    "all_entries",
    "history",
    "metadata_log_entries",
    "manifests",
    "all_manifests",
    "partitions",
    "position_deletes",
    "refs",
    "snapshots",
)


@pytest.mark.parametrize("part", METADATA)
@pytest.mark.in_turn(17, one_way=True)
def test_metadata_of_a_table_with_obligations_is_refused(bob: Twins, part: str) -> None:
    assert "a row filter, column mask or hidden column of" in bob.refusal(
        f"SELECT * FROM ice.shop.customer.{part}"
    )


PAST = (
    "SELECT * FROM ice.hidden.secret",
    "SELECT * FROM ice.hidden.secret.files",
    "SELECT * FROM ice.hidden.secret.branch_main",
    "SELECT * FROM ice.hidden.secret.changes",
    "SELECT * FROM ice.shop.customer.branch_main VERSION AS OF 'first'",
    "SELECT * FROM ice.shop.customer.changes VERSION AS OF 1",
    "SELECT * FROM ice.shop.customer.branch_main.files",
    "SELECT * FROM ice.shop.customer.branch_main.changes",
    "SELECT * FROM ice.shop.customer.rewrite",
    "INSERT INTO ice.shop.customer.changes SELECT * FROM ice.shop.customer",
    "DELETE FROM ice.shop.customer.tag_first WHERE id = 2",
    "DESCRIBE TABLE EXTENDED ice.shop.customer.branch_main",
    "SELECT * FROM ice.shop.`customer#files`",
    "SELECT * FROM ice.shop.`customer$files`",
    "SELECT * FROM ice.`shop.customer.files`",
    "SELECT * FROM ice.shop.plain.no_such",
    "CREATE TEMPORARY VIEW v AS SELECT * FROM ice.shop.plain.files",
    "CACHE TABLE c AS SELECT * FROM ice.shop.plain.files",
    "CALL ice.system.rollback_to_snapshot('shop.customer', 1)",
    "CALL ice.system.rewrite_data_files(table => 'shop.customer', where => 'id = 2')",
    "CALL ice.system.ancestors_of('shop.customer')",
    "CALL ice.system.ancestors_of('hidden.secret')",
    "CALL ice.system.create_changelog_view(table => 'shop.customer')",
    "CALL ice.system.register_table('shop.x', '/tmp/metadata.json')",
    "CALL ice.system.snapshot('shop.customer', 'shop.x')",
    "CALL ice.system.add_files('shop.plain', '`parquet`.`/tmp`')",
    "CALL ice.system.no_such('shop.plain')",
    "ALTER TABLE ice.shop.customer ADD PARTITION FIELD bucket(4, id)",
    "ALTER TABLE ice.shop.customer CREATE BRANCH b",
    "ALTER TABLE ice.shop.customer DROP TAG first",
    "UPDATE ice.shop.customer SET phone = email",
    "DELETE FROM ice.shop.customer WHERE email LIKE 'c%'",
    "MERGE INTO ice.shop.customer t USING ice.shop.plain s ON t.id = s.id WHEN MATCHED THEN DELETE",
    "CREATE TABLE ice.shop.mine TBLPROPERTIES ('write.data.path' = '/tmp/x') AS SELECT 1 AS a",
    "ALTER TABLE ice.shop.plain SET TBLPROPERTIES ('write.metadata.path' = '/tmp/x')",
    "ALTER TABLE ice.shop.plain SET LOCATION '/tmp/x'",
    "SELECT * FROM iceberg.`/tmp/ice/shop/customer`",
    "DESCRIBE TABLE EXTENDED ice.shop.customer.files",
    "SHOW CREATE TABLE ice.hidden.secret",
    "SELECT * FROM ice.shop.customer.partitions VERSION AS OF 'first'",
)


@pytest.mark.parametrize("text", PAST)
@pytest.mark.in_turn(17, one_way=True)
def test_there_is_no_way_past_a_filter_or_mask(lake: LakeSpark, bob: Twins, text: str) -> None:
    message = bob.refusal(text)
    # Iceberg for Spark 3.5 reads CALL of its own procedures alone; Spark 3.5 has no CALL.
    unread = lake.minor < (4, 0) and "no_such" in text and "[PARSE_SYNTAX_ERROR]" in message
    assert message.startswith("[SLUICE_") or unread, message
    assert CANARY not in message


@pytest.mark.in_turn(13, one_way=True)
def test_metadata_columns_are_refused_in_our_words(bob: Twins) -> None:
    for column in ("_file", "_partition", "_row_id", "_deleted"):
        for name in (column, f"c.{column}"):
            for table in ("customer", "ice.shop.customer.branch_main", "ice.shop.customer.changes"):
                message = bob.refusal(f"SELECT {name} FROM {table} c")
                assert "Metadata columns are not available" in message, message


PRUNED = {
    "SELECT id FROM customer WHERE day = DATE'2024-01-02'": ("day = ", "region = 'EMEA'"),
    "SELECT id, email FROM customer WHERE id >= 3": ("id >= 3",),
    "SELECT name FROM customer VERSION AS OF 'first' WHERE name = 'Ann'": ("region = 'EMEA'",),
}
"""By partition, by what a file has bounds of, with what Iceberg is told to skip files by."""


@pytest.mark.in_turn(17, one_way=True)
def test_partitions_and_bounds_are_used_under_masks_and_filters(
    lake: LakeSpark, gateway: RunningGateway, bob: Twins
) -> None:
    for text, pushed in PRUNED.items():
        ((plan,),) = lake.spark.query(
            "USE ice.shop", f"EXPLAIN FORMATTED {bob.forwarded(gateway, 'bob', text)}"
        )
        assert re.search(r"BatchScan|IcebergScan", plan), plan
        for condition in pushed:
            assert re.search(rf"filters=.*{re.escape(condition)}", plan), (condition, plan)


EXTREMES = "SELECT count(*) AS n, min(id) AS a, max(id) AS z FROM sold"


def test_counts_and_extremes_come_from_metadata(lake: LakeSpark, gateway: RunningGateway, bob: Twins) -> None:
    """Of a table whose filter is on what its files are divided by: no file is opened, as without a filter."""
    assert bob.same(EXTREMES).rows == [(3, 4, 9)]
    ((plan,),) = lake.spark.query("USE ice.shop", f"EXPLAIN {bob.forwarded(gateway, 'bob', EXTREMES)}")
    assert "LocalTableScan" in plan, plan
    assert not re.search("BatchScan|IcebergScan|FileScan", plan)


FRAMES: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda spark, db: spark.table("customer").orderBy("id"),
    "of a database": lambda spark, db: spark.read.table(f"{db}.customer").filter("id > 1"),
    "of a format": lambda spark, db: spark.read.format("iceberg").table(f"{db}.customer"),
    "loaded by name": lambda spark, db: spark.read.format("iceberg").load(f"{db}.customer"),
    "loaded by its own name": lambda spark, db: spark.read.format("iceberg").load("customer"),
    "columns": lambda spark, db: spark.table("customer").select("id", "email", "phone"),
    "grouped": lambda spark, db: spark.table("customer").groupBy("region").count(),
    "pruned": lambda spark, db: spark.table("customer").filter("day = DATE'2024-01-02'"),
    "masked in a condition": lambda spark, db: spark.table("customer").filter("email LIKE 'ann%'"),
    "joined": lambda spark, db: spark.table("customer").join(spark.table("plain"), "id", "left"),
    "with itself": lambda spark, db: (
        spark.table("customer").alias("a").join(spark.table("customer").alias("b"), "email")
    ),
    "union": lambda spark, db: spark.table("customer").select("id").union(spark.table("plain").select("id")),
    "of a text": lambda spark, db: spark.sql("SELECT * FROM customer VERSION AS OF 'first'"),
    "described": lambda spark, db: spark.table("customer").summary("count", "min", "max"),
    "sampled": lambda spark, db: spark.table("customer").sample(1.0, seed=3),
    "renamed": lambda spark, db: spark.table("customer").withColumnRenamed("email", "e").drop("day"),
    "crosstab": lambda spark, db: spark.table("customer").crosstab("region", "day"),
    "window": lambda spark, db: spark.table("customer").selectExpr(
        "id", "lag(email) OVER (ORDER BY id) AS l"
    ),
    "no such column": lambda spark, db: spark.table("customer").select("no_such"),
    "a version by option, of a format": lambda spark, db: (
        spark.read.format("iceberg").option("versionAsOf", "first").load(f"{db}.customer").select("email")
    ),
    "a branch by option": lambda spark, db: spark.read.option("branch", "main").table(f"{db}.customer"),
    "a branch by option, loaded": lambda spark, db: (
        spark.read.format("iceberg").option("branch", "main").load(f"{db}.customer").filter("id > 2")
    ),
    "a version by option": lambda spark, db: spark.read.option("versionAsOf", "first").table("customer"),
    "a time by option": lambda spark, db: (
        spark.read.option("timestampAsOf", "2099-01-01 10:30:00").table("customer").select("id")
    ),
    "two times joined": lambda spark, db: (
        spark.read.option("versionAsOf", "first").table("customer").join(spark.table("customer"), "email")
    ),
    "a hidden column": lambda spark, db: (
        (then := spark.read.option("versionAsOf", "first").table("customer"))
        .where(then["id"] > 1)
        .select(then["name"])
    ),
    "snapshots": lambda spark, db: spark.table(f"{db}.plain.snapshots").select("operation"),
    "files": lambda spark, db: spark.read.format("iceberg").load(f"{db}.plain.files").select("record_count"),
    "history, counted": lambda spark, db: spark.read.table(f"{db}.plain.history").groupBy().count(),
}


@pytest.mark.in_turn(17, one_way=True)
def test_dataframes_are_those_of_copies(lake: LakeSpark, bob: Twins) -> None:
    if not lake.spark.connect_port:
        return
    bob.all_same_frames(FRAMES)
    snapshots = {
        db: lake.spark.query(f"SELECT min_by(snapshot_id, committed_at) FROM {db}.customer.snapshots")[0][0]
        for db in ("ice.shop", "ice.shop_copy")
    }
    # Iceberg 1.12 says of its own options to write `versionAsOf` instead; older ones answer as Sluice does.
    for key, values in (
        ("snapshot-id", snapshots),
        ("tag", dict.fromkeys(snapshots, "first")),
        ("branch", dict.fromkeys(snapshots, "main")),
    ):
        frame = bob.same_frame(key, partial(at_version, key, values))
        assert len(frame.rows) == (3 if key == "branch" else 2)
    later = bob.same_frame(
        "as-of-timestamp",
        lambda spark, db: (
            spark.read.format("iceberg")
            .option(
                *("as-of-timestamp", 4070908800000) if db == "ice.shop" else ("timestampAsOf", "2099-01-01")
            )
            .load(f"{db}.customer")
        ),
    )
    assert len(later.rows) == 3


def at_version(key: str, values: Mapping[str, str], spark: Any, db: str) -> Any:
    """Read a version by an option of Iceberg's, of the copies by Spark's own."""
    return spark.read.option(key if db == "ice.shop" else "versionAsOf", values[db]).table(f"{db}.customer")


FRAMES_PAST: dict[str, Callable[[Any, str], Any]] = {
    "hidden": lambda spark, place: spark.read.format("iceberg").load("ice.hidden.secret"),
    "by path": lambda spark, place: spark.read.format("iceberg").load(f"{place}/shop/customer"),
    "its files": lambda spark, place: spark.read.parquet(f"{place}/shop/customer/data"),
    "files": lambda spark, place: spark.read.format("iceberg").load("ice.shop.customer.files"),
    "files by name": lambda spark, place: spark.table("ice.shop.customer.files"),
    "partitions at a tag": lambda spark, place: spark.read.option("tag", "first").table(
        "ice.shop.customer.partitions"
    ),
    "entries": lambda spark, place: spark.read.table("customer.entries"),
    "between snapshots": lambda spark, place: (
        spark.read.format("iceberg").option("start-snapshot-id", "1").load("ice.shop.customer")
    ),
    "two versions": lambda spark, place: (
        spark.read.option("tag", "first").option("branch", "main").table("customer")
    ),
    "the same twice": lambda spark, place: (
        spark.read.option("path", "ice.shop.plain").format("iceberg").load("ice.hidden.secret")
    ),
    "a number for a tag": lambda spark, place: spark.read.option("tag", "1").table("customer"),
    "no number": lambda spark, place: spark.read.option("snapshot-id", "1 OR 1").table("customer"),
    "other columns": lambda spark, place: (
        spark.read.format("iceberg").schema("id INT").load("ice.shop.customer")
    ),
    "a path as an option": lambda spark, place: spark.read.option("path", "x").table("customer"),
    "kept": lambda spark, place: (
        spark.table("ice.shop.plain.files").createTempView("kept") or spark.table("kept")
    ),
}


@pytest.mark.in_turn(17, one_way=True)
def test_no_dataframe_is_a_way_past_either(lake: LakeSpark, bob: Twins) -> None:
    from pyspark.errors import PySparkException

    if not lake.spark.connect_port:
        return
    bob.require_refused_frames(FRAMES_PAST, lake.warehouse / "ice", CANARY)
    with pytest.raises(PySparkException, match="SLUICE_NOT_GOVERNABLE"):
        bob.ours.frames.table("ice.shop.plain.files").cache()


FRAME_WRITES: tuple[tuple[str, Callable[[Any, str], Any]], ...] = (
    ("created", lambda spark, db: rows(spark, 1).writeTo(f"{db}.f").using("iceberg").create()),
    ("appended", lambda spark, db: rows(spark, 2).writeTo(f"{db}.f").append()),
    ("inserted", lambda spark, db: rows(spark, 3).write.insertInto(f"{db}.f")),
    ("saved", lambda spark, db: rows(spark, 4).write.format("iceberg").mode("append").saveAsTable("f")),
    ("a branch is made", lambda spark, db: spark.sql(f"ALTER TABLE {db}.f CREATE BRANCH side")),
    ("a branch is appended to", lambda spark, db: rows(spark, 5).writeTo(f"{db}.f.branch_side").append()),
    ("a branch is inserted into", lambda spark, db: rows(spark, 6).write.insertInto(f"{db}.f.branch_side")),
    ("overwritten where", lambda spark, db: rows(spark, 7).writeTo("f").overwrite(_is(spark, 2))),
    ("partitions overwritten", lambda spark, db: rows(spark, 8).writeTo(f"{db}.f").overwritePartitions()),
    (
        "merged",
        lambda spark, db: (
            rows(spark, 9)
            .mergeInto(f"{db}.f", _is(spark, 9, f"{db}.f.id"))
            .whenNotMatched()
            .insertAll()
            .merge()
        ),
    ),
    ("replaced", lambda spark, db: rows(spark, 10).writeTo(f"{db}.f").using("iceberg").createOrReplace()),
)


def rows(spark: Any, number: int) -> Any:
    return spark.range(number, number + 1).selectExpr("CAST(id AS INT) AS id", "'n' || id AS name")


def _is(spark: Any, number: int, column: str = "id") -> Any:
    from pyspark.sql import functions

    return functions.expr(f"{column} = {number}")


@pytest.mark.in_turn(17, one_way=True)
def test_dataframes_are_written_as_a_direct_session_writes_them(lake: LakeSpark, steward: Twins) -> None:
    if not lake.spark.connect_port:
        return
    for name, program in FRAME_WRITES:
        for side in (steward.ours, steward.theirs):
            program(side.frames, side.database)
        answer = steward.same_frame(
            name, lambda spark, db: spark.table(f"{db}.f").orderBy("id"), ordered=True
        )
        assert not answer.error, name
        if name.startswith("a version or branch"):
            steward.same_frame(
                f"{name}, its rows", lambda spark, db: spark.read.option("branch", "side").table("f")
            )


STREAMS: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda spark, db: spark.readStream.table(f"{db}.customer"),
    "loaded": lambda spark, db: spark.readStream.format("iceberg").load(f"{db}.customer"),
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


WRITES = (
    "CREATE TABLE t (id INT, name STRING, day DATE) USING iceberg PARTITIONED BY (days(day))",
    "INSERT INTO t VALUES (1, 'a', DATE'2024-01-01'), (2, 'b', DATE'2024-01-02')",
    "INSERT INTO t BY NAME SELECT 'c' AS name, 3 AS id, DATE'2024-01-03' AS day",
    "INSERT OVERWRITE t SELECT 4, 'd', DATE'2024-01-02'",
    "INSERT INTO t REPLACE WHERE id = 4 SELECT 5, 'e', DATE'2024-01-04'",
    "UPDATE t SET name = upper(name) WHERE id < 3",
    "DELETE FROM t WHERE id = 3",
    "MERGE INTO t USING (SELECT 1 AS id, 'm' AS name, DATE'2024-02-01' AS day) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT *",
    "ALTER TABLE t ADD COLUMN note STRING",
    "ALTER TABLE {db}.t ADD PARTITION FIELD bucket(4, id)",
    "ALTER TABLE {db}.t DROP PARTITION FIELD bucket(4, id)",
    "ALTER TABLE {db}.t WRITE ORDERED BY id DESC",
    "ALTER TABLE {db}.t CREATE BRANCH side",
    "INSERT INTO {db}.t.branch_side VALUES (9, 'side', DATE'2024-03-01', NULL)",
    "UPDATE {db}.t.branch_side SET note = 'x' WHERE id = 9",
    "ALTER TABLE {db}.t CREATE OR REPLACE TAG mark RETAIN 5 DAYS",
    "ALTER TABLE {db}.t DROP TAG mark",
    "ALTER TABLE t SET TBLPROPERTIES ('user.note' = 'x')",
    "CREATE TABLE u USING iceberg AS SELECT id, name FROM t",
    "CREATE OR REPLACE TABLE u USING iceberg AS SELECT id FROM t",
    "DROP TABLE u",
)


@pytest.mark.in_turn(17, one_way=True)
def test_who_may_do_all_does_what_a_direct_session_does(steward: Twins) -> None:
    for text in WRITES:
        assert not steward.same(text).error, text
        steward.same("SELECT * FROM t ORDER BY id")
    steward.same("SELECT * FROM t VERSION AS OF 'side' ORDER BY id")
    assert steward.ours.ask("CALL ice.system.rewrite_data_files('one.t')").error == ""
    assert (
        steward.ours.ask("CALL ice.system.rewrite_data_files(table => 'one.t', where => 'id = 1')").error
        == ""
    )
    assert (
        steward.ours.ask("CALL ice.system.expire_snapshots(table => 'one.t', retain_last => 2)").error == ""
    )
    assert steward.ours.ask("CALL ice.system.rewrite_manifests('ice.one.t')").error == ""
    assert len(steward.ours.ask("CALL ice.system.ancestors_of('one.t')").rows) > 1
    for condition in ("id = (SELECT 1)", "reflect('a', 'b') = 1", "id = 1; DROP TABLE t"):
        text = f"CALL ice.system.rewrite_data_files(table => 'one.t', where => \"{condition}\")"
        assert "[" in steward.refusal(text)


CHANGED = (
    (
        "a column is added",
        ("CREATE TABLE {t} (id INT) USING iceberg", "INSERT INTO {t} VALUES (1)"),
        ("ALTER TABLE {t} ADD COLUMN email STRING", f"INSERT INTO {{t}} VALUES (2, '{CANARY}')"),
        [(1, None), (2, None)],
    ),
    (
        "a column is dropped",
        (
            "CREATE TABLE {t} (id INT, email STRING) USING iceberg",
            f"INSERT INTO {{t}} VALUES (1, '{CANARY}')",
        ),
        ("ALTER TABLE {t} DROP COLUMN email",),
        [(1,)],
    ),
    (
        "it is made anew",
        (
            "CREATE TABLE {t} (id INT, email STRING) USING iceberg",
            f"INSERT INTO {{t}} VALUES (1, '{CANARY}')",
        ),
        ("DROP TABLE {t}", "CREATE TABLE {t} (id INT) USING iceberg", "INSERT INTO {t} VALUES (7)"),
        [(7,)],
    ),
    (
        "columns change places",
        (
            "CREATE TABLE {t} (id STRING, email STRING) USING iceberg",
            f"INSERT INTO {{t}} VALUES ('1', '{CANARY}')",
        ),
        (
            "ALTER TABLE {t} RENAME COLUMN email TO e",
            "ALTER TABLE {t} RENAME COLUMN id TO email",
            "ALTER TABLE {t} DROP COLUMN e",
        ),
        [(None,)],
    ),
)


@pytest.mark.parametrize(
    ("number", "before", "after", "rows"),
    [(n, *c[1:]) for n, c in enumerate(CHANGED)],
    ids=[c[0] for c in CHANGED],
)
def test_what_sessions_keep_of_a_table_is_not_what_it_is(
    lake: LakeSpark,
    gateway: RunningGateway,
    number: int,
    before: tuple[str, ...],
    after: tuple[str, ...],
    rows: list[tuple[Any, ...]],
) -> None:
    """A catalog of Iceberg's keeps its tables in each session: the gateway's own, one that has read it, one
    that has not."""
    table = f"ice.shop.changed_{number}"
    with contextlib.ExitStack() as opened:
        steward, known, new = (
            opened.enter_context(one_pack.session(gateway, "thrift", user)) for user in ("stew", "bob", "bob")
        )
        sessions, views = {"known": known, "new": new}, []
        if lake.spark.connect_port:
            frames, viewing = (
                opened.enter_context(one_pack.session(gateway, "connect", "bob")) for _ in range(2)
            )
            sessions["connect"] = frames
            views.append(viewing)
        for text in before:
            steward(text.format(t=table))
        for ask in (*views, *(ask for name, ask in sessions.items() if name != "new")):
            assert CANARY not in repr(ask(f"SELECT * FROM {table}"))
        for ask in views:
            ask(f"CREATE TEMPORARY VIEW v AS SELECT * FROM {table}")
        for text in after:
            steward(text.format(t=table))
        assert {name: ask(f"SELECT * FROM {table}") for name, ask in sessions.items()} == dict.fromkeys(
            sessions, rows
        )
        for ask in views:
            # It has the columns that it was made with, or ends.
            with contextlib.suppress(Exception):
                assert CANARY not in repr(ask("SELECT * FROM v"))


def test_old_versions_have_their_own_columns(lake: LakeSpark, gateway: RunningGateway) -> None:
    """A column that is gone is in old versions, and what policies say of its name holds there."""
    table = "ice.shop.changed_old"
    with contextlib.ExitStack() as opened:
        steward, ask = (
            opened.enter_context(one_pack.session(gateway, "thrift", user)) for user in ("stew", "bob")
        )
        steward(f"CREATE TABLE {table} (id INT, email STRING) USING iceberg")
        steward(f"INSERT INTO {table} VALUES (1, '{CANARY}')")
        steward(f"ALTER TABLE {table} CREATE TAG old")
        steward(f"ALTER TABLE {table} DROP COLUMN email")
        assert steward(f"SELECT * FROM {table} VERSION AS OF 'old'") == [(1, CANARY)]
        assert ask(f"SELECT * FROM {table} VERSION AS OF 'old'") == [(1, None)]
        assert ask(f"SELECT email FROM {table} VERSION AS OF 'old'") == [(None,)]
        assert ask(f"SELECT id FROM {table} VERSION AS OF 'old' WHERE email LIKE 'canary%'") == []
        for text in (f"SELECT email FROM {table}", f"SELECT * FROM {table}.files"):
            with pytest.raises(Exception, match=r"UNRESOLVED_COLUMN|SLUICE_ACCESS_DENIED") as raised:
                ask(text)
            assert CANARY not in str(raised.value)
        if lake.spark.connect_port:
            with gateway.session("bob", one_pack.PASSWORD) as frames:
                old = frames.read.option("versionAsOf", "old")
                assert (
                    old.table(table).collect() == old.format("iceberg").load(table).collect() == [(1, None)]
                )


MOVED = (
    "CREATE TABLE ice.shop.moved_all (id INT, mail STRING, code INT, area STRING, gone STRING) USING iceberg",
    f"INSERT INTO ice.shop.moved_all VALUES (1, '{CANARY}', 9, 'EMEA', 'x'), (2, '{CANARY}', 8, 'AMER', 'y')",
    "ALTER TABLE ice.shop.moved_all CREATE TAG old",
    "ALTER TABLE ice.shop.moved_all RENAME COLUMN mail TO contact",
    "ALTER TABLE ice.shop.moved_all RENAME COLUMN code TO pin",
    "ALTER TABLE ice.shop.moved_all RENAME COLUMN area TO region",
    "ALTER TABLE ice.shop.moved_all DROP COLUMN gone",
    "ALTER TABLE ice.shop.moved_all ADD COLUMN gone INT",
    "ALTER TABLE ice.shop.moved_all ADD COLUMN mail INT",
    "CREATE TABLE ice.shop.moved_seen (id INT, mail STRING, area STRING) USING iceberg",
    f"INSERT INTO ice.shop.moved_seen VALUES (1, '{CANARY}', 'EMEA'), (2, '{CANARY}', 'AMER')",
    "ALTER TABLE ice.shop.moved_seen CREATE TAG old",
    "ALTER TABLE ice.shop.moved_seen CREATE BRANCH side",
    "ALTER TABLE ice.shop.moved_seen RENAME COLUMN mail TO contact",
    "ALTER TABLE ice.shop.moved_seen RENAME COLUMN area TO region",
    "CREATE TABLE ice.shop_copy.moved_seen (id INT, mail STRING, area STRING) USING iceberg",
    f"INSERT INTO ice.shop_copy.moved_seen VALUES (1, sha2('{CANARY}', 256), 'EMEA')",
    "ALTER TABLE ice.shop_copy.moved_seen CREATE TAG old",
    "CREATE TABLE ice.shop_copy.moved_all (id INT, mail STRING, area STRING, gone STRING) USING iceberg",
    f"INSERT INTO ice.shop_copy.moved_all VALUES (1, sha2('{CANARY}', 256), 'EMEA', 'x')",
    "ALTER TABLE ice.shop_copy.moved_all CREATE TAG old",
)
OLD = """
SELECT id, mail, area, gone FROM moved_all VERSION AS OF 'old'
SELECT mail FROM moved_all VERSION AS OF 'old' WHERE area = 'EMEA' AND mail LIKE 'canary%'
SELECT count(*) AS n, max(gone) AS g FROM moved_all VERSION AS OF 'old' GROUP BY area
SELECT contact FROM moved_all VERSION AS OF 'old'
SELECT code FROM moved_all VERSION AS OF 'old'
SELECT pin FROM moved_all VERSION AS OF 'old'
WITH old AS (SELECT mail, area FROM moved_all FOR VERSION AS OF 'old') SELECT mail FROM old
SELECT a.mail FROM moved_all VERSION AS OF 'old' a WHERE EXISTS (SELECT 1 FROM moved_all VERSION AS OF 'old')
"""


def test_a_version_is_read_with_its_own_columns_and_policies_follow_them(
    lake: LakeSpark, gateway: RunningGateway, bob: Twins
) -> None:
    """What is masked, hidden or filtered by under its present name is so under its name of then."""
    lake.spark.query(*MOVED, user="loader")
    bob.all_same(statements(OLD))
    snapshots = tuple(
        str(lake.spark.query(f"SELECT snapshot_id FROM ice.{db}.moved_all.snapshots", user="loader")[0][0])
        for db in ("shop", "shop_copy")
    )
    bob.same("SELECT id, mail, area, gone FROM moved_all VERSION AS OF {v}", v=(snapshots[0], snapshots[1]))
    with one_pack.session(gateway, "thrift", "stew") as steward:
        assert steward("SELECT code, mail FROM ice.shop.moved_all VERSION AS OF 'old'") == [
            (8, CANARY),
            (9, CANARY),
        ]
    # A branch has the columns of now, and Iceberg would look up the filter's in those of its snapshot.
    branch = "SELECT id, region FROM moved_seen VERSION AS OF 'side' WHERE contact NOT LIKE 'canary%'"
    assert bob.ours.ask(branch).rows == [(1, "EMEA")]
    if lake.spark.connect_port:
        frame = bob.ours.frames.read.option("branch", "side").table("ice.shop.moved_seen")
        assert frame.select("id", "region").collect() == [(1, "EMEA")]
        bob.same_frame(
            "a version by option",
            lambda spark, db: spark.read.option("versionAsOf", "old").table(f"{db}.moved_seen"),
        )
        bob.same_frame(
            "and a condition",
            lambda spark, db: (
                spark.read.format("iceberg")
                .option("versionAsOf", "old")
                .load(f"{db}.moved_seen")
                .filter("area = 'EMEA' AND mail NOT LIKE 'canary%'")
            ),
        )


def test_names_that_changed_places_are_not_confused(lake: LakeSpark, gateway: RunningGateway) -> None:
    """A version shows a column by what policies say of it now, or, where nobody can tell, not at all."""
    table, packed = "ice.shop.changed_places", "ice.shop.changed_packed"
    with contextlib.ExitStack() as opened:
        asked = [opened.enter_context(one_pack.session(gateway, one, "bob")) for one in lake.endpoints]
        steward = opened.enter_context(one_pack.session(gateway, "thrift", "stew"))
        steward(f"CREATE TABLE {table} (id INT, email STRING, note STRING) USING iceberg")
        steward(f"INSERT INTO {table} VALUES (1, 'open', '{CANARY}')")
        steward(f"ALTER TABLE {table} CREATE TAG old")
        for ask in asked:
            assert ask(f"SELECT email, note FROM {table} VERSION AS OF 'old'") == [(None, CANARY)]
        for old, new in (("email", "other"), ("note", "email"), ("other", "note")):
            steward(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
        for ask in asked:
            # By the very name that has just been read, after the gateway has seen the change.
            assert ask(f"SELECT email, note FROM {table} VERSION AS OF 'old'") == [("open", None)]
            assert ask(f"SELECT id FROM {table} VERSION AS OF 'old' WHERE note LIKE 'canary%'") == []
            ask(f"CREATE TEMPORARY VIEW past AS SELECT note FROM {table} VERSION AS OF 'old'")
            assert ask("SELECT * FROM past") == [(None,)]
            with pytest.raises(Exception, match="SLUICE_NOT_GOVERNABLE"):
                ask(f"SELECT note FROM {table} TIMESTAMP AS OF current_timestamp()")
        compressed = "TBLPROPERTIES ('write.metadata.compression-codec' = 'gzip')"
        lake.spark.query(
            f"CREATE TABLE {packed} (id INT, note STRING) USING iceberg {compressed}",
            f"INSERT INTO {packed} VALUES (1, '{CANARY}')",
            f"ALTER TABLE {packed} CREATE TAG old",
            f"ALTER TABLE {packed} RENAME COLUMN note TO email",
            user="loader",
        )
        for ask in asked:
            assert ask(f"SELECT note FROM {packed} VERSION AS OF 'old'") == [(None,)]
            with pytest.raises(Exception, match="SLUICE_NOT_GOVERNABLE"):
                ask(f"SELECT email FROM {table} TIMESTAMP AS OF concat('', '2124-01-01')")
        assert steward(f"SELECT note FROM {packed} VERSION AS OF 'old'") == [(CANARY,)]


def test_nor_are_fields_that_changed_places(lake: LakeSpark, gateway: RunningGateway) -> None:
    """A filter that names a field would choose by another one."""
    table = "ice.shop.changed_within"
    lake.spark.query(
        f"CREATE TABLE {table} (id INT, s STRUCT<owner: STRING, author: STRING>) USING iceberg",
        f"INSERT INTO {table} VALUES (1, named_struct('owner', 'bob', 'author', 'ann')), "
        f"(2, named_struct('owner', '{CANARY}', 'author', 'bob'))",
        f"ALTER TABLE {table} CREATE TAG old",
        user="loader",
    )
    with contextlib.ExitStack() as opened:
        asked = [opened.enter_context(one_pack.session(gateway, one, "bob")) for one in lake.endpoints]
        steward = opened.enter_context(one_pack.session(gateway, "thrift", "stew"))
        for ask in asked:
            assert ask(f"SELECT id FROM {table} VERSION AS OF 'old'") == [(1,)]
        for old, new in (("owner", "other"), ("author", "owner"), ("other", "author")):
            steward(f"ALTER TABLE {table} RENAME COLUMN s.{old} TO {new}")
        for ask in asked:
            assert ask(f"SELECT id FROM {table}") == [(2,)]
            with pytest.raises(Exception, match="SLUICE_NOT_GOVERNABLE"):
                ask(f"SELECT id FROM {table} VERSION AS OF 'old'")


def test_a_rename_made_outside_opens_nothing(lake: LakeSpark, gateway: RunningGateway) -> None:
    require_reads_show_no_renamed_column(lake, gateway, "ice.shop", "USING iceberg", CANARY)


def test_a_version_has_the_masks_of_what_its_columns_are_called_by_now(
    lake: LakeSpark, gateway: RunningGateway
) -> None:
    """It keeps its own names, so that no list of columns tells of a rename: it is described again."""
    for endpoint in lake.endpoints:
        table = f"ice.shop.changed_version_{endpoint}"
        text = f"SELECT note FROM {table} VERSION AS OF 'old'"
        lake.spark.query(
            f"CREATE TABLE {table} (id INT, note STRING) USING iceberg",
            f"INSERT INTO {table} VALUES (1, '{CANARY}')",
            f"ALTER TABLE {table} CREATE TAG old",
            user="loader",
        )
        with one_pack.session(gateway, endpoint, "bob") as ask:
            ask(f"CREATE TEMPORARY VIEW past AS {text}")
            assert ask(text) == ask("SELECT * FROM past") == [(CANARY,)]
            lake.spark.query(f"ALTER TABLE {table} RENAME COLUMN note TO email", user="loader")
            assert ask(text) == ask("SELECT * FROM past") == [(None,)]


def test_commands_read_no_column_that_was_renamed_outside(lake: LakeSpark, gateway: RunningGateway) -> None:
    require_commands_read_no_renamed_column(lake, gateway, "ice.shop", "USING iceberg", CANARY)


@pytest.mark.in_turn(17, one_way=True)
def test_rows_that_are_not_seen_are_not_changed(lake: LakeSpark, bob: Twins) -> None:
    require_hidden_rows_stay(lake, bob, "iceberg", "ice.")
    require_hidden_rows_are_not_written(lake, bob, "iceberg", "ice.")


@pytest.mark.night
def test_two_users_change_rows_of_one_table(lake: LakeSpark, gateway: RunningGateway, bob: Twins) -> None:
    require_two_users_stay_apart(lake, gateway, bob, "iceberg", "ice.")
