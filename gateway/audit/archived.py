"""Reads days of the record that are in the archive, in the order of a chain and within bounded memory.

The files are Parquet, `day=…/hour=…`, each sorted by gateway and position. Their row groups say which
positions they have, so that one is opened when its turn comes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from gateway.audit.rows import COLUMNS
from gateway.errors import LedgerUnavailable

Row = Mapping[str, Any]
Source = tuple[int, Callable[[], Iterator[Row]]]
"""The first position that rows can have, and how to get them, in order of their positions."""
BATCH_ROWS = 500
NEEDED = frozenset({*COLUMNS, "erased"})


@dataclass(frozen=True, slots=True)
class ArchivedStretch:
    """Where a gateway's chain is in an archived day."""

    day: date
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Archive:
    """The table of archived events."""

    directory: Path
    """`audit_event` in the directory of the jobs' tables."""

    def rows(
        self, gateway: str, stretches: Iterable[ArchivedStretch], first: int, last: int
    ) -> Iterator[Row]:
        """Yield a gateway's events from one position to another, by position.

        Raises LedgerUnavailable when files are not there or cannot be read.
        """
        sources: list[Source] = [
            (max(first, one.first), self._opener(one, gateway, first, last))
            for one in stretches
            if one.first <= last and one.last >= first
        ]
        yield from merged(sources)

    def _opener(
        self, one: ArchivedStretch, gateway: str, first: int, last: int
    ) -> Callable[[], Iterator[Row]]:
        return lambda: merged(
            _row_groups(self.directory / f"day={one.day.isoformat()}", gateway, first, last)
        )


def merged(sources: Iterable[Source]) -> Iterator[Row]:
    """Yield the rows of all sources by position; a source is opened when its first position comes."""
    heap: list[tuple[int, int, Row | None, Any]] = [
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


def _row_groups(directory: Path, gateway: str, first: int, last: int) -> list[Source]:
    """Return a day's row groups that may have events of a gateway between two positions."""
    parquet = _parquet()
    files = sorted(directory.glob("hour=*/*.parquet"))
    if not files:
        raise LedgerUnavailable(f"the archive has no files in `{directory}`")
    found: list[Source] = []
    for file in files:
        with _readable(file):
            metadata = parquet.read_metadata(file)
            for number in range(metadata.num_row_groups):
                group = metadata.row_group(number)
                gateways = _bounds(group, _column(group, "gateway"))
                positions = _bounds(group, _column(group, "chain_position"))
                if gateways is not None and not gateways[0] <= gateway <= gateways[1]:
                    continue
                if positions is not None and (positions[0] > last or positions[1] < first):
                    continue
                begins = positions[0] if positions is not None else first
                found.append((begins, _reader(file, number, gateway, first, last)))
    return found


def _reader(file: Path, group: int, gateway: str, first: int, last: int) -> Callable[[], Iterator[Row]]:
    def rows() -> Iterator[Row]:
        parquet = _parquet()
        with _readable(file), parquet.ParquetFile(file) as opened:
            # What an older version has written may be without the newest columns.
            newer = dict.fromkeys(NEEDED - set(opened.schema_arrow.names))
            for batch in opened.iter_batches(batch_size=BATCH_ROWS, row_groups=[group]):
                for row in batch.to_pylist():
                    position = row["chain_position"]
                    if row["gateway"] == gateway and position is not None and first <= position <= last:
                        yield {**newer, **row} if newer else row

    return rows


def _column(group: Any, name: str) -> int:
    names = [group.column(at).path_in_schema for at in range(group.num_columns)]
    if name not in names:
        raise OSError(f"it has no column `{name}`")
    return names.index(name)


def _bounds(group: Any, column: int) -> tuple[Any, Any] | None:
    """Return the least and greatest value of a column of a row group; None where it does not say."""
    statistics = group.column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return None
    return statistics.min, statistics.max


@contextmanager
def _readable(file: Path) -> Iterator[None]:
    """Turn what goes wrong with a file into what a person can do something about."""
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException) as error:
        raise LedgerUnavailable(f"`{file}` of the archive cannot be read: {error}") from error


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise LedgerUnavailable(
            "days of the record are in the archive, which takes pyarrow to read: `sluice-gateway[spark]`"
        ) from None
    return parquet
