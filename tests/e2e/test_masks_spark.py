"""Every mask on every type of column, run on a real Spark with ANSI mode on and off."""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.policy.masks import MASK_TYPES, mask_expression
from gateway.policy.sqltext import write_string_literal
from gateway.policy.transformers import KEEP, Masking, hive_masking
from tests.e2e.one_pack import ENDPOINTS, PASSWORD, session, write_settings
from tests.e2e.running import RunningGateway, Spark

pytestmark = pytest.mark.in_turn(2)

PAGE = Path(__file__).parents[2] / "docs" / "masks.md"
ANSI = ("true", "false")
SHOWN = tuple(mask for mask in MASK_TYPES if mask not in ("MASK_NONE", "CUSTOM"))

TEXTS = (
    "",
    "a",
    "abcd",
    "abcde",
    "Ann-42é É٣",
    " \t\n'\"\\`;--",
    "x😀y𝐀z",
    "中文字符集合",
    "ǅungla",
    "a\u0301b\u0000c",
    "x" * 5000,
)
INTEGERS = {
    "tinyint": (-128, -1, 0, 7, 127),
    "smallint": (-32768, -9999, 0, 12345, 32767),
    "int": (-(2**31), -10000, 0, 999, 2**31 - 1),
    "bigint": (-(2**63), -1234567890123456789, 0, 5, 10**18, 2**63 - 1),
}
DATES = ("0001-01-01", "1969-12-31", "2020-02-29", "9999-12-31")

UNUSUAL_TYPES = (
    "timestamp_ltz",
    "interval year",
    "interval day to hour",
    "array<struct<`a b`:int,c:map<string,decimal(3,1)>>>",
    "struct<`x>) AS y`:int>",
    "string collate UNICODE_CI",
    "decimal(38,38)",
    "char(1)",
    "char(200)",
    "varchar(1)",
    "varchar(100000)",
)


def masked(mask_type: str, data_type: str, column: str = "c") -> str:
    expression = mask_expression(mask_type, column, data_type)
    assert expression is not None
    return expression


def table_of_the_page() -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the page's table, backticks removed."""
    section = PAGE.read_text(encoding="utf-8").split("## Result by type")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip().strip("`") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return rows[0], rows[2:]


def test_the_page_has_every_mask_and_type() -> None:
    header, rows = table_of_the_page()
    assert header[:2] == ["type", "value"]
    assert sorted(header[2:]) == sorted(SHOWN)
    types = {re.split("[(<]", row[0])[0] for row in rows}
    assert types >= {
        *("string", "char", "varchar", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
        *("boolean", "date", "timestamp", "timestamp_ntz", "binary", "array", "map", "struct", "variant"),
        *("interval year to month", "interval day to second", "void"),
    }


@pytest.mark.parametrize("ansi", ANSI)
def test_every_cell_of_the_page(spark: Spark, ansi: str) -> None:
    header, rows = table_of_the_page()
    cells = [
        (data_type, value, mask, cell)
        for data_type, value, *shown in rows
        for mask, cell in zip(header[2:], shown, strict=True)
    ]
    columns = [
        f"(SELECT CAST({masked(mask, data_type)} AS STRING) FROM (SELECT CAST({value} AS {data_type}) AS c))"
        for data_type, value, mask, _ in cells
    ]
    got: list[str | None] = []
    for start in range(0, len(columns), 40):
        sql = "SELECT " + ", ".join(columns[start : start + 40])
        got += spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)[0]
    for (data_type, value, mask, cell), answer in zip(cells, got, strict=True):
        shown = "NULL" if answer is None else re.sub(r"([0-9a-f]{8})[0-9a-f]{56}", r"\1…", answer)
        assert shown.rstrip() == cell, (data_type, value, mask)


@pytest.mark.parametrize("ansi", ANSI)
def test_a_mask_keeps_the_type_and_null(spark: Spark, ansi: str) -> None:
    types = [row[0] for row in table_of_the_page()[1]] + list(UNUSUAL_TYPES)
    for data_type in types:
        checks = [
            f"typeof({masked(m, data_type)}) = typeof(c) AND ({masked(m, data_type)}) IS NULL" for m in SHOWN
        ]
        sql = f"SELECT {', '.join(checks)} FROM (SELECT CAST(NULL AS {data_type}) AS c)"
        (answer,) = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
        assert all(answer), (data_type, dict(zip(SHOWN, answer, strict=True)))


