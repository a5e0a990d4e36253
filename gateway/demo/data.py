"""The demo's tables as SQL: the same people, customers and orders on every machine, made by Spark itself.

Values come from row numbers through hashes, so there is nothing to seed and nothing to ship. Every person is
invented: e-mail domains end in `.example`, telephone numbers lie in the ranges kept free for fiction (North
America 555-01xx, Britain 020 7946 0xxx, Australia 02 5550 xxxx), social security numbers begin with 9 and
were never issued, card numbers have a valid check digit behind an issuer number for tests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

FIRST_NAMES = """Maya Liam Ingrid Kenji Fatima Lucas Chloe Ravi Astrid Mateo Yuki Oliver Amara Henrik Priya
Diego Hannah Tariq Elena Noah Mei Samuel Zara Pedro Freya Arjun Camila Viktor Aisha Ethan Sofia Hiroshi Nadia
Oscar Lakshmi Felix Rosa Idris Klara Jonas Aroha Marco Leila Patrick Sanjay Beatriz Emil Naomi Tomas Grace Wei
Carlos Esther Anders Nina Kofi Julia Omar Linnea Daniel Thandi""".split()
LAST_NAMES = """Okafor Lindqvist Tanaka Moreau Patel Silva Novak Haddad Larsen Kim Romero Schmidt Mensah Rossi
Nakamura Dubois Sharma Costa Horvat Rahman Berg Chen Vargas Fischer Adeyemi Conti Sato Laurent Gupta Alves
Kowalski Farouk Nilsson Park Castillo Weber Owusu Ferrari Yamada Girard Reddy Pereira Popescu Aziz Dahl Wong
Mendoza Keller Nkosi Bianchi Ito Bernard Iyer Rocha Petrov Karimi Holm Nguyen Ortega Brandt Achebe Greco Mori
Lefevre Singh Teixeira Vasile Salem Strand Tran Fuentes Vogel Botha Marino Ono Garnier Menon Duarte Ivanov
Mansour Ekberg Lam Rivas""".split()
"""61 and 83, both prime: row numbers modulo each give every pair once before any repeats."""

DEPARTMENTS = (
    # name, cost centre, yearly budget, base salary
    ("Engineering", "CC-100", "18500000.00", 92000),
    ("Sales", "CC-200", "12400000.00", 61000),
    ("Finance", "CC-300", "4300000.00", 74000),
    ("People", "CC-400", "2900000.00", 63000),
    ("Operations", "CC-500", "7600000.00", 57000),
    ("Legal", "CC-600", "3100000.00", 88000),
    ("Marketing", "CC-700", "5200000.00", 64000),
    ("Support", "CC-800", "3900000.00", 48000),
)

EMPLOYEES = 200
CUSTOMERS = 5_000
ORDERS = 100_000


DIGEST_PROPERTY = "sluice.sample"
DIGEST_QUERY = f"SHOW TBLPROPERTIES sales.orders ('{DIGEST_PROPERTY}')"
"""Answers (property, digest) when all tables are there: this one is made last."""


def statements() -> tuple[tuple[str, str], ...]:
    """Return (what it makes, SQL) in the order in which Spark must run them."""
    mark = f"TBLPROPERTIES ('{DIGEST_PROPERTY}' = '{digest()}')"
    return (*_earlier(), *_table("sales.orders", _ORDERS, mark))


def digest() -> str:
    """Return what changes when the data do: tables that carry it need no loading."""
    return hashlib.sha256(repr((_earlier(), _ORDERS)).encode()).hexdigest()[:16]


def _earlier() -> tuple[tuple[str, str], ...]:
    return (
        ("database hr", "CREATE DATABASE IF NOT EXISTS hr COMMENT 'people of Northwind'"),
        ("database sales", "CREATE DATABASE IF NOT EXISTS sales COMMENT 'customers and orders of Northwind'"),
        *_table("hr.department", _DEPARTMENT),
        *_table("hr.employee", _EMPLOYEE),
        *_table("sales.customer", _CUSTOMER),
    )


def _table(name: str, query: str, properties: str = "") -> Sequence[tuple[str, str]]:
    return (
        ("", f"DROP TABLE IF EXISTS {name}"),
        (f"table {name}", f"CREATE TABLE {name} USING parquet {properties} AS\n{query}"),
    )


def _array(values: Sequence[object]) -> str:
    return (
        "array(" + ", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in values) + ")"
    )


def _pick(values: Sequence[object], number: str) -> str:
    """Return the SQL that picks a value by a row's number."""
    return f"element_at({_array(values)}, cast(1 + pmod({number}, {len(values)}) AS int))"


