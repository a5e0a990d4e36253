"""Nested namespaces of Iceberg: what a user gets is what copies that were filtered and masked before give.

Costs about a minute for each Spark, beside the Spark's own start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import one_pack
from tests.e2e.lake.worlds import LakeSpark, OpenLake, Twins
from tests.e2e.running import RunningGateway

pytestmark = pytest.mark.in_turn(13, one_way=True)

PACK = """
service: spark
policies:
  - name: analysts read what lies inside
    on: {catalog: ice, database: [nest.inner, nest.inner.most, shut.inner, nest.zoo], table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select, show, use]}]
  - name: metadata of what is plain
    on: {catalog: ice, database: nest.inner, table: [plain, customer]}
    allow: [{groups: [analysts], access: [metadata]}]
  - name: analysts make tables
    on: {catalog: ice, database: [nest.inner, nest.inner.plain, nest.inner.customer], table: "*", column: "*"}
    allow: [{groups: [analysts], access: [select, create, insert, delete, drop, alter]}]
  - name: all databases but one
    on: {catalog: ice, database: {except: [but]}, table: "*", column: "*"}
    allow: [{groups: [others], access: [select, show, use]}]
  - name: stewards do all
    on: {catalog: ice, database: "*", table: "*", column: "*"}
    allow: [{groups: [stewards], access: [all]}]
  - name: what is shut is shut
    on: {catalog: ice, database: shut, table: "*", column: "*"}
    deny: [{groups: [analysts], access: [all]}]
  - name: customers of a region, said of the namespace above
    on: {catalog: ice, database: nest, table: customer}
    filter: [{groups: [analysts], where: "region = 'EMEA'"}]
  - name: addresses
    on: {catalog: ice, database: nest.inner, table: customer, column: email}
    mask: [{groups: [analysts], type: MASK_HASH}]
  - name: numbers, said of the namespace above
    on: {catalog: ice, database: nest, table: customer, column: phone}
    mask: [{groups: [analysts], type: MASK_NULL}]
