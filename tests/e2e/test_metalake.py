"""A metalake of a Gravitino server before a real Spark: catalogs come, change and go while sessions are open.

The server is a double of the documented API; its catalogs are Derby databases, whose driver Spark has.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.gravitino_double import METALAKE, Gravitino
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, session, write_settings
from tests.e2e.running import LoopThread, RunningGateway, Spark

SECRET = "s3cret-of-the-metalake"
CLASS = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
DRIVER = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
PACK = """\
service: spark
policies:
  - name: use
    on:
      - {catalog: "*"}
      - {catalog: "*", database: "*"}
    allow: [{users: [ann, bea, own], access: [use, show]}]
  - name: of whose it is
    on: {catalog: grav, database: shop, table: person, column: "*"}
    allow: [{users: ["{OWNER}"], access: [select]}]
  - name: settings
    on: {setting: "*"}
    allow: [{users: [ann, bea], access: [show, set]}]
  - name: cards
    on: {tag: pii}
    mask: [{users: [bea], type: MASK_NULL}]
  - name: what is held back of the people
    on: {catalog: grav, database: shop, table: person, column: "*"}
    deny: [{users: [dan], access: [select]}]
  - name: rows of it
    on: {catalog: grav, database: shop, table: person}
    filter: [{users: [fay], where: "card > 4000"}]
  - name: numbers of it
    on: {catalog: grav, database: shop, table: person, column: id}
    mask: [{users: [gus], type: CUSTOM, show: "{col} + 100"}]
