"""The tables that attacks are run against, in every shape of protection, and the same governed by hand.

Names of databases are of one length: a statement, or the bytes of a plan, that speaks of the governed
tables becomes one that speaks of the governed copy by exchanging one name for the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyhive.exc import OperationalError

from gateway.frontends.users import set_user
from tests.attacks.canaries import HIDDEN_ROWS, STEM
from tests.e2e.running import Spark

LIVE, COPY = "atk_live", "atk_copy"
"""The governed database, and the one in which the pack was applied to the data themselves."""
MINE, HERS = "atk_mine", "atk_hers"
"""Where the attacker may write, and where a direct connection writes instead."""
ATTACKER = "mallory"
OWNER = "olga"
"""May do everything; her sessions, caches and operations are not mallory's business."""
PASSWORD = "correct horse battery"
PACK = Path(__file__).with_name("pack.yaml")
HIDDEN_COLUMN = f"{STEM.lower()}_pin"
HIDDEN_REGION = f"{STEM}-AMER"
GUESS = f"{STEM}-s-1"
"""The raw secret of row 1, which the attacker happens to know and wants confirmed."""
HIDDEN_ID = 913_380_001

COLUMNS = {
    "id": "int",
    "name": "string",
    "secret": "string",
    "amount": "int",
    "born": "date",
    "region": "string",
    "tags": "array<string>",
    "home": "struct<street:string,zip:int>",
    "props": "map<string,int>",
}
MASKS = {
    "secret": "NULL",
    "amount": "amount % 7",
    "born": "trunc(born, 'YEAR')",
    "tags": "slice(tags, 1, 1)",
    "home": "named_struct('street', 'hidden', 'zip', 0)",
    "props": "NULL",
}
WHERE = f"region <> '{HIDDEN_REGION}'"


@dataclass(frozen=True)
class Shape:
    """One way in which a table is protected."""

    name: str
    secret: str = "secret"
    """The column that the attacker is after."""
    view: bool = False

    @property
    def table(self) -> str:
        """The table that it is, or that its view reads."""
        return self.name.removesuffix("_v")


TABLES = (
    Shape("masked"),
    Shape("filtered"),
    Shape("both"),
    Shape("parted"),
    Shape("hidden", secret=HIDDEN_COLUMN),
    Shape("denied"),
)
SHAPES = (*TABLES, *(Shape(f"{shape.name}_v", shape.secret, view=True) for shape in TABLES))
MASKED = frozenset({"masked", "both", "parted"})
FILTERED = frozenset({"filtered", "both", "parted"})


def _visible(i: int, *, masked: bool) -> str:
    """Row `i` of those that nobody filters out; its masked values are canaries where masks are."""
    street, tag = (f"{STEM} St {i}", f"{STEM}-t{i}") if masked else (f"Elm {i}", f"u{i}")
    values = (
        str(i),
        "NULL" if i == 4 else f"'{('Ann Bell', 'Bo', 'Chen Wei', 'Ann Bell', 'Elif', 'Gia')[i % 6]}'",
        f"'{STEM}-s-{i}'" if masked else f"'pin-{i}'",
        str(913_370_000 + i if masked else 100 * i),
        f"DATE'1971-03-1{i}'" if masked else f"DATE'19{80 + i}-05-0{i}'",
        f"'{('EMEA', 'APAC')[i % 2]}'",
        "NULL" if i == 5 else f"array('t{i % 3}', '{tag}')",
        "NULL"
        if i == 3
        else f"named_struct('street', '{street}', 'zip', {913_370_000 + i if masked else i})",
        f"map('k', {913_370_000 + i if masked else i}, 'm', {i * i})",
    )
    return "(" + ", ".join(values) + ")"


def _hidden() -> str:
    """A query of the rows that filters hide: every value of theirs is a canary."""
    return (
        f"SELECT CAST({HIDDEN_ID - 1} + id + 1 AS INT), concat('{STEM}-n-', id), concat('{STEM}-h-', id), "
        f"CAST(913390000 + id AS INT), DATE'1871-03-11', '{HIDDEN_REGION}', array('{STEM}-t'), "
        f"named_struct('street', '{STEM} St', 'zip', 913370000), map('k', 913370000) "
        f"FROM range({HIDDEN_ROWS})"
    )


