"""A small TPC-H database: 3,000 orders with about 12,000 line items, the same on every machine.

Values follow clause 4.2.3 of the specification (ranges, dates, price formulas, which customers have no
orders); texts are shorter and the counts are our own, so that every query finds something. Rows travel to
Spark as JSON inside SQL text: no files that Spark's user would have to be able to read.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal

from tests.tpch.schema import TABLES

Row = dict[str, object]

SUPPLIERS, PARTS, CUSTOMERS, ORDERS = 50, 400, 300, 3_000
CHUNK = 3_000
"""Rows per statement: about 1 MB of text for lineitem."""

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0),
    ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2),
    ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2),
    ("ROMANIA", 3), ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
)  # fmt: skip
COLOURS = """almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood chartreuse
chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick floral forest
frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender""".split()
TYPES = (
    ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"),
    ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"),
    ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER"),
)
CONTAINERS = (
    ("SM", "LG", "MED", "JUMBO", "WRAP"),
    ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"),
)
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
WORDS = """the furiously carefully final pending special express regular ironic deposits requests packages
accounts theodolites instructions sleep haggle nag wake above against along among""".split()
START, END = dt.date(1992, 1, 1), dt.date(1998, 8, 2)
TODAY = dt.date(1995, 6, 17)
"""The specification's CURRENTDATE: what was received before it may have been returned."""


def statements(database: str) -> Iterator[str]:
    """Yield the SQL that builds the database `database` from nothing."""
    yield f"CREATE DATABASE {database}"
    for table, rows in tables().items():
        types = ", ".join(f"{name} {type_}" for name, type_ in TABLES[table].items())
        yield f"CREATE TABLE {database}.{table} ({types}) USING parquet"
        for start in range(0, len(rows), CHUNK):
            document = json.dumps(rows[start : start + CHUNK], default=str, separators=(",", ":"))
            assert "'" not in document
            assert "\\" not in document
            fields = ", ".join(f"{name}: {type_}" for name, type_ in TABLES[table].items())
            yield (
                f"INSERT INTO {database}.{table} "
                f"SELECT inline(from_json('{document}', 'array<struct<{fields}>>'))"
            )


def tables() -> dict[str, list[Row]]:
    """Return every table's rows, columns in the order of the schema."""
    dice = random.Random(19920101)
    parts = [_part(dice, key) for key in range(1, PARTS + 1)]
    orders, lines = _orders(dice, parts)
    made: dict[str, list[Row]] = {
        "region": [
            {"r_regionkey": i, "r_name": name, "r_comment": _text(dice)} for i, name in enumerate(REGIONS)
        ],
        "nation": [
            {"n_nationkey": i, "n_name": name, "n_regionkey": region, "n_comment": _text(dice)}
            for i, (name, region) in enumerate(NATIONS)
        ],
        "supplier": [_supplier(dice, key) for key in range(1, SUPPLIERS + 1)],
        "part": parts,
        "partsupp": [
            {
                "ps_partkey": part,
                "ps_suppkey": _supplier_of(part, i),
                "ps_availqty": dice.randint(1, 9_999),
                "ps_supplycost": _money(dice, 1, 1_000),
                "ps_comment": _text(dice),
            }
            for part in range(1, PARTS + 1)
            for i in range(4)
        ],
        "customer": [_customer(dice, key) for key in range(1, CUSTOMERS + 1)],
        "orders": orders,
        "lineitem": lines,
    }
    assert {name: list(rows[0]) for name, rows in made.items()} == {n: list(c) for n, c in TABLES.items()}
    return made


def _supplier(dice: random.Random, key: int) -> Row:
    nation = key % len(NATIONS)
    # Two of the fifty have complaints, which the specification asks for and q16 leaves out.
    complaint = "Customer was full of Complaints " if key in (7, 29) else ""
    return {
        "s_suppkey": key,
        "s_name": f"Supplier#{key:09}",
        "s_address": _text(dice),
        "s_nationkey": nation,
        "s_phone": _phone(dice, nation),
        "s_acctbal": _money(dice, -999, 9_999),
        "s_comment": complaint + _text(dice),
    }