"""
CANARY = "canary-8812"
ROWS = f"""(1, 'Ann', 'ann@{CANARY}', '555-{CANARY}', 'EMEA'), (2, '{CANARY}', 'bob@x.example', '1', 'AMER'),
    (3, 'Eve', 'eve@x.example', NULL, 'EMEA')"""
COPIED = "SELECT id, name, sha2(email, 256) AS email, CAST(NULL AS STRING) AS phone, region"
COLUMNS = "(id INT, name STRING, email STRING, phone STRING, region STRING) USING iceberg"


@pytest.fixture(scope="module", params=["3.5", "4.1"])
def lake(request: pytest.FixtureRequest, lakes: OpenLake) -> LakeSpark:
    lake = lakes(request.param)
    spaces = (
        *("nest", "nest.inner", "nest.inner.most", "twin", "twin.inner", "twin.inner.most", "shut"),
        *("shut.inner", "but", "but.inner", "nest.other", "nest.other.zoo", "nest.zoo", "nest.both"),
    )
    made = []
    for db in ("nest.inner", "twin.inner"):
        made += [
            f"CREATE TABLE ice.{db}.customer {COLUMNS}",
            f"CREATE TABLE ice.{db}.plain (id INT, note STRING) USING iceberg",
            f"INSERT INTO ice.{db}.plain VALUES (1, 'a'), (2, 'b')",
            f"CREATE TABLE ice.{db}.most.deep AS SELECT 7 AS id",
        ]
    lake.spark.query(
        *(f"CREATE NAMESPACE ice.{space}" for space in spaces),
        *made,
        f"INSERT INTO ice.nest.inner.customer VALUES {ROWS}",
        f"INSERT INTO ice.twin.inner.customer {COPIED} FROM ice.nest.inner.customer WHERE region = 'EMEA'",
        "ALTER TABLE ice.nest.inner.customer CREATE TAG first",
        "ALTER TABLE ice.twin.inner.customer CREATE TAG first",
        "ALTER TABLE ice.nest.inner.customer CREATE BRANCH b",
        "ALTER TABLE ice.nest.inner.plain CREATE BRANCH b",
        *(
            f"CREATE TABLE ice.{space}.secret USING iceberg AS SELECT 1 AS id, '{CANARY}' AS s"
            for space in ("nest", "shut.inner", "but.inner", "nest.other", "but")
        ),
        # A namespace that has the name of a table.
        f"CREATE TABLE ice.nest.both.t USING iceberg AS SELECT 1 AS id, '{CANARY}' AS s",
        user="loader",
    )
    return lake


@pytest.fixture(scope="module")
def gateway(lake: LakeSpark) -> Iterator[RunningGateway]:
    users = {"bob": ["analysts"], "stew": ["stewards"], "ole": ["others"]}
    with lake.gateway("nested", PACK, users) as running:
        yield running


@pytest.fixture(scope="module")
def bob(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "bob", governed="ice.nest.inner", copies="ice.twin.inner") as twins:
        yield twins


@pytest.fixture(scope="module")
def ole(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    with Twins.open(lake, gateway, "ole", governed="ice.twin.inner", copies="ice.twin.inner") as twins:
        yield twins


@pytest.fixture(scope="module")
def steward(lake: LakeSpark, gateway: RunningGateway) -> Iterator[Twins]:
    lake.spark.query(
        *(f"CREATE NAMESPACE ice.{space}" for space in ("high", "high.in", "high_copy", "high_copy.in")),
        user="loader",
    )
    with Twins.open(lake, gateway, "stew", governed="ice.high.in", copies="ice.high_copy.in") as twins:
        yield twins


READS = (
    "SELECT * FROM customer ORDER BY id",
    "SELECT * FROM {db}.customer WHERE id > 1 ORDER BY id",
    "SELECT {db}.customer.id, inner.customer.name, customer.email FROM {db}.customer ORDER BY 1",
    "SELECT {db}.customer.* FROM customer ORDER BY id",
    "SELECT inner.plain.id, {db}.plain.note FROM plain ORDER BY id",
    "SELECT * FROM `ice`.`{db1}`.`inner`.`customer` ORDER BY id",
    "SELECT * FROM {db1}.inner.customer ORDER BY id",
    "SELECT * FROM {db}.customer VERSION AS OF 'first' ORDER BY id",
    "SELECT * FROM IDENTIFIER('{db}.customer') ORDER BY id",
    "SELECT id FROM customer WHERE email = 'ann@canary-8812'",
    "SELECT c.id, p.note FROM {db}.customer c JOIN {db}.plain p USING (id) ORDER BY id",
    "WITH c AS (SELECT id, upper(name) AS n FROM customer) SELECT * FROM c WHERE id IN (SELECT id FROM c)",
    "SELECT * FROM {db}.most.deep",
    "SELECT * FROM plain WHERE EXISTS (SELECT 1 FROM customer WHERE customer.id = {db}.plain.id) ORDER BY id",
    "SELECT no_such FROM customer",
    "SELECT * FROM {db}.no_such",
    "SELECT count(*) AS n FROM {db}.plain.snapshots",
    "SHOW COLUMNS IN {db}.customer",
    "DESCRIBE {db}.most.deep",
)


def test_reads_are_those_of_copies(bob: Twins) -> None:
    for side in (bob.ours, bob.theirs):
        assert side.database.split(".")[1] in ("nest", "twin")
    bob.all_same(text for text in READS if "{db1}" not in text)
    for text in READS:
        if "{db1}" in text:
            bob.same(text, db1=("nest", "twin"))


def test_use_moves_between_namespaces(bob: Twins) -> None:
    for text in ("USE {db}.most", "SELECT * FROM deep", "USE {db}", "SELECT count(*) AS n FROM customer"):
        assert not bob.same(text).error
    assert not bob.same("USE {top}.inner", top=("nest", "twin")).error
    assert not bob.same("SELECT id FROM customer ORDER BY id").error


def test_lists_have_what_may_be_known(bob: Twins) -> None:
    def listed(text: str) -> list[tuple[Any, ...]]:
        answer = bob.ours.ask(text)
        assert not answer.error, answer.error
        return sorted(answer.rows)

    assert listed("SHOW TABLES IN ice.nest.inner") == [
        ("nest.inner", "customer", False),
        ("nest.inner", "plain", False),
    ]
    assert listed("SHOW NAMESPACES IN ice.nest.inner") == [("nest.inner.most",)]
    assert "SLUICE_" in bob.refusal("SHOW NAMESPACES IN ice.but")
    assert "SLUICE_" in bob.refusal("SHOW TABLES IN ice.nest.other")
    assert "SLUICE_" in bob.refusal("USE ice.nest.other")
    assert not {"shut", "shut.inner", "nest.other"} & {name for (name,) in listed("SHOW NAMESPACES IN ice")}


PAST = (
    "SELECT * FROM ice.nest.secret",
    "SELECT * FROM ice.nest.other.secret",
    "SELECT * FROM ice.shut.inner.secret",
    "SELECT * FROM ice.shut.inner.secret.files",
    "SELECT * FROM ice.nest.both.t",
    "SELECT * FROM ice.nest.inner.customer.files",
    "SELECT * FROM ice.nest.inner.customer.branch_b",
    "SELECT * FROM ice.nest.inner.customer.tag_first",
    "SELECT * FROM ice.nest.inner.customer.snapshot_id_1",
    "SELECT * FROM ice.nest.inner.customer.at_timestamp_99999999999999",
    "SELECT * FROM ice.nest.inner.customer.changes",
    "SELECT * FROM ice.nest.inner.customer.files.snapshot_id_1",
    "SELECT * FROM ice.nest.inner.plain.branch_b",
    "SELECT * FROM customer.branch_b",
    "SELECT * FROM inner.customer.branch_b",
    "SELECT * FROM ice.nest.`inner.customer`",
    "SELECT * FROM ice.`nest.inner`.customer",
    "SELECT * FROM ice.`nest.inner.customer`",
    "SELECT * FROM `ice.nest.inner.customer`",
    "SELECT * FROM ice.nest.inner.`customer.branch_b`",
    "SELECT * FROM ice.nest.inner.`customer#branch_b`",
    "SELECT * FROM ice.nest.` inner`.customer",
    "SELECT * FROM ice.nest.inner..customer",
    "SELECT * FROM ice.nest.inner.``.customer",
    "SELECT * FROM ice.nest.global_temp.customer",
    "SELECT * FROM ice.NEST.OTHER.secret",
    "USE ice.`nest.inner`",
    "SHOW TABLES IN ice.`nest.inner`",
    "CREATE TEMPORARY VIEW past AS SELECT * FROM ice.nest.other.secret",
    "CREATE TABLE ice.nest.inner.mine AS SELECT * FROM ice.nest.other.secret",
    "CREATE TABLE ice.nest.inner.plain.below AS SELECT 1 AS a",
    "DELETE FROM ice.nest.inner.customer",
    "TRUNCATE TABLE ice.nest.inner.customer",
    "ALTER TABLE ice.nest.inner.customer RENAME TO ice.nest.inner.renamed",
    "ALTER TABLE ice.nest.inner.customer RENAME TO renamed",
    "DROP NAMESPACE ice.nest CASCADE",
    "DROP NAMESPACE ice.shut.inner CASCADE",
    "CREATE NAMESPACE ice.nest.made",
    "CALL ice.system.ancestors_of('nest.inner.customer')",
    "DESCRIBE TABLE EXTENDED ice.nest.inner.customer.branch_b",
    "SELECT * FROM a.b.c",
    "SELECT * FROM spark_catalog.a.b.c",
)


@pytest.mark.parametrize("text", PAST)
def test_there_is_no_way_past_a_filter_or_mask(lake: LakeSpark, bob: Twins, text: str) -> None:
    message = bob.refusal(text)
    unread = "[PARSE_SYNTAX_ERROR]" in message or "[REQUIRES_SINGLE_PART_NAMESPACE]" in message
    absent = "[TABLE_OR_VIEW_NOT_FOUND]" in message or "[INVALID_EMPTY" in message
    assert message.startswith("[SLUICE_") or unread or absent, message
    assert CANARY not in message


def test_a_policy_that_excludes_a_namespace_opens_none_in_it(ole: Twins) -> None:
    assert not ole.same("SELECT * FROM ice.twin.inner.plain ORDER BY id").error
    for text in (
        "SELECT * FROM ice.but.secret",
        "SELECT * FROM ice.but.inner.secret",
        "SHOW TABLES IN ice.but.inner",
        "USE ice.but.inner",
    ):
        assert ole.refusal(text).startswith("[SLUICE_ACCESS_DENIED]")


def test_a_name_that_is_a_table_and_a_namespace_is_refused_with_the_reason(
    lake: LakeSpark, steward: Twins
) -> None:
    """What Iceberg would take for a branch of the table is not read as one that lies in the namespace."""
    lake.spark.query(
        "CREATE NAMESPACE ice.high.in.n",
        "CREATE TABLE ice.high.in.n.t USING iceberg AS SELECT 1 AS id",
        user="loader",
    )
    assert not steward.ours.ask("SELECT * FROM ice.high.in.n.t").error
    lake.spark.query("CREATE TABLE ice.high.in.n USING iceberg AS SELECT 2 AS id", user="loader")
    # What was known of the names is not for ever.
    steward.ours.ask("REFRESH TABLE ice.high.in.n")
    assert "is below the table ice.high.in.n" in steward.refusal("SELECT * FROM ice.high.in.n.t")
    assert "is below the table" in steward.refusal("INSERT INTO ice.high.in.n.t VALUES (1)")
    lake.spark.query("DROP TABLE ice.high.in.n.t", "DROP TABLE ice.high.in.n", user="loader")


DONE = (
    "CREATE NAMESPACE {db}.sub",
    "CREATE TABLE {db}.sub.t (id INT, s STRING) USING iceberg",
    "INSERT INTO {db}.sub.t VALUES (1, 'a'), (2, 'b')",
    "UPDATE {db}.sub.t SET s = 'c' WHERE id = 2",
    "MERGE INTO {db}.sub.t t USING (SELECT 3 AS id, 'd' AS s) s ON t.id = s.id "
    "WHEN NOT MATCHED THEN INSERT *",
    "DELETE FROM {db}.sub.t WHERE {db}.sub.t.id = 1",
    "SELECT * FROM {db}.sub.t ORDER BY id",
    "SELECT * FROM sub.t",
    "USE {db}.sub",
    "SELECT * FROM t ORDER BY id",
    "INSERT INTO t SELECT id + 10, s FROM t",
    "CREATE TEMPORARY VIEW tv AS SELECT * FROM t WHERE id > 2",
    "USE {db}",
    "SELECT * FROM tv ORDER BY id",
    "DROP VIEW tv",
    "ALTER TABLE {db}.sub.t CREATE BRANCH b",
    "INSERT INTO {db}.sub.t.branch_b VALUES (77, 'z')",
    "SELECT * FROM {db}.sub.t VERSION AS OF 'b' ORDER BY id",
    "SELECT count(*) AS n FROM {db}.sub.t.files",
    "ALTER TABLE {db}.sub.t ADD COLUMN more INT",
    "DESCRIBE {db}.sub.t",
    "CREATE TABLE {db}.sub.u USING iceberg AS SELECT * FROM {db}.sub.t",
    "DROP TABLE {db}.sub.u",
    "DROP TABLE {db}.sub.t",
    "DROP NAMESPACE {db}.sub",
    "USE {db}.sub",
)


def test_who_may_do_all_does_what_a_direct_session_does(steward: Twins) -> None:
    for text in DONE[:-1]:
        answer = steward.same(text)
        assert not answer.error or text == "SELECT * FROM sub.t", (text, answer.error)


def test_dataframes_are_written_into_a_nested_namespace(lake: LakeSpark, steward: Twins) -> None:
    if not lake.spark.connect_port:
        return
    for side in (steward.ours, steward.theirs):
        spark, db = side.frames, side.database
        spark.range(2).writeTo(f"{db}.written").using("iceberg").create()
        spark.range(3).writeTo(f"{db}.written").append()
        spark.range(4).write.mode("append").saveAsTable(f"{db}.written")
        spark.range(5).write.insertInto(f"{db}.written")
        spark.sql(f"ALTER TABLE {db}.written CREATE BRANCH b")
        spark.range(1).writeTo(f"{db}.written.branch_b").append()
    assert steward.same("SELECT count(*) AS n FROM {db}.written").rows == [(14,)]
    assert steward.same("SELECT count(*) AS n FROM {db}.written VERSION AS OF 'b'").rows == [(15,)]
    steward.same("DROP TABLE {db}.written")


FRAMES: dict[str, Callable[[Any, str], Any]] = {
    "table": lambda spark, db: spark.table("customer").orderBy("id"),
    "in full": lambda spark, db: spark.table(f"{db}.customer").filter("id > 1"),
    "read": lambda spark, db: spark.read.table(f"{db}.customer").select("id", "email", "phone"),
    "of a format": lambda spark, db: spark.read.format("iceberg").load(f"{db}.customer"),
    "by its full name": lambda spark, db: spark.table(f"{db}.customer").selectExpr(
        f"{db}.customer.id", "inner.customer.name", "customer.email"
    ),
    "all of it": lambda spark, db: spark.table(f"{db}.customer").select(f"{db}.customer.*"),
    "plain, by its full name": lambda spark, db: spark.table(f"{db}.plain").select(f"{db}.plain.id"),
    "deeper": lambda spark, db: spark.table(f"{db}.most.deep"),
    "joined": lambda spark, db: spark.table(f"{db}.customer").join(spark.table("plain"), "id"),
    "grouped": lambda spark, db: spark.table("customer").groupBy("region").count(),
    "of a text": lambda spark, db: spark.sql(f"SELECT * FROM {db}.customer VERSION AS OF 'first'"),
    "a version by option": lambda spark, db: (
        spark.read.option("versionAsOf", "first").table(f"{db}.customer").select("email")
    ),
    "snapshots": lambda spark, db: spark.table(f"{db}.plain.snapshots").select("operation"),
    "no such table": lambda spark, db: spark.table(f"{db}.no_such"),
    "no such column": lambda spark, db: spark.table("customer").select("no_such"),
}
FRAMES_PAST: dict[str, Callable[[Any, str], Any]] = {
    "another's": lambda spark, place: spark.table("ice.nest.other.secret"),
    "shut above": lambda spark, place: spark.table("ice.shut.inner.secret"),
    "a version or branch": lambda spark, place: spark.table("ice.nest.inner.customer.branch_b"),
    "a branch, of a format": lambda spark, place: spark.read.format("iceberg").load(
        "ice.nest.inner.customer.branch_b"
    ),
    "a tag": lambda spark, place: spark.table("customer.tag_first"),
    "metadata": lambda spark, place: spark.table("ice.nest.inner.customer.files"),
    "one part": lambda spark, place: spark.table("ice.`nest.inner`.customer"),
    "of a text": lambda spark, place: spark.sql("SELECT * FROM ice.nest.other.secret"),
}


def test_dataframes_are_those_of_copies(lake: LakeSpark, bob: Twins) -> None:
    if lake.spark.connect_port:
        bob.all_same_frames(FRAMES)


def test_no_dataframe_is_a_way_past_either(lake: LakeSpark, bob: Twins, tmp_path: Path) -> None:
    if lake.spark.connect_port:
        bob.require_refused_frames(FRAMES_PAST, tmp_path, CANARY)


def test_calls_of_the_catalog_know_nested_namespaces(lake: LakeSpark, gateway: RunningGateway) -> None:
    if not lake.spark.connect_port:
        return
    with gateway.session("bob", one_pack.PASSWORD) as spark:
        catalog = spark.catalog
        tables = catalog.listTables("ice.nest.inner")
        assert sorted((t.namespace, t.name) for t in tables) == [
            (["nest", "inner"], "customer"),
            (["nest", "inner"], "plain"),
        ]
        assert catalog.tableExists("ice.nest.inner.customer")
        assert not catalog.tableExists("ice.nest.other.secret")
        assert catalog.databaseExists("ice.nest.inner")
        assert not catalog.databaseExists("ice.nest.other")
        assert catalog.getTable("ice.nest.inner.plain").namespace == ["nest", "inner"]
        assert [c.name for c in catalog.listColumns("ice.nest.inner.plain")] == ["id", "note"]
        catalog.setCurrentCatalog("ice")
        catalog.setCurrentDatabase("nest.inner")
        assert catalog.currentDatabase() == "nest.inner"
        assert spark.table("customer").count() == 2
        asked: tuple[Callable[[], Any], ...] = (
            lambda: catalog.listTables("ice.nest.other"),
            lambda: catalog.getTable("ice.nest.other.secret"),
            lambda: catalog.setCurrentDatabase("nest.other"),
            lambda: catalog.setCurrentDatabase("ice.nest.inner"),
        )
        for ask in asked:
            with pytest.raises(Exception, match="SLUICE_") as raised:
                ask()
            assert CANARY not in str(raised.value)
        assert spark.table("customer").count() == 2
