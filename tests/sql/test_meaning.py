"""Which texts of policies mean the same under every ANSI mode, and in every time zone."""

from __future__ import annotations

import pytest

from gateway.model.catalog import Column, Table, TableKind, TableName
from gateway.model.meaning_settings import Influence, influence, list_changed_settings
from gateway.model.reading import Reading
from gateway.policy.masks import MASK_TYPES, mask_expression, standard_masks
from gateway.reader.pool import ReaderPool
from gateway.sql.meaning import depends

COLUMNS = {
    "name": "string",
    "code": "varchar(8)",
    "id": "int",
    "big": "bigint",
    "pay": "decimal(10,2)",
    "ok": "boolean",
    "day": "date",
    "until": "timestamp",
    "local": "timestamp_ntz",
    "raw": "binary",
    "tags": "array<string>",
    "moments": "array<timestamp>",
    "address": "struct<city:string>",
}


def table(name: str, columns: dict[str, str]) -> Table:
    return Table(
        name=TableName("spark_catalog", "lab", name),
        kind=TableKind.TABLE,
        columns=tuple(Column(name=column, type=type_) for column, type_ in columns.items()),
    )


GUARDED = table("guarded", COLUMNS)
BLOCKED = table("blocked", {"bid": "int", "who": "string", "since": "timestamp", "id": "int", "ok": "string"})
READ = "spark_catalog.lab.blocked"

YEAR_AND_MONTH = "mask({col}, 'x', 'x', 'x', -1, '1', 1, -1, -1)"
INDEPENDENT = [
    "name = 'EMEA'",
    "guarded.name = 'EMEA' AND id > 5 OR NOT ok",
    "name IN ('a', 'b') AND code LIKE 'x%' AND big BETWEEN -1 AND id",
    "name IS NULL OR day = DATE'2020-01-01'",
    "until > current_timestamp()",
    "until IS NOT NULL",
    "TRUE",
    "name = current_user()",
    "lower(name) = 'x' AND substring(name, 1, 2) || code = 'y'",
    "get_json_object(name, '$.r') = 'EMEA' AND CAST(id AS STRING) <> 'X'",
    "CASE WHEN ok THEN name ELSE NULL END = 'x'",
    "coalesce(name, code, 'none') <> ''",
    "length(name) - 4 > 2 AND year(day) = 2020",
    "regexp_substr(name, '@.*') = reverse(code) AND regexp_count(name, '@') = regexp_instr(name, '@')",
    "octet_length(raw) < bit_length(name) OR crc32(raw) > id OR find_in_set(code, name) > 0",
    f"{mask_expression('X', 'day', 'date', transformer=YEAR_AND_MONTH)} = day",
    "TRY_CAST(name AS INT) = id",
    f"id NOT IN (SELECT bid FROM {READ})",
    f"id IN (SELECT bid FROM {READ} b WHERE b.who = current_user())",
    f"EXISTS (SELECT 1 FROM {READ} WHERE who = name)",
    f"EXISTS (SELECT * FROM {READ} WHERE since < until)",
    "tags = tags",
]
OF_ANSI_MODE = [
    "name = 5",
    "id = '5'",
    "id + 1 > 5",
    "id * big > 5",
    "id IN (1, 'x')",
    "CAST(name AS INT) = 5",
    "CAST(big AS INT) = 5",
    "day > '2020-01-01'",
    "pay > 100",
    "CASE WHEN name THEN TRUE END",
    "coalesce(name, id) = 'x'",
    f"name IN (SELECT bid FROM {READ})",
    f"EXISTS (SELECT 1 FROM {READ} WHERE who = 5)",
]
OF_BOTH = [
    "until > '2020-01-01'",
    "until > TIMESTAMP'2020-01-01 00:00:00'",
    "until > day",
    "until > local",
    "CAST(until AS DATE) = day",
    "CAST(until AS STRING) LIKE '2020%'",
    "TRY_CAST(name AS TIMESTAMP) < until",
    "day < current_date()",
    "day = DATE'today'",
    "hour(until) = 8",
    "to_date(name) = day",
    "date_format(until, 'HH') = '08'",
    "until < current_timestamp() - INTERVAL 1 DAY",
    "current_timezone() = 'UTC'",
    "from_json(name, 'a TIMESTAMP').a = until",
    "element_at(tags, 1) = 'x'",
    "address.city = 'x'",
    "CAST(moments AS STRING) = 'x'",
    "unheard_of(name) = 'x'",
    "lab.f(name) = 'x'",
    f"(SELECT max(since) FROM {READ}) < until",
    # The same name of two types: which one is meant is not followed.
    f"EXISTS (SELECT 1 FROM {READ} WHERE ok = 'x')",
    # What a query gives another name is not the column of that name.
    f"name IN (SELECT name FROM (SELECT bid AS name FROM {READ}) x)",
]