def _table(shape: str) -> str:
    rows = ", ".join(
        _visible(i, masked=shape in MASKED or shape in ("denied", "hidden")) for i in range(1, 7)
    )
    casts = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in COLUMNS.items())
    if shape == "hidden":
        # Of these columns one is secret; the others are as anybody may see them.
        rows = ", ".join(_visible(i, masked=False) for i in range(1, 7))
        casts += f", concat('{STEM}-s-', id) AS {HIDDEN_COLUMN}"
    query = f"SELECT * FROM VALUES {rows}"
    if shape in FILTERED:
        query = f"{_hidden()} UNION ALL {query}"
    partitions = "PARTITIONED BY (region)" if shape == "parted" else ""
    return (
        f"CREATE TABLE {LIVE}.{shape} USING parquet {partitions} AS SELECT /*+ COALESCE(1) */ {casts} "
        f"FROM ({query}) AS t({', '.join(COLUMNS)})"
    )


def _copied(shape: str) -> str:
    names = [name for name in COLUMNS if not (shape == "parted" and name == "region")]
    if shape == "parted":
        names.append("region")  # where Spark puts columns of partitions
    masks = MASKS if shape in MASKED else {}
    shown = ", ".join(f"CAST({masks.get(name, name)} AS {COLUMNS[name]}) AS {name}" for name in names)
    partitions = "PARTITIONED BY (region)" if shape == "parted" else ""
    where = WHERE if shape in FILTERED else "TRUE"
    return (
        f"CREATE TABLE {COPY}.{shape} USING parquet {partitions} AS SELECT /*+ COALESCE(1) */ {shown} "
        f"FROM {LIVE}.{shape} WHERE {where}"
    )


def statements() -> Iterator[str]:
    """Yield the SQL that builds both databases, and those to write to."""
    for database in (LIVE, COPY, MINE, HERS):
        yield f"CREATE DATABASE {database}"
    for database in (LIVE, COPY):
        yield (
            f"CREATE TABLE {database}.open USING parquet AS SELECT CAST(id AS INT) AS id, name, region "
            "FROM VALUES (1, 'Ann', 'EMEA'), (2, 'Bo', 'APAC'), (3, NULL, 'EMEA') AS t(id, name, region)"
        )
    for shape in TABLES:
        yield _table(shape.name)
        # As the invoker nobody reads a view of a column that they may not select: this one does without.
        names = ", ".join(COLUMNS) if shape.name == "hidden" else "*"
        yield f"CREATE VIEW {LIVE}.{shape.name}_v AS SELECT {names} FROM {LIVE}.{shape.name}"
        if shape.name != "denied":
            yield _copied(shape.name)
            yield f"CREATE VIEW {COPY}.{shape.name}_v AS SELECT {names} FROM {COPY}.{shape.name}"


def drops() -> Iterator[str]:
    for database in (LIVE, COPY, MINE, HERS):
        yield f"DROP DATABASE IF EXISTS {database} CASCADE"


def build(spark: Spark) -> None:
    """Make both databases anew.

    On a busy machine Spark now and then does not find the partitioned table that it makes; then once more.
    """
    try:
        spark.query(*drops(), *statements(), user="loader")
    except OperationalError:
        spark.query(*drops(), *statements(), user="loader")


_DIRECT = {LIVE: COPY, MINE: HERS}
_NAMES = re.compile("|".join(_DIRECT), re.IGNORECASE)
_BYTES = re.compile("|".join(_DIRECT).encode(), re.IGNORECASE)


def over_the_copy(text: str) -> str:
    """Return the same statement over what a direct connection may read and write."""
    return _NAMES.sub(lambda name: _DIRECT[name[0].lower()], text)


def bytes_over_the_copy(data: bytes) -> bytes:
    """Return the same plan; the names are of one length, so that no length within it changes."""
    return _BYTES.sub(lambda name: _DIRECT[name[0].lower().decode()].encode(), data)


def write_settings(directory: Path, spark: Spark) -> Path:
    """Write settings and users of a gateway before these tables."""
    directory.mkdir()
    directory.chmod(0o711)
    for user in (ATTACKER, OWNER):
        set_user(directory / "users.yaml", user, password=PASSWORD)
    settings = {
        "listeners": {"thrift": {"port": 0}, "connect": {"port": 0}, "admin": {"port": 0}},
        "backend": spark.backend_settings(directory),
        # So that a star has an answer to compare, and that a view opens nothing by itself.
        "policies": {"paths": [str(PACK)], "star": "visible", "views": "invoker"},
        "users": {"file": "users.yaml"},
        "ledger": {"directory": "ledger", "embedded": {"directory": "postgres"}},
        "logging": {"format": "json"},
    }
    file = directory / "gateway.yaml"
    file.write_text(json.dumps(settings))
    return file
