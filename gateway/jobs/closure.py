"""`closure`: the lineage graph with all that comes to a column by any way, and the columns that tags reach.

The graph is read in one snapshot of PostgreSQL, and nothing is made while it, the tags in force, what was
rejected and rules are what they were, and its tables are there. `closure_frames` says how ways are found;
each of its rounds ends in files, so that a plan is one round long.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from gateway.jobs import closure_frames as frames
from gateway.jobs.events import land
from gateway.jobs.job import Job, Outcome, Work
from gateway.jobs.spark import build_frame_writer
from gateway.jobs.tables import LakeTable
from gateway.model.context import AccessContext
from gateway.model.policy import PolicySet
from gateway.model.tags import PropagationRules
from gateway.policy.schedules import compile_schedules

VERSION = 1
SOURCE_TABLE, TAG_TABLE = "closure_source", "closure_tag"
PARTITION = "graph=now"
PART_EDGES = 250_000
"""Edges for each part of what is sorted and joined: arrays of what one task sorts stay far below its memory,
where Java may find no room for large ones."""
PART_SIZE = "16m"
_FINDING = ("table_name", "column_name", "tag", "how", "sources", "source", "distance")
_EDGES = "SELECT source, target, subtype, masking, aggregates, finished FROM sluice.lineage_edge"
_COLUMNS = (
    "SELECT c.id, c.dataset, d.name AS dataset_name, d.kind, d.parts, c.name FROM sluice.lineage_column c"
    " JOIN sluice.lineage_dataset d ON d.id = c.dataset"
)
_STATE = (
    "SELECT (SELECT count(*) FROM sluice.lineage_edge) AS edges,"
    " (SELECT count(*) FROM sluice.lineage_column) AS columns,"
    " (SELECT max(id) FROM sluice.lineage_column) AS last,"
    # Of two transactions at once, the one that began first may end last: the newest one says too little.
    " (SELECT sum(hashtextextended(id || ' ' || changed_in::text, 0))::text"
    " FROM sluice.lineage_edge) AS changed,"
    " (SELECT sum(hashtextextended(id::text, 0))::text FROM sluice.tag_proposal WHERE state = 'rejected')"
    " AS rejected"
)
_REJECTED = (
    "SELECT c.id, p.tag FROM sluice.tag_proposal p JOIN sluice.lineage_dataset d"
    " ON d.kind IN ('table', 'view') AND d.parts = ARRAY[p.catalog, p.database, p.table_name]"
    " JOIN sluice.lineage_column c ON c.dataset = d.id AND c.name = p.column_name WHERE p.state = 'rejected'"
)
"""Columns and tags, matched by name as `stops` of `lineage.proposals` are: nothing is passed on by these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureRules:
    policies: PolicySet
    """Policies whose tag rules decide which columns count as tagged."""
    propagation: PropagationRules
    basis: str
    """Another one for other tags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosureOptions:
    rules: Callable[[Any], Awaitable[ClosureRules]]
    """Reads policies and rules, given a connection; raises Faults."""
    depth: int = 30
    """Steps of a way."""
    findings: int = 10_000
    """Columns with a tag's values and without the tag that PostgreSQL has."""


def closure(options: ClosureOptions) -> Job:
    return Job(
        name="closure",
        version=VERSION,
        about="finds all columns that feed a column, and all that a tag reaches",
        reads=("sluice.lineage_edge", "sluice.tag_proposal", "policies"),
        writes=(SOURCE_TABLE, TAG_TABLE, "sluice.closure_state", "sluice.closure_finding"),
        run=lambda work: _Closure(work, options).run(),
    )


@dataclass(slots=True)
class _Made:
    pairs: int = 0
    reached: int = 0
    cut_off: str = ""
    findings: tuple[tuple[Any, ...], ...] = ()