def _hash(salt: str, below: int, key: str = "n") -> str:
    """Return the SQL for a number in [0, below) that depends on the row and the salt only."""
    return f"cast(pmod(xxhash64({key}, '{salt}'), {below}) AS int)"


def _region(key: str) -> str:
    return (
        f"CASE WHEN {_hash('region', 100, key)} < 42 THEN 'EMEA' "
        f"WHEN {_hash('region', 100, key)} < 78 THEN 'AMER' ELSE 'APAC' END"
    )


def _phone(region: str) -> str:
    return (
        f"CASE {region} WHEN 'EMEA' THEN concat('+44 20 7946 0', lpad({_hash('phone', 1000)}, 3, '0')) "
        f"WHEN 'AMER' THEN concat('+1 ', {_pick((212, 312, 415, 617), _hash('area', 4))}, '-555-01', "
        f"lpad({_hash('phone', 100)}, 2, '0')) "
        f"ELSE concat('+61 2 5550 ', lpad({_hash('phone', 10000)}, 4, '0')) END"
    )


def _names(shift: int) -> str:
    return (
        f"""{_pick(FIRST_NAMES, f"n + {shift}")} AS first, {_pick(LAST_NAMES, f"n * 7 + {shift}")} AS last"""
    )


# The tour's users work here: Alice heads People, Bob sells, Carol answers the telephone.
_COLLEAGUES = """CASE n WHEN 4 THEN 'Alice' WHEN 10 THEN 'Bob' WHEN 16 THEN 'Carol' ELSE first END"""

_DEPARTMENT = "SELECT * FROM VALUES\n" + ",\n".join(
    f"  ({number}, '{name}', '{centre}', {number}, CAST({budget} AS decimal(14,2)))"
    for number, (name, centre, budget, _) in enumerate(DEPARTMENTS, start=1)
)
_DEPARTMENT += "\nAS department(id, name, cost_centre, head_id, budget)"

# Employees 1 to 8 head a department each and answer to number 1; the others answer to their head.
_EMPLOYEE = f"""
WITH people AS (
  SELECT cast(id AS int) AS n, cast(pmod(id - 1, {len(DEPARTMENTS)}) AS int) AS d,
         {_region("id")} AS region
  FROM range(1, {EMPLOYEES + 1}, 1, 1)
), drawn AS (SELECT *, {_names(0)} FROM people),
named AS (SELECT n, d, region, {_COLLEAGUES} AS first, last FROM drawn)
SELECT n AS id,
       concat(first, ' ', last) AS name,
       concat(lower(first), CASE WHEN n IN (4, 10, 16) THEN '' ELSE concat('.', lower(last)) END,
              '@northwind.example') AS email,
       {_phone("region")} AS phone,
       {_pick([name for name, *_ in DEPARTMENTS], "d")} AS department,
       region,
       CAST(cast({_pick([base for *_, base in DEPARTMENTS], "d")} AS int)
            * (100 + {_hash("salary", 60)} + CASE WHEN n = 1 THEN 180 WHEN n <= 8 THEN 90 ELSE 0 END) / 100
            AS decimal(10,2)) AS salary,
       concat(900 + {_hash("ssn1", 100)}, '-', lpad({_hash("ssn2", 99)} + 1, 2, '0'), '-',
              lpad({_hash("ssn3", 9999)} + 1, 4, '0')) AS ssn,
       date_add(DATE'2014-03-01', CASE n WHEN 1 THEN 0 ELSE {_hash("hired", 4500)} END) AS hired,
       CASE WHEN n = 1 THEN CAST(NULL AS int) WHEN n <= {len(DEPARTMENTS)} THEN 1 ELSE d + 1 END AS manager_id
FROM named
"""

