"""Reads days of the record that are in the archive, in the order of a chain and within bounded memory.

The files are Parquet, `day=…/hour=…`, each sorted by gateway and position. Places are looked at first, and a
row group is read when its turn comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from gateway.audit.rows import COLUMNS
from gateway.audit.walking import Kind
from gateway.errors import LedgerUnavailable

_Row = Mapping[str, Any]
_Source = tuple[int, Callable[[], Iterator[_Row]]]
"""The first position that rows can have, and how to get them, in order of their positions."""
Tell = Callable[[Kind, str], None]
"""Given what is wrong with the archive, and where."""
BATCH_ROWS = 50
"""Texts of one may have some MB."""
BATCH_PLACES = 50_000
PLACE = ["gateway", "chain_position"]
_FILES = "hour=*/*.parquet"
_REPLACED = "_replaced"
"""Where a run keeps what it replaces, until the database knows of the new; as `jobs.tables` has it."""
NEEDED = frozenset({*COLUMNS, "erased", "chain_position", "link"})


@dataclass(frozen=True, slots=True)
class ArchivedDay:
    """A day of the archive of which the database does not have everything, by the database's word."""

    day: date
    events: int
    places: Mapping[str, tuple[int, int]]
    """Where chains are in it: the first and the last position of each gateway."""

    @property
    def name(self) -> str:
        return f"day={self.day.isoformat()}"


@dataclass(frozen=True, slots=True)
class Archive:
    """The table of archived events."""

    directory: Path
    """`audit_event` in the directory of the jobs' tables."""

    def rows(
        self, gateway: str, days: Iterable[ArchivedDay], first: int, last: int, tell: Tell
    ) -> Iterator[_Row]:
        """Yield a gateway's events from one position to another, by position; `tell` of days without files
        and of files that are none of ours, and go on.

        Raises LedgerUnavailable when nothing can be read here.
        """
        sources: list[_Source] = []
        for one in days:
            begins, ends = one.places.get(gateway, (1, 0))
            if begins <= ends and begins <= last and ends >= first:
                sources.append((max(first, begins), self._opener(one, gateway, first, last, tell)))
        if sources:
            self._require()
        yield from merge_sources(sources)

    def survey(self, one: ArchivedDay, tell: Tell) -> None:
        """Look at all that is in a day's files: `tell` of events in no place that a chain has there, of more
        or fewer than there are to be, and of files where no run puts any.

        Raises LedgerUnavailable when nothing can be read here.
        """
        self._require()
        there = astray = 0
        directory = self.directory / one.name
        ours = set(directory.glob(_FILES))
        for file in sorted(directory.rglob("*")):
            if not file.is_file() or file.name.startswith(("_", ".")):
                continue
            if file not in ours:
                tell(Kind.ADDED, f"`{file}` of the archive was not written by any run")
                continue
            with _reporting_unreadable(tell), _opened(file) as opened:
                for number in range(opened.num_row_groups):
                    for places in _places(opened, number):
                        there += places.num_rows
                        astray += places.num_rows - _in_their_places(places, one)
        if astray:
            tell(Kind.ADDED, f"{astray:,} events in `{one.name}` of the archive are outside every chain")
        if there != one.events:
            kind = Kind.ADDED if there > one.events else Kind.MISSING
            tell(kind, f"`{one.name}` of the archive has {there:,} events instead of {one.events:,}")

    def _require(self) -> None:
        _parquet()
        if not self.directory.is_dir():
            raise LedgerUnavailable(f"the archive does not exist: `{self.directory}`")
        if any((self.directory / _REPLACED).glob("day=*")):
            raise LedgerUnavailable(
                "a run of `archive` was interrupted while it moved a day into place; run `sluice jobs run "
                "archive` to repair this"
            )

    def _opener(
        self, one: ArchivedDay, gateway: str, first: int, last: int, tell: Tell
    ) -> Callable[[], Iterator[_Row]]:
        return lambda: merge_sources(_row_groups(self.directory / one.name, gateway, first, last, tell))


def merge_sources(sources: Iterable[_Source]) -> Iterator[_Row]:
    """Yield the rows of all sources by position; a source is opened when its first position comes."""
    heap: list[tuple[int, int, _Row | None, Any]] = [
        (first, number, None, opened) for number, (first, opened) in enumerate(sources)
    ]
    heapq.heapify(heap)
    while heap:
        _, number, row, more = heapq.heappop(heap)
        if row is None:
            rows = more()
        else:
            yield row
            rows = more
        following = next(rows, None)
        if following is not None:
            heapq.heappush(heap, (following["chain_position"], number, following, rows))


