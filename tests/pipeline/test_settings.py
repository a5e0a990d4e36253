"""A policy's text means what it says, whatever settings its reader's session has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.reading_settings import READING_SETTINGS
from gateway.model.statement import (
    ChangeSetting,
    Cleared,
    PlanRequest,
    Refused,
    ResetSettings,
    SessionContext,
    Statement,
    Verdict,
)
from gateway.reader.pool import ReaderPool
from tests.judge_world import World
from tests.plan.frames import message, sql, table

pytestmark = pytest.mark.asyncio(loop_scope="session")

ANSI = "spark.sql.ansi.enabled"
ZONE = "spark.sql.session.timeZone"
OTHER = "spark.sql.files.ignoreMissingFiles"
BRANCH = "spark.wap.branch"
"""Iceberg's: what a policy says of a row holds in a branch, too; what it finds in another table may not."""

TABLES = ("free", "same", "ansi", "zone", "mapped", "masked", "custom", "custom_zone", "hiding")
DATA: dict[str, Any] = {
    "catalogs": ["spark_catalog"],
    "tables": {
        **{
            f"spark_catalog.lab.{name}": {"id": "int", "own": "string", "at": "timestamp", "day": "date"}
            for name in TABLES
        },
        "spark_catalog.lab.blocked": {"bid": "int", "since": "timestamp"},
    },
    "views": {
        f"spark_catalog.lab.over_{name}": {
            "columns": {"id": "int"},
            "text": f"SELECT id FROM {name}",
            "database": "lab",
            "output": ["id"],
        }
        for name in ("free", "same", "zone")
    },
    "people": {"ann": {"groups": ["staff"]}, "eve": {"groups": []}},
    "pack": """
service: spark
policies:
  - name: everybody reads
    on: {catalog: spark_catalog, database: lab, table: "*", column: "*"}
    allow: [{groups: [staff], access: [select]}]
  - name: a salary is not shown
    on: {catalog: spark_catalog, database: lab, table: hiding, column: day}
    deny: [{groups: [staff], access: [select]}]
  - name: settings
    on: {setting: ["spark.sql.*", "spark.app.*"]}
    allow: [{groups: [staff], access: [set]}]
  - name: same
    on: {catalog: spark_catalog, database: lab, table: same}
    filter: [{groups: [staff], where: "own = 'x' AND at > current_timestamp()"}]
  - name: of ANSI mode
    on: {catalog: spark_catalog, database: lab, table: ansi}
    filter: [{groups: [staff], where: "CAST(own AS INT) = 5"}]
  - name: of the time zone
    on: {catalog: spark_catalog, database: lab, table: zone}
    filter: [{groups: [staff], where: "CAST(at AS DATE) < DATE'2020-01-01'"}]
  - name: mapped
    on: {catalog: spark_catalog, database: lab, table: mapped}
    filter:
      - groups: [staff]
        where: "id NOT IN (SELECT bid FROM spark_catalog.lab.blocked WHERE since < DATE'2020-01-01')"
  - name: a standard mask
    on: {catalog: spark_catalog, database: lab, table: masked, column: id}
    mask: [{groups: [staff], type: MASK_SHOW_LAST_4}]
  - name: a mask of its own
    on: {catalog: spark_catalog, database: lab, table: custom, column: own}
    mask: [{groups: [staff], type: CUSTOM, show: "concat(left({col}, 1), '***')"}]
  - name: a mask that shows the hour
    on: {catalog: spark_catalog, database: lab, table: custom_zone, column: at}
    mask: [{groups: [staff], type: CUSTOM, show: "date_trunc('DAY', {col})"}]
""",
}


@pytest.fixture(scope="module")
def world() -> World:
    return World(DATA)


async def judged(
    world: World, reader: ReaderPool, text: str, *settings: str, user: str = "ann", **context: Any
) -> Verdict:
    session = SessionContext(namespace=("lab",), settings=frozenset(settings), **context)
    statement = Statement(text=text, principal=world.principal(user), context=session)
    return await world.judge_statement(statement, reader)


def ways(name: str) -> list[str]:
    return [
        f"SELECT * FROM {name}",
        f"SELECT count(*) FROM (SELECT id FROM {name}) x JOIN free ON x.id = free.id",
        f"CREATE TEMP VIEW v AS SELECT id FROM {name}",
    ]


REFUSED = [
    ("ansi", ANSI),
    ("ansi", OTHER),
    ("zone", ZONE),
    ("zone", OTHER),
    ("over_zone", ZONE),
    ("mapped", ZONE),
    ("same", OTHER),
    ("masked", OTHER),
    ("custom_zone", ZONE),
    ("mapped", BRANCH),
]
PASSING = [
    ("same", ANSI),
    ("same", ZONE),
    ("over_same", ZONE),
    ("zone", "spark.sql.shuffle.partitions"),
    ("ansi", ZONE),
    ("masked", ANSI),
    ("masked", ZONE),
    ("custom", ANSI),
    ("custom", ZONE),
    ("free", OTHER),
    ("over_free", OTHER),
    *((name, BRANCH) for name in ("same", "ansi", "zone", "masked", "custom", "over_same")),
]


@pytest.mark.parametrize(("name", "key"), REFUSED)
async def test_a_text_that_could_mean_something_else_refuses_its_table(
    world: World, reader: ReaderPool, name: str, key: str
) -> None:
    for text in ways(name):
        verdict = await judged(world, reader, text, key)
        assert isinstance(verdict, Refused), text
        assert verdict.code == "NOT_GOVERNABLE"
        assert f"under this session's `{key}`; run RESET {key}" in verdict.message
    assert isinstance(await judged(world, reader, f"SELECT id FROM {name}"), Cleared)