async def found(reader: ReaderPool, text: str) -> frozenset[Influence]:
    reading = await reader.read_expression(text)
    assert isinstance(reading, Reading), reading
    return depends(reading.tree, text, GUARDED, [BLOCKED] if READ in text else [])


@pytest.mark.parametrize("text", INDEPENDENT)
@pytest.mark.asyncio(loop_scope="session")
async def test_means_the_same_under_every_setting(reader: ReaderPool, text: str) -> None:
    assert await found(reader, text) == frozenset()


@pytest.mark.parametrize("text", OF_ANSI_MODE)
@pytest.mark.asyncio(loop_scope="session")
async def test_depends_on_ansi_mode(reader: ReaderPool, text: str) -> None:
    assert Influence.ANSI in await found(reader, text)


@pytest.mark.parametrize("text", OF_ANSI_MODE)
@pytest.mark.asyncio(loop_scope="session")
async def test_a_text_without_instants_and_days_means_the_same_in_every_time_zone(
    reader: ReaderPool, text: str
) -> None:
    assert Influence.TIME_ZONE not in await found(reader, text)


@pytest.mark.parametrize("text", OF_BOTH)
@pytest.mark.asyncio(loop_scope="session")
async def test_depends_on_the_time_zone(reader: ReaderPool, text: str) -> None:
    assert Influence.TIME_ZONE in await found(reader, text)


@pytest.mark.asyncio(loop_scope="session")
async def test_an_expression_that_is_too_large_has_no_tree_and_depends_on_all(reader: ReaderPool) -> None:
    text = " OR ".join(f"id = {n}" for n in range(3000))
    assert await found(reader, text) == {Influence.ANSI, Influence.TIME_ZONE}


@pytest.mark.parametrize("type_", ["string", "varchar(8)", "int", "bigint", "date", "timestamp"])
def test_standard_masks_are_known_by_their_text(type_: str) -> None:
    for kind in MASK_TYPES:
        text = mask_expression(kind, "c", type_)
        assert kind in ("MASK_NONE", "MASK_NULL", "CUSTOM") or text in standard_masks("c", type_)
    assert mask_expression("CUSTOM", "c", type_, custom="upper({col})") not in standard_masks("c", type_)


def test_a_setting_that_is_on_no_list_could_change_anything() -> None:
    assert influence("spark.sql.ansi.enabled") is Influence.ANSI
    assert influence("spark.sql.session.timeZone") is Influence.TIME_ZONE
    assert influence("spark.sql.shuffle.partitions") is Influence.NONE
    assert influence("spark.sql.SHUFFLE.partitions") is Influence.ANYTHING
    assert influence("spark.sql.files.ignoreMissingFiles") is Influence.ANYTHING


def test_what_a_session_has_otherwise_than_spark_is_told() -> None:
    own = {"spark.sql.session.timeZone": "UTC", "spark.app.id": "a", "spark.sql.shuffle.partitions": "4"}
    assert list_changed_settings(own, own) == frozenset()
    now = {**own, "spark.sql.shuffle.partitions": "8", "spark.sql.ansi.enabled": "false"}
    del now["spark.sql.session.timeZone"]
    assert list_changed_settings(now, own) == {"spark.sql.session.timeZone", "spark.sql.ansi.enabled"}
