"""A small TPC-DS database: 9,000 store sales and 3,000 catalog sales over three years, always the same.

Spark computes it from row numbers and their hashes, one statement for each table. Five sales in a row are one
ticket: one customer, day, hour and store, as in the specification.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.tpcds.schema import TABLES

DAYS, ITEMS, STORES, CUSTOMERS, ADDRESSES, PROMOTIONS = 1_096, 150, 10, 250, 200, 20
DEMOGRAPHICS, HOUSEHOLDS = 70, 360
STORE_SALES, CATALOG_SALES = 9_000, 3_000
FIRST_DAY = 2_451_180
"""`d_date_sk` of 1999-01-01, the first day of the database."""

CATEGORIES = ("Books", "Electronics", "Home", "Jewelry", "Men", "Music", "Shoes", "Sports", "Women")
CITIES = ("Fairview", "Midway", "Oak Grove", "Pleasant Hill", "Centerville", "Five Points")
COUNTIES = ("Ziebach County", "Daviess County", "Barrow County", "Luce County")
STATES = ("CA", "GA", "KS", "SD", "TN", "TX", "WA")
FIRST_NAMES = ("Ann", "Ben", "Carla", "Dora", "Emil", "Flora", "Gus", "Hana", "Ivo", "Jo")
LAST_NAMES = ("Abel", "Brandt", "Costa", "Dvorak", "Eliot", "Falk", "Grieg", "Holt")
EDUCATIONS = ("Primary", "Secondary", "College", "2 yr Degree", "4 yr Degree", "Advanced Degree", "Unknown")
POTENTIALS = ("0-500", "501-1000", "1001-5000", "5001-10000", ">10000", "Unknown")


def _roll(seed: int, sides: int, row: str = "id") -> str:
    """A number from 0 to `sides` - 1 that depends on the row and the seed only."""
    return f"CAST(pmod(xxhash64({row}, {seed}), {sides}) AS INT)"


def _of(words: Sequence[str], index: str) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"element_at(array({listed}), 1 + CAST(({index}) % {len(words)} AS INT))"


def _money(seed: int, most: int) -> str:
    return f"({_roll(seed, most * 100)} + 100) / 100"


def _maybe(seed: int, one_in: int, value: str) -> str:
    """The value, or NULL once in `one_in` rows."""
    return f"IF({_roll(seed, one_in)} = 0, NULL, {value})"


_TICKET = "id DIV 5"
_DAY = "date_add(DATE '1999-01-01', CAST(id AS INT))"

_ROWS: dict[str, tuple[int, Sequence[str]]] = {
    "date_dim": (
        DAYS,
        (
            f"id + {FIRST_DAY}", _DAY, f"1188 + 12 * (year({_DAY}) - 1999) + month({_DAY}) - 1",
            f"year({_DAY})", f"dayofweek({_DAY}) - 1", f"month({_DAY})", f"day({_DAY})", f"quarter({_DAY})",
            f"date_format({_DAY}, 'EEEE')",
        ),
    ),
    "time_dim": (24 * 12, ("id", "id DIV 12", "id % 12 * 5")),
    "item": (
        ITEMS,
        (
            "id + 1", "concat('ITEM', lpad(id DIV 2, 8, '0'))", f"concat('a thing of kind ', {_roll(1, 40)})",
            _money(2, 90), f"1001 + {_roll(3, 12)}", f"concat('brand #', {_roll(3, 12)})",
            f"concat('class ', {_roll(4, 5)})", f"1 + {_roll(5, 9)}", _of(CATEGORIES, _roll(5, 9)),
            f"{_roll(6, 30)} + 120", f"concat('maker ', {_roll(6, 30)})", f"1 + {_roll(7, 20)}",
        ),
    ),
    "store": (
        STORES,
        (
            "id + 1", "concat('STORE', lpad(id, 4, '0'))", "concat('store ', id DIV 2)", "'Unknown'",
            f"200 + {_roll(8, 100)}", _of(CITIES, _roll(9, 6)), _of(COUNTIES, _roll(10, 4)),
            f"lpad({_roll(11, 99999)}, 5, '0')", "IF(id % 3 = 0, -6, -5)",
        ),
    ),
    "customer": (
        CUSTOMERS,
        (
            "id + 1", "concat('CUST', lpad(id, 8, '0'))", _maybe(12, 20, f"1 + {_roll(13, ADDRESSES)}"),
            _of(("Mr.", "Ms.", "Dr."), _roll(14, 3)), _maybe(15, 30, _of(FIRST_NAMES, _roll(16, 10))),
            _of(LAST_NAMES, _roll(17, 8)), _of(("Y", "N"), _roll(18, 2)), "concat('c', id, '@example.org')",
        ),
    ),
    "customer_address": (
        ADDRESSES,
        (
            "id + 1", _of(CITIES, _roll(19, 6)), _of(COUNTIES, _roll(20, 4)), _of(STATES, _roll(21, 7)),
            f"lpad({_roll(22, 99999)}, 5, '0')",
        ),
    ),
    "customer_demographics": (
        DEMOGRAPHICS,
        (
            "id + 1", _of(("M", "F"), "id"), _of(("M", "S", "D", "W", "U"), "id DIV 2"),
            _of(EDUCATIONS, "id DIV 10"),
        ),
    ),
    "household_demographics": (
        HOUSEHOLDS, ("id + 1", _of(POTENTIALS, "id"), "id DIV 6 % 10", "id DIV 60 - 1"),
    ),
    "promotion": (PROMOTIONS, ("id + 1", _of(("N", "N", "Y"), "id"), _of(("N", "Y"), "id"))),
    "store_sales": (
        STORE_SALES,
        (
            _maybe(23, 50, f"{FIRST_DAY} + {_roll(24, DAYS, _TICKET)}"), _roll(25, 288, _TICKET),
            f"1 + {_roll(26, ITEMS)}", f"1 + {_roll(27, CUSTOMERS, _TICKET)}",
            f"1 + {_roll(28, DEMOGRAPHICS, _TICKET)}", f"1 + {_roll(29, HOUSEHOLDS, _TICKET)}",
            f"1 + {_roll(30, ADDRESSES, _TICKET)}", f"1 + {_roll(31, STORES, _TICKET)}",
            _maybe(32, 10, f"1 + {_roll(33, PROMOTIONS)}"), f"1 + {_TICKET}", f"1 + {_roll(34, 100)}",
            _money(35, 180), _money(36, 150), _money(37, 9000), _money(38, 12000), _money(39, 700),
            f"IF({_roll(40, 4)} = 0, {_money(41, 90)}, 0)", f"{_money(42, 4000)} - 2000",
        ),
    ),
    "catalog_sales": (
        CATALOG_SALES,
        (
            f"{FIRST_DAY} + {_roll(43, DAYS)}", f"1 + {_roll(44, CUSTOMERS)}",
            f"1 + {_roll(45, DEMOGRAPHICS)}", f"1 + {_roll(46, ITEMS)}",
            _maybe(47, 10, f"1 + {_roll(48, PROMOTIONS)}"), f"1 + {_roll(49, 100)}",
            _money(50, 280), _money(51, 600), f"IF({_roll(52, 4)} = 0, {_money(53, 90)}, 0)",
        ),
    ),
}  # fmt: skip


def statements(database: str) -> Iterator[str]:
    """Yield the SQL that builds the database `database` from nothing."""
    yield f"CREATE DATABASE {database}"
    for table, (rows, values) in _ROWS.items():
        columns = ", ".join(
            f"CAST({value} AS {type_}) AS {name}"
            for value, (name, type_) in zip(values, TABLES[table].items(), strict=True)
        )
        yield f"CREATE TABLE {database}.{table} USING parquet AS SELECT {columns} FROM range(0, {rows}, 1, 1)"
