"""What a job reads of tables, through a session of Spark that is a client of the gateway's.

Every statement here is judged like any client's, so rows that are filtered do not come and masked values come
masked. All is bounded: columns of a statement, rows, characters of a value, bytes of a table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import Any, NamedTuple

from gateway.errors import BackendUnavailable
from gateway.jobs.classification.scoring import Sampled
from gateway.jobs.spark import condition_of, spark_errors
from gateway.model.catalog import join_namespace, levels, namespaces_in, quote, quote_parts
from gateway.model.files import SESSION_CATALOG

COLUMNS_AT_ONCE = 50
"""Maximum number of columns that one statement reads."""
MAX_NAMESPACES = 50_000
"""Maximum number of namespaces of a catalog, as the gateway has it, which also limits levels."""
MAX_PARTITIONS = 10_000
"""Values of partition columns that strata are chosen of."""
NESTED_CHARS = 8
"""How many times a plain value's characters a nested one may have."""
LONG_DIGITS = 6
"""So many has a whole number that is not taken for a measure: the shortest numbers of documents have them."""
MAX_DIGITS = 40
"""Maximum number of digits of a whole number; Spark's decimals have 38."""
_VOLATILE = re.compile(r"last access|created by|^owner$|current-snapshot-timestamp", re.IGNORECASE)
"""Lines of DESCRIBE that change with every call or say nothing about the data."""
_SEED = 17


class TableParts(NamedTuple):
    """A table's name, lower case, as proposals have it."""

    catalog: str
    database: str
    """Name of the database; all levels of a nested namespace, joined by dots."""
    table: str

    @property
    def name(self) -> str:
        return ".".join(self)

    @property
    def quoted(self) -> str:
        return quote_parts((self.catalog, *levels(self.database), self.table))