def _row_groups(directory: Path, gateway: str, first: int, last: int, tell: Tell) -> list[_Source]:
    """Return a day's row groups that have events of a gateway between two positions.

    They are looked at themselves: what a file says of its row groups hides no event, and pyarrow ends the
    process where it cannot read that.
    """
    files = sorted(directory.glob(_FILES))
    if not files:
        tell(Kind.MISSING, f"`{directory.name}` of the archive")
    found: list[_Source] = []
    for file in files:
        if not file.is_file():
            tell(Kind.UNREADABLE, f"`{file}` of the archive is not a file")
            continue
        with _reporting_unreadable(tell), _opened(file) as opened:
            for number in range(opened.num_row_groups):
                begins = [_least(places, gateway, first, last) for places in _places(opened, number)]
                there = [one for one in begins if one is not None]
                if there:
                    found.append((min(there), _reader(file, number, gateway, first, last, tell)))
    return found


def _places(opened: Any, number: int) -> Iterator[Any]:
    """Yield the places of a row group: a small file may have very many."""
    import pyarrow

    for batch in opened.iter_batches(batch_size=BATCH_PLACES, row_groups=[number], columns=PLACE):
        yield pyarrow.Table.from_batches([batch])


def _reader(
    file: Path, group: int, gateway: str, first: int, last: int, tell: Tell
) -> Callable[[], Iterator[_Row]]:
    hour = f"{file.parent.parent.name}/{file.parent.name}"

    def rows() -> Iterator[_Row]:
        with _reporting_unreadable(tell), _opened(file) as opened:
            # What an older version has written may be without the newest columns.
            newer = dict.fromkeys(NEEDED - set(opened.schema_arrow.names))
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
                for row in batch.to_pylist():
                    position = row["chain_position"]
                    if row["gateway"] == gateway and position is not None and first <= position <= last:
                        if (where := _of_hour(row["time"])) not in ("", hour):
                            tell(
                                Kind.CHANGED,
                                f"event {row['event_id']}, number {position} of `{gateway}`, is in "
                                f"`{hour}` of the archive, but belongs to `{where}`",
                            )
                        yield {**newer, **row} if newer else row

    return rows


def _of_hour(time: datetime | None) -> str:
    """Return where the archive has the events of a time; empty where there is none."""
    return "" if time is None else f"{time.astimezone(UTC):day=%Y-%m-%d/hour=%H}"


def _least(places: Any, gateway: str, first: int, last: int) -> int | None:
    """Return the least position from one to another that a gateway has among places; None for none."""
    from pyarrow import compute

    found: int | None = compute.min(_between(places, gateway, first, last)).as_py()
    return found


def _in_their_places(places: Any, day: ArchivedDay) -> int:
    """Return how many places are such as chains have on a day."""
    return sum(len(_between(places, gateway, *stretch)) for gateway, stretch in day.places.items())


def _between(places: Any, gateway: str, first: int, last: int) -> Any:
    """Return the positions from one to another that a gateway has among places."""
    from pyarrow import compute

    positions = places.filter(compute.field("gateway") == gateway).column("chain_position").cast("int64")
    between = compute.and_(compute.greater_equal(positions, first), compute.less_equal(positions, last))
    return positions.filter(between)


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    """Open a file of the archive; it has the columns that it must have, in types of an event's values."""
    with _readable(file), _parquet().ParquetFile(file) as opened:
        schema = opened.schema_arrow
        names = [name.lower() for name in schema.names]
        for name in names:
            if names.count(name) > 1:
                raise OSError(f"it has two columns `{name}`")
        for name in (*PLACE, "link"):
            if name not in schema.names:
                raise OSError(f"it has no column `{name}`")
        for field in schema:
            if field.name in NEEDED and not _is_of_events(field):
                raise OSError(f"its column `{field.name}` is {field.type}")
        yield opened


def _is_of_events(field: Any) -> bool:
    """Whether a column has values as an event has them."""
    from pyarrow import types

    kind = field.type
    if types.is_null(kind):
        return True
    match field.name:
        case "chain_position":
            return bool(types.is_integer(kind))
        case "time":
            return bool(types.is_timestamp(kind)) and kind.tz is not None
        case "gateway" | "body" | "erased":
            return _is_text(kind)
        case "link":
            return bool(types.is_binary(kind) or types.is_large_binary(kind))
    if types.is_list(kind) or types.is_large_list(kind):
        return _is_text(kind.value_type)
    plain = (types.is_binary, types.is_large_binary, types.is_integer, types.is_boolean, types.is_floating)
    return _is_text(kind) or any(known(kind) for known in plain)


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


class _Unreadable(Exception):
    """A file is none that the archive has written."""


@contextmanager
def _reporting_unreadable(tell: Tell) -> Iterator[None]:
    try:
        yield
    except _Unreadable as error:
        tell(Kind.UNREADABLE, str(error))


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into what a person can do something about."""
    import pyarrow

    why = f"`{file}` of the archive cannot be read"
    try:
        yield
    except PermissionError as error:
        raise LedgerUnavailable(f"{why}: {error.strerror}") from error
    except (OSError, ValueError, OverflowError, pyarrow.ArrowException) as error:
        raise _Unreadable(f"{why}: {error}") from error


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise LedgerUnavailable(
            "reading the archived days of the record needs pyarrow; install `sluice-gateway[spark]`"
        ) from None
    return parquet
