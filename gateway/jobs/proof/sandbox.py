"""A Spark of the job's own, in whose catalog tables and views stand under their real names over files of the
job's.

Its catalog is in memory and nobody else's, so that a name can mean the sample now and a copy then. The files
lie in a directory that only the job's user can enter, and go with the sandbox.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

from gateway.errors import Faults
from gateway.jobs.proof.copies import Recipe, Unprovable
from gateway.jobs.proof.masking import Mask, mask_null
from gateway.jobs.proof.rows import Rows, within_python
from gateway.jobs.proof.stopping import Stopped
from gateway.jobs.spark import NotCollected, collect, condition_of, spark_errors
from gateway.model.catalog import Table, TableName, levels, quote, quote_parts
from gateway.model.files import SESSION_CATALOG

HALVES = 3
"""Files that a sample is in, in both orders of its rows."""
UNMADE = "a view that it reads cannot be recreated over samples"
UNHELD = "it returns a value that Python cannot represent"
NOT_COLLECTED = "PySpark cannot collect its rows, for example because collations conflict"


class Failed(Exception):
    """Spark refused or broke a statement; the text is the condition's name, never a value."""


class TooLarge(Exception):
    """A statement has more rows than are compared."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A table of some columns, over files."""

    table: Table
    place: Path
    columns: tuple[str, ...]


