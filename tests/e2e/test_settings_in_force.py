"""A policy's text means what it says under whatever settings its reader's session has: on a real Spark.

`moment` is 2020-01-01 00:30 in UTC: in Tokyo it is nine hours later, and in New York the year before.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyhive import hive
from pyspark.errors import PySparkException

from tests.e2e.one_pack import ENDPOINTS, PASSWORD, Ask, session, write_settings
from tests.e2e.running import RunningGateway, Spark, connect_session, until

ZONE = "spark.sql.session.timeZone"
ANSI = "spark.sql.ansi.enabled"
PACK = """
service: spark
policies:
  - name: everybody works here
    on: {catalog: spark_catalog, database: zoned, table: "*", column: "*"}
    allow: [{users: [ann], access: [select, refresh, create, drop]}]
  - name: settings that mean something
    on: {setting: [spark.sql.session.timeZone, spark.sql.ansi.enabled, spark.sql.shuffle.partitions]}
    allow: [{users: [ann], access: [set]}]
  - name: rows of the new year
    on: {catalog: spark_catalog, database: zoned, table: days}
    filter: [{users: [ann], where: "year(moment) = 2020"}]
  - name: rows of the region
    on: {catalog: spark_catalog, database: zoned, table: regions}
    filter: [{users: [ann], where: "region = 'EMEA'"}]
  - name: numbers of cards
    on: {catalog: spark_catalog, database: zoned, table: cards, column: crad}
    mask: [{users: [ann], type: MASK_NULL}]
"""
MISSPELT = """
service: spark
policies:
  - name: no such database
    on: {catalog: spark_catalog, database: zonde, table: days, column: id}
    mask: [{users: [ann], type: MASK_NULL}]
  - name: no such table
    on: {catalog: spark_catalog, database: zoned, table: dyas, column: id}
    mask: [{users: [ann], type: MASK_NULL}]
  - name: no such function
    on: {catalog: spark_catalog, database: zoned, table: days}
    filter: [{users: [bob], where: "frobnicate(id) = 1"}]
  - name: no truth
    on: {catalog: spark_catalog, database: zoned, table: days}
    filter: [{users: [eve], where: "abs(id)"}]
  - name: other types
    on: {catalog: spark_catalog, database: zoned, table: days, column: id}
    mask: [{users: [bob], type: CUSTOM, show: "id + array(1)"}]
  - name: what fits
    on: {catalog: spark_catalog, database: zoned, table: days, column: id}
    mask:
      - {users: [ann], type: CUSTOM, show: "{col} + (SELECT max(id) FROM spark_catalog.zoned.regions)"}
  - name: on a tag
    on: {tag: REGIONAL}
    filter: [{users: [eve], where: "no_such_function(region)"}]
tags:
  - {on: {catalog: spark_catalog, database: zoned, table: regions}, tags: [REGIONAL]}
