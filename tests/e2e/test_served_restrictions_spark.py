"""Random policies, served as restrictions: a reader that enforces these shows what Sluice's own statement
shows on Spark, row by row and byte by byte, or gets no table."""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Sequence
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from gateway.reader.pool import ReaderPool
from tests.e2e.running import Spark
from tests.e2e.test_restrictions_spark import as_told, literal
from tests.e2e.test_restrictions_spark import told as spell
from tests.effort import tries
from tests.policy.reference_reader import holds, shown
from tests.rest.worlds import loaded, serving, told

pytestmark = [pytest.mark.night, pytest.mark.asyncio(loop_scope="session")]

COLUMNS = {
    "id": "long", "n": "int", "s": "string", "d": "date", "b": "boolean", "f": "double", "x": "decimal(9,2)",
    "t": "timestamptz",
}  # fmt: skip
WORDS = ("", "EMEA", "EM", "a1", "A1", "éé", "bob", "555 12", "under_score", "100%")
POLICIES = tries(60)
ROWS = 30
NAME = "`lake`.`shop`.`t`"
AT_ONCE = 12
PACK = """
service: spark
policies:
  - name: all of it
    on: {catalog: lake, database: shop, table: t, column: "*"}
    allow: [{users: [engine], access: [use, show, select]}]
"""
MASKS = ("MASK", "MASK_HASH", "MASK_NULL", "MASK_SHOW_LAST_4", "MASK_SHOW_FIRST_4", "MASK_DATE_SHOW_YEAR")


def value_of(random: Random, kind: str) -> Any:
    if random.random() < 0.25:
        return None
    match kind:
        case "long" | "int":
            return random.choice((0, 1, -1, 5, 7, 2**31 - 1))
        case "string":
            return random.choice(WORDS)
        case "date":
            return datetime.date(random.choice((1969, 1970, 2020)), random.choice((1, 12)), 31)
        case "boolean":
            return random.random() < 0.5
        case "double":
            return random.choice((0.0, -0.0, 0.5, -1.5, math.nan, math.inf, 7.0))
        case "decimal(9,2)":
            return Decimal(random.choice((0, 150, -1230, 700))).scaleb(-2)
    return datetime.datetime(2020, random.choice((1, 7)), 1, 12, tzinfo=datetime.UTC)


def constant(random: Random, kind: str) -> str:
    """A constant in a filter: mostly one of the column's type."""
    if random.random() < 0.06:
        return random.choice(("NULL", "'5'", "5", "1.5", "DATE'2020-01-31'", "TRUE", "2147483648"))
    value = None
    while value is None or (isinstance(value, float) and not math.isfinite(value)):
        value = value_of(random, kind)
    match kind:
        case "string":
            return f"'{value}'"
        case "date":
            return f"DATE'{value}'"
        case "timestamptz":
            return f"TIMESTAMP'{value}'"
    return str(value)


def predicate(random: Random, depth: int = 0) -> str:
    if depth < 3 and random.random() < 0.5:
        match random.choice(("AND", "OR", "NOT")):
            case "NOT":
                return f"NOT ({predicate(random, depth + 1)})"
            case word:
                return f"({predicate(random, depth + 1)}) {word} ({predicate(random, depth + 1)})"
    kinds = [one for one in COLUMNS if one != "t" or random.random() < 0.1]
    c = random.choice(kinds)
    kind = COLUMNS[c]
    match random.choice(
        ("=", "<>", "<", "<=", ">", ">=", "<=>", "IN", "NOT IN", "BETWEEN", "NULL", "LIKE", "odd")
    ):
        case "IN" | "NOT IN" as word:
            return f"{c} {word} ({', '.join(constant(random, kind) for _ in range(random.randrange(1, 4)))})"
        case "BETWEEN":
            word = random.choice(("BETWEEN", "NOT BETWEEN"))
            return f"{c} {word} {constant(random, kind)} AND {constant(random, kind)}"
        case "NULL":
            return f"{c} IS {random.choice(('', 'NOT '))}NULL"
        case "LIKE":
            pattern = random.choice(("EM%", "%", "EMEA", "E_E%", "%A", "100%"))
            return f"s {random.choice(('', 'NOT '))}LIKE '{pattern}'"
        case "odd":
            return random.choice(
                ("b", "NOT b", "TRUE", "NULL", "s = {USER}", "current_user() = s", "'engine' = {USER}",
                 "lower(s) = 'emea'", "n + 1 > 2", "CAST(n AS STRING) = '5'", "id = n",
                 "s = 'engine' OR id = 1",
                 "coalesce(b, FALSE)", "1 = 1", "s IN ('bob', NULL)", "id NOT IN (1, NULL)")
            )  # fmt: skip
        case operator:
            if random.random() < 0.2:
                return f"{constant(random, kind)} {operator} {c}"
            return f"{c} {operator} {constant(random, kind)}"


