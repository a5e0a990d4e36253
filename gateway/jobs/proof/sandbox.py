"""A Spark of the job's own, in whose catalog tables stand under their real names over files of the job's.

Its catalog is in memory and nobody else's, so that a name can mean the sample now and a copy then. The files
lie in a directory that only the job's user can enter, and go with the sandbox.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.errors import Faults
from gateway.jobs.proof.copies import Recipe
from gateway.model.catalog import Table, TableName

CATALOG = "spark_catalog"
HALVES = 3
"""Files that a sample is in, in both orders of its rows."""
_DIGITS = 9
"""Of a float that are compared: sums of floats go by the order of rows."""


class Failed(Exception):
    """Spark refused or broke a statement; the text is the condition's name, never a value."""


class TooLarge(Exception):
    """A statement has more rows than are compared."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a statement shows: names of columns, and rows in a form that can be compared."""

    names: tuple[str, ...]
    rows: tuple[str, ...]

    def less(self, other: Rows) -> int:
        """Return how many rows the other has not."""
        return (Counter(self.rows) - Counter(other.rows)).total()

    def is_like(self, other: Rows) -> bool:
        """Whether both are the same multiset of rows, under the same names."""
        return self.names == other.names and Counter(self.rows) == Counter(other.rows)


class Sandbox:
    """Holds samples and copies; `close` leaves nothing of them."""

    def __init__(self, spark: Any, directory: Path, *, rows: int) -> None:
        """Make the directory. `rows`: most of one statement. Raises Faults for a catalog that is shared."""
        if str(spark.conf.get("spark.sql.catalogImplementation")) != "in-memory":
            raise Faults(["a proof needs a Spark of its own, with a catalog in memory; it has another one"])
        self._spark = spark
        self._directory = directory
        self._most = rows
        self._places = 0
        self._databases: set[str] = set()
        self._standing: dict[TableName, Path] = {}
        self._samples: dict[TableName, tuple[Table, Path, Path]] = {}
        self._copies: dict[tuple[TableName, str], Path] = {}
        self._there = {row[0] for row in spark.sql("SHOW DATABASES").collect()} - {"default"}
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o700)

    def close(self) -> None:
        """Remove tables, databases and files."""
        for name in list(self._standing):
            self._drop(name)
        for database in self._databases:
            self._spark.sql(f"DROP DATABASE IF EXISTS {_quoted(database)} CASCADE")
        shutil.rmtree(self._directory, ignore_errors=True)

    def knows(self, name: TableName) -> bool:
        """Whether there is a sample of the table."""
        return name.folded() in self._samples

    def add(self, table: Table, sample: Any) -> None:
        """Keep the rows of a table, a `pyarrow.Table` with its columns. Raises Failed."""
        from pyarrow import parquet

        name = table.name.folded()
        places = (self._place(), self._place())
        turned = sample.take(list(range(sample.num_rows - 1, -1, -1)))
        for place, rows in zip(places, (sample, turned), strict=True):
            step = max(1, -(-rows.num_rows // HALVES))
            for part in range(HALVES):
                parquet.write_table(rows.slice(part * step, step), place / f"{part}.parquet")
        self._samples[name] = (table, *places)

    def governed(self, names: Sequence[TableName], text: str, *, turned: bool = False) -> Rows:
        """Run a text over samples; `turned`: with their rows in the other order. Raises Failed, TooLarge."""
        for name in names:
            table, *places = self._samples[name.folded()]
            self._stand(table, places[1 if turned else 0])
        return self._run(text)

    def copied(
        self, recipes: Mapping[TableName, Recipe], text: str, catalog: str, namespace: Sequence[str]
    ) -> Rows:
        """Run a text, as its user sent it, over copies. Raises Failed, TooLarge."""
        made = {name: self._copy(name.folded(), recipe) for name, recipe in recipes.items()}
        for name, place in made.items():
            table = self._samples[name.folded()][0]
            self._stand(table, place, recipes[name].columns)
        self._database(namespace[0])
        self._run(f"USE {_quoted(catalog)}.{_quoted(namespace[0])}")
        try:
            return self._run(text)
        finally:
            self._spark.sql(f"USE {CATALOG}.default")

    def stand(self, names: Sequence[TableName]) -> None:
        """Have names mean samples: filters may read other tables than their own."""
        for name in names:
            table, place, _ = self._samples[name.folded()]
            self._stand(table, place)

    def _copy(self, name: TableName, recipe: Recipe) -> Path:
        """Write the table as its user may see it, of the sample that stands."""
        from pyarrow import array, parquet

        key = (name, recipe.digest)
        if key in self._copies:
            return self._copies[key]
        table, sample, _ = self._samples[name]
        self._stand(table, sample)
        customs = dict(recipe.customs)
        shown = ", ".join(
            f"{customs[one]} AS {_quoted(one)}" if one in customs else _quoted(one) for one in recipe.columns
        )
        where = f" WHERE {recipe.rows}" if recipe.rows is not None else ""
        inner = f"SELECT * FROM {_dotted(name)} AS {_quoted(name.table)}{where}"
        rows = self._arrow(f"SELECT {shown or '1 AS nothing'} FROM ({inner})")
        for column, mask in recipe.masks:
            at = rows.schema.get_field_index(column)
            kind = rows.schema.field(at).type
            masked = array([mask(value) for value in rows.column(at).to_pylist()], type=kind)
            rows = rows.set_column(at, column, masked)
        place = self._place()
        parquet.write_table(rows, place / "0.parquet")
        self._copies[key] = place
        return place

    def _stand(self, table: Table, place: Path, only: Sequence[str] | None = None) -> None:
        name = table.name.folded()
        if self._standing.get(name) == place:
            return
        self._drop(name)
        self._database(name.database)
        columns = ", ".join(
            f"{_quoted(one.name)} {one.type}" for one in table.columns if only is None or one.name in only
        )
        self._spark.sql(f"CREATE TABLE {_dotted(name)} ({columns}) USING parquet LOCATION '{place}'")
        self._standing[name] = place

    def _database(self, name: str) -> None:
        folded = name.lower()
        if folded == "default" or folded in self._databases:
            return
        if folded in self._there:
            raise Faults([f"the proof's Spark has a database `{folded}` already"])
        place = self._directory / "databases" / str(len(self._databases))
        self._spark.sql(f"CREATE DATABASE {_quoted(folded)} LOCATION '{place}'")
        self._databases.add(folded)

    def _drop(self, name: TableName) -> None:
        if self._standing.pop(name, None) is not None:
            self._spark.sql(f"DROP TABLE IF EXISTS {_dotted(name)}")

    def _place(self) -> Path:
        self._places += 1
        place = self._directory / str(self._places)
        place.mkdir(mode=0o700)
        return place

    def _run(self, text: str) -> Rows:
        try:
            frame = self._spark.sql(text)
            rows = frame.limit(self._most + 1).collect() if frame.columns else []
        except spark_errors() as error:
            raise Failed(condition_of(error)) from None
        if len(rows) > self._most:
            raise TooLarge
        return Rows(tuple(frame.columns), tuple(repr(_plain(tuple(row))) for row in rows))

    def _arrow(self, text: str) -> Any:
        try:
            return self._spark.sql(text).toArrow()
        except spark_errors() as error:
            raise Failed(condition_of(error)) from None


def _plain(value: Any) -> Any:
    """Return a value in a form that is the same for the same value."""
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    if isinstance(value, dict):
        return sorted((repr(_plain(key)), repr(_plain(one))) for key, one in value.items())
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, bytearray):
        return bytes(value)
    return value


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _dotted(name: TableName) -> str:
    return ".".join(_quoted(part) for part in name.parts)


def condition_of(error: Any) -> str:
    """Return the name of what went wrong: messages may quote values."""
    try:
        name = error.getCondition()
    except (AttributeError, NotImplementedError):
        name = None
    return str(name or type(error).__name__)[:100]


def spark_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises, of both kinds of sessions."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (PySparkException, Py4JError)