"""
MADE = (
    "CREATE DATABASE zoned",
    "CREATE TABLE zoned.days USING parquet AS SELECT * FROM VALUES "
    "(1, TIMESTAMP'2020-01-01 00:30:00Z'), (2, TIMESTAMP'2019-12-31 23:30:00Z') AS t(id, moment)",
    "CREATE TABLE zoned.regions USING parquet AS SELECT * FROM VALUES "
    "(1, 'EMEA'), (2, 'emea') AS t(id, region)",
    "CREATE TABLE zoned.cards USING parquet AS SELECT 1 AS id, '4111' AS card",
    "CREATE VIEW zoned.seen AS SELECT id, region FROM zoned.regions",
)
"""Made by the operator, past the gateway; its Spark has the zone UTC."""


@pytest.fixture(scope="module")
def gateway(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(*MADE, user="loader")
    closed = {"unmatched_columns": "closed"}
    file = write_settings(open_directory / "zoned", spark, PACK, {"ann": ()}, policies=closed)
    running = RunningGateway(file).start()
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def other(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    """Another gateway with the same users and policies, before the same Spark."""
    running = RunningGateway(write_settings(open_directory / "zoned_too", spark, PACK, {"ann": ()})).start()
    yield running
    assert running.stop() == 0


@pytest.fixture(params=ENDPOINTS)
def ask(request: pytest.FixtureRequest, gateway: RunningGateway) -> Iterator[Ask]:
    with session(gateway, request.param, "ann") as asked:
        yield asked


@contextlib.contextmanager
def refused(key: str) -> Iterator[None]:
    with pytest.raises((hive.OperationalError, PySparkException), match=f"run RESET {key}"):
        yield


def test_a_time_zone_moves_no_row_into_sight_and_independent_filters_go_on(ask: Ask) -> None:
    assert ask("SELECT id FROM zoned.days") == [(1,)]
    for text in ("SET TIME ZONE 'America/New_York'", f"SET {ZONE} = Asia/Tokyo"):
        ask(text)
        with refused(ZONE):
            ask("SELECT id FROM zoned.days")
        assert ask("SELECT id FROM zoned.regions") == [(1,)]
    ask("SET spark.sql.shuffle.partitions = 3")
    ask("SET TIME ZONE 'UTC'")
    assert ask("SELECT id FROM zoned.days") == [(1,)]
    ask("SET TIME ZONE 'Asia/Tokyo'")
    ask(f"RESET {ZONE}")
    assert ask("SELECT id FROM zoned.days") == [(1,)]


def test_reset_brings_back_what_spark_was_started_with(ask: Ask) -> None:
    ask("SET TIME ZONE 'Asia/Tokyo'")
    ask(f"RESET {ZONE}")
    assert ask("SELECT current_timezone()") == [("UTC",)]


def test_reset_of_all_gives_back_what_was_given_and_leaves_what_is_pinned(ask: Ask) -> None:
    [(_, before)] = ask("SET spark.sql.shuffle.partitions")
    ask("SET TIME ZONE 'Asia/Tokyo'")
    ask("SET spark.sql.shuffle.partitions = 3")
    assert ask("RESET") == []
    assert ask("SELECT current_timezone()") == [("UTC",)]
    assert ask("SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", before)]
    for key, value in (("spark.sql.variable.substitute", "false"), ("spark.sql.runSQLOnFiles", "true")):
        assert ask(f"SET {key}") == [(key, value)]
    assert ask("SELECT id FROM zoned.days") == [(1,)]


def test_what_needs_no_refusal_runs_as_spark_has_it(ask: Ask) -> None:
    assert ask("SELECT IDENTIFIER('id') FROM IDENTIFIER('zoned.regions')") == [(1,)]
    assert ask("SELECT IDENTIFIER('abs')(-1), (1 = 1) IS UNKNOWN, NULL IS NOT UNKNOWN") == [(1, False, False)]
    ask("USE IDENTIFIER('zoned')")
    assert ask("SELECT r.IDENTIFIER FROM (SELECT id AS IDENTIFIER FROM regions) r") == [(1,)]
    ask("DROP TEMPORARY FUNCTION IF EXISTS nothing")
    with pytest.raises((hive.OperationalError, PySparkException), match="ROUTINE_NOT_FOUND"):
        ask("DROP TEMPORARY FUNCTION nothing")
    assert ("UTF8_LCASE" in str(ask("SHOW COLLATIONS LIKE 'UTF8*'"))) is True


def unmatched(gateway: RunningGateway, number: int) -> bool:
    return f'sluice_policies_unmatched{{what="column"}} {number}.0' in gateway.admin("/metrics")[1]


@pytest.mark.in_turn(3)
def test_a_table_that_lacks_a_column_of_a_mask_is_closed_until_it_is_mended(
    ask: Ask, gateway: RunningGateway
) -> None:
    told = (
        "policy `numbers of cards` refers to column `crad`, which table spark_catalog.zoned.cards does not "
        "have"
    )
    for text in ("SELECT card FROM zoned.cards", "SELECT count(*) FROM zoned.cards"):
        with pytest.raises((hive.OperationalError, PySparkException), match=told):
            ask(text)
    until(lambda: unmatched(gateway, 1), "policies are held against tables")
    until(lambda: "numbers of cards" in gateway.admin("/readyz")[1], "the page names the policy")
    assert gateway.admin("/readyz")[0] == 200
    pack = gateway.config.parent / "pack.yaml"
    pack.write_text(PACK.replace("column: crad", "column: card"))
    until(lambda: unmatched(gateway, 0), "policies are held against tables")
    assert ask("SELECT * FROM zoned.cards") == [(1, None)]
    pack.write_text(PACK)
    until(lambda: unmatched(gateway, 1), "policies are held against tables")


@pytest.mark.in_turn(3)
@pytest.mark.parametrize(
    ("on", "policy", "shown"),
    [
        ("table: regions", 'filter: [{users: [ann], where: "(("}]', []),
        ("table: regions, column: region", "maks: [{users: [ann], type: MASK_NULL}]", [(1, None)]),
        ("table: regions, column: region", "mask: [{users: [ann], type: CUSTOM, show: '(('}]", [(1, None)]),
    ],
)
def test_what_a_policy_at_fault_closes_no_view_shows(
    ask: Ask, gateway: RunningGateway, on: str, policy: str, shown: list[Any]
) -> None:
    """The view was made past the gateway, so that nobody is denied what it reads."""
    assert ask("SELECT * FROM zoned.seen") == [(1, "EMEA")]
    pack = gateway.config.parent / "pack.yaml"
    entry = f"  - name: bad\n    on: {{catalog: spark_catalog, database: zoned, {on}}}\n    {policy}\n"
    pack.write_text(PACK + entry)
    try:
        until(lambda: "`bad`" in gateway.admin("/readyz")[1], "the page names the policy")
        assert ask("SELECT * FROM zoned.seen") == shown
        with pytest.raises((hive.OperationalError, PySparkException)):
            ask("SELECT region FROM zoned.regions")
        assert ask("SELECT id FROM zoned.days") == [(1,)]
    finally:
        pack.write_text(PACK)
    until(lambda: "`bad`" not in gateway.admin("/readyz")[1], "it is mended")
    assert ask("SELECT * FROM zoned.seen") == [(1, "EMEA")]


@pytest.mark.in_turn(3)
def test_the_command_asks_spark_for_what_policies_name(gateway: RunningGateway) -> None:
    file = gateway.config.parent / "misspelt.txt.yaml"
    file.write_text(MISSPELT)
    try:
        done = gateway.sluice("check", "--json", str(gateway.config), str(file))
    finally:
        file.unlink()
    told = json.loads(done.stdout)
    assert [what for what in told["not_asked"] if not what.startswith("ports were not checked")] == []
    found = sorted(fault.partition("/zoned/")[2] for fault in told["faults"])
    lines = MISSPELT.splitlines()

    def at(text: str, file: str = "misspelt.txt.yaml") -> str:
        where = PACK.splitlines() if file == "pack.yaml" else lines
        return f"{file}:{next(i for i, line in enumerate(where, 1) if text in line)}"

    days = "spark_catalog.zoned.days"
    wanted = [
        f"{at('no such database')}: policy `no such database`: there is no database `zonde` in spark_catalog"
        " (did you mean `zoned`?)",
        f"{at('no such table')}: policy `no such table`: there is no table `dyas` in spark_catalog.zoned"
        " (did you mean `days`?)",
        f"{at('frobnicate')}: policy `no such function`: Spark refuses this filter for {days}: "
        "[UNRESOLVED_ROUTINE] ",
        f"{at('abs(id)')}: policy `no truth`: this filter has type int for {days}",
        f"{at('no_such_function')}: policy `on a tag`: Spark refuses this filter for "
        "spark_catalog.zoned.regions: [UNRESOLVED_ROUTINE] ",
        f"{at('array(1)')}: policy `other types`: Spark refuses this mask for {days}: [DATATYPE_MISMATCH",
        f"{at('numbers of cards', 'pack.yaml')}: policy `numbers of cards`: there is no column `crad` in "
        "spark_catalog.zoned.cards (did you mean `card`?)",
    ]
    for text in wanted:
        assert any(fault.startswith(text) for fault in found), (text, found)
    assert len(found) == len(wanted), found


def test_a_list_of_tables_tells_all_of_those_without_obligations(ask: Ask) -> None:
    ask("CREATE TABLE zoned.plain USING parquet AS SELECT 1 AS id")
    rows = {name: information for _, name, _, information in ask("SHOW TABLE EXTENDED IN zoned LIKE '*'")}
    ask("DROP TABLE zoned.plain")
    for name in ("days", "regions"):
        assert "Type: MANAGED\nProvider: parquet\n" in rows[name]
        assert "|-- id: " in rows[name]
        assert not {"Location", "Statistics", "Properties"} & set(rows[name].replace(":", " ").split())
    assert "Location: " in rows["plain"]
    assert "|-- id: integer" in rows["plain"]


@pytest.mark.in_turn(1, one_way=True)
def test_descriptions_keep_what_is_harmless(ask: Ask, gateway: RunningGateway) -> None:
    """On both endpoints, where a row filter applies."""
    with gateway.session("ann", PASSWORD) as frames:
        asks = (ask, lambda text: [tuple(row) for row in frames.sql(text).collect()])
        for one in asks:
            for how in ("EXTENDED", "FORMATTED"):
                rows = {row[0]: row[1] for row in one(f"DESCRIBE TABLE {how} zoned.regions")}
                assert rows["id"] == "int"
                assert (rows["Type"], rows["Provider"]) == ("MANAGED", "parquet")
                assert "Owner" in rows
                assert not rows.keys() & {"Location", "Statistics", "Table Properties", "Storage Properties"}
            (listed,) = one("SHOW TABLE EXTENDED IN zoned LIKE 'regions'")
            assert "\nType: MANAGED\nProvider: parquet\n" in listed[3]
            assert "Location" not in listed[3]
            one("CREATE OR REPLACE TEMPORARY VIEW described AS SELECT id FROM zoned.regions")
            (listed,) = (row for row in one("SHOW TABLE EXTENDED IN zoned LIKE 'described'") if row[2])
            assert "Type: VIEW\n" in listed[3]
            assert "View Text" not in listed[3]
            properties = dict(one("SHOW TBLPROPERTIES zoned.regions"))
            assert not properties.keys() & {"numFiles", "totalSize", "transient_lastDdlTime"}
            ((as_json,),) = one("DESCRIBE EXTENDED zoned.regions AS JSON")
            told = json.loads(as_json)
            assert (told["type"], told["provider"]) == ("MANAGED", "parquet")
            assert "id" in [column["name"] for column in told["columns"]]
            assert not told.keys() & {"location", "statistics", "table_properties"}


def test_a_temporary_view_keeps_the_settings_that_it_was_made_under(ask: Ask) -> None:
    ask("CREATE TEMPORARY VIEW mine AS SELECT id, CAST(moment AS DATE) AS day FROM zoned.days")
    ask("SET TIME ZONE 'America/New_York'")
    assert ask("SELECT id FROM mine") == [(1,)]
    ask(f"SET {ANSI} = false")
    assert ask("SELECT id FROM mine") == [(1,)]
    with refused("|".join((ANSI, ZONE)).replace("|", " first|RESET ")):
        ask("CREATE TEMPORARY VIEW other AS SELECT id FROM zoned.days")


def test_the_view_of_a_dataframe_keeps_the_zone_that_it_was_made_under(gateway: RunningGateway) -> None:
    with gateway.session("ann", PASSWORD) as frames:
        frames.table("zoned.days").createOrReplaceTempView("mine")
        frames.conf.set(ZONE, "America/New_York")
        assert [row.id for row in frames.sql("SELECT id FROM mine").collect()] == [1]
        with refused(ZONE):
            frames.table("zoned.days").collect()
        frames.conf.set(ZONE, "UTC")
        assert [row.id for row in frames.table("zoned.days").collect()] == [1]
        frames.conf.unset(ZONE)
        with refused(ZONE):
            frames.table("zoned.days").collect()


def test_a_session_begins_with_settings_of_its_opening(gateway: RunningGateway) -> None:
    opened = hive.connect(
        gateway.host,
        gateway.port,
        username="ann",
        password=PASSWORD,
        auth="CUSTOM",
        configuration={f"set:hiveconf:{ZONE}": "America/New_York"},
    )
    with contextlib.closing(opened), contextlib.closing(opened.cursor()) as cursor:
        with refused(ZONE):
            cursor.execute("SELECT id FROM zoned.days")
        cursor.execute("SELECT id FROM zoned.regions")
        assert cursor.fetchall() == [(1,)]


def test_a_clone_and_a_gateway_started_anew_know_the_zone(gateway: RunningGateway) -> None:
    def days(session: Any) -> list[int]:
        return [row.id for row in session.table("zoned.days").collect()]

    with gateway.session("ann", PASSWORD) as frames, contextlib.ExitStack() as opened:
        frames.conf.set(ZONE, "America/New_York")
        clone = frames.cloneSession()
        opened.callback(clone.stop)
        with refused(ZONE):
            days(clone)
        clone.conf.set(ZONE, "UTC")
        assert days(clone) == [1]
        with refused(ZONE):
            days(frames)
        for session in (frames, clone):
            session.release_session_on_close = False
    assert gateway.stop() == 0
    gateway.start()
    token = f"ann:{PASSWORD}"
    with connect_session(gateway.connect_port, token, session_id=frames.session_id) as again:
        with refused(ZONE):
            days(again)
        again.conf.set(ZONE, "UTC")
        assert days(again) == [1]
    with connect_session(gateway.connect_port, token, session_id=clone.session_id) as again:
        assert days(again) == [1]


def test_a_session_of_one_gateway_is_none_of_another(gateway: RunningGateway, other: RunningGateway) -> None:
    """Which would not hear of the time zone that is set in it."""
    with gateway.session("ann", PASSWORD) as mine:
        assert mine.sql("SELECT id FROM zoned.days").collect() == [(1,)]
        token = f"ann:{PASSWORD}"
        with connect_session(other.connect_port, token, session_id=mine.session_id) as there:
            with pytest.raises(PySparkException, match="through another gateway"):
                there.sql("SELECT id FROM zoned.days").collect()
            mine.sql("SET TIME ZONE 'Etc/GMT-14'").collect()
            with pytest.raises(PySparkException, match="through another gateway"):
                there.sql("SELECT id FROM zoned.days").collect()
            mine.sql("SET TIME ZONE 'UTC'").collect()
            assert mine.sql("SELECT id FROM zoned.days").collect() == [(1,)]
    with other.session("ann", PASSWORD) as fresh:
        assert fresh.sql("SELECT id FROM zoned.days").collect() == [(1,)]
