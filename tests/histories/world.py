"""The database of histories, and the policies that change within them: as a pack's text, and as plain Python.

Every value that a policy may hide is unique: its table and a number between two `K`, or a number of seven
digits that begins with 97. Wherever one shows, it is known what it is and who may see it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

USERS: Mapping[str, frozenset[str]] = {
    "u1": frozenset({"analysts"}),
    "u2": frozenset({"analysts"}),
    "steward": frozenset({"stewards"}),
}
"""Who works here, with the groups that they begin with. The steward fills tables and administers nothing."""
PASSWORD = "correct horse battery"

SECRET = re.compile(r"K(?:people|owned|timed|mapped|docs|vault|late)\d+[a-z]*K|97\d{5}", re.IGNORECASE)
"""Whole words of the tables: refusals quote paths, and names of temporary directories are chance as well."""
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
"""Refusals and Spark's errors quote events, sessions and operations, whose digits are chance."""
NEVER = 4_102_444_800.0
"""2100, in seconds: the end of rows that do not expire."""


def secrets_in(shown: object) -> set[str]:
    """Return the secret values that show in anything, in small letters."""
    return {found.lower() for found in SECRET.findall(_ID.sub("", str(shown)))}


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns with their types as Spark writes them, and rows. Timestamps are seconds since 1970."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    def with_rows(self, rows: Iterable[tuple[Any, ...]]) -> Relation:
        return Relation(self.columns, (*self.rows, *rows))

    def query(self) -> str:
        """Return a query of just these rows."""
        empty = not self.rows
        rows = self.rows or (tuple(None for _ in self.columns),)
        values = ", ".join(f"({', '.join(map(_literal, row))})" for row in rows)
        columns = ", ".join(
            f"CAST({f'timestamp_micros(c{n})' if kind == 'timestamp' else f'c{n}'} AS {kind}) AS `{name}`"
            for n, (name, kind) in enumerate(self.columns)
        )
        aliases = ", ".join(f"c{n}" for n in range(len(self.columns)))
        where = " WHERE false" if empty else ""
        return f"SELECT {columns} FROM VALUES {values} AS t({aliases}){where}"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return str(round(value * 1_000_000))
    if isinstance(value, int):
        return str(value)
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _relation(columns: str, *rows: tuple[Any, ...]) -> Relation:
    pairs = (column.split(" ") for column in columns.split(", "))
    return Relation(tuple((name, kind) for name, kind in pairs), rows)


TABLES: Mapping[str, Relation] = {
    "open": _relation(
        "id int, label string", (1, "EMEA"), (2, "AMER"), (3, "emea"), (4, "K"), (5, "u1"), (6, "u2")
    ),
    "people": _relation(
        "id int, name string, owner string, region string, ssn string, salary int",
        (1, "Kpeople1nameK", "u1", "EMEA", "Kpeople1ssnK", 9700001),
        (2, "Kpeople2nameK", "u2", "AMER", "Kpeople2ssnK", 9700002),
        (3, "Kpeople3nameK", "u1", "AMER", "Kpeople3ssnK", 9700003),
        (4, "Kpeople4nameK", "u2", "EMEA", "Kpeople4ssnK", 9700004),
    ),
    "owned": _relation(
        "id int, owner string, note string",
        (1, "u1", "Kowned1K"),
        (2, "u2", "Kowned2K"),
        (3, "u2", "Kowned3K"),
    ),
    "timed": _relation(
        "id int, until timestamp, note string", (1, NEVER, "Ktimed1K"), (2, 1_000_000_000.0, "Ktimed2K")
    ),
    "mapped": _relation(
        "id int, note string", (1, "Kmapped1K"), (2, "Kmapped2K"), (3, "Kmapped3K"), (4, "Kmapped4K")
    ),
    "blocked": _relation("bid int", (4,)),
    "docs": _relation(
        "id int, doc string, note string",
        (1, '{"r":"EMEA"}', "Kdocs1K"),
        (2, '{"r":"emea"}', "Kdocs2K"),
        (3, '{"r":"AMER"}', "Kdocs3K"),
    ),
    # One may do to it what one likes, and not look into it.
    "vault": _relation("id int, pin string", (1, "Kvault1K"), (2, "Kvault2K")),
    # Read by everybody, told apart by nobody but through what the view says; its last column is hidden.
    "staff": _relation(
        "id int, owner string, note string, pay int", (1, "u1", "a", 9700011), (2, "u2", "b", 9700012)
    ),
}
VIEWS: Mapping[str, str] = {
    "mine": "SELECT id, owner FROM {staff} WHERE owner = current_user()",
    "others": "SELECT id, owner FROM {staff} WHERE owner <> current_user()",
    "over_mapped": "SELECT id, note FROM {mapped}",
    "over_people": "SELECT id, name, region, ssn FROM {people}",
}
"""Made by the operator. Who made them reads everything."""
LATE = _relation("id int, note string", (1, "Klate1K"), (2, "Klate2K"))
"""What a table holds that appears within a history; the first row is hidden from analysts."""
FILLED = ("people", "owned", "timed", "mapped", "docs", "open")
"""Tables that everybody may read, as far as policies let them, and that the steward fills."""


