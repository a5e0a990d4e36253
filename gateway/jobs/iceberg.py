"""A table of the lake in an Iceberg catalog: a partition is replaced by one commit of the table.

What is written is staged as files beside, as for a directory of Parquet, and looked at there. Then one commit
puts it in the partition's place, with the run's number in the snapshot's summary. PostgreSQL says which run
the partition is of, so `settle` can tell what a killed run has committed here and not there, and goes back.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from gateway.errors import LedgerUnavailable
from gateway.jobs.tables import STAGING, LakeTable, choose_partitions

CLOCKS_APART = timedelta(minutes=10)
"""How far the clocks of PostgreSQL and of Spark may be from each other."""
RUN, PARTITION = "sluice-run", "sluice-partition"
"""Keys of a snapshot's summary."""


@dataclass(frozen=True, slots=True)
class IcebergTable(LakeTable):
    """One table, whose staging and landing are in the directory of the jobs all the same."""

    place_of_tables: str
    """Catalog and database, dotted."""
    writer: str
    """The job that writes it."""
    run: int
    """Run id of the job at work, which may be another's."""
    start: Callable[[], Awaitable[Any]]
    """Returns the Spark session, and begins it where there is none."""
    session: Callable[[], Any]
    """Returns the one that has begun."""

    @property
    def full_name(self) -> str:
        return f"{self.place_of_tables}.{self.name}"

    async def settle(self, connection: Any) -> None:
        await LakeTable.settle(self, connection)
        runs = await connection.fetch(
            "SELECT id, state, started_at FROM sluice.job_run WHERE job = $1 AND id <> $2 ORDER BY id DESC",
            self.writer,
            self.run,
        )
        if not runs or runs[0]["state"] == "done":
            return
        ended_badly = {str(row["id"]): row["started_at"] for row in runs if row["state"] != "done"}
        committed = await self._load_committed_runs(connection)
        await asyncio.to_thread(self._go_back, await self.start(), committed, ended_badly)

    async def find_missing_partitions(self, connection: Any) -> list[str]:
        """Return partitions that a run filled, and that are not there: somebody has deleted them, or rolled
        the table back. This begins Spark."""
        rows = await connection.fetch(
            "SELECT partition FROM sluice.job_partition WHERE table_name = $1 AND filled", self.name
        )
        there = set(await self.partitions()) if rows else set()
        return [row["partition"] for row in rows if row["partition"] not in there]

    def replace(self, partition: str, run: int) -> None:
        from pyspark.sql import functions as f

        spark, staging = self.session(), self.directory / STAGING
        key, _, value = partition.partition("=")
        staged = staging / partition
        if any(staged.rglob("*.parquet")):
            frame = spark.read.option("basePath", str(staging)).parquet(str(staged))
            self._make(spark, frame, (key, *_keys_below(staged)))
        elif self._is_there(spark):
            frame = spark.table(self.full_name).limit(0)
        else:
            return
        (
            frame.writeTo(self.full_name)
            .option("mergeSchema", "true")
            .option(f"snapshot-property.{RUN}", str(run))
            .option(f"snapshot-property.{PARTITION}", partition)
            .overwrite(f.col(key) == f.lit(value))
        )

    def drop_replaced_files(self, partition: str) -> None:
        LakeTable.drop_replaced_files(self, partition)
        shutil.rmtree(self.directory / STAGING / partition, ignore_errors=True)

    def forget(self) -> None:
        # What erased texts were in would be a snapshot away.
        spark = self.session()
        if self._is_there(spark):
            self._call(spark, "expire_snapshots", "older_than => TIMESTAMP '9999-01-01', retain_last => 1")

    async def partitions(self) -> list[str]:
        spark = await self.start()
        return await asyncio.to_thread(self._partitions, spark)

    def read(
        self, spark: Any, schema: str, partitions: Sequence[str] | None = None, *, all_there: bool = True
    ) -> Any:
        from pyspark.sql import functions as f

        empty = spark.createDataFrame([], schema)
        wanted = choose_partitions(self.name, self._partitions(spark), partitions, all_there=all_there)
        if not wanted:
            return empty
        key = wanted[0].partition("=")[0]
        frame = spark.table(self.full_name).where(f.col(key).isin([one.partition("=")[2] for one in wanted]))
        # What an older version has written may be without the newest columns.
        there = set(frame.columns)
        return frame.select(
            *(
                f.col(one.name) if one.name in there else f.lit(None).cast(one.dataType).alias(one.name)
                for one in empty.schema
            )
        )

    def _partitions(self, spark: Any) -> list[str]:
        if not self._is_there(spark):
            return []
        of = spark.table(f"{self.full_name}.partitions")
        key = of.schema["partition"].dataType.names[0]
        rows = of.select(of["partition"][key].alias("value")).distinct().collect()
        return sorted(f"{key}={row['value']}" for row in rows)

    def remove(self, partition: str) -> None:
        key, _, value = partition.partition("=")
        self.session().sql(f"DELETE FROM {self.full_name} WHERE {key} = '{value}'")

    def bytes_of(self, partition: str) -> int:
        key, _, value = partition.partition("=")
        spark = self.session()
        if not self._is_there(spark):
            return 0
        query = f"SELECT sum(file_size_in_bytes) AS n FROM {self.full_name}.files"
        return int(spark.sql(f"{query} WHERE partition.{key} = '{value}'").collect()[0]["n"] or 0)

    def _make_written_path(self, partition: str) -> Path:
        return self.directory / STAGING / partition

    def _is_there(self, spark: Any) -> bool:
        return bool(spark.catalog.tableExists(self.full_name))

    def _make(self, spark: Any, frame: Any, keys: Sequence[str]) -> None:
        """Make the table where it is not there, with the columns of the frame."""
        from pyspark.sql import functions as f

        if self._is_there(spark):
            return
        spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {self.place_of_tables}")
        first, *others = (f.col(key) for key in keys)
        (
            frame.limit(0)
            .writeTo(self.full_name)
            .using("iceberg")
            .partitionedBy(first, *others)
            .tableProperty("write.spark.accept-any-schema", "true")
            .create()
        )

    def _go_back(self, spark: Any, committed: Mapping[str, str], ended_badly: Mapping[str, datetime]) -> None:
        """Take back the commits that PostgreSQL does not know of; they are the last ones, if any.
        `ended_badly`: runs, and when each began; what was committed long before is of another run, whose
        number an older copy of PostgreSQL has given once more.

        Raises LedgerUnavailable for one by a run that has not ended badly: PostgreSQL may be an older copy of
        itself, and the table alone have what was archived since.
        """
        if not self._is_there(spark):
            return
        rows = spark.sql(
            f"SELECT snapshot_id, parent_id, summary['{RUN}'] AS run, summary['{PARTITION}'] AS part,"
            f" unix_micros(committed_at) AS at FROM {self.full_name}.snapshots"
        ).collect()
        snapshots = {row["snapshot_id"]: row for row in rows}
        heads = spark.sql(f"SELECT snapshot_id FROM {self.full_name}.refs WHERE name = 'main'").collect()
        if not heads:
            return
        head = at = heads[0]["snapshot_id"]
        while (one := snapshots.get(at)) is not None and one["run"] is not None:
            if committed.get(one["part"]) == one["run"]:
                break
            began = ended_badly.get(one["run"])
            if began is None or one["at"] < (began - CLOCKS_APART).timestamp() * 1e6:
                raise LedgerUnavailable(
                    f"`{self.full_name}` has {one['part']} by run {one['run']}, a commit that PostgreSQL "
                    "does not list: nothing is rolled back"
                )
            at = one["parent_id"]
        if at == head:
            return
        if at is None:
            spark.sql(f"DELETE FROM {self.full_name}")
            return
        self._call(spark, "rollback_to_snapshot", f"snapshot_id => {at}")

    def _call(self, spark: Any, procedure: str, arguments: str) -> None:
        catalog, _, database = self.place_of_tables.partition(".")
        table = f"{database}.{self.name}"
        spark.sql(f"CALL {catalog}.system.{procedure}(table => '{table}', {arguments})")


def _keys_below(staged: Any) -> list[str]:
    """Return what the directories within a partition are named by."""
    names = sorted(one.name for one in staged.iterdir() if one.is_dir() and "=" in one.name)
    return [names[0].partition("=")[0]] if names else []
