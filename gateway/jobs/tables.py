"""A table in the lake: a directory of Parquet whose partitions are replaced as a whole, or not at all.

What is written goes beside the table first. A partition is replaced by two renames: the old one aside, or
nothing, as an empty directory; the new one in its place. What is aside goes when PostgreSQL has said which
run wrote the partition. So whatever a killed run has left, `settle` can tell from there whether to go on or
to go back.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gateway.errors import LedgerUnavailable

STAGING, REPLACED, LANDING, WRITTEN_BY = "_staging", "_replaced", "_landing", "_run"
"""Spark takes nothing for data whose name begins so."""
_LANDS_IN = {"audit_event": "archive"}
"""The job that lands beside a table of another name. All others have a directory of their own name, perhaps
with an underscore before it."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """One table; a partition is the name of a directory in it, such as `day=2026-11-20`."""

    lake: Path
    name: str

    @property
    def directory(self) -> Path:
        return self.lake / self.name

    def place(self, partition: str) -> Path:
        return self.directory / partition

    async def settle(self, connection: Any) -> None:
        """Put right what a killed run has left; call it with the job's lock held."""
        self.directory.mkdir(parents=True, exist_ok=True)
        committed = await self._load_committed_runs(connection)
        for aside in _entries(self.directory / REPLACED):
            place = self.place(aside.name)
            if _read_run(place) == committed.get(aside.name, ""):
                shutil.rmtree(aside)
                continue
            shutil.rmtree(place, ignore_errors=True)
            if any(aside.iterdir()):
                aside.rename(place)
            else:
                aside.rmdir()
            _sync(self.directory)
        for name in (STAGING, LANDING):
            shutil.rmtree(self.directory / name, ignore_errors=True)

    async def _load_committed_runs(self, connection: Any) -> dict[str, str]:
        """Return the run that wrote each partition, as PostgreSQL has it."""
        rows = await connection.fetch(
            "SELECT partition, run FROM sluice.job_partition WHERE table_name = $1", self.name
        )
        return {row["partition"]: str(row["run"]) for row in rows}

    async def find_missing_partitions(self, connection: Any) -> list[str]:
        """Return partitions that a run wrote, and that are not there: somebody has removed them."""
        return [name for name in await self._load_committed_runs(connection) if not self.place(name).is_dir()]

    def make_staging_path(self, partition: str) -> Path:
        """Return a place that is not there yet, for the partition's new files."""
        return self._fresh(STAGING, partition)

    def make_shared_staging_path(self) -> Path:
        """Return a place that is not there yet, for the new files of several partitions."""
        return self._fresh(STAGING, "")

    def make_landing(self, partition: str) -> Path:
        """Return an empty directory for what the partition is made of."""
        made = self._fresh(LANDING, partition)
        made.mkdir()
        return made

    def remove_landing(self, partition: str) -> None:
        shutil.rmtree(self.directory / LANDING / partition, ignore_errors=True)

    def replace(self, partition: str, run: int) -> None:
        """Put the staged files, on the disk by now, in place of the partition. `drop_replaced_files` comes
        after it."""
        staged, place = self.directory / STAGING / partition, self.place(partition)
        staged.mkdir(parents=True, exist_ok=True)  # no rows, no files
        (staged / WRITTEN_BY).write_text(str(run))
        for directory, _, files in os.walk(staged):
            for name in files:
                _sync(Path(directory) / name)
            _sync(Path(directory))
        aside = self.directory / REPLACED / partition
        aside.parent.mkdir(exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        if place.exists():
            place.rename(aside)
        else:
            aside.mkdir()
        _sync(aside.parent)
        staged.rename(place)
        _sync(self.directory)

    async def commit(self, connection: Any, partition: str, run: int) -> None:
        """Say that the partition is the run's: part of the transaction that says what is in it."""
        await connection.execute(
            "INSERT INTO sluice.job_partition (table_name, partition, run, filled) VALUES ($1, $2, $3, $4)"
            " ON CONFLICT (table_name, partition) DO UPDATE SET run = excluded.run, filled = excluded.filled",
            self.name,
            partition,
            run,
            any(self._make_written_path(partition).rglob("*.parquet")),
        )

    def drop_replaced_files(self, partition: str) -> None:
        """Let the old files go; call it after the transaction."""
        shutil.rmtree(self.directory / REPLACED / partition, ignore_errors=True)
        self.remove_landing(partition)

    def forget(self) -> None:
        """Make sure that nothing replaced is read any more; call it when all partitions are
        `drop_replaced_files`."""

    async def partitions(self) -> list[str]:
        """Return the partitions that are there, whoever has put them there."""
        return [one.name for one in _entries(self.directory) if one.is_dir() and not one.name.startswith("_")]

    def read(
        self, spark: Any, schema: str, partitions: Sequence[str] | None = None, *, all_there: bool = True
    ) -> Any:
        """Return a frame of partitions, with the columns of `schema`, which may have their keys; None: of all
        that are there. Raises LedgerUnavailable where one is not, unless some need not be (`all_there`)."""
        there = {one.name: str(one) for one in _entries(self.directory) if "=" in one.name}
        wanted = choose_partitions(self.name, there, partitions, all_there=all_there)
        empty = spark.createDataFrame([], schema)
        if not wanted:
            return empty
        read = spark.read.schema(schema).option("basePath", str(self.directory))
        frame = read.parquet(*(there[name] for name in wanted))
        return frame.select(*(f"`{name}`" for name in empty.columns))

    def remove(self, partition: str) -> None:
        """Remove a partition, whatever PostgreSQL says of it."""
        shutil.rmtree(self.place(partition), ignore_errors=True)

    def bytes_of(self, partition: str) -> int:
        return sum(file.stat().st_size for file in self.place(partition).rglob("*.parquet"))

    def _make_written_path(self, partition: str) -> Path:
        """Return where a partition's files are between `replace` and `drop_replaced_files`."""
        return self.place(partition)

    def _fresh(self, kind: str, partition: str) -> Path:
        place = self.directory / kind / partition
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        return place


def landings(lake: Path) -> Iterator[tuple[str, Path]]:
    """Yield where something lies that runs have read of the record, with the names of their jobs."""
    for directory in _entries(lake):
        if os.path.isdir(directory / LANDING):  # noqa: PTH112 - `is_dir` raises where it may not look
            yield _LANDS_IN.get(directory.name, directory.name.removeprefix("_")), directory / LANDING


def clear_landing(lake: Path, job: str) -> None:
    """Remove what runs of a job have read of the record; call it with the job's lock held."""
    for owner, place in landings(lake):
        if owner == job:
            shutil.rmtree(place, ignore_errors=True)


def choose_partitions(
    table: str, there: Collection[str], partitions: Sequence[str] | None, *, all_there: bool
) -> list[str]:
    if partitions is None:
        return sorted(there)
    gone = [name for name in partitions if name not in there]
    if gone and all_there:
        raise LedgerUnavailable(f"table `{table}` of the lake has no column `{gone[0]}`")
    return [name for name in partitions if name in there]


def _read_run(place: Path) -> str | None:
    try:
        return (place / WRITTEN_BY).read_text()
    except OSError:
        return None


def _entries(directory: Path) -> Iterator[Path]:
    yield from sorted(directory.iterdir()) if directory.is_dir() else ()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