class SampledColumn(NamedTuple):
    name: str
    type: str
    """As Spark writes it, lower case."""

    @property
    def kind(self) -> str:
        """The rules' name for its type; empty for types that are not classified."""
        return kind_of(self.type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A table as the principal sees it."""

    columns: tuple[SampledColumn, ...]
    partitioned_by: tuple[str, ...]
    is_view: bool
    details: str
    """A digest of what else Spark says of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much of a table is read."""

    columns: int = 1_000
    rows: int = 1_000
    bytes: int = 8 * 1024**2
    value_chars: int = 1_000
    strata: int = 8
    """Partitions that rows are taken from."""
    sample_percent: float = 1.0
    """Percentage sampled of a table without partitions, beyond its first rows."""


@dataclass(slots=True, kw_only=True)
class Sample:
    """Values that were read from a table."""

    columns: dict[str, Sampled] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Columns that the principal may not read."""
    reason: str = ""
    """Why, for the first of them: the class of the error."""


class Unreadable(Exception):
    """Spark or the gateway refuses the table; the text is the condition's name and never a value."""


class Unconverted(Unreadable):
    """Spark has a value that Python has not: a text that is no UTF-8, a day beyond Python's years."""


class GatewaySource:
    """Asks a PySpark session. Its calls block, and belong into a thread."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._views: set[TableParts] = set()
        self._spelt: dict[TableParts, str] = {}
        """Tables quoted as they were listed: there are catalogs that tell capitals from small letters."""

    def check(self) -> None:
        """Raise BackendUnavailable where nothing can be read any more, of whichever table."""
        try:
            self._rows("SELECT 1")
        except Unreadable as error:
            raise BackendUnavailable(f"the gateway does not answer: {error}") from None

    def user(self) -> str:
        """Return whose policies hold for what is read. Raises BackendUnavailable."""
        try:
            return str(self._rows("SELECT current_user()")[0][0])
        except Unreadable as error:
            raise BackendUnavailable(f"the gateway does not report the user: {error}") from None

    def tables(self, catalog: str) -> list[TableParts]:
        """Return the tables of a catalog that the principal sees. Raises Unreadable."""
        found = []
        for database in self._namespaces(catalog):
            try:
                found += self._list_shown("TABLES", catalog, database)
            except Unreadable:
                continue  # it has gone since, or nothing in it is for us
            with suppress(Unreadable):  # a catalog that has none does not know the statement
                self._views.update(self._list_shown("VIEWS", catalog, database))
        return sorted(found)

    def _namespaces(self, catalog: str) -> list[tuple[str, ...]]:
        """Return the namespaces of a catalog, level by level."""
        found: list[tuple[str, ...]] = []
        level = self._list_names("DATABASES", catalog)
        while level:
            found += level
            if len(found) > MAX_NAMESPACES:
                raise Unreadable(f"more than {MAX_NAMESPACES:,} databases")
            if catalog.lower() == SESSION_CATALOG:
                break  # it has one level
            below: list[tuple[str, ...]] = []
            for above in level:
                with suppress(Unreadable):  # of a catalog that has no nested ones
                    below += self._list_names("NAMESPACES", catalog, above)
            level = below
        return found

    def _list_names(self, what: str, catalog: str, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        rows = self._rows(f"SHOW {what} IN {quote_parts((catalog, *above))}")
        return namespaces_in(above, (str(row[0]) for row in rows))

    def _list_shown(self, what: str, catalog: str, namespace: tuple[str, ...]) -> list[TableParts]:
        rows = self._rows(f"SHOW {what} IN {quote_parts((catalog, *namespace))}")
        found = []
        for _, name, temporary, *_ in rows:
            if not temporary:
                table = TableParts(catalog.lower(), join_namespace(namespace).lower(), str(name).lower())
                self._spelt[table] = quote_parts((catalog, *namespace, str(name)))
                found.append(table)
        return found

    def _quote(self, table: TableParts) -> str:
        return self._spelt.get(table, table.quoted)

    def describe(self, table: TableParts) -> Described:
        """Return what a table is. Raises Unreadable."""
        try:
            rows = self._rows(f"DESCRIBE TABLE EXTENDED {self._quote(table)}")
        except Unreadable:
            rows = self._rows(f"DESCRIBE TABLE {self._quote(table)}")
        columns: list[SampledColumn] = []
        partitions: list[str] = []
        details = []
        section = "columns"
        view = False
        for name, kind, *_ in ((str(row[0] or ""), str(row[1] or "")) for row in rows):
            # Only headings have no type: a column that is named like one hides none behind it.
            if not kind and (name.startswith("# ") or not name):
                section = name.lower() or "between"
            elif (name, kind) == ("# col_name", "data_type"):
                continue
            elif section == "columns":
                columns.append(SampledColumn(name, kind.lower()))
            elif section.startswith("# partition"):
                partitions.append(kind if name.lower().startswith("part ") else name)
            else:
                view = view or (name == "Type" and kind == "VIEW")
                if not _VOLATILE.search(name):
                    details.append((name, kind))
        known = {column.name for column in columns}
        return Described(
            columns=tuple(columns),
            # Transforms of a column, such as `days(at)`, are no columns to be compared with.
            partitioned_by=tuple(one for one in dict.fromkeys(partitions) if one in known),
            # Whoever may not see a view's text is told of its columns alone.
            is_view=view or table in self._views,
            details=digest([repr(one) for one in details], [repr(tuple(one)) for one in columns]),
        )

    def partitions(self, table: TableParts, described: Described) -> list[tuple[Any, ...]]:
        """Return the values of partition columns, in order; none where Python has not all of them. Raises
        Unreadable."""
        if not described.partitioned_by:
            return []
        names = ", ".join(map(quote, described.partitioned_by))
        try:
            rows = self._rows(f"SELECT DISTINCT {names} FROM {self._quote(table)} LIMIT {MAX_PARTITIONS}")
        except Unconverted:
            return []  # what is read of the columns comes as text
        return sorted(rows, key=repr)

    def sample(
        self, table: TableParts, described: Described, partitions: Sequence[tuple[Any, ...]], limits: Limits
    ) -> Sample:
        """Read some of each column. Raises Unreadable where none can be read."""
        sample = Sample()
        wanted = [column for column in described.columns[: limits.columns] if column.kind]
        for column in described.columns[: limits.columns]:
            sample.columns[column.name] = Sampled(
                name=column.name,
                kind=column.kind,
                values=[],
                fields=fields_of(column.type),
                maps="map<" in column.type,
            )
        strata = _Strata(self._quote(table), described, pick_evenly(partitions, limits.strata), limits)
        for at in range(0, len(wanted), COLUMNS_AT_ONCE):
            group = wanted[at : at + COLUMNS_AT_ONCE]
            budget = limits.bytes * len(group) // len(wanted)
            self._read(group, strata, budget, sample)
        if wanted and len(sample.unreadable) == len(wanted):
            raise Unreadable(sample.reason)
        for name in sample.unreadable:
            del sample.columns[name]
        return sample

    def _read(self, group: Sequence[SampledColumn], strata: _Strata, budget: int, sample: Sample) -> None:
        """Read a group of columns; of one that is refused, halves, down to the columns that are."""
        try:
            found = self._values(group, strata, budget)
        except Unreadable as error:
            if len(group) == 1:
                sample.unreadable.append(group[0].name)
                sample.reason = sample.reason or str(error)
                return
            half = len(group) // 2
            self._read(group[:half], strata, budget * half // len(group), sample)
            self._read(group[half:], strata, budget * (len(group) - half) // len(group), sample)
            return
        for column, values in zip(group, found.values, strict=True):
            sampled = replace(sample.columns[column.name], values=values)
            if column.kind == "fraction" and (whole := whole_numbers(values)):
                sampled = replace(sampled, kind="integer", values=whole)
            sample.columns[column.name] = sampled
        sample.rows = max(sample.rows, found.rows)
        sample.bytes += found.bytes

    def _values(self, group: Sequence[SampledColumn], strata: _Strata, budget: int) -> _Read:
        read = _Read(values=[[] for _ in group])
        queries = strata.queries(group)
        for number, (text, arguments) in enumerate(queries, 1):
            # What one stratum leaves the next may have.
            self._take(text, arguments, budget * number // len(queries), read)
            if not read.spent and strata.is_whole(read.rows, number):
                break
        return read

    def _take(self, text: str, arguments: Mapping[str, Any], until: int, read: _Read) -> None:
        with _readable():
            frame = self._session.sql(text, args=dict(arguments)) if arguments else self._session.sql(text)
            rows = frame.toLocalIterator()
            for row in rows:
                read.rows += 1
                for values, value in zip(read.values, row, strict=True):
                    if value is not None:
                        values.append(value)
                        read.bytes += len(value.encode("utf-8", "replace"))
                if read.bytes >= until:
                    read.spent = True
                    break

    def _rows(self, text: str) -> list[tuple[Any, ...]]:
        with _readable():
            return [tuple(row) for row in self._session.sql(text).collect()]


@dataclass(slots=True)
class _Read:
    values: list[list[str]]
    rows: int = 0
    bytes: int = 0
    spent: bool = False
    """Whether a statement's rows were left for the bytes that they had."""


@dataclass(frozen=True, slots=True)
class _Strata:
    """The statements that sample a table."""

    table: str
    """As statements have it."""
    described: Described
    partitions: Sequence[tuple[Any, ...]]
    limits: Limits

    def queries(self, columns: Sequence[SampledColumn]) -> list[tuple[str, dict[str, Any]]]:
        """Return texts with their arguments."""
        what = ", ".join(_expression(column, self.limits.value_chars) for column in columns)
        select = f"SELECT {what} FROM {self.table}"
        if not self.partitions:
            half = max(1, self.limits.rows // 2)
            thinned = f"TABLESAMPLE ({self.limits.sample_percent:f} PERCENT) REPEATABLE ({_SEED})"
            return [
                (f"{select} LIMIT {half}", {}),
                (f"{select} {thinned} LIMIT {half}", {}),
            ]
        found = []
        of_each = max(1, self.limits.rows // len(self.partitions))
        for values in self.partitions:
            tests, arguments = [], {}
            for number, (name, value) in enumerate(zip(self.described.partitioned_by, values, strict=True)):
                if value is None:
                    tests.append(f"{quote(name)} IS NULL")
                else:
                    tests.append(f"{quote(name)} = :p{number}")
                    arguments[f"p{number}"] = value
            found.append((f"{select} WHERE {' AND '.join(tests)} LIMIT {of_each}", arguments))
        return found

    def is_whole(self, rows: int, queries: int) -> bool:
        """Whether nothing can be left after so many statements."""
        return not self.partitions and queries == 1 and rows < self.limits.rows // 2


def _expression(column: SampledColumn, chars: int) -> str:
    name = quote(column.name)
    if column.kind == "nested":
        return f"substring(to_json({name}), 1, {chars * NESTED_CHARS})"
    return f"substring(CAST({name} AS STRING), 1, {chars})"


def pick_evenly(found: Sequence[Any], count: int) -> list[Any]:
    """Return up to so many, evenly from the first to the last."""
    if len(found) <= count:
        return list(found)
    if count == 1:
        return [found[-1]]
    return [found[round(i * (len(found) - 1) / (count - 1))] for i in range(count)]


_TYPES = (
    ("nested", ("struct<", "array<", "map<")),
    ("text", ("string", "varchar", "char", "variant")),
    ("integer", ("tinyint", "smallint", "int", "bigint", "byte", "short", "long")),
    ("fraction", ("decimal", "double", "float")),
    ("time", ("timestamp",)),
    ("date", ("date",)),
)


def kind_of(type_: str) -> str:
    """Return what the rules call a type."""
    if re.fullmatch(r"decimal\(\d+,0\)", type_):
        return "integer"
    return next((kind for kind, starts in _TYPES if type_.startswith(starts) and type_ != "interval"), "")


@contextmanager
def _readable() -> Iterator[None]:
    """Raise Unreadable for what Spark says, and Unconverted for what Python makes of its values."""
    try:
        yield
    except spark_errors() as error:
        raise Unreadable(condition_of(error)) from None
    except (ValueError, OverflowError) as error:
        raise Unconverted(type(error).__name__) from None  # its text quotes the value


def whole_numbers(values: Sequence[str]) -> list[str]:
    """Return fractions as whole numbers; none where they are not all whole, or most are too short for a
    number that stands for something: degrees and prices may be whole by chance.

    Catalogs and data frames that know no integers write those as fractions. What is no number (NaN) stays.
    """
    found, numbers, long = [], 0, 0
    for value in values:
        try:
            number = Decimal(value)
        except InvalidOperation:
            return []
        if number.is_nan():
            found.append(value)
            continue
        if not number.is_finite() or number.adjusted() > MAX_DIGITS or number != number.to_integral_value():
            return []
        numbers += 1
        long += abs(number) >= 10 ** (LONG_DIGITS - 1)
        found.append(format(number.to_integral_value(), "f"))
    return found if numbers and 2 * long >= numbers else []


_FIELD = re.compile(r"(?:struct<|,)`?([^`:,<>]+)`?:")


def fields_of(type_: str) -> tuple[str, ...]:
    """Return the names of fields in a nested type, as far as its text shows them."""
    if not type_.startswith(_TYPES[0][1]):
        return ()
    return tuple(dict.fromkeys(islice((found[1] for found in _FIELD.finditer(type_)), 200)))


def digest(*parts: Iterable[str]) -> str:
    """Return a text that is another for other parts."""
    whole = hashlib.sha256()
    for part in parts:
        for one in part:
            data = one.encode("utf-8", "surrogatepass")
            whole.update(len(data).to_bytes(8, "big") + data)
        whole.update(b"\xff")
    return whole.hexdigest()[:32]