def policy(random: Random) -> str:
    """A pack with a filter, masks, or both."""
    text = PACK
    if random.random() < 0.7:
        where = predicate(random).replace('"', "'")
        text += f"""  - name: rows
    on: {{catalog: lake, database: shop, table: t}}
    filter: [{{users: [engine], where: "{where}"}}]
"""
    for name in COLUMNS:
        if random.random() < 0.15:
            text += f"""  - name: mask of {name}
    on: {{catalog: lake, database: shop, table: t, column: {name}}}
    mask: [{{users: [engine], type: {random.choice(MASKS)}}}]
"""
    return text


def read(predicate: Any) -> Any:
    """A predicate whose constants are Python's, as the reference reader compares them."""
    kinds = dict(enumerate(COLUMNS.values(), 1))

    def convert(kind: str, value: Any) -> Any:
        match kind:
            case "date":
                return datetime.date.fromisoformat(value)
            case "decimal(9,2)":
                return Decimal(value)
        return value

    match predicate:
        case {"left": {"id": ident}, "right": value}:
            return {**predicate, "right": convert(kinds[ident], value)}
        case {"child": {"id": ident}, "values": values}:
            return {**predicate, "values": [convert(kinds[ident], one) for one in values]}
        case {"left": left, "right": right}:
            return {**predicate, "left": read(left), "right": read(right)}
    return predicate


def by_reference(restrictions: Any, rows: Sequence[Sequence[Any]]) -> list[tuple[str | None, ...]]:
    actions = {one["field-id"]: one["action"] for one in restrictions.get("required-column-projections", ())}
    keeps = read(restrictions.get("required-row-filter", True))
    found = []
    for row in rows:
        if holds(keeps, dict(enumerate(row, 1))):
            values = [
                shown(actions[at], kind, value) if at in actions else value
                for at, (kind, value) in enumerate(zip(COLUMNS.values(), row, strict=True), 1)
            ]
            found.append(tuple(as_told(k, v) for k, v in zip(COLUMNS.values(), values, strict=True)))
    return found


async def list_served(seed: int, reader: ReaderPool) -> list[tuple[str, Any, str]]:
    """Policies, the restrictions that were served and the statement that Sluice runs; none: 403."""
    random, found = Random(seed), []
    async with serving(reader) as world:
        world.upstream.tables["shop", "t"] = loaded(COLUMNS)
        for _ in range(POLICIES):
            pack = policy(random)
            world.policies = world.load(pack)
            reply = await world.load_table("engine", "t")
            assert reply.status in (200, 403), reply
            decided = world.ledger.of("decided")[-1].body
            if reply.status == 403:
                assert decided["code"] in ("NOT_GOVERNABLE", "ACCESS_DENIED")
                continue
            found.append((pack, told(reply).get("read-restrictions", {}), decided["forwarded"]))
    return found


async def test_what_is_served_is_what_the_statement_shows(spark: Spark, reader: ReaderPool) -> None:
    """NULLs, NaN and both zeros are in the rows; three in four policies have a filter."""
    random = Random(4747)
    every = await list_served(4748, reader)
    rows = [[at, *(value_of(random, kind) for kind in list(COLUMNS.values())[1:])] for at in range(ROWS)]
    values = ", ".join(
        f"({', '.join(literal(kind, one) for kind, one in zip(COLUMNS.values(), row, strict=True))})"
        for row in rows
    )
    source = f"(SELECT * FROM VALUES {values} AS v({', '.join(COLUMNS)}))"
    assert len(every) > POLICIES / 5
    for at in range(0, len(every), AT_ONCE):
        some = every[at : at + AT_ONCE]
        spelled = ", ".join(spell(kind, name) for name, kind in COLUMNS.items())
        texts = [
            f"SELECT {number} AS policy, {spelled} FROM ({forwarded.replace(NAME, source)})"
            for number, (_, _, forwarded) in enumerate(some)
        ]
        ours = await asyncio.to_thread(spark.query, "SET TIME ZONE 'UTC'", " UNION ALL ".join(texts))
        for number, (pack, restrictions, forwarded) in enumerate(some):
            got = sorted((row[1:] for row in ours if row[0] == number), key=str)
            wanted = sorted(by_reference(restrictions, rows), key=str)
            assert got == wanted, (pack, restrictions, forwarded)