def hive_character(character: str, upper: str, lower: str, digit: str) -> str:
    return {"Lu": upper, "Ll": lower, "Nd": digit}.get(unicodedata.category(character), character)


def hive_text(mask: str, text: str) -> str:
    """What Hive shows, with whole characters where it counts UTF-16 units."""
    crossed = "".join(hive_character(c, "x", "x", "x") for c in text)
    if mask == "MASK":
        return "".join(hive_character(c, "X", "x", "n") for c in text)
    if mask == "MASK_SHOW_LAST_4":
        return text if len(text) <= 4 else crossed[:-4] + text[-4:]
    if mask == "MASK_SHOW_FIRST_4":
        return text[:4] + crossed[4:]
    return crossed


def hive_integer(mask: str, value: int) -> int:
    digits = str(abs(value))
    if mask == "MASK_SHOW_LAST_4":
        digits = "1" * len(digits[:-4]) + digits[-4:]
    elif mask == "MASK_SHOW_FIRST_4":
        digits = digits[:4] + "1" * len(digits[4:])
    else:
        digits = "1" * len(digits)
    return -int(digits) if value < 0 else int(digits)


@pytest.mark.parametrize("ansi", ANSI)
@pytest.mark.parametrize("data_type", ["string", "varchar(6000)"])
def test_texts_of_every_kind(spark: Spark, ansi: str, data_type: str) -> None:
    masks = ("MASK", "MASK_SHOW_LAST_4", "MASK_SHOW_FIRST_4", "MASK_DATE_SHOW_YEAR")
    values = ", ".join(f"({i}, CAST(X'{t.encode().hex()}' AS STRING))" for i, t in enumerate(TEXTS))
    columns = ", ".join(f"hex({masked(m, data_type)}), length(c)" for m in masks)
    sql = f"SELECT {columns} FROM VALUES {values} AS v(i, c) ORDER BY i"
    rows = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    for text, row in zip(TEXTS, rows, strict=True):
        for mask, shown in zip(masks, row[::2], strict=True):
            assert bytes.fromhex(shown).decode() == hive_text(mask, text), (mask, text[:40])


@pytest.mark.parametrize("ansi", ANSI)
@pytest.mark.parametrize("data_type", INTEGERS)
def test_integers_to_the_very_ends(spark: Spark, ansi: str, data_type: str) -> None:
    masks = ("MASK", "MASK_SHOW_LAST_4", "MASK_SHOW_FIRST_4", "MASK_DATE_SHOW_YEAR")
    values = ", ".join(f"({i}, CAST('{v}' AS {data_type}))" for i, v in enumerate(INTEGERS[data_type]))
    columns = ", ".join(masked(m, data_type) for m in masks)
    sql = f"SELECT {columns} FROM VALUES {values} AS v(i, c) ORDER BY i"
    rows = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    for value, row in zip(INTEGERS[data_type], rows, strict=True):
        assert list(row) == [hive_integer(m, value) for m in masks], value


@pytest.mark.parametrize("ansi", ANSI)
def test_dates_to_the_very_ends(spark: Spark, ansi: str) -> None:
    year, hidden = masked("MASK_DATE_SHOW_YEAR", "date"), masked("MASK", "date")
    days = [f"DATE'{d}'" for d in DATES] + [
        "date_from_unix_date(-2147483648)",
        "date_from_unix_date(2147483647)",
    ]
    values = ", ".join(f"({i}, {day})" for i, day in enumerate(days))
    sql = (
        f"SELECT CAST({year} AS STRING), CAST({hidden} AS STRING) FROM VALUES {values} AS v(i, c) ORDER BY i"
    )
    rows = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    firsts = [str(datetime.date.fromisoformat(d).replace(month=1, day=1)) for d in DATES]
    assert [row[0] for row in rows] == [*firsts, None, "+5881580-01-01"]
    assert {row[1] for row in rows} == {"1900-01-01"}


