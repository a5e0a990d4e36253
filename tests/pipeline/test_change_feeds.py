"""Delta's `table_changes`: each call is a scan of its table, guarded as that is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.catalog import FEED, Column
from gateway.model.statement import Cleared, Refused, Verdict
from gateway.pipeline import Rules
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.pipeline.test_versions_by_name import PACK as PACK_OF_VERSIONS

pytestmark = pytest.mark.asyncio(loop_scope="session")

PACK = (
    PACK_OF_VERSIONS.replace("catalog: lake", "catalog: spark_catalog")
    + """\
  - name: no pin
    on: {catalog: spark_catalog, database: shop, table: person, column: pin}
    deny: [{groups: [guests], access: [select]}]
"""
)
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog", "lake"],
    "tables": {
        "spark_catalog.shop.person": {"id": "int", "name": "string", "pin": "int"},
        "spark_catalog.shop.plain": {"id": "int"},
        "lake.shop.person": {"id": "int"},
    },
    "views": {},
    "pack": PACK,
    "people": {"ann": {"groups": ["staff"]}, "ben": {"groups": ["guests"]}, "eve": {"groups": ["few"]}},
}
RULES = Rules(barriers="always", star="visible")
OTHERS = (("_change_type", "string"), ("_commit_version", "bigint"), ("_commit_timestamp", "timestamp"))


def world(provider: str = "delta", unfollowed: str = "") -> World:
    made = World(DATA)
    for name, one in list(made.tables.items()):
        made.tables[name] = now = replace(one, provider=provider)
        feed = replace(name, version=FEED)
        columns = (*now.columns, *(Column(name=column, type=kind) for column, kind in OTHERS))
        made.versions[feed] = replace(now, name=feed, columns=columns, unfollowed=unfollowed)
    return made


async def judged(reader: ReaderPool, text: str, user: str = "ben", **more: Any) -> Verdict:
    return await world(**more).judge(text, reader, user=user, rules=RULES)


GUARDED = (
    "(SELECT `id`, CASE WHEN FALSE THEN `name` END AS `name`, `_change_type`, `_commit_version`, "
    "`_commit_timestamp` FROM (SELECT * FROM table_changes({}) AS `person` WHERE (id = 7)) "
    "TABLESAMPLE (100 PERCENT) REPEATABLE (0) "
    "AS `person`)"
)


@pytest.mark.parametrize(
    ("call", "around"),
    [
        ("'shop.person', 0", "SELECT * FROM {}"),
        ("'shop.person', 1, 4", "SELECT c.id FROM {} AS c WHERE c._change_type = 'insert'"),
        ("'shop.person', '2026-01-01'", "SELECT a FROM {} AS c(a, b, d, e, f) ORDER BY a"),
        ("'shop.person' /* ) */, 0 -- (\n", "SELECT id FROM {}"),
        (
            "'shop.person', 0",
            "WITH c AS (SELECT * FROM {}) SELECT c.id FROM c JOIN shop.person USING (id)",
        ),
        ("'shop.person', 0", "INSERT INTO shop.plain SELECT id FROM {}"),
        ("'shop.person', 0", "SELECT id FROM shop.plain WHERE id IN (SELECT id FROM {})"),
    ],
)
async def test_a_call_is_guarded_as_its_table(reader: ReaderPool, call: str, around: str) -> None:
    verdict = await judged(reader, around.format(f"table_changes({call})"))
    assert isinstance(verdict, Cleared), verdict
    assert "(id = 7)) TABLESAMPLE" in verdict.forwarded
    assert "CASE WHEN FALSE THEN `name` END AS `name`" in verdict.forwarded
    assert "`pin`" not in verdict.forwarded
    assert call.split(" ")[0] in verdict.forwarded
    (record,) = {scan.table for scan in verdict.scans if scan.table.table == "person"}
    assert not record.version


async def test_what_is_sent_for_it(reader: ReaderPool) -> None:
    verdict = await judged(reader, "SELECT * FROM table_changes('shop.person', 0, 2)")
    assert isinstance(verdict, Cleared), verdict
    written = GUARDED.format("'shop.person', 0, 2")
    assert verdict.forwarded == f"SELECT * FROM {written} AS `table_changes`"


async def test_two_calls_are_guarded_each(reader: ReaderPool) -> None:
    text = "SELECT a.id FROM table_changes('shop.person', 0) a, table_changes('shop.person', 1, 2) b"
    verdict = await judged(reader, text)
    assert isinstance(verdict, Cleared), verdict
    assert verdict.forwarded.count("(id = 7)) TABLESAMPLE") == 2


async def test_who_sees_all_is_given_the_text_as_it_is(reader: ReaderPool) -> None:
    for text in (
        "SELECT * FROM table_changes('shop.person', 0)",
        "SELECT id, _commit_version FROM table_changes('SHOP.PERSON', 0, 2) t WHERE _change_type = 'delete'",
        "EXPLAIN SELECT * FROM table_changes('shop.person', 0)",
    ):
        verdict = await judged(reader, text, "ann")
        assert isinstance(verdict, Cleared), verdict
        assert verdict.forwarded == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT pin FROM table_changes('shop.person', 0) WHERE TRUE", ""),
        ("EXPLAIN SELECT * FROM table_changes('shop.person', 0)", "row filter"),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM table_changes('shop.person', 0)", "change feed"),
        ("CACHE TABLE c AS SELECT * FROM table_changes('shop.person', 0)", "change feed"),
        ("SELECT * FROM table_changes('per' || 'son', 0)", ""),
        ("SELECT * FROM table_changes('shop.person')", ""),
        ("SELECT * FROM table_changes(0, 'shop.person')", "plain string"),
        ("SELECT * FROM table_changes('lake.shop.person', 0)", "plain string"),
        ("SELECT _metadata.file_path FROM table_changes('shop.person', 0)", ""),
        ("SELECT `sluice argument feed 0` FROM table_changes('shop.person', 0)", ""),
    ],
)
async def test_nothing_goes_past_the_guard(reader: ReaderPool, text: str, why: str) -> None:
    verdict = await judged(reader, text)
    if text.startswith("SELECT pin"):  # not there, as for every hidden column: Spark says so
        assert isinstance(verdict, Refused) or "`pin`" not in verdict.forwarded.replace("SELECT pin", "")
        return
    assert isinstance(verdict, Refused), verdict
    assert why in verdict.message


async def test_columns_that_have_moved_are_refused_under_obligations(reader: ReaderPool) -> None:
    text = "SELECT * FROM table_changes('shop.person', 0)"
    verdict = await judged(reader, text, unfollowed="columns have moved")
    assert isinstance(verdict, Refused), verdict
    assert "columns have moved" in verdict.message
    assert isinstance(await judged(reader, text, "ann", unfollowed="columns have moved"), Cleared)


async def test_other_tables_have_no_feed(reader: ReaderPool) -> None:
    verdict = await judged(reader, "SELECT * FROM table_changes('shop.person', 0)", provider="parquet")
    assert isinstance(verdict, Refused), verdict
    assert "not a Delta table" in verdict.message
    verdict = await judged(reader, "SELECT * FROM table_changes('shop.nothing', 0)")
    assert isinstance(verdict, Refused), verdict
    assert "TABLE_OR_VIEW_NOT_FOUND" in verdict.message
    assert isinstance(await judged(reader, "SELECT * FROM table_changes('shop.person', 0)", "eve"), Refused)