def new_row(table: str, number: int) -> tuple[Any, ...]:
    """Return another row of a table; `number` is one that no row has yet."""
    owner, region = ("u1", "u2")[number % 2], ("EMEA", "AMER")[number // 2 % 2]
    word = f"K{table}{number}K"
    rows: dict[str, tuple[Any, ...]] = {
        "open": (number, region),
        "people": (
            number,
            f"Kpeople{number}nameK",
            owner,
            region,
            f"Kpeople{number}ssnK",
            9700000 + number * 100,
        ),
        "owned": (number, owner, word),
        "timed": (number, NEVER, word),
        "mapped": (number, word),
        "docs": (number, f'{{"r":"{region}"}}', word),
    }
    return rows[table]


# -- policies ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Asking:
    """Who asks, and when: what a policy may depend on beside the row."""

    user: str
    groups: frozenset[str]
    now: float
    blocked: frozenset[Any]

    def is_one_of(self, audience: str) -> bool:
        return audience == self.user or audience in self.groups


Row = dict[str, Any]
Keeps = Callable[[Row, Asking], bool]
Shows = Callable[[Any], Any]

FILTERS: Mapping[str, Mapping[str, tuple[str, Keeps]]] = {
    "people": {
        "emea": ("region = 'EMEA'", lambda row, _: row["region"] == "EMEA"),
        "mine": ("owner = current_user()", lambda row, who: row["owner"] == who.user),
        "modest": ("salary < 9700003", lambda row, _: row["salary"] < 9700003),
    },
    "owned": {
        "mine": ("owner = current_user()", lambda row, who: row["owner"] == who.user),
        "odd": ("id % 2 = 1", lambda row, _: row["id"] % 2 == 1),
    },
    "timed": {"current": ("until > current_timestamp()", lambda row, who: row["until"] > who.now)},
    "mapped": {
        "unblocked": (
            "id NOT IN (SELECT bid FROM spark_catalog.{db}.blocked)",
            lambda row, who: row["id"] not in who.blocked,
        )
    },
    "docs": {
        "emea": (
            "get_json_object(doc, '$.r') = 'EMEA' AND CAST(id AS STRING) <> 'x'",
            lambda row, _: '"EMEA"' in row["doc"],
        )
    },
}
"""Table → variant → the filter's text, and the same in Python."""
MASKS: Mapping[str, Mapping[str, tuple[str, Shows]]] = {
    "people.ssn": {
        "null": ("type: MASK_NULL", lambda _: None),
        "stars": ("type: CUSTOM, show: \"'***'\"", lambda _: "***"),
        "last": ("type: MASK_SHOW_LAST_4", lambda value: "x" * (len(value) - 4) + value[-4:]),
    },
    "people.salary": {"null": ("type: MASK_NULL", lambda _: None)},
    "docs.note": {"stars": ("type: CUSTOM, show: \"'***'\"", lambda _: "***")},
}
HIDDEN = ("people.salary", "people.ssn")
"""Columns that may be hidden: `select` on them is denied."""
DENIED = ("people", "owned", "docs")
"""Tables on which everything may be denied."""

SLOTS: Mapping[str, tuple[str, ...]] = {
    **{f"filter {table}": tuple(variants) for table, variants in FILTERS.items()},
    **{f"mask {column}": tuple(variants) for column, variants in MASKS.items()},
    **{f"hide {column}": ("hidden",) for column in HIDDEN},
    **{f"deny {table}": ("denied",) for table in DENIED},
}
"""What may change → its variants, beside `none`."""
AUDIENCES = ("analysts", "u1", "u2", "red")
INITIALLY: Mapping[str, str] = {
    "filter people": "emea analysts",
    "filter owned": "mine analysts",
    "filter timed": "current analysts",
    "filter mapped": "unblocked analysts",
    "filter docs": "emea analysts",
    "mask people.ssn": "null analysts",
    "hide people.salary": "hidden u2",
}

_PACK = """
service: spark
policies:
  - name: everybody works here
    on: [{catalog: spark_catalog}, {catalog: spark_catalog, database: @}]
    allow: [{users: [u1, u2, steward], access: [use, show]}]
  - name: tables that are read
    on:
      catalog: spark_catalog
      database: @
      table: [open, people, owned, timed, mapped, docs, "shared_*"]
      column: "*"
    allow: [{users: [u1, u2, steward], access: [select, refresh]}]
  - name: what the views say
    on: {catalog: spark_catalog, database: @, table: [mine, others, over_mapped, over_people], column: "*"}
    allow: [{users: [u1, u2, steward], access: [select, refresh]}]
  - name: open parts of staff
    on: {catalog: spark_catalog, database: @, table: staff, column: [id, owner, note]}
    allow: [{users: [u1, u2, steward], access: [select, refresh]}]
  - name: the steward fills
    on:
      catalog: spark_catalog
      database: @
      table: [open, people, owned, timed, mapped, docs, blocked]
      column: "*"
    allow: [{users: [steward], access: [select, refresh, insert]}]
  - name: own things of u1
    on: {catalog: spark_catalog, database: @, table: ["u1_*", pe], column: "*"}
    allow:
      - {users: [u1], access: [select, refresh, create, drop, alter, insert, delete]}
      - {users: [u2, steward], access: [select]}
  - name: own things of u2
    on: {catalog: spark_catalog, database: @, table: "u2_*", column: "*"}
    allow:
      - {users: [u2], access: [select, refresh, create, drop, alter, insert, delete]}
      - {users: [u1, steward], access: [select]}
  - name: own things of the steward
    on: {catalog: spark_catalog, database: @, table: ["steward_*", "shared_*"], column: "*"}
    allow:
      - {users: [steward], access: [select, refresh, create, drop, alter, insert, delete]}
      - {users: [u1, u2], access: [select]}
  - name: the vault is kept and not looked into
    on: {catalog: spark_catalog, database: @, table: [vault, "tmp_*"], column: "*"}
    allow: [{groups: [analysts], access: [alter, create, delete, drop, insert, update]}]
  - name: what is temporary is read
    on: {catalog: spark_catalog, database: @, table: "tmp_*", column: "*"}
    allow: [{groups: [analysts], access: [select]}]
  - name: what comes late is worked with
    on: {catalog: spark_catalog, database: @, table: "late_*", column: "*"}
    allow: [{groups: [analysts], access: [select, refresh, alter, create, delete, drop, insert]}]
  - name: with rows of their own
    on: {catalog: spark_catalog, database: @, table: "late_*"}
    filter: [{groups: [analysts], where: "id > 1"}]
  - name: harmless settings
    on: {setting: [spark.sql.shuffle.partitions, spark.sql.codegen.wholeStage]}
    allow: [{groups: [public], access: [set]}]
  - name: checkpoints
    on: {url: {values: ["@checkpoints"], recursive: true}}
    allow: [{groups: [analysts], access: [read, write]}]
"""


def pack(database: str, slots: Mapping[str, str], checkpoints: str) -> str:
    """Return the text of the pack that is in force under these policies."""
    text = _PACK.replace("@checkpoints", checkpoints).replace("@", database)
    for number, (slot, value) in enumerate(sorted(slots.items())):
        if value == "none":
            continue
        variant, audience = value.split(" ")
        kind, what = slot.split(" ")
        table, _, column = what.partition(".")
        who = f"users: [{audience}]" if audience in USERS else f"groups: [{audience}]"
        on = f"catalog: spark_catalog, database: {database}, table: {table}"
        if kind == "filter":
            where = FILTERS[table][variant][0].replace("{db}", database)
            items = f'filter: [{{{who}, where: "{where}"}}]'
        elif kind == "mask":
            items = f"mask: [{{{who}, {MASKS[what][variant][0]}}}]"
        else:
            items = f"deny: [{{{who}, access: [select]}}]"
        if kind == "deny":
            column = '"*"'
        on += f", column: {column}" if column else ""
        text += f"  - name: {slot} {number}\n    on: {{{on}}}\n    {items}\n"
    return text


@dataclass(frozen=True, slots=True)
class Governing:
    """The policies on one table for who asks."""

    keeps: tuple[Keeps, ...]
    shows: Mapping[str, Shows]
    hidden: frozenset[str]
    denied: bool


def governing(table: str, slots: Mapping[str, str], who: Asking) -> Governing:
    """Return what the policies in force say of a table to who asks."""
    keeps: list[Keeps] = []
    shows: dict[str, Shows] = {}
    hidden = set()
    # What the pack never grants.
    denied = {"blocked": "stewards" not in who.groups, "vault": True}.get(table, False)
    if table == "staff":
        hidden.add("pay")
    if table.startswith("late_") and "analysts" in who.groups:
        keeps.append(lambda row, _: row["id"] > 1)
    for slot, value in slots.items():
        kind, what = slot.split(" ")
        name, _, column = what.partition(".")
        if name != table or value == "none" or not who.is_one_of(value.split(" ")[1]):
            continue
        variant = value.split(" ")[0]
        if kind == "filter":
            keeps.append(FILTERS[table][variant][1])
        elif kind == "mask":
            shows[column] = MASKS[what][variant][1]
        elif kind == "hide":
            hidden.add(column)
        else:
            denied = True
    return Governing(tuple(keeps), shows, frozenset(hidden), denied)


def governed(relation: Relation, rules: Governing, who: Asking, *, hides: bool = True) -> Relation:
    """Return a table as who asks may see it; `hides`: without hidden columns, which a view may show."""
    rows = [dict(zip(relation.names, row, strict=True)) for row in relation.rows]
    kept = [row for row in rows if all(keeps(row, who) for keeps in rules.keeps)]
    columns = tuple((n, t) for n, t in relation.columns if not (hides and n in rules.hidden))

    def shown(row: Row, name: str) -> Any:
        return rules.shows[name](row[name]) if name in rules.shows else row[name]

    return Relation(columns, tuple(tuple(shown(row, name) for name, _ in columns) for row in kept))