TRANSFORMERS = (
    "mask({col}, '*', '-', '#', '.')",
    "mask({col}, -1, 'l', -1, 'o', '0')",
    "mask({col}, 'X', 'x', 'n', -1, '9', -1, 1, 1987)",
    "mask({col}, 'X', 'x', 'n', -1, '1', 15, -1, -1)",
    "mask({col}, 'x', 'x', 'x', -1, '1', 1, -1, -1)",
    "mask({col}, 'X', 'x', 'n', -1, '1', -1, 1, -1)",
    "mask({col}, 'X', 'x', 'n', -1, '1', -1, -1, 2023)",
    "mask_show_last_n({col}, 0)",
    "mask_show_last_n({col}, 2, 'U', 'l', 'd', -1, '7')",
    "mask_show_first_n({col}, 0)",
    "mask_show_first_n({col}, 1, 'U', 'l', 'd', '_', '0')",
    "mask_first_n({col}, 0)",
    "mask_first_n({col}, 3)",
    "mask_first_n({col}, 1000, '*', '*', '*', '*')",
    "mask_last_n({col}, 0)",
    "mask_last_n({col}, 3, 'U', 'l', 'd', -1, '2')",
    "mask_last_n({col}, 12)",
    "cast(mask_last_n({col}, 1000) as {type})",
)


def transformed(text: str, data_type: str, column: str = "c") -> str:
    expression = mask_expression("ITS_OWN", column, data_type, transformer=text)
    assert expression is not None
    return expression


def masking_of(text: str) -> Masking:
    masking = hive_masking(text)
    assert masking is not None
    return masking


def masked_places(masking: Masking, length: int) -> range:
    """Return which characters of a text, or digits of a number, a function replaces."""
    n = min(masking.characters, length)
    return {
        "mask": range(length),
        "mask_first_n": range(n),
        "mask_last_n": range(length - n, length),
        "mask_show_first_n": range(n, length),
        "mask_show_last_n": range(length - n),
    }[masking.function]


def by_hive(masking: Masking, text: str) -> str:
    kinds = {"Lu": masking.upper, "Ll": masking.lower, "Nd": masking.digit}
    places = masked_places(masking, len(text))
    shown = []
    for place, character in enumerate(text):
        put = kinds.get(unicodedata.category(character), masking.other)
        shown.append(put if put is not None and place in places else character)
    return "".join(shown)


@pytest.mark.parametrize("ansi", ANSI)
def test_texts_under_transformers_with_arguments(spark: Spark, ansi: str) -> None:
    values = ", ".join(f"({i}, CAST(X'{t.encode().hex()}' AS STRING))" for i, t in enumerate(TEXTS))
    columns = ", ".join(f"hex({transformed(t, 'string')})" for t in TRANSFORMERS)
    sql = f"SELECT {columns} FROM VALUES {values} AS v(i, c) ORDER BY i"
    rows = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    for text, row in zip(TEXTS, rows, strict=True):
        for transformer, shown in zip(TRANSFORMERS, row, strict=True):
            assert bytes.fromhex(shown).decode() == by_hive(masking_of(transformer), text), transformer


@pytest.mark.parametrize("ansi", ANSI)
@pytest.mark.parametrize("data_type", INTEGERS)
def test_integers_under_transformers_with_arguments(spark: Spark, ansi: str, data_type: str) -> None:
    more = (9223372000000000000,) if data_type == "bigint" else (100,)
    numbers = (*INTEGERS[data_type], *more)
    values = ", ".join(f"({i}, CAST('{v}' AS {data_type}))" for i, v in enumerate(numbers))
    columns = ", ".join(transformed(t, data_type) for t in TRANSFORMERS)
    sql = f"SELECT {columns} FROM VALUES {values} AS v(i, c) ORDER BY i"
    rows = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    low, high = min(INTEGERS[data_type]), max(INTEGERS[data_type])
    for value, row in zip(numbers, rows, strict=True):
        for transformer, shown in zip(TRANSFORMERS, row, strict=True):
            masking, digits = masking_of(transformer), str(abs(value))
            places = masked_places(masking, len(digits))
            put = "".join(str(masking.number) if i in places else d for i, d in enumerate(digits))
            expected = -int(put) if value < 0 else int(put)
            # What does not fit the type any more is NULL; Hive's result wraps round.
            assert shown == (expected if low <= expected <= high else None), (transformer, value)


@pytest.mark.parametrize("ansi", ANSI)
def test_dates_under_transformers_with_arguments(spark: Spark, ansi: str) -> None:
    days = [datetime.date.fromisoformat(d) for d in (*DATES, "2021-03-31", "2000-12-30")]
    literals = [f"DATE'{d}'" for d in days]
    extremes = ["date_from_unix_date(-2147483648)", "date_from_unix_date(2147483647)"]
    values = ", ".join(f"({i}, {day})" for i, day in enumerate([*literals, *extremes]))
    columns = ", ".join(f"CAST({transformed(t, 'date')} AS STRING)" for t in TRANSFORMERS)
    sql = f"SELECT {columns} FROM VALUES {values} AS v(i, c) ORDER BY i"
    rows = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    for day, row in zip(days, rows, strict=False):
        for transformer, shown in zip(TRANSFORMERS, row, strict=True):
            assert shown == str(date_by_hive(masking_of(transformer), day)), (transformer, day)


