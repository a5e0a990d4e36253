"""What catalogs restrict, run on a real Spark: every action, byte for byte, as a reader of its own has it."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from gateway.model.restrictions import SALT_MARK
from gateway.policy.restrictions import restrict_view
from tests.e2e.running import Spark
from tests.effort import EFFORT, tries
from tests.policy.reference_reader import holds, shown
from tests.policy.restricted_tables import OPEN, SALT, answer, schema, table

pytestmark = pytest.mark.in_turn(2)

BYTES = bytes.fromhex(SALT)
ANSI = ("true", "false")
AT_ONCE = 500
"""Values of one statement."""
VALUES = 10_000 if EFFORT >= 20 else tries(150)
"""Values of each type."""
ZONES = ("America/New_York", "Pacific/Apia")
ALPHABET = "aZ09 (),.-@_:/+'\"\\\n\t\0é٣中😀𝐀ǅ\u0301"
ACTIONS: dict[str, tuple[str, ...]] = {
    "string": (
        *("mask-alphanum", "show-first-4", "show-last-4", "replace-with-null", "mask-to-fixed-value"),
        *("sha-256-global", "sha-256-query-local"),
    ),
    "int": ("sha-256-global", "sha-256-query-local", "mask-to-fixed-value", "replace-with-null"),
    "long": ("sha-256-global", "sha-256-query-local", "mask-to-fixed-value"),
    "binary": ("sha-256-global", "sha-256-query-local", "mask-to-fixed-value"),
    "date": ("truncate-to-year", "truncate-to-month", "mask-to-fixed-value"),
    "timestamp": ("truncate-to-year", "truncate-to-month", "mask-to-fixed-value"),
    "timestamptz": ("truncate-to-year", "truncate-to-month", "mask-to-fixed-value"),
    "boolean": ("mask-to-fixed-value", "replace-with-null"),
    "float": ("mask-to-fixed-value",),
    "double": ("mask-to-fixed-value",),
    "decimal(9,2)": ("mask-to-fixed-value",),
    "fixed[3]": ("mask-to-fixed-value",),
    "uuid": ("mask-to-fixed-value",),
}


def some_value(random: Random, kind: str) -> Any:
    """A value of a type: edges more often than others."""
    if random.random() < 0.05:
        return None
    match kind:
        case "string":
            return "".join(random.choices(ALPHABET, k=random.choice((0, 1, 3, 4, 5, 9, 40))))
        case "int":
            return random.choice((0, -1, 2**31 - 1, -(2**31), random.getrandbits(32) - 2**31))
        case "long":
            return random.choice((0, -1, 2**63 - 1, -(2**63), random.getrandbits(64) - 2**63))
        case "binary" | "fixed[3]":
            return random.randbytes(3 if kind != "binary" else random.choice((0, 1, 17)))
        case "date":
            return datetime.date.fromordinal(random.randrange(1, datetime.date.max.toordinal()))
        case "timestamp" | "timestamptz":
            day = datetime.datetime(1, 1, 2, tzinfo=datetime.UTC)
            near = random.choice((0, 1, -1)) * random.randrange(1, 10**11)
            first = datetime.datetime(
                random.randrange(2, 9998), random.randrange(1, 13), 1, tzinfo=datetime.UTC
            )
            found = max(day, first + datetime.timedelta(microseconds=near))
            return found if kind == "timestamptz" else found.replace(tzinfo=None)
        case "boolean":
            return random.random() < 0.5
        case "decimal(9,2)":
            return Decimal(random.randrange(-(10**9) + 1, 10**9)).scaleb(-2)
        case "uuid":
            return f"{random.getrandbits(32):08x}-0000-4000-8000-{random.getrandbits(48):012x}"
    return random.choice((0.0, -1.5, math.inf, math.nan, random.uniform(-9, 9)))


def literal(kind: str, value: Any) -> str:
    """A value as Spark SQL, without a sign that a setting could read otherwise."""
    spark = {"int": "INT", "long": "BIGINT", "boolean": "BOOLEAN", "timestamp": "TIMESTAMP_NTZ"}.get(kind)
    if value is None:
        made = {"timestamptz": "TIMESTAMP_LTZ", "uuid": "STRING", "fixed[3]": "BINARY"}
        return f"CAST(NULL AS {spark or made.get(kind, kind.upper())})"
    match kind:
        case "string" | "uuid":
            return f"CAST(X'{value.encode().hex()}' AS STRING)"
        case "binary" | "fixed[3]":
            return f"X'{value.hex()}'"
        case "date":
            return f"DATE'{value.isoformat()}'"
        case "timestamp":
            return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ')}'"
        case "timestamptz":
            return f"TIMESTAMP_LTZ'{value.isoformat(sep=' ')}'"
    return f"CAST('{value}' AS {spark or kind.upper()})"


def told(kind: str, text: str) -> str:
    """An expression as a text that says all of its value."""
    match kind:
        case "string" | "binary" | "fixed[3]" | "uuid":
            return f"hex(CAST({text} AS BINARY))"
        case "timestamptz":
            return f"CAST(unix_micros({text}) AS STRING)"
    return f"CAST({text} AS STRING)"


def as_told(kind: str, value: Any) -> str | None:
    if value is None:
        return None
    match kind:
        case "string" | "uuid":
            return str(value).encode().hex().upper()
        case "binary" | "fixed[3]":
            return bytes(value).hex().upper()
        case "timestamptz":
            since = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
            return str(since // datetime.timedelta(microseconds=1))
        case "timestamp":
            return str(value.isoformat(sep=" "))
        case "boolean":
            return str(value).lower()
        case "float" | "double" if not math.isfinite(value):
            return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    return str(value)


def mask_of(kind: Any, action: str, ident: int = 1) -> str:
    view = restrict_view(OPEN, table(answer(schema({"c": kind}), columns={ident: action})), bare=True)
    assert not view.closed, view.closed
    return view.masks["c"].expression


@pytest.mark.parametrize("ansi", ANSI)
def test_every_action_shows_what_the_reference_reader_shows(spark: Spark, ansi: str) -> None:
    """By day some hundred values of each type, by night 10,000."""
    random = Random(41)
    for number, (kind, actions) in enumerate(ACTIONS.items()):
        columns = ", ".join(told(kind, mask_of(kind, action)) for action in actions)
        settings = (
            f"SET spark.sql.ansi.enabled={ansi}",
            f"SET spark.sql.session.timeZone={ZONES[number % len(ZONES)]}",
        )
        values = [some_value(random, kind) for _ in range(VALUES)]
        for start in range(0, len(values), AT_ONCE):
            some = values[start : start + AT_ONCE]
            rows = ", ".join(f"({place}, {literal(kind, value)})" for place, value in enumerate(some))
            sql = f"SELECT i, {columns} FROM VALUES {rows} AS t(i, c) ORDER BY i"
            for (place, *cells), value in zip(spark.query(*settings, sql), some, strict=True):
                wanted = [as_told(kind, shown(action, kind, value, BYTES)) for action in actions]
                assert cells == wanted, (kind, place, value, actions)


@pytest.mark.parametrize("ansi", ANSI)
def test_the_ends_of_time_are_no_errors_and_types_stay(spark: Spark, ansi: str) -> None:
    ends: dict[str, tuple[str, ...]] = {
        "date": ("date_from_unix_date(-2147483648)", "date_from_unix_date(2147483647)"),
        "timestamptz": ("timestamp_micros(-9223372036854775808)", "timestamp_micros(9223372036854775807)"),
    }
    ends["timestamp"] = tuple(f"CAST({one} AS TIMESTAMP_NTZ)" for one in ends["timestamptz"])
    for kind, values in ends.items():
        masks = [mask_of(kind, f"truncate-to-{unit}") for unit in ("year", "month")]
        checks = [f"coalesce({one} <= c, TRUE) AND typeof({one}) = typeof(c)" for one in masks]
        for value in values:
            sql = f"SELECT {', '.join(checks)} FROM (SELECT {value} AS c)"
            (found,) = spark.query(
                f"SET spark.sql.ansi.enabled={ansi}", "SET spark.sql.session.timeZone=UTC", sql
            )
            assert all(found), (kind, value)
    for kind, actions in ACTIONS.items():
        spark_null = literal(kind, None)
        checks = [f"typeof({mask_of(kind, action)}) = typeof(c)" for action in actions]
        (found,) = spark.query(f"SELECT {', '.join(checks)} FROM (SELECT {spark_null} AS c)")
        assert all(found), kind


NESTED = {
    "type": "struct",
    "fields": [
        {"id": 2, "name": "a b", "type": "string", "required": False},
        {
            "id": 3,
            "name": "l",
            "required": False,
            "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False},
        },
        {
            "id": 5,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 6,
                "key": "string",
                "value-id": 7,
                "value": "string",
                "value-required": False,
            },
        },
    ],
}


def test_fields_elements_and_values_of_maps_are_masked_in_their_places(spark: Spark) -> None:
    view = restrict_view(
        OPEN,
        table(
            answer(
                schema({"c": NESTED}),
                columns={2: "show-last-4", 4: "mask-alphanum", 7: "sha-256-global"},
            )
        ),
        bare=True,
    )
    assert not view.closed, view.closed
    mask = view.masks["c"].expression
    row = "named_struct('a b', 'x-12345', 'l', array('a1', NULL), 'm', map('k1', 'v1'))"
    found = spark.query(
        f"SELECT to_json({mask}), typeof({mask}) = typeof(c) FROM VALUES ({row}), (NULL) AS t(c)"
    )
    assert found[0][0] == (
        '{"a b":"x-n2345","l":["xn",null],"m":{"k1":"' + str(shown("sha-256-global", "string", "v1")) + '"}}'
    )
    assert list(found[1]) == [None, True]
    fixed = mask_of(NESTED, "mask-to-fixed-value")
    (one,) = spark.query(f"SELECT to_json({fixed}), typeof({fixed}) = typeof(c) FROM VALUES ({row}) AS t(c)")
    assert list(one) == ['{"a b":"XXXXXXXX","l":[],"m":{}}', True]


FIELDS = {"i": "int", "s": "string", "d": "double", "n": "decimal(9,2)"}
LITERALS: dict[int, tuple[Any, ...]] = {1: (0, 5), 2: ("", "ab", "é"), 3: (0.0, 1.5), 4: ("1.50", "0.00")}
CELLS: dict[int, tuple[Any, ...]] = {
    1: (None, 0, 5, 7),
    2: (None, "", "ab", "abc", "é"),
    3: (None, 0.0, 1.5, math.nan, -3.0),
    4: (None, Decimal("1.50"), Decimal("0.00")),
}


def some_predicate(random: Random, depth: int = 0) -> Any:
    if depth < 3 and random.random() < 0.5:
        kind = random.choice(("and", "or", "not"))
        if kind == "not":
            return {"type": "not", "child": some_predicate(random, depth + 1)}
        return {"type": kind, **{side: some_predicate(random, depth + 1) for side in ("left", "right")}}
    ident = random.choice((1, 2, 3, 4))
    column = {"type": "reference", "id": ident}
    kinds = ["is-null", "not-null", "in", "not-in", "eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq"]
    kinds += ["starts-with", "not-starts-with"] if ident == 2 else ["is-nan", "not-nan"] if ident == 3 else []
    kind = random.choice(kinds)
    if kind in ("is-null", "not-null", "is-nan", "not-nan"):
        return {"type": kind, "child": column}
    if kind in ("in", "not-in"):
        return {"type": kind, "child": column, "values": list(LITERALS[ident])}
    return {
        "type": kind,
        "left": column,
        "right": {"type": "literal", "value": random.choice(LITERALS[ident])},
    }


def as_values(predicate: Any) -> Any:
    """The same with decimals as values, for the reference reader."""
    if isinstance(predicate, dict):
        found = {key: as_values(one) for key, one in predicate.items()}
        side = predicate.get("left", predicate.get("child"))
        if isinstance(side, dict) and side.get("id") == 4:
            if "values" in found:
                found["values"] = [Decimal(one) for one in predicate["values"]]
            elif "right" in found:
                found["right"] = Decimal(predicate["right"]["value"])
        return found
    return predicate


@pytest.mark.parametrize("ansi", ANSI)
def test_row_filters_leave_the_rows_that_the_reference_reader_leaves(spark: Spark, ansi: str) -> None:
    random = Random(17)
    rows = [{ident: random.choice(CELLS[ident]) for ident in CELLS} for _ in range(60)]
    predicates = [some_predicate(random) for _ in range(tries(80))]
    kinds = list(FIELDS.values())
    written = ", ".join(
        f"({place}, {', '.join(literal(kinds[ident - 1], row[ident]) for ident in row)})"
        for place, row in enumerate(rows)
    )
    texts = []
    for predicate in predicates:
        view = restrict_view(OPEN, table(answer(schema(FIELDS), row_filter=predicate)), bare=True)
        assert view.row_filter is not None, view.closed
        texts.append(view.row_filter.expression)
    found = spark.query(
        f"SET spark.sql.ansi.enabled={ansi}",
        f"SELECT p, {', '.join(texts)} FROM VALUES {written} AS t(p, i, s, d, n) ORDER BY p",
    )
    for (_, *kept), row in zip(found, rows, strict=True):
        wanted = [holds(as_values(one), row) for one in predicates]
        assert list(kept) == wanted, row


def test_salts_begin_as_they_are_hidden() -> None:
    assert mask_of("string", "sha-256-query-local").count(SALT_MARK) == 1