"""


def url(name: str) -> str:
    return f"jdbc:derby:memory:{name};create=true"


def make(spark: Spark, name: str, value: int) -> None:
    """Make a Derby database with a table in it."""
    spark.query(
        f"SET spark.sql.catalog.make_{name}={CLASS}",
        f"SET `spark.sql.catalog.make_{name}.url`=`{url(name)}`",
        f"SET spark.sql.catalog.make_{name}.driver={DRIVER}",
        f"CREATE NAMESPACE make_{name}.shop",
        f"CREATE TABLE make_{name}.shop.person (id INT, card INT)",
        f"INSERT INTO make_{name}.shop.person VALUES (1, {value})",
    )


def add(server: Gravitino, name: str, database: str) -> None:
    server.add(
        name,
        "jdbc-derby",
        jdbc_url=url(database),
        jdbc_driver=DRIVER,
        jdbc_user="shop",
        jdbc_password=SECRET,
    )


@pytest.fixture(scope="module")
def server(session_loop: LoopThread) -> Iterator[Gravitino]:
    double = Gravitino()
    session_loop.run(double.start())
    yield double
    session_loop.run(double.stop())


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path, server: Gravitino) -> Iterator[RunningGateway]:
    for name, value in (("grav", 4000), ("other", 5000)):
        make(spark, name, value)
    add(server, "grav", "grav")
    server.add("files", "hadoop", "fileset")
    server.add("odd", "unheard-of")
    server.tag("pii", "schema", "grav.shop")
    server.grant("reader", "catalog", "grav", "use_catalog", "use_schema", "select_table", "create_view")
    server.users |= {name: ["reader"] for name in ("ann", "bea", "dan", "fay", "gus")}
    server.owners["TABLE", "grav.shop.person"] = ("own", "USER")
    parameters = {
        "uri": server.url,
        "metalake": METALAKE,
        "poll-s": 0.2,
        "privileges": True,
        # Of this one the server's is not needed; of those that come later it is.
        "set.grav.password": {"env": "SLUICE_TEST_GRAV"},
    }
    file = write_settings(
        open_directory / "metalake",
        spark,
        PACK,
        {name: [] for name in ("ann", "bea", "cid", "dan", "fay", "gus", "own")},
        catalogs=[  # type: ignore[arg-type]
            {"name": "lake", "catalog": {"type": "gravitino", "connection-params": parameters}}
        ],
    )
    os.environ["SLUICE_TEST_GRAV"] = SECRET
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0
    del os.environ["SLUICE_TEST_GRAV"]


def until(what: Callable[[], Any]) -> Any:
    """Wait for something that a poll brings, and return it."""
    error: BaseException | None = None
    for _ in range(100):
        try:
            found = what()
        except Exception as raised:  # noqa: BLE001 - Spark's or the gateway's, through whichever client
            error = raised
        else:
            if found:
                return found
        time.sleep(0.2)
    raise AssertionError("it did not come") from error


def rows(gateway: RunningGateway, endpoint: str, user: str, text: str) -> list[Any]:
    with session(gateway, endpoint, user) as ask:
        return ask(text)


PERSONS = "SELECT * FROM grav.shop.person"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_its_tags_mask_its_roles_allow_and_its_owners_own(gateway: RunningGateway, endpoint: str) -> None:
    assert rows(gateway, endpoint, "ann", PERSONS) == [(1, 4000)]
    assert rows(gateway, endpoint, "bea", PERSONS) == [(None, None)]
    assert rows(gateway, endpoint, "own", PERSONS) == [(1, 4000)]
    with session(gateway, endpoint, "cid") as cid:
        with pytest.raises(Exception, match=r"ACCESS_DENIED|select"):
            cid(PERSONS)
        assert ("grav",) not in cid("SHOW CATALOGS")
    with session(gateway, endpoint, "bea") as bea:
        bea("USE grav.shop")
        assert bea("SELECT card FROM person") == [(None,)]


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_masks_filters_and_denials_hold(gateway: RunningGateway, endpoint: str) -> None:
    assert rows(gateway, endpoint, "fay", PERSONS) == []
    assert rows(gateway, endpoint, "gus", PERSONS) == [(101, 4000)]
    with pytest.raises(Exception, match="ACCESS_DENIED"):
        rows(gateway, endpoint, "dan", PERSONS)


def test_they_hold_for_dataframes(gateway: RunningGateway) -> None:
    for user, seen in (("ann", [(1, 4000)]), ("bea", [(None, None)]), ("fay", []), ("gus", [(101, 4000)])):
        with gateway.session(user, PASSWORD) as frames:
            assert [tuple(row) for row in frames.table("grav.shop.person").collect()] == seen
    with gateway.session("dan", PASSWORD) as frames, pytest.raises(Exception, match="ACCESS_DENIED"):
        frames.table("grav.shop.person").collect()


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_its_passwords_reach_no_client(gateway: RunningGateway, endpoint: str) -> None:
    with session(gateway, endpoint, "ann") as ann:
        assert SECRET not in str([*ann("SET"), *ann("SET -v"), *ann(f"EXPLAIN EXTENDED {PERSONS}")])
        with pytest.raises(Exception, match=r"not shown|secret") as raised:
            ann("SET spark.sql.catalog.grav.password")
        assert SECRET not in str(raised.value)
    assert SECRET not in str(gateway.records)
    kept = gateway.config.parent / "ledger" / "metalake_lake.json"
    assert SECRET not in kept.read_text()
    assert oct(kept.stat().st_mode & 0o777) == "0o600"


def test_what_is_left_out_is_told(gateway: RunningGateway) -> None:
    _, ready = gateway.admin("/readyz")
    assert "`odd` (unknown provider `unheard-of`)" in ready
    assert "1 tags, privileges and properties cannot be mapped" in ready
    listed = gateway.sluice("catalogs", "list", "-c", str(gateway.config)).stdout
    assert "skipped: unknown provider `unheard-of`" in listed
    assert "of type FILESET" in listed
    shown = gateway.sluice("catalogs", "show", "lake", "-c", str(gateway.config)).stdout
    assert "ALLOW CREATE_VIEW on CATALOG" in shown
    assert SECRET not in listed + shown
    explained = gateway.sluice("explain", PERSONS, "--as", "bea", "-c", str(gateway.config))
    assert "MASK_NULL" in explained.stdout, explained
    _, figures = gateway.admin("/metrics")
    assert 'sluice_metalake_left_out{metalake="lake"} 2.0' in figures


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_catalog_comes_changes_and_goes_while_sessions_are_open(
    gateway: RunningGateway, server: Gravitino, endpoint: str
) -> None:
    name = f"late_{endpoint}"
    text = f"SELECT card FROM {name}.shop.person"
    server.grant("reader", "catalog", name, "use_catalog", "use_schema", "select_table")
    with session(gateway, endpoint, "ann") as before:
        with pytest.raises(Exception, match=r"single-part|not have the form|ACCESS_DENIED|not found"):
            before(text)
        add(server, name, "grav")
        assert until(lambda: rows(gateway, endpoint, "ann", text)) == [(4000,)]
        # A session that was there before was not told of it.
        with pytest.raises(Exception, match="was added after this session began"):
            before(text)
        assert before("SELECT 1") == [(1,)]
    with session(gateway, endpoint, "ann") as during:
        assert during(text) == [(4000,)]
        during(f"USE {name}.shop")
        # It becomes another database: Spark keeps, in this session, what it had.
        add(server, name, "other")
        assert until(lambda: rows(gateway, endpoint, "ann", text) == [(5000,)])
        for written in (text, "SELECT card FROM person", f"USE {name}.shop", "SHOW TABLES"):
            with pytest.raises(Exception, match="has changed since this session began"):
                during(written)
        during("USE spark_catalog.default")
        assert during("SELECT 1") == [(1,)]
    with session(gateway, endpoint, "ann") as last:
        assert last(text) == [(5000,)]
        del server.catalogs[name]
        until(lambda: _refused(last, text, "no longer has"))
        with pytest.raises(Exception, match=r"not found|CATALOG_NOT_FOUND"):
            last(f"SET CATALOG '{name}'")
        assert last("SELECT 1") == [(1,)]


def _refused(ask: Callable[[str], Any], text: str, why: str) -> bool:
    try:
        ask(text)
    except Exception as error:  # noqa: BLE001 - of whichever client
        return why in str(error)
    return False


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_tag_that_moves_and_a_role_that_is_revoked(
    gateway: RunningGateway, server: Gravitino, endpoint: str
) -> None:
    with session(gateway, endpoint, "bea") as bea:
        assert bea(PERSONS) == [(None, None)]
        server.tagged["pii"] = [("column", "grav.shop.person.CARD")]
        until(lambda: bea(PERSONS) == [(1, None)])
        server.tagged["pii"] = [("metalake", METALAKE)]
        until(lambda: bea(PERSONS) == [(None, None)])
        server.users["bea"] = []
        until(lambda: _refused(bea, PERSONS, "select"))
        server.users["bea"] = ["reader"]
        until(lambda: bea(PERSONS) == [(None, None)])
        server.grant("no", "schema", "grav.shop", "!select_table")
        server.users["bea"] = ["reader", "no"]
        until(lambda: _refused(bea, PERSONS, "select"))
        server.users["bea"] = ["reader"]
        server.roles.pop("no")
        server.tagged["pii"] = [("schema", "grav.shop")]
        until(lambda: bea(PERSONS) == [(None, None)])


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_row_filters_and_masks_of_the_server_hold(
    gateway: RunningGateway, server: Gravitino, endpoint: str
) -> None:
    rows_of = 'filter := col("id") == 2 if session_user() == "ann" else := col("card") > 3999'
    mask = 'mask := action("replace-with-null") if session_user() in ["ann"] else := action("sha-256-global")'
    with session(gateway, endpoint, "ann") as ann, session(gateway, endpoint, "own") as own:
        assert ann(PERSONS) == [(1, 4000)]
        server.contents = {"rows": {"expression": rows_of}, "mask": {"expression": mask}}
        server.applied = {"rows": [("SCHEMA", "grav.shop")], "mask": [("COLUMN", "grav.shop.person.CARD")]}
        server.policies = {"rows": "system_row_filter"}
        until(lambda: ann(PERSONS) == [])
        assert own(PERSONS) == [(1, 4000)]
        server.policies = {"mask": "system_column_mask"}
        until(lambda: ann(PERSONS) == [(1, None)])
        assert ann("SELECT count(*) FROM grav.shop.person WHERE card = 4000") == [(0,)]
        ((_, hashed),) = own(PERSONS)
        assert hashed not in (None, 4000)
        # Both of them, and one that nobody here understands.
        server.policies = {"rows": "system_row_filter", "mask": "system_column_mask"}
        until(lambda: ann(PERSONS) == [])
        server.contents["rows"] = {"expression": "id = 1"}
        until(lambda: _refused(ann, PERSONS, "select"))
        assert _refused(own, "SELECT id FROM grav.shop.person", "select")
        server.policies = {}
        until(lambda: ann(PERSONS) == [(1, 4000)])


def test_a_server_that_is_away_leaves_all_as_it_was(
    gateway: RunningGateway, server: Gravitino, session_loop: LoopThread
) -> None:
    session_loop.run(server.stop())
    until(lambda: "no answer" in gateway.admin("/readyz")[1])
    assert rows(gateway, "thrift", "bea", PERSONS) == [(None, None)]
    session_loop.run(server.again())
    until(lambda: "no answer" not in gateway.admin("/readyz")[1])