def _part(dice: random.Random, key: int) -> Row:
    maker = dice.randint(1, 5)
    price = Decimal(90_000 + key // 10 % 20_001 + 100 * (key % 1_000)) / 100
    return {
        "p_partkey": key,
        "p_name": " ".join(dice.sample(COLOURS, 5)),
        "p_mfgr": f"Manufacturer#{maker}",
        "p_brand": f"Brand#{maker}{dice.randint(1, 5)}",
        "p_type": " ".join(dice.choice(words) for words in TYPES),
        "p_size": dice.randint(1, 50),
        "p_container": " ".join(dice.choice(words) for words in CONTAINERS),
        "p_retailprice": price,
        "p_comment": _text(dice),
    }


def _customer(dice: random.Random, key: int) -> Row:
    nation = dice.randrange(len(NATIONS))
    return {
        "c_custkey": key,
        "c_name": f"Customer#{key:09}",
        "c_address": _text(dice),
        "c_nationkey": nation,
        "c_phone": _phone(dice, nation),
        "c_acctbal": _money(dice, -999, 9_999),
        "c_mktsegment": dice.choice(SEGMENTS),
        "c_comment": _text(dice),
    }


def _orders(dice: random.Random, parts: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    orders: list[Row] = []
    lines: list[Row] = []
    buyers = [key for key in range(1, CUSTOMERS + 1) if key % 3]  # a third never orders: q13, q22
    for key in range(1, ORDERS + 1):
        date = START + dt.timedelta(dice.randrange((END - START).days))
        mine = [_line(dice, key, number, date, parts) for number in range(1, dice.randint(1, 7) + 1)]
        statuses = {line["l_linestatus"] for line in mine}
        total = sum(
            Decimal(str(line["l_extendedprice"]))
            * (1 + Decimal(str(line["l_tax"])))
            * (1 - Decimal(str(line["l_discount"])))
            for line in mine
        )
        orders.append(
            {
                "o_orderkey": key,
                "o_custkey": dice.choice(buyers),
                "o_orderstatus": statuses.pop() if len(statuses) == 1 else "P",
                "o_totalprice": Decimal(total).quantize(Decimal("0.01")),
                "o_orderdate": date,
                "o_orderpriority": dice.choice(PRIORITIES),
                "o_clerk": f"Clerk#{dice.randint(1, 10):09}",
                "o_shippriority": 0,
                "o_comment": _text(dice),
            }
        )
        lines += mine
    return orders, lines


def _line(dice: random.Random, order: int, number: int, date: dt.date, parts: Sequence[Row]) -> Row:
    part = dice.randint(1, PARTS)
    quantity = dice.randint(1, 50)
    shipped = date + dt.timedelta(dice.randint(1, 121))
    received = shipped + dt.timedelta(dice.randint(1, 30))
    return {
        "l_orderkey": order,
        "l_partkey": part,
        "l_suppkey": _supplier_of(part, dice.randrange(4)),
        "l_linenumber": number,
        "l_quantity": quantity,
        "l_extendedprice": quantity * Decimal(str(parts[part - 1]["p_retailprice"])),
        "l_discount": Decimal(dice.randint(0, 10)) / 100,
        "l_tax": Decimal(dice.randint(0, 8)) / 100,
        "l_returnflag": dice.choice("RA") if received <= TODAY else "N",
        "l_linestatus": "O" if shipped > TODAY else "F",
        "l_shipdate": shipped,
        "l_commitdate": date + dt.timedelta(dice.randint(30, 90)),
        "l_receiptdate": received,
        "l_shipinstruct": dice.choice(INSTRUCTIONS),
        "l_shipmode": dice.choice(MODES),
        "l_comment": _text(dice),
    }


def _supplier_of(part: int, i: int) -> int:
    """Return the part's i-th supplier, as clause 4.2.3 spreads them."""
    return (part + i * (SUPPLIERS // 4 + (part - 1) // SUPPLIERS)) % SUPPLIERS + 1


def _phone(dice: random.Random, nation: int) -> str:
    return f"{nation + 10}-{dice.randint(100, 999)}-{dice.randint(100, 999)}-{dice.randint(1000, 9999)}"


def _money(dice: random.Random, low: int, high: int) -> Decimal:
    return Decimal(dice.randint(low * 100, high * 100)) / 100


def _text(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(3, 8)))