def date_by_hive(masking: Masking, day: datetime.date) -> datetime.date:
    """What Hive shows, with 1900 for its year 0 and the month's last day for one that the month lacks."""
    year = day.year if masking.year == KEEP else masking.year or 1900
    month = day.month if masking.month == KEEP else masking.month + 1
    wanted = day.day if masking.day == KEEP else masking.day
    longest = (28, 30, 31)[(month != 2) + (month not in (2, 4, 6, 9, 11))]
    return datetime.date(year, month, min(wanted, longest))


@pytest.mark.parametrize("ansi", ANSI)
def test_transformers_keep_every_type_and_null(spark: Spark, ansi: str) -> None:
    types = [row[0] for row in table_of_the_page()[1]] + list(UNUSUAL_TYPES)
    texts = (*TRANSFORMERS, "mask_hash({col})", "NULL", "{col}", "CAST({col} AS {type})")
    for data_type in types:
        shown = [transformed(t, data_type) for t in texts]
        checks = [f"typeof({s}) = typeof(c) AND ({s}) IS NULL" for s in shown]
        sql = f"SELECT {', '.join(checks)} FROM (SELECT CAST(NULL AS {data_type}) AS c)"
        (answer,) = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
        assert all(answer), (data_type, dict(zip(texts, answer, strict=True)))


@pytest.mark.parametrize("ansi", ANSI)
def test_transformers_of_ordinary_sql(spark: Spark, ansi: str) -> None:
    cases = {
        ("substring({col}, 1, 2)", "string"): "Va",
        ("concat(left({col}, 1), '***')", "string"): "V***",
        ("CAST({col} AS {type})", "string"): "Value",
        ("'nonsense'", "int"): None,
        ("NULL", "string"): None,
    }
    shown = [transformed(text, data_type) for text, data_type in cases]
    sql = "SELECT " + ", ".join(f"CAST({s} AS STRING)" for s in shown) + " FROM (SELECT 'Value' AS c)"
    (row,) = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    assert list(row) == list(cases.values())


@pytest.mark.parametrize("ansi", ANSI)
def test_a_hash_fits_the_column(spark: Spark, ansi: str) -> None:
    sizes = {
        "varchar(10)": 10,
        "varchar(64)": 64,
        "varchar(90)": 64,
        "char(3)": 3,
        "char(70)": 70,
        "string": 64,
    }
    columns = ", ".join(f"length({masked('MASK_HASH', data_type)})" for data_type in sizes)
    sql = f"SELECT {columns} FROM (SELECT 'x' AS c)"
    assert list(spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)[0]) == list(sizes.values())


@pytest.mark.parametrize("ansi", ANSI)
def test_a_custom_mask_that_does_not_fit_is_null(spark: Spark, ansi: str) -> None:
    cases = {
        ("left({col}, 1) || '***'", "string"): "V***",
        ("'nonsense'", "int"): None,
        ("'200'", "tinyint"): None,
        ("{col}", "string"): "Value",
        ("concat('a', {type_text})", "string"): None,
        (None, "string"): None,
        ("   ", "string"): None,
    }
    shown = []
    for text, data_type in cases:
        text = text.replace("{type_text}", "{USER.none}") if text else text
        shown.append(mask_expression("CUSTOM", "c", data_type, custom=text))
    sql = "SELECT " + ", ".join(f"CAST({s} AS STRING)" for s in shown) + " FROM (SELECT 'Value' AS c)"
    (row,) = spark.query(f"SET spark.sql.ansi.enabled={ansi}", sql)
    assert list(row) == list(cases.values())