@pytest.mark.parametrize(("name", "key"), PASSING)
async def test_a_text_that_means_the_same_everywhere_goes_on_working(
    world: World, reader: ReaderPool, name: str, key: str
) -> None:
    settings = () if key == "spark.sql.shuffle.partitions" else (key,)
    for text in ways(name):
        verdict = await judged(world, reader, text, *settings)
        assert isinstance(verdict, Cleared), (text, verdict)


async def test_plans_and_the_texts_in_them_are_held_to_it(world: World, reader: ReaderPool) -> None:
    for plan in (message(table("lab.zone")), message(sql("SELECT id FROM lab.zone"))):
        request = PlanRequest(kind="execute", message=plan.SerializeToString())
        for settings in (frozenset[str](), frozenset({ANSI}), frozenset({ZONE})):
            verdict = await world.judge_plan(request, reader, user="ann", settings=settings)
            refused = settings == {ZONE}
            assert isinstance(verdict, Refused if refused else Cleared), verdict


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("SET TIME ZONE 'Asia/Tokyo'", ChangeSetting(ZONE, "Asia/Tokyo")),
        ("SET TIME ZONE INTERVAL 9 HOURS", ChangeSetting(ZONE, "+09:00")),
        ("SET TIME ZONE LOCAL", ...),
        (f"SET {ZONE} = Asia/Tokyo", ChangeSetting(ZONE, "Asia/Tokyo")),
        (f"SET `{ZONE}` = `Asia/Tokyo`", ChangeSetting(ZONE, "Asia/Tokyo")),
        (f"SET {ANSI}=false", ChangeSetting(ANSI, "false")),
        (f"RESET {ANSI}", ChangeSetting(ANSI, None)),
        (f"SET {OTHER}=true", ChangeSetting(OTHER, "true")),
        (f"SET {ZONE}", None),
        ("SET spark.sql.shuffle.partitions=4", ChangeSetting("spark.sql.shuffle.partitions", "4")),
        ("SET mapred.reduce.tasks=4", ChangeSetting("spark.sql.shuffle.partitions", "4")),
        ("SET mapreduce.job.reduces=4", ChangeSetting("spark.sql.shuffle.partitions", "4")),
        ("RESET spark.sql.shuffle.partitions", ChangeSetting("spark.sql.shuffle.partitions", None)),
        ("SET spark.sql.caseSensitive", None),
        ("SET spark.sql.caseSensitive=false", None),
        ("RESET", ResetSettings()),
        ("EXPLAIN RESET", None),
    ],
)
async def test_what_a_statement_changes_is_known_to_the_session(
    world: World, reader: ReaderPool, text: str, effect: Any
) -> None:
    verdict = await judged(world, reader, text)
    assert isinstance(verdict, Cleared), verdict
    if effect is ...:
        assert [type(one) for one in verdict.effects] == [ChangeSetting]
    else:
        assert verdict.effects == (() if effect is None else (effect,))


async def test_nobody_sets_what_shapes_reading_whatever_a_policy_says(
    world: World, reader: ReaderPool
) -> None:
    legacy = ("spark.sql.legacy.useV1Command", "spark.sql.optimizer.excludedRules")
    for key in (*READING_SETTINGS, *legacy):
        for text in (f"SET {key}=x", f"RESET {key}"):
            assert isinstance(await judged(world, reader, text), Refused), text


@pytest.mark.parametrize("text", ["RESET", " reset ;", "/* all */ RESET"])
async def test_reset_without_a_key_leaves_what_is_pinned(world: World, reader: ReaderPool, text: str) -> None:
    verdict = await judged(world, reader, text)
    assert isinstance(verdict, Cleared), verdict
    assert verdict.forwarded == "RESET `spark.sluice.nothing`"
    assert verdict.effects == (ResetSettings(),)


async def test_a_reset_of_the_gateways_own_never_takes_what_is_pinned(
    world: World, reader: ReaderPool
) -> None:
    statement = Statement(text="", principal=world.principal("ann"), context=SessionContext())
    verdict = await world.judge_statement(replace(statement, resets=ZONE), reader)
    assert isinstance(verdict, Cleared)
    assert verdict.forwarded == f"RESET `{ZONE}`"
    assert verdict.effects == (ChangeSetting(ZONE, None),)
    for key in READING_SETTINGS:
        assert isinstance(await world.judge_statement(replace(statement, resets=key), reader), Refused), key


async def test_settings_are_read_by_the_rules_of_config(world: World, reader: ReaderPool) -> None:
    for key in (*READING_SETTINGS, ZONE, "spark.sql.execution.arrow.maxRecordsPerBatch"):
        assert isinstance(await judged(world, reader, f"SET {key}", user="eve"), Cleared), key
    for key in (OTHER, "spark.sql.legacy.timeParserPolicy"):
        assert isinstance(await judged(world, reader, f"SET {key}"), Cleared), key
        denied = await judged(world, reader, f"SET {key}", user="eve")
        assert isinstance(denied, Refused)
        assert denied.code == "ACCESS_DENIED"
    for key in ("spark.hadoop.fs.s3a.secret.key", "spark.connect.authenticate.token"):
        hidden = await judged(world, reader, f"SET {key}")
        assert isinstance(hidden, Refused)
        assert "may be a secret" in hidden.message