class Sandbox:
    """Holds samples and copies; `close` leaves nothing of them."""

    def __init__(self, spark: Any, directory: Path, *, rows: int) -> None:
        """Make the directory. `rows`: most of one statement. Raises Faults for a catalog that is shared."""
        if str(spark.conf.get("spark.sql.catalogImplementation")) != "in-memory":
            raise Faults(
                ["a proof needs a Spark of its own with an in-memory catalog; this one has another catalog"]
            )
        # A statement that fails fails with a value in its message, which Spark would log.
        spark.sparkContext.setLogLevel("FATAL")
        self._spark = spark
        self._directory = directory
        self._most = rows
        self._places = 0
        self._databases: set[str] = set()
        self._standing: dict[TableName, Standing | Table] = {}
        """What a name means; a view that stands as such is a Table."""
        self._samples: dict[TableName, tuple[Standing, Standing]] = {}
        self._views: dict[TableName, Table] = {}
        self._stood: Sequence[TableName] = ()
        self.stop = Event()
        """Once it is set, calls raise Stopped instead of running anything more."""
        self._copies: dict[tuple[TableName, str, Path], Standing] = {}
        self._shown: dict[tuple[TableName, tuple[Standing, ...]], Standing] = {}
        self._there = {row[0] for row in spark.sql("SHOW DATABASES").collect()} - {"default"}
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o700)

    def close(self) -> None:
        """Remove tables, databases and files."""
        for name in list(self._standing):
            self._drop(name)
        for database in self._databases:
            self._spark.sql(f"DROP DATABASE IF EXISTS {quote(database)} CASCADE")
        shutil.rmtree(self._directory, ignore_errors=True)

    def knows(self, name: TableName) -> bool:
        """Whether there is a sample of the table, or it is a view."""
        return name.fold() in self._samples or name.fold() in self._views

    def table(self, name: TableName) -> Table:
        """Return a table or view that is known."""
        folded = name.fold()
        return self._views[folded] if folded in self._views else self._samples[folded][0].table

    def add(self, table: Table, sample: Any) -> None:
        """Keep the rows of a table, a `pyarrow.Table` with its columns. Raises Failed."""
        from pyarrow import ArrowException, parquet

        places = (self._place(), self._place())
        turned = sample.take(list(range(sample.num_rows - 1, -1, -1)))
        for place, rows in zip(places, (sample, turned), strict=True):
            step = max(1, -(-rows.num_rows // HALVES))
            for part in range(HALVES):
                try:
                    parquet.write_table(rows.slice(part * step, step), place / f"{part}.parquet")
                except ArrowException as error:
                    raise Failed(type(error).__name__) from None
        first, second = (Standing(table, place, _names(table)) for place in places)
        self._samples[table.name.fold()] = first, second

    def add_view(self, view: Table) -> None:
        """Keep a view."""
        self._views[view.name.fold()] = view

    def register_samples(self, names: Sequence[TableName], *, turned: bool = False) -> None:
        """Register samples under their names, and views over them; whatever a view reads comes before it.
        `turned`: with rows in the other order. Raises Unprovable."""
        self._stood = names
        for name in (one.fold() for one in names):
            if name in self._views:
                self._stand_view(self._views[name])
            else:
                self._stand(self._samples[name][1 if turned else 0])

    def run_over_copies(
        self, copies: Mapping[TableName, Standing], text: str, catalog: str, namespace: Sequence[str]
    ) -> Rows:
        """Run a text, as its user sent it, over copies, and over what stands of all else. Raises Failed,
        TooLarge, Unprovable, Stopped."""
        for one in copies.values():
            self._stand(one)
        with self._within(catalog, namespace):
            return self.run(text)

    def copy(self, table: Table, recipe: Recipe, base: Standing | None = None) -> Standing:
        """Write a table as it may be seen: of its sample, or of `base`, with the others as they stand. Raises
        Failed, Unprovable, Stopped."""
        from pyarrow import parquet

        name = table.name.fold()
        base = base or self._samples[name][0]
        key = (name, recipe.digest, base.place)
        if key in self._copies:
            return self._copies[key]
        self._stand(base)
        customs = dict(recipe.customs)
        shown = ", ".join(
            f"{customs[one]} AS {quote(one)}" if one in customs else quote(one) for one in recipe.columns
        )
        where = f" WHERE {recipe.rows}" if recipe.rows is not None else ""
        inner = f"SELECT * FROM {quote_parts(name.parts)} AS {quote(name.table)}{where}"
        try:
            rows = self._arrow(f"SELECT {shown or '1 AS nothing'} FROM ({inner})")
        finally:
            self.register_samples(self._stood)
        for column, mask in recipe.masks:
            at = rows.schema.get_field_index(column)
            try:
                rows = rows.set_column(at, column, _mask_values(rows.column(at), mask))
            except (ValueError, OverflowError):
                raise Unprovable(UNHELD) from None
        place = self._place()
        parquet.write_table(rows, place / "0.parquet")
        self._copies[key] = Standing(table, place, recipe.columns)
        return self._copies[key]

    def write_view(self, view: Table, copies: Mapping[TableName, Standing]) -> Standing:
        """Write what a view's text gives over copies of what it reads. Raises Failed, TooLarge,
        Unprovable, Stopped."""
        from pyarrow import parquet

        key = (view.name.fold(), tuple(copies.values()))
        if key in self._shown:
            return self._shown[key]
        for one in copies.values():
            self._stand(one)
        try:
            rows = self._body(view)
        finally:
            self.register_samples(self._stood)
        if rows.num_rows > self._most:
            raise TooLarge
        place = self._place()
        parquet.write_table(rows, place / "0.parquet")
        self._shown[key] = Standing(view, place, _names(view))
        return self._shown[key]

    def finds(self, view: Table, table: Table, columns: Sequence[str]) -> bool:
        """Whether a view's text has all its columns where a table has these only."""
        self._stand(Standing(table, self._place(), tuple(columns)))
        try:
            with self._within_view(view) as text:
                return len(self._spark.sql(text).columns) == len(view.columns)
        except spark_errors():
            return False
        finally:
            self.register_samples(self._stood)

    def _body(self, view: Table) -> Any:
        """Return the rows of a view's text as an Arrow table, under the view's names and types."""
        from pyspark.sql import functions as f

        self._require_going_on()
        try:
            with self._within_view(view) as text:
                frame = self._spark.sql(text)
                found = frame.toDF(*(str(at) for at in range(len(frame.columns))))
                if len(frame.columns) != len(view.columns):
                    raise Failed("VIEW_COLUMNS")
                typed = (f.col(str(at)).cast(one.type).alias(one.name) for at, one in enumerate(view.columns))
                return found.select(*typed).limit(self._most + 1).toArrow()
        except spark_errors() as error:
            raise Failed(condition_of(error)) from None

    def _stand(self, standing: Standing) -> None:
        name = standing.table.name.fold()
        if self._standing.get(name) == standing:
            return
        self._drop(name)
        self._database(name.database)
        columns = ", ".join(
            f"{quote(one.name)} {one.type}" for one in standing.table.columns if one.name in standing.columns
        )
        location = f"USING parquet LOCATION '{standing.place}'"
        self._spark.sql(f"CREATE TABLE {quote_parts(name.parts)} ({columns}) {location}")
        self._standing[name] = standing

    def _stand_view(self, view: Table) -> None:
        name = view.name.fold()
        if self._standing.get(name) == view:
            return
        self._drop(name)
        self._database(name.database)
        columns = ", ".join(quote(one.name) for one in view.columns)
        try:
            with self._within_view(view) as text:
                self._spark.sql(f"CREATE VIEW {quote_parts(name.parts)} ({columns}) AS {text}")
        except spark_errors():
            raise Unprovable(UNMADE) from None
        self._standing[name] = view

    @contextmanager
    def _within_view(self, view: Table) -> Iterator[str]:
        """Resolve names as a view's text does, and return that text."""
        body = view.view
        if body is None:
            raise Unprovable(UNMADE)
        with self._within(body.catalog, levels(body.database)):
            yield body.text

    @contextmanager
    def _within(self, catalog: str, namespace: Sequence[str]) -> Iterator[None]:
        self._database(namespace[0])
        self._spark.sql(f"USE {quote(catalog)}.{quote(namespace[0])}")
        try:
            yield
        finally:
            self._spark.sql(f"USE {SESSION_CATALOG}.default")

    def _database(self, name: str) -> None:
        folded = name.lower()
        if folded == "default" or folded in self._databases:
            return
        if folded in self._there:
            raise Faults([f"the proof's Spark already has a database `{folded}`"])
        place = self._directory / "databases" / str(len(self._databases))
        self._spark.sql(f"CREATE DATABASE {quote(folded)} LOCATION '{place}'")
        self._databases.add(folded)

    def _drop(self, name: TableName) -> None:
        there = self._standing.pop(name, None)
        if there is not None:
            kind = "VIEW" if isinstance(there, Table) else "TABLE"
            self._spark.sql(f"DROP {kind} IF EXISTS {quote_parts(name.parts)}")

    def _place(self) -> Path:
        self._places += 1
        place = self._directory / str(self._places)
        place.mkdir(mode=0o700)
        return place

    def run(self, text: str) -> Rows:
        """Run a text over what stands. Raises Failed, TooLarge, Unprovable, Stopped."""
        self._require_going_on()
        try:
            frame = self._spark.sql(text)
            rows = collect(within_python(frame).limit(self._most + 1)) if frame.columns else []
        except NotCollected:
            raise Unprovable(NOT_COLLECTED) from None
        except spark_errors() as error:
            raise Failed(condition_of(error)) from None
        except (ValueError, OverflowError):
            raise Unprovable(UNHELD) from None
        if len(rows) > self._most:
            raise TooLarge
        return Rows.of(frame.columns, rows)

    def _arrow(self, text: str) -> Any:
        self._require_going_on()
        try:
            return self._spark.sql(text).toArrow()
        except spark_errors() as error:
            raise Failed(condition_of(error)) from None

    def _require_going_on(self) -> None:
        if self.stop.is_set():
            raise Stopped


def _names(table: Table) -> tuple[str, ...]:
    return tuple(one.name for one in table.columns)


def _mask_values(values: Any, mask: Mask) -> Any:
    """Return what stands in place of a column's values: dates are masked as days, all others as Python has
    them."""
    from pyarrow import array, int32, nulls, types

    if mask is mask_null:
        return nulls(len(values), values.type)
    plain = values.cast(int32()) if types.is_date32(values.type) else values
    return array([mask(value) for value in plain.to_pylist()], type=plain.type).cast(values.type)