_CARD_BODY = f"concat('400000', lpad({_hash('card', 1_000_000_000)}, 9, '0'))"
# Luhn: of 16 digits the odd ones are doubled, less nine when that has two digits.
_CARD_CHECK = """cast(pmod(10 - pmod(aggregate(sequence(1, 15), 0, (sum, i) -> sum +
           CASE WHEN i % 2 = 0 THEN cast(substr(body, i, 1) AS int)
                WHEN cast(substr(body, i, 1) AS int) > 4 THEN cast(substr(body, i, 1) AS int) * 2 - 9
                ELSE cast(substr(body, i, 1) AS int) * 2 END), 10), 10) AS string)"""

_CUSTOMER = f"""
WITH people AS (
  SELECT cast(id AS int) AS n, {_region("cast(id AS int)")} AS region FROM range(1, {CUSTOMERS + 1}, 1, 1)
), named AS (SELECT *, {_names(1009)}, {_CARD_BODY} AS body FROM people)
SELECT n AS id,
       concat(first, ' ', last) AS name,
       concat(lower(first), '.', lower(last), n, '@',
              {_pick(("post", "mail", "inbox", "letters"), _hash("domain", 4))}, '.example') AS email,
       {_phone("region")} AS phone,
       regexp_replace(concat(body, {_CARD_CHECK}), '(.{{4}})(.{{4}})(.{{4}})(.{{4}})', '$1 $2 $3 $4') AS card,
       region,
       date_add(DATE'1948-01-01', {_hash("born", 21000)}) AS birth,
       {_pick(("consumer", "consumer", "consumer", "business", "business", "premium"), _hash("segment", 6))}
         AS segment
FROM named
"""

_ORDERS = f"""
WITH numbered AS (
  SELECT id AS n, cast(1 + pmod(xxhash64(id, 'customer'), {CUSTOMERS}) AS int) AS customer,
         timestamp_seconds(1735689600 + pmod(xxhash64(id, 'when'), 657 * 86400)) AS moment
  FROM range(1, {ORDERS + 1}, 1, 2)
)
SELECT n AS id,
       customer AS customer_id,
       {_region("customer")} AS region,
       CAST(pow(10, 1 + {_hash("size", 3000)} / 1000.0) + {_hash("cents", 100)} / 100.0 AS decimal(12,2))
         AS amount,
       CASE WHEN {_hash("status", 100)} < 78 THEN 'delivered' WHEN {_hash("status", 100)} < 88 THEN 'shipped'
            WHEN {_hash("status", 100)} < 95 THEN 'open' ELSE 'returned' END AS status,
       cast(moment AS date) AS ordered_on,
       moment AS ordered_at
FROM numbered
"""


FILES = {
    "web/visits/2026-11-01.csv": "visitor,email,page,seconds\n"
    "1,liam.haddad@example.com,/pricing,41\n2,emma.novak@example.com,/docs,180\n",
    "web/visits/2026-11-02.csv": "visitor,email,page,seconds\n"
    "1,liam.haddad@example.com,/docs,77\n3,omar.silva@example.com,/,5\n",
    "news/letters/november.csv": "reader,address,topic\n"
    + "".join(
        f"{n},{first.lower()}.{last.lower()}@mail.example.com,{('prices', 'release', 'events')[n % 3]}\n"
        for n, (first, last) in enumerate(zip(FIRST_NAMES[:30], LAST_NAMES[:30], strict=True), start=1)
    ),
}
"""Path below the source `inbox` of files → text."""

FILE_POLICIES = """\
service: spark
policies:
  - name: analysts read what came in, and make tables of it
    on:
      - {catalog: spark_catalog, database: inbox}
      - {catalog: spark_catalog, database: inbox, table: "*", column: "*"}
    allow: [{groups: [analysts], access: [use, select, promote]}]
  - name: files that came in
    on: {url: ROOT}
    allow: [{groups: [analysts], access: [read]}]
  - name: who visited is contact data
    on: {catalog: spark_catalog, database: inbox, table: web__visits, column: email}
    mask: [{groups: [public], type: MASK_HASH}]
  - name: addresses that were found, and accepted
    on: {tag: EMAIL}
    mask: [{groups: [public], type: MASK}]
"""