class _Closure:
    def __init__(self, work: Work, options: ClosureOptions) -> None:
        self._work, self._options = work, options
        self._tables = {name: work.table(name) for name in (SOURCE_TABLE, TAG_TABLE)}
        # Its directory is where the graph lands, and where rounds are; there is no such table.
        self._way = LakeTable(work.lake, "_closure")

    async def run(self) -> Outcome:
        work = self._work
        for table in (*self._tables.values(), self._way):
            await table.settle(work.connection)
        rules = await self._options.rules(work.connection)
        landing = self._way.make_landing("graph")
        connection = await work.connect()
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                state = await connection.fetchrow(_STATE)
                basis = self._basis(rules, state)
                same = basis == await work.connection.fetchval("SELECT basis FROM sluice.closure_state")
                if same and not [
                    name
                    for one in self._tables.values()
                    for name in await one.find_missing_partitions(work.connection)
                ]:
                    work.progress("lineage, tags and rules have not changed")
                    self._way.remove_landing("graph")
                    return Outcome()
                await self._land(connection, landing)
        finally:
            connection.terminate()
        spark = await work.spark()
        _divide(spark, state["edges"])
        await work.tune_for_rows(state["edges"])
        made = await asyncio.to_thread(self._make, spark, rules, landing)
        for table in self._tables.values():
            await work.replace(table, PARTITION)
        work.progress("moved into place")
        async with work.connection.transaction():
            await self._summarize(made, basis, state)
            for table in self._tables.values():
                await table.commit(work.connection, PARTITION, work.run)
        for table in self._tables.values():
            await asyncio.to_thread(table.drop_replaced_files, PARTITION)
        self._way.remove_landing("graph")
        return Outcome(rows_in=state["edges"], rows_out=made.pairs + made.reached)

    def _basis(self, rules: ClosureRules, state: Any) -> str:
        told = [
            VERSION,
            rules.basis,
            _in_force(rules.policies, self._work.now),
            rules.propagation.digest,
            self._options.depth,
            self._options.findings,
            dict(state),
        ]
        return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()

    async def _land(self, connection: Any, landing: Path) -> None:
        import pyarrow

        text, texts = pyarrow.string(), pyarrow.list_(pyarrow.string())
        number, truth = pyarrow.int64(), pyarrow.bool_()
        parts = {
            "edges": (
                _EDGES,
                [
                    *(("source", number), ("target", number), ("subtype", text)),
                    *(("masking", truth), ("aggregates", texts), ("finished", truth)),
                ],
            ),
            "columns": (
                _COLUMNS,
                [
                    *(("id", number), ("dataset", number), ("dataset_name", text)),
                    *(("kind", text), ("parts", texts), ("name", text)),
                ],
            ),
            "rejected": (_REJECTED, [("id", number), ("tag", text)]),
        }
        for name, (query, fields) in parts.items():
            (landing / name).mkdir()
            rows = await land(
                connection,
                query,
                (),
                landing / name,
                names=[field for field, _ in fields],
                schema=pyarrow.schema(fields),
                told=lambda count, name=name: self._work.progress(f"{count:,} {name} read so far"),  # type: ignore[misc]
            )
            self._work.progress(f"{rows:,} {name} read")

    def _make(self, spark: Any, rules: ClosureRules, landing: Path) -> _Made:
        from pyspark.sql import functions as f

        work, depth = self._work, self._options.depth
        made, keep = _Made(), build_frame_writer(spark, landing)

        def report_step(what: str) -> Callable[[int, int], None]:
            return lambda round_, rows: work.progress(f"{what}, step {round_}: {rows:,} new or shorter")

        edges = spark.read.schema(frames.EDGES).parquet(str(landing / "edges"))
        columns = spark.read.schema(frames.COLUMNS).parquet(str(landing / "columns"))
        near = keep("beside", frames.join_leaving_columns(columns))
        hopped = keep("hops", frames.hops(frames.carries(edges), near))
        reach, more = frames.compute_closure(
            frames.build_feeding_steps(edges),
            frames.build_edge_step(hopped),
            keep,
            # The edges themselves are the first step.
            depth=depth - 1,
            said=report_step("what feeds what"),
            name="feeds",
        )
        made.pairs = self._write(spark, SOURCE_TABLE, frames.join_sources(reach, near, columns))
        whole = f.forall("parts", lambda part: part.isNotNull())
        in_tables = columns.where((f.col("kind") == "table") & (f.size("parts") == 3) & whole)
        context = AccessContext(time=work.now)
        tagged = keep(
            "tagged", in_tables.mapInArrow(frames.build_tagger(rules.policies, context), frames.TAGGED)
        )
        flowing = keep("values", frames.hops(frames.values(edges, rules.propagation), near))
        tags = sorted(row["tag"] for row in tagged.select("tag").distinct().collect())
        kinds = flowing.select("subtype", "aggregates").distinct().collect()
        told = frames.follows(
            spark,
            rules.propagation,
            tags,
            sorted((row["subtype"], tuple(row["aggregates"] or ())) for row in kinds),
        )
        rejected = spark.read.schema(frames.TAGGED).parquet(str(landing / "rejected"))
        spread, on = frames.compute_closure(
            frames.build_tagged_starts(tagged),
            frames.along_values(flowing, told, rejected),
            keep,
            depth=depth,
            said=report_step("where tags go"),
            name="tags",
        )
        named = keep("named", frames.join_tags(spread, tagged, rejected, columns))
        made.reached = self._write(spark, TAG_TABLE, named)
        found = frames.findings(named, columns, self._options.findings)
        made.findings = tuple(tuple(row[name] for name in _FINDING) for row in found.collect())
        if more or on:
            made.cut_off = f"some paths have more than {depth} steps"
            work.progress(made.cut_off)
        return made

    def _write(self, spark: Any, name: str, frame: Any) -> int:
        staged = str(self._tables[name].make_staging_path(PARTITION))
        frame.write.parquet(staged)
        rows = int(spark.read.schema(frame.schema).parquet(staged).count())
        self._work.progress(f"{rows:,} rows of {name} written")
        return rows

    async def _summarize(self, made: _Made, basis: str, state: Any) -> None:
        connection = self._work.connection
        await connection.execute(
            "INSERT INTO sluice.closure_state (basis, run, columns, edges, pairs, cut_off)"
            " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (only_one) DO UPDATE SET basis = excluded.basis,"
            " run = excluded.run, columns = excluded.columns, edges = excluded.edges, pairs = excluded.pairs,"
            " cut_off = excluded.cut_off",
            *(basis, self._work.run, state["columns"], state["edges"], made.pairs, made.cut_off),
        )
        await connection.execute("DELETE FROM sluice.closure_finding")
        await connection.copy_records_to_table(
            "closure_finding", schema_name="sluice", records=made.findings, columns=_FINDING
        )


def _divide(spark: Any, edges: int) -> None:
    """Set the number of partitions, so that those sorted and joined do not grow with the graph."""
    parts = max(int(spark.conf.get("spark.sql.shuffle.partitions")), edges // PART_EDGES)
    spark.conf.set("spark.sql.shuffle.partitions", str(parts))
    spark.conf.set("spark.sql.adaptive.advisoryPartitionSizeInBytes", PART_SIZE)


def _in_force(policies: PolicySet, now: datetime) -> list[bool | None]:
    """Return of each tag that is for a time whether it is one now."""
    return [
        compile_schedules(tag.validity)(now)
        for _, service in sorted(policies.services.items())
        for tagged in service.tagged
        for tag in tagged.tags
        if tag.validity
    ]