def test_a_session_cannot_put_its_own_functions_in_place_of_ours(spark: Spark) -> None:
    """The plain names are taken over here to show that the attack is real; the masks do not budge."""
    names = ("sha2", "mask", "length", "regexp_replace", "trunc", "rpad", "make_date", "year", "month", "day")
    first_argument = "org.apache.hadoop.hive.ql.udf.generic.GenericUDFCoalesce"
    takeover = [f"CREATE OR REPLACE TEMPORARY FUNCTION {n} AS '{first_argument}'" for n in names]
    columns = [
        "sha2(c, c)",
        "mask(c)",
        *(masked(m, "string") for m in ("MASK", "MASK_HASH", "MASK_SHOW_LAST_4")),
    ]
    columns.append(masked("MASK_SHOW_LAST_4", "int", "n"))
    columns.append(transformed("mask({col}, 'X', 'x', 'n', -1, '1', 15, -1, -1)", "date", "d"))
    sql = f"SELECT {', '.join(columns)} FROM (SELECT 'Secret' AS c, 12345678 AS n, DATE'1987-06-05' AS d)"
    settings = "SET spark.sql.functionResolution.sessionOrder=first"
    (row,) = spark.query(settings, *takeover, sql)
    assert row[:2] == ("Secret", "Secret")
    assert row[2] == "Xxxxxx"
    assert re.fullmatch("[0-9a-f]{64}", row[3])
    assert row[4:] == ("xxcret", 11115678, "1987-06-15")


@pytest.mark.parametrize("escaped", ["true", "false"])
def test_bound_values_are_what_they_were(spark: Spark, escaped: str) -> None:
    """User names that would break out of a literal, under both readings of backslashes."""
    values = [
        "bob",
        "o'neill",
        "a\\",
        "\\' OR 1=1 --",
        "x''y",
        '"',
        "日本\U0001f600",
        "a\nb",
        "",
        "${x}",
        "' ' '",
    ]
    literals = [write_string_literal(value) for value in values]
    sql = "SELECT " + ", ".join(f"hex({literal})" for literal in literals)
    (row,) = spark.query(f"SET spark.sql.parser.escapedStringLiterals={escaped}", sql)
    assert [bytes.fromhex(h).decode() for h in row] == values


LITERALS = """
service: spark
policies:
  - name: everybody reads
    on: {catalog: spark_catalog, database: marked, table: "*", column: "*"}
    allow: [{users: [ann], access: [select]}]
  - name: names are stars
    on: {catalog: spark_catalog, database: marked, table: people, column: name}
    mask: [{users: [ann], type: CUSTOM, show: "'***'"}]
  - name: pay is nothing
    on: {catalog: spark_catalog, database: marked, table: people, column: pay}
    mask: [{users: [ann], type: CUSTOM, show: "0"}]
  - name: days are one
    on: {catalog: spark_catalog, database: marked, table: people, column: born}
    mask: [{users: [ann], type: CUSTOM, show: "DATE'2000-01-01'"}]
"""
PEOPLE = "(1, 'Liam', 10, DATE'1990-05-06'), (2, NULL, NULL, NULL) AS t(id, name, pay, born)"


@pytest.fixture(scope="module")
def literals(spark: Spark, open_directory: Path) -> Iterator[RunningGateway]:
    spark.query(
        "CREATE DATABASE marked",
        f"CREATE TABLE marked.people USING parquet AS SELECT * FROM VALUES {PEOPLE}",
        user="loader",
    )
    running = RunningGateway(write_settings(open_directory / "marked", spark, LITERALS, {"ann": ()})).start()
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_a_literal_stands_in_every_row(literals: RunningGateway, endpoint: str) -> None:
    day = datetime.date(2000, 1, 1) if endpoint == "connect" else "2000-01-01"
    with session(literals, endpoint, "ann") as ask:
        assert ask("SELECT * FROM marked.people") == [(1, "***", 0, day), (2, "***", 0, day)]
        assert ask("SELECT count(*) FROM marked.people WHERE name IS NULL OR pay IS NULL") == [(0,)]
        joined = (
            "SELECT l.id, r.name FROM marked.people l LEFT JOIN marked.people r ON l.id = r.id AND r.id = 1"
        )
        assert ask(f"SELECT count(*) FROM ({joined}) WHERE name IS NULL") == [(1,)]


def test_a_literal_leaves_a_column_as_nullable_as_it_was(spark: Spark, literals: RunningGateway) -> None:
    """Over Thrift nobody is told of nullability; over Spark Connect a schema has it."""
    text = "SELECT name, pay, born, id FROM marked.people"
    with spark.session() as direct:
        plain, columns = direct.table("marked.people").schema, direct.sql(text).schema
    assert all(field.nullable for field in plain)
    with literals.session("ann", PASSWORD) as masked_session:
        assert masked_session.table("marked.people").schema == plain
        assert masked_session.sql(text).schema == columns
        assert masked_session.table("marked.people").filter("id = 1").schema == plain
